/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Administrators' own sets (ways' `sets:`): they belong to somebody else, may be missing, come and go, have timeouts or intervals. What a rule of the
 * way holds is put in; what cannot be is an alarm, and the answer still goes: the rule's own set in our table steers. For ways that have
 * only such sets the administrator's rules do the steering: there a failure is a failure of the answer's barrier, told by the status. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "steer/enforcer_private.h"

enum { REFILL_BATCH = 1000, SWEEP_DELETES = 300 };

static unsigned set_count(const struct cfg_way *w)
{
	return w->set4_count + w->set6_count;
}

static const struct cfg_set *set_at(const struct cfg_way *w, unsigned i)
{
	return i < w->set4_count ? &w->sets4[i] : &w->sets6[i - w->set4_count];
}

static void alarm_of_set(struct enforcer *e, const struct cfg_set *s, const char *what, const char *mend)
{
	char key[64];
	snprintf(key, sizeof key, "set %s %s %s", s->family, s->table, s->set);
	if (what)
		alarm_set(e->alarms, key, "the set `%s %s %s` %s. Mend: %s", s->family, s->table, s->set, what, mend);
	else
		alarm_clear(e->alarms, key);
}

void enforcer_probe_foreign(struct enforcer *e, struct policy_config *pc)
{
	const struct config *c = pc->config;
	for (unsigned w = 0; w < c->way_count; w++)
		for (unsigned i = 0; i < set_count(&c->ways[w]); i++) {
			const struct cfg_set *s = set_at(&c->ways[w], i);
			struct nft_foreign *f = &pc->foreign[pc->foreign_at[w] + i];
			if (nft_foreign_probe(e->nft, s, f) < 0)
				*f = (struct nft_foreign){ 0 };
			bool is_six = i >= c->ways[w].set4_count;
			if (!f->exists)
				alarm_of_set(e, s, "does not exist", "create it; it is filled as soon as it is there");
			else if (f->is_v6 != is_six)
				alarm_of_set(e, s, "is of the other address family", is_six ? "name it under `ip:`" : "name it under `ip6:`");
			else if (f->is_constant)
				alarm_of_set(e, s, "is constant", "define it without `flags constant`");
			else
				alarm_of_set(e, s, NULL, NULL);
		}
}

static bool is_usable(const struct cfg_way *w, unsigned i, const struct nft_foreign *f)
{
	return f->exists && !f->is_constant && f->is_v6 == (i >= w->set4_count);
}

static bool has_family(const struct nft_element *v, size_t count, bool is_v6)
{
	for (size_t k = 0; k < count; k++)
		if ((v[k].addr.family == AF_INET6) == is_v6)
			return true;
	return false;
}

/* --- listed ranges --- */

static void alarm_of_ranges(struct enforcer *e, const struct cfg_set *s, const char *what, const char *mend)
{
	char key[80];
	snprintf(key, sizeof key, "prefixes %s %s %s", s->family, s->table, s->set);
	if (what)
		alarm_set(e->alarms, key, "listed prefixes could not all be put into the set `%s %s %s`: %s. Mend: %s", s->family, s->table, s->set, what, mend);
	else
		alarm_clear(e->alarms, key);
}

static bool is_same_set(const struct cfg_set *a, const struct cfg_set *b)
{
	return !strcmp(a->family, b->family) && !strcmp(a->table, b->table) && !strcmp(a->set, b->set);
}

static bool way_names_set(const struct cfg_way *w, const struct cfg_set *s)
{
	for (unsigned i = 0; i < set_count(w); i++)
		if (is_same_set(set_at(w, i), s))
			return true;
	return false;
}

/* What all rules whose ways name the set take, in order. */
static int collect_ranges(const struct enforcer *e, const struct config *c, const struct cfg_set *set, bool is_v6, struct range_list *ret)
{
	int r = 0;
	for (unsigned i = 0; r == 0 && i < c->steer_count; i++) {
		const struct cfg_steer *s = &c->steers[i];
		bool is_for_it = s->enabled && s->names.count && s->way >= 0 && way_names_set(&c->ways[s->way], set);
		const struct kept_ranges *side[2] = { NULL, NULL };
		for (unsigned k = 0; is_for_it && k < e->range_count; k++)
			if (e->ranges[k].rule_id == s->id && e->ranges[k].which < 2 && (e->ranges[k].family == 6) == is_v6)
				side[e->ranges[k].which] = &e->ranges[k];
		if (side[0])
			r = ranges_subtract(ret, side[0]->r, side[0]->count, side[1] ? side[1]->r : NULL, side[1] ? side[1]->count : 0);
	}
	ret->count = ranges_order(ret->v, ret->count);
	return r;
}

struct replacing { const struct enforcer *e; const struct config *c; const struct cfg_set *set; };

static bool may_replace(void *ctx, const struct addr *a)
{
	const struct replacing *x = ctx;
	for (unsigned i = 0; i < x->c->steer_count; i++)
		if (x->c->steers[i].way >= 0 && way_names_set(&x->c->ways[x->c->steers[i].way], x->set) && elements_find(&x->e->elements, x->c->steers[i].id, a))
			return true;
	return false;
}

/* Listed ranges of one set as they should be. An address that stood inside a range that left must come back by itself: the refill does that. */
static void sync_ranges(struct enforcer *e, const struct policy_config *pc, int way, unsigned i)
{
	const struct cfg_way *w = &pc->config->ways[way];
	const struct cfg_set *s = set_at(w, i);
	const struct nft_foreign *f = &pc->foreign[pc->foreign_at[way] + i];
	struct foreign_held *held = &pc->held[pc->foreign_at[way] + i];
	struct range_list wanted = { 0 };
	struct replacing x = { e, pc->config, s };
	unsigned too_long = 0;
	bool has_left = false;
	if (!is_usable(w, i, f)) {
		held->is_known = false;
		return;
	}
	int r = collect_ranges(e, pc->config, s, f->is_v6, &wanted);
	if (r == 0 && (wanted.count || !held->is_known || held->list.count))
		r = nft_foreign_sync_ranges(e->nft, s, f, &wanted, may_replace, &x, &held->list, &too_long, &has_left);
	held->is_known = r == 0;
	if (r == -ENOENT)
		e->is_foreign_due = true;
	else if (r < 0)
		alarm_of_ranges(e, s, nft_error(e->nft), "look at its flags and size");
	else if (too_long)
		alarm_of_ranges(e, s, "it takes single addresses only", "define it with `flags interval`");
	else
		alarm_of_ranges(e, s, NULL, NULL);
	if (has_left) {
		e->is_foreign_due = true;
		e->foreign_at_ms = 0;
	}
	range_list_free(&wanted);
}

void enforcer_ranges_foreign(struct enforcer *e, uint32_t rule_id)
{
	const struct policy_config *pc = e->now.config ? &e->now : &e->next;
	for (unsigned i = 0; pc->config && pc->foreign_count && i < pc->config->steer_count; i++) {
		const struct cfg_steer *s = &pc->config->steers[i];
		for (unsigned k = 0; s->id == rule_id && s->way >= 0 && k < set_count(&pc->config->ways[s->way]); k++)
			sync_ranges(e, pc, s->way, k);
	}
}

static bool replace_none(void *ctx, const struct addr *a)
{
	(void)ctx;
	(void)a;
	return false;
}

static bool names_set(const struct config *c, const struct cfg_set *s)
{
	for (unsigned w = 0; w < c->way_count; w++)
		if (way_names_set(&c->ways[w], s))
			return true;
	return false;
}

/* keeper: what it names stays; NULL: none. */
static void take_out(struct nft *n, const struct config *c, const struct config *keeper)
{
	for (unsigned w = 0; w < c->way_count; w++)
		for (unsigned i = 0; i < set_count(&c->ways[w]); i++) {
			const struct cfg_set *s = set_at(&c->ways[w], i);
			struct nft_foreign f;
			struct range_list none = { 0 }, held = { 0 };
			unsigned too_long;
			bool has_left;
			if ((keeper && names_set(keeper, s)) || nft_foreign_probe(n, s, &f) < 0 || !is_usable(&c->ways[w], i, &f))
				continue;
			if (nft_foreign_sync_ranges(n, s, &f, &none, replace_none, NULL, &held, &too_long, &has_left) < 0)
				log_warn("listed prefixes could not be taken out of the set `%s %s %s`: %s", s->family, s->table, s->set, nft_error(n));
		}
}

void enforcer_forsake_foreign(struct enforcer *e, const struct policy_config *old)
{
	take_out(e->nft, old->config, e->now.config);
	for (unsigned w = 0; w < old->config->way_count; w++)
		for (unsigned i = 0; i < set_count(&old->config->ways[w]); i++)
			if (!names_set(e->now.config, set_at(&old->config->ways[w], i))) {
				alarm_of_ranges(e, set_at(&old->config->ways[w], i), NULL, NULL);
				alarm_of_set(e, set_at(&old->config->ways[w], i), NULL, NULL);
			}
}

void enforcer_clear_foreign(struct nft *n, const struct config *c)
{
	take_out(n, c, NULL);
}

/* --- addresses --- */

/* The elements that no range of ours in the set holds already; v itself when all are. NULL: out of memory. */
static const struct nft_element *outside_ranges(const struct range_list *held, const struct nft_element *v, size_t *count, struct nft_element **ret_made)
{
	size_t kept = 0;
	*ret_made = NULL;
	if (!held->count)
		return v;
	*ret_made = malloc((*count + 1) * sizeof **ret_made);
	for (size_t i = 0; *ret_made && i < *count; i++)
		if (!ranges_have(held->v, held->count, &v[i].addr))
			(*ret_made)[kept++] = v[i];
	*count = kept;
	return *ret_made;
}

static int put_into(struct enforcer *e, const struct cfg_set *s, const struct nft_foreign *f, const struct range_list *held, const struct nft_element *v, size_t count)
{
	struct nft_element *made;
	const struct nft_element *some = outside_ranges(held, v, &count, &made);
	int r = some ? nft_foreign_put(e->nft, s, f, some, count) : -ENOMEM;
	free(made);
	return r;
}

/* One rule's elements. 0, or what failed where the administrator's sets alone steer (a way without interface). */
int enforcer_put_foreign(struct enforcer *e, const struct policy_config *pc, const struct cfg_steer *rule, const struct nft_element *v, size_t count)
{
	if (!rule || rule->way < 0)
		return 0;
	const struct cfg_way *w = &pc->config->ways[rule->way];
	int failed = 0;
	for (unsigned i = 0; i < set_count(w); i++) {
		struct nft_foreign *f = &pc->foreign[pc->foreign_at[rule->way] + i];
		if (!has_family(v, count, i >= w->set4_count))
			continue;
		int r = is_usable(w, i, f) ? put_into(e, set_at(w, i), f, &pc->held[pc->foreign_at[rule->way] + i].list, v, count) : -ENXIO;
		if (r == -ENOENT)
			e->is_foreign_due = true;
		else if (r < 0 && r != -ENXIO)
			alarm_of_set(e, set_at(w, i), nft_error(e->nft), "look at its flags and size");
		failed = r < 0 ? r : failed;
	}
	return w->interface[0] ? 0 : failed;
}

/* Whether another rule still wants `a` in the sets of this way. */
static bool is_wanted_elsewhere(struct enforcer *e, const struct policy_config *pc, const struct cfg_steer *rule, const struct addr *a)
{
	for (unsigned i = 0; i < pc->config->steer_count; i++) {
		const struct cfg_steer *o = &pc->config->steers[i];
		if (o->id != rule->id && o->way == rule->way && elements_find(&e->elements, o->id, a))
			return true;
	}
	return false;
}

unsigned enforcer_delete_foreign(struct enforcer *e, const struct policy_config *pc, const struct cfg_steer *rule, const struct addr *a, bool is_expired)
{
	const struct cfg_way *w = &pc->config->ways[rule->way];
	unsigned sent = 0;
	if (!set_count(w) || is_wanted_elsewhere(e, pc, rule, a))
		return 0;
	for (unsigned i = 0; i < set_count(w); i++) {
		struct nft_foreign *f = &pc->foreign[pc->foreign_at[rule->way] + i];
		const struct range_list *held = &pc->held[pc->foreign_at[rule->way] + i].list;
		if (!is_usable(w, i, f) || f->is_v6 != (a->family == AF_INET6) || (is_expired && f->has_timeout) || ranges_have(held->v, held->count, a))
			continue;
		nft_foreign_delete(e->nft, set_at(w, i), f, a, 1);
		sent++;
	}
	return sent;
}

struct refill { struct enforcer *e; uint32_t rule_id; unsigned count; struct nft_element v[REFILL_BATCH]; };

static void refill_flush(struct refill *r)
{
	const struct policy_config *pc;
	const struct cfg_steer *rule = enforcer_rule(r->e, r->rule_id, &pc);
	if (r->count)
		enforcer_put_foreign(r->e, pc, rule, r->v, r->count);
	r->count = 0;
}

static bool refill_one(void *ctx, struct element *el)
{
	struct refill *r = ctx;
	if (el->rule_id != r->rule_id || el->expires_ms <= r->e->now_ms)
		return false;
	r->v[r->count++] = (struct nft_element){ .rule_id = el->rule_id, .addr = el->addr, .life_s = (uint32_t)((el->expires_ms - r->e->now_ms) / 1000 + 1) };
	if (r->count == REFILL_BATCH)
		refill_flush(r);
	return false;
}

void enforcer_refill_foreign(struct enforcer *e)
{
	e->is_foreign_due = false;
	if (!e->now.config || !e->now.foreign_count)
		return;
	enforcer_probe_foreign(e, &e->now);
	static struct refill r;
	const struct config *c = e->now.config;
	for (unsigned w = 0; w < c->way_count; w++)
		for (unsigned i = 0; i < set_count(&c->ways[w]); i++)
			sync_ranges(e, &e->now, (int)w, i);
	for (unsigned i = 0; i < c->steer_count; i++) {
		if (c->steers[i].way < 0 || !set_count(&c->ways[c->steers[i].way]))
			continue;
		r.e = e;
		r.rule_id = c->steers[i].id;
		elements_walk(&e->elements, refill_one, &r);
		refill_flush(&r);
	}
}

struct sweep { struct enforcer *e; unsigned deletes; };

/* Sets without timeout are emptied by us, a bounded number of addresses each time. */
static bool sweep_one(void *ctx, struct element *el)
{
	struct sweep *s = ctx;
	if (el->expires_ms > s->e->now_ms || s->deletes >= SWEEP_DELETES)
		return false;
	const struct policy_config *pc;
	const struct cfg_steer *rule = enforcer_rule(s->e, el->rule_id, &pc);
	if (rule && rule->way >= 0)
		s->deletes += enforcer_delete_foreign(s->e, pc, rule, &el->addr, true);
	return true;
}

void enforcer_sweep(struct enforcer *e)
{
	struct sweep s = { .e = e };
	elements_walk(&e->elements, sweep_one, &s);
}
