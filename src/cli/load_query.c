/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The life of one query of the load generator: a slot is taken, the query is sent, answered or lost, and the slot goes back.
 * Everything that is counted per query is counted here. */
#include <string.h>
#include "base/hash.h"
#include "cli/load_private.h"

enum { HEADER = 12, FLAGS_HIGH_QR = 0x80, FLAGS_HIGH_TC = 0x02, FLAGS_HIGH_RD = 0x01 };

struct load_second *load_second_of(struct load *l, uint64_t intended_ns)
{
	uint64_t at = (intended_ns - l->start_ns) / 1000000000;

	return &l->result->second[at < l->result->seconds ? at : l->result->seconds - 1];
}

static uint32_t question_hash(const uint8_t *question, size_t len)
{
	return (uint32_t)hash_bytes(question, len, 0);
}

static void slot_give(struct source *s, uint32_t slot)
{
	s->free_id[(s->free_head + s->free_count++) % s->slots] = (uint16_t)(slot - s->first_slot);
}

static void list_remove(struct load *l, uint32_t slot)
{
	struct pending *p = &l->pending[slot];

	if (p->earlier == LOAD_NONE)
		l->oldest = p->later;
	else
		l->pending[p->earlier].later = p->later;
	if (p->later == LOAD_NONE)
		l->newest = p->earlier;
	else
		l->pending[p->later].earlier = p->earlier;
	p->is_out = false;
	l->out_count--;
	slot_give(&l->source[p->source], slot);
}

static size_t put_opt(uint8_t *out, unsigned udp_size)
{
	const uint8_t opt[11] = {0, 0, 41, (uint8_t)(udp_size >> 8), (uint8_t)udp_size};

	memcpy(out, opt, sizeof(opt));
	return sizeof(opt);
}

size_t query_make(struct load *l, struct source *s, uint64_t intended_ns, uint8_t out[LOAD_QUERY_MAX], uint32_t *ret_slot)
{
	uint16_t slot, id;
	size_t question, len;

	if (!s->free_count)
		return 0;
	slot = s->free_id[s->free_head];
	s->free_head = (s->free_head + 1) % s->slots;
	s->free_count--;
	id = (uint16_t)(slot + s->stream.id_base);
	memcpy(out, (const uint8_t[HEADER]){(uint8_t)(id >> 8), (uint8_t)id, FLAGS_HIGH_RD, 0, 0, 1}, HEADER);
	question = names_next(l->names, out + HEADER);
	len = HEADER + question;
	if (l->o->edns) {
		out[11] = 1;
		len += put_opt(out + len, l->o->edns);
	}
	*ret_slot = s->first_slot + slot;
	l->pending[*ret_slot].intended_ns = intended_ns;
	l->pending[*ret_slot].question_hash = question_hash(out + HEADER, question);
	l->pending[*ret_slot].source = s->number;
	return len;
}

void query_sent(struct load *l, uint32_t slot, uint64_t now_ns)
{
	struct pending *p = &l->pending[slot];
	uint64_t late_ns = now_ns - p->intended_ns;

	p->sent_ns = now_ns;
	p->is_out = true;
	p->earlier = l->newest;
	p->later = LOAD_NONE;
	if (l->newest == LOAD_NONE)
		l->oldest = slot;
	else
		l->pending[l->newest].later = slot;
	l->newest = slot;
	l->out_count++;
	l->result->sent++;
	if (late_ns > LOAD_LATE_NS)
		l->result->late_sends++;
	if (late_ns > l->result->late_worst_ns)
		l->result->late_worst_ns = late_ns;
}

void query_undo(struct load *l, uint32_t slot)
{
	slot_give(&l->source[l->pending[slot].source], slot);
}

void query_unsent(struct load *l, uint64_t intended_ns)
{
	l->result->unsent++;
	load_second_of(l, intended_ns)->lost++;
}

void query_lost(struct load *l, uint32_t slot)
{
	l->result->lost++;
	load_second_of(l, l->pending[slot].intended_ns)->lost++;
	list_remove(l, slot);
}

/* Where the question of an answer ends; 0 when it does not parse. Questions are never compressed. */
static size_t question_end(const uint8_t *msg, size_t len)
{
	size_t at = HEADER;

	if (msg[4] || msg[5] != 1)
		return 0;
	while (at < len && msg[at] && msg[at] < 64)
		at += 1 + (size_t)msg[at];
	return at + 5 <= len && !msg[at] ? at + 5 : 0;
}

void query_answered(struct load *l, struct source *s, const uint8_t *msg, size_t len, uint64_t now_ns)
{
	struct load_result *r = l->result;
	struct load_second *second;
	struct pending *p;
	uint64_t took_ns;
	size_t end;
	uint32_t slot;

	if (len < HEADER || !(msg[2] & FLAGS_HIGH_QR)) {
		r->stray++;
		return;
	}
	slot = (uint16_t)((msg[0] << 8 | msg[1]) - s->stream.id_base);
	p = slot < s->slots ? &l->pending[s->first_slot + slot] : NULL;
	end = question_end(msg, len);
	/* A server may leave the question out of an error answer; then the id alone decides. */
	if (!p || !p->is_out || (end ? question_hash(msg + HEADER, end - HEADER) != p->question_hash : msg[5] != 0)) {
		r->stray++;
		return;
	}
	took_ns = now_ns - p->intended_ns;
	r->answered++;
	r->rcode[msg[3] & 15]++;
	r->truncated += (msg[2] & FLAGS_HIGH_TC) != 0;
	histogram_add(&r->latency, took_ns);
	second = load_second_of(l, p->intended_ns);
	second->answered++;
	if (took_ns > second->max_ns)
		second->max_ns = took_ns;
	list_remove(l, s->first_slot + slot);
}

void queries_expire(struct load *l, uint64_t now_ns)
{
	while (l->oldest != LOAD_NONE && now_ns - l->pending[l->oldest].sent_ns >= l->o->timeout_ns)
		query_lost(l, l->oldest);
}
