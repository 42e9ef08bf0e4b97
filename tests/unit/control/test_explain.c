/* SPDX-License-Identifier: GPL-3.0-or-later */
/* explain: the decision is the policy's, and the reasons name the rule, the list, the line and the losers rightly. */
#include "world.h"

static int set_up(void **ctx)
{
	struct world *w = malloc(sizeof(*w));
	world_begin(w);
	*ctx = w;
	return 0;
}

static int tear_down(void **ctx)
{
	world_end(*ctx);
	free(*ctx);
	return 0;
}

static json_t *explain(struct world *w, const char *name, const char *more)
{
	return world_get(w, "{\"verb\":\"explain\",\"name\":\"%s\"%s}", name, more);
}

/* The text of the losing rule of this kind and number. */
static const char *why(const json_t *j, const char *kind, int rule)
{
	size_t i;
	json_t *r;
	json_array_foreach(at(j, "lost"), i,
	        r) if (!strcmp(text_at(r, "kind"), kind) && json_integer_value(at(r, "rule")) == rule) return text_at(r, "why");
	return "(not lost)";
}

static void assert_why(const json_t *j, const char *kind, int rule, const char *part)
{
	if (!strstr(why(j, kind, rule), part))
		fail_msg("%s %d: `%s` is not in `%s`", kind, rule, part, why(j, kind, rule));
}

static void a_blocked_name(void **ctx)
{
	json_t *j = explain(*ctx, "X.Ads.Example.", "");
	assert_string_equal(text_at(j, "name"), "x.ads.example");
	assert_says(j, "outcome", "answered NXDOMAIN: blocked by content filter");
	assert_string_equal(text_at(j, "filter.verdict"), "block");
	assert_int_equal(json_integer_value(at(j, "filter.rule.rule")), 2);
	assert_string_equal(text_at(j, "filter.rule.place"), "t.yaml:19:5");
	assert_string_equal(text_at(j, "filter.by.list"), "ads");
	assert_string_equal(text_at(j, "filter.by.entry"), "ads.example");
	assert_string_equal(text_at(j, "filter.by.file"), "/etc/nameway/ads.txt");
	assert_int_equal(json_integer_value(at(j, "filter.by.line")), 1);
	assert_why(j, "filter", 1, "not in mine");
	assert_why(j, "filter", 3, "the client is not in toys");
	assert_null(at(j, "steer"));
	json_decref(j);
}

static void an_exempted_and_an_allowed_name(void **ctx)
{
	json_t *j = explain(*ctx, "a.ok.ads.example", "");
	assert_string_equal(text_at(j, "filter.verdict"), "pass");
	assert_why(j, "filter", 2, "not in ads");
	json_decref(j);
	j = explain(*ctx, "fine.ads.example", "");
	assert_string_equal(text_at(j, "filter.verdict"), "allow");
	assert_string_equal(text_at(j, "filter.by.list"), "mine");
	assert_int_equal(json_integer_value(at(j, "filter.by.line")), 2);
	assert_why(j, "filter", 2, "filter rule 1 comes first");
	json_decref(j);
}

static void a_steered_name(void **ctx)
{
	json_t *j = explain(*ctx, "www.vpn.example", "");
	assert_says(j, "client.said", "any host on br-lan");
	assert_string_equal(text_at(j, "client.groups.0"), "lan");
	assert_true(json_is_true(at(j, "client.may_ask")));
	assert_says(j, "outcome", "its packets go by way `tunnel1`");
	assert_string_equal(text_at(j, "steer.rule.name"), "Tunnel 1");
	assert_string_equal(text_at(j, "steer.mark"), "0x2000");
	assert_string_equal(text_at(j, "steer.by.entry"), "vpn.example");
	assert_int_equal(json_integer_value(at(j, "steer.by.line")), 2);
	assert_int_equal(json_array_size(at(j, "steer.sets")), 1);
	assert_string_equal(text_at(j, "upstream.group"), "t1dns");
	assert_true(json_is_null(at(j, "cache")));
	assert_why(j, "steer", 1, "disabled");
	assert_why(j, "steer", 3, "the client is not in iot");
	assert_why(j, "steer", 4, "group 10000");
	assert_why(j, "steer", 5, "steer rule 2 comes first");
	json_decref(j);
	j = explain(*ctx, "exact.example", "");
	assert_string_equal(text_at(j, "steer.by.entry"), "=exact.example");
	json_decref(j);
	j = explain(*ctx, "under.exact.example", "");
	assert_string_equal(text_at(j, "steer.way"), "direct");
	assert_why(j, "steer", 2, "the name is not in vpn");
	assert_string_equal(text_at(j, "upstream.group"), "default");
	json_decref(j);
	j = explain(*ctx, "both.example", "");
	assert_why(j, "steer", 2, "in list `mine`, which it excepts");
	json_decref(j);
}

static void clients_differ(void **ctx)
{
	json_t *j = explain(*ctx, "www.vpn.example", ",\"client\":\"br-iot\",\"client_address\":\"192.168.20.1\"");
	assert_string_equal(text_at(j, "steer.rule.name"), "Tunnel 2");
	json_decref(j);
	/* The interface alone: an address of the group's network is taken. */
	j = explain(*ctx, "www.vpn.example", ",\"client\":\"br-iot\"");
	assert_string_equal(text_at(j, "steer.rule.name"), "Tunnel 2");
	json_decref(j);
	j = explain(*ctx, "www.vpn.example", ",\"client\":\"192.168.20.7\",\"client_interface\":\"br-iot\"");
	assert_string_equal(text_at(j, "steer.rule.name"), "Tunnel 2");
	assert_says(j, "client.said", "not known");
	assert_string_equal(text_at(j, "client.groups_unknown.0"), "toys");
	json_decref(j);
	/* A MAC that is not known is judged strictest; a known one is told. */
	j = explain(*ctx, "ads.example", ",\"client\":\"192.168.9.7\",\"client_interface\":\"eth9\"");
	assert_string_equal(text_at(j, "filter.rule.name"), "toys filter");
	assert_true(json_is_false(at(j, "client.may_ask")));
	assert_says(j, "outcome", "answered REFUSED");
	json_decref(j);
	j = explain(*ctx, "ads.example", ",\"client\":\"02:00:5e:10:00:01\",\"client_interface\":\"eth9\"");
	assert_string_equal(text_at(j, "filter.rule.name"), "toys filter");
	assert_string_equal(text_at(j, "client.groups.0"), "toys");
	json_decref(j);
	j = explain(*ctx, "ads.example",
	        ",\"client\":\"192.168.9.7\",\"client_interface\":\"eth9\",\"client_mac\":\"02:00:00:00:00:01\"");
	assert_string_equal(text_at(j, "filter.verdict"), "pass");
	json_decref(j);
	j = explain(*ctx, "www.vpn.example", ",\"client\":\"127.0.0.1\"");
	assert_true(json_is_true(at(j, "client.local")));
	assert_string_equal(text_at(j, "steer.way"), "direct");
	assert_why(j, "steer", 2, "this machine's own");
	json_decref(j);
	world_refuses(
	        *ctx, "is no client", "{\"verb\":\"explain\",\"name\":\"x\",\"client\":\"an-interface-with-too-long-a-name\"}");
}

static void a_chain_is_judged_whole(void **ctx)
{
	struct world *w = *ctx;
	world_cache(w, "www.plain.example", "cdn.vpn.example");
	char text[512];
	snprintf(text, sizeof(text),
	        "{\"own\":false,\"private\":true,\"never\":null,\"rules\":[{\"rule\":2,\"id\":\"%08x\",\"name\":\"Tunnel "
	        "1\",\"expires_s\":77}],\"ranges\":[]}",
	        w->snap.config->steers[1].id);
	w->address = text;
	json_t *j = explain(w, "www.plain.example", "");
	assert_string_equal(text_at(j, "cache.chain.1"), "cdn.vpn.example");
	assert_string_equal(text_at(j, "steer.rule.name"), "Tunnel 1");
	assert_string_equal(text_at(j, "steer.by.name"), "cdn.vpn.example");
	assert_string_equal(text_at(j, "steer.sets.0.of"), "cdn.vpn.example");
	/* It was asked where its own name led. */
	assert_string_equal(text_at(j, "upstream.group"), "default");
	assert_string_equal(text_at(j, "addresses.0.address"), "10.0.0.1");
	assert_true(json_is_true(at(j, "addresses.0.in_kernel")));
	assert_int_equal(json_integer_value(at(j, "addresses.0.expires_s")), 77);
	json_decref(j);
	w->address = "{\"own\":false,\"never\":\"it is private\",\"rules\":[],\"ranges\":[]}";
	j = explain(w, "www.plain.example", "");
	assert_true(json_is_false(at(j, "addresses.0.in_kernel")));
	assert_string_equal(text_at(j, "addresses.0.never"), "it is private");
	json_decref(j);
	w->address = NULL;
	j = explain(w, "www.plain.example", "");
	assert_true(json_is_false(at(j, "addresses.0.known")));
	json_decref(j);
	/* Another type was not asked. */
	j = explain(w, "www.plain.example", ",\"type\":\"AAAA\"");
	assert_true(json_is_null(at(j, "cache")));
	json_decref(j);
	world_refuses(w, "no record type", "{\"verb\":\"explain\",\"name\":\"x\",\"type\":\"BOGUS\"}");
	world_refuses(w, "neither a name nor an address", "{\"verb\":\"explain\",\"name\":\"a..b\"}");
}

static void a_chain_into_a_blocked_name(void **ctx)
{
	world_cache(*ctx, "www.plain.example", "track.ads.example");
	json_t *j = explain(*ctx, "www.plain.example", "");
	assert_string_equal(text_at(j, "filter.verdict"), "block");
	assert_string_equal(text_at(j, "filter.by.name"), "track.ads.example");
	json_decref(j);
}

static void a_way_that_is_down(void **ctx)
{
	struct world *w = *ctx;
	atomic_store(&w->shared.cfg[1].ways_down, 1ull << 1);
	json_t *j = explain(w, "www.vpn.example", "");
	assert_says(j, "outcome", "answered SERVFAIL: way `tunnel1` is down");
	json_decref(j);
	atomic_store(&w->shared.cfg[1].ways_down, 0);
	atomic_store(&w->shared.cfg[1].ways_no6, 1ull << 1);
	j = explain(w, "www.vpn.example", ",\"type\":\"aaaa\"");
	assert_says(j, "outcome", "has no IPv6");
	json_decref(j);
	/* A fallback's upstream is asked. */
	atomic_store(&w->shared.cfg[1].ways_off, 1ull << 2);
	j = explain(w, "www.vpn.example", ",\"client\":\"br-iot\"");
	assert_says(j, "steer.way_now", "its packets go by direct");
	assert_string_equal(text_at(j, "upstream.group"), "default");
	json_decref(j);
}

static void a_rule_whose_list_never_had_a_text(void **ctx)
{
	struct world *w = *ctx;
	policy_close_rule(w->snap.policy, 1);
	json_t *j = explain(w, "other.example", "");
	assert_true(json_is_true(at(j, "steer.closed")));
	assert_says(j, "outcome", "answered SERVFAIL: a list of a kill-switched rule never had a text");
	assert_string_equal(text_at(j, "steer.rule.name"), "Tunnel 1");
	json_decref(j);
	j = explain(w, "other.example", ",\"client\":\"br-iot\"");
	assert_true(json_is_false(at(j, "steer.closed")));
	json_decref(j);
}

static void a_live_edit(void **ctx)
{
	json_decref(world_get(*ctx, "{\"verb\":\"list-add\",\"name\":\"vpn\",\"entries\":[\"live.example\"]}"));
	json_t *j = explain(*ctx, "www.live.example", "");
	assert_string_equal(text_at(j, "steer.by.entry"), "live.example");
	assert_null(at(j, "steer.by.file"));
	assert_says(j, "steer.by.from", "live edit");
	json_decref(j);
}

static void an_address(void **ctx)
{
	struct world *w = *ctx;
	char text[512];
	uint32_t id = w->snap.config->steers[1].id;
	snprintf(text, sizeof(text),
	        "{\"own\":false,\"private\":false,\"never\":null,\"rules\":[{\"rule\":2,\"id\":\"%08x\",\"name\":\"Tunnel "
	        "1\",\"expires_s\":55}],\"ranges\":[]}",
	        id);
	w->address = text;
	world_cache(w, "www.vpn.example", "cdn.example");
	json_t *j = explain(w, "10.0.0.1", "");
	assert_string_equal(text_at(j, "rule.name"), "Tunnel 1");
	assert_says(j, "rule.why", "55 s more");
	assert_says(j, "exit", "interface wg1");
	assert_string_equal(text_at(j, "names.0"), "www.vpn.example");
	assert_int_equal(json_array_size(at(j, "names")), 1);
	assert_why(j, "steer", 5, "steer rule 2 comes first");
	json_decref(j);
	/* Other clients' packets to the same address go elsewhere. */
	j = explain(w, "10.0.0.1", ",\"client\":\"br-iot\"");
	assert_string_equal(text_at(j, "rule.way"), "direct");
	assert_why(j, "steer", 2, "none of its groups");
	json_decref(j);
	/* A listed prefix, and an exception of the rule. */
	snprintf(
	        text, sizeof(text), "{\"own\":false,\"never\":null,\"rules\":[],\"ranges\":[{\"id\":\"%08x\",\"which\":0}]}", id);
	j = explain(w, "203.0.113.9", "");
	assert_string_equal(text_at(j, "rule.name"), "Tunnel 1");
	assert_string_equal(text_at(j, "rule.by.0.file"), "/etc/nameway/vpn.txt");
	assert_int_equal(json_integer_value(at(j, "rule.by.0.line")), 5);
	json_decref(j);
	snprintf(text, sizeof(text),
	        "{\"own\":false,\"never\":null,\"rules\":[],\"ranges\":[{\"id\":\"%08x\",\"which\":0},{\"id\":\"%08x\",\"which\":"
	        "1}]}",
	        id, id);
	j = explain(w, "203.0.113.9", "");
	assert_string_equal(text_at(j, "rule.way"), "direct");
	assert_why(j, "steer", 2, "exceptions");
	json_decref(j);
	/* Answers with it are blocked. */
	w->address = "{\"own\":false,\"never\":null,\"rules\":[],\"ranges\":[]}";
	j = explain(w, "198.51.100.66", "");
	assert_string_equal(text_at(j, "blocked_in_answers.name"), "content filter");
	assert_int_equal(json_integer_value(at(j, "blocked_in_answers.by.line")), 3);
	json_decref(j);
	w->address = "{\"own\":true,\"never\":\"it is this machine's own\",\"rules\":[],\"ranges\":[]}";
	j = explain(w, "192.168.8.1", "");
	assert_says(j, "outcome", "this machine's own address");
	json_decref(j);
	w->address = NULL;
	j = explain(w, "203.0.113.9", "");
	assert_true(json_is_false(at(j, "kernel_known")));
	assert_says(j, "outcome", "cannot be said");
	assert_null(at(j, "exit"));
	json_decref(j);
}

static void not_before_it_serves(void **ctx)
{
	((struct world *)*ctx)->is_starting = true;
	world_refuses(*ctx, "starting", "{\"verb\":\"explain\",\"name\":\"x.example\"}");
	world_refuses(*ctx, "starting", "{\"verb\":\"explain\",\"name\":\"192.0.2.1\"}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(a_blocked_name, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(an_exempted_and_an_allowed_name, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(a_steered_name, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(clients_differ, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(a_chain_is_judged_whole, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(a_chain_into_a_blocked_name, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(a_way_that_is_down, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(a_rule_whose_list_never_had_a_text, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(a_live_edit, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(an_address, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(not_before_it_serves, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
