/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What filter rules answer beside a plain block: addresses of their own, other names, TTLs; pauses; counters. */
#include "world.h"
#include <string.h>
#include "base/clock.h"

static const char config[] =
	"server: { listen: [192.168.8.1@53], allow: [lan], element-min: 60s }\n"
	"upstreams: { default: { servers: [127.0.0.1@%u] }, other: { servers: [127.0.0.1@%u] } }\n"
	"local: { domain: lan, records: [\"safe.lan A 192.168.8.9\", \"out.lan CNAME far.example\", \"ads.lan A 192.168.8.10\"] }\n"
	"clients: { lan: { networks: [192.168.8.0/24] } }\n"
	"lists: { ads: { files: [a] }, own: { files: [o] }, search: { files: [s] }, portal: { files: [p] } }\n"
	"filter:\n"
	"  - { name: ads, names: [ads], block: nxdomain, ttl: 10m }\n"
	"  - { name: own, names: [own], answer: [192.0.2.10, \"2001:db8::10\"], ttl: 5m }\n"
	"  - { name: safe search, names: [search], cname: strict.example }\n"
	"  - { name: portal, names: [portal], cname: safe.lan }\n";

static struct world x;
static struct reply r;
static struct make m;

static int set_up(void **state)
{
	(void)state;
	world_start(&x, config);
	world_list(&x, "ads", "ads.example", true);
	world_list(&x, "ads", "ads.lan", true);
	world_list(&x, "own", "own.example", true);
	world_list(&x, "search", "search.example", true);
	world_list(&x, "portal", "portal.example", true);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	world_stop(&x);
	return 0;
}

static void asks(const char *name, uint16_t type)
{
	ask(x.client, &(struct question){ .name = name, .type = type });
}

static void test_a_block_has_its_ttl(void **state)
{
	(void)state;
	asks("www.ads.example", RR_A);
	hear(x.client, &r);
	assert_int_equal(r.rcode, RCODE_NXDOMAIN);
	assert_true(r.walk.has_soa);
	assert_int_equal(r.walk.ttl_min_s, 600);
	assert_int_equal(r.ede, EDE_BLOCKED);
}

static void test_addresses_of_the_rule(void **state)
{
	(void)state;
	asks("www.own.example", RR_A);
	hear(x.client, &r);
	assert_true(r.ancount == 1 && has_address(&r, "192.0.2.10"));
	assert_int_equal(r.walk.ttl_min_s, 300);
	assert_int_equal(r.ede, EDE_FORGED);
	asks("own.example", RR_AAAA);
	hear(x.client, &r);
	assert_true(r.ancount == 1 && has_address(&r, "2001:db8::10"));
	static const uint16_t others[] = { RR_HTTPS, RR_SVCB, RR_MX, RR_TXT };
	for (unsigned i = 0; i < 4; i++) {
		asks("own.example", others[i]);
		hear(x.client, &r);
		assert_true(r.rcode == RCODE_NOERROR && r.ancount == 0 && r.walk.has_soa);
	}
	assert_false(upstream_is_asked(&x, 0, 0));
}

static void gives_target(const char *name, const char *addr)
{
	upstream_expect(&x, 0, name, RR_A);
	answer_a(&m, name, 60, addr);
	upstream_gives(&x, 0, &m);
}

static void test_an_alias_is_followed(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		asks("www.search.example", RR_A);
		if (i == 0)
			gives_target("strict.example", "198.51.100.20");
		hear(x.client, &r);
		assert_int_equal(r.rcode, RCODE_NOERROR);
		assert_int_equal(r.ancount, 2);
		assert_true(has_address(&r, "198.51.100.20"));
		assert_int_equal(r.walk.chain_len, 2);
		assert_name(&r.walk.chain[1], "strict.example");
	}
	/* It is kept under the target's name. */
	asks("strict.example", RR_A);
	hear(x.client, &r);
	assert_true(r.ancount == 1 && has_address(&r, "198.51.100.20"));
	assert_false(upstream_is_asked(&x, 0, 0));
	asks("www.search.example", RR_CNAME);
	hear(x.client, &r);
	assert_int_equal(r.ancount, 1);
}

static void test_an_alias_chain_is_chased(void **state)
{
	(void)state;
	asks("www.search.example", RR_A);
	upstream_expect(&x, 0, "strict.example", RR_A);
	make_head(&m, 0x8180, 1, 0, 0, "strict.example", RR_A);
	make_rr(&m, NULL, RR_CNAME, 60);
	make_name(&m, "end.example");
	upstream_gives(&x, 0, &m);
	gives_target("end.example", "198.51.100.21");
	hear(x.client, &r);
	assert_int_equal(r.ancount, 3);
	assert_true(has_address(&r, "198.51.100.21"));
}

static void test_an_alias_of_a_local_name(void **state)
{
	(void)state;
	asks("portal.example", RR_A);
	hear(x.client, &r);
	assert_int_equal(r.ancount, 2);
	assert_true(has_address(&r, "192.168.8.9"));
	assert_false(upstream_is_asked(&x, 0, 0));
}

static void test_the_target_is_filtered(void **state)
{
	(void)state;
	world_list(&x, "ads", "strict.example", true);
	asks("www.search.example", RR_A);
	hear(x.client, &r);
	assert_int_equal(r.rcode, RCODE_NXDOMAIN);
	assert_false(upstream_is_asked(&x, 0, 0));
}

static void test_local_names_come_first(void **state)
{
	(void)state;
	asks("ads.lan", RR_A);
	hear(x.client, &r);
	assert_true(has_address(&r, "192.168.8.10"));
	asks("out.lan", RR_A);
	gives_target("far.example", "198.51.100.30");
	hear(x.client, &r);
	assert_true(r.ancount == 2 && has_address(&r, "198.51.100.30"));
	/* What an alias leads to is kept, the alias is not. */
	world_list(&x, "ads", "far.example", true);
	asks("out.lan", RR_A);
	hear(x.client, &r);
	assert_int_equal(r.rcode, RCODE_NXDOMAIN);
}

static void test_a_pause(void **state)
{
	(void)state;
	uint32_t now_s = (uint32_t)(clock_ms() / 1000);
	atomic_store(&x.pause.rule_until_s[0], now_s + 60);
	asks("www.ads.example", RR_A);
	gives_target("www.ads.example", "198.51.100.40");
	hear(x.client, &r);
	assert_true(has_address(&r, "198.51.100.40"));
	asks("own.example", RR_A);
	hear(x.client, &r);
	assert_true(has_address(&r, "192.0.2.10"));
	/* Over: the cached answer is no longer given. */
	atomic_store(&x.pause.rule_until_s[0], now_s - 1);
	asks("www.ads.example", RR_A);
	hear(x.client, &r);
	assert_int_equal(r.rcode, RCODE_NXDOMAIN);
	atomic_store(&x.pause.all_until_s, now_s + 60);
	asks("www.ads.example", RR_A);
	hear(x.client, &r);
	assert_true(has_address(&r, "198.51.100.40"));
}

static void test_rules_and_lists_are_counted(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		asks("www.ads.example", RR_A);
		hear(x.client, &r);
	}
	asks("own.example", RR_A);
	hear(x.client, &r);
	assert_int_equal(worker_filter_hits(x.w, 0), 3);
	assert_int_equal(worker_filter_hits(x.w, 1), 1);
	assert_int_equal(worker_list_hits(x.w, 0), 3);
	assert_int_equal(worker_list_hits(x.w, 1), 1);
	assert_int_equal(worker_list_hits(x.w, 2), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_block_has_its_ttl), TEST(test_addresses_of_the_rule), TEST(test_an_alias_is_followed), TEST(test_an_alias_chain_is_chased),
		TEST(test_an_alias_of_a_local_name), TEST(test_the_target_is_filtered), TEST(test_local_names_come_first), TEST(test_a_pause), TEST(test_rules_and_lists_are_counted),
	};
	world_permitted();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
