/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Wildcard patterns: parts between '*', each looked for at the first place where it stands behind the one before. That is enough: an earlier place never
 * leaves less room for what follows. The part that is tied to the end is compared there. Any thread. */
#include <string.h>

#include "policy/exprs_private.h"

static bool stands_at(const uint8_t *part, unsigned part_len, const uint8_t *symbols)
{
	for (unsigned i = 0; i < part_len; i++)
		if (expr_symbol[part[i]] != symbols[i])
			return false;
	return true;
}

static bool may_begin(enum rule_anchor anchor, const uint8_t *symbols, unsigned at)
{
	return anchor == ANCHOR_NONE || at == 0 || (anchor == ANCHOR_LABEL && symbols[at - 1] == SYM_DOT);
}

/* The first place from `from` to `to` (the last one allowed) where the part stands, or -1. */
static int find(const uint8_t *part, unsigned part_len, enum rule_anchor anchor, const uint8_t *symbols, int from, int to)
{
	uint8_t first = part_len ? expr_symbol[*part] : 0;

	for (int at = from; at <= to && (anchor != ANCHOR_BEGIN || at == 0); at++)
		if ((!part_len || symbols[at] == first) && may_begin(anchor, symbols, (unsigned)at) &&
		        stands_at(part, part_len, symbols + at))
			return at;
	return -1;
}

bool glob_matches(const uint8_t *body, unsigned body_len, enum rule_anchor anchor, bool is_at_end, const uint8_t *symbols,
        unsigned len, int *steps)
{
	const uint8_t *part = body, *end = body + body_len, *star;
	int at = 0, found, last;
	unsigned part_len;

	for (;; part = star + 1, anchor = ANCHOR_NONE) {
		star = memchr(part, '*', (size_t)(end - part));
		part_len = (unsigned)((star ? star : end) - part);
		last = (int)len - (int)part_len;
		if (!star && is_at_end)
			return last >= at && find(part, part_len, anchor, symbols, last, last) >= 0;
		found = find(part, part_len, anchor, symbols, at, last);
		*steps -= 1 + (found < 0 ? (int)len - at : found - at + (int)part_len);
		if (found < 0 || *steps < 0)
			return false;
		if (!star)
			return true;
		at = found + (int)part_len;
	}
}
