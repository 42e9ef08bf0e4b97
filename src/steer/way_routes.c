/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The ways' routing tables. In both families: a default through the interface while its link is there, and `unreachable` far
 * below it, so that traffic stops by itself when the kernel takes the link's routes away. A route is ours when it carries our
 * protocol number. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <linux/rtnetlink.h>
#include "base/err.h"
#include "steer/ways_internal.h"

static const uint8_t families[2] = {AF_INET, AF_INET6};

static int want(struct ways *w, const struct way_route *r)
{
	for (unsigned i = 0; i < w->route_count; i++) {
		const struct way_route *o = &w->routes[i];
		/* Two ways with one table: the configuration says so, the first has it. */
		if (o->table == r->table && o->family == r->family && o->metric == r->metric)
			return 0;
	}
	if (w->route_count == WAY_ROUTES_MAX)
		return ways_fail(w, NW_EFULL, "more than %u routes would be needed", WAY_ROUTES_MAX);
	w->routes[w->route_count++] = *r;
	return 0;
}

/* The configured gateway, else that of the main table's best default through the interface, else none: on-link. */
static struct addr gateway_find(const struct ways *w, const struct way_run *r, uint8_t family)
{
	const struct addr *given = family == AF_INET ? &r->c->gateway4 : &r->c->gateway6;
	if (given->family)
		return *given;
	const struct main_default *best = NULL;
	for (unsigned i = 0; i < w->default_count; i++) {
		const struct main_default *d = &w->defaults[i];
		if (d->family == family && d->ifindex == r->ifindex && d->gateway.family && (!best || d->metric < best->metric))
			best = d;
	}
	return best ? best->gateway : (struct addr){0};
}

static int want_family(struct ways *w, const struct way_run *r, uint8_t family)
{
	struct way_route route = {.table = r->c->table_id, .family = family, .type = RTN_UNREACHABLE, .metric = WAYS_METRIC_END};
	int e = want(w, &route);
	if (e < 0 || !r->has_link || (family == AF_INET6 && !r->has_v6))
		return e;
	struct addr gateway = gateway_find(w, r, family);
	route.type = RTN_UNICAST;
	route.metric = WAYS_METRIC;
	route.oif = r->ifindex;
	route.gateway_family = gateway.family;
	memcpy(route.gateway, gateway.b, sizeof route.gateway);
	return want(w, &route);
}

static int want_plan(struct ways *w, const struct plan *p)
{
	int e = 0;
	for (unsigned i = 0; e == 0 && p && i < p->count * 2; i++)
		if (p->way[i / 2].c->interface[0])
			e = want_family(w, &p->way[i / 2], families[i & 1]);
	return e;
}

int routes_want(struct ways *w)
{
	w->route_count = 0;
	return w->how == WAYS_APPLY_CLOSED ? 0 : want_plan(w, w->cur);
}

static void route_attrs(struct way_route *r, const struct nlmsghdr *nlh)
{
	const struct nlattr *a;
	mnl_attr_for_each(a, nlh, sizeof(struct rtmsg))
	{
		size_t len = mnl_attr_get_payload_len(a);
		switch (mnl_attr_get_type(a)) {
		case RTA_TABLE:
			r->table = mnl_attr_get_u32(a);
			break;
		case RTA_PRIORITY:
			r->metric = mnl_attr_get_u32(a);
			break;
		case RTA_OIF:
			r->oif = (int)mnl_attr_get_u32(a);
			break;
		case RTA_GATEWAY:
			r->gateway_family = r->family;
			memcpy(r->gateway, mnl_attr_get_payload(a), len <= 16 ? len : 16);
			break;
		case RTA_VIA:
			r->gateway_family = AF_INET6;
			if (len == sizeof(struct rtvia) + 16)
				memcpy(r->gateway, ((const struct rtvia *)mnl_attr_get_payload(a))->rtvia_addr, 16);
			break;
		}
	}
}

bool route_read(struct way_route *ret, const struct nlmsghdr *nlh, uint8_t *ret_protocol, uint8_t *ret_prefix_len)
{
	const struct rtmsg *m = mnl_nlmsg_get_payload(nlh);
	if (nlh->nlmsg_type != RTM_NEWROUTE || (m->rtm_family != AF_INET && m->rtm_family != AF_INET6) ||
	        (m->rtm_flags & RTM_F_CLONED))
		return false;
	memset(ret, 0, sizeof *ret);
	ret->table = m->rtm_table;
	ret->family = m->rtm_family;
	ret->type = m->rtm_type;
	route_attrs(ret, nlh);
	/* IPv6 shows the loopback interface on routes that lead nowhere. */
	if (ret->type != RTN_UNICAST)
		ret->oif = 0;
	*ret_protocol = m->rtm_protocol;
	*ret_prefix_len = m->rtm_dst_len;
	return true;
}

/* One dump's target: a table, or all of them. */
struct collect {
	struct ways *w;
	uint32_t table;
};

static void present_take(void *ctx, const struct nlmsghdr *nlh)
{
	struct collect *k = ctx;
	struct ways *w = k->w;
	struct way_route r;
	uint8_t protocol, len;
	if (!route_read(&r, nlh, &protocol, &len) || protocol != RTNL_PROTOCOL || len || (k->table && r.table != k->table))
		return;
	if (w->route_present_count == w->route_room) {
		unsigned room = w->route_room ? w->route_room * 2 : 128;
		struct way_route *p = realloc(w->routes_present, room * sizeof *p);
		if (!p) {
			w->read_failed = true;
			return;
		}
		w->routes_present = p;
		w->route_room = room;
	}
	w->routes_present[w->route_present_count++] = r;
}

static int table_dump(struct ways *w, uint8_t family, uint32_t table)
{
	char bytes[RTNL_MSG_MAX];
	unsigned before = w->route_present_count;
	int e = -EAGAIN;
	for (int n = 0; n < 4 && e == -EAGAIN; n++) {
		w->route_present_count = before;
		struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);
		nlh->nlmsg_type = RTM_GETROUTE;
		struct rtmsg *m = mnl_nlmsg_put_extra_header(nlh, sizeof *m);
		m->rtm_family = family;
		m->rtm_protocol = RTNL_PROTOCOL;
		if (table)
			mnl_attr_put_u32(nlh, RTA_TABLE, table);
		struct collect k = {.w = w, .table = table};
		e = rtnl_dump(&w->req, nlh, present_take, &k);
	}
	if (e == -ENOENT) /* the kernel makes a table with its first route */
		return 0;
	return e < 0 ? ways_fail(w, e, "reading routing table %u: %s", table, w->req.error) : w->read_failed ? -ENOMEM : 0;
}

static int tables_read(struct ways *w, const struct plan *p)
{
	int e = 0;
	for (unsigned i = 0; e == 0 && p && i < p->count * 2; i++)
		if (p->way[i / 2].c->table_id)
			e = table_dump(w, families[i & 1], p->way[i / 2].c->table_id);
	return e;
}

static int present_read(struct ways *w)
{
	w->route_present_count = 0;
	w->read_failed = false;
	/* After a change of configuration all tables are searched: an earlier run or configuration may have used other
	 * numbers. */
	if (!w->must_clean)
		return tables_read(w, w->cur);
	int e = table_dump(w, AF_INET, 0);
	return e < 0 ? e : table_dump(w, AF_INET6, 0);
}

static int route_send(struct ways *w, const struct way_route *r, bool add)
{
	char bytes[RTNL_MSG_MAX];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);
	nlh->nlmsg_type = add ? RTM_NEWROUTE : RTM_DELROUTE;
	nlh->nlmsg_flags = add ? NLM_F_CREATE | NLM_F_REPLACE : 0;
	struct rtmsg *m = mnl_nlmsg_put_extra_header(nlh, sizeof *m);
	m->rtm_family = r->family;
	m->rtm_table = r->table < 256 ? (uint8_t)r->table : RT_TABLE_UNSPEC;
	m->rtm_protocol = RTNL_PROTOCOL;
	m->rtm_type = r->type;
	m->rtm_scope =
	        add ? (r->type == RTN_UNICAST && !r->gateway_family && r->family == AF_INET ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE)
	            : RT_SCOPE_NOWHERE;
	if (add && r->gateway_family)
		m->rtm_flags = RTNH_F_ONLINK;
	mnl_attr_put_u32(nlh, RTA_TABLE, r->table);
	mnl_attr_put_u32(nlh, RTA_PRIORITY, r->metric);
	if (r->oif)
		mnl_attr_put_u32(nlh, RTA_OIF, (uint32_t)r->oif);
	if (r->gateway_family == r->family)
		mnl_attr_put(nlh, RTA_GATEWAY, r->family == AF_INET ? 4 : 16, r->gateway);
	else if (r->gateway_family) {
		char via[sizeof(struct rtvia) + 16];
		((struct rtvia *)via)->rtvia_family = AF_INET6;
		memcpy(((struct rtvia *)via)->rtvia_addr, r->gateway, 16);
		mnl_attr_put(nlh, RTA_VIA, sizeof via, via);
	}
	int e = rtnl_request(&w->req, nlh, NULL, NULL);
	if (e == 0 || (!add && (e == -ESRCH || e == -ENOENT || e == -ENODEV)))
		return 0;
	return ways_fail(w, e, "%s a default route in table %u: %s", add ? "adding" : "removing", r->table, w->req.error);
}

static bool is_in(const struct way_route *r, const struct way_route *v, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (!memcmp(&v[i], r, sizeof *r))
			return true;
	return false;
}

int routes_add(struct ways *w)
{
	int e = present_read(w);
	if (e < 0)
		return e;
	for (unsigned i = 0; i < w->route_count; i++) {
		if (is_in(&w->routes[i], w->routes_present, w->route_present_count))
			continue;
		int sent = route_send(w, &w->routes[i], true);
		e = e < 0 ? e : sent;
	}
	return e;
}

/* A wanted route of the same metric has taken this one's place already. */
static bool was_replaced(const struct ways *w, const struct way_route *r)
{
	for (unsigned i = 0; i < w->route_count; i++)
		if (w->routes[i].table == r->table && w->routes[i].family == r->family && w->routes[i].metric == r->metric)
			return true;
	return false;
}

int routes_remove_obsolete(struct ways *w)
{
	int e = 0;
	for (unsigned i = 0; i < w->route_present_count; i++) {
		const struct way_route *r = &w->routes_present[i];
		if (is_in(r, w->routes, w->route_count) || was_replaced(w, r))
			continue;
		int sent = route_send(w, r, false);
		e = e < 0 ? e : sent;
	}
	if (e == 0)
		w->must_clean = false;
	return e;
}

int routes_remove_all(struct ways *w)
{
	w->route_count = 0;
	w->must_clean = true;
	int e = present_read(w);
	return e < 0 ? e : routes_remove_obsolete(w);
}
