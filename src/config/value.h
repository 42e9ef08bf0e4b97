/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Typed values: a scalar node into a number, duration, address ... Each returns 0, or NW_ECONFIG after reporting place, fault
 * and mend. The list forms take one value or a sequence (or NULL: none), leave out what is wrong, and fail only for want of
 * memory. */
#pragma once
#include "config/tree.h"

/* What the conversion of one bundle shares. */
struct load { struct config *c; struct report *r; const char *cwd; };

struct choice { const char *text; int value; bool is_carried; };

int value_bool(struct load *l, const struct node *n, bool *ret);
int value_number(struct load *l, const struct node *n, uint64_t min, uint64_t max, uint64_t *ret);
int value_duration(struct load *l, const struct node *n, uint64_t min_ms, uint64_t max_ms, uint64_t *ret_ms);
int value_size(struct load *l, const struct node *n, uint64_t min, uint64_t max, uint64_t *ret);
int value_percent(struct load *l, const struct node *n, unsigned *ret);
int value_choice(struct load *l, const struct node *n, const struct choice *choices, unsigned count, int *ret);
int value_text(struct load *l, const struct node *n, size_t max_len, const char **ret);
/* Makes the path absolute, from the directory of the node's file. */
int value_path(struct load *l, const struct node *n, const char **ret);
int value_ifname(struct load *l, const struct node *n, char ret[IFNAME_MAX]);
int value_addr(struct load *l, const struct node *n, struct addr *ret);
int value_prefix(struct load *l, const struct node *n, struct prefix *ret);
int value_endpoint(struct load *l, const struct node *n, struct endpoint *ret); /* an address, not an interface */
int value_mac(struct load *l, const struct node *n, uint8_t ret[6]);

int values_ifname(struct load *l, const struct node *n, char (**ret)[IFNAME_MAX], unsigned *count);
int values_prefix(struct load *l, const struct node *n, struct prefix **ret, unsigned *count);
int values_mac(struct load *l, const struct node *n, uint8_t (**ret)[6], unsigned *count);

bool ifname_is_good(const char *text); /* 1 to 15 bytes the kernel accepts, and not an address gone wrong */
/* Reports that a value is bad: "`KEY`: `TEXT` PROBLEM". Returns NW_ECONFIG. */
int value_refuse(struct load *l, const struct node *n, const char *problem);
