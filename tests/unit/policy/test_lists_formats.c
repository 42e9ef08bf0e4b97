/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Lists in formats other than plain names: several entries a line, `match:`, the format of each file, allows, rules beside names,
 * and what users have reported of such lists elsewhere. */
#include "lists_world.h"
#include <jansson.h>

static void test_hosts_list(void **state)
{
	struct world w;

	world_open(&w, 1, false);
	/* CRLF, tabs, several names, comments behind them; more names than lines. */
	assert_int_equal(offer(&w, 0,
	                         "# hosts\r\n127.0.0.1\tlocalhost\r\n::1 localhost\r\nfe80::1%lo0 localhost\r\n"
	                         "255.255.255.255 broadcasthost\r\n0.0.0.0 0.0.0.0\r\n"
	                         "0.0.0.0\ta.example b.example\tc.example # why\r\n0.0.0.0 d.example\r\n",
	                         false),
	        0);
	assert_int_equal(w.report.warnings, 0);
	assert_true(listed(&w, 0, "a.example") && listed(&w, 0, "b.example") && listed(&w, 0, "c.example") && listed(&w, 0, "d.example"));
	assert_false(listed(&w, 0, "localhost") || listed(&w, 0, "broadcasthost") || listed(&w, 0, "www.a.example") ||
	             listed_address(&w, 0, "0.0.0.0"));
	assert_int_equal(w.last.added_count, 4);
	/* One name of a line goes, another comes: the others stay. */
	assert_int_equal(offer(&w, 0, "0.0.0.0\ta.example x.example\tc.example # why\n0.0.0.0 d.example\n", false), 0);
	assert_int_equal(w.last.added_count, 1);
	assert_int_equal(w.last.removed_count, 1);
	assert_true(listed(&w, 0, "x.example") && listed(&w, 0, "c.example") && !listed(&w, 0, "b.example"));
	world_close(&w);
}

/* Many more names than lines, so that room guessed by lines would not do. */
static void test_many_names_a_line(void **state)
{
	struct world w;
	struct buf b;

	world_open(&w, 1, false);
	buf_init(&b, 8 << 20);
	for (unsigned i = 0; i < 6000; i++) {
		buf_printf(&b, "0.0.0.0");
		for (unsigned n = 0; n < 20; n++)
			buf_printf(&b, " n%u-%u.example", i, n);
		buf_printf(&b, "\n");
	}
	assert_int_equal(offer(&w, 0, b.bytes, false), 0);
	assert_true(listed(&w, 0, "n0-0.example") && listed(&w, 0, "n5999-19.example"));
	assert_int_equal(index_count(lists_index(w.l), w.slots[0]), 120000);
	buf_free(&b);
	world_close(&w);
}

static void test_partly_understood(void **state)
{
	struct buf out;
	struct world w;
	json_t *j, *text, *bad;

	world_open(&w, 1, false);
	assert_int_equal(offer(&w, 0, "0.0.0.0 a.example http://x/ b.example\n0.0.0.0 6\xc3\x97"
	                               "66.example\n0.0.0.0 c.example\n",
	                         false),
	        0);
	assert_true(listed(&w, 0, "a.example") && listed(&w, 0, "b.example") && listed(&w, 0, "c.example"));
	assert_non_null(strstr(w.report.text.bytes, "/lists/l0:1:1: warning: not understood"));
	assert_non_null(strstr(w.report.text.bytes, "/lists/l0:2:1: warning: not understood"));
	buf_init(&out, 1 << 20);
	assert_int_equal(lists_print_json(w.l, 0, &out), 0);
	j = json_loads(out.bytes, 0, NULL);
	assert_string_equal(json_string_value(json_object_get(j, "format")), "hosts");
	text = json_object_get(j, "text");
	assert_int_equal(json_integer_value(json_object_get(text, "bad")), 1);
	assert_int_equal(json_integer_value(json_object_get(text, "entries")), 3);
	bad = json_object_get(text, "bad_lines");
	assert_int_equal(json_array_size(bad), 2);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(bad, 0), "line")), 1);
	json_decref(j);
	buf_free(&out);
	world_close(&w);
}

/* A list of which more than half is not understood is refused loudly, and the old one stays. */
static void test_mostly_bad(void **state)
{
	struct world w;

	world_open(&w, 1, false);
	w.lists[0].format = FORMAT_HOSTS;
	replan(&w);
	assert_int_equal(offer(&w, 0, "0.0.0.0 a.example\n0.0.0.0 b.example\n", false), 0);
	assert_int_equal(offer(&w, 0, "0.0.0.0 a.example\n0.0.0.0 b.example\nc.example\nd.example\ne.example\n", false), NW_EHELD);
	assert_non_null(strstr(w.list_alarm, "3 of 5 lines are not understood"));
	assert_true(listed(&w, 0, "a.example"));
	world_close(&w);
}

static void test_match(void **state)
{
	struct world w;

	world_open(&w, 2, false);
	w.lists[0].match = MATCH_SUFFIX;
	w.lists[1].match = MATCH_EXACT;
	replan(&w);
	assert_int_equal(offer(&w, 0, "0.0.0.0 a.example\n", false), 0);
	assert_true(listed(&w, 0, "a.example") && listed(&w, 0, "www.a.example"));
	assert_int_equal(offer(&w, 1, "a.example\n*.b.example\n", false), 0);
	assert_true(listed(&w, 1, "a.example") && !listed(&w, 1, "www.a.example"));
	assert_true(listed(&w, 1, "b.example") && listed(&w, 1, "www.b.example"));
	/* An edit reads as the list's lines do. */
	assert_int_equal(edit(&w, 1, false, "a.example"), 0);
	assert_false(listed(&w, 1, "a.example"));
	assert_int_equal(edit(&w, 1, true, "c.example"), 0);
	assert_true(listed(&w, 1, "c.example") && !listed(&w, 1, "www.c.example"));
	/* Another match is another list. */
	w.lists[1].match = MATCH_SUFFIX;
	replan(&w);
	assert_false(lists_has_text(w.l, 1));
	world_close(&w);
}

static int offer_files(struct world *w, const char *const *texts, unsigned count)
{
	static const char *const paths[] = {"/one", "/two", "/three"};
	struct list_file f[3];

	for (unsigned i = 0; i < count; i++)
		f[i] = memory_file(texts[i], strlen(texts[i]), paths[i]);
	report_free(&w->report);
	report_init(&w->report);
	return lists_offer(w->l, 0, f, count, false, &w->report);
}

/* Files of one list in different formats; a file that changes its format; a restart between. */
static void test_format_of_each_file(void **state)
{
	const char *first[] = {"0.0.0.0 hosts.example\n", "address=/dnsmasq.example/\n", "plain.example\n"};
	const char *second[] = {"0.0.0.0 hosts.example\n0.0.0.0 more.example\n", "address=/dnsmasq.example/\n", "=plain.example\n"};
	/* The same bytes mean nothing else only because the file is of another format now. */
	const char *third[] = {"hosts.example\n", "address=/dnsmasq.example/\naddress=/x.example/\n", "=plain.example\n"};
	struct world w;

	world_open(&w, 1, true);
	assert_int_equal(offer_files(&w, first, 3), 0);
	assert_true(listed(&w, 0, "hosts.example") && !listed(&w, 0, "www.hosts.example"));
	assert_true(listed(&w, 0, "www.dnsmasq.example") && listed(&w, 0, "www.plain.example"));
	world_restart(&w);
	assert_true(w.restored[0]);
	assert_int_equal(offer_files(&w, second, 3), 0);
	assert_int_equal(w.last.added_count, 2);
	assert_int_equal(w.last.removed_count, 1);
	assert_true(listed(&w, 0, "more.example") && listed(&w, 0, "plain.example") && !listed(&w, 0, "www.plain.example"));
	assert_int_equal(lists_save(w.l), 0);
	world_restart(&w);
	assert_int_equal(offer_files(&w, third, 3), 0);
	assert_true(listed(&w, 0, "hosts.example") && listed(&w, 0, "www.hosts.example") && !listed(&w, 0, "more.example"));
	assert_true(listed(&w, 0, "dnsmasq.example") && listed(&w, 0, "x.example"));
	world_close(&w);
}

static void test_dnsmasq_list(void **state)
{
	struct buf file;
	struct world w;
	unsigned line;

	world_open(&w, 1, true);
	assert_int_equal(offer(&w, 0,
	                         "\xef\xbb\xbfport=53\nserver=8.8.8.8\nserver=/a.example/b.example/1.2.3.4\nserver=/ok.a.example/#\n"
	                         "server=/*wild.example/1.2.3.4\n",
	                         false),
	        0);
	assert_int_equal(w.report.warnings, 0);
	assert_true(listed(&w, 0, "www.a.example") && listed(&w, 0, "b.example") && !listed(&w, 0, "www.ok.a.example"));
	assert_int_equal(rule_count(&w, 0), 1);
	assert_true(w.last.are_rules_changed && w.last.is_whole && !w.last.are_prefixes_changed && w.swapped > 0);
	buf_init(&file, 4096);
	assert_int_equal(find_place(list_place_of_rule(w.l, w.slots[0], "*wild.example^"), 1 << 20, &file, &line), 0);
	assert_int_equal(line, 5);
	assert_int_equal(find_place(list_place_of_rule(w.l, w.slots[0], "*other.example^"), 1 << 20, &file, &line), -ENOENT);
	buf_free(&file);
	/* Names alone do not make the rules anew. */
	assert_int_equal(offer(&w, 0, "server=/a.example/c.example/1.2.3.4\nserver=/*wild.example/1.2.3.4\n", false), 0);
	assert_true(!w.last.are_rules_changed && !w.last.is_whole && listed(&w, 0, "c.example") && !listed(&w, 0, "b.example"));
	/* Through image and journal, and from the text alone. */
	world_restart(&w);
	assert_int_equal(rule_count(&w, 0), 1);
	assert_int_equal(lists_save(w.l), 0);
	world_restart(&w);
	assert_true(w.restored[0] && listed(&w, 0, "c.example"));
	assert_int_equal(rule_count(&w, 0), 1);
	assert_int_equal(offer(&w, 0, "server=/a.example/1.2.3.4\nserver=/*wild.example/*x.example/1.2.3.4\n", false), 0);
	assert_int_equal(rule_count(&w, 0), 2);
	assert_int_equal(offer(&w, 0, "server=/a.example/1.2.3.4\nserver=/c.example/1.2.3.4\n", false), 0);
	assert_int_equal(rule_count(&w, 0), 0);
	assert_true(w.last.are_rules_changed);
	world_restart(&w);
	assert_int_equal(rule_count(&w, 0), 0);
	world_close(&w);
}

/* An update that the kernel refuses leaves the rules as they were. */
static void test_rules_refused(void **state)
{
	const struct exprs *before;
	struct world w;

	world_open(&w, 1, false);
	assert_int_equal(offer(&w, 0, "server=/*wild.example/a.example/1.2.3.4\n", false), 0);
	before = lists_exprs(w.l, 0);
	assert_non_null(before);
	w.refuse = -EBUSY;
	assert_int_equal(offer(&w, 0, "server=/*x.example/a.example/1.2.3.4\n", false), -EBUSY);
	assert_ptr_equal(lists_exprs(w.l, 0), before);
	w.refuse = 0;
	assert_int_equal(offer(&w, 0, "server=/*x.example/a.example/1.2.3.4\n", false), 0);
	assert_true(w.last.are_rules_changed);
	world_close(&w);
}

static void assert_allow_line(struct world *w, const char *text, int expected, unsigned line)
{
	struct buf file;
	struct name n;
	unsigned got;

	buf_init(&file, 4096);
	assert_int_equal(name_from_text(&n, text, strlen(text)), 0);
	assert_int_equal(find_place(list_place_of_name(w->l, w->slots[0], &n, KIND_ALLOW), 1 << 20, &file, &got), expected);
	assert_int_equal(got, line);
	buf_free(&file);
}

static void test_allows_and_edits(void **state)
{
	const char *rule = "||c.example^$client=192.0.2.7";
	struct world w;

	world_open(&w, 2, true);
	assert_int_equal(offer(&w, 0, "||a.example^\n||b.example^\n@@||ok.a.example^\n", false), 0);
	assert_true(listed(&w, 0, "www.a.example") && allowed(&w, 0, "deep.ok.a.example") && !allowed(&w, 0, "a.example"));
	assert_allow_line(&w, "ok.a.example", 0, 3);
	/* Live: allows and rules, where the list has such. */
	assert_int_equal(edit(&w, 0, true, "@@||b.example^"), 0);
	assert_true(allowed(&w, 0, "x.b.example") && w.last.is_admin_edit && w.last.removed_count == 1);
	assert_allow_line(&w, "b.example", -ENOENT, 0);
	assert_int_equal(edit(&w, 0, false, "@@||ok.a.example^"), 0);
	assert_false(allowed(&w, 0, "ok.a.example"));
	assert_allow_line(&w, "ok.a.example", -ENOENT, 0);
	assert_int_equal(edit(&w, 0, true, rule), 0);
	assert_int_equal(rule_count(&w, 0), 1);
	assert_true(w.last.are_rules_changed && w.last.is_whole);
	assert_int_equal(edit(&w, 0, true, rule), 0);
	assert_int_equal(edit(&w, 0, true, "||d.example^"), 0);
	assert_true(listed(&w, 0, "d.example"));
	/* All of it outlives a restart. */
	world_restart(&w);
	assert_true(allowed(&w, 0, "x.b.example") && !allowed(&w, 0, "ok.a.example") && listed(&w, 0, "d.example"));
	assert_int_equal(rule_count(&w, 0), 1);
	/* And is taken back. */
	assert_int_equal(edit(&w, 0, false, "@@||b.example^"), 0);
	assert_int_equal(edit(&w, 0, true, "@@||ok.a.example^"), 0);
	assert_int_equal(edit(&w, 0, false, rule), 0);
	assert_int_equal(edit(&w, 0, false, rule), -ENOENT);
	assert_non_null(strstr(w.report.text.bytes, rule));
	assert_true(!allowed(&w, 0, "b.example") && allowed(&w, 0, "ok.a.example"));
	assert_int_equal(rule_count(&w, 0), 0);
	/* A rule of the text is masked, and comes back. */
	assert_int_equal(offer(&w, 0, "||a.example^\n||b.example^\n||c.example^$client=192.0.2.7\n", false), 0);
	assert_int_equal(rule_count(&w, 0), 1);
	assert_int_equal(edit(&w, 0, false, rule), 0);
	assert_int_equal(rule_count(&w, 0), 0);
	assert_int_equal(offer(&w, 0, "||a.example^\n||e.example^\n||c.example^$client=192.0.2.7\n", false), 0);
	assert_int_equal(rule_count(&w, 0), 0);
	world_restart(&w);
	assert_int_equal(rule_count(&w, 0), 0);
	assert_int_equal(edit(&w, 0, true, rule), 0);
	assert_int_equal(rule_count(&w, 0), 1);
	/* A plain list takes no such rules. */
	assert_int_equal(offer(&w, 1, "a.example\n", false), 0);
	assert_int_equal(edit(&w, 1, true, "@@||a.example^"), NW_EMALFORMED);
	world_close(&w);
}

static void numbered(struct buf *b, const char *family, unsigned count)
{
	buf_free(b);
	for (unsigned i = 0; i < count; i++)
		buf_printf(b, "%s-%u.example\n", family, i);
}

/* An exception put into a large list is one change in place: no copy, nothing judged anew, nothing that readers could wait for. */
static void test_allow_in_a_large_list(void **state)
{
	const struct index *ix;
	uint64_t generation;
	struct world w;
	struct buf b;

	world_open(&w, 1, false);
	buf_init(&b, 32 << 20);
	numbered(&b, "name", 300000);
	assert_int_equal(offer(&w, 0, b.bytes, false), 0);
	ix = lists_index(w.l);
	generation = index_generation(ix);
	w.swapped = 0;
	assert_int_equal(edit(&w, 0, true, "!www.name-7.example"), 0);
	assert_ptr_equal(lists_index(w.l), ix);
	assert_int_equal(index_generation(ix), generation + 1);
	assert_int_equal(w.swapped, 0);
	assert_true(!w.last.is_whole && w.last.removed_count == 1 && w.last.added_count == 0);
	assert_true(!listed(&w, 0, "www.name-7.example") && listed(&w, 0, "name-7.example"));
	buf_free(&b);
	world_close(&w);
}

/* A change of every name is made beside, and leaves nothing of the old behind. */
static void test_all_changed(void **state)
{
	struct index_stat before, after;
	struct world w;
	struct buf b;

	world_open(&w, 2, true);
	buf_init(&b, 32 << 20);
	assert_int_equal(offer(&w, 1, "other.example\nname-7.example\n", false), 0);
	numbered(&b, "name", 100000);
	assert_int_equal(offer(&w, 0, b.bytes, false), 0);
	index_stat(lists_index(w.l), &before);
	assert_int_equal(edit(&w, 0, true, "edit.example"), 0);
	w.swapped = 0;
	numbered(&b, "eman", 100000);
	assert_int_equal(offer(&w, 0, b.bytes, false), 0);
	index_stat(lists_index(w.l), &after);
	assert_true(w.swapped == 1 && w.last.is_whole && !w.last.added_count && !w.last.removed_count);
	assert_true(after.memory_bytes < before.memory_bytes + before.memory_bytes / 20 && after.dead_bytes == 0);
	assert_true(listed(&w, 0, "eman-0.example") && listed(&w, 0, "eman-99999.example") && listed(&w, 0, "edit.example"));
	assert_false(listed(&w, 0, "name-0.example") || listed(&w, 0, "name-7.example"));
	assert_true(listed(&w, 1, "other.example") && listed(&w, 1, "name-7.example"));
	world_restart(&w);
	assert_true(listed(&w, 0, "eman-0.example") && listed(&w, 0, "edit.example") && listed(&w, 1, "name-7.example"));
	buf_free(&b);
	world_close(&w);
}

/* A list that grew over night past its limit is refused, and the old one stays. */
static void test_limit(void **state)
{
	struct world w;
	struct buf b;

	world_open(&w, 1, false);
	w.lists[0].names_max = 1000;
	replan(&w);
	buf_init(&b, 1 << 20);
	numbered(&b, "name", 1000);
	assert_int_equal(offer(&w, 0, b.bytes, false), 0);
	numbered(&b, "more", 1001);
	assert_int_equal(offer(&w, 0, b.bytes, true), NW_EFULL);
	assert_non_null(strstr(w.report.text.bytes, "1001 entries, its limit is 1000"));
	assert_non_null(strstr(w.list_alarm, "what was in force stays"));
	assert_true(listed(&w, 0, "name-999.example") && !listed(&w, 0, "more-0.example"));
	numbered(&b, "more", 900);
	assert_int_equal(offer(&w, 0, b.bytes, false), 0);
	assert_string_equal(w.list_alarm, "");
	buf_free(&b);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_hosts_list), cmocka_unit_test(test_many_names_a_line),
	        cmocka_unit_test(test_partly_understood), cmocka_unit_test(test_mostly_bad), cmocka_unit_test(test_match),
	        cmocka_unit_test(test_format_of_each_file), cmocka_unit_test(test_dnsmasq_list), cmocka_unit_test(test_rules_refused),
	        cmocka_unit_test(test_allows_and_edits), cmocka_unit_test(test_allow_in_a_large_list),
	        cmocka_unit_test(test_all_changed), cmocka_unit_test(test_limit)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
