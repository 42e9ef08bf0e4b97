/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The enforcer: the one process with CAP_NET_ADMIN. It keeps `inet nameway`, ip rules, routes and conntrack as the parent's configuration says,
 * puts the server's addresses into sets and acknowledges, watches the kernel and mends it. It parses no packet and no list. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { ENFORCER_CHANNELS_MAX = 65, /* a worker each and the server's main thread (the last) */
	ENFORCER_RATE = 100000,    /* new elements a second and channel; above, STEER_FAILED */
	ENFORCER_BURST = 200000, ENFORCER_LIFE_MAX_S = 7 * 86400 };

struct enforcer_args {
	int parent_fd;                     /* SOCK_SEQPACKET to the parent */
	int channel[ENFORCER_CHANNELS_MAX]; unsigned channel_count;
	int shared_fd;                     /* memfd of struct steer_shared, writable here only */
	int state_fd;                      /* directory `state`/enforcer or -1 */
	bool is_restart;                   /* the parent had an enforcer before: the server must send its holds again */
};
int enforcer_main(const struct enforcer_args *args); /* returns an exit code when the parent goes or says STOP */

struct config;
struct report;
/* --guard: only the closing rules. --clear: every trace goes. Each in the calling process. What went wrong stands in *r. */
int enforcer_guard(const struct config *c, struct report *r);
int enforcer_clear(const struct config *c, int state_fd, struct report *r);
