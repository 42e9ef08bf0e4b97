/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The enforcer's mirror of the rule sets: (rule id, address) -> when the kernel forgets it. From it repeats are answered without the kernel, a flushed
 * table is rebuilt, and elements of sets without timeout are taken away. One thread; open addressing with backward-shift deletion; bounded. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/addr.h"

enum { ELEMENTS_MAX = 4 << 20 };
struct element { uint32_t rule_id; /* 0: empty place */ struct addr addr; uint64_t expires_ms; uint64_t stamp; /* last ADD that touched it */
	uint32_t put_turn, put_at; /* where it is queued for the kernel */ };
struct element_fill { uint32_t rule_id; /* 0: empty place */ uint32_t v4, v6; };
struct elements { struct element *v; uint32_t cap, count; uint64_t seed; struct element_fill *fill; /* by rule */ uint32_t fill_cap, fill_used; };

int elements_init(struct elements *t);
void elements_free(struct elements *t);
struct element *elements_find(const struct elements *t, uint32_t rule_id, const struct addr *a);
struct element *elements_add(struct elements *t, uint32_t rule_id, const struct addr *a); /* found or made; NULL: ELEMENTS_MAX reached or out of memory. Invalidates other pointers. */
void elements_del(struct elements *t, struct element *e);
struct element_fill elements_fill(const struct elements *t, uint32_t rule_id); /* how many of one rule, expired ones too until they are deleted */
/* Calls cb for each; cb returning true deletes. Visits all, some maybe twice when deleting. */
void elements_walk(struct elements *t, bool (*cb)(void *ctx, struct element *e), void *ctx);
