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

void enforcer_put_foreign(struct enforcer *e, const struct policy_config *pc, const struct cfg_steer *rule, const struct nft_element *v, size_t count)
{
	if (!rule || rule->way < 0)
		return;
	const struct cfg_way *w = &pc->config->ways[rule->way];
	for (unsigned i = 0; i < set_count(w); i++) {
		struct nft_foreign *f = &pc->foreign[pc->foreign_at[rule->way] + i];
		if (!is_usable(w, i, f))
			continue;
		for (size_t k = 0; k < count; k++) {
			if ((v[k].addr.family == AF_INET6) != f->is_v6)
				continue;
			int r = nft_foreign_put(e->nft, set_at(w, i), f, &v[k], 1);
			if (r == -ENOENT)
				e->is_foreign_due = true;
			else if (r < 0)
				alarm_of_set(e, set_at(w, i), nft_error(e->nft), "look at its flags and size");
		}
	}
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

void enforcer_delete_foreign(struct enforcer *e, const struct policy_config *pc, const struct cfg_steer *rule, const struct addr *a)
{
	const struct cfg_way *w = &pc->config->ways[rule->way];
	if (!set_count(w) || is_wanted_elsewhere(e, pc, rule, a))
		return;
	for (unsigned i = 0; i < set_count(w); i++) {
		struct nft_foreign *f = &pc->foreign[pc->foreign_at[rule->way] + i];
		if (is_usable(w, i, f) && f->is_v6 == (a->family == AF_INET6))
			nft_foreign_delete(e->nft, set_at(w, i), f, a, 1);
	}
}

struct refill { struct enforcer *e; };

static bool refill_one(void *ctx, struct element *el)
{
	struct enforcer *e = ((struct refill *)ctx)->e;
	const struct policy_config *pc;
	const struct cfg_steer *rule = enforcer_rule(e, el->rule_id, &pc);
	if (!rule || rule->way < 0 || !set_count(&pc->config->ways[rule->way]) || el->expires_ms <= e->now_ms)
		return false;
	struct nft_element v = { .rule_id = el->rule_id, .addr = el->addr, .life_s = (uint32_t)((el->expires_ms - e->now_ms) / 1000 + 1) };
	enforcer_put_foreign(e, pc, rule, &v, 1);
	return false;
}

void enforcer_refill_foreign(struct enforcer *e)
{
	e->is_foreign_due = false;
	if (!e->now.config || !e->now.foreign_count)
		return;
	enforcer_probe_foreign(e, &e->now);
	struct refill r = { e };
	elements_walk(&e->elements, refill_one, &r);
}

static bool sweep_one(void *ctx, struct element *el)
{
	struct enforcer *e = ctx;
	if (el->expires_ms > e->now_ms)
		return false;
	const struct policy_config *pc;
	const struct cfg_steer *rule = enforcer_rule(e, el->rule_id, &pc);
	if (rule && rule->way >= 0)
		enforcer_delete_foreign(e, pc, rule, &el->addr);
	return true;
}

void enforcer_sweep(struct enforcer *e)
{
	elements_walk(&e->elements, sweep_one, e);
}
