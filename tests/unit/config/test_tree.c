/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The YAML tree: places, kinds, styles, and its limits. */
#include "config/tree.h"
#include "fixture.h"

struct world {
	struct tree t;
	struct report r;
};

static int setup(void **state)
{
	static struct world w;
	report_init(&w.r);
	w.t = (struct tree){.arena = arena_new(4096, 256 << 20), .report = &w.r};
	*state = &w;
	return w.t.arena ? 0 : -1;
}

static int teardown(void **state)
{
	struct world *w = *state;
	arena_free(w->t.arena);
	report_free(&w->r);
	return 0;
}

static struct node *good(struct world *w, const char *text)
{
	struct node *root = NULL;
	if (tree_parse(&root, &w->t, "f", text, strlen(text)) < 0)
		fail_msg("%s", w->r.text.bytes);
	return root;
}

static void nodes_know_their_place(void **state)
{
	struct node *root = good(*state, "# c\na:\n  b: [x, 'y',\n     z]\n  c: { d: \"e\" }\nf: |\n  text\n");
	const struct node *b = node_child(node_child(root, "a"), "b"),
	                  *d = node_child(node_child(node_child(root, "a"), "c"), "d");
	assert_int_equal(root->count, 2);
	assert_int_equal(b->key_place.line, 3);
	assert_int_equal(b->key_place.column, 3);
	assert_int_equal(b->place.column, 6);
	assert_int_equal(b->kind, NODE_SEQUENCE);
	assert_int_equal(b->count, 3);
	assert_string_equal(b->last->text, "z");
	assert_int_equal(b->last->place.line, 4);
	assert_int_equal(b->last->place.column, 6);
	assert_string_equal(b->last->key, "b");
	assert_string_equal(d->text, "e");
	assert_int_equal(d->place.line, 5);
	assert_int_equal(d->place.column, 11);
	assert_string_equal(node_child(root, "f")->text, "text\n");
	assert_null(node_child(root, "b"));
	assert_null(node_child(NULL, "b"));
	assert_null(node_child(b, "b"));
}

static void block_and_flow_are_the_same(void **state)
{
	struct node *a = good(*state, "s:\n- k: v\n  l: w\n-\n  k: x\n"),
	            *b = good(*state, "{ s: [ { k: v, l: w }, { k: x } ] }");
	const struct node *x = node_child(a, "s")->first, *y = node_child(b, "s")->first;
	for (; x && y; x = x->next, y = y->next) {
		assert_int_equal(x->count, y->count);
		assert_string_equal(node_child(x, "k")->text, node_child(y, "k")->text);
	}
	assert_true(!x && !y);
}

static void nothing_has_many_spellings(void **state)
{
	struct node *root = good(*state, "a:\nb: ~\nc: null\nd: ''\ne: \"null\"\n");
	assert_int_equal(node_child(root, "a")->kind, NODE_NULL);
	assert_int_equal(node_child(root, "a")->place.line, 1);
	assert_int_equal(node_child(root, "b")->kind, NODE_NULL);
	assert_int_equal(node_child(root, "c")->kind, NODE_NULL);
	assert_int_equal(node_child(root, "d")->kind, NODE_SCALAR);
	assert_int_equal(node_child(root, "e")->kind, NODE_SCALAR);
	assert_int_equal(good(*state, "")->count, 0);
	assert_int_equal(good(*state, "# only a comment\n")->count, 0);
	assert_int_equal(good(*state, "---\n...\n")->kind, NODE_MAP);
}

static void editors_leave_marks(void **state)
{
	struct node *root = good(*state, "\xef\xbb\xbf"
	                                 "a: b\r\nc: d\r\n");
	assert_string_equal(node_child(root, "a")->text, "b");
	assert_int_equal(node_child(root, "c")->key_place.line, 2);
	assert_int_equal(node_child(root, "c")->key_place.column, 1);
}

static void values_one_or_many(void **state)
{
	struct node *root = good(*state, "one: a\nmany: [b, c]\nnone: []\nnext: d\n");
	const struct node *n = node_child(root, "one");
	assert_string_equal(value_first(n)->text, "a");
	assert_null(value_next(n, value_first(n)));
	assert_int_equal(value_count(n), 1);
	n = node_child(root, "many");
	assert_string_equal(value_next(n, value_first(n))->text, "c");
	assert_null(value_next(n, n->last));
	assert_int_equal(value_count(n), 2);
	assert_null(value_first(node_child(root, "none")));
	assert_null(value_first(NULL));
	assert_int_equal(value_count(NULL), 0);
}

static void flood(struct world *w, const char *start, const char *fmt, unsigned count, const char *says)
{
	struct buf b;
	struct node *root;
	buf_init(&b, CONFIG_FILE_MAX);
	buf_printf(&b, "%s", start);
	for (unsigned i = 0; i < count; i++) {
		char item[32];
		int len = snprintf(item, sizeof item, "%s%u", fmt, i);
		buf_add(&b, item, (size_t)len);
		buf_add(&b, ": x\n", strcmp(fmt, "- ") ? 4 : 0);
		buf_add(&b, "\n", 1);
	}
	int r = tree_parse(&root, &w->t, "f", b.bytes, b.len);
	if (says) {
		assert_int_equal(r, NW_ECONFIG);
		assert_non_null(strstr(w->r.text.bytes, says));
	} else {
		assert_int_equal(r, 0);
	}
	buf_free(&b);
}

static void as_many_keys_as_allowed(void **state)
{
	flood(*state, "", "k", TREE_KEYS_MAX, NULL);
}

static void too_many_keys(void **state)
{
	flood(*state, "", "k", TREE_KEYS_MAX + 1, "f:2049:1: error: more than 1024 keys");
}

static void too_many_values(void **state)
{
	flood(*state, "a:\n", "- ", TREE_NODES_MAX, "too large: more than 262144 values");
}

static void merged_maps_are_bounded_too(void **state)
{
	struct world *w = *state;
	struct node *into = good(w, "s: { }\n");
	char text[8192];
	int r = 0;
	for (int file = 0; file < 11; file++) {
		size_t at = (size_t)snprintf(text, sizeof text, "s: {");
		for (int i = 0; i < 100; i++)
			at += (size_t)snprintf(text + at, sizeof text - at, "k%d_%d: x,", file, i);
		snprintf(text + at, sizeof text - at, "}");
		r = tree_merge(&w->t, into, good(w, text));
	}
	assert_int_equal(r, NW_ECONFIG);
	assert_int_equal(node_child(into, "s")->count, TREE_KEYS_MAX);
	assert_int_equal(w->r.errors, 1);
}

#define TREE_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        TREE_TEST(nodes_know_their_place),
	        TREE_TEST(block_and_flow_are_the_same),
	        TREE_TEST(nothing_has_many_spellings),
	        TREE_TEST(editors_leave_marks),
	        TREE_TEST(values_one_or_many),
	        TREE_TEST(as_many_keys_as_allowed),
	        TREE_TEST(too_many_keys),
	        TREE_TEST(too_many_values),
	        TREE_TEST(merged_maps_are_bounded_too),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
