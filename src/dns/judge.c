/* SPDX-License-Identifier: GPL-3.0-or-later */
/* An answer is at hand: filter and steer judge every name of its chain and every address of it, then it waits for the kernel (the barrier) or leaves. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include "base/err.h"
#include "base/list.h"
#include "base/rcu.h"
#include "dns/query_private.h"
#include "stat/query_log.h"

struct way_view look_at_way(struct worker *w, int way)
{
	struct way_view v = { 0 };
	const struct steer_shared *s = w->shared->steer;
	unsigned slot = w->snap->serial & 1;
	if (way < 0 || atomic_load_explicit(&s->cfg[slot].serial, memory_order_acquire) != w->snap->serial)
		return v;
	v.is_down = atomic_load_explicit(&s->cfg[slot].ways_down, memory_order_relaxed) >> way & 1;
	v.is_off = atomic_load_explicit(&s->cfg[slot].ways_off, memory_order_relaxed) >> way & 1;
	v.has_no6 = atomic_load_explicit(&s->cfg[slot].ways_no6, memory_order_relaxed) >> way & 1;
	return v;
}

bool refuse_way(struct worker *w, const struct ask *a, const struct steer_result *s)
{
	if (s->is_unsafe) {
		count(w, C_UNSAFE);
		answer_rcode(w, a, RCODE_SERVFAIL, EDE_NOT_READY, "the client's MAC address is not known");
		return true;
	}
	if (s->is_closed) {
		count(w, C_WAY_DOWN);
		answer_rcode(w, a, RCODE_SERVFAIL, EDE_NOT_READY, "a list of this client's kill-switched rule has never been loaded");
		return true;
	}
	struct way_view way = look_at_way(w, s->way);
	if (way.is_down) {
		count(w, C_WAY_DOWN);
		answer_rcode(w, a, RCODE_SERVFAIL, EDE_NETWORK_ERROR, w->snap->config->ways[s->way].down_text);
		return true;
	}
	if (way.has_no6 && a->q.qtype == RR_AAAA) {
		answer_nodata(w, a, EDE_FILTERED, "the way of this name has no IPv6");
		return true;
	}
	return false;
}

static uint32_t life_needed(const struct config *c, const struct view *v)
{
	uint32_t need_s = wire_ttl_largest(v->msg, v->ttl_offset, v->answer_ttls, v->age_s);
	if (v->is_stale)
		need_s = STALE_TTL_S;
	if (need_s > ANSWER_TTL_MAX_S)
		need_s = ANSWER_TTL_MAX_S;
	return need_s < c->server.element_min_s ? c->server.element_min_s : need_s;
}

static void keep_answer(struct worker *w, struct query *q, const struct view *v)
{
	q->age_s = v->age_s;
	q->is_stale = v->is_stale;
	q->is_own = v->is_own;
	q->skipped = (uint8_t)v->skipped;
	q->ede = v->ede;
	q->ede_text = v->ede_text;
	q->note = w->note;
	q->gen = w->judged_gen;
	if (v->cached) {
		q->held = cache_hold(v->cached);
		return;
	}
	q->copy = malloc(v->len);
	if (!q->copy)
		return;
	memcpy(q->copy, v->msg, v->len);
	q->copy_len = v->len;
}

/* Asks the enforcer for every address that no live hold covers. True: the answer is parked (or was given: SERVFAIL); false: it may leave now. */
static bool steer_addresses(struct worker *w, const struct ask *a, struct query *q, const struct view *v, const struct steer_result *s)
{
	const struct config *c = w->snap->config;
	uint32_t need_s = life_needed(c, v);
	/* Adding may give up another query's batch, which then answers. */
	const struct note note = w->note;
	bool is_parked = false;
	unsigned pairs = 0;
	/* One more is pending until all are gathered: a full batch that cannot be sent fails inside barrier_add. */
	if (q)
		q->pending = 1;
	for (unsigned h = 0; h < s->count; h++) {
		if (s->hits[h].name >= v->chain_len)
			continue;
		const struct cfg_steer *rule = &c->steers[s->hits[h].rule];
		const struct name *n = v->chain[s->hits[h].name];
		uint64_t hash = name_whole_hash(n, w->shared->name_seed);
		for (unsigned i = 0; i < v->addr_count; i++) {
			const struct addr *to = &v->addrs[i];
			if (policy_is_never_steered(c, rule, to) || barrier_covers(w, rule->id, to, n, hash, need_s))
				continue;
			if (!q) {
				if (!(q = query_new(w, a))) {
					count(w, C_FULL);
					answer_rcode(w, a, RCODE_SERVFAIL, EDE_OTHER, "too many queries in flight");
					return true;
				}
				q->pending = 1;
			}
			if (++pairs > ANSWER_HOLDS_MAX || barrier_add(w, q, rule->id, to, n, hash, need_s) < 0)
				q->has_failed = true;
			is_parked = true;
		}
	}
	if (!is_parked)
		return false;
	w->note = note;
	count(w, C_BARRIERS);
	q->stage = STAGE_BARRIER;
	keep_answer(w, q, v);
	if (--q->pending == 0) {
		query_barrier_done(w, q);
		return true;
	}
	bool is_ready = atomic_load(&w->shared->steer->state) == STEER_READY;
	q->had_second_wait = !is_ready;
	q->rebuilds_seen = atomic_load(&w->shared->steer->rebuilds);
	deadline_add(w->loop, is_ready ? &w->late : &w->late_rebuild, &q->deadline);
	return true;
}

/* The answer that waited, walked again. */
static bool view_parked(struct worker *w, const struct query *q, struct view *ret)
{
	if (q->held) {
		if (view_cached(w, q->held, &q->ask.q.qname, ret) < 0)
			return false;
	} else {
		if (wire_answer_walk(&w->walk, q->copy, q->copy_len) < 0)
			return false;
		view_walked(w, q->copy, &w->walk, ret);
	}
	ret->age_s = q->age_s;
	ret->is_stale = q->is_stale;
	ret->is_own = q->is_own;
	ret->skipped = q->skipped;
	ret->ede = q->ede;
	ret->ede_text = q->ede_text;
	return true;
}

void query_barrier_done(struct worker *w, struct query *q)
{
	deadline_del(&q->deadline);
	const struct ask *a = &q->ask;
	struct view v;
	w->note = q->note;
	if (q->has_failed || (!q->held && !q->copy_len) || !view_parked(w, q, &v)) {
		count(w, C_BARRIER_FAILED);
		answer_rcode(w, a, RCODE_SERVFAIL, EDE_OTHER, q->is_full ? "the address sets are full" : "addresses could not be put into the kernel's set");
	} else if (q->config_serial != w->snap->serial || q->gen != policy_generation(w->snap->policy)) {
		/* Lists or rules changed while it waited: it leaves as they say now. */
		if (classify_again(w, q))
			judge_view(w, a, NULL, &v);
		else
			answer_rcode(w, a, RCODE_SERVFAIL, EDE_NOT_READY, "the configuration changed");
	} else {
		answer_kept(w, a, &v);
	}
	query_free(q);
}

void query_late(struct deadline *d)
{
	struct query *q = FROM_MEMBER(d, struct query, deadline);
	struct worker *w = q->w;
	/* The table was lost after this one had begun to wait, and may stand again already. */
	bool was_lost = atomic_load(&w->shared->steer->state) == STEER_REBUILDING || atomic_load(&w->shared->steer->rebuilds) != q->rebuilds_seen;
	if (!q->had_second_wait && was_lost) {
		q->had_second_wait = true;
		deadline_add(w->loop, &w->late_rest, &q->deadline);
		return;
	}
	count(w, C_BARRIER_LATE);
	w->note = q->note;
	answer_rcode(w, &q->ask, RCODE_SERVFAIL, EDE_OTHER, "the kernel did not take the addresses in time");
	query_free(q);
}

bool block(struct worker *w, const struct ask *a, const struct verdict *v)
{
	if (v->rule < 0)
		return false;
	/* Once for a query, though its answer is judged as its question was. */
	if (v->rule != w->note.filter_rule) {
		count_rule(&w->filter_hits[v->rule]);
		if (v->list >= 0)
			count_rule(&w->list_hits[v->list]);
	}
	w->note.filter_rule = (int16_t)v->rule;
	w->note.config_serial = w->snap->serial;
	if (v->kind != VERDICT_BLOCK)
		return false;
	const struct cfg_filter *rule = &w->snap->config->filters[v->rule];
	count(w, C_BLOCKED);
	w->note.outcome = v->block == BLOCK_ANSWER || v->block == BLOCK_CNAME ? OUTCOME_REWRITTEN : OUTCOME_BLOCKED;
	if (v->block == BLOCK_CNAME)
		alias_begin(w, a, &rule->cname, rule->ttl_s);
	else
		answer_block(w, a, rule, w->snap->filter_text[v->rule]);
	return true;
}

bool block_target(struct worker *w, const struct ask *a, const struct name *const *names, unsigned names_count)
{
	const struct policy *p = w->snap->policy;
	struct policy_ask who = { .qtype = RR_CNAME, .client = &a->client, .groups = &a->groups };
	w->judged_gen = policy_generation(p);
	for (unsigned i = 0; i < names_count; i++) {
		who.qtype = name_equal(names[i], &a->q.qname) ? a->q.qtype : RR_CNAME;
		policy_judge(p, w->judged_gen, names[i], &who, &w->judged[i]);
	}
	struct verdict v = policy_filter(p, &a->groups, w->shared->pause, w->now_s, w->judged, names_count, NULL, 0);
	return block(w, a, &v);
}

/* True: it was answered. The question's own verdict and steering hold for an answer of one name, but for its addresses. */
static bool judge_filter(struct worker *w, const struct ask *a, const struct view *v)
{
	const struct policy *p = w->snap->policy;
	if (v->is_own || (v->judged && v->chain_len == 1 && !(v->addr_count && policy_filters_addrs(p))))
		return false;
	struct verdict verdict = policy_filter(p, &a->groups, w->shared->pause, w->now_s, w->judged + v->skipped, v->chain_len - v->skipped, v->addrs, v->addr_count);
	return block(w, a, &verdict);
}

static bool refuse_rebinding(struct worker *w, const struct ask *a, const struct view *v)
{
	const struct local *l = rcu_read(&w->shared->local);
	if (v->is_own || !w->snap->config->local.is_rebind_protected || !v->addr_count || !l || !local_is_rebinding(l, v->chain, v->chain_len, v->addrs, v->addr_count))
		return false;
	count(w, C_REBINDS);
	w->note.outcome = OUTCOME_BLOCKED;
	answer_nodata(w, a, EDE_FILTERED, "a private address for a public name (rebind protection)");
	return true;
}

static void judge_names(struct worker *w, const struct ask *a, const struct view *v)
{
	const struct policy *p = w->snap->policy;
	struct policy_ask who = { .qtype = a->q.qtype, .client = &a->client, .groups = &a->groups };
	if (!v->judged)
		w->judged_gen = policy_generation(p);
	for (unsigned i = v->judged; i < v->chain_len; i++) {
		/* A name further down was met as the target of an alias: that is what $dnstype=CNAME rules speak of. */
		who.qtype = i ? RR_CNAME : a->q.qtype;
		policy_judge(p, w->judged_gen, v->chain[i], &who, &w->judged[i]);
	}
}

/* Hints of one family, or of both, are taken out of the message; what is steered is what is left. False: it cannot be done. */
static bool strip_view(struct worker *w, const struct view **v, struct view *ret, bool both)
{
	bool changed = false, more = false;
	int n = wire_strip_hints(w->stripped, sizeof w->stripped, (*v)->msg, (*v)->len, AF_INET6, &changed);
	if (n >= 0 && both) {
		memcpy(w->first, w->stripped, (size_t)n <= sizeof w->first ? (size_t)n : 0);
		n = (size_t)n <= sizeof w->first ? wire_strip_hints(w->stripped, sizeof w->stripped, w->first, (size_t)n, AF_INET, &more) : NW_ETOOLONG;
	}
	if (n < 0)
		return false;
	if (!changed && !more)
		return true;
	if (wire_answer_walk(&w->stripped_walk, w->stripped, (size_t)n) < 0 || w->stripped_walk.is_cut)
		return false;
	view_walked(w, w->stripped, &w->stripped_walk, ret);
	ret->age_s = (*v)->age_s;
	ret->is_stale = (*v)->is_stale;
	ret->skipped = (*v)->skipped;
	*v = ret;
	return true;
}

static bool is_service(const struct ask *a)
{
	return a->q.qtype == RR_HTTPS || a->q.qtype == RR_SVCB || a->q.qtype == RR_ANY;
}

static void judge_steer(struct worker *w, const struct ask *a, const struct view *v, struct steer_result *s)
{
	if (!v->judged || v->chain_len > 1)
		policy_steer(w->snap->policy, &a->groups, a->client.is_local, w->judged, v->chain_len, s);
	if (s->rule >= 0) {
		count_rule(&w->steer_hits[s->rule]);
		if (s->list >= 0)
			count_rule(&w->list_hits[s->list]);
	}
	w->note.steer_rule = (int16_t)s->rule;
	w->note.config_serial = w->snap->serial;
}

void judge_view(struct worker *w, const struct ask *a, struct query *q, const struct view *v)
{
	struct steer_result *s = &w->steered;
	struct view stripped;
	judge_names(w, a, v);
	if (judge_filter(w, a, v) || refuse_rebinding(w, a, v))
		goto done;
	judge_steer(w, a, v, s);
	if (refuse_way(w, a, s))
		goto done;
	/* The client would connect to the other host's addresses, which are asked for under a name that no rule may know: it is told to use the
	 * addresses of the name itself. */
	if (s->count && v->has_other_target) {
		answer_nodata(w, a, EDE_FILTERED, "this record names another host; the addresses of the name itself are steered");
		goto done;
	}
	/* Hints for another host are that host's addresses without its name being asked for: it has to be asked for. */
	if (is_service(a) && (v->has_other_target || look_at_way(w, s->way).has_no6) && !strip_view(w, &v, &stripped, v->has_other_target)) {
		answer_rcode(w, a, RCODE_SERVFAIL, EDE_OTHER, "hints could not be taken out");
		goto done;
	}
	if (s->count && v->addr_count) {
		count(w, C_STEERED);
		if (steer_addresses(w, a, q, v, s))
			return;
	}
	answer_kept(w, a, v);
done:
	if (q)
		query_free(q);
}

int view_cached(struct worker *w, const struct cache_answer *c, const struct name *qname, struct view *ret)
{
	*ret = (struct view){ .msg = c->msg, .len = c->msg_len, .ttl_offset = c->ttl_offset, .ttl_count = c->ttl_count, .addrs = c->addrs, .addr_count = c->addr_count,
		.age_s = w->now_s > c->stored_s ? w->now_s - c->stored_s : 0, .cached = c, .chain_len = c->chain_len, .has_other_target = c->has_other_target, .answer_ttls = c->answer_ttls, .ede = EDE_NONE };
	ret->chain[0] = qname;
	for (unsigned i = 1; i < c->chain_len; i++) {
		if (name_from_wire(&w->chain_names[i], c->chain[i]->wire, c->chain[i]->len) < 0)
			return NW_EMALFORMED;
		ret->chain[i] = &w->chain_names[i];
	}
	return 0;
}

void view_walked(struct worker *w, const uint8_t *msg, const struct wire_answer *walk, struct view *ret)
{
	*ret = (struct view){ .msg = msg, .len = walk->authority_end, .ttl_offset = walk->ttl_offset, .ttl_count = walk->ttl_count, .addrs = walk->addrs, .addr_count = walk->addr_count,
		.chain_len = walk->chain_len, .has_other_target = walk->has_other_target, .ede = EDE_NONE };
	while (ret->answer_ttls < walk->ttl_count && walk->ttl_offset[ret->answer_ttls] < walk->answers_end)
		ret->answer_ttls++;
	for (unsigned i = 0; i < walk->chain_len; i++)
		ret->chain[i] = &walk->chain[i];
}


bool steers_own(struct worker *w, const struct ask *a, const struct view *v)
{
	judge_names(w, a, v);
	judge_steer(w, a, v, &w->steered);
	if (refuse_way(w, a, &w->steered))
		return true;
	if (w->steered.count && (v->has_other_target || (is_service(a) && look_at_way(w, w->steered.way).has_no6))) {
		answer_nodata(w, a, EDE_FILTERED, "the addresses of the name itself are steered, hints are not given");
		return true;
	}
	return w->steered.count && v->addr_count && steer_addresses(w, a, NULL, v, &w->steered);
}
