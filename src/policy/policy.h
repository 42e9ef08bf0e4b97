/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The policy snapshot: client groups, filter and steer rules compiled from a configuration, over the shared index and each list's prefixes.
 * Read-only once published (RCU). `policy_*` do no I/O; all of them run on any thread inside an rcu read section. */
#pragma once
#include "base/addr.h"
#include "config/config.h"
#include "policy/exprs.h"
#include "policy/index.h"
#include "policy/prefixes.h"
#include <stdatomic.h>

/* Who asks. mac_known is false for clients whose MAC the kernel did not tell: then every condition on MACs takes its strictest reading:
 * block rules match, allow rules do not, and a steer rule with a MAC condition makes the answer unsafe (is_unsafe). */
struct client { struct addr addr; uint32_t ifindex; char ifname[IFNAME_MAX]; bool mac_known; uint8_t mac[6]; bool is_local; /* asked from this machine */ };

#define GROUP_WORDS (CONFIG_GROUPS_MAX / 64)
struct group_bits { uint64_t yes[GROUP_WORDS], unknown[GROUP_WORDS]; };

struct policy; /* holds config (not owned), index (shared), prefixes per list slot (shared, counted by lists.h) */

/* list_slot maps configuration list index to index slot; prefixes[] and exprs[] (built with the index's seed) are by configuration list index, entries may
 * be NULL. Copies the arrays. */
int policy_new(struct policy **ret, const struct config *c, struct index *ix, const uint16_t *list_slot, const struct prefixes *const *prefixes,
	const struct exprs *const *exprs);
void policy_free(struct policy *p);
const struct config *policy_config(const struct policy *p);
const struct index *policy_index(const struct policy *p);
/* The generation of the index to judge by: read once per query and anew after every quiescent state, as index_generation. */
uint64_t policy_generation(const struct policy *p);
/* Before publishing only: the policy belongs to the index as it is from `gen` on, also while the index has not published that. Then names, rules and
 * prefixes of one update count from the moment the policy does. */
void policy_set_generation(struct policy *p, uint64_t gen);

void policy_classify(const struct policy *p, const struct client *c, struct group_bits *ret);
bool policy_allows(const struct policy *p, const struct client *c, const struct group_bits *g, const struct prefix *attached, unsigned attached_count); /* server.allow */

/* `filter off`: until when (seconds of the worker's clock) rules are passed over. Written by the control thread, read by workers. By index of the
 * configuration in force; whoever changes that writes it anew. */
struct filter_pause { _Atomic uint32_t all_until_s; _Atomic uint32_t rule_until_s[CONFIG_RULES_MAX]; };

enum verdict_kind { VERDICT_PASS, VERDICT_ALLOW, VERDICT_BLOCK };
struct verdict { enum verdict_kind kind; enum block_kind block; int rule; /* filter index or -1 */ int list; /* config list index that decided or -1 */ };

/* What the lists say of one name, a bit per index slot. A rule's lists hold the name when one of them marks it important and none spares it, or one lists
 * it and none allows or spares it (@@ of an adblock list lifts the blocks of all lists of the rule). */
struct membership { struct list_bits listed, allowed /* @@ */, important /* $important */, spared /* @@ with $important */; };
bool policy_holds(const struct membership *m, unsigned slot); /* what that list alone says */
bool policy_any_holds(const struct policy *p, const struct ids *lists, const struct membership *m); /* what a rule's lists say together */
/* Who asks for what: conditions of adblock rules ($dnstype, $client). */
struct policy_ask { uint16_t qtype; const struct client *client; const struct group_bits *groups; };
/* Everything about one name, computed once. `in` counts only rules without conditions on the question: what steers, since the kernel's sets are everybody's.
 * `here` is what filters; it is set when is_conditional, else `in` says it. */
struct judged_name { const struct name *name; bool is_conditional; struct membership in, here; };
void policy_judge(const struct policy *p, uint64_t gen, const struct name *n, const struct policy_ask *ask /* NULL: nobody */, struct judged_name *ret);
/* The same with the name's hashes at hand, by name_hash with the index's seed. */
void policy_judge_hashed(const struct policy *p, uint64_t gen, const struct name *n, const uint64_t *hashes, const struct policy_ask *ask, struct judged_name *ret);
/* The same for the names of a batch or a chain, about twice as fast a name: the cache misses overlap. */
void policy_judge_many(const struct policy *p, uint64_t gen, const struct name *const *names, unsigned count, const struct policy_ask *ask, struct judged_name *ret);

/* For explain: the text of the rule of the list's bounded stage that decides, or NULL. */
const char *policy_expr_text(const struct policy *p, unsigned slot, const struct name *n, const struct policy_ask *ask);

/* filter over the question ([0] of a chain) or over a whole answer: first rule in order that any of the names, or any address under a block rule, matches.
 * addrs may be NULL. pause: rules that are off until later than now_s are passed over; may be NULL. */
struct verdict policy_filter(const struct policy *p, const struct group_bits *g, const struct filter_pause *pause, uint32_t now_s, const struct judged_name *names, unsigned name_count,
	const struct addr *addrs, unsigned addr_count);
bool policy_filters_addrs(const struct policy *p); /* some filter rule may block by address */

/* steer: for a client of the network at most one rule decides, the first in order; a rule with a gid never does. Queries from this machine feed every
 * matching rule with a gid (the process that asked is not known), and the first rule without `clients` decides the upstream.
 * is_unsafe: a MAC condition could not be decided, or more than STEER_HITS_MAX sets would have to be filled: the answer must not leave. */
enum { STEER_HITS_MAX = 64 };
struct steer_hit { uint16_t rule; /* config steer index */ uint8_t name; /* which of names[] matched; 255: none (rule without names) */ };
struct steer_result { unsigned count; bool is_unsafe; bool is_closed; /* the answer reached a rule whose list has no text yet */ bool has_default; /* the deciding rule has no names: nothing to fill */ int way; /* deciding way or -1 */ int rule; int list; /* config index of the list that decided or -1 */ struct steer_hit hits[STEER_HITS_MAX]; /* sets to fill */ };
void policy_steer(const struct policy *p, const struct group_bits *g, bool is_local, const struct judged_name *names, unsigned name_count, struct steer_result *ret);
/* Which rules' sets hold this name whatever the client (cache refill, holds): bit per steer rule (names match, exceptions applied; a rule with only
 * except-names: its exception set holds names of the excepted lists, see fills_exceptions). */
void policy_fills(const struct policy *p, const struct judged_name *n, uint64_t ret_rules[CONFIG_RULES_MAX / 64]);
/* Rules with except-names and no names ("all but"): their kernel set holds the *excepted* addresses and the packet rule is negated.
 * steer_hit for such a rule is reported when the name IS excepted, so that the set is filled and the packet falls through to later rules. */
bool policy_rule_is_negated(const struct config *c, unsigned steer_rule);
/* A kill-switched rule some of whose lists never had a text: what belongs to it is not known, so whatever reaches it is refused. Before publishing only. */
void policy_close_rule(struct policy *p, unsigned steer_rule);
bool policy_rule_is_closed(const struct policy *p, unsigned steer_rule);
/* Addresses that are answered as they are and never enter the rule's set (private ones unless the way says otherwise, never-remote ones). */
bool policy_is_never_steered(const struct config *c, const struct cfg_steer *rule, const struct addr *a);
