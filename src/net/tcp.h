/* SPDX-License-Identifier: GPL-3.0-or-later */
/* DNS over TCP sessions (RFC 7766): pipelined, answered out of order, bounded in count, idle time and queries in flight. One thread. */
#pragma once
#include <stdbool.h>
#include "base/addr.h"
#include "net/loop.h"

enum { TCP_SESSIONS_MAX = 512 /* per worker; the longest idle one goes when full */, TCP_PER_CLIENT_MAX = 32 /* per source address */, TCP_IDLE_MS = 10000, TCP_FIRST_MS = 5000 /* a whole first query */,
	TCP_INFLIGHT_MAX = 64 /* per session: reading stops above */, TCP_OUT_MAX = 256 * 1024 /* unsent answer bytes: reading stops at a quarter; above, the session is closed */,
	TCP_LISTENERS_MAX = 256 };

struct tcp_session;
struct tcp_path { struct endpoint from; struct addr to; uint32_t ifindex; bool mac_known; uint8_t mac[6]; /* from the saved SYN (TCP_SAVE_SYN=2) */ };
struct tcp_server;
/* on_message: one whole message; the callee answers now or later with tcp_answer(session, ticket). A session that ended meanwhile swallows the answer:
 * tickets keep the session's memory alive until each was answered or dropped. msg is valid during the call, path as long as the ticket. */
int tcp_server_new(struct tcp_server **ret, struct loop *l, void (*on_message)(void *ctx, struct tcp_session *s, const struct tcp_path *path, const uint8_t *msg, size_t len), void *ctx);
void tcp_server_free(struct tcp_server *t);
/* Takes a listening socket (ownership too, also on failure). ifindex: the interface it is bound to, 0 when none; then each session asks the kernel. */
int tcp_server_add(struct tcp_server *t, int listen_fd, uint32_t ifindex, uint32_t *ret_index);
void tcp_server_remove(struct tcp_server *t, uint32_t index); /* stops listening; sessions go on */
void tcp_answer(struct tcp_session *s, const uint8_t *msg, size_t len); /* copies; exactly one of tcp_answer/tcp_drop per on_message */
void tcp_drop(struct tcp_session *s);
struct tcp_stat { uint64_t accepted, open, queries, closed_idle /* too slow or idle */, closed_full /* to make room, or one client had too many */, closed_bad /* framing, or answers not read */; };
void tcp_server_stat(const struct tcp_server *t, struct tcp_stat *ret);
