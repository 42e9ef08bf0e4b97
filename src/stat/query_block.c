/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Blocks of the query log, written and read. No I/O; one thread a block. */
#include "stat/query_block.h"
#include <string.h>
#include "base/hash.h"

enum { MAGIC = 0x3142514e /* "NQB1" */, TEXT_FOLLOWS = 0xff };

struct block_head {
	uint32_t magic, len;
	uint64_t check, base_ms;
};

struct block_record {
	uint8_t family, name_len, rcode, outcome;
	uint8_t filter, steer; /* number of the text from 1; 0: none */
	uint16_t qtype;
	int32_t after_ms; /* of base_ms; negative when the clock was set back */
	uint32_t took_us;
};
_Static_assert(sizeof(struct block_head) == 24 && sizeof(struct block_record) == 16, "no holes in what is written");

static size_t addr_len(uint8_t family)
{
	return family == AF_INET ? 4 : family == AF_INET6 ? 16 : 0;
}

static uint64_t check_of(const uint8_t *bytes, size_t len)
{
	size_t from = offsetof(struct block_head, base_ms);
	return hash_bytes(bytes + from, len - from, len);
}

/* --- writing --- */

void query_block_reset(struct query_block *b)
{
	b->len = 0;
	b->records = b->texts = 0;
}

static bool is_text(const struct query_block *b, unsigned i, const char *text, size_t len)
{
	const uint8_t *have = b->bytes + b->text_at[i];
	return *have == len && !memcmp(have + 1, text, len);
}

/* The text's number, written when it is new; -1: no room. */
static int add_text(struct query_block *b, const char *text)
{
	size_t len = text ? strnlen(text, QUERY_TEXT_MAX) : 0;
	if (!len)
		return 0;
	for (unsigned i = 0; i < b->texts; i++)
		if (is_text(b, i, text, len))
			return (int)i + 1;
	if (b->texts == QUERY_TEXTS_MAX || len + 2 > sizeof b->bytes - b->len)
		return -1;
	b->bytes[b->len++] = TEXT_FOLLOWS;
	b->text_at[b->texts++] = (uint16_t)b->len;
	b->bytes[b->len++] = (uint8_t)len;
	memcpy(b->bytes + b->len, text, len);
	b->len += len;
	return (int)b->texts;
}

bool query_block_add(struct query_block *b, const struct query_seen *q, const char *filter, const char *steer)
{
	if (!b->len) {
		b->len = sizeof(struct block_head);
		b->base_ms = q->wall_ms;
	}
	int64_t after = (int64_t)(q->wall_ms - b->base_ms);
	if (after > INT32_MAX || after < INT32_MIN)
		return false;
	size_t before = b->len, client_len = addr_len(q->client.family);
	unsigned texts = b->texts;
	int f = add_text(b, filter), s = add_text(b, steer);
	if (f < 0 || s < 0 || sizeof(struct block_record) + client_len + q->name_len > sizeof b->bytes - b->len) {
		b->len = before;
		b->texts = texts;
		return false;
	}
	struct block_record k = { .family = client_len ? q->client.family : 0, .name_len = q->name_len, .rcode = q->rcode, .outcome = q->outcome, .filter = (uint8_t)f,
		.steer = (uint8_t)s, .qtype = q->qtype, .after_ms = (int32_t)after, .took_us = q->took_us };
	memcpy(b->bytes + b->len, &k, sizeof k);
	b->len += sizeof k;
	memcpy(b->bytes + b->len, q->client.b, client_len);
	b->len += client_len;
	memcpy(b->bytes + b->len, q->name, q->name_len);
	b->len += q->name_len;
	b->records++;
	return true;
}

void query_block_end(struct query_block *b)
{
	struct block_head h = { .magic = MAGIC, .len = (uint32_t)b->len, .base_ms = b->base_ms };
	memcpy(b->bytes, &h, sizeof h);
	h.check = check_of(b->bytes, b->len);
	memcpy(b->bytes, &h, sizeof h);
}

/* --- reading --- */

size_t query_block_check(const uint8_t *bytes, size_t len)
{
	struct block_head h;
	if (len < sizeof h)
		return 0;
	memcpy(&h, bytes, sizeof h);
	if (h.magic != MAGIC || h.len < sizeof h || h.len > QUERY_BLOCK_MAX || h.len > len || h.check != check_of(bytes, h.len))
		return 0;
	return h.len;
}

size_t query_block_find(const uint8_t *bytes, size_t len, size_t at)
{
	static const uint32_t magic = MAGIC;
	while (at < len) {
		if (query_block_check(bytes + at, len - at))
			return at;
		const uint8_t *next = memmem(bytes + at + 1, len - at - 1, &magic, sizeof magic);
		at = next ? (size_t)(next - bytes) : len;
	}
	return len;
}

void query_block_open(struct query_reader *rd, const uint8_t *bytes, size_t len)
{
	struct block_head h;
	memcpy(&h, bytes, sizeof h);
	rd->at = bytes + sizeof h;
	rd->end = bytes + len;
	rd->base_ms = h.base_ms;
	rd->texts = 0;
}

static bool read_text(struct query_reader *rd)
{
	if (rd->end - rd->at < 2 || rd->end - rd->at - 2 < rd->at[1] || rd->texts == QUERY_TEXTS_MAX)
		return false;
	rd->text[rd->texts++] = rd->at + 1;
	rd->at += 2 + rd->at[1];
	return true;
}

static bool refer(const struct query_reader *rd, unsigned number, const char **ret, uint8_t *ret_len)
{
	*ret = NULL;
	*ret_len = 0;
	if (number > rd->texts)
		return false;
	if (number) {
		*ret = (const char *)rd->text[number - 1] + 1;
		*ret_len = *rd->text[number - 1];
	}
	return true;
}

static bool is_name(const uint8_t *wire, size_t len)
{
	size_t at = 0;
	while (at < len && wire[at] && wire[at] < 64)
		at += 1u + wire[at];
	return len <= NAME_WIRE_MAX && at + 1 == len && !wire[at];
}

bool query_block_next(struct query_reader *rd, struct query_entry *ret)
{
	struct block_record k;
	while (rd->at < rd->end && *rd->at == TEXT_FOLLOWS)
		if (!read_text(rd))
			return false;
	if ((size_t)(rd->end - rd->at) < sizeof k)
		return false;
	memcpy(&k, rd->at, sizeof k);
	size_t client_len = addr_len(k.family), room = (size_t)(rd->end - rd->at) - sizeof k;
	const uint8_t *more = rd->at + sizeof k;
	if (room < client_len + k.name_len || !is_name(more + client_len, k.name_len) || (k.family && !client_len) || k.outcome >= OUTCOMES)
		return false;
	*ret = (struct query_entry){ .wall_ms = rd->base_ms + (uint64_t)(int64_t)k.after_ms, .took_us = k.took_us, .qtype = k.qtype, .rcode = k.rcode, .outcome = k.outcome,
		.name_len = k.name_len, .name = more + client_len };
	ret->client.family = k.family;
	memcpy(ret->client.b, more, client_len);
	rd->at = more + client_len + k.name_len;
	return refer(rd, k.filter, &ret->filter, &ret->filter_len) && refer(rd, k.steer, &ret->steer, &ret->steer_len);
}
