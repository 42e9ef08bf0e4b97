/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Inside the cache: an answer as it lies in memory, and the buckets that refer to it.
 *
 * A bucket is one cache line of eight slots. A slot is 0 (empty) or the lower half of the key's hash above the place of the entry (in units of
 * CHUNK_ALIGN from the first chunk, plus one), so a miss and most probes touch nothing but the bucket. The bucket comes from the upper half of
 * the hash. Entries are immutable once linked, but for `used`. Who takes a reference out of a slot by compare-and-swap lowers `live` of the
 * entry's chunk; nobody frees an entry. */
#pragma once
#include <stdatomic.h>
#include "base/hash.h"
#include "cache/cache.h"
#include "cache/chunks.h"

enum { BUCKET_SLOTS = 8, CACHE_COUNTERS = 64 };

struct entry {
	uint64_t hash;
	struct chunk *chunk;
	uint16_t qtype, qclass, group, variant;
	uint32_t size;
	_Atomic uint32_t used; /* found since it was put or last moved; in a word that no reader compares */
	struct cache_answer a;
	uint8_t rest[];        /* chain pointers, ttl offsets, names, addresses, message */
};

struct bucket {
	_Atomic uint64_t slot[BUCKET_SLOTS];
};

/* Written by one thread each, but for the last, which the threads past CACHE_COUNTERS share. */
struct counters {
	_Atomic uint64_t hits, misses, puts, evictions, too_big, no_room;
} __attribute__((aligned(64)));

struct cache {
	uint64_t bytes_max, table_bytes, map_len;
	uint64_t bucket_count;
	struct bucket *buckets;
	struct chunks chunks;
	struct counters counters[CACHE_COUNTERS];
};

static inline struct bucket *bucket_of(const struct cache *c, uint64_t hash)
{
	return &c->buckets[hash_range(hash, c->bucket_count)];
}

static inline struct entry *slot_entry(const struct cache *c, uint64_t slot)
{
	return (struct entry *)(c->chunks.base + ((uint64_t)(uint32_t)slot - 1) * CHUNK_ALIGN);
}

static inline uint64_t slot_make(const struct cache *c, const struct entry *e)
{
	return e->hash << 32 | (uint32_t)(((const uint8_t *)e - c->chunks.base) / CHUNK_ALIGN + 1);
}

/* False for an empty slot. The entry itself must still be compared. */
static inline bool slot_may_be(uint64_t slot, uint64_t hash)
{
	return (uint32_t)slot && slot >> 32 == (uint32_t)hash;
}

/* Name, type, class, group and variant. */
bool entry_same_key(const struct entry *a, const struct entry *b);
/* Makes the entry findable in the place of an equal one, of nothing, or of the least useful of its bucket. False: it could not. */
bool table_link(struct cache *c, struct entry *e, uint32_t now_s);
/* Takes `old` out of the slot, for `next` (0: nothing). False: it was no longer there. */
bool table_swap(struct cache *c, _Atomic uint64_t *slot, uint64_t old, uint64_t next);
/* The calling thread's; only that thread adds to them. */
struct counters *cache_counters(struct cache *c);
void counter_add(_Atomic uint64_t *counter);
