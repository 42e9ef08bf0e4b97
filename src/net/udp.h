/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Batched UDP: recvmmsg into fixed buffers, answers collected and sent with sendmmsg at the turn's end, each from the address its query came to
 * (IP_PKTINFO, IPV6_PKTINFO, where the socket is not bound to one). One thread. Per packet nothing is allocated; a socket's own state is, in udp_server_add. */
#pragma once
#include <netinet/in.h>
#include <stdbool.h>
#include "base/addr.h"
#include "net/loop.h"

enum { UDP_BATCH = 64, UDP_IN_MAX = 4096 /* queries longer are cut, hence malformed */, UDP_OUT_MAX = 4096 /* largest answer by UDP */, UDP_SOCKETS_MAX = 256 };

/* from, to, ifindex and mark are for the reader; the answer goes to `name`. */
struct udp_path {
	struct endpoint from;
	struct addr to;
	uint32_t ifindex, mark;   /* where not wanted: 0 */
	uint32_t socket;          /* index of the receiving socket, from udp_server_add */
	bool has_mark, is_bound;  /* is_bound: the socket has no other address than `to` */
	uint8_t name_len;
	union { struct sockaddr any; struct sockaddr_in v4; struct sockaddr_in6 v6; } name; /* the sender, as the kernel said it */
};
struct udp_packet { const uint8_t *bytes; size_t len; struct udp_path path; };

struct udp_server;
/* on_packets is called with 1..UDP_BATCH packets; the buffers are valid during the call. */
int udp_server_new(struct udp_server **ret, struct loop *l, void (*on_packets)(void *ctx, const struct udp_packet *p, unsigned count), void *ctx);
void udp_server_free(struct udp_server *s);
/* Takes a bound socket of AF_INET or AF_INET6 (ownership too, also on failure); turns on what is wanted. NW_EFULL past
 * UDP_SOCKETS_MAX. An index is used once: low 16 bits a slot, high 16 bits how often the slot was taken, so a late answer never leaves by a later socket.
 * udp_server_remove flushes, stops and closes it. */
int udp_server_add(struct udp_server *s, int fd, uint32_t *ret_index);
void udp_server_remove(struct udp_server *s, uint32_t index);
/* What the reader needs of a path, for sockets of now and later: each costs a hundredth or two of a packet. At first both. Packets that waited in a socket
 * when the interface was not wanted come without it. A socket that is not bound to one address always tells the interface; the mark takes Linux 5.19. */
void udp_server_want(struct udp_server *s, bool interface, bool mark);
/* A buffer of UDP_OUT_MAX bytes to build an answer in; udp_commit queues it to the path. udp_reserve never fails: a full batch is flushed first.
 * Until a commit every reserve returns the same buffer. */
uint8_t *udp_reserve(struct udp_server *s);
void udp_commit(struct udp_server *s, size_t len, const struct udp_path *to);
struct udp_stat { uint64_t received, sent, send_errors /* answers lost: full socket buffer, no route, socket gone */, batches; };
void udp_server_stat(const struct udp_server *s, struct udp_stat *ret);
