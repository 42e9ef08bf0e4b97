/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Packets to addresses, from the thread that learnt them, with the expected exit written into each. */
#pragma once
#include "exit_dns.h"

struct sent {
	uint64_t udp[4], syn[4], failed;
};
extern struct sent sent;

/* New source ports, so that no packet belongs to a connection of an earlier run. syn_every: every so many addresses a TCP
 * connection as well; 0: none. */
int send_open(unsigned syn_every);
void send_packet(const struct address *a, unsigned tag, const char *name);
