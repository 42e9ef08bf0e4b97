/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `log` and `top`, and what `status` and `list` say of counters. */
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

static void ask_some(struct world *w)
{
	world_asked(w, "www.vpn.example", "192.168.8.20", OUTCOME_CACHED, -1);
	world_asked(w, "x.ads.example", "192.168.8.21", OUTCOME_BLOCKED, 1);
	world_asked(w, "xn--strae-oqa.example", "192.168.8.20", OUTCOME_ANSWERED, -1);
	world_asked(w, "www.vpn.example", "192.168.8.20", OUTCOME_CACHED, -1);
}

static size_t count(const json_t *j)
{
	return json_array_size(at(j, "records"));
}

static void the_log_is_told(void **ctx)
{
	struct world *w = *ctx;
	ask_some(w);
	json_t *j = world_get(w, "{\"verb\":\"log\"}");
	assert_true(json_is_true(at(j, "on")));
	assert_int_equal(count(j), 4);
	assert_string_equal(text_at(j, "records.1.name"), "x.ads.example");
	assert_string_equal(text_at(j, "records.1.client"), "192.168.8.21");
	assert_string_equal(text_at(j, "records.1.outcome"), "blocked");
	assert_string_equal(text_at(j, "records.1.rcode"), "NXDOMAIN");
	assert_string_equal(text_at(j, "records.1.filter"), "content filter");
	assert_string_equal(text_at(j, "records.3.name"), "www.vpn.example");
	json_decref(j);
	static const struct {
		const char *request;
		size_t count;
	} asked[] = {{"\"count\":1", 1}, {"\"count\":0", 0}, {"\"name\":\"VPN\"", 2}, {"\"name\":\"stra\\u00dfe\"", 1}, {"\"name\":\"gr\\u00f6\\u00dfe\"", 0},
	        {"\"name\":\"stra\\u00dfe.example\"", 1}, {"\"client\":\"192.168.8.20\"", 3}, {"\"outcome\":\"blocked\"", 1},
	        {"\"outcome\":\"blocked\",\"client\":\"192.168.8.20\"", 0}, {"\"name\":null,\"client\":null,\"cursor\":null", 4}};
	for (unsigned i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		j = world_get(w, "{\"verb\":\"log\",%s}", asked[i].request);
		if (count(j) != asked[i].count)
			fail_msg("%s: %zu", asked[i].request, count(j));
		json_decref(j);
	}
	world_refuses(w, "is no address", "{\"verb\":\"log\",\"client\":\"br-lan\"}");
	world_refuses(w, "is no part of a name", "{\"verb\":\"log\",\"name\":3}");
	world_refuses(w, "there is no outcome `eaten`", "{\"verb\":\"log\",\"outcome\":\"eaten\"}");
	world_refuses(w, "`count` is a number up to 10000", "{\"verb\":\"log\",\"count\":10001}");
	world_refuses(w, "`count` is a number up to 10000", "{\"verb\":\"log\",\"count\":-1}");
}

static void a_cursor_follows(void **ctx)
{
	struct world *w = *ctx;
	ask_some(w);
	json_t *j = world_get(w, "{\"verb\":\"log\",\"count\":1}");
	json_int_t cursor = json_integer_value(at(j, "cursor"));
	assert_true(cursor > 0);
	json_decref(j);
	j = world_get(w, "{\"verb\":\"log\",\"cursor\":%lld}", (long long)cursor);
	assert_int_equal(count(j), 0);
	json_decref(j);
	world_asked(w, "new.example", "192.168.8.20", OUTCOME_ANSWERED, -1);
	j = world_get(w, "{\"verb\":\"log\",\"cursor\":%lld}", (long long)cursor);
	assert_int_equal(count(j), 1);
	assert_string_equal(text_at(j, "records.0.name"), "new.example");
	json_decref(j);
}

static void the_busiest_are_told(void **ctx)
{
	struct world *w = *ctx;
	ask_some(w);
	json_t *j = world_get(w, "{\"verb\":\"top\"}");
	assert_int_equal(json_integer_value(at(j, "hour.queries")), 4);
	assert_string_equal(text_at(j, "hour.names.0.name"), "www.vpn.example");
	assert_int_equal(json_integer_value(at(j, "hour.names.0.count")), 2);
	assert_string_equal(text_at(j, "hour.clients.0.client"), "192.168.8.20");
	assert_int_equal(json_integer_value(at(j, "hour.clients.0.count")), 3);
	assert_string_equal(text_at(j, "hour.blocked.0.name"), "x.ads.example");
	assert_int_equal(json_integer_value(at(j, "start.queries")), 4);
	json_decref(j);
	j = world_get(w, "{\"verb\":\"top\",\"count\":1}");
	assert_int_equal(json_array_size(at(j, "hour.names")), 1);
	json_decref(j);
	world_refuses(w, "`count` is a number up to 1000", "{\"verb\":\"top\",\"count\":\"x\"}");
}

static void status_and_lists_count(void **ctx)
{
	struct world *w = *ctx;
	ask_some(w);
	json_decref(world_get(w, "{\"verb\":\"log\"}"));
	json_t *j = world_get(w, "{\"verb\":\"status\"}");
	assert_true(json_is_true(at(j, "query_log.on")));
	assert_int_equal(json_integer_value(at(j, "query_log.records")), 4);
	assert_int_equal(json_integer_value(at(j, "query_log.lost")), 0);
	assert_true(json_integer_value(at(j, "query_log.bytes")) > 100);
	assert_true(json_is_null(at(j, "filter.all")));
	json_decref(j);
	j = world_get(w, "{\"verb\":\"list\"}");
	assert_true(json_is_integer(at(j, "lists.1.hits")));
	json_decref(j);
	j = world_get(w, "{\"verb\":\"list\",\"name\":\"ads\"}");
	assert_true(json_is_integer(at(j, "hits")));
	json_decref(j);
	/* Before it serves nothing is known of the configuration; without a log it is said. */
	w->is_starting = true;
	j = world_get(w, "{\"verb\":\"log\"}");
	assert_true(json_is_false(at(j, "on")));
	json_decref(j);
	struct query_log *l = w->env.queries;
	w->env.queries = NULL;
	world_refuses(w, "there is no query log", "{\"verb\":\"log\"}");
	world_refuses(w, "there is no query log", "{\"verb\":\"top\"}");
	w->env.queries = l;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(the_log_is_told, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(a_cursor_follows, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(the_busiest_are_told, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(status_and_lists_count, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
