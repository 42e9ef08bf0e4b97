/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The enforcer's mirror against a plain array, with deletions that shift what stands behind them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "steer/elements.h"

enum { KEYS = 9000, STEPS = 60000 };

struct model { bool is_in; uint64_t expires_ms; };
static struct model model[KEYS];

/* Some keys share the address, some the rule; both families. */
static uint32_t rule_of(unsigned key)
{
	return 1 + key % 3;
}

static struct addr addr_of(unsigned key)
{
	struct addr a = { .family = key % 2 ? AF_INET : AF_INET6 };
	uint32_t n = key / 3;
	memcpy(a.b, &n, 4);
	if (a.family == AF_INET6)
		a.b[15] = 1;
	return a;
}

static void check(const struct elements *t)
{
	unsigned count = 0;
	for (unsigned i = 0; i < KEYS; i++) {
		struct addr a = addr_of(i);
		const struct element *e = elements_find(t, rule_of(i), &a);
		assert_int_equal(e != NULL, model[i].is_in);
		if (!e)
			continue;
		assert_int_equal(e->expires_ms, model[i].expires_ms);
		assert_true(e->rule_id == rule_of(i) && addr_equal(&e->addr, &a));
		count++;
	}
	assert_int_equal(t->count, count);
}

static void test_random_steps(void **state)
{
	(void)state;
	struct elements t;
	srand(7);
	memset(model, 0, sizeof model);
	assert_int_equal(elements_init(&t), 0);
	for (unsigned i = 0; i < STEPS; i++) {
		unsigned key = (unsigned)rand() % KEYS;
		struct addr a = addr_of(key);
		if (rand() % 3) {
			struct element *e = elements_add(&t, rule_of(key), &a);
			assert_non_null(e);
			if (!model[key].is_in)
				assert_true(e->expires_ms == 0 && e->stamp == 0 && e->put_turn == 0);
			e->expires_ms = i + 1;
			model[key] = (struct model){ true, i + 1 };
		} else if (model[key].is_in) {
			elements_del(&t, elements_find(&t, rule_of(key), &a));
			model[key].is_in = false;
		}
		if (i % 10000 == 0)
			check(&t);
	}
	check(&t);
	elements_free(&t);
}

static unsigned visits[KEYS];

static unsigned key_of(const struct element *e)
{
	uint32_t n;
	memcpy(&n, e->addr.b, 4);
	for (unsigned k = n * 3; k < n * 3 + 3; k++) {
		struct addr a = addr_of(k);
		if (rule_of(k) == e->rule_id && addr_equal(&a, &e->addr))
			return k;
	}
	fail_msg("an element that nobody put in");
	return 0;
}

static bool visit_and_delete(void *ctx, struct element *e)
{
	unsigned key = key_of(e);
	(void)ctx;
	visits[key]++;
	if (key % 4 == 0)
		return false;
	model[key].is_in = false;
	return true;
}

static void test_walk_sees_all_and_deletes(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 20; round++) { /* another seed, so another place for the end of the table */
		struct elements t;
		assert_int_equal(elements_init(&t), 0);
		memset(visits, 0, sizeof visits);
		for (unsigned i = 0; i < 3000; i++) {
			struct addr a = addr_of(i);
			assert_non_null(elements_add(&t, rule_of(i), &a));
		}
		memset(model, 0, sizeof model);
		for (unsigned i = 0; i < 3000; i++)
			model[i].is_in = true;
		elements_walk(&t, visit_and_delete, NULL);
		for (unsigned i = 0; i < 3000; i++)
			assert_true(visits[i] >= 1);
		check(&t);
		elements_free(&t);
	}
}

static void test_unlike_keys_stay_apart(void **state)
{
	(void)state;
	struct elements t;
	struct addr four = { .family = AF_INET, .b = { 1, 2, 3, 4 } }, six = { .family = AF_INET6, .b = { 1, 2, 3, 4 } };
	assert_int_equal(elements_init(&t), 0);
	elements_add(&t, 1, &four)->expires_ms = 1;
	elements_add(&t, 2, &four)->expires_ms = 2;
	elements_add(&t, 1, &six)->expires_ms = 3;
	assert_int_equal(t.count, 3);
	assert_int_equal(elements_find(&t, 1, &four)->expires_ms, 1);
	assert_int_equal(elements_find(&t, 2, &four)->expires_ms, 2);
	assert_int_equal(elements_find(&t, 1, &six)->expires_ms, 3);
	assert_null(elements_find(&t, 0, &four)); /* no rule: never found, whatever stands there */
	elements_del(&t, elements_find(&t, 1, &four));
	assert_null(elements_find(&t, 1, &four));
	assert_non_null(elements_find(&t, 2, &four));
	elements_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_random_steps), cmocka_unit_test(test_walk_sees_all_and_deletes), cmocka_unit_test(test_unlike_keys_stay_apart) };
	return cmocka_run_group_tests_name("steer elements", tests, NULL, NULL);
}
