/* SPDX-License-Identifier: GPL-3.0-or-later */
/* config_parse: bundle -> trees -> one tree -> checked against the table of keys -> typed. Pure and deterministic, so that every
 * process that parses the same bundle gets equal indexes, marks and ids. */
#include <errno.h>
#include <string.h>
#include "base/err.h"
#include "config/bundle.h"
#include "config/load.h"
#include "config/nearest.h"
#include "config/schema.h"

enum { CONFIG_ARENA_MAX = 256 << 20 };

static unsigned group_count(const struct config *c)
{
	return c->group_count;
}

static const char *group_name(const struct config *c, unsigned i)
{
	return c->groups[i].name;
}

static unsigned list_count(const struct config *c)
{
	return c->list_count;
}

static const char *list_name(const struct config *c, unsigned i)
{
	return c->lists[i].name;
}

static unsigned way_count(const struct config *c)
{
	return c->way_count;
}

static const char *way_name(const struct config *c, unsigned i)
{
	return c->ways[i].name;
}

static unsigned upstream_count(const struct config *c)
{
	return c->upstream_count;
}

static const char *upstream_name(const struct config *c, unsigned i)
{
	return c->upstreams[i].name;
}

const struct names names_groups = {"group", "clients", group_count, group_name};
const struct names names_lists = {"list", "lists", list_count, list_name};
const struct names names_ways = {"way", "ways", way_count, way_name};
const struct names names_upstreams = {"upstream", "upstreams", upstream_count, upstream_name};

int names_find(const struct config *c, const struct names *names, const char *text)
{
	unsigned count = names->count(c);
	for (unsigned i = 0; i < count; i++)
		if (!strcmp(names->at(c, i), text))
			return (int)i;
	return -1;
}

int names_resolve(struct load *l, const struct names *names, const struct node *n)
{
	int found = names_find(l->c, names, n->text);
	if (found >= 0)
		return found;
	struct nearest near;
	nearest_init(&near, n->text);
	for (unsigned i = 0; i < names->count(l->c); i++)
		nearest_try(&near, names->at(l->c, i));
	if (!near.best)
		report_add(l->r, true, &n->place, "`%.64s`: there is no %s `%.64s`; define it under `%s:`", n->key, names->noun,
		        n->text, names->section);
	else if (nearest_is_close(&near))
		report_add(l->r, true, &n->place, "`%.64s`: there is no %s `%.64s`; did you mean `%s`?", n->key, names->noun,
		        n->text, near.best);
	else
		report_add(l->r, true, &n->place, "`%.64s`: there is no %s `%.64s` (the nearest is `%s`); define it under `%s:`",
		        n->key, names->noun, n->text, near.best, names->section);
	return -1;
}

int names_resolve_all(struct load *l, const struct names *names, const struct node *n, struct ids *ret)
{
	*ret = (struct ids){0};
	if (!n)
		return 0;
	ret->v = arena_alloc(l->c->arena, (value_count(n) + 1) * sizeof *ret->v);
	if (!ret->v)
		return -ENOMEM;
	for (const struct node *v = value_first(n); v; v = value_next(n, v)) {
		int id = names_resolve(l, names, v);
		bool is_new = id >= 0;
		for (unsigned i = 0; is_new && i < ret->count; i++)
			is_new = ret->v[i] != id;
		if (is_new)
			ret->v[ret->count++] = (uint16_t)id;
	}
	return 0;
}

static char *text_take(struct load *l, const char *bytes, size_t len)
{
	char *text = arena_alloc(l->c->arena, len + 1);
	if (text)
		memcpy(text, bytes, len);
	return text;
}

static int file_take(struct load *l, struct tree *t, struct node **root, const struct bundle_member *m)
{
	struct node *file_root;
	const char *path = text_take(l, m->path, m->path_len);
	if (!path)
		return -ENOMEM;
	int r = tree_parse(&file_root, t, path, m->text, m->text_len);
	if (r >= 0 && *root)
		r = tree_merge(t, *root, file_root);
	else if (r >= 0)
		*root = file_root;
	return r;
}

static int resolv_take(struct load *l, const struct bundle_member *m)
{
	const char *path = text_take(l, m->path, m->path_len);
	if (!l->resolvs)
		l->resolvs = arena_alloc(l->c->arena, BUNDLE_MEMBERS_MAX * sizeof *l->resolvs);
	if (!path || !l->resolvs)
		return -ENOMEM;
	l->resolvs[l->resolv_count++] = (struct load_resolv){path, m->text, m->text_len};
	return 0;
}

/* All files of the bundle as one tree, and what stands behind them. */
static int members_read(struct load *l, struct node **ret, struct bundle_reader *b)
{
	struct tree t = {.arena = l->c->arena, .report = l->r};
	struct bundle_member m;
	struct node *root = NULL;
	int r, outcome = 0;
	while ((r = bundle_next(b, &m)) > 0) {
		if (m.kind == BUNDLE_FILE)
			r = file_take(l, &t, &root, &m);
		else if (m.kind == BUNDLE_RESOLV)
			r = resolv_take(l, &m);
		else
			r = machine_parse(&l->machine, l->c->arena, m.text, m.text_len);
		if (r < 0 && r != NW_ECONFIG)
			return r;
		/* What an unreadable file would have defined is missing: saying so for every reference to it helps nobody. */
		outcome = r < 0 ? r : outcome;
	}
	*ret = root;
	return r < 0 ? r : outcome;
}

static int sections_load(struct load *l, const struct node *root)
{
	static int (*const loads[])(struct load *, const struct node *) = {
	        load_clients,
	        load_server,
	        load_upstreams,
	        load_lists,
	        load_ways,
	        load_rules,
	        load_local,
	        load_cache,
	};
	for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) {
		int r = loads[i](l, root);
		if (r < 0)
			return r;
	}
	ways_check_clients(l);
	main_mark_check(l);
	advise(l, root);
	return 0;
}

static int bundle_load(struct load *l, const void *bytes, size_t len)
{
	struct bundle_reader b;
	struct node *root = NULL;
	int r = bundle_open(&b, bytes, len);
	if (r < 0)
		return r;
	l->cwd = text_take(l, b.cwd_len ? b.cwd : "/", b.cwd_len ? b.cwd_len : 1);
	if (!l->cwd)
		return -ENOMEM;
	r = members_read(l, &root, &b);
	if (r < 0)
		return r;
	schema_check(root, l->r);
	return sections_load(l, root);
}

int config_parse(struct config **ret, const void *bundle, size_t len, struct report *r)
{
	struct arena *arena = arena_new(1 << 16, CONFIG_ARENA_MAX);
	struct config *c = arena ? arena_alloc(arena, sizeof *c) : NULL;
	unsigned errors_before = r->errors;
	int e = -ENOMEM;
	if (c) {
		struct load l = {.c = c, .r = r};
		c->arena = arena;
		e = bundle_load(&l, bundle, len);
	}
	if (e == NW_EMALFORMED)
		report_add(r, true, NULL, "the configuration's bundle is damaged; it is left unused: reload from the files");
	else if (e == -ENOMEM)
		report_add(r, true, NULL, "no memory for the configuration; it may take 256 MiB");
	else if (e >= 0 && r->errors > errors_before)
		e = NW_ECONFIG;
	if (e < 0) {
		arena_free(arena);
		return e;
	}
	*ret = c;
	return 0;
}

void config_free(struct config *c)
{
	if (c)
		arena_free(c->arena);
}
