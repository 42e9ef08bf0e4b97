/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A worker's ring of query records: bytes, one producer, one consumer, no lock.
 *
 * Positions only grow; a position's place in the ring is its low bits. A record is a head, the client's address and the name in wire form, rounded up to
 * eight bytes; it never wraps: what is left at the end of the ring is filled by a head without a name. The producer publishes `head` behind a whole record,
 * the consumer `tail` behind what it has read. The producer looks at `tail` only when the ring seems full by what it saw last.
 *
 * With the log off records are samples. In each second the first 1,600 samples are taken every `stride` queries (on average: the gap is drawn at random, so
 * that clients who ask in a rhythm are not missed), where the stride comes from the second before; if that was too small, 100 more are taken at each
 * of four strides that are four times larger, and then none. A sample stands for the queries since the one before. */
#include "stat/query_ring.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MASK = QUERY_RING_BYTES - 1, STEP = 8, SAMPLES_FIRST = QUERY_LOG_SAMPLE_S * 4 / 5, SAMPLES_LATER = QUERY_LOG_SAMPLE_S / 20, PHASES_LATER = 4, PHASE_FACTOR = 4 };

struct ring_record {
	uint16_t len; /* of all of it */
	uint8_t name_len, family; /* name_len 0: nothing, up to the end of the ring */
	uint32_t took_us, weight, config_serial;
	uint64_t wall_ms;
	uint16_t qtype;
	int16_t filter_rule, steer_rule;
	uint8_t rcode, outcome;
};
_Static_assert(sizeof(struct ring_record) == 32, "a record's head is four steps");

struct query_ring {
	/* The worker's own. */
	_Alignas(64) uint64_t head, tail_seen;
	uint64_t second_ms, seen; /* queries since second_ms */
	uint32_t gap, passed, stride, random;
	uint32_t phase, phase_left;
	/* Written by one side each. */
	_Alignas(64) _Atomic uint64_t head_shared;
	_Atomic uint64_t lost;
	_Alignas(64) _Atomic uint64_t tail;
	_Alignas(64) _Atomic bool takes_all;
	_Alignas(64) uint8_t bytes[QUERY_RING_BYTES];
};

struct query_ring *query_ring_new(void)
{
	struct query_ring *r = aligned_alloc(64, sizeof *r);
	if (!r)
		return NULL;
	memset(r, 0, offsetof(struct query_ring, bytes)); /* pages of the ring itself come when they are used */
	r->random = 0x9e3779b9;
	r->second_ms = UINT64_MAX / 2;
	return r;
}

void query_ring_free(struct query_ring *r)
{
	free(r);
}

/* --- the worker's side --- */

static uint32_t draw_gap(struct query_ring *r)
{
	if (r->stride == 1)
		return 1;
	r->random ^= r->random << 13;
	r->random ^= r->random >> 17;
	r->random ^= r->random << 5;
	return 1 + (uint32_t)((uint64_t)r->random * (2 * r->stride - 1) >> 32);
}

static void begin_second(struct query_ring *r, uint64_t now_ms)
{
	uint64_t per_s = r->seen * 1000 / (now_ms - r->second_ms);
	if (r->phase > PHASES_LATER)
		r->passed = 0; /* more than one sample can stand for: they are not counted */
	r->stride = (uint32_t)(per_s / (SAMPLES_FIRST * 3 / 4)) + 1;
	r->second_ms = now_ms;
	r->seen = 0;
	r->phase = 0;
	r->phase_left = SAMPLES_FIRST;
	r->gap = draw_gap(r);
}

static void next_phase(struct query_ring *r)
{
	r->phase++;
	r->phase_left = SAMPLES_LATER;
	r->stride *= PHASE_FACTOR;
}

bool query_ring_wants(struct query_ring *r, uint64_t now_ms, uint32_t *ret_weight)
{
	*ret_weight = 1;
	if (atomic_load_explicit(&r->takes_all, memory_order_relaxed))
		return true;
	if (now_ms - r->second_ms >= 1000)
		begin_second(r, now_ms);
	r->seen++;
	r->passed++;
	if (--r->gap)
		return false;
	*ret_weight = r->passed;
	r->passed = 0;
	if (--r->phase_left == 0)
		next_phase(r);
	r->gap = r->phase > PHASES_LATER ? UINT32_MAX : draw_gap(r);
	return true;
}

/* Room for `size` bytes in one piece, or NULL. */
static struct ring_record *reserve(struct query_ring *r, size_t size)
{
	size_t at = r->head & MASK, to_end = QUERY_RING_BYTES - at, fill = size <= to_end ? 0 : to_end;
	if (fill + size > QUERY_RING_BYTES - (r->head - r->tail_seen)) {
		r->tail_seen = atomic_load_explicit(&r->tail, memory_order_acquire);
		if (fill + size > QUERY_RING_BYTES - (r->head - r->tail_seen))
			return NULL;
	}
	if (fill) {
		struct ring_record *nothing = (struct ring_record *)(r->bytes + at);
		nothing->len = (uint16_t)fill;
		nothing->name_len = 0;
		r->head += fill;
		at = 0;
	}
	return (struct ring_record *)(r->bytes + at);
}

void query_ring_put(struct query_ring *r, const struct query_record *q)
{
	size_t addr_len = q->client.family == AF_INET ? 4 : q->client.family == AF_INET6 ? 16 : 0;
	size_t size = (sizeof(struct ring_record) + addr_len + q->qname->len + STEP - 1) & ~(size_t)(STEP - 1);
	struct ring_record *k = reserve(r, size);
	if (!k) {
		atomic_store_explicit(&r->lost, atomic_load_explicit(&r->lost, memory_order_relaxed) + 1, memory_order_relaxed);
		return;
	}
	*k = (struct ring_record){ .len = (uint16_t)size, .name_len = q->qname->len, .family = q->client.family, .took_us = q->took_us, .weight = q->weight,
		.config_serial = q->config_serial, .wall_ms = q->wall_ms, .qtype = q->qtype, .filter_rule = q->filter_rule, .steer_rule = q->steer_rule, .rcode = q->rcode,
		.outcome = q->outcome };
	uint8_t *more = (uint8_t *)(k + 1);
	memcpy(more, q->client.b, addr_len);
	memcpy(more + addr_len, q->qname->wire, q->qname->len);
	r->head += size;
	atomic_store_explicit(&r->head_shared, r->head, memory_order_release);
}

/* --- the drain's side --- */

static void hand_over(const struct ring_record *k, void (*cb)(void *ctx, const struct query_seen *q), void *ctx)
{
	const uint8_t *more = (const uint8_t *)(k + 1);
	size_t addr_len = k->family == AF_INET ? 4 : k->family == AF_INET6 ? 16 : 0;
	struct query_seen q = { .wall_ms = k->wall_ms, .took_us = k->took_us, .weight = k->weight, .config_serial = k->config_serial, .qtype = k->qtype,
		.filter_rule = k->filter_rule, .steer_rule = k->steer_rule, .rcode = k->rcode, .outcome = k->outcome, .name_len = k->name_len, .name = more + addr_len };
	q.client.family = k->family;
	memcpy(q.client.b, more, addr_len);
	cb(ctx, &q);
}

size_t query_ring_drain(struct query_ring *r, void (*cb)(void *ctx, const struct query_seen *q), void *ctx)
{
	uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed), from = tail;
	uint64_t head = atomic_load_explicit(&r->head_shared, memory_order_acquire);
	while (tail != head) {
		const struct ring_record *k = (const struct ring_record *)(r->bytes + (tail & MASK));
		if (k->name_len)
			hand_over(k, cb, ctx);
		tail += k->len;
		atomic_store_explicit(&r->tail, tail, memory_order_release);
	}
	return tail - from;
}

uint64_t query_ring_lost(const struct query_ring *r)
{
	return atomic_load_explicit(&r->lost, memory_order_relaxed);
}

void query_ring_take_all(struct query_ring *r, bool takes_all)
{
	atomic_store_explicit(&r->takes_all, takes_all, memory_order_relaxed);
}
