/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One writer, two readers. Every published update moves all pairs at once: where A_i was listed, B_i is, and back. So at any
 * generation all A are listed or all B are, and the generation's parity says which. Aborted updates, names that come and go, and
 * rebuilds happen meanwhile. Under ThreadSanitizer the same run shows that no access is unordered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/rcu.h"
#include "policy/index.h"

enum { PAIRS = 12, READERS = 2, UPDATES = 1500, STANDING = 100, ROOM = 2000 };

static struct index *_Atomic current;
static atomic_bool is_over;
static atomic_uint wrong, looks;
static struct name pair[PAIRS][2];

static struct name numbered(const char *what, unsigned i)
{
	struct name n;
	char text[64];

	snprintf(text, sizeof(text), "%s.n%u.example", what, i);
	if (name_from_text(&n, text, strlen(text)) < 0)
		abort();
	return n;
}

static bool is_listed(const struct index *ix, uint64_t gen, const struct name *n)
{
	uint64_t hashes[NAME_LABELS_MAX + 1];
	struct list_bits bits, allowed;

	name_hash(n, index_seed(ix), hashes);
	index_prefetch_entries(ix, n, hashes);
	index_lookup(ix, gen, n, hashes, &bits, &allowed);
	return list_bits_has(&bits, 5);
}

static void *read_all(void *unused)
{
	const struct index *ix;
	struct index_stat st;
	uint64_t gen;

	rcu_thread_register();
	while (!atomic_load(&is_over)) {
		ix = rcu_read(&current);
		gen = index_generation(ix);
		for (unsigned i = 0; i < PAIRS; i++) {
			bool a = is_listed(ix, gen, &pair[i][0]), b = is_listed(ix, gen, &pair[i][1]);

			if (a == b || a != (gen % 2 == 0))
				atomic_fetch_add(&wrong, 1);
		}
		index_stat(ix, &st);
		atomic_fetch_add(&looks, 1);
		rcu_quiesce();
	}
	rcu_thread_unregister();
	return NULL;
}

/* Lists the names that belong to generation gen, and takes the others away. */
static void move_pairs(struct index *ix, uint64_t gen)
{
	for (unsigned i = 0; i < PAIRS; i++) {
		struct name *in = &pair[i][gen % 2], *out = &pair[i][!(gen % 2)];

		if (index_kinds(ix, 5, out) && index_remove(ix, 5, out, KIND_SUFFIX) < 0)
			abort();
		if (index_add(ix, 5, in, KIND_SUFFIX) < 0)
			abort();
	}
}

static void come_and_go(struct index *ix, unsigned update)
{
	struct name n = numbered("filler", update);

	if (index_add(ix, 6, &n, KIND_EXACT) < 0)
		abort();
	if (update <= STANDING)
		return;
	n = numbered("filler", update - STANDING);
	index_remove(ix, 6, &n, KIND_EXACT);
}

/* Two rebuilds, so that the parity stays. */
static struct index *renew(struct index *ix)
{
	struct index *once = index_rebuild(ix, ROOM), *twice = once ? index_rebuild(once, ROOM) : NULL;

	if (!twice)
		abort();
	index_free(once);
	rcu_publish(&current, twice);
	rcu_wait();
	index_free(ix);
	return twice;
}

static void update(struct index *ix, unsigned number)
{
	index_begin(ix);
	come_and_go(ix, number);
	move_pairs(ix, index_generation(ix) + 1);
	if (number % 7 == 3) {
		index_abort(ix);
		return;
	}
	index_publish(ix);
	rcu_wait();
	index_settle(ix);
}

static void updates_are_seen_whole(void **state)
{
	struct index *ix = index_new(ROOM, 0);
	pthread_t thread[READERS];

	for (unsigned i = 0; i < PAIRS; i++) {
		pair[i][0] = numbered("a", i);
		pair[i][1] = numbered("b", i);
	}
	index_begin(ix);
	move_pairs(ix, index_generation(ix) + 1);
	index_publish(ix);
	index_settle(ix);
	rcu_publish(&current, ix);
	for (unsigned i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, read_all, NULL), 0);
	for (unsigned i = 0; i < UPDATES; i++) {
		update(ix, i);
		if (i % 500 == 499)
			ix = renew(ix);
	}
	/* Every reader has looked at least once however the machine schedules. */
	while (atomic_load(&looks) < 2 * READERS)
		rcu_wait();
	atomic_store(&is_over, true);
	for (unsigned i = 0; i < READERS; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(atomic_load(&wrong), 0);
	index_free(ix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(updates_are_seen_whole)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
