/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The ring between a worker and the log: nothing is lost, invented or torn between two threads; what finds no room is counted; samples are few and stand
 * for all. */
#include "queries.h"
#include <pthread.h>
#include <stdatomic.h>
#include "base/hash.h"

static int set_up(void **ctx)
{
	*ctx = query_ring_new();
	return *ctx ? 0 : -1;
}

static int tear_down(void **ctx)
{
	query_ring_free(*ctx);
	return 0;
}

struct last { struct query_seen q; uint8_t name[NAME_WIRE_MAX]; unsigned count; };

static void keep_last(void *ctx, const struct query_seen *q)
{
	struct last *l = ctx;
	l->q = *q;
	memcpy(l->name, q->name, q->name_len);
	l->count++;
}

static void a_record_comes_out_as_it_went_in(void **ctx)
{
	struct name n;
	struct query_record q = record_of(&n, "www.example.com", "2001:db8::7", OUTCOME_BLOCKED);
	q.weight = 9;
	q.rcode = 3;
	q.qtype = 65;
	q.filter_rule = 4;
	q.steer_rule = 511;
	q.config_serial = 77;
	query_ring_put(*ctx, &q);
	struct last l = { .count = 0 };
	assert_true(query_ring_drain(*ctx, keep_last, &l) > 0);
	assert_int_equal(l.count, 1);
	assert_true(l.q.wall_ms == q.wall_ms && l.q.took_us == 85 && l.q.weight == 9 && l.q.config_serial == 77);
	assert_true(l.q.qtype == 65 && l.q.rcode == 3 && l.q.outcome == OUTCOME_BLOCKED && l.q.filter_rule == 4 && l.q.steer_rule == 511);
	assert_true(addr_equal(&l.q.client, &q.client));
	assert_int_equal(l.q.name_len, n.len);
	assert_memory_equal(l.name, n.wire, n.len);
	assert_int_equal(query_ring_drain(*ctx, keep_last, &l), 0);
}

static void what_finds_no_room_is_counted(void **ctx)
{
	struct name n;
	struct query_record q = record_of(&n, "a.name.of.some.length.example", "192.0.2.1", OUTCOME_CACHED);
	struct last l = { .count = 0 };
	unsigned put = 0;
	for (; !query_ring_lost(*ctx); put++)
		query_ring_put(*ctx, &q);
	assert_int_equal(query_ring_lost(*ctx), 1);
	assert_in_range(put, QUERY_RING_BYTES / 80, QUERY_RING_BYTES / 64);
	query_ring_drain(*ctx, keep_last, &l);
	assert_int_equal(l.count, put - 1);
	/* There is room again. */
	query_ring_put(*ctx, &q);
	query_ring_drain(*ctx, keep_last, &l);
	assert_int_equal(l.count, put);
	assert_int_equal(query_ring_lost(*ctx), 1);
}

/* --- two threads --- */

enum { SENT = 400000 };
struct pair { struct query_ring *ring; atomic_bool is_done; uint64_t next, count; };

/* Record i is told by its name, so that a torn one would be seen. */
static void *produce(void *arg)
{
	struct pair *p = arg;
	struct name n;
	char text[128];
	for (unsigned i = 0; i < SENT; i++) {
		snprintf(text, sizeof text, "n%u.%.*s.example", i, (int)(i % 50 + 1), "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz");
		struct query_record q = record_of(&n, text, i & 1 ? "192.0.2.1" : "2001:db8::1", OUTCOME_CACHED);
		q.took_us = i;
		query_ring_put(p->ring, &q);
	}
	atomic_store(&p->is_done, true);
	return NULL;
}

static void check(void *ctx, const struct query_seen *q)
{
	struct pair *p = ctx;
	char name[NAME_TEXT_MAX], want[32];
	assert_true(q->took_us >= p->next && q->took_us < SENT);
	snprintf(want, sizeof want, "n%u.", q->took_us);
	name_to_text(name, q->name);
	if (strncmp(name, want, strlen(want)) || strcmp(name + strlen(name) - 8, ".example") || q->client.family != (q->took_us & 1 ? AF_INET : AF_INET6))
		fail_msg("record %u has name %s", q->took_us, name);
	p->next = q->took_us + 1;
	p->count++;
}

static void two_threads_lose_nothing_uncounted(void **ctx)
{
	struct pair p = { .ring = *ctx };
	pthread_t t;
	pthread_create(&t, NULL, produce, &p);
	while (!atomic_load(&p.is_done))
		query_ring_drain(p.ring, check, &p);
	pthread_join(t, NULL);
	query_ring_drain(p.ring, check, &p);
	assert_int_equal(p.count + query_ring_lost(p.ring), SENT);
}

/* --- samples --- */

struct sampled { uint64_t records, stands_for, largest; };

/* per_s queries a second, spread over its milliseconds. */
static struct sampled ask(struct query_ring *r, uint64_t from_ms, unsigned per_s)
{
	struct sampled s = { 0 };
	for (unsigned i = 0; i < per_s; i++) {
		uint32_t weight;
		if (!query_ring_wants(r, from_ms + (uint64_t)i * 1000 / per_s, &weight))
			continue;
		s.records++;
		s.stands_for += weight;
		s.largest = weight > s.largest ? weight : s.largest;
	}
	return s;
}

static void few_queries_are_all_taken(void **ctx)
{
	for (unsigned i = 0; i < 5; i++) {
		struct sampled s = ask(*ctx, 5000 + i * 1000, 1000);
		assert_int_equal(s.records, 1000);
		assert_int_equal(s.largest, 1);
	}
}

static void many_queries_are_sampled(void **ctx)
{
	uint64_t all = 0;
	for (unsigned i = 0; i < 20; i++) {
		struct sampled s = ask(*ctx, 5000 + i * 1000, 120000);
		assert_in_range(s.records, 1, QUERY_LOG_SAMPLE_S);
		/* The first second has to find the stride; from then on a sample stands for about a hundred. */
		if (i) {
			assert_in_range(s.records, 800, QUERY_LOG_SAMPLE_S);
			assert_in_range(s.largest, 50, 2000);
			all += s.stands_for;
		}
	}
	assert_in_range(all, 19 * 120000 * 99ull / 100, 19 * 120000 * 101ull / 100);
}

static void a_sudden_flood_stays_in_the_budget(void **ctx)
{
	ask(*ctx, 5000, 100);
	struct sampled s = ask(*ctx, 6000, 1000000);
	assert_in_range(s.records, 1600, QUERY_LOG_SAMPLE_S);
	s = ask(*ctx, 7000, 1000000);
	assert_in_range(s.records, 800, QUERY_LOG_SAMPLE_S);
	/* And its end: everything is taken again after a second. */
	ask(*ctx, 8000, 100);
	s = ask(*ctx, 9000, 100);
	assert_int_equal(s.records, 100);
}

/* Two names asked in turn must not become one name with all the weight. */
static void a_rhythm_is_not_mistaken(void **ctx)
{
	uint64_t of[2] = { 0 };
	for (unsigned i = 0; i < 20 * 100000; i++) {
		uint32_t weight;
		if (query_ring_wants(*ctx, 5000 + i / 100, &weight))
			of[i & 1] += weight;
	}
	assert_in_range(of[0] * 100 / (of[0] + of[1]), 45, 55);
}

static void with_the_log_on_all_are_taken(void **ctx)
{
	query_ring_take_all(*ctx, true);
	struct sampled s = ask(*ctx, 5000, 100000);
	assert_int_equal(s.records, 100000);
	assert_int_equal(s.largest, 1);
	query_ring_take_all(*ctx, false);
	s = ask(*ctx, 6000, 100000);
	assert_in_range(s.records, 1, QUERY_LOG_SAMPLE_S);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_record_comes_out_as_it_went_in, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_finds_no_room_is_counted, set_up, tear_down),
		cmocka_unit_test_setup_teardown(two_threads_lose_nothing_uncounted, set_up, tear_down),
		cmocka_unit_test_setup_teardown(few_queries_are_all_taken, set_up, tear_down),
		cmocka_unit_test_setup_teardown(many_queries_are_sampled, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_sudden_flood_stays_in_the_budget, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_rhythm_is_not_mistaken, set_up, tear_down),
		cmocka_unit_test_setup_teardown(with_the_log_on_all_are_taken, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
