/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Making room. One thread, never a worker.
 *
 * Emptying a chunk moves what was found since it was put (at most half the chunk, so that room is always won) to the open chunk, with its uses
 * spent, and drops the rest: first in, first out with a second chance, which is CLOCK over a log. Live answers go first; stale ones get what is left
 * of the half. */
#include "cache/cache.h"

#include <string.h>
#include "base/rcu.h"
#include "cache/table.h"

enum { FREE_SHARE = 8 };

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
	struct entry *copy = chunks_reserve(&c->chunks, entry_len(e), &chunk);

	if (!copy)
		return false;
	copy->hash = e->hash;
	copy->chunk = chunk;
	copy->units = e->units;
	copy->key = e->key;
	copy->expired_before_s = e->expired_before_s;
	atomic_store_explicit(&copy->used, 0, memory_order_relaxed);
	atomic_store_explicit(&copy->is_refreshing, atomic_load_explicit(&e->is_refreshing, memory_order_relaxed), memory_order_relaxed);
	copy->a = e->a;
	memcpy(copy->rest, e->rest, entry_len(e) - offsetof(struct entry, rest));
	rebase(copy, e);
	atomic_fetch_add_explicit(&chunk->live, 1, memory_order_relaxed);
	if (table_swap(c, slot, slot_make(c, e), slot_make(c, copy)))
		return true;
	atomic_fetch_sub_explicit(&chunk->live, 1, memory_order_relaxed);
	return false;
}

static uint32_t free_chunks(const struct cache *c)
{
	return atomic_load_explicit(&c->chunks.free_count, memory_order_relaxed);
}

uint32_t cache_free_aim(const struct cache *c)
{
	return c->chunks.count / FREE_SHARE > 1 ? c->chunks.count / FREE_SHARE : 2;
}

/* Once over the chunk's answers. The first time the stale ones are left where they are; the second time nothing is. Returns how many were left. */
static unsigned sweep(struct cache *c, struct chunk *k, uint32_t *moved, bool is_last, uint32_t now_s)
{
	uint32_t fill = atomic_load_explicit(&k->fill, memory_order_acquire), len;
	unsigned left = 0;

	for (uint32_t at = 0; at < fill; at += len) {
		struct entry *e = (struct entry *)(chunk_bytes(&c->chunks, k) + at);
		_Atomic uint64_t *slot = find_slot(c, e);
		bool is_live = entry_is_live(e, now_s), is_wanted;

		len = entry_len(e);
		if (!slot)
			continue;
		if (!is_live && !is_last && !entry_is_over(c, e, now_s)) {
			left++;
			continue;
		}
		is_wanted = atomic_load_explicit(&e->used, memory_order_relaxed) && !entry_is_over(c, e, now_s) && *moved + len <= c->chunks.size / 2 &&
			free_chunks(c) > cache_free_aim(c) / 4;
		if (is_wanted && move(c, e, slot))
			*moved += len;
		else if (table_swap(c, slot, slot_make(c, e), 0) && is_live)
			counter_add(&cache_counters(c)->evictions);
	}
	return left;
}

static void empty_chunk(struct cache *c, struct chunk *k, uint32_t now_s)
{
	uint32_t moved = 0;

	if (sweep(c, k, &moved, false, now_s))
		sweep(c, k, &moved, true, now_s);
	chunks_set_emptied(&c->chunks, k);
}

/* Twice at most: what was sealed after the last grace period may be emptied only after the first wait. */
void cache_tidy(struct cache *c, uint32_t now_s)
{
	struct chunks *m = &c->chunks;
	uint32_t aim = cache_free_aim(c);
	struct chunk *k;

	for (unsigned turn = 0; turn < 2 && (free_chunks(c) < aim || (m->emptied && !turn)); turn++) {
		while (free_chunks(c) + m->emptied < aim && (k = chunks_oldest(m)) != NULL)
			empty_chunk(c, k, now_s);
		chunks_reclaim(m);
	}
}
