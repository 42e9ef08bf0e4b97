/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Ways by which a name or an address could get past filter and steer: aliases of our own making, records of our own, hints for other hosts, changes while
 * an answer waits. */
#include "world.h"
#include <string.h>
#include <unistd.h>

#define CONFIG_HEAD                                                                                                                                            \
	"server: { listen: [192.168.8.1@53], allow: [lan], element-min: 60s }\n"                                                                               \
	"clients: { lan: { networks: [192.168.8.0/24] } }\n"                                                                                                   \
	"lists: { ads: { files: [a] }, own: { files: [o] }, search: { files: [s] }, portal: { files: [p] }, vpn: { files: [v] }, back: { files: [b] } }\n"
#define FILTERS                                                                                                                                                \
	"filter:\n"                                                                                                                                            \
	"  - { name: ads, names: [ads], block: nxdomain, ttl: 10m }\n"                                                                                         \
	"  - { name: own, names: [own], answer: [198.51.100.10], ttl: 5m }\n"                                                                                  \
	"  - { name: safe search, names: [search], cname: strict.search.example }\n"                                                                           \
	"  - { name: portal, names: [portal], cname: www.lan }\n"                                                                                              \
	"  - { name: back, names: [back], cname: www.search.example }\n"

static const char config[] = CONFIG_HEAD
	"upstreams: { default: { servers: [127.0.0.1@%1$u] }, other: { servers: [127.0.0.1@%2$u] } }\n"
	"cache: { serve-stale: 1d }\n"
	"local: { domain: lan, records: [\"www.lan CNAME far.example\", \"steered.example A 198.51.100.77\", \"toads.lan CNAME a.ads.example\"] }\n"
	"ways: { direct: {}, tun: { interface: wg1, ipv6: off } }\n" FILTERS
	"steer:\n"
	"  - { name: vpn, names: [vpn], way: tun }\n"
	"  - { way: direct }\n";
/* The groups in another order. */
static const char turned[] = CONFIG_HEAD
	"upstreams: { other: { servers: [127.0.0.1@%2$u] }, default: { servers: [127.0.0.1@%1$u] } }\n" FILTERS;

static struct world x;
static struct reply r;
static struct make m;
static struct steer_add add;

static int set_up(void **state)
{
	static const struct { const char *list, *name; } listed[] = { { "ads", "ads.example" }, { "own", "own.example" }, { "search", "search.example" },
		{ "portal", "portal.example" }, { "vpn", "steered.example" }, { "vpn", "own.example" }, { "vpn", "vpn.example" } };
	(void)state;
	world_start(&x, config);
	for (unsigned i = 0; i < sizeof listed / sizeof *listed; i++)
		world_list(&x, listed[i].list, listed[i].name, true);
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

static void gives(const char *name, uint32_t ttl, const char *addr)
{
	upstream_expect(&x, 0, name, RR_A);
	answer_a(&m, name, ttl, addr);
	upstream_gives(&x, 0, &m);
}

static void gives_cname(const char *name, const char *target)
{
	upstream_expect(&x, 0, name, RR_A);
	make_head(&m, 0x8180, 1, 0, 0, name, RR_A);
	make_cname(&m, NULL, 300, target);
	upstream_gives(&x, 0, &m);
}

/* The target of safe search is mostly a name under the name that is rewritten. */
static void test_a_target_under_its_own_rule(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		asks("www.search.example", RR_A);
		if (i == 0)
			gives("strict.search.example", 60, "198.51.100.20");
		hear(x.client, &r);
		assert_true(r.ancount == 2 && has_address(&r, "198.51.100.20"));
	}
	asks("strict.search.example", RR_A);
	hear(x.client, &r);
	assert_true(r.ancount == 1 && has_address(&r, "198.51.100.20"));
	assert_false(upstream_is_asked(&x, 0, 0));
}

static void test_a_target_that_is_not_kept(void **state)
{
	(void)state;
	asks("www.search.example", RR_A);
	gives("strict.search.example", 0, "198.51.100.20");
	hear(x.client, &r);
	assert_true(has_address(&r, "198.51.100.20"));
	assert_false(upstream_is_asked(&x, 0, SOON_MS));
}

static void test_rules_that_lead_to_each_other_end(void **state)
{
	(void)state;
	world_list(&x, "back", "strict.search.example", true);
	world_list(&x, "search", "www.search.example", true);
	asks("x.search.example", RR_A);
	for (int i = 0; i < 100 && !hears(x.client, 1, &r); i++)
		if (upstream_is_asked(&x, 0, 1)) {
			struct wire_query q;
			char name[NAME_TEXT_MAX];
			wire_query_parse(&q, x.asked, x.asked_len);
			answer_a(&m, name_to_text(name, q.qname.wire), 0, "198.51.100.20");
			upstream_gives(&x, 0, &m);
		}
	assert_true(r.len > 0);
}

static void test_a_local_alias_as_a_target(void **state)
{
	(void)state;
	asks("portal.example", RR_A);
	gives("far.example", 60, "198.51.100.21");
	hear(x.client, &r);
	assert_true(r.ancount == 3 && has_address(&r, "198.51.100.21"));
}

static void test_what_is_blocked_is_not_asked_by_another_name(void **state)
{
	(void)state;
	asks("toads.lan", RR_A);
	hear(x.client, &r);
	assert_int_equal(r.rcode, RCODE_NXDOMAIN);
	asks("plain.example", RR_A);
	gives_cname("plain.example", "x.ads.example");
	hear(x.client, &r);
	assert_int_equal(r.rcode, RCODE_NXDOMAIN);
	world_list(&x, "ads", "strict.search.example", true);
	asks("www.search.example", RR_A);
	hear(x.client, &r);
	assert_int_equal(r.rcode, RCODE_NXDOMAIN);
	assert_false(upstream_is_asked(&x, 0, 0));
}

/* Records and answers of our own. */
static void test_own_addresses_are_steered(void **state)
{
	static const struct { const char *name, *addr; } asked[] = { { "steered.example", "198.51.100.77" }, { "x.own.example", "198.51.100.10" } };
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		asks(asked[i].name, RR_A);
		assert_true(enforcer_hears(&x, HEARD_MS, &add));
		assert_true(adds(&add, asked[i].addr, rule_of(&x, "vpn")));
		enforcer_acks(&x, &add, STEER_OK);
		hear(x.client, &r);
	}
	asks("steered.example", RR_A);
	hear(x.client, &r);
	assert_true(r.flags & FLAG_AA && has_address(&r, "198.51.100.77"));
}

static void test_no_ipv6_address_beside_a_service_record(void **state)
{
	(void)state;
	atomic_store(&x.page.cfg[1].ways_no6, 2);
	asks("a.vpn.example", RR_HTTPS);
	upstream_expect(&x, 0, "a.vpn.example", RR_HTTPS);
	make_head(&m, 0x8180, 1, 0, 0, "a.vpn.example", RR_HTTPS);
	address_rr(&m, NULL, 300, "2001:db8:5::1");
	upstream_gives(&x, 0, &m);
	/* What is left in the answer waits for the kernel as any other address. */
	assert_true(enforcer_hears(&x, HEARD_MS, &add));
	assert_true(adds(&add, "2001:db8:5::1", rule_of(&x, "vpn")));
	enforcer_acks(&x, &add, STEER_OK);
	hear(x.client, &r);
}

static void test_hints_for_another_host(void **state)
{
	static const char *const targets[] = { "x.ads.example", "x.vpn.example", "cdn.example" };
	const uint8_t hint[4] = { 198, 51, 100, 66 };
	char name[32];
	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		snprintf(name, sizeof name, "plain%u.example", i);
		asks(name, RR_HTTPS);
		upstream_expect(&x, 0, name, RR_HTTPS);
		make_head(&m, 0x8180, 1, 0, 0, name, RR_HTTPS);
		make_rr(&m, NULL, RR_HTTPS, 300);
		make16(&m, 1);
		make_name(&m, targets[i]);
		make_param(&m, 4, hint, 4);
		upstream_gives(&x, 0, &m);
		hear(x.client, &r);
		assert_int_equal(r.rcode, RCODE_NOERROR);
		assert_false(has_address(&r, "198.51.100.66"));
		assert_int_equal(r.ancount, 1);
	}
}

static void test_groups_keep_apart_over_a_reload(void **state)
{
	(void)state;
	asks("www.search.example", RR_A);
	upstream_expect(&x, 0, "strict.search.example", RR_A);
	world_configure(&x, turned, 2);
	make_head(&m, 0x8180, 1, 0, 0, "strict.search.example", RR_A);
	make_cname(&m, NULL, 60, "end.example");
	upstream_gives(&x, 0, &m);
	gives("end.example", 60, "198.51.100.9");
	hear(x.client, &r);
	assert_true(has_address(&r, "198.51.100.9"));
	assert_false(upstream_is_asked(&x, 1, 0));
}

static void test_only_answers_give_an_element_its_life(void **state)
{
	(void)state;
	asks("b.vpn.example", RR_A);
	upstream_expect(&x, 0, "b.vpn.example", RR_A);
	make_head(&m, 0x8180, 1, 1, 0, "b.vpn.example", RR_A);
	address_rr(&m, NULL, 600, "198.51.100.9");
	make_rr(&m, "vpn.example", RR_NS, 80000);
	make_name(&m, "ns.vpn.example");
	upstream_gives(&x, 0, &m);
	assert_true(enforcer_hears(&x, HEARD_MS, &add));
	assert_in_range(add.e[0].life_s, 600, 1200);
	enforcer_acks(&x, &add, STEER_OK);
	hear(x.client, &r);
}

static void test_lists_that_change_while_an_answer_waits(void **state)
{
	(void)state;
	/* Until the test was quicker than the worker's own bound. */
	for (int i = 0; i < 50; i++) {
		char name[32];
		snprintf(name, sizeof name, "n%d.vpn.example", i);
		asks(name, RR_A);
		gives(name, 60, "198.51.100.9");
		if (!enforcer_hears(&x, 20, &add)) /* held already */
			assert_true(hears(x.client, HEARD_MS, &r));
		else {
			world_list(&x, "ads", name, true);
			enforcer_acks(&x, &add, STEER_OK);
			hear(x.client, &r);
		}
		if (r.rcode == RCODE_SERVFAIL)
			continue;
		assert_int_equal(r.rcode, RCODE_NXDOMAIN);
		return;
	}
	fail_msg("the machine never was quick enough");
}

static void test_stale_chains(void **state)
{
	(void)state;
	asks("c.example", RR_A);
	gives_cname("c.example", "d.example");
	gives("d.example", 1, "198.51.100.9");
	hear(x.client, &r);
	usleep(2100000);
	asks("c.example", RR_A);
	gives_cname("c.example", "d.example");
	upstream_expect(&x, 0, "d.example", RR_A);
	make_head(&m, 0x8182, 0, 0, 0, "d.example", RR_A);
	upstream_gives(&x, 0, &m);
	hear(x.client, &r);
	assert_true(has_address(&r, "198.51.100.9"));
	assert_int_equal(r.ede, EDE_STALE);
}

static void test_header_bits_are_ours(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		asks("f.example", RR_A);
		if (i == 0) {
			upstream_expect(&x, 0, "f.example", RR_A);
			make_head(&m, 0x8500, 1, 0, 0, "f.example", RR_A);
			address_rr(&m, NULL, 60, "198.51.100.9");
			upstream_gives(&x, 0, &m);
		}
		hear(x.client, &r);
		assert_true(r.flags & FLAG_RA);
		assert_false(r.flags & FLAG_AA);
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_target_under_its_own_rule), TEST(test_a_target_that_is_not_kept), TEST(test_rules_that_lead_to_each_other_end),
		TEST(test_a_local_alias_as_a_target), TEST(test_what_is_blocked_is_not_asked_by_another_name), TEST(test_own_addresses_are_steered),
		TEST(test_no_ipv6_address_beside_a_service_record), TEST(test_hints_for_another_host), TEST(test_groups_keep_apart_over_a_reload),
		TEST(test_only_answers_give_an_element_its_life), TEST(test_lists_that_change_while_an_answer_waits), TEST(test_stale_chains), TEST(test_header_bits_are_ours),
	};
	world_permitted();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
