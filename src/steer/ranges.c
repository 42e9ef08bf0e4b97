/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "steer/ranges.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void range_list_free(struct range_list *l)
{
	free(l->v);
	*l = (struct range_list){ 0 };
}

int range_list_add(struct range_list *l, const struct addr *first, const struct addr *last)
{
	if (l->count == l->cap) {
		unsigned cap = l->cap ? l->cap * 2 : 64;
		struct range *v = realloc(l->v, cap * sizeof *v);
		if (!v)
			return -ENOMEM;
		l->v = v;
		l->cap = cap;
	}
	l->v[l->count++] = (struct range){ *first, *last };
	return 0;
}

static int compare(const struct addr *a, const struct addr *b)
{
	return memcmp(a->b, b->b, sizeof a->b);
}

bool addr_step(struct addr *a, bool is_up)
{
	struct addr to = *a;
	for (int i = a->family == AF_INET ? 3 : 15; i >= 0; i--) {
		to.b[i] = (uint8_t)(to.b[i] + (is_up ? 1 : -1));
		if (to.b[i] != (is_up ? 0 : 0xff)) {
			*a = to;
			return true;
		}
	}
	return false;
}

bool range_is_equal(const struct range *a, const struct range *b)
{
	return addr_equal(&a->first, &b->first) && addr_equal(&a->last, &b->last);
}

static int by_first(const void *a, const void *b)
{
	return compare(&((const struct range *)a)->first, &((const struct range *)b)->first);
}

unsigned ranges_order(struct range *v, unsigned count)
{
	unsigned good = 0, kept = 0;
	for (unsigned i = 0; i < count; i++)
		if (v[i].first.family == v[0].first.family && v[i].last.family == v[i].first.family && compare(&v[i].first, &v[i].last) <= 0)
			v[good++] = v[i];
	if (good > 1)
		qsort(v, good, sizeof *v, by_first);
	for (unsigned i = 0; i < good; i++) {
		struct addr after = kept ? v[kept - 1].last : v[i].first;
		bool is_last = kept && !addr_step(&after, true);
		if (!kept || (!is_last && compare(&v[i].first, &after) > 0))
			v[kept++] = v[i];
		else if (compare(&v[i].last, &v[kept - 1].last) > 0)
			v[kept - 1].last = v[i].last;
	}
	return kept;
}

int ranges_subtract(struct range_list *ret, const struct range *a, unsigned a_count, const struct range *b, unsigned b_count)
{
	unsigned k = 0;
	int r = 0;
	for (unsigned i = 0; r == 0 && i < a_count; i++) {
		struct addr at = a[i].first;
		bool is_left = true;
		while (k < b_count && compare(&b[k].last, &at) < 0)
			k++;
		/* One of b may reach into the next of a, so k stays there. */
		for (unsigned n = k; r == 0 && is_left && n < b_count && compare(&b[n].first, &a[i].last) <= 0; n++) {
			struct addr before = b[n].first;
			if (compare(&b[n].first, &at) > 0 && addr_step(&before, false))
				r = range_list_add(ret, &at, &before);
			at = b[n].last;
			is_left = addr_step(&at, true) && compare(&at, &a[i].last) <= 0;
		}
		if (r == 0 && is_left)
			r = range_list_add(ret, &at, &a[i].last);
	}
	return r;
}

bool ranges_have(const struct range *v, unsigned count, const struct addr *a)
{
	unsigned low = 0, high = count;
	if (!count || v[0].first.family != a->family)
		return false;
	while (low < high) {
		unsigned mid = low + (high - low) / 2;
		if (compare(&v[mid].last, a) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low < count && compare(&v[low].first, a) <= 0;
}
