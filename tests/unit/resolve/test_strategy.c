/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which servers of a group are asked. */
#include "asker.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

static int setup_strategy(enum upstream_strategy strategy)
{
	int r = setup_with(true);

	for (unsigned i = 0; i < GROUPS; i++)
		upstreams[i].strategy = strategy;
	config.upstream_count = GROUPS;
	return r < 0 ? r : resolver_configure(resolver, &config);
}

static int setup_fastest(void **state)
{
	return setup_strategy(STRATEGY_FASTEST);
}

static int setup_all(void **state)
{
	return setup_strategy(STRATEGY_ALL);
}

/* Asks names one after another until one is answered by server `number`; how many it took. */
static unsigned ask_until_from(unsigned number, const char *what)
{
	uint64_t give_up_ms = clock_ms() + 25000;

	for (unsigned i = 0;; i++) {
		char text[48];
		struct ask k;

		snprintf(text, sizeof(text), "%s%u.example", what, i);
		k = ask_once(text);
		assert_int_equal(k.result, UPSTREAM_OK);
		if (is_from(&k, number))
			return i;
		assert_true(clock_ms() < give_up_ms);
		run_for(10);
	}
}

static void the_fastest_is_asked(void **state)
{
	unsigned asked, from_first = 0;

	atomic_store(&fake[0].delay_ms, 40);
	ask_until_from(2, "begin");
	asked = fake[0].udp_queries;
	for (unsigned i = 0; i < 100; i++) {
		char text[32];
		struct ask k;

		snprintf(text, sizeof(text), "n%u.example", i);
		k = ask_once(text);
		assert_int_equal(k.result, UPSTREAM_OK);
		from_first += is_from(&k, 1);
	}
	/* The other is only measured now and then, beside a question that the fastest answers. */
	assert_calm_equal(from_first, 0);
	if (!timeouts_so_far())
		assert_in_range(fake[0].udp_queries - asked, 0, 10);
	/* They change places, which is seen. */
	atomic_store(&fake[0].delay_ms, 0);
	atomic_store(&fake[1].delay_ms, 40);
	ask_until_from(1, "change");
}

/* A measurement is nothing that anybody waits for: also when the server that is measured is silent. */
static void measuring_costs_no_one_time(void **state)
{
	unsigned slow = 0;

	atomic_store(&fake[0].mode, FAKE_SILENT);
	/* Nothing is known: the first in order may be asked first, so the second begins. */
	endpoints[0][0].port = fake[1].port;
	endpoints[0][1].port = fake[0].port;
	configure(GROUPS);
	warm_up(0);
	for (unsigned i = 0; i < 300; i++) {
		char text[32];
		struct ask k;

		snprintf(text, sizeof(text), "n%u.example", i);
		k = ask_once(text);
		assert_true(is_from(&k, 2));
		slow += took_us(&k) > 90000;
		run_for(10);
	}
	assert_true(fake[0].udp_queries >= 2);
	/* A machine that stalls may account for some. */
	assert_in_range(slow, 0, stat_of(0).timeouts);
}

/* Its thread may count a query later than the other one's answer came. */
static bool is_first_asked(void)
{
	return fake[0].udp_queries >= 1;
}

static void all_are_asked_and_the_first_wins(void **state)
{
	struct ask k;

	atomic_store(&fake[0].mode, FAKE_SILENT);
	k = ask_once("www.example");
	assert_true(is_from(&k, 2));
	assert_true(took_us(&k) < 450000 || timeouts_so_far()); /* an unknown server has 500 ms */
	run_until(is_first_asked);
	/* A failure that comes first is not the answer. */
	atomic_store(&fake[0].mode, FAKE_SERVFAIL);
	atomic_store(&fake[1].delay_ms, 50);
	k = ask_once("www2.example");
	assert_true(is_from(&k, 2));
	/* Nor is nothing without an SOA. */
	atomic_store(&fake[0].mode, FAKE_EMPTY);
	k = ask_once("www3.example");
	assert_true(is_from(&k, 2));
	/* Until all say so. */
	atomic_store(&fake[1].mode, FAKE_SERVFAIL);
	atomic_store(&fake[0].mode, FAKE_SERVFAIL);
	k = ask_once("www4.example");
	assert_int_equal(k.result, UPSTREAM_OK);
	assert_int_equal(k.rcode, RCODE_SERVFAIL);
	atomic_store(&fake[0].mode, FAKE_NORMAL);
	k = ask_once("nxdomain.example");
	assert_int_equal(k.rcode, RCODE_NXDOMAIN);
}

static unsigned servers_asked(void)
{
	unsigned count = 0;

	for (unsigned i = 0; i < SERVERS; i++)
		count += fake[i].udp_queries > 0;
	return count;
}

static bool are_enough_asked(void)
{
	return servers_asked() >= UPSTREAM_ALL_MAX;
}

static void not_more_than_a_few_are_asked_at_once(void **state)
{
	struct ask k;

	for (unsigned i = 0; i < SERVERS; i++)
		atomic_store(&fake[i].delay_ms, 100);
	ask(&k, 2, "www.example");
	run_until(are_enough_asked);
	assert_false(k.is_done);
	assert_calm_equal(servers_asked(), UPSTREAM_ALL_MAX);
	run();
	assert_int_equal(k.result, UPSTREAM_OK);
	assert_calm_equal(servers_asked(), UPSTREAM_ALL_MAX);
	/* Those that fail make room for the others. */
	for (unsigned i = 0; i < UPSTREAM_ALL_MAX; i++)
		atomic_store(&fake[i].mode, FAKE_SERVFAIL);
	ask(&k, 2, "www2.example");
	run();
	assert_true(is_from(&k, UPSTREAM_ALL_MAX + 1) || is_from(&k, UPSTREAM_ALL_MAX + 2));
}

/* Truncated by one of them: asked by TCP. */
static void all_and_a_truncated_answer(void **state)
{
	struct ask k = ask_once("tc.example");

	assert_int_equal(k.result, UPSTREAM_OK);
	assert_int_equal(k.addr_count, 10);
	assert_true(fake[0].tcp_queries + fake[1].tcp_queries >= 1);
}

static void ordered_goes_back_to_the_first(void **state)
{
	struct ask k;

	warm_up(0);
	atomic_store(&fake[0].mode, FAKE_SILENT);
	for (unsigned i = 0; stat_of(0).is_healthy; i++) {
		char text[32];

		snprintf(text, sizeof(text), "n%u.example", i);
		k = ask_once(text);
		assert_true(is_from(&k, 2));
	}
	atomic_store(&fake[0].mode, FAKE_NORMAL);
	run_until(first_is_healthy);
	ask_until_from(1, "back");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(the_fastest_is_asked, setup_fastest, teardown),
	        cmocka_unit_test_setup_teardown(measuring_costs_no_one_time, setup_fastest, teardown),
	        cmocka_unit_test_setup_teardown(all_are_asked_and_the_first_wins, setup_all, teardown),
	        cmocka_unit_test_setup_teardown(not_more_than_a_few_are_asked_at_once, setup_all, teardown),
	        cmocka_unit_test_setup_teardown(all_and_a_truncated_answer, setup_all, teardown),
	        cmocka_unit_test_setup_teardown(ordered_goes_back_to_the_first, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
