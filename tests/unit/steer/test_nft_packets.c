/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Real packets through the table: a gateway namespace between a client and three exits (wg1, wg2, wan0) that hold the same far addresses, so where a
 * packet arrives is the decision. Routing tables and ip rules are made by hand here, as the ways would make them. */
#include "nft_fixture.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SO_RCVMARK
#define SO_RCVMARK 75
#endif
enum { GATEWAY, CLIENT, VIA1, VIA2, WAN, PLACES };
enum { PORT = 9000, WAIT_S = 2 };
static const char *const place_names[PLACES] = { "the gateway", "the client", "wg1", "wg2", "wan" };
static int place_fd[PLACES];

static void enter(int place)
{
	assert_int_equal(setns(place_fd[place], CLONE_NEWNET), 0);
}

static void run_in(int place, const char *command)
{
	enter(place);
	must_run(command);
	enter(GATEWAY);
}

static void fill(struct sockaddr_storage *ss, socklen_t *len, const char *addr, uint16_t port)
{
	struct endpoint e = { .addr = address(addr), .port = port };

	*len = endpoint_to_sockaddr(ss, &e);
}

static int udp(int place, const char *addr, uint16_t port)
{
	const struct timeval wait = { .tv_sec = WAIT_S };
	const int on = 1;
	struct sockaddr_storage ss;
	socklen_t len;
	int fd;

	fill(&ss, &len, addr, port);
	enter(place);
	fd = socket(ss.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	enter(GATEWAY);
	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&ss, len) < 0)
		fail_msg("bind %s:%u in %s: %s", addr, port, place_names[place], strerror(errno));
	return fd;
}

static void send_to(int fd, const char *addr, uint16_t port)
{
	struct sockaddr_storage ss;
	socklen_t len;

	fill(&ss, &len, addr, port);
	if (sendto(fd, "x", 1, 0, (struct sockaddr *)&ss, len) != 1)
		fail_msg("send to %s: %s", addr, strerror(errno));
}

/* Takes one datagram and answers it. from: the text of the source address. */
static void take(int fd, bool answers, char from[ADDR_TEXT_MAX])
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	struct endpoint e;
	char byte;

	if (recvfrom(fd, &byte, 1, 0, (struct sockaddr *)&ss, &len) != 1)
		fail_msg("nothing arrived: %s", strerror(errno));
	assert_int_equal(addr_from_sockaddr(&e, (struct sockaddr *)&ss), 0);
	if (from)
		addr_print(from, &e.addr);
	if (answers)
		assert_int_equal(sendto(fd, "y", 1, 0, (struct sockaddr *)&ss, len), 1);
}

/* Sends from `fd` to a far address and tells which exit it left by; the answer must come back. */
static int exit_of(int fd, const char *addr, char from[ADDR_TEXT_MAX])
{
	struct timeval zero = { .tv_usec = 1000 };
	int far[PLACES], found = -1;

	for (int p = VIA1; p <= WAN; p++)
		far[p] = udp(p, addr, PORT);
	send_to(fd, addr, PORT);
	for (int tries = 0; tries < 2000 && found < 0; tries++) {
		for (int p = VIA1; p <= WAN && found < 0; p++) {
			char byte;
			setsockopt(far[p], SOL_SOCKET, SO_RCVTIMEO, &zero, sizeof(zero));
			if (recv(far[p], &byte, 1, MSG_PEEK) == 1)
				found = p;
		}
	}
	if (found >= 0) {
		char byte;
		take(far[found], true, from);
		if (recv(fd, &byte, 1, 0) != 1)
			fail_msg("no answer from %s through %s", addr, place_names[found]);
	}
	for (int p = VIA1; p <= WAN; p++)
		close(far[p]);
	return found;
}

static int client_exit(uint16_t source_port, const char *addr)
{
	int fd = udp(CLIENT, strchr(addr, ':') ? "fd08::2" : "192.168.8.2", source_port), ret = exit_of(fd, addr, NULL);

	close(fd);
	return ret;
}

static void build_place(int place, const char *interface, unsigned net)
{
	char c[1200];

	assert_int_equal(unshare(CLONE_NEWNET), 0);
	place_fd[place] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	assert_true(place_fd[place] >= 0);
	/* Made here, its other end is moved home by the descriptor of the gateway's namespace. */
	snprintf(c, sizeof(c), "ip link set lo up; ip link add far type veth peer name %s netns /proc/%d/fd/%d && ip link set far up", interface, (int)getpid(),
		place_fd[GATEWAY]);
	must_run(c);
	if (place == CLIENT)
		must_run("ip addr add 192.168.8.2/24 dev far; ip addr add 192.168.8.9/24 dev far; ip -6 addr add fd08::2/64 dev far nodad; ip route add default via 192.168.8.1;"
			 "ip -6 route add default via fd08::1");
	else
		snprintf(c, sizeof(c), "ip addr add 10.%u.0.2/24 dev far; ip -6 addr add fd0%u::2/64 dev far nodad; ip route add default via 10.%u.0.1; ip -6 route add default via fd0%u::1;"
			"for i in 1 2 3 4 9; do ip addr add 198.51.100.$i/32 dev lo; ip -6 addr add 2001:db8::$i/128 dev lo nodad; done",
			net, net, net, net);
	if (place != CLIENT)
		must_run(c);
	enter(GATEWAY);
	snprintf(c, sizeof(c), "ip link set %s up; ip addr add %s dev %s; ip -6 addr add fd0%u::1/64 dev %s nodad", interface,
		place == CLIENT ? "192.168.8.1/24" : net == 1 ? "10.1.0.1/24" : net == 2 ? "10.2.0.1/24" : "10.3.0.1/24", interface, net, interface);
	must_run(c);
}

static int build(void **state)
{
	place_fd[GATEWAY] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	assert_true(place_fd[GATEWAY] >= 0);
	must_run("for k in all default; do echo 0 > /proc/sys/net/ipv4/conf/$k/rp_filter; done; echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding");
	build_place(CLIENT, "br-lan", 8);
	build_place(VIA1, "wg1", 1);
	build_place(VIA2, "wg2", 2);
	build_place(WAN, "wan0", 3);
	must_run("ip route add default via 10.3.0.2; ip -6 route add default via fd03::2");
	must_run("for f in -4 -6; do ip $f rule add fwmark 0x2000/0xf000 lookup main suppress_prefixlength 0 pref 5010; ip $f rule add fwmark 0x2000/0xf000 lookup 1001 pref 5020;"
		 "ip $f rule add fwmark 0x1000/0xf000 lookup main suppress_prefixlength 0 pref 5011; ip $f rule add fwmark 0x1000/0xf000 lookup 1002 pref 5021; done;"
		 "ip route add default via 10.1.0.2 dev wg1 table 1001; ip route add default via 10.2.0.2 dev wg2 table 1002;"
		 "ip -6 route add default via fd01::2 dev wg1 table 1001; ip -6 route add default via fd02::2 dev wg2 table 1002");
	return 0;
}

static struct fixture f;
static struct nft *n;

static int setup(void **state)
{
	must_run("nft flush ruleset");
	fixture_init(&f);
	f.ways[WAY_T2].masquerade = 1;
	n = fixture_open(false, false);
	fixture_apply(n, &f);
	must_run("conntrack -F 2>/dev/null || true");
	return 0;
}

static int teardown(void **state)
{
	nft_remove(n);
	nft_close(n);
	return 0;
}

static void put(uint32_t rule, const char *addr)
{
	struct nft_element e = element(rule, addr, 100);
	int status;

	assert_int_equal(nft_elements_put(n, &e, 1, &status), 0);
}

static uint64_t count_of(uint32_t rule)
{
	struct nft_counter c;

	assert_int_equal(nft_counters(n, &rule, 1, &c), 0);
	return c.packets;
}

static void test_first_match_decides(void **state)
{
	struct range r = { address("198.51.100.3"), address("198.51.100.4") }, q = { address("198.51.100.4"), address("198.51.100.4") };
	struct nft_range_set p = { .rule_id = RULE_LAN2, .family = AF_INET, .r = &r, .count = 1 }, x = { .rule_id = RULE_LAN2, .family = AF_INET, .which = 1, .r = &q, .count = 1 };

	put(RULE_LAN1, "198.51.100.1");
	put(RULE_LAN2, "198.51.100.1");
	put(RULE_LAN2, "198.51.100.2");
	put(RULE_LAN1, "2001:db8::1");
	assert_int_equal(nft_ranges_replace(n, &p), 0);
	assert_int_equal(nft_ranges_replace(n, &x), 0);
	assert_int_equal(client_exit(4001, "198.51.100.1"), VIA1);
	assert_int_equal(client_exit(4002, "198.51.100.2"), VIA2);
	assert_int_equal(client_exit(4003, "198.51.100.3"), VIA2); /* by a listed prefix */
	assert_int_equal(client_exit(4004, "198.51.100.4"), WAN);  /* an excepted prefix inside it */
	assert_int_equal(client_exit(4005, "198.51.100.9"), WAN);
	assert_int_equal(client_exit(4006, "2001:db8::1"), VIA1);
	assert_int_equal(client_exit(4007, "2001:db8::2"), WAN);
	assert_int_equal(count_of(RULE_LAN1), 2);
	assert_int_equal(count_of(RULE_LAN2), 2);
	assert_int_equal(count_of(RULE_REST), 3);
}

static void test_except_clients(void **state)
{
	f.groups[GROUP_TV].network_count = f.groups[GROUP_TV].except_network_count = 0; /* every client of br-lan but one MAC */
	fixture_apply(n, &f);
	put(RULE_LAN2, "198.51.100.2");
	assert_int_equal(client_exit(4010, "198.51.100.2"), WAN);
	run_in(CLIENT, "ip link set far address 02:00:5e:10:00:09"); /* excepted from the excepted group */
	must_run("ip neigh flush all");
	assert_int_equal(client_exit(4011, "198.51.100.2"), VIA2);
	run_in(CLIENT, "ip link set far address 02:00:5e:10:00:33");
	must_run("ip neigh flush all");
	assert_int_equal(client_exit(4012, "198.51.100.2"), WAN);
}

static void test_negated_rule(void **state)
{
	static uint16_t lan_group[] = { GROUP_LAN };

	f.steers[0].enabled = f.steers[1].enabled = false;
	f.steers[2].clients = (struct ids){ lan_group, 1 };
	fixture_apply(n, &f);
	put(RULE_BUT, "198.51.100.1");
	assert_int_equal(client_exit(4020, "198.51.100.1"), WAN);
	assert_int_equal(client_exit(4021, "198.51.100.2"), VIA2);
	assert_int_equal(client_exit(4022, "2001:db8::2"), VIA2);
}

static void test_connection_keeps_its_exit(void **state)
{
	const struct nft_element e = element(RULE_LAN1, "198.51.100.1", 100);

	put(RULE_LAN1, "198.51.100.1");
	assert_int_equal(client_exit(4030, "198.51.100.1"), VIA1);
	assert_int_equal(client_exit(4030, "198.51.100.1"), VIA1);
	assert_int_equal(count_of(RULE_LAN1), 1); /* the second was restored, not judged */
	assert_int_equal(nft_elements_delete(n, &e, 1), 0);
	assert_int_equal(client_exit(4030, "198.51.100.1"), VIA1);
	assert_int_equal(client_exit(4031, "198.51.100.1"), WAN);
	put(RULE_LAN1, "198.51.100.1");
	assert_int_equal(client_exit(4031, "198.51.100.1"), WAN);
	assert_int_equal(client_exit(4032, "198.51.100.1"), VIA1);
}

/* Without local access the way's mark leads into its table alone; the answer must reach the client all the same. */
static void test_way_without_local_access(void **state)
{
	f.ways[WAY_T1].local_access = false;
	fixture_apply(n, &f);
	must_run("ip rule del pref 5010");
	put(RULE_LAN1, "198.51.100.1");
	assert_int_equal(client_exit(4110, "198.51.100.1"), VIA1);
	must_run("ip rule add fwmark 0x2000/0xf000 lookup main suppress_prefixlength 0 pref 5010");
}

/* A connection from behind an exit is answered through it, whatever the sets say of the far address. */
static void answered_through(int place, uint16_t port)
{
	int inside = udp(CLIENT, "192.168.8.2", port), far = udp(place, "198.51.100.1", port);
	char from[ADDR_TEXT_MAX];

	for (int i = 0; i < 2; i++) {
		send_to(far, "192.168.8.2", port);
		take(inside, true, from);
		assert_string_equal(from, "198.51.100.1");
		take(far, false, from);
		assert_string_equal(from, "192.168.8.2");
	}
	close(inside);
	close(far);
}

static void test_answers_go_back(void **state)
{
	put(RULE_LAN1, "198.51.100.1");
	answered_through(WAN, 7001);  /* not into the tunnel of the address */
	answered_through(VIA2, 7002); /* not into the other tunnel, not out by the WAN */
	answered_through(VIA1, 7003);
	assert_int_equal(count_of(RULE_LAN1), 0);
}

/* A rule for everybody is for clients: what comes from outside is not led into its tunnel. */
static void test_outside_is_no_client(void **state)
{
	f.steers[4].way = WAY_T2;
	fixture_apply(n, &f);
	answered_through(WAN, 7011);
	assert_int_equal(count_of(RULE_REST), 0);
	assert_int_equal(client_exit(4120, "198.51.100.2"), VIA2);
}

static void test_foreign_bits_stay(void **state)
{
	must_run("nft 'table ip probe { chain before { type filter hook prerouting priority -160; meta mark set 0x00040001; }; counter kept { }; "
		 "chain after { type filter hook forward priority 0; iifname br-lan meta mark 0x00042001 counter name kept; }; }'");
	put(RULE_LAN1, "198.51.100.1");
	assert_int_equal(client_exit(4040, "198.51.100.1"), VIA1);
	assert_true(output_has("nft list counter ip probe kept", "packets 1"));
}

/* Packets without conntrack entry are decided by their address, every one. */
static void test_untracked_packets(void **state)
{
	int inside = udp(CLIENT, "192.168.8.2", 4050), far = udp(VIA1, "198.51.100.1", PORT);

	must_run("nft 'table ip probe { chain before { type filter hook prerouting priority raw; notrack; }; }'");
	put(RULE_LAN1, "198.51.100.1");
	for (int i = 0; i < 2; i++) {
		send_to(inside, "198.51.100.1", PORT);
		take(far, false, NULL);
	}
	assert_int_equal(count_of(RULE_LAN1), 2);
	close(inside);
	close(far);
}

static void expect_through(int fd, int far, const char *addr)
{
	send_to(fd, addr, 53);
	take(far, true, NULL);
	take(fd, false, NULL);
}

/* We bind addresses without having them (another router may), and others untrack packets too: DNS that only passes is decided like anything else. */
static void test_dns_that_passes_is_no_own(void **state)
{
	int inside = udp(CLIENT, "192.168.8.2", 4055), far = udp(VIA1, "198.51.100.1", 53), far2 = udp(VIA1, "198.51.100.2", 53);

	f.c.hijack.is_on = false;
	f.listens[1] = (struct cfg_listen){ .ep = { .addr = address("198.51.100.1"), .port = 53 } };
	fixture_apply(n, &f);
	put(RULE_LAN1, "198.51.100.1");
	put(RULE_LAN1, "198.51.100.2");
	must_run("nft 'table ip probe { counter untracked { }; chain after { type filter hook forward priority 0; ct state untracked counter name untracked; }; }'");
	expect_through(inside, far, "198.51.100.1");
	assert_int_equal(count_of(RULE_LAN1), 1);
	assert_true(output_has("nft list counter ip probe untracked", "packets 0"));
	must_run("nft 'table ip probe { chain before { type filter hook prerouting priority raw - 1; udp dport 53 notrack; }; }'");
	send_to(inside, "198.51.100.2", 53);
	take(far2, false, NULL);
	assert_int_equal(count_of(RULE_LAN1), 2);
	assert_true(output_has("nft list counter ip probe untracked", "packets 1"));
	close(inside);
	close(far);
	close(far2);
}

/* A gid rule is not asked about our answers, but about whatever else somebody untracks. */
static void test_gid_rule_takes_untracked_packets(void **state)
{
	int far = udp(VIA1, "198.51.100.4", PORT), status;
	pid_t pid;

	must_run("nft 'table ip probe { chain before { type filter hook output priority raw; notrack; }; }'");
	pid = fork();
	if (pid == 0) {
		if (setegid(10000) != 0)
			_exit(1);
		send_to(udp(GATEWAY, "0.0.0.0", 4065), "198.51.100.4", PORT);
		_exit(0);
	}
	take(far, false, NULL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(count_of(RULE_GID), 1);
	close(far);
}

static void test_local_processes(void **state)
{
	char from[ADDR_TEXT_MAX];
	const uint32_t mark = MARK_T2;
	int fd, status;
	pid_t pid;

	put(RULE_LAN1, "198.51.100.1"); /* not for this machine's own traffic */
	fd = udp(GATEWAY, "0.0.0.0", 4060);
	assert_int_equal(exit_of(fd, "198.51.100.1", from), WAN);
	close(fd);
	pid = fork();
	if (pid == 0) {
		int ok;
		if (setegid(10000) != 0)
			_exit(1);
		fd = udp(GATEWAY, "0.0.0.0", 4061);
		ok = exit_of(fd, "198.51.100.2", from) == VIA1 && !strcmp(from, "10.1.0.1"); /* led away after its source was chosen, so masqueraded */
		_exit(ok ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(count_of(RULE_GID), 1);
	fd = udp(GATEWAY, "0.0.0.0", 4062);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)), 0);
	assert_int_equal(exit_of(fd, "198.51.100.3", from), VIA2);
	assert_string_equal(from, "10.2.0.1");
	close(fd);
}

static void test_gid_rule_leaves_endpoints_alone(void **state)
{
	const struct endpoint never[] = { { .addr = address("198.51.100.2"), .port = PORT }, { .addr = address("2001:db8::2"), .port = 1 }, { .addr = address("198.51.100.3") } };
	int status;
	pid_t pid;

	f.layout.never = never;
	f.layout.never_count = 3;
	fixture_apply(n, &f);
	pid = fork();
	if (pid == 0) {
		int fd;
		if (setegid(10000) != 0)
			_exit(1);
		fd = udp(GATEWAY, "0.0.0.0", 4071);
		if (exit_of(fd, "198.51.100.2", NULL) != WAN || exit_of(fd, "198.51.100.3", NULL) != WAN || exit_of(fd, "198.51.100.1", NULL) != VIA1)
			_exit(1);
		fd = udp(GATEWAY, "::", 4072);
		_exit(exit_of(fd, "2001:db8::2", NULL) == VIA1 ? 0 : 1); /* another port of that address */
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_hijack(void **state)
{
	int dns = udp(GATEWAY, "0.0.0.0", 5354), inside = udp(CLIENT, "192.168.8.2", 4080), excepted = udp(CLIENT, "192.168.8.9", 4081), far = udp(VIA1, "198.51.100.1", 53);
	char from[ADDR_TEXT_MAX];

	put(RULE_LAN1, "198.51.100.1");
	for (int i = 0; i < 2; i++) {
		send_to(inside, "198.51.100.1", 53);
		take(dns, true, from);
		assert_string_equal(from, "192.168.8.2");
		take(inside, false, from);
		assert_string_equal(from, "198.51.100.1"); /* the answer seems to come from where it was asked */
	}
	assert_int_equal(count_of(RULE_LAN1), 0);
	send_to(excepted, "198.51.100.1", 53);
	take(far, false, NULL);
	assert_int_equal(count_of(RULE_LAN1), 1);
	close(dns);
	close(inside);
	close(excepted);
	close(far);
}

static uint32_t receive_mark(int fd)
{
	union { struct cmsghdr align; char bytes[CMSG_SPACE(sizeof(uint32_t))]; } control;
	char byte;
	struct iovec v = { &byte, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	uint32_t mark = 0;

	if (recvmsg(fd, &m, 0) != 1)
		fail_msg("nothing arrived: %s", strerror(errno));
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_MARK)
			memcpy(&mark, CMSG_DATA(c), sizeof(mark));
	}
	return mark;
}

static void test_dns_is_untracked_and_tells_the_mac(void **state)
{
	int dns = udp(GATEWAY, "0.0.0.0", 53), inside, self = udp(GATEWAY, "127.0.0.1", 4091);
	const int on = 1;

	if (setsockopt(dns, SOL_SOCKET, SO_RCVMARK, &on, sizeof(on)) < 0) {
		print_message("this kernel has no SO_RCVMARK: not tested\n");
		return;
	}
	must_run("nft 'table ip probe { counter in { }; counter out { }; counter tracked { }; chain i { type filter hook input priority 0; udp dport 53 ct state untracked counter name in; };"
		 "chain o { type filter hook output priority 0; udp sport 53 ct state untracked counter name out; }; chain t { type filter hook input priority 1; udp dport 53 ct state new counter name tracked; }; }'");
	run_in(CLIENT, "ip link set far address 02:00:5e:10:00:01");
	must_run("ip neigh flush all");
	inside = udp(CLIENT, "192.168.8.2", 4090);
	send_to(inside, "192.168.8.1", 53);
	assert_int_equal(receive_mark(dns), 0x88b5577eu); /* the number of the client's address */
	run_in(CLIENT, "ip link set far address 02:00:5e:10:00:77");
	must_run("ip neigh flush all");
	send_to(inside, "192.168.8.1", 53);
	assert_int_equal(receive_mark(dns), 0x80000000u);
	send_to(dns, "192.168.8.2", 4090);
	take(inside, false, NULL);
	send_to(self, "127.0.0.1", 53);
	assert_int_equal(receive_mark(dns), 0x80000000u);
	assert_true(output_has("nft list counter ip probe in", "packets 3"));
	assert_true(output_has("nft list counter ip probe out", "packets 1"));
	assert_true(output_has("nft list counter ip probe tracked", "packets 0"));
	close(dns);
	close(inside);
	close(self);
}

static int tcp_connect(int place, const char *addr, uint16_t port)
{
	const struct timeval wait = { .tv_sec = WAIT_S };
	struct sockaddr_storage ss;
	socklen_t len;
	int fd;

	fill(&ss, &len, addr, port);
	enter(place);
	fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	enter(GATEWAY);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	if (connect(fd, (struct sockaddr *)&ss, len) < 0) {
		int r = -errno;
		close(fd);
		return r;
	}
	return fd;
}

static void test_dot_is_refused_and_mss_clamped(void **state)
{
	const struct timeval wait = { .tv_sec = WAIT_S };
	struct sockaddr_storage ss;
	socklen_t len;
	int listener, inside, accepted, mss = 0;

	put(RULE_LAN1, "198.51.100.1");
	put(RULE_LAN1, "2001:db8::1");
	assert_int_equal(tcp_connect(CLIENT, "198.51.100.1", 853), -ECONNREFUSED);
	assert_int_equal(tcp_connect(CLIENT, "2001:db8::1", 853), -ECONNREFUSED);

	must_run("ip link set wg1 mtu 1300");
	fill(&ss, &len, "198.51.100.1", 8443);
	enter(VIA1);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	enter(GATEWAY);
	setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	assert_int_equal(bind(listener, (struct sockaddr *)&ss, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	inside = tcp_connect(CLIENT, "198.51.100.1", 8443);
	assert_true(inside >= 0);
	accepted = accept(listener, NULL, NULL);
	assert_true(accepted >= 0);
	len = sizeof(mss);
	assert_int_equal(getsockopt(accepted, IPPROTO_TCP, TCP_MAXSEG, &mss, &len), 0);
	assert_in_range(mss, 1200, 1260); /* 1300 - 40, less options */
	must_run("ip link set wg1 mtu 1500");
	close(accepted);
	close(inside);
	close(listener);
}

/* Before the first commit nothing is marked. */
static void test_closed_marks_nothing(void **state)
{
	f.layout.is_closed = true;
	fixture_apply(n, &f);
	put(RULE_LAN1, "198.51.100.1");
	must_run("nft 'table ip probe { counter unmarked { }; chain after { type filter hook forward priority 0; meta mark and 0xf000 == 0 counter name unmarked; }; }'");
	assert_int_equal(client_exit(4100, "198.51.100.1"), WAN);
	assert_true(output_has("nft list counter ip probe unmarked", "packets 2"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_first_match_decides, setup, teardown),
		cmocka_unit_test_setup_teardown(test_except_clients, setup, teardown),
		cmocka_unit_test_setup_teardown(test_negated_rule, setup, teardown),
		cmocka_unit_test_setup_teardown(test_connection_keeps_its_exit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_way_without_local_access, setup, teardown),
		cmocka_unit_test_setup_teardown(test_answers_go_back, setup, teardown),
		cmocka_unit_test_setup_teardown(test_outside_is_no_client, setup, teardown),
		cmocka_unit_test_setup_teardown(test_foreign_bits_stay, setup, teardown),
		cmocka_unit_test_setup_teardown(test_untracked_packets, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dns_that_passes_is_no_own, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gid_rule_takes_untracked_packets, setup, teardown),
		cmocka_unit_test_setup_teardown(test_local_processes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gid_rule_leaves_endpoints_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hijack, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dns_is_untracked_and_tells_the_mac, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dot_is_refused_and_mss_clamped, setup, teardown),
		cmocka_unit_test_setup_teardown(test_closed_marks_nothing, setup, teardown),
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, build, NULL);
}
