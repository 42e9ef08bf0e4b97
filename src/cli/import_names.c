/* SPDX-License-Identifier: GPL-3.0-or-later */
/* dnsmasq's options of the form /domain/…/VALUE: who is asked for these domains, what is answered for them, which nft sets they fill. What they say is
 * only gathered here; import_settle.c decides. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "base/addr.h"
#include "cli/import.h"
#include "wire/name.h"

static const char bad_value[] = "its value is not understood";
static const char bad_name[] = "it is no domain name";
static const char bad_server[] = "it is no address of a server";

char *import_word(char **p, char sep)
{
	char *start = *p, *end, *stop;

	if (!start)
		return NULL;
	end = strchr(start, sep);
	*p = end ? end + 1 : NULL;
	stop = end ? end : start + strlen(start);
	start += strspn(start, " ");
	while (stop > start && stop[-1] == ' ')
		stop--;
	*stop = '\0';
	return import_unhide(start);
}

bool import_number(const char *text, long max, long *ret)
{
	char *end;
	long n = text && isdigit((unsigned char)*text) ? strtol(text, &end, 10) : -1;

	if (n < 0 || *end || n > max)
		return false;
	*ret = n;
	return true;
}

bool import_is_address(const char *text)
{
	struct addr a;

	return addr_parse(&a, text) == 0;
}

/* Letters, digits, '-', '_', dots, and Unicode: what a line of a list and a zone file may hold as it is. */
const char *import_name(struct import *m, const char *text)
{
	char buf[NAME_TEXT_MAX];
	struct name n;

	for (const char *p = text; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("-_.", *p) && (unsigned char)*p < 0x80)
			return NULL;
	if (!*text || name_from_user_text(&n, text, strlen(text)) < 0 || !n.labels)
		return NULL;
	return import_text(m, "%s", name_to_text(buf, n.wire));
}

/* A domain of such an option, as struct import_said has it; NULL: *ret_why. */
static const char *domain_text(struct import *m, const char *text, const char **ret_why)
{
	const char *name, *marks = "";

	if (!*text)
		return "";
	while (*text == '.')
		text++;
	if (strcmp(text, "#") == 0)
		return ".";
	if (*text == '*') {
		marks = text[1] == '.' ? "*." : "*";
		text += strlen(marks);
	}
	name = import_name(m, text);
	*ret_why = bad_name;
	return name ? import_text(m, "%s%s", marks, name) : NULL;
}

static bool is_pattern(const char *domain)
{
	return *domain == '*' || !*domain;
}

/* "/a/b/REST": the domains, and REST ("" when there is none). NULL: *ret_why. */
static char *split_domains(struct import *m, char *value, struct texts *ret, const char **ret_why)
{
	char *last = strrchr(value, '/'), *p = value + 1, *w;
	const char *domain;

	*ret_why = bad_value;
	if (*value != '/' || last == value)
		return NULL;
	*last = '\0';
	while ((w = import_word(&p, '/'))) {
		domain = domain_text(m, w, ret_why);
		if (!domain)
			return NULL;
		texts_add(m, ret, domain);
	}
	import_unhide(last + 1);
	return last + 1 + strspn(last + 1, " ");
}

void import_say(struct import *m, struct import_saids *to, const char *domain, enum import_class class, const char *value, struct import_line *line)
{
	if (!import_grow(m, &to->v, to->count, &to->cap, sizeof(*to->v)))
		return;
	to->v[to->count] = (struct import_said){.domain = domain, .value = value, .class = class, .order = to->count, .line = line};
	to->count++;
}

static const char *say_all(struct import *m, const struct texts *domains, enum import_class class, const char *value)
{
	for (size_t i = 0; i < domains->count; i++)
		import_say(m, &m->said, domains->v[i], class, value, m->now);
	return NULL;
}

/* "IP#PORT@interface" as ours, or NULL. */
static const char *server_text(struct import *m, char *text)
{
	char *at = strchr(text, '@'), *port;
	long number = 53;

	if (at)
		*at = '\0';
	port = strchr(text, '#');
	if (port)
		*port++ = '\0';
	if (!import_is_address(text) || (port && (!import_number(port, 65535, &number) || !number)))
		return NULL;
	if (at)
		import_note(m, "the interface or address that questions leave from is not carried over; the routes decide, or a way with an `upstream`");
	return number == 53 ? import_text(m, "%s", text) : import_text(m, strchr(text, ':') ? "[%s]@%ld" : "%s@%ld", text, number);
}

static const char *servers_for(struct import *m, const struct texts *domains, const char *server)
{
	for (size_t i = 0; i < domains->count; i++)
		if (is_pattern(domains->v[i]))
			return *domains->v[i] ? "servers belong to whole domains here, not to patterns" : "names without a dot have no servers of their own here";
	for (size_t i = 0; i < domains->count; i++)
		if (strcmp(domains->v[i], ".") != 0)
			import_say(m, &m->said, domains->v[i], server ? IMPORT_SERVERS : IMPORT_STANDARD, server ? server : "", m->now);
		else if (server)
			texts_add_new(m, &m->servers, server);
	return NULL;
}

const char *take_server(struct import *m, char *value)
{
	struct texts domains = {0};
	const char *why, *server;
	char *rest;

	if (*value != '/') {
		server = server_text(m, value);
		if (server)
			texts_add_new(m, &m->servers, server);
		return server ? NULL : bad_server;
	}
	rest = split_domains(m, value, &domains, &why);
	if (!rest)
		return why;
	if (!*rest)
		return say_all(m, &domains, IMPORT_NXDOMAIN, "");
	if (strcmp(rest, "#") == 0)
		return servers_for(m, &domains, NULL);
	server = server_text(m, rest);
	return server ? servers_for(m, &domains, server) : bad_server;
}

const char *take_address(struct import *m, char *value)
{
	struct texts domains = {0};
	const char *why;
	char *rest = split_domains(m, value, &domains, &why);

	if (!rest)
		return why;
	if (!*rest)
		return say_all(m, &domains, IMPORT_NXDOMAIN, "");
	if (strcmp(rest, "#") == 0 || strcmp(rest, "0.0.0.0") == 0 || strcmp(rest, "::") == 0)
		return say_all(m, &domains, IMPORT_ZERO, "");
	return import_is_address(rest) ? say_all(m, &domains, IMPORT_ANSWER, import_text(m, "%s", rest)) : bad_value;
}

void import_list_line(struct import *m, const char *path, char *value, struct import_line *line)
{
	struct texts domains = {0};
	const char *why;

	if (!split_domains(m, value, &domains, &why))
		return;
	for (size_t i = 0; i < domains.count; i++)
		if (!is_pattern(domains.v[i]) && strcmp(domains.v[i], ".") != 0)
			import_say(m, &m->said, domains.v[i], IMPORT_FILE, path, line);
}

/* --- nft sets --- */

/* "[4#|6#][FAMILY#]TABLE#SET" as "4 FAMILY TABLE SET", or NULL. */
static const char *set_text(struct import *m, char *text)
{
	char which = 0, *parts[3], *w;
	unsigned count = 0;

	if ((text[0] == '4' || text[0] == '6') && text[1] == '#') {
		which = text[0];
		text += 2;
	}
	while ((w = import_word(&text, '#'))) {
		if (!*w || count == 3 || strchr(w, ' '))
			return NULL;
		parts[count++] = w;
	}
	if (count < 2)
		return NULL;
	if (!which && count == 3 && strcmp(parts[0], "ip") != 0 && strcmp(parts[0], "ip6") != 0) {
		which = strchr(parts[2], '6') ? '6' : '4';
		import_note(m, which == '6' ? "whether the set holds IPv4 or IPv6 addresses is not said; taken as IPv6 by its name"
		                            : "whether the set holds IPv4 or IPv6 addresses is not said; taken as IPv4 by its name");
	}
	if (!which)
		which = count == 3 && strcmp(parts[0], "ip6") == 0 ? '6' : '4';
	return count == 3 ? import_text(m, "%c %s %s %s", which, parts[0], parts[1], parts[2]) : import_text(m, "%c ip %s %s", which, parts[0], parts[1]);
}

/* Lines for one domain add up, whether they are one line with commas or several. */
const char *take_nftset(struct import *m, char *value)
{
	struct texts domains = {0}, sets = {0};
	const char *why, *set;
	char *rest = split_domains(m, value, &domains, &why), *w;

	if (!rest || !*rest)
		return rest ? bad_value : why;
	while ((w = import_word(&rest, ','))) {
		set = set_text(m, w);
		if (!set)
			return "a set is [4#|6#][FAMILY#]TABLE#SET";
		texts_add(m, &sets, set);
	}
	for (size_t i = 0; i < domains.count; i++)
		for (size_t k = 0; k < sets.count; k++)
			import_say(m, &m->sets_said, domains.v[i], IMPORT_ANSWER, sets.v[k], m->now);
	return NULL;
}

/* --- others --- */

const char *take_rebind_ok(struct import *m, char *value)
{
	const char *name;
	char *w;

	if (*value == '/')
		value++;
	while ((w = import_word(&value, '/'))) {
		if (!*w)
			continue;
		name = import_name(m, w + strspn(w, "."));
		if (!name)
			return bad_name;
		texts_add_new(m, &m->rebind_ok, name);
	}
	return NULL;
}

/* The reverse names of a prefix: of those that end inside a label, every value of it. */
static void reverse_domains(struct import *m, const struct prefix *p, struct texts *ret)
{
	unsigned unit = p->addr.family == AF_INET ? 8 : 4, labels = (p->len + unit - 1) / unit, free_bits = labels * unit - p->len;

	for (unsigned n = 0; n < 1u << free_bits; n++) {
		char name[128] = "";

		for (unsigned i = labels; i-- > 0;) {
			unsigned value = unit == 8 ? p->addr.b[i] : i % 2 ? p->addr.b[i / 2] & 15u : p->addr.b[i / 2] >> 4;

			snprintf(name + strlen(name), sizeof(name) - strlen(name), unit == 8 ? "%u." : "%x.", i == labels - 1 ? value + n : value);
		}
		texts_add(m, ret, import_text(m, "%s%s", name, unit == 8 ? "in-addr.arpa" : "ip6.arpa"));
	}
}

const char *take_rev_server(struct import *m, char *value)
{
	char *net = import_word(&value, ','), *rest = import_word(&value, ',');
	struct texts domains = {0};
	struct prefix p;
	const char *server;

	if (!rest || prefix_parse(&p, net) < 0 || !p.len)
		return bad_value;
	reverse_domains(m, &p, &domains);
	server = server_text(m, rest);
	return server ? servers_for(m, &domains, server) : bad_server;
}
