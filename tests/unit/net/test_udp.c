/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Batched UDP against real sockets on the loopback: every packet comes once with its path, answers leave from the address asked,
 * by the socket that was asked, a bad destination costs only its own packet, and a removed socket's late answer goes nowhere. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/udp.h"

static struct loop *loop;
static struct udp_server *server;
static pthread_t thread;
static uint32_t index4, index6, index_b;
static uint16_t port4, port6, port_b;
static struct udp_path last_path;
static struct loop_post post;

static void on_packets(void *ctx, const struct udp_packet *p, unsigned count)
{
	assert_in_range(count, 1, UDP_BATCH);
	for (unsigned i = 0; i < count; i++) {
		uint8_t *out = udp_reserve(server);
		size_t len = p[i].len < UDP_OUT_MAX ? p[i].len : UDP_OUT_MAX;

		memcpy(out, p[i].bytes, len);
		last_path = p[i].path;
		/* Port 0 cannot be sent to: an answer that fails among answers that go. */
		if (len > 3 && memcmp(out, "bad", 3) == 0) {
			struct udp_path nowhere = p[i].path;

			nowhere.name.v4.sin_port = 0;
			udp_commit(server, len, &nowhere);
			out = udp_reserve(server);
			memcpy(out, p[i].bytes, len);
		}
		udp_commit(server, len, &p[i].path);
	}
}

static int bound(int family, const char *address, uint16_t *ret_port)
{
	struct endpoint e = {0};
	struct sockaddr_storage sa;
	socklen_t len;
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;

	assert_true(fd >= 0);
	if (family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	assert_int_equal(addr_parse(&e.addr, address), 0);
	len = endpoint_to_sockaddr(&sa, &e);
	if (bind(fd, (struct sockaddr *)&sa, len) < 0) {
		close(fd);
		return -1;
	}
	len = sizeof(sa);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	assert_int_equal(addr_from_sockaddr(&e, (struct sockaddr *)&sa), 0);
	*ret_port = e.port;
	return fd;
}

static void *run(void *arg)
{
	loop_run(loop);
	return NULL;
}

static int setup(void **state)
{
	int fd;

	assert_int_equal(loop_new(&loop), 0);
	assert_int_equal(udp_server_new(&server, loop, on_packets, NULL), 0);
	assert_int_equal(udp_server_add(server, bound(AF_INET, "0.0.0.0", &port4), &index4), 0);
	assert_int_equal(udp_server_add(server, bound(AF_INET, "127.0.0.1", &port_b), &index_b), 0);
	fd = bound(AF_INET6, "::", &port6);
	port6 = fd < 0 ? 0 : port6;
	if (fd >= 0)
		assert_int_equal(udp_server_add(server, fd, &index6), 0);
	return pthread_create(&thread, NULL, run, NULL);
}

static int teardown(void **state)
{
	loop_stop(loop);
	pthread_join(thread, NULL);
	udp_server_free(server);
	loop_free(loop);
	return 0;
}

/* A client connected to one of the server's addresses: the kernel gives it answers from that address only. */
static int client(const char *address, uint16_t port)
{
	struct endpoint e = {.port = port};
	struct sockaddr_storage sa;
	socklen_t len;
	int fd;

	assert_int_equal(addr_parse(&e.addr, address), 0);
	len = endpoint_to_sockaddr(&sa, &e);
	fd = socket(sa.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	if (connect(fd, (struct sockaddr *)&sa, len) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static ssize_t receive(int fd, void *buf, size_t len, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, timeout_ms) == 1 ? recv(fd, buf, len, 0) : -1;
}

/* Runs fn in the loop's thread, between turns, and waits for it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done_cond = PTHREAD_COND_INITIALIZER;
static bool is_done;
static void (*wanted)(void);

static void on_post(void *ctx)
{
	wanted();
	pthread_mutex_lock(&lock);
	is_done = true;
	pthread_cond_signal(&done_cond);
	pthread_mutex_unlock(&lock);
}

static void in_loop(void (*fn)(void))
{
	wanted = fn;
	is_done = false;
	post = (struct loop_post){.fn = on_post};
	loop_post(loop, &post);
	pthread_mutex_lock(&lock);
	while (!is_done)
		pthread_cond_wait(&done_cond, &lock);
	pthread_mutex_unlock(&lock);
}

static struct udp_stat stat_seen;

static void read_stat(void)
{
	udp_server_stat(server, &stat_seen);
}

static struct udp_stat stat_now(void)
{
	in_loop(read_stat);
	return stat_seen;
}

static void answers_come_from_the_address_asked(void **state)
{
	static const char *const address[] = {"127.0.0.1", "127.0.0.2", "127.9.8.7"};
	char buf[64];

	for (unsigned i = 0; i < 3; i++) {
		int fd = client(address[i], port4);
		struct addr a;

		assert_int_equal(send(fd, "hello", 5, 0), 5);
		assert_int_equal(receive(fd, buf, sizeof(buf), 5000), 5);
		assert_memory_equal(buf, "hello", 5);
		assert_int_equal(addr_parse(&a, address[i]), 0);
		assert_true(addr_equal(&last_path.to, &a));
		assert_int_equal(last_path.ifindex, 1); /* lo */
		assert_int_equal(last_path.socket, index4);
		close(fd);
	}
}

static void ipv6_works_alike(void **state)
{
	int fd = port6 ? client("::1", port6) : -1;
	char buf[64];

	if (fd < 0)
		skip();
	assert_int_equal(send(fd, "six", 3, 0), 3);
	assert_int_equal(receive(fd, buf, sizeof(buf), 5000), 3);
	assert_int_equal(last_path.to.family, AF_INET6);
	assert_int_equal(last_path.socket, index6);
	close(fd);
}

static void the_mark_is_seen(void **state)
{
	int fd = client("127.0.0.1", port4), on = 1;
	uint32_t mark = 0x1234;
	char buf[64];

	if (setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) < 0 ||
	        setsockopt(fd, SOL_SOCKET, 75 /* SO_RCVMARK */, &on, sizeof(on)) < 0) {
		close(fd);
		skip();
	}
	assert_int_equal(send(fd, "m", 1, 0), 1);
	assert_int_equal(receive(fd, buf, sizeof(buf), 5000), 1);
	assert_true(last_path.has_mark);
	assert_int_equal(last_path.mark, mark);
	close(fd);
}

static void want_nothing(void)
{
	udp_server_want(server, false, false);
}

static void want_all(void)
{
	udp_server_want(server, true, true);
}

static void ask_once(const char *address, uint16_t port)
{
	int fd = client(address, port);
	char buf[64];

	assert_int_equal(send(fd, "w", 1, 0), 1);
	assert_int_equal(receive(fd, buf, sizeof(buf), 5000), 1);
	close(fd);
}

/* The bound socket knows its address without being told; the other one has to be told, whatever is wanted. */
static void only_what_is_wanted_is_told(void **state)
{
	struct addr a;

	assert_int_equal(addr_parse(&a, "127.0.0.1"), 0);
	in_loop(want_nothing);
	ask_once("127.0.0.1", port_b);
	assert_true(last_path.is_bound);
	assert_true(addr_equal(&last_path.to, &a));
	assert_int_equal(last_path.ifindex, 0);
	assert_false(last_path.has_mark);
	ask_once("127.0.0.2", port4);
	assert_false(last_path.is_bound);
	assert_int_equal(last_path.ifindex, 1);
	assert_false(last_path.has_mark);
	in_loop(want_all);
	ask_once("127.0.0.1", port_b);
	assert_true(addr_equal(&last_path.to, &a));
	assert_int_equal(last_path.ifindex, 1);
}

/* Two clients, two server sockets, many packets at once: more than a batch, mixed sockets in one send batch, failing ones among
 * them. */
static void many_packets_all_come_back(void **state)
{
	enum { ROUNDS = 20, EACH = 100 };
	int fd[2] = {client("127.0.0.1", port4), client("127.0.0.1", port_b)};
	struct udp_stat before, after;

	before = stat_now();
	for (int round = 0; round < ROUNDS; round++) {
		bool seen[2][EACH] = {0};

		for (int i = 0; i < EACH; i++)
			for (int c = 0; c < 2; c++) {
				char text[16];
				int len = snprintf(text, sizeof(text), "%s%d", i % 10 == 3 ? "bad" : "ok ", i);

				assert_int_equal(send(fd[c], text, (size_t)len, 0), len);
			}
		for (int i = 0; i < EACH; i++)
			for (int c = 0; c < 2; c++) {
				char text[16] = "";
				int n;

				assert_true(receive(fd[c], text, sizeof(text) - 1, 5000) > 3);
				n = atoi(text + 3);
				assert_in_range(n, 0, EACH - 1);
				assert_false(seen[c][n]);
				seen[c][n] = true;
			}
	}
	after = stat_now();
	assert_int_equal(after.received - before.received, ROUNDS * EACH * 2);
	assert_int_equal(after.sent - before.sent, ROUNDS * EACH * 2);
	assert_int_equal(after.send_errors - before.send_errors, ROUNDS * EACH * 2 / 10);
	close(fd[0]);
	close(fd[1]);
}

static void a_long_query_is_cut(void **state)
{
	int fd = client("127.0.0.1", port4);
	static char big[UDP_IN_MAX + 1000], back[UDP_IN_MAX + 1000];

	memset(big, 'b', sizeof(big));
	big[0] = 'x';
	assert_int_equal(send(fd, big, sizeof(big), 0), sizeof(big));
	assert_int_equal(receive(fd, back, sizeof(back), 5000), UDP_IN_MAX);
	close(fd);
}

/* Runs in the loop's thread: removes a socket, takes its slot anew and answers by the old index. */
static struct udp_path late_path;
static uint32_t index_new;
static uint16_t port_new;

static void replace_and_answer_late(void)
{
	udp_server_remove(server, index_b);
	udp_server_remove(server, index_b);
	assert_int_equal(udp_server_add(server, bound(AF_INET, "127.0.0.1", &port_new), &index_new), 0);
	memcpy(udp_reserve(server), "late", 4);
	udp_commit(server, 4, &late_path);
}

static void a_late_answer_leaves_by_no_other_socket(void **state)
{
	int fd = client("127.0.0.1", port_b), fd_new;
	struct udp_stat before, after;
	char buf[16];

	assert_int_equal(send(fd, "1", 1, 0), 1);
	assert_int_equal(receive(fd, buf, sizeof(buf), 5000), 1);
	late_path = last_path;
	before = stat_now();
	in_loop(replace_and_answer_late);
	assert_int_equal(index_new & 0xffff, index_b & 0xffff);
	assert_int_not_equal(index_new, index_b);
	fd_new = client("127.0.0.1", port_new);
	assert_int_equal(send(fd_new, "2", 1, 0), 1);
	assert_int_equal(receive(fd_new, buf, sizeof(buf), 5000), 1);
	after = stat_now();
	assert_int_equal(after.send_errors - before.send_errors, 1);
	assert_int_equal(receive(fd, buf, sizeof(buf), 0), -1);
	close(fd);
	close(fd_new);
}

static void wrong_sockets_are_refused(void **state)
{
	uint32_t i;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
	close(pair[1]);
	assert_int_equal(udp_server_add(server, pair[0], &i), -EAFNOSUPPORT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(answers_come_from_the_address_asked),
	        cmocka_unit_test(ipv6_works_alike),
	        cmocka_unit_test(the_mark_is_seen),
	        cmocka_unit_test(only_what_is_wanted_is_told),
	        cmocka_unit_test(many_packets_all_come_back),
	        cmocka_unit_test(a_long_query_is_cut),
	        cmocka_unit_test(a_late_answer_leaves_by_no_other_socket),
	        cmocka_unit_test(wrong_sockets_are_refused),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
