/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The server's own (not a worker's) channel to the enforcer: one question at a time, waited for. Used by the compiler thread (refill, release, prefixes,
 * restore) and the control thread (queries); a mutex inside. Never on a packet's path. */
#pragma once
#include <jansson.h>
#include <stdint.h>
#include "policy/prefixes.h"
#include "steer/proto.h"

enum { LINK_WAIT_MS = 2000 };
struct steer_link;
int link_new(struct steer_link **ret, int fd, const struct steer_shared *shared);
void link_free(struct steer_link *l);
void link_element(struct steer_element *ret, uint32_t rule_id, const struct addr *a, uint32_t life_s);
/* Any count; statuses per element (may be NULL). 0 when every element is OK or SKIPPED, else -EIO, -ETIMEDOUT. */
int link_add(struct steer_link *l, const struct steer_element *e, unsigned count, uint8_t *status);
/* is_deleted per element (may be NULL). */
int link_release(struct steer_link *l, const struct steer_element *e, unsigned count, uint64_t stamp, bool drop_flows, uint8_t *is_deleted);
/* The listed ranges of one rule: which 0 names, 1 except-names; both families. drop_flows: an administrator's edit; connections to what left are dropped. */
int link_prefixes(struct steer_link *l, uint32_t rule_id, unsigned which, const struct range *v4, unsigned count4, const struct range *v6, unsigned count6, bool drop_flows);
json_t *link_query(struct steer_link *l, enum steer_query_what what, const struct addr *a); /* NULL: no answer */
