/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The resolver against scripted upstreams. */
#include "asker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void the_first_server_answers(void **state)
{
	struct ask k = ask_once("www.example");

	assert_true(is_duly_from(&k, 1));
	assert_calm_equal(fake[0].udp_queries, 1);
	assert_calm_equal(fake[0].edns_queries, 1);
	assert_calm_equal(fake[1].udp_queries, 0);
	assert_calm_equal(stat_of(0).answered, 1);
	assert_true(stat_of(0).srtt_us > 0);
	k = ask_once("nxdomain.example");
	assert_int_equal(k.result, UPSTREAM_OK);
	assert_int_equal(k.rcode, RCODE_NXDOMAIN);
	assert_calm_equal(fake[1].udp_queries, 0);
}

static void equal_questions_are_asked_once(void **state)
{
	static struct ask k[100], other[3];

	for (unsigned i = 0; i < 100; i++)
		ask(&k[i], 0, "same.example");
	ask_variant(&other[0], 0, "same.example", false, false);
	ask_variant(&other[1], 0, "same.example", true, true);
	ask(&other[2], 1, "same.example");
	run();
	for (unsigned i = 0; i < 100; i++)
		assert_true(is_duly_from(&k[i], 1));
	assert_true(is_duly_from(&other[0], 1));
	assert_true(is_duly_from(&other[1], 1));
	assert_true(is_duly_from(&other[2], 2));
	assert_calm_equal(fake[0].udp_queries, 3);
	assert_calm_equal(fake[1].udp_queries, 1);
}

static void truncated_answers_come_by_tcp(void **state)
{
	struct ask k[20];

	for (unsigned i = 0; i < 20; i++) {
		char text[32];

		snprintf(text, sizeof(text), "tc%u.example", i);
		ask(&k[i], 0, text);
	}
	run();
	for (unsigned i = 0; i < 20; i++) {
		assert_true(is_duly_from(&k[i], 1));
		assert_calm_equal(k[i].addr_count, 10);
	}
	assert_calm_equal(fake[0].tcp_queries, 20);
	assert_calm_equal(fake[0].accepted, 1);
	assert_calm_equal(stat_of(0).tcp, 20);
	/* The connection is kept. */
	k[0] = ask_once("tc-again.example");
	assert_calm_equal(k[0].addr_count, 10);
	assert_calm_equal(fake[0].accepted, 1);
}

static void a_server_may_close_its_connection(void **state)
{
	atomic_store(&fake[0].mode, FAKE_CLOSE_TCP);
	for (unsigned i = 0; i < 5; i++) {
		char text[32];
		struct ask k;

		snprintf(text, sizeof(text), "tc%u.example", i);
		k = ask_once(text);
		assert_int_equal(k.result, UPSTREAM_OK);
		assert_int_equal(k.addr_count, 10);
	}
	assert_true(fake[0].accepted >= 2);
}

static void without_tcp_a_truncated_answer_is_unreachable(void **state)
{
	assert_int_equal(ask_once("tc.example").result, UPSTREAM_UNREACHABLE);
	/* That says nothing about UDP. */
	assert_true(stat_of(0).is_healthy);
}

static void forged_answers_are_ignored(void **state)
{
	for (unsigned i = 0; i < 50; i++) {
		char text[32];
		struct ask k;

		snprintf(text, sizeof(text), "forged%u.example", i);
		k = ask_once(text);
		assert_true(is_duly_from(&k, 1));
	}
	/* The wrong id and the wrong question were seen and counted; what came from a strange port never arrived. */
	assert_calm_equal(stat_of(0).errors, 100);
}

static void failures_go_to_the_next_server(void **state)
{
	struct ask k;

	atomic_store(&fake[0].mode, FAKE_SERVFAIL);
	k = ask_once("www.example");
	assert_true(is_duly_from(&k, 2));
	assert_true(stat_of(0).is_healthy);
	k = ask_once("servfail.example");
	assert_int_equal(k.result, UPSTREAM_OK);
	assert_int_equal(k.rcode, RCODE_SERVFAIL);
	atomic_store(&fake[0].mode, FAKE_NORMAL);
	k = ask_once("refused.example");
	assert_int_equal(k.result, UPSTREAM_OK);
	assert_int_equal(k.rcode, RCODE_REFUSED);
	assert_calm_equal(fake[0].udp_queries, 3);
	assert_calm_equal(fake[1].udp_queries, 3);
}

static void edns_is_left_out_where_it_is_refused(void **state)
{
	struct ask k;

	for (int mode = FAKE_NO_EDNS; mode <= FAKE_NO_EDNS_BARE; mode++) {
		struct fake_server *f = &fake[mode - FAKE_NO_EDNS];

		/* The second round asks the group that has only the second server. */
		atomic_store(&f->mode, mode);
		ask(&k, (unsigned)(mode - FAKE_NO_EDNS), "www.example");
		run();
		assert_true(is_duly_from(&k, f->number));
		assert_calm_equal(f->udp_queries, 2);
		assert_calm_equal(f->edns_queries, 1);
		/* It is remembered. */
		ask(&k, (unsigned)(mode - FAKE_NO_EDNS), "another.example");
		run();
		assert_true(is_duly_from(&k, f->number));
		assert_calm_equal(f->udp_queries, 3);
		assert_calm_equal(f->edns_queries, 1);
	}
}

static void a_refused_port_moves_on_at_once(void **state)
{
	struct ask k;

	/* Nobody is at these ports: the fakes' own are closed and known to have been free. */
	fake_stop(&fake[0]);
	k = ask_once("www.example");
	assert_true(is_from(&k, 2));
	assert_false(stat_of(0).is_healthy);
	assert_true(stat_of(0).errors >= 1);
	fake_stop(&fake[1]);
	k = ask_once("www2.example");
	assert_int_equal(k.result, UPSTREAM_UNREACHABLE);
	fake_start(&fake[0], 1, true);
	fake_start(&fake[1], 2, true);
}

static void a_silent_server_is_left_and_taken_back(void **state)
{
	unsigned asked;
	uint64_t before;
	struct ask back;

	atomic_store(&fake[0].mode, FAKE_SILENT);
	for (unsigned i = 0; stat_of(0).is_healthy; i++) {
		char text[32];
		struct ask k;

		snprintf(text, sizeof(text), "name%u.example", i);
		k = ask_once(text);
		assert_true(is_from(&k, 2));
		assert_in_range(i, 0, 10);
	}
	asked = fake[0].udp_queries;
	for (unsigned i = 0; i < 20; i++) {
		char text[32];
		struct ask k;

		before = stat_of(1).timeouts;
		snprintf(text, sizeof(text), "more%u.example", i);
		k = ask_once(text);
		assert_true(is_from(&k, 2));
		/* A healthy server that timed out for once may send one question there. */
		asked += (unsigned)(stat_of(1).timeouts - before) * UPSTREAM_TRIES;
	}
	assert_in_range(fake[0].udp_queries, 0, asked); /* only probes */
	atomic_store(&fake[0].mode, FAKE_NORMAL);
	run_until(first_is_healthy);
	assert_true(fake[0].probes >= 1);
	before = timeouts_so_far();
	back = ask_once("back.example");
	assert_true(is_from(&back, 1) || timeouts_so_far() > before);
}

static void late_answers_count(void **state)
{
	struct ask k;

	ask(&k, 1, "late.example");
	run();
	assert_true(is_from(&k, 2));
	assert_true(fake[1].udp_queries >= 2);
	assert_true(stat_of(2).timeouts >= 1);
	assert_int_equal(stat_of(2).answered, 1);
}

static void silence_and_nonsense_end(void **state)
{
	struct ask silent, garbage, after;

	ask(&silent, 1, "silent.example");
	ask(&garbage, 1, "garbage.example");
	run();
	assert_int_equal(silent.result, UPSTREAM_TIMEOUT);
	assert_int_equal(garbage.result, UPSTREAM_BAD);
	assert_in_range(stat_of(2).sent, 2, 2 * UPSTREAM_TRIES + 10 /* probes */);
	ask(&after, 1, "after.example");
	run();
	assert_true(is_from(&after, 2));
}

static void thousands_at_once(void **state)
{
	enum { MANY = 5000 };
	static struct ask k[MANY];
	unsigned ports;

	for (unsigned i = 0; i < MANY; i++) {
		char text[32];

		snprintf(text, sizeof(text), "n%u.example", i);
		ask(&k[i], 0, text);
	}
	run();
	for (unsigned i = 0; i < MANY; i++)
		assert_true(is_from(&k[i], 1) || is_from(&k[i], 2));
	/* A socket for each batch; few fall on the same place of the pool. */
	ports = fake[0].ports;
	assert_true(ports >= MANY / UPSTREAM_SEND_BATCH / 2);
	/* Sockets are renewed: after many more queries there were more ports than places in the pool. */
	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < MANY; i++) {
			char text[32];

			snprintf(text, sizeof(text), "r%u-%u.example", round, i);
			ask(&k[i], 0, text);
		}
		run();
	}
	assert_true(fake[0].ports > UPSTREAM_POOL + UPSTREAM_POOL / 4);
}

/* What is asked at once leaves by few ports; what is asked in turn each time by another. */
static void a_batch_leaves_by_one_port(void **state)
{
	enum { MANY = 3 * UPSTREAM_SEND_BATCH };
	static struct ask k[MANY];
	unsigned before, tries = 0;

	do {
		before = fake[0].ports;
		for (unsigned i = 0; i < MANY; i++) {
			char text[32];

			snprintf(text, sizeof(text), "b%u-%u.example", tries, i);
			ask(&k[i], 0, text);
		}
		run();
	} while (timeouts_so_far() && ++tries < 20);
	assert_calm_equal(stat_of(0).in_flight, 0);
	if (!timeouts_so_far())
		assert_in_range(fake[0].ports - before, 1, 3);
	before = fake[0].ports + fake[1].ports;
	for (unsigned i = 0; i < 100; i++) {
		char text[32];

		snprintf(text, sizeof(text), "alone%u.example", i);
		ask_once(text);
	}
	assert_in_range(fake[0].ports + fake[1].ports - before, 60, 100 + timeouts_so_far());
}

static void the_bound_of_a_group_is_its_own(void **state)
{
	struct ask k[15], other;
	unsigned busy = 0;

	upstreams[0].inflight_max = 10;
	configure(2);
	for (unsigned i = 0; i < 15; i++) {
		char text[32];

		snprintf(text, sizeof(text), "k%u.example", i);
		ask(&k[i], 0, text);
	}
	ask(&other, 1, "www.example");
	run();
	for (unsigned i = 0; i < 15; i++)
		busy += k[i].result == UPSTREAM_BUSY;
	assert_int_equal(busy, 5);
	assert_int_equal(stat_of(0).refused, 5);
	assert_int_equal(stat_of(2).refused, 0);
	assert_int_equal(other.result, UPSTREAM_OK);
}

static void a_group_may_be_empty(void **state)
{
	struct ask k;

	upstreams[0].servers = NULL;
	upstreams[0].server_count = 0;
	configure(2);
	k = ask_once("www.example");
	assert_int_equal(k.result, UPSTREAM_NONE);
	assert_int_equal(k.slow_count, 1);
}

static void a_cancelled_asker_is_not_called(void **state)
{
	struct ask gone, stays, alone;

	ask(&gone, 0, "www.example");
	ask(&stays, 0, "www.example");
	upstream_cancel(&gone.wait);
	upstream_cancel(&gone.wait);
	waiting--;
	run();
	assert_true(is_duly_from(&stays, 1));
	assert_false(gone.is_done);
	upstream_cancel(&stays.wait); /* after its completion: nothing */
	ask(&alone, 0, "silent.example");
	upstream_cancel(&alone.wait);
	waiting--;
	stays = ask_once("later.example");
	assert_true(is_duly_from(&stays, 1));
	assert_false(alone.is_done);
}

static void the_bound_holds_and_configuration_ends_questions(void **state)
{
	enum { OVER = 10 };
	static struct ask k[UPSTREAM_INFLIGHT_MAX + OVER];
	unsigned busy = 0;
	struct ask kept, other;

	atomic_store(&fake[1].mode, FAKE_SILENT);
	for (unsigned i = 0; i < UPSTREAM_INFLIGHT_MAX + OVER; i++) {
		char text[32];

		snprintf(text, sizeof(text), "silent%u.example", i);
		ask(&k[i], 1, text);
	}
	/* An equal question needs no room; another group has its own. */
	ask(&other, 0, "www.example");
	run_until(first_is_healthy);
	for (unsigned i = 0; i < UPSTREAM_INFLIGHT_MAX + OVER; i++)
		busy += k[i].is_done && k[i].result == UPSTREAM_BUSY;
	assert_int_equal(busy, OVER);
	ask(&kept, 0, "silent.example");
	config.upstream_count = 1;
	assert_int_equal(resolver_configure(resolver, &config), 0);
	for (unsigned i = 0; i < UPSTREAM_INFLIGHT_MAX; i++)
		assert_int_equal(k[i].result, UPSTREAM_GONE);
	assert_false(kept.is_done);
	upstream_cancel(&kept.wait);
	waiting--;
	run();
	assert_true(is_duly_from(&other, 1));
	ask(&other, 1, "www.example");
	run();
	assert_int_equal(other.result, UPSTREAM_GONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(the_first_server_answers, setup, teardown),
	        cmocka_unit_test_setup_teardown(equal_questions_are_asked_once, setup, teardown),
	        cmocka_unit_test_setup_teardown(truncated_answers_come_by_tcp, setup, teardown),
	        cmocka_unit_test_setup_teardown(a_server_may_close_its_connection, setup, teardown),
	        cmocka_unit_test_setup_teardown(without_tcp_a_truncated_answer_is_unreachable, setup_without_tcp, teardown),
	        cmocka_unit_test_setup_teardown(forged_answers_are_ignored, setup, teardown),
	        cmocka_unit_test_setup_teardown(failures_go_to_the_next_server, setup, teardown),
	        cmocka_unit_test_setup_teardown(edns_is_left_out_where_it_is_refused, setup, teardown),
	        cmocka_unit_test_setup_teardown(a_refused_port_moves_on_at_once, setup, teardown),
	        cmocka_unit_test_setup_teardown(a_silent_server_is_left_and_taken_back, setup, teardown),
	        cmocka_unit_test_setup_teardown(late_answers_count, setup, teardown),
	        cmocka_unit_test_setup_teardown(silence_and_nonsense_end, setup, teardown),
	        cmocka_unit_test_setup_teardown(thousands_at_once, setup, teardown),
	        cmocka_unit_test_setup_teardown(a_batch_leaves_by_one_port, setup, teardown),
	        cmocka_unit_test_setup_teardown(the_bound_of_a_group_is_its_own, setup, teardown),
	        cmocka_unit_test_setup_teardown(a_group_may_be_empty, setup, teardown),
	        cmocka_unit_test_setup_teardown(a_cancelled_asker_is_not_called, setup, teardown),
	        cmocka_unit_test_setup_teardown(the_bound_holds_and_configuration_ends_questions, setup, teardown),
	};
	struct rlimit files;

	/* Two pools and their retired sockets. */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
		files.rlim_cur = files.rlim_max < 8192 ? files.rlim_max : 8192;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
