/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/err.h"
#include "cli/load_names.h"

static struct names *with(const char *pattern)
{
	struct names *n = names_new(7);

	assert_non_null(n);
	assert_int_equal(names_add_pattern(n, pattern, 1, 1), 0);
	return n;
}

/* The next question as "name type". */
static const char *next_text(struct names *n)
{
	static char text[NAME_TEXT_MAX + 8];
	uint8_t question[QUESTION_MAX];
	size_t len = names_next(n, question);
	struct name name;
	int used = name_from_wire(&name, question, len);

	assert_int_equal(used + 4, len);
	assert_int_equal(question[len - 2] << 8 | question[len - 1], 1);
	name_to_text(text, question);
	sprintf(text + strlen(text), " %u", (unsigned)(question[len - 4] << 8 | question[len - 3]));
	return text;
}

static void test_plain_names(void **state)
{
	struct names *n = with("Example.ORG. AAAA");

	assert_string_equal(next_text(n), "example.org 28");
	assert_string_equal(next_text(n), "example.org 28");
	names_free(n);
	n = with(".");
	assert_string_equal(next_text(n), ". 1");
	names_free(n);
	n = with("bücher.example");
	assert_string_equal(next_text(n), "xn--bcher-kva.example 1");
	names_free(n);
}

static void test_letters_are_random_and_of_their_number(void **state)
{
	struct names *n = with("www.<10>.lan");
	unsigned seen[26] = {0};
	char last[NAME_TEXT_MAX] = "";

	for (int i = 0; i < 2000; i++) {
		const char *text = next_text(n);

		assert_int_equal(strlen(text), strlen("www.abcdefghij.lan 1"));
		assert_memory_equal(text, "www.", 4);
		assert_string_equal(text + 14, ".lan 1");
		assert_string_not_equal(text, last);
		strcpy(last, text);
		for (int k = 4; k < 14; k++) {
			assert_in_range(text[k], 'a', 'z');
			seen[text[k] - 'a']++;
		}
	}
	/* 20000 letters: each is expected 769 times, with a deviation of 27. The seed is fixed. */
	for (int i = 0; i < 26; i++)
		assert_in_range(seen[i], 769 - 200, 769 + 200);
	names_free(n);
}

static void test_longest_label_of_letters(void **state)
{
	struct names *n = with("<63>.<63>.<63>.<61>");

	assert_int_equal(strlen(next_text(n)), 253 + 2);
	names_free(n);
}

static void test_counter_and_mixed_labels(void **state)
{
	struct names *n = with("Host<#>x.<#>.lan TYPE65");
	char want[64];

	for (int i = 0; i < 1200; i++) {
		sprintf(want, "host%dx.%d.lan 65", i, i);
		assert_string_equal(next_text(n), want);
	}
	names_free(n);
}

static void test_same_seed_same_names(void **state)
{
	struct names *a = with("<5>.lan"), *b = with("<5>.lan");
	char text[NAME_TEXT_MAX];

	for (int i = 0; i < 100; i++) {
		strcpy(text, next_text(a));
		assert_string_equal(next_text(b), text);
	}
	names_free(a);
	names_free(b);
}

static void test_bad_patterns(void **state)
{
	static const struct {
		const char *pattern;
		int r;
	} cases[] = {{"", NW_EMALFORMED}, {"a..<3>", NW_EMALFORMED}, {".<3>", NW_EMALFORMED}, {"<>.lan", NW_EMALFORMED},
	        {"<3.lan", NW_EMALFORMED}, {"<0>.lan", NW_EMALFORMED}, {"<x>.lan", NW_EMALFORMED}, {"<64>.lan", NW_ETOOLONG},
	        {"a<63>.lan", NW_ETOOLONG}, {"<99999999999>.lan", NW_ETOOLONG}, {"<60><#>.lan", NW_ETOOLONG},
	        {"<63>.<63>.<63>.<62>", NW_ETOOLONG}, {"a.lan BOGUS", NW_EMALFORMED}, {"<3>.lan TYPE0", NW_EMALFORMED},
	        {"<3>.lan TYPE65536", NW_EMALFORMED}};
	struct names *n = names_new(1);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(names_add_pattern(n, cases[i].pattern, 1, 1), cases[i].r);
	assert_int_equal(names_count(n), 0);
	names_free(n);
}

static void write_file(char path[32], const char *text)
{
	int fd;

	strcpy(path, "/tmp/nw-names-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static void test_files(void **state)
{
	struct names *n = names_new(1);
	unsigned long line = 0;
	char path[32];

	write_file(path, "# names\n\nOne.example\r\n  two.example\tAAAA\nthree.example. HTTPS");
	assert_int_equal(names_add_file(n, path, 16, 1, true, &line), 0);
	for (int i = 0; i < 3; i++) {
		assert_string_equal(next_text(n), "one.example 16");
		assert_string_equal(next_text(n), "two.example 28");
		assert_string_equal(next_text(n), "three.example 65");
	}
	names_free(n);
	unlink(path);
}

static void test_bad_files(void **state)
{
	struct names *n = names_new(1);
	unsigned long line = 0;
	char path[32];

	write_file(path, "one.example\ntwo..example\n");
	assert_int_equal(names_add_file(n, path, 1, 1, false, &line), NW_EMALFORMED);
	assert_int_equal(line, 2);
	unlink(path);
	assert_int_equal(names_add_file(n, path, 1, 1, false, &line), -ENOENT);
	write_file(path, "# none\n");
	assert_int_equal(names_add_file(n, path, 1, 1, false, &line), -ENODATA);
	unlink(path);
	assert_int_equal(names_count(n), 0);
	names_free(n);
}

static void test_drawn_from_a_file(void **state)
{
	struct names *n = names_new(3);
	unsigned long line;
	unsigned seen[4] = {0};
	char path[32];

	write_file(path, "a\nb\nc\nd\n");
	assert_int_equal(names_add_file(n, path, 1, 1, false, &line), 0);
	for (int i = 0; i < 4000; i++)
		seen[next_text(n)[0] - 'a']++;
	for (int i = 0; i < 4; i++)
		assert_in_range(seen[i], 850, 1150);
	names_free(n);
	unlink(path);
}

static void test_weights(void **state)
{
	struct names *n = names_new(9);
	unsigned seen[3] = {0};

	assert_int_equal(names_add_pattern(n, "a", 1, 1), 0);
	assert_int_equal(names_add_pattern(n, "b", 1, 3), 0);
	assert_int_equal(names_add_pattern(n, "c", 1, 6), 0);
	for (int i = 0; i < 10000; i++)
		seen[next_text(n)[0] - 'a']++;
	assert_in_range(seen[0], 850, 1150);
	assert_in_range(seen[1], 2800, 3200);
	assert_in_range(seen[2], 5800, 6200);
	names_free(n);
}

static void test_parts_are_limited(void **state)
{
	struct names *n = names_new(9);

	for (int i = 0; i < NAMES_PARTS_MAX; i++)
		assert_int_equal(names_add_pattern(n, "a", 1, 1), 0);
	assert_int_equal(names_add_pattern(n, "a", 1, 1), NW_EFULL);
	names_free(n);
}

static void test_types(void **state)
{
	assert_int_equal(type_from_text("a", 1), 1);
	assert_int_equal(type_from_text("Https", 5), 65);
	assert_int_equal(type_from_text("TYPE1234", 8), 1234);
	assert_int_equal(type_from_text("TYPE", 4), 0);
	assert_int_equal(type_from_text("AA", 2), 0);
	assert_int_equal(type_from_text("", 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_plain_names),
	        cmocka_unit_test(test_letters_are_random_and_of_their_number), cmocka_unit_test(test_longest_label_of_letters),
	        cmocka_unit_test(test_counter_and_mixed_labels), cmocka_unit_test(test_same_seed_same_names),
	        cmocka_unit_test(test_bad_patterns), cmocka_unit_test(test_files), cmocka_unit_test(test_bad_files),
	        cmocka_unit_test(test_drawn_from_a_file), cmocka_unit_test(test_weights),
	        cmocka_unit_test(test_parts_are_limited), cmocka_unit_test(test_types)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
