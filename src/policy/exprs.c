/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Asking the bounded stage about a name. Rules anchored to a domain are found by the name's suffixes; patterns by the fixed parts that occur in the name, and
 * of those without any the ones that the name's ends, length and symbols do not rule out, 64 at a time. Before an automaton runs, the name's length and symbols must allow a match. All that is done is counted in steps;
 * when they are used up (EXPRS_STEPS_MAX, or EXPRS_TRIES_MAX patterns) the rest is passed over and counted. Nothing is allocated; any thread. */
#include "policy/exprs.h"

#include <string.h>

#include "policy/exprs_private.h"

enum { SEEN = EXPRS_TRIES_MAX, STEPS_OF_RULE = 4 };

struct look {
	const struct exprs *e;
	const struct name *n;
	const struct expr_client *client;
	struct expr_result *ret;
	uint32_t best_rule; /* for explain */
	uint8_t best;
	bool is_deciding, has_seen;
	uint16_t qtype;
	unsigned len, tries;
	int steps;
	uint64_t has;                       /* symbols of the name */
	uint8_t symbols[NAME_WIRE_MAX + 2]; /* from 1 on the name's; SYM_BEGIN before, SYM_END behind */
	uint32_t seen[SEEN];                /* patterns tried lately, plus one */
};

static const struct expr_rule *rule_at(const struct exprs *e, uint32_t rule)
{
	return POOL_AT(e->rules, const struct expr_rule, rule);
}

/* A dot inside a label is no border between labels. */
static void read_symbols(struct look *l)
{
	const struct name *n = l->n;
	uint8_t *to = l->symbols, symbol;

	l->has = 0;
	*to++ = SYM_BEGIN;
	for (unsigned label = 0; label < n->labels; label++) {
		const uint8_t *from = n->wire + n->offset[label];

		if (label)
			*to++ = SYM_DOT;
		for (unsigned i = 1; i <= *from; i++) {
			symbol = from[i] == '.' ? SYM_OTHER : expr_symbol[from[i]];
			l->has |= SET_OF(symbol);
			*to++ = symbol;
		}
	}
	l->has |= (n->labels > 1 ? SET_OF(SYM_DOT) : 0) | (l->has & SET_DIGITS ? NEEDS_DIGIT : 0);
	*to = SYM_END;
	l->len = (unsigned)(to - l->symbols) - 1;
}

/* --- Conditions --- */

static bool is_denied(const struct exprs *e, const struct expr_cond *c, const struct name *n)
{
	const uint8_t *d = e->denies.bytes + c->denies;
	unsigned label = 0;

	for (unsigned i = 0; i < c->deny_count; i++, d += *d + 1u) {
		for (label = 0; label <= n->labels && n->len - n->offset[label] > *d; label++)
			;
		if (label <= n->labels && n->len - n->offset[label] == *d && memcmp(n->wire + n->offset[label], d + 1, *d) == 0)
			return true;
	}
	return false;
}

static bool type_holds(const struct exprs *e, const struct expr_cond *c, uint16_t qtype)
{
	const struct rule_type *t = POOL_AT(e->types, const struct rule_type, c->types);
	bool is_named = false;

	for (unsigned i = 0; i < c->type_count; i++) {
		if (t[i].type == qtype && t[i].is_not)
			return false;
		is_named |= t[i].type == qtype;
	}
	return is_named || !c->has_type_yes;
}

enum holds { NO, UNKNOWN, YES };

static bool has_group(const uint64_t *groups, uint16_t group)
{
	return groups && groups[group / 64] >> (group % 64) & 1;
}

static enum holds is_client(const struct expr_cond_client *c, const struct expr_client *client)
{
	uint16_t group;

	if (c->number == CLIENT_IS_PREFIX)
		return client->addr && prefix_contains(&c->prefix, client->addr) ? YES : NO;
	group = client->group_of ? client->group_of[c->number] : 0xffff;
	if (group == 0xffff)
		return NO;
	return has_group(client->groups, group) ? YES : has_group(client->unknown, group) ? UNKNOWN : NO;
}

static enum holds client_holds(const struct exprs *e, const struct expr_cond *c, const struct expr_client *client)
{
	const struct expr_cond_client *v = POOL_AT(e->clients, const struct expr_cond_client, c->clients);
	enum holds named = c->has_client_yes ? NO : YES, excepted = NO, one;

	if (!client)
		return NO;
	for (unsigned i = 0; i < c->client_count && excepted != YES; i++) {
		if (!v[i].is_not && named == YES)
			continue;
		one = is_client(&v[i], client);
		if (v[i].is_not)
			excepted = one > excepted ? one : excepted;
		else
			named = one > named ? one : named;
	}
	return named < YES - excepted ? named : (enum holds)(YES - excepted);
}

/* Of a client that is not known the strictest is taken. */
static bool is_for(const struct look *l, const struct expr_cond *c, const struct expr_rule *rule)
{
	enum holds h = c->client_count ? client_holds(l->e, c, l->client) : YES;

	return h == YES || (h == UNKNOWN && (rule->outcome == EXPR_BLOCK || rule->outcome == EXPR_IMPORTANT));
}

/* --- What a rule adds --- */

/* The rule's pattern matches. label: where its anchor begins. */
static void take(struct look *l, uint32_t rule_number, unsigned label)
{
	const struct expr_rule *rule = rule_at(l->e, rule_number);
	const struct expr_cond *c = rule->cond == RULE_NONE ? NULL : POOL_AT(l->e->conds, const struct expr_cond, rule->cond);
	struct expr_result *ret = l->ret;

	if (c) {
		l->steps -= c->type_count + c->client_count + c->deny_count;
		if (c->deny_count && is_denied(l->e, c, l->n))
			return;
	}
	if (!c || (!c->type_count && !c->client_count))
		ret->always |= rule->outcome;
	else if (!type_holds(l->e, c, l->qtype) || !is_for(l, c, rule))
		return;
	if (rule->outcome == EXPR_BAD_BLOCK)
		ret->bad_block[label / 64] |= 1ull << (label % 64);
	if (rule->outcome == EXPR_BAD_ALLOW)
		ret->bad_allow[label / 64] |= 1ull << (label % 64);
	ret->here |= rule->outcome;
	if (rule->outcome > EXPR_SPARE || rule->outcome < l->best || (rule->outcome == l->best && rule_number > l->best_rule))
		return;
	l->best = rule->outcome;
	l->best_rule = rule_number;
}

/* Whether it can still change the result. */
static bool adds(const struct look *l, const struct expr_rule *rule)
{
	const struct expr_cond *c;

	if (!rule->outcome)
		return false;
	if (l->is_deciding || !(l->ret->here & rule->outcome) || rule->outcome > EXPR_SPARE)
		return true;
	if (l->ret->always & rule->outcome)
		return false;
	c = rule->cond == RULE_NONE ? NULL : POOL_AT(l->e->conds, const struct expr_cond, rule->cond);
	return !c || (!c->type_count && !c->client_count);
}

static void look_at_anchors(struct look *l, const uint64_t *hashes)
{
	const struct expr_rule *rule;
	uint32_t number;

	for (unsigned label = 0; label <= l->n->labels; label++) {
		if (!name_map_find(l->e->anchors, l->n, hashes, label, &number))
			continue;
		for (; number != RULE_NONE && l->steps >= 0; number = rule->next) {
			rule = rule_at(l->e, number);
			l->steps -= STEPS_OF_RULE;
			if (adds(l, rule) && (!rule->is_exact || label == 0))
				take(l, number, label);
		}
	}
}

/* --- Patterns --- */

static bool was_seen(struct look *l, uint32_t pattern)
{
	if (!l->has_seen) {
		memset(l->seen, 0, sizeof(l->seen));
		l->has_seen = true;
	}
	if (l->seen[pattern % SEEN] == pattern + 1)
		return true;
	l->seen[pattern % SEEN] = pattern + 1;
	return false;
}

static bool may_match(const struct look *l, const struct expr_pattern *p)
{
	return !(p->needs & ~l->has) && l->len >= p->min_len && l->len <= p->max_len && adds(l, rule_at(l->e, p->rule));
}

static void run_pattern(struct look *l, const struct expr_pattern *p)
{
	const struct exprs *e = l->e;
	bool is_match;

	if (p->is_regex)
		is_match = nfa_matches(POOL_AT(e->programs, const uint64_t, p->at), l->symbols + 1, l->len, &l->steps);
	else
		is_match = glob_matches(
		        e->bodies.bytes + p->at, p->body_len, p->anchor, p->is_at_end, l->symbols + 1, l->len, &l->steps);
	if (is_match)
		take(l, p->rule, 0);
}

static void try_pattern(void *ctx, uint32_t number)
{
	struct look *l = ctx;
	const struct expr_pattern *p = POOL_AT(l->e->patterns, const struct expr_pattern, number);

	if (!may_match(l, p) || was_seen(l, number))
		return;
	if (++l->tries > EXPRS_TRIES_MAX)
		l->steps = -1;
	else
		run_pattern(l, p);
}

/* Patterns without a fixed part: 64 at a time those that the name's ends, length and symbols do not rule out. */
static void look_at_loose(struct look *l)
{
	const struct loose_block *blocks = POOL_AT(l->e->blocks, const struct loose_block, 0);
	const uint32_t *numbers = POOL_AT(l->e->loose, const uint32_t, 0);
	const struct expr_pattern *p;
	uint64_t left;

	for (unsigned i = 0; i < l->e->loose_count && l->steps >= 0; i += 64, numbers += 64, blocks++) {
		left = blocks->first[l->symbols[1]] & blocks->last[l->symbols[l->len]] & blocks->len[l->len];
		for (uint64_t has = l->has & SET_ALL; left && has; has &= has - 1)
			left &= blocks->holds[__builtin_ctzll(has)];
		for (l->steps--; left && l->steps >= 0; left &= left - 1) {
			p = POOL_AT(l->e->patterns, const struct expr_pattern, numbers[__builtin_ctzll(left)]);
			l->steps--;
			if (may_match(l, p))
				run_pattern(l, p);
		}
	}
}

static void look_at(struct look *l, const uint64_t *hashes)
{
	const struct exprs *e = l->e;

	l->best = 0;
	l->best_rule = RULE_NONE;
	l->has_seen = false;
	l->tries = 0;
	l->steps = EXPRS_STEPS_MAX;
	*l->ret = (struct expr_result){0};
	if (!name_map_is_empty(e->anchors))
		look_at_anchors(l, hashes);
	if (e->pattern_count == 0)
		return;
	read_symbols(l);
	if (e->grams)
		grams_look(e->grams, l->symbols, l->len + 2, &l->steps, try_pattern, l);
	look_at_loose(l);
}

void exprs_judge(const struct exprs *e, const struct name *n, const uint64_t *hashes, uint16_t qtype,
        const struct expr_client *client, struct expr_result *ret)
{
	struct look l;

	l.e = e;
	l.n = n;
	l.qtype = qtype;
	l.client = client;
	l.ret = ret;
	l.is_deciding = false;
	look_at(&l, hashes);
	if (l.steps >= 0)
		return;
	ret->is_cut = true;
	atomic_fetch_add_explicit(&((struct exprs *)e)->cut, 1, memory_order_relaxed);
}

const char *exprs_decides(
        const struct exprs *e, const struct name *n, const uint64_t *hashes, uint16_t qtype, const struct expr_client *client)
{
	struct expr_result result;
	struct look l;

	l.e = e;
	l.n = n;
	l.qtype = qtype;
	l.client = client;
	l.ret = &result;
	l.is_deciding = true;
	look_at(&l, hashes);
	return l.best_rule == RULE_NONE ? NULL : (const char *)e->texts.bytes + rule_at(e, l.best_rule)->text;
}

unsigned exprs_client_count(const struct exprs *e)
{
	return e->client_count;
}

const char *exprs_client(const struct exprs *e, unsigned i)
{
	return (const char *)e->names.bytes + e->client_at[i];
}

void exprs_stat(const struct exprs *e, struct exprs_stat *ret)
{
	const struct pool *pools[] = {&e->rules, &e->texts, &e->conds, &e->types, &e->clients, &e->denies, &e->patterns,
	        &e->programs, &e->bodies, &e->names, &e->loose, &e->blocks};

	*ret = (struct exprs_stat){
	        .rules = e->rule_count, .patterns = e->pattern_count, .anchored = e->anchored_count, .left_out = e->left_out};
	ret->memory_bytes = sizeof(*e) + name_map_bytes(e->anchors) + (e->grams ? grams_bytes(e->grams) : 0);
	for (size_t i = 0; i < sizeof(pools) / sizeof(*pools); i++)
		ret->memory_bytes += pools[i]->cap;
	ret->cut = atomic_load_explicit(&e->cut, memory_order_relaxed);
}
