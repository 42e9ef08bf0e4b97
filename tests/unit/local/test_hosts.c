/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Hosts files: what is a name with an address, what is left out, and what is said of it. */
#include "world.h"
#include <stdio.h>

static struct world w;

static int begin(void **state)
{
	world_begin(&w);
	return 0;
}

static int end(void **state)
{
	world_end(&w);
	return 0;
}

static void all_that_lines_are_made_of(void **state)
{
	world_hosts(&w, "\xef\xbb\xbf"
	                "10.0.0.1 first.example\r\n"
	                "  10.0.0.2\tsecond.example\t\talias.example  # and a comment\r\n"
	                "10.0.0.3 THIRD.Example.#glued\n"
	                "\n   \t\r\n# 10.0.0.9 commented.example\n"
	                "2001:db8::1 first.example\n"
	                "::ffff:10.0.0.4 mapped.example\n"
	                "10.0.0.5 under_score.example 6x6.example\n"
	                "10.0.0.6 last.example");
	world_build(&w);
	assert_ask(&w, "first.example", RR_A, "A 10.0.0.1");
	assert_ask(&w, "first.example", RR_AAAA, "AAAA 2001:db8::1");
	assert_ask(&w, "alias.example", RR_A, "A 10.0.0.2");
	assert_ask(&w, "third.example", RR_A, "A 10.0.0.3");
	assert_ask(&w, "mapped.example", RR_AAAA, "AAAA ::ffff:10.0.0.4");
	assert_ask(&w, "under_score.example", RR_A, "A 10.0.0.5");
	assert_ask(&w, "6x6.example", RR_A, "A 10.0.0.5");
	assert_ask(&w, "last.example", RR_A, "A 10.0.0.6");
	assert_ask(&w, "commented.example", RR_A, "none");
	assert_ask(&w, "glued", RR_A, "none");
	assert_int_equal(w.report.warnings, 0);
}

static void names_are_exact_and_never_forwarded(void **state)
{
	world_hosts(&w, "10.0.0.1 nas.example\n");
	world_build(&w);
	assert_ask(&w, "nas.example", RR_A, "A 10.0.0.1");
	assert_int_equal(w.a.records[0].ttl_s, LOCAL_HOSTS_TTL_S);
	assert_int_equal(w.a.ede, EDE_NONE);
	assert_ask(&w, "nas.example", RR_AAAA, "nodata");
	assert_ask(&w, "nas.example", RR_HTTPS, "nodata");
	assert_ask(&w, "nas.example", RR_MX, "nodata");
	assert_ask(&w, "nas.example", RR_ANY, "A 10.0.0.1");
	assert_ask(&w, "nas.example", RR_DS, "nodata");
	assert_ask(&w, "a.nas.example", RR_A, "none");
	assert_ask(&w, "example", RR_A, "none");
}

static void several_lines_for_a_name(void **state)
{
	world_hosts(&w, "10.0.0.1 nas.example\n10.0.0.2 other.example nas.example\nfd00::1 nas.example\n10.0.0.1 nas.example\n");
	world_hosts(&w, "10.0.0.3 nas.example\n");
	world_build(&w);
	assert_ask(&w, "nas.example", RR_A, "A 10.0.0.1 A 10.0.0.2 A 10.0.0.3");
	assert_string_equal(w.a.source, "hosts.0");
	assert_int_equal(w.a.line, 1);
	assert_ask(&w, "nas.example", RR_ANY, "A 10.0.0.1 A 10.0.0.2 AAAA fd00::1 A 10.0.0.3");
	assert_ask(&w, "other.example", RR_A, "A 10.0.0.2");
	assert_int_equal(w.a.line, 2);
}

/* As lists of blocked names have them: 0.0.0.0 is an answer like any other. */
static void blocked_names(void **state)
{
	world_hosts(&w, "0.0.0.0 ads.example\n:: ads.example\n0.0.0.0 0.0.0.0\n127.0.0.1 local-ads.example\n");
	world_build(&w);
	assert_ask(&w, "ads.example", RR_A, "A 0.0.0.0");
	assert_ask(&w, "ads.example", RR_AAAA, "AAAA ::");
	assert_ask(&w, "0.0.0.0", RR_A, "none");
	assert_ask(&w, "0.0.0.0.in-addr.arpa", RR_PTR, "nxdomain");
	assert_int_equal(w.report.warnings, 0);
}

static void the_localhost_block_is_no_trouble(void **state)
{
	struct local_stat s;

	world_domain(&w, "lan");
	world_hosts(&w, "127.0.0.1 localhost localhost.localdomain local\n255.255.255.255 broadcasthost\n::1 localhost "
	                "ip6-localhost ip6-loopback\n"
	                "fe80::1%lo0 localhost scoped.example\nff02::1 ip6-allnodes\n0.0.0.0 0.0.0.0\n");
	world_build(&w);
	assert_ask(&w, "localhost", RR_A, "A 127.0.0.1");
	assert_ask(&w, "localhost", RR_AAAA, "AAAA ::1");
	assert_ask(&w, "scoped.example", RR_AAAA, "none");
	assert_ask(&w, "ip6-allnodes", RR_AAAA, "AAAA ff02::1");
	assert_ask(&w, "localhost.lan", RR_A, "nxdomain");
	assert_ask(&w, "1.0.0.127.in-addr.arpa", RR_PTR, "PTR localhost");
	local_stat(w.l, &s);
	assert_int_equal(s.bad_lines, 0);
	assert_int_equal(w.report.warnings, 0);
}

static void single_labels_are_known_under_the_domain(void **state)
{
	world_domain(&w, "home.example");
	world_hosts(&w, "10.0.0.1 nas other\n10.0.0.2 a.b\n");
	world_build(&w);
	assert_ask(&w, "nas", RR_A, "A 10.0.0.1");
	assert_ask(&w, "nas.home.example", RR_A, "A 10.0.0.1");
	assert_ask(&w, "nas.home.example", RR_AAAA, "nodata");
	assert_ask(&w, "other.home.example", RR_A, "A 10.0.0.1");
	assert_ask(&w, "a.b.home.example", RR_A, "nxdomain");
	assert_ask(&w, "1.0.0.10.in-addr.arpa", RR_PTR, "PTR nas.home.example");
}

static void without_a_domain_they_stay_single(void **state)
{
	world_hosts(&w, "10.0.0.1 nas\n");
	world_build(&w);
	assert_ask(&w, "nas", RR_A, "A 10.0.0.1");
	assert_ask(&w, "1.0.0.10.in-addr.arpa", RR_PTR, "PTR nas");
}

static void names_in_unicode(void **state)
{
	struct local_stat s;

	world_hosts(&w, "10.0.0.1 b\xc3\xbc"
	                "cher.example\n10.0.0.2 6\xc3\x97"
	                "66.example good.example\n");
	world_build(&w);
	assert_ask(&w, "xn--bcher-kva.example", RR_A, "A 10.0.0.1");
	assert_ask(&w, "good.example", RR_A, "A 10.0.0.2");
	local_stat(w.l, &s);
	assert_true(s.bad_lines <= 1);
}

static void what_is_not_understood_is_counted_and_the_first_told(void **state)
{
	struct local_stat s;

	world_hosts(&w,
	        "10.0.0.1 good.example\n10.0.0 bad.example\nname.example 10.0.0.1\n10.0.0.2\n10.0.0.3 a..b c.example d..e\n"
	        "10.0.0.4 .\n1.2.3.4/24 x.example\n10.0.0.1%eth0 y.example\n");
	world_hosts(&w, "\x7f"
	                "ELF\xff\xfe\n10.0.0.9 still.example\n");
	world_build(&w);
	local_stat(w.l, &s);
	assert_int_equal(s.bad_lines, 8);
	assert_ask(&w, "good.example", RR_A, "A 10.0.0.1");
	assert_ask(&w, "c.example", RR_A, "A 10.0.0.3");
	assert_ask(&w, "still.example", RR_A, "A 10.0.0.9");
	assert_ask(&w, "bad.example", RR_A, "none");
	assert_int_equal(w.report.warnings, 2);
	assert_int_equal(w.report.errors, 0);
	assert_string_equal(w.report.text.bytes, "hosts.0:2:1: warning: not an address; lines left out, whole or in part: 7\n"
	                                         "hosts.1:1:1: warning: not an address; lines left out, whole or in part: 1\n");
}

static void a_name_has_room_for_so_many_addresses(void **state)
{
	static char text[8192];
	size_t at = 0;
	struct local_stat s;

	for (unsigned i = 0; i < LOCAL_NAME_RECORDS_MAX + 5; i++)
		at += (size_t)sprintf(text + at, "10.0.1.%u many.example\n", i);
	world_hosts(&w, text);
	world_build(&w);
	ask(&w, "many.example", RR_A);
	assert_int_equal(w.a.record_count, LOCAL_NAME_RECORDS_MAX);
	local_stat(w.l, &s);
	assert_int_equal(s.bad_lines, 5);
	assert_int_equal(s.names, 1);
	assert_int_equal(s.records, LOCAL_NAME_RECORDS_MAX);
}

static void no_text_at_all(void **state)
{
	world_hosts(&w, "");
	world_hosts(&w, "\n");
	world_hosts(&w, "10.0.0.1");
	world_build(&w);
	assert_ask(&w, "nas", RR_A, "none");
	assert_int_equal(w.report.warnings, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(all_that_lines_are_made_of, begin, end),
	        cmocka_unit_test_setup_teardown(names_are_exact_and_never_forwarded, begin, end),
	        cmocka_unit_test_setup_teardown(several_lines_for_a_name, begin, end),
	        cmocka_unit_test_setup_teardown(blocked_names, begin, end),
	        cmocka_unit_test_setup_teardown(the_localhost_block_is_no_trouble, begin, end),
	        cmocka_unit_test_setup_teardown(single_labels_are_known_under_the_domain, begin, end),
	        cmocka_unit_test_setup_teardown(without_a_domain_they_stay_single, begin, end),
	        cmocka_unit_test_setup_teardown(names_in_unicode, begin, end),
	        cmocka_unit_test_setup_teardown(what_is_not_understood_is_counted_and_the_first_told, begin, end),
	        cmocka_unit_test_setup_teardown(a_name_has_room_for_so_many_addresses, begin, end),
	        cmocka_unit_test_setup_teardown(no_text_at_all, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
