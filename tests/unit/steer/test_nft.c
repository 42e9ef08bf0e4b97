/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Our table in a network namespace of its own: layout, elements, ranges, counters, protection, adoption, events. What stands in the kernel is read
 * with the nft program, which knows nothing of us. */
#include "nft_fixture.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <arpa/inet.h>
#include "base/clock.h"
#include "steer/macmap.h"

#define TABLE "nft list table inet nameway"
#define CHAIN(x) "nft list chain inet nameway " x
#define SET(x) "nft list set inet nameway " x

static int setup(void **state)
{
	must_run("nft flush ruleset");
	return 0;
}

static void start(struct fixture *f, struct nft **n, bool is_protected, bool is_older)
{
	fixture_init(f);
	*n = fixture_open(is_protected, is_older);
	fixture_apply(*n, f);
}

static void stop(struct nft *n)
{
	assert_int_equal(nft_remove(n), 0);
	nft_close(n);
	assert_false(output_has("nft list tables", "nameway"));
}

static void put(struct nft *n, const struct nft_element *e, size_t count)
{
	int status[256];

	if (nft_elements_put(n, e, count, status) != 0)
		fail_msg("put: %s", nft_error(n));
	for (size_t i = 0; i < count; i++)
		assert_int_equal(status[i], 0);
}

struct seen { struct addr addr[64]; uint32_t life_s[64]; unsigned count; };

static void see(void *ctx, const struct addr *a, uint32_t life_s)
{
	struct seen *s = ctx;

	assert_true(s->count < 64);
	s->addr[s->count] = *a;
	s->life_s[s->count++] = life_s;
}

/* Remaining life of an address, 0 when it is not there. */
static uint32_t life_of(struct nft *n, uint32_t rule, const char *text)
{
	const struct addr a = address(text);
	struct seen s = { .count = 0 };

	assert_int_equal(nft_elements_dump(n, rule, a.family, see, &s), 0);
	for (unsigned i = 0; i < s.count; i++) {
		if (addr_equal(&s.addr[i], &a))
			return s.life_s[i] ? s.life_s[i] : 1;
	}
	return 0;
}

static void test_rules_mean_what_is_wanted(void **state)
{
	struct fixture f;
	struct nft *n;

	start(&f, &n, false, false);
	assert_true(output_has(CHAIN("prerouting"), "iifname vmap { \"wg1\" : goto from1, \"wg2\" : goto from2 }"));
	assert_true(output_has(CHAIN("prerouting"), "ct direction original ct mark & 0x0000f000 vmap { 0x00001000 : goto keep2, 0x00002000 : goto keep1, 0x00003000 : goto keep0 }"));
	assert_true(output_has(CHAIN("steer"), "jump s000000a1 comment \"lan one\"\n\t\tjump s000000a2 comment \"lan two\"\n\t\tjump s000000a3"));
	assert_true(output_has(CHAIN("s000000a2"), "ip saddr 10.9.0.0/16 ip saddr != 10.9.9.0/24 ether saddr != 02:00:5e:10:00:09 return"));
	assert_true(output_has(CHAIN("s000000a3"), "iifname \"br-iot\" ip saddr 192.168.20.0/24 ether saddr 02:00:5e:10:00:01 goto m000000a3"));
	assert_true(output_has(CHAIN("m000000a1"), "ip6 daddr @p000000a1_6 counter name \"c000000a1\" goto take1"));
	assert_true(output_has(CHAIN("m000000a2"), "ip daddr @q000000a2_4 return\n\t\tip daddr @r000000a2_4 counter"));
	assert_true(output_has(CHAIN("m000000a3"), "ip daddr != @r000000a3_4 ip daddr != @p000000a3_4 counter name \"c000000a3\" goto take2"));
	assert_true(output_has(CHAIN("take1"), "meta mark set meta mark & 0xffff2fff | 0x00002000"));
	assert_true(output_has(CHAIN("output"), "fib daddr type { local, broadcast, multicast } accept\n\t\tmeta skgid 10000 jump m000000a4"));
	assert_true(output_has(CHAIN("nat_postrouting"), "oifname \"wg1\" fib saddr . oif type != local masquerade"));
	assert_true(output_has(CHAIN("nat_postrouting"), "oifname \"wg2\" fib saddr type local fib saddr . oif type != local masquerade"));
	assert_true(output_has(CHAIN("forward"), "oifname \"wg1\" tcp flags syn / syn,rst tcp option maxseg size set rt mtu"));
	assert_false(output_has(CHAIN("forward"), "wg2"));
	assert_true(output_has(CHAIN("hijack_dns"), "udp dport 53 redirect to :5354"));
	assert_true(output_has(CHAIN("hijack_dot"), "tcp dport 853 reject with tcp reset"));
	assert_true(output_has(CHAIN("prerouting"), "policy accept;\n\t\tiif \"lo\" accept\n\t\tct state untracked jump untracked\n"));
	assert_true(output_has(CHAIN("untracked"), "udp dport 53 iifname \"br-lan\" fib daddr type local accept\n\t\tudp dport 53 ip daddr 127.0.0.1 accept"));
	assert_true(output_has(CHAIN("output"), "policy accept;\n\t\tct state untracked jump untracked_out\n"));
	assert_true(output_has("nft list map inet nameway macs", "02:00:5e:10:00:01 : 0x88b5577e"));
	assert_true(output_has(SET("outside"), "\"wan0\""));
	stop(n);
}

/* What every query meets: as little as decides, in the base chain where there is one place to listen. */
static void test_own_dns_is_told_shortly(void **state)
{
	struct fixture f;
	struct nft *n;

	start(&f, &n, false, false);
	assert_true(output_has(CHAIN("raw_prerouting"), "policy accept;\n\t\tiif \"lo\" accept\n\t\tudp dport 53 jump dns_in\n\t\ttcp dport 53 jump dns_in\n\t}"));
	assert_true(output_has(CHAIN("dns_in"), "udp dport 53 iifname \"br-lan\" fib daddr type local notrack accept\n\t\tudp dport 53 ip daddr 127.0.0.1 notrack accept"));
	assert_true(output_has(CHAIN("raw_output"), "policy accept;\n\t\tudp sport 53 jump dns_out\n\t\ttcp sport 53 jump dns_out\n\t\tudp dport 53 oif \"lo\" ip daddr 127.0.0.1 notrack accept"));
	assert_true(output_has(CHAIN("dns_out"), "udp sport 53 oifname \"br-lan\" notrack accept\n\t\tudp sport 53 ip saddr 127.0.0.1 notrack accept"));
	f.listens[0] = (struct cfg_listen){ .ep = { .addr = address("192.168.8.1"), .port = 53 } };
	f.c.server.listen_count = 1;
	fixture_apply(n, &f);
	assert_true(output_has(CHAIN("raw_prerouting"), "accept\n\t\tudp dport 53 ip daddr 192.168.8.1 fib daddr type local notrack accept\n"));
	assert_true(output_has(CHAIN("raw_output"), "policy accept;\n\t\tudp sport 53 ip saddr 192.168.8.1 notrack accept\n"));
	assert_true(output_has(CHAIN("untracked"), "udp dport 53 ip daddr 192.168.8.1 accept\n"));
	assert_false(output_has(TABLE, "dns_in"));
	f.listens[0] = (struct cfg_listen){ .ep = { .addr = address("0.0.0.0"), .port = 53 } };
	fixture_apply(n, &f);
	assert_true(output_has(CHAIN("raw_prerouting"), "accept\n\t\tudp dport 53 fib daddr type local notrack accept\n"));
	assert_true(output_has(CHAIN("raw_output"), "udp dport 53 oif \"lo\" notrack accept\n"));
	assert_true(output_has(CHAIN("untracked"), "udp dport 53 fib daddr type local accept\n"));
	stop(n);
}

/* A base chain costs every packet, and one that asks conntrack has all packets tracked. */
static void test_base_chains_stand_while_they_have_rules(void **state)
{
	static const char *const hooks = TABLE " | grep -c hook";
	struct fixture f;
	struct nft *n;

	start(&f, &n, false, false);
	assert_true(output_has(hooks, "8"));
	f.c.hijack.is_on = false;
	f.ways[WAY_T1].mss_clamp = 0;
	f.c.group_count = 0;
	f.c.steer_count = 1; /* no gid rule */
	f.steers[0].clients.count = 0;
	f.ways[WAY_T1].kill_switch = f.ways[WAY_T2].kill_switch = true;
	fixture_apply(n, &f);
	assert_true(output_has(CHAIN("output"), "ct state untracked accept\n"));
	assert_false(output_has(TABLE, "nat_prerouting"));
	assert_true(output_has(CHAIN("nat_postrouting"), "wg1"));
	assert_false(output_has(CHAIN("nat_postrouting"), "wg2")); /* nobody could have another's source there */
	f.ways[WAY_T1].masquerade = 0;
	fixture_apply(n, &f);
	assert_true(output_has(hooks, "4"));
	f.ways[WAY_T2].kill_switch = false; /* while it is down its packets go elsewhere, and come back */
	fixture_apply(n, &f);
	assert_true(output_has(CHAIN("nat_postrouting"), "oifname \"wg2\" fib saddr type local"));
	f.c.way_count = 0; /* nothing is steered, nothing hijacked */
	f.steers[0].enabled = false;
	f.layout.direct_mark = 0x1000;
	fixture_apply(n, &f);
	assert_true(output_has(hooks, "2"));
	assert_true(output_has(CHAIN("raw_output"), "notrack"));
	assert_false(output_has(TABLE, "ct "));
	fixture_init(&f);
	fixture_apply(n, &f);
	assert_true(output_has(hooks, "8"));
	stop(n);
}

/* The listing must be loadable: administrators save whole rulesets. */
static void test_listing_loads_again(void **state)
{
	struct fixture f;
	struct nft *n;
	char *before, *after;

	start(&f, &n, false, false);
	before = run(TABLE);
	must_run("nft list ruleset > /tmp/nameway-test-$$.nft; nft flush ruleset; nft -f /tmp/nameway-test-$$.nft; r=$?; rm /tmp/nameway-test-$$.nft; test $r = 0");
	after = run(TABLE);
	assert_string_equal(before, after);
	free(before);
	free(after);
	stop(n);
}

static void test_apply_is_repeatable_and_follows(void **state)
{
	struct fixture f;
	struct nft *n;
	char *before, *after;

	start(&f, &n, false, false);
	before = run(TABLE);
	fixture_apply(n, &f);
	after = run(TABLE);
	assert_string_equal(before, after);
	free(before);
	free(after);

	f.c.steer_count = 1; /* the others go, with their sets and counters */
	f.c.group_count = 1; /* no MACs any more */
	strcpy(f.outside[1], "wan1");
	f.layout.outside_count = 2;
	fixture_apply(n, &f);
	assert_false(output_has(TABLE, "000000a2"));
	assert_false(output_has(TABLE, "macs"));
	assert_true(output_has(SET("outside"), "\"wan1\""));
	fixture_init(&f);
	f.steers[0].enabled = false; /* sets and counter stay, no rule does */
	fixture_apply(n, &f);
	assert_true(output_has(SET("r000000a1_4"), "timeout"));
	assert_false(output_has(TABLE, "jump s000000a1"));
	assert_true(output_has(TABLE, "counter c000000a1"));
	f.layout.is_closed = true;
	fixture_apply(n, &f);
	assert_false(output_has(TABLE, "goto take"));
	assert_false(output_has(TABLE, "jump s000000a2"));
	assert_true(output_has(TABLE, "notrack"));
	stop(n);
}

static void test_no_direct_way(void **state)
{
	struct fixture f;
	struct nft *n = fixture_open(false, false);

	fixture_init(&f);
	f.ways[WAY_DIRECT].name = "main";
	f.steers[4].way = WAY_DIRECT;
	f.layout.direct_mark = 0x7000;
	fixture_apply(n, &f);
	assert_true(output_has(CHAIN("take3"), "| 0x00007000"));
	assert_true(output_has(CHAIN("steer"), "goto take3"));
	f.layout.direct_mark = 0x17000; /* outside the mask */
	assert_int_equal(nft_apply(n, &f.layout, NULL, 0, NULL, 0), -EINVAL);
	stop(n);
}

static void put_renew_delete(bool is_older)
{
	struct nft_element e[3] = { element(RULE_LAN1, "198.51.100.1", 300), element(RULE_LAN1, "2001:db8::1", 300), element(RULE_LAN2, "198.51.100.1", 300) };
	struct nft_element absent = element(RULE_LAN1, "203.0.113.9", 300), fresh = element(RULE_LAN1, "203.0.113.10", 300), other = element(0xdead, "203.0.113.9", 300);
	struct fixture f;
	struct nft *n;
	uint32_t life;
	int status[2];

	start(&f, &n, false, is_older);
	put(n, e, 3);
	assert_in_range(life_of(n, RULE_LAN1, "198.51.100.1"), 200, 300);
	assert_in_range(life_of(n, RULE_LAN1, "2001:db8::1"), 200, 300);
	assert_in_range(life_of(n, RULE_LAN2, "198.51.100.1"), 200, 300);
	usleep(2200 * 1000);
	put(n, e, 1); /* the same life again: renewed; the others run on */
	life = life_of(n, RULE_LAN2, "198.51.100.1");
	assert_in_range(life, 200, 298);
	assert_in_range(life_of(n, RULE_LAN1, "198.51.100.1"), life + 1, 300);
	e[0].life_s = 5000;
	e[0].is_fresh = true; /* wrongly said to be fresh: renewed all the same */
	put(n, e, 1);
	assert_in_range(life_of(n, RULE_LAN1, "198.51.100.1"), 4000, 5000);
	fresh.is_fresh = true;
	put(n, &fresh, 1);
	assert_in_range(life_of(n, RULE_LAN1, "203.0.113.10"), 200, 300);

	assert_int_equal(nft_elements_delete(n, e, 2), 0);
	assert_int_equal(life_of(n, RULE_LAN1, "198.51.100.1"), 0);
	assert_int_equal(life_of(n, RULE_LAN1, "2001:db8::1"), 0);
	assert_int_not_equal(life_of(n, RULE_LAN2, "198.51.100.1"), 0);
	e[1] = absent;
	assert_int_equal(nft_elements_delete(n, e, 3), 0);
	assert_int_equal(life_of(n, RULE_LAN2, "198.51.100.1"), 0);
	assert_int_equal(life_of(n, RULE_LAN1, "203.0.113.9"), 0);
	assert_int_equal(nft_elements_delete(n, &other, 1), 0);

	e[0] = absent;
	e[1] = other; /* no such set: only that one fails */
	assert_int_equal(nft_elements_put(n, e, 2, status), -ENOENT);
	assert_int_equal(status[0], 0);
	assert_int_equal(status[1], -ENOENT);
	assert_int_not_equal(life_of(n, RULE_LAN1, "203.0.113.9"), 0);
	assert_non_null(strstr(nft_error(n), "r0000dead_4"));
	must_run("nft delete table inet nameway");
	assert_int_equal(nft_elements_put(n, &absent, 1, status), -ENOENT);
	fixture_apply(n, &f);
	put(n, &absent, 1);
	stop(n);
}

static void test_elements(void **state)
{
	put_renew_delete(false);
}

static void test_elements_on_older_kernels(void **state)
{
	put_renew_delete(true);
}

static void test_short_life_ends(void **state)
{
	struct nft_element e = element(RULE_LAN1, "198.51.100.1", 1);
	struct fixture f;
	struct nft *n;

	start(&f, &n, false, false);
	put(n, &e, 1);
	usleep(1500 * 1000);
	assert_int_equal(life_of(n, RULE_LAN1, "198.51.100.1"), 0);
	e.life_s = 100;
	put(n, &e, 1); /* ended, perhaps not yet collected */
	assert_int_not_equal(life_of(n, RULE_LAN1, "198.51.100.1"), 0);
	stop(n);
}

/* A set made full by hand: what is there is renewed, what is new is refused by itself. */
static void test_full_set(void **state)
{
	enum { FULL = 300 };
	struct nft_element *e = calloc(FULL + 2, sizeof(*e)), again[3];
	int *status = calloc(FULL + 2, sizeof(*status));
	struct fixture f;
	struct nft *n;

	fixture_init(&f);
	must_run("nft add table inet nameway; nft 'add set inet nameway r000000a1_4 { type ipv4_addr; size 300; flags timeout; }'");
	n = fixture_open(false, false);
	fixture_apply(n, &f);
	for (int i = 0; i < FULL + 2; i++) {
		e[i] = element(RULE_LAN1, "198.18.0.0", 100);
		e[i].addr.b[2] = (uint8_t)(i / 256);
		e[i].addr.b[3] = (uint8_t)i;
	}
	assert_int_equal(nft_elements_put(n, e, FULL + 2, status), -ENOSPC);
	assert_int_equal(status[FULL - 1], 0);
	assert_int_equal(status[FULL], -ENOSPC);
	assert_int_equal(status[FULL + 1], -ENOSPC);
	again[0] = e[0];
	again[1] = e[FULL];
	again[2] = e[1];
	again[0].life_s = again[2].life_s = 900;
	assert_int_equal(nft_elements_put(n, again, 3, status), -ENOSPC);
	assert_int_equal(status[1], -ENOSPC);
	if (status[0] == 0) /* kernels that cannot renew in place say that they did not */
		assert_true(output_has(SET("r000000a1_4"), "198.18.0.0 timeout 15m"));
	assert_int_equal(nft_elements_delete(n, e, 2), 0);
	put(n, &e[FULL], 2);
	free(e);
	free(status);
	stop(n);
}

static void test_ranges(void **state)
{
	struct range r[4] = {
		{ address("0.0.0.0"), address("0.0.0.255") }, { address("10.0.0.0"), address("10.0.0.9") },
		{ address("10.0.0.10"), address("10.0.1.255") } /* touches the one before */, { address("255.255.255.0"), address("255.255.255.255") } };
	struct range six[2] = { { address("::"), address("::ff") }, { address("ff00::"), address("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff") } };
	struct nft_range_set s = { .rule_id = RULE_LAN2, .family = AF_INET, .r = r, .count = 4 }, s6 = { .rule_id = RULE_LAN2, .family = 6, .r = six, .count = 2 };
	struct fixture f;
	struct nft *n;

	start(&f, &n, false, false);
	assert_int_equal(nft_ranges_replace(n, &s), 0);
	assert_int_equal(nft_ranges_replace(n, &s6), 0);
	assert_true(output_has(SET("p000000a2_4"), "0.0.0.0/24, 10.0.0.0/23"));
	assert_true(output_has(SET("p000000a2_4"), "255.255.255.0"));
	must_run("nft get element inet nameway p000000a2_4 '{ 255.255.255.255 }'");
	must_run("nft get element inet nameway p000000a2_4 '{ 10.0.1.255 }'");
	must_run("! nft get element inet nameway p000000a2_4 '{ 10.0.2.0 }'");
	must_run("nft get element inet nameway p000000a2_6 '{ ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff }'");
	must_run("! nft get element inet nameway p000000a2_6 '{ ::1:0 }'");
	s.which = 1;
	s.r = &r[1];
	s.count = 1;
	assert_int_equal(nft_ranges_replace(n, &s), 0);
	assert_true(output_has(SET("q000000a2_4"), "10.0.0.0-10.0.0.9"));
	fixture_apply(n, &f); /* ranges stay over an apply */
	assert_true(output_has(SET("q000000a2_4"), "10.0.0.0-10.0.0.9"));
	s.which = 0;
	s.count = 0;
	assert_int_equal(nft_ranges_replace(n, &s), 0);
	assert_false(output_has(SET("p000000a2_4"), "elements"));
	s.rule_id = 0xdead;
	assert_int_equal(nft_ranges_replace(n, &s), -ENOENT);
	stop(n);
}

static void test_many_ranges(void **state)
{
	enum { MANY = 30000 };
	struct range *r = calloc(MANY, sizeof(*r));
	struct nft_range_set s = { .rule_id = RULE_LAN1, .family = AF_INET, .r = r, .count = MANY };
	struct fixture f;
	struct nft *n;

	for (uint32_t i = 0; i < MANY; i++) {
		const uint32_t first = htonl(0x0b000000 + i * 512), last = htonl(0x0b000000 + i * 512 + 255);
		r[i].first.family = r[i].last.family = AF_INET;
		memcpy(r[i].first.b, &first, 4);
		memcpy(r[i].last.b, &last, 4);
	}
	start(&f, &n, false, false);
	for (int i = 0; i < 2; i++) {
		if (nft_ranges_replace(n, &s) != 0)
			fail_msg("%s", nft_error(n));
	}
	must_run("nft get element inet nameway p000000a1_4 '{ 11.0.0.255 }'");
	must_run("! nft get element inet nameway p000000a1_4 '{ 11.0.1.0 }'");
	must_run("nft get element inet nameway p000000a1_4 '{ 11.234.94.1 }'");
	free(r);
	stop(n);
}

static void test_apply_with_extra_and_ranges(void **state)
{
	struct nft_element e[] = { element(RULE_LAN1, "198.51.100.1", 60), element(0xdead, "198.51.100.1", 60), element(RULE_BUT, "2001:db8::5", 60) };
	struct range r = { address("10.0.0.0"), address("10.0.0.9") };
	struct nft_range_set s[] = { { .rule_id = RULE_BUT, .family = AF_INET, .r = &r, .count = 1 }, { .rule_id = 0xdead, .family = AF_INET, .r = &r, .count = 1 } };
	struct fixture f;
	struct nft *n;

	fixture_init(&f);
	for (int older = 0; older <= 1; older++) {
		n = fixture_open(false, older);
		for (int i = 0; i < 2; i++) {
			if (nft_apply(n, &f.layout, e, 3, s, 2) != 0)
				fail_msg("%s", nft_error(n));
			assert_in_range(life_of(n, RULE_LAN1, "198.51.100.1"), 30, 60);
			assert_in_range(life_of(n, RULE_BUT, "2001:db8::5"), 30, 60);
			assert_true(output_has(SET("p000000a3_4"), "10.0.0.0-10.0.0.9"));
		}
		stop(n);
	}
}

/* Elements, ranges and counters survive an apply, a changed rule, and the way from a plain to a protected table and back. */
static void test_kept_over_apply_and_protection(void **state)
{
	struct nft_element e = element(RULE_LAN1, "198.51.100.1", 100);
	struct range r = { address("10.0.0.0"), address("10.0.0.9") };
	struct nft_range_set s = { .rule_id = RULE_LAN1, .family = AF_INET, .r = &r, .count = 1 };
	const uint32_t ids[] = { RULE_LAN1, 0xdead };
	struct nft_counter c[2];
	struct fixture f;
	struct nft *n;

	must_run("nft add table inet nameway; nft 'add counter inet nameway c000000a1 { packets 7 bytes 700 }'");
	start(&f, &n, false, false);
	put(n, &e, 1);
	assert_int_equal(nft_ranges_replace(n, &s), 0);
	for (int protect = 0; protect <= 2; protect++) {
		f.steers[0].way = f.steers[0].way == WAY_T1 ? WAY_T2 : WAY_T1;
		fixture_apply(n, &f);
		assert_int_equal(nft_counters(n, ids, 2, c), 0);
		assert_int_equal(c[0].packets, 7);
		assert_int_equal(c[0].bytes, 700);
		assert_int_equal(c[1].packets, 0);
		assert_in_range(life_of(n, RULE_LAN1, "198.51.100.1"), 50, 100);
		assert_true(output_has(SET("p000000a1_4"), "10.0.0.0-10.0.0.9"));
		assert_int_equal(nft_is_protected(n), protect == 1);
		nft_close(n);
		n = fixture_open(protect == 0, false);
	}
	fixture_apply(n, &f);
	stop(n);
}

static void test_protected_table_stands(void **state)
{
	struct nft_element e = element(RULE_LAN1, "198.51.100.1", 100);
	enum nft_presence p;
	struct fixture f;
	struct nft *n, *second;

	start(&f, &n, true, false);
	if (!nft_is_protected(n)) {
		print_message("this kernel has no owner and persist flags: not tested\n");
		stop(n);
		return;
	}
	put(n, &e, 1);
	must_run("nft flush ruleset");
	assert_int_not_equal(life_of(n, RULE_LAN1, "198.51.100.1"), 0);
	assert_true(output_has("nft flush chain inet nameway steer", "not permitted"));
	assert_true(output_has("nft delete table inet nameway", "not permitted"));
	assert_int_equal(nft_presence(n, &p), 0);
	assert_int_equal(p, NFT_OURS);
	second = fixture_open(true, false);
	assert_int_equal(nft_presence(second, &p), 0);
	assert_int_equal(p, NFT_FOREIGN_OWNER);
	assert_int_equal(nft_apply(second, &f.layout, NULL, 0, NULL, 0), -EPERM);
	assert_non_null(strstr(nft_error(second), "owned by another"));
	assert_int_equal(nft_remove(second), -EPERM);
	nft_close(second);
	fixture_apply(n, &f);
	stop(n);
}

/* A prepared configuration: its sets are made beside the rules in force; the rules come with the commit. */
static void test_prepared_beside(void **state)
{
	struct nft_element e = element(0xb1, "198.51.100.1", 100);
	struct fixture f, next;
	char *before, *after;
	struct nft *n;

	for (int protect = 0; protect <= 1; protect++) {
		start(&f, &n, protect, false);
		before = run(CHAIN("steer") "; " CHAIN("m000000a1") "; " CHAIN("take1") "; " SET("outside"));
		fixture_init(&next);
		next.steers[0].id = 0xb1;
		next.layout.keeps_rules = true;
		strcpy(next.outside[0], "wan7");
		fixture_apply(n, &next);
		put(n, &e, 1);
		after = run(CHAIN("steer") "; " CHAIN("m000000a1") "; " CHAIN("take1") "; " SET("outside"));
		assert_string_equal(before, after);
		free(before);
		free(after);
		next.layout.keeps_rules = false;
		fixture_apply(n, &next);
		assert_in_range(life_of(n, 0xb1, "198.51.100.1"), 50, 100);
		assert_true(output_has(CHAIN("steer"), "jump s000000b1"));
		assert_false(output_has(TABLE, "000000a1"));
		assert_true(output_has(SET("outside"), "wan7"));
		stop(n);
	}
}

static void test_protection_is_switched(void **state)
{
	struct nft_element e = element(RULE_LAN1, "198.51.100.1", 100);
	struct fixture f;
	struct nft *n;

	start(&f, &n, true, false);
	put(n, &e, 1);
	nft_set_protection(n, false);
	fixture_apply(n, &f);
	assert_false(nft_is_protected(n));
	must_run("nft add chain inet nameway mine; nft delete chain inet nameway mine");
	nft_set_protection(n, true);
	fixture_apply(n, &f);
	assert_in_range(life_of(n, RULE_LAN1, "198.51.100.1"), 50, 100);
	stop(n);
	n = fixture_open(true, true); /* asked for, but the kernel cannot */
	fixture_apply(n, &f);
	assert_false(nft_is_protected(n));
	stop(n);
}

static void test_unprotected_table_is_flushed(void **state)
{
	struct nft_element e = element(RULE_LAN1, "198.51.100.1", 100);
	enum nft_presence p;
	struct fixture f;
	struct nft *n;

	start(&f, &n, false, false);
	assert_false(nft_is_protected(n));
	put(n, &e, 1);
	assert_int_equal(nft_presence(n, &p), 0);
	assert_int_equal(p, NFT_OURS);
	must_run("nft flush ruleset");
	assert_int_equal(nft_presence(n, &p), 0);
	assert_int_equal(p, NFT_ABSENT);
	assert_int_equal(nft_apply(n, &f.layout, &e, 1, NULL, 0), 0); /* the rebuild: one transaction with the elements */
	assert_in_range(life_of(n, RULE_LAN1, "198.51.100.1"), 50, 100);
	stop(n);
}

/* The owner dies without a word; the next one takes the table over with all that is in it. */
static void test_adoption(void **state)
{
	const struct nft_element e = element(RULE_LAN1, "198.51.100.1", 100);
	enum nft_presence p;
	struct fixture f;
	struct nft *n;
	int status;

	fixture_init(&f);
	for (int protect = 0; protect <= 1; protect++) {
		pid_t pid = fork();
		if (pid == 0) {
			struct nft *child = fixture_open(protect, false);
			int one;
			if (nft_apply(child, &f.layout, NULL, 0, NULL, 0) != 0 || nft_elements_put(child, &e, 1, &one) != 0)
				_exit(1);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		n = fixture_open(protect, false);
		assert_int_equal(nft_presence(n, &p), 0);
		assert_int_equal(p, NFT_ADOPTABLE);
		fixture_apply(n, &f);
		assert_in_range(life_of(n, RULE_LAN1, "198.51.100.1"), 50, 100);
		assert_int_equal(nft_presence(n, &p), 0);
		assert_int_equal(p, NFT_OURS);
		if (nft_is_protected(n)) {
			must_run("nft flush ruleset");
			assert_true(output_has("nft list tables", "nameway"));
		}
		stop(n);
	}
}

/* Objects of our names but of another kind are put right. */
static void test_strange_table_is_replaced(void **state)
{
	struct fixture f;
	struct nft *n = fixture_open(false, false);

	fixture_init(&f);
	must_run("nft 'table inet nameway { set r000000a1_4 { type ipv6_addr; }; chain prerouting { type filter hook input priority 5; }; chain mine { }; }'");
	fixture_apply(n, &f);
	assert_true(output_has(SET("r000000a1_4"), "type ipv4_addr"));
	assert_true(output_has(CHAIN("prerouting"), "hook prerouting priority mangle"));
	assert_false(output_has(TABLE, "chain mine"));
	stop(n);
}

static int wait_events(struct nft *n, int wait_ms)
{
	struct pollfd p = { .fd = nft_events_fd(n), .events = POLLIN };

	return poll(&p, 1, wait_ms) > 0 ? nft_events_read(n) : 0;
}

static void test_events(void **state)
{
	struct nft_element e = element(RULE_LAN1, "198.51.100.1", 100);
	struct fixture f;
	struct nft *n;

	start(&f, &n, false, false);
	put(n, &e, 1);
	assert_int_equal(nft_elements_delete(n, &e, 1), 0);
	assert_int_equal(wait_events(n, 50), 0); /* our own changes are silent */
	assert_int_equal(nft_events_listen(n, false), 0);
	must_run("nft add table ip elsewhere");
	assert_int_equal(wait_events(n, 50), 0);
	assert_int_equal(nft_events_listen(n, true), 0);
	must_run("nft delete table ip elsewhere; nft add table ip elsewhere");
	assert_int_equal(wait_events(n, 1000), NFT_EV_FOREIGN);
	must_run("nft add table ip nameway"); /* another family is another table */
	assert_int_equal(wait_events(n, 1000), NFT_EV_FOREIGN);
	must_run("nft add element inet nameway r000000a1_4 '{ 1.2.3.4 timeout 5s }'");
	assert_int_equal(wait_events(n, 1000), NFT_EV_OURS);
	must_run("nft delete table inet nameway");
	assert_int_equal(wait_events(n, 1000), NFT_EV_OURS);
	fixture_apply(n, &f);
	assert_int_equal(wait_events(n, 50), 0);
	must_run("nft flush ruleset");
	assert_int_equal(wait_events(n, 1000), NFT_EV_OURS | NFT_EV_FOREIGN);
	nft_close(n);
}

/* A thousand foreign transactions must not disturb ours (a stale generation, an interrupted dump). */
static void test_foreign_reloads(void **state)
{
	struct nft_element e = element(RULE_LAN1, "198.51.100.1", 100);
	struct fixture f;
	struct nft *n;
	int status;
	pid_t pid;

	start(&f, &n, false, false);
	pid = fork();
	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", "PATH=$PATH:/usr/sbin; for i in $(seq 60); do echo 'table ip x { chain c { ip saddr 1.2.3.4 drop; }; }; delete table ip x;'; done | "
			"while read l; do echo \"$l\" | nft -f - || exit 1; done", NULL);
		_exit(1);
	}
	do {
		put(n, &e, 1);
		fixture_apply(n, &f);
		assert_int_not_equal(life_of(n, RULE_LAN1, "198.51.100.1"), 0);
	} while (waitpid(pid, &status, WNOHANG) == 0);
	stop(n);
}

static void test_macmap(void **state)
{
	uint8_t fewer[1][6];
	struct macmap m, after;
	struct fixture f;

	fixture_init(&f);
	assert_int_equal(macmap_build(&m, &f.c), 0);
	assert_int_equal(m.count, 2);
	for (unsigned i = 0; i < m.count; i++)
		assert_memory_equal(macmap_mac(&m, 0x80000000u | m.v[i].number), m.v[i].mac, 6);
	assert_null(macmap_mac(&m, 0x80000000u));
	assert_null(macmap_mac(&m, 0x80000000u | (m.v[0].number ^ 1)));
	assert_null(macmap_mac(&m, m.v[0].number));

	/* A number means the same address after a reload that names fewer, or nobody. */
	memcpy(fewer[0], m.v[1].mac, 6);
	struct cfg_group group = { .macs = fewer, .mac_count = 1 };
	struct config c = { .groups = &group, .group_count = 1 };
	assert_int_equal(macmap_build(&after, &c), 0);
	assert_memory_equal(macmap_mac(&after, 0x80000000u | m.v[1].number), m.v[1].mac, 6);
	assert_null(macmap_mac(&after, 0x80000000u | m.v[0].number));
	macmap_free(&after);
	macmap_free(&m);
}

/* Figures for the reader; no limit here, since a loaded machine must not fail the test. */
static void test_speed(void **state)
{
	enum { ROUNDS = 300 };
	struct nft_element e[100];
	int status[100];
	struct fixture f;
	struct nft *n;
	uint64_t t[3];

	start(&f, &n, true, false);
	for (int i = 0; i < 100; i++) {
		e[i] = element(RULE_LAN1, "198.18.0.0", 300);
		e[i].addr.b[3] = (uint8_t)i;
	}
	t[0] = clock_us();
	for (int i = 0; i < ROUNDS; i++)
		assert_int_equal(nft_elements_put(n, &e[i % 100], 1, status), 0);
	t[1] = clock_us();
	for (int i = 0; i < ROUNDS; i++)
		assert_int_equal(nft_elements_put(n, e, 100, status), 0);
	t[2] = clock_us();
	fixture_apply(n, &f);
	print_message("1 element %.1f us, 100 elements %.1f us, apply %.1f ms\n", (double)(t[1] - t[0]) / ROUNDS, (double)(t[2] - t[1]) / ROUNDS,
		(double)(clock_us() - t[2]) / 1000);
	stop(n);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_rules_mean_what_is_wanted, setup), cmocka_unit_test_setup(test_own_dns_is_told_shortly, setup),
		cmocka_unit_test_setup(test_base_chains_stand_while_they_have_rules, setup),
		cmocka_unit_test_setup(test_listing_loads_again, setup),
		cmocka_unit_test_setup(test_apply_is_repeatable_and_follows, setup),
		cmocka_unit_test_setup(test_no_direct_way, setup),
		cmocka_unit_test_setup(test_elements, setup),
		cmocka_unit_test_setup(test_elements_on_older_kernels, setup),
		cmocka_unit_test_setup(test_short_life_ends, setup),
		cmocka_unit_test_setup(test_full_set, setup),
		cmocka_unit_test_setup(test_ranges, setup),
		cmocka_unit_test_setup(test_many_ranges, setup),
		cmocka_unit_test_setup(test_apply_with_extra_and_ranges, setup),
		cmocka_unit_test_setup(test_kept_over_apply_and_protection, setup),
		cmocka_unit_test_setup(test_protected_table_stands, setup),
		cmocka_unit_test_setup(test_prepared_beside, setup),
		cmocka_unit_test_setup(test_protection_is_switched, setup),
		cmocka_unit_test_setup(test_unprotected_table_is_flushed, setup),
		cmocka_unit_test_setup(test_adoption, setup),
		cmocka_unit_test_setup(test_strange_table_is_replaced, setup),
		cmocka_unit_test_setup(test_events, setup),
		cmocka_unit_test_setup(test_foreign_reloads, setup),
		cmocka_unit_test(test_macmap),
		cmocka_unit_test_setup(test_speed, setup),
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
