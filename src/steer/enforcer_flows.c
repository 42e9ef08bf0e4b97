/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Dropping connections from conntrack reads tables of hundreds of thousands of entries, which takes longer than an answer may wait: a thread of the
 * enforcer's own does it, from a bounded queue. When that is full, or the thread cannot be started, the caller does it itself. Jobs run in order. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "base/log.h"
#include "steer/enforcer_moved.h"

enum { JOBS_MAX = 64, ADDRESSES_MAX = 1 << 20 /* waiting, of all jobs */ };

struct drop {
	struct drop *next;
	struct moved_view *before, *after; /* NULL: by mark or address */
	uint32_t mark, mask;  /* mark 0: by address */
	unsigned count;
	int reply_fd;
	size_t reply_len;
	union { struct steer_ack ack; struct steer_done done; struct steer_parent_reply parent; } reply;
	struct addr addrs[];
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t is_filled;
	struct drop *first, **last;
	unsigned jobs, addresses;
	bool is_started;
} queue = { .lock = PTHREAD_MUTEX_INITIALIZER, .is_filled = PTHREAD_COND_INITIALIZER, .last = &queue.first };

static void run(struct drop *d)
{
	int r = d->before ? moved_drop(d->before, d->after) : d->mark ? flows_drop_mark(d->mark, d->mask) : d->count ? flows_drop_addresses(d->addrs, d->count, d->mask) : 0;
	if (r < 0)
		log_warn("connections could not be dropped: %s", strerror(-r));
	if (d->reply_len)
		send(d->reply_fd, &d->reply, d->reply_len, MSG_DONTWAIT | MSG_NOSIGNAL);
	moved_view_free(d->before);
	moved_view_free(d->after);
	free(d);
}

static void *drop_main(void *arg)
{
	(void)arg;
	pthread_setname_np(pthread_self(), "nw-flows");
	for (;;) {
		pthread_mutex_lock(&queue.lock);
		while (!queue.first)
			pthread_cond_wait(&queue.is_filled, &queue.lock);
		struct drop *d = queue.first;
		if (!(queue.first = d->next))
			queue.last = &queue.first;
		queue.jobs--;
		queue.addresses -= d->count;
		pthread_mutex_unlock(&queue.lock);
		run(d);
	}
	return NULL;
}

static void start_thread(void)
{
	pthread_t thread;
	if (queue.is_started || pthread_create(&thread, NULL, drop_main, NULL))
		return;
	pthread_detach(thread);
	queue.is_started = true;
}

static void push(struct drop *d)
{
	start_thread();
	pthread_mutex_lock(&queue.lock);
	bool has_room = queue.is_started && queue.jobs < JOBS_MAX && queue.addresses + d->count <= ADDRESSES_MAX;
	if (has_room) {
		*queue.last = d;
		queue.last = &d->next;
		queue.jobs++;
		queue.addresses += d->count;
		pthread_cond_signal(&queue.is_filled);
	}
	pthread_mutex_unlock(&queue.lock);
	if (!has_room)
		run(d);
}

void enforcer_drop_flows(const struct addr *a, unsigned count, uint32_t mask, int fd, const void *reply, size_t len)
{
	struct drop *d = malloc(sizeof *d + count * sizeof *a);
	if (!d) {
		log_error("out of memory: connections of a changed rule keep their exit");
		if (len)
			send(fd, reply, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		return;
	}
	*d = (struct drop){ .mask = mask, .count = count, .reply_fd = fd, .reply_len = len };
	if (len)
		memcpy(&d->reply, reply, len);
	if (count)
		memcpy(d->addrs, a, count * sizeof *a);
	push(d);
}

void enforcer_drop_mark(uint32_t mark, uint32_t mask)
{
	struct drop *d = calloc(1, sizeof *d);
	if (!d || !mark) {
		free(d);
		return;
	}
	d->mark = mark;
	d->mask = mask;
	push(d);
}

void enforcer_drop_moved(struct moved_view *before, struct moved_view *after, int fd, const void *reply, size_t len)
{
	struct drop *d = calloc(1, sizeof *d);
	if (!d) {
		log_error("out of memory: connections that a change moves keep their exit");
		moved_view_free(before);
		moved_view_free(after);
		if (len)
			send(fd, reply, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		return;
	}
	d->before = before;
	d->after = after;
	d->reply_fd = fd;
	if ((d->reply_len = len))
		memcpy(&d->reply, reply, len);
	push(d);
}

void enforcer_drop_all(const struct config *c)
{
	for (unsigned i = 0; i < c->way_count; i++)
		enforcer_drop_mark(c->ways[i].mark, c->server.mark_mask);
	enforcer_drop_mark(enforcer_direct_mark(c), c->server.mark_mask);
}
