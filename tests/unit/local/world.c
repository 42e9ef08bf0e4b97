/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "world.h"
#include <stdio.h>
#include <stdlib.h>

static const struct {
	uint16_t type;
	const char *text;
} types[] = {{RR_A, "A"}, {RR_AAAA, "AAAA"}, {RR_CNAME, "CNAME"}, {RR_PTR, "PTR"}, {RR_TXT, "TXT"}, {RR_MX, "MX"},
        {RR_HTTPS, "HTTPS"}};

struct name name_of(const char *text)
{
	struct name n;

	assert_int_equal(name_from_text(&n, text, strlen(text)), 0);
	return n;
}

void world_begin(struct world *w)
{
	memset(w, 0, sizeof *w);
	report_init(&w->report);
	w->c.upstreams = &w->upstream;
	w->c.upstream_count = 1;
	w->upstream.domains = w->domains;
	w->c.local.records = w->records;
	w->c.local.rebind_allow = w->allow;
}

void world_end(struct world *w)
{
	local_free(w->l);
	report_free(&w->report);
	for (unsigned i = 0; i < w->text_count; i++)
		free((char *)w->texts[i].bytes);
}

void world_domain(struct world *w, const char *name)
{
	w->c.local.domain = name_of(name);
	w->c.local.has_domain = true;
}

void world_forwards(struct world *w, const char *name)
{
	w->domains[w->upstream.domain_count++] = name_of(name);
}

void world_record(struct world *w, const char *owner, uint16_t type, const char *data)
{
	unsigned i = w->c.local.record_count++;
	struct cfg_record *rec = &w->records[i];
	struct addr a;

	assert_true(i < WORLD_MAX);
	rec->scope = owner[0] == '*' ? OWNER_WILDCARD : owner[0] == '.' && owner[1] ? OWNER_SUBTREE : OWNER_EXACT;
	rec->owner = name_of(owner + (rec->scope == OWNER_WILDCARD ? 2 : rec->scope == OWNER_SUBTREE));
	rec->place = (struct place){.file = "main.yaml", .line = (int)i + 1, .column = 1};
	rec->type = type;
	rec->ttl_s = 300;
	rec->rdata = w->rdata[i];
	if (type == RR_A || type == RR_AAAA) {
		assert_int_equal(addr_parse(&a, data), 0);
		rec->rdlen = a.family == AF_INET ? 4 : 16;
		memcpy(w->rdata[i], a.b, rec->rdlen);
	} else if (type == RR_CNAME || type == RR_PTR) {
		struct name n = name_of(data);

		rec->rdlen = n.len;
		memcpy(w->rdata[i], n.wire, n.len);
	} else {
		rec->rdlen = (uint16_t)strlen(data);
		memcpy(w->rdata[i], data, rec->rdlen);
	}
}

void world_hosts(struct world *w, const char *text)
{
	static const char *const paths[] = {"hosts.0", "hosts.1", "hosts.2", "hosts.3"};
	size_t len = strlen(text);
	char *exact = malloc(len ? len : 1);

	/* Without a NUL behind, and gone when the table stands: nothing may rely on either. */
	memcpy(exact, text, len);
	w->texts[w->text_count] = (struct local_text){.path = paths[w->text_count], .bytes = exact, .len = len};
	w->text_count++;
}

void world_build(struct world *w)
{
	assert_int_equal(local_new(&w->l, &w->c, w->texts, w->text_count, WORLD_SEED, &w->report), 0);
	for (unsigned i = 0; i < w->text_count; i++)
		memset((char *)w->texts[i].bytes, 'x', w->texts[i].len);
	memset(w->rdata, 'x', sizeof w->rdata);
}

static size_t print_record(char *out, size_t room, const struct wire_record *rec)
{
	char text[NAME_TEXT_MAX], owner[NAME_TEXT_MAX], addr[ADDR_TEXT_MAX];
	const char *type = NULL, *value = text;
	struct addr a = {.family = rec->type == RR_A ? AF_INET : AF_INET6};

	for (unsigned i = 0; i < sizeof types / sizeof *types; i++)
		if (types[i].type == rec->type)
			type = types[i].text;
	assert_non_null(type);
	if (rec->type == RR_A || rec->type == RR_AAAA) {
		assert_int_equal(rec->rdlen, rec->type == RR_A ? 4 : 16);
		memcpy(a.b, rec->rdata, rec->rdlen);
		value = addr_print(addr, &a);
	} else if (rec->type == RR_CNAME || rec->type == RR_PTR) {
		name_to_text(text, rec->rdata);
	} else {
		snprintf(text, sizeof text, "%.*s", rec->rdlen, (const char *)rec->rdata);
	}
	if (rec->owner)
		return (size_t)snprintf(out, room, "[%s] %s %s ", name_to_text(owner, rec->owner), type, value);
	return (size_t)snprintf(out, room, "%s %s ", type, value);
}

const char *ask(struct world *w, const char *name, uint16_t type)
{
	static const char *const kinds[] = {[LOCAL_NONE] = "none",
	        [LOCAL_ANSWER] = "",
	        [LOCAL_NODATA] = "nodata",
	        [LOCAL_NXDOMAIN] = "nxdomain",
	        [LOCAL_ALIAS] = "alias "};
	uint64_t hashes[NAME_LABELS_MAX + 1];
	struct name n = name_of(name);
	char target[NAME_TEXT_MAX];
	size_t at = 0;

	name_hash(&n, WORLD_SEED, hashes);
	memset(&w->a, 0xee, sizeof w->a);
	local_find(w->l, &n, hashes, type, &w->a);
	if (w->a.kind == LOCAL_NONE)
		return "none";
	assert_true(w->a.has_authority && w->a.source && w->a.record_count <= LOCAL_RECORDS_MAX);
	if (w->a.kind == LOCAL_NODATA || w->a.kind == LOCAL_NXDOMAIN)
		assert_true(w->a.ede == EDE_SYNTHESIZED && w->a.text && strlen(w->a.text) <= 120 && w->a.negative_ttl_s);
	for (unsigned i = 0; i < w->a.record_count; i++)
		at += print_record(w->said + at, sizeof w->said - at, &w->a.records[i]);
	at += (size_t)snprintf(w->said + at, sizeof w->said - at, "%s%s", kinds[w->a.kind],
	        w->a.kind == LOCAL_ALIAS ? name_to_text(target, w->a.target.wire) : "");
	if (at && w->said[at - 1] == ' ')
		w->said[at - 1] = '\0';
	return w->said;
}
