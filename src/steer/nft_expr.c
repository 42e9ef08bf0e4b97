/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libnftnl expressions, one phrase a function (nft_expr.h says which). Everything is computed in register 1; concatenations use the 4-byte registers
 * that overlay it. Marks, gids and directions are in host order in registers, addresses and ports in network order. One thread. */
#include "steer/nft_expr.h"
#include <errno.h>
#include <string.h>
#include <stdlib.h>
#include <net/if_arp.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <netinet/in.h>
#include <linux/rtnetlink.h>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <libnftnl/set.h>

enum { COMMENT_MAX = 120, TCP_FLAGS_OFFSET = 13, TCP_SYN = 2, TCP_RST = 4, TCP_OPTION_MSS = 2 };

void rule_begin(struct rule *x, struct nft *n, struct nft_batch *b, const char *chain)
{
	*x = (struct rule){ .n = n, .b = b, .r = nftnl_rule_alloc() };
	if (!x->r) {
		b->failed = -ENOMEM;
		return;
	}
	nftnl_rule_set_str(x->r, NFTNL_RULE_TABLE, NFT_TABLE);
	nftnl_rule_set_str(x->r, NFTNL_RULE_CHAIN, chain);
	nftnl_rule_set_u32(x->r, NFTNL_RULE_FAMILY, NFPROTO_INET);
}

void rule_end(struct rule *x, const char *comment)
{
	uint8_t udata[2 + COMMENT_MAX] = { 0 /* a comment */ };
	struct nlmsghdr *h;

	if (!x->r)
		return;
	if (comment) {
		const size_t len = strnlen(comment, COMMENT_MAX - 1);
		udata[1] = (uint8_t)(len + 1);
		memcpy(udata + 2, comment, len);
		nftnl_rule_set_data(x->r, NFTNL_RULE_USERDATA, udata, (uint32_t)len + 3);
	}
	h = nft_batch_message(x->n, x->b, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
	if (h) {
		nftnl_rule_nlmsg_build_payload(h, x->r);
		nft_batch_message_end(x->b);
	}
	nftnl_rule_free(x->r);
	x->r = NULL;
}

/* An expression of this rule; u32 attributes in pairs of {attribute, value}, ended by 0. */
static struct nftnl_expr *add(struct rule *x, const char *name, const uint32_t *pairs)
{
	struct nftnl_expr *e = x->r ? nftnl_expr_alloc(name) : NULL;

	if (!e) {
		x->b->failed = -ENOMEM;
		return NULL;
	}
	for (; pairs && pairs[0]; pairs += 2)
		nftnl_expr_set_u32(e, (uint16_t)pairs[0], pairs[1]);
	nftnl_rule_add_expr(x->r, e);
	return e;
}
#define ADD(x, name, ...) add(x, name, (const uint32_t[]){ __VA_ARGS__, 0 })

static void compare(struct rule *x, uint32_t op, const void *bytes, uint32_t len)
{
	struct nftnl_expr *e = ADD(x, "cmp", NFTNL_EXPR_CMP_SREG, NFT_REG_1, NFTNL_EXPR_CMP_OP, op);

	if (e)
		nftnl_expr_set(e, NFTNL_EXPR_CMP_DATA, bytes, len);
}

static void bitwise(struct rule *x, uint32_t mask, uint32_t flip)
{
	struct nftnl_expr *e = ADD(x, "bitwise", NFTNL_EXPR_BITWISE_SREG, NFT_REG_1, NFTNL_EXPR_BITWISE_DREG, NFT_REG_1, NFTNL_EXPR_BITWISE_LEN, 4);

	if (!e)
		return;
	nftnl_expr_set(e, NFTNL_EXPR_BITWISE_MASK, &mask, sizeof(mask));
	nftnl_expr_set(e, NFTNL_EXPR_BITWISE_XOR, &flip, sizeof(flip));
}

static void immediate(struct rule *x, const void *bytes, uint32_t len)
{
	struct nftnl_expr *e = ADD(x, "immediate", NFTNL_EXPR_IMM_DREG, NFT_REG_1);

	if (e)
		nftnl_expr_set(e, NFTNL_EXPR_IMM_DATA, bytes, len);
}

static void load_meta(struct rule *x, uint32_t key)
{
	ADD(x, "meta", NFTNL_EXPR_META_KEY, key, NFTNL_EXPR_META_DREG, NFT_REG_1);
}

static void load_payload(struct rule *x, uint32_t base, uint32_t offset, uint32_t len, uint32_t reg)
{
	ADD(x, "payload", NFTNL_EXPR_PAYLOAD_DREG, reg, NFTNL_EXPR_PAYLOAD_BASE, base, NFTNL_EXPR_PAYLOAD_OFFSET, offset, NFTNL_EXPR_PAYLOAD_LEN, len);
}

static void load_address(struct rule *x, enum dir d, bool is_v6)
{
	if (is_v6)
		load_payload(x, NFT_PAYLOAD_NETWORK_HEADER, d == SRC ? 8 : 24, 16, NFT_REG_1);
	else
		load_payload(x, NFT_PAYLOAD_NETWORK_HEADER, d == SRC ? 12 : 16, 4, NFT_REG_1);
}

static void load_ct(struct rule *x, uint32_t key)
{
	ADD(x, "ct", NFTNL_EXPR_CT_KEY, key, NFTNL_EXPR_CT_DREG, NFT_REG_1);
}

/* Looks register 1 up. id 0: a named set. dreg -1: only a condition; else the value's register. */
static void lookup(struct rule *x, const char *set, uint32_t id, int dreg, bool is_negated)
{
	struct nftnl_expr *e = ADD(x, "lookup", NFTNL_EXPR_LOOKUP_SREG, NFT_REG_1);

	if (!e)
		return;
	nftnl_expr_set_str(e, NFTNL_EXPR_LOOKUP_SET, set);
	if (id)
		nftnl_expr_set_u32(e, NFTNL_EXPR_LOOKUP_SET_ID, id);
	if (dreg >= 0)
		nftnl_expr_set_u32(e, NFTNL_EXPR_LOOKUP_DREG, (uint32_t)dreg);
	if (is_negated)
		nftnl_expr_set_u32(e, NFTNL_EXPR_LOOKUP_FLAGS, NFT_LOOKUP_F_INV);
}

static const char anonymous_name[] = "__set%d";

/* Declares an anonymous set of this batch and opens its elements. data_type 0: a plain set. size lets the kernel choose its fixed hash; 0: not told.
 * Returns the id to look it up by. */
static uint32_t anonymous_begin(struct rule *x, struct nft_elems *e, uint32_t flags, uint32_t key_type, uint32_t key_len, uint32_t data_type, uint32_t size)
{
	struct nftnl_set *s = nftnl_set_alloc();
	const uint32_t id = ++x->b->set_id;
	struct nlmsghdr *h;

	if (!s) {
		x->b->failed = -ENOMEM;
		nft_elems_begin(e, x->n, x->b, NFT_MSG_NEWSETELEM, NLM_F_CREATE, anonymous_name);
		return id;
	}
	nftnl_set_set_str(s, NFTNL_SET_TABLE, NFT_TABLE);
	nftnl_set_set_str(s, NFTNL_SET_NAME, anonymous_name);
	nftnl_set_set_u32(s, NFTNL_SET_FAMILY, NFPROTO_INET);
	nftnl_set_set_u32(s, NFTNL_SET_ID, id);
	nftnl_set_set_u32(s, NFTNL_SET_FLAGS, NFT_SET_ANONYMOUS | NFT_SET_CONSTANT | (data_type ? NFT_SET_MAP : 0) | flags);
	nftnl_set_set_u32(s, NFTNL_SET_KEY_TYPE, key_type);
	nftnl_set_set_u32(s, NFTNL_SET_KEY_LEN, key_len);
	nft_set_byteorder(s, key_type, data_type);
	if (size)
		nftnl_set_set_u32(s, NFTNL_SET_DESC_SIZE, size);
	if (data_type) {
		nftnl_set_set_u32(s, NFTNL_SET_DATA_TYPE, data_type);
		nftnl_set_set_u32(s, NFTNL_SET_DATA_LEN, 16);
	}
	h = nft_batch_message(x->n, x->b, NFT_MSG_NEWSET, NLM_F_CREATE);
	if (h) {
		nftnl_set_nlmsg_build_payload(h, s);
		nft_batch_message_end(x->b);
	}
	nftnl_set_free(s);
	nft_elems_begin(e, x->n, x->b, NFT_MSG_NEWSETELEM, NLM_F_CREATE, anonymous_name);
	e->set_id = id;
	return id;
}

/* Looks register 1 up among fixed keys, `stride` bytes apart. */
static void lookup_values(struct rule *x, uint32_t type, const void *keys, size_t stride, uint32_t key_len, unsigned count, bool is_negated)
{
	struct nft_elems e;
	uint32_t id;

	if (count == 1) {
		compare(x, is_negated ? NFT_CMP_NEQ : NFT_CMP_EQ, keys, key_len);
		return;
	}
	id = anonymous_begin(x, &e, 0, type, key_len, 0, count);
	for (unsigned i = 0; i < count; i++) {
		nft_elems_split(&e);
		nft_elems_add(&e, &(struct nft_elem){ .key = (const uint8_t *)keys + i * stride, .key_len = key_len });
	}
	nft_elems_end(&e);
	lookup(x, anonymous_name, id, -1, is_negated);
}

void match_family(struct rule *x, bool is_v6)
{
	const uint8_t family = is_v6 ? NFPROTO_IPV6 : NFPROTO_IPV4;

	load_meta(x, NFT_META_NFPROTO);
	compare(x, NFT_CMP_EQ, &family, 1);
}

void match_interface(struct rule *x, enum dir d, const char *name)
{
	char padded[IFNAME_MAX] = { 0 };

	memcpy(padded, name, strnlen(name, IFNAME_MAX - 1));
	load_meta(x, d == OUT ? NFT_META_OIFNAME : NFT_META_IIFNAME);
	compare(x, NFT_CMP_EQ, padded, sizeof(padded));
}

void match_lo(struct rule *x, enum dir d)
{
	const uint32_t lo = 1; /* in every network namespace */

	load_meta(x, d == OUT ? NFT_META_OIF : NFT_META_IIF);
	compare(x, NFT_CMP_EQ, &lo, sizeof(lo));
}

void match_interfaces(struct rule *x, enum dir d, const char (*names)[IFNAME_MAX], unsigned count, bool is_negated)
{
	char padded[IFNAME_MAX], *keys = calloc(count, IFNAME_MAX);

	if (!keys) {
		x->b->failed = -ENOMEM;
		return;
	}
	for (unsigned i = 0; i < count; i++) {
		memset(padded, 0, sizeof(padded));
		memcpy(padded, names[i], strnlen(names[i], IFNAME_MAX - 1));
		memcpy(keys + (size_t)i * IFNAME_MAX, padded, IFNAME_MAX);
	}
	load_meta(x, d == OUT ? NFT_META_OIFNAME : NFT_META_IIFNAME);
	lookup_values(x, NFT_TYPE_IFNAME, keys, IFNAME_MAX, IFNAME_MAX, count, is_negated);
	free(keys);
}

void match_set_interface(struct rule *x, enum dir d, const char *set)
{
	load_meta(x, d == OUT ? NFT_META_OIFNAME : NFT_META_IIFNAME);
	lookup(x, set, 0, -1, false);
}

void match_address(struct rule *x, enum dir d, const struct addr *a)
{
	match_family(x, nft_is_v6(a->family));
	load_address(x, d, nft_is_v6(a->family));
	compare(x, NFT_CMP_EQ, a->b, nft_addr_len(a->family));
}

void match_address_set(struct rule *x, enum dir d, bool is_v6, const char *set, bool is_negated)
{
	load_address(x, d, is_v6);
	lookup(x, set, 0, -1, is_negated);
}

static int by_first(const void *a, const void *b)
{
	return memcmp(((const struct range *)a)->first.b, ((const struct range *)b)->first.b, 16);
}

/* Turns the prefixes of one family into sorted ranges; what overlaps is joined where they are written. */
static unsigned ranges_of(struct range *ret, bool is_v6, const struct prefix *p, unsigned count)
{
	unsigned n = 0;

	for (unsigned i = 0; i < count; i++) {
		const unsigned bits = nft_addr_len(p[i].addr.family) * 8;
		if (nft_is_v6(p[i].addr.family) != is_v6)
			continue;
		ret[n].first = ret[n].last = p[i].addr;
		for (unsigned bit = p[i].len; bit < bits; bit++)
			ret[n].last.b[bit / 8] |= (uint8_t)(0x80 >> bit % 8);
		n++;
	}
	qsort(ret, n, sizeof(*ret), by_first);
	return n;
}

/* Register 1 against one prefix, given as its range. */
static void compare_prefix(struct rule *x, uint32_t op, const struct range *r)
{
	const uint32_t len = nft_addr_len(r->first.family);
	uint8_t mask[16], none[16] = { 0 };
	struct nftnl_expr *e;

	for (uint32_t i = 0; i < len; i++)
		mask[i] = (uint8_t)~(r->first.b[i] ^ r->last.b[i]);
	if (memcmp(r->first.b, r->last.b, len) != 0) {
		e = ADD(x, "bitwise", NFTNL_EXPR_BITWISE_SREG, NFT_REG_1, NFTNL_EXPR_BITWISE_DREG, NFT_REG_1, NFTNL_EXPR_BITWISE_LEN, len);
		if (!e)
			return;
		nftnl_expr_set(e, NFTNL_EXPR_BITWISE_MASK, mask, len);
		nftnl_expr_set(e, NFTNL_EXPR_BITWISE_XOR, none, len);
	}
	compare(x, op, r->first.b, len);
}

void match_prefixes(struct rule *x, enum dir d, bool is_v6, const struct prefix *p, unsigned count, bool is_negated)
{
	struct range *r = calloc(count ? count : 1, sizeof(*r));
	struct nft_elems e;
	uint32_t id;
	unsigned n;

	if (!r) {
		x->b->failed = -ENOMEM;
		return;
	}
	n = ranges_of(r, is_v6, p, count);
	load_address(x, d, is_v6);
	if (n == 1) {
		compare_prefix(x, is_negated ? NFT_CMP_NEQ : NFT_CMP_EQ, &r[0]);
		free(r);
		return;
	}
	id = anonymous_begin(x, &e, NFT_SET_INTERVAL, is_v6 ? NFT_TYPE_IPV6 : NFT_TYPE_IPV4, is_v6 ? 16 : 4, 0, 0);
	nft_elems_put_ranges(&e, r, n);
	nft_elems_end(&e);
	lookup(x, anonymous_name, id, -1, is_negated);
	free(r);
}

void match_endpoints(struct rule *x, bool is_v6, const struct endpoint *p, unsigned count, uint8_t protocol)
{
	const uint32_t addr_len = is_v6 ? 16 : 4, type = (is_v6 ? NFT_TYPE_IPV6 : NFT_TYPE_IPV4) << 6 | NFT_TYPE_SERVICE;
	struct nft_elems e;
	uint32_t id;

	match_family(x, is_v6);
	match_protocol(x, protocol);
	id = anonymous_begin(x, &e, 0, type, addr_len + 4, 0, 0);
	for (unsigned i = 0; i < count; i++) {
		const uint16_t port = htons(p[i].port);
		uint8_t key[20] = { 0 };
		if (nft_is_v6(p[i].addr.family) != is_v6 || p[i].port == 0)
			continue;
		memcpy(key, p[i].addr.b, addr_len);
		memcpy(key + addr_len, &port, 2);
		nft_elems_split(&e);
		nft_elems_add(&e, &(struct nft_elem){ .key = key, .key_len = addr_len + 4 });
	}
	nft_elems_end(&e);
	load_address(x, DST, is_v6);
	load_payload(x, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, NFT_REG32_00 + addr_len / 4);
	lookup(x, anonymous_name, id, -1, false);
}

void match_ether(struct rule *x, bool is_negated)
{
	const uint16_t type = ARPHRD_ETHER;

	load_meta(x, NFT_META_IIFTYPE);
	compare(x, is_negated ? NFT_CMP_NEQ : NFT_CMP_EQ, &type, sizeof(type));
}

void match_macs(struct rule *x, const uint8_t (*macs)[6], unsigned count, bool is_negated)
{
	load_payload(x, NFT_PAYLOAD_LL_HEADER, 6, 6, NFT_REG_1);
	lookup_values(x, NFT_TYPE_ETHER, macs, 6, 6, count, is_negated);
}

void match_protocol(struct rule *x, uint8_t protocol)
{
	load_meta(x, NFT_META_L4PROTO);
	compare(x, NFT_CMP_EQ, &protocol, 1);
}

void match_ports(struct rule *x, enum dir d, const uint16_t *ports, unsigned count)
{
	uint16_t *keys = calloc(count, sizeof(*keys));

	if (!keys) {
		x->b->failed = -ENOMEM;
		return;
	}
	for (unsigned i = 0; i < count; i++)
		keys[i] = htons(ports[i]);
	load_payload(x, NFT_PAYLOAD_TRANSPORT_HEADER, d == SRC ? 0 : 2, 2, NFT_REG_1);
	lookup_values(x, NFT_TYPE_SERVICE, keys, 2, 2, count, false);
	free(keys);
}

void match_port(struct rule *x, enum dir d, uint16_t port)
{
	match_ports(x, d, &port, 1);
}

static void load_address_type(struct rule *x, uint32_t flags)
{
	ADD(x, "fib", NFTNL_EXPR_FIB_DREG, NFT_REG_1, NFTNL_EXPR_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE, NFTNL_EXPR_FIB_FLAGS, flags);
}

static void match_address_type(struct rule *x, uint32_t flags, uint32_t op)
{
	const uint32_t local = RTN_LOCAL;

	load_address_type(x, flags);
	compare(x, op, &local, sizeof(local));
}

void match_not_forwarded(struct rule *x)
{
	static const uint32_t types[] = { RTN_LOCAL, RTN_BROADCAST, RTN_MULTICAST };

	load_address_type(x, NFTA_FIB_F_DADDR);
	lookup_values(x, NFT_TYPE_FIB_ADDRESS, types, sizeof(types[0]), sizeof(types[0]), 3, false);
}

void match_local(struct rule *x, enum dir d, bool is_negated)
{
	match_address_type(x, d == SRC ? NFTA_FIB_F_SADDR : NFTA_FIB_F_DADDR, is_negated ? NFT_CMP_NEQ : NFT_CMP_EQ);
}

void match_source_not_of_exit(struct rule *x)
{
	match_address_type(x, NFTA_FIB_F_SADDR | NFTA_FIB_F_OIF, NFT_CMP_NEQ);
}

void match_direction(struct rule *x, bool is_reply)
{
	const uint8_t direction = is_reply ? 1 : 0;

	load_ct(x, NFT_CT_DIRECTION);
	compare(x, NFT_CMP_EQ, &direction, 1);
}

static void match_state(struct rule *x, uint32_t bit)
{
	const uint32_t zero = 0;

	load_ct(x, NFT_CT_STATE);
	bitwise(x, bit, 0);
	compare(x, NFT_CMP_NEQ, &zero, sizeof(zero));
}

void match_new(struct rule *x)
{
	match_state(x, NF_CT_STATE_BIT(IP_CT_NEW));
}

void match_untracked(struct rule *x)
{
	match_state(x, NF_CT_STATE_UNTRACKED_BIT);
}

void match_gid(struct rule *x, uint32_t gid)
{
	load_meta(x, NFT_META_SKGID);
	compare(x, NFT_CMP_EQ, &gid, sizeof(gid));
}

void match_syn(struct rule *x)
{
	const uint8_t mask = TCP_SYN | TCP_RST, none = 0, syn = TCP_SYN;
	struct nftnl_expr *e;

	match_protocol(x, IPPROTO_TCP);
	load_payload(x, NFT_PAYLOAD_TRANSPORT_HEADER, TCP_FLAGS_OFFSET, 1, NFT_REG_1);
	e = ADD(x, "bitwise", NFTNL_EXPR_BITWISE_SREG, NFT_REG_1, NFTNL_EXPR_BITWISE_DREG, NFT_REG_1, NFTNL_EXPR_BITWISE_LEN, 1);
	if (e) {
		nftnl_expr_set(e, NFTNL_EXPR_BITWISE_MASK, &mask, 1);
		nftnl_expr_set(e, NFTNL_EXPR_BITWISE_XOR, &none, 1);
	}
	compare(x, NFT_CMP_EQ, &syn, 1);
}

void act_mark(struct rule *x, uint32_t mask, uint32_t value)
{
	load_meta(x, NFT_META_MARK);
	bitwise(x, ~mask, value);
	ADD(x, "meta", NFTNL_EXPR_META_KEY, NFT_META_MARK, NFTNL_EXPR_META_SREG, NFT_REG_1);
}

void act_ct_mark(struct rule *x, uint32_t mask, uint32_t value)
{
	load_ct(x, NFT_CT_MARK);
	bitwise(x, ~mask, value);
	ADD(x, "ct", NFTNL_EXPR_CT_KEY, NFT_CT_MARK, NFTNL_EXPR_CT_SREG, NFT_REG_1);
}

void act_mark_whole(struct rule *x, uint32_t value)
{
	immediate(x, &value, sizeof(value));
	ADD(x, "meta", NFTNL_EXPR_META_KEY, NFT_META_MARK, NFTNL_EXPR_META_SREG, NFT_REG_1);
}

void act_mark_of_mac(struct rule *x, const char *map)
{
	load_payload(x, NFT_PAYLOAD_LL_HEADER, 6, 6, NFT_REG_1);
	lookup(x, map, 0, NFT_REG_1, false);
	ADD(x, "meta", NFTNL_EXPR_META_KEY, NFT_META_MARK, NFTNL_EXPR_META_SREG, NFT_REG_1);
}

static void object(struct rule *x, uint32_t type, const char *name)
{
	struct nftnl_expr *e = ADD(x, "objref", NFTNL_EXPR_OBJREF_IMM_TYPE, type);

	if (e)
		nftnl_expr_set_str(e, NFTNL_EXPR_OBJREF_IMM_NAME, name);
}

void act_counter(struct rule *x, const char *name)
{
	object(x, NFT_OBJECT_COUNTER, name);
}

void act_ct_timeout(struct rule *x, const char *name)
{
	object(x, NFT_OBJECT_CT_TIMEOUT, name);
}

void act_verdict(struct rule *x, int verdict, const char *chain)
{
	struct nftnl_expr *e = add(x, "immediate", NULL);

	if (!e)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT);
	nftnl_expr_set_u32(e, NFTNL_EXPR_IMM_VERDICT, (uint32_t)verdict);
	if (chain)
		nftnl_expr_set_str(e, NFTNL_EXPR_IMM_CHAIN, chain);
}

void act_redirect(struct rule *x, uint16_t port)
{
	const uint16_t wire = htons(port);

	immediate(x, &wire, sizeof(wire));
	ADD(x, "redir", NFTNL_EXPR_REDIR_REG_PROTO_MIN, NFT_REG_1);
}

void act_masquerade(struct rule *x)
{
	add(x, "masq", NULL);
}

void act_notrack(struct rule *x)
{
	add(x, "notrack", NULL);
}

void act_clamp_mss(struct rule *x)
{
	struct nftnl_expr *e;

	ADD(x, "rt", NFTNL_EXPR_RT_KEY, NFT_RT_TCPMSS, NFTNL_EXPR_RT_DREG, NFT_REG_1);
	ADD(x, "byteorder", NFTNL_EXPR_BYTEORDER_SREG, NFT_REG_1, NFTNL_EXPR_BYTEORDER_DREG, NFT_REG_1, NFTNL_EXPR_BYTEORDER_OP, NFT_BYTEORDER_HTON,
		NFTNL_EXPR_BYTEORDER_LEN, 2, NFTNL_EXPR_BYTEORDER_SIZE, 2);
	e = ADD(x, "exthdr", NFTNL_EXPR_EXTHDR_SREG, NFT_REG_1, NFTNL_EXPR_EXTHDR_OFFSET, 2, NFTNL_EXPR_EXTHDR_LEN, 2, NFTNL_EXPR_EXTHDR_OP,
		NFT_EXTHDR_OP_TCPOPT);
	if (e)
		nftnl_expr_set_u8(e, NFTNL_EXPR_EXTHDR_TYPE, TCP_OPTION_MSS);
}

void act_reject(struct rule *x, bool is_tcp)
{
	struct nftnl_expr *e = add(x, "reject", NULL);

	if (!e)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_REJECT_TYPE, is_tcp ? NFT_REJECT_TCP_RST : NFT_REJECT_ICMPX_UNREACH);
	nftnl_expr_set_u8(e, NFTNL_EXPR_REJECT_CODE, is_tcp ? 0 : NFT_REJECT_ICMPX_PORT_UNREACH);
}

static void go_by_table(struct rule *x, uint32_t key_type, uint32_t key_len, const struct jump_table *t, unsigned count)
{
	struct nft_elems e;
	uint32_t id = anonymous_begin(x, &e, 0, key_type, key_len, NFT_DATA_VERDICT, count);

	for (unsigned i = 0; i < count; i++) {
		nft_elems_split(&e);
		nft_elems_add(&e, &(struct nft_elem){ .key = t[i].key, .key_len = t[i].key_len, .go = t[i].chain });
	}
	nft_elems_end(&e);
	lookup(x, anonymous_name, id, NFT_REG_VERDICT, false);
}

void act_go_by_interface(struct rule *x, enum dir d, const struct jump_table *t, unsigned count)
{
	load_meta(x, d == OUT ? NFT_META_OIFNAME : NFT_META_IIFNAME);
	go_by_table(x, NFT_TYPE_IFNAME, IFNAME_MAX, t, count);
}

void act_go_by_mark(struct rule *x, bool is_ct, uint32_t mask, const struct jump_table *t, unsigned count)
{
	if (is_ct)
		load_ct(x, NFT_CT_MARK);
	else
		load_meta(x, NFT_META_MARK);
	bitwise(x, mask, 0);
	go_by_table(x, NFT_TYPE_MARK, 4, t, count);
}
