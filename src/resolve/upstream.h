/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Asking upstreams: a worker's resolver. Which servers of a group are asked, and how many at once, says its strategy; healthy ones first. UDP from a
 * pool of connected random-port sockets (UPSTREAM_POOL a server, opened as needed, each renewed after UPSTREAM_SOCKET_USES queries or a timeout; up to
 * twice as many while old ones wait for answers), TCP when an answer is truncated; equal questions in flight are asked once. What is asked of a server in
 * one turn of the loop leaves together, at most UPSTREAM_SEND_BATCH from one socket, drawn anew each time. Entropy against off-path forgers: 16-bit id +
 * random port out of ~28,000 (14.8 bits), > 30 bits. One thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "config/config.h"
#include "net/loop.h"
#include "wire/msg.h"

enum { UPSTREAM_POOL = 256, UPSTREAM_SOCKET_USES = 256, UPSTREAM_SEND_BATCH = 64, UPSTREAM_INFLIGHT_MAX = 8192 /* a group without a bound of its own: above, SERVFAIL at once */,
	UPSTREAM_TRIES = 4, UPSTREAM_ALL_MAX = 4 /* servers asked at once by the strategy `all` */, UPSTREAM_TOTAL_MS = 4500, UPSTREAM_EDNS = 1232 };
/* A question that failed is not asked again for so long, doubled with each time it fails again (RFC 9520). So many are remembered by a worker. */
enum { UPSTREAM_FAILURE_MIN_MS = 1000, UPSTREAM_FAILURE_MAX_MS = 30000, UPSTREAM_FAILURES_MAX = 4096 };

struct resolver;
/* Sockets of groups that belong to a way are opened, marked and bound to its interface by the parent. take: -EAGAIN when none is at hand (asked for meanwhile). */
struct resolver_env { void *ctx; int (*take_socket)(void *ctx, unsigned group, unsigned server, bool is_tcp); /* a descriptor, not connected; ours from then on */ };

enum upstream_result { UPSTREAM_OK /* msg is a response that matches, any rcode */, UPSTREAM_TIMEOUT, UPSTREAM_UNREACHABLE, UPSTREAM_BUSY /* bound reached */, UPSTREAM_BAD /* only malformed answers */, UPSTREAM_GONE /* configuration changed */,
	UPSTREAM_FAILED /* it failed moments ago, and is not asked again yet (RFC 9520) */, UPSTREAM_NONE /* the group has no server */ };
struct upstream_answer { enum upstream_result result; const uint8_t *msg; size_t len; /* valid during the completion */ const struct wire_answer *walked; /* of msg, when OK */ };
/* Embedded in the asker's query; owned by the resolver between ask and completion. */
/* slow (may be NULL): called once, before done, when it will take long: the first attempt had no answer in time, or no server of the group is known to
 * work. Never inside upstream_ask. Whoever has a stale answer gives it then. */
struct upstream_wait { struct upstream_wait *next, **prev; void (*done)(struct upstream_wait *w, const struct upstream_answer *a); void (*slow)(struct upstream_wait *w); bool is_slow; };

int resolver_new(struct resolver **ret, struct loop *l, const struct resolver_env *env);
void resolver_free(struct resolver *r); /* takes NULL; what is in flight completes with UPSTREAM_GONE; ask nothing from there */
/* Takes over a configuration's groups (kept by equal name, servers and way, with their health). Questions in flight to groups that vanish complete with
 * UPSTREAM_GONE inside the call. c is not referred to afterwards. 0 or -ENOMEM (the old groups stay). Not from a completion. */
int resolver_configure(struct resolver *r, const struct config *c);
/* A way (its number in the configuration) went down: what is in flight to its groups completes with UPSTREAM_UNREACHABLE a turn later, and what is asked
 * of them likewise. It came back: they start anew, with fresh sockets and nothing known about their servers. Nothing when that is known already. Not from
 * a completion. */
void resolver_way_changed(struct resolver *r, unsigned way, bool is_down);
/* Never completes inside the call. */
void upstream_ask(struct resolver *r, unsigned group, const struct name *qname, uint16_t qtype, uint16_t qclass, bool want_do, bool want_cd, struct upstream_wait *w);
void upstream_cancel(struct upstream_wait *w); /* done will not be called; fine after it was. A question that nobody waits for is not tried again. */
/* The last three are the group's, the same for each of its servers. */
struct upstream_stat { const char *group; struct endpoint server;
	bool is_healthy, is_suspected /* silent for a moment: asked nothing until it answers, unless there is no other; not healthy */; uint32_t srtt_us, in_flight;
	uint64_t sent, answered, timeouts, tcp, errors /* answers that fit no query or do not parse, errors of sockets */, wrong_case /* answers that did not repeat the random letters */;
	uint32_t questions /* in flight */; uint64_t refused /* questions, as the bound was reached */, failure_hits /* not asked, as they failed moments ago or all servers are known dead */; };
unsigned resolver_stat(const struct resolver *r, struct upstream_stat *ret, unsigned max);
