/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The space-saving sketch: counters, a heap of their numbers with the smallest count on top, and a hash table of their numbers by key (linear probing,
 * entries moved up when one is taken out). Keys up to KEY_INLINE bytes stand in the counter; longer ones on the heap: hardly any name is. */
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "stat/query_top.h"

enum { KEY_INLINE = 56 };

struct counter {
	uint64_t count, error, hash;
	uint32_t heap_at;
	uint8_t len;
	union { uint8_t bytes[KEY_INLINE]; uint8_t *more; } key;
};

struct sketch {
	unsigned counters, used, mask;
	uint64_t seed;
	struct counter *v;
	uint32_t *heap;
	uint32_t *table; /* number + 1; 0: free */
};

static const uint8_t *key_of(const struct counter *c)
{
	return c->len > KEY_INLINE ? c->key.more : c->key.bytes;
}

struct sketch *sketch_new(unsigned counters)
{
	struct sketch *s = calloc(1, sizeof *s);
	unsigned slots = 4;
	while (slots < 2 * counters)
		slots *= 2;
	if (!s)
		return NULL;
	*s = (struct sketch){ .counters = counters, .mask = slots - 1, .seed = hash_seed(), .v = calloc(counters, sizeof *s->v), .heap = calloc(counters, sizeof *s->heap),
		.table = calloc(slots, sizeof *s->table) };
	if (s->v && s->heap && s->table)
		return s;
	sketch_free(s);
	return NULL;
}

static void drop_key(struct counter *c)
{
	if (c->len > KEY_INLINE)
		free(c->key.more);
	c->len = 0;
}

void sketch_clear(struct sketch *s)
{
	if (!s->used)
		return;
	for (unsigned i = 0; i < s->used; i++)
		drop_key(&s->v[i]);
	memset(s->table, 0, (s->mask + 1) * sizeof *s->table);
	s->used = 0;
}

void sketch_free(struct sketch *s)
{
	if (!s)
		return;
	if (s->v && s->table)
		sketch_clear(s);
	free(s->v);
	free(s->heap);
	free(s->table);
	free(s);
}

/* --- the heap --- */

static void heap_put(struct sketch *s, unsigned at, uint32_t number)
{
	s->heap[at] = number;
	s->v[number].heap_at = at;
}

static void sift_down(struct sketch *s, unsigned at)
{
	uint32_t number = s->heap[at];
	for (unsigned child; (child = 2 * at + 1) < s->used; at = child) {
		if (child + 1 < s->used && s->v[s->heap[child + 1]].count < s->v[s->heap[child]].count)
			child++;
		if (s->v[s->heap[child]].count >= s->v[number].count)
			break;
		heap_put(s, at, s->heap[child]);
	}
	heap_put(s, at, number);
}

static void sift_up(struct sketch *s, unsigned at)
{
	uint32_t number = s->heap[at];
	for (; at && s->v[s->heap[(at - 1) / 2]].count > s->v[number].count; at = (at - 1) / 2)
		heap_put(s, at, s->heap[(at - 1) / 2]);
	heap_put(s, at, number);
}

/* --- the table --- */

static unsigned find_slot(const struct sketch *s, const uint8_t *key, size_t len, uint64_t hash)
{
	unsigned at = (unsigned)hash & s->mask;
	for (; s->table[at]; at = (at + 1) & s->mask) {
		const struct counter *c = &s->v[s->table[at] - 1];
		if (c->hash == hash && c->len == len && !memcmp(key_of(c), key, len))
			break;
	}
	return at;
}

static void take_out(struct sketch *s, unsigned at)
{
	for (unsigned next = at;;) {
		next = (next + 1) & s->mask;
		if (!s->table[next])
			break;
		unsigned home = (unsigned)s->v[s->table[next] - 1].hash & s->mask;
		/* It may move up when its home does not lie between the hole and its place. */
		if (((next - home) & s->mask) < ((next - at) & s->mask))
			continue;
		s->table[at] = s->table[next];
		at = next;
	}
	s->table[at] = 0;
}

static bool set_key(struct counter *c, const uint8_t *key, size_t len, uint64_t hash)
{
	uint8_t *into = c->key.bytes;
	if (len > KEY_INLINE && !(into = malloc(len)))
		return false;
	memcpy(into, key, len);
	if (len > KEY_INLINE)
		c->key.more = into;
	c->len = (uint8_t)len;
	c->hash = hash;
	return true;
}

/* A counter for a new key: a fresh one, or the smallest. */
static void take_counter(struct sketch *s, const uint8_t *key, size_t len, uint64_t hash, uint64_t count, uint64_t error)
{
	bool is_fresh = s->used < s->counters;
	uint32_t number = is_fresh ? s->used : s->heap[0];
	struct counter *c = &s->v[number], old = *c, made = { .heap_at = c->heap_at };
	if (!set_key(&made, key, len, hash))
		return; /* out of memory: not counted */
	made.count = count + (is_fresh ? 0 : old.count);
	made.error = error + (is_fresh ? 0 : old.count);
	if (!is_fresh) {
		take_out(s, find_slot(s, key_of(&old), old.len, old.hash));
		drop_key(&old);
	}
	*c = made;
	s->table[find_slot(s, key, len, hash)] = number + 1;
	if (is_fresh) {
		heap_put(s, s->used++, number);
		sift_up(s, s->used - 1);
	} else {
		sift_down(s, 0);
	}
}

void sketch_add(struct sketch *s, const uint8_t *key, size_t len, uint64_t count, uint64_t error)
{
	if (!len || len > QUERY_TOP_KEY_MAX)
		return;
	uint64_t hash = hash_bytes(key, len, s->seed);
	uint32_t number = s->table[find_slot(s, key, len, hash)];
	if (!number) {
		take_counter(s, key, len, hash, count, error);
		return;
	}
	struct counter *c = &s->v[number - 1];
	c->count += count;
	c->error += error;
	sift_down(s, c->heap_at);
}

/* --- whole sketches --- */

void sketch_merge(struct sketch *to, const struct sketch *from)
{
	for (unsigned i = 0; i < from->used; i++)
		sketch_add(to, key_of(&from->v[i]), from->v[i].len, from->v[i].count, from->v[i].error);
}

static int larger_first(const void *a, const void *b)
{
	const struct sketch_entry *x = a, *y = b;
	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	/* Equal counts in one order whenever they are shown. */
	int by_len = x->len - y->len, by_key = memcmp(x->key, y->key, x->len < y->len ? x->len : y->len);
	return by_key ? by_key : by_len;
}

unsigned sketch_largest(const struct sketch *s, struct sketch_entry *ret, unsigned max)
{
	struct sketch_entry *all = malloc((s->used + 1) * sizeof *all);
	if (!all)
		return 0;
	for (unsigned i = 0; i < s->used; i++)
		all[i] = (struct sketch_entry){ .count = s->v[i].count, .error = s->v[i].error, .key = key_of(&s->v[i]), .len = s->v[i].len };
	qsort(all, s->used, sizeof *all, larger_first);
	unsigned count = s->used < max ? s->used : max;
	memcpy(ret, all, count * sizeof *all);
	free(all);
	return count;
}
