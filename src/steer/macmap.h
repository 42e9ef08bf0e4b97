/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Numbers for the MAC addresses that the configuration names. The input hook writes 0x80000000 | number into the mark of packets to our DNS sockets;
 * the server reads it with SO_RCVMARK and asks the same map, built from the same configuration, for the address. Number 0: a MAC that no
 * group names, or a packet without one. */
#pragma once
#include <stdint.h>
#include "config/config.h"

enum { MACMAP_MARK = (int)0x80000000u };

struct macmap_entry { uint32_t number; uint8_t mac[6]; };
struct macmap { struct macmap_entry *v; unsigned count; /* sorted by number, each address once */ };
int macmap_build(struct macmap *ret, const struct config *c); /* 0 or -ENOMEM */
void macmap_free(struct macmap *m);
const uint8_t *macmap_mac(const struct macmap *m, uint32_t mark); /* NULL: number 0, not one of our marks, or not named by this configuration */
