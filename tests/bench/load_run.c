/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One measurement of nw-bench-load: `window` queries are kept in flight for a while, each answer is checked and replaced by a new
 * query.
 *
 * Nothing here sleeps: a server that had to wake the load for each of its answers would be measured with the waking. Every query has a
 * slot, and a slot one socket; the message ID is the slot with the number of its turn above it, so that an answer that comes twice is seen. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "load.h"

enum { SOCKETS_MAX = 64, SLOT_BITS = 12, TIMEOUT_NS = 1500000000, LOOK_NS = 50000000, PROBE_NS = 50000000, DRAIN_NS = 1600000000, SAMPLES_MAX = 200000, PACKET_MAX = 1500 };
_Static_assert(WINDOW_MAX == 1 << SLOT_BITS, "a slot fits its bits of the ID");

struct slot {
	uint64_t sent_ns;
	uint16_t id, len;
	bool is_out;
	uint8_t query[HEADER + QUESTION_MAX];
};
struct state {
	const struct run *run;
	struct figures *figures;
	int fd[SOCKETS_MAX];
	struct slot *slot;
	uint16_t idle[SOCKETS_MAX][WINDOW_MAX];
	unsigned idle_count[SOCKETS_MAX], out_count;
	uint32_t *sample_ns;
	unsigned samples;
};

static int open_sockets(struct state *s)
{
	for (unsigned i = 0; i < s->run->sockets; i++) {
		s->fd[i] = udp_socket();
		if (s->fd[i] < 0 || connect(s->fd[i], (const struct sockaddr *)&s->run->server, sizeof(s->run->server)) < 0)
			return -errno;
	}
	for (unsigned i = 0; i < s->run->window; i++) {
		unsigned k = i % s->run->sockets;

		s->slot[i].id = (uint16_t)i;
		s->idle[k][s->idle_count[k]++] = (uint16_t)i;
	}
	return 0;
}

/* Sends up to `most` queries from the idle slots of one socket. Returns how many. */
static unsigned send_some(struct state *s, unsigned k, unsigned most)
{
	unsigned count = s->idle_count[k] < most ? s->idle_count[k] : most, at = 0;
	struct mmsghdr msg[LOAD_BATCH];
	struct iovec iov[LOAD_BATCH];
	uint8_t *question[LOAD_BATCH] = {NULL};
	uint16_t len[LOAD_BATCH];
	uint64_t sent_ns;

	count = count < LOAD_BATCH ? count : LOAD_BATCH;
	if (!count)
		return 0;
	for (unsigned i = 0; i < count; i++)
		question[i] = s->slot[s->idle[k][s->idle_count[k] - 1 - i]].query + HEADER;
	names_draw(s->run->names, count, question, len);
	sent_ns = now_ns();
	for (unsigned i = 0; i < count; i++) {
		struct slot *q = &s->slot[s->idle[k][--s->idle_count[k]]];

		q->id = (uint16_t)(q->id + (1 << SLOT_BITS));
		q->len = (uint16_t)(HEADER + len[i]);
		q->sent_ns = sent_ns;
		q->is_out = true;
		memcpy(q->query, (const uint8_t[HEADER]){(uint8_t)(q->id >> 8), (uint8_t)q->id, 1, 0, 0, 1}, HEADER);
		iov[i] = (struct iovec){.iov_base = q->query, .iov_len = q->len};
		msg[i].msg_hdr = (struct msghdr){.msg_iov = &iov[i], .msg_iovlen = 1};
	}
	while (at < count) {
		int n = sendmmsg(s->fd[k], msg + at, count - at, 0);

		/* What cannot be sent is lost in time. */
		at += n > 0 ? (unsigned)n : 1;
	}
	s->out_count += count;
	s->figures->sent += count;
	return count;
}

static bool is_right(const struct run *r, const uint8_t *p, size_t len)
{
	unsigned answers = (unsigned)(p[6] << 8 | p[7]);

	return r->rcode < 0 || ((p[3] & 15) == r->rcode && answers >= r->answers_min && !(p[2] & 2) && len > HEADER);
}

static void take_answer(struct state *s, unsigned k, const uint8_t *p, size_t len, uint64_t at_ns)
{
	unsigned id = len >= HEADER ? (unsigned)(p[0] << 8 | p[1]) : 0, number = id & (WINDOW_MAX - 1);
	struct slot *q = number < s->run->window ? &s->slot[number] : NULL;

	if (len < HEADER || !(p[2] & 0x80) || !q || !q->is_out || q->id != id || number % s->run->sockets != k) {
		s->figures->late++;
		return;
	}
	if (len < q->len || memcmp(p + HEADER, q->query + HEADER, q->len - HEADER) || !is_right(s->run, p, len)) {
		if (!s->figures->wrong++)
			s->figures->first_wrong_rcode = p[3] & 15;
	} else {
		s->figures->answered++;
	}
	if (s->samples < SAMPLES_MAX)
		s->sample_ns[s->samples++] = (uint32_t)(at_ns - q->sent_ns);
	q->is_out = false;
	s->out_count--;
	s->idle[k][s->idle_count[k]++] = (uint16_t)number;
}

static void receive_some(struct state *s, unsigned k)
{
	static uint8_t bytes[LOAD_BATCH][PACKET_MAX + 100];
	struct mmsghdr msg[LOAD_BATCH];
	struct iovec iov[LOAD_BATCH];
	uint64_t at_ns;
	int n;

	for (unsigned i = 0; i < LOAD_BATCH; i++) {
		iov[i] = (struct iovec){.iov_base = bytes[i], .iov_len = PACKET_MAX};
		msg[i].msg_hdr = (struct msghdr){.msg_iov = &iov[i], .msg_iovlen = 1};
	}
	n = recvmmsg(s->fd[k], msg, LOAD_BATCH, MSG_DONTWAIT, NULL);
	if (n <= 0)
		return;
	at_ns = now_ns();
	for (int i = 0; i < n; i++)
		take_answer(s, k, bytes[i], msg[i].msg_len, at_ns);
}

static void give_up_old(struct state *s, uint64_t at_ns)
{
	for (unsigned i = 0; i < s->run->window; i++) {
		struct slot *q = &s->slot[i];
		unsigned k = i % s->run->sockets;

		if (!q->is_out || at_ns - q->sent_ns < TIMEOUT_NS)
			continue;
		s->figures->lost++;
		s->out_count--;
		q->is_out = false;
		s->idle[k][s->idle_count[k]++] = (uint16_t)i;
	}
}

static void send_due(struct state *s, uint64_t since_start_ns)
{
	uint64_t due = (uint64_t)((double)since_start_ns * 1e-9 * (double)s->run->rate);

	for (unsigned k = 0; k < s->run->sockets && s->figures->sent < due; k++) {
		uint64_t left = due - s->figures->sent;

		(void)send_some(s, k, left < LOAD_BATCH ? (unsigned)left : LOAD_BATCH);
	}
}

static void turn(struct state *s, bool is_sending)
{
	(void)upstream_serve(s->run->upstream);
	for (unsigned k = 0; k < s->run->sockets; k++) {
		receive_some(s, k);
		if (is_sending && !s->run->rate)
			while (send_some(s, k, LOAD_BATCH) == LOAD_BATCH)
				;
	}
}

static void loop(struct state *s)
{
	uint64_t start_ns = now_ns(), end_ns = start_ns + s->run->duration_ns, look_ns = start_ns + LOOK_NS, at_ns = start_ns;

	while (at_ns < end_ns) {
		turn(s, true);
		if (s->run->rate)
			send_due(s, at_ns - start_ns);
		if (at_ns > look_ns) {
			give_up_old(s, now_ns());
			look_ns = at_ns + LOOK_NS;
		}
		at_ns = now_ns();
	}
	s->figures->elapsed_ns = at_ns - start_ns;
	/* A short run looks whether anybody is there. */
	end_ns = at_ns + (s->figures->answered || s->run->duration_ns > PROBE_NS ? DRAIN_NS : s->run->duration_ns);
	while (s->out_count && now_ns() < end_ns)
		turn(s, false);
	s->figures->lost += s->out_count;
}

static int compare_ns(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

int run_measure(const struct run *r, struct figures *ret)
{
	struct state *s = calloc(1, sizeof(*s));
	int e = -ENOMEM;

	*ret = (struct figures){0};
	if (!s)
		return e;
	s->run = r;
	s->figures = ret;
	for (unsigned i = 0; i < SOCKETS_MAX; i++)
		s->fd[i] = -1;
	s->slot = calloc(r->window, sizeof(*s->slot));
	s->sample_ns = malloc(SAMPLES_MAX * sizeof(*s->sample_ns));
	if (s->slot && s->sample_ns && r->window <= WINDOW_MAX && r->sockets <= SOCKETS_MAX)
		e = open_sockets(s);
	if (e >= 0) {
		loop(s);
		qsort(s->sample_ns, s->samples, sizeof(*s->sample_ns), compare_ns);
	}
	if (e >= 0 && s->samples) {
		ret->median_us = s->sample_ns[s->samples / 2] / 1e3;
		ret->p99_us = s->sample_ns[(uint64_t)s->samples * 99 / 100] / 1e3;
	}
	for (unsigned i = 0; i < SOCKETS_MAX; i++)
		if (s->fd[i] >= 0)
			close(s->fd[i]);
	free(s->slot);
	free(s->sample_ns);
	free(s);
	return e;
}
