/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Counted sets of list entries; see list_entries.h for the layout. */
#include "policy/list_entries.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"

/* len is two bytes without alignment, so that a name takes no more than it needs. */
struct record {
	uint32_t count, hash;
	uint8_t kind, len[2], bytes[];
};
enum { RECORD_FIRST = 4 /* so that offset 0 means a free slot */ };

static size_t record_bytes(unsigned len)
{
	return (offsetof(struct record, bytes) + len + 3) & ~(size_t)3;
}

static unsigned record_len(const struct record *r)
{
	return r->len[0] | (unsigned)r->len[1] << 8;
}

static struct record *record_at(const struct entry_set *s, size_t at)
{
	return (struct record *)(void *)(s->bytes + at);
}

void entry_key_from_line(struct entry_key *ret, const struct line_entry *e)
{
	const struct prefix *p = &e->prefix.prefix;
	unsigned n = p->addr.family == AF_INET ? 4 : 16;

	if (e->what == LINE_NAME) {
		ret->kind = (uint8_t)e->kind;
		ret->len = e->name.len;
		memcpy(ret->bytes, e->name.wire, e->name.len);
		return;
	}
	if (e->what == LINE_RULE) {
		ret->kind = ENTRY_RULE;
		ret->len = (uint16_t)e->rule_len;
		memcpy(ret->bytes, e->rule, e->rule_len);
		return;
	}
	ret->kind = e->prefix.is_exempt ? ENTRY_PREFIX_EXEMPT : ENTRY_PREFIX;
	memcpy(ret->bytes, p->addr.b, n);
	ret->bytes[n] = p->len;
	ret->len = (uint16_t)(n + 1);
}

void entry_key_name(struct name *ret, const struct entry_key *k)
{
	unsigned at = 0;

	ret->labels = 0;
	for (; k->bytes[at]; at += k->bytes[at] + 1u)
		ret->offset[ret->labels++] = (uint8_t)at;
	ret->offset[ret->labels] = (uint8_t)at;
	ret->len = (uint8_t)k->len;
	memcpy(ret->wire, k->bytes, k->len);
}

void entry_key_prefix(struct prefix_entry *ret, const struct entry_key *k)
{
	*ret = (struct prefix_entry){.is_exempt = k->kind == ENTRY_PREFIX_EXEMPT};
	ret->prefix.addr.family = k->len == 5 ? AF_INET : AF_INET6;
	memcpy(ret->prefix.addr.b, k->bytes, k->len - 1u);
	ret->prefix.len = k->bytes[k->len - 1];
}

int entry_key_print(struct buf *out, const struct entry_key *k)
{
	char text[NAME_TEXT_MAX];
	struct prefix_entry p;

	if (entry_key_is_rule(k))
		return buf_add(out, k->bytes, k->len);
	if (k->kind == KIND_ALLOW)
		return buf_printf(out, "@@||%s^", name_to_text(text, k->bytes));
	if (entry_key_is_prefix(k)) {
		entry_key_prefix(&p, k);
		return buf_printf(out, "%s%s", p.is_exempt ? "!" : "",
		        p.prefix.len == (k->len - 1) * 8 ? addr_print(text, &p.prefix.addr) : prefix_print(text, &p.prefix));
	}
	return buf_printf(out, "%s%s%s", k->kind & (KIND_EXEMPT | KIND_EXEMPT_EXACT) ? "!" : "",
	        k->kind & (KIND_EXACT | KIND_EXEMPT_EXACT) ? "=" : "", name_to_text(text, k->bytes));
}

void entry_set_init(struct entry_set *s)
{
	*s = (struct entry_set){.used = RECORD_FIRST, .seed = hash_seed()};
}

void entry_set_free(struct entry_set *s)
{
	free(s->bytes);
	free(s->slots);
	*s = (struct entry_set){.used = RECORD_FIRST, .seed = s->seed};
}

static uint32_t key_hash(const struct entry_set *s, const struct entry_key *k)
{
	return (uint32_t)hash_bytes(k->bytes, k->len, s->seed + k->kind);
}

/* The slot of the key, or the free slot where it goes. The table is never full. */
static uint32_t *find(const struct entry_set *s, const struct entry_key *k, uint32_t hash)
{
	size_t at = hash & (s->slot_count - 1);
	const struct record *r;

	for (; s->slots[at]; at = (at + 1) & (s->slot_count - 1)) {
		r = record_at(s, s->slots[at]);
		if (r->hash == hash && r->kind == k->kind && record_len(r) == k->len && memcmp(r->bytes, k->bytes, k->len) == 0)
			break;
	}
	return &s->slots[at];
}

static struct record *lookup(const struct entry_set *s, const struct entry_key *k)
{
	uint32_t *slot;

	if (!s->distinct)
		return NULL;
	slot = find(s, k, key_hash(s, k));
	return *slot ? record_at(s, *slot) : NULL;
}

/* The slots of all records, in a zeroed table. */
static void fill_slots(const struct entry_set *s, uint32_t *slots, size_t count)
{
	size_t i;

	for (size_t at = RECORD_FIRST; at < s->used; at += record_bytes(record_len(record_at(s, at)))) {
		for (i = record_at(s, at)->hash & (count - 1); slots[i]; i = (i + 1) & (count - 1))
			;
		slots[i] = (uint32_t)at;
	}
}

/* Takes out the records that are in the set no more. */
static void compact(struct entry_set *s)
{
	size_t to = RECORD_FIRST, bytes;

	s->records = 0;
	for (size_t at = RECORD_FIRST; at < s->used; at += bytes) {
		bytes = record_bytes(record_len(record_at(s, at)));
		if (!record_at(s, at)->count)
			continue;
		memmove(s->bytes + to, s->bytes + at, bytes);
		to += bytes;
		s->records++;
	}
	s->used = to;
	memset(s->slots, 0, s->slot_count * sizeof(*s->slots));
	fill_slots(s, s->slots, s->slot_count);
}

static int grow_slots(struct entry_set *s)
{
	size_t count = s->slot_count ? s->slot_count * 2 : 64;
	uint32_t *slots = calloc(count, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	fill_slots(s, slots, count);
	free(s->slots);
	s->slots = slots;
	s->slot_count = count;
	return 0;
}

static int grow_bytes(struct entry_set *s, size_t more)
{
	size_t cap = s->cap ? s->cap : 1024;
	uint8_t *bytes;

	if (s->used + more > UINT32_MAX)
		return NW_EFULL;
	while (cap < s->used + more)
		cap += cap / 2;
	bytes = realloc(s->bytes, cap);
	if (!bytes)
		return -ENOMEM;
	s->bytes = bytes;
	s->cap = cap;
	return 0;
}

/* Room for one more record of so many bytes. */
static int reserve(struct entry_set *s, size_t bytes)
{
	int r = 0;

	if (s->slot_count && (s->records + 1) * 4 <= s->slot_count * 3 && s->used + bytes <= s->cap)
		return 0;
	if (s->records > 2 * s->distinct)
		compact(s);
	if (!s->slot_count || (s->records + 1) * 4 > s->slot_count * 3)
		r = grow_slots(s);
	return r == 0 && s->used + bytes > s->cap ? grow_bytes(s, bytes) : r;
}

/* What counts the distinct entries of a kind, beside `distinct`. */
static uint64_t *count_of(struct entry_set *s, uint8_t kind)
{
	return kind == ENTRY_RULE ? &s->rules : kind & ENTRY_PREFIX ? &s->prefixes : &s->names;
}

static void count_up(struct entry_set *s, struct record *r, uint32_t count)
{
	if (!r->count) {
		s->distinct++;
		*count_of(s, r->kind) += 1;
	}
	if (count > UINT32_MAX - r->count)
		count = UINT32_MAX - r->count;
	r->count += count;
	s->total += count;
}

static void count_down(struct entry_set *s, struct record *r, uint32_t count)
{
	r->count -= count;
	s->total -= count;
	if (count && !r->count) {
		s->distinct--;
		*count_of(s, r->kind) -= 1;
	}
}

int entry_set_add(struct entry_set *s, const struct entry_key *k, uint32_t count)
{
	uint32_t hash = key_hash(s, k), *slot;
	struct record *rec;
	int r = reserve(s, record_bytes(k->len));

	if (r < 0)
		return r;
	slot = find(s, k, hash);
	if (!*slot) {
		*slot = (uint32_t)s->used;
		rec = record_at(s, s->used);
		*rec = (struct record){.hash = hash, .kind = k->kind, .len = {(uint8_t)k->len, (uint8_t)(k->len >> 8)}};
		memcpy(rec->bytes, k->bytes, k->len);
		s->used += record_bytes(k->len);
		s->records++;
	}
	count_up(s, record_at(s, *slot), count);
	return 0;
}

bool entry_set_take(struct entry_set *s, const struct entry_key *k)
{
	struct record *r = lookup(s, k);

	if (!r || !r->count)
		return false;
	count_down(s, r, 1);
	return true;
}

void entry_set_clear(struct entry_set *s, const struct entry_key *k)
{
	struct record *r = lookup(s, k);

	if (r)
		count_down(s, r, r->count);
}

uint32_t entry_set_count(const struct entry_set *s, const struct entry_key *k)
{
	const struct record *r = lookup(s, k);

	return r ? r->count : 0;
}

bool entry_set_next(const struct entry_set *s, size_t *at, struct entry_key *ret, uint32_t *ret_count)
{
	const struct record *r;

	if (*at < RECORD_FIRST)
		*at = RECORD_FIRST;
	while (*at < s->used) {
		r = record_at(s, *at);
		*at += record_bytes(record_len(r));
		if (!r->count)
			continue;
		ret->kind = r->kind;
		ret->len = (uint16_t)record_len(r);
		memcpy(ret->bytes, r->bytes, ret->len);
		*ret_count = r->count;
		return true;
	}
	return false;
}

int entry_set_copy(struct entry_set *ret, const struct entry_set *s)
{
	struct entry_key k;
	uint32_t count;
	int r = 0;

	entry_set_init(ret);
	for (size_t at = 0; r == 0 && entry_set_next(s, &at, &k, &count);)
		r = entry_set_add(ret, &k, count);
	if (r < 0)
		entry_set_free(ret);
	return r;
}
