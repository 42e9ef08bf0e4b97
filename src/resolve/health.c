/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The health of servers.
 *
 * One that was silent to SUSPECT_ASKED queries for three round trips (SUSPECT_MIN_MS at least), or to SUSPECT_TIMEOUTS until their
 * time was over, is suspected, at once: it is probed, new questions go elsewhere, and what it was asked is asked elsewhere. A slow
 * name at a live server costs no more than that: the probe's answer, or any, takes it back. Without one within PROBE_MS it is
 * unhealthy, as at once when the kernel says that it cannot be reached, and dead after DEAD_PROBES probes. A group whose servers
 * are all dead refuses its questions. Probes go on every PROBE_MS, for ". NS" and, as some servers do not answer that, for the
 * latest question that was lost; any answer, also one to a question, makes the server healthy.
 *
 * While a group's way is down nothing is sent to it, and its servers have no socket. */
#include "resolve/flight.h"

#include <errno.h>
#include <string.h>

enum { AGAIN_US = 1000 * 1000 /* a round trip after so long a pause says more than those before */ };

void server_answered(struct server *s, const struct attempt *a)
{
	struct resolver *r = s->group->resolver;
	uint64_t now_us = resolver_now_us(r), rtt_us = now_us > a->sent_us ? now_us - a->sent_us : 1;
	bool was_lost = s->health >= UNHEALTHY;
	unsigned old = now_us - s->last_answer_us > AGAIN_US ? 1 : 7;

	if (rtt_us > UPSTREAM_TOTAL_MS * 1000)
		rtt_us = UPSTREAM_TOTAL_MS * 1000;
	if (was_lost || !s->srtt_us)
		questions_ask_again(s, a->question);
	if (was_lost)
		failures_forget(s->group);
	if (!a->channel || !a->channel->is_stream) {
		s->srtt_us = s->srtt_us ? (uint32_t)((old * (uint64_t)s->srtt_us + rtt_us) / (old + 1)) : (uint32_t)rtt_us;
		s->measured_ms = loop_now_ms(r->loop);
	}
	s->answered++;
	s->last_answer_us = now_us;
	s->unanswered = 0;
	s->silent_turn = 0;
	s->timeouts_in_row = 0;
	if (s->health == HEALTHY)
		return;
	s->health = HEALTHY;
	s->probes = s->probes_failed = 0;
	s->is_probe_open = false;
	deadline_del(&s->probe_at);
	if (a != &s->probe)
		attempt_end(&s->probe);
}

void group_lost(struct group *g, const struct name *qname, uint16_t qtype)
{
	name_copy(&g->lost_name, qname);
	g->lost_type = qtype;
	g->has_lost = true;
}

static void suspect(struct server *s)
{
	if (s->health != HEALTHY || s->group->is_way_down)
		return;
	s->health = SUSPECTED;
	on_probe(&s->probe_at);
	questions_leave(s);
}

static void set_unhealthy(struct server *s)
{
	struct resolver *r = s->group->resolver;

	if (s->health >= UNHEALTHY)
		return;
	s->health = UNHEALTHY;
	if (!s->probe_at.next)
		deadline_add(r->loop, &r->probe, &s->probe_at);
	questions_leave(s);
}

static bool is_silent(const struct server *s, uint64_t now_us)
{
	uint64_t after_us = s->srtt_us ? 3 * (uint64_t)s->srtt_us : TRY_UNKNOWN_MS * 1000;

	if (after_us < SUSPECT_MIN_MS * 1000)
		after_us = SUSPECT_MIN_MS * 1000;
	return s->unanswered >= SUSPECT_ASKED && now_us > s->silent_since_us + after_us;
}

/* After a stall of our own the answers may be here already, not read yet: it must look silent in two turns. */
bool server_look(struct server *s)
{
	struct resolver *r = s->group->resolver;

	if (s->health != HEALTHY || s->unanswered < SUSPECT_ASKED || s->silent_turn == r->turn ||
	        !is_silent(s, resolver_now_us(r)))
		return false;
	if (s->silent_turn)
		suspect(s);
	else
		s->silent_turn = r->turn;
	return s->health != HEALTHY;
}

void server_timed_out(struct server *s, const struct attempt *a)
{
	s->timeouts++;
	/* It answered others since: this one name is slow. */
	if (s->last_answer_us > a->sent_us)
		return;
	if (a->question)
		group_lost(s->group, &a->question->qname, a->question->qtype);
	if (++s->timeouts_in_row >= SUSPECT_TIMEOUTS)
		suspect(s);
	else
		server_look(s);
}

void server_broke(struct server *s)
{
	s->errors++;
	set_unhealthy(s);
}

void server_probe_failed(struct server *s)
{
	if (s->health == HEALTHY || !s->is_probe_open)
		return;
	s->is_probe_open = false;
	s->probes_failed++;
	set_unhealthy(s);
	if (s->probes_failed < DEAD_PROBES || s->health == DEAD)
		return;
	s->health = DEAD;
	if (group_is_dead(s->group))
		questions_end_dead(s->group);
}

/* A socket of a way may have been bound to an interface that was made anew since: that says nothing about the server, while its
 * way is up. When every fresh one fails, it does. */
bool server_blames_socket(struct server *s, int error)
{
	if (!s->group->has_way || (error != -ENODEV && error != -ENETUNREACH && error != -EHOSTUNREACH))
		return false;
	if (s->stale_in_row == STALE_SOCKETS_MAX)
		return false;
	s->stale_in_row++;
	return true;
}

/* Four round trips, doubled for each time this question was asked there before; the next longer class. */
struct deadline_queue *server_try_queue(struct server *s, unsigned doublings)
{
	struct resolver *r = s->group->resolver;
	uint32_t wait_ms = s->srtt_us ? 4 * s->srtt_us / 1000 : TRY_UNKNOWN_MS;
	unsigned i = 0;

	if (wait_ms < TRY_MIN_MS)
		wait_ms = TRY_MIN_MS;
	if (wait_ms > TRY_MAX_MS)
		wait_ms = TRY_MAX_MS;
	wait_ms <<= doublings < 4 ? doublings : 4;
	while (i < TRY_CLASSES - 1 && r->try_queue[i].after_ms < wait_ms)
		i++;
	return &r->try_queue[i];
}

static int probe_send(struct server *s, const struct name *name, uint16_t type)
{
	struct resolver *r = s->group->resolver;
	size_t len;
	int error;

	attempt_end(&s->probe);
	name_copy(&s->probe_name, name);
	s->probe_type = type;
	len = wire_query_build(send_reserve(r), 0, name, type, 1, true, false, 0, false);
	error = socket_send(s, &s->probe, len);
	s->errors += error < 0;
	return error;
}

void on_probe(struct deadline *d)
{
	struct server *s = FROM_MEMBER(d, struct server, probe_at);
	struct group *g = s->group;
	struct resolver *r = g->resolver;
	bool by_name = s->probes & 1 && g->has_lost;

	if (s->probe.channel && !s->probe.channel->is_stream)
		socket_retire(FROM_MEMBER(s->probe.channel, struct udp_sock, channel));
	server_probe_failed(s);
	deadline_add(r->loop, &r->probe, &s->probe_at);
	s->probes++;
	s->is_probe_open = probe_send(s, by_name ? &g->lost_name : &r->root, by_name ? g->lost_type : RR_NS) != -EAGAIN;
}

/* What a question costs there. Its answer only counts as a figure. */
void server_measure(struct server *s, const struct question *q)
{
	struct resolver *r = s->group->resolver;

	if (s->health != HEALTHY || s->probe.channel || s->measured_ms + MEASURE_MS > loop_now_ms(r->loop))
		return;
	s->measured_ms = loop_now_ms(r->loop);
	if (probe_send(s, &q->qname, q->qtype) == 0)
		deadline_add(r->loop, server_try_queue(s, 0), &s->probe.timeout);
}

bool group_is_dead(const struct group *g)
{
	for (unsigned i = 0; i < g->server_count; i++)
		if (g->servers[i].health != DEAD)
			return false;
	return g->server_count > 0;
}

bool group_has_healthy(const struct group *g)
{
	for (unsigned i = 0; i < g->server_count; i++)
		if (g->servers[i].health == HEALTHY)
			return true;
	return false;
}
