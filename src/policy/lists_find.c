/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From an entry back to the line of the accepted text that holds it. Any thread: what the list says is taken under its lock, the text is immutable and
 * held by reference, and searching it keeps nobody waiting but who asked. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "policy/lists_private.h"

enum { SLICE_BYTES = 1 << 20 };

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

struct list_place {
	struct list_text *t; /* NULL: no text holds it */
	struct name name;
	struct addr addr;
	char *rule;
	struct entry_set masked;
	struct search s, over /* of the overlay */;
};

static struct list_place *place_new(void)
{
	struct list_place *p = calloc(1, sizeof(*p));

	if (p)
		entry_set_init(&p->masked);
	return p;
}

void list_place_free(struct list_place *p)
{
	if (!p)
		return;
	list_text_unref(p->t);
	entry_set_free(&p->masked);
	free(p->rule);
	free(p);
}

static const struct list_slot *used_slot(const struct lists *l, unsigned slot)
{
	return slot < CONFIG_LISTS_MAX && l->slots[slot].is_used ? &l->slots[slot] : NULL;
}

struct list_place *list_place_of_name(struct lists *l, unsigned slot, const struct name *entry, unsigned kind)
{
	struct list_place *p = place_new();
	struct entry_key k = {.len = entry->len};
	const struct list_slot *s;

	if (!p)
		return NULL;
	p->name = *entry;
	p->s.name = &p->name;
	memcpy(k.bytes, entry->wire, entry->len);
	pthread_mutex_lock(&l->lock);
	s = used_slot(l, slot);
	p->t = s ? list_text_ref(s->text) : NULL;
	for (k.kind = KIND_SUFFIX; k.kind <= KIND_ALLOW; k.kind = (uint8_t)(k.kind << 1))
		if (s && kind & ~(unsigned)KIND_MULTI & k.kind && !entry_set_count(&s->masked, &k))
			p->s.kinds |= k.kind;
	pthread_mutex_unlock(&l->lock);
	return p;
}

struct list_place *list_place_of_rule(struct lists *l, unsigned slot, const char *rule)
{
	struct list_place *p = place_new();
	struct entry_key k = {.kind = ENTRY_RULE, .len = (uint16_t)strlen(rule)};
	const struct list_slot *s;

	if (!p || strlen(rule) > sizeof(k.bytes))
		return p;
	p->rule = strdup(rule);
	if (!p->rule) {
		list_place_free(p);
		return NULL;
	}
	p->s.rule = p->rule;
	p->s.rule_len = k.len;
	memcpy(k.bytes, rule, k.len);
	pthread_mutex_lock(&l->lock);
	s = used_slot(l, slot);
	if (s && !entry_set_count(&s->masked, &k))
		p->t = list_text_ref(s->text);
	pthread_mutex_unlock(&l->lock);
	return p;
}

/* The better of the overlay. */
static void search_overlay(struct list_place *p, const struct list_slot *s)
{
	struct line_entry e = {.what = LINE_PREFIX};
	struct entry_key k;
	uint32_t count;

	for (size_t at = 0; entry_set_next(&s->added, &at, &k, &count);) {
		if (!entry_key_is_prefix(&k))
			continue;
		entry_key_prefix(&e.prefix, &k);
		match_prefix(&p->over, &e, &(struct text_place){0});
	}
}

struct list_place *list_place_of_address(struct lists *l, unsigned slot, const struct addr *a)
{
	struct list_place *p = place_new();
	const struct list_slot *s;
	int r = 0;

	if (!p)
		return NULL;
	p->addr = *a;
	p->s = p->over = (struct search){.addr = &p->addr, .prefix_len = -1};
	pthread_mutex_lock(&l->lock);
	s = used_slot(l, slot);
	if (s) {
		r = entry_set_copy(&p->masked, &s->masked);
		p->t = list_text_ref(s->text);
		search_overlay(p, s);
	}
	pthread_mutex_unlock(&l->lock);
	p->s.masked = &p->masked;
	if (r < 0) {
		entry_set_init(&p->masked);
		list_place_free(p);
		return NULL;
	}
	return p;
}

/* Slice by slice, until it is found or the bytes are used up. */
static int search_text(struct list_place *p, uint64_t *bytes_left)
{
	struct text_visit v = {.ctx = &p->s, .fn = p->s.addr ? match_prefix : p->s.rule ? match_rule : match_name};
	uint64_t bytes;
	int r = 0;

	while (r == 0 && v.end < p->t->chunk_count) {
		v.first = v.end;
		for (bytes = 0; v.end < p->t->chunk_count && bytes < SLICE_BYTES;)
			bytes += p->t->chunks[v.end++].len;
		if (bytes > *bytes_left)
			return NW_EFULL;
		*bytes_left -= bytes;
		r = list_text_visit(p->t, &v);
	}
	return r < 0 ? r : 0;
}

int list_place_find(struct list_place *p, uint64_t *bytes_left, struct buf *ret_file, unsigned *ret_line)
{
	const struct search *s = &p->s, *over = &p->over;
	int r = p->t ? search_text(p, bytes_left) : -ENOENT;

	*ret_line = 0;
	if (r < 0)
		return r;
	if (over->is_found &&
	        (over->prefix_len > s->prefix_len || (over->prefix_len == s->prefix_len && over->is_exempt && !s->is_exempt)))
		return -ENOENT;
	if (!s->is_found)
		return -ENOENT;
	*ret_line = (unsigned)s->found.line;
	return buf_printf(ret_file, "%s", p->t->files[s->found.file].path);
}
