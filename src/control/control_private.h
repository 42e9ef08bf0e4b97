/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the verbs share. One verb, one function `int verb_x(env, request, ret)` with the outcome of control_run. A verb may take
 * the snapshot, but gives it back before it waits for the compiler: a configuration change waits for those who look. */
#pragma once
#include "control/control.h"

enum { CONTROL_PLACES_MAX = 64, CONTROL_PLACES_BYTES_MAX = 256 << 20 /* of lists parsed for an `explain` */, CONTROL_NAMES_SHOWN = 20, CONTROL_ADDRESSES_SHOWN = 16, CONTROL_ENTRIES_MAX = 10000 };

/* control.c. Sets *ret to the text and returns r. */
int control_fail(json_t **ret, int r, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* A string that may hold bytes that are no UTF-8: those become '?'. */
json_t *control_text(const char *text);
json_t *control_textf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A required string of the request: NULL with *ret set when it is missing. */
const char *control_argument(const json_t *request, const char *key, json_t **ret);
json_t *control_place(const struct place *p); /* "file:line:column" */
/* The enforcer's answer; the thread is offline while it waits. NULL: none. */
json_t *control_ask(const struct control_env *env, enum steer_query_what what, const struct addr *a);
int control_compile(const struct control_env *env, int (*fn)(void *arg), void *arg);
/* The snapshot or NULL with *ret set: nothing is served yet. */
const struct snapshot *control_snapshot(const struct control_env *env, json_t **ret);
/* The list's number in a configuration, or -ENOENT with *ret naming those there are. */
int control_list(const struct config *c, const char *name, json_t **ret);

/* rules.c: what stands in a configuration. Numbers in `rule` begin at 1, as in the file. */
json_t *rule_json_filter(const struct config *c, unsigned rule);
json_t *rule_json_steer(const struct config *c, unsigned rule);
const char *block_text(enum block_kind kind);
/* The way's state by the enforcer's page: "up", "down, …". */
json_t *way_state_text(const struct control_env *env, const struct snapshot *s, int way);
bool way_bit(const struct control_env *env, const struct snapshot *s, int way,
        char which /* 'd' down and closed, 'o' down with a fallback, '6' no IPv6 */);
/* A counter by rule or list, over all workers. */
uint64_t worker_sum(const struct control_env *env, unsigned number, uint64_t (*of)(const struct worker *w, unsigned number));
int way_exit(const struct control_env *env, const struct snapshot *s, int way); /* after fallbacks; -1: the main table */

/* filter.c: {"all": null or {left_s, until}, "rules": [{rule, name, left_s, until}]}; how long a rule is passed over, by its own pause or that of all. */
json_t *filter_json(const struct control_env *env, const struct config *c);
uint32_t filter_left_s(const struct control_env *env, const struct config *c, unsigned rule);
/* queries.c: {on, records, lost, bytes, files, failing}, or null. */
json_t *queries_json(const struct control_env *env);

int verb_status(const struct control_env *env, const json_t *request, json_t **ret);
int verb_cache_stats(const struct control_env *env, const json_t *request, json_t **ret);
int verb_cache_flush(const struct control_env *env, const json_t *request, json_t **ret);
int verb_list(const struct control_env *env, const json_t *request, json_t **ret);
int verb_list_reload(const struct control_env *env, const json_t *request, json_t **ret);
int verb_list_add(const struct control_env *env, const json_t *request, json_t **ret);
int verb_list_remove(const struct control_env *env, const json_t *request, json_t **ret);
int verb_list_diff(const struct control_env *env, const json_t *request, json_t **ret);
int verb_rules(const struct control_env *env, const json_t *request, json_t **ret);
int verb_ways(const struct control_env *env, const json_t *request, json_t **ret);
int verb_test_way(const struct control_env *env, const json_t *request, json_t **ret);
int verb_filter(const struct control_env *env, const json_t *request, json_t **ret);
int verb_filter_off(const struct control_env *env, const json_t *request, json_t **ret);
int verb_filter_on(const struct control_env *env, const json_t *request, json_t **ret);
int verb_log(const struct control_env *env, const json_t *request, json_t **ret);
int verb_top(const struct control_env *env, const json_t *request, json_t **ret);
int verb_explain(const struct control_env *env, const json_t *request, json_t **ret);
