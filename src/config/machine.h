/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a bundle keeps of this machine, so that every process that parses it decides alike: the numbers of the interfaces that
 * scopes of resolv.conf name, and which interfaces hold an address that a group would ask. Only what is wanted is kept, so that
 * the text stays the same while other interfaces and addresses come and go.
 *
 *   link INDEX IFNAME\n
 *   addr INDEX IFNAME ADDRESS\n
 *
 * Parsing is pure; machine_write asks the kernel (parent and --check only). */
#pragma once
#include "config/config.h"

enum { MACHINE_ADDRS_MAX = 8192, MACHINE_SCOPES_MAX = 256 };

struct machine_entry { uint32_t index; char ifname[IFNAME_MAX]; struct addr addr; /* family 0: a link */ };
struct machine { struct machine_entry *v; unsigned count; };

int machine_parse(struct machine *ret, struct arena *a, const char *text, size_t len); /* 0, NW_EMALFORMED, -ENOMEM */
uint32_t machine_index(const struct machine *m, const char *ifname);                   /* 0: there is no such interface */

/* Heap. What is past the limits is not asked about. */
struct machine_wanted { struct addr *addrs; unsigned addr_count; char (*scopes)[IFNAME_MAX]; unsigned scope_count; };

int machine_want_addr(struct machine_wanted *w, const struct addr *a);   /* 0, -ENOMEM */
int machine_want_scope(struct machine_wanted *w, const char *ifname);    /* 0, -ENOMEM */
int machine_want_resolv(struct machine_wanted *w, const char *text, size_t len); /* all that a resolv.conf names */
void machine_wanted_free(struct machine_wanted *w);
/* Appends the text; nothing when nothing wanted is there. 0, -ENOMEM, NW_ETOOLONG. */
int machine_write(struct buf *out, const struct machine_wanted *w);
