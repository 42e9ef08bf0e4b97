/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Queries in flight: the table of (channel, id), and the randomness of ids and ports.
 *
 * Every attempt stays in the table until its question ends, so an answer that comes after its time is still taken. A server's
 * `unanswered` counts those in time that it was sent by UDP since its last answer: its silence. */
#include "resolve/flight.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"

/* Ids and ports' choice must not be guessed: all bits come from the kernel, read in bulk. Used ones are wiped. */
static void take_random(struct resolver *r, void *ret, size_t len)
{
	if (r->random_at + len > sizeof(r->random)) {
		size_t at = 0;

		while (at < sizeof(r->random)) {
			ssize_t n = getrandom(r->random + at, sizeof(r->random) - at, 0);

			if (n > 0)
				at += (size_t)n;
			else if (errno != EINTR)
				abort(); /* without randomness every answer could be forged */
		}
		r->random_at = 0;
	}
	memcpy(ret, r->random + r->random_at, len);
	memset(r->random + r->random_at, 0, len);
	r->random_at += len;
}

uint16_t resolver_random16(struct resolver *r)
{
	uint16_t value;

	take_random(r, &value, sizeof(value));
	return value;
}

uint64_t resolver_random64(struct resolver *r)
{
	uint64_t value;

	take_random(r, &value, sizeof(value));
	return value;
}

uint64_t resolver_now_us(struct resolver *r)
{
	if (!r->now_us)
		r->now_us = clock_us();
	return r->now_us;
}

static struct attempt **attempt_bucket(struct resolver *r, const struct channel *c, uint16_t id)
{
	return &r->by_id[(id ^ c->salt) % ATTEMPT_BUCKETS];
}

struct attempt *attempt_find(struct resolver *r, const struct channel *c, uint16_t id)
{
	struct attempt *a = *attempt_bucket(r, c, id);

	while (a && (a->channel != c || a->id != id))
		a = a->bucket_next;
	return a;
}

int channel_free_id(struct resolver *r, const struct channel *c)
{
	uint16_t id;

	/* Far fewer taken than there are, so the draw ends soon. */
	if (c->pending >= CHANNEL_PENDING_MAX)
		return -EAGAIN;
	do
		id = resolver_random16(r);
	while (attempt_find(r, c, id));
	return id;
}

static void attempt_link(struct attempt *a, struct channel *c, uint16_t id)
{
	struct attempt **bucket = attempt_bucket(c->server->group->resolver, c, id);

	a->channel = c;
	a->id = id;
	LIST_ADD(*bucket, a, bucket);
	LIST_ADD(c->attempts, a, channel);
	c->pending++;
}

static void attempt_unlink(struct attempt *a)
{
	LIST_DEL(a, bucket);
	LIST_DEL(a, channel);
	a->channel->pending--;
	a->channel = NULL;
}

void attempt_start(struct attempt *a, struct channel *c, uint16_t id)
{
	struct server *s = c->server;

	attempt_link(a, c, id);
	a->server = s;
	a->is_expired = false;
	a->out_at = 0;
	a->sent_us = resolver_now_us(s->group->resolver);
	s->in_flight++;
	s->sent++;
	if (!c->is_stream && !s->unanswered++)
		s->silent_since_us = a->sent_us;
}

void attempt_move(struct attempt *a, struct channel *c, uint16_t id)
{
	attempt_unlink(a);
	attempt_link(a, c, id);
}

static void leave_time(struct attempt *a)
{
	struct server *s = a->server;

	if (!a->channel->is_stream && s->unanswered && a->sent_us >= s->last_answer_us)
		s->unanswered--;
}

void attempt_expire(struct attempt *a)
{
	deadline_del(&a->timeout);
	if (a->channel && !a->is_expired)
		leave_time(a);
	a->is_expired = true;
}

void attempt_end(struct attempt *a)
{
	struct channel *c = a->channel;

	deadline_del(&a->timeout);
	if (!c)
		return;
	if (!a->is_expired)
		leave_time(a);
	if (a->out_at)
		c->server->group->resolver->out[a->out_at - 1] = NULL;
	a->out_at = 0;
	a->server->in_flight--;
	attempt_unlink(a);
	if (c->is_stream)
		stream_settle(FROM_MEMBER(c, struct stream, channel));
	else
		socket_close_if_done(FROM_MEMBER(c, struct udp_sock, channel));
}

void channel_attempts_fail(struct channel *c, bool is_dead)
{
	while (c->attempts) {
		struct attempt *a = c->attempts;
		struct question *q = a->question;

		attempt_end(a);
		if (!q) {
			if (is_dead)
				server_probe_failed(c->server);
			continue;
		}
		if (is_dead)
			q->dead |= (uint16_t)(1U << c->server->index);
		/* Not from here: a failing channel may have been met while another question was being sent. */
		question_again_soon(q);
	}
}
