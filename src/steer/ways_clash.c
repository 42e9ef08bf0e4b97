/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What others have in the kernel that meets our marks, priorities or tables: mwan3, Tailscale, Kubernetes, another nameway.
 * Only tells. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include "steer/ways_internal.h"

struct clash {
	struct ways *w;
	const struct config *c;
	void (*cb)(void *ctx, const char *text);
	void *ctx;
	uint32_t taken;
};

static const char *action_text(const struct way_rule *r, char buf[32])
{
	static const char *const names[] = {[FR_ACT_GOTO] = "goto",
	        [FR_ACT_NOP] = "nop",
	        [FR_ACT_BLACKHOLE] = "blackhole",
	        [FR_ACT_UNREACHABLE] = "unreachable",
	        [FR_ACT_PROHIBIT] = "prohibit"};
	if (r->action == FR_ACT_TO_TBL)
		snprintf(buf, 32, r->table == RT_TABLE_MAIN ? "lookup main" : "lookup %u", r->table);
	else
		snprintf(buf, 32, "%s", r->action < sizeof names / sizeof *names && names[r->action] ? names[r->action] : "?");
	return buf;
}

/* As many neighbouring bits as our mask has, none of them taken; the lowest such place above the low byte, which people use
 * by hand. 0: none. */
static uint32_t free_mask(uint32_t mask, uint32_t taken)
{
	int bits = __builtin_popcount(mask);
	uint32_t run = bits >= 32 ? UINT32_MAX : (1u << bits) - 1;
	for (int shift = 8; shift + bits <= 32; shift++)
		if (!((run << shift) & taken))
			return run << shift;
	return 0;
}

static void tell(const struct clash *k, const struct way_rule *r, bool is_inverted, const char *what, const char *mend)
{
	char action[32], text[512], mark[48] = "";
	if (r->mask)
		snprintf(mark, sizeof mark, " fwmark 0x%x/0x%x", r->mark, r->mask);
	snprintf(text, sizeof text, "%sip%s rule %u:%s%s%s%s %s: %s; mend: %s", what[0] == '!' ? "warning: " : "",
	        r->family == AF_INET6 ? " -6" : "", r->priority, is_inverted ? " not" : "", mark, r->iif[0] ? " iif " : "",
	        r->iif, action_text(r, action), what + (what[0] == '!'), mend);
	k->cb(k->ctx, text);
}

static void taken_take(void *ctx, const struct nlmsghdr *nlh)
{
	struct clash *k = ctx;
	struct way_rule r;
	bool is_ours, has_more;
	uint8_t flags;
	/* A rule on the whole mark says nothing about which bits its owner uses, beyond those it has set. */
	if (rule_read(&r, nlh, &is_ours, &has_more, &flags) && !is_ours)
		k->taken |= r.mask == UINT32_MAX ? r.mark : r.mask;
}

static void rule_judge(void *ctx, const struct nlmsghdr *nlh)
{
	struct clash *k = ctx;
	struct way_rule r;
	bool is_ours, has_more;
	uint8_t flags;
	char mend[96];
	uint32_t mask = k->c->server.mark_mask, other = free_mask(mask, k->taken | mask);
	if (!rule_read(&r, nlh, &is_ours, &has_more, &flags) || is_ours)
		return;
	bool is_inverted = flags & FIB_RULE_INVERT;
	if (other)
		snprintf(mend, sizeof mend, "set server.mark-mask to bits free here, e.g. 0x%x", other);
	else
		snprintf(mend, sizeof mend, "free some mark bits: all are in use here");
	bool is_whole = r.mask == UINT32_MAX;
	if (r.priority >= WAYS_PRIO_CLOSED && r.priority <= PRIO_LAST)
		tell(k, &r, is_inverted, "stands among nameway's priorities (5000 to 5039) and is not nameway's",
		        "give it another priority");
	if (!(r.mask & mask))
		return;
	if (is_whole && !(r.mark & mask)) {
		/* wg-quick's `not fwmark X` tests the whole mark for one value of its own: ours still fulfil it. */
		if (!is_inverted)
			tell(k, &r, is_inverted, "!no longer matches packets that carry a mark of nameway too",
			        "give the rule a mask of its own bits");
		return;
	}
	tell(k, &r, is_inverted, "uses bits of nameway's mark mask", mend);
}

static int rules_each(struct clash *k, rtnl_cb cb)
{
	int e = 0;
	for (int f = 0; e == 0 && f < 2; f++) {
		char bytes[RTNL_MSG_MAX];
		struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);
		nlh->nlmsg_type = RTM_GETRULE;
		struct fib_rule_hdr *h = mnl_nlmsg_put_extra_header(nlh, sizeof *h);
		h->family = f ? AF_INET6 : AF_INET;
		e = rtnl_dump(&k->w->req, nlh, cb, k);
		e = e == -EAGAIN ? 0 : e;
	}
	return e;
}

/* One line a table: how many routes in it are not ours. */
struct strangers {
	uint32_t table;
	unsigned count;
};

static void stranger_take(void *ctx, const struct nlmsghdr *nlh)
{
	struct strangers *s = ctx;
	struct way_route r;
	uint8_t protocol, len;
	if (route_read(&r, nlh, &protocol, &len) && r.table == s->table && protocol != RTNL_PROTOCOL)
		s->count++;
}

static int table_judge(const struct clash *k, const struct cfg_way *way)
{
	struct strangers s = {.table = way->table_id};
	for (int f = 0; f < 2; f++) {
		char bytes[RTNL_MSG_MAX], text[256];
		struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);
		nlh->nlmsg_type = RTM_GETROUTE;
		struct rtmsg *m = mnl_nlmsg_put_extra_header(nlh, sizeof *m);
		m->rtm_family = f ? AF_INET6 : AF_INET;
		mnl_attr_put_u32(nlh, RTA_TABLE, s.table);
		s.count = 0;
		int e = rtnl_dump(&k->w->req, nlh, stranger_take, &s);
		if (e < 0 && e != -ENOENT && e != -EAGAIN)
			return e;
		if (!s.count)
			continue;
		snprintf(text, sizeof text,
		        "routing table %u of way %s holds %u IPv%d route%s that nameway did not make; mend: look at `ip%s route "
		        "show table %u`, and let other programs use another table",
		        s.table, way->name, s.count, f ? 6 : 4, s.count == 1 ? "" : "s", f ? " -6" : "", s.table);
		k->cb(k->ctx, text);
	}
	return 0;
}

int ways_clashes(struct ways *w, const struct config *c, void (*cb)(void *ctx, const char *text), void *ctx)
{
	struct clash k = {.w = w, .c = c, .cb = cb, .ctx = ctx};
	int e = rules_each(&k, taken_take);
	if (e == 0)
		e = rules_each(&k, rule_judge);
	for (unsigned i = 0; e == 0 && i < c->way_count; i++)
		if (c->ways[i].interface[0])
			e = table_judge(&k, &c->ways[i]);
	return e < 0 ? ways_fail(w, e, "reading the kernel's rules and routes: %s", w->req.error) : 0;
}
