/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What leaves: answers of our own (each with an EDE) and kept answers patched for one client, by UDP into the batch or by TCP. */
#include <string.h>
#include "base/clock.h"
#include "dns/query_private.h"
#include "stat/query_log.h"

enum { LOCAL_TTL_S = 60 };

/* What became of the query, for the query log and the counts of the busiest. */
static void record(struct worker *w, const struct ask *a, uint8_t rcode)
{
	uint64_t now_ms = loop_now_ms(w->loop);
	uint32_t weight;
	if (!w->ring || !query_ring_wants(w->ring, now_ms, &weight))
		return;
	if (w->wall_at_s != w->now_s) {
		w->wall_at_s = w->now_s;
		w->wall_ahead_ms = clock_wall_ms() - clock_ms();
	}
	query_ring_put(w->ring, &(struct query_record){ .wall_ms = w->wall_ahead_ms + now_ms, .took_us = (uint32_t)(now_ms - a->begun_ms) * 1000, .weight = weight,
		.qtype = a->q.qtype, .rcode = rcode, .outcome = w->note.outcome, .filter_rule = w->note.filter_rule, .steer_rule = w->note.steer_rule,
		.config_serial = w->note.config_serial, .client = a->client.addr, .qname = &a->q.qname });
}

static void send_bytes(struct worker *w, const struct ask *a, const uint8_t *msg, size_t len)
{
	if (a->q.question_len)
		record(w, a, msg[3] & 15);
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

/* Addresses that a steer rule could put into a set. Service records may hold hints, or name another host. */
static bool has_public_address(const struct wire_own *own)
{
	struct addr a;
	for (unsigned i = 0; i < own->addr_count; i++)
		if (!addr_is_never_remote(&own->addrs[i]))
			return true;
	for (unsigned i = 0; i < own->record_count; i++) {
		const struct wire_record *r = &own->records[i];
		if (r->type == RR_HTTPS || r->type == RR_SVCB)
			return true;
		if ((r->type != RR_A || r->rdlen != 4) && (r->type != RR_AAAA || r->rdlen != 16))
			continue;
		a = (struct addr){ .family = r->type == RR_A ? AF_INET : AF_INET6 };
		memcpy(a.b, r->rdata, r->rdlen);
		if (!addr_is_never_remote(&a))
			return true;
	}
	return false;
}

void answer_made(struct worker *w, const struct ask *a, const struct wire_own *own)
{
	struct wire_query q = a->q;
	struct view v;
	size_t len;
	if (!w->snap->config->steer_count || !has_public_address(own)) {
		answer_own(w, a, own);
		return;
	}
	q.has_edns = false;
	len = wire_own_build(w->merged, sizeof w->merged, &q, a->question, own);
	if (wire_answer_walk(&w->walk, w->merged, len) < 0 || w->walk.is_cut) {
		answer_rcode(w, a, RCODE_SERVFAIL, EDE_OTHER, "the records do not make an answer");
		return;
	}
	view_walked(w, w->merged, &w->walk, &v);
	v.is_own = true;
	v.ede = own->ede;
	v.ede_text = own->ede_text;
	if (!steers_own(w, a, &v))
		answer_kept(w, a, &v);
}

void answer_rcode(struct worker *w, const struct ask *a, uint8_t rcode, int ede, const char *text)
{
	if (rcode == RCODE_SERVFAIL)
		count(w, C_SERVFAIL);
	if (w->note.outcome != OUTCOME_BLOCKED)
		w->note.outcome = rcode == RCODE_REFUSED ? OUTCOME_REFUSED : OUTCOME_FAILED;
	answer_own(w, a, &(struct wire_own){ .rcode = rcode, .ede = ede, .ede_text = text });
}

void answer_nodata(struct worker *w, const struct ask *a, int ede, const char *text)
{
	answer_own(w, a, &(struct wire_own){ .rcode = RCODE_NOERROR, .ede = ede, .ede_text = text, .with_soa = true, .soa_ttl_s = LOCAL_TTL_S });
}

/* Addresses of the type that was asked; without any there is no data. */
static void answer_addrs(struct worker *w, const struct ask *a, const struct cfg_filter *rule, const struct addr *addrs, unsigned count, int ede, const char *text)
{
	int family = a->q.qtype == RR_A ? AF_INET : a->q.qtype == RR_AAAA ? AF_INET6 : 0;
	bool has_any = false;
	for (unsigned i = 0; i < count; i++)
		has_any |= addrs[i].family == family;
	answer_made(w, a, &(struct wire_own){ .ede = ede, .ede_text = text, .addrs = addrs, .addr_count = has_any ? count : 0, .ttl_s = rule->ttl_s, .with_soa = !has_any, .soa_ttl_s = rule->ttl_s });
}

void answer_block(struct worker *w, const struct ask *a, const struct cfg_filter *rule, const char *text)
{
	static const struct addr zero[] = { { .family = AF_INET }, { .family = AF_INET6 } };
	switch (rule->block) {
	case BLOCK_DROP:
		w->note.outcome = OUTCOME_DROPPED;
		record(w, a, 0);
		answer_none(w, a);
		break;
	case BLOCK_REFUSE: answer_rcode(w, a, RCODE_REFUSED, EDE_BLOCKED, text); break;
	case BLOCK_NODATA: answer_own(w, a, &(struct wire_own){ .ede = EDE_BLOCKED, .ede_text = text, .with_soa = true, .soa_ttl_s = rule->ttl_s }); break;
	case BLOCK_ZERO: answer_addrs(w, a, rule, zero, 2, EDE_BLOCKED, text); break;
	case BLOCK_ANSWER: answer_addrs(w, a, rule, rule->answers, rule->answer_count, EDE_FORGED, text); break;
	case BLOCK_CNAME: /* alias.c */
	case BLOCK_NXDOMAIN:
	case BLOCK_NONE: answer_own(w, a, &(struct wire_own){ .rcode = RCODE_NXDOMAIN, .ede = EDE_BLOCKED, .ede_text = text, .with_soa = true, .soa_ttl_s = rule->ttl_s });
	}
}

void answer_none(struct worker *w, const struct ask *a)
{
	if (a->is_tcp)
		tcp_drop(a->tcp);
}

void answer_kept(struct worker *w, const struct ask *a, const struct view *v)
{
	struct wire_patch p = { .age_s = v->age_s, .ttl_ceiling_s = ANSWER_TTL_MAX_S, .ede = v->ede, .ede_text = v->ede_text, .clear_ad = true, .keep_aa = v->is_own,
		.limit = answer_limit(a), .our_udp_size = UDP_ANSWER_MAX };
	if (v->is_stale) {
		p.ttl_floor_s = p.ttl_ceiling_s = STALE_TTL_S;
		p.ede = (v->msg[3] & 15) == RCODE_NXDOMAIN ? EDE_STALE_NXDOMAIN : EDE_STALE;
	}
	size_t room;
	uint8_t *out = out_buffer(w, a, &room);
	send_bytes(w, a, out, wire_answer_patch(out, room, v->msg, v->len, v->ttl_offset, v->ttl_count, &a->q, a->question, &p));
}
