/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Answers that are not taken at their word: the case of letters, nothing without an SOA; and what takes long or failed. */
#include "asker.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

static int setup_cases(void **state)
{
	int r = setup_with(true);

	upstreams[0].random_case = upstreams[1].random_case = true;
	return r < 0 ? r : resolver_configure(resolver, &config);
}

static void letters_are_sent_in_random_case(void **state)
{
	enum { MANY = 50 };
	static struct ask k[MANY];

	for (unsigned i = 0; i < MANY; i++) {
		char text[48];

		snprintf(text, sizeof(text), "a-name-with-many-letters%u.example", i % 40);
		ask(&k[i], 0, text);
	}
	run();
	for (unsigned i = 0; i < MANY; i++) {
		assert_true(is_duly_from(&k[i], 1));
		assert_true(k[i].is_lower);
	}
	/* Equal ones are asked once; a name of 28 letters is hardly ever all lower. */
	assert_calm_equal(fake[0].udp_queries, 40);
	assert_calm_equal(fake[0].uppers, 40);
	assert_calm_equal(fake[0].tcp_queries, 0);
	assert_calm_equal(stat_of(0).wrong_case, 0);
	/* Only where it is said. */
	upstreams[0].random_case = false;
	configure(2);
	ask_once("another-with-many-letters.example");
	assert_calm_equal(fake[0].uppers, 40);
}

static void another_case_is_asked_by_tcp(void **state)
{
	struct ask k;
	uint64_t wrong;

	atomic_store(&fake[1].mode, FAKE_LOWER);
	for (unsigned i = 0; i < 10; i++) {
		char text[48];

		snprintf(text, sizeof(text), "a-name-with-many-letters%u.example", i);
		ask(&k, 1, text);
		run();
		assert_true(is_from(&k, 2));
	}
	assert_true(fake[1].tcp_queries >= 9);
	assert_true(stat_of(2).wrong_case >= 9);
	assert_true(stat_of(2).is_healthy);
	assert_in_range(stat_of(2).timeouts, 0, 3); /* nobody waits for those by UDP; this machine may stall */
	/* What is forged in a wrong case is never taken, and the truth behind it is. */
	atomic_store(&fake[1].mode, FAKE_NORMAL);
	wrong = stat_of(2).wrong_case;
	for (unsigned i = 0; i < 10; i++) {
		char text[48];

		snprintf(text, sizeof(text), "miscased%u.many-letters.example", i);
		ask(&k, 1, text);
		run();
		assert_true(is_from(&k, 2));
	}
	assert_true(stat_of(2).wrong_case >= wrong + 10);
}

static void nothing_without_an_soa_is_tried_elsewhere(void **state)
{
	struct ask k;

	atomic_store(&fake[0].mode, FAKE_EMPTY);
	k = ask_once("www.example");
	assert_true(is_from(&k, 2));
	atomic_store(&fake[0].mode, FAKE_ALIAS);
	k = ask_once("www2.example");
	assert_true(is_from(&k, 2));
	/* It is no failure: the same is asked again, and has the truth when the server has it. */
	atomic_store(&fake[0].mode, FAKE_NORMAL);
	k = ask_once("www2.example");
	assert_true(is_duly_from(&k, 1));
	assert_true(stat_of(0).is_healthy);
	/* With an SOA it is an answer. */
	k = ask_once("nodata.example");
	assert_int_equal(k.result, UPSTREAM_OK);
	assert_int_equal(k.addr_count, 0);
	assert_calm_equal(fake[1].udp_queries, 2);
}

static unsigned seen_by_second;

static bool has_second_more(void)
{
	return fake[1].udp_queries > seen_by_second;
}

static void nothing_is_given_when_all_say_so(void **state)
{
	struct ask k = ask_once("empty.example");
	uint64_t before;

	assert_int_equal(k.result, UPSTREAM_OK);
	assert_int_equal(k.rcode, RCODE_NOERROR);
	assert_int_equal(k.addr_count, 0);
	assert_calm_equal(fake[0].udp_queries, 1);
	assert_calm_equal(fake[1].udp_queries, 1);
	k = ask_once("alias.example");
	assert_int_equal(k.result, UPSTREAM_OK);
	assert_int_equal(k.chain_len, 2);
	/* Or have nothing else to say: what the first said was kept. */
	atomic_store(&fake[1].mode, FAKE_SERVFAIL);
	k = ask_once("alias2.example");
	assert_int_equal(k.result, UPSTREAM_OK);
	assert_int_equal(k.rcode, RCODE_NOERROR);
	assert_int_equal(k.chain_len, 2);
	/* It is asked once, not as often as there are tries. */
	atomic_store(&fake[1].mode, FAKE_SILENT);
	seen_by_second = fake[1].udp_queries;
	before = stat_of(0).timeouts;
	k = ask_once("alias3.example");
	assert_int_equal(k.chain_len, 2);
	run_until(has_second_more);
	if (stat_of(0).timeouts == before)
		assert_int_equal(fake[1].udp_queries - seen_by_second, 1);
	/* Nobody else is there. */
	atomic_store(&fake[1].mode, FAKE_NORMAL);
	ask(&k, 1, "empty2.example");
	run();
	assert_int_equal(k.result, UPSTREAM_OK);
	/* None of it is a failure. */
	assert_int_equal(stat_of(0).failure_hits, 0);
	k = ask_once("empty.example");
	assert_int_equal(k.result, UPSTREAM_OK);
}

static bool is_first_told;
static struct ask told[3];

static bool are_told(void)
{
	unsigned count = 0;

	for (unsigned i = 0; i < 3; i++)
		count += told[i].slow_count > 0;
	return is_first_told ? count >= 1 : count == 3;
}

static void who_waits_long_is_told_once(void **state)
{
	struct ask quick;

	ask(&told[0], 1, "silent.example");
	ask(&told[1], 1, "silent.example");
	told[2].slow_count = 0;
	is_first_told = true;
	run_until(are_told);
	assert_true(told[0].slow_us - told[0].asked_us >= 400000); /* an unknown server has 500 ms */
	assert_false(told[0].is_done);
	/* Who comes later is told at once. */
	ask(&told[2], 1, "silent.example");
	assert_int_equal(told[2].slow_count, 0);
	is_first_told = false;
	run_until(are_told);
	assert_false(told[2].is_done);
	assert_true(told[2].slow_us - told[2].asked_us < 400000);
	run();
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(told[i].slow_count, 1);
		assert_int_equal(told[i].result, UPSTREAM_TIMEOUT);
	}
	quick = ask_once("www.example");
	assert_int_equal(quick.result, UPSTREAM_OK);
	assert_calm_equal(quick.slow_count, 0);
}

static void leave_when_told(struct upstream_wait *w)
{
	for (unsigned i = 0; i < 3; i++) {
		upstream_cancel(&told[i].wait);
		told[i].slow_count++;
	}
	waiting = 0;
	loop_stop(loop);
}

/* One who is told may cancel himself and others. */
static void who_is_told_may_leave(void **state)
{
	for (unsigned i = 0; i < 3; i++) {
		ask(&told[i], 1, "silent.example");
		told[i].wait.slow = leave_when_told;
	}
	is_first_told = true;
	run_until(are_told);
	run_for(50);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(told[i].slow_count, 1);
		assert_false(told[i].is_done);
	}
	told[0] = ask_once("www.example");
	assert_int_equal(told[0].result, UPSTREAM_OK);
}

static void what_failed_is_not_asked_again(void **state)
{
	struct ask k;
	unsigned asked;
	uint64_t failed_ms;

	k = ask_once("servfail.example");
	failed_ms = clock_ms();
	assert_int_equal(k.result, UPSTREAM_OK);
	assert_int_equal(k.rcode, RCODE_SERVFAIL);
	asked = fake[0].udp_queries;
	k = ask_once("servfail.example");
	if (clock_ms() - failed_ms >= UPSTREAM_FAILURE_MIN_MS)
		skip(); /* this machine stalls */
	assert_int_equal(k.result, UPSTREAM_FAILED);
	assert_int_equal(k.slow_count, 1);
	assert_calm_equal(fake[0].udp_queries, asked);
	assert_int_equal(stat_of(0).failure_hits, 1);
	/* Another type, another group, another flag is another question. */
	ask_variant(&k, 0, "servfail.example", true, true);
	run();
	assert_int_equal(k.result, UPSTREAM_OK);
	ask(&k, 1, "servfail.example");
	run();
	assert_int_equal(k.result, UPSTREAM_OK);
	/* It may be asked again; once it has an answer all is forgotten. */
	while (clock_ms() <= failed_ms + UPSTREAM_FAILURE_MIN_MS)
		run_for(20);
	asked = fake[0].udp_queries;
	k = ask_once("servfail.example");
	assert_int_equal(k.result, UPSTREAM_OK);
	assert_true(fake[0].udp_queries > asked);
	/* It failed again, and holds for longer. */
	failed_ms = clock_ms();
	while (clock_ms() <= failed_ms + UPSTREAM_FAILURE_MIN_MS + 100)
		run_for(20);
	k = ask_once("servfail.example");
	if (clock_ms() < failed_ms + 2 * UPSTREAM_FAILURE_MIN_MS)
		assert_int_equal(k.result, UPSTREAM_FAILED);
}

static void silence_and_nonsense_are_failures(void **state)
{
	struct ask silent, garbage;

	ask(&silent, 1, "silent.example");
	ask(&garbage, 1, "garbage.example");
	run();
	assert_int_equal(silent.result, UPSTREAM_TIMEOUT);
	assert_int_equal(garbage.result, UPSTREAM_BAD);
	ask(&silent, 1, "silent.example");
	ask(&garbage, 1, "garbage.example");
	run();
	assert_int_equal(silent.result, UPSTREAM_FAILED);
	assert_int_equal(garbage.result, UPSTREAM_FAILED);
	assert_int_equal(stat_of(2).failure_hits, 2);
	assert_int_equal(stat_of(0).failure_hits, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(letters_are_sent_in_random_case, setup_cases, teardown),
	        cmocka_unit_test_setup_teardown(another_case_is_asked_by_tcp, setup_cases, teardown),
	        cmocka_unit_test_setup_teardown(nothing_without_an_soa_is_tried_elsewhere, setup, teardown),
	        cmocka_unit_test_setup_teardown(nothing_is_given_when_all_say_so, setup, teardown),
	        cmocka_unit_test_setup_teardown(who_waits_long_is_told_once, setup, teardown),
	        cmocka_unit_test_setup_teardown(who_is_told_may_leave, setup, teardown),
	        cmocka_unit_test_setup_teardown(what_failed_is_not_asked_again, setup, teardown),
	        cmocka_unit_test_setup_teardown(silence_and_nonsense_are_failures, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
