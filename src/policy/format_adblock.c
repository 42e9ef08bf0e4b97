/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The adblock list format, as AdGuard's DNS filtering reads it:
 *
 *   ||x^            x and everything under it      @@||x^          exempts x and everything under it, wherever it is listed
 *   x, 0.0.0.0 x    x alone (a hosts line)         1.2.3.4, ||1.2.3.4^, 1.2.3.0/24   addresses
 *   everything else that a name can be judged by is a rule of the bounded stage (exprs.h): wildcards, /expressions/, $important, $dnstype, …
 *
 * Rules that only a browser can apply (cosmetic ones, paths, $third-party, …) are passed over like comments. What this version does not carry
 * ($ctag, $dnsrewrite) is bad, with its reason. A hosts line is left to that format. No state; any thread. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "config/config.h"
#include "policy/exprs_private.h"
#include "policy/list_format.h"

enum { IP_BEGIN_MAX = 14, NETWORK_STEPS_MAX = 256 * 32 };

static bool starts(const char *s, size_t len, const char *with)
{
	return len >= strlen(with) && memcmp(s, with, strlen(with)) == 0;
}

/* --- The two lines that lists consist of --- */

static const uint8_t plain_class[256] = {['a' ... 'z'] = 3, ['0' ... '9'] = 1, ['-'] = 1, ['_'] = 1, ['.'] = 1};

/* ||x^ and @@||x^ with a lower-case x that holds a letter. */
static bool parse_common(struct line_entry *ret, const char *line, size_t len)
{
	bool is_allow = starts(line, len, "@@");
	unsigned seen = 0, class;

	if (is_allow) {
		line += 2;
		len -= 2;
	}
	if (len < 4 || line[0] != '|' || line[1] != '|' || line[len - 1] != '^' || line[2] == '.' || line[len - 2] == '.')
		return false;
	for (size_t i = 2; i + 1 < len; i++, seen |= class) {
		class = plain_class[(uint8_t)line[i]];
		if (!class)
			return false;
	}
	if (!(seen & 2))
		return false;
	list_parse_name(ret, line + 2, len - 3);
	ret->kind = is_allow ? KIND_ALLOW : KIND_SUFFIX;
	ret->is_marked = true;
	return true;
}

/* --- Lines that are no rules for names --- */

/* "##", "#@#", "#?#", "#$#", "#%#" and what is put together from them; "$$" and "$@$". Behind a blank '#' begins a comment. */
static bool is_cosmetic(const char *s, size_t len)
{
	const char *end = s + len, *q;

	for (const char *p = s; p < end; p++) {
		if (*p == '#' && p > s && !list_is_blank(p[-1])) {
			for (q = p + 1; q < end && strchr("@$?%", *q) && *q; q++)
				;
			if (q < end && *q == '#')
				return true;
		} else if (*p == '$' && (starts(p, (size_t)(end - p), "$$") || starts(p, (size_t)(end - p), "$@$"))) {
			return true;
		}
	}
	return false;
}

static bool is_empty(const char *s, size_t len)
{
	if (len == 0 || *s == '!' || *s == '#' || *s == ';')
		return true;
	if (*s == '[' && (s[len - 1] == ']' || starts(s, len, "[$")) && !memchr(s, ':', len))
		return true;
	return is_cosmetic(s, len);
}

/* Without a comment behind a blank. In quotes a '#' is part of a client's name, and an expression is left as it is. */
static size_t cut_comment(const char *s, size_t len)
{
	if (*s == '/' || starts(s, len, "@@/"))
		return len;
	for (size_t i = 1; i < len && s[i] != '\'' && s[i] != '"'; i++)
		if (s[i] == '#' && list_is_blank(s[i - 1])) {
			while (i > 0 && list_is_blank(s[i - 1]))
				i--;
			return i;
		}
	return len;
}

/* --- Names and addresses by themselves --- */

static bool is_hosts_line(const char *s, size_t len)
{
	char text[ADDR_TEXT_MAX];
	const char *percent;
	size_t word = 0, after;
	struct addr a;

	while (word < len && !list_is_blank(s[word]))
		word++;
	for (after = word; after < len && list_is_blank(s[after]); after++)
		;
	if (word >= sizeof(text) || after == len || s[after] == '#')
		return false;
	memcpy(text, s, word);
	text[word] = '\0';
	percent = strchr(text, '%');
	if (percent)
		text[percent - text] = '\0';
	return addr_parse(&a, text) == 0;
}

static bool is_letter(char c)
{
	return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

/* What AdGuard takes for a name alone, which it then matches exactly; anything else is a pattern, which matches anywhere in a name. The last label tells
 * most of them apart: letters, or xn--. Unicode is ours: there it would match nothing. */
static bool is_domain(const char *s, size_t len)
{
	bool is_letters = true, has_unicode = false;
	size_t label = 0;

	for (size_t i = 0; i < len; i++) {
		bool is_char = is_letter(s[i]) || (s[i] >= '0' && s[i] <= '9') || (uint8_t)s[i] >= 0x80;

		has_unicode |= (uint8_t)s[i] >= 0x80;
		if (s[i] == '.') {
			if (i == label || s[i - 1] == '-')
				return false;
			label = i + 1;
			is_letters = true;
		} else if (is_char || (s[i] == '-' && i > label)) {
			is_letters = is_letters && (is_letter(s[i]) || (uint8_t)s[i] >= 0x80);
		} else {
			return false;
		}
	}
	return has_unicode || (len - label >= 2 && (is_letters || (len - label >= 8 && strncasecmp(s + label, "xn--", 4) == 0)));
}

static void take_domain(struct line_entry *ret, const char *s, size_t len)
{
	list_parse_name(ret, s, len);
	ret->kind = KIND_EXACT;
	ret->is_marked = false;
}

static void take_prefix(struct line_entry *ret, const struct prefix *p, bool is_exempt)
{
	ret->what = LINE_PREFIX;
	ret->prefix = (struct prefix_entry){.prefix = *p, .is_exempt = is_exempt};
}

/* --- Rules --- */

/* "1.2.3." at the begin of an expression; the address with 0 behind it. */
static bool take_begin(const struct rule_text *r, char text[static IP_BEGIN_MAX], struct addr *ret)
{
	unsigned dots = 0, used = 0;

	if (r->body_len < 8 || r->body[0] != '^')
		return false;
	for (unsigned i = 1; i < r->body_len && dots < 3 && used < IP_BEGIN_MAX - 2; i++) {
		if (r->body[i] != '\\')
			text[used++] = (char)r->body[i];
		dots += r->body[i] == '.';
	}
	text[used] = '0';
	text[used + 1] = '\0';
	if (dots != 3 || addr_parse(ret, text) < 0)
		return false;
	text[used] = '\0';
	return true;
}

/* /^1\.2\.3\.(…)$/ is written where the addresses of a network are meant: answers that hold them. It is the network when all 256 match. */
static bool is_network(const struct rule_text *r, const uint64_t *program, struct prefix *ret)
{
	uint8_t symbols[IP_BEGIN_MAX + 3];
	char text[IP_BEGIN_MAX];
	unsigned used, len;
	int steps = NETWORK_STEPS_MAX;

	if (!nfa_is_whole(program) || !take_begin(r, text, &ret->addr))
		return false;
	for (used = 0; text[used]; used++)
		symbols[used] = expr_symbol[(uint8_t)text[used]];
	for (unsigned last = 0; last < 256; last++) {
		len = used;
		for (unsigned of = last >= 100 ? 100 : last >= 10 ? 10 : 1; of; of /= 10)
			symbols[len++] = (uint8_t)(SYM_0 + last / of % 10);
		if (!nfa_matches(program, symbols, len, &steps) || steps < 0)
			return false;
	}
	ret->addr.b[3] = 0;
	ret->len = 24;
	return true;
}

static void take_rule(struct line_entry *ret, const char *s, size_t len)
{
	ret->what = LINE_RULE;
	ret->rule = s;
	ret->rule_len = len;
}

static void take_pattern(struct line_entry *ret, const struct rule_text *r, const char *s, size_t len)
{
	struct compiled c;
	struct prefix p;

	if (rule_compile(r, &c, &ret->why) < 0) {
		ret->what = LINE_BAD;
		return;
	}
	if (c.program && rule_is_plain(r) && is_network(r, c.program, &p))
		take_prefix(ret, &p, r->is_allow);
	else
		take_rule(ret, s, len);
	free(c.program);
}

bool list_bad_prefix(const char *rule, size_t len, struct prefix_entry *ret)
{
	struct rule_text r;
	struct compiled c;
	const char *why;
	bool is_prefix;

	if (!memmem(rule, len, "badfilter", 9) || rule_parse(&r, rule, len, &why) < 0 || !r.is_bad || rule_is_conditional(&r))
		return false;
	is_prefix = r.pattern == PATTERN_PREFIX;
	*ret = (struct prefix_entry){.prefix = r.prefix, .is_exempt = r.is_allow};
	if (r.pattern == PATTERN_REGEX && rule_compile(&r, &c, &why) == 0) {
		is_prefix = is_network(&r, c.program, &ret->prefix);
		free(c.program);
	}
	return is_prefix;
}

static void parse_rule(struct line_entry *ret, const char *s, size_t len)
{
	struct rule_text r;
	int err = rule_parse(&r, s, len, &ret->why);

	if (err < 0) {
		ret->what = err == NW_EREFUSED ? LINE_EMPTY : LINE_BAD;
		return;
	}
	switch (r.pattern) {
	case PATTERN_PREFIX:
		if (r.is_bad)
			take_rule(ret, s, len);
		else
			take_prefix(ret, &r.prefix, r.is_allow);
		break;
	case PATTERN_SUFFIX:
	case PATTERN_EXACT:
		list_parse_name(ret, (const char *)r.body, r.body_len);
		ret->kind = r.pattern == PATTERN_EXACT ? KIND_EXACT : r.is_allow ? KIND_ALLOW : KIND_SUFFIX;
		ret->is_marked = true;
		if (ret->what == LINE_NAME && (!rule_is_plain(&r) || (r.is_allow && r.pattern == PATTERN_EXACT)))
			take_rule(ret, s, len);
		break;
	case PATTERN_ANY:
		take_rule(ret, s, len);
		break;
	default:
		take_pattern(ret, &r, s, len);
		break;
	}
}

/* Of a line that is too long the begin says whether it is one for browsers. */
static void parse_long(struct line_entry *ret, const char *s)
{
	struct rule_text r;

	if (rule_parse(&r, s, LIST_LINE_MAX, &ret->why) == NW_EREFUSED)
		ret->what = LINE_EMPTY;
	else
		list_parse_bad(ret, "the line is too long");
}

static void parse_general(struct line_entry *ret, const char *line, size_t len, size_t *at)
{
	const char *s = line, *end = line + len;
	struct prefix p;

	if (starts(s, len, "\xef\xbb\xbf"))
		s += 3;
	while (s < end && list_is_blank(*s))
		s++;
	while (end > s && list_is_blank(end[-1]))
		end--;
	*at = len;
	if (is_empty(s, (size_t)(end - s))) {
		ret->what = LINE_EMPTY;
		return;
	}
	if (is_hosts_line(s, (size_t)(end - s))) {
		*at = 0;
		list_format_hosts.parse(ret, line, len, at);
		return;
	}
	end = s + cut_comment(s, (size_t)(end - s));
	if (end - s > LIST_LINE_MAX) {
		parse_long(ret, s);
		return;
	}
	if (list_parse_prefix(&p, s, (size_t)(end - s)))
		take_prefix(ret, &p, false);
	else if (is_domain(s, (size_t)(end - s)))
		take_domain(ret, s, (size_t)(end - s));
	else
		parse_rule(ret, s, (size_t)(end - s));
}

static void adblock_parse(struct line_entry *ret, const char *line, size_t len, size_t *at)
{
	if (*at > 0)
		list_format_hosts.parse(ret, line, len, at);
	else if (parse_common(ret, line, len))
		*at = len;
	else
		parse_general(ret, line, len, at);
}

static int adblock_probe(const char *text, size_t len)
{
	return list_probe_share(&list_format_adblock, text, len);
}

const struct list_format list_format_adblock = {
        .name = "adblock", .id = FORMAT_ADBLOCK, .probe = adblock_probe, .parse = adblock_parse};
