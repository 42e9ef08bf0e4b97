/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The fixed parts of a pattern: a set of strings of which one stands in every name that matches. It is drawn from the expression's tree with two
 * answers for each subtree: all strings it can match, when they are few (`exact`), and the best set found inside it (`must`). SYM_BEGIN and SYM_END count
 * as characters, so `^ad` and `\.example$` are told from the same letters elsewhere. A set is worth what its weakest string is: long is good, digits are
 * better than letters, a bare top-level domain is hardly anything.
 *
 * When in doubt a subtree has no answer; a set that was too narrow would lose matches. No state; any thread. */
#include <string.h>

#include "policy/exprs_private.h"

struct answer {
	struct literal_set exact, must;
}; /* count 0: none */

static bool is_equal(const struct literal *a, const struct literal *b)
{
	return a->len == b->len && memcmp(a->s, b->s, a->len) == 0;
}

static bool add(struct literal_set *s, const struct literal *l)
{
	for (unsigned i = 0; i < s->count; i++)
		if (is_equal(&s->v[i], l))
			return true;
	if (s->count == LITERALS_MAX)
		return false;
	s->v[s->count++] = *l;
	return true;
}

static void set_empty_string(struct literal_set *s)
{
	s->count = 1;
	s->v[0].len = 0;
}

/* --- Worth --- */

static bool is_top_level(const struct literal *l)
{
	if (l->s[l->len - 1] != SYM_END)
		return false;
	for (unsigned i = 0; i + 1 < l->len; i++)
		if (!(SET_LETTERS >> l->s[i] & 1) && (i > 0 || l->s[i] != SYM_DOT))
			return false;
	return true;
}

static unsigned literal_worth(const struct literal *l)
{
	unsigned worth = 0;

	if (l->len < LITERAL_LEN_MIN)
		return 0;
	for (unsigned i = 0; i < l->len; i++)
		worth += l->s[i] == SYM_DOT || l->s[i] == SYM_END ? 2
		         : l->s[i] == SYM_BEGIN                   ? 3
		         : SET_LETTERS >> l->s[i] & 1             ? 4
		                                                  : 5;
	return is_top_level(l) && worth > 6 ? 6 : worth;
}

static unsigned set_worth(const struct literal_set *s)
{
	unsigned worst = s->count ? ~0u : 0, w;

	for (unsigned i = 0; i < s->count; i++) {
		w = literal_worth(&s->v[i]);
		worst = w < worst ? w : worst;
	}
	/* Twice as many strings occur twice as often, about as much as half a letter is worth. */
	for (unsigned n = s->count; n > 1 && worst > 2; n /= 2)
		worst--;
	return worst;
}

static void keep_better(struct literal_set *best, const struct literal_set *s)
{
	if (set_worth(s) > set_worth(best))
		*best = *s;
}

/* --- Trees --- */

/* a followed by b. Two begins (or ends) in a row are one: "^^" asks the same twice. */
static bool follow(struct literal *ret, const struct literal *a, const struct literal *b)
{
	unsigned skip = a->len && b->len && a->s[a->len - 1] == b->s[0] && b->s[0] >= SYM_BEGIN;

	if (a->len + b->len - skip > LITERAL_LEN_MAX)
		return false;
	*ret = *a;
	memcpy(ret->s + a->len, b->s + skip, b->len - skip);
	ret->len = (uint8_t)(a->len + b->len - skip);
	return true;
}

/* acc becomes every string of acc followed by every one of s. False: too many or too long; acc stays. */
static bool cross(struct literal_set *acc, const struct literal_set *s)
{
	struct literal_set out = {.count = 0};
	struct literal l;

	if (!s->count || acc->count * s->count > LITERALS_MAX)
		return false;
	for (unsigned i = 0; i < acc->count; i++)
		for (unsigned j = 0; j < s->count; j++)
			if (!follow(&l, &acc->v[i], &s->v[j]) || !add(&out, &l))
				return false;
	*acc = out;
	return true;
}

static void answer_of(const struct regex *rx, unsigned at, struct answer *ret);

static void answer_of_cat(const struct regex *rx, const struct regex_node *n, struct answer *ret)
{
	struct literal_set acc;
	struct answer child;
	bool is_exact = true;

	set_empty_string(&acc);
	for (unsigned c = n->child; c; c = rx->nodes[c].next) {
		answer_of(rx, c, &child);
		if (cross(&acc, &child.exact))
			continue;
		is_exact = false;
		keep_better(&ret->must, &acc);
		keep_better(&ret->must, &child.must);
		if (child.exact.count)
			acc = child.exact;
		else
			set_empty_string(&acc);
	}
	keep_better(&ret->must, &acc);
	if (is_exact)
		ret->exact = acc;
}

static void answer_of_alt(const struct regex *rx, const struct regex_node *n, struct answer *ret)
{
	bool is_exact = true, has_must = true;
	struct answer child;

	for (unsigned c = n->child; c; c = rx->nodes[c].next) {
		answer_of(rx, c, &child);
		is_exact = is_exact && child.exact.count;
		for (unsigned i = 0; is_exact && i < child.exact.count; i++)
			is_exact = add(&ret->exact, &child.exact.v[i]);
		keep_better(&child.must, &child.exact);
		has_must = has_must && set_worth(&child.must);
		for (unsigned i = 0; has_must && i < child.must.count; i++)
			has_must = add(&ret->must, &child.must.v[i]);
	}
	if (!is_exact)
		ret->exact.count = 0;
	if (!has_must)
		ret->must.count = 0;
}

static void answer_of_repeat(const struct regex *rx, const struct regex_node *n, struct answer *ret)
{
	const struct literal nothing = {.len = 0};

	if (n->max == 0) {
		set_empty_string(&ret->exact);
		return;
	}
	answer_of(rx, n->child, ret);
	if (n->min == 0)
		ret->must.count = 0;
	else
		keep_better(&ret->must, &ret->exact);
	if (n->max != 1 || (n->min == 0 && ret->exact.count && !add(&ret->exact, &nothing)))
		ret->exact.count = 0;
}

static void answer_of_set(uint64_t set, struct answer *ret)
{
	if (!set || __builtin_popcountll(set) > 4)
		return;
	for (; set; set &= set - 1)
		ret->exact.v[ret->exact.count++] = (struct literal){.len = 1, .s = {(uint8_t)__builtin_ctzll(set)}};
}

static void answer_of(const struct regex *rx, unsigned at, struct answer *ret)
{
	const struct regex_node *n = &rx->nodes[at];

	ret->exact.count = ret->must.count = 0;
	switch (n->kind) {
	case RX_SET:
		answer_of_set(n->set, ret);
		break;
	case RX_CAT:
		answer_of_cat(rx, n, ret);
		break;
	case RX_ALT:
		answer_of_alt(rx, n, ret);
		break;
	case RX_REPEAT:
		answer_of_repeat(rx, n, ret);
		break;
	case RX_BEGIN:
	case RX_END:
		ret->exact.count = 1;
		ret->exact.v[0] = (struct literal){.len = 1, .s = {n->kind == RX_BEGIN ? SYM_BEGIN : SYM_END}};
		break;
	default:
		set_empty_string(&ret->exact);
		break;
	}
}

bool literals_of_regex(const struct regex *rx, struct literal_set *ret)
{
	struct answer whole;

	answer_of(rx, rx->root, &whole);
	*ret = whole.must;
	keep_better(ret, &whole.exact);
	return set_worth(ret) > 0;
}

/* --- Globs --- */

static void put(struct literal *l, uint8_t symbol)
{
	if (l->len < LITERAL_LEN_MAX)
		l->s[l->len++] = symbol;
}

/* One part, as a set: where it is tied to a label's begin it stands behind a dot or at the begin of the name. Cut to what a literal holds. */
static void literals_of_part(struct literal_set *ret, const uint8_t *part, unsigned len, enum rule_anchor anchor, bool is_at_end)
{
	ret->count = anchor == ANCHOR_LABEL ? 2 : 1;
	for (unsigned i = 0; i < ret->count; i++) {
		ret->v[i].len = 0;
		if (anchor != ANCHOR_NONE)
			put(&ret->v[i], i ? SYM_DOT : SYM_BEGIN);
		for (unsigned k = 0; k < len; k++)
			put(&ret->v[i], expr_symbol[part[k]]);
		if (is_at_end)
			put(&ret->v[i], SYM_END);
	}
}

bool literals_of_glob(const struct rule_text *r, struct literal_set *ret)
{
	const uint8_t *part = r->body, *end = r->body + r->body_len, *star;
	enum rule_anchor anchor = r->anchor;
	struct literal_set of_part;

	ret->count = 0;
	for (;; part = star + 1, anchor = ANCHOR_NONE) {
		star = memchr(part, '*', (size_t)(end - part));
		literals_of_part(&of_part, part, (unsigned)((star ? star : end) - part), anchor, !star && r->is_at_end);
		keep_better(ret, &of_part);
		if (!star)
			return set_worth(ret) > 0;
	}
}

/* --- What every match has besides --- */

static unsigned capped(uint64_t len)
{
	return len > NAME_WIRE_MAX ? NAME_WIRE_MAX : (unsigned)len;
}

static void facts_of_children(const struct regex *rx, const struct regex_node *n, struct regex_facts *ret)
{
	struct regex_facts f;
	bool is_first = true;

	for (unsigned c = n->child; c; c = rx->nodes[c].next, is_first = false) {
		regex_facts(rx, c, &f);
		if (n->kind == RX_CAT) {
			ret->min_len = capped(ret->min_len + f.min_len);
			ret->max_len = capped(ret->max_len + f.max_len);
			ret->needs |= f.needs;
		} else {
			ret->min_len = is_first || f.min_len < ret->min_len ? f.min_len : ret->min_len;
			ret->max_len = is_first || f.max_len > ret->max_len ? f.max_len : ret->max_len;
			ret->needs = is_first ? f.needs : ret->needs & f.needs;
		}
	}
}

void regex_facts(const struct regex *rx, unsigned node_at, struct regex_facts *ret)
{
	const struct regex_node *n = &rx->nodes[node_at];

	*ret = (struct regex_facts){0};
	switch (n->kind) {
	case RX_SET:
		*ret = (struct regex_facts){.min_len = 1, .max_len = 1};
		ret->needs = n->set && !(n->set & (n->set - 1)) ? n->set : 0;
		if (n->set && !(n->set & ~SET_DIGITS))
			ret->needs |= NEEDS_DIGIT;
		break;
	case RX_CAT:
	case RX_ALT:
		facts_of_children(rx, n, ret);
		break;
	case RX_REPEAT:
		regex_facts(rx, n->child, ret);
		ret->min_len = capped((uint64_t)ret->min_len * n->min);
		ret->max_len = capped((uint64_t)ret->max_len * (n->max == REGEX_ENDLESS ? NAME_WIRE_MAX : n->max));
		ret->needs = n->min ? ret->needs : 0;
		break;
	default:
		break;
	}
}
