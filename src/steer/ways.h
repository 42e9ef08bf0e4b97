/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Exits as the kernel knows them: ip rules, routing tables, link and address state, checks, rp_filter, conntrack. rtnetlink over libmnl.
 * Used by the enforcer (one thread) only; everything is non-blocking or bounded; `now_ms` is an argument.
 *
 * Rule priorities (stated in the manual): closed rules PRIO_CLOSED; for every way in order: local access, table, end.
 * Table numbers come from the configuration (cfg_way.table_id). Nothing else in the kernel's rules or tables is touched. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"
#include "config/config.h"

enum { WAYS_PRIO_CLOSED = 5000, /* iif X fwmark 0/MASK blackhole; 5001..5003 for groups known by network only: from NET fwmark 0/MASK blackhole,
	                         * and a goto that leads the router's own packets around it */
	WAYS_PRIO_LOCAL = 5010,  /* fwmark M/MASK lookup main suppress_prefixlength 0; without local-access for packets that come in through the way only
	                         * (5011: oif IF fwmark M/MASK lookup TABLE, for our own sockets bound to the interface) */
	WAYS_PRIO_TABLE = 5020,  /* fwmark M/MASK lookup TABLE (or the fallback's) */
	WAYS_PRIO_END = 5030 };  /* fwmark M/MASK unreachable: holds even when a table is emptied */

struct ways;
enum way_state { WAY_UP, WAY_DOWN_ADMIN, WAY_DOWN_LINK, WAY_DOWN_CHECK, WAY_DOWN_ROUTE /* no gateway known and not on-link */ };

int ways_open(struct ways **ret); /* sockets; no change to the kernel */
void ways_close(struct ways *w);
const char *ways_error(const struct ways *w);
/* Takes over a configuration: computes the wanted rules, tables, sysctls. Keeps admin state of ways by name. c must outlive it. */
int ways_configure(struct ways *w, const struct config *c);
/* Makes the kernel equal to what is wanted (rules, routes, rp_filter); only differences are sent; foreign entries at our priorities are reported, not removed.
 * Additions come first and removals last, so that no packet sees a gap. A new configuration is added, then the packet rules are changed, then ALL
 * takes away what is obsolete. */
enum ways_apply_how { WAYS_APPLY_ALL, WAYS_APPLY_CLOSED /* only adds the closing rules (--guard) */, WAYS_APPLY_ADD /* removes nothing */ };
int ways_apply(struct ways *w, enum ways_apply_how how);
int ways_remove_all(struct ways *w);        /* --clear: every rule and route of ours (by priority range and table numbers), sysctls given back */
int ways_leave(struct ways *w);             /* at exit: stops touching the kernel; all of it stays in force until a restart takes it over or --clear removes it */
/* Where the settings found before ours are remembered over restarts; without it only in memory. Duplicates dirfd. Before ways_apply. */
int ways_set_state_dir(struct ways *w, int dirfd);
void ways_admin(struct ways *w, unsigned way, bool is_up);
/* Descriptors to poll: netlink events (links, addresses, routes, rules) and check sockets. */
enum { WAYS_FDS_MAX = 4 };
int ways_fds(const struct ways *w, int fds[WAYS_FDS_MAX]);
/* Called when a descriptor is readable or the deadline passed. Re-applies what is missing. Returns a bit set of what changed; *ret_next_ms: when to call again. */
enum { WAYS_CH_STATE = 1 /* a way went up or down: read the bitmaps */, WAYS_CH_OUTSIDE = 2 /* outside interfaces or p2p flags changed: nft_apply */, WAYS_CH_ALARM = 4 };
int ways_turn(struct ways *w, uint64_t now_ms, uint64_t *ret_next_ms);
enum way_state ways_state(const struct ways *w, unsigned way);
const char *ways_reason(const struct ways *w, unsigned way); /* plain words and the mend */
void ways_bitmaps(const struct ways *w, uint64_t *ret_down_killed, uint64_t *ret_no6, uint64_t *ret_down_fallback, uint64_t *ret_p2p);
enum { WAYS_OUTSIDE_MAX = 384, WAYS_ENDPOINTS_MAX = 1024 };
unsigned ways_outside(const struct ways *w, char (*ret)[IFNAME_MAX], unsigned max);
/* Addresses that must never enter a set: this machine's own (all interfaces), WireGuard peers' endpoints. */
bool ways_is_own_address(const struct ways *w, const struct addr *a);
void ways_own_networks(const struct ways *w, void (*cb)(void *ctx, const struct prefix *p, bool is_outside), void *ctx); /* own addresses, each with its length */
unsigned ways_endpoints(const struct ways *w, struct endpoint *ret, unsigned max);
bool ways_is_endpoint(const struct ways *w, const struct addr *a);
/* Which limit was met, in plain words: what is beyond it is not looked at. NULL: none. */
const char *ways_overflow(const struct ways *w);
/* The last try to make the kernel equal to what is wanted failed, for the reason in ways_error; it is tried again all the time. */
bool ways_is_failing(const struct ways *w);
/* Clashes with mwan3, Tailscale, Docker, Kubernetes, another nameway: foreign ip rules whose fwmark mask meets ours, entries at our priorities or in our tables. */
int ways_clashes(struct ways *w, const struct config *c, void (*cb)(void *ctx, const char *text), void *ctx);

/* conntrack: drop entries of our mark (all of a way), or to one of the addresses with a ct mark inside mask. Returns how many, or a
 * negative error. Bounded; each call has its own sockets, so any thread may call them. */
int flows_drop_mark(uint32_t mark, uint32_t mask);
int flows_drop_addresses(const struct addr *a, unsigned count, uint32_t mask);
/* The same for every entry with a ct mark inside mask that judge says true of. */
struct flow { struct addr src, dst; /* of the original direction */ uint32_t mark; };
int flows_drop_if(uint32_t mask, bool (*judge)(void *ctx, const struct flow *f), void *ctx);
