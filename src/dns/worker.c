/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A worker's thread, sockets and slab of parked queries. The main thread talks to it by posted tasks and waits for each, so that a snapshot is never
 * changed in the middle of a turn and never freed while a worker reads it. */
#include "dns/worker.h"
#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "base/rcu.h"
#include "dns/query.h"

enum { CHUNK = 256, DRAIN_MS = 1000, WAYS_LOOK_MS = 20 };

const char *const worker_counter_name[C_COUNT] = { "queries", "udp", "tcp", "malformed", "refused", "local", "blocked", "hits", "misses", "steered", "barriers", "barrier_failed",
	"barrier_late", "way_down", "servfail", "full", "mac_unknown", "stale", "prefetches", "rebinds" };

/* --- parked queries --- */

static int grow_queries(struct worker *w)
{
	if (w->query_chunks == WORKER_QUERIES_MAX / CHUNK)
		return NW_EFULL;
	struct query *chunk = calloc(CHUNK, sizeof *chunk);
	if (!chunk)
		return -ENOMEM;
	for (unsigned i = 0; i < CHUNK; i++) {
		chunk[i].next = w->free_queries;
		w->free_queries = &chunk[i];
	}
	w->chunk[w->query_chunks++] = chunk;
	return 0;
}

struct query *query_new(struct worker *w, const struct ask *a)
{
	if (!w->free_queries && grow_queries(w) < 0)
		return NULL;
	struct query *q = w->free_queries;
	w->free_queries = q->next;
	w->queries++;
	uint32_t serial = q->serial;
	memset(q, 0, offsetof(struct query, ask));
	q->serial = serial;
	q->w = w;
	q->config_serial = w->snap->serial;
	q->ask = *a;
	return q;
}

void query_free(struct query *q)
{
	struct worker *w = q->w;
	deadline_del(&q->deadline);
	if (q->held)
		cache_release(q->held);
	free(q->copy);
	if (q->is_parked_of_group)
		w->parked[q->group_id % WORKER_GROUPS]--;
	q->is_parked_of_group = false;
	q->held = NULL;
	q->copy = NULL;
	q->serial++;
	q->next = w->free_queries;
	w->free_queries = q;
	w->queries--;
}

/* --- packets --- */

/* The input hook numbered the client's MAC into the packet's mark. A packet without that mark came while our table was missing: its MAC is not known. */
static void read_mac(const struct worker *w, const struct udp_path *path, struct client *c)
{
	memset(c->mac, 0, sizeof c->mac);
	c->mac_known = !w->snap->macs.count || addr_is_loopback(&path->from.addr) || (path->has_mark && path->mark & (uint32_t)MACMAP_MARK);
	const uint8_t *mac = w->snap->macs.count && path->has_mark ? macmap_mac(&w->snap->macs, path->mark) : NULL;
	if (mac)
		memcpy(c->mac, mac, sizeof c->mac);
}

static void take_packet(struct worker *w, struct ask *a, const struct udp_packet *p)
{
	a->is_tcp = false;
	a->udp = p->path;
	a->client.addr = p->path.from.addr;
	a->client.ifindex = p->path.ifindex;
	read_mac(w, &p->path, &a->client);
}

static void on_udp(void *ctx, const struct udp_packet *p, unsigned n)
{
	struct worker *w = ctx;
	struct query_msg msgs[BEGIN_TOGETHER];
	unsigned waiting = 0;
	w->last.is_known = false;
	w->now_s = (uint32_t)(loop_now_ms(w->loop) / 1000);
	for (unsigned i = 0; i < n; i++) {
		count(w, C_UDP);
		/* Without its interface the client cannot be sorted into a group. It will ask again. */
		if (w->wants_interface && !p[i].path.ifindex)
			continue;
		take_packet(w, &w->begun[waiting].ask, &p[i]);
		msgs[waiting++] = (struct query_msg){ p[i].bytes, p[i].len };
		if (waiting == BEGIN_TOGETHER) {
			query_begin(w, msgs, waiting);
			waiting = 0;
		}
	}
	query_begin(w, msgs, waiting);
}

static void on_tcp(void *ctx, struct tcp_session *s, const struct tcp_path *path, const uint8_t *msg, size_t len)
{
	struct worker *w = ctx;
	struct ask *a = &w->begun[0].ask;
	w->last.is_known = false;
	w->now_s = (uint32_t)(loop_now_ms(w->loop) / 1000);
	count(w, C_TCP);
	a->is_tcp = true;
	a->tcp = s;
	a->client.addr = path->from.addr;
	a->client.ifindex = path->ifindex;
	a->client.mac_known = path->mac_known || addr_is_loopback(&path->from.addr);
	memcpy(a->client.mac, path->mac, 6);
	query_begin(w, &(struct query_msg){ msg, len }, 1);
}

static int take_socket(void *ctx, unsigned group, unsigned server, bool is_tcp)
{
	struct worker *w = ctx;
	return w->shared->take_socket(w->shared->take_ctx, w->snap->config, group, server, is_tcp);
}

/* --- ways that go down and come back --- */

static void tell_resolver(struct worker *w, const struct snapshot *s, uint64_t down)
{
	uint64_t changed = w->ways_serial == s->serial ? down ^ w->ways_seen : UINT64_MAX;
	w->ways_serial = s->serial;
	w->ways_seen = down;
	for (unsigned i = 0; i < s->config->way_count; i++)
		if (changed >> i & 1)
			resolver_way_changed(w->resolver, i, down >> i & 1);
}

/* Once a turn, after its queries. */
static void look_at_ways(void *worker)
{
	struct worker *w = worker;
	const struct snapshot *s = w->snap;
	if (!s || !w->has_way_upstreams)
		return;
	unsigned slot = s->serial & 1;
	const struct steer_shared *page = w->shared->steer;
	if (atomic_load_explicit(&page->cfg[slot].serial, memory_order_acquire) == s->serial) {
		uint64_t down = atomic_load_explicit(&page->cfg[slot].ways_down, memory_order_relaxed) | atomic_load_explicit(&page->cfg[slot].ways_off, memory_order_relaxed);
		if (w->ways_serial != s->serial || down != w->ways_seen)
			tell_resolver(w, s, down);
	}
	/* Nothing wakes a worker when a way changes, so one with queries in flight wakes by itself. */
	if (w->queries && !w->ways_look_at.next)
		deadline_add(w->loop, &w->ways_look, &w->ways_look_at);
}

static void on_ways_look(struct deadline *d)
{
	(void)d; /* the turn's end looks */
}

/* --- life --- */

int worker_new(struct worker **ret, const struct worker_shared *shared, unsigned number, int steer_fd)
{
	struct worker *w = calloc(1, sizeof *w);
	if (!w)
		return -ENOMEM;
	pthread_mutex_init(&w->start_lock, NULL);
	w->shared = shared;
	w->number = number;
	w->steer_fd = steer_fd;
	struct resolver_env env = { .ctx = w, .take_socket = take_socket };
	w->ring = query_ring_new();
	int r = w->ring ? loop_new(&w->loop) : -ENOMEM;
	if (r == 0)
		r = barrier_open(w);
	if (r == 0)
		loop_on_turn_end(w->loop, look_at_ways, w);
	if (r == 0)
		r = udp_server_new(&w->udp, w->loop, on_udp, w);
	if (r == 0)
		r = tcp_server_new(&w->tcp, w->loop, on_tcp, w);
	if (r == 0)
		r = resolver_new(&w->resolver, w->loop, &env);
	if (r < 0) {
		worker_free(w);
		return r;
	}
	deadline_queue_init(w->loop, &w->ways_look, WAYS_LOOK_MS, on_ways_look);
	deadline_queue_init(w->loop, &w->late, BARRIER_MS, query_late);
	deadline_queue_init(w->loop, &w->late_rebuild, BARRIER_REBUILD_MS, query_late);
	deadline_queue_init(w->loop, &w->late_rest, BARRIER_REBUILD_MS - BARRIER_MS, query_late);
	*ret = w;
	return 0;
}

static void *thread_main(void *arg)
{
	struct worker *w = arg;
	char name[16];
	snprintf(name, sizeof name, "nw-worker%u", w->number % 1000);
	pthread_setname_np(pthread_self(), name);
	loop_run(w->loop);
	return NULL;
}

int worker_start(struct worker *w)
{
	pthread_mutex_lock(&w->start_lock);
	int r = pthread_create(&w->thread, NULL, thread_main, w);
	w->is_started = r == 0;
	pthread_mutex_unlock(&w->start_lock);
	return -r;
}

/* --- tasks from the main thread --- */

struct task {
	struct loop_post post;
	struct worker *w;
	void (*fn)(struct worker *w, void *arg);
	void *arg;
	sem_t done;
};

static void run_task(void *ctx)
{
	struct task *t = ctx;
	t->w->now_s = (uint32_t)(clock_ms() / 1000);
	t->fn(t->w, t->arg);
	sem_post(&t->done);
}

/* Runs fn in the worker and waits for it; before the thread runs, directly. The caller must not be an online RCU reader while it waits. */
static void run_in_worker(struct worker *w, void (*fn)(struct worker *w, void *arg), void *arg)
{
	pthread_mutex_lock(&w->start_lock);
	bool is_started = w->is_started;
	if (!is_started)
		fn(w, arg);
	pthread_mutex_unlock(&w->start_lock);
	if (!is_started)
		return;
	struct task t = { .w = w, .fn = fn, .arg = arg };
	t.post = (struct loop_post){ .fn = run_task, .ctx = &t };
	sem_init(&t.done, 0, 0);
	loop_post(w->loop, &t.post);
	while (sem_wait(&t.done) < 0 && errno == EINTR)
		;
	sem_destroy(&t.done);
}

/* Whether it matters by which interface a client asks: to tell which group it is of, or whether it is this machine. */
static bool wants_interface(const struct snapshot *s)
{
	const struct config *c = s->config;
	bool wants = c->group_count || c->server.allow_default || s->has_closed_rules;
	for (unsigned i = 0; i < c->steer_count; i++)
		wants |= c->steers[i].has_gid;
	return wants;
}

static void do_switch(struct worker *w, void *arg)
{
	const struct snapshot *s = arg, *old = w->snap;
	bool are_rules_new = !old || old->config != s->config;
	w->snap = s;
	w->wants_interface = wants_interface(s);
	udp_server_want(w->udp, w->wants_interface, s->macs.count);
	if (!are_rules_new)
		return;
	/* Without memory for the new groups their numbers would mean other upstreams: better no server than answers from the wrong exit. */
	if (resolver_configure(w->resolver, s->config) < 0)
		abort();
	w->ways_serial = 0;
	w->has_way_upstreams = false;
	for (unsigned i = 0; i < s->config->upstream_count; i++)
		w->has_way_upstreams |= s->config->upstreams[i].way >= 0;
	for (unsigned i = 0; i < CONFIG_RULES_MAX; i++) {
		atomic_store(&w->filter_hits[i], 0);
		atomic_store(&w->steer_hits[i], 0);
	}
	for (unsigned i = 0; i < CONFIG_LISTS_MAX; i++)
		atomic_store(&w->list_hits[i], 0);
}

void worker_switch(struct worker *w, const struct snapshot *s)
{
	run_in_worker(w, do_switch, (void *)(uintptr_t)s);
}

struct socket_task { int fd; bool is_tcp; uint32_t ifindex, key; int r; };

static void do_add_socket(struct worker *w, void *arg)
{
	struct socket_task *t = arg;
	struct socket_key *k = NULL;
	for (unsigned i = 0; i < sizeof w->sockets / sizeof w->sockets[0]; i++)
		if (!w->sockets[i].is_used) {
			k = &w->sockets[i];
			break;
		}
	t->r = NW_EFULL;
	if (!k) {
		close(t->fd);
		return;
	}
	*k = (struct socket_key){ .key = t->key, .is_tcp = t->is_tcp };
	t->r = t->is_tcp ? tcp_server_add(w->tcp, t->fd, t->ifindex, &k->index) : udp_server_add(w->udp, t->fd, &k->index);
	k->is_used = t->r == 0;
}

int worker_add_socket(struct worker *w, int fd, bool is_tcp, uint32_t ifindex, uint32_t key)
{
	struct socket_task t = { .fd = fd, .is_tcp = is_tcp, .ifindex = ifindex, .key = key };
	run_in_worker(w, do_add_socket, &t);
	return t.r;
}

static void do_remove_socket(struct worker *w, void *arg)
{
	uint32_t key = *(uint32_t *)arg;
	for (unsigned i = 0; i < sizeof w->sockets / sizeof w->sockets[0]; i++) {
		struct socket_key *k = &w->sockets[i];
		if (!k->is_used || k->key != key)
			continue;
		if (k->is_tcp)
			tcp_server_remove(w->tcp, k->index);
		else
			udp_server_remove(w->udp, k->index);
		k->is_used = false;
	}
}

void worker_remove_socket(struct worker *w, uint32_t key)
{
	run_in_worker(w, do_remove_socket, &key);
}

struct upstreams_task { struct upstream_stat *ret; unsigned max, count; };

static void do_upstreams(struct worker *w, void *arg)
{
	struct upstreams_task *t = arg;
	t->count = resolver_stat(w->resolver, t->ret, t->max);
	/* The resolver's own text goes with the next configuration; the snapshot's stays as long as the caller holds one. */
	for (unsigned i = 0; i < t->count; i++)
		for (unsigned k = 0; w->snap && k < w->snap->config->upstream_count; k++)
			if (!strcmp(w->snap->config->upstreams[k].name, t->ret[i].group)) {
				t->ret[i].group = w->snap->config->upstreams[k].name;
				break;
			}
}

unsigned worker_upstreams(struct worker *w, struct upstream_stat *ret, unsigned max)
{
	struct upstreams_task t = { .ret = ret, .max = max };
	run_in_worker(w, do_upstreams, &t);
	return t.count;
}

/* Stops taking new queries, then waits for what is parked. */
static void do_stop_listening(struct worker *w, void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < sizeof w->sockets / sizeof w->sockets[0]; i++)
		if (w->sockets[i].is_used)
			do_remove_socket(w, &w->sockets[i].key);
}

static void do_count_parked(struct worker *w, void *arg)
{
	*(unsigned *)arg = w->queries;
}

void worker_stop_listening(struct worker *w)
{
	if (!w->is_started || w->stopped_ms)
		return;
	run_in_worker(w, do_stop_listening, NULL);
	w->stopped_ms = clock_ms();
}

void worker_stop(struct worker *w)
{
	if (!w->is_started)
		return;
	worker_stop_listening(w);
	unsigned parked = 1;
	for (uint64_t until = w->stopped_ms + DRAIN_MS; parked && clock_ms() < until;) {
		run_in_worker(w, do_count_parked, &parked);
		if (parked)
			usleep(5000);
	}
	loop_stop(w->loop);
	pthread_join(w->thread, NULL);
	pthread_mutex_lock(&w->start_lock);
	w->is_started = false;
	pthread_mutex_unlock(&w->start_lock);
}

void worker_free(struct worker *w)
{
	if (!w)
		return;
	resolver_free(w->resolver);
	barrier_close(w);
	tcp_server_free(w->tcp);
	udp_server_free(w->udp);
	loop_free(w->loop);
	query_ring_free(w->ring);
	for (unsigned i = 0; i < w->query_chunks; i++) {
		for (unsigned k = 0; k < CHUNK; k++) {
			free(w->chunk[i][k].copy);
		}
		free(w->chunk[i]);
	}
	pthread_mutex_destroy(&w->start_lock);
	free(w);
}

uint64_t worker_counter(const struct worker *w, enum worker_counter c)
{
	return atomic_load_explicit(&w->counters[c], memory_order_relaxed);
}

uint64_t worker_filter_hits(const struct worker *w, unsigned rule)
{
	return atomic_load_explicit(&w->filter_hits[rule], memory_order_relaxed);
}

uint64_t worker_steer_hits(const struct worker *w, unsigned rule)
{
	return atomic_load_explicit(&w->steer_hits[rule], memory_order_relaxed);
}

uint64_t worker_list_hits(const struct worker *w, unsigned list)
{
	return atomic_load_explicit(&w->list_hits[list], memory_order_relaxed);
}

struct query_ring *worker_ring(struct worker *w)
{
	return w->ring;
}
