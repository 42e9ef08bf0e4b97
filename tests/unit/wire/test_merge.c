/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Merging a chased chain, and what an answer says about hosts outside its chain. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "wire/patch.h"

struct message { uint8_t bytes[1024]; size_t len; };

static void put(struct message *m, const void *bytes, size_t len)
{
	memcpy(m->bytes + m->len, bytes, len);
	m->len += len;
}

static void put16(struct message *m, unsigned v)
{
	put(m, (uint8_t[]){ (uint8_t)(v >> 8), (uint8_t)v }, 2);
}

static void put_name(struct message *m, const char *text)
{
	struct name n;
	assert_int_equal(name_from_text(&n, text, strlen(text)), 0);
	put(m, n.wire, n.len);
}

static void begin(struct message *m, const char *qname, unsigned qtype, unsigned answers, unsigned authority)
{
	m->len = 0;
	put16(m, 7);
	put16(m, FLAG_QR | FLAG_RD | FLAG_RA);
	put16(m, 1);
	put16(m, answers);
	put16(m, authority);
	put16(m, 0);
	put_name(m, qname);
	put16(m, qtype);
	put16(m, 1);
}

static void record(struct message *m, const char *owner, unsigned type, unsigned ttl)
{
	if (owner)
		put_name(m, owner);
	else
		put16(m, 0xc00c);
	put16(m, type);
	put16(m, 1);
	put16(m, 0);
	put16(m, ttl);
}

static void cname(struct message *m, const char *owner, const char *target)
{
	struct name n;
	assert_int_equal(name_from_text(&n, target, strlen(target)), 0);
	record(m, owner, RR_CNAME, 300);
	put16(m, n.len);
	put(m, n.wire, n.len);
}

static void a_record(struct message *m, const char *owner, const uint8_t addr[4])
{
	record(m, owner, RR_A, 60);
	put16(m, 4);
	put(m, addr, 4);
}

static void a_chased_chain_is_one_answer(void **state)
{
	(void)state;
	struct message first, second, merged;
	struct wire_answer walk;
	begin(&first, "www.one.example", RR_A, 2, 0);
	cname(&first, NULL, "b.two.example");
	cname(&first, "b.two.example", "c.three.example");
	assert_int_equal(wire_answer_walk(&walk, first.bytes, first.len), 0);
	assert_true(walk.is_chain_open);
	begin(&second, "c.three.example", RR_A, 2, 0);
	cname(&second, NULL, "d.four.example");
	a_record(&second, "d.four.example", (const uint8_t[]){ 198, 51, 100, 7 });
	int n = wire_chain_merge(merged.bytes, sizeof merged.bytes, first.bytes, first.len, second.bytes, second.len);
	assert_true(n > 0);
	assert_int_equal(wire_answer_walk(&walk, merged.bytes, (size_t)n), 0);
	assert_false(walk.is_chain_open);
	assert_int_equal(walk.chain_len, 4);
	assert_int_equal(walk.addr_count, 1);
	assert_int_equal(walk.addrs[0].b[3], 7);
	assert_int_equal(walk.ttl_min_s, 60);
	assert_true(wire_answer_matches(merged.bytes, (size_t)n, &walk.chain[0], RR_A, 1));
}

static void what_does_not_fit_or_parse_is_refused(void **state)
{
	(void)state;
	struct message first, second;
	uint8_t out[1024];
	begin(&first, "www.one.example", RR_A, 1, 0);
	cname(&first, NULL, "b.two.example");
	begin(&second, "b.two.example", RR_A, 1, 0);
	a_record(&second, NULL, (const uint8_t[]){ 198, 51, 100, 7 });
	int whole = wire_chain_merge(out, sizeof out, first.bytes, first.len, second.bytes, second.len);
	assert_true(whole > 0);
	for (int room = 0; room < whole; room++)
		assert_true(wire_chain_merge(out, (size_t)room, first.bytes, first.len, second.bytes, second.len) < 0);
	for (size_t cut = 0; cut < second.len; cut++)
		assert_true(wire_chain_merge(out, sizeof out, first.bytes, first.len, second.bytes, cut) < 0);
}

static void a_mapped_address_is_an_ipv4_address(void **state)
{
	(void)state;
	struct message m;
	struct wire_answer walk;
	begin(&m, "x.example", RR_AAAA, 1, 0);
	record(&m, NULL, RR_AAAA, 60);
	put16(&m, 16);
	put(&m, (const uint8_t[16]){ [10] = 0xff, [11] = 0xff, 203, 0, 113, 9 }, 16);
	assert_int_equal(wire_answer_walk(&walk, m.bytes, m.len), 0);
	assert_int_equal(walk.addr_count, 1);
	assert_int_equal(walk.addrs[0].family, AF_INET);
	assert_int_equal(walk.addrs[0].b[0], 203);
}

static void https(struct message *m, const char *target)
{
	struct name n;
	assert_int_equal(name_from_text(&n, target, strlen(target)), 0);
	record(m, NULL, RR_HTTPS, 60);
	put16(m, 2u + n.len);
	put16(m, 1);
	put(m, n.wire, n.len);
}

static void a_service_at_another_host_is_told(void **state)
{
	(void)state;
	static const struct { const char *target; bool leads_elsewhere; } cases[] = { { ".", false }, { "x.example", false }, { "cdn.test", true } };
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct message m;
		struct wire_answer walk;
		begin(&m, "x.example", RR_HTTPS, 1, 0);
		https(&m, cases[i].target);
		assert_int_equal(wire_answer_walk(&walk, m.bytes, m.len), 0);
		assert_int_equal(walk.has_other_target, cases[i].leads_elsewhere);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_chased_chain_is_one_answer), cmocka_unit_test(what_does_not_fit_or_parse_is_refused),
		cmocka_unit_test(a_mapped_address_is_an_ipv4_address), cmocka_unit_test(a_service_at_another_host_is_told) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
