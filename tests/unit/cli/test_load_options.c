/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <setjmp.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "cli/load_options.h"

enum { WORDS_MAX = 24 };

/* Splits at blanks: no option here has one in its value. */
static int parse(struct load_command *c, const char *line)
{
	static char text[512];
	char *argv[WORDS_MAX + 1], *rest = text;
	int argc = 0, r;

	snprintf(text, sizeof(text), "%s", line);
	while (argc < WORDS_MAX && (argv[argc] = strsep(&rest, " ")))
		argc++;
	argv[argc] = NULL;
	r = load_command_parse(c, argc, argv);
	return r;
}

static void test_defaults(void **state)
{
	struct load_command c;

	assert_int_equal(parse(&c, "flood"), 0);
	assert_true(c.options.is_flood);
	assert_string_equal(c.server, "127.0.0.1@53");
	assert_int_equal(c.options.rate, 1000);
	assert_int_equal(c.options.duration_ns, 10000000000);
	assert_int_equal(c.options.in_flight, 0);
	assert_int_equal(c.options.sources, 8);
	assert_string_equal(c.asked, "www.<10>.lan");
	load_command_free(&c);
	assert_int_equal(parse(&c, "latency"), 0);
	assert_false(c.options.is_flood);
	assert_int_equal(c.options.in_flight, 1);
	assert_int_equal(c.options.sources, 1);
	load_command_free(&c);
}

static void test_all_options(void **state)
{
	struct load_command c;

	assert_int_equal(parse(&c, "flood --server [::1]@5353 --rate 500 --duration 1500ms --count 9 --timeout 3s --tcp-share 40 "
	                           "--connections 7 "
	                           "--pipeline 9 --reuse 11 --sources 5"),
	        0);
	assert_string_equal(c.server, "[::1]@5353");
	assert_int_equal(c.options.server.port, 5353);
	assert_int_equal(c.options.rate, 500);
	assert_int_equal(c.options.duration_ns, 1500000000);
	assert_int_equal(c.options.count, 9);
	assert_int_equal(c.options.timeout_ns, 3000000000);
	assert_int_equal(c.options.tcp_percent, 40);
	assert_int_equal(c.options.connections, 7);
	assert_int_equal(c.options.pipeline, 9);
	assert_int_equal(c.options.reuse, 11);
	assert_int_equal(c.options.sources, 5);
	load_command_free(&c);
	assert_int_equal(parse(&c, "flood --name a.example:3 --name b.example --window 32 --seed 5 --json --edns 1232 --type "
	                           "AAAA --ordered --tcp"),
	        0);
	assert_int_equal(names_count(c.names), 2);
	assert_string_equal(c.asked, "a.example");
	assert_int_equal(c.options.in_flight, 32);
	assert_int_equal(c.options.seed, 5);
	assert_int_equal(c.options.edns, 1232);
	assert_int_equal(c.options.tcp_percent, 100);
	assert_true(c.is_json);
	load_command_free(&c);
}

static void test_refused(void **state)
{
	static const char *const lines[] = {"flood --rate 0", "flood --rate 2000001", "flood --rate -1", "flood --rate 10x",
	        "latency --rate 5", "flood --duration 0", "flood --duration 2h", "flood --duration 1y", "flood --timeout 61s",
	        "flood --server 1.2.3", "flood --server 1.2.3.4@0", "flood --type NONSENSE", "flood --tcp-share 101",
	        "flood --sources 65", "flood --sources 0", "flood --pipeline 0", "flood --edns 100", "flood --name a..b",
	        "flood --name a:0", "flood --names /nonexistent/names", "flood --mix /nonexistent/names:3", "flood --mix ,",
	        "flood www.example", "flood --no-such-option", "flood --count", "latency --in-flight 65537"};
	struct load_command c;
	int spoken = dup(2), null = open("/dev/null", O_WRONLY), accepted = 0;

	/* What is refused is said on standard error: not here. */
	assert_true(spoken >= 0 && null >= 0 && dup2(null, 2) == 2);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		accepted += parse(&c, lines[i]) >= 0;
		load_command_free(&c);
	}
	dup2(spoken, 2);
	close(spoken);
	close(null);
	assert_int_equal(accepted, 0);
}

static void test_durations(void **state)
{
	uint64_t ns;

	assert_int_equal(load_duration_parse(&ns, "90"), 0);
	assert_int_equal(ns, 90000000000);
	assert_int_equal(load_duration_parse(&ns, "2m"), 0);
	assert_int_equal(ns, 120000000000);
	assert_int_equal(load_duration_parse(&ns, "250ms"), 0);
	assert_int_equal(ns, 250000000);
	assert_true(load_duration_parse(&ns, "") < 0);
	assert_true(load_duration_parse(&ns, "-1s") < 0);
	assert_true(load_duration_parse(&ns, "99999999999999999999") < 0);
	assert_true(load_duration_parse(&ns, "18446744073709551615s") < 0);
}

static void test_weights_are_cut(void **state)
{
	char plain[] = "/a/b", weighted[] = "/a/b:12", zero[] = "x:0", word[] = "x:y";

	assert_int_equal(load_weight_cut(plain), 1);
	assert_int_equal(load_weight_cut(weighted), 12);
	assert_string_equal(weighted, "/a/b");
	assert_int_equal(load_weight_cut(zero), 0);
	assert_int_equal(load_weight_cut(word), 1);
	assert_string_equal(word, "x:y");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_defaults), cmocka_unit_test(test_all_options),
	        cmocka_unit_test(test_refused), cmocka_unit_test(test_durations), cmocka_unit_test(test_weights_are_cut)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
