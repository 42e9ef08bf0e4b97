/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The ring and RCU under several threads; meant to be run under ThreadSanitizer as well. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/rcu.h"
#include "base/ring.h"

enum { PRODUCERS = 3, PER_PRODUCER = 20000, READERS = 3, UPDATES = 300 };

static void ring_keeps_order_and_refuses_when_full(void **state)
{
	struct ring *r = ring_new(5);
	int items[9];

	assert_null(ring_pop(r));
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 8; i++)
			assert_true(ring_push(r, &items[i]));
		assert_false(ring_push(r, &items[8]));
		for (unsigned i = 0; i < 8; i++)
			assert_ptr_equal(ring_pop(r), &items[i]);
		assert_null(ring_pop(r));
	}
	ring_free(r);
	ring_free(NULL);
}

struct producer {
	struct ring *ring;
	uintptr_t number;
};

static void *produce(void *arg)
{
	struct producer *p = arg;

	for (uintptr_t i = 1; i <= PER_PRODUCER; i++)
		while (!ring_push(p->ring, (void *)(p->number << 32 | i)))
			sched_yield();
	return NULL;
}

static void ring_loses_nothing_between_threads(void **state)
{
	struct ring *r = ring_new(64);
	struct producer producers[PRODUCERS];
	pthread_t threads[PRODUCERS];
	uintptr_t last[PRODUCERS] = {0};

	for (unsigned i = 0; i < PRODUCERS; i++) {
		producers[i] = (struct producer){r, i};
		assert_int_equal(pthread_create(&threads[i], NULL, produce, &producers[i]), 0);
	}
	for (unsigned got = 0; got < PRODUCERS * PER_PRODUCER;) {
		uintptr_t item = (uintptr_t)ring_pop(r);

		if (!item) {
			sched_yield();
			continue;
		}
		/* Each producer's items come in its order. */
		assert_int_equal(item & 0xffffffff, ++last[item >> 32]);
		got++;
	}
	for (unsigned i = 0; i < PRODUCERS; i++)
		pthread_join(threads[i], NULL);
	assert_null(ring_pop(r));
	ring_free(r);
}

struct pair {
	unsigned a, b;
};

static struct pair *_Atomic published;
static atomic_bool is_over;
static atomic_uint freed;

static void free_pair(void *p)
{
	struct pair *pair = p;

	pair->a = 0;
	pair->b = 1;
	free(pair);
	atomic_fetch_add(&freed, 1);
}

static void *read_pairs(void *arg)
{
	uintptr_t torn = 0;

	rcu_thread_register();
	for (unsigned i = 0; !atomic_load(&is_over); i++) {
		struct pair *p = rcu_read(&published);

		torn += p->a != p->b;
		if (i % 64 == 0) {
			rcu_offline();
			sched_yield();
			rcu_online();
		} else {
			rcu_quiesce();
		}
	}
	rcu_thread_unregister();
	return (void *)torn;
}

static struct pair *pair_new(unsigned n)
{
	struct pair *p = malloc(sizeof(*p));

	assert_non_null(p);
	p->a = p->b = n;
	return p;
}

static void rcu_frees_only_behind_the_readers(void **state)
{
	pthread_t threads[READERS];
	unsigned deferred = 0;

	rcu_publish(&published, pair_new(7));
	for (unsigned i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_pairs, NULL), 0);
	for (unsigned i = 0; i < UPDATES; i++) {
		struct pair *old = rcu_read(&published);

		rcu_publish(&published, pair_new(i));
		/* As an unregistered thread, as a registered one, and blocking in both. */
		if (i == UPDATES / 2)
			rcu_thread_register();
		if (i % 3 == 0) {
			rcu_wait();
			free_pair(old);
		} else {
			rcu_defer(free_pair, old);
			deferred++;
		}
		if (i >= UPDATES / 2)
			rcu_quiesce();
	}
	assert_true(deferred > 0);
	rcu_barrier_all();
	assert_int_equal(atomic_load(&freed), UPDATES);
	rcu_thread_unregister();
	atomic_store(&is_over, true);
	for (unsigned i = 0; i < READERS; i++) {
		void *torn;

		pthread_join(threads[i], &torn);
		assert_null(torn);
	}
	free(rcu_read(&published));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ring_keeps_order_and_refuses_when_full),
		cmocka_unit_test(ring_loses_nothing_between_threads),
		cmocka_unit_test(rcu_frees_only_behind_the_readers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
