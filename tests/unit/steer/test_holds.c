/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Holds: covering, renewing, removing, the journal's list; then workers racing each other and the main thread. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/hash.h"
#include "base/rcu.h"
#include "steer/holds.h"

static struct holds *h;

static int setup(void **state)
{
	rcu_thread_register();
	return holds_new(&h, 1000);
}

static int teardown(void **state)
{
	holds_free(h);
	rcu_thread_unregister();
	return 0;
}

static struct addr address(unsigned i)
{
	return (struct addr){ .family = AF_INET, .b = { 10, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i } };
}

/* A wire name of one label that says i. */
static uint8_t wire_name(uint8_t wire[20], unsigned i)
{
	int n = snprintf((char *)wire + 1, 18, "n%u", i);

	wire[0] = (uint8_t)n;
	wire[n + 1] = 0;
	return (uint8_t)(n + 2);
}

static struct hold *insert(uint32_t rule_id, unsigned a, unsigned n)
{
	struct addr addr = address(a);
	uint8_t wire[20], len = wire_name(wire, n);

	return holds_insert(h, rule_id, &addr, wire, len, hash_bytes(wire, len, 1));
}

static bool covers(uint32_t rule_id, unsigned a, unsigned n, uint32_t epoch, uint32_t until_s)
{
	struct addr addr = address(a);
	uint8_t wire[20], len = wire_name(wire, n);

	return holds_cover(h, rule_id, &addr, wire, len, hash_bytes(wire, len, 1), epoch, until_s);
}

static void covers_only_its_triple(void **state)
{
	struct hold *d = insert(7, 1, 1);

	assert_non_null(d);
	assert_int_equal(hold_expires_s(d), 0);
	assert_false(covers(7, 1, 1, 1, 1));
	assert_true(hold_renew(h, d, 1, 10, 100));
	assert_true(covers(7, 1, 1, 1, 100));
	assert_false(covers(7, 1, 1, 1, 101));
	assert_false(covers(7, 1, 1, 2, 50));
	assert_false(covers(8, 1, 1, 1, 50));
	assert_false(covers(7, 2, 1, 1, 50));
	assert_false(covers(7, 1, 2, 1, 50));
	assert_ptr_equal(insert(7, 1, 1), d);
	assert_true(covers(7, 1, 1, 1, 100));
	assert_int_equal(holds_count(h), 1);
}

static void renewals_only_raise_within_an_epoch(void **state)
{
	struct hold *d = insert(1, 1, 1);

	hold_renew(h, d, 5, 0, 100);
	hold_renew(h, d, 5, 0, 90);
	assert_int_equal(hold_expires_s(d), 100);
	hold_renew(h, d, 6, 0, 80);
	assert_int_equal(hold_expires_s(d), 80);
	assert_int_equal(hold_epoch(d), 6);
	hold_renew(h, d, 5, 0, 200);
	assert_int_equal(hold_expires_s(d), 80);
	assert_true(covers(1, 1, 1, 6, 80));
}

static void a_full_table_refuses(void **state)
{
	for (unsigned i = 0; i < 1000; i++)
		assert_non_null(insert(1, i, i % 10));
	assert_null(insert(1, 1000, 1));
	assert_non_null(insert(1, 999, 9));
	assert_int_equal(holds_count(h), 1000);
	/* Nothing was acknowledged: after their time all go, and their memory serves again. */
	for (unsigned turn = 0; turn < 5; turn++) {
		uint32_t now_s = 1000 + turn * 1000;
		assert_int_equal(holds_sweep(h, now_s, 10), 1000);
		assert_int_equal(holds_sweep(h, now_s + HOLD_PARKED_S, 10), 1000);
		assert_int_equal(holds_sweep(h, now_s + HOLD_PARKED_S + 1, 10), 0);
		holds_sweep(h, now_s + 2 * HOLD_PARKED_S + 2, 10);
		rcu_barrier_all();
		for (unsigned i = 0; i < 1000; i++)
			assert_non_null(insert(2, turn * 1000 + i, i));
	}
}

static void sweeps_what_expired(void **state)
{
	struct hold *live = insert(1, 1, 1), *dead = insert(1, 2, 1);

	hold_renew(h, live, 1, 100, 1000);
	hold_renew(h, dead, 1, 100, 150);
	assert_int_equal(holds_sweep(h, 160, 10), 2);
	assert_int_equal(holds_sweep(h, 161, 10), 1);
	assert_true(covers(1, 1, 1, 1, 1000));
	assert_false(covers(1, 2, 1, 1, 150));
	/* A query that was parked meanwhile may still say so, and hears that it is gone. */
	assert_false(hold_renew(h, dead, 1, 161, 2000));
	assert_false(covers(1, 2, 1, 1, 150));
	assert_ptr_not_equal(insert(1, 2, 1), dead);
}

static void count_record(void *ctx, const struct hold *d)
{
	unsigned *sum = ctx;

	*sum += hold_expires_s(d);
}

/* A parked query's pointer stays the record it was for HOLD_PARKED_S, and then its memory serves again. */
static void removed_records_rest_before_reuse(void **state)
{
	struct hold *dead = insert(1, 1, 1);
	bool is_reused = false;

	hold_renew(h, dead, 1, 100, 150);
	assert_int_equal(holds_drain_new(h, count_record, &(unsigned){ 0 }), 1);
	assert_int_equal(holds_sweep(h, 1000, 10), 0);
	for (uint32_t s = 1; s <= HOLD_PARKED_S; s++) {
		holds_sweep(h, 1000 + s, 10);
		rcu_barrier_all();
		assert_ptr_not_equal(insert(1, 100 + s, 1), dead);
	}
	holds_sweep(h, 1000 + HOLD_PARKED_S + 1, 10);
	rcu_barrier_all();
	for (unsigned i = 0; i < 10 && !is_reused; i++)
		is_reused = insert(1, 200 + i, 1) == dead;
	assert_true(is_reused);
}

static bool remove_name(void *ctx, const struct hold *d)
{
	const uint8_t *wire = ctx;

	return d->name[0] == wire[0] && !memcmp(d->name, wire, d->name_len);
}

static void walks_and_removes(void **state)
{
	uint8_t wire[20];

	for (unsigned i = 0; i < 900; i++)
		hold_renew(h, insert(1, i, i % 9), 1, 0, 100);
	wire_name(wire, 3);
	holds_walk(h, remove_name, wire);
	assert_int_equal(holds_count(h), 800);
	for (unsigned i = 0; i < 900; i++)
		assert_int_equal(covers(1, i, i % 9, 1, 50), i % 9 != 3);
	assert_non_null(insert(1, 3, 3));
	assert_false(covers(1, 3, 3, 1, 50));
}

static void lists_new_and_moved_ones(void **state)
{
	struct hold *d = insert(1, 1, 1), *e = insert(1, 2, 1);
	unsigned sum = 0;

	assert_int_equal(holds_drain_new(h, count_record, &sum), 0);
	hold_renew(h, d, 1, 0, 1000);
	hold_renew(h, e, 1, 0, 40);
	assert_int_equal(holds_drain_new(h, count_record, &sum), 2);
	assert_int_equal(sum, 1040);
	hold_renew(h, d, 1, 60, 1060);
	hold_renew(h, e, 1, 10, 50);
	assert_int_equal(holds_drain_new(h, count_record, &sum), 0);
	hold_renew(h, d, 1, 61, 1061);
	hold_renew(h, d, 1, 62, 1062);
	hold_renew(h, e, 1, 11, 51);
	sum = 0;
	assert_int_equal(holds_drain_new(h, count_record, &sum), 2);
	assert_int_equal(sum, 1062 + 51);
	hold_renew(h, d, 1, 200, 2000);
	hold_renew(h, e, 1, 200, 2000);
	assert_int_equal(holds_sweep(h, 3000, 10), 0);
	assert_int_equal(holds_drain_new(h, count_record, &sum), 0);
}

static void refuses_senseless_capacity(void **state)
{
	struct holds *x = NULL;

	assert_int_equal(holds_new(&x, 0), -EINVAL);
	assert_int_equal(holds_new(&x, HOLDS_MAX + 1), -EINVAL);
	assert_null(x);
	holds_free(NULL);
}

/* --- threads --- */

enum { WORKERS = 3, RACES = 3000, ROUNDS = 60000, PARKED = 64 };
static pthread_barrier_t barrier;
static struct hold *won[WORKERS];
static atomic_uint faults, working;

static void wait_for_all(void)
{
	rcu_offline();
	pthread_barrier_wait(&barrier);
	rcu_online();
}

static void *race(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;

	rcu_thread_register();
	for (unsigned i = 0; i < RACES; i++) {
		wait_for_all();
		won[me] = insert(1, i, i);
		wait_for_all();
		for (unsigned k = 0; k < WORKERS; k++)
			if (!won[k] || won[k] != won[me])
				atomic_fetch_add(&faults, 1);
		rcu_quiesce();
	}
	rcu_thread_unregister();
	return NULL;
}

static void one_record_a_triple(void **state)
{
	pthread_t thread[WORKERS];

	assert_int_equal(holds_new(&h, RACES), 0);
	pthread_barrier_init(&barrier, NULL, WORKERS);
	for (uintptr_t i = 0; i < WORKERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, race, (void *)i), 0);
	for (unsigned i = 0; i < WORKERS; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(atomic_load(&faults), 0);
	assert_int_equal(holds_count(h), RACES);
	pthread_barrier_destroy(&barrier);
	holds_free(h);
}

static atomic_uint stage;

/* Stays in a read section until told. */
static void *linger(void *arg)
{
	rcu_thread_register();
	atomic_store(&stage, 1);
	while (atomic_load(&stage) != 2)
		sched_yield();
	rcu_thread_unregister();
	return NULL;
}

static void frees_after_a_grace_period(void **state)
{
	struct hold *dead = insert(1, 1, 1);
	pthread_t thread;

	atomic_store(&stage, 0);
	hold_renew(h, dead, 1, 100, 150);
	holds_drain_new(h, count_record, &(unsigned){ 0 });
	holds_sweep(h, 1000, 10);
	holds_sweep(h, 1000, 10);
	assert_int_equal(pthread_create(&thread, NULL, linger, NULL), 0);
	while (atomic_load(&stage) != 1)
		sched_yield();
	holds_sweep(h, 1000 + HOLD_PARKED_S + 1, 10);
	rcu_offline();
	usleep(50000);
	rcu_online();
	assert_ptr_not_equal(insert(1, 2, 1), dead);
	atomic_store(&stage, 2);
	rcu_offline();
	pthread_join(thread, NULL);
	rcu_online();
	rcu_barrier_all();
	assert_ptr_equal(insert(1, 3, 1), dead);
}

static _Atomic uint32_t now_s;

static void check(const struct hold *d, unsigned i)
{
	if (d->rule_id != i % 5 || d->addr.b[2] != i >> 8 || d->addr.b[3] != (uint8_t)i)
		atomic_fetch_add(&faults, 1);
}

/* Keeps the pointers of one turn over a quiescent state, as a parked query does. */
static void *work(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg + 1;
	struct hold *parked[PARKED] = { NULL };
	uint32_t since_s[PARKED] = { 0 }, numbers[PARKED] = { 0 };

	rcu_thread_register();
	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned i = (unsigned)rand_r(&seed) % 700, p = round % PARKED;
		uint32_t now = atomic_load(&now_s);

		if (parked[p] && now - since_s[p] < HOLD_PARKED_S) {
			check(parked[p], numbers[p]);
			hold_renew(h, parked[p], 1 + now / 500, now, now + 1 + i % 40);
		}
		parked[p] = NULL;
		if (!covers(i % 5, i, i % 50, 1 + now / 500, now + 1)) {
			parked[p] = insert(i % 5, i, i % 50);
			since_s[p] = now;
			numbers[p] = i;
			if (parked[p])
				check(parked[p], i);
		}
		if (round % 16 == 0)
			rcu_quiesce();
	}
	rcu_thread_unregister();
	atomic_fetch_sub(&working, 1);
	return NULL;
}

static bool remove_some(void *ctx, const struct hold *d)
{
	unsigned *turn = ctx;

	return (d->addr.b[3] + *turn) % 16 == 0;
}

static void see(void *ctx, const struct hold *d)
{
	if (d->rule_id >= 5 || d->name_len < 4)
		atomic_fetch_add(&faults, 1);
}

static void many_threads(void **state)
{
	pthread_t thread[WORKERS];
	unsigned turn = 0, unlisted = 0;
	uint32_t left;

	atomic_store(&faults, 0);
	assert_int_equal(holds_new(&h, 600), 0);
	rcu_thread_register();
	atomic_store(&now_s, 1000);
	atomic_store(&working, WORKERS);
	for (uintptr_t i = 0; i < WORKERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, work, (void *)i), 0);
	while (atomic_load(&working)) {
		uint32_t now = atomic_fetch_add(&now_s, 1) + 1;

		turn++;
		holds_drain_new(h, see, NULL);
		holds_sweep(h, now, 5);
		if (turn % 7 == 0)
			holds_walk(h, remove_some, &turn);
		rcu_quiesce();
		for (unsigned i = 0; i < 100 && atomic_load(&working); i++)
			sched_yield();
	}
	rcu_offline();
	for (unsigned i = 0; i < WORKERS; i++)
		pthread_join(thread[i], NULL);
	rcu_online();
	assert_int_equal(atomic_load(&faults), 0);
	holds_drain_new(h, see, NULL);
	left = atomic_load(&now_s) + 10000;
	for (unsigned i = 0; i < 4; i++)
		holds_sweep(h, left += HOLD_PARKED_S + 1, 5);
	rcu_barrier_all();
	assert_int_equal(holds_count(h), 0);
	/* All memory is back: the table fills to the brim again. */
	for (unsigned i = 0; i < 600; i++)
		unlisted += insert(1, i, i) != NULL;
	assert_int_equal(unlisted, 600);
	rcu_thread_unregister();
	holds_free(h);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(covers_only_its_triple), TEST(renewals_only_raise_within_an_epoch), TEST(a_full_table_refuses), TEST(sweeps_what_expired),
		TEST(removed_records_rest_before_reuse),
		TEST(walks_and_removes), TEST(lists_new_and_moved_ones), TEST(refuses_senseless_capacity),
		TEST(frees_after_a_grace_period),
		cmocka_unit_test(one_record_a_triple),
		cmocka_unit_test(many_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
