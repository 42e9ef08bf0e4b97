/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Names below in-addr.arpa and ip6.arpa are read as what they are, prefixes of addresses: so the ranges that are not label by label (172.16.0.0/12,
 * fe80::/10) need no list of names, and a name stands for every address below it without a node for each label. Any thread. */
#include <string.h>
#include "local/local_private.h"

static bool ends_with(const struct name *n, unsigned from, const char *suffix, size_t len)
{
	return (size_t)n->len - n->offset[from] == len && !memcmp(n->wire + n->offset[from], suffix, len);
}

/* A decimal octet without leading zeros. */
static int octet(const uint8_t *label)
{
	unsigned v = 0;

	if (label[0] < 1 || label[0] > 3 || (label[0] > 1 && label[1] == '0'))
		return -1;
	for (unsigned i = 1; i <= label[0]; i++) {
		if (label[i] < '0' || label[i] > '9')
			return -1;
		v = v * 10 + (label[i] - '0');
	}
	return v <= 255 ? (int)v : -1;
}

static int nibble(const uint8_t *label)
{
	if (label[0] != 1)
		return -1;
	if (label[1] >= '0' && label[1] <= '9')
		return label[1] - '0';
	return label[1] >= 'a' && label[1] <= 'f' ? label[1] - 'a' + 10 : -1;
}

bool reverse_parse(struct reverse_name *ret, const struct name *n)
{
	struct addr *a = &ret->prefix.addr;
	unsigned i = n->labels, bits = 0, all;

	if (i < 2 || n->wire[n->offset[i - 1]] != 4)
		return false;
	*ret = (struct reverse_name){0};
	i -= 2;
	if (ends_with(n, i, "\7in-addr\4arpa", 14)) {
		a->family = AF_INET;
		all = 32;
	} else if (ends_with(n, i, "\3ip6\4arpa", 10)) {
		a->family = AF_INET6;
		all = 128;
	} else {
		return false;
	}
	while (i > 0 && bits < all) {
		const uint8_t *label = n->wire + n->offset[i - 1];
		int v = all == 32 ? octet(label) : nibble(label);

		if (v < 0)
			break;
		a->b[bits / 8] |= (uint8_t)(all == 32 || bits % 8 ? v : v << 4);
		bits += all == 32 ? 8 : 4;
		i--;
	}
	ret->prefix.len = (uint8_t)bits;
	ret->is_whole = i == 0;
	ret->is_address = ret->is_whole && bits == all;
	return true;
}

const struct reverse_entry *reverse_find(const struct local *l, const struct prefix *p)
{
	const struct reverse_table *t = &l->reverse[p->addr.family == AF_INET6];
	struct addr a = {.family = p->addr.family};
	uint32_t low = 0, high = t->count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (memcmp(t->v[mid].b, p->addr.b, sizeof a.b) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == t->count)
		return NULL;
	memcpy(a.b, t->v[low].b, sizeof a.b);
	return prefix_contains(p, &a) ? &t->v[low] : NULL;
}

bool reverse_is_private(const struct reverse_name *n, bool *ret_is_apex)
{
	static const struct prefix ranges[] = {
	        {{AF_INET, {0}}, 8},
	        {{AF_INET, {10}}, 8},
	        {{AF_INET, {100, 64}}, 10},
	        {{AF_INET, {127}}, 8},
	        {{AF_INET, {169, 254}}, 16},
	        {{AF_INET, {172, 16}}, 12},
	        {{AF_INET, {192, 0, 2}}, 24},
	        {{AF_INET, {192, 168}}, 16},
	        {{AF_INET, {198, 51, 100}}, 24},
	        {{AF_INET, {203, 0, 113}}, 24},
	        {{AF_INET, {255, 255, 255, 255}}, 32},
	        {{AF_INET6, {0}}, 128},
	        {{AF_INET6, {[15] = 1}}, 128},
	        {{AF_INET6, {0x20, 0x01, 0x0d, 0xb8}}, 32},
	        {{AF_INET6, {0xfd}}, 8},
	        {{AF_INET6, {0xfe, 0x80}}, 10},
	};
	unsigned unit = n->prefix.addr.family == AF_INET ? 8 : 4;

	for (unsigned i = 0; i < sizeof ranges / sizeof *ranges; i++) {
		/* A range that ends inside a label is as many zones. */
		unsigned zone_bits = (ranges[i].len + unit - 1) / unit * unit;

		if (n->prefix.len < zone_bits || !prefix_contains(&ranges[i], &n->prefix.addr))
			continue;
		*ret_is_apex = n->is_whole && n->prefix.len == zone_bits;
		return true;
	}
	return false;
}
