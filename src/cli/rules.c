/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `rules`, `ways`, `way`, `test way`. */
#include <string.h>
#include "cli/cli.h"
#include "cli/table.h"

/* "lan, iot but toys": what a rule is for. */
static void condition(struct table *t, const json_t *r, const char *key, const char *except)
{
	const json_t *no = json_object_get(r, except);
	const char *yes = joined(json_object_get(r, key), ", ", "all");
	if (json_array_size(no))
		table_cell(t, "%s but %s", yes, joined(no, ", ", ""));
	else
		table_cell(t, "%s", yes);
}

/* "cname target (paused for 5m)" */
static void action(struct table *t, const json_t *r)
{
	char age[WORDS_MAX], paused[WORDS_MAX + 32] = "";
	const char *targets = joined(json_object_get(r, "targets"), " ", "");
	if (int_of(r, "paused_s"))
		snprintf(paused, sizeof(paused), " (paused for %s)", words_age(age, int_of(r, "paused_s")));
	table_cell(t, "%s%s%s%s%s", text_of(r, "action"), targets[0] ? " " : "", targets,
	        json_is_true(json_object_get(r, "enabled")) ? "" : " (disabled)", paused);
}

static void print_filters(FILE *out, const json_t *rules)
{
	struct table t;
	size_t i;
	json_t *r;
	const char *const head[] = {"FILTER", "NAME", "CLIENTS", "NAMES", "ACTION", "HITS", "AT"};
	table_begin(&t, "rllllrl");
	for (unsigned k = 0; k < 7; k++)
		table_cell(&t, "%s", head[k]);
	json_array_foreach(rules, i, r)
	{
		table_cell(&t, "%lld", (long long)int_of(r, "rule"));
		table_cell(&t, "%s", text_of(r, "name"));
		condition(&t, r, "clients", "except_clients");
		condition(&t, r, "names", "except_names");
		action(&t, r);
		table_cell(&t, "%lld", (long long)int_of(r, "hits"));
		table_cell(&t, "%s", text_of(r, "place"));
	}
	table_end(&t, out, "");
}

static void print_steers(FILE *out, const json_t *rules)
{
	struct table t;
	size_t i;
	json_t *r;
	const char *const head[] = {
	        "STEER", "NAME", "CLIENTS", "NAMES", "WAY", "HITS", "PACKETS", "IPV4", "IPV6", "PREFIXES", "SET", "AT"};
	table_begin(&t, "rllllrrrrrll");
	for (unsigned k = 0; k < 12; k++)
		table_cell(&t, "%s", head[k]);
	json_array_foreach(rules, i, r)
	{
		table_cell(&t, "%lld", (long long)int_of(r, "rule"));
		table_cell(&t, "%s", text_of(r, "name"));
		if (json_object_get(r, "gid"))
			table_cell(&t, "own group %lld", (long long)int_of(r, "gid"));
		else
			condition(&t, r, "clients", "except_clients");
		condition(&t, r, "names", "except_names");
		table_cell(&t, "%s%s", text_of(r, "way"), json_is_true(json_object_get(r, "enabled")) ? "" : " (disabled)");
		table_cell(&t, "%lld", (long long)int_of(r, "hits"));
		static const char *const numbers[] = {"packets", "addresses4", "addresses6", "ranges"};
		for (unsigned k = 0; k < 4; k++)
			if (json_object_get(r, numbers[k]))
				table_cell(&t, "%lld", (long long)int_of(r, numbers[k]));
			else
				table_cell(&t, "?");
		if (json_array_size(json_object_get(r, "sets")))
			table_cell(&t, "r%s", text_of(r, "id"));
		else
			table_cell(&t, "-");
		table_cell(&t, "%s", text_of(r, "place"));
	}
	table_end(&t, out, "");
}

void print_rules(FILE *out, const json_t *r)
{
	const json_t *table = json_object_get(r, "kernel");
	if (json_array_size(json_object_get(r, "filter"))) {
		print_filters(out, json_object_get(r, "filter"));
		fputc('\n', out);
	}
	print_steers(out, json_object_get(r, "steer"));
	if (!json_is_object(table))
		fputs("\nthe enforcer does not answer: counters and fill of the kernel are not known\n", out);
	else if (!json_is_true(json_object_get(table, "stands")))
		fputs("\nthe table `inet nameway` does not stand in the kernel\n", out);
}

int cli_rules(struct cli *c, int argc, char **argv)
{
	if (argc > 1)
		return cli_usage(c, "rules takes no `%s`", argv[1]);
	return cli_show(c, json_pack("{s:s}", "verb", "rules"), print_rules);
}

/* --- ways --- */

static void print_sets(FILE *out, const json_t *ways)
{
	size_t i, k;
	json_t *w, *s;
	json_array_foreach(ways, i, w)
	{
		json_array_foreach(json_object_get(w, "sets"), k, s)
		        fprintf(out, "%s fills %s %s %s%s\n", text_of(w, "name"), text_of(s, "family"), text_of(s, "table"),
		                text_of(s, "set"), json_is_true(json_object_get(s, "exists")) ? "" : ", which does not exist");
		json_array_foreach(json_object_get(w, "missing"), k, s)
		        fprintf(out, "%s: %s\n", text_of(w, "name"), json_string_value(s));
	}
}

void print_ways(FILE *out, const json_t *answer)
{
	const json_t *ways = json_object_get(answer, "ways");
	struct table t;
	size_t i;
	json_t *w;
	const char *const head[] = {"WAY", "INTERFACE", "MARK", "TABLE", "UPSTREAM", "STATE", "WHEN DOWN", "IPV6", ""};
	table_begin(&t, "lllrlllll");
	for (unsigned k = 0; k < 9; k++)
		table_cell(&t, "%s", head[k]);
	json_array_foreach(ways, i, w)
	{
		const char *state = text_of(w, "state"), *fallback = text_of(w, "fallback");
		bool has_interface = text_of(w, "interface")[0];
		table_cell(&t, "%s", text_of(w, "name"));
		table_cell(&t, "%s", has_interface ? text_of(w, "interface") : "-");
		table_cell(&t, "%s", text_of(w, "mark"));
		if (int_of(w, "table"))
			table_cell(&t, "%lld", (long long)int_of(w, "table"));
		else
			table_cell(&t, "-");
		table_cell(&t, "%s", text_of(w, "upstream")[0] ? text_of(w, "upstream") : "-");
		table_cell(&t, "%s", state[0] ? state : text_of(w, "now"));
		table_cell(&t, "%s",
		        !has_interface                                    ? "-"
		        : json_is_true(json_object_get(w, "kill_switch")) ? "stops"
		        : fallback[0]                                     ? fallback
		                                                          : "main table");
		table_cell(&t, "%s", json_is_true(json_object_get(w, "answers_aaaa")) ? "yes" : "no");
		table_cell(&t, "%s", strcmp(state, "up") ? text_of(w, "reason") : "");
	}
	table_end(&t, out, "");
	print_sets(out, ways);
	if (!json_is_true(json_object_get(answer, "kernel_known")))
		fputs("the enforcer does not answer: what the kernel has is not known\n", out);
}

int cli_ways(struct cli *c, int argc, char **argv)
{
	if (argc > 1)
		return cli_usage(c, "ways takes no `%s`", argv[1]);
	return cli_show(c, json_pack("{s:s}", "verb", "ways"), print_ways);
}

int cli_way(struct cli *c, int argc, char **argv)
{
	if (argc != 3 || (strcmp(argv[1], "up") && strcmp(argv[1], "down")))
		return cli_usage(c, "way up|down NAME");
	return cli_show(
	        c, json_pack("{s:s, s:s, s:b}", "verb", "way", "name", argv[2], "up", !strcmp(argv[1], "up")), print_said);
}

void print_test(FILE *out, const json_t *t)
{
	size_t i;
	json_t *k;
	json_array_foreach(json_object_get(t, "checks"), i, k)
	{
		fprintf(out, "%-8s %-14s ", json_is_true(json_object_get(k, "ok")) ? "ok" : "PROBLEM", text_of(k, "what"));
		put_text(out, text_of(k, "said"));
		fputc('\n', out);
	}
	put_text(out, text_of(t, "name"));
	fputs(json_is_true(json_object_get(t, "ok")) ? ": nothing leaks\n" : ": there are problems\n", out);
}

int cli_test(struct cli *c, int argc, char **argv)
{
	if (argc != 3 || strcmp(argv[1], "way"))
		return cli_usage(c, "test way NAME");
	json_t *result = NULL;
	int r = c->ask(c, json_pack("{s:s, s:s}", "verb", "test-way", "name", argv[2]), &result);
	if (r)
		return r;
	if (c->wants_json)
		json_dumpf(result, c->out, JSON_INDENT(2));
	else
		print_test(c->out, result);
	if (c->wants_json)
		fputc('\n', c->out);
	r = json_is_true(json_object_get(result, "ok")) ? 0 : EXIT_NO;
	json_decref(result);
	return r;
}
