/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The resolver's callers: asked or joined to an equal question in flight, told once when it takes long, completed together. What
 * cannot be asked (the bound, a failure moments ago, servers that are all dead) completes a turn later. */
#include "resolve/flight.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

struct chunk {
	struct chunk *next;
	struct question question[CHUNK];
};

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
	memset(q, 0, offsetof(struct question, last));
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
	for (unsigned i = 0; i < q->used; i++)
		attempt_end(&q->attempt[i]);
	deadline_del(&q->total);
	deadline_del(&q->again);
	deadline_del(&q->slow);
	LIST_DEL(q, hash);
	LIST_DEL(q, group);
	q->group->question_count--;
	while (q->waits) {
		struct upstream_wait *w = q->waits;

		wait_unlink(w);
		w->done(w, answer);
	}
	free(q->kept);
	q->hash_next = r->free_questions;
	r->free_questions = q;
}

/* They are on a list of their own meanwhile, so that one which is cancelled by another's callback is not met. */
static void tell_slow(struct resolver *r, struct upstream_wait **waits)
{
	assert(!r->telling);
	r->telling = *waits;
	*waits = NULL;
	if (r->telling)
		r->telling->prev = &r->telling;
	while (r->telling) {
		struct upstream_wait *w = r->telling;

		wait_unlink(w);
		wait_link(waits, w);
		if (w->is_slow)
			continue;
		w->is_slow = true;
		if (w->slow)
			w->slow(w);
	}
}

void question_slow(struct question *q)
{
	if (q->is_slow)
		return;
	q->is_slow = true;
	tell_slow(q->group->resolver, &q->waits);
}

void on_slow(struct deadline *d)
{
	struct question *q = FROM_MEMBER(d, struct question, slow);

	tell_slow(q->group->resolver, &q->waits);
}

static void question_slow_soon(struct question *q)
{
	struct resolver *r = q->group->resolver;

	q->is_slow = true;
	if (!q->slow.next)
		deadline_add(r->loop, &r->slow, &q->slow);
}

static void on_refuse(struct deadline *d)
{
	struct resolver *r = FROM_MEMBER(d, struct resolver, refuse_at);
	struct upstream_wait *lists[RESULTS];

	/* Taken off first: what a callback asks and is refused completes in a later turn. */
	for (unsigned i = 0; i < RESULTS; i++) {
		lists[i] = r->refused[i];
		r->refused[i] = NULL;
		if (lists[i])
			lists[i]->prev = &lists[i];
	}
	for (unsigned i = 0; i < RESULTS; i++) {
		struct upstream_answer a = {.result = i};

		if (i != UPSTREAM_BUSY && i != UPSTREAM_GONE)
			tell_slow(r, &lists[i]);
		while (lists[i]) {
			struct upstream_wait *w = lists[i];

			wait_unlink(w);
			w->done(w, &a);
		}
	}
}

static void refuse_soon(struct resolver *r, enum upstream_result result, struct upstream_wait *w)
{
	wait_link(&r->refused[result], w);
	if (!r->refuse_at.next)
		deadline_add(r->loop, &r->refuse, &r->refuse_at);
}

static bool is_same(const struct question *q, const struct group *g, const struct name *qname, uint16_t qtype, uint16_t qclass,
        bool want_do, bool want_cd)
{
	return q->group == g && q->qtype == qtype && q->qclass == qclass && q->want_do == want_do && q->want_cd == want_cd &&
	       name_equal(&q->qname, qname);
}

/* Whether it may be asked now; else what it gets. */
static enum upstream_result permit(struct resolver *r, struct group *g, enum failure_state failed)
{
	if (!g->server_count)
		return UPSTREAM_NONE;
	if (failed == FAILURE_HOLDS) {
		g->failure_hits++;
		return UPSTREAM_FAILED;
	}
	if (g->question_count >= g->inflight_max) {
		g->refused++;
		return UPSTREAM_BUSY;
	}
	if (!g->is_way_down && group_is_dead(g)) {
		g->failure_hits++;
		return UPSTREAM_UNREACHABLE;
	}
	return UPSTREAM_OK;
}

void upstream_ask(struct resolver *r, unsigned group, const struct name *qname, uint16_t qtype, uint16_t qclass, bool want_do,
        bool want_cd, struct upstream_wait *w)
{
	struct group *g = group < r->group_count ? r->groups[group] : NULL;
	uint64_t hash = hash_bytes(qname->wire, qname->len,
	        r->seed ^ (uintptr_t)g ^ ((uint64_t)qtype << 48 | (uint64_t)qclass << 32 | want_do << 1 | want_cd));
	struct question **bucket = &r->by_question[hash % QUESTION_BUCKETS], *q = *bucket;
	enum failure_state failed;
	enum upstream_result result;

	w->is_slow = false;
	if (!g) {
		refuse_soon(r, UPSTREAM_GONE, w);
		return;
	}
	while (q && !is_same(q, g, qname, qtype, qclass, want_do, want_cd))
		q = q->hash_next;
	if (q) {
		wait_link(&q->waits, w);
		if (q->is_slow)
			question_slow_soon(q);
		return;
	}
	failed = failure_find(r, g, hash);
	result = permit(r, g, failed);
	if (result == UPSTREAM_UNREACHABLE)
		group_lost(g, qname, qtype);
	if (result == UPSTREAM_OK && !(q = question_new(r)))
		result = UPSTREAM_BUSY;
	if (result != UPSTREAM_OK) {
		refuse_soon(r, result, w);
		return;
	}
	q->group = g;
	q->hash = hash;
	name_copy(&q->qname, qname);
	q->qtype = qtype;
	q->qclass = qclass;
	q->want_do = want_do;
	q->want_cd = want_cd;
	q->had_failed = failed != FAILURE_NONE;
	g->question_count++;
	LIST_ADD(*bucket, q, hash);
	LIST_ADD(g->questions, q, group);
	wait_link(&q->waits, w);
	deadline_add(r->loop, &r->total, &q->total);
	if (g->is_way_down || !group_has_healthy(g))
		question_slow_soon(q);
	question_step(q, true);
}

void upstream_cancel(struct upstream_wait *w)
{
	if (w->prev)
		wait_unlink(w);
}

static void on_turn_end(void *resolver)
{
	struct resolver *r = resolver;

	r->turn++;
	send_flush(r);
}

static void message_init(struct mmsghdr *m, struct iovec *iov, void *bytes, size_t len)
{
	*iov = (struct iovec){.iov_base = bytes, .iov_len = len};
	m->msg_hdr = (struct msghdr){.msg_iov = iov, .msg_iovlen = 1};
}

static void queues_init(struct resolver *r)
{
	static const uint32_t class_ms[TRY_CLASSES] = {
	        TRY_MIN_MS, 150, 200, 300, 400, TRY_UNKNOWN_MS, 600, TRY_MAX_MS, 1200, 2 * TRY_MAX_MS};
	struct loop *l = r->loop;

	for (unsigned i = 0; i < TRY_CLASSES; i++)
		deadline_queue_init(l, &r->try_queue[i], class_ms[i], on_try_timeout);
	deadline_queue_init(l, &r->stream_try, TRY_STREAM_MS, on_try_timeout);
	deadline_queue_init(l, &r->total, UPSTREAM_TOTAL_MS, on_total);
	deadline_queue_init(l, &r->soon, SOON_MS, on_again);
	deadline_queue_init(l, &r->no_socket, NO_SOCKET_MS, on_again);
	deadline_queue_init(l, &r->probe, PROBE_MS, on_probe);
	deadline_queue_init(l, &r->stream_idle, STREAM_IDLE_MS, on_stream_idle);
	deadline_queue_init(l, &r->refuse, SOON_MS, on_refuse);
	/* Last, so that it runs before the others of a turn: who waits is told before he is given a failure. */
	deadline_queue_init(l, &r->slow, SOON_MS, on_slow);
}

static void queues_done(struct resolver *r)
{
	struct deadline_queue *all[] = {
	        &r->stream_try, &r->total, &r->soon, &r->no_socket, &r->probe, &r->stream_idle, &r->refuse, &r->slow};

	for (unsigned i = 0; i < TRY_CLASSES; i++)
		deadline_queue_done(r->loop, &r->try_queue[i]);
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		deadline_queue_done(r->loop, all[i]);
}

int resolver_new(struct resolver **ret, struct loop *l, const struct resolver_env *env)
{
	struct resolver *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->recv_bytes = malloc((size_t)RECV_BATCH * RECV_STRIDE);
	if (!r->recv_bytes) {
		free(r);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < RECV_BATCH; i++)
		message_init(&r->msg[i], &r->iov[i], r->recv_bytes + (size_t)i * RECV_STRIDE, RECV_MAX);
	for (unsigned i = 0; i < UPSTREAM_SEND_BATCH; i++)
		message_init(&r->out_msg[i], &r->out_iov[i], r->out_bytes[i], QUERY_MAX);
	r->loop = l;
	if (env)
		r->env = *env;
	r->seed = hash_seed();
	r->random_at = sizeof(r->random);
	r->turn = 1;
	name_from_text(&r->root, ".", 1);
	queues_init(r);
	loop_on_turn_end(l, on_turn_end, r);
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
	loop_off_turn_end(r->loop, on_turn_end, r);
	queues_done(r);
	while (r->chunks) {
		struct chunk *next = r->chunks->next;

		free(r->chunks);
		r->chunks = next;
	}
	free(r->recv_bytes);
	free(r);
}
