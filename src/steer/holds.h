/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the kernel's sets hold on our behalf, as the server knows it: (steer rule id, address, name) -> expiry. A live hold, while the enforcer's page
 * says READY in the hold's epoch, means the element outlives the answer, so nothing is asked. Holds also tell, when a name leaves a list, which
 * addresses go with it and which another name still holds; and they are what is kept in `state` and restored.
 *
 * Hash chains: a fixed array of heads, records linked at the head by compare-and-swap, so two workers cannot both insert one triple. Workers find
 * and renew without locks; only the main thread removes. A removed record stays readable for HOLD_PARKED_S and a grace period more, so a query may
 * keep its pointer while it waits for the enforcer: renewing a removed record does nothing. Records come from a bounded region of their own. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/addr.h"
#include "wire/name.h"

enum {
	HOLDS_MAX = 1 << 20,
	HOLDS_DEFAULT = 1 << 18, /* (rule, address, name) at once; beyond, steered answers are SERVFAIL */
	HOLD_PARKED_S = 30,      /* no query keeps a record longer */
};
struct holds;
struct hold {
	_Atomic uint64_t life;            /* epoch, asked bit and expiry in one word: see hold_expires_s, hold_epoch */
	struct hold *_Atomic next;
	struct hold *listed_next;         /* the journal's stack */
	struct hold *removed_next;
	uint64_t hash;
	_Atomic uint32_t journal_s;       /* expiry as last listed */
	_Atomic uint8_t is_listed;
	uint32_t asked_s, removed_s;      /* main thread: when a sweep last saw it asked for; when it was removed */
	uint32_t rule_id;
	struct addr addr;
	uint8_t name_len;
	uint8_t name[];                   /* lower-case wire */
};

/* 0, -EINVAL (capacity 0 or above HOLDS_MAX), -ENOMEM. */
int holds_new(struct holds **ret, uint32_t capacity);
void holds_free(struct holds *h); /* no other user may be left; waits for what was deferred; takes NULL */
/* Worker, in a read section, hot path: true when a live hold of this epoch lasts until need_until_s. name_hash: any stable per-process hash of the
 * whole name, the same in both functions. */
bool holds_cover(const struct holds *h, uint32_t rule_id, const struct addr *a, const uint8_t *name, uint8_t name_len, uint64_t name_hash,
	uint32_t epoch, uint32_t need_until_s);
/* Any thread in a read section (registered and online). Before the request is sent: makes the record exist, a new one with expiry 0, and marks it
 * as asked for, so that a concurrent release sees the name and holds_sweep leaves it for HOLD_PARKED_S. NULL: full. The record may be used for
 * HOLD_PARKED_S. */
struct hold *holds_insert(struct holds *h, uint32_t rule_id, const struct addr *a, const uint8_t *name, uint8_t name_len, uint64_t name_hash);
/* After the acknowledgement, or at restoring. expires_s: monotonic seconds, a little before the kernel's. Only ever raises within an epoch; an older
 * epoch is ignored. False: the record was removed meanwhile; the next answer asks again. Lists the record for the journal when it is
 * new there or moved by over 60 s or over a quarter of its life. */
bool hold_renew(struct holds *h, struct hold *d, uint32_t epoch, uint32_t now_s, uint32_t expires_s);
uint32_t hold_expires_s(const struct hold *d); /* 0: never acknowledged */
uint32_t hold_epoch(const struct hold *d);     /* 31 bits of it */

/* The rest: one thread at a time ("main"), none of them blocks. */
/* cb returns true to remove (also what was renewed since it looked). */
void holds_walk(struct holds *h, bool (*cb)(void *ctx, const struct hold *d), void *ctx);
/* Removes what expired over keep_s ago and frees, a grace period later, what was removed over HOLD_PARKED_S ago.
 * Returns how many stay. For about once a second to once a minute. */
unsigned holds_sweep(struct holds *h, uint32_t now_s, uint32_t keep_s);
/* Calls back for every record listed for the journal since the last call; returns how many. Removed ones are left out. */
unsigned holds_drain_new(struct holds *h, void (*cb)(void *ctx, const struct hold *d), void *ctx);
uint32_t holds_count(const struct holds *h); /* any thread */

/* How long an element is asked to live so that a client may use it for need_s: a quarter longer, so that a busy name is renewed now and then, not with
 * every answer. The hold ends a second before the kernel's element. */
static inline uint32_t hold_life_s(uint32_t need_s)
{
	return need_s + (need_s / 4 < 2 ? 2 : need_s / 4);
}
