/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The elements of our sets: put (add or renew), delete, replace ranges, read back.
 * Messages are built by hand: one NEWSETELEM carries the elements of one set, cut before 32 KiB since a netlink attribute ends at 64 KiB.
 *
 * Renewal: adding an element that is there does not change its life. Where the kernel can (6.13) the new life is sent with it and replaces the old
 * one; elsewhere add + delete + add in one transaction does the same whether the element was there or not. In a full set the second add would
 * have no room before the deletion is committed, so there only the first form renews.
 * One thread. */
#include "steer/nft_internal.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <libnftnl/set.h>

enum { MESSAGE_CUT = 32 << 10, PUT_MAX = 1024 /* elements of one transaction */ };

void nft_set_name(char ret[NFT_NAME_LEN], char kind, uint32_t rule_id, uint8_t family)
{
	snprintf(ret, NFT_NAME_LEN, "%c%08x_%c", kind, rule_id, nft_is_v6(family) ? '6' : '4');
}

void nft_set_byteorder(struct nftnl_set *s, uint32_t key_type, uint32_t data_type)
{
	/* Type, length, value: 0 is the key's order and 1 the value's; 1 says host order, 2 network order. */
	uint8_t text[12] = { 0, 4, 0, 0, 0, 0, 1, 4 };
	const bool is_host = key_type == NFT_TYPE_IFNAME || key_type == NFT_TYPE_MARK || key_type == NFT_TYPE_FIB_ADDRESS;
	const uint32_t key = is_host ? 1 : 2, value = 1;

	memcpy(text + 2, &key, sizeof(key));
	memcpy(text + 8, &value, sizeof(value));
	nftnl_set_set_data(s, NFTNL_SET_USERDATA, text, data_type == NFT_TYPE_MARK ? 12 : 6);
}

static void open_message(struct nft_elems *e)
{
	struct nlmsghdr *h = nft_batch_message(e->n, e->b, e->type, e->flags);

	e->nest = NULL;
	if (!h)
		return;
	((struct nfgenmsg *)mnl_nlmsg_get_payload(h))->nfgen_family = e->family;
	mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_TABLE, e->family_table);
	mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_SET, e->set);
	if (e->set_id)
		mnl_attr_put_u32(h, NFTA_SET_ELEM_LIST_SET_ID, htonl(e->set_id));
	e->nest = mnl_attr_nest_start(h, NFTA_SET_ELEM_LIST_ELEMENTS);
}

void nft_elems_begin(struct nft_elems *e, struct nft *n, struct nft_batch *b, uint16_t type, uint16_t flags, const char *set)
{
	*e = (struct nft_elems){ .n = n, .b = b, .type = type, .flags = flags, .family_table = NFT_TABLE, .set = set, .family = NFPROTO_INET };
}

void nft_elems_split(struct nft_elems *e)
{
	if (e->nest && e->b->open->nlmsg_len > MESSAGE_CUT)
		nft_elems_end(e);
	if (!e->nest)
		open_message(e);
}

void nft_elems_add(struct nft_elems *e, const struct nft_elem *x)
{
	struct nlmsghdr *h = e->b->open;
	struct nlattr *one, *part, *verdict;

	if (!e->nest || e->b->failed)
		return;
	one = mnl_attr_nest_start(h, NFTA_LIST_ELEM);
	part = mnl_attr_nest_start(h, NFTA_SET_ELEM_KEY);
	mnl_attr_put(h, NFTA_DATA_VALUE, x->key_len, x->key);
	mnl_attr_nest_end(h, part);
	if (x->flags)
		mnl_attr_put_u32(h, NFTA_SET_ELEM_FLAGS, htonl(x->flags));
	if (x->timeout_ms)
		mnl_attr_put_u64(h, NFTA_SET_ELEM_TIMEOUT, htobe64(x->timeout_ms));
	if (x->expires_ms)
		mnl_attr_put_u64(h, NFTA_SET_ELEM_EXPIRATION, htobe64(x->expires_ms));
	if (x->userdata_len)
		mnl_attr_put(h, NFTA_SET_ELEM_USERDATA, x->userdata_len, x->userdata);
	if (x->value || x->go) {
		part = mnl_attr_nest_start(h, NFTA_SET_ELEM_DATA);
		if (x->go) {
			verdict = mnl_attr_nest_start(h, NFTA_DATA_VERDICT);
			mnl_attr_put_u32(h, NFTA_VERDICT_CODE, htonl((uint32_t)NFT_GOTO));
			mnl_attr_put_strz(h, NFTA_VERDICT_CHAIN, x->go);
			mnl_attr_nest_end(h, verdict);
		} else {
			mnl_attr_put(h, NFTA_DATA_VALUE, x->value_len, x->value);
		}
		mnl_attr_nest_end(h, part);
	}
	mnl_attr_nest_end(h, one);
}

void nft_elems_end(struct nft_elems *e)
{
	if (e->nest && !e->b->failed) {
		mnl_attr_nest_end(e->b->open, e->nest);
		nft_batch_message_end(e->b);
	}
	e->nest = NULL;
}

void nft_elems_flush(struct nft *n, struct nft_batch *b, const char *set)
{
	struct nlmsghdr *h = nft_batch_message(n, b, NFT_MSG_DELSETELEM, 0);

	if (!h)
		return;
	mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_TABLE, NFT_TABLE);
	mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_SET, set);
	nft_batch_message_end(b);
}

bool nft_addr_next(struct addr *a)
{
	for (int i = (int)nft_addr_len(a->family) - 1; i >= 0; i--) {
		if (++a->b[i])
			return true;
	}
	return false;
}

void nft_elems_add_range(struct nft_elems *e, const struct addr *first, const struct addr *last, uint64_t timeout_ms)
{
	const unsigned len = nft_addr_len(first->family);
	struct addr end = *last;

	nft_elems_split(e);
	nft_elems_add(e, &(struct nft_elem){ .key = first->b, .key_len = len, .timeout_ms = timeout_ms });
	if (nft_addr_next(&end))
		nft_elems_add(e, &(struct nft_elem){ .key = end.b, .key_len = len, .flags = NFT_SET_ELEM_INTERVAL_END });
}

/* Ranges come sorted; what touches or overlaps is joined, since an interval set refuses overlaps. */
void nft_elems_put_ranges(struct nft_elems *e, const struct range *r, unsigned count)
{
	for (unsigned i = 0; i < count;) {
		const unsigned len = nft_addr_len(r[i].first.family);
		const struct addr first = r[i].first;
		struct addr last = r[i].last, after;

		for (i++; i < count; i++) {
			after = last;
			if (nft_addr_next(&after) && memcmp(r[i].first.b, after.b, len) > 0)
				break;
			if (memcmp(r[i].last.b, last.b, len) > 0)
				last = r[i].last;
		}
		nft_elems_add_range(e, &first, &last, 0);
	}
}

void nft_ranges_put(struct nft *n, struct nft_batch *b, const char *set, const struct range *r, unsigned count)
{
	struct nft_elems e;

	nft_elems_begin(&e, n, b, NFT_MSG_NEWSETELEM, NLM_F_CREATE, set);
	nft_elems_put_ranges(&e, r, count);
	nft_elems_end(&e);
}

int nft_ranges_replace(struct nft *n, const struct nft_range_set *s)
{
	struct nft_batch *b = &n->batch;
	char set[NFT_NAME_LEN];

	nft_set_name(set, s->which ? 'q' : 'p', s->rule_id, s->family);
	nft_batch_begin(n, b, NULL);
	nft_elems_flush(n, b, set);
	nft_ranges_put(n, b, set, s->r, s->count);
	return nft_batch_commit(n, b);
}

static bool is_same_set(const struct nft_element *a, const struct nft_element *b)
{
	return a->rule_id == b->rule_id && a->addr.family == b->addr.family;
}

/* One message series of `type` for every element of e[order[0..count)], a message per set. want_fresh: -1 all, else only these. */
static void add_pass(struct nft *n, struct nft_batch *b, const struct nft_element *e, const uint32_t *order, size_t count, uint16_t type, uint16_t flags,
	int want_fresh)
{
	const bool has_life = type == NFT_MSG_NEWSETELEM;
	const struct nft_element *open = NULL;
	struct nft_elems m = { 0 };
	char set[NFT_NAME_LEN];

	for (size_t i = 0; i < count; i++) {
		const struct nft_element *x = &e[order ? order[i] : i];
		const uint64_t life_ms = has_life ? (uint64_t)(x->life_s ? x->life_s : 1) * 1000 : 0;

		if (want_fresh >= 0 && x->is_fresh != (want_fresh > 0))
			continue;
		if (!open || !is_same_set(open, x)) {
			nft_elems_end(&m);
			nft_set_name(set, 'r', x->rule_id, x->addr.family);
			nft_elems_begin(&m, n, b, type, flags, set);
			open = x;
		}
		nft_elems_split(&m);
		nft_elems_add(&m, &(struct nft_elem){ .key = x->addr.b, .key_len = nft_addr_len(x->addr.family), .timeout_ms = life_ms,
						  .expires_ms = n->can_update ? life_ms : 0 });
	}
	nft_elems_end(&m);
}

void nft_elements_add_to_batch(struct nft *n, struct nft_batch *b, const struct nft_element *e, const uint32_t *order, size_t count)
{
	if (n->can_update) {
		add_pass(n, b, e, order, count, NFT_MSG_NEWSETELEM, NLM_F_CREATE, -1);
		return;
	}
	/* A "fresh" element that is there after all is refused (EXCL), and the caller's retry renews it. */
	add_pass(n, b, e, order, count, NFT_MSG_NEWSETELEM, NLM_F_CREATE | NLM_F_EXCL, 1);
	add_pass(n, b, e, order, count, NFT_MSG_NEWSETELEM, NLM_F_CREATE, 0);
	add_pass(n, b, e, order, count, NFT_MSG_DELSETELEM, 0, 0);
	add_pass(n, b, e, order, count, NFT_MSG_NEWSETELEM, NLM_F_CREATE, 0);
}

static int by_set(const void *a, const void *b, void *elements)
{
	const struct nft_element *e = elements, *x = &e[*(const uint32_t *)a], *y = &e[*(const uint32_t *)b];

	if (x->rule_id != y->rule_id)
		return x->rule_id < y->rule_id ? -1 : 1;
	if (x->addr.family != y->addr.family)
		return x->addr.family < y->addr.family ? -1 : 1;
	return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

/* Orders indexes so that every set's elements stand together; elements mostly come so already. */
static void order_by_set(const struct nft_element *e, uint32_t *order, size_t count)
{
	bool is_sorted = true;

	for (size_t i = 0; i < count; i++) {
		order[i] = (uint32_t)i;
		if (i > 0 && !is_same_set(&e[i - 1], &e[i]))
			is_sorted = false;
	}
	if (!is_sorted)
		qsort_r(order, count, sizeof(*order), by_set, (void *)e);
}

static int status_of(int r)
{
	return r == -ENFILE ? -ENOSPC : r;
}

static int say_status(const uint32_t *order, size_t count, int *status, int r)
{
	for (size_t i = 0; i < count; i++)
		status[order[i]] = status_of(r);
	return status_of(r);
}

static bool is_one_set(const struct nft_element *e, const uint32_t *order, size_t count)
{
	return is_same_set(&e[order[0]], &e[order[count - 1]]);
}

/* Where to part a refused batch: between two sets when there are several, near the middle. */
static size_t parting(const struct nft_element *e, const uint32_t *order, size_t count)
{
	size_t at = count / 2;

	if (is_one_set(e, order, count))
		return at;
	while (at < count && is_same_set(&e[order[at - 1]], &e[order[at]]))
		at++;
	if (at < count)
		return at;
	for (at = count / 2; at > 1 && is_same_set(&e[order[at - 1]], &e[order[at]]); at--)
		;
	return at;
}

/* Puts e[order[0..count)]; a refused batch is parted until what was refused stands alone. The kernel takes some 15 ms to abort a transaction, so
 * what is certain is not tried: a set that is gone is gone for all its elements, and a set too full for one half is for the other. */
static int put_parting(struct nft *n, const struct nft_element *e, const uint32_t *order, size_t count, int *status)
{
	struct nft_batch *b = &n->batch;
	size_t at;
	int r, r2;

	nft_batch_begin(n, b, NULL);
	nft_elements_add_to_batch(n, b, e, order, count);
	r = nft_batch_commit(n, b);
	if (r == -EEXIST && count == 1 && e[order[0]].is_fresh) {
		struct nft_element renewed = e[order[0]];
		renewed.is_fresh = false;
		nft_batch_begin(n, b, NULL);
		nft_elements_add_to_batch(n, b, &renewed, NULL, 1);
		r = nft_batch_commit(n, b);
	}
	if (r == 0 || r == -EPERM || r == -ETIMEDOUT || count == 1 || (r == -ENOENT && is_one_set(e, order, count)))
		return say_status(order, count, status, r);
	at = parting(e, order, count);
	r = put_parting(n, e, order, at, status);
	if (status_of(r) == -ENOSPC && is_one_set(e, order, count))
		return say_status(order + at, count - at, status, r);
	r2 = put_parting(n, e, order + at, count - at, status);
	return r ? r : r2;
}

int nft_elements_put(struct nft *n, const struct nft_element *e, size_t count, int *status)
{
	uint32_t order[PUT_MAX];
	int first_error = 0;

	for (size_t done = 0; done < count; done += PUT_MAX) {
		const size_t part = count - done < PUT_MAX ? count - done : PUT_MAX;
		int r;
		order_by_set(e + done, order, part);
		r = put_parting(n, e + done, order, part, status + done);
		if (r && !first_error)
			first_error = r;
	}
	return first_error;
}

static int delete_once(struct nft *n, const struct nft_element *e, const uint32_t *order, size_t count, bool is_alone)
{
	struct nft_batch *b = &n->batch;

	nft_batch_begin(n, b, NULL);
	if (n->can_destroy) {
		add_pass(n, b, e, order, count, NFT_MSG_DESTROY_ELEMENT, 0, -1);
	} else {
		/* Added first, so that the deletion finds it; alone, an absent one is simply refused. */
		if (!is_alone)
			add_pass(n, b, e, order, count, NFT_MSG_NEWSETELEM, NLM_F_CREATE, -1);
		add_pass(n, b, e, order, count, NFT_MSG_DELSETELEM, 0, -1);
	}
	return nft_batch_commit(n, b);
}

static int delete_halving(struct nft *n, const struct nft_element *e, const uint32_t *order, size_t count)
{
	int r = delete_once(n, e, order, count, count == 1), r2;

	if (r == -EINVAL && n->can_destroy && n->failed_type == NFT_MSG_DESTROY_ELEMENT) {
		n->can_destroy = false;
		r = delete_once(n, e, order, count, count == 1);
	}
	if (count == 1)
		return r == -ENOENT ? 0 : r;
	if (r == 0 || r == -EPERM || r == -ETIMEDOUT)
		return r;
	r = delete_halving(n, e, order, count / 2);
	r2 = delete_halving(n, e, order + count / 2, count - count / 2);
	return r ? r : r2;
}

int nft_elements_delete(struct nft *n, const struct nft_element *e, size_t count)
{
	uint32_t order[PUT_MAX];
	int first_error = 0;

	for (size_t done = 0; done < count; done += PUT_MAX) {
		const size_t part = count - done < PUT_MAX ? count - done : PUT_MAX;
		int r;
		order_by_set(e + done, order, part);
		r = delete_halving(n, e + done, order, part);
		if (r && !first_error)
			first_error = r;
	}
	return first_error;
}

struct dump { nft_raw_elem_fn *cb; void *ctx; };

static void take_elements(void *ctx, const struct nlmsghdr *h)
{
	const struct dump *d = ctx;
	const struct nlattr *list = nft_attr_find(h, NFTA_SET_ELEM_LIST_ELEMENTS), *one, *a, *key;

	if (!list)
		return;
	mnl_attr_for_each_nested(one, list) {
		struct nft_elem x = { 0 };
		mnl_attr_for_each_nested(a, one) {
			switch (mnl_attr_get_type(a)) {
			case NFTA_SET_ELEM_KEY:
				key = nft_attr_find_in(a, NFTA_DATA_VALUE);
				x.key = key ? mnl_attr_get_payload(key) : NULL;
				x.key_len = key ? mnl_attr_get_payload_len(key) : 0;
				break;
			case NFTA_SET_ELEM_FLAGS:
				x.flags = ntohl(mnl_attr_get_u32(a));
				break;
			case NFTA_SET_ELEM_TIMEOUT:
				x.timeout_ms = be64toh(mnl_attr_get_u64(a));
				break;
			case NFTA_SET_ELEM_EXPIRATION:
				x.expires_ms = be64toh(mnl_attr_get_u64(a));
				break;
			case NFTA_SET_ELEM_USERDATA:
				x.userdata = mnl_attr_get_payload(a);
				x.userdata_len = mnl_attr_get_payload_len(a);
				break;
			}
		}
		if (x.key)
			d->cb(d->ctx, &x);
	}
}

int nft_elems_dump(struct nft *n, uint8_t family, const char *table, const char *set, nft_raw_elem_fn *cb, void *ctx)
{
	uint8_t bytes[MNL_NLMSG_HDRLEN + 1024];
	struct nlmsghdr *h = nft_request_begin(bytes, NFT_MSG_GETSETELEM, family, NLM_F_DUMP);
	struct dump d = { cb, ctx };

	mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_TABLE, table);
	mnl_attr_put_strz(h, NFTA_SET_ELEM_LIST_SET, set);
	return nft_request(n, h, take_elements, &d);
}

/* Elements are kept aside until the dump is known to be whole, since a disturbed one is asked again from the start. */
struct kept { struct addr *addr; uint32_t *life_s; size_t count, cap; uint8_t family; bool is_failed; };

static void keep_element(void *ctx, const struct nft_elem *x)
{
	struct kept *k = ctx;

	if (x->key_len != nft_addr_len(k->family) || k->is_failed)
		return;
	if (k->count == k->cap) {
		const size_t cap = k->cap ? k->cap * 2 : 256;
		struct addr *addr = realloc(k->addr, cap * sizeof(*addr));
		uint32_t *life_s = addr ? realloc(k->life_s, cap * sizeof(*life_s)) : NULL;
		k->addr = addr ? addr : k->addr;
		k->life_s = life_s ? life_s : k->life_s;
		if (!life_s) {
			k->is_failed = true;
			return;
		}
		k->cap = cap;
	}
	k->addr[k->count] = (struct addr){ .family = nft_is_v6(k->family) ? AF_INET6 : AF_INET };
	memcpy(k->addr[k->count].b, x->key, x->key_len);
	k->life_s[k->count++] = x->timeout_ms || x->expires_ms ? (uint32_t)(x->expires_ms / 1000) : UINT32_MAX;
}

int nft_elements_dump(struct nft *n, uint32_t rule_id, uint8_t family, void (*cb)(void *ctx, const struct addr *a, uint32_t remaining_s), void *ctx)
{
	struct kept k = { .family = family };
	char set[NFT_NAME_LEN];
	int r = -EINTR;

	nft_set_name(set, 'r', rule_id, family);
	for (int attempt = 0; r == -EINTR && attempt < 5; attempt++) {
		k.count = 0;
		r = nft_elems_dump(n, NFPROTO_INET, NFT_TABLE, set, keep_element, &k);
	}
	if (r == 0 && k.is_failed)
		r = nft_fail(n, -ENOMEM, "reading set %s: out of memory", set);
	for (size_t i = 0; r == 0 && i < k.count; i++)
		cb(ctx, &k.addr[i], k.life_s[i]);
	free(k.addr);
	free(k.life_s);
	return r;
}
