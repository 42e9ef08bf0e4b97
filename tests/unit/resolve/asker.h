/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A resolver with scripted upstreams on the loopback, and askers. A machine that stalls for a tenth of a second makes the
 * resolver try again or elsewhere, rightly; what such a retry would change is checked only as long as no attempt timed out. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fake_server.h"
#include "resolve/upstream.h"

enum { SERVERS = 6, GROUPS = 3, STALE_MAX = 80 };

/* One asker and what it got. */
struct ask {
	struct upstream_wait wait;
	bool is_done;
	unsigned slow_count; /* how often it was told that it takes long */
	uint64_t asked_us, slow_us, done_us;
	enum upstream_result result;
	uint8_t rcode;
	uint8_t chain_len;
	bool is_lower; /* the question in the answer */
	unsigned addr_count;
	struct addr addr;
};
extern struct loop *loop;
extern struct resolver *resolver;
extern struct fake_server fake[SERVERS];
extern struct cfg_upstream upstreams[GROUPS];
extern struct cfg_way ways[1];
extern struct endpoint endpoints[GROUPS][SERVERS];
extern struct config config;
extern unsigned waiting; /* askers without an answer */
/* The environment of a way: no socket at first, then those that cannot reach anything, then one that does each time. */
extern unsigned refusals, taken_udp, taken_tcp, stale_count;
extern int stale[STALE_MAX], last_taken; /* the latest one's descriptor, which is the resolver's */

/* Group 0 has the first two servers, group 1 only the second, group 2, which is not configured at first, all. */
int setup_with(bool with_tcp);
int setup(void **state);
int setup_without_tcp(void **state);
int teardown(void **state);

void ask_variant(struct ask *k, unsigned group, const char *text, bool want_do, bool want_cd);
void ask(struct ask *k, unsigned group, const char *text);
void run(void); /* until all that was asked is done */
void run_until(bool (*wanted)(void));
void run_for(unsigned ms);
void warm_up(unsigned group); /* the round trip of the server that answers is known afterwards */
struct ask ask_once(const char *text);

bool is_from(const struct ask *k, unsigned number);
bool is_duly_from(const struct ask *k, unsigned number); /* from another one only if an attempt timed out */
struct upstream_stat stat_of(unsigned server);
uint64_t timeouts_so_far(void);
bool first_is_healthy(void);
uint64_t took_us(const struct ask *k);
/* Every group again, as upstreams[] has them, `count` of them. */
void configure(unsigned count);

#define assert_calm_equal(a, b)                                                                                                  \
	do {                                                                                                                     \
		if (!timeouts_so_far())                                                                                          \
			assert_int_equal(a, b);                                                                                  \
	} while (0)
