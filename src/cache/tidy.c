/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What goes over the whole cache: making room, walking, flushing. Never on a worker.
 *
 * Emptying a chunk moves what was found since it was put (at most half the chunk, so that room is always won) to the open chunk, with its used
 * bit spent, and drops the rest: first in, first out with a second chance, which is CLOCK over a log. */
#include "cache/cache.h"

#include <string.h>
#include "base/rcu.h"
#include "cache/table.h"

enum { FREE_SHARE = 8, WALK_BUCKETS = 64 };

/* The slot that refers to this very entry; NULL: it was replaced or removed. */
static _Atomic uint64_t *find_slot(struct cache *c, const struct entry *e)
{
	struct bucket *b = bucket_of(c, e->hash);
	uint64_t v = slot_make(c, e);

	for (unsigned i = 0; i < BUCKET_SLOTS; i++)
		if (atomic_load_explicit(&b->slot[i], memory_order_relaxed) == v)
			return &b->slot[i];
	return NULL;
}

static void rebase(struct entry *copy, const struct entry *e)
{
	const struct name_ref **chain = (const struct name_ref **)copy->rest;
	const uint8_t *from = (const uint8_t *)e;
	uint8_t *to = (uint8_t *)copy;

	copy->a.chain = chain;
	copy->a.ttl_offset = (const uint16_t *)(to + ((const uint8_t *)e->a.ttl_offset - from));
	copy->a.addrs = (const struct addr *)(to + ((const uint8_t *)e->a.addrs - from));
	copy->a.msg = to + (e->a.msg - from);
	for (unsigned i = 0; i < e->a.chain_len; i++)
		chain[i] = (const struct name_ref *)(to + ((const uint8_t *)e->a.chain[i] - from));
}

/* True: the slot now refers to a copy in the open chunk. False: nothing changed. */
static bool move(struct cache *c, struct entry *e, _Atomic uint64_t *slot)
{
	struct chunk *chunk;
	struct entry *copy = chunks_reserve(&c->chunks, e->size, &chunk);

	if (!copy)
		return false;
	copy->hash = e->hash;
	copy->chunk = chunk;
	copy->size = e->size;
	copy->qtype = e->qtype;
	copy->qclass = e->qclass;
	copy->group = e->group;
	copy->variant = e->variant;
	atomic_store_explicit(&copy->used, 0, memory_order_relaxed);
	copy->a = e->a;
	memcpy(copy->rest, e->rest, e->size - offsetof(struct entry, rest));
	rebase(copy, e);
	atomic_fetch_add_explicit(&chunk->live, 1, memory_order_relaxed);
	if (table_swap(c, slot, slot_make(c, e), slot_make(c, copy)))
		return true;
	atomic_fetch_sub_explicit(&chunk->live, 1, memory_order_relaxed);
	return false;
}

static void empty_chunk(struct cache *c, struct chunk *k, uint32_t free_aim, uint32_t now_s)
{
	uint32_t fill = atomic_load_explicit(&k->fill, memory_order_acquire), moved = 0;
	struct entry *e;

	for (uint32_t at = 0; at < fill; at += e->size) {
		_Atomic uint64_t *slot;
		bool is_wanted;

		e = (struct entry *)(chunk_bytes(&c->chunks, k) + at);
		slot = find_slot(c, e);
		if (!slot)
			continue;
		is_wanted = atomic_load_explicit(&e->used, memory_order_relaxed) && e->a.expires_s > now_s && moved + e->size <= c->chunks.size / 2 &&
			atomic_load_explicit(&c->chunks.free_count, memory_order_relaxed) > free_aim / 4;
		if (is_wanted && move(c, e, slot)) {
			moved += e->size;
			continue;
		}
		if (table_swap(c, slot, slot_make(c, e), 0) && e->a.expires_s > now_s)
			counter_add(&cache_counters(c)->evictions);
	}
	chunks_set_emptied(&c->chunks, k);
}

static uint32_t free_chunks(const struct cache *c)
{
	return atomic_load_explicit(&c->chunks.free_count, memory_order_relaxed);
}

/* Twice at most: what was sealed after the last grace period may be emptied only after the first wait. */
void cache_tidy(struct cache *c, uint32_t now_s)
{
	struct chunks *m = &c->chunks;
	uint32_t aim = m->count / FREE_SHARE > 1 ? m->count / FREE_SHARE : 2;
	struct chunk *k;

	for (unsigned turn = 0; turn < 2 && (free_chunks(c) < aim || (m->emptied && !turn)); turn++) {
		while (free_chunks(c) + m->emptied < aim && (k = chunks_oldest(m)) != NULL)
			empty_chunk(c, k, aim, now_s);
		chunks_reclaim(m);
	}
}

void cache_walk(struct cache *c, uint32_t now_s, void (*cb)(void *ctx, const struct cache_answer *a), void *ctx)
{
	for (uint64_t i = 0; i < c->bucket_count; i++) {
		if (i && i % WALK_BUCKETS == 0)
			rcu_quiesce();
		for (unsigned j = 0; j < BUCKET_SLOTS; j++) {
			uint64_t v = atomic_load_explicit(&c->buckets[i].slot[j], memory_order_acquire);

			if (v && slot_entry(c, v)->a.expires_s > now_s)
				cb(ctx, &slot_entry(c, v)->a);
		}
	}
}

/* Wire names end in the root byte, so equal tails that begin at a label are a subtree. */
static bool is_under(const struct name_ref *n, const struct name *under)
{
	unsigned at = 0;

	while (n->len - at > under->len)
		at += n->wire[at] + 1u;
	return n->len - at == under->len && !memcmp(n->wire + at, under->wire, under->len);
}

unsigned cache_flush(struct cache *c, const struct name *under)
{
	unsigned count = 0;

	for (uint64_t i = 0; i < c->bucket_count; i++) {
		if (i && i % WALK_BUCKETS == 0)
			rcu_quiesce();
		for (unsigned j = 0; j < BUCKET_SLOTS; j++) {
			_Atomic uint64_t *slot = &c->buckets[i].slot[j];
			uint64_t v = atomic_load_explicit(slot, memory_order_acquire);

			if (v && (!under || is_under(slot_entry(c, v)->a.chain[0], under)) && table_swap(c, slot, v, 0))
				count++;
		}
	}
	return count;
}
