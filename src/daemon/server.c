/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The server's main thread: the parent's messages, and once every few milliseconds the chores: tidying the cache, journal of holds, sweeps. */
#include "daemon/server.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/heap.h"
#include "base/log.h"
#include "config/bundle.h"
#include "base/rcu.h"
#include "base/ring.h"
#include "daemon/server_private.h"

enum { TICK_MS = 20, BARRIER_LOOK_MS = 10000, JOURNAL_MS = 500, SWEEP_MS = 5000, HOLD_KEEP_S = 5, STATE_WAIT_MS = 4000 };

/* --- marked sockets of ways --- */

static uint64_t pool_key(uint32_t serial, unsigned group, unsigned server, bool is_tcp)
{
	return (uint64_t)serial << 32 | (uint64_t)group << 16 | (uint64_t)server << 1 | is_tcp;
}

static struct way_pool *find_pool(struct server *s, uint64_t key)
{
	unsigned n = atomic_load_explicit(&s->pool_count, memory_order_acquire);
	for (unsigned i = 0; i < n; i++)
		if (atomic_load_explicit(&s->pools[i].key, memory_order_acquire) == key)
			return &s->pools[i];
	return NULL;
}

/* A ring has one consumer at a time: a try-lock, never a wait. */
static int pool_take(struct way_pool *p)
{
	bool is_free = false;
	void *fd = NULL;
	if (atomic_compare_exchange_strong(&p->is_taking, &is_free, true)) {
		fd = ring_pop(p->ring);
		atomic_store(&p->is_taking, false);
	}
	return fd ? (int)(intptr_t)fd - 1 : -EAGAIN;
}

static uint32_t serial_in_force(struct server *s)
{
	pthread_mutex_lock(&s->snap_lock);
	uint32_t serial = s->shown ? s->shown->serial : 0;
	pthread_mutex_unlock(&s->snap_lock);
	return serial;
}

/* A pool of a configuration gone by, or a fresh one. */
static struct way_pool *spare_pool(struct server *s, uint32_t serial)
{
	unsigned n = atomic_load(&s->pool_count);
	uint32_t in_force = serial_in_force(s);
	for (unsigned i = 0; i < n; i++) {
		struct way_pool *p = &s->pools[i];
		uint32_t of = (uint32_t)(atomic_load(&p->key) >> 32);
		if (of == serial || (of && of == in_force))
			continue;
		atomic_store(&p->key, 0);
		for (int fd; (fd = pool_take(p)) >= 0;)
			close(fd);
		return p;
	}
	if (n == WAY_POOLS_MAX || !(s->pools[n].ring = ring_new(WAY_SOCKETS_KEPT)))
		return NULL;
	atomic_store_explicit(&s->pool_count, n + 1, memory_order_release);
	return &s->pools[n];
}

/* One pool per way-bound server and kind, made before the workers see the configuration. */
static void make_pools(struct server *s, const struct config *c, uint32_t serial)
{
	for (unsigned g = 0; g < c->upstream_count; g++)
		for (unsigned k = 0; c->upstreams[g].way >= 0 && k < c->upstreams[g].server_count; k++)
			for (int tcp = 0; tcp < 2; tcp++) {
				if (find_pool(s, pool_key(serial, g, k, tcp)))
					continue; /* tried before */
				struct way_pool *p = spare_pool(s, serial);
				if (!p) {
					log_error("too many upstreams belong to ways; some will not be asked");
					return;
				}
				atomic_store(&p->is_asked, false);
				atomic_store_explicit(&p->key, pool_key(serial, g, k, tcp), memory_order_release);
			}
}

/* Interfaces changed: a kept socket may be bound to one that was made anew, and would never send. */
static void empty_pools(struct server *s)
{
	unsigned n = atomic_load(&s->pool_count);
	for (unsigned i = 0; i < n; i++)
		for (int fd; (fd = pool_take(&s->pools[i])) >= 0;)
			close(fd);
}

int server_take_way_socket(void *ctx, const struct config *c, unsigned group, unsigned server, bool is_tcp)
{
	struct server *s = ctx;
	struct way_pool *p = find_pool(s, pool_key(c->serial, group, server, is_tcp));
	int fd = p ? pool_take(p) : -EAGAIN;
	if (fd < 0 && p && !atomic_exchange(&p->is_asked, true)) {
		struct ipc_msg m = { .type = IPC_WANT_WAY_SOCKET, .serial = c->serial, .a = group, .b = server, .flag = is_tcp };
		if (ipc_send_now(s->args.parent_fd, &m) < 0)
			atomic_store(&p->is_asked, false);
	}
	return fd;
}

void server_give_way_socket(struct server *s, const struct ipc_msg *m, int fd)
{
	struct way_pool *p = find_pool(s, pool_key(m->serial, m->a, m->b, m->flag));
	if (p)
		atomic_store(&p->is_asked, false);
	if (fd >= 0 && (!p || !ring_push(p->ring, (void *)(intptr_t)(fd + 1))))
		close(fd);
}

/* --- the parent's messages --- */

static void take_config(struct server *s, const struct ipc_msg *m, int fd)
{
	void *bundle = NULL;
	size_t len;
	struct config *c = NULL;
	struct report r;
	report_init(&r);
	int rc = fd < 0 ? NW_EMALFORMED : ipc_read_memfd(fd, &bundle, &len, BUNDLE_MAX);
	if (rc == 0)
		rc = config_parse(&c, bundle, len, &r);
	if (rc == 0) {
		c->serial = m->serial;
		make_pools(s, c, m->serial);
		server_plan(s, c, m->serial);
	} else {
		struct ipc_msg out = { .type = IPC_PREPARED, .serial = m->serial, .result = rc };
		snprintf(out.text, sizeof out.text, "%s", r.text.len ? r.text.bytes : nw_strerror(rc));
		ipc_send(s->args.parent_fd, &out, -1, -1);
	}
	report_free(&r);
	free(bundle);
}

static void take_links(struct server *s, int fd)
{
	void *bytes = NULL;
	size_t len;
	if (fd < 0 || ipc_read_memfd(fd, &bytes, &len, 1 << 20) < 0)
		return;
	const struct ipc_links *in = bytes;
	struct links *l = NULL;
	if (len >= sizeof *in && len == sizeof *in + in->link_count * sizeof(struct link_entry) + in->network_count * sizeof(struct prefix))
		l = malloc(sizeof *l + len);
	if (l) {
		char *room = (char *)(l + 1);
		memcpy(room, (const char *)bytes + sizeof *in, len - sizeof *in);
		*l = (struct links){ .count = in->link_count, .network_count = in->network_count, .v = (void *)room, .networks = (void *)(room + in->link_count * sizeof(struct link_entry)) };
		const struct links *old = atomic_exchange(&s->worker_shared.links, l);
		rcu_wait();
		free((void *)(uintptr_t)old);
		empty_pools(s);
	}
	free(bytes);
}

static struct list_job **coming_place(struct server *s, const char *name)
{
	struct list_job **spare = NULL;
	for (unsigned i = 0; i < sizeof s->coming / sizeof s->coming[0]; i++) {
		if (s->coming[i] && !strcmp(s->coming[i]->name, name))
			return &s->coming[i];
		if (!s->coming[i] && !spare)
			spare = &s->coming[i];
	}
	return spare;
}

/* Files of one list come one a message; the last one sends the list to the compiler. */
static void take_list_file(struct server *s, const struct ipc_msg *m, int fd)
{
	struct list_job **place = coming_place(s, m->name), *o = place ? *place : NULL;
	if (place && !o && m->b <= LIST_FILES_MAX && (o = calloc(1, sizeof *o))) {
		snprintf(o->name, sizeof o->name, "%s", m->name);
		o->reason = (enum ipc_list_reason)m->c;
		o->total = m->b;
		o->files = calloc(m->b + 1, sizeof *o->files);
		*place = o;
	}
	if (!o || !o->files || o->count > o->total) {
		if (fd >= 0)
			close(fd);
		return;
	}
	if (fd >= 0 || m->result < 0)
		o->files[o->count++] = (struct list_file){ .fd = fd >= 0 ? fd : m->result, .path = strdup(m->text) };
	if (m->a + 1 >= m->b) {
		*place = NULL;
		server_offer(s, o);
	}
}

static void take_socket(struct server *s, const struct ipc_msg *m, int fd)
{
	if (fd < 0 || m->a >= s->worker_count) {
		if (fd >= 0)
			close(fd);
		return;
	}
	int r = worker_add_socket(s->workers[m->a], fd, m->flag, m->c, m->b);
	if (r < 0)
		log_error("a DNS socket cannot be served: %s", nw_strerror(r));
}

static bool take_message(struct server *s)
{
	struct ipc_msg m;
	int fd, fd2;
	int r = ipc_receive(s->args.parent_fd, &m, &fd, &fd2);
	if (r == -EPIPE) {
		s->is_stopping = true;
		return false;
	}
	if (r < 0)
		return r == NW_EMALFORMED;
	switch ((enum ipc_type)m.type) {
	case IPC_CONFIG: take_config(s, &m, fd); fd = -1; break;
	case IPC_FINISH: server_finish(s, m.serial); break;
	case IPC_COMMIT: server_commit(s, m.serial); break;
	case IPC_ABANDON: server_abandon(s); break;
	case IPC_SOCKET: take_socket(s, &m, fd); fd = -1; break;
	case IPC_SOCKET_GONE:
		for (unsigned i = 0; i < s->worker_count; i++)
			worker_remove_socket(s->workers[i], m.b);
		break;
	case IPC_LINKS: take_links(s, fd); fd = -1; break;
	case IPC_LIST_FILE: take_list_file(s, &m, fd); fd = -1; break;
	case IPC_HOSTS_FILE: hosts_take(s, &m, fd); fd = -1; break;
	case IPC_CONTROL: control_take(s, fd, fd2, m.flag); fd = fd2 = -1; break;
	case IPC_WAY_SOCKET: server_give_way_socket(s, &m, fd); fd = -1; break;
	case IPC_ENFORCER_NEW: server_resend(s, m.serial); break;
	case IPC_ALARM:
		if (m.text[0])
			alarm_set(s->alarms, m.name, "%s", m.text);
		else
			alarm_clear(s->alarms, m.name);
		break;
	case IPC_STOP: s->is_stopping = true; break;
	default: break;
	}
	if (fd >= 0)
		close(fd);
	if (fd2 >= 0)
		close(fd2);
	return true;
}

/* --- chores --- */

static void journal_holds(struct server *s, bool is_last)
{
	pthread_mutex_lock(&s->holds_lock);
	int r = holds_file_sync(s->holds_file, s->holds, (uint32_t)(clock_ms() / 1000), clock_wall_s(), is_last);
	pthread_mutex_unlock(&s->holds_lock);
	if (r < 0)
		alarm_set(s->alarms, "state-sets", "set contents cannot be kept in `state`: %s; they live in memory only and would be lost by a reboot. Mend: make room or give access", nw_strerror(r));
	else
		alarm_clear(s->alarms, "state-sets");
}

/* Steered answers that became SERVFAIL for want of the kernel's acknowledgement, since the last look. */
static void look_at_barrier(struct server *s)
{
	static uint64_t seen;
	uint64_t all = 0;
	for (unsigned i = 0; i < s->worker_count; i++)
		all += worker_counter(s->workers[i], C_BARRIER_LATE) + worker_counter(s->workers[i], C_BARRIER_FAILED);
	if (all != seen && holds_count(s->holds) >= HOLDS_DEFAULT)
		alarm_set(s->alarms, "barrier", "more addresses are held for names than fit (%d): further answers are SERVFAIL until some end. Mend: shorten server.element-min", HOLDS_DEFAULT);
	else if (all != seen)
		alarm_set(s->alarms, "barrier", "the kernel's sets did not take the addresses of some answers in time: these were SERVFAIL. Mend: look at the other alarms and the log of the enforcer");
	else
		alarm_clear(s->alarms, "barrier");
	seen = all;
}

static void do_chores(struct server *s)
{
	static uint64_t tidy_at, journal_at, sweep_at, barrier_at;
	uint64_t now = clock_ms();
	if (now >= barrier_at) {
		barrier_at = now + BARRIER_LOOK_MS;
		look_at_barrier(s);
		server_queries_look(s);
	}
	if (now >= tidy_at) {
		tidy_at = now + TICK_MS;
		cache_tidy(s->cache, (uint32_t)(now / 1000));
	}
	if (now >= journal_at && s->args.state_fd >= 0) {
		journal_at = now + JOURNAL_MS;
		journal_holds(s, false);
	}
	if (now >= sweep_at) {
		sweep_at = now + SWEEP_MS;
		pthread_mutex_lock(&s->holds_lock);
		holds_sweep(s->holds, (uint32_t)(now / 1000), HOLD_KEEP_S);
		pthread_mutex_unlock(&s->holds_lock);
	}
}

/* --- life --- */

static void queue_init(struct job_queue *q)
{
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->is_filled, NULL);
	q->last = &q->first;
}

static int make_workers(struct server *s)
{
	s->worker_shared = (struct worker_shared){ .cache = s->cache, .holds = s->holds, .steer = s->shared, .take_socket = server_take_way_socket, .take_ctx = s, .name_seed = hash_seed() };
	for (unsigned i = 0; i < s->worker_count; i++) {
		int r = worker_new(&s->workers[i], &s->worker_shared, i, s->args.channel[i]);
		if (r < 0)
			return r;
	}
	return 0;
}

static int server_open(struct server *s, const struct server_args *args)
{
	s->args = *args;
	s->started_ms = clock_ms();
	s->worker_count = args->channel_count - 1;
	s->shared = mmap(NULL, sizeof *s->shared, PROT_READ, MAP_SHARED, args->shared_fd, 0);
	s->alarms = alarms_new();
	s->holds_file = holds_file_new(args->state_fd, "holds");
	pthread_mutex_init(&s->holds_lock, NULL);
	pthread_mutex_init(&s->snap_lock, NULL);
	pthread_cond_init(&s->snap_free, NULL);
	pthread_mutex_init(&s->asked_lock, NULL);
	pthread_cond_init(&s->asked_done, NULL);
	queue_init(&s->compile_jobs);
	queue_init(&s->control_jobs);
	struct lists_hooks hooks = server_hooks(s);
	if (s->shared == MAP_FAILED || !s->alarms || !s->holds_file)
		return -ENOMEM;
	int r = link_new(&s->link, args->channel[args->channel_count - 1], s->shared);
	if (r == 0)
		r = cache_new(&s->cache, args->cache_bytes);
	if (r == 0)
		r = holds_new(&s->holds, HOLDS_DEFAULT);
	if (r == 0)
		r = lists_new(&s->lists, args->state_fd, &hooks);
	if (r == 0)
		r = server_queries_open(s);
	if (r == 0)
		r = make_workers(s);
	if (r == 0)
		server_queries_attach(s);
	if (args->state_fd < 0)
		alarm_set(s->alarms, "state", "the `state` directory cannot be used: lists and set contents live in memory only. Mend: make it writable for server.user");
	return r;
}

static bool has_snapshot(struct server *s)
{
	pthread_mutex_lock(&s->snap_lock);
	bool has = s->shown != NULL;
	pthread_mutex_unlock(&s->snap_lock);
	return has;
}

/* A server whose parent was killed still saves while the next one starts: one at a time writes `state`. */
static void wait_for_state(int state_fd)
{
	for (uint64_t until = clock_ms() + STATE_WAIT_MS; state_fd >= 0 && flock(state_fd, LOCK_EX | LOCK_NB) < 0 && clock_ms() < until;)
		usleep(10000);
}

int server_main(const struct server_args *args)
{
	static struct server s;
	heap_give_back();
	wait_for_state(args->state_fd);
	int r = server_open(&s, args);
	if (r < 0) {
		log_error("the server cannot start: %s", nw_strerror(r));
		return 1;
	}
	if (pthread_create(&s.compiler, NULL, compiler_main, &s) || pthread_create(&s.control, NULL, control_main, &s)) {
		log_error("the server cannot start its threads");
		return 1;
	}
	bool is_started = false;
	while (!s.is_stopping) {
		struct pollfd p = { .fd = args->parent_fd, .events = POLLIN };
		if (poll(&p, 1, TICK_MS) > 0)
			for (int i = 0; i < 64 && take_message(&s); i++)
				;
		/* Workers run from the moment the compiler gave them something to judge by. */
		if (!is_started && has_snapshot(&s)) {
			for (unsigned i = 0; i < s.worker_count; i++)
				if (worker_start(s.workers[i]) < 0)
					return 1;
			is_started = true;
		}
		do_chores(&s);
	}
	/* First who hands tasks to workers: a task given to a worker that ended would be waited for without end. */
	server_abandon(&s); /* a verb may wait for the end of a configuration that will not come */
	queue_close(&s.control_jobs);
	pthread_join(s.control, NULL);
	queue_close(&s.compile_jobs);
	pthread_join(s.compiler, NULL);
	/* All drain at the same time; what must not be lost is written first. */
	for (unsigned i = 0; i < s.worker_count; i++)
		worker_stop_listening(s.workers[i]);
	for (unsigned i = 0; i < s.worker_count; i++)
		worker_stop(s.workers[i]);
	if (args->state_fd >= 0)
		journal_holds(&s, true);
	server_queries_close(&s);
	server_cache_save(&s);
	return 0;
}
