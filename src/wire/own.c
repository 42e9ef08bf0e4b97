/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Answers that we make ourselves: errors, blocked names, local addresses, NODATA. On the workers, per query. */
#include "wire/bytes.h"
#include "wire/edns.h"
#include "wire/msg.h"
#include "wire/rr.h"

enum { OPCODE_MASK = 0x7800, OWN_UDP_SIZE = 1232, QNAME_POINTER = 0xc00c, RECORDS_MAX = 512 };

/* MNAME ".", RNAME "nameway.invalid.", then SERIAL, REFRESH, RETRY, EXPIRE, MINIMUM. */
static const uint8_t soa_names[] = "\0\7nameway\7invalid";
enum { SOA_RDLEN = sizeof(soa_names) + 20, SOA_LEN = 12 + SOA_RDLEN };

static size_t put_fixed(uint8_t *out, uint16_t type, uint16_t rclass, uint32_t ttl_s, size_t rdlen)
{
	store16(out, QNAME_POINTER);
	store16(out + 2, type);
	store16(out + 4, rclass);
	store32(out + 6, ttl_s);
	store16(out + 10, (uint16_t)rdlen);
	return 12;
}

static size_t put_soa(uint8_t *out, uint16_t rclass, uint32_t ttl_s)
{
	size_t at = put_fixed(out, RR_SOA, rclass, ttl_s, SOA_RDLEN);

	memcpy(out + at, soa_names, sizeof(soa_names));
	at += sizeof(soa_names);
	store32(out + at, 1);
	store32(out + at + 4, 3600);
	store32(out + at + 8, 600);
	store32(out + at + 12, 86400);
	store32(out + at + 16, ttl_s);
	return at + 20;
}

/* Writes the addresses of the family that was asked, as many as fit in `room`. Returns the bytes and counts the records. */
static size_t put_addrs(uint8_t *out, size_t room, const struct wire_query *q, const struct wire_own *own, uint16_t *ret_count)
{
	size_t at = 0;

	*ret_count = 0;
	for (unsigned i = 0; i < own->addr_count; i++) {
		const struct addr *a = &own->addrs[i];
		uint16_t type = a->family == AF_INET ? RR_A : RR_AAAA;
		size_t rdlen = a->family == AF_INET ? 4 : 16;

		if (q->qtype != type && q->qtype != RR_ANY)
			continue;
		if (room - at < 12 + rdlen)
			break;
		at += put_fixed(out + at, type, q->qclass, own->ttl_s, rdlen);
		memcpy(out + at, a->b, rdlen);
		at += rdlen;
		++*ret_count;
	}
	return at;
}

size_t wire_own_build(uint8_t *out, const struct wire_query *q, const uint8_t *question, const struct wire_own *own)
{
	struct edns_out edns = {.udp_size = OWN_UDP_SIZE,
		.rcode_high = own->rcode >> 4,
		.has_do = q->has_do,
		.ede = own->ede,
		.ede_text = own->ede_text};
	unsigned flags =
		FLAG_QR | FLAG_RA | (q->flags & (OPCODE_MASK | FLAG_RD | FLAG_CD)) | (own->aa ? FLAG_AA : 0) | (own->rcode & 15);
	size_t records_at = WIRE_HEADER + q->question_len, at = records_at, edns_bytes = q->has_edns ? edns_len(&edns) : 0;
	uint16_t ancount = 0, nscount = 0;

	if (q->question_len) {
		memcpy(out + WIRE_HEADER, question, q->question_len);
		at += put_addrs(out + at, own->with_soa ? RECORDS_MAX - SOA_LEN : RECORDS_MAX, q, own, &ancount);
		if (own->with_soa) {
			at += put_soa(out + at, q->qclass, own->soa_ttl_s);
			nscount = 1;
		}
	}
	if (own->limit && at + edns_bytes > own->limit) {
		flags |= FLAG_TC;
		at = records_at;
		ancount = nscount = 0;
	}
	store16(out, q->id);
	store16(out + 2, (uint16_t)flags);
	store16(out + 4, q->question_len ? 1 : 0);
	store16(out + 6, ancount);
	store16(out + 8, nscount);
	store16(out + 10, q->has_edns ? 1 : 0);
	return q->has_edns ? at + edns_put(out + at, &edns) : at;
}
