/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `rules`, `ways`, `test way`: the policy as it stands here and, by the enforcer's answer, in the kernel. The control thread. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/err.h"
#include "control/control_private.h"

/* --- what a configuration says --- */

static json_t *group_names(const struct config *c, const struct ids *ids)
{
	json_t *ret = json_array();
	for (unsigned i = 0; i < ids->count; i++)
		json_array_append_new(ret, control_text(c->groups[ids->v[i]].name));
	return ret;
}

static json_t *list_names(const struct config *c, const struct ids *ids)
{
	json_t *ret = json_array();
	for (unsigned i = 0; i < ids->count; i++)
		json_array_append_new(ret, control_text(c->lists[ids->v[i]].name));
	return ret;
}

static json_t *conditions(
        const struct config *c, const char *kind, unsigned rule, const char *name, bool is_enabled, const struct place *p)
{
	return json_pack("{s:s, s:i, s:o, s:b, s:o}", "kind", kind, "rule", (int)rule + 1, "name",
	        name ? control_text(name) : control_textf("%s rule %u", kind, rule + 1), "enabled", is_enabled, "place",
	        control_place(p));
}

static void add_ids(json_t *j, const struct config *c, const struct ids *clients, const struct ids *except_clients,
        const struct ids *names, const struct ids *except_names)
{
	json_object_set_new(j, "clients", group_names(c, clients));
	json_object_set_new(j, "except_clients", group_names(c, except_clients));
	json_object_set_new(j, "names", list_names(c, names));
	json_object_set_new(j, "except_names", list_names(c, except_names));
}

const char *block_text(enum block_kind kind)
{
	static const char *const texts[] = {[BLOCK_NONE] = "allow",
	        [BLOCK_NXDOMAIN] = "nxdomain",
	        [BLOCK_NODATA] = "nodata",
	        [BLOCK_ZERO] = "zero",
	        [BLOCK_REFUSE] = "refuse",
	        [BLOCK_DROP] = "drop",
	        [BLOCK_ANSWER] = "answer",
	        [BLOCK_CNAME] = "cname"};
	return texts[kind] ? texts[kind] : "?";
}

/* What is answered instead. */
static void add_targets(json_t *j, const struct cfg_filter *f)
{
	char text[NAME_TEXT_MAX];
	json_t *targets = json_array();
	for (unsigned i = 0; f->block == BLOCK_ANSWER && i < f->answer_count; i++)
		json_array_append_new(targets, json_string(addr_print(text, &f->answers[i])));
	if (f->block == BLOCK_CNAME)
		json_array_append_new(targets, control_text(name_to_text(text, f->cname.wire)));
	if (json_array_size(targets))
		json_object_set(j, "targets", targets);
	json_decref(targets);
}

json_t *rule_json_filter(const struct config *c, unsigned rule)
{
	const struct cfg_filter *f = &c->filters[rule];
	json_t *j = conditions(c, "filter", rule, f->name, f->enabled, &f->place);
	add_ids(j, c, &f->clients, &f->except_clients, &f->names, &f->except_names);
	json_object_set_new(j, "action", json_string(f->allow ? "allow" : block_text(f->block)));
	add_targets(j, f);
	return j;
}

json_t *rule_json_steer(const struct config *c, unsigned rule)
{
	const struct cfg_steer *s = &c->steers[rule];
	json_t *j = conditions(c, "steer", rule, s->name, s->enabled, &s->place);
	add_ids(j, c, &s->clients, &s->except_clients, &s->names, &s->except_names);
	json_object_set_new(j, "id", control_textf("%08x", s->id));
	json_object_set_new(j, "way", s->way >= 0 ? control_text(c->ways[s->way].name) : json_null());
	if (s->has_gid)
		json_object_set_new(j, "gid", json_integer(s->gid));
	json_t *sets = json_array();
	for (unsigned i = 0; (s->names.count || s->except_names.count) && i < 4; i++)
		json_array_append_new(sets, control_textf("%c%08x_%c", i < 2 ? 'r' : 'p', s->id, i & 1 ? '6' : '4'));
	json_object_set_new(j, "sets", sets);
	return j;
}

/* --- ways, by the enforcer's page --- */

bool way_bit(const struct control_env *env, const struct snapshot *s, int way, char which)
{
	unsigned slot = s->serial & 1;
	if (way < 0 || !env->steer || atomic_load_explicit(&env->steer->cfg[slot].serial, memory_order_acquire) != s->serial)
		return false;
	const _Atomic uint64_t *bits = which == 'd'   ? &env->steer->cfg[slot].ways_down
	                               : which == 'o' ? &env->steer->cfg[slot].ways_off
	                                              : &env->steer->cfg[slot].ways_no6;
	return atomic_load_explicit(bits, memory_order_relaxed) >> way & 1;
}

int way_exit(const struct control_env *env, const struct snapshot *s, int way)
{
	for (unsigned hops = 0; way >= 0 && way_bit(env, s, way, 'o') && hops < CONFIG_WAYS_MAX; hops++)
		way = s->config->ways[way].fallback;
	return way;
}

json_t *way_state_text(const struct control_env *env, const struct snapshot *s, int way)
{
	if (way_bit(env, s, way, 'd'))
		return json_string("down: its kill-switch stops its packets, and its names are answered SERVFAIL");
	if (way_bit(env, s, way, 'o')) {
		int to = way_exit(env, s, way);
		return control_textf("down: its packets go by %s", to >= 0 ? s->config->ways[to].name : "the main table");
	}
	return json_string("up");
}

/* --- verbs --- */

static json_t *find_named(json_t *array, const char *key, const char *text)
{
	size_t i;
	json_t *one;
	json_array_foreach(array, i, one)
	{
		const char *have = json_string_value(json_object_get(one, key));
		if (have && !strcmp(have, text))
			return one;
	}
	return NULL;
}

static void add_missing(json_t *to, json_t *from)
{
	if (to && from)
		json_object_update_missing(to, from);
}

uint64_t worker_sum(const struct control_env *env, unsigned number, uint64_t (*of)(const struct worker *w, unsigned number))
{
	uint64_t n = 0;
	for (unsigned i = 0; i < env->worker_count; i++)
		n += of(env->workers[i], number);
	return n;
}

int verb_rules(const struct control_env *env, const json_t *request, json_t **ret)
{
	(void)request;
	json_t *kernel = control_ask(env, STEER_Q_STATE, NULL);
	const struct snapshot *s = control_snapshot(env, ret);
	if (!s) {
		json_decref(kernel);
		return -EAGAIN;
	}
	json_t *filter = json_array(), *steer = json_array();
	for (unsigned i = 0; i < s->config->filter_count; i++) {
		json_t *j = rule_json_filter(s->config, i);
		json_object_set_new(j, "hits", json_integer((json_int_t)worker_sum(env, i, worker_filter_hits)));
		if (filter_left_s(env, s->config, i))
			json_object_set_new(j, "paused_s", json_integer(filter_left_s(env, s->config, i)));
		json_array_append_new(filter, j);
	}
	for (unsigned i = 0; i < s->config->steer_count; i++) {
		json_t *j = rule_json_steer(s->config, i);
		json_object_set_new(j, "hits", json_integer((json_int_t)worker_sum(env, i, worker_steer_hits)));
		add_missing(j, find_named(json_object_get(kernel, "rules"), "id", json_string_value(json_object_get(j, "id"))));
		json_array_append_new(steer, j);
	}
	env->snapshot_give(env->ctx, s);
	*ret = json_pack("{s:o, s:o, s:o}", "filter", filter, "steer", steer, "kernel",
	        kernel ? json_incref(json_object_get(kernel, "table")) : json_null());
	json_decref(kernel);
	return 0;
}

static json_t *way_json(const struct control_env *env, const struct snapshot *s, unsigned way)
{
	const struct config *c = s->config;
	const struct cfg_way *w = &c->ways[way];
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:b}", "name", control_text(w->name), "place",
	        control_place(&w->place), "interface", w->interface[0] ? json_string(w->interface) : json_null(), "mark",
	        control_textf("%#x", w->mark), "upstream",
	        w->upstream >= 0 ? control_text(c->upstreams[w->upstream].name) : json_null(), "now",
	        way_state_text(env, s, (int)way), "kill_switch", w->kill_switch, "answers_aaaa", !way_bit(env, s, (int)way, '6'));
}

int verb_ways(const struct control_env *env, const json_t *request, json_t **ret)
{
	(void)request;
	json_t *kernel = control_ask(env, STEER_Q_STATE, NULL), *ways = json_array();
	const struct snapshot *s = control_snapshot(env, ret);
	for (unsigned i = 0; s && i < s->config->way_count; i++) {
		json_t *j = way_json(env, s, i);
		add_missing(j, find_named(json_object_get(kernel, "ways"), "name", s->config->ways[i].name));
		json_array_append_new(ways, j);
	}
	if (s)
		*ret = json_pack("{s:O, s:b}", "ways", ways, "kernel_known", kernel != NULL);
	env->snapshot_give(env->ctx, s);
	json_decref(ways);
	json_decref(kernel);
	return s ? 0 : -EAGAIN;
}

static bool add_check(json_t *checks, const char *what, bool is_ok, json_t *said)
{
	json_array_append_new(checks, json_pack("{s:s, s:b, s:o}", "what", what, "ok", is_ok, "said", said));
	return is_ok;
}

/* Unmarked packets of steered clients must be stopped, whichever way is asked about. */
static bool check_closed(json_t *checks, const json_t *table)
{
	const json_t *missing = json_object_get(table, "missing");
	if (!json_is_array(missing))
		return add_check(checks, "closed", false,
		        json_string("whether unmarked packets are stopped is not known. Mend: look at the log of namewayd"));
	for (size_t i = 0; i < json_array_size(missing); i++)
		add_check(checks, "closed", false,
		        control_textf("%s. Mend: nameway reload", json_string_value(json_array_get(missing, i))));
	return json_array_size(missing) == 0 &&
	       add_check(
	               checks, "closed", true, json_string("packets of steered clients that no rule decided about are stopped"));
}

/* What a leak needs is that one of these does not hold. Counters are told beside them. */
static bool check_way(json_t *checks, const json_t *table, const json_t *way)
{
	const char *state = json_string_value(json_object_get(way, "state"));
	const char *reason = json_string_value(json_object_get(way, "reason"));
	const json_t *missing = json_object_get(way, "missing");
	bool has_interface = json_is_string(json_object_get(way, "interface")), is_up = state && !strcmp(state, "up"), is_ok;
	bool is_closed = json_is_true(json_object_get(way, "kill_switch")), is_known = json_is_array(missing);
	if (is_up)
		is_ok = add_check(checks, "state", true, json_string("up"));
	else
		is_ok = add_check(checks, "state", is_closed,
		        control_textf("%s: %s%s", state ? state : "not known", reason ? reason : "",
		                is_closed ? ". Its kill-switch holds its packets back"
		                          : ". It has no kill-switch: its packets leave by its fallback"));
	is_ok &= add_check(checks, "packet rules", json_is_true(json_object_get(table, "stands")),
	        json_is_true(json_object_get(table, "stands"))
	                ? json_string(json_is_true(json_object_get(table, "protected"))
	                                      ? "the table `inet nameway` stands and only nameway can change it"
	                                      : "the table `inet nameway` stands; it is watched, and rebuilt when somebody "
	                                        "changes it")
	                : json_string(
	                          "the table `inet nameway` does not stand. Mend: look at the log of namewayd; nameway reload"));
	is_ok &= check_closed(checks, table);
	if (!has_interface) {
		add_check(checks, "routes", true,
		        json_string("it has no interface: its packets follow the main table and the other rules"));
		return is_ok;
	}
	if (is_known && json_array_size(missing) == 0)
		return is_ok &
		       add_check(checks, "routes", true,
		               control_textf("its mark leads to table %lld, which ends in `unreachable`, in both families",
		                       (long long)json_integer_value(json_object_get(way, "table"))));
	if (!is_known)
		return add_check(checks, "routes", false,
		        json_string("the kernel's rules and routes could not be read. Mend: look at the log of namewayd"));
	for (size_t i = 0; i < json_array_size(missing); i++)
		add_check(checks, "routes", false,
		        control_textf("%s. Mend: nameway reload", json_string_value(json_array_get(missing, i))));
	return false;
}

static void add_traffic(json_t *checks, const json_t *rules, const char *way)
{
	json_int_t packets = 0, bytes = 0, addresses = 0;
	size_t i;
	json_t *r;
	json_array_foreach(rules, i, r)
	{
		const char *of = json_string_value(json_object_get(r, "way"));
		if (!of || strcmp(of, way))
			continue;
		packets += json_integer_value(json_object_get(r, "packets"));
		bytes += json_integer_value(json_object_get(r, "bytes"));
		addresses += json_integer_value(json_object_get(r, "addresses4")) +
		             json_integer_value(json_object_get(r, "addresses6"));
	}
	add_check(checks, "traffic", true,
	        control_textf("%lld packets of %lld bytes were sent this way by its rules, whose sets hold %lld addresses now",
	                (long long)packets, (long long)bytes, (long long)addresses));
}

int verb_test_way(const struct control_env *env, const json_t *request, json_t **ret)
{
	const char *name = control_argument(request, "name", ret);
	if (!name)
		return NW_EMALFORMED;
	json_t *kernel = control_ask(env, STEER_Q_STATE, NULL);
	if (!kernel)
		return control_fail(ret, -EIO,
		        "the enforcer does not answer, so nothing can be said about the kernel. Mend: look at the log of "
		        "namewayd");
	const json_t *way = find_named(json_object_get(kernel, "ways"), "name", name);
	if (!way) {
		json_decref(kernel);
		return control_fail(ret, -ENOENT, "there is no way `%.64s`; `nameway ways` lists them", name);
	}
	json_t *checks = json_array();
	bool is_ok = check_way(checks, json_object_get(kernel, "table"), way);
	add_traffic(checks, json_object_get(kernel, "rules"), name);
	*ret = json_pack("{s:s, s:b, s:o}", "name", name, "ok", is_ok, "checks", checks);
	json_decref(kernel);
	return 0;
}
