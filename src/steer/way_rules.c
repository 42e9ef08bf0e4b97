/* SPDX-License-Identifier: GPL-3.0-or-later */
/* ip rules: what is wanted, what is there, and the difference. A rule is ours when it stands at our priorities and carries
 * our protocol number. Additions are sent before removals; the caller puts routes between.
 *
 * The closed rules name mark and mask both: `fwmark 0` without a mask matches every packet. Networks without interfaces need
 * more care: the router's own packets from an address in such a network are no client's, so a goto leads them around. */
#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include "base/err.h"
#include "steer/ways_internal.h"

static const uint8_t families[2] = {AF_INET, AF_INET6};

static bool name_add(char (*names)[IFNAME_MAX], unsigned *count, unsigned max, const char *name)
{
	/* Everything the router itself sends has iif lo. */
	if (!name[0] || !strcmp(name, "lo"))
		return true;
	for (unsigned i = 0; i < *count; i++)
		if (!strcmp(names[i], name))
			return true;
	if (*count == max)
		return false;
	snprintf(names[*count], IFNAME_MAX, "%s", name);
	names[(*count)++][IFNAME_MAX - 1] = 0;
	return true;
}

static bool has_steering(const struct config *c)
{
	for (unsigned i = 0; i < c->steer_count; i++)
		if (c->steers[i].enabled)
			return true;
	return false;
}

static bool is_way_interface(const struct config *c, const char *name)
{
	for (unsigned i = 0; i < c->way_count; i++)
		if (!strcmp(c->ways[i].interface, name))
			return true;
	return false;
}

static bool group_has_interface(const struct cfg_group *g, unsigned i)
{
	for (unsigned k = 0; k < g->except_interface_count; k++)
		if (!strcmp(g->except_interfaces[k], g->interfaces[i]))
			return false;
	return true;
}

/* A listening interface that leads outside brings answers to clients, which carry no client's mark. */
static void listening_add(const struct ways *w, const struct config *c, const char *name, char (*ret)[IFNAME_MAX], unsigned *count, unsigned max)
{
	if (!is_way_interface(c, name) && !links_is_outside(w, name))
		name_add(ret, count, max, name);
}

/* Where clients come who ask an address: the interface that holds it now, any where the address is none. Who asks an address on lo is not known. */
static void listening_addresses_add(struct ways *w, const struct config *c, const struct addr *a, char (*ret)[IFNAME_MAX], unsigned *count, unsigned max)
{
	static const uint8_t any[sizeof a->b];
	bool is_any = !memcmp(a->b, any, sizeof any);
	for (unsigned i = 0; is_any && i < w->link_count; i++) {
		w->has_more_closed = *count + 1 == max;
		if (w->has_more_closed)
			return;
		listening_add(w, c, w->links[i].name, ret, count, max);
	}
	for (unsigned i = 0; !is_any && i < w->addr_count; i++) {
		const struct link *l = addr_equal(&w->addrs[i].addr, a) ? links_by_index(w, w->addrs[i].ifindex) : NULL;
		if (l)
			listening_add(w, c, l->name, ret, count, max);
	}
}

/* Interfaces whose unmarked packets are clients' that nobody decided about. Listening counts beside the groups: rules without clients, and groups that
 * only MACs tell, name no interface. */
unsigned rules_closed_interfaces(struct ways *w, const struct config *c, char (*ret)[IFNAME_MAX], unsigned max)
{
	unsigned count = 0;
	w->has_more_closed = false;
	if (!has_steering(c))
		return 0;
	for (unsigned i = 0; i < c->steer_count; i++)
		for (unsigned k = 0; c->steers[i].enabled && k < c->steers[i].clients.count; k++) {
			const struct cfg_group *g = &c->groups[c->steers[i].clients.v[k]];
			for (unsigned n = 0; n < g->interface_count; n++)
				if (group_has_interface(g, n))
					name_add(ret, &count, max, g->interfaces[n]);
		}
	for (unsigned i = 0; c->hijack.is_on && i < c->hijack.interface_count; i++)
		name_add(ret, &count, max, c->hijack.interfaces[i]);
	for (unsigned i = 0; i < c->server.listen_count; i++) {
		const struct cfg_listen *listen = &c->server.listen[i];
		if (listen->ifname[0])
			listening_add(w, c, listen->ifname, ret, &count, max);
		else
			listening_addresses_add(w, c, &listen->ep.addr, ret, &count, max);
	}
	return count;
}

static int want(struct ways *w, struct way_rule r)
{
	for (unsigned i = 0; i < w->rule_count; i++)
		if (!memcmp(&w->rules[i], &r, sizeof r))
			return 0;
	if (w->rule_count == WAY_RULES_MAX)
		return ways_fail(w, NW_EFULL, "more than %u ip rules would be needed; mend: fewer ways or client interfaces",
		        WAY_RULES_MAX);
	w->rules[w->rule_count++] = r;
	return 0;
}

static int want_network(struct ways *w, const struct prefix *p, uint32_t mask)
{
	struct way_rule r = {.family = p->addr.family, .mask = mask, .source_len = p->len};
	memcpy(r.source, p->addr.b, sizeof r.source);
	struct way_rule after = {.family = p->addr.family, .mask = mask, .priority = PRIO_AFTER, .action = FR_ACT_NOP};
	struct way_rule own = r;
	own.priority = PRIO_OWN;
	own.action = FR_ACT_GOTO;
	own.target = PRIO_AFTER;
	strcpy(own.iif, "lo");
	r.priority = PRIO_FROM;
	r.action = FR_ACT_BLACKHOLE;
	int e = want(w, after);
	if (e == 0)
		e = want(w, own);
	return e < 0 ? e : want(w, r);
}

static int want_closed(struct ways *w, const struct config *c)
{
	char(*names)[IFNAME_MAX] = calloc(CLOSED_MAX, sizeof *names);
	if (!names)
		return -ENOMEM;
	unsigned count = rules_closed_interfaces(w, c, names, CLOSED_MAX);
	int e = count == CLOSED_MAX ? ways_fail(w, NW_EFULL, "%u client interfaces or more; mend: name fewer", CLOSED_MAX) : 0;
	for (unsigned i = 0; e == 0 && i < count * 2; i++) {
		struct way_rule r = {.family = families[i & 1],
		        .priority = WAYS_PRIO_CLOSED,
		        .mask = c->server.mark_mask,
		        .action = FR_ACT_BLACKHOLE};
		memcpy(r.iif, names[i / 2], IFNAME_MAX);
		e = want(w, r);
	}
	free(names);
	for (unsigned i = 0; e == 0 && i < c->steer_count; i++)
		for (unsigned k = 0; e == 0 && c->steers[i].enabled && k < c->steers[i].clients.count; k++) {
			const struct cfg_group *g = &c->groups[c->steers[i].clients.v[k]];
			for (unsigned n = 0; e == 0 && !g->interface_count && n < g->network_count; n++)
				e = want_network(w, &g->networks[n], c->server.mark_mask);
		}
	return e;
}

int way_resolve(const struct plan *p, unsigned way)
{
	int at = (int)way;
	/* A circle of ways that are down ends nowhere. */
	for (unsigned steps = 0; steps <= p->count; steps++) {
		const struct way_run *r = &p->way[at];
		if (!r->c->interface[0])
			return WAY_TO_MAIN;
		if (r->state == WAY_UP)
			return at;
		if (r->c->kill_switch)
			return WAY_TO_NOTHING;
		if (r->c->fallback < 0 || (unsigned)r->c->fallback >= p->count)
			return WAY_TO_MAIN;
		at = r->c->fallback;
	}
	return WAY_TO_NOTHING;
}

static int want_way(struct ways *w, const struct plan *p, unsigned way, uint8_t family)
{
	const struct cfg_way *c = p->way[way].c;
	struct way_rule base = {.family = family, .mark = c->mark, .mask = p->config->server.mark_mask, .action = FR_ACT_TO_TBL};
	struct way_rule r = base;
	r.priority = WAYS_PRIO_LOCAL;
	r.table = RT_TABLE_MAIN;
	r.suppress_default = 1;
	/* Answers that come in through the way find the client also when the way has no access to the local net. */
	if (!c->local_access)
		memcpy(r.iif, c->interface, IFNAME_MAX);
	int e = want(w, r);
	r = base;
	r.priority = PRIO_BOUND;
	r.table = c->table_id;
	memcpy(r.oif, c->interface, IFNAME_MAX);
	if (e == 0)
		e = want(w, r);
	int to = way_resolve(p, way);
	r = base;
	r.priority = WAYS_PRIO_TABLE;
	r.table = to == WAY_TO_MAIN ? RT_TABLE_MAIN : to >= 0 ? p->way[to].c->table_id : c->table_id;
	/* A kill-switched way without its link keeps the rule: its table holds nothing but `unreachable`. */
	if (e == 0 && (to != WAY_TO_NOTHING || p->way[way].state == WAY_DOWN_LINK))
		e = want(w, r);
	r = base;
	r.priority = WAYS_PRIO_END;
	r.action = FR_ACT_UNREACHABLE;
	return e < 0 ? e : want(w, r);
}

static int want_plan(struct ways *w, const struct plan *p)
{
	int e = want_closed(w, p->config);
	for (unsigned i = 0; e == 0 && w->how != WAYS_APPLY_CLOSED && i < p->count * 2; i++)
		if (p->way[i / 2].c->interface[0])
			e = want_way(w, p, i / 2, families[i & 1]);
	return e;
}

/* The target of a goto before the goto, the goto before what it leads around, then by priority. */
static unsigned order(const struct way_rule *r)
{
	return r->action == FR_ACT_NOP ? 0 : r->action == FR_ACT_GOTO ? 1 : r->priority;
}

static int rule_compare(const void *a, const void *b)
{
	unsigned x = order(a), y = order(b);
	return x != y ? (x < y ? -1 : 1) : memcmp(a, b, sizeof(struct way_rule));
}

int rules_want(struct ways *w)
{
	w->rule_count = 0;
	int e = w->cur ? want_plan(w, w->cur) : 0;
	qsort(w->rules, w->rule_count, sizeof *w->rules, rule_compare);
	return e;
}

static void rule_attrs(struct way_rule *r, const struct nlmsghdr *nlh, int *protocol, bool *has_more)
{
	const struct nlattr *a;
	mnl_attr_for_each(a, nlh, sizeof(struct fib_rule_hdr))
	{
		size_t len = mnl_attr_get_payload_len(a);
		switch (mnl_attr_get_type(a)) {
		case FRA_SRC:
			memcpy(r->source, mnl_attr_get_payload(a), len <= 16 ? len : 16);
			break;
		case FRA_IIFNAME:
			memcpy(r->iif, mnl_attr_get_payload(a), len <= IFNAME_MAX ? len : IFNAME_MAX);
			break;
		case FRA_OIFNAME:
			memcpy(r->oif, mnl_attr_get_payload(a), len <= IFNAME_MAX ? len : IFNAME_MAX);
			break;
		case FRA_GOTO:
			r->target = mnl_attr_get_u32(a);
			break;
		case FRA_PRIORITY:
			r->priority = mnl_attr_get_u32(a);
			break;
		case FRA_FWMARK:
			r->mark = mnl_attr_get_u32(a);
			break;
		case FRA_FWMASK:
			r->mask = mnl_attr_get_u32(a);
			break;
		case FRA_TABLE:
			r->table = mnl_attr_get_u32(a);
			break;
		case FRA_PROTOCOL:
			*protocol = mnl_attr_get_u8(a);
			break;
		case FRA_SUPPRESS_PREFIXLEN:
			r->suppress_default = mnl_attr_get_u32(a) == 0;
			*has_more |= mnl_attr_get_u32(a) != 0 && mnl_attr_get_u32(a) != UINT32_MAX;
			break;
		case FRA_PAD:
			break;
		default:
			*has_more = true;
		}
	}
}

bool rule_read(struct way_rule *ret, const struct nlmsghdr *nlh, bool *ret_is_ours, bool *ret_has_more, uint8_t *ret_flags)
{
	const struct fib_rule_hdr *h = mnl_nlmsg_get_payload(nlh);
	if (nlh->nlmsg_type != RTM_NEWRULE || (h->family != AF_INET && h->family != AF_INET6))
		return false;
	memset(ret, 0, sizeof *ret);
	ret->family = h->family;
	ret->action = h->action;
	ret->source_len = h->src_len;
	ret->table = h->table;
	int protocol = -1;
	bool has_more = h->dst_len || h->tos || (h->flags & FIB_RULE_INVERT);
	rule_attrs(ret, nlh, &protocol, &has_more);
	if (ret->action != FR_ACT_TO_TBL)
		ret->table = 0;
	*ret_is_ours = ret->priority >= WAYS_PRIO_CLOSED && ret->priority <= PRIO_LAST && protocol == RTNL_PROTOCOL;
	*ret_has_more = has_more;
	*ret_flags = (uint8_t)h->flags;
	return true;
}

static void present_take(void *ctx, const struct nlmsghdr *nlh)
{
	struct ways *w = ctx;
	struct way_rule r;
	bool is_ours, has_more;
	uint8_t flags;
	if (rule_read(&r, nlh, &is_ours, &has_more, &flags) && is_ours && !has_more && w->present_count < WAY_RULES_MAX)
		w->present[w->present_count++] = r;
}

static int present_read(struct ways *w)
{
	int e = -EAGAIN;
	for (int n = 0; n < 4 && e == -EAGAIN; n++) {
		w->present_count = 0;
		e = 0;
		for (int f = 0; e == 0 && f < 2; f++) {
			char bytes[RTNL_MSG_MAX];
			struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);
			nlh->nlmsg_type = RTM_GETRULE;
			struct fib_rule_hdr *h = mnl_nlmsg_put_extra_header(nlh, sizeof *h);
			h->family = families[f];
			e = rtnl_dump(&w->req, nlh, present_take, w);
		}
	}
	if (e < 0)
		return ways_fail(w, e, "reading the ip rules: %s", w->req.error);
	qsort(w->present, w->present_count, sizeof *w->present, rule_compare);
	return 0;
}

static int rule_send(struct ways *w, const struct way_rule *r, bool add)
{
	char bytes[RTNL_MSG_MAX];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);
	nlh->nlmsg_type = add ? RTM_NEWRULE : RTM_DELRULE;
	nlh->nlmsg_flags = add ? NLM_F_CREATE | NLM_F_EXCL : 0;
	struct fib_rule_hdr *h = mnl_nlmsg_put_extra_header(nlh, sizeof *h);
	h->family = r->family;
	h->action = r->action;
	h->src_len = r->source_len;
	h->table = r->table < 256 ? (uint8_t)r->table : RT_TABLE_UNSPEC;
	mnl_attr_put_u32(nlh, FRA_PRIORITY, r->priority);
	mnl_attr_put_u32(nlh, FRA_FWMARK, r->mark);
	mnl_attr_put_u32(nlh, FRA_FWMASK, r->mask);
	mnl_attr_put_u8(nlh, FRA_PROTOCOL, RTNL_PROTOCOL);
	if (r->source_len)
		mnl_attr_put(nlh, FRA_SRC, r->family == AF_INET ? 4 : 16, r->source);
	if (r->iif[0])
		mnl_attr_put_strz(nlh, FRA_IIFNAME, r->iif);
	if (r->oif[0])
		mnl_attr_put_strz(nlh, FRA_OIFNAME, r->oif);
	if (r->action == FR_ACT_GOTO)
		mnl_attr_put_u32(nlh, FRA_GOTO, r->target);
	if (r->action == FR_ACT_TO_TBL)
		mnl_attr_put_u32(nlh, FRA_TABLE, r->table);
	if (r->suppress_default)
		mnl_attr_put_u32(nlh, FRA_SUPPRESS_PREFIXLEN, 0);
	int e = rtnl_request(&w->req, nlh, NULL, NULL);
	if (e == 0 || (add && e == -EEXIST) || (!add && e == -ENOENT))
		return 0;
	return ways_fail(w, e, "%s the ip rule at priority %u: %s", add ? "adding" : "removing", r->priority, w->req.error);
}

int rules_add(struct ways *w)
{
	int e = present_read(w);
	if (e < 0)
		return e;
	for (unsigned i = 0; i < w->rule_count; i++) {
		if (bsearch(&w->rules[i], w->present, w->present_count, sizeof *w->present, rule_compare))
			continue;
		int sent = rule_send(w, &w->rules[i], true);
		e = e < 0 ? e : sent;
	}
	return e;
}

int rules_remove_obsolete(struct ways *w)
{
	int e = 0;
	for (unsigned i = w->present_count; i-- > 0;) {
		const struct way_rule *r = &w->present[i];
		bool is_twice = i && !rule_compare(r, r - 1);
		if (!is_twice && bsearch(r, w->rules, w->rule_count, sizeof *w->rules, rule_compare))
			continue;
		int sent = rule_send(w, r, false);
		e = e < 0 ? e : sent;
	}
	return e;
}

int rules_remove_all(struct ways *w)
{
	w->rule_count = 0;
	int e = present_read(w);
	return e < 0 ? e : rules_remove_obsolete(w);
}
