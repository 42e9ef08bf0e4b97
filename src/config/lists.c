/* SPDX-License-Identifier: GPL-3.0-or-later */
/* lists: which files hold names, and names written in place. Nothing is opened here, and a path may be a glob; what an entry says is
 * understood where the files are. */
#include <errno.h>
#include "config/load.h"

static int entries_load(struct load *l, const struct node *n, struct cfg_list *list)
{
	list->entries_place = n->key_place;
	list->entries = arena_alloc(l->c->arena, (value_count(n) + 1) * sizeof *list->entries);
	if (!list->entries)
		return -ENOMEM;
	for (const struct node *v = value_first(n); v; v = value_next(n, v))
		list->entry_count += value_text(l, v, CONFIG_ENTRY_MAX, &list->entries[list->entry_count]) == 0;
	return 0;
}

static int list_load(struct load *l, const struct node *n, struct cfg_list *list)
{
	static const struct choice formats[] = {{"auto", FORMAT_AUTO, true}, {"domains", FORMAT_DOMAINS, true},
	        {"hosts", FORMAT_HOSTS, true}, {"adblock", FORMAT_ADBLOCK, true}, {"dnsmasq", FORMAT_DNSMASQ, true}};
	static const struct choice matches[] = {{"exact", MATCH_EXACT, true}, {"suffix", MATCH_SUFFIX, true}};
	const struct node *files = node_child(n, "files"), *format = node_child(n, "format"), *match = node_child(n, "match"),
	                  *limit = node_child(n, "shrink-limit"), *entries = node_child(n, "entries"), *most = node_child(n, "max-names");
	int chosen = FORMAT_AUTO, match_chosen = MATCH_BY_FORMAT;
	list->place = n->key_place;
	list->name = n->key;
	list->shrink_limit_pct = 50;
	if (format)
		value_choice(l, format, formats, sizeof formats / sizeof *formats, &chosen);
	if (match)
		value_choice(l, match, matches, sizeof matches / sizeof *matches, &match_chosen);
	list->format = (enum list_format_id)chosen;
	list->match = (enum list_match)match_chosen;
	if (limit)
		value_percent(l, limit, &list->shrink_limit_pct);
	if (most)
		value_number(l, most, 1, 100000000, &list->names_max);
	if (!files && !entries && !n->is_incomplete)
		report_add(l->r, true, &n->key_place, "list `%s` has no files; add `files: [PATH]`, or `entries: [NAME]`", n->key);
	if (entries) {
		int r = entries_load(l, entries, list);
		if (r < 0)
			return r;
	}
	return values_path(l, files, &list->files, &list->file_count);
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
