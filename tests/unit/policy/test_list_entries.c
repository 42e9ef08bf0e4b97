/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Counted sets of entries against a plain array, through many more additions than the set ever holds; rules up to their length. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "base/hash.h"
#include "policy/list_entries.h"

enum { KEYS = 500 };

static struct entry_key numbered(unsigned i)
{
	struct entry_key k = {.kind = i % 7 ? KIND_SUFFIX : ENTRY_RULE};
	struct name n;
	char text[64];
	int len = snprintf(text, sizeof(text), "n%u.example", i);

	assert_int_equal(name_from_text(&n, text, (size_t)len), 0);
	k.len = i % 7 ? n.len : (uint16_t)(1 + i * 2);
	memset(k.bytes, 'r', sizeof(k.bytes));
	memcpy(k.bytes, n.wire, n.len);
	return k;
}

static void test_model(void **state)
{
	uint32_t counts[KEYS] = {0}, count;
	uint64_t random = 1, names = 0, rules = 0, total = 0;
	struct entry_set s, copy;
	struct entry_key k;

	entry_set_init(&s);
	for (unsigned step = 0; step < 200000; step++) {
		unsigned i, op;

		random = random * 6364136223846793005ull + 1442695040888963407ull;
		i = (unsigned)hash_range(random, KEYS);
		op = (unsigned)(random >> 7) & 7;
		k = numbered(i);
		if (op < 3) {
			assert_int_equal(entry_set_add(&s, &k, op + 1), 0);
			counts[i] += op + 1;
		} else if (op < 6) {
			assert_int_equal(entry_set_take(&s, &k), counts[i] > 0);
			counts[i] -= counts[i] > 0;
		} else {
			entry_set_clear(&s, &k);
			counts[i] = 0;
		}
		assert_int_equal(entry_set_count(&s, &k), counts[i]);
	}
	for (unsigned i = 0; i < KEYS; i++) {
		k = numbered(i);
		assert_int_equal(entry_set_count(&s, &k), counts[i]);
		*(i % 7 ? &names : &rules) += counts[i] > 0;
		total += counts[i];
	}
	assert_true(s.names == names && s.rules == rules && s.prefixes == 0 && s.distinct == names + rules && s.total == total);
	assert_int_equal(entry_set_copy(&copy, &s), 0);
	for (size_t at = 0; entry_set_next(&s, &at, &k, &count);)
		assert_int_equal(entry_set_count(&copy, &k), count);
	entry_set_free(&copy);
	entry_set_free(&s);
}

/* Entries that come and go leave no trace: the set stays as small as what it holds at a time. */
static void test_passing_through(void **state)
{
	struct entry_set s;
	struct entry_key k;
	char text[64];

	entry_set_init(&s);
	for (unsigned i = 0; i < 100000; i++) {
		struct name n;
		int len = snprintf(text, sizeof(text), "n%u.example", i);

		assert_int_equal(name_from_text(&n, text, (size_t)len), 0);
		k = (struct entry_key){.kind = KIND_SUFFIX, .len = n.len};
		memcpy(k.bytes, n.wire, n.len);
		assert_int_equal(entry_set_add(&s, &k, 1), 0);
		assert_true(i < 10 || entry_set_take(&s, &k));
	}
	assert_int_equal(s.distinct, 10);
	assert_true(s.cap < 8192);
	entry_set_free(&s);
}

static void test_longest_rule(void **state)
{
	struct entry_key k = {.kind = ENTRY_RULE, .len = EXPR_TEXT_MAX}, got;
	struct entry_set s;
	uint32_t count;
	size_t at = 0;

	memset(k.bytes, 'x', sizeof(k.bytes));
	entry_set_init(&s);
	assert_int_equal(entry_set_add(&s, &k, 2), 0);
	assert_true(entry_set_next(&s, &at, &got, &count));
	assert_true(got.len == EXPR_TEXT_MAX && count == 2 && entry_key_is_rule(&got) && !entry_key_is_name(&got));
	assert_memory_equal(got.bytes, k.bytes, EXPR_TEXT_MAX);
	entry_set_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_model), cmocka_unit_test(test_passing_through), cmocka_unit_test(test_longest_rule)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
