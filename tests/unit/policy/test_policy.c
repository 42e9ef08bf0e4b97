/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Clients, filter and steer over a configuration made by hand: three lists, two groups of networks and one of MACs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "policy/policy.h"

enum { LIST_ADS, LIST_VPN, LIST_MINE, LISTS };
enum { GROUP_LAN, GROUP_IOT, GROUP_TOYS, GROUPS };
#define IDS(...) {.v = (uint16_t[]){__VA_ARGS__}, .count = sizeof((uint16_t[]){__VA_ARGS__}) / sizeof(uint16_t)}

static const uint16_t slots[LISTS] = {70, 3, 255};
static struct index *ix;
static struct prefixes *ads_prefixes, *mine_prefixes;

static struct addr address(const char *text)
{
	struct addr a;

	assert_int_equal(addr_parse(&a, text), 0);
	return a;
}

static struct prefix network(const char *text)
{
	struct prefix p;

	assert_int_equal(prefix_parse(&p, text), 0);
	return p;
}

static void list_name(unsigned list, const char *text, unsigned kind)
{
	struct name n;

	assert_int_equal(name_from_text(&n, text, strlen(text)), 0);
	index_begin(ix);
	assert_int_equal(index_add(ix, slots[list], &n, kind), 0);
	index_publish(ix);
	index_settle(ix);
}

static int set_up(void **state)
{
	struct prefix_entry bad = {.prefix = network("203.0.113.0/24")}, fine = {.prefix = network("203.0.113.7")};

	ix = index_new(0, 0);
	list_name(LIST_ADS, "ads.example", KIND_SUFFIX);
	list_name(LIST_ADS, "ok.ads.example", KIND_EXEMPT);
	list_name(LIST_VPN, "vpn.example", KIND_SUFFIX);
	list_name(LIST_VPN, "both.example", KIND_SUFFIX);
	list_name(LIST_MINE, "mine.example", KIND_SUFFIX);
	list_name(LIST_MINE, "both.example", KIND_SUFFIX);
	ads_prefixes = prefixes_build(&bad, 1);
	mine_prefixes = prefixes_build(&fine, 1);
	return 0;
}

static int tear_down(void **state)
{
	index_free(ix);
	prefixes_free(ads_prefixes);
	prefixes_free(mine_prefixes);
	return 0;
}

/* A policy over the given rules and the standing groups. Configuration and policy live until the next call. */
static struct policy *policy_over(
	const struct cfg_filter *filters, unsigned filter_count, const struct cfg_steer *steers, unsigned steer_count)
{
	static struct prefix lan, iot, iot_except;
	static char iot_interface[1][IFNAME_MAX] = {"br-iot"};
	static uint8_t toy[1][6] = {{2, 0, 0x5e, 0x10, 0, 1}};
	static struct cfg_list lists[LISTS];
	static struct cfg_group groups[GROUPS];
	static struct config c;
	const struct prefixes *prefixes[LISTS] = {ads_prefixes, NULL, mine_prefixes};
	struct policy *p = NULL;

	lan = network("192.168.8.0/24");
	iot = network("192.168.20.0/24");
	iot_except = network("192.168.20.9");
	groups[GROUP_LAN] = (struct cfg_group){.networks = &lan, .network_count = 1};
	groups[GROUP_IOT] = (struct cfg_group){.interfaces = iot_interface,
		.interface_count = 1,
		.networks = &iot,
		.network_count = 1,
		.except_networks = &iot_except,
		.except_network_count = 1};
	groups[GROUP_TOYS] = (struct cfg_group){.macs = toy, .mac_count = 1};
	c = (struct config){.groups = groups,
		.group_count = GROUPS,
		.lists = lists,
		.list_count = LISTS,
		.filters = (struct cfg_filter *)filters,
		.filter_count = filter_count,
		.steers = (struct cfg_steer *)steers,
		.steer_count = steer_count};
	assert_int_equal(policy_new(&p, &c, ix, slots, prefixes, NULL), 0);
	return p;
}

static struct client client_at(const char *addr, const char *ifname)
{
	struct client c = {.addr = address(addr), .mac_known = true, .mac = {2, 0, 0, 0, 0, 9}};

	strcpy(c.ifname, ifname);
	return c;
}

static struct group_bits groups_of(const struct policy *p, const char *addr, const char *ifname)
{
	struct client c = client_at(addr, ifname);
	struct group_bits g;

	policy_classify(p, &c, &g);
	return g;
}

static struct judged_name judged(const struct policy *p, const char *text)
{
	static struct name names[64];
	static unsigned used;
	struct name *n = &names[used++ % 64];
	struct judged_name one, many[1];

	assert_int_equal(name_from_text(n, text, strlen(text)), 0);
	policy_judge(p, index_generation(ix), n, NULL, &one);
	policy_judge_many(p, index_generation(ix), (const struct name *const[]){n}, 1, NULL, many);
	assert_memory_equal(&one.in, &many[0].in, sizeof(one.in));
	return one;
}

static struct verdict filtered(const struct policy *p, const struct group_bits *g, const char *a, const char *b, const char *addr)
{
	struct judged_name names[2] = {judged(p, a), judged(p, b ? b : a)};
	struct addr addrs[2] = {address("198.51.100.1"), address(addr ? addr : "198.51.100.2")};

	return policy_filter(p, g, NULL, 0, names, b ? 2 : 1, addr ? addrs : NULL, addr ? 2 : 0);
}

static struct steer_result steered(
	const struct policy *p, const struct group_bits *g, bool is_local, const char *a, const char *b)
{
	struct judged_name names[2] = {judged(p, a), judged(p, b ? b : a)};
	struct steer_result r;

	policy_steer(p, g, is_local, names, b ? 2 : 1, &r);
	return r;
}

static void clients_are_told_apart(void **state)
{
	struct policy *p = policy_over(NULL, 0, NULL, 0);
	struct client toy = client_at("192.168.8.5", "br-lan");
	struct group_bits g = groups_of(p, "192.168.8.5", "br-lan");

	assert_int_equal(g.yes[0], 1 << GROUP_LAN);
	assert_int_equal(g.unknown[0], 0);
	g = groups_of(p, "192.168.20.5", "br-iot");
	assert_int_equal(g.yes[0], 1 << GROUP_IOT);
	g = groups_of(p, "192.168.20.5", "br-lan");
	assert_int_equal(g.yes[0], 0);
	g = groups_of(p, "192.168.20.9", "br-iot");
	assert_int_equal(g.yes[0], 0);
	memcpy(toy.mac, (uint8_t[]){2, 0, 0x5e, 0x10, 0, 1}, 6);
	policy_classify(p, &toy, &g);
	assert_int_equal(g.yes[0], 1 << GROUP_LAN | 1 << GROUP_TOYS);
	toy.mac_known = false;
	policy_classify(p, &toy, &g);
	assert_int_equal(g.yes[0], 1 << GROUP_LAN);
	assert_int_equal(g.unknown[0], 1 << GROUP_TOYS);
	toy.is_local = true;
	policy_classify(p, &toy, &g);
	assert_int_equal(g.unknown[0], 0);
	policy_free(p);
}

static void who_may_ask(void **state)
{
	struct policy *p = policy_over(NULL, 0, NULL, 0);
	struct config *c = (struct config *)policy_config(p);
	struct client in = client_at("192.168.8.5", "br-lan"), out = client_at("192.0.2.5", "eth0"),
		      self = client_at("127.0.0.1", "lo");
	struct prefix attached = network("192.168.8.0/24"), given = network("192.0.2.0/24");
	struct group_bits g_in = groups_of(p, "192.168.8.5", "br-lan"), g_out = groups_of(p, "192.0.2.5", "eth0");
	uint16_t lan = GROUP_LAN;

	self.is_local = true;
	c->server.allow_default = true;
	assert_true(policy_allows(p, &in, &g_in, &attached, 1));
	assert_false(policy_allows(p, &out, &g_out, &attached, 1));
	assert_true(policy_allows(p, &self, &g_out, &attached, 1));
	c->server.allow_default = false;
	assert_false(policy_allows(p, &in, &g_in, &attached, 1));
	c->server.allow_groups = (struct ids){.v = &lan, .count = 1};
	c->server.allow = &given;
	c->server.allow_count = 1;
	assert_true(policy_allows(p, &in, &g_in, NULL, 0));
	assert_true(policy_allows(p, &out, &g_out, NULL, 0));
	assert_false(policy_allows(p, &self, &(struct group_bits){0}, &attached, 1));
	policy_free(p);
}

static void filter_first_match(void **state)
{
	const struct cfg_filter f[] = {{.enabled = true, .names = IDS(LIST_MINE), .allow = true},
		{.enabled = false, .block = BLOCK_DROP},
		{.enabled = true,
			.clients = IDS(GROUP_IOT, GROUP_LAN),
			.names = IDS(LIST_VPN, LIST_ADS),
			.except_names = IDS(LIST_MINE),
			.block = BLOCK_ZERO},
		{.enabled = true, .clients = IDS(GROUP_IOT), .block = BLOCK_REFUSE}};
	struct policy *p = policy_over(f, 4, NULL, 0);
	struct group_bits lan = groups_of(p, "192.168.8.5", "br-lan"), iot = groups_of(p, "192.168.20.5", "br-iot"), none = {0};
	struct verdict v = filtered(p, &lan, "x.ads.example", NULL, NULL);

	assert_int_equal(v.kind, VERDICT_BLOCK);
	assert_int_equal(v.block, BLOCK_ZERO);
	assert_int_equal(v.rule, 2);
	assert_int_equal(v.list, LIST_ADS);
	assert_int_equal(filtered(p, &lan, "x.ok.ads.example", NULL, NULL).kind, VERDICT_PASS);
	assert_int_equal(filtered(p, &none, "x.ads.example", NULL, NULL).kind, VERDICT_PASS);
	assert_int_equal(filtered(p, &iot, "x.ok.ads.example", NULL, NULL).block, BLOCK_REFUSE);
	/* Rule order before names of the chain. */
	v = filtered(p, &lan, "ads.example", "mine.example", NULL);
	assert_int_equal(v.kind, VERDICT_ALLOW);
	assert_int_equal(v.rule, 0);
	assert_int_equal(v.list, LIST_MINE);
	assert_int_equal(filtered(p, &lan, "other.example", "ads.example", NULL).rule, 2);
	/* Addresses of an answer; those under except-names are not blocked. */
	v = filtered(p, &lan, "other.example", NULL, "203.0.113.5");
	assert_int_equal(v.kind, VERDICT_BLOCK);
	assert_int_equal(v.list, LIST_ADS);
	assert_int_equal(filtered(p, &lan, "other.example", NULL, "203.0.113.7").kind, VERDICT_PASS);
	assert_int_equal(filtered(p, &none, "other.example", NULL, "203.0.113.5").kind, VERDICT_PASS);
	policy_free(p);
}

static void filter_all_but(void **state)
{
	const struct cfg_filter f[] = {
		{.enabled = true, .except_clients = IDS(GROUP_LAN), .except_names = IDS(LIST_MINE), .block = BLOCK_NXDOMAIN}};
	struct policy *p = policy_over(f, 1, NULL, 0);
	struct group_bits lan = groups_of(p, "192.168.8.5", "br-lan"), none = {0};

	assert_int_equal(filtered(p, &none, "other.example", NULL, NULL).kind, VERDICT_BLOCK);
	assert_int_equal(filtered(p, &none, "other.example", NULL, NULL).list, -1);
	assert_int_equal(filtered(p, &none, "x.mine.example", NULL, NULL).kind, VERDICT_PASS);
	assert_int_equal(filtered(p, &lan, "other.example", NULL, NULL).kind, VERDICT_PASS);
	policy_free(p);
}

static void unknown_mac_is_judged_strictly(void **state)
{
	const struct cfg_filter f[] = {{.enabled = true, .clients = IDS(GROUP_TOYS), .names = IDS(LIST_VPN), .allow = true},
		{.enabled = true, .clients = IDS(GROUP_TOYS), .names = IDS(LIST_ADS, LIST_VPN), .block = BLOCK_NODATA}};
	const struct cfg_steer s[] = {{.enabled = true, .clients = IDS(GROUP_TOYS), .names = IDS(LIST_VPN), .way = 1},
		{.enabled = true, .except_clients = IDS(GROUP_TOYS), .names = IDS(LIST_MINE), .way = 2},
		{.enabled = true, .way = 0}};
	struct policy *p = policy_over(f, 2, s, 3);
	struct client c = client_at("192.168.8.5", "br-lan");
	struct group_bits g;
	struct steer_result r;

	c.mac_known = false;
	policy_classify(p, &c, &g);
	assert_int_equal(filtered(p, &g, "ads.example", NULL, NULL).kind, VERDICT_BLOCK);
	assert_int_equal(filtered(p, &g, "vpn.example", NULL, NULL).kind, VERDICT_BLOCK);
	assert_true(steered(p, &g, false, "vpn.example", NULL).is_unsafe);
	assert_true(steered(p, &g, false, "mine.example", NULL).is_unsafe);
	r = steered(p, &g, false, "other.example", NULL);
	assert_false(r.is_unsafe);
	assert_int_equal(r.way, 0);
	c.mac_known = true;
	policy_classify(p, &c, &g);
	assert_int_equal(filtered(p, &g, "ads.example", NULL, NULL).kind, VERDICT_PASS);
	r = steered(p, &g, false, "mine.example", NULL);
	assert_false(r.is_unsafe);
	assert_int_equal(r.way, 2);
	policy_free(p);
}

static void steer_first_match(void **state)
{
	const struct cfg_steer s[] = {{.enabled = false, .way = 9},
		{.enabled = true, .clients = IDS(GROUP_LAN), .names = IDS(LIST_VPN), .except_names = IDS(LIST_MINE), .way = 1},
		{.enabled = true, .has_gid = true, .gid = 10000, .names = IDS(LIST_VPN), .way = 3},
		{.enabled = true, .clients = IDS(GROUP_IOT), .except_names = IDS(LIST_MINE), .way = 2},
		{.enabled = true, .names = IDS(LIST_MINE), .way = 4}, {.enabled = true, .way = 0}};
	struct policy *p = policy_over(NULL, 0, s, 6);
	struct group_bits lan = groups_of(p, "192.168.8.5", "br-lan"), iot = groups_of(p, "192.168.20.5", "br-iot");
	struct steer_result r = steered(p, &lan, false, "other.example", "vpn.example");

	assert_int_equal(r.way, 1);
	assert_int_equal(r.rule, 1);
	assert_false(r.has_default);
	assert_int_equal(r.count, 1);
	assert_int_equal(r.hits[0].rule, 1);
	assert_int_equal(r.hits[0].name, 1);
	/* A name in the list and in the exception goes on to a later rule. */
	r = steered(p, &lan, false, "both.example", NULL);
	assert_int_equal(r.way, 4);
	r = steered(p, &lan, false, "other.example", NULL);
	assert_int_equal(r.way, 0);
	assert_true(r.has_default);
	assert_int_equal(r.count, 0);
	/* "All but": what is excepted fills the rule's set and falls through; everything else is the rule's. */
	r = steered(p, &iot, false, "other.example", NULL);
	assert_int_equal(r.way, 2);
	assert_true(r.has_default);
	assert_int_equal(r.count, 0);
	r = steered(p, &iot, false, "other.example", "mine.example");
	assert_int_equal(r.way, 4);
	assert_int_equal(r.count, 2);
	assert_int_equal(r.hits[0].rule, 3);
	assert_int_equal(r.hits[0].name, 1);
	assert_int_equal(r.hits[1].rule, 4);
	assert_true(policy_rule_is_negated(policy_config(p), 3));
	assert_false(policy_rule_is_negated(policy_config(p), 1));
	assert_false(policy_rule_is_negated(policy_config(p), 5));
	policy_free(p);
}

static void own_queries_fill_every_gid_rule(void **state)
{
	const struct cfg_steer s[] = {{.enabled = true, .has_gid = true, .gid = 1, .names = IDS(LIST_MINE), .way = 1},
		{.enabled = true, .clients = IDS(GROUP_LAN), .names = IDS(LIST_VPN), .way = 5},
		{.enabled = true, .names = IDS(LIST_VPN), .way = 2},
		{.enabled = true, .has_gid = true, .gid = 2, .names = IDS(LIST_VPN), .way = 3},
		{.enabled = true, .has_gid = true, .gid = 3, .except_names = IDS(LIST_VPN), .way = 3},
		{.enabled = true, .way = 0}};
	struct policy *p = policy_over(NULL, 0, s, 6);
	struct group_bits g = {.yes = {1 << GROUP_LAN}};
	struct steer_result r = steered(p, &g, true, "both.example", NULL);
	uint64_t fills[CONFIG_RULES_MAX / 64];
	struct judged_name n = judged(p, "both.example");

	assert_int_equal(r.way, 2);
	assert_int_equal(r.rule, 2);
	assert_int_equal(r.count, 4);
	assert_int_equal(r.hits[0].rule, 0);
	assert_int_equal(r.hits[1].rule, 2);
	assert_int_equal(r.hits[2].rule, 3);
	assert_int_equal(r.hits[3].rule, 4);
	r = steered(p, &g, true, "other.example", NULL);
	assert_int_equal(r.way, 0);
	assert_int_equal(r.count, 0);
	policy_fills(p, &n, fills);
	assert_int_equal(fills[0], 1 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4);
	n = judged(p, "mine.example");
	policy_fills(p, &n, fills);
	assert_int_equal(fills[0], 1);
	policy_free(p);
}

/* More sets than a result can name: the answer must not leave. */
static void too_many_hits_are_unsafe(void **state)
{
	struct cfg_steer s[STEER_HITS_MAX + 1];
	uint16_t vpn = LIST_VPN;
	struct policy *p;
	struct group_bits g = {0};

	for (unsigned i = 0; i <= STEER_HITS_MAX; i++)
		s[i] = (struct cfg_steer){.enabled = true, .has_gid = true, .gid = i, .names = {.v = &vpn, .count = 1}};
	p = policy_over(NULL, 0, s, STEER_HITS_MAX);
	assert_false(steered(p, &g, true, "vpn.example", NULL).is_unsafe);
	policy_free(p);
	p = policy_over(NULL, 0, s, STEER_HITS_MAX + 1);
	assert_true(steered(p, &g, true, "vpn.example", NULL).is_unsafe);
	assert_int_equal(steered(p, &g, true, "vpn.example", NULL).count, STEER_HITS_MAX);
	policy_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(clients_are_told_apart), cmocka_unit_test(who_may_ask),
		cmocka_unit_test(filter_first_match), cmocka_unit_test(filter_all_but),
		cmocka_unit_test(unknown_mac_is_judged_strictly), cmocka_unit_test(steer_first_match),
		cmocka_unit_test(own_queries_fill_every_gid_rule), cmocka_unit_test(too_many_hits_are_unsafe)};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
