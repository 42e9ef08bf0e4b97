/* SPDX-License-Identifier: GPL-3.0-or-later */
/* DNS sockets: for every place to listen, family, protocol and worker one, bound with SO_REUSEPORT. A place that is an interface is bound to the device,
 * so all its addresses are served as they come and go; when the interface is made anew (another index) its sockets are too. The parent keeps every
 * socket open, so queries wait in the kernel while the server is restarted. Sockets of ways are marked and bound here and given away. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/log.h"
#include "daemon/parent_private.h"

enum { RECEIVE_BUFFER = 4 << 20 /* bytes: some 10,000 queries while a worker is busy */, BACKLOG = 1024, WAY_SOCKETS_ASKED = 32, SYN_WITH_LINK_HEADER = 2 };

static int set(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof value);
}

static int open_dns(const struct dns_socket *want)
{
	int fd = socket(want->family, (want->is_tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	int r = set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	if (want->family == AF_INET6)
		set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	set(fd, want->family == AF_INET6 ? IPPROTO_IPV6 : IPPROTO_IP, want->family == AF_INET6 ? IPV6_FREEBIND : IP_FREEBIND, 1);
	if (!want->is_tcp && set(fd, SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER) < 0)
		set(fd, SOL_SOCKET, SO_RCVBUF, RECEIVE_BUFFER);
	if (want->is_tcp)
		set(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, 0);
	/* Before bind: a packet that waits from earlier would come without its interface, and its client without a group. */
	r |= want->family == AF_INET6 ? set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1) : set(fd, IPPROTO_IP, IP_PKTINFO, 1);
	if (want->is_tcp)
		set(fd, IPPROTO_TCP, TCP_SAVE_SYN, SYN_WITH_LINK_HEADER);
	if (want->ifname[0])
		r |= setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, want->ifname, (socklen_t)strlen(want->ifname) + 1);
	struct sockaddr_storage sa;
	struct endpoint ep = want->ep;
	ep.addr.family = (uint8_t)want->family;
	ep.port = want->port;
	socklen_t len = endpoint_to_sockaddr(&sa, &ep);
	if (r < 0 || bind(fd, (struct sockaddr *)&sa, len) < 0 || (want->is_tcp && listen(fd, BACKLOG) < 0)) {
		r = -errno;
		close(fd);
		return r;
	}
	return fd;
}

static void send_socket(struct parent *p, const struct dns_socket *s)
{
	struct ipc_msg m = { .type = IPC_SOCKET, .a = s->worker, .b = s->key, .c = s->ifindex, .flag = s->is_tcp };
	if (p->server.fd >= 0 && send_server(p, &m, s->fd, -1) < 0)
		log_error("the server did not take a DNS socket");
}

void sockets_send_all(struct parent *p)
{
	for (unsigned i = 0; i < p->socket_count; i++)
		send_socket(p, &p->sockets[i]);
}

static bool is_same(const struct dns_socket *a, const struct dns_socket *b)
{
	return a->worker == b->worker && a->ifindex == b->ifindex && a->is_tcp == b->is_tcp && a->family == b->family && a->port == b->port && !strcmp(a->ifname, b->ifname) &&
		addr_equal(&a->ep.addr, &b->ep.addr);
}

static int want_socket(struct parent *p, struct dns_socket *want)
{
	for (unsigned i = 0; i < p->socket_count; i++)
		if (is_same(&p->sockets[i], want)) {
			p->sockets[i].is_wanted = true;
			return 0;
		}
	if (p->socket_count == SOCKETS_MAX)
		return -ENFILE;
	want->fd = open_dns(want);
	if (want->fd < 0)
		return want->fd;
	want->key = ++p->next_key;
	want->is_wanted = true;
	p->sockets[p->socket_count++] = *want;
	send_socket(p, want);
	return 0;
}

/* Every worker, both protocols, the families of one place. */
static int want_place(struct parent *p, const char *ifname, const struct endpoint *ep, uint16_t port)
{
	struct dns_socket want = { .port = port };
	if (ifname[0] && !(want.ifindex = interfaces_index(p, ifname)))
		return 0; /* served as soon as it is there */
	snprintf(want.ifname, sizeof want.ifname, "%s", ifname);
	int r = 0;
	for (int family = AF_INET;; family = AF_INET6) {
		want.family = family;
		want.ep = ifname[0] ? (struct endpoint){ .addr.family = (uint8_t)family } : *ep;
		for (unsigned k = 0; k < 2 * (p->channel_count - 1) && (ifname[0] || ep->addr.family == family); k++) {
			want.worker = k / 2;
			want.is_tcp = k % 2;
			int rw = want_socket(p, &want);
			if (rw < 0 && !(family == AF_INET6 && rw == -EAFNOSUPPORT)) {
				char text[ADDR_TEXT_MAX];
				log_error("cannot listen on %s port %u (%s): %s. Mend: is another DNS server running there?", ifname[0] ? ifname : addr_print(text, &ep->addr), port,
					want.is_tcp ? "TCP" : "UDP", strerror(-rw));
				r = -1;
				break;
			}
		}
		if (family == AF_INET6)
			return r;
	}
}

int sockets_sync(struct parent *p, const struct config *c)
{
	int r = 0;
	for (unsigned i = 0; i < p->socket_count; i++)
		p->sockets[i].is_wanted = false;
	for (unsigned i = 0; i < c->server.listen_count; i++)
		r |= want_place(p, c->server.listen[i].ifname, &c->server.listen[i].ep, c->server.listen[i].ep.port);
	for (unsigned i = 0; c->hijack.is_on && i < c->hijack.interface_count; i++)
		r |= want_place(p, c->hijack.interfaces[i], NULL, p->hijack_port);
	for (unsigned i = 0; i < p->socket_count;) {
		if (p->sockets[i].is_wanted) {
			i++;
			continue;
		}
		struct ipc_msg m = { .type = IPC_SOCKET_GONE, .b = p->sockets[i].key };
		if (p->server.fd >= 0)
			send_server(p, &m, -1, -1);
		close(p->sockets[i].fd);
		p->sockets[i] = p->sockets[--p->socket_count];
	}
	return r;
}

void sockets_close_all(struct parent *p)
{
	while (p->socket_count)
		close(p->sockets[--p->socket_count].fd);
}

/* A port that nobody uses, the same for every hijack interface. */
int sockets_pick_hijack_port(const struct config *c, uint16_t *ret)
{
	*ret = 0;
	for (unsigned i = 0; c->hijack.is_on && i < HIJACK_PORT_TRIES; i++) {
		struct sockaddr_in6 sa = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)(HIJACK_PORT_FIRST + i)) };
		int u = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), t = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
		set(t, SOL_SOCKET, SO_REUSEADDR, 1);
		bool is_free = bind(u, (struct sockaddr *)&sa, sizeof sa) == 0 && bind(t, (struct sockaddr *)&sa, sizeof sa) == 0;
		close(u);
		close(t);
		if (is_free) {
			*ret = (uint16_t)(HIJACK_PORT_FIRST + i);
			return 0;
		}
	}
	return c->hijack.is_on ? -EADDRINUSE : 0;
}

/* Marked and bound to the way's interface, checked against the configuration in force or being made; the server connects them. */
static int open_for_way(const struct config *c, unsigned group, unsigned server, bool is_tcp)
{
	const struct cfg_upstream *u = &c->upstreams[group];
	const struct cfg_way *w = &c->ways[u->way];
	int fd = socket(u->servers[server].addr.family, (is_tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (set(fd, SOL_SOCKET, SO_MARK, (int)w->mark) < 0 || (w->interface[0] && setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, w->interface, (socklen_t)strlen(w->interface) + 1) < 0)) {
		int r = -errno;
		close(fd);
		return r;
	}
	return fd;
}

void sockets_for_way(struct parent *p, const struct ipc_msg *want)
{
	const struct config *c = want->serial == p->serial ? p->config : p->txn.config && want->serial == p->txn.serial ? p->txn.config : NULL;
	struct ipc_msg m = { .type = IPC_WAY_SOCKET, .serial = want->serial, .a = want->a, .b = want->b, .flag = want->flag };
	bool is_known = c && want->a < c->upstream_count && c->upstreams[want->a].way >= 0 && want->b < c->upstreams[want->a].server_count;
	for (unsigned i = 0; is_known && i < (want->flag ? 2 : WAY_SOCKETS_ASKED); i++) {
		int fd = open_for_way(c, want->a, want->b, want->flag);
		if (fd < 0)
			break;
		int r = send_server(p, &m, fd, -1);
		close(fd);
		if (r < 0)
			return;
	}
	/* One without a descriptor ends the answer, so that the server may ask again. */
	send_server(p, &m, -1, -1);
}
