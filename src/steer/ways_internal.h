/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the files way_*.c and ways*.c share. Nobody else includes it.
 *
 * A sync reads what the kernel has (links, addresses, default routes of the main table), judges each way, computes the wanted
 * rules and routes and sends the differences. Events only say which part must be read again; nothing is patched in place, so
 * a lost event costs a sync, not truth. */
#pragma once
#include "steer/rtnl.h"
#include "steer/ways.h"

enum { LINKS_MAX = 8192, OWN_ADDRS_MAX = 65536, MAIN_DEFAULTS_MAX = 256 };
enum { WAY_RULES_MAX = 4096, WAY_ROUTES_MAX = 4 * CONFIG_WAYS_MAX };
enum { SYSCTLS_MAX = 1024, CLOSED_MAX = 1024 /* client interfaces */ };
enum { WAYS_RESYNC_MS = 30000, WAYS_SYNC_GAP_MS = 20, WAYS_RETRY_MS = 200, ENDPOINTS_AGE_MS = 10000, WAYS_METRIC = 1024 };
#define WAYS_METRIC_END 4278198272u

/* Within the priorities of ways.h. */
enum { PRIO_OWN = WAYS_PRIO_CLOSED + 1,  /* iif lo from NET fwmark 0/MASK goto PRIO_AFTER: the router's own packets */
	PRIO_FROM = WAYS_PRIO_CLOSED + 2,    /* from NET fwmark 0/MASK blackhole */
	PRIO_AFTER = WAYS_PRIO_CLOSED + 3,   /* nop: where PRIO_OWN goes */
	PRIO_BOUND = WAYS_PRIO_LOCAL + 1,    /* oif IF fwmark M/MASK lookup TABLE: our own sockets bound to the interface, for checks
	                                      * also while the way is down */
	PRIO_LAST = WAYS_PRIO_END + 9 };

struct link { int ifindex; char name[IFNAME_MAX]; uint32_t flags; uint16_t type; };
struct own_addr { struct addr addr; int ifindex; uint8_t len; bool is_global; /* usable as a source, ULA included */ };
struct main_default { uint8_t family; int ifindex; struct addr gateway; /* family 0: none */ uint32_t metric; };

/* Zeroed before it is filled: compared as bytes. */
struct way_rule {
	uint32_t priority, mark, mask, table, target; /* target: of goto */
	uint8_t family, action, source_len, suppress_default; /* suppress_default: suppress_prefixlength 0 */
	char iif[IFNAME_MAX], oif[IFNAME_MAX];
	uint8_t source[16];
};
struct way_route {
	uint32_t table, metric;
	int oif;              /* 0 for unreachable */
	uint8_t family, type;
	uint8_t gateway_family; /* 0: none; IPv6 also under an IPv4 route */
	uint8_t gateway[16];
};

/* One way's check. misses and answers count in a row. */
struct way_check {
	bool is_down, is_waiting; /* waiting: the last echo is not answered yet */
	unsigned misses, answers;
	int fd, ifindex;          /* -1: none */
	uint16_t ident, sequence;
	uint64_t next_ms;
	char reason[96];
};
struct way_run {
	const struct cfg_way *c;
	bool is_admin_down, is_p2p, has_v6;
	int ifindex; /* 0: the interface does not exist */
	bool has_link;
	enum way_state state;
	struct way_check check;
	char reason[256];
};
/* A configuration with the state of its ways. */
struct plan { const struct config *config; unsigned count; struct way_run way[CONFIG_WAYS_MAX]; };

struct saved_sysctl { char ifname[IFNAME_MAX]; char key[16]; int before, ours; };

struct ways {
	struct rtnl req, events;
	int epoll_fd, state_dir;
	struct plan *cur;
	enum ways_apply_how how;
	bool is_applied, must_clean; /* must_clean: look through all tables for routes an earlier run left */

	struct link *links; unsigned link_count, link_room;
	struct own_addr *addrs; unsigned addr_count, addr_room;
	uint32_t *addr_slots; unsigned addr_slot_count; uint64_t addr_seed; /* index + 1 into addrs, open addressing */
	struct main_default defaults[MAIN_DEFAULTS_MAX]; unsigned default_count;
	bool read_failed; /* no memory while reading */
	bool has_more_endpoints, has_more_defaults, has_more_closed; /* than there is room for */

	struct way_rule *rules; unsigned rule_count;    /* wanted */
	struct way_rule *present; unsigned present_count;
	struct way_route *routes; unsigned route_count; /* wanted */
	struct way_route *routes_present; unsigned route_present_count, route_room;

	struct saved_sysctl sysctls[SYSCTLS_MAX]; unsigned sysctl_count;
	struct endpoint endpoints[WAYS_ENDPOINTS_MAX]; unsigned endpoint_count; /* in the order of their addresses */ uint64_t endpoints_ms;
	int wg_family; /* generic netlink number, 0 not asked yet, -1 the kernel has none */
	uint16_t ident_next;

	char (*outside)[IFNAME_MAX]; unsigned outside_count;
	bool dirty, defaults_dirty, endpoints_dirty;
	uint64_t synced_ms, retry_ms; /* retry_ms: 0 none */
	char error[512];
};

/* way_links.c */
int links_sync(struct ways *w);
const struct link *links_find(const struct ways *w, const char *name);
const struct link *links_by_index(const struct ways *w, int ifindex);
bool links_is_outside(const struct ways *w, const char *name); /* carries a default route of the main table */
void links_event(struct ways *w, const struct nlmsghdr *nlh);
void links_free(struct ways *w);
/* way_rules.c */
int rules_want(struct ways *w);
int rules_add(struct ways *w);
int rules_remove_obsolete(struct ways *w);
int rules_remove_all(struct ways *w);
unsigned rules_closed_interfaces(struct ways *w, const struct config *c, char (*ret)[IFNAME_MAX], unsigned max);
/* Whose exit its packets take now: a way's index, WAY_TO_MAIN, WAY_TO_NOTHING. */
int way_resolve(const struct plan *p, unsigned way);
enum { WAY_TO_MAIN = -1, WAY_TO_NOTHING = -2 };
bool rule_read(struct way_rule *ret, const struct nlmsghdr *nlh, bool *ret_is_ours, bool *ret_has_more, uint8_t *ret_flags);
/* way_routes.c */
int routes_want(struct ways *w);
int routes_add(struct ways *w);
int routes_remove_obsolete(struct ways *w);
int routes_remove_all(struct ways *w);
bool route_read(struct way_route *ret, const struct nlmsghdr *nlh, uint8_t *ret_protocol, uint8_t *ret_prefix_len);
/* way_sysctl.c */
int sysctls_sync(struct ways *w);
int sysctls_load(struct ways *w);
void sysctls_give_back(struct ways *w);
/* way_checks.c */
void checks_turn(struct ways *w, uint64_t now_ms, bool *ret_changed);
uint64_t checks_next_ms(const struct ways *w);
void check_read(struct ways *w, unsigned way, bool *ret_changed);
void check_drop(struct ways *w, struct way_check *k);
/* way_wg.c */
struct wg_peer { struct endpoint endpoint; /* addr.family 0: none */ int64_t handshake_s; /* wall clock; 0 never */ };
/* Calls back per peer; 0, -ENOENT: not a WireGuard interface. */
int wg_peers(struct ways *w, const char *ifname, void (*cb)(void *ctx, const struct wg_peer *p), void *ctx);
void wg_endpoints_sync(struct ways *w);
/* How many peers; stops at what it does not understand. */
unsigned wg_uapi_parse(const char *text, void (*cb)(void *ctx, const struct wg_peer *p), void *ctx);

/* Notes the text, returns the error. */
int ways_fail(struct ways *w, int error, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
