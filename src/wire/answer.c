/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Walking a response: everything that steering, filter and cache judge by, and the proof that it may be judged.
 *
 * The sections are read in order and the answer records noted. Then the chain is followed from the qname over the notes,
 * whatever their order: each step looks for the one CNAME (else a DNAME) of the present name, at most ANSWER_CHAIN_MAX times
 * over ANSWER_TTLS_MAX notes, by the hash of the owner. Last, every note is held against the chain.
 *
 * A name whose compression pointers lead into a TTL field is malformed: ageing the TTL would turn the name judged into another
 * one. Nothing here is zeroed in bulk: arrays are valid up to their counts. No state; any thread. */
#include <netinet/in.h>

#include "base/err.h"
#include "base/hash.h"
#include "wire/bytes.h"
#include "wire/msg.h"
#include "wire/rr.h"

enum { OPCODE_MASK = 0x7800, RECORDS_MAX = ANSWER_TTLS_MAX, ADDRS_SEEN_MAX = 1024 };

struct walk {
	struct wire_answer *a;
	const uint8_t *msg;
	size_t len;
	unsigned count, dname_count;
	unsigned addrs_seen;                   /* with duplicates: bounds the work of telling them */
	uint32_t answer_ttl_s, soa_ttl_s;      /* the least; UINT32_MAX: none */
	bool end_has_record, end_has_type;     /* at the chain's end: any record, one of the asked type */
	uint64_t chain_hash[ANSWER_CHAIN_MAX]; /* of whole names, unseeded: a match is always confirmed */
	uint64_t owner_hash[RECORDS_MAX];
	struct rr rr[RECORDS_MAX]; /* of the answer section */
};

static uint64_t whole_hash(const struct name *n)
{
	return hash_bytes(n->wire, n->len, 0);
}

static void name_copy(struct name *to, const struct name *from)
{
	to->len = from->len;
	to->labels = from->labels;
	memcpy(to->offset, from->offset, from->labels + 1u);
	memcpy(to->wire, from->wire, from->len);
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Whether [at, at + len) overlaps a TTL field read so far. The offsets ascend. */
static bool overlaps_ttl(const struct wire_answer *a, size_t at, size_t len)
{
	unsigned low = 0, high = a->ttl_count;

	if (high == 0 || at + len <= a->ttl_offset[0])
		return false;
	while (low < high) {
		unsigned mid = (low + high) / 2;

		if (a->ttl_offset[mid] + 4u <= at)
			low = mid + 1;
		else
			high = mid;
	}
	return low < a->ttl_count && a->ttl_offset[low] < at + len;
}

/* Whether the name at `at`, known to be well formed, is partly made of TTL fields. */
static bool name_reads_ttl(const struct walk *w, size_t at)
{
	for (;;) {
		unsigned c = w->msg[at];
		size_t len = c >= 0xc0 ? 2 : 1 + c;

		if (overlaps_ttl(w->a, at, len))
			return true;
		if (c == 0)
			return false;
		at = c >= 0xc0 ? (c & 0x3f) << 8 | w->msg[at + 1] : at + len;
	}
}

/* One record of the answer or authority section. Returns the offset behind it or NW_EMALFORMED. */
static int record_read(struct walk *w, struct rr *ret, struct name *ret_owner, size_t at)
{
	uint16_t names[RR_NAMES_MAX], behind;
	int end = rr_read(ret, ret_owner, w->msg, w->len, at);
	int count;

	if (end < 0 || ret->type == RR_OPT)
		return NW_EMALFORMED;
	count = rr_rdata_names(names, &behind, w->msg, ret);
	if (count < 0)
		return count;
	w->a->ttl_offset[w->a->ttl_count++] = (uint16_t)(ret->fixed_at + 4);
	if (name_reads_ttl(w, at))
		return NW_EMALFORMED;
	for (int i = 0; i < count; i++)
		if (name_reads_ttl(w, names[i]))
			return NW_EMALFORMED;
	return end;
}

static int answers_read(struct walk *w, size_t at)
{
	struct wire_answer *a = w->a;

	for (; w->count < a->ancount; w->count++) {
		struct rr *rr = &w->rr[w->count];
		struct name owner;
		int end = record_read(w, rr, &owner, at);

		if (end < 0 || (rr->rclass != a->qclass && a->qclass != RR_CLASS_ANY))
			return NW_EMALFORMED;
		w->owner_hash[w->count] = whole_hash(&owner);
		w->answer_ttl_s = least(w->answer_ttl_s, rr->ttl_s);
		w->dname_count += rr->type == RR_DNAME;
		at = (size_t)end;
	}
	/* No honest chain has more DNAMEs than steps. */
	if (w->dname_count > ANSWER_CHAIN_MAX)
		a->is_cut = true;
	a->answers_end = (uint16_t)at;
	return 0;
}

static int authority_read(struct walk *w)
{
	struct wire_answer *a = w->a;
	size_t at = a->answers_end;

	for (unsigned i = 0; i < a->nscount; i++) {
		struct name owner;
		struct rr rr;
		int end = record_read(w, &rr, &owner, at);

		if (end < 0)
			return end;
		at = (size_t)end;
		if (rr.type != RR_SOA)
			continue;
		a->has_soa = true;
		w->soa_ttl_s = least(w->soa_ttl_s, least(rr.ttl_s, (uint32_t)rr_ttl(w->msg + at - 4)));
	}
	a->authority_end = (uint16_t)at;
	return 0;
}

static int additional_read(struct walk *w, unsigned count)
{
	size_t at = w->a->authority_end;
	bool has_opt = false;

	for (; count > 0; count--) {
		struct name owner;
		struct rr rr;
		int end = rr_read(&rr, &owner, w->msg, w->len, at);

		if (end < 0)
			return end;
		at = (size_t)end;
		if (rr.type != RR_OPT)
			continue;
		if (has_opt || owner.labels > 0)
			return NW_EMALFORMED;
		has_opt = true;
		w->a->rcode |= (uint16_t)(w->msg[rr.fixed_at + 4] << 4);
	}
	return 0;
}

static bool owner_is(const struct walk *w, unsigned i, const struct name *name, uint64_t hash)
{
	struct name owner;

	return w->owner_hash[i] == hash && name_from_message(&owner, w->msg, w->len, w->rr[i].owner_at) > 0 &&
	       name_equal(&owner, name);
}

/* The name that a DNAME makes of `name` (RFC 6672 2.2). Returns 1, or 0 when it is not below the owner or the result is too
 * long. */
static int dname_apply(struct name *ret, const struct walk *w, const struct rr *rr, const struct name *name)
{
	struct name owner, target;
	uint8_t wire[2 * NAME_WIRE_MAX];
	unsigned kept;

	if (name_from_message(&owner, w->msg, w->len, rr->owner_at) < 0 ||
		name_from_message(&target, w->msg, w->len, rr->rdata_at) < 0)
		return 0;
	if (owner.labels >= name->labels || !name_is_under(name, &owner))
		return 0;
	kept = (unsigned)name->len - owner.len;
	memcpy(wire, name->wire, kept);
	memcpy(wire + kept, target.wire, target.len);
	return name_from_wire(ret, wire, kept + target.len) > 0;
}

/* Where the chain goes from `name`: 1 and the next name, or 0. */
static int chain_next(struct name *ret, const struct walk *w, const struct name *name, uint64_t hash)
{
	for (unsigned i = 0; i < w->count; i++)
		if (w->rr[i].type == RR_CNAME && owner_is(w, i, name, hash))
			return name_from_message(ret, w->msg, w->len, w->rr[i].rdata_at) > 0;
	if (w->dname_count == 0)
		return 0;
	for (unsigned i = 0; i < w->count; i++)
		if (w->rr[i].type == RR_DNAME && dname_apply(ret, w, &w->rr[i], name))
			return 1;
	return 0;
}

static int chain_follow(struct walk *w)
{
	struct wire_answer *a = w->a;
	struct name next;

	a->chain_len = 1;
	w->chain_hash[0] = whole_hash(&a->chain[0]);
	while (chain_next(&next, w, &a->chain[a->chain_len - 1], w->chain_hash[a->chain_len - 1])) {
		for (unsigned i = 0; i < a->chain_len; i++)
			if (name_equal(&a->chain[i], &next))
				return NW_EMALFORMED;
		if (a->chain_len == ANSWER_CHAIN_MAX) {
			a->is_cut = true;
			return 0;
		}
		name_copy(&a->chain[a->chain_len], &next);
		w->chain_hash[a->chain_len++] = whole_hash(&next);
	}
	return 0;
}

/* The place of a record's owner in the chain, or -1. */
static int chain_place(const struct walk *w, unsigned i)
{
	for (int place = 0; place < w->a->chain_len; place++)
		if (owner_is(w, i, &w->a->chain[place], w->chain_hash[place]))
			return place;
	return -1;
}

static const uint8_t v4_mapped[12] = {[10] = 0xff, [11] = 0xff};

static void addr_add(struct walk *w, int family, const uint8_t *bytes)
{
	struct wire_answer *a = w->a;
	struct addr new = {.family = (uint8_t)family};

	/* A host that is told ::ffff:192.0.2.1 connects by IPv4. */
	if (family == AF_INET6 && !memcmp(bytes, v4_mapped, sizeof(v4_mapped))) {
		new.family = AF_INET;
		bytes += sizeof(v4_mapped);
	}
	memcpy(new.b, bytes, new.family == AF_INET ? 4 : 16);
	if (++w->addrs_seen > ADDRS_SEEN_MAX) {
		a->is_cut = true;
		return;
	}
	for (unsigned i = 0; i < a->addr_count; i++)
		if (addr_equal(&a->addrs[i], &new))
			return;
	if (a->addr_count == ANSWER_ADDRS_MAX)
		a->is_cut = true;
	else
		a->addrs[a->addr_count++] = new;
}

static void hints_add(struct walk *w, const struct rr *rr)
{
	uint16_t names[RR_NAMES_MAX], at;
	size_t end = (size_t)rr->rdata_at + rr->rdlen;
	struct svc_param param;

	if (rr_rdata_names(names, &at, w->msg, rr) < 0)
		return;
	while (at < end && !w->a->is_cut) {
		int next = svc_param_read(&param, w->msg, end, at);

		if (next < 0)
			return;
		at = (uint16_t)next;
		for (unsigned i = 0; param.key == SVC_IPV4HINT && i < param.len && !w->a->is_cut; i += 4)
			addr_add(w, AF_INET, w->msg + param.value_at + i);
		for (unsigned i = 0; param.key == SVC_IPV6HINT && i < param.len && !w->a->is_cut; i += 16)
			addr_add(w, AF_INET6, w->msg + param.value_at + i);
	}
}

/* Whether an SVCB or HTTPS record sends its reader to a host that is not of the chain (RFC 9460 2.4.2, 2.5). */
static bool leads_elsewhere(const struct walk *w, const struct rr *rr)
{
	uint16_t names[RR_NAMES_MAX], behind;
	struct name target;

	if (rr_rdata_names(names, &behind, w->msg, rr) < 1 || name_from_message(&target, w->msg, w->len, names[0]) < 0)
		return true;
	for (int place = 0; place < w->a->chain_len; place++)
		if (name_equal(&target, &w->a->chain[place]))
			return false;
	return target.labels > 0; /* the root means the owner itself */
}

/* A CNAME must be the step the chain took: a second one of the same owner would lead where nobody judged. */
static bool is_chain_step(const struct walk *w, const struct rr *rr, int place)
{
	struct name target;

	return place >= 0 && place + 1 < w->a->chain_len && name_from_message(&target, w->msg, w->len, rr->rdata_at) > 0 &&
	       name_equal(&target, &w->a->chain[place + 1]);
}

/* Holds each answer record against the chain and collects the addresses. Addresses of a name inside the chain count too: there
 * are clients that take any address of the answer. */
static int records_judge(struct walk *w)
{
	struct wire_answer *a = w->a;

	for (unsigned i = 0; i < w->count && !a->is_cut; i++) {
		const struct rr *rr = &w->rr[i];
		int place = chain_place(w, i);

		if ((rr->type == RR_A || rr->type == RR_AAAA) && place < 0)
			return NW_EMALFORMED;
		if (rr->type == RR_CNAME && !is_chain_step(w, rr, place))
			return NW_EMALFORMED;
		if (rr->rclass == RR_CLASS_IN && (rr->type == RR_A || rr->type == RR_AAAA))
			addr_add(w, rr->type == RR_A ? AF_INET : AF_INET6, w->msg + rr->rdata_at);
		if (rr->type == RR_SVCB || rr->type == RR_HTTPS) {
			hints_add(w, rr);
			a->has_other_target = a->has_other_target || leads_elsewhere(w, rr);
		}
		if (place == a->chain_len - 1) {
			w->end_has_record = true;
			w->end_has_type = w->end_has_type || rr->type == a->qtype;
		}
		/* A CNAME asked for by type stands at the chain's beginning, and ANY is content with whatever there is. */
		if (place >= 0 && (a->qtype == RR_ANY || (a->qtype == RR_CNAME && rr->type == RR_CNAME)))
			w->end_has_type = true;
	}
	return 0;
}

static void conclude(struct walk *w)
{
	struct wire_answer *a = w->a;

	a->is_chain_open = a->chain_len > 1 && !w->end_has_record && a->qtype != RR_CNAME && a->qtype != RR_ANY;
	a->is_nodata = a->rcode == RCODE_NOERROR && !w->end_has_type;
	if (!a->is_nodata && a->rcode != RCODE_NXDOMAIN)
		a->ttl_min_s = a->ancount > 0 ? w->answer_ttl_s : 0;
	else
		a->ttl_min_s = a->has_soa ? least(w->answer_ttl_s, w->soa_ttl_s) : 0;
}

/* Header and question. Returns the offset behind the question. */
static int head_read(struct wire_answer *ret, const uint8_t *msg, size_t len)
{
	int end;

	ret->chain_len = 0;
	ret->is_chain_open = ret->is_cut = ret->has_soa = ret->is_nodata = ret->has_other_target = false;
	ret->addr_count = ret->ttl_count = 0;
	ret->answers_end = ret->authority_end = 0;
	ret->ttl_min_s = 0;
	if (len < WIRE_HEADER || len > WIRE_TCP_MAX)
		return NW_EMALFORMED;
	ret->id = load16(msg);
	ret->flags = load16(msg + 2);
	ret->rcode = ret->flags & 15;
	ret->ancount = load16(msg + 6);
	ret->nscount = load16(msg + 8);
	if (!(ret->flags & FLAG_QR) || load16(msg + 4) != 1)
		return NW_EMALFORMED;
	end = name_from_wire(&ret->chain[0], msg + WIRE_HEADER, len - WIRE_HEADER);
	if (end < 0 || len - WIRE_HEADER - (size_t)end < 4)
		return NW_EMALFORMED;
	end += WIRE_HEADER;
	ret->qtype = load16(msg + end);
	ret->qclass = load16(msg + end + 2);
	return end + 4;
}

int wire_answer_walk(struct wire_answer *ret, const uint8_t *msg, size_t len)
{
	struct walk w;
	int r = head_read(ret, msg, len);

	if (r < 0)
		return r;
	if (ret->ancount + ret->nscount > RECORDS_MAX) {
		ret->is_cut = true;
		ret->chain_len = 1;
		ret->answers_end = ret->authority_end = (uint16_t)r;
		return 0;
	}
	w.a = ret;
	w.msg = msg;
	w.len = len;
	w.count = w.dname_count = w.addrs_seen = 0;
	w.answer_ttl_s = w.soa_ttl_s = UINT32_MAX;
	w.end_has_record = w.end_has_type = false;
	if (answers_read(&w, (size_t)r) < 0 || authority_read(&w) < 0 || additional_read(&w, load16(msg + 10)) < 0)
		return NW_EMALFORMED;
	if (chain_follow(&w) < 0 || records_judge(&w) < 0)
		return NW_EMALFORMED;
	conclude(&w);
	return 0;
}

bool wire_answer_matches(const uint8_t *msg, size_t len, const struct name *qname, uint16_t qtype, uint16_t qclass)
{
	uint8_t asked[NAME_WIRE_MAX];

	if (len < WIRE_HEADER + qname->len + 4u || (load16(msg + 2) & (FLAG_QR | OPCODE_MASK)) != FLAG_QR || load16(msg + 4) != 1)
		return false;
	lower_copy(asked, msg + WIRE_HEADER, qname->len);
	msg += WIRE_HEADER + qname->len;
	return memcmp(asked, qname->wire, qname->len) == 0 && load16(msg) == qtype && load16(msg + 2) == qclass;
}
