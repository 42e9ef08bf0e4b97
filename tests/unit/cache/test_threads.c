/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Workers that find, put, hold and release on a small cache while one thread tidies, walks and flushes and another saves, counts and sets limits:
 * every answer found is the one asked for, undamaged. Run it under ThreadSanitizer and AddressSanitizer too. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "answers.h"
#include "base/rcu.h"

enum { WORKERS = 3, ROUNDS = 60000, NAMES = 8000, PARKED = 64, SECTION = 32, PACE = 4 * SECTION, LIFE = 12 };

static struct cache *c;
static atomic_uint faults, working, wanted, rounds, tidied;

/* The last three bytes of the first address tell which name the answer is for. */
static void check(const struct cache_answer *a, unsigned i)
{
	char name[40], text[NAME_TEXT_MAX];
	unsigned number = (unsigned)a->addrs[0].b[1] << 16 | (unsigned)a->addrs[0].b[2] << 8 | a->addrs[0].b[3];

	snprintf(name, sizeof(name), "n%u.example", i);
	if (number != i || a->addr_count != 1 + i % 7 || strcmp(name_to_text(text, a->chain[0]->wire), name) != 0)
		atomic_fetch_add(&faults, 1);
	if (a->msg_len < 12 || a->msg[4] != 0 || a->msg[5] != 1)
		atomic_fetch_add(&faults, 1);
}

static void *work(void *arg)
{
	struct made *m = calloc(1, sizeof(*m));
	unsigned seed = (unsigned)(uintptr_t)arg, numbers[PARKED] = { 0 };
	const struct cache_answer *parked[PARKED] = { NULL }, *found[SECTION] = { NULL };
	unsigned found_numbers[SECTION] = { 0 }, tidied_before = 0;

	rcu_thread_register();
	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned i = (unsigned)rand_r(&seed) % NAMES, p = round % PARKED;
		const struct cache_answer *a;
		struct cache_key key;
		struct name qname;
		char name[40];

		atomic_fetch_add_explicit(&rounds, 1, memory_order_relaxed);
		if (i % 2)
			i %= 200;
		snprintf(name, sizeof(name), "n%u.example", i);
		made_key(&key, &qname, name);
		a = found[round % SECTION] = cache_find(c, &key, round / 1000);
		found_numbers[round % SECTION] = i;
		if (parked[p]) {
			check(parked[p], numbers[p]);
			cache_release(parked[p]);
			parked[p] = NULL;
		}
		if (a) {
			check(a, i);
			if (round % 8 == 0) {
				parked[p] = cache_hold(a);
				numbers[p] = i;
			}
			if (cache_wants_prefetch(a, round / 1000))
				atomic_fetch_add(&wanted, 1);
		} else {
			a = cache_find_stale(c, &key, round / 1000, 100);
			if (a)
				check(a, i);
			made_answer(m, name, 1 + i % 7, i, LIFE, false);
			cache_put(c, &m->key, m->msg, m->len, &m->walked, round / 1000);
		}
		if (round % SECTION)
			continue;
		/* What was found stays readable to the end of the read section, whatever the others did meanwhile. */
		sched_yield();
		for (unsigned k = 0; k < SECTION; k++) {
			if (found[k])
				check(found[k], found_numbers[k]);
			found[k] = NULL;
		}
		rcu_offline();
		/* On a busy machine too the tidier gets its turns: without room the memory would not be used over and over. */
		for (unsigned before = tidied_before; round % PACE == 0 && tidied_before == before; tidied_before = atomic_load(&tidied))
			sched_yield();
		rcu_online();
	}
	for (unsigned p = 0; p < PARKED; p++)
		if (parked[p])
			cache_release(parked[p]);
	rcu_thread_unregister();
	atomic_fetch_sub(&working, 1);
	free(m);
	return NULL;
}

static void see(void *ctx, const struct cache_answer *a)
{
	unsigned *count = ctx;

	if (a->chain[0]->len < 4)
		atomic_fetch_add(&faults, 1);
	++*count;
}

static uint64_t signature(void *ctx, uint16_t group)
{
	return group + 1u;
}

static bool group(void *ctx, uint64_t wanted_signature, uint16_t *ret)
{
	*ret = (uint16_t)(wanted_signature - 1);
	return true;
}

static void check_loaded(void *ctx, const struct cache_answer *a)
{
	char text[NAME_TEXT_MAX];
	unsigned *count = ctx, i = 0;

	if (sscanf(name_to_text(text, a->chain[0]->wire), "n%u.example", &i) != 1)
		atomic_fetch_add(&faults, 1);
	check(a, i);
	++*count;
}

static void *save(void *arg)
{
	const struct cache_store store = { .name_seed = MADE_SEED + 1, .signature = signature, .group = group };
	unsigned *loaded = arg, turn = 0;
	int fd = memfd_create("cache", 0);

	rcu_thread_register();
	while (atomic_load(&working)) {
		struct cache *other;
		struct cache_kinds k;

		if (lseek(fd, 0, SEEK_SET) || ftruncate(fd, 0) || cache_save(c, fd, turn % 60, 1000, &store) || cache_new(&other, CACHE_BYTES_MIN))
			abort();
		rcu_quiesce();
		if (lseek(fd, 0, SEEK_SET) || cache_load(other, fd, turn % 60, 1001, &store))
			atomic_fetch_add(&faults, 1);
		cache_walk(other, turn % 60, check_loaded, loaded);
		rcu_quiesce();
		cache_free(other);
		cache_stat_kinds(c, turn % 60, &k);
		cache_set_limits(c, &(struct cache_limits){ .ttl_max_s = 100, .negative_ttl_max_s = 100, .stale_s = turn % 3 * 20 });
		rcu_quiesce();
		turn++;
	}
	rcu_thread_unregister();
	close(fd);
	return NULL;
}

static void many_threads(void **state)
{
	pthread_t thread[WORKERS], saver;
	unsigned loaded = 0;
	struct cache_stat s;
	unsigned turn = 0, seen = 0, flushes = 0;

	assert_int_equal(cache_new(&c, CACHE_BYTES_MIN), 0);
	rcu_thread_register();
	atomic_store(&working, WORKERS);
	for (uintptr_t i = 0; i < WORKERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, work, (void *)(i + 1)), 0);
	assert_int_equal(pthread_create(&saver, NULL, save, &loaded), 0);
	while (atomic_load(&working)) {
		struct name under;

		cache_tidy(c, turn++ % 60);
		atomic_fetch_add(&tidied, 1);
		rcu_quiesce();
		if (turn % 50 == 0)
			cache_walk(c, 0, see, &seen);
		/* By the workers' progress, so that answers reach the end of their lives however the threads are scheduled. */
		if (atomic_load(&rounds) >= (flushes + 1) * WORKERS * ROUNDS / 4) {
			name_from_text(&under, "n77.example", 11);
			cache_flush_name(c, &under);
			cache_flush(c, flushes++ % 2 ? NULL : &under);
		}
		rcu_quiesce();
	}
	rcu_offline();
	for (unsigned i = 0; i < WORKERS; i++)
		pthread_join(thread[i], NULL);
	pthread_join(saver, NULL);
	rcu_online();
	assert_int_equal(atomic_load(&faults), 0);
	assert_true(loaded > 0);
	cache_stat(c, &s);
	assert_int_equal(s.prefetches, atomic_load(&wanted));
	assert_true(s.prefetches > 0 && s.stale > 0);
	assert_int_equal(s.hits + s.misses, WORKERS * ROUNDS);
	assert_int_equal(s.misses, s.puts + s.no_room);
	/* The memory, of some 4000 answers, was used many times over. */
	assert_true(s.puts > 20000 && s.hits > 20000);
	cache_flush(c, NULL);
	cache_stat(c, &s);
	assert_int_equal(s.entries, 0);
	rcu_thread_unregister();
	cache_free(c);
}

/* All workers put one key at once, again and again: never more than one answer of it stays. */
static pthread_barrier_t barrier;

static void *put_same(void *arg)
{
	struct made *m = calloc(1, sizeof(*m));

	rcu_thread_register();
	for (unsigned round = 0; round < 2000; round++) {
		char name[40];

		snprintf(name, sizeof(name), "same%u.example", round);
		made_answer(m, name, 1, round, 300, false);
		rcu_offline();
		pthread_barrier_wait(&barrier);
		rcu_online();
		cache_put(c, &m->key, m->msg, m->len, &m->walked, 0);
		rcu_quiesce();
	}
	rcu_thread_unregister();
	free(m);
	return NULL;
}

static void one_answer_a_key(void **state)
{
	pthread_t thread[WORKERS];
	struct cache_stat s;

	assert_int_equal(cache_new(&c, 16 << 20), 0);
	pthread_barrier_init(&barrier, NULL, WORKERS);
	for (unsigned i = 0; i < WORKERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, put_same, NULL), 0);
	for (unsigned i = 0; i < WORKERS; i++)
		pthread_join(thread[i], NULL);
	cache_stat(c, &s);
	assert_int_equal(s.puts, 2000 * WORKERS);
	assert_true(s.entries <= 2000);
	assert_true(s.entries > 1900);
	pthread_barrier_destroy(&barrier);
	cache_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(many_threads), cmocka_unit_test(one_answer_a_key) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
