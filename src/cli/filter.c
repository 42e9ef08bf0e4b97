/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `filter`: pauses of filter rules. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"
#include "cli/table.h"

/* "90s", "30m", "12h", "7d", and rows of them: "1h30m". 0: none. */
static json_int_t parse_duration(const char *text)
{
	static const struct {
		char unit;
		json_int_t s;
	} units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
	json_int_t sum = 0;
	if (!*text)
		return 0;
	while (*text) {
		char *end;
		unsigned k = 0;
		errno = 0;
		long long n = strtoll(text, &end, 10);
		while (k < 4 && units[k].unit != *end)
			k++;
		if (*text < '0' || *text > '9' || errno || k == 4 || n > 1000000000)
			return 0;
		sum += n * units[k].s;
		text = end + 1;
	}
	return sum;
}

void print_pause_lines(FILE *out, const json_t *f, const char *prefix)
{
	const json_t *all = json_object_get(f, "all"), *rules = json_object_get(f, "rules");
	char age[WORDS_MAX];
	size_t i;
	json_t *r;
	if (json_is_object(all))
		fprintf(out, "%severy filter rule is passed over for %s more\n", prefix, words_age(age, int_of(all, "left_s")));
	json_array_foreach(rules, i, r)
	{
		fprintf(out, "%sfilter rule %lld `", prefix, (long long)int_of(r, "rule"));
		put_text(out, text_of(r, "name"));
		fprintf(out, "` is passed over for %s more\n", words_age(age, int_of(r, "left_s")));
	}
}

void print_pauses(FILE *out, const json_t *f)
{
	if (!json_is_object(json_object_get(f, "all")) && !json_array_size(json_object_get(f, "rules")))
		fputs("every filter rule is in force\n", out);
	print_pause_lines(out, f, "");
}

int cli_filter(struct cli *c, int argc, char **argv)
{
	static const char usage[] = "filter | filter off DURATION [RULE] | filter on [RULE]";
	bool is_off = argc > 1 && !strcmp(argv[1], "off"), is_on = argc > 1 && !strcmp(argv[1], "on");
	int rule = is_off ? 3 : 2;
	if (argc == 1)
		return cli_show(c, json_pack("{s:s}", "verb", "filter"), print_pauses);
	if ((!is_off && !is_on) || argc > rule + 1 || (is_off && argc < 3))
		return cli_usage(c, "%s", usage);
	json_int_t s = is_off ? parse_duration(argv[2]) : 0;
	if (is_off && !s)
		return cli_usage(c, "`%s` is no duration; write 90s, 30m, 12h, 7d", argv[2]);
	json_t *request = json_pack("{s:s}", "verb", is_off ? "filter-off" : "filter-on");
	if (is_off)
		json_object_set_new(request, "duration_s", json_integer(s));
	if (argc > rule && json_object_set_new(request, "rule", json_string(argv[rule])) < 0) {
		json_decref(request);
		return cli_usage(c, "a rule's name is UTF-8 text");
	}
	return cli_show(c, request, print_pauses);
}
