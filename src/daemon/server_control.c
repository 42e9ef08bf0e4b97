/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The control thread: requests that the parent passed on, one after another, each bounded. The environment it gives the verbs is the server seen from
 * outside: snapshots under a count, the compiler by jobs, the enforcer by questions. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "base/rcu.h"
#include "daemon/server_private.h"

enum { WRITE_MS = 1000 };
struct control_job { struct job job; int client_fd, request_fd; bool may_change; };

static const struct snapshot *snapshot_take(void *ctx)
{
	struct server *s = ctx;
	pthread_mutex_lock(&s->snap_lock);
	const struct snapshot *n = s->shown;
	s->shown_users += n != NULL;
	pthread_mutex_unlock(&s->snap_lock);
	return n;
}

static void snapshot_give(void *ctx, const struct snapshot *n)
{
	struct server *s = ctx;
	if (!n)
		return;
	pthread_mutex_lock(&s->snap_lock);
	if (--s->shown_users == 0)
		pthread_cond_broadcast(&s->snap_free);
	pthread_mutex_unlock(&s->snap_lock);
}

static json_t *ask_enforcer(void *ctx, enum steer_query_what what, const struct addr *a)
{
	struct server *s = ctx;
	return link_query(s->link, what, a);
}

struct compiler_call { struct job job; int (*fn)(void *arg); void *arg; int r; bool is_done; pthread_mutex_t lock; pthread_cond_t done; };

static void run_call(struct server *s, struct job *j)
{
	(void)s;
	struct compiler_call *c = (struct compiler_call *)j;
	int r = c->fn(c->arg);
	pthread_mutex_lock(&c->lock);
	c->r = r;
	c->is_done = true;
	pthread_cond_signal(&c->done);
	pthread_mutex_unlock(&c->lock);
}

static int on_compiler(void *ctx, int (*fn)(void *arg), void *arg)
{
	struct server *s = ctx;
	struct compiler_call c = { .job = { .run = run_call, .waits_for_config = true }, .fn = fn, .arg = arg, .lock = PTHREAD_MUTEX_INITIALIZER, .done = PTHREAD_COND_INITIALIZER };
	queue_push(&s->compile_jobs, &c.job);
	pthread_mutex_lock(&c.lock);
	while (!c.is_done)
		pthread_cond_wait(&c.done, &c.lock);
	pthread_mutex_unlock(&c.lock);
	return c.r;
}

static int list_reload(void *ctx, const char *list, bool accept, struct report *r)
{
	struct server *s = ctx;
	struct ipc_msg m = { .type = IPC_WANT_LIST, .c = accept ? LIST_ASKED_ACCEPT : LIST_ASKED };
	snprintf(m.name, sizeof m.name, "%s", list);
	pthread_mutex_lock(&s->asked_lock);
	snprintf(s->asked.name, sizeof s->asked.name, "%s", list);
	s->asked.report = r;
	s->asked.is_waiting = true;
	s->asked.is_done = false;
	int rc = ipc_send(s->args.parent_fd, &m, -1, -1);
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += CONTROL_WAIT_MS / 1000;
	while (rc == 0 && !s->asked.is_done)
		if (pthread_cond_timedwait(&s->asked_done, &s->asked_lock, &until))
			rc = -ETIMEDOUT;
	if (rc == 0)
		rc = s->asked.result;
	s->asked.is_waiting = false;
	pthread_mutex_unlock(&s->asked_lock);
	return rc;
}

static const struct links *links_of(void *ctx)
{
	struct server *s = ctx;
	return rcu_read(&s->worker_shared.links);
}

static const struct local *local_of(void *ctx)
{
	struct server *s = ctx;
	return rcu_read(&s->worker_shared.local);
}

/* A reader who dawdles holds up the verbs that wait, for so long and no longer. */
static void write_line(int fd, const char *line)
{
	size_t len = strlen(line), at = 0;
	for (uint64_t until = clock_ms() + WRITE_MS, now; ;) {
		struct pollfd p = { .fd = fd, .events = POLLOUT };
		now = clock_ms();
		if (at == len || now >= until || poll(&p, 1, (int)(until - now)) <= 0)
			return;
		ssize_t n = send(fd, line + at, len - at, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return;
		at += n > 0 ? (size_t)n : 0;
	}
}

static void run_control(struct server *s, struct job *j)
{
	struct control_job *c = (struct control_job *)j;
	struct control_env env = { .ctx = s, .lists = s->lists, .cache = s->cache, .holds = s->holds, .alarms = s->alarms, .queries = s->queries, .pauses = s->pauses, .steer = s->shared, .workers = s->workers,
		.worker_count = s->worker_count, .started_ms = s->started_ms, .snapshot_take = snapshot_take, .snapshot_give = snapshot_give, .ask_enforcer = ask_enforcer,
		.name_seed = s->worker_shared.name_seed, .on_compiler = on_compiler, .list_reload = list_reload, .links = links_of, .local = local_of, .pause = s->worker_shared.pause };
	void *text = NULL;
	size_t len;
	json_t *request = NULL, *result = NULL;
	int r = ipc_read_memfd(c->request_fd, &text, &len, CONTROL_REQUEST_MAX);
	if (r == 0 && !(request = json_loadb(text, len, 0, NULL)))
		r = NW_EMALFORMED;
	if (r == 0)
		r = control_run(&env, request, c->may_change, &result);
	if (r < 0 && !result)
		result = json_string(nw_strerror(r));
	char *line = control_reply(r, result);
	rcu_offline();
	if (line)
		write_line(c->client_fd, line);
	rcu_online();
	free(line);
	json_decref(request);
	free(text);
	close(c->client_fd);
	free(c);
}

void control_take(struct server *s, int client_fd, int request_fd, bool may_change)
{
	pthread_mutex_lock(&s->control_jobs.lock);
	bool is_full = s->control_jobs.count >= CONTROL_JOBS_MAX;
	pthread_mutex_unlock(&s->control_jobs.lock);
	struct control_job *c = is_full ? NULL : calloc(1, sizeof *c);
	if (!c) {
		close(client_fd);
		close(request_fd);
		return;
	}
	*c = (struct control_job){ .job = { .run = run_control }, .client_fd = client_fd, .request_fd = request_fd, .may_change = may_change };
	queue_push(&s->control_jobs, &c->job);
}

void *control_main(void *arg)
{
	struct server *s = arg;
	pthread_setname_np(pthread_self(), "nw-control");
	rcu_thread_register();
	rcu_offline();
	for (struct job *j; (j = queue_pop(&s->control_jobs));) {
		rcu_online();
		j->run(s, j);
		rcu_offline();
	}
	rcu_thread_unregister();
	return NULL;
}
