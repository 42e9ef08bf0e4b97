/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Arithmetic on lists of address ranges of one family: sorted, disjoint, not touching, once they were put in order. IPv4 stands in the first four bytes
 * and the rest is zero, so bytes compare as numbers. Pure; any thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "policy/prefixes.h"

struct range_list { struct range *v; unsigned count, cap; };
void range_list_free(struct range_list *l);
int range_list_add(struct range_list *l, const struct addr *first, const struct addr *last); /* at the end, as it is; 0 or -ENOMEM */
/* Sorts and joins; ranges that end before they begin, or are of two families, go. Returns how many are left. */
unsigned ranges_order(struct range *v, unsigned count);
/* a without b, both in order, into an empty list: 0 or -ENOMEM. */
int ranges_subtract(struct range_list *ret, const struct range *a, unsigned a_count, const struct range *b, unsigned b_count);
bool ranges_have(const struct range *v, unsigned count, const struct addr *a); /* in order */
bool range_is_equal(const struct range *a, const struct range *b);
bool addr_step(struct addr *a, bool is_up); /* the next or previous address; false (and untouched): there is none */
