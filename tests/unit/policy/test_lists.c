/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The list manager: updates, what is held, edits, plans, messages, and memory. The state directory has its own tests
 * (test_lists_state.c). */
#include "lists_world.h"
#include <jansson.h>

static void test_first_and_update(void **state)
{
	struct world w;

	world_open(&w, 2, false);
	assert_true(strstr(w.state_alarm, "memory only"));
	assert_false(lists_has_text(w.l, 0));
	assert_int_equal(offer(&w, 0,
	                         "\xef\xbb\xbf"
	                         "a.example\r\n# x\r\n=b.example\r\n!x.a.example\r\n192.0.2.0/24\r\n!192.0.2.7",
	                         false),
	        0);
	assert_true(lists_has_text(w.l, 0));
	assert_true(listed(&w, 0, "a.example") && listed(&w, 0, "www.a.example") && listed(&w, 0, "b.example"));
	assert_false(listed(&w, 0, "www.b.example") || listed(&w, 0, "x.a.example") || listed(&w, 0, "y.x.a.example") ||
	             listed(&w, 1, "a.example"));
	assert_true(listed_address(&w, 0, "192.0.2.1"));
	assert_false(listed_address(&w, 0, "192.0.2.7") || listed_address(&w, 1, "192.0.2.1"));
	assert_int_equal(w.last.list, 0);
	assert_int_equal(w.last.added_count, 2);
	assert_int_equal(w.last.removed_count, 1);
	assert_true(w.last.are_prefixes_changed && !w.last.is_whole && !w.last.is_admin_edit);
	assert_int_equal(w.before, 1);
	assert_int_equal(w.after, 1);
	assert_true(w.swapped >= 1);
	/* The same again is nothing. */
	assert_int_equal(
	        offer(&w, 0, "a.example\r\n# x\r\n=b.example\r\n!x.a.example\r\n192.0.2.0/24\r\n!192.0.2.7\n", false), 0);
	assert_int_equal(w.before, 1);
	assert_int_equal(offer(&w, 0, "c.example\n=b.example\n192.0.2.0/24\n", false), 0);
	assert_true(listed(&w, 0, "c.example") && listed(&w, 0, "b.example") && listed_address(&w, 0, "192.0.2.7"));
	assert_false(listed(&w, 0, "a.example") || listed(&w, 0, "x.a.example"));
	assert_int_equal(w.last.added_count, 2);
	assert_int_equal(w.last.removed_count, 1);
	world_close(&w);
}

static void test_refused_by_hook(void **state)
{
	struct world w;

	world_open(&w, 1, false);
	assert_int_equal(offer(&w, 0, "a.example\n192.0.2.1\n", false), 0);
	w.refuse = -EBUSY;
	assert_int_equal(offer(&w, 0, "b.example\n192.0.2.2\n", false), -EBUSY);
	assert_true(w.report.errors && strstr(w.list_alarm, "l0"));
	assert_true(listed(&w, 0, "a.example") && listed_address(&w, 0, "192.0.2.1"));
	assert_false(listed(&w, 0, "b.example") || listed_address(&w, 0, "192.0.2.2"));
	assert_int_equal(edit(&w, 0, true, "c.example"), -EBUSY);
	assert_false(listed(&w, 0, "c.example"));
	w.refuse = 0;
	assert_int_equal(offer(&w, 0, "b.example\n192.0.2.2\n", false), 0);
	assert_true(listed(&w, 0, "b.example") && listed_address(&w, 0, "192.0.2.2"));
	assert_false(listed(&w, 0, "a.example") || listed(&w, 0, "c.example"));
	assert_string_equal(w.list_alarm, "");
	world_close(&w);
}

static void test_duplicates(void **state)
{
	struct world w;

	world_open(&w, 1, false);
	assert_int_equal(offer(&w, 0, "a.example\n*.A.example\nb.example\n192.0.2.1\n192.0.2.1/32\n", false), 0);
	assert_int_equal(offer(&w, 0, "b.example\n.a.example\nc.example\n192.0.2.1\n", false), 0);
	assert_true(listed(&w, 0, "a.example") && listed_address(&w, 0, "192.0.2.1"));
	assert_int_equal(offer(&w, 0, "b.example\nc.example\n", false), 0);
	assert_false(listed(&w, 0, "a.example") || listed_address(&w, 0, "192.0.2.1"));
	world_close(&w);
}

static void test_held(void **state)
{
	struct list_file f;
	struct world w;
	int r;

	world_open(&w, 1, false);
	/* Nothing before it: more than half not understood. */
	assert_int_equal(offer(&w, 0, "a.example\n<html>\n<body class=x>\n", false), NW_EHELD);
	assert_true(w.report.errors && strstr(w.report.text.bytes, "/lists/l0:2:1: warning: not understood"));
	assert_non_null(strstr(w.list_alarm, "nameway list reload l0 --accept"));
	assert_false(lists_has_text(w.l, 0) || listed(&w, 0, "a.example"));
	assert_int_equal(offer(&w, 0, "a.example\nb.example\nc.example\nd.example\n<html>\n", false), 0);
	assert_string_equal(w.list_alarm, "");
	assert_int_equal(w.report.warnings, 1);
	assert_int_equal(lists_accept(w.l, 0, &w.report), -ENOENT);
	/* Half is not yet too few; less is. */
	assert_int_equal(offer(&w, 0, "a.example\nb.example\n", false), 0);
	assert_int_equal(offer(&w, 0, "", false), NW_EHELD);
	r = lists_offer(w.l, 0, NULL, 0, false, &w.report);
	assert_int_equal(r, NW_EHELD);
	assert_true(listed(&w, 0, "a.example"));
	assert_int_equal(offer(&w, 0, "# nothing\n", false), NW_EHELD);
	assert_int_equal(offer(&w, 0, "# nothing\n", false), NW_EHELD);
	assert_int_equal(lists_accept(w.l, 0, &w.report), 0);
	assert_false(listed(&w, 0, "a.example"));
	assert_string_equal(w.list_alarm, "");
	assert_int_equal(offer(&w, 0, "1.example\n2.example\n3.example\n", false), 0);
	f = memory_file("1.example\n", 10, "/lists/l0");
	assert_int_equal(lists_offer(w.l, 0, &f, 1, true, &w.report), 0);
	assert_false(listed(&w, 0, "2.example"));
	/* What was held goes when the text in force comes back. */
	assert_int_equal(offer(&w, 0, "", false), NW_EHELD);
	assert_int_equal(offer(&w, 0, "1.example\n", false), 0);
	assert_string_equal(w.list_alarm, "");
	assert_int_equal(lists_accept(w.l, 0, &w.report), -ENOENT);
	world_close(&w);
}

static void test_no_file_and_formats(void **state)
{
	struct list_file f = {.fd = open("/", O_RDONLY | O_CLOEXEC), .path = "/"};
	struct world w;

	world_open(&w, 1, false);
	assert_int_equal(lists_offer(w.l, 0, NULL, 0, false, &w.report), 0);
	assert_non_null(strstr(w.list_alarm, "no file"));
	assert_false(lists_has_text(w.l, 0));
	assert_int_equal(offer(&w, 0, "a.example\n", false), 0);
	assert_string_equal(w.list_alarm, "");
	assert_int_equal(offer(&w, 0, "$TTL 60\n@ SOA a. b. 1 2 3 4 5\nb.example CNAME .\n", false), NW_ENOTYET);
	assert_non_null(strstr(w.report.text.bytes, "`rpz:`"));
	assert_true(listed(&w, 0, "a.example"));
	assert_int_equal(lists_offer(w.l, 0, &f, 1, false, &w.report), -EISDIR);
	assert_true(listed(&w, 0, "a.example"));
	assert_int_equal(lists_offer(w.l, 7, NULL, 0, false, &w.report), -ENOENT);
	world_close(&w);
}

static void test_edits(void **state)
{
	struct world w;

	world_open(&w, 1, false);
	/* Before any file. */
	assert_int_equal(edit(&w, 0, true, "early.example"), 0);
	assert_true(listed(&w, 0, "early.example"));
	assert_int_equal(offer(&w, 0, "a.example\nb.example\nb.example\n192.0.2.0/24\n", false), 0);
	assert_true(listed(&w, 0, "early.example"));
	assert_int_equal(edit(&w, 0, false, "early.example"), 0);
	assert_false(listed(&w, 0, "early.example"));
	assert_int_equal(edit(&w, 0, false, "early.example"), -ENOENT);
	assert_non_null(strstr(w.report.text.bytes, "does not hold early.example"));
	assert_int_equal(edit(&w, 0, true, "||x^"), NW_EMALFORMED);
	/* Add and remove revert. */
	assert_int_equal(edit(&w, 0, true, "!www.a.example"), 0);
	assert_true(w.last.is_admin_edit && w.last.removed_count == 1);
	assert_false(listed(&w, 0, "www.a.example"));
	assert_int_equal(edit(&w, 0, false, "!www.a.example"), 0);
	assert_true(listed(&w, 0, "www.a.example"));
	/* A mask survives updates, and a name in two lines is masked whole. */
	assert_int_equal(edit(&w, 0, false, "b.example"), 0);
	assert_false(listed(&w, 0, "b.example"));
	assert_int_equal(offer(&w, 0, "a.example\nb.example\nc.example\n192.0.2.0/24\n", false), 0);
	assert_false(listed(&w, 0, "b.example"));
	assert_int_equal(edit(&w, 0, true, "b.example"), 0);
	assert_true(listed(&w, 0, "b.example"));
	assert_int_equal(offer(&w, 0, "a.example\nc.example\n192.0.2.0/24\n", false), 0);
	assert_false(listed(&w, 0, "b.example"));
	/* An addition of what the text has outlives the line. */
	assert_int_equal(edit(&w, 0, true, "c.example"), 0);
	assert_int_equal(offer(&w, 0, "a.example\nd.example\n192.0.2.0/24\n", false), 0);
	assert_true(listed(&w, 0, "c.example"));
	assert_int_equal(edit(&w, 0, false, "c.example"), 0);
	assert_false(listed(&w, 0, "c.example"));
	/* Prefixes. */
	assert_int_equal(edit(&w, 0, true, "!192.0.2.128/25"), 0);
	assert_false(listed_address(&w, 0, "192.0.2.200"));
	assert_int_equal(edit(&w, 0, false, "192.0.2.0/24"), 0);
	assert_false(listed_address(&w, 0, "192.0.2.1"));
	assert_int_equal(edit(&w, 0, true, "192.0.2.0/24"), 0);
	assert_int_equal(edit(&w, 0, false, "!192.0.2.128/25"), 0);
	assert_true(listed_address(&w, 0, "192.0.2.200"));
	assert_int_equal(edit(&w, 0, false, "=a.example"), -ENOENT);
	assert_non_null(strstr(w.report.text.bytes, "but a.example"));
	world_close(&w);
}

static void test_several_edits_are_one(void **state)
{
	const char *good[] = {"x.example", "y.example", "x.example"}, *bad[] = {"z.example", "not a name"};
	struct world w;

	world_open(&w, 1, false);
	assert_int_equal(offer(&w, 0, "a.example\n", false), 0);
	assert_int_equal(lists_edit(w.l, 0, true, bad, 2, &w.report), NW_EMALFORMED);
	assert_false(listed(&w, 0, "z.example"));
	w.before = 0;
	assert_int_equal(lists_edit(w.l, 0, true, good, 3, &w.report), 0);
	assert_int_equal(w.before, 1);
	assert_int_equal(w.last.added_count, 2);
	world_close(&w);
}

static void test_plans(void **state)
{
	uint16_t before[WORLD_LISTS];
	const char *other = "/lists/other";
	struct world w;

	world_open(&w, 3, false);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(offer(&w, i, "a.example\n192.0.2.1\n", false), 0);
	assert_int_equal(edit(&w, 1, true, "edited.example"), 0);
	memcpy(before, w.slots, sizeof(before));
	/* The first list goes, the second gets another file, the third moves up. */
	w.lists[0] = w.lists[1];
	w.lists[1] = w.lists[2];
	w.lists[0].files = &other;
	w.config.list_count = 2;
	assert_int_equal(lists_plan(w.l, &w.config, w.slots), 0);
	assert_int_equal(w.slots[1], before[2]);
	assert_true(w.slots[0] != before[0] && w.slots[0] != before[1]);
	assert_false(lists_has_text(w.l, 0));
	assert_int_equal(offer(&w, 0, "b.example\n", false), 0);
	assert_true(listed(&w, 0, "b.example") && listed(&w, 0, "edited.example") && listed(&w, 1, "a.example"));
	assert_false(listed(&w, 0, "a.example"));
	/* The old ones answer until they are forgotten. */
	assert_non_null(lists_slot_prefixes(w.l, before[0]));
	assert_int_equal(index_count(lists_index(w.l), before[0]), 1);
	lists_forget_old(w.l);
	assert_int_equal(index_count(lists_index(w.l), before[0]), 0);
	assert_int_equal(index_count(lists_index(w.l), before[1]), 0);
	assert_null(lists_slot_prefixes(w.l, before[0]));
	assert_true(listed(&w, 0, "b.example") && listed(&w, 1, "a.example"));
	world_close(&w);
}

/* json_object_get through a path of keys. */
static json_t *at_path(json_t *j, const char *a, const char *b)
{
	j = json_object_get(j, a);
	return b ? json_object_get(j, b) : j;
}

static void test_json(void **state)
{
	struct list_file f = memory_file("a.example\nc.example\n0.0.0.0 x\n198.51.100.0/24\n", 46, "new");
	struct buf out;
	struct world w;
	json_t *j;

	world_open(&w, 2, false);
	assert_int_equal(offer(&w, 0, "a.example\na.example\nb.example\n||bad^\n192.0.2.1\n", false), 0);
	assert_int_equal(edit(&w, 0, true, "x.example"), 0);
	assert_int_equal(edit(&w, 0, false, "b.example"), 0);
	assert_int_equal(offer(&w, 0, "", false), NW_EHELD);
	buf_init(&out, 1 << 20);
	assert_int_equal(lists_print_json(w.l, 0, &out), 0);
	j = json_loads(out.bytes, 0, NULL);
	assert_non_null(j);
	assert_string_equal(json_string_value(json_object_get(j, "name")), "l0");
	assert_int_equal(json_integer_value(json_object_get(j, "names")), 2);
	assert_int_equal(json_integer_value(at_path(j, "text", "entries")), 4);
	assert_int_equal(json_integer_value(at_path(j, "text", "bad")), 1);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(at_path(j, "text", "bad_lines"), 0), "line")), 4);
	assert_string_equal(json_string_value(json_array_get(json_object_get(j, "added"), 0)), "x.example");
	assert_string_equal(json_string_value(json_array_get(json_object_get(j, "removed"), 0)), "b.example");
	assert_non_null(at_path(j, "held", "files"));
	json_decref(j);
	buf_free(&out);
	assert_int_equal(lists_diff_json(w.l, 0, &f, &out), 0);
	j = json_loads(out.bytes, 0, NULL);
	assert_non_null(j);
	assert_int_equal(json_integer_value(json_object_get(j, "added")), 2);
	assert_int_equal(json_integer_value(json_object_get(j, "removed")), 2);
	assert_true(json_is_false(json_object_get(j, "would_be_held")));
	assert_int_equal(json_integer_value(at_path(j, "text", "bad")), 1);
	json_decref(j);
	buf_free(&out);
	assert_int_equal(lists_print_json(w.l, -1, &out), 0);
	j = json_loads(out.bytes, 0, NULL);
	assert_int_equal(json_array_size(json_object_get(j, "lists")), 2);
	json_decref(j);
	buf_free(&out);
	assert_int_equal(lists_print_json(w.l, 5, &out), -ENOENT);
	assert_true(listed(&w, 0, "a.example") && !listed(&w, 0, "c.example"));
	world_close(&w);
}

static void assert_line(struct world *w, const char *text, unsigned kind, const char *file, unsigned line)
{
	unsigned got;
	struct name n;
	struct buf b;
	int r;

	buf_init(&b, 4096);
	assert_int_equal(name_from_text(&n, text, strlen(text)), 0);
	r = find_place(list_place_of_name(w->l, w->slots[0], &n, kind), 1 << 20, &b, &got);
	assert_int_equal(r, file ? 0 : -ENOENT);
	assert_int_equal(got, line);
	if (file)
		assert_string_equal(b.bytes, file);
	buf_free(&b);
}

static void assert_prefix_line(struct world *w, const char *text, int expected, unsigned line)
{
	unsigned got;
	struct addr a;
	struct buf b;

	buf_init(&b, 4096);
	assert_int_equal(addr_parse(&a, text), 0);
	assert_int_equal(find_place(list_place_of_address(w->l, w->slots[0], &a), 1 << 20, &b, &got), expected);
	assert_int_equal(got, line);
	buf_free(&b);
}

/* A large text is searched as far as it is paid for; a place taken before a change is found in the text of that moment. */
static void test_find_in_a_large_text(void **state)
{
	uint64_t left = 64 << 20, before;
	struct list_place *p;
	struct name n;
	struct world w;
	unsigned line;
	struct buf b, file;

	world_open(&w, 1, false);
	buf_init(&b, 64 << 20);
	buf_init(&file, 4096);
	for (unsigned i = 0; i < 200000; i++)
		buf_printf(&b, "name-%06u.example\n", i);
	assert_int_equal(offer(&w, 0, b.bytes, false), 0);
	assert_int_equal(name_from_text(&n, "name-199999.example", 19), 0);
	assert_int_equal(find_place(list_place_of_name(w.l, w.slots[0], &n, KIND_SUFFIX), 3 << 20, &file, &line), NW_EFULL);
	p = list_place_of_name(w.l, w.slots[0], &n, KIND_SUFFIX);
	assert_int_equal(offer(&w, 0, "other.example\n", true), 0);
	before = left;
	assert_int_equal(list_place_find(p, &left, &file, &line), 0);
	assert_int_equal(line, 200000);
	assert_int_equal(before - left, b.len);
	list_place_free(p);
	assert_int_equal(find_place(list_place_of_name(w.l, w.slots[0], &n, KIND_SUFFIX), 64 << 20, &file, &line), -ENOENT);
	/* What is near the beginning costs little. */
	assert_int_equal(offer(&w, 0, b.bytes, true), 0);
	assert_int_equal(name_from_text(&n, "name-000007.example", 19), 0);
	assert_int_equal(find_place(list_place_of_name(w.l, w.slots[0], &n, KIND_SUFFIX), 2 << 20, &file, &line), 0);
	assert_int_equal(line, 8);
	buf_free(&b);
	buf_free(&file);
	world_close(&w);
}

/* Edited entries are another list, whatever its shrink-limit; equal ones are the same, wherever they begin and end. */
static void test_entries_belong_to_the_definition(void **state)
{
	const char *two[] = {"a.example", "b.example"}, *one[] = {"a.example"}, *joined[] = {"a.exampleb.example"};
	struct list_file f = memory_file("a.example\nb.example\n", 20, "c.yaml:3 (entries)");
	struct world w;
	struct buf path;
	struct name n;
	unsigned line;
	uint16_t slot;

	world_open(&w, 1, false);
	slot = w.slots[0];
	w.lists[0].entries = two;
	w.lists[0].entry_count = 2;
	w.lists[0].file_count = 0;
	replan(&w);
	assert_int_not_equal(w.slots[0], slot);
	slot = w.slots[0];
	assert_int_equal(lists_offer(w.l, 0, &f, 1, false, &w.report), 0);
	assert_true(lists_has_text(w.l, 0) && listed(&w, 0, "b.example") && !*w.list_alarm);
	name_from_text(&n, "b.example", 9);
	buf_init(&path, 4096);
	assert_int_equal(find_place(list_place_of_name(w.l, w.slots[0], &n, KIND_SUFFIX), 1 << 20, &path, &line), 0);
	assert_string_equal(path.bytes, "c.yaml:3 (entries)");
	assert_int_equal(line, 2);
	buf_free(&path);
	replan(&w);
	assert_int_equal(w.slots[0], slot);
	w.lists[0].entries = joined;
	w.lists[0].entry_count = 1;
	assert_int_equal(lists_plan(w.l, &w.config, w.slots), 0);
	assert_int_not_equal(w.slots[0], slot);
	w.lists[0].entries = one;
	assert_int_equal(lists_plan(w.l, &w.config, w.slots), 0);
	assert_int_not_equal(w.slots[0], slot);
	f = memory_file("a.example\n", 10, "c.yaml:3 (entries)");
	assert_int_equal(lists_offer(w.l, 0, &f, 1, false, &w.report), 0);
	lists_forget_old(w.l);
	assert_true(listed(&w, 0, "a.example") && !listed(&w, 0, "b.example"));
	world_close(&w);
}

static void test_find(void **state)
{
	struct list_file f[2] = {memory_file("# x\na.example", 13, "/one"),
	        memory_file("\xef\xbb\xbf\nA.Example. # again\n=a.example\n10.0.0.0/8\n!10.1.0.0/16\n", 59, "/two")};
	struct world w;

	world_open(&w, 1, false);
	assert_int_equal(lists_offer(w.l, 0, f, 2, false, &w.report), 0);
	assert_line(&w, "a.example", KIND_SUFFIX, "/one", 2);
	assert_line(&w, "a.example", KIND_EXACT | KIND_MULTI, "/two", 3);
	assert_line(&w, "b.example", KIND_SUFFIX, NULL, 0);
	assert_prefix_line(&w, "10.2.0.1", 0, 4);
	assert_prefix_line(&w, "10.1.0.1", 0, 5);
	assert_prefix_line(&w, "192.0.2.1", -ENOENT, 0);
	assert_int_equal(edit(&w, 0, true, "b.example"), 0);
	assert_line(&w, "b.example", KIND_SUFFIX, NULL, 0);
	assert_int_equal(edit(&w, 0, true, "10.2.0.0/16"), 0);
	assert_prefix_line(&w, "10.2.0.1", -ENOENT, 0);
	assert_int_equal(edit(&w, 0, false, "!10.1.0.0/16"), 0);
	assert_prefix_line(&w, "10.1.0.1", 0, 4);
	world_close(&w);
}

/* A thousand updates, back and forth, with names that never come back. */
static void test_memory_is_flat(void **state)
{
	uint64_t early = 0;
	struct index_stat st;
	struct world w;
	struct buf b;

	world_open(&w, 1, false);
	buf_init(&b, 1 << 20);
	for (unsigned round = 0; round < 1000; round++) {
		buf_free(&b);
		for (unsigned i = 0; i < 400; i++)
			buf_printf(&b, "n%u.example\n", i);
		for (unsigned i = 0; i < 40; i++)
			buf_printf(&b, "r%u-%u.example\n", round, i);
		assert_int_equal(offer(&w, 0, b.bytes, false), 0);
		index_stat(lists_index(w.l), &st);
		assert_int_equal(st.names, 440);
		if (round == 100)
			early = st.memory_bytes;
	}
	assert_true(st.memory_bytes < early + (4 << 20));
	buf_free(&b);
	world_close(&w);
}

/* An index that has to grow on the way, in one update and over many. */
static void test_growth(void **state)
{
	struct world w;
	struct buf b;
	char name[64];

	world_open(&w, 2, false);
	buf_init(&b, 16 << 20);
	assert_int_equal(offer(&w, 1, "other.example\n", false), 0);
	for (unsigned i = 0; i < 150000; i++)
		buf_printf(&b, "name-%u.example\n", i);
	w.swapped = 0;
	assert_int_equal(offer(&w, 0, b.bytes, false), 0);
	assert_true(w.swapped > 0 && w.last.is_whole && !w.last.added);
	for (unsigned i = 0; i < 150000; i += 997) {
		snprintf(name, sizeof(name), "www.name-%u.example", i);
		assert_true(listed(&w, 0, name));
	}
	assert_true(listed(&w, 1, "other.example") && !listed(&w, 0, "other.example"));
	buf_printf(&b, "one-more.example\n");
	assert_int_equal(offer(&w, 0, b.bytes, false), 0);
	assert_int_equal(w.last.added_count, 1);
	assert_int_equal(w.last.removed_count, 0);
	buf_free(&b);
	world_close(&w);
}

/* Lines all over the text: a text of `count` names, each `every`th of the round. */
static void spread_text(struct buf *b, unsigned count, unsigned every, unsigned round)
{
	buf_free(b);
	for (unsigned i = 0; i < count; i++)
		buf_printf(b, "name-%u-%u.example\n", i % every ? 0 : round, i);
}

static uint64_t names_in_force(struct world *w)
{
	struct index_stat st;

	index_stat(lists_index(w->l), &st);
	return st.names;
}

/* What counts is how many entries change, not how many blocks of the text: a few are changed in place, and named; many in a copy, by a difference that is
 * given up on the way and leaves nothing behind. */
static void test_few_and_many(void **state)
{
	enum { COUNT = 60000, EVERY = 120 };
	struct world w;
	struct buf b;

	world_open(&w, 1, false);
	buf_init(&b, 16 << 20);
	spread_text(&b, COUNT, EVERY, 0);
	assert_int_equal(offer(&w, 0, b.bytes, false), 0);
	w.swapped = 0;
	for (unsigned round = 1; round < 4; round++) {
		spread_text(&b, COUNT, EVERY, round);
		assert_int_equal(offer(&w, 0, b.bytes, false), 0);
		assert_true(!w.swapped && !w.last.is_whole);
		assert_int_equal(w.last.added_count, COUNT / EVERY);
		assert_int_equal(w.last.removed_count, COUNT / EVERY);
		assert_int_equal(names_in_force(&w), COUNT);
	}
	for (unsigned round = 4; round < 7; round++) {
		spread_text(&b, COUNT, round == 4 ? 4 : 1, round);
		assert_int_equal(offer(&w, 0, b.bytes, false), 0);
		assert_true(w.swapped == round - 3 && w.last.is_whole && !w.last.added);
		assert_int_equal(names_in_force(&w), COUNT);
	}
	assert_true(listed(&w, 0, "name-6-59999.example") && !listed(&w, 0, "name-5-59999.example"));
	buf_printf(&b, "one-more.example\n");
	assert_int_equal(offer(&w, 0, b.bytes, false), 0);
	assert_true(w.last.added_count == 1 && !w.last.removed_count && listed(&w, 0, "one-more.example"));
	buf_free(&b);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_first_and_update), cmocka_unit_test(test_refused_by_hook),
	        cmocka_unit_test(test_duplicates), cmocka_unit_test(test_held), cmocka_unit_test(test_no_file_and_formats),
	        cmocka_unit_test(test_edits), cmocka_unit_test(test_several_edits_are_one), cmocka_unit_test(test_plans),
	        cmocka_unit_test(test_entries_belong_to_the_definition),
	        cmocka_unit_test(test_json), cmocka_unit_test(test_find), cmocka_unit_test(test_find_in_a_large_text), cmocka_unit_test(test_memory_is_flat),
	        cmocka_unit_test(test_growth), cmocka_unit_test(test_few_and_many)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
