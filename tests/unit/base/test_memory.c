/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The arena and the growing buffer: alignment, zeroing, maxima, sticky failure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

static void arena_gives_aligned_zeroed_memory(void **state)
{
	static const char zero[300];
	struct arena *a = arena_new(128, 100000);

	for (unsigned round = 0; round < 3; round++) {
		for (size_t len = 1; len < 300; len += 7) {
			unsigned char *p = arena_alloc(a, len);

			assert_non_null(p);
			assert_int_equal((uintptr_t)p % 16, 0);
			assert_memory_equal(p, zero, len);
			memset(p, 0xff, len);
		}
		arena_reset(a);
		assert_int_equal(arena_used(a), 0);
	}
	arena_free(a);
	arena_free(NULL);
}

static void arena_stops_at_its_maximum(void **state)
{
	struct arena *a = arena_new(64, 160);

	assert_non_null(arena_alloc(a, 100));
	assert_int_equal(arena_used(a), 112);
	assert_null(arena_alloc(a, 49));
	assert_null(arena_alloc(a, SIZE_MAX));
	assert_null(arena_alloc(a, SIZE_MAX - 8));
	assert_non_null(arena_alloc(a, 48));
	assert_null(arena_alloc(a, 1));
	assert_null(arena_strdup(a, "x"));
	arena_reset(a);
	assert_non_null(arena_alloc(a, 160));
	arena_free(a);
}

static void arena_makes_strings(void **state)
{
	struct arena *a = arena_new(64, 4096);

	assert_string_equal(arena_strdup(a, "way"), "way");
	assert_string_equal(arena_printf(a, "%s-%d-%0200d", "r", 7, 1) + 4, arena_printf(a, "%0200d", 1));
	assert_memory_equal(arena_dup(a, "a\0b", 3), "a\0b", 3);
	assert_non_null(arena_dup(a, NULL, 0));
	arena_free(a);
}

static void buf_grows_to_its_maximum(void **state)
{
	struct buf b;

	buf_init(&b, 1000);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(buf_add(&b, "0123456789", 10), 0);
	assert_int_equal(b.len, 1000);
	assert_int_equal(b.bytes[1000], 0);
	assert_int_equal(buf_add(&b, "", 0), 0);
	assert_int_equal(buf_add(&b, "x", 1), NW_ETOOLONG);
	assert_int_equal(b.len, 1000);
	assert_int_equal(buf_add(&b, "", 0), NW_ETOOLONG);
	assert_int_equal(buf_printf(&b, "x"), NW_ETOOLONG);
	buf_free(&b);
	assert_int_equal(buf_printf(&b, "%s=%d", "a", 5), 0);
	assert_string_equal(b.bytes, "a=5");
	buf_free(&b);
}

static void buf_prints_exactly_to_the_end(void **state)
{
	struct buf b;

	buf_init(&b, 5);
	assert_int_equal(buf_printf(&b, "%s", "12345"), 0);
	assert_string_equal(b.bytes, "12345");
	buf_free(&b);
	assert_int_equal(buf_printf(&b, "%s", "123456"), NW_ETOOLONG);
	assert_int_equal(b.len, 0);
	buf_free(&b);
}

static void buf_reads_a_descriptor(void **state)
{
	char chunk[1000];
	struct buf b;
	int fds[2];

	memset(chunk, 'x', sizeof(chunk));
	for (size_t max = 2999; max <= 3000; max++) {
		assert_int_equal(pipe(fds), 0);
		for (unsigned i = 0; i < 3; i++)
			assert_int_equal(write(fds[1], chunk, sizeof(chunk)), sizeof(chunk));
		close(fds[1]);
		buf_init(&b, max);
		assert_int_equal(buf_read_fd(&b, fds[0]), max < 3000 ? NW_ETOOLONG : 0);
		assert_int_equal(b.len, max < 3000 ? 0 : 3000);
		buf_free(&b);
		close(fds[0]);
	}
	buf_init(&b, 10);
	assert_true(buf_read_fd(&b, -1) < 0);
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arena_gives_aligned_zeroed_memory),
		cmocka_unit_test(arena_stops_at_its_maximum),
		cmocka_unit_test(arena_makes_strings),
		cmocka_unit_test(buf_grows_to_its_maximum),
		cmocka_unit_test(buf_prints_exactly_to_the_end),
		cmocka_unit_test(buf_reads_a_descriptor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
