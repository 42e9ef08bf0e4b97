/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Inside the server. Threads: main (server.c: the parent's messages, tidying, the holds' journal), compiler (server_lists.c: lists, policies; server_sets.c:
 * what list changes mean for the kernel's sets; server_hosts.c: texts of hosts files; server_local.c: the table made of them), control (server_control.c: verbs), workers (dns/). Jobs go by two small queues under a mutex; no
 * worker ever takes one of these locks. */
#pragma once
#include <pthread.h>
#include "cache/cache.h"
#include "control/control.h"
#include "daemon/ipc.h"
#include "daemon/server.h"
#include "dns/worker.h"
#include "policy/list_text.h"
#include "policy/lists.h"
#include "stat/alarms.h"
#include "steer/holds.h"
#include "steer/holds_file.h"
#include "steer/link.h"

enum { HOSTS_FILE_MAX = 64 << 20 /* bytes */, HOSTS_ALL_MAX = 256 << 20 };
enum { CONTROL_JOBS_MAX = 64, WAY_SOCKETS_KEPT = 64, GROUP_IDS_MAX = 4096 };

struct server;
struct job {
	struct job *next;
	void (*run)(struct server *s, struct job *j);
	bool waits_for_config; /* runs only between configurations, never while one is being made */
};

struct job_queue {
	pthread_mutex_t lock;
	pthread_cond_t is_filled;
	struct job *first, **last;
	unsigned count;
	bool is_closed;
};

/* Files of one list on their way to the compiler. */
struct list_job {
	struct job job;
	char name[64];
	enum ipc_list_reason reason;
	unsigned count, total;
	struct list_file *files;
	int result;
	struct report report;
};

/* Hosts files on their way to the compiler. */
struct hosts_job {
	struct job job;
	enum ipc_list_reason reason;
	unsigned count, total;
	struct { int fd; /* or -errno */ char *path; } files[CONFIG_HOSTS_MAX];
};

/* What is kept of one. After a failure the text of before stays. Heap. */
struct hosts_text { char *path, *bytes; size_t len; int error; };

/* Marked sockets brought by the parent for one server of one configuration, for any worker to take. `key` names which, and is 0 while the
 * main thread gives the pool to another. */
struct way_pool { _Atomic uint64_t key; struct ring *ring; _Atomic bool is_asked, is_taking; };
enum { WAY_POOLS_MAX = 256 };

struct server {
	struct server_args args;
	const struct steer_shared *shared;
	struct steer_link *link;
	struct cache *cache;
	struct holds *holds;
	struct holds_file *holds_file;
	pthread_mutex_t holds_lock;         /* walk, sweep and journal: one at a time */
	struct lists *lists;
	struct alarms *alarms;
	struct query_log *queries;
	struct pauses *pauses;
	pthread_mutex_t names_lock;
	struct rule_names *names[2];        /* of the newest two configurations, newest first */
	struct worker_shared worker_shared;
	struct worker *workers[ENFORCER_CHANNELS_MAX];
	unsigned worker_count;
	uint64_t started_ms;

	pthread_t compiler, control;
	struct job_queue compile_jobs, control_jobs;

	/* Compiler thread only. */
	struct snapshot *now, *next;
	struct job *deferred, **deferred_last; /* jobs that wait for the configuration being made */
	bool is_restored;
	bool are_prefixes_doubtful; /* the kernel has those of an update that was given up */
	struct { char name[64]; uint64_t signature; } group_ids[GROUP_IDS_MAX];
	unsigned group_id_count;
	struct hosts_text hosts[2 * CONFIG_HOSTS_MAX]; /* of the configuration in force and of the one being made */
	unsigned hosts_count;
	bool are_hosts_newer;       /* than the table in force */
	struct local *local_next;   /* of the configuration being made */
	uint64_t names_left_out;    /* of the table in force, for want of room */

	/* Snapshots that verbs look at: a count under a mutex, so that one is freed only when nobody looks. */
	pthread_mutex_t snap_lock;
	pthread_cond_t snap_free;
	const struct snapshot *shown;
	unsigned shown_users;

	/* Lists asked for by a verb: waits for the compiler's outcome. */
	pthread_mutex_t asked_lock;
	pthread_cond_t asked_done;
	struct { char name[64]; bool is_waiting, is_done; int result; struct report *report; } asked;

	struct list_job *coming[CONFIG_LISTS_MAX * 2]; /* main thread: gathering files */
	struct hosts_job *hosts_coming;
	struct way_pool pools[WAY_POOLS_MAX];
	_Atomic unsigned pool_count;
	bool is_stopping;
};

void queue_push(struct job_queue *q, struct job *j);
struct job *queue_pop(struct job_queue *q); /* waits; NULL when closed and empty */
void queue_close(struct job_queue *q);

void *compiler_main(void *server);
void server_plan(struct server *s, struct config *c, uint32_t serial);  /* main thread: begins a configuration */
void server_finish(struct server *s, uint32_t serial);                   /* after the last list was offered */
void server_offer(struct server *s, struct list_job *o);                /* takes it */
void server_commit(struct server *s, uint32_t serial);
void server_abandon(struct server *s);
void server_resend(struct server *s, uint32_t serial);                                   /* the enforcer is new */
struct lists_hooks server_hooks(struct server *s);

/* server_hosts.c */
void hosts_take(struct server *s, const struct ipc_msg *m, int fd);      /* main thread; takes fd */
const struct hosts_text *hosts_find(const struct server *s, const char *path); /* compiler thread: NULL: not there, so no names */
void hosts_forget(struct server *s);                                     /* compiler thread: texts that the configuration in force does not name */
void hosts_say(struct server *s);                                        /* compiler thread: sets or clears the alarm */

/* server_local.c, compiler thread */
int local_prepare(struct server *s, const struct config *c); /* makes the table of a configuration being made; 0, -ENOMEM, NW_EFULL */
void local_commit(struct server *s);                         /* workers answer by it from now on */
void local_abandon(struct server *s);
void local_follow(struct server *s);                         /* texts changed under the configuration in force */

/* server_sets.c, compiler thread */
int sets_send_prefixes(struct server *s, const struct snapshot *snap, int slot /* of the list that changed; -1: all */, bool drop_flows /* to what leaves */);
int sets_prepare_prefixes(struct server *s, const struct snapshot *next, const struct snapshot *now /* or NULL */); /* what a prepared configuration adds; takes nothing from the one in force */
void sets_refill(struct server *s, const struct list_update *u /* NULL: judge every cached answer */, const struct snapshot *snap);
void sets_release(struct server *s, const struct list_update *u, const struct snapshot *snap);
void sets_restore(struct server *s, const struct snapshot *snap);
int sets_resend(struct server *s, const struct snapshot *snap);

/* server_queries.c: the query log and the pauses. The switches: compiler thread, around worker_switch to another configuration. */
int server_queries_open(struct server *s);
void server_queries_attach(struct server *s); /* after the workers were made */
void server_queries_close(struct server *s);  /* after they were stopped: what is left is written */
void server_queries_look(struct server *s);
void server_queries_before_switch(struct server *s, const struct snapshot *next);
void server_queries_after_switch(struct server *s, const struct snapshot *now);

/* server_cache.c: compiler thread before the first configuration; main thread when all others have ended; compiler thread. */
void server_cache_load(struct server *s);
void server_cache_save(struct server *s);
void server_cache_limits(struct server *s, const struct config *c);

void *control_main(void *server);
void control_take(struct server *s, int client_fd, int request_fd, bool may_change);
int server_take_way_socket(void *ctx, const struct config *c, unsigned group, unsigned server, bool is_tcp);
void server_give_way_socket(struct server *s, const struct ipc_msg *m, int fd);
