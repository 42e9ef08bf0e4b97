/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One query's life. query_begin takes packets to their answers in one go when nothing has to be waited for (blocked, local, cached and covered);
 * else the ask is moved into a slab entry and goes on in a completion: the upstream's (answer_upstream) or the enforcer's (barrier). */
#pragma once
#include "dns/worker_private.h"

/* Up to BEGIN_TOGETHER queries, in w->begun: who asks and where the answer goes stands there already. Messages live for the call. */
struct query_msg { const uint8_t *bytes; size_t len; };
void query_begin(struct worker *w, const struct query_msg *msgs, unsigned n);
void query_barrier_done(struct worker *w, struct query *q); /* every address was acknowledged, or q->has_failed */
void query_late(struct deadline *d);                         /* the barrier took too long */
