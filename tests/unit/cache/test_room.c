/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The budget: memory stays inside it, what is asked for stays, held answers survive eviction. One thread. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "answers.h"
#include "base/rcu.h"

static struct cache *c;
static struct made *m;

static int setup_with(uint64_t bytes)
{
	rcu_thread_register();
	m = calloc(1, sizeof(*m));
	return m && !cache_new(&c, bytes) ? 0 : -1;
}

static int setup(void **state)
{
	return setup_with(CACHE_BYTES_MIN);
}

static int setup_big(void **state)
{
	return setup_with(64 << 20);
}

static int teardown(void **state)
{
	cache_free(c);
	free(m);
	rcu_thread_unregister();
	return 0;
}

static void put(unsigned i, unsigned addresses, uint32_t now_s)
{
	char name[40];

	snprintf(name, sizeof(name), "name-%u.example", i);
	made_answer(m, name, addresses, i, 3000, false);
	cache_put(c, &m->key, m->msg, m->len, &m->walked, now_s);
	rcu_quiesce();
}

static const struct cache_answer *find(unsigned i, uint32_t now_s)
{
	struct cache_key key;
	struct name qname;
	char name[40];

	snprintf(name, sizeof(name), "name-%u.example", i);
	made_key(&key, &qname, name);
	return cache_find(c, &key, now_s);
}

static void without_tidying_a_full_cache_keeps_what_it_has(void **state)
{
	struct cache_stat s;

	for (unsigned i = 0; i < 20000; i++)
		put(i, 1, 0);
	cache_stat(c, &s);
	assert_true(s.no_room > 0);
	assert_true(s.entries > 1000);
	assert_true(s.bytes <= s.bytes_max);
	assert_non_null(find(0, 0));
	cache_tidy(c, 0);
	put(50000, 1, 0);
	assert_non_null(find(50000, 0));
}

static void stays_inside_its_budget(void **state)
{
	struct cache_stat s;
	unsigned found = 0;

	for (unsigned i = 0; i < 50000; i++) {
		put(i, 1 + i % 20, 0);
		if (i % 100 == 0)
			cache_tidy(c, 0);
		if (i % 1000 == 0) {
			cache_stat(c, &s);
			assert_true(s.bytes <= CACHE_BYTES_MIN);
		}
	}
	cache_stat(c, &s);
	assert_int_equal(s.no_room, 0);
	assert_int_equal(s.puts, 50000);
	assert_int_equal(s.entries + s.evictions, 50000);
	for (unsigned i = 0; i < 50000; i++)
		found += find(i, 0) != NULL;
	assert_int_equal(found, s.entries);
	assert_true(found > 1000);
	/* What came last is there. */
	for (unsigned i = 49900; i < 50000; i++)
		assert_non_null(find(i, 0));
}

static void what_is_asked_for_stays(void **state)
{
	for (unsigned i = 0; i < 20; i++)
		put(i, 2, 0);
	for (unsigned i = 1000; i < 30000; i++) {
		put(i, 2, 0);
		if (i % 100 == 0) {
			for (unsigned j = 0; j < 10; j++)
				assert_non_null(find(j, 0));
			cache_tidy(c, 0);
		}
	}
	for (unsigned j = 10; j < 20; j++)
		assert_null(find(j, 0));
	/* It was moved many times; it must still be itself. */
	for (unsigned j = 0; j < 10; j++) {
		const struct cache_answer *a = find(j, 0);
		char name[40], text[NAME_TEXT_MAX];

		snprintf(name, sizeof(name), "name-%u.example", j);
		assert_string_equal(name_to_text(text, a->chain[0]->wire), name);
		assert_int_equal(a->addr_count, 2);
		assert_int_equal(a->addrs[1].b[3], j + 1);
		assert_int_equal(a->ttl_count, 2);
		made_answer(m, name, 2, j, 3000, false);
		assert_memory_equal(a->ttl_offset, m->walked.ttl_offset, 4);
		assert_memory_equal(a->msg + 12, m->msg + 12, a->msg_len - 12u);
	}
}

static void a_held_answer_is_not_freed(void **state)
{
	const struct cache_answer *held;
	uint8_t copy[512];
	struct cache_stat s;

	put(0, 1, 0);
	held = cache_hold(cache_hold(find(0, 0)));
	memcpy(copy, held->msg, held->msg_len);
	assert_int_equal(cache_flush(c, NULL), 1);
	rcu_quiesce();
	for (unsigned i = 1; i < 30000; i++) {
		put(i, 1, 0);
		if (i % 100 == 0)
			cache_tidy(c, 0);
	}
	assert_null(find(0, 0));
	assert_memory_equal(copy, held->msg, held->msg_len);
	cache_release(held);
	cache_tidy(c, 0);
	assert_memory_equal(copy, held->msg, held->msg_len);
	cache_release(held);
	cache_stat(c, &s);
	assert_int_equal(s.no_room, 0);
}

/* Small ones first, then large ones: no size keeps the memory from another. */
static void sizes_do_not_lock_each_other_out(void **state)
{
	struct cache_stat before, after;

	for (unsigned i = 0; i < 20000; i++) {
		put(i, 1, 0);
		if (i % 100 == 0)
			cache_tidy(c, 0);
	}
	cache_stat(c, &before);
	for (unsigned i = 0; i < 500; i++) {
		put(100000 + i, 200, 0);
		if (i % 4 == 0)
			cache_tidy(c, 0);
	}
	cache_stat(c, &after);
	assert_int_equal(after.no_room, before.no_room);
	assert_non_null(find(100499, 0));
	assert_non_null(find(100480, 0));
}

static uint64_t resident_bytes(void)
{
	unsigned long size, resident;
	FILE *f = fopen("/proc/self/statm", "re");

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu %lu", &size, &resident), 2);
	fclose(f);
	return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* 100,000 puts a second, tidied every 50 ms, on 64 MiB: none is refused, and the process grows by no more than the budget. */
static void keeps_up_with_a_stream(void **state)
{
	uint64_t before = resident_bytes(), slack = 4 << 20;
	struct cache_stat s;

	for (unsigned i = 0; i < 400000; i++) {
		put(i, 4, i / 100000);
		if (i % 5000 == 0)
			cache_tidy(c, i / 100000);
	}
	cache_stat(c, &s);
	assert_int_equal(s.no_room, 0);
	assert_true(s.entries > 100000);
	/* AddressSanitizer's shadow is an eighth on top; ThreadSanitizer's is many times the memory, so nothing can be said there. */
#ifdef __SANITIZE_ADDRESS__
	slack += 8 << 20;
#endif
#ifndef __SANITIZE_THREAD__
	assert_true(resident_bytes() < before + (64 << 20) + slack);
#endif
	(void)before;
	(void)slack;
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(without_tidying_a_full_cache_keeps_what_it_has), TEST(stays_inside_its_budget), TEST(what_is_asked_for_stays),
		TEST(a_held_answer_is_not_freed), TEST(sizes_do_not_lock_each_other_out),
		cmocka_unit_test_setup_teardown(keeps_up_with_a_stream, setup_big, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
