/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What nw-bench-load asks: names drawn evenly from a file, or a pattern with a hole of ten letters.
 *
 * Records of a file stand one behind the other, a length byte and the name in wire form, with an offset for each. They are drawn
 * a batch at a time and fetched ahead, so that ten million names do not make the load slower than the server. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "load.h"

enum { HOLE = 10, NAME_MAX_WIRE = 255, LABEL_MAX = 63 };

struct names {
	uint8_t *records;
	uint32_t *offset;
	size_t records_len, records_cap, count, offset_cap;
	/* a pattern */
	uint8_t wire[NAME_MAX_WIRE];
	uint16_t wire_len, hole_at; /* hole_at 0: none */
	bool is_counter;
};

/* Wire form of a name; 0: it is none. */
static size_t wire_from_text(uint8_t out[NAME_MAX_WIRE], const char *text, size_t len)
{
	size_t at = 0;

	while (len > 0) {
		const char *dot = memchr(text, '.', len);
		size_t label = dot ? (size_t)(dot - text) : len, used = label + (dot != NULL);

		if (label == 0 || label > LABEL_MAX || at + 2 + label > NAME_MAX_WIRE)
			return 0;
		out[at++] = (uint8_t)label;
		for (size_t i = 0; i < label; i++)
			out[at++] = (uint8_t)tolower((unsigned char)text[i]);
		text += used;
		len -= used;
	}
	out[at++] = 0;
	return at > 1 ? at : 0;
}

static bool has_grown(struct names *n)
{
	size_t need = n->records_len + 1 + NAME_MAX_WIRE;

	if (need > UINT32_MAX)
		return false;
	if (need > n->records_cap) {
		n->records_cap = need * 2;
		n->records = realloc(n->records, n->records_cap);
	}
	if (n->count == n->offset_cap) {
		n->offset_cap = n->offset_cap * 2 + 1024;
		n->offset = realloc(n->offset, n->offset_cap * sizeof(*n->offset));
	}
	return n->records && n->offset;
}

struct names *names_from_file(const char *path)
{
	struct names *n = calloc(1, sizeof(*n));
	FILE *file = fopen(path, "re");
	char line[1024];

	while (n && file && fgets(line, sizeof(line), file) && has_grown(n)) {
		size_t len = wire_from_text(n->records + n->records_len + 1, line, strcspn(line, "\r\n"));

		if (!len)
			continue;
		n->records[n->records_len] = (uint8_t)len;
		n->offset[n->count++] = (uint32_t)n->records_len;
		n->records_len += 1 + len;
	}
	if (file)
		fclose(file);
	if (n && n->count)
		return n;
	fprintf(stderr, "nw-bench-load: %s holds no names\n", path);
	names_free(n);
	return NULL;
}

struct names *names_from_pattern(const char *pattern)
{
	struct names *n = calloc(1, sizeof(*n));
	char text[NAME_MAX_WIRE * 2];
	size_t hole = strcspn(pattern, "*#"), rest = strlen(pattern) - hole;

	if (n && hole + HOLE + rest < sizeof(text)) {
		snprintf(text, sizeof(text), "%.*s%s%s", (int)hole, pattern, rest ? "aaaaaaaaaa" : "", rest ? pattern + hole + 1 : "");
		n->wire_len = (uint16_t)wire_from_text(n->wire, text, strlen(text));
		n->hole_at = rest ? (uint16_t)(hole + 1) : 0;
		n->is_counter = pattern[hole] == '#';
	}
	if (n && n->wire_len)
		return n;
	names_free(n);
	return NULL;
}

void names_free(struct names *n)
{
	if (!n)
		return;
	free(n->records);
	free(n->offset);
	free(n);
}

static void fill_hole(const struct names *n, uint8_t *out)
{
	/* Of the process, so that no two measurements ask the same. */
	static uint64_t counter;
	uint64_t v = n->is_counter ? counter++ : random_next();

	for (unsigned i = 0; i < HOLE; i++) {
		out[i] = (uint8_t)('a' + v % 26);
		v /= 26;
	}
}

static uint16_t put_type(uint8_t *out, size_t name_len)
{
	memcpy(out + name_len, (const uint8_t[4]){0, 1, 0, 1}, 4);
	return (uint16_t)(name_len + 4);
}

void names_draw(struct names *n, unsigned count, uint8_t *const *out, uint16_t *ret_len)
{
	uint32_t chosen[LOAD_BATCH];

	if (!n->count) {
		for (unsigned i = 0; i < count; i++) {
			memcpy(out[i], n->wire, n->wire_len);
			if (n->hole_at)
				fill_hole(n, out[i] + n->hole_at);
			ret_len[i] = put_type(out[i], n->wire_len);
		}
		return;
	}
	for (unsigned i = 0; i < count; i++) {
		chosen[i] = (uint32_t)random_below(n->count);
		__builtin_prefetch(&n->offset[chosen[i]]);
	}
	for (unsigned i = 0; i < count; i++) {
		chosen[i] = n->offset[chosen[i]];
		__builtin_prefetch(n->records + chosen[i]);
	}
	for (unsigned i = 0; i < count; i++) {
		const uint8_t *record = n->records + chosen[i];

		memcpy(out[i], record + 1, record[0]);
		ret_len[i] = put_type(out[i], record[0]);
	}
}
