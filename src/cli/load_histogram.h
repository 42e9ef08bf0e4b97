/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Latencies in nanoseconds, counted log-linearly as HdrHistogram does: 128 steps for each power of two, so a reported quantile is
 * at most 0.8 % too high and never too low. Values of 2^38 ns (275 s) and more go into the last step; min and max stay exact. */
#pragma once
#include <stdint.h>

enum {
	HISTOGRAM_STEP_BITS = 7,
	HISTOGRAM_STEPS = 1 << HISTOGRAM_STEP_BITS,
	HISTOGRAM_TOP_BITS = 38,
	HISTOGRAM_BUCKETS = (HISTOGRAM_TOP_BITS - HISTOGRAM_STEP_BITS + 1) * HISTOGRAM_STEPS
};

/* All zero is an empty one. */
struct histogram {
	uint64_t count, min_ns, max_ns, sum_ns;
	uint64_t bucket[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *h, uint64_t ns);
/* The least value that a share `quantile` (0..1) of all values does not exceed; 0 when there are none. */
uint64_t histogram_quantile(const struct histogram *h, double quantile);
/* How many were longer than ns; those within 0.8 % above it may be left out. */
uint64_t histogram_over(const struct histogram *h, uint64_t ns);
