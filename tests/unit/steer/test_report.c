/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the enforcer tells, and the leak test's look at rules and routes, in a network namespace. Exit 77 where namespaces are
 * not permitted. */
#include "ways_fixture.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "steer/enforcer_private.h"
#include "steer/ways_verify.h"

static struct enforcer e;
static struct said {
	unsigned count, closed;
	char text[1024];
} said;

static void note(void *ctx, int way, const char *text)
{
	struct said *s = ctx;
	size_t at = strlen(s->text);
	s->count++;
	s->closed += way < 0;
	snprintf(s->text + at, sizeof(s->text) - at, "%d: %s\n", way, text);
}

static const char *verify(struct world *x)
{
	said = (struct said){0};
	assert_int_equal(ways_verify(x->w, note, &said), 0);
	return said.text;
}

static void what_stands_is_not_complained_of(void **state)
{
	apply(*state);
	assert_string_equal(verify(*state), "");
}

static void what_is_gone_is_named(void **state)
{
	struct world *x = *state;
	apply(x);
	must("ip rule del priority 5030 fwmark 0x1000/0xf000");
	assert_non_null(strstr(verify(x), "0: nothing stops marked IPv4 packets"));
	apply(x);
	must("ip -6 route del unreachable default table 102 metric 4278198272");
	assert_non_null(strstr(verify(x), "1: its table 102 does not end in `unreachable` for IPv6"));
	assert_int_equal(said.count, 1);
	apply(x);
	must("ip rule del priority 5000 iif lan");
	assert_true(verify(x)[0] == '-');
	assert_int_equal(said.closed, 1);
	apply(x);
	must("ip rule del priority 5020 fwmark 0x2000/0xf000");
	assert_non_null(strstr(verify(x), "1: the IPv4 rule at priority 5020 for mark 0x2000/0xf000"));
}

static struct addr address(const char *text)
{
	struct addr a;
	assert_int_equal(addr_parse(&a, text), 0);
	return a;
}

/* An enforcer over the world: rule 0 holds one address for a minute and one that expired, and a prefix. */
static void begin(struct world *x)
{
	static struct range range;
	x->steers[0].id = 0xab;
	apply(x);
	memset(&e, 0, sizeof(e));
	e.ways = x->w;
	e.alarms = alarms_new();
	e.now.config = &x->c;
	e.now.serial = 3;
	e.now.foreign = calloc(1, sizeof(*e.now.foreign));
	e.now.foreign_at = calloc(x->c.way_count, sizeof(*e.now.foreign_at));
	e.now_ms = clock_ms();
	assert_int_equal(elements_init(&e.elements), 0);
	struct addr live = address("198.51.100.7"), dead = address("198.51.100.8");
	elements_add(&e.elements, x->c.steers[0].id, &live)->expires_ms = e.now_ms + 60500;
	elements_add(&e.elements, x->c.steers[0].id, &dead)->expires_ms = e.now_ms - 1;
	range = (struct range){address("203.0.113.0"), address("203.0.113.255")};
	e.ranges[e.range_count++] = (struct kept_ranges){.rule_id = x->c.steers[0].id, .family = 4, .count = 1, .r = &range};
}

static void end(void)
{
	alarms_free(e.alarms);
	elements_free(&e.elements);
	nft_close(e.nft);
	free(e.now.foreign);
	free(e.now.foreign_at);
}

static json_t *about(const char *text)
{
	struct addr a = address(text);
	json_t *j = enforcer_address_json(&e, &a);
	assert_non_null(j);
	return j;
}

static json_int_t number(const json_t *j, const char *array, const char *key)
{
	return json_integer_value(json_object_get(json_array_get(json_object_get(j, array), 0), key));
}

static void one_address(void **state)
{
	struct world *x = *state;
	begin(x);
	json_t *j = about("198.51.100.7");
	assert_int_equal(json_array_size(json_object_get(j, "rules")), 1);
	assert_int_equal(number(j, "rules", "expires_s"), 60);
	assert_int_equal(number(j, "rules", "rule"), 1);
	assert_true(json_is_null(json_object_get(j, "never")));
	json_decref(j);
	j = about("198.51.100.8");
	assert_int_equal(json_array_size(json_object_get(j, "rules")), 0);
	json_decref(j);
	static const struct {
		const char *text;
		unsigned ranges;
	} edges[] = {{"203.0.113.0", 1}, {"203.0.113.255", 1}, {"203.0.112.255", 0}, {"203.0.114.0", 0}, {"2001:db8::1", 0}};
	for (unsigned i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
		j = about(edges[i].text);
		assert_int_equal(json_array_size(json_object_get(j, "ranges")), edges[i].ranges);
		json_decref(j);
	}
	j = about("10.1.0.1");
	assert_true(json_is_true(json_object_get(j, "own")));
	assert_string_equal(json_string_value(json_object_get(j, "never")), "it is this machine's own");
	json_decref(j);
	j = about("10.9.9.9");
	assert_true(json_is_true(json_object_get(j, "private")));
	assert_true(json_is_string(json_object_get(j, "never")));
	json_decref(j);
	end();
}

static void the_whole_state(void **state)
{
	struct world *x = *state;
	begin(x);
	alarm_set(e.alarms, "k", "a text");
	json_t *j = enforcer_state_json(&e);
	assert_int_equal(json_array_size(json_object_get(j, "ways")), 0);
	assert_true(json_is_false(json_object_get(json_object_get(j, "table"), "stands")));
	json_decref(j);
	struct nft_options o = {0};
	assert_int_equal(nft_open(&e.nft, &o), 0);
	must("ip rule del priority 5030 fwmark 0x1000/0xf000");
	enforcer_sweep(&e); /* what expired counts until then */
	j = enforcer_state_json(&e);
	assert_int_equal(json_array_size(json_object_get(j, "ways")), x->c.way_count);
	json_t *one = json_array_get(json_object_get(j, "ways"), WAY_ONE);
	assert_string_equal(json_string_value(json_object_get(one, "state")), "up");
	assert_true(json_array_size(json_object_get(one, "missing")) >= 1);
	assert_int_equal(json_array_size(json_object_get(json_array_get(json_object_get(j, "ways"), WAY_TWO), "missing")), 0);
	assert_int_equal(json_array_size(json_object_get(j, "rules")), x->c.steer_count);
	assert_int_equal(number(j, "rules", "addresses4"), 1);
	assert_int_equal(number(j, "rules", "ranges"), 1);
	assert_int_equal(json_array_size(json_object_get(j, "alarms")), 1);
	/* No table was made. */
	assert_string_equal(json_string_value(json_object_get(json_object_get(j, "table"), "owner")), "absent");
	json_decref(j);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(what_stands_is_not_complained_of, world_new, world_free),
	        cmocka_unit_test_setup_teardown(what_is_gone_is_named, world_new, world_free),
	        cmocka_unit_test_setup_teardown(one_address, world_new, world_free),
	        cmocka_unit_test_setup_teardown(the_whole_state, world_new, world_free),
	};
	if (!world_permitted())
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
