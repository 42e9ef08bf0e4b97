/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Hosts files: ADDRESS NAME [NAME...] [# comment]. Blanks, CR, a byte order mark, case and a final dot do not matter. A name without a dot is known
 * with the local domain behind it as well, and that is then the address's name. What hosts files have by custom and is no name in the DNS is passed over
 * in silence: addresses with an interface (fe80::1%lo0), addresses in the place of names (0.0.0.0 0.0.0.0). On the compiler thread. */
#include <errno.h>
#include <string.h>
#include "base/err.h"
#include "local/local_private.h"

struct hosts {
	struct build *b;
	const char *path;
	uint16_t source;
	uint32_t line;
	struct addr addr;
	const char *address_text; /* what `addr` was read from: lists repeat one address for ever */
	size_t address_len;
	uint64_t bad;
	uint32_t bad_line, bad_column;
	const char *bad_why;
	bool is_bad; /* this line */
	uint32_t full_line; /* the first that was left out; 0: none */
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static void bad(struct hosts *h, size_t column, const char *why)
{
	if (h->is_bad)
		return;
	h->is_bad = true;
	if (!h->bad++) {
		h->bad_line = h->line;
		h->bad_column = column < INT32_MAX ? (uint32_t)column : INT32_MAX;
		h->bad_why = why;
	}
}

static bool parse_address(struct addr *ret, const char *s, size_t len)
{
	char text[ADDR_TEXT_MAX];

	if (len >= sizeof text || memchr(s, 0, len))
		return false;
	memcpy(text, s, len);
	text[len] = '\0';
	return addr_parse(ret, text) == 0;
}

static bool is_address(const char *s, size_t len)
{
	struct addr a;

	return ((s[len - 1] >= '0' && s[len - 1] <= '9') || memchr(s, ':', len)) && parse_address(&a, s, len);
}

/* 1: the address has its name now, or had it. */
static int add(struct hosts *h, const struct name *n, size_t column, bool is_first)
{
	const struct new_record rec = {.type = h->addr.family == AF_INET ? RR_A : RR_AAAA,
	        .rdlen = h->addr.family == AF_INET ? 4 : 16,
	        .source = h->source,
	        .ttl_s = LOCAL_HOSTS_TTL_S,
	        .line = h->line,
	        .rdata = h->addr.b};
	uint32_t *first, index;
	int r = store_name(h->b, n, &first);

	if (r >= 0)
		r = store_record(h->b, first, &rec, &index);
	if (r == NW_EFULL) {
		h->full_line = h->full_line ? h->full_line : h->line;
		h->b->l->stat.left_out++;
		return 0;
	}
	if (r == NW_ETOOLONG || r == NW_EREFUSED) {
		bad(h, column,
		        r == NW_ETOOLONG ? "the name has too many addresses already" : "the name is an alias (CNAME) already");
		return 0;
	}
	return r > 0 && is_first ? store_reverse(h->b, index, n) : r;
}

/* The name under the local domain, for those of one label. */
static bool expand(const struct local *l, const struct name *n, struct name *ret)
{
	uint8_t wire[NAME_WIRE_MAX];
	size_t label_len = n->len - 1u;

	if (!l->has_domain || n->labels != 1 || label_len + l->domain.len > NAME_WIRE_MAX || !memcmp(n->wire, "\11localhost", 10))
		return false;
	memcpy(wire, n->wire, label_len);
	memcpy(wire + label_len, l->domain.wire, l->domain.len);
	return name_from_wire(ret, wire, label_len + l->domain.len) > 0;
}

/* 1: a name; 0: none that counts; negative: no more can be read. */
static int take_name(struct hosts *h, const char *s, size_t len, size_t column, bool is_first)
{
	struct name n, full;
	bool is_expanded;
	int r;

	if (is_address(s, len))
		return 0;
	r = name_from_user_text(&n, s, len);
	if (r == -ENOMEM)
		return r;
	if (r < 0 || !n.labels) {
		bad(h, column, "not a name");
		return 0;
	}
	is_expanded = expand(h->b->l, &n, &full);
	if (is_expanded)
		r = add(h, &full, column, is_first);
	if (r >= 0)
		r = add(h, &n, column, is_first && !is_expanded);
	return r < 0 ? r : 1;
}

/* Moves *s to the next token, which ends before `end`. */
static bool next_token(const char **s, const char *end, size_t *ret_len)
{
	const char *stop;

	while (*s < end && is_blank(**s))
		++*s;
	for (stop = *s; stop < end && !is_blank(*stop); stop++)
		;
	*ret_len = (size_t)(stop - *s);
	return *ret_len > 0;
}

/* False: nothing can be done with the line. */
static bool take_address(struct hosts *h, const char *s, size_t len, size_t column)
{
	if (h->address_text && len == h->address_len && !memcmp(s, h->address_text, len))
		return true;
	if (memchr(s, '%', len) && memchr(s, ':', len))
		return false;
	if (!parse_address(&h->addr, s, len)) {
		h->address_text = NULL;
		bad(h, column, "not an address");
		return false;
	}
	h->address_text = s;
	h->address_len = len;
	return true;
}

static int take_line(struct hosts *h, const char *line, const char *end)
{
	const char *s = line, *comment = memchr(line, '#', (size_t)(end - line));
	bool has_name = false;
	size_t len;
	int r;

	h->is_bad = false;
	end = comment ? comment : end;
	if (!next_token(&s, end, &len) || !take_address(h, s, len, (size_t)(s - line) + 1))
		return 0;
	s += len;
	if (!next_token(&s, end, &len))
		bad(h, 1, "an address without a name");
	for (; len > 0; s += len, next_token(&s, end, &len)) {
		r = take_name(h, s, len, (size_t)(s - line) + 1, !has_name);
		if (r < 0)
			return r;
		has_name |= r > 0;
	}
	return 0;
}

int hosts_read(struct build *b, const struct local_text *t)
{
	struct hosts h = {.b = b, .path = t->path};
	const char *s = t->bytes, *end = s + t->len, *nl;
	int r = store_source(b, t->path);

	if (r < 0)
		return r;
	h.source = (uint16_t)r;
	if (t->len >= 3 && !memcmp(s, "\xef\xbb\xbf", 3))
		s += 3;
	for (r = 0; s < end && r >= 0; s = nl + 1) {
		nl = memchr(s, '\n', (size_t)(end - s));
		if (!nl)
			nl = end;
		h.line++;
		r = take_line(&h, s, nl);
	}
	b->l->stat.bad_lines += h.bad;
	if (h.bad && b->report) {
		struct place p = {.file = t->path, .line = (int)h.bad_line, .column = (int)h.bad_column};

		report_add(
		        b->report, false, &p, "%s; lines left out, whole or in part: %llu", h.bad_why, (unsigned long long)h.bad);
	}
	if (h.full_line && b->report) {
		struct place p = {.file = t->path, .line = (int)h.full_line, .column = 1};

		report_add(b->report, false, &p, "%u names are known already, and no more fit; names from here on are left out", b->name_count);
	}
	return r < 0 ? r : 0;
}
