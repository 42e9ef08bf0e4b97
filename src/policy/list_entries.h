/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A counted set of list entries (names with their kind, prefixes, rules): differences of texts, overlays, what a text holds beside
 * names. Heap; one thread.
 *
 * Records lie one behind another in one byte array, {count, hash, kind, len, bytes}, found through an open-addressed table of
 * their offsets. A count of 0 means "not in the set"; such records are passed over, and go when the set would have to grow and most
 * are such. Offsets are 32 bits: a set past 4 GiB is NW_EFULL. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "policy/list_format.h"

/* kind: one KIND_ bit of index.h with a wire name as bytes, ENTRY_PREFIX[_EXEMPT] with the 4 or 16 bytes of an address and the
 * prefix length, or ENTRY_RULE with the text of a rule of the bounded stage (exprs.h). */
enum { ENTRY_PREFIX = 0x80, ENTRY_PREFIX_EXEMPT = 0x81, ENTRY_RULE = 0x82 };
struct entry_key { uint8_t kind; uint16_t len; uint8_t bytes[EXPR_TEXT_MAX]; };
static inline bool entry_key_is_name(const struct entry_key *k) { return !(k->kind & ENTRY_PREFIX); }
static inline bool entry_key_is_rule(const struct entry_key *k) { return k->kind == ENTRY_RULE; }
static inline bool entry_key_is_prefix(const struct entry_key *k) { return !entry_key_is_name(k) && k->kind != ENTRY_RULE; }

void entry_key_from_line(struct entry_key *ret, const struct line_entry *e);   /* LINE_NAME, LINE_PREFIX or LINE_RULE */
void entry_key_name(struct name *ret, const struct entry_key *k);              /* of a name */
void entry_key_prefix(struct prefix_entry *ret, const struct entry_key *k);    /* of a prefix */
int entry_key_print(struct buf *out, const struct entry_key *k);               /* in list syntax; an allow and rules as adblock writes them */

struct entry_set { uint8_t *bytes; size_t used, cap; uint32_t *slots; size_t slot_count, records; uint64_t seed, total /* sum of counts */, distinct, names, prefixes, rules /* distinct ones of each */; };
static inline bool entry_set_has_beside(const struct entry_set *s) { return s->prefixes || s->rules; } /* entries that are no names */
void entry_set_init(struct entry_set *s);
void entry_set_free(struct entry_set *s);
int entry_set_add(struct entry_set *s, const struct entry_key *k, uint32_t count); /* 0, -ENOMEM, NW_EFULL */
bool entry_set_take(struct entry_set *s, const struct entry_key *k);               /* one less; false: not in the set */
void entry_set_clear(struct entry_set *s, const struct entry_key *k);              /* count becomes 0 */
uint32_t entry_set_count(const struct entry_set *s, const struct entry_key *k);
int entry_set_copy(struct entry_set *ret, const struct entry_set *s);              /* ret is initialised by this */
/* Every entry with a count, in the order of insertion: for (size_t at = 0; entry_set_next(s, &at, &key, &count);) */
bool entry_set_next(const struct entry_set *s, size_t *at, struct entry_key *ret, uint32_t *ret_count);
