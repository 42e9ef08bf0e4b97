/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a worker answers: blocked names, local names, refused clients and kinds, EDNS, caching, CNAMEs, truncation. */
#include "world.h"
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/rcu.h"

static const char config[] =
	"server: { listen: [192.168.8.1@53], allow: [lan, 127.0.0.0/8], element-min: 60s }\n"
	"upstreams: { default: { servers: [127.0.0.1@%u] }, other: { servers: [127.0.0.1@%u] } }\n"
	"local: { domain: lan }\n"
	"clients: { lan: { networks: [192.168.8.0/24] } }\n"
	"lists: { ads: { files: [a] }, zero: { files: [z] }, refuse: { files: [r] }, nodata: { files: [n] }, drop: { files: [d] }, mine: { files: [m] } }\n"
	"filter:\n"
	"  - { names: [mine], allow: true }\n"
	"  - { name: content filter, names: [ads], block: nxdomain }\n"
	"  - { names: [zero], block: zero }\n"
	"  - { names: [refuse], block: refuse }\n"
	"  - { names: [nodata], block: nodata }\n"
	"  - { names: [drop], block: drop }\n";

static struct world x;
static struct reply r;
static struct make m;

static int set_up(void **state)
{
	(void)state;
	world_start(&x, config);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	world_stop(&x);
	return 0;
}

static void test_passes_and_is_kept(void **state)
{
	(void)state;
	ask(x.client, &(struct question){ .name = "a.example", .id = 7 });
	resolves(&x, "a.example", 300, "192.0.2.1");
	hear(x.client, &r);
	assert_int_equal(r.id, 7);
	assert_int_equal(r.rcode, RCODE_NOERROR);
	assert_true(has_address(&r, "192.0.2.1"));
	assert_true(r.flags & FLAG_QR && r.flags & FLAG_RA && r.flags & FLAG_RD);
	ask(x.client, &(struct question){ .name = "a.example", .id = 8 });
	hear(x.client, &r);
	assert_int_equal(r.id, 8);
	assert_true(has_address(&r, "192.0.2.1"));
	assert_false(upstream_is_asked(&x, 0, 0));
	assert_int_equal(worker_counter(x.w, C_HITS), 1);
}

static void test_long_ttl_is_cut(void **state)
{
	(void)state;
	ask_a(&x, "long.example");
	resolves(&x, "long.example", 30 * 86400, "192.0.2.1");
	hear(x.client, &r);
	assert_true(r.walk.ttl_min_s <= CACHE_TTL_MAX_S && r.walk.ttl_min_s > CACHE_TTL_MAX_S - 10);
	ask_a(&x, "long.example");
	hear(x.client, &r);
	assert_true(r.walk.ttl_min_s <= CACHE_TTL_MAX_S);
}

static void test_ttl_zero(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		ask_a(&x, "zero-ttl.example");
		resolves(&x, "zero-ttl.example", 0, "192.0.2.1");
		hear(x.client, &r);
		assert_true(has_address(&r, "192.0.2.1"));
		assert_int_equal(r.walk.ttl_min_s, 0);
	}
}

static void test_every_block(void **state)
{
	(void)state;
	static const uint16_t types[] = { RR_A, RR_AAAA, RR_TXT, RR_HTTPS, RR_MX, RR_ANY };
	world_list(&x, "ads", "ads.example", true);
	world_list(&x, "zero", "zero.example", true);
	world_list(&x, "refuse", "refuse.example", true);
	world_list(&x, "nodata", "nodata.example", true);
	world_list(&x, "drop", "drop.example", true);
	for (unsigned i = 0; i < sizeof types / sizeof types[0]; i++) {
		ask(x.client, &(struct question){ .name = "www.ads.example", .type = types[i] });
		hear(x.client, &r);
		assert_int_equal(r.rcode, RCODE_NXDOMAIN);
		assert_int_equal(r.ede, EDE_BLOCKED);
		assert_non_null(strstr(r.text, "content filter"));
		assert_int_equal(r.nscount, 1);
		ask(x.client, &(struct question){ .name = "refuse.example", .type = types[i] });
		hear(x.client, &r);
		assert_int_equal(r.rcode, RCODE_REFUSED);
		ask(x.client, &(struct question){ .name = "nodata.example", .type = types[i] });
		hear(x.client, &r);
		assert_int_equal(r.rcode, RCODE_NOERROR);
		assert_int_equal(r.ancount, 0);
		assert_int_equal(r.ede, EDE_BLOCKED);
		ask(x.client, &(struct question){ .name = "drop.example", .type = types[i] });
	}
	ask_a(&x, "x.zero.example");
	hear(x.client, &r);
	assert_true(has_address(&r, "0.0.0.0"));
	ask(x.client, &(struct question){ .name = "x.zero.example", .type = RR_AAAA });
	hear(x.client, &r);
	assert_true(has_address(&r, "::"));
	ask(x.client, &(struct question){ .name = "x.zero.example", .type = RR_TXT });
	hear(x.client, &r);
	assert_int_equal(r.ancount, 0);
	/* The dropped ones had no answer, and nothing of all this went upstream. */
	assert_false(hears(x.client, 0, &r));
	assert_false(upstream_is_asked(&x, 0, SOON_MS));
	assert_int_equal(worker_counter(x.w, C_BLOCKED), 4 * 6 + 3);
}

static void test_kept_answers_are_judged_anew(void **state)
{
	(void)state;
	ask_a(&x, "later.example");
	resolves(&x, "later.example", 300, "192.0.2.1");
	hear(x.client, &r);
	world_list(&x, "ads", "later.example", true);
	ask_a(&x, "later.example");
	hear(x.client, &r);
	assert_int_equal(r.rcode, RCODE_NXDOMAIN);
	world_list(&x, "ads", "later.example", false);
	ask_a(&x, "later.example");
	hear(x.client, &r);
	assert_true(has_address(&r, "192.0.2.1"));
	assert_false(upstream_is_asked(&x, 0, 0));
}

/* A change while the upstream is being asked counts for the answer. */
static void test_a_list_that_changes_meanwhile(void **state)
{
	(void)state;
	ask_a(&x, "meanwhile.example");
	upstream_expect(&x, 0, "meanwhile.example", RR_A);
	world_list(&x, "ads", "meanwhile.example", true);
	answer_a(&m, "meanwhile.example", 300, "192.0.2.1");
	upstream_gives(&x, 0, &m);
	hear(x.client, &r);
	assert_int_equal(r.rcode, RCODE_NXDOMAIN);
	assert_int_equal(r.ede, EDE_BLOCKED);
}

static void test_a_blocked_name_of_the_chain(void **state)
{
	(void)state;
	world_list(&x, "ads", "tracker.example", true);
	for (int i = 0; i < 2; i++) { /* from upstream, from the cache */
		ask_a(&x, "shop.example");
		if (i == 0) {
			upstream_expect(&x, 0, "shop.example", RR_A);
			make_head(&m, 0x8180, 2, 0, 0, "shop.example", RR_A);
			make_cname(&m, NULL, 300, "x.tracker.example");
			address_rr(&m, "x.tracker.example", 300, "192.0.2.9");
			upstream_gives(&x, 0, &m);
		}
		hear(x.client, &r);
		assert_int_equal(r.rcode, RCODE_NXDOMAIN);
		assert_int_equal(r.ede, EDE_BLOCKED);
	}
	assert_false(upstream_is_asked(&x, 0, 0));
	world_list(&x, "mine", "shop.example", true); /* an earlier rule allows the question's name */
	ask_a(&x, "shop.example");
	hear(x.client, &r);
	assert_true(has_address(&r, "192.0.2.9"));
}

static void test_open_chain_is_chased(void **state)
{
	(void)state;
	ask_a(&x, "open.example");
	upstream_expect(&x, 0, "open.example", RR_A);
	make_head(&m, 0x8180, 1, 0, 0, "open.example", RR_A);
	make_cname(&m, NULL, 300, "target.example");
	upstream_gives(&x, 0, &m);
	resolves(&x, "target.example", 60, "192.0.2.3");
	hear(x.client, &r);
	assert_int_equal(r.ancount, 2);
	assert_true(has_address(&r, "192.0.2.3"));
	assert_int_equal(r.walk.chain_len, 2);
	ask_a(&x, "open.example");
	hear(x.client, &r);
	assert_int_equal(r.ancount, 2);
	assert_false(upstream_is_asked(&x, 0, 0));
}

/* The chase goes to the group that was asked first, also when a reload numbered the groups anew in between. */
static void test_chase_over_a_reload(void **state)
{
	(void)state;
	ask_a(&x, "reload.example");
	upstream_expect(&x, 0, "reload.example", RR_A);
	static const char turned[] =
		"server: { listen: [192.168.8.1@53], allow: [192.168.8.0/24] }\n"
		"upstreams: { a-new-one: { servers: [127.0.0.9@9, 127.0.0.9@10] }, default: { servers: [127.0.0.1@%u] }, other: { servers: [127.0.0.1@%u] } }\n";
	world_configure(&x, turned, 2);
	make_head(&m, 0x8180, 1, 0, 0, "reload.example", RR_A);
	make_cname(&m, NULL, 300, "target.example");
	upstream_gives(&x, 0, &m);
	resolves(&x, "target.example", 60, "192.0.2.3");
	hear(x.client, &r);
	assert_true(has_address(&r, "192.0.2.3"));
}

static void test_chain_without_end(void **state)
{
	(void)state;
	char from[64], to[64];
	ask_a(&x, "0.loop.example");
	for (unsigned i = 0;; i++) {
		snprintf(from, sizeof from, "%u.loop.example", i);
		snprintf(to, sizeof to, "%u.loop.example", i + 1);
		if (!upstream_is_asked(&x, 0, i < 9 ? HEARD_MS : SOON_MS))
			break;
		assert_true(i < 12);
		make_head(&m, 0x8180, 1, 0, 0, from, RR_A);
		make_cname(&m, NULL, 300, to);
		upstream_gives(&x, 0, &m);
	}
	hear(x.client, &r);
	assert_int_equal(r.walk.addr_count, 0);
}

static void test_negative_answers_pass(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		ask_a(&x, "no.example");
		if (i == 0) {
			upstream_expect(&x, 0, "no.example", RR_A);
			make_head(&m, 0x8183, 0, 1, 0, "no.example", RR_A);
			make_soa(&m, "example", 60, 60);
			upstream_gives(&x, 0, &m);
		}
		hear(x.client, &r);
		assert_int_equal(r.rcode, RCODE_NXDOMAIN);
		assert_int_equal(r.ede, -1);
	}
	assert_false(upstream_is_asked(&x, 0, 0));
}

static void test_edns_or_none(void **state)
{
	(void)state;
	world_list(&x, "ads", "ads.example", true);
	ask(x.client, &(struct question){ .name = "ads.example", .no_edns = true });
	hear(x.client, &r);
	assert_int_equal(r.rcode, RCODE_NXDOMAIN);
	assert_false(r.has_edns);
	ask(x.client, &(struct question){ .name = "many.example", .no_edns = true });
	upstream_expect(&x, 0, "many.example", RR_A);
	make_head(&m, 0x8180, 40, 0, 0, "many.example", RR_A);
	for (unsigned i = 0; i < 40; i++)
		make_a(&m, NULL, 300, (uint8_t)(i + 1));
	upstream_gives(&x, 0, &m);
	hear(x.client, &r);
	assert_true(r.flags & FLAG_TC);
	assert_true(r.len <= 512);
	assert_false(r.has_edns);
	ask(x.client, &(struct question){ .name = "many.example" });
	hear(x.client, &r);
	assert_false(r.flags & FLAG_TC);
	assert_true(r.has_edns);
	assert_int_equal(r.ancount, 40);
	assert_false(upstream_is_asked(&x, 0, 0));
}

static void test_kinds_that_are_not_served(void **state)
{
	(void)state;
	ask(x.client, &(struct question){ .name = "a.example", .class = 3 });
	hear(x.client, &r);
	assert_int_equal(r.rcode, RCODE_REFUSED);
	assert_int_equal(r.ede, EDE_NOT_SUPPORTED);
	ask(x.client, &(struct question){ .name = "a.example", .type = RR_AXFR });
	hear(x.client, &r);
	assert_int_equal(r.rcode, RCODE_NOTIMP);
	/* An ANSWER, a stump, an opcode and EDNS version 1. */
	uint8_t msg[64];
	struct name n = make_from_text("a.example");
	size_t len = wire_query_build(msg, 5, &n, RR_A, 1, true, false, 1232, false);
	msg[2] |= 0x80;
	send(x.client, msg, len, 0);
	send(x.client, msg, 11, 0);
	msg[2] = 0x20;
	send(x.client, msg, len, 0);
	hear(x.client, &r);
	assert_int_equal(r.rcode, RCODE_NOTIMP);
	msg[2] = 1;
	msg[len - 5] = 1;
	send(x.client, msg, len, 0);
	hear(x.client, &r);
	assert_int_equal(r.rcode, RCODE_BADVERS & 15);
	assert_int_equal(r.bytes[r.walk.authority_end + 5], 1); /* the upper bits, in the OPT */
	assert_false(hears(x.client, SOON_MS, &r));
	assert_false(upstream_is_asked(&x, 0, 0));
}

static void test_any_is_judged_and_passed(void **state)
{
	(void)state;
	ask(x.client, &(struct question){ .name = "any.example", .type = RR_ANY });
	upstream_expect(&x, 0, "any.example", RR_ANY);
	make_head(&m, 0x8180, 2, 0, 0, "any.example", RR_ANY);
	address_rr(&m, NULL, 300, "192.0.2.5");
	address_rr(&m, NULL, 300, "2001:db8::5");
	upstream_gives(&x, 0, &m);
	hear(x.client, &r);
	assert_int_equal(r.ancount, 2);
}

static void test_local_domain_stays_here(void **state)
{
	(void)state;
	ask_a(&x, "printer.lan");
	hear(x.client, &r);
	assert_int_equal(r.rcode, RCODE_NXDOMAIN);
	assert_true(r.flags & FLAG_AA);
	ask_a(&x, "lan");
	hear(x.client, &r);
	assert_int_equal(r.rcode, RCODE_NOERROR);
	assert_false(upstream_is_asked(&x, 0, 0));
}

static void test_who_may_not_ask(void **state)
{
	(void)state;
	int stranger = client_open(&x, "192.168.9.2");
	ask(stranger, &(struct question){ .name = "a.example" });
	hear(stranger, &r);
	assert_int_equal(r.rcode, RCODE_REFUSED);
	assert_int_equal(r.ede, EDE_PROHIBITED);
	/* To a stranger not even an error is said. */
	uint8_t garbage[40] = { 1, 2, 1, 0, 0, 9 };
	send(stranger, garbage, sizeof garbage, 0);
	assert_false(hears(stranger, SOON_MS, &r));
	send(x.client, garbage, sizeof garbage, 0);
	hear(x.client, &r);
	assert_int_equal(r.rcode, RCODE_FORMERR);
	int local = client_open(&x, "127.0.0.1");
	ask(local, &(struct question){ .name = "a.example" });
	resolves(&x, "a.example", 10, "192.0.2.1");
	hear(local, &r);
	assert_true(has_address(&r, "192.0.2.1"));
	assert_false(upstream_is_asked(&x, 0, 0));
	close(local);
	close(stranger);
}

/* --- TCP, theirs and ours --- */

static void read_all(int fd, uint8_t *to, size_t len)
{
	while (len) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		assert_int_equal(poll(&p, 1, HEARD_MS), 1);
		ssize_t n = recv(fd, to, len, MSG_DONTWAIT);
		assert_true(n > 0);
		to += n;
		len -= (size_t)n;
	}
}

static void test_cut_by_udp_then_tcp(void **state)
{
	(void)state;
	ask(x.client, &(struct question){ .name = "big.example", .size = 4096 });
	upstream_expect(&x, 0, "big.example", RR_A);
	make_head(&m, 0x8380, 0, 0, 0, "big.example", RR_A);
	upstream_gives(&x, 0, &m);
	struct pollfd p = { .fd = x.upstream_tcp[0], .events = POLLIN };
	assert_int_equal(poll(&p, 1, HEARD_MS), 1);
	int up = accept(x.upstream_tcp[0], NULL, NULL);
	uint8_t head[2], query[600];
	read_all(up, head, 2);
	read_all(up, query, (size_t)(head[0] << 8 | head[1]));
	make_head(&m, 0x8180, 200, 0, 0, "big.example", RR_A);
	for (unsigned i = 0; i < 200; i++)
		make_a(&m, NULL, 300, (uint8_t)(i + 1));
	memcpy(m.bytes, query, 2);
	head[0] = (uint8_t)(m.len >> 8);
	head[1] = (uint8_t)m.len;
	assert_int_equal(send(up, head, 2, 0), 2);
	assert_int_equal(send(up, m.bytes, m.len, 0), m.len);
	hear(x.client, &r);
	assert_true(r.flags & FLAG_TC); /* more than the worker sends by UDP, whatever the client takes */
	close(up);

	/* The client asks again by TCP, with another question behind it in the same segment. */
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(x.port) };
	inet_pton(AF_INET, "192.168.8.1", &sa.sin_addr);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof sa), 0);
	uint8_t both[1024];
	size_t len = 0;
	struct name n = make_from_text("big.example");
	for (unsigned i = 0; i < 2; i++) {
		size_t one = wire_query_build(both + len + 2, (uint16_t)(100 + i), &n, RR_A, 1, true, false, 0, false);
		both[len] = 0;
		both[len + 1] = (uint8_t)one;
		len += one + 2;
	}
	assert_int_equal(send(fd, both, len, 0), len);
	for (unsigned i = 0; i < 2; i++) {
		read_all(fd, head, 2);
		r.len = (size_t)(head[0] << 8 | head[1]);
		read_all(fd, r.bytes, r.len);
		assert_int_equal(r.bytes[0] << 8 | r.bytes[1], 100 + i);
		assert_int_equal(wire_answer_walk(&r.walk, r.bytes, r.len), 0);
		assert_int_equal(r.walk.ancount, 200);
	}
	close(fd);
	assert_false(upstream_is_asked(&x, 0, 0));
}

static void test_upstream_says_servfail(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) { /* and is not asked again at once (RFC 9520) */
		unsigned asked = 0;
		ask_a(&x, "broken.example");
		while (!hears(x.client, 1, &r)) {
			if (!upstream_is_asked(&x, 0, 1))
				continue;
			asked++;
			make_head(&m, 0x8182, 0, 0, 0, "broken.example", RR_A);
			upstream_gives(&x, 0, &m);
		}
		assert_int_equal(r.rcode, RCODE_SERVFAIL);
		assert_int_equal(asked > 0, i == 0);
		assert_int_equal(r.ede == EDE_CACHED_ERROR, i == 1);
	}
}

/* Whatever comes in one batch is begun together, and each gets its own answer: kept, blocked, local, refused for its class or its client. */
static void test_a_batch_of_all_kinds(void **state)
{
	enum { KEPT = 8, ASKED = 120, ROUNDS = 10 };
	static const struct { const char *format; uint8_t rcode; int ede; } kinds[] = { { "kept%u.example", RCODE_NOERROR, -1 }, { "x%u.ads.example", RCODE_NXDOMAIN, EDE_BLOCKED },
		{ "host%u.lan", RCODE_NXDOMAIN, EDE_SYNTHESIZED }, { "chaos%u.example", RCODE_REFUSED, EDE_NOT_SUPPORTED } };
	char name[64], addr[32];
	int stranger = client_open(&x, "192.168.9.2");
	(void)state;
	world_list(&x, "ads", "ads.example", true);
	for (unsigned i = 0; i < KEPT; i++) {
		snprintf(name, sizeof name, "kept%u.example", i);
		snprintf(addr, sizeof addr, "192.0.2.%u", i + 1);
		ask_a(&x, name);
		resolves(&x, name, 300, addr);
		hear(x.client, &r);
	}
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < ASKED; i++) {
			snprintf(name, sizeof name, kinds[i % 4].format, i / 4 % KEPT);
			ask(i % 7 == 3 ? stranger : x.client, &(struct question){ .name = name, .id = (uint16_t)(1000 + i), .class = i % 4 == 3 ? 3 : 1 });
		}
		for (unsigned seen = 0; seen < ASKED; seen++) {
			bool is_stranger = hears(stranger, 0, &r);
			if (!is_stranger && !hears(x.client, 0, &r)) {
				seen--;
				continue;
			}
			unsigned i = r.id - 1000u;
			assert_in_range(i, 0, ASKED - 1);
			assert_int_equal(i % 7 == 3, is_stranger);
			assert_int_equal(r.rcode, is_stranger ? RCODE_REFUSED : kinds[i % 4].rcode);
			assert_int_equal(r.ede, is_stranger ? EDE_PROHIBITED : kinds[i % 4].ede);
			snprintf(name, sizeof name, kinds[i % 4].format, i / 4 % KEPT);
			assert_name(&r.walk.chain[0], name);
			snprintf(addr, sizeof addr, "192.0.2.%u", i / 4 % KEPT + 1);
			assert_int_equal(has_address(&r, addr), !is_stranger && i % 4 == 0);
		}
	}
	close(stranger);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(test_passes_and_is_kept), TEST(test_long_ttl_is_cut), TEST(test_ttl_zero), TEST(test_every_block), TEST(test_kept_answers_are_judged_anew),
		TEST(test_a_list_that_changes_meanwhile), TEST(test_a_blocked_name_of_the_chain), TEST(test_open_chain_is_chased), TEST(test_chase_over_a_reload),
		TEST(test_chain_without_end), TEST(test_negative_answers_pass), TEST(test_edns_or_none), TEST(test_kinds_that_are_not_served), TEST(test_any_is_judged_and_passed),
		TEST(test_local_domain_stays_here), TEST(test_who_may_not_ask), TEST(test_cut_by_udp_then_tcp), TEST(test_upstream_says_servfail), TEST(test_a_batch_of_all_kinds),
	};
	world_permitted();
	return cmocka_run_group_tests_name("dns answers", tests, NULL, NULL);
}
