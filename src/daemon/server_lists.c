/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The compiler thread: one queue, one job after another. A configuration comes as PLAN (slots for its lists), one OFFER a list, FINISH (policy built,
 * prefixes sent, sets filled, parent told), and after the parent's word COMMIT (workers switched, what is obsolete freed). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/rcu.h"
#include "daemon/server_private.h"

/* --- queues --- */

void queue_push(struct job_queue *q, struct job *j)
{
	pthread_mutex_lock(&q->lock);
	j->next = NULL;
	*q->last = j;
	q->last = &j->next;
	q->count++;
	pthread_cond_signal(&q->is_filled);
	pthread_mutex_unlock(&q->lock);
}

static struct job *queue_take(struct job_queue *q)
{
	struct job *j = q->first;
	if (j && !(q->first = j->next))
		q->last = &q->first;
	q->count -= j != NULL;
	return j;
}

struct job *queue_pop(struct job_queue *q)
{
	pthread_mutex_lock(&q->lock);
	while (!q->first && !q->is_closed)
		pthread_cond_wait(&q->is_filled, &q->lock);
	struct job *j = queue_take(q);
	pthread_mutex_unlock(&q->lock);
	return j;
}

/* As queue_pop, but NULL also after wait_ms. */
static struct job *queue_pop_for(struct job_queue *q, uint64_t wait_ms, bool *ret_closed)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += (time_t)(wait_ms / 1000);
	until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&q->lock);
	int r = 0;
	while (!q->first && !q->is_closed && r == 0)
		r = pthread_cond_timedwait(&q->is_filled, &q->lock, &until);
	struct job *j = queue_take(q);
	*ret_closed = q->is_closed && !j;
	pthread_mutex_unlock(&q->lock);
	return j;
}

void queue_close(struct job_queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->is_closed = true;
	pthread_cond_broadcast(&q->is_filled);
	pthread_mutex_unlock(&q->lock);
}

/* --- snapshots --- */

/* Upstream groups keep their number in the cache's keys as long as name, servers and way stay the same. */
static uint16_t group_id(struct server *s, const struct config *c, const struct cfg_upstream *u)
{
	const char *way = u->way >= 0 ? c->ways[u->way].name : "";
	uint64_t sig = hash_bytes(u->name, strlen(u->name), hash_bytes(way, strlen(way), 1));
	/* Another interface or mark is another exit, with other answers. */
	if (u->way >= 0)
		sig = hash_bytes(c->ways[u->way].interface, strlen(c->ways[u->way].interface), sig ^ c->ways[u->way].mark);
	for (unsigned i = 0; i < u->server_count; i++)
		sig = hash_bytes(&u->servers[i].addr, sizeof u->servers[i].addr, sig ^ u->servers[i].port ^ (uint64_t)u->servers[i].scope << 16);
	for (unsigned i = 0; i < s->group_id_count; i++)
		if (s->group_ids[i].signature == sig)
			return (uint16_t)i;
	if (s->group_id_count == GROUP_IDS_MAX) {
		/* Thousands of changed groups later the numbers begin anew; the cache must then not mistake old for new. */
		rcu_online();
		cache_flush(s->cache, NULL);
		rcu_offline();
		s->group_id_count = 0;
	}
	s->group_ids[s->group_id_count].signature = sig;
	return (uint16_t)s->group_id_count++;
}

/* Kill-switched rules stay closed as long as one of their lists never had a text. */
static void close_rules(struct server *s, struct snapshot *n)
{
	const struct config *c = n->config;
	n->has_closed_rules = false;
	for (unsigned i = 0; i < c->steer_count; i++)
		for (unsigned k = 0; c->ways[c->steers[i].way].kill_switch && k < c->steers[i].names.count; k++)
			if (!lists_slot_has_text(s->lists, n->slots[c->steers[i].names.v[k]])) {
				policy_close_rule(n->policy, i);
				n->has_closed_rules = true;
			}
}

/* gen: of the index, the least the policy judges by; 0: as it is. */
static struct snapshot *snapshot_new(struct server *s, struct config *c, uint32_t serial, const uint16_t *slots, uint64_t gen)
{
	struct snapshot *n = calloc(1, sizeof *n);
	const struct prefixes *prefixes[CONFIG_LISTS_MAX];
	const struct exprs *exprs[CONFIG_LISTS_MAX];
	if (!n)
		return NULL;
	n->config = c;
	n->serial = serial;
	memcpy(n->slots, slots, sizeof n->slots);
	for (unsigned i = 0; i < c->list_count; i++) {
		prefixes[i] = lists_slot_prefixes(s->lists, slots[i]);
		exprs[i] = lists_slot_exprs(s->lists, slots[i]);
	}
	if (snapshot_compile(n, lists_index(s->lists), prefixes, exprs, s->worker_shared.name_seed) < 0) {
		snapshot_free(n, false);
		return NULL;
	}
	policy_set_generation(n->policy, gen);
	close_rules(s, n);
	for (unsigned i = 0; i < c->upstream_count; i++)
		n->group_id[i] = group_id(s, c, &c->upstreams[i]);
	return n;
}

/* Hands a snapshot to workers and verbs; the one before is freed when nobody looks at it any more. */
static void switch_to(struct server *s, struct snapshot *n)
{
	struct snapshot *old = s->now;
	bool is_config_new = !old || old->config != n->config;
	if (is_config_new)
		server_queries_before_switch(s, n);
	for (unsigned i = 0; i < s->worker_count; i++)
		worker_switch(s->workers[i], n);
	if (is_config_new)
		server_queries_after_switch(s, n);
	s->now = n;
	pthread_mutex_lock(&s->snap_lock);
	while (s->shown_users)
		pthread_cond_wait(&s->snap_free, &s->snap_lock);
	s->shown = n;
	pthread_mutex_unlock(&s->snap_lock);
	snapshot_free(old, is_config_new);
}

/* The index or prefixes changed under the rules: the same configuration, compiled again. All of it or nothing. One being made has no policy before FINISH. */
static int refresh(struct server *s, uint64_t gen)
{
	bool has_next = s->next && s->next->policy;
	struct snapshot *now = s->now ? snapshot_new(s, s->now->config, s->now->serial, s->now->slots, gen) : NULL;
	struct snapshot *next = has_next ? snapshot_new(s, s->next->config, s->next->serial, s->next->slots, gen) : NULL;
	if ((s->now && !now) || (has_next && !next)) {
		snapshot_free(now, false);
		snapshot_free(next, false);
		return -ENOMEM;
	}
	if (now)
		switch_to(s, now);
	if (next) {
		snapshot_free(s->next, false);
		s->next = next;
	}
	return 0;
}

/* --- hooks of lists --- */

static const struct snapshot *judging(const struct server *s)
{
	return s->now ? s->now : s->next;
}

static int on_before_publish(void *ctx, const struct list_update *u)
{
	struct server *s = ctx;
	/* Listed prefixes are in the kernel before the names beside them count. */
	const struct snapshot *numbers = s->next ? s->next : s->now;
	if (!u->are_prefixes_changed || !s->now)
		return 0;
	return sets_send_prefixes(s, s->now, numbers->slots[u->list], u->is_admin_edit);
}

static void on_after_publish(void *ctx, const struct list_update *u)
{
	struct server *s = ctx;
	if (!s->now)
		return; /* the first configuration is being made: FINISH fills everything */
	const struct snapshot *n = s->now;
	sets_refill(s, u, n);
	sets_release(s, u, n);
}

static int on_index_swapped(void *ctx, struct index *new_index, uint64_t gen)
{
	struct server *s = ctx;
	(void)new_index;
	int r = refresh(s, gen);
	/* The kernel has the prefixes of the update that is now given up. */
	s->are_prefixes_doubtful |= r < 0;
	return r;
}

static void on_alarm(void *ctx, const char *key, const char *text)
{
	struct server *s = ctx;
	if (text)
		alarm_set(s->alarms, key, "%s", text);
	else
		alarm_clear(s->alarms, key);
}

struct lists_hooks server_hooks(struct server *s)
{
	return (struct lists_hooks){ .ctx = s, .before_publish = on_before_publish, .after_publish = on_after_publish, .index_swapped = on_index_swapped, .alarm = on_alarm };
}

/* --- jobs --- */

struct config_job { struct job job; struct config *config; uint32_t serial; };

static void tell_parent(struct server *s, enum ipc_type type, uint32_t serial, int result, const char *text)
{
	struct ipc_msg m = { .type = type, .serial = serial, .result = result };
	snprintf(m.text, sizeof m.text, "%s", text);
	int r = ipc_send(s->args.parent_fd, &m, -1, -1);
	if (r < 0)
		log_error("the parent cannot be told: %s", nw_strerror(r));
}

/* Everything as before the configuration being made; where that fails it must not be left half made, since its lists have other numbers. */
static void abandon(struct server *s)
{
	snapshot_free(s->next, true);
	s->next = NULL;
	local_abandon(s);
	local_follow(s); /* hosts files were read on the way */
	if (s->now) {
		/* Lists keep their place by the configuration in force. */
		uint16_t slots[CONFIG_LISTS_MAX];
		lists_plan(s->lists, s->now->config, slots);
		lists_forget_old(s->lists);
		sets_send_prefixes(s, s->now, -1, false);
	}
	hosts_forget(s);
}

static void run_plan(struct server *s, struct job *j)
{
	struct config_job *p = (struct config_job *)j;
	struct snapshot *n = calloc(1, sizeof *n);
	bool was_planned = s->next != NULL;
	snapshot_free(s->next, true);
	s->next = NULL;
	bool restored[CONFIG_LISTS_MAX] = { false };
	int r = n ? lists_plan(s->lists, p->config, n->slots) : -ENOMEM;
	if (r == 0 && !s->is_restored) {
		s->is_restored = true;
		lists_restore(s->lists, restored);
	}
	if (r < 0) {
		free(n);
		config_free(p->config);
		if (was_planned)
			abandon(s);
		tell_parent(s, IPC_PREPARED, p->serial, r, "the lists of the new configuration do not fit");
	} else {
		n->config = p->config;
		n->serial = p->serial;
		s->next = n; /* without a policy until FINISH */
	}
	free(p);
}

static int list_number(const struct config *c, const char *name)
{
	for (unsigned i = 0; c && i < c->list_count; i++)
		if (!strcmp(c->lists[i].name, name))
			return (int)i;
	return -1;
}

static void tell_asker(struct server *s, struct list_job *o)
{
	pthread_mutex_lock(&s->asked_lock);
	if (s->asked.is_waiting && !strcmp(s->asked.name, o->name)) {
		s->asked.result = o->result;
		buf_add(&s->asked.report->text, o->report.text.bytes, o->report.text.len);
		s->asked.report->errors += o->report.errors;
		s->asked.is_done = true;
		pthread_cond_signal(&s->asked_done);
	}
	pthread_mutex_unlock(&s->asked_lock);
}

static void run_offer(struct server *s, struct job *j)
{
	struct list_job *o = (struct list_job *)j;
	const struct config *c = s->next ? s->next->config : s->now ? s->now->config : NULL;
	int list = list_number(c, o->name);
	report_init(&o->report);
	if (list < 0) {
		o->result = -ENOENT;
		for (unsigned i = 0; i < o->count; i++)
			close(o->files[i].fd);
	} else {
		o->result = lists_offer(s->lists, (unsigned)list, o->files, o->count, o->reason == LIST_ASKED_ACCEPT, &o->report);
		/* A list that had no text may have one now: the rules it kept closed open. */
		if (o->result >= 0 && s->now && s->now->has_closed_rules && refresh(s, 0) == 0)
			sets_send_prefixes(s, s->now, -1, false);
	}
	char prefix[96];
	snprintf(prefix, sizeof prefix, "list `%s`: ", o->name);
	log_lines(o->result < 0 ? LOG_L_WARN : LOG_L_INFO, prefix, o->report.text.bytes);
	if (o->reason == LIST_ASKED || o->reason == LIST_ASKED_ACCEPT)
		tell_asker(s, o);
	report_free(&o->report);
	for (unsigned i = 0; i < o->count; i++)
		free((void *)(uintptr_t)o->files[i].path);
	free(o->files);
	free(o);
}

static void run_finish(struct server *s, struct job *j)
{
	struct config_job *p = (struct config_job *)j;
	uint32_t serial = p->serial;
	free(p);
	if (!s->next || s->next->serial != serial)
		return;
	struct snapshot *n = snapshot_new(s, s->next->config, serial, s->next->slots, 0);
	if (!n) {
		abandon(s);
		tell_parent(s, IPC_PREPARED, serial, -ENOMEM, "out of memory");
		return;
	}
	snapshot_free(s->next, false);
	s->next = n;
	int local = local_prepare(s, n->config);
	if (local < 0) {
		abandon(s);
		tell_parent(s, IPC_PREPARED, serial, local, "the local names do not fit into memory");
		return;
	}
	int r = sets_prepare_prefixes(s, n, s->now);
	if (!s->now) {
		server_cache_limits(s, n->config);
		server_cache_load(s);
		sets_restore(s, n);
	}
	/* What new or changed rules steer of the answers that clients may hold already. */
	sets_refill(s, NULL, n);
	tell_parent(s, IPC_PREPARED, serial, r < 0 ? r : 0, r < 0 ? "listed prefixes could not be put into the kernel's sets" : "");
}

static void run_commit(struct server *s, struct job *j)
{
	struct config_job *p = (struct config_job *)j;
	uint32_t serial = p->serial;
	free(p);
	if (!s->next || s->next->serial != serial) {
		tell_parent(s, IPC_COMMITTED, serial, NW_ESTALE, "that configuration is not prepared");
		return;
	}
	struct snapshot *n = s->next;
	bool is_first = !s->now;
	s->next = NULL;
	local_commit(s); /* first, so that the first query of all finds a table */
	server_cache_limits(s, n->config);
	switch_to(s, n);
	/* What was answered by the old rules since FINISH looked at the cache. */
	if (!is_first)
		sets_refill(s, NULL, n);
	/* Rules that hold less now give it back, and exceptions count. */
	if (!is_first)
		sets_send_prefixes(s, n, -1, false);
	if (!is_first)
		sets_release(s, &(struct list_update){ .is_whole = true }, n);
	lists_forget_old(s->lists);
	hosts_forget(s);
	tell_parent(s, IPC_COMMITTED, serial, 0, "");
}

static void run_abandon(struct server *s, struct job *j)
{
	free(j);
	if (s->next)
		abandon(s);
}

static void run_resend(struct server *s, struct job *j)
{
	uint32_t serial = ((struct config_job *)j)->serial;
	free(j);
	const struct snapshot *n = judging(s);
	int r = n && n->policy ? sets_resend(s, n) : 0;
	tell_parent(s, IPC_RESTORED, serial, r, "");
}

static void push_config_job(struct server *s, void (*run)(struct server *, struct job *), struct config *c, uint32_t serial)
{
	struct config_job *p = calloc(1, sizeof *p);
	if (!p) {
		tell_parent(s, IPC_PREPARED, serial, -ENOMEM, "out of memory");
		return;
	}
	p->job.run = run;
	p->config = c;
	p->serial = serial;
	queue_push(&s->compile_jobs, &p->job);
}

void server_plan(struct server *s, struct config *c, uint32_t serial)
{
	push_config_job(s, run_plan, c, serial);
}

void server_finish(struct server *s, uint32_t serial)
{
	push_config_job(s, run_finish, NULL, serial);
}

void server_commit(struct server *s, uint32_t serial)
{
	push_config_job(s, run_commit, NULL, serial);
}

void server_abandon(struct server *s)
{
	push_config_job(s, run_abandon, NULL, 0);
}

void server_resend(struct server *s, uint32_t serial)
{
	push_config_job(s, run_resend, NULL, serial);
}

void server_offer(struct server *s, struct list_job *o)
{
	o->job.run = run_offer;
	o->job.waits_for_config = o->reason != LIST_AT_CONFIG;
	queue_push(&s->compile_jobs, &o->job);
}

static void run_one(struct server *s, struct job *j)
{
	j->run(s, j);
	if (s->are_prefixes_doubtful && s->now) {
		s->are_prefixes_doubtful = false;
		sets_send_prefixes(s, s->now, -1, false);
	}
}

/* A list that changes while a configuration is being made is looked at after it: numbers of lists belong to a configuration. */
static void run_job(struct server *s, struct job *j)
{
	if (j->waits_for_config && s->next) {
		j->next = NULL;
		*s->deferred_last = j;
		s->deferred_last = &j->next;
		return;
	}
	run_one(s, j);
	while (!s->next && s->deferred) {
		struct job *d = s->deferred;
		if (!(s->deferred = d->next))
			s->deferred_last = &s->deferred;
		run_one(s, d);
	}
}

void *compiler_main(void *arg)
{
	struct server *s = arg;
	s->deferred_last = &s->deferred;
	pthread_setname_np(pthread_self(), "nw-compiler");
	rcu_thread_register();
	rcu_offline(); /* a job may take seconds: it goes online only to walk the cache, else tidying would wait for it */
	if (nice(19) == -1)
		log_debug("the compiler thread keeps its priority");
	for (;;) {
		uint64_t wait_ms = lists_idle(s->lists, clock_ms());
		bool is_closed;
		struct job *j = queue_pop_for(&s->compile_jobs, wait_ms < 1000 ? 1000 : wait_ms, &is_closed);
		if (j)
			run_job(s, j);
		else if (is_closed)
			break;
	}
	lists_save(s->lists);
	rcu_thread_unregister();
	return NULL;
}
