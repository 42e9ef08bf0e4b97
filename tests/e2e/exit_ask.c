/* SPDX-License-Identifier: GPL-3.0-or-later */
/* UDP_SOCKETS sockets, each with all 65,536 ids, and STREAMS TCP connections that are closed after STREAM_USES questions, so
 * that there are new ones and pipelined ones. A question is a slot of its channel, found by id. */
#include "exit_ask.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "exit.h"

enum {
	UDP_SOCKETS = 16,
	STREAMS = 48,
	CHANNELS = UDP_SOCKETS + STREAMS,
	STREAM_USES = 6,
	STREAM_BYTES = 65536 + 2,
	OUT_BYTES = STREAM_USES * (QUERY_MAX + 2)
};
enum outcome { OK, NODATA, NXDOMAIN, SERVFAIL, REFUSED, OTHER, UNANSWERED, OUTCOMES };
enum { EXAMPLES_MAX = 8 };

struct slot {
	uint64_t due_ns;
	uint32_t name;
	uint16_t type;
	bool is_open;
};
struct channel {
	int fd;
	uint16_t next_id;
	struct slot *slots; /* by id */
	unsigned uses, open;
	bool is_connected;
	size_t in_len, out_len;
	uint8_t *in, out[OUT_BYTES];
};

struct asked_names names;
static struct channel channels[CHANNELS];
static int epoll_fd;
static FILE *learnt;
static uint64_t outcomes[EXIT_TAGS][OUTCOMES], asked, tcp_asked, tcp_broken, malformed, truncated, pending, unsolicited;
static uint32_t *latency_us;
static uint64_t latency_count;
static char examples[EXAMPLES_MAX][320];
static unsigned example_count;
static const char *const outcome_names[OUTCOMES] = {"ok", "nodata", "nxdomain", "servfail", "refused", "other", "unanswered"};

static int server_connect(unsigned which, bool is_tcp)
{
	const char *server = options.server[which % options.server_count];
	struct sockaddr_in6 s6 = {.sin6_family = AF_INET6, .sin6_port = htons(53)};
	struct sockaddr_in s4 = {.sin_family = AF_INET, .sin_port = htons(53)};
	bool is_6 = strchr(server, ':') != NULL;
	int size = 4 << 20, on = 1;

	if (inet_pton(is_6 ? AF_INET6 : AF_INET, server, is_6 ? (void *)&s6.sin6_addr : (void *)&s4.sin_addr) != 1)
		return -EINVAL;
	int fd = socket(is_6 ? AF_INET6 : AF_INET, (is_tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
	if (is_tcp)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	if (connect(fd, is_6 ? (void *)&s6 : (void *)&s4, is_6 ? sizeof s6 : sizeof s4) < 0 && errno != EINPROGRESS) {
		int r = -errno;
		close(fd);
		return r;
	}
	return fd;
}

int ask_open(int epoll, const char *learnt_path)
{
	epoll_fd = epoll;
	latency_us = calloc(options.count, sizeof *latency_us);
	learnt = learnt_path ? fopen(learnt_path, "we") : NULL;
	if (!latency_us || (learnt_path && !learnt))
		return -errno;
	for (unsigned i = 0; i < CHANNELS; i++) {
		struct channel *c = &channels[i];
		c->fd = -1;
		c->slots = calloc(65536, sizeof *c->slots);
		c->in = i < UDP_SOCKETS ? NULL : malloc(STREAM_BYTES);
		if (!c->slots || (i >= UDP_SOCKETS && !c->in))
			return -ENOMEM;
		if (i >= UDP_SOCKETS)
			continue;
		struct epoll_event e = {.events = EPOLLIN, .data.u32 = i};
		if ((c->fd = server_connect(i, false)) < 0)
			return c->fd;
		epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &e);
	}
	return 0;
}

static void note_example(const char *what, const struct slot *s)
{
	if (example_count < EXAMPLES_MAX)
		snprintf(examples[example_count++], sizeof *examples, "%s type %u: %s", names.v[s->name].name, s->type, what);
}

static void slot_end(struct channel *c, struct slot *s, enum outcome o)
{
	unsigned tag = names.v[s->name].tag;
	outcomes[tag][o]++;
	if (o == UNANSWERED || o == OTHER || (o >= NXDOMAIN && tag < EXIT_TAGS - 1))
		note_example(outcome_names[o], s);
	s->is_open = false;
	c->open--;
	pending--;
}

static void stream_close(struct channel *c)
{
	for (unsigned id = 0; c->open && id < 65536; id++)
		if (c->slots[id].is_open) {
			tcp_broken++;
			slot_end(c, &c->slots[id], UNANSWERED);
		}
	close(c->fd);
	c->fd = -1;
}

static void answer_take(struct channel *c, const uint8_t *msg, size_t len)
{
	struct reply r;
	if (reply_parse(&r, msg, len) < 0) {
		malformed++;
		return;
	}
	struct slot *s = &c->slots[r.id];
	if (!s->is_open) {
		unsolicited++;
		return;
	}
	const struct asked_name *n = &names.v[s->name];
	for (unsigned i = 0; i < r.address_count; i++) {
		char text[INET6_ADDRSTRLEN];
		send_packet(&r.address[i], n->tag, n->name);
		if (learnt)
			fprintf(learnt, "%s %c %s\n",
			        inet_ntop(r.address[i].is_6 ? AF_INET6 : AF_INET, r.address[i].b, text, sizeof text),
			        EXIT_TAG_NAMES[n->tag], n->name);
	}
	uint64_t now = now_ns();
	latency_us[latency_count++] = now > s->due_ns ? (uint32_t)((now - s->due_ns) / 1000) : 0;
	truncated += r.is_truncated;
	slot_end(c, s,
	        r.rcode == 0   ? r.address_count ? OK : NODATA
	        : r.rcode == 2 ? SERVFAIL
	        : r.rcode == 3 ? NXDOMAIN
	        : r.rcode == 5 ? REFUSED
	                       : OTHER);
}

static void stream_flush(struct channel *c)
{
	while (c->is_connected && c->out_len) {
		ssize_t n = send(c->fd, c->out, c->out_len, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n <= 0)
			return;
		memmove(c->out, c->out + n, c->out_len -= (size_t)n);
	}
	struct epoll_event e = {.events = EPOLLIN | (c->is_connected && !c->out_len ? 0 : (uint32_t)EPOLLOUT),
	        .data.u32 = (uint32_t)(c - channels)};
	epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &e);
}

static void stream_read(struct channel *c)
{
	ssize_t n = recv(c->fd, c->in + c->in_len, STREAM_BYTES - c->in_len, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		stream_close(c);
		return;
	}
	c->in_len += (size_t)n;
	size_t at = 0;
	while (c->in_len - at >= 2) {
		size_t want = (size_t)c->in[at] << 8 | c->in[at + 1];
		if (c->in_len - at - 2 < want)
			break;
		answer_take(c, c->in + at + 2, want);
		at += 2 + want;
	}
	memmove(c->in, c->in + at, c->in_len -= at);
	if (c->uses == STREAM_USES && !c->open)
		stream_close(c);
}

static void datagrams_read(struct channel *c)
{
	uint8_t msg[4096];
	ssize_t n;
	while ((n = recv(c->fd, msg, sizeof msg, MSG_DONTWAIT)) > 0)
		answer_take(c, msg, (size_t)n);
}

void ask_ready(uint32_t which, uint32_t events)
{
	struct channel *c = &channels[which];
	if (c->fd < 0)
		return;
	if (which < UDP_SOCKETS) {
		datagrams_read(c);
		return;
	}
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) {
		c->is_connected |= (events & EPOLLOUT) != 0;
		stream_flush(c);
	}
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		stream_read(c);
}

static struct channel *stream_pick(uint64_t i)
{
	struct channel *c = NULL;
	for (unsigned k = 0; k < STREAMS; k++) {
		c = &channels[UDP_SOCKETS + (i + k) % STREAMS];
		if (c->fd < 0 || c->uses < STREAM_USES)
			break;
		c = NULL;
	}
	if (!c || c->fd >= 0)
		return c;
	struct epoll_event e = {.events = EPOLLIN | EPOLLOUT, .data.u32 = (uint32_t)(c - channels)};
	if ((c->fd = server_connect((unsigned)i, true)) < 0)
		return NULL;
	c->uses = 0;
	c->in_len = c->out_len = 0;
	c->is_connected = false;
	epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &e);
	return c;
}

static uint64_t mixed(uint64_t x)
{
	x = (x ^ x >> 31) * 0x7fb5d329728ea185u;
	x = (x ^ x >> 27) * 0x81dadef4bc2dd44du;
	return x ^ x >> 33;
}

void ask(uint64_t i, uint64_t due_ns)
{
	uint32_t name = (uint32_t)(i % names.count);
	uint64_t h = mixed(name + 1 + ((uint64_t)options.pass << 32));
	unsigned share = (unsigned)(h % 100);
	uint16_t type = share < options.mix[0] ? DNS_A : share < options.mix[0] + options.mix[1] ? DNS_AAAA : DNS_HTTPS;
	bool is_tcp = (h >> 32) % 100 < options.tcp_percent;
	struct channel *c = is_tcp ? stream_pick(i) : NULL;
	uint8_t query[QUERY_MAX + 2];

	if (!c) {
		c = &channels[i % UDP_SOCKETS];
		is_tcp = false;
	}
	uint16_t id = c->next_id++;
	size_t len = query_make(query + 2, id, names.v[name].name, type);
	if (!len) {
		fprintf(stderr, "nw-exitclient: %s cannot be asked\n", names.v[name].name);
		exit(2);
	}
	struct slot *s = &c->slots[id];
	if (s->is_open)
		slot_end(c, s, UNANSWERED);
	*s = (struct slot){due_ns, name, type, true};
	c->open++;
	pending++;
	asked++;
	tcp_asked += is_tcp;
	if (!is_tcp) {
		/* A refusal from before, told by the kernel, is not this question's. */
		if (send(c->fd, query + 2, len, 0) < 0)
			(void)!send(c->fd, query + 2, len, 0);
		return;
	}
	query[0] = (uint8_t)(len >> 8);
	query[1] = (uint8_t)len;
	memcpy(c->out + c->out_len, query, len + 2);
	c->out_len += len + 2;
	c->uses++;
	stream_flush(c);
}

bool ask_pending(void)
{
	return pending != 0;
}

static int by_size(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return x < y ? -1 : x > y;
}

void ask_print_sent(void)
{
	printf("\"packets\": {");
	for (unsigned t = 0; t < EXIT_TAGS; t++)
		printf("%s\"%c\": %llu", t ? ", " : "", EXIT_TAG_NAMES[t], (unsigned long long)sent.udp[t]);
	printf("}, \"connections\": {");
	for (unsigned t = 0; t < EXIT_TAGS; t++)
		printf("%s\"%c\": %llu", t ? ", " : "", EXIT_TAG_NAMES[t], (unsigned long long)sent.syn[t]);
	printf("}, \"send_failed\": %llu", (unsigned long long)sent.failed);
}

void ask_print(void)
{
	static const struct {
		const char *name;
		double share;
	} points[] = {{"p50", .5}, {"p90", .9}, {"p99", .99}, {"p999", .999}, {"max", 1}};
	uint64_t total[OUTCOMES] = {0};

	for (unsigned i = 0; i < CHANNELS; i++)
		for (unsigned id = 0; channels[i].open && id < 65536; id++)
			if (channels[i].slots[id].is_open)
				slot_end(&channels[i], &channels[i].slots[id], UNANSWERED);
	if (learnt)
		fclose(learnt);
	qsort(latency_us, latency_count, sizeof *latency_us, by_size);
	printf("{\"asked\": %llu, \"tcp\": %llu, \"tcp_broken\": %llu, \"malformed\": %llu, \"truncated\": %llu, "
	       "\"unsolicited\": %llu, ",
	        (unsigned long long)asked, (unsigned long long)tcp_asked, (unsigned long long)tcp_broken,
	        (unsigned long long)malformed, (unsigned long long)truncated, (unsigned long long)unsolicited);
	printf("\"by_exit\": {");
	for (unsigned t = 0; t < EXIT_TAGS; t++) {
		printf("%s\"%c\": {", t ? ", " : "", EXIT_TAG_NAMES[t]);
		for (unsigned o = 0; o < OUTCOMES; o++) {
			printf("%s\"%s\": %llu", o ? ", " : "", outcome_names[o], (unsigned long long)outcomes[t][o]);
			total[o] += outcomes[t][o];
		}
		printf("}");
	}
	printf("}, ");
	for (unsigned o = 0; o < OUTCOMES; o++)
		printf("\"%s\": %llu, ", outcome_names[o], (unsigned long long)total[o]);
	printf("\"latency_ms\": {");
	for (unsigned i = 0; i < sizeof points / sizeof *points; i++) {
		uint64_t at = latency_count ? (uint64_t)(points[i].share * (double)(latency_count - 1)) : 0;
		printf("%s\"%s\": %.3f", i ? ", " : "", points[i].name, latency_count ? latency_us[at] / 1000.0 : 0.0);
	}
	printf("}, ");
	ask_print_sent();
	printf(", \"examples\": [");
	for (unsigned i = 0; i < example_count; i++)
		printf("%s\"%s\"", i ? ", " : "", examples[i]);
	printf("]}\n");
}
