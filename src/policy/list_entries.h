/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A counted set of list entries (names with their kind, prefixes): differences of texts, overlays, the prefixes of a text. Heap;
 * one thread.
 *
 * Records lie one behind another in one byte array, {count, hash, kind, len, bytes}, found through an open-addressed table of
 * their offsets. A count of 0 means "not in the set"; such records are passed over and go when the set is copied. Offsets are 32
 * bits: a set past 4 GiB is NW_EFULL. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "policy/list_format.h"

/* kind: one KIND_ bit of index.h with a wire name as bytes, or ENTRY_PREFIX[_EXEMPT] with the 4 or 16 bytes of an address and the
 * prefix length. */
enum { ENTRY_PREFIX = 0x40, ENTRY_PREFIX_EXEMPT = 0x41 };
struct entry_key { uint8_t kind, len; uint8_t bytes[NAME_WIRE_MAX]; };
static inline bool entry_key_is_prefix(const struct entry_key *k) { return k->kind & ENTRY_PREFIX; }

void entry_key_from_line(struct entry_key *ret, const struct line_entry *e);   /* LINE_NAME or LINE_PREFIX */
void entry_key_name(struct name *ret, const struct entry_key *k);              /* of a name */
void entry_key_prefix(struct prefix_entry *ret, const struct entry_key *k);    /* of a prefix */
int entry_key_print(struct buf *out, const struct entry_key *k);               /* in list syntax */

struct entry_set { uint8_t *bytes; size_t used, cap; uint32_t *slots; size_t slot_count, records; uint64_t seed, total /* sum of counts */, distinct, prefixes /* distinct prefixes */; };
void entry_set_init(struct entry_set *s);
void entry_set_free(struct entry_set *s);
int entry_set_add(struct entry_set *s, const struct entry_key *k, uint32_t count); /* 0, -ENOMEM, NW_EFULL */
bool entry_set_take(struct entry_set *s, const struct entry_key *k);               /* one less; false: not in the set */
void entry_set_clear(struct entry_set *s, const struct entry_key *k);              /* count becomes 0 */
uint32_t entry_set_count(const struct entry_set *s, const struct entry_key *k);
int entry_set_copy(struct entry_set *ret, const struct entry_set *s);              /* ret is initialised by this */
/* Every entry with a count, in the order of insertion: for (size_t at = 0; entry_set_next(s, &at, &key, &count);) */
bool entry_set_next(const struct entry_set *s, size_t *at, struct entry_key *ret, uint32_t *ret_count);
