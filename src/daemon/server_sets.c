/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a change of lists or rules means for the kernel's sets. Compiler thread; called after an update is published and every worker has passed a
 * quiescent state, so that each answer judged by the old lists is in the cache and each later one fills the sets by itself.
 * Added names: addresses of cached answers they now steer go in. Removed names: addresses leave unless another name holds them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/rcu.h"
#include "daemon/server_private.h"
#include "wire/patch.h"

/* A set of 64-bit name hashes: of the changed names, to pick what must be judged again. A false hit costs one more judgement. */
struct hash_set { uint64_t *v; uint64_t mask, seed; };

static int hash_set_make(struct hash_set *h, const struct name *names, uint32_t count, uint64_t seed)
{
	uint64_t cap = 64;
	while (cap < count * 2ull)
		cap *= 2;
	*h = (struct hash_set){ .v = calloc(cap, sizeof *h->v), .mask = cap - 1, .seed = seed };
	if (!h->v)
		return -1;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t x = name_whole_hash(&names[i], seed) | 1;
		uint64_t at = x & h->mask;
		while (h->v[at] && h->v[at] != x)
			at = (at + 1) & h->mask;
		h->v[at] = x;
	}
	return 0;
}

/* Whether the name or a parent of it is in the set. */
static bool hash_set_meets(const struct hash_set *h, const struct name *n)
{
	for (unsigned label = 0; label <= n->labels; label++) {
		uint64_t x = hash_bytes(n->wire + n->offset[label], (size_t)n->len - n->offset[label], h->seed) | 1;
		for (uint64_t at = x & h->mask; h->v[at]; at = (at + 1) & h->mask)
			if (h->v[at] == x)
				return true;
	}
	return false;
}

static bool rule_is_set(const uint64_t *bits, unsigned i)
{
	return bits[i / 64] >> (i % 64) & 1;
}

/* --- what is gathered for the enforcer --- */

struct gathering {
	struct server *s;
	const struct snapshot *snap;
	const struct hash_set *changed; /* NULL: all */
	struct steer_element *e;
	struct pending_hold { struct hold *hold; uint32_t expires_s; } *holds;
	unsigned count, cap;
	uint32_t now_s;
	bool is_short; /* memory ran out: something may be missing */
	struct name names[ANSWER_CHAIN_MAX];
};

static bool gather(struct gathering *g, uint32_t rule_id, const struct addr *a, const struct name *n, uint32_t need_s)
{
	if (g->count == g->cap) {
		unsigned cap = g->cap ? g->cap * 2 : 1024;
		struct steer_element *e = realloc(g->e, cap * sizeof *e);
		if (e)
			g->e = e;
		struct pending_hold *h = realloc(g->holds, cap * sizeof *h);
		if (h)
			g->holds = h;
		if (!e || !h) {
			g->is_short = true;
			return false;
		}
		g->cap = cap;
	}
	struct hold *hold = holds_insert(g->s->holds, rule_id, a, n->wire, n->len, name_whole_hash(n, g->s->worker_shared.name_seed));
	uint32_t life_s = hold_life_s(need_s);
	link_element(&g->e[g->count], rule_id, a, life_s);
	g->holds[g->count++] = (struct pending_hold){ hold, g->now_s + life_s - 1 };
	return true;
}

/* Sends all and renews the holds of what was acknowledged. */
static int send_gathered(struct gathering *g)
{
	uint32_t epoch = atomic_load(&g->s->shared->epoch);
	uint8_t *status = malloc(g->count + 1);
	int r = status ? link_add(g->s->link, g->e, g->count, status) : -1;
	for (unsigned i = 0; status && i < g->count; i++)
		if ((status[i] == STEER_OK || status[i] == STEER_SKIPPED) && g->holds[i].hold)
			hold_renew(g->s->holds, g->holds[i].hold, epoch, g->now_s, g->holds[i].expires_s);
	free(status);
	free(g->e);
	free(g->holds);
	g->e = NULL;
	g->holds = NULL;
	g->count = g->cap = 0;
	return r < 0 ? r : g->is_short ? -1 : 0;
}

/* --- added --- */

static uint32_t answer_need(const struct cache_answer *a, uint32_t now_s, uint32_t element_min_s)
{
	uint32_t age_s = now_s > a->stored_s ? now_s - a->stored_s : 0; /* others keep answers while this one walks */
	uint32_t need_s = wire_ttl_largest(a->msg, a->ttl_offset, a->answer_ttls, age_s);
	if (need_s > CACHE_TTL_MAX_S)
		need_s = CACHE_TTL_MAX_S; /* as given out: dns/answer.c */
	return need_s < element_min_s ? element_min_s : need_s;
}

static void refill_answer(void *ctx, const struct cache_answer *a)
{
	struct gathering *g = ctx;
	const struct config *c = g->snap->config;
	if (!a->addr_count)
		return;
	bool is_met = !g->changed;
	unsigned n = 0;
	for (; n < a->chain_len; n++) {
		if (name_from_wire(&g->names[n], a->chain[n]->wire, a->chain[n]->len) < 0)
			return;
		is_met = is_met || hash_set_meets(g->changed, &g->names[n]);
	}
	if (!is_met)
		return;
	uint64_t gen = policy_generation(g->snap->policy);
	uint32_t need_s = answer_need(a, g->now_s, c->server.element_min_s);
	for (unsigned i = 0; i < n; i++) {
		struct judged_name judged;
		uint64_t rules[CONFIG_RULES_MAX / 64];
		policy_judge(g->snap->policy, gen, &g->names[i], NULL, &judged);
		policy_fills(g->snap->policy, &judged, rules);
		for (unsigned r = 0; r < c->steer_count; r++)
			for (unsigned k = 0; rule_is_set(rules, r) && k < a->addr_count; k++)
				if (!policy_is_never_steered(c, &c->steers[r], &a->addrs[k]))
					gather(g, c->steers[r].id, &a->addrs[k], &g->names[i], need_s);
	}
}

void sets_refill(struct server *s, const struct list_update *u, const struct snapshot *snap)
{
	struct gathering *g = calloc(1, sizeof *g);
	struct hash_set changed = { 0 };
	if (!g)
		return;
	*g = (struct gathering){ .s = s, .snap = snap, .now_s = (uint32_t)(clock_ms() / 1000) };
	if (u && !u->is_whole && hash_set_make(&changed, u->added, u->added_count, s->worker_shared.name_seed) == 0)
		g->changed = &changed;
	if (!u || u->is_whole || u->added_count) {
		rcu_online();
		cache_walk(s->cache, g->now_s, refill_answer, g);
		rcu_offline();
	}
	unsigned count = g->count;
	if (send_gathered(g) < 0)
		alarm_set(s->alarms, "refill", "addresses of cached answers could not all be put into the sets of a changed list. Mend: `nameway cache flush`");
	else
		alarm_clear(s->alarms, "refill");
	if (count)
		log_debug("%u addresses of cached answers put into sets", count);
	free(changed.v);
	free(g);
}

/* --- removed --- */

struct releasing {
	struct server *s;
	const struct snapshot *snap;
	const struct hash_set *changed;
	uint64_t gen;
	struct steer_element *e;
	unsigned count, cap;
	struct hash_set lost;   /* (rule, address) of e[] */
	bool *is_held;
	struct name name;
};

static const struct cfg_steer *rule_by_id(const struct config *c, uint32_t id, unsigned *ret_at)
{
	for (unsigned i = 0; i < c->steer_count; i++)
		if (c->steers[i].id == id) {
			*ret_at = i;
			return &c->steers[i];
		}
	return NULL;
}

static bool name_still_fills(struct releasing *r, const struct hold *d)
{
	unsigned at;
	uint64_t rules[CONFIG_RULES_MAX / 64];
	struct judged_name judged;
	if (!rule_by_id(r->snap->config, d->rule_id, &at))
		return true; /* a rule that is no longer configured: its sets go with it */
	policy_judge(r->snap->policy, r->gen, &r->name, NULL, &judged);
	policy_fills(r->snap->policy, &judged, rules);
	return rule_is_set(rules, at);
}

static bool drop_lost_hold(void *ctx, const struct hold *d)
{
	struct releasing *r = ctx;
	if (name_from_wire(&r->name, d->name, d->name_len) < 0 || (r->changed && !hash_set_meets(r->changed, &r->name)) || name_still_fills(r, d))
		return false;
	if (r->count == r->cap) {
		unsigned cap = r->cap ? r->cap * 2 : 256;
		struct steer_element *e = realloc(r->e, cap * sizeof *e);
		if (!e)
			return false; /* stays until its life ends */
		r->e = e;
		r->cap = cap;
	}
	link_element(&r->e[r->count++], d->rule_id, &d->addr, 0);
	holds_file_forget(r->s->holds_file, d);
	return true;
}

static int same_element(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct steer_element));
}

static bool note_other_holder(void *ctx, const struct hold *d)
{
	struct releasing *r = ctx;
	struct steer_element key;
	link_element(&key, d->rule_id, &d->addr, 0);
	struct steer_element *found = bsearch(&key, r->e, r->count, sizeof key, same_element);
	if (found)
		r->is_held[found - r->e] = true;
	return false;
}

void sets_release(struct server *s, const struct list_update *u, const struct snapshot *snap)
{
	struct releasing *r = calloc(1, sizeof *r);
	struct hash_set changed = { 0 };
	if (!r || (!u->is_whole && !u->removed_count))
		goto out;
	*r = (struct releasing){ .s = s, .snap = snap, .gen = policy_generation(snap->policy) };
	if (!u->is_whole && hash_set_make(&changed, u->removed, u->removed_count, s->worker_shared.name_seed) == 0)
		r->changed = &changed;
	/* The stamp is read before the walk: whatever is asked for later is not deleted. */
	uint64_t stamp = atomic_load(&s->shared->stamp);
	pthread_mutex_lock(&s->holds_lock);
	holds_walk(s->holds, drop_lost_hold, r);
	unsigned kept = 0;
	if (r->count) {
		qsort(r->e, r->count, sizeof *r->e, same_element);
		r->is_held = calloc(r->count, sizeof *r->is_held);
		if (r->is_held)
			holds_walk(s->holds, note_other_holder, r);
		for (unsigned i = 0; r->is_held && i < r->count; i++)
			if (!r->is_held[i] && (!kept || memcmp(&r->e[kept - 1], &r->e[i], sizeof r->e[i])))
				r->e[kept++] = r->e[i];
	}
	pthread_mutex_unlock(&s->holds_lock);
	if (kept && link_release(s->link, r->e, kept, stamp, u->is_admin_edit, NULL) < 0)
		log_warn("addresses of removed names could not be taken out of the sets; they end with their life");
out:
	if (r) {
		free(r->e);
		free(r->is_held);
	}
	free(changed.v);
	free(r);
}

/* --- listed prefixes --- */

/* The lists of one side of a rule, by index slot: they outlive the configuration that numbers them. */
struct slot_set { uint16_t v[2 * CONFIG_LISTS_MAX]; unsigned count; };

static void add_slots(struct slot_set *set, const struct snapshot *snap, const struct ids *lists)
{
	for (unsigned i = 0; i < lists->count && set->count < 2 * CONFIG_LISTS_MAX; i++)
		set->v[set->count++] = snap->slots[lists->v[i]];
}

static int send_slots(struct server *s, uint32_t rule_id, unsigned which, const struct slot_set *set, bool drop_flows)
{
	const struct prefixes *v[2 * CONFIG_LISTS_MAX];
	unsigned n = 0;
	for (unsigned i = 0; i < set->count; i++) {
		const struct prefixes *p = lists_slot_prefixes(s->lists, set->v[i]);
		if (p && p->count4 + p->count6)
			v[n++] = p;
	}
	struct prefixes *all = prefixes_union(v, n);
	if (!all)
		return -1;
	int r = link_prefixes(s->link, rule_id, which, all->v4, all->count4, all->v6, all->count6, false);
	prefixes_free(all);
	return r;
}

static int send_side(struct server *s, const struct snapshot *snap, const struct cfg_steer *rule, unsigned which, const struct ids *lists, bool drop_flows)
{
	struct slot_set set = { .count = 0 };
	add_slots(&set, snap, lists);
	return send_slots(s, rule->id, which, &set, drop_flows);
}

/* Everything: what reaches a closed rule goes by its way or nowhere, never by a later rule. */
static int send_everything(struct server *s, const struct cfg_steer *rule)
{
	struct range v4 = { { .family = AF_INET }, { .family = AF_INET } }, v6 = { { .family = AF_INET6 }, { .family = AF_INET6 } };
	memset(v4.last.b, 0xff, 4);
	memset(v6.last.b, 0xff, 16);
	return link_prefixes(s->link, rule->id, 0, &v4, 1, &v6, 1, false);
}

static bool ids_have(const struct snapshot *snap, const struct ids *v, int slot)
{
	for (unsigned i = 0; i < v->count; i++)
		if (slot < 0 || snap->slots[v->v[i]] == slot)
			return true;
	return false;
}

/* Both sides of one rule as `snap` has them. A negated rule's own sets hold the excepted side; its packet rule turns them round. */
static int send_rule(struct server *s, const struct snapshot *snap, unsigned i, int slot, bool drop_flows)
{
	const struct cfg_steer *rule = &snap->config->steers[i];
	int r = 0;
	if (policy_rule_is_closed(snap->policy, i))
		return send_everything(s, rule);
	if (ids_have(snap, &rule->names, slot))
		r |= send_side(s, snap, rule, 0, &rule->names, drop_flows);
	if (ids_have(snap, &rule->except_names, slot))
		r |= send_side(s, snap, rule, policy_rule_is_negated(snap->config, i) ? 0 : 1, &rule->except_names, drop_flows);
	return r;
}

static int say_prefixes(struct server *s, int r)
{
	if (r < 0)
		alarm_set(s->alarms, "prefixes", "listed prefixes could not be put into the kernel's sets. Mend: look at the log of the enforcer");
	else
		alarm_clear(s->alarms, "prefixes");
	return r;
}

int sets_send_prefixes(struct server *s, const struct snapshot *snap, int slot, bool drop_flows)
{
	int r = 0;
	for (unsigned i = 0; i < snap->config->steer_count; i++)
		r |= send_rule(s, snap, i, slot, drop_flows);
	return say_prefixes(s, r);
}

int sets_prepare_prefixes(struct server *s, const struct snapshot *next, const struct snapshot *now)
{
	int r = 0;
	for (unsigned i = 0; i < next->config->steer_count; i++) {
		const struct cfg_steer *rule = &next->config->steers[i], *was;
		unsigned at;
		if (!now || !(was = rule_by_id(now->config, rule->id, &at))) {
			r |= send_rule(s, next, i, -1, false);
			continue;
		}
		/* A rule in force loses nothing before the commit, and exceptions come with it: until then more goes by the way, never less. */
		bool is_plain = rule->names.count && was->names.count && !policy_rule_is_closed(now->policy, at) && !policy_rule_is_closed(next->policy, i);
		struct slot_set both = { .count = 0 };
		if (!is_plain)
			continue;
		add_slots(&both, now, &was->names);
		add_slots(&both, next, &rule->names);
		r |= send_slots(s, rule->id, 0, &both, false);
	}
	return say_prefixes(s, r);
}

/* --- restore and resend --- */

static void restore_record(void *ctx, const struct holds_file_record *rec)
{
	struct gathering *g = ctx;
	const struct config *c = g->snap->config;
	unsigned at;
	struct judged_name judged;
	uint64_t rules[CONFIG_RULES_MAX / 64];
	const struct cfg_steer *rule = rule_by_id(c, rec->rule_id, &at);
	if (!rule || name_from_wire(&g->names[0], rec->name, rec->name_len) < 0 || policy_is_never_steered(c, rule, &rec->addr))
		return;
	policy_judge(g->snap->policy, policy_generation(g->snap->policy), &g->names[0], NULL, &judged);
	policy_fills(g->snap->policy, &judged, rules);
	if (rule_is_set(rules, at))
		gather(g, rule->id, &rec->addr, &g->names[0], rec->left_s + c->server.element_min_s);
}

static bool resend_hold(void *ctx, const struct hold *d)
{
	struct gathering *g = ctx;
	uint32_t expires = hold_expires_s(d);
	unsigned at;
	if (expires > g->now_s && rule_by_id(g->snap->config, d->rule_id, &at) && name_from_wire(&g->names[0], d->name, d->name_len) > 0)
		gather(g, d->rule_id, &d->addr, &g->names[0], expires - g->now_s);
	return false;
}

void sets_restore(struct server *s, const struct snapshot *snap)
{
	struct gathering *g = calloc(1, sizeof *g);
	if (!g)
		return;
	*g = (struct gathering){ .s = s, .snap = snap, .now_s = (uint32_t)(clock_ms() / 1000) };
	int n = holds_file_load(s->holds_file, clock_wall_s(), restore_record, g);
	if (n == -EALREADY) {
		/* This server read them before; what came of it, and since, are the holds. */
		pthread_mutex_lock(&s->holds_lock);
		holds_walk(s->holds, resend_hold, g);
		pthread_mutex_unlock(&s->holds_lock);
	} else if (n < 0)
		log_warn("the kept set contents cannot be read; sets fill with the next answers");
	unsigned count = g->count;
	if (send_gathered(g) < 0)
		alarm_set(s->alarms, "restore", "kept addresses could not all be put back into the sets; clients that hold older answers may find their way closed until they ask again");
	if (count)
		log_info("%u addresses put back into the sets", count);
	free(g);
}

int sets_resend(struct server *s, const struct snapshot *snap)
{
	struct gathering *g = calloc(1, sizeof *g);
	if (!g)
		return -1;
	*g = (struct gathering){ .s = s, .snap = snap, .now_s = (uint32_t)(clock_ms() / 1000) };
	int r = sets_send_prefixes(s, snap, -1, false);
	pthread_mutex_lock(&s->holds_lock);
	holds_walk(s->holds, resend_hold, g);
	pthread_mutex_unlock(&s->holds_lock);
	/* An address alone that is refused is told by its alarm; whoever holds it finds its way closed. */
	int sent = send_gathered(g);
	if (sent < 0 && sent != -EIO)
		r = sent;
	free(g);
	return r;
}
