/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a worker judges by: one configuration compiled. Made by the server's main thread, handed to every worker by a posted task (never mid-turn),
 * freed by the main thread after the last worker took its successor. */
#pragma once
#include "config/config.h"
#include "policy/name_map.h"
#include "policy/policy.h"
#include "steer/macmap.h"

struct snapshot {
	struct config *config;
	struct policy *policy;
	uint32_t serial;                /* the configuration's, as the enforcer knows it */
	uint16_t slots[CONFIG_LISTS_MAX]; /* index slot by configuration list */
	struct macmap macs;             /* as the input hook numbers them */
	bool has_closed_rules;          /* policy_close_rule */
	struct name_map *domains;       /* split DNS: upstream index by domain, hashed with worker_shared.name_seed */
	uint16_t *group_id;             /* by upstream index: stable over reloads, so that the cache stays right */
	char (*filter_text)[64];        /* by filter rule: what EDE says */
};

/* Fills the rest of a zeroed snapshot that has config, serial and slots; group_id is left at zero for the caller. prefixes and exprs: by list of the
 * configuration. 0 or -ENOMEM (then only snapshot_free is left to do). */
int snapshot_compile(struct snapshot *s, struct index *ix, const struct prefixes *const *prefixes, const struct exprs *const *exprs, uint64_t name_seed);
void snapshot_free(struct snapshot *s, bool with_config); /* takes NULL and what was half made; s is from calloc */

/* Interfaces and their networks, replaced whole when they change (RCU: read inside a turn only). */
struct link_entry { uint32_t ifindex; char name[IFNAME_MAX]; };
struct links {
	unsigned count, network_count;
	struct link_entry *v;
	struct prefix *networks;        /* attached to the listening interfaces, and loopback: who may ask by default */
};
