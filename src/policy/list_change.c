/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a new text would change: only chunks that the text in force does not have are parsed, on both sides, and entries that
 * stand in both fall out. A text for which there is nothing to compare with, or that changes too many entries, is a whole change:
 * its lines are counted here and put into the index by lists_update.c, without a set of all its names between. The compiler
 * thread. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "policy/lists_private.h"

/* More entries than this, and than one in so many, gone or new: a whole change. Sets of them would take more memory than the index. */
enum { DIFFERENCE_ENTRIES = 10000, DIFFERENCE_SHARE = 16 };
/* Bytes of changed chunks that are compared at a time, and at most in so many steps. */
enum { DIFFERENCE_STEP = 16 << 10, DIFFERENCE_STEPS_MAX = 1024 };

void list_change_init(struct list_change *c)
{
	*c = (struct list_change){0};
	entry_set_init(&c->gone);
	entry_set_init(&c->come);
	entry_set_init(&c->beside);
	entry_set_init(&c->added);
	entry_set_init(&c->masked);
}

void list_change_free(struct list_change *c)
{
	list_text_unref(c->text);
	entry_set_free(&c->gone);
	entry_set_free(&c->come);
	entry_set_free(&c->beside);
	entry_set_free(&c->added);
	entry_set_free(&c->masked);
}

static int gone_line(void *ctx, const struct line_entry *e, const struct text_place *at)
{
	struct list_change *c = ctx;
	struct entry_key k;

	if (e->what == LINE_BAD)
		return 0;
	entry_key_from_line(&k, e);
	return entry_set_take(&c->come, &k) ? 0 : entry_set_add(&c->gone, &k, 1);
}

static int come_line(void *ctx, const struct line_entry *e, const struct text_place *at)
{
	struct list_change *c = ctx;
	struct entry_key k;

	if (e->what == LINE_BAD)
		return 0;
	entry_key_from_line(&k, e);
	return entry_set_take(&c->gone, &k) ? 0 : entry_set_add(&c->come, &k, 1);
}

static int beside_line(void *ctx, const struct line_entry *e, const struct text_place *at)
{
	struct list_change *c = ctx;
	struct entry_key k;

	if (e->what != LINE_PREFIX && e->what != LINE_RULE)
		return 0;
	entry_key_from_line(&k, e);
	return entry_set_add(&c->beside, &k, 1);
}

static int prepare_whole(struct list_change *c, bool want_sets)
{
	struct text_visit v = {.count = !c->text->is_counted, .ctx = c, .fn = beside_line};
	int r;

	c->is_whole = c->has_beside = true;
	entry_set_free(&c->gone);
	entry_set_free(&c->come);
	r = list_text_visit(c->text, &v);
	if (r == 0 && want_sets) {
		v.count = false;
		v.fn = come_line;
		r = list_text_visit(c->text, &v);
	}
	return r;
}

/* The prefixes and rules of the new text: those of the old, less what went, and what came. */
static int change_beside(struct list_change *c, const struct list_slot *s)
{
	struct entry_key k;
	uint32_t count;
	int r;

	if (!entry_set_has_beside(&c->gone) && !entry_set_has_beside(&c->come))
		return 0;
	r = entry_set_copy(&c->beside, &s->text_beside);
	if (r < 0)
		return r;
	c->has_beside = true;
	for (size_t at = 0; entry_set_next(&c->gone, &at, &k, &count);)
		while (!entry_key_is_name(&k) && count-- > 0)
			entry_set_take(&c->beside, &k);
	for (size_t at = 0; r == 0 && entry_set_next(&c->come, &at, &k, &count);)
		if (!entry_key_is_name(&k))
			r = entry_set_add(&c->beside, &k, count);
	return r;
}

static uint64_t changed_bytes(const struct list_text *t, const uint8_t *changed)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < t->chunk_count; i++)
		bytes += changed[i] ? t->chunks[i].len : 0;
	return bytes;
}

/* One of the two texts: how far its changed chunks are visited. */
struct side {
	struct list_text *text;
	struct text_visit visit;
	uint64_t bytes, done;
};

/* Visits its changed chunks up to a part of their bytes. */
static int visit_part(struct side *w, uint64_t step, uint64_t steps)
{
	struct text_visit *v = &w->visit;
	uint64_t until = w->bytes * step / steps;

	v->first = v->end;
	for (; w->done < until; v->end++)
		w->done += v->wanted[v->end] ? w->text->chunks[v->end].len : 0;
	return v->first < v->end ? list_text_visit(w->text, v) : 0;
}

static bool is_too_much(const struct list_change *c, const struct list_slot *s)
{
	uint64_t changed = c->gone.distinct + c->come.distinct;

	return changed > DIFFERENCE_ENTRIES && changed > s->text->entries / DIFFERENCE_SHARE;
}

/* Some bytes of the old text and their share of the new one in turn, so that most entries find their like before many are
 * remembered. -EIO: a whole change is better. */
static int prepare_difference(
        struct list_change *c, const struct list_slot *s, uint8_t *old_changed, uint8_t *new_changed, bool want_sets)
{
	struct side old = {.text = s->text,
	        .visit = {.wanted = old_changed, .ctx = c, .fn = gone_line},
	        .bytes = changed_bytes(s->text, old_changed)};
	struct side new = {.text = c->text,
	        .visit = {.wanted = new_changed, .ctx = c, .fn = come_line, .count = !c->text->is_counted},
	        .bytes = changed_bytes(c->text, new_changed)};
	uint64_t steps = (old.bytes > new.bytes ? old.bytes : new.bytes) / DIFFERENCE_STEP + 1;
	int r = 0;

	if (steps > DIFFERENCE_STEPS_MAX)
		steps = DIFFERENCE_STEPS_MAX;
	for (uint64_t step = 1; r == 0 && step <= steps; step++) {
		r = visit_part(&old, step, steps);
		if (r == 0)
			r = visit_part(&new, step, steps);
		if (r == 0 && !want_sets && is_too_much(c, s))
			r = -EIO;
	}
	return r == 0 ? change_beside(c, s) : r;
}

/* -EIO: there is nothing to compare with, or not worth it. */
static int compare(struct list_change *c, const struct list_slot *s, bool want_sets)
{
	uint8_t *old_changed = calloc(s->text->chunk_count + 1, 1), *new_changed = calloc(c->text->chunk_count + 1, 1);
	int r = old_changed && new_changed ? 0 : -ENOMEM;

	if (r == 0)
		r = list_text_compare(s->text, c->text, old_changed, new_changed);
	if (r == 0)
		r = prepare_difference(c, s, old_changed, new_changed, want_sets);
	free(old_changed);
	free(new_changed);
	return r;
}

int list_change_prepare(struct list_change *c, const struct list_slot *s, struct list_text *text, bool want_sets)
{
	int r = -EIO;

	c->text = list_text_ref(text);
	if (s->is_filled && s->text && s->text->is_counted)
		r = compare(c, s, want_sets);
	/* Also when the accepted text cannot be read back. */
	if (r == -EIO)
		r = prepare_whole(c, want_sets);
	if (r == 0 && !text->is_counted)
		list_text_total(text);
	if (r == 0 && text->entries > LIST_NAMES_MAX)
		r = NW_EFULL;
	return r;
}

/* --- A text of which nothing is an entry --- */

/* Lines of adblock files that are neither blank, comments nor entries: rules for pages, or what is no list at all. Looks at the first LIST_PROBE_MAX
 * bytes of each file. */
struct refused {
	unsigned long long refused, lines;
};

static void count_refused(struct refused *ret, const char *text, size_t len)
{
	const char *nl, *s;

	for (const char *p = text, *end = text + len; p < end; p = nl + 1) {
		nl = memchr(p, '\n', (size_t)(end - p));
		if (!nl)
			nl = end;
		for (s = p; s < nl && list_is_blank(*s); s++)
			;
		if (s == nl)
			continue;
		ret->lines++;
		ret->refused += !strchr("!#;[", *s);
	}
}

static bool is_refused(const struct list_text *t, struct refused *ret)
{
	char *bytes = malloc(LIST_PROBE_MAX);
	uint64_t len;
	ssize_t n;

	*ret = (struct refused){0};
	for (unsigned i = 0; bytes && i < t->file_count; i++) {
		if (t->files[i].format != &list_format_adblock)
			continue;
		len = t->files[i].len < LIST_PROBE_MAX ? t->files[i].len : LIST_PROBE_MAX;
		n = pread(t->fd, bytes, len, (off_t)(t->bytes_at + t->files[i].at));
		if (n > 0)
			count_refused(ret, bytes, (size_t)n);
	}
	free(bytes);
	return ret->refused * 2 > ret->lines;
}

bool list_change_is_held(const struct list_change *c, const struct list_slot *s, char why[LIST_WHY_MAX])
{
	unsigned long long old = s->text ? s->text->entries : 0, new = c->text->entries, bad = c->text->bad,
	                   good = c->text->understood;
	struct refused refused;

	if (new == 0 && bad == 0 && is_refused(c->text, &refused)) {
		snprintf(why, LIST_WHY_MAX, "nothing of it is an entry: %llu of its first %llu lines are no rules for names", refused.refused, refused.lines);
		return true;
	}
	if (bad > good) {
		snprintf(why, LIST_WHY_MAX, "%llu of %llu lines are not understood", bad, bad + good);
		return true;
	}
	if (new * 100 < old *(100 - s->shrink_limit_pct)) {
		snprintf(why, LIST_WHY_MAX, "it shrinks from %llu to %llu entries, more than the shrink-limit of %u %%", old, new,
		        s->shrink_limit_pct);
		return true;
	}
	return false;
}
