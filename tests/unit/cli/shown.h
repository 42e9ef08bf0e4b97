/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Runs the tool on a command line with the answers of a function, and keeps what it prints. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"

enum { SHOWN_ARGS_MAX = 16 };
struct shown {
	char *out, *err;
	size_t out_len, err_len;
	int code;
};

/* words: separated by single blanks. */
static inline struct shown show(int (*ask)(struct cli *c, json_t *request, json_t **ret), void *ctx, const char *words)
{
	struct shown s = {0};
	char *argv[SHOWN_ARGS_MAX + 1] = {(char *)"nameway"}, *copy = strdup(words), *rest = copy;
	int argc = 1;
	for (char *w; (w = strsep(&rest, " ")) && *w && argc < SHOWN_ARGS_MAX;)
		argv[argc++] = w;
	struct cli c = {
	        .out = open_memstream(&s.out, &s.out_len), .err = open_memstream(&s.err, &s.err_len), .ask = ask, .ask_ctx = ctx};
	s.code = cli_run(&c, argc, argv);
	fclose(c.out);
	fclose(c.err);
	free(copy);
	return s;
}

static inline void shown_free(struct shown *s)
{
	free(s->out);
	free(s->err);
}

static inline void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("`%s` is not in:\n%s", part, text);
}
