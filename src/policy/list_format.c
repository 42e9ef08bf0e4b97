/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The table of list formats and their detection. A policy zone is recognised all the same, so that it is refused by name rather
 * than read as something else. No state; any thread. */
#include "policy/list_format.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "config/config.h"

static const struct list_format *const formats[] = {
        &list_format_domains, &list_format_hosts, &list_format_adblock};
/* What lines that look so belong to; a policy zone is no list. */
static const struct list_format *const look_formats[LOOKS] = {
        [LOOK_HOSTS] = &list_format_hosts, [LOOK_ADBLOCK] = &list_format_adblock};

const struct list_format *list_format_by_id(int id)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
		if (formats[i]->id == id)
			return formats[i];
	return NULL;
}

bool list_is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static bool starts(const char *s, size_t len, const char *with)
{
	size_t n = strlen(with);

	return len >= n && strncasecmp(s, with, n) == 0;
}

static bool holds(const char *s, size_t len, const char *what)
{
	return memmem(s, len, what, strlen(what)) != NULL;
}

/* The next word at *s, and *s moved behind it. */
static size_t word(const char **s, const char *end, const char **ret)
{
	while (*s < end && list_is_blank(**s))
		(*s)++;
	*ret = *s;
	while (*s < end && !list_is_blank(**s))
		(*s)++;
	return (size_t)(*s - *ret);
}

static bool looks_adblock(const char *s, size_t len)
{
	static const char *const begins[] = {"||", "@@", "|http", "[adblock", "##", "#@#"};
	static const char *const parts[] = {
	        "##", "#@#", "#?#", "#$#", "^$", "$third-party", "$important", "$dnsrewrite", "$badfilter"};

	for (size_t i = 0; i < sizeof(begins) / sizeof(*begins); i++)
		if (starts(s, len, begins[i]))
			return true;
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (holds(s, len, parts[i]))
			return true;
	return s[len - 1] == '^' || (len > 2 && s[0] == '/' && s[len - 1] == '/');
}

static bool looks_dnsmasq(const char *s, size_t len)
{
	static const char *const keys[] = {"address", "server", "local", "ipset", "nftset", "cname", "host-record", "rev-server",
	        "alias", "bogus-nxdomain", "conf-file", "addn-hosts", "domain"};
	size_t key = 0;

	while (key < len && (isalpha((unsigned char)s[key]) || s[key] == '-'))
		key++;
	if (key == 0 || key + 1 >= len || s[key] != '=')
		return false;
	if (s[key + 1] == '/')
		return true;
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (strlen(keys[i]) == key && strncasecmp(keys[i], s, key) == 0)
			return true;
	return false;
}

/* "ADDRESS NAME": the second word is not a comment. An interface behind the address ("fe80::1%lo0") is cut off. */
static bool looks_hosts(const char *s, size_t len)
{
	const char *end = s + len, *first, *second, *percent;
	size_t n = word(&s, end, &first), m = word(&s, end, &second);
	char text[ADDR_TEXT_MAX];
	struct addr a;

	percent = memchr(first, '%', n);
	if (percent)
		n = (size_t)(percent - first);
	if (n == 0 || n >= sizeof(text) || m == 0 || *second == '#' || *second == ';')
		return false;
	memcpy(text, first, n);
	text[n] = '\0';
	return addr_parse(&a, text) == 0;
}

/* A line of a zone file: a directive, or a record type among the words behind the owner (TTL and class may stand between). */
static bool looks_rpz(const char *s, size_t len)
{
	static const char *const types[] = {"SOA", "NS", "CNAME", "DNAME", "A", "AAAA", "TXT", "MX", "PTR"};
	const char *end = s + len, *w, *next, *value;
	size_t n;

	if (starts(s, len, "$TTL") || starts(s, len, "$ORIGIN"))
		return true;
	n = word(&s, end, &w);
	for (int i = 0; i < 4; i++) {
		n = word(&s, end, &w);
		for (size_t t = 0; t < sizeof(types) / sizeof(*types); t++) {
			next = s;
			if (n == strlen(types[t]) && strncasecmp(types[t], w, n) == 0 && word(&next, end, &value) > 0)
				return *value != '#';
		}
	}
	return false;
}

enum line_look list_line_look(const char *line, size_t len)
{
	if (len == 0)
		return LOOK_NONE;
	if (looks_adblock(line, len))
		return LOOK_ADBLOCK;
	if (looks_dnsmasq(line, len))
		return LOOK_DNSMASQ;
	if (looks_hosts(line, len))
		return LOOK_HOSTS;
	return looks_rpz(line, len) ? LOOK_RPZ : LOOK_NONE;
}

void list_parse_bad(struct line_entry *ret, const char *why)
{
	ret->what = LINE_BAD;
	ret->why = why;
}

static bool is_understood(const struct list_format *f, struct line_entry *e, const char *line, size_t len, bool *ret_empty)
{
	bool is_good = false;
	size_t at = 0;

	*ret_empty = true;
	do {
		f->parse(e, line, len, &at);
		*ret_empty = *ret_empty && e->what == LINE_EMPTY;
		is_good = is_good || (e->what != LINE_EMPTY && e->what != LINE_BAD);
	} while (at < len);
	return is_good;
}

int list_probe_share(const struct list_format *f, const char *text, size_t len)
{
	unsigned good = 0, all = 0;
	struct line_entry e;
	bool is_empty;

	if (len > LIST_PROBE_MAX)
		len = LIST_PROBE_MAX;
	for (const char *p = text, *end = text + len, *nl; p < end; p = nl + 1) {
		nl = memchr(p, '\n', (size_t)(end - p));
		if (!nl)
			nl = end;
		good += is_understood(f, &e, p, (size_t)(nl - p), &is_empty);
		all += !is_empty;
	}
	return all ? (int)(good * 100ull / all) : 1;
}

/* Only lines that the domains format does not understand are looked at: another format wins when its lines are more than those
 * understood. An adblock list says so itself in its first line. */
const struct list_format *list_format_detect(const char *text, size_t len, const char **ret_name)
{
	unsigned count[LOOKS] = {0}, good = 0;
	enum line_look best = LOOK_NONE;
	struct line_entry e;
	bool is_empty;

	if (len > LIST_PROBE_MAX)
		len = LIST_PROBE_MAX;
	for (const char *p = text, *end = text + len, *nl; p < end; p = nl + 1) {
		const char *s = p;

		nl = memchr(p, '\n', (size_t)(end - p));
		if (!nl)
			nl = end;
		if (starts(s, (size_t)(nl - s), "\xef\xbb\xbf"))
			s += 3;
		while (s < nl && list_is_blank(*s))
			s++;
		good += is_understood(&list_format_domains, &e, s, (size_t)(nl - s), &is_empty);
		if (e.what == LINE_BAD)
			count[list_line_look(s, (size_t)(nl - s))] += starts(s, (size_t)(nl - s), "[adblock") ? LIST_PROBE_MAX : 1;
	}
	for (enum line_look l = LOOK_HOSTS; l < LOOKS; l++)
		if (count[l] > (best ? count[best] : 0))
			best = l;
	if (best && count[best] > good) {
		*ret_name = look_formats[best] ? look_formats[best]->name : "rpz";
		return look_formats[best];
	}
	*ret_name = list_format_domains.name;
	return &list_format_domains;
}
