/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What holds for the lines of every list format, for their fuzzers: a parser goes on to the end of the line in bounded steps, and
 * says nothing but what a list may hold. */
#pragma once
#include <string.h>

#include "fuzz.h"
#include "policy/list_entries.h"
#include "policy/list_format.h"

static inline void check_entry(const struct line_entry *e)
{
	struct entry_key k;
	struct buf b;

	switch (e->what) {
	case LINE_BAD:
		CHECK(e->why && *e->why);
		return;
	case LINE_EMPTY:
		return;
	case LINE_NAME:
		CHECK(e->name.len > 0 && e->name.offset[e->name.labels] == e->name.len - 1 && e->name.wire[e->name.len - 1] == 0);
		CHECK((e->kind & (e->kind - 1)) == 0 && e->kind && (e->kind <= KIND_EXEMPT_EXACT || e->kind == KIND_ALLOW));
		break;
	case LINE_PREFIX:
		CHECK(e->prefix.prefix.len <= (e->prefix.prefix.addr.family == AF_INET ? 32 : 128));
		break;
	case LINE_RULE:
		CHECK(e->rule && e->rule_len > 0 && e->rule_len <= EXPR_TEXT_MAX && !memchr(e->rule, '\n', e->rule_len));
		break;
	}
	entry_key_from_line(&k, e);
	buf_init(&b, 4096);
	CHECK(entry_key_print(&b, &k) == 0 && b.len > 0);
	buf_free(&b);
}

/* Every line of the bytes, each in a block of its own so that a read past its end is seen. */
static inline void check_lines(const struct list_format *f, const uint8_t *bytes, size_t len)
{
	const char *text = (const char *)bytes, *end = text + len, *nl;
	struct line_entry e;

	CHECK(f->probe(text, len) >= 0 && f->probe(text, len) <= 100);
	for (const char *p = text; p < end; p = nl + 1) {
		size_t at = 0, before, line_len;
		char *line;

		nl = memchr(p, '\n', (size_t)(end - p));
		if (!nl)
			nl = end;
		line_len = (size_t)(nl - p);
		line = malloc(line_len ? line_len : 1);
		CHECK(line);
		memcpy(line, p, line_len);
		do {
			before = at;
			f->parse(&e, line, line_len, &at);
			check_entry(&e);
			CHECK(at <= line_len && (at > before || at == line_len));
		} while (at < line_len);
		free(line);
	}
}
