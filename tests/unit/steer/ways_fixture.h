/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A network namespace per test, two more for the far side and a client, shell commands in all, and a configuration made by
 * hand: clients on `lan`, ways over `wg1` (mark 0x1000, table 101) and `wg2` (mark 0x2000, table 102), `direct` (mark
 * 0x3000). */
#pragma once
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/types.h>
#include "steer/ways.h"

struct world {
	struct ways *w;
	struct config c;
	struct cfg_way ways[4];
	struct cfg_steer steers[2];
	struct cfg_group groups[2];
	struct cfg_listen listen[2];
	char lan[1][IFNAME_MAX];
	struct prefix network;
	uint16_t group_ids[2];
	pid_t far, client; /* sleeping processes in the other namespaces: behind wg1, wg2 and wan; behind lan */
};
enum { WAY_ONE, WAY_TWO, WAY_DIRECT, WORLD_WAYS };

void world_config(struct world *x); /* writes the configuration anew */
int world_new(void **state);        /* interfaces lan, wg1, wg2, wan with addresses, default through wan; ways opened */
int world_free(void **state);
int world_permitted(void);          /* 0 when namespaces are not permitted */

int run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));        /* exit status of a shell command, output hidden */
void must(const char *fmt, ...) __attribute__((format(printf, 1, 2)));      /* fails the test unless 0 */
char *text_of(const char *fmt, ...) __attribute__((format(printf, 1, 2)));  /* its output, both streams; a static buffer */
#define IN "nsenter -t %d -n " /* the process id is the argument */

/* Turns until the predicate holds: true. False after ten seconds. The time it took is left in *took_ms when not NULL. */
bool turn_until(struct world *x, bool (*holds)(struct world *x), uint64_t *took_ms);
void apply(struct world *x); /* ways_configure and ways_apply, which must succeed */
/* Where a packet of the client 10.1.0.2 to 9.9.9.9 (or its IPv6 twin) with this mark goes: the interface's name, or "" when
 * it is stopped. */
const char *exit_of(unsigned mark, const char *iif, int family);
