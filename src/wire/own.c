/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Answers that we make ourselves: errors, blocked names, local records, NODATA. On the workers, per query. */
#include <assert.h>

#include "wire/bytes.h"
#include "wire/edns.h"
#include "wire/msg.h"
#include "wire/rr.h"

enum { OPCODE_MASK = 0x7800, OWN_UDP_SIZE = 1232, QNAME_POINTER = 0xc00c, ADDRS_BYTES_MAX = 512 };

/* MNAME ".", RNAME "nameway.invalid.", then SERIAL, REFRESH, RETRY, EXPIRE, MINIMUM. */
static const uint8_t soa_names[] = "\0\7nameway\7invalid";
enum { SOA_RDLEN = sizeof(soa_names) + 20, SOA_LEN = 12 + SOA_RDLEN };

/* What follows an owner. */
static size_t put_rest(uint8_t *out, uint16_t type, uint16_t rclass, uint32_t ttl_s, size_t rdlen)
{
	store16(out, type);
	store16(out + 2, rclass);
	store32(out + 4, ttl_s);
	store16(out + 8, (uint16_t)rdlen);
	return 10;
}

static size_t put_fixed(uint8_t *out, uint16_t type, uint16_t rclass, uint32_t ttl_s, size_t rdlen)
{
	store16(out, QNAME_POINTER);
	return 2 + put_rest(out + 2, type, rclass, ttl_s, rdlen);
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

static size_t owner_len(const uint8_t *owner)
{
	size_t len = 0;

	while (owner[len])
		len += owner[len] + 1u;
	return len + 1;
}

/* Writes the records when all of them fit in `room`. */
static bool put_records(uint8_t *out, size_t room, const struct wire_query *q, const struct wire_own *own, size_t *ret_len)
{
	size_t at = 0;

	for (unsigned i = 0; i < own->record_count; i++) {
		const struct wire_record *r = &own->records[i];
		size_t len = r->owner ? owner_len(r->owner) : 0;
		bool is_qname = !r->owner || (len == q->qname.len && !memcmp(r->owner, q->qname.wire, len));

		if (room - at < (is_qname ? 2 : len) + 10 + r->rdlen)
			return false;
		if (is_qname) {
			store16(out + at, QNAME_POINTER);
			at += 2;
		} else {
			memcpy(out + at, r->owner, len);
			at += len;
		}
		at += put_rest(out + at, r->type, q->qclass, r->ttl_s, r->rdlen);
		if (r->rdlen)
			memcpy(out + at, r->rdata, r->rdlen);
		at += r->rdlen;
	}
	*ret_len = at;
	return true;
}

/* The sections behind the question, which end before `end`. False: they do not fit, and there are none. */
static bool put_sections(uint8_t *out, size_t *at, size_t end, const struct wire_query *q, const struct wire_own *own,
	uint16_t *ret_ancount, uint16_t *ret_nscount)
{
	size_t soa_bytes = own->with_soa ? SOA_LEN : 0, room, len, addrs_room = ADDRS_BYTES_MAX - soa_bytes;
	uint16_t addr_count;

	if (end < *at + soa_bytes)
		return false;
	room = end - *at - soa_bytes;
	if (!put_records(out + *at, room, q, own, &len))
		return false;
	if (own->addr_count && room - len < addrs_room)
		return false;
	len += put_addrs(out + *at + len, addrs_room, q, own, &addr_count);
	*at += len;
	*ret_ancount = (uint16_t)(own->record_count + addr_count);
	if (own->with_soa)
		*at += put_soa(out + *at, q->qclass, own->soa_ttl_s);
	*ret_nscount = own->with_soa;
	return true;
}

size_t wire_own_build(
	uint8_t *out, size_t room, const struct wire_query *q, const uint8_t *question, const struct wire_own *own)
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
	bool fits = true;

	assert(room >= WIRE_OWN_MAX);
	if (room > WIRE_TCP_MAX)
		room = WIRE_TCP_MAX;
	if (q->question_len) {
		memcpy(out + WIRE_HEADER, question, q->question_len);
		fits = put_sections(out, &at, room - edns_bytes, q, own, &ancount, &nscount);
	}
	if (!fits || (own->limit && at + edns_bytes > own->limit)) {
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
