/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Groups that belong to a way: their sockets, and what a way that goes down and comes back means for their questions. */
#include "asker.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

/* One group, of the way, with the second server. */
static int setup_way(void **state)
{
	int r = setup_with(true);

	upstreams[0] = (struct cfg_upstream){.name = "alone", .servers = endpoints[1], .server_count = 1, .way = 0};
	config.upstream_count = 1;
	refusals = taken_udp = taken_tcp = stale_count = 0;
	return r < 0 ? r : resolver_configure(resolver, &config);
}

static void sockets_of_a_way_are_taken(void **state)
{
	struct ask k;

	refusals = 3;
	k = ask_once("www.example");
	assert_true(is_duly_from(&k, 2));
	assert_int_equal(refusals, 0);
	assert_calm_equal(taken_udp, 1);
	k = ask_once("tc.example");
	assert_true(is_duly_from(&k, 2));
	assert_calm_equal(taken_tcp, 1);
	/* With one socket open and no other to be had, that one is used. */
	refusals = 1000;
	k = ask_once("third.example");
	assert_true(is_duly_from(&k, 2));
	refusals = 0;
}

/* A used socket that cannot send any more is no reason to fail or to wait: its batch leaves by another one, at once or when there
 * is one. */
static void a_batch_that_cannot_leave_takes_another_socket(void **state)
{
	enum { MANY = 20 };
	struct ask k[MANY];

	for (unsigned round = 0; round < 2; round++) {
		char text[32];

		snprintf(text, sizeof(text), "first%u.example", round);
		k[0] = ask_once(text);
		assert_true(is_duly_from(&k[0], 2));
		assert_int_equal(shutdown(last_taken, SHUT_WR), 0);
		/* The place that is drawn is most likely empty: without a socket for it the broken one is taken. */
		refusals = 1 + round;
		for (unsigned i = 0; i < MANY; i++) {
			snprintf(text, sizeof(text), "n%u-%u.example", round, i);
			ask(&k[i], 0, text);
		}
		run();
		assert_int_equal(refusals, 0);
		for (unsigned i = 0; i < MANY; i++)
			assert_true(is_from(&k[i], 2));
		assert_true(stat_of(0).is_healthy);
		assert_int_equal(stat_of(0).in_flight, 0);
		/* A way that comes back has no socket yet. */
		resolver_way_changed(resolver, 0, true);
		resolver_way_changed(resolver, 0, false);
	}
	assert_calm_equal(stat_of(0).errors, 0);
}

static bool is_second_asked(void)
{
	return fake[1].udp_queries >= 2;
}

static void a_way_that_goes_down_ends_its_questions(void **state)
{
	struct ask k[3], late;
	unsigned asked;

	ask(&k[0], 0, "silent.example");
	ask(&k[1], 0, "silent2.example");
	ask(&k[2], 0, "silent2.example");
	run_until(is_second_asked);
	resolver_way_changed(resolver, 1, true); /* another one */
	resolver_way_changed(resolver, 0, true);
	for (unsigned i = 0; i < 3; i++)
		assert_false(k[i].is_done);
	run();
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(k[i].result, UPSTREAM_UNREACHABLE);
	/* Nothing is sent while it is down, nor probed. */
	taken_udp = 0;
	asked = fake[1].udp_queries;
	late = ask_once("www.example");
	assert_int_equal(late.result, UPSTREAM_UNREACHABLE);
	assert_int_equal(taken_udp, 0);
	assert_int_equal(fake[1].udp_queries, asked);
	/* Told again: nothing. Asked before we were told that it is up: sent. */
	resolver_way_changed(resolver, 0, true);
	ask(&late, 0, "www.example");
	resolver_way_changed(resolver, 0, false);
	run();
	assert_true(is_from(&late, 2));
}

static bool first_is_unhealthy(void)
{
	return !stat_of(0).is_healthy;
}

static void a_way_that_comes_back_starts_anew(void **state)
{
	struct ask k[4];
	unsigned probes;

	k[0] = ask_once("tc.example");
	assert_calm_equal(taken_tcp, 1);
	atomic_store(&fake[1].mode, FAKE_SILENT);
	for (unsigned i = 0; i < 4; i++) {
		char text[32];

		snprintf(text, sizeof(text), "name%u.example", i);
		ask(&k[i], 0, text);
	}
	run_until(first_is_unhealthy);
	resolver_way_changed(resolver, 0, true);
	run();
	atomic_store(&fake[1].mode, FAKE_NORMAL);
	probes = fake[1].probes;
	resolver_way_changed(resolver, 0, false);
	assert_true(stat_of(0).is_healthy);
	assert_int_equal(stat_of(0).srtt_us, 0);
	taken_udp = taken_tcp = 0;
	k[0] = ask_once("tc-new.example");
	assert_true(is_duly_from(&k[0], 2));
	assert_true(taken_udp >= 1);
	assert_true(taken_tcp >= 1);
	assert_int_equal(fake[1].probes, probes);
	/* As long as a configuration keeps the group it keeps its state, under the way's new number. */
	resolver_way_changed(resolver, 0, true);
	static struct cfg_way two[2];
	two[1] = ways[0];
	upstreams[0].way = 1;
	config.ways = two;
	config.way_count = 2;
	assert_int_equal(resolver_configure(resolver, &config), 0);
	assert_int_equal(ask_once("down.example").result, UPSTREAM_UNREACHABLE);
	resolver_way_changed(resolver, 1, false);
	k[0] = ask_once("up.example");
	assert_true(is_from(&k[0], 2));
}

/* Sockets of an empty network namespace: as those that are bound to an interface which is gone, they reach nothing. */
static bool make_stale(unsigned count)
{
	int here = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	bool is_made = here >= 0 && unshare(CLONE_NEWNET) == 0;

	for (stale_count = 0; is_made && stale_count < count; stale_count++)
		stale[stale_count] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (is_made)
		assert_int_equal(setns(here, CLONE_NEWNET), 0);
	if (here >= 0)
		close(here);
	return is_made;
}

static void stale_sockets_of_a_way_say_nothing(void **state)
{
	struct ask k;

	if (!make_stale(63))
		skip();
	k = ask_once("www.example");
	assert_true(is_from(&k, 2));
	assert_int_equal(stat_of(0).errors, 0);
	assert_int_equal(stale_count, 0);
	/* Until there is no end of them. */
	resolver_way_changed(resolver, 0, true);
	resolver_way_changed(resolver, 0, false);
	assert_true(make_stale(70));
	assert_int_equal(ask_once("www2.example").result, UPSTREAM_UNREACHABLE);
	assert_false(stat_of(0).is_healthy);
	assert_int_equal(stale_count, 70 - 65);
	while (stale_count)
		close(stale[--stale_count]);
	run_until(first_is_healthy);
	k = ask_once("www3.example");
	assert_true(is_from(&k, 2));
}

static uint64_t look_from_ms;

static bool has_waited(void)
{
	return clock_ms() - look_from_ms >= 150;
}

/* What was lost before a server's first answer is asked again with it, not when its time is over. A machine that stalls shows
 * nothing, so there are more rounds. */
static void what_was_lost_in_the_dark_is_asked_again(void **state)
{
	enum { ROUNDS = 20, WELL_BEFORE_MS = 400 /* an unknown server has 500 */ };
	bool is_seen = false;

	for (unsigned i = 0; i < ROUNDS && !is_seen; i++) {
		struct ask lost, next;
		char text[32];

		resolver_way_changed(resolver, 0, true);
		resolver_way_changed(resolver, 0, false);
		atomic_store(&fake[1].mode, FAKE_SILENT);
		snprintf(text, sizeof(text), "lost%u.example", i);
		look_from_ms = clock_ms();
		ask(&lost, 0, text);
		run_until(has_waited);
		atomic_store(&fake[1].mode, FAKE_NORMAL);
		snprintf(text, sizeof(text), "next%u.example", i);
		ask(&next, 0, text);
		run();
		assert_true(is_from(&lost, 2) && is_from(&next, 2));
		is_seen = clock_ms() - look_from_ms < WELL_BEFORE_MS;
	}
	assert_true(is_seen);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(sockets_of_a_way_are_taken, setup_way, teardown),
	        cmocka_unit_test_setup_teardown(a_batch_that_cannot_leave_takes_another_socket, setup_way, teardown),
	        cmocka_unit_test_setup_teardown(a_way_that_goes_down_ends_its_questions, setup_way, teardown),
	        cmocka_unit_test_setup_teardown(a_way_that_comes_back_starts_anew, setup_way, teardown),
	        cmocka_unit_test_setup_teardown(stale_sockets_of_a_way_say_nothing, setup_way, teardown),
	        cmocka_unit_test_setup_teardown(what_was_lost_in_the_dark_is_asked_again, setup_way, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
