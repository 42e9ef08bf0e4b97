/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The loop of one run: take on what is due, receive, expire, and wait for the next of these. The last 50 us before a query is due
 * are spent polling instead of sleeping, because a sleep ends late by about as much. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include "cli/load_private.h"

enum { SPIN_NS = 50000, GRACE_NS = 100000000, WAIT_MAX_NS = 100000000, RETRY_WAIT_NS = 5000000 };

static int source_open(struct load *l, struct source *s, uint32_t first_slot, uint32_t slots)
{
	s->fd = -1;
	s->number = (uint16_t)(s - l->source);
	s->is_stream = s->number >= l->udp_count;
	s->first_slot = first_slot;
	s->slots = s->free_count = slots;
	s->free_id = malloc(slots * sizeof(*s->free_id));
	if (!s->free_id)
		return -ENOMEM;
	for (uint32_t i = 0; i < slots; i++) {
		uint32_t other = (uint32_t)(((random_next(&l->random) >> 32) * (i + 1)) >> 32);

		s->free_id[i] = s->free_id[other];
		s->free_id[other] = (uint16_t)i;
		/* Touches the memory, so that no page fault delays a query. */
		l->pending[first_slot + i].earlier = l->pending[first_slot + i].later = LOAD_NONE;
	}
	return s->is_stream ? stream_open(l, s) : udp_open(l, s);
}

static int load_open(struct load *l)
{
	const struct load_options *o = l->o;
	uint32_t first_slot = 0;
	size_t slots;
	int r = 0;

	l->udp_count = o->tcp_percent < 100 ? o->sources : 0;
	l->source_count = l->udp_count + (o->tcp_percent ? o->connections : 0);
	slots = (size_t)l->udp_count * LOAD_UDP_SLOTS + (size_t)(l->source_count - l->udp_count) * o->pipeline;
	l->pending = calloc(slots, sizeof(*l->pending));
	l->source = calloc(l->source_count, sizeof(*l->source));
	l->poll = calloc(l->source_count, sizeof(*l->poll));
	l->backlog = calloc(LOAD_BACKLOG, sizeof(*l->backlog));
	l->result->seconds = (unsigned)((o->duration_ns + 999999999) / 1000000000);
	l->result->second = calloc(l->result->seconds, sizeof(*l->result->second));
	if (!l->pending || !l->source || !l->poll || !l->backlog || !l->result->second)
		return -ENOMEM;
	for (unsigned i = 0; i < l->source_count; i++)
		l->source[i].fd = -1;
	for (unsigned i = 0; i < l->source_count && r >= 0; i++) {
		uint32_t share = i < l->udp_count ? LOAD_UDP_SLOTS : o->pipeline;

		r = source_open(l, &l->source[i], first_slot, share);
		first_slot += share;
	}
	return r;
}

static void load_close(struct load *l)
{
	for (unsigned i = 0; l->source && i < l->source_count; i++) {
		struct source *s = &l->source[i];

		if (s->fd >= 0 && !s->is_stream)
			udp_count_drops(l, s);
		if (s->fd >= 0)
			close(s->fd);
		free(s->free_id);
		stream_free(s);
	}
	free(l->pending);
	free(l->source);
	free(l->poll);
	free(l->backlog);
}

static void backlog_drain(struct load *l, uint64_t now_ns)
{
	while (l->backlog_count) {
		uint64_t intended_ns = l->backlog[l->backlog_head];

		if (now_ns - intended_ns >= l->o->timeout_ns)
			query_unsent(l, intended_ns);
		else if (!streams_send(l, intended_ns))
			return;
		l->backlog_head = (l->backlog_head + 1) % LOAD_BACKLOG;
		l->backlog_count--;
	}
}

static void tcp_take(struct load *l, uint64_t intended_ns)
{
	if (!l->backlog_count && streams_send(l, intended_ns))
		return;
	if (l->backlog_count == LOAD_BACKLOG)
		query_unsent(l, intended_ns);
	else
		l->backlog[(l->backlog_head + l->backlog_count++) % LOAD_BACKLOG] = intended_ns;
}

/* How many may be taken on now: the window's room, or all. */
static uint64_t window_room(const struct load *l)
{
	uint64_t out = (uint64_t)l->out_count + l->backlog_count;

	if (!l->o->in_flight)
		return UINT64_MAX;
	return out < l->o->in_flight ? l->o->in_flight - out : 0;
}

/* Queries of the open loop that are due and have room. A query that is late by a whole timeout is given up as unsent. */
static uint64_t flood_due(struct load *l, uint64_t now_ns)
{
	uint64_t due = pace_due(&l->pace, now_ns - l->start_ns), room = window_room(l);

	while (l->issued < due && now_ns - l->start_ns - pace_intended_ns(&l->pace, l->issued) >= l->o->timeout_ns) {
		uint64_t intended_ns = l->start_ns + pace_intended_ns(&l->pace, l->issued++);

		l->result->offered++;
		load_second_of(l, intended_ns)->offered++;
		query_unsent(l, intended_ns);
	}
	return due - l->issued < room ? due - l->issued : room;
}

static uint64_t latency_due(const struct load *l)
{
	uint64_t left = l->o->count ? l->o->count - l->issued : UINT64_MAX, room = window_room(l);

	return left < room ? left : room;
}

/* Takes on up to LOAD_BATCH queries. Returns how many. */
static unsigned take_on(struct load *l, uint64_t now_ns)
{
	uint64_t due = l->o->is_flood ? flood_due(l, now_ns) : latency_due(l), udp[LOAD_BATCH];
	unsigned count = due < LOAD_BATCH ? (unsigned)due : LOAD_BATCH, udp_count = 0;

	for (unsigned i = 0; i < count; i++) {
		uint64_t intended_ns = l->o->is_flood ? l->start_ns + pace_intended_ns(&l->pace, l->issued) : now_ns;

		l->issued++;
		l->result->offered++;
		load_second_of(l, intended_ns)->offered++;
		if (l->o->tcp_percent && (l->o->tcp_percent == 100 || (random_next(&l->random) >> 32) % 100 < l->o->tcp_percent))
			tcp_take(l, intended_ns);
		else
			udp[udp_count++] = intended_ns;
	}
	if (udp_count)
		udp_send(l, udp, udp_count);
	return count;
}

/* Waits for an answer until `until_ns` and takes what came. */
static void receive(struct load *l, uint64_t now_ns, uint64_t until_ns)
{
	uint64_t wait_ns = until_ns > now_ns ? until_ns - now_ns : 0;
	struct timespec wait = {.tv_sec = (time_t)(wait_ns / 1000000000), .tv_nsec = (long)(wait_ns % 1000000000)};

	for (unsigned i = 0; i < l->source_count; i++) {
		const struct source *s = &l->source[i];

		l->poll[i] = (struct pollfd){.fd = s->fd, .events = s->is_stream ? stream_wants(s) : POLLIN};
	}
	if (ppoll(l->poll, l->source_count, &wait, NULL) <= 0)
		return;
	for (unsigned i = 0; i < l->source_count; i++) {
		if (!l->poll[i].revents)
			continue;
		if (l->source[i].is_stream)
			stream_ready(l, &l->source[i], l->poll[i].revents);
		else
			udp_receive(l, &l->source[i]);
	}
}

static bool is_all_issued(const struct load *l)
{
	return l->issued == (l->o->is_flood ? l->pace.count : l->o->count) && l->issued;
}

/* When there is something to do next, but for an answer. */
static uint64_t next_event_ns(const struct load *l, uint64_t now_ns, bool is_sending)
{
	uint64_t next_ns = now_ns + WAIT_MAX_NS, at_ns;

	if (l->oldest != LOAD_NONE && (at_ns = l->pending[l->oldest].sent_ns + l->o->timeout_ns) < next_ns)
		next_ns = at_ns;
	if (l->backlog_count && now_ns + RETRY_WAIT_NS < next_ns)
		next_ns = now_ns + RETRY_WAIT_NS;
	if (!is_sending)
		return next_ns;
	if (l->end_ns > now_ns && l->end_ns < next_ns)
		next_ns = l->end_ns;
	if (!l->o->is_flood || !window_room(l))
		return next_ns;
	at_ns = l->start_ns + pace_intended_ns(&l->pace, l->issued);
	at_ns = at_ns > now_ns + SPIN_NS ? at_ns - SPIN_NS : now_ns;
	return at_ns < next_ns ? at_ns : next_ns;
}

/* The queries that are not taken on when the time is up: due, but the generator or its window did not get to them. */
static void give_up_rest(struct load *l)
{
	for (; l->o->is_flood && l->issued < l->pace.count; l->issued++) {
		uint64_t intended_ns = l->start_ns + pace_intended_ns(&l->pace, l->issued);

		l->result->offered++;
		load_second_of(l, intended_ns)->offered++;
		query_unsent(l, intended_ns);
	}
}

static void loop(struct load *l, const volatile sig_atomic_t *is_stopped)
{
	bool is_sending = true;
	/* A flood's last query may be due just before its end, so it has a little longer. */
	uint64_t grace_ns = l->o->is_flood ? GRACE_NS : 0;

	while (is_sending || l->out_count || l->backlog_count) {
		uint64_t now_ns = load_now_ns();
		unsigned taken;

		if (is_sending && (is_all_issued(l) || *is_stopped || now_ns >= l->end_ns + grace_ns)) {
			l->result->elapsed_ns = now_ns - l->start_ns;
			is_sending = false;
			if (!*is_stopped)
				give_up_rest(l);
		}
		queries_expire(l, now_ns);
		backlog_drain(l, now_ns);
		taken = is_sending ? take_on(l, now_ns) : 0;
		streams_flush(l);
		now_ns = load_now_ns();
		receive(l, now_ns, taken == LOAD_BATCH ? now_ns : next_event_ns(l, now_ns, is_sending && !is_all_issued(l)));
	}
}

int load_run(const struct load_options *o, struct names *names, const volatile sig_atomic_t *is_stopped, struct load_result *ret)
{
	struct load l = {.o = o,
	        .names = names,
	        .result = ret,
	        .random = o->seed ^ 0x6e616d6577617921,
	        .oldest = LOAD_NONE,
	        .newest = LOAD_NONE};
	int r;

	l.server_len = endpoint_to_sockaddr(&l.server, &o->server);
	l.pace.rate = o->rate ? o->rate : 1;
	l.pace.count = pace_due(&(struct pace){.rate = l.pace.rate, .count = UINT64_MAX}, o->duration_ns - 1);
	if (o->count && o->count < l.pace.count)
		l.pace.count = o->count;
	r = load_open(&l);
	if (r >= 0) {
		(void)prctl(PR_SET_TIMERSLACK, 1000);
		l.start_ns = load_now_ns();
		l.end_ns = l.start_ns + o->duration_ns;
		loop(&l, is_stopped);
	}
	load_close(&l);
	return r;
}

void load_result_free(struct load_result *r)
{
	free(r->second);
	r->second = NULL;
}
