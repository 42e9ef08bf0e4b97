/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A scripted upstream on 127.0.0.1, UDP and TCP on one port, in a thread of its own. What it does with a query is said by the
 * query's first label, up to a digit or hyphen:
 *   silent        nothing
 *   tc            truncated by UDP, ten addresses by TCP
 *   servfail, refused, nxdomain
 *   garbage       an answer whose record runs past its end
 *   forged        first from a strange port, with a wrong id, with a wrong question, all with 6.6.6.6; then the truth
 *   late          answers only the first query it got for the name, after 700 ms
 *   anything else one address, 10.0.0.N of server N
 * Its `mode` overrules the label. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum fake_mode {
	FAKE_NORMAL,
	FAKE_SILENT,
	FAKE_SERVFAIL,
	FAKE_NO_EDNS /* FORMERR when there is an OPT */,
	FAKE_NO_EDNS_BARE /* the same, only a header */,
	FAKE_CLOSE_TCP /* closes the connection after each answer */
};

enum { FAKE_CONNECTIONS = 64, FAKE_LATE = 16 };
struct fake_server {
	unsigned number;
	uint16_t port;
	atomic_int mode;
	atomic_uint udp_queries, tcp_queries, accepted, probes, edns_queries,
	        ports; /* probes: queries for the root; ports: distinct source ports */
	int udp, strange, listener, stop[2];
	int connection[FAKE_CONNECTIONS];
	struct fake_late {
		uint64_t at_ms;
		uint8_t bytes[600];
		int len;
		uint8_t to[32];
	} late[FAKE_LATE];
	unsigned late_count;
	uint8_t port_seen[65536 / 8];
	pthread_t thread;
};

void fake_start(struct fake_server *f, unsigned number, bool with_tcp);
void fake_stop(struct fake_server *f);
