/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Records and their RDATA. What stands in `forms` is all that we know of a type: bytes before its names, how many names, and
 * what follows. Types without a form are opaque. Names in types that must not be compressed (RFC 3597 4) are read leniently.
 * No state; any thread. */
#include "wire/rr.h"

#include "base/err.h"
#include "wire/bytes.h"
#include "wire/msg.h"

enum { RR_FIXED = 10 };
enum tail { TAIL_NONE, TAIL_ANY, TAIL_SOA /* five integers */, TAIL_SVC };

struct form {
	uint8_t before, names;
	enum tail tail;
};

static const struct form forms[256] = {
	[RR_NS] = {0, 1},
	[3] = {0, 1} /* MD */,
	[4] = {0, 1} /* MF */,
	[RR_CNAME] = {0, 1},
	[RR_SOA] = {0, 2, TAIL_SOA},
	[7] = {0, 1} /* MB */,
	[8] = {0, 1} /* MG */,
	[9] = {0, 1} /* MR */,
	[RR_PTR] = {0, 1},
	[14] = {0, 2} /* MINFO */,
	[RR_MX] = {2, 1},
	[17] = {0, 2} /* RP */,
	[18] = {2, 1} /* AFSDB */,
	[21] = {2, 1} /* RT */,
	[24] = {18, 1, TAIL_ANY} /* SIG */,
	[26] = {2, 2} /* PX */,
	[30] = {0, 1, TAIL_ANY} /* NXT */,
	[RR_SRV] = {6, 1},
	[36] = {2, 1} /* KX */,
	[RR_DNAME] = {0, 1},
	[RR_RRSIG] = {18, 1, TAIL_ANY},
	[RR_NSEC] = {0, 1, TAIL_ANY},
	[RR_SVCB] = {2, 1, TAIL_SVC},
	[RR_HTTPS] = {2, 1, TAIL_SVC},
};

int rr_read(struct rr *ret, struct name *ret_owner, const uint8_t *msg, size_t len, size_t at)
{
	int end = name_from_message(ret_owner, msg, len, at);

	if (end < 0 || len - (size_t)end < RR_FIXED)
		return NW_EMALFORMED;
	ret->owner_at = (uint16_t)at;
	ret->fixed_at = (uint16_t)end;
	ret->type = load16(msg + end);
	ret->rclass = load16(msg + end + 2);
	ret->ttl_s = (uint32_t)rr_ttl(msg + end + 4);
	ret->rdlen = load16(msg + end + 8);
	if (len - (size_t)end - RR_FIXED < ret->rdlen)
		return NW_EMALFORMED;
	ret->rdata_at = (uint16_t)(end + RR_FIXED);
	return end + RR_FIXED + ret->rdlen;
}

int svc_param_read(struct svc_param *ret, const uint8_t *msg, size_t end, size_t at)
{
	unsigned unit = 1;

	if (end - at < 4)
		return NW_EMALFORMED;
	ret->at = (uint16_t)at;
	ret->key = load16(msg + at);
	ret->len = load16(msg + at + 2);
	ret->value_at = (uint16_t)(at + 4);
	if (end - at - 4 < ret->len)
		return NW_EMALFORMED;
	if (ret->key == SVC_MANDATORY)
		unit = 2;
	else if (ret->key == SVC_IPV4HINT)
		unit = 4;
	else if (ret->key == SVC_IPV6HINT)
		unit = 16;
	if (unit > 1 && (ret->len == 0 || ret->len % unit != 0))
		return NW_EMALFORMED;
	return (int)(at + 4 + ret->len);
}

static int tail_check(enum tail tail, const uint8_t *msg, size_t at, size_t end)
{
	struct svc_param param;

	switch (tail) {
	case TAIL_NONE:
		return at == end ? 0 : NW_EMALFORMED;
	case TAIL_SOA:
		return end - at == 20 ? 0 : NW_EMALFORMED;
	case TAIL_SVC:
		while (at < end) {
			int r = svc_param_read(&param, msg, end, at);

			if (r < 0)
				return r;
			at = (size_t)r;
		}
		return 0;
	case TAIL_ANY:
		break;
	}
	return 0;
}

int rr_rdata_names(uint16_t ret_at[RR_NAMES_MAX], uint16_t *ret_behind, const uint8_t *msg, const struct rr *rr)
{
	size_t end = (size_t)rr->rdata_at + rr->rdlen, at = rr->rdata_at;
	const struct form *form;
	struct name name;

	*ret_behind = (uint16_t)at;
	/* Other classes give these two types other forms. */
	if (rr->rclass == RR_CLASS_IN && ((rr->type == RR_A && rr->rdlen != 4) || (rr->type == RR_AAAA && rr->rdlen != 16)))
		return NW_EMALFORMED;
	if (rr->type >= 256 || forms[rr->type].names == 0)
		return 0;
	form = &forms[rr->type];
	if (rr->rdlen < form->before)
		return NW_EMALFORMED;
	at += form->before;
	for (unsigned i = 0; i < form->names; i++) {
		int r = name_from_message(&name, msg, end, at);

		if (r < 0)
			return r;
		ret_at[i] = (uint16_t)at;
		at = (size_t)r;
	}
	*ret_behind = (uint16_t)at;
	if (tail_check(form->tail, msg, at, end) < 0)
		return NW_EMALFORMED;
	return form->names;
}
