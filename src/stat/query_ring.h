/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The other end of a worker's ring of query records (query_log.h has the worker's): for the one thread that drains it. */
#pragma once
#include "stat/query_log.h"

/* A record in the ring. `name` (wire form) lives as long as the callback. */
struct query_seen {
	uint64_t wall_ms;
	uint32_t took_us, weight, config_serial;
	uint16_t qtype;
	int16_t filter_rule, steer_rule;
	uint8_t rcode, outcome, name_len;
	struct addr client;
	const uint8_t *name;
};

/* Hands over what is there now and frees its room record by record. Returns the bytes that were. */
size_t query_ring_drain(struct query_ring *r, void (*cb)(void *ctx, const struct query_seen *q), void *ctx);
uint64_t query_ring_lost(const struct query_ring *r); /* any thread */
void query_ring_take_all(struct query_ring *r, bool takes_all); /* any thread: the log is on */
