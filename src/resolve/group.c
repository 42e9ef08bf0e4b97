/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Groups as the configuration has them, what is known of them over its changes, and ways that go down and come back. */
#include "resolve/flight.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
	failures_forget(g);
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

/* What may change while a group stays the same. */
static void group_adjust(struct group *g, unsigned index, const struct cfg_upstream *u)
{
	g->index = index;
	g->way = g->has_way ? (unsigned)u->way : 0;
	g->strategy = u->strategy;
	g->random_case = u->random_case;
	g->inflight_max = u->inflight_max ? u->inflight_max : UPSTREAM_INFLIGHT_MAX;
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
	for (unsigned i = 0; i < count; i++)
		group_adjust(groups[i], i, &c->upstreams[i]);
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
	s->health = is_healthy ? HEALTHY : UNHEALTHY;
	s->is_probe_open = false;
	s->probes = s->probes_failed = 0;
	s->timeouts_in_row = s->unanswered = s->stale_in_row = 0;
	s->silent_turn = 0;
	s->srtt_us = 0;
}

/* They end, or go on when the way is back by then, a turn later. */
static void questions_let_go(struct group *g)
{
	for (struct question *q = g->questions; q; q = q->group_next) {
		for (unsigned i = 0; i < ATTEMPTS_MAX; i++)
			attempt_end(&q->attempt[i]);
		free(q->kept);
		q->kept = NULL;
		q->last_len = q->kept_len = 0;
		q->saw_bad = false;
		q->failed = q->empty = q->dead = 0;
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
		failures_forget(g);
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
			const struct group *g = r->groups[i];
			const struct server *s = &g->servers[k];

			ret[count++] = (struct upstream_stat){.group = g->name,
			        .server = s->endpoint,
			        .is_healthy = s->health == HEALTHY,
			        .is_suspected = s->health == SUSPECTED,
			        .srtt_us = s->srtt_us,
			        .in_flight = s->in_flight,
			        .sent = s->sent,
			        .answered = s->answered,
			        .timeouts = s->timeouts,
			        .tcp = s->tcp,
			        .errors = s->errors,
			        .wrong_case = s->wrong_case,
			        .questions = g->question_count,
			        .refused = g->refused,
			        .failure_hits = g->failure_hits};
		}
	return count;
}
