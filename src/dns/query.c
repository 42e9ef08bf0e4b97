/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The flow of one query: parse, who asks, local names, filter(question), steer(question), cache, upstream, filter(answer), steer(answer), barrier, answer.
 * Runs to its end on the worker's stack unless it has to wait; what waits is a slab entry that is judged anew when it goes on, by the policy of that
 * moment. This file is the part before the cache.
 *
 * The queries of a batch take each step together: while one is parsed, or answered by a local name, the processor fetches what the next step of all of
 * them reads of the large tables. So a large list costs hardly more than a small one. */
#include "dns/query.h"
#include <string.h>
#include "base/rcu.h"
#include "dns/query_private.h"
#include "stat/query_log.h"

static const char *link_name(const struct links *l, uint32_t ifindex)
{
	static const char none[IFNAME_MAX];
	for (unsigned i = 0; l && i < l->count; i++)
		if (l->v[i].ifindex == ifindex)
			return l->v[i].name;
	return none;
}

static bool is_last_client(const struct worker *w, const struct client *c, const struct links *l)
{
	const struct client *last = &w->last.client;
	return w->last.is_known && w->last.links == l && last->ifindex == c->ifindex && addr_equal(&last->addr, &c->addr) && last->mac_known == c->mac_known &&
		!memcmp(last->mac, c->mac, sizeof c->mac);
}

/* Which groups the client is of, and whether it may ask. Many queries of one client come one after another. */
static bool identify(struct worker *w, struct ask *a)
{
	const struct links *l = rcu_read(&w->shared->links);
	struct client *c = &a->client;
	if (is_last_client(w, c, l)) {
		*c = w->last.client;
		a->groups = w->last.groups;
		return w->last.is_allowed;
	}
	memcpy(c->ifname, link_name(l, c->ifindex), sizeof c->ifname);
	c->is_local = addr_is_loopback(&c->addr) || !strcmp(c->ifname, "lo");
	policy_classify(w->snap->policy, c, &a->groups);
	w->last.links = l;
	w->last.client = *c;
	w->last.groups = a->groups;
	w->last.is_allowed = policy_allows(w->snap->policy, c, &a->groups, l ? l->networks : NULL, l ? l->network_count : 0);
	w->last.is_known = true;
	return w->last.is_allowed;
}

static bool answer_local(struct worker *w, const struct begun *b)
{
	const struct ask *a = &b->ask;
	const struct local *table = rcu_read(&w->shared->local);
	struct local_answer *l = &w->local;
	if (!table)
		return false;
	local_find(table, &a->q.qname, b->hashes, a->q.qtype, l);
	if (l->kind == LOCAL_NONE)
		return false;
	count(w, C_LOCAL);
	w->note.outcome = OUTCOME_LOCAL;
	if (l->kind == LOCAL_ALIAS)
		alias_local(w, a, l);
	else
		answer_made(w, a, &(struct wire_own){ .rcode = l->kind == LOCAL_NXDOMAIN ? RCODE_NXDOMAIN : RCODE_NOERROR, .aa = l->has_authority, .ede = l->ede, .ede_text = l->text,
			.records = l->records, .record_count = l->record_count, .with_soa = l->kind != LOCAL_ANSWER, .soa_ttl_s = l->negative_ttl_s });
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

static void parse(struct worker *w, struct begun *b, const struct query_msg *m)
{
	struct ask *a = &b->ask;
	count(w, C_QUERIES);
	a->begun_ms = loop_now_ms(w->loop);
	b->reason = wire_query_parse(&a->q, m->bytes, m->len);
	if (b->reason == WIRE_OK || b->reason == WIRE_BADVERS)
		memcpy(a->question, m->bytes + WIRE_HEADER, a->q.question_len);
	else
		a->q.question_len = 0;
	if (b->reason != WIRE_OK)
		return;
	const struct local *table = rcu_read(&w->shared->local);
	name_hash(&a->q.qname, w->shared->name_seed, b->hashes);
	if (table)
		local_prefetch(table, &a->q.qname, b->hashes);
}

/* What can be said without the lists. False: the query is over. */
static bool goes_on(struct worker *w, struct begun *b)
{
	struct ask *a = &b->ask;
	w->note = NOTE_NONE;
	/* Only an address that may ask gets any answer, an error included: no reflection for strangers. */
	bool is_allowed = identify(w, a);
	if (b->reason != WIRE_OK && !is_allowed) {
		count(w, C_REFUSED);
		answer_none(w, a);
		return false;
	}
	if (begin_bad(w, a, b->reason))
		return false;
	if (!is_allowed) {
		count(w, C_REFUSED);
		answer_rcode(w, a, RCODE_REFUSED, EDE_PROHIBITED, "this client may not ask here (server.allow)");
		return false;
	}
	return !refuse_kind(w, a) && !answer_local(w, b);
}

static void prefetch(struct worker *w, struct begun *b)
{
	const struct index *ix = policy_index(w->snap->policy);
	const struct name *n = &b->ask.q.qname;
	b->whole_hash = name_whole_hash(n, w->shared->name_seed);
	name_hash(n, index_seed(ix), b->hashes);
	index_prefetch(ix, n, b->hashes);
}

/* The key by which the answer is probably kept: of the upstream that most questions go to. False: there is none. */
static bool likely_key(const struct worker *w, const struct begun *b, struct cache_key *ret)
{
	int group = w->snap->config->default_upstream;
	if (group >= 0)
		*ret = cache_key_begun(b, w->snap->group_id[group]);
	return group >= 0;
}

/* What the lists say of the names, and the kept answers of those that no list says anything of: the others are mostly blocked. */
static void prefetch_entries(struct worker *w, struct begun *const *going, unsigned count)
{
	const struct index *ix = policy_index(w->snap->policy);
	struct cache_key key[BEGIN_TOGETHER];
	unsigned keys = 0;
	for (unsigned i = 0; i < count; i++)
		if (!index_prefetch_entries(ix, &going[i]->ask.q.qname, going[i]->hashes) && likely_key(w, going[i], &key[keys]))
			cache_prefetch(w->shared->cache, &key[keys++]);
	for (unsigned i = 0; i < keys; i++)
		cache_prefetch_entry(w->shared->cache, &key[i]);
}

static void resolve(struct worker *w, struct begun *b)
{
	const struct policy *p = w->snap->policy;
	const struct ask *a = &b->ask;
	struct policy_ask who = { .qtype = a->q.qtype, .client = &a->client, .groups = &a->groups };
	w->note = NOTE_NONE;
	w->judged_gen = policy_generation(p);
	policy_judge_hashed(p, w->judged_gen, &a->q.qname, b->hashes, &who, &w->judged[0]);
	struct verdict v = policy_filter(p, &a->groups, w->shared->pause, w->now_s, w->judged, 1, NULL, 0);
	if (block(w, a, &v))
		return;
	policy_steer(p, &a->groups, a->client.is_local, w->judged, 1, &w->steered);
	if (!refuse_way(w, a, &w->steered))
		ask_group(w, b, choose_group(w, &a->q.qname, w->steered.way));
}

void query_begin(struct worker *w, const struct query_msg *msgs, unsigned n)
{
	struct begun *going[BEGIN_TOGETHER];
	unsigned left = 0;
	for (unsigned i = 0; i < n; i++)
		parse(w, &w->begun[i], &msgs[i]);
	for (unsigned i = 0; i < n; i++)
		if (goes_on(w, &w->begun[i])) {
			going[left++] = &w->begun[i];
			prefetch(w, &w->begun[i]);
		}
	if (left > 1)
		prefetch_entries(w, going, left);
	for (unsigned i = 0; i < left; i++)
		resolve(w, going[i]);
}
