/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Edit distance (optimal string alignment) in three rows. */
#include <limits.h>
#include <string.h>
#include "config/nearest.h"

enum { WORD_MAX = 64 };

static unsigned smaller(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

unsigned nearest_distance(const char *a, const char *b)
{
	size_t al = strnlen(a, WORD_MAX), bl = strnlen(b, WORD_MAX);
	unsigned rows[3][WORD_MAX + 1];
	unsigned *older = rows[0], *old = rows[1], *row = rows[2];
	for (size_t j = 0; j <= bl; j++)
		old[j] = (unsigned)j;
	for (size_t i = 1; i <= al; i++) {
		row[0] = (unsigned)i;
		for (size_t j = 1; j <= bl; j++) {
			row[j] = smaller(old[j - 1] + (a[i - 1] != b[j - 1]), smaller(old[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = smaller(row[j], older[j - 2] + 1);
		}
		unsigned *spare = older;
		older = old;
		old = row;
		row = spare;
	}
	return old[bl];
}

void nearest_init(struct nearest *n, const char *wanted)
{
	n->wanted = wanted;
	n->best = NULL;
	n->best_distance = UINT_MAX;
}

void nearest_try(struct nearest *n, const char *known)
{
	unsigned distance = nearest_distance(n->wanted, known);
	if (distance < n->best_distance) {
		n->best_distance = distance;
		n->best = known;
	}
}

bool nearest_is_close(const struct nearest *n)
{
	return n->best && n->best_distance <= 1 + strlen(n->wanted) / 3;
}
