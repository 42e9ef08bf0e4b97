/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From a kept answer to one client's bytes: one copy, then the fields that differ. On the workers, per query. */
#include "wire/patch.h"

#include <assert.h>

#include "wire/bytes.h"
#include "wire/edns.h"
#include "wire/rr.h"

/* ceiling_s: UINT32_MAX for none. */
static inline void age_ttls(uint8_t *out, const uint16_t *ttl_offset, unsigned ttl_count, uint32_t age_s, uint32_t floor_s, uint32_t ceiling_s)
{
	for (unsigned i = 0; i < ttl_count; i++) {
		uint8_t *field = out + ttl_offset[i];
		uint32_t ttl = (uint32_t)rr_ttl(field);

		ttl = ttl > age_s ? ttl - age_s : 0;
		ttl = ttl < ceiling_s ? ttl : ceiling_s;
		store32(field, ttl > floor_s ? ttl : floor_s);
	}
}

size_t wire_answer_patch(uint8_t *out, size_t out_max, const uint8_t *kept, size_t kept_len, const uint16_t *ttl_offset,
	unsigned ttl_count, const struct wire_query *q, const uint8_t *question, const struct wire_patch *p)
{
	struct edns_out edns = {.udp_size = p->our_udp_size, .has_do = q->has_do, .ede = p->ede, .ede_text = p->ede_text};
	size_t question_end = WIRE_HEADER + (size_t)q->question_len, edns_bytes = q->has_edns ? edns_len(&edns) : 0,
	       len = kept_len;
	size_t limit = p->limit && p->limit < WIRE_TCP_MAX ? p->limit : WIRE_TCP_MAX;
	unsigned flags;

	assert(q->question_len > 0 && kept_len >= question_end && out_max >= question_end + EDNS_MAX);
	if (limit > out_max)
		limit = out_max;
	flags = load16(kept + 2) & ~(unsigned)(FLAG_RD | FLAG_CD | (p->clear_ad ? FLAG_AD : 0) | (p->keep_aa ? 0 : FLAG_AA));
	flags |= FLAG_QR | FLAG_RA | (q->flags & (FLAG_RD | FLAG_CD));
	if (kept_len + edns_bytes > limit) {
		flags |= FLAG_TC;
		len = question_end;
		store32(out + 4, 1u << 16);
		store16(out + 8, 0);
	} else {
		memcpy(out + 4, kept + 4, len - 4);
		age_ttls(out, ttl_offset, ttl_count, p->age_s, p->ttl_floor_s, p->ttl_ceiling_s ? p->ttl_ceiling_s : UINT32_MAX);
	}
	store16(out, q->id);
	store16(out + 2, (uint16_t)flags);
	store16(out + 10, q->has_edns ? 1 : 0);
	memcpy(out + WIRE_HEADER, question, q->question_len);
	return q->has_edns ? len + edns_put(out + len, &edns) : len;
}

static uint32_t bound(uint32_t ttl, const struct wire_ttl_bounds *b)
{
	return ttl < b->min_s ? b->min_s : ttl > b->max_s ? b->max_s : ttl;
}

/* field: the TTL of an SOA, which the walk has found whole. MINIMUM ends its RDATA, and is written only where the message ends as well: names point
 * backwards, so none can be partly made of it. */
static void bound_soa(uint8_t *field, const uint8_t *end, const struct wire_ttl_bounds *b)
{
	uint8_t *minimum = field + 6 + load16(field + 4) - 4;

	if (load32(field) > b->soa_max_s)
		store32(field, b->soa_max_s);
	if (b->with_minimum && minimum + 4 == end)
		store32(minimum, bound((uint32_t)rr_ttl(minimum), b));
}

void wire_ttl_bound(uint8_t *msg, const struct wire_answer *w, const struct wire_ttl_bounds *b)
{
	for (unsigned i = 0; i < w->ttl_count; i++) {
		uint8_t *field = msg + w->ttl_offset[i];

		store32(field, bound((uint32_t)rr_ttl(field), b));
		if (b->soa_max_s && w->ttl_offset[i] >= w->answers_end && load16(field - 4) == RR_SOA)
			bound_soa(field, msg + w->authority_end, b);
	}
}

void wire_ttl_age(uint8_t *msg, const uint16_t *ttl_offset, unsigned ttl_count, uint32_t age_s)
{
	age_ttls(msg, ttl_offset, ttl_count, age_s, 0, UINT32_MAX);
}

uint32_t wire_ttl_largest(const uint8_t *msg, const uint16_t *ttl_offset, unsigned ttl_count, uint32_t age_s)
{
	uint32_t most = 0;

	for (unsigned i = 0; i < ttl_count; i++) {
		uint32_t ttl = (uint32_t)rr_ttl(msg + ttl_offset[i]);

		most = ttl > most ? ttl : most;
	}
	return most > age_s ? most - age_s : 0;
}
