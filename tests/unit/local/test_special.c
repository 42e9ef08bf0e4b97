/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Special-use names: each by its RFC, and that everything configured goes before them. */
#include "world.h"

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

static void localhost(void **state)
{
	world_build(&w);
	assert_ask(&w, "localhost", RR_A, "A 127.0.0.1");
	assert_string_equal(w.a.source, "special-use");
	assert_ask(&w, "x.y.localhost", RR_AAAA, "AAAA ::1");
	assert_ask(&w, "localhost", RR_ANY, "A 127.0.0.1 AAAA ::1");
	assert_ask(&w, "localhost", RR_HTTPS, "nodata");
	assert_int_equal(w.a.negative_ttl_s, LOCAL_SPECIAL_TTL_S);
	assert_ask(&w, "notlocalhost", RR_A, "none");
}

static void names_that_are_not_in_the_dns(void **state)
{
	static const char *const names[] = {"invalid", "a.invalid", "onion", "3g2upl4pq6kufc4m.onion",
	        "local", "printer.local", "_http._tcp.local", "alt", "a.alt", "a.home.arpa", "default.service.arpa",
	        "x.ipv4only.arpa"};

	world_build(&w);
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
		assert_ask(&w, names[i], RR_A, "nxdomain");
		assert_ask(&w, names[i], RR_DS, "nxdomain");
		assert_int_equal(strncmp(w.a.text, "special-use name ", 17), 0);
	}
}

static void names_that_have_nothing(void **state)
{
	static const char *const names[] = {
	        "home.arpa", "service.arpa", "resolver.arpa", "_dns.resolver.arpa", "x.resolver.arpa"};

	world_build(&w);
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
		assert_ask(&w, names[i], RR_SVCB, "nodata");
		assert_ask(&w, names[i], RR_DS, "nodata");
	}
}

static void ipv4only(void **state)
{
	world_build(&w);
	assert_ask(&w, "ipv4only.arpa", RR_A, "A 192.0.0.170 A 192.0.0.171");
	assert_ask(&w, "ipv4only.arpa", RR_AAAA, "nodata");
	assert_ask(&w, "170.0.0.192.in-addr.arpa", RR_PTR, "PTR ipv4only.arpa");
	assert_ask(&w, "171.0.0.192.in-addr.arpa", RR_PTR, "PTR ipv4only.arpa");
	assert_ask(&w, "172.0.0.192.in-addr.arpa", RR_PTR, "none");
}

static void names_that_are_not_special(void **state)
{
	static const char *const names[] = {"example", "www.example.com", "example.net", "example.org", "use-application-dns.net",
	        "arpa", "com", ".", "testing", "local.example", "in-addr.arpa", "ip6.arpa", "e164.arpa", "as112.arpa"};

	world_build(&w);
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		assert_ask(&w, names[i], RR_A, "none");
}

static void local_data_goes_before_them(void **state)
{
	world_domain(&w, "home.arpa");
	world_record(&w, "www.a.invalid", RR_A, "10.0.0.1");
	world_record(&w, "*.onion", RR_A, "10.0.0.2");
	world_record(&w, ".localhost", RR_A, "127.0.0.2");
	world_hosts(&w, "10.0.0.3 nas\n10.0.0.4 printer.local\n");
	world_build(&w);
	assert_ask(&w, "www.a.invalid", RR_A, "A 10.0.0.1");
	assert_ask(&w, "a.invalid", RR_A, "nodata");
	assert_ask(&w, "invalid", RR_A, "nodata");
	assert_ask(&w, "b.invalid", RR_A, "nxdomain");
	assert_ask(&w, "x.onion", RR_A, "A 10.0.0.2");
	assert_ask(&w, "x.localhost", RR_A, "A 127.0.0.2");
	assert_ask(&w, "nas.home.arpa", RR_A, "A 10.0.0.3");
	assert_ask(&w, "other.home.arpa", RR_A, "nxdomain");
	assert_string_equal(w.a.text, "local domain");
	assert_ask(&w, "printer.local", RR_A, "A 10.0.0.4");
	assert_ask(&w, "printer.local", RR_AAAA, "nodata");
}

static void an_upstreams_domains_go_before_them(void **state)
{
	world_forwards(&w, "local");
	world_forwards(&w, "lab.test");
	world_forwards(&w, "arpa");
	world_build(&w);
	assert_ask(&w, "printer.local", RR_A, "none");
	assert_ask(&w, "local", RR_A, "none");
	assert_ask(&w, "a.lab.test", RR_A, "none");
	assert_ask(&w, "a.invalid", RR_A, "nxdomain");
	assert_ask(&w, "ipv4only.arpa", RR_AAAA, "none");
	assert_ask(&w, "x.home.arpa", RR_A, "none");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(localhost, begin, end),
	        cmocka_unit_test_setup_teardown(names_that_are_not_in_the_dns, begin, end),
	        cmocka_unit_test_setup_teardown(names_that_have_nothing, begin, end),
	        cmocka_unit_test_setup_teardown(ipv4only, begin, end),
	        cmocka_unit_test_setup_teardown(names_that_are_not_special, begin, end),
	        cmocka_unit_test_setup_teardown(local_data_goes_before_them, begin, end),
	        cmocka_unit_test_setup_teardown(an_upstreams_domains_go_before_them, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
