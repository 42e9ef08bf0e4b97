/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One question's life: asked or joined to an equal one in flight, sent to server after server, completed once for all who wait.
 *
 * Order of servers: those not known dead or failing for this question, healthy before unhealthy, less asked before more asked,
 * file order. Every attempt stays in the table of ids until the question ends, so an answer that comes after its attempt's
 * timeout is still taken. */
#include "resolve/flight.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/hash.h"

enum { QUERY_MAX = 512 };

struct chunk {
	struct chunk *next;
	struct question question[CHUNK];
};

/* Ids and ports' choice must not be guessed: all bits come from the kernel, read in bulk. Used ones are wiped. */
uint16_t resolver_random16(struct resolver *r)
{
	uint16_t value;

	if (r->random_at + sizeof(value) > sizeof(r->random)) {
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
	memcpy(&value, r->random + r->random_at, sizeof(value));
	memset(r->random + r->random_at, 0, sizeof(value));
	r->random_at += sizeof(value);
	return value;
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

void attempt_start(struct attempt *a, struct channel *c, uint16_t id)
{
	struct attempt **bucket = attempt_bucket(c->server->group->resolver, c, id);

	a->channel = c;
	a->server = c->server;
	a->id = id;
	a->is_expired = false;
	a->sent_us = clock_us();
	LIST_ADD(*bucket, a, bucket);
	LIST_ADD(c->attempts, a, channel);
	c->pending++;
	c->server->sent++;
}

void attempt_end(struct attempt *a)
{
	struct channel *c = a->channel;

	deadline_del(&a->timeout);
	if (!c)
		return;
	LIST_DEL(a, bucket);
	LIST_DEL(a, channel);
	a->channel = NULL;
	c->pending--;
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
		if (!q)
			continue;
		if (is_dead)
			q->dead |= (uint16_t)(1U << c->server->index);
		/* Not from here: a failing channel may have been met while another question was being sent. */
		question_again_soon(q);
	}
}

static struct question *question_new(struct resolver *r)
{
	struct question *q;

	if (!r->free_questions) {
		struct chunk *c = calloc(1, sizeof(*c));

		if (!c)
			return NULL;
		c->next = r->chunks;
		r->chunks = c;
		for (unsigned i = 0; i < CHUNK; i++) {
			c->question[i].hash_next = r->free_questions;
			r->free_questions = &c->question[i];
		}
	}
	q = r->free_questions;
	r->free_questions = q->hash_next;
	memset(q, 0, sizeof(*q));
	return q;
}

static void wait_unlink(struct upstream_wait *w)
{
	*w->prev = w->next;
	if (w->next)
		w->next->prev = w->prev;
	w->next = NULL;
	w->prev = NULL;
}

static void wait_link(struct upstream_wait **head, struct upstream_wait *w)
{
	w->next = *head;
	w->prev = head;
	if (*head)
		(*head)->prev = &w->next;
	*head = w;
}

void question_complete(struct question *q, const struct upstream_answer *answer)
{
	struct resolver *r = q->group->resolver;

	/* Out of every table first: a callback may ask the same again. */
	for (unsigned i = 0; i < ATTEMPTS_MAX; i++)
		attempt_end(&q->attempt[i]);
	deadline_del(&q->total);
	deadline_del(&q->again);
	LIST_DEL(q, hash);
	LIST_DEL(q, group);
	q->group->question_count--;
	while (q->waits) {
		struct upstream_wait *w = q->waits;

		wait_unlink(w);
		w->done(w, answer);
	}
	q->hash_next = r->free_questions;
	r->free_questions = q;
}

void question_finish(struct question *q)
{
	struct resolver *r = q->group->resolver;
	struct upstream_answer a = {.result = UPSTREAM_UNREACHABLE};

	if (q->last_len && wire_answer_walk(&r->walked, q->last, q->last_len) == 0)
		a = (struct upstream_answer){.result = UPSTREAM_OK, .msg = q->last, .len = q->last_len, .walked = &r->walked};
	else if (q->saw_bad)
		a.result = UPSTREAM_BAD;
	else
		for (unsigned i = 0; i < q->tries; i++)
			if (q->attempt[i].channel)
				a.result = UPSTREAM_TIMEOUT;
	question_complete(q, &a);
}

void question_again_soon(struct question *q)
{
	struct resolver *r = q->group->resolver;

	deadline_add(r->loop, &r->soon, &q->again);
}

static struct server *next_server(struct question *q)
{
	struct server *best = NULL;
	unsigned best_rank = 0;

	if (q->group->is_way_down)
		return NULL;
	for (unsigned i = 0; i < q->group->server_count; i++) {
		struct server *s = &q->group->servers[i];
		unsigned rank = q->asked[i] + (s->is_healthy ? 0U : 2U * ATTEMPTS_MAX);

		if ((q->failed | q->dead) >> i & 1 || (best && rank >= best_rank))
			continue;
		best = s;
		best_rank = rank;
	}
	return best;
}

static int question_send(struct question *q, struct server *s)
{
	struct resolver *r = q->group->resolver;
	struct attempt *a = &q->attempt[q->tries];
	bool is_edns = !(q->plain >> s->index & 1) && s->no_edns_until_ms <= loop_now_ms(r->loop);
	uint8_t query[QUERY_MAX];
	size_t len = wire_query_build(
	        query, 0, &q->qname, q->qtype, q->qclass, true, q->want_cd, is_edns ? UPSTREAM_EDNS : 0, q->want_do);
	int error;

	a->question = q;
	a->is_edns = is_edns;
	error = q->use_stream ? stream_send(s, a, query, len) : socket_send(s, a, query, len);
	if (error < 0)
		return error;
	q->tries++;
	deadline_add(r->loop, q->use_stream ? &r->stream_try : server_try_queue(s, q->asked[s->index]), &a->timeout);
	q->asked[s->index]++;
	return 0;
}

static bool has_attempt(const struct question *q, bool with_expired)
{
	for (unsigned i = 0; i < q->tries; i++)
		if (q->attempt[i].channel && (with_expired || !q->attempt[i].is_expired))
			return true;
	return false;
}

void question_step(struct question *q, bool is_inside_ask)
{
	struct resolver *r = q->group->resolver;

	deadline_del(&q->again);
	while (q->waits && q->tries < UPSTREAM_TRIES + q->extra) {
		struct server *s = next_server(q);
		int error;

		if (!s)
			break;
		error = question_send(q, s);
		if (error == 0)
			return;
		if (error == -EAGAIN) {
			deadline_add(r->loop, &r->no_socket, &q->again);
			return;
		}
		q->dead |= (uint16_t)(1U << s->index);
		if (!q->use_stream)
			server_broke(s);
	}
	/* Nothing left to send. A failure answer is given once no attempt is within its time; with none, late answers are waited
	 * for. */
	if (q->waits && has_attempt(q, q->last_len == 0))
		return;
	if (is_inside_ask) {
		/* A way may be up again before we were told. */
		q->is_over = !q->group->is_way_down;
		question_again_soon(q);
	} else {
		question_finish(q);
	}
}

static void on_again(struct deadline *d)
{
	struct question *q = FROM_MEMBER(d, struct question, again);

	if (q->is_over)
		question_finish(q);
	else
		question_step(q, false);
}

static void on_total(struct deadline *d)
{
	question_finish(FROM_MEMBER(d, struct question, total));
}

static void on_try_timeout(struct deadline *d)
{
	struct attempt *a = FROM_MEMBER(d, struct attempt, timeout);
	struct question *q = a->question;
	struct channel *c = a->channel;

	a->is_expired = true;
	if (c->is_stream) {
		a->server->errors++;
		q->dead |= (uint16_t)(1U << a->server->index);
		stream_attempt_expired(FROM_MEMBER(c, struct stream, channel));
	} else {
		/* Its source address may be one that no longer has a way out (another exit, a new lease): do not stay with it. */
		socket_retire(FROM_MEMBER(c, struct udp_sock, channel));
		server_timed_out(a->server, a);
	}
	question_step(q, false);
}

static void on_refuse(struct deadline *d)
{
	static const enum upstream_result result[2] = {UPSTREAM_BUSY, UPSTREAM_GONE};
	struct resolver *r = FROM_MEMBER(d, struct resolver, refuse_at);
	struct upstream_wait *lists[2] = {r->refused[0], r->refused[1]};

	/* Taken off first: what a callback asks and is refused completes in a later turn. */
	for (unsigned i = 0; i < 2; i++) {
		struct upstream_answer a = {.result = result[i]};

		r->refused[i] = NULL;
		if (lists[i])
			lists[i]->prev = &lists[i];
		while (lists[i]) {
			struct upstream_wait *w = lists[i];

			wait_unlink(w);
			w->done(w, &a);
		}
	}
}

static void refuse_soon(struct resolver *r, unsigned which, struct upstream_wait *w)
{
	wait_link(&r->refused[which], w);
	if (!r->refuse_at.next)
		deadline_add(r->loop, &r->refuse, &r->refuse_at);
}

static bool is_same(const struct question *q, const struct group *g, const struct name *qname, uint16_t qtype, uint16_t qclass,
        bool want_do, bool want_cd)
{
	return q->group == g && q->qtype == qtype && q->qclass == qclass && q->want_do == want_do && q->want_cd == want_cd &&
	       name_equal(&q->qname, qname);
}

void upstream_ask(struct resolver *r, unsigned group, const struct name *qname, uint16_t qtype, uint16_t qclass, bool want_do,
        bool want_cd, struct upstream_wait *w)
{
	struct group *g = group < r->group_count ? r->groups[group] : NULL;
	uint64_t hash =
	        hash_bytes(qname->wire, qname->len, r->seed ^ (uintptr_t)g ^ ((uint64_t)qtype << 48 | (uint64_t)qclass << 32));
	struct question **bucket = &r->by_question[hash % QUESTION_BUCKETS], *q = *bucket;

	if (!g) {
		refuse_soon(r, 1, w);
		return;
	}
	while (q && !is_same(q, g, qname, qtype, qclass, want_do, want_cd))
		q = q->hash_next;
	if (q) {
		wait_link(&q->waits, w);
		return;
	}
	q = g->question_count < UPSTREAM_INFLIGHT_MAX ? question_new(r) : NULL;
	if (!q) {
		refuse_soon(r, 0, w);
		return;
	}
	q->group = g;
	q->qname = *qname;
	q->qtype = qtype;
	q->qclass = qclass;
	q->want_do = want_do;
	q->want_cd = want_cd;
	g->question_count++;
	LIST_ADD(*bucket, q, hash);
	LIST_ADD(g->questions, q, group);
	wait_link(&q->waits, w);
	deadline_add(r->loop, &r->total, &q->total);
	question_step(q, true);
}

void upstream_cancel(struct upstream_wait *w)
{
	if (w->prev)
		wait_unlink(w);
}

int resolver_new(struct resolver **ret, struct loop *l, const struct resolver_env *env)
{
	static const uint32_t class_ms[TRY_CLASSES] = {
	        TRY_MIN_MS, 150, 200, 300, 400, TRY_UNKNOWN_MS, 600, TRY_MAX_MS, 1200, 2 * TRY_MAX_MS};
	struct resolver *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->recv_bytes = malloc((size_t)RECV_BATCH * RECV_STRIDE);
	if (!r->recv_bytes) {
		free(r);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < RECV_BATCH; i++) {
		r->iov[i] = (struct iovec){.iov_base = r->recv_bytes + (size_t)i * RECV_STRIDE, .iov_len = RECV_MAX};
		r->msg[i].msg_hdr = (struct msghdr){.msg_iov = &r->iov[i], .msg_iovlen = 1};
	}
	r->loop = l;
	if (env)
		r->env = *env;
	r->seed = hash_seed();
	r->random_at = sizeof(r->random);
	name_from_text(&r->root, ".", 1);
	for (unsigned i = 0; i < TRY_CLASSES; i++)
		deadline_queue_init(l, &r->try_queue[i], class_ms[i], on_try_timeout);
	deadline_queue_init(l, &r->stream_try, TRY_STREAM_MS, on_try_timeout);
	deadline_queue_init(l, &r->total, UPSTREAM_TOTAL_MS, on_total);
	deadline_queue_init(l, &r->soon, SOON_MS, on_again);
	deadline_queue_init(l, &r->no_socket, NO_SOCKET_MS, on_again);
	deadline_queue_init(l, &r->probe, PROBE_MS, on_probe);
	deadline_queue_init(l, &r->stream_idle, STREAM_IDLE_MS, on_stream_idle);
	deadline_queue_init(l, &r->refuse, SOON_MS, on_refuse);
	*ret = r;
	return 0;
}

void resolver_free(struct resolver *r)
{
	unsigned group_count;

	if (!r)
		return;
	/* What callbacks ask from now on finds no group. */
	group_count = r->group_count;
	r->group_count = 0;
	for (unsigned i = 0; i < group_count; i++)
		group_free(r->groups[i]);
	free(r->groups);
	on_refuse(&r->refuse_at);
	for (unsigned i = 0; i < TRY_CLASSES; i++)
		deadline_queue_done(r->loop, &r->try_queue[i]);
	deadline_queue_done(r->loop, &r->stream_try);
	deadline_queue_done(r->loop, &r->total);
	deadline_queue_done(r->loop, &r->soon);
	deadline_queue_done(r->loop, &r->no_socket);
	deadline_queue_done(r->loop, &r->probe);
	deadline_queue_done(r->loop, &r->stream_idle);
	deadline_queue_done(r->loop, &r->refuse);
	while (r->chunks) {
		struct chunk *next = r->chunks->next;

		free(r->chunks);
		r->chunks = next;
	}
	free(r->recv_bytes);
	free(r);
}
