/* SPDX-License-Identifier: GPL-3.0-or-later */
/* WireGuard peers: endpoints and last handshakes. Asked of the kernel by generic netlink; where an interface is served by a
 * program (wireguard-go) of its control socket, with bounded waits and a bounded answer. */
#include <errno.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <linux/genetlink.h>
#include <linux/wireguard.h>
#include "base/buf.h"
#include "base/clock.h"
#include "steer/ways_internal.h"

enum { UAPI_WAIT_MS = 100, UAPI_MAX = 1 << 20 };

/* --- the program's control socket --- */

static bool endpoint_take(struct endpoint *ret, const char *text)
{
	/* "192.0.2.1:51820" or "[2001:db8::1]:51820" */
	char copy[ADDR_TEXT_MAX];
	const char *colon = strrchr(text, ':');
	if (!colon || colon - text >= (int)sizeof copy || colon == text)
		return false;
	bool has_brackets = text[0] == '[' && colon[-1] == ']';
	size_t len = (size_t)(colon - text) - (has_brackets ? 2 : 0);
	memcpy(copy, text + has_brackets, len);
	copy[len] = 0;
	char *zone = strchr(copy, '%');
	if (zone)
		*zone = 0;
	long port = strtol(colon + 1, NULL, 10);
	if (port < 0 || port > 65535 || addr_parse(&ret->addr, copy) < 0)
		return false;
	ret->port = (uint16_t)port;
	return true;
}

unsigned wg_uapi_parse(const char *text, void (*cb)(void *ctx, const struct wg_peer *p), void *ctx)
{
	struct wg_peer p = {0};
	unsigned count = 0;
	for (const char *line = text, *end; (end = strchr(line, '\n')) && end != line; line = end + 1) {
		char one[256];
		size_t len = (size_t)(end - line);
		if (len >= sizeof one)
			continue;
		memcpy(one, line, len);
		one[len] = 0;
		char *value = strchr(one, '=');
		if (!value)
			break;
		*value++ = 0;
		if (!strcmp(one, "public_key")) {
			if (count)
				cb(ctx, &p);
			count++;
			p = (struct wg_peer){0};
		} else if (!strcmp(one, "endpoint")) {
			if (!endpoint_take(&p.endpoint, value))
				p.endpoint = (struct endpoint){0};
		} else if (!strcmp(one, "last_handshake_time_sec")) {
			p.handshake_s = strtoll(value, NULL, 10);
		}
	}
	if (count)
		cb(ctx, &p);
	return count;
}

static int uapi_connect(const char *ifname)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	snprintf(sa.sun_path, sizeof sa.sun_path, "/var/run/wireguard/%.15s.sock", ifname);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&sa, sizeof sa) < 0 || send(fd, "get=1\n\n", 7, MSG_NOSIGNAL) != 7) {
		close(fd);
		return -ENOENT;
	}
	return fd;
}

static int uapi_peers(const char *ifname, void (*cb)(void *ctx, const struct wg_peer *p), void *ctx)
{
	if (strchr(ifname, '/'))
		return -ENOENT;
	int fd = uapi_connect(ifname);
	if (fd < 0)
		return fd;
	struct buf b;
	buf_init(&b, UAPI_MAX);
	uint64_t until = clock_ms() + UAPI_WAIT_MS;
	int e = -ETIMEDOUT;
	while (e == -ETIMEDOUT && clock_ms() < until) {
		char part[4096];
		struct pollfd p = {.fd = fd, .events = POLLIN};
		if (poll(&p, 1, (int)(until - clock_ms())) <= 0)
			continue;
		ssize_t got = recv(fd, part, sizeof part, MSG_DONTWAIT);
		if (got <= 0 || buf_add(&b, part, (size_t)got) < 0)
			e = -EIO;
		else if (b.len >= 2 && !memcmp(b.bytes + b.len - 2, "\n\n", 2))
			e = 0;
	}
	if (e == 0 && buf_add(&b, "", 1) == 0)
		wg_uapi_parse(b.bytes, cb, ctx);
	buf_free(&b);
	close(fd);
	return e;
}

/* --- the kernel --- */

struct asked {
	void (*cb)(void *ctx, const struct wg_peer *p);
	void *ctx;
	int family;
};

static void family_take(void *ctx, const struct nlmsghdr *nlh)
{
	const struct nlattr *a;
	mnl_attr_for_each(a, nlh, sizeof(struct genlmsghdr))
	{
		if (mnl_attr_get_type(a) == CTRL_ATTR_FAMILY_ID)
			*(int *)ctx = mnl_attr_get_u16(a);
	}
}

static void peer_take(struct asked *k, const struct nlattr *peer)
{
	struct wg_peer p = {0};
	const struct nlattr *a;
	mnl_attr_for_each_nested(a, peer)
	{
		if (mnl_attr_get_type(a) == WGPEER_A_ENDPOINT && mnl_attr_get_payload_len(a) >= sizeof(struct sockaddr_in)) {
			struct sockaddr_storage sa = {0};
			memcpy(&sa, mnl_attr_get_payload(a),
			        mnl_attr_get_payload_len(a) < sizeof sa ? mnl_attr_get_payload_len(a) : sizeof sa);
			(void)addr_from_sockaddr(&p.endpoint, (struct sockaddr *)&sa);
		} else if (mnl_attr_get_type(a) == WGPEER_A_LAST_HANDSHAKE_TIME && mnl_attr_get_payload_len(a) >= 8) {
			memcpy(&p.handshake_s, mnl_attr_get_payload(a), 8);
		}
	}
	k->cb(k->ctx, &p);
}

static void device_take(void *ctx, const struct nlmsghdr *nlh)
{
	struct asked *k = ctx;
	const struct nlattr *a, *peer;
	if (nlh->nlmsg_type != k->family)
		return;
	mnl_attr_for_each(a, nlh, sizeof(struct genlmsghdr))
	{
		if (mnl_attr_get_type(a) != WGDEVICE_A_PEERS)
			continue;
		mnl_attr_for_each_nested(peer, a)
		{
			peer_take(k, peer);
		}
	}
}

static struct nlmsghdr *generic_put(char *bytes, int type, uint8_t command)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);
	nlh->nlmsg_type = (uint16_t)type;
	struct genlmsghdr *g = mnl_nlmsg_put_extra_header(nlh, sizeof *g);
	g->cmd = command;
	g->version = 1;
	return nlh;
}

static int kernel_peers(struct ways *w, const char *ifname, void (*cb)(void *ctx, const struct wg_peer *p), void *ctx)
{
	char bytes[RTNL_MSG_MAX];
	struct rtnl r;
	if (w->wg_family < 0)
		return -ENOENT;
	int e = rtnl_open(&r, NETLINK_GENERIC, NULL);
	if (e < 0)
		return e;
	if (!w->wg_family) {
		struct nlmsghdr *nlh = generic_put(bytes, GENL_ID_CTRL, CTRL_CMD_GETFAMILY);
		mnl_attr_put_strz(nlh, CTRL_ATTR_FAMILY_NAME, WG_GENL_NAME);
		e = rtnl_request(&r, nlh, family_take, &w->wg_family);
		/* The module may be loaded later: endpoints_sync asks anew when links change. */
		if (e == -ENOENT)
			w->wg_family = -1;
	}
	if (e == 0) {
		struct asked k = {cb, ctx, w->wg_family};
		struct nlmsghdr *nlh = generic_put(bytes, w->wg_family, WG_CMD_GET_DEVICE);
		mnl_attr_put_strz(nlh, WGDEVICE_A_IFNAME, ifname);
		e = rtnl_dump(&r, nlh, device_take, &k);
	}
	rtnl_close(&r);
	return e == -EAGAIN ? 0 : e;
}

int wg_peers(struct ways *w, const char *ifname, void (*cb)(void *ctx, const struct wg_peer *p), void *ctx)
{
	return kernel_peers(w, ifname, cb, ctx) == 0 ? 0 : uapi_peers(ifname, cb, ctx);
}

/* --- endpoints of all tunnels --- */

static void endpoint_collect(void *ctx, const struct wg_peer *p)
{
	struct ways *w = ctx;
	if (!p->endpoint.addr.family)
		return;
	if (w->endpoint_count < WAYS_ENDPOINTS_MAX)
		w->endpoints[w->endpoint_count++] = p->endpoint;
	else
		w->has_more_endpoints = true;
}

static int by_address(const void *a, const void *b)
{
	return memcmp(&((const struct endpoint *)a)->addr, &((const struct endpoint *)b)->addr, sizeof(struct addr));
}

void wg_endpoints_sync(struct ways *w)
{
	w->endpoint_count = 0;
	w->has_more_endpoints = false;
	if (w->endpoints_dirty && w->wg_family < 0)
		w->wg_family = 0;
	w->endpoints_dirty = false;
	for (unsigned i = 0; i < w->link_count; i++)
		if (w->links[i].type == ARPHRD_NONE)
			(void)wg_peers(w, w->links[i].name, endpoint_collect,
			        w); /* a tunnel that is not WireGuard has no peers to tell */
	qsort(w->endpoints, w->endpoint_count, sizeof *w->endpoints, by_address);
}

bool ways_is_endpoint(const struct ways *w, const struct addr *a)
{
	struct endpoint key = {.addr = *a};
	return bsearch(&key, w->endpoints, w->endpoint_count, sizeof *w->endpoints, by_address);
}

unsigned ways_endpoints(const struct ways *w, struct endpoint *ret, unsigned max)
{
	unsigned n = w->endpoint_count < max ? w->endpoint_count : max;
	memcpy(ret, w->endpoints, n * sizeof *ret);
	return n;
}
