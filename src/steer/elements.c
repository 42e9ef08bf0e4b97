/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "steer/elements.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"

enum { CAP_FIRST = 4096 };

int elements_init(struct elements *t)
{
	*t = (struct elements){ .cap = CAP_FIRST, .seed = hash_seed() };
	t->v = calloc(t->cap, sizeof *t->v);
	return t->v ? 0 : -ENOMEM;
}

void elements_free(struct elements *t)
{
	free(t->v);
	t->v = NULL;
}

static uint32_t home(const struct elements *t, uint32_t rule_id, const struct addr *a)
{
	return (uint32_t)hash_bytes(a, sizeof *a, t->seed ^ rule_id) & (t->cap - 1);
}

struct element *elements_find(const struct elements *t, uint32_t rule_id, const struct addr *a)
{
	for (uint32_t i = home(t, rule_id, a);; i = (i + 1) & (t->cap - 1)) {
		struct element *e = &t->v[i];
		if (!e->rule_id)
			return NULL;
		if (e->rule_id == rule_id && addr_equal(&e->addr, a))
			return e;
	}
}

static int grow(struct elements *t)
{
	struct elements bigger = { .cap = t->cap * 2, .seed = t->seed };
	if (bigger.cap > 2u * ELEMENTS_MAX)
		return -ENOSPC;
	bigger.v = calloc(bigger.cap, sizeof *bigger.v);
	if (!bigger.v)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->cap; i++) {
		if (!t->v[i].rule_id)
			continue;
		uint32_t at = home(&bigger, t->v[i].rule_id, &t->v[i].addr);
		while (bigger.v[at].rule_id)
			at = (at + 1) & (bigger.cap - 1);
		bigger.v[at] = t->v[i];
	}
	bigger.count = t->count;
	free(t->v);
	*t = bigger;
	return 0;
}

struct element *elements_add(struct elements *t, uint32_t rule_id, const struct addr *a)
{
	struct element *e = elements_find(t, rule_id, a);
	if (e)
		return e;
	if (t->count >= ELEMENTS_MAX || (t->count * 4ull > t->cap * 3ull && grow(t) < 0))
		return NULL;
	uint32_t i = home(t, rule_id, a);
	while (t->v[i].rule_id)
		i = (i + 1) & (t->cap - 1);
	t->v[i] = (struct element){ .rule_id = rule_id, .addr = *a };
	t->count++;
	return &t->v[i];
}

void elements_del(struct elements *t, struct element *e)
{
	uint32_t mask = t->cap - 1, hole = (uint32_t)(e - t->v);
	for (uint32_t i = (hole + 1) & mask; t->v[i].rule_id; i = (i + 1) & mask) {
		uint32_t want = home(t, t->v[i].rule_id, &t->v[i].addr);
		if (((i - want) & mask) >= ((i - hole) & mask)) {
			t->v[hole] = t->v[i];
			hole = i;
		}
	}
	t->v[hole].rule_id = 0;
	t->count--;
}

void elements_walk(struct elements *t, bool (*cb)(void *ctx, struct element *e), void *ctx)
{
	for (uint32_t i = 0; i < t->cap; i++)
		while (t->v[i].rule_id && cb(ctx, &t->v[i]))
			elements_del(t, &t->v[i]);
}
