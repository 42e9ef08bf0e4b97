/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What leaves: answers of our own (each with an EDE) and kept answers patched for one client, by UDP into the batch or by TCP. */
#include <string.h>
#include "dns/worker_private.h"

enum { BLOCK_TTL_S = 60, LOCAL_TTL_S = 60 };

static void send_bytes(struct worker *w, const struct ask *a, const uint8_t *msg, size_t len)
{
	if (a->is_tcp)
		tcp_answer(a->tcp, msg, len);
	else
		udp_commit(w->udp, len, &a->udp);
}

static uint8_t *out_buffer(struct worker *w, const struct ask *a, size_t *ret_room)
{
	*ret_room = a->is_tcp ? sizeof w->scratch : UDP_OUT_MAX;
	return a->is_tcp ? w->scratch : udp_reserve(w->udp);
}

/* Bytes the client takes. */
static uint16_t answer_limit(const struct ask *a)
{
	return a->is_tcp ? WIRE_TCP_MAX : a->q.udp_size < UDP_ANSWER_MAX ? a->q.udp_size : UDP_ANSWER_MAX;
}

void answer_own(struct worker *w, const struct ask *a, const struct wire_own *own)
{
	struct wire_own limited = *own;
	size_t room;
	uint8_t *out = out_buffer(w, a, &room);
	limited.limit = answer_limit(a);
	send_bytes(w, a, out, wire_own_build(out, room, &a->q, a->question, &limited));
}

void answer_rcode(struct worker *w, const struct ask *a, uint8_t rcode, int ede, const char *text)
{
	if (rcode == RCODE_SERVFAIL)
		count(w, C_SERVFAIL);
	answer_own(w, a, &(struct wire_own){ .rcode = rcode, .ede = ede, .ede_text = text });
}

void answer_nodata(struct worker *w, const struct ask *a, int ede, const char *text)
{
	answer_own(w, a, &(struct wire_own){ .rcode = RCODE_NOERROR, .ede = ede, .ede_text = text, .with_soa = true, .soa_ttl_s = LOCAL_TTL_S });
}

static void answer_zero(struct worker *w, const struct ask *a, const char *text)
{
	struct addr zero = { .family = a->q.qtype == RR_AAAA ? AF_INET6 : AF_INET };
	if (a->q.qtype != RR_A && a->q.qtype != RR_AAAA) {
		answer_nodata(w, a, EDE_BLOCKED, text);
		return;
	}
	answer_own(w, a, &(struct wire_own){ .ede = EDE_BLOCKED, .ede_text = text, .addrs = &zero, .addr_count = 1, .ttl_s = BLOCK_TTL_S });
}

void answer_block(struct worker *w, const struct ask *a, enum block_kind kind, const char *text)
{
	switch (kind) {
	case BLOCK_DROP: answer_none(w, a); break;
	case BLOCK_REFUSE: answer_rcode(w, a, RCODE_REFUSED, EDE_BLOCKED, text); break;
	case BLOCK_NODATA: answer_nodata(w, a, EDE_BLOCKED, text); break;
	case BLOCK_ZERO: answer_zero(w, a, text); break;
	case BLOCK_ANSWER:
	case BLOCK_CNAME:
	case BLOCK_NXDOMAIN:
	case BLOCK_NONE:
		answer_own(w, a, &(struct wire_own){ .rcode = RCODE_NXDOMAIN, .ede = EDE_BLOCKED, .ede_text = text, .with_soa = true, .soa_ttl_s = BLOCK_TTL_S });
	}
}

void answer_none(struct worker *w, const struct ask *a)
{
	if (a->is_tcp)
		tcp_drop(a->tcp);
}

void answer_kept(struct worker *w, const struct ask *a, const uint8_t *msg, size_t len, const uint16_t *ttl_offset, unsigned ttl_count, uint32_t age_s, bool strips6)
{
	struct wire_patch p = { .age_s = age_s, .ttl_floor_s = 0, .ttl_ceiling_s = ANSWER_TTL_MAX_S, .ede = EDE_NONE, .clear_ad = true, .our_udp_size = UDP_ANSWER_MAX };
	p.limit = answer_limit(a);
	if (strips6) {
		/* Stripping moves what stands behind a hint, so TTL offsets are found again in the new message. */
		bool changed;
		int n = wire_strip_hints(w->stripped, sizeof w->stripped, msg, len, AF_INET6, &changed);
		if (n < 0 || (changed && wire_answer_walk(&w->stripped_walk, w->stripped, (size_t)n) < 0)) {
			answer_rcode(w, a, RCODE_SERVFAIL, EDE_OTHER, "hints could not be taken out");
			return;
		}
		if (changed) {
			msg = w->stripped;
			len = (size_t)n;
			ttl_offset = w->stripped_walk.ttl_offset;
			ttl_count = w->stripped_walk.ttl_count;
		}
	}
	size_t room;
	uint8_t *out = out_buffer(w, a, &room);
	send_bytes(w, a, out, wire_answer_patch(out, room, msg, len, ttl_offset, ttl_count, &a->q, a->question, &p));
}
