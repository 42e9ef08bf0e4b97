/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What stands, as JSON for the control verbs: ways, rules with counters and fill, the table, alarms; and one address's place in
 * it all. Fill comes from the mirror, counters, rules and routes are read from the kernel. Rare, and run between two turns of
 * the enforcer's loop. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "steer/enforcer_private.h"
#include "steer/ways_verify.h"

/* A string that may hold bytes that are no UTF-8: those become '?'. */
static json_t *text_json(const char *text)
{
	json_t *j = json_string(text);
	char copy[512];
	if (j)
		return j;
	snprintf(copy, sizeof(copy), "%s", text);
	for (char *c = copy; *c; c++)
		if (*c & 0x80)
			*c = '?';
	return json_string(copy);
}

static json_t *rule_id(uint32_t id)
{
	char text[16];
	snprintf(text, sizeof(text), "%08x", id);
	return json_string(text);
}

/* --- ways --- */

static const char *state_text(enum way_state s)
{
	static const char *const texts[] = {[WAY_UP] = "up",
	        [WAY_DOWN_ADMIN] = "down-admin",
	        [WAY_DOWN_LINK] = "down-link",
	        [WAY_DOWN_CHECK] = "down-check",
	        [WAY_DOWN_ROUTE] = "down-route"};
	return texts[s];
}

static json_t *set_json(const struct cfg_set *s, const struct nft_foreign *f)
{
	return json_pack("{s:o, s:o, s:o, s:b}", "family", text_json(s->family), "table", text_json(s->table), "set",
	        text_json(s->set), "exists", f->exists);
}

static json_t *sets_json(const struct policy_config *pc, unsigned way)
{
	const struct cfg_way *w = &pc->config->ways[way];
	const struct nft_foreign *f = &pc->foreign[pc->foreign_at[way]];
	json_t *sets = json_array();
	for (unsigned i = 0; i < w->set4_count; i++)
		json_array_append_new(sets, set_json(&w->sets4[i], f++));
	for (unsigned i = 0; i < w->set6_count; i++)
		json_array_append_new(sets, set_json(&w->sets6[i], f++));
	return sets;
}

static json_t *way_json(const struct enforcer *e, unsigned way, uint64_t no6)
{
	const struct config *c = e->now.config;
	const struct cfg_way *w = &c->ways[way];
	char mark[16];
	snprintf(mark, sizeof(mark), "%#x", w->mark);
	json_t *j = json_pack("{s:o, s:o, s:s, s:o, s:s, s:o, s:b, s:b, s:o, s:o}", "name", text_json(w->name), "interface",
	        w->interface[0] ? text_json(w->interface) : json_null(), "mark", mark, "table",
	        w->table_id ? json_integer(w->table_id) : json_null(), "state", state_text(ways_state(e->ways, way)), "reason",
	        text_json(ways_reason(e->ways, way)), "kill_switch", w->kill_switch, "ipv6", !(no6 >> way & 1), "fallback",
	        !w->kill_switch && w->fallback >= 0 ? text_json(c->ways[w->fallback].name) : json_null(), "sets",
	        sets_json(&e->now, way));
	return j;
}

struct verdicts {
	json_t *ways, *closed;
};

static void note_missing(void *ctx, int way, const char *text)
{
	struct verdicts *v = ctx;
	json_t *list = way < 0 ? v->closed : json_object_get(json_array_get(v->ways, (size_t)way), "missing");
	json_array_append_new(list, text_json(text));
}

/* `missing` is there only when the kernel could be read: an empty one says that all stands. */
static json_t *ways_json(struct enforcer *e, json_t *closed)
{
	struct verdicts v = {json_array(), closed};
	uint64_t skip, no6;
	ways_bitmaps(e->ways, &skip, &no6, &skip, &skip);
	for (unsigned i = 0; i < e->now.config->way_count; i++) {
		json_t *j = way_json(e, i, no6);
		json_object_set_new(j, "missing", json_array());
		json_array_append_new(v.ways, j);
	}
	if (ways_verify(e->ways, note_missing, &v) == 0)
		return v.ways;
	for (size_t i = 0; i < json_array_size(v.ways); i++)
		json_object_del(json_array_get(v.ways, i), "missing");
	json_array_clear(closed);
	json_array_append_new(closed, json_string("the kernel's rules and routes could not be read"));
	return v.ways;
}

/* --- rules --- */

static unsigned count_ranges(const struct enforcer *e, uint32_t id)
{
	unsigned count = 0;
	for (unsigned i = 0; i < e->range_count; i++)
		count += e->ranges[i].which == 0 && e->ranges[i].rule_id == id ? e->ranges[i].count : 0;
	return count;
}

static json_t *rule_json(const struct enforcer *e, unsigned rule, const struct nft_counter *n)
{
	const struct config *c = e->now.config;
	const struct cfg_steer *s = &c->steers[rule];
	struct element_fill f = elements_fill(&e->elements, s->id);
	return json_pack("{s:o, s:o, s:o, s:b, s:I, s:I, s:i, s:i, s:i, s:i}", "name", text_json(s->name), "id", rule_id(s->id),
	        "way", s->way >= 0 ? text_json(c->ways[s->way].name) : json_null(), "enabled", s->enabled, "packets",
	        (json_int_t)n->packets, "bytes", (json_int_t)n->bytes, "addresses4", (int)f.v4, "addresses6", (int)f.v6,
	        "ranges", (int)count_ranges(e, s->id), "capacity", (int)NFT_SET_SIZE);
}

static json_t *rules_json(struct enforcer *e)
{
	static struct nft_counter counters[CONFIG_RULES_MAX];
	static uint32_t ids[CONFIG_RULES_MAX];
	const struct config *c = e->now.config;
	json_t *rules = json_array();
	memset(counters, 0, sizeof(counters));
	for (unsigned i = 0; i < c->steer_count; i++)
		ids[i] = c->steers[i].id;
	nft_counters(e->nft, ids, c->steer_count, counters);
	for (unsigned i = 0; i < c->steer_count; i++)
		json_array_append_new(rules, rule_json(e, i, &counters[i]));
	return rules;
}

/* --- the whole --- */

static json_t *table_json(struct enforcer *e, json_t *closed)
{
	static const char *const owners[] = {[NFT_ABSENT] = "absent",
	        [NFT_OURS] = "nameway",
	        [NFT_ADOPTABLE] = "nobody",
	        [NFT_FOREIGN_OWNER] = "another process"};
	enum nft_presence p = NFT_ABSENT;
	int r = e->nft ? nft_presence(e->nft, &p) : -1;
	return json_pack("{s:b, s:b, s:I, s:s, s:O}", "stands",
	        r == 0 && p != NFT_ABSENT && p != NFT_FOREIGN_OWNER && e->is_committed && !e->is_rebuild_due, "protected",
	        e->nft && nft_is_protected(e->nft), "rebuilds", (json_int_t)e->counters_rebuilds, "owner",
	        r == 0 ? owners[p] : "not known", "missing", closed);
}

json_t *enforcer_state_json(struct enforcer *e)
{
	json_t *j = json_object(), *closed = json_array();
	bool has_config = e->now.config && e->nft;
	json_object_set_new(j, "serial", json_integer(e->now.serial));
	json_object_set_new(j, "ways", has_config ? ways_json(e, closed) : json_array());
	json_object_set_new(j, "rules", has_config ? rules_json(e) : json_array());
	json_object_set_new(j, "table", table_json(e, closed));
	json_object_set_new(j, "elements", json_integer(e->elements.count));
	json_object_set_new(j, "counters",
	        json_pack("{s:I, s:I, s:I}", "refused", (json_int_t)e->counters_refused, "put", (json_int_t)e->counters_put,
	                "rebuilds", (json_int_t)e->counters_rebuilds));
	json_object_set_new(j, "alarms", alarms_json(e->alarms));
	json_decref(closed);
	return j;
}

/* --- one address --- */

static json_t *address_ranges(const struct enforcer *e, const struct addr *a)
{
	json_t *ranges = json_array();
	for (unsigned i = 0; i < e->range_count; i++) {
		const struct kept_ranges *k = &e->ranges[i];
		const struct cfg_steer *s = enforcer_rule(e, k->rule_id, NULL);
		if (s && ranges_have(k->r, k->count, a))
			json_array_append_new(ranges, json_pack("{s:o, s:o, s:i}", "id", rule_id(k->rule_id), "name",
			                                      text_json(s->name), "which", k->which));
	}
	return ranges;
}

static json_t *address_rules(const struct enforcer *e, const struct addr *a)
{
	json_t *rules = json_array();
	const struct config *c = e->now.config;
	for (unsigned i = 0; c && i < c->steer_count; i++) {
		const struct element *el = elements_find(&e->elements, c->steers[i].id, a);
		if (!el || el->expires_ms <= e->now_ms)
			continue;
		char set[24];
		snprintf(set, sizeof(set), "r%08x_%c", c->steers[i].id, a->family == AF_INET ? '4' : '6');
		json_array_append_new(rules, json_pack("{s:i, s:o, s:o, s:s, s:I}", "rule", (int)i + 1, "id",
		                                     rule_id(c->steers[i].id), "name", text_json(c->steers[i].name), "set", set,
		                                     "expires_s", (json_int_t)((el->expires_ms - e->now_ms) / 1000)));
	}
	return rules;
}

static bool is_upstreams(const struct config *c, const struct addr *a)
{
	for (unsigned i = 0; c && i < c->upstream_count; i++)
		for (unsigned k = 0; k < c->upstreams[i].server_count; k++)
			if (addr_equal(&c->upstreams[i].servers[k].addr, a))
				return true;
	return false;
}

/* Why answers with it put it into no set; NULL: they do. */
static const char *never_text(const struct enforcer *e, const struct addr *a)
{
	if (ways_is_own_address(e->ways, a))
		return "it is this machine's own";
	if (addr_is_never_remote(a))
		return "it is loopback, multicast or otherwise no destination outside";
	if (is_upstreams(e->now.config, a))
		return "it is an upstream's";
	if (ways_is_endpoint(e->ways, a))
		return "it is a tunnel's endpoint";
	if (addr_is_private(a))
		return "it is private; only ways with `private: true` take such addresses from answers";
	return NULL;
}

json_t *enforcer_address_json(struct enforcer *e, const struct addr *a)
{
	char text[ADDR_TEXT_MAX];
	const char *never = never_text(e, a);
	return json_pack("{s:s, s:b, s:b, s:o, s:o, s:o}", "address", addr_print(text, a), "own", ways_is_own_address(e->ways, a),
	        "private", addr_is_private(a), "never", never ? json_string(never) : json_null(), "rules", address_rules(e, a),
	        "ranges", address_ranges(e, a));
}
