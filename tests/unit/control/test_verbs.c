/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Every verb but explain: who may, what is refused and how, what the answers hold. */
#include "world.h"
#include <errno.h>
#include "base/err.h"

static const char state[] =
        "{\"serial\":5,\"ways\":[{\"name\":\"direct\",\"interface\":null,\"state\":\"up\",\"reason\":\"\",\"kill_switch\":false,"
        "\"missing\":[]},"
        "{\"name\":\"tunnel1\",\"interface\":\"wg1\",\"table\":20001,\"state\":\"up\",\"reason\":\"\",\"kill_switch\":true,"
        "\"missing\":[]},"
        "{\"name\":\"tunnel2\",\"interface\":\"wg2\",\"table\":20002,\"state\":\"down-link\",\"reason\":\"wg2 does not "
        "exist\",\"kill_switch\":false,"
        "\"missing\":[\"its table 20002 does not end in `unreachable` for IPv6\"]}],"
        "\"rules\":[{\"name\":\"Tunnel "
        "1\",\"id\":\"%08x\",\"way\":\"tunnel1\",\"packets\":11,\"bytes\":1200,\"addresses4\":3,\"addresses6\":1,\"ranges\":1,"
        "\"capacity\":262144}],"
        "\"table\":{\"stands\":true,\"protected\":true,\"rebuilds\":2,\"owner\":\"nameway\",\"missing\":[]},\"counters\":{},"
        "\"alarms\":[{\"key\":\"way tunnel2\",\"since\":1,\"text\":\"way `tunnel2` is down\"}]}";

static char state_text[4096];

static int set_up(void **ctx)
{
	struct world *w = malloc(sizeof(*w));
	world_begin(w);
	/* The format is ours, its one argument the rule's id. */
	char *hole = strstr(strcpy(state_text, state), "%08x"), id[16];
	snprintf(id, sizeof(id), "%08x", w->snap.config->steers[1].id);
	memmove(hole + 8, hole + 4, strlen(hole + 4) + 1);
	memcpy(hole, id, 8);
	w->state = state_text;
	*ctx = w;
	return 0;
}

static int tear_down(void **ctx)
{
	world_end(*ctx);
	free(*ctx);
	return 0;
}

static void requests_that_are_none(void **ctx)
{
	struct world *w = *ctx;
	world_refuses(w, "`verb`", "{}");
	world_refuses(w, "`verb`", "[1]");
	world_refuses(w, "there is no verb `stat`", "{\"verb\":\"stat\"}");
	world_refuses(w, "`lease-list` is not in this version", "{\"verb\":\"lease-list\"}");
	world_refuses(w, "`kernel` is not in this version", "{\"verb\":\"kernel\"}");
	world_refuses(w, "parent", "{\"verb\":\"reload\"}");
	world_refuses(w, "lacks a string `name`", "{\"verb\":\"explain\"}");
	world_refuses(w, "lacks a string `name`", "{\"verb\":\"explain\",\"name\":7}");
}

static void changes_need_the_right(void **ctx)
{
	static const char *const changing[] = {"list-reload", "list-add", "list-remove", "cache-flush", "filter-off", "filter-on"};
	int r;
	for (unsigned i = 0; i < sizeof(changing) / sizeof(changing[0]); i++) {
		json_t *j =
		        world_ask(*ctx, false, &r, "{\"verb\":\"%s\",\"name\":\"ads\",\"entries\":[\"x.example\"]}", changing[i]);
		assert_int_equal(r, NW_EREFUSED);
		json_decref(j);
		assert_true(control_verb_changes(changing[i]));
	}
	assert_true(control_verb_changes("reload"));
	assert_true(control_verb_changes("way"));
	assert_false(control_verb_changes("list"));
	assert_false(control_verb_changes("filter"));
	assert_false(control_verb_changes("log"));
	assert_false(control_verb_changes("top"));
	assert_false(control_verb_changes("no such"));
	json_decref(world_ask(*ctx, false, &r, "{\"verb\":\"cache-stats\"}"));
	assert_int_equal(r, 0);
}

static void replies_are_one_line(void **ctx)
{
	(void)ctx;
	char *yes = control_reply(0, json_pack("{s:s}", "a", "b\nc")), *no = control_reply(-EIO, json_string("why")),
	     *code = control_reply(NW_EFULL, NULL);
	assert_string_equal(yes, "{\"ok\":true,\"result\":{\"a\":\"b\\nc\"}}\n");
	assert_string_equal(no, "{\"ok\":false,\"error\":\"why\"}\n");
	assert_non_null(strstr(code, nw_strerror(NW_EFULL)));
	free(yes);
	free(no);
	free(code);
}

static void status_tells_all(void **ctx)
{
	struct world *w = *ctx;
	alarm_set(w->env.alarms, "state", "no state directory");
	json_t *j = world_get(w, "{\"verb\":\"status\"}");
	assert_true(json_integer_value(at(j, "uptime_s")) >= 3);
	assert_string_equal(text_at(j, "steering.state"), "ready");
	assert_string_equal(text_at(j, "lists.0.name"), "vpn");
	assert_int_equal(json_integer_value(at(j, "lists.0.names")), 3);
	assert_int_equal(json_integer_value(at(j, "lists.0.prefix_ranges")), 1);
	assert_non_null(at(j, "lists.0.age_s"));
	assert_string_equal(text_at(j, "ways.2.state"), "down-link");
	assert_int_equal(json_array_size(at(j, "alarms")), 2);
	assert_string_equal(text_at(j, "alarms.0.from"), "server");
	assert_string_equal(text_at(j, "alarms.1.from"), "enforcer");
	assert_int_equal(json_integer_value(at(j, "cache.bytes_max")), 8 << 20);
	json_decref(j);
	/* Without the enforcer that is an alarm, and the rest is told. */
	w->state = NULL;
	j = world_get(w, "{\"verb\":\"status\"}");
	assert_int_equal(json_array_size(at(j, "alarms")), 2);
	assert_says(j, "alarms.1.text", "Mend");
	json_decref(j);
	w->is_starting = true;
	j = world_get(w, "{\"verb\":\"status\"}");
	assert_true(json_is_false(at(j, "serving")));
	json_decref(j);
}

static void lists_are_told_and_edited(void **ctx)
{
	struct world *w = *ctx;
	json_t *j = world_get(w, "{\"verb\":\"list\"}");
	assert_int_equal(json_array_size(at(j, "lists")), 3);
	json_decref(j);
	world_refuses(w, "the configuration has vpn, ads, mine", "{\"verb\":\"list\",\"name\":\"adds\"}");
	j = world_get(w, "{\"verb\":\"list-add\",\"name\":\"ads\",\"entries\":[\"new.example\",\"=one.example\"]}");
	assert_int_equal(json_integer_value(at(j, "added")), 2);
	json_decref(j);
	j = world_get(w, "{\"verb\":\"list\",\"name\":\"ads\"}");
	assert_int_equal(json_array_size(at(j, "added")), 2);
	json_decref(j);
	world_refuses(w, "does not hold", "{\"verb\":\"list-remove\",\"name\":\"ads\",\"entries\":[\"none.example\"]}");
	world_refuses(w, "is no entry", "{\"verb\":\"list-add\",\"name\":\"ads\",\"entries\":[\"a b\"]}");
	world_refuses(w, "give 1 to", "{\"verb\":\"list-add\",\"name\":\"ads\",\"entries\":[]}");
	world_refuses(w, "an entry is a string", "{\"verb\":\"list-add\",\"name\":\"ads\",\"entries\":[3]}");
	json_decref(world_get(w, "{\"verb\":\"list-remove\",\"name\":\"ads\",\"entries\":[\"new.example\",\"=one.example\"]}"));
	j = world_get(w, "{\"verb\":\"list\",\"name\":\"ads\"}");
	assert_int_equal(json_array_size(at(j, "added")), 0);
	json_decref(j);
}

static void reload_says_the_outcome(void **ctx)
{
	struct world *w = *ctx;
	json_t *j = world_get(w, "{\"verb\":\"list-reload\",\"name\":\"vpn\"}");
	assert_string_equal(w->reloaded, "vpn");
	assert_false(w->accepted);
	json_decref(j);
	json_decref(world_get(w, "{\"verb\":\"list-reload\",\"name\":\"vpn\",\"accept\":true}"));
	assert_true(w->accepted);
	w->reload_result = NW_EHELD;
	w->reload_said = "list vpn: it would shrink by 90 %";
	world_refuses(w, "shrink by 90 %", "{\"verb\":\"list-reload\",\"name\":\"vpn\"}");
	w->reload_said = NULL;
	world_refuses(w, nw_strerror(NW_EHELD), "{\"verb\":\"list-reload\",\"name\":\"vpn\"}");
	w->reloaded[0] = 0;
	world_refuses(w, "there is no list", "{\"verb\":\"list-reload\",\"name\":\"nolist\"}");
	assert_string_equal(w->reloaded, "");
}

static void a_difference_changes_nothing(void **ctx)
{
	struct world *w = *ctx;
	json_t *j = world_get(w, "{\"verb\":\"list-diff\",\"name\":\"vpn\",\"text\":\"vpn.example\\nnew.example\\n=exact."
	                         "example\\nboth.example\\n203.0.113.0/24\\n\"}");
	assert_int_equal(json_integer_value(at(j, "added")), 1);
	assert_int_equal(json_integer_value(at(j, "removed")), 0);
	assert_string_equal(json_string_value(at(j, "added_entries.0")), "new.example");
	json_decref(j);
	j = world_get(w, "{\"verb\":\"list\",\"name\":\"vpn\"}");
	assert_int_equal(json_integer_value(at(j, "names")), 3);
	json_decref(j);
	world_refuses(w, "lacks the file's text", "{\"verb\":\"list-diff\",\"name\":\"vpn\"}");
	world_refuses(w, "there is no list", "{\"verb\":\"list-diff\",\"name\":\"nolist\",\"text\":\"\"}");
}

static void rules_with_the_kernels_side(void **ctx)
{
	struct world *w = *ctx;
	json_t *j = world_get(w, "{\"verb\":\"rules\"}");
	assert_int_equal(json_array_size(at(j, "filter")), 3);
	assert_int_equal(json_array_size(at(j, "steer")), 5);
	assert_string_equal(text_at(j, "filter.1.action"), "nxdomain");
	assert_string_equal(text_at(j, "filter.1.place"), "t.yaml:19:5");
	assert_true(json_is_false(at(j, "steer.0.enabled")));
	assert_string_equal(text_at(j, "steer.1.way"), "tunnel1");
	assert_int_equal(json_integer_value(at(j, "steer.1.packets")), 11);
	assert_null(at(j, "steer.2.packets"));
	assert_int_equal(json_array_size(at(j, "steer.1.sets")), 4);
	assert_int_equal(json_array_size(at(j, "steer.4.sets")), 0);
	assert_int_equal(json_integer_value(at(j, "steer.3.gid")), 10000);
	json_decref(j);
	w->state = NULL;
	j = world_get(w, "{\"verb\":\"rules\"}");
	assert_true(json_is_null(at(j, "kernel")));
	assert_null(at(j, "steer.1.packets"));
	json_decref(j);
	w->is_starting = true;
	world_refuses(w, "starting", "{\"verb\":\"rules\"}");
	world_refuses(w, "starting", "{\"verb\":\"ways\"}");
}

static void ways_and_their_state(void **ctx)
{
	struct world *w = *ctx;
	atomic_store(&w->shared.cfg[1].ways_down, 1ull << 1);
	atomic_store(&w->shared.cfg[1].ways_off, 1ull << 2);
	json_t *j = world_get(w, "{\"verb\":\"ways\"}");
	assert_string_equal(text_at(j, "ways.0.now"), "up");
	assert_says(j, "ways.1.now", "SERVFAIL");
	assert_says(j, "ways.2.now", "go by direct");
	assert_string_equal(text_at(j, "ways.1.mark"), "0x2000");
	assert_string_equal(text_at(j, "ways.1.upstream"), "t1dns");
	assert_int_equal(json_integer_value(at(j, "ways.1.table")), 20001);
	json_decref(j);
	/* A page that belongs to another configuration says nothing. */
	atomic_store(&w->shared.cfg[1].serial, 7);
	j = world_get(w, "{\"verb\":\"ways\"}");
	assert_string_equal(text_at(j, "ways.1.now"), "up");
	json_decref(j);
}

static void a_leak_test(void **ctx)
{
	struct world *w = *ctx;
	json_t *j = world_get(w, "{\"verb\":\"test-way\",\"name\":\"tunnel1\"}");
	assert_true(json_is_true(at(j, "ok")));
	assert_string_equal(text_at(j, "checks.2.what"), "closed");
	assert_says(j, "checks.3.said", "table 20001");
	assert_says(j, "checks.4.said", "11 packets");
	json_decref(j);
	j = world_get(w, "{\"verb\":\"test-way\",\"name\":\"tunnel2\"}");
	assert_true(json_is_false(at(j, "ok")));
	assert_says(j, "checks.0.said", "no kill-switch");
	assert_says(j, "checks.3.said", "does not end in `unreachable`");
	json_decref(j);
	world_refuses(w, "there is no way `x`", "{\"verb\":\"test-way\",\"name\":\"x\"}");
	/* Open to unmarked packets: every way leaks. */
	char *missing = strstr(state_text, "\"nameway\",\"missing\":[]");
	memcpy(missing, "\"x\",\"missing\":[\"gone\"]", 22);
	j = world_get(w, "{\"verb\":\"test-way\",\"name\":\"tunnel1\"}");
	assert_true(json_is_false(at(j, "ok")));
	assert_says(j, "checks.2.said", "gone");
	json_decref(j);
	char *stands = strstr(state_text, "\"stands\":true");
	memcpy(stands, "\"stands\":null", 13);
	j = world_get(w, "{\"verb\":\"test-way\",\"name\":\"tunnel1\"}");
	assert_true(json_is_false(at(j, "ok")));
	json_decref(j);
	w->state = NULL;
	world_refuses(w, "enforcer does not answer", "{\"verb\":\"test-way\",\"name\":\"tunnel1\"}");
}

static void the_cache(void **ctx)
{
	struct world *w = *ctx;
	world_cache(w, "www.vpn.example", "cdn.example");
	world_cache(w, "www.other.example", "cdn.example");
	json_t *j = world_get(w, "{\"verb\":\"cache-stats\"}");
	assert_int_equal(json_integer_value(at(j, "entries")), 4);
	json_decref(j);
	j = world_get(w, "{\"verb\":\"cache-flush\",\"name\":\"VPN.example.\"}");
	assert_int_equal(json_integer_value(at(j, "flushed")), 2);
	json_decref(j);
	j = world_get(w, "{\"verb\":\"cache-flush\"}");
	assert_int_equal(json_integer_value(at(j, "flushed")), 2);
	json_decref(j);
	world_refuses(w, "is no name", "{\"verb\":\"cache-flush\",\"name\":\"a..b\"}");
	world_refuses(w, "is no name", "{\"verb\":\"cache-flush\",\"name\":3}");
	world_refuses(w, "`exact` needs", "{\"verb\":\"cache-flush\",\"exact\":true}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(requests_that_are_none, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(changes_need_the_right, set_up, tear_down),
	        cmocka_unit_test(replies_are_one_line),
	        cmocka_unit_test_setup_teardown(status_tells_all, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(lists_are_told_and_edited, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(reload_says_the_outcome, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(a_difference_changes_nothing, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(rules_with_the_kernels_side, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(ways_and_their_state, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(a_leak_test, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(the_cache, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
