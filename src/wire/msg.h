/* SPDX-License-Identifier: GPL-3.0-or-later */
/* DNS messages (RFC 1035, 6891, 8914, 9460): bytes in, struct out. No allocation, no I/O. Parsers return a reason, never an
 * assertion. Integers are host order in every struct. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/addr.h"
#include "wire/name.h"

enum { WIRE_HEADER = 12, WIRE_UDP_MAX = 65535, WIRE_TCP_MAX = 65535 };
enum rr_type { RR_A = 1, RR_NS = 2, RR_CNAME = 5, RR_SOA = 6, RR_PTR = 12, RR_MX = 15, RR_TXT = 16, RR_AAAA = 28,
	RR_SRV = 33, RR_DNAME = 39, RR_OPT = 41, RR_DS = 43, RR_RRSIG = 46, RR_NSEC = 47, RR_DNSKEY = 48, RR_SVCB = 64,
	RR_HTTPS = 65, RR_TKEY = 249, RR_TSIG = 250, RR_IXFR = 251, RR_AXFR = 252, RR_ANY = 255 };
enum rcode { RCODE_NOERROR = 0, RCODE_FORMERR = 1, RCODE_SERVFAIL = 2, RCODE_NXDOMAIN = 3, RCODE_NOTIMP = 4,
	RCODE_REFUSED = 5, RCODE_BADVERS = 16 };
/* Header flag bits as they stand in the second 16-bit word. */
enum { FLAG_QR = 0x8000, FLAG_AA = 0x0400, FLAG_TC = 0x0200, FLAG_RD = 0x0100, FLAG_RA = 0x0080,
	FLAG_AD = 0x0020, FLAG_CD = 0x0010 };
/* RFC 8914 INFO-CODEs that we send. */
enum ede { EDE_NONE = -1, EDE_OTHER = 0, EDE_STALE = 3, EDE_FORGED = 4, EDE_CACHED_ERROR = 13, EDE_STALE_NXDOMAIN = 19, EDE_BLOCKED = 15, EDE_FILTERED = 17,
	EDE_PROHIBITED = 18, EDE_NOT_READY = 14, EDE_NOT_SUPPORTED = 21, EDE_NO_REACHABLE = 22,
	EDE_NETWORK_ERROR = 23, EDE_SYNTHESIZED = 29 };

/* Why a packet is not served. Each is a counter. */
enum wire_reason { WIRE_OK = 0,
	WIRE_SHORT,      /* under 12 bytes: dropped */
	WIRE_RESPONSE,   /* QR set: dropped */
	WIRE_FORMERR,    /* answer FORMERR (header is usable) */
	WIRE_NOTIMP,     /* opcode other than QUERY: answer NOTIMP */
	WIRE_BADVERS };  /* EDNS version above 0: answer BADVERS */

struct wire_query {
	uint16_t id, flags;          /* flags as received */
	uint16_t qtype, qclass;
	bool has_edns, has_do;
	uint16_t udp_size;           /* what the client can take: 512 without EDNS, else max(512, its value) */
	uint16_t question_len;       /* bytes from offset 12: the question as it came, case kept */
	uint16_t has_cookie;         /* length of an EDNS COOKIE option, for the tests of later versions; never required */
	struct name qname;           /* lower-cased */
};
/* Fills *ret as far as it got (id, flags always when len >= 12), also for reasons other than WIRE_OK. */
enum wire_reason wire_query_parse(struct wire_query *ret, const uint8_t *pkt, size_t len);

/* What steering, filter and cache need from an answer. Limits: more is cut off and said in is_cut (callers then answer SERVFAIL:
 * an answer that cannot be judged whole is not given). */
enum { ANSWER_CHAIN_MAX = 17, ANSWER_ADDRS_MAX = 256, ANSWER_TTLS_MAX = 512 };
struct wire_answer {
	uint16_t id, flags;
	uint16_t rcode;              /* extended by OPT: 12 bits */
	uint16_t qtype, qclass;
	uint8_t chain_len;           /* names of the CNAME/DNAME chain, [0] = qname */
	bool has_other_target;       /* an HTTPS or SVCB record names a host outside the chain: its addresses are asked for by that name */
	bool is_chain_open;          /* the chain ends at a CNAME whose target has no record here, and qtype is not CNAME/ANY. is_nodata may hold
	                              * too: has_soa then tells NODATA at the target from an answer that upstream did not finish */
	bool is_cut, has_soa;
	bool is_nodata;              /* NOERROR and no record of the asked type at the chain's end */
	uint16_t addr_count, ttl_count;
	uint16_t answers_end;        /* offset behind the answer section */
	uint16_t authority_end;      /* offset behind the authority section: the cached message ends here (additional is not kept) */
	uint16_t ancount, nscount;
	uint32_t ttl_min_s;          /* least TTL of the answer section; for negative answers (NXDOMAIN, is_nodata) that and min(SOA TTL,
	                              * SOA MINIMUM), RFC 2308, and 0 without SOA: not to be cached */
	struct name chain[ANSWER_CHAIN_MAX];
	struct addr addrs[ANSWER_ADDRS_MAX];     /* A and AAAA of every name of the chain plus ipv4hint/ipv6hint of HTTPS and SVCB; deduplicated */
	uint16_t ttl_offset[ANSWER_TTLS_MAX];    /* of every TTL field up to authority_end */
};
/* Walks a response. Every name and RDLENGTH is checked; records whose owner is not in the chain are an error for A/AAAA/CNAME
 * types in the answer section (they are not what was asked). The question must be one. Loops, two CNAMEs of one owner with
 * different targets, records of another class and names whose pointers lead into TTL fields are malformed too. Only the valid
 * parts of *ret are written. 0 or NW_EMALFORMED. When is_cut is set, only id, flags, rcode, qtype, qclass and chain[0] may be
 * relied on. */
int wire_answer_walk(struct wire_answer *ret, const uint8_t *msg, size_t len);
/* Whether a response answers this query: QR, one question, equal qname (case-insensitive), type, class. */
bool wire_answer_matches(const uint8_t *msg, size_t len, const struct name *qname, uint16_t qtype, uint16_t qclass);

/* Makes an uncompressed query message with RD and, when edns_size > 0, an OPT (with DO). Returns its length. out holds >= 300
 * bytes. */
size_t wire_query_build(uint8_t *out, uint16_t id, const struct name *qname, uint16_t qtype, uint16_t qclass, bool rd, bool cd,
	uint16_t edns_size, bool has_do);

/* An answer of our own. out holds `room` bytes, at least WIRE_OWN_MAX: enough without `records`. Addresses that do not fit in 512 bytes are left
 * out. The question is copied from the query packet as it came (`question`, question_len bytes). ede < 0: none; ede_text may be NULL
 * (at most 120 bytes are used). EDE only when the query had EDNS. */
enum { WIRE_OWN_MAX = 12 + 260 + 512 + 160 };
/* A record as it goes out. Integers host order, names in rdata uncompressed. An owner that equals the question's is a pointer to it. */
struct wire_record { const uint8_t *owner; /* wire name; NULL: the question's */ uint16_t type, rdlen; uint32_t ttl_s; const uint8_t *rdata; };
struct wire_own {
	uint8_t rcode;                     /* RCODE_BADVERS is split over OPT */
	bool aa;
	int ede; const char *ede_text;
	const struct addr *addrs; unsigned addr_count; uint32_t ttl_s; /* A/AAAA records at qname, of the family the qtype asks */
	const struct wire_record *records; unsigned record_count; /* the answer section; `addrs` come behind */
	uint16_t limit;                    /* bytes the client takes (UDP), 0: no limit. What is larger, or than `room`, goes without any record, with TC */
	bool with_soa; uint32_t soa_ttl_s; /* a synthetic SOA at qname's parent-most useful owner (qname itself): negative answers that clients may cache */
};
size_t wire_own_build(uint8_t *out, size_t room, const struct wire_query *q, const uint8_t *question, const struct wire_own *own);
