/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The bump arena: a chain of blocks, the newest first, each as large as the first or as the request that made it.
 * `used` counts what callers took (rounded to 16) and never passes `max`; the slack at the end of a full block is not counted. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_ALIGN = 16 };

struct block {
	struct block *next; /* older */
	size_t cap, fill;
	_Alignas(ARENA_ALIGN) unsigned char bytes[];
};

struct arena {
	struct block *newest;
	size_t block_len, max, used;
};

static struct block *block_new(size_t cap, struct block *next)
{
	struct block *b;

	if (cap > SIZE_MAX - sizeof(*b))
		return NULL;
	b = malloc(sizeof(*b) + cap);
	if (!b)
		return NULL;
	b->next = next;
	b->cap = cap;
	b->fill = 0;
	return b;
}

struct arena *arena_new(size_t first_block, size_t max_bytes)
{
	struct arena *a = malloc(sizeof(*a));

	if (!a)
		return NULL;
	if (first_block < 64)
		first_block = 64;
	a->newest = block_new(first_block, NULL);
	if (!a->newest) {
		free(a);
		return NULL;
	}
	a->block_len = first_block;
	a->max = max_bytes;
	a->used = 0;
	return a;
}

void arena_free(struct arena *a)
{
	if (!a)
		return;
	for (struct block *b = a->newest; b;) {
		struct block *next = b->next;

		free(b);
		b = next;
	}
	free(a);
}

void arena_reset(struct arena *a)
{
	while (a->newest->next) {
		struct block *next = a->newest->next;

		free(a->newest);
		a->newest = next;
	}
	a->newest->fill = 0;
	a->used = 0;
}

/* Not zeroed. */
static void *take(struct arena *a, size_t len)
{
	struct block *b = a->newest;
	size_t room = a->max - a->used;
	void *p;

	if (len > SIZE_MAX - ARENA_ALIGN)
		return NULL;
	len = (len + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
	if (len > room)
		return NULL;
	if (len > b->cap - b->fill) {
		b = block_new(len > a->block_len ? len : a->block_len, a->newest);
		if (!b)
			return NULL;
		a->newest = b;
	}
	p = b->bytes + b->fill;
	b->fill += len;
	a->used += len;
	return p;
}

void *arena_alloc(struct arena *a, size_t len)
{
	void *p = take(a, len);

	return p ? memset(p, 0, len) : NULL;
}

void *arena_dup(struct arena *a, const void *bytes, size_t len)
{
	void *p = take(a, len);

	if (p && len)
		memcpy(p, bytes, len);
	return p;
}

char *arena_strdup(struct arena *a, const char *s)
{
	return arena_dup(a, s, strlen(s) + 1);
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
	va_list args;
	char *s;
	int n;

	va_start(args, fmt);
	n = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	if (n < 0)
		return NULL;
	s = take(a, (size_t)n + 1);
	if (!s)
		return NULL;
	va_start(args, fmt);
	vsnprintf(s, (size_t)n + 1, fmt, args);
	va_end(args);
	return s;
}

size_t arena_used(const struct arena *a)
{
	return a->used;
}
