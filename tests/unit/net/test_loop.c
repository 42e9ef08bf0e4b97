/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The loop: posts from other threads arrive once, in order and all; deadlines fire in order, and not when removed; hooks run each
 * turn; while the loop waits it does not hold up a grace period; readers are called, hold up nobody, and come and go at any time. */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/rcu.h"
#include "net/loop.h"

enum { POSTERS = 4, POSTS = 5000 };

struct note {
	struct loop_post post;
	unsigned poster, number;
};

static struct loop *loop;
static unsigned next_number[POSTERS], notes_seen;
static struct note notes[POSTERS][POSTS];

static void on_note(void *ctx)
{
	struct note *n = ctx;

	assert_int_equal(n->number, next_number[n->poster]);
	next_number[n->poster]++;
	if (++notes_seen == POSTERS * POSTS)
		loop_stop(loop);
}

static void *poster(void *arg)
{
	struct note *mine = arg;

	for (unsigned i = 0; i < POSTS; i++)
		loop_post(loop, &mine[i].post);
	return NULL;
}

static void posts_arrive_in_order(void **state)
{
	pthread_t thread[POSTERS];

	assert_int_equal(loop_new(&loop), 0);
	for (unsigned p = 0; p < POSTERS; p++)
		for (unsigned i = 0; i < POSTS; i++)
			notes[p][i] = (struct note){.post = {.fn = on_note, .ctx = &notes[p][i]}, .poster = p, .number = i};
	for (unsigned p = 0; p < POSTERS; p++)
		assert_int_equal(pthread_create(&thread[p], NULL, poster, notes[p]), 0);
	loop_run(loop);
	for (unsigned p = 0; p < POSTERS; p++)
		pthread_join(thread[p], NULL);
	assert_int_equal(notes_seen, POSTERS * POSTS);
	loop_free(loop);
}

struct timed {
	struct deadline d;
	int number;
};

static int order[8], fired;
static uint64_t started_ms;
static struct deadline_queue short_queue, long_queue;
static struct timed t1, t2, t3, t4, removed;
static unsigned turns;

static void on_short(struct deadline *d)
{
	struct timed *t = (struct timed *)d;

	assert_true(clock_ms() >= started_ms + 20);
	order[fired++] = t->number;
	/* One that is queued from inside, and one that goes before its time. */
	if (t->number == 1)
		deadline_del(&removed.d);
	if (t->number == 2)
		deadline_add(loop, &short_queue, &t4.d);
}

static void on_long(struct deadline *d)
{
	assert_true(clock_ms() >= started_ms + 200);
	order[fired++] = ((struct timed *)d)->number;
	loop_stop(loop);
}

static void on_turn(void *ctx)
{
	turns++;
}

static void deadlines_fire_in_order(void **state)
{
	assert_int_equal(loop_new(&loop), 0);
	deadline_queue_init(loop, &short_queue, 20, on_short);
	deadline_queue_init(loop, &long_queue, 200, on_long);
	loop_on_turn_end(loop, on_turn, NULL);
	t1.number = 1;
	t2.number = 2;
	t3.number = 3;
	t4.number = 4;
	removed.number = 9;
	started_ms = clock_ms() - 1; /* the loop's clock was read a moment ago */
	started_ms = loop_now_ms(loop) < started_ms ? loop_now_ms(loop) : started_ms;
	deadline_add(loop, &long_queue, &t3.d);
	deadline_add(loop, &short_queue, &t1.d);
	deadline_add(loop, &short_queue, &t2.d);
	deadline_add(loop, &long_queue, &removed.d);
	deadline_del(&removed.d);
	deadline_del(&removed.d);
	deadline_add(loop, &short_queue, &removed.d);
	loop_run(loop);
	assert_int_equal(fired, 4);
	assert_int_equal(order[0], 1);
	assert_int_equal(order[1], 2);
	assert_int_equal(order[2], 4);
	assert_int_equal(order[3], 3);
	assert_true(turns >= 1);
	/* It waited instead of spinning: a few turns, not thousands. */
	assert_true(turns < 100);
	deadline_queue_done(loop, &short_queue);
	deadline_queue_done(loop, &long_queue);
	loop_free(loop);
}

static void *run_loop(void *arg)
{
	loop_run(arg);
	return NULL;
}

static void a_waiting_loop_is_quiescent(void **state)
{
	pthread_t thread;

	assert_int_equal(loop_new(&loop), 0);
	assert_int_equal(pthread_create(&thread, NULL, run_loop, loop), 0);
	/* Would hang for ever if the loop waited online: nothing wakes it. */
	for (int i = 0; i < 3; i++)
		rcu_wait();
	loop_stop(loop);
	pthread_join(thread, NULL);
	loop_free(loop);
}

static int timer_ticks;

static void on_tick(uv_timer_t *timer)
{
	if (++timer_ticks == 3) {
		uv_close((uv_handle_t *)timer, NULL);
		loop_stop(loop);
	}
}

/* A watcher added during a turn must be waited for in the same turn's poll, timers of libuv included. */
static int pipe_fd[2];
static uv_poll_t pipe_poll;
static struct loop_post add_post;

static void on_pipe(uv_poll_t *h, int status, int events)
{
	char c;

	assert_int_equal(read(pipe_fd[0], &c, 1), 1);
	uv_close((uv_handle_t *)h, NULL);
	loop_stop(loop);
}

static void add_watcher(void *ctx)
{
	assert_int_equal(write(pipe_fd[1], "x", 1), 1);
	assert_int_equal(uv_poll_init(loop_uv(loop), &pipe_poll, pipe_fd[0]), 0);
	uv_poll_start(&pipe_poll, UV_READABLE, on_pipe);
}

static void libuv_handles_work(void **state)
{
	uv_timer_t timer;

	assert_int_equal(loop_new(&loop), 0);
	uv_timer_init(loop_uv(loop), &timer);
	uv_timer_start(&timer, on_tick, 1, 1);
	loop_run(loop);
	assert_int_equal(timer_ticks, 3);

	assert_int_equal(pipe(pipe_fd), 0);
	add_post = (struct loop_post){.fn = add_watcher};
	loop_post(loop, &add_post);
	loop_run(loop);
	loop_free(loop);
	close(pipe_fd[0]);
	close(pipe_fd[1]);
}

/* Two are ready: the first that runs takes the other away, which then must not run, and another takes its place. */
static struct {
	struct loop_reader reader;
	int fd[2], runs;
} readers[3];

static void on_reader(struct loop_reader *r, bool is_error)
{
	unsigned i = r == &readers[0].reader ? 0 : r == &readers[1].reader ? 1 : 2;
	char c;

	assert_false(is_error);
	assert_int_equal(read(r->fd, &c, 1), 1);
	readers[i].runs++;
	if (i == 2) {
		loop_stop(loop);
		return;
	}
	loop_reader_del(loop, &readers[!i].reader);
	readers[!i].reader.fd = -1;
	assert_int_equal(loop_reader_add(loop, &readers[2].reader), 0);
}

static void readers_come_and_go(void **state)
{
	assert_int_equal(loop_new(&loop), 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(pipe(readers[i].fd), 0);
		assert_int_equal(write(readers[i].fd[1], "x", 1), 1);
		readers[i].reader = (struct loop_reader){.fd = readers[i].fd[0], .fn = on_reader};
		if (i < 2)
			assert_int_equal(loop_reader_add(loop, &readers[i].reader), 0);
	}
	loop_run(loop);
	assert_int_equal(readers[0].runs + readers[1].runs, 1);
	assert_int_equal(readers[2].runs, 1);
	for (unsigned i = 0; i < 3; i++) {
		close(readers[i].fd[0]);
		close(readers[i].fd[1]);
	}
	loop_free(loop);
}

static unsigned busy_runs;

static void on_busy(struct loop_reader *r, bool is_error)
{
	busy_runs++;
}

/* One that is ready in every turn holds up neither timers nor posts, and its descriptor need not be libuv's. */
static void a_busy_reader_holds_up_nobody(void **state)
{
	struct loop_reader busy = {.fn = on_busy};
	uv_timer_t timer;
	int fd[2];

	assert_int_equal(loop_new(&loop), 0);
	assert_int_equal(pipe(fd), 0);
	assert_int_equal(pipe(pipe_fd), 0);
	assert_int_equal(write(fd[1], "x", 1), 1);
	busy.fd = fd[0];
	assert_int_equal(loop_reader_add(loop, &busy), 0);
	timer_ticks = 0;
	uv_timer_init(loop_uv(loop), &timer);
	uv_timer_start(&timer, on_tick, 1, 1);
	loop_run(loop);
	assert_int_equal(timer_ticks, 3);
	add_post = (struct loop_post){.fn = add_watcher};
	loop_post(loop, &add_post);
	loop_run(loop);
	assert_true(busy_runs > 3);
	loop_reader_del(loop, &busy);
	loop_free(loop);
	for (unsigned i = 0; i < 2; i++) {
		close(fd[i]);
		close(pipe_fd[i]);
	}
}

static void on_refused(struct loop_reader *r, bool is_error)
{
	char c;

	assert_true(is_error);
	assert_int_equal(recv(r->fd, &c, 1, 0), -1);
	assert_int_equal(errno, ECONNREFUSED);
	loop_stop(loop);
}

static void a_reader_hears_of_errors(void **state)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(sa);
	int nobody = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct loop_reader refused = {.fd = fd, .fn = on_refused};

	assert_int_equal(bind(nobody, (struct sockaddr *)&sa, len), 0);
	assert_int_equal(getsockname(nobody, (struct sockaddr *)&sa, &len), 0);
	close(nobody);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, len), 0);
	assert_int_equal(loop_new(&loop), 0);
	assert_int_equal(loop_reader_add(loop, &refused), 0);
	assert_int_equal(send(fd, "x", 1, 0), 1);
	loop_run(loop);
	loop_reader_del(loop, &refused);
	loop_free(loop);
	close(fd);
}

static void there_is_room_for_so_many_readers(void **state)
{
	static struct loop_reader many[LOOP_READERS_MAX + 1];

	assert_int_equal(loop_new(&loop), 0);
	for (unsigned i = 0; i < LOOP_READERS_MAX; i++)
		assert_int_equal(loop_reader_add(loop, &many[i]), 0);
	assert_int_equal(loop_reader_add(loop, &many[LOOP_READERS_MAX]), NW_EFULL);
	loop_reader_del(loop, &many[7]);
	assert_int_equal(loop_reader_add(loop, &many[LOOP_READERS_MAX]), 0);
	loop_free(loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(posts_arrive_in_order),
	        cmocka_unit_test(deadlines_fire_in_order),
	        cmocka_unit_test(a_waiting_loop_is_quiescent),
	        cmocka_unit_test(libuv_handles_work),
	        cmocka_unit_test(readers_come_and_go),
	        cmocka_unit_test(a_busy_reader_holds_up_nobody),
	        cmocka_unit_test(a_reader_hears_of_errors),
	        cmocka_unit_test(there_is_room_for_so_many_readers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
