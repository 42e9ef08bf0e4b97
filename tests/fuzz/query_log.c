/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The reader of the query log's segments. Input that begins with 'R' has the checks of its blocks made right first, so that what is behind the check is
 * reached too. Every entry stays inside the bytes, has a name that is one and is printed as one line; what is read can be written and is read the same. */
#include <string.h>
#include "base/hash.h"
#include "fuzz.h"
#include "stat/query_text.h"

enum { HEAD = 24, CHECK_AT = 8, BASE_AT = 16 };

/* As a writer would have set them: every magic begins a block. */
static void make_right(uint8_t *bytes, size_t len)
{
	static const char magic[] = "NQB1";
	for (uint8_t *at = memmem(bytes, len, magic, 4); at; at = memmem(at + 1, len - (size_t)(at + 1 - bytes), magic, 4)) {
		uint32_t block_len;
		size_t room = len - (size_t)(at - bytes);
		if (room < HEAD)
			return;
		memcpy(&block_len, at + 4, 4);
		if (block_len < HEAD || block_len > room)
			block_len = (uint32_t)(room > QUERY_BLOCK_MAX ? QUERY_BLOCK_MAX : room);
		memcpy(at + 4, &block_len, 4);
		uint64_t check = hash_bytes(at + BASE_AT, block_len - BASE_AT, block_len);
		memcpy(at + CHECK_AT, &check, 8);
	}
}

static void check_text(const char *text, size_t len, const uint8_t *bytes, size_t all)
{
	CHECK(text ? (const uint8_t *)text >= bytes && (const uint8_t *)text + len <= bytes + all : !len);
}

static void write_again(const struct query_entry *e)
{
	static struct query_block b;
	struct query_reader rd;
	struct query_entry again;
	char filter[256], steer[256];
	struct query_seen q = { .wall_ms = e->wall_ms, .took_us = e->took_us, .qtype = e->qtype, .rcode = e->rcode, .outcome = e->outcome, .client = e->client, .name = e->name,
		.name_len = e->name_len };
	snprintf(filter, sizeof filter, "%.*s", (int)e->filter_len, e->filter ? e->filter : "");
	snprintf(steer, sizeof steer, "%.*s", (int)e->steer_len, e->steer ? e->steer : "");
	query_block_reset(&b);
	CHECK(query_block_add(&b, &q, filter, steer));
	query_block_end(&b);
	CHECK(query_block_check(b.bytes, b.len) == b.len);
	query_block_open(&rd, b.bytes, b.len);
	CHECK(query_block_next(&rd, &again));
	CHECK(again.wall_ms == e->wall_ms && again.qtype == e->qtype && again.outcome == e->outcome && again.name_len == e->name_len &&
	        !memcmp(again.name, e->name, e->name_len) && addr_equal(&again.client, &e->client));
	CHECK(!query_block_next(&rd, &again));
}

static void read_block(const uint8_t *bytes, size_t len)
{
	struct query_reader rd;
	struct query_entry e;
	struct name n;
	struct buf out;
	query_block_open(&rd, bytes, len);
	for (unsigned count = 0; query_block_next(&rd, &e); count++) {
		CHECK(count < QUERY_BLOCK_MAX / 17);
		CHECK(e.name >= bytes && e.name + e.name_len <= bytes + len && e.outcome < OUTCOMES);
		CHECK(name_from_wire(&n, e.name, e.name_len) == e.name_len);
		check_text(e.filter, e.filter_len, bytes, len);
		check_text(e.steer, e.steer_len, bytes, len);
		buf_init(&out, 1 << 16);
		query_entry_print(&e, &out);
		CHECK(!out.failed && out.bytes[out.len - 1] == '\n' && strlen(out.bytes) == out.len && strchr(out.bytes, '\n') == out.bytes + out.len - 1);
		buf_free(&out);
		write_again(&e);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t len)
{
	uint8_t *bytes = malloc(len + 1);
	memcpy(bytes, input, len);
	if (len && *input == 'R')
		make_right(bytes, len);
	size_t block_len;
	for (size_t at = query_block_find(bytes, len, 0); at < len; at = query_block_find(bytes, len, at + block_len)) {
		block_len = query_block_check(bytes + at, len - at);
		CHECK(block_len >= HEAD && block_len <= len - at);
		read_block(bytes + at, block_len);
	}
	free(bytes);
	return 0;
}
