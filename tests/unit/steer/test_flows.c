/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Connections made in conntrack by hand, dropped by mark and by address. Exit 77 where namespaces are not permitted. */
#include "ways_fixture.h"
#include <arpa/inet.h>
#include <libnetfilter_conntrack/libnetfilter_conntrack.h>
#include <libnetfilter_conntrack/libnetfilter_conntrack_tcp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"

static struct nfct_handle *handle;

static void flow_make(int family, unsigned number, unsigned to, uint32_t mark)
{
	struct nf_conntrack *ct = nfct_new();
	assert_non_null(ct);
	nfct_set_attr_u8(ct, ATTR_L3PROTO, (uint8_t)family);
	if (family == AF_INET) {
		nfct_set_attr_u32(ct, ATTR_IPV4_SRC, htonl(0x0a010000 + number / 50000));
		nfct_set_attr_u32(ct, ATTR_IPV4_DST, htonl(0xc6336400 + to));
	} else {
		uint8_t source[16] = {0x20, 1, 0xd, 0xb8, [15] = 1}, target[16] = {0x20, 1, 0xd, 0xb8, 9, [15] = (uint8_t)to};
		nfct_set_attr(ct, ATTR_IPV6_SRC, source);
		nfct_set_attr(ct, ATTR_IPV6_DST, target);
	}
	nfct_set_attr_u8(ct, ATTR_L4PROTO, IPPROTO_UDP);
	nfct_set_attr_u16(ct, ATTR_PORT_SRC, htons((uint16_t)(1000 + number % 50000)));
	nfct_set_attr_u16(ct, ATTR_PORT_DST, htons(443));
	nfct_setobjopt(ct, NFCT_SOPT_SETUP_REPLY);
	nfct_set_attr_u32(ct, ATTR_TIMEOUT, 600);
	nfct_set_attr_u32(ct, ATTR_MARK, mark);
	if (nfct_query(handle, NFCT_Q_CREATE, ct) < 0)
		fail_msg("a conntrack entry could not be made");
	nfct_destroy(ct);
}

struct count {
	unsigned all;
	uint32_t mark, mask;
	unsigned marked;
};

static int flow_count(enum nf_conntrack_msg_type type, struct nf_conntrack *ct, void *ctx)
{
	struct count *c = ctx;
	(void)type;
	c->all++;
	c->marked += (nfct_get_attr_u32(ct, ATTR_MARK) & c->mask) == c->mark;
	return NFCT_CB_CONTINUE;
}

static struct count flows_count(uint32_t mark, uint32_t mask)
{
	struct count c = {.mark = mark, .mask = mask};
	uint32_t family = AF_UNSPEC;
	nfct_callback_register(handle, NFCT_T_ALL, flow_count, &c);
	assert_int_equal(nfct_query(handle, NFCT_Q_DUMP, &family), 0);
	nfct_callback_unregister(handle);
	return c;
}

static int setup(void **state)
{
	assert_int_equal(unshare(CLONE_NEWNET), 0);
	handle = nfct_open(CONNTRACK, 0);
	return handle ? 0 : -1;
}

static int teardown(void **state)
{
	nfct_close(handle);
	return 0;
}

static void test_by_mark(void **state)
{
	for (unsigned i = 0; i < 300; i++)
		flow_make(i & 1 ? AF_INET : AF_INET6, i, i % 10, i % 3 == 0 ? 0x1055 : i % 3 == 1 ? 0x2055 : 0x55);
	/* A mark of zero would be everybody's. */
	assert_true(flows_drop_mark(0, 0xf000) < 0);
	assert_true(flows_drop_mark(0x55, 0xf000) < 0);
	assert_true(flows_drop_mark(0x1000, 0) < 0);
	assert_int_equal(flows_count(0, 0).all, 300);
	assert_int_equal(flows_drop_mark(0x1000, 0xf000), 100);
	assert_int_equal(flows_count(0x1000, 0xf000).marked, 0);
	assert_int_equal(flows_count(0, 0).all, 200);
	assert_int_equal(flows_drop_mark(0x1000, 0xf000), 0);
}

static struct addr target(int family, unsigned n)
{
	struct addr a = {.family = (uint8_t)family};
	char text[64];
	snprintf(text, sizeof text, family == AF_INET ? "198.51.100.%u" : "2001:db8:900::%x", n);
	assert_int_equal(addr_parse(&a, text), 0);
	return a;
}

static void by_address(unsigned extra)
{
	struct addr a[32];
	unsigned count = 0;
	for (unsigned i = 0; i < 400; i++)
		flow_make(i & 1 ? AF_INET : AF_INET6, i, i / 2 % 10, i < 200 ? 0x1055 : 0x55);
	a[count++] = target(AF_INET, 3);
	a[count++] = target(AF_INET6, 4);
	for (unsigned i = 0; i < extra; i++)
		a[count++] = target(AF_INET, 100 + i); /* nobody talks to these */
	assert_int_equal(flows_drop_addresses(a, count, 0xf000), 20);
	/* Entries without a mark of ours stay: 20 to the two addresses. */
	assert_int_equal(flows_count(0, 0).all, 380);
	assert_int_equal(flows_count(0x1000, 0xf000).marked, 180);
	assert_int_equal(flows_drop_addresses(a, count, 0xf000), 0);
	assert_int_equal(flows_drop_addresses(a, 0, 0xf000), 0);
}

static void test_by_few_addresses(void **state)
{
	by_address(0);
}

static void test_by_many_addresses(void **state)
{
	by_address(20);
}

/* A well filled table. The bound is far above what it takes; a request per entry or a walk per entry would not meet it. */
static void test_large_table(void **state)
{
	enum { MANY = 60000 };
	for (unsigned i = 0; i < MANY; i++)
		flow_make(AF_INET, i, i % 200, i & 1 ? 0x1000 : 0x2000);
	struct addr a = target(AF_INET, 7);
	uint64_t start = clock_ms();
	assert_int_equal(flows_drop_addresses(&a, 1, 0xf000), MANY / 200);
	assert_int_equal(flows_drop_mark(0x2000, 0xf000), MANY / 2);
	uint64_t took = clock_ms() - start;
	printf("           %d entries: %llu ms\n", MANY, (unsigned long long)took);
	assert_true(took < 5000);
}

int main(void)
{
	if (!world_permitted())
		return 77;
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(test_by_mark, setup, teardown),
	        cmocka_unit_test_setup_teardown(test_by_few_addresses, setup, teardown),
	        cmocka_unit_test_setup_teardown(test_by_many_addresses, setup, teardown),
	        cmocka_unit_test_setup_teardown(test_large_table, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
