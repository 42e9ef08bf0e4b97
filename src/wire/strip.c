/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Taking the address hints of one family out of HTTPS and SVCB answers (RFC 9460 7.3), for ways that do not carry that family.
 *
 * The message is copied piece by piece; what is left out is noted as a cut (offset and length in the source, ascending). Every
 * compression pointer that is copied is lowered by the cuts before its target, so names keep their form and never grow. Each
 * name is decoded again from the copy and compared with the source: a pointer that led into a cut or into opaque bytes is an
 * error, not another name. No state; any thread; not for cached answers' hot path (the result is what is kept). */
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "wire/bytes.h"
#include "wire/patch.h"
#include "wire/rr.h"

enum { CUTS_MAX = 256 };

struct cut {
	uint16_t at, len;
};

struct strip {
	const uint8_t *msg;
	size_t len;
	uint8_t *out;
	size_t put; /* bytes written */
	uint16_t hint_key;
	unsigned cut_count;
	struct cut cuts[CUTS_MAX];
};

static void copy(struct strip *s, size_t at, size_t len)
{
	memcpy(s->out + s->put, s->msg + at, len);
	s->put += len;
}

static int cut(struct strip *s, size_t at, size_t len)
{
	if (s->cut_count == CUTS_MAX)
		return NW_EMALFORMED;
	s->cuts[s->cut_count++] = (struct cut){(uint16_t)at, (uint16_t)len};
	return 0;
}

/* Where a byte of the source stands in the copy. A target inside a cut comes out wrong and is caught by the comparison. */
static uint16_t moved(const struct strip *s, uint16_t target)
{
	uint16_t less = 0;

	for (unsigned i = 0; i < s->cut_count && s->cuts[i].at < target; i++)
		less += s->cuts[i].len;
	return target > less ? target - less : 0;
}

/* Copies the name at `at`, known to be well formed, as it stands. Returns the offset behind it in the source or NW_EMALFORMED. */
static int copy_name(struct strip *s, size_t at)
{
	struct name before, after;
	size_t start = s->put, from = at;
	uint8_t *pointer;

	while (s->msg[at] != 0 && s->msg[at] < 0xc0)
		at += 1u + s->msg[at];
	copy(s, from, at - from);
	if (s->msg[at] == 0) {
		copy(s, at, 1);
		return (int)at + 1;
	}
	pointer = s->out + s->put;
	copy(s, at, 2);
	store16(pointer, 0xc000 | moved(s, load16(pointer) & 0x3fff));
	if (name_from_message(&before, s->msg, s->len, from) < 0 || name_from_message(&after, s->out, s->put, start) < 0)
		return NW_EMALFORMED;
	return name_equal(&before, &after) ? (int)at + 2 : NW_EMALFORMED;
}

/* Copies the list of mandatory keys without the hint's; an empty list is left out whole, as it may not exist. */
static int copy_mandatory(struct strip *s, const struct svc_param *param)
{
	unsigned removed = 0;
	size_t head = s->put;

	for (unsigned i = 0; i < param->len; i += 2)
		removed += load16(s->msg + param->value_at + i) == s->hint_key;
	if (removed * 2 == param->len)
		return cut(s, param->at, 4u + param->len);
	copy(s, param->at, 4);
	store16(s->out + head + 2, (uint16_t)(param->len - removed * 2));
	for (unsigned i = 0; i < param->len; i += 2) {
		size_t at = param->value_at + i;

		if (load16(s->msg + at) != s->hint_key)
			copy(s, at, 2);
		else if (cut(s, at, 2) < 0)
			return NW_EMALFORMED;
	}
	return 0;
}

static int copy_params(struct strip *s, size_t at, size_t end)
{
	while (at < end) {
		struct svc_param param;
		int next = svc_param_read(&param, s->msg, end, at), r = 0;

		if (next < 0)
			return next;
		if (param.key == s->hint_key)
			r = cut(s, at, (size_t)next - at);
		else if (param.key == SVC_MANDATORY)
			r = copy_mandatory(s, &param);
		else
			copy(s, at, (size_t)next - at);
		if (r < 0)
			return r;
		at = (size_t)next;
	}
	return 0;
}

/* Returns the offset behind the record or NW_EMALFORMED. */
static int copy_record(struct strip *s, size_t at, bool is_answer)
{
	uint16_t names[RR_NAMES_MAX], behind;
	size_t rdata_put;
	struct name owner;
	struct rr rr;
	int end = rr_read(&rr, &owner, s->msg, s->len, at);
	int count = end < 0 ? end : rr_rdata_names(names, &behind, s->msg, &rr);

	if (count < 0 || copy_name(s, at) < 0)
		return NW_EMALFORMED;
	copy(s, rr.fixed_at, 10);
	rdata_put = s->put;
	at = rr.rdata_at;
	for (int i = 0; i < count; i++) {
		int next;

		copy(s, at, names[i] - at);
		next = copy_name(s, names[i]);
		if (next < 0)
			return next;
		at = (size_t)next;
	}
	if (!is_answer || (rr.type != RR_SVCB && rr.type != RR_HTTPS))
		copy(s, at, (size_t)end - at);
	else if (copy_params(s, at, (size_t)end) < 0)
		return NW_EMALFORMED;
	store16(s->out + rdata_put - 2, (uint16_t)(s->put - rdata_put));
	return end;
}

int wire_strip_hints(uint8_t *out, size_t out_max, const uint8_t *msg, size_t len, int family, bool *ret_changed)
{
	struct strip s;
	struct name qname;
	unsigned ancount, total;
	int at;

	if (len < WIRE_HEADER || len > WIRE_TCP_MAX || load16(msg + 4) != 1)
		return NW_EMALFORMED;
	if (out_max < len)
		return NW_ETOOLONG;
	at = name_from_wire(&qname, msg + WIRE_HEADER, len - WIRE_HEADER);
	if (at < 0 || len - WIRE_HEADER - (size_t)at < 4)
		return NW_EMALFORMED;
	at += WIRE_HEADER + 4;
	s.msg = msg;
	s.len = len;
	s.out = out;
	s.put = 0;
	s.hint_key = family == AF_INET ? SVC_IPV4HINT : SVC_IPV6HINT;
	s.cut_count = 0;
	copy(&s, 0, (size_t)at);
	store16(out + 10, 0);
	ancount = load16(msg + 6);
	total = ancount + load16(msg + 8);
	for (unsigned i = 0; i < total; i++) {
		at = copy_record(&s, (size_t)at, i < ancount);
		if (at < 0)
			return at;
	}
	*ret_changed = s.cut_count > 0;
	return (int)s.put;
}
