/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The compiled form of the index: what is written is what is read, and no damaged file does harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/err.h"
#include "base/hash.h"
#include "naive.h"

enum { IMAGE_VERSION = 2, HEADER = 128, CLASS_BYTES = 192, CHECKED_FROM = 24 };

static uint64_t random_state = 5;

static unsigned random_below(unsigned n)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)hash_range(random_state, n);
}

static struct index *random_index(struct naive *m)
{
	struct index *ix = index_new(50, 0);

	naive_init(m);
	for (unsigned round = 0; round < 3; round++) {
		index_begin(ix);
		for (unsigned i = 0; i < 120; i++) {
			unsigned name = random_below(NAIVE_NAMES), l = random_below(NAIVE_LISTS), kinds = 1 + random_below(63);

			if (round && i % 2) {
				index_remove(ix, naive_slot[l], &m->name[name], kinds);
				naive_remove(m, name, l, kinds);
			} else {
				assert_int_equal(index_add(ix, naive_slot[l], &m->name[name], kinds), 0);
				naive_add(m, name, l, kinds);
			}
		}
		index_publish(ix);
		index_settle(ix);
	}
	return ix;
}

/* The image as bytes; the caller frees them. */
static uint8_t *image_of(const struct index *ix, size_t *ret_len)
{
	uint8_t tag[64] = "what texts this stands for", *bytes;
	int fd = memfd_create("image", 0);

	assert_true(fd >= 0);
	assert_int_equal(index_write(ix, fd, tag), 0);
	*ret_len = (size_t)lseek(fd, 0, SEEK_END);
	bytes = malloc(*ret_len);
	assert_int_equal(pread(fd, bytes, *ret_len, 0), *ret_len);
	close(fd);
	return bytes;
}

static int map_bytes(struct index **ret, const uint8_t *bytes, size_t len, uint8_t tag[64])
{
	int fd = memfd_create("image", 0), r;

	assert_int_equal(write(fd, bytes, len), len);
	r = index_map(ret, fd, tag);
	close(fd);
	return r;
}

static void round_trip(void **state)
{
	struct index *copy = NULL, *ix;
	uint8_t tag[64] = {0}, *bytes;
	struct naive m;
	size_t len;

	for (unsigned i = 0; i < 10; i++) {
		ix = random_index(&m);
		bytes = image_of(ix, &len);
		assert_int_equal(map_bytes(&copy, bytes, len, tag), 0);
		assert_string_equal((char *)tag, "what texts this stands for");
		assert_int_equal(index_generation(copy), index_generation(ix));
		assert_null(naive_differs_anywhere(&m, copy, index_generation(copy)));
		/* A copy takes updates like any other index. */
		index_begin(copy);
		for (unsigned n = 0; n < NAIVE_NAMES; n += 2) {
			assert_int_equal(index_add(copy, naive_slot[3], &m.name[n], KIND_EXEMPT), 0);
			naive_add(&m, n, 3, KIND_EXEMPT);
		}
		index_publish(copy);
		index_settle(copy);
		assert_null(naive_differs_anywhere(&m, copy, index_generation(copy)));
		index_free(copy);
		index_free(ix);
		free(bytes);
	}
}

static void flipped_bits_are_refused(void **state)
{
	struct naive m;
	struct index *ix = random_index(&m), *copy = NULL;
	uint8_t tag[64], *bytes;
	size_t len;

	bytes = image_of(ix, &len);
	for (unsigned i = 0; i < 1000; i++) {
		unsigned at = i < HEADER ? i : random_below((unsigned)len), bit = 1u << random_below(8);

		bytes[at] ^= bit;
		assert_int_equal(map_bytes(&copy, bytes, len, tag), NW_EMALFORMED);
		bytes[at] ^= bit;
	}
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(map_bytes(&copy, bytes, i < HEADER ? i : random_below((unsigned)len), tag), NW_EMALFORMED);
	free(bytes);
	index_free(ix);
}

/* Writes the checksum that makes the damage pass it. */
static void forge(uint8_t *bytes, size_t len)
{
	uint64_t h[8], hash, at = HEADER, left;

	memcpy(h, bytes, sizeof(h));
	hash = hash_bytes(bytes + CHECKED_FROM, HEADER - CHECKED_FROM, IMAGE_VERSION);
	for (left = h[5]; left && at < len; left -= left < 256 ? left : 256) {
		uint64_t some = (left < 256 ? left : 256) * CLASS_BYTES;

		hash = hash_bytes(bytes + at, at + some <= len ? some : len - at, hash);
		at += some;
	}
	if (at + h[6] * 64 + h[7] - 8 == len) {
		hash = hash_bytes(bytes + at, h[6] * 64, hash);
		hash = hash_bytes(bytes + at + h[6] * 64, h[7] - 8, hash);
	}
	memcpy(bytes + 16, &hash, 8);
}

/* Damage with a right checksum: either refused, or an index that can be used in every way without harm (the sanitizers watch). */
static void forged_images_do_no_harm(void **state)
{
	unsigned accepted = 0, refused = 0;
	struct naive m;
	struct index *ix = random_index(&m), *copy = NULL, *again;
	uint8_t tag[64], *bytes, *damaged;
	size_t len;

	bytes = image_of(ix, &len);
	damaged = malloc(len);
	for (unsigned i = 0; i < 1500; i++) {
		memcpy(damaged, bytes, len);
		for (unsigned flips = 1 + random_below(3); flips; flips--)
			damaged[random_below(3) ? random_below((unsigned)len) : 24 + random_below(40)] ^=
				(uint8_t)(1 + random_below(255));
		forge(damaged, len);
		if (map_bytes(&copy, damaged, len, tag) < 0) {
			refused++;
			continue;
		}
		accepted++;
		naive_differs_anywhere(&m, copy, index_generation(copy));
		index_begin(copy);
		for (unsigned n = 0; n < 50; n++)
			index_add(copy, 7, &m.name[n], KIND_SUFFIX);
		index_remove_list(copy, naive_slot[0]);
		index_publish(copy);
		index_settle(copy);
		again = index_rebuild(copy, 0);
		index_free(again);
		index_free(copy);
	}
	assert_true(accepted > 10);
	assert_true(refused > 100);
	free(damaged);
	free(bytes);
	index_free(ix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(round_trip), cmocka_unit_test(flipped_bits_are_refused),
		cmocka_unit_test(forged_images_do_no_harm)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
