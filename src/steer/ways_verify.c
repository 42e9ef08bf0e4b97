/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reads the ip rules and the ways' tables again, on the socket of requests, and compares. What ways.c believes to have sent is
 * not trusted here: beside the wanted rules, every way with an interface must end in `unreachable`, by its last rule and by the
 * last route of its table. */
#include "steer/ways_verify.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include "steer/ways_internal.h"

struct verify {
	struct ways *w;
	struct way_rule *rules;
	unsigned rule_count;
	uint32_t table;
	bool has_end; /* the table that is being read ends in `unreachable` */
	void (*cb)(void *ctx, int way, const char *text);
	void *ctx;
};

static const uint8_t families[2] = {AF_INET, AF_INET6};

static void take_rule(void *ctx, const struct nlmsghdr *nlh)
{
	struct verify *v = ctx;
	struct way_rule r;
	bool is_ours, has_more;
	uint8_t flags;
	if (rule_read(&r, nlh, &is_ours, &has_more, &flags) && is_ours && !has_more && v->rule_count < WAY_RULES_MAX)
		v->rules[v->rule_count++] = r;
}

static int read_rules(struct verify *v, uint8_t family)
{
	char bytes[RTNL_MSG_MAX];
	unsigned before = v->rule_count;
	int e = -EAGAIN;
	for (int n = 0; n < 4 && e == -EAGAIN; n++) {
		v->rule_count = before;
		struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);
		nlh->nlmsg_type = RTM_GETRULE;
		struct fib_rule_hdr *h = mnl_nlmsg_put_extra_header(nlh, sizeof(*h));
		h->family = family;
		e = rtnl_dump(&v->w->req, nlh, take_rule, v);
	}
	return e;
}

static void take_route(void *ctx, const struct nlmsghdr *nlh)
{
	struct verify *v = ctx;
	struct way_route r;
	uint8_t protocol, len;
	if (route_read(&r, nlh, &protocol, &len) && r.table == v->table && len == 0 && r.type == RTN_UNREACHABLE)
		v->has_end = true;
}

static int read_table(struct verify *v, uint8_t family, uint32_t table)
{
	char bytes[RTNL_MSG_MAX];
	int e = -EAGAIN;
	v->table = table;
	for (int n = 0; n < 4 && e == -EAGAIN; n++) {
		v->has_end = false;
		struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);
		nlh->nlmsg_type = RTM_GETROUTE;
		struct rtmsg *m = mnl_nlmsg_put_extra_header(nlh, sizeof(*m));
		m->rtm_family = family;
		mnl_attr_put_u32(nlh, RTA_TABLE, table);
		e = rtnl_dump(&v->w->req, nlh, take_route, v);
	}
	return e == -ENOENT ? 0 : e;
}

static bool stands(const struct verify *v, const struct way_rule *r)
{
	for (unsigned i = 0; i < v->rule_count; i++)
		if (!memcmp(&v->rules[i], r, sizeof(*r)))
			return true;
	return false;
}

static int way_of(const struct plan *p, const struct way_rule *r)
{
	for (unsigned i = 0; i < p->count; i++)
		if (r->mark && p->way[i].c->mark == r->mark && p->way[i].c->interface[0])
			return (int)i;
	return -1;
}

static void check_rules(const struct verify *v)
{
	char text[160];
	for (unsigned i = 0; i < v->w->rule_count; i++) {
		const struct way_rule *r = &v->w->rules[i];
		if (stands(v, r))
			continue;
		snprintf(text, sizeof(text), "the IPv%c rule at priority %u for mark %#x/%#x does not stand",
		        r->family == AF_INET ? '4' : '6', r->priority, r->mark, r->mask);
		v->cb(v->ctx, way_of(v->w->cur, r), text);
	}
}

static int check_end(struct verify *v, unsigned way, uint8_t family)
{
	const struct cfg_way *c = v->w->cur->way[way].c;
	char text[160], digit = family == AF_INET ? '4' : '6';
	struct way_rule end = {.family = family,
	        .mark = c->mark,
	        .mask = v->w->cur->config->server.mark_mask,
	        .priority = WAYS_PRIO_END,
	        .action = FR_ACT_UNREACHABLE};
	if (!stands(v, &end)) {
		snprintf(text, sizeof(text),
		        "nothing stops marked IPv%c packets behind its table: the rule at priority %d is missing", digit,
		        WAYS_PRIO_END);
		v->cb(v->ctx, (int)way, text);
	}
	int e = read_table(v, family, c->table_id);
	if (e == 0 && !v->has_end) {
		snprintf(text, sizeof(text), "its table %u does not end in `unreachable` for IPv%c", c->table_id, digit);
		v->cb(v->ctx, (int)way, text);
	}
	return e;
}

int ways_verify(struct ways *w, void (*cb)(void *ctx, int way, const char *text), void *ctx)
{
	struct verify v = {.w = w, .cb = cb, .ctx = ctx};
	int e = 0;
	if (!w->cur)
		return -ENOENT;
	v.rules = calloc(WAY_RULES_MAX, sizeof(*v.rules));
	if (!v.rules)
		return -ENOMEM;
	for (int f = 0; e == 0 && f < 2; f++)
		e = read_rules(&v, families[f]);
	if (e == 0)
		check_rules(&v);
	for (unsigned i = 0; e == 0 && i < w->cur->count * 2; i++)
		if (w->cur->way[i / 2].c->interface[0])
			e = check_end(&v, i / 2, families[i & 1]);
	free(v.rules);
	return e;
}
