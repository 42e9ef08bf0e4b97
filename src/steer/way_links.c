/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Links, addresses and the main table's default routes as the kernel has them, read whole at a sync. Own addresses stand in a
 * hash, since every address that wants into a set is asked for. Which events make which part stale is decided here. */
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <linux/fib_rules.h>
#include "base/err.h"
#include "base/hash.h"
#include "steer/ways_internal.h"

enum { TRIES = 4 };

/* Makes room for one more of a growing table; false: no memory or its limit. */
static bool room_make(void **table, unsigned count, unsigned *room, size_t each, unsigned max)
{
	if (count < *room)
		return true;
	unsigned want = *room ? *room * 2 : 64;
	want = want > max ? max : want;
	void *p = count < want ? realloc(*table, want * each) : NULL;
	if (!p)
		return false;
	*table = p;
	*room = want;
	return true;
}

static void link_take(void *ctx, const struct nlmsghdr *nlh)
{
	struct ways *w = ctx;
	const struct ifinfomsg *m = mnl_nlmsg_get_payload(nlh);
	if (nlh->nlmsg_type != RTM_NEWLINK)
		return;
	if (!room_make((void **)&w->links, w->link_count, &w->link_room, sizeof *w->links, LINKS_MAX)) {
		w->read_failed = true;
		return;
	}
	struct link *l = &w->links[w->link_count];
	*l = (struct link){.ifindex = m->ifi_index, .flags = m->ifi_flags, .type = m->ifi_type};
	const struct nlattr *a;
	mnl_attr_for_each(a, nlh, sizeof *m)
	{
		if (mnl_attr_get_type(a) == IFLA_IFNAME)
			strncpy(l->name, mnl_attr_get_str(a), IFNAME_MAX - 1);
	}
	w->link_count++;
}

static void addr_take(void *ctx, const struct nlmsghdr *nlh)
{
	struct ways *w = ctx;
	const struct ifaddrmsg *m = mnl_nlmsg_get_payload(nlh);
	size_t len = m->ifa_family == AF_INET ? 4 : m->ifa_family == AF_INET6 ? 16 : 0;
	if (nlh->nlmsg_type != RTM_NEWADDR || !len)
		return;
	const void *address = NULL, *local = NULL;
	uint32_t flags = m->ifa_flags;
	const struct nlattr *a;
	mnl_attr_for_each(a, nlh, sizeof *m)
	{
		switch (mnl_attr_get_type(a)) {
		case IFA_ADDRESS:
			address = mnl_attr_get_payload_len(a) == len ? mnl_attr_get_payload(a) : NULL;
			break;
		case IFA_LOCAL:
			local = mnl_attr_get_payload_len(a) == len ? mnl_attr_get_payload(a) : NULL;
			break;
		case IFA_FLAGS:
			flags = mnl_attr_get_u32(a);
			break;
		}
	}
	/* On point-to-point links IFA_ADDRESS is the other end. */
	address = local ? local : address;
	if (!address)
		return;
	if (!room_make((void **)&w->addrs, w->addr_count, &w->addr_room, sizeof *w->addrs, OWN_ADDRS_MAX)) {
		w->read_failed = true;
		return;
	}
	struct own_addr *o = &w->addrs[w->addr_count++];
	*o = (struct own_addr){.addr.family = m->ifa_family, .ifindex = (int)m->ifa_index, .len = m->ifa_prefixlen};
	memcpy(o->addr.b, address, len);
	o->is_global = m->ifa_scope == RT_SCOPE_UNIVERSE && !(flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED | IFA_F_DEPRECATED));
}

static void default_add(struct ways *w, const struct main_default *d)
{
	if (!d->ifindex)
		return;
	if (w->default_count < MAIN_DEFAULTS_MAX)
		w->defaults[w->default_count++] = *d;
	else
		w->has_more_defaults = true;
}

static void gateway_take(struct main_default *d, const struct nlattr *a)
{
	if (mnl_attr_get_type(a) == RTA_GATEWAY && mnl_attr_get_payload_len(a) == (d->family == AF_INET ? 4 : 16)) {
		d->gateway.family = d->family;
		memcpy(d->gateway.b, mnl_attr_get_payload(a), mnl_attr_get_payload_len(a));
	} else if (mnl_attr_get_type(a) == RTA_VIA && mnl_attr_get_payload_len(a) == sizeof(struct rtvia) + 16) {
		const struct rtvia *v = mnl_attr_get_payload(a);
		d->gateway.family = AF_INET6;
		memcpy(d->gateway.b, v->rtvia_addr, 16);
	}
}

static void nexthops_take(struct ways *w, struct main_default d, const struct nlattr *multipath)
{
	const struct rtnexthop *n = mnl_attr_get_payload(multipath);
	int left = mnl_attr_get_payload_len(multipath);
	for (; RTNH_OK(n, left); left -= RTNH_ALIGN(n->rtnh_len), n = RTNH_NEXT(n)) {
		d.ifindex = n->rtnh_ifindex;
		memset(&d.gateway, 0, sizeof d.gateway);
		const struct nlattr *attr;
		mnl_attr_for_each_payload((void *)RTNH_DATA(n), n->rtnh_len - sizeof *n)
		{
			gateway_take(&d, attr);
		}
		default_add(w, &d);
	}
}

static void default_take(void *ctx, const struct nlmsghdr *nlh)
{
	struct ways *w = ctx;
	const struct rtmsg *m = mnl_nlmsg_get_payload(nlh);
	if (nlh->nlmsg_type != RTM_NEWROUTE || m->rtm_dst_len || m->rtm_type != RTN_UNICAST || (m->rtm_flags & RTM_F_CLONED))
		return;
	struct main_default d = {.family = m->rtm_family};
	uint32_t table = m->rtm_table;
	const struct nlattr *a, *multipath = NULL;
	mnl_attr_for_each(a, nlh, sizeof *m)
	{
		switch (mnl_attr_get_type(a)) {
		case RTA_TABLE:
			table = mnl_attr_get_u32(a);
			break;
		case RTA_OIF:
			d.ifindex = (int)mnl_attr_get_u32(a);
			break;
		case RTA_PRIORITY:
			d.metric = mnl_attr_get_u32(a);
			break;
		case RTA_MULTIPATH:
			multipath = a;
			break;
		default:
			gateway_take(&d, a);
		}
	}
	if (table != RT_TABLE_MAIN)
		return;
	if (multipath)
		nexthops_take(w, d, multipath);
	else
		default_add(w, &d);
}

static int dump(struct ways *w, uint16_t type, uint8_t family, size_t header, unsigned *count, rtnl_cb cb)
{
	char bytes[RTNL_MSG_MAX];
	int e = -EAGAIN;
	for (int n = 0; n < TRIES && e == -EAGAIN; n++) {
		struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);
		nlh->nlmsg_type = type;
		uint8_t *h = mnl_nlmsg_put_extra_header(nlh, header); /* the family is the first byte of every such header */
		h[0] = family;
		if (type == RTM_GETROUTE) {
			((struct rtmsg *)h)->rtm_table = RT_TABLE_MAIN;
			mnl_attr_put_u32(nlh, RTA_TABLE, RT_TABLE_MAIN);
		}
		w->read_failed = false;
		unsigned before = *count;
		e = rtnl_dump(&w->req, nlh, cb, w);
		if (e == -EAGAIN)
			*count = n < TRIES - 1 ? before : *count; /* always changing: the next event brings the rest */
	}
	if (e < 0 && e != -EAGAIN && !(e == -ENOENT && type == RTM_GETROUTE))
		return ways_fail(w, e, "reading the kernel's links, addresses or routes: %s", w->req.error);
	return w->read_failed ? ways_fail(w, NW_EFULL, "more links or addresses than nameway keeps (%u links, %u addresses)",
	                                LINKS_MAX, OWN_ADDRS_MAX)
	                      : 0;
}

static int addrs_hash(struct ways *w)
{
	unsigned want = 64;
	while (want < w->addr_count * 2)
		want *= 2;
	if (want != w->addr_slot_count) {
		uint32_t *p = realloc(w->addr_slots, want * sizeof *p);
		if (!p)
			return -ENOMEM;
		w->addr_slots = p;
		w->addr_slot_count = want;
	}
	memset(w->addr_slots, 0, want * sizeof *w->addr_slots);
	for (unsigned i = 0; i < w->addr_count; i++) {
		const struct addr *a = &w->addrs[i].addr;
		uint64_t h = hash_bytes(a->b, sizeof a->b, w->addr_seed + a->family);
		while (w->addr_slots[h & (want - 1)])
			h++;
		w->addr_slots[h & (want - 1)] = i + 1;
	}
	return 0;
}

bool ways_is_own_address(const struct ways *w, const struct addr *a)
{
	if (!w->addr_slot_count)
		return false;
	uint64_t h = hash_bytes(a->b, sizeof a->b, w->addr_seed + a->family);
	for (;; h++) {
		uint32_t slot = w->addr_slots[h & (w->addr_slot_count - 1)];
		if (!slot)
			return false;
		if (addr_equal(&w->addrs[slot - 1].addr, a))
			return true;
	}
}

void ways_own_networks(const struct ways *w, void (*cb)(void *ctx, const struct prefix *p, bool is_outside), void *ctx)
{
	for (unsigned i = 0; i < w->addr_count; i++) {
		const struct own_addr *o = &w->addrs[i];
		const struct link *l = links_by_index(w, o->ifindex);
		bool is_outside = l && links_is_outside(w, l->name);
		for (unsigned k = 0; l && w->cur && k < w->cur->count; k++)
			is_outside = is_outside || !strcmp(w->cur->way[k].c->interface, l->name);
		cb(ctx, &(struct prefix){.addr = o->addr, .len = o->len}, is_outside);
	}
}

const char *ways_overflow(const struct ways *w)
{
	if (w->has_more_endpoints)
		return "tunnels have more peers than nameway keeps endpoints of (1024): addresses of the others may enter sets, and the router's own steered processes may be led into the tunnel that carries them. Mend: fewer peers";
	if (w->has_more_defaults)
		return "the main table has more default routes than nameway keeps (256): interfaces of the others do not count as outside. Mend: fewer default routes";
	if (w->has_more_closed)
		return "server.listen names every address, and there are more interfaces than nameway closes to clients' unmarked packets (1023). Mend: name interfaces or addresses";
	return NULL;
}

int links_sync(struct ways *w)
{
	w->link_count = w->addr_count = 0;
	int e = dump(w, RTM_GETLINK, AF_UNSPEC, sizeof(struct ifinfomsg), &w->link_count, link_take);
	if (e == 0)
		e = dump(w, RTM_GETADDR, AF_UNSPEC, sizeof(struct ifaddrmsg), &w->addr_count, addr_take);
	int hashed = addrs_hash(w);
	if (e == 0)
		e = hashed;
	if (e < 0 || !w->defaults_dirty)
		return e;
	w->default_count = 0;
	w->has_more_defaults = false;
	e = dump(w, RTM_GETROUTE, AF_INET, sizeof(struct rtmsg), &w->default_count, default_take);
	if (e == 0)
		e = dump(w, RTM_GETROUTE, AF_INET6, sizeof(struct rtmsg), &w->default_count, default_take);
	w->defaults_dirty = e < 0;
	return e;
}

const struct link *links_find(const struct ways *w, const char *name)
{
	for (unsigned i = 0; i < w->link_count; i++)
		if (!strcmp(w->links[i].name, name))
			return &w->links[i];
	return NULL;
}

const struct link *links_by_index(const struct ways *w, int ifindex)
{
	for (unsigned i = 0; i < w->link_count; i++)
		if (w->links[i].ifindex == ifindex)
			return &w->links[i];
	return NULL;
}

bool links_is_outside(const struct ways *w, const char *name)
{
	const struct link *l = links_find(w, name);
	for (unsigned i = 0; l && i < w->default_count; i++)
		if (w->defaults[i].ifindex == l->ifindex)
			return true;
	return false;
}

static bool is_table_of(const struct plan *p, uint32_t table)
{
	for (unsigned i = 0; p && i < p->count; i++)
		if (p->way[i].c->table_id && p->way[i].c->table_id == table)
			return true;
	return false;
}

static void route_event(struct ways *w, const struct nlmsghdr *nlh)
{
	const struct rtmsg *m = mnl_nlmsg_get_payload(nlh);
	uint32_t table = m->rtm_table;
	const struct nlattr *a;
	mnl_attr_for_each(a, nlh, sizeof *m)
	{
		if (mnl_attr_get_type(a) == RTA_TABLE)
			table = mnl_attr_get_u32(a);
	}
	if (table == RT_TABLE_MAIN && !m->rtm_dst_len && !(m->rtm_flags & RTM_F_CLONED))
		w->dirty = w->defaults_dirty = true;
	/* Our own requests are echoed to us too; they need no second look. */
	if (nlh->nlmsg_pid != w->req.portid && is_table_of(w->cur, table))
		w->dirty = true;
}

static void rule_event(struct ways *w, const struct nlmsghdr *nlh)
{
	uint32_t priority = 0;
	const struct nlattr *a;
	mnl_attr_for_each(a, nlh, sizeof(struct fib_rule_hdr))
	{
		if (mnl_attr_get_type(a) == FRA_PRIORITY)
			priority = mnl_attr_get_u32(a);
	}
	if (nlh->nlmsg_pid != w->req.portid && priority >= WAYS_PRIO_CLOSED && priority <= PRIO_LAST)
		w->dirty = true;
}

void links_event(struct ways *w, const struct nlmsghdr *nlh)
{
	switch (nlh->nlmsg_type) {
	case RTM_NEWLINK:
	case RTM_DELLINK:
		/* IPv4 routes of a link that goes down vanish without an event of their own. */
		w->dirty = w->defaults_dirty = w->endpoints_dirty = true;
		break;
	case RTM_NEWADDR:
	case RTM_DELADDR:
	case RTM_NEWNETCONF:
		w->dirty = w->defaults_dirty = true;
		break;
	case RTM_NEWROUTE:
	case RTM_DELROUTE:
		route_event(w, nlh);
		break;
	case RTM_NEWRULE:
	case RTM_DELRULE:
		rule_event(w, nlh);
		break;
	}
}

void links_free(struct ways *w)
{
	free(w->links);
	free(w->addrs);
	free(w->addr_slots);
}
