/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Range arithmetic against a model of 256 addresses at both ends of each family's space. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "steer/ranges.h"

enum { SPACE = 256, ROUNDS = 4000 };

/* Even numbers' space begins at the first address, odd ones' ends at the last. */
static struct addr place(int kind, unsigned n)
{
	struct addr a = { .family = kind & 2 ? AF_INET6 : AF_INET };
	unsigned len = kind & 2 ? 16 : 4;
	if (kind & 1)
		memset(a.b, 0xff, len);
	a.b[len - 1] = (uint8_t)n;
	return a;
}

static unsigned random_ranges(int kind, struct range *v, bool *model)
{
	unsigned count = (unsigned)rand() % 12;
	memset(model, 0, SPACE);
	for (unsigned i = 0; i < count; i++) {
		unsigned a = (unsigned)rand() % SPACE, b = rand() % 4 ? a + (unsigned)rand() % 40 : a;
		b = b < SPACE ? b : SPACE - 1;
		v[i] = (struct range){ place(kind, a), place(kind, b) };
		if (i && rand() % 10 == 0 && a < b) {
			v[i] = (struct range){ place(kind, b), place(kind, a) }; /* ends before it begins */
			continue;
		}
		memset(model + a, 1, b - a + 1);
	}
	return count;
}

static void check(int kind, const struct range *v, unsigned count, const bool *model)
{
	for (unsigned n = 0; n < SPACE; n++) {
		struct addr a = place(kind, n);
		assert_int_equal(ranges_have(v, count, &a), model[n]);
	}
	for (unsigned i = 1; i < count; i++) {
		struct addr after = v[i - 1].last;
		assert_true(addr_step(&after, true) && memcmp(v[i].first.b, after.b, 16) >= 0);
	}
}

static void test_against_a_model(void **state)
{
	(void)state;
	srand(11);
	for (unsigned round = 0; round < ROUNDS; round++) {
		int kind = (int)(round % 4);
		struct range a[12], b[12];
		bool in_a[SPACE], in_b[SPACE];
		struct range_list rest = { 0 };
		unsigned count_a = ranges_order(a, random_ranges(kind, a, in_a)), count_b = ranges_order(b, random_ranges(kind, b, in_b));
		check(kind, a, count_a, in_a);
		assert_int_equal(ranges_subtract(&rest, a, count_a, b, count_b), 0);
		for (unsigned n = 0; n < SPACE; n++)
			in_a[n] = in_a[n] && !in_b[n];
		check(kind, rest.v, rest.count, in_a);
		range_list_free(&rest);
	}
}

static void test_nothing(void **state)
{
	(void)state;
	struct range_list rest = { 0 };
	struct addr a = place(0, 1);
	assert_int_equal(ranges_order(NULL, 0), 0);
	assert_int_equal(ranges_subtract(&rest, NULL, 0, NULL, 0), 0);
	assert_false(ranges_have(NULL, 0, &a));
	a = place(1, 255);
	assert_false(addr_step(&a, true));
	assert_int_equal(a.b[3], 255);
	a = place(2, 0);
	assert_false(addr_step(&a, false));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_against_a_model), cmocka_unit_test(test_nothing) };
	return cmocka_run_group_tests_name("steer ranges", tests, NULL, NULL);
}
