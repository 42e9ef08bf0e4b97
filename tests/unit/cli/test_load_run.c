/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Whole runs of the load generator against a server of this file, on loopback. What the server does with a query is told by the
 * first label: ok, servfail, silent, twice, other (answers another question), cut (TC), close (TCP), slow (everything waits 300
 * ms). */
#include <arpa/inet.h>
#include <fcntl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>
#include "cli/load.h"

enum { CLIENTS_MAX = 32, SLOW_US = 300000, HEADER = 12 };

static atomic_bool is_over;
static atomic_uint tcp_accepted;
static pthread_t thread;
static int udp_fd, tcp_fd;
static unsigned port;
static char names_path[] = "/tmp/nw-load-XXXXXX", output_path[] = "/tmp/nw-load-XXXXXX";

/* Makes the answer in place. Returns how often it is to be sent; -1: the connection is to be closed. */
static int answer(uint8_t *msg)
{
	const char *label = (const char *)msg + HEADER + 1;
	size_t len = msg[HEADER];

	msg[2] |= 0x80;
	if (len == 8 && !memcmp(label, "servfail", 8))
		msg[3] |= 2;
	if (len == 3 && !memcmp(label, "cut", 3))
		msg[2] |= 2;
	if (len == 5 && !memcmp(label, "other", 5))
		msg[HEADER + 1] = 'O';
	if (len == 4 && !memcmp(label, "slow", 4))
		usleep(SLOW_US);
	if (len == 5 && !memcmp(label, "close", 5))
		return -1;
	if (len == 6 && !memcmp(label, "silent", 6))
		return 0;
	return len == 5 && !memcmp(label, "twice", 5) ? 2 : 1;
}

static void serve_udp(void)
{
	struct sockaddr_storage from;
	socklen_t from_len = sizeof(from);
	uint8_t msg[512];
	ssize_t len = recvfrom(udp_fd, msg, sizeof(msg), MSG_DONTWAIT, (struct sockaddr *)&from, &from_len);

	if (len > HEADER)
		for (int times = answer(msg); times > 0; times--)
			(void)!sendto(udp_fd, msg, (size_t)len, 0, (struct sockaddr *)&from, from_len);
}

/* One message; false when the connection is over. */
static bool serve_tcp(int fd)
{
	uint8_t msg[2 + 512];
	size_t len;
	int times;

	if (recv(fd, msg, 2, MSG_WAITALL) != 2)
		return false;
	len = (size_t)(msg[0] << 8 | msg[1]);
	if (len > 512 || recv(fd, msg + 2, len, MSG_WAITALL) != (ssize_t)len)
		return false;
	times = answer(msg + 2);
	for (int i = 0; i < times; i++)
		(void)!send(fd, msg, len + 2, MSG_NOSIGNAL);
	return times >= 0;
}

static void *serve(void *unused)
{
	struct pollfd fd[2 + CLIENTS_MAX] = {{.fd = udp_fd, .events = POLLIN}, {.fd = tcp_fd, .events = POLLIN}};

	for (int i = 2; i < 2 + CLIENTS_MAX; i++)
		fd[i] = (struct pollfd){.fd = -1, .events = POLLIN};
	while (!is_over) {
		poll(fd, 2 + CLIENTS_MAX, 20);
		if (fd[0].revents)
			serve_udp();
		for (int i = 2; i < 2 + CLIENTS_MAX; i++) {
			if (fd[i].fd >= 0 && fd[i].revents && !serve_tcp(fd[i].fd)) {
				close(fd[i].fd);
				fd[i].fd = -1;
			}
		}
		for (int i = 2; fd[1].revents && i < 2 + CLIENTS_MAX; i++) {
			if (fd[i].fd >= 0)
				continue;
			fd[i].fd = accept(tcp_fd, NULL, NULL);
			tcp_accepted++;
			break;
		}
	}
	for (int i = 2; i < 2 + CLIENTS_MAX; i++)
		if (fd[i].fd >= 0)
			close(fd[i].fd);
	return NULL;
}

static int start_server(void **state)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(sin);
	int fd;

	/* A port that is free for both. */
	for (int tries = 0; tries < 20; tries++) {
		sin.sin_port = 0;
		udp_fd = socket(AF_INET, SOCK_DGRAM, 0);
		tcp_fd = socket(AF_INET, SOCK_STREAM, 0);
		if (bind(udp_fd, (struct sockaddr *)&sin, sizeof(sin)) == 0 &&
		        getsockname(udp_fd, (struct sockaddr *)&sin, &len) == 0 &&
		        bind(tcp_fd, (struct sockaddr *)&sin, sizeof(sin)) == 0 && listen(tcp_fd, CLIENTS_MAX) == 0)
			break;
		close(udp_fd);
		close(tcp_fd);
	}
	port = ntohs(sin.sin_port);
	fd = mkstemp(names_path);
	close(fd);
	fd = mkstemp(output_path);
	close(fd);
	return pthread_create(&thread, NULL, serve, NULL);
}

static int stop_server(void **state)
{
	is_over = true;
	pthread_join(thread, NULL);
	close(udp_fd);
	close(tcp_fd);
	unlink(names_path);
	unlink(output_path);
	return 0;
}

/* Runs `load ARGUMENTS --ordered --names FILE --json` with this text in the file. Returns the figures. */
static json_t *run(const char *arguments, const char *names, int want_code)
{
	static char line[512];
	char *argv[48], *rest = line;
	int argc = 0, was = dup(1), output = open(output_path, O_WRONLY | O_TRUNC | O_CLOEXEC), code;
	FILE *file = fopen(names_path, "w");
	json_t *root;

	assert_non_null(file);
	fputs(names, file);
	fclose(file);
	snprintf(line, sizeof(line), "load %s --ordered --names %s --json --server 127.0.0.1@%u", arguments, names_path, port);
	while (argc < 47 && (argv[argc] = strsep(&rest, " ")))
		argc++;
	argv[argc] = NULL;
	fflush(stdout);
	assert_true(output >= 0 && dup2(output, 1) == 1);
	code = cli_load(argc, argv);
	fflush(stdout);
	dup2(was, 1);
	close(was);
	close(output);
	assert_int_equal(code, want_code);
	root = json_load_file(output_path, 0, NULL);
	assert_non_null(root);
	return root;
}

static long figure(json_t *root, const char *key)
{
	assert_non_null(json_object_get(root, key));
	return (long)json_number_value(json_object_get(root, key));
}

static void test_closed_loop(void **state)
{
	json_t *root = run("latency --count 500 --in-flight 20 --sources 3 --timeout 8s", "ok.lan\nservfail.lan\n", 0);

	assert_int_equal(figure(root, "offered"), 500);
	assert_int_equal(figure(root, "sent"), 500);
	assert_int_equal(figure(root, "answered"), 500);
	assert_int_equal(figure(root, "lost"), 0);
	assert_int_equal(figure(json_object_get(root, "rcodes"), "NOERROR"), 250);
	assert_int_equal(figure(json_object_get(root, "rcodes"), "SERVFAIL"), 250);
	assert_int_equal(figure(root, "stray"), 0);
	json_decref(root);
}

static void test_open_loop(void **state)
{
	json_t *root = run("flood --rate 2000 --count 1000 --timeout 3s", "ok.lan\nsilent.lan\n", 0),
	       *seconds = json_object_get(root, "seconds");

	assert_int_equal(figure(root, "offered"), 1000);
	assert_int_equal(figure(root, "sent"), 1000);
	assert_int_equal(figure(root, "answered"), 500);
	assert_int_equal(figure(root, "lost"), 500);
	assert_int_equal(figure(root, "lost_percent"), 50);
	assert_int_equal(json_array_size(seconds), 1);
	assert_int_equal(figure(json_array_get(seconds, 0), "answered"), 500);
	json_decref(root);
}

static void test_answers_that_are_none(void **state)
{
	json_t *root = run("flood --rate 1000 --count 90 --timeout 3s", "twice.lan\nother.lan\ncut.lan\n", 0);

	assert_int_equal(figure(root, "answered"), 60);
	assert_int_equal(figure(root, "lost"), 30);
	assert_int_equal(figure(root, "stray"), 60);
	assert_int_equal(figure(root, "truncated"), 30);
	json_decref(root);
}

/* The server stands still for 300 ms at the first query, and with a window of one the generator cannot send. Query i was intended
 * at 10 i ms, so it took at least 300 - 10 i: half of the 50 took 50 ms or more. Counted from the sending, one would have. */
static void test_latency_counts_from_the_intended_time(void **state)
{
	char names[512] = "slow.lan\n";
	json_t *root, *latency;

	for (int i = 0; i < 49; i++)
		strcat(names, "ok.lan\n");
	root = run("flood --rate 100 --count 50 --window 1 --timeout 8s", names, 0);
	latency = json_object_get(root, "latency_us");
	assert_int_equal(figure(root, "answered"), 50);
	assert_true(figure(latency, "max") >= 300000);
	assert_true(figure(latency, "median") >= 50000);
	assert_true(figure(root, "late_sends") >= 25);
	assert_true(figure(root, "late_worst_us") >= 290000 - 10000);
	json_decref(root);
}

/* What a window keeps from being sent in time is lost, and not the server's fault. */
static void test_unsent_is_counted(void **state)
{
	json_t *root = run("flood --rate 1000 --count 200 --window 1 --timeout 100ms", "slow.lan\n", 1);

	assert_int_equal(figure(root, "offered"), 200);
	assert_int_equal(figure(root, "lost"), 200);
	assert_true(figure(root, "unsent") > 0);
	assert_int_equal(figure(root, "sent") + figure(root, "unsent"), 200);
	json_decref(root);
}

static void test_tcp(void **state)
{
	unsigned before = tcp_accepted;
	json_t *root = run("latency --tcp --count 300 --in-flight 30 --connections 3 --pipeline 10 --timeout 8s",
	        "ok.lan\nservfail.lan AAAA\n", 0);

	assert_int_equal(figure(root, "answered"), 300);
	assert_int_equal(figure(root, "lost"), 0);
	assert_int_equal(figure(root, "tcp_sent"), 300);
	assert_int_equal(figure(root, "connects"), 3);
	assert_int_equal(tcp_accepted - before, 3);
	json_decref(root);
}

static void test_tcp_renewed(void **state)
{
	json_t *root = run("latency --tcp --count 40 --connections 1 --reuse 4 --timeout 8s", "ok.lan\n", 0);

	assert_int_equal(figure(root, "answered"), 40);
	assert_int_equal(figure(root, "connects"), 10);
	json_decref(root);
}

static void test_tcp_closed(void **state)
{
	json_t *root = run("latency --tcp --count 20 --connections 1 --timeout 8s", "ok.lan\nclose.lan\n", 0);

	assert_int_equal(figure(root, "answered"), 10);
	assert_int_equal(figure(root, "lost"), 10);
	assert_int_equal(figure(root, "closed"), 10);
	json_decref(root);
}

static void test_both_transports(void **state)
{
	json_t *root = run("flood --rate 2000 --count 1000 --tcp-share 30 --seed 4 --timeout 8s", "ok.lan\n", 0);

	assert_int_equal(figure(root, "answered"), 1000);
	assert_in_range(figure(root, "tcp_sent"), 230, 370);
	json_decref(root);
}

/* More than the connection can hold waits for its turn. */
static void test_backlog(void **state)
{
	json_t *root = run("flood --rate 2000 --count 400 --tcp --connections 1 --pipeline 1 --timeout 8s", "ok.lan\n", 0);

	assert_int_equal(figure(root, "answered"), 400);
	assert_int_equal(figure(root, "connects"), 1);
	json_decref(root);
}

static void test_nobody_there(void **state)
{
	unsigned was = port;
	json_t *root;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(sin);

	/* A port that was free a moment ago. */
	assert_int_equal(bind(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sin, &len), 0);
	close(fd);
	port = ntohs(sin.sin_port);
	root = run("flood --rate 100 --count 10 --timeout 100ms --tcp-share 50 --seed 1", "ok.lan\n", 1);
	port = was;
	assert_int_equal(figure(root, "answered"), 0);
	assert_int_equal(figure(root, "lost"), 10);
	assert_true(figure(root, "refused") > 0);
	json_decref(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_closed_loop), cmocka_unit_test(test_open_loop),
	        cmocka_unit_test(test_answers_that_are_none), cmocka_unit_test(test_latency_counts_from_the_intended_time),
	        cmocka_unit_test(test_unsent_is_counted), cmocka_unit_test(test_tcp), cmocka_unit_test(test_tcp_renewed),
	        cmocka_unit_test(test_tcp_closed), cmocka_unit_test(test_both_transports), cmocka_unit_test(test_backlog),
	        cmocka_unit_test(test_nobody_there)};

	return cmocka_run_group_tests(tests, start_server, stop_server);
}
