/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The script of the upstream. Names are handled as lower-case text; names with dots or NULs inside labels are refused as
 * malformed, no test asks them. Owners in answers are written out without compression, but for the question's own name. */
#include "upstream_answer.h"
#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TYPE_A = 1, TYPE_CNAME = 5, TYPE_SOA = 6, TYPE_TXT = 16, TYPE_AAAA = 28, TYPE_OPT = 41, TYPE_SVCB = 64, TYPE_HTTPS = 65 };
enum { CLASS_D, CLASS_T1, CLASS_T2, CLASS_S };
enum { RECORDS_MAX = 4096, CHAIN_MAX = 12, HEADER = 12 };

struct record {
	char name[NAME_TEXT_MAX], target[NAME_TEXT_MAX];
	uint16_t type;
	uint32_t ttl;
	uint8_t address[16];
};
struct out {
	uint8_t *p;
	size_t at, max;
	unsigned answers, authorities, additionals;
};

uint32_t answer_ttl = 60;
enum answer_mode answer_mode;
static struct record *records;
static unsigned record_count;

int question_parse(struct question *ret, const uint8_t *m, size_t len)
{
	size_t at = HEADER, text = 0;

	if (len < HEADER || m[2] & 0x80 || m[4] || m[5] != 1)
		return -1;
	while (at < len && m[at]) {
		size_t label = m[at++];
		if (label > 63 || at + label >= len || text + label + 2 > NAME_TEXT_MAX)
			return -1;
		if (text)
			ret->name[text++] = '.';
		for (size_t i = 0; i < label; i++) {
			if (!m[at + i] || m[at + i] == '.')
				return -1;
			ret->name[text++] = (char)tolower(m[at + i]);
		}
		at += label;
	}
	ret->name[text] = 0;
	if (at + 5 > len)
		return -1;
	ret->type = (uint16_t)(m[at + 1] << 8 | m[at + 2]);
	ret->end = at + 5;
	ret->udp_size = 512;
	ret->has_edns = m[11] && ret->end + 11 <= len && !m[ret->end] && m[ret->end + 2] == TYPE_OPT;
	if (ret->has_edns)
		ret->udp_size = (uint16_t)(m[ret->end + 3] << 8 | m[ret->end + 4]);
	return 0;
}

static void put(struct out *o, const void *p, size_t len)
{
	if (o->at + len <= o->max)
		memcpy(o->p + o->at, p, len);
	o->at += len;
}

static void put8(struct out *o, unsigned v)
{
	put(o, &(uint8_t){(uint8_t)v}, 1);
}
static void put16(struct out *o, unsigned v)
{
	put8(o, v >> 8);
	put8(o, v);
}
static void put32(struct out *o, uint32_t v)
{
	put16(o, v >> 16);
	put16(o, v & 0xffff);
}

static void put_name(struct out *o, const char *name)
{
	while (*name) {
		size_t len = strcspn(name, ".");
		put8(o, (unsigned)len);
		put(o, name, len);
		name += len + (name[len] == '.');
	}
	put8(o, 0);
}

static void put_owner(struct out *o, const struct question *q, const char *name)
{
	if (strcmp(q->name, name))
		put_name(o, name);
	else
		put16(o, 0xc000 | HEADER);
}

/* Owner to TTL, and room for the length, which rdata_end fills in. */
static size_t rdata_begin(struct out *o, const struct question *q, const char *owner, uint16_t type, uint32_t ttl)
{
	put_owner(o, q, owner);
	put16(o, type);
	put16(o, 1);
	put32(o, ttl);
	put16(o, 0);
	return o->at;
}

static void rdata_end(struct out *o, size_t begin)
{
	if (o->at > o->max)
		return;
	o->p[begin - 2] = (uint8_t)((o->at - begin) >> 8);
	o->p[begin - 1] = (uint8_t)(o->at - begin);
}

static uint64_t hash_of(const char *name, unsigned salt)
{
	uint64_t h = 0xcbf29ce484222325u ^ salt * 0x9e3779b97f4a7c15u;
	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * 0x100000001b3u;
	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93u;
	return h ^ h >> 29;
}

static unsigned class_of(const char *name)
{
	for (const char *l = name; l; l = strchr(l, '.'), l += l != NULL) {
		if (!strncmp(l, "t1-", 3))
			return CLASS_T1;
		if (!strncmp(l, "t2-", 3))
			return CLASS_T2;
		if (!strncmp(l, "s-", 2))
			return CLASS_S;
		if (!strncmp(l, "d-", 2))
			return CLASS_D;
	}
	return CLASS_D;
}

/* An address that a label spells out. */
static bool given_address(uint8_t *ret, const char *name, bool is_6)
{
	const char *prefix = is_6 ? "ip6-" : "ip-";
	size_t skip = strlen(prefix), bytes = is_6 ? 16 : 4;

	while (*name && strncmp(name, prefix, skip)) {
		name += strcspn(name, ".");
		name += *name == '.';
	}
	for (size_t i = 0; *name && i < bytes; i++) {
		unsigned v;
		if (sscanf(name + skip + 2 * i, "%2x", &v) != 1)
			return false;
		ret[i] = (uint8_t)v;
	}
	return *name != 0;
}

/* The n-th address of a name: 198.18.0.0/15 and 2001:db8:f000::/36 hold the classes. */
static void address_of(uint8_t *ret, const char *name, unsigned salt, bool is_6)
{
	unsigned class = class_of(name);
	uint64_t h = hash_of(name, salt * 2 + is_6);

	if (given_address(ret, name, is_6))
		return;
	if (class == CLASS_S)
		h &= 63;
	if (is_6) {
		memcpy(ret, (uint8_t[8]){0x20, 0x01, 0x0d, 0xb8, 0xf0, (uint8_t) class, 0, 0}, 8);
		for (int i = 0; i < 8; i++)
			ret[8 + i] = (uint8_t)(h >> (56 - 8 * i));
		return;
	}
	uint32_t v = 198u << 24 | 18u << 16 | class << 15 | (uint32_t)(h & 0x7fff);
	for (int i = 0; i < 4; i++)
		ret[i] = (uint8_t)(v >> (24 - 8 * i));
}

static uint32_t ttl_of(const char *name)
{
	return strncmp(name, "ttl", 3) || !isdigit((unsigned char)name[3]) ? answer_ttl : (uint32_t)atoi(name + 3);
}

static void put_addresses(struct out *o, const struct question *q, const char *name, bool is_6, unsigned salt, unsigned count)
{
	uint8_t address[16];
	for (unsigned i = 0; i < count; i++) {
		address_of(address, name, salt + i, is_6);
		size_t begin = rdata_begin(o, q, name, is_6 ? TYPE_AAAA : TYPE_A, ttl_of(name));
		put(o, address, is_6 ? 16 : 4);
		rdata_end(o, begin);
	}
}

static void put_hint(struct out *o, const char *name, bool is_6)
{
	uint8_t address[16];
	put16(o, is_6 ? 6 : 4);
	put16(o, is_6 ? 16 : 4);
	address_of(address, name, is_6 ? 12 : 10, is_6);
	put(o, address, is_6 ? 16 : 4);
}

static void put_service(struct out *o, const struct question *q, const char *name, uint16_t type)
{
	bool has_target = hash_of(name, 77) % 8 == 0 && strlen(name) + 5 < NAME_TEXT_MAX;
	char target[NAME_TEXT_MAX] = "";

	if (has_target)
		snprintf(target, sizeof target, "svc.%.250s", name);
	size_t begin = rdata_begin(o, q, name, type, ttl_of(name));
	put16(o, 1);
	put_name(o, target);
	put16(o, 1); /* alpn */
	put16(o, 3);
	put(o, "\2h2", 3);
	put_hint(o, name, false);
	put_hint(o, name, true);
	rdata_end(o, begin);
	o->answers++;
	if (!has_target)
		return;
	put_addresses(o, q, target, false, 0, 1);
	put_addresses(o, q, target, true, 0, 1);
	o->additionals = 2;
}

static void put_soa(struct out *o, const struct question *q)
{
	size_t begin = rdata_begin(o, q, "", TYPE_SOA, answer_ttl);
	put_name(o, "ns.upstream.test");
	put_name(o, "host.upstream.test");
	for (unsigned i = 0; i < 4; i++)
		put32(o, i ? 3600 : 1);
	put32(o, answer_ttl);
	rdata_end(o, begin);
	o->authorities = 1;
}

static void put_cname(struct out *o, const struct question *q, const char *owner, const char *target, uint32_t ttl)
{
	size_t begin = rdata_begin(o, q, owner, TYPE_CNAME, ttl);
	put_name(o, target);
	rdata_end(o, begin);
	o->answers++;
}

static bool put_records(struct out *o, const struct question *q, char name[NAME_TEXT_MAX], bool *ret_moved)
{
	bool is_known = false;
	*ret_moved = false;
	for (unsigned i = 0; i < record_count; i++) {
		struct record *r = &records[i];
		if (strcmp(r->name, name))
			continue;
		is_known = true;
		if (r->type == TYPE_CNAME) {
			put_cname(o, q, name, r->target, r->ttl);
			memcpy(name, r->target, NAME_TEXT_MAX);
			*ret_moved = true;
			return true;
		}
		if (r->type != q->type)
			continue;
		size_t begin = rdata_begin(o, q, name, r->type, r->ttl);
		put(o, r->address, r->type == TYPE_A ? 4 : 16);
		rdata_end(o, begin);
		o->answers++;
	}
	return is_known;
}

/* cN.TARGET.via.OWNER: one step of the chain. */
static bool put_step(struct out *o, const struct question *q, char name[NAME_TEXT_MAX])
{
	char next[NAME_TEXT_MAX], *dot = strchr(name, '.'), *via = strstr(name, ".via.");
	unsigned steps = name[0] == 'c' && isdigit((unsigned char)name[1]) ? (unsigned)atoi(name + 1) : 0;

	if (!steps || !dot || !via || via <= dot)
		return false;
	if (steps > 1)
		snprintf(next, sizeof next, "c%u%.240s", steps - 1, dot);
	else
		snprintf(next, sizeof next, "%.*s", (int)(via - dot - 1), dot + 1);
	put_cname(o, q, name, next, ttl_of(dot + 1));
	memcpy(name, next, NAME_TEXT_MAX);
	return true;
}

/* The records of the end of the chain. Returns the response code. */
static unsigned put_end(struct out *o, const struct question *q, const char *name)
{
	if (!strncmp(name, "servfail-", 9))
		return 2;
	if (!strncmp(name, "refused-", 8))
		return 5;
	if (!strncmp(name, "nosoa-", 6))
		return 0;
	if (!strncmp(name, "nx-", 3) || !strncmp(name, "nodata-", 7)) {
		put_soa(o, q);
		return name[1] == 'x' ? 3 : 0;
	}
	if (q->type == TYPE_A || q->type == TYPE_AAAA) {
		bool is_6 = q->type == TYPE_AAAA;
		unsigned count = given_address((uint8_t[16]){0}, name, is_6) ? 1 : 1 + hash_of(name, 99) % 2;
		put_addresses(o, q, name, is_6, 0, count);
		o->answers += count;
	} else if (q->type == TYPE_HTTPS || q->type == TYPE_SVCB) {
		put_service(o, q, name, q->type);
	} else if (q->type == TYPE_TXT) {
		size_t begin = rdata_begin(o, q, name, TYPE_TXT, ttl_of(name));
		put(o, "\4text", 5);
		rdata_end(o, begin);
		o->answers++;
	} else {
		put_soa(o, q);
	}
	return 0;
}

static size_t finish(struct out *o, const struct question *q, unsigned rcode, bool is_truncated)
{
	uint8_t *p = o->p;

	if (is_truncated) {
		o->at = q->end;
		o->answers = o->authorities = o->additionals = 0;
	}
	if (q->has_edns)
		put(o, (uint8_t[11]){0, 0, TYPE_OPT, 16, 0}, 11);
	p[2] = (uint8_t)(0x80 | (is_truncated ? 2 : 0) | (p[2] & 1));
	p[3] = (uint8_t)(0x80 | rcode);
	memset(p + 6, 0, 6);
	p[7] = (uint8_t)o->answers;
	p[9] = (uint8_t)o->authorities;
	p[11] = (uint8_t)(o->additionals + q->has_edns);
	return o->at;
}

static size_t finish_lower(struct out *o, const struct question *q, size_t len)
{
	for (size_t i = HEADER; i < q->end - 4; i++)
		o->p[i] = (uint8_t)tolower(o->p[i]);
	return len;
}

/* once-…: whether this is the first question for it. */
static bool is_first(const struct question *q)
{
	static uint64_t asked[4096];
	uint64_t h = hash_of(q->name, q->type) | 1;
	size_t at = h % (sizeof asked / sizeof asked[0]);

	if (strncmp(q->name, "once-", 5) || asked[at] == h)
		return false;
	asked[at] = h;
	return true;
}

unsigned answer_delay_ms(const struct question *q)
{
	bool is_given = !strncmp(q->name, "delay", 5) && isdigit((unsigned char)q->name[5]);

	return is_given ? (unsigned)atoi(q->name + 5) : 0;
}

/* What is said whatever else the name would get. */
static bool answer_fixed(struct out *o, const struct question *q, size_t *ret_len)
{
	if (answer_mode == MODE_SERVFAIL || answer_mode == MODE_REFUSED) {
		*ret_len = finish(o, q, answer_mode == MODE_SERVFAIL ? 2 : 5, false);
		return true;
	}
	if (answer_mode == MODE_NXDOMAIN) {
		put_soa(o, q);
		*ret_len = finish(o, q, 3, false);
		return true;
	}
	if (answer_mode == MODE_EMPTY || is_first(q)) {
		*ret_len = finish(o, q, 0, false);
		return true;
	}
	if (!strncmp(q->name, "stop-", 5)) {
		put_cname(o, q, q->name, q->name + 5, ttl_of(q->name + 5));
		*ret_len = finish(o, q, 0, false);
		return true;
	}
	return false;
}

size_t answer_make(uint8_t *ret, size_t max, const uint8_t *query, const struct question *q, bool is_tcp)
{
	struct out o = {.p = ret, .at = q->end, .max = max};
	char name[NAME_TEXT_MAX];
	bool has_moved, is_done = false;
	unsigned rcode = 0;
	size_t len;

	memcpy(ret, query, q->end);
	memcpy(name, q->name, sizeof name);
	if (answer_mode == MODE_SILENT || !strncmp(name, "silent-", 7))
		return 0;
	if (answer_fixed(&o, q, &len))
		return len;
	if (!is_tcp && !strncmp(name, "tc-", 3))
		return finish(&o, q, 0, true);
	for (unsigned i = 0; i < CHAIN_MAX && !is_done && q->type != TYPE_CNAME; i++) {
		if (put_records(&o, q, name, &has_moved)) {
			is_done = !has_moved;
			if (is_done && !o.answers)
				put_soa(&o, q);
		} else if (!put_step(&o, q, name)) {
			rcode = put_end(&o, q, name);
			is_done = true;
		}
	}
	bool is_too_long =
	        o.at + 11 > max || (!is_tcp && o.at + (q->has_edns ? 11 : 0) > (q->udp_size < 512 ? 512u : q->udp_size));
	len = finish(&o, q, rcode, is_too_long);
	return !is_tcp && (answer_mode == MODE_LOWER || !strncmp(name, "lower-", 6)) ? finish_lower(&o, q, len) : len;
}

static int record_add(char *line)
{
	char name[NAME_TEXT_MAX], type[16], value[NAME_TEXT_MAX];
	struct record *r = &records[record_count];
	unsigned ttl = answer_ttl;

	int n = sscanf(line, "%255s %15s %255s %u", name, type, value, &ttl);
	if (n <= 0 || name[0] == '#')
		return 0;
	if (n < 3 || record_count == RECORDS_MAX)
		return -1;
	r->ttl = ttl;
	for (char *c = name; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	memcpy(r->name, name, sizeof name);
	memcpy(r->target, value, sizeof value);
	r->type = !strcmp(type, "A") ? TYPE_A : !strcmp(type, "AAAA") ? TYPE_AAAA : !strcmp(type, "CNAME") ? TYPE_CNAME : 0;
	if (!r->type || (r->type != TYPE_CNAME && inet_pton(r->type == TYPE_A ? AF_INET : AF_INET6, value, r->address) != 1))
		return -1;
	record_count++;
	return 0;
}

int records_read(const char *path)
{
	FILE *f = fopen(path, "re");
	char line[1024];
	unsigned number = 0;

	records = calloc(RECORDS_MAX, sizeof *records);
	if (!f || !records) {
		perror(path);
		return -1;
	}
	while (fgets(line, sizeof line, f)) {
		number++;
		if (record_add(line) < 0) {
			fprintf(stderr, "%s:%u: expected `NAME A|AAAA|CNAME VALUE [TTL]`, %d lines at most\n", path, number,
			        RECORDS_MAX);
			fclose(f);
			return -1;
		}
	}
	fclose(f);
	return 0;
}
