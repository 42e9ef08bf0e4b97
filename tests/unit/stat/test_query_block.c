/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Blocks of the query log: what is added is read back; whatever happens to the bytes, a block is right or is none; a record as JSON. */
#include "queries.h"
#include <jansson.h>
#include "stat/query_text.h"

static void assert_text(const char *text, size_t len, const char *want)
{
	if (!want) {
		assert_null(text);
		return;
	}
	assert_int_equal(len, strlen(want));
	assert_memory_equal(text, want, len);
}

static void records_come_back(void **ctx)
{
	static struct query_block b;
	struct query_reader rd;
	struct query_entry e;
	struct name n;
	(void)ctx;
	query_block_reset(&b);
	struct query_seen q = seen_of(&n, "ads.example", "192.168.8.20", OUTCOME_BLOCKED);
	assert_true(query_block_add(&b, &q, "content filter", NULL));
	q = seen_of(&n, "www.example", "2001:db8::1", OUTCOME_CACHED);
	q.wall_ms -= 5000; /* the clock was set back */
	assert_true(query_block_add(&b, &q, NULL, "Tunnel 1"));
	assert_true(query_block_add(&b, &q, "content filter", "Tunnel 1"));
	q.client.family = 0;
	assert_true(query_block_add(&b, &q, NULL, NULL));
	query_block_end(&b);
	assert_int_equal(query_block_check(b.bytes, b.len), b.len);
	query_block_open(&rd, b.bytes, b.len);
	assert_true(query_block_next(&rd, &e));
	assert_text(e.filter, e.filter_len, "content filter");
	assert_text(e.steer, e.steer_len, NULL);
	assert_int_equal(e.outcome, OUTCOME_BLOCKED);
	assert_true(e.wall_ms == 1790000000123 && e.took_us == 85);
	assert_true(query_block_next(&rd, &e));
	assert_text(e.filter, e.filter_len, NULL);
	assert_text(e.steer, e.steer_len, "Tunnel 1");
	assert_true(e.wall_ms == 1789999995123 && e.client.family == AF_INET6 && e.name_len == n.len && !memcmp(e.name, n.wire, n.len));
	assert_true(query_block_next(&rd, &e));
	assert_text(e.filter, e.filter_len, "content filter");
	assert_text(e.steer, e.steer_len, "Tunnel 1");
	assert_true(query_block_next(&rd, &e));
	assert_int_equal(e.client.family, 0);
	assert_false(query_block_next(&rd, &e));
}

static void a_full_block_takes_no_more(void **ctx)
{
	static struct query_block b;
	struct query_reader rd;
	struct query_entry e;
	struct name n;
	char rule[32];
	unsigned added = 0, read = 0;
	(void)ctx;
	query_block_reset(&b);
	struct query_seen q = seen_of(&n, "some.name.example", "192.168.8.20", OUTCOME_ANSWERED);
	for (;; added++) {
		snprintf(rule, sizeof rule, "rule %u", added % 100);
		if (!query_block_add(&b, &q, rule, NULL))
			break;
	}
	assert_in_range(added, 500, 1000);
	assert_int_equal(b.records, added);
	query_block_end(&b);
	query_block_open(&rd, b.bytes, query_block_check(b.bytes, b.len));
	for (; query_block_next(&rd, &e); read++) {
		snprintf(rule, sizeof rule, "rule %u", read % 100);
		assert_text(e.filter, e.filter_len, rule);
	}
	assert_int_equal(read, added);
	/* More rules than a block can name. */
	query_block_reset(&b);
	for (added = 0;; added++) {
		snprintf(rule, sizeof rule, "rule %u", added);
		if (!query_block_add(&b, &q, rule, NULL))
			break;
	}
	assert_int_equal(added, QUERY_TEXTS_MAX);
	/* A time too far from the first. */
	query_block_reset(&b);
	assert_true(query_block_add(&b, &q, NULL, NULL));
	q.wall_ms += 3000000000ull;
	assert_false(query_block_add(&b, &q, NULL, NULL));
	query_block_reset(&b);
	assert_true(query_block_add(&b, &q, NULL, NULL));
}

/* Three blocks behind one another; every single damaged byte costs the block it is in and no other. */
static void damage_costs_one_block(void **ctx)
{
	static struct query_block b;
	static uint8_t bytes[4096];
	size_t len = 0, at_of[4];
	struct name n;
	(void)ctx;
	for (unsigned i = 0; i < 3; i++) {
		struct query_seen q = seen_of(&n, "some.name.example", "192.168.8.20", OUTCOME_ANSWERED);
		query_block_reset(&b);
		query_block_add(&b, &q, "a rule", NULL);
		query_block_end(&b);
		at_of[i] = len;
		memcpy(bytes + len, b.bytes, b.len);
		len += b.len;
	}
	at_of[3] = len;
	for (size_t hit = 0; hit < len; hit++) {
		unsigned found = 0;
		bytes[hit] ^= 0x41;
		for (size_t at = query_block_find(bytes, len, 0); at < len; at = query_block_find(bytes, len, at + query_block_check(bytes + at, len - at))) {
			assert_true(at == at_of[0] || at == at_of[1] || at == at_of[2]);
			found++;
		}
		assert_int_equal(found, 2);
		bytes[hit] ^= 0x41;
	}
	/* A torn end. */
	for (size_t cut = at_of[2]; cut < len; cut++) {
		assert_int_equal(query_block_find(bytes, cut, at_of[1]), at_of[1]);
		assert_int_equal(query_block_find(bytes, cut, at_of[2]), cut);
	}
}

static void a_record_as_json(void **ctx)
{
	struct name n;
	struct buf out;
	(void)ctx;
	buf_init(&out, 4096);
	n.len = 0;
	assert_true(name_from_wire(&n, (const uint8_t *)"\4a\"\n\\\3com", 10) > 0);
	struct query_entry e = { .wall_ms = 1790000000007, .took_us = 85, .qtype = 65, .rcode = 3, .outcome = OUTCOME_BLOCKED, .name_len = n.len, .name = n.wire, .filter = "\xc3\xa4\xff\"\x1b",
		.filter_len = 5 };
	addr_parse(&e.client, "192.168.8.20");
	query_entry_print(&e, &out);
	assert_string_equal(out.bytes, "{\"time\":\"2026-09-21T14:13:20.007Z\",\"at_ms\":1790000000007,\"client\":\"192.168.8.20\",\"name\":\"a\\\"\\\\010\\\\\\\\.com\",\"type\":\"HTTPS\","
				       "\"rcode\":\"NXDOMAIN\",\"outcome\":\"blocked\",\"filter\":\"\xc3\xa4?\\\"?\",\"took_us\":85}\n");
	json_t *j = json_loadb(out.bytes, out.len, 0, NULL);
	assert_non_null(j);
	json_decref(j);
	buf_free(&out);
	/* Whatever the bytes: it stays JSON. */
	for (unsigned a = 0; a < 256; a++)
		for (unsigned b = 0; b < 256; b++) {
			char text[6] = { 'x', (char)a, (char)b, (char)(b ^ 0x20), (char)0x80, 'y' };
			buf_init(&out, 4096);
			json_text_print(text, sizeof text, &out);
			j = json_loadb(out.bytes, out.len, JSON_DECODE_ANY, NULL);
			if (!j)
				fail_msg("%02x %02x: %s", a, b, out.bytes);
			json_decref(j);
			buf_free(&out);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_come_back),
		cmocka_unit_test(a_full_block_takes_no_more),
		cmocka_unit_test(damage_costs_one_block),
		cmocka_unit_test(a_record_as_json),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
