/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Made-up answers for the tests of the cache: real messages, walked by wire/. */
#pragma once
#include "cache/cache.h"

enum { MADE_SEED = 7 };

struct made {
	struct name qname;
	struct cache_key key;
	uint8_t msg[65535];
	size_t len;
	struct wire_answer walked;
};

/* An A answer of `count` addresses 10.x.y.z counted from `seed`; count 0: NODATA with an SOA (TTL ttl_s, MINIMUM ttl_s) when with_soa. */
void made_answer(struct made *m, const char *name, unsigned count, uint32_t seed, uint32_t ttl_s, bool with_soa);
/* No answer records, an SOA in the authority section. */
void made_negative(struct made *m, const char *name, unsigned rcode, uint32_t soa_ttl_s, uint32_t minimum_s);
/* name CNAME target, target A one address. */
void made_alias(struct made *m, const char *name, const char *target, uint32_t ttl_s);
/* The key of any name, type A, class IN, group 0. */
void made_key(struct cache_key *key, struct name *qname, const char *name);
/* Fields of the kept message: its i-th TTL, and the MINIMUM of an SOA that stands last. */
uint32_t made_ttl(const struct cache_answer *a, unsigned i);
uint32_t made_minimum(const struct cache_answer *a);
