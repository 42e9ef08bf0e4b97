/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the state of ways and the client's MAC mean for answers. The enforcer's page and the mark that the input hook writes are the test's to set. */
#include "world.h"
#include "steer/macmap.h"
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WAY_T1 = 1, WAY_T2 = 2 };
static const char config[] =
	"server: { listen: [192.168.8.1@53], allow: [192.168.8.0/24], element-min: 60s }\n"
	"upstreams: { default: { servers: [127.0.0.1@%u] }, other: { servers: [127.0.0.1@%u] } }\n"
	"clients: { lan: { networks: [192.168.8.0/24] }, kid: { networks: [192.168.8.0/24], macs: [\"02:00:00:00:00:01\"] }, not-tv: { networks: [192.168.8.0/24], except-macs: [\"02:00:00:00:00:02\"] } }\n"
	"lists: { ads: { files: [a] }, vpn: { files: [v] }, tunnel: { files: [t] }, kids: { files: [k] } }\n"
	"ways: { direct: {}, t1: { interface: wg1, mark: 0x2000, kill-switch: true }, t2: { interface: wg2, mark: 0x1000, upstream: other, fallback: direct } }\n"
	"filter: [ { name: for the kid, clients: [kid], names: [ads], block: nxdomain } ]\n"
	"steer:\n"
	"  - { name: kids, clients: [kid], names: [kids], way: t1 }\n"
	"  - { name: vpn, clients: [lan], names: [vpn], way: t1 }\n"
	"  - { name: tunnel, clients: [lan], names: [tunnel], way: t2 }\n"
	"  - { way: direct }\n";

static struct world x;
static struct reply r;
static struct make m;
static struct steer_add add;

static int set_up(void **state)
{
	(void)state;
	world_start(&x, config);
	world_list(&x, "vpn", "vpn.example", true);
	world_list(&x, "tunnel", "tunnel.example", true);
	world_list(&x, "kids", "kids.example", true);
	world_list(&x, "ads", "ads.example", true);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	world_stop(&x);
	return 0;
}

static void test_a_way_that_is_down(void **state)
{
	(void)state;
	atomic_store(&x.page.cfg[1].ways_down, 1u << WAY_T1);
	ask_a(&x, "www.vpn.example");
	hear(x.client, &r);
	assert_int_equal(r.rcode, RCODE_SERVFAIL);
	assert_int_equal(r.ede, EDE_NETWORK_ERROR);
	assert_non_null(strstr(r.text, "t1"));
	assert_false(upstream_is_asked(&x, 0, SOON_MS));
	assert_int_equal(worker_counter(x.w, C_WAY_DOWN), 1);
	/* Of other names nothing is heard; and what was kept is refused as well. */
	ask_a(&x, "plain.example");
	resolves(&x, "plain.example", 300, "192.0.2.1");
	hear(x.client, &r);
	assert_int_equal(r.rcode, RCODE_NOERROR);
	world_list(&x, "vpn", "plain.example", true);
	ask_a(&x, "plain.example");
	hear(x.client, &r);
	assert_int_equal(r.ede, EDE_NETWORK_ERROR);
	assert_false(enforcer_hears(&x, 0, &add));
}

/* The way goes down while the upstream is being asked. */
static void test_a_way_that_goes_down_meanwhile(void **state)
{
	(void)state;
	ask_a(&x, "www.vpn.example");
	upstream_expect(&x, 0, "www.vpn.example", RR_A);
	atomic_store(&x.page.cfg[1].ways_down, 1u << WAY_T1);
	answer_a(&m, "www.vpn.example", 300, "192.0.2.1");
	upstream_gives(&x, 0, &m);
	hear(x.client, &r);
	assert_int_equal(r.rcode, RCODE_SERVFAIL);
	assert_int_equal(r.ede, EDE_NETWORK_ERROR);
}

static void add_https(struct make *to)
{
	make_rr(to, NULL, RR_HTTPS, 300);
	make16(to, 1);
	make_name(to, ".");
	make_param(to, 4, (uint8_t[]){ 192, 0, 2, 7 }, 4);
	make_param(to, 6, (uint8_t[16]){ 0x20, 1, 0xd, 0xb8, [15] = 7 }, 16);
}

static void takes_barrier(void)
{
	if (enforcer_hears(&x, HEARD_MS, &add))
		enforcer_acks(&x, &add, STEER_OK);
	hear(x.client, &r);
}

static void test_a_way_without_ipv6(void **state)
{
	(void)state;
	atomic_store(&x.page.cfg[1].ways_no6, 1u << WAY_T1);
	ask(x.client, &(struct question){ .name = "www.vpn.example", .type = RR_AAAA });
	hear(x.client, &r);
	assert_int_equal(r.rcode, RCODE_NOERROR);
	assert_int_equal(r.ancount, 0);
	assert_int_equal(r.nscount, 1);
	assert_false(upstream_is_asked(&x, 0, SOON_MS));
	for (int tries = 0; tries < 50; tries++) {
		char name[64];
		snprintf(name, sizeof name, "h%d.vpn.example", tries);
		ask(x.client, &(struct question){ .name = name, .type = RR_HTTPS });
		upstream_expect(&x, 0, name, RR_HTTPS);
		make_head(&m, 0x8180, 1, 0, 0, name, RR_HTTPS);
		add_https(&m);
		upstream_gives(&x, 0, &m);
		takes_barrier();
		assert_int_equal(add.count, 1);
		assert_true(adds(&add, "192.0.2.7", rule_of(&x, "vpn")));
		if (r.rcode == RCODE_SERVFAIL)
			continue; /* the machine stalled */
		assert_true(has_address(&r, "192.0.2.7"));
		assert_false(has_address(&r, "2001:db8::7"));
		/* From the cache, at once, the same. */
		ask(x.client, &(struct question){ .name = name, .type = RR_HTTPS });
		hear(x.client, &r);
		assert_true(has_address(&r, "192.0.2.7"));
		assert_false(has_address(&r, "2001:db8::7"));
		return;
	}
	fail_msg("the machine stalls all the time");
}

/* A chased chain is made in one buffer and its hints are taken out in another. */
static void test_hints_of_a_chased_chain(void **state)
{
	(void)state;
	atomic_store(&x.page.cfg[1].ways_no6, 1u << WAY_T1);
	for (int tries = 0; tries < 50; tries++) {
		char name[64];
		snprintf(name, sizeof name, "c%d.vpn.example", tries);
		ask(x.client, &(struct question){ .name = name, .type = RR_HTTPS });
		upstream_expect(&x, 0, name, RR_HTTPS);
		make_head(&m, 0x8180, 1, 0, 0, name, RR_HTTPS);
		make_cname(&m, NULL, 0, "end.example");
		upstream_gives(&x, 0, &m);
		upstream_expect(&x, 0, "end.example", RR_HTTPS);
		make_head(&m, 0x8180, 2, 0, 0, "end.example", RR_HTTPS);
		add_https(&m);
		make_rr(&m, NULL, RR_HTTPS, 300);
		make16(&m, 2);
		make_name(&m, ".");
		make_param(&m, 6, (uint8_t[16]){ 0x20, 1, 0xd, 0xb8, [15] = 8 }, 16);
		upstream_gives(&x, 0, &m);
		if (enforcer_hears(&x, tries ? 50 : HEARD_MS, &add))
			enforcer_acks(&x, &add, STEER_OK);
		hear(x.client, &r);
		if (r.rcode == RCODE_SERVFAIL)
			continue;
		assert_int_equal(r.walk.chain_len, 2);
		assert_int_equal(r.ancount, 3);
		assert_int_equal(r.walk.addr_count, 1);
		assert_true(has_address(&r, "192.0.2.7"));
		return;
	}
	fail_msg("the machine stalls all the time");
}

/* AAAA in the answer to ANY cannot be taken out: they are steered into a way that stops them. */
static void test_any_on_a_way_without_ipv6(void **state)
{
	(void)state;
	atomic_store(&x.page.cfg[1].ways_no6, 1u << WAY_T1);
	ask(x.client, &(struct question){ .name = "any.vpn.example", .type = RR_ANY });
	upstream_expect(&x, 0, "any.vpn.example", RR_ANY);
	make_head(&m, 0x8180, 2, 0, 0, "any.vpn.example", RR_ANY);
	address_rr(&m, NULL, 300, "192.0.2.5");
	address_rr(&m, NULL, 300, "2001:db8::5");
	upstream_gives(&x, 0, &m);
	assert_true(enforcer_hears(&x, HEARD_MS, &add));
	assert_true(adds(&add, "192.0.2.5", rule_of(&x, "vpn")) && adds(&add, "2001:db8::5", rule_of(&x, "vpn")));
	enforcer_acks(&x, &add, STEER_OK);
	hear(x.client, &r);
}

/* The way's own upstream, through a socket of the way; with a way that fell back, the fallback's. */
static void test_upstream_of_the_way(void **state)
{
	(void)state;
	ask_a(&x, "a.tunnel.example");
	upstream_expect(&x, 1, "a.tunnel.example", RR_A);
	answer_a(&m, "a.tunnel.example", 300, "192.0.2.1");
	upstream_gives(&x, 1, &m);
	takes_barrier();
	assert_true(adds(&add, "192.0.2.1", rule_of(&x, "tunnel")));
	assert_true(atomic_load(&x.taken) > 0);
	assert_false(upstream_is_asked(&x, 0, 0));
	atomic_store(&x.page.cfg[1].ways_off, 1u << WAY_T2);
	ask_a(&x, "a.tunnel.example"); /* kept, but of the other group */
	resolves(&x, "a.tunnel.example", 300, "192.0.2.2");
	assert_true(enforcer_hears(&x, HEARD_MS, &add));
	assert_true(adds(&add, "192.0.2.2", rule_of(&x, "tunnel")));
	enforcer_acks(&x, &add, STEER_OK);
	hear(x.client, &r);
	assert_false(upstream_is_asked(&x, 1, 0));
}

/* A worker that waits for an upstream behind a way wakes to see the way go down. */
static void test_questions_of_a_way_that_goes_down(void **state)
{
	(void)state;
	ask_a(&x, "www.tunnel.example");
	upstream_expect(&x, 1, "www.tunnel.example", RR_A);
	atomic_store(&x.page.cfg[1].ways_down, 1u << WAY_T2);
	hear(x.client, &r);
	assert_int_equal(r.rcode, RCODE_SERVFAIL);
	assert_int_equal(r.ede, EDE_NETWORK_ERROR);
	unsigned taken = atomic_load(&x.taken);
	atomic_store(&x.page.cfg[1].ways_down, 0);
	ask_a(&x, "www.tunnel.example");
	upstream_expect(&x, 1, "www.tunnel.example", RR_A);
	assert_int_equal(atomic_load(&x.taken), taken + 1);
	answer_a(&m, "www.tunnel.example", 300, "192.0.2.1");
	upstream_gives(&x, 1, &m);
	assert_true(enforcer_hears(&x, HEARD_MS, &add));
	enforcer_acks(&x, &add, STEER_OK);
	hear(x.client, &r);
	assert_true(has_address(&r, "192.0.2.1"));
}

/* What the input hook writes for 02:00:00:00:00:01 (steer/macmap.h). */
static uint32_t kid_mark(void)
{
	uint8_t macs[1][6] = { { 2, 0, 0, 0, 0, 1 } };
	struct cfg_group group = { .macs = macs, .mac_count = 1 };
	struct config c = { .groups = &group, .group_count = 1 };
	struct macmap map;
	assert_int_equal(macmap_build(&map, &c), 0);
	uint32_t mark = (uint32_t)MACMAP_MARK | map.v[0].number;
	macmap_free(&map);
	return mark;
}

static int client_with_mark(uint32_t mark)
{
	int fd = client_open(&x, "192.168.8.2");
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof mark), 0);
	return fd;
}

static void test_mac_of_the_client(void **state)
{
	(void)state;
	/* The kid's names are blocked and steered. */
	int kid = client_with_mark(kid_mark()), other = client_with_mark(0x80000000u), unknown = x.client;
	ask(kid, &(struct question){ .name = "www.ads.example" });
	hear(kid, &r);
	assert_int_equal(r.rcode, RCODE_NXDOMAIN);
	ask(kid, &(struct question){ .name = "k.kids.example" });
	resolves(&x, "k.kids.example", 300, "192.0.2.1");
	assert_true(enforcer_hears(&x, HEARD_MS, &add));
	assert_true(adds(&add, "192.0.2.1", rule_of(&x, "kids")));
	enforcer_acks(&x, &add, STEER_OK);
	hear(kid, &r);
	/* A MAC that nobody names: neither. */
	ask(other, &(struct question){ .name = "www.ads.example" });
	resolves(&x, "www.ads.example", 300, "192.0.2.9");
	hear(other, &r);
	assert_true(has_address(&r, "192.0.2.9"));
	ask(other, &(struct question){ .name = "k.kids.example" });
	hear(other, &r);
	assert_true(has_address(&r, "192.0.2.1"));
	/* The hook did not see it (our table was missing): blocked where it might be the kid, and no answer whose exit would hang on that. */
	ask(unknown, &(struct question){ .name = "www.ads.example" });
	hear(unknown, &r);
	assert_int_equal(r.rcode, RCODE_NXDOMAIN);
	ask(unknown, &(struct question){ .name = "k.kids.example" });
	hear(unknown, &r);
	assert_int_equal(r.rcode, RCODE_SERVFAIL);
	assert_int_equal(r.ede, EDE_NOT_READY);
	assert_int_equal(worker_counter(x.w, C_UNSAFE), 1);
	ask(unknown, &(struct question){ .name = "plain.example" });
	resolves(&x, "plain.example", 300, "192.0.2.3");
	hear(unknown, &r);
	assert_true(has_address(&r, "192.0.2.3"));
	close(kid);
	close(other);
}

/* The kid's number belongs to another MAC after a reload: what was asked before is judged as unknown. */
static void test_mac_over_a_reload(void **state)
{
	(void)state;
	static const char turned[] =
		"server: { listen: [192.168.8.1@53], allow: [192.168.8.0/24] }\n"
		"upstreams: { default: { servers: [127.0.0.1@%u] }, other: { servers: [127.0.0.1@%u] } }\n"
		"clients: { kid: { networks: [192.168.8.0/24], macs: [\"02:00:00:00:00:01\"] }, tv: { networks: [192.168.8.0/24], macs: [\"00:00:00:00:00:09\"] } }\n"
		"lists: { kids: { files: [k] } }\n"
		"ways: { direct: {}, t1: { interface: wg1, mark: 0x2000, kill-switch: true } }\n"
		"steer: [ { name: kids, clients: [kid], names: [kids], way: t1 }, { way: direct } ]\n";
	/* Its address was not named when it asked: it may be one that is named now. */
	int kid = client_with_mark(0x80000000u);
	ask(kid, &(struct question){ .name = "k.kids.example" });
	upstream_expect(&x, 0, "k.kids.example", RR_A);
	world_configure(&x, turned, 2);
	answer_a(&m, "k.kids.example", 300, "192.0.2.1");
	upstream_gives(&x, 0, &m);
	hear(kid, &r);
	assert_int_equal(r.rcode, RCODE_SERVFAIL);
	assert_int_equal(r.ede, EDE_NOT_READY);
	close(kid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(test_a_way_that_is_down), TEST(test_a_way_that_goes_down_meanwhile), TEST(test_a_way_without_ipv6), TEST(test_hints_of_a_chased_chain),
		TEST(test_any_on_a_way_without_ipv6), TEST(test_upstream_of_the_way), TEST(test_questions_of_a_way_that_goes_down), TEST(test_mac_of_the_client), TEST(test_mac_over_a_reload),
	};
	world_permitted();
	return cmocka_run_group_tests_name("dns ways", tests, NULL, NULL);
}
