/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What stands behind the '$' of an adblock rule. Modifiers that only a browser can judge make the rule one that DNS does not apply, and so does none of
 * them ever widen a rule: `||x^$third-party` blocks nothing here. Types of content taken away (`~script`) leave the rule as it is, for a name is asked
 * whatever is fetched from it. What is not known is refused: a rule without its condition would block too much. No state; any thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "policy/exprs_private.h"

static const struct {
	const char *name;
	uint16_t type;
} dns_types[] = {{"A", 1}, {"NS", 2}, {"CNAME", 5}, {"SOA", 6}, {"PTR", 12}, {"HINFO", 13}, {"MX", 15}, {"TXT", 16}, {"RP", 17},
        {"AFSDB", 18}, {"SIG", 24}, {"KEY", 25}, {"AAAA", 28}, {"LOC", 29}, {"SRV", 33}, {"NAPTR", 35}, {"KX", 36}, {"CERT", 37},
        {"DNAME", 39}, {"APL", 42}, {"DS", 43}, {"SSHFP", 44}, {"IPSECKEY", 45}, {"RRSIG", 46}, {"NSEC", 47}, {"DNSKEY", 48},
        {"DHCID", 49}, {"NSEC3", 50}, {"NSEC3PARAM", 51}, {"TLSA", 52}, {"SMIMEA", 53}, {"HIP", 55}, {"CDS", 59}, {"CDNSKEY", 60},
        {"OPENPGPKEY", 61}, {"CSYNC", 62}, {"ZONEMD", 63}, {"SVCB", 64}, {"HTTPS", 65}, {"SPF", 99}, {"EUI48", 108},
        {"EUI64", 109}, {"IXFR", 251}, {"AXFR", 252}, {"ANY", 255}, {"URI", 256}, {"CAA", 257}};

/* Types of content: as a condition a browser's; taken away, none that a name has. */
static const char *const content_types[] = {"script", "stylesheet", "subdocument", "object", "image", "xmlhttprequest", "media",
        "font", "websocket", "ping", "other"};

/* Alone or with a value, and with '~' before them. */
static const char *const browser_only[] = {"third-party", "first-party", "3p", "1p", "strict-third-party", "strict-first-party",
        "strict3p", "strict1p", "match-case", "domain", "from", "to", "document", "doc", "all", "popup", "popunder", "csp",
        "redirect", "redirect-rule", "removeparam", "queryprune", "rewrite", "replace", "cookie", "stealth", "app", "network",
        "header", "method", "permissions", "removeheader", "hls", "jsonprune", "xmlprune", "referrerpolicy", "uritransform",
        "urltransform", "urlskip", "inline-script", "inline-font", "css", "frame", "xhr", "object-subrequest", "collapse",
        "donottrack", "webrtc", "beacon", "background", "xbl", "dtd", "empty", "mp4", "sitekey", "ipaddress", "cname"};

/* Those that only an exception may carry. */
static const char *const exception_only[] = {"elemhide", "generichide", "specifichide", "genericblock", "jsinject", "urlblock",
        "content", "extension", "ehide", "ghide", "shide"};

#define IS_AMONG(names, name) is_among(names, sizeof(names) / sizeof(*(names)), name)

static bool is_among(const char *const *names, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

static int bad(const char **ret_why, const char *why)
{
	*ret_why = why;
	return NW_EMALFORMED;
}

/* The text up to the next separator that no backslash precedes, the backslash taken away; *s moves behind the separator. Of a rule that is too long a
 * browser's modifier is still told, so the text may be cut. */
static void take_part(char ret[EXPR_TEXT_MAX + 1], const char **s, const char *end, char separator)
{
	const char *last = ret + EXPR_TEXT_MAX;

	for (; *s < end && **s != separator; (*s)++) {
		if (**s == '\\' && *s + 1 < end && (*s)[1] == separator)
			(*s)++;
		if (ret < last)
			*ret++ = **s;
	}
	*ret = '\0';
	if (*s < end)
		(*s)++;
}

static int type_number(const char *name)
{
	char *end;
	unsigned long n;

	for (size_t i = 0; i < sizeof(dns_types) / sizeof(*dns_types); i++)
		if (strcasecmp(dns_types[i].name, name) == 0)
			return dns_types[i].type;
	if (strncasecmp(name, "TYPE", 4) != 0 || name[4] < '1' || name[4] > '9')
		return -1;
	n = strtoul(name + 4, &end, 10);
	return *end || n > 65535 ? -1 : (int)n;
}

static int take_types(struct rule_text *ret, const char *value, const char **ret_why)
{
	const char *end = value + strlen(value);
	char name[EXPR_TEXT_MAX + 1];
	int type;

	if (value == end)
		return bad(ret_why, "$dnstype without a type");
	while (value < end) {
		take_part(name, &value, end, '|');
		type = type_number(name + (*name == '~'));
		if (type < 0)
			return bad(ret_why, "$dnstype with a type that is not known");
		if (ret->type_count == RULE_TYPES_MAX)
			return bad(ret_why, "more types than a rule may name");
		ret->types[ret->type_count++] = (struct rule_type){.type = (uint16_t)type, .is_not = *name == '~'};
	}
	return 0;
}

/* Bytes kept with the rule; their place, or -1. */
static int keep(struct rule_text *ret, const void *bytes, size_t len)
{
	int at = (int)ret->bytes_used;

	if (ret->bytes_used + len > RULE_BYTES_MAX)
		return -1;
	memcpy(ret->bytes + at, bytes, len);
	ret->bytes_used += (unsigned)len;
	return at;
}

static int take_denies(struct rule_text *ret, const char *value, const char **ret_why)
{
	const char *end = value + strlen(value);
	char text[EXPR_TEXT_MAX + 1];
	struct name n;
	int at;

	if (value == end)
		return bad(ret_why, "$denyallow without a domain");
	while (value < end) {
		take_part(text, &value, end, '|');
		if (strlen(text) > 2 && strcmp(text + strlen(text) - 2, ".*") == 0)
			return bad(ret_why, "$denyallow with a wildcard is not in this version");
		if (*text == '~' || name_from_user_text(&n, text, strlen(text)) < 0 || n.labels == 0)
			return bad(ret_why, "$denyallow with what is no domain");
		if (ret->deny_count == RULE_DENIES_MAX || (at = keep(ret, &n.len, 1)) < 0 || keep(ret, n.wire, n.len) < 0)
			return bad(ret_why, "more domains than a rule may name");
		ret->denies[ret->deny_count++] = (uint16_t)at;
	}
	return 0;
}

static void unquote(char *s)
{
	size_t len = strlen(s);
	char quote = *s, *to = s;

	if (len < 2 || (quote != '\'' && quote != '"') || s[len - 1] != quote)
		return;
	s[len - 1] = '\0';
	for (const char *p = s + 1; *p; p++)
		if (*p != '\\' || p[1] != quote)
			*to++ = *p;
	*to = '\0';
}

static bool is_ethernet(const char *s)
{
	for (int i = 0; i < 17; i++)
		if (i % 3 == 2 ? s[i] != ':' && s[i] != '-' : !s[i] || !strchr("0123456789abcdefABCDEF", s[i]))
			return false;
	return s[17] == '\0';
}

static int take_clients(struct rule_text *ret, const char *value, const char **ret_why)
{
	const char *end = value + strlen(value);
	char part[EXPR_TEXT_MAX + 1], *name;
	struct rule_client *c;
	int at;

	if (value == end)
		return bad(ret_why, "$client without a client");
	while (value < end) {
		take_part(part, &value, end, '|');
		name = part + (*part == '~');
		unquote(name);
		if (!*name)
			return bad(ret_why, "$client without a client");
		if (is_ethernet(name))
			return bad(ret_why, "$client with an Ethernet address: give the name of a group of `clients`");
		if (ret->client_count == RULE_CLIENTS_MAX || (at = keep(ret, name, strlen(name) + 1)) < 0)
			return bad(ret_why, "more clients than a rule may name");
		c = &ret->clients[ret->client_count++];
		*c = (struct rule_client){.is_not = *part == '~', .at = (uint16_t)at};
		c->is_prefix = prefix_parse(&c->prefix, name) == 0;
	}
	return 0;
}

/* One modifier. NW_EREFUSED: a browser's. */
static int take(struct rule_text *ret, char *option, const char **ret_why)
{
	char *value = strchr(option, '=');
	const char *bare = option + (*option == '~');

	if (value && value > option)
		*value++ = '\0';
	if (strcmp(option, "important") == 0)
		ret->is_important = true;
	else if (strcmp(option, "badfilter") == 0)
		ret->is_bad = true;
	else if (strcmp(option, "dnstype") == 0)
		return take_types(ret, value ? value : "", ret_why);
	else if (strcmp(option, "denyallow") == 0)
		return take_denies(ret, value ? value : "", ret_why);
	else if (strcmp(option, "client") == 0)
		return take_clients(ret, value ? value : "", ret_why);
	else if (strcmp(option, "ctag") == 0)
		return bad(ret_why, "$ctag is not in this version");
	else if (strcmp(option, "dnsrewrite") == 0)
		return bad(ret_why,
		        "$dnsrewrite is not in this version; `answer` and `cname` of a filter rule say what is answered");
	else if (IS_AMONG(content_types, bare))
		return *option == '~' ? 0 : NW_EREFUSED;
	else if (IS_AMONG(browser_only, bare) || (ret->is_allow && IS_AMONG(exception_only, bare)))
		return NW_EREFUSED;
	else if (IS_AMONG(exception_only, bare))
		return bad(ret_why, "a modifier that only an exception (@@) may have");
	else
		return bad(ret_why, "a modifier that is not known");
	return value ? bad(ret_why, "a value behind a modifier that has none") : 0;
}

int rule_parse_modifiers(struct rule_text *ret, const char *text, size_t len, const char **ret_why)
{
	const char *end = text + len;
	char option[EXPR_TEXT_MAX + 1];
	unsigned count = 0;
	int r = 0, one;

	/* A browser's condition makes the rule one that is passed over, whatever else stands there. */
	while (text < end) {
		if (++count > RULE_MODIFIERS_MAX)
			return bad(ret_why, "more modifiers than a rule may have");
		take_part(option, &text, end, ',');
		one = *option ? take(ret, option, ret_why) : 0;
		if (one == NW_EREFUSED)
			return one;
		if (r == 0)
			r = one;
	}
	return r;
}
