/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Copies of the name index: a compacted one in memory (index_rebuild), and the compiled image on disk.
 *
 * Image: struct image, the classes, the buckets, the arena, each as it stands in memory (the byte order of this machine; the
 * magic tells). It is read into memory rather than mapped: the file could change or shrink under a mapping, and it gets huge
 * pages this way. The checksum covers all of it, and everything a lookup relies on is checked besides, so that no file can lead a
 * reader astray: the arena is a sequence of well-formed entries, each cell points to the start of one, no two to the same, and
 * every class exists. Counters are counted anew. */
#include "policy/index_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/err.h"

#define IMAGE_MAGIC 0x786469776e0a1a01ull
enum { IMAGE_VERSION = 2 };

struct image {
	uint64_t magic, version, checksum; /* XXH3 of what follows, section by section */
	uint64_t seed, generation, classes, buckets, arena_used;
	uint8_t tag[64];
};

#define CHECKED_FROM offsetof(struct image, seed)

static uint64_t image_hash(const struct index *ix, const struct image *h)
{
	uint64_t hash = hash_bytes((const uint8_t *)h + CHECKED_FROM, sizeof(*h) - CHECKED_FROM, IMAGE_VERSION),
		 left = h->classes;

	for (unsigned i = 0; left; i++) {
		uint64_t count = left < CLASS_CHUNK ? left : CLASS_CHUNK;

		hash = hash_bytes(ix->class_chunk[i], count * sizeof(struct name_class), hash);
		left -= count;
	}
	hash = hash_bytes(ix->buckets, h->buckets * sizeof(struct bucket), hash);
	return hash_bytes(ix->arena + ARENA_FIRST, h->arena_used - ARENA_FIRST, hash);
}

static int write_all(int fd, const void *bytes, uint64_t len)
{
	const uint8_t *at = bytes;
	ssize_t n;

	while (len) {
		n = write(fd, at, len < 1 << 30 ? len : 1 << 30);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		at += n;
		len -= (uint64_t)n;
	}
	return 0;
}

static int read_all(int fd, void *bytes, uint64_t len, uint64_t from)
{
	uint8_t *at = bytes;
	ssize_t n;

	while (len) {
		n = pread(fd, at, len < 1 << 30 ? len : 1 << 30, (off_t)from);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : NW_EMALFORMED;
		at += n;
		from += (uint64_t)n;
		len -= (uint64_t)n;
	}
	return 0;
}

int index_write(const struct index *ix, int fd, const uint8_t tag[64])
{
	struct image h = {.magic = IMAGE_MAGIC,
		.version = IMAGE_VERSION,
		.seed = ix->seed,
		.generation = counter_get(&ix->generation),
		.classes = counter_get(&ix->classes),
		.buckets = ix->bucket_count,
		.arena_used = counter_get(&ix->arena_used)};
	uint64_t left = h.classes;
	int r;

	assert(ix->state == INDEX_IDLE);
	memcpy(h.tag, tag, sizeof(h.tag));
	h.checksum = image_hash(ix, &h);
	r = write_all(fd, &h, sizeof(h));
	for (unsigned i = 0; r == 0 && left; i++) {
		uint64_t count = left < CLASS_CHUNK ? left : CLASS_CHUNK;

		r = write_all(fd, ix->class_chunk[i], count * sizeof(struct name_class));
		left -= count;
	}
	if (r == 0)
		r = write_all(fd, ix->buckets, h.buckets * sizeof(struct bucket));
	if (r == 0)
		r = write_all(fd, ix->arena + ARENA_FIRST, h.arena_used - ARENA_FIRST);
	return r;
}

static int image_check(const struct image *h, uint64_t file_bytes)
{
	if (h->magic != IMAGE_MAGIC || h->version != IMAGE_VERSION || h->seed == 0 || h->generation == 0)
		return NW_EMALFORMED;
	if (h->classes == 0 || h->classes > CLASSES_MAX || h->buckets < BUCKETS_MIN || h->buckets > BUCKETS_MAX)
		return NW_EMALFORMED;
	if (h->arena_used < ARENA_FIRST || h->arena_used > ARENA_MAX || h->arena_used % 4)
		return NW_EMALFORMED;
	if (file_bytes !=
		sizeof(*h) + h->classes * sizeof(struct name_class) + h->buckets * sizeof(struct bucket) + h->arena_used - ARENA_FIRST)
		return NW_EMALFORMED;
	return 0;
}

/* Classes are interned one by one: equal ones in a file would get one number, so the numbers must come out as they stand. */
static int read_classes(struct index *ix, int fd, uint64_t count, uint64_t from)
{
	struct name_class *c = malloc(CLASS_CHUNK * sizeof(*c));
	uint32_t number = 0;
	int r = c ? 0 : -ENOMEM;

	for (uint64_t at = 0; r == 0 && at < count; at++) {
		if (at % CLASS_CHUNK == 0) {
			uint64_t some = count - at < CLASS_CHUNK ? count - at : CLASS_CHUNK;

			r = read_all(fd, c, some * sizeof(*c), from + at * sizeof(*c));
			if (r < 0)
				break;
		}
		r = class_intern(ix, &c[at % CLASS_CHUNK], &number);
		if (r == 0 && number != at)
			r = NW_EMALFORMED;
	}
	free(c);
	return r;
}

/* Walks the arena; sets in starts the bit of every entry in use and counts names by label count and by class. */
static int check_arena(struct index *ix, uint64_t *starts, uint64_t *class_names, uint64_t *ret_names)
{
	uint64_t used = counter_get(&ix->arena_used), classes = counter_get(&ix->classes), names = 0, dead = 0;
	unsigned labels = 0, len;

	for (uint64_t at = ARENA_FIRST; at < used; at += entry_bytes(len)) {
		const struct entry *e = entry_at(ix, at);
		uint32_t value = counter_get32(&e->value);

		len = used - at > sizeof(*e) ? wire_length(e->wire, used - at - sizeof(*e), &labels) : 0;
		if (!len || value >= classes)
			return NW_EMALFORMED;
		if (!value) {
			dead += entry_bytes(len);
			continue;
		}
		starts[at / 256] |= 1ull << (at / 4 % 64);
		class_names[value]++;
		ix->label_names[labels]++;
		names++;
	}
	counter_add(&ix->dead_bytes, (int64_t)dead);
	*ret_names = names;
	return 0;
}

/* Every cell must point to an entry in use, every entry must have one cell. */
static int check_cells(struct index *ix, uint64_t *starts, uint64_t names)
{
	uint64_t used = counter_get(&ix->arena_used), found = 0, tombstones = 0;

	for (uint64_t b = 0; b < ix->bucket_count; b++) {
		bool has_empty = false;

		for (unsigned i = 0; i < CELLS; i++) {
			uint64_t cell = counter_get(&ix->buckets[b].cell[i]), at = cell & CELL_OFFSET,
				 bit = 1ull << (at / 4 % 64);

			if (cell <= CELL_TOMBSTONE) {
				has_empty |= cell == CELL_EMPTY;
				tombstones += cell == CELL_TOMBSTONE;
				continue;
			}
			if (at < ARENA_FIRST || at >= used || at % 4 || !(starts[at / 256] & bit))
				return NW_EMALFORMED;
			starts[at / 256] &= ~bit;
			found++;
		}
		ix->full_buckets += !has_empty;
	}
	counter_add(&ix->occupied, (int64_t)found);
	counter_add(&ix->tombstones, (int64_t)tombstones);
	return found == names ? 0 : NW_EMALFORMED;
}

static void count_names(struct index *ix, const uint64_t *class_names, uint64_t names)
{
	uint64_t classes = counter_get(&ix->classes);

	for (unsigned l = 0; l <= NAME_LABELS_MAX; l++)
		if (ix->label_names[l])
			ix->label_mask[l / 64] |= 1ull << (l % 64);
	counter_add(&ix->names, (int64_t)names);
	for (uint32_t c = 1; c < classes; c++)
		for (unsigned slot = 0; class_names[c] && slot < CONFIG_LISTS_MAX; slot++)
			if (class_kinds(class_at(ix, c), slot))
				counter_add(&ix->list_names[slot], (int64_t)class_names[c]);
}

static int image_validate(struct index *ix)
{
	uint64_t *starts = calloc(counter_get(&ix->arena_used) / 256 + 1, sizeof(*starts)), names = 0;
	uint64_t *class_names = calloc(counter_get(&ix->classes), sizeof(*class_names));
	int r = starts && class_names ? 0 : -ENOMEM;

	if (r == 0)
		r = check_arena(ix, starts, class_names, &names);
	if (r == 0)
		r = check_cells(ix, starts, names);
	if (r == 0)
		count_names(ix, class_names, names);
	free(class_names);
	free(starts);
	return r;
}

int index_map(struct index **ret, int fd, uint8_t ret_tag[64])
{
	struct index *ix = NULL;
	struct image h;
	struct stat st;
	uint64_t from = sizeof(h);
	int r;

	if (fstat(fd, &st) < 0)
		return -errno;
	r = st.st_size < (off_t)sizeof(h) ? NW_EMALFORMED : read_all(fd, &h, sizeof(h), 0);
	if (r == 0)
		r = image_check(&h, (uint64_t)st.st_size);
	if (r < 0)
		return r;
	ix = index_create(h.buckets, h.seed, h.arena_used);
	if (!ix)
		return -ENOMEM;
	r = arena_commit(ix, h.arena_used);
	if (r == 0)
		r = read_classes(ix, fd, h.classes, from);
	from += h.classes * sizeof(struct name_class);
	if (r == 0)
		r = read_all(fd, ix->buckets, h.buckets * sizeof(struct bucket), from);
	from += h.buckets * sizeof(struct bucket);
	if (r == 0)
		r = read_all(fd, ix->arena + ARENA_FIRST, h.arena_used - ARENA_FIRST, from);
	if (r == 0 && image_hash(ix, &h) != h.checksum)
		r = NW_EMALFORMED;
	atomic_store_explicit(&ix->arena_used, h.arena_used, memory_order_relaxed);
	atomic_store_explicit(&ix->generation, h.generation, memory_order_relaxed);
	if (r == 0)
		r = image_validate(ix);
	if (r < 0) {
		index_free(ix);
		return r;
	}
	memcpy(ret_tag, h.tag, sizeof(h.tag));
	*ret = ix;
	return 0;
}

/* The number in `to` of class `number` of `from`, without what list `except` says there; map remembers (number + 1). */
static int carry_class(
	struct index *to, const struct index *from, int except, uint32_t *map, uint32_t number, uint32_t *ret)
{
	int r = 0;

	if (!map[number])
		r = except < 0 ? class_intern(to, class_at(from, number), ret)
		               : class_without(to, class_at(from, number), (unsigned)except, ret);

	if (r < 0)
		return r;
	if (map[number])
		*ret = map[number] - 1;
	map[number] = *ret + 1;
	return 0;
}

static struct index *rebuild(const struct index *ix, int except, uint64_t expected_names, uint64_t arena_bytes)
{
	uint64_t used = counter_get(&ix->arena_used), hashes[NAME_LABELS_MAX + 1];
	struct index *copy = index_create(index_buckets_for(expected_names), ix->seed, arena_bytes);
	uint32_t *map = calloc(counter_get(&ix->classes), sizeof(*map)), number;
	struct name n;
	int r = copy && map ? 0 : -ENOMEM;

	assert(ix->state == INDEX_IDLE);
	for (uint64_t at = ARENA_FIRST; r == 0 && at < used; at += entry_bytes(n.len)) {
		const struct entry *e = entry_at(ix, at);
		uint32_t value = counter_get32(&e->value);
		int consumed = name_from_wire(&n, e->wire, used - at - sizeof(*e));

		assert(consumed > 0);
		if (!value)
			continue;
		name_hash(&n, ix->seed, hashes);
		r = carry_class(copy, ix, except, map, value, &number);
		if (r == 0 && number)
			r = index_place(copy, &n, hashes[0], number);
	}
	free(map);
	if (r < 0) {
		index_free(copy);
		return NULL;
	}
	atomic_store_explicit(&copy->generation, counter_get(&ix->generation) + 1, memory_order_relaxed);
	return copy;
}

struct index *index_rebuild(const struct index *ix, uint64_t expected_names)
{
	uint64_t names = counter_get(&ix->names);

	return rebuild(ix, -1, expected_names > names ? expected_names : names,
		counter_get(&ix->arena_used) - counter_get(&ix->dead_bytes));
}

struct index *index_rebuild_without(const struct index *ix, unsigned slot, uint64_t expected_names)
{
	uint64_t others = counter_get(&ix->names) - counter_get(&ix->list_names[slot]);

	return rebuild(ix, (int)slot, expected_names > others ? expected_names : others, index_sure_bytes(expected_names));
}
