/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Peer, own address, interface and MAC of an accepted connection. The MAC comes from the SYN that the kernel saved with its link
 * header (TCP_SAVE_SYN = 2). Connections made through SYN cookies have no saved SYN: their MAC is unknown. What came by a link
 * without Ethernet (a tunnel, PPP) is known to have none. */
#include "net/tcp_path.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

#ifndef TCP_SAVE_SYN
#define TCP_SAVE_SYN 27
#endif
#ifndef TCP_SAVED_SYN
#define TCP_SAVED_SYN 28
#endif
#ifndef IPV6_2292PKTOPTIONS
#define IPV6_2292PKTOPTIONS 6
#endif

enum { ETHER_HEADER = 14, TCP_HEADER = 20, SYN_MAX = 14 + 40 + 256 + 60 };

void tcp_path_prepare(int listen_fd)
{
	int with_link_header = 2, on = 1;

	(void)setsockopt(listen_fd, IPPROTO_TCP, TCP_SAVE_SYN, &with_link_header, sizeof(with_link_header));
	(void)setsockopt(listen_fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on));
	(void)setsockopt(listen_fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof(on));
}

/* The interface the SYN came in by; accepted sockets inherit the request for it from the listener. */
static uint32_t arrival_ifindex(int fd, int family)
{
	union {
		struct cmsghdr align;
		uint8_t bytes[256];
	} control;
	socklen_t len = sizeof(control);
	struct msghdr h = {.msg_control = &control};
	int r;

	if (family == AF_INET)
		r = getsockopt(fd, IPPROTO_IP, IP_PKTOPTIONS, &control, &len);
	else
		r = getsockopt(fd, IPPROTO_IPV6, IPV6_2292PKTOPTIONS, &control, &len);
	if (r < 0)
		return 0;
	h.msg_controllen = len;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c; c = CMSG_NXTHDR(&h, c)) {
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			struct in_pktinfo p;

			memcpy(&p, CMSG_DATA(c), sizeof(p));
			return (uint32_t)p.ipi_ifindex;
		}
		if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
			struct in6_pktinfo p;

			memcpy(&p, CMSG_DATA(c), sizeof(p));
			return p.ipi6_ifindex;
		}
	}
	return 0;
}

/* An IP header, and the TCP header behind it, from `from`. */
static bool is_ip_from(const uint8_t *ip, size_t len, const struct addr *from)
{
	bool is_v4 = from->family == AF_INET;
	size_t source_at = is_v4 ? 12 : 8, source_len = is_v4 ? 4 : 16, header_len = is_v4 ? 20 : 40;

	return len >= header_len + TCP_HEADER && ip[0] >> 4 == (is_v4 ? 4 : 6) && memcmp(ip + source_at, from->b, source_len) == 0;
}

bool tcp_syn_mac(uint8_t ret_mac[6], const uint8_t *syn, size_t len, const struct addr *from)
{
	const uint8_t *type = syn + 12;
	bool is_v4 = from->family == AF_INET;

	if (len > ETHER_HEADER && (is_v4 ? type[0] == 0x08 && type[1] == 0x00 : type[0] == 0x86 && type[1] == 0xdd) &&
	        is_ip_from(syn + ETHER_HEADER, len - ETHER_HEADER, from)) {
		memcpy(ret_mac, syn + 6, 6);
		return true;
	}
	if (!is_ip_from(syn, len, from))
		return false;
	memset(ret_mac, 0, 6);
	return true;
}

int tcp_path_read(struct tcp_path *ret, int fd, uint32_t ifindex)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	struct tcp_path p = {.ifindex = ifindex};
	struct endpoint to;
	uint8_t syn[SYN_MAX];
	int r;

	if (getpeername(fd, (struct sockaddr *)&sa, &len) < 0)
		return -errno;
	r = addr_from_sockaddr(&p.from, (struct sockaddr *)&sa);
	if (r < 0)
		return r;
	len = sizeof(sa);
	if (getsockname(fd, (struct sockaddr *)&sa, &len) < 0)
		return -errno;
	r = addr_from_sockaddr(&to, (struct sockaddr *)&sa);
	if (r < 0)
		return r;
	p.to = to.addr;
	if (!p.ifindex)
		p.ifindex = arrival_ifindex(fd, sa.ss_family);
	len = sizeof(syn);
	if (getsockopt(fd, IPPROTO_TCP, TCP_SAVED_SYN, syn, &len) == 0)
		p.mac_known = tcp_syn_mac(p.mac, syn, len, &p.from.addr);
	*ret = p;
	return 0;
}
