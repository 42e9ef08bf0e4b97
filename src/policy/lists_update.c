/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One update: from a change to the index, in one generation, with the hooks around it.
 *
 * The index changes in place; when it has no room the same change is made in a larger copy that then takes its place. A name that
 * stands in several lines has KIND_MULTI: a line less of it does not take the name out before its lines are counted in the new
 * text. An entry that was added by an edit and also stands in the text has KIND_MULTI as well. The compiler thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/rcu.h"
#include "policy/lists_private.h"

enum { KIND_LISTING = KIND_SUFFIX | KIND_EXACT };

/* Names for the hooks, each once per change, at most LIST_NAMES_SHOWN. */
struct shown {
	struct name *names;
	uint32_t count, cap;
	uint64_t all;
};
struct update {
	struct lists *l;
	struct list_slot *s;
	struct list_change *c;
	unsigned slot;
	struct index *ix, *copy; /* ix is the index in force or the copy */
	struct shown added, removed;
	uint64_t put, taken;
	struct buf ops;
	struct prefixes *prefixes; /* new, when are_prefixes_changed */
	bool are_prefixes_changed;
};

static int show(struct shown *sh, const struct name *n)
{
	uint32_t cap = sh->cap ? sh->cap * 2 : 64;
	struct name *grown;

	if (++sh->all > LIST_NAMES_SHOWN)
		return 0;
	if (sh->count == sh->cap) {
		grown = realloc(sh->names, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		sh->names = grown;
		sh->cap = cap;
	}
	sh->names[sh->count++] = *n;
	return 0;
}

static void unshow(struct shown *sh)
{
	free(sh->names);
	*sh = (struct shown){0};
}

static int put(struct update *u, const struct name *n, unsigned kind)
{
	unsigned kinds = index_kinds(u->ix, u->slot, n);
	int r;

	if ((kinds & kind) == kind && kinds & KIND_MULTI)
		return 0;
	if ((kinds & kind) == kind) {
		r = index_add(u->ix, u->slot, n, KIND_MULTI);
		list_op_put(&u->ops, n, KIND_MULTI, false);
		return r;
	}
	r = index_add(u->ix, u->slot, n, kind);
	if (r < 0)
		return r;
	u->put++;
	list_op_put(&u->ops, n, kind, false);
	return show(kind & KIND_LISTING ? &u->added : &u->removed, n);
}

static int take(struct update *u, const struct name *n, unsigned kind)
{
	int r = index_remove(u->ix, u->slot, n, kind);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	u->taken++;
	list_op_put(&u->ops, n, kind, true);
	return show(kind & KIND_LISTING ? &u->removed : &u->added, n);
}

static int put_key(struct update *u, const struct entry_key *k, uint32_t count)
{
	struct name n;
	int r;

	entry_key_name(&n, k);
	r = put(u, &n, k->kind);
	return r == 0 && count > 1 ? put(u, &n, k->kind) : r;
}

static int put_set(struct update *u, const struct entry_set *set, const struct entry_set *except)
{
	struct entry_key k;
	uint32_t count;
	int r = 0;

	for (size_t at = 0; r == 0 && entry_set_next(set, &at, &k, &count);)
		if (!entry_key_is_prefix(&k) && !(except && entry_set_count(except, &k)))
			r = put_key(u, &k, count);
	return r;
}

static int take_set(struct update *u, const struct entry_set *set)
{
	struct entry_key k;
	struct name n;
	uint32_t count;
	int r = 0;

	for (size_t at = 0; r == 0 && entry_set_next(set, &at, &k, &count);) {
		if (entry_key_is_prefix(&k))
			continue;
		entry_key_name(&n, &k);
		r = take(u, &n, k.kind);
	}
	return r;
}

static int put_line(void *ctx, const struct line_entry *e, const struct text_place *at)
{
	struct update *u = ctx;
	struct entry_key k;

	if (e->what != LINE_NAME)
		return 0;
	if (u->s->masked.distinct) {
		entry_key_from_line(&k, e);
		if (entry_set_count(&u->s->masked, &k))
			return 0;
	}
	return put(u, &e->name, e->kind);
}

static int run_whole(struct update *u)
{
	struct text_visit v = {.format = slot_format(u->s), .ctx = u, .fn = put_line};
	int r = u->s->is_filled ? index_remove_list(u->ix, u->slot) : 0;

	if (r == 0 && u->c->text)
		r = list_text_visit(u->c->text, &v);
	return r == 0 ? put_set(u, &u->s->added, NULL) : r;
}

/* Entries of lines that went. Those that may stand in other lines are put aside in `doubtful`. */
static int take_gone(struct update *u, struct entry_set *doubtful)
{
	struct entry_key k;
	struct name n;
	uint32_t count;
	int r = 0;

	for (size_t at = 0; r == 0 && entry_set_next(&u->c->gone, &at, &k, &count);) {
		if (entry_key_is_prefix(&k) || entry_set_count(&u->s->added, &k) || entry_set_count(&u->s->masked, &k))
			continue;
		entry_key_name(&n, &k);
		if (index_kinds(u->ix, u->slot, &n) & KIND_MULTI)
			r = entry_set_add(doubtful, &k, 1);
		else
			r = take(u, &n, k.kind);
	}
	return r;
}

static int run_difference(struct update *u)
{
	struct entry_set doubtful, found;
	struct entry_key k;
	uint32_t count;
	int r;

	entry_set_init(&doubtful);
	entry_set_init(&found);
	r = take_gone(u, &doubtful);
	if (r == 0)
		r = list_text_count(u->c->text, slot_format(u->s), &doubtful, &found);
	for (size_t at = 0; r == 0 && entry_set_next(&found, &at, &k, &count);)
		entry_set_clear(&doubtful, &k);
	if (r == 0)
		r = take_set(u, &doubtful);
	if (r == 0)
		r = put_set(u, &u->c->come, &u->s->masked);
	entry_set_free(&doubtful);
	entry_set_free(&found);
	return r;
}

static int run_edit(struct update *u)
{
	int r = take_set(u, &u->c->gone);

	return r == 0 ? put_set(u, &u->c->come, NULL) : r;
}

/* Makes the change in u->ix and leaves it open; on failure everything is undone. Can be run again. */
static int run(struct update *u)
{
	int r;

	unshow(&u->added);
	unshow(&u->removed);
	u->put = u->taken = 0;
	buf_free(&u->ops);
	buf_init(&u->ops, u->c->is_whole ? 0 : LIST_OPS_MAX);
	index_begin(u->ix);
	if (u->c->is_edit)
		r = run_edit(u);
	else
		r = u->c->is_whole ? run_whole(u) : run_difference(u);
	if (r < 0)
		index_abort(u->ix);
	return r;
}

int lists_make_room(struct lists *l, uint64_t more, struct index **ret_copy)
{
	struct index_stat st;
	double cells;

	*ret_copy = NULL;
	index_stat(l->index, &st);
	cells = (double)(st.buckets * 8);
	/* Past this load the index itself would ask for a rebuild; bytes of entries that are gone come back only by one. */
	if ((double)(st.names + more) < cells * 0.7 && (st.dead_bytes < 1 << 20 || st.dead_bytes < st.arena_bytes / 2))
		return 0;
	*ret_copy = index_rebuild(l->index, st.names + more + (st.names + more) / 8);
	return *ret_copy ? 0 : -ENOMEM;
}

static int run_with_room(struct update *u)
{
	uint64_t more = (u->c->is_whole && u->c->text ? u->c->text->understood : u->c->come.distinct) + u->s->added.distinct;
	struct index_stat st;
	int r = lists_make_room(u->l, more, &u->copy);

	if (r < 0)
		return r;
	u->ix = u->copy ? u->copy : u->l->index;
	r = run(u);
	if (r != NW_EFULL)
		return r;
	index_stat(u->l->index, &st);
	index_free(u->copy);
	u->ix = u->copy = index_rebuild(u->l->index, (st.names + more) + (st.names + more) / 2);
	return u->copy ? run(u) : -ENOMEM;
}

static void collect_prefixes(
        const struct entry_set *from, const struct entry_set *except, struct prefix_entry *ret, unsigned *count)
{
	struct entry_key k;
	uint32_t n;

	for (size_t at = 0; entry_set_next(from, &at, &k, &n);)
		if (entry_key_is_prefix(&k) && !(except && entry_set_count(except, &k)))
			entry_key_prefix(&ret[(*count)++], &k);
}

/* The list's prefixes as they will be, and whether they differ from those in force. */
static int build_prefixes(struct update *u)
{
	const struct list_change *c = u->c;
	const struct entry_set *text = c->has_prefixes ? &c->prefixes : &u->s->text_prefixes;
	const struct entry_set *added = c->is_edit ? &c->added : &u->s->added, *masked = c->is_edit ? &c->masked : &u->s->masked;
	struct prefix_entry *e;
	unsigned count = 0;

	if (!c->has_prefixes && !c->gone.prefixes && !c->come.prefixes)
		return 0;
	e = malloc((text->prefixes + added->prefixes + 1) * sizeof(*e));
	if (!e)
		return -ENOMEM;
	collect_prefixes(text, masked, e, &count);
	collect_prefixes(added, NULL, e, &count);
	u->prefixes = prefixes_build(e, count);
	free(e);
	if (!u->prefixes)
		return -ENOMEM;
	if (u->s->prefixes ? prefixes_equal(u->s->prefixes, u->prefixes) : !u->prefixes->count4 && !u->prefixes->count6) {
		prefixes_free(u->prefixes);
		u->prefixes = NULL;
		return 0;
	}
	u->are_prefixes_changed = true;
	return 0;
}

static struct list_update said(const struct update *u)
{
	struct list_update ret = {.list = u->s->config_index,
	        .are_prefixes_changed = u->are_prefixes_changed,
	        .is_admin_edit = u->c->is_edit,
	        .index = u->ix,
	        .gen = index_generation(u->ix) + (u->copy ? 0 : 1)};

	ret.is_whole =
	        u->added.all > LIST_NAMES_SHOWN || u->removed.all > LIST_NAMES_SHOWN || (u->c->is_whole && u->s->is_filled);
	if (!ret.is_whole) {
		ret.added = u->added.names;
		ret.added_count = u->added.count;
		ret.removed = u->removed.names;
		ret.removed_count = u->removed.count;
	}
	return ret;
}

/* From open to in force. In a copy the change is published at once: nobody looks at it before it takes the index's place. */
static int publish(struct update *u, bool is_quiet)
{
	struct lists *l = u->l;
	struct prefixes *old_prefixes = u->s->prefixes;
	struct index *old = l->index;
	struct list_update su;
	int r = 0;

	if (u->copy) {
		index_publish(u->copy);
		index_settle(u->copy);
		l->index = u->copy;
	}
	if (u->are_prefixes_changed)
		u->s->prefixes = u->prefixes;
	su = said(u);
	if (!is_quiet && l->hooks.before_publish)
		r = l->hooks.before_publish(l->hooks.ctx, &su);
	if (r < 0) {
		l->index = old;
		u->s->prefixes = old_prefixes;
		if (!u->copy)
			index_abort(u->ix);
		return r;
	}
	if (!u->copy)
		index_publish(u->ix);
	if (!is_quiet && l->hooks.index_swapped && (u->copy || u->are_prefixes_changed))
		l->hooks.index_swapped(l->hooks.ctx, l->index);
	rcu_wait();
	if (u->copy)
		index_free(old);
	else
		index_settle(u->ix);
	u->copy = NULL;
	su.gen = index_generation(l->index);
	if (!is_quiet && l->hooks.after_publish)
		l->hooks.after_publish(l->hooks.ctx, &su);
	if (u->are_prefixes_changed) {
		prefixes_free(old_prefixes);
		u->prefixes = NULL;
	}
	return 0;
}

static void move_set(struct entry_set *to, struct entry_set *from)
{
	entry_set_free(to);
	*to = *from;
	entry_set_init(from);
}

/* The slot's own state, after the index has it. */
static void commit(struct update *u)
{
	struct list_slot *s = u->s;
	struct list_change *c = u->c;

	pthread_mutex_lock(&u->l->lock);
	if (c->is_edit) {
		move_set(&s->added, &c->added);
		move_set(&s->masked, &c->masked);
		s->is_overlay_saved = false;
	} else {
		s->is_text_saved = c->is_saved;
		list_text_unref(s->text);
		s->text = list_text_ref(c->text);
	}
	if (c->has_prefixes)
		move_set(&s->text_prefixes, &c->prefixes);
	s->is_filled = true;
	s->names = index_count(u->l->index, u->slot);
	s->prefix_count = s->prefixes ? s->prefixes->count4 + s->prefixes->count6 : 0;
	s->last_added = u->put;
	s->last_removed = u->taken;
	s->changed_s = clock_wall_s();
	index_stat(u->l->index, &u->l->stat);
	u->l->generation++;
	pthread_mutex_unlock(&u->l->lock);
}

static void keep(struct update *u, uint64_t before)
{
	struct lists *l = u->l;
	int r = -ENOENT;

	lists_persist(l, u->s);
	if (l->state < 0)
		return;
	if (!u->c->is_whole && !u->ops.failed)
		r = list_journal_append(&l->journal, u->slot, before, slot_content(u->s), &u->ops);
	if (r < 0) {
		l->journal.slots[u->slot].is_recorded = false;
		l->is_image_stale = true;
	}
	if (r < 0 && r != -ENOENT)
		lists_state_result(l, r);
}

int lists_apply(struct lists *l, struct list_slot *s, struct list_change *c, bool is_quiet)
{
	struct update u = {.l = l, .s = s, .c = c, .slot = (unsigned)(s - l->slots)};
	uint64_t before = slot_content(s);
	int r = build_prefixes(&u);

	buf_init(&u.ops, LIST_OPS_MAX);
	if (r == 0)
		r = run_with_room(&u);
	if (r == 0)
		r = publish(&u, is_quiet);
	if (r == 0) {
		commit(&u);
		keep(&u, before);
	}
	index_free(u.copy);
	prefixes_free(u.prefixes);
	buf_free(&u.ops);
	unshow(&u.added);
	unshow(&u.removed);
	return r;
}
