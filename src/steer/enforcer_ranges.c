/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The listed ranges of rules: gathered from the server's parts, cleaned, put into the rule's interval set in one transaction and kept, so that a lost
 * table is made again with them. Addresses that steering never touches are cut out of what a rule takes, whoever lists them; private ones stay: they
 * are listed on purpose. The enforcer's thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "base/err.h"
#include "base/log.h"
#include "steer/enforcer_moved.h"
#include "steer/nft_internal.h"

/* --- what is cut out --- */

struct cuts { struct range_list list; uint8_t family; int failed; };

static void cut_one(struct cuts *c, const struct addr *a)
{
	if (a->family == c->family && range_list_add(&c->list, a, a) < 0)
		c->failed = -ENOMEM;
}

static void cut_own(void *ctx, const struct prefix *p, bool is_outside)
{
	(void)is_outside;
	cut_one(ctx, &p->addr);
}

static void cut_prefix(struct cuts *c, const char *text)
{
	struct prefix p;
	if (prefix_parse(&p, text) < 0 || p.addr.family != c->family)
		return;
	struct addr last = p.addr;
	for (unsigned bit = p.len; bit < (c->family == AF_INET ? 32u : 128u); bit++)
		last.b[bit / 8] |= (uint8_t)(0x80 >> bit % 8);
	if (range_list_add(&c->list, &p.addr, &last) < 0)
		c->failed = -ENOMEM;
}

static void cut_upstreams(struct cuts *c, const struct config *config)
{
	for (unsigned i = 0; config && i < config->upstream_count; i++)
		for (unsigned k = 0; k < config->upstreams[i].server_count; k++)
			cut_one(c, &config->upstreams[i].servers[k].addr);
}

/* As addr_is_never_remote has them; mapped addresses are on no wire. */
static int collect_cuts(const struct enforcer *e, struct cuts *c)
{
	static const char *const never[] = { "0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/4", "240.0.0.0/4", "::/127", "::ffff:0:0/96", "ff00::/8" };
	static struct endpoint endpoints[WAYS_ENDPOINTS_MAX];
	unsigned count = ways_endpoints(e->ways, endpoints, WAYS_ENDPOINTS_MAX);
	for (unsigned i = 0; i < sizeof never / sizeof never[0]; i++)
		cut_prefix(c, never[i]);
	for (unsigned i = 0; i < count; i++)
		cut_one(c, &endpoints[i].addr);
	cut_upstreams(c, e->now.config);
	cut_upstreams(c, e->next.config);
	ways_own_networks(e->ways, cut_own, c);
	c->list.count = ranges_order(c->list.v, c->list.count);
	return c->failed;
}

/* An exception, or the set of a rule that is turned round, keeps them: taken out there they would be steered. */
static int clean(const struct enforcer *e, const struct kept_ranges *in, struct range_list *ret)
{
	struct cuts c = { .family = in->family == 4 ? AF_INET : AF_INET6 };
	const struct cfg_steer *rule = enforcer_rule(e, in->rule_id, NULL);
	unsigned count = ranges_order(in->r, in->count);
	int r = in->which == 0 && rule && !nft_is_negated(rule) && count ? collect_cuts(e, &c) : 0;
	if (r == 0)
		r = ranges_subtract(ret, in->r, count, c.list.v, c.list.count);
	range_list_free(&c.list);
	return r;
}

/* --- keeping --- */

static struct kept_ranges *kept_for(struct enforcer *e, const struct kept_ranges *in)
{
	for (unsigned i = 0; i < e->range_count; i++) {
		struct kept_ranges *k = &e->ranges[i];
		if (k->rule_id == in->rule_id && k->family == in->family && k->which == in->which)
			return k;
	}
	if (e->range_count == KEPT_RANGES_MAX)
		return NULL;
	struct kept_ranges *k = &e->ranges[e->range_count++];
	*k = (struct kept_ranges){ .rule_id = in->rule_id, .family = in->family, .which = in->which };
	return k;
}

/* Parts are gathered aside: until the last one came and the kernel took them all, what was kept stays. */
static int gather_part(struct kept_ranges *k, const struct steer_prefixes *in)
{
	if (in->is_first) {
		k->count = 0;
		k->rule_id = in->rule_id;
		k->family = in->family;
		k->which = in->which;
	} else if (k->rule_id != in->rule_id || k->family != in->family || k->which != in->which) {
		return NW_EMALFORMED;
	}
	if (k->count + in->count > STEER_RANGES_MAX)
		return NW_EFULL;
	if (k->count + in->count > k->cap) {
		unsigned cap = (k->count + in->count) * 2;
		struct range *r = realloc(k->r, cap * sizeof *r);
		if (!r)
			return -ENOMEM;
		k->r = r;
		k->cap = cap;
	}
	for (unsigned i = 0; i < in->count; i++) {
		struct range *r = &k->r[k->count++];
		memset(r, 0, sizeof *r);
		r->first.family = r->last.family = in->family == 4 ? AF_INET : AF_INET6;
		memcpy(r->first.b, in->r[i].first, in->family == 4 ? 4 : 16);
		memcpy(r->last.b, in->r[i].last, in->family == 4 ? 4 : 16);
	}
	return 0;
}

static int put_ranges(struct enforcer *e, struct kept_ranges *k, struct range_list *new)
{
	size_t all = new->count;
	for (unsigned i = 0; i < e->range_count; i++)
		all += &e->ranges[i] == k ? 0 : e->ranges[i].count;
	if (all > KEPT_RANGES_ALL)
		return -2;
	struct nft_range_set set = { .rule_id = k->rule_id, .family = k->family, .which = k->which, .r = new->v, .count = new->count };
	int r = nft_ranges_replace(e->nft, &set);
	if (r < 0)
		log_warn("listed prefixes could not be put into a set: %s", nft_error(e->nft));
	if (r == -ENOENT)
		e->is_rebuild_due = true; /* the table is gone: they come back with it */
	else if (r < 0)
		return -1;
	free(k->r);
	k->r = new->v;
	k->count = new->count;
	k->cap = new->cap;
	*new = (struct range_list){ 0 };
	enforcer_ranges_foreign(e, k->rule_id);
	return r < 0 ? -1 : 0;
}

/* The gathered ranges come to stand for what was kept. True: `done` is sent when the connections that this moved are gone. */
static bool apply_ranges(struct enforcer *e, bool drops, int fd, struct steer_done *done)
{
	struct kept_ranges *k = kept_for(e, &e->coming);
	struct range_list new = { 0 }, left = { 0 };
	struct moved_view *before = NULL, *after = NULL;
	done->result = -2;
	if (!k || clean(e, &e->coming, &new) < 0)
		goto out;
	if (drops && e->now.config && ranges_subtract(&left, k->r, k->count, new.v, new.count) == 0 && left.count)
		before = moved_view_new(e, &e->now, &left);
	done->result = (int16_t)put_ranges(e, k, &new);
	if (before && done->result == 0)
		after = moved_view_new(e, &e->now, &left);
	if (after) {
		enforcer_drop_moved(before, after, fd, done, sizeof *done);
		before = NULL;
	} else if (left.count && done->result == 0) {
		log_error("out of memory: connections to prefixes that were taken from a list keep their exit");
	}
out:
	moved_view_free(before);
	range_list_free(&new);
	range_list_free(&left);
	return after;
}

void enforcer_serve_prefixes(struct enforcer *e, int fd, const struct steer_prefixes *in)
{
	struct steer_done done = { .type = STEER_PREFIXES_DONE, .seq = in->seq };
	if (!enforcer_rule(e, in->rule_id, NULL) || (in->family != 4 && in->family != 6) || in->which > 1)
		done.result = -3;
	else if (gather_part(&e->coming, in) < 0)
		done.result = -2;
	else if (in->is_last && apply_ranges(e, in->drop_flows, fd, &done))
		return;
	if (in->is_last || done.result)
		send(fd, &done, sizeof done, MSG_DONTWAIT | MSG_NOSIGNAL);
}
