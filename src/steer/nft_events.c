/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Notices of what others change in nf_tables. The socket has a filter that drops what carries our own port id, inside the kernel: our element
 * traffic costs nothing here and can not fill the buffer. All notices of one transaction carry the port id of who sent it, so a datagram is
 * either wholly ours or wholly foreign. One thread. */
#include "steer/nft_internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <linux/filter.h>
#include <linux/netfilter/nfnetlink.h>

int nft_events_filter(struct nft *n)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct nlmsghdr, nlmsg_pid)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(n->port_id), 0, 1), /* the load gives network order */
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
	};
	const struct sock_fprog program = { .len = sizeof(code) / sizeof(code[0]), .filter = code };

	if (setsockopt(mnl_socket_get_fd(n->events), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) < 0)
		return -errno;
	return 0;
}

int nft_events_listen(struct nft *n, bool is_on)
{
	const int group = NFNLGRP_NFTABLES;

	if (is_on == n->is_listening)
		return 0;
	if (setsockopt(mnl_socket_get_fd(n->events), SOL_NETLINK, is_on ? NETLINK_ADD_MEMBERSHIP : NETLINK_DROP_MEMBERSHIP, &group, sizeof(group)) < 0)
		return nft_fail(n, -errno, "watching nf_tables: %s", strerror(errno));
	n->is_listening = is_on;
	return 0;
}

int nft_events_fd(const struct nft *n)
{
	return mnl_socket_get_fd(n->events);
}

static int judge(const struct nlmsghdr *h)
{
	const struct nlattr *table;

	if (h->nlmsg_type >> 8 != NFNL_SUBSYS_NFTABLES || mnl_nlmsg_get_payload_len(h) < sizeof(struct nfgenmsg))
		return 0;
	switch (h->nlmsg_type & 0xff) {
	case NFT_MSG_NEWGEN:
	case NFT_MSG_TRACE:
		return 0;
	}
	table = nft_attr_find(h, NFTA_TABLE_NAME); /* the table's name is attribute 1 of every kind of message */
	if (!table || mnl_attr_validate(table, MNL_TYPE_NUL_STRING) < 0)
		return 0;
	if (((const struct nfgenmsg *)mnl_nlmsg_get_payload(h))->nfgen_family == NFPROTO_INET && !strcmp(mnl_attr_get_str(table), NFT_TABLE))
		return NFT_EV_OURS;
	/* New elements of other people's sets concern nobody here; deleted ones may be ours, in an administrator's set. */
	return (h->nlmsg_type & 0xff) == NFT_MSG_NEWSETELEM ? 0 : NFT_EV_FOREIGN;
}

int nft_events_read(struct nft *n)
{
	int ret = 0;

	for (;;) {
		ssize_t len = recv(mnl_socket_get_fd(n->events), n->receive, NFT_RECEIVE_LEN, MSG_DONTWAIT);
		const struct nlmsghdr *h = (const struct nlmsghdr *)n->receive;
		int left = (int)len;

		if (len < 0 && errno == EINTR)
			continue;
		if (len < 0 && errno == ENOBUFS) {
			ret |= NFT_EV_OVERFLOW;
			continue;
		}
		if (len <= 0)
			return ret;
		for (; mnl_nlmsg_ok(h, left); h = mnl_nlmsg_next(h, &left))
			ret |= judge(h);
	}
}
