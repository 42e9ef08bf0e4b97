/* SPDX-License-Identifier: GPL-3.0-or-later */
/* An update of names, rules and prefixes together: while readers go over to it one after another, each sees all of it or none; when no policy can be made
 * for it, nothing of it is left. */
#include "lists_world.h"
#include "policy/policy.h"

static const char before[] = "||one.example^\n||two-*.example^\n||192.0.2.1^\n";
static const char after[] = "||three.example^\n||four-*.example^\n||192.0.2.2^\n";

struct readers {
	struct policy *old, *new;
	bool is_seen;
};
static struct readers readers;

static struct policy *policy_of(struct world *w, uint64_t gen)
{
	const struct prefixes *prefixes[] = {lists_prefixes(w->l, 0)};
	const struct exprs *exprs[] = {lists_exprs(w->l, 0)};
	struct policy *p = NULL;

	assert_int_equal(policy_new(&p, &w->config, lists_index(w->l), w->slots, prefixes, exprs), 0);
	policy_set_generation(p, gen);
	return p;
}

static bool holds(struct world *w, const struct policy *p, const char *text)
{
	struct judged_name j;
	struct name n;

	assert_int_equal(name_from_text(&n, text, strlen(text)), 0);
	policy_judge(p, policy_generation(p), &n, NULL, &j);
	return policy_holds(&j.in, w->slots[0]);
}

static bool blocks(const struct policy *p, const char *text)
{
	struct group_bits groups = {0};
	struct addr a;

	assert_int_equal(addr_parse(&a, text), 0);
	return policy_filter(p, &groups, NULL, 0, NULL, 0, &a, 1).kind == VERDICT_BLOCK;
}

static void assert_before(struct world *w, const struct policy *p)
{
	assert_true(holds(w, p, "one.example") && holds(w, p, "two-x.example") && blocks(p, "192.0.2.1"));
	assert_false(holds(w, p, "three.example") || holds(w, p, "four-x.example") || blocks(p, "192.0.2.2"));
}

static void assert_after(struct world *w, const struct policy *p)
{
	assert_false(holds(w, p, "one.example") || holds(w, p, "two-x.example") || blocks(p, "192.0.2.1"));
	assert_true(holds(w, p, "three.example") && holds(w, p, "four-x.example") && blocks(p, "192.0.2.2"));
}

/* One reader has the new policy already, another still the old one. */
static int look(struct world *w, struct index *ix, uint64_t gen)
{
	readers.new = policy_of(w, gen);
	assert_before(w, readers.old);
	assert_after(w, readers.new);
	readers.is_seen = true;
	return 0;
}

static int refuse(struct world *w, struct index *ix, uint64_t gen)
{
	return -ENOMEM;
}

static void open_world(struct world *w)
{
	static uint16_t zero;
	static struct cfg_filter filter;

	readers = (struct readers){0};
	world_open(w, 1, false);
	filter = (struct cfg_filter){.enabled = true, .block = BLOCK_NXDOMAIN, .names = {.v = &zero, .count = 1}};
	w->config.filters = &filter;
	w->config.filter_count = 1;
	assert_int_equal(offer(w, 0, before, false), 0);
	readers.old = policy_of(w, 0);
	assert_before(w, readers.old);
}

static void close_world(struct world *w)
{
	policy_free(readers.old);
	policy_free(readers.new);
	world_close(w);
}

static void test_seen_whole(void **state)
{
	struct world w;

	open_world(&w);
	w.on_swapped = look;
	assert_int_equal(offer(&w, 0, after, true), 0);
	assert_true(readers.is_seen);
	/* What came before is freed by now. */
	assert_after(&w, readers.new);
	/* Later ones count for a policy that began with this one. */
	w.on_swapped = NULL;
	assert_int_equal(edit(&w, 0, true, "||late.example^"), 0);
	assert_true(holds(&w, readers.new, "late.example"));
	close_world(&w);
}

static void test_no_policy(void **state)
{
	struct world w;
	uint64_t gen;

	open_world(&w);
	w.on_swapped = refuse;
	gen = index_generation(lists_index(w.l));
	assert_int_equal(offer(&w, 0, after, true), -ENOMEM);
	assert_int_equal(index_generation(lists_index(w.l)), gen);
	assert_before(&w, readers.old);
	/* A policy over what is left is the old one. */
	readers.new = policy_of(&w, 0);
	assert_before(&w, readers.new);
	close_world(&w);
}

/* The same where the index itself is made anew. */
static void test_no_policy_for_a_copy(void **state)
{
	const struct index *ix;
	struct world w;
	struct buf b;

	open_world(&w);
	w.on_swapped = refuse;
	buf_init(&b, 8 << 20);
	buf_printf(&b, "%s", after);
	for (unsigned i = 0; i < 100000; i++)
		buf_printf(&b, "||name-%u.example^\n", i);
	ix = lists_index(w.l);
	assert_int_equal(offer(&w, 0, b.bytes, true), -ENOMEM);
	assert_ptr_equal(lists_index(w.l), ix);
	assert_before(&w, readers.old);
	buf_free(&b);
	close_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_seen_whole), cmocka_unit_test(test_no_policy), cmocka_unit_test(test_no_policy_for_a_copy)};

	return cmocka_run_group_tests_name("an update is seen whole", tests, NULL, NULL);
}
