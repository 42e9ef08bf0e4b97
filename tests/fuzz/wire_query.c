/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A client's packet. Whatever is parsed must be answerable, and our own answer must pass the parser for answers. */
#include <string.h>

#include "fuzz.h"
#include "wire/msg.h"

static void check_query(const struct wire_query *q, const uint8_t *pkt, size_t len)
{
	struct wire_query again;
	struct name reread;
	uint8_t out[300];
	size_t out_len;

	CHECK(q->qname.len > 0 && q->question_len == q->qname.len + 4 && WIRE_HEADER + (size_t)q->question_len <= len);
	CHECK(q->udp_size >= 512);
	CHECK(name_from_wire(&reread, q->qname.wire, q->qname.len) == q->qname.len && reread.labels == q->qname.labels);
	CHECK(name_equal(&reread, &q->qname));
	out_len = wire_query_build(out, 7, &q->qname, q->qtype, q->qclass, true, false, 1232, true);
	CHECK(out_len <= sizeof(out) && wire_query_parse(&again, out, out_len) == WIRE_OK);
	CHECK(again.id == 7 && again.has_edns && again.has_do && again.udp_size == 1232 && again.qtype == q->qtype);
	CHECK(name_equal(&again.qname, &q->qname));
}

static void check_own_answer(const struct wire_query *q, const struct wire_own *own, const uint8_t *out, size_t len)
{
	static struct wire_answer answer;

	CHECK(!own->limit || len <= own->limit);
	if (q->question_len == 0)
		return;
	CHECK(wire_answer_walk(&answer, out, len) == 0);
	CHECK(answer.id == q->id && answer.qtype == q->qtype && name_equal(&answer.chain[0], &q->qname) && !answer.is_cut);
	CHECK(answer.rcode == (q->has_edns ? own->rcode : own->rcode & 15));
	CHECK((q->flags & 0x7800) || wire_answer_matches(out, len, &q->qname, q->qtype, q->qclass));
}

static void check_own(const struct wire_query *q, const uint8_t *pkt, uint8_t choice)
{
	static const struct addr addrs[40] = {
		{AF_INET, {192, 0, 2, 1}}, {AF_INET6, {0x20, 1, 0xd, 0xb8}}, {AF_INET, {192, 0, 2, 2}}};
	struct wire_own own = {.rcode = choice & 1 ? RCODE_BADVERS : choice >> 4,
		.ede = choice & 2 ? EDE_FILTERED : EDE_NONE,
		.ede_text = choice & 4 ? "list ads" : NULL,
		.addrs = addrs,
		.addr_count = choice & 8 ? 40 : choice & 3,
		.ttl_s = 60,
		.with_soa = choice & 0x10,
		.soa_ttl_s = 30,
		.limit = choice & 0x20 ? q->udp_size : 0};
	static const uint8_t zeros[600];
	static const struct wire_record records[] = {{.type = 65280, .rdlen = 4, .rdata = zeros},
		{.owner = (const uint8_t *)"\1a\4test", .type = 65280, .rdlen = sizeof(zeros), .rdata = zeros}};
	size_t room = WIRE_OWN_MAX + (choice & 0x40 ? choice * 4u : 0), len;
	uint8_t *out = malloc(room);

	own.records = records;
	own.record_count = choice & 0x80 ? 1 + (choice & 1) : 0;
	CHECK(out);
	len = wire_own_build(out, room, q, pkt + WIRE_HEADER, &own);
	CHECK(len >= WIRE_HEADER && len <= room);
	check_own_answer(q, &own, out, len);
	free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct wire_query q;
	enum wire_reason reason;
	uint64_t hash[NAME_LABELS_MAX + 1];

	if (len > WIRE_UDP_MAX)
		return 0;
	reason = wire_query_parse(&q, bytes, len);
	CHECK((reason == WIRE_SHORT) == (len < WIRE_HEADER));
	if (reason == WIRE_SHORT || reason == WIRE_RESPONSE)
		return 0;
	if (reason == WIRE_OK) {
		check_query(&q, bytes, len);
		name_hash(&q.qname, 1, hash);
	}
	check_own(&q, bytes, bytes[len - 1]);
	check_own(&q, bytes, bytes[0]);
	return 0;
}
