/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The plain list format: a name, address or prefix a line.
 *
 *   x       x and everything under it (`match: exact` makes it =x)   =x   only x
 *   *.x .x  x and everything under it                                !…   exempts what follows (!x, !=x, !*.x, !1.2.3.0/24)
 *   1.2.3.4, 1.2.3.0/24, 2001:db8::/32, [2001:db8::1]
 *
 * '#' and ';' begin a comment at the start of a line and after a blank; '!' followed by a blank, '#' or nothing is a comment too
 * (as adblock lists write them). Blanks around, CR, a byte order mark, upper case and a final dot do not matter. A name consists
 * of letters, digits, '-' and '_'; other characters are Unicode to be converted, or the line is bad.
 *
 * parse_plain takes the common line (a lower-case name, nothing else) in one pass; everything else goes the general way with the
 * same outcome. No state; any thread. */
#include "policy/list_format.h"

#include <string.h>

#include "config/config.h"

/* How a byte counts in the fast path: 1 in a label, 3 a lower-case letter, 4 a dot, 0 anything else. */
static const uint8_t plain_class[256] = {['a' ... 'z'] = 3, ['0' ... '9'] = 1, ['-'] = 1, ['_'] = 1, ['.'] = 4};

static bool parse_plain(struct line_entry *ret, const char *line, size_t len)
{
	struct name *n = &ret->name;
	unsigned start = 0, labels = 0, seen = 0;

	if (len == 0 || len > NAME_WIRE_MAX - 2)
		return false;
	for (unsigned i = 0; i < len; i++) {
		uint8_t class = plain_class[(uint8_t)line[i]];

		if (class == 0)
			return false;
		seen |= class;
		n->wire[i + 1] = (uint8_t)line[i];
		if (class == 4) {
			if (i == start || i - start > 63)
				return false;
			n->wire[start] = (uint8_t)(i - start);
			n->offset[labels++] = (uint8_t)start;
			start = i + 1;
		}
	}
	/* Without a letter it may be an address. */
	if (!(seen & 2) || len == start || len - start > 63)
		return false;
	n->wire[start] = (uint8_t)(len - start);
	n->offset[labels++] = (uint8_t)start;
	n->offset[labels] = (uint8_t)(len + 1);
	n->wire[len + 1] = 0;
	n->labels = (uint8_t)labels;
	n->len = (uint8_t)(len + 2);
	ret->what = LINE_NAME;
	return true;
}

static bool is_comment(const char *s, const char *end)
{
	if (s == end || *s == '#' || *s == ';')
		return true;
	return *s == '!' && (s + 1 == end || list_is_blank(s[1]) || s[1] == '#');
}

static const char *why_of_look(const char *line, size_t len, const char *otherwise)
{
	switch (list_line_look(line, len)) {
	case LOOK_HOSTS:
		return "looks like a line of a hosts file; see the list's `format`";
	case LOOK_ADBLOCK:
		return "looks like an adblock rule; see the list's `format`";
	case LOOK_DNSMASQ:
		return "looks like a dnsmasq line; see the list's `format`";
	case LOOK_RPZ:
		return "looks like a policy zone: that belongs under `rpz:`, which is not in this version";
	default:
		return otherwise;
	}
}

bool list_parse_prefix(struct prefix *ret, const char *s, size_t len)
{
	char text[ADDR_TEXT_MAX];
	const char *close;

	if (len == 0 || len >= sizeof(text) || memchr(s, 0, len))
		return false;
	memcpy(text, s, len);
	text[len] = '\0';
	if (text[0] == '[') {
		close = memchr(text, ']', len);
		if (!close || !memchr(text, ':', len))
			return false;
		memmove(text, text + 1, (size_t)(close - text) - 1);
		memmove(text + (close - text) - 1, close + 1, (size_t)(text + len - close));
	}
	return prefix_parse(ret, text) == 0;
}

enum { CHAR_LABEL = 1, CHAR_UNICODE = 2, CHAR_BAD = 4, CHAR_ALPHA = 8, CHAR_DIGIT = 16 };

static unsigned char_kind(uint8_t c)
{
	if (c >= 0x80)
		return CHAR_UNICODE;
	if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z')
		return CHAR_ALPHA;
	if (c >= '0' && c <= '9')
		return CHAR_DIGIT;
	return c == '-' || c == '_' || c == '.' ? CHAR_LABEL : CHAR_BAD;
}

static unsigned chars_in(const char *s, size_t len)
{
	unsigned seen = 0;

	for (size_t i = 0; i < len; i++)
		seen |= s[i] == '.' ? 0 : char_kind((uint8_t)s[i]);
	return seen;
}

/* After conversion a name must hold nothing but letters, digits, '-' and '_': what libidn2 lets pass in other labels is caught
 * here. */
static bool is_host_name(const struct name *n)
{
	for (unsigned l = 0; l < n->labels; l++)
		for (unsigned i = 1; i <= n->wire[n->offset[l]]; i++) {
			uint8_t c = n->wire[n->offset[l] + i];

			if (c == '.' || (char_kind(c) & (CHAR_BAD | CHAR_UNICODE)))
				return false;
		}
	return n->labels > 0;
}

void list_parse_name(struct line_entry *ret, const char *s, size_t len)
{
	unsigned seen;

	if (parse_plain(ret, s, len))
		return;
	if (len == 1 && *s == '.') {
		list_parse_bad(ret, "the root cannot be listed");
		return;
	}
	if (len > 0 && s[len - 1] == '.')
		len--;
	if (len == 0 || s[len - 1] == '.') {
		list_parse_bad(ret, len ? "an empty or too long label, or a too long name" : "no name");
		return;
	}
	seen = chars_in(s, len);
	if (seen & CHAR_BAD)
		list_parse_bad(ret, "a character that no name has");
	else if (seen == CHAR_DIGIT)
		list_parse_bad(ret, "neither an address nor a name");
	else if (name_from_user_text(&ret->name, s, len) < 0 || !is_host_name(&ret->name))
		list_parse_bad(ret, seen & CHAR_UNICODE ? "not a valid internationalized name"
		                             : "an empty or too long label, or a too long name");
	else
		ret->what = LINE_NAME;
}

/* s..end is the entry without blanks and comment. */
static void parse_entry(struct line_entry *ret, const char *s, const char *end)
{
	bool is_exempt = *s == '!', is_exact, is_wild = false;

	s += is_exempt;
	is_exact = s < end && *s == '=';
	s += is_exact;
	if (!is_exact && list_parse_prefix(&ret->prefix.prefix, s, (size_t)(end - s))) {
		ret->what = LINE_PREFIX;
		ret->prefix.is_exempt = is_exempt;
		return;
	}
	if (!is_exact && end - s > 2 && s[0] == '*' && s[1] == '.') {
		s += 2;
		is_wild = true;
	} else if (!is_exact && end - s > 1 && s[0] == '.') {
		s++;
		is_wild = true;
	}
	if (is_wild && *s == '.')
		list_parse_bad(ret, "an empty or too long label, or a too long name");
	else
		list_parse_name(ret, s, (size_t)(end - s));
	ret->is_marked = is_exact || is_wild;
	if (is_exact)
		ret->kind = is_exempt ? KIND_EXEMPT_EXACT : KIND_EXACT;
	else
		ret->kind = is_exempt ? KIND_EXEMPT : KIND_SUFFIX;
}

static void parse_general(struct line_entry *ret, const char *line, size_t len)
{
	const char *s = line, *end = line + len, *stop, *rest;

	if (len >= 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0)
		s += 3;
	while (s < end && list_is_blank(*s))
		s++;
	while (end > s && list_is_blank(end[-1]))
		end--;
	if (is_comment(s, end)) {
		ret->what = LINE_EMPTY;
		return;
	}
	if (end - s > LIST_LINE_MAX) {
		list_parse_bad(ret, "the line is too long");
		return;
	}
	for (stop = s; stop < end && !list_is_blank(*stop); stop++)
		;
	for (rest = stop; rest < end && list_is_blank(*rest); rest++)
		;
	if (rest < end && *rest != '#' && *rest != ';')
		list_parse_bad(ret, "more than a name");
	else
		parse_entry(ret, s, stop);
	if (ret->what == LINE_BAD)
		ret->why = why_of_look(s, (size_t)(end - s), ret->why);
}

static void domains_parse(struct line_entry *ret, const char *line, size_t len, size_t *at)
{
	*at = len;
	if (!parse_plain(ret, line, len)) {
		parse_general(ret, line, len);
		return;
	}
	ret->kind = KIND_SUFFIX;
	ret->is_marked = false;
}

static int domains_probe(const char *text, size_t len)
{
	return list_probe_share(&list_format_domains, text, len);
}

const struct list_format list_format_domains = {
        .name = "domains", .id = FORMAT_DOMAINS, .probe = domains_probe, .parse = domains_parse};
