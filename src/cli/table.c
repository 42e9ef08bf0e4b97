/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/table.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { CELL_MAX = 1024, JOIN_MAX = 2048 };

void table_begin(struct table *t, const char *align)
{
	*t = (struct table){.columns = (unsigned)strlen(align)};
	snprintf(t->align, sizeof(t->align), "%s", align);
}

/* Control characters would let a name or path of somebody else's choosing steer the terminal. */
static void clean(char *text)
{
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
}

void table_cell(struct table *t, const char *fmt, ...)
{
	char text[CELL_MAX];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	clean(text);
	if (t->cells == t->room) {
		size_t room = t->room ? t->room * 2 : 64;
		char **cell = realloc(t->cell, room * sizeof(*cell));
		if (!cell)
			return;
		t->cell = cell;
		t->room = room;
	}
	t->cell[t->cells] = strdup(text);
	t->cells += t->cell[t->cells] != NULL;
}

/* Columns on the screen: one a code point. */
static unsigned width(const char *text)
{
	unsigned n = 0;
	for (; *text; text++)
		n += (*text & 0xc0) != 0x80;
	return n;
}

static void print_row(const struct table *t, FILE *out, const char *indent, char **cell, unsigned count, const unsigned *widths)
{
	while (count && !cell[count - 1][0])
		count--;
	fputs(indent, out);
	for (unsigned i = 0; i < count; i++) {
		unsigned pad = widths[i] - width(cell[i]);
		if (t->align[i] == 'r')
			fprintf(out, "%*s", (int)pad, "");
		fputs(cell[i], out);
		if (i + 1 < count)
			fprintf(out, "%*s", (int)(t->align[i] == 'r' ? 0 : pad) + 2, "");
	}
	fputc('\n', out);
}

void table_end(struct table *t, FILE *out, const char *indent)
{
	unsigned widths[TABLE_COLUMNS_MAX] = {0};
	for (size_t i = 0; i < t->cells; i++) {
		unsigned w = width(t->cell[i]);
		if (w > widths[i % t->columns])
			widths[i % t->columns] = w;
	}
	for (size_t i = 0; i + t->columns <= t->cells; i += t->columns)
		print_row(t, out, indent, t->cell + i, t->columns, widths);
	for (size_t i = 0; i < t->cells; i++)
		free(t->cell[i]);
	free(t->cell);
	*t = (struct table){0};
}

const char *words_age(char buf[WORDS_MAX], int64_t s)
{
	if (s < 60)
		snprintf(buf, WORDS_MAX, "%llds", (long long)(s < 0 ? 0 : s));
	else if (s < 3600)
		snprintf(buf, WORDS_MAX, "%lldm", (long long)(s / 60));
	else if (s < 86400)
		snprintf(buf, WORDS_MAX, "%lldh %lldm", (long long)(s / 3600), (long long)(s % 3600 / 60));
	else
		snprintf(buf, WORDS_MAX, "%lldd %lldh", (long long)(s / 86400), (long long)(s % 86400 / 3600));
	return buf;
}

const char *words_bytes(char buf[WORDS_MAX], int64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	double n = (double)bytes;
	unsigned u = 0;
	for (; n >= 1024 && u < 4; u++)
		n /= 1024;
	snprintf(buf, WORDS_MAX, u ? "%.1f %s" : "%.0f %s", n, units[u]);
	return buf;
}

const char *text_of(const json_t *j, const char *key)
{
	const char *text = json_string_value(json_object_get(j, key));
	return text ? text : "";
}

int64_t int_of(const json_t *j, const char *key)
{
	return json_integer_value(json_object_get(j, key));
}

const char *joined(const json_t *array, const char *between, const char *none)
{
	static char texts[4][JOIN_MAX];
	static unsigned turn;
	char *text = texts[turn++ % 4];
	size_t at = 0, i;
	json_t *one;
	text[0] = 0;
	json_array_foreach(array, i, one)
	{
		const char *s = json_string_value(one);
		if (!s)
			continue;
		if (at + strlen(between) + strlen(s) + 4 > JOIN_MAX) {
			at += (size_t)snprintf(text + at, JOIN_MAX - at, "…");
			break;
		}
		at += (size_t)snprintf(text + at, JOIN_MAX - at, "%s%s", at ? between : "", s);
	}
	clean(text);
	return at ? text : none;
}

void put_text(FILE *out, const char *text)
{
	for (; *text; text++)
		fputc((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text, out);
}
