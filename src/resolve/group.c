/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Groups and the health of their servers.
 *
 * A server is taken as unhealthy after UNHEALTHY_TIMEOUTS attempts in a row without a sign of life, or at once when the kernel
 * says that it cannot be reached. It is then probed every PROBE_MS with ". NS", and any answer, also one to a question, takes it
 * back. While a group's way is down nothing is sent to it, and its servers have no socket. */
#include "resolve/flight.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { QUERY_MAX = 512 };

/* A server is there, or there again: what it was asked in the dark may be lost, and does not wait for its time to be over. */
static void questions_ask_again(struct server *s, const struct question *except, uint64_t now_us)
{
	for (struct question *q = s->group->questions; q; q = q->group_next) {
		struct attempt *a = q->tries ? &q->attempt[q->tries - 1] : NULL;

		if (!a || !a->channel || a->channel->is_stream || a->is_expired || a->server != s || q == except ||
		        a->sent_us + TRY_MIN_MS * 1000 > now_us || q->tries == UPSTREAM_TRIES + q->extra)
			continue;
		deadline_del(&a->timeout);
		a->is_expired = true;
		question_again_soon(q);
	}
}

void server_answered(struct server *s, const struct attempt *a)
{
	uint64_t now_us = clock_us(), rtt_us = now_us > a->sent_us ? now_us - a->sent_us : 1;

	if (rtt_us > UPSTREAM_TOTAL_MS * 1000)
		rtt_us = UPSTREAM_TOTAL_MS * 1000;
	if (!s->is_healthy || !s->srtt_us)
		questions_ask_again(s, a->question, now_us);
	if (!a->channel || !a->channel->is_stream)
		s->srtt_us = s->srtt_us ? (uint32_t)((7 * (uint64_t)s->srtt_us + rtt_us) / 8) : (uint32_t)rtt_us;
	s->answered++;
	s->last_answer_us = now_us;
	s->timeouts_in_row = 0;
	s->is_healthy = true;
	deadline_del(&s->probe_at);
}

static void set_unhealthy(struct server *s)
{
	struct resolver *r = s->group->resolver;

	if (!s->is_healthy)
		return;
	s->is_healthy = false;
	deadline_add(r->loop, &r->probe, &s->probe_at);
}

void server_timed_out(struct server *s, const struct attempt *a)
{
	s->timeouts++;
	/* It answered others since: this one name is slow. */
	if (s->last_answer_us > a->sent_us)
		return;
	if (++s->timeouts_in_row >= UNHEALTHY_TIMEOUTS)
		set_unhealthy(s);
}

void server_broke(struct server *s)
{
	s->errors++;
	set_unhealthy(s);
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

void on_probe(struct deadline *d)
{
	struct server *s = FROM_MEMBER(d, struct server, probe_at);
	struct resolver *r = s->group->resolver;
	uint8_t query[QUERY_MAX];
	size_t len = wire_query_build(query, 0, &r->root, RR_NS, 1, true, false, 0, false);

	if (s->probe.channel && !s->probe.channel->is_stream)
		socket_retire(FROM_MEMBER(s->probe.channel, struct udp_sock, channel));
	attempt_end(&s->probe);
	deadline_add(r->loop, &r->probe, &s->probe_at);
	if (socket_send(s, &s->probe, query, len) < 0)
		s->errors++;
}

void group_free(struct group *g)
{
	struct upstream_answer gone = {.result = UPSTREAM_GONE};

	if (!g)
		return;
	while (g->questions)
		question_complete(g->questions, &gone);
	for (unsigned i = 0; i < g->server_count; i++) {
		struct server *s = &g->servers[i];

		deadline_del(&s->probe_at);
		attempt_end(&s->probe);
		sockets_close(s);
		streams_close(s);
	}
	free(g->servers);
	free(g->way_name);
	free(g->name);
	free(g);
}

static struct group *group_new(struct resolver *r, const struct config *c, unsigned index)
{
	const struct cfg_upstream *u = &c->upstreams[index];
	struct group *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->resolver = r;
	g->index = index;
	g->name = strdup(u->name);
	g->servers = calloc(u->server_count ? u->server_count : 1, sizeof(*g->servers));
	if (u->way >= 0) {
		const struct cfg_way *way = &c->ways[u->way];

		g->has_way = true;
		g->way = (unsigned)u->way;
		g->way_name = strdup(way->name);
		memcpy(g->way_interface, way->interface, sizeof(g->way_interface));
		g->way_mark = way->mark;
	}
	if (!g->name || !g->servers || (g->has_way && !g->way_name)) {
		group_free(g);
		return NULL;
	}
	g->server_count = u->server_count < CONFIG_SERVERS_MAX ? u->server_count : CONFIG_SERVERS_MAX;
	for (unsigned i = 0; i < g->server_count; i++) {
		struct server *s = &g->servers[i];

		s->group = g;
		s->index = i;
		s->endpoint = u->servers[i];
		s->sa_len = endpoint_to_sockaddr(&s->sa, &u->servers[i]);
		s->is_healthy = true;
	}
	return g;
}

static bool is_same_group(const struct group *g, const struct config *c, const struct cfg_upstream *u)
{
	const struct cfg_way *way = u->way >= 0 ? &c->ways[u->way] : NULL;

	if (strcmp(g->name, u->name) != 0 || g->server_count != u->server_count || g->has_way != (way != NULL))
		return false;
	if (way && (strcmp(g->way_name, way->name) != 0 || strcmp(g->way_interface, way->interface) != 0 ||
	                   g->way_mark != way->mark))
		return false;
	for (unsigned i = 0; i < g->server_count; i++) {
		const struct endpoint *a = &g->servers[i].endpoint, *b = &u->servers[i];

		if (!addr_equal(&a->addr, &b->addr) || a->port != b->port || a->scope != b->scope)
			return false;
	}
	return true;
}

static struct group *find_group(const struct resolver *r, const struct config *c, const struct cfg_upstream *u)
{
	for (unsigned i = 0; i < r->group_count; i++)
		if (is_same_group(r->groups[i], c, u))
			return r->groups[i];
	return NULL;
}

static bool is_among(struct group *const *groups, unsigned count, const struct group *g)
{
	for (unsigned i = 0; i < count; i++)
		if (groups[i] == g)
			return true;
	return false;
}

int resolver_configure(struct resolver *r, const struct config *c)
{
	struct group **groups = calloc(c->upstream_count ? c->upstream_count : 1, sizeof(struct group *)), **old = r->groups;
	unsigned count = c->upstream_count, old_count = r->group_count;

	if (!groups)
		return -ENOMEM;
	for (unsigned i = 0; i < count; i++) {
		groups[i] = find_group(r, c, &c->upstreams[i]);
		if (!groups[i])
			groups[i] = group_new(r, c, i);
		if (groups[i])
			continue;
		/* The old groups stay in force; what is new goes. */
		for (unsigned k = 0; k < i; k++)
			if (!is_among(old, old_count, groups[k]))
				group_free(groups[k]);
		free(groups);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < count; i++) {
		groups[i]->index = i;
		groups[i]->way = groups[i]->has_way ? (unsigned)c->upstreams[i].way : 0;
	}
	r->groups = groups;
	r->group_count = count;
	/* Last, as askers are told from here and may ask anew. */
	for (unsigned i = 0; i < old_count; i++)
		if (!is_among(groups, count, old[i]))
			group_free(old[i]);
	free(old);
	return 0;
}

static void server_begin_anew(struct server *s, bool is_healthy)
{
	deadline_del(&s->probe_at);
	attempt_end(&s->probe);
	sockets_close(s);
	streams_close(s);
	s->is_healthy = is_healthy;
	s->timeouts_in_row = 0;
	s->stale_in_row = 0;
	s->srtt_us = 0;
}

/* They end, or go on when the way is back by then, a turn later. */
static void questions_let_go(struct group *g)
{
	for (struct question *q = g->questions; q; q = q->group_next) {
		for (unsigned i = 0; i < ATTEMPTS_MAX; i++)
			attempt_end(&q->attempt[i]);
		q->last_len = 0;
		q->saw_bad = false;
		q->failed = q->dead = 0;
		question_again_soon(q);
	}
}

void resolver_way_changed(struct resolver *r, unsigned way, bool is_down)
{
	for (unsigned i = 0; i < r->group_count; i++) {
		struct group *g = r->groups[i];

		if (!g->has_way || g->way != way || g->is_way_down == is_down)
			continue;
		g->is_way_down = is_down;
		questions_let_go(g);
		for (unsigned k = 0; k < g->server_count; k++)
			server_begin_anew(&g->servers[k], !is_down);
	}
}

unsigned resolver_stat(const struct resolver *r, struct upstream_stat *ret, unsigned max)
{
	unsigned count = 0;

	for (unsigned i = 0; i < r->group_count; i++)
		for (unsigned k = 0; k < r->groups[i]->server_count && count < max; k++) {
			const struct server *s = &r->groups[i]->servers[k];

			ret[count++] = (struct upstream_stat){.group = r->groups[i]->name,
			        .server = s->endpoint,
			        .is_healthy = s->is_healthy,
			        .srtt_us = s->srtt_us,
			        .sent = s->sent,
			        .answered = s->answered,
			        .timeouts = s->timeouts,
			        .tcp = s->tcp,
			        .errors = s->errors};
		}
	return count;
}
