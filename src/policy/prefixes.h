/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The address side of lists: prefixes and addresses of one list, exceptions applied by the longest prefix, flattened into sorted disjoint ranges.
 * Immutable once built; lookup is a binary search; nft interval sets are filled from the same ranges, so both decide alike. */
#pragma once
#include <stdbool.h>
#include "base/addr.h"

struct range { struct addr first, last; };
struct prefix_entry { struct prefix prefix; bool is_exempt; };
struct prefixes { unsigned count4, count6; struct range *v4, *v6; };

struct prefixes *prefixes_build(const struct prefix_entry *e, unsigned count); /* any order, duplicates fine; adjacent ranges merged; NULL: out of memory */
void prefixes_free(struct prefixes *p);
bool prefixes_contain(const struct prefixes *p, const struct addr *a); /* p may be NULL */
bool prefixes_equal(const struct prefixes *a, const struct prefixes *b);
/* What any of several lists contains, as one. NULL: out of memory. Free it. */
struct prefixes *prefixes_union(const struct prefixes *const *v, unsigned count);
