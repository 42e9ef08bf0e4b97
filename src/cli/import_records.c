/* SPDX-License-Identifier: GPL-3.0-or-later */
/* dnsmasq's records as lines of a zone. */
#include <ctype.h>
#include <string.h>
#include "cli/import.h"

static const char bad_value[] = "its value is not understood";
static const char bad_name[] = "it is no domain name";

static const char *add_record(struct import *m, const char *record)
{
	texts_add(m, &m->records, record);
	return NULL;
}

/* A character-string in quotes. */
static const char *quoted(struct import *m, const char *text)
{
	char *ret = arena_alloc(m->arena, strlen(text) * 4 + 3), *to = ret;

	if (!ret) {
		import_out_of_memory(m);
		return "";
	}
	*to++ = '"';
	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		if (*p < 0x20 || *p >= 0x7f || *p == '"' || *p == '\\')
			to += sprintf(to, "\\%03u", *p);
		else
			*to++ = (char)*p;
	}
	*to = '"';
	return ret;
}

/* A name that may be one of service discovery, with blanks in it. */
static const char *service_name(struct import *m, const char *text)
{
	const char *plain = import_name(m, text);
	char *ret, *to;

	if (plain || !*text)
		return plain;
	ret = to = arena_alloc(m->arena, strlen(text) * 4 + 1);
	if (!ret)
		return import_out_of_memory(m);
	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		if (isalnum(*p) || strchr("-_.", *p))
			*to++ = (char)*p;
		else
			to += sprintf(to, "\\%03u", *p);
	}
	return ret;
}

const char *take_cname(struct import *m, char *value)
{
	const char *names[64], *name;
	unsigned count = 0;
	long ttl = -1;
	char *w;

	while ((w = import_word(&value, ','))) {
		if (count >= 2 && !value && import_number(w, 86400, &ttl))
			break;
		name = w[0] == '*' && w[1] == '.' ? import_name(m, w + 2) : import_name(m, w);
		if (!name)
			return bad_name;
		if (count == sizeof(names) / sizeof(*names))
			return "more than 63 aliases in one line";
		names[count++] = *w == '*' ? import_text(m, "*.%s", name) : name;
	}
	if (count < 2 || *names[count - 1] == '*')
		return bad_value;
	for (unsigned i = 0; i + 1 < count; i++)
		add_record(m, ttl >= 0 ? import_text(m, "%s %ld CNAME %s", names[i], ttl, names[count - 1]) : import_text(m, "%s CNAME %s", names[i], names[count - 1]));
	return NULL;
}

/* Of several addresses of one family the last counts. */
const char *take_host_record(struct import *m, char *value)
{
	const char *addresses[2] = {NULL, NULL}, *ttl = "", *name;
	struct texts names = {0};
	long number;
	char *w;

	while ((w = import_word(&value, ','))) {
		if (import_is_address(w)) {
			addresses[strchr(w, ':') != NULL] = w;
		} else if (!value && import_number(w, 86400, &number)) {
			ttl = import_text(m, "%ld ", number);
		} else {
			name = import_name(m, w);
			if (!name)
				return bad_name;
			texts_add(m, &names, name);
		}
	}
	if (!names.count || (!addresses[0] && !addresses[1]))
		return bad_value;
	for (size_t i = 0; i < names.count; i++)
		for (unsigned k = 0; k < 2; k++)
			if (addresses[k])
				add_record(m, import_text(m, "%s %s%s %s", names.v[i], ttl, k ? "AAAA" : "A", addresses[k]));
	return NULL;
}

const char *take_txt(struct import *m, char *value)
{
	const char *name = import_name(m, import_word(&value, ',')), *text = "";
	char *w;

	if (!name)
		return bad_name;
	while ((w = import_word(&value, ','))) {
		if (strlen(w) > 255)
			return "a string of more than 255 bytes; cut it in two";
		text = import_text(m, "%s %s", text, quoted(m, w));
	}
	return add_record(m, import_text(m, "%s TXT%s", name, *text ? text : " \"\""));
}

const char *take_srv(struct import *m, char *value)
{
	char *owner = import_word(&value, ','), *to = import_word(&value, ','), *rest[3];
	long port = 1, priority = 0, weight = 0, *numbers[3] = {&port, &priority, &weight};
	const char *name = import_name(m, owner), *target = to && *to ? import_name(m, to) : ".", *dot;

	if (!name || !target)
		return bad_name;
	for (unsigned i = 0; i < 3; i++) {
		rest[i] = import_word(&value, ',');
		if (rest[i] && *rest[i] && !import_number(rest[i], 65535, numbers[i]))
			return bad_value;
	}
	dot = strchr(name, '.');
	texts_add(m, dot && !strchr(dot + 1, '.') ? &m->short_srv : &m->records, import_text(m, "%s SRV %ld %ld %ld %s", name, priority, weight, port, target));
	return NULL;
}

const char *take_mx(struct import *m, char *value)
{
	char *owner = import_word(&value, ','), *to = import_word(&value, ','), *last = import_word(&value, ',');
	const char *name = import_name(m, owner), *target = to && *to ? import_name(m, to) : "";
	long preference = 1;

	if (!name || !target)
		return bad_name;
	if (last && *last && !import_number(last, 65535, &preference))
		return bad_value;
	if (*target)
		return add_record(m, import_text(m, "%s MX %ld %s", name, preference, target));
	import_say(m, &m->mx_self, name, 0, import_text(m, "%ld", preference), m->now);
	return NULL;
}

const char *take_ptr(struct import *m, char *value)
{
	char *owner = import_word(&value, ','), *to = import_word(&value, ',');
	const char *name = service_name(m, owner), *target = to ? service_name(m, to) : NULL;

	return name && target ? add_record(m, import_text(m, "%s PTR %s", name, target)) : bad_name;
}

/* NAME,ORDER,PREFERENCE,FLAGS,SERVICE,REGEXP[,REPLACEMENT] */
const char *take_naptr(struct import *m, char *value)
{
	char *w[7];
	long order, preference;
	const char *name, *replacement;

	for (unsigned i = 0; i < 7; i++)
		w[i] = import_word(&value, ',');
	name = import_name(m, w[0]);
	if (!name || !w[5] || !import_number(w[1], 65535, &order) || !import_number(w[2], 65535, &preference))
		return bad_value;
	replacement = w[6] && *w[6] ? import_name(m, w[6]) : ".";
	if (!replacement || strlen(w[3]) > 255 || strlen(w[4]) > 255 || strlen(w[5]) > 255)
		return bad_value;
	return add_record(m, import_text(m, "%s NAPTR %ld %ld %s %s %s %s", name, order, preference, quoted(m, w[3]), quoted(m, w[4]), quoted(m, w[5]), replacement));
}

/* NAME,FLAGS,TAG,VALUE */
const char *take_caa(struct import *m, char *value)
{
	char *owner = import_word(&value, ','), *flags = import_word(&value, ','), *tag = import_word(&value, ',');
	const char *name = import_name(m, owner);
	long number;

	if (!name || !tag || !value || !import_number(flags, 255, &number) || !*tag)
		return bad_value;
	for (const char *p = tag; *p; p++)
		if (!isalnum((unsigned char)*p))
			return bad_value;
	return add_record(m, import_text(m, "%s CAA %ld %s %s", name, number, tag, quoted(m, import_unhide(value))));
}

/* NAME,TYPE[,HEX] */
const char *take_rr(struct import *m, char *value)
{
	char *owner = import_word(&value, ','), *type = import_word(&value, ','), *hex = import_word(&value, ','), *to = hex;
	const char *name = import_name(m, owner);
	long number;

	if (!name || !import_number(type, 65535, &number) || !number)
		return bad_value;
	for (char *p = hex; p && *p; p++) {
		if (isxdigit((unsigned char)*p))
			*to++ = *p;
		else if (!strchr(": ", *p))
			return bad_value;
	}
	if (hex)
		*to = '\0';
	if (hex && strlen(hex) % 2)
		return bad_value;
	return add_record(m, import_text(m, "%s TYPE%ld \\# %zu %s", name, number, hex ? strlen(hex) / 2 : 0, hex ? hex : ""));
}
