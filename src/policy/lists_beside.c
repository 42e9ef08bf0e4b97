/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a list has beside names in the index: prefixes, and rules of the bounded stage. Both are built anew, from what the text has
 * and is not masked and what live edits added, whenever one of them changes. The compiler thread. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "policy/exprs_private.h"
#include "policy/lists_private.h"

typedef int each_rule_fn(void *ctx, const struct entry_key *k);

static int each_rule(const struct entry_set *from, const struct entry_set *except, each_rule_fn *fn, void *ctx)
{
	struct entry_key k;
	uint32_t n;
	int r = 0;

	for (size_t at = 0; r == 0 && from->rules && entry_set_next(from, &at, &k, &n);)
		if (entry_key_is_rule(&k) && !(except && entry_set_count(except, &k)))
			r = fn(ctx, &k);
	return r;
}

/* --- Prefixes --- */

struct collecting {
	struct prefix_entry *bad; /* taken back by $badfilter */
	unsigned bad_count;
};

static int collect_bad(void *ctx, const struct entry_key *k)
{
	struct collecting *c = ctx;

	c->bad_count += list_bad_prefix((const char *)k->bytes, k->len, &c->bad[c->bad_count]);
	return 0;
}

static int by_prefix(const void *a, const void *b)
{
	const struct prefix_entry *x = a, *y = b;
	int r = memcmp(x->prefix.addr.b, y->prefix.addr.b, sizeof(x->prefix.addr.b));

	r = r ? r : (int)x->prefix.addr.family - (int)y->prefix.addr.family;
	r = r ? r : (int)x->prefix.len - (int)y->prefix.len;
	return r ? r : (int)x->is_exempt - (int)y->is_exempt;
}

static void collect_prefixes(const struct entry_set *from, const struct entry_set *except, const struct collecting *c,
        struct prefix_entry *ret, unsigned *count)
{
	struct entry_key k;
	uint32_t n;

	for (size_t at = 0; from->prefixes && entry_set_next(from, &at, &k, &n);) {
		if (!entry_key_is_prefix(&k) || (except && entry_set_count(except, &k)))
			continue;
		entry_key_prefix(&ret[*count], &k);
		*count += !(c->bad_count && bsearch(&ret[*count], c->bad, c->bad_count, sizeof(*c->bad), by_prefix));
	}
}

int beside_prefixes(
        struct prefixes **ret, const struct entry_set *text, const struct entry_set *added, const struct entry_set *masked)
{
	struct prefix_entry *e = malloc((text->prefixes + added->prefixes + 1) * sizeof(*e));
	bool has_prefix = text->prefixes || added->prefixes;
	struct collecting c = {.bad = malloc((has_prefix ? text->rules + added->rules + 1 : 1) * sizeof(*c.bad))};
	unsigned count = 0;

	if (e && c.bad && has_prefix) {
		each_rule(text, masked, collect_bad, &c);
		each_rule(added, text, collect_bad, &c);
		qsort(c.bad, c.bad_count, sizeof(*c.bad), by_prefix);
		collect_prefixes(text, masked, &c, e, &count);
		collect_prefixes(added, NULL, &c, e, &count);
	}
	*ret = count ? prefixes_build(e, count) : NULL;
	free(c.bad);
	free(e);
	return !e || !c.bad || (count && !*ret) ? -ENOMEM : 0;
}

/* --- Rules --- */

/* A rule that this version does not understand (an older one's text, another's journal) does not stop the others. */
static int build_rule(void *ctx, const struct entry_key *k)
{
	int r = exprs_build_add(ctx, (const char *)k->bytes, k->len);

	return r == NW_EMALFORMED ? 0 : r;
}

int beside_rules(struct exprs **ret, uint64_t seed, const struct entry_set *text, const struct entry_set *added,
        const struct entry_set *masked)
{
	struct exprs_build *b;
	int r;

	*ret = NULL;
	if (!text->rules && !added->rules)
		return 0;
	b = exprs_build_new(seed);
	if (!b)
		return -ENOMEM;
	r = each_rule(text, masked, build_rule, b);
	if (r == 0)
		r = each_rule(added, text, build_rule, b);
	if (r == 0)
		return exprs_build_done(b, ret);
	exprs_build_free(b);
	return r;
}

static int digest_rule(void *ctx, const struct entry_key *k)
{
	*(uint64_t *)ctx += hash_bytes(k->bytes, k->len, k->kind);
	return 0;
}

uint64_t beside_rules_digest(const struct entry_set *text, const struct entry_set *added, const struct entry_set *masked)
{
	uint64_t sum = 0;

	each_rule(text, masked, digest_rule, &sum);
	each_rule(added, text, digest_rule, &sum);
	return sum;
}

void beside_note_rules(struct lists *l, struct list_slot *s)
{
	struct exprs_stat st = {0};
	char key[300], text[400];
	bool is_new;

	if (s->exprs)
		exprs_stat(s->exprs, &st);
	is_new = st.left_out != s->rules_left_out || (st.cut && !s->rules_cut) || (!st.left_out && !st.cut && s->has_rules_alarm);
	pthread_mutex_lock(&l->lock);
	s->rules_left_out = st.left_out;
	s->rules_cut = st.cut;
	pthread_mutex_unlock(&l->lock);
	if (!is_new)
		return;
	s->has_rules_alarm = st.left_out || st.cut;
	snprintf(key, sizeof(key), "rules:%.280s", s->name);
	if (st.left_out)
		snprintf(text, sizeof(text), "list %.150s: %u of its rules are left out: it has more expressions without a fixed part than %d, or names more clients than %d",
		        s->name, st.left_out, EXPRS_LOOSE_MAX, EXPRS_CLIENTS_MAX);
	else
		snprintf(text, sizeof(text), "list %.150s: names were judged without some of its expressions, because all of them would take too long; `nameway list %.150s` counts them",
		        s->name, s->name);
	lists_alarm(l, key, s->has_rules_alarm ? text : NULL);
}
