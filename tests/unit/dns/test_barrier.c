/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The barrier: a steered answer leaves after the enforcer's acknowledgement, or it is SERVFAIL; what a hold covers is not asked again. */
#include "world.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/rcu.h"

static const char config[] =
	"server: { listen: [192.168.8.1@53], allow: [192.168.8.0/24], element-min: 60s }\n"
	"upstreams: { default: { servers: [127.0.0.1@%u] }, other: { servers: [127.0.0.1@%u] } }\n"
	"lists: { ads: { files: [a] }, vpn: { files: [v] }, work: { files: [w] }, rare: { files: [r] } }\n"
	"ways: { direct: {}, t1: { interface: wg1, mark: 0x2000, kill-switch: true }, t2: { interface: wg2, mark: 0x1000, private: true } }\n"
	"filter: [ { names: [ads], block: nxdomain } ]\n"
	"steer:\n"
	"  - { name: work, names: [work], way: t2 }\n"
	"  - { name: vpn, names: [vpn], way: t1 }\n"
	"  - { name: rest, way: direct }\n";

static struct world x;
static struct reply r;
static struct make m;
static struct steer_add add;

static int set_up(void **state)
{
	(void)state;
	world_start(&x, config);
	world_list(&x, "vpn", "vpn.example", true);
	world_list(&x, "work", "work.example", true);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	world_stop(&x);
	return 0;
}

/* Asks and answers names of one suffix until the enforcer's part was done well inside the worker's bound; then the answer is judged. */
static const char *acked_in_time(const char *suffix, uint32_t ttl, const char *addr, enum steer_status status, bool (*meanwhile)(void))
{
	static char name[64];
	static unsigned number;
	for (int tries = 0; tries < 200; tries++) {
		snprintf(name, sizeof name, "n%u.%s", ++number, suffix);
		ask_a(&x, name);
		resolves(&x, name, ttl, addr);
		uint64_t start = clock_ms();
		if (!enforcer_hears(&x, HEARD_MS, &add))
			fail_msg("the enforcer was not asked for %s of %s", addr, name);
		bool is_good = !meanwhile || meanwhile();
		uint64_t took = clock_ms() - start;
		enforcer_acks(&x, &add, status);
		hear(x.client, &r);
		if (took > BARRIER_MS / 2)
			continue; /* the machine stalled */
		if (!is_good)
			fail_msg("something happened before the acknowledgement");
		return name;
	}
	fail_msg("the machine stalls all the time");
	return NULL;
}

static bool nothing_leaves(void)
{
	static struct reply early;
	return !hears(x.client, SOON_MS, &early);
}

static void test_answer_waits_for_the_kernel(void **state)
{
	(void)state;
	acked_in_time("vpn.example", 300, "192.0.2.1", STEER_OK, nothing_leaves);
	assert_int_equal(r.rcode, RCODE_NOERROR);
	assert_true(has_address(&r, "192.0.2.1"));
	assert_int_equal(add.count, 1);
	assert_true(adds(&add, "192.0.2.1", rule_of(&x, "vpn")));
	assert_true(add.e[0].life_s >= 300 + 300 / 4);
}

static void test_short_ttl_lives_element_min(void **state)
{
	(void)state;
	acked_in_time("vpn.example", 1, "192.0.2.1", STEER_OK, NULL);
	assert_true(add.e[0].life_s >= 60);
	assert_int_equal(r.walk.ttl_min_s, 1);
}

static void test_an_unlisted_name_asks_nobody(void **state)
{
	(void)state;
	ask_a(&x, "plain.example");
	resolves(&x, "plain.example", 300, "192.0.2.1");
	hear(x.client, &r);
	assert_true(has_address(&r, "192.0.2.1"));
	assert_false(enforcer_hears(&x, SOON_MS, &add));
}

static void test_hold_spares_the_next(void **state)
{
	(void)state;
	const char *name = acked_in_time("vpn.example", 300, "192.0.2.1", STEER_OK, NULL);
	for (int i = 0; i < 3; i++) {
		ask_a(&x, name);
		hear(x.client, &r);
		assert_true(has_address(&r, "192.0.2.1"));
	}
	assert_false(enforcer_hears(&x, SOON_MS, &add));
	/* Another name with this address has its own hold: the enforcer's mirror answers it. */
	acked_in_time("vpn.example", 300, "192.0.2.1", STEER_OK, nothing_leaves);
}

/* The same for answers that the cache does not keep. */
static void test_ttl_zero_waits_as_well(void **state)
{
	(void)state;
	acked_in_time("vpn.example", 0, "192.0.2.1", STEER_OK, nothing_leaves);
	assert_true(has_address(&r, "192.0.2.1"));
}

/* element-min of a second, a TTL of one: the hold ends, the next answer asks again. */
static void test_expired_hold_asks_again(void **state)
{
	(void)state;
	static const char brief[] =
		"server: { listen: [192.168.8.1@53], allow: [192.168.8.0/24], element-min: 1s }\n"
		"upstreams: { default: { servers: [127.0.0.1@%u] }, other: { servers: [127.0.0.1@%u] } }\n"
		"lists: { vpn: { files: [v] } }\n"
		"ways: { direct: {}, t1: { interface: wg1, mark: 0x2000 } }\n"
		"steer: [ { name: vpn, names: [vpn], way: t1 }, { way: direct } ]\n";
	world_configure(&x, brief, 2);
	const char *name = acked_in_time("vpn.example", 30, "192.0.2.1", STEER_OK, NULL);
	ask_a(&x, name);
	hear(x.client, &r);
	assert_false(enforcer_hears(&x, 0, &add));
	name = acked_in_time("vpn.example", 1, "192.0.2.2", STEER_OK, NULL);
	usleep(3500000); /* 1 s, and the slack of 2 */
	ask_a(&x, name);
	resolves(&x, name, 1, "192.0.2.2");
	assert_true(enforcer_hears(&x, HEARD_MS, &add));
	enforcer_acks(&x, &add, STEER_OK);
	hear(x.client, &r);
}

static void test_an_epoch_ends_every_hold(void **state)
{
	(void)state;
	const char *name = acked_in_time("vpn.example", 300, "192.0.2.1", STEER_OK, NULL);
	atomic_fetch_add(&x.page.epoch, 1);
	ask_a(&x, name);
	assert_true(enforcer_hears(&x, HEARD_MS, &add));
	enforcer_acks(&x, &add, STEER_OK);
	hear(x.client, &r);
	atomic_store(&x.page.state, STEER_REBUILDING);
	ask_a(&x, name);
	assert_true(enforcer_hears(&x, HEARD_MS, &add));
	enforcer_acks(&x, &add, STEER_OK);
	hear(x.client, &r);
}

static uint64_t time_of_silence(const char *name)
{
	ask_a(&x, name);
	resolves(&x, name, 300, "192.0.2.1");
	assert_true(enforcer_hears(&x, HEARD_MS, &add));
	uint64_t start = clock_ms();
	hear(x.client, &r);
	assert_int_equal(r.rcode, RCODE_SERVFAIL);
	assert_int_equal(r.ede, EDE_OTHER);
	assert_int_equal(r.ancount, 0);
	return clock_ms() - start;
}

static void test_silence_is_servfail(void **state)
{
	(void)state;
	uint64_t took = time_of_silence("silent.vpn.example");
	/* Not much before 50 ms; how long after is the machine's affair, but nothing near the other bound on most tries. */
	assert_true(took >= BARRIER_MS - 5);
	for (int i = 0; took >= 200 && i < 20; i++) {
		char name[64];
		snprintf(name, sizeof name, "silent%d.vpn.example", i);
		took = time_of_silence(name);
	}
	assert_true(took < 200);
	assert_true(worker_counter(x.w, C_BARRIER_LATE) > 0);
	/* A late acknowledgement answers nobody, but counts: the address is in the kernel. */
	enforcer_acks(&x, &add, STEER_OK);
	assert_false(hears(x.client, SOON_MS, &r));
}

static void test_silence_while_rebuilding(void **state)
{
	(void)state;
	atomic_store(&x.page.state, STEER_REBUILDING);
	assert_true(time_of_silence("rebuild.vpn.example") >= BARRIER_REBUILD_MS - 5);
}

/* The table is lost just after the question: the rest of the longer time is waited. */
static void test_rebuilding_begins_meanwhile(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		char name[64];
		snprintf(name, sizeof name, "m%d.vpn.example", i);
		atomic_store(&x.page.state, STEER_READY);
		ask_a(&x, name);
		resolves(&x, name, 300, "192.0.2.1");
		uint64_t start = clock_ms();
		assert_true(enforcer_hears(&x, HEARD_MS, &add));
		atomic_store(&x.page.state, STEER_REBUILDING);
		if (clock_ms() - start > BARRIER_MS / 2) {
			hear(x.client, &r);
			continue;
		}
		hear(x.client, &r);
		assert_int_equal(r.rcode, RCODE_SERVFAIL);
		assert_true(clock_ms() - start >= BARRIER_REBUILD_MS - 5);
		return;
	}
	fail_msg("the machine stalls all the time");
}

static void test_refusals_are_servfail(void **state)
{
	(void)state;
	static const enum steer_status bad[] = { STEER_FULL, STEER_FAILED, STEER_UNKNOWN };
	for (unsigned i = 0; i < 3; i++) {
		const char *name = acked_in_time("vpn.example", 300, "192.0.2.1", bad[i], nothing_leaves);
		assert_int_equal(r.rcode, RCODE_SERVFAIL);
		assert_int_equal(r.ede, EDE_OTHER);
		assert_int_equal(strstr(r.text, "full") != NULL, bad[i] == STEER_FULL);
		/* No hold stands for it: the cache's answer asks again. */
		ask_a(&x, name);
		assert_true(enforcer_hears(&x, HEARD_MS, &add));
		enforcer_acks(&x, &add, STEER_SKIPPED);
		hear(x.client, &r);
	}
	acked_in_time("vpn.example", 300, "192.0.2.1", STEER_SKIPPED, nothing_leaves);
	assert_true(has_address(&r, "192.0.2.1"));
}

/* An acknowledgement that is not one: wrong number, count, length, type. None of them lets the answer go. */
static bool false_acks_do_nothing(void)
{
	struct steer_ack ack = { .type = STEER_ACK, .count = add.count, .seq = add.seq + 1 };
	size_t len = offsetof(struct steer_ack, status) + ack.count;
	send(x.enforcer, &ack, len, 0);
	ack.seq = add.seq + 64;
	send(x.enforcer, &ack, len, 0);
	ack.seq = add.seq;
	send(x.enforcer, &ack, len - 1, 0);
	send(x.enforcer, &ack, 5, 0);
	ack.count = 0;
	send(x.enforcer, &ack, len - 1, 0);
	ack.count = add.count;
	ack.type = STEER_RELEASED;
	send(x.enforcer, &ack, len, 0);
	return nothing_leaves();
}

static void test_false_acknowledgements(void **state)
{
	(void)state;
	acked_in_time("vpn.example", 300, "192.0.2.1", STEER_OK, false_acks_do_nothing);
	assert_true(has_address(&r, "192.0.2.1"));
}

static void test_every_name_of_a_chain_holds(void **state)
{
	(void)state;
	ask_a(&x, "start.example");
	upstream_expect(&x, 0, "start.example", RR_A);
	make_head(&m, 0x8180, 3, 0, 0, "start.example", RR_A);
	make_cname(&m, NULL, 300, "edge.vpn.example");
	address_rr(&m, "edge.vpn.example", 300, "192.0.2.1");
	address_rr(&m, "edge.vpn.example", 300, "192.0.2.2");
	upstream_gives(&x, 0, &m);
	assert_true(enforcer_hears(&x, HEARD_MS, &add));
	assert_true(adds(&add, "192.0.2.1", rule_of(&x, "vpn")) && adds(&add, "192.0.2.2", rule_of(&x, "vpn")));
	enforcer_acks(&x, &add, STEER_OK);
	hear(x.client, &r);
	/* The first rule in order decides, whichever name it is about. */
	ask_a(&x, "www.vpn.example");
	upstream_expect(&x, 0, "www.vpn.example", RR_A);
	make_head(&m, 0x8180, 2, 0, 0, "www.vpn.example", RR_A);
	make_cname(&m, NULL, 300, "edge.work.example");
	address_rr(&m, "edge.work.example", 300, "192.0.2.3");
	upstream_gives(&x, 0, &m);
	assert_true(enforcer_hears(&x, HEARD_MS, &add));
	assert_true(adds(&add, "192.0.2.3", rule_of(&x, "work")));
	assert_false(adds(&add, "192.0.2.3", rule_of(&x, "vpn")));
	enforcer_acks(&x, &add, STEER_OK);
	hear(x.client, &r);
}

static void test_hints_are_addresses(void **state)
{
	(void)state;
	ask(x.client, &(struct question){ .name = "h.vpn.example", .type = RR_HTTPS });
	upstream_expect(&x, 0, "h.vpn.example", RR_HTTPS);
	make_head(&m, 0x8180, 1, 0, 0, "h.vpn.example", RR_HTTPS);
	make_rr(&m, NULL, RR_HTTPS, 300);
	make16(&m, 1);
	make_name(&m, ".");
	make_param(&m, 4, (uint8_t[]){ 192, 0, 2, 7 }, 4);
	make_param(&m, 6, (uint8_t[16]){ 0x20, 1, 0xd, 0xb8, [15] = 7 }, 16);
	upstream_gives(&x, 0, &m);
	assert_true(enforcer_hears(&x, HEARD_MS, &add));
	assert_true(adds(&add, "192.0.2.7", rule_of(&x, "vpn")) && adds(&add, "2001:db8::7", rule_of(&x, "vpn")));
	enforcer_acks(&x, &add, STEER_OK);
	hear(x.client, &r);
}

static void test_private_addresses_are_passed_by(void **state)
{
	(void)state;
	static const char *const never[] = { "10.0.0.1", "192.168.1.1", "100.64.0.1", "169.254.0.1", "127.0.0.1", "224.0.0.1" };
	char name[64];
	for (unsigned i = 0; i < 6; i++) {
		snprintf(name, sizeof name, "p%u.vpn.example", i);
		ask_a(&x, name);
		resolves(&x, name, 300, never[i]);
		hear(x.client, &r);
		assert_true(has_address(&r, never[i]));
	}
	assert_false(enforcer_hears(&x, SOON_MS, &add));
	/* A way that takes private ones; loopback never. */
	acked_in_time("work.example", 300, "10.0.0.1", STEER_OK, nothing_leaves);
	ask_a(&x, "l.work.example");
	resolves(&x, "l.work.example", 300, "127.0.0.1");
	hear(x.client, &r);
	assert_false(enforcer_hears(&x, 0, &add));
}

/* What a change of a list adds is asked for by the cache's answer. */
static void test_kept_answer_of_a_name_listed_later(void **state)
{
	(void)state;
	ask_a(&x, "moved.example");
	resolves(&x, "moved.example", 300, "192.0.2.1");
	hear(x.client, &r);
	world_list(&x, "vpn", "moved.example", true);
	ask_a(&x, "moved.example");
	assert_true(enforcer_hears(&x, HEARD_MS, &add));
	assert_true(adds(&add, "192.0.2.1", rule_of(&x, "vpn")));
	enforcer_acks(&x, &add, STEER_OK);
	hear(x.client, &r);
	assert_false(upstream_is_asked(&x, 0, 0));
}

static void test_many_addresses_in_batches(void **state)
{
	(void)state;
	for (int tries = 0; tries < 50; tries++) {
		char name[64];
		snprintf(name, sizeof name, "many%d.vpn.example", tries);
		ask(x.client, &(struct question){ .name = name, .size = 1232 });
		upstream_expect(&x, 0, name, RR_A);
		make_head(&m, 0x8180, 60, 0, 0, name, RR_A);
		for (unsigned i = 0; i < 60; i++)
			make_a(&m, NULL, 300, (uint8_t)(i + 1));
		upstream_gives(&x, 0, &m);
		uint64_t start = clock_ms();
		unsigned count = 0;
		while (count < 60) {
			assert_true(enforcer_hears(&x, HEARD_MS, &add));
			count += add.count;
			enforcer_acks(&x, &add, STEER_OK);
		}
		hear(x.client, &r);
		if (clock_ms() - start > BARRIER_MS / 2)
			continue;
		assert_int_equal(count, 60);
		assert_int_equal(r.rcode, RCODE_NOERROR);
		assert_int_equal(r.ancount, 60);
		return;
	}
	fail_msg("the machine stalls all the time");
}

/* The enforcer's end is gone or takes nothing: SERVFAIL at once, also for answers that need several messages, each told once. */
static void test_channel_that_takes_nothing(void **state)
{
	(void)state;
	close(x.enforcer);
	for (int i = 0; i < 3; i++) {
		ask(x.client, &(struct question){ .name = "gone.vpn.example" });
		if (i == 0) {
			upstream_expect(&x, 0, "gone.vpn.example", RR_A);
			make_head(&m, 0x8180, 250, 0, 0, "gone.vpn.example", RR_A);
			for (unsigned k = 0; k < 250; k++) {
				make_rr(&m, NULL, RR_A, 300);
				make_bytes(&m, (uint8_t[]){ 198, 51, 100, (uint8_t)k }, 4);
			}
			upstream_gives(&x, 0, &m);
		}
		hear(x.client, &r);
		assert_int_equal(r.rcode, RCODE_SERVFAIL);
		assert_false(hears(x.client, SOON_MS, &r));
	}
	x.enforcer = socket(AF_UNIX, SOCK_SEQPACKET, 0); /* for the end of the test */
}

/* Equal questions of many clients at once: one for the upstream, each answered after the acknowledgement. */
static void test_many_wait_for_one(void **state)
{
	(void)state;
	for (int tries = 0; tries < 50; tries++) {
		char name[64];
		unsigned asked = 0;
		snprintf(name, sizeof name, "crowd%d.vpn.example", tries);
		for (uint16_t i = 0; i < 20; i++)
			ask(x.client, &(struct question){ .name = name, .id = (uint16_t)(1000 + i) });
		resolves(&x, name, 300, "192.0.2.1");
		uint64_t start = clock_ms();
		while (asked < 20) {
			assert_true(enforcer_hears(&x, HEARD_MS, &add));
			asked += add.count;
			enforcer_acks(&x, &add, STEER_OK);
			if (asked < 20 && !enforcer_hears(&x, SOON_MS, &add))
				break;
			if (asked < 20) {
				asked += add.count;
				enforcer_acks(&x, &add, STEER_OK);
			}
		}
		bool is_stalled = clock_ms() - start > BARRIER_MS / 2;
		uint32_t seen = 0;
		for (unsigned i = 0; i < 20; i++) {
			hear(x.client, &r);
			assert_true(r.id >= 1000 && r.id < 1020);
			assert_false(seen >> (r.id - 1000) & 1);
			seen |= 1u << (r.id - 1000);
			if (!is_stalled)
				assert_true(has_address(&r, "192.0.2.1"));
		}
		assert_false(hears(x.client, 0, &r));
		assert_false(upstream_is_asked(&x, 0, 0));
		if (!is_stalled)
			return;
	}
	fail_msg("the machine stalls all the time");
}

/* What is judged and what leaves are one, also when the cache holds another answer to the question by then. */
static void test_kept_answer_of_another_worker(void **state)
{
	(void)state;
	static struct make other;
	static struct wire_answer walk;
	char name[64];
	for (int tries = 0; tries < 50; tries++) {
		snprintf(name, sizeof name, "cdn%d.vpn.example", tries);
		ask_a(&x, name);
		upstream_expect(&x, 0, name, RR_A);
		/* An answer of TTL 0 is not kept, so the one that another worker kept meanwhile is what the cache has. */
		struct name n = make_from_text(name);
		struct cache_key key = { .qname = &n, .name_hash = name_whole_hash(&n, x.shared.name_seed), .qtype = RR_A, .qclass = 1, .group = x.snap->group_id[0] };
		answer_a(&other, name, 300, "198.51.100.77");
		assert_int_equal(wire_answer_walk(&walk, other.bytes, other.len), 0);
		rcu_thread_register();
		cache_put(x.shared.cache, &key, other.bytes, other.len, &walk, (uint32_t)(clock_ms() / 1000));
		rcu_thread_unregister();
		answer_a(&m, name, 0, "192.0.2.1");
		upstream_gives(&x, 0, &m);
		assert_true(enforcer_hears(&x, HEARD_MS, &add));
		enforcer_acks(&x, &add, STEER_OK);
		hear(x.client, &r);
		if (r.rcode == RCODE_SERVFAIL)
			continue; /* the machine stalled */
		assert_int_equal(r.walk.addr_count, 1);
		assert_true(has_address(&r, adds(&add, "192.0.2.1", rule_of(&x, "vpn")) ? "192.0.2.1" : "198.51.100.77"));
		return;
	}
	fail_msg("the machine stalls all the time");
}

/* A reload between question and answer: judged by the rules of the moment. */
static void test_reload_meanwhile(void **state)
{
	(void)state;
	static const char turned[] =
		"server: { listen: [192.168.8.1@53], allow: [192.168.8.0/24] }\n"
		"upstreams: { default: { servers: [127.0.0.1@%u] }, other: { servers: [127.0.0.1@%u] } }\n"
		"lists: { vpn: { files: [v] } }\n"
		"ways: { direct: {}, t9: { interface: wg9, mark: 0x4000 } }\n"
		"steer: [ { name: another, names: [vpn], way: t9 }, { way: direct } ]\n";
	ask_a(&x, "r.vpn.example");
	upstream_expect(&x, 0, "r.vpn.example", RR_A);
	world_configure(&x, turned, 2);
	answer_a(&m, "r.vpn.example", 300, "192.0.2.1");
	upstream_gives(&x, 0, &m);
	assert_true(enforcer_hears(&x, HEARD_MS, &add));
	assert_true(adds(&add, "192.0.2.1", rule_of(&x, "another")));
	enforcer_acks(&x, &add, STEER_OK);
	hear(x.client, &r);
}

/* Stopping while answers are parked: nothing is left behind (the sanitizer's part). */
static void test_stop_with_parked_answers(void **state)
{
	(void)state;
	ask_a(&x, "parked.vpn.example");
	resolves(&x, "parked.vpn.example", 0, "192.0.2.1");
	assert_true(enforcer_hears(&x, HEARD_MS, &add));
	ask_a(&x, "unanswered.example");
	assert_true(upstream_is_asked(&x, 0, HEARD_MS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(test_answer_waits_for_the_kernel), TEST(test_short_ttl_lives_element_min), TEST(test_an_unlisted_name_asks_nobody), TEST(test_hold_spares_the_next),
		TEST(test_ttl_zero_waits_as_well), TEST(test_expired_hold_asks_again), TEST(test_an_epoch_ends_every_hold), TEST(test_silence_is_servfail),
		TEST(test_silence_while_rebuilding), TEST(test_rebuilding_begins_meanwhile), TEST(test_refusals_are_servfail), TEST(test_false_acknowledgements),
		TEST(test_every_name_of_a_chain_holds), TEST(test_hints_are_addresses), TEST(test_private_addresses_are_passed_by),
		TEST(test_kept_answer_of_a_name_listed_later), TEST(test_many_addresses_in_batches), TEST(test_channel_that_takes_nothing), TEST(test_many_wait_for_one),
		TEST(test_kept_answer_of_another_worker), TEST(test_reload_meanwhile), TEST(test_stop_with_parked_answers),
	};
	world_permitted();
	return cmocka_run_group_tests_name("dns barrier", tests, NULL, NULL);
}
