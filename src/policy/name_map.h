/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From names to numbers: a table built once and then only read, by any thread. For what a configuration names (domains of upstreams, local zones,
 * anchors of list rules); the lists themselves are in the index. Flat in its size: one probe for each suffix of a name whose number of labels occurs. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "wire/name.h"

struct name_map;
/* seed: the callers' hashes (name_hash) are made with it. NULL: out of memory. */
struct name_map *name_map_new(uint64_t seed);
void name_map_free(struct name_map *m); /* takes NULL */
/* While building: the number of a name, put in as `value` when it is new. *ret_value is where it stands, until the next put. 0 or -ENOMEM. */
int name_map_put(struct name_map *m, const struct name *n, uint32_t value, uint32_t **ret_value);
bool name_map_is_empty(const struct name_map *m);
size_t name_map_bytes(const struct name_map *m);
/* The suffix of n that starts at label i. False: not there. */
bool name_map_find(const struct name_map *m, const struct name *n, const uint64_t *hashes, unsigned i, uint32_t *ret_value);
/* Fetches what a later name_map_find of it reads first, so that the waits of a batch overlap. */
void name_map_prefetch(const struct name_map *m, const struct name *n, const uint64_t *hashes, unsigned i);
/* The longest suffix from label `from` on that is there: its label, or -1. The next shorter one: call again with that label + 1. */
int name_map_find_longest(const struct name_map *m, const struct name *n, const uint64_t *hashes, unsigned from, uint32_t *ret_value);
