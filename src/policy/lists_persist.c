/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How lists are kept in `state`, and what is said when that fails: everything stays in force from memory, an alarm is raised, and
 * later updates and lists_idle try again. The compiler thread. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "policy/lists_private.h"

uint64_t slot_content(const struct list_slot *s)
{
	uint64_t parts[4] = {s->def, s->text ? s->text->digest : 0, s->text ? 1 : 0, state_overlay_digest(&s->added, &s->masked)};

	return hash_bytes(parts, sizeof(parts), 0);
}

bool slot_has_format(const struct list_slot *s, const struct list_format *f)
{
	if (s->format)
		return s->format == f;
	for (unsigned i = 0; s->text && i < s->text->file_count; i++)
		if (s->text->files[i].format == f)
			return true;
	return false;
}

void slot_count_rules(struct list_slot *s, uint64_t digest)
{
	struct exprs_stat st = {0};

	if (s->exprs)
		exprs_stat(s->exprs, &st);
	s->rules_digest = digest;
	s->rule_count = st.rules;
}

void slot_clear(struct list_slot *s)
{
	free(s->name);
	list_text_unref(s->text);
	list_text_unref(s->held);
	entry_set_free(&s->text_beside);
	entry_set_free(&s->added);
	entry_set_free(&s->masked);
	prefixes_free(s->prefixes);
	exprs_free(s->exprs);
	*s = (struct list_slot){0};
}

void lists_alarm(struct lists *l, const char *key, const char *text)
{
	if (l->hooks.alarm)
		l->hooks.alarm(l->hooks.ctx, key, text);
}

void lists_alarm_slot(struct lists *l, const struct list_slot *s, const char *text)
{
	char key[300];

	snprintf(key, sizeof(key), "list:%.280s", s->name);
	lists_alarm(l, key, text);
}

void lists_state_result(struct lists *l, int r)
{
	char text[200];

	if (r == 0 && l->is_state_failing)
		lists_alarm(l, "state", NULL);
	l->is_state_failing = r < 0;
	if (r == 0)
		return;
	snprintf(text, sizeof(text),
	        "lists cannot be kept in the state directory: %s; they are in force from memory only, and saving is tried again",
	        nw_strerror(r));
	lists_alarm(l, "state", text);
}

/* Lists of one name in two definitions share their place on disk: the one written last is there. */
static void mark_text_saved(struct lists *l, struct list_slot *s)
{
	pthread_mutex_lock(&l->lock);
	s->is_text_saved = true;
	for (unsigned i = 0; i < CONFIG_LISTS_MAX; i++)
		if (&l->slots[i] != s && l->slots[i].is_used && strcmp(l->slots[i].name, s->name) == 0)
			l->slots[i].is_text_saved = false;
	pthread_mutex_unlock(&l->lock);
}

/* Writes a text, and reads it back as one whose bytes are in that file: the memory they took is free again. */
static int save_text(
        struct lists *l, struct list_slot *s, const char *file, struct list_text **text, const struct entry_set *beside)
{
	struct list_text *on_disk, *old = *text;
	uint64_t def;
	int r = state_save_text(l->state, s->name, file, old, beside, s->def);

	if (r < 0)
		return r;
	r = state_load_text(l->state, s->name, file, &on_disk, NULL, &def);
	if (r < 0)
		return r;
	if (on_disk->digest != old->digest || on_disk->chunk_count != old->chunk_count) {
		list_text_unref(on_disk);
		return -EIO;
	}
	on_disk->match = old->match;
	pthread_mutex_lock(&l->lock);
	*text = on_disk;
	pthread_mutex_unlock(&l->lock);
	list_text_unref(old);
	return 0;
}

static bool is_all_saved(const struct lists *l)
{
	for (unsigned i = 0; i < CONFIG_LISTS_MAX; i++) {
		const struct list_slot *s = &l->slots[i];

		if (s->is_used && ((s->text && !s->is_text_saved) || !s->is_overlay_saved))
			return false;
	}
	return true;
}

int lists_persist(struct lists *l, struct list_slot *s)
{
	char key[300];
	int r = 0;

	if (l->state < 0 || ((s->is_text_saved || !s->text) && s->is_overlay_saved))
		return 0;
	if (s->text && !s->is_text_saved) {
		r = save_text(l, s, "text", &s->text, &s->text_beside);
		if (r == 0)
			mark_text_saved(l, s);
	}
	/* Also when the text finds no room: an edit was acknowledged. */
	if (!s->is_overlay_saved) {
		int edits;

		/* What is written takes the place of edits that were damaged. */
		snprintf(key, sizeof(key), "edits:%s", s->name);
		lists_alarm(l, key, NULL);
		edits = state_save_overlay(l->state, s->name, &s->added, &s->masked);
		pthread_mutex_lock(&l->lock);
		s->is_overlay_saved = edits == 0;
		pthread_mutex_unlock(&l->lock);
		r = r < 0 ? r : edits;
	}
	if (r < 0 || is_all_saved(l))
		lists_state_result(l, r);
	return r;
}

void lists_hold(struct lists *l, struct list_slot *s, struct list_text *t, const char *why)
{
	char text[700];
	int r;

	pthread_mutex_lock(&l->lock);
	list_text_unref(s->held);
	s->held = list_text_ref(t);
	snprintf(s->held_why, sizeof(s->held_why), "%s", why);
	s->held_limit_pct = s->shrink_limit_pct;
	pthread_mutex_unlock(&l->lock);
	if (l->state >= 0) {
		r = save_text(l, s, "held", &s->held, NULL);
		lists_state_result(l, r);
	}
	snprintf(text, sizeof(text),
	        "list %.200s: the new text is held, because %s; to take it: nameway list reload %.200s --accept", s->name, why,
	        s->name);
	lists_alarm_slot(l, s, text);
}

void lists_drop_held(struct lists *l, struct list_slot *s)
{
	if (s->held) {
		pthread_mutex_lock(&l->lock);
		list_text_unref(s->held);
		s->held = NULL;
		pthread_mutex_unlock(&l->lock);
		if (l->state >= 0)
			state_remove(l->state, s->name, "held");
	}
	lists_alarm_slot(l, s, NULL);
}

static int write_image(struct lists *l)
{
	struct list_journal_slot *slots = calloc(CONFIG_LISTS_MAX, sizeof(*slots));
	int r;

	if (!slots)
		return -ENOMEM;
	for (unsigned i = 0; i < CONFIG_LISTS_MAX; i++)
		if (l->slots[i].is_used && l->slots[i].is_filled)
			slots[i] = (struct list_journal_slot){.is_recorded = true,
			        .def = l->slots[i].def,
			        .content = slot_content(&l->slots[i]),
			        .name = l->slots[i].name};
	r = list_journal_write_image(&l->journal, l->state, l->index, slots);
	free(slots);
	return r;
}

/* Everything that is not yet in `state`. */
int lists_save(struct lists *l)
{
	int r = 0;

	if (l->state < 0)
		return 0;
	for (unsigned i = 0; r == 0 && i < CONFIG_LISTS_MAX; i++)
		if (l->slots[i].is_used && l->slots[i].is_planned)
			r = lists_persist(l, &l->slots[i]);
	if (r == 0 && (l->is_image_stale || l->journal.end > LIST_JOURNAL_MAX)) {
		r = write_image(l);
		if (r == 0)
			l->is_image_stale = false;
	}
	lists_state_result(l, r);
	return r;
}

static bool wants_saving(const struct lists *l)
{
	if (l->is_image_stale || l->is_state_failing || l->journal.end > LIST_JOURNAL_MAX)
		return true;
	for (unsigned i = 0; i < CONFIG_LISTS_MAX; i++)
		if (l->slots[i].is_planned && ((l->slots[i].text && !l->slots[i].is_text_saved) || !l->slots[i].is_overlay_saved))
			return true;
	return false;
}

uint64_t lists_idle(struct lists *l, uint64_t now_ms)
{
	for (unsigned i = 0; i < CONFIG_LISTS_MAX; i++)
		if (l->slots[i].is_planned)
			beside_note_rules(l, &l->slots[i]);
	if (l->state < 0)
		return LISTS_RETRY_MS;
	if (!wants_saving(l))
		return LISTS_RETRY_MS;
	if (l->tried_ms && now_ms - l->tried_ms < LISTS_RETRY_MS)
		return LISTS_RETRY_MS - (now_ms - l->tried_ms);
	l->tried_ms = now_ms ? now_ms : 1;
	lists_save(l);
	return LISTS_RETRY_MS;
}
