/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A scripted upstream resolver for end-to-end tests: every answer follows from the name asked, so no zone is needed and two
 * runs see the same world.
 *
 *   nw-upstream -a ADDRESS [-a ADDRESS]... [-p PORT] [-t TTL] [-f RECORDS] [-l LOG] [-c CONTROL]
 *
 * What a name gets (labels are compared in lower case):
 *   cN.TARGET.via.OWNER   a chain of N CNAMEs, the last one to TARGET, then TARGET's records
 *   nx-… nodata-… servfail-… refused-…   the first label says the outcome;  nosoa-… is an empty answer without SOA
 *   tc-… is truncated over UDP;  silent-… is not answered;  delayN-… is answered N ms later, by UDP
 *   once-…                an empty answer without SOA the first time, then what else it gets
 *   stop-NAME             a CNAME to NAME, and nothing more
 *   lower-…               the question comes back in lower case, by UDP
 *   ttlN-…                this TTL;  a label ip-HEX8 or ip6-HEX32: this address
 *   anything else         1 or 2 addresses out of its class: the first label that begins with d-, t1-, t2- or s- says the
 *                          class, else it is d.
 *                         Classes never share an address; names of class s share 64 between them all
 * HTTPS and SVCB records carry hints that are other addresses of the class; every eighth has another target with glue. RECORDS
 * holds lines `NAME TYPE VALUE [TTL]` (A, AAAA, CNAME) that come before all this. LOG gets a line `NAME TYPE udp|tcp ADDRESS`
 * for each question. CONTROL is the path of a stream socket: a connection sends one line, gets "ok" or "no", and is closed. The
 * lines: `normal` (the end of all others), `silent`, `servfail`, `refused`, `nxdomain`, `empty` (no record and no SOA), `lower`,
 * `delay MS` (of every answer by UDP), `silent-after N` (questions more), `shut` (nobody is at the ports). One thread; on SIGTERM it prints
 * what it counted. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "upstream_answer.h"
#include "upstream_control.h"

enum { BATCH = 64, LISTENS_MAX = 16, STREAMS_MAX = 2048, STREAM_BYTES = 4096, MESSAGE_MAX = 4096, STRIDE = MESSAGE_MAX + 64 };

struct source {
	int fd;
	bool is_listening, is_stream, is_control;
	char address[INET6_ADDRSTRLEN];
	size_t len;
	uint8_t bytes[STREAM_BYTES];
};

static volatile sig_atomic_t is_stopped;
static struct {
	uint64_t udp, tcp, silent, malformed;
} counted;
static FILE *log_file;
static int epoll_fd;
static unsigned stream_count;
static const char *addresses[LISTENS_MAX];
static unsigned address_count, port = 53;
static struct source sources[2 * LISTENS_MAX]; /* UDP and TCP of each address */
static bool are_shut;

static void on_signal(int signal_number)
{
	is_stopped = 1;
}

static void log_question(const struct question *q, bool is_tcp, const char *address)
{
	if (!log_file)
		return;
	fprintf(log_file, "%s %u %s %s\n", q->name, q->type, is_tcp ? "tcp" : "udp", address);
}

/* The answer's length in ret; 0: say nothing. */
static size_t answer(
        uint8_t *ret, size_t max, const uint8_t *query, size_t len, bool is_tcp, const char *address, unsigned *ret_delay_ms)
{
	struct question q;

	if (question_parse(&q, query, len) < 0) {
		counted.malformed++;
		return 0;
	}
	if (is_tcp)
		counted.tcp++;
	else
		counted.udp++;
	log_question(&q, is_tcp, address);
	*ret_delay_ms = behaviour.delay_ms + answer_delay_ms(&q);
	len = behaviour_counts_out() ? 0 : answer_make(ret, max, query, &q, is_tcp);
	counted.silent += len == 0;
	return len;
}

static void serve_udp(struct source *s)
{
	static uint8_t in[BATCH][STRIDE], out[BATCH][STRIDE];
	static struct sockaddr_storage from[BATCH];
	struct iovec in_iov[BATCH], out_iov[BATCH];
	struct mmsghdr in_msg[BATCH] = {0}, out_msg[BATCH] = {0};
	unsigned count = 0;

	for (int i = 0; i < BATCH; i++) {
		in_iov[i] = (struct iovec){in[i], MESSAGE_MAX};
		in_msg[i].msg_hdr = (struct msghdr){
		        .msg_name = &from[i], .msg_namelen = sizeof from[i], .msg_iov = &in_iov[i], .msg_iovlen = 1};
	}
	int n = recvmmsg(s->fd, in_msg, BATCH, MSG_DONTWAIT, NULL);
	for (int i = 0; i < n; i++) {
		unsigned delay_ms = 0;
		size_t len = answer(out[count], MESSAGE_MAX, in[i], in_msg[i].msg_len, false, s->address, &delay_ms);
		if (len && delay_ms)
			late_add(s->fd, out[count], len, &from[i], in_msg[i].msg_hdr.msg_namelen, delay_ms);
		if (!len || delay_ms)
			continue;
		out_iov[count] = (struct iovec){out[count], len};
		out_msg[count].msg_hdr = (struct msghdr){.msg_name = &from[i],
		        .msg_namelen = in_msg[i].msg_hdr.msg_namelen,
		        .msg_iov = &out_iov[count],
		        .msg_iovlen = 1};
		count++;
	}
	for (unsigned at = 0; at < count;) {
		int sent = sendmmsg(s->fd, out_msg + at, count - at, 0);
		at += sent > 0 ? (unsigned)sent : 1;
	}
}

static void stream_end(struct source *s)
{
	close(s->fd);
	free(s);
	stream_count--;
}

static void watch(struct source *s)
{
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = s};
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, s->fd, &e) < 0)
		abort();
}

static void accept_stream(struct source *l)
{
	int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);
	struct source *s = fd >= 0 && stream_count < STREAMS_MAX ? calloc(1, sizeof *s) : NULL;

	if (!s) {
		if (fd >= 0)
			close(fd);
		return;
	}
	stream_count++;
	s->fd = fd;
	s->is_stream = true;
	memcpy(s->address, l->address, sizeof s->address);
	watch(s);
}

static void serve_stream(struct source *s)
{
	ssize_t n = recv(s->fd, s->bytes + s->len, sizeof s->bytes - s->len, MSG_DONTWAIT);
	uint8_t out[MESSAGE_MAX + 2];

	if (n <= 0) {
		if (n == 0 || (errno != EAGAIN && errno != EINTR))
			stream_end(s);
		return;
	}
	s->len += (size_t)n;
	size_t at = 0;
	while (s->len - at >= 2) {
		size_t want = (size_t)s->bytes[at] << 8 | s->bytes[at + 1];
		if (s->len - at - 2 < want)
			break;
		unsigned delay_ms;
		size_t len = answer(out + 2, MESSAGE_MAX, s->bytes + at + 2, want, true, s->address, &delay_ms);
		out[0] = (uint8_t)(len >> 8);
		out[1] = (uint8_t)len;
		at += 2 + want;
		if (len && send(s->fd, out, len + 2, MSG_NOSIGNAL) != (ssize_t)len + 2) {
			stream_end(s);
			return;
		}
	}
	memmove(s->bytes, s->bytes + at, s->len -= at);
	if (s->len == sizeof s->bytes)
		stream_end(s);
}

static int source_open(struct source *s, const char *address, bool is_tcp)
{
	struct sockaddr_in6 sa6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
	struct sockaddr_in sa4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	bool is_6 = strchr(address, ':') != NULL;
	int on = 1, size = 16 << 20;

	if (inet_pton(is_6 ? AF_INET6 : AF_INET, address, is_6 ? (void *)&sa6.sin6_addr : (void *)&sa4.sin_addr) != 1)
		return -EINVAL;
	int fd = socket(is_6 ? AF_INET6 : AF_INET, (is_tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
	        setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) < 0 ||
	        bind(fd, is_6 ? (void *)&sa6 : (void *)&sa4, is_6 ? sizeof sa6 : sizeof sa4) < 0 ||
	        (is_tcp && listen(fd, 1024) < 0)) {
		int r = -errno;
		close(fd);
		return r;
	}
	s->fd = fd;
	s->is_listening = is_tcp;
	snprintf(s->address, sizeof s->address, "%s", address);
	watch(s);
	return 0;
}

static bool sources_open(void)
{
	for (unsigned i = 0; i < address_count * 2; i++) {
		int r = source_open(&sources[i], addresses[i / 2], i & 1);
		if (r < 0) {
			fprintf(stderr, "nw-upstream: %s port %u: %s\n", addresses[i / 2], port, strerror(-r));
			return false;
		}
	}
	return true;
}

/* Connections that are open stay. */
static void open_or_shut(void)
{
	if (are_shut == behaviour.is_shut)
		return;
	are_shut = behaviour.is_shut;
	if (!are_shut) {
		is_stopped |= !sources_open();
		return;
	}
	late_forget();
	for (unsigned i = 0; i < address_count * 2; i++)
		close(sources[i].fd);
}

static void serve_control(const struct source *s)
{
	int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC);
	char line[128];
	ssize_t n = fd >= 0 ? read(fd, line, sizeof line - 1) : -1;

	if (n > 0) {
		line[n] = 0;
		line[strcspn(line, "\n")] = 0;
		bool is_known = behaviour_change(line);
		open_or_shut();
		(void)!write(fd, is_known ? "ok\n" : "no\n", 3);
	}
	if (fd >= 0)
		close(fd);
}

static bool control_open(const char *path)
{
	static struct source control = {.is_control = true};
	struct sockaddr_un sun = {.sun_family = AF_UNIX};

	snprintf(sun.sun_path, sizeof sun.sun_path, "%s", path);
	unlink(path);
	control.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (control.fd < 0 || bind(control.fd, (struct sockaddr *)&sun, sizeof sun) < 0 || listen(control.fd, 16) < 0) {
		perror(path);
		return false;
	}
	watch(&control);
	return true;
}

static void run(void)
{
	struct epoll_event events[64];

	while (!is_stopped) {
		int n = epoll_wait(epoll_fd, events, 64, late_send());
		for (int i = 0; i < n; i++) {
			struct source *s = events[i].data.ptr;
			if (s->is_control) {
				/* It may have closed what other events are for. */
				serve_control(s);
				break;
			}
			if (s->is_listening)
				accept_stream(s);
			else if (s->is_stream)
				serve_stream(s);
			else
				serve_udp(s);
		}
	}
}

static int usage(void)
{
	fprintf(stderr, "usage: nw-upstream -a ADDRESS [-a ADDRESS]... [-p PORT] [-t TTL] [-f RECORDS] [-l LOG] [-c CONTROL]\n");
	return 2;
}

int main(int argc, char **argv)
{
	struct sigaction sa = {.sa_handler = on_signal};
	const char *control = NULL;
	int option;

	while ((option = getopt(argc, argv, "a:p:t:f:l:c:")) != -1) {
		if (option == 'a' && address_count < LISTENS_MAX)
			addresses[address_count++] = optarg;
		else if (option == 'p')
			port = (unsigned)atoi(optarg);
		else if (option == 't')
			answer_ttl = (uint32_t)atoi(optarg);
		else if (option == 'f' && records_read(optarg) == 0)
			continue;
		else if (option == 'l' && (log_file = fopen(optarg, "we")))
			setvbuf(log_file, NULL, _IOLBF, 0);
		else if (option == 'c')
			control = optarg;
		else
			return usage();
	}
	if (!address_count || optind != argc)
		return usage();
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (!sources_open() || (control && !control_open(control)))
		return 1;
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	printf("ready\n");
	fflush(stdout);
	run();
	printf("{\"udp\": %llu, \"tcp\": %llu, \"silent\": %llu, \"malformed\": %llu}\n", (unsigned long long)counted.udp,
	        (unsigned long long)counted.tcp, (unsigned long long)counted.silent, (unsigned long long)counted.malformed);
	return 0;
}
