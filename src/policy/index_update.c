/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The writer's half of the name index: one update at a time, idle -> index_begin -> changes -> index_publish -> (grace period) ->
 * index_settle -> idle, or index_abort instead of index_publish. Every entry an update touches holds a pending record until it is
 * settled, and its cell stands in `touched`. The compiler thread only. */
#include "policy/index_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include "base/err.h"

#define NO_CELL UINT64_MAX
enum { TOUCHED_KEEP = 1 << 14 };

static _Atomic uint64_t *cell_at(const struct index *ix, uint64_t cell)
{
	return &ix->buckets[cell / CELLS].cell[cell % CELLS];
}

/* The entry of a name and its cell; or NULL and the cell where it would go (a tombstone before an empty cell), NO_CELL when there
 * is none. */
static struct entry *probe(const struct index *ix, uint64_t hash, const struct name *n, uint64_t *ret_cell)
{
	uint64_t at = hash_range(hash, ix->bucket_count), cell;
	bool has_empty = false;

	*ret_cell = NO_CELL;
	for (uint64_t count = 0; count < ix->bucket_count && !has_empty; count++) {
		for (unsigned i = 0; i < CELLS; i++) {
			cell = counter_get(&ix->buckets[at].cell[i]);
			if ((cell & CELL_OFFSET) < ARENA_FIRST) {
				has_empty |= cell == CELL_EMPTY;
				if (*ret_cell == NO_CELL)
					*ret_cell = at * CELLS + i;
			} else if (cell >> 40 == (hash & TAG_MASK) &&
				   entry_is(entry_at(ix, cell & CELL_OFFSET), n->wire, n->len)) {
				*ret_cell = at * CELLS + i;
				return entry_at(ix, cell & CELL_OFFSET);
			}
		}
		if (++at == ix->bucket_count)
			at = 0;
	}
	return NULL;
}

static unsigned empty_cells(const struct bucket *b)
{
	unsigned count = 0;

	for (unsigned i = 0; i < CELLS; i++)
		count += counter_get(&b->cell[i]) == CELL_EMPTY;
	return count;
}

static void count_label(struct index *ix, unsigned labels, int delta)
{
	_Atomic uint64_t *mask = &ix->label_mask[labels / 64];
	uint64_t bit = 1ull << (labels % 64), bits = counter_get(mask);

	ix->label_names[labels] += (uint64_t)delta;
	bits = ix->label_names[labels] ? bits | bit : bits & ~bit;
	atomic_store_explicit(mask, bits, memory_order_relaxed);
}

static int check_room(const struct index *ix)
{
	return counter_get(&ix->occupied) >= ix->cells_max || ix->full_buckets >= ix->full_buckets_max ? NW_EFULL : 0;
}

/* Writes a new entry and then its cell. The readers' generation makes the label mask visible before the entry counts. */
static int insert(struct index *ix, const struct name *n, uint64_t hash, uint64_t cell, uint32_t value)
{
	uint64_t offset = counter_get(&ix->arena_used), bytes = entry_bytes(n->len);
	struct entry *e;
	int r = arena_commit(ix, offset + bytes);

	if (r < 0)
		return r;
	e = entry_at(ix, offset);
	atomic_store_explicit(&e->value, value, memory_order_relaxed);
	memcpy(e->wire, n->wire, n->len);
	counter_add(&ix->arena_used, (int64_t)bytes);
	counter_add(&ix->occupied, 1);
	count_label(ix, n->labels, 1);
	if (counter_get(cell_at(ix, cell)) == CELL_TOMBSTONE)
		counter_add(&ix->tombstones, -1);
	else if (empty_cells(&ix->buckets[cell / CELLS]) == 1)
		ix->full_buckets++;
	atomic_store_explicit(cell_at(ix, cell), (hash & TAG_MASK) << 40 | offset, memory_order_release);
	return 0;
}

static void vacate(struct index *ix, uint64_t cell)
{
	struct entry *e = entry_at(ix, counter_get(cell_at(ix, cell)) & CELL_OFFSET);
	unsigned labels = 0, len = wire_length(e->wire, NAME_WIRE_MAX, &labels);
	bool is_open = empty_cells(&ix->buckets[cell / CELLS]) > 0;

	atomic_store_explicit(cell_at(ix, cell), is_open ? CELL_EMPTY : CELL_TOMBSTONE, memory_order_relaxed);
	if (!is_open)
		counter_add(&ix->tombstones, 1);
	count_label(ix, labels, -1);
	counter_add(&ix->occupied, -1);
	counter_add(&ix->dead_bytes, (int64_t)entry_bytes(len));
}

/* KIND_MULTI never stands alone. */
static uint64_t class_lists(const struct name_class *c, unsigned w)
{
	uint64_t bits = 0;

	for (unsigned k = 0; k < KINDS; k++)
		bits |= c->word[w].kind[k];
	return bits;
}

static void count_lists(_Atomic uint64_t *list_names, const struct name_class *c)
{
	for (unsigned w = 0; w < LIST_WORDS; w++)
		for (uint64_t bits = class_lists(c, w); bits; bits &= bits - 1)
			counter_add(&list_names[w * 64 + (unsigned)__builtin_ctzll(bits)], 1);
}

int index_place(struct index *ix, const struct name *n, uint64_t hash, uint32_t class_number)
{
	uint64_t cell;
	int r = check_room(ix);

	if (r < 0)
		return r;
	if (probe(ix, hash, n, &cell))
		return 0;
	if (cell == NO_CELL)
		return NW_EFULL;
	r = insert(ix, n, hash, cell, class_number);
	if (r < 0)
		return r;
	counter_add(&ix->names, 1);
	count_lists(ix->list_names, class_at(ix, class_number));
	return 0;
}

/* The class as the writer sees it: what is pending counts. */
static uint32_t newest_class(const struct index *ix, const struct entry *e)
{
	return entry_class(ix, e, UINT64_MAX);
}

static int touched_reserve(struct index *ix)
{
	size_t cap = ix->touched_cap ? ix->touched_cap * 2 : 256;
	uint32_t *grown;

	if (ix->touched_count < ix->touched_cap)
		return 0;
	grown = realloc(ix->touched, cap * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	counter_add(&ix->heap_bytes, (int64_t)((cap - ix->touched_cap) * sizeof(*grown)));
	ix->touched = grown;
	ix->touched_cap = cap;
	return 0;
}

static void touched_clear(struct index *ix)
{
	ix->touched_count = 0;
	if (ix->touched_cap <= TOUCHED_KEEP)
		return;
	counter_add(&ix->heap_bytes, -(int64_t)(ix->touched_cap * sizeof(*ix->touched)));
	free(ix->touched);
	ix->touched = NULL;
	ix->touched_cap = 0;
}

/* Gives an entry the class `to` in this update. */
static int entry_change(struct index *ix, struct entry *e, uint64_t cell, uint32_t to)
{
	uint32_t value = counter_get32(&e->value), old = value & VALUE_PENDING ? pending_at(ix, value)->old_class : value,
		 pending;
	int r = touched_reserve(ix);

	if (r == 0)
		r = pending_intern(ix, old, to, &pending);
	if (r < 0)
		return r;
	if (!(value & VALUE_PENDING))
		ix->touched[ix->touched_count++] = (uint32_t)cell;
	atomic_store_explicit(&e->value, pending, memory_order_release);
	return 0;
}

static int entry_add(struct index *ix, const struct name *n, uint64_t hash, uint64_t cell, uint32_t to)
{
	uint32_t pending;
	int r = cell == NO_CELL ? NW_EFULL : check_room(ix);

	if (r == 0)
		r = touched_reserve(ix);
	if (r == 0)
		r = pending_intern(ix, 0, to, &pending);
	if (r == 0)
		r = insert(ix, n, hash, cell, pending);
	if (r == 0)
		ix->touched[ix->touched_count++] = (uint32_t)cell;
	return r;
}

static void count_change(struct index *ix, unsigned slot, uint32_t from, uint32_t to)
{
	ix->names_delta += (to != 0) - (from != 0);
	ix->list_delta[slot] += (class_kinds(class_at(ix, to), slot) != 0) - (class_kinds(class_at(ix, from), slot) != 0);
}

void index_begin(struct index *ix)
{
	assert(ix->state == INDEX_IDLE);
	ix->state = INDEX_UPDATING;
	ix->names_delta = 0;
	memset(ix->list_delta, 0, sizeof(ix->list_delta));
}

int index_add(struct index *ix, unsigned slot, const struct name *n, unsigned kind)
{
	uint64_t hashes[NAME_LABELS_MAX + 1], cell;
	uint32_t from, to;
	struct entry *e;
	int r;

	assert(ix->state == INDEX_UPDATING);
	name_hash(n, ix->seed, hashes);
	e = probe(ix, hashes[0], n, &cell);
	from = e ? newest_class(ix, e) : 0;
	r = class_step(ix, from, slot, kind, 0, &to);
	if (r < 0 || from == to)
		return r;
	r = e ? entry_change(ix, e, cell, to) : entry_add(ix, n, hashes[0], cell, to);
	if (r == 0)
		count_change(ix, slot, from, to);
	return r;
}

int index_remove(struct index *ix, unsigned slot, const struct name *n, unsigned kind)
{
	uint64_t hashes[NAME_LABELS_MAX + 1], cell;
	uint32_t from, to;
	struct entry *e;
	int r;

	assert(ix->state == INDEX_UPDATING);
	name_hash(n, ix->seed, hashes);
	e = probe(ix, hashes[0], n, &cell);
	if (!e)
		return -ENOENT;
	from = newest_class(ix, e);
	r = class_step(ix, from, slot, 0, kind, &to);
	if (r < 0)
		return r;
	if (from == to)
		return -ENOENT;
	r = entry_change(ix, e, cell, to);
	if (r == 0)
		count_change(ix, slot, from, to);
	return r;
}

unsigned index_kinds(const struct index *ix, unsigned slot, const struct name *n)
{
	uint64_t hashes[NAME_LABELS_MAX + 1], cell;
	struct entry *e;

	name_hash(n, ix->seed, hashes);
	e = probe(ix, hashes[0], n, &cell);
	return e ? class_kinds(class_at(ix, newest_class(ix, e)), slot) : 0;
}

int index_remove_list(struct index *ix, unsigned slot)
{
	uint32_t from, to;
	struct entry *e;
	uint64_t word;
	int r = 0;

	assert(ix->state == INDEX_UPDATING);
	for (uint64_t cell = 0; r == 0 && cell < ix->bucket_count * CELLS; cell++) {
		word = counter_get(cell_at(ix, cell));
		if ((word & CELL_OFFSET) < ARENA_FIRST)
			continue;
		e = entry_at(ix, word & CELL_OFFSET);
		from = newest_class(ix, e);
		if (!class_kinds(class_at(ix, from), slot))
			continue;
		r = class_step(ix, from, slot, 0, (1 << KINDS) - 1, &to);
		if (r == 0)
			r = entry_change(ix, e, cell, to);
		if (r == 0)
			count_change(ix, slot, from, to);
	}
	return r;
}

void index_publish(struct index *ix)
{
	assert(ix->state == INDEX_UPDATING);
	counter_add(&ix->names, ix->names_delta);
	for (unsigned i = 0; i < CONFIG_LISTS_MAX; i++)
		if (ix->list_delta[i])
			counter_add(&ix->list_names[i], ix->list_delta[i]);
	atomic_store_explicit(&ix->generation, counter_get(&ix->generation) + 1, memory_order_release);
	ix->state = INDEX_PUBLISHED;
}

/* Gives every touched entry one of its two classes for good; entries that nobody holds leave their cells. */
static void resolve(struct index *ix, bool is_new)
{
	const struct pending *p;
	struct entry *e;
	uint32_t to;

	for (size_t i = 0; i < ix->touched_count; i++) {
		e = entry_at(ix, counter_get(cell_at(ix, ix->touched[i])) & CELL_OFFSET);
		p = pending_at(ix, counter_get32(&e->value));
		to = is_new ? p->new_class : p->old_class;
		atomic_store_explicit(&e->value, to, memory_order_release);
		if (!to)
			vacate(ix, ix->touched[i]);
	}
	touched_clear(ix);
	ix->state = INDEX_IDLE;
}

void index_settle(struct index *ix)
{
	assert(ix->state == INDEX_PUBLISHED);
	resolve(ix, true);
	pending_flip(ix);
}

void index_abort(struct index *ix)
{
	assert(ix->state == INDEX_UPDATING);
	resolve(ix, false);
}
