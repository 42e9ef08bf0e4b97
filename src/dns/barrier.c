/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The worker's side of the barrier: addresses of one turn are gathered into messages to the enforcer, sent at the turn's end; its acknowledgement
 * renews holds and lets parked answers go. A hold is entered before its request is sent, so that a release running meanwhile sees the name. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include "base/err.h"
#include "base/hash.h"
#include "dns/query.h"

static void fail_batch(struct worker *w, struct batch *b);

static struct batch *take_batch(struct worker *w)
{
	for (unsigned i = 0; i < WORKER_BATCHES; i++) {
		uint32_t seq = w->next_seq++;
		struct batch *b = &w->batch[seq % WORKER_BATCHES];
		if (b->is_used && w->now_s - b->made_s >= BATCH_LOST_S)
			fail_batch(w, b);
		if (b->is_used)
			continue;
		b->is_used = true;
		b->seq = seq;
		b->made_s = w->now_s;
		b->count = 0;
		w->batches++;
		return b;
	}
	return NULL;
}

bool barrier_covers(struct worker *w, uint32_t rule_id, const struct addr *a, const struct name *n, uint64_t name_hash, uint32_t need_s)
{
	const struct steer_shared *s = w->shared->steer;
	if (atomic_load_explicit(&s->state, memory_order_acquire) != STEER_READY)
		return false;
	uint32_t epoch = atomic_load_explicit(&s->epoch, memory_order_relaxed);
	return holds_cover(w->shared->holds, rule_id, a, n->wire, n->len, name_hash, epoch, w->now_s + need_s);
}

int barrier_add(struct worker *w, struct query *q, uint32_t rule_id, const struct addr *a, const struct name *n, uint64_t name_hash, uint32_t need_s)
{
	if (w->gathering && w->gathering->count == STEER_BATCH_MAX)
		barrier_flush(w);
	if (!w->gathering && !(w->gathering = take_batch(w)))
		return NW_EFULL;
	struct hold *hold = holds_insert(w->shared->holds, rule_id, a, n->wire, n->len, name_hash);
	if (!hold) {
		q->is_full = true;
		return NW_EFULL;
	}
	uint32_t life_s = hold_life_s(need_s);
	struct batch *b = w->gathering;
	struct steer_element *e = &w->out.e[b->count];
	memset(e, 0, sizeof *e);
	e->rule_id = rule_id;
	e->family = a->family == AF_INET ? 4 : 6;
	e->life_s = life_s;
	memcpy(e->addr, a->b, 16);
	b->from[b->count++] = (struct batch_from){ .q = q, .serial = q->serial, .hold = hold, .expires_s = w->now_s + life_s - 1, .epoch = atomic_load(&w->shared->steer->epoch) };
	q->pending++;
	return 0;
}

static void resolve_element(struct worker *w, const struct batch_from *f, enum steer_status status)
{
	if (status == STEER_OK || status == STEER_SKIPPED)
		hold_renew(w->shared->holds, f->hold, f->epoch, w->now_s, f->expires_s);
	struct query *q = f->q;
	if (q->serial != f->serial)
		return;
	if (status != STEER_OK && status != STEER_SKIPPED)
		q->has_failed = true;
	if (status == STEER_FULL)
		q->is_full = true;
	if (--q->pending == 0)
		query_barrier_done(w, q);
}

static void free_batch(struct worker *w, struct batch *b)
{
	b->is_used = false;
	w->batches--;
}

static void fail_batch(struct worker *w, struct batch *b)
{
	free_batch(w, b);
	for (unsigned i = 0; i < b->count; i++)
		resolve_element(w, &b->from[i], STEER_FAILED);
}

void barrier_flush(void *worker)
{
	struct worker *w = worker;
	struct batch *b = w->gathering;
	if (!b)
		return;
	w->gathering = NULL;
	w->out.type = STEER_ADD;
	w->out.count = b->count;
	w->out.seq = b->seq;
	size_t len = offsetof(struct steer_add, e) + b->count * sizeof w->out.e[0];
	if (send(w->steer_fd, &w->out, len, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)len)
		fail_batch(w, b);
}

static bool is_ack_of(const struct batch *b, const struct steer_ack *ack, size_t len)
{
	return b->is_used && b->seq == ack->seq && ack->count == b->count && len == offsetof(struct steer_ack, status) + b->count;
}

static void on_ack(uv_poll_t *p, int status, int events)
{
	(void)status;
	(void)events;
	struct worker *w = p->data;
	struct steer_ack ack;
	w->now_s = (uint32_t)(loop_now_ms(w->loop) / 1000);
	/* Without a batch on its way nothing waits. */
	for (int i = 0; i < WORKER_BATCHES && (i == 0 || w->batches > (w->gathering != NULL)); i++) {
		ssize_t n = recv(w->steer_fd, &ack, sizeof ack, MSG_DONTWAIT);
		if (n < 0)
			return;
		struct batch *b = &w->batch[ack.seq % WORKER_BATCHES];
		if ((size_t)n < offsetof(struct steer_ack, status) || ack.type != STEER_ACK || b == w->gathering || !is_ack_of(b, &ack, (size_t)n))
			continue;
		if (w->now_s - b->made_s >= BATCH_LOST_S) {
			fail_batch(w, b); /* its holds may soon be others' */
			continue;
		}
		free_batch(w, b);
		for (unsigned k = 0; k < b->count; k++)
			resolve_element(w, &b->from[k], ack.status[k]);
	}
}

/* The channel outlives a server: what an earlier one was sent is thrown away, and numbers begin where its own did not. */
static void forget_earlier(struct worker *w)
{
	struct steer_ack ack;
	while (recv(w->steer_fd, &ack, sizeof ack, MSG_DONTWAIT) > 0)
		;
	w->next_seq = (uint32_t)hash_seed();
}

void barrier_close(struct worker *w)
{
	w->gathering = NULL;
	for (unsigned i = 0; i < WORKER_BATCHES; i++)
		if (w->batch[i].is_used)
			fail_batch(w, &w->batch[i]);
	if (w->steer_poll.data)
		uv_close((uv_handle_t *)&w->steer_poll, NULL);
}

int barrier_open(struct worker *w)
{
	forget_earlier(w);
	int r = uv_poll_init(loop_uv(w->loop), &w->steer_poll, w->steer_fd);
	if (r == 0)
		w->steer_poll.data = w;
	if (r == 0)
		r = uv_poll_start(&w->steer_poll, UV_READABLE, on_ack);
	if (r == 0)
		loop_on_turn_end(w->loop, barrier_flush, w);
	return r;
}
