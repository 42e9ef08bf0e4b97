/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `status` and `cache`: what runs, on one screen; alarms come last, where the eye ends. */
#include <string.h>
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/table.h"

static void print_counters(FILE *out, const json_t *s)
{
	const json_t *n = json_object_get(s, "counters"), *q = json_object_get(s, "queries"),
	             *cache = json_object_get(s, "cache");
	char used[WORDS_MAX], all[WORDS_MAX];
	fprintf(out, "queries   %lld, %.1f/s now; %lld blocked, %lld steered, %lld refused, %lld malformed\n",
	        (long long)int_of(n, "queries"), json_number_value(json_object_get(q, "per_s")), (long long)int_of(n, "blocked"),
	        (long long)int_of(n, "steered"), (long long)int_of(n, "refused"), (long long)int_of(n, "malformed"));
	fprintf(out,
	        "failed    %lld SERVFAIL; %lld for a way that was down, %lld because the kernel did not take the addresses (%lld "
	        "of them late)\n",
	        (long long)int_of(n, "servfail"), (long long)int_of(n, "way_down"),
	        (long long)(int_of(n, "barrier_failed") + int_of(n, "barrier_late")), (long long)int_of(n, "barrier_late"));
	fprintf(out, "cache     %lld answers, %s of %s, %.0f %% hits\n", (long long)int_of(cache, "entries"),
	        words_bytes(used, int_of(cache, "bytes")), words_bytes(all, int_of(cache, "bytes_max")),
	        100 * json_number_value(json_object_get(cache, "hit_share")));
}

static void print_query_log(FILE *out, const json_t *log)
{
	char bytes[WORDS_MAX];
	if (!json_is_object(log))
		return;
	fprintf(out, "log       %s%s; %s kept", json_is_true(json_object_get(log, "on")) ? "on" : "off",
	        json_is_true(json_object_get(log, "failing")) ? ", cannot be written" : "", words_bytes(bytes, int_of(log, "bytes")));
	if (int_of(log, "lost"))
		fprintf(out, ", %lld records lost", (long long)int_of(log, "lost"));
	fputc('\n', out);
}

static void print_steering(FILE *out, const json_t *s)
{
	const json_t *steer = json_object_get(s, "steering"), *table = json_object_get(steer, "table");
	fprintf(out, "steering  %s", text_of(steer, "state"));
	if (!json_is_true(json_object_get(steer, "answers")))
		fputs("; the enforcer does not answer", out);
	else if (table)
		fprintf(out, "; the table %s, %s, rebuilt %lld times",
		        json_is_true(json_object_get(table, "stands")) ? "stands" : "does not stand",
		        json_is_true(json_object_get(table, "protected")) ? "protected" : "watched",
		        (long long)int_of(table, "rebuilds"));
	fputc('\n', out);
}

static void print_status_lists(FILE *out, const json_t *lists)
{
	struct table t;
	size_t i;
	json_t *l;
	char age[WORDS_MAX];
	if (!json_array_size(lists))
		return;
	table_begin(&t, "lrrrrl");
	const char *const head[] = {"LIST", "NAMES", "PREFIXES", "AGE", "EDITS", ""};
	for (unsigned k = 0; k < 6; k++)
		table_cell(&t, "%s", head[k]);
	json_array_foreach(lists, i, l)
	{
		table_cell(&t, "%s", text_of(l, "name"));
		table_cell(&t, "%lld", (long long)int_of(l, "names"));
		table_cell(&t, "%lld", (long long)int_of(l, "prefix_ranges"));
		table_cell(&t, "%s", json_object_get(l, "age_s") ? words_age(age, int_of(l, "age_s")) : "-");
		table_cell(&t, "%lld", (long long)int_of(l, "edits"));
		if (json_object_get(l, "held_why"))
			table_cell(&t, "an update is held: %s", text_of(l, "held_why"));
		else if (int_of(l, "bad"))
			table_cell(&t, "%lld lines not understood", (long long)int_of(l, "bad"));
		else
			table_cell(&t, "%s", json_is_true(json_object_get(l, "loaded")) ? "" : "no file yet");
	}
	fputc('\n', out);
	table_end(&t, out, "");
}

static void print_status_ways(FILE *out, const json_t *ways)
{
	struct table t;
	size_t i;
	json_t *w;
	if (!json_array_size(ways))
		return;
	table_begin(&t, "lll");
	table_cell(&t, "WAY");
	table_cell(&t, "STATE");
	table_cell(&t, "%s", "");
	json_array_foreach(ways, i, w)
	{
		const char *state = text_of(w, "state");
		table_cell(&t, "%s", text_of(w, "name"));
		table_cell(&t, "%s", state[0] ? state : text_of(w, "now"));
		table_cell(&t, "%s", !strcmp(state, "up") ? "" : text_of(w, "reason"));
	}
	fputc('\n', out);
	table_end(&t, out, "");
}

static void print_upstreams(FILE *out, const json_t *ups)
{
	struct table t;
	size_t i;
	json_t *u;
	if (!json_array_size(ups))
		return;
	table_begin(&t, "lllrrr");
	const char *const head[] = {"UPSTREAM", "SERVER", "STATE", "RTT", "SENT", "TIMEOUTS"};
	for (unsigned k = 0; k < 6; k++)
		table_cell(&t, "%s", head[k]);
	json_array_foreach(ups, i, u)
	{
		table_cell(&t, "%s", text_of(u, "group"));
		table_cell(&t, "%s", text_of(u, "server"));
		table_cell(&t, "%s", json_is_true(json_object_get(u, "healthy")) ? "healthy" : "failing");
		table_cell(&t, "%.1f ms", (double)int_of(u, "srtt_us") / 1000);
		table_cell(&t, "%lld", (long long)int_of(u, "sent"));
		table_cell(&t, "%lld", (long long)int_of(u, "timeouts"));
	}
	fputc('\n', out);
	table_end(&t, out, "");
}

static void print_alarms(FILE *out, const json_t *alarms)
{
	size_t i;
	json_t *a;
	char age[WORDS_MAX];
	if (!json_array_size(alarms)) {
		fputs("\nno alarms\n", out);
		return;
	}
	fputc('\n', out);
	json_array_foreach(alarms, i, a)
	{
		fprintf(out, "ALARM for %s: ", words_age(age, clock_wall_s() - int_of(a, "since")));
		put_text(out, text_of(a, "text"));
		fputc('\n', out);
	}
}

void print_status(FILE *out, const json_t *s)
{
	char age[WORDS_MAX];
	fprintf(out, "nameway %s, up %s, %lld workers%s\n", text_of(s, "version"), words_age(age, int_of(s, "uptime_s")),
	        (long long)int_of(s, "workers"),
	        json_is_true(json_object_get(s, "serving")) ? "" : ", still loading its lists: not serving yet");
	print_counters(out, s);
	print_query_log(out, json_object_get(s, "query_log"));
	print_steering(out, s);
	print_pause_lines(out, json_object_get(s, "filter"), "PAUSED    ");
	print_status_lists(out, json_object_get(s, "lists"));
	print_status_ways(out, json_object_get(s, "ways"));
	print_upstreams(out, json_object_get(s, "upstreams"));
	print_alarms(out, json_object_get(s, "alarms"));
}

int cli_status(struct cli *c, int argc, char **argv)
{
	if (argc > 1)
		return cli_usage(c, "status takes no `%s`", argv[1]);
	return cli_show(c, json_pack("{s:s}", "verb", "status"), print_status);
}

/* --- cache --- */

void print_cache(FILE *out, const json_t *c)
{
	char used[WORDS_MAX], all[WORDS_MAX];
	if (json_object_get(c, "flushed")) {
		fprintf(out, "%lld answers taken out\n", (long long)int_of(c, "flushed"));
		return;
	}
	fprintf(out,
	        "%lld answers, %s of %s\n%lld hits, %lld misses: %.1f %% hits\n%lld given out stale, %lld asked again before their end\n"
	        "%lld put, %lld evicted, %lld too large, %lld without room\n",
	        (long long)int_of(c, "entries"), words_bytes(used, int_of(c, "bytes")), words_bytes(all, int_of(c, "bytes_max")),
	        (long long)int_of(c, "hits"), (long long)int_of(c, "misses"),
	        100 * json_number_value(json_object_get(c, "hit_share")), (long long)int_of(c, "stale"),
	        (long long)int_of(c, "prefetches"), (long long)int_of(c, "puts"),
	        (long long)int_of(c, "evictions"), (long long)int_of(c, "too_big"), (long long)int_of(c, "no_room"));
}

int cli_cache(struct cli *c, int argc, char **argv)
{
	static const char usage[] = "cache stats | cache flush [NAME [--exact]]";
	const char *name = NULL;
	bool is_exact = false;
	if (argc == 2 && !strcmp(argv[1], "stats"))
		return cli_show(c, json_pack("{s:s}", "verb", "cache-stats"), print_cache);
	if (argc < 2 || strcmp(argv[1], "flush"))
		return cli_usage(c, "%s", usage);
	for (int i = 2; i < argc; i++) {
		if (!strcmp(argv[i], "--exact"))
			is_exact = true;
		else if (name || argv[i][0] == '-')
			return cli_usage(c, "%s", usage);
		else
			name = argv[i];
	}
	if (is_exact && !name)
		return cli_usage(c, "%s", usage);
	json_t *request = json_pack("{s:s}", "verb", "cache-flush");
	if (is_exact)
		json_object_set_new(request, "exact", json_true());
	if (name && json_object_set_new(request, "name", json_string(name)) < 0) {
		json_decref(request);
		return cli_usage(c, "a name is UTF-8 text");
	}
	return cli_show(c, request, print_cache);
}
