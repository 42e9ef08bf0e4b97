/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What was asked and what became of it: the query log and the busiest names, clients and blocked names (`log`, `top`).
 *
 * A worker writes fixed-size-headed records into a byte ring of its own (single producer, no system call, no lock, no allocation); one thread drains all
 * rings some times a second into the counting tables and, when the log is on, into files of `state`, which are bounded in size and age. What finds no
 * room is counted, never waited for. With the log off a worker records only as much as the tables need: at most QUERY_LOG_SAMPLE_S records a second, each
 * with the number of queries it stands for. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/addr.h"
#include "base/buf.h"
#include "wire/name.h"

enum query_outcome { OUTCOME_ANSWERED /* from upstream */, OUTCOME_CACHED, OUTCOME_STALE, OUTCOME_LOCAL, OUTCOME_BLOCKED, OUTCOME_REWRITTEN /* answer:, cname: */, OUTCOME_REFUSED,
	OUTCOME_FAILED /* SERVFAIL of ours or of upstream */, OUTCOME_DROPPED, OUTCOMES };
extern const char *const query_outcome_name[OUTCOMES];

struct query_record {
	uint64_t wall_ms;
	uint32_t took_us, weight; /* weight: queries it stands for */
	uint16_t qtype;
	uint8_t rcode, outcome;
	int16_t filter_rule, steer_rule; /* of the configuration `config_serial`, or -1 */
	uint32_t config_serial;
	struct addr client;
	const struct name *qname;
};

enum { QUERY_RING_BYTES = 1 << 20, QUERY_LOG_SAMPLE_S = 2000 };
struct query_ring; /* of one worker */
struct query_ring *query_ring_new(void); /* NULL: out of memory */
void query_ring_free(struct query_ring *r);
/* Worker. Whether the next record is wanted: with the log off, by the budget of this second. *ret_weight is for the record. */
bool query_ring_wants(struct query_ring *r, uint64_t now_ms, uint32_t *ret_weight);
void query_ring_put(struct query_ring *r, const struct query_record *q);

/* The draining side: one object, its thread, made by the server. dir_fd: the directory for files (not closed; -1: none are kept). */
struct query_log;
int query_log_new(struct query_log **ret, int dir_fd);
void query_log_free(struct query_log *l); /* ends the thread, writes what is left */
void query_log_attach(struct query_log *l, struct query_ring *r);
/* rule_name: names the filter and steer rules of a configuration, called on the log's thread (may return NULL: gone). */
struct query_log_settings { bool is_on; uint32_t keep_s; uint64_t bytes_max; void *ctx; const char *(*rule_name)(void *ctx, uint32_t config_serial, bool is_steer, int rule, char buf[128]); };
void query_log_configure(struct query_log *l, const struct query_log_settings *s);
/* Control thread. The newest records that match, oldest first, as JSON objects, a line each. Follow: give *cursor back to get what came since (0: start now). */
struct query_log_filter { const char *name /* part of it, or NULL */; const struct addr *client; int outcome /* -1 */; unsigned max; };
int query_log_print(struct query_log *l, const struct query_log_filter *f, uint64_t *cursor, struct buf *out);
int query_top_print(struct query_log *l, unsigned count, struct buf *out); /* JSON: names, clients, blocked, with counts, of the last hour and since start */
struct query_log_stat { uint64_t records, lost, bytes, files; bool is_failing; };
void query_log_stat(struct query_log *l, struct query_log_stat *ret);
