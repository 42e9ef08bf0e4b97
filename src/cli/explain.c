/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `explain`: the answer first, then what it rests on, then who lost. */
#include <string.h>
#include "cli/cli.h"
#include "cli/table.h"

enum { INDENT = 10 };

static void head(FILE *out, const char *what)
{
	fprintf(out, "%-*s", INDENT, what);
}

static void print_rule(FILE *out, const json_t *r)
{
	fprintf(out, "%s rule %lld `", text_of(r, "kind"), (long long)int_of(r, "rule"));
	put_text(out, text_of(r, "name"));
	fputc('`', out);
	if (text_of(r, "place")[0]) {
		fputs(" (", out);
		put_text(out, text_of(r, "place"));
		fputc(')', out);
	}
}

/* "list vpn: entry x.example, /etc/nameway/lists/vpn line 12" */
static void print_entry(FILE *out, const json_t *by)
{
	fputs("list ", out);
	put_text(out, text_of(by, "list"));
	if (text_of(by, "entry")[0]) {
		fputs(": ", out);
		put_text(out, text_of(by, "entry"));
	}
	if (text_of(by, "address")[0])
		fprintf(out, ": %s", text_of(by, "address"));
	if (text_of(by, "file")[0]) {
		fputs(", ", out);
		put_text(out, text_of(by, "file"));
		fprintf(out, " line %lld", (long long)int_of(by, "line"));
	} else if (text_of(by, "from")[0]) {
		fprintf(out, ", %s", text_of(by, "from"));
	}
}

static void print_by(FILE *out, const json_t *by)
{
	size_t i;
	json_t *one;
	if (json_is_object(by)) {
		head(out, "");
		print_entry(out, by);
		fputc('\n', out);
	}
	json_array_foreach(by, i, one) if (text_of(one, "file")[0]) print_by(out, one);
}

static void print_client(FILE *out, const json_t *e)
{
	const json_t *c = json_object_get(e, "client");
	head(out, "client");
	put_text(out, text_of(c, "said"));
	fprintf(out, "; groups: %s", joined(json_object_get(c, "groups"), ", ", "none"));
	if (json_array_size(json_object_get(c, "groups_unknown")))
		fprintf(out, "; perhaps %s", joined(json_object_get(c, "groups_unknown"), ", ", ""));
	fputs(json_is_true(json_object_get(c, "may_ask")) ? "\n" : "; it may not ask here (server.allow)\n", out);
}

static void print_filter(FILE *out, const json_t *f)
{
	if (!f)
		return;
	head(out, "filter");
	if (json_is_object(json_object_get(f, "rule"))) {
		fprintf(out, "%s%s%s by ", text_of(f, "verdict"), text_of(f, "block")[0] ? " " : "", text_of(f, "block"));
		print_rule(out, json_object_get(f, "rule"));
		fputc('\n', out);
	} else {
		fputs("no rule matches\n", out);
	}
	print_by(out, json_object_get(f, "by"));
}

static void print_steer(FILE *out, const json_t *s)
{
	size_t i;
	json_t *set;
	if (!s)
		return;
	head(out, "steer");
	if (json_is_object(json_object_get(s, "rule")))
		print_rule(out, json_object_get(s, "rule"));
	else
		fputs("no rule decides", out);
	fputc('\n', out);
	print_by(out, json_object_get(s, "by"));
	if (text_of(s, "way")[0]) {
		head(out, "way");
		put_text(out, text_of(s, "way"));
		fprintf(out, ", mark %s, ", text_of(s, "mark"));
		put_text(out, text_of(s, "way_now"));
		fputs(json_is_false(json_object_get(s, "answers_aaaa")) ? "; no IPv6: AAAA is answered without records\n" : "\n",
		        out);
	}
	json_array_foreach(json_object_get(s, "sets"), i, set)
	{
		head(out, i ? "" : "sets");
		fprintf(out, "%s of rule %lld `", joined(json_object_get(set, "sets"), ", ", ""), (long long)int_of(set, "rule"));
		put_text(out, text_of(set, "name"));
		fputs("`", out);
		if (text_of(set, "of")[0]) {
			fputs(", for ", out);
			put_text(out, text_of(set, "of"));
		}
		fputc('\n', out);
	}
}

static void print_cached(FILE *out, const json_t *e)
{
	const json_t *c = json_object_get(e, "cache"), *u = json_object_get(e, "upstream");
	if (json_is_object(u)) {
		head(out, "upstream");
		put_text(out, text_of(u, "group"));
		fprintf(out, " (%s): ", joined(json_object_get(u, "servers"), ", ", ""));
		put_text(out, text_of(u, "why"));
		fputc('\n', out);
	}
	if (!c)
		return;
	head(out, "cache");
	if (!json_is_object(c)) {
		fputs("no answer is cached: its addresses are not known until somebody asks\n", out);
		return;
	}
	fprintf(out, "%s, %lld s old, %lld s left: ",
	        int_of(c, "rcode") == 3                      ? "NXDOMAIN"
	        : json_is_true(json_object_get(c, "nodata")) ? "no records"
	                                                     : "an answer",
	        (long long)int_of(c, "age_s"), (long long)int_of(c, "left_s"));
	fprintf(out, "%s: %s\n", joined(json_object_get(c, "chain"), " -> ", ""),
	        joined(json_object_get(c, "addresses"), ", ", "no addresses"));
}

static void print_kernel_address(FILE *out, const json_t *a)
{
	fprintf(out, "%s ", text_of(a, "address"));
	if (!json_is_true(json_object_get(a, "known")))
		fputs("not known: the enforcer does not answer\n", out);
	else if (json_is_true(json_object_get(a, "in_kernel")) && json_object_get(a, "expires_s"))
		fprintf(out, "is in the rule's set, for %lld s more\n", (long long)int_of(a, "expires_s"));
	else if (json_is_true(json_object_get(a, "in_kernel")))
		fputs("is in a listed prefix of the rule\n", out);
	else if (text_of(a, "never")[0])
		fprintf(out, "enters no set: %s\n", text_of(a, "never"));
	else if (json_is_false(json_object_get(a, "in_kernel")))
		fputs("is not in the rule's set now; the next answer puts it there\n", out);
	else
		fprintf(out, "needs no set; %zu rules' sets hold it\n", json_array_size(json_object_get(a, "rules")));
}

static void print_kernel(FILE *out, const json_t *addresses)
{
	size_t i;
	json_t *a;
	json_array_foreach(addresses, i, a)
	{
		head(out, i ? "" : "kernel");
		print_kernel_address(out, a);
	}
}

static void print_lost(FILE *out, const json_t *lost)
{
	size_t i;
	json_t *r;
	json_array_foreach(lost, i, r)
	{
		head(out, i ? "" : "lost");
		print_rule(out, r);
		fputs(": ", out);
		put_text(out, text_of(r, "why"));
		fputc('\n', out);
		print_by(out, json_object_get(r, "by"));
	}
}

static void print_address(FILE *out, const json_t *e)
{
	const json_t *rule = json_object_get(e, "rule"), *blocked = json_object_get(e, "blocked_in_answers");
	size_t i;
	json_t *set;
	if (rule) {
		head(out, "steer");
		print_rule(out, rule);
		fputs(": ", out);
		put_text(out, text_of(rule, "why"));
		fputc('\n', out);
		print_by(out, json_object_get(rule, "by"));
		head(out, "exit");
		put_text(out, text_of(e, "exit"));
		fputc('\n', out);
	}
	json_array_foreach(json_object_get(e, "sets"), i, set)
	{
		head(out, i ? "" : "sets");
		fprintf(out, "%s of rule %lld `", text_of(set, "set"), (long long)int_of(set, "rule"));
		put_text(out, text_of(set, "name"));
		fprintf(out, "`, for %lld s more\n", (long long)int_of(set, "expires_s"));
	}
	if (text_of(e, "never")[0]) {
		head(out, "answers");
		fprintf(out, "with it put it into no set: %s\n", text_of(e, "never"));
	}
	if (blocked) {
		head(out, "filter");
		fputs("answers with it are blocked by ", out);
		print_rule(out, blocked);
		fputc('\n', out);
		print_by(out, json_object_get(blocked, "by"));
	}
	head(out, "names");
	fprintf(out, "%s\n", joined(json_object_get(e, "names"), ", ", "no cached answer has it"));
}

void print_explain(FILE *out, const json_t *e)
{
	bool is_address = text_of(e, "address")[0];
	put_text(out, is_address ? text_of(e, "address") : text_of(e, "name"));
	fprintf(out, "%s%s: ", is_address ? "" : " ", is_address ? "" : text_of(e, "type"));
	put_text(out, text_of(e, "outcome"));
	fputc('\n', out);
	print_client(out, e);
	if (is_address) {
		print_address(out, e);
	} else {
		print_filter(out, json_object_get(e, "filter"));
		print_steer(out, json_object_get(e, "steer"));
		print_cached(out, e);
		print_kernel(out, json_object_get(e, "addresses"));
	}
	print_lost(out, json_object_get(e, "lost"));
}

int cli_explain(struct cli *c, int argc, char **argv)
{
	const char *name = NULL, *type = NULL, *client = NULL;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--client") && i + 1 < argc)
			client = argv[++i];
		else if (!strncmp(argv[i], "--client=", 9))
			client = argv[i] + 9;
		else if (argv[i][0] == '-' && argv[i][1])
			return cli_usage(c, "explain has no option `%s`", argv[i]);
		else if (!name)
			name = argv[i];
		else if (!type)
			type = argv[i];
		else
			return cli_usage(c, "explain takes one name or address and one type");
	}
	if (!name)
		return cli_usage(c, "explain NAME|ADDRESS [TYPE] [--client IP|MAC|IFACE]");
	json_t *request = json_pack("{s:s, s:s}", "verb", "explain", "name", name);
	if (!request || (type && json_object_set_new(request, "type", json_string(type)) < 0) ||
	        (client && json_object_set_new(request, "client", json_string(client)) < 0)) {
		json_decref(request);
		return cli_usage(c, "names, types and clients are UTF-8 text");
	}
	if (client)
		client_look_up(request, client);
	return cli_show(c, request, print_explain);
}
