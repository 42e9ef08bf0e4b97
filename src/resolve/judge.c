/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What an upstream's message means for the attempt it came for. It came by the attempt's own channel with its id; it must also
 * repeat the question and parse whole. What does not is counted and ignored: the true answer may be on its way behind a forged
 * one. */
#include "resolve/flight.h"

#include <stdlib.h>
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
	struct server *s = a->server;

	server_answered(s, a);
	attempt_end(a);
	q->plain |= (uint16_t)(1U << s->index);
	question_retry(q, s);
}

static void retry_stream(struct attempt *a)
{
	struct question *q = a->question;
	struct server *s = a->server;

	server_answered(s, a);
	attempt_end(a);
	/* A late second truncated answer changes nothing. */
	if (q->use_stream)
		return;
	q->use_stream = true;
	question_retry(q, s);
}

/* The question in the answer, bit for bit as it was sent. */
static bool repeats_cases(const struct attempt *a, const uint8_t *name)
{
	const struct name *n = &a->question->qname;

	for (unsigned i = 0; i < n->len; i++) {
		bool is_letter = n->wire[i] >= 'a' && n->wire[i] <= 'z';

		if (name[i] != n->wire[i] - (is_letter && a->cases >> (i % 64) & 1 ? 'a' - 'A' : 0))
			return false;
	}
	return true;
}

/* Forged, or of a server that changes letters: TCP tells, and the true answer may still come. */
static void distrust_cases(struct attempt *a)
{
	struct question *q = a->question;
	struct server *s = a->server;

	s->wrong_case++;
	attempt_expire(a);
	if (q->use_stream)
		return;
	q->use_stream = true;
	question_retry(q, s);
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

/* An answer without record and SOA may be a server's lapse, not the truth (RFC 2308 2.2): another one is asked before it is
 * given. Heap, as such answers are few and may be long. */
static bool keep_empty(struct question *q, const uint8_t *msg, const struct wire_answer *walked)
{
	uint8_t *kept;

	if (q->kept)
		return true;
	kept = malloc(walked->authority_end);
	if (!kept)
		return false;
	memcpy(kept, msg, walked->authority_end);
	/* Nothing of the additional section is kept. */
	kept[10] = kept[11] = 0;
	q->kept = kept;
	q->kept_len = walked->authority_end;
	return true;
}

/* True: the answer waits, another server is asked. */
static bool try_better(struct question *q, uint16_t bit, const uint8_t *msg, const struct wire_answer *walked)
{
	q->empty |= bit;
	if (question_is_last_word(q) || !keep_empty(q, msg, walked))
		return false;
	question_step(q, false);
	return true;
}

/* Any answer shows that the server is there. */
static void judge_probe(struct attempt *a, const uint8_t *msg, size_t len)
{
	struct server *s = a->server;

	if (!wire_answer_matches(msg, len, &s->probe_name, s->probe_type, 1)) {
		s->errors++;
		return;
	}
	server_answered(s, a);
	attempt_end(a);
}

static void judge_rcode(struct attempt *a, const uint8_t *msg, size_t len, const struct wire_answer *walked)
{
	struct question *q = a->question;
	struct server *s = a->server;
	struct resolver *r = s->group->resolver;
	uint16_t bit = (uint16_t)(1U << s->index);
	unsigned rcode = message_flags(msg) & 15;
	struct upstream_answer answer = {.result = UPSTREAM_OK, .msg = msg, .len = len, .walked = walked};

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
	if (rcode == RCODE_NOERROR && !walked->is_cut && walked->is_nodata && !walked->has_soa && try_better(q, bit, msg, walked))
		return;
	if (q->had_failed)
		failure_remove(r, q->group, q->hash);
	question_complete(q, &answer);
}

void judge_answer(struct attempt *a, uint8_t *msg, size_t len)
{
	struct question *q = a->question;
	struct server *s = a->server;
	struct resolver *r = s->group->resolver;
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
	if (a->cases) {
		if (!repeats_cases(a, msg + WIRE_HEADER)) {
			distrust_cases(a);
			return;
		}
		/* Names in it point to the question's. */
		memcpy(msg + WIRE_HEADER, q->qname.wire, q->qname.len);
	}
	rcode = message_flags(msg) & 15;
	if (a->is_edns && (rcode == RCODE_FORMERR || rcode == RCODE_NOTIMP)) {
		retry_plain(a);
		return;
	}
	/* Before the walk: a truncated message may end inside a record. */
	if (message_flags(msg) & FLAG_TC && !a->channel->is_stream) {
		retry_stream(a);
		return;
	}
	if (wire_answer_walk(&r->walked, msg, len) < 0) {
		s->errors++;
		q->saw_bad = true;
		return;
	}
	judge_rcode(a, msg, len, &r->walked);
}
