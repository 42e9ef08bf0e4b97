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
		int r = is_usable(w, i, f) ? nft_foreign_put(e->nft, set_at(w, i), f, v, count) : -ENXIO;
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
		if (!is_usable(w, i, f) || f->is_v6 != (a->family == AF_INET6) || (is_expired && f->has_timeout))
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
