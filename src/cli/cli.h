/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The user's tool. cli.c: options and verbs; ask.c: the control socket; table.c: how things are shown; client.c: what this
 * machine knows of a client; then a file per verb group (status, explain, lists, rules, change, load). A verb asks the server
 * one question and shows the answer, or with --json prints it as it came. Exit codes: 0; 1 the server said no or cannot be
 * reached; 2 a wrong command line or configuration. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

enum { EXIT_NO = 1, EXIT_USAGE = 2 };
#define CLI_SOCKET "/run/nameway/control.sock"

struct cli {
	const char *socket;
	bool wants_json;
	FILE *out, *err;
	/* Asks the server; takes `request`. 0 with *ret, or an exit code after saying on err what is wrong and the mend.
	 * Replaced in tests. */
	int (*ask)(struct cli *c, json_t *request, json_t **ret);
	void *ask_ctx;
};

struct cli_verb {
	const char *name, *usage, *does;
	const char *help;                                 /* whole lines, or NULL */
	int (*run)(struct cli *c, int argc, char **argv); /* argv[0] is the verb; --json and --help were taken out */
	bool is_raw;                                      /* its options are its own */
};

/* The tool with the given streams; `ask` NULL: the control socket. Returns the exit code. */
int cli_run(struct cli *c, int argc, char **argv);
int cli_ask(struct cli *c, json_t *request, json_t **ret);
int cli_usage(struct cli *c, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* says it; EXIT_USAGE */
/* Asks and shows: with --json as it came, else by print. Takes request. */
int cli_show(struct cli *c, json_t *request, void (*print)(FILE *out, const json_t *result));
int cli_config_socket(struct cli *c, const char *path, char *ret, size_t size);

int cli_status(struct cli *c, int argc, char **argv);
int cli_explain(struct cli *c, int argc, char **argv);
int cli_list(struct cli *c, int argc, char **argv);
int cli_rules(struct cli *c, int argc, char **argv);
int cli_ways(struct cli *c, int argc, char **argv);
int cli_way(struct cli *c, int argc, char **argv);
int cli_test(struct cli *c, int argc, char **argv);
int cli_filter(struct cli *c, int argc, char **argv);
int cli_log(struct cli *c, int argc, char **argv);
int cli_top(struct cli *c, int argc, char **argv);
int cli_cache(struct cli *c, int argc, char **argv);
int cli_reload(struct cli *c, int argc, char **argv);
int cli_check(struct cli *c, int argc, char **argv);
int cli_later(struct cli *c, int argc, char **argv);

/* Adds what this machine knows of a client (neighbour table, its own addresses) to an explain request. */
void client_look_up(json_t *request, const char *client);

/* Renderers, for canned answers in tests. */
void print_status(FILE *out, const json_t *s);
void print_explain(FILE *out, const json_t *e);
void print_lists(FILE *out, const json_t *l);
void print_list(FILE *out, const json_t *l);
void print_diff(FILE *out, const json_t *d);
void print_rules(FILE *out, const json_t *r);
void print_ways(FILE *out, const json_t *w);
void print_test(FILE *out, const json_t *t);
void print_cache(FILE *out, const json_t *c);
void print_pauses(FILE *out, const json_t *f);
void print_pause_lines(FILE *out, const json_t *f, const char *prefix); /* only what is paused */
void print_log(FILE *out, const json_t *answer);
void print_top(FILE *out, const json_t *top);
void print_said(FILE *out, const json_t *j);
