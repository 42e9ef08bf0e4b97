/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Domain names in wire form (RFC 1035 3.1), lower-cased, uncompressed, with the root byte: at most 255 bytes, 127 labels. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/hash.h"

#define NAME_WIRE_MAX 255
#define NAME_TEXT_MAX 1024 /* every byte escaped as \DDD, with NUL */
#define NAME_LABELS_MAX 127

/* One name with its label offsets, made once per name and passed to index, cache and verdict. Only wire[0..len) and
 * offset[0..labels] are ever written or read; the rest is not zeroed.
 * hash[i] is the hash of the suffix that starts at label i (hash[labels] is the root's); name_hash() fills it right to left. */
struct name {
	uint8_t len;                         /* bytes, with the root byte */
	uint8_t labels;                      /* without the root */
	uint8_t offset[NAME_LABELS_MAX + 1]; /* offset[labels] is the root byte's */
	uint8_t wire[NAME_WIRE_MAX];
};

/* Takes a presentation name ("a.b", final dot or not, \DDD and \. escapes), lower-cases it. Labels may hold any byte.
 * 0, NW_EMALFORMED, NW_ETOOLONG. */
int name_from_text(struct name *ret, const char *text, size_t len);
/* The same for user input: Unicode is converted by IDNA2008/UTS46 (libidn2) when a byte is not ASCII. */
int name_from_user_text(struct name *ret, const char *text, size_t len);
/* Takes uncompressed wire bytes. Returns bytes consumed or NW_EMALFORMED. */
int name_from_wire(struct name *ret, const uint8_t *wire, size_t len);
/* Takes a possibly compressed name at `at` of a message (RFC 1035 4.1.4); pointers only go back, to names that end before the
 * name that points (never into the header), at most 127 jumps. Returns the offset behind the name as it stands at `at`, or
 * NW_EMALFORMED. */
int name_from_message(struct name *ret, const uint8_t *msg, size_t len, size_t at);
const char *name_to_text(char buf[NAME_TEXT_MAX], const uint8_t *wire); /* no final dot, "." for the root; returns buf */
bool name_equal(const struct name *a, const struct name *b);
bool name_is_under(const struct name *n, const struct name *parent); /* itself or below */

/* hash[] must have NAME_LABELS_MAX + 1 places; h(suffix i) = XXH3(label i, seed = h(suffix i+1)), h(root) = seed. */
void name_hash(const struct name *n, uint64_t seed, uint64_t hash[NAME_LABELS_MAX + 1]);
/* The hash of the whole name at once: for tables keyed with whole names. */
static inline uint64_t name_whole_hash(const struct name *n, uint64_t seed)
{
	return hash_bytes(n->wire, n->len, seed);
}
