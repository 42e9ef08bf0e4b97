/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A mix is a row of parts with weights. A part is either a pattern, compiled to wire bytes with holes, or a file, kept as one run
 * of records {length, question} with an offset for each.
 *
 * A compiled pattern is a row of pieces: a literal, N random letters, or the counter. A piece that begins a label first writes a
 * length byte, which is set when the label ends. A pattern without holes is one literal piece: the whole name. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/err.h"
#include "base/hash.h"
#include "cli/load_names.h"

enum { PIECES_MAX = 64, LABEL_MAX = 63, COUNTER_DIGITS = 10, LINE_MAX_LEN = 2048 };

enum piece_kind { PIECE_NAME, PIECE_LITERAL, PIECE_LETTERS, PIECE_COUNTER, PIECE_DOT };

struct piece {
	enum piece_kind kind;
	uint8_t len; /* bytes of a literal at `at` of the part's text, or how many letters */
	uint8_t at;
};

struct part {
	unsigned weight;
	uint16_t type;
	/* a pattern */
	struct piece piece[PIECES_MAX];
	unsigned pieces;
	uint8_t text[NAME_WIRE_MAX];
	uint64_t counter;
	/* a file: question i is at records[offset[i]], behind its length byte; NULL in a pattern */
	uint8_t *records;
	uint32_t *offset;
	size_t records_len, records_cap, offset_cap;
	uint32_t names, next;
	bool is_ordered;
};

struct names {
	uint64_t random, total_weight;
	unsigned parts;
	struct part *part[NAMES_PARTS_MAX];
};

static const struct {
	const char *text;
	uint16_t type;
} type_names[] = {{"A", 1}, {"NS", 2}, {"CNAME", 5}, {"SOA", 6}, {"PTR", 12}, {"MX", 15}, {"TXT", 16}, {"AAAA", 28}, {"SRV", 33},
        {"NAPTR", 35}, {"DS", 43}, {"RRSIG", 46}, {"NSEC", 47}, {"DNSKEY", 48}, {"TLSA", 52}, {"SVCB", 64}, {"HTTPS", 65},
        {"SPF", 99}, {"ANY", 255}, {"CAA", 257}};

uint16_t type_from_text(const char *text, size_t len)
{
	unsigned long value = 0;

	for (size_t i = 0; i < sizeof(type_names) / sizeof(type_names[0]); i++)
		if (strlen(type_names[i].text) == len && !strncasecmp(text, type_names[i].text, len))
			return type_names[i].type;
	if (len < 5 || len > 9 || strncasecmp(text, "TYPE", 4))
		return 0;
	for (size_t i = 4; i < len; i++) {
		if (!isdigit((unsigned char)text[i]))
			return 0;
		value = value * 10 + (unsigned long)(text[i] - '0');
	}
	return value <= 65535 ? (uint16_t)value : 0;
}

struct names *names_new(uint64_t seed)
{
	struct names *n = calloc(1, sizeof(*n));

	if (n)
		n->random = seed;
	return n;
}

static void part_free(struct part *p)
{
	if (!p)
		return;
	free(p->records);
	free(p->offset);
	free(p);
}

void names_free(struct names *n)
{
	if (!n)
		return;
	for (unsigned i = 0; i < n->parts; i++)
		part_free(n->part[i]);
	free(n);
}

unsigned names_count(const struct names *n)
{
	return n->parts;
}

static int part_take(struct names *n, struct part *p)
{
	if (n->parts == NAMES_PARTS_MAX)
		return NW_EFULL;
	n->total_weight += p->weight;
	n->part[n->parts++] = p;
	return 0;
}

/* Cuts "NAME TYPE" in two. Returns the length of the name; *type changes only when a type is given. */
static int split_type(const char *line, size_t len, size_t *ret_name_len, uint16_t *type)
{
	size_t name_len = 0, at;
	uint16_t found;

	while (name_len < len && !isspace((unsigned char)line[name_len]))
		name_len++;
	at = name_len;
	while (at < len && isspace((unsigned char)line[at]))
		at++;
	if (at < len) {
		found = type_from_text(line + at, len - at);
		if (!found)
			return NW_EMALFORMED;
		*type = found;
	}
	*ret_name_len = name_len;
	return name_len ? 0 : NW_EMALFORMED;
}

static int piece_add(struct part *p, enum piece_kind kind, size_t at, size_t len)
{
	if (p->pieces == PIECES_MAX)
		return NW_ETOOLONG;
	p->piece[p->pieces++] = (struct piece){.kind = kind, .at = (uint8_t)at, .len = (uint8_t)len};
	return 0;
}

/* "<10>" or "<#>" at `text`, which ends before `end`. Returns bytes consumed. */
static int hole_add(struct part *p, const char *text, const char *end)
{
	const char *at = text + 1;
	unsigned letters = 0;
	int r;

	if (end - text >= 3 && at[0] == '#' && at[1] == '>') {
		r = piece_add(p, PIECE_COUNTER, 0, COUNTER_DIGITS);
		return r < 0 ? r : 3;
	}
	for (; at < end && isdigit((unsigned char)*at); at++) {
		letters = letters * 10 + (unsigned)(*at - '0');
		if (letters > LABEL_MAX)
			return NW_ETOOLONG;
	}
	if (at == end || *at != '>' || !letters)
		return NW_EMALFORMED;
	r = piece_add(p, PIECE_LETTERS, 0, letters);
	return r < 0 ? r : (int)(at + 1 - text);
}

/* No label may be empty or pass 63 bytes, nor the name 255, whatever the holes become. */
static int pieces_check(const struct part *p)
{
	size_t label = 0, total = 1;

	for (unsigned i = 0; i <= p->pieces; i++) {
		if (i < p->pieces && p->piece[i].kind != PIECE_DOT) {
			label += p->piece[i].len;
			continue;
		}
		if (!label)
			return NW_EMALFORMED;
		if (label > LABEL_MAX)
			return NW_ETOOLONG;
		total += 1 + label;
		label = 0;
	}
	return total <= NAME_WIRE_MAX ? 0 : NW_ETOOLONG;
}

static int pattern_compile(struct part *p, const char *text, size_t len)
{
	const char *end = text + len;
	size_t used = 0;
	int r = 0;

	if (len > 1 && end[-1] == '.')
		end--;
	while (text < end && r >= 0) {
		size_t literal = 0;

		if (*text == '<') {
			r = hole_add(p, text, end);
			text += r > 0 ? r : 0;
			continue;
		}
		if (*text == '.') {
			r = piece_add(p, PIECE_DOT, 0, 0);
			text++;
			continue;
		}
		for (; text + literal < end && !strchr("<.", text[literal]); literal++) {
			if (used == sizeof(p->text))
				return NW_ETOOLONG;
			p->text[used++] = (uint8_t)tolower((unsigned char)text[literal]);
		}
		r = piece_add(p, PIECE_LITERAL, used - literal, literal);
		text += literal;
	}
	return r < 0 ? r : pieces_check(p);
}

int names_add_pattern(struct names *n, const char *pattern, uint16_t type, unsigned weight)
{
	struct part *p = calloc(1, sizeof(*p));
	struct name name;
	size_t len = 0;
	int r;

	if (!p)
		return -ENOMEM;
	p->weight = weight;
	p->type = type;
	r = split_type(pattern, strlen(pattern), &len, &p->type);
	if (r >= 0 && memchr(pattern, '<', len)) {
		r = pattern_compile(p, pattern, len);
	} else if (r >= 0) {
		r = name_from_user_text(&name, pattern, len);
		if (r >= 0) {
			memcpy(p->text, name.wire, name.len);
			r = piece_add(p, PIECE_NAME, 0, name.len);
		}
	}
	if (r >= 0)
		r = part_take(n, p);
	if (r < 0)
		part_free(p);
	return r < 0 ? r : 0;
}

/* Makes room for one more record and one more offset. */
static int file_grow(struct part *p)
{
	size_t need = p->records_len + 1 + QUESTION_MAX;
	void *grown;

	if (p->names == NAMES_FILE_MAX || need > UINT32_MAX)
		return NW_EFULL;
	if (need > p->records_cap) {
		grown = realloc(p->records, need + need / 2 + 65536);
		if (!grown)
			return -ENOMEM;
		p->records = grown;
		p->records_cap = need + need / 2 + 65536;
	}
	if (p->names == p->offset_cap) {
		grown = realloc(p->offset, (p->offset_cap * 2 + 1024) * sizeof(*p->offset));
		if (!grown)
			return -ENOMEM;
		p->offset = grown;
		p->offset_cap = p->offset_cap * 2 + 1024;
	}
	return 0;
}

static size_t put_type(uint8_t *out, uint16_t type)
{
	out[0] = (uint8_t)(type >> 8);
	out[1] = (uint8_t)type;
	out[2] = 0;
	out[3] = 1; /* IN */
	return 4;
}

static int file_line(struct part *p, const char *line, size_t len)
{
	uint16_t type = p->type;
	size_t name_len = 0;
	struct name name;
	uint8_t *out;
	int r;

	while (len && isspace((unsigned char)line[len - 1]))
		len--;
	while (len && isspace((unsigned char)*line)) {
		line++;
		len--;
	}
	if (!len || *line == '#')
		return 0;
	r = split_type(line, len, &name_len, &type);
	if (r >= 0)
		r = name_from_user_text(&name, line, name_len);
	if (r >= 0)
		r = file_grow(p);
	if (r < 0)
		return r;
	p->offset[p->names++] = (uint32_t)p->records_len;
	out = p->records + p->records_len + 1;
	memcpy(out, name.wire, name.len);
	put_type(out + name.len, type);
	/* The length of the name; a question may have 259 bytes. */
	p->records[p->records_len] = name.len;
	p->records_len += 1 + (size_t)name.len + 4;
	return 0;
}

int names_add_file(struct names *n, const char *path, uint16_t type, unsigned weight, bool is_ordered, unsigned long *ret_line)
{
	struct part *p = calloc(1, sizeof(*p));
	FILE *file = p ? fopen(path, "re") : NULL;
	unsigned long number = 0;
	char line[LINE_MAX_LEN];
	int r = !p ? -ENOMEM : file ? 0 : -errno;

	while (r >= 0 && fgets(line, sizeof(line), file)) {
		size_t len = strlen(line);

		number++;
		p->type = type;
		r = len + 1 == sizeof(line) ? NW_ETOOLONG : file_line(p, line, len);
	}
	if (r >= 0 && ferror(file))
		r = -EIO;
	if (r >= 0 && !p->names)
		r = -ENODATA;
	if (file)
		fclose(file);
	if (r >= 0) {
		p->weight = weight;
		p->is_ordered = is_ordered;
		r = part_take(n, p);
	}
	*ret_line = number;
	if (r < 0)
		part_free(p);
	return r < 0 ? r : 0;
}

static void put_letters(uint64_t *random, uint8_t *out, unsigned count)
{
	uint64_t bits = 0;

	for (unsigned i = 0; i < count; i++) {
		unsigned __int128 product;

		/* One draw is good for 12 letters: the product's upper half is a letter, the lower half what is left of the draw.
		 */
		if (i % 12 == 0)
			bits = random_next(random);
		product = (unsigned __int128)bits * 26;
		out[i] = (uint8_t)('a' + (unsigned)(product >> 64));
		bits = (uint64_t)product;
	}
}

static size_t put_counter(uint8_t *out, uint64_t value)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)(value % 10000000000));

	memcpy(out, digits, (size_t)len);
	return (size_t)len;
}

static size_t pattern_expand(struct part *p, uint64_t *random, uint8_t *out)
{
	size_t at = 1, label_at = 0;

	if (p->piece[0].kind == PIECE_NAME) {
		memcpy(out, p->text, p->piece[0].len);
		return p->piece[0].len;
	}
	for (unsigned i = 0; i < p->pieces; i++) {
		const struct piece *piece = &p->piece[i];

		switch (piece->kind) {
		case PIECE_LETTERS:
			put_letters(random, out + at, piece->len);
			at += piece->len;
			break;
		case PIECE_COUNTER:
			at += put_counter(out + at, p->counter);
			break;
		case PIECE_DOT:
			out[label_at] = (uint8_t)(at - label_at - 1);
			label_at = at++;
			break;
		default:
			memcpy(out + at, p->text + piece->at, piece->len);
			at += piece->len;
		}
	}
	p->counter++;
	out[label_at] = (uint8_t)(at - label_at - 1);
	out[at++] = 0;
	return at;
}

size_t names_next(struct names *n, uint8_t out[QUESTION_MAX])
{
	uint64_t ticket = n->parts > 1 ? hash_range(random_next(&n->random), n->total_weight) : 0;
	struct part *p;
	unsigned chosen = 0;
	size_t len;

	for (; ticket >= n->part[chosen]->weight; chosen++)
		ticket -= n->part[chosen]->weight;
	p = n->part[chosen];
	if (p->records) {
		uint32_t i = p->is_ordered ? p->next : (uint32_t)hash_range(random_next(&n->random), p->names);
		const uint8_t *record = p->records + p->offset[i];

		p->next = p->next + 1 == p->names ? 0 : p->next + 1;
		len = (size_t)record[0] + 4;
		memcpy(out, record + 1, len);
		return len;
	}
	len = pattern_expand(p, &n->random, out);
	return len + put_type(out + len, p->type);
}
