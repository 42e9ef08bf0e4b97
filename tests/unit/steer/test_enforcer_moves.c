/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Connections that a change moves, made in conntrack by hand: they go, and no others. Listed ranges: what is cut out of them, and their place in an
 * administrator's own sets. Ways that were taken down, over a restart. */
#include "enforcer_fixture.h"
#include <arpa/inet.h>
#include <libnetfilter_conntrack/libnetfilter_conntrack.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/clock.h"

#define HEAD "server: { listen: [lan0@53], element-min: 60s }\nupstreams: { default: { servers: [203.0.113.53] } }\n" \
	"clients:\n  lan: { interfaces: [lan0] }\n  net: { networks: [192.168.8.0/24, \"2001:db8:8::/64\"] }\n  tv: { networks: [192.168.8.99/32] }\n" \
	"lists: { one: { files: [v] }, two: { files: [p] } }\n" \
	"ways:\n  direct: { mark: 0x1000 }\n  t1: { interface: wg1, mark: 0x2000, kill-switch: true }\n  t2: { mark: 0x4000 }\n" \
	"  legacy: { mark: 0x5000, sets: { ip: \"inet fw4 v4\" } }\nsteer:\n"
#define A "  - { name: a, clients: [net], names: [one], way: t1 }\n"
#define B "  - { name: b, clients: [net], names: [two], way: t2 }\n"
#define LAST "  - { name: last, way: direct }\n"
enum { DIRECT = 0x1000, T1 = 0x2000, T2 = 0x4000 };

static const char base[] = HEAD A B LAST;
static uint32_t a, b, legacy;
static struct rig g;
static struct steer_parent_reply reply;
static struct nfct_handle *handle;

static int set_up(void **state)
{
	(void)state;
	handle = nfct_open(CONNTRACK, 0);
	rig_open(&g);
	rig_start(&g, false);
	return handle ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	rig_close(&g);
	nfct_query(handle, NFCT_Q_FLUSH, &(uint32_t){ AF_UNSPEC });
	nfct_close(handle);
	shell("nft delete table inet fw4");
	return 0;
}

static struct nf_conntrack *entry(const char *src, const char *dst)
{
	struct nf_conntrack *ct = nfct_new();
	uint8_t s[16], d[16];
	bool is_v6 = strchr(src, ':');
	assert_non_null(ct);
	assert_int_equal(inet_pton(is_v6 ? AF_INET6 : AF_INET, src, s), 1);
	assert_int_equal(inet_pton(is_v6 ? AF_INET6 : AF_INET, dst, d), 1);
	nfct_set_attr_u8(ct, ATTR_L3PROTO, is_v6 ? AF_INET6 : AF_INET);
	nfct_set_attr(ct, is_v6 ? ATTR_IPV6_SRC : ATTR_IPV4_SRC, s);
	nfct_set_attr(ct, is_v6 ? ATTR_IPV6_DST : ATTR_IPV4_DST, d);
	nfct_set_attr_u8(ct, ATTR_L4PROTO, IPPROTO_UDP);
	nfct_set_attr_u16(ct, ATTR_PORT_SRC, htons(4000));
	nfct_set_attr_u16(ct, ATTR_PORT_DST, htons(443));
	nfct_setobjopt(ct, NFCT_SOPT_SETUP_REPLY);
	return ct;
}

static void flow(const char *src, const char *dst, uint32_t mark)
{
	struct nf_conntrack *ct = entry(src, dst);
	nfct_set_attr_u32(ct, ATTR_TIMEOUT, 600);
	nfct_set_attr_u32(ct, ATTR_MARK, mark | 0x55);
	if (nfct_query(handle, NFCT_Q_CREATE, ct) < 0)
		fail_msg("a conntrack entry could not be made");
	nfct_destroy(ct);
}

static bool lives(const char *src, const char *dst)
{
	struct nf_conntrack *ct = entry(src, dst);
	int r = nfct_query(handle, NFCT_Q_GET, ct);
	nfct_destroy(ct);
	return r == 0;
}

#define PC "192.168.8.20"

static int ranges_flagged(uint32_t rule, uint8_t which, bool drops, const char *const (*r)[2], unsigned count)
{
	static struct steer_prefixes m;
	m = (struct steer_prefixes){ .type = STEER_PREFIXES, .count = (uint16_t)count, .seq = ++g.seq, .rule_id = rule, .family = 4, .is_first = 1, .is_last = 1, .which = which, .drop_flows = drops };
	for (unsigned i = 0; i < count; i++) {
		struct steer_element e;
		element_put(&e, 0, r[i][0], 0);
		memcpy(m.r[i].first, e.addr, 16);
		element_put(&e, 0, r[i][1], 0);
		memcpy(m.r[i].last, e.addr, 16);
	}
	assert_true(send(g.channel[MAIN], &m, offsetof(struct steer_prefixes, r) + count * sizeof m.r[0], 0) > 0);
	struct steer_done done;
	struct pollfd p = { .fd = g.channel[MAIN], .events = POLLIN };
	assert_int_equal(poll(&p, 1, 10000), 1);
	assert_int_equal(recv(g.channel[MAIN], &done, sizeof done, 0), sizeof done);
	assert_true(done.type == STEER_PREFIXES_DONE && done.seq == g.seq);
	return done.result;
}

static void ranges(uint32_t rule, const char *const (*r)[2], unsigned count)
{
	assert_int_equal(ranges_flagged(rule, 0, false, r, count), 0);
}

/* As the parent does: the last look comes when the server has said it is done. */
static void change(uint32_t serial, const char *yaml)
{
	in_force(&g, serial, yaml);
	assert_int_equal(tell(&g, PARENT_FLOWS, serial, "", false, NULL, &reply), 0);
}

static const char *const eighteen[][2] = { { "198.18.0.0", "198.18.0.255" } };

static void begin(void)
{
	in_force(&g, 1, base);
	assert_int_equal(add_one(&g, a, "192.0.2.1", 3000), STEER_OK);
	assert_int_equal(add_one(&g, a, "192.0.2.2", 3000), STEER_OK);
	assert_int_equal(add_one(&g, b, "192.0.2.2", 3000), STEER_OK);
	assert_int_equal(add_one(&g, a, "2001:db8:2::2", 3000), STEER_OK);
	assert_int_equal(add_one(&g, b, "2001:db8:2::2", 3000), STEER_OK);
	ranges(b, eighteen, 1);
	flow(PC, "192.0.2.1", T1);
	flow(PC, "192.0.2.2", T1);
	flow("2001:db8:8::20", "2001:db8:2::2", T1);
	flow(PC, "198.18.0.9", T2);
	flow(PC, "203.0.113.9", DIRECT);
	flow("10.7.7.7", "192.0.2.2", DIRECT); /* no client of the group */
	flow(PC, "192.0.2.200", T1);           /* its element's life has ended */
	flow("203.0.113.9", "10.64.0.2", T1);  /* came in through the way, to this machine and to one behind it */
	flow("203.0.113.9", "192.168.8.9", T1);
	flow("192.168.8.1", "192.0.2.2", T1);  /* our own */
	flow(PC, "192.0.2.77", 0);             /* nobody's mark */
}

static const char *const all[][2] = { { PC, "192.0.2.1" }, { PC, "192.0.2.2" }, { "2001:db8:8::20", "2001:db8:2::2" }, { PC, "198.18.0.9" }, { PC, "203.0.113.9" }, { "10.7.7.7", "192.0.2.2" },
	{ PC, "192.0.2.200" }, { "203.0.113.9", "10.64.0.2" }, { "203.0.113.9", "192.168.8.9" }, { "192.168.8.1", "192.0.2.2" }, { PC, "192.0.2.77" } };

/* gone: a bit for every one of `all` that must have gone. */
static void expect_gone(unsigned gone)
{
	for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++)
		if (lives(all[i][0], all[i][1]) == (gone >> i & 1))
			fail_msg("%s to %s %s", all[i][0], all[i][1], gone >> i & 1 ? "was not dropped" : "was dropped");
}

static void test_the_same_again_drops_nothing(void **state)
{
	(void)state;
	begin();
	change(2, base);
	expect_gone(0);
	/* Another rule, for one client alone, that holds nothing yet. */
	change(3, HEAD "  - { name: more, clients: [tv], names: [two], way: t1 }\n" A B LAST);
	expect_gone(0);
}

static void test_order(void **state)
{
	(void)state;
	begin();
	change(2, HEAD B A LAST);
	expect_gone(1 << 1 | 1 << 2);
}

static void test_way_of_addresses_and_prefixes(void **state)
{
	(void)state;
	begin();
	change(2, HEAD A "  - { name: b, clients: [net], names: [two], way: t1 }\n" LAST);
	expect_gone(1 << 3);
}

static void test_rule_that_goes(void **state)
{
	(void)state;
	begin();
	change(2, HEAD B LAST);
	expect_gone(1 << 0 | 1 << 1 | 1 << 2 | 1 << 6);
}

static void test_rule_for_everything(void **state)
{
	(void)state;
	begin();
	change(2, HEAD A B "  - { name: last, way: t2 }\n");
	expect_gone(1 << 4 | 1 << 5);
}

static void test_clients_by_network(void **state)
{
	(void)state;
	begin();
	change(2, HEAD "  - { name: a, clients: [tv], names: [one], way: t1 }\n" B LAST);
	expect_gone(1 << 0 | 1 << 1 | 1 << 2 | 1 << 6);
}

/* Only an interface tells these clients: any may be one. */
static void test_clients_by_interface(void **state)
{
	(void)state;
	static const char by_interface[] = HEAD "  - { name: a, clients: [lan], names: [one], way: t1 }\n" B LAST;
	in_force(&g, 1, by_interface);
	assert_int_equal(add_one(&g, a, "192.0.2.1", 3000), STEER_OK);
	flow(PC, "192.0.2.1", T1);
	flow(PC, "203.0.113.9", DIRECT);
	change(2, by_interface); /* and its empty arrays are compared */
	assert_true(lives(PC, "192.0.2.1"));
	change(3, HEAD "  - { name: a, clients: [lan], names: [one], way: t2 }\n" B LAST);
	assert_false(lives(PC, "192.0.2.1"));
	assert_true(lives(PC, "203.0.113.9"));
}

/* The same rule with another list: the server adds the new one's prefixes before the COMMIT and takes the old one's away after it. */
static void test_names_that_change(void **state)
{
	(void)state;
	static const char *const both[][2] = { { "198.18.0.0", "198.18.0.255" }, { "198.18.7.0", "198.18.7.255" } };
	static const char other[] = HEAD A "  - { name: b, clients: [net], names: [one], way: t2 }\n" LAST;
	begin();
	flow(PC, "198.18.7.7", DIRECT);
	assert_int_equal(tell(&g, PARENT_PREPARE, 2, "", false, other, &reply), 0);
	ranges(b, both, 2);
	assert_true(lives(PC, "198.18.7.7"));
	assert_int_equal(tell(&g, PARENT_COMMIT, 2, "", false, NULL, &reply), 0);
	ranges(b, both + 1, 1);
	assert_int_equal(tell(&g, PARENT_FLOWS, 2, "", false, NULL, &reply), 0);
	expect_gone(1 << 3);
	assert_false(lives(PC, "198.18.7.7"));
	/* A change given up drops nothing, and the next begins anew. */
	assert_int_equal(tell(&g, PARENT_PREPARE, 4, "", false, HEAD B LAST, &reply), 0);
	assert_int_equal(tell(&g, PARENT_ABANDON, 4, "", false, NULL, &reply), 0);
	assert_int_equal(tell(&g, PARENT_FLOWS, 4, "", false, NULL, &reply), 0);
	expect_gone(1 << 3);
}

static void test_prefix_taken_from_a_list(void **state)
{
	(void)state;
	static const char *const low[][2] = { { "198.18.0.0", "198.18.0.99" } }, *const lower[][2] = { { "198.18.0.0", "198.18.0.8" } };
	begin();
	flow(PC, "198.18.0.200", T2);
	flow(PC, "198.18.0.8", T2);
	assert_int_equal(ranges_flagged(b, 0, true, low, 1), 0);
	assert_false(lives(PC, "198.18.0.200"));
	expect_gone(0);
	/* A file that changes drops nothing. */
	assert_int_equal(ranges_flagged(b, 0, false, lower, 1), 0);
	expect_gone(0);
	assert_int_equal(ranges_flagged(b, 0, false, eighteen, 1), 0);
	assert_int_equal(add_one(&g, b, "198.18.0.20", 3000), STEER_OK);
	flow(PC, "198.18.0.20", T2);
	assert_int_equal(ranges_flagged(b, 0, true, low, 0), 0);
	assert_true(lives(PC, "198.18.0.20")); /* a name holds it */
	expect_gone(1 << 3);
}

/* What leaves the exceptions comes to the rule. */
static void test_exception_taken_from_a_list(void **state)
{
	(void)state;
	static const char *const low[][2] = { { "198.18.0.0", "198.18.0.8" } };
	in_force(&g, 1, HEAD A "  - { name: b, clients: [net], names: [two], except-names: [one], way: t2 }\n" LAST);
	ranges(b, eighteen, 1);
	assert_int_equal(ranges_flagged(b, 1, false, low, 1), 0);
	flow(PC, "198.18.0.8", DIRECT);
	flow(PC, "198.18.0.9", T2);
	assert_int_equal(ranges_flagged(b, 1, true, low, 0), 0);
	assert_false(lives(PC, "198.18.0.8"));
	assert_true(lives(PC, "198.18.0.9"));
}

static void test_what_is_cut_out(void **state)
{
	(void)state;
	static const char *const r[][2] = { { "223.255.255.0", "255.255.255.255" }, { "203.0.113.0", "203.0.113.255" }, { "192.168.0.0", "192.168.255.255" }, { "9.0.0.9", "9.0.0.1" },
		{ "198.18.0.128", "198.18.1.7" }, { "198.18.0.0", "198.18.0.200" }, { "0.0.0.0", "1.0.0.0" } };
	in_force(&g, 1, base);
	ranges(b, r, 7);
	static const char *const in[] = { "223.255.255.255", "203.0.113.52", "203.0.113.54", "192.168.8.2", "192.168.8.0", "192.168.255.255", "198.18.0.0", "198.18.0.201", "198.18.1.7", "1.0.0.0" };
	static const char *const out[] = { "224.0.0.0", "255.255.255.255", "203.0.113.53" /* upstream */, "192.168.8.1" /* own */, "9.0.0.5", "198.18.1.8", "0.9.9.9", "1.0.0.1" };
	for (unsigned i = 0; i < sizeof in / sizeof in[0]; i++)
		if (!kernel_has_range(b, in[i]))
			fail_msg("%s is not there", in[i]);
	for (unsigned i = 0; i < sizeof out / sizeof out[0]; i++)
		if (kernel_has_range(b, out[i]))
			fail_msg("%s is there", out[i]);
}

/* --- administrators' sets --- */

#define LEGACY HEAD "  - { name: legacy, clients: [lan], names: [one], way: legacy }\n" LAST

static bool admin_has(const char *addr)
{
	return !shell("nft get element inet fw4 v4 '{ %s }'", addr);
}

static void wait_for(bool (*holds)(const char *), const char *what, bool wanted)
{
	uint64_t start = clock_ms();
	while (holds(what) != wanted)
		if (clock_ms() - start > 10000)
			fail_msg("%s %s", what, wanted ? "does not come" : "does not go");
}

static void test_administrators_interval_set(void **state)
{
	(void)state;
	static const char *const two[][2] = { { "198.18.0.0", "198.18.0.255" }, { "198.18.7.0", "198.18.7.255" } };
	shell("nft add table inet fw4");
	assert_int_equal(shell("nft 'add set inet fw4 v4 { type ipv4_addr; flags interval; elements = { 198.18.0.64/26 }; }'"), 0);
	in_force(&g, 1, LEGACY);
	assert_int_equal(add_one(&g, legacy, "198.18.7.9", 3000), STEER_OK);
	assert_true(admin_has("198.18.7.9"));
	ranges(legacy, two, 2);
	assert_true(admin_has("198.18.0.1") && admin_has("198.18.0.200") && admin_has("198.18.7.8") && admin_has("198.18.7.9") && admin_has("198.18.7.255"));
	assert_false(admin_has("198.18.1.0"));
	/* The address stands for itself again, and the administrator's own stays. */
	ranges(legacy, two, 0);
	wait_for(admin_has, "198.18.7.9", true);
	assert_true(admin_has("198.18.0.64") && !admin_has("198.18.0.1") && !admin_has("198.18.7.8"));
	ranges(legacy, two, 2);
	/* It is filled again when it comes back. */
	assert_int_equal(shell("nft 'delete set inet fw4 v4; add set inet fw4 v4 { type ipv4_addr; flags interval; }'"), 0);
	wait_for(admin_has, "198.18.0.70", true);
	assert_true(admin_has("198.18.7.9"));
	/* Another way for the rule: ours leave. */
	change(2, HEAD "  - { name: legacy, clients: [lan], names: [one], way: t2 }\n" LAST);
	wait_for(admin_has, "198.18.0.70", false);
}

static bool has_alarm(const char *text)
{
	char *json = query(&g, STEER_Q_STATE, NULL);
	bool has = strstr(json, text);
	free(json);
	return has;
}

static void test_administrators_set_without_intervals(void **state)
{
	(void)state;
	static const char *const two[][2] = { { "198.18.0.7", "198.18.0.7" }, { "198.18.7.0", "198.18.7.255" } };
	shell("nft add table inet fw4");
	assert_int_equal(shell("nft 'add set inet fw4 v4 { type ipv4_addr; }'"), 0);
	in_force(&g, 1, LEGACY);
	ranges(legacy, two, 2);
	assert_true(admin_has("198.18.0.7") && !admin_has("198.18.7.7"));
	assert_true(has_alarm("inet fw4 v4`: it takes single addresses only. Mend: define it with `flags interval`"));
	ranges(legacy, two, 1);
	assert_true(admin_has("198.18.0.7"));
	assert_false(has_alarm("single addresses only"));
	ranges(legacy, two, 0);
	assert_false(admin_has("198.18.0.7"));
}

/* --- ways --- */

static void test_way_up_that_is_up_drops_nothing(void **state)
{
	(void)state;
	begin();
	assert_int_equal(tell(&g, PARENT_WAY, 9, "t1", true, NULL, &reply), 0);
	expect_gone(0);
	assert_int_equal(tell(&g, PARENT_WAY, 10, "t1", false, NULL, &reply), 0);
	expect_gone(1 << 0 | 1 << 1 | 1 << 2 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 9);
}

static void test_way_down_before_the_first_commit(void **state)
{
	(void)state;
	in_force(&g, 1, base);
	rig_kill(&g);
	rig_start(&g, true);
	assert_int_equal(tell(&g, PARENT_WAY, 8, "t1", false, NULL, &reply), -1); /* nothing is known yet */
	assert_int_equal(tell(&g, PARENT_PREPARE, 1, "", false, base, &reply), 0);
	assert_int_equal(tell(&g, PARENT_WAY, 9, "t1", false, NULL, &reply), 0);
	assert_int_equal(tell(&g, PARENT_COMMIT, 1, "", false, NULL, &reply), 0);
	assert_int_equal(atomic_load(&g.page->cfg[1].ways_down), 1u << 1);
	assert_int_equal(tell(&g, PARENT_WAY, 10, "t1", true, NULL, &reply), 0);
	assert_int_equal(atomic_load(&g.page->cfg[1].ways_down), 0);
}

static bool routes_alarm(const char *text)
{
	return has_alarm(text);
}

static void test_routes_that_cannot_be_set(void **state)
{
	(void)state;
	static const char yaml[] = HEAD "  - { name: a, clients: [net], names: [one], way: t1 }\n" LAST;
	char with_gateway[2048];
	const char *at = strstr(yaml, "interface: wg1,");
	snprintf(with_gateway, sizeof with_gateway, "%.*sgateway: 10.64.0.9, %s", (int)(at - yaml), yaml, at);
	in_force(&g, 1, with_gateway);
	assert_false(has_alarm("rules and routes do not stand"));
	shell("ip addr add 10.64.0.9/24 dev wg1; ip link set wg1 down; ip link set wg1 up");
	wait_for(routes_alarm, "rules and routes do not stand", true);
	shell("ip addr del 10.64.0.9/24 dev wg1");
	wait_for(routes_alarm, "rules and routes do not stand", false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(test_the_same_again_drops_nothing), TEST(test_order), TEST(test_way_of_addresses_and_prefixes), TEST(test_rule_that_goes), TEST(test_rule_for_everything),
		TEST(test_clients_by_network), TEST(test_clients_by_interface), TEST(test_names_that_change), TEST(test_prefix_taken_from_a_list), TEST(test_exception_taken_from_a_list), TEST(test_what_is_cut_out),
		TEST(test_administrators_interval_set), TEST(test_administrators_set_without_intervals), TEST(test_way_up_that_is_up_drops_nothing),
		TEST(test_way_down_before_the_first_commit), TEST(test_routes_that_cannot_be_set),
	};
	rig_permitted();
	a = rule_id(base, "a");
	b = rule_id(base, "b");
	legacy = rule_id(LEGACY, "legacy");
	return cmocka_run_group_tests_name("steer enforcer moves", tests, NULL, NULL);
}
