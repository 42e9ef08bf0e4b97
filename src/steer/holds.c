/* SPDX-License-Identifier: GPL-3.0-or-later */
/* See holds.h.
 *
 * Lookups skip removed records (life == LIFE_REMOVED), which the main thread unlinks right after marking them. Inserting compares with the head it
 * began to look at and starts anew when that changed: what is added in between is always seen. A head cannot go and come back unseen inside one
 * read section, since records are freed after a grace period only.
 *
 * Records are cut from one unreserved region in units of UNIT bytes; freed ones go to a stack for their size, whose head carries a change count. */
#include "steer/holds.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/hash.h"
#include "base/rcu.h"

enum { UNIT = 32, SIZES = (sizeof(struct hold) + NAME_WIRE_MAX + UNIT - 1) / UNIT + 1, RECORD_BYTES_AIMED = 160, RENEWAL_S = 60 };

/* life: epoch (31 bits), asked (1 bit), expiry (32 bits). */
#define LIFE_ASKED ((uint64_t)1 << 32)
#define LIFE_REMOVED UINT64_MAX
#define EPOCH_MASK 0x7fffffffu

struct holds {
	struct hold *_Atomic *heads;
	uint8_t *region;
	size_t map_len;
	uint32_t capacity, units;
	_Atomic uint32_t count, units_taken;
	_Atomic uint64_t free_head[SIZES];  /* unit + 1 of the first free record, change count in the upper half */
	struct hold *_Atomic listed;
	struct hold *removed;               /* main thread, as the next */
	bool has_deferred;
};

static uint64_t life_make(uint32_t epoch, uint32_t expires_s)
{
	return (uint64_t)(epoch & EPOCH_MASK) << 33 | expires_s;
}

static uint32_t life_epoch(uint64_t life)
{
	return (uint32_t)(life >> 33);
}

uint32_t hold_expires_s(const struct hold *d)
{
	return (uint32_t)atomic_load_explicit(&d->life, memory_order_acquire);
}

uint32_t hold_epoch(const struct hold *d)
{
	return life_epoch(atomic_load_explicit(&d->life, memory_order_acquire));
}

int holds_new(struct holds **ret, uint32_t capacity)
{
	struct holds *h;
	size_t heads_len, map_len;
	uint8_t *map;

	if (!capacity || capacity > HOLDS_MAX)
		return -EINVAL;
	heads_len = ((size_t)capacity * sizeof(h->heads[0]) + 4095) / 4096 * 4096;
	map_len = heads_len + (size_t)capacity * RECORD_BYTES_AIMED + SIZES * UNIT;
	h = calloc(1, sizeof(*h));
	if (!h)
		return -ENOMEM;
	map = mmap(NULL, map_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED) {
		free(h);
		return -ENOMEM;
	}
	h->heads = (struct hold *_Atomic *)map;
	h->region = map + heads_len;
	h->map_len = map_len;
	h->capacity = capacity;
	h->units = (uint32_t)((map_len - heads_len) / UNIT);
	*ret = h;
	return 0;
}

void holds_free(struct holds *h)
{
	if (!h)
		return;
	if (h->has_deferred)
		rcu_barrier_all();
	munmap(h->heads, h->map_len);
	free(h);
}

static unsigned units_for(uint8_t name_len)
{
	return (unsigned)((sizeof(struct hold) + name_len + UNIT - 1) / UNIT);
}

/* A free record lends its first bytes to the number of the next. */
static _Atomic uint32_t *free_link(const struct holds *h, uint32_t unit)
{
	return (_Atomic uint32_t *)(h->region + (size_t)unit * UNIT);
}

static struct hold *record_take(struct holds *h, unsigned units)
{
	uint64_t head = atomic_load(&h->free_head[units]), next;
	uint32_t taken = atomic_load_explicit(&h->units_taken, memory_order_relaxed);

	while ((uint32_t)head) {
		uint32_t unit = (uint32_t)head - 1;
		next = ((head >> 32) + 1) << 32 | atomic_load_explicit(free_link(h, unit), memory_order_relaxed);
		if (atomic_compare_exchange_weak(&h->free_head[units], &head, next))
			return (struct hold *)(h->region + (size_t)unit * UNIT);
	}
	do {
		if (taken + units > h->units)
			return NULL;
	} while (!atomic_compare_exchange_weak_explicit(&h->units_taken, &taken, taken + units, memory_order_relaxed, memory_order_relaxed));
	return (struct hold *)(h->region + (size_t)taken * UNIT);
}

static void record_give(struct holds *h, struct hold *d)
{
	uint32_t unit = (uint32_t)(((uint8_t *)d - h->region) / UNIT);
	unsigned units = units_for(d->name_len);
	uint64_t head = atomic_load(&h->free_head[units]), next;

	do {
		atomic_store_explicit(free_link(h, unit), (uint32_t)head, memory_order_relaxed);
		next = ((head >> 32) + 1) << 32 | (unit + 1);
	} while (!atomic_compare_exchange_weak(&h->free_head[units], &head, next));
}

static uint64_t triple_hash(uint32_t rule_id, const struct addr *a, uint64_t name_hash)
{
	uint64_t seed = name_hash ^ (uint64_t)rule_id * 0x9e3779b97f4a7c15;

	return hash_bytes(a->b, sizeof(a->b), seed) ^ a->family;
}

static bool is_triple(const struct hold *d, uint64_t hash, uint32_t rule_id, const struct addr *a, const uint8_t *name, uint8_t name_len)
{
	return d->hash == hash && d->rule_id == rule_id && d->name_len == name_len && addr_equal(&d->addr, a) && !memcmp(d->name, name, name_len);
}

static struct hold *_Atomic *head_of(const struct holds *h, uint64_t hash)
{
	return &h->heads[hash_range(hash, h->capacity)];
}

bool holds_cover(const struct holds *h, uint32_t rule_id, const struct addr *a, const uint8_t *name, uint8_t name_len, uint64_t name_hash,
	uint32_t epoch, uint32_t need_until_s)
{
	uint64_t hash = triple_hash(rule_id, a, name_hash);
	const struct hold *d = atomic_load_explicit(head_of(h, hash), memory_order_acquire);

	for (; d; d = atomic_load_explicit(&d->next, memory_order_acquire)) {
		uint64_t life = atomic_load_explicit(&d->life, memory_order_acquire);

		if (life != LIFE_REMOVED && is_triple(d, hash, rule_id, a, name, name_len))
			return life_epoch(life) == (epoch & EPOCH_MASK) && (uint32_t)life >= need_until_s;
	}
	return false;
}

/* False: removed. */
static bool mark_asked(struct hold *d)
{
	uint64_t life = atomic_load(&d->life);

	do {
		if (life == LIFE_REMOVED)
			return false;
		if (life & LIFE_ASKED)
			return true;
	} while (!atomic_compare_exchange_weak(&d->life, &life, life | LIFE_ASKED));
	return true;
}

static struct hold *record_make(struct holds *h, uint64_t hash, uint32_t rule_id, const struct addr *a, const uint8_t *name, uint8_t name_len)
{
	struct hold *d;

	if (atomic_fetch_add_explicit(&h->count, 1, memory_order_relaxed) >= h->capacity)
		goto full;
	d = record_take(h, units_for(name_len));
	if (!d)
		goto full;
	atomic_store_explicit(&d->life, LIFE_ASKED, memory_order_relaxed);
	atomic_store_explicit(&d->next, NULL, memory_order_relaxed);
	d->listed_next = d->removed_next = NULL;
	d->hash = hash;
	atomic_store_explicit(&d->journal_s, 0, memory_order_relaxed);
	atomic_store_explicit(&d->is_listed, 0, memory_order_relaxed);
	d->asked_s = d->removed_s = 0;
	d->rule_id = rule_id;
	d->addr = *a;
	d->name_len = name_len;
	memcpy(d->name, name, name_len);
	return d;
full:
	atomic_fetch_sub_explicit(&h->count, 1, memory_order_relaxed);
	return NULL;
}

struct hold *holds_insert(struct holds *h, uint32_t rule_id, const struct addr *a, const uint8_t *name, uint8_t name_len, uint64_t name_hash)
{
	uint64_t hash = triple_hash(rule_id, a, name_hash);
	struct hold *_Atomic *head = head_of(h, hash);
	struct hold *first = atomic_load(head), *fresh = NULL, *d;

	for (;;) {
		for (d = first; d; d = atomic_load(&d->next))
			if (is_triple(d, hash, rule_id, a, name, name_len) && mark_asked(d))
				break;
		if (d)
			break;
		if (!fresh)
			fresh = record_make(h, hash, rule_id, a, name, name_len);
		if (!fresh)
			return NULL;
		atomic_store_explicit(&fresh->next, first, memory_order_relaxed);
		if (atomic_compare_exchange_strong(head, &first, fresh))
			return fresh;
	}
	/* Nobody else has seen ours. */
	if (fresh) {
		record_give(h, fresh);
		atomic_fetch_sub_explicit(&h->count, 1, memory_order_relaxed);
	}
	return d;
}

static void list_for_journal(struct holds *h, struct hold *d)
{
	struct hold *first;

	if (atomic_exchange(&d->is_listed, 1))
		return;
	first = atomic_load_explicit(&h->listed, memory_order_relaxed);
	do {
		d->listed_next = first;
	} while (!atomic_compare_exchange_weak_explicit(&h->listed, &first, d, memory_order_release, memory_order_relaxed));
}

bool hold_renew(struct holds *h, struct hold *d, uint32_t epoch, uint32_t now_s, uint32_t expires_s)
{
	uint64_t life = atomic_load(&d->life), next;
	uint32_t life_s = expires_s > now_s ? expires_s - now_s : 0, journal_s, moved_s;

	do {
		int32_t ahead = (int32_t)((epoch - life_epoch(life)) << 1);
		uint32_t until_s = expires_s;

		if (life == LIFE_REMOVED)
			return false;
		if ((uint32_t)life && ahead < 0)
			return true;
		if (ahead <= 0 && (uint32_t)life > until_s)
			until_s = (uint32_t)life;
		next = life_make(epoch, until_s);
	} while (!atomic_compare_exchange_weak(&d->life, &life, next));
	journal_s = atomic_load_explicit(&d->journal_s, memory_order_relaxed);
	moved_s = (uint32_t)next > journal_s ? (uint32_t)next - journal_s : 0;
	if (!journal_s || moved_s > RENEWAL_S || moved_s > life_s / 4)
		list_for_journal(h, d);
	return true;
}

/* `link` is what refers to d. New records appear at the head only, so what is behind the head is the main thread's to unlink with a store. */
static void unlink_record(struct holds *h, struct hold *_Atomic *link, struct hold *d)
{
	struct hold *next = atomic_load(&d->next), *seen = d;

	if (link == head_of(h, d->hash) && !atomic_compare_exchange_strong(link, &seen, next)) {
		for (link = &seen->next; atomic_load(link) != d;)
			link = &atomic_load(link)->next;
		atomic_store(link, next);
	} else if (link != head_of(h, d->hash)) {
		atomic_store(link, next);
	}
	d->removed_next = h->removed;
	h->removed = d;
	atomic_fetch_sub_explicit(&h->count, 1, memory_order_relaxed);
}

void holds_walk(struct holds *h, bool (*cb)(void *ctx, const struct hold *d), void *ctx)
{
	for (uint32_t i = 0; i < h->capacity; i++) {
		struct hold *_Atomic *link = &h->heads[i];
		struct hold *d = atomic_load(link);

		while (d) {
			struct hold *next = atomic_load(&d->next);

			if (cb(ctx, d)) {
				/* removed_s stays 0 until the next sweep, which knows the time. */
				atomic_store(&d->life, LIFE_REMOVED);
				unlink_record(h, link, d);
			} else {
				link = &d->next;
			}
			d = next;
		}
	}
}

/* True when the record was marked removed. Who asked for it since the last sweep has HOLD_PARKED_S from now. */
static bool sweep_record(struct hold *d, uint32_t now_s, uint32_t keep_s)
{
	uint64_t life = atomic_load(&d->life);

	if ((uint32_t)life >= now_s || now_s - (uint32_t)life <= keep_s)
		return false;
	if (life & LIFE_ASKED) {
		d->asked_s = now_s;
		atomic_compare_exchange_strong(&d->life, &life, life & ~LIFE_ASKED);
		return false;
	}
	if (d->asked_s && now_s - d->asked_s <= HOLD_PARKED_S)
		return false;
	return atomic_compare_exchange_strong(&d->life, &life, LIFE_REMOVED);
}

/* A list of removed records on its way through a grace period. */
struct due {
	struct holds *h;
	struct hold *first;
};

static void give_due(void *what)
{
	struct due *due = what;
	struct hold *d;

	while ((d = due->first) != NULL) {
		due->first = d->removed_next;
		record_give(due->h, d);
	}
	free(due);
}

/* Gives back what was removed long enough ago; what is still on the journal's stack waits until that is drained. The grace period is not waited
 * for here: the caller may hold a lock that a registered reader wants. */
static void free_removed(struct holds *h, uint32_t now_s)
{
	struct due *due = calloc(1, sizeof(*due));
	struct hold **link = &h->removed, *d;

	if (!due)
		return;
	due->h = h;
	while ((d = *link) != NULL) {
		if (!d->removed_s)
			d->removed_s = now_s ? now_s : 1;
		if (now_s - d->removed_s <= HOLD_PARKED_S || atomic_load(&d->is_listed)) {
			link = &d->removed_next;
			continue;
		}
		*link = d->removed_next;
		d->removed_next = due->first;
		due->first = d;
	}
	if (!due->first) {
		free(due);
		return;
	}
	h->has_deferred = true;
	rcu_defer(give_due, due);
}

unsigned holds_sweep(struct holds *h, uint32_t now_s, uint32_t keep_s)
{
	for (uint32_t i = 0; i < h->capacity; i++) {
		struct hold *_Atomic *link = &h->heads[i];
		struct hold *d = atomic_load(link);

		while (d) {
			struct hold *next = atomic_load(&d->next);

			if (sweep_record(d, now_s, keep_s))
				unlink_record(h, link, d);
			else
				link = &d->next;
			d = next;
		}
	}
	free_removed(h, now_s);
	return holds_count(h);
}

unsigned holds_drain_new(struct holds *h, void (*cb)(void *ctx, const struct hold *d), void *ctx)
{
	struct hold *d = atomic_exchange_explicit(&h->listed, NULL, memory_order_acquire), *next;
	unsigned count = 0;

	for (; d; d = next) {
		next = d->listed_next;
		/* Cleared before the expiry is read: a renewal after this lists it again. */
		atomic_store(&d->is_listed, 0);
		if (atomic_load(&d->life) == LIFE_REMOVED)
			continue;
		atomic_store_explicit(&d->journal_s, hold_expires_s(d), memory_order_relaxed);
		cb(ctx, d);
		count++;
	}
	return count;
}

uint32_t holds_count(const struct holds *h)
{
	return atomic_load_explicit(&h->count, memory_order_relaxed);
}
