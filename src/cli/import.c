/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `nameway import dnsmasq FILE…`: reads dnsmasq configurations as dnsmasq reads them (comments behind blanks, blanks around "=", quotes, conf-file and
 * conf-dir), prints the DNS side as a configuration of ours, and names every line that could not be carried over.
 *
 * A file of nothing but many `address=` lines with one meaning is a block list: it is named as a list and not copied. */
#include "cli/import.h"
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/buf.h"

enum { DEPTH_MAX = 8, LIST_FILE_LINES = 500, LINE_MAX_BYTES = 8192 };
#define ARENA_MAX ((size_t)512 << 20)

static void *out_of_memory(struct import *m)
{
	m->is_out_of_memory = true;
	return NULL;
}

static bool grow(struct import *m, void *array, size_t count, size_t *cap, size_t each)
{
	size_t wider = *cap ? *cap * 2 : 8;
	void **at = array, *bytes;

	if (count < *cap)
		return true;
	bytes = arena_alloc(m->arena, wider * each);
	if (!bytes)
		return out_of_memory(m);
	if (count)
		memcpy(bytes, *at, count * each);
	*at = bytes;
	*cap = wider;
	return true;
}

bool texts_add(struct import *m, struct texts *t, const char *text)
{
	/* Doubles beyond the nearest are taken out by the reader of the configuration. */
	for (size_t i = t->count; i-- > 0 && t->count - i < 64;)
		if (strcmp(t->v[i], text) == 0)
			return false;
	if (!grow(m, &t->v, t->count, &t->cap, sizeof(*t->v)))
		return false;
	t->v[t->count] = arena_strdup(m->arena, text);
	if (!t->v[t->count])
		return out_of_memory(m);
	t->count++;
	return true;
}

struct import_group *import_group(struct import *m, struct import_groups *g, const char *key)
{
	for (size_t i = 0; i < g->count; i++)
		if (strcmp(g->v[i].key, key) == 0 && !g->v[i].file)
			return &g->v[i];
	if (!grow(m, &g->v, g->count, &g->cap, sizeof(*g->v)))
		return NULL;
	g->v[g->count] = (struct import_group){.key = arena_strdup(m->arena, key)};
	return g->v[g->count].key ? &g->v[g->count++] : out_of_memory(m);
}

bool import_pair(struct import *m, struct import_pairs *p, const char *domain, const char *value)
{
	if (!grow(m, &p->v, p->count, &p->cap, sizeof(*p->v)))
		return false;
	p->v[p->count] = (struct import_pair){.domain = domain, .value = value, .order = p->count};
	p->count++;
	return true;
}

static int compare_pairs(const void *a, const void *b)
{
	const struct import_pair *x = a, *y = b;
	int by_domain = strcmp(x->domain, y->domain);

	return by_domain ? by_domain : x->order < y->order ? -1 : 1;
}

/* Domains with the same values, in the same order, become one group. */
static void settle(struct import *m, struct import_pairs *p, struct import_groups *groups, char between)
{
	struct import_group *g;
	size_t next;

	if (p->count)
		qsort(p->v, p->count, sizeof(*p->v), compare_pairs);
	for (size_t i = 0; i < p->count && !m->is_out_of_memory; i = next) {
		const char *key = p->v[i].value;

		for (next = i + 1; key && next < p->count && strcmp(p->v[next].domain, p->v[i].domain) == 0; next++)
			if (!strstr(key, p->v[next].value))
				key = arena_printf(m->arena, "%s%c%s", key, between, p->v[next].value);
		g = key ? import_group(m, groups, key) : NULL;
		if (g)
			texts_add(m, &g->domains, p->v[i].domain);
	}
}

void import_leave(struct import *m, const char *line, const char *why)
{
	fprintf(m->cli->err, "%s:%u: not carried over: %.200s: %s\n", m->file, m->line, line, why);
	m->not_carried++;
}

/* Cuts the comment: a '#' at the line's start or behind a blank, outside quotes. Quotes go, what they hold stays. */
static void strip(char *line)
{
	bool is_quoted = false, after_blank = true;
	char *to = line, *end;

	for (char *p = line; *p; p++) {
		if (*p == '"') {
			is_quoted = !is_quoted;
			continue;
		}
		if (*p == '#' && !is_quoted && after_blank)
			break;
		if (*p == '\\' && is_quoted && p[1])
			p++;
		after_blank = isspace((unsigned char)*p);
		*to++ = *p;
	}
	*to = '\0';
	end = to;
	while (end > line && isspace((unsigned char)end[-1]))
		*--end = '\0';
}

static char *skip(char *p)
{
	while (isspace((unsigned char)*p))
		p++;
	return p;
}

static void read_line(struct import *m, char *text)
{
	char whole[256], *key, *value, *end;
	const char *why;

	snprintf(whole, sizeof(whole), "%s", skip(text));
	strip(text);
	key = skip(text);
	if (!*key)
		return;
	value = strchr(key, '=');
	end = value ? value : key + strlen(key);
	if (value) {
		*value = '\0';
		value = skip(value + 1);
	}
	while (end > key && isspace((unsigned char)end[-1]))
		*--end = '\0';
	why = import_option(m, key, value);
	if (why) {
		strip(whole);
		import_leave(m, whole, why);
	}
}

/* --- files that are lists --- */

/* The meaning of `address=/…/…/VALUE`: "nxdomain", "zero", or NULL for anything else. */
static const char *block_meaning(const char *line)
{
	const char *last;

	while (isspace((unsigned char)*line))
		line++;
	if (strncmp(line, "address=/", 9) == 0)
		line += 8;
	else if (strncmp(line, "local=/", 7) == 0)
		line += 6;
	else
		return NULL;
	last = strrchr(line, '/');
	if (strchr(line, '#') && strcmp(last, "/#") != 0)
		return NULL;
	if (!last[1])
		return "nxdomain";
	return strcmp(last, "/0.0.0.0") == 0 || strcmp(last, "/::") == 0 || strcmp(last, "/#") == 0 ? "zero" : NULL;
}

static const char *file_meaning(const char *bytes, size_t len)
{
	const char *meaning = NULL, *found;
	unsigned lines = 0;
	char line[512];

	for (const char *p = bytes, *end = bytes + len, *nl; p < end; p = nl + 1) {
		nl = memchr(p, '\n', (size_t)(end - p));
		if (!nl)
			nl = end;
		if ((size_t)(nl - p) >= sizeof(line))
			return NULL;
		snprintf(line, sizeof(line), "%.*s", (int)(nl - p), p);
		line[strcspn(line, "\r")] = '\0';
		if (!line[strspn(line, " \t")] || line[strspn(line, " \t")] == '#')
			continue;
		found = block_meaning(line);
		if (!found || (meaning && strcmp(found, meaning) != 0))
			return NULL;
		meaning = found;
		lines++;
	}
	return lines >= LIST_FILE_LINES ? meaning : NULL;
}

static bool take_as_list(struct import *m, const char *path, const struct buf *b)
{
	const char *meaning = file_meaning(b->bytes, b->len);
	char *real = meaning ? realpath(path, NULL) : NULL;

	if (!real || !grow(m, &m->answers.v, m->answers.count, &m->answers.cap, sizeof(*m->answers.v))) {
		free(real);
		return false;
	}
	m->answers.v[m->answers.count++] = (struct import_group){.key = meaning, .file = arena_strdup(m->arena, real)};
	free(real);
	return true;
}

int import_file(struct import *m, const char *path)
{
	const char *outer_file = m->file;
	unsigned outer_line = m->line;
	struct buf b;
	char line[LINE_MAX_BYTES];
	FILE *f;
	int r;

	if (m->depth == DEPTH_MAX)
		return -ELOOP;
	f = fopen(path, "re");
	if (!f)
		return -errno;
	buf_init(&b, (size_t)256 << 20);
	r = buf_read_fd(&b, fileno(f));
	fclose(f);
	m->depth++;
	m->file = arena_strdup(m->arena, path);
	m->line = 0;
	if (r == 0 && b.len && !take_as_list(m, path, &b))
		for (const char *p = b.bytes, *end = b.bytes + b.len, *nl; p < end; p = nl + 1) {
			nl = memchr(p, '\n', (size_t)(end - p));
			if (!nl)
				nl = end;
			m->line++;
			if ((size_t)(nl - p) >= sizeof(line)) {
				import_leave(m, "(a line)", "it is longer than 8191 bytes");
				continue;
			}
			memcpy(line, p, (size_t)(nl - p));
			line[nl - p] = '\0';
			read_line(m, line);
		}
	m->depth--;
	m->file = outer_file;
	m->line = outer_line;
	buf_free(&b);
	return r;
}

int cli_import(struct cli *c, int argc, char **argv)
{
	struct import m = {.cli = c, .port = 53, .cache_names = -1, .min_ttl = -1, .max_ttl = -1, .neg_ttl = -1, .in_flight = -1, .stale_s = -1};
	int r = 0;

	if (argc < 3 || strcmp(argv[1], "dnsmasq") != 0)
		return argc > 1 && strcmp(argv[1], "iptables-dns") == 0 ? cli_usage(c, "`import` of iptables-dns is not in this version") : cli_usage(c, "import dnsmasq FILE…");
	m.arena = arena_new(1 << 16, ARENA_MAX);
	if (!m.arena)
		return cli_usage(c, "out of memory");
	for (int i = 2; i < argc && r == 0; i++) {
		r = import_file(&m, argv[i]);
		if (r < 0)
			fprintf(c->err, "nameway: %s cannot be read: %s\n", argv[i], strerror(-r));
	}
	if (r == 0 && m.is_out_of_memory) {
		fputs("nameway: out of memory: nothing was converted\n", c->err);
		r = -ENOMEM;
	}
	if (r == 0) {
		settle(&m, &m.servers_of, &m.splits, ' ');
		settle(&m, &m.sets_of, &m.sets, ';');
	}
	if (r == 0 && !m.is_out_of_memory) {
		import_print(&m, c->out);
		fprintf(c->err, "%u lines were not carried over%s\n", m.not_carried, m.not_carried ? ", named above" : "");
	}
	arena_free(m.arena);
	return r < 0 ? EXIT_NO : 0;
}
