/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The insides of the name index, shared by index*.c only.
 *
 * A bucket is one cache line of eight cells {tag:24, offset:40}. A cell is written whole by one atomic store. A name's home
 * bucket comes from the high bits of its hash, its tag from the low ones. A search goes on to the next bucket while a bucket has
 * no empty cell; so a bucket that once was full never gets an empty cell again (a deletion there leaves a tombstone), and a
 * deletion elsewhere may simply write "empty". Entries never move and their bytes are never reused while the index lives: a
 * reader that still holds a deleted entry reads the empty class.
 *
 * An entry's value is a class number, or PENDING | bank | number of a pending record. Records of one update stand in one bank;
 * the next update uses the other bank, so a record is overwritten only after the grace period of the update that followed its
 * own. An abort has no grace period: it leaves its bank as it is, and the next update, which has the same generation number, goes
 * on in it. */
#pragma once
#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include "base/hash.h"
#include "policy/index.h"

enum { CELLS = 8, KINDS = 6 };
/* Places of the kinds in a class. */
enum { IN_SUFFIX, IN_EXACT, IN_EXEMPT, IN_EXEMPT_EXACT, IN_MULTI, IN_ALLOW };
#define CELL_EMPTY 0ull
#define CELL_TOMBSTONE 1ull
#define CELL_OFFSET ((1ull << 40) - 1)
#define TAG_MASK 0xffffffull
#define ARENA_FIRST 8ull /* offsets below mean an empty cell or a tombstone */

/* Limits. Cells are counted in 32 bits; classes and pending pairs past their limit are NW_EFULL, and a rebuild drops the unused
 * ones. */
#define ARENA_MAX (64ull << 30)
#define BUCKETS_MAX (1ull << 29)
#define BUCKETS_MIN 64ull
enum { CLASS_CHUNK = 256, CLASS_CHUNKS = 4096, CLASSES_MAX = CLASS_CHUNK * CLASS_CHUNKS };
enum { PENDING_CHUNK = 1024, PENDING_CHUNKS = 1024, PENDING_MAX = PENDING_CHUNK * PENDING_CHUNKS };

#define VALUE_PENDING 0x80000000u
#define VALUE_BANK 0x40000000u
#define VALUE_NUMBER 0x3fffffffu

struct bucket {
	alignas(64) _Atomic uint64_t cell[CELLS];
};
struct entry {
	_Atomic uint32_t value;
	uint8_t wire[]; /* lower case, padded with zeros to four bytes */
};
/* By words of the list slots, so that a look-up reads one cache line of it where there are no more than 64 lists. */
struct name_class {
	struct {
		uint64_t kind[KINDS]; /* kind[k]: the lists that hold the name with kind 1 << k */
	} word[LIST_WORDS];
};
struct pending {
	uint32_t old_class, new_class;
	uint64_t generation;
};

/* An open-addressed set of numbers, for interning. Writer only. */
struct intern {
	uint32_t *ids; /* number + 1 */
	uint32_t size, count;
};
struct bank {
	uint32_t count;
	struct pending *chunk[PENDING_CHUNKS];
};
/* A remembered step from class to class. key 0: unused. */
struct step {
	uint64_t key;
	uint32_t to;
};
enum { STEPS = 1024 };

enum index_state { INDEX_IDLE, INDEX_UPDATING, INDEX_PUBLISHED };

struct index {
	/* Read on the hot path. */
	struct bucket *buckets;
	uint64_t bucket_count;
	uint8_t *arena;
	uint64_t seed;
	_Atomic uint64_t generation;
	_Atomic uint64_t label_mask[2]; /* bit n: some entry has n labels */
	_Atomic uint32_t words;         /* of list slots that any class uses */
	struct name_class *class_chunk[CLASS_CHUNKS];
	struct bank bank[2];

	/* Written by the writer; the counters may be read by anyone. */
	_Atomic uint64_t names, occupied, tombstones, arena_used, dead_bytes, classes, heap_bytes;
	_Atomic uint64_t list_names[CONFIG_LISTS_MAX];
	uint64_t arena_committed, arena_reserved, arena_joined, cells_max, full_buckets, full_buckets_max;
	uint64_t label_names[NAME_LABELS_MAX + 1];
	enum index_state state;
	unsigned bank_now;
	struct intern class_ids, pending_ids;
	struct step *steps;
	uint32_t *touched; /* cells whose entries this update has changed */
	size_t touched_count, touched_cap;
	int64_t names_delta, list_delta[CONFIG_LISTS_MAX]; /* applied by index_publish */
};

/* One writer, so no read-modify-write is needed. */
static inline void counter_add(_Atomic uint64_t *counter, int64_t delta)
{
	atomic_store_explicit(
		counter, atomic_load_explicit(counter, memory_order_relaxed) + (uint64_t)delta, memory_order_relaxed);
}

static inline uint64_t counter_get(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static inline uint32_t counter_get32(const _Atomic uint32_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static inline struct entry *entry_at(const struct index *ix, uint64_t offset)
{
	return (struct entry *)(void *)(ix->arena + offset);
}

static inline const struct name_class *class_at(const struct index *ix, uint32_t number)
{
	return &ix->class_chunk[number / CLASS_CHUNK][number % CLASS_CHUNK];
}

static inline struct pending *pending_at(const struct index *ix, uint32_t value)
{
	const struct bank *b = &ix->bank[!!(value & VALUE_BANK)];
	uint32_t number = value & VALUE_NUMBER;

	return &b->chunk[number / PENDING_CHUNK][number % PENDING_CHUNK];
}

/* The class of an entry as a reader of generation gen sees it. */
static inline uint32_t entry_class(const struct index *ix, const struct entry *e, uint64_t gen)
{
	uint32_t value = atomic_load_explicit(&e->value, memory_order_acquire);
	const struct pending *p;

	if (!(value & VALUE_PENDING))
		return value;
	p = pending_at(ix, value);
	return gen >= p->generation ? p->new_class : p->old_class;
}

/* A wire name is never the beginning of another, so a comparison that stops at the first different word stays inside the entry. */
static inline bool entry_is(const struct entry *e, const uint8_t *wire, unsigned len)
{
	uint32_t a, b;
	unsigned i;

	for (i = 0; i + 4 <= len; i += 4) {
		memcpy(&a, e->wire + i, 4);
		memcpy(&b, wire + i, 4);
		if (a != b)
			return false;
	}
	for (; i < len; i++)
		if (e->wire[i] != wire[i])
			return false;
	return true;
}

static inline uint64_t entry_bytes(unsigned wire_len)
{
	return (sizeof(struct entry) + wire_len + 3) & ~3ull;
}

/* Length of the wire name at w, 0 when it does not end within max bytes and 255. */
static inline unsigned wire_length(const uint8_t *w, uint64_t max, unsigned *ret_labels)
{
	unsigned at = 0, labels = 0;

	for (;;) {
		if (at >= max || at >= NAME_WIRE_MAX || w[at] > 63)
			return 0;
		if (w[at] == 0)
			break;
		at += w[at] + 1u;
		labels++;
	}
	*ret_labels = labels;
	return at + 1;
}

/* index_memory.c */
struct index *index_create(
	uint64_t buckets, uint64_t seed, uint64_t arena_bytes /* that will be used at least */); /* NULL: out of memory */
uint64_t index_buckets_for(uint64_t names);
uint64_t index_sure_bytes(uint64_t names); /* of the arena that so many names use, surely */
int arena_commit(struct index *ix, uint64_t used); /* makes bytes up to `used` writable: 0, -ENOMEM, NW_EFULL */
uint64_t index_memory(const struct index *ix);     /* any thread */

/* index_class.c */
int class_intern(struct index *ix, const struct name_class *c, uint32_t *ret); /* 0, -ENOMEM, NW_EFULL */
int class_without(struct index *ix, const struct name_class *c, unsigned slot, uint32_t *ret); /* c as others hold it */
int class_step(struct index *ix, uint32_t from, unsigned slot, unsigned set, unsigned clear, uint32_t *ret);
unsigned class_kinds(const struct name_class *c, unsigned slot);
int pending_intern(struct index *ix, uint32_t old_class, uint32_t new_class, uint32_t *ret_value);
void pending_flip(struct index *ix); /* the other bank, emptied */

/* index_update.c: puts a settled entry into an index no reader has seen. */
int index_place(struct index *ix, const struct name *n, uint64_t hash, uint32_t class_number);
