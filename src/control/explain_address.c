/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `explain ADDRESS`: why packets of a client to an address leave where they do. The rules are gone through as the packet rules
 * stand in the kernel (steer/nft_rules.c), over what the enforcer says its sets hold. The control thread, with the snapshot
 * taken. */
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "control/explain.h"

struct holding {
	bool in_set, in_ranges, in_excepted;
	json_int_t expires_s;
};

static bool has_id(const json_t *rule, const char *id)
{
	const char *have = json_string_value(json_object_get(rule, "id"));
	return have && !strcmp(have, id);
}

static struct holding held_by(const json_t *kernel, uint32_t rule_id)
{
	struct holding h = {0};
	char id[16];
	size_t i;
	json_t *r;
	snprintf(id, sizeof(id), "%08x", rule_id);
	json_array_foreach(json_object_get(kernel, "rules"), i, r) if (has_id(r, id))
	{
		h.in_set = true;
		h.expires_s = json_integer_value(json_object_get(r, "expires_s"));
	}
	json_array_foreach(json_object_get(kernel, "ranges"), i, r) if (has_id(r, id))
	{
		h.in_ranges |= json_integer_value(json_object_get(r, "which")) == 0;
		h.in_excepted |= json_integer_value(json_object_get(r, "which")) == 1;
	}
	return h;
}

static bool rule_has_names(const struct cfg_steer *s)
{
	return s->names.count || s->except_names.count;
}

/* As the chain m<rule>. */
static bool takes_address(const struct config *c, unsigned rule, const struct holding *h)
{
	if (!rule_has_names(&c->steers[rule]))
		return true;
	if (policy_rule_is_negated(c, rule))
		return !h->in_set && !h->in_ranges;
	return !h->in_excepted && (h->in_set || h->in_ranges);
}

static json_t *why_takes(const struct config *c, unsigned rule, const struct holding *h)
{
	if (!rule_has_names(&c->steers[rule]))
		return json_string("it is for every address");
	if (policy_rule_is_negated(c, rule))
		return json_string("it takes every address but those of its exceptions, and this is none of them");
	if (h->in_set)
		return control_textf(
		        "its set holds the address for %lld s more: an answer with it was given", (long long)h->expires_s);
	return json_string("its lists name the address or a prefix around it");
}

static json_t *why_not(struct explain *x, unsigned rule, int winner, const struct holding *h)
{
	const struct cfg_steer *s = &x->snap->config->steers[rule];
	int except;
	if (!s->enabled)
		return json_string("it is disabled");
	if (s->has_gid != x->client.is_local)
		return s->has_gid ? control_textf("it is for this machine's own processes of group %u", s->gid)
		                  : json_string("it is for clients of the network, not for this machine's own packets");
	if (!s->has_gid && explain_is_for(x, &s->clients, &s->except_clients, &except) == IS_NOT)
		return except >= 0
		               ? control_textf("the client is in `%s`, which it excepts", x->snap->config->groups[except].name)
		               : json_string("the client is in none of its groups");
	if (h->in_excepted || (policy_rule_is_negated(x->snap->config, rule) && (h->in_set || h->in_ranges)))
		return json_string("the address is of its exceptions");
	if (!takes_address(x->snap->config, rule, h))
		return json_string("its sets do not hold the address now");
	return winner >= 0 ? control_textf("it would match, but steer rule %d comes first", winner + 1)
	                   : json_string("whether the client belongs to it depends on its Ethernet address, which is not known");
}

/* Answers yes, or unknown by the client's Ethernet address. */
static enum explain_is matches(const struct explain *x, unsigned rule, const struct holding *h)
{
	const struct cfg_steer *s = &x->snap->config->steers[rule];
	int except;
	/* For this machine's own packets no rule decides here: which process sends them is not known. */
	if (!s->enabled || s->has_gid || x->client.is_local || !takes_address(x->snap->config, rule, h))
		return IS_NOT;
	return explain_is_for(x, &s->clients, &s->except_clients, &except);
}

static void want_prefixes(struct explain *x, const struct cfg_steer *s, const struct addr *a, json_t *rule)
{
	json_t *by = json_array();
	for (unsigned i = 0; i < s->names.count && i < CONTROL_PLACES_MAX / 2; i++) {
		json_t *j = json_pack("{s:o}", "list", control_text(x->snap->config->lists[s->names.v[i]].name));
		explain_want_address(x, j, s->names.v[i], a);
		json_array_append_new(by, j);
	}
	json_object_set_new(rule, "by", by);
}

/* --- names of the cache --- */

struct collecting {
	const struct addr *addr;
	json_t *names;
};

static void collect(void *ctx, const struct cache_answer *a)
{
	struct collecting *k = ctx;
	char text[NAME_TEXT_MAX];
	if (json_array_size(k->names) == CONTROL_NAMES_SHOWN)
		return;
	for (unsigned i = 0; i < a->addr_count; i++) {
		if (!addr_equal(&a->addrs[i], k->addr))
			continue;
		json_t *name = control_text(name_to_text(text, a->chain[0]->wire));
		size_t n = 0;
		while (n < json_array_size(k->names) && !json_equal(json_array_get(k->names, n), name))
			n++;
		if (n == json_array_size(k->names))
			json_array_append(k->names, name);
		json_decref(name);
		return;
	}
}

static void tell_names(struct explain *x, const struct addr *a)
{
	struct collecting k = {a, json_array()};
	cache_walk(x->env->cache, (uint32_t)(clock_ms() / 1000), collect, &k);
	json_object_set_new(x->out, "names", k.names);
}

/* --- the exit --- */

static json_t *exit_text(const struct explain *x, int way)
{
	const struct config *c = x->snap->config;
	int to = way_exit(x->env, x->snap, way);
	if (way_bit(x->env, x->snap, way, 'd'))
		return control_textf("nowhere: way `%s` is down and its kill-switch holds the packets back", c->ways[way].name);
	if (to >= 0 && to != way)
		return control_textf("way `%s`, since `%s` is down", c->ways[to].name, c->ways[way].name);
	if (to < 0)
		return way >= 0 ? control_textf("the main table, since `%s` is down", c->ways[way].name)
		                : json_string("the main table");
	if (!c->ways[to].interface[0])
		return control_textf("way `%s`: the main table and the other rules", c->ways[to].name);
	return control_textf("way `%s`, interface %s (mark %#x, table %u)%s", c->ways[to].name, c->ways[to].interface,
	        c->ways[to].mark, c->ways[to].table_id,
	        c->ways[to].local_access ? "; a route of the main table other than the default goes first" : "");
}

static void tell_filter(struct explain *x, const struct addr *a)
{
	struct verdict v = policy_filter(x->policy, &x->groups, x->env->pause, (uint32_t)(clock_ms() / 1000), NULL, 0, a, 1);
	if (v.kind != VERDICT_BLOCK)
		return;
	json_t *rule = rule_json_filter(x->snap->config, (unsigned)v.rule);
	if (v.list >= 0) {
		json_t *by = json_pack("{s:o}", "list", control_text(x->snap->config->lists[v.list].name));
		explain_want_address(x, by, (unsigned)v.list, a);
		json_object_set_new(rule, "by", by);
	}
	json_object_set_new(x->out, "blocked_in_answers", rule);
}

static void tell_winner(struct explain *x, const struct addr *a, int winner, const struct holding *h, const json_t *kernel)
{
	const struct config *c = x->snap->config;
	if (!kernel) {
		json_object_set_new(x->out, "outcome",
		        json_string("cannot be said: the enforcer does not answer, so what the kernel's sets hold is not known. "
		                    "Mend: look at the log of namewayd"));
		return;
	}
	if (json_is_true(json_object_get(kernel, "own"))) {
		json_object_set_new(x->out, "outcome", json_string("its packets end here: it is this machine's own address"));
		return;
	}
	if (winner < 0) {
		json_object_set_new(x->out, "outcome",
		        x->client.is_local ? json_string("its packets follow the main table, unless the sending process is of a "
		                                         "group that a rule with `gid` names")
		                           : json_string("its packets follow the main table: no rule takes them"));
		return;
	}
	const struct cfg_steer *s = &c->steers[winner];
	json_t *rule = rule_json_steer(c, (unsigned)winner);
	json_object_set_new(rule, "why", why_takes(c, (unsigned)winner, h));
	if (h->in_ranges)
		want_prefixes(x, s, a, rule);
	json_object_set_new(x->out, "rule", rule);
	json_object_set_new(x->out, "exit", exit_text(x, s->way));
	json_object_set_new(x->out, "outcome",
	        control_textf("its packets leave by way `%s`: steer rule `%s`", s->way >= 0 ? c->ways[s->way].name : "direct",
	                s->name));
}

void explain_address(struct explain *x, const struct addr *a, const json_t *kernel)
{
	const struct config *c = x->snap->config;
	char text[ADDR_TEXT_MAX];
	int winner = -1;
	bool is_unsafe = false;
	json_t *lost = json_array();
	json_object_set_new(x->out, "address", json_string(addr_print(text, a)));
	json_object_set_new(x->out, "kernel_known", json_boolean(kernel != NULL));
	for (unsigned i = 0; kernel && i < c->steer_count && winner < 0; i++) {
		struct holding h = held_by(kernel, c->steers[i].id);
		enum explain_is is = matches(x, i, &h);
		is_unsafe |= is == IS_UNKNOWN;
		if (is == IS_SO)
			winner = (int)i;
	}
	for (unsigned i = 0; kernel && i < c->steer_count; i++) {
		struct holding h = held_by(kernel, c->steers[i].id);
		if ((int)i == winner)
			continue;
		json_t *rule = rule_json_steer(c, i);
		json_object_set_new(rule, "why", why_not(x, i, (int)i > winner ? winner : -1, &h));
		json_array_append_new(lost, rule);
	}
	struct holding of_winner = winner >= 0 ? held_by(kernel, c->steers[winner].id) : (struct holding){0};
	tell_winner(x, a, winner, &of_winner, kernel);
	json_object_set_new(x->out, "depends_on_mac", json_boolean(is_unsafe));
	json_object_set_new(x->out, "lost", lost);
	json_object_set(x->out, "sets", kernel ? json_object_get(kernel, "rules") : json_null());
	json_object_set(x->out, "never", json_object_get(kernel, "never") ? json_object_get(kernel, "never") : json_null());
	tell_filter(x, a);
	tell_names(x, a);
}
