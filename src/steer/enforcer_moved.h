/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Copies of what decides about connections, of before and after a change, and the dropping of those it moves. Made on the enforcer's thread, compared
 * on the one of enforcer_flows.c; the last user frees. */
#pragma once
#include "steer/enforcer_private.h"

/* only: destinations to be looked at (both families mixed, each in order); NULL: all. NULL: out of memory. */
struct moved_view *moved_view_new(struct enforcer *e, const struct policy_config *pc, const struct range_list *only);
struct moved_view *moved_view_share(struct moved_view *v); /* one more user */
void moved_view_free(struct moved_view *v);                /* takes NULL */
bool moved_rules_differ(const struct moved_view *a, const struct moved_view *b); /* anything but the addresses they hold */
int moved_drop(struct moved_view *before, struct moved_view *after);             /* how many, or a negative error */
