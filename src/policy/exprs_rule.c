/* SPDX-License-Identifier: GPL-3.0-or-later */
/* An adblock rule taken apart: exception or not, modifiers, and the pattern in the form in which it is matched.
 *
 * A DNS filter has no address of a page, only the name. A slash and a star at the end stand for `^`. It is matched as AdGuard matches it: patterns that begin with `||`, `://` or `http://` against
 * "http://NAME", the others against the name. So `^` (a separator, or the end) can only be the end, a '/' can only be the scheme's, and a pattern
 * with either in another place matches no name: that is a rule for pages, NW_EREFUSED. What is left is brought into few forms:
 *
 *   ||x^  ||x|             SUFFIX x           |x^  ://x^  http://x^   EXACT x
 *   ||1.2.3.4^             PREFIX             ||1.2.3.               PREFIX, with what follows the dots open
 *   /…/                    REGEX              all others             GLOB: parts between '*', tied to the begin, a label's begin, the end
 *
 * No state; any thread. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "policy/exprs_private.h"

enum { NAME_LEN_MAX = NAME_WIRE_MAX - 2, IP_TEXT_MAX = ADDR_TEXT_MAX - 1 };

static int bad(const char **ret_why, const char *why)
{
	*ret_why = why;
	return NW_EMALFORMED;
}

static bool starts(const char *s, size_t len, const char *with)
{
	return len >= strlen(with) && memcmp(s, with, strlen(with)) == 0;
}

/* Where the modifiers begin: behind the last '$' that no backslash precedes. An expression that ends with '/' has none. len: there are none. */
static size_t find_modifiers(const char *s, size_t len)
{
	bool has_escaped = false;

	if (len > 1 && s[0] == '/' && s[len - 1] == '/' && !memmem(s, len, "replace=", 8))
		return len;
	for (size_t i = len; i-- > 0;) {
		if (i + 1 == len || s[i] != '$')
			continue;
		if (!has_escaped && i > 0 && s[i - 1] == '\\')
			has_escaped = true;
		else
			return i;
	}
	return len;
}

/* "/host." means "begins with host.": the slash is the one behind the scheme. */
static bool is_slash_host(const char *s, size_t len)
{
	if (len <= 3 || s[0] != '/' || s[len - 1] != '.')
		return false;
	for (size_t i = 1; i < len; i++)
		if (s[i] == '/' || s[i] == '_' || !expr_symbol[(uint8_t)s[i]])
			return false;
	return true;
}

/* Takes away what ties the pattern's begin to something. */
static enum rule_anchor take_anchor(const char **s, size_t *len)
{
	static const struct {
		const char *text;
		enum rule_anchor anchor;
	} begins[] = {{"||", ANCHOR_LABEL}, {"|", ANCHOR_BEGIN}, {"://", ANCHOR_BEGIN}, {"http://", ANCHOR_BEGIN}};

	if (is_slash_host(*s, *len)) {
		++*s;
		--*len;
		return ANCHOR_BEGIN;
	}
	for (size_t i = 0; i < sizeof(begins) / sizeof(*begins); i++) {
		if (!starts(*s, *len, begins[i].text))
			continue;
		*s += strlen(begins[i].text);
		*len -= strlen(begins[i].text);
		return begins[i].anchor;
	}
	return ANCHOR_NONE;
}

/* What the end of a pattern says, read from the right: '*' leaves it open, '^' and '|' tie it to the name's end. */
static void take_end(struct rule_text *ret, const char *s, size_t *len)
{
	if (!ret->is_at_end && *len > 0 && s[*len - 1] == '|') {
		ret->is_at_end = true;
		--*len;
	}
	for (; *len > 0 && (s[*len - 1] == '*' || s[*len - 1] == '^'); --*len)
		ret->is_at_end = s[*len - 1] == '^';
}

static bool is_ip_text(const uint8_t *s, size_t len)
{
	bool has_colon = false;

	for (size_t i = 0; i < len; i++) {
		has_colon |= s[i] == ':';
		if (s[i] != '.' && s[i] != ':' && !(s[i] >= '0' && s[i] <= '9') && !(s[i] >= 'a' && s[i] <= 'f'))
			return false;
	}
	return len > 0 && len <= IP_TEXT_MAX && (has_colon || (s[0] >= '0' && s[0] <= '9'));
}

/* "1.2.3." or "1.2." of a pattern with an open end: all addresses that begin so. ("1." is as likely the begin of names.) */
static bool take_open_prefix(struct prefix *ret, const char *text, size_t len)
{
	char whole[ADDR_TEXT_MAX * 2];
	unsigned dots = 0;

	for (size_t i = 0; i < len; i++)
		dots += text[i] == '.';
	if (len == 0 || text[len - 1] != '.' || dots < 2 || dots > 3)
		return false;
	snprintf(whole, sizeof(whole), "%s%s/%u", text, dots == 3 ? "0" : "0.0", dots * 8);
	return prefix_parse(ret, whole) == 0;
}

/* A pattern that is an address, or the begin of addresses. */
static bool take_address(struct rule_text *ret)
{
	char text[ADDR_TEXT_MAX];
	struct addr a;

	if (!is_ip_text(ret->body, ret->body_len))
		return false;
	memcpy(text, ret->body, ret->body_len);
	text[ret->body_len] = '\0';
	if (addr_parse(&a, text) == 0)
		ret->prefix = (struct prefix){.addr = a, .len = a.family == AF_INET ? 32 : 128};
	else if (ret->anchor == ANCHOR_NONE || ret->is_at_end || !take_open_prefix(&ret->prefix, text, ret->body_len))
		return false;
	ret->pattern = PATTERN_PREFIX;
	return true;
}

static int take_name(struct rule_text *ret, const char **ret_why)
{
	const char *s = (const char *)ret->body;

	if (s[0] == '.' || s[ret->body_len - 1] == '.' || name_from_user_text(&ret->name, s, ret->body_len) < 0 ||
	        ret->name.labels == 0)
		return bad(ret_why, "an empty or too long label, or a too long name");
	ret->pattern = ret->anchor == ANCHOR_LABEL ? PATTERN_SUFFIX : PATTERN_EXACT;
	return 0;
}

/* The body of a pattern without its ties. */
static int take_body(struct rule_text *ret, const char *s, size_t len, const char **ret_why)
{
	bool has_star = false, has_unicode = false;

	for (size_t i = 0; i < len; i++) {
		has_star |= s[i] == '*';
		has_unicode |= (uint8_t)s[i] >= 0x80;
		ret->body[i] = (uint8_t)(s[i] >= 'A' && s[i] <= 'Z' ? s[i] | 0x20 : s[i]);
	}
	ret->body_len = (unsigned)len;
	if (len == 0) {
		ret->pattern = PATTERN_ANY;
		return ret->anchor != ANCHOR_NONE && ret->is_at_end ? NW_EREFUSED : 0;
	}
	if (take_address(ret))
		return 0;
	for (size_t i = 0; i < len; i++)
		if (s[i] != '*' && (uint8_t)s[i] < 0x80 && !expr_symbol[(uint8_t)s[i]])
			return NW_EREFUSED;
	if (ret->anchor != ANCHOR_NONE && ret->is_at_end && !has_star)
		return take_name(ret, ret_why);
	if (has_unicode)
		return bad(ret_why, "a part of a name that is not ASCII");
	if (len > NAME_LEN_MAX)
		return bad(ret_why, "longer than any name");
	ret->pattern = PATTERN_GLOB;
	return 0;
}

/* Rules are kept as lines. */
static bool has_control(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((uint8_t)s[i] < ' ' || s[i] == 0x7f)
			return true;
	return false;
}

static int take_pattern(struct rule_text *ret, const char *s, size_t len, const char **ret_why)
{
	int r;

	if (len > 1 && s[0] == '/' && s[len - 1] == '/') {
		ret->pattern = PATTERN_REGEX;
		ret->body_len = (unsigned)len - 2;
		memcpy(ret->body, s + 1, len - 2);
		return 0;
	}
	if (len > 1 && s[len - 1] == '*' && s[len - 2] == '/') { /* stands for '^' */
		len -= 2;
		ret->is_at_end = true;
	}
	ret->anchor = take_anchor(&s, &len);
	take_end(ret, s, &len);
	for (; len > 0 && *s == '*'; s++, len--)
		ret->anchor = ANCHOR_NONE;
	r = take_body(ret, s, len, ret_why);
	if (r == 0 && ret->pattern == PATTERN_ANY && !rule_is_conditional(ret) && !ret->is_bad)
		return bad(ret_why, "it matches every name");
	return r;
}

int rule_parse(struct rule_text *ret, const char *text, size_t len, const char **ret_why)
{
	bool is_too_long;
	size_t at;
	int r = 0;

	/* The arrays are read as far as their counts say. */
	memset(ret, 0, offsetof(struct rule_text, body));
	if (memchr(text, 0, len))
		return bad(ret_why, "a NUL byte");
	is_too_long = len > EXPR_TEXT_MAX;
	ret->is_allow = starts(text, len, "@@");
	if (ret->is_allow) {
		text += 2;
		len -= 2;
	}
	if (len == 0)
		return bad(ret_why, "an empty rule");
	at = find_modifiers(text, len);
	if (at < len)
		r = rule_parse_modifiers(ret, text + at + 1, len - at - 1, ret_why);
	if (is_too_long)
		return r == NW_EREFUSED ? r : bad(ret_why, "the rule is too long");
	if (r == 0 && has_control(text, len))
		return bad(ret_why, "a control character");
	if (r == 0)
		r = take_pattern(ret, text, at, ret_why);
	if (r == 0 && at < 3 && !rule_is_conditional(ret))
		return bad(ret_why, "too short: it would match too many names");
	if (r == 0 && ret->pattern == PATTERN_PREFIX && rule_is_conditional(ret))
		return bad(ret_why, "conditions on an address are not in this version");
	return r;
}
