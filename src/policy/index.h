/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One hash index for the names of all lists (docs/internals/index.md).
 *
 * Memory: an array of 64-byte buckets of eight 64-bit cells {tag:24, offset:40}, probed linearly until a bucket with an empty cell, and one
 * arena of entries {u32 value; wire suffix}. A value is the number of an interned class: the set of (list, kind) memberships of that name, or,
 * during an update, of a pending record {old class, new class, generation}, so that a reader sees an update whole or not at all.
 * One writer (the compiler thread); readers never wait and never write. Readers are in an rcu read section for as long as they hold results.
 * The whole index is position independent (offsets, no pointers inside buckets and arena), so it is written to and read from a file as it is.
 * Limits: 64 GiB of entries, 2^20 classes; an index over 80 % full, or out of classes, says NW_EFULL and is rebuilt beside. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "config/config.h"
#include "wire/name.h"

struct index;

/* A bit per list slot. */
#define LIST_WORDS (CONFIG_LISTS_MAX / 64)
struct list_bits { uint64_t w[LIST_WORDS]; };
static inline bool list_bits_has(const struct list_bits *b, unsigned slot) { return b->w[slot / 64] >> (slot % 64) & 1; }
static inline void list_bits_set(struct list_bits *b, unsigned slot) { b->w[slot / 64] |= 1ull << (slot % 64); }
static inline bool list_bits_any(const struct list_bits *a, const struct list_bits *b)
{
	uint64_t any = 0;
	for (int i = 0; i < LIST_WORDS; i++) any |= a->w[i] & b->w[i];
	return any != 0;
}

/* How a list holds a name. The less specific of the same list loses; EXEMPT beats a listing at the same name. KIND_ALLOW (adblock's @@||x^) stands
 * aside of that order: anywhere on the way from a name to the root it beats every listing of the list, more specific ones too. */
enum entry_kind { KIND_SUFFIX = 1, KIND_EXACT = 2, KIND_EXEMPT = 4 /* x and under */, KIND_EXEMPT_EXACT = 8, KIND_MULTI = 16 /* stands in more than one line */,
	KIND_ALLOW = 32 /* x and under */ };
/* `kind` arguments below are bits of entry_kind. A list that is left with KIND_MULTI alone does not hold the name. */

struct index *index_new(uint64_t expected_names, uint64_t seed); /* seed 0: fresh; NULL: out of memory */
void index_free(struct index *ix);                               /* takes NULL */

/* Reader. gen comes from index_generation(), read once per query and anew after every quiescent state: a number kept across one no longer names a
 * state that is seen whole. The writer's own thread may pass gen + 1 between index_begin and index_publish to see the update to come.
 * hashes by name_hash with index_seed(). index_lookup sets in *ret_listed the bit of every list that lists this name (itself or a parent, exceptions
 * applied: the most specific entry of a list decides), in *ret_allowed that of every list with a KIND_ALLOW on the way to the root. An allow does not
 * take the bit out of ret_listed: whoever asks combines the lists of a rule. */
uint64_t index_generation(const struct index *ix);
uint64_t index_seed(const struct index *ix);
/* A lookup of a listed name is two cache misses one after the other for each of its suffixes that can exist. index_prefetch lets those of one name overlap.
 * For a batch: hash and index_prefetch all names, then index_prefetch_entries all, then look all up; the misses of all names then overlap.
 * False: no suffix has an entry, as far as the first bucket of each tells. */
void index_prefetch(const struct index *ix, const struct name *n, const uint64_t *hashes);
bool index_prefetch_entries(const struct index *ix, const struct name *n, const uint64_t *hashes);
void index_lookup(const struct index *ix, uint64_t gen, const struct name *n, const uint64_t *hashes, struct list_bits *ret_listed, struct list_bits *ret_allowed);
/* For explain: the deciding entry of one list. Returns the kind bits that decide (0: none; KIND_ALLOW where one is on the way; an exempting kind where
 * both stand at one name), with KIND_MULTI beside, and the label at which the entry's name starts. */
unsigned index_decides(const struct index *ix, uint64_t gen, const struct name *n, const uint64_t *hashes, unsigned slot, unsigned *ret_label);
/* The kinds with which one list holds the suffix of n that starts at `label`, for a reader; 0: it does not hold it. */
unsigned index_kinds_at(const struct index *ix, uint64_t gen, const struct name *n, const uint64_t *hashes, unsigned slot, unsigned label);

/* Writer. Between index_begin and index_publish changes are invisible; index_publish makes them all visible at once by advancing the generation;
 * index_settle, after rcu_wait(), resolves pending records and takes away entries that nobody holds. index_abort undoes an update not yet published.
 * Strictly begin, publish, rcu_wait, settle (or begin, abort), then the next. After an error from a change the update can only be aborted. */
void index_begin(struct index *ix);
int index_add(struct index *ix, unsigned slot, const struct name *n, unsigned kind);    /* 0 (also when it stands already), -ENOMEM, NW_EFULL: index_abort, then index_rebuild */
int index_remove(struct index *ix, unsigned slot, const struct name *n, unsigned kind); /* 0, -ENOENT, -ENOMEM, NW_EFULL */
unsigned index_kinds(const struct index *ix, unsigned slot, const struct name *n);      /* as the writer sees it, pending included */
int index_remove_list(struct index *ix, unsigned slot);                                  /* everything of one list */
void index_publish(struct index *ix);
void index_settle(struct index *ix);
void index_abort(struct index *ix);
/* A compacted copy with room for `expected_names` in all; only between updates. The caller swaps pointers and frees the old after a grace period.
 * Same seed, next generation. NULL: out of memory. Due when NW_EFULL was said, or dead_bytes has grown past what the caller bears. */
struct index *index_rebuild(const struct index *ix, uint64_t expected_names);
/* The same without what one list holds: the start of a copy that gets all of the list anew. */
struct index *index_rebuild_without(const struct index *ix, unsigned slot, uint64_t expected_names);

struct index_stat { uint64_t names, buckets, arena_bytes, dead_bytes /* of deleted entries, until a rebuild */, memory_bytes, classes, tombstones; double load; };
void index_stat(const struct index *ix, struct index_stat *ret);
uint64_t index_count(const struct index *ix, unsigned slot); /* names of one list, as published */

/* The compiled form. Write: the whole index to fd from its position (the caller makes the file and renames it); only between updates.
 * Map: reads the whole of fd into memory, checksum and every offset validated; a file that does not validate is NW_EMALFORMED, never a crash.
 * `tag` (64 bytes) is the caller's: what texts the image stands for. 0 or a negative error. */
int index_write(const struct index *ix, int fd, const uint8_t tag[64]);
int index_map(struct index **ret, int fd, uint8_t ret_tag[64]);
