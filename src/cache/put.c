/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Keeping answers: which, for how long, and how they are laid out in an entry. Workers, and the thread that loads; no lock, nothing that waits. */
#include "cache/cache.h"

#include <string.h>
#include "cache/table.h"

static uint32_t lesser(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static void set(_Atomic uint32_t *limit, uint32_t value)
{
	atomic_store_explicit(limit, value, memory_order_relaxed);
}

void cache_set_limits(struct cache *c, const struct cache_limits *l)
{
	uint32_t max_s = lesser(l->ttl_max_s, CACHE_TTL_MAX_S);

	set(&c->ttl_min_s, l->ttl_min_s);
	set(&c->ttl_max_s, max_s);
	set(&c->negative_ttl_max_s, lesser(l->negative_ttl_max_s, max_s));
	set(&c->stale_s, l->stale_s);
}

bool answer_is_negative(const struct wire_answer *w)
{
	return w->rcode == RCODE_NXDOMAIN || w->is_nodata || w->is_chain_open;
}

bool answer_may_be_kept(const struct cache_key *key, const struct wire_answer *w, size_t len)
{
	if (w->rcode != RCODE_NOERROR && w->rcode != RCODE_NXDOMAIN)
		return false;
	if (w->is_cut || w->flags & FLAG_TC || (answer_is_negative(w) && !w->has_soa))
		return false;
	return w->authority_end >= WIRE_HEADER && w->authority_end <= len && w->chain_len && name_equal(&w->chain[0], key->qname);
}

struct wire_ttl_bounds answer_bounds(struct cache *c, const struct cache_key *key, const struct wire_answer *w)
{
	bool is_negative = answer_is_negative(w);
	struct wire_ttl_bounds b = { .max_s = atomic_load_explicit(is_negative ? &c->negative_ttl_max_s : &c->ttl_max_s, memory_order_relaxed) };

	b.min_s = lesser(atomic_load_explicit(&c->ttl_min_s, memory_order_relaxed), b.max_s);
	b.with_minimum = is_negative && !(key->variant & CACHE_VARIANT_DO);
	return b;
}

static uint32_t entry_size(const struct wire_answer *w)
{
	size_t n = sizeof(struct entry) + w->chain_len * sizeof(struct name_ref *) + w->ttl_count * sizeof(uint16_t) +
		w->addr_count * sizeof(struct addr) + w->authority_end;

	for (unsigned i = 0; i < w->chain_len; i++)
		n += sizeof(struct name_ref) + w->chain[i].len;
	return (uint32_t)((n + CHUNK_ALIGN - 1) / CHUNK_ALIGN * CHUNK_ALIGN);
}

/* The names come first behind the pointers: comparing the key then touches the first lines of the entry only. Returns the message. */
static uint8_t *fill_rest(struct entry *e, const uint8_t *msg, const struct wire_answer *w)
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
	return at;
}

enum kept cache_keep(struct cache *c, const struct cache_key *key, const uint8_t *msg, const struct wire_answer *w, const struct keep *k)
{
	uint32_t size = entry_size(w);
	struct chunk *chunk;
	struct entry *e;

	if (size > CACHE_ANSWER_MAX)
		return KEPT_TOO_BIG;
	e = chunks_reserve(&c->chunks, size, &chunk);
	if (!e)
		return KEPT_NO_ROOM;
	e->hash = key_hash(key);
	e->chunk = chunk;
	e->units = (uint16_t)(size / CHUNK_ALIGN);
	e->key = key_word(key);
	e->expired_before_s = k->expired_before_s;
	atomic_store_explicit(&e->used, 0, memory_order_relaxed);
	atomic_store_explicit(&e->is_refreshing, false, memory_order_relaxed);
	e->a = (struct cache_answer){ .stored_s = k->now_s, .expires_s = k->now_s + k->life_s, .msg_len = w->authority_end, .ttl_count = w->ttl_count,
		.addr_count = w->addr_count, .flags = w->flags, .chain_len = w->chain_len, .rcode = (uint8_t)w->rcode, .is_nodata = w->is_nodata,
		.has_other_target = w->has_other_target };
	while (e->a.answer_ttls < w->ttl_count && w->ttl_offset[e->a.answer_ttls] < w->answers_end)
		e->a.answer_ttls++;
	wire_ttl_bound(fill_rest(e, msg, w), w, &k->ttl);
	return table_link(c, e, k->now_s) ? KEPT : KEPT_NO_ROOM;
}

void cache_put(struct cache *c, const struct cache_key *key, const uint8_t *msg, size_t len, const struct wire_answer *w, uint32_t now_s)
{
	struct counters *n = cache_counters(c);
	struct keep k = { .now_s = now_s };

	if (!answer_may_be_kept(key, w, len))
		return;
	k.ttl = answer_bounds(c, key, w);
	k.life_s = w->ttl_min_s < k.ttl.min_s ? k.ttl.min_s : lesser(w->ttl_min_s, k.ttl.max_s);
	if (!k.life_s)
		return;
	if (answer_is_negative(w))
		k.ttl.soa_max_s = k.life_s;
	switch (cache_keep(c, key, msg, w, &k)) {
	case KEPT: counter_add(&n->puts); break;
	case KEPT_TOO_BIG: counter_add(&n->too_big); break;
	case KEPT_NO_ROOM: counter_add(&n->no_room); break;
	}
}
