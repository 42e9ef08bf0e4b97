/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Requests over netlink (rtnetlink, generic netlink, conntrack) with bounded waits and the kernel's own words on failure, and
 * the socket of rtnetlink's events. One struct belongs to one thread. */
#pragma once
#include <libmnl/libmnl.h>
#include <stdint.h>

enum { RTNL_WAIT_MS = 1000, /* the longest silence inside one request or dump */
	RTNL_MSG_MAX = 1024,    /* every request we build fits */
	RTNL_PROTOCOL = 110 };  /* rtm_protocol and FRA_PROTOCOL of what is ours */

struct rtnl {
	struct mnl_socket *socket;
	uint32_t seq, portid;
	char error[256]; /* text of the last failure */
};
typedef void (*rtnl_cb)(void *ctx, const struct nlmsghdr *nlh);

/* bus: NETLINK_ROUTE, NETLINK_GENERIC, NETLINK_NETFILTER. groups: zero-terminated, NULL for a socket of requests; with groups
 * it never blocks. */
int rtnl_open(struct rtnl *r, int bus, const int *groups);
void rtnl_close(struct rtnl *r); /* takes a zeroed struct */
int rtnl_fd(const struct rtnl *r);
/* Sends nlh (NLM_F_REQUEST | NLM_F_ACK are added) and waits for its acknowledgement: 0 or -errno, -ETIMEDOUT. cb may be NULL;
 * it sees data that comes before the acknowledgement. */
int rtnl_request(struct rtnl *r, struct nlmsghdr *nlh, rtnl_cb cb, void *ctx);
/* The same for a dump. -EAGAIN: what was dumped changed meanwhile; start again. */
int rtnl_dump(struct rtnl *r, struct nlmsghdr *nlh, rtnl_cb cb, void *ctx);
/* Drains the event socket. 0, or -ENOBUFS: events were lost. */
int rtnl_events(struct rtnl *r, rtnl_cb cb, void *ctx);
