/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Interned classes (which lists hold a name, and how) and interned pending records (old class, new class) of one update. Both
 * live in chunks that never move, so readers follow numbers without a lock: a number reaches them by a releasing store of an
 * entry's value, after its chunk and record are written. The writer's thread only. */
#include "policy/index_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include "base/err.h"

typedef uint64_t intern_hash_fn(const struct index *ix, uint32_t number);
typedef bool intern_same_fn(const struct index *ix, uint32_t number, const void *key);

/* The place of key, or the free place where it goes. */
static uint32_t *intern_find(
	const struct index *ix, const struct intern *t, uint64_t hash, const void *key, intern_same_fn *is_same)
{
	uint32_t at = (uint32_t)hash & (t->size - 1);

	while (t->ids[at] && !(key && is_same(ix, t->ids[at] - 1, key)))
		at = (at + 1) & (t->size - 1);
	return &t->ids[at];
}

static int intern_reserve(struct index *ix, struct intern *t, intern_hash_fn *hash_of)
{
	struct intern grown = {.size = t->size ? t->size * 2 : 64, .count = t->count};

	if (t->size && t->count + 1 <= t->size / 2)
		return 0;
	grown.ids = calloc(grown.size, sizeof(*grown.ids));
	if (!grown.ids)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->size; i++)
		if (t->ids[i])
			*intern_find(ix, &grown, hash_of(ix, t->ids[i] - 1), NULL, NULL) = t->ids[i];
	counter_add(&ix->heap_bytes, ((int64_t)grown.size - t->size) * (int64_t)sizeof(*grown.ids));
	free(t->ids);
	*t = grown;
	return 0;
}

static uint64_t class_hash(const struct index *ix, uint32_t number)
{
	return hash_bytes(class_at(ix, number), sizeof(struct name_class), ix->seed);
}

static bool class_is_same(const struct index *ix, uint32_t number, const void *key)
{
	return memcmp(class_at(ix, number), key, sizeof(struct name_class)) == 0;
}

/* Readers see it no later than the generation in which the class counts. */
static void count_words(struct index *ix, const struct name_class *c)
{
	uint32_t words = LIST_WORDS;
	uint64_t any = 0;

	for (; words > counter_get32(&ix->words); words--) {
		for (unsigned k = 0; k < KINDS; k++)
			any |= c->word[words - 1].kind[k];
		if (any)
			break;
	}
	if (any)
		atomic_store_explicit(&ix->words, words, memory_order_relaxed);
}

int class_intern(struct index *ix, const struct name_class *c, uint32_t *ret)
{
	uint32_t number = (uint32_t)counter_get(&ix->classes), *found;
	int r = intern_reserve(ix, &ix->class_ids, class_hash);

	if (r < 0)
		return r;
	found = intern_find(ix, &ix->class_ids, hash_bytes(c, sizeof(*c), ix->seed), c, class_is_same);
	if (*found) {
		*ret = *found - 1;
		return 0;
	}
	if (number == CLASSES_MAX)
		return NW_EFULL;
	if (!ix->class_chunk[number / CLASS_CHUNK]) {
		ix->class_chunk[number / CLASS_CHUNK] = calloc(CLASS_CHUNK, sizeof(struct name_class));
		if (!ix->class_chunk[number / CLASS_CHUNK])
			return -ENOMEM;
		counter_add(&ix->heap_bytes, CLASS_CHUNK * sizeof(struct name_class));
	}
	ix->class_chunk[number / CLASS_CHUNK][number % CLASS_CHUNK] = *c;
	count_words(ix, c);
	*found = number + 1;
	ix->class_ids.count++;
	counter_add(&ix->classes, 1);
	*ret = number;
	return 0;
}

unsigned class_kinds(const struct name_class *c, unsigned slot)
{
	unsigned kinds = 0;

	for (unsigned k = 0; k < KINDS; k++)
		kinds |= (unsigned)(c->word[slot / 64].kind[k] >> (slot % 64) & 1) << k;
	return kinds;
}

static void class_set(struct name_class *c, unsigned slot, unsigned kinds)
{
	for (unsigned k = 0; k < KINDS; k++) {
		c->word[slot / 64].kind[k] &= ~(1ull << (slot % 64));
		c->word[slot / 64].kind[k] |= (uint64_t)(kinds >> k & 1) << (slot % 64);
	}
}

int class_without(struct index *ix, const struct name_class *c, unsigned slot, uint32_t *ret)
{
	struct name_class left = *c;

	class_set(&left, slot, 0);
	return class_intern(ix, &left, ret);
}

/* The class that differs from `from` in what list `slot` says. A list left with KIND_MULTI alone does not hold the name. */
int class_step(struct index *ix, uint32_t from, unsigned slot, unsigned set, unsigned clear, uint32_t *ret)
{
	uint64_t key = (uint64_t)from << 32 | slot << 16 | set << 8 | clear;
	struct step *step = &ix->steps[(key * 0x9e3779b97f4a7c15ull) >> 54];
	struct name_class c;
	unsigned kinds;
	int r;

	assert((set || clear) && set < 1 << KINDS && clear < 1 << KINDS && slot < CONFIG_LISTS_MAX);
	if (step->key == key) {
		*ret = step->to;
		return 0;
	}
	c = *class_at(ix, from);
	kinds = (class_kinds(&c, slot) & ~clear) | set;
	if (kinds == KIND_MULTI)
		kinds = 0;
	class_set(&c, slot, kinds);
	r = class_intern(ix, &c, ret);
	if (r < 0)
		return r;
	*step = (struct step){.key = key, .to = *ret};
	return 0;
}

static uint64_t pair_hash(uint32_t old_class, uint32_t new_class)
{
	return ((uint64_t)old_class << 32 | new_class) * 0x9e3779b97f4a7c15ull >> 32;
}

static uint64_t pending_hash(const struct index *ix, uint32_t number)
{
	const struct pending *p = &ix->bank[ix->bank_now].chunk[number / PENDING_CHUNK][number % PENDING_CHUNK];

	return pair_hash(p->old_class, p->new_class);
}

static bool pending_is_same(const struct index *ix, uint32_t number, const void *key)
{
	const struct pending *p = &ix->bank[ix->bank_now].chunk[number / PENDING_CHUNK][number % PENDING_CHUNK], *pair = key;

	return p->old_class == pair->old_class && p->new_class == pair->new_class;
}

int pending_intern(struct index *ix, uint32_t old_class, uint32_t new_class, uint32_t *ret_value)
{
	struct pending key = {.old_class = old_class, .new_class = new_class, .generation = counter_get(&ix->generation) + 1};
	struct bank *b = &ix->bank[ix->bank_now];
	uint32_t flags = VALUE_PENDING | (ix->bank_now ? VALUE_BANK : 0), *found, number = b->count;
	int r = intern_reserve(ix, &ix->pending_ids, pending_hash);

	if (r < 0)
		return r;
	found = intern_find(ix, &ix->pending_ids, pair_hash(old_class, new_class), &key, pending_is_same);
	if (*found) {
		*ret_value = flags | (*found - 1);
		return 0;
	}
	if (number == PENDING_MAX)
		return NW_EFULL;
	if (!b->chunk[number / PENDING_CHUNK]) {
		b->chunk[number / PENDING_CHUNK] = calloc(PENDING_CHUNK, sizeof(struct pending));
		if (!b->chunk[number / PENDING_CHUNK])
			return -ENOMEM;
		counter_add(&ix->heap_bytes, PENDING_CHUNK * sizeof(struct pending));
	}
	b->chunk[number / PENDING_CHUNK][number % PENDING_CHUNK] = key;
	*found = number + 1;
	ix->pending_ids.count++;
	b->count++;
	*ret_value = flags | number;
	return 0;
}

void pending_flip(struct index *ix)
{
	ix->bank_now = !ix->bank_now;
	ix->bank[ix->bank_now].count = 0;
	counter_add(&ix->heap_bytes, -(int64_t)ix->pending_ids.size * (int64_t)sizeof(*ix->pending_ids.ids));
	free(ix->pending_ids.ids);
	ix->pending_ids = (struct intern){0};
}
