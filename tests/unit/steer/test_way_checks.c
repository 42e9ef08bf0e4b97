/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Checks of ways: echoes through a real path, WireGuard's handshake told by a program's control socket, and that socket's text.
 * Exit 77 where namespaces are not permitted. */
#include "ways_fixture.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "steer/ways_internal.h"

static bool is_one_up(struct world *x)
{
	return ways_state(x->w, WAY_ONE) == WAY_UP && !strcmp(exit_of(0x1000, "lan", 4), "wg1");
}

static bool is_one_down(struct world *x)
{
	return ways_state(x->w, WAY_ONE) == WAY_DOWN_CHECK;
}

static bool has_one_no_link(struct world *x)
{
	return ways_state(x->w, WAY_ONE) == WAY_DOWN_LINK;
}

static void ping_down_and_up(struct world *x)
{
	apply(x);
	assert_true(turn_until(x, is_one_up, NULL));
	must(IN "sysctl -qw net.ipv4.icmp_echo_ignore_all=1 net.ipv6.icmp.echo_ignore_all=1", x->far);
	assert_true(turn_until(x, is_one_down, NULL));
	assert_non_null(strstr(ways_reason(x->w, WAY_ONE), "no answer from"));
	assert_string_equal(exit_of(0x1000, "lan", 4), "");
	/* A new configuration with the same check does not forget what it knows. */
	apply(x);
	assert_int_equal(ways_state(x->w, WAY_ONE), WAY_DOWN_CHECK);
	must(IN "sysctl -qw net.ipv4.icmp_echo_ignore_all=0 net.ipv6.icmp.echo_ignore_all=0", x->far);
	assert_true(turn_until(x, is_one_up, NULL));
}

/* The target is beyond the gateway: the echo needs the way's table, also while the way is down. */
static void test_ping(void **state)
{
	struct world *x = *state;
	assert_int_equal(addr_parse(&x->ways[WAY_ONE].gateway4, "10.2.0.2"), 0);
	assert_int_equal(addr_parse(&x->ways[WAY_ONE].check_ping, "9.9.9.9"), 0);
	x->ways[WAY_ONE].check_every_ms = 100;
	ping_down_and_up(x);
}

static void test_ping_v6(void **state)
{
	struct world *x = *state;
	assert_int_equal(addr_parse(&x->ways[WAY_ONE].gateway6, "2001:db8:2::2"), 0);
	assert_int_equal(addr_parse(&x->ways[WAY_ONE].check_ping, "2001:db8:9::9"), 0);
	x->ways[WAY_ONE].check_every_ms = 100;
	ping_down_and_up(x);
}

/* The answer of a target that only the other tunnel reaches does not count. */
static void test_ping_goes_by_its_way(void **state)
{
	struct world *x = *state;
	assert_int_equal(addr_parse(&x->ways[WAY_ONE].gateway4, "10.2.0.2"), 0);
	assert_int_equal(addr_parse(&x->ways[WAY_ONE].check_ping, "9.9.9.9"), 0);
	x->ways[WAY_ONE].check_every_ms = 100;
	must(IN "ip addr del 10.2.0.2/24 dev wg1", x->far);
	apply(x);
	must("ping -c1 -W2 9.9.9.9");
	assert_true(turn_until(x, is_one_down, NULL));
}

static void test_ping_new_link_starts_anew(void **state)
{
	struct world *x = *state;
	assert_int_equal(addr_parse(&x->ways[WAY_ONE].check_ping, "10.2.0.77"), 0);
	x->ways[WAY_ONE].check_every_ms = 100;
	apply(x);
	assert_true(turn_until(x, is_one_down, NULL));
	must("ip link set wg1 down");
	assert_true(turn_until(x, has_one_no_link, NULL));
	must("ip link set wg1 up");
	assert_true(turn_until(x, is_one_up, NULL));
	assert_true(turn_until(x, is_one_down, NULL));
}

struct peers {
	unsigned count;
	struct wg_peer p[4];
};

static void peer_note(void *ctx, const struct wg_peer *p)
{
	struct peers *all = ctx;
	if (all->count < 4)
		all->p[all->count] = *p;
	all->count++;
}

static void test_uapi_text(void **state)
{
	(void)state;
	struct peers all = {0};
	char text[ADDR_TEXT_MAX];
	unsigned n = wg_uapi_parse("private_key=00\nlisten_port=51820\npublic_key=aa\nendpoint=192.0.2.7:51821\nlast_handshake_"
	                           "time_sec=1700000000\nlast_handshake_time_nsec=5\n"
	                           "allowed_ip=0.0.0.0/"
	                           "0\npublic_key=bb\nendpoint=[2001:db8::5]:443\nlast_handshake_time_sec=0\npublic_key="
	                           "cc\nendpoint=[fe80::1%eth0]:1\n"
	                           "public_key=dd\nendpoint=nonsense\nerrno=0\n\n",
	        peer_note, &all);
	assert_int_equal(n, 4);
	assert_int_equal(all.count, 4);
	assert_string_equal(addr_print(text, &all.p[0].endpoint.addr), "192.0.2.7");
	assert_int_equal(all.p[0].endpoint.port, 51821);
	assert_int_equal(all.p[0].handshake_s, 1700000000);
	assert_string_equal(addr_print(text, &all.p[1].endpoint.addr), "2001:db8::5");
	assert_int_equal(all.p[1].endpoint.port, 443);
	assert_int_equal(all.p[1].handshake_s, 0);
	assert_string_equal(addr_print(text, &all.p[2].endpoint.addr), "fe80::1");
	assert_int_equal(all.p[3].endpoint.addr.family, 0);
	static const char *const bad[] = {"", "\n", "\n\n", "no equals sign\n\n", "public_key=aa",
	        "endpoint=:1\nendpoint=\nendpoint=[]:1\nendpoint=a:99999999999999999999\n\n"};
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(wg_uapi_parse(bad[i], peer_note, &all), 0);
}

/* Two tunnels served by wireguard-go, one in each namespace, talking over wan. */

static pid_t tunnel_start(const char *ifname, pid_t in)
{
	pid_t pid = fork();
	if (pid == 0) {
		char ns[64], *argv[] = {"wireguard-go", "-f", (char *)ifname, NULL};
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		snprintf(ns, sizeof ns, "--net=/proc/%d/ns/net", in);
		char *enter[] = {"nsenter", ns, "wireguard-go", "-f", (char *)ifname, NULL};
		if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
			_exit(1);
		execvp(in ? "nsenter" : "wireguard-go", in ? enter : argv);
		_exit(127);
	}
	char path[64];
	snprintf(path, sizeof path, "/var/run/wireguard/%s.sock", ifname);
	for (uint64_t until = clock_ms() + 10000; clock_ms() < until && access(path, F_OK) < 0;)
		poll(NULL, 0, 5);
	return pid;
}

static bool has_endpoint(struct world *x)
{
	struct endpoint ep[8];
	return ways_endpoints(x->w, ep, 8) == 1;
}

static void test_handshake(void **state)
{
	struct world *x = *state;
	char near[IFNAME_MAX], far[IFNAME_MAX];
	if (run("command -v wireguard-go && command -v wg") != 0)
		skip();
	snprintf(near, sizeof near, "nwn%d", (int)getpid());
	snprintf(far, sizeof far, "nwf%d", (int)getpid());
	pid_t a = tunnel_start(near, 0), b = tunnel_start(far, x->far);
	char *ka = strdup(text_of("wg genkey")), *kb = strdup(text_of("wg genkey"));
	ka[strcspn(ka, "\n")] = kb[strcspn(kb, "\n")] = 0;
	must("echo '%s' | wg set %s private-key /dev/stdin listen-port 7001 peer $(echo '%s' | wg pubkey) endpoint 10.4.0.2:7002 "
	     "allowed-ips 0.0.0.0/0",
	        ka, near, kb);
	must(IN "sh -c \"echo '%s' | wg set %s private-key /dev/stdin listen-port 7002 peer $(echo '%s' | wg pubkey) allowed-ips "
	        "0.0.0.0/0\"",
	        x->far, kb, far, ka);
	must("ip addr add 10.9.0.1/24 dev %s && ip link set %s up", near, near);
	must(IN "ip addr add 10.9.0.2/24 dev %s && " IN "ip link set %s up", x->far, far, x->far, far);
	strcpy(x->ways[WAY_ONE].interface, near);
	x->ways[WAY_ONE].handshake_age_s = 3;
	x->ways[WAY_ONE].check_every_ms = 100;
	apply(x);
	/* Nobody sends anything: the check itself makes the tunnel shake hands, so the way stays up. */
	assert_true(turn_until(x, has_endpoint, NULL));
	struct peers all;
	uint64_t until = clock_ms() + 10000;
	do {
		memset(&all, 0, sizeof all);
		ways_turn(x->w, clock_ms(), NULL);
		assert_int_equal(wg_peers(x->w, near, peer_note, &all), 0);
		poll(NULL, 0, 5);
	} while (!all.p[0].handshake_s && clock_ms() < until);
	assert_true(all.p[0].handshake_s > 0);
	/* The far end goes: the handshake grows old. */
	kill(b, SIGKILL);
	waitpid(b, NULL, 0);
	assert_true(turn_until(x, is_one_down, NULL));
	assert_non_null(strstr(ways_reason(x->w, WAY_ONE), "handshake"));
	kill(a, SIGTERM);
	waitpid(a, NULL, 0);
	free(ka);
	free(kb);
	(void)run("rm -f /var/run/wireguard/%s.sock /var/run/wireguard/%s.sock", near, far);
}

static void test_handshake_of_what_is_no_tunnel(void **state)
{
	struct world *x = *state;
	x->ways[WAY_ONE].handshake_age_s = 180;
	x->ways[WAY_ONE].check_every_ms = 100;
	apply(x);
	assert_true(turn_until(x, is_one_down, NULL));
	assert_non_null(strstr(ways_reason(x->w, WAY_ONE), "mend: check it by `ping:`"));
}

int main(void)
{
	if (!world_permitted())
		return 77;
#define WAYS_TEST(f) cmocka_unit_test_setup_teardown(f, world_new, world_free)
	const struct CMUnitTest tests[] = {
	        WAYS_TEST(test_ping),
	        WAYS_TEST(test_ping_v6),
	        WAYS_TEST(test_ping_goes_by_its_way),
	        WAYS_TEST(test_ping_new_link_starts_anew),
	        cmocka_unit_test(test_uapi_text),
	        WAYS_TEST(test_handshake),
	        WAYS_TEST(test_handshake_of_what_is_no_tunnel),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
