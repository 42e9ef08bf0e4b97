/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "answers.h"

#include <stdlib.h>
#include <string.h>
#include "base/hash.h"

static void add(struct made *m, const void *bytes, size_t len)
{
	if (m->len + len > sizeof(m->msg))
		abort();
	memcpy(m->msg + m->len, bytes, len);
	m->len += len;
}

static void add16(struct made *m, unsigned v)
{
	uint8_t b[2] = { (uint8_t)(v >> 8), (uint8_t)v };
	add(m, b, 2);
}

static void add32(struct made *m, uint32_t v)
{
	add16(m, v >> 16);
	add16(m, v & 0xffff);
}

static uint32_t read32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

void made_key(struct cache_key *key, struct name *qname, const char *name)
{
	if (name_from_text(qname, name, strlen(name)) < 0)
		abort();
	*key = (struct cache_key){ .qname = qname, .name_hash = name_whole_hash(qname, MADE_SEED), .qtype = RR_A, .qclass = 1 };
}

static void begin(struct made *m, const char *name, unsigned ancount, unsigned nscount, unsigned rcode)
{
	made_key(&m->key, &m->qname, name);
	m->len = 0;
	add16(m, 0x1234);
	add16(m, FLAG_QR | FLAG_RD | FLAG_RA | rcode);
	add16(m, 1);
	add16(m, ancount);
	add16(m, nscount);
	add16(m, 1); /* the OPT below must not be kept */
	add(m, m->qname.wire, m->qname.len);
	add16(m, RR_A);
	add16(m, 1);
}

static void end(struct made *m)
{
	add(m, "\0", 1);
	add16(m, RR_OPT);
	add16(m, 1232);
	add32(m, 0);
	add16(m, 0);
	if (wire_answer_walk(&m->walked, m->msg, m->len) < 0)
		abort();
}

static void add_address(struct made *m, const uint8_t *owner, size_t owner_len, uint32_t address, uint32_t ttl_s)
{
	add(m, owner, owner_len);
	add16(m, RR_A);
	add16(m, 1);
	add32(m, ttl_s);
	add16(m, 4);
	add32(m, address);
}

static void add_soa(struct made *m, uint32_t ttl_s, uint32_t minimum_s)
{
	add(m, "\0", 1);
	add16(m, RR_SOA);
	add16(m, 1);
	add32(m, ttl_s);
	add16(m, 22);
	add(m, "\0\0", 2);
	for (unsigned i = 0; i < 4; i++)
		add32(m, 1000000);
	add32(m, minimum_s);
}

void made_answer(struct made *m, const char *name, unsigned count, uint32_t seed, uint32_t ttl_s, bool with_soa)
{
	begin(m, name, count, with_soa, RCODE_NOERROR);
	for (unsigned i = 0; i < count; i++)
		add_address(m, (const uint8_t *)"\xc0\x0c", 2, 10u << 24 | ((seed + i) & 0xffffff), ttl_s);
	if (with_soa)
		add_soa(m, ttl_s, ttl_s);
	end(m);
}

void made_negative(struct made *m, const char *name, unsigned rcode, uint32_t soa_ttl_s, uint32_t minimum_s)
{
	begin(m, name, 0, 1, rcode);
	add_soa(m, soa_ttl_s, minimum_s);
	end(m);
}

uint32_t made_ttl(const struct cache_answer *a, unsigned i)
{
	return read32(a->msg + a->ttl_offset[i]);
}

uint32_t made_minimum(const struct cache_answer *a)
{
	return read32(a->msg + a->msg_len - 4);
}

void made_alias(struct made *m, const char *name, const char *target, uint32_t ttl_s)
{
	struct name to;

	if (name_from_text(&to, target, strlen(target)) < 0)
		abort();
	begin(m, name, 2, 0, RCODE_NOERROR);
	add(m, "\xc0\x0c", 2);
	add16(m, RR_CNAME);
	add16(m, 1);
	add32(m, ttl_s);
	add16(m, to.len);
	add(m, to.wire, to.len);
	add_address(m, to.wire, to.len, 10u << 24 | 1, ttl_s);
	end(m);
}
