/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Inside `explain`. explain.c: the request and the lines of lists; explain_client.c: for whom; explain_name.c,
 * explain_address.c: what of; explain_rules.c: which rules lost and why. While a struct explain is used its snapshot is held;
 * places are looked up, and the enforcer asked, after it was given back. */
#pragma once
#include "control/control_private.h"
#include "wire/msg.h"

/* A line of a list to be found: `file` and `line` (or `from`) are put into `into`. */
struct explain_place {
	json_t *into;             /* owned */
	struct list_place *place; /* owned */
	bool is_address;
};

struct explain {
	const struct control_env *env;
	const struct snapshot *snap;
	const struct policy *policy;
	struct client client;
	struct group_bits groups;
	uint16_t qtype;
	struct name chain[ANSWER_CHAIN_MAX];
	struct judged_name judged[ANSWER_CHAIN_MAX];
	unsigned chain_len;
	struct addr addrs[CONTROL_ADDRESSES_SHOWN];
	unsigned addr_count;
	json_t *out;
	struct explain_place places[CONTROL_PLACES_MAX];
	unsigned place_count;
	char deciding[16]; /* id of the steer rule that decides, as the enforcer writes it; "" none */
};

/* 0 or a negative error with *ret set. Fills client, groups and out.client. */
int explain_client(struct explain *x, const json_t *request, json_t **ret);
void explain_name(struct explain *x, uint16_t qtype);
void explain_name_kernel(struct explain *x); /* after the snapshot was given back */
void explain_address(struct explain *x, const struct addr *a, const json_t *kernel);
/* Asks for the line of an entry; the answer is put into `into` later. */
void explain_want_name(struct explain *x, json_t *into, unsigned list, const struct name *entry, unsigned kinds);
void explain_want_rule(struct explain *x, json_t *into, unsigned list, const char *rule);
void explain_want_address(struct explain *x, json_t *into, unsigned list, const struct addr *a);

/* explain_rules.c */
enum explain_is { IS_NOT, IS_UNKNOWN, IS_SO };
enum explain_is explain_is_for(const struct explain *x, const struct ids *clients, const struct ids *except_clients,
        int *ret_except /* the group that excepts, or -1 */);
/* The first of `lists` that makes a rule of that kind take name `name` of the chain; -1: none. */
enum explain_kind { FOR_FILTER, FOR_STEER };
int explain_list_of(const struct explain *x, enum explain_kind kind, const struct ids *lists, unsigned name);
/* {"list", "name", "entry", file, line} of the entry that makes `list` hold name `name` of the chain. */
json_t *explain_entry(struct explain *x, unsigned list, unsigned name);
void explain_filter_losers(struct explain *x, const struct verdict *v, json_t *lost);
void explain_steer_losers(struct explain *x, const struct steer_result *s, json_t *lost);
