/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One update: from a change to the index, in one generation, with the hooks around it.
 *
 * The index changes in place; when it has no room, or most of it changes, the same change is made in a copy that then takes its place. A name that
 * stands in several lines has KIND_MULTI: a line less of it does not take the name out before its lines are counted in the new
 * text. An entry that was added by an edit and also stands in the text has KIND_MULTI as well. The compiler thread. */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/rcu.h"
#include "policy/lists_private.h"

enum { KIND_LISTING = KIND_SUFFIX | KIND_EXACT, WHOLE_IN_PLACE = 10000, COPY_TRIES = 6, SETTLE_EVERY = 1 << 14, TRIM_AFTER = 10000, DEAD_SHARE = 4 };

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
	bool is_untold; /* everything is judged anew: no names are collected */
	uint64_t put, taken;
	struct buf ops;
	struct prefixes *prefixes; /* new, when are_prefixes_changed */
	struct exprs *exprs;       /* new, when are_rules_changed */
	uint64_t rules_digest;
	bool are_prefixes_changed, are_rules_changed;
};

static int show(struct shown *sh, const struct name *n)
{
	uint32_t cap = sh->cap ? sh->cap * 2 : 64;
	struct name *grown;

	if (++sh->all > LIST_NAMES_SHOWN) {
		free(sh->names);
		sh->names = NULL;
		sh->count = sh->cap = 0;
		return 0;
	}
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

/* Nobody reads a copy before it is whole, so what an update remembers of its changes need not be kept for all of them. */
static void settle_some(struct update *u)
{
	if (!u->copy || u->put % SETTLE_EVERY)
		return;
	index_publish(u->copy);
	index_settle(u->copy);
	index_begin(u->copy);
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
	settle_some(u);
	return u->is_untold ? 0 : show(kind & KIND_LISTING ? &u->added : &u->removed, n);
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
	return u->is_untold ? 0 : show(kind & KIND_LISTING ? &u->removed : &u->added, n);
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
		if (entry_key_is_name(&k) && !(except && entry_set_count(except, &k)))
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
		if (!entry_key_is_name(&k))
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
	struct text_visit v = {.ctx = u, .fn = put_line};
	int r = u->s->is_filled && !u->copy ? index_remove_list(u->ix, u->slot) : 0;

	u->taken = u->s->is_filled ? index_count(u->l->index, u->slot) : 0;
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
		if (!entry_key_is_name(&k) || entry_set_count(&u->s->added, &k) || entry_set_count(&u->s->masked, &k))
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
		r = list_text_count(u->c->text, &doubtful, &found);
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

/* What the copy is to have room for. Slack is in proportion to what other lists have: one list alone is packed as densely as the
 * index allows, and many loaded one after another do not copy all of it for each. */
static struct index *make_copy(const struct update *u, const struct index_stat *st, uint64_t more, unsigned tries)
{
	const struct index *ix = u->l->index;
	bool is_anew = u->c->is_whole && u->s->is_filled;
	uint64_t others = st->names - (is_anew ? index_count(ix, u->slot) : 0), expected = others + others / 8 + more;

	for (; tries > 0; tries--)
		expected += expected / 2;
	return is_anew ? index_rebuild_without(ix, u->slot, expected) : index_rebuild(ix, expected);
}

/* Whether the change is to be made in a copy: because the index has no room (past this load it would itself ask for a rebuild, and
 * the bytes of entries that are gone come back only by one), or because so much of it changes that old and new side by side in it
 * would stay twice as large. */
static bool wants_copy(const struct update *u, const struct index_stat *st, uint64_t more)
{
	uint64_t gone = u->c->is_whole && u->s->is_filled ? index_count(u->l->index, u->slot) : 0;

	if ((double)(st->names + more) >= (double)(st->buckets * 8) * 0.7)
		return true;
	if (st->dead_bytes >= 1 << 20 && st->dead_bytes >= st->arena_bytes / DEAD_SHARE)
		return true;
	return gone > WHOLE_IN_PLACE && gone > st->names / 8;
}

static int run_with_room(struct update *u)
{
	uint64_t more = (u->c->is_whole && u->c->text ? u->c->text->entries : u->c->come.names) + u->s->added.names;
	struct index_stat st;
	int r = NW_EFULL;

	index_stat(u->l->index, &st);
	if (!wants_copy(u, &st, more)) {
		u->ix = u->l->index;
		r = run(u);
	}
	for (unsigned tries = 0; r == NW_EFULL && tries < COPY_TRIES; tries++) {
		index_free(u->copy);
		u->ix = u->copy = make_copy(u, &st, more, tries);
		r = u->copy ? run(u) : -ENOMEM;
	}
	return r;
}

static bool are_same_prefixes(const struct prefixes *a, const struct prefixes *b)
{
	static const struct prefixes none;

	return prefixes_equal(a ? a : &none, b ? b : &none);
}

/* The list's prefixes and rules as they will be, where they differ from those in force. */
static int build_beside(struct update *u)
{
	const struct list_change *c = u->c;
	const struct entry_set *text = c->has_beside ? &c->beside : &u->s->text_beside;
	const struct entry_set *added = c->is_edit ? &c->added : &u->s->added, *masked = c->is_edit ? &c->masked : &u->s->masked;
	int r;

	if (!c->has_beside && !entry_set_has_beside(&c->gone) && !entry_set_has_beside(&c->come))
		return 0;
	r = beside_prefixes(&u->prefixes, text, added, masked);
	if (r < 0)
		return r;
	u->are_prefixes_changed = !are_same_prefixes(u->s->prefixes, u->prefixes);
	u->rules_digest = beside_rules_digest(text, added, masked);
	u->are_rules_changed = u->rules_digest != u->s->rules_digest;
	return u->are_rules_changed ? beside_rules(&u->exprs, index_seed(u->l->index), text, added, masked) : 0;
}

static struct list_update said(const struct update *u)
{
	struct list_update ret = {.list = u->s->config_index,
	        .are_prefixes_changed = u->are_prefixes_changed,
	        .are_rules_changed = u->are_rules_changed,
	        .is_admin_edit = u->c->is_edit,
	        .index = u->ix,
	        .gen = index_generation(u->ix) + (u->copy ? 0 : 1)};

	ret.is_whole = u->is_untold || u->added.all > LIST_NAMES_SHOWN || u->removed.all > LIST_NAMES_SHOWN;
	if (!ret.is_whole) {
		ret.added = u->added.names;
		ret.added_count = u->added.count;
		ret.removed = u->removed.names;
		ret.removed_count = u->removed.count;
	}
	return ret;
}

static void give_up(struct update *u, struct index *old, struct prefixes *old_prefixes, struct exprs *old_exprs)
{
	u->l->index = old;
	u->s->prefixes = old_prefixes;
	u->s->exprs = old_exprs;
	if (!u->copy)
		index_abort(u->ix);
}

/* From open to in force. In a copy the change is published at once: nobody looks at it before it takes the index's place. Else whoever gets new rules or
 * prefixes already judges by the generation to come, so that no reader sees a part of the update; the others follow when it is published. */
static int publish(struct update *u, bool is_quiet)
{
	struct lists *l = u->l;
	struct prefixes *old_prefixes = u->s->prefixes;
	struct exprs *old_exprs = u->s->exprs;
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
	if (u->are_rules_changed)
		u->s->exprs = u->exprs;
	su = said(u);
	if (!is_quiet && l->hooks.before_publish)
		r = l->hooks.before_publish(l->hooks.ctx, &su);
	if (r >= 0 && !is_quiet && l->hooks.index_swapped && (u->copy || u->are_prefixes_changed || u->are_rules_changed))
		r = l->hooks.index_swapped(l->hooks.ctx, l->index, su.gen);
	if (r < 0) {
		give_up(u, old, old_prefixes, old_exprs);
		return r;
	}
	if (!u->copy)
		index_publish(u->ix);
	rcu_wait();
	if (u->copy)
		index_free(old);
	else
		index_settle(u->ix);
	u->copy = NULL;
	if (!is_quiet && l->hooks.after_publish)
		l->hooks.after_publish(l->hooks.ctx, &su);
	if (u->are_prefixes_changed) {
		prefixes_free(old_prefixes);
		u->prefixes = NULL;
	}
	if (u->are_rules_changed) {
		exprs_free(old_exprs);
		u->exprs = NULL;
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
	if (c->has_beside)
		move_set(&s->text_beside, &c->beside);
	if (u->are_rules_changed)
		slot_count_rules(s, u->rules_digest);
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
	int r = build_beside(&u);

	u.is_untold = u.are_rules_changed || (c->is_whole && (s->is_filled || (c->text && c->text->entries > LIST_NAMES_SHOWN)));
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
	exprs_free(u.exprs);
	buf_free(&u.ops);
	unshow(&u.added);
	unshow(&u.removed);
	/* What so many changes took on the way goes back to the system. */
	if (u.put + u.taken > TRIM_AFTER)
		malloc_trim(0);
	return r;
}
