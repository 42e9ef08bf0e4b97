/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Listed ranges in an administrator's own set. Ours carry the comment "nameway", so that what is ours is known from the kernel alone, also after a
 * restart; what carries another or none belongs to somebody else and stays as it is. What others hold already is left out of ours, since an interval set
 * takes no overlaps. The set is read, compared, and the difference sent in one transaction. One thread. */
#include "steer/nft_internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "steer/ranges.h"

enum { TRIES = 4, EXPANDED_MAX = 64 /* addresses of one range that goes into a set without intervals */ };
/* A set's own default would end an element that gives no timeout. */
#define LONG_LIFE_MS (10ull * 365 * 86400 * 1000)

/* Type (comment), length, text with its NUL. */
static const uint8_t comment[] = { 0, 8, 'n', 'a', 'm', 'e', 'w', 'a', 'y', 0 };

struct key { struct addr addr; bool is_end, is_ours; };
struct reading { const struct nft_foreign *f; struct key *v; size_t count, cap; bool is_failed; };
struct sync {
	struct nft *n;
	const struct cfg_set *s;
	const struct nft_foreign *f;
	struct range_list ours, others, replaced, target, wanted;
};

static void take_key(void *ctx, const struct nft_elem *x)
{
	struct reading *r = ctx;
	const size_t before = r->count;

	if (x->key_len != (r->f->is_v6 ? 16u : 4u) || r->is_failed)
		return;
	r->v = nft_grow(r->v, &r->count, &r->cap, sizeof(*r->v));
	if (r->count == before) {
		r->is_failed = true;
		return;
	}
	r->v[before].addr.family = r->f->is_v6 ? AF_INET6 : AF_INET;
	memcpy(r->v[before].addr.b, x->key, x->key_len);
	r->v[before].is_end = x->flags & NFT_SET_ELEM_INTERVAL_END;
	r->v[before].is_ours = x->userdata_len == sizeof(comment) && !memcmp(x->userdata, comment, sizeof(comment));
}

static int by_key(const void *a, const void *b)
{
	const struct key *x = a, *y = b;
	const int order = memcmp(x->addr.b, y->addr.b, sizeof(x->addr.b));

	return order ? order : (int)y->is_end - (int)x->is_end;
}

static int note(struct sync *y, const struct range *r, bool is_ours, bool (*may_replace)(void *ctx, const struct addr *a), void *ctx)
{
	const bool is_single = addr_equal(&r->first, &r->last);
	struct range_list *to = is_ours ? &y->ours : &y->others;

	if (!is_ours && is_single && ranges_have(y->wanted.v, y->wanted.count, &r->first) && may_replace(ctx, &r->first))
		to = &y->replaced;
	return range_list_add(to, &r->first, &r->last);
}

/* Starts and ends become ranges; an interval without an end goes to the last address. */
static int sort_out(struct sync *y, struct reading *in, bool (*may_replace)(void *ctx, const struct addr *a), void *ctx)
{
	int r = 0;

	if (in->count > 1)
		qsort(in->v, in->count, sizeof(*in->v), by_key);
	for (size_t i = 0; r == 0 && i < in->count; i++) {
		struct range one = { in->v[i].addr, in->v[i].addr };
		if (in->v[i].is_end)
			continue;
		if (y->f->is_interval && i + 1 < in->count) {
			one.last = in->v[i + 1].addr;
			addr_step(&one.last, false);
		} else if (y->f->is_interval) {
			memset(one.last.b, 0xff, y->f->is_v6 ? 16 : 4);
		}
		r = note(y, &one, in->v[i].is_ours, may_replace, ctx);
	}
	return r;
}

static int read_set(struct sync *y, bool (*may_replace)(void *ctx, const struct addr *a), void *ctx)
{
	struct reading in = { .f = y->f };
	int r = -EINTR;

	for (int attempt = 0; r == -EINTR && attempt < TRIES; attempt++) {
		in.count = 0;
		r = nft_elems_dump(y->n, nft_family_number(y->s->family), y->s->table, y->s->set, take_key, &in);
	}
	if (r == 0 && in.is_failed)
		r = nft_fail(y->n, -ENOMEM, "out of memory");
	if (r == 0)
		r = sort_out(y, &in, may_replace, ctx);
	free(in.v);
	return r;
}

/* Without intervals only addresses go in, one by one. */
static int expand(struct range_list *ret, const struct range_list *in, unsigned *ret_too_long)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < in->count; i++) {
		struct addr a = in->v[i].first, end = a;
		unsigned count = 1;
		while (count <= EXPANDED_MAX && !addr_equal(&end, &in->v[i].last) && addr_step(&end, true))
			count++;
		if (count > EXPANDED_MAX) {
			++*ret_too_long;
			continue;
		}
		for (; r == 0 && count; count--, addr_step(&a, true))
			r = range_list_add(ret, &a, &a);
	}
	return r;
}

static bool has_range(const struct range_list *l, const struct range *r)
{
	unsigned low = 0, high = l->count;

	while (low < high) {
		const unsigned mid = low + (high - low) / 2;
		const int order = memcmp(l->v[mid].first.b, r->first.b, sizeof(r->first.b));
		if (order == 0)
			return range_is_equal(&l->v[mid], r);
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return false;
}

static void put_one(struct sync *y, struct nft_elems *e, const struct range *r)
{
	const bool is_new = e->type == NFT_MSG_NEWSETELEM;
	const unsigned len = nft_addr_len(r->first.family);
	struct addr end = r->last;

	nft_elems_split(e);
	nft_elems_add(e, &(struct nft_elem){ .key = r->first.b, .key_len = len, .timeout_ms = is_new && y->f->default_timeout_s ? LONG_LIFE_MS : 0,
				 .userdata = comment, .userdata_len = is_new ? sizeof(comment) : 0 });
	if (y->f->is_interval && nft_addr_next(&end))
		nft_elems_add(e, &(struct nft_elem){ .key = end.b, .key_len = len, .flags = NFT_SET_ELEM_INTERVAL_END });
}

/* Those of a that are not in b; b NULL: all. */
static unsigned pass(struct sync *y, uint16_t type, const struct range_list *a, const struct range_list *b)
{
	struct nft_elems e;
	unsigned count = 0;

	nft_elems_begin(&e, y->n, &y->n->batch, type, type == NFT_MSG_NEWSETELEM ? NLM_F_CREATE : 0, y->s->set);
	e.family_table = y->s->table;
	e.family = nft_family_number(y->s->family);
	for (unsigned i = 0; i < a->count; i++) {
		if (b && has_range(b, &a->v[i]))
			continue;
		put_one(y, &e, &a->v[i]);
		count++;
	}
	nft_elems_end(&e);
	return count;
}

static int sync_once(struct sync *y, bool (*may_replace)(void *ctx, const struct addr *a), void *ctx, unsigned *ret_too_long, bool *ret_has_left)
{
	struct range_list target = { 0 };
	unsigned gone = 0, come = 0;
	int r = read_set(y, may_replace, ctx);

	y->others.count = ranges_order(y->others.v, y->others.count);
	if (r == 0)
		r = ranges_subtract(&target, y->wanted.v, y->wanted.count, y->others.v, y->others.count);
	if (r == 0 && !y->f->is_interval) {
		r = expand(&y->target, &target, ret_too_long);
		range_list_free(&target);
	} else {
		y->target = target;
	}
	if (r < 0)
		return r;
	nft_batch_begin(y->n, &y->n->batch, NULL);
	gone = pass(y, NFT_MSG_DELSETELEM, &y->ours, &y->target);
	/* An address that stands for itself goes only where a range takes its place. */
	for (unsigned i = 0; i < y->replaced.count;)
		if (ranges_have(y->target.v, y->target.count, &y->replaced.v[i].first))
			i++;
		else
			y->replaced.v[i] = y->replaced.v[--y->replaced.count];
	come = pass(y, NFT_MSG_DELSETELEM, &y->replaced, NULL);
	come += pass(y, NFT_MSG_NEWSETELEM, &y->target, &y->ours);
	*ret_has_left = gone > 0;
	r = gone + come ? nft_batch_commit(y->n, &y->n->batch) : 0;
	return r == -ENFILE ? nft_fail(y->n, -ENOSPC, "is full") : r;
}

int nft_foreign_sync_ranges(struct nft *n, const struct cfg_set *s, const struct nft_foreign *f, const struct range_list *wanted,
	bool (*may_replace)(void *ctx, const struct addr *a), void *ctx, struct range_list *held, unsigned *ret_too_long, bool *ret_has_left)
{
	int r = -ENOENT;

	/* What was read may have ended, or come, before it was sent. */
	for (int attempt = 0; attempt < TRIES && (r == -ENOENT || r == -EEXIST || r == -ENOTEMPTY); attempt++) {
		struct sync y = { .n = n, .s = s, .f = f, .wanted = *wanted };
		*ret_too_long = 0;
		r = sync_once(&y, may_replace, ctx, ret_too_long, ret_has_left);
		if (r == 0) {
			range_list_free(held);
			*held = y.target;
			y.target = (struct range_list){ 0 };
		}
		range_list_free(&y.ours);
		range_list_free(&y.others);
		range_list_free(&y.replaced);
		range_list_free(&y.target);
	}
	return r;
}
