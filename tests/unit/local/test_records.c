/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Records of the configuration: exact, wildcard and subtree owners, aliases, the local domain, and what goes before what. */
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

static void exact_records(void **state)
{
	world_record(&w, "printer.example", RR_A, "192.168.8.9");
	world_record(&w, "printer.example", RR_TXT, "ink");
	world_record(&w, "printer.example", RR_TXT, "paper");
	world_build(&w);
	assert_ask(&w, "printer.example", RR_A, "A 192.168.8.9");
	assert_int_equal(w.a.records[0].ttl_s, 300);
	assert_string_equal(w.a.source, "main.yaml");
	assert_int_equal(w.a.line, 1);
	assert_ask(&w, "printer.example", RR_TXT, "TXT ink TXT paper");
	assert_ask(&w, "printer.example", RR_AAAA, "nodata");
	assert_ask(&w, "printer.example", RR_ANY, "A 192.168.8.9 TXT ink TXT paper");
	assert_ask(&w, "x.printer.example", RR_A, "none");
	assert_ask(&w, "example", RR_A, "none");
}

/* The zone of RFC 4592 2.2.1, and what is said there of it. */
static void the_wildcards_of_the_rfc(void **state)
{
	world_domain(&w, "example");
	world_record(&w, "*.example", RR_TXT, "this is a wildcard");
	world_record(&w, "*.example", RR_MX, "host1");
	world_record(&w, "sub.*.example", RR_TXT, "this is not a wildcard");
	world_record(&w, "host1.example", RR_A, "192.0.2.1");
	world_record(&w, "_ssh._tcp.host1.example", RR_TXT, "srv");
	world_record(&w, "_ssh._tcp.host2.example", RR_TXT, "srv");
	world_build(&w);
	assert_ask(&w, "host3.example", RR_MX, "MX host1");
	assert_null(w.a.records[0].owner);
	assert_ask(&w, "host3.example", RR_A, "nodata");
	assert_ask(&w, "foo.bar.example", RR_TXT, "TXT this is a wildcard");
	assert_ask(&w, "host1.example", RR_MX, "nodata");
	assert_ask(&w, "sub.*.example", RR_MX, "nodata");
	assert_ask(&w, "_telnet._tcp.host1.example", RR_TXT, "nxdomain");
	assert_ask(&w, "ghost.*.example", RR_MX, "nxdomain");
	/* The asterisk itself is a name; empty non-terminals are names, and stop a wildcard. */
	assert_ask(&w, "*.example", RR_MX, "MX host1");
	assert_ask(&w, "host2.example", RR_TXT, "nodata");
	assert_ask(&w, "_tcp.host2.example", RR_TXT, "nodata");
	assert_ask(&w, "x.host2.example", RR_TXT, "nxdomain");
	assert_ask(&w, "_ssh._tcp.host2.example", RR_TXT, "TXT srv");
	assert_ask(&w, "example", RR_TXT, "nodata");
}

static void a_nearer_wildcard_hides_a_farther_one(void **state)
{
	world_record(&w, "*.example", RR_A, "10.0.0.1");
	world_record(&w, "*.b.example", RR_A, "10.0.0.2");
	world_build(&w);
	assert_ask(&w, "a.example", RR_A, "A 10.0.0.1");
	assert_ask(&w, "x.y.a.example", RR_A, "A 10.0.0.1");
	assert_ask(&w, "x.b.example", RR_A, "A 10.0.0.2");
	/* b.example exists, with nothing of its own, and no domain of ours is above: whoever has it answers. */
	assert_ask(&w, "b.example", RR_A, "none");
	assert_ask(&w, "example", RR_A, "none");
}

static void hosts_stop_a_wildcard(void **state)
{
	world_record(&w, "*.example", RR_A, "10.0.0.1");
	world_hosts(&w, "10.0.0.2 a.b.example\n");
	world_build(&w);
	assert_ask(&w, "a.b.example", RR_A, "A 10.0.0.2");
	assert_ask(&w, "a.b.example", RR_AAAA, "nodata");
	assert_ask(&w, "c.b.example", RR_A, "none");
	assert_ask(&w, "c.example", RR_A, "A 10.0.0.1");
}

/* address=/.x/ of dnsmasq: x and all under it. */
static void subtrees(void **state)
{
	world_record(&w, ".captive.example", RR_A, "10.0.0.1");
	world_record(&w, ".captive.example", RR_AAAA, "fd00::1");
	world_record(&w, "own.captive.example", RR_A, "10.0.0.2");
	world_record(&w, ".deep.captive.example", RR_A, "10.0.0.3");
	world_record(&w, "*.wild.captive.example", RR_A, "10.0.0.4");
	world_build(&w);
	assert_ask(&w, "captive.example", RR_A, "A 10.0.0.1");
	assert_ask(&w, "a.b.c.captive.example", RR_AAAA, "AAAA fd00::1");
	assert_ask(&w, "a.captive.example", RR_MX, "nodata");
	assert_ask(&w, "own.captive.example", RR_A, "A 10.0.0.2");
	assert_ask(&w, "own.captive.example", RR_AAAA, "nodata");
	/* The exact record is of its name alone. */
	assert_ask(&w, "x.own.captive.example", RR_A, "A 10.0.0.1");
	assert_ask(&w, "deep.captive.example", RR_A, "A 10.0.0.3");
	assert_ask(&w, "x.deep.captive.example", RR_A, "A 10.0.0.3");
	assert_ask(&w, "x.wild.captive.example", RR_A, "A 10.0.0.4");
	assert_ask(&w, "wild.captive.example", RR_A, "A 10.0.0.1");
	assert_ask(&w, "notcaptive.example", RR_A, "none");
}

static void everything_can_be_captured(void **state)
{
	world_record(&w, ".", RR_A, "10.0.0.1");
	w.records[0].scope = OWNER_SUBTREE;
	world_build(&w);
	assert_ask(&w, ".", RR_A, "A 10.0.0.1");
	assert_ask(&w, "www.example.com", RR_A, "A 10.0.0.1");
	assert_ask(&w, "a.test", RR_A, "A 10.0.0.1");
}

static void aliases_inside(void **state)
{
	world_domain(&w, "lan");
	world_record(&w, "www.lan", RR_CNAME, "printer.lan");
	world_record(&w, "printer.lan", RR_CNAME, "nas.lan");
	world_record(&w, "gone.lan", RR_CNAME, "nothing.lan");
	world_record(&w, "*.w.lan", RR_CNAME, "www.lan");
	world_hosts(&w, "192.168.8.9 nas\n");
	world_build(&w);
	assert_ask(&w, "www.lan", RR_A, "CNAME printer.lan [printer.lan] CNAME nas.lan [nas.lan] A 192.168.8.9");
	assert_int_equal(w.a.kind, LOCAL_ANSWER);
	assert_int_equal(w.a.line, 1);
	assert_ask(&w, "www.lan", RR_AAAA, "CNAME printer.lan [printer.lan] CNAME nas.lan nodata");
	assert_ask(&w, "www.lan", RR_CNAME, "CNAME printer.lan");
	assert_ask(&w, "www.lan", RR_ANY, "CNAME printer.lan");
	assert_ask(&w, "gone.lan", RR_A, "CNAME nothing.lan nxdomain");
	assert_ask(&w, "any.w.lan", RR_A,
	        "CNAME www.lan [www.lan] CNAME printer.lan [printer.lan] CNAME nas.lan [nas.lan] A 192.168.8.9");
}

static void aliases_that_lead_out(void **state)
{
	world_record(&w, "a.example", RR_CNAME, "b.example");
	world_record(&w, "b.example", RR_CNAME, "www.elsewhere.example");
	world_record(&w, "down.example", RR_CNAME, "localhost");
	world_build(&w);
	assert_ask(&w, "a.example", RR_A, "CNAME b.example [b.example] CNAME www.elsewhere.example alias www.elsewhere.example");
	assert_int_equal(w.a.ede, EDE_NONE);
	assert_ask(&w, "a.example", RR_CNAME, "CNAME b.example");
	assert_ask(&w, "down.example", RR_A, "CNAME localhost [localhost] A 127.0.0.1");
}

static void aliases_in_a_circle(void **state)
{
	world_record(&w, "self.example", RR_CNAME, "self.example");
	world_record(&w, "a.example", RR_CNAME, "b.example");
	world_record(&w, "b.example", RR_CNAME, "c.example");
	world_record(&w, "c.example", RR_CNAME, "b.example");
	world_record(&w, ".tree.example", RR_CNAME, "x.tree.example");
	world_build(&w);
	/* No name twice: readers of answers refuse that. */
	assert_ask(&w, "self.example", RR_A, "");
	assert_int_equal(w.a.kind, LOCAL_ANSWER);
	assert_int_equal(w.a.ede, EDE_OTHER);
	assert_ask(&w, "a.example", RR_A, "CNAME b.example [b.example] CNAME c.example");
	assert_int_equal(w.a.ede, EDE_OTHER);
	assert_ask(&w, "y.tree.example", RR_A, "CNAME x.tree.example");
}

static void aliases_without_end(void **state)
{
	char from[32], to[32];

	for (unsigned i = 0; i < 20; i++) {
		sprintf(from, "a%u.example", i);
		sprintf(to, "a%u.example", i + 1);
		world_record(&w, from, RR_CNAME, to);
	}
	world_record(&w, "a20.example", RR_A, "10.0.0.1");
	world_build(&w);
	ask(&w, "a0.example", RR_A);
	assert_int_equal(w.a.kind, LOCAL_ANSWER);
	assert_int_equal(w.a.record_count, LOCAL_CHAIN_MAX);
	assert_int_equal(w.a.ede, EDE_OTHER);
	ask(&w, "a12.example", RR_A);
	assert_int_equal(w.a.record_count, LOCAL_CHAIN_MAX + 1);
	assert_int_equal(w.a.ede, EDE_NONE);
}

static void an_alias_stands_alone(void **state)
{
	struct local_stat s;

	world_record(&w, "a.example", RR_CNAME, "b.example");
	world_record(&w, "a.example", RR_A, "10.0.0.1");
	world_record(&w, "a.example", RR_CNAME, "c.example");
	world_record(&w, "a.example", RR_CNAME, "b.example");
	world_record(&w, "d.example", RR_A, "10.0.0.1");
	world_record(&w, "d.example", RR_CNAME, "b.example");
	world_hosts(&w, "10.0.0.9 a.example\n");
	world_build(&w);
	assert_ask(&w, "a.example", RR_A, "CNAME b.example alias b.example");
	assert_ask(&w, "d.example", RR_A, "A 10.0.0.1");
	assert_int_equal(w.report.warnings, 4);
	assert_non_null(strstr(w.report.text.bytes, "main.yaml:2:1: warning: a CNAME"));
	local_stat(w.l, &s);
	assert_int_equal(s.bad_lines, 1);
	assert_int_equal(s.records, 2);
}

static void the_local_domain(void **state)
{
	world_domain(&w, "home.example");
	world_record(&w, "a.b.home.example", RR_A, "10.0.0.1");
	world_build(&w);
	assert_ask(&w, "home.example", RR_A, "nodata");
	assert_ask(&w, "home.example", RR_SOA, "nodata");
	assert_ask(&w, "nothing.home.example", RR_A, "nxdomain");
	assert_string_equal(w.a.text, "local domain");
	assert_int_equal(w.a.negative_ttl_s, LOCAL_NEGATIVE_TTL_S);
	assert_ask(&w, "b.home.example", RR_A, "nodata");
	assert_ask(&w, "a.b.home.example", RR_A, "A 10.0.0.1");
	assert_ask(&w, "c.b.home.example", RR_A, "nxdomain");
	assert_ask(&w, "example", RR_A, "none");
	assert_ask(&w, "otherhome.example", RR_A, "none");
}

static void an_upstreams_domains_go_before_the_domain(void **state)
{
	world_domain(&w, "corp.example");
	world_forwards(&w, "ad.corp.example");
	world_record(&w, "own.ad.corp.example", RR_A, "10.0.0.1");
	world_record(&w, ".tree.ad.corp.example", RR_A, "10.0.0.2");
	world_record(&w, "*.corp.example", RR_A, "10.0.0.3");
	world_build(&w);
	assert_ask(&w, "x.ad.corp.example", RR_A, "none");
	assert_ask(&w, "ad.corp.example", RR_A, "none");
	assert_ask(&w, "own.ad.corp.example", RR_A, "A 10.0.0.1");
	assert_ask(&w, "x.tree.ad.corp.example", RR_A, "A 10.0.0.2");
	assert_ask(&w, "y.corp.example", RR_A, "A 10.0.0.3");
}

static void the_domain_itself_forwarded(void **state)
{
	world_domain(&w, "lan");
	world_forwards(&w, "lan");
	world_forwards(&w, ".");
	world_hosts(&w, "10.0.0.1 nas\n");
	world_build(&w);
	assert_ask(&w, "nas.lan", RR_A, "A 10.0.0.1");
	assert_ask(&w, "other.lan", RR_A, "none");
	/* An upstream for the root is a default, and takes nothing away. */
	assert_ask(&w, "x.invalid", RR_A, "nxdomain");
}

static void a_name_has_room_for_so_many_records(void **state)
{
	char addr[32];

	for (unsigned i = 0; i < LOCAL_NAME_RECORDS_MAX + 3; i++) {
		sprintf(addr, "10.0.0.%u", i);
		world_record(&w, ".many.example", RR_A, addr);
	}
	world_build(&w);
	ask(&w, "x.many.example", RR_ANY);
	assert_int_equal(w.a.record_count, LOCAL_NAME_RECORDS_MAX);
	assert_int_equal(w.report.warnings, 3);
}

static void names_at_the_limit(void **state)
{
	char longest[260] = "", owner[300];

	for (unsigned i = 0; i < 126; i++)
		strcat(longest, i ? ".x" : "x");
	sprintf(owner, "*.%s", longest);
	world_domain(&w, "x");
	world_record(&w, owner, RR_A, "10.0.0.1");
	world_record(&w, longest, RR_A, "10.0.0.2");
	world_build(&w);
	assert_ask(&w, longest, RR_A, "A 10.0.0.2");
	assert_ask(&w, longest + 2, RR_A, "nodata");
	sprintf(owner, "y.%s", longest);
	assert_ask(&w, owner, RR_A, "A 10.0.0.1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(exact_records, begin, end),
	        cmocka_unit_test_setup_teardown(the_wildcards_of_the_rfc, begin, end),
	        cmocka_unit_test_setup_teardown(a_nearer_wildcard_hides_a_farther_one, begin, end),
	        cmocka_unit_test_setup_teardown(hosts_stop_a_wildcard, begin, end),
	        cmocka_unit_test_setup_teardown(subtrees, begin, end),
	        cmocka_unit_test_setup_teardown(everything_can_be_captured, begin, end),
	        cmocka_unit_test_setup_teardown(aliases_inside, begin, end),
	        cmocka_unit_test_setup_teardown(aliases_that_lead_out, begin, end),
	        cmocka_unit_test_setup_teardown(aliases_in_a_circle, begin, end),
	        cmocka_unit_test_setup_teardown(aliases_without_end, begin, end),
	        cmocka_unit_test_setup_teardown(an_alias_stands_alone, begin, end),
	        cmocka_unit_test_setup_teardown(the_local_domain, begin, end),
	        cmocka_unit_test_setup_teardown(an_upstreams_domains_go_before_the_domain, begin, end),
	        cmocka_unit_test_setup_teardown(the_domain_itself_forwarded, begin, end),
	        cmocka_unit_test_setup_teardown(a_name_has_room_for_so_many_records, begin, end),
	        cmocka_unit_test_setup_teardown(names_at_the_limit, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
