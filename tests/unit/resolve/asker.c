/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "asker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"

enum { GIVE_UP_MS = 30000, LOOK_MS = 10 };

struct loop *loop;
struct resolver *resolver;
struct fake_server fake[SERVERS];
struct cfg_upstream upstreams[GROUPS];
struct cfg_way ways[1];
struct endpoint endpoints[GROUPS][SERVERS];
struct config config;
static struct deadline_queue give_up, look;
static struct deadline give_up_at, look_at;
static bool has_given_up;

unsigned waiting;

static void on_done(struct upstream_wait *w, const struct upstream_answer *a)
{
	struct ask *k = (struct ask *)w;

	assert_false(k->is_done);
	k->is_done = true;
	k->done_us = clock_us();
	k->result = a->result;
	if (a->result == UPSTREAM_OK) {
		k->rcode = a->walked->rcode;
		k->chain_len = a->walked->chain_len;
		k->is_lower = true;
		for (unsigned i = WIRE_HEADER; a->msg[i]; i++)
			k->is_lower &= a->msg[i] < 'A' || a->msg[i] > 'Z';
		k->addr_count = a->walked->addr_count;
		if (k->addr_count)
			k->addr = a->walked->addrs[0];
	}
	if (--waiting == 0)
		loop_stop(loop);
}

static void on_slow(struct upstream_wait *w)
{
	struct ask *k = (struct ask *)w;

	assert_false(k->is_done);
	k->slow_count++;
	k->slow_us = clock_us();
}

static void on_give_up(struct deadline *d)
{
	has_given_up = true;
	loop_stop(loop);
}

void ask_variant(struct ask *k, unsigned group, const char *text, bool want_do, bool want_cd)
{
	struct name n;

	memset(k, 0, sizeof(*k));
	k->wait.done = on_done;
	k->wait.slow = on_slow;
	k->asked_us = clock_us();
	assert_int_equal(name_from_text(&n, text, strlen(text)), 0);
	waiting++;
	upstream_ask(resolver, group, &n, RR_A, 1, want_do, want_cd, &k->wait);
	assert_false(k->is_done || k->slow_count); /* never inside the call */
}

void ask(struct ask *k, unsigned group, const char *text)
{
	ask_variant(k, group, text, true, false);
}

/* Runs until all that was asked is done. */
void run(void)
{
	has_given_up = false;
	deadline_add(loop, &give_up, &give_up_at);
	while (waiting && !has_given_up)
		loop_run(loop);
	deadline_del(&give_up_at);
	assert_false(has_given_up);
	assert_int_equal(waiting, 0);
}

struct ask ask_once(const char *text)
{
	static struct ask k;

	ask(&k, 0, text);
	run();
	return k;
}

bool is_from(const struct ask *k, unsigned number)
{
	return k->is_done && k->result == UPSTREAM_OK && k->addr_count >= 1 && k->addr.family == AF_INET && k->addr.b[0] == 10 &&
	       k->addr.b[3] == number;
}

struct upstream_stat stat_of(unsigned server)
{
	struct upstream_stat s[16];

	assert_true(resolver_stat(resolver, s, 16) > server);
	return s[server];
}

uint64_t timeouts_so_far(void)
{
	struct upstream_stat s[16];
	uint64_t sum = 0;

	for (unsigned n = resolver_stat(resolver, s, 16), i = 0; i < n; i++)
		sum += s[i].timeouts;
	return sum;
}

/* From server `number`; from another one only if an attempt timed out. */
bool is_duly_from(const struct ask *k, unsigned number)
{
	return is_from(k, number) || (timeouts_so_far() && (is_from(k, 1) || is_from(k, 2)));
}

static bool (*condition)(void);

static void on_look(struct deadline *d)
{
	if (condition())
		loop_stop(loop);
	else
		deadline_add(loop, &look, d);
}

void run_until(bool (*wanted)(void))
{
	has_given_up = false;
	condition = wanted;
	deadline_add(loop, &give_up, &give_up_at);
	deadline_add(loop, &look, &look_at);
	do
		loop_run(loop);
	while (!wanted() && !has_given_up);
	deadline_del(&give_up_at);
	deadline_del(&look_at);
	assert_false(has_given_up);
}

static uint64_t run_until_ms;

static bool is_over(void)
{
	return clock_ms() >= run_until_ms;
}

void run_for(unsigned ms)
{
	run_until_ms = clock_ms() + ms;
	run_until(is_over);
}

void warm_up(unsigned group)
{
	char text[32];

	for (unsigned i = 0; i < 8; i++) {
		struct ask k;

		snprintf(text, sizeof(text), "warm%u-%u.example", group, i);
		ask(&k, group, text);
		run();
		assert_int_equal(k.result, UPSTREAM_OK);
	}
}

uint64_t took_us(const struct ask *k)
{
	assert_true(k->is_done);
	return k->done_us - k->asked_us;
}

void configure(unsigned count)
{
	config.upstream_count = count;
	assert_int_equal(resolver_configure(resolver, &config), 0);
}

bool first_is_healthy(void)
{
	return stat_of(0).is_healthy;
}

/* The environment of a way: no socket at first, then those that cannot reach anything, then one that does each time. */
unsigned refusals, taken_udp, taken_tcp, stale_count;
int stale[STALE_MAX], last_taken;

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
	if (stale_count)
		return stale[--stale_count];
	last_taken = socket(AF_INET, (is_tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0);
	return last_taken;
}

int setup_with(bool with_tcp)
{
	struct resolver_env env = {.take_socket = take_socket};

	memset(&config, 0, sizeof(config));
	waiting = 0;
	for (unsigned i = 0; i < SERVERS; i++) {
		fake_start(&fake[i], i + 1, with_tcp);
		assert_int_equal(addr_parse(&endpoints[0][i].addr, "127.0.0.1"), 0);
		endpoints[0][i].port = fake[i].port;
		endpoints[2][i] = endpoints[0][i];
	}
	endpoints[1][0] = endpoints[0][1];
	upstreams[2] = (struct cfg_upstream){.name = "many", .servers = endpoints[2], .server_count = SERVERS, .way = -1};
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

int setup(void **state)
{
	return setup_with(true);
}

int setup_without_tcp(void **state)
{
	return setup_with(false);
}

int teardown(void **state)
{
	resolver_free(resolver);
	deadline_queue_done(loop, &give_up);
	deadline_queue_done(loop, &look);
	loop_free(loop);
	for (unsigned i = 0; i < SERVERS; i++)
		fake_stop(&fake[i]);
	return 0;
}
