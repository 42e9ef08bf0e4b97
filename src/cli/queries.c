/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `log` and `top`. Who follows asks again and again, each time for what came since. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "cli/cli.h"
#include "cli/table.h"

enum { FOLLOW_MS = 250, WATCH_MS = 2000, FOLLOW_COUNT = 5000 };

static int parse_count(struct cli *c, const char *text, json_int_t max, json_int_t *ret)
{
	char *end;
	errno = 0;
	long long n = strtoll(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno || n > max)
		return cli_usage(c, "`%s` is no number up to %lld", text, (long long)max);
	*ret = n;
	return 0;
}

/* --- log --- */

static void print_record(FILE *out, const json_t *r)
{
	char when[32] = "?";
	int64_t ms = int_of(r, "at_ms");
	time_t s = (time_t)(ms / 1000);
	struct tm tm;
	const char *filter = text_of(r, "filter"), *steer = text_of(r, "steer");
	if (localtime_r(&s, &tm) && !strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm))
		when[0] = 0;
	fprintf(out, "%s.%03d  %-15s  %-5s  ", when, (int)(ms % 1000), text_of(r, "client"), text_of(r, "type"));
	put_text(out, text_of(r, "name"));
	fprintf(out, "  %s %s", text_of(r, "rcode"), text_of(r, "outcome"));
	if (filter[0])
		fputs(" by ", out);
	put_text(out, filter);
	if (steer[0])
		fputs(", steered by ", out);
	put_text(out, steer);
	fprintf(out, "  %.1f ms\n", (double)int_of(r, "took_us") / 1000);
}

static void print_records(struct cli *c, const json_t *answer)
{
	size_t i;
	json_t *r;
	json_array_foreach(json_object_get(answer, "records"), i, r)
	{
		if (c->wants_json) {
			json_dumpf(r, c->out, JSON_COMPACT);
			fputc('\n', c->out);
		} else {
			print_record(c->out, r);
		}
	}
}

void print_log(FILE *out, const json_t *answer)
{
	struct cli c = {.out = out};
	print_records(&c, answer);
}

/* Takes its request anew each time, with the cursor of the answer before. 0 is never returned: it ends when the server does, or nobody reads. */
static int follow(struct cli *c, json_t *request, json_int_t cursor)
{
	json_object_set_new(request, "count", json_integer(FOLLOW_COUNT));
	for (;;) {
		json_t *answer = NULL;
		json_object_set_new(request, "cursor", json_integer(cursor));
		int r = c->ask(c, json_deep_copy(request), &answer);
		if (r)
			return r;
		size_t count = json_array_size(json_object_get(answer, "records"));
		cursor = int_of(answer, "cursor");
		print_records(c, answer);
		json_decref(answer);
		if (fflush(c->out) == EOF)
			return EXIT_NO;
		if (count < FOLLOW_COUNT)
			usleep(FOLLOW_MS * 1000);
	}
}

static int run_log(struct cli *c, json_t *request, bool is_following)
{
	json_t *answer = NULL;
	int r = c->ask(c, json_deep_copy(request), &answer);
	if (r)
		return r;
	print_records(c, answer);
	if (!json_is_true(json_object_get(answer, "on")))
		fputs("nameway: the query log is off: nothing is added. Mend: server.log.queries: true\n", c->err);
	json_int_t cursor = int_of(answer, "cursor");
	json_decref(answer);
	fflush(c->out);
	return is_following ? follow(c, request, cursor) : 0;
}

static int set_text(struct cli *c, json_t *request, const char *key, const char *text)
{
	if (json_object_set_new(request, key, json_string(text)) < 0)
		return cli_usage(c, "`%s` is no UTF-8 text", key);
	return 0;
}

static int log_option(struct cli *c, json_t *request, const char *option, const char *value, bool *is_following, int *used)
{
	json_int_t count;
	*used = 1;
	if (!strcmp(option, "--follow") || !strcmp(option, "-f")) {
		*is_following = true;
		return 0;
	}
	if (!strcmp(option, "--blocked"))
		return set_text(c, request, "outcome", "blocked");
	bool is_count = !strcmp(option, "-n"), is_name = !strcmp(option, "--name"), is_client = !strcmp(option, "--client");
	if (!is_count && !is_name && !is_client)
		return cli_usage(c, "log has no option `%s`", option);
	if (!value)
		return cli_usage(c, "`%s` needs a value", option);
	*used = 2;
	if (!is_count)
		return set_text(c, request, is_name ? "name" : "client", value);
	int r = parse_count(c, value, 10000, &count);
	return r ? r : json_object_set_new(request, "count", json_integer(count));
}

int cli_log(struct cli *c, int argc, char **argv)
{
	json_t *request = json_pack("{s:s}", "verb", "log");
	bool is_following = false;
	int r = 0, used;
	for (int i = 1; !r && i < argc; i += used)
		r = log_option(c, request, argv[i], i + 1 < argc ? argv[i + 1] : NULL, &is_following, &used);
	if (!r)
		r = run_log(c, request, is_following);
	json_decref(request);
	return r;
}

/* --- top --- */

static void print_busiest(FILE *out, const json_t *window, const char *what, const char *title, const char *key, const char *none)
{
	const json_t *all = json_object_get(window, what);
	struct table t;
	size_t i;
	json_t *one;
	double queries = (double)int_of(window, "queries");
	if (!json_array_size(all)) {
		fprintf(out, "%s: %s\n", title, none);
		return;
	}
	table_begin(&t, "rrl");
	table_cell(&t, "QUERIES");
	table_cell(&t, "SHARE");
	table_cell(&t, "%s", title);
	json_array_foreach(all, i, one)
	{
		int64_t count = int_of(one, "count");
		/* A count that may be too high is marked. */
		table_cell(&t, "%s%lld", int_of(one, "at_least") < count ? "~" : "", (long long)count);
		table_cell(&t, "%.1f %%", queries > 0 ? 100 * (double)count / queries : 0.0);
		table_cell(&t, "%s", text_of(one, key));
	}
	table_end(&t, out, "");
}

void print_top(FILE *out, const json_t *top)
{
	char age[WORDS_MAX];
	const json_t *hour = json_object_get(top, "hour");
	fprintf(out, "the last hour: %lld queries; %lld in the %s since the start\n\n", (long long)int_of(hour, "queries"),
	        (long long)int_of(json_object_get(top, "start"), "queries"), words_age(age, int_of(top, "since_s")));
	print_busiest(out, hour, "names", "NAME", "name", "none was asked");
	fputc('\n', out);
	print_busiest(out, hour, "clients", "CLIENT", "client", "none asked");
	fputc('\n', out);
	print_busiest(out, hour, "blocked", "BLOCKED NAME", "name", "none was blocked");
}

static int watch(struct cli *c, json_t *request)
{
	for (;;) {
		json_t *top = NULL;
		int r = c->ask(c, json_deep_copy(request), &top);
		if (r)
			return r;
		fputs("\033[H\033[2J", c->out);
		print_top(c->out, top);
		json_decref(top);
		if (fflush(c->out) == EOF)
			return EXIT_NO;
		usleep(WATCH_MS * 1000);
	}
}

int cli_top(struct cli *c, int argc, char **argv)
{
	json_t *request = json_pack("{s:s}", "verb", "top");
	bool is_watching = false;
	json_int_t count;
	int r = 0;
	for (int i = 1; !r && i < argc; i++) {
		if (!strcmp(argv[i], "--watch"))
			is_watching = true;
		else if (!(r = parse_count(c, argv[i], 1000, &count)))
			json_object_set_new(request, "count", json_integer(count));
	}
	if (!r && is_watching && c->wants_json)
		r = cli_usage(c, "--watch is for people; ask again for --json");
	if (r || is_watching) {
		r = r ? r : watch(c, request);
		json_decref(request);
		return r;
	}
	return cli_show(c, request, print_top);
}
