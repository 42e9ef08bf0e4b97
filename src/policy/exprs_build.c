/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Making the table of a list's rules. A rule is put in as it comes: into the map of anchors, or among the patterns with its fixed parts. What can only be
 * known at the end is done there: rules that a $badfilter rule takes back (they are found by a hash of all that a rule says, in whatever order it says it),
 * then the table of fixed parts. Compiler thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "policy/exprs_private.h"

struct key {
	uint64_t a, b;
};
struct exprs_build {
	struct exprs *e;
	uint64_t seed;
	struct pool keys /* of each rule */, bad /* keys of $badfilter rules */, parts, part_bytes;
	struct rule_text rule;
	struct compiled compiled;
};

/* Room for len bytes behind what is there; the caller counts. */
static void *pool_add(struct pool *p, const void *bytes, size_t len)
{
	size_t cap = p->cap ? p->cap : 1024;
	uint8_t *grown;

	while (cap < p->used + len)
		cap += cap / 2;
	if (cap != p->cap) {
		grown = realloc(p->bytes, cap);
		if (!grown)
			return NULL;
		p->bytes = grown;
		p->cap = cap;
	}
	if (bytes && len)
		memcpy(p->bytes + p->used, bytes, len);
	p->used += len;
	return p->bytes + p->used - len;
}

static void pool_trim(struct pool *p)
{
	uint8_t *less = p->used && p->used < p->cap ? realloc(p->bytes, p->used) : NULL;

	if (less) {
		p->bytes = less;
		p->cap = p->used;
	}
}

struct exprs_build *exprs_build_new(uint64_t seed)
{
	struct exprs_build *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->seed = seed;
	b->e = calloc(1, sizeof(*b->e));
	if (b->e)
		b->e->anchors = name_map_new(seed);
	if (b->e && b->e->anchors)
		return b;
	exprs_build_free(b);
	return NULL;
}

void exprs_build_free(struct exprs_build *b)
{
	if (!b)
		return;
	exprs_free(b->e);
	free(b->keys.bytes);
	free(b->bad.bytes);
	free(b->parts.bytes);
	free(b->part_bytes.bytes);
	free(b);
}

void exprs_free(struct exprs *e)
{
	if (!e)
		return;
	struct pool *pools[] = {&e->rules, &e->texts, &e->conds, &e->types, &e->clients, &e->denies, &e->patterns, &e->programs,
	        &e->bodies, &e->names, &e->loose, &e->blocks};

	for (size_t i = 0; i < sizeof(pools) / sizeof(*pools); i++)
		free(pools[i]->bytes);
	name_map_free(e->anchors);
	grams_free(e->grams);
	free(e);
}

/* --- One rule --- */

static int compile_regex(const struct rule_text *r, struct compiled *ret, const char **ret_why)
{
	struct regex_facts facts;
	struct regex rx;
	int err = regex_parse(&rx, (const char *)r->body, r->body_len, ret_why);

	if (err < 0)
		return err;
	err = nfa_compile(&rx, &ret->program, &ret->program_words, ret_why);
	if (err == 0) {
		regex_facts(&rx, rx.root, &facts);
		ret->pattern.needs = facts.needs;
		ret->pattern.min_len = (uint8_t)facts.min_len;
		ret->pattern.max_len = nfa_is_whole(ret->program) ? (uint8_t)facts.max_len : NAME_WIRE_MAX;
		ret->has_part = literals_of_regex(&rx, &ret->parts);
	}
	regex_free(&rx);
	return err;
}

int rule_compile(const struct rule_text *r, struct compiled *ret, const char **ret_why)
{
	ret->program = NULL;
	ret->pattern = (struct expr_pattern){.is_regex = r->pattern == PATTERN_REGEX,
	        .anchor = (uint8_t)r->anchor,
	        .is_at_end = r->is_at_end,
	        .max_len = NAME_WIRE_MAX};
	if (ret->pattern.is_regex)
		return compile_regex(r, ret, ret_why);
	ret->pattern.body_len = (uint8_t)r->body_len;
	for (unsigned i = 0; i < r->body_len; i++) {
		if (r->body[i] == '*')
			continue;
		ret->pattern.min_len++;
		ret->pattern.needs |= SET_OF(expr_symbol[r->body[i]]);
	}
	ret->has_part = literals_of_glob(r, &ret->parts);
	return 0;
}

int exprs_check_rule(const char *rule, size_t len, const char **ret_why)
{
	struct rule_text *t = malloc(sizeof(*t));
	struct compiled *c = malloc(sizeof(*c));
	int r = -ENOMEM;

	*ret_why = "out of memory";
	if (!t || !c)
		goto end;
	r = rule_parse(t, rule, len, ret_why);
	if (r == NW_EREFUSED)
		*ret_why = "a rule for pages, not for names";
	else if (r == 0 && t->pattern == PATTERN_PREFIX && !t->is_bad)
		*ret_why = "an address, not a name";
	if (r == NW_EREFUSED || (r == 0 && t->pattern == PATTERN_PREFIX && !t->is_bad))
		r = NW_EMALFORMED;
	if (r == 0 && (t->pattern == PATTERN_GLOB || t->pattern == PATTERN_REGEX)) {
		r = rule_compile(t, c, ret_why);
		if (r == 0)
			free(c->program);
	}
end:
	free(t);
	free(c);
	return r;
}

/* All that a rule says but for $badfilter; the order of modifiers and of their values does not matter. */
static uint64_t key_half(const struct rule_text *t, uint64_t seed)
{
	bool is_name = t->pattern == PATTERN_SUFFIX || t->pattern == PATTERN_EXACT;
	uint8_t head[4] = {t->is_allow | t->is_important << 1, (uint8_t)t->pattern, is_name ? 0 : (uint8_t)t->anchor,
	        is_name ? 0 : t->is_at_end};
	uint64_t key = hash_bytes(head, sizeof(head), seed);

	key += is_name ? name_whole_hash(&t->name, seed + 1) : hash_bytes(t->body, t->body_len, seed + 2);
	for (unsigned i = 0; i < t->type_count; i++) {
		uint16_t type[2] = {t->types[i].type, t->types[i].is_not};

		key += hash_bytes(type, sizeof(type), seed + 3);
	}
	for (unsigned i = 0; i < t->client_count; i++) {
		const char *name = (const char *)t->bytes + t->clients[i].at;

		key += hash_bytes(name, strlen(name), seed + 4 + t->clients[i].is_not);
	}
	for (unsigned i = 0; i < t->deny_count; i++)
		key += hash_bytes(t->bytes + t->denies[i], t->bytes[t->denies[i]] + 1u, seed + 6);
	return key;
}

static int client_number(struct exprs *e, const char *name, uint16_t *ret)
{
	for (unsigned i = 0; i < e->client_count; i++) {
		*ret = (uint16_t)i;
		if (strcmp((const char *)e->names.bytes + e->client_at[i], name) == 0)
			return 0;
	}
	if (e->client_count == EXPRS_CLIENTS_MAX)
		return NW_EMALFORMED;
	*ret = (uint16_t)e->client_count;
	e->client_at[e->client_count] = (uint32_t)e->names.used;
	if (!pool_add(&e->names, name, strlen(name) + 1))
		return -ENOMEM;
	e->client_count++;
	return 0;
}

static int add_clients(struct exprs *e, const struct rule_text *t, struct expr_cond *c)
{
	struct expr_cond_client one;
	int r;

	c->clients = (uint32_t)(e->clients.used / sizeof(one));
	for (unsigned i = 0; i < t->client_count; i++) {
		memset(&one, 0, sizeof(one));
		one.is_not = t->clients[i].is_not;
		one.prefix = t->clients[i].prefix;
		one.number = CLIENT_IS_PREFIX;
		c->has_client_yes |= !one.is_not;
		r = t->clients[i].is_prefix ? 0 : client_number(e, (const char *)t->bytes + t->clients[i].at, &one.number);
		if (r < 0)
			return r;
		if (!pool_add(&e->clients, &one, sizeof(one)))
			return -ENOMEM;
	}
	c->client_count = (uint8_t)t->client_count;
	return 0;
}

static int add_cond(struct exprs *e, const struct rule_text *t, uint32_t *ret)
{
	struct expr_cond c = {.types = (uint32_t)(e->types.used / sizeof(struct rule_type)),
	        .denies = (uint32_t)e->denies.used,
	        .type_count = (uint8_t)t->type_count,
	        .deny_count = (uint16_t)t->deny_count};
	int r;

	*ret = RULE_NONE;
	if (!rule_is_conditional(t))
		return 0;
	for (unsigned i = 0; i < t->type_count; i++)
		c.has_type_yes |= !t->types[i].is_not;
	if (t->type_count && !pool_add(&e->types, t->types, t->type_count * sizeof(*t->types)))
		return -ENOMEM;
	for (unsigned i = 0; i < t->deny_count; i++)
		if (!pool_add(&e->denies, t->bytes + t->denies[i], t->bytes[t->denies[i]] + 1u))
			return -ENOMEM;
	r = add_clients(e, t, &c);
	*ret = (uint32_t)(e->conds.used / sizeof(c));
	if (r == 0 && !pool_add(&e->conds, &c, sizeof(c)))
		r = -ENOMEM;
	return r;
}

static uint8_t outcome_of(const struct rule_text *t)
{
	if (t->is_bad && (t->is_important || rule_is_conditional(t)))
		return 0;
	if (t->is_bad && t->pattern == PATTERN_EXACT)
		return t->is_allow ? 0 : EXPR_BAD_EXACT;
	if (t->is_bad)
		return t->pattern == PATTERN_SUFFIX ? (t->is_allow ? EXPR_BAD_ALLOW : EXPR_BAD_BLOCK) : 0;
	if (t->is_important)
		return t->is_allow ? EXPR_SPARE : EXPR_IMPORTANT;
	return t->is_allow ? EXPR_ALLOW : EXPR_BLOCK;
}

static int add_anchor(struct exprs *e, const struct rule_text *t, struct expr_rule *rule)
{
	static const struct name root = {.len = 1};
	uint32_t *first;
	int r = name_map_put(e->anchors, t->pattern == PATTERN_ANY ? &root : &t->name, RULE_NONE, &first);

	if (r < 0)
		return r;
	rule->next = *first;
	rule->is_exact = t->pattern == PATTERN_EXACT;
	*first = e->rule_count;
	e->anchored_count++;
	return 0;
}

static int add_parts(struct exprs_build *b, uint32_t pattern)
{
	for (unsigned i = 0; i < b->compiled.parts.count; i++) {
		const struct literal *l = &b->compiled.parts.v[i];
		struct gram_part part = {.pattern = pattern, .at = (uint32_t)b->part_bytes.used, .len = l->len};

		if (!pool_add(&b->part_bytes, l->s, l->len) || !pool_add(&b->parts, &part, sizeof(part)))
			return -ENOMEM;
	}
	return 0;
}

static int add_loose(struct exprs *e, const struct compiled *c, uint32_t pattern)
{
	struct nfa_frame f = {.first = ~0ull, .last = ~0ull, .all = ~0ull};
	uint64_t bit = 1ull << (e->loose_count % 64);
	struct loose_block *block;

	if (e->loose_count % 64 == 0) {
		block = pool_add(&e->blocks, NULL, sizeof(*block));
		if (!block)
			return -ENOMEM;
		memset(block, 0, sizeof(*block));
	}
	block = POOL_AT(e->blocks, struct loose_block, e->loose_count / 64);
	if (!pool_add(&e->loose, &pattern, sizeof(pattern)))
		return -ENOMEM;
	if (c->program)
		nfa_frame(c->program, &f);
	for (unsigned s = 0; s <= SYM_END; s++) {
		block->first[s] |= f.first >> s & 1 ? bit : 0;
		block->last[s] |= f.last >> s & 1 ? bit : 0;
	}
	for (unsigned s = 0; s < SYMBOLS; s++)
		block->holds[s] |= f.all >> s & 1 ? bit : 0;
	for (unsigned len = c->pattern.min_len; len <= c->pattern.max_len; len++)
		block->len[len] |= bit;
	e->loose_count++;
	return 0;
}

static int add_pattern(struct exprs_build *b)
{
	struct exprs *e = b->e;
	struct compiled *c = &b->compiled;
	uint32_t number = e->pattern_count;

	c->pattern.rule = e->rule_count;
	c->pattern.at = (uint32_t)(c->program ? e->programs.used / sizeof(uint64_t) : e->bodies.used);
	if (!pool_add(&e->patterns, &c->pattern, sizeof(c->pattern)))
		return -ENOMEM;
	if (c->program ? !pool_add(&e->programs, c->program, c->program_words * sizeof(uint64_t))
	               : !pool_add(&e->bodies, b->rule.body, b->rule.body_len))
		return -ENOMEM;
	e->pattern_count++;
	if (c->has_part)
		return add_parts(b, number);
	return add_loose(e, c, number);
}

/* Whether there is room for the rule and what it brings. */
static int find_room(const struct exprs_build *b, bool is_pattern)
{
	const struct exprs *e = b->e;

	if (e->rule_count == EXPRS_MAX || e->texts.used + EXPR_TEXT_MAX > UINT32_MAX)
		return NW_EFULL;
	if (!is_pattern)
		return 0;
	if (b->compiled.program && e->programs.used + b->compiled.program_words * sizeof(uint64_t) > EXPRS_BYTES_MAX)
		return NW_EFULL;
	return b->compiled.has_part || e->loose_count < EXPRS_LOOSE_MAX ? 0 : NW_EMALFORMED;
}

static int put_rule(struct exprs_build *b, const char *text, size_t len, bool is_pattern)
{
	struct exprs *e = b->e;
	struct expr_rule rule = {.text = (uint32_t)e->texts.used, .next = RULE_NONE, .outcome = outcome_of(&b->rule)};
	struct key key = {.a = key_half(&b->rule, b->seed), .b = key_half(&b->rule, ~b->seed)};
	int r = find_room(b, is_pattern);

	if (r < 0)
		return r;
	/* A $badfilter rule is its key, and perhaps a word to the index. */
	if (b->rule.is_bad && !pool_add(&b->bad, &key, sizeof(key)))
		return -ENOMEM;
	if (!rule.outcome)
		return 0;
	r = add_cond(e, &b->rule, &rule.cond);
	if (r == 0)
		r = is_pattern ? add_pattern(b) : add_anchor(e, &b->rule, &rule);
	if (r < 0)
		return r;
	if (!pool_add(&e->texts, text, len) || !pool_add(&e->texts, "", 1) || !pool_add(&b->keys, &key, sizeof(key)) ||
	        !pool_add(&e->rules, &rule, sizeof(rule)))
		return -ENOMEM;
	e->rule_count++;
	return 0;
}

int exprs_build_add(struct exprs_build *b, const char *rule, size_t len)
{
	bool is_pattern;
	const char *why;
	int r = rule_parse(&b->rule, rule, len, &why);

	if (r == 0 && b->rule.pattern == PATTERN_PREFIX) /* of use to the list's prefixes only */
		return b->rule.is_bad ? 0 : NW_EMALFORMED;
	is_pattern = b->rule.pattern == PATTERN_GLOB || b->rule.pattern == PATTERN_REGEX;
	if (r == 0 && is_pattern)
		r = rule_compile(&b->rule, &b->compiled, &why);
	if (r < 0)
		return r == -ENOMEM ? r : NW_EMALFORMED;
	r = put_rule(b, rule, len, is_pattern);
	if (r == NW_EMALFORMED)
		b->e->left_out++;
	if (is_pattern)
		free(b->compiled.program);
	return r;
}

/* --- All rules --- */

static int by_key(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct key));
}

static void take_back(struct exprs_build *b)
{
	size_t bad_count = b->bad.used / sizeof(struct key);
	struct expr_rule *rule;

	if (!bad_count)
		return;
	qsort(b->bad.bytes, bad_count, sizeof(struct key), by_key);
	for (unsigned i = 0; i < b->e->rule_count; i++) {
		rule = POOL_AT(b->e->rules, struct expr_rule, i);
		if (rule->outcome <= EXPR_SPARE &&
		        bsearch(POOL_AT(b->keys, struct key, i), b->bad.bytes, bad_count, sizeof(struct key), by_key))
			rule->outcome = 0;
	}
}

static bool is_left(const struct exprs *e, uint32_t pattern)
{
	return POOL_AT(e->rules, struct expr_rule, POOL_AT(e->patterns, struct expr_pattern, pattern)->rule)->outcome != 0;
}

static int build_grams(struct exprs_build *b)
{
	struct gram_part *parts = POOL_AT(b->parts, struct gram_part, 0);
	size_t count = b->parts.used / sizeof(*parts), kept = 0;

	for (size_t i = 0; i < count; i++)
		if (is_left(b->e, parts[i].pattern))
			parts[kept++] = parts[i];
	if (!kept)
		return 0;
	b->e->grams = grams_build(parts, kept, b->part_bytes.bytes);
	b->parts.bytes = b->part_bytes.bytes = NULL;
	return b->e->grams ? 0 : -ENOMEM;
}

static bool has_rule(const struct exprs *e)
{
	for (unsigned i = 0; i < e->rule_count; i++)
		if (POOL_AT(e->rules, struct expr_rule, i)->outcome)
			return true;
	return false;
}

int exprs_build_done(struct exprs_build *b, struct exprs **ret)
{
	struct exprs *e = b->e;
	struct pool *pools[] = {&e->rules, &e->texts, &e->conds, &e->types, &e->clients, &e->denies, &e->patterns, &e->programs,
	        &e->bodies, &e->names, &e->loose, &e->blocks};
	int r;

	take_back(b);
	r = build_grams(b);
	if (r == 0) {
		for (size_t i = 0; i < sizeof(pools) / sizeof(*pools); i++)
			pool_trim(pools[i]);
		*ret = has_rule(e) ? e : NULL;
		if (*ret)
			b->e = NULL;
	}
	exprs_build_free(b);
	return r;
}
