/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Expressions and wildcards: the first line is a name, each further one a pattern. What is looked for before a pattern is tried (fixed parts, length, symbols)
 * never hides a match: the table says of a name what the automaton, or the glob, says alone. */
#include <string.h>

#include "base/err.h"
#include "fuzz.h"
#include "policy/exprs_private.h"

enum { SEED = 9 };

/* The symbols of a name without odd bytes; false: it has some. */
static bool symbols_of(const struct name *n, uint8_t *ret, unsigned *ret_len)
{
	char text[NAME_TEXT_MAX];
	size_t len = strlen(name_to_text(text, n->wire));

	if (memchr(text, '\\', len) || len > NAME_WIRE_MAX || n->labels == 0)
		return false;
	for (size_t i = 0; i < len; i++)
		ret[i] = expr_symbol[(uint8_t)text[i]];
	*ret_len = (unsigned)len;
	return true;
}

static void compare(const struct name *n, const uint8_t *symbols, unsigned len, const char *rule, size_t rule_len)
{
	static struct rule_text t;
	static struct compiled c;
	uint64_t hashes[NAME_LABELS_MAX + 1];
	struct exprs_build *b;
	struct expr_result r;
	const char *why = NULL;
	struct exprs *e;
	int steps = EXPRS_STEPS_MAX;
	bool is_match;

	if (rule_parse(&t, rule, rule_len, &why) < 0 || (t.pattern != PATTERN_GLOB && t.pattern != PATTERN_REGEX) ||
	        !rule_is_plain(&t) || rule_compile(&t, &c, &why) < 0)
		return;
	if (t.pattern == PATTERN_REGEX)
		is_match = nfa_matches(c.program, symbols, len, &steps);
	else
		is_match = glob_matches(t.body, t.body_len, t.anchor, t.is_at_end, symbols, len, &steps);
	free(c.program);
	CHECK(steps >= 0);
	b = exprs_build_new(SEED);
	CHECK(b && exprs_build_add(b, rule, rule_len) == 0 && exprs_build_done(b, &e) == 0 && e);
	name_hash(n, SEED, hashes);
	exprs_judge(e, n, hashes, 1, NULL, &r);
	CHECK(r.is_cut || (r.here != 0) == is_match);
	exprs_free(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	const char *text = (const char *)bytes, *end = text + len, *nl = memchr(text, '\n', len);
	uint8_t symbols[NAME_WIRE_MAX];
	unsigned symbol_count;
	struct name n;

	if (!nl || name_from_text(&n, text, (size_t)(nl - text)) < 0 || !symbols_of(&n, symbols, &symbol_count))
		return 0;
	for (const char *p = nl + 1; p < end; p = nl + 1) {
		nl = memchr(p, '\n', (size_t)(end - p));
		if (!nl)
			nl = end;
		compare(&n, symbols, symbol_count, p, (size_t)(nl - p));
	}
	return 0;
}
