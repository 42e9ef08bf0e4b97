/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Inside the cache: an answer as it lies in memory, and the buckets that refer to it.
 *
 * A bucket is one cache line of eight slots. A slot is 0 (empty) or the lower half of the key's hash above the place of the entry (in units of
 * CHUNK_ALIGN from the first chunk, plus one), so a miss and most probes touch nothing but the bucket. The bucket comes from the upper half of
 * the hash. Entries are immutable once linked, but for `used` and `is_refreshing`. Who takes a reference out of a slot by compare-and-swap lowers `live` of the
 * entry's chunk; nobody frees an entry. */
#pragma once
#include <stdatomic.h>
#include "base/hash.h"
#include "cache/cache.h"
#include "cache/chunks.h"
#include "wire/patch.h"

enum { BUCKET_SLOTS = 8, CACHE_COUNTERS = 64 };

struct entry {
	uint64_t hash;
	struct chunk *chunk;
	uint64_t key;                  /* key_word */
	uint16_t units;                /* its length in CHUNK_ALIGN */
	_Atomic uint8_t used;          /* times found since it was put or last moved, to PREFETCH_USES: written so often and no more, as readers share the line */
	_Atomic bool is_refreshing;    /* cache_wants_prefetch has said yes */
	uint32_t expired_before_s;     /* it had expired so long when it was loaded: a clock that began anew cannot tell */
	struct cache_answer a;
	uint8_t rest[];        /* chain pointers, ttl offsets, names, addresses, message */
};

struct bucket {
	_Atomic uint64_t slot[BUCKET_SLOTS];
};

/* Written by one thread each, but for the last, which the threads past CACHE_COUNTERS share. */
struct counters {
	_Atomic uint64_t hits, misses, puts, evictions, stale, prefetches, too_big, no_room;
} __attribute__((aligned(64)));

struct cache {
	uint64_t bytes_max, table_bytes, map_len;
	uint64_t bucket_count;
	struct bucket *buckets;
	_Atomic uint32_t ttl_min_s, ttl_max_s, negative_ttl_max_s, stale_s; /* cache_limits */
	struct chunks chunks;
	struct counters counters[CACHE_COUNTERS];
};

/* All of the key but the name, in one word. */
static inline uint64_t key_word(const struct cache_key *key)
{
	return key->qtype | (uint64_t)key->qclass << 16 | (uint64_t)key->group << 32 | (uint64_t)key->variant << 48;
}

/* name_hash is seeded; the finaliser of MurmurHash3 spreads the rest of the key over both halves. */
static inline uint64_t key_hash(const struct cache_key *key)
{
	uint64_t h = key->name_hash ^ key_word(key) * 0x9e3779b97f4a7c15;

	h = (h ^ h >> 33) * 0xff51afd7ed558ccd;
	h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53;
	return h ^ h >> 33;
}

static inline uint16_t entry_group(const struct entry *e)
{
	return (uint16_t)(e->key >> 32);
}

static inline uint8_t entry_variant(const struct entry *e)
{
	return (uint8_t)(e->key >> 48);
}

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

static inline uint32_t entry_len(const struct entry *e)
{
	return (uint32_t)e->units * CHUNK_ALIGN;
}

static inline bool entry_is_live(const struct entry *e, uint32_t now_s)
{
	return e->a.expires_s > now_s;
}

/* Expired, by less than stale_s. */
static inline bool entry_is_stale(const struct entry *e, uint32_t now_s, uint32_t stale_s)
{
	return !entry_is_live(e, now_s) && (uint64_t)(now_s - e->a.expires_s) + e->expired_before_s < stale_s;
}

/* Neither: nobody will be given it. */
static inline bool entry_is_over(const struct cache *c, const struct entry *e, uint32_t now_s)
{
	return !entry_is_live(e, now_s) && !entry_is_stale(e, now_s, atomic_load_explicit(&c->stale_s, memory_order_relaxed));
}

/* Name, type, class, group and variant. */
bool entry_same_key(const struct entry *a, const struct entry *b);
/* Makes the entry findable in the place of an equal one, of nothing, or of the least useful of its bucket. False: it could not. */
bool table_link(struct cache *c, struct entry *e, uint32_t now_s);
/* Takes `old` out of the slot, for `next` (0: nothing). False: it was no longer there. */
bool table_swap(struct cache *c, _Atomic uint64_t *slot, uint64_t old, uint64_t next);
/* Whether an answer may be kept at all, whatever its TTLs. */
bool answer_may_be_kept(const struct cache_key *key, const struct wire_answer *w, size_t len);
bool answer_is_negative(const struct wire_answer *w);
/* The bounds that the limits of now set to its TTLs; soa_max_s is the caller's. */
struct wire_ttl_bounds answer_bounds(struct cache *c, const struct cache_key *key, const struct wire_answer *w);
/* Makes an entry of an answer that may be kept: it began to live at now_s and does so for life_s; 0: it has been over for expired_before_s. */
struct keep { uint32_t now_s, life_s, expired_before_s; struct wire_ttl_bounds ttl; };
enum kept { KEPT, KEPT_TOO_BIG, KEPT_NO_ROOM };
enum kept cache_keep(struct cache *c, const struct cache_key *key, const uint8_t *msg, const struct wire_answer *w, const struct keep *k);
/* How many chunks are kept free ahead of the puts. */
uint32_t cache_free_aim(const struct cache *c);

/* The calling thread's; only that thread adds to them. */
extern _Thread_local unsigned cache_thread_slot __attribute__((tls_model("initial-exec"))); /* 1-based; 0: not yet given */
unsigned cache_take_thread_slot(void);
static inline struct counters *cache_counters(struct cache *c)
{
	unsigned slot = cache_thread_slot;

	return &c->counters[(slot ? slot : cache_take_thread_slot()) - 1];
}

static inline void counter_add(_Atomic uint64_t *counter)
{
	if (cache_thread_slot == CACHE_COUNTERS)
		atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
	else
		atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_relaxed);
}
