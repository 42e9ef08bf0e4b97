/* SPDX-License-Identifier: GPL-3.0-or-later */
/* server, and hijack-dns, which is where else clients' questions come from. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/err.h"
#include "base/log.h"
#include "config/load.h"

enum { CONTROL_PATH_MAX = 107, USER_MAX = 31 };

static const struct cfg_listen listen_default = {.ep = {.addr = {.family = AF_INET, .b = {127, 0, 0, 1}}, .port = 53}};

/* "br-lan@53": splits off the port. */
static int listen_interface(struct load *l, const struct node *v, struct cfg_listen *ret)
{
	char name[IFNAME_MAX] = "";
	const char *at = strrchr(v->text, '@');
	size_t len = at ? (size_t)(at - v->text) : strlen(v->text);
	unsigned long port = 53;
	if (len < sizeof name)
		memcpy(name, v->text, len);
	if (at) {
		char *end;
		port = at[1] >= '0' && at[1] <= '9' ? strtoul(at + 1, &end, 10) : 0;
		if (!port || port > 65535 || *end)
			return value_refuse(l, v, "has no good port; write @ and 1 to 65535, as br-lan@53");
	}
	if (!ifname_is_good(name))
		return value_refuse(l, v,
		        "is neither an interface nor an address; write it like br-lan@53, \"192.0.2.1@53\" or "
		        "\"[2001:db8::1]@53\"");
	memcpy(ret->ifname, name, sizeof name);
	ret->ep = (struct endpoint){.port = (uint16_t)port};
	return 0;
}

static int listen_parse(struct load *l, const struct node *v, struct cfg_listen *ret)
{
	*ret = (struct cfg_listen){.place = v->place};
	/* No interface's name has a colon in it, so such a text was meant as an address. */
	if (!strchr(v->text, '%') && endpoint_parse(&ret->ep, v->text, 53) == 0)
		return 0;
	if (strchr(v->text, ':'))
		return value_endpoint(l, v, &ret->ep);
	return listen_interface(l, v, ret);
}

static int listen_load(struct load *l, const struct node *n, struct cfg_server *s)
{
	s->listen = arena_alloc(l->c->arena, (value_count(n) + 1) * sizeof *s->listen);
	if (!s->listen)
		return -ENOMEM;
	if (!n) {
		s->listen[s->listen_count++] = listen_default;
		return 0;
	}
	for (const struct node *v = value_first(n); v; v = value_next(n, v)) {
		struct cfg_listen *at = &s->listen[s->listen_count];
		if (listen_parse(l, v, at) < 0)
			continue;
		const struct cfg_listen *twin = NULL;
		for (unsigned i = 0; i < s->listen_count; i++)
			if (!strcmp(s->listen[i].ifname, at->ifname) && s->listen[i].ep.port == at->ep.port &&
			        addr_equal(&s->listen[i].ep.addr, &at->ep.addr))
				twin = &s->listen[i];
		if (twin)
			report_add(l->r, true, &v->place, "`listen`: `%.80s` is already given at %s:%d:%d; keep one of them",
			        v->text, twin->place.file, twin->place.line, twin->place.column);
		else
			s->listen_count++;
	}
	return 0;
}

static bool is_any(const struct addr *a)
{
	static const uint8_t zero[16];
	return !memcmp(a->b, zero, sizeof zero);
}

/* Whether the address is one of the interface's; ifname NULL: of any. */
static bool is_address_of(const struct machine *m, const char *ifname, const struct endpoint *e)
{
	for (unsigned i = 0; i < m->count; i++) {
		const struct machine_entry *own = &m->v[i];
		if (addr_equal(&own->addr, &e->addr) && (!e->scope || e->scope == own->index) &&
		        (!ifname || !strcmp(own->ifname, ifname)))
			return true;
	}
	return false;
}

bool listens_at(const struct load *l, const struct endpoint *e)
{
	const struct cfg_server *s = &l->c->server;
	for (unsigned i = 0; i < s->listen_count; i++) {
		const struct cfg_listen *at = &s->listen[i];
		if (at->ep.port != e->port)
			continue;
		if (*at->ifname ? is_address_of(&l->machine, at->ifname, e) : addr_equal(&at->ep.addr, &e->addr))
			return true;
		if (!*at->ifname && is_any(&at->ep.addr) && at->ep.addr.family == e->addr.family &&
		        is_address_of(&l->machine, NULL, e))
			return true;
	}
	return false;
}

/* Prefixes and names of groups, mixed. */
static int allow_load(struct load *l, const struct node *n, struct cfg_server *s)
{
	s->allow_default = !n;
	if (!n)
		return 0;
	s->allow = arena_alloc(l->c->arena, value_count(n) * sizeof *s->allow);
	s->allow_groups.v = arena_alloc(l->c->arena, value_count(n) * sizeof *s->allow_groups.v);
	if (!s->allow || !s->allow_groups.v)
		return -ENOMEM;
	for (const struct node *v = value_first(n); v; v = value_next(n, v)) {
		struct prefix p;
		if (strpbrk(v->text, "/:") || prefix_parse(&p, v->text) == 0) {
			s->allow_count += value_prefix(l, v, &s->allow[s->allow_count]) == 0;
			continue;
		}
		int group = names_resolve(l, &names_groups, v);
		if (group >= 0)
			s->allow_groups.v[s->allow_groups.count++] = (uint16_t)group;
	}
	return 0;
}

static void log_load(struct load *l, const struct node *n, struct cfg_server *s)
{
	static const struct choice levels[] = {{"error", LOG_L_ERROR, true}, {"warn", LOG_L_WARN, true},
	        {"info", LOG_L_INFO, true}, {"debug", LOG_L_DEBUG, true}};
	const struct node *level = node_child(n, "level"), *to = node_child(n, "to"), *query_log = node_child(n, "queries");
	const struct node *keep = node_child(n, "keep"), *size = node_child(n, "size");
	uint64_t keep_ms = 7 * DAY_MS;
	s->log_level = LOG_L_INFO;
	s->log_to = "stderr";
	s->log_bytes = 64 << 20;
	if (level)
		value_choice(l, level, levels, 4, &s->log_level);
	if (to && strcmp(to->text, "stderr"))
		report_add(l->r, true, &to->place, "`to: %.80s` is not in this version; write `to: stderr`", to->text);
	if (query_log)
		value_bool(l, query_log, &s->log_queries);
	if (keep)
		value_duration(l, keep, HOUR_MS, 3650 * DAY_MS, &keep_ms);
	if (size)
		value_size(l, size, 1 << 20, 64ULL << 30, &s->log_bytes);
	s->log_keep_s = (uint32_t)((keep_ms + 999) / 1000);
}

static void workers_load(struct load *l, const struct node *n, struct cfg_server *s)
{
	uint64_t count = 0;
	if (n && strcmp(n->text, "auto"))
		value_number(l, n, 1, 64, &count);
	s->workers = (unsigned)count;
}

static int paths_load(struct load *l, const struct node *server, struct cfg_server *s)
{
	const struct node *state = node_child(server, "state"), *control = node_child(server, "control"),
	                  *user = node_child(server, "user");
	int r = 0;
	s->state = "/var/lib/nameway";
	s->control = "/run/nameway/control.sock";
	s->user = "nameway";
	if (state)
		r = value_path(l, state, &s->state);
	if (r != -ENOMEM && control)
		r = value_path(l, control, &s->control);
	if (strlen(s->control) > CONTROL_PATH_MAX)
		value_refuse(l, control, "is too long for a socket, whose whole path may have 107 bytes; shorten it");
	if (user)
		value_text(l, user, USER_MAX, &s->user);
	if (user && !strcmp(s->user, "root"))
		report_add(l->r, false, &user->place,
		        "`user: root`: the process that parses packets keeps root's files; give it a user of its own");
	return r == -ENOMEM ? r : 0;
}

static int hijack_load(struct load *l, const struct node *n)
{
	static const struct choice dot[] = {{"pass", 0, true}, {"reject", 1, true}};
	struct cfg_hijack *h = &l->c->hijack;
	const struct node *interfaces = node_child(n, "interfaces"), *dot_node = node_child(n, "dot");
	int chosen = 0;
	if (!n)
		return 0;
	if (!interfaces && !n->is_incomplete)
		report_add(l->r, true, &n->key_place,
		        "`hijack-dns` names no interfaces; add `interfaces: [NAME]`, or leave `hijack-dns` out");
	if (dot_node)
		value_choice(l, dot_node, dot, 2, &chosen);
	h->dot_reject = chosen;
	h->is_on = interfaces;
	int r = values_ifname(l, interfaces, &h->interfaces, &h->interface_count);
	return r < 0 ? r : values_prefix(l, node_child(n, "except"), &h->except, &h->except_count);
}

int load_server(struct load *l, const struct node *root)
{
	static const struct choice protect[] = {{"auto", 1, true}, {"off", 0, true}};
	const struct node *server = node_child(root, "server");
	const struct node *mask = node_child(server, "mark-mask"), *life = node_child(server, "element-min"),
	                  *table = node_child(server, "table-protect");
	struct cfg_server *s = &l->c->server;
	uint64_t mask_value = 0xf000, life_ms = 300000;
	int protects = 1;
	workers_load(l, node_child(server, "workers"), s);
	log_load(l, node_child(server, "log"), s);
	if (mask)
		value_number(l, mask, 1, UINT32_MAX, &mask_value);
	if (life)
		value_duration(l, life, 1000, 7 * DAY_MS, &life_ms);
	if (table)
		value_choice(l, table, protect, 2, &protects);
	s->mark_mask = (uint32_t)mask_value;
	s->element_min_s = (uint32_t)((life_ms + 999) / 1000);
	s->table_protect = protects;
	int r = listen_load(l, node_child(server, "listen"), s);
	if (r >= 0)
		r = allow_load(l, node_child(server, "allow"), s);
	if (r >= 0)
		r = paths_load(l, server, s);
	return r < 0 ? r : hijack_load(l, node_child(root, "hijack-dns"));
}
