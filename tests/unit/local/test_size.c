/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Large tables: 200,000 lines of hosts, every name found, the memory of each, and that no entry is kept where none is needed. What a look-up costs is for
 * the bench: clocks do not make a test. */
#include "world.h"
#include "local/local_private.h"
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

/* Past the limit names are left out; what is known stays, and may still get addresses. */
static void more_than_fit(void **state)
{
	struct local_stat s;

	local_names_max = 19;
	world_domain(&w, "lan");
	world_hosts(&w, "10.0.0.1 a.example\n10.0.0.2 b.example\n10.0.0.3 a.deep.under.lan\n");
	world_hosts(&w, "10.1.0.1 c1.d.example\n10.1.0.2 c2.d.example\n10.1.0.3 c3.d.example\n10.1.0.4 c4.d.example\n10.1.0.5 c5.d.example\n"
	                "10.1.0.6 c6.d.example\n10.1.0.7 c7.d.example\n10.1.0.8 c8.d.example\n10.1.0.9 c9.d.example\n10.1.0.10 c10.d.example\n"
	                "10.1.0.11 c11.d.example\n10.1.0.12 out1.d.example\n10.1.0.13 out2.late.lan\n10.0.0.9 a.example\n");
	world_build(&w);
	local_names_max = LOCAL_NAMES_MAX;
	local_stat(w.l, &s);
	assert_true(s.left_out >= 2);
	assert_int_equal(s.bad_lines, 0);
	assert_ask(&w, "a.example", RR_A, "A 10.0.0.1 A 10.0.0.9");
	assert_ask(&w, "c1.d.example", RR_A, "A 10.1.0.1");
	assert_ask(&w, "out1.d.example", RR_A, "none");
	assert_ask(&w, "out2.late.lan", RR_A, "nxdomain");
	assert_non_null(strstr(w.report.text.bytes, "hosts.1:"));
	assert_non_null(strstr(w.report.text.bytes, "left out"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(a_list_of_blocked_names, begin, end),
	        cmocka_unit_test_setup_teardown(as_many_hosts, begin, end),
	        cmocka_unit_test_setup_teardown(more_than_fit, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
