/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A server as the verbs see it, in memory: a configuration from text, lists, index, policy, cache, alarms, and an enforcer whose
 * answers the test says. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "control/control.h"

struct world {
	struct control_env env;
	struct snapshot snap;
	bool is_starting;            /* no snapshot yet */
	unsigned taken;              /* snapshots not given back */
	unsigned taken_at_compile;   /* … when the compiler was last asked */
	const char *state, *address; /* the enforcer's answers, JSON text; NULL: it does not answer */
	int reload_result;
	const char *reload_said;
	char reloaded[64];
	bool accepted;
	struct steer_shared shared;
	struct links links;
	struct prefix attached;
	char dir[64]; /* of the query log */
	int dir_fd;
	struct query_ring *ring;
};

extern const char world_config[];
void world_begin(struct world *w);
void world_end(struct world *w);
void world_cache(struct world *w, const char *name, const char *target /* 10.0.0.1 */);
/* A query that a worker recorded; filter_rule, or -1. */
void world_asked(struct world *w, const char *name, const char *client, enum query_outcome outcome, int filter_rule);
/* Runs a request in JSON; the result or error text. */
json_t *world_ask(struct world *w, bool may_change, int *ret, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Asks what must succeed. */
json_t *world_get(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Asks what must fail; returns a part of the text that must be in it. */
void world_refuses(struct world *w, const char *part, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* "a.b.0.c" into a result. */
const json_t *at(const json_t *j, const char *path);
const char *text_at(const json_t *j, const char *path);
void assert_says(const json_t *j, const char *path, const char *part);
