/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `nameway import dnsmasq FILE…`: reads dnsmasq configurations as dnsmasq reads them (comments behind blanks, blanks around "=", quotes, conf-file and
 * conf-dir), prints the DNS side as a configuration of ours, and names every line that could not be carried over. What it prints is checked as
 * `namewayd --check` would.
 *
 * A file of nothing but many `address=` or `local=` lines with one meaning is a block list: it is named as a list and not copied. */
#include "cli/import.h"
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/buf.h"
#include "base/err.h"
#include "config/bundle.h"

enum { DEPTH_MAX = 8, LIST_FILE_LINES = 500 };
#define ARENA_MAX ((size_t)512 << 20)
#define HIDDEN_COMMA '\x01' /* one inside quotes, which separates nothing */

/* --- memory --- */

void *import_out_of_memory(struct import *m)
{
	m->is_out_of_memory = true;
	return NULL;
}

bool import_grow(struct import *m, void *array, size_t count, size_t *cap, size_t each)
{
	size_t wider = *cap ? *cap * 2 : 8;
	void **at = array, *bytes;

	if (count < *cap)
		return true;
	bytes = arena_alloc(m->arena, wider * each);
	if (!bytes)
		return import_out_of_memory(m);
	if (count)
		memcpy(bytes, *at, count * each);
	*at = bytes;
	*cap = wider;
	return true;
}

const char *import_text(struct import *m, const char *fmt, ...)
{
	char *text;
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	text = len < 0 ? NULL : arena_alloc(m->arena, (size_t)len + 1);
	if (!text) {
		import_out_of_memory(m);
		return "";
	}
	va_start(ap, fmt);
	vsnprintf(text, (size_t)len + 1, fmt, ap);
	va_end(ap);
	return text;
}

bool texts_add(struct import *m, struct texts *t, const char *text)
{
	if (!import_grow(m, &t->v, t->count, &t->cap, sizeof(*t->v)))
		return false;
	t->v[t->count] = arena_strdup(m->arena, text);
	if (!t->v[t->count])
		return import_out_of_memory(m);
	t->count++;
	return true;
}

bool texts_add_new(struct import *m, struct texts *t, const char *text)
{
	for (size_t i = 0; i < t->count; i++)
		if (strcmp(t->v[i], text) == 0)
			return true;
	return texts_add(m, t, text);
}

/* --- what became of a line --- */

void import_leave(struct import *m, struct import_line *line, const char *why)
{
	if (line->is_left)
		return;
	line->is_left = true;
	line->why = why;
	line->next = NULL;
	*m->left_last = line;
	m->left_last = &line->next;
	m->left_count++;
	/* It had been counted when it was read. */
	if (line != m->now)
		m->carried_count--;
}

void import_note(struct import *m, const char *what)
{
	struct import_line *note = arena_dup(m->arena, m->now, sizeof(*note));

	if (!note) {
		import_out_of_memory(m);
		return;
	}
	note->why = what;
	note->next = NULL;
	*m->noted_last = note;
	m->noted_last = &note->next;
}

/* --- lines --- */

static char *trimmed(char *line)
{
	size_t len;

	line += strspn(line, " \t\r\v\f");
	for (len = strlen(line); len && strchr(" \t\r\v\f", line[len - 1]); len--)
		line[len - 1] = '\0';
	return line;
}

/* What stands in quotes, `from` behind the first: its commas are hidden, its escapes are read. Returns where it ends, or NULL. */
static char *strip_quoted(char *from, char **to)
{
	static const char escapes[] = "\"tnebr\\", meant[] = "\"\t\n\033\b\r\\";

	for (; *from && *from != '"'; from++) {
		const char *e = *from == '\\' && from[1] ? strchr(escapes, from[1]) : NULL;

		if (e)
			from++;
		*(*to)++ = e ? meant[e - escapes] : *from == ',' ? HIDDEN_COMMA : *from;
	}
	return *from ? from : NULL;
}

/* Cuts the comment: a '#' at the line's start or behind a blank, outside quotes. Quotes go, what they hold stays. False: one is not closed. */
static bool strip(char *line)
{
	bool after_blank = true;
	char *to = line, *end;

	for (char *p = line; *p; p++) {
		if (*p == '"') {
			p = strip_quoted(p + 1, &to);
			if (!p)
				return false;
			after_blank = false;
			continue;
		}
		if (*p == '#' && after_blank)
			break;
		after_blank = isspace((unsigned char)*p);
		*to++ = after_blank ? ' ' : *p == HIDDEN_COMMA ? '?' : *p;
	}
	*to = '\0';
	end = to;
	while (end > line && end[-1] == ' ')
		*--end = '\0';
	return true;
}

char *import_unhide(char *text)
{
	for (char *p = text; *p; p++)
		if (*p == HIDDEN_COMMA)
			*p = ',';
	return text;
}

static bool is_utf8(const char *text)
{
	for (const unsigned char *p = (const unsigned char *)text; *p;) {
		unsigned more = *p < 0x80 ? 0 : *p >= 0xc2 && *p < 0xe0 ? 1 : *p >= 0xe0 && *p < 0xf0 ? 2 : *p >= 0xf0 && *p < 0xf5 ? 3 : 4;

		if (more == 4 || (*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) || (*p == 0xf0 && p[1] < 0x90) || (*p == 0xf4 && p[1] > 0x8f))
			return false;
		for (p++; more; more--, p++)
			if ((*p & 0xc0) != 0x80)
				return false;
	}
	return true;
}

/* For people: what a terminal and JSON can show. */
static const char *shown(struct import *m, const char *text)
{
	char *copy = arena_strdup(m->arena, import_text(m, "%.200s", text));
	bool is_text = copy && is_utf8(copy);

	for (unsigned char *p = (unsigned char *)copy; p && *p; p++)
		if (*p < 0x20 || *p == 0x7f || (*p >= 0x80 && !is_text))
			*p = *p == '\t' ? ' ' : '?';
	return copy ? copy : import_out_of_memory(m);
}

static const char *read_option(struct import *m, char *key)
{
	char *value = strchr(key, '='), *end = value ? value : key + strlen(key);

	if (value) {
		*value++ = '\0';
		value += strspn(value, " ");
	}
	while (end > key && end[-1] == ' ')
		*--end = '\0';
	return is_utf8(key) && (!value || is_utf8(value)) ? import_option(m, key, value) : "it is not UTF-8";
}

static void read_line(struct import *m, char *text)
{
	char *key = trimmed(text);
	struct import_line *now = arena_alloc(m->arena, sizeof(*now));
	const char *why = NULL;

	m->line_count++;
	if (!now) {
		import_out_of_memory(m);
		return;
	}
	*now = (struct import_line){.file = m->file, .line = m->line, .text = shown(m, key)};
	if (!now->text)
		return;
	if (!strip(key))
		why = "a quote is not closed";
	else if (!*key) {
		m->empty_count++;
		return;
	}
	m->now = now;
	if (!why)
		why = read_option(m, key);
	/* A file that it names has lines of its own. */
	m->now = now;
	if (why)
		import_leave(m, now, why);
	else
		m->carried_count++;
	m->now = NULL;
}

/* --- files that are lists --- */

/* The meaning of `address=/…/…/VALUE`: the class, or -1 for anything else; *ret_value is behind the '='. */
static int block_meaning(char *line, char **ret_value)
{
	char *last;

	if (strncmp(line, "address=/", 9) == 0)
		*ret_value = line + 8;
	else if (strncmp(line, "local=/", 7) == 0)
		*ret_value = line + 6;
	else
		return -1;
	last = strrchr(*ret_value, '/');
	if (strpbrk(line, " \"") || last == *ret_value || (strchr(line, '#') && strcmp(last, "/#") != 0))
		return -1;
	if (!last[1])
		return IMPORT_NXDOMAIN;
	return *line == 'a' && (strcmp(last, "/0.0.0.0") == 0 || strcmp(last, "/::") == 0 || strcmp(last, "/#") == 0) ? IMPORT_ZERO : -1;
}

/* The next line of the bytes, without blanks at its ends; false at the end. One that is too long is given as such: *ret_len. */
static bool next_line(const char **p, const char *end, char line[IMPORT_LINE_MAX], size_t *ret_len)
{
	const char *nl;

	if (*p >= end)
		return false;
	nl = memchr(*p, '\n', (size_t)(end - *p));
	if (!nl)
		nl = end;
	*ret_len = (size_t)(nl - *p);
	snprintf(line, IMPORT_LINE_MAX, "%.*s", (int)(*ret_len < IMPORT_LINE_MAX ? *ret_len : IMPORT_LINE_MAX - 1), *p);
	*p = nl + 1;
	return true;
}

/* What every line means; -1: not a list. */
static int file_meaning(const char *bytes, size_t size)
{
	char line[IMPORT_LINE_MAX], *at, *value;
	const char *p = bytes;
	int meaning = -1, found;
	unsigned lines = 0;
	size_t len;

	while (next_line(&p, bytes + size, line, &len)) {
		at = trimmed(line);
		if (!*at || *at == '#')
			continue;
		found = len < IMPORT_LINE_MAX ? block_meaning(at, &value) : -1;
		if (found < 0 || (meaning >= 0 && found != meaning))
			return -1;
		meaning = found;
		lines++;
	}
	return lines >= LIST_FILE_LINES ? meaning : -1;
}

static bool take_as_list(struct import *m, const char *path, const struct buf *b)
{
	int meaning = file_meaning(b->bytes, b->len);
	char *real = meaning >= 0 ? realpath(path, NULL) : NULL, line[IMPORT_LINE_MAX], *at, *value;
	struct import_line *whole = arena_alloc(m->arena, sizeof(*whole));
	struct import_groups *g = &m->answers;
	const char *p = b->bytes, *name;
	size_t len;

	if (!real || !whole || !is_utf8(real) || !import_grow(m, &g->v, g->count, &g->cap, sizeof(*g->v))) {
		free(real);
		return false;
	}
	name = import_text(m, "%s", real);
	free(real);
	*whole = (struct import_line){.file = m->file, .line = 1, .text = name};
	g->v[g->count++] = (struct import_group){.class = IMPORT_FILE, .value = name, .line = whole, .meaning = (enum import_class)meaning};
	while (next_line(&p, b->bytes + b->len, line, &len)) {
		at = trimmed(line);
		m->line_count++;
		if (!*at || *at == '#') {
			m->empty_count++;
			continue;
		}
		m->carried_count++;
		block_meaning(at, &value);
		import_list_line(m, name, value, whole);
	}
	return true;
}

static void read_lines(struct import *m, const struct buf *b)
{
	char line[IMPORT_LINE_MAX];
	const char *p = b->bytes;
	size_t len;

	while (!m->is_out_of_memory && next_line(&p, b->bytes + b->len, line, &len)) {
		m->line++;
		if (len >= IMPORT_LINE_MAX)
			snprintf(line, sizeof(line), "line-of-%zu-bytes", len);
		read_line(m, line);
	}
}

int import_file(struct import *m, const char *path)
{
	const char *outer_file = m->file;
	unsigned outer_line = m->line;
	struct stat st;
	struct buf b;
	FILE *f;
	int r;

	if (m->depth == DEPTH_MAX)
		return -ELOOP;
	f = fopen(path, "re");
	if (!f)
		return -errno;
	buf_init(&b, (size_t)256 << 20);
	r = fstat(fileno(f), &st) < 0 ? -errno : S_ISDIR(st.st_mode) ? -EISDIR : buf_read_fd(&b, fileno(f));
	fclose(f);
	m->depth++;
	m->file = shown(m, path);
	m->line = 0;
	if (r == 0 && b.len && !take_as_list(m, path, &b))
		read_lines(m, &b);
	m->depth--;
	m->file = outer_file;
	m->line = outer_line;
	buf_free(&b);
	return r;
}

/* --- the verb --- */

/* Whether what was printed is a configuration. */
static bool check(struct import *m, const char *yaml, size_t len, struct report *r)
{
	struct config *c = NULL;
	struct buf b;
	int e;

	buf_init(&b, BUNDLE_MAX);
	e = bundle_begin(&b, "/");
	if (e == 0)
		e = bundle_add(&b, "imported.yaml", yaml, len);
	if (e == 0)
		e = bundle_end(&b, 1);
	if (e == 0)
		e = config_parse(&c, b.bytes, b.len, r);
	else
		report_add(r, true, NULL, "the configuration is too large: %s; put many lines of one kind into a file of their own, which is taken as a list", nw_strerror(e));
	config_free(c);
	buf_free(&b);
	return e == 0 && !m->is_out_of_memory;
}

static json_t *lines_json(const struct import_line *l, const char *what)
{
	json_t *ret = json_array();

	for (; l; l = l->next)
		json_array_append_new(ret, json_pack("{s:s, s:i, s:s, s:s}", "file", l->file, "line", (int)l->line, "text", l->text, what, l->why));
	return ret;
}

static void say_lines(struct import *m)
{
	for (const struct import_line *l = m->noted; l; l = l->next)
		fprintf(m->cli->err, "%s:%u: note: %s: %s\n", l->file, l->line, l->text, l->why);
	for (const struct import_line *l = m->left; l; l = l->next)
		fprintf(m->cli->err, "%s:%u: not carried over: %s: %s\n", l->file, l->line, l->text, l->why);
	fprintf(m->cli->err, "%u lines: %u carried over, %u not%s, %u empty or comments\n", m->line_count, m->carried_count, m->left_count,
	        m->left_count ? " (named above)" : "", m->empty_count);
}

static int show(struct import *m, const char *yaml, size_t len)
{
	struct report r;
	bool is_good;

	report_init(&r);
	is_good = check(m, yaml, len, &r);
	if (m->cli->wants_json) {
		json_t *j = json_pack("{s:s%, s:b, s:i, s:i, s:i, s:o, s:o}", "config", yaml, len, "is_valid", (int)is_good, "lines", (int)m->line_count, "carried",
		        (int)m->carried_count, "empty", (int)m->empty_count, "left", lines_json(m->left, "why"), "notes", lines_json(m->noted, "note"));

		json_dumpf(j, m->cli->out, JSON_INDENT(2));
		fputc('\n', m->cli->out);
		json_decref(j);
	} else {
		fwrite(yaml, 1, len, m->cli->out);
		say_lines(m);
	}
	if (!is_good)
		fprintf(m->cli->err, "%snameway: what was printed wants mending before namewayd takes it\n", r.text.bytes ? r.text.bytes : "");
	report_free(&r);
	return is_good ? 0 : EXIT_NO;
}

static int settle_and_show(struct import *m)
{
	char *yaml = NULL;
	size_t len = 0;
	FILE *out = m->is_out_of_memory ? NULL : open_memstream(&yaml, &len);
	int r = EXIT_NO;

	if (out) {
		import_settle(m);
		import_print(m, out);
		fclose(out);
	}
	if (!out || m->is_out_of_memory)
		fputs("nameway: out of memory: nothing was converted\n", m->cli->err);
	else
		r = show(m, yaml, len);
	free(yaml);
	return r;
}

int cli_import(struct cli *c, int argc, char **argv)
{
	struct import m = {.cli = c, .port = 53, .cache_names = -1, .min_ttl = -1, .max_ttl = -1, .in_flight = -1, .stale_s = -1};
	int r = 0;

	if (argc > 1 && strcmp(argv[1], "iptables-dns") == 0)
		return cli_usage(c, "`import iptables-dns` is not in this version");
	if (argc < 3 || strcmp(argv[1], "dnsmasq") != 0)
		return cli_usage(c, "import dnsmasq FILE…");
	m.left_last = &m.left;
	m.noted_last = &m.noted;
	m.arena = arena_new(1 << 16, ARENA_MAX);
	if (!m.arena)
		return cli_usage(c, "out of memory");
	for (int i = 2; i < argc && r == 0; i++) {
		r = import_file(&m, argv[i]);
		if (r < 0)
			fprintf(c->err, "nameway: %s cannot be read: %s\n", argv[i], nw_strerror(r));
	}
	r = r < 0 ? EXIT_NO : settle_and_show(&m);
	arena_free(m.arena);
	return r;
}
