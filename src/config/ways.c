/* SPDX-License-Identifier: GPL-3.0-or-later */
/* ways: exits, key by key. Marks, table numbers and fallbacks, which need all ways, are in marks.c. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/err.h"
#include "config/load.h"

enum { NFT_NAME_MAX = 255, PING_DEFAULT_MS = 5000 };

static const char *const nft_families[] = {"inet", "ip", "ip6", "bridge", "netdev"};

static bool nft_name_is_good(const char *text, size_t len)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", others[] = "0123456789_./\\-";
	if (!len || len > NFT_NAME_MAX || !strchr(letters, *text))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!strchr(letters, text[i]) && !strchr(others, text[i]))
			return false;
	return true;
}

/* "FAMILY TABLE SET", single blanks or more between them. */
static int set_parse(struct load *l, const struct node *v, bool is_v6, struct cfg_set *ret)
{
	const char *words[3], *c = v->text;
	size_t lens[3];
	for (int i = 0; i < 3; i++) {
		c += strspn(c, " ");
		words[i] = c;
		lens[i] = strcspn(c, " ");
		c += lens[i];
	}
	const char *family = NULL;
	for (size_t i = 0; i < sizeof nft_families / sizeof *nft_families; i++)
		if (strlen(nft_families[i]) == lens[0] && !strncmp(nft_families[i], words[0], lens[0]))
			family = nft_families[i];
	if (!family || c[strspn(c, " ")] || !nft_name_is_good(words[1], lens[1]) || !nft_name_is_good(words[2], lens[2]))
		return value_refuse(l, v, "is not a set; write \"FAMILY TABLE SET\" as nft shows them, as \"inet fw4 vpn4\"");
	if (!strcmp(family, is_v6 ? "ip" : "ip6"))
		return value_refuse(l, v,
		        is_v6 ? "is in an IPv4 table; name an IPv6 set here, or write it under `ip:`"
		              : "is in an IPv6 table; name an IPv4 set here, or write it under `ip6:`");
	if (!strcmp(family, "inet") && lens[1] == strlen("nameway") && !strncmp(words[1], "nameway", lens[1]))
		return value_refuse(l, v, "is in nameway's own table; name a set of a table of your own");
	*ret = (struct cfg_set){.family = family, .place = v->place};
	char *table = arena_dup(l->c->arena, words[1], lens[1] + 1), *set = arena_dup(l->c->arena, words[2], lens[2] + 1);
	if (!table || !set)
		return -ENOMEM;
	table[lens[1]] = 0;
	set[lens[2]] = 0;
	ret->table = table;
	ret->set = set;
	return 0;
}

static int sets_load(struct load *l, const struct node *n, bool is_v6, struct cfg_set **ret, unsigned *count)
{
	if (!n)
		return 0;
	*ret = arena_alloc(l->c->arena, (value_count(n) + 1) * sizeof **ret);
	if (!*ret)
		return -ENOMEM;
	for (const struct node *v = value_first(n); v; v = value_next(n, v)) {
		int r = set_parse(l, v, is_v6, &(*ret)[*count]);
		if (r == -ENOMEM)
			return r;
		*count += r == 0;
	}
	return 0;
}

static void check_load(struct load *l, const struct node *check, struct cfg_way *w)
{
	const struct node *ping = node_child(check, "ping"), *every = node_child(check, "every"),
	                  *age = node_child(check, "handshake-age");
	uint64_t every_ms = PING_DEFAULT_MS, age_ms = 0;
	if (!check)
		return;
	if (every)
		value_duration(l, every, 1000, 3600000, &every_ms);
	if (age && value_duration(l, age, 10000, 7 * 86400000ULL, &age_ms) == 0)
		w->handshake_age_s = (uint32_t)((age_ms + 999) / 1000);
	if (ping && value_addr(l, ping, &w->check_ping) == 0)
		w->check_every_ms = (uint32_t)every_ms;
	if (ping && age)
		report_add(l->r, true, &age->key_place, "`check` has both `ping` and `handshake-age`; keep one of them");
	else if (every && !ping)
		report_add(l->r, true, &every->key_place,
		        "`every` says how often to ping, but there is no `ping`; add `ping: ADDRESS`, or take it out");
	else if (!ping && !age && !check->is_incomplete)
		report_add(l->r, true, &check->key_place,
		        "`check` is empty; add `ping: ADDRESS` or `handshake-age: 3m`, or leave it out");
}

static void gateway_load(struct load *l, const struct node *n, struct cfg_way *w)
{
	for (const struct node *v = value_first(n); v; v = value_next(n, v)) {
		struct addr a;
		if (value_addr(l, v, &a) < 0)
			continue;
		struct addr *into = a.family == AF_INET ? &w->gateway4 : &w->gateway6;
		if (into->family)
			value_refuse(l, v, "is a second gateway of the same family; give one IPv4 and one IPv6 address at most");
		else
			*into = a;
	}
}

static void upstream_take(struct load *l, const struct node *n, struct cfg_way *w)
{
	struct config *c = l->c;
	w->upstream = names_resolve(l, &names_upstreams, n);
	if (w->upstream < 0)
		return;
	struct cfg_upstream *up = &c->upstreams[w->upstream];
	if (up->way >= 0) {
		const struct cfg_way *first = &c->ways[up->way];
		report_add(l->r, true, &n->place,
		        "upstream `%s` is already reached through way `%s` (%s:%d:%d), and can be through one only; define "
		        "another "
		        "group with the same servers",
		        up->name, first->name, first->place.file, first->place.line, first->place.column);
		return;
	}
	up->way = (int)(w - c->ways);
}

/* Keys that say nothing about a way that has no interface. Those that promise safety are errors. */
static void interfaceless_check(struct load *l, const struct node *n, const struct cfg_way *w)
{
	static const struct {
		const char *key;
		bool is_error;
	} keys[] = {{"kill-switch", true}, {"check", true}, {"gateway", true}, {"masquerade", false}, {"mss-clamp", false},
	        {"local-access", false}, {"fallback", false}};
	if (*w->interface || n->is_incomplete)
		return;
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		const struct node *k = node_child(n, keys[i].key);
		if (!k || (k->text && !strcmp(k->text, "false")))
			continue;
		report_add(l->r, keys[i].is_error, &k->key_place,
		        "`%s` has no effect on way `%s`, which has no interface; add `interface: NAME`, or take it out",
		        keys[i].key, w->name);
	}
}

static void flags_load(struct load *l, const struct node *n, struct cfg_way *w)
{
	static const struct choice three[] = {{"auto", -1, true}, {"true", 1, true}, {"false", 0, true}},
	                           ipv6[] = {{"auto", 0, true}, {"off", 1, true}};
	const struct node *kill = node_child(n, "kill-switch"), *local = node_child(n, "local-access"),
	                  *private = node_child(n, "private");
	const struct node *v6 = node_child(n, "ipv6"), *masquerade = node_child(n, "masquerade"),
	                  *clamp = node_child(n, "mss-clamp");
	int v6_off = 0;
	w->local_access = true;
	w->masquerade = w->mss_clamp = -1;
	if (kill)
		value_bool(l, kill, &w->kill_switch);
	if (local)
		value_bool(l, local, &w->local_access);
	if (private)
		value_bool(l, private, &w->private_ok);
	if (v6)
		value_choice(l, v6, ipv6, 2, &v6_off);
	if (masquerade)
		value_choice(l, masquerade, three, 3, &w->masquerade);
	if (clamp)
		value_choice(l, clamp, three, 3, &w->mss_clamp);
	w->ipv6_off = v6_off;
}

static void mark_load(struct load *l, const struct node *n, struct cfg_way *w)
{
	uint64_t mark;
	char problem[96];
	if (value_number(l, n, 1, UINT32_MAX, &mark) < 0)
		return;
	if (mark & ~(uint64_t)l->c->server.mark_mask) {
		snprintf(problem, sizeof problem, "has bits outside `server.mark-mask` 0x%x; choose another, or widen the mask",
		        l->c->server.mark_mask);
		value_refuse(l, n, problem);
		return;
	}
	for (const struct cfg_way *other = l->c->ways; other < w; other++)
		if (other->mark_given && other->mark == mark) {
			report_add(l->r, true, &n->place,
			        "`mark`: `%.32s` is already the mark of way `%s` (%s:%d:%d); choose another", n->text,
			        other->name, other->place.file, other->place.line, other->place.column);
			return;
		}
	w->mark = (uint32_t)mark;
	w->mark_given = true;
}

static int way_load(struct load *l, const struct node *n, struct cfg_way *w)
{
	const struct node *interface = node_child(n, "interface"), *mark = node_child(n, "mark"),
	                  *upstream = node_child(n, "upstream");
	const struct node *sets = node_child(n, "sets");
	w->place = n->key_place;
	w->name = n->key;
	w->upstream = w->fallback = -1;
	/* A bad name must not make the way one without interface, with all the errors that follow. */
	bool is_bad = interface && value_ifname(l, interface, w->interface) < 0;
	if (mark)
		mark_load(l, mark, w);
	if (upstream)
		upstream_take(l, upstream, w);
	flags_load(l, n, w);
	check_load(l, node_child(n, "check"), w);
	gateway_load(l, node_child(n, "gateway"), w);
	if (!is_bad)
		interfaceless_check(l, n, w);
	int r = sets_load(l, node_child(sets, "ip"), false, &w->sets4, &w->set4_count);
	return r < 0 ? r : sets_load(l, node_child(sets, "ip6"), true, &w->sets6, &w->set6_count);
}

int load_ways(struct load *l, const struct node *root)
{
	const struct node *ways = node_child(root, "ways");
	struct config *c = l->c;
	if (!ways)
		return 0;
	c->ways = arena_alloc(c->arena, (ways->count + 1) * sizeof *c->ways);
	if (!c->ways)
		return -ENOMEM;
	for (const struct node *n = ways->first; n; n = n->next) {
		int r = way_load(l, n, &c->ways[c->way_count++]);
		if (r < 0)
			return r;
	}
	ways_number(l);
	ways_fallbacks(l, ways);
	return 0;
}

/* What arrives by a way's interface is an answer or comes from outside; clients that sit there would never be steered. */
void ways_check_clients(struct load *l)
{
	const struct config *c = l->c;
	for (unsigned w = 0; w < c->way_count; w++)
		for (unsigned g = 0; *c->ways[w].interface && g < c->group_count; g++)
			for (unsigned i = 0; i < c->groups[g].interface_count; i++)
				if (!strcmp(c->groups[g].interfaces[i], c->ways[w].interface))
					report_add(l->r, true, &c->ways[w].place,
					        "way `%s` leaves by `%s`, where the clients of `%s` come in: what arrives there counts as answers; "
					        "give the way another interface, or take `%s` out of the group",
					        c->ways[w].name, c->ways[w].interface, c->groups[g].name, c->ways[w].interface);
}
