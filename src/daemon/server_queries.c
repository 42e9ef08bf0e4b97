/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The query log and the pauses of filter rules inside the server: where the files lie, what the rules of a configuration are called, what follows a change
 * of the configuration. Without them the server runs on. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/err.h"
#include "base/log.h"
#include "daemon/server_private.h"

#define DIRECTORY "queries"

/* The names of one configuration's rules, for the log's thread: it may outlive the configuration. */
struct rule_names { uint32_t serial; unsigned filters, steers; char name[][128]; };

static int open_directory(int state_fd)
{
	if (state_fd < 0)
		return -1;
	if (mkdirat(state_fd, DIRECTORY, 0700) < 0 && errno != EEXIST)
		return -1;
	return openat(state_fd, DIRECTORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

int server_queries_open(struct server *s)
{
	pthread_mutex_init(&s->names_lock, NULL);
	if (!(s->pauses = pauses_new()))
		return -ENOMEM;
	int fd = open_directory(s->args.state_fd);
	if (fd < 0 && s->args.state_fd >= 0)
		log_warn("no directory for the query log in `state`: %s", strerror(errno));
	return query_log_new(&s->queries, fd);
}

void server_queries_attach(struct server *s)
{
	s->worker_shared.pause = pauses_page(s->pauses);
	for (unsigned i = 0; i < s->worker_count; i++)
		query_log_attach(s->queries, worker_ring(s->workers[i]));
}

void server_queries_close(struct server *s)
{
	query_log_free(s->queries);
	s->queries = NULL;
}

void server_queries_look(struct server *s)
{
	struct query_log_stat st;
	query_log_stat(s->queries, &st);
	if (st.is_failing)
		alarm_set(s->alarms, "query-log", "the query log cannot be written to `state`: its lines are lost until it can. Mend: make room or give access, or server.log.queries: false");
	else
		alarm_clear(s->alarms, "query-log");
}

/* --- changes of the configuration --- */

static struct rule_names *names_of(const struct config *c, uint32_t serial)
{
	struct rule_names *n = calloc(1, sizeof *n + (c->filter_count + c->steer_count) * sizeof n->name[0]);
	if (!n)
		return NULL;
	*n = (struct rule_names){ .serial = serial, .filters = c->filter_count, .steers = c->steer_count };
	for (unsigned i = 0; i < c->filter_count; i++)
		snprintf(n->name[i], sizeof n->name[i], "%s", c->filters[i].name);
	for (unsigned i = 0; i < c->steer_count; i++)
		snprintf(n->name[c->filter_count + i], sizeof n->name[0], "%s", c->steers[i].name);
	return n;
}

static const char *rule_name(void *ctx, uint32_t serial, bool is_steer, int rule, char buf[128])
{
	struct server *s = ctx;
	const char *ret = NULL;
	pthread_mutex_lock(&s->names_lock);
	for (unsigned i = 0; i < 2; i++) {
		const struct rule_names *n = s->names[i];
		if (!n || n->serial != serial || rule < 0 || (unsigned)rule >= (is_steer ? n->steers : n->filters))
			continue;
		snprintf(buf, 128, "%s", n->name[(is_steer ? n->filters : 0) + (unsigned)rule]);
		ret = buf;
	}
	pthread_mutex_unlock(&s->names_lock);
	return ret;
}

void server_queries_before_switch(struct server *s, const struct snapshot *next)
{
	struct rule_names *n = names_of(next->config, next->serial);
	pthread_mutex_lock(&s->names_lock);
	free(s->names[1]);
	s->names[1] = s->names[0];
	s->names[0] = n;
	pthread_mutex_unlock(&s->names_lock);
	pauses_before_switch(s->pauses, next->config);
}

void server_queries_after_switch(struct server *s, const struct snapshot *now)
{
	const struct cfg_server *c = &now->config->server;
	struct query_log_settings set = { .is_on = c->log_queries, .keep_s = c->log_keep_s, .bytes_max = c->log_bytes, .ctx = s, .rule_name = rule_name };
	query_log_configure(s->queries, &set);
	pauses_after_switch(s->pauses, now->config);
}
