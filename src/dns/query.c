/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The flow of one query: parse, who asks, local names, filter(question), cache, upstream, filter(answer), steer, barrier, answer. Runs to its end on the
 * worker's stack unless it has to wait; what waits is a slab entry that is judged anew when it goes on, by the policy of that moment. */
#include "dns/query.h"
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include "base/err.h"
#include "base/list.h"
#include "base/rcu.h"

enum { CHASES_MAX = 8 };

static void judge_view(struct worker *w, const struct ask *a, struct query *q, const struct view *v);

/* --- who asks, and may they --- */

static const char *link_name(const struct links *l, uint32_t ifindex)
{
	for (unsigned i = 0; l && i < l->count; i++)
		if (l->v[i].ifindex == ifindex)
			return l->v[i].name;
	return "";
}

static void identify(struct worker *w, struct ask *a, const struct links *l)
{
	struct client *c = &a->client;
	snprintf(c->ifname, sizeof c->ifname, "%s", link_name(l, c->ifindex));
	c->is_local = addr_is_loopback(&c->addr) || !strcmp(c->ifname, "lo");
	policy_classify(w->snap->policy, c, &a->groups);
}

/* --- steering an answer --- */

static uint32_t life_needed(const struct config *c, const struct view *v)
{
	uint32_t need_s = wire_ttl_largest(v->msg, v->ttl_offset, v->ttl_count, v->age_s);
	if (need_s > ANSWER_TTL_MAX_S)
		need_s = ANSWER_TTL_MAX_S;
	return need_s < c->server.element_min_s ? c->server.element_min_s : need_s;
}

static void keep_answer(struct query *q, const struct view *v)
{
	q->age_s = v->age_s;
	if (v->cached) {
		q->held = cache_hold(v->cached);
		return;
	}
	q->copy = malloc(v->len);
	q->copy_walk = malloc(sizeof *q->copy_walk);
	if (!q->copy || !q->copy_walk)
		return;
	memcpy(q->copy, v->msg, v->len);
	q->copy_len = v->len;
	q->copy_walk->ttl_count = (uint16_t)v->ttl_count;
	memcpy(q->copy_walk->ttl_offset, v->ttl_offset, v->ttl_count * sizeof *v->ttl_offset);
}

/* Asks the enforcer for every address that no live hold covers. True: the answer is parked (or was given: SERVFAIL); false: it may leave now. */
static bool steer_addresses(struct worker *w, const struct ask *a, struct query *q, const struct view *v, const struct steer_result *s, bool strips6)
{
	const struct config *c = w->snap->config;
	uint32_t need_s = life_needed(c, v);
	bool is_parked = false, has_only_hints = strips6 && (a->q.qtype == RR_HTTPS || a->q.qtype == RR_SVCB);
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
			if (policy_is_never_steered(c, rule, to) || (has_only_hints && to->family == AF_INET6) || barrier_covers(w, rule->id, to, n, hash, need_s))
				continue;
			if (!q) {
				if (!(q = query_new(w, a))) {
					count(w, C_FULL);
					answer_rcode(w, a, RCODE_SERVFAIL, EDE_OTHER, "too many queries in flight");
					return true;
				}
				q->pending = 1;
			}
			if (barrier_add(w, q, rule->id, to, n, hash, need_s) < 0)
				q->has_failed = true;
			is_parked = true;
		}
	}
	if (!is_parked)
		return false;
	count(w, C_BARRIERS);
	q->stage = STAGE_BARRIER;
	q->strips6 = strips6;
	keep_answer(q, v);
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

void query_barrier_done(struct worker *w, struct query *q)
{
	deadline_del(&q->deadline);
	const struct ask *a = &q->ask;
	if (q->has_failed || (!q->held && !q->copy_len)) {
		count(w, C_BARRIER_FAILED);
		answer_rcode(w, a, RCODE_SERVFAIL, EDE_OTHER, q->is_full ? "the address sets are full" : "addresses could not be put into the kernel's set");
	} else if (q->held) {
		answer_kept(w, a, q->held->msg, q->held->msg_len, q->held->ttl_offset, q->held->ttl_count, q->age_s, q->strips6);
	} else {
		answer_kept(w, a, q->copy, q->copy_len, q->copy_walk->ttl_offset, q->copy_walk->ttl_count, q->age_s, q->strips6);
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
	answer_rcode(w, &q->ask, RCODE_SERVFAIL, EDE_OTHER, "the kernel did not take the addresses in time");
	query_free(q);
}

/* --- judging --- */

struct way_view { bool is_down, is_off, has_no6; };

static struct way_view look_at_way(struct worker *w, int way)
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

static bool refuse_way(struct worker *w, const struct ask *a, const struct steer_result *s)
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

static bool block(struct worker *w, const struct ask *a, const struct verdict *v)
{
	if (v->rule >= 0)
		count_rule(&w->filter_hits[v->rule]);
	if (v->kind != VERDICT_BLOCK)
		return false;
	count(w, C_BLOCKED);
	answer_block(w, a, v->block, w->snap->filter_text[v->rule]);
	return true;
}

/* The answer is at hand: judge every name of its chain and every address, then steer. q: the parked entry this came from or NULL; consumed. */
static void judge_view(struct worker *w, const struct ask *a, struct query *q, const struct view *v)
{
	const struct policy *p = w->snap->policy;
	uint64_t gen = index_generation(policy_index(p));
	for (unsigned i = 0; i < v->chain_len; i++)
		policy_judge(p, gen, v->chain[i], &w->judged[i]);
	struct verdict verdict = policy_filter(p, &a->groups, w->judged, v->chain_len, v->addrs, v->addr_count);
	struct steer_result s;
	if (block(w, a, &verdict))
		goto done;
	policy_steer(p, &a->groups, a->client.is_local, w->judged, v->chain_len, &s);
	if (s.rule >= 0)
		count_rule(&w->steer_hits[s.rule]);
	if (refuse_way(w, a, &s))
		goto done;
	/* The client would connect to the other host's addresses, which are asked for under a name that no rule may know: it is told to use the
	 * addresses of the name itself. */
	if (s.count && v->has_other_target) {
		answer_nodata(w, a, EDE_FILTERED, "this record names another host; the addresses of the name itself are steered");
		goto done;
	}
	bool strips6 = look_at_way(w, s.way).has_no6;
	if (s.count && v->addr_count) {
		count(w, C_STEERED);
		if (steer_addresses(w, a, q, v, &s, strips6))
			return;
	}
	answer_kept(w, a, v->msg, v->len, v->ttl_offset, v->ttl_count, v->age_s, strips6);
done:
	if (q)
		query_free(q);
}

static int view_cached(struct worker *w, const struct cache_answer *c, const struct name *qname, struct view *ret)
{
	*ret = (struct view){ .msg = c->msg, .len = c->msg_len, .ttl_offset = c->ttl_offset, .ttl_count = c->ttl_count, .addrs = c->addrs, .addr_count = c->addr_count,
		.age_s = w->now_s > c->stored_s ? w->now_s - c->stored_s : 0, .cached = c, .chain_len = c->chain_len, .has_other_target = c->has_other_target };
	ret->chain[0] = qname;
	for (unsigned i = 1; i < c->chain_len; i++) {
		if (name_from_wire(&w->chain_names[i], c->chain[i]->wire, c->chain[i]->len) < 0)
			return NW_EMALFORMED;
		ret->chain[i] = &w->chain_names[i];
	}
	return 0;
}

static void view_walked(struct worker *w, const uint8_t *msg, const struct wire_answer *walk, struct view *ret)
{
	*ret = (struct view){ .msg = msg, .len = walk->authority_end, .ttl_offset = walk->ttl_offset, .ttl_count = walk->ttl_count, .addrs = walk->addrs, .addr_count = walk->addr_count,
		.chain_len = walk->chain_len, .has_other_target = walk->has_other_target };
	for (unsigned i = 0; i < walk->chain_len; i++)
		ret->chain[i] = &walk->chain[i];
}

/* --- upstream --- */

static int choose_group(struct worker *w, int way)
{
	const struct config *c = w->snap->config;
	for (int hops = 0; way >= 0 && hops < CONFIG_WAYS_MAX; hops++) {
		if (!look_at_way(w, way).is_off)
			return c->ways[way].upstream >= 0 ? c->ways[way].upstream : c->default_upstream;
		way = c->ways[way].fallback;
	}
	return c->default_upstream;
}

static struct cache_key cache_key_of(const struct worker *w, const struct ask *a, uint16_t group_id)
{
	return (struct cache_key){ .qname = &a->q.qname, .name_hash = name_whole_hash(&a->q.qname, w->shared->name_seed), .qtype = a->q.qtype, .qclass = a->q.qclass, .group = group_id,
		.variant = (uint8_t)(a->q.has_do | (a->q.flags & FLAG_CD ? 2 : 0)) };
}

static void on_upstream(struct upstream_wait *wait, const struct upstream_answer *ans);

static void ask_upstream(struct worker *w, struct query *q, const struct name *qname)
{
	q->wait.done = on_upstream;
	upstream_ask(w->resolver, q->group, qname, q->ask.q.qtype, q->ask.q.qclass, q->ask.q.has_do, q->ask.q.flags & FLAG_CD, &q->wait);
}

static void fail_upstream(struct worker *w, struct query *q, enum upstream_result r)
{
	static const struct { int ede; const char *text; } said[] = {
		[UPSTREAM_TIMEOUT] = { EDE_NO_REACHABLE, "no upstream answered in time" }, [UPSTREAM_UNREACHABLE] = { EDE_NETWORK_ERROR, "the upstream cannot be reached" },
		[UPSTREAM_BUSY] = { EDE_OTHER, "too many questions in flight to this upstream" }, [UPSTREAM_BAD] = { EDE_NETWORK_ERROR, "the upstream's answer does not parse" },
		[UPSTREAM_GONE] = { EDE_NOT_READY, "the configuration changed" },
	};
	answer_rcode(w, &q->ask, RCODE_SERVFAIL, said[r].ede, said[r].text);
	query_free(q);
}

/* Where the configuration of now has the group that this query was asked of. */
static bool find_group(const struct worker *w, struct query *q)
{
	for (unsigned i = 0; i < w->snap->config->upstream_count; i++)
		if (w->snap->group_id[i] == q->group_id) {
			q->group = (uint16_t)i;
			return true;
		}
	return false;
}

/* The answer stops at a CNAME: what there is so far is kept, the target asked of the same group, both merged. */
static bool chase(struct worker *w, struct query *q, const uint8_t *msg, const struct wire_answer *walk)
{
	if (q->chases == CHASES_MAX || !find_group(w, q))
		return false;
	uint8_t *copy = malloc(walk->authority_end);
	if (!copy)
		return false;
	memcpy(copy, msg, walk->authority_end);
	free(q->copy);
	q->copy = copy;
	q->copy_len = walk->authority_end;
	q->chases++;
	q->stage = STAGE_CHASE;
	ask_upstream(w, q, &walk->chain[walk->chain_len - 1]);
	return true;
}

static const struct wire_answer *merge_chased(struct worker *w, struct query *q, const struct upstream_answer *ans, const uint8_t **ret_msg)
{
	int n = wire_chain_merge(w->merged, sizeof w->merged, q->copy, q->copy_len, ans->msg, ans->walked->authority_end);
	free(q->copy);
	q->copy = NULL;
	q->copy_len = 0;
	if (n < 0 || wire_answer_walk(&w->walk, w->merged, (size_t)n) < 0)
		return NULL;
	*ret_msg = w->merged;
	return &w->walk;
}

/* The client may have been sorted into another group meanwhile. A MAC that the configuration of the question did not name may be one that is named now. */
static void classify_again(struct worker *w, struct query *q)
{
	static const uint8_t unnamed[6];
	struct client *c = &q->ask.client;
	if (q->config_serial != w->snap->serial && w->snap->macs.count && !q->ask.is_tcp && !memcmp(c->mac, unnamed, sizeof unnamed))
		c->mac_known = addr_is_loopback(&c->addr);
	policy_classify(w->snap->policy, &q->ask.client, &q->ask.groups);
}

static void on_upstream(struct upstream_wait *wait, const struct upstream_answer *ans)
{
	struct query *q = FROM_MEMBER(wait, struct query, wait);
	struct worker *w = q->w;
	w->now_s = (uint32_t)(loop_now_ms(w->loop) / 1000);
	if (ans->result != UPSTREAM_OK) {
		fail_upstream(w, q, ans->result);
		return;
	}
	const uint8_t *msg = ans->msg;
	const struct wire_answer *walk = ans->walked;
	if (q->stage == STAGE_CHASE && !(walk = merge_chased(w, q, ans, &msg))) {
		fail_upstream(w, q, UPSTREAM_BAD);
		return;
	}
	if (walk->is_cut) {
		fail_upstream(w, q, UPSTREAM_BAD);
		return;
	}
	/* An SOA beside the CNAMEs says that the chain's end has nothing of this type. */
	bool is_open = walk->is_chain_open && !walk->has_soa && walk->rcode == RCODE_NOERROR;
	if (is_open && chase(w, q, msg, walk))
		return;
	if (is_open) {
		answer_rcode(w, &q->ask, RCODE_SERVFAIL, EDE_OTHER, "the chain of aliases cannot be followed to its end");
		query_free(q);
		return;
	}
	classify_again(w, q);
	struct cache_key key = cache_key_of(w, &q->ask, q->group_id);
	if (walk->rcode == RCODE_NOERROR || walk->rcode == RCODE_NXDOMAIN)
		cache_put(w->shared->cache, &key, msg, walk->authority_end, walk, w->now_s);
	/* What is judged and what is sent are one: the kept answer may be another worker's, newer than this. */
	const struct cache_answer *kept = cache_find_quiet(w->shared->cache, &key, w->now_s);
	struct view v;
	if (!kept || view_cached(w, kept, &q->ask.q.qname, &v) < 0)
		view_walked(w, msg, walk, &v);
	judge_view(w, &q->ask, q, &v);
}

/* --- begin --- */

static bool answer_local(struct worker *w, const struct ask *a)
{
	const struct config *c = w->snap->config;
	if (!c->local.has_domain || !name_is_under(&a->q.qname, &c->local.domain))
		return false;
	count(w, C_LOCAL);
	bool is_apex = a->q.qname.len == c->local.domain.len;
	answer_own(w, a, &(struct wire_own){ .rcode = is_apex ? RCODE_NOERROR : RCODE_NXDOMAIN, .aa = true, .ede = EDE_SYNTHESIZED, .ede_text = "local domain", .with_soa = true, .soa_ttl_s = 60 });
	return true;
}

static bool refuse_kind(struct worker *w, const struct ask *a)
{
	if (a->q.qclass != 1) {
		answer_rcode(w, a, RCODE_REFUSED, EDE_NOT_SUPPORTED, "only class IN is served");
		return true;
	}
	if (a->q.qtype == RR_AXFR || a->q.qtype == RR_IXFR || a->q.qtype == RR_TKEY || a->q.qtype == RR_TSIG || a->q.qtype == RR_OPT || a->q.qtype == 0) {
		answer_rcode(w, a, RCODE_NOTIMP, EDE_NOT_SUPPORTED, NULL);
		return true;
	}
	return false;
}

static void resolve(struct worker *w, struct ask *a)
{
	const struct policy *p = w->snap->policy;
	uint64_t gen = index_generation(policy_index(p));
	policy_judge(p, gen, &a->q.qname, &w->judged[0]);
	struct verdict v = policy_filter(p, &a->groups, w->judged, 1, NULL, 0);
	if (block(w, a, &v))
		return;
	struct steer_result s;
	policy_steer(p, &a->groups, a->client.is_local, w->judged, 1, &s);
	if (refuse_way(w, a, &s))
		return;
	int group = choose_group(w, s.way);
	if (group < 0) {
		answer_rcode(w, a, RCODE_SERVFAIL, EDE_NOT_READY, "no upstream is configured");
		return;
	}
	uint16_t group_id = w->snap->group_id[group];
	struct cache_key key = cache_key_of(w, a, group_id);
	const struct cache_answer *c = cache_find(w->shared->cache, &key, w->now_s);
	struct view view;
	if (c && view_cached(w, c, &a->q.qname, &view) == 0) {
		count(w, C_HITS);
		judge_view(w, a, NULL, &view);
		return;
	}
	count(w, C_MISSES);
	struct query *q = query_new(w, a);
	if (!q) {
		count(w, C_FULL);
		answer_rcode(w, a, RCODE_SERVFAIL, EDE_OTHER, "too many queries in flight");
		return;
	}
	q->stage = STAGE_UPSTREAM;
	q->group = (uint16_t)group;
	q->group_id = group_id;
	ask_upstream(w, q, &q->ask.q.qname);
}

static bool begin_bad(struct worker *w, struct ask *a, enum wire_reason reason)
{
	if (reason == WIRE_OK)
		return false;
	count(w, C_MALFORMED);
	switch (reason) {
	case WIRE_FORMERR: answer_rcode(w, a, RCODE_FORMERR, EDE_OTHER, "the question does not parse"); break;
	case WIRE_NOTIMP: answer_rcode(w, a, RCODE_NOTIMP, EDE_NOT_SUPPORTED, "only standard queries"); break;
	case WIRE_BADVERS: answer_rcode(w, a, RCODE_BADVERS, EDE_NOT_SUPPORTED, "only EDNS version 0"); break;
	default: answer_none(w, a);
	}
	return true;
}

void query_begin(struct worker *w, struct ask *a, const uint8_t *msg, size_t len)
{
	count(w, C_QUERIES);
	enum wire_reason reason = wire_query_parse(&a->q, msg, len);
	/* Only an address that may ask gets any answer, an error included: no reflection for strangers. */
	const struct links *l = rcu_read(&w->shared->links);
	identify(w, a, l);
	bool is_allowed = policy_allows(w->snap->policy, &a->client, &a->groups, l ? l->networks : NULL, l ? l->network_count : 0);
	if (reason != WIRE_OK && !is_allowed) {
		count(w, C_REFUSED);
		answer_none(w, a);
		return;
	}
	if (reason == WIRE_OK || reason == WIRE_BADVERS)
		memcpy(a->question, msg + WIRE_HEADER, a->q.question_len);
	else
		a->q.question_len = 0;
	if (begin_bad(w, a, reason))
		return;
	if (!is_allowed) {
		count(w, C_REFUSED);
		answer_rcode(w, a, RCODE_REFUSED, EDE_PROHIBITED, "this client may not ask here (server.allow)");
		return;
	}
	if (!refuse_kind(w, a) && !answer_local(w, a))
		resolve(w, a);
}
