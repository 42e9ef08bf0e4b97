/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "stat/query_text.h"
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "wire/msg.h"

const char *const query_outcome_name[OUTCOMES] = { "answered", "cached", "stale", "local", "blocked", "rewritten", "refused", "failed", "dropped" };

static const char *type_text(char buf[16], uint16_t type)
{
	static const struct { uint16_t type; const char *text; } known[] = { { RR_A, "A" }, { RR_AAAA, "AAAA" }, { RR_HTTPS, "HTTPS" }, { RR_PTR, "PTR" }, { RR_CNAME, "CNAME" },
		{ RR_MX, "MX" }, { RR_TXT, "TXT" }, { RR_SRV, "SRV" }, { RR_NS, "NS" }, { RR_SOA, "SOA" }, { RR_SVCB, "SVCB" }, { RR_DS, "DS" }, { RR_DNSKEY, "DNSKEY" }, { RR_NSEC, "NSEC" },
		{ RR_RRSIG, "RRSIG" }, { RR_DNAME, "DNAME" }, { RR_ANY, "ANY" }, { 35, "NAPTR" }, { 52, "TLSA" }, { 257, "CAA" } };
	for (unsigned i = 0; i < sizeof known / sizeof known[0]; i++)
		if (known[i].type == type)
			return known[i].text;
	snprintf(buf, 16, "TYPE%u", type);
	return buf;
}

static const char *rcode_text(char buf[16], uint8_t rcode)
{
	static const char *const known[] = { "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN" };
	if (rcode < sizeof known / sizeof known[0])
		return known[rcode];
	snprintf(buf, 16, rcode == RCODE_BADVERS ? "BADVERS" : "RCODE%u", rcode);
	return buf;
}

/* Bytes of the whole UTF-8 character that begins here, or 0. */
static size_t utf8_len(const uint8_t *text, size_t len)
{
	size_t n = text[0] >= 0xf0 && text[0] < 0xf5 ? 4 : text[0] >= 0xe0 ? 3 : text[0] >= 0xc2 ? 2 : 0;
	if (!n || n > len || text[0] >= 0xf5)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	/* Overlong forms, surrogates, beyond Unicode. */
	if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) || (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f))
		return 0;
	return n;
}

void json_text_print(const char *text, size_t len, struct buf *out)
{
	const uint8_t *t = (const uint8_t *)text;
	buf_add(out, "\"", 1);
	for (size_t at = 0; at < len;) {
		size_t plain = at;
		while (plain < len && t[plain] >= ' ' && t[plain] < 0x7f && t[plain] != '"' && t[plain] != '\\')
			plain++;
		buf_add(out, t + at, plain - at);
		at = plain;
		if (at == len)
			break;
		size_t whole = t[at] >= 0x80 ? utf8_len(t + at, len - at) : 0;
		if (t[at] == '"' || t[at] == '\\')
			buf_printf(out, "\\%c", t[at]);
		else if (whole)
			buf_add(out, t + at, whole);
		else
			buf_add(out, "?", 1);
		at += whole ? whole : 1;
	}
	buf_add(out, "\"", 1);
}

void query_entry_print(const struct query_entry *e, struct buf *out)
{
	char name[NAME_TEXT_MAX], addr[ADDR_TEXT_MAX], type[16], rcode[16], when[32];
	time_t s = (time_t)(e->wall_ms / 1000);
	struct tm tm;
	if (!gmtime_r(&s, &tm) || !strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &tm))
		when[0] = 0;
	buf_printf(out, "{\"time\":\"%s.%03uZ\",\"at_ms\":%lld,\"client\":\"%s\",\"name\":", when, (unsigned)(e->wall_ms % 1000), (long long)e->wall_ms,
		e->client.family ? addr_print(addr, &e->client) : "");
	name_to_text(name, e->name);
	json_text_print(name, strlen(name), out);
	buf_printf(out, ",\"type\":\"%s\",\"rcode\":\"%s\",\"outcome\":\"%s\"", type_text(type, e->qtype), rcode_text(rcode, e->rcode), query_outcome_name[e->outcome]);
	if (e->filter) {
		buf_printf(out, ",\"filter\":");
		json_text_print(e->filter, e->filter_len, out);
	}
	if (e->steer) {
		buf_printf(out, ",\"steer\":");
		json_text_print(e->steer, e->steer_len, out);
	}
	buf_printf(out, ",\"took_us\":%u}\n", e->took_us);
}
