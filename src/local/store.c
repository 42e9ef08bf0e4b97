/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What goes into the table while it is built, on the compiler thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/err.h"
#include "local/local_private.h"

enum { GROW_FIRST = 64, INTERNED_FIRST = 256, POOL_ALIGN = 4 };
#define FRESH (NO_RECORD - 1) /* of no record: there are not so many */

/* Room for one more of `size` bytes. */
static int grow(void *array, size_t *cap, size_t count, size_t size)
{
	size_t wider = *cap ? *cap * 2 : GROW_FIRST;
	void *grown, *old;

	if (count < *cap)
		return 0;
	memcpy(&old, array, sizeof old);
	grown = realloc(old, wider * size);
	if (!grown)
		return -ENOMEM;
	memcpy(array, &grown, sizeof grown);
	*cap = wider;
	return 0;
}

/* --- scopes and names --- */

int store_scope(struct build *b, const struct name *n, struct scope **ret)
{
	struct local *l = b->l;
	uint32_t *at;
	int r = grow(&l->scope, &l->scope_cap, l->scope_count, sizeof *l->scope);

	if (r == 0)
		r = name_map_put(l->scopes, n, l->scope_count, &at);
	if (r < 0)
		return r;
	if (*at == l->scope_count)
		l->scope[l->scope_count++] = (struct scope){.wildcard = NO_RECORD, .subtree = NO_RECORD};
	*ret = &l->scope[*at];
	return 0;
}

uint32_t local_names_max = LOCAL_NAMES_MAX;

/* 1: it was not there. */
static int put_name(struct build *b, const struct name *n, uint32_t **ret)
{
	int r = name_map_put(b->l->names, n, FRESH, ret);

	if (r < 0 || **ret != FRESH)
		return r;
	**ret = NO_RECORD;
	b->name_count++;
	return 1;
}

/* With those above it, which may have to exist, too: a name that was refused must not be there without records. */
static bool has_room_for(const struct build *b, const struct name *n)
{
	uint64_t hashes[NAME_LABELS_MAX + 1];
	uint32_t first;

	if (b->name_count + n->labels <= local_names_max)
		return true;
	name_hash(n, b->l->seed, hashes);
	return name_map_find_longest(b->l->names, n, hashes, 0, &first) == 0;
}

/* The label at which the highest scope begins that must know what exists below it; 0: there is none. */
static unsigned highest_scope(const struct local *l, const struct name *n, const uint64_t *hashes)
{
	unsigned highest = 0;
	uint32_t v;

	for (int i = name_map_find_longest(l->scopes, n, hashes, 0, &v); i >= 0;
	        i = name_map_find_longest(l->scopes, n, hashes, (unsigned)i + 1, &v))
		if (l->scope[v].is_domain || l->scope[v].has_wildcard || l->scope[v].special)
			highest = (unsigned)i;
	return highest;
}

int store_name(struct build *b, const struct name *n, uint32_t **ret_first)
{
	struct local *l = b->l;
	uint64_t hashes[NAME_LABELS_MAX + 1];
	unsigned highest;
	struct name above;
	int r = has_room_for(b, n) ? put_name(b, n, ret_first) : NW_EFULL;

	if (r <= 0)
		return r;
	name_hash(n, l->seed, hashes);
	highest = highest_scope(l, n, hashes);
	/* Once one is there, so are those above it. */
	for (unsigned i = 1; i <= highest && r > 0; i++) {
		name_from_wire(&above, n->wire + n->offset[i], n->len - n->offset[i]);
		r = put_name(b, &above, ret_first);
	}
	if (r < 0 || !highest)
		return r;
	return name_map_put(l->names, n, NO_RECORD, ret_first);
}

/* --- RDATA --- */

static uint64_t pooled_hash(const struct build *b, uint32_t ttl_s, const uint8_t *bytes, size_t len)
{
	return hash_bytes(bytes, len, b->l->seed + ttl_s);
}

static int widen_interned(struct build *b)
{
	size_t wider = b->interned_size ? b->interned_size * 2 : INTERNED_FIRST;
	uint32_t *v;

	if (b->interned_count < b->interned_size / 2)
		return 0;
	v = calloc(wider, sizeof *v);
	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < b->interned_size; i++) {
		const struct pooled *p;
		size_t to;

		if (!b->interned[i])
			continue;
		p = pooled_at(b->l, b->interned[i] - 1);
		to = pooled_hash(b, p->ttl_s, p->bytes, p->len) & (wider - 1);
		while (v[to])
			to = (to + 1) & (wider - 1);
		v[to] = b->interned[i];
	}
	free(b->interned);
	b->interned = v;
	b->interned_size = wider;
	return 0;
}

static int append(struct local *l, uint32_t ttl_s, const uint8_t *bytes, size_t len, uint32_t *ret)
{
	size_t need = (sizeof(struct pooled) + len + POOL_ALIGN - 1) / POOL_ALIGN * POOL_ALIGN,
	       cap = l->pool_cap ? l->pool_cap : 4096;
	struct pooled *p;
	uint8_t *grown;

	while (l->pool_used + need > cap)
		cap *= 2;
	if (cap > UINT32_MAX)
		return NW_EFULL;
	if (cap != l->pool_cap) {
		grown = realloc(l->pool, cap);
		if (!grown)
			return -ENOMEM;
		l->pool = grown;
		l->pool_cap = cap;
	}
	*ret = (uint32_t)l->pool_used;
	p = pooled_at(l, *ret);
	*p = (struct pooled){.ttl_s = ttl_s, .len = (uint16_t)len};
	if (len)
		memcpy(p->bytes, bytes, len);
	l->pool_used += need;
	return 0;
}

static int intern(struct build *b, uint32_t ttl_s, const uint8_t *bytes, size_t len, uint32_t *ret)
{
	size_t i;
	int r = widen_interned(b);

	if (r < 0)
		return r;
	for (i = pooled_hash(b, ttl_s, bytes, len) & (b->interned_size - 1); b->interned[i];
	        i = (i + 1) & (b->interned_size - 1)) {
		const struct pooled *p = pooled_at(b->l, b->interned[i] - 1);

		if (p->ttl_s == ttl_s && p->len == len && (!len || !memcmp(p->bytes, bytes, len))) {
			*ret = b->interned[i] - 1;
			return 0;
		}
	}
	r = append(b->l, ttl_s, bytes, len, ret);
	if (r < 0)
		return r;
	b->interned[i] = *ret + 1;
	b->interned_count++;
	return 0;
}

/* --- records --- */

static bool is_same(const struct local *l, const struct record *a, const struct new_record *n)
{
	const struct pooled *p = pooled_at(l, a->rdata);

	return a->type == n->type && p->len == n->rdlen && (!n->rdlen || !memcmp(p->bytes, n->rdata, n->rdlen));
}

int store_record(struct build *b, uint32_t *first, const struct new_record *n, uint32_t *ret_index)
{
	struct local *l = b->l;
	uint32_t last = NO_RECORD, rdata;
	unsigned count = 0;
	int r;

	for (uint32_t i = *first; i != NO_RECORD; last = i, i = l->records[i].next) {
		if (is_same(l, &l->records[i], n))
			return 0;
		if ((l->records[i].type == RR_CNAME) || n->type == RR_CNAME)
			return NW_EREFUSED;
		count++;
	}
	if (count >= LOCAL_NAME_RECORDS_MAX)
		return NW_ETOOLONG;
	if (l->record_count >= local_names_max)
		return NW_EFULL;
	r = grow(&l->records, &l->record_cap, l->record_count, sizeof *l->records);
	if (r == 0)
		r = intern(b, n->ttl_s, n->rdata, n->rdlen, &rdata);
	if (r < 0)
		return r;
	*ret_index = l->record_count++;
	l->records[*ret_index] =
	        (struct record){.next = NO_RECORD, .rdata = rdata, .line = n->line, .type = n->type, .source = n->source};
	if (last == NO_RECORD) {
		*first = *ret_index;
		l->stat.names++;
	} else {
		l->records[last].next = *ret_index;
	}
	return 1;
}

int store_source(struct build *b, const char *path)
{
	struct local *l = b->l;
	char **grown, *copy;

	/* Files come one after another, so the last one is nearly always it. */
	for (unsigned i = l->source_count; i-- > 0;)
		if (!strcmp(l->sources[i], path))
			return (int)i;
	if (l->source_count > UINT16_MAX)
		return NW_EFULL;
	grown = realloc(l->sources, (l->source_count + 1) * sizeof *grown);
	if (!grown)
		return -ENOMEM;
	l->sources = grown;
	copy = strdup(path);
	if (!copy)
		return -ENOMEM;
	l->sources[l->source_count] = copy;
	return (int)l->source_count++;
}

/* --- names of addresses --- */

int store_reverse(struct build *b, uint32_t record, const struct name *n)
{
	static const uint8_t unspecified[16];
	struct local *l = b->l;
	const struct record *rec = &l->records[record];
	struct pooled *p = pooled_at(l, rec->rdata);
	struct reverse_table *t = &l->reverse[rec->type == RR_AAAA];
	struct reverse_entry e = {.record = record};
	size_t cap = t->cap;
	int r;

	if (!(rec->type == RR_A && p->len == 4) && !(rec->type == RR_AAAA && p->len == 16))
		return 0;
	/* Lists of blocked names lead thousands of them to 0.0.0.0. */
	if (p->has_reverse || !memcmp(p->bytes, unspecified, p->len))
		return 0;
	memcpy(e.b, p->bytes, p->len);
	p->has_reverse = true;
	r = grow(&t->v, &cap, t->count, sizeof *t->v);
	if (r == 0) {
		t->cap = (uint32_t)cap;
		r = intern(b, p->ttl_s, n->wire, n->len, &e.rdata);
	}
	if (r < 0)
		return r;
	t->v[t->count++] = e;
	return 0;
}

static int by_address(const void *a, const void *b)
{
	const struct reverse_entry *x = a, *y = b;
	int r = memcmp(x->b, y->b, sizeof x->b);

	return r ? r : x->record < y->record ? -1 : x->record > y->record;
}

/* The same address with another TTL came in twice: the first stays. */
static void sort_reverse(struct reverse_table *t)
{
	uint32_t kept = 0;

	if (t->count)
		qsort(t->v, t->count, sizeof *t->v, by_address);
	for (uint32_t i = 0; i < t->count; i++)
		if (!kept || memcmp(t->v[kept - 1].b, t->v[i].b, sizeof t->v[i].b))
			t->v[kept++] = t->v[i];
	t->count = kept;
}

static void fit(void *array, size_t *cap, size_t count, size_t size)
{
	void *old, *fitted;

	if (!count || count == *cap)
		return;
	memcpy(&old, array, sizeof old);
	fitted = realloc(old, count * size);
	if (!fitted)
		return;
	memcpy(array, &fitted, sizeof fitted);
	*cap = count;
}

void store_finish(struct build *b)
{
	struct local *l = b->l;

	for (unsigned i = 0; i < 2; i++) {
		size_t cap = l->reverse[i].cap;

		sort_reverse(&l->reverse[i]);
		fit(&l->reverse[i].v, &cap, l->reverse[i].count, sizeof *l->reverse[i].v);
		l->reverse[i].cap = (uint32_t)cap;
	}
	fit(&l->scope, &l->scope_cap, l->scope_count, sizeof *l->scope);
	fit(&l->records, &l->record_cap, l->record_count, sizeof *l->records);
	fit(&l->pool, &l->pool_cap, l->pool_used, 1);
	l->stat.records = l->record_count;
}
