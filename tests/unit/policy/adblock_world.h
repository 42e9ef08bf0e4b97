/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A list of adblock lines as the tests ask it: what goes into the index is kept in an array and compared one by one, the rest is in a table of the bounded
 * stage. The verdict is put together as the filter does it. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "base/err.h"
#include "policy/exprs.h"
#include "policy/list_format.h"

enum { ADBLOCK_LINES_MAX = 64, SEED = 4711 };
struct adblock_world { struct { struct name name; unsigned kind; } entries[ADBLOCK_LINES_MAX]; unsigned count, bad_lines, prefixes; struct exprs *exprs; };

static void adblock_add(struct adblock_world *w, struct exprs_build *b, const char *line, size_t len)
{
	struct line_entry e;
	size_t at = 0;

	do {
		list_format_adblock.parse(&e, line, len, &at);
		w->bad_lines += e.what == LINE_BAD;
		w->prefixes += e.what == LINE_PREFIX;
		if (e.what == LINE_RULE)
			assert_int_equal(exprs_build_add(b, e.rule, e.rule_len), 0);
		if (e.what != LINE_NAME)
			continue;
		assert_true(w->count < ADBLOCK_LINES_MAX);
		w->entries[w->count].name = e.name;
		w->entries[w->count++].kind = e.kind;
	} while (at < len);
}

static void adblock_open(struct adblock_world *w, const char *const *lines, unsigned count)
{
	struct exprs_build *b = exprs_build_new(SEED);

	assert_non_null(b);
	*w = (struct adblock_world){0};
	for (unsigned i = 0; i < count; i++)
		adblock_add(w, b, lines[i], strlen(lines[i]));
	assert_int_equal(exprs_build_done(b, &w->exprs), 0);
}

static void adblock_close(struct adblock_world *w)
{
	exprs_free(w->exprs);
}

static void adblock_judge(const struct adblock_world *w, const char *host, uint16_t qtype, const struct expr_client *client, struct expr_result *ret)
{
	uint64_t hashes[NAME_LABELS_MAX + 1];
	struct name n;

	*ret = (struct expr_result){0};
	assert_int_equal(name_from_text(&n, host, strlen(host)), 0);
	name_hash(&n, SEED, hashes);
	if (w->exprs)
		exprs_judge(w->exprs, &n, hashes, qtype, client, ret);
}

static bool adblock_blocks(const struct adblock_world *w, const char *host, uint16_t qtype, const struct expr_client *client)
{
	struct expr_result r;
	unsigned said;
	struct name n;

	adblock_judge(w, host, qtype, client, &r);
	said = r.here;
	name_from_text(&n, host, strlen(host));
	for (unsigned i = 0; i < w->count; i++) {
		const struct name *e = &w->entries[i].name;
		unsigned label = (unsigned)(n.labels - e->labels), kind = w->entries[i].kind;

		if (!name_is_under(&n, e) || (kind == KIND_EXACT && label != 0))
			continue;
		if (kind == KIND_ALLOW && !expr_is_bad(r.bad_allow, label))
			said |= EXPR_ALLOW;
		if ((kind == KIND_EXACT && !(r.here & EXPR_BAD_EXACT)) || (kind == KIND_SUFFIX && !expr_is_bad(r.bad_block, label)))
			said |= EXPR_BLOCK;
	}
	if (said & EXPR_SPARE)
		return false;
	return (said & EXPR_IMPORTANT) || ((said & EXPR_BLOCK) && !(said & EXPR_ALLOW));
}
