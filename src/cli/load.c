/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `nameway load`: help, the run, its report. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/err.h"
#include "cli/load.h"
#include "cli/load_options.h"
#include "cli/load_report.h"

static const char help[] =
        "usage: nameway load latency|flood [OPTION]…\n"
        "\n"
        "latency  closed loop: a new query is sent when one is answered or has timed out\n"
        "flood    open loop: queries are sent at a fixed rate, whatever comes back; latency counts from the time at\n"
        "         which a query was to be sent, so a generator that is late shows it\n"
        "\n"
        "  --server ADDR@PORT   whom to ask (127.0.0.1@53)\n"
        "  --duration TIME      no query is sent after it (10s; at most 1h)\n"
        "  --count N            stop after N queries\n"
        "  --timeout TIME       an answer that comes later is lost (2s; at most 60s)\n"
        "  --in-flight N        latency: queries out at a time (1)\n"
        "  --rate N             flood: queries a second (1000; at most 2000000)\n"
        "  --window N           flood: never more than N out; what that delays is late (no limit)\n"
        "  --name PATTERN       what to ask, <N> being N random letters and <#> a counter (www.<10>.lan);\n"
        "                       \"PATTERN TYPE\" has its own type, PATTERN:WEIGHT its weight in a mix\n"
        "  --names FILE         names to ask, a line each: NAME or NAME TYPE; also FILE:WEIGHT\n"
        "  --mix FILE:WEIGHT,…  several --names at once; --name, --names and --mix may be repeated\n"
        "  --ordered            names of files in their order; else drawn at random\n"
        "  --type TYPE          for names without one (A)\n"
        "  --edns SIZE          add an OPT record that offers this UDP size\n"
        "  --sources N          UDP sockets (flood 8, latency 1; at most 64)\n"
        "  --tcp                ask by TCP; --tcp-share P: P percent of the queries\n"
        "  --connections N      TCP connections (4; at most 256)\n"
        "  --pipeline N         queries out on one connection (16; at most 1024)\n"
        "  --reuse N            queries after which a connection is renewed (0: never)\n"
        "  --seed N             the same seed asks the same names in the same order\n"
        "  --json               the figures as JSON\n"
        "\n"
        "Exit code: 0 when something was answered, 1 when nothing was, 2 for a bad command line.\n";

static volatile sig_atomic_t is_stopped;

/* The first interrupt ends the sending and the figures are shown; a second one ends the program. */
static void on_signal(int signal_number)
{
	is_stopped = 1;
}

static int run(struct load_command *c)
{
	struct load_result *result = calloc(1, sizeof(*result));
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESETHAND};
	int r, code = 1;

	if (!result) {
		fprintf(stderr, "nameway load: out of memory\n");
		return 1;
	}
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	r = load_run(&c->options, c->names, &is_stopped, result);
	if (r < 0)
		fprintf(stderr, "nameway load: cannot ask %s: %s\n", c->server, nw_strerror(r));
	else if (!c->is_json)
		load_report_text(c, result);
	else if (load_report_json(c, result) < 0)
		fprintf(stderr, "nameway load: the figures could not be written\n");
	if (r >= 0 && result->answered)
		code = 0;
	load_result_free(result);
	free(result);
	return code;
}

int cli_load(int argc, char **argv)
{
	struct load_command command;
	int code = 2;

	if (argc >= 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		fputs(help, stdout);
		return 0;
	}
	if (argc >= 2 && !strcmp(argv[1], "dhcp")) {
		fputs("nameway load: dhcp is not in this version\n", stderr);
		return 2;
	}
	if (argc < 2 || (strcmp(argv[1], "latency") && strcmp(argv[1], "flood"))) {
		fputs("nameway load: say latency or flood; `nameway load --help` tells more\n", stderr);
		return 2;
	}
	if (load_command_parse(&command, argc - 1, argv + 1) >= 0)
		code = command.is_help ? (fputs(help, stdout), 0) : run(&command);
	load_command_free(&command);
	return code;
}
