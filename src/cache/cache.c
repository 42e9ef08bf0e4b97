/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Making the cache, finding and holding answers; see cache.h. The one mapping holds, in this order, struct cache, the chunk list, the buckets and the chunks; it is
 * not reserved, so memory that was never used costs nothing. */
#include "cache/cache.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/list.h"
#include "cache/table.h"

enum { CHUNK_MIN = 1 << 16, CHUNK_MAX = 1 << 22, CHUNKS_AIMED = 1024, TABLE_SHARE = 16 };
/* A slot's lower half counts in CHUNK_ALIGN. */
#define BYTES_LIMIT ((uint64_t)CHUNK_ALIGN << 32)

static _Atomic unsigned threads_seen;
_Thread_local unsigned cache_thread_slot __attribute__((tls_model("initial-exec")));

unsigned cache_take_thread_slot(void)
{
	unsigned n = atomic_fetch_add(&threads_seen, 1);

	return cache_thread_slot = (n < CACHE_COUNTERS ? n : CACHE_COUNTERS - 1) + 1;
}

static uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

int cache_new(struct cache **ret, uint64_t bytes_max)
{
	uint64_t chunk_size = CHUNK_MIN, list_at, buckets_at, chunks_at, bucket_count, chunk_count;
	struct cache *c;

	if (bytes_max < CACHE_BYTES_MIN)
		return -EINVAL;
	if (bytes_max > BYTES_LIMIT)
		bytes_max = BYTES_LIMIT;
	while (chunk_size < CHUNK_MAX && chunk_size * CHUNKS_AIMED * 2 <= bytes_max)
		chunk_size *= 2;
	bucket_count = bytes_max / TABLE_SHARE / sizeof(struct bucket);
	list_at = round_up(sizeof(struct cache), 64);
	buckets_at = list_at + bytes_max / chunk_size * sizeof(struct chunk);
	chunks_at = round_up(buckets_at + bucket_count * sizeof(struct bucket), 4096);
	chunk_count = (bytes_max - chunks_at) / chunk_size;
	c = mmap(NULL, bytes_max, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (c == MAP_FAILED)
		return -ENOMEM;
	c->bytes_max = c->map_len = bytes_max;
	c->table_bytes = chunks_at;
	c->bucket_count = bucket_count;
	cache_set_limits(c, &(struct cache_limits){ .ttl_max_s = CACHE_TTL_MAX_S, .negative_ttl_max_s = CACHE_NEG_TTL_MAX_S });
	c->buckets = (struct bucket *)((uint8_t *)c + buckets_at);
	chunks_init(&c->chunks, (struct chunk *)((uint8_t *)c + list_at), (uint8_t *)c + chunks_at, (uint32_t)chunk_count, (uint32_t)chunk_size);
	*ret = c;
	return 0;
}

void cache_free(struct cache *c)
{
	if (!c)
		return;
	chunks_fini(&c->chunks);
	munmap(c, c->map_len);
}

static inline bool entry_is(const struct entry *e, const struct cache_key *key, uint64_t hash, uint64_t word)
{
	const struct name_ref *n = e->a.chain[0];

	return e->hash == hash && e->key == word && n->len == key->qname->len && !memcmp(n->wire, key->qname->wire, n->len);
}

/* The name, and mostly the message, lie in the lines behind the first; fetched together they cost one wait instead of three. */
static inline void prefetch_rest(const struct entry *e)
{
	__builtin_prefetch((const uint8_t *)e + 64);
	__builtin_prefetch((const uint8_t *)e + 128);
	__builtin_prefetch((const uint8_t *)e + 192);
}

void cache_prefetch(const struct cache *c, const struct cache_key *key)
{
	__builtin_prefetch(bucket_of(c, key_hash(key)));
}

void cache_prefetch_entry(const struct cache *c, const struct cache_key *key)
{
	uint64_t hash = key_hash(key);
	struct bucket *b = bucket_of(c, hash);

	for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
		uint64_t v = atomic_load_explicit(&b->slot[i], memory_order_relaxed);

		if (slot_may_be(v, hash)) {
			__builtin_prefetch(slot_entry(c, v));
			prefetch_rest(slot_entry(c, v));
		}
	}
}

/* The entry of this key, live or not; NULL: none. */
static inline struct entry *find(struct cache *c, const struct cache_key *key)
{
	uint64_t hash = key_hash(key), word = key_word(key);
	struct bucket *b = bucket_of(c, hash);

	for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
		uint64_t v = atomic_load_explicit(&b->slot[i], memory_order_acquire);
		struct entry *e;

		if (!slot_may_be(v, hash))
			continue;
		e = slot_entry(c, v);
		prefetch_rest(e);
		if (entry_is(e, key, hash, word))
			return e;
	}
	return NULL;
}

/* No more often than anybody asks about it: the line stays shared between the workers. */
static inline void mark_used(struct entry *e)
{
	uint8_t used = atomic_load_explicit(&e->used, memory_order_relaxed);

	if (used < PREFETCH_USES)
		atomic_store_explicit(&e->used, used + 1, memory_order_relaxed);
}

const struct cache_answer *cache_find_quiet(struct cache *c, const struct cache_key *key, uint32_t now_s)
{
	struct entry *e = find(c, key);

	return e && entry_is_live(e, now_s) ? &e->a : NULL;
}

const struct cache_answer *cache_find(struct cache *c, const struct cache_key *key, uint32_t now_s)
{
	struct entry *e = find(c, key);
	struct counters *n = cache_counters(c);

	if (!e || !entry_is_live(e, now_s)) {
		counter_add(&n->misses);
		return NULL;
	}
	mark_used(e);
	counter_add(&n->hits);
	return &e->a;
}

const struct cache_answer *cache_find_stale(struct cache *c, const struct cache_key *key, uint32_t now_s, uint32_t stale_s)
{
	struct entry *e = find(c, key);

	if (!e || !entry_is_stale(e, now_s, stale_s))
		return NULL;
	mark_used(e);
	counter_add(&cache_counters(c)->stale);
	return &e->a;
}

static struct entry *entry_of(const struct cache_answer *a)
{
	return FROM_MEMBER(a, struct entry, a);
}

bool cache_wants_prefetch(const struct cache_answer *a, uint32_t now_s)
{
	uint32_t life_s = a->expires_s - a->stored_s, left_s = a->expires_s - now_s;
	struct entry *e = entry_of(a);

	if (a->expires_s <= now_s || life_s < PREFETCH_LIFE_MIN_S || (uint64_t)left_s * PREFETCH_SHARE > life_s)
		return false;
	if (atomic_load_explicit(&e->used, memory_order_relaxed) < PREFETCH_USES)
		return false;
	/* Read first, so that the many hits after the one that wants it write nothing. */
	if (atomic_load_explicit(&e->is_refreshing, memory_order_relaxed) || atomic_exchange_explicit(&e->is_refreshing, true, memory_order_relaxed))
		return false;
	counter_add(&cache_counters(FROM_MEMBER(e->chunk->owner, struct cache, chunks))->prefetches);
	return true;
}

const struct cache_answer *cache_hold(const struct cache_answer *a)
{
	atomic_fetch_add_explicit(&entry_of(a)->chunk->holds, 1, memory_order_relaxed);
	return a;
}

void cache_release(const struct cache_answer *a)
{
	uint32_t before = atomic_fetch_sub_explicit(&entry_of(a)->chunk->holds, 1, memory_order_release);

	assert(before > 0);
	(void)before;
}

void cache_stat(const struct cache *c, struct cache_stat *ret)
{
	struct cache_stat s = { .bytes_max = c->bytes_max };
	uint32_t free_count = atomic_load_explicit(&c->chunks.free_count, memory_order_relaxed);

	for (unsigned i = 0; i < CACHE_COUNTERS; i++) {
		const struct counters *n = &c->counters[i];
		s.hits += atomic_load_explicit(&n->hits, memory_order_relaxed);
		s.misses += atomic_load_explicit(&n->misses, memory_order_relaxed);
		s.puts += atomic_load_explicit(&n->puts, memory_order_relaxed);
		s.evictions += atomic_load_explicit(&n->evictions, memory_order_relaxed);
		s.stale += atomic_load_explicit(&n->stale, memory_order_relaxed);
		s.prefetches += atomic_load_explicit(&n->prefetches, memory_order_relaxed);
		s.too_big += atomic_load_explicit(&n->too_big, memory_order_relaxed);
		s.no_room += atomic_load_explicit(&n->no_room, memory_order_relaxed);
	}
	for (uint32_t i = 0; i < c->chunks.count; i++)
		s.entries += atomic_load_explicit(&c->chunks.list[i].live, memory_order_relaxed);
	if (free_count < c->chunks.count)
		s.bytes = (uint64_t)(c->chunks.count - free_count) * c->chunks.size;
	s.bytes += c->table_bytes;
	*ret = s;
}
