/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Texts of lists: reading, cutting into chunks, comparing, visiting lines. See list_text.h. */
#include "policy/list_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"

enum { READ_MIN = 64 << 10, VISIT_BYTES = 1 << 20 };

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
	free(t->bytes);
	if (t->fd >= 0)
		close(t->fd);
	free(t);
}

static uint64_t load64(const char *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* Whether a chunk may end behind the line [line, next): the line's first and last eight bytes decide. Both loads are inside the
 * file. */
static bool is_border(const char *line, const char *next)
{
	uint64_t h = load64(line) * 0x9e3779b97f4a7c15ull ^ load64(next - 8) * 0xc2b2ae3d27d4eb4full;

	h ^= h >> 32;
	return h * 0x165667b19e3779f9ull >> 59 == 0;
}

/* The end of the chunk that begins at `at`; `end` is the end of the file, behind a newline. */
static const char *chunk_end(const char *at, const char *end)
{
	const char *line, *next;

	if (end - at <= CHUNK_MIN)
		return end;
	line = (const char *)memchr(at + CHUNK_MIN, '\n', (size_t)(end - at - CHUNK_MIN)) + 1;
	for (; end - line >= 8 && line - at < CHUNK_MAX; line = next) {
		next = (const char *)memchr(line, '\n', (size_t)(end - line)) + 1;
		if (is_border(line, next))
			return next;
	}
	return line - at < CHUNK_MAX ? end : line;
}

static int add_chunk(struct list_text *t, const char *bytes, size_t len)
{
	struct list_chunk *grown;
	size_t cap = t->chunk_cap ? t->chunk_cap * 2 : 256;

	if (t->chunk_count == t->chunk_cap) {
		grown = realloc(t->chunks, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		t->chunks = grown;
		t->chunk_cap = cap;
	}
	t->chunks[t->chunk_count++] = (struct list_chunk){.hash = hash_bytes(bytes, len, t->seed), .len = (uint32_t)len};
	return 0;
}

static int cut(struct list_text *t)
{
	const char *at, *end, *next;
	int r = 0;

	for (unsigned i = 0; i < t->file_count; i++) {
		at = t->bytes + t->files[i].at;
		end = at + t->files[i].len;
		for (; r == 0 && at < end; at = next) {
			next = chunk_end(at, end);
			r = add_chunk(t, at, (size_t)(next - at));
		}
	}
	return r;
}

static void digest(struct list_text *t)
{
	uint64_t pair[2];

	t->digest = t->seed;
	for (unsigned i = 0; i < t->file_count; i++) {
		t->digest = hash_bytes(t->files[i].path, strlen(t->files[i].path), t->digest);
		t->digest = hash_bytes(&t->files[i].len, sizeof(t->files[i].len), t->digest);
	}
	for (size_t i = 0; i < t->chunk_count; i++) {
		pair[0] = t->chunks[i].hash;
		pair[1] = t->chunks[i].len;
		t->digest = hash_bytes(pair, sizeof(pair), t->digest);
	}
}

static int make_room(struct list_text *t, size_t *cap, size_t more)
{
	size_t want = *cap ? *cap : READ_MIN;
	char *grown;

	if (t->len + more <= *cap)
		return 0;
	while (want < t->len + more)
		want += want / 2;
	grown = realloc(t->bytes, want);
	if (!grown)
		return -ENOMEM;
	t->bytes = grown;
	*cap = want;
	return 0;
}

static int read_file(struct list_text *t, size_t *cap, const struct list_file *f)
{
	struct list_text_file *file = &t->files[t->file_count];
	struct stat st;
	ssize_t n;
	int r;

	*file = (struct list_text_file){.at = t->len, .path = strdup(f->path)};
	if (!file->path)
		return -ENOMEM;
	t->file_count++;
	if (f->fd < 0)
		return f->fd;
	if (fstat(f->fd, &st) < 0)
		return -errno;
	if (st.st_size > 0 && (uint64_t)st.st_size > LIST_FILE_MAX)
		return NW_ETOOLONG;
	/* Room for the whole file, the newline it may lack, and the read that finds the end. */
	r = make_room(t, cap, (size_t)st.st_size + 2);
	for (;;) {
		if (r == 0)
			r = make_room(t, cap, 2);
		if (r < 0)
			return r;
		n = read(f->fd, t->bytes + t->len, *cap - t->len - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		t->len += (size_t)n;
		if (t->len - file->at > LIST_FILE_MAX || t->len > LIST_TEXT_MAX)
			return NW_ETOOLONG;
	}
	if (t->len - file->at >= 3 && memcmp(t->bytes + file->at, "\xef\xbb\xbf", 3) == 0) {
		memmove(t->bytes + file->at, t->bytes + file->at + 3, t->len - file->at - 3);
		t->len -= 3;
	}
	if (t->len > file->at && t->bytes[t->len - 1] != '\n')
		t->bytes[t->len++] = '\n';
	file->len = t->len - file->at;
	return 0;
}

int list_text_read(struct list_text **ret, const struct list_file *files, unsigned count, uint64_t seed, const char **ret_path)
{
	struct list_text *t = list_text_new();
	size_t cap = 0;
	unsigned i = 0;
	int r = t ? 0 : -ENOMEM;

	*ret_path = NULL;
	if (r == 0 && count > LIST_FILES_MAX)
		r = NW_EFULL;
	if (r == 0) {
		t->seed = seed;
		t->taken_s = clock_wall_s();
		t->files = calloc(count ? count : 1, sizeof(*t->files));
		r = t->files ? 0 : -ENOMEM;
	}
	for (; r == 0 && i < count; i++) {
		r = read_file(t, &cap, &files[i]);
		if (r < 0)
			*ret_path = files[i].path;
	}
	for (i = 0; i < count; i++)
		close(files[i].fd);
	if (r == 0)
		r = cut(t);
	if (r < 0) {
		list_text_unref(t);
		return r;
	}
	digest(t);
	*ret = t;
	return 0;
}

void list_text_total(struct list_text *t)
{
	t->lines = t->understood = t->bad = 0;
	for (size_t i = 0; i < t->chunk_count; i++) {
		t->lines += t->chunks[i].lines;
		t->understood += t->chunks[i].understood;
		t->bad += t->chunks[i].bad;
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

static int visit_chunk(struct visitor *w, struct list_chunk *c, const char *bytes)
{
	struct list_chunk counted = {.hash = c->hash, .len = c->len};
	struct line_entry e;
	int r = 0;

	for (const char *p = bytes, *end = bytes + c->len, *nl; p < end; p = nl + 1) {
		nl = memchr(p, '\n', (size_t)(end - p));
		counted.lines++;
		w->v->format->parse(&e, p, (size_t)(nl - p), &(size_t){0});
		if (e.what == LINE_EMPTY)
			continue;
		counted.bad += e.what == LINE_BAD;
		counted.understood += e.what != LINE_BAD;
		if (w->v->fn) {
			struct text_place at = {
			        .file = w->file, .line = w->line + counted.lines, .text = p, .len = (size_t)(nl - p)};

			r = w->v->fn(w->v->ctx, &e, &at);
			if (r != 0)
				return r;
		}
	}
	if (w->v->count)
		*c = counted;
	return 0;
}

static bool is_wanted(const struct visitor *w, size_t i)
{
	return !w->v->wanted || w->v->wanted[i];
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

	if (w->t->bytes) {
		*ret = w->t->bytes + at;
		return 0;
	}
	if (at < *run || at + c->len > *run_end) {
		*run = at;
		*run_end = at + run_length(w, i);
		r = read_run(w, at, *run_end - at);
		if (r < 0)
			return r;
	}
	*ret = w->buffer + (at - *run);
	return hash_bytes(*ret, c->len, w->t->seed) == c->hash && c->len && (*ret)[c->len - 1] == '\n' ? 0 : -EIO;
}

int list_text_visit(struct list_text *t, const struct text_visit *v)
{
	struct visitor w = {.t = t, .v = v};
	uint64_t at = 0, run = 0, run_end = 0;
	const char *bytes;
	int r = 0;

	for (size_t i = 0; r == 0 && i < t->chunk_count; at += t->chunks[i++].len) {
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

int list_text_count(
        struct list_text *t, const struct list_format *format, const struct entry_set *wanted, struct entry_set *found)
{
	struct counting c = {.wanted = wanted, .found = found};
	struct text_visit v = {.format = format, .ctx = &c, .fn = count_line};

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

int list_text_bad(struct list_text *t, const struct list_format *format, struct list_bad *ret, unsigned max)
{
	struct bad_lines b = {.ret = ret, .max = max};
	struct text_visit v = {.format = format, .ctx = &b, .fn = note_bad};
	uint8_t *wanted;
	int r;

	if (!t || !t->bad || !max)
		return 0;
	wanted = calloc(t->chunk_count, 1);
	if (!wanted)
		return -ENOMEM;
	for (size_t i = 0; i < t->chunk_count; i++)
		wanted[i] = t->chunks[i].bad > 0;
	v.wanted = wanted;
	r = list_text_visit(t, &v);
	free(wanted);
	return r < 0 ? r : (int)b.count;
}
