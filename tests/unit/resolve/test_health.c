/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Servers that die, are slow, and come back, under a steady stream of questions. A machine that stalls makes questions wait as
 * well, so what depends on time is tried in several rounds, and one must show it. */
#include "asker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { ROUNDS = 6, STREAM_MAX = 40000, TICK_MS = 1, LATE_US = 300 * 1000, LATE_FEW = 10 };

/* Questions at a rate, to a group, each with a name of its own. */
struct stream {
	unsigned group, per_second, count;
	const char *prefix;
	uint64_t began_us;
	bool is_on;
	struct ask *k; /* STREAM_MAX */
};
static struct stream first, second;
static struct deadline_queue tick;
static struct deadline tick_at;
static unsigned streams_begun;

static void stream_ask(struct stream *st)
{
	uint64_t due = st->is_on ? (clock_us() - st->began_us) * st->per_second / 1000000 : 0;

	while (st->count < due && st->count < STREAM_MAX) {
		char text[64];

		snprintf(text, sizeof(text), "%s%u-%u.example", st->prefix, streams_begun, st->count);
		ask(&st->k[st->count++], st->group, text);
	}
}

static void on_tick(struct deadline *d)
{
	deadline_add(loop, &tick, d);
	stream_ask(&first);
	stream_ask(&second);
}

static void stream_begin(struct stream *st, unsigned group, unsigned per_second, const char *prefix)
{
	struct ask *k = st->k;

	*st = (struct stream){.group = group, .per_second = per_second, .prefix = prefix, .began_us = clock_us(), .is_on = true};
	st->k = k ? k : calloc(STREAM_MAX, sizeof(*k));
	streams_begun++;
	if (!tick_at.next)
		deadline_add(loop, &tick, &tick_at);
}

static void streams_end(void)
{
	first.is_on = second.is_on = false;
	deadline_del(&tick_at);
	run();
}

static int setup_health(void **state)
{
	int r = setup_with(true);

	first.is_on = second.is_on = false;
	deadline_queue_init(loop, &tick, TICK_MS, on_tick);
	return r;
}

static int teardown_health(void **state)
{
	deadline_queue_done(loop, &tick);
	return teardown(state);
}

/* Of the questions from `from` on. */
static unsigned count_late(const struct stream *st, unsigned from, unsigned us)
{
	unsigned late = 0;

	for (unsigned i = from; i < st->count; i++)
		late += took_us(&st->k[i]) > us;
	return late;
}

static unsigned count_failed(const struct stream *st)
{
	unsigned failed = 0;

	for (unsigned i = 0; i < st->count; i++)
		failed += st->k[i].result != UPSTREAM_OK;
	return failed;
}

static unsigned seen;

static bool first_has_more(void)
{
	return fake[0].udp_queries > seen + 20;
}

static bool is_back(void)
{
	return stat_of(0).is_healthy && first_has_more();
}

/* How many questions waited long because the first server died in this way. */
static unsigned die_and_come_back(int mode, uint64_t *ret_moved)
{
	uint64_t sent;
	unsigned probes;

	warm_up(0);
	stream_begin(&first, 0, 5000, "n");
	run_for(300);
	atomic_store(&fake[0].mode, mode);
	run_for(1000);
	/* Everything has moved: nothing but probes is sent there. */
	sent = stat_of(0).sent;
	run_for(700);
	probes = 2;
	*ret_moved = stat_of(0).sent - sent > probes ? stat_of(0).sent - sent : 0;
	atomic_store(&fake[0].mode, FAKE_NORMAL);
	seen = fake[0].udp_queries;
	run_until(is_back);
	streams_end();
	assert_int_equal(count_failed(&first), 0);
	return count_late(&first, 0, LATE_US);
}

static void one_of_two_dies(int mode)
{
	unsigned late = 0;
	uint64_t left = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		late = die_and_come_back(mode, &left);
		if (late <= LATE_FEW && !left)
			return;
	}
	assert_in_range(late, 0, LATE_FEW);
	assert_int_equal(left, 0);
}

static void one_of_two_falls_silent(void **state)
{
	one_of_two_dies(FAKE_SILENT);
}

static void one_of_two_shuts_its_port(void **state)
{
	one_of_two_dies(FAKE_SHUT);
}

/* In flight when the silence is noticed: they move together, not each at its own time. */
static void what_is_in_flight_moves_at_once(void **state)
{
	uint64_t timeouts = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		warm_up(0);
		atomic_store(&fake[0].mode, FAKE_SILENT);
		timeouts = stat_of(0).timeouts;
		stream_begin(&first, 0, 200, "n");
		run_for(400);
		streams_end();
		timeouts = stat_of(0).timeouts - timeouts;
		assert_int_equal(count_failed(&first), 0);
		assert_false(stat_of(0).is_healthy);
		atomic_store(&fake[0].mode, FAKE_NORMAL);
		run_until(first_is_healthy);
		if (timeouts <= 5)
			return;
	}
	assert_in_range(timeouts, 0, 5);
}

static bool is_second_tried(void)
{
	return stat_of(2).timeouts >= 3;
}

static bool was_unhealthy;

static bool is_slow_over(void)
{
	was_unhealthy |= !stat_of(0).is_healthy && !stat_of(0).is_suspected;
	return !waiting || (first.is_on && first.count >= 100);
}

/* Slow names alone, then beside others: the server answers its probe, and stays in use. */
static void a_slow_name_is_not_a_dead_server(void **state)
{
	static struct ask slow[30];
	struct ask k;

	warm_up(0);
	was_unhealthy = false;
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 30; i++) {
			char text[32];

			snprintf(text, sizeof(text), "slow%u-%u.example", round, i);
			ask(&slow[i], 0, text);
		}
		if (round == 2)
			stream_begin(&first, 0, 100, "n");
		run_until(is_slow_over);
		streams_end();
		for (unsigned i = 0; i < 30; i++)
			assert_int_equal(slow[i].result, UPSTREAM_OK);
		run_until(first_is_healthy);
	}
	assert_true(stat_of(0).timeouts > 0);
	assert_false(was_unhealthy);
	k = ask_once("www.example");
	assert_true(is_duly_from(&k, 1));
}

/* The groups have one server each then. */
static bool is_second_dead(void)
{
	return stat_of(1).failure_hits > 0;
}

static bool is_second_back(void)
{
	return stat_of(1).is_healthy;
}

/* Its own questions fail at once when all its servers are known dead; others notice nothing. */
static void a_dead_group_leaves_the_others_alone(void **state)
{
	unsigned late = 0, slow = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t dead_us;
		unsigned dead_from;
		struct ask k;

		warm_up(0);
		atomic_store(&fake[1].mode, FAKE_SILENT);
		upstreams[0].server_count = 1; /* the first alone */
		configure(2);
		warm_up(0);
		stream_begin(&first, 0, 200, "n");
		stream_begin(&second, 1, 300, "dead");
		run_until(is_second_dead);
		dead_from = second.count;
		dead_us = clock_us();
		run_for(500);
		assert_false(stat_of(1).is_healthy);
		streams_end();
		assert_int_equal(count_failed(&first), 0);
		assert_int_equal(count_failed(&second), second.count);
		late = count_late(&first, 0, 90 * 1000);
		slow = count_late(&second, dead_from, 90 * 1000);
		/* Those that waited ended with it. */
		for (unsigned n = 0; n < dead_from; n++)
			slow += second.k[n].done_us > dead_us + 90 * 1000;
		/* It comes back: what failed is asked again at once. */
		ask(&k, 1, "dead.example");
		run();
		assert_int_not_equal(k.result, UPSTREAM_OK);
		atomic_store(&fake[1].mode, FAKE_NORMAL);
		run_until(is_second_back);
		ask(&k, 1, "dead.example");
		run();
		assert_int_equal(k.result, UPSTREAM_OK);
		if (!late && !slow)
			return;
	}
	assert_int_equal(late, 0);
	assert_int_equal(slow, 0);
}

/* What failed as the server was dead is asked again as soon as it is back, though its time is not over. */
static void what_failed_is_forgotten_when_the_server_is_back(void **state)
{
	struct ask k;
	unsigned failures = 0;

	upstreams[0].server_count = 1;
	configure(2);
	warm_up(0);
	atomic_store(&fake[0].mode, FAKE_SHUT);
	while (!atomic_load(&fake[0].is_shut))
		run_for(10);
	/* The second time it holds for two seconds, and the next probe comes within one. */
	for (uint64_t give_up_ms = clock_ms() + 20000; failures < 2;) {
		k = ask_once("www.example");
		failures += k.result == UPSTREAM_UNREACHABLE;
		assert_true(clock_ms() < give_up_ms);
		run_for(20);
	}
	k = ask_once("www.example");
	atomic_store(&fake[0].mode, FAKE_NORMAL);
	run_until(first_is_healthy);
	k = ask_once("www.example");
	assert_true(is_from(&k, 1));
}

/* Some servers do not answer for the root: what was refused is asked in the probes too. */
static void a_server_without_the_root_is_taken_back(void **state)
{
	struct ask k;

	upstreams[0].server_count = 1;
	configure(2);
	atomic_store(&fake[0].mode, FAKE_SILENT);
	stream_begin(&first, 0, 50, "n");
	do
		run_for(20);
	while (!stat_of(0).failure_hits);
	streams_end();
	atomic_store(&fake[0].mode, FAKE_NO_ROOT);
	ask(&k, 0, "asked.example");
	run();
	run_until(first_is_healthy);
	k = ask_once("asked.example");
	assert_true(is_from(&k, 1));
}

/* A group of one server goes on trying it while that is not known dead. */
static void a_single_server_is_tried_on(void **state)
{
	struct ask k[20];

	ask(&k[0], 1, "silent.example");
	run_until(is_second_tried);
	for (unsigned i = 0; i < 20; i++) {
		char text[32];

		snprintf(text, sizeof(text), "n%u.example", i);
		if (i)
			ask(&k[i], 1, text);
	}
	run();
	for (unsigned i = 1; i < 20; i++)
		assert_true(is_from(&k[i], 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(one_of_two_falls_silent, setup_health, teardown_health),
	        cmocka_unit_test_setup_teardown(one_of_two_shuts_its_port, setup_health, teardown_health),
	        cmocka_unit_test_setup_teardown(what_is_in_flight_moves_at_once, setup_health, teardown_health),
	        cmocka_unit_test_setup_teardown(a_slow_name_is_not_a_dead_server, setup_health, teardown_health),
	        cmocka_unit_test_setup_teardown(a_dead_group_leaves_the_others_alone, setup_health, teardown_health),
	        cmocka_unit_test_setup_teardown(what_failed_is_forgotten_when_the_server_is_back, setup_health, teardown_health),
	        cmocka_unit_test_setup_teardown(a_server_without_the_root_is_taken_back, setup_health, teardown_health),
	        cmocka_unit_test_setup_teardown(a_single_server_is_tried_on, setup_health, teardown_health),
	};
	int r = cmocka_run_group_tests(tests, NULL, NULL);

	free(first.k);
	free(second.k);
	return r;
}
