/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A scripted upstream on 127.0.0.1, UDP and TCP on one port, in a thread of its own. What it does with a query is said by the
 * query's first label, up to a digit or hyphen:
 *   silent        nothing
 *   tc            truncated by UDP, ten addresses by TCP
 *   servfail, refused, nxdomain
 *   garbage       an answer whose record runs past its end
 *   forged        first from a strange port, with a wrong id, with a wrong question, all with 6.6.6.6; then the truth
 *   late          answers only the first query it got for the name, after 700 ms
 *   slow          after 700 ms, each time
 *   empty         no record and no SOA;  nodata: no record, but an SOA
 *   alias         nothing but a CNAME
 *   miscased      first 6.6.6.6 with one letter of the question in the other case, then the truth
 *   anything else one address, 10.0.0.N of server N
 * Its `mode` overrules the label. Letters' case in queries does not matter. Answers by UDP come `delay_ms` later. */
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
	FAKE_CLOSE_TCP /* closes the connection after each answer */,
	FAKE_EMPTY /* no record and no SOA */,
	FAKE_ALIAS /* nothing but a CNAME */,
	FAKE_LOWER /* the question in lower case, by UDP */,
	FAKE_NO_ROOT /* silent to queries for the root */,
	FAKE_SHUT /* nobody is at its UDP port; it comes back with another mode */
};

enum { FAKE_CONNECTIONS = 64, FAKE_LATE = 4096, FAKE_ONCE = 16 };
struct fake_server {
	unsigned number;
	uint16_t port;
	atomic_int mode, delay_ms;
	atomic_bool is_shut;
	atomic_uint udp_queries, tcp_queries, accepted, probes, edns_queries, ports,
	        uppers; /* probes: queries for the root; ports: distinct source ports; uppers: queries with an upper-case letter */
	int udp, strange, listener, stop[2];
	int connection[FAKE_CONNECTIONS];
	struct fake_late {
		uint64_t at_ms; /* 0: free */
		uint8_t bytes[600];
		int len;
		uint8_t to[32];
	} * late; /* FAKE_LATE */
	unsigned late_used;
	uint8_t once[FAKE_ONCE][256]; /* names of `late` that were asked */
	unsigned once_count;
	uint8_t port_seen[65536 / 8];
	pthread_t thread;
};

void fake_start(struct fake_server *f, unsigned number, bool with_tcp);
void fake_stop(struct fake_server *f);
