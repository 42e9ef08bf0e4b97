/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One kept answer for different clients: id, flags, case, age, OPT, EDE, truncation. */
#include "make.h"

#include "wire/patch.h"

static struct make kept, asked;
static struct wire_answer a, b;
static uint8_t out[65536 + 200];

static size_t patch(const struct wire_query *q, const struct wire_patch *p)
{
	return wire_answer_patch(
		out, sizeof(out), kept.bytes, a.authority_end, a.ttl_offset, a.ttl_count, q, asked.bytes + WIRE_HEADER, p);
}

static void keep_two_addresses(void)
{
	make_head(&kept, FLAG_QR | FLAG_RA | FLAG_AD, 2, 0, 0, "www.example", RR_A);
	make_a(&kept, NULL, 100, 1);
	make_a(&kept, NULL, 40, 2);
	assert_int_equal(wire_answer_walk(&a, kept.bytes, kept.len), 0);
}

static struct wire_query ask(unsigned flags)
{
	struct wire_query q;

	make_head(&asked, flags, 0, 0, 0, "wWw.ExAmPlE", RR_A);
	assert_int_equal(wire_query_parse(&q, asked.bytes, asked.len), WIRE_OK);
	q.id = 0xbeef;
	return q;
}

static uint32_t ttl(unsigned i)
{
	const uint8_t *p = out + a.ttl_offset[i];

	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void a_client_without_edns(void **state)
{
	struct wire_query q = ask(FLAG_RD | FLAG_CD);

	keep_two_addresses();
	assert_int_equal(
		patch(&q, &(struct wire_patch){.age_s = 30, .ttl_floor_s = 15, .ede = EDE_STALE, .clear_ad = true, .limit = 512}),
		kept.len);
	assert_int_equal(wire_answer_walk(&b, out, kept.len), 0);
	assert_int_equal(b.id, 0xbeef);
	assert_int_equal(b.flags, FLAG_QR | FLAG_RA | FLAG_RD | FLAG_CD);
	assert_memory_equal(out + 12, asked.bytes + 12, q.question_len);
	assert_int_equal(ttl(0), 70);
	assert_int_equal(ttl(1), 15);
	assert_int_equal(b.addr_count, 2);
}

static void flags_follow_the_client(void **state)
{
	struct wire_query q = ask(0);

	keep_two_addresses();
	kept.bytes[2] |= 1;
	kept.bytes[3] |= 0x10;
	patch(&q, &(struct wire_patch){.ede = EDE_NONE});
	assert_int_equal(wire_answer_walk(&b, out, kept.len), 0);
	assert_int_equal(b.flags, FLAG_QR | FLAG_RA | FLAG_AD);
}

static void old_and_senseless_ttls(void **state)
{
	struct wire_query q = ask(0);

	keep_two_addresses();
	kept.bytes[a.ttl_offset[0]] = 0x80;
	patch(&q, &(struct wire_patch){.age_s = 1000, .ede = EDE_NONE});
	assert_int_equal(ttl(0), 0);
	assert_int_equal(ttl(1), 0);
}

static void a_client_with_edns(void **state)
{
	struct wire_query q = ask(FLAG_RD);
	size_t len;

	keep_two_addresses();
	q.has_edns = q.has_do = true;
	len = patch(&q, &(struct wire_patch){.ede = EDE_STALE, .ede_text = "old", .limit = 1232, .our_udp_size = 1232});
	assert_int_equal(len, kept.len + 11 + 6 + 3);
	assert_memory_equal(out + kept.len, "\0\0\51\4\320\0\0\200\0\0\11\0\17\0\5\0\3old", 20);
	assert_int_equal(wire_answer_walk(&b, out, len), 0);
	assert_int_equal(b.authority_end, kept.len);
}

static void too_long_is_truncated(void **state)
{
	struct wire_query q = ask(FLAG_RD);
	size_t len;

	make_head(&kept, FLAG_QR, 40, 0, 0, "www.example", RR_A);
	for (unsigned i = 0; i < 40; i++)
		make_a(&kept, NULL, 60, (uint8_t)i);
	assert_int_equal(wire_answer_walk(&a, kept.bytes, kept.len), 0);
	/* Exactly fitting is not too long, and the OPT counts. */
	assert_int_equal(patch(&q, &(struct wire_patch){.ede = EDE_NONE, .limit = kept.len}), kept.len);
	assert_int_equal(out[2] & 2, 0);
	q.has_edns = true;
	for (size_t over = 0; over < 2; over++) {
		len = patch(&q, &(struct wire_patch){.ede = EDE_NONE, .limit = kept.len + 11 - over, .our_udp_size = 1232});
		assert_int_equal(len, over ? (size_t)WIRE_HEADER + q.question_len + 11 : kept.len + 11);
		assert_int_equal(wire_answer_walk(&b, out, len), 0);
		assert_int_equal(b.flags & FLAG_TC, over ? FLAG_TC : 0);
		assert_int_equal(b.ancount, over ? 0 : 40);
		assert_int_equal(b.id, 0xbeef);
	}
}

/* A kept answer came by TCP and may be far larger than a datagram's buffer. */
static void what_does_not_fit_the_buffer_is_truncated(void **state)
{
	struct wire_query q = ask(FLAG_RD);
	size_t len;

	make_head(&kept, FLAG_QR, 200, 0, 0, "www.example", RR_A);
	for (unsigned i = 0; i < 200; i++)
		make_a(&kept, NULL, 60, (uint8_t)i);
	assert_int_equal(wire_answer_walk(&a, kept.bytes, kept.len), 0);
	assert_true(kept.len > 1024);
	len = wire_answer_patch(out, 1024, kept.bytes, a.authority_end, a.ttl_offset, a.ttl_count, &q, asked.bytes + WIRE_HEADER,
		&(struct wire_patch){.ede = EDE_NONE, .limit = 4096});
	assert_int_equal(len, WIRE_HEADER + q.question_len);
	assert_int_equal(out[2] & 2, 2);
}

static uint32_t read32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void bound_and_walk(const struct wire_ttl_bounds *bounds)
{
	assert_int_equal(wire_answer_walk(&a, kept.bytes, kept.len), 0);
	wire_ttl_bound(kept.bytes, &a, bounds);
	assert_int_equal(wire_answer_walk(&b, kept.bytes, kept.len), 0);
	assert_int_equal(a.authority_end, b.authority_end);
}

static void bounds_change_ttl_fields_and_nothing_else(void **state)
{
	static uint8_t before[65536];

	make_head(&kept, FLAG_QR, 4, 0, 1, "www.example", RR_A);
	make_a(&kept, NULL, 5, 1);
	make_a(&kept, NULL, 0x80000000, 2);
	make_rr(&kept, NULL, RR_RRSIG, 500);
	make_bytes(&kept, "\0\1\5\2\377\377\377\0", 8); /* type, algorithm, labels, original TTL */
	make_bytes(&kept, "\0\0\0\0\0\0\0\0\0\0", 10);
	make_name(&kept, "example");
	make_bytes(&kept, "signature", 9);
	make_a(&kept, NULL, 50, 3);
	make_rr(&kept, ".", RR_OPT, 0x8000);
	memcpy(before, kept.bytes, kept.len);
	bound_and_walk(&(struct wire_ttl_bounds){.min_s = 30, .max_s = 60});
	assert_int_equal(a.ttl_count, 4);
	assert_int_equal(read32(kept.bytes + a.ttl_offset[0]), 30);
	assert_int_equal(read32(kept.bytes + a.ttl_offset[1]), 30);
	assert_int_equal(read32(kept.bytes + a.ttl_offset[2]), 60);
	assert_int_equal(read32(kept.bytes + a.ttl_offset[3]), 50);
	for (unsigned i = 0; i < a.ttl_count; i++)
		memcpy(kept.bytes + a.ttl_offset[i], before + a.ttl_offset[i], 4);
	assert_memory_equal(before, kept.bytes, kept.len);
	wire_ttl_age(kept.bytes, a.ttl_offset, a.ttl_count, 20);
	assert_int_equal(read32(kept.bytes + a.ttl_offset[0]), 0);
	assert_int_equal(read32(kept.bytes + a.ttl_offset[2]), 480);
}

/* Only an SOA of the authority section says how long a negative answer lives. */
static void bounds_of_a_negative_answer(void **state)
{
	size_t minimum_at[2];

	make_head(&kept, FLAG_QR | RCODE_NXDOMAIN, 1, 2, 0, "www.example", RR_SOA);
	make_soa(&kept, NULL, 5000, 9000);
	minimum_at[0] = kept.len - 4;
	make_rr(&kept, "example", RR_NS, 5000);
	make_name(&kept, "ns.example");
	make_soa(&kept, "example", 5000, 9000);
	minimum_at[1] = kept.len - 4;
	bound_and_walk(&(struct wire_ttl_bounds){.max_s = 3600, .soa_max_s = 100});
	assert_int_equal(read32(kept.bytes + a.ttl_offset[0]), 3600);
	assert_int_equal(read32(kept.bytes + a.ttl_offset[1]), 3600);
	assert_int_equal(read32(kept.bytes + a.ttl_offset[2]), 100);
	assert_int_equal(read32(kept.bytes + minimum_at[1]), 9000);
	bound_and_walk(&(struct wire_ttl_bounds){.max_s = 3600, .soa_max_s = 100, .with_minimum = true});
	assert_int_equal(read32(kept.bytes + minimum_at[0]), 9000);
	assert_int_equal(read32(kept.bytes + minimum_at[1]), 3600);
}

/* A name behind the SOA may be made of its MINIMUM: it must stay what it was when it was judged well formed. */
static void a_name_made_of_minimum_stays(void **state)
{
	size_t minimum_at;

	make_head(&kept, FLAG_QR | RCODE_NXDOMAIN, 0, 2, 0, "www.example", RR_A);
	make_soa(&kept, "example", 50, 0x00016100); /* from its second byte on: a name */
	minimum_at = kept.len - 4;
	make_rr(&kept, "example", RR_NS, 50);
	make16(&kept, 0xc000 | (unsigned)(minimum_at + 1));
	bound_and_walk(&(struct wire_ttl_bounds){.max_s = 0x00015180, .soa_max_s = 50, .with_minimum = true});
	assert_int_equal(read32(kept.bytes + minimum_at), 0x00016100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_without_edns),
		cmocka_unit_test(flags_follow_the_client),
		cmocka_unit_test(old_and_senseless_ttls),
		cmocka_unit_test(a_client_with_edns),
		cmocka_unit_test(too_long_is_truncated),
		cmocka_unit_test(what_does_not_fit_the_buffer_is_truncated),
		cmocka_unit_test(bounds_change_ttl_fields_and_nothing_else),
		cmocka_unit_test(bounds_of_a_negative_answer),
		cmocka_unit_test(a_name_made_of_minimum_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
