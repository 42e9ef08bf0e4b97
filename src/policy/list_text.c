/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Texts of lists: comparing, visiting lines. list_text.h says what a text is, list_text_read.c makes one of files. */
#include "policy/list_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/hash.h"

enum { VISIT_BYTES = 64 << 10 };

struct list_text *list_text_new(void)
{
	struct list_text *t = calloc(1, sizeof(*t));

	if (t) {
		t->refs = 1;
		t->fd = -1;
	}
	return t;
}

struct list_text *list_text_ref(struct list_text *t)
{
	if (t)
		atomic_fetch_add(&t->refs, 1);
	return t;
}

void list_text_unref(struct list_text *t)
{
	if (!t || atomic_fetch_sub(&t->refs, 1) > 1)
		return;
	for (unsigned i = 0; i < t->file_count; i++)
		free(t->files[i].path);
	free(t->files);
	free(t->chunks);
	if (t->fd >= 0)
		close(t->fd);
	free(t);
}

uint64_t list_chunk_hash(const struct list_text *t, const struct list_format *format, const char *bytes, size_t len)
{
	return hash_bytes(bytes, len, t->seed + (uint64_t)(format->id - FORMAT_DOMAINS) * 0x9e3779b97f4a7c15ull);
}

void list_text_total(struct list_text *t)
{
	t->lines = t->understood = t->bad = t->partly = t->entries = 0;
	for (size_t i = 0; i < t->chunk_count; i++) {
		t->lines += t->chunks[i].lines;
		t->understood += t->chunks[i].understood;
		t->bad += t->chunks[i].bad;
		t->partly += t->chunks[i].partly;
		t->entries += t->chunks[i].entries;
	}
	t->is_counted = true;
}

/* Chunks of the old text by hash; those with equal hashes hang on one chain. head and next hold chunk number + 1. */
struct chunk_map {
	const struct list_chunk *chunks;
	uint32_t *head, *next;
	size_t mask;
};

static uint32_t *chunk_slot(const struct chunk_map *m, uint64_t hash)
{
	size_t at = hash & m->mask;

	while (m->head[at] && m->chunks[(m->head[at] & INT32_MAX) - 1].hash != hash)
		at = (at + 1) & m->mask;
	return &m->head[at];
}

/* A slot whose chain is used up keeps its last chunk, with this bit, so that searches go on behind it. */
#define CHUNK_USED 0x80000000u

static void map_fill(struct chunk_map *m, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t *slot = chunk_slot(m, m->chunks[i].hash);

		m->next[i] = *slot;
		*slot = (uint32_t)i + 1;
	}
}

static const struct list_chunk *map_claim(struct chunk_map *m, const struct list_chunk *c)
{
	uint32_t *slot = chunk_slot(m, c->hash), number = *slot;

	if (!number || number & CHUNK_USED || m->chunks[number - 1].len != c->len)
		return NULL;
	*slot = m->next[number - 1] ? m->next[number - 1] : number | CHUNK_USED;
	return &m->chunks[number - 1];
}

int list_text_compare(const struct list_text *old, struct list_text *new, uint8_t *old_changed, uint8_t *new_changed)
{
	struct chunk_map m = {.chunks = old->chunks, .mask = 63};
	const struct list_chunk *same;
	int r = -ENOMEM;

	while (m.mask < old->chunk_count * 2)
		m.mask = m.mask * 2 + 1;
	m.head = calloc(m.mask + 1, sizeof(*m.head));
	m.next = calloc(old->chunk_count + 1, sizeof(*m.next));
	if (!m.head || !m.next)
		goto end;
	map_fill(&m, old->chunk_count);
	memset(old_changed, 1, old->chunk_count);
	for (size_t i = 0; i < new->chunk_count; i++) {
		same = old->seed == new->seed ? map_claim(&m, &new->chunks[i]) : NULL;
		new_changed[i] = !same;
		if (!same)
			continue;
		old_changed[same - old->chunks] = 0;
		if (!new->is_counted)
			new->chunks[i] = *same;
	}
	r = 0;
end:
	free(m.head);
	free(m.next);
	return r;
}

/* Where a visit stands: in file `file`, `line` lines into it. */
struct visitor {
	struct list_text *t;
	const struct text_visit *v;
	unsigned file;
	uint64_t line;
	char *buffer;
};

void list_entry_match(struct line_entry *e, enum list_match match)
{
	const unsigned exact = KIND_EXACT | KIND_EXEMPT_EXACT, suffix = KIND_SUFFIX | KIND_EXEMPT;

	if (e->is_marked)
		return;
	if (match == MATCH_EXACT && e->kind & suffix)
		e->kind <<= 1;
	else if (match == MATCH_SUFFIX && e->kind & exact)
		e->kind >>= 1;
}

static void check_entry(struct line_entry *e, enum list_match match)
{
	if (e->what == LINE_NAME)
		list_entry_match(e, match);
	else if (e->what == LINE_RULE && e->rule_len > EXPR_TEXT_MAX)
		list_parse_bad(e, "the rule is too long");
}

/* All entries of one line. It is bad when none of it was understood. */
static int visit_line(struct visitor *w, struct list_chunk *counted, const char *line, size_t len)
{
	struct text_place place = {.file = w->file, .line = w->line + counted->lines, .text = line, .len = len};
	unsigned good = 0, bad = 0;
	struct line_entry e;
	size_t at = 0;
	int r = 0;

	do {
		w->t->files[w->file].format->parse(&e, line, len, &at);
		if (e.what == LINE_EMPTY)
			continue;
		check_entry(&e, w->t->match);
		bad += e.what == LINE_BAD;
		good += e.what != LINE_BAD;
		if (w->v->fn)
			r = w->v->fn(w->v->ctx, &e, &place);
	} while (r == 0 && at < len);
	counted->entries = (uint16_t)(counted->entries + good);
	counted->understood += good > 0;
	counted->bad += bad && !good;
	counted->partly += bad && good;
	return r;
}

static int visit_chunk(struct visitor *w, struct list_chunk *c, const char *bytes)
{
	struct list_chunk counted = {.hash = c->hash, .len = c->len};
	int r;

	for (const char *p = bytes, *end = bytes + c->len, *nl; p < end; p = nl + 1) {
		nl = memchr(p, '\n', (size_t)(end - p));
		counted.lines++;
		r = visit_line(w, &counted, p, (size_t)(nl - p));
		if (r != 0)
			return r;
	}
	if (w->v->count)
		*c = counted;
	return 0;
}

static bool is_wanted(const struct visitor *w, size_t i)
{
	return i >= w->v->first && (!w->v->wanted || w->v->wanted[i]);
}

/* Bytes of the chunks from i on that lie together, are wanted, and fit in the buffer; at least one chunk. */
static uint64_t run_length(const struct visitor *w, size_t i)
{
	uint64_t len = w->t->chunks[i++].len;

	while (i < w->t->chunk_count && is_wanted(w, i) && len + w->t->chunks[i].len <= VISIT_BYTES)
		len += w->t->chunks[i++].len;
	return len;
}

static int read_run(struct visitor *w, uint64_t at, uint64_t len)
{
	uint64_t done = 0;
	ssize_t n;
	char *grown;

	grown = realloc(w->buffer, len > VISIT_BYTES ? len : VISIT_BYTES);
	if (!grown)
		return -ENOMEM;
	w->buffer = grown;
	while (done < len) {
		n = pread(w->t->fd, w->buffer + done, len - done, (off_t)(w->t->bytes_at + at + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		done += (uint64_t)n;
	}
	return 0;
}

/* The bytes of chunk i, which begins at `at`. [run, run_end) is what the buffer holds. A border of a chunk is a newline, else the
 * file is damaged. */
static int chunk_bytes(struct visitor *w, size_t i, uint64_t at, uint64_t *run, uint64_t *run_end, const char **ret)
{
	const struct list_chunk *c = &w->t->chunks[i];
	int r;

	if (at < *run || at + c->len > *run_end) {
		*run = at;
		*run_end = at + run_length(w, i);
		r = read_run(w, at, *run_end - at);
		if (r < 0)
			return r;
	}
	*ret = w->buffer + (at - *run);
	return list_chunk_hash(w->t, w->t->files[w->file].format, *ret, c->len) == c->hash && c->len && (*ret)[c->len - 1] == '\n' ? 0 : -EIO;
}

int list_text_visit(struct list_text *t, const struct text_visit *v)
{
	struct visitor w = {.t = t, .v = v};
	size_t end = v->end ? v->end : t->chunk_count;
	uint64_t at = 0, run = 0, run_end = 0;
	const char *bytes;
	int r = 0;

	for (size_t i = 0; r == 0 && i < end; at += t->chunks[i++].len) {
		while (w.file + 1 < t->file_count && at >= t->files[w.file].at + t->files[w.file].len) {
			w.file++;
			w.line = 0;
		}
		if (is_wanted(&w, i)) {
			r = chunk_bytes(&w, i, at, &run, &run_end, &bytes);
			if (r == 0)
				r = visit_chunk(&w, &t->chunks[i], bytes);
		}
		w.line += t->chunks[i].lines;
	}
	free(w.buffer);
	return r;
}

struct counting {
	const struct entry_set *wanted;
	struct entry_set *found;
};

static int count_line(void *ctx, const struct line_entry *e, const struct text_place *at)
{
	struct counting *c = ctx;
	struct entry_key key;

	if (e->what == LINE_BAD)
		return 0;
	entry_key_from_line(&key, e);
	return entry_set_count(c->wanted, &key) ? entry_set_add(c->found, &key, 1) : 0;
}

int list_text_count(struct list_text *t, const struct entry_set *wanted, struct entry_set *found)
{
	struct counting c = {.wanted = wanted, .found = found};
	struct text_visit v = {.ctx = &c, .fn = count_line};

	return t && wanted->distinct ? list_text_visit(t, &v) : 0;
}

struct bad_lines {
	struct list_bad *ret;
	unsigned count, max;
};

static int note_bad(void *ctx, const struct line_entry *e, const struct text_place *at)
{
	struct bad_lines *b = ctx;
	struct list_bad *bad = &b->ret[b->count];
	size_t len = at->len < sizeof(bad->text) - 1 ? at->len : sizeof(bad->text) - 1;

	if (e->what != LINE_BAD)
		return 0;
	*bad = (struct list_bad){.file = at->file, .line = at->line, .why = e->why};
	while (len > 0 && at->len == len && at->text[len - 1] == '\r')
		len--;
	for (size_t i = 0; i < len; i++)
		bad->text[i] = at->text[i] >= ' ' && at->text[i] <= '~' ? at->text[i] : '?';
	return ++b->count == b->max;
}

int list_text_bad(struct list_text *t, struct list_bad *ret, unsigned max)
{
	struct bad_lines b = {.ret = ret, .max = max};
	struct text_visit v = {.ctx = &b, .fn = note_bad};
	uint8_t *wanted;
	int r;

	if (!t || !(t->bad + t->partly) || !max)
		return 0;
	wanted = calloc(t->chunk_count, 1);
	if (!wanted)
		return -ENOMEM;
	for (size_t i = 0; i < t->chunk_count; i++)
		wanted[i] = t->chunks[i].bad || t->chunks[i].partly;
	v.wanted = wanted;
	r = list_text_visit(t, &v);
	free(wanted);
	return r < 0 ? r : (int)b.count;
}
