/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Random edits of a text and of its overlay: after every step the list must equal one that was loaded whole from the same text,
 * with the overlay's rules applied by a plain model; restarts from `state` (image, journal, both at different ages) must change
 * nothing. */
#include "lists_world.h"

enum { ENTRIES = 700, LINES_MAX = 3000, ROUNDS = 300 };
static struct entry_key keys[ENTRIES];
static char texts[ENTRIES][64];
static unsigned lines[LINES_MAX], line_count;
static enum { OVER_NONE, OVER_ADDED, OVER_MASKED } over[ENTRIES];
static uint64_t random_state = 1;

static unsigned random_below(unsigned n)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)hash_range(random_state, n);
}

static void make_entries(void)
{
	static const char *const signs[] = {"", "", "", "=", "!", "!="};
	struct line_entry e;

	for (unsigned i = 0; i < ENTRIES; i++) {
		if (i % 20 == 0)
			snprintf(texts[i], sizeof(texts[i]), "%s10.%u.0.0/%u", i % 60 ? "" : "!", i / 20 % 8, 8 + i / 20 % 24);
		else
			snprintf(texts[i], sizeof(texts[i]), "%sn%u.%sexample.org", signs[i % 6], i / 12, i % 7 ? "" : "sub.");
		list_format_domains.parse(&e, texts[i], strlen(texts[i]), &(size_t){0});
		assert_true(e.what == LINE_NAME || e.what == LINE_PREFIX);
		entry_key_from_line(&keys[i], &e);
	}
}

static bool is_in_text(unsigned entry)
{
	for (unsigned i = 0; i < line_count; i++)
		if (entry_key_is_prefix(&keys[lines[i]]) == entry_key_is_prefix(&keys[entry]) &&
		        keys[lines[i]].kind == keys[entry].kind && keys[lines[i]].len == keys[entry].len &&
		        !memcmp(keys[lines[i]].bytes, keys[entry].bytes, keys[entry].len))
			return true;
	return false;
}

/* Different texts may be one entry ("10.1.0.0/8", "10.0.0.0/8"): the first stands for all. */
static unsigned canonical(unsigned entry)
{
	for (unsigned i = 0; i < entry; i++)
		if (keys[i].kind == keys[entry].kind && keys[i].len == keys[entry].len &&
		        !memcmp(keys[i].bytes, keys[entry].bytes, keys[i].len))
			return i;
	return entry;
}

static void change_text(void)
{
	unsigned steps = random_below(4) ? 1 + random_below(4) : random_below(200);

	for (unsigned i = 0; i < steps; i++) {
		unsigned at = line_count ? random_below(line_count) : 0;

		if (random_below(2) && line_count < LINES_MAX) {
			memmove(&lines[at + 1], &lines[at], (line_count - at) * sizeof(*lines));
			lines[at] = random_below(ENTRIES);
			line_count++;
		} else if (line_count > 800) {
			line_count--;
			memmove(&lines[at], &lines[at + 1], (line_count - at) * sizeof(*lines));
		}
	}
}

static void print_text(struct buf *b)
{
	buf_free(b);
	for (unsigned i = 0; i < line_count; i++)
		buf_printf(b, "%s%s\n", i % 50 ? "" : "# a comment\n\n", texts[lines[i]]);
}

static void change_overlay(struct world *w)
{
	unsigned entry = canonical(random_below(ENTRIES));
	bool is_add = random_below(2), is_in = is_in_text(entry);
	int r = edit(w, 0, is_add, texts[entry]);

	if (is_add) {
		assert_int_equal(r, 0);
		over[entry] = over[entry] == OVER_MASKED && is_in ? OVER_NONE : OVER_ADDED;
	} else if (over[entry] == OVER_NONE && !is_in) {
		assert_int_equal(r, -ENOENT);
	} else {
		assert_int_equal(r, 0);
		if (over[entry] != OVER_MASKED)
			over[entry] = is_in ? OVER_MASKED : OVER_NONE;
	}
}

static void assert_model(struct world *w)
{
	struct prefix_entry prefixes[ENTRIES];
	struct prefixes *expected;
	unsigned count = 0;
	struct name n;

	for (unsigned i = 0; i < ENTRIES; i++) {
		bool is_in = canonical(i) == i && (over[i] == OVER_ADDED || (is_in_text(i) && over[i] != OVER_MASKED));

		if (canonical(i) != i)
			continue;
		if (entry_key_is_prefix(&keys[i])) {
			if (is_in)
				entry_key_prefix(&prefixes[count++], &keys[i]);
			continue;
		}
		entry_key_name(&n, &keys[i]);
		if (!!(index_kinds(lists_index(w->l), w->slots[0], &n) & keys[i].kind) != is_in)
			fail_msg("%s is %s", texts[i], is_in ? "missing" : "there");
	}
	expected = prefixes_build(prefixes, count);
	if (lists_prefixes(w->l, 0))
		assert_true(prefixes_equal(expected, lists_prefixes(w->l, 0)));
	else
		assert_int_equal(expected->count4, 0);
	prefixes_free(expected);
}

static void run(bool has_state)
{
	struct world w;
	struct buf text;

	buf_init(&text, 1 << 20);
	world_open(&w, 2, has_state);
	memset(over, 0, sizeof(over));
	line_count = 0;
	for (unsigned i = 0; i < 1500; i++)
		lines[line_count++] = random_below(ENTRIES);
	print_text(&text);
	assert_int_equal(offer(&w, 0, text.bytes, true), 0);
	for (unsigned round = 0; round < ROUNDS; round++) {
		if (random_below(3)) {
			change_text();
			print_text(&text);
			assert_int_equal(offer(&w, 0, text.bytes, true), 0);
		} else {
			change_overlay(&w);
		}
		if (random_below(10) == 0)
			assert_int_equal(lists_save(w.l), 0);
		if (random_below(10) == 0 && has_state) {
			world_restart(&w);
			assert_true(w.restored[0]);
		}
		if (round % 3 == 0)
			assert_model(&w);
	}
	assert_model(&w);
	assert_string_equal(w.list_alarm, "");
	buf_free(&text);
	world_close(&w);
}

static void test_in_memory(void **state)
{
	run(false);
}

static void test_with_state(void **state)
{
	run(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_in_memory), cmocka_unit_test(test_with_state)};

	make_entries();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
