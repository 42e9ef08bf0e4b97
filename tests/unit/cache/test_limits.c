/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the limits do to kept answers: TTL bounds that clients see, answers past their life, refreshing before its end, counting kinds. One thread. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "answers.h"
#include "base/rcu.h"

static struct cache *c;
static struct made *m;

static int setup(void **state)
{
	rcu_thread_register();
	m = calloc(1, sizeof(*m));
	return m && !cache_new(&c, CACHE_BYTES_MIN) ? 0 : -1;
}

static int teardown(void **state)
{
	cache_free(c);
	free(m);
	rcu_thread_unregister();
	return 0;
}

static void limit(uint32_t min_s, uint32_t max_s, uint32_t negative_s, uint32_t stale_s)
{
	cache_set_limits(c, &(struct cache_limits){ min_s, max_s, negative_s, stale_s });
}

static void put(uint32_t now_s)
{
	cache_put(c, &m->key, m->msg, m->len, &m->walked, now_s);
}

static const struct cache_answer *find(const char *name, uint32_t now_s)
{
	struct cache_key key;
	struct name qname;

	made_key(&key, &qname, name);
	return cache_find(c, &key, now_s);
}

static const struct cache_answer *find_stale(const char *name, uint32_t now_s, uint32_t stale_s)
{
	struct cache_key key;
	struct name qname;

	made_key(&key, &qname, name);
	return cache_find_stale(c, &key, now_s, stale_s);
}

static struct cache_stat stat_now(void)
{
	struct cache_stat s;

	cache_stat(c, &s);
	return s;
}

/* --- bounds of TTLs --- */

static void without_limits_the_defaults_hold(void **state)
{
	made_answer(m, "a.example", 2, 1, 10 * CACHE_TTL_MAX_S, false);
	put(0);
	assert_int_equal(find("a.example", 0)->expires_s, CACHE_TTL_MAX_S);
	assert_int_equal(made_ttl(find("a.example", 0), 1), CACHE_TTL_MAX_S);
	made_answer(m, "zero.example", 1, 1, 0, false);
	put(0);
	assert_null(find("zero.example", 0));
	made_answer(m, "five.example", 1, 1, 5, false);
	put(0);
	assert_int_equal(made_ttl(find("five.example", 0), 0), 5);
	assert_null(find_stale("five.example", 5, 0));
}

static void bounds_are_written_into_the_message(void **state)
{
	uint8_t before[sizeof(m->msg)];
	const struct cache_answer *a;

	limit(60, 300, 120, 0);
	made_answer(m, "short.example", 2, 1, 7, false);
	memcpy(before, m->msg, m->len);
	put(100);
	assert_memory_equal(before, m->msg, m->len); /* the caller's bytes are not ours */
	a = find("short.example", 159);
	assert_non_null(a);
	assert_int_equal(a->expires_s, 160);
	assert_int_equal(made_ttl(a, 0), 60);
	assert_int_equal(made_ttl(a, 1), 60);
	made_answer(m, "long.example", 1, 1, 4000, false);
	put(100);
	assert_int_equal(find("long.example", 100)->expires_s, 400);
	assert_int_equal(made_ttl(find("long.example", 100), 0), 300);
	made_answer(m, "between.example", 1, 1, 200, false);
	put(100);
	assert_int_equal(made_ttl(find("between.example", 100), 0), 200);
}

static void a_least_ttl_keeps_what_has_none(void **state)
{
	limit(30, 300, 120, 0);
	made_answer(m, "zero.example", 1, 1, 0, false);
	put(0);
	assert_non_null(find("zero.example", 29));
	assert_int_equal(made_ttl(find("zero.example", 0), 0), 30);
	assert_null(find("zero.example", 30));
	/* RFC 2181 8: a TTL with the top bit set is 0. */
	made_answer(m, "senseless.example", 1, 1, 0x80000001, false);
	put(0);
	assert_int_equal(made_ttl(find("senseless.example", 0), 0), 30);
}

static void a_least_ttl_keeps_no_failure_and_nothing_cut(void **state)
{
	struct wire_answer good;

	limit(30, 300, 120, 60);
	made_answer(m, "a.example", 1, 0, 0, false);
	good = m->walked;
	m->walked.rcode = RCODE_SERVFAIL;
	put(0);
	m->walked = good;
	m->walked.flags |= FLAG_TC;
	put(0);
	m->walked = good;
	m->walked.is_cut = true;
	put(0);
	made_answer(m, "a.example", 0, 0, 0, false); /* NODATA without SOA */
	put(0);
	assert_null(find("a.example", 0));
	assert_null(find_stale("a.example", 40, 60));
	assert_int_equal(stat_now().entries, 0);
}

static void negative_answers_have_a_bound_of_their_own(void **state)
{
	const struct cache_answer *a;

	limit(0, 3000, 120, 0);
	made_negative(m, "no.example", RCODE_NXDOMAIN, 86400, 86400);
	put(0);
	a = find("no.example", 119);
	assert_non_null(a);
	assert_int_equal(made_ttl(a, 0), 120);
	assert_int_equal(made_minimum(a), 120);
	assert_null(find("no.example", 120));
	/* The SOA's TTL says how long the answer lives (RFC 2308 5), not how long the zone's SOA does. */
	made_negative(m, "short.example", RCODE_NOERROR, 100, 20);
	put(0);
	a = find("short.example", 0);
	assert_int_equal(a->expires_s, 20);
	assert_int_equal(made_ttl(a, 0), 20);
	assert_int_equal(made_minimum(a), 20);
	limit(60, 3000, 120, 0);
	made_negative(m, "none.example", RCODE_NXDOMAIN, 0, 0);
	put(0);
	a = find("none.example", 59);
	assert_int_equal(made_ttl(a, 0), 60);
	assert_int_equal(made_minimum(a), 60);
	/* A bound of 0 keeps none, and a minimum above a maximum is the maximum. */
	limit(60, 30, 0, 0);
	made_negative(m, "other.example", RCODE_NXDOMAIN, 100, 100);
	put(0);
	assert_null(find("other.example", 0));
	made_answer(m, "both.example", 1, 1, 100, false);
	put(0);
	assert_int_equal(find("both.example", 0)->expires_s, 30);
}

/* MINIMUM is RDATA: with it changed, a client that checks signatures would call the answer bogus. */
static void signed_rdata_stays(void **state)
{
	const struct cache_answer *a;

	limit(0, 3000, 120, 0);
	made_negative(m, "no.example", RCODE_NXDOMAIN, 86400, 86400);
	m->key.variant = CACHE_VARIANT_DO;
	put(0);
	a = cache_find(c, &m->key, 0);
	assert_int_equal(a->expires_s, 120);
	assert_int_equal(made_ttl(a, 0), 120);
	assert_int_equal(made_minimum(a), 86400);
}

/* --- stale answers --- */

static void expired_answers_can_be_found_as_such(void **state)
{
	struct cache_stat s;

	limit(0, 300, 120, 100);
	made_answer(m, "a.example", 1, 1, 30, false);
	put(1000);
	assert_null(find_stale("a.example", 1029, 100)); /* it lives */
	assert_null(find("a.example", 1030));
	assert_non_null(find_stale("a.example", 1030, 100));
	assert_non_null(find_stale("a.example", 1129, 100));
	assert_null(find_stale("a.example", 1130, 100));
	assert_null(find_stale("a.example", 1030, 0));
	assert_null(find_stale("b.example", 1030, 100));
	s = stat_now();
	assert_int_equal(s.stale, 2);
	assert_int_equal(s.hits, 0);
	assert_int_equal(s.misses, 1);
}

static void a_fresh_one_takes_the_place_of_the_stale(void **state)
{
	limit(0, 300, 120, 1000);
	made_answer(m, "a.example", 1, 1, 30, false);
	put(0);
	made_answer(m, "a.example", 1, 2, 30, false);
	put(100);
	assert_null(find_stale("a.example", 100, 1000));
	assert_int_equal(find("a.example", 100)->addrs[0].b[3], 2);
	assert_int_equal(stat_now().entries, 1);
}

static void put_many(const char *prefix, unsigned count, uint32_t ttl_s, uint32_t now_s)
{
	char name[40];

	for (unsigned i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "%s%u.example", prefix, i);
		made_answer(m, name, 1, i, ttl_s, false);
		put(now_s);
		rcu_quiesce();
	}
}

static unsigned count_stale(const char *prefix, unsigned count, uint32_t now_s)
{
	unsigned found = 0;
	char name[40];

	for (unsigned i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "%s%u.example", prefix, i);
		found += find_stale(name, now_s, 10000) != NULL;
	}
	return found;
}

/* Tidying a cache that is full: what was asked for is moved, a live answer before a stale one, and stale ones nobody asks for go. */
static void tidying_keeps_stale_ones_that_are_asked_for(void **state)
{
	unsigned asked = 0;

	limit(0, 3000, 120, 10000);
	put_many("old", 20, 30, 0);
	for (unsigned i = 0; i < 10000; i++) {
		char name[40];

		snprintf(name, sizeof(name), "new%u.example", i);
		made_answer(m, name, 1, i, 3000, false);
		put(100);
		rcu_quiesce();
		if (i % 100 == 0) {
			asked = count_stale("old", 10, 100);
			cache_tidy(c, 100);
		}
	}
	/* One or two may have met eight live ones in their bucket. */
	assert_true(asked >= 8);
	assert_int_equal(count_stale("old", 20, 100), asked);
	/* Without the limit they are as good as gone. */
	limit(0, 3000, 120, 0);
	for (unsigned i = 0; i < 100; i++) {
		char prefix[16];

		snprintf(prefix, sizeof(prefix), "more%u-", i);
		put_many(prefix, 100, 3000, 100);
		assert_true(count_stale("old", 10, 100) <= asked);
		cache_tidy(c, 100);
	}
	assert_int_equal(count_stale("old", 20, 100), 0);
}

static unsigned count_live(unsigned count, uint32_t now_s)
{
	unsigned found = 0;
	char name[40];

	for (unsigned i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "live%u.example", i);
		found += find(name, now_s) != NULL;
	}
	return found;
}

/* Live and stale ones, all of them asked for, are more than half of the memory, so there is not room for all. */
static void stale_ones_are_worth_less_than_live_ones(void **state)
{
	unsigned live, stale;
	char name[40];

	limit(0, 3000, 120, 10000);
	for (unsigned i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "%s%u.example", i % 2 ? "live" : "old", i / 2);
		made_answer(m, name, 1, i, i % 2 ? 3000 : 30, false);
		put(0);
		rcu_quiesce();
	}
	for (unsigned i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "new%u.example", i);
		made_answer(m, name, 1, i, 3000, false);
		put(100);
		rcu_quiesce();
		if (i % 50)
			continue;
		live = count_live(1500, 100);
		stale = count_stale("old", 1500, 100);
		cache_tidy(c, 100);
	}
	assert_true(live > 1400);
	assert_true(stale < 300);
}

/* Names whose hash is the same come into one bucket. */
static void put_beside(unsigned bucket, unsigned i, uint32_t ttl_s, uint32_t now_s)
{
	char name[40];

	snprintf(name, sizeof(name), "n%u.example", i);
	made_answer(m, name, 1, i, ttl_s, false);
	m->key.name_hash = bucket;
	put(now_s);
}

/* A full bucket takes a stale answer's place before a live one's, wherever it begins to look. */
static void a_stale_one_gives_way_in_its_bucket(void **state)
{
	struct cache_key key;
	struct name qname;
	char name[40];

	limit(0, 3000, 120, 10000);
	for (unsigned bucket = 0; bucket < 16; bucket++) {
		for (unsigned i = 0; i < 8; i++)
			put_beside(bucket, i, i == 3 ? 30 : 3000, 0);
		put_beside(bucket, 8, 3000, 100);
		for (unsigned i = 0; i < 9; i++) {
			snprintf(name, sizeof(name), "n%u.example", i);
			made_key(&key, &qname, name);
			key.name_hash = bucket;
			assert_int_equal(cache_find(c, &key, 100) != NULL, i != 3);
		}
	}
	assert_int_equal(stat_now().evictions, 0);
}

/* --- refreshing --- */

static const struct cache_answer *used_answer(const char *name, uint32_t ttl_s, unsigned uses)
{
	const struct cache_answer *a = NULL;

	made_answer(m, name, 1, 1, ttl_s, false);
	put(0);
	for (unsigned i = 0; i < uses; i++)
		a = find(name, 0);
	return a;
}

static void wants_a_busy_answer_refreshed_once(void **state)
{
	const struct cache_answer *a = used_answer("a.example", 100, 2);

	assert_false(cache_wants_prefetch(a, 0));
	assert_false(cache_wants_prefetch(a, 89));
	assert_true(cache_wants_prefetch(a, 90));
	assert_false(cache_wants_prefetch(a, 90));
	assert_false(cache_wants_prefetch(a, 99));
	assert_int_equal(stat_now().prefetches, 1);
	/* The answer that came is another one. */
	a = used_answer("a.example", 100, 2);
	assert_true(cache_wants_prefetch(a, 95));
	assert_int_equal(stat_now().prefetches, 2);
}

static void wants_nothing_rare_short_or_over(void **state)
{
	struct cache_key key;
	struct name qname;
	const struct cache_answer *a = used_answer("rare.example", 100, 1);

	assert_false(cache_wants_prefetch(a, 95));
	/* Looking without asking is no use. */
	made_key(&key, &qname, "rare.example");
	assert_ptr_equal(cache_find_quiet(c, &key, 95), a);
	assert_false(cache_wants_prefetch(a, 95));
	assert_non_null(find("rare.example", 95));
	assert_true(cache_wants_prefetch(a, 95));
	a = used_answer("short.example", PREFETCH_LIFE_MIN_S - 1, 5);
	for (uint32_t now = 0; now < 12; now++)
		assert_false(cache_wants_prefetch(a, now));
	a = used_answer("ten.example", PREFETCH_LIFE_MIN_S, 5);
	assert_false(cache_wants_prefetch(a, 8));
	assert_true(cache_wants_prefetch(a, 9));
	a = used_answer("over.example", 100, 5);
	assert_false(cache_wants_prefetch(a, 100));
	assert_false(cache_wants_prefetch(a, 200));
}

/* A moved answer keeps what was said about it. */
static void moving_does_not_ask_twice(void **state)
{
	const struct cache_answer *a = used_answer("a.example", 3000, 2);

	assert_true(cache_wants_prefetch(a, 2900));
	for (unsigned i = 0; i < 10000; i++) {
		char name[40];

		snprintf(name, sizeof(name), "n%u.example", i);
		made_answer(m, name, 1, i, 3000, false);
		put(2900);
		rcu_quiesce();
		if (i % 100)
			continue;
		assert_non_null(find("a.example", 2900));
		assert_false(cache_wants_prefetch(find("a.example", 2900), 2900));
		cache_tidy(c, 2900);
	}
	assert_ptr_not_equal(find("a.example", 2900), a);
	assert_int_equal(stat_now().prefetches, 1);
}

/* --- kinds --- */

static void counts_kinds(void **state)
{
	struct cache_kinds k;

	limit(0, 3000, 3000, 50);
	put_many("p", 5, 100, 0);
	put_many("old", 4, 10, 0);
	for (unsigned i = 0; i < 3; i++) {
		char name[40];

		snprintf(name, sizeof(name), "d%u.example", i);
		made_negative(m, name, RCODE_NOERROR, 100, 100);
		put(0);
	}
	made_negative(m, "x.example", RCODE_NXDOMAIN, 100, 100);
	put(0);
	cache_stat_kinds(c, 20, &k);
	assert_int_equal(k.positive, 5);
	assert_int_equal(k.nodata, 3);
	assert_int_equal(k.nxdomain, 1);
	assert_int_equal(k.stale, 4);
	cache_stat_kinds(c, 60, &k);
	assert_int_equal(k.stale, 0);
	assert_int_equal(k.positive, 5);
	cache_stat_kinds(c, 100, &k);
	assert_int_equal(k.positive, 0);
	assert_int_equal(k.stale, 9);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(without_limits_the_defaults_hold), TEST(bounds_are_written_into_the_message), TEST(a_least_ttl_keeps_what_has_none),
		TEST(a_least_ttl_keeps_no_failure_and_nothing_cut), TEST(negative_answers_have_a_bound_of_their_own), TEST(signed_rdata_stays),
		TEST(expired_answers_can_be_found_as_such), TEST(a_fresh_one_takes_the_place_of_the_stale), TEST(tidying_keeps_stale_ones_that_are_asked_for),
		TEST(stale_ones_are_worth_less_than_live_ones), TEST(a_stale_one_gives_way_in_its_bucket), TEST(wants_a_busy_answer_refreshed_once),
		TEST(wants_nothing_rare_short_or_over), TEST(moving_does_not_ask_twice), TEST(counts_kinds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
