/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Dmitry Vyukov's bounded queue, with one consumer. A slot's turn says whose move it is: turn == position means free for the
 * producer that claims this position, turn == position + 1 means filled for the consumer. Producers claim positions on `tail`
 * with a compare-and-swap; only the consumer touches `head`. A producer stopped between claim and fill delays the consumer,
 * never a producer. */
#include "base/ring.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

struct slot {
	_Atomic size_t turn;
	void *p;
};

struct ring {
	_Alignas(64) _Atomic size_t tail;
	_Alignas(64) size_t head;
	_Alignas(64) size_t mask;
	struct slot *slots;
};

struct ring *ring_new(size_t slots)
{
	struct ring *r;
	size_t n = 2;

	if (slots > SIZE_MAX / 4 / sizeof(struct slot))
		return NULL;
	while (n < slots)
		n *= 2;
	r = aligned_alloc(64, sizeof(*r));
	if (!r)
		return NULL;
	r->slots = calloc(n, sizeof(*r->slots));
	if (!r->slots) {
		free(r);
		return NULL;
	}
	for (size_t i = 0; i < n; i++)
		atomic_init(&r->slots[i].turn, i);
	atomic_init(&r->tail, 0);
	r->head = 0;
	r->mask = n - 1;
	return r;
}

void ring_free(struct ring *r)
{
	if (!r)
		return;
	free(r->slots);
	free(r);
}

bool ring_push(struct ring *r, void *p)
{
	size_t at = atomic_load_explicit(&r->tail, memory_order_relaxed);

	for (;;) {
		struct slot *s = &r->slots[at & r->mask];
		size_t turn = atomic_load_explicit(&s->turn, memory_order_acquire);
		ptrdiff_t lead = (ptrdiff_t)(turn - at);

		if (lead < 0)
			return false;
		if (lead > 0) {
			at = atomic_load_explicit(&r->tail, memory_order_relaxed);
			continue;
		}
		if (atomic_compare_exchange_weak_explicit(&r->tail, &at, at + 1, memory_order_relaxed, memory_order_relaxed)) {
			s->p = p;
			atomic_store_explicit(&s->turn, at + 1, memory_order_release);
			return true;
		}
	}
}

void *ring_pop(struct ring *r)
{
	struct slot *s = &r->slots[r->head & r->mask];
	void *p;

	if (atomic_load_explicit(&s->turn, memory_order_acquire) != r->head + 1)
		return NULL;
	p = s->p;
	atomic_store_explicit(&s->turn, r->head + r->mask + 1, memory_order_release);
	r->head++;
	return p;
}
