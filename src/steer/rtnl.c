/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Netlink requests with bounded waits. Replies are matched by sequence number, so that an answer which comes after its
 * request was given up cannot be taken for another's. Any thread, one at a time per struct rtnl. */
#include <errno.h>
#include <stdbool.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <linux/netlink.h>
#include "base/clock.h"
#include "base/err.h"
#include "steer/rtnl.h"

enum { RECV_MAX = 32768 };

static void option_set(struct rtnl *r, int option)
{
	int on = 1;
	/* Older kernels lack some of them; each only makes answers better. */
	(void)mnl_socket_setsockopt(r->socket, option, &on, sizeof on);
}

int rtnl_open(struct rtnl *r, int bus, const int *groups)
{
	memset(r, 0, sizeof *r);
	r->socket = mnl_socket_open2(bus, SOCK_CLOEXEC | (groups ? SOCK_NONBLOCK : 0));
	if (!r->socket)
		return -errno;
	if (mnl_socket_bind(r->socket, 0, MNL_SOCKET_AUTOPID) < 0) {
		int e = -errno;
		rtnl_close(r);
		return e;
	}
	r->portid = mnl_socket_get_portid(r->socket);
	option_set(r, NETLINK_EXT_ACK);
	option_set(r, NETLINK_CAP_ACK);
	if (bus == NETLINK_ROUTE)
		option_set(r, NETLINK_GET_STRICT_CHK);
	int bytes = groups ? 4 << 20 : 1 << 20;
	if (setsockopt(rtnl_fd(r), SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) < 0)
		(void)setsockopt(rtnl_fd(r), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
	for (; groups && *groups; groups++) {
		int group = *groups;
		if (mnl_socket_setsockopt(r->socket, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) < 0) {
			int e = -errno;
			rtnl_close(r);
			return e;
		}
	}
	return 0;
}

void rtnl_close(struct rtnl *r)
{
	if (r->socket)
		mnl_socket_close(r->socket);
	r->socket = NULL;
}

int rtnl_fd(const struct rtnl *r)
{
	return mnl_socket_get_fd(r->socket);
}

/* The extended acknowledgement stands behind the echoed request, which NETLINK_CAP_ACK shortens to its header. */
static void error_note(struct rtnl *r, const struct nlmsghdr *nlh, int error)
{
	const struct nlmsgerr *e = mnl_nlmsg_get_payload(nlh);
	const char *words = NULL;
	size_t skip = sizeof *e;
	if (!(nlh->nlmsg_flags & NLM_F_CAPPED))
		skip += e->msg.nlmsg_len - sizeof e->msg;
	if ((nlh->nlmsg_flags & NLM_F_ACK_TLVS) && skip <= mnl_nlmsg_get_payload_len(nlh)) {
		const struct nlattr *a;
		mnl_attr_for_each(a, nlh, skip)
		{
			if (mnl_attr_get_type(a) == NLMSGERR_ATTR_MSG && mnl_attr_validate(a, MNL_TYPE_NUL_STRING) >= 0)
				words = mnl_attr_get_str(a);
		}
	}
	if (words)
		snprintf(r->error, sizeof r->error, "%s (the kernel: %s)", nw_strerror(error), words);
	else
		snprintf(r->error, sizeof r->error, "%s", nw_strerror(error));
}

static int wait_readable(struct rtnl *r, uint64_t until_ms)
{
	for (;;) {
		uint64_t now = clock_ms();
		struct pollfd p = {.fd = rtnl_fd(r), .events = POLLIN};
		int n = poll(&p, 1, now < until_ms ? (int)(until_ms - now) : 0);
		if (n > 0)
			return 0;
		if (n == 0) {
			snprintf(r->error, sizeof r->error, "the kernel did not answer within %d ms", RTNL_WAIT_MS);
			return -ETIMEDOUT;
		}
		if (errno != EINTR)
			return -errno;
	}
}

/* Reads answers of request `seq` until its end. */
static int answers_read(struct rtnl *r, uint32_t seq, rtnl_cb cb, void *ctx)
{
	char bytes[RECV_MAX] __attribute__((aligned(NLMSG_ALIGNTO)));
	bool was_interrupted = false;
	for (;;) {
		int e = wait_readable(r, clock_ms() + RTNL_WAIT_MS);
		if (e < 0)
			return e;
		ssize_t got = recv(rtnl_fd(r), bytes, sizeof bytes, MSG_DONTWAIT);
		if (got < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (got < 0)
			return -errno;
		int left = (int)got;
		for (const struct nlmsghdr *nlh = (void *)bytes; mnl_nlmsg_ok(nlh, left); nlh = mnl_nlmsg_next(nlh, &left)) {
			if (nlh->nlmsg_seq != seq || nlh->nlmsg_pid != r->portid)
				continue;
			was_interrupted |= nlh->nlmsg_flags & NLM_F_DUMP_INTR;
			if (nlh->nlmsg_type == NLMSG_DONE) {
				int code = mnl_nlmsg_get_payload_len(nlh) >= sizeof(int) ? *(int *)mnl_nlmsg_get_payload(nlh) : 0;
				return code < 0 ? code : was_interrupted ? -EAGAIN : 0;
			}
			if (nlh->nlmsg_type == NLMSG_ERROR) {
				const struct nlmsgerr *a = mnl_nlmsg_get_payload(nlh);
				if (a->error)
					error_note(r, nlh, a->error);
				return a->error;
			}
			if (nlh->nlmsg_type >= NLMSG_MIN_TYPE && cb)
				cb(ctx, nlh);
		}
	}
}

static int send_and_read(struct rtnl *r, struct nlmsghdr *nlh, rtnl_cb cb, void *ctx)
{
	nlh->nlmsg_seq = ++r->seq ? r->seq : ++r->seq; /* zero is the sequence number of events */
	r->error[0] = 0;
	if (mnl_socket_sendto(r->socket, nlh, nlh->nlmsg_len) < 0) {
		int e = -errno;
		snprintf(r->error, sizeof r->error, "%s", nw_strerror(e));
		return e;
	}
	return answers_read(r, nlh->nlmsg_seq, cb, ctx);
}

int rtnl_request(struct rtnl *r, struct nlmsghdr *nlh, rtnl_cb cb, void *ctx)
{
	nlh->nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
	return send_and_read(r, nlh, cb, ctx);
}

int rtnl_dump(struct rtnl *r, struct nlmsghdr *nlh, rtnl_cb cb, void *ctx)
{
	nlh->nlmsg_flags |= NLM_F_REQUEST | NLM_F_DUMP;
	return send_and_read(r, nlh, cb, ctx);
}

int rtnl_events(struct rtnl *r, rtnl_cb cb, void *ctx)
{
	char bytes[RECV_MAX] __attribute__((aligned(NLMSG_ALIGNTO)));
	int result = 0;
	/* A bounded number of datagrams a call: whoever floods events gets a resync, not our whole attention. */
	for (int n = 0; n < 1024; n++) {
		ssize_t got = recv(rtnl_fd(r), bytes, sizeof bytes, MSG_DONTWAIT);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == ENOBUFS) {
			result = -ENOBUFS;
			continue;
		}
		if (got <= 0)
			break;
		int left = (int)got;
		for (const struct nlmsghdr *nlh = (void *)bytes; mnl_nlmsg_ok(nlh, left); nlh = mnl_nlmsg_next(nlh, &left))
			cb(ctx, nlh);
	}
	return result;
}
