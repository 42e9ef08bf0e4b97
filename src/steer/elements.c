/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "steer/elements.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"

enum { CAP_FIRST = 4096, FILL_FIRST = 64 };

int elements_init(struct elements *t)
{
	*t = (struct elements){ .cap = CAP_FIRST, .seed = hash_seed() };
	t->v = calloc(t->cap, sizeof *t->v);
	t->fill_cap = FILL_FIRST;
	t->fill = calloc(t->fill_cap, sizeof *t->fill);
	return t->v && t->fill ? 0 : -ENOMEM;
}

void elements_free(struct elements *t)
{
	free(t->v);
	free(t->fill);
	t->v = NULL;
	t->fill = NULL;
}

/* --- counts by rule --- */

static struct element_fill *fill_place(const struct elements *t, uint32_t rule_id)
{
	for (uint32_t i = rule_id * 2654435761u;; i++) {
		struct element_fill *f = &t->fill[i & (t->fill_cap - 1)];
		if (!f->rule_id || f->rule_id == rule_id)
			return f;
	}
}

/* Rules whose last element went leave their place only here. */
static int fill_make_room(struct elements *t)
{
	struct elements bigger = { .fill_cap = t->fill_cap };
	uint32_t live = 0;
	for (uint32_t i = 0; i < t->fill_cap; i++)
		live += t->fill[i].v4 + t->fill[i].v6 > 0;
	while (bigger.fill_cap < (live + 1) * 4)
		bigger.fill_cap *= 2;
	bigger.fill = calloc(bigger.fill_cap, sizeof *bigger.fill);
	if (!bigger.fill)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->fill_cap; i++)
		if (t->fill[i].v4 + t->fill[i].v6 > 0)
			*fill_place(&bigger, t->fill[i].rule_id) = t->fill[i];
	free(t->fill);
	t->fill = bigger.fill;
	t->fill_cap = bigger.fill_cap;
	t->fill_used = live;
	return 0;
}

static struct element_fill *fill_of(struct elements *t, uint32_t rule_id)
{
	struct element_fill *f = fill_place(t, rule_id);
	if (f->rule_id)
		return f;
	if ((t->fill_used + 1) * 2 > t->fill_cap) {
		if (fill_make_room(t) < 0)
			return NULL;
		f = fill_place(t, rule_id);
	}
	f->rule_id = rule_id;
	t->fill_used++;
	return f;
}

static uint32_t *fill_count(struct element_fill *f, const struct addr *a)
{
	return a->family == AF_INET ? &f->v4 : &f->v6;
}

struct element_fill elements_fill(const struct elements *t, uint32_t rule_id)
{
	struct element_fill f = rule_id ? *fill_place(t, rule_id) : (struct element_fill){ 0 };
	f.rule_id = rule_id;
	return f;
}

/* --- elements --- */

static uint32_t home(const struct elements *t, uint32_t rule_id, const struct addr *a)
{
	return (uint32_t)hash_bytes(a, sizeof *a, t->seed ^ rule_id) & (t->cap - 1);
}

/* Where it is, or the empty place where it would be. */
static struct element *place_of(const struct elements *t, uint32_t rule_id, const struct addr *a)
{
	for (uint32_t i = home(t, rule_id, a);; i = (i + 1) & (t->cap - 1)) {
		struct element *e = &t->v[i];
		if (!e->rule_id || (e->rule_id == rule_id && addr_equal(&e->addr, a)))
			return e;
	}
}

struct element *elements_find(const struct elements *t, uint32_t rule_id, const struct addr *a)
{
	struct element *e = place_of(t, rule_id, a);
	return e->rule_id ? e : NULL;
}

static int grow(struct elements *t)
{
	struct elements bigger = *t;
	bigger.cap = t->cap * 2;
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
	free(t->v);
	*t = bigger;
	return 0;
}

struct element *elements_add(struct elements *t, uint32_t rule_id, const struct addr *a)
{
	struct element *e = place_of(t, rule_id, a);
	if (e->rule_id)
		return e;
	if (t->count >= ELEMENTS_MAX)
		return NULL;
	if (t->count * 4ull > t->cap * 3ull) {
		if (grow(t) < 0)
			return NULL;
		e = place_of(t, rule_id, a);
	}
	struct element_fill *f = fill_of(t, rule_id);
	if (!f)
		return NULL;
	++*fill_count(f, a);
	*e = (struct element){ .rule_id = rule_id, .addr = *a };
	t->count++;
	return e;
}

void elements_del(struct elements *t, struct element *e)
{
	uint32_t mask = t->cap - 1, hole = (uint32_t)(e - t->v);
	--*fill_count(fill_place(t, e->rule_id), &e->addr);
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
