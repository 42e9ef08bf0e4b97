/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Linking and unlinking entries; see table.h. Workers and the tidying thread. */
#include "cache/table.h"

#include <string.h>

enum { LINK_TRIES = 16 };

bool entry_same_key(const struct entry *a, const struct entry *b)
{
	const struct name_ref *n = a->a.chain[0], *m = b->a.chain[0];

	return a->hash == b->hash && a->key == b->key && n->len == m->len && !memcmp(n->wire, m->wire, n->len);
}

bool table_swap(struct cache *c, _Atomic uint64_t *slot, uint64_t old, uint64_t next)
{
	struct chunk *chunk = (uint32_t)old ? slot_entry(c, old)->chunk : NULL;

	if (!atomic_compare_exchange_strong(slot, &old, next))
		return false;
	if (chunk)
		atomic_fetch_sub_explicit(&chunk->live, 1, memory_order_relaxed);
	return true;
}

/* An empty slot, else one that is over, else a stale one; BUCKET_SLOTS: all are live. */
static unsigned find_expired(struct cache *c, struct bucket *b, unsigned start, uint32_t now_s)
{
	unsigned stale = BUCKET_SLOTS;

	for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
		unsigned at = (start + i) % BUCKET_SLOTS;
		uint64_t v = atomic_load(&b->slot[at]);

		if (!v || entry_is_over(c, slot_entry(c, v), now_s))
			return at;
		if (!entry_is_live(slot_entry(c, v), now_s))
			stale = at;
	}
	return stale;
}

/* A full bucket without an equal key: the expired give way first, then what was not asked for since the last time; the uses of those passed over
 * are spent. Where it starts depends on the newcomer, so that no slot is favoured. */
static unsigned choose_victim(struct cache *c, struct bucket *b, const struct entry *e, uint32_t now_s)
{
	unsigned start = (unsigned)(e->hash >> 8) % BUCKET_SLOTS, expired = find_expired(c, b, start, now_s);

	if (expired < BUCKET_SLOTS)
		return expired;
	for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
		unsigned at = (start + i) % BUCKET_SLOTS;
		uint64_t v = atomic_load(&b->slot[at]);

		if (!v || !atomic_load_explicit(&slot_entry(c, v)->used, memory_order_relaxed))
			return at;
		atomic_store_explicit(&slot_entry(c, v)->used, 0, memory_order_relaxed);
	}
	return start;
}

/* Two workers that put one key at the same moment may each have linked theirs; the one in the lower slot stays. */
static void remove_twins(struct cache *c, struct bucket *b, struct entry *e, unsigned mine)
{
	uint64_t own = slot_make(c, e);

	for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
		uint64_t v = atomic_load(&b->slot[i]);

		if (i == mine || !slot_may_be(v, e->hash) || !entry_same_key(slot_entry(c, v), e))
			continue;
		if (i > mine) {
			table_swap(c, &b->slot[i], v, 0);
		} else {
			table_swap(c, &b->slot[mine], own, 0);
			return;
		}
	}
}

static unsigned choose_slot(struct cache *c, struct bucket *b, const struct entry *e, uint32_t now_s)
{
	unsigned empty = BUCKET_SLOTS;

	for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
		uint64_t v = atomic_load(&b->slot[i]);

		if (slot_may_be(v, e->hash) && entry_same_key(slot_entry(c, v), e))
			return i;
		if (!v && empty == BUCKET_SLOTS)
			empty = i;
	}
	return empty < BUCKET_SLOTS ? empty : choose_victim(c, b, e, now_s);
}

bool table_link(struct cache *c, struct entry *e, uint32_t now_s)
{
	struct bucket *b = bucket_of(c, e->hash);

	/* Counted before it can be found, so that `live` never falls below the truth. */
	atomic_fetch_add_explicit(&e->chunk->live, 1, memory_order_relaxed);
	for (unsigned tries = 0; tries < LINK_TRIES; tries++) {
		unsigned at = choose_slot(c, b, e, now_s);
		uint64_t old = atomic_load(&b->slot[at]);
		bool is_eviction = false;

		if (old) {
			const struct entry *other = slot_entry(c, old);
			is_eviction = entry_is_live(other, now_s) && !entry_same_key(other, e);
		}
		if (!table_swap(c, &b->slot[at], old, slot_make(c, e)))
			continue;
		if (is_eviction)
			counter_add(&cache_counters(c)->evictions);
		remove_twins(c, b, e, at);
		return true;
	}
	atomic_fetch_sub_explicit(&e->chunk->live, 1, memory_order_relaxed);
	return false;
}
