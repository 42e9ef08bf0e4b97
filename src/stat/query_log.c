/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The query log's thread: drains every ring into the sketches (query_top.h) and, when the log is on, into blocks that are appended to the files
 * (query_files.h). It turns every 50 ms, every 10 ms while rings fill fast, and at once when a reader asks: what was recorded before a question is in its answer.
 *
 * Locks: `lock` guards rings, settings and the turn's count; `top_lock` the sketches. Neither is held while a file is written, nor met by a worker. */
#include "stat/query_log.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "config/config.h"
#include "stat/query_scan.h"
#include "stat/query_text.h"
#include "stat/query_top.h"

enum { RINGS_MAX = 128, TURN_MS = 50, BUSY_TURN_MS = 10, BUSY_BYTES = QUERY_RING_BYTES / 16, TRIM_MS = 1000, READER_WAIT_MS = 1000, NICENESS = 5, SERIALS = 2 };

/* Names of the rules of the two newest configurations that records came from, asked for once each. */
struct names { uint32_t serial; bool is_used; char *text[2][CONFIG_RULES_MAX]; };

struct query_log {
	pthread_t thread;
	pthread_mutex_t lock, top_lock;
	pthread_cond_t wake, turned;
	bool is_stopping;
	uint64_t asked, answered; /* turns that readers wait for */
	struct query_ring *rings[RINGS_MAX];
	unsigned ring_count;
	struct query_log_settings settings;
	struct query_files *files;
	struct query_top *top;
	bool has_files;
	_Atomic uint64_t records, unwritten;
	_Atomic uint32_t keep_s;
	/* The thread's own. */
	struct query_log_settings now;
	struct names names[SERIALS];
	unsigned newest_names;
	struct query_block block;
	uint64_t trim_at_ms;
};

static int64_t wall_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* --- names of rules --- */

static void forget_names(struct names *n)
{
	for (unsigned k = 0; k < 2; k++)
		for (unsigned i = 0; i < CONFIG_RULES_MAX; i++) {
			free(n->text[k][i]);
			n->text[k][i] = NULL;
		}
	n->is_used = false;
}

static struct names *names_of(struct query_log *l, uint32_t serial)
{
	for (unsigned i = 0; i < SERIALS; i++)
		if (l->names[i].is_used && l->names[i].serial == serial)
			return &l->names[i];
	l->newest_names = (l->newest_names + 1) % SERIALS;
	struct names *n = &l->names[l->newest_names];
	forget_names(n);
	n->serial = serial;
	n->is_used = true;
	return n;
}

static const char *rule_name(struct query_log *l, uint32_t serial, bool is_steer, int rule)
{
	char buf[128];
	if (rule < 0 || rule >= CONFIG_RULES_MAX || !l->now.rule_name)
		return NULL;
	char **text = &names_of(l, serial)->text[is_steer][rule];
	if (!*text) {
		const char *name = l->now.rule_name(l->now.ctx, serial, is_steer, rule, buf);
		*text = name ? strdup(name) : NULL;
	}
	return *text;
}

/* --- a turn --- */

static void write_block(struct query_log *l)
{
	if (l->block.records) {
		query_block_end(&l->block);
		if (query_files_append(l->files, l->block.bytes, l->block.len, wall_ms()) < 0)
			atomic_fetch_add(&l->unwritten, l->block.records);
	}
	query_block_reset(&l->block);
}

static void take_record(void *ctx, const struct query_seen *q)
{
	struct query_log *l = ctx;
	pthread_mutex_lock(&l->top_lock);
	query_top_add(l->top, q);
	pthread_mutex_unlock(&l->top_lock);
	atomic_fetch_add_explicit(&l->records, 1, memory_order_relaxed);
	/* A sample that was taken just before the log was switched on stands for others: it is no line of a log. */
	if (!l->now.is_on || !l->has_files || q->weight != 1)
		return;
	const char *filter = rule_name(l, q->config_serial, false, q->filter_rule), *steer = rule_name(l, q->config_serial, true, q->steer_rule);
	if (query_block_add(&l->block, q, filter, steer))
		return;
	write_block(l);
	if (!query_block_add(&l->block, q, filter, steer))
		atomic_fetch_add(&l->unwritten, 1);
}

static void trim(struct query_log *l)
{
	uint64_t now_ms = clock_ms();
	if (now_ms < l->trim_at_ms)
		return;
	l->trim_at_ms = now_ms + TRIM_MS;
	query_files_trim(l->files, wall_ms());
}

/* Whether there was much. */
static bool turn(struct query_log *l)
{
	struct query_ring *rings[RINGS_MAX];
	size_t most = 0;
	pthread_mutex_lock(&l->lock);
	unsigned count = l->ring_count;
	memcpy(rings, l->rings, count * sizeof *rings);
	l->now = l->settings;
	pthread_mutex_unlock(&l->lock);
	query_files_limit(l->files, l->now.bytes_max ? l->now.bytes_max : UINT64_MAX, l->now.keep_s);
	pthread_mutex_lock(&l->top_lock);
	query_top_turn(l->top, clock_ms());
	pthread_mutex_unlock(&l->top_lock);
	for (unsigned i = 0; i < count; i++) {
		size_t bytes = query_ring_drain(rings[i], take_record, l);
		most = bytes > most ? bytes : most;
	}
	write_block(l);
	trim(l);
	return most > BUSY_BYTES;
}

static void wait_until(pthread_cond_t *c, pthread_mutex_t *lock, uint64_t at_ms)
{
	struct timespec t = { .tv_sec = (time_t)(at_ms / 1000), .tv_nsec = (long)(at_ms % 1000) * 1000000 };
	pthread_cond_timedwait(c, lock, &t);
}

static void *thread_main(void *arg)
{
	struct query_log *l = arg;
	pthread_setname_np(pthread_self(), "nw-queries");
	if (nice(NICENESS) == -1)
		(void)!errno; /* it keeps its priority */
	for (bool is_last = false, is_busy = false; !is_last;) {
		pthread_mutex_lock(&l->lock);
		uint64_t until = clock_ms() + (is_busy ? BUSY_TURN_MS : TURN_MS);
		while (!l->is_stopping && l->asked == l->answered && clock_ms() < until)
			wait_until(&l->wake, &l->lock, until);
		uint64_t asked = l->asked;
		is_last = l->is_stopping;
		pthread_mutex_unlock(&l->lock);
		is_busy = turn(l);
		pthread_mutex_lock(&l->lock);
		l->answered = asked;
		pthread_cond_broadcast(&l->turned);
		pthread_mutex_unlock(&l->lock);
	}
	return NULL;
}

/* Returns after a turn that began after the call, or a second later. */
static void catch_up(struct query_log *l)
{
	uint64_t until = clock_ms() + READER_WAIT_MS;
	pthread_mutex_lock(&l->lock);
	uint64_t mine = ++l->asked;
	pthread_cond_signal(&l->wake);
	while (l->answered < mine && clock_ms() < until)
		wait_until(&l->turned, &l->lock, until);
	pthread_mutex_unlock(&l->lock);
}

/* --- life --- */

static void cond_init(pthread_cond_t *c)
{
	pthread_condattr_t a;
	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(c, &a);
	pthread_condattr_destroy(&a);
}

static void free_all(struct query_log *l)
{
	for (unsigned i = 0; i < SERIALS; i++)
		forget_names(&l->names[i]);
	query_files_close(l->files);
	query_top_free(l->top);
	pthread_cond_destroy(&l->wake);
	pthread_cond_destroy(&l->turned);
	pthread_mutex_destroy(&l->lock);
	pthread_mutex_destroy(&l->top_lock);
	free(l);
}

int query_log_new(struct query_log **ret, int dir_fd)
{
	struct query_log *l = calloc(1, sizeof *l);
	if (!l)
		return -ENOMEM;
	pthread_mutex_init(&l->lock, NULL);
	pthread_mutex_init(&l->top_lock, NULL);
	cond_init(&l->wake);
	cond_init(&l->turned);
	l->has_files = dir_fd >= 0;
	l->top = query_top_new(clock_ms());
	int r = l->top ? query_files_open(&l->files, dir_fd, wall_ms()) : -ENOMEM;
	if (r == 0)
		r = -pthread_create(&l->thread, NULL, thread_main, l);
	if (r < 0) {
		free_all(l);
		return r;
	}
	*ret = l;
	return 0;
}

void query_log_free(struct query_log *l)
{
	if (!l)
		return;
	pthread_mutex_lock(&l->lock);
	l->is_stopping = true;
	pthread_cond_signal(&l->wake);
	pthread_mutex_unlock(&l->lock);
	pthread_join(l->thread, NULL);
	free_all(l);
}

void query_log_attach(struct query_log *l, struct query_ring *r)
{
	pthread_mutex_lock(&l->lock);
	if (l->ring_count < RINGS_MAX) {
		l->rings[l->ring_count++] = r;
		query_ring_take_all(r, l->settings.is_on);
	}
	pthread_mutex_unlock(&l->lock);
}

void query_log_configure(struct query_log *l, const struct query_log_settings *s)
{
	pthread_mutex_lock(&l->lock);
	l->settings = *s;
	for (unsigned i = 0; i < l->ring_count; i++)
		query_ring_take_all(l->rings[i], s->is_on);
	pthread_mutex_unlock(&l->lock);
	atomic_store(&l->keep_s, s->keep_s);
}

/* --- readers --- */

int query_log_print(struct query_log *l, const struct query_log_filter *f, uint64_t *cursor, struct buf *out)
{
	struct query_match m;
	struct query_segment *v;
	unsigned count;
	uint32_t keep_s = atomic_load(&l->keep_s);
	int r = query_match_make(&m, f, keep_s ? wall_ms() - (int64_t)keep_s * 1000 : INT64_MIN);
	if (r < 0)
		return r;
	catch_up(l);
	r = query_files_list(l->files, &v, &count);
	if (r < 0)
		return r;
	if (cursor && *cursor) {
		r = query_scan_since(l->files, v, count, &m, cursor, out);
	} else {
		r = query_scan_newest(l->files, v, count, &m, out);
		if (cursor)
			*cursor = query_scan_end(v, count);
	}
	free(v);
	return r;
}

int query_top_print(struct query_log *l, unsigned count, struct buf *out)
{
	catch_up(l);
	pthread_mutex_lock(&l->top_lock);
	int r = query_top_show(l->top, clock_ms(), count, out);
	pthread_mutex_unlock(&l->top_lock);
	return r;
}

void query_log_stat(struct query_log *l, struct query_log_stat *ret)
{
	*ret = (struct query_log_stat){ .records = atomic_load(&l->records), .lost = atomic_load(&l->unwritten) };
	query_files_stat(l->files, &ret->bytes, &ret->files, &ret->is_failing);
	pthread_mutex_lock(&l->lock);
	for (unsigned i = 0; i < l->ring_count; i++)
		ret->lost += query_ring_lost(l->rings[i]);
	pthread_mutex_unlock(&l->lock);
}
