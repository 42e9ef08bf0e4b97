/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The typed configuration: read-only once config_load returned it, freed whole. Every object knows its place in the file.
 * Arrays are in file order; cross references are indexes, resolved and checked here, so nobody else looks names up.
 * The parent, the enforcer and the server each parse the same bundle (config_bundle) with this same code and get equal structures. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/addr.h"
#include "base/arena.h"
#include "base/buf.h"
#include "wire/name.h"

#define IFNAME_MAX 16
struct place { const char *file; int line, column; };

enum { CONFIG_RECORDS_MAX = 65536, CONFIG_DOMAINS_MAX = 65536, CONFIG_HOSTS_MAX = 64, CONFIG_ANSWERS_MAX = 16, CONFIG_ENTRIES_MAX = 65536, CONFIG_ENTRY_MAX = 4096 /* bytes */ };
enum { CONFIG_LISTS_MAX = 256, CONFIG_GROUPS_MAX = 256, CONFIG_WAYS_MAX = 64, CONFIG_RULES_MAX = 512, CONFIG_UPSTREAMS_MAX = 256, CONFIG_SERVERS_MAX = 16, CONFIG_FILE_MAX = 16 << 20 };

/* A set of small indexes (lists, groups), zero-terminated use is not needed: count says. */
struct ids { uint16_t *v; unsigned count; };

struct cfg_listen { struct place place; char ifname[IFNAME_MAX]; /* "" when an address */ struct endpoint ep; /* port always; addr when no ifname */ };
struct cfg_server {
	struct cfg_listen *listen; unsigned listen_count;
	struct ids allow_groups; struct prefix *allow; unsigned allow_count; bool allow_default; /* key not given: attached networks */
	unsigned workers;                /* 0 = auto */
	const char *state, *control, *user;
	uint32_t mark_mask;              /* contiguous or not, never 0 */
	uint32_t element_min_s;
	bool table_protect;              /* auto = true */
	int log_level; const char *log_to;
	bool log_queries; uint32_t log_keep_s; uint64_t log_bytes; /* the query log: kept for so long, and in so much space */
};
enum upstream_strategy { STRATEGY_ORDERED, STRATEGY_FASTEST, STRATEGY_ALL };
/* servers: given, or what the resolv.conf said when the bundle was read (then there may be none: its questions are SERVFAIL until there are). */
struct cfg_upstream { struct place place; const char *name; struct endpoint *servers; unsigned server_count; const char *resolv_conf; /* absolute path or NULL */
	enum upstream_strategy strategy; struct name *domains; unsigned domain_count; /* names at and under which this group is asked */
	uint32_t inflight_max; bool random_case; int way; /* index of the way that names it as its `upstream`, or -1 */ };
struct cfg_group { struct place place; const char *name; char (*interfaces)[IFNAME_MAX]; unsigned interface_count; char (*except_interfaces)[IFNAME_MAX]; unsigned except_interface_count;
	struct prefix *networks, *except_networks; unsigned network_count, except_network_count; uint8_t (*macs)[6], (*except_macs)[6]; unsigned mac_count, except_mac_count; };
enum list_format_id { FORMAT_AUTO, FORMAT_DOMAINS, FORMAT_HOSTS, FORMAT_ADBLOCK, FORMAT_DNSMASQ };
enum list_match { MATCH_BY_FORMAT, MATCH_EXACT, MATCH_SUFFIX };
struct cfg_list { struct place place; const char *name; const char **files; /* absolute paths or globs */ unsigned file_count;
	const char **entries; /* lines of one more file */ unsigned entry_count; struct place entries_place; enum list_format_id format; enum list_match match; unsigned shrink_limit_pct; uint64_t names_max; /* more entries are refused; 0: no limit of its own */ };
struct cfg_way {
	struct place place; const char *name; char interface[IFNAME_MAX]; /* "" = none */
	uint32_t mark;                   /* given or assigned; never 0, inside mark_mask, unique */
	bool mark_given;
	int upstream;                    /* index or -1 */
	bool kill_switch, local_access, ipv6_off, private_ok;
	int fallback;                    /* way index, no cycles; default: the way "direct", else the first without interface and sets, else -1 (main
	                                  * table); -1 for ways without interface. Meaningless under kill_switch */
	int masquerade, mss_clamp;       /* 1, 0, -1 = auto (on for point-to-point interfaces) */
	struct addr gateway4, gateway6;  /* family 0: not given */
	struct addr check_ping; uint32_t check_every_ms; uint32_t handshake_age_s; /* 0 = none */
	/* administrator's own sets: "family table set" */
	struct cfg_set { const char *family, *table, *set; struct place place; } *sets4, *sets6; unsigned set4_count, set6_count;
	const char *down_text;           /* what EDE says of a kill-switched way that is down */
	uint32_t table_id;               /* routing table number, 20000 to 29999, from the name (marks.c); 0 for ways without interface */
};
enum block_kind { BLOCK_NONE, BLOCK_NXDOMAIN, BLOCK_NODATA, BLOCK_ZERO, BLOCK_REFUSE, BLOCK_DROP, BLOCK_ANSWER /* addresses of our own */, BLOCK_CNAME /* another name's */ };
struct cfg_filter { struct place place; const char *name; bool enabled; struct ids clients, except_clients, names, except_names; enum block_kind block; bool allow;
	struct addr *answers; unsigned answer_count; struct name cname; uint32_t ttl_s; /* of what a block answers */ };
struct cfg_steer {
	struct place place; const char *name;   /* given, or "rule N" */
	bool enabled, has_gid; uint32_t gid;
	struct ids clients, except_clients, names, except_names; int way;
	uint32_t id;                     /* stable over reloads: from the name if given, else from what the rule says; names its sets */
};
struct cfg_hijack { bool is_on; char (*interfaces)[IFNAME_MAX]; unsigned interface_count; struct prefix *except; unsigned except_count; bool dot_reject; };

struct cfg_cache { uint64_t bytes; uint32_t serve_stale_s /* 0: never */, ttl_min_s, ttl_max_s, negative_ttl_max_s; bool prefetch; };
/* A record as it goes out: rdata in wire form, names in it uncompressed. */
enum owner_scope { OWNER_EXACT, OWNER_WILDCARD /* "*.x": names under x that have none of their own (RFC 4592) */, OWNER_SUBTREE /* ".x": x and everything under it */ };
struct cfg_record { struct place place; struct name owner; /* x, whatever the scope */ enum owner_scope scope; uint16_t type, rdlen; uint32_t ttl_s; const uint8_t *rdata; };
struct cfg_local { const char **hosts; /* absolute paths */ unsigned host_count; struct name domain; bool has_domain; struct cfg_record *records; unsigned record_count;
	bool is_rebind_protected; struct name *rebind_allow; unsigned rebind_allow_count; };

struct config {
	struct arena *arena;
	uint32_t serial;                 /* which configuration this is; set by the process that parsed it */
	uint32_t main_mark;              /* of traffic that no rule moves: the mark of the way `direct`, else a value no way has */
	struct cfg_server server;
	struct cfg_upstream *upstreams; unsigned upstream_count; int default_upstream; /* index or -1 */
	struct cfg_cache cache;
	struct cfg_local local;
	struct cfg_group *groups; unsigned group_count;
	struct cfg_list *lists; unsigned list_count;
	struct cfg_way *ways; unsigned way_count;
	struct cfg_filter *filters; unsigned filter_count;
	struct cfg_steer *steers; unsigned steer_count;
	struct cfg_hijack hijack;
};

/* What loading said, one line each: "FILE:LINE:COLUMN: error: TEXT" or "... warning: TEXT"; ends in a mend where there is one. */
struct report { struct buf text; unsigned errors, warnings; };
void report_init(struct report *r);
void report_free(struct report *r);
void report_add(struct report *r, bool is_error, const struct place *p /* may be NULL */, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* A bundle is the main file and its includes as one byte string (each: path, length, bytes), with the resolv.conf files that upstream
 * groups name and what must be known of this machine's interfaces for them, so that every process parses the same text.
 * config_bundle_read and config_bundle_refresh do the I/O (parent and --check only); config_parse does none. The bundle ends in a
 * hash, so a damaged last good one is refused (NW_EMALFORMED). Whatever fails is in the report. */
/* Initialises ret, which the caller frees also after a failure (it is empty then). Faults in the files' text are left to config_parse;
 * what cannot be opened or included is NW_ECONFIG. A relative path is kept as it is for messages and resolved against the directory
 * of this moment, which the bundle remembers. */
int config_bundle_read(struct buf *ret, const char *path, struct report *r);
/* The same configuration text as in a bundle, with its resolv.conf files and this machine's addresses read again. The result is equal to the old
 * bundle byte for byte when nothing changed. A resolv.conf that named servers and now is gone, cannot be read or names none keeps
 * what it said (*ret_has_kept; a warning says which). ret as above; 0, NW_EMALFORMED, -ENOMEM (both in the report). */
int config_bundle_refresh(struct buf *ret, const void *bundle, size_t len, bool *ret_has_kept, struct report *r);
int config_parse(struct config **ret, const void *bundle, size_t len, struct report *r); /* 0, NW_ECONFIG, NW_EMALFORMED, -ENOMEM; ret is untouched on failure */
void config_free(struct config *c);
/* Warnings about this machine: files, users, interfaces that do not exist; ways without a check the kernel needs. --check only. */
void config_check_system(const struct config *c, struct report *r);
