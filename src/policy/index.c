/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The reader's half of the name index: probing, and merging the classes met on the way from a name to the root. Any thread inside
 * an rcu read section; no lock, no write. index_private.h says why a search is right while the writer works. */
#include "policy/index_private.h"

uint64_t index_generation(const struct index *ix)
{
	return atomic_load_explicit(&ix->generation, memory_order_acquire);
}

uint64_t index_seed(const struct index *ix)
{
	return ix->seed;
}

static const struct bucket *bucket_of(const struct index *ix, uint64_t hash)
{
	return &ix->buckets[hash_range(hash, ix->bucket_count)];
}

/* Is there an entry at all with as many labels as the suffix that starts at label i? */
static bool is_worth_probing(const uint64_t mask[2], const struct name *n, unsigned i)
{
	unsigned labels = n->labels - i;

	return mask[labels / 64] >> (labels % 64) & 1;
}

static void read_mask(const struct index *ix, uint64_t ret[2])
{
	ret[0] = atomic_load_explicit(&ix->label_mask[0], memory_order_relaxed);
	ret[1] = atomic_load_explicit(&ix->label_mask[1], memory_order_relaxed);
}

void index_prefetch(const struct index *ix, const struct name *n, const uint64_t *hashes)
{
	uint64_t mask[2];

	read_mask(ix, mask);
	for (unsigned i = 0; i <= n->labels; i++)
		if (is_worth_probing(mask, n, i))
			__builtin_prefetch(bucket_of(ix, hashes[i]));
}

/* Bit i: cell i has the tag. The cells are compared without a branch each: which of them matches cannot be predicted. */
static unsigned match_tag(const struct bucket *b, uint64_t tag, bool *ret_has_empty)
{
	unsigned matches = 0, empties = 0;
	uint64_t cell;

	for (unsigned i = 0; i < CELLS; i++) {
		cell = atomic_load_explicit(&b->cell[i], memory_order_relaxed);
		empties |= cell == CELL_EMPTY;
		matches |= (unsigned)(cell >> 40 == tag) << i;
	}
	*ret_has_empty = empties;
	return matches;
}

bool index_prefetch_entries(const struct index *ix, const struct name *n, const uint64_t *hashes)
{
	const struct bucket *b;
	uint64_t mask[2], cell;
	unsigned matches;
	bool has_empty, is_any = false;

	read_mask(ix, mask);
	for (unsigned i = 0; i <= n->labels; i++) {
		if (!is_worth_probing(mask, n, i))
			continue;
		b = bucket_of(ix, hashes[i]);
		matches = match_tag(b, hashes[i] & TAG_MASK, &has_empty);
		if (!matches)
			continue;
		cell = atomic_load_explicit(&b->cell[__builtin_ctz(matches)], memory_order_relaxed);
		__builtin_prefetch(ix->arena + (cell & CELL_OFFSET));
		is_any = true;
	}
	return is_any;
}

/* Looks at one bucket. Returns the entry, or NULL with *ret_has_empty saying whether the search ends here. */
static const struct entry *search_bucket(
	const struct index *ix, const struct bucket *b, uint64_t tag, const uint8_t *wire, unsigned len, bool *ret_has_empty)
{
	unsigned matches = match_tag(b, tag, ret_has_empty);
	uint64_t cell;

	for (; matches; matches &= matches - 1) {
		/* The entry's bytes are ordered by this second load, which may also see a newer cell. */
		cell = atomic_load_explicit(&b->cell[__builtin_ctz(matches)], memory_order_acquire);
		if (cell >> 40 == tag && (cell & CELL_OFFSET) >= ARENA_FIRST &&
			entry_is(entry_at(ix, cell & CELL_OFFSET), wire, len))
			return entry_at(ix, cell & CELL_OFFSET);
	}
	return NULL;
}

static const struct entry *find(const struct index *ix, uint64_t hash, const uint8_t *wire, unsigned len)
{
	const struct bucket *b = bucket_of(ix, hash);
	const struct entry *e;
	bool has_empty;

	for (uint64_t n = 0; n < ix->bucket_count; n++) {
		e = search_bucket(ix, b, hash & TAG_MASK, wire, len, &has_empty);
		if (e)
			return e;
		if (has_empty)
			break;
		if (++b == ix->buckets + ix->bucket_count)
			b = ix->buckets;
	}
	return NULL;
}

static const struct name_class *find_class(
	const struct index *ix, uint64_t gen, const struct name *n, const uint64_t *hashes, unsigned i)
{
	const struct entry *e = find(ix, hashes[i], n->wire + n->offset[i], n->len - n->offset[i]);
	uint32_t number = e ? entry_class(ix, e, gen) : 0;

	return number ? class_at(ix, number) : NULL;
}

void index_lookup(const struct index *ix, uint64_t gen, const struct name *n, const uint64_t *hashes,
	struct list_bits *ret_listed, struct list_bits *ret_allowed)
{
	unsigned words = atomic_load_explicit(&ix->words, memory_order_relaxed);
	uint64_t mask[2], listed, exempt;
	struct list_bits decided = {0};
	const struct name_class *c;

	memset(ret_listed, 0, sizeof(*ret_listed));
	memset(ret_allowed, 0, sizeof(*ret_allowed));
	read_mask(ix, mask);
	for (unsigned i = 0; i <= n->labels; i++) {
		if (!is_worth_probing(mask, n, i))
			continue;
		c = find_class(ix, gen, n, hashes, i);
		if (!c)
			continue;
		for (unsigned w = 0; w < words; w++) {
			const uint64_t *kind = c->word[w].kind;

			listed = kind[IN_SUFFIX];
			exempt = kind[IN_EXEMPT];
			if (i == 0) {
				listed |= kind[IN_EXACT];
				exempt |= kind[IN_EXEMPT_EXACT];
			}
			ret_listed->w[w] |= listed & ~exempt & ~decided.w[w];
			ret_allowed->w[w] |= kind[IN_ALLOW];
			decided.w[w] |= listed | exempt;
		}
	}
}

unsigned index_kinds_at(
	const struct index *ix, uint64_t gen, const struct name *n, const uint64_t *hashes, unsigned slot, unsigned label)
{
	const struct name_class *c = find_class(ix, gen, n, hashes, label);

	return c ? class_kinds(c, slot) : 0;
}

unsigned index_decides(
	const struct index *ix, uint64_t gen, const struct name *n, const uint64_t *hashes, unsigned slot, unsigned *ret_label)
{
	const unsigned exempt = KIND_EXEMPT | KIND_EXEMPT_EXACT;
	unsigned kinds, multi, decided = 0;

	for (unsigned i = 0; i <= n->labels; i++) {
		kinds = index_kinds_at(ix, gen, n, hashes, slot, i);
		multi = kinds & KIND_MULTI;
		if (kinds & KIND_ALLOW) {
			*ret_label = i;
			return multi | KIND_ALLOW;
		}
		kinds &= i ? KIND_SUFFIX | KIND_EXEMPT : KIND_SUFFIX | KIND_EXACT | exempt;
		if (!kinds || decided)
			continue;
		*ret_label = i;
		decided = multi | (kinds & exempt ? kinds & exempt : kinds);
	}
	return decided;
}

void index_stat(const struct index *ix, struct index_stat *ret)
{
	*ret = (struct index_stat){.names = counter_get(&ix->names),
		.buckets = ix->bucket_count,
		.arena_bytes = counter_get(&ix->arena_used),
		.memory_bytes = index_memory(ix),
		.classes = counter_get(&ix->classes),
		.tombstones = counter_get(&ix->tombstones),
		.dead_bytes = counter_get(&ix->dead_bytes)};
	ret->load = (double)counter_get(&ix->occupied) / (double)(ix->bucket_count * CELLS);
}

uint64_t index_count(const struct index *ix, unsigned slot)
{
	return slot < CONFIG_LISTS_MAX ? counter_get(&ix->list_names[slot]) : 0;
}
