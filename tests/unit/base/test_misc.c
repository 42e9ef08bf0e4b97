/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Error texts, hashes and clocks. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"

static void every_error_has_a_text(void **state)
{
	for (int r = NW_EMALFORMED; r <= NW_ECONFIG; r++) {
		assert_non_null(nw_strerror(r));
		for (int other = NW_EMALFORMED; other < r; other++)
			assert_string_not_equal(nw_strerror(r), nw_strerror(other));
	}
	assert_string_equal(nw_strerror(-ENOENT), strerror(ENOENT));
	assert_string_equal(nw_strerror(0), "success");
	assert_string_equal(nw_strerror(5), "success");
	assert_string_equal(nw_strerror(-5000), "unknown error -5000");
}

static void hashes_depend_on_bytes_and_seed(void **state)
{
	assert_true(hash_bytes("abc", 3, 1) == hash_bytes("abcd", 3, 1));
	assert_true(hash_bytes("abc", 3, 1) != hash_bytes("abc", 3, 2));
	assert_true(hash_bytes("abc", 3, 1) != hash_bytes("abd", 3, 1));
	assert_true(hash_seed() != hash_seed());
	for (unsigned i = 0; i < 1000; i++)
		assert_true(hash_range(hash_bytes(&i, sizeof(i), 0), 7) < 7);
	assert_int_equal(hash_range(UINT64_MAX, 10), 9);
	assert_int_equal(hash_range(0, 10), 0);
}

static void the_clock_does_not_run_back(void **state)
{
	uint64_t us = clock_us(), ms = clock_ms();

	assert_true(ms >= us / 1000);
	assert_true(clock_us() >= us);
	assert_true(clock_wall_s() > 1600000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_error_has_a_text),
		cmocka_unit_test(hashes_depend_on_bytes_and_seed),
		cmocka_unit_test(the_clock_does_not_run_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
