/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From a kept answer to the bytes one client gets: id, RD and case of its question, aged TTLs, OPT, truncation (RFC 2181 9). */
#pragma once
#include "wire/msg.h"

/* `kept` is a message whose additional section is empty (ARCOUNT 0), question first, uncompressed question of equal length.
 * TTL fields at ttl_offset[] are lowered by age_s, at least ttl_floor_s, at most ttl_ceiling_s (0: none). Appends OPT (our size, DO copied) when the query had
 * EDNS, with EDE when ede >= 0. RA is set: we recurse, whoever was asked; AA is cleared unless keep_aa. When the result exceeds `limit` (UDP; 0: none) the answer is cut to header, question, OPT with
 * TC set, as is one that does not fit `out`. out_max >= header, question and 200 bytes. Returns the length. */
struct wire_patch { uint32_t age_s, ttl_floor_s, ttl_ceiling_s; int ede; const char *ede_text; bool clear_ad, keep_aa; size_t limit; uint16_t our_udp_size; };
size_t wire_answer_patch(uint8_t *out, size_t out_max, const uint8_t *kept, size_t kept_len, const uint16_t *ttl_offset, unsigned ttl_count,
	const struct wire_query *q, const uint8_t *question, const struct wire_patch *p);

/* Copies an answer without address records/hints of one family: strips ipv6hint (AF_INET6) or ipv4hint (AF_INET) SvcParams
 * from HTTPS/SVCB records in the answer section (RFC 9460 7.3). Returns the new length, NW_EMALFORMED, or NW_ETOOLONG when
 * out_max < len; *ret_changed says whether any was there. `mandatory` lists naming the key lose it too. Other sections are
 * kept, the additional section is not. */
int wire_strip_hints(uint8_t *out, size_t out_max, const uint8_t *msg, size_t len, int family, bool *ret_changed);

/* first: an answer that ends at a CNAME; second: the answer to a question for that CNAME's target. Makes one answer to the first's question: both answer
 * sections, flags, rcode and authority of the second, no additional section. Returns the length, NW_EMALFORMED or NW_ETOOLONG. Walk it again. */
int wire_chain_merge(uint8_t *out, size_t out_max, const uint8_t *first, size_t first_len, const uint8_t *second, size_t second_len);

/* Bounds written into the message itself: every TTL field comes into [min_s, max_s], a senseless one (RFC 2181 8) counting as 0. Of a negative answer
 * (soa_max_s > 0) no SOA of the authority section has a TTL above soa_max_s, and, with_minimum, the MINIMUM of one that stands last comes into
 * [min_s, max_s] too: that is RDATA, which signatures cover, so not where the client asked for them. `w` is the walk of msg; its offsets stay right, its TTLs do not. */
struct wire_ttl_bounds { uint32_t min_s, max_s, soa_max_s; bool with_minimum; };
void wire_ttl_bound(uint8_t *msg, const struct wire_answer *w, const struct wire_ttl_bounds *b);
/* Lowers every TTL field by age_s, to 0 at least. */
void wire_ttl_age(uint8_t *msg, const uint16_t *ttl_offset, unsigned ttl_count, uint32_t age_s);

/* The largest TTL of a kept answer as it is given out at that age: how long some client may use what it says. */
uint32_t wire_ttl_largest(const uint8_t *msg, const uint16_t *ttl_offset, unsigned ttl_count, uint32_t age_s);
