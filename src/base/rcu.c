/* SPDX-License-Identifier: GPL-3.0-or-later */
/* liburcu-qsbr behind our own names.
 *
 * liburcu is not built with ThreadSanitizer, which therefore cannot see that a grace period orders a reader's last access before
 * the free. Under TSan every end of a read section and every end of a grace period goes through one atomic, which states exactly
 * that order and nothing stronger; in other builds the two functions are empty. */
#include "base/rcu.h"

#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <urcu/urcu-qsbr.h>

#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define HAS_TSAN 1
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define HAS_TSAN 1
#endif

#ifdef HAS_TSAN
static atomic_uint order;

static void order_release(void)
{
	atomic_fetch_add_explicit(&order, 1, memory_order_acq_rel);
}

static void order_acquire(void)
{
	(void)atomic_load_explicit(&order, memory_order_acquire);
}
#else
static void order_release(void)
{
}
static void order_acquire(void)
{
}
#endif

struct deferred {
	struct rcu_head head;
	void (*free_fn)(void *);
	void *what;
};

static atomic_size_t pending; /* deferred frees that have not run to their end */
static _Thread_local bool is_registered;
static _Thread_local bool is_online;

void rcu_thread_register(void)
{
	urcu_qsbr_register_thread();
	is_registered = is_online = true;
}

void rcu_thread_unregister(void)
{
	order_release();
	urcu_qsbr_unregister_thread();
	is_registered = is_online = false;
}

void rcu_quiesce(void)
{
	order_release();
	urcu_qsbr_quiescent_state();
}

void rcu_offline(void)
{
	order_release();
	urcu_qsbr_thread_offline();
	is_online = false;
}

void rcu_online(void)
{
	urcu_qsbr_thread_online();
	is_online = true;
}

void rcu_wait(void)
{
	order_release();
	/* liburcu takes a registered online caller offline for the wait and back online after it. */
	urcu_qsbr_synchronize_rcu();
	order_acquire();
}

static void run_deferred(struct rcu_head *head)
{
	struct deferred *d = caa_container_of(head, struct deferred, head);

	order_acquire();
	d->free_fn(d->what);
	free(d);
	atomic_fetch_sub_explicit(&pending, 1, memory_order_release);
}

void rcu_defer(void (*free_fn)(void *), void *what)
{
	struct deferred *d = malloc(sizeof(*d));
	bool was_registered = is_registered, was_online = is_online;

	/* Without memory for the node the object is never freed: the caller may hold rcu pointers, so it cannot wait here. */
	if (!d)
		return;
	d->free_fn = free_fn;
	d->what = what;
	atomic_fetch_add_explicit(&pending, 1, memory_order_relaxed);
	order_release();
	/* call_rcu demands a registered, online caller. */
	if (!was_registered)
		rcu_thread_register();
	else if (!was_online)
		rcu_online();
	urcu_qsbr_call_rcu(&d->head, run_deferred);
	if (!was_registered)
		rcu_thread_unregister();
	else if (!was_online)
		rcu_offline();
}

/* Polls: liburcu's own barrier frees its bookkeeping on the other thread, which ThreadSanitizer takes for a race. */
void rcu_barrier_all(void)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	bool was_online = is_online;

	if (was_online)
		rcu_offline();
	while (atomic_load_explicit(&pending, memory_order_acquire) > 0)
		nanosleep(&pause, NULL);
	if (was_online)
		rcu_online();
}
