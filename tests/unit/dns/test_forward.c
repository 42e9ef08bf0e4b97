/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which upstream is asked, what is given while none answers, and which answers are not believed. */
#include "world.h"
#include <string.h>
#include <unistd.h>

static const char config[] =
	"server: { listen: [192.168.8.1@53], allow: [lan], element-min: 60s }\n"
	"upstreams: { default: { servers: [127.0.0.1@%u] }, corp: { servers: [127.0.0.1@%u], domains: [corp.example, 10.in-addr.arpa, deep.test] } }\n"
	"cache: { serve-stale: 1h }\n"
	"local: { domain: lan, rebind-protection: { allow: [intern.example] } }\n"
	"clients: { lan: { networks: [192.168.8.0/24] } }\n";

static struct world x;
static struct reply r;
static struct make m;

static int set_up(void **state)
{
	(void)state;
	world_start(&x, config);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	world_stop(&x);
	return 0;
}

static void test_split_domains(void **state)
{
	static const struct { const char *name; unsigned group; } asked[] = { { "corp.example", 1 }, { "a.b.corp.example", 1 }, { "notcorp.example", 0 }, { "example", 0 },
		{ "1.2.3.10.in-addr.arpa", 1 }, { "x.deep.test", 1 } };
	(void)state;
	for (unsigned i = 0; i < sizeof asked / sizeof *asked; i++) {
		ask_a(&x, asked[i].name);
		upstream_expect(&x, asked[i].group, asked[i].name, RR_A);
		answer_a(&m, asked[i].name, 60, "192.0.2.1");
		upstream_gives(&x, asked[i].group, &m);
		hear(x.client, &r);
		assert_true(has_address(&r, "192.0.2.1"));
	}
}

static void test_stale_after_the_first_timeout(void **state)
{
	(void)state;
	ask_a(&x, "old.example");
	resolves(&x, "old.example", 1, "192.0.2.7");
	hear(x.client, &r);
	/* Seconds of the cache's clock have to pass. */
	usleep(2100000);
	ask_a(&x, "old.example");
	upstream_expect(&x, 0, "old.example", RR_A);
	hear(x.client, &r);
	assert_true(has_address(&r, "192.0.2.7"));
	assert_int_equal(r.ede, EDE_STALE);
	assert_int_equal(r.walk.ttl_min_s, 30);
	assert_int_equal(worker_counter(x.w, C_STALE), 1);
	/* What upstream says late is kept all the same. */
	answer_a(&m, "old.example", 60, "192.0.2.8");
	upstream_gives(&x, 0, &m);
	for (int i = 0; i < 100; i++) {
		ask_a(&x, "old.example");
		hear(x.client, &r);
		if (has_address(&r, "192.0.2.8"))
			break;
		usleep(10000);
	}
	assert_true(has_address(&r, "192.0.2.8"));
	assert_int_equal(r.ede, -1);
}

static void test_stale_instead_of_servfail(void **state)
{
	(void)state;
	ask_a(&x, "old.example");
	resolves(&x, "old.example", 1, "192.0.2.7");
	hear(x.client, &r);
	usleep(2100000);
	ask_a(&x, "old.example");
	upstream_expect(&x, 0, "old.example", RR_A);
	make_head(&m, 0x8182, 0, 0, 0, "old.example", RR_A);
	upstream_gives(&x, 0, &m);
	hear(x.client, &r);
	assert_true(has_address(&r, "192.0.2.7"));
	ask_a(&x, "never.example");
	upstream_expect(&x, 0, "never.example", RR_A);
	make_head(&m, 0x8182, 0, 0, 0, "never.example", RR_A);
	upstream_gives(&x, 0, &m);
	hear(x.client, &r);
	assert_int_equal(r.rcode, RCODE_SERVFAIL);
}

static void test_private_addresses_of_public_names(void **state)
{
	static const struct { const char *name, *addr; bool is_given; } given[] = { { "evil.example", "192.168.8.1", false }, { "evil2.example", "127.0.0.1", false },
		{ "evil3.example", "fd00::1", false }, { "fine.example", "198.51.100.1", true }, { "x.intern.example", "192.168.8.1", true }, { "bench.example", "198.18.0.1", true } };
	(void)state;
	for (unsigned i = 0; i < sizeof given / sizeof *given; i++) {
		ask(x.client, &(struct question){ .name = given[i].name, .type = strchr(given[i].addr, ':') ? RR_AAAA : RR_A });
		resolves(&x, given[i].name, 60, given[i].addr);
		hear(x.client, &r);
		assert_int_equal(r.rcode, RCODE_NOERROR);
		assert_int_equal(has_address(&r, given[i].addr), given[i].is_given);
		/* From the cache alike. */
		ask(x.client, &(struct question){ .name = given[i].name, .type = strchr(given[i].addr, ':') ? RR_AAAA : RR_A });
		hear(x.client, &r);
		assert_int_equal(has_address(&r, given[i].addr), given[i].is_given);
	}
}

static void test_empty_answer_without_soa_is_not_kept(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		ask_a(&x, "empty.example");
		upstream_expect(&x, 0, "empty.example", RR_A);
		make_head(&m, 0x8180, 0, 0, 0, "empty.example", RR_A);
		upstream_gives(&x, 0, &m);
		hear(x.client, &r);
		assert_true(r.rcode == RCODE_NOERROR && r.ancount == 0);
	}
}

/* While nothing depends on the interface a client asks by, the kernel is not made to tell it. A query that waits while a configuration comes by which it
 * matters is then a stranger's. */
static void test_the_interface_comes_to_matter(void **state)
{
	static struct link_entry lo = { .ifindex = 1, .name = "lo" };
	static struct links links = { .count = 1, .v = &lo };
	(void)state;
	atomic_store(&x.shared.links, &links);
	world_configure(&x, "server: { allow: [192.168.8.0/24] }\nupstreams: { default: { servers: [127.0.0.1@%u] } }\n", 2);
	ask_a(&x, "known.example");
	resolves(&x, "known.example", 60, "192.0.2.1");
	hear(x.client, &r);
	assert_true(has_address(&r, "192.0.2.1"));
	ask_a(&x, "waits.example");
	upstream_expect(&x, 0, "waits.example", RR_A);
	world_configure(&x, "server: { allow: [192.168.8.0/24] }\nupstreams: { default: { servers: [127.0.0.1@%u] } }\nclients: { here: { interfaces: [lo] } }\n"
		"lists: { bad: { files: [/nowhere] } }\nfilter: [ { clients: [here], names: [bad], block: nxdomain } ]\n", 3);
	answer_a(&m, "waits.example", 60, "192.0.2.2");
	upstream_gives(&x, 0, &m);
	hear(x.client, &r);
	assert_int_equal(r.rcode, RCODE_SERVFAIL);
	assert_int_equal(r.ede, EDE_NOT_READY);
	world_list(&x, "bad", "known.example", true);
	ask_a(&x, "known.example");
	hear(x.client, &r);
	assert_int_equal(r.rcode, RCODE_NXDOMAIN);
	assert_int_equal(r.ede, EDE_BLOCKED);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_split_domains), TEST(test_stale_after_the_first_timeout), TEST(test_stale_instead_of_servfail), TEST(test_private_addresses_of_public_names),
		TEST(test_empty_answer_without_soa_is_not_kept), TEST(test_the_interface_comes_to_matter),
	};
	world_permitted();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
