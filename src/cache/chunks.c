/* SPDX-License-Identifier: GPL-3.0-or-later */
/* See chunks.h. The free chunks are a stack whose head carries a change count, so that a pop cannot mistake a head that went and came back. */
#include "cache/chunks.h"

#include <assert.h>
#include "base/rcu.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define poison(p, len) ASAN_POISON_MEMORY_REGION((p), (len))
#define unpoison(p, len) ASAN_UNPOISON_MEMORY_REGION((p), (len))
#else
#define poison(p, len) ((void)(p), (void)(len))
#define unpoison(p, len) ((void)(p), (void)(len))
#endif

static void free_push(struct chunks *m, uint32_t i)
{
	uint64_t head = atomic_load_explicit(&m->free_head, memory_order_relaxed), next;

	atomic_store_explicit(&m->list[i].state, CHUNK_FREE, memory_order_relaxed);
	do {
		atomic_store_explicit(&m->list[i].next_free, (uint32_t)head, memory_order_relaxed);
		next = ((head >> 32) + 1) << 32 | (i + 1);
	} while (!atomic_compare_exchange_weak_explicit(&m->free_head, &head, next, memory_order_release, memory_order_relaxed));
	atomic_fetch_add_explicit(&m->free_count, 1, memory_order_relaxed);
}

/* Returns m->count when none is free. */
static uint32_t free_pop(struct chunks *m)
{
	uint64_t head = atomic_load_explicit(&m->free_head, memory_order_acquire), next;
	uint32_t i;

	do {
		i = (uint32_t)head;
		if (!i)
			return m->count;
		next = ((head >> 32) + 1) << 32 | atomic_load_explicit(&m->list[i - 1].next_free, memory_order_relaxed);
	} while (!atomic_compare_exchange_weak_explicit(&m->free_head, &head, next, memory_order_acq_rel, memory_order_acquire));
	atomic_fetch_sub_explicit(&m->free_count, 1, memory_order_relaxed);
	return i - 1;
}

static void open_fresh(struct chunk *k)
{
	atomic_store_explicit(&k->fill, 0, memory_order_relaxed);
	atomic_store_explicit(&k->state, CHUNK_OPEN, memory_order_relaxed);
}

void chunks_init(struct chunks *m, struct chunk *list, uint8_t *base, uint32_t count, uint32_t size)
{
	*m = (struct chunks){ .list = list, .base = base, .count = count, .size = size };
	poison(base, (size_t)count * size);
	for (uint32_t i = count; i-- > 0;) {
		list[i].owner = m;
		free_push(m, i);
	}
	atomic_store(&m->open, free_pop(m));
	open_fresh(&list[atomic_load(&m->open)]);
}

void chunks_fini(struct chunks *m)
{
	unpoison(m->base, (size_t)m->count * m->size);
}

/* Puts a fresh chunk in the place of the full one. False: none is free. */
static int roll(struct chunks *m, uint32_t full)
{
	uint32_t fresh = free_pop(m);
	struct chunk *k = &m->list[full];

	if (fresh == m->count)
		return 0;
	open_fresh(&m->list[fresh]);
	if (!atomic_compare_exchange_strong(&m->open, &full, fresh)) {
		free_push(m, fresh);
		return 1;
	}
	/* Read after the exchange: the grace period numbered one above it also waits for workers that still take bytes from this chunk. */
	atomic_store_explicit(&k->sealed_wait, atomic_load(&m->waits), memory_order_relaxed);
	atomic_store_explicit(&k->sealed_seq, atomic_fetch_add(&m->seals, 1), memory_order_relaxed);
	atomic_store_explicit(&k->state, CHUNK_FULL, memory_order_release);
	return 1;
}

void *chunks_reserve(struct chunks *m, uint32_t len, struct chunk **ret_chunk)
{
	assert(len > 0 && len <= m->size && len % CHUNK_ALIGN == 0);
	for (;;) {
		uint32_t i = atomic_load(&m->open);
		struct chunk *k = &m->list[i];
		uint32_t fill = atomic_load_explicit(&k->fill, memory_order_relaxed);

		if (fill + len > m->size) {
			if (!roll(m, i))
				return NULL;
			continue;
		}
		if (!atomic_compare_exchange_weak_explicit(&k->fill, &fill, fill + len, memory_order_acq_rel, memory_order_relaxed))
			continue;
		*ret_chunk = k;
		unpoison(chunk_bytes(m, k) + fill, len);
		return chunk_bytes(m, k) + fill;
	}
}

struct chunk *chunks_oldest(struct chunks *m)
{
	uint64_t waits = atomic_load_explicit(&m->waits, memory_order_relaxed), best_seq = UINT64_MAX;
	struct chunk *best = NULL;

	for (uint32_t i = 0; i < m->count; i++) {
		struct chunk *k = &m->list[i];
		uint64_t seq;

		if (atomic_load_explicit(&k->state, memory_order_acquire) != CHUNK_FULL)
			continue;
		if (atomic_load_explicit(&k->sealed_wait, memory_order_relaxed) >= waits)
			continue;
		/* Emptying it would cost its answers and free nothing yet. */
		if (atomic_load_explicit(&k->holds, memory_order_relaxed))
			continue;
		if (!atomic_load_explicit(&k->live, memory_order_relaxed))
			return k;
		seq = atomic_load_explicit(&k->sealed_seq, memory_order_relaxed);
		if (seq < best_seq) {
			best_seq = seq;
			best = k;
		}
	}
	return best;
}

void chunks_set_emptied(struct chunks *m, struct chunk *k)
{
	atomic_store_explicit(&k->state, CHUNK_EMPTIED, memory_order_relaxed);
	m->emptied++;
}

void chunks_reclaim(struct chunks *m)
{
	atomic_fetch_add(&m->waits, 1);
	rcu_wait();
	for (uint32_t i = 0; i < m->count && m->emptied; i++) {
		struct chunk *k = &m->list[i];

		if (atomic_load_explicit(&k->state, memory_order_relaxed) != CHUNK_EMPTIED)
			continue;
		/* After the grace period nobody finds an answer of it, so only a holder can still add holds, and then this is not zero. */
		if (atomic_load_explicit(&k->holds, memory_order_acquire))
			continue;
		poison(chunk_bytes(m, k), m->size);
		m->emptied--;
		free_push(m, i);
	}
}
