/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The enforcer's loop: the parent's messages (prepare, commit, ways), the server's requests, the kernel's events. One thread, poll; every wait on the
 * kernel is bounded. A configuration comes in two steps: PREPARE makes its sets and routes stand beside what is in force, COMMIT swaps the packet
 * rules in one transaction and takes the old things away after it, so that no packet ever meets a rule whose route is gone. */
#include "steer/enforcer.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "steer/enforcer_moved.h"

enum { SWEEP_MS = 1000, FOREIGN_MS = 1000, REBUILD_MS = 100 /* between tries */, POLL_MAX_MS = 500, MOVED_MS = 15000 /* a parent that does not ask */ };
enum { NEVER_MAX = WAYS_ENDPOINTS_MAX + CONFIG_UPSTREAMS_MAX * CONFIG_SERVERS_MAX };

/* ways goes on referring to the configuration it was given last, also to one that was then refused. */
static void forget_config(struct enforcer *e, struct policy_config *pc)
{
	if (pc->config && pc->config == e->ways_config)
		e->retired = pc->config;
	else
		config_free(pc->config);
	for (unsigned i = 0; pc->held && i < pc->foreign_count; i++)
		range_list_free(&pc->held[i].list);
	free(pc->held);
	free(pc->foreign);
	free(pc->foreign_at);
	*pc = (struct policy_config){ 0 };
}

static int configure_ways(struct enforcer *e, struct config *c)
{
	int r = ways_configure(e->ways, c);
	if (r == 0 && e->retired != c) {
		config_free(e->retired);
		e->retired = NULL;
	}
	if (r == 0)
		e->ways_config = c;
	return r;
}

static bool is_gone_rule(void *ctx, struct element *el)
{
	return !enforcer_rule(ctx, el->rule_id, NULL);
}

static void forget_gone_ranges(struct enforcer *e)
{
	for (unsigned i = 0; i < e->range_count;) {
		if (enforcer_rule(e, e->ranges[i].rule_id, NULL)) {
			i++;
			continue;
		}
		free(e->ranges[i].r);
		e->ranges[i] = e->ranges[--e->range_count];
	}
}

/* With it goes what the mirror says of its own rules: their sets may go any time. */
static void forget_prepared(struct enforcer *e)
{
	bool was_there = e->next.config;
	forget_config(e, &e->next);
	if (!e->is_change_committed) {
		moved_view_free(e->before);
		e->before = NULL;
	}
	/* Before the first commit the mirror is what was adopted. */
	if (!was_there || !e->now.config)
		return;
	elements_walk(&e->elements, is_gone_rule, e);
	forget_gone_ranges(e);
}

static int count_foreign(struct policy_config *pc)
{
	const struct config *c = pc->config;
	pc->foreign_at = calloc(c->way_count + 1, sizeof *pc->foreign_at);
	if (!pc->foreign_at)
		return -ENOMEM;
	for (unsigned i = 0; i < c->way_count; i++) {
		pc->foreign_at[i] = pc->foreign_count;
		pc->foreign_count += c->ways[i].set4_count + c->ways[i].set6_count;
	}
	pc->foreign = calloc(pc->foreign_count + 1, sizeof *pc->foreign);
	pc->held = calloc(pc->foreign_count + 1, sizeof *pc->held);
	return pc->foreign && pc->held ? 0 : -ENOMEM;
}

/* --- the table as it should be --- */

/* Without ways the configuration reserved none: the lowest bit of ours will do. */
uint32_t enforcer_direct_mark(const struct config *c)
{
	return c->main_mark ? c->main_mark : c->server.mark_mask & -c->server.mark_mask;
}

static unsigned collect_never(const struct enforcer *e, const struct config *c, struct endpoint *ret, unsigned max)
{
	unsigned n = ways_endpoints(e->ways, ret, max);
	for (unsigned i = 0; i < c->upstream_count; i++)
		for (unsigned k = 0; k < c->upstreams[i].server_count && n < max; k++)
			ret[n++] = c->upstreams[i].servers[k];
	return n;
}

struct element_list { struct enforcer *e; const struct config *c; struct nft_element *v; size_t count; };

static int by_set(const void *a, const void *b)
{
	const struct nft_element *x = a, *y = b;
	if (x->rule_id != y->rule_id)
		return x->rule_id < y->rule_id ? -1 : 1;
	return (int)x->addr.family - (int)y->addr.family;
}

static bool list_live(void *ctx, struct element *el)
{
	struct element_list *l = ctx;
	if (el->expires_ms > l->e->now_ms && enforcer_rule(l->e, el->rule_id, NULL))
		l->v[l->count++] = (struct nft_element){ .rule_id = el->rule_id, .addr = el->addr, .is_fresh = true, .life_s = (uint32_t)((el->expires_ms - l->e->now_ms + 999) / 1000) };
	return false;
}

static bool is_lost(struct enforcer *e)
{
	enum nft_presence p;
	return e->is_rebuild_due || ((e->elements.count || e->range_count) && nft_presence(e->nft, &p) == 0 && p == NFT_ABSENT);
}

/* Applies the layout of one configuration. with_contents puts the mirror's elements and ranges in at the same time: the table was lost. */
static int apply_table(struct enforcer *e, const struct config *c, bool keeps_rules, bool with_contents)
{
	static char outside[WAYS_OUTSIDE_MAX][IFNAME_MAX];
	static struct endpoint never[NEVER_MAX];
	uint64_t p2p = 0, skip;
	ways_bitmaps(e->ways, &skip, &skip, &skip, &p2p);
	uint16_t hijack_port = c == e->next.config ? e->next.hijack_port : e->now.hijack_port;
	struct nft_layout l = { .config = c, .hijack_port = hijack_port, .keeps_rules = keeps_rules, .is_closed = keeps_rules, .direct_mark = enforcer_direct_mark(c), .way_is_p2p = &p2p, .outside = outside,
		.outside_count = ways_outside(e->ways, outside, WAYS_OUTSIDE_MAX), .never = never, .never_count = collect_never(e, c, never, NEVER_MAX) };
	struct element_list all = { .e = e, .c = c };
	struct nft_range_set *sets = NULL;
	size_t set_count = 0;
	int r = -ENOMEM;
	if (with_contents || is_lost(e)) {
		all.v = calloc(e->elements.count + 1, sizeof *all.v);
		sets = calloc(e->range_count + 1, sizeof *sets);
		if (!all.v || !sets)
			goto out;
		elements_walk(&e->elements, list_live, &all);
		qsort(all.v, all.count, sizeof *all.v, by_set); /* a set's elements go together in few messages */
		for (unsigned i = 0; i < e->range_count; i++) {
			const struct kept_ranges *k = &e->ranges[i];
			if (k->count && enforcer_rule(e, k->rule_id, NULL))
				sets[set_count++] = (struct nft_range_set){ .rule_id = k->rule_id, .family = k->family, .which = k->which, .r = k->r, .count = k->count };
		}
	}
	r = nft_apply(e->nft, &l, all.v, all.count, sets, set_count);
out:
	free(all.v);
	free(sets);
	/* Sets of rules that only the prepared configuration has were obsolete for the one in force: the mirror says what they hold, so they come back. */
	if (r == 0 && !keeps_rules && e->next.config && c != e->next.config && apply_table(e, e->next.config, true, true) < 0)
		forget_prepared(e);
	return r;
}

int enforcer_rebuild(struct enforcer *e)
{
	atomic_store(&e->shared->state, STEER_REBUILDING);
	atomic_fetch_add(&e->shared->rebuilds, 1);
	e->now_ms = clock_ms();
	e->is_rebuild_due = true;
	e->rebuild_at_ms = e->now_ms + REBUILD_MS;
	int r = apply_table(e, e->now.config, false, true);
	if (r == 0) {
		e->rebuild_at_ms = 0;
		e->is_rebuild_due = false;
		e->counters_rebuilds++;
		alarm_clear(e->alarms, "table");
		atomic_store(&e->shared->state, STEER_READY);
		log_info("somebody changed or removed our table; it stands again with %u addresses after %u ms", e->elements.count, (unsigned)(clock_ms() - e->now_ms));
	} else {
		alarm_set(e->alarms, "table", "our nft table could not be rebuilt: %s. Steered traffic stands still until it is; tried again all the time", nft_error(e->nft));
	}
	return r;
}

void enforcer_publish_ways(struct enforcer *e)
{
	uint64_t killed, no6, fallback, p2p;
	ways_bitmaps(e->ways, &killed, &no6, &fallback, &p2p);
	unsigned slot = e->now.serial & 1;
	atomic_store(&e->shared->cfg[slot].ways_down, killed);
	atomic_store(&e->shared->cfg[slot].ways_no6, no6);
	atomic_store(&e->shared->cfg[slot].ways_off, fallback);
	atomic_store(&e->shared->cfg[slot].serial, e->now.serial);
}

/* A way that is down though nobody asked for it is an alarm. */
static void alarm_ways(struct enforcer *e)
{
	for (unsigned i = 0; i < e->now.config->way_count; i++) {
		char key[64];
		snprintf(key, sizeof key, "way %.40s", e->now.config->ways[i].name);
		if (ways_state(e->ways, i) == WAY_UP || ways_state(e->ways, i) == WAY_DOWN_ADMIN)
			alarm_clear(e->alarms, key);
		else
			alarm_set(e->alarms, key, "way `%s` is down: %s", e->now.config->ways[i].name, ways_reason(e->ways, i));
	}
}

/* --- the parent's messages --- */

static void note_text(void *ctx, const char *text)
{
	struct steer_parent_reply *reply = ctx;
	size_t at = strlen(reply->text);
	if (!strncmp(text, "warning:", 8))
		log_warn("%s", text + 8);
	else if (at < sizeof reply->text - 2)
		snprintf(reply->text + at, sizeof reply->text - at, "%s%s", at ? "; " : "", text);
}

static int refuse_clashes(struct enforcer *e, const struct config *c, struct steer_parent_reply *reply)
{
	ways_clashes(e->ways, c, note_text, reply);
	nft_mark_clashes(e->nft, c->server.mark_mask, note_text, reply);
	return reply->text[0] ? NW_EREFUSED : 0;
}

static int open_nft(struct enforcer *e, const struct config *c, struct steer_parent_reply *reply)
{
	struct nft_options o = { .is_protected = c->server.table_protect, .no_destroy = getenv("NAMEWAY_OLD_KERNEL") != NULL };
	if (!e->nft && nft_open(&e->nft, &o) < 0) {
		snprintf(reply->text, sizeof reply->text, "nftables cannot be reached: the kernel lacks it, or CAP_NET_ADMIN is missing");
		return NW_EREFUSED;
	}
	nft_set_protection(e->nft, o.is_protected);
	if (nft_events_listen(e->nft, true) < 0) {
		snprintf(reply->text, sizeof reply->text, "changes of nftables cannot be watched: %s", nft_error(e->nft));
		return NW_EREFUSED;
	}
	enum nft_presence p;
	int r = nft_presence(e->nft, &p);
	/* An enforcer whose parent was killed leaves within moments: its table is then an orphan to adopt. */
	for (int i = 0; i < 30 && r == 0 && p == NFT_FOREIGN_OWNER; i++) {
		usleep(100000);
		r = nft_presence(e->nft, &p);
	}
	if (r == 0 && p == NFT_FOREIGN_OWNER) {
		snprintf(reply->text, sizeof reply->text, "another nameway owns the table `inet nameway` in this network namespace. Mend: stop it first");
		return NW_EREFUSED;
	}
	return r;
}

static void adopt_one(void *ctx, uint32_t rule_id, const struct addr *a, uint32_t remaining_s)
{
	struct enforcer *e = ctx;
	struct element *el = remaining_s ? elements_add(&e->elements, rule_id, a) : NULL;
	if (el)
		el->expires_ms = e->now_ms + (remaining_s == UINT32_MAX ? ENFORCER_LIFE_MAX_S : remaining_s) * 1000ull;
}

struct adopting { struct enforcer *e; uint32_t rule_id; };

static void adopt_element(void *ctx, const struct addr *a, uint32_t remaining_s)
{
	struct adopting *ad = ctx;
	adopt_one(ad->e, ad->rule_id, a, remaining_s);
}

/* What an earlier enforcer left in the kernel is taken over into the mirror. */
static void adopt_sets(struct enforcer *e, const struct config *c)
{
	for (unsigned i = 0; i < c->steer_count; i++) {
		struct adopting ad = { e, c->steers[i].id };
		nft_elements_dump(e->nft, ad.rule_id, 4, adopt_element, &ad);
		nft_elements_dump(e->nft, ad.rule_id, 6, adopt_element, &ad);
	}
	if (e->elements.count)
		log_info("took over %u addresses that the kernel still held", e->elements.count);
}

/* Connections that a committed change moved begin anew where the rules now say. Without the memory to tell them, all do. */
static void drop_moved_flows(struct enforcer *e, struct moved_view *before, int fd, const void *reply, size_t len)
{
	struct moved_view *after = before ? moved_view_new(e, &e->now, NULL) : NULL;
	if (after) {
		enforcer_drop_moved(before, after, fd, reply, len);
		return;
	}
	moved_view_free(before);
	enforcer_drop_all(e->now.config);
	if (len)
		enforcer_drop_flows(NULL, 0, 0, fd, reply, len);
}

/* The last look at a change: lists and sets are as the server wants them under it. */
static void settle_change(struct enforcer *e, int fd, const void *reply, size_t len)
{
	struct moved_view *before = e->before;
	if (e->is_change_committed && e->now.config) {
		e->before = NULL;
		e->is_change_committed = false;
		drop_moved_flows(e, before, fd, reply, len);
	} else if (len) {
		enforcer_drop_flows(NULL, 0, 0, fd, reply, len);
	}
}

/* At COMMIT rules are changed at once; what else moves comes with the server's sets, after which the parent asks (PARENT_FLOWS). */
static void begin_change(struct enforcer *e)
{
	struct moved_view *now = moved_view_new(e, &e->now, NULL);
	e->is_change_committed = true;
	e->moved_at_ms = e->now_ms + MOVED_MS;
	if (now && e->before && moved_rules_differ(e->before, now))
		enforcer_drop_moved(moved_view_share(e->before), now, -1, NULL, 0);
	else
		moved_view_free(now);
}

static int prepare(struct enforcer *e, const struct parent_msg *m, int fd, struct steer_parent_reply *reply)
{
	settle_change(e, -1, NULL, 0);
	forget_prepared(e);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return NW_EMALFORMED;
	void *bundle = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bundle == MAP_FAILED)
		return -errno;
	struct report rep;
	report_init(&rep);
	int r = config_parse(&e->next.config, bundle, (size_t)st.st_size, &rep);
	munmap(bundle, (size_t)st.st_size);
	report_free(&rep);
	if (r < 0)
		return r;
	e->next.serial = m->serial;
	e->next.hijack_port = m->hijack_port;
	const struct config *c = e->next.config;
	if ((r = count_foreign(&e->next)) < 0 || (r = open_nft(e, c, reply)) < 0 || (r = refuse_clashes(e, c, reply)) < 0)
		return r;
	bool is_first = !e->now.config;
	if (!is_first)
		e->before = moved_view_new(e, &e->now, NULL);
	enum nft_presence p = NFT_ABSENT;
	nft_presence(e->nft, &p);
	if (is_first && p != NFT_ABSENT)
		adopt_sets(e, c);
	if ((is_first && (r = configure_ways(e, e->next.config)) < 0) || (is_first && (r = ways_apply(e->ways, WAYS_APPLY_ALL)) < 0)) {
		snprintf(reply->text, sizeof reply->text, "routes and rules: %s", ways_error(e->ways));
		return r;
	}
	if ((r = apply_table(e, c, true, false)) < 0)
		snprintf(reply->text, sizeof reply->text, "nft: %s", nft_error(e->nft));
	enforcer_probe_foreign(e, &e->next);
	return r;
}

/* A mark that now means another way, or none, must not live on in connections. */
static void drop_remarked_flows(const struct config *old, const struct config *new)
{
	for (unsigned i = 0; i < old->way_count; i++) {
		bool is_kept = false;
		for (unsigned k = 0; k < new->way_count; k++)
			is_kept = is_kept || (!strcmp(old->ways[i].name, new->ways[k].name) && old->ways[i].mark == new->ways[k].mark);
		if (!is_kept)
			flows_drop_mark(old->ways[i].mark, old->server.mark_mask);
	}
	if (old->main_mark != new->main_mark)
		flows_drop_mark(old->main_mark, old->server.mark_mask);
}

static int commit(struct enforcer *e, uint32_t serial, struct steer_parent_reply *reply)
{
	if (!e->next.config || e->next.serial != serial)
		return NW_ESTALE;
	const struct config *c = e->next.config;
	e->now_ms = clock_ms();
	int r = configure_ways(e, e->next.config);
	if (r < 0 || (r = ways_apply(e->ways, WAYS_APPLY_ADD)) < 0) {
		snprintf(reply->text, sizeof reply->text, "routes and rules: %s", ways_error(e->ways));
		goto back;
	}
	if ((r = apply_table(e, c, false, false)) < 0) {
		snprintf(reply->text, sizeof reply->text, "nft: %s", nft_error(e->nft));
		goto back;
	}
	e->is_rebuild_due = false;
	if (e->now.config)
		drop_remarked_flows(e->now.config, c);
	struct policy_config old = e->now;
	e->now = e->next;
	e->next = (struct policy_config){ 0 };
	ways_apply(e->ways, WAYS_APPLY_ALL);
	if (old.config)
		begin_change(e);
	elements_walk(&e->elements, is_gone_rule, e);
	forget_gone_ranges(e);
	if (old.config)
		enforcer_forsake_foreign(e, &old);
	forget_config(e, &old);
	e->is_committed = true;
	if (c->server.table_protect && !nft_is_protected(e->nft))
		log_warn("this kernel cannot protect our table (flags owner, persist: Linux 6.9): it is watched and rebuilt instead");
	enforcer_publish_ways(e);
	alarm_ways(e);
	atomic_store(&e->shared->state, STEER_READY);
	e->is_foreign_due = true;
	return 0;
back:
	if (e->now.config) {
		configure_ways(e, e->now.config);
		ways_apply(e->ways, WAYS_APPLY_ALL);
	}
	return r;
}

static int set_way(struct enforcer *e, const struct parent_msg *m, struct steer_parent_reply *reply)
{
	/* Before the first COMMIT the prepared one is what ways stands by: a parent tells a new enforcer what it remembers. */
	const struct config *c = e->now.config ? e->now.config : e->next.config;
	for (unsigned i = 0; c && i < c->way_count; i++) {
		const struct cfg_way *w = &c->ways[i];
		if (strcmp(w->name, m->name))
			continue;
		bool was_down = ways_state(e->ways, i) == WAY_DOWN_ADMIN;
		ways_admin(e->ways, i, m->on);
		ways_apply(e->ways, WAYS_APPLY_ALL);
		if (!e->now.config)
			return 0;
		enforcer_publish_ways(e);
		if (w->interface[0] && was_down != (ways_state(e->ways, i) == WAY_DOWN_ADMIN))
			flows_drop_mark(w->mark, c->server.mark_mask);
		return 0;
	}
	snprintf(reply->text, sizeof reply->text, "there is no way `%s`", m->name);
	return -ENOENT;
}

static int receive_parent(int fd, struct parent_msg *ret, int *ret_fd)
{
	struct iovec iov = { .iov_base = ret, .iov_len = sizeof *ret };
	union { struct cmsghdr h; char room[CMSG_SPACE(sizeof(int))]; } control;
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.room };
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	*ret_fd = -1;
	if (n < 0)
		return -errno;
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(ret_fd, CMSG_DATA(c), sizeof(int));
	return n == 0 ? -EPIPE : n == sizeof *ret ? 0 : NW_EMALFORMED;
}

static void serve_parent(struct enforcer *e)
{
	struct parent_msg m;
	int fd;
	int r = receive_parent(e->args.parent_fd, &m, &fd);
	if (r == -EAGAIN || r == -EINTR)
		return;
	if (r == -EPIPE) {
		log_warn("the parent is gone; leaving the kernel as it stands");
		e->is_stopping = true;
		return;
	}
	struct steer_parent_reply reply = { .type = m.type, .serial = m.serial };
	m.name[sizeof m.name - 1] = 0;
	if (r == 0)
		switch (m.type) {
		case PARENT_PREPARE:
			if ((r = prepare(e, &m, fd, &reply)) < 0)
				forget_prepared(e);
			break;
		case PARENT_COMMIT: r = commit(e, m.serial, &reply); break;
		case PARENT_ABANDON: forget_prepared(e); break;
		case PARENT_WAY: r = set_way(e, &m, &reply); break;
		case PARENT_FLOWS: break;
		case PARENT_STOP: e->is_stopping = true; break;
		default: r = NW_EMALFORMED;
		}
	if (fd >= 0)
		close(fd);
	if (r < 0 && !reply.text[0])
		snprintf(reply.text, sizeof reply.text, "%s", nw_strerror(r));
	reply.result = r < 0 ? -1 : 0;
	if (r == 0 && m.type == PARENT_FLOWS)
		settle_change(e, e->args.parent_fd, &reply, sizeof reply);
	else
		send(e->args.parent_fd, &reply, sizeof reply, MSG_NOSIGNAL);
}

/* --- the kernel's events --- */

void enforcer_read_events(struct enforcer *e)
{
	int ev = nft_events_read(e->nft);
	if (ev <= 0)
		return;
	if (ev & (NFT_EV_OURS | NFT_EV_OVERFLOW))
		e->is_rebuild_due = true;
	if (ev & (NFT_EV_FOREIGN | NFT_EV_OVERFLOW))
		e->is_foreign_due = true;
}

static void drop_flows_of_changed(struct enforcer *e, const uint64_t before, const uint64_t after)
{
	for (unsigned i = 0; i < e->now.config->way_count; i++)
		if ((before ^ after) >> i & 1)
			enforcer_drop_mark(e->now.config->ways[i].mark, e->now.config->server.mark_mask);
}

/* What cannot be set is tried again all the time; and there are limits. */
static void alarm_routes(struct enforcer *e)
{
	const char *overflow = ways_overflow(e->ways);
	if (ways_is_failing(e->ways))
		alarm_set(e->alarms, "routes", "rules and routes do not stand as they should: %s. Mend: see what the kernel says; it is tried again all the time", ways_error(e->ways));
	else if (e->has_routes_alarm)
		alarm_clear(e->alarms, "routes");
	if (overflow)
		alarm_set(e->alarms, "routes-limit", "%s", overflow);
	else if (e->has_overflow_alarm)
		alarm_clear(e->alarms, "routes-limit");
	e->has_routes_alarm = ways_is_failing(e->ways);
	e->has_overflow_alarm = overflow;
}

static void turn_ways(struct enforcer *e)
{
	uint64_t skip, off_before, off_after;
	ways_bitmaps(e->ways, &skip, &skip, &off_before, &skip);
	int changed = ways_turn(e->ways, e->now_ms, &e->ways_at_ms);
	alarm_routes(e);
	if (!e->is_committed || changed <= 0)
		return;
	if (changed & WAYS_CH_STATE) {
		ways_bitmaps(e->ways, &skip, &skip, &off_after, &skip);
		enforcer_publish_ways(e);
		/* A way with a fallback moved its flows: they were NATed for the other exit and must begin anew. */
		drop_flows_of_changed(e, off_before, off_after);
	}
	if ((changed & WAYS_CH_OUTSIDE) && apply_table(e, e->now.config, false, false) < 0)
		e->is_rebuild_due = true;
	alarm_ways(e);
}

/* What waits. Only that is read: a look at what does not would cost every request as much as its own. */
struct ready { bool parent, events, ways, is_any_channel, channel[ENFORCER_CHANNELS_MAX]; };

static void wait_for_work(struct enforcer *e, struct ready *ret)
{
	enum { PARENT, EVENTS, CHANNELS };
	struct pollfd p[ENFORCER_CHANNELS_MAX + WAYS_FDS_MAX + CHANNELS];
	unsigned n = 0;
	p[n++] = (struct pollfd){ .fd = e->args.parent_fd, .events = POLLIN };
	p[n++] = (struct pollfd){ .fd = e->nft ? nft_events_fd(e->nft) : -1, .events = POLLIN };
	for (unsigned i = 0; i < e->args.channel_count; i++)
		p[n++] = (struct pollfd){ .fd = e->args.channel[i], .events = POLLIN };
	int fds[WAYS_FDS_MAX];
	int wfds = ways_fds(e->ways, fds);
	for (int i = 0; i < wfds; i++)
		p[n++] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
	uint64_t until = e->ways_at_ms < e->now_ms ? 0 : e->ways_at_ms - e->now_ms;
	int timeout = until > POLL_MAX_MS ? POLL_MAX_MS : (int)until;
	if (e->is_rebuild_due && timeout > REBUILD_MS)
		timeout = REBUILD_MS;
	bool has_work = poll(p, n, timeout) > 0;
	e->now_ms = clock_ms();
	*ret = (struct ready){ .parent = has_work && p[PARENT].revents, .events = has_work && p[EVENTS].revents };
	for (unsigned i = 0; has_work && i < e->args.channel_count; i++)
		ret->is_any_channel |= ret->channel[i] = p[CHANNELS + i].revents;
	for (unsigned i = CHANNELS + e->args.channel_count; has_work && i < n; i++)
		ret->ways |= p[i].revents != 0;
}

/* While others cannot change our table and no way has sets of others nobody's changes matter here, and the kernel tells each of ours to who listens. */
static void choose_events(struct enforcer *e)
{
	if (e->nft)
		nft_events_listen(e->nft, !e->is_committed || e->next.config || e->now.foreign_count || !nft_is_protected(e->nft));
}

static void turn(struct enforcer *e)
{
	struct ready ready;
	wait_for_work(e, &ready);
	if (ready.parent) {
		serve_parent(e);
		choose_events(e);
	}
	atomic_store(&e->shared->heartbeat_ms, e->now_ms);
	if (e->nft && ready.events)
		enforcer_read_events(e);
	if (e->is_rebuild_due && e->is_committed && e->now_ms >= e->rebuild_at_ms)
		enforcer_rebuild(e);
	if (e->nft && ready.is_any_channel)
		enforcer_serve(e, ready.channel);
	if (ready.ways || ready.parent || e->now_ms >= e->ways_at_ms)
		turn_ways(e);
	if (e->is_change_committed && e->now_ms >= e->moved_at_ms)
		settle_change(e, -1, NULL, 0);
	if (e->now_ms >= e->sweep_at_ms) {
		e->sweep_at_ms = e->now_ms + SWEEP_MS;
		enforcer_sweep(e);
	}
	/* At once, but not again and again while somebody else's tables change all the time. */
	if (e->is_foreign_due && e->now_ms >= e->foreign_at_ms) {
		enforcer_refill_foreign(e);
		e->foreign_at_ms = clock_ms() + FOREIGN_MS;
	}
}

int enforcer_main(const struct enforcer_args *args)
{
	static struct enforcer e;
	e.args = *args;
	e.shared = mmap(NULL, sizeof *e.shared, PROT_READ | PROT_WRITE, MAP_SHARED, args->shared_fd, 0);
	e.alarms = alarms_new();
	if (e.shared == MAP_FAILED || !e.alarms || elements_init(&e.elements) < 0 || ways_open(&e.ways) < 0) {
		log_error("the enforcer cannot start: %s", strerror(errno));
		return 1;
	}
	ways_set_state_dir(e.ways, args->state_fd);
	atomic_store(&e.shared->state, STEER_REBUILDING);
	if (args->is_restart)
		atomic_fetch_add(&e.shared->epoch, 1);
	e.now_ms = clock_ms();
	while (!e.is_stopping)
		turn(&e);
	atomic_store(&e.shared->state, STEER_DOWN);
	ways_leave(e.ways);
	nft_close(e.nft);
	return 0;
}

int enforcer_guard(const struct config *c, struct report *r)
{
	struct ways *w = NULL;
	int rc = ways_open(&w);
	if (rc == 0 && (rc = ways_configure(w, c)) == 0)
		rc = ways_apply(w, WAYS_APPLY_CLOSED);
	if (rc < 0)
		report_add(r, true, NULL, "the closing rules could not be set: %s", w ? ways_error(w) : nw_strerror(rc));
	ways_close(w);
	return rc;
}

int enforcer_clear(const struct config *c, int state_fd, struct report *r)
{
	struct ways *w = NULL;
	struct nft *n = NULL;
	struct nft_options o = { .is_protected = true };
	enum nft_presence present = NFT_ABSENT;
	int rn = nft_open(&n, &o);
	if (rn == 0 && nft_presence(n, &present) == 0 && present == NFT_FOREIGN_OWNER) {
		/* Nothing is touched: half a clearing would forget what is to be given back. */
		report_add(r, true, NULL, "a running namewayd owns the table `inet nameway`: nothing was cleared. Mend: stop it first");
		nft_close(n);
		return -EBUSY;
	}
	int rc = ways_open(&w);
	if (rc == 0 && (ways_set_state_dir(w, state_fd), rc = ways_configure(w, c)) == 0)
		rc = ways_remove_all(w);
	if (rc < 0)
		report_add(r, true, NULL, "routes and rules could not be removed: %s", w ? ways_error(w) : nw_strerror(rc));
	if (rn == 0)
		enforcer_clear_foreign(n, c);
	if (rn == 0 && (rn = nft_remove(n)) < 0)
		report_add(r, true, NULL, "the table `inet nameway` could not be removed: %s. Mend: stop namewayd first", nft_error(n));
	for (unsigned i = 0; i < c->way_count; i++)
		flows_drop_mark(c->ways[i].mark, c->server.mark_mask);
	nft_close(n);
	ways_close(w);
	return rc < 0 ? rc : rn;
}
