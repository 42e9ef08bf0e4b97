/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The control protocol and its verbs. A client connects to the control socket, writes one line of JSON {"verb": "...",
 * ...arguments}, reads one line {"ok": true, "result": ...} or {"ok": false, "error": "what and the mend"}, and the connection
 * ends. The parent accepts and reads the line; `reload` and `way` it does itself, everything else runs here, on the server's
 * control thread, over snapshots and counters: never on a packet's path.
 *
 * Verbs here and their arguments (docs/internals/control.md has every result):
 *   status | rules | ways | test-way {name} | cache-stats | cache-flush {name?, exact?} |
 *   explain {name, type?, client?, client_address?, client_interface?, client_mac?} |
 *   filter | filter-off {duration_s, rule?} | filter-on {rule?} | log {count?, name?, client?, outcome?, cursor?} | top {count?} |
 *   list {name?} | list-reload {name, accept?} | list-add/list-remove {name, entries[]} | list-diff {name, text, path?} */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include "control/pauses.h"
#include "dns/worker.h"
#include "policy/lists.h"
#include "stat/alarms.h"
#include "stat/query_log.h"
#include "steer/proto.h"

enum { CONTROL_REQUEST_MAX = 1 << 20, CONTROL_CLIENTS_MAX = 32, CONTROL_WAIT_MS = 30000 };

struct control_env {
	void *ctx;
	struct lists *lists;
	struct cache *cache;
	struct holds *holds;
	struct alarms *alarms;
	struct query_log *queries; /* NULL: it could not be made */
	struct pauses *pauses;
	const struct steer_shared *steer;
	struct worker **workers;
	unsigned worker_count;
	uint64_t started_ms;
	uint64_t name_seed; /* of the hashes of whole names in the cache's keys: worker_shared.name_seed */
	/* The snapshot in force, held until snapshot_give: it is not freed under a verb. */
	const struct snapshot *(*snapshot_take)(void *ctx);
	void (*snapshot_give)(void *ctx, const struct snapshot *s);
	/* The enforcer's answer to a read-only question, or NULL (not reachable). addr only for STEER_Q_ADDRESS. Waits at most a
	 * second. */
	json_t *(*ask_enforcer)(void *ctx, enum steer_query_what what, const struct addr *addr);
	/* Runs fn on the compiler thread and waits. */
	int (*on_compiler)(void *ctx, int (*fn)(void *arg), void *arg);
	/* Has the parent bring a list's files and offers them (accept: although held); waits for the outcome, said in r. */
	int (*list_reload)(void *ctx, const char *list, bool accept, struct report *r);
	const struct links *(*links)(void *ctx); /* inside an rcu read section */
	const struct local *(*local)(void *ctx); /* likewise */
	const struct filter_pause *pause;
};

/* *ret: the result (new reference) or, on error, a string for people. may_change: the peer is root or the server's own user. 0
 * or a negative error. The caller is a registered, online RCU thread that holds no RCU pointer; it is taken offline while a verb
 * waits. One thread. */
int control_run(const struct control_env *env, const json_t *request, bool may_change, json_t **ret);
/* The line to send back, malloc'ed, with its newline; takes the reference. NULL: out of memory. */
char *control_reply(int r, json_t *result_or_text);
/* Verbs that change something, also those the parent does. */
bool control_verb_changes(const char *verb);
