/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The steps of a query's life, one file each: query.c (begin, local, filter and steer of the question), ask.c (cache, upstream, stale answers, refreshing),
 * alias.c (names that stand for others by our own word), judge.c (filter and steer of an answer, the barrier). One thread, the worker's. */
#pragma once
#include "dns/query.h"

/* judge.c */
/* The answer is at hand: judge every name of its chain and every address, steer, answer. q: the parked entry this came from or NULL; consumed. */
void judge_view(struct worker *w, const struct ask *a, struct query *q, const struct view *v);
int view_cached(struct worker *w, const struct cache_answer *c, const struct name *qname, struct view *ret); /* names go to w->chain_names */
void view_walked(struct worker *w, const uint8_t *msg, const struct wire_answer *walk, struct view *ret);
bool refuse_way(struct worker *w, const struct ask *a, const struct steer_result *s); /* true: answered */
/* What filter says of a target before it is asked for; true: answered. */
bool block_target(struct worker *w, const struct ask *a, const struct name *const *names, unsigned count);
/* Counts the rule and answers what it says; false: nothing stands against the name. */
bool block(struct worker *w, const struct ask *a, const struct verdict *v);
struct way_view { bool is_down, is_off, has_no6; };
struct way_view look_at_way(struct worker *w, int way);

bool steers_own(struct worker *w, const struct ask *a, const struct view *v); /* an own answer's addresses: true: parked or answered */

/* ask.c */
int choose_group(struct worker *w, const struct name *qname, int way); /* upstream index or -1 */
struct cache_key cache_key_of(const struct worker *w, const struct ask *a, const struct name *qname, uint16_t group_id);
struct cache_key cache_key_begun(const struct begun *b, uint16_t group_id);
/* From the cache or from upstream. What the question alone says of filter and steer has been looked at: w->judged[0], w->steered. */
void ask_group(struct worker *w, const struct begun *b, int group);
/* Parks the query, asks for `qname`. NULL: it was answered, too many are parked. */
struct query *ask_park(struct worker *w, const struct ask *a, int group, enum query_stage stage);
void ask_upstream(struct worker *w, struct query *q, const struct name *qname);
bool find_group(const struct worker *w, struct query *q); /* where the configuration of now has the group that was asked */
bool classify_again(struct worker *w, struct query *q); /* false: who asks can no longer be told */

/* alias.c */
void alias_begin(struct worker *w, const struct ask *a, const struct name *target, uint32_t ttl_s); /* qname is an alias of target */
void alias_local(struct worker *w, const struct ask *a, const struct local_answer *l);              /* a local chain that leads elsewhere */
void alias_answered(struct worker *w, struct query *q, const struct upstream_answer *ans);          /* consumes q */
