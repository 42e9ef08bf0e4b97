/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The text of a resolv.conf: its `nameserver` lines, and nothing else. Pure. */
#pragma once
#include "config/config.h"

struct resolv_reader { const char *at, *end; int line; };
/* One `nameserver` line. addr.family is 0 when text is no address; scope is what stands behind % in it. */
struct resolv_server { int line, column; char text[ADDR_TEXT_MAX + IFNAME_MAX]; struct addr addr; char scope[IFNAME_MAX]; };

/* The next one; false at the end. Any bytes will do; lines end with LF, CR LF or the text. */
bool resolv_next(struct resolv_reader *r, struct resolv_server *ret);
