/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Memory of the name index: the bucket array, and an arena that grows in place inside one reserved range of addresses, so that
 * readers hold plain offsets. Whole huge pages are asked for where it is known that they will be full: a lookup is two cache
 * misses, and with small pages each of them misses the TLB as well. The growing end of the arena has small pages, which are put
 * together to huge ones when they are full. Writer thread. */
#include "policy/index_private.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "base/err.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif
#define HUGE_PAGE (2ull << 20)
#define COMMIT_STEP (4ull << 20)
#define RESERVE_MIN (1ull << 30)
/* Cells in use at build, in percent: 12.5 bytes of bucket to a name, and about one search in six goes on to a second bucket. */
enum { LOAD_BUILD_PCT = 64, LOAD_MAX_PCT = 80, FULL_BUCKETS_MAX_PCT = 65 };
/* A table is made so much larger, in percent, to end with a whole huge page. */
enum { TABLE_ROUNDING_PCT = 3 };
/* Bytes that a name of a list takes in the arena, surely. */
enum { SURE_BYTES = 20 };

static uint64_t round_to_huge(uint64_t buckets)
{
	uint64_t bytes = buckets * sizeof(struct bucket), whole = (bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);

	return (whole - bytes) * 100 <= bytes * TABLE_ROUNDING_PCT ? whole / sizeof(struct bucket) : buckets;
}

uint64_t index_buckets_for(uint64_t names)
{
	uint64_t buckets = BUCKETS_MIN;

	if (names < BUCKETS_MAX * CELLS * LOAD_BUILD_PCT / 100)
		buckets = (names * 100 / LOAD_BUILD_PCT + CELLS - 1) / CELLS;
	else
		buckets = BUCKETS_MAX;
	return buckets < BUCKETS_MIN ? BUCKETS_MIN : round_to_huge(buckets);
}

uint64_t index_sure_bytes(uint64_t names)
{
	return names < ARENA_MAX / SURE_BYTES ? names * SURE_BYTES : 0;
}

/* Asks for huge pages where whole ones fit into [p, p + bytes). */
static void ask_huge(uint8_t *p, uint64_t bytes)
{
	uint64_t skip = -(uintptr_t)p & (HUGE_PAGE - 1);

	if (bytes >= skip + HUGE_PAGE)
		madvise(p + skip, (bytes - skip) & ~(HUGE_PAGE - 1), MADV_HUGEPAGE);
}

/* Zeroed memory, at a huge page boundary when it is large: a span with room to spare is taken and trimmed. */
static void *map_aligned(uint64_t bytes, int protection)
{
	uint64_t span = bytes < HUGE_PAGE ? bytes : bytes + HUGE_PAGE, skip;
	uint8_t *p = mmap(NULL, span, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	if (span == bytes)
		return p;
	skip = -(uintptr_t)p & (HUGE_PAGE - 1);
	if (skip)
		munmap(p, skip);
	munmap(p + skip + bytes, span - skip - bytes);
	return p + skip;
}

static uint64_t bucket_bytes(const struct index *ix)
{
	return (ix->bucket_count * sizeof(struct bucket) + 4095) & ~4095ull;
}

/* Where address space is limited (RLIMIT_AS) a smaller range will do: an index past it says NW_EFULL. */
static int arena_reserve(struct index *ix)
{
	for (ix->arena_reserved = ARENA_MAX; ix->arena_reserved >= RESERVE_MIN; ix->arena_reserved /= 2) {
		ix->arena = map_aligned(ix->arena_reserved, PROT_NONE);
		if (ix->arena)
			return 0;
	}
	return -ENOMEM;
}

/* Puts full small pages below `used` together, where they are not together already. Readers may go on reading. Where the kernel cannot, they stay. */
static void join_pages(struct index *ix, uint64_t used)
{
	uint64_t end = used & ~(HUGE_PAGE - 1);

	if (end > ix->arena_joined)
		madvise(ix->arena + ix->arena_joined, end - ix->arena_joined, MADV_COLLAPSE);
	ix->arena_joined = end;
}

int arena_commit(struct index *ix, uint64_t used)
{
	uint64_t end;

	if (used <= ix->arena_committed)
		return 0;
	if (used > ix->arena_reserved)
		return NW_EFULL;
	join_pages(ix, counter_get(&ix->arena_used));
	end = (used + COMMIT_STEP - 1) / COMMIT_STEP * COMMIT_STEP;
	if (end > ix->arena_reserved)
		end = ix->arena_reserved;
	if (mprotect(ix->arena + ix->arena_committed, end - ix->arena_committed, PROT_READ | PROT_WRITE) < 0)
		return -ENOMEM;
	ix->arena_committed = end;
	return 0;
}

struct index *index_create(uint64_t buckets, uint64_t seed, uint64_t arena_bytes)
{
	struct index *ix = calloc(1, sizeof(*ix));
	struct name_class none = {0};
	uint32_t number;

	if (!ix)
		return NULL;
	ix->seed = seed ? seed : hash_seed();
	ix->bucket_count = buckets;
	ix->cells_max = buckets * CELLS * LOAD_MAX_PCT / 100;
	ix->full_buckets_max = buckets * FULL_BUCKETS_MAX_PCT / 100;
	atomic_init(&ix->generation, 1);
	atomic_init(&ix->arena_used, ARENA_FIRST);
	atomic_init(&ix->heap_bytes, sizeof(*ix) + STEPS * sizeof(struct step));
	ix->steps = calloc(STEPS, sizeof(*ix->steps));
	ix->buckets = map_aligned(bucket_bytes(ix), PROT_READ | PROT_WRITE);
	if (!ix->steps || !ix->buckets || arena_reserve(ix) < 0 || arena_commit(ix, ARENA_FIRST) < 0 ||
		class_intern(ix, &none, &number) < 0) {
		index_free(ix);
		return NULL;
	}
	ask_huge((uint8_t *)ix->buckets, bucket_bytes(ix));
	ask_huge(ix->arena, arena_bytes < ix->arena_reserved ? arena_bytes : ix->arena_reserved);
	return ix;
}

struct index *index_new(uint64_t expected_names, uint64_t seed)
{
	return index_create(index_buckets_for(expected_names), seed, index_sure_bytes(expected_names));
}

void index_free(struct index *ix)
{
	if (!ix)
		return;
	if (ix->buckets)
		munmap(ix->buckets, bucket_bytes(ix));
	if (ix->arena)
		munmap(ix->arena, ix->arena_reserved);
	/* Chunks are taken in order. */
	for (unsigned i = 0; i < CLASS_CHUNKS && ix->class_chunk[i]; i++)
		free(ix->class_chunk[i]);
	for (unsigned b = 0; b < 2; b++)
		for (unsigned i = 0; i < PENDING_CHUNKS && ix->bank[b].chunk[i]; i++)
			free(ix->bank[b].chunk[i]);
	free(ix->class_ids.ids);
	free(ix->pending_ids.ids);
	free(ix->steps);
	free(ix->touched);
	free(ix);
}

uint64_t index_memory(const struct index *ix)
{
	return bucket_bytes(ix) + ((counter_get(&ix->arena_used) + 4095) & ~4095ull) + counter_get(&ix->heap_bytes);
}
