/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `explain NAME`: the same steps as a query takes (dns/query.c): local names, filter and steer of the question, the upstream,
 * the cache, then filter and steer of the answer when it is known. The control thread; cached answers are copied at once, they
 * live only inside a read section. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "control/explain.h"

struct seen {
	bool is_cached, is_nodata;
	uint8_t rcode, variant;
	uint32_t age_s, left_s;
};

static uint32_t now_s(void)
{
	return (uint32_t)(clock_ms() / 1000);
}

static void judge(struct explain *x)
{
	uint64_t gen = policy_generation(x->policy);
	struct policy_ask who = { .qtype = x->qtype, .client = &x->client, .groups = &x->groups };
	for (unsigned i = 0; i < x->chain_len; i++) {
		who.qtype = i ? RR_CNAME : x->qtype;
		policy_judge(x->policy, gen, &x->chain[i], &who, &x->judged[i]);
	}
}

static void outcome(struct explain *x, json_t *text)
{
	/* Judged all the same: the rest is told as for one that may ask. */
	if (json_is_false(json_object_get(json_object_get(x->out, "client"), "may_ask"))) {
		json_decref(text);
		text = json_string("answered REFUSED: this client may not ask here (server.allow)");
	}
	json_object_set_new(x->out, "outcome", text);
}

/* --- filter --- */

/* Which name of the chain, or which address, the rule took. */
static json_t *filter_entry(struct explain *x, const struct verdict *v)
{
	const struct cfg_filter *f = &x->snap->config->filters[v->rule];
	if (v->list < 0)
		return NULL;
	for (unsigned i = 0; i < x->chain_len; i++)
		if (explain_list_of(x, FOR_FILTER, &f->names, i) == v->list && explain_list_of(x, FOR_FILTER, &f->except_names, i) < 0)
			return explain_entry(x, (unsigned)v->list, i);
	for (unsigned i = 0; i < x->addr_count; i++) {
		struct verdict one = policy_filter(x->policy, &x->groups, x->env->pause, now_s(), NULL, 0, &x->addrs[i], 1);
		char text[ADDR_TEXT_MAX];
		if (one.rule != v->rule)
			continue;
		json_t *j = json_pack("{s:o, s:s}", "list", control_text(x->snap->config->lists[v->list].name), "address",
		        addr_print(text, &x->addrs[i]));
		explain_want_address(x, j, (unsigned)v->list, &x->addrs[i]);
		return j;
	}
	return NULL;
}

static void tell_filter(struct explain *x, const struct verdict *v, json_t *lost)
{
	static const char *const kinds[] = {[VERDICT_PASS] = "pass", [VERDICT_ALLOW] = "allow", [VERDICT_BLOCK] = "block"};
	const struct config *c = x->snap->config;
	json_t *j = json_pack("{s:s}", "verdict", kinds[v->kind]);
	if (v->kind == VERDICT_BLOCK)
		json_object_set_new(j, "block", json_string(block_text(v->block)));
	if (v->rule >= 0)
		json_object_set_new(j, "rule", rule_json_filter(c, (unsigned)v->rule));
	json_t *entry = v->rule >= 0 ? filter_entry(x, v) : NULL;
	if (entry)
		json_object_set_new(j, "by", entry);
	json_object_set_new(x->out, "filter", j);
	explain_filter_losers(x, v, lost);
}

static json_t *block_outcome(const struct explain *x, const struct verdict *v)
{
	static const char *const texts[] = {[BLOCK_NONE] = "",
	        [BLOCK_NXDOMAIN] = "answered NXDOMAIN",
	        [BLOCK_NODATA] = "answered without records",
	        [BLOCK_ZERO] = "answered with the zero address",
	        [BLOCK_REFUSE] = "answered REFUSED",
	        [BLOCK_DROP] = "not answered",
	        [BLOCK_ANSWER] = "answered with addresses of the rule's own",
	        [BLOCK_CNAME] = "answered as an alias"};
	const struct cfg_filter *rule = &x->snap->config->filters[v->rule];
	const char *name = rule->name;
	char target[NAME_TEXT_MAX];
	if (v->block == BLOCK_ANSWER)
		return control_textf("%s: rewritten by %s", texts[v->block], name ? name : "a filter rule");
	if (v->block == BLOCK_CNAME)
		return control_textf("%s of %s: rewritten by %s", texts[v->block], name_to_text(target, rule->cname.wire), name ? name : "a filter rule");
	return control_textf("%s: blocked by %s", texts[v->block], name ? name : "a filter rule");
}

/* --- steer --- */

static json_t *hit_json(struct explain *x, const struct steer_hit *h)
{
	const struct config *c = x->snap->config;
	const struct cfg_steer *s = &c->steers[h->rule];
	char text[NAME_TEXT_MAX];
	json_t *j = json_pack("{s:i, s:o, s:[o,o]}", "rule", h->rule + 1, "name", control_text(s->name), "sets",
	        control_textf("r%08x_4", s->id), control_textf("r%08x_6", s->id));
	if (h->name < x->chain_len)
		json_object_set_new(j, "of", control_text(name_to_text(text, x->chain[h->name].wire)));
	return j;
}

static void tell_steer(struct explain *x, const struct steer_result *s, json_t *lost)
{
	const struct config *c = x->snap->config;
	json_t *sets = json_array(), *j = json_object();
	for (unsigned i = 0; i < s->count; i++)
		json_array_append_new(sets, hit_json(x, &s->hits[i]));
	json_object_set_new(j, "sets", sets);
	json_object_set_new(j, "unsafe", json_boolean(s->is_unsafe));
	json_object_set_new(j, "closed", json_boolean(s->is_closed));
	if (s->rule >= 0) {
		const struct cfg_steer *rule = &c->steers[s->rule];
		json_object_set_new(j, "rule", rule_json_steer(c, (unsigned)s->rule));
		for (unsigned i = 0; i < x->chain_len; i++) {
			int list = explain_list_of(x, FOR_STEER, &rule->names, i);
			if (list < 0 || explain_list_of(x, FOR_STEER, &rule->except_names, i) >= 0)
				continue;
			json_object_set_new(j, "by", explain_entry(x, (unsigned)list, i));
			break;
		}
		if (s->count)
			snprintf(x->deciding, sizeof(x->deciding), "%08x", rule->id);
	}
	if (s->way >= 0) {
		json_object_set_new(j, "way", control_text(c->ways[s->way].name));
		json_object_set_new(j, "mark", control_textf("%#x", c->ways[s->way].mark));
		json_object_set_new(j, "way_now", way_state_text(x->env, x->snap, s->way));
		json_object_set_new(j, "answers_aaaa", json_boolean(!way_bit(x->env, x->snap, s->way, '6')));
	}
	json_object_set_new(x->out, "steer", j);
	explain_steer_losers(x, s, lost);
}

static json_t *steer_outcome(const struct explain *x, const struct steer_result *s, uint16_t qtype)
{
	const struct config *c = x->snap->config;
	const char *way = s->way >= 0 ? c->ways[s->way].name : NULL;
	if (s->is_unsafe)
		return json_string("answered SERVFAIL: the exit depends on the client's Ethernet address, which is not known, or "
		                   "too many sets would have to be filled");
	if (s->is_closed)
		return json_string("answered SERVFAIL: a list of a kill-switched rule never had a text, so what belongs to it is not known. "
		                   "Mend: put its file in place");
	if (way_bit(x->env, x->snap, s->way, 'd'))
		return control_textf("answered SERVFAIL: way `%s` is down and has its kill-switch", way);
	if (qtype == RR_AAAA && way_bit(x->env, x->snap, s->way, '6'))
		return control_textf("answered without records: way `%s` has no IPv6", way);
	if (!way)
		return json_string("answered; no rule steers it, so its packets follow the main table");
	if (!s->count)
		return control_textf("answered; its packets go by way `%s` (rule `%s`, which is for every name)", way,
		        c->steers[s->rule].name);
	return control_textf("answered when its addresses are in the sets of rule `%s`; its packets go by way `%s`",
	        c->steers[s->rule].name, way);
}

/* --- upstream and cache --- */

static int upstream_group(struct explain *x, int way)
{
	const struct config *c = x->snap->config;
	int exit = way_exit(x->env, x->snap, way),
	    group = exit >= 0 && c->ways[exit].upstream >= 0 ? c->ways[exit].upstream : c->default_upstream;
	uint64_t hashes[NAME_LABELS_MAX + 1];
	uint32_t split;
	int domain = -1;
	name_hash(&x->chain[0], x->env->name_seed, hashes);
	if (x->snap->domains)
		domain = name_map_find_longest(x->snap->domains, &x->chain[0], hashes, 0, &split);
	if (domain >= 0)
		group = (int)split;
	if (group < 0) {
		json_object_set_new(x->out, "upstream", json_null());
		return group;
	}
	json_t *servers = json_array();
	char text[ADDR_TEXT_MAX];
	for (unsigned i = 0; i < c->upstreams[group].server_count; i++)
		json_array_append_new(servers, control_textf("%s@%u", addr_print(text, &c->upstreams[group].servers[i].addr),
		                                       c->upstreams[group].servers[i].port));
	bool is_ways = exit >= 0 && c->ways[exit].upstream >= 0;
	char suffix[NAME_TEXT_MAX];
	json_object_set_new(x->out, "upstream",
	        json_pack("{s:o, s:o, s:o}", "group", control_text(c->upstreams[group].name), "servers", servers, "why",
	                domain >= 0 ? control_textf("the name is under its domain `%s`", name_to_text(suffix, x->chain[0].wire + x->chain[0].offset[domain]))
	                : is_ways ? control_textf("it is the upstream of way `%s`", c->ways[exit].name)
	                        : json_string("it is the default")));
	return group;
}

static bool look_up(struct explain *x, uint16_t qtype, int group, struct seen *ret)
{
	uint32_t at_s = now_s();
	const struct cache_answer *a = NULL;
	struct cache_key k = {.qname = &x->chain[0],
	        .name_hash = name_whole_hash(&x->chain[0], x->env->name_seed),
	        .qtype = qtype,
	        .qclass = 1,
	        .group = x->snap->group_id[group]};
	for (k.variant = 0; k.variant < 4 && !a; k.variant++)
		a = cache_find_quiet(x->env->cache, &k, at_s);
	if (!a)
		return false;
	*ret = (struct seen){.is_cached = true,
	        .is_nodata = a->is_nodata,
	        .rcode = a->rcode,
	        .age_s = at_s > a->stored_s ? at_s - a->stored_s : 0,
	        .left_s = a->expires_s - at_s};
	unsigned len = 1;
	while (len < a->chain_len && len < ANSWER_CHAIN_MAX &&
	        name_from_wire(&x->chain[len], a->chain[len]->wire, a->chain[len]->len) >= 0)
		len++;
	x->chain_len = len;
	x->addr_count = a->addr_count < CONTROL_ADDRESSES_SHOWN ? a->addr_count : CONTROL_ADDRESSES_SHOWN;
	memcpy(x->addrs, a->addrs, x->addr_count * sizeof(x->addrs[0]));
	return true;
}

static void tell_cached(struct explain *x, const struct seen *s)
{
	json_t *chain = json_array(), *addresses = json_array();
	char text[NAME_TEXT_MAX];
	for (unsigned i = 0; i < x->chain_len; i++)
		json_array_append_new(chain, control_text(name_to_text(text, x->chain[i].wire)));
	for (unsigned i = 0; i < x->addr_count; i++)
		json_array_append_new(addresses, json_string(addr_print(text, &x->addrs[i])));
	json_object_set_new(x->out, "cache",
	        json_pack("{s:i, s:I, s:I, s:b, s:o, s:o}", "rcode", s->rcode, "age_s", (json_int_t)s->age_s, "left_s",
	                (json_int_t)s->left_s, "nodata", s->is_nodata, "chain", chain, "addresses", addresses));
}

/* --- local names --- */

/* True: it is answered here and no rule is looked at. */
static bool tell_local(struct explain *x)
{
	static const char *const kinds[] = {[LOCAL_ANSWER] = "with records", [LOCAL_NODATA] = "without records", [LOCAL_NXDOMAIN] = "NXDOMAIN",
	        [LOCAL_ALIAS] = "as an alias of a name elsewhere"};
	const struct local *table = x->env->local ? x->env->local(x->env->ctx) : NULL;
	struct local_answer *l = table ? calloc(1, sizeof(*l)) : NULL;
	uint64_t hashes[NAME_LABELS_MAX + 1];
	if (!l)
		return false;
	name_hash(&x->chain[0], x->env->name_seed, hashes);
	local_find(table, &x->chain[0], hashes, x->qtype, l);
	bool is_ours = l->kind != LOCAL_NONE;
	if (is_ours) {
		json_t *j = json_pack("{s:s}", "answer", kinds[l->kind]);
		if (l->source)
			json_object_set_new(j, "from", l->line ? control_textf("%s:%u", l->source, l->line) : control_text(l->source));
		json_object_set_new(x->out, "local", j);
		const char *by = l->text ? l->text : l->source;
		outcome(x, control_textf("answered here, %s%s%s", kinds[l->kind], by ? ": " : "", by ? by : ""));
	}
	free(l);
	return is_ours;
}

/* --- the steps --- */

/* Filter and steer over the chain as far as it is known; false: the verdict ends it. */
static bool decide(struct explain *x, uint16_t qtype, const struct verdict *question, struct steer_result *s)
{
	json_t *lost = json_array();
	struct verdict v = *question;
	if (v.kind != VERDICT_BLOCK)
		v = policy_filter(x->policy, &x->groups, x->env->pause, now_s(), x->judged, x->chain_len, x->addr_count ? x->addrs : NULL, x->addr_count);
	tell_filter(x, &v, lost);
	if (v.kind == VERDICT_BLOCK) {
		outcome(x, block_outcome(x, &v));
	} else {
		policy_steer(x->policy, &x->groups, x->client.is_local, x->judged, x->chain_len, s);
		tell_steer(x, s, lost);
		outcome(x, steer_outcome(x, s, qtype));
	}
	json_object_set_new(x->out, "lost", lost);
	return v.kind != VERDICT_BLOCK;
}

void explain_name(struct explain *x, uint16_t qtype)
{
	struct seen seen = {0};
	struct steer_result s;
	judge(x);
	if (tell_local(x))
		return;
	struct verdict question = policy_filter(x->policy, &x->groups, x->env->pause, now_s(), x->judged, 1, NULL, 0);
	if (question.kind != VERDICT_BLOCK) {
		policy_steer(x->policy, &x->groups, x->client.is_local, x->judged, 1, &s);
		int group = upstream_group(x, s.way);
		if (group >= 0 && look_up(x, qtype, group, &seen)) {
			judge(x);
			tell_cached(x, &seen);
		}
		decide(x, qtype, &question, &s);
		if (group < 0)
			outcome(x, json_string("answered SERVFAIL: no upstream is configured for it"));
		if (!seen.is_cached)
			json_object_set_new(x->out, "cache", json_null());
		return;
	}
	decide(x, qtype, &question, &s);
}

/* --- the kernel --- */

static json_t *address_json(const struct explain *x, const struct addr *a, const json_t *kernel)
{
	char text[ADDR_TEXT_MAX];
	json_t *j = json_pack("{s:s, s:b}", "address", addr_print(text, a), "known", kernel != NULL);
	if (!kernel)
		return j;
	bool is_in = false;
	size_t i;
	json_t *r;
	json_array_foreach(json_object_get(kernel, "rules"), i, r)
	{
		const char *id = json_string_value(json_object_get(r, "id"));
		if (!id || strcmp(id, x->deciding))
			continue;
		is_in = true;
		json_object_set(j, "expires_s", json_object_get(r, "expires_s"));
	}
	json_array_foreach(json_object_get(kernel, "ranges"), i, r)
	{
		const char *id = json_string_value(json_object_get(r, "id"));
		if (id && !strcmp(id, x->deciding) && json_integer_value(json_object_get(r, "which")) == 0)
			is_in = true;
	}
	if (x->deciding[0])
		json_object_set_new(j, "in_kernel", json_boolean(is_in));
	if (json_is_string(json_object_get(kernel, "never")))
		json_object_set(j, "never", json_object_get(kernel, "never"));
	json_object_set(j, "rules", json_object_get(kernel, "rules"));
	json_object_set(j, "ranges", json_object_get(kernel, "ranges"));
	return j;
}

void explain_name_kernel(struct explain *x)
{
	json_t *all = json_array(), *kernel = NULL;
	for (unsigned i = 0; i < x->addr_count; i++) {
		/* One that does not answer will not answer the next. */
		if (i == 0 || kernel) {
			json_decref(kernel);
			kernel = control_ask(x->env, STEER_Q_ADDRESS, &x->addrs[i]);
		}
		json_array_append_new(all, address_json(x, &x->addrs[i], kernel));
	}
	json_decref(kernel);
	json_object_set_new(x->out, "addresses", all);
}
