/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The hosts file as a list: an address, then names, each of which is an entry that matches exactly. What the address is does not
 * matter. '#' begins a comment anywhere, as in hosts(5); blanks, tabs, CR, a byte order mark and case do not matter.
 *
 * Every such file begins with this machine's own names (localhost and the ip6- family), which are left out silently, and so is an
 * address that stands for a name and means nothing ("0.0.0.0 0.0.0.0"). No state; any thread. */
#include <string.h>
#include <strings.h>

#include "config/config.h"
#include "policy/list_format.h"

static size_t word_end(const char *line, size_t at, size_t end)
{
	while (at < end && !list_is_blank(line[at]))
		at++;
	return at;
}

static size_t skip_blanks(const char *line, size_t at, size_t end)
{
	while (at < end && list_is_blank(line[at]))
		at++;
	return at;
}

static bool is_word(const char *s, size_t len, const char *word)
{
	return len == strlen(word) && strncasecmp(s, word, len) == 0;
}

/* "fe80::1%lo0": the interface is cut off. */
static bool parse_address(struct addr *ret, const char *s, size_t len)
{
	const char *percent = memchr(s, '%', len);
	char text[ADDR_TEXT_MAX];

	if (percent)
		len = (size_t)(percent - s);
	if (len == 0 || len >= sizeof(text))
		return false;
	memcpy(text, s, len);
	text[len] = '\0';
	return addr_parse(ret, text) == 0;
}

static bool is_own_name(const char *s, size_t len)
{
	static const char *const names[] = {"localhost", "localhost.localdomain", "localhost4", "localhost4.localdomain4",
	        "localhost6", "localhost6.localdomain6", "local", "loopback", "broadcasthost"};

	if (len > 4 && strncasecmp(s, "ip6-", 4) == 0 && !memchr(s, '.', len))
		return true;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (is_word(s, len, names[i]))
			return true;
	return false;
}

/* 0.0.0.0, ::, and the loopback addresses. */
static bool is_nowhere(const struct addr *a)
{
	static const uint8_t zero[16];

	if (a->family == AF_INET)
		return a->b[0] == 0 || a->b[0] == 127;
	return memcmp(a->b, zero, 15) == 0 && a->b[15] <= 1;
}

static void parse_word(struct line_entry *ret, const char *s, size_t len)
{
	struct addr a;

	if (is_own_name(s, len)) {
		ret->what = LINE_EMPTY;
		return;
	}
	if (parse_address(&a, s, len)) {
		if (is_nowhere(&a))
			ret->what = LINE_EMPTY;
		else
			list_parse_bad(ret, "an address where a name belongs");
		return;
	}
	list_parse_name(ret, s, len);
	ret->kind = KIND_EXACT;
	ret->is_marked = false;
}

/* Behind the address and the blanks after it; `end` where the line has none, with *ret saying what it is. */
static size_t first_name(struct line_entry *ret, const char *line, size_t end)
{
	size_t at = end >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0 ? 3 : 0, stop;
	struct addr a;

	at = skip_blanks(line, at, end);
	if (at == end || line[at] == ';' || line[at] == '!') {
		ret->what = LINE_EMPTY;
		return end;
	}
	stop = word_end(line, at, end);
	if (!parse_address(&a, line + at, stop - at)) {
		list_parse_bad(ret, "no address at its start");
		return end;
	}
	at = skip_blanks(line, stop, end);
	if (at == end)
		list_parse_bad(ret, "an address without a name");
	return at;
}

static void hosts_parse(struct line_entry *ret, const char *line, size_t len, size_t *at)
{
	const char *comment = memchr(line, '#', len);
	size_t end = comment ? (size_t)(comment - line) : len, stop;

	if (*at == 0 && len > LIST_LINE_MAX) {
		list_parse_bad(ret, "the line is too long");
		*at = len;
		return;
	}
	if (*at == 0)
		*at = first_name(ret, line, end);
	if (*at == end) {
		*at = len;
		return;
	}
	stop = word_end(line, *at, end);
	parse_word(ret, line + *at, stop - *at);
	*at = skip_blanks(line, stop, end);
	if (*at == end)
		*at = len;
}

static int hosts_probe(const char *text, size_t len)
{
	return list_probe_share(&list_format_hosts, text, len);
}

const struct list_format list_format_hosts = {.name = "hosts", .id = FORMAT_HOSTS, .probe = hosts_probe, .parse = hosts_parse};
