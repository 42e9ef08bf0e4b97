/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the lists say of a name: the index first, then the bounded stage of those lists that have one. A $badfilter that takes a plain rule away makes
 * the list's word be read again from the index without it; that is rare. Any thread inside an rcu read section; nothing here allocates. */
#include "policy/policy_private.h"

#include <string.h>

/* Names whose cache misses overlap; their hashes are 16 KiB of stack. */
enum { JUDGE_BATCH = 16 };

static void list_bits_put(struct list_bits *b, unsigned slot, bool is_set)
{
	if (is_set)
		list_bits_set(b, slot);
	else
		b->w[slot / 64] &= ~(1ull << (slot % 64));
}

/* The list's plain entries but those that a $badfilter names, judged as index_lookup does: the most specific decides, an exception before a listing. */
static void read_again(const struct policy *p, uint64_t gen, const struct name *n, const uint64_t *hashes, unsigned slot,
	const struct expr_result *e, struct membership *m)
{
	bool is_decided = false, is_listed = false, is_allowed = false;
	unsigned kinds, listing, exempting;

	for (unsigned i = 0; i <= n->labels; i++) {
		listing = KIND_SUFFIX | (i == 0 && !(e->always & EXPR_BAD_EXACT) ? KIND_EXACT : 0);
		exempting = KIND_EXEMPT | (i == 0 ? KIND_EXEMPT_EXACT : 0);
		kinds = index_kinds_at(p->index, gen, n, hashes, slot, i);
		if (expr_is_bad(e->bad_block, i))
			kinds &= ~(unsigned)KIND_SUFFIX;
		if (expr_is_bad(e->bad_allow, i))
			kinds &= ~(unsigned)KIND_ALLOW;
		is_allowed |= (kinds & KIND_ALLOW) != 0;
		if (is_decided || !(kinds & (listing | exempting)))
			continue;
		is_listed = !(kinds & exempting);
		is_decided = true;
	}
	list_bits_put(&m->listed, slot, is_listed);
	list_bits_put(&m->allowed, slot, is_allowed);
}

static void take_in(struct membership *m, unsigned slot, unsigned said)
{
	if (said & EXPR_BLOCK)
		list_bits_set(&m->listed, slot);
	if (said & EXPR_ALLOW)
		list_bits_set(&m->allowed, slot);
	if (said & EXPR_IMPORTANT)
		list_bits_set(&m->important, slot);
	if (said & EXPR_SPARE)
		list_bits_set(&m->spared, slot);
}

static void judge_staged(const struct policy *p, uint64_t gen, const struct name *n, const uint64_t *hashes,
	const struct policy_ask *ask, struct judged_name *ret)
{
	const unsigned bad = EXPR_BAD_BLOCK | EXPR_BAD_ALLOW | EXPR_BAD_EXACT;
	struct expr_client client = {.addr = ask ? &ask->client->addr : NULL, .groups = ask ? ask->groups->yes : NULL,
		.unknown = ask ? ask->groups->unknown : NULL};
	struct expr_result e;

	for (unsigned i = 0; i < p->staged_count; i++) {
		const struct staged *s = &p->staged[i];

		client.group_of = s->group_of;
		exprs_judge(s->exprs, n, hashes, ask ? ask->qtype : 0, ask ? &client : NULL, &e);
		if (!(e.always | e.here))
			continue;
		if (e.here != e.always && !ret->is_conditional) {
			ret->here = ret->in;
			ret->is_conditional = true;
		}
		if (e.always & bad) {
			read_again(p, gen, n, hashes, s->slot, &e, &ret->in);
			if (ret->is_conditional)
				read_again(p, gen, n, hashes, s->slot, &e, &ret->here);
		}
		take_in(&ret->in, s->slot, e.always);
		if (ret->is_conditional)
			take_in(&ret->here, s->slot, e.here);
	}
}

void policy_judge_hashed(const struct policy *p, uint64_t gen, const struct name *n, const uint64_t *hashes,
	const struct policy_ask *ask, struct judged_name *ret)
{
	ret->name = n;
	ret->is_conditional = false;
	memset(&ret->in.important, 0, sizeof(ret->in.important) + sizeof(ret->in.spared));
	index_lookup(p->index, gen, n, hashes, &ret->in.listed, &ret->in.allowed);
	if (p->staged_count)
		judge_staged(p, gen, n, hashes, ask, ret);
}

void policy_judge(const struct policy *p, uint64_t gen, const struct name *n, const struct policy_ask *ask, struct judged_name *ret)
{
	uint64_t hashes[NAME_LABELS_MAX + 1];

	name_hash(n, index_seed(p->index), hashes);
	index_prefetch(p->index, n, hashes);
	policy_judge_hashed(p, gen, n, hashes, ask, ret);
}

void policy_judge_many(const struct policy *p, uint64_t gen, const struct name *const *names, unsigned count,
	const struct policy_ask *ask, struct judged_name *ret)
{
	uint64_t hashes[JUDGE_BATCH][NAME_LABELS_MAX + 1], seed = index_seed(p->index);
	unsigned some, i;

	for (; count; count -= some, names += some, ret += some) {
		some = count < JUDGE_BATCH ? count : JUDGE_BATCH;
		for (i = 0; i < some; i++) {
			name_hash(names[i], seed, hashes[i]);
			index_prefetch(p->index, names[i], hashes[i]);
		}
		for (i = 0; i < some; i++)
			index_prefetch_entries(p->index, names[i], hashes[i]);
		for (i = 0; i < some; i++)
			policy_judge_hashed(p, gen, names[i], hashes[i], ask, &ret[i]);
	}
}

const char *policy_expr_text(const struct policy *p, unsigned slot, const struct name *n, const struct policy_ask *ask)
{
	struct expr_client client = {.addr = ask ? &ask->client->addr : NULL, .groups = ask ? ask->groups->yes : NULL,
		.unknown = ask ? ask->groups->unknown : NULL};
	uint64_t hashes[NAME_LABELS_MAX + 1];

	for (unsigned i = 0; i < p->staged_count; i++) {
		if (p->staged[i].slot != slot)
			continue;
		name_hash(n, index_seed(p->index), hashes);
		client.group_of = p->staged[i].group_of;
		return exprs_decides(p->staged[i].exprs, n, hashes, ask ? ask->qtype : 0, ask ? &client : NULL);
	}
	return NULL;
}
