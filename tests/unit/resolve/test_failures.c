/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The table of failed questions, with a clock of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "resolve/flight.h"

static struct resolver *r;
static struct group g, other;
static uint64_t now_ms;

uint64_t loop_now_ms(const struct loop *l)
{
	return now_ms;
}

static int setup(void **state)
{
	r = calloc(1, sizeof(*r));
	g = (struct group){.resolver = r};
	other = (struct group){.resolver = r};
	failures_forget(&g);
	failures_forget(&other);
	now_ms = 1000000;
	return r ? 0 : -1;
}

static int teardown(void **state)
{
	free(r);
	return 0;
}

static void it_holds_a_second_and_doubles(void **state)
{
	uint32_t for_ms[] = {1000, 2000, 4000, 8000, 16000, 30000, 30000};

	assert_int_equal(failure_find(r, &g, 7), FAILURE_NONE);
	for (unsigned i = 0; i < sizeof(for_ms) / sizeof(for_ms[0]); i++) {
		failure_add(r, &g, 7);
		now_ms += for_ms[i] - 1;
		assert_int_equal(failure_find(r, &g, 7), FAILURE_HOLDS);
		now_ms += 1;
		assert_int_equal(failure_find(r, &g, 7), FAILURE_OVER);
	}
	assert_in_range(UPSTREAM_FAILURE_MIN_MS, 1000, 300000); /* RFC 9520 3.2 */
	assert_in_range(UPSTREAM_FAILURE_MAX_MS, 1000, 300000);
	/* Long after it is as if it had never failed. */
	now_ms += 30000;
	assert_int_equal(failure_find(r, &g, 7), FAILURE_NONE);
	failure_add(r, &g, 7);
	now_ms += 1000;
	assert_int_equal(failure_find(r, &g, 7), FAILURE_OVER);
}

static void groups_have_their_own(void **state)
{
	failure_add(r, &g, 7);
	failure_add(r, &other, 8);
	assert_int_equal(failure_find(r, &g, 7), FAILURE_HOLDS);
	assert_int_equal(failure_find(r, &g, 8), FAILURE_NONE);
	assert_int_equal(failure_find(r, &other, 7), FAILURE_NONE);
	failures_forget(&g);
	assert_int_equal(failure_find(r, &g, 7), FAILURE_NONE);
	assert_int_equal(failure_find(r, &other, 8), FAILURE_HOLDS);
	failure_remove(r, &other, 8);
	assert_int_equal(failure_find(r, &other, 8), FAILURE_NONE);
	failure_remove(r, &other, 8);
}

/* Far more than there is room for: the newest of a set are there, and never more than all places. */
static void it_is_bounded(void **state)
{
	unsigned held = 0;

	for (uint64_t i = 0; i < 100000; i++)
		failure_add(r, &g, i * 0x9e3779b97f4a7c15);
	for (uint64_t i = 0; i < 100000; i++)
		held += failure_find(r, &g, i * 0x9e3779b97f4a7c15) == FAILURE_HOLDS;
	assert_in_range(held, UPSTREAM_FAILURES_MAX * 9 / 10, UPSTREAM_FAILURES_MAX);
	assert_int_equal(failure_find(r, &g, 99999 * 0x9e3779b97f4a7c15), FAILURE_HOLDS);
}

/* The clock's low 32 bits come round after 49 days, half of that is where a difference changes its sign. */
static void the_clock_comes_round(void **state)
{
	now_ms = 0xfffffe00;
	failure_add(r, &g, 7);
	now_ms += 999;
	assert_int_equal(failure_find(r, &g, 7), FAILURE_HOLDS);
	now_ms += 1;
	assert_int_equal(failure_find(r, &g, 7), FAILURE_OVER);
	for (unsigned day = 1; day < 60; day++) {
		now_ms += 86400000;
		assert_int_equal(failure_find(r, &g, 7), FAILURE_NONE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(it_holds_a_second_and_doubles, setup, teardown),
	        cmocka_unit_test_setup_teardown(groups_have_their_own, setup, teardown),
	        cmocka_unit_test_setup_teardown(it_is_bounded, setup, teardown),
	        cmocka_unit_test_setup_teardown(the_clock_comes_round, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
