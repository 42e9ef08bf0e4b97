/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lists: which files hold names. Nothing is opened here; a path may be a glob. */
#include <errno.h>
#include "config/load.h"

static int list_load(struct load *l, const struct node *n, struct cfg_list *list)
{
	static const struct choice formats[] = {{"auto", FORMAT_AUTO, true}, {"domains", FORMAT_DOMAINS, true},
	        {"hosts", 0, false}, {"adblock", 0, false}, {"dnsmasq", 0, false}};
	const struct node *files = node_child(n, "files"), *format = node_child(n, "format"),
	                  *limit = node_child(n, "shrink-limit");
	int chosen = FORMAT_AUTO;
	list->place = n->key_place;
	list->name = n->key;
	list->shrink_limit_pct = 50;
	if (format)
		value_choice(l, format, formats, sizeof formats / sizeof *formats, &chosen);
	list->format = (enum list_format_id)chosen;
	if (limit)
		value_percent(l, limit, &list->shrink_limit_pct);
	if (!files) {
		if (!n->is_incomplete)
			report_add(l->r, true, &n->key_place, "list `%s` has no files; add `files: [PATH]`", n->key);
		return 0;
	}
	list->files = arena_alloc(l->c->arena, value_count(files) * sizeof *list->files);
	if (!list->files)
		return -ENOMEM;
	for (const struct node *v = value_first(files); v; v = value_next(files, v)) {
		int r = value_path(l, v, &list->files[list->file_count]);
		if (r == -ENOMEM)
			return r;
		list->file_count += r == 0;
	}
	return 0;
}

int load_lists(struct load *l, const struct node *root)
{
	const struct node *lists = node_child(root, "lists");
	struct config *c = l->c;
	if (!lists)
		return 0;
	c->lists = arena_alloc(c->arena, (lists->count + 1) * sizeof *c->lists);
	if (!c->lists)
		return -ENOMEM;
	for (const struct node *n = lists->first; n; n = n->next) {
		int r = list_load(l, n, &c->lists[c->list_count++]);
		if (r < 0)
			return r;
	}
	return 0;
}
