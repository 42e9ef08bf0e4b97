/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What an upstream's message means for the attempt it came for. It came by the attempt's own channel with its id; it must also
 * repeat the question and parse whole. What does not is counted and ignored: the true answer may be on its way behind a forged
 * one. */
#include "resolve/flight.h"

#include <string.h>

static uint16_t message_flags(const uint8_t *msg)
{
	return (uint16_t)(msg[2] << 8 | msg[3]);
}

/* Servers from before EDNS answer FORMERR or NOTIMP, some of them with nothing but the header. */
static bool is_bare_refusal(const struct attempt *a, const uint8_t *msg, size_t len)
{
	uint16_t flags = len == WIRE_HEADER ? message_flags(msg) : 0;

	return a->is_edns && flags & FLAG_QR && ((flags & 15) == RCODE_FORMERR || (flags & 15) == RCODE_NOTIMP) && msg[4] == 0 &&
	       msg[5] == 0;
}

/* Asks the same server again without OPT. It is remembered only when that helps, else one odd question would cost everyone
 * DNSSEC. */
static void retry_plain(struct attempt *a)
{
	struct question *q = a->question;

	server_answered(a->server, a);
	attempt_end(a);
	q->plain |= (uint16_t)(1U << a->server->index);
	q->asked[a->server->index] = 0;
	if (q->extra < EXTRA_TRIES)
		q->extra++;
	question_step(q, false);
}

static void retry_stream(struct attempt *a)
{
	struct question *q = a->question;

	server_answered(a->server, a);
	attempt_end(a);
	q->use_stream = true;
	q->asked[a->server->index] = 0;
	if (q->extra < EXTRA_TRIES)
		q->extra++;
	question_step(q, false);
}

/* Header and question alone are kept: a failure has no records that anyone uses. */
static void keep_failure(struct question *q, const uint8_t *msg)
{
	size_t len = WIRE_HEADER + (size_t)q->qname.len + 4;

	memcpy(q->last, msg, WIRE_HEADER);
	memset(q->last + 4, 0, 8);
	q->last[5] = 1;
	memcpy(q->last + WIRE_HEADER, q->qname.wire, q->qname.len);
	q->last[len - 4] = (uint8_t)(q->qtype >> 8);
	q->last[len - 3] = (uint8_t)q->qtype;
	q->last[len - 2] = (uint8_t)(q->qclass >> 8);
	q->last[len - 1] = (uint8_t)q->qclass;
	q->last_len = (uint16_t)len;
}

static void judge_probe(struct attempt *a, const uint8_t *msg, size_t len)
{
	/* Any answer shows that the server is there again. */
	if (!wire_answer_matches(msg, len, &a->server->group->resolver->root, RR_NS, 1)) {
		a->server->errors++;
		return;
	}
	server_answered(a->server, a);
	attempt_end(a);
}

void judge_answer(struct attempt *a, const uint8_t *msg, size_t len)
{
	struct question *q = a->question;
	struct server *s = a->server;
	struct resolver *r = s->group->resolver;
	bool is_stream = a->channel->is_stream;
	uint16_t bit = (uint16_t)(1U << s->index);
	struct upstream_answer answer = {.result = UPSTREAM_OK, .msg = msg, .len = len, .walked = &r->walked};
	unsigned rcode;

	if (!q) {
		judge_probe(a, msg, len);
		return;
	}
	if (is_bare_refusal(a, msg, len)) {
		retry_plain(a);
		return;
	}
	if (!wire_answer_matches(msg, len, &q->qname, q->qtype, q->qclass)) {
		s->errors++;
		return;
	}
	rcode = message_flags(msg) & 15;
	if (a->is_edns && (rcode == RCODE_FORMERR || rcode == RCODE_NOTIMP)) {
		retry_plain(a);
		return;
	}
	/* Before the walk: a truncated message may end inside a record. */
	if (message_flags(msg) & FLAG_TC && !is_stream) {
		/* A late second truncated answer changes nothing. */
		if (q->use_stream)
			attempt_end(a);
		else
			retry_stream(a);
		return;
	}
	if (wire_answer_walk(&r->walked, msg, len) < 0) {
		s->errors++;
		q->saw_bad = true;
		return;
	}
	server_answered(s, a);
	attempt_end(a);
	if (!a->is_edns && q->plain & bit && (rcode == RCODE_NOERROR || rcode == RCODE_NXDOMAIN))
		s->no_edns_until_ms = loop_now_ms(r->loop) + NO_EDNS_MS;
	if (rcode == RCODE_SERVFAIL || rcode == RCODE_REFUSED) {
		q->failed |= bit;
		keep_failure(q, msg);
		question_step(q, false);
		return;
	}
	question_complete(q, &answer);
}
