/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Queries in, upstream queries and our own answers out. */
#include "make.h"

static struct make m;
static struct wire_answer answer;

static enum wire_reason parse(struct wire_query *q)
{
	return wire_query_parse(q, m.bytes, m.len);
}

static void make_opt(unsigned size, uint32_t ttl)
{
	m.rdata_at = 0;
	make_name(&m, ".");
	make16(&m, RR_OPT);
	make16(&m, size);
	make32(&m, ttl);
	make16(&m, 0);
	m.rdata_at = m.len;
}

static void a_plain_query(void **state)
{
	struct wire_query q;

	make_head(&m, FLAG_RD | FLAG_CD, 0, 0, 0, "WwW.Example.com", RR_AAAA);
	assert_int_equal(parse(&q), WIRE_OK);
	assert_int_equal(q.id, 0x1234);
	assert_int_equal(q.flags, FLAG_RD | FLAG_CD);
	assert_int_equal(q.qtype, RR_AAAA);
	assert_int_equal(q.qclass, 1);
	assert_int_equal(q.udp_size, 512);
	assert_false(q.has_edns);
	assert_int_equal(q.question_len, 21);
	assert_name(&q.qname, "www.example.com");
}

static void edns(void **state)
{
	struct wire_query q;

	make_head(&m, FLAG_RD, 0, 0, 1, "example.com", RR_A);
	make_opt(1232, 0x8000);
	make_param(&m, 10, "12345678", 8);
	make_param(&m, 12, "", 0);
	assert_int_equal(parse(&q), WIRE_OK);
	assert_true(q.has_edns && q.has_do);
	assert_int_equal(q.udp_size, 1232);
	assert_int_equal(q.has_cookie, 8);
	/* An option that runs out of its record. */
	m.bytes[m.len - 1] = 1;
	assert_int_equal(parse(&q), WIRE_FORMERR);
	make_head(&m, FLAG_RD, 0, 0, 1, "example.com", RR_A);
	make_opt(100, 0);
	assert_int_equal(parse(&q), WIRE_OK);
	assert_int_equal(q.udp_size, 512);
	make_head(&m, FLAG_RD, 0, 0, 1, "example.com", RR_A);
	make_opt(4096, 0x18000);
	assert_int_equal(parse(&q), WIRE_BADVERS);
	assert_true(q.has_edns && q.has_do && q.question_len == 17);
	make_head(&m, FLAG_RD, 0, 0, 2, "example.com", RR_A);
	make_opt(1232, 0);
	make_opt(1232, 0);
	assert_int_equal(parse(&q), WIRE_FORMERR);
	make_head(&m, FLAG_RD, 0, 0, 1, "example.com", RR_A);
	make_rr(&m, "example.com", RR_OPT, 0);
	assert_int_equal(parse(&q), WIRE_FORMERR);
	make_head(&m, FLAG_RD, 0, 0, 2, "example.com", RR_A);
	make_opt(1232, 0);
	make_rr(&m, NULL, RR_TSIG, 0);
	make_bytes(&m, "xyz", 3);
	assert_int_equal(parse(&q), WIRE_OK);
}

static void what_is_not_a_query(void **state)
{
	struct wire_query q;

	make_head(&m, FLAG_RD, 0, 0, 0, "example.com", RR_A);
	assert_int_equal(wire_query_parse(&q, m.bytes, 11), WIRE_SHORT);
	/* Every cut of a sound query is FORMERR, with its id. */
	for (size_t len = 12; len < m.len; len++) {
		assert_int_equal(wire_query_parse(&q, m.bytes, len), WIRE_FORMERR);
		assert_int_equal(q.id, 0x1234);
		assert_int_equal(q.question_len, 0);
	}
	make_head(&m, FLAG_QR, 0, 0, 0, "example.com", RR_A);
	assert_int_equal(parse(&q), WIRE_RESPONSE);
	make_head(&m, 5 << 11, 0, 0, 0, "example.com", RR_A);
	assert_int_equal(parse(&q), WIRE_NOTIMP);
	make_head(&m, 0, 1, 0, 0, "example.com", RR_A);
	assert_int_equal(parse(&q), WIRE_FORMERR);
	make_head(&m, 0, 0, 1, 0, "example.com", RR_A);
	assert_int_equal(parse(&q), WIRE_FORMERR);
	make_head(&m, 0, 0, 0, 1, "example.com", RR_A);
	assert_int_equal(parse(&q), WIRE_FORMERR);
	make_head(&m, 0, 0, 0, 0, "example.com", RR_A);
	m.bytes[5] = 2;
	assert_int_equal(parse(&q), WIRE_FORMERR);
	m.bytes[5] = 0;
	assert_int_equal(parse(&q), WIRE_FORMERR);
	/* A compressed question. */
	m.bytes[5] = 1;
	m.bytes[12] = 0xc0;
	assert_int_equal(parse(&q), WIRE_FORMERR);
}

static void a_query_we_build_is_read_back(void **state)
{
	struct name n = make_from_text("www.example.com");
	struct wire_query q;
	uint8_t out[300];
	size_t len = wire_query_build(out, 77, &n, RR_HTTPS, 1, true, true, 1232, true);

	assert_int_equal(len, 12 + 17 + 4 + 11);
	assert_int_equal(wire_query_parse(&q, out, len), WIRE_OK);
	assert_true(q.id == 77 && q.flags == (FLAG_RD | FLAG_CD) && q.qtype == RR_HTTPS && q.has_edns && q.has_do &&
		    q.udp_size == 1232);
	assert_true(name_equal(&q.qname, &n));
	len = wire_query_build(out, 77, &n, RR_A, 1, false, false, 0, false);
	assert_int_equal(len, 12 + 17 + 4);
	assert_int_equal(wire_query_parse(&q, out, len), WIRE_OK);
	assert_true(q.flags == 0 && !q.has_edns);
}

static size_t own(uint8_t *out, const struct wire_query *q, const struct wire_own *o)
{
	size_t len = wire_own_build(out, WIRE_OWN_MAX, q, m.bytes + WIRE_HEADER, o);

	assert_in_range(len, 12, WIRE_OWN_MAX);
	assert_int_equal(wire_answer_walk(&answer, out, len), 0);
	assert_int_equal(answer.id, 0x1234);
	return len;
}

static void own_addresses(void **state)
{
	static const struct addr addrs[] = {{AF_INET, {192, 0, 2, 1}}, {AF_INET6, {0x20, 1}}, {AF_INET, {192, 0, 2, 2}}};
	struct wire_own o = {.ede = EDE_NONE, .aa = true, .addrs = addrs, .addr_count = 3, .ttl_s = 60};
	uint8_t out[WIRE_OWN_MAX];
	struct wire_query q;

	make_head(&m, FLAG_RD, 0, 0, 0, "NAS.Lan", RR_A);
	parse(&q);
	assert_int_equal(own(out, &q, &o), m.len + 2 * 16);
	assert_int_equal(answer.flags, FLAG_QR | FLAG_AA | FLAG_RD | FLAG_RA);
	assert_memory_equal(out + 12, m.bytes + 12, q.question_len);
	assert_int_equal(answer.addr_count, 2);
	assert_true(addr_equal(&answer.addrs[1], &addrs[2]));
	assert_int_equal(answer.ttl_min_s, 60);
	make_head(&m, FLAG_RD, 0, 0, 0, "NAS.Lan", RR_AAAA);
	parse(&q);
	own(out, &q, &o);
	assert_int_equal(answer.addr_count, 1);
	assert_int_equal(answer.addrs[0].family, AF_INET6);
	make_head(&m, FLAG_RD, 0, 0, 0, "NAS.Lan", RR_MX);
	parse(&q);
	own(out, &q, &o);
	assert_int_equal(answer.ancount, 0);
}

static void own_errors_and_negatives(void **state)
{
	struct wire_own o = {.rcode = RCODE_NXDOMAIN, .ede = EDE_BLOCKED, .ede_text = "ads", .with_soa = true, .soa_ttl_s = 10};
	uint8_t out[WIRE_OWN_MAX];
	struct wire_query q;
	size_t len;

	make_head(&m, FLAG_RD, 0, 0, 1, "ads.example", RR_A);
	make_opt(1232, 0x8000);
	parse(&q);
	len = own(out, &q, &o);
	assert_true(answer.has_soa && answer.ttl_min_s == 10 && answer.rcode == RCODE_NXDOMAIN);
	assert_memory_equal(out + len - 20, "\0\0\51\4\320\0\0\200\0\0\11\0\17\0\5\0\17ads", 20);
	o.rcode = RCODE_BADVERS;
	o.with_soa = false;
	own(out, &q, &o);
	assert_int_equal(answer.rcode, RCODE_BADVERS);
	assert_int_equal(answer.flags & 15, 0);
	/* No EDNS, no EDE. */
	make_head(&m, FLAG_RD, 0, 0, 0, "ads.example", RR_A);
	parse(&q);
	assert_int_equal(own(out, &q, &(struct wire_own){.rcode = RCODE_REFUSED, .ede = EDE_PROHIBITED}), m.len);
	/* A packet without a usable question gets a bare header. */
	wire_query_parse(&q, m.bytes, 14);
	assert_int_equal(wire_own_build(out, sizeof(out), &q, m.bytes + 12, &(struct wire_own){.rcode = RCODE_FORMERR, .ede = EDE_NONE}), 12);
	assert_memory_equal(out, "\x12\x34\x81\x81\0\0\0\0\0\0\0\0", 12);
}

static void own_answers_keep_their_bounds(void **state)
{
	static struct addr addrs[200];
	char text[301];
	struct wire_own o = {.ede = EDE_OTHER, .ede_text = text, .addrs = addrs, .addr_count = 200, .with_soa = true};
	uint8_t out[WIRE_OWN_MAX];
	char longest[256] = "";
	struct wire_query q;
	size_t len;

	memset(text, 'x', 118);
	strcpy(text + 118, "\xe2\x82\xac\xe2\x82\xac");
	for (unsigned i = 0; i < 200; i++)
		addrs[i] = (struct addr){AF_INET6, {0x20, (uint8_t)i}};
	for (unsigned i = 0; i < 127; i++)
		strcat(longest, i ? ".x" : "x");
	make_head(&m, FLAG_RD, 0, 0, 1, longest, RR_AAAA);
	make_opt(512, 0);
	assert_int_equal(parse(&q), WIRE_OK);
	len = own(out, &q, &o);
	assert_true(answer.ancount > 10 && answer.nscount == 1 && !(answer.flags & FLAG_TC));
	/* The text was cut before the character that does not fit whole. */
	assert_memory_equal(out + len - 6, "xxxxxx", 6);
	o.limit = q.udp_size;
	len = own(out, &q, &o);
	assert_true(len <= 512 && (answer.flags & FLAG_TC) && answer.ancount == 0 && answer.nscount == 0);
}

/* An alias, what it leads to, and a record of a type that is opaque to us. */
static const uint8_t printer[] = "\7printer\3lan", nas[] = "\3nas\3lan", opaque[300];
static const struct wire_record local_records[] = {
	{.type = RR_CNAME, .rdlen = 13, .ttl_s = 60, .rdata = printer},
	{.owner = printer, .type = RR_A, .rdlen = 4, .ttl_s = 30, .rdata = (const uint8_t *)"\300\250\10\11"},
	{.owner = nas, .type = RR_TXT, .rdlen = 0, .ttl_s = 90}};

static void own_records(void **state)
{
	struct wire_own o = {.ede = EDE_NONE, .aa = true, .records = local_records, .record_count = 3};
	uint8_t out[WIRE_OWN_MAX];
	struct wire_query q;

	make_head(&m, FLAG_RD, 0, 0, 0, "NAS.Lan", RR_A);
	parse(&q);
	/* The question's name is a pointer, given or not; the other name is whole. */
	assert_int_equal(own(out, &q, &o), m.len + (12 + 13) + (13 + 10 + 4) + 12);
	assert_true(answer.ancount == 3 && answer.chain_len == 2 && answer.ttl_min_s == 30 && (answer.flags & FLAG_AA));
	assert_name(&answer.chain[1], "printer.lan");
	assert_true(answer.addr_count == 1 && answer.addrs[0].b[3] == 9);
	/* Addresses and SOA stand behind them. */
	o.addrs = (const struct addr[]){{AF_INET, {192, 0, 2, 1}}};
	o.addr_count = 1;
	o.records = &local_records[2];
	o.record_count = 1;
	o.with_soa = true;
	own(out, &q, &o);
	assert_true(answer.ancount == 2 && answer.nscount == 1 && answer.addr_count == 1);
}

static void own_records_fit_or_are_cut(void **state)
{
	static const struct wire_record one = {.type = 65280, .rdlen = sizeof(opaque), .ttl_s = 60, .rdata = opaque};
	static struct wire_record many[300];
	static uint8_t out[WIRE_TCP_MAX + 1];
	struct wire_own o = {.ede = EDE_OTHER, .ede_text = "why", .records = many, .record_count = 1};
	size_t head = 12 + 9 + 4, edns = 11 + 4 + 2 + 3, fits, n;
	struct wire_query q;

	for (unsigned i = 0; i < 300; i++)
		many[i] = one;
	make_head(&m, FLAG_RD, 0, 0, 1, "nas.lan", 65280);
	make_opt(1232, 0);
	parse(&q);
	/* The limit to the byte. */
	o.limit = (uint16_t)(head + 12 + 300 + edns);
	assert_int_equal(wire_own_build(out, sizeof(out), &q, m.bytes + 12, &o), o.limit);
	o.limit--;
	assert_int_equal(wire_own_build(out, sizeof(out), &q, m.bytes + 12, &o), head + edns);
	assert_int_equal(wire_answer_walk(&answer, out, head + edns), 0);
	assert_true((answer.flags & FLAG_TC) && !answer.ancount);
	/* The buffer to the byte, and no byte behind it. */
	o.limit = 0;
	fits = (sizeof(out) - 1 - head - edns) / 312;
	for (o.record_count = 3; o.record_count <= fits + 1; o.record_count++) {
		size_t need = head + 312 * (size_t)o.record_count + edns;

		memset(out, 0xee, sizeof(out));
		n = wire_own_build(out, need < sizeof(out) - 1 ? need : sizeof(out), &q, m.bytes + 12, &o);
		assert_int_equal(n, o.record_count <= fits ? need : head + edns);
		assert_int_equal(!(out[2] & FLAG_TC >> 8), o.record_count <= fits);
		if (o.record_count > fits)
			continue;
		assert_int_equal(out[need], 0xee);
		memset(out, 0xee, sizeof(out));
		assert_int_equal(wire_own_build(out, need - 1, &q, m.bytes + 12, &o), head + edns);
		assert_true(out[2] & FLAG_TC >> 8);
		assert_int_equal(out[need - 1], 0xee);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_plain_query),
		cmocka_unit_test(edns),
		cmocka_unit_test(what_is_not_a_query),
		cmocka_unit_test(a_query_we_build_is_read_back),
		cmocka_unit_test(own_addresses),
		cmocka_unit_test(own_errors_and_negatives),
		cmocka_unit_test(own_answers_keep_their_bounds),
		cmocka_unit_test(own_records),
		cmocka_unit_test(own_records_fit_or_are_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
