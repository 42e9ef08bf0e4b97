/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The cache's memory: one bounded region cut into equal chunks, filled front to back like a log.
 *
 * Workers take bytes from the open chunk by compare-and-swap; who finds it full puts a free chunk in its place and seals it. Nothing inside a
 * chunk is given back singly: one thread (cache_tidy's) empties whole chunks, oldest first, waits for a grace period and frees them. So there is
 * no allocator on the packet path, no fragmentation, and an answer that was replaced costs its bytes only until its chunk is emptied.
 *
 *   FREE --worker--> OPEN --worker--> FULL --tidy--> EMPTIED --tidy, after a grace period, no holds--> FREE
 *
 * A chunk may be emptied only when a grace period that began after its sealing has passed: until then a worker may still be writing into it.
 * Every caller but the tidying thread is inside an rcu read section from reserving until its bytes can be found. */
#pragma once
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { CHUNK_ALIGN = 32 };
enum chunk_state { CHUNK_FREE, CHUNK_OPEN, CHUNK_FULL, CHUNK_EMPTIED };

struct chunk {
	_Atomic uint32_t state;
	_Atomic uint32_t fill;        /* bytes taken, a multiple of CHUNK_ALIGN */
	_Atomic uint32_t live;        /* answers in it that can be found */
	_Atomic uint32_t holds;       /* holds on answers in it; keeps it from being freed */
	_Atomic uint32_t next_free;
	_Atomic uint64_t sealed_wait; /* chunks.waits when it was sealed */
	_Atomic uint64_t sealed_seq;  /* order of sealing */
	struct chunks *owner;
} __attribute__((aligned(64)));

struct chunks {
	struct chunk *list;
	uint8_t *base;                /* list[i] describes base + i * size */
	uint32_t count, size;
	uint32_t emptied;             /* tidying thread only */
	_Atomic uint32_t open;
	_Atomic uint32_t free_count;
	_Atomic uint64_t free_head;   /* index of the first free chunk + 1, and a change count in the upper half */
	_Atomic uint64_t seals, waits;
};

/* `list` is zeroed memory of `count` chunks. */
void chunks_init(struct chunks *m, struct chunk *list, uint8_t *base, uint32_t count, uint32_t size);
/* Undoes what the address sanitizer was told about the region; before it is unmapped. */
void chunks_fini(struct chunks *m);
/* NULL: no room until chunks are freed. len is a multiple of CHUNK_ALIGN, at most m->size. */
void *chunks_reserve(struct chunks *m, uint32_t len, struct chunk **ret_chunk);
static inline uint8_t *chunk_bytes(const struct chunks *m, const struct chunk *k)
{
	return m->base + (size_t)(k - m->list) * m->size;
}
/* Tidying thread. The oldest chunk whose writers are all done and that nobody holds, dead ones first; NULL: none yet. */
struct chunk *chunks_oldest(struct chunks *m);
/* Tidying thread: no answer of it can be found any more. */
void chunks_set_emptied(struct chunks *m, struct chunk *k);
/* Tidying thread: waits for a grace period, then frees the emptied chunks nobody holds. */
void chunks_reclaim(struct chunks *m);
