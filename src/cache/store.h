/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The file of cache_save, in this machine's byte order (the magic tells). Inside the cache and for its fuzzer.
 *
 *   struct store_head, blocks, a block of no bytes: the end
 *   block: struct store_block, records; at most STORE_BLOCK_MAX bytes of them, no record in two blocks
 *   record: struct store_record, the message
 *
 * The check of each head and block is the XXH3 of what precedes it in the head, then of the records, seeded with the check before: a block that was
 * left out, doubled or moved is a damaged one. It is not cryptography: the reader takes every record for a stranger's. */
#pragma once
#include "base/hash.h"
#include "cache/cache.h"

#define STORE_MAGIC 0x6568636163776e01ull
enum { STORE_VERSION = 1, STORE_BLOCK_MAX = 1 << 18 };

struct store_head {
	uint64_t magic, version;
	int64_t wall_s; /* seconds since 1970 at which the ages were taken */
	uint64_t check;
};

struct store_block {
	uint64_t len;
	uint64_t check;
};

struct store_record {
	uint64_t signature; /* of the group */
	int64_t left_s;     /* of its life; 0 or less: how long it has been over */
	uint32_t age_s;     /* of its TTL fields */
	uint16_t msg_len;
	uint8_t variant, zero;
};

static inline uint64_t store_head_check(const struct store_head *h)
{
	return hash_bytes(h, offsetof(struct store_head, check), STORE_VERSION);
}

static inline uint64_t store_block_check(const struct store_block *b, const uint8_t *records, uint64_t before)
{
	return hash_bytes(records, b->len, hash_bytes(&b->len, sizeof(b->len), before));
}
