/* SPDX-License-Identifier: GPL-3.0-or-later */
/* dnsmasq's configuration lines as a list: every domain of
 *
 *   address=/a/b/ADDRESS   server=/a/b/ADDRESS   local=/a/   ipset=/a/b/SETS   nftset=/a/b/SETS
 *
 * with all under it. What stands behind the last '/' is not used, but for '#' of server and local: "the standard servers", which
 * exempts. As dnsmasq has it, .x is x, *x is every name that ends so, *.x all under x but not x, '#' every name, and nothing
 * between two '/' the names without a dot. Other options carry no names for a list and are left out; blanks around '=', before the
 * line and a comment behind a blank do not matter. No state; any thread. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "policy/list_format.h"

/* An option of the line: its key, and its value from the first '/' to behind the last one. */
struct option {
	const char *key;
	size_t key_len, from, to, end;
};

static bool is_key(const struct option *o, const char *key)
{
	return o->key_len == strlen(key) && memcmp(o->key, key, o->key_len) == 0;
}

static bool has_names(const struct option *o)
{
	static const char *const keys[] = {"address", "server", "local", "ipset", "nftset"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (is_key(o, keys[i]))
			return true;
	return false;
}

/* Options without a value: where there is no '=' only these tell an option from a stray word. */
static bool is_flag(const struct option *o)
{
	static const char *const keys[] = {"all-servers", "bind-dynamic", "bind-interfaces", "bogus-priv", "clear-on-reload",
	        "conntrack", "connmark-allowlist-enable", "dhcp-authoritative", "dhcp-client-update", "dhcp-fqdn",
	        "dhcp-ignore-clid", "dhcp-ignore-names", "dhcp-no-override", "dhcp-rapid-commit", "dhcp-sequential-ip", "dnssec",
	        "dnssec-check-unsigned", "dnssec-debug", "dnssec-no-timecheck", "dns-loop-detect", "domain-needed", "enable-dbus",
	        "enable-ra", "enable-tftp", "enable-ubus", "expand-hosts", "fast-dns-retry", "filter-A", "filter-AAAA", "filterwin2k",
	        "keep-in-foreground", "leasefile-ro", "localise-queries", "localmx", "log-async", "log-debug", "log-dhcp",
	        "log-queries", "no-0x20-encode", "no-daemon", "no-dhcp-interface", "no-hosts", "no-ident", "no-negcache", "no-ping",
	        "no-poll", "no-resolv", "no-round-robin", "proxy-dnssec", "quiet-dhcp", "quiet-dhcp6", "quiet-ra",
	        "quiet-tftp", "read-ethers", "rebind-localhost-ok", "script-arp", "script-on-renewal", "selfmx", "stop-dns-rebind",
	        "strict-order", "strip-mac", "strip-subnet", "tftp-lowercase", "tftp-no-blocksize", "tftp-no-fail", "tftp-secure",
	        "tftp-single-port", "tftp-unique-root", "use-stale-cache", "add-mac", "add-subnet", "add-cpe-id", "do-0x20-encode"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (is_key(o, keys[i]))
			return true;
	return false;
}

/* The end of what counts: before a '#' behind a blank, and before blanks. */
static size_t trimmed_end(const char *line, size_t from, size_t len)
{
	size_t end = from;

	for (size_t i = from; i < len && !(line[i] == '#' && (i == from || list_is_blank(line[i - 1]))); i++)
		if (!list_is_blank(line[i]))
			end = i + 1;
	return end;
}

/* What the line is: LINE_NAME when names follow, else what *ret says. */
static bool split(struct option *o, struct line_entry *ret, const char *line, size_t len)
{
	size_t at = len >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
	const char *last;

	while (at < len && list_is_blank(line[at]))
		at++;
	o->end = trimmed_end(line, at, len);
	ret->what = LINE_EMPTY;
	if (at >= o->end)
		return false;
	o->key = line + at;
	while (at < o->end && (isalnum((unsigned char)line[at]) || line[at] == '-'))
		at++;
	o->key_len = (size_t)(line + at - o->key);
	while (at < o->end && list_is_blank(line[at]))
		at++;
	if (at == o->end && is_flag(o))
		return false;
	if (o->key_len == 0 || at == o->end || line[at] != '=') {
		list_parse_bad(ret, "no option of dnsmasq");
		return false;
	}
	for (at++; at < o->end && list_is_blank(line[at]); at++)
		;
	if (!has_names(o) || at == o->end || line[at] != '/')
		return false;
	last = memrchr(line + at, '/', o->end - at);
	o->from = at;
	o->to = (size_t)(last - line) + 1;
	if (o->to == o->from + 1) {
		list_parse_bad(ret, "no second '/' behind the names");
		return false;
	}
	return true;
}

static void put_rule(struct line_entry *ret, const char *rule, size_t len)
{
	ret->what = LINE_RULE;
	ret->rule = rule;
	ret->rule_len = len;
}

/* "*x": the pattern of an expression, for it is no name of the index. */
static void parse_wildcard(struct line_entry *ret, const char *s, size_t len, bool is_exempt)
{
	size_t n = 0;

	if (is_exempt) {
		list_parse_bad(ret, "an exception with a wildcard");
		return;
	}
	if (len > NAME_WIRE_MAX - 2 || len < 2) {
		list_parse_bad(ret, "an empty or too long label, or a too long name");
		return;
	}
	ret->made[n++] = '*';
	for (size_t i = 1; i < len; i++) {
		if (!isalnum((unsigned char)s[i]) && s[i] != '-' && s[i] != '_' && s[i] != '.') {
			list_parse_bad(ret, "a character that no name has");
			return;
		}
		ret->made[n++] = (char)tolower((unsigned char)s[i]);
	}
	ret->made[n++] = '^';
	put_rule(ret, ret->made, n);
}

static void parse_domain(struct line_entry *ret, const char *s, size_t len, bool is_exempt)
{
	static const char without_dot[] = "/^[^.]+$/";

	if (len == 0 && is_exempt) {
		list_parse_bad(ret, "an exception of all names without a dot");
		return;
	}
	if (len == 0) {
		put_rule(ret, without_dot, sizeof(without_dot) - 1);
		return;
	}
	if (*s == '*') {
		parse_wildcard(ret, s, len, is_exempt);
		return;
	}
	if (len == 1 && *s == '#') {
		ret->what = LINE_NAME;
		ret->name = (struct name){.len = 1};
	} else if (*s == '.' && len > 1 && s[1] != '.') {
		list_parse_name(ret, s + 1, len - 1);
	} else {
		list_parse_name(ret, s, len);
	}
	ret->kind = is_exempt ? KIND_EXEMPT : KIND_SUFFIX;
	ret->is_marked = true;
}

static void dnsmasq_parse(struct line_entry *ret, const char *line, size_t len, size_t *at)
{
	const char *stop;
	struct option o;
	bool is_exempt;
	size_t from;

	if (len > LIST_LINE_MAX) {
		list_parse_bad(ret, "the line is too long");
		*at = len;
		return;
	}
	if (!split(&o, ret, line, len)) {
		*at = len;
		return;
	}
	is_exempt = o.end == o.to + 1 && line[o.to] == '#' && (is_key(&o, "server") || is_key(&o, "local"));
	from = *at == 0 ? o.from + 1 : *at;
	stop = memchr(line + from, '/', o.to - from);
	parse_domain(ret, line + from, (size_t)(stop - line) - from, is_exempt);
	*at = (size_t)(stop - line) + 1;
	if (*at >= o.to)
		*at = len;
}

static int dnsmasq_probe(const char *text, size_t len)
{
	return list_probe_share(&list_format_dnsmasq, text, len);
}

const struct list_format list_format_dnsmasq = {
        .name = "dnsmasq", .id = FORMAT_DNSMASQ, .probe = dnsmasq_probe, .parse = dnsmasq_parse};
