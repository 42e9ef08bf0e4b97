/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From the cache or from upstream: which group is asked, stale answers while it does not answer (RFC 8767), answers refreshed before they expire, aliases
 * that an upstream left open. What is asked for nobody any more (is_answered) still comes into the cache. */
#include <stdlib.h>
#include <string.h>
#include "base/list.h"
#include "base/rcu.h"
#include "dns/query_private.h"
#include "stat/query_log.h"

enum { CHASES_MAX = 8 };

/* Split domains first, then the way's own, then the default; a way that is switched off hands over to its fallback. */
int choose_group(struct worker *w, const struct name *qname, int way)
{
	const struct snapshot *s = w->snap;
	const struct config *c = s->config;
	uint32_t group;
	if (s->domains) {
		name_hash(qname, w->shared->name_seed, w->hashes);
		if (name_map_find_longest(s->domains, qname, w->hashes, 0, &group) >= 0)
			return (int)group;
	}
	for (int hops = 0; way >= 0 && hops < CONFIG_WAYS_MAX; hops++) {
		if (!look_at_way(w, way).is_off)
			return c->ways[way].upstream >= 0 ? c->ways[way].upstream : c->default_upstream;
		way = c->ways[way].fallback;
	}
	return c->default_upstream;
}

static struct cache_key key_of(const struct ask *a, const struct name *qname, uint64_t hash, uint16_t group_id)
{
	return (struct cache_key){ .qname = qname, .name_hash = hash, .qtype = a->q.qtype, .qclass = a->q.qclass, .group = group_id,
		.variant = (uint8_t)(a->q.has_do | (a->q.flags & FLAG_CD ? 2 : 0)) };
}

struct cache_key cache_key_of(const struct worker *w, const struct ask *a, const struct name *qname, uint16_t group_id)
{
	return key_of(a, qname, name_whole_hash(qname, w->shared->name_seed), group_id);
}

struct cache_key cache_key_begun(const struct begun *b, uint16_t group_id)
{
	return key_of(&b->ask, &b->ask.q.qname, b->whole_hash, group_id);
}

/* The client may have been sorted into another group meanwhile. A MAC that the configuration of the question did not name may be one that is named now.
 * False: nobody asked by which interface it came, and now that matters. */
bool classify_again(struct worker *w, struct query *q)
{
	static const uint8_t unnamed[6];
	struct client *c = &q->ask.client;
	if (w->wants_interface && !c->ifindex && !q->ask.is_tcp)
		return false;
	if (q->config_serial != w->snap->serial && w->snap->macs.count && !q->ask.is_tcp && !memcmp(c->mac, unnamed, sizeof unnamed))
		c->mac_known = addr_is_loopback(&c->addr);
	policy_classify(w->snap->policy, &q->ask.client, &q->ask.groups);
	return true;
}

/* --- stale answers --- */

/* True: the client has an answer, an expired one. It is judged and steered as any other. */
static bool answer_stale(struct worker *w, struct query *q)
{
	uint32_t stale_s = w->snap->config->cache.serve_stale_s;
	if (!stale_s || q->stage == STAGE_ALIAS || q->is_answered)
		return false;
	struct cache_key key = cache_key_of(w, &q->ask, &q->ask.q.qname, q->group_id);
	const struct cache_answer *c = cache_find_stale(w->shared->cache, &key, w->now_s, stale_s);
	struct view v;
	if (!c || view_cached(w, c, &q->ask.q.qname, &v) < 0 || !classify_again(w, q))
		return false;
	count(w, C_STALE);
	v.is_stale = true;
	q->is_answered = true;
	w->note = q->note;
	w->note.outcome = OUTCOME_STALE;
	judge_view(w, &q->ask, NULL, &v);
	return true;
}

static void on_slow(struct upstream_wait *wait)
{
	struct query *q = FROM_MEMBER(wait, struct query, wait);
	q->w->now_s = (uint32_t)(loop_now_ms(q->w->loop) / 1000);
	answer_stale(q->w, q);
}

/* --- asking --- */

static void on_upstream(struct upstream_wait *wait, const struct upstream_answer *ans);

void ask_upstream(struct worker *w, struct query *q, const struct name *qname)
{
	q->wait.done = on_upstream;
	q->wait.slow = on_slow;
	upstream_ask(w->resolver, q->group, qname, q->ask.q.qtype, q->ask.q.qclass, q->ask.q.has_do, q->ask.q.flags & FLAG_CD, &q->wait);
}

struct query *ask_park(struct worker *w, const struct ask *a, int group, enum query_stage stage)
{
	/* A group may take no more places than are left for all others, so none keeps them out. */
	uint16_t group_id = w->snap->group_id[group], *parked = &w->parked[group_id % WORKER_GROUPS];
	struct query *q = *parked < WORKER_QUERIES_MAX - w->queries ? query_new(w, a) : NULL;
	if (!q) {
		count(w, C_FULL);
		answer_rcode(w, a, RCODE_SERVFAIL, EDE_OTHER, "too many queries in flight");
		return NULL;
	}
	++*parked;
	q->is_parked_of_group = true;
	q->stage = stage;
	q->group = (uint16_t)group;
	q->group_id = group_id;
	q->note = w->note;
	return q;
}

/* Asked often and nearly over: asked for again while it still serves. Nobody waits for it, so nothing is lost when there is no room. */
static void prefetch(struct worker *w, const struct ask *a, int group)
{
	struct query *q = query_new(w, a);
	if (!q)
		return;
	count(w, C_PREFETCHES);
	q->stage = STAGE_UPSTREAM;
	q->group = (uint16_t)group;
	q->group_id = w->snap->group_id[group];
	q->is_answered = true;
	ask_upstream(w, q, &q->ask.q.qname);
}

void ask_group(struct worker *w, const struct begun *b, int group)
{
	const struct ask *a = &b->ask;
	if (group < 0) {
		answer_rcode(w, a, RCODE_SERVFAIL, EDE_NOT_READY, "no upstream is configured");
		return;
	}
	struct cache_key key = cache_key_begun(b, w->snap->group_id[group]);
	const struct cache_answer *c = cache_find(w->shared->cache, &key, w->now_s);
	struct view view;
	if (c && view_cached(w, c, &a->q.qname, &view) == 0) {
		count(w, C_HITS);
		w->note.outcome = OUTCOME_CACHED;
		view.judged = 1;
		if (w->snap->config->cache.prefetch && cache_wants_prefetch(c, w->now_s))
			prefetch(w, a, group);
		judge_view(w, a, NULL, &view);
		return;
	}
	count(w, C_MISSES);
	struct query *q = ask_park(w, a, group, STAGE_UPSTREAM);
	if (q)
		ask_upstream(w, q, &q->ask.q.qname);
}

/* --- what came --- */

/* The group is gone or another one: asked once more, as the configuration of now says. */
static bool ask_anew(struct worker *w, struct query *q)
{
	const struct policy *p = w->snap->policy;
	if (q->was_asked_anew || q->is_answered || q->stage != STAGE_UPSTREAM)
		return false;
	if (!classify_again(w, q))
		return false;
	struct policy_ask who = { .qtype = q->ask.q.qtype, .client = &q->ask.client, .groups = &q->ask.groups };
	policy_judge(p, policy_generation(p), &q->ask.q.qname, &who, &w->judged[0]);
	policy_steer(p, &q->ask.groups, q->ask.client.is_local, w->judged, 1, &w->steered);
	int group = choose_group(w, &q->ask.q.qname, w->steered.way);
	if (group < 0)
		return false;
	w->parked[q->group_id % WORKER_GROUPS]--;
	q->was_asked_anew = true;
	q->group = (uint16_t)group;
	q->group_id = w->snap->group_id[group];
	w->parked[q->group_id % WORKER_GROUPS]++;
	ask_upstream(w, q, &q->ask.q.qname);
	return true;
}

static void fail_upstream(struct worker *w, struct query *q, enum upstream_result r)
{
	static const struct { int ede; const char *text; } said[] = {
		[UPSTREAM_TIMEOUT] = { EDE_NO_REACHABLE, "no upstream answered in time" }, [UPSTREAM_UNREACHABLE] = { EDE_NETWORK_ERROR, "the upstream cannot be reached" },
		[UPSTREAM_BUSY] = { EDE_OTHER, "too many questions in flight to this upstream" }, [UPSTREAM_BAD] = { EDE_NETWORK_ERROR, "the upstream's answer does not parse" },
		[UPSTREAM_GONE] = { EDE_NOT_READY, "the configuration changed" }, [UPSTREAM_FAILED] = { EDE_CACHED_ERROR, "the upstreams failed moments ago" },
		[UPSTREAM_NONE] = { EDE_NOT_READY, "this group has no upstream now" },
	};
	if (r == UPSTREAM_GONE && ask_anew(w, q))
		return;
	if (!q->is_answered && !answer_stale(w, q))
		answer_rcode(w, &q->ask, RCODE_SERVFAIL, said[r].ede, said[r].text);
	query_free(q);
}

/* Where the configuration of now has the group that this query was asked of. */
bool find_group(const struct worker *w, struct query *q)
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
	/* What is blocked is not asked for under another name either. */
	if (!q->is_answered) {
		const struct name *names[ANSWER_CHAIN_MAX];
		for (unsigned i = 0; i < walk->chain_len; i++)
			names[i] = &walk->chain[i];
		if (!classify_again(w, q))
			return false;
		if (block_target(w, &q->ask, names, walk->chain_len)) {
			query_free(q);
			return true;
		}
	}
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

static void take_answer(struct worker *w, struct query *q, const uint8_t *msg, const struct wire_answer *walk)
{
	struct cache_key key = cache_key_of(w, &q->ask, &q->ask.q.qname, q->group_id);
	bool is_useful = walk->rcode == RCODE_NOERROR || walk->rcode == RCODE_NXDOMAIN;
	if (is_useful)
		cache_put(w->shared->cache, &key, msg, walk->authority_end, walk, w->now_s);
	if (q->is_answered || (!is_useful && answer_stale(w, q))) {
		query_free(q);
		return;
	}
	if (!classify_again(w, q)) {
		fail_upstream(w, q, UPSTREAM_GONE);
		return;
	}
	w->note.outcome = is_useful ? OUTCOME_ANSWERED : OUTCOME_FAILED;
	/* Its upper bits have no place in what we send: without them it would be another code. */
	if (walk->rcode > 15) {
		answer_rcode(w, &q->ask, RCODE_SERVFAIL, EDE_NETWORK_ERROR, "the upstream answers with an extended error");
		query_free(q);
		return;
	}
	/* What is judged and what is sent are one: the kept answer may be another worker's, newer than this. */
	const struct cache_answer *kept = is_useful ? cache_find_quiet(w->shared->cache, &key, w->now_s) : NULL;
	struct view v;
	if (!kept || view_cached(w, kept, &q->ask.q.qname, &v) < 0)
		view_walked(w, msg, walk, &v);
	judge_view(w, &q->ask, q, &v);
}

static void on_upstream(struct upstream_wait *wait, const struct upstream_answer *ans)
{
	struct query *q = FROM_MEMBER(wait, struct query, wait);
	struct worker *w = q->w;
	w->now_s = (uint32_t)(loop_now_ms(w->loop) / 1000);
	w->note = q->note;
	if (ans->result != UPSTREAM_OK) {
		fail_upstream(w, q, ans->result);
		return;
	}
	if (q->stage == STAGE_ALIAS) {
		if (classify_again(w, q))
			alias_answered(w, q, ans);
		else
			fail_upstream(w, q, UPSTREAM_GONE);
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
		if (!q->is_answered)
			answer_rcode(w, &q->ask, RCODE_SERVFAIL, EDE_OTHER, "the chain of aliases cannot be followed to its end");
		query_free(q);
		return;
	}
	take_answer(w, q, msg, walk);
}
