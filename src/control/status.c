/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `status` and the cache's verbs. The rate of queries comes from two readings of the counters: the one of an earlier call when
 * it is fresh, else one taken a moment ago. The control thread. */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/rcu.h"
#include "control/control_private.h"

enum { RATE_MIN_MS = 500, RATE_MAX_MS = 10000, RATE_WAIT_MS = 250, ALARMS_TOLD = 2 * ALARMS_MAX, LISTS_JSON_MAX = 64 << 20 };

struct reading {
	uint64_t started_ms, at_ms, queries;
};
static struct reading history; /* of one server, told by its start */

static uint64_t sum(const struct control_env *env, enum worker_counter c)
{
	uint64_t n = 0;
	for (unsigned i = 0; i < env->worker_count; i++)
		n += worker_counter(env->workers[i], c);
	return n;
}

static struct reading read_now(const struct control_env *env)
{
	return (struct reading){.started_ms = env->started_ms, .at_ms = clock_ms(), .queries = sum(env, C_QUERIES)};
}

static json_t *rate(const struct control_env *env)
{
	struct reading before = history, now = read_now(env);
	if (before.started_ms != env->started_ms || now.at_ms - before.at_ms < RATE_MIN_MS ||
	        now.at_ms - before.at_ms > RATE_MAX_MS) {
		before = now;
		rcu_offline();
		usleep(RATE_WAIT_MS * 1000);
		rcu_online();
		now = read_now(env);
	}
	history = now;
	uint64_t ms = now.at_ms - before.at_ms;
	return json_pack("{s:f, s:I}", "per_s", ms ? (double)(now.queries - before.queries) * 1000 / (double)ms : 0.0, "over_ms",
	        (json_int_t)ms);
}

static json_t *counters(const struct control_env *env)
{
	json_t *j = json_object();
	for (unsigned c = 0; c < C_COUNT; c++)
		json_object_set_new(j, worker_counter_name[c], json_integer((json_int_t)sum(env, (enum worker_counter)c)));
	return j;
}

static json_t *cache_json(const struct control_env *env)
{
	struct cache_stat s;
	cache_stat(env->cache, &s);
	uint64_t asked = s.hits + s.misses;
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "entries", (json_int_t)s.entries, "bytes",
	        (json_int_t)s.bytes, "bytes_max", (json_int_t)s.bytes_max, "hits", (json_int_t)s.hits, "misses",
	        (json_int_t)s.misses, "stale", (json_int_t)s.stale, "prefetches", (json_int_t)s.prefetches, "puts", (json_int_t)s.puts, "evictions", (json_int_t)s.evictions, "too_big",
	        (json_int_t)s.too_big, "no_room", (json_int_t)s.no_room, "hit_share",
	        asked ? (double)s.hits / (double)asked : 0.0);
}

/* The short form of what `list` says. */
static json_t *short_list(const json_t *l)
{
	const json_t *text = json_object_get(l, "text");
	json_t *j = json_pack("{s:O, s:O, s:O, s:O, s:I}", "name", json_object_get(l, "name"), "loaded",
	        json_object_get(l, "loaded"), "names", json_object_get(l, "names"), "prefix_ranges",
	        json_object_get(l, "prefix_ranges"), "edits",
	        (json_int_t)(json_array_size(json_object_get(l, "added")) + json_array_size(json_object_get(l, "removed"))));
	if (text)
		json_object_set(j, "age_s", json_object_get(text, "age_s"));
	if (text)
		json_object_set(j, "bad", json_object_get(text, "bad"));
	if (json_object_get(l, "held_why"))
		json_object_set(j, "held_why", json_object_get(l, "held_why"));
	return j;
}

static json_t *short_lists(const struct control_env *env)
{
	struct buf b;
	buf_init(&b, LISTS_JSON_MAX);
	json_t *ret = json_array(), *all = NULL, *one;
	size_t i;
	if (lists_print_json(env->lists, -1, &b) == 0)
		all = json_loadb(b.bytes, b.len, 0, NULL);
	json_array_foreach(json_object_get(all, "lists"), i, one) json_array_append_new(ret, short_list(one));
	json_decref(all);
	buf_free(&b);
	return ret;
}

/* --- upstreams --- */

static json_t *upstream_json(const struct upstream_stat *u)
{
	char text[ADDR_TEXT_MAX];
	return json_pack("{s:o, s:o, s:b, s:I, s:I, s:I, s:I, s:I}", "group", control_text(u->group), "server",
	        control_textf("%s@%u", addr_print(text, &u->server.addr), u->server.port), "healthy", u->is_healthy, "srtt_us",
	        (json_int_t)u->srtt_us, "sent", (json_int_t)u->sent, "answered", (json_int_t)u->answered, "timeouts",
	        (json_int_t)u->timeouts, "errors", (json_int_t)u->errors);
}

static void upstream_merge(struct upstream_stat *all, unsigned *count, unsigned max, const struct upstream_stat *one)
{
	unsigned i = 0;
	while (i < *count && (strcmp(all[i].group, one->group) || !addr_equal(&all[i].server.addr, &one->server.addr) ||
	                             all[i].server.port != one->server.port))
		i++;
	if (i == max)
		return;
	if (i == *count) {
		all[(*count)++] = *one;
		return;
	}
	/* One worker may not have noticed yet what another has; the slower view counts. */
	all[i].is_healthy &= one->is_healthy;
	all[i].srtt_us = one->srtt_us > all[i].srtt_us ? one->srtt_us : all[i].srtt_us;
	all[i].sent += one->sent;
	all[i].answered += one->answered;
	all[i].timeouts += one->timeouts;
	all[i].errors += one->errors;
}

/* Called with the snapshot taken: groups' names belong to a configuration that is then not freed. */
static json_t *upstreams(const struct control_env *env)
{
	static struct upstream_stat all[CONFIG_UPSTREAMS_MAX], of_one[CONFIG_UPSTREAMS_MAX];
	unsigned count = 0;
	json_t *ret = json_array();
	rcu_offline();
	for (unsigned i = 0; i < env->worker_count; i++) {
		unsigned n = worker_upstreams(env->workers[i], of_one, CONFIG_UPSTREAMS_MAX);
		for (unsigned k = 0; k < n; k++)
			upstream_merge(all, &count, CONFIG_UPSTREAMS_MAX, &of_one[k]);
	}
	rcu_online();
	for (unsigned i = 0; i < count; i++)
		json_array_append_new(ret, upstream_json(&all[i]));
	return ret;
}

/* --- status --- */

static json_t *steering(const struct control_env *env, const json_t *kernel)
{
	uint32_t state = env->steer ? atomic_load(&env->steer->state) : STEER_DOWN;
	uint64_t beat = env->steer ? atomic_load(&env->steer->heartbeat_ms) : 0, now = clock_ms();
	json_t *j = json_pack("{s:s, s:I, s:b}", "state",
	        state == STEER_READY        ? "ready"
	        : state == STEER_REBUILDING ? "rebuilding"
	                                    : "down",
	        "heartbeat_age_ms", (json_int_t)(beat && now > beat ? now - beat : 0), "answers", kernel != NULL);
	if (json_object_get(kernel, "table"))
		json_object_set(j, "table", json_object_get(kernel, "table"));
	return j;
}

static void add_alarms(json_t *all, const char *from, json_t *more)
{
	size_t i;
	json_t *one;
	json_array_foreach(more, i, one)
	{
		if (json_array_size(all) == ALARMS_TOLD)
			return;
		json_object_set_new(one, "from", json_string(from));
		json_array_append(all, one);
	}
}

static json_t *alarms(const struct control_env *env, const json_t *kernel)
{
	json_t *all = json_array(), *own = alarms_json(env->alarms);
	add_alarms(all, "server", own);
	add_alarms(all, "enforcer", json_object_get(kernel, "alarms"));
	json_decref(own);
	if (!kernel)
		json_array_append_new(all, json_pack("{s:s, s:s, s:I, s:s}", "from", "server", "key", "enforcer", "since",
		                                   (json_int_t)clock_wall_s(), "text",
		                                   "the enforcer does not answer: new steered addresses are answered SERVFAIL. "
		                                   "Mend: look at the log of namewayd; it is restarted by itself"));
	return all;
}

static json_t *ways(const struct control_env *env, const struct snapshot *s, const json_t *kernel)
{
	json_t *ret = json_array();
	for (unsigned i = 0; i < s->config->way_count; i++) {
		json_t *j = json_pack(
		        "{s:o, s:o}", "name", control_text(s->config->ways[i].name), "now", way_state_text(env, s, (int)i));
		size_t k;
		json_t *one;
		json_array_foreach(json_object_get(kernel, "ways"), k,
		        one) if (json_equal(json_object_get(one, "name"), json_object_get(j, "name")))
		{
			json_object_set(j, "state", json_object_get(one, "state"));
			json_object_set(j, "reason", json_object_get(one, "reason"));
		}
		json_array_append_new(ret, j);
	}
	return ret;
}

int verb_status(const struct control_env *env, const json_t *request, json_t **ret)
{
	(void)request;
	json_t *kernel = control_ask(env, STEER_Q_STATE, NULL), *j = json_object();
	json_object_set_new(j, "version", json_string(NAMEWAY_VERSION));
	json_object_set_new(j, "uptime_s", json_integer((json_int_t)((clock_ms() - env->started_ms) / 1000)));
	json_object_set_new(j, "workers", json_integer(env->worker_count));
	json_object_set_new(j, "queries", rate(env));
	json_object_set_new(j, "counters", counters(env));
	json_object_set_new(j, "cache", cache_json(env));
	json_object_set_new(j, "query_log", queries_json(env));
	json_object_set_new(j, "holds", json_pack("{s:I}", "count", (json_int_t)holds_count(env->holds)));
	json_object_set_new(j, "lists", short_lists(env));
	json_object_set_new(j, "steering", steering(env, kernel));
	json_object_set_new(j, "alarms", alarms(env, kernel));
	const struct snapshot *s = env->snapshot_take(env->ctx);
	json_object_set_new(j, "serving", json_boolean(s != NULL));
	if (s) {
		json_object_set_new(j, "serial", json_integer(s->serial));
		json_object_set_new(j, "ways", ways(env, s, kernel));
		json_object_set_new(j, "filter", filter_json(env, s->config));
		json_object_set_new(j, "upstreams", upstreams(env));
	}
	env->snapshot_give(env->ctx, s);
	json_decref(kernel);
	*ret = j;
	return j ? 0 : -ENOMEM;
}

/* --- cache --- */

int verb_cache_stats(const struct control_env *env, const json_t *request, json_t **ret)
{
	(void)request;
	*ret = cache_json(env);
	return *ret ? 0 : -ENOMEM;
}

int verb_cache_flush(const struct control_env *env, const json_t *request, json_t **ret)
{
	const json_t *text = json_object_get(request, "name");
	struct name n;
	if (text && !json_is_null(text)) {
		const char *name = json_string_value(text);
		if (!name || name_from_user_text(&n, name, strlen(name)) < 0)
			return control_fail(ret, NW_EMALFORMED, "`%.128s` is no name", name ? name : "");
	}
	bool is_all = !text || json_is_null(text);
	bool is_exact = json_is_true(json_object_get(request, "exact"));
	if (is_exact && is_all)
		return control_fail(ret, NW_EMALFORMED, "`exact` needs a `name`");
	unsigned count = is_exact ? cache_flush_name(env->cache, &n) : cache_flush(env->cache, is_all ? NULL : &n);
	*ret = json_pack("{s:i}", "flushed", (int)count);
	return *ret ? 0 : -ENOMEM;
}
