/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Pauses of filter rules: what the verbs write into the workers' page, and what becomes of it when the configuration changes. */
#include "world.h"
#include "base/clock.h"

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

static uint32_t now_s(void)
{
	return (uint32_t)(clock_ms() / 1000);
}

/* What a worker reads; the second may have changed meanwhile. */
static void assert_until(const _Atomic uint32_t *until, uint32_t left_s)
{
	uint32_t u = atomic_load(until), now = now_s();
	if (!left_s)
		assert_true(u <= now);
	else
		assert_in_range(u, now + left_s - 5, now + left_s);
}

static void all_rules_are_paused(void **ctx)
{
	struct world *w = *ctx;
	struct filter_pause *page = pauses_page(w->env.pauses);
	json_t *j = world_get(w, "{\"verb\":\"filter\"}");
	assert_true(json_is_null(at(j, "all")));
	assert_int_equal(json_array_size(at(j, "rules")), 0);
	json_decref(j);
	j = world_get(w, "{\"verb\":\"filter-off\",\"duration_s\":600}");
	assert_in_range(json_integer_value(at(j, "all.left_s")), 595, 600);
	assert_in_range(json_integer_value(at(j, "all.until")), clock_wall_s() + 595, clock_wall_s() + 600);
	json_decref(j);
	assert_until(&page->all_until_s, 600);
	assert_until(&page->rule_until_s[1], 0);
	j = world_get(w, "{\"verb\":\"rules\"}");
	assert_in_range(json_integer_value(at(j, "filter.0.paused_s")), 595, 600);
	json_decref(j);
	j = world_get(w, "{\"verb\":\"status\"}");
	assert_in_range(json_integer_value(at(j, "filter.all.left_s")), 595, 600);
	json_decref(j);
	world_refuses(w, "`nameway filter on` ends all", "{\"verb\":\"filter-on\",\"rule\":\"content filter\"}");
	j = world_get(w, "{\"verb\":\"filter-on\"}");
	assert_true(json_is_null(at(j, "all")));
	json_decref(j);
	assert_until(&page->all_until_s, 0);
}

static void one_rule_is_paused(void **ctx)
{
	struct world *w = *ctx;
	struct filter_pause *page = pauses_page(w->env.pauses);
	json_t *j = world_get(w, "{\"verb\":\"filter-off\",\"duration_s\":60,\"rule\":\"content filter\"}");
	assert_true(json_is_null(at(j, "all")));
	assert_int_equal(json_array_size(at(j, "rules")), 1);
	assert_int_equal(json_integer_value(at(j, "rules.0.rule")), 2);
	assert_string_equal(text_at(j, "rules.0.name"), "content filter");
	json_decref(j);
	assert_until(&page->rule_until_s[1], 60);
	assert_until(&page->rule_until_s[0], 0);
	assert_until(&page->all_until_s, 0);
	j = world_get(w, "{\"verb\":\"rules\"}");
	assert_null(at(j, "filter.0.paused_s"));
	assert_in_range(json_integer_value(at(j, "filter.1.paused_s")), 55, 60);
	json_decref(j);
	/* By its number; the later word counts. */
	json_decref(world_get(w, "{\"verb\":\"filter-off\",\"duration_s\":86400,\"rule\":\"2\"}"));
	assert_until(&page->rule_until_s[1], 86400);
	j = world_get(w, "{\"verb\":\"filter-on\",\"rule\":\"content filter\"}");
	assert_int_equal(json_array_size(at(j, "rules")), 0);
	json_decref(j);
	assert_until(&page->rule_until_s[1], 0);
	/* `filter on` ends the rules' too. */
	json_decref(world_get(w, "{\"verb\":\"filter-off\",\"duration_s\":60,\"rule\":\"3\"}"));
	json_decref(world_get(w, "{\"verb\":\"filter-on\"}"));
	assert_until(&page->rule_until_s[2], 0);
}

static void explain_tells_of_a_pause(void **ctx)
{
	struct world *w = *ctx;
	json_decref(world_get(w, "{\"verb\":\"filter-off\",\"duration_s\":60,\"rule\":\"mine first\"}"));
	json_t *j = world_get(w, "{\"verb\":\"explain\",\"name\":\"x.ads.example\"}");
	assert_says(j, "lost.0.why", "it is paused");
	json_decref(j);
}

static void what_is_no_pause_is_refused(void **ctx)
{
	struct world *w = *ctx;
	world_refuses(w, "1 second to 7 days", "{\"verb\":\"filter-off\"}");
	world_refuses(w, "1 second to 7 days", "{\"verb\":\"filter-off\",\"duration_s\":0}");
	world_refuses(w, "1 second to 7 days", "{\"verb\":\"filter-off\",\"duration_s\":604801}");
	world_refuses(w, "1 second to 7 days", "{\"verb\":\"filter-off\",\"duration_s\":\"5m\"}");
	world_refuses(w, "there is no filter rule `x`", "{\"verb\":\"filter-off\",\"duration_s\":5,\"rule\":\"x\"}");
	world_refuses(w, "there is no filter rule `4`", "{\"verb\":\"filter-off\",\"duration_s\":5,\"rule\":\"4\"}");
	world_refuses(w, "there is no filter rule `0`", "{\"verb\":\"filter-off\",\"duration_s\":5,\"rule\":\"0\"}");
	world_refuses(w, "a string", "{\"verb\":\"filter-off\",\"duration_s\":5,\"rule\":2}");
	world_refuses(w, "there is no filter rule", "{\"verb\":\"filter-on\",\"rule\":\"x\"}");
	assert_until(&pauses_page(w->env.pauses)->all_until_s, 0);
	w->is_starting = true;
	world_refuses(w, "starting", "{\"verb\":\"filter\"}");
	world_refuses(w, "starting", "{\"verb\":\"filter-off\",\"duration_s\":5}");
}

/* --- configurations that change --- */

/* Only what a pause looks at. */
static struct config rules(struct cfg_filter *room, const char *const *names, unsigned count)
{
	memset(room, 0, count * sizeof(*room));
	for (unsigned i = 0; i < count; i++)
		room[i].name = names[i];
	return (struct config){.filters = room, .filter_count = count};
}

static void a_pause_goes_with_its_name(void **ctx)
{
	struct cfg_filter a[3], b[4];
	(void)ctx;
	struct config old = rules(a, (const char *const[]){"first", "second", "third"}, 3),
	              new = rules(b, (const char *const[]){"new", "first", "third", "fourth"}, 4);
	struct pauses *p = pauses_new();
	struct filter_pause *page = pauses_page(p);
	pauses_after_switch(p, &old);
	assert_int_equal(pauses_set(p, &old, 0, 1000, 100), 0);
	assert_int_equal(pauses_set(p, &old, 1, 2000, 100), 0);
	assert_int_equal(pauses_set(p, &old, 2, 3000, 100), 0);
	assert_int_equal(pauses_set(p, &old, PAUSE_ALL, 500, 100), 0);
	/* Workers change over one by one: neither those before nor those after may pass over another rule. */
	pauses_before_switch(p, &new);
	assert_int_equal(atomic_load(&page->rule_until_s[0]), 0);
	assert_int_equal(atomic_load(&page->rule_until_s[1]), 0);
	assert_int_equal(atomic_load(&page->rule_until_s[2]), 3000);
	assert_int_equal(atomic_load(&page->all_until_s), 500);
	/* A verb comes in between, by the old numbers. */
	assert_int_equal(pauses_set(p, &old, 0, 1500, 100), 0);
	assert_int_equal(atomic_load(&page->rule_until_s[0]), 0);
	pauses_after_switch(p, &new);
	assert_int_equal(atomic_load(&page->rule_until_s[0]), 0);
	assert_int_equal(atomic_load(&page->rule_until_s[1]), 1500);
	assert_int_equal(atomic_load(&page->rule_until_s[2]), 3000);
	assert_int_equal(atomic_load(&page->rule_until_s[3]), 0);
	assert_int_equal(pauses_left(p, &new, 1, 600), 900);
	assert_int_equal(pauses_left(p, &new, 1, 1500), 0);
	assert_int_equal(pauses_left(p, &new, PAUSE_ALL, 499), 1);
	/* One that went comes back. */
	pauses_before_switch(p, &old);
	pauses_after_switch(p, &old);
	assert_int_equal(atomic_load(&page->rule_until_s[1]), 2000);
	pauses_free(p);
}

static void a_name_that_was_given_is_not_enough(void **ctx)
{
	struct cfg_filter a[2], b[2];
	(void)ctx;
	/* A rule without a name is removed: its neighbour takes its number, and with it the name it is given. */
	struct config old = rules(a, (const char *const[]){"rule 1", "rule 2"}, 2), new = rules(b, (const char *const[]){"rule 1"}, 1);
	struct pauses *p = pauses_new();
	struct filter_pause *page = pauses_page(p);
	a[0].block = BLOCK_NXDOMAIN;
	a[1].block = b[0].block = BLOCK_REFUSE;
	pauses_after_switch(p, &old);
	assert_int_equal(pauses_set(p, &old, 0, 1000, 100), 0);
	pauses_before_switch(p, &new);
	assert_int_equal(atomic_load(&page->rule_until_s[0]), 0);
	pauses_after_switch(p, &new);
	assert_int_equal(atomic_load(&page->rule_until_s[0]), 0);
	/* The same rule is: a reload of the same text keeps the pause. */
	pauses_before_switch(p, &old);
	pauses_after_switch(p, &old);
	assert_int_equal(atomic_load(&page->rule_until_s[0]), 1000);
	pauses_before_switch(p, &old);
	assert_int_equal(atomic_load(&page->rule_until_s[0]), 1000);
	pauses_free(p);
}

static void pauses_are_bounded(void **ctx)
{
	static struct cfg_filter rule[1];
	static char name[32];
	(void)ctx;
	struct config c = rules(rule, (const char *const[]){name}, 1);
	struct pauses *p = pauses_new();
	int r = 0;
	unsigned i = 0;
	for (; r == 0 && i < 2000; i++) {
		snprintf(name, sizeof(name), "name %u", i);
		r = pauses_set(p, &c, 0, 1000, 100);
	}
	assert_int_equal(i, CONFIG_RULES_MAX + 1);
	/* What has ended makes room. */
	assert_int_equal(pauses_set(p, &c, 0, 2000, 1000), 0);
	pauses_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(all_rules_are_paused, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(one_rule_is_paused, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(explain_tells_of_a_pause, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(what_is_no_pause_is_refused, set_up, tear_down),
	        cmocka_unit_test(a_pause_goes_with_its_name),
	        cmocka_unit_test(a_name_that_was_given_is_not_enough),
	        cmocka_unit_test(pauses_are_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
