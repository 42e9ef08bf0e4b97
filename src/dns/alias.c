/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Names that stand for others by our own word: a filter rule's `cname:`, and local records that lead out of what is ours. The target is resolved as if it
 * had been asked for (local names, filter, cache, upstream), and the answer is the alias in front of what came. The qname itself is no longer filtered:
 * it led here. What came is kept under the target's name, never under the alias. */
#include <stdlib.h>
#include <string.h>
#include "base/rcu.h"
#include "dns/query_private.h"

enum { ALIAS_CHASES_MAX = 8 };

/* The alias as a message that another can be merged behind. Returns its length. */
static size_t first_build(struct worker *w, const struct ask *a, const struct wire_record *records, unsigned count)
{
	struct wire_query q = a->q;
	struct wire_own own = { .ede = EDE_NONE, .records = records, .record_count = count };
	q.has_edns = false;
	return wire_own_build(w->first, sizeof w->first, &q, a->question, &own);
}

/* Both together, judged and answered. first: in w->first. Consumes q. */
static void answer_merged(struct worker *w, const struct ask *a, struct query *q, const uint8_t *first, size_t first_len, const uint8_t *msg, size_t len, uint32_t age_s)
{
	int n = wire_chain_merge(w->merged, sizeof w->merged, first, first_len, msg, len);
	struct view v;
	if (n < 0 || wire_answer_walk(&w->walk, w->merged, (size_t)n) < 0 || w->walk.is_cut) {
		answer_rcode(w, a, RCODE_SERVFAIL, EDE_OTHER, "the alias and its target do not fit together");
		if (q)
			query_free(q);
		return;
	}
	view_walked(w, w->merged, &w->walk, &v);
	v.age_s = age_s;
	v.skipped = 1;
	judge_view(w, a, q, &v);
}

/* Local data at the target: an answer of our own. True: answered. */
static bool target_is_local(struct worker *w, const struct ask *a, const struct wire_record *alias, const struct name *target)
{
	const struct local *table = rcu_read(&w->shared->local);
	struct local_answer *l = &w->local;
	if (!table)
		return false;
	name_hash(target, w->shared->name_seed, w->hashes);
	local_find(table, target, w->hashes, a->q.qtype, l);
	if (l->kind == LOCAL_NONE || l->kind == LOCAL_ALIAS)
		return false;
	struct wire_record all[LOCAL_RECORDS_MAX + 1];
	all[0] = *alias;
	for (unsigned i = 0; i < l->record_count; i++) {
		all[i + 1] = l->records[i];
		if (!all[i + 1].owner)
			all[i + 1].owner = target->wire;
	}
	answer_own(w, a, &(struct wire_own){ .rcode = l->kind == LOCAL_NXDOMAIN ? RCODE_NXDOMAIN : RCODE_NOERROR, .ede = EDE_FORGED, .ede_text = "alias", .records = all,
		.record_count = l->record_count + 1, .with_soa = l->kind != LOCAL_ANSWER, .soa_ttl_s = l->negative_ttl_s });
	return true;
}

/* The target's own question: filter and steer judge it, then the cache or upstream. */
static void resolve_target(struct worker *w, const struct ask *a, const struct name *target, size_t first_len)
{
	const struct policy *p = w->snap->policy;
	struct policy_ask who = { .qtype = a->q.qtype, .client = &a->client, .groups = &a->groups };
	policy_judge(p, policy_generation(p), target, &who, &w->judged[0]);
	policy_steer(p, &a->groups, a->client.is_local, w->judged, 1, &w->steered);
	int group = choose_group(w, target, w->steered.way);
	if (group < 0) {
		answer_rcode(w, a, RCODE_SERVFAIL, EDE_NOT_READY, "no upstream is configured");
		return;
	}
	struct cache_key key = cache_key_of(w, a, target, w->snap->group_id[group]);
	const struct cache_answer *c = cache_find(w->shared->cache, &key, w->now_s);
	if (c) {
		count(w, C_HITS);
		answer_merged(w, a, NULL, w->first, first_len, c->msg, c->msg_len, w->now_s > c->stored_s ? w->now_s - c->stored_s : 0);
		return;
	}
	count(w, C_MISSES);
	struct query *q = ask_park(w, a, group, STAGE_ALIAS);
	if (!q)
		return;
	q->copy = malloc(first_len);
	if (!q->copy) {
		answer_rcode(w, a, RCODE_SERVFAIL, EDE_OTHER, "out of memory");
		query_free(q);
		return;
	}
	memcpy(q->copy, w->first, first_len);
	q->copy_len = first_len;
	ask_upstream(w, q, target);
}

void alias_begin(struct worker *w, const struct ask *a, const struct name *target, uint32_t ttl_s)
{
	struct wire_record alias = { .type = RR_CNAME, .rdlen = target->len, .ttl_s = ttl_s, .rdata = target->wire };
	if (a->q.qtype == RR_CNAME || a->q.qtype == RR_ANY || name_equal(target, &a->q.qname)) {
		answer_own(w, a, &(struct wire_own){ .ede = EDE_FORGED, .ede_text = "alias", .records = &alias, .record_count = 1 });
		return;
	}
	if (!target_is_local(w, a, &alias, target))
		resolve_target(w, a, target, first_build(w, a, &alias, 1));
}

void alias_local(struct worker *w, const struct ask *a, const struct local_answer *l)
{
	struct name target = l->target;
	resolve_target(w, a, &target, first_build(w, a, l->records, l->record_count));
}

/* The answer stops at a CNAME of its own: the chain so far is kept, and its end asked for. */
static bool ask_on(struct worker *w, struct query *q, const struct upstream_answer *ans)
{
	const struct wire_answer *walk = ans->walked;
	if (!walk->is_chain_open || walk->has_soa || walk->rcode != RCODE_NOERROR || q->chases == ALIAS_CHASES_MAX)
		return false;
	int n = wire_chain_merge(w->merged, sizeof w->merged, q->copy, q->copy_len, ans->msg, walk->authority_end);
	uint8_t *copy = n > 0 && (size_t)n <= sizeof w->first ? malloc((size_t)n) : NULL;
	if (!copy)
		return false;
	memcpy(copy, w->merged, (size_t)n);
	free(q->copy);
	q->copy = copy;
	q->copy_len = (size_t)n;
	q->chases++;
	ask_upstream(w, q, &walk->chain[walk->chain_len - 1]);
	return true;
}

void alias_answered(struct worker *w, struct query *q, const struct upstream_answer *ans)
{
	const struct wire_answer *walk = ans->walked;
	size_t first_len = q->copy_len;
	if (walk->is_cut) {
		answer_rcode(w, &q->ask, RCODE_SERVFAIL, EDE_NETWORK_ERROR, "the upstream's answer does not parse");
		query_free(q);
		return;
	}
	if (ask_on(w, q, ans))
		return;
	struct cache_key key = cache_key_of(w, &q->ask, &walk->chain[0], q->group_id);
	cache_put(w->shared->cache, &key, ans->msg, walk->authority_end, walk, w->now_s);
	memcpy(w->first, q->copy, first_len);
	free(q->copy);
	q->copy = NULL;
	q->copy_len = 0;
	answer_merged(w, &q->ask, q, w->first, first_len, ans->msg, walk->authority_end, 0);
}
