/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Why a rule did not decide. The verdict itself is always policy/'s; here the same conditions are looked at one by one to put
 * them into words. The control thread, with the snapshot taken. */
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "control/explain.h"

static bool has_group(const uint64_t bits[GROUP_WORDS], unsigned g)
{
	return bits[g / 64] >> (g % 64) & 1;
}

static enum explain_is any_group(const struct explain *x, const struct ids *groups, int *ret_group)
{
	enum explain_is is = IS_NOT;
	for (unsigned i = 0; i < groups->count; i++) {
		unsigned g = groups->v[i];
		if (has_group(x->groups.yes, g)) {
			*ret_group = (int)g;
			return IS_SO;
		}
		if (has_group(x->groups.unknown, g)) {
			*ret_group = (int)g;
			is = IS_UNKNOWN;
		}
	}
	return is;
}

enum explain_is explain_is_for(
        const struct explain *x, const struct ids *clients, const struct ids *except_clients, int *ret_except)
{
	int group = -1;
	*ret_except = -1;
	enum explain_is is = clients->count ? any_group(x, clients, &group) : IS_SO;
	enum explain_is is_excepted = any_group(x, except_clients, ret_except);
	if (is_excepted == IS_NOT)
		*ret_except = -1;
	enum explain_is is_not_excepted = (enum explain_is)(IS_SO - is_excepted);
	return is < is_not_excepted ? is : is_not_excepted;
}

int explain_list_of(const struct explain *x, enum explain_kind kind, const struct ids *lists, unsigned name)
{
	const struct judged_name *n = &x->judged[name];
	const struct membership *m = kind == FOR_FILTER && n->is_conditional ? &n->here : &n->in;
	if (!policy_any_holds(x->policy, lists, m))
		return -1;
	for (unsigned i = 0; i < lists->count; i++)
		if (policy_holds(m, x->snap->slots[lists->v[i]]))
			return lists->v[i];
	return -1;
}

static const char *kind_text(unsigned kind)
{
	return kind & KIND_ALLOW ? "@@" : kind & KIND_EXEMPT ? "!" : kind & KIND_EXEMPT_EXACT ? "!=" : kind & KIND_EXACT && !(kind & KIND_SUFFIX) ? "=" : "";
}

json_t *explain_entry(struct explain *x, unsigned list, unsigned name)
{
	const struct name *n = &x->chain[name];
	const struct index *ix = policy_index(x->policy);
	uint64_t hashes[NAME_LABELS_MAX + 1];
	char text[NAME_TEXT_MAX];
	struct name entry;
	unsigned label = 0;
	name_hash(n, index_seed(ix), hashes);
	unsigned kinds = index_decides(ix, policy_generation(x->policy), n, hashes, x->snap->slots[list], &label);
	json_t *j = json_pack("{s:o, s:o}", "list", control_text(x->snap->config->lists[list].name), "name",
	        control_text(name_to_text(text, n->wire)));
	struct policy_ask who = { .qtype = name ? RR_CNAME : x->qtype, .client = &x->client, .groups = &x->groups };
	const char *rule = policy_expr_text(x->policy, x->snap->slots[list], n, &who);
	if (rule) {
		json_object_set_new(j, "entry", control_text(rule));
		explain_want_rule(x, j, list, rule);
		return j;
	}
	if (!kinds || name_from_wire(&entry, n->wire + n->offset[label], n->len - (size_t)n->offset[label]) < 0)
		return j;
	json_object_set_new(j, "entry", control_textf("%s%s", kind_text(kinds), name_to_text(text, entry.wire)));
	explain_want_name(x, j, list, &entry, kinds & ~(unsigned)KIND_MULTI);
	return j;
}

/* --- words --- */

static void join(char *ret, size_t size, const char *const *names, unsigned count)
{
	size_t at = 0;
	ret[0] = 0;
	for (unsigned i = 0; i < count && at + strlen(names[i]) + 3 < size; i++)
		at += (size_t)snprintf(ret + at, size - at, "%s%s", i ? ", " : "", names[i]);
}

static json_t *why_not_client(const struct explain *x, const struct ids *clients, int except)
{
	const struct config *c = x->snap->config;
	const char *names[8];
	char text[256];
	unsigned n = 0;
	if (except >= 0)
		return control_textf("the client is in `%s`, which it excepts", c->groups[except].name);
	for (; n < clients->count && n < 8; n++)
		names[n] = c->groups[clients->v[n]].name;
	join(text, sizeof(text), names, n);
	return control_textf("the client is not in %s", text);
}

static json_t *why_not_name(struct explain *x, enum explain_kind kind, const struct ids *lists, const struct ids *except, json_t **ret_entry)
{
	const struct config *c = x->snap->config;
	const char *names[8];
	char text[256];
	unsigned n = 0;
	for (unsigned i = 0; i < x->chain_len; i++) {
		int list = explain_list_of(x, kind, except, i);
		if (list < 0 || (lists->count && explain_list_of(x, kind, lists, i) < 0))
			continue;
		*ret_entry = explain_entry(x, (unsigned)list, i);
		return control_textf("the name is in list `%s`, which it excepts", c->lists[list].name);
	}
	for (; n < lists->count && n < 8; n++)
		names[n] = c->lists[lists->v[n]].name;
	join(text, sizeof(text), names, n);
	return control_textf("the name is not in %s", text);
}

static bool takes_chain(const struct explain *x, enum explain_kind kind, const struct ids *lists, const struct ids *except)
{
	for (unsigned i = 0; i < x->chain_len; i++)
		if ((!lists->count || explain_list_of(x, kind, lists, i) >= 0) && explain_list_of(x, kind, except, i) < 0)
			return true;
	return false;
}

static void add_loser(json_t *lost, json_t *rule, json_t *why, json_t *entry)
{
	json_t *j = json_pack("{s:O, s:O, s:O, s:O, s:o}", "kind", json_object_get(rule, "kind"), "rule",
	        json_object_get(rule, "rule"), "name", json_object_get(rule, "name"), "place", json_object_get(rule, "place"),
	        "why", why);
	if (entry)
		json_object_set_new(j, "by", entry);
	json_array_append_new(lost, j);
	json_decref(rule);
}

/* --- filter --- */

static json_t *why_filter_lost(struct explain *x, unsigned rule, int winner, json_t **ret_entry)
{
	const struct cfg_filter *f = &x->snap->config->filters[rule];
	int except;
	uint32_t paused_s = filter_left_s(x->env, x->snap->config, rule);
	if (!f->enabled)
		return json_string("it is disabled");
	if (paused_s)
		return control_textf("it is paused (`filter off`) for %u s more", paused_s);
	enum explain_is is = explain_is_for(x, &f->clients, &f->except_clients, &except);
	if (is == IS_NOT)
		return why_not_client(x, &f->clients, except);
	if (is == IS_UNKNOWN && f->allow)
		return json_string("whether the client belongs to it depends on its Ethernet address, which is not known: then "
		                   "nothing is allowed by it");
	if (!takes_chain(x, FOR_FILTER, &f->names, &f->except_names))
		return why_not_name(x, FOR_FILTER, &f->names, &f->except_names, ret_entry);
	return control_textf("it would match, but filter rule %d comes first", winner + 1);
}

void explain_filter_losers(struct explain *x, const struct verdict *v, json_t *lost)
{
	const struct config *c = x->snap->config;
	for (unsigned i = 0; i < c->filter_count; i++) {
		json_t *entry = NULL;
		if ((int)i == v->rule)
			continue;
		json_t *why = why_filter_lost(x, i, v->rule, &entry);
		add_loser(lost, rule_json_filter(c, i), why, entry);
	}
}

/* --- steer --- */

static json_t *why_steer_lost(struct explain *x, unsigned rule, int winner, json_t **ret_entry)
{
	const struct cfg_steer *s = &x->snap->config->steers[rule];
	static const struct ids none = {0};
	int except;
	if (!s->enabled)
		return json_string("it is disabled");
	if (s->has_gid)
		return control_textf("it is for this machine's own processes of group %u", s->gid);
	if (x->client.is_local && s->clients.count)
		return json_string("it is for clients of the network; the question is this machine's own");
	enum explain_is is = explain_is_for(x, &s->clients, &s->except_clients, &except);
	if (is == IS_NOT)
		return why_not_client(x, &s->clients, except);
	/* A rule with exceptions alone takes what has none of them anywhere in its chain. */
	if (policy_rule_is_negated(x->snap->config, rule)) {
		for (unsigned i = 0; i < x->chain_len; i++)
			if (explain_list_of(x, FOR_STEER, &s->except_names, i) >= 0)
				return why_not_name(x, FOR_STEER, &none, &s->except_names, ret_entry);
	} else if (!takes_chain(x, FOR_STEER, &s->names, &s->except_names)) {
		return why_not_name(x, FOR_STEER, &s->names, &s->except_names, ret_entry);
	}
	if (is == IS_UNKNOWN)
		return json_string("whether the client belongs to it depends on its Ethernet address, which is not known: the "
		                   "answer is then SERVFAIL");
	return winner >= 0 ? control_textf("it would match, but steer rule %d comes first", winner + 1)
	                   : json_string("it did not decide");
}

void explain_steer_losers(struct explain *x, const struct steer_result *s, json_t *lost)
{
	const struct config *c = x->snap->config;
	for (unsigned i = 0; i < c->steer_count; i++) {
		json_t *entry = NULL;
		if ((int)i == s->rule)
			continue;
		json_t *why = why_steer_lost(x, i, s->rule, &entry);
		add_loser(lost, rule_json_steer(c, i), why, entry);
	}
}
