/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Finding and keeping answers; see cache.h. The one mapping holds, in this order, struct cache, the chunk list, the buckets and the chunks; it is
 * not reserved, so memory that was never used costs nothing. */
#include "cache/cache.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "cache/table.h"

enum { CHUNK_MIN = 1 << 16, CHUNK_MAX = 1 << 22, CHUNKS_AIMED = 1024, TABLE_SHARE = 16 };
/* A slot's lower half counts in CHUNK_ALIGN. */
#define BYTES_LIMIT ((uint64_t)CHUNK_ALIGN << 32)

static _Atomic unsigned threads_seen;
static _Thread_local unsigned thread_slot; /* 1-based; 0: not yet given */

struct counters *cache_counters(struct cache *c)
{
	if (!thread_slot) {
		unsigned n = atomic_fetch_add(&threads_seen, 1);
		thread_slot = (n < CACHE_COUNTERS ? n : CACHE_COUNTERS - 1) + 1;
	}
	return &c->counters[thread_slot - 1];
}

void counter_add(_Atomic uint64_t *counter)
{
	if (thread_slot == CACHE_COUNTERS)
		atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
	else
		atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_relaxed);
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

/* name_hash is seeded; the finaliser of MurmurHash3 spreads the rest of the key over both halves. */
static uint64_t key_hash(const struct cache_key *key)
{
	uint64_t rest = key->qtype | (uint64_t)key->qclass << 16 | (uint64_t)key->group << 32 | (uint64_t)key->variant << 48;
	uint64_t h = key->name_hash ^ rest * 0x9e3779b97f4a7c15;

	h = (h ^ h >> 33) * 0xff51afd7ed558ccd;
	h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53;
	return h ^ h >> 33;
}

static bool entry_is(const struct entry *e, const struct cache_key *key, uint64_t hash)
{
	const struct name_ref *n = e->a.chain[0];

	return e->hash == hash && e->qtype == key->qtype && e->qclass == key->qclass && e->group == key->group &&
		e->variant == key->variant && n->len == key->qname->len && !memcmp(n->wire, key->qname->wire, n->len);
}

const struct cache_answer *cache_find_quiet(struct cache *c, const struct cache_key *key, uint32_t now_s)
{
	uint64_t hash = key_hash(key);
	struct bucket *b = bucket_of(c, hash);

	for (unsigned i = 0; i < BUCKET_SLOTS; i++) {
		uint64_t v = atomic_load_explicit(&b->slot[i], memory_order_acquire);
		struct entry *e;

		if (!slot_may_be(v, hash))
			continue;
		e = slot_entry(c, v);
		/* The name, and mostly the message, lie in the next lines; fetched together they cost one wait instead of three. */
		__builtin_prefetch((const uint8_t *)e + 64);
		__builtin_prefetch((const uint8_t *)e + 128);
		__builtin_prefetch((const uint8_t *)e + 192);
		if (!entry_is(e, key, hash) || e->a.expires_s <= now_s)
			continue;
		/* Written once, not at every hit: the line stays shared between the workers. */
		if (!atomic_load_explicit(&e->used, memory_order_relaxed))
			atomic_store_explicit(&e->used, 1, memory_order_relaxed);
		return &e->a;
	}
	return NULL;
}

const struct cache_answer *cache_find(struct cache *c, const struct cache_key *key, uint32_t now_s)
{
	const struct cache_answer *a = cache_find_quiet(c, key, now_s);
	struct counters *n = cache_counters(c);

	counter_add(a ? &n->hits : &n->misses);
	return a;
}

/* For how long an answer may be kept; 0: not at all. */
static uint32_t keep_for_s(const struct cache_key *key, const struct wire_answer *w, size_t len)
{
	bool is_negative = w->rcode == RCODE_NXDOMAIN || w->is_nodata || w->is_chain_open;
	uint32_t max = is_negative ? CACHE_NEG_TTL_MAX_S : CACHE_TTL_MAX_S;

	if (w->rcode != RCODE_NOERROR && w->rcode != RCODE_NXDOMAIN)
		return 0;
	if (w->is_cut || w->flags & FLAG_TC || (is_negative && !w->has_soa))
		return 0;
	if (w->authority_end < WIRE_HEADER || w->authority_end > len || !w->chain_len || !name_equal(&w->chain[0], key->qname))
		return 0;
	return w->ttl_min_s < max ? w->ttl_min_s : max;
}

static uint32_t entry_size(const struct wire_answer *w)
{
	size_t n = sizeof(struct entry) + w->chain_len * sizeof(struct name_ref *) + w->ttl_count * sizeof(uint16_t) +
		w->addr_count * sizeof(struct addr) + w->authority_end;

	for (unsigned i = 0; i < w->chain_len; i++)
		n += sizeof(struct name_ref) + w->chain[i].len;
	return (uint32_t)round_up(n, CHUNK_ALIGN);
}

/* The names come first behind the pointers: comparing the key then touches the first lines of the entry only. */
static void fill_rest(struct entry *e, const uint8_t *msg, const struct wire_answer *w)
{
	const struct name_ref **chain = (const struct name_ref **)e->rest;
	uint16_t *ttl_offset = (uint16_t *)(chain + w->chain_len);
	uint8_t *at = (uint8_t *)(ttl_offset + w->ttl_count);

	memcpy(ttl_offset, w->ttl_offset, w->ttl_count * sizeof(*ttl_offset));
	e->a.ttl_offset = ttl_offset;
	e->a.chain = chain;
	for (unsigned i = 0; i < w->chain_len; i++) {
		struct name_ref *n = (struct name_ref *)at;
		n->len = w->chain[i].len;
		memcpy(n->wire, w->chain[i].wire, n->len);
		chain[i] = n;
		at += sizeof(*n) + n->len;
	}
	e->a.addrs = memcpy(at, w->addrs, w->addr_count * sizeof(struct addr));
	at += w->addr_count * sizeof(struct addr);
	e->a.msg = memcpy(at, msg, w->authority_end);
	/* ARCOUNT: the additional section stays behind. */
	at[10] = at[11] = 0;
}

void cache_put(struct cache *c, const struct cache_key *key, const uint8_t *msg, size_t len, const struct wire_answer *w, uint32_t now_s)
{
	uint32_t keep_s = keep_for_s(key, w, len), size;
	struct counters *n = cache_counters(c);
	struct chunk *chunk;
	struct entry *e;

	if (!keep_s)
		return;
	size = entry_size(w);
	if (size > CACHE_ANSWER_MAX) {
		counter_add(&n->too_big);
		return;
	}
	e = chunks_reserve(&c->chunks, size, &chunk);
	if (!e) {
		counter_add(&n->no_room);
		return;
	}
	e->hash = key_hash(key);
	e->chunk = chunk;
	e->size = size;
	e->qtype = key->qtype;
	e->qclass = key->qclass;
	e->group = key->group;
	e->variant = key->variant;
	atomic_store_explicit(&e->used, 0, memory_order_relaxed);
	e->a = (struct cache_answer){ .stored_s = now_s, .expires_s = now_s + keep_s, .msg_len = w->authority_end, .ttl_count = w->ttl_count,
		.addr_count = w->addr_count, .flags = w->flags, .chain_len = w->chain_len, .rcode = w->rcode, .is_nodata = w->is_nodata,
		.has_other_target = w->has_other_target };
	fill_rest(e, msg, w);
	counter_add(table_link(c, e, now_s) ? &n->puts : &n->no_room);
}

static struct chunk *chunk_of(const struct cache_answer *a)
{
	return ((const struct entry *)((const uint8_t *)a - offsetof(struct entry, a)))->chunk;
}

const struct cache_answer *cache_hold(const struct cache_answer *a)
{
	atomic_fetch_add_explicit(&chunk_of(a)->holds, 1, memory_order_relaxed);
	return a;
}

void cache_release(const struct cache_answer *a)
{
	uint32_t before = atomic_fetch_sub_explicit(&chunk_of(a)->holds, 1, memory_order_release);

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
