/* SPDX-License-Identifier: GPL-3.0-or-later */
/* resolv.conf(5) as the programs that write it mean it: `nameserver`, blanks, an address, and whatever follows is passed over.
 * Blanks before the word are taken as well. */
#include "config/resolv.h"
#include <stdio.h>
#include <string.h>

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static void server_parse(struct resolv_server *s)
{
	char addr[sizeof s->text];
	size_t len = strcspn(s->text, "%");
	snprintf(addr, sizeof addr, "%.*s", (int)len, s->text);
	if (addr_parse(&s->addr, addr) < 0)
		return;
	const char *scope = s->text + len + (s->text[len] == '%');
	bool is_good = s->text[len] ? s->addr.family == AF_INET6 && *scope && strlen(scope) < sizeof s->scope : true;
	if (!is_good)
		s->addr.family = 0;
	else
		memcpy(s->scope, scope, strlen(scope) + 1);
}

/* Whether the line names a server. */
static bool line_parse(const char *start, const char *end, struct resolv_server *ret)
{
	static const char word[] = "nameserver";
	const char *at = start;
	while (at < end && is_blank(*at))
		at++;
	if ((size_t)(end - at) <= sizeof word - 1 || memcmp(at, word, sizeof word - 1) || !is_blank(at[sizeof word - 1]))
		return false;
	at += sizeof word - 1;
	while (at < end && is_blank(*at))
		at++;
	if (at == end)
		return false;
	ret->column = (int)(at - start) + 1;
	size_t len = 0;
	while (at < end && !is_blank(*at) && len < sizeof ret->text - 1)
		ret->text[len++] = *at++;
	/* A text cut short must not read as another address. */
	bool is_cut = at < end && !is_blank(*at);
	if (!is_cut && !memchr(ret->text, 0, len))
		server_parse(ret);
	return true;
}

bool resolv_next(struct resolv_reader *r, struct resolv_server *ret)
{
	while (r->at < r->end) {
		const char *start = r->at, *nl = memchr(start, '\n', (size_t)(r->end - start));
		r->at = nl ? nl + 1 : r->end;
		r->line++;
		struct resolv_server s = {.line = r->line};
		if (line_parse(start, nl ? nl : r->end, &s)) {
			*ret = s;
			return true;
		}
	}
	return false;
}
