/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Typed values: a scalar node into a number, duration, address ... Each returns 0, or NW_ECONFIG after reporting place, fault
 * and mend. The list forms take one value or a sequence (or NULL: none), leave out what is wrong, and fail only for want of
 * memory. */
#pragma once
#include "config/machine.h"
#include "config/tree.h"

/* What the conversion of one bundle shares. resolvs and their texts are the bundle's. */
struct load_resolv { const char *path, *text; size_t len; };
struct load { struct config *c; struct report *r; const char *cwd; struct load_resolv *resolvs; unsigned resolv_count; struct machine machine; };

#define HOUR_MS 3600000ULL
#define DAY_MS 86400000ULL

struct choice { const char *text; int value; bool is_carried; };

int value_bool(struct load *l, const struct node *n, bool *ret);
int value_number(struct load *l, const struct node *n, uint64_t min, uint64_t max, uint64_t *ret);
int value_duration(struct load *l, const struct node *n, uint64_t min_ms, uint64_t max_ms, uint64_t *ret_ms);
int value_size(struct load *l, const struct node *n, uint64_t min, uint64_t max, uint64_t *ret);
int value_percent(struct load *l, const struct node *n, unsigned *ret);
int value_choice(struct load *l, const struct node *n, const struct choice *choices, unsigned count, int *ret);
int value_text(struct load *l, const struct node *n, size_t max_len, const char **ret);
/* A path of a file's text as it is opened: from the directory of that file, which may itself be relative to cwd. NULL: no memory. */
const char *path_absolute(struct arena *a, const char *cwd, const char *file, const char *text);
/* Makes the path absolute, from the directory of the node's file. */
int value_path(struct load *l, const struct node *n, const char **ret);
int value_ifname(struct load *l, const struct node *n, char ret[IFNAME_MAX]);
int value_addr(struct load *l, const struct node *n, struct addr *ret);
int value_prefix(struct load *l, const struct node *n, struct prefix *ret);
int value_endpoint(struct load *l, const struct node *n, struct endpoint *ret); /* an address, not an interface */
int value_mac(struct load *l, const struct node *n, uint8_t ret[6]);
int value_name(struct load *l, const struct node *n, struct name *ret); /* a domain with all under it; not the root */

int values_ifname(struct load *l, const struct node *n, char (**ret)[IFNAME_MAX], unsigned *count);
int values_prefix(struct load *l, const struct node *n, struct prefix **ret, unsigned *count);
int values_mac(struct load *l, const struct node *n, uint8_t (**ret)[6], unsigned *count);
int values_path(struct load *l, const struct node *n, const char ***ret, unsigned *count);
int values_name(struct load *l, const struct node *n, struct name **ret, unsigned *count);

bool ifname_is_good(const char *text); /* 1 to 15 bytes the kernel accepts, and not an address gone wrong */
/* Reports that a value is bad: "`KEY`: `TEXT` PROBLEM". Returns NW_ECONFIG. */
int value_refuse(struct load *l, const struct node *n, const char *problem);
