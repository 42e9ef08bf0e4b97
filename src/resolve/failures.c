/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Questions that failed, and are not asked again for a while (RFC 9520 3.2): UPSTREAM_FAILURE_MIN_MS, doubled with each time they
 * fail again, at most UPSTREAM_FAILURE_MAX_MS.
 *
 * A fixed table of sets of FAILURE_WAYS places. A failure is known by the keyed 64-bit hash of its question alone, which holds
 * the group's number for its failures: a new number forgets them all at once. In a full set the one that ends first makes room.
 * A failure whose time is over is remembered until twice that time has passed, for the doubling. */
#include "resolve/flight.h"

static uint64_t key_of(const struct group *g, uint64_t hash)
{
	return hash ^ g->failures * 0x9e3779b97f4a7c15;
}

static struct failure *set_of(struct resolver *r, uint64_t key)
{
	return r->failure[key % FAILURE_SETS];
}

/* How long it still holds: negative when that is over. */
static int32_t left_ms(const struct resolver *r, const struct failure *f)
{
	return (int32_t)(f->until_ms - (uint32_t)loop_now_ms(r->loop));
}

/* The clock's low bits come round again after weeks: what seems to hold for longer than it may is of another round. */
static bool is_remembered(const struct resolver *r, const struct failure *f)
{
	int32_t left = left_ms(r, f);

	return f->for_ms && left <= (int32_t)f->for_ms && left > -(int32_t)f->for_ms;
}

static struct failure *find(struct resolver *r, uint64_t key)
{
	struct failure *set = set_of(r, key);

	for (unsigned i = 0; i < FAILURE_WAYS; i++)
		if (set[i].hash == key && is_remembered(r, &set[i]))
			return &set[i];
	return NULL;
}

enum failure_state failure_find(struct resolver *r, const struct group *g, uint64_t hash)
{
	const struct failure *f = find(r, key_of(g, hash));

	if (!f)
		return FAILURE_NONE;
	return left_ms(r, f) > 0 ? FAILURE_HOLDS : FAILURE_OVER;
}

void failure_add(struct resolver *r, const struct group *g, uint64_t hash)
{
	uint64_t key = key_of(g, hash);
	struct failure *f = find(r, key), *set = set_of(r, key);
	uint32_t for_ms = UPSTREAM_FAILURE_MIN_MS;

	if (f)
		for_ms = f->for_ms < UPSTREAM_FAILURE_MAX_MS / 2 ? 2 * f->for_ms : UPSTREAM_FAILURE_MAX_MS;
	for (unsigned i = 0; i < FAILURE_WAYS && !f; i++)
		if (!is_remembered(r, &set[i]))
			f = &set[i];
	if (!f) {
		f = set;
		for (unsigned i = 1; i < FAILURE_WAYS; i++)
			if (left_ms(r, &set[i]) < left_ms(r, f))
				f = &set[i];
	}
	*f = (struct failure){.hash = key, .until_ms = (uint32_t)loop_now_ms(r->loop) + for_ms, .for_ms = for_ms};
}

void failure_remove(struct resolver *r, const struct group *g, uint64_t hash)
{
	struct failure *f = find(r, key_of(g, hash));

	if (f)
		f->for_ms = 0;
}

void failures_forget(struct group *g)
{
	g->failures = ++g->resolver->failures_given;
}
