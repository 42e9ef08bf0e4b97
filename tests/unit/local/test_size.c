/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Large tables: 200,000 lines of hosts, every name found, the memory of each, and that no entry is kept where none is needed. What a look-up costs is for
 * the bench: clocks do not make a test. */
#include "world.h"
#include <stdio.h>
#include <stdlib.h>

enum { LINES = 200000, BEYOND_WIRE_BYTES_MAX = 120 };

static struct world w;
static char *text;

static int begin(void **state)
{
	world_begin(&w);
	text = malloc(LINES * 64);
	return !text;
}

static int end(void **state)
{
	world_end(&w);
	free(text);
	return 0;
}

static void a_list_of_blocked_names(void **state)
{
	struct local_stat s;
	size_t at = 0, wire_bytes = 0;
	char name[64];

	world_domain(&w, "lan");
	for (unsigned i = 0; i < LINES; i++) {
		int n = sprintf(name, "ads%u.host%u.example", i % 7, i);

		wire_bytes += (size_t)n + 2;
		at += (size_t)sprintf(text + at, "0.0.0.0 %s\n", name);
	}
	world_hosts(&w, text);
	world_build(&w);
	for (unsigned i = 0; i < LINES; i += 101) {
		sprintf(name, "ads%u.host%u.example", i % 7, i);
		assert_ask(&w, name, RR_A, "A 0.0.0.0");
		assert_int_equal(w.a.line, i + 1);
	}
	assert_ask(&w, "host5.example", RR_A, "none");
	local_stat(w.l, &s);
	assert_int_equal(s.names, LINES);
	assert_int_equal(s.records, LINES);
	assert_int_equal(s.bad_lines, 0);
	print_message("%.1f bytes a name beyond its wire length of %.1f\n", (double)(s.memory_bytes - wire_bytes) / LINES,
	        (double)wire_bytes / LINES);
	assert_true(s.memory_bytes < wire_bytes + (size_t)LINES * BEYOND_WIRE_BYTES_MAX);
}

static void as_many_hosts(void **state)
{
	size_t at = 0;
	char name[128], expected[128];

	world_domain(&w, "lan");
	for (unsigned i = 0; i < LINES; i++)
		at += (size_t)sprintf(text + at, "10.%u.%u.%u host%u\n", i >> 16, i >> 8 & 255, i & 255, i);
	world_hosts(&w, text);
	world_build(&w);
	for (unsigned i = 0; i < LINES; i += 97) {
		sprintf(name, "host%u.lan", i);
		sprintf(expected, "A 10.%u.%u.%u", i >> 16, i >> 8 & 255, i & 255);
		assert_ask(&w, name, RR_A, expected);
		sprintf(name, "%u.%u.%u.10.in-addr.arpa", i & 255, i >> 8 & 255, i >> 16);
		sprintf(expected, "PTR host%u.lan", i);
		assert_ask(&w, name, RR_PTR, expected);
	}
	assert_ask(&w, "1.0.255.10.in-addr.arpa", RR_PTR, "nxdomain");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(a_list_of_blocked_names, begin, end),
	        cmocka_unit_test_setup_teardown(as_many_hosts, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
