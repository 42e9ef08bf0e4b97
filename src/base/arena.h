/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A bump arena: everything of one query, config tree or snapshot, freed together.
 * arena_reset keeps the first block, so a worker's arena does not touch the heap in steady state. One thread. */
#pragma once
#include <stddef.h>

struct arena;
struct arena *arena_new(size_t first_block, size_t max_bytes); /* NULL: out of memory */
void arena_free(struct arena *a);                              /* takes NULL */
void arena_reset(struct arena *a);
void *arena_alloc(struct arena *a, size_t len);                /* 16-byte aligned, zeroed; NULL past max_bytes */
void *arena_dup(struct arena *a, const void *bytes, size_t len);
char *arena_strdup(struct arena *a, const char *s);
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
size_t arena_used(const struct arena *a);
