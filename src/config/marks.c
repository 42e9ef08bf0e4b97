/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What ways get by comparison with each other: a mark, a routing table number, a fallback.
 *
 * Marks: the values inside the mask in ascending order (the nonzero subsets of its bits); given ones are taken first, then
 * every way without one gets the lowest left, in file order. Table numbers must not change when ways are added, removed or
 * moved, since routes and rules of the last run stand under them: 20000 plus the hash of the way's name modulo 10000; of two
 * names that meet, the later in alphabetical order takes the next free number. */
#include <string.h>
#include "base/hash.h"
#include "config/load.h"

enum { TABLE_FIRST = 20000, TABLE_COUNT = 10000 };

static bool mark_is_taken(const struct config *c, uint32_t mark)
{
	for (unsigned i = 0; i < c->way_count; i++)
		if (c->ways[i].mark == mark)
			return true;
	return false;
}

static void marks_assign(struct load *l)
{
	struct config *c = l->c;
	uint32_t mask = c->server.mark_mask, mark = 0;
	for (unsigned i = 0; i < c->way_count; i++) {
		if (c->ways[i].mark)
			continue;
		do
			mark = (mark - mask) & mask; /* the next subset of the mask's bits, ascending; 0 after the last */
		while (mark && mark_is_taken(c, mark));
		if (!mark) {
			report_add(l->r, true, &c->ways[i].place,
			        "no mark is left for way `%s`: `server.mark-mask` 0x%x holds %llu values for %u ways; widen it",
			        c->ways[i].name, mask, (1ULL << __builtin_popcount(mask)) - 1, c->way_count);
			return;
		}
		c->ways[i].mark = mark;
	}
}

/* What no rule moves has a mark as well, since only unmarked packets of clients are stopped. */
static void main_mark_assign(struct load *l)
{
	struct config *c = l->c;
	int direct = names_find(c, &names_ways, "direct");
	uint32_t mask = c->server.mark_mask, mark = 0;
	if (direct >= 0) {
		c->main_mark = c->ways[direct].mark;
		return;
	}
	do
		mark = (mark - mask) & mask;
	while (mark && mark_is_taken(c, mark));
	c->main_mark = mark; /* 0: none is left, an error if anything is steered (main_mark_check) */
}

void main_mark_check(struct load *l)
{
	const struct config *c = l->c;
	if (c->way_count && c->steer_count && !c->main_mark)
		report_add(l->r, true, &c->ways[0].place,
		        "no mark is left for traffic that no rule moves: `server.mark-mask` 0x%x is used up by %u ways; widen it, or add a way `direct`",
		        c->server.mark_mask, c->way_count);
}

static bool table_is_taken(const struct config *c, uint32_t table)
{
	for (unsigned i = 0; i < c->way_count; i++)
		if (c->ways[i].table_id == table)
			return true;
	return false;
}

/* The way without a number whose name comes first, or NULL. */
static struct cfg_way *next_by_name(struct config *c)
{
	struct cfg_way *first = NULL;
	for (struct cfg_way *w = c->ways; w < c->ways + c->way_count; w++)
		if (*w->interface && !w->table_id && (!first || strcmp(w->name, first->name) < 0))
			first = w;
	return first;
}

void ways_number(struct load *l)
{
	struct cfg_way *w;
	marks_assign(l);
	main_mark_assign(l);
	for (w = l->c->ways; w < l->c->ways + l->c->way_count; w++)
		w->down_text = arena_printf(l->c->arena, "way %.64s is down", w->name);
	while ((w = next_by_name(l->c))) {
		uint32_t offset = (uint32_t)(hash_bytes(w->name, strlen(w->name), 0) % TABLE_COUNT);
		while (table_is_taken(l->c, TABLE_FIRST + offset))
			offset = (offset + 1) % TABLE_COUNT;
		w->table_id = TABLE_FIRST + offset;
	}
}

static int default_fallback(const struct config *c)
{
	int direct = names_find(c, &names_ways, "direct");
	if (direct >= 0)
		return direct;
	for (unsigned i = 0; i < c->way_count; i++)
		if (!*c->ways[i].interface && !c->ways[i].set4_count && !c->ways[i].set6_count)
			return (int)i;
	return -1;
}

static void cycles_report(struct load *l)
{
	const struct config *c = l->c;
	for (unsigned start = 0; start < c->way_count; start++) {
		unsigned steps = 0;
		int at = c->ways[start].fallback;
		while (at >= 0 && at != (int)start && steps++ < c->way_count)
			at = c->ways[at].fallback;
		if (at != (int)start)
			continue;
		const struct cfg_way *w = &c->ways[start];
		report_add(l->r, true, &w->place,
		        "way `%s` falls back to `%s`, which leads back to it; end the chain with a way without interface",
		        w->name, c->ways[w->fallback].name);
		return;
	}
}

void ways_fallbacks(struct load *l, const struct node *ways)
{
	struct config *c = l->c;
	int by_default = default_fallback(c);
	struct cfg_way *w = c->ways;
	for (const struct node *n = ways->first; n; n = n->next, w++) {
		const struct node *fallback = node_child(n, "fallback");
		if (!*w->interface)
			continue;
		w->fallback = by_default == (int)(w - c->ways) ? -1 : by_default;
		if (!fallback)
			continue;
		w->fallback = names_resolve(l, &names_ways, fallback);
		if (w->kill_switch)
			report_add(l->r, false, &fallback->key_place,
			        "`fallback` has no effect on way `%s`: its kill-switch stops the traffic; take one of them out",
			        w->name);
	}
	cycles_report(l);
}
