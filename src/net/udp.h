/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Batched UDP: recvmmsg into fixed buffers, answers collected and sent with sendmmsg at the turn's end, each from the address its query came to
 * (IP_PKTINFO, IPV6_PKTINFO). One thread. Per packet nothing is allocated; a socket's own state is, in udp_server_add. */
#pragma once
#include <stdbool.h>
#include "base/addr.h"
#include "net/loop.h"

enum { UDP_BATCH = 64, UDP_IN_MAX = 4096 /* queries longer are cut, hence malformed */, UDP_OUT_MAX = 4096 /* largest answer by UDP */, UDP_SOCKETS_MAX = 256 };

struct udp_path { struct endpoint from; struct addr to; uint32_t ifindex; uint32_t mark; bool has_mark; uint32_t socket; /* index of the receiving socket, from udp_server_add */ };
struct udp_packet { const uint8_t *bytes; size_t len; struct udp_path path; };

struct udp_server;
/* on_packets is called with 1..UDP_BATCH packets; the buffers are valid during the call. */
int udp_server_new(struct udp_server **ret, struct loop *l, void (*on_packets)(void *ctx, const struct udp_packet *p, unsigned count), void *ctx);
void udp_server_free(struct udp_server *s);
/* Takes a bound socket of AF_INET or AF_INET6 (ownership too, also on failure); turns on PKTINFO, RCVMARK (where the kernel has it). NW_EFULL past
 * UDP_SOCKETS_MAX. An index is used once: low 16 bits a slot, high 16 bits how often the slot was taken, so a late answer never leaves by a later socket.
 * udp_server_remove flushes, stops and closes it. */
int udp_server_add(struct udp_server *s, int fd, uint32_t *ret_index);
void udp_server_remove(struct udp_server *s, uint32_t index);
/* A buffer of UDP_OUT_MAX bytes to build an answer in; udp_commit queues it to the path. udp_reserve never fails: a full batch is flushed first.
 * Until a commit every reserve returns the same buffer. */
uint8_t *udp_reserve(struct udp_server *s);
void udp_commit(struct udp_server *s, size_t len, const struct udp_path *to);
struct udp_stat { uint64_t received, sent, send_errors /* answers lost: full socket buffer, no route, socket gone */, batches; };
void udp_server_stat(const struct udp_server *s, struct udp_stat *ret);
