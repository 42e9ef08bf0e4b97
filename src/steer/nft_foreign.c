/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What other people have in nf_tables: sets that an administrator wants filled, and rules that write marks where ours are.
 *
 * A foreign set is judged anew from the kernel each time it may have changed; its family is never guessed from its name. Plain sets get many elements in
 * one message; interval sets get one-address ranges, one transaction each, since the kernel refuses what overlaps: an address that a range of the
 * administrator's already covers is fine as it is.
 *
 * Mark clashes are found by following each rule's registers: a value that began as the mark itself changes only the bits that bitwise expressions touch;
 * any other value changes them all. One thread. */
#include "steer/nft_internal.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <linux/netfilter/xt_connmark.h>
#include <linux/netfilter/xt_mark.h>

static const struct { const char *name; uint8_t number; } families[] = {
	{ "inet", NFPROTO_INET }, { "ip", NFPROTO_IPV4 }, { "ip6", NFPROTO_IPV6 }, { "bridge", NFPROTO_BRIDGE }, { "netdev", NFPROTO_NETDEV }, { "arp", NFPROTO_ARP },
};
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

uint8_t nft_family_number(const char *name)
{
	for (size_t i = 0; i < COUNT(families); i++) {
		if (!strcmp(families[i].name, name))
			return families[i].number;
	}
	return 0;
}

static const char *family_name(uint32_t number)
{
	for (size_t i = 0; i < COUNT(families); i++) {
		if (families[i].number == number)
			return families[i].name;
	}
	return "unknown";
}

struct seen_set { bool exists; uint32_t flags, key_type, key_len; uint64_t timeout_ms; };

static void take_set(void *ctx, const struct nlmsghdr *h)
{
	struct seen_set *s = ctx;
	const struct nlattr *a;

	if ((h->nlmsg_type & 0xff) != NFT_MSG_NEWSET)
		return;
	s->exists = true;
	a = nft_attr_find(h, NFTA_SET_FLAGS);
	s->flags = a ? ntohl(mnl_attr_get_u32(a)) : 0;
	a = nft_attr_find(h, NFTA_SET_KEY_TYPE);
	s->key_type = a ? ntohl(mnl_attr_get_u32(a)) : 0;
	a = nft_attr_find(h, NFTA_SET_KEY_LEN);
	s->key_len = a ? ntohl(mnl_attr_get_u32(a)) : 0;
	a = nft_attr_find(h, NFTA_SET_TIMEOUT);
	s->timeout_ms = a ? be64toh(mnl_attr_get_u64(a)) : 0;
}

int nft_foreign_probe(struct nft *n, const struct cfg_set *s, struct nft_foreign *ret)
{
	uint8_t bytes[MNL_NLMSG_HDRLEN + 1024];
	const uint8_t family = nft_family_number(s->family);
	struct seen_set seen = { 0 };
	struct nlmsghdr *h;
	int r;

	if (!family || strlen(s->table) >= NFT_NAME_MAXLEN || strlen(s->set) >= NFT_NAME_MAXLEN)
		return nft_fail(n, -EINVAL, "set \"%s %s %s\": the family is inet, ip, ip6, bridge, netdev or arp", s->family, s->table, s->set);
	h = nft_request_begin(bytes, NFT_MSG_GETSET, family, 0);
	mnl_attr_put_strz(h, NFTA_SET_TABLE, s->table);
	mnl_attr_put_strz(h, NFTA_SET_NAME, s->set);
	r = nft_request(n, h, take_set, &seen);
	if (r < 0 && r != -ENOENT)
		return r;
	*ret = (struct nft_foreign){ 0 };
	if (r == -ENOENT || !seen.exists)
		return 0;
	if (seen.flags & (NFT_SET_MAP | NFT_SET_CONCAT | NFT_SET_OBJECT) || !((seen.key_type == NFT_TYPE_IPV4 && seen.key_len == 4) ||
		(seen.key_type == NFT_TYPE_IPV6 && seen.key_len == 16)))
		return nft_fail(n, -EINVAL, "set %s %s %s holds no addresses: its type must be ipv4_addr or ipv6_addr", s->family, s->table, s->set);
	*ret = (struct nft_foreign){ .exists = true, .is_v6 = seen.key_type == NFT_TYPE_IPV6, .has_timeout = seen.flags & NFT_SET_TIMEOUT,
		.is_interval = seen.flags & NFT_SET_INTERVAL, .is_constant = seen.flags & NFT_SET_CONSTANT, .default_timeout_s = (uint32_t)(seen.timeout_ms / 1000) };
	return 0;
}

static void begin_foreign(struct nft_elems *e, struct nft *n, const struct cfg_set *s, uint16_t type, uint16_t flags)
{
	nft_elems_begin(e, n, &n->batch, type, flags, s->set);
	e->family_table = s->table;
	e->family = nft_family_number(s->family);
}

static bool is_for(const struct nft_foreign *f, const struct addr *a)
{
	return nft_is_v6(a->family) == f->is_v6;
}

static uint64_t life_ms(const struct nft_foreign *f, const struct nft_element *x)
{
	return f->has_timeout ? (uint64_t)(x->life_s ? x->life_s : 1) * 1000 : 0;
}

/* One pass over the elements of a plain set. */
static void plain_pass(struct nft *n, const struct cfg_set *s, const struct nft_foreign *f, const struct nft_element *e, size_t count, uint16_t type)
{
	struct nft_elems m;

	begin_foreign(&m, n, s, type, type == NFT_MSG_NEWSETELEM ? NLM_F_CREATE : 0);
	for (size_t i = 0; i < count; i++) {
		const uint64_t life = type == NFT_MSG_NEWSETELEM ? life_ms(f, &e[i]) : 0;
		if (!is_for(f, &e[i].addr))
			continue;
		nft_elems_split(&m);
		nft_elems_add(&m, &(struct nft_elem){ .key = e[i].addr.b, .key_len = nft_addr_len(e[i].addr.family), .timeout_ms = life,
						  .expires_ms = n->can_update ? life : 0 });
	}
	nft_elems_end(&m);
}

static int put_plain(struct nft *n, const struct cfg_set *s, const struct nft_foreign *f, const struct nft_element *e, size_t count)
{
	int r, r2;

	nft_batch_begin(n, &n->batch, NULL);
	plain_pass(n, s, f, e, count, NFT_MSG_NEWSETELEM);
	if (f->has_timeout && !n->can_update) {
		plain_pass(n, s, f, e, count, NFT_MSG_DELSETELEM);
		plain_pass(n, s, f, e, count, NFT_MSG_NEWSETELEM);
	}
	r = nft_batch_commit(n, &n->batch);
	if (count == 1 || !(r == -ENFILE || r == -ENOBUFS || r == -EMSGSIZE))
		return r == -ENFILE ? -ENOSPC : r;
	r = put_plain(n, s, f, e, count / 2);
	r2 = put_plain(n, s, f, e + count / 2, count - count / 2);
	return r ? r : r2;
}

static void range_pass(struct nft *n, const struct cfg_set *s, const struct addr *a, uint64_t life, uint16_t type, uint16_t flags)
{
	struct nft_elems m;

	begin_foreign(&m, n, s, type, flags);
	nft_elems_add_range(&m, a, a, type == NFT_MSG_NEWSETELEM ? life : 0);
	nft_elems_end(&m);
}

static bool is_covered(int r)
{
	return r == -EEXIST || r == -ENOTEMPTY;
}

static int put_interval(struct nft *n, const struct cfg_set *s, const struct nft_foreign *f, const struct nft_element *e)
{
	const uint64_t life = life_ms(f, e);
	int r;

	nft_batch_begin(n, &n->batch, NULL);
	range_pass(n, s, &e->addr, life, NFT_MSG_NEWSETELEM, NLM_F_CREATE | NLM_F_EXCL);
	r = nft_batch_commit(n, &n->batch);
	if (is_covered(r) && life) {
		/* Ours from before, or a range of the administrator's: only the first can be deleted as [a, a + 1). */
		nft_batch_begin(n, &n->batch, NULL);
		range_pass(n, s, &e->addr, 0, NFT_MSG_DELSETELEM, 0);
		range_pass(n, s, &e->addr, life, NFT_MSG_NEWSETELEM, NLM_F_CREATE);
		r = nft_batch_commit(n, &n->batch);
		if (r == -ENOENT)
			r = 0;
	}
	if (is_covered(r))
		r = 0;
	return r == -ENFILE ? -ENOSPC : r;
}

/* Why a set cannot take elements at all; 0 when it can. */
static int refuse(struct nft *n, const struct cfg_set *s, const struct nft_foreign *f)
{
	if (!f->exists)
		return nft_fail(n, -ENOENT, "set %s %s %s does not exist", s->family, s->table, s->set);
	if (f->is_constant)
		return nft_fail(n, -EBUSY, "set %s %s %s is constant: nothing can be added to it; remove the flag", s->family, s->table, s->set);
	return 0;
}

int nft_foreign_put(struct nft *n, const struct cfg_set *s, const struct nft_foreign *f, const struct nft_element *e, size_t count)
{
	int first_error = refuse(n, s, f);

	if (first_error < 0 || count == 0)
		return first_error;
	if (!f->is_interval)
		return put_plain(n, s, f, e, count);
	for (size_t i = 0; i < count; i++) {
		int r = is_for(f, &e[i].addr) ? put_interval(n, s, f, &e[i]) : 0;
		if (r && !first_error)
			first_error = r;
	}
	return first_error;
}

int nft_foreign_delete(struct nft *n, const struct cfg_set *s, const struct nft_foreign *f, const struct addr *a, size_t count)
{
	int first_error = 0;

	if (refuse(n, s, f) < 0)
		return f->exists ? -EBUSY : 0;
	for (size_t i = 0; i < count; i++) {
		const struct nft_element x = { .addr = a[i] };
		int r;
		if (!is_for(f, &a[i]))
			continue;
		nft_batch_begin(n, &n->batch, NULL);
		if (f->is_interval)
			range_pass(n, s, &a[i], 0, NFT_MSG_DELSETELEM, 0);
		else
			plain_pass(n, s, f, &x, 1, NFT_MSG_DELSETELEM);
		r = nft_batch_commit(n, &n->batch);
		if (r < 0 && r != -ENOENT && !first_error)
			first_error = r;
	}
	return first_error;
}

/* Registers are followed in their 4-byte form; only the first word matters for a mark. */
enum origin { ORIGIN_OTHER, ORIGIN_MARK, ORIGIN_CT_MARK };
enum { REGISTERS = 16 };
struct value { enum origin origin; uint32_t changed; };
struct clash_scan {
	uint32_t mask;
	void (*cb)(void *ctx, const char *text);
	void *ctx;
	struct value registers[REGISTERS];
	uint32_t mark_bits, ct_bits; /* what the rule at hand may change */
};

static struct value *value_of(struct clash_scan *s, uint32_t reg)
{
	static struct value nowhere;
	const uint32_t word = reg >= NFT_REG32_00 ? reg - NFT_REG32_00 : reg >= NFT_REG_1 ? (reg - NFT_REG_1) * 4 : REGISTERS;

	return word < REGISTERS ? &s->registers[word] : &nowhere;
}

static uint32_t first_word(const struct nftnl_expr *e, uint16_t attr, uint32_t absent)
{
	uint32_t len = 0, word = absent;
	const void *bytes = nftnl_expr_is_set(e, attr) ? nftnl_expr_get(e, attr, &len) : NULL;

	if (bytes && len >= sizeof(word))
		memcpy(&word, bytes, sizeof(word));
	return word;
}

static void follow_bitwise(struct clash_scan *s, const struct nftnl_expr *e)
{
	struct value v = *value_of(s, nftnl_expr_get_u32(e, NFTNL_EXPR_BITWISE_SREG));
	const bool is_bool = nftnl_expr_is_set(e, NFTNL_EXPR_BITWISE_MASK);

	v.changed |= is_bool ? ~first_word(e, NFTNL_EXPR_BITWISE_MASK, 0) | first_word(e, NFTNL_EXPR_BITWISE_XOR, UINT32_MAX) : UINT32_MAX;
	*value_of(s, nftnl_expr_get_u32(e, NFTNL_EXPR_BITWISE_DREG)) = v;
}

static void follow_store(struct clash_scan *s, uint32_t reg, bool is_ct)
{
	const struct value v = *value_of(s, reg);
	const uint32_t bits = v.origin == (is_ct ? ORIGIN_CT_MARK : ORIGIN_MARK) ? v.changed : UINT32_MAX;

	if (is_ct)
		s->ct_bits |= bits;
	else
		s->mark_bits |= bits;
}

/* Targets of iptables: MARK changes mask|mark; CONNMARK by its mode one of the two marks. */
static void follow_target(struct clash_scan *s, const struct nftnl_expr *e)
{
	const char *name = nftnl_expr_get_str(e, NFTNL_EXPR_TG_NAME);
	uint32_t len = 0;
	const void *bytes = nftnl_expr_get(e, NFTNL_EXPR_TG_INFO, &len);

	if (!name || !bytes)
		return;
	if (!strcmp(name, "MARK") && len >= sizeof(struct xt_mark_tginfo2)) {
		const struct xt_mark_tginfo2 *t = bytes;
		s->mark_bits |= t->mask | t->mark;
	} else if (!strcmp(name, "CONNMARK") && len >= sizeof(struct xt_connmark_tginfo1)) {
		const struct xt_connmark_tginfo1 *t = bytes;
		if (t->mode == XT_CONNMARK_RESTORE)
			s->mark_bits |= t->nfmask | t->ctmask;
		else if (t->mode == XT_CONNMARK_SAVE)
			s->ct_bits |= t->ctmask | t->nfmask;
		else
			s->ct_bits |= t->ctmask | t->ctmark;
	}
}

static int follow(struct nftnl_expr *e, void *ctx)
{
	struct clash_scan *s = ctx;
	const char *name = nftnl_expr_get_str(e, NFTNL_EXPR_NAME);

	if (!strcmp(name, "meta")) {
		const bool is_mark = nftnl_expr_get_u32(e, NFTNL_EXPR_META_KEY) == NFT_META_MARK;
		if (nftnl_expr_is_set(e, NFTNL_EXPR_META_SREG) && is_mark)
			follow_store(s, nftnl_expr_get_u32(e, NFTNL_EXPR_META_SREG), false);
		else if (nftnl_expr_is_set(e, NFTNL_EXPR_META_DREG))
			*value_of(s, nftnl_expr_get_u32(e, NFTNL_EXPR_META_DREG)) = (struct value){ is_mark ? ORIGIN_MARK : ORIGIN_OTHER, 0 };
	} else if (!strcmp(name, "ct")) {
		const bool is_mark = nftnl_expr_get_u32(e, NFTNL_EXPR_CT_KEY) == NFT_CT_MARK;
		if (nftnl_expr_is_set(e, NFTNL_EXPR_CT_SREG) && is_mark)
			follow_store(s, nftnl_expr_get_u32(e, NFTNL_EXPR_CT_SREG), true);
		else if (nftnl_expr_is_set(e, NFTNL_EXPR_CT_DREG))
			*value_of(s, nftnl_expr_get_u32(e, NFTNL_EXPR_CT_DREG)) = (struct value){ is_mark ? ORIGIN_CT_MARK : ORIGIN_OTHER, 0 };
	} else if (!strcmp(name, "bitwise")) {
		follow_bitwise(s, e);
	} else if (!strcmp(name, "immediate")) {
		*value_of(s, nftnl_expr_get_u32(e, NFTNL_EXPR_IMM_DREG)) = (struct value){ ORIGIN_OTHER, 0 };
	} else if (!strcmp(name, "lookup") && nftnl_expr_is_set(e, NFTNL_EXPR_LOOKUP_DREG)) {
		*value_of(s, nftnl_expr_get_u32(e, NFTNL_EXPR_LOOKUP_DREG)) = (struct value){ ORIGIN_OTHER, 0 };
	} else if (!strcmp(name, "target")) {
		follow_target(s, e);
	}
	return MNL_CB_OK;
}

static void scan_rule(void *ctx, const struct nlmsghdr *h)
{
	struct clash_scan *s = ctx;
	struct nftnl_rule *rule = (h->nlmsg_type & 0xff) == NFT_MSG_NEWRULE ? nftnl_rule_alloc() : NULL;
	char text[NFT_NAME_MAXLEN * 2 + 200];
	uint32_t family;
	const char *table;

	if (!rule)
		return;
	if (nftnl_rule_nlmsg_parse(h, rule) < 0)
		goto out;
	family = nftnl_rule_get_u32(rule, NFTNL_RULE_FAMILY);
	table = nftnl_rule_get_str(rule, NFTNL_RULE_TABLE);
	if (family == NFPROTO_INET && !strcmp(table, NFT_TABLE))
		goto out;
	memset(s->registers, 0, sizeof(s->registers));
	s->mark_bits = s->ct_bits = 0;
	nftnl_expr_foreach(rule, follow, s);
	if (!((s->mark_bits | s->ct_bits) & s->mask))
		goto out;
	snprintf(text, sizeof(text), "table %s %s, chain %s, rule handle %llu writes bits 0x%x of the %s, which are in mark-mask 0x%x", family_name(family), table,
		nftnl_rule_get_str(rule, NFTNL_RULE_CHAIN), (unsigned long long)nftnl_rule_get_u64(rule, NFTNL_RULE_HANDLE),
		(s->mark_bits | s->ct_bits) & s->mask, s->mark_bits & s->mask ? "packet mark" : "connection mark", s->mask);
	s->cb(s->ctx, text);
out:
	nftnl_rule_free(rule);
}

int nft_mark_clashes(struct nft *n, uint32_t mask, void (*cb)(void *ctx, const char *text), void *ctx)
{
	uint8_t bytes[MNL_NLMSG_HDRLEN + 1024];
	struct clash_scan s = { .mask = mask, .cb = cb, .ctx = ctx };

	return nft_request(n, nft_request_begin(bytes, NFT_MSG_GETRULE, NFPROTO_UNSPEC, NLM_F_DUMP), scan_rule, &s);
}
