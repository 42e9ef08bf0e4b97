/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The query log's bytes in a file: blocks, each whole in itself. Byte order is the machine's: the files stay on it.
 *
 *   head     magic, length of the whole block, check (XXH3 over all that follows it), wall-clock time of the first record
 *   entries  text:   0xff, length, bytes: the next rule's name that records of this block refer to by number
 *            record: struct of 16 bytes, client's address (0, 4 or 16), name in wire form
 *
 * A block that was not written to its end, or was damaged since, fails its check. The reader trusts nothing: also with a right check it stays inside
 * the bytes and gives only names that are names. */
#pragma once
#include "stat/query_ring.h"

enum { QUERY_BLOCK_MAX = 32768, QUERY_BLOCK_RECORDS_MAX = QUERY_BLOCK_MAX / 17 /* of a head and the root */, QUERY_TEXT_MAX = 127, QUERY_TEXTS_MAX = 254 };

/* --- writing --- */

struct query_block {
	size_t len; /* 0: empty */
	unsigned records, texts;
	uint64_t base_ms;
	uint16_t text_at[QUERY_TEXTS_MAX];
	uint8_t bytes[QUERY_BLOCK_MAX];
};
void query_block_reset(struct query_block *b);
/* filter, steer: names of the rules or NULL; longer ones are cut. False: it does not fit; end the block and add it to an empty one, where it does. */
bool query_block_add(struct query_block *b, const struct query_seen *q, const char *filter, const char *steer);
void query_block_end(struct query_block *b); /* before it is written: bytes[0..len) */

/* --- reading --- */

struct query_entry {
	uint64_t wall_ms;
	uint32_t took_us;
	uint16_t qtype;
	uint8_t rcode, outcome, name_len, filter_len, steer_len;
	struct addr client;
	const uint8_t *name;         /* in the bytes read */
	const char *filter, *steer;  /* the same, not terminated; NULL: none */
};

struct query_reader {
	const uint8_t *at, *end;
	uint64_t base_ms;
	unsigned texts;
	const uint8_t *text[QUERY_TEXTS_MAX]; /* at the length byte */
};
/* Length of the whole, undamaged block that begins here, or 0. */
size_t query_block_check(const uint8_t *bytes, size_t len);
/* Where the first whole block at or behind `at` begins; len: there is none. */
size_t query_block_find(const uint8_t *bytes, size_t len, size_t at);
/* Of a block that was checked. */
void query_block_open(struct query_reader *rd, const uint8_t *bytes, size_t len);
bool query_block_next(struct query_reader *rd, struct query_entry *ret); /* false: no more */
