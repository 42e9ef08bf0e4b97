/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From an entry back to the line of the accepted text that holds it. Any thread: the text is immutable and held by reference. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "policy/lists_private.h"

struct search {
	const struct name *name;
	unsigned kinds;
	const struct addr *addr;
	const struct entry_set *masked;
	const char *rule;
	size_t rule_len;
	struct text_place found;
	bool is_found, is_exempt;
	int prefix_len;
};

static int match_name(void *ctx, const struct line_entry *e, const struct text_place *at)
{
	struct search *s = ctx;

	if (e->what != LINE_NAME || !(e->kind & s->kinds) || !name_equal(&e->name, s->name))
		return 0;
	s->found = *at;
	s->is_found = true;
	return 1;
}

static int match_rule(void *ctx, const struct line_entry *e, const struct text_place *at)
{
	struct search *s = ctx;

	if (e->what != LINE_RULE || e->rule_len != s->rule_len || memcmp(e->rule, s->rule, s->rule_len) != 0)
		return 0;
	s->found = *at;
	s->is_found = true;
	return 1;
}

static bool is_better(const struct search *s, const struct prefix_entry *p)
{
	if (!prefix_contains(&p->prefix, s->addr) || p->prefix.len < s->prefix_len)
		return false;
	return p->prefix.len > s->prefix_len || (p->is_exempt && !s->is_exempt);
}

static int match_prefix(void *ctx, const struct line_entry *e, const struct text_place *at)
{
	struct search *s = ctx;
	struct entry_key k;

	if (e->what != LINE_PREFIX || !is_better(s, &e->prefix))
		return 0;
	entry_key_from_line(&k, e);
	if (s->masked && entry_set_count(s->masked, &k))
		return 0;
	s->found = *at;
	s->is_found = true;
	s->is_exempt = e->prefix.is_exempt;
	s->prefix_len = e->prefix.prefix.len;
	return 0;
}

static int answer(const struct list_text *t, const struct search *s, struct buf *ret_file, unsigned *ret_line)
{
	*ret_line = 0;
	if (!s->is_found)
		return -ENOENT;
	*ret_line = (unsigned)s->found.line;
	return buf_printf(ret_file, "%s", t->files[s->found.file].path);
}

int lists_find_line(
        struct lists *l, unsigned list, const struct name *entry, unsigned kind, struct buf *ret_file, unsigned *ret_line)
{
	struct search s = {.name = entry};
	struct text_visit v = {.ctx = &s, .fn = match_name};
	struct list_slot *slot;
	struct list_text *t;
	struct entry_key k = {.len = entry->len};
	int r;

	*ret_line = 0;
	memcpy(k.bytes, entry->wire, entry->len);
	pthread_mutex_lock(&l->lock);
	slot = lists_slot(l, list);
	t = slot ? list_text_ref(slot->text) : NULL;
	for (k.kind = KIND_SUFFIX; k.kind <= KIND_ALLOW; k.kind = (uint8_t)(k.kind << 1))
		if (slot && kind & ~(unsigned)KIND_MULTI & k.kind && !entry_set_count(&slot->masked, &k))
			s.kinds |= k.kind;
	pthread_mutex_unlock(&l->lock);
	if (!t)
		return -ENOENT;
	r = list_text_visit(t, &v);
	if (r >= 0)
		r = answer(t, &s, ret_file, ret_line);
	list_text_unref(t);
	return r;
}

int lists_find_rule_line(struct lists *l, unsigned list, const char *rule, struct buf *ret_file, unsigned *ret_line)
{
	struct search s = {.rule = rule, .rule_len = strlen(rule)};
	struct text_visit v = {.ctx = &s, .fn = match_rule};
	struct entry_key k = {.kind = ENTRY_RULE, .len = (uint16_t)s.rule_len};
	struct list_text *t = NULL;
	struct list_slot *slot;
	int r;

	*ret_line = 0;
	if (s.rule_len > sizeof(k.bytes))
		return -ENOENT;
	memcpy(k.bytes, rule, s.rule_len);
	pthread_mutex_lock(&l->lock);
	slot = lists_slot(l, list);
	if (slot && !entry_set_count(&slot->masked, &k))
		t = list_text_ref(slot->text);
	pthread_mutex_unlock(&l->lock);
	if (!t)
		return -ENOENT;
	r = list_text_visit(t, &v);
	if (r >= 0)
		r = answer(t, &s, ret_file, ret_line);
	list_text_unref(t);
	return r;
}

int lists_find_prefix_line(struct lists *l, unsigned list, const struct addr *a, struct buf *ret_file, unsigned *ret_line)
{
	struct search s = {.addr = a, .prefix_len = -1}, over = {.addr = a, .prefix_len = -1};
	struct text_visit v = {.ctx = &s, .fn = match_prefix};
	struct entry_set masked;
	struct line_entry e = {.what = LINE_PREFIX};
	struct list_slot *slot;
	struct list_text *t = NULL;
	struct entry_key k;
	uint32_t count;
	int r = -ENOENT;

	*ret_line = 0;
	pthread_mutex_lock(&l->lock);
	slot = lists_slot(l, list);
	if (slot)
		r = entry_set_copy(&masked, &slot->masked);
	if (r == 0) {
		t = list_text_ref(slot->text);
		for (size_t at = 0; entry_set_next(&slot->added, &at, &k, &count);) {
			if (!entry_key_is_prefix(&k))
				continue;
			entry_key_prefix(&e.prefix, &k);
			match_prefix(&over, &e, &(struct text_place){0});
		}
	}
	pthread_mutex_unlock(&l->lock);
	if (r < 0)
		return r;
	s.masked = &masked;
	r = t ? list_text_visit(t, &v) : -ENOENT;
	if (r == 0 && over.is_found &&
	        (over.prefix_len > s.prefix_len || (over.prefix_len == s.prefix_len && over.is_exempt && !s.is_exempt)))
		r = -ENOENT;
	if (r == 0)
		r = answer(t, &s, ret_file, ret_line);
	entry_set_free(&masked);
	list_text_unref(t);
	return r;
}
