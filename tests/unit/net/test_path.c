/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Where a packet or connection came from, over a veth pair between two network namespaces that the test makes: MAC, interface,
 * own address, and UDP answers from the address asked, link-local ones too. Skipped without the right to make namespaces. */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/tcp.h"
#include "net/tcp_path.h"
#include "net/udp.h"

enum { PORT = 53 };

static struct loop *loop;
static struct tcp_server *tcp;
static struct udp_server *udp;
static struct tcp_path tcp_path[2]; /* by family: IPv4, IPv6 */
static struct udp_path udp_path[3];
static unsigned tcp_count, udp_count;
static bool has_timed_out;

static const uint8_t client_mac[6] = {2, 0, 0, 0, 0, 0x77};

static void on_message(void *ctx, struct tcp_session *s, const struct tcp_path *path, const uint8_t *msg, size_t len)
{
	tcp_path[path->from.addr.family == AF_INET6] = *path;
	tcp_count++;
	tcp_answer(s, msg, len);
}

static void on_packets(void *ctx, const struct udp_packet *p, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		udp_path[udp_count++ % 3] = p[i].path;
		memcpy(udp_reserve(udp), p[i].bytes, p[i].len);
		udp_commit(udp, p[i].len, &p[i].path);
	}
}

static void on_child_done(uv_poll_t *h, int status, int events)
{
	loop_stop(loop);
}

static void on_give_up(struct deadline *d)
{
	has_timed_out = true;
	loop_stop(loop);
}

/* The client, in its own process and namespace. Returns how many things went wrong. */
static int exchange(int type, const char *to_text)
{
	struct endpoint to = {.port = PORT};
	struct sockaddr_storage sa;
	struct timeval patience = {.tv_sec = 10};
	socklen_t len;
	uint8_t query[7] = {0, 5, 'h', 'e', 'l', 'l', 'o'}, answer[16];
	size_t from = type == SOCK_STREAM ? 0 : 2;
	int fd, r = 1;

	if (addr_parse(&to.addr, to_text) < 0)
		return 1;
	if (to.addr.b[0] == 0xfe)
		to.scope = if_nametoindex("nwpeer");
	len = endpoint_to_sockaddr(&sa, &to);
	fd = socket(sa.ss_family, type | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	/* Connected, so that only an answer from the address asked is taken. */
	if (connect(fd, (struct sockaddr *)&sa, len) == 0 && send(fd, query + from, 7 - from, 0) == (ssize_t)(7 - from) &&
	        recv(fd, answer, 7 - from, MSG_WAITALL) == (ssize_t)(7 - from))
		r = memcmp(answer, query + from, 7 - from) != 0;
	close(fd);
	return r;
}

static int client(int go)
{
	char c;

	if (unshare(CLONE_NEWNET) < 0)
		return 100;
	if (read(go, &c, 1) != 1 || system("ip link set nwpeer address 02:00:00:00:00:77 && ip addr add 192.0.2.2/24 dev nwpeer "
	                                   "&& ip addr add 2001:db8::2/64 dev nwpeer nodad"
	                                   " && ip link set nwpeer addrgenmode none && ip link set nwpeer up && ip addr add "
	                                   "fe80::2/64 dev nwpeer nodad") != 0)
		return 101;
	return exchange(SOCK_STREAM, "192.0.2.1") + 2 * exchange(SOCK_STREAM, "2001:db8::1") +
	       4 * exchange(SOCK_DGRAM, "192.0.2.9") + 8 * exchange(SOCK_DGRAM, "2001:db8::9") +
	       16 * exchange(SOCK_DGRAM, "fe80::1");
}

static int bound(int family, int type)
{
	struct endpoint e = {.addr.family = (uint8_t)family, .port = PORT};
	struct sockaddr_storage sa;
	socklen_t len = endpoint_to_sockaddr(&sa, &e);
	int fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;

	if (family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, len), 0);
	if (type == SOCK_STREAM)
		assert_int_equal(listen(fd, 16), 0);
	return fd;
}

static void check_address(const struct addr *a, const char *text)
{
	char buf[ADDR_TEXT_MAX];

	assert_string_equal(addr_print(buf, a), text);
}

/* A veth pair from here to the child's namespace, once the child has one that differs from ours. Returns our end's index. */
static uint32_t make_link(pid_t pid)
{
	char command[1024];

	snprintf(command, sizeof(command),
	        "i=0; while [ \"$(readlink /proc/%d/ns/net)\" = \"$(readlink /proc/self/ns/net)\" ] && [ $i -lt 200 ]; do sleep "
	        "0.05; i=$((i+1)); done; "
	        "ip link add nwours type veth peer name nwpeer && ip link set nwpeer netns %d && ip link set nwours addrgenmode "
	        "none && ip link set nwours up && "
	        "for a in 192.0.2.1/24 192.0.2.9/24; do ip addr add $a dev nwours || exit 1; done; "
	        "for a in fe80::1/64 2001:db8::1/64 2001:db8::9/64; do ip addr add $a dev nwours nodad || exit 1; done",
	        (int)pid, (int)pid);
	assert_int_equal(system(command), 0);
	return if_nametoindex("nwours");
}

/* Opens the sockets, tells the child, and serves until it closed its end of the pipe by ending. */
static void serve(int go, int ended)
{
	struct deadline_queue give_up;
	struct deadline at = {0};
	uv_poll_t child_end;
	uint32_t index;

	deadline_queue_init(loop, &give_up, 60000, on_give_up);
	assert_int_equal(tcp_server_add(tcp, bound(AF_INET, SOCK_STREAM), 0, &index), 0);
	assert_int_equal(tcp_server_add(tcp, bound(AF_INET6, SOCK_STREAM), 0, &index), 0);
	assert_int_equal(udp_server_add(udp, bound(AF_INET, SOCK_DGRAM), &index), 0);
	assert_int_equal(udp_server_add(udp, bound(AF_INET6, SOCK_DGRAM), &index), 0);
	assert_int_equal(write(go, "g", 1), 1);
	uv_poll_init(loop_uv(loop), &child_end, ended);
	uv_poll_start(&child_end, UV_READABLE, on_child_done);
	deadline_add(loop, &give_up, &at);
	loop_run(loop);
	uv_close((uv_handle_t *)&child_end, NULL);
	deadline_queue_done(loop, &give_up);
	assert_false(has_timed_out);
}

static void check_paths(uint32_t ifindex)
{
	assert_int_equal(tcp_count, 2);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(tcp_path[i].mac_known);
		assert_memory_equal(tcp_path[i].mac, client_mac, 6);
		assert_int_equal(tcp_path[i].ifindex, ifindex);
	}
	check_address(&tcp_path[0].from.addr, "192.0.2.2");
	check_address(&tcp_path[0].to, "192.0.2.1");
	check_address(&tcp_path[1].from.addr, "2001:db8::2");
	check_address(&tcp_path[1].to, "2001:db8::1");
	assert_int_equal(udp_count, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(udp_path[i].ifindex, ifindex);
	check_address(&udp_path[0].to, "192.0.2.9");
	check_address(&udp_path[1].to, "2001:db8::9");
	check_address(&udp_path[2].to, "fe80::1");
	assert_int_equal(udp_path[2].from.scope, ifindex);
}

static void paths_are_seen(void **state)
{
	int go[2], ended[2], status;
	uint32_t ifindex;
	pid_t pid;

	if (unshare(CLONE_NEWNET) < 0 || system("ip link show lo >/dev/null 2>&1") != 0)
		skip();
	assert_int_equal(pipe(go), 0);
	assert_int_equal(pipe(ended), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(ended[0]);
		_exit(client(go[0]));
	}
	close(ended[1]);
	ifindex = make_link(pid);
	assert_int_not_equal(ifindex, 0);
	assert_int_equal(loop_new(&loop), 0);
	assert_int_equal(tcp_server_new(&tcp, loop, on_message, NULL), 0);
	assert_int_equal(udp_server_new(&udp, loop, on_packets, NULL), 0);
	serve(go[1], ended[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0); /* a bit for each exchange that failed */
	check_paths(ifindex);
	tcp_server_free(tcp);
	udp_server_free(udp);
	loop_free(loop);
	close(go[0]);
	close(go[1]);
	close(ended[0]);
}

/* SYNs as the kernel saves them, and what only looks like one. */
static void the_mac_is_read_from_a_syn(void **state)
{
	uint8_t syn[14 + 40 + 20] = {1, 2, 3, 4, 5, 6, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x08, 0x00, 0x45}, mac[6];
	static const uint8_t want[6] = {0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f}, none[6];
	struct addr v4, v6, other;

	assert_int_equal(addr_parse(&v4, "192.0.2.2"), 0);
	assert_int_equal(addr_parse(&other, "192.0.2.3"), 0);
	assert_int_equal(addr_parse(&v6, "2001:db8::2"), 0);
	memcpy(syn + 14 + 12, v4.b, 4);
	assert_true(tcp_syn_mac(mac, syn, 14 + 40, &v4));
	assert_memory_equal(mac, want, 6);
	assert_false(tcp_syn_mac(mac, syn, 14 + 40, &other));
	assert_false(tcp_syn_mac(mac, syn, 14 + 40, &v6));
	for (size_t len = 0; len < 14 + 40; len++)
		assert_false(tcp_syn_mac(mac, syn, len, &v4));
	/* Without a link header: known to have none. */
	assert_true(tcp_syn_mac(mac, syn + 14, 40, &v4));
	assert_memory_equal(mac, none, 6);
	assert_false(tcp_syn_mac(mac, syn + 14, 40, &other));
	assert_false(tcp_syn_mac(mac, syn + 14, 40, &v6));
	for (size_t len = 0; len < 40; len++)
		assert_false(tcp_syn_mac(mac, syn + 14, len, &v4));
	/* With a link header of another kind: nothing is known. */
	assert_false(tcp_syn_mac(mac, syn + 10, 4 + 40, &v4));
	/* The loopback's. */
	memset(syn + 6, 0, 6);
	memcpy(mac, want, 6);
	assert_true(tcp_syn_mac(mac, syn, 14 + 40, &v4));
	assert_memory_equal(mac, none, 6);
	memcpy(syn + 6, want, 6);
	syn[12] = 0x86;
	syn[13] = 0xdd;
	syn[14] = 0x60;
	memcpy(syn + 14 + 8, v6.b, 16);
	assert_true(tcp_syn_mac(mac, syn, sizeof(syn), &v6));
	assert_memory_equal(mac, want, 6);
	assert_true(tcp_syn_mac(mac, syn + 14, 60, &v6));
	assert_memory_equal(mac, none, 6);
	assert_false(tcp_syn_mac(mac, syn + 14, 59, &v6));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(the_mac_is_read_from_a_syn),
	        cmocka_unit_test(paths_are_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
