/* SPDX-License-Identifier: GPL-3.0-or-later */
/* New texts: read, checked, held or put in force. The compiler thread. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "policy/lists_private.h"

/* Both to the one who asked and, as an alarm, to everybody. */
static void fail(struct lists *l, const struct list_slot *s, struct report *r, const char *text)
{
	report_add(r, true, NULL, "%s", text);
	lists_alarm_slot(l, s, text);
}

static void report_bad_lines(const struct list_slot *s, struct list_text *t, struct report *r)
{
	struct list_bad bad[LIST_BAD_SHOWN];
	int count = list_text_bad(t, bad, LIST_BAD_SHOWN);

	for (int i = 0; i < count; i++) {
		struct place p = {.file = t->files[bad[i].file].path, .line = (int)bad[i].line, .column = 1};

		report_add(r, false, &p, "not understood: \"%s\": %s", bad[i].text, bad[i].why);
	}
	if (t->bad + t->partly > (uint64_t)LIST_BAD_SHOWN)
		report_add(r, false, NULL, "list %s: %llu lines are not understood; the first %d are shown", s->name,
		        (unsigned long long)(t->bad + t->partly), LIST_BAD_SHOWN);
}

static int hold(struct lists *l, struct list_slot *s, struct list_text *t, const char *why, struct report *r)
{
	if (s->held != t)
		lists_hold(l, s, t, why);
	report_add(r, true, NULL, "list %s: the new text is held, because %s; to take it: nameway list reload %s --accept",
	        s->name, why, s->name);
	return NW_EHELD;
}

/* Puts a text in force if nothing holds it. */
static int take(struct lists *l, struct list_slot *s, struct list_text *t, bool accept, struct report *r)
{
	char why[LIST_WHY_MAX], text[400];
	struct list_change c;
	int err;

	list_change_init(&c);
	err = list_change_prepare(&c, s, t, false);
	if (err == 0 && s->names_max && t->entries > s->names_max)
		err = NW_EFULL;
	if (err == 0)
		report_bad_lines(s, t, r);
	if (err == 0 && !accept && list_change_is_held(&c, s, why)) {
		err = hold(l, s, t, why, r);
		list_change_free(&c);
		return err;
	}
	if (err == 0)
		err = lists_apply(l, s, &c, false);
	if (err == 0)
		beside_note_rules(l, s);
	list_change_free(&c);
	if (err < 0) {
		if (err == NW_EFULL && s->names_max && t->entries > s->names_max)
			snprintf(text, sizeof(text),
			        "list %.150s: the new text has %llu entries, its limit is %llu; what was in force stays", s->name,
			        (unsigned long long)t->entries, (unsigned long long)s->names_max);
		else
			snprintf(text, sizeof(text), "list %.150s: the new text is not in force: %s; what was in force stays",
			        s->name, nw_strerror(err));
		fail(l, s, r, text);
		return err;
	}
	lists_drop_held(l, s);
	return 0;
}

static int read_failed(struct lists *l, const struct list_slot *s, const char *path, int err, struct report *r)
{
	char text[600];

	snprintf(text, sizeof(text), "list %.150s: %.300s: %s; what was in force stays", s->name, path ? path : "its files",
	        err == NW_ENOTYET ? "a policy zone: that belongs under `rpz:`, which is not in this version" : nw_strerror(err));
	fail(l, s, r, text);
	return err;
}

static void say_no_file(struct lists *l, const struct list_slot *s, struct report *r)
{
	char text[300];

	snprintf(text, sizeof(text), "list %.150s: there is no file; the list is empty", s->name);
	report_add(r, false, NULL, "%s", text);
	lists_alarm_slot(l, s, text);
}

static int offer(struct lists *l, struct list_slot *s, struct list_text *t, bool accept, struct report *r)
{
	char why[LIST_WHY_MAX];

	if (s->is_filled && s->text && s->text->digest == t->digest && s->text->len == t->len) {
		lists_drop_held(l, s);
		return 0;
	}
	/* Another shrink-limit may let it through. */
	if (!accept && s->held && s->held->digest == t->digest && s->held->len == t->len && s->held_limit_pct == s->shrink_limit_pct) {
		snprintf(why, sizeof(why), "%s", s->held_why);
		return hold(l, s, s->held, why, r);
	}
	return take(l, s, t, accept, r);
}

int lists_offer(struct lists *l, unsigned list, const struct list_file *files, unsigned count, bool accept, struct report *r)
{
	struct list_slot *s = lists_slot(l, list);
	const char *path = NULL;
	struct list_text *t = NULL;
	int err;

	if (!s) {
		for (unsigned i = 0; i < count; i++)
			close(files[i].fd);
		return -ENOENT;
	}
	err = list_text_read(&t, files, count, &(struct text_source){s->seed, s->format, s->match, l->state}, &path);
	if (err < 0)
		return read_failed(l, s, path, err, r);
	err = offer(l, s, t, accept, r);
	list_text_unref(t);
	if (err == 0 && count == 0)
		say_no_file(l, s, r);
	return err;
}

int lists_accept(struct lists *l, unsigned list, struct report *r)
{
	struct list_slot *s = lists_slot(l, list);
	struct list_text *t;
	int err;

	if (!s || !s->held) {
		if (s)
			report_add(r, true, NULL, "list %s: no text is held", s->name);
		return -ENOENT;
	}
	t = list_text_ref(s->held);
	err = take(l, s, t, true, r);
	list_text_unref(t);
	return err;
}
