/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Names of addresses: from hosts and records by themselves, explicit ones before them, private space never asked elsewhere. */
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

static void of_hosts_and_records(void **state)
{
	world_record(&w, "printer.example", RR_A, "192.168.8.9");
	world_record(&w, "printer.example", RR_AAAA, "fd00::9");
	world_record(&w, "*.wild.example", RR_A, "192.168.8.10");
	world_record(&w, ".tree.example", RR_A, "192.168.8.11");
	world_hosts(&w, "192.168.8.20 nas.example alias.example\n192.168.8.20 second.example\n192.168.8.9 later.example\n8.8.8.8 "
	                "dns.example\n2001:4860::8 dns.example\n");
	world_build(&w);
	assert_ask(&w, "9.8.168.192.in-addr.arpa", RR_PTR, "PTR printer.example");
	assert_int_equal(w.a.records[0].ttl_s, 300);
	assert_string_equal(w.a.source, "main.yaml");
	assert_ask(&w, "20.8.168.192.in-addr.arpa", RR_PTR, "PTR nas.example");
	assert_string_equal(w.a.source, "hosts.0");
	assert_int_equal(w.a.line, 1);
	assert_ask(&w, "20.8.168.192.in-addr.arpa", RR_A, "nodata");
	assert_ask(&w, "20.8.168.192.in-addr.arpa", RR_ANY, "PTR nas.example");
	assert_ask(&w, "9.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa", RR_PTR, "PTR printer.example");
	assert_ask(&w, "9.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.D.F.IP6.ARPA", RR_PTR, "PTR printer.example");
	/* An address of the world is ours when it is in hosts, its neighbours are not. */
	assert_ask(&w, "8.8.8.8.in-addr.arpa", RR_PTR, "PTR dns.example");
	assert_ask(&w, "8.8.8.8.in-addr.arpa", RR_MX, "nodata");
	assert_ask(&w, "9.8.8.8.in-addr.arpa", RR_PTR, "none");
	assert_ask(&w, "8.8.8.in-addr.arpa", RR_PTR, "none");
	/* Wildcards and subtrees name no address. */
	assert_ask(&w, "10.8.168.192.in-addr.arpa", RR_PTR, "nxdomain");
	assert_ask(&w, "11.8.168.192.in-addr.arpa", RR_PTR, "nxdomain");
	/* What stands between the zone and a name exists. */
	assert_ask(&w, "8.168.192.in-addr.arpa", RR_PTR, "nodata");
	assert_ask(&w, "168.192.in-addr.arpa", RR_NS, "nodata");
	assert_ask(&w, "7.168.192.in-addr.arpa", RR_PTR, "nxdomain");
	assert_ask(&w, "x.20.8.168.192.in-addr.arpa", RR_PTR, "nxdomain");
	assert_ask(&w, "0.0.0.d.f.ip6.arpa", RR_PTR, "nodata");
	assert_ask(&w, "1.0.0.d.f.ip6.arpa", RR_PTR, "nxdomain");
}

static void the_first_name_of_an_address_stays(void **state)
{
	world_record(&w, "b.example", RR_A, "192.168.8.1");
	world_record(&w, "a.example", RR_A, "192.168.8.1");
	w.records[1].ttl_s = 5;
	world_hosts(&w, "192.168.8.1 aa.example\n");
	world_build(&w);
	assert_ask(&w, "1.8.168.192.in-addr.arpa", RR_PTR, "PTR b.example");
}

static void explicit_ones_go_before(void **state)
{
	world_record(&w, "1.8.168.192.in-addr.arpa", RR_PTR, "router.example");
	world_record(&w, "*.9.168.192.in-addr.arpa", RR_PTR, "guest.example");
	world_hosts(&w, "192.168.8.1 nas.example\n192.168.9.5 known.example\n");
	world_build(&w);
	assert_ask(&w, "1.8.168.192.in-addr.arpa", RR_PTR, "PTR router.example");
	assert_ask(&w, "8.168.192.in-addr.arpa", RR_PTR, "nodata");
	assert_ask(&w, "2.8.168.192.in-addr.arpa", RR_PTR, "nxdomain");
	assert_ask(&w, "7.9.168.192.in-addr.arpa", RR_PTR, "PTR guest.example");
	assert_ask(&w, "5.9.168.192.in-addr.arpa", RR_PTR, "PTR known.example");
	/* A known address stops the wildcard for what is below it. */
	assert_ask(&w, "x.5.9.168.192.in-addr.arpa", RR_PTR, "nxdomain");
	assert_ask(&w, "x.7.9.168.192.in-addr.arpa", RR_PTR, "PTR guest.example");
}

static void assert_private(const char *name, const char *expected)
{
	assert_ask(&w, name, RR_PTR, expected);
	if (!strcmp(expected, "nxdomain"))
		assert_ask(&w, name, RR_DS, expected);
}

static void private_space(void **state)
{
	static const char *const inside[] = {"1.0.0.0.in-addr.arpa", "1.2.3.10.in-addr.arpa", "3.10.in-addr.arpa",
	        "1.1.16.172.in-addr.arpa", "1.1.31.172.in-addr.arpa", "1.1.168.192.in-addr.arpa", "1.1.254.169.in-addr.arpa",
	        "2.0.0.127.in-addr.arpa", "1.2.0.192.in-addr.arpa", "1.100.51.198.in-addr.arpa", "1.113.0.203.in-addr.arpa",
	        "1.1.64.100.in-addr.arpa", "1.1.127.100.in-addr.arpa", "x.255.255.255.255.in-addr.arpa",
	        "nonsense.10.in-addr.arpa", "256.10.in-addr.arpa", "01.10.in-addr.arpa",
	        "lb._dns-sd._udp.0.8.168.192.in-addr.arpa", "2.d.f.ip6.arpa", "1.8.e.f.ip6.arpa", "1.b.e.f.ip6.arpa",
	        "1.8.b.d.0.1.0.0.2.ip6.arpa"};
	static const char *const apexes[] = {"0.in-addr.arpa", "10.in-addr.arpa", "16.172.in-addr.arpa", "31.172.in-addr.arpa",
	        "168.192.in-addr.arpa", "254.169.in-addr.arpa", "127.in-addr.arpa", "2.0.192.in-addr.arpa",
	        "100.51.198.in-addr.arpa", "113.0.203.in-addr.arpa", "64.100.in-addr.arpa", "127.100.in-addr.arpa",
	        "255.255.255.255.in-addr.arpa", "d.f.ip6.arpa", "8.e.f.ip6.arpa", "b.e.f.ip6.arpa", "8.b.d.0.1.0.0.2.ip6.arpa"};
	static const char *const outside[] = {"1.1.15.172.in-addr.arpa", "1.1.32.172.in-addr.arpa", "172.in-addr.arpa",
	        "100.in-addr.arpa", "1.1.63.100.in-addr.arpa", "1.1.128.100.in-addr.arpa", "1.1.18.198.in-addr.arpa",
	        "1.1.1.1.in-addr.arpa", "255.255.255.in-addr.arpa", "1.1.169.192.in-addr.arpa", "nonsense.in-addr.arpa",
	        "1.c.f.ip6.arpa", "1.c.e.f.ip6.arpa", "e.f.ip6.arpa", "9.b.d.0.1.0.0.2.ip6.arpa", "0.ip6.arpa",
	        "10.in-addr.arpa.example", "10.xin-addr.arpa"};
	char name[128];

	world_build(&w);
	for (unsigned i = 0; i < sizeof inside / sizeof *inside; i++)
		assert_private(inside[i], "nxdomain");
	for (unsigned i = 0; i < sizeof apexes / sizeof *apexes; i++)
		assert_private(apexes[i], "nodata");
	for (unsigned i = 0; i < sizeof outside / sizeof *outside; i++)
		assert_private(outside[i], "none");
	/* :: and ::1 */
	for (unsigned last = 0; last < 3; last++) {
		sprintf(name, "%u.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa", last);
		assert_private(name, last == 0 ? "nodata" : last == 1 ? "PTR localhost" : "none");
	}
	assert_private("1.0.0.127.in-addr.arpa", "PTR localhost");
	assert_private("0.0.127.in-addr.arpa", "nodata");
}

static void an_upstream_may_have_it(void **state)
{
	world_forwards(&w, "10.in-addr.arpa");
	world_forwards(&w, "8.168.192.in-addr.arpa");
	world_forwards(&w, "ip6.arpa");
	world_hosts(&w, "10.0.0.1 nas.example\n");
	world_build(&w);
	assert_ask(&w, "1.0.0.10.in-addr.arpa", RR_PTR, "PTR nas.example");
	assert_ask(&w, "2.0.0.10.in-addr.arpa", RR_PTR, "none");
	assert_ask(&w, "10.in-addr.arpa", RR_PTR, "none");
	assert_ask(&w, "1.8.168.192.in-addr.arpa", RR_PTR, "none");
	assert_ask(&w, "1.9.168.192.in-addr.arpa", RR_PTR, "nxdomain");
	assert_ask(&w, "1.d.f.ip6.arpa", RR_PTR, "none");
}

static void labels_that_only_look_like_addresses(void **state)
{
	world_hosts(&w, "10.0.0.1 nas.example\n");
	world_build(&w);
	assert_ask(&w, "001.0.0.10.in-addr.arpa", RR_PTR, "nxdomain");
	assert_ask(&w, "1.0.0.10.1.in-addr.arpa", RR_PTR, "none");
	assert_ask(&w, "0.1.0.0.10.in-addr.arpa", RR_PTR, "nxdomain");
	assert_ask(&w, "a.0.0.10.in-addr.arpa", RR_PTR, "nxdomain");
	assert_ask(&w, "1.0.0.10.ip6.arpa", RR_PTR, "none");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(of_hosts_and_records, begin, end),
	        cmocka_unit_test_setup_teardown(the_first_name_of_an_address_stays, begin, end),
	        cmocka_unit_test_setup_teardown(explicit_ones_go_before, begin, end),
	        cmocka_unit_test_setup_teardown(private_space, begin, end),
	        cmocka_unit_test_setup_teardown(an_upstream_may_have_it, begin, end),
	        cmocka_unit_test_setup_teardown(labels_that_only_look_like_addresses, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
