/* SPDX-License-Identifier: GPL-3.0-or-later */
/* TCP sessions over the loopback. The server under test runs in its own thread; what it does with a message is said by its first
 * letter:
 *   e  answered with itself
 *   l  answered with itself a little later
 *   d  dropped
 *   b  answered a little later with 60,000 bytes */
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
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "net/tcp.h"

enum { LATER_MS = 30, BIG = 60000, WAIT_MS = 20000 };

struct late {
	struct deadline d;
	struct tcp_session *s;
	size_t len;
	uint8_t bytes[64];
};

static struct loop *loop;
static struct tcp_server *server;
static pthread_t thread;
static uint16_t port;
static uint32_t listener;
static struct deadline_queue later;
static struct tcp_path last_path;

static void on_later(struct deadline *d)
{
	static uint8_t big[BIG];
	struct late *l = (struct late *)d;

	if (l->bytes[0] == 'b')
		tcp_answer(l->s, big, sizeof(big));
	else
		tcp_answer(l->s, l->bytes, l->len);
	free(l);
}

static void on_message(void *ctx, struct tcp_session *s, const struct tcp_path *path, const uint8_t *msg, size_t len)
{
	struct late *l;

	last_path = *path;
	if (msg[0] == 'e') {
		tcp_answer(s, msg, len);
		return;
	}
	if (msg[0] == 'd') {
		tcp_drop(s);
		return;
	}
	l = calloc(1, sizeof(*l));
	assert_non_null(l);
	assert_true(len <= sizeof(l->bytes));
	memcpy(l->bytes, msg, len);
	l->len = len;
	l->s = s;
	deadline_add(loop, &later, &l->d);
}

static void *run(void *arg)
{
	loop_run(loop);
	return NULL;
}

static int setup(void **state)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
	socklen_t len = sizeof(sin);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), small = 16384;

	/* Sessions inherit it: a large answer then never goes in one write. */
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	assert_int_equal(listen(fd, 1024), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sin, &len), 0);
	port = ntohs(sin.sin_port);
	assert_int_equal(loop_new(&loop), 0);
	deadline_queue_init(loop, &later, LATER_MS, on_later);
	assert_int_equal(tcp_server_new(&server, loop, on_message, NULL), 0);
	assert_int_equal(tcp_server_add(server, fd, 0, &listener), 0);
	return pthread_create(&thread, NULL, run, NULL);
}

static int teardown(void **state)
{
	loop_stop(loop);
	pthread_join(thread, NULL);
	tcp_server_free(server);
	/* Tickets that outlive the server. */
	while (later.head.next != &later.head) {
		struct deadline *d = later.head.next;

		deadline_del(d);
		on_later(d);
	}
	loop_free(loop);
	return 0;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static bool is_read;
static struct tcp_stat stat_seen;

static void read_stat(void *ctx)
{
	tcp_server_stat(server, &stat_seen);
	pthread_mutex_lock(&lock);
	is_read = true;
	pthread_cond_signal(&cond);
	pthread_mutex_unlock(&lock);
}

static struct tcp_stat stat_now(void)
{
	struct loop_post post = {.fn = read_stat};

	is_read = false;
	loop_post(loop, &post);
	pthread_mutex_lock(&lock);
	while (!is_read)
		pthread_cond_wait(&cond, &lock);
	pthread_mutex_unlock(&lock);
	return stat_seen;
}

/* A blocking client whose source address is 127.0.0.`host`. */
static int client(unsigned host)
{
	struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000000 + host)},
	                   to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct timeval patience = {.tv_sec = WAIT_MS / 1000};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

static void put(int fd, const void *msg, size_t len)
{
	uint8_t prefix[2] = {(uint8_t)(len >> 8), (uint8_t)len};

	assert_int_equal(send(fd, prefix, 2, MSG_NOSIGNAL), 2);
	assert_int_equal(send(fd, msg, len, MSG_NOSIGNAL), len);
}

/* Length of the next answer; 0: the server closed. */
static size_t get(int fd, uint8_t *msg)
{
	uint8_t prefix[2];
	ssize_t n = recv(fd, prefix, 2, MSG_WAITALL);
	size_t len;

	if (n == 0 || (n < 0 && errno == ECONNRESET))
		return 0;
	assert_int_equal(n, 2);
	len = (size_t)prefix[0] << 8 | prefix[1];
	assert_int_equal(recv(fd, msg, len, MSG_WAITALL), len);
	return len;
}

static bool is_closed(int fd)
{
	uint8_t c;
	ssize_t n = recv(fd, &c, 1, 0);

	return n == 0 || (n < 0 && errno == ECONNRESET);
}

static uint8_t buf[65536];

static void queries_are_answered(void **state)
{
	int fd = client(5);

	put(fd, "e-one", 5);
	assert_int_equal(get(fd, buf), 5);
	assert_memory_equal(buf, "e-one", 5);
	assert_int_equal(last_path.from.addr.b[3], 5);
	assert_int_equal(last_path.to.b[3], 1);
	assert_int_equal(last_path.ifindex, 1);
	static const uint8_t none[6];
	assert_true(last_path.mac_known); /* the loopback's packets have none */
	assert_memory_equal(last_path.mac, none, sizeof none);
	/* Byte by byte, and a dropped one before it. */
	put(fd, "d", 1);
	for (unsigned i = 0; i < 7; i++) {
		assert_int_equal(send(fd, "\0\5e-two" + i, 1, MSG_NOSIGNAL), 1);
		usleep(2000);
	}
	assert_int_equal(get(fd, buf), 5);
	assert_memory_equal(buf, "e-two", 5);
	close(fd);
}

static void answers_may_come_out_of_order(void **state)
{
	int fd = client(1);

	put(fd, "l", 1);
	put(fd, "e", 1);
	assert_int_equal(get(fd, buf), 1);
	assert_int_equal(buf[0], 'e');
	assert_int_equal(get(fd, buf), 1);
	assert_int_equal(buf[0], 'l');
	close(fd);
}

static void the_largest_message_passes(void **state)
{
	static uint8_t big[65535];
	int fd = client(1);

	memset(big, 'x', sizeof(big));
	big[0] = 'e';
	put(fd, "e", 1);
	put(fd, big, sizeof(big));
	put(fd, "e", 1);
	put(fd, big, sizeof(big));
	put(fd, "e!", 2);
	assert_int_equal(get(fd, buf), 1);
	assert_int_equal(get(fd, buf), 65535);
	assert_memory_equal(buf, big, 65535);
	assert_int_equal(get(fd, buf), 1);
	assert_int_equal(get(fd, buf), 65535);
	assert_int_equal(get(fd, buf), 2);
	close(fd);
}

/* Far more than may be in flight, in one write, then FIN: all are answered, then the server closes. */
static void a_half_closed_client_gets_its_answers(void **state)
{
	enum { MANY = 300 };
	uint8_t out[MANY * 4];
	unsigned seen[MANY] = {0};
	int fd = client(1);

	for (unsigned i = 0; i < MANY; i++) {
		uint8_t msg[6] = {0, 4, i % 3 ? 'l' : 'e', (uint8_t)(i >> 8), (uint8_t)i, 0};

		msg[1] = 3;
		memcpy(out + 5 * (size_t)(i % 2), msg, 5);
		if (i % 2)
			assert_int_equal(send(fd, out, 10, MSG_NOSIGNAL), 10);
	}
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(get(fd, buf), 3);
		seen[buf[1] << 8 | buf[2]]++;
	}
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(seen[i], 1);
	assert_int_equal(get(fd, buf), 0);
	close(fd);
	/* FIN in the middle of a message: nothing to wait for. */
	fd = client(1);
	assert_int_equal(send(fd, "\0\5ha", 4, MSG_NOSIGNAL), 4);
	shutdown(fd, SHUT_WR);
	assert_int_equal(get(fd, buf), 0);
	close(fd);
}

static void an_empty_message_closes(void **state)
{
	struct tcp_stat before = stat_now();
	int fd = client(1);

	put(fd, "e", 1);
	put(fd, "", 0);
	assert_int_equal(get(fd, buf), 1);
	assert_true(is_closed(fd));
	assert_int_equal(stat_now().closed_bad - before.closed_bad, 1);
	close(fd);
}

/* Answers larger than the server's socket buffer, to a client that pauses: partial writes. */
static void answers_wait_for_a_slow_reader(void **state)
{
	int fd = client(1);

	for (unsigned i = 0; i < 200; i++) {
		put(fd, "b", 1);
		/* Never more than four are unread. */
		if (i >= 3) {
			if (i % 50 == 0)
				usleep(50000);
			assert_int_equal(get(fd, buf), BIG);
		}
	}
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(get(fd, buf), BIG);
	close(fd);
}

static void who_never_reads_is_closed(void **state)
{
	struct tcp_stat before = stat_now();
	int fd = client(1), small = 4096;
	uint64_t until = clock_ms() + WAIT_MS;

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	/* It asks for more than the kernel's buffers and ours hold together. */
	while (stat_now().closed_bad == before.closed_bad) {
		assert_true(clock_ms() < until);
		if (send(fd, "\0\1b\0\1b\0\1b\0\1b", 12, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			assert_true(errno == EAGAIN || errno == EPIPE || errno == ECONNRESET);
		usleep(100);
	}
	close(fd);
}

static void a_session_that_ends_swallows_its_answers(void **state)
{
	struct linger reset = {.l_onoff = 1};
	int fd = client(1);
	uint64_t until = clock_ms() + WAIT_MS;

	for (unsigned i = 0; i < 10; i++)
		put(fd, "l", 1);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(fd);
	while (stat_now().open) {
		assert_true(clock_ms() < until);
		usleep(5000);
	}
	usleep(2 * LATER_MS * 1000);
	fd = client(1);
	put(fd, "e", 1);
	assert_int_equal(get(fd, buf), 1);
	close(fd);
}

static void one_client_has_a_bound(void **state)
{
	int fd[TCP_PER_CLIENT_MAX], extra;

	for (unsigned i = 0; i < TCP_PER_CLIENT_MAX; i++) {
		fd[i] = client(7);
		put(fd[i], "e", 1);
		assert_int_equal(get(fd[i], buf), 1);
	}
	extra = client(7);
	assert_true(is_closed(extra));
	close(extra);
	/* Others are not concerned, and a place that is given back can be taken. */
	extra = client(8);
	put(extra, "e", 1);
	assert_int_equal(get(extra, buf), 1);
	close(extra);
	put(fd[0], "\0", 1);
	close(fd[0]);
	while (stat_now().open >= TCP_PER_CLIENT_MAX)
		usleep(1000);
	fd[0] = client(7);
	put(fd[0], "e", 1);
	assert_int_equal(get(fd[0], buf), 1);
	for (unsigned i = 0; i < TCP_PER_CLIENT_MAX; i++)
		close(fd[i]);
}

static void the_longest_idle_goes_when_full(void **state)
{
	enum { MANY = TCP_SESSIONS_MAX + 20 };
	static int fd[MANY];
	uint64_t closed = stat_now().closed_full;

	while (stat_now().open)
		usleep(1000);
	for (unsigned i = 0; i < MANY; i++) {
		fd[i] = client(10 + i / TCP_PER_CLIENT_MAX);
		put(fd[i], "e", 1);
		assert_int_equal(get(fd[i], buf), 1);
		/* The very first stays busy, so it is never the longest idle. */
		if (i % 100 == 99) {
			put(fd[0], "e", 1);
			assert_int_equal(get(fd[0], buf), 1);
		}
	}
	assert_int_equal(stat_now().open, TCP_SESSIONS_MAX);
	assert_int_equal(stat_now().closed_full - closed, 20);
	for (unsigned i = 1; i <= 20; i++)
		assert_true(is_closed(fd[i]));
	put(fd[0], "e", 1);
	assert_int_equal(get(fd[0], buf), 1);
	put(fd[21], "e", 1);
	assert_int_equal(get(fd[21], buf), 1);
	for (unsigned i = 0; i < MANY; i++)
		close(fd[i]);
}

/* Bytes that drip in buy no time. Upper bounds are generous; the lower one is what the server promises. */
static void slow_first_queries_are_closed(void **state)
{
	struct tcp_stat before = stat_now();
	int silent = client(1), dripping = client(1), idle = client(1);
	uint64_t start = clock_ms();
	struct pollfd p = {.fd = dripping, .events = POLLIN};

	put(idle, "e", 1);
	assert_int_equal(get(idle, buf), 1);
	assert_int_equal(send(dripping, "\1\0", 2, MSG_NOSIGNAL), 2);
	while (poll(&p, 1, 200) == 0) {
		assert_true(clock_ms() - start < WAIT_MS);
		if (send(dripping, "x", 1, MSG_NOSIGNAL) < 0)
			break;
	}
	assert_true(is_closed(dripping));
	assert_true(clock_ms() - start >= TCP_FIRST_MS - 100);
	assert_true(is_closed(silent));
	assert_true(stat_now().closed_idle - before.closed_idle >= 2);
	/* One that has asked may be idle for longer, yet not for ever. */
	if (clock_ms() - start < TCP_IDLE_MS - 2000) {
		put(idle, "e", 1);
		assert_int_equal(get(idle, buf), 1);
	}
	assert_true(is_closed(idle));
	close(silent);
	close(dripping);
	close(idle);
}

static void no_descriptors_is_survived(void **state)
{
	struct rlimit old, low;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), free_fd, reader;
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct timeval patience = {.tv_sec = WAIT_MS / 1000};

	/* The server closes what earlier tests left; descriptors that come free meanwhile would spoil the bound. */
	while (stat_now().open)
		usleep(1000);
	free_fd = dup(0);
	assert_true(free_fd >= 0);
	close(free_fd);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	low.rlim_cur = (rlim_t)free_fd;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	put(fd, "e", 1);
	usleep(300000);
	assert_int_equal(recv(fd, buf, 1, MSG_DONTWAIT), -1);
	reader = dup(0);
	assert_true(reader < 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(get(fd, buf), 1);
	close(fd);
}

/* In the loop's thread. */
static void remove_listener(void *ctx)
{
	tcp_server_remove(server, listener);
	read_stat(ctx);
}

static void sessions_outlive_their_listener(void **state)
{
	int fd = client(1), late;
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct loop_post post = {.fn = remove_listener};

	put(fd, "e", 1);
	assert_int_equal(get(fd, buf), 1);
	is_read = false;
	loop_post(loop, &post);
	pthread_mutex_lock(&lock);
	while (!is_read)
		pthread_cond_wait(&cond, &lock);
	pthread_mutex_unlock(&lock);
	late = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(late, (struct sockaddr *)&to, sizeof(to)), -1);
	close(late);
	put(fd, "e", 1);
	assert_int_equal(get(fd, buf), 1);
	/* Left open with a query in flight: the teardown answers it after the server is gone. */
	put(fd, "l", 1);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(queries_are_answered),
	        cmocka_unit_test(answers_may_come_out_of_order),
	        cmocka_unit_test(the_largest_message_passes),
	        cmocka_unit_test(a_half_closed_client_gets_its_answers),
	        cmocka_unit_test(an_empty_message_closes),
	        cmocka_unit_test(answers_wait_for_a_slow_reader),
	        cmocka_unit_test(who_never_reads_is_closed),
	        cmocka_unit_test(a_session_that_ends_swallows_its_answers),
	        cmocka_unit_test(one_client_has_a_bound),
	        cmocka_unit_test(the_longest_idle_goes_when_full),
	        cmocka_unit_test(no_descriptors_is_survived),
	        cmocka_unit_test(slow_first_queries_are_closed),
	        cmocka_unit_test(sessions_outlive_their_listener),
	};
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
		files.rlim_cur = files.rlim_max < 8192 ? files.rlim_max : 8192;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	return cmocka_run_group_tests(tests, setup, teardown);
}
