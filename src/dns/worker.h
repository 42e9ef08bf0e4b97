/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A worker: one thread, its sockets, TCP sessions, queries, upstream sockets and its channel to the enforcer. Everything it shares is read without locks:
 * cache, holds, index, the enforcer's page. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "cache/cache.h"
#include "dns/snapshot.h"
#include "local/local.h"
#include "net/loop.h"
#include "resolve/upstream.h"
#include "stat/query_log.h"
#include "steer/holds.h"
#include "steer/proto.h"

enum { WORKER_QUERIES_MAX = 16384 /* parked at once; above, SERVFAIL */, WORKER_BATCHES = 64 /* unacknowledged messages to the enforcer */,
	BARRIER_MS = 50, BARRIER_REBUILD_MS = 250, UDP_ANSWER_MAX = 1232 };

enum worker_counter { C_QUERIES, C_UDP, C_TCP, C_MALFORMED, C_REFUSED, C_LOCAL, C_BLOCKED, C_HITS, C_MISSES, C_STEERED, C_BARRIERS, C_BARRIER_FAILED, C_BARRIER_LATE,
	C_WAY_DOWN, C_SERVFAIL, C_FULL, C_UNSAFE, C_STALE, C_PREFETCHES, C_REBINDS, C_COUNT };
extern const char *const worker_counter_name[C_COUNT];

struct worker_shared {
	struct cache *cache;
	struct holds *holds;
	const struct steer_shared *steer;
	_Atomic(const struct links *) links;
	_Atomic(const struct local *) local; /* NULL before the first configuration */
	/* Way-bound sockets for a group's server, brought by the parent; -EAGAIN: none now, asked for. Any worker thread. */
	int (*take_socket)(void *ctx, const struct config *c, unsigned group, unsigned server, bool is_tcp);
	void *take_ctx;
	struct filter_pause *pause;     /* rules that `filter off` passes over */
	uint64_t name_seed;             /* of the hashes of whole names in cache and holds: the index's may change when it is rebuilt */
};

struct worker;
int worker_new(struct worker **ret, const struct worker_shared *shared, unsigned number, int steer_fd);
int worker_start(struct worker *w);
void worker_stop_listening(struct worker *w); /* takes no more queries; what is in flight goes on */
void worker_stop(struct worker *w); /* drains: answers what is in flight for at most a second since it stopped listening, then joins the thread */
void worker_free(struct worker *w);
/* From the main thread; each returns when the worker has done it (bounded by a turn). */
void worker_switch(struct worker *w, const struct snapshot *s);
/* Takes fd, also when it fails. */
int worker_add_socket(struct worker *w, int fd, bool is_tcp, uint32_t ifindex, uint32_t key);
void worker_remove_socket(struct worker *w, uint32_t key);
uint64_t worker_counter(const struct worker *w, enum worker_counter c);
/* Per filter and steer rule of the snapshot in use: how often it decided. Reset by a switch that changes the rules. */
uint64_t worker_filter_hits(const struct worker *w, unsigned rule);
uint64_t worker_steer_hits(const struct worker *w, unsigned rule);
uint64_t worker_list_hits(const struct worker *w, unsigned list); /* the same by list of the configuration: how often it decided a filter or steer rule */
struct query_ring *worker_ring(struct worker *w); /* what it recorded; for the query log. As long as the worker */
unsigned worker_upstreams(struct worker *w, struct upstream_stat *ret, unsigned max); /* runs in the worker; main thread waits */
