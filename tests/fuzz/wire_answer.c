/* SPDX-License-Identifier: GPL-3.0-or-later */
/* An upstream's answer. What walks fine must stay the same answer after the patch for a client: same names and addresses, TTLs
 * aged, within the client's limit or cut to header, question and OPT with TC. */
#include <string.h>

#include "fuzz.h"
#include "wire/msg.h"
#include "wire/patch.h"

static struct wire_answer before, after;
static uint8_t out[WIRE_TCP_MAX + 200], question[NAME_WIRE_MAX + 4];

static void check_counts(const struct wire_answer *a, size_t len)
{
	CHECK(a->chain_len >= 1 && a->chain_len <= ANSWER_CHAIN_MAX);
	CHECK(a->addr_count <= ANSWER_ADDRS_MAX && a->ttl_count <= ANSWER_TTLS_MAX);
	CHECK(a->answers_end <= a->authority_end && a->authority_end <= len);
	for (unsigned i = 0; i < a->ttl_count; i++)
		CHECK(a->ttl_offset[i] + 4u <= a->authority_end && (i == 0 || a->ttl_offset[i] > a->ttl_offset[i - 1]));
	for (unsigned i = 0; i < a->addr_count; i++)
		for (unsigned j = 0; j < i; j++)
			CHECK(!addr_equal(&a->addrs[i], &a->addrs[j]));
}

static void check_same(void)
{
	CHECK(after.chain_len == before.chain_len && after.addr_count == before.addr_count &&
		after.ttl_count == before.ttl_count);
	CHECK(after.qtype == before.qtype && after.qclass == before.qclass && after.has_soa == before.has_soa);
	CHECK(after.ancount == before.ancount && after.nscount == before.nscount && after.authority_end == before.authority_end);
	CHECK(after.is_chain_open == before.is_chain_open && !after.is_cut);
	for (unsigned i = 0; i < after.chain_len; i++)
		CHECK(name_equal(&after.chain[i], &before.chain[i]));
	for (unsigned i = 0; i < after.addr_count; i++)
		CHECK(addr_equal(&after.addrs[i], &before.addrs[i]));
}

static void check_patch(const uint8_t *msg, uint8_t choice)
{
	struct wire_query q = {.id = (uint16_t)~before.id,
		.flags = FLAG_RD,
		.has_edns = choice & 1,
		.has_do = choice & 2,
		.udp_size = 512,
		.question_len = before.chain[0].len + 4};
	struct wire_patch p = {.age_s = choice * 8u,
		.ttl_floor_s = choice & 8 ? 1 : 0,
		.ede = choice & 4 ? EDE_STALE : EDE_NONE,
		.ede_text = "stale",
		.clear_ad = choice & 16,
		.limit = choice & 32 ? 512 : WIRE_TCP_MAX,
		.our_udp_size = 1232};
	size_t kept = before.authority_end, len;

	memcpy(question, msg + WIRE_HEADER, q.question_len);
	for (unsigned i = 0; i < before.chain[0].len; i++)
		if (before.chain[0].wire[i] >= 'a' && before.chain[0].wire[i] <= 'z' && (i ^ choice) & 1)
			question[i] ^= 0x20;
	len = wire_answer_patch(out, sizeof(out), msg, kept, before.ttl_offset, before.ttl_count, &q, question, &p);
	CHECK(len <= p.limit && wire_answer_walk(&after, out, len) == 0);
	CHECK(after.id == q.id && (after.flags & FLAG_RD) && memcmp(out + WIRE_HEADER, question, q.question_len) == 0);
	CHECK(!p.clear_ad || !(after.flags & FLAG_AD));
	if (after.authority_end != kept) {
		CHECK((after.flags & FLAG_TC) && after.ancount == 0 && after.nscount == 0 && kept + 200 > p.limit);
		return;
	}
	check_same();
	CHECK((after.flags & FLAG_TC) == (before.flags & FLAG_TC));
	CHECK(len == kept + (q.has_edns ? 11u + (p.ede >= 0 ? 11u : 0) : 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	if (wire_answer_walk(&before, bytes, len) < 0)
		return 0;
	check_counts(&before, len);
	CHECK(wire_answer_matches(bytes, len, &before.chain[0], before.qtype, before.qclass) || (before.flags & 0x7800));
	if (before.is_cut)
		return 0;
	check_patch(bytes, bytes[len - 1]);
	check_patch(bytes, bytes[0]);
	return 0;
}
