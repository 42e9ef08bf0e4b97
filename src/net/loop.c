/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The worker's event loop.
 *
 * libuv runs I/O callbacks inside its own poll phase, so RCU states cannot be switched from its hooks. A turn is therefore:
 * go offline, poll() libuv's epoll descriptor and the readers, go online, run the readers that are ready, let libuv run what is
 * ready without waiting, run expired deadlines, run the turn-end hooks, quiesce. When libuv says it has something to do at once
 * (timeout 0, which it also says when a watcher was added that its epoll set does not hold yet) the wait is left out, and when it
 * has nothing to do it is not called.
 *
 * Posts from other threads: a lock-free stack that the loop takes whole and reverses; only the poster that found it empty
 * writes the eventfd. */
#include "net/loop.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/rcu.h"

enum { TURN_END_MAX = 8, CLOSE_ROUNDS = 16 };

struct loop {
	uv_loop_t uv;
	uv_poll_t wake;
	int wake_fd;
	uint64_t now_ms;
	struct {
		void (*fn)(void *ctx);
		void *ctx;
	} turn_end[TURN_END_MAX];
	unsigned turn_end_count;
	struct deadline_queue *queues;
	/* poll[0] is libuv's; poll[i + 1] is of reader[i]. A place that was given back is NULL and has no descriptor. */
	struct pollfd poll[LOOP_READERS_MAX + 1];
	struct loop_reader *reader[LOOP_READERS_MAX];
	unsigned reader_count;
	_Atomic(struct loop_post *) posts;
	atomic_bool is_stopping;
};

static void wake_up(struct loop *l)
{
	uint64_t one = 1;
	ssize_t n;

	/* The only other failure is a counter at its maximum, which is readable already. */
	do
		n = write(l->wake_fd, &one, sizeof(one));
	while (n < 0 && errno == EINTR);
}

static void run_posts(struct loop *l)
{
	struct loop_post *p = atomic_exchange_explicit(&l->posts, NULL, memory_order_acquire), *next, *in_order = NULL;

	for (; p; p = next) {
		next = p->next;
		p->next = in_order;
		in_order = p;
	}
	for (p = in_order; p; p = next) {
		next = p->next;
		p->fn(p->ctx);
	}
}

static void on_wake(uv_poll_t *h, int status, int events)
{
	struct loop *l = h->data;
	uint64_t count;

	/* The counter is cleared before the stack is taken: a post that comes between finds it empty again and writes anew. */
	if (read(l->wake_fd, &count, sizeof(count)) < 0 && errno != EAGAIN && errno != EINTR)
		return;
	run_posts(l);
}

int loop_new(struct loop **ret)
{
	struct loop *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return -ENOMEM;
	l->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (l->wake_fd < 0) {
		r = -errno;
		goto fail;
	}
	r = uv_loop_init(&l->uv);
	if (r < 0)
		goto fail;
	r = uv_poll_init(&l->uv, &l->wake, l->wake_fd);
	if (r < 0) {
		uv_loop_close(&l->uv);
		goto fail;
	}
	l->wake.data = l;
	l->poll[0] = (struct pollfd){.fd = uv_backend_fd(&l->uv), .events = POLLIN};
	uv_poll_start(&l->wake, UV_READABLE, on_wake);
	l->now_ms = clock_ms();
	*ret = l;
	return 0;
fail:
	if (l->wake_fd >= 0)
		close(l->wake_fd);
	free(l);
	return r;
}

void loop_free(struct loop *l)
{
	int r = UV_EBUSY;

	if (!l)
		return;
	uv_close((uv_handle_t *)&l->wake, NULL);
	for (int i = 0; i < CLOSE_ROUNDS && r == UV_EBUSY; i++) {
		uv_run(&l->uv, UV_RUN_NOWAIT);
		r = uv_loop_close(&l->uv);
	}
	assert(r == 0); /* an owner left a handle open */
	close(l->wake_fd);
	free(l);
}

uv_loop_t *loop_uv(struct loop *l)
{
	return &l->uv;
}

uint64_t loop_now_ms(const struct loop *l)
{
	return l->now_ms;
}

void loop_on_turn_end(struct loop *l, void (*fn)(void *ctx), void *ctx)
{
	assert(l->turn_end_count < TURN_END_MAX);
	l->turn_end[l->turn_end_count].fn = fn;
	l->turn_end[l->turn_end_count++].ctx = ctx;
}

void loop_off_turn_end(struct loop *l, void (*fn)(void *ctx), void *ctx)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < l->turn_end_count; i++)
		if (l->turn_end[i].fn != fn || l->turn_end[i].ctx != ctx)
			l->turn_end[kept++] = l->turn_end[i];
	l->turn_end_count = kept;
}

void loop_post(struct loop *l, struct loop_post *p)
{
	struct loop_post *head = atomic_load_explicit(&l->posts, memory_order_relaxed);

	do
		p->next = head;
	while (!atomic_compare_exchange_weak_explicit(&l->posts, &head, p, memory_order_release, memory_order_relaxed));
	if (!head)
		wake_up(l);
}

void loop_stop(struct loop *l)
{
	atomic_store_explicit(&l->is_stopping, true, memory_order_release);
	wake_up(l);
}

/* How long the loop may wait: the nearer of libuv's timers and our deadlines; -1 without any. */
static int wait_ms(struct loop *l)
{
	int timeout_ms = uv_backend_timeout(&l->uv);
	uint64_t now_ms;

	if (timeout_ms == 0)
		return 0;
	now_ms = clock_ms();
	for (struct deadline_queue *q = l->queues; q; q = q->next) {
		struct deadline *first = q->head.next;
		uint64_t left_ms;

		if (first == &q->head)
			continue;
		left_ms = first->at_ms > now_ms ? first->at_ms - now_ms : 0;
		if (timeout_ms < 0 || left_ms < (uint64_t)timeout_ms)
			timeout_ms = (int)left_ms;
	}
	return timeout_ms;
}

static void run_deadlines(struct loop *l)
{
	struct deadline_queue *next;

	for (struct deadline_queue *q = l->queues; q; q = next) {
		while (q->head.next != &q->head && q->head.next->at_ms <= l->now_ms) {
			struct deadline *d = q->head.next;

			deadline_del(d);
			q->fn(d);
		}
		next = q->next;
	}
}

int loop_reader_add(struct loop *l, struct loop_reader *r)
{
	unsigned place = 0;

	while (place < l->reader_count && l->reader[place])
		place++;
	if (place == LOOP_READERS_MAX)
		return NW_EFULL;
	if (place == l->reader_count)
		l->reader_count++;
	r->place = place;
	l->reader[place] = r;
	l->poll[place + 1] = (struct pollfd){.fd = r->fd, .events = POLLIN};
	return 0;
}

void loop_reader_del(struct loop *l, struct loop_reader *r)
{
	l->reader[r->place] = NULL;
	l->poll[r->place + 1].fd = -1;
	while (l->reader_count && !l->reader[l->reader_count - 1])
		l->reader_count--;
}

/* Waits for libuv's descriptors and the readers. */
static void wait_ready(struct loop *l, int timeout_ms)
{
	int n;

	if (timeout_ms != 0)
		rcu_offline();
	n = poll(l->poll, l->reader_count + 1, timeout_ms);
	if (timeout_ms != 0)
		rcu_online();
	for (unsigned i = 0; n < 0 && i <= l->reader_count; i++)
		l->poll[i].revents = 0;
}

static void run_readers(struct loop *l)
{
	unsigned count = l->reader_count;

	for (unsigned i = 0; i < count; i++)
		if (l->poll[i + 1].revents && l->reader[i])
			l->reader[i]->fn(l->reader[i], l->poll[i + 1].revents & (POLLERR | POLLNVAL));
}

void loop_run(struct loop *l)
{
	rcu_thread_register();
	while (!atomic_load_explicit(&l->is_stopping, memory_order_acquire)) {
		wait_ready(l, wait_ms(l));
		l->now_ms = clock_ms();
		uv_update_time(&l->uv);
		run_readers(l);
		if (l->poll[0].revents || uv_backend_timeout(&l->uv) == 0)
			uv_run(&l->uv, UV_RUN_NOWAIT);
		run_deadlines(l);
		for (unsigned i = 0; i < l->turn_end_count; i++)
			l->turn_end[i].fn(l->turn_end[i].ctx);
		rcu_quiesce();
	}
	atomic_store_explicit(&l->is_stopping, false, memory_order_relaxed);
	rcu_thread_unregister();
}

void deadline_queue_init(struct loop *l, struct deadline_queue *q, uint32_t after_ms, void (*fn)(struct deadline *d))
{
	assert(after_ms > 0); /* a zero wait that adds itself again would never end */
	q->head.prev = q->head.next = &q->head;
	q->after_ms = after_ms;
	q->fn = fn;
	q->next = l->queues;
	l->queues = q;
}

void deadline_queue_done(struct loop *l, struct deadline_queue *q)
{
	struct deadline_queue **at = &l->queues;

	while (q->head.next != &q->head)
		deadline_del(q->head.next);
	while (*at && *at != q)
		at = &(*at)->next;
	if (*at)
		*at = q->next;
}

void deadline_add(struct loop *l, struct deadline_queue *q, struct deadline *d)
{
	deadline_del(d);
	d->at_ms = l->now_ms + q->after_ms;
	d->prev = q->head.prev;
	d->next = &q->head;
	q->head.prev->next = d;
	q->head.prev = d;
}

void deadline_del(struct deadline *d)
{
	if (!d->next)
		return;
	d->prev->next = d->next;
	d->next->prev = d->prev;
	d->prev = d->next = NULL;
}
