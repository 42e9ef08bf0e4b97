/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What goes over all answers: walking, counting, flushing. Control threads, never a worker: registered and online, and told quiescent between
 * buckets, so no pointer to an entry lives past one. */
#include "cache/cache.h"

#include <string.h>
#include "base/rcu.h"
#include "cache/table.h"

enum { WALK_BUCKETS = 64 };

static void each_slot(struct cache *c, void (*cb)(struct cache *c, _Atomic uint64_t *slot, uint64_t v, void *ctx), void *ctx)
{
	for (uint64_t i = 0; i < c->bucket_count; i++) {
		if (i && i % WALK_BUCKETS == 0)
			rcu_quiesce();
		for (unsigned j = 0; j < BUCKET_SLOTS; j++) {
			_Atomic uint64_t *slot = &c->buckets[i].slot[j];
			uint64_t v = atomic_load_explicit(slot, memory_order_acquire);

			if (v)
				cb(c, slot, v, ctx);
		}
	}
}

struct walk {
	uint32_t now_s;
	void (*cb)(void *ctx, const struct cache_answer *a);
	void *ctx;
};

static void walk_slot(struct cache *c, _Atomic uint64_t *slot, uint64_t v, void *ctx)
{
	const struct walk *w = ctx;

	if (!entry_is_over(c, slot_entry(c, v), w->now_s))
		w->cb(w->ctx, &slot_entry(c, v)->a);
}

void cache_walk(struct cache *c, uint32_t now_s, void (*cb)(void *ctx, const struct cache_answer *a), void *ctx)
{
	each_slot(c, walk_slot, &(struct walk){ .now_s = now_s, .cb = cb, .ctx = ctx });
}

struct kinds {
	uint32_t now_s;
	struct cache_kinds *n;
};

static void count_slot(struct cache *c, _Atomic uint64_t *slot, uint64_t v, void *ctx)
{
	const struct kinds *k = ctx;
	const struct entry *e = slot_entry(c, v);

	if (!entry_is_live(e, k->now_s))
		k->n->stale += !entry_is_over(c, e, k->now_s);
	else if (e->a.rcode == RCODE_NXDOMAIN)
		k->n->nxdomain++;
	else if (e->a.is_nodata)
		k->n->nodata++;
	else
		k->n->positive++;
}

void cache_stat_kinds(struct cache *c, uint32_t now_s, struct cache_kinds *ret)
{
	struct cache_kinds n = { 0 };

	each_slot(c, count_slot, &(struct kinds){ .now_s = now_s, .n = &n });
	*ret = n;
}

struct flush {
	const struct name *name; /* NULL: everything */
	bool is_subtree;
	unsigned count;
};

/* Wire names end in the root byte, so equal tails that begin at a label are a subtree. */
static bool is_meant(const struct name_ref *n, const struct flush *f)
{
	unsigned at = 0;

	while (f->is_subtree && n->len - at > f->name->len)
		at += n->wire[at] + 1u;
	return n->len - at == f->name->len && !memcmp(n->wire + at, f->name->wire, f->name->len);
}

static void flush_slot(struct cache *c, _Atomic uint64_t *slot, uint64_t v, void *ctx)
{
	const struct cache_answer *a = &slot_entry(c, v)->a;
	struct flush *f = ctx;
	bool goes = !f->name;

	for (unsigned i = 0; i < a->chain_len && !goes; i++)
		goes = is_meant(a->chain[i], f);
	if (goes && table_swap(c, slot, v, 0))
		f->count++;
}

unsigned cache_flush(struct cache *c, const struct name *under)
{
	struct flush f = { .name = under, .is_subtree = true };

	each_slot(c, flush_slot, &f);
	return f.count;
}

unsigned cache_flush_name(struct cache *c, const struct name *name)
{
	struct flush f = { .name = name };

	each_slot(c, flush_slot, &f);
	return f.count;
}
