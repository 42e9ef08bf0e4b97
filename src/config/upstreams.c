/* SPDX-License-Identifier: GPL-3.0-or-later */
/* upstreams: groups of resolvers. `way` is set later, when the ways are known. */
#include <errno.h>
#include "config/load.h"

static bool is_unusable(const struct addr *a)
{
	static const uint8_t zero[16];
	bool is_any = true;
	for (unsigned i = 0; i < sizeof zero; i++)
		is_any &= a->b[i] == zero[i];
	return is_any || (a->family == AF_INET ? a->b[0] >= 224 : a->b[0] == 0xff);
}

static bool is_same(const struct endpoint *a, const struct endpoint *b)
{
	return a->port == b->port && addr_equal(&a->addr, &b->addr);
}

static int servers_load(struct load *l, const struct node *servers, struct cfg_upstream *up)
{
	up->servers = arena_alloc(l->c->arena, (value_count(servers) + 1) * sizeof *up->servers);
	if (!up->servers)
		return -ENOMEM;
	for (const struct node *v = value_first(servers); v; v = value_next(servers, v)) {
		struct endpoint *e = &up->servers[up->server_count];
		bool is_double = false;
		if (value_endpoint(l, v, e) < 0)
			continue;
		for (unsigned i = 0; i < up->server_count; i++)
			is_double |= is_same(e, &up->servers[i]);
		if (is_unusable(&e->addr))
			value_refuse(l, v, "is not the address of a server; give a unicast address");
		else if (listens_at(l->c, e))
			value_refuse(l, v,
			        "is where nameway itself listens, so it would ask itself; name another resolver, or another "
			        "port");
		else if (is_double)
			value_refuse(l, v, "stands here twice; take one out");
		else
			up->server_count++;
	}
	return 0;
}

static int upstream_load(struct load *l, const struct node *n, struct cfg_upstream *up)
{
	static const struct choice strategies[] = {{"ordered", 0, true}, {"fastest", 1, false}, {"all", 2, false}};
	const struct node *servers = node_child(n, "servers"), *strategy = node_child(n, "strategy");
	int chosen;
	up->place = n->key_place;
	up->name = n->key;
	up->way = -1;
	if (strategy)
		value_choice(l, strategy, strategies, sizeof strategies / sizeof *strategies, &chosen);
	if (servers)
		return servers_load(l, servers, up);
	if (!n->is_incomplete)
		report_add(l->r, true, &n->key_place, "upstream `%s` has no servers; add `servers: [ADDRESS]`", n->key);
	return 0;
}

int load_upstreams(struct load *l, const struct node *root)
{
	const struct node *upstreams = node_child(root, "upstreams");
	struct config *c = l->c;
	c->default_upstream = -1;
	if (!upstreams)
		return 0;
	c->upstreams = arena_alloc(c->arena, (upstreams->count + 1) * sizeof *c->upstreams);
	if (!c->upstreams)
		return -ENOMEM;
	for (const struct node *n = upstreams->first; n; n = n->next) {
		int r = upstream_load(l, n, &c->upstreams[c->upstream_count++]);
		if (r < 0)
			return r;
	}
	c->default_upstream = names_find(c, &names_upstreams, "default");
	return 0;
}
