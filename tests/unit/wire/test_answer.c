/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The walk over responses: chains in any order, addresses and hints, negative TTLs, and everything that may not be judged. */
#include "make.h"

#include <stdio.h>

#include "base/err.h"

static struct make m;
static struct wire_answer a;

enum { RESPONSE = FLAG_QR | FLAG_RD | FLAG_RA };

static void walk_fine(void)
{
	/* What is not said to be valid may hold anything. */
	memset(&a, 0xa5, sizeof(a));
	assert_int_equal(wire_answer_walk(&a, m.bytes, m.len), 0);
	assert_false(a.is_cut);
}

static void walk_refused(void)
{
	assert_int_equal(wire_answer_walk(&a, m.bytes, m.len), NW_EMALFORMED);
}

static void a_chain_in_any_order(void **state)
{
	static const unsigned orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {0, 2, 1}};

	for (unsigned o = 0; o < 4; o++) {
		make_head(&m, RESPONSE, 3, 0, 0, "A.example", RR_A);
		for (unsigned i = 0; i < 3; i++) {
			if (orders[o][i] == 0)
				make_cname(&m, NULL, 60, "b.example");
			else if (orders[o][i] == 1)
				make_cname(&m, "B.Example", 30, "c.example.net");
			else
				make_a(&m, "c.example.net", 90, 7);
		}
		walk_fine();
		assert_int_equal(a.chain_len, 3);
		assert_name(&a.chain[0], "a.example");
		assert_name(&a.chain[1], "b.example");
		assert_name(&a.chain[2], "c.example.net");
		assert_int_equal(a.addr_count, 1);
		assert_memory_equal(a.addrs[0].b, "\xc0\0\2\7\0\0\0\0\0\0\0\0\0\0\0\0", 16);
		assert_true(a.ttl_min_s == 30 && a.ttl_count == 3 && !a.is_chain_open && !a.is_nodata);
		assert_int_equal(a.answers_end, m.len);
		assert_int_equal(a.authority_end, m.len);
	}
}

static void chains_end_open_or_in_nodata(void **state)
{
	make_head(&m, RESPONSE, 1, 0, 0, "a.example", RR_A);
	make_cname(&m, NULL, 60, "b.example");
	walk_fine();
	assert_true(a.is_chain_open && a.is_nodata && !a.has_soa && a.ttl_min_s == 0 && a.chain_len == 2);
	make_head(&m, RESPONSE, 1, 1, 0, "a.example", RR_A);
	make_cname(&m, NULL, 60, "b.example");
	make_soa(&m, "example", 900, 40);
	walk_fine();
	assert_true(a.is_nodata && a.has_soa && a.ttl_min_s == 40);
	make_head(&m, RESPONSE, 1, 0, 0, "a.example", RR_CNAME);
	make_cname(&m, NULL, 60, "b.example");
	walk_fine();
	assert_true(!a.is_chain_open && !a.is_nodata && a.ttl_min_s == 60);
	make_head(&m, RESPONSE, 2, 0, 0, "a.example", RR_ANY);
	make_a(&m, NULL, 60, 1);
	make_rr(&m, NULL, RR_TXT, 50);
	make_bytes(&m, "\1x", 2);
	walk_fine();
	assert_true(!a.is_nodata && a.addr_count == 1 && a.ttl_min_s == 50);
}

static void negative_answers(void **state)
{
	make_head(&m, RESPONSE | RCODE_NXDOMAIN, 0, 1, 0, "no.example", RR_A);
	make_soa(&m, "example", 30, 300);
	walk_fine();
	assert_true(a.rcode == RCODE_NXDOMAIN && a.has_soa && !a.is_nodata && a.ttl_min_s == 30 && a.ttl_count == 1);
	make_head(&m, RESPONSE, 0, 1, 0, "no.example", RR_A);
	make_soa(&m, "example", 0x80000000, 300);
	walk_fine();
	assert_true(a.is_nodata && a.ttl_min_s == 0);
	make_head(&m, RESPONSE | RCODE_NXDOMAIN, 0, 0, 0, "no.example", RR_A);
	walk_fine();
	assert_int_equal(a.ttl_min_s, 0);
}

static void dnames(void **state)
{
	for (unsigned has_cname = 0; has_cname < 2; has_cname++) {
		make_head(&m, RESPONSE, 2 + has_cname, 0, 0, "x.y.old.example", RR_A);
		make_rr(&m, "OLD.example", RR_DNAME, 60);
		make_name(&m, "new.example");
		if (has_cname)
			make_cname(&m, NULL, 60, "x.y.new.example");
		make_a(&m, "x.y.new.example", 60, 1);
		walk_fine();
		assert_int_equal(a.chain_len, 2);
		assert_name(&a.chain[1], "x.y.new.example");
		assert_int_equal(a.addr_count, 1);
	}
	/* The owner of a DNAME itself is not moved. */
	make_head(&m, RESPONSE, 1, 0, 0, "old.example", RR_DNAME);
	make_rr(&m, NULL, RR_DNAME, 60);
	make_name(&m, "new.example");
	walk_fine();
	assert_true(a.chain_len == 1 && !a.is_nodata);
}

static void what_was_not_asked_is_malformed(void **state)
{
	make_head(&m, RESPONSE, 2, 0, 0, "a.example", RR_A);
	make_a(&m, NULL, 60, 1);
	make_a(&m, "other.example", 60, 2);
	walk_refused();
	make_head(&m, RESPONSE, 2, 0, 0, "a.example", RR_A);
	make_a(&m, NULL, 60, 1);
	make_cname(&m, "other.example", 60, "b.example");
	walk_refused();
	/* Other types are nobody's address. */
	make_head(&m, RESPONSE, 2, 0, 0, "a.example", RR_A);
	make_a(&m, NULL, 60, 1);
	make_rr(&m, "other.example", RR_TXT, 60);
	make_bytes(&m, "\1x", 2);
	walk_fine();
	/* Two different targets of one name: nobody judged the second. The same target twice is only clumsy. */
	make_head(&m, RESPONSE, 3, 0, 0, "a.example", RR_A);
	make_cname(&m, NULL, 60, "b.example");
	make_cname(&m, NULL, 60, "c.example");
	make_a(&m, "b.example", 60, 1);
	walk_refused();
	make_head(&m, RESPONSE, 3, 0, 0, "a.example", RR_A);
	make_cname(&m, NULL, 60, "b.example");
	make_cname(&m, NULL, 60, "B.example");
	make_a(&m, "b.example", 60, 1);
	walk_fine();
}

static void loops_are_malformed(void **state)
{
	make_head(&m, RESPONSE, 2, 0, 0, "a.example", RR_A);
	make_cname(&m, NULL, 60, "b.example");
	make_cname(&m, "b.example", 60, "a.example");
	walk_refused();
	make_head(&m, RESPONSE, 1, 0, 0, "a.example", RR_CNAME);
	make_cname(&m, NULL, 60, "a.example");
	walk_refused();
}

static void make_long_chain(unsigned names)
{
	make_head(&m, RESPONSE, names, 0, 0, "n0.example", RR_A);
	for (unsigned i = names - 1; i > 0; i--) {
		char owner[32], target[32];

		snprintf(owner, sizeof(owner), "n%u.example", i - 1);
		snprintf(target, sizeof(target), "n%u.example", i);
		make_cname(&m, owner, 60, target);
		if (i == names - 1)
			make_a(&m, target, 60, 1);
	}
}

static void limits_are_said(void **state)
{
	make_long_chain(ANSWER_CHAIN_MAX);
	walk_fine();
	assert_int_equal(a.chain_len, ANSWER_CHAIN_MAX);
	make_long_chain(ANSWER_CHAIN_MAX + 1);
	assert_int_equal(wire_answer_walk(&a, m.bytes, m.len), 0);
	assert_true(a.is_cut);
	for (unsigned count = ANSWER_ADDRS_MAX; count <= ANSWER_ADDRS_MAX + 1; count++) {
		make_head(&m, RESPONSE, count, 0, 0, "a.example", RR_A);
		for (unsigned i = 0; i < count; i++) {
			make_a(&m, NULL, 60, (uint8_t)i);
			m.bytes[m.len - 2] = (uint8_t)(i >> 8);
		}
		assert_int_equal(wire_answer_walk(&a, m.bytes, m.len), 0);
		assert_int_equal(a.is_cut, count > ANSWER_ADDRS_MAX);
		assert_int_equal(a.addr_count, ANSWER_ADDRS_MAX);
	}
	for (unsigned count = ANSWER_TTLS_MAX; count <= ANSWER_TTLS_MAX + 1; count++) {
		make_head(&m, RESPONSE, count, 0, 0, "a.example", RR_A);
		for (unsigned i = 0; i < count; i++)
			make_a(&m, NULL, 60, 1);
		assert_int_equal(wire_answer_walk(&a, m.bytes, m.len), 0);
		assert_int_equal(a.is_cut, count > ANSWER_TTLS_MAX);
	}
}

static void hints_are_addresses(void **state)
{
	make_head(&m, RESPONSE, 2, 0, 0, "a.example", RR_HTTPS);
	make_rr(&m, NULL, RR_HTTPS, 60);
	make16(&m, 1);
	make_name(&m, ".");
	make_param(&m, 4, "\xc0\0\2\1\xc0\0\2\2\xc0\0\2\1", 12);
	make_param(&m, 6, "\x20\1\xd\xb8\0\0\0\0\0\0\0\0\0\0\0\1", 16);
	make_rr(&m, NULL, RR_HTTPS, 60);
	make16(&m, 2);
	make_name(&m, "b.example");
	make_param(&m, 4, "\xc0\0\2\2", 4);
	walk_fine();
	assert_int_equal(a.addr_count, 3);
	assert_int_equal(a.addrs[2].family, AF_INET6);
	assert_false(a.is_nodata);
}

static void rdata_is_checked(void **state)
{
	static const struct {
		unsigned type;
		const char *bytes;
		size_t len;
	} bad[] = {
		{RR_A, "\1\2\3", 3},
		{RR_A, "", 0},
		{RR_A, "\1\2\3\4\5", 5},
		{RR_AAAA, "\1\2\3\4", 4},
		{RR_NS, "\1a", 2},
		{RR_NS, "\1a\0x", 4},
		{RR_MX, "\0", 1},
		{RR_MX, "\0\1", 2},
		{RR_SOA, "\0\0\0\0\0\1", 6},
		{RR_SRV, "\0\1\0\1\0\1", 6},
		{RR_HTTPS, "\0\1", 2},
		{RR_HTTPS, "\0\1\0\0\4\0\3\1\2\3", 10},
		{RR_HTTPS, "\0\1\0\0\4\0\0", 7},
		{RR_HTTPS, "\0\1\0\0\1\0\5x", 8},
		{RR_HTTPS, "\0\1\0\0\1", 5},
		{RR_HTTPS, "\0\1\0\0\0\0\1x", 8},
		{RR_SVCB, "\0\1\0\0\6\0\4\1\2\3\4", 11},
		{RR_RRSIG, "\0\1", 2},
		{RR_CNAME, "\300\5", 2},
		{RR_OPT, "", 0},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		make_head(&m, RESPONSE, 1, 0, 0, "a.example", bad[i].type);
		make_rr(&m, NULL, bad[i].type, 60);
		make_bytes(&m, bad[i].bytes, bad[i].len);
		walk_refused();
	}
}

static void every_cut_is_malformed(void **state)
{
	make_head(&m, RESPONSE, 2, 1, 1, "a.example", RR_A);
	make_cname(&m, NULL, 60, "b.example");
	make_a(&m, "b.example", 60, 1);
	make_soa(&m, "example", 60, 60);
	make_rr(&m, ".", RR_OPT, 0);
	walk_fine();
	for (size_t len = 0; len < m.len; len++)
		assert_int_equal(wire_answer_walk(&a, m.bytes, len), NW_EMALFORMED);
}

/* The owner of the second record points at the TTL of the first: ageing would rename it. */
static void names_made_of_ttls_are_malformed(void **state)
{
	make_head(&m, RESPONSE, 2, 0, 0, "a.example", RR_A);
	make_a(&m, NULL, 0x01610000, 1);
	m.rdata_at = 0;
	make16(&m, 0xc000 | (unsigned)(m.len - 10));
	make_bytes(&m, "\0\20\0\1\0\0\0\1\0\2\1x", 12);
	walk_refused();
}

static void the_extended_rcode_counts(void **state)
{
	make_head(&m, RESPONSE | 7, 0, 0, 1, "a.example", RR_A);
	make_rr(&m, ".", RR_OPT, 0x01000000);
	walk_fine();
	assert_int_equal(a.rcode, 23);
	make_head(&m, RESPONSE, 0, 0, 2, "a.example", RR_A);
	make_rr(&m, ".", RR_OPT, 0);
	make_rr(&m, ".", RR_OPT, 0);
	walk_refused();
}

static void headers_must_fit(void **state)
{
	make_head(&m, FLAG_RD, 0, 0, 0, "a.example", RR_A);
	walk_refused();
	make_head(&m, RESPONSE, 0, 0, 0, "a.example", RR_A);
	m.bytes[5] = 0;
	walk_refused();
	m.bytes[5] = 2;
	walk_refused();
	/* A record of another class. */
	make_head(&m, RESPONSE, 1, 0, 0, "a.example", RR_A);
	make_a(&m, NULL, 60, 1);
	m.bytes[m.len - 11] = 3;
	walk_refused();
}

static void matching(void **state)
{
	struct name n = make_from_text("a.example"), other = make_from_text("b.example"),
		    longer = make_from_text("a.example.com");

	make_head(&m, RESPONSE, 0, 0, 0, "A.Example", RR_A);
	assert_true(wire_answer_matches(m.bytes, m.len, &n, RR_A, 1));
	assert_false(wire_answer_matches(m.bytes, m.len, &n, RR_AAAA, 1));
	assert_false(wire_answer_matches(m.bytes, m.len, &n, RR_A, 3));
	assert_false(wire_answer_matches(m.bytes, m.len, &other, RR_A, 1));
	assert_false(wire_answer_matches(m.bytes, m.len, &longer, RR_A, 1));
	assert_false(wire_answer_matches(m.bytes, m.len - 1, &n, RR_A, 1));
	m.bytes[2] &= 0x7f;
	assert_false(wire_answer_matches(m.bytes, m.len, &n, RR_A, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_chain_in_any_order),
		cmocka_unit_test(chains_end_open_or_in_nodata),
		cmocka_unit_test(negative_answers),
		cmocka_unit_test(dnames),
		cmocka_unit_test(what_was_not_asked_is_malformed),
		cmocka_unit_test(loops_are_malformed),
		cmocka_unit_test(limits_are_said),
		cmocka_unit_test(hints_are_addresses),
		cmocka_unit_test(rdata_is_checked),
		cmocka_unit_test(every_cut_is_malformed),
		cmocka_unit_test(names_made_of_ttls_are_malformed),
		cmocka_unit_test(the_extended_rcode_counts),
		cmocka_unit_test(headers_must_fit),
		cmocka_unit_test(matching),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
