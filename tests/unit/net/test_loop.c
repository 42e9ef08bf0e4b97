/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The loop: posts from other threads arrive once, in order and all; deadlines fire in order, and not when removed; hooks run each
 * turn; while the loop waits it does not hold up a grace period. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(posts_arrive_in_order),
	        cmocka_unit_test(deadlines_fire_in_order),
	        cmocka_unit_test(a_waiting_loop_is_quiescent),
	        cmocka_unit_test(libuv_handles_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
