/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the server and the enforcer say to each other: fixed structs over SOCK_SEQPACKET, one socket per worker and one for the
 * server's main thread; the parent made the pairs and keeps copies, so that either side may be restarted without the other noticing
 * more than unanswered requests. Every message is length-checked; the enforcer refuses what it does not know and takes no policy here. */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

enum steer_msg_type { STEER_ADD = 1, STEER_ACK, STEER_RELEASE, STEER_RELEASED, STEER_PREFIXES, STEER_PREFIXES_DONE, STEER_QUERY, STEER_REPLY };
enum { STEER_BATCH_MAX = 200, STEER_MSG_MAX = 8192 };

struct steer_element { uint32_t rule_id; uint32_t life_s; uint8_t family; /* 4 or 6 */ uint8_t pad[3]; uint8_t addr[16]; };
/* ADD: the elements are in the kernel for at least life_s when the ACK says so. */
struct steer_add { uint16_t type, count; uint32_t seq; struct steer_element e[STEER_BATCH_MAX]; };
enum steer_status { STEER_OK = 0, STEER_SKIPPED = 1 /* a private, own, multicast, upstream's or endpoint's address: answered as it is */,
	STEER_FULL = 2, STEER_FAILED = 3, STEER_UNKNOWN = 4 /* no such rule (yet) */ };
struct steer_ack { uint16_t type, count; uint32_t seq; uint64_t stamp; uint8_t status[STEER_BATCH_MAX]; };
/* RELEASE: delete these unless an ADD touched them after `stamp` (the shared page's stamp read before the holds were walked).
 * life_s is ignored. With drop_flows conntrack entries to them are dropped as well. RELEASED says per element 1 = deleted (or absent), 0 = kept. */
struct steer_release { uint16_t type, count; uint32_t seq; uint64_t stamp; uint32_t drop_flows; uint32_t pad; struct steer_element e[STEER_BATCH_MAX]; };
/* PREFIXES: the listed ranges of one rule and family, in parts; the last part applies all in one transaction. (struct range as two 16-byte addresses.)
 * With drop_flows (in the last part) conntrack entries to addresses that left the ranges are dropped where that moves them, before it is answered. */
struct steer_range { uint8_t first[16], last[16]; };
enum { STEER_RANGES_PART = 200, STEER_RANGES_MAX = 200000 };
struct steer_prefixes { uint16_t type, count; uint32_t seq; uint32_t rule_id; uint8_t family, is_first, is_last, which; /* 0: of the rule's names, 1: of its except-names */ uint8_t drop_flows, pad[3]; struct steer_range r[STEER_RANGES_PART]; };
struct steer_done { uint16_t type; int16_t result; /* 0 or an error of base/err.h folded to 16 bits: 0 ok, -1 failed, -2 full, -3 unknown rule */ uint32_t seq; };
/* QUERY: a read-only question; REPLY carries a memfd with JSON text (SCM_RIGHTS). */
enum steer_query_what { STEER_Q_STATE = 1 /* ways, rules with counters and fill, alarms */, STEER_Q_ADDRESS /* e.addr: sets that hold it with expiry, route by way, conntrack */ };
struct steer_query { uint16_t type, what; uint32_t seq; struct steer_element e; };
struct steer_reply { uint16_t type; int16_t result; uint32_t seq; };

/* A page the enforcer writes and the server reads (sealed memfd). Two configuration slots, chosen by serial & 1, since way numbers
 * belong to a configuration. */
enum steer_state { STEER_DOWN = 0, STEER_READY = 1, STEER_REBUILDING = 2 };
struct steer_shared {
	_Atomic uint32_t state;      /* only in STEER_READY do holds stand for the kernel's elements; else every steered answer asks and waits */
	_Atomic uint32_t epoch;      /* raised when the enforcer was restarted or the table was rebuilt */
	_Atomic uint32_t rebuilds;   /* raised when a rebuild of the table begins: who waited meanwhile may wait longer */
	_Atomic uint64_t stamp;      /* raised by every ADD */
	struct { _Atomic uint32_t serial; _Atomic uint64_t ways_down, /* answered SERVFAIL: kill-switched and down */ ways_no6, /* AAAA is NODATA */ ways_off; /* down, with fallback */ } cfg[2];
	_Atomic uint64_t heartbeat_ms; /* clock_ms of the enforcer's last loop turn */
};

/* Parent to enforcer (its own socket; bundle as a memfd by SCM_RIGHTS). Each is answered by a steer_parent_reply whose text may name what is wrong. */
enum parent_msg_type { PARENT_PREPARE = 100, /* fd: bundle. Sets, routes, closed rules of serial; packet rules unchanged */
	PARENT_COMMIT,  /* packet rules of serial in one transaction; old sets and routes go */
	PARENT_ABANDON, /* forget a prepared configuration */
	PARENT_WAY,     /* name, on: administrator's way up|down */
	PARENT_FLOWS,   /* answered when the conntrack entries that COMMIT moved are gone */
	PARENT_STOP };  /* leave; the kernel stays as it is, closed */
struct parent_msg { uint16_t type, on; uint32_t serial; uint16_t hijack_port; /* local port of hijacked DNS, 0 none */ uint16_t pad; char name[64]; };
struct steer_parent_reply { uint16_t type; int16_t result; uint32_t serial; char text[1024]; };
