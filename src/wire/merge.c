/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Two answers made one: the first ends at a CNAME, the second answers that CNAME's target. Names are written out uncompressed (lower-case), since
 * pointers of one message mean nothing in the other. No state; any thread; not the hot path. */
#include <string.h>

#include "base/err.h"
#include "wire/bytes.h"
#include "wire/patch.h"
#include "wire/rr.h"

struct merge {
	uint8_t *out;
	size_t put, max;
};

static int put_bytes(struct merge *m, const uint8_t *bytes, size_t len)
{
	if (m->put + len > m->max)
		return NW_ETOOLONG;
	memcpy(m->out + m->put, bytes, len);
	m->put += len;
	return 0;
}

static int put_name(struct merge *m, const uint8_t *msg, size_t len, size_t at)
{
	struct name n;
	int next = name_from_message(&n, msg, len, at), r;

	if (next < 0)
		return next;
	r = put_bytes(m, n.wire, n.len);
	return r < 0 ? r : next;
}

static int put_record(struct merge *m, const uint8_t *msg, size_t len, size_t at)
{
	uint16_t names[RR_NAMES_MAX], behind;
	struct name owner;
	struct rr rr;
	size_t rdata_put;
	int end = rr_read(&rr, &owner, msg, len, at), count = end < 0 ? end : rr_rdata_names(names, &behind, msg, &rr);

	if (count < 0)
		return count;
	if (put_bytes(m, owner.wire, owner.len) < 0 || put_bytes(m, msg + rr.fixed_at, 10) < 0)
		return NW_ETOOLONG;
	rdata_put = m->put;
	at = rr.rdata_at;
	for (int i = 0; i < count; i++) {
		int next;

		if (put_bytes(m, msg + at, names[i] - at) < 0 || (next = put_name(m, msg, len, names[i])) < 0)
			return NW_ETOOLONG;
		at = (size_t)next;
	}
	if (put_bytes(m, msg + at, (size_t)end - at) < 0 || m->put - rdata_put > 0xffff)
		return NW_ETOOLONG;
	store16(m->out + rdata_put - 2, (uint16_t)(m->put - rdata_put));
	return end;
}

static int put_section(struct merge *m, const uint8_t *msg, size_t len, size_t at, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		int next = put_record(m, msg, len, at);

		if (next < 0)
			return next;
		at = (size_t)next;
	}
	return (int)at;
}

static int question_end(const uint8_t *msg, size_t len)
{
	struct name n;
	int at = len < WIRE_HEADER ? NW_EMALFORMED : name_from_message(&n, msg, len, WIRE_HEADER);

	return at < 0 || (size_t)at + 4 > len ? NW_EMALFORMED : at + 4;
}

int wire_chain_merge(uint8_t *out, size_t out_max, const uint8_t *first, size_t first_len, const uint8_t *second, size_t second_len)
{
	struct merge m = {.out = out, .max = out_max};
	int q1 = question_end(first, first_len), q2 = question_end(second, second_len), r;

	if (q1 < 0 || q2 < 0 || (size_t)q1 > out_max)
		return NW_EMALFORMED;
	memcpy(out, first, (size_t)q1);
	m.put = (size_t)q1;
	/* Flags and rcode are those of the end of the chain. */
	memcpy(out + 2, second + 2, 2);
	r = put_section(&m, first, first_len, (size_t)q1, load16(first + 6));
	if (r < 0)
		return r;
	r = put_section(&m, second, second_len, (size_t)q2, load16(second + 6));
	if (r < 0)
		return r;
	r = put_section(&m, second, second_len, (size_t)r, load16(second + 8));
	if (r < 0)
		return r;
	store16(out + 6, (uint16_t)(load16(first + 6) + load16(second + 6)));
	store16(out + 8, load16(second + 8));
	store16(out + 10, 0);
	return (int)m.put;
}
