/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Resource records inside a message: where their parts stand, the names in their RDATA, and the SvcParams of SVCB and HTTPS.
 * Shared by the readers and rewriters of this folder. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "wire/bytes.h"
#include "wire/name.h"

struct rr {
	uint16_t owner_at, fixed_at; /* of the owner's name; of TYPE. TTL stands at fixed_at + 4 */
	uint16_t type, rclass, rdlen, rdata_at;
	uint32_t ttl_s; /* a value above 2^31 - 1 is 0 (RFC 2181 8) */
};

enum { RR_CLASS_IN = 1, RR_CLASS_ANY = 255, RR_NAMES_MAX = 2 };
enum { SVC_MANDATORY = 0, SVC_IPV4HINT = 4, SVC_IPV6HINT = 6 };

/* Reads the record at `at` and decodes its owner. Returns the offset behind it or NW_EMALFORMED. len <= 65535. */
int rr_read(struct rr *ret, struct name *ret_owner, const uint8_t *msg, size_t len, size_t at);
/* Checks the RDATA of the types we know: address lengths, names, SvcParams. Fills the offsets of the names in it and the
 * offset behind the last of them. Returns how many names there are, or NW_EMALFORMED. */
int rr_rdata_names(uint16_t ret_at[RR_NAMES_MAX], uint16_t *ret_behind, const uint8_t *msg, const struct rr *rr);
/* Never negative: a value above 2^31 - 1 is 0 (RFC 2181 8). */
static inline int32_t rr_ttl(const uint8_t *ttl_field)
{
	uint32_t ttl = load32(ttl_field);

	return ttl > INT32_MAX ? 0 : (int32_t)ttl;
}

struct svc_param {
	uint16_t at, key, value_at, len;
};
/* Reads the SvcParam at `at` of RDATA that ends at `end`. Returns the offset behind it or NW_EMALFORMED. The values of
 * mandatory and of the address hints must be whole lists with at least one item (RFC 9460 7.3, 8). */
int svc_param_read(struct svc_param *ret, const uint8_t *msg, size_t end, size_t at);
