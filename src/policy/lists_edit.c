/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Live edits: an overlay of added and masked entries above the text.
 *
 * add x:    lifts a mask; unless the text then has x, x is added.
 * remove x: an addition is taken back; if the text has x too, x is masked.
 * So an add and a remove of the same entry leave nothing behind. Whether the text has an entry is told by the index (an addition
 * that also stands in the text has KIND_MULTI); where that is not certain its lines are counted. The compiler thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "policy/lists_private.h"

/* An edit in the making: c holds the overlay as it will be and what changes in the index. */
struct edit {
	struct lists *l;
	struct list_slot *s;
	struct list_change c;
	struct entry_set wanted, doubtful, found;
	bool is_add;
};

/* In list syntax; where the list has adblock rules, what that does not understand is one of those. */
static void parse_entry(const struct edit *e, struct line_entry *ret, const char *entry)
{
	const struct list_format *formats[] = {&list_format_domains, &list_format_adblock};
	unsigned count = slot_has_format(e->s, &list_format_adblock) ? 2 : 1;
	size_t len = strlen(entry), at;

	for (unsigned i = 0; i < count; i++) {
		at = 0;
		formats[i]->parse(ret, entry, len, &at);
		if (at < len)
			list_parse_bad(ret, "more than one entry");
		else if (ret->what == LINE_RULE && ret->rule_len > EXPR_TEXT_MAX)
			list_parse_bad(ret, "the rule is too long");
		if (ret->what != LINE_BAD)
			break;
	}
	if (ret->what == LINE_NAME)
		list_entry_match(ret, e->s->match);
}

static int parse_entries(struct edit *e, const char *const *entries, unsigned count, struct report *r)
{
	struct line_entry line;
	struct entry_key k;
	int err = 0;

	for (unsigned i = 0; err == 0 && i < count; i++) {
		parse_entry(e, &line, entries[i]);
		if (line.what == LINE_BAD || line.what == LINE_EMPTY) {
			report_add(r, true, NULL, "list %s: \"%s\" is no entry: %s", e->s->name, entries[i],
			        line.what == LINE_BAD ? line.why : "blank or comment");
			return NW_EMALFORMED;
		}
		entry_key_from_line(&k, &line);
		if (!entry_set_count(&e->wanted, &k))
			err = entry_set_add(&e->wanted, &k, 1);
	}
	return err;
}

static unsigned kinds_now(const struct edit *e, const struct entry_key *k)
{
	struct name n;

	entry_key_name(&n, k);
	return index_kinds(e->l->index, (unsigned)(e->s - e->l->slots), &n);
}

/* Whether only the lines of the text can tell if it has the entry. */
static bool is_doubtful(const struct edit *e, const struct entry_key *k)
{
	if (!entry_key_is_name(k))
		return false;
	if (e->is_add)
		return entry_set_count(&e->s->masked, k);
	return entry_set_count(&e->s->added, k) && kinds_now(e, k) & KIND_MULTI;
}

static int find_doubtful(struct edit *e)
{
	struct entry_key k;
	uint32_t count;
	int r = 0;

	for (size_t at = 0; r == 0 && entry_set_next(&e->wanted, &at, &k, &count);)
		if (is_doubtful(e, &k))
			r = entry_set_add(&e->doubtful, &k, 1);
	return r == 0 ? list_text_count(e->s->text, &e->doubtful, &e->found) : r;
}

/* How many lines of the text have it, as far as that matters. */
static uint32_t lines_with(const struct edit *e, const struct entry_key *k)
{
	if (!entry_key_is_name(k))
		return entry_set_count(&e->s->text_beside, k);
	if (entry_set_count(&e->doubtful, k))
		return entry_set_count(&e->found, k);
	return !entry_set_count(&e->s->added, k) && kinds_now(e, k) & k->kind;
}

static int edit_add(struct edit *e, const struct entry_key *k)
{
	uint32_t lines = lines_with(e, k);
	int r = 0;

	if (entry_set_count(&e->c.added, k))
		return 0;
	if (entry_set_count(&e->c.masked, k)) {
		entry_set_clear(&e->c.masked, k);
		if (lines)
			return entry_set_add(&e->c.come, k, lines);
	}
	r = entry_set_add(&e->c.added, k, 1);
	return r == 0 ? entry_set_add(&e->c.come, k, 1) : r;
}

static int edit_remove(struct edit *e, const struct entry_key *k)
{
	uint32_t lines = lines_with(e, k);
	int r = 0;

	if (entry_set_count(&e->c.masked, k))
		return 0;
	if (!lines && !entry_set_count(&e->c.added, k))
		return -ENOENT;
	entry_set_clear(&e->c.added, k);
	if (lines)
		r = entry_set_add(&e->c.masked, k, 1);
	return r == 0 ? entry_set_add(&e->c.gone, k, 1) : r;
}

static void say_missing(const struct edit *e, const struct entry_key *k, struct report *r)
{
	struct entry_key other = *k;
	struct buf text, near;

	buf_init(&text, 2 * NAME_TEXT_MAX);
	buf_init(&near, NAME_TEXT_MAX);
	entry_key_print(&text, k);
	if (entry_key_is_name(k) && (k->kind & (KIND_SUFFIX | KIND_EXACT))) {
		other.kind = k->kind == KIND_SUFFIX ? KIND_EXACT : KIND_SUFFIX;
		if (kinds_now(e, k) & other.kind)
			entry_key_print(&near, &other);
	}
	if (near.len)
		report_add(r, true, NULL, "list %s does not hold %s, but %s: remove that", e->s->name, text.bytes, near.bytes);
	else
		report_add(r, true, NULL,
		        "list %s does not hold %s; to exempt a name under one that it holds: nameway list add %s '!NAME'",
		        e->s->name, text.bytes, e->s->name);
	buf_free(&text);
	buf_free(&near);
}

static int make(struct edit *e, struct report *r)
{
	struct entry_key k;
	uint32_t count;
	int err = find_doubtful(e);

	for (size_t at = 0; err == 0 && entry_set_next(&e->wanted, &at, &k, &count);) {
		err = e->is_add ? edit_add(e, &k) : edit_remove(e, &k);
		if (err == -ENOENT)
			say_missing(e, &k, r);
	}
	if (err == 0 && e->c.added.distinct + e->c.masked.distinct > OVERLAY_ENTRIES_MAX) {
		report_add(r, true, NULL, "list %s: more than %d live edits; put them into its file", e->s->name,
		        OVERLAY_ENTRIES_MAX);
		err = NW_EFULL;
	}
	return err;
}

static int begin(struct edit *e)
{
	int r;

	list_change_init(&e->c);
	entry_set_init(&e->wanted);
	entry_set_init(&e->doubtful);
	entry_set_init(&e->found);
	e->c.is_edit = true;
	/* A list that has had no file yet: its overlay is put into the index first. */
	if (!e->s->is_filled) {
		r = lists_refill(e->l, e->s, false);
		if (r < 0)
			return r;
	}
	r = entry_set_copy(&e->c.added, &e->s->added);
	return r == 0 ? entry_set_copy(&e->c.masked, &e->s->masked) : r;
}

int lists_edit(struct lists *l, unsigned list, bool is_add, const char *const *entries, unsigned count, struct report *r)
{
	struct edit e = {.l = l, .s = lists_slot(l, list), .is_add = is_add};
	int err;

	if (!e.s)
		return -ENOENT;
	err = begin(&e);
	if (err == 0)
		err = parse_entries(&e, entries, count, r);
	if (err == 0)
		err = make(&e, r);
	if (err == 0 && (e.c.come.distinct || e.c.gone.distinct))
		err = lists_apply(l, e.s, &e.c, false);
	if (err == 0)
		beside_note_rules(l, e.s);
	if (err < 0 && r->errors == 0)
		report_add(r, true, NULL, "list %s: %s", e.s->name, nw_strerror(err));
	list_change_free(&e.c);
	entry_set_free(&e.wanted);
	entry_set_free(&e.doubtful);
	entry_set_free(&e.found);
	return err;
}
