/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Interfaces and addresses, by rtnetlink: read whole at the start and after every burst of events. */
#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/log.h"
#include "daemon/parent_private.h"

int interfaces_open(struct parent *p)
{
	struct sockaddr_nl sa = { .nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR };
	p->netlink_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (p->netlink_fd < 0 || bind(p->netlink_fd, (struct sockaddr *)&sa, sizeof sa) < 0)
		return -errno;
	interfaces_read(p);
	return 0;
}

void interfaces_event(struct parent *p)
{
	char room[16384];
	for (int i = 0; i < 256 && (recv(p->netlink_fd, room, sizeof room, MSG_DONTWAIT) > 0 || errno == ENOBUFS); i++)
		;
	p->are_links_dirty = true;
}

static int on_link(const struct nlmsghdr *h, void *ctx)
{
	struct parent *p = ctx;
	const struct ifinfomsg *m = mnl_nlmsg_get_payload(h);
	const struct nlattr *a;
	if (h->nlmsg_type != RTM_NEWLINK || p->link_count == sizeof p->links / sizeof p->links[0])
		return MNL_CB_OK;
	mnl_attr_for_each(a, h, sizeof *m)
		if (mnl_attr_get_type(a) == IFLA_IFNAME) {
			struct link_entry *l = &p->links[p->link_count++];
			*l = (struct link_entry){ .ifindex = (uint32_t)m->ifi_index };
			snprintf(l->name, sizeof l->name, "%s", mnl_attr_get_str(a));
		}
	return MNL_CB_OK;
}

static int on_addr(const struct nlmsghdr *h, void *ctx)
{
	struct parent *p = ctx;
	const struct ifaddrmsg *m = mnl_nlmsg_get_payload(h);
	const struct nlattr *a, *local = NULL, *peer = NULL;
	if (h->nlmsg_type != RTM_NEWADDR || p->addr_count == sizeof p->addrs / sizeof p->addrs[0])
		return MNL_CB_OK;
	mnl_attr_for_each(a, h, sizeof *m) {
		if (mnl_attr_get_type(a) == IFA_LOCAL)
			local = a;
		if (mnl_attr_get_type(a) == IFA_ADDRESS)
			peer = a;
	}
	const struct nlattr *of_net = peer ? peer : local;
	size_t len = m->ifa_family == AF_INET ? 4 : 16;
	if (!of_net || mnl_attr_get_payload_len(of_net) < len)
		return MNL_CB_OK;
	struct addr own = { .family = m->ifa_family }, net = own;
	memcpy(own.b, mnl_attr_get_payload(local ? local : peer), len);
	memcpy(net.b, mnl_attr_get_payload(of_net), len);
	char text[ADDR_TEXT_MAX], slash[ADDR_TEXT_MAX + 8];
	snprintf(slash, sizeof slash, "%s/%u", addr_print(text, &net), m->ifa_prefixlen);
	p->addrs[p->addr_count].ifindex = m->ifa_index;
	p->addrs[p->addr_count].addr = own;
	if (prefix_parse(&p->addrs[p->addr_count].net, slash) == 0)
		p->addr_count++;
	return MNL_CB_OK;
}

static int dump(uint16_t type, int (*cb)(const struct nlmsghdr *, void *), struct parent *p)
{
	char room[32768];
	struct mnl_socket *s = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	struct nlmsghdr *h = mnl_nlmsg_put_header(room);
	h->nlmsg_type = type;
	h->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	h->nlmsg_seq = 1;
	struct rtgenmsg *g = mnl_nlmsg_put_extra_header(h, sizeof(struct ifinfomsg));
	g->rtgen_family = AF_UNSPEC;
	int r = s && mnl_socket_bind(s, 0, MNL_SOCKET_AUTOPID) == 0 && mnl_socket_sendto(s, h, h->nlmsg_len) >= 0 ? MNL_CB_OK : MNL_CB_ERROR;
	while (r > MNL_CB_STOP) {
		ssize_t n = mnl_socket_recvfrom(s, room, sizeof room);
		r = n < 0 ? MNL_CB_ERROR : mnl_cb_run(room, (size_t)n, 1, mnl_socket_get_portid(s), cb, p);
	}
	if (s)
		mnl_socket_close(s);
	return r < 0 ? -errno : 0;
}

void interfaces_read(struct parent *p)
{
	p->are_links_dirty = false;
	p->link_count = p->addr_count = 0;
	if (dump(RTM_GETLINK, on_link, p) < 0 || dump(RTM_GETADDR, on_addr, p) < 0)
		log_warn("interfaces could not be read: %s", strerror(errno));
}

uint32_t interfaces_index(const struct parent *p, const char *ifname)
{
	for (unsigned i = 0; i < p->link_count; i++)
		if (!strcmp(p->links[i].name, ifname))
			return p->links[i].ifindex;
	return 0;
}

static bool is_listening(const struct parent *p, uint32_t ifindex, const struct addr *a)
{
	const struct config *c = p->config;
	for (unsigned i = 0; i < c->server.listen_count; i++) {
		const struct cfg_listen *l = &c->server.listen[i];
		/* A wildcard address listens everywhere. */
		static const uint8_t any[16];
		bool is_wildcard = !l->ifname[0] && !memcmp(l->ep.addr.b, any, sizeof any);
		if (is_wildcard || (l->ifname[0] ? interfaces_index(p, l->ifname) == ifindex : addr_equal(&l->ep.addr, a)))
			return true;
	}
	for (unsigned i = 0; c->hijack.is_on && i < c->hijack.interface_count; i++)
		if (interfaces_index(p, c->hijack.interfaces[i]) == ifindex)
			return true;
	return false;
}

void interfaces_send(struct parent *p)
{
	struct { struct ipc_links head; } first = { .head = { .link_count = p->link_count } };
	struct prefix *nets = calloc(p->addr_count + 2, sizeof *nets);
	if (!nets)
		return;
	prefix_parse(&nets[first.head.network_count++], "127.0.0.0/8");
	prefix_parse(&nets[first.head.network_count++], "::1/128");
	for (unsigned i = 0; i < p->addr_count; i++)
		if (is_listening(p, p->addrs[i].ifindex, &p->addrs[i].addr))
			nets[first.head.network_count++] = p->addrs[i].net;
	size_t links_len = p->link_count * sizeof p->links[0], nets_len = first.head.network_count * sizeof *nets, len = sizeof first.head + links_len + nets_len;
	char *bytes = malloc(len);
	if (bytes) {
		memcpy(bytes, &first.head, sizeof first.head);
		memcpy(bytes + sizeof first.head, p->links, links_len);
		memcpy(bytes + sizeof first.head + links_len, nets, nets_len);
		int fd = ipc_memfd("nameway-links", bytes, len);
		if (fd >= 0) {
			tell_server(p, IPC_LINKS, 0, "", "", fd);
			close(fd);
		}
	}
	free(bytes);
	free(nets);
}
