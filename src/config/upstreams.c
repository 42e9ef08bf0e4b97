/* SPDX-License-Identifier: GPL-3.0-or-later */
/* upstreams: groups of resolvers. `way` is set later, when the ways are known. Servers are those given, then those of the
 * resolv.conf as the bundle has it: what is wrong with that file is a warning, since it is another program's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "config/load.h"
#include "config/resolv.h"

enum { INFLIGHT_DEFAULT = 8192, INFLIGHT_MAX = 65536 };

/* A domain of any group, to find the same one in two. */
struct domain {
	struct name *name;
	const struct node *node;
	const char *group;
	unsigned number;
};

struct domains {
	struct domain *v;
	unsigned count;
};

static bool is_unusable(const struct addr *a)
{
	static const uint8_t zero[16];
	return !memcmp(a->b, zero, sizeof zero) || (a->family == AF_INET ? a->b[0] >= 224 : a->b[0] == 0xff);
}

static bool is_link_local(const struct addr *a)
{
	return a->family == AF_INET6 && a->b[0] == 0xfe && (a->b[1] & 0xc0) == 0x80;
}

static bool has_server(const struct cfg_upstream *up, const struct endpoint *e)
{
	for (unsigned i = 0; i < up->server_count; i++) {
		const struct endpoint *s = &up->servers[i];
		if (s->port == e->port && s->scope == e->scope && addr_equal(&s->addr, &e->addr))
			return true;
	}
	return false;
}

static void servers_load(struct load *l, const struct node *servers, struct cfg_upstream *up)
{
	for (const struct node *v = value_first(servers); v; v = value_next(servers, v)) {
		struct endpoint e;
		if (value_endpoint(l, v, &e) < 0)
			continue;
		if (is_unusable(&e.addr))
			value_refuse(l, v, "is not the address of a server; give a unicast address");
		else if (listens_at(l, &e))
			value_refuse(l, v,
			        "is where nameway itself listens, so it would ask itself; name another resolver, or another "
			        "port");
		else if (has_server(up, &e))
			value_refuse(l, v, "stands here twice; take one out");
		else
			up->servers[up->server_count++] = e;
	}
}

/* The number behind %: an interface's, or as it stands. */
static bool scope_find(const struct load *l, const char *scope, uint32_t *ret)
{
	char *end;
	if (scope[strspn(scope, "0123456789")]) {
		*ret = machine_index(&l->machine, scope);
		return *ret;
	}
	errno = 0;
	unsigned long number = strtoul(scope, &end, 10);
	*ret = (uint32_t)number;
	return !errno && number && number <= INT32_MAX;
}

/* Why a server of a resolv.conf is not asked, or NULL. */
static const char *resolv_server_take(struct load *l, const struct resolv_server *s, struct endpoint *ret)
{
	*ret = (struct endpoint){.addr = s->addr, .port = 53};
	if (!s->addr.family)
		return "is no address";
	if (is_unusable(&s->addr))
		return "is not the address of a server";
	if (is_link_local(&s->addr) && !*s->scope)
		return "is a link-local address without its interface, as in fe80::1%eth0";
	if (is_link_local(&s->addr) && !scope_find(l, s->scope, &ret->scope))
		return "names an interface that is not there now";
	if (listens_at(l, ret))
		return "is where nameway itself listens, so it would ask itself";
	return NULL;
}

static void resolv_servers_load(struct load *l, const struct load_resolv *file, struct cfg_upstream *up)
{
	struct resolv_reader lines = {.at = file->text, .end = file->text + file->len};
	struct resolv_server s;
	while (resolv_next(&lines, &s)) {
		struct place p = {file->path, s.line, s.column};
		struct endpoint e;
		const char *why = resolv_server_take(l, &s, &e);
		if (!why && has_server(up, &e))
			continue;
		if (!why && up->server_count == CONFIG_SERVERS_MAX) {
			report_add(l->r, false, &p, "upstream `%s` has %d servers already; those from here on are not asked", up->name,
			        CONFIG_SERVERS_MAX);
			return;
		}
		if (why)
			report_add(l->r, false, &p, "`nameserver`: `%s` %s; it is not asked", s.text, why);
		else
			up->servers[up->server_count++] = e;
	}
}

static int resolv_load(struct load *l, const struct node *n, struct cfg_upstream *up)
{
	const struct load_resolv *file = NULL;
	unsigned given = up->server_count;
	int r = value_path(l, n, &up->resolv_conf);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	for (unsigned i = 0; i < l->resolv_count && !file; i++)
		file = strcmp(l->resolvs[i].path, up->resolv_conf) ? NULL : &l->resolvs[i];
	if (file)
		resolv_servers_load(l, file, up);
	if (up->server_count == given)
		report_add(l->r, false, &n->place, "`resolv-conf`: %.200s %s; %s until there is one", up->resolv_conf,
		        file ? "names no server that can be asked" : "is not there or cannot be read",
		        given ? "only `servers` are asked" : "questions to this group fail");
	return 0;
}

static int domains_load(struct load *l, const struct node *n, struct cfg_upstream *up, struct domains *all)
{
	up->domains = arena_alloc(l->c->arena, (value_count(n) + 1) * sizeof *up->domains);
	if (!up->domains)
		return -ENOMEM;
	for (const struct node *v = value_first(n); v; v = value_next(n, v)) {
		struct name *name = &up->domains[up->domain_count];
		if (value_name(l, v, name) < 0)
			continue;
		all->v[all->count] = (struct domain){name, v, up->name, all->count};
		all->count++;
		up->domain_count++;
	}
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct domain *x = a, *y = b;
	int order = x->name->len - y->name->len;
	if (!order)
		order = memcmp(x->name->wire, y->name->wire, x->name->len);
	return order ? order : x->number < y->number ? -1 : 1;
}

static void domains_check(struct load *l, struct domains *all)
{
	if (all->count)
		qsort(all->v, all->count, sizeof *all->v, by_name);
	for (unsigned i = 1; i < all->count; i++) {
		const struct domain *first = &all->v[i - 1], *d = &all->v[i];
		if (!name_equal(first->name, d->name))
			continue;
		if (first->group == d->group)
			value_refuse(l, d->node, "stands here twice; take one out");
		else
			report_add(l->r, true, &d->node->place,
			        "`domains`: `%.80s` of upstream `%s` is a domain of upstream `%s` already (%s:%d:%d); a domain belongs to "
			        "one group: take one of them out",
			        d->node->text, d->group, first->group, first->node->place.file, first->node->place.line,
			        first->node->place.column);
	}
}

static void options_load(struct load *l, const struct node *n, struct cfg_upstream *up)
{
	static const struct choice strategies[] = {
	        {"ordered", STRATEGY_ORDERED, true}, {"fastest", STRATEGY_FASTEST, true}, {"all", STRATEGY_ALL, true}};
	const struct node *strategy = node_child(n, "strategy"), *in_flight = node_child(n, "max-in-flight"),
	                  *random_case = node_child(n, "random-case");
	int chosen = STRATEGY_ORDERED;
	uint64_t count = INFLIGHT_DEFAULT;
	if (strategy)
		value_choice(l, strategy, strategies, sizeof strategies / sizeof *strategies, &chosen);
	if (in_flight)
		value_number(l, in_flight, 1, INFLIGHT_MAX, &count);
	if (random_case)
		value_bool(l, random_case, &up->random_case);
	up->strategy = (enum upstream_strategy)chosen;
	up->inflight_max = (uint32_t)count;
}

static int upstream_load(struct load *l, const struct node *n, struct cfg_upstream *up, struct domains *all)
{
	const struct node *servers = node_child(n, "servers"), *resolv = node_child(n, "resolv-conf"),
	                  *domains = node_child(n, "domains");
	int r = 0;
	up->place = n->key_place;
	up->name = n->key;
	up->way = -1;
	options_load(l, n, up);
	up->servers = arena_alloc(l->c->arena, CONFIG_SERVERS_MAX * sizeof *up->servers);
	if (!up->servers)
		return -ENOMEM;
	servers_load(l, servers, up);
	if (resolv)
		r = resolv_load(l, resolv, up);
	if (r >= 0 && domains)
		r = domains_load(l, domains, up, all);
	if (!servers && !resolv && !n->is_incomplete)
		report_add(l->r, true, &n->key_place,
		        "upstream `%s` has no servers; add `servers: [ADDRESS]`, or `resolv-conf: PATH`", n->key);
	return r;
}

int load_upstreams(struct load *l, const struct node *root)
{
	const struct node *upstreams = node_child(root, "upstreams");
	struct config *c = l->c;
	struct domains all = {0};
	unsigned count = 0;
	c->default_upstream = -1;
	if (!upstreams)
		return 0;
	for (const struct node *n = upstreams->first; n; n = n->next)
		count += value_count(node_child(n, "domains"));
	c->upstreams = arena_alloc(c->arena, (upstreams->count + 1) * sizeof *c->upstreams);
	all.v = arena_alloc(c->arena, (count + 1) * sizeof *all.v);
	if (!c->upstreams || !all.v)
		return -ENOMEM;
	for (const struct node *n = upstreams->first; n; n = n->next) {
		int r = upstream_load(l, n, &c->upstreams[c->upstream_count++], &all);
		if (r < 0)
			return r;
	}
	domains_check(l, &all);
	c->default_upstream = names_find(c, &names_upstreams, "default");
	return 0;
}
