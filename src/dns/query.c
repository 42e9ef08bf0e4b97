/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The flow of one query: parse, who asks, local names, filter(question), steer(question), cache, upstream, filter(answer), steer(answer), barrier, answer.
 * Runs to its end on the worker's stack unless it has to wait; what waits is a slab entry that is judged anew when it goes on, by the policy of that
 * moment. This file is the part before the cache. */
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

static void identify(struct worker *w, struct ask *a, const struct links *l)
{
	struct client *c = &a->client;
	memcpy(c->ifname, link_name(l, c->ifindex), sizeof c->ifname);
	c->is_local = addr_is_loopback(&c->addr) || !strcmp(c->ifname, "lo");
	policy_classify(w->snap->policy, c, &a->groups);
}

static bool answer_local(struct worker *w, const struct ask *a)
{
	const struct local *table = rcu_read(&w->shared->local);
	struct local_answer *l = &w->local;
	if (!table)
		return false;
	name_hash(&a->q.qname, w->shared->name_seed, w->hashes);
	local_find(table, &a->q.qname, w->hashes, a->q.qtype, l);
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

static void resolve(struct worker *w, struct ask *a)
{
	const struct policy *p = w->snap->policy;
	struct policy_ask who = { .qtype = a->q.qtype, .client = &a->client, .groups = &a->groups };
	w->judged_gen = policy_generation(p);
	policy_judge(p, w->judged_gen, &a->q.qname, &who, &w->judged[0]);
	struct verdict v = policy_filter(p, &a->groups, w->shared->pause, w->now_s, w->judged, 1, NULL, 0);
	if (block(w, a, &v))
		return;
	policy_steer(p, &a->groups, a->client.is_local, w->judged, 1, &w->steered);
	if (!refuse_way(w, a, &w->steered))
		ask_group(w, a, choose_group(w, &a->q.qname, w->steered.way));
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
	w->note = NOTE_NONE;
	a->begun_ms = loop_now_ms(w->loop);
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
