/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The sketches against counting everything; the hour that passes; what is shown. */
#include "queries.h"
#include <jansson.h>
#include "stat/query_top.h"

/* Zipf-like keys: number i is asked about 1/(i+1) as often as the first. A generator of our own, so that every run is the same. */
static uint32_t draw(uint64_t *state, unsigned keys)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	double u = (double)(*state >> 11) / (double)(1ull << 53), x = 1;
	while (x * 2 < keys && u < 0.5) {
		u *= 2;
		x *= 2;
	}
	return (uint32_t)((u - 0.5) * 2 * x) + (uint32_t)x - 1;
}

static void counts_are_within_their_error(void **ctx)
{
	enum { KEYS = 1 << 16, COUNTERS = 512, ALL = 400000 };
	static uint64_t exact[2 * KEYS];
	struct sketch *s = sketch_new(COUNTERS);
	struct sketch_entry top[COUNTERS];
	uint64_t state = 1, sum = 0;
	(void)ctx;
	for (unsigned i = 0; i < ALL; i++) {
		uint32_t k = draw(&state, KEYS), weight = i % 7 + 1;
		exact[k] += weight;
		sum += weight;
		sketch_add(s, (const uint8_t *)&k, sizeof k, weight, 0);
	}
	unsigned n = sketch_largest(s, top, COUNTERS);
	assert_int_equal(n, COUNTERS);
	for (unsigned i = 0; i < n; i++) {
		uint32_t k;
		memcpy(&k, top[i].key, sizeof k);
		assert_true(exact[k] <= top[i].count && exact[k] + top[i].error >= top[i].count);
		assert_true(top[i].error <= sum / COUNTERS);
		assert_true(!i || top[i - 1].count >= top[i].count);
	}
	/* Every key with more than its share is there. */
	for (uint32_t k = 0; k < 2 * KEYS; k++) {
		bool is_there = exact[k] <= sum / COUNTERS;
		for (unsigned i = 0; !is_there && i < n; i++)
			is_there = !memcmp(top[i].key, &k, sizeof k);
		assert_true(is_there);
	}
	sketch_free(s);
}

static void few_keys_are_counted_exactly(void **ctx)
{
	struct sketch *s = sketch_new(64), *whole = sketch_new(64);
	struct sketch_entry top[8];
	uint8_t key[QUERY_TOP_KEY_MAX];
	(void)ctx;
	memset(key, 'k', sizeof key);
	/* Keys of every length, so those inside a counter and those beside it. */
	for (unsigned round = 0; round < 3; round++)
		for (unsigned len = 1; len <= 60; len++)
			sketch_add(s, key, len, len, 0);
	sketch_merge(whole, s);
	sketch_merge(whole, s);
	assert_int_equal(sketch_largest(whole, top, 8), 8);
	for (unsigned i = 0; i < 8; i++)
		assert_true(top[i].len == 60 - i && top[i].count == 6 * (60u - i) && !top[i].error);
	sketch_clear(s);
	assert_int_equal(sketch_largest(s, top, 8), 0);
	/* A long key that is taken over, and one that is no key. */
	for (unsigned i = 0; i < 1000; i++) {
		memcpy(key, &i, sizeof i);
		sketch_add(s, key, i % 2 ? 255 : 5, 1, 0);
	}
	sketch_add(s, key, 0, 1000, 0);
	assert_int_equal(sketch_largest(s, top, 8), 8);
	assert_in_range(top[0].count, 1000 / 64, 1000 / 64 + 1);
	sketch_free(s);
	sketch_free(whole);
}

static void ask(struct query_top *t, const char *name, const char *client, enum query_outcome o, uint32_t weight)
{
	struct name n;
	struct query_seen q = seen_of(&n, name, client, o);
	q.weight = weight;
	query_top_add(t, &q);
}

static json_t *show(struct query_top *t, uint64_t now_ms, unsigned count)
{
	struct buf out;
	buf_init(&out, 1 << 20);
	assert_int_equal(query_top_show(t, now_ms, count, &out), 0);
	json_t *j = json_loadb(out.bytes, out.len, 0, NULL);
	assert_non_null(j);
	buf_free(&out);
	return j;
}

static void assert_shows(json_t *j, const char *when, const char *what, const char *want)
{
	char have[512] = "";
	size_t i;
	json_t *one;
	json_array_foreach(json_object_get(json_object_get(j, when), what), i, one)
	{
		const char *key = json_string_value(json_object_get(one, strcmp(what, "clients") ? "name" : "client"));
		snprintf(have + strlen(have), sizeof have - strlen(have), "%s %lld ", key, (long long)json_integer_value(json_object_get(one, "count")));
	}
	assert_string_equal(have, want);
}

static void the_hour_passes(void **ctx)
{
	uint64_t now = 1000000;
	struct query_top *t = query_top_new(now);
	(void)ctx;
	ask(t, "a.example", "192.0.2.1", OUTCOME_CACHED, 5);
	ask(t, "ads.example", "192.0.2.2", OUTCOME_BLOCKED, 2);
	json_t *j = show(t, now, 10);
	assert_shows(j, "hour", "names", "a.example 5 ads.example 2 ");
	assert_shows(j, "hour", "clients", "192.0.2.1 5 192.0.2.2 2 ");
	assert_shows(j, "hour", "blocked", "ads.example 2 ");
	assert_shows(j, "start", "names", "a.example 5 ads.example 2 ");
	assert_int_equal(json_integer_value(json_object_get(json_object_get(j, "hour"), "queries")), 7);
	json_decref(j);
	/* Still of the hour in its last window, no more in the next. */
	now += 5 * QUERY_TOP_WINDOW_MS;
	query_top_turn(t, now);
	ask(t, "b.example", "2001:db8::1", OUTCOME_CACHED, 6);
	j = show(t, now, 2);
	assert_shows(j, "hour", "names", "b.example 6 a.example 5 ");
	json_decref(j);
	now += QUERY_TOP_WINDOW_MS;
	j = show(t, now, 10);
	assert_shows(j, "hour", "names", "b.example 6 ");
	assert_shows(j, "hour", "clients", "2001:db8::1 6 ");
	assert_shows(j, "hour", "blocked", "");
	assert_shows(j, "start", "names", "b.example 6 a.example 5 ads.example 2 ");
	assert_int_equal(json_integer_value(json_object_get(json_object_get(j, "start"), "queries")), 13);
	assert_int_equal(json_integer_value(json_object_get(j, "since_s")), 3600);
	json_decref(j);
	/* The machine slept for a week. */
	now += 7 * 86400000ull;
	j = show(t, now, 10);
	assert_shows(j, "hour", "names", "");
	assert_shows(j, "start", "clients", "2001:db8::1 6 192.0.2.1 5 192.0.2.2 2 ");
	json_decref(j);
	query_top_turn(t, now);
	ask(t, "c.example", "192.0.2.1", OUTCOME_CACHED, 1);
	j = show(t, now + QUERY_TOP_WINDOW_MS - 1, 10);
	assert_shows(j, "hour", "names", "c.example 1 ");
	json_decref(j);
	query_top_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_are_within_their_error),
		cmocka_unit_test(few_keys_are_counted_exactly),
		cmocka_unit_test(the_hour_passes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
