/* SPDX-License-Identifier: GPL-3.0-or-later */
/* JSON for `list` and `list diff`. lists_print_json runs on any thread: it copies what changes under the lock and holds texts by
 * reference; lists_diff_json runs on the compiler thread. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "policy/lists_private.h"

enum { DIFF_SHOWN = 100 };

static json_t *print_key(const struct entry_key *k)
{
	struct buf b;
	json_t *ret;

	buf_init(&b, 4096);
	ret = entry_key_print(&b, k) == 0 ? json_string(b.bytes) : NULL;
	buf_free(&b);
	return ret;
}

static json_t *print_set(const struct entry_set *set, unsigned max)
{
	json_t *ret = json_array();
	struct entry_key k;
	uint32_t count;

	for (size_t at = 0; json_array_size(ret) < max && entry_set_next(set, &at, &k, &count);)
		json_array_append_new(ret, print_key(&k));
	return ret;
}

/* A path may hold bytes that are no UTF-8; those become '?'. */
static json_t *print_text(const char *text)
{
	json_t *ret = json_string(text);
	char *copy;

	if (ret)
		return ret;
	copy = strdup(text);
	for (char *c = copy; c && *c; c++)
		if (*c & 0x80)
			*c = '?';
	ret = copy ? json_string(copy) : NULL;
	free(copy);
	return ret;
}

static json_t *print_bad(struct list_text *t)
{
	struct list_bad bad[LIST_BAD_SHOWN];
	int count = list_text_bad(t, bad, LIST_BAD_SHOWN);
	json_t *ret = json_array();

	for (int i = 0; i < count; i++)
		json_array_append_new(ret, json_pack("{s:o, s:I, s:s, s:s}", "file", print_text(t->files[bad[i].file].path),
		                                   "line", (json_int_t)bad[i].line, "text", bad[i].text, "why", bad[i].why));
	return ret;
}

static json_t *print_list_text(struct list_text *t)
{
	json_t *files = json_array();

	for (unsigned i = 0; i < t->file_count; i++)
		json_array_append_new(files,
		        json_pack("{s:o, s:I, s:s}", "path", print_text(t->files[i].path), "bytes", (json_int_t)t->files[i].len,
		                "format", t->files[i].format->name));
	return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:o}", "files", files, "lines", (json_int_t)t->lines, "entries",
	        (json_int_t)t->entries, "bad", (json_int_t)t->bad, "accepted", (json_int_t)t->taken_s, "age_s",
	        (json_int_t)(clock_wall_s() - t->taken_s), "bad_lines", print_bad(t));
}

/* The one given, the one that all files were found to have, or "mixed". */
static const char *format_name(const struct list_slot *s)
{
	const struct list_text *t = s->text;

	if (s->format)
		return s->format->name;
	if (!t || !t->file_count)
		return list_format_domains.name;
	for (unsigned i = 1; i < t->file_count; i++)
		if (t->files[i].format != t->files[0].format)
			return "mixed";
	return t->files[0].format->name;
}

/* The lock is not held while texts are looked into. */
static json_t *print_list(struct lists *l, unsigned list)
{
	struct list_text *text, *held;
	char why[LIST_WHY_MAX];
	struct list_slot *s;
	json_t *ret;

	pthread_mutex_lock(&l->lock);
	s = lists_slot(l, list);
	if (!s) {
		pthread_mutex_unlock(&l->lock);
		return NULL;
	}
	text = list_text_ref(s->text);
	held = list_text_ref(s->held);
	memcpy(why, s->held_why, sizeof(why));
	ret = json_pack("{s:o, s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "name", print_text(s->name), "format", format_name(s),
	        "loaded", text && text->file_count > 0, "names", (json_int_t)s->names, "prefix_ranges",
	        (json_int_t)s->prefix_count, "rules", (json_int_t)s->rule_count, "rules_left_out", (json_int_t)s->rules_left_out, "rules_cut", (json_int_t)s->rules_cut,
	        "changed", (json_int_t)s->changed_s, "last_added", (json_int_t)s->last_added,
	        "last_removed", (json_int_t)s->last_removed, "added", print_set(&s->added, OVERLAY_ENTRIES_MAX), "removed",
	        print_set(&s->masked, OVERLAY_ENTRIES_MAX));
	if (l->state >= 0 && ret)
		json_object_set_new(ret, "saved", json_boolean((s->is_text_saved || !text) && s->is_overlay_saved));
	pthread_mutex_unlock(&l->lock);
	if (ret && text)
		json_object_set_new(ret, "text", print_list_text(text));
	if (ret && held) {
		json_object_set_new(ret, "held", print_list_text(held));
		json_object_set_new(ret, "held_why", print_text(why));
	}
	list_text_unref(text);
	list_text_unref(held);
	return ret;
}

static int put_json(struct buf *out, json_t *j)
{
	char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	int r = text ? buf_add(out, text, strlen(text)) : -ENOMEM;

	free(text);
	json_decref(j);
	return r;
}

int lists_print_json(struct lists *l, int list, struct buf *out)
{
	json_t *all, *one;
	struct index_stat st;
	unsigned count;
	uint64_t generation;

	if (list >= 0) {
		one = print_list(l, (unsigned)list);
		return one ? put_json(out, one) : -ENOENT;
	}
	pthread_mutex_lock(&l->lock);
	count = l->config_count;
	st = l->stat;
	generation = l->generation;
	pthread_mutex_unlock(&l->lock);
	all = json_array();
	for (unsigned i = 0; i < count; i++) {
		one = print_list(l, i);
		if (one)
			json_array_append_new(all, one);
	}
	return put_json(
	        out, json_pack("{s:o, s:I, s:{s:I, s:I, s:f, s:f}}", "lists", all, "generation", (json_int_t)generation, "index",
	                     "names", (json_int_t)st.names, "bytes", (json_int_t)st.memory_bytes, "load", st.load, "bytes_per_name",
	                     st.names ? (double)st.memory_bytes / (double)st.names : 0.0));
}

/* Entries that went from some lines but stand in others of the new text did not go; those that came but were there did not come.
 * */
static int only_real(struct lists *l, const struct list_slot *s, struct list_change *c)
{
	struct entry_set found;
	struct entry_key k;
	struct name n;
	uint32_t count;
	int r;

	entry_set_init(&found);
	r = list_text_count(c->text, &c->gone, &found);
	for (size_t at = 0; r == 0 && entry_set_next(&found, &at, &k, &count);)
		entry_set_clear(&c->gone, &k);
	for (size_t at = 0; r == 0 && entry_set_next(&c->come, &at, &k, &count);) {
		if (!entry_key_is_name(&k)) {
			if (entry_set_count(&s->text_beside, &k))
				entry_set_clear(&c->come, &k);
			continue;
		}
		entry_key_name(&n, &k);
		if (index_kinds(l->index, (unsigned)(s - l->slots), &n) & k.kind && !entry_set_count(&s->added, &k))
			entry_set_clear(&c->come, &k);
	}
	entry_set_free(&found);
	return r;
}

static json_t *print_diff(const struct list_slot *s, const struct list_change *c)
{
	char why[LIST_WHY_MAX] = "";
	bool is_held = list_change_is_held(c, s, why);
	json_t *ret = json_pack("{s:o, s:I, s:I, s:o, s:o, s:b, s:o}", "list", print_text(s->name), "added",
	        (json_int_t)c->come.distinct, "removed", (json_int_t)c->gone.distinct, "added_entries",
	        print_set(&c->come, DIFF_SHOWN), "removed_entries", print_set(&c->gone, DIFF_SHOWN), "would_be_held", is_held,
	        "text", print_list_text(c->text));

	if (ret && is_held)
		json_object_set_new(ret, "why", print_text(why));
	return ret;
}

int lists_diff_json(struct lists *l, unsigned list, const struct list_file *file, struct buf *out)
{
	struct list_slot *s = lists_slot(l, list);
	struct list_text *t = NULL;
	struct list_change c;
	const char *path;
	int r;

	if (!s) {
		close(file->fd);
		return -ENOENT;
	}
	r = list_text_read(&t, file, 1, &(struct text_source){s->seed, s->format, s->match, l->state}, &path);
	if (r < 0)
		return r;
	list_change_init(&c);
	r = list_change_prepare(&c, s, t, true);
	if (r == 0)
		r = only_real(l, s, &c);
	if (r == 0)
		r = put_json(out, print_diff(s, &c));
	list_change_free(&c);
	list_text_unref(t);
	return r;
}
