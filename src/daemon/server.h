/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The server process: parses packets, answers, holds lists, cache and holds. No privilege is left when it runs: user `nameway`, no capability, seccomp,
 * landlock. Its descriptors: DNS sockets, upstream sockets, the channel to the parent, the channels to the enforcer (elements and questions only), the
 * `state` directory. */
#pragma once
#include "steer/enforcer.h"

struct server_args {
	int parent_fd;
	int channel[ENFORCER_CHANNELS_MAX];
	unsigned channel_count;    /* workers + 1 */
	int shared_fd;             /* the enforcer's page, read-only here */
	int state_fd;              /* or -1: memory only */
	uint64_t cache_bytes;
};
int server_main(const struct server_args *args);
