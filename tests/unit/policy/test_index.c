/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The name index against the naive matcher: random updates, aborts, rebuilds; and its own edges: the root, a full table, a hash
 * collision. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include "base/err.h"
#include "base/hash.h"
#include "naive.h"

static uint64_t random_state = 1;

static unsigned random_below(unsigned n)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)hash_range(random_state, n);
}

static struct name name_of(const char *text)
{
	struct name n;

	assert_int_equal(name_from_text(&n, text, strlen(text)), 0);
	return n;
}

static void change_at_random(struct index *ix, struct naive *m)
{
	unsigned i = random_below(NAIVE_NAMES), l = random_below(NAIVE_LISTS), kinds = 1 + random_below(63);

	if (random_below(5) < 2) {
		assert_int_equal(index_add(ix, naive_slot[l], &m->name[i], kinds), 0);
		naive_add(m, i, l, kinds);
	} else {
		assert_int_equal(index_remove(ix, naive_slot[l], &m->name[i], kinds), naive_remove(m, i, l, kinds) ? 0 : -ENOENT);
	}
	assert_int_equal(index_kinds(ix, naive_slot[l], &m->name[i]), m->kinds[i][l]);
}

static void assert_same(const struct naive *m, const struct index *ix, uint64_t gen)
{
	const char *wrong = naive_differs_anywhere(m, ix, gen);

	if (wrong)
		fail_msg("%s is wrong", wrong);
}

static void random_updates(void **state)
{
	struct index *ix = index_new(100, 7), *copy;
	struct naive now, next;
	uint64_t gen;

	naive_init(&now);
	for (unsigned round = 0; round < 150; round++) {
		next = now;
		gen = index_generation(ix);
		index_begin(ix);
		if (random_below(40) == 0) {
			assert_int_equal(index_remove_list(ix, naive_slot[1]), 0);
			for (unsigned i = 0; i < NAIVE_NAMES; i++)
				next.kinds[i][1] = 0;
		}
		for (unsigned changes = random_below(60); changes; changes--)
			change_at_random(ix, &next);
		assert_same(&now, ix, gen);
		for (unsigned i = 0; i < NAIVE_NAMES; i += 7)
			assert_null(naive_differs(&next, ix, gen + 1, &now.name[i]));
		if (random_below(4) == 0) {
			index_abort(ix);
			assert_int_equal(index_generation(ix), gen);
			assert_same(&now, ix, gen);
			continue;
		}
		index_publish(ix);
		assert_int_equal(index_generation(ix), gen + 1);
		assert_same(&next, ix, gen + 1);
		for (unsigned i = 0; i < NAIVE_NAMES; i += 7)
			assert_null(naive_differs(&now, ix, gen, &now.name[i]));
		index_settle(ix);
		now = next;
		assert_same(&now, ix, gen + 1);
		if (random_below(20) == 0) {
			unsigned without = random_below(2 * NAIVE_LISTS);

			copy = without < NAIVE_LISTS ? index_rebuild_without(ix, naive_slot[without], 0) : index_rebuild(ix, 0);
			assert_non_null(copy);
			for (unsigned i = 0; without < NAIVE_LISTS && i < NAIVE_NAMES; i++)
				now.kinds[i][without] = 0;
			index_free(ix);
			ix = copy;
			assert_same(&now, ix, index_generation(ix));
		}
	}
	index_free(ix);
}

static unsigned decides(struct index *ix, const char *text, unsigned slot, unsigned *ret_label)
{
	uint64_t hashes[NAME_LABELS_MAX + 1];
	struct name n = name_of(text);

	name_hash(&n, index_seed(ix), hashes);
	return index_decides(ix, index_generation(ix), &n, hashes, slot, ret_label);
}

static bool is_listed(struct index *ix, const char *text, unsigned slot)
{
	uint64_t hashes[NAME_LABELS_MAX + 1];
	struct name n = name_of(text);
	struct list_bits bits, allowed;

	name_hash(&n, index_seed(ix), hashes);
	index_lookup(ix, index_generation(ix), &n, hashes, &bits, &allowed);
	return list_bits_has(&bits, slot);
}

/* What prefetching says of the name. */
static bool is_likely(struct index *ix, const char *text)
{
	uint64_t hashes[NAME_LABELS_MAX + 1];
	struct name n = name_of(text);

	name_hash(&n, index_seed(ix), hashes);
	index_prefetch(ix, &n, hashes);
	return index_prefetch_entries(ix, &n, hashes);
}

static void add_all(struct index *ix, unsigned slot, const char *const *texts, const unsigned *kinds, unsigned count)
{
	index_begin(ix);
	for (unsigned i = 0; i < count; i++) {
		struct name n = name_of(texts[i]);

		assert_int_equal(index_add(ix, slot, &n, kinds[i]), 0);
	}
	index_publish(ix);
	index_settle(ix);
}

static void most_specific_decides(void **state)
{
	const char *const texts[] = {".", "example", "ok.example", "bad.ok.example", "only.ok.example", "both.example"};
	const unsigned kinds[] = {KIND_SUFFIX, KIND_SUFFIX, KIND_EXEMPT, KIND_SUFFIX, KIND_EXACT, KIND_SUFFIX | KIND_EXEMPT};
	struct index *ix = index_new(0, 0);
	unsigned label = 99;

	add_all(ix, 9, texts, kinds, 6);
	assert_true(is_listed(ix, ".", 9));
	assert_true(is_listed(ix, "anything.at.all", 9));
	assert_true(is_listed(ix, "EXAMPLE.", 9));
	assert_false(is_listed(ix, "ok.example", 9));
	assert_false(is_listed(ix, "x.ok.example", 9));
	assert_true(is_listed(ix, "x.bad.ok.example", 9));
	assert_true(is_listed(ix, "only.ok.example", 9));
	assert_false(is_listed(ix, "x.only.ok.example", 9));
	assert_false(is_listed(ix, "both.example", 9));
	assert_false(is_listed(ix, "anything.at.all", 8));
	assert_int_equal(decides(ix, "x.only.ok.example", 9, &label), KIND_EXEMPT);
	assert_int_equal(label, 2);
	assert_int_equal(decides(ix, "a.b.c", 9, &label), KIND_SUFFIX);
	assert_int_equal(label, 3);
	index_free(ix);
}

/* An allow beats what is more specific too, but leaves what is listed to whoever asks. */
static void allows(void **state)
{
	const char *const texts[] = {"example", "deep.ok.example", "ok.example", "deep.ok.example"};
	const unsigned kinds[] = {KIND_SUFFIX, KIND_EXACT, KIND_ALLOW, KIND_MULTI};
	uint64_t hashes[NAME_LABELS_MAX + 1];
	struct index *ix = index_new(0, 0);
	struct list_bits listed, allowed;
	struct name n = name_of("deep.ok.example");
	unsigned label = 99;

	add_all(ix, 70, texts, kinds, 4);
	assert_int_equal(decides(ix, "deep.ok.example", 70, &label), KIND_ALLOW);
	assert_int_equal(label, 1);
	assert_int_equal(decides(ix, "other.example", 70, &label), KIND_SUFFIX);
	name_hash(&n, index_seed(ix), hashes);
	index_lookup(ix, index_generation(ix), &n, hashes, &listed, &allowed);
	assert_true(list_bits_has(&listed, 70) && list_bits_has(&allowed, 70));
	assert_int_equal(index_kinds_at(ix, index_generation(ix), &n, hashes, 70, 0), KIND_EXACT | KIND_MULTI);
	assert_int_equal(index_kinds_at(ix, index_generation(ix), &n, hashes, 70, 1), KIND_ALLOW);
	assert_int_equal(index_kinds_at(ix, index_generation(ix), &n, hashes, 71, 1), 0);
	assert_int_equal(index_count(ix, 70), 3);
	assert_true(is_likely(ix, "x.deep.ok.example"));
	assert_false(is_likely(ix, "ok.example.net"));
	index_free(ix);
}

static void longest_names(void **state)
{
	struct index *ix = index_new(0, 0);
	char text[NAME_TEXT_MAX] = "", wide[NAME_TEXT_MAX];
	const unsigned kind = KIND_SUFFIX;
	const char *at = text;

	for (unsigned i = 0; i < NAME_LABELS_MAX; i++)
		strcat(text, i ? ".x" : "x");
	add_all(ix, 3, &at, &kind, 1);
	assert_true(is_listed(ix, text, 3));
	assert_false(is_listed(ix, text + 2, 3));
	memset(wide, 'w', 255);
	wide[63] = wide[127] = wide[191] = '.';
	wide[253] = 0;
	at = wide;
	add_all(ix, 4, &at, &kind, 1);
	assert_true(is_listed(ix, wide, 4));
	assert_false(is_listed(ix, wide + 64, 4));
	index_free(ix);
}

static struct name numbered(unsigned i)
{
	char text[64];

	snprintf(text, sizeof(text), "n%u.%u.example", i, i % 97);
	return name_of(text);
}

/* The table says so when it is full, keeps what it had, and a rebuild has room again. */
static void full_table(void **state)
{
	struct index *ix = index_new(0, 0), *bigger;
	struct index_stat st;
	unsigned added = 0;
	struct name n;
	int r;

	index_begin(ix);
	for (r = 0; r == 0; added += r == 0) {
		n = numbered(added);
		r = index_add(ix, 1, &n, KIND_SUFFIX);
	}
	assert_int_equal(r, NW_EFULL);
	index_publish(ix);
	index_settle(ix);
	index_stat(ix, &st);
	assert_true(st.load > 0.6 && st.load <= 0.81);
	assert_int_equal(st.names, added);
	bigger = index_rebuild(ix, 20000);
	assert_non_null(bigger);
	index_begin(bigger);
	for (unsigned i = added; i < 20000; i++) {
		n = numbered(i);
		assert_int_equal(index_add(bigger, 1, &n, KIND_SUFFIX), 0);
	}
	index_publish(bigger);
	index_settle(bigger);
	assert_int_equal(index_count(bigger, 1), 20000);
	for (unsigned i = 0; i < 20000; i++) {
		n = numbered(i);
		assert_int_equal(index_kinds(bigger, 1, &n), KIND_SUFFIX);
	}
	index_free(ix);
	index_free(bigger);
}

/* Names come and go for long: every one is found while it stands, and the table either goes on or asks for a rebuild. */
static void churn(void **state)
{
	enum { STANDING = 300, STEPS = 30000 };
	struct index *ix = index_new(STANDING, 3), *copy;
	struct index_stat st;
	unsigned rebuilds = 0;
	struct name n;

	for (unsigned i = 0; i < STEPS; i++) {
		index_begin(ix);
		n = numbered(i);
		if (index_add(ix, 2, &n, KIND_EXACT) == NW_EFULL) {
			index_abort(ix);
			copy = index_rebuild(ix, STANDING);
			assert_non_null(copy);
			index_free(ix);
			ix = copy;
			rebuilds++;
			index_begin(ix);
			assert_int_equal(index_add(ix, 2, &n, KIND_EXACT), 0);
		}
		if (i >= STANDING) {
			n = numbered(i - STANDING);
			assert_int_equal(index_remove(ix, 2, &n, KIND_EXACT), 0);
		}
		index_publish(ix);
		index_settle(ix);
	}
	index_stat(ix, &st);
	assert_int_equal(st.names, STANDING);
	/* Tombstones make a rebuild due at most once in a turnover of all names. */
	assert_true(rebuilds < STEPS / STANDING);
	for (unsigned i = 0; i < STEPS; i++) {
		n = numbered(i);
		assert_int_equal(index_kinds(ix, 2, &n), i >= STEPS - STANDING ? KIND_EXACT : 0);
	}
	index_free(ix);
}

struct homed {
	uint64_t home;
	unsigned number;
};

static int home_order(const void *a, const void *b)
{
	const struct homed *x = a, *y = b;

	return x->home < y->home ? -1 : x->home > y->home;
}

/* Two names with one bucket and one tag: the listed one is found, the other is not. */
static void collision(void **state)
{
	enum { TRIED = 150000 };
	struct homed *all = malloc(TRIED * sizeof(*all));
	uint64_t hashes[NAME_LABELS_MAX + 1];
	struct index *ix = index_new(0, 11);
	struct index_stat st;
	unsigned pairs = 0;
	struct name a, b;

	index_stat(ix, &st);
	for (unsigned i = 0; i < TRIED; i++) {
		a = numbered(i);
		name_hash(&a, 11, hashes);
		all[i] = (struct homed){hash_range(hashes[0], st.buckets) << 24 | (hashes[0] & 0xffffff), i};
	}
	qsort(all, TRIED, sizeof(*all), home_order);
	for (unsigned i = 1; i < TRIED; i++) {
		if (all[i].home != all[i - 1].home)
			continue;
		pairs++;
		a = numbered(all[i].number);
		b = numbered(all[i - 1].number);
		index_begin(ix);
		assert_int_equal(index_add(ix, 0, &a, KIND_SUFFIX), 0);
		assert_int_equal(index_kinds(ix, 0, &b), 0);
		assert_int_equal(index_add(ix, 1, &b, KIND_EXACT), 0);
		assert_int_equal(index_kinds(ix, 0, &a), KIND_SUFFIX);
		assert_int_equal(index_kinds(ix, 1, &a), 0);
		index_publish(ix);
		name_hash(&a, 11, hashes);
		struct list_bits bits, allowed;
		index_lookup(ix, index_generation(ix), &a, hashes, &bits, &allowed);
		assert_int_equal(bits.w[0], 1);
		index_settle(ix);
	}
	assert_true(pairs > 0);
	free(all);
	index_free(ix);
}

/* The bar: at most 20 bytes a name beyond its wire length, here at a size where the fixed parts still show. */
static void memory(void **state)
{
	enum { NAMES = 200000 };
	struct index *ix = index_new(NAMES, 0);
	uint64_t wire = 0;
	struct index_stat st;
	struct name n;

	index_begin(ix);
	for (unsigned i = 0; i < NAMES; i++) {
		n = numbered(i);
		wire += n.len;
		assert_int_equal(index_add(ix, i % 3, &n, KIND_SUFFIX), 0);
	}
	index_publish(ix);
	index_settle(ix);
	index_stat(ix, &st);
	assert_true(st.memory_bytes - wire <= 20 * NAMES);
	index_free(ix);
}

/* Bytes of huge pages in this process. */
static uint64_t huge_bytes(void)
{
	unsigned long long kib = 0;
	char line[128];
	FILE *f = fopen("/proc/self/smaps_rollup", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "AnonHugePages: %llu", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib << 10;
}

/* Whether this kernel puts small pages together when it is told to. */
static bool can_join(void)
{
	enum { HUGE = 2 << 20 };
	uint8_t *p = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *at;
	bool is_joined;

	assert_ptr_not_equal(p, MAP_FAILED);
	at = p + (-(uintptr_t)p & (HUGE - 1));
	memset(at, 1, HUGE);
	is_joined = madvise(at, HUGE, 25 /* MADV_COLLAPSE */) == 0;
	munmap(p, 2 * HUGE);
	return is_joined;
}

/* An arena that grew beyond what was expected of it is of huge pages all the same, but for its end. */
static void full_pages_are_joined(void **state)
{
	enum { NAMES = 400000, END = 6 << 20 };
	uint64_t before = huge_bytes();
	struct index_stat st;
	struct index *ix;
	struct name n;

	if (!can_join())
		skip();
	ix = index_new(NAMES, 0);
	index_begin(ix);
	for (unsigned i = 0; i < NAMES; i++) {
		char text[64];

		snprintf(text, sizeof(text), "%032u.joined.example", i);
		n = name_of(text);
		assert_int_equal(index_add(ix, 0, &n, KIND_SUFFIX), 0);
	}
	index_publish(ix);
	index_settle(ix);
	index_stat(ix, &st);
	assert_true(st.arena_bytes > NAMES * 50);
	assert_true(huge_bytes() - before > st.arena_bytes - END);
	for (unsigned i = 0; i < NAMES; i += 1000) {
		char text[64];

		snprintf(text, sizeof(text), "%032u.joined.example", i);
		assert_true(is_listed(ix, text, 0));
	}
	index_free(ix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(random_updates), cmocka_unit_test(most_specific_decides), cmocka_unit_test(allows),
		cmocka_unit_test(longest_names), cmocka_unit_test(full_table), cmocka_unit_test(churn),
		cmocka_unit_test(collision), cmocka_unit_test(memory), cmocka_unit_test(full_pages_are_joined)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
