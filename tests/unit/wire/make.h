/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Messages for the tests of wire/, written field by field: make_head, then make_rr and the RDATA put behind it. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "wire/msg.h"

struct make {
	uint8_t bytes[65536];
	size_t len, rdata_at;
};

static inline void make_bytes(struct make *m, const void *bytes, size_t len)
{
	memcpy(m->bytes + m->len, bytes, len);
	m->len += len;
	if (m->rdata_at) {
		m->bytes[m->rdata_at - 2] = (uint8_t)((m->len - m->rdata_at) >> 8);
		m->bytes[m->rdata_at - 1] = (uint8_t)(m->len - m->rdata_at);
	}
}

static inline void make16(struct make *m, unsigned v)
{
	make_bytes(m, (uint8_t[]){(uint8_t)(v >> 8), (uint8_t)v}, 2);
}

static inline void make32(struct make *m, uint32_t v)
{
	make16(m, v >> 16);
	make16(m, v & 0xffff);
}

/* Case is kept: labels are copied as they stand, without escapes. */
static inline void make_name(struct make *m, const char *text)
{
	while (*text && strcmp(text, ".") != 0) {
		size_t n = strcspn(text, ".");
		uint8_t len = (uint8_t)n;

		make_bytes(m, &len, 1);
		make_bytes(m, text, n);
		text += n + (text[n] == '.');
	}
	make_bytes(m, "", 1);
}

static inline void make_head(
	struct make *m, unsigned flags, unsigned an, unsigned ns, unsigned ar, const char *qname, unsigned qtype)
{
	m->len = m->rdata_at = 0;
	make16(m, 0x1234);
	make16(m, flags);
	make16(m, 1);
	make16(m, an);
	make16(m, ns);
	make16(m, ar);
	make_name(m, qname);
	make16(m, qtype);
	make16(m, 1);
}

/* owner NULL: a pointer to the qname. RDLENGTH follows what is put next. */
static inline void make_rr(struct make *m, const char *owner, unsigned type, uint32_t ttl)
{
	m->rdata_at = 0;
	if (owner)
		make_name(m, owner);
	else
		make16(m, 0xc00c);
	make16(m, type);
	make16(m, 1);
	make32(m, ttl);
	make16(m, 0);
	m->rdata_at = m->len;
}

static inline void make_a(struct make *m, const char *owner, uint32_t ttl, uint8_t last)
{
	make_rr(m, owner, RR_A, ttl);
	make_bytes(m, (uint8_t[]){192, 0, 2, last}, 4);
}

static inline void make_cname(struct make *m, const char *owner, uint32_t ttl, const char *target)
{
	make_rr(m, owner, RR_CNAME, ttl);
	make_name(m, target);
}

static inline void make_soa(struct make *m, const char *owner, uint32_t ttl, uint32_t minimum)
{
	make_rr(m, owner, RR_SOA, ttl);
	make_name(m, "ns.example");
	make_name(m, "host.example");
	for (unsigned i = 0; i < 4; i++)
		make32(m, i);
	make32(m, minimum);
}

static inline void make_param(struct make *m, unsigned key, const void *value, size_t len)
{
	make16(m, key);
	make16(m, (unsigned)len);
	make_bytes(m, value, len);
}

static inline struct name make_from_text(const char *text)
{
	struct name n;

	assert_int_equal(name_from_text(&n, text, strlen(text)), 0);
	return n;
}

static inline void assert_name(const struct name *n, const char *text)
{
	char buf[NAME_TEXT_MAX];

	assert_string_equal(name_to_text(buf, n->wire), text);
}
