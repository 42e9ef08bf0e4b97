/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One run of the load generator: options in, figures out. One thread sends and receives.
 *
 * Closed loop (latency): in_flight queries are out at any time; a query's latency counts from when it is sent. Open loop (flood):
 * query i is intended at i / rate, and its latency counts from then, so whatever kept the generator, its window or its
 * connections from sending in time is in the figures too. */
#pragma once
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/addr.h"
#include "cli/load_histogram.h"
#include "cli/load_names.h"

enum {
	LOAD_SOURCES_MAX = 64,
	LOAD_CONNECTIONS_MAX = 256,
	LOAD_PIPELINE_MAX = 1024,
	LOAD_IN_FLIGHT_MAX = 65536,
	LOAD_RCODES = 16
};
/* A query sent this much after its intended time is a late send. */
enum { LOAD_LATE_NS = 100000 };

struct load_options {
	bool is_flood;
	struct endpoint server;
	uint64_t rate;        /* flood: queries a second */
	uint64_t count;       /* queries in all; latency: 0 is no limit but the duration */
	uint64_t duration_ns; /* no query is sent after it */
	uint64_t timeout_ns;
	uint64_t seed;
	unsigned in_flight; /* latency: queries out at a time; flood: at most so many, 0 is no limit */
	unsigned tcp_percent;
	unsigned sources; /* UDP sockets */
	unsigned connections, pipeline,
	        reuse; /* TCP: how many, queries out on each, queries after which one is renewed (0: never) */
	unsigned edns; /* UDP size to offer, 0: no OPT */
};

struct load_second {
	uint32_t offered, answered, lost; /* of the queries intended in this second */
	uint64_t max_ns;
};

struct load_result {
	uint64_t offered; /* answered + lost + unsent, when the run was not interrupted */
	uint64_t sent, answered;
	uint64_t lost;      /* sent, but not answered within the timeout or before the connection closed */
	uint64_t unsent;    /* due, but never sent: the generator was too slow, or had no connection or id left */
	uint64_t closed;    /* part of lost: the server closed the connection */
	uint64_t refused;   /* "connection refused" seen on sockets */
	uint64_t stray;     /* packets that answer no query that is out */
	uint64_t own_drops; /* answers that the kernel dropped because this generator was too slow to take them */
	uint64_t truncated;
	uint64_t tcp_sent, connects;
	uint64_t late_sends, late_worst_ns;
	uint64_t rcode[LOAD_RCODES];
	uint64_t elapsed_ns;
	struct histogram latency;
	unsigned seconds;
	struct load_second *second; /* heap; load_result_free */
};

/* Runs to the end or until *is_stopped. 0 or an error (no socket, no memory); *ret must be all zero before. */
int load_run(const struct load_options *o, struct names *names, const volatile sig_atomic_t *is_stopped, struct load_result *ret);
void load_result_free(struct load_result *r);
