/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One question's life: sent to server after server, or to several at once, until it has an answer or nothing is left.
 *
 * Order of servers: those not failing for this question, healthy before suspected before unhealthy (dead ones not at all), less
 * asked before more asked, then the fastest where that is the strategy, then file order. While a query is in time nothing more is
 * sent. What a server says that another may know better (SERVFAIL, REFUSED, nothing and no SOA) is a poor answer: it is given when
 * the others, once asked, have no better one. */
#include "resolve/flight.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct attempt *attempt_in_time(struct question *q)
{
	for (unsigned i = 0; i < q->used; i++)
		if (q->attempt[i].channel && !q->attempt[i].is_expired)
			return &q->attempt[i];
	return NULL;
}

static bool has_attempt(const struct question *q)
{
	for (unsigned i = 0; i < q->used; i++)
		if (q->attempt[i].channel)
			return true;
	return false;
}

void question_again_soon(struct question *q)
{
	struct resolver *r = q->group->resolver;

	deadline_add(r->loop, &r->soon, &q->again);
}

/* What there is when a poor answer is not bettered. */
static bool give_poor(struct question *q, struct upstream_answer *ret)
{
	struct resolver *r = q->group->resolver;
	const uint8_t *msg = q->kept ? q->kept : q->last;
	size_t len = q->kept ? q->kept_len : q->last_len;

	if (!len || wire_answer_walk(&r->walked, msg, len) < 0)
		return false;
	*ret = (struct upstream_answer){.result = UPSTREAM_OK, .msg = msg, .len = len, .walked = &r->walked};
	return true;
}

void question_finish(struct question *q)
{
	struct upstream_answer a = {.result = UPSTREAM_UNREACHABLE};

	if (give_poor(q, &a))
		;
	else if (q->saw_bad)
		a.result = UPSTREAM_BAD;
	else if (has_attempt(q))
		a.result = UPSTREAM_TIMEOUT;
	/* A want of sockets, or a way that is down, is no failure of the question. */
	if (q->waits && !q->kept && (q->tries || q->dead) && !q->group->is_way_down)
		failure_add(q->group->resolver, q->group, q->hash);
	question_complete(q, &a);
}

/* Whether `a` comes before `b`. */
static bool is_better(const struct question *q, const struct server *a, const struct server *b)
{
	if (a->health != b->health)
		return a->health < b->health;
	if (q->asked[a->index] != q->asked[b->index])
		return q->asked[a->index] < q->asked[b->index];
	/* Not measured is last: 0 becomes the largest. */
	return q->group->strategy == STRATEGY_FASTEST && a->srtt_us - 1 < b->srtt_us - 1;
}

/* The next one, but for those of `except` (a bit each); with a poor answer at hand only one that may have a better. */
static struct server *next_server(const struct question *q, uint16_t except, bool is_poor)
{
	struct server *best = NULL;

	if (q->group->is_way_down)
		return NULL;
	except |= q->failed | q->empty | q->dead;
	for (unsigned i = 0; i < q->group->server_count; i++) {
		struct server *s = &q->group->servers[i];

		if (except >> i & 1 || s->health == DEAD || (is_poor && (q->asked[i] || s->health != HEALTHY)))
			continue;
		if (!best || is_better(q, s, best))
			best = s;
	}
	return best;
}

bool question_is_last_word(const struct question *q)
{
	for (unsigned i = 0; i < q->used; i++)
		if (q->attempt[i].channel && !q->attempt[i].is_expired)
			return false;
	return q->tries >= UPSTREAM_TRIES + q->extra || !next_server(q, 0, true);
}

/* A place for one more: the oldest late one is forgotten when there is none. */
static struct attempt *attempt_place(struct question *q)
{
	struct attempt *oldest = &q->attempt[0];

	for (unsigned i = 0; i < q->used; i++) {
		struct attempt *a = &q->attempt[i];

		if (!a->channel)
			return a;
		if (a->is_expired > oldest->is_expired || (a->is_expired == oldest->is_expired && a->sent_us < oldest->sent_us))
			oldest = a;
	}
	if (q->used < ATTEMPTS_MAX)
		return &q->attempt[q->used++];
	attempt_end(oldest);
	return oldest;
}

/* Length bytes are below the letters. */
static void name_put_cases(uint8_t *name, unsigned len, uint64_t cases)
{
	for (unsigned i = 0; i < len; i++)
		if (name[i] >= 'a' && name[i] <= 'z' && cases >> (i % 64) & 1)
			name[i] -= 'a' - 'A';
}

static int question_send(struct question *q, struct server *s)
{
	struct group *g = q->group;
	struct resolver *r = g->resolver;
	struct attempt *a = attempt_place(q);
	bool is_edns = !(q->plain >> s->index & 1) && s->no_edns_until_ms <= loop_now_ms(r->loop);
	uint8_t *query = send_reserve(r);
	size_t len = wire_query_build(
	        query, 0, &q->qname, q->qtype, q->qclass, true, q->want_cd, is_edns ? UPSTREAM_EDNS : 0, q->want_do);
	int error;

	a->question = q;
	a->is_edns = is_edns;
	a->cases = g->random_case && !q->use_stream ? resolver_random64(r) : 0;
	if (a->cases)
		name_put_cases(query + WIRE_HEADER, q->qname.len, a->cases);
	error = q->use_stream ? stream_send(s, a, len) : socket_send(s, a, len);
	if (error < 0)
		return error;
	deadline_add(r->loop, q->use_stream ? &r->stream_try : server_try_queue(s, q->asked[s->index]), &a->timeout);
	q->asked[s->index]++;
	return 0;
}

static void measure_others(struct question *q)
{
	for (unsigned i = 0; i < q->group->server_count; i++)
		if (!q->asked[i])
			server_measure(&q->group->servers[i], q);
}

static void wait_for_socket(struct question *q)
{
	struct resolver *r = q->group->resolver;

	deadline_add(r->loop, &r->no_socket, &q->again);
	if (loop_now_ms(r->loop) + UPSTREAM_TOTAL_MS > q->total.at_ms + TRY_UNKNOWN_MS)
		question_slow(q);
}

/* Sends to the next server, or to several. 0: that is done, or will be tried again; else nobody is left. */
static int question_try(struct question *q)
{
	struct group *g = q->group;
	unsigned width = g->strategy == STRATEGY_ALL && !q->use_stream ? UPSTREAM_ALL_MAX : 1, count = 0;
	uint16_t sent = 0;

	if (!q->waits || q->tries >= UPSTREAM_TRIES + q->extra)
		return -ENOENT;
	while (count < width) {
		struct server *s = next_server(q, sent, q->last_len || q->kept);
		int error;

		if (!s || (count && s->health != HEALTHY))
			break;
		if (server_look(s))
			continue;
		error = question_send(q, s);
		if (error == -EAGAIN && !count) {
			wait_for_socket(q);
			return 0;
		}
		sent |= (uint16_t)(1U << s->index);
		if (error == 0) {
			count++;
		} else if (error != -EAGAIN) {
			q->dead |= (uint16_t)(1U << s->index);
			if (!q->use_stream)
				server_broke(s);
		}
	}
	if (!count)
		return -ENOENT;
	if (!q->tries++ && g->strategy == STRATEGY_FASTEST)
		measure_others(q);
	return 0;
}

void question_retry(struct question *q, struct server *s)
{
	if (q->extra < EXTRA_TRIES)
		q->extra++;
	if (q->waits && q->tries < UPSTREAM_TRIES + q->extra && question_send(q, s) == 0) {
		q->tries++;
		return;
	}
	question_step(q, false);
}

void question_step(struct question *q, bool is_inside_ask)
{
	deadline_del(&q->again);
	if ((q->waits && attempt_in_time(q)) || question_try(q) == 0)
		return;
	/* Nothing is left to send. Without even a poor answer late ones are waited for. */
	if (q->waits && has_attempt(q) && !q->last_len && !q->kept && !group_is_dead(q->group))
		return;
	if (is_inside_ask)
		question_again_soon(q);
	else
		question_finish(q);
}

void on_again(struct deadline *d)
{
	question_step(FROM_MEMBER(d, struct question, again), false);
}

void on_total(struct deadline *d)
{
	question_finish(FROM_MEMBER(d, struct question, total));
}

void on_try_timeout(struct deadline *d)
{
	struct attempt *a = FROM_MEMBER(d, struct attempt, timeout);
	struct question *q = a->question;
	struct channel *c = a->channel;
	struct server *s = a->server;

	attempt_expire(a);
	if (c->is_stream) {
		s->errors++;
		q->dead |= (uint16_t)(1U << s->index);
		stream_attempt_expired(FROM_MEMBER(c, struct stream, channel));
	} else {
		/* Its source address may be one that no longer has a way out (another exit, a new lease): do not stay with it. */
		socket_retire(FROM_MEMBER(c, struct udp_sock, channel));
		/* A probe ends first: its time-out may begin the next one in its place. */
		if (!q)
			attempt_end(a);
		server_timed_out(s, a);
	}
	if (!q)
		return;
	question_slow(q);
	question_step(q, false);
}

/* Its UDP query at a server that is in time and could still be sent elsewhere or again. */
static struct attempt *movable_attempt(struct question *q, const struct server *s)
{
	if (q->tries >= UPSTREAM_TRIES + q->extra)
		return NULL;
	for (unsigned i = 0; i < q->used; i++) {
		struct attempt *a = &q->attempt[i];

		if (a->channel && !a->is_expired && a->server == s && !a->channel->is_stream)
			return a;
	}
	return NULL;
}

void questions_leave(struct server *s)
{
	uint16_t bit = (uint16_t)(1U << s->index);

	for (struct question *q = s->group->questions; q; q = q->group_next) {
		struct attempt *a = movable_attempt(q, s);
		const struct server *other = a ? next_server(q, bit, false) : NULL;

		if (!other || other->health != HEALTHY)
			continue;
		socket_retire(FROM_MEMBER(a->channel, struct udp_sock, channel));
		attempt_expire(a);
		question_again_soon(q);
	}
}

void questions_ask_again(struct server *s, const struct question *except)
{
	uint64_t now_us = resolver_now_us(s->group->resolver);

	for (struct question *q = s->group->questions; q; q = q->group_next) {
		struct attempt *a = q == except ? NULL : movable_attempt(q, s);

		if (!a || a->sent_us + TRY_MIN_MS * 1000 > now_us)
			continue;
		attempt_expire(a);
		question_again_soon(q);
	}
}

void questions_end_dead(struct group *g)
{
	for (struct question *q = g->questions; q; q = q->group_next) {
		for (unsigned i = 0; i < q->used; i++)
			if (q->attempt[i].channel && !q->attempt[i].channel->is_stream)
				attempt_expire(&q->attempt[i]);
		question_again_soon(q);
	}
}
