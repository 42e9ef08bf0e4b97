/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The cache over a restart; see store.h for the file. A control thread: it says where it holds no pointer, and is off-line while the disk works. */
#include "cache/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/err.h"
#include "base/rcu.h"
#include "cache/table.h"

enum { QUIESCE_EVERY = 64 /* buckets saved, or records loaded */ };

_Static_assert(STORE_BLOCK_MAX >= sizeof(struct store_record) + WIRE_TCP_MAX, "a block holds any record");

/* --- to the file --- */

struct writer {
	int fd, r;
	uint8_t *bytes;
	size_t used;
	uint64_t check;
	uint32_t now_s;
	const struct cache_store *store;
};

static int write_all(int fd, const void *bytes, size_t len)
{
	const uint8_t *at = bytes;

	while (len) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

static void write_block(struct writer *w)
{
	struct store_block b = { .len = w->used };

	w->check = b.check = store_block_check(&b, w->bytes, w->check);
	rcu_offline();
	w->r = write_all(w->fd, &b, sizeof(b));
	if (w->r == 0)
		w->r = write_all(w->fd, w->bytes, w->used);
	rcu_online();
	w->used = 0;
}

static void add_record(struct writer *w, const struct entry *e, uint64_t signature)
{
	struct store_record rec = { .signature = signature, .msg_len = e->a.msg_len, .variant = entry_variant(e) };

	/* Another thread's clock may be a second ahead. */
	rec.age_s = w->now_s > e->a.stored_s ? w->now_s - e->a.stored_s : 0;
	rec.left_s = (int64_t)e->a.expires_s - w->now_s - e->expired_before_s;
	memcpy(w->bytes + w->used, &rec, sizeof(rec));
	memcpy(w->bytes + w->used + sizeof(rec), e->a.msg, e->a.msg_len);
	w->used += sizeof(rec) + e->a.msg_len;
}

/* Live ones in one turn, stale ones in the next. The block is written while no pointer is held, so the slot is looked at again after that. */
static void save_slot(struct writer *w, struct cache *c, _Atomic uint64_t *slot, bool wants_live)
{
	for (unsigned tries = 0; tries < 2 && w->r == 0; tries++) {
		uint64_t v = atomic_load_explicit(slot, memory_order_acquire), signature;
		const struct entry *e = v ? slot_entry(c, v) : NULL;

		if (!e || entry_is_over(c, e, w->now_s) || entry_is_live(e, w->now_s) != wants_live)
			return;
		if (w->used + sizeof(struct store_record) + e->a.msg_len <= STORE_BLOCK_MAX) {
			signature = w->store->signature(w->store->ctx, entry_group(e));
			if (signature)
				add_record(w, e, signature);
			return;
		}
		write_block(w);
	}
}

static void save_entries(struct writer *w, struct cache *c, bool wants_live)
{
	for (uint64_t i = 0; i < c->bucket_count && w->r == 0; i++) {
		if (i && i % QUIESCE_EVERY == 0)
			rcu_quiesce();
		for (unsigned j = 0; j < BUCKET_SLOTS; j++)
			save_slot(w, c, &c->buckets[i].slot[j], wants_live);
	}
}

int cache_save(struct cache *c, int fd, uint32_t now_s, int64_t wall_s, const struct cache_store *s)
{
	struct store_head h = { .magic = STORE_MAGIC, .version = STORE_VERSION, .wall_s = wall_s };
	struct writer w = { .fd = fd, .now_s = now_s, .store = s, .bytes = malloc(STORE_BLOCK_MAX) };

	if (!w.bytes)
		return -ENOMEM;
	w.check = h.check = store_head_check(&h);
	w.r = write_all(fd, &h, sizeof(h));
	/* Live ones first: a cache that is smaller by then keeps those. */
	save_entries(&w, c, true);
	save_entries(&w, c, false);
	if (w.r == 0 && w.used)
		write_block(&w);
	if (w.r == 0)
		write_block(&w);
	free(w.bytes);
	return w.r;
}

/* --- from the file --- */

struct loader {
	struct cache *c;
	const struct cache_store *store;
	uint64_t check;
	int64_t passed_s; /* since the file was written */
	uint32_t now_s, stale_s;
	unsigned records;
	bool is_full;
	struct wire_answer walked;
	uint8_t bytes[STORE_BLOCK_MAX];
};

static int read_all(int fd, void *bytes, size_t len)
{
	uint8_t *at = bytes;

	while (len) {
		ssize_t n = read(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -EIO;
		if (n == 0)
			return NW_EMALFORMED;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

static int64_t lesser(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* For how long what was just walked may live on; 0 or less: it has been over for so long. Whatever the record says, no longer than the TTLs allow. */
static int64_t left_of(const struct loader *l, const struct store_record *rec, const struct keep *k, uint32_t age_s)
{
	int64_t left_s = rec->left_s - l->passed_s, most_s = (int64_t)lesser(l->walked.ttl_min_s, age_s + (int64_t)k->ttl.max_s) - age_s;

	if (left_s <= 0)
		return left_s;
	return most_s > 0 ? lesser(left_s, most_s) : 0;
}

/* What is not an answer that cache_put keeps is passed over. The TTL fields are aged where they lie; its life begins anew, with what is left. */
static void load_record(struct loader *l, const struct store_record *rec, uint8_t *msg)
{
	struct cache_key key = { .variant = rec->variant & (CACHE_VARIANT_DO | CACHE_VARIANT_CD) };
	struct keep k = { .now_s = l->now_s };
	struct wire_answer *w = &l->walked;
	uint32_t age_s = (uint32_t)lesser((int64_t)rec->age_s + l->passed_s, INT32_MAX);
	int64_t left_s;

	if (rec->left_s > INT32_MAX || rec->left_s < INT32_MIN || !l->store->group(l->store->ctx, rec->signature, &key.group))
		return;
	if (wire_answer_walk(w, msg, rec->msg_len) < 0)
		return;
	key.qname = &w->chain[0];
	key.qtype = w->qtype;
	key.qclass = w->qclass;
	if (!wire_answer_matches(msg, rec->msg_len, key.qname, key.qtype, key.qclass) || !answer_may_be_kept(&key, w, rec->msg_len))
		return;
	k.ttl = answer_bounds(l->c, &key, w);
	k.ttl.min_s = 0;
	left_s = left_of(l, rec, &k, age_s);
	if (left_s <= 0 && -left_s >= l->stale_s)
		return;
	k.life_s = left_s > 0 ? (uint32_t)left_s : 0;
	k.expired_before_s = left_s < 0 ? (uint32_t)-left_s : 0;
	wire_ttl_age(msg, w->ttl_offset, w->ttl_count, age_s);
	key.name_hash = name_whole_hash(key.qname, l->store->name_seed);
	l->is_full = cache_keep(l->c, &key, msg, w, &k) == KEPT_NO_ROOM;
}

static int load_block(struct loader *l, size_t len)
{
	struct store_record rec;

	for (size_t at = 0; at < len && !l->is_full; at += sizeof(rec) + rec.msg_len) {
		if (len - at < sizeof(rec))
			return NW_EMALFORMED;
		memcpy(&rec, l->bytes + at, sizeof(rec));
		if (len - at - sizeof(rec) < rec.msg_len)
			return NW_EMALFORMED;
		load_record(l, &rec, l->bytes + at + sizeof(rec));
		if (++l->records % QUIESCE_EVERY == 0) {
			rcu_quiesce();
			l->is_full = l->is_full || atomic_load_explicit(&l->c->chunks.free_count, memory_order_relaxed) <= cache_free_aim(l->c);
		}
	}
	return 0;
}

static int load_blocks(struct loader *l, int fd)
{
	struct store_block b;
	int r = 0;

	while (r == 0 && !l->is_full) {
		r = read_all(fd, &b, sizeof(b));
		if (r < 0)
			return r;
		if (b.len > STORE_BLOCK_MAX)
			return NW_EMALFORMED;
		r = read_all(fd, l->bytes, b.len);
		if (r < 0)
			return r;
		l->check = store_block_check(&b, l->bytes, l->check);
		if (l->check != b.check)
			return NW_EMALFORMED;
		if (!b.len)
			return 0;
		r = load_block(l, b.len);
	}
	return r;
}

int cache_load(struct cache *c, int fd, uint32_t now_s, int64_t wall_s, const struct cache_store *s)
{
	struct store_head h;
	struct loader *l;
	int r = read_all(fd, &h, sizeof(h));

	if (r < 0)
		return r;
	if (h.magic != STORE_MAGIC || h.version != STORE_VERSION || h.check != store_head_check(&h))
		return NW_EMALFORMED;
	/* From the future, or so old that nothing in it can be of use. */
	if (h.wall_s > wall_s || (uint64_t)wall_s - (uint64_t)h.wall_s > INT32_MAX)
		return 0;
	l = malloc(sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->c = c;
	l->store = s;
	l->check = h.check;
	l->passed_s = wall_s - h.wall_s;
	l->now_s = now_s;
	l->stale_s = atomic_load_explicit(&c->stale_s, memory_order_relaxed);
	l->records = 0;
	l->is_full = false;
	r = load_blocks(l, fd);
	rcu_quiesce();
	free(l);
	return r;
}
