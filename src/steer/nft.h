/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Our one nftables table, `inet nameway`, over libnftnl and libmnl: transactions, rules, sets, administrators' own sets, events.
 * Used by the enforcer (one thread) only. Every call is one transaction with bounded waits; errors carry the kernel's extended ack text. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/addr.h"
#include "config/config.h"

struct nft;
enum { NFT_WAIT_MS = 200, NFT_SET_SIZE = 262144 /* elements of one set */ };

/* no_*: behave as on an older kernel without the owner flag (6.9), without new lives for existing elements (6.13), without deletion of absent ones (6.3). */
struct nft_options { bool is_protected; /* owner|persist where the kernel can */ bool no_owner, no_renew, no_destroy; };
int nft_open(struct nft **ret, const struct nft_options *o);
void nft_close(struct nft *n);
void nft_set_protection(struct nft *n, bool is_protected); /* as wanted by a new configuration; done by the next nft_apply that brings rules */
const char *nft_error(const struct nft *n); /* text of the last failure, with the kernel's own words */
bool nft_is_protected(const struct nft *n); /* what was reached */

/* What stands in the kernel under our name: absent, an orphan or unowned one (adoptable), or owned by a live other process. */
enum nft_presence { NFT_ABSENT, NFT_OURS, NFT_ADOPTABLE, NFT_FOREIGN_OWNER };
int nft_presence(struct nft *n, enum nft_presence *ret);

/* One rule's packet side. ifnames and prefixes are copied from the configuration by index; way_up decides which mark it gives. */
struct nft_layout {
	const struct config *config;
	uint16_t hijack_port;              /* 0: none */
	bool keeps_rules;                  /* only what is missing is made: the packet rules in force stay as they are (a prepared configuration) */
	bool is_closed;                    /* before the first commit: sets only, no marking: clients stay unmarked, so closed */
	const uint64_t *way_is_p2p;        /* bitmap by way index: point-to-point now (auto masquerade/mss-clamp) */
	char (*outside)[IFNAME_MAX]; unsigned outside_count; /* interfaces whose new connections are not clients' (ways, main default routes), unless named in clients/listen/hijack */
	const struct endpoint *never; unsigned never_count;  /* upstreams and tunnel endpoints: gid rules leave packets to them alone (port 0: any port) */
	uint32_t direct_mark;              /* mark of what no rule sends elsewhere: of the way named `direct`, else a free value inside the mask; never 0 */
};
/* Makes table, sets (p and r of every rule with names), counters, chains and rules stand exactly as laid out, in ONE transaction that keeps the
 * elements and counters of sets that stay. extra: elements to put in at the same time (after a flush). Obsolete sets are removed. */
struct nft_element { uint32_t rule_id; struct addr addr; uint32_t life_s; bool is_fresh; /* known not to be in the set: one add is enough */ };
struct range; /* policy/prefixes.h */
/* Sorted, disjoint ranges. family: AF_INET or AF_INET6 (4 and 6 are taken too, here and in the dump). which: 0 the addresses of `names` (or of
 * `except-names` in a rule that has only these), 1 those of `except-names` beside `names`. */
struct nft_range_set { uint32_t rule_id; uint8_t family, which; const struct range *r; unsigned count; };
int nft_apply(struct nft *n, const struct nft_layout *l, const struct nft_element *extra, size_t extra_count, const struct nft_range_set *ranges, size_t range_set_count);
int nft_remove(struct nft *n); /* the whole table */

/* Add-or-renew: after success every element lives at least life_s. delete+add semantics in one transaction, bounded batch; on ENOBUFS/EMSGSIZE
 * halves and retries; on EINTR/ERESTART/generation change retries once. status per element: 0, -ENOSPC (set full), -ENOENT (table or set gone), other. */
int nft_elements_put(struct nft *n, const struct nft_element *e, size_t count, int *status);
int nft_elements_delete(struct nft *n, const struct nft_element *e, size_t count); /* absent ones are fine */
int nft_ranges_replace(struct nft *n, const struct nft_range_set *s); /* flush + add in one transaction */
/* Reads back what the kernel has. cb per element with the remaining life (UINT32_MAX: no timeout). */
int nft_elements_dump(struct nft *n, uint32_t rule_id, uint8_t family, void (*cb)(void *ctx, const struct addr *a, uint32_t remaining_s), void *ctx);

/* Administrators' own sets: family, type, flags read from the kernel. Adapted to: with timeout flag elements get one, without they are added plainly (and
 * removed by us when their life ends), interval sets get a one-address range [a, a+1). */
struct nft_foreign { bool exists, is_v6, has_timeout, is_interval, is_constant; uint32_t default_timeout_s; };
int nft_foreign_probe(struct nft *n, const struct cfg_set *s, struct nft_foreign *ret); /* 0 also when it does not exist */
int nft_foreign_put(struct nft *n, const struct cfg_set *s, const struct nft_foreign *f, const struct nft_element *e, size_t count);
int nft_foreign_delete(struct nft *n, const struct cfg_set *s, const struct nft_foreign *f, const struct addr *a, size_t count);

/* Makes the set hold what is wanted (of the set's family, in order) and nothing else of ours beside the addresses above. A range of ours carries the comment
 * "nameway"; what others hold of it stays theirs. may_replace: an address that stands alone in the set is ours and may be taken up into a range. held:
 * what then stands, freed and replaced on success. *ret_too_long: how many ranges a set without intervals could not take; *ret_has_left: some left. */
struct range_list; /* steer/ranges.h */
int nft_foreign_sync_ranges(struct nft *n, const struct cfg_set *s, const struct nft_foreign *f, const struct range_list *wanted,
	bool (*may_replace)(void *ctx, const struct addr *a), void *ctx, struct range_list *held, unsigned *ret_too_long, bool *ret_has_left);

/* Counters by steer rule: packets that took this rule's decision. */
struct nft_counter { uint64_t packets, bytes; };
int nft_counters(struct nft *n, const uint32_t *rule_ids, size_t count, struct nft_counter *ret);
/* Foreign rules that set mark bits inside mask (bitwise expressions, `meta mark set`, iptables MARK/CONNMARK targets): calls back with a text naming table and chain. */
int nft_mark_clashes(struct nft *n, uint32_t mask, void (*cb)(void *ctx, const char *text), void *ctx);

/* Events. fd to poll; nft_events_read drains it: returns a bit set. Changes made by ourselves (our netlink port id) are not reported. */
enum { NFT_EV_OURS = 1 /* someone changed or deleted our table */, NFT_EV_FOREIGN = 2 /* another table changed (administrators' sets may have come or gone) */, NFT_EV_OVERFLOW = 4 };
int nft_events_fd(const struct nft *n);
int nft_events_listen(struct nft *n, bool is_on); /* on after nft_open; off, no change is reported and ours cost the kernel less */
int nft_events_read(struct nft *n);
