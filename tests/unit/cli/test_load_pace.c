/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include "cli/load_pace.h"

static void test_first_is_due_at_once(void **state)
{
	const struct pace p = {.rate = 1, .count = 10};

	assert_int_equal(pace_due(&p, 0), 1);
	assert_int_equal(pace_due(&p, 999999999), 1);
	assert_int_equal(pace_due(&p, 1000000000), 2);
	assert_int_equal(pace_due(&p, 100000000000), 10);
}

/* At any rate, a query is due exactly from its intended time on, also where the interval is no whole number of nanoseconds. */
static void test_both_ways_agree(void **state)
{
	static const uint64_t rates[] = {1, 3, 7, 999, 1000, 4097, 99991, 333333, 1999999, PACE_RATE_MAX};

	for (unsigned r = 0; r < sizeof(rates) / sizeof(rates[0]); r++) {
		const struct pace p = {.rate = rates[r], .count = rates[r] * PACE_SECONDS_MAX};

		for (uint64_t k = 0; k < 3000; k++) {
			/* Some near the start, some spread to the very end. */
			uint64_t i = k < 1000 && k < p.count ? k : (p.count - 1) / 2999 * k;
			uint64_t at_ns = pace_intended_ns(&p, i);

			assert_true(pace_due(&p, at_ns) >= i + 1);
			if (at_ns)
				assert_true(pace_due(&p, at_ns - 1) <= i);
		}
	}
}

static void test_a_second_holds_rate_queries(void **state)
{
	for (uint64_t rate = 1; rate <= PACE_RATE_MAX; rate = rate * 3 + 1) {
		const struct pace p = {.rate = rate, .count = UINT64_MAX};

		assert_int_equal(pace_due(&p, 999999999), rate);
		assert_int_equal(pace_due(&p, 59999999999), 60 * rate);
	}
}

static void test_no_overflow_at_the_limits(void **state)
{
	const uint64_t most = (uint64_t)PACE_RATE_MAX * PACE_SECONDS_MAX;
	const struct pace p = {.rate = PACE_RATE_MAX, .count = most};

	assert_int_equal(pace_intended_ns(&p, most - 1), (uint64_t)PACE_SECONDS_MAX * 1000000000 - 500);
	assert_int_equal(pace_due(&p, UINT64_MAX), most);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_first_is_due_at_once), cmocka_unit_test(test_both_ways_agree),
	        cmocka_unit_test(test_a_second_holds_rate_queries), cmocka_unit_test(test_no_overflow_at_the_limits)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
