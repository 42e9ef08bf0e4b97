/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Inside the enforcer: its one struct, one thread. enforcer.c turns the loop and obeys the parent; enforcer_requests.c serves the server;
 * enforcer_report.c tells what stands. */
#pragma once
#include "config/config.h"
#include "policy/prefixes.h"
#include "stat/alarms.h"
#include "steer/elements.h"
#include "steer/enforcer.h"
#include "steer/nft.h"
#include "steer/proto.h"
#include "steer/ranges.h"
#include "steer/ways.h"

/* The listed ranges of one rule, family and side, kept to rebuild the table. */
struct kept_ranges {
	uint32_t rule_id;
	uint8_t family, which;
	unsigned count, cap;
	struct range *r;
};
enum { KEPT_RANGES_MAX = 4 * CONFIG_RULES_MAX, KEPT_RANGES_ALL = 2000000 };

struct moved_view; /* enforcer_moved.h */
struct bucket { double tokens; uint64_t at_ms; };

struct policy_config {
	struct config *config; /* NULL: none */
	uint32_t serial;
	uint16_t hijack_port;
	struct nft_foreign *foreign; /* per way: sets4 then sets6, probed */
	unsigned *foreign_at;        /* per way: where its sets begin in foreign[] */
	unsigned foreign_count;
	struct foreign_held { struct range_list list; bool is_known; } *held; /* as foreign: the listed ranges that stand in them */
};

struct enforcer {
	struct enforcer_args args;
	struct steer_shared *shared;
	struct nft *nft;
	struct ways *ways;
	struct alarms *alarms;
	struct policy_config now, next;
	struct config *ways_config, *retired; /* what ways refers to; and one it may still refer to, though no longer now or next */
	struct elements elements;
	struct kept_ranges ranges[KEPT_RANGES_MAX];
	unsigned range_count;
	struct kept_ranges coming; /* parts of one, until the last came */
	struct bucket rate[ENFORCER_CHANNELS_MAX];
	uint64_t now_ms, sweep_at_ms, foreign_at_ms, ways_at_ms, rebuild_at_ms;
	uint64_t counters_refused, counters_put, counters_rebuilds;
	bool is_committed; /* packet rules of `now` stand in the kernel */
	bool is_rebuild_due, is_foreign_due, has_put_alarm, has_routes_alarm, has_overflow_alarm;
	struct moved_view *before; /* a change: what decided when it was prepared; kept until the connections that it moves are dropped */
	bool is_change_committed;  /* and they are due, at moved_at_ms at the latest */
	uint64_t moved_at_ms;
	bool is_stopping;
};

/* A rule by its id in the configuration in force or the prepared one. */
const struct cfg_steer *enforcer_rule(const struct enforcer *e, uint32_t rule_id, const struct policy_config **ret_in);
void enforcer_serve_prefixes(struct enforcer *e, int fd, const struct steer_prefixes *in);
void enforcer_serve(struct enforcer *e, const bool *is_ready); /* what waits on the server's channels; those that are ready */
void enforcer_read_events(struct enforcer *e);           /* what others did to nf_tables: notes what is due */
int enforcer_rebuild(struct enforcer *e);                /* the table from the mirror, in one transaction */
void enforcer_probe_foreign(struct enforcer *e, struct policy_config *pc);
void enforcer_refill_foreign(struct enforcer *e);        /* administrators' sets that came (back) get what they should hold */
int enforcer_put_foreign(struct enforcer *e, const struct policy_config *pc, const struct cfg_steer *rule, const struct nft_element *v, size_t count);
unsigned enforcer_delete_foreign(struct enforcer *e, const struct policy_config *pc, const struct cfg_steer *rule, const struct addr *a, bool is_expired); /* returns how many transactions */
void enforcer_ranges_foreign(struct enforcer *e, uint32_t rule_id); /* the listed ranges of a rule changed */
void enforcer_forsake_foreign(struct enforcer *e, const struct policy_config *old); /* sets that no way names any more: our ranges leave them */
void enforcer_clear_foreign(struct nft *n, const struct config *c);  /* our ranges leave all of them */
void enforcer_sweep(struct enforcer *e);                 /* expired elements */
void enforcer_publish_ways(struct enforcer *e);          /* way bitmaps to the shared page */
/* enforcer_flows.c: dropping connections may take long, so it is done by a thread of its own. reply (a steer_ack, a
 * steer_parent_reply or NULL) is sent to fd after it and all before it. */
void enforcer_drop_flows(const struct addr *a, unsigned count, uint32_t mask, int fd, const void *reply, size_t len);
void enforcer_drop_mark(uint32_t mark, uint32_t mask);
void enforcer_drop_moved(struct moved_view *before, struct moved_view *after, int fd, const void *reply, size_t len); /* takes both views */
void enforcer_drop_all(const struct config *c); /* what is marked at all */
uint32_t enforcer_direct_mark(const struct config *c);
json_t *enforcer_state_json(struct enforcer *e);
json_t *enforcer_address_json(struct enforcer *e, const struct addr *a);
