/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "exit_dns.h"
#include <string.h>

enum { HEADER = 12, TYPE_OPT = 41, TYPE_SVCB = 64, HINT_4 = 4, HINT_6 = 6 };

static void put16(uint8_t *p, unsigned v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static unsigned get16(const uint8_t *p)
{
	return (unsigned)p[0] << 8 | p[1];
}

size_t query_make(uint8_t ret[QUERY_MAX], uint16_t id, const char *name, uint16_t type)
{
	size_t at = HEADER;

	memset(ret, 0, HEADER);
	put16(ret, id);
	ret[2] = 1; /* RD */
	ret[5] = 1;
	ret[11] = 1;
	while (*name) {
		size_t len = strcspn(name, ".");
		if (!len || len > 63 || at + len + 2 > HEADER + 255)
			return 0;
		ret[at++] = (uint8_t)len;
		memcpy(ret + at, name, len);
		at += len;
		name += len + (name[len] == '.');
	}
	ret[at++] = 0;
	put16(ret + at, type);
	put16(ret + at + 2, 1);
	memcpy(ret + at + 4, (uint8_t[11]){0, 0, TYPE_OPT, 1232 >> 8, 1232 & 255}, 11);
	return at + 4 + 11;
}

/* Where the name at `at` ends, 0 when it is not one. */
static size_t name_skip(const uint8_t *m, size_t len, size_t at)
{
	while (at < len) {
		if (!m[at])
			return at + 1;
		if (m[at] >= 0xc0)
			return at + 2 <= len ? at + 2 : 0;
		if (m[at] > 63)
			return 0;
		at += 1 + m[at];
	}
	return 0;
}

static void add(struct reply *r, const uint8_t *p, bool is_6)
{
	if (r->address_count == ADDRESSES_MAX)
		return;
	struct address *a = &r->address[r->address_count++];
	a->is_6 = is_6;
	memcpy(a->b, p, is_6 ? 16 : 4);
}

static int hints_take(struct reply *r, const uint8_t *m, size_t at, size_t end)
{
	if (at + 2 > end || !(at = name_skip(m, end, at + 2)))
		return -1;
	while (at + 4 <= end) {
		unsigned key = get16(m + at), size = get16(m + at + 2), step = key == HINT_6 ? 16 : 4;
		at += 4;
		if (at + size > end)
			return -1;
		for (unsigned i = 0; (key == HINT_4 || key == HINT_6) && i + step <= size; i += step)
			add(r, m + at + i, key == HINT_6);
		at += size;
	}
	return at == end ? 0 : -1;
}

int reply_parse(struct reply *ret, const uint8_t *m, size_t len)
{
	size_t at = HEADER;

	ret->address_count = 0;
	if (len < HEADER || !(m[2] & 0x80))
		return -1;
	ret->id = (uint16_t)get16(m);
	ret->rcode = m[3] & 15;
	ret->is_truncated = m[2] & 2;
	ret->answers = get16(m + 6);
	for (unsigned i = get16(m + 4); i; i--)
		if (!(at = name_skip(m, len, at)) || (at += 4) > len)
			return -1;
	unsigned authorities = get16(m + 8), count = ret->answers + authorities + get16(m + 10);
	for (unsigned i = 0; i < count; i++) {
		if (!(at = name_skip(m, len, at)) || at + 10 > len)
			return -1;
		unsigned type = get16(m + at), size = get16(m + at + 8);
		at += 10;
		if (at + size > len)
			return -1;
		bool is_used = i < ret->answers || i >= ret->answers + authorities;
		if (is_used && type == DNS_A && size == 4)
			add(ret, m + at, false);
		else if (is_used && type == DNS_AAAA && size == 16)
			add(ret, m + at, true);
		else if (is_used && (type == DNS_HTTPS || type == TYPE_SVCB) && hints_take(ret, m, at, at + size) < 0)
			return -1;
		at += size;
	}
	return at == len ? 0 : -1;
}
