/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Values below 128 have a bucket each. Above, a value with its top bit at e is shifted right by e - 7; what is left, 128..255,
 * picks the bucket in the block of that shift. */
#include "cli/load_histogram.h"

static unsigned bucket_of(uint64_t ns)
{
	unsigned shift;

	if (ns >> HISTOGRAM_TOP_BITS)
		return HISTOGRAM_BUCKETS - 1;
	if (ns < HISTOGRAM_STEPS)
		return (unsigned)ns;
	shift = 63 - (unsigned)__builtin_clzll(ns) - HISTOGRAM_STEP_BITS;
	return shift * HISTOGRAM_STEPS + (unsigned)(ns >> shift);
}

/* The highest value that falls into a bucket. */
static uint64_t bucket_end(unsigned bucket)
{
	unsigned shift = bucket < 2 * HISTOGRAM_STEPS ? 0 : bucket / HISTOGRAM_STEPS - 1;
	uint64_t step = bucket - shift * HISTOGRAM_STEPS;

	return ((step + 1) << shift) - 1;
}

void histogram_add(struct histogram *h, uint64_t ns)
{
	if (!h->count || ns < h->min_ns)
		h->min_ns = ns;
	if (ns > h->max_ns)
		h->max_ns = ns;
	h->count++;
	h->sum_ns += ns;
	h->bucket[bucket_of(ns)]++;
}

uint64_t histogram_quantile(const struct histogram *h, double quantile)
{
	double want = quantile * (double)h->count;
	uint64_t rank = (uint64_t)want, seen = 0;

	if (!h->count)
		return 0;
	if ((double)rank < want || !rank)
		rank++;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen += h->bucket[i];
		if (seen >= rank)
			return i + 1 == HISTOGRAM_BUCKETS || bucket_end(i) > h->max_ns ? h->max_ns : bucket_end(i);
	}
	return h->max_ns;
}

uint64_t histogram_over(const struct histogram *h, uint64_t ns)
{
	uint64_t count = 0;

	for (unsigned i = bucket_of(ns) + 1; i < HISTOGRAM_BUCKETS; i++)
		count += h->bucket[i];
	return count;
}
