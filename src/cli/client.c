/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What this machine knows of a client: its neighbour table (address, Ethernet address, interface) and its own networks. The
 * server, which may not look there, is told; what is not found is left to it. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <libmnl/libmnl.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include "base/addr.h"
#include "cli/cli.h"

struct wanted {
	bool has_addr, has_mac;
	struct addr addr;
	uint8_t mac[6];
};
struct found {
	bool has_mac;
	struct addr addr;
	uint8_t mac[6];
	char ifname[IF_NAMESIZE];
};
struct search {
	struct wanted wanted;
	struct found found;
};

static int take_neighbour(const struct nlmsghdr *nlh, void *ctx)
{
	struct search *s = ctx;
	const struct ndmsg *n = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *at;
	struct found f = {.addr.family = n->ndm_family};
	if (n->ndm_family != AF_INET && n->ndm_family != AF_INET6)
		return MNL_CB_OK;
	mnl_attr_for_each(at, nlh, sizeof(*n))
	{
		size_t len = mnl_attr_get_payload_len(at);
		if (mnl_attr_get_type(at) == NDA_DST && len <= sizeof(f.addr.b))
			memcpy(f.addr.b, mnl_attr_get_payload(at), len);
		if (mnl_attr_get_type(at) == NDA_LLADDR && len == 6) {
			memcpy(f.mac, mnl_attr_get_payload(at), 6);
			f.has_mac = true;
		}
	}
	if (!f.has_mac || (s->wanted.has_addr && !addr_equal(&f.addr, &s->wanted.addr)) ||
	        (s->wanted.has_mac && memcmp(f.mac, s->wanted.mac, 6)))
		return MNL_CB_OK;
	/* A client has several addresses: rules mostly tell IPv4 networks apart. */
	if (s->found.has_mac && f.addr.family == AF_INET6)
		return MNL_CB_OK;
	if (!if_indextoname((unsigned)n->ndm_ifindex, f.ifname))
		return MNL_CB_OK;
	s->found = f;
	return MNL_CB_OK;
}

static void search_neighbours(struct search *s)
{
	char bytes[16384];
	struct mnl_socket *nl = mnl_socket_open(NETLINK_ROUTE);
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);
	nlh->nlmsg_type = RTM_GETNEIGH;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	nlh->nlmsg_seq = 1;
	mnl_nlmsg_put_extra_header(nlh, sizeof(struct ndmsg));
	if (!nl)
		return;
	ssize_t n = mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) < 0 || mnl_socket_sendto(nl, nlh, nlh->nlmsg_len) < 0 ? -1 : 1;
	while (n > 0 && (n = mnl_socket_recvfrom(nl, bytes, sizeof(bytes))) > 0)
		if (mnl_cb_run(bytes, (size_t)n, 1, mnl_socket_get_portid(nl), take_neighbour, s) <= MNL_CB_STOP)
			break;
	mnl_socket_close(nl);
}

static uint8_t prefix_length(const struct sockaddr *mask)
{
	struct endpoint e;
	uint8_t len = 0;
	/* A mask of zeros or ones looks like any address. */
	if (!mask || addr_from_sockaddr(&e, mask) < 0)
		return 255;
	for (unsigned i = 0; i < (e.addr.family == AF_INET ? 32u : 128u); i++)
		len = (uint8_t)(len + (e.addr.b[i / 8] >> (7 - i % 8) & 1));
	return len;
}

/* The interface whose network holds `of` (ifname NULL), or the address that this machine has on `ifname`. */
static bool search_own(const struct addr *of, const char *ifname, struct found *ret)
{
	struct ifaddrs *all, *i;
	bool is_found = false;
	if (getifaddrs(&all) < 0)
		return false;
	for (i = all; i && !is_found; i = i->ifa_next) {
		struct endpoint e;
		if (!i->ifa_addr || (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6) ||
		        addr_from_sockaddr(&e, i->ifa_addr) < 0)
			continue;
		struct prefix p = {.addr = e.addr, .len = prefix_length(i->ifa_netmask)};
		if (ifname ? strcmp(ifname, i->ifa_name) || e.addr.family != AF_INET : p.len > 128 || p.addr.family != of->family)
			continue;
		for (unsigned b = p.len; !ifname && b < (p.addr.family == AF_INET ? 32u : 128u); b++)
			p.addr.b[b / 8] &= (uint8_t) ~(0x80 >> b % 8);
		if (!ifname && !prefix_contains(&p, of))
			continue;
		strncpy(ret->ifname, i->ifa_name, sizeof(ret->ifname) - 1);
		ret->addr = e.addr;
		is_found = true;
	}
	freeifaddrs(all);
	return is_found;
}

static bool read_mac(const char *text, uint8_t ret[6])
{
	unsigned b[6];
	char end;
	if (sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x%c", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5], &end) != 6)
		return false;
	for (unsigned i = 0; i < 6; i++)
		ret[i] = (uint8_t)b[i];
	return true;
}

static void say(json_t *request, const struct found *f, bool with_address)
{
	char text[ADDR_TEXT_MAX];
	if (with_address && f->addr.family)
		json_object_set_new(request, "client_address", json_string(addr_print(text, &f->addr)));
	if (f->ifname[0])
		json_object_set_new(request, "client_interface", json_string(f->ifname));
	if (!f->has_mac)
		return;
	snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", f->mac[0], f->mac[1], f->mac[2], f->mac[3], f->mac[4],
	        f->mac[5]);
	json_object_set_new(request, "client_mac", json_string(text));
}

void client_look_up(json_t *request, const char *client)
{
	struct search s = {0};
	s.wanted.has_mac = read_mac(client, s.wanted.mac);
	s.wanted.has_addr = !s.wanted.has_mac && addr_parse(&s.wanted.addr, client) == 0;
	if (!s.wanted.has_mac && !s.wanted.has_addr) {
		if (search_own(NULL, client, &s.found))
			say(request, &s.found, true);
		return;
	}
	search_neighbours(&s);
	if (!s.found.has_mac && s.wanted.has_addr)
		search_own(&s.wanted.addr, NULL, &s.found);
	say(request, &s.found, s.wanted.has_mac);
}
