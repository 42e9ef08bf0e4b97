/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "fake_server.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

enum { LATE_MS = 700 };

static bool label_is(const uint8_t *query, const char *what)
{
	size_t len = strlen(what);
	const uint8_t *label = query + 12;

	return label[0] >= len && strncasecmp((const char *)label + 1, what, len) == 0 &&
	       (label[0] == len || label[len + 1] == '-' || label[len + 1] <= '9');
}

static int question_end(const uint8_t *query)
{
	int at = 12;

	while (query[at])
		at += query[at] + 1;
	return at + 5;
}

/* Header and question of the query with `count` addresses 10.0.0.N (or 6.6.6.6). */
static int answer(uint8_t *out, const uint8_t *query, unsigned flags, unsigned count, uint32_t address)
{
	int at = question_end(query);

	memcpy(out, query, (size_t)at);
	out[2] = (uint8_t)(0x81 | flags >> 8);
	out[3] = (uint8_t)(0x80 | flags);
	memset(out + 4, 0, 8);
	out[5] = 1;
	out[7] = (uint8_t)count;
	for (unsigned i = 0; i < count; i++) {
		static const uint8_t head[12] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4};
		uint32_t a = htonl(address + (i << 8));

		memcpy(out + at, head, 12);
		memcpy(out + at + 12, &a, 4);
		at += 16;
	}
	return at;
}

/* An SOA of the root behind header and question. */
static int answer_soa(uint8_t *out, const uint8_t *query)
{
	static const uint8_t soa[] = {
	        0, 0, 6, 0, 1, 0, 0, 1, 44, 0, 22, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 60};
	int at = answer(out, query, 0, 0, 0);

	out[9] = 1;
	memcpy(out + at, soa, sizeof(soa));
	return at + (int)sizeof(soa);
}

/* The question's name is an alias of target.example, of which nothing is said. */
static int answer_alias(uint8_t *out, const uint8_t *query)
{
	static const uint8_t cname[] = "\300\014\0\005\0\001\0\0\001\054\0\020\006target\007example";
	int at = answer(out, query, 0, 0, 0);

	out[7] = 1;
	memcpy(out + at, cname, sizeof(cname));
	return at + (int)sizeof(cname);
}

static int answer_lower(uint8_t *out, const uint8_t *query, uint32_t address)
{
	int len = answer(out, query, 0, 1, address);

	for (int i = 12; out[i]; i++)
		if (out[i] >= 'A' && out[i] <= 'Z')
			out[i] += 'a' - 'A';
	return len;
}

/* 0: nothing is sent. */
static int usual_answer(struct fake_server *f, uint8_t *out, const uint8_t *query, bool is_tcp)
{
	int mode = atomic_load(&f->mode), len;
	uint32_t mine = 0x0a000000 + f->number;
	bool has_edns = query[11] != 0;

	if (mode == FAKE_SILENT || (mode == FAKE_NO_ROOT && !query[12]) || label_is(query, "silent"))
		return 0;
	if (mode == FAKE_SERVFAIL || label_is(query, "servfail"))
		return answer(out, query, 2, 0, 0);
	if (mode == FAKE_NO_EDNS && has_edns)
		return answer(out, query, 1, 0, 0);
	if (mode == FAKE_NO_EDNS_BARE && has_edns) {
		answer(out, query, 1, 0, 0);
		out[5] = 0;
		return 12;
	}
	if (mode == FAKE_EMPTY || label_is(query, "empty"))
		return answer(out, query, 0, 0, 0);
	if (mode == FAKE_ALIAS || label_is(query, "alias"))
		return answer_alias(out, query);
	if (mode == FAKE_LOWER && !is_tcp)
		return answer_lower(out, query, mine);
	if (label_is(query, "nodata"))
		return answer_soa(out, query);
	if (label_is(query, "refused"))
		return answer(out, query, 5, 0, 0);
	if (label_is(query, "nxdomain"))
		return answer(out, query, 3, 0, 0);
	if (label_is(query, "garbage")) {
		len = answer(out, query, 0, 1, mine);
		return len - 2;
	}
	if (label_is(query, "tc"))
		return is_tcp ? answer(out, query, 0, 10, mine) : answer(out, query, 0x0200, 0, 0);
	return answer(out, query, 0, 1, mine);
}

static void send_forged(struct fake_server *f, const uint8_t *query, const struct sockaddr_in *to)
{
	uint8_t out[600];
	int len = answer(out, query, 0, 1, 0x06060606);

	sendto(f->strange, out, (size_t)len, 0, (const void *)to, sizeof(*to));
	out[0] ^= 0x55;
	sendto(f->udp, out, (size_t)len, 0, (const void *)to, sizeof(*to));
	out[0] ^= 0x55;
	out[13] ^= 1; /* the first letter of the question */
	sendto(f->udp, out, (size_t)len, 0, (const void *)to, sizeof(*to));
}

static void send_miscased(struct fake_server *f, const uint8_t *query, const struct sockaddr_in *to)
{
	uint8_t out[600];
	int len = answer(out, query, 0, 1, 0x06060606);

	out[13] ^= 0x20;
	sendto(f->udp, out, (size_t)len, 0, (const void *)to, sizeof(*to));
}

static void send_later(struct fake_server *f, const uint8_t *bytes, int len, const struct sockaddr_in *to, unsigned after_ms)
{
	unsigned i = 0;

	while (i < f->late_used && f->late[i].at_ms)
		i++;
	assert(i < FAKE_LATE);
	if (i == f->late_used)
		f->late_used++;
	f->late[i].at_ms = clock_ms() + after_ms;
	f->late[i].len = len;
	memcpy(f->late[i].bytes, bytes, (size_t)len);
	memcpy(f->late[i].to, to, sizeof(*to));
}

/* Whether the name was asked before. */
static bool was_asked(struct fake_server *f, const uint8_t *query)
{
	const char *name = (const char *)query + 12;

	for (unsigned i = 0; i < f->once_count; i++)
		if (strcasecmp((const char *)f->once[i], name) == 0)
			return true;
	assert(f->once_count < FAKE_ONCE);
	memcpy(f->once[f->once_count++], name, strlen(name) + 1);
	return false;
}

/* How long until the next one, at most 20 ms. */
static int send_late(struct fake_server *f)
{
	uint64_t now_ms = clock_ms();
	int left_ms = 20;

	for (unsigned i = 0; i < f->late_used; i++) {
		struct fake_late *l = &f->late[i];

		if (l->at_ms > now_ms && l->at_ms - now_ms < (unsigned)left_ms)
			left_ms = (int)(l->at_ms - now_ms);
		if (!l->at_ms || l->at_ms > now_ms)
			continue;
		sendto(f->udp, l->bytes, (size_t)l->len, 0, (const void *)l->to, sizeof(struct sockaddr_in));
		l->at_ms = 0;
	}
	while (f->late_used && !f->late[f->late_used - 1].at_ms)
		f->late_used--;
	return left_ms;
}

static void count_query(struct fake_server *f, const uint8_t *query, unsigned port)
{
	bool has_upper = false;

	for (int i = 12; query[i]; i++)
		has_upper |= query[i] >= 'A' && query[i] <= 'Z';
	atomic_fetch_add(&f->uppers, has_upper);
	if (query[12] == 0) {
		atomic_fetch_add(&f->probes, 1);
	} else {
		atomic_fetch_add(&f->udp_queries, 1);
		atomic_fetch_add(&f->edns_queries, query[11] != 0);
	}
	if (!(f->port_seen[port / 8] >> (port % 8) & 1)) {
		f->port_seen[port / 8] |= (uint8_t)(1 << (port % 8));
		atomic_fetch_add(&f->ports, 1);
	}
}

static void on_udp(struct fake_server *f)
{
	for (;;) {
		uint8_t query[600], out[600];
		struct sockaddr_in from;
		socklen_t from_len = sizeof(from);
		ssize_t n = recvfrom(f->udp, query, sizeof(query), MSG_DONTWAIT, (struct sockaddr *)&from, &from_len);
		int len, after_ms = atomic_load(&f->delay_ms);

		if (n < 17)
			return;
		count_query(f, query, ntohs(from.sin_port));
		if (label_is(query, "late") && was_asked(f, query))
			continue;
		if (label_is(query, "late") || label_is(query, "slow"))
			after_ms = LATE_MS;
		if (label_is(query, "forged"))
			send_forged(f, query, &from);
		if (label_is(query, "miscased"))
			send_miscased(f, query, &from);
		len = usual_answer(f, out, query, false);
		if (len && after_ms)
			send_later(f, out, len, &from, (unsigned)after_ms);
		else if (len)
			sendto(f->udp, out, (size_t)len, 0, (struct sockaddr *)&from, sizeof(from));
	}
}

/* One message; the resolver's queries are small and come whole. */
static void on_tcp(struct fake_server *f, int *fd)
{
	uint8_t query[600], out[2 + 600];
	int len;

	if (recv(*fd, query, 2, MSG_WAITALL) != 2)
		goto end;
	len = query[0] << 8 | query[1];
	if (len > (int)sizeof(query) || recv(*fd, query, (size_t)len, MSG_WAITALL) != len)
		goto end;
	atomic_fetch_add(&f->tcp_queries, 1);
	len = usual_answer(f, out + 2, query, true);
	out[0] = (uint8_t)(len >> 8);
	out[1] = (uint8_t)len;
	if (len && send(*fd, out, (size_t)len + 2, MSG_NOSIGNAL) < 0)
		goto end;
	if (atomic_load(&f->mode) != FAKE_CLOSE_TCP)
		return;
end:
	close(*fd);
	*fd = -1;
}

static void on_accept(struct fake_server *f)
{
	int fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);

	atomic_fetch_add(&f->accepted, 1);
	for (int i = 0; i < FAKE_CONNECTIONS; i++)
		if (f->connection[i] < 0) {
			f->connection[i] = fd;
			return;
		}
	close(fd);
}

static int udp_open(uint16_t port)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), size = 4 << 20;

	if (bind(fd, (struct sockaddr *)&sin, sizeof(sin)) < 0) {
		close(fd);
		return -1;
	}
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	return fd;
}

static void open_or_shut(struct fake_server *f)
{
	bool is_shut = atomic_load(&f->mode) == FAKE_SHUT;

	if (is_shut && f->udp >= 0) {
		close(f->udp);
		f->udp = -1;
	} else if (!is_shut && f->udp < 0) {
		f->udp = udp_open(f->port);
	}
	atomic_store(&f->is_shut, f->udp < 0);
}

static void *run(void *arg)
{
	struct fake_server *f = arg;
	int wait_ms = 20;

	for (;;) {
		struct pollfd p[3 + FAKE_CONNECTIONS] = {{.fd = f->stop[0], .events = POLLIN}, {.fd = f->udp, .events = POLLIN},
		        {.fd = f->listener, .events = POLLIN}};

		for (int i = 0; i < FAKE_CONNECTIONS; i++)
			p[3 + i] = (struct pollfd){.fd = f->connection[i], .events = POLLIN};
		poll(p, 3 + FAKE_CONNECTIONS, wait_ms);
		if (p[0].revents)
			return NULL;
		open_or_shut(f);
		if (p[1].revents && f->udp >= 0)
			on_udp(f);
		for (int i = 0; i < FAKE_CONNECTIONS; i++)
			if (p[3 + i].revents)
				on_tcp(f, &f->connection[i]);
		if (p[2].revents)
			on_accept(f);
		wait_ms = send_late(f);
	}
}

void fake_start(struct fake_server *f, unsigned number, bool with_tcp)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(sin);
	int r, tries = 0;

	memset(f, 0, sizeof(*f));
	f->number = number;
	for (int i = 0; i < FAKE_CONNECTIONS; i++)
		f->connection[i] = -1;
	f->late = calloc(FAKE_LATE, sizeof(*f->late));
	assert(f->late);
	/* A port that is free for both. */
	do {
		f->udp = udp_open(0);
		assert(f->udp >= 0);
		getsockname(f->udp, (struct sockaddr *)&sin, &len);
		f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		r = bind(f->listener, (struct sockaddr *)&sin, sizeof(sin));
		if (r < 0) {
			close(f->udp);
			close(f->listener);
		}
	} while (r < 0 && ++tries < 20);
	assert(r == 0);
	if (with_tcp) {
		listen(f->listener, 16);
	} else {
		close(f->listener);
		f->listener = -1;
	}
	f->port = ntohs(sin.sin_port);
	f->strange = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	r = pipe(f->stop);
	assert(r == 0);
	r = pthread_create(&f->thread, NULL, run, f);
	assert(r == 0);
}

void fake_stop(struct fake_server *f)
{
	if (write(f->stop[1], "x", 1) != 1)
		abort();
	pthread_join(f->thread, NULL);
	if (f->udp >= 0)
		close(f->udp);
	close(f->strange);
	if (f->listener >= 0)
		close(f->listener);
	close(f->stop[0]);
	close(f->stop[1]);
	for (int i = 0; i < FAKE_CONNECTIONS; i++)
		if (f->connection[i] >= 0)
			close(f->connection[i]);
	free(f->late);
}
