/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The start from `state`: a list whose text and overlay are what image and journal account for is in force at once; another is
 * built from its text. The compiler thread, before there are readers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "policy/lists_private.h"

/* The text and overlay of one list from `state`. */
static void load_slot(struct lists *l, struct list_slot *s)
{
	struct list_text *held = NULL;
	uint64_t def = 0;
	char key[300];
	int r;

	entry_set_free(&s->added);
	entry_set_free(&s->masked);
	r = state_load_overlay(l->state, s->name, &s->added, &s->masked);
	snprintf(key, sizeof(key), "edits:%s", s->name);
	if (r < 0 && r != -ENOENT)
		lists_alarm(l, key, "live edits of a list in `state` are damaged and were left out. Mend: make them again with `nameway list add` and `list remove`");
	s->is_overlay_saved = true;
	if (state_load_text(l->state, s->name, "text", &s->text, &s->text_beside, &def) == 0 && def != s->def) {
		list_text_unref(s->text);
		s->text = NULL;
		entry_set_free(&s->text_beside);
	}
	s->is_text_saved = s->text;
	if (s->text) {
		s->seed = s->text->seed;
		s->text->match = s->match;
	}
	if (state_load_text(l->state, s->name, "held", &held, NULL, &def) < 0)
		return;
	if (def != s->def) {
		list_text_unref(held);
		return;
	}
	held->match = s->match;
	s->held = held;
	s->held_limit_pct = ~0u; /* not kept: it is judged again when it is offered again */
	snprintf(s->held_why, sizeof(s->held_why), "it was held before the restart");
}

static int restore_beside(struct lists *l, struct list_slot *s)
{
	int r = beside_prefixes(&s->prefixes, &s->text_beside, &s->added, &s->masked);

	if (r == 0)
		r = beside_rules(&s->exprs, index_seed(l->index), &s->text_beside, &s->added, &s->masked);
	if (r < 0)
		return r;
	s->prefix_count = s->prefixes ? s->prefixes->count4 + s->prefixes->count6 : 0;
	slot_count_rules(s, beside_rules_digest(&s->text_beside, &s->added, &s->masked));
	return 0;
}

int lists_refill(struct lists *l, struct list_slot *s, bool is_quiet)
{
	struct list_text *text = s->text;
	struct list_change c;
	int r = 0;

	list_change_init(&c);
	c.is_saved = s->is_text_saved && text && text->is_counted;
	c.is_whole = c.has_beside = true;
	/* What is in force is not to be compared with itself. */
	s->text = NULL;
	if (text)
		r = list_change_prepare(&c, s, text, false);
	if (r == 0)
		r = lists_apply(l, s, &c, is_quiet);
	list_text_unref(text);
	list_change_free(&c);
	return r;
}

static int restore_slot(struct lists *l, struct list_slot *s)
{
	const struct list_journal_slot *known = &l->journal.slots[s - l->slots];
	int r;

	load_slot(l, s);
	if (s->is_filled && known->is_recorded && known->content == slot_content(s) && (!s->text || s->text->is_counted))
		return restore_beside(l, s);
	if (!s->is_filled && !s->text && !s->added.distinct)
		return 0;
	r = lists_refill(l, s, true);
	/* The text cannot be read back: the list begins without one. */
	if (r < 0 && r != -ENOMEM)
		r = lists_refill(l, s, true);
	return r;
}

int lists_restore(struct lists *l, bool *ret_restored)
{
	char why[LIST_WHY_MAX + 200];
	int r = 0;

	for (unsigned i = 0; i < l->config_count; i++) {
		struct list_slot *s = lists_slot(l, i);

		if (l->state >= 0)
			r = restore_slot(l, s);
		if (r < 0)
			return r;
		ret_restored[i] = lists_has_text(l, i);
		beside_note_rules(l, s);
		if (s->held) {
			snprintf(why, sizeof(why),
			        "list %.150s: a text is still held; to take it: nameway list reload %.150s --accept", s->name,
			        s->name);
			lists_alarm_slot(l, s, why);
		}
	}
	index_stat(l->index, &l->stat);
	return 0;
}
