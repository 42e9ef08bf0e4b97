/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Prefixes of one list flattened into ranges.
 *
 * Prefixes are nested or disjoint, so sorted by first address, the wider first, they form a forest that is walked with a stack:
 * the innermost open prefix says whether the addresses up to the next border are in the list. Of equal prefixes the exempting one
 * stands. Addresses are numbers of 128 bits here, IPv4 in the low 32. Pure; any thread. */
#include "policy/prefixes.h"

#include <stdlib.h>
#include <string.h>

typedef unsigned __int128 number;

struct span {
	number first, last;
	bool is_exempt;
};
struct walk {
	struct range *out;
	unsigned count, depth;
	uint8_t family;
	const struct span *open[129];
	number at;      /* the first address not yet decided */
	bool is_at_end; /* `at` would be one past the last address */
};

static number number_of(const struct addr *a)
{
	number n = 0;

	for (int i = 0; i < (a->family == AF_INET ? 4 : 16); i++)
		n = n << 8 | a->b[i];
	return n;
}

static struct addr addr_of(number n, uint8_t family)
{
	struct addr a = {.family = family};

	for (int i = (family == AF_INET ? 4 : 16) - 1; i >= 0; i--, n >>= 8)
		a.b[i] = (uint8_t)n;
	return a;
}

static struct span span_of(const struct prefix_entry *e)
{
	unsigned bits = e->prefix.addr.family == AF_INET ? 32 : 128, host = e->prefix.len < bits ? bits - e->prefix.len : 0;
	number mask = host == 128 ? ~(number)0 : ((number)1 << host) - 1, n = number_of(&e->prefix.addr);

	return (struct span){.first = n & ~mask, .last = n | mask, .is_exempt = e->is_exempt};
}

static int span_order(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	if (x->first != y->first)
		return x->first < y->first ? -1 : 1;
	if (x->last != y->last)
		return x->last > y->last ? -1 : 1;
	return (int)y->is_exempt - (int)x->is_exempt;
}

/* Decides the addresses from w->at to `last` by the innermost open prefix. */
static void decide_to(struct walk *w, number last)
{
	const struct span *inner = w->depth ? w->open[w->depth - 1] : NULL;

	if (w->is_at_end || w->at > last)
		return;
	if (inner && !inner->is_exempt) {
		if (w->count && number_of(&w->out[w->count - 1].last) + 1 == w->at)
			w->out[w->count - 1].last = addr_of(last, w->family);
		else
			w->out[w->count++] = (struct range){addr_of(w->at, w->family), addr_of(last, w->family)};
	}
	w->at = last + 1;
	w->is_at_end = w->at == 0;
}

static void close_before(struct walk *w, const struct span *next)
{
	while (w->depth && (!next || w->open[w->depth - 1]->last < next->first)) {
		decide_to(w, w->open[w->depth - 1]->last);
		w->depth--;
	}
}

/* A prefix opens one range at most and lets its parent go on with one more behind it. */
static int flatten(struct range **ret, unsigned *ret_count, const struct prefix_entry *e, unsigned count, uint8_t family)
{
	struct span *spans = calloc(count ? count : 1, sizeof(*spans));
	struct walk w = {.family = family, .out = calloc(count * 2ul + 1, sizeof(*w.out))};
	unsigned n = 0;

	if (!spans || !w.out) {
		free(spans);
		free(w.out);
		return -1;
	}
	for (unsigned i = 0; i < count; i++)
		if (e[i].prefix.addr.family == family)
			spans[n++] = span_of(&e[i]);
	qsort(spans, n, sizeof(*spans), span_order);
	for (unsigned i = 0; i < n; i++) {
		if (i && spans[i].first == spans[i - 1].first && spans[i].last == spans[i - 1].last)
			continue;
		close_before(&w, &spans[i]);
		if (spans[i].first > 0)
			decide_to(&w, spans[i].first - 1);
		w.open[w.depth++] = &spans[i];
	}
	close_before(&w, NULL);
	free(spans);
	*ret = realloc(w.out, (w.count ? w.count : 1) * sizeof(*w.out));
	if (!*ret)
		*ret = w.out;
	*ret_count = w.count;
	return 0;
}

struct prefixes *prefixes_build(const struct prefix_entry *e, unsigned count)
{
	struct prefixes *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	if (flatten(&p->v4, &p->count4, e, count, AF_INET) < 0 || flatten(&p->v6, &p->count6, e, count, AF_INET6) < 0) {
		prefixes_free(p);
		return NULL;
	}
	return p;
}

void prefixes_free(struct prefixes *p)
{
	if (!p)
		return;
	free(p->v4);
	free(p->v6);
	free(p);
}

bool prefixes_contain(const struct prefixes *p, const struct addr *a)
{
	const struct range *r;
	unsigned low = 0, high, middle;

	if (!p || (a->family != AF_INET && a->family != AF_INET6))
		return false;
	r = a->family == AF_INET ? p->v4 : p->v6;
	high = a->family == AF_INET ? p->count4 : p->count6;
	while (low < high) {
		middle = low + (high - low) / 2;
		if (memcmp(a->b, r[middle].last.b, sizeof(a->b)) > 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < (a->family == AF_INET ? p->count4 : p->count6) && memcmp(a->b, r[low].first.b, sizeof(a->b)) >= 0;
}

static bool ranges_equal(const struct range *a, unsigned a_count, const struct range *b, unsigned b_count)
{
	if (a_count != b_count)
		return false;
	for (unsigned i = 0; i < a_count; i++)
		if (!addr_equal(&a[i].first, &b[i].first) || !addr_equal(&a[i].last, &b[i].last))
			return false;
	return true;
}

bool prefixes_equal(const struct prefixes *a, const struct prefixes *b)
{
	static const struct prefixes none;

	a = a ? a : &none;
	b = b ? b : &none;
	return ranges_equal(a->v4, a->count4, b->v4, b->count4) && ranges_equal(a->v6, a->count6, b->v6, b->count6);
}

static int range_order(const void *a, const void *b)
{
	number x = number_of(&((const struct range *)a)->first), y = number_of(&((const struct range *)b)->first);

	return x < y ? -1 : x > y;
}

/* Sorts and joins what overlaps or touches; returns how many are left. */
static unsigned join_ranges(struct range *v, unsigned count)
{
	unsigned kept = 0;

	qsort(v, count, sizeof(*v), range_order);
	for (unsigned i = 0; i < count; i++) {
		number last = kept ? number_of(&v[kept - 1].last) : 0;

		if (kept && (number_of(&v[i].first) <= last || number_of(&v[i].first) == last + 1)) {
			if (number_of(&v[i].last) > last)
				v[kept - 1].last = v[i].last;
		} else {
			v[kept++] = v[i];
		}
	}
	return kept;
}

struct prefixes *prefixes_union(const struct prefixes *const *v, unsigned count)
{
	struct prefixes *u = calloc(1, sizeof(*u));
	unsigned most4 = 0, most6 = 0;

	for (unsigned i = 0; i < count; i++) {
		most4 += v[i]->count4;
		most6 += v[i]->count6;
	}
	if (!u || !(u->v4 = calloc(most4 + 1ul, sizeof(*u->v4))) || !(u->v6 = calloc(most6 + 1ul, sizeof(*u->v6)))) {
		prefixes_free(u);
		return NULL;
	}
	for (unsigned i = 0; i < count; i++) {
		memcpy(u->v4 + u->count4, v[i]->v4, v[i]->count4 * sizeof(*u->v4));
		memcpy(u->v6 + u->count6, v[i]->v6, v[i]->count6 * sizeof(*u->v6));
		u->count4 += v[i]->count4;
		u->count6 += v[i]->count6;
	}
	u->count4 = join_ranges(u->v4, u->count4);
	u->count6 = join_ranges(u->v6, u->count6);
	return u;
}
