/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The command line: nameway [-s SOCKET | -c CONFIG] [--json] VERB [ARGUMENT…]. */
#include "cli/cli.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "cli/import.h"
#include "cli/load.h"

enum { ARGUMENTS_MAX = 10100, SOCKET_PATH_MAX = 4096 };

static int run_load(struct cli *c, int argc, char **argv)
{
	(void)c;
	return cli_load(argc, argv);
}

static const struct cli_verb verbs[] = {
        {"status", "", "one screen: uptime, queries, cache, lists, ways, alarms", NULL, cli_status, false},
        {"explain", "NAME|ADDRESS [TYPE] [--client IP|MAC|IFACE]",
                "the decision and why: rule, list, line, losing rules, way, sets, kernel",
                "Without --client it is explained for any host of the first listening interface.\n", cli_explain, false},
        {"list", "[NAME] | reload NAME [--accept] | add|remove LIST NAME… | diff NAME FILE", "lists, and live edits of them",
                "list               every list: names, age, edits\n"
                "list NAME          one list: files, lines not understood, live edits, what is held back\n"
                "list reload NAME   reads its files again; --accept takes a text that is held back (shrunk too far, not "
                "understood)\n"
                "list add LIST x    live edits in list syntax: x, =x, !x, 192.0.2.0/24; kept in `state`, above the files\n"
                "list remove LIST x takes an edit or an entry of the files away; open connections to its addresses are dropped\n"
                "list diff LIST F   what the list would gain and lose if F were its text\n",
                cli_list, false},
        {"rules", "", "filter and steer rules with counters and the fill of their sets", NULL, cli_rules, false},
        {"ways", "", "the exits, as configured and as the kernel has them", NULL, cli_ways, false},
        {"way", "up|down NAME", "takes an exit out of service, and back", NULL, cli_way, false},
        {"test", "way NAME", "a leak test: state, packet rules, routes, counters of one exit; exit code 1 when something leaks",
                NULL, cli_test, false},
        {"filter", "[off DURATION [RULE] | on [RULE]]", "a pause of the filter, by rule (name or number) or of all",
                "filter                     what is paused, and for how long still\n"
                "filter off DURATION        every filter rule is passed over, 1s to 7d; it ends by itself\n"
                "filter off DURATION RULE   one rule is\n"
                "filter on                  ends every pause\n"
                "filter on RULE             ends one rule's\n"
                "A pause outlives a reload, not a restart.\n",
                cli_filter, false},
        {"cache", "stats | flush [NAME [--exact]]", "the cache; flush NAME takes it and everything under it, --exact the name alone", NULL, cli_cache,
                false},
        {"log", "[-n N] [--follow] [--name PART] [--client ADDRESS] [--blocked]", "the query log: who asked what, and what became of it",
                "-n N               the newest N that match (20, at most 10000), oldest first\n"
                "--follow           goes on with what comes\n"
                "--name PART        names with this part\n"
                "--client ADDRESS   of one client\n"
                "--blocked          what was blocked\n"
                "--json             an object a line\n"
                "It is kept while server.log.queries is true.\n",
                cli_log, false},
        {"top", "[N] [--watch]", "the busiest names, clients and blocked names of the last hour",
                "N         so many of each (10, at most 1000)\n"
                "--watch   again every two seconds, until Ctrl-C\n"
                "A count with ~ may be too high. --json has those since the start too.\n",
                cli_top, false},
        {"reload", "", "reads the configuration and everything it names again; returns the outcome", NULL, cli_reload, false},
        {"check", "FILE", "validates a configuration; exit code 2 when it has errors", NULL, cli_check, false},
        {"load", "latency|flood …", "the load generator; `nameway load --help`", NULL, run_load, true},
        {"lease", NULL, NULL, NULL, cli_later, true},
        {"kernel", NULL, NULL, NULL, cli_later, true},
        {"import", "dnsmasq FILE…", "prints a dnsmasq configuration as ours; names each line it could not carry over",
                "The DNS side: servers, domains, hosts, records, block lines, nft sets. Files that these name are read too. The result goes to\n"
                "standard output, what was left out to standard error with its place. A file of nothing but block lines is named as a list.\n"
                "--json   the configuration as a text, the counts, and what was left out, in one object\n",
                cli_import, false},
};

int cli_later(struct cli *c, int argc, char **argv)
{
	(void)argc;
	fprintf(c->err, "nameway: `%s` is not in this version\n", argv[0]);
	return EXIT_USAGE;
}

int cli_usage(struct cli *c, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fputs("nameway: ", c->err);
	vfprintf(c->err, fmt, ap);
	fputc('\n', c->err);
	va_end(ap);
	return EXIT_USAGE;
}

static void print_help(FILE *out)
{
	fputs("nameway [-s SOCKET | -c CONFIG] [--json] VERB …\n\n"
	      "  -s SOCKET   the control socket (default: " CLI_SOCKET ")\n"
	      "  -c CONFIG   the socket that this configuration names\n"
	      "  --json      the answer as it came\n\n",
	        out);
	for (unsigned i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (verbs[i].usage)
			fprintf(out, "  nameway %s%s%s\n              %s\n", verbs[i].name, verbs[i].usage[0] ? " " : "",
			        verbs[i].usage, verbs[i].does);
	fputs("\nExit codes: 0; 1 the server said no or cannot be reached; 2 a wrong command line or configuration. `nameway "
	      "VERB --help` says more.\n",
	        out);
}

static void print_verb_help(FILE *out, const struct cli_verb *v)
{
	fprintf(out, "nameway [-s SOCKET | -c CONFIG] [--json] %s%s%s\n\n%s.\n%s", v->name, v->usage[0] ? " " : "", v->usage,
	        v->does, v->help ? v->help : "");
}

static const struct cli_verb *find_verb(const char *name)
{
	for (unsigned i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (!strcmp(verbs[i].name, name))
			return &verbs[i];
	return NULL;
}

static int run_verb(struct cli *c, const struct cli_verb *v, int argc, char **argv)
{
	static char *args[ARGUMENTS_MAX + 1];
	int count = 0;
	bool wants_help = false, is_plain = v->is_raw;
	if (argc > ARGUMENTS_MAX)
		return cli_usage(c, "more than %d arguments", ARGUMENTS_MAX);
	for (int i = 0; i < argc; i++) {
		if (!is_plain && !strcmp(argv[i], "--json"))
			c->wants_json = true;
		else if (!is_plain && (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")))
			wants_help = true;
		else if (!is_plain && !strcmp(argv[i], "--"))
			is_plain = true;
		else
			args[count++] = argv[i];
	}
	args[count] = NULL;
	if (wants_help) {
		print_verb_help(c->out, v);
		return 0;
	}
	return v->run(c, count, args);
}

static bool is_option_with_value(const char *arg)
{
	return !strcmp(arg, "-s") || !strcmp(arg, "-c");
}

int cli_run(struct cli *c, int argc, char **argv)
{
	static char path[SOCKET_PATH_MAX];
	const char *config = NULL;
	int at = 1;
	if (!c->ask)
		c->ask = cli_ask;
	for (; at < argc && argv[at][0] == '-'; at++) {
		if (!strcmp(argv[at], "--help") || !strcmp(argv[at], "-h")) {
			print_help(c->out);
			return 0;
		}
		if (!strcmp(argv[at], "--version")) {
			fprintf(c->out, "nameway %s\n", NAMEWAY_VERSION);
			return 0;
		}
		if (!strcmp(argv[at], "--json")) {
			c->wants_json = true;
			continue;
		}
		if (!is_option_with_value(argv[at]))
			return cli_usage(c, "there is no option `%s`; see nameway --help", argv[at]);
		if (at + 1 == argc)
			return cli_usage(c, "`%s` needs a value", argv[at]);
		if (c->socket || config)
			return cli_usage(c, "give one of -s and -c, once");
		*(argv[at][1] == 's' ? &c->socket : &config) = argv[at + 1];
		at++;
	}
	if (at == argc) {
		print_help(c->err);
		return EXIT_USAGE;
	}
	const struct cli_verb *v = find_verb(argv[at]);
	if (!v)
		return cli_usage(c, "there is no verb `%s`; see nameway --help", argv[at]);
	int r = config ? cli_config_socket(c, config, path, sizeof(path)) : 0;
	if (r)
		return r;
	if (!c->socket)
		c->socket = config ? path : CLI_SOCKET;
	return run_verb(c, v, argc - at, argv + at);
}
