/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Warnings about a configuration that is right in every part, but will hardly do what its author wants. */
#include <string.h>
#include "config/load.h"

static void upstreams_advise(struct load *l, const struct node *root)
{
	const struct config *c = l->c;
	const struct node *nodes = node_child(root, "upstreams");
	if (c->default_upstream < 0)
		report_add(l->r, false, nodes ? &nodes->key_place : NULL,
		        "there is no upstream `default`, so only local names and those steered to a way with an "
		        "`upstream` resolve; add `upstreams: { default: { servers: [ADDRESS] } }`");
	for (unsigned i = 0; i < c->upstream_count; i++) {
		const struct cfg_upstream *up = &c->upstreams[i];
		const struct node *n = node_child(nodes, up->name);
		if ((int)i != c->default_upstream && up->way < 0 && !node_child(n, "domains") && n && !n->is_incomplete)
			report_add(l->r, false, &up->place,
			        "nothing asks upstream `%s`; give it `domains`, name it as the `upstream` of a way, or take it out",
			        up->name);
	}
}

static void filters_advise(struct load *l, const struct node *root)
{
	const struct node *filter = node_child(root, "filter");
	const struct node *n = filter ? filter->first : NULL;
	for (unsigned i = 0; n && i < l->c->filter_count; i++, n = n->next) {
		const struct cfg_filter *f = &l->c->filters[i];
		const struct node *ttl = node_child(n, "ttl");
		if (ttl && (f->allow || f->block == BLOCK_REFUSE || f->block == BLOCK_DROP))
			report_add(l->r, false, &ttl->key_place,
			        "`ttl` has no effect on rule `%s`, which makes no answer that clients keep; take it out", f->name);
	}
}

static void groups_advise(struct load *l)
{
	for (unsigned i = 0; i < l->c->group_count; i++) {
		const struct cfg_group *g = &l->c->groups[i];
		bool has_v6 = !g->network_count;
		for (unsigned j = 0; j < g->network_count; j++)
			has_v6 |= g->networks[j].addr.family == AF_INET6;
		if (!has_v6)
			report_add(l->r, false, &g->place,
			        "clients of `%s` are recognised by IPv4 networks only: their IPv6 traffic does not match; "
			        "add their IPv6 prefix, or use `interfaces` or `macs` alone",
			        g->name);
	}
}

static void ways_advise(struct load *l)
{
	for (unsigned i = 0; i < l->c->way_count; i++) {
		const struct cfg_way *w = &l->c->ways[i];
		if (w->set4_count && !w->set6_count)
			report_add(l->r, false, &w->sets4[0].place,
			        "way `%s` has no IPv6 set: AAAA answers of its names are not filled; add `ip6:`%s", w->name,
			        w->ipv6_off ? "" : ", or `ipv6: off`");
		else if (w->set6_count && !w->set4_count)
			report_add(l->r, false, &w->sets6[0].place,
			        "way `%s` has no IPv4 set: A answers of its names are not filled; add `ip:`", w->name);
		if (w->upstream >= 0 && w->upstream == l->c->default_upstream)
			report_add(l->r, false, &w->place,
			        "way `%s` takes upstream `default` for itself: all names are asked through it, and none is answered "
			        "while it is down; give the way an upstream of its own",
			        w->name);
	}
}

/* Names of a way that has no resolvers of its own are asked at `default`, which shows them to whoever sees that path. */
static void lookups_advise(struct load *l)
{
	const struct config *c = l->c;
	for (unsigned i = 0; i < c->way_count; i++) {
		const struct cfg_way *w = &c->ways[i];
		if (w->upstream >= 0 || (!*w->interface && !w->set4_count && !w->set6_count))
			continue;
		for (unsigned j = 0; j < c->steer_count; j++) {
			const struct cfg_steer *s = &c->steers[j];
			if (s->way != (int)i || !s->enabled || (!s->names.count && !s->except_names.count))
				continue;
			report_add(l->r, false, &w->place,
			        "way `%s` has no upstream: names steered to `%s` are asked at upstream `default`; add `upstream: "
			        "NAME`",
			        w->name, w->name);
			break;
		}
	}
}

static bool matches_all(const struct cfg_steer *s)
{
	return s->enabled && !s->has_gid && !s->clients.count && !s->except_clients.count && !s->names.count &&
	       !s->except_names.count;
}

static void order_advise(struct load *l)
{
	const struct config *c = l->c;
	const struct cfg_steer *last = NULL;
	for (unsigned i = 0; i < c->steer_count; i++) {
		const struct cfg_steer *s = &c->steers[i];
		if (last && !s->has_gid) {
			report_add(l->r, false, &s->place,
			        "rule `%s` is never reached: `%s` (%s:%d:%d) before it matches everything; move that one to the "
			        "end",
			        s->name, last->name, last->place.file, last->place.line, last->place.column);
			return;
		}
		if (matches_all(s))
			last = s;
	}
}

void advise(struct load *l, const struct node *root)
{
	if (!node_child(node_child(root, "server"), "listen"))
		report_add(l->r, false, NULL,
		        "`server.listen` is not given: only this machine can ask, at 127.0.0.1@53; name the interfaces of the "
		        "clients");
	upstreams_advise(l, root);
	filters_advise(l, root);
	groups_advise(l);
	ways_advise(l);
	lookups_advise(l);
	order_advise(l);
}
