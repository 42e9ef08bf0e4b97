/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Ways in a network namespace of their own, judged by the kernel's own route lookups and by packets. Exit 77 where namespaces
 * are not permitted. */
#include "ways_fixture.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_one_up(struct world *x)
{
	return ways_state(x->w, WAY_ONE) == WAY_UP && !strcmp(exit_of(0x1000, "lan", 4), "wg1") &&
	       !strcmp(exit_of(0x1000, "lan", 6), "wg1");
}

static bool is_one_down(struct world *x)
{
	return ways_state(x->w, WAY_ONE) != WAY_UP;
}

static bool is_two_down(struct world *x)
{
	return ways_state(x->w, WAY_TWO) != WAY_UP;
}

static bool is_two_up(struct world *x)
{
	return ways_state(x->w, WAY_TWO) == WAY_UP && !strcmp(exit_of(0x2000, "lan", 4), "wg2");
}

static bool is_guest_closed(struct world *x)
{
	(void)x;
	return !run("ip rule show priority 5000 | grep -q 'iif guest blackhole'");
}

static bool is_failing(struct world *x)
{
	return ways_is_failing(x->w);
}

static bool is_not_failing(struct world *x)
{
	return !ways_is_failing(x->w);
}

static void test_closed_stops_unmarked_only(void **state)
{
	struct world *x = *state;
	apply(x);
	for (int family = 4; family <= 6; family += 2) {
		assert_string_equal(exit_of(0, "lan", family), "");
		assert_string_equal(exit_of(0x0fff, "lan", family), ""); /* foreign bits do not open it */
		assert_string_equal(exit_of(0x1000, "lan", family), "wg1");
		assert_string_equal(exit_of(0x1fff, "lan", family), "wg1"); /* nor do they change the way */
		assert_string_equal(exit_of(0x2000, "lan", family), "wg2");
		assert_string_equal(exit_of(0x3000, "lan", family), "wan");
		assert_string_equal(exit_of(0, "wan", family), "wan");
	}
	/* To the router itself, and of the router itself. */
	must("ip route get 10.1.0.1 from 10.1.0.2 iif lan");
	must("ip route get 9.9.9.9");
	assert_non_null(strstr(text_of("ip rule show"), "5000:\tfrom all fwmark 0/0xf000 iif lan blackhole"));
	assert_non_null(strstr(text_of("ip route show table 101"), "unreachable default"));
	assert_non_null(strstr(text_of("ip -6 route show table 101"), "unreachable default"));
}

static void test_closed_only_guard(void **state)
{
	struct world *x = *state;
	assert_int_equal(ways_configure(x->w, &x->c), 0);
	assert_int_equal(ways_apply(x->w, WAYS_APPLY_CLOSED), 0);
	assert_string_equal(exit_of(0, "lan", 4), "");
	assert_null(strstr(text_of("ip rule show"), "5020:"));
	assert_null(strstr(text_of("ip route show table 101"), "unreachable"));
}

static void test_no_steering_no_closed_rules(void **state)
{
	struct world *x = *state;
	x->steers[0].enabled = false;
	apply(x);
	assert_string_equal(exit_of(0, "lan", 4), "wan");
}

static void test_listen_interfaces(void **state)
{
	struct world *x = *state;
	strcpy(x->listen[0].ifname, "lo");
	strcpy(x->listen[1].ifname, "wan");
	x->c.server.listen = x->listen;
	x->c.server.listen_count = 2;
	apply(x);
	/* What the router sends has iif lo; what comes from outside are answers. Neither may be closed. */
	must("ip route get 9.9.9.9");
	assert_string_equal(exit_of(0, "wan", 4), "wan");
	must("ip link add guest type veth peer name guest2 && ip link set guest up");
	strcpy(x->listen[1].ifname, "guest");
	apply(x);
	assert_string_equal(exit_of(0, "guest", 4), "");
}

/* Clients that no interface tells: who listens on addresses is where they come. */
static void test_listen_addresses(void **state)
{
	struct world *x = *state;
	x->steers[0].clients.count = 0;
	x->c.server.listen = x->listen;
	x->c.server.listen_count = 1;
	x->listen[0] = (struct cfg_listen){.ep = {.port = 53}};
	assert_int_equal(addr_parse(&x->listen[0].ep.addr, "10.1.0.1"), 0);
	apply(x);
	for (int family = 4; family <= 6; family += 2)
		assert_string_equal(exit_of(0, "lan", family), "");
	assert_string_equal(exit_of(0, "wan", 4), "wan");
	/* It follows the address. */
	must("ip link add guest type veth peer name guest2 && ip link set guest up");
	must("ip addr del 10.1.0.1/24 dev lan && ip addr add 10.1.0.77/24 dev lan && ip addr add 10.1.0.1/32 dev guest");
	assert_true(turn_until(x, is_guest_closed, NULL));
	assert_string_equal(exit_of(0, "lan", 4), "wan");
	/* On lo, on a way or where a default route leads out nothing is closed. */
	static const char *const elsewhere[] = {"127.0.0.1", "10.2.0.1", "10.4.0.1"};
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(addr_parse(&x->listen[0].ep.addr, elsewhere[i]), 0);
		apply(x);
		assert_int_equal(run("ip rule show priority 5000 | grep -q ."), 1);
	}
	/* Every address: every interface but these. */
	assert_int_equal(addr_parse(&x->listen[0].ep.addr, "::"), 0);
	apply(x);
	assert_string_equal(exit_of(0, "lan", 4), "");
	assert_true(is_guest_closed(x));
	assert_string_equal(exit_of(0, "wan", 4), "wan");
	must("ip route get 9.9.9.9");
	assert_int_equal(run("ip rule show priority 5000 | grep -qE 'wg1|wg2|wan| lo '"), 1);
	x->steers[0].clients.count = 1;
}

static void test_failing_is_told_until_it_is_mended(void **state)
{
	struct world *x = *state;
	assert_int_equal(addr_parse(&x->ways[WAY_ONE].gateway4, "10.2.0.9"), 0);
	apply(x);
	assert_false(ways_is_failing(x->w));
	must("ip addr add 10.2.0.9/24 dev wg1"); /* no gateway for itself; its routes are made anew when the link comes */
	must("ip link set wg1 down && ip link set wg1 up");
	assert_true(turn_until(x, is_failing, NULL));
	assert_non_null(strstr(ways_error(x->w), "route"));
	must("ip addr del 10.2.0.9/24 dev wg1");
	assert_true(turn_until(x, is_not_failing, NULL));
	assert_string_equal(exit_of(0x1000, "lan", 4), "wg1");
}

static void test_group_of_networks(void **state)
{
	struct world *x = *state;
	assert_int_equal(prefix_parse(&x->network, "10.1.0.0/24"), 0);
	x->groups[0] = (struct cfg_group){.name = "net", .networks = &x->network, .network_count = 1};
	apply(x);
	assert_string_equal(exit_of(0, "lan", 4), "");
	assert_string_equal(exit_of(0x1000, "lan", 4), "wg1");
	/* The router's own packets from its address in that network are no client's. */
	must("ip route get 9.9.9.9 from 10.1.0.1");
	must("ip route get 10.1.0.2 from 10.1.0.1");
	must(IN "ping -c1 -W2 10.1.0.1", x->client);
	assert_int_equal(ways_remove_all(x->w), 0);
	assert_int_equal(run("ip rule show | grep -E '^50[0-3][0-9]:'"), 1);
}

static void test_kill_switch(void **state)
{
	struct world *x = *state;
	uint64_t killed, no6, fallback, p2p, took;
	apply(x);
	must("ip link set wg1 down");
	/* The kernel stops it before we have heard of it. */
	assert_string_equal(exit_of(0x1000, "lan", 4), "");
	assert_string_equal(exit_of(0x1000, "lan", 6), "");
	assert_true(turn_until(x, is_one_down, NULL));
	assert_string_equal(exit_of(0x1000, "lan", 4), "");
	assert_string_equal(exit_of(0x1000, "lan", 6), "");
	ways_bitmaps(x->w, &killed, &no6, &fallback, &p2p);
	assert_int_equal(killed, 1 << WAY_ONE);
	assert_int_equal(fallback, 0);
	assert_non_null(strstr(ways_reason(x->w, WAY_ONE), "wg1 is down"));
	must("ip link set wg1 up && ip addr add 2001:db8:2::1/64 dev wg1 nodad");
	assert_true(turn_until(x, is_one_up, &took));
	assert_true(took < 500);
	/* Lost carrier: the far end goes down. */
	must(IN "ip link set wg1 down", x->far);
	assert_true(turn_until(x, is_one_down, NULL));
	assert_non_null(strstr(ways_reason(x->w, WAY_ONE), "no carrier"));
	assert_string_equal(exit_of(0x1000, "lan", 4), "");
}

static void test_admin_down(void **state)
{
	struct world *x = *state;
	apply(x);
	ways_admin(x->w, WAY_ONE, false);
	ways_admin(x->w, WAY_TWO, false);
	assert_int_equal(ways_turn(x->w, 1000000, NULL) & WAYS_CH_STATE, WAYS_CH_STATE);
	assert_int_equal(ways_state(x->w, WAY_ONE), WAY_DOWN_ADMIN);
	assert_string_equal(exit_of(0x1000, "lan", 4), "");
	assert_string_equal(exit_of(0x2000, "lan", 4), "wan");
	/* A new configuration remembers it by name. */
	apply(x);
	assert_int_equal(ways_state(x->w, WAY_ONE), WAY_DOWN_ADMIN);
	assert_string_equal(exit_of(0x1000, "lan", 6), "");
	/* The local net stays within reach. */
	assert_non_null(strstr(text_of("ip route get 10.4.0.9 from 10.1.0.2 iif lan mark 0x1000"), "dev wan"));
	ways_admin(x->w, WAY_ONE, true);
	assert_true(turn_until(x, is_one_up, NULL));
}

static void test_fallback(void **state)
{
	struct world *x = *state;
	uint64_t killed, no6, fallback, p2p;
	x->ways[WAY_TWO].fallback = WAY_ONE;
	apply(x);
	must("ip link set wg2 down");
	assert_true(turn_until(x, is_two_down, NULL));
	assert_string_equal(exit_of(0x2000, "lan", 4), "wg1");
	assert_string_equal(exit_of(0x2000, "lan", 6), "wg1");
	ways_bitmaps(x->w, &killed, &no6, &fallback, &p2p);
	assert_int_equal(killed, 0);
	assert_int_equal(fallback, 1 << WAY_TWO);
	/* The fallback falls too, and is kill-switched: nothing leaks. */
	must("ip link set wg1 down");
	assert_true(turn_until(x, is_one_down, NULL));
	assert_string_equal(exit_of(0x2000, "lan", 4), "");
	x->ways[WAY_ONE].kill_switch = false;
	apply(x);
	assert_string_equal(exit_of(0x2000, "lan", 4), "wan");
	/* A circle of ways that are down ends nowhere. */
	x->ways[WAY_ONE].fallback = WAY_TWO;
	apply(x);
	assert_string_equal(exit_of(0x2000, "lan", 4), "");
	must("ip link set wg2 up");
	assert_true(turn_until(x, is_two_up, NULL));
	assert_string_equal(exit_of(0x1000, "lan", 4), "wg2");
}

static void test_interface_made_anew(void **state)
{
	struct world *x = *state;
	uint64_t took;
	apply(x);
	must("ip link del wg1");
	assert_true(turn_until(x, is_one_down, NULL));
	assert_non_null(strstr(ways_reason(x->w, WAY_ONE), "does not exist"));
	assert_string_equal(exit_of(0x1000, "lan", 4), "");
	must("ip link add wg1 type veth peer name wg1 netns %d && ip addr add 10.2.0.1/24 dev wg1 && ip addr add "
	     "2001:db8:2::1/64 dev wg1 nodad && ip link set wg1 up",
	        x->far);
	must(IN "ip link set wg1 up", x->far);
	assert_true(turn_until(x, is_one_up, &took));
	assert_true(took < 500);
	assert_string_equal(text_of("cat /proc/sys/net/ipv4/conf/wg1/rp_filter"), "2\n");
	/* Renamed away and another one renamed to it. */
	must("ip link set wg1 name other");
	assert_true(turn_until(x, is_one_down, NULL));
	must("ip link set other name wg1");
	assert_true(turn_until(x, is_one_up, NULL));
}

static bool is_whole(struct world *x)
{
	return is_one_up(x) && !exit_of(0, "lan", 4)[0] && strstr(text_of("ip rule show"), "5030:") &&
	       strstr(text_of("ip route show table 101"), "unreachable") && strstr(text_of("ip -6 rule show"), "5010:");
}

static void test_others_delete_ours(void **state)
{
	struct world *x = *state;
	uint64_t took;
	must("ip rule add priority 100 fwmark 0x55/0xff lookup main && ip rule add priority 5025 to 10.99.0.0/16 lookup main");
	apply(x);
	assert_true(is_whole(x));
	must("ip rule del priority 5000; ip rule del priority 5030; ip rule del priority 5030; ip -6 rule del priority 5010; ip "
	     "route flush table 101");
	assert_false(is_whole(x));
	assert_true(turn_until(x, is_whole, &took));
	assert_true(took < 500);
	/* Foreign rules stand where they stood, also among our priorities, also after everything of ours went. */
	assert_int_equal(ways_remove_all(x->w), 0);
	const char *rules = text_of("ip rule show");
	assert_non_null(strstr(rules, "100:\tfrom all fwmark 0x55/0xff lookup main"));
	assert_non_null(strstr(rules, "5025:\tfrom all to 10.99.0.0/16 lookup main"));
	assert_null(strstr(rules, "proto 110"));
	assert_null(strstr(text_of("ip -6 rule show"), "proto 110"));
	assert_string_equal(text_of("ip route show table all proto 110; ip -6 route show table all proto 110"), "");
}

static void test_restart_takes_over(void **state)
{
	struct world *x = *state;
	apply(x);
	char *before = strdup(text_of("ip rule show; ip -6 rule show; ip route show table 101; ip -6 route show table 102"));
	assert_int_equal(ways_leave(x->w), 0);
	ways_close(x->w);
	assert_int_equal(ways_open(&x->w), 0);
	apply(x);
	assert_string_equal(
	        text_of("ip rule show; ip -6 rule show; ip route show table 101; ip -6 route show table 102"), before);
	free(before);
}

static void test_reconfigure_adds_before_it_removes(void **state)
{
	struct world *x = *state;
	struct config old = x->c;
	struct cfg_way old_ways[4];
	apply(x);
	memcpy(old_ways, x->ways, sizeof old_ways);
	old.ways = old_ways;
	assert_int_equal(ways_configure(x->w, &old), 0);
	x->ways[WAY_ONE].mark = 0x4000;
	x->ways[WAY_ONE].table_id = 201;
	assert_int_equal(ways_configure(x->w, &x->c), 0);
	assert_int_equal(ways_apply(x->w, WAYS_APPLY_ADD), 0);
	assert_string_equal(exit_of(0x1000, "lan", 4), "wg1");
	assert_string_equal(exit_of(0x4000, "lan", 4), "wg1");
	assert_int_equal(ways_apply(x->w, WAYS_APPLY_ALL), 0);
	assert_string_equal(exit_of(0x4000, "lan", 6), "wg1");
	assert_null(strstr(text_of("ip rule show"), "0x1000"));
	assert_string_equal(text_of("ip route show table 101 2>/dev/null"), "");
	/* Another mask: the old one's rules go as well. */
	x->c.server.mark_mask = 0xf0000;
	x->ways[WAY_ONE].mark = 0x10000;
	x->ways[WAY_TWO].mark = 0x20000;
	apply(x);
	assert_null(strstr(text_of("ip rule show"), "0xf000 "));
	assert_string_equal(exit_of(0x20000, "lan", 4), "wg2");
	assert_string_equal(exit_of(0xf000, "lan", 4), "");
}

static void test_gateways(void **state)
{
	struct world *x = *state;
	assert_int_equal(addr_parse(&x->ways[WAY_ONE].gateway4, "10.2.0.2"), 0);
	assert_int_equal(addr_parse(&x->ways[WAY_ONE].gateway6, "2001:db8:2::2"), 0);
	must("ip route add default via 10.3.0.2 dev wg2 metric 700");
	apply(x);
	assert_non_null(strstr(text_of("ip route show table 101"), "default via 10.2.0.2 dev wg1"));
	assert_non_null(strstr(text_of("ip -6 route show table 101"), "default via 2001:db8:2::2 dev wg1"));
	assert_non_null(strstr(text_of("ip route show table 102"), "default via 10.3.0.2 dev wg2"));
	assert_non_null(strstr(text_of("ip -6 route show table 102"), "default dev wg2"));
	char outside[16][IFNAME_MAX];
	unsigned n = ways_outside(x->w, outside, 16);
	assert_int_equal(n, 3);
	assert_string_equal(outside[2], "wan");
}

static bool has_one_v6(struct world *x)
{
	uint64_t killed, no6, fallback, p2p;
	ways_bitmaps(x->w, &killed, &no6, &fallback, &p2p);
	return !(no6 & 1 << WAY_ONE);
}

static bool has_one_no_v6(struct world *x)
{
	return !has_one_v6(x);
}

static void test_without_ipv6(void **state)
{
	struct world *x = *state;
	x->ways[WAY_TWO].ipv6_off = true;
	apply(x);
	assert_string_equal(exit_of(0x2000, "lan", 6), "");
	assert_string_equal(exit_of(0x2000, "lan", 4), "wg2");
	assert_true(has_one_v6(x));
	must("ip addr del 2001:db8:2::1/64 dev wg1");
	assert_true(turn_until(x, has_one_no_v6, NULL));
	assert_string_equal(exit_of(0x1000, "lan", 6), "");
	must("ip addr add fd00::1/64 dev wg1 nodad"); /* tunnels live on such addresses, with masquerade */
	assert_true(turn_until(x, has_one_v6, NULL));
	assert_string_equal(exit_of(0x1000, "lan", 6), "wg1");
	struct addr a;
	assert_int_equal(addr_parse(&a, "fd00::1"), 0);
	assert_true(ways_is_own_address(x->w, &a));
	assert_int_equal(addr_parse(&a, "fd00::2"), 0);
	assert_false(ways_is_own_address(x->w, &a));
}

static void test_point_to_point(void **state)
{
	struct world *x = *state;
	uint64_t killed, no6, fallback, p2p;
	if (run("ip tuntap add mode tun name tun7") != 0)
		skip();
	strcpy(x->ways[WAY_TWO].interface, "tun7");
	apply(x);
	ways_bitmaps(x->w, &killed, &no6, &fallback, &p2p);
	assert_int_equal(p2p, 1 << WAY_TWO);
}

static void clash_note(void *ctx, const char *text)
{
	char *all = ctx;
	strncat(all, text, 8000 - strlen(all));
	strcat(all, "\n");
}

static void test_clashes(void **state)
{
	struct world *x = *state;
	char all[8192] = "";
	apply(x);
	assert_int_equal(ways_clashes(x->w, &x->c, clash_note, all), 0);
	assert_string_equal(all, "");
	must("ip rule add priority 1001 fwmark 0x100/0x3f00 lookup 1");        /* mwan3 */
	must("ip rule add priority 5210 fwmark 0x80000/0xff0000 lookup main"); /* Tailscale */
	must("ip rule add priority 900 not fwmark 0xca6c lookup 51820");       /* wg-quick */
	must("ip rule add priority 901 fwmark 0x55 lookup main");
	must("ip rule add priority 5021 to 10.99.0.0/16 lookup main");
	must("ip route add 192.0.2.0/24 dev wg1 table 101");
	assert_int_equal(ways_clashes(x->w, &x->c, clash_note, all), 0);
	assert_non_null(strstr(all, "ip rule 1001: fwmark 0x100/0x3f00 lookup 1: uses bits"));
	assert_null(strstr(all, "rule 5210"));
	assert_non_null(
	        strstr(all, "rule 900: not fwmark 0xca6c")); /* 0xca6c has bits of 0xf000: that tunnel's own packets carry them */
	assert_non_null(strstr(all, "warning: ip rule 901"));
	assert_non_null(strstr(all, "ip rule 5021: lookup main: stands among nameway's priorities"));
	assert_non_null(strstr(all, "routing table 101 of way tunnel1 holds 1 IPv4 route "));
	/* Bits 0x3f00, 0xff0000, 0xca6c and ours are taken. */
	assert_non_null(strstr(all, "e.g. 0xf000000"));
}

static void test_settings_given_back(void **state)
{
	struct world *x = *state;
	char dir[] = "/tmp/test_ways_XXXXXX";
	assert_non_null(mkdtemp(dir));
	int fd = open(dir, O_RDONLY | O_DIRECTORY);
	assert_int_equal(ways_set_state_dir(x->w, fd), 0);
	must("sysctl -qw net.ipv4.conf.wg1.rp_filter=1 net.ipv4.conf.wg2.rp_filter=2");
	apply(x);
	assert_string_equal(text_of("cat /proc/sys/net/ipv4/conf/wg1/rp_filter"), "2\n");
	/* A later run knows what the first one found. */
	ways_close(x->w);
	assert_int_equal(ways_open(&x->w), 0);
	assert_int_equal(ways_set_state_dir(x->w, fd), 0);
	apply(x);
	assert_int_equal(ways_remove_all(x->w), 0);
	assert_string_equal(text_of("cat /proc/sys/net/ipv4/conf/wg1/rp_filter"), "1\n");
	assert_string_equal(text_of("cat /proc/sys/net/ipv4/conf/wg2/rp_filter"), "2\n");
	assert_string_equal(text_of("cat /proc/sys/net/ipv4/conf/wg1/src_valid_mark"), "0\n");
	assert_int_equal(run("ls -A %s | grep .", dir), 1);
	close(fd);
	assert_int_equal(rmdir(dir), 0);
}

/* Packets there and back with reverse-path filtering on every interface: it asks for the way back of each answer, and the
 * closed rule must not be what it finds. The marks are nft's part; either the way's own or that of `direct` may stand on
 * answers. */
static void test_packets_return(void **state)
{
	struct world *x = *state;
	if (run("nft --version") != 0)
		skip();
	must("sysctl -qw net.ipv4.conf.lan.rp_filter=1 net.ipv4.conf.wan.rp_filter=1 net.ipv4.conf.wg1.rp_filter=1");
	must(IN "ip route add 10.1.0.0/24 via 10.2.0.1 dev wg1 && " IN
	        "ip -6 route add 2001:db8:1::/64 via 2001:db8:2::1 dev wg1",
	        x->far, x->far);
	assert_int_equal(addr_parse(&x->ways[WAY_ONE].gateway4, "10.2.0.2"), 0);
	assert_int_equal(addr_parse(&x->ways[WAY_ONE].gateway6, "2001:db8:2::2"), 0);
	for (int local = 0; local < 2; local++) {
		x->ways[WAY_ONE].local_access = local;
		apply(x);
		for (int is_direct = 0; is_direct < 2; is_direct++) {
			must("nft 'table inet t; delete table inet t; table inet t { chain p { type filter hook prerouting "
			     "priority mangle; "
			     "iif lan ct mark set 0x1000; meta mark set ct mark; iif wg1 meta mark set 0x%x; }; }'",
			        is_direct ? 0x3000 : 0x1000);
			must(IN "ping -c1 -W2 9.9.9.9", x->client);
			must(IN "ping -c1 -W2 2001:db8:9::9", x->client);
		}
	}
}

int main(void)
{
	if (!world_permitted())
		return 77;
#define WAYS_TEST(f) cmocka_unit_test_setup_teardown(f, world_new, world_free)
	const struct CMUnitTest tests[] = {
	        WAYS_TEST(test_closed_stops_unmarked_only),
	        WAYS_TEST(test_closed_only_guard),
	        WAYS_TEST(test_no_steering_no_closed_rules),
	        WAYS_TEST(test_listen_interfaces),
	        WAYS_TEST(test_listen_addresses),
	        WAYS_TEST(test_failing_is_told_until_it_is_mended),
	        WAYS_TEST(test_group_of_networks),
	        WAYS_TEST(test_kill_switch),
	        WAYS_TEST(test_admin_down),
	        WAYS_TEST(test_fallback),
	        WAYS_TEST(test_interface_made_anew),
	        WAYS_TEST(test_others_delete_ours),
	        WAYS_TEST(test_restart_takes_over),
	        WAYS_TEST(test_reconfigure_adds_before_it_removes),
	        WAYS_TEST(test_gateways),
	        WAYS_TEST(test_without_ipv6),
	        WAYS_TEST(test_point_to_point),
	        WAYS_TEST(test_clashes),
	        WAYS_TEST(test_settings_given_back),
	        WAYS_TEST(test_packets_return),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
