/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The batch of UDP queries that leaves at the turn's end.
 *
 * What is asked of a server within a turn leaves by one socket of its pool, drawn when the first query comes, in one system call,
 * and its answers come back together. The socket is drawn anew for each batch, and a batch is full with UPSTREAM_SEND_BATCH
 * queries of all servers. For a forger off the path nothing changes: whatever name he waits for, its query has an id of its own
 * and a port he must guess; that other queries share the port helps him only once he knows it, and it is used for a few batches.
 *
 * A query is in flight as soon as it stands in the batch. One whose question ends before is not sent. */
#include "resolve/flight.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"

_Static_assert((int)UPSTREAM_SEND_BATCH <= 64, "the batch's bits fit a word, and a place and one a byte");
_Static_assert((int)QUERY_MAX >= 300, "wire_query_build needs so much");

uint8_t *send_reserve(struct resolver *r)
{
	if (r->out_count == UPSTREAM_SEND_BATCH)
		send_flush(r);
	return r->out_bytes[r->out_count];
}

int socket_send(struct server *s, struct attempt *a, size_t len)
{
	struct resolver *r = s->group->resolver;
	uint8_t *query = r->out_bytes[r->out_count];
	int error, id;

	assert(r->out_count < UPSTREAM_SEND_BATCH && len <= QUERY_MAX);
	if (!s->turn || s->turn_batch != r->batch) {
		error = socket_pick(s, &s->turn);
		if (error < 0)
			return error;
		s->turn_batch = r->batch;
	}
	id = channel_free_id(r, &s->turn->channel);
	if (id < 0)
		return id;
	query[0] = (uint8_t)(id >> 8);
	query[1] = (uint8_t)id;
	attempt_start(a, &s->turn->channel, (uint16_t)id);
	r->out_iov[r->out_count].iov_len = len;
	r->out[r->out_count] = a;
	a->out_at = (uint8_t)++r->out_count;
	return 0;
}

/* It was not sent, and that was nobody's fault: as if it had not been tried. */
static void give_back(struct attempt *a)
{
	struct question *q = a->question;
	struct server *s = a->server;

	attempt_end(a);
	if (!q)
		return;
	q->tries -= q->tries > 0;
	q->asked[s->index] -= q->asked[s->index] > 0;
	deadline_add(s->group->resolver->loop, &s->group->resolver->no_socket, &q->again);
}

static void give_up(struct attempt *a)
{
	struct question *q = a->question;
	struct server *s = a->server;

	attempt_end(a);
	if (q) {
		q->dead |= (uint16_t)(1U << s->index);
		question_again_soon(q);
	}
}

/* What could not be sent by one socket, by another one. Those that cannot be moved end, the others are in front afterwards. */
static unsigned move_all(struct server *s, struct udp_sock *k, struct attempt **a, struct mmsghdr *msg, unsigned count)
{
	struct resolver *r = s->group->resolver;
	unsigned kept = 0;

	for (unsigned i = 0; i < count; i++) {
		int id = channel_free_id(r, &k->channel);
		uint8_t *query = msg[i].msg_hdr.msg_iov->iov_base;

		if (id < 0) {
			give_back(a[i]);
			continue;
		}
		query[0] = (uint8_t)(id >> 8);
		query[1] = (uint8_t)id;
		attempt_move(a[i], &k->channel, (uint16_t)id);
		a[kept] = a[i];
		msg[kept++] = msg[i];
	}
	return kept;
}

/* How many of them are on their way, or lost in a full buffer, which their timeouts find; *ret_error says why not the others. */
static unsigned send_some(struct udp_sock *k, struct mmsghdr *msg, unsigned count, int *ret_error)
{
	unsigned at = 0;

	*ret_error = 0;
	while (at < count) {
		int n = sendmmsg(k->fd, msg + at, count - at, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n > 0) {
			at += (unsigned)n;
		} else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) {
			return count;
		} else if (errno != EINTR) {
			*ret_error = -errno;
			return at;
		}
	}
	return count;
}

/* All queries to one server. An error of a used socket may be its own (its source address went, an old ICMP message waits in it):
 * a fresh one decides. One that comes after the first query was sent is the server's answer to that. */
static void send_run(struct udp_sock *k, struct attempt **a, struct mmsghdr *msg, unsigned count)
{
	struct server *s = k->channel.server;

	while (count) {
		struct udp_sock *next = NULL;
		bool was_used = k->uses > 0, has_next;
		int error, pick_error = 0;
		unsigned sent = send_some(k, msg, count, &error);

		k->uses += sent;
		if (sent)
			s->stale_in_row = 0;
		if (sent == count)
			return;
		a += sent;
		msg += sent;
		count -= sent;
		has_next = (was_used && !sent) || server_blames_socket(s, error);
		if (!has_next)
			server_broke(s);
		if (k->slot >= 0)
			socket_retire(k); /* not drawn again; what is pending keeps it open */
		if (has_next)
			pick_error = socket_pick(s, &next);
		if (next) {
			count = move_all(s, next, a, msg, count);
			socket_break(k, false);
			k = next;
			continue;
		}
		if (has_next && pick_error != -EAGAIN)
			server_broke(s);
		for (unsigned i = 0; i < count; i++) {
			if (pick_error == -EAGAIN)
				give_back(a[i]);
			else
				give_up(a[i]);
		}
		if (!k->channel.is_closed)
			socket_break(k, !has_next);
		return;
	}
}

void send_flush(void *resolver)
{
	struct resolver *r = resolver;
	uint64_t left = 0, now_us;

	r->now_us = 0;
	if (!r->out_count)
		return;
	now_us = resolver_now_us(r);
	for (unsigned i = 0; i < r->out_count; i++)
		if (r->out[i]) {
			left |= 1ULL << i;
			r->out[i]->out_at = 0;
			r->out[i]->sent_us = now_us;
		}
	r->batch++;
	r->out_count = 0;
	while (left) {
		struct attempt *a[UPSTREAM_SEND_BATCH];
		struct mmsghdr msg[UPSTREAM_SEND_BATCH];
		unsigned first = (unsigned)__builtin_ctzll(left), count = 0;
		struct channel *c = r->out[first]->channel;

		for (uint64_t bits = left; bits; bits &= bits - 1) {
			unsigned i = (unsigned)__builtin_ctzll(bits);

			if (r->out[i]->channel != c)
				continue;
			a[count] = r->out[i];
			msg[count++] = r->out_msg[i];
			left &= ~(1ULL << i);
		}
		send_run(FROM_MEMBER(c, struct udp_sock, channel), a, msg, count);
	}
	r->now_us = 0;
}
