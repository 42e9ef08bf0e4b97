/* SPDX-License-Identifier: GPL-3.0-or-later */
/* When the queries of an open loop are due: query i at i / rate after the start, whatever happened to those before. All in whole
 * nanoseconds; the two functions agree exactly, so no query is sent before its time or skipped by rounding. */
#pragma once
#include <stdint.h>

/* With these limits every product below fits in 64 bits. */
enum { PACE_RATE_MAX = 2000000, PACE_SECONDS_MAX = 3600 };

struct pace {
	uint64_t rate;  /* queries a second, 1..PACE_RATE_MAX */
	uint64_t count; /* queries in all, at most rate * PACE_SECONDS_MAX */
};

static inline uint64_t pace_intended_ns(const struct pace *p, uint64_t i)
{
	return i * 1000000000 / p->rate;
}

/* How many queries are due `elapsed_ns` after the start: all i with pace_intended_ns(i) <= elapsed_ns. */
static inline uint64_t pace_due(const struct pace *p, uint64_t elapsed_ns)
{
	const uint64_t most_ns = (uint64_t)PACE_SECONDS_MAX * 1000000000;
	uint64_t due;

	if (elapsed_ns > most_ns)
		elapsed_ns = most_ns;
	due = ((elapsed_ns + 1) * p->rate + 999999999) / 1000000000;
	return due < p->count ? due : p->count;
}
