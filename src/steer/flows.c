/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Dropping connections from conntrack. By mark the kernel does it in one request. By address it tells the entries (those of
 * one address where it can filter, else all of the family, of which others are passed over here) and gets their tuples back
 * in batches to delete. A full table of 262,144 entries is walked by the kernel in tens of milliseconds, and read whole in
 * some hundreds: the caller may do that on a thread of its own. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include "base/buf.h"
#include "base/hash.h"
#include "steer/rtnl.h"
#include "steer/ways.h"

enum {
	FILTERED_MAX = 8, /* up to so many addresses one dump each; more: one dump of everything */
	DELETES_MAX = 64 << 20,
	BATCH_MAX = 32 << 10,
	FILTER_ORIG_DST = 1 << 1 /* the kernel's bit for the destination in CTA_FILTER_ORIG_FLAGS */
};

static struct nlmsghdr *message_put(char *bytes, int command, uint8_t family)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);
	nlh->nlmsg_type = (uint16_t)(NFNL_SUBSYS_CTNETLINK << 8 | command);
	struct nfgenmsg *g = mnl_nlmsg_put_extra_header(nlh, sizeof *g);
	g->nfgen_family = family;
	g->version = NFNETLINK_V0;
	return nlh;
}

static void total_take(void *ctx, const struct nlmsghdr *nlh)
{
	const struct nlattr *a;
	mnl_attr_for_each(a, nlh, sizeof(struct nfgenmsg))
	{
		if (mnl_attr_get_type(a) == CTA_STATS_GLOBAL_ENTRIES)
			*(int *)ctx = (int)ntohl(mnl_attr_get_u32(a));
	}
}

static int entries_total(struct rtnl *r)
{
	char bytes[RTNL_MSG_MAX];
	int total = 0;
	int e = rtnl_request(r, message_put(bytes, IPCTNL_MSG_CT_GET_STATS, AF_UNSPEC), total_take, &total);
	return e < 0 ? 0 : total;
}

/* The number is the table's before and after, so what came or went by itself meanwhile is in it. */
int flows_drop_mark(uint32_t mark, uint32_t mask)
{
	char bytes[RTNL_MSG_MAX];
	struct rtnl r;
	if (!mask || !(mark & mask))
		return -EINVAL; /* would be everybody's connections */
	int e = rtnl_open(&r, NETLINK_NETFILTER, NULL);
	if (e < 0)
		return e;
	int before = entries_total(&r);
	struct nlmsghdr *nlh = message_put(bytes, IPCTNL_MSG_CT_DELETE, AF_UNSPEC);
	mnl_attr_put_u32(nlh, CTA_MARK, htonl(mark & mask));
	mnl_attr_put_u32(nlh, CTA_MARK_MASK, htonl(mask));
	e = rtnl_request(&r, nlh, NULL, NULL);
	int after = e == 0 ? entries_total(&r) : 0;
	rtnl_close(&r);
	if (e == -ENOENT)
		return 0;
	return e < 0 ? e : before > after ? before - after : 0;
}

/* What one dump looks for and the requests that delete what it found. judge decides where there is one, else the destination. */
struct search {
	bool (*judge)(void *ctx, const struct flow *f);
	void *ctx;
	const struct addr *addrs;
	unsigned count;
	uint32_t *slots, slot_count; /* index + 1, open addressing */
	uint64_t seed;
	uint32_t mask;
	struct buf deletes;
	int found;
};

static bool is_sought(const struct search *s, const struct addr *a)
{
	for (uint64_t h = hash_bytes(a->b, sizeof a->b, s->seed);; h++) {
		uint32_t slot = s->slots[h & (s->slot_count - 1)];
		if (!slot)
			return false;
		if (addr_equal(&s->addrs[slot - 1], a))
			return true;
	}
}

static int search_hash(struct search *s)
{
	s->slot_count = 16;
	while (s->slot_count < s->count * 2)
		s->slot_count *= 2;
	s->slots = calloc(s->slot_count, sizeof *s->slots);
	if (!s->slots)
		return -ENOMEM;
	s->seed = hash_seed();
	for (unsigned i = 0; i < s->count; i++) {
		uint64_t h = hash_bytes(s->addrs[i].b, sizeof s->addrs[i].b, s->seed);
		while (s->slots[h & (s->slot_count - 1)])
			h++;
		s->slots[h & (s->slot_count - 1)] = i + 1;
	}
	return 0;
}

static void tuple_read(struct flow *ret, const struct nlattr *tuple)
{
	const struct nlattr *part, *a;
	mnl_attr_for_each_nested(part, tuple)
	{
		if (mnl_attr_get_type(part) != CTA_TUPLE_IP)
			continue;
		mnl_attr_for_each_nested(a, part)
		{
			uint16_t type = mnl_attr_get_type(a), len = mnl_attr_get_payload_len(a);
			bool is_v4 = (type == CTA_IP_V4_SRC || type == CTA_IP_V4_DST) && len == 4;
			bool is_v6 = (type == CTA_IP_V6_SRC || type == CTA_IP_V6_DST) && len == 16;
			struct addr *to = type == CTA_IP_V4_SRC || type == CTA_IP_V6_SRC ? &ret->src : &ret->dst;
			if (!is_v4 && !is_v6)
				continue;
			to->family = is_v4 ? AF_INET : AF_INET6;
			memcpy(to->b, mnl_attr_get_payload(a), len);
		}
	}
}

static void entry_take(void *ctx, const struct nlmsghdr *nlh)
{
	struct search *s = ctx;
	const struct nlattr *a, *tuple = NULL, *id = NULL, *zone = NULL;
	struct flow f = {0};
	mnl_attr_for_each(a, nlh, sizeof(struct nfgenmsg))
	{
		switch (mnl_attr_get_type(a)) {
		case CTA_TUPLE_ORIG:
			tuple = a;
			break;
		case CTA_MARK:
			f.mark = ntohl(mnl_attr_get_u32(a));
			break;
		case CTA_ID:
			id = a;
			break;
		case CTA_ZONE:
			zone = a;
			break;
		}
	}
	if (!tuple || !(f.mark & s->mask))
		return;
	tuple_read(&f, tuple);
	char bytes[RTNL_MSG_MAX];
	if (!f.dst.family || tuple->nla_len > RTNL_MSG_MAX / 2 || !(s->judge ? s->judge(s->ctx, &f) : is_sought(s, &f.dst)))
		return;
	struct nlmsghdr *del = message_put(bytes, IPCTNL_MSG_CT_DELETE, f.dst.family);
	del->nlmsg_flags = NLM_F_REQUEST;
	const struct nlattr *parts[3] = {tuple, id, zone};
	for (int i = 0; i < 3; i++)
		if (parts[i])
			mnl_attr_put(del, parts[i]->nla_type, mnl_attr_get_payload_len(parts[i]), mnl_attr_get_payload(parts[i]));
	if (buf_add(&s->deletes, bytes, MNL_ALIGN(del->nlmsg_len)) == 0)
		s->found++;
}

static int entries_dump(struct rtnl *r, struct search *s, uint8_t family, const struct addr *only)
{
	char bytes[RTNL_MSG_MAX];
	struct nlmsghdr *nlh = message_put(bytes, IPCTNL_MSG_CT_GET, family);
	if (only) {
		struct nlattr *tuple = mnl_attr_nest_start(nlh, CTA_TUPLE_ORIG);
		struct nlattr *ip = mnl_attr_nest_start(nlh, CTA_TUPLE_IP);
		mnl_attr_put(nlh, CTA_IP_V4_DST, 4, only->b);
		mnl_attr_nest_end(nlh, ip);
		mnl_attr_nest_end(nlh, tuple);
		struct nlattr *filter = mnl_attr_nest_start(nlh, CTA_FILTER);
		mnl_attr_put_u32(nlh, CTA_FILTER_ORIG_FLAGS, FILTER_ORIG_DST);
		mnl_attr_nest_end(nlh, filter);
	}
	int e = rtnl_dump(r, nlh, entry_take, s);
	return e == -EAGAIN ? 0 : e; /* entries come and go all the time */
}

/* An entry that is gone already answers with an error of sequence 0, which nobody waits for. */
static int deletes_send(struct rtnl *r, struct buf *b)
{
	for (size_t at = 0; at < b->len;) {
		size_t end = at, last = at;
		while (end < b->len && end - at < BATCH_MAX) {
			last = end;
			end += MNL_ALIGN(((struct nlmsghdr *)(b->bytes + end))->nlmsg_len);
		}
		if (last > at && mnl_socket_sendto(r->socket, b->bytes + at, last - at) < 0)
			return -errno;
		int e = rtnl_request(r, (struct nlmsghdr *)(b->bytes + last), NULL, NULL);
		if (e < 0 && e != -ENOENT)
			return e;
		at = end;
	}
	return 0;
}

/* The kernel's filter on an IPv6 address passes all but that address (seen on Linux 6.18), so it is used for IPv4 only. */
static int family_dump(struct rtnl *r, struct search *s, uint8_t family)
{
	unsigned count = 0;
	int e = 0;
	for (unsigned i = 0; i < s->count; i++)
		count += s->addrs[i].family == family;
	if (!count)
		return 0;
	bool is_filtered = family == AF_INET && count <= FILTERED_MAX;
	for (unsigned i = 0; e == 0 && is_filtered && i < s->count; i++)
		if (s->addrs[i].family == family)
			e = entries_dump(r, s, family, &s->addrs[i]);
	/* Kernels before 5.8 have no such filter. */
	if (!is_filtered || e == -EINVAL || e == -EOPNOTSUPP)
		e = entries_dump(r, s, family, NULL);
	return e;
}

int flows_drop_addresses(const struct addr *a, unsigned count, uint32_t mask)
{
	struct search s = {.addrs = a, .count = count, .mask = mask};
	struct rtnl r;
	if (!count)
		return 0;
	int e = rtnl_open(&r, NETLINK_NETFILTER, NULL);
	if (e < 0)
		return e;
	buf_init(&s.deletes, DELETES_MAX);
	e = search_hash(&s);
	if (e == 0)
		e = family_dump(&r, &s, AF_INET);
	if (e == 0)
		e = family_dump(&r, &s, AF_INET6);
	if (e == 0)
		e = deletes_send(&r, &s.deletes);
	rtnl_close(&r);
	buf_free(&s.deletes);
	free(s.slots);
	return e < 0 ? e : s.found;
}

int flows_drop_if(uint32_t mask, bool (*judge)(void *ctx, const struct flow *f), void *ctx)
{
	struct search s = {.judge = judge, .ctx = ctx, .mask = mask};
	struct rtnl r;
	int e = rtnl_open(&r, NETLINK_NETFILTER, NULL);
	if (e < 0)
		return e;
	buf_init(&s.deletes, DELETES_MAX);
	e = entries_dump(&r, &s, AF_INET, NULL);
	if (e == 0)
		e = entries_dump(&r, &s, AF_INET6, NULL);
	if (e == 0)
		e = deletes_send(&r, &s.deletes);
	rtnl_close(&r);
	buf_free(&s.deletes);
	return e < 0 ? e : s.found;
}
