/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the kernel knows about who is at the other end of an accepted connection. */
#pragma once
#include "net/tcp.h"

/* Asks a listening socket to keep for each connection what tcp_path_read reads. Best effort: what is missing is said in the path.
 */
void tcp_path_prepare(int listen_fd);
/* ifindex: known by the listener, or 0. Reads the saved SYN, which the kernel gives once. 0 or a negative error: the peer is
 * gone. */
int tcp_path_read(struct tcp_path *ret, int fd, uint32_t ifindex);
/* The Ethernet source of a saved SYN; zeros when its link has no Ethernet header, and on the loopback. False when that cannot be
 * told: it is not a SYN from `from`. */
bool tcp_syn_mac(uint8_t ret_mac[6], const uint8_t *syn, size_t len, const struct addr *from);
