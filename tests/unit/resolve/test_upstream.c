/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The resolver against scripted upstreams on the loopback. A machine that stalls for a tenth of a second makes the resolver try
 * again or elsewhere, rightly; what such a retry would change is checked only as long as no attempt timed out. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_server.h"
#include "resolve/upstream.h"

enum { GIVE_UP_MS = 30000, LOOK_MS = 10, SERVERS = 2 };

static struct loop *loop;
static struct resolver *resolver;
static struct fake_server fake[SERVERS];
static struct cfg_upstream upstreams[2];
static struct cfg_way ways[1];
static struct endpoint endpoints[2][SERVERS];
static struct config config;
static struct deadline_queue give_up, look;
static struct deadline give_up_at, look_at;
static bool has_given_up;

/* One asker and what it got. */
struct ask {
	struct upstream_wait wait;
	bool is_done;
	enum upstream_result result;
	uint8_t rcode;
	unsigned addr_count;
	struct addr addr;
};
static unsigned waiting;

static void on_done(struct upstream_wait *w, const struct upstream_answer *a)
{
	struct ask *k = (struct ask *)w;

	assert_false(k->is_done);
	k->is_done = true;
	k->result = a->result;
	if (a->result == UPSTREAM_OK) {
		k->rcode = a->walked->rcode;
		k->addr_count = a->walked->addr_count;
		if (k->addr_count)
			k->addr = a->walked->addrs[0];
	}
	if (--waiting == 0)
		loop_stop(loop);
}

static void on_give_up(struct deadline *d)
{
	has_given_up = true;
	loop_stop(loop);
}

static void ask_variant(struct ask *k, unsigned group, const char *text, bool want_do, bool want_cd)
{
	struct name n;

	memset(k, 0, sizeof(*k));
	k->wait.done = on_done;
	assert_int_equal(name_from_text(&n, text, strlen(text)), 0);
	waiting++;
	upstream_ask(resolver, group, &n, RR_A, 1, want_do, want_cd, &k->wait);
	assert_false(k->is_done); /* never inside the call */
}

static void ask(struct ask *k, unsigned group, const char *text)
{
	ask_variant(k, group, text, true, false);
}

/* Runs until all that was asked is done. */
static void run(void)
{
	has_given_up = false;
	deadline_add(loop, &give_up, &give_up_at);
	if (waiting)
		loop_run(loop);
	deadline_del(&give_up_at);
	assert_false(has_given_up);
	assert_int_equal(waiting, 0);
}

static struct ask ask_once(const char *text)
{
	static struct ask k;

	ask(&k, 0, text);
	run();
	return k;
}

static bool is_from(const struct ask *k, unsigned number)
{
	return k->is_done && k->result == UPSTREAM_OK && k->addr_count >= 1 && k->addr.family == AF_INET && k->addr.b[0] == 10 &&
	       k->addr.b[3] == number;
}

static struct upstream_stat stat_of(unsigned server)
{
	struct upstream_stat s[8];

	assert_true(resolver_stat(resolver, s, 8) > server);
	return s[server];
}

static uint64_t timeouts_so_far(void)
{
	struct upstream_stat s[8];
	uint64_t sum = 0;

	for (unsigned n = resolver_stat(resolver, s, 8), i = 0; i < n; i++)
		sum += s[i].timeouts;
	return sum;
}

/* From server `number`; from another one only if an attempt timed out. */
static bool is_duly_from(const struct ask *k, unsigned number)
{
	return is_from(k, number) || (timeouts_so_far() && (is_from(k, 1) || is_from(k, 2)));
}

#define assert_calm_equal(a, b)                                                                                                  \
	do {                                                                                                                     \
		if (!timeouts_so_far())                                                                                          \
			assert_int_equal(a, b);                                                                                  \
	} while (0)

static bool (*condition)(void);

static void on_look(struct deadline *d)
{
	if (condition())
		loop_stop(loop);
	else
		deadline_add(loop, &look, d);
}

static void run_until(bool (*wanted)(void))
{
	has_given_up = false;
	condition = wanted;
	deadline_add(loop, &give_up, &give_up_at);
	deadline_add(loop, &look, &look_at);
	loop_run(loop);
	deadline_del(&give_up_at);
	deadline_del(&look_at);
	assert_false(has_given_up);
}

static int take_socket(void *ctx, unsigned group, unsigned server, bool is_tcp);

/* Group 0 has both servers, group 1 only the second. */
static int setup_with(bool with_tcp)
{
	struct resolver_env env = {.take_socket = take_socket};

	memset(&config, 0, sizeof(config));
	waiting = 0;
	for (unsigned i = 0; i < SERVERS; i++) {
		fake_start(&fake[i], i + 1, with_tcp);
		assert_int_equal(addr_parse(&endpoints[0][i].addr, "127.0.0.1"), 0);
		endpoints[0][i].port = fake[i].port;
	}
	endpoints[1][0] = endpoints[0][1];
	upstreams[0] = (struct cfg_upstream){.name = "default", .servers = endpoints[0], .server_count = 2, .way = -1};
	upstreams[1] = (struct cfg_upstream){.name = "alone", .servers = endpoints[1], .server_count = 1, .way = -1};
	ways[0] = (struct cfg_way){.name = "tunnel", .mark = 0x1000};
	config.upstreams = upstreams;
	config.upstream_count = 2;
	config.ways = ways;
	config.way_count = 1;
	assert_int_equal(loop_new(&loop), 0);
	deadline_queue_init(loop, &give_up, GIVE_UP_MS, on_give_up);
	deadline_queue_init(loop, &look, LOOK_MS, on_look);
	assert_int_equal(resolver_new(&resolver, loop, &env), 0);
	return resolver_configure(resolver, &config);
}

static int setup(void **state)
{
	return setup_with(true);
}

static int setup_without_tcp(void **state)
{
	return setup_with(false);
}

static int teardown(void **state)
{
	resolver_free(resolver);
	deadline_queue_done(loop, &give_up);
	deadline_queue_done(loop, &look);
	loop_free(loop);
	for (unsigned i = 0; i < SERVERS; i++)
		fake_stop(&fake[i]);
	return 0;
}

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

static bool first_is_healthy(void)
{
	return stat_of(0).is_healthy;
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
	ports = fake[0].ports;
	assert_true(ports >= UPSTREAM_POOL * 3 / 4);
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

/* The environment of a way: no socket at first, then one each time. */
static unsigned refusals, taken_udp, taken_tcp;

static int take_socket(void *ctx, unsigned group, unsigned server, bool is_tcp)
{
	assert_int_equal(group, 0);
	assert_int_equal(server, 0);
	if (refusals) {
		refusals--;
		return -EAGAIN;
	}
	taken_udp += !is_tcp;
	taken_tcp += is_tcp;
	return socket(AF_INET, (is_tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0);
}

static void sockets_of_a_way_are_taken(void **state)
{
	struct ask k;

	upstreams[0] = (struct cfg_upstream){.name = "alone", .servers = endpoints[1], .server_count = 1, .way = 0};
	config.upstream_count = 1;
	assert_int_equal(resolver_configure(resolver, &config), 0);
	refusals = 3;
	taken_udp = taken_tcp = 0;
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
	        cmocka_unit_test_setup_teardown(a_cancelled_asker_is_not_called, setup, teardown),
	        cmocka_unit_test_setup_teardown(the_bound_holds_and_configuration_ends_questions, setup, teardown),
	        cmocka_unit_test_setup_teardown(sockets_of_a_way_are_taken, setup, teardown),
	};
	struct rlimit files;

	/* Two pools and their retired sockets. */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
		files.rlim_cur = files.rlim_max < 8192 ? files.rlim_max : 8192;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
