/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The compiled form of rules, shared by policy.c (compiling, clients) and policy_rules.c (names, verdicts). */
#pragma once
#include "policy/policy.h"

enum answer { NO, UNKNOWN, YES };

struct rule {
	bool has_clients, has_names, has_except_names;
	bool is_closed;    /* a steer rule whose names are not known yet: what reaches it is refused */
	bool has_prefixes; /* some list under `names` holds prefixes */
	uint64_t clients[GROUP_WORDS], except_clients[GROUP_WORDS];
	struct list_bits names, except_names; /* by index slot */
};

struct policy {
	const struct config *config;
	const struct index *index;
	uint64_t generation; /* of the index, the least */
	unsigned list_words, group_words; /* words of the bit sets in use */
	struct rule *filters, *steers;    /* as in config */
	uint16_t list_slot[CONFIG_LISTS_MAX];
	const struct prefixes *prefixes[CONFIG_LISTS_MAX];
	bool filters_addrs;
	/* Lists with rules of the bounded stage that some rule uses. */
	unsigned staged_count;
	struct staged { uint16_t slot; const struct exprs *exprs; uint16_t *group_of; } *staged;
};

enum answer rule_is_for(const struct policy *p, const struct rule *r, const struct group_bits *g);
