/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "fake_server.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

enum { LATE_MS = 700 };

static bool label_is(const uint8_t *query, const char *what)
{
	size_t len = strlen(what);
	const uint8_t *label = query + 12;

	return label[0] >= len && memcmp(label + 1, what, len) == 0 &&
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

/* 0: nothing is sent. */
static int usual_answer(struct fake_server *f, uint8_t *out, const uint8_t *query, bool is_tcp)
{
	int mode = atomic_load(&f->mode), len;
	uint32_t mine = 0x0a000000 + f->number;
	bool has_edns = query[11] != 0;

	if (mode == FAKE_SILENT || label_is(query, "silent"))
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

/* Remembers what to send later; true also for a repeat of the same name, which is not answered. */
static bool answer_late(struct fake_server *f, const uint8_t *query, const struct sockaddr_in *to)
{
	int end = question_end(query);

	for (unsigned i = 0; i < f->late_count; i++)
		if (memcmp(f->late[i].bytes + 12, query + 12, (size_t)end - 12) == 0)
			return true;
	assert(f->late_count < FAKE_LATE);
	f->late[f->late_count].at_ms = clock_ms() + LATE_MS;
	f->late[f->late_count].len = answer(f->late[f->late_count].bytes, query, 0, 1, 0x0a000000 + f->number);
	memcpy(f->late[f->late_count].to, to, sizeof(*to));
	f->late_count++;
	return true;
}

static void send_late(struct fake_server *f)
{
	for (unsigned i = 0; i < f->late_count; i++)
		if (f->late[i].at_ms && f->late[i].at_ms <= clock_ms()) {
			sendto(f->udp, f->late[i].bytes, (size_t)f->late[i].len, 0, (const void *)f->late[i].to,
			        sizeof(struct sockaddr_in));
			f->late[i].at_ms = 0;
		}
}

static void on_udp(struct fake_server *f)
{
	for (;;) {
		uint8_t query[600], out[600];
		struct sockaddr_in from;
		socklen_t from_len = sizeof(from);
		ssize_t n = recvfrom(f->udp, query, sizeof(query), MSG_DONTWAIT, (struct sockaddr *)&from, &from_len);
		unsigned port;
		int len;

		if (n < 17)
			return;
		if (query[12] == 0) {
			atomic_fetch_add(&f->probes, 1);
		} else {
			atomic_fetch_add(&f->udp_queries, 1);
			atomic_fetch_add(&f->edns_queries, query[11] != 0);
		}
		port = ntohs(from.sin_port);
		if (!(f->port_seen[port / 8] >> (port % 8) & 1)) {
			f->port_seen[port / 8] |= (uint8_t)(1 << (port % 8));
			atomic_fetch_add(&f->ports, 1);
		}
		if (label_is(query, "late") && answer_late(f, query, &from))
			continue;
		if (label_is(query, "forged"))
			send_forged(f, query, &from);
		len = usual_answer(f, out, query, false);
		if (len)
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

static void *run(void *arg)
{
	struct fake_server *f = arg;

	for (;;) {
		struct pollfd p[3 + FAKE_CONNECTIONS] = {{.fd = f->stop[0], .events = POLLIN}, {.fd = f->udp, .events = POLLIN},
		        {.fd = f->listener, .events = POLLIN}};

		for (int i = 0; i < FAKE_CONNECTIONS; i++)
			p[3 + i] = (struct pollfd){.fd = f->connection[i], .events = POLLIN};
		poll(p, 3 + FAKE_CONNECTIONS, 20);
		if (p[0].revents)
			return NULL;
		if (p[1].revents)
			on_udp(f);
		for (int i = 0; i < FAKE_CONNECTIONS; i++)
			if (p[3 + i].revents)
				on_tcp(f, &f->connection[i]);
		if (p[2].revents)
			on_accept(f);
		send_late(f);
	}
}

void fake_start(struct fake_server *f, unsigned number, bool with_tcp)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(sin);
	int size = 4 << 20, r, tries = 0;

	memset(f, 0, sizeof(*f));
	f->number = number;
	for (int i = 0; i < FAKE_CONNECTIONS; i++)
		f->connection[i] = -1;
	/* A port that is free for both. */
	do {
		f->udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		sin.sin_port = 0;
		r = bind(f->udp, (struct sockaddr *)&sin, sizeof(sin));
		assert(r == 0);
		getsockname(f->udp, (struct sockaddr *)&sin, &len);
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
	if (setsockopt(f->udp, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0)
		setsockopt(f->udp, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
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
	close(f->udp);
	close(f->strange);
	if (f->listener >= 0)
		close(f->listener);
	close(f->stop[0]);
	close(f->stop[1]);
	for (int i = 0; i < FAKE_CONNECTIONS; i++)
		if (f->connection[i] >= 0)
			close(f->connection[i]);
}
