/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Queries: reading what clients send and making what we send upstream. The parser runs for every packet, on the workers: one
 * pass, and it writes only the fields it fills. */
#include "wire/bytes.h"
#include "wire/edns.h"
#include "wire/msg.h"

enum { OPCODE_MASK = 0x7800, RR_FIXED = 10, UDP_MIN = 512, OPTION_COOKIE = 10, TTL_DO = 0x8000 };

/* The options of an OPT record must fill it exactly (RFC 6891 6.1.2). We only look at the COOKIE's length. */
static bool options_read(struct wire_query *ret, const uint8_t *at, const uint8_t *end)
{
	while (at < end) {
		unsigned len;

		if (end - at < 4)
			return false;
		len = load16(at + 2);
		if (end - at - 4 < (ptrdiff_t)len)
			return false;
		if (load16(at) == OPTION_COOKIE)
			ret->has_cookie = (uint16_t)len;
		at += 4 + len;
	}
	return true;
}

/* `fixed` is the record behind its owner: TYPE OPT, CLASS = size, TTL = flags, RDLENGTH, which is known to fit. */
static enum wire_reason opt_read(struct wire_query *ret, const uint8_t *fixed)
{
	unsigned size = load16(fixed + 2);
	uint32_t ttl = load32(fixed + 4);

	if (ret->has_edns)
		return WIRE_FORMERR;
	ret->has_edns = true;
	ret->udp_size = size > UDP_MIN ? (uint16_t)size : UDP_MIN;
	ret->has_do = ttl & TTL_DO;
	if ((ttl >> 16 & 0xff) != 0)
		return WIRE_BADVERS;
	return options_read(ret, fixed + RR_FIXED, fixed + RR_FIXED + load16(fixed + 8)) ? WIRE_OK : WIRE_FORMERR;
}

/* A query's additional section: OPT, and others (TSIG, SIG(0)) that only have to hold together. */
static enum wire_reason additional_read(struct wire_query *ret, const uint8_t *pkt, size_t len, size_t at, unsigned count)
{
	struct name owner;

	for (; count > 0; count--) {
		bool is_root = at < len && pkt[at] == 0;
		enum wire_reason reason;
		unsigned rdlen;
		int end = (int)at + 1;

		if (!is_root)
			end = name_from_message(&owner, pkt, len, at);
		if (end < 0 || len - (size_t)end < RR_FIXED)
			return WIRE_FORMERR;
		at = (size_t)end;
		rdlen = load16(pkt + at + 8);
		if (len - at - RR_FIXED < rdlen)
			return WIRE_FORMERR;
		if (load16(pkt + at) == RR_OPT) {
			reason = is_root ? opt_read(ret, pkt + at) : WIRE_FORMERR;
			if (reason != WIRE_OK)
				return reason;
		}
		at += RR_FIXED + rdlen;
	}
	return WIRE_OK;
}

enum wire_reason wire_query_parse(struct wire_query *ret, const uint8_t *pkt, size_t len)
{
	int name_len;
	size_t at;

	ret->has_edns = ret->has_do = false;
	ret->udp_size = UDP_MIN;
	ret->question_len = ret->has_cookie = 0;
	ret->qtype = ret->qclass = 0;
	ret->qname.len = ret->qname.labels = 0;
	ret->id = ret->flags = 0;
	if (len < WIRE_HEADER)
		return WIRE_SHORT;
	ret->id = load16(pkt);
	ret->flags = load16(pkt + 2);
	if (ret->flags & FLAG_QR)
		return WIRE_RESPONSE;
	if (ret->flags & OPCODE_MASK)
		return WIRE_NOTIMP;
	/* QDCOUNT 1, ANCOUNT 0, NSCOUNT 0. */
	if (load32(pkt + 4) != 1u << 16 || load16(pkt + 8) != 0)
		return WIRE_FORMERR;
	name_len = name_from_wire(&ret->qname, pkt + WIRE_HEADER, len - WIRE_HEADER);
	if (name_len < 0 || len - WIRE_HEADER - (size_t)name_len < 4) {
		ret->qname.len = ret->qname.labels = 0;
		return WIRE_FORMERR;
	}
	at = WIRE_HEADER + (size_t)name_len;
	ret->qtype = load16(pkt + at);
	ret->qclass = load16(pkt + at + 2);
	ret->question_len = (uint16_t)(name_len + 4);
	return additional_read(ret, pkt, len, at + 4, load16(pkt + 10));
}

size_t wire_query_build(uint8_t *out, uint16_t id, const struct name *qname, uint16_t qtype, uint16_t qclass, bool rd, bool cd,
	uint16_t edns_size, bool has_do)
{
	struct edns_out edns = {.udp_size = edns_size, .has_do = has_do, .ede = EDE_NONE};
	size_t at = WIRE_HEADER;

	store16(out, id);
	store16(out + 2, (uint16_t)((rd ? FLAG_RD : 0) | (cd ? FLAG_CD : 0)));
	store32(out + 4, 1u << 16);
	store32(out + 8, edns_size > 0 ? 1 : 0);
	memcpy(out + at, qname->wire, qname->len);
	at += qname->len;
	store16(out + at, qtype);
	store16(out + at + 2, qclass);
	at += 4;
	return edns_size > 0 ? at + edns_put(out + at, &edns) : at;
}
