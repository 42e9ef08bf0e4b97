/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The ways' state and the module's public functions. A turn reads events and checks; when anything is stale, a sync reads the
 * kernel, judges every way and makes rules, routes and settings stand. Syncs are at least WAYS_SYNC_GAP_MS apart, so that a
 * flood of events or another program that keeps removing our rules costs a bounded share of this thread. */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <linux/if.h>
#include <linux/rtnetlink.h>
#include "base/clock.h"
#include "base/hash.h"
#include "steer/ways_internal.h"

enum { EVENTS_TAG = CONFIG_WAYS_MAX, OUTSIDE_MAX = WAYS_OUTSIDE_MAX };
_Static_assert(WAYS_OUTSIDE_MAX == CONFIG_WAYS_MAX * 2 + MAIN_DEFAULTS_MAX, "every way's and every default route's interface has a place");

int ways_fail(struct ways *w, int error, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	vsnprintf(w->error, sizeof w->error, fmt, args);
	va_end(args);
	return error;
}

const char *ways_error(const struct ways *w)
{
	return w->error;
}

int ways_open(struct ways **ret)
{
	static const int groups[] = {RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV4_ROUTE,
	        RTNLGRP_IPV6_ROUTE, RTNLGRP_IPV4_RULE, RTNLGRP_IPV6_RULE, RTNLGRP_IPV4_NETCONF, 0};
	struct ways *w = calloc(1, sizeof *w);
	if (!w)
		return -ENOMEM;
	w->epoll_fd = w->state_dir = -1;
	w->addr_seed = hash_seed();
	w->ident_next = (uint16_t)w->addr_seed;
	w->rules = calloc(WAY_RULES_MAX, sizeof *w->rules);
	w->present = calloc(WAY_RULES_MAX, sizeof *w->present);
	w->routes = calloc(WAY_ROUTES_MAX, sizeof *w->routes);
	w->outside = calloc(OUTSIDE_MAX, sizeof *w->outside);
	w->must_clean = w->dirty = w->defaults_dirty = w->endpoints_dirty = true;
	int e = w->rules && w->present && w->routes && w->outside ? rtnl_open(&w->req, NETLINK_ROUTE, NULL) : -ENOMEM;
	if (e == 0)
		e = rtnl_open(&w->events, NETLINK_ROUTE, groups);
	if (e == 0 && (w->epoll_fd = epoll_create1(EPOLL_CLOEXEC)) < 0)
		e = -errno;
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = EVENTS_TAG};
	if (e == 0 && epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, rtnl_fd(&w->events), &ev) < 0)
		e = -errno;
	if (e < 0) {
		ways_close(w);
		return e;
	}
	*ret = w;
	return 0;
}

static void plan_free(struct ways *w, struct plan *p)
{
	for (unsigned i = 0; p && i < p->count; i++)
		check_drop(w, &p->way[i].check);
	free(p);
}

void ways_close(struct ways *w)
{
	if (!w)
		return;
	plan_free(w, w->cur);
	rtnl_close(&w->req);
	rtnl_close(&w->events);
	if (w->epoll_fd >= 0)
		close(w->epoll_fd);
	if (w->state_dir >= 0)
		close(w->state_dir);
	links_free(w);
	free(w->rules);
	free(w->present);
	free(w->routes);
	free(w->routes_present);
	free(w->outside);
	free(w);
}

int ways_set_state_dir(struct ways *w, int dirfd)
{
	int fd = fcntl(dirfd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return -errno;
	if (w->state_dir >= 0)
		close(w->state_dir);
	w->state_dir = fd;
	return sysctls_load(w);
}

/* --- judging --- */

static void reason_set(struct way_run *r, enum way_state state, const char *fmt, const char *what)
{
	r->state = state;
	snprintf(r->reason, sizeof r->reason, fmt, what);
}

static bool has_global_v6(const struct ways *w, int ifindex)
{
	for (unsigned i = 0; i < w->addr_count; i++)
		if (w->addrs[i].ifindex == ifindex && w->addrs[i].addr.family == AF_INET6 && w->addrs[i].is_global)
			return true;
	return false;
}

static void way_judge(const struct ways *w, struct way_run *r)
{
	const struct cfg_way *c = r->c;
	if (!c->interface[0]) {
		r->has_v6 = !c->ipv6_off;
		reason_set(r, WAY_UP, "%s", "no interface: the main table decides");
		return;
	}
	const struct link *l = links_find(w, c->interface);
	const unsigned need = IFF_UP | IFF_LOWER_UP;
	r->ifindex = l ? l->ifindex : 0;
	r->is_p2p = l && ((l->flags & IFF_POINTOPOINT) || l->type == ARPHRD_NONE || l->type == ARPHRD_PPP);
	r->has_link = l && (l->flags & need) == need && !(l->flags & IFF_DORMANT);
	r->has_v6 = l && !c->ipv6_off && has_global_v6(w, l->ifindex);
	if (r->is_admin_down)
		reason_set(r, WAY_DOWN_ADMIN, "taken down by the administrator; mend: nameway way up %s", c->name);
	else if (!l)
		reason_set(r, WAY_DOWN_LINK, "interface %s does not exist; mend: start the tunnel, or correct `interface:`",
		        c->interface);
	else if (!(l->flags & IFF_UP))
		reason_set(r, WAY_DOWN_LINK, "interface %s is down; mend: ip link set it up", c->interface);
	else if (!r->has_link)
		reason_set(r, WAY_DOWN_LINK,
		        "interface %s has no carrier; mend: look at the cable, or the program that serves it", c->interface);
	else if (r->check.is_down) {
		r->state = WAY_DOWN_CHECK;
		memcpy(r->reason, r->check.reason, sizeof r->check.reason);
	} else
		reason_set(r, WAY_UP, "interface %s has its link", c->interface);
}

static void plan_judge(const struct ways *w, struct plan *p)
{
	for (unsigned i = 0; p && i < p->count; i++)
		way_judge(w, &p->way[i]);
}

/* --- what is outside --- */

static void outside_add(struct ways *w, const char *name)
{
	for (unsigned i = 0; i < w->outside_count; i++)
		if (!strcmp(w->outside[i], name))
			return;
	if (name[0] && w->outside_count < OUTSIDE_MAX)
		memcpy(w->outside[w->outside_count++], name, IFNAME_MAX);
}

static void outside_sync(struct ways *w)
{
	memset(w->outside, 0, OUTSIDE_MAX * sizeof *w->outside);
	w->outside_count = 0;
	for (unsigned i = 0; w->cur && i < w->cur->count; i++)
		outside_add(w, w->cur->way[i].c->interface);
	for (unsigned i = 0; i < w->default_count; i++) {
		const struct link *l = links_by_index(w, w->defaults[i].ifindex);
		if (l)
			outside_add(w, l->name);
	}
}

unsigned ways_outside(const struct ways *w, char (*ret)[IFNAME_MAX], unsigned max)
{
	unsigned n = w->outside_count < max ? w->outside_count : max;
	memcpy(ret, w->outside, n * sizeof *ret);
	return n;
}

/* --- making it so --- */

/* Everything wanted stands before anything obsolete goes. */
static int kernel_sync(struct ways *w)
{
	int e = routes_want(w), f = rules_want(w);
	if (e < 0 || f < 0)
		return e < 0 ? e : f; /* half of what is wanted would remove the rest */
	e = w->how == WAYS_APPLY_CLOSED ? 0 : routes_add(w);
	f = rules_add(w);
	e = e < 0 ? e : f;
	/* What is there is not known when reading it failed; what could not be added may be needed. */
	if (e == 0 && w->how == WAYS_APPLY_ALL) {
		e = rules_remove_obsolete(w);
		f = routes_remove_obsolete(w);
	}
	int s = sysctls_sync(w);
	return e < 0 ? e : f < 0 ? f : s;
}

static int sync_now(struct ways *w, uint64_t now_ms)
{
	w->dirty = false;
	w->synced_ms = now_ms;
	w->retry_ms = 0;
	int e = links_sync(w);
	if (e == 0) {
		plan_judge(w, w->cur);
		if (w->is_applied)
			e = kernel_sync(w);
		outside_sync(w);
	}
	if (w->endpoints_dirty || now_ms - w->endpoints_ms >= ENDPOINTS_AGE_MS) {
		w->endpoints_ms = now_ms;
		wg_endpoints_sync(w);
	}
	if (e < 0)
		w->retry_ms = now_ms + WAYS_RETRY_MS;
	return e;
}

static struct plan *plan_new(const struct ways *w, const struct config *c)
{
	struct plan *p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	p->config = c;
	p->count = c->way_count;
	for (unsigned i = 0; i < p->count; i++) {
		p->way[i].c = &c->ways[i];
		p->way[i].check.fd = -1;
		for (unsigned k = 0; w->cur && k < w->cur->count; k++)
			if (!strcmp(w->cur->way[k].c->name, c->ways[i].name))
				p->way[i].is_admin_down = w->cur->way[k].is_admin_down;
	}
	return p;
}

/* A check that is the same in the new configuration goes on; its socket belongs to a mark and is opened anew. */
static void checks_carry(struct ways *w, struct plan *to)
{
	for (unsigned i = 0; i < to->count; i++)
		for (unsigned k = 0; w->cur && k < w->cur->count; k++) {
			const struct way_run *old = &w->cur->way[k];
			if (strcmp(old->c->name, to->way[i].c->name) || strcmp(old->c->interface, to->way[i].c->interface))
				continue;
			if (!addr_equal(&old->c->check_ping, &to->way[i].c->check_ping) ||
			        old->c->handshake_age_s != to->way[i].c->handshake_age_s)
				continue;
			to->way[i].check = old->check;
			to->way[i].check.fd = -1;
			to->way[i].check.is_waiting = false;
		}
}

int ways_configure(struct ways *w, const struct config *c)
{
	struct plan *p = plan_new(w, c);
	if (!p)
		return ways_fail(w, -ENOMEM, "no memory");
	checks_carry(w, p);
	plan_free(w, w->cur);
	w->cur = p;
	w->must_clean = w->dirty = w->defaults_dirty = true;
	int e = links_sync(w);
	plan_judge(w, p);
	outside_sync(w);
	return e;
}

int ways_apply(struct ways *w, enum ways_apply_how how)
{
	w->how = how;
	w->is_applied = w->must_clean = w->defaults_dirty = true;
	return sync_now(w, clock_ms());
}

int ways_remove_all(struct ways *w)
{
	w->is_applied = false;
	int e = rules_remove_all(w), f = routes_remove_all(w);
	sysctls_give_back(w);
	return e < 0 ? e : f;
}

int ways_leave(struct ways *w)
{
	w->is_applied = false;
	return 0;
}

void ways_admin(struct ways *w, unsigned way, bool is_up)
{
	if (!w->cur || way >= w->cur->count || !w->cur->way[way].c->interface[0])
		return;
	w->cur->way[way].is_admin_down = !is_up;
	w->dirty = true;
	w->synced_ms = 0; /* the verb waits for it */
}

/* --- turns --- */

int ways_fds(const struct ways *w, int fds[WAYS_FDS_MAX])
{
	fds[0] = w->epoll_fd;
	return 1;
}

static void event_take(void *ctx, const struct nlmsghdr *nlh)
{
	links_event(ctx, nlh);
}

static void descriptors_read(struct ways *w, bool *ret_changed)
{
	struct epoll_event ev[CONFIG_WAYS_MAX + 1];
	int n = epoll_wait(w->epoll_fd, ev, CONFIG_WAYS_MAX + 1, 0);
	for (int i = 0; i < n; i++) {
		if (ev[i].data.u32 != EVENTS_TAG)
			check_read(w, ev[i].data.u32, ret_changed);
		else if (rtnl_events(&w->events, event_take, w) < 0)
			w->dirty = w->defaults_dirty = w->endpoints_dirty = true;
	}
}

/* What the callers are told of; compared before and after a turn. */
struct picture {
	uint64_t killed, no6, fallback, p2p;
	char outside[OUTSIDE_MAX][IFNAME_MAX];
	enum way_state state[CONFIG_WAYS_MAX];
};

static void picture_take(const struct ways *w, struct picture *p)
{
	memset(p, 0, sizeof *p);
	ways_bitmaps(w, &p->killed, &p->no6, &p->fallback, &p->p2p);
	memcpy(p->outside, w->outside, sizeof p->outside);
	for (unsigned i = 0; w->cur && i < w->cur->count; i++)
		p->state[i] = w->cur->way[i].state;
}

static int picture_difference(const struct picture *a, const struct picture *b)
{
	bool is_same = a->killed == b->killed && a->no6 == b->no6 && a->fallback == b->fallback &&
	               !memcmp(a->state, b->state, sizeof a->state);
	return (is_same ? 0 : WAYS_CH_STATE) |
	       (a->p2p != b->p2p || memcmp(a->outside, b->outside, sizeof a->outside) ? WAYS_CH_OUTSIDE : 0);
}

static uint64_t next_turn(const struct ways *w, uint64_t now_ms)
{
	uint64_t next = w->synced_ms + WAYS_RESYNC_MS, check = checks_next_ms(w), endpoints = w->endpoints_ms + ENDPOINTS_AGE_MS;
	if (w->dirty)
		next = w->synced_ms + WAYS_SYNC_GAP_MS;
	if (w->retry_ms && w->retry_ms < next)
		next = w->retry_ms;
	next = check < next ? check : next;
	next = endpoints < next ? endpoints : next;
	return next > now_ms ? next : now_ms;
}

int ways_turn(struct ways *w, uint64_t now_ms, uint64_t *ret_next_ms)
{
	struct picture before, after;
	bool has_changed = false;
	int result = 0;
	picture_take(w, &before);
	descriptors_read(w, &has_changed);
	checks_turn(w, now_ms, &has_changed);
	bool is_due = w->dirty && now_ms - w->synced_ms >= WAYS_SYNC_GAP_MS;
	if (is_due || has_changed || now_ms - w->synced_ms >= WAYS_RESYNC_MS || (w->retry_ms && now_ms >= w->retry_ms)) {
		if (sync_now(w, now_ms) < 0)
			result |= WAYS_CH_ALARM;
		/* A way whose link just came begins its check at once. */
		checks_turn(w, now_ms, &has_changed);
	} else if (now_ms - w->endpoints_ms >= ENDPOINTS_AGE_MS) {
		w->endpoints_ms = now_ms;
		wg_endpoints_sync(w);
	}
	picture_take(w, &after);
	if (ret_next_ms)
		*ret_next_ms = next_turn(w, now_ms);
	return result | picture_difference(&before, &after);
}

bool ways_is_failing(const struct ways *w)
{
	return w->retry_ms != 0;
}

enum way_state ways_state(const struct ways *w, unsigned way)
{
	return w->cur && way < w->cur->count ? w->cur->way[way].state : WAY_DOWN_LINK;
}

const char *ways_reason(const struct ways *w, unsigned way)
{
	return w->cur && way < w->cur->count ? w->cur->way[way].reason : "no such way";
}

void ways_bitmaps(
        const struct ways *w, uint64_t *ret_down_killed, uint64_t *ret_no6, uint64_t *ret_down_fallback, uint64_t *ret_p2p)
{
	*ret_down_killed = *ret_no6 = *ret_down_fallback = *ret_p2p = 0;
	for (unsigned i = 0; w->cur && i < w->cur->count; i++) {
		const struct way_run *r = &w->cur->way[i];
		uint64_t bit = 1ull << i;
		int to = way_resolve(w->cur, i);
		const struct way_run *exit = to >= 0 ? &w->cur->way[to] : r;
		/* Over a fallback its exit's IPv6 counts; the main table's is the kernel's affair. */
		if (to == WAY_TO_MAIN ? r->c->ipv6_off : !exit->has_v6 || r->c->ipv6_off)
			*ret_no6 |= bit;
		if (r->state != WAY_UP && to == WAY_TO_NOTHING)
			*ret_down_killed |= bit;
		else if (r->state != WAY_UP)
			*ret_down_fallback |= bit;
		if (r->is_p2p)
			*ret_p2p |= bit;
	}
}
