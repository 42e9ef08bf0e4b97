/* SPDX-License-Identifier: GPL-3.0-or-later */
/* "Did you mean": the nearest of some known words by edit distance (insert, delete, replace, swap of neighbours, one each). */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct nearest { const char *wanted, *best; unsigned best_distance; };

void nearest_init(struct nearest *n, const char *wanted);
void nearest_try(struct nearest *n, const char *known);
bool nearest_is_close(const struct nearest *n); /* near enough that it was probably meant */
unsigned nearest_distance(const char *a, const char *b); /* only the first 64 bytes count */
