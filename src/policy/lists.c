/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The list manager: lists of a configuration at their slots of the index, from a plan until they are forgotten. The compiler
 * thread. */
#include "policy/lists.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/rcu.h"
#include "policy/lists_private.h"

enum { INDEX_FIRST_NAMES = 4096 };

static void init_slot(struct list_slot *s, char *name, uint64_t def)
{
	*s = (struct list_slot){.is_used = true, .name = name, .def = def, .seed = hash_seed()};
	entry_set_init(&s->text_beside);
	entry_set_init(&s->added);
	entry_set_init(&s->masked);
}

/* Slots for what the image holds; their texts come with lists_restore. */
static int adopt_image(struct lists *l)
{
	struct list_slot *s;
	char *name;

	for (unsigned i = 0; i < CONFIG_LISTS_MAX; i++) {
		if (!l->journal.slots[i].name)
			continue;
		s = &l->slots[i];
		name = strdup(l->journal.slots[i].name);
		if (!name)
			return -ENOMEM;
		init_slot(s, name, l->journal.slots[i].def);
		s->is_filled = true;
		s->names = index_count(l->index, i);
	}
	return 0;
}

int lists_new(struct lists **ret, int state_fd, const struct lists_hooks *hooks)
{
	struct lists *l = calloc(1, sizeof(*l));
	int r = 0;

	if (!l)
		return -ENOMEM;
	l->state = state_fd;
	l->hooks = *hooks;
	pthread_mutex_init(&l->lock, NULL);
	list_journal_init(&l->journal);
	if (state_fd < 0)
		lists_alarm(l, "state", "there is no state directory: lists, held texts and live edits are in memory only");
	else
		list_journal_restore(&l->journal, state_fd, &l->index);
	if (l->index)
		r = adopt_image(l);
	else
		l->index = index_new(INDEX_FIRST_NAMES, 0);
	if (r < 0 || !l->index) {
		lists_free(l);
		return -ENOMEM;
	}
	*ret = l;
	return 0;
}

void lists_free(struct lists *l)
{
	if (!l)
		return;
	for (unsigned i = 0; i < CONFIG_LISTS_MAX; i++)
		if (l->slots[i].is_used)
			slot_clear(&l->slots[i]);
	list_journal_free(&l->journal);
	index_free(l->index);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

struct index *lists_index(struct lists *l)
{
	return l->index;
}

const struct prefixes *lists_slot_prefixes(struct lists *l, unsigned slot)
{
	return slot < CONFIG_LISTS_MAX ? l->slots[slot].prefixes : NULL;
}

const struct prefixes *lists_prefixes(struct lists *l, unsigned list)
{
	const struct list_slot *s = lists_slot(l, list);

	return s ? s->prefixes : NULL;
}

const struct exprs *lists_slot_exprs(struct lists *l, unsigned slot)
{
	return slot < CONFIG_LISTS_MAX ? l->slots[slot].exprs : NULL;
}

const struct exprs *lists_exprs(struct lists *l, unsigned list)
{
	const struct list_slot *s = lists_slot(l, list);

	return s ? s->exprs : NULL;
}

bool lists_slot_has_text(const struct lists *l, unsigned slot)
{
	const struct list_text *t = slot < CONFIG_LISTS_MAX ? l->slots[slot].text : NULL;

	return t && t->file_count > 0;
}

bool lists_has_text(const struct lists *l, unsigned list)
{
	return list < l->config_count && lists_slot_has_text(l, l->by_config[list]);
}

static uint64_t definition(const struct cfg_list *c)
{
	uint64_t h = (uint64_t)c->format + 1 + ((uint64_t)c->match << 32);

	for (unsigned i = 0; i < c->file_count; i++)
		h = hash_bytes(c->files[i], strlen(c->files[i]), h);
	/* Edited entries make another list: what the administrator writes is not held back as a file's text may be. */
	for (unsigned i = 0; i < c->entry_count; i++)
		h = hash_bytes(c->entries[i], strlen(c->entries[i]) + 1, h);
	return h;
}

static struct list_slot *find_slot(struct lists *l, const char *name, const uint64_t *def)
{
	for (unsigned i = 0; i < CONFIG_LISTS_MAX; i++)
		if (l->slots[i].is_used && strcmp(l->slots[i].name, name) == 0 && (!def || l->slots[i].def == *def))
			return &l->slots[i];
	return NULL;
}

/* Live edits belong to the list's name: a new definition keeps them. */
static int take_overlay(struct lists *l, struct list_slot *s, const struct list_slot *namesake)
{
	struct entry_set added, masked;
	int r;

	if (namesake) {
		r = entry_set_copy(&added, &namesake->added);
		if (r < 0)
			return r;
		r = entry_set_copy(&masked, &namesake->masked);
		if (r < 0) {
			entry_set_free(&added);
			return r;
		}
		entry_set_free(&s->added);
		entry_set_free(&s->masked);
		s->added = added;
		s->masked = masked;
		s->is_overlay_saved = namesake->is_overlay_saved;
		return 0;
	}
	s->is_overlay_saved = true;
	if (l->state >= 0)
		state_load_overlay(l->state, s->name, &s->added, &s->masked);
	return 0;
}

/* A slot for a list that has none. */
static int new_slot(struct lists *l, const struct cfg_list *c, uint64_t def, struct list_slot **ret)
{
	struct list_slot *namesake = find_slot(l, c->name, NULL);
	char *name;
	int r;

	for (unsigned i = 0; i < CONFIG_LISTS_MAX; i++) {
		if (l->slots[i].is_used)
			continue;
		name = strdup(c->name);
		if (!name)
			return -ENOMEM;
		init_slot(&l->slots[i], name, def);
		r = take_overlay(l, &l->slots[i], namesake);
		if (r < 0) {
			slot_clear(&l->slots[i]);
			return r;
		}
		*ret = &l->slots[i];
		return 0;
	}
	return NW_EFULL;
}

static void settle_plan(struct lists *l, const struct config *c, const uint16_t *slots)
{
	pthread_mutex_lock(&l->lock);
	for (unsigned i = 0; i < CONFIG_LISTS_MAX; i++)
		l->slots[i].is_planned = false;
	for (unsigned i = 0; i < c->list_count; i++) {
		struct list_slot *s = &l->slots[slots[i]];

		s->is_planned = true;
		s->config_index = i;
		s->shrink_limit_pct = c->lists[i].shrink_limit_pct;
		s->format = c->lists[i].format == FORMAT_AUTO ? NULL : list_format_by_id(c->lists[i].format);
		s->match = c->lists[i].match;
		s->names_max = c->lists[i].names_max;
		l->by_config[i] = slots[i];
	}
	l->config_count = c->list_count;
	pthread_mutex_unlock(&l->lock);
}

int lists_plan(struct lists *l, const struct config *c, uint16_t *ret_slots)
{
	bool is_new[CONFIG_LISTS_MAX] = {0};
	uint16_t slots[CONFIG_LISTS_MAX];
	int r = 0;

	for (unsigned i = 0; r == 0 && i < c->list_count; i++) {
		uint64_t def = definition(&c->lists[i]);
		struct list_slot *s = find_slot(l, c->lists[i].name, &def);

		if (!s) {
			r = new_slot(l, &c->lists[i], def, &s);
			is_new[r == 0 ? s - l->slots : 0] |= r == 0;
		}
		if (r == 0)
			slots[i] = (uint16_t)(s - l->slots);
	}
	if (r < 0) {
		for (unsigned i = 0; i < CONFIG_LISTS_MAX; i++)
			if (is_new[i])
				slot_clear(&l->slots[i]);
		return r;
	}
	settle_plan(l, c, slots);
	memcpy(ret_slots, slots, c->list_count * sizeof(*slots));
	return 0;
}

void lists_forget_old(struct lists *l)
{
	bool is_changed = false;
	int r = 0;

	for (unsigned i = 0; i < CONFIG_LISTS_MAX; i++)
		is_changed |= l->slots[i].is_used && !l->slots[i].is_planned;
	if (!is_changed)
		return;
	index_begin(l->index);
	for (unsigned i = 0; r == 0 && i < CONFIG_LISTS_MAX; i++)
		if (l->slots[i].is_used && !l->slots[i].is_planned && l->slots[i].is_filled)
			r = index_remove_list(l->index, i);
	if (r < 0) {
		/* Out of memory: the lists stay, unused, until the next reload. */
		index_abort(l->index);
		return;
	}
	index_publish(l->index);
	rcu_wait();
	index_settle(l->index);
	pthread_mutex_lock(&l->lock);
	index_stat(l->index, &l->stat);
	pthread_mutex_unlock(&l->lock);
	for (unsigned i = 0; i < CONFIG_LISTS_MAX; i++) {
		struct list_slot *s = &l->slots[i], *namesake;

		if (!s->is_used || s->is_planned)
			continue;
		pthread_mutex_lock(&l->lock);
		s->is_used = false;
		namesake = find_slot(l, s->name, NULL);
		pthread_mutex_unlock(&l->lock);
		if (!namesake) {
			lists_alarm_slot(l, s, NULL);
			exprs_free(s->exprs);
			s->exprs = NULL;
			beside_note_rules(l, s);
			if (l->state >= 0)
				state_remove(l->state, s->name, NULL);
		}
		slot_clear(s);
		l->journal.slots[i].is_recorded = false;
	}
	l->is_image_stale = true;
}
