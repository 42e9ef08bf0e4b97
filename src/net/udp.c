/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Batched UDP for one worker.
 *
 * One set of receive arrays serves all sockets in turn: a readable socket is read in at most READS_PER_WAKE batches and handed
 * on, then the next one is looked at (what is left comes back in the next turn). Answers of all
 * sockets collect in one send batch, grouped by socket when it is flushed: at the turn's end or when it is full.
 *
 * Buffers stand BUFFER_STRIDE apart, not a power of two, so that the first lines of a batch do not fall into the same few cache
 * sets. */
#include "net/udp.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/list.h"

#ifndef SO_RCVMARK
#define SO_RCVMARK 75
#endif

enum { READS_PER_WAKE = 4, BUFFER_STRIDE = 4096 + 128, CONTROL_MAX = 128, SLOT_BITS = 16, SLOT_MASK = 0xffff };
_Static_assert((int)BUFFER_STRIDE >= (int)UDP_IN_MAX && (int)BUFFER_STRIDE >= (int)UDP_OUT_MAX, "a buffer holds a packet");
_Static_assert((int)UDP_SOCKETS_MAX <= (int)SLOT_MASK, "a slot fits its bits");
_Static_assert((int)UDP_SOCKETS_MAX <= (int)LOOP_READERS_MAX, "every socket is polled");
_Static_assert(CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(uint32_t)) <= CONTROL_MAX, "control messages fit");

union control {
	struct cmsghdr align;
	uint8_t bytes[CONTROL_MAX];
};

struct udp_socket {
	struct loop_reader reader;
	struct udp_server *server;
	int fd;
	uint32_t index;
	int family;
	struct addr bound; /* family 0: to any address */
};

struct batch {
	struct mmsghdr msg[UDP_BATCH];
	struct iovec iov[UDP_BATCH];
	struct sockaddr_storage name[UDP_BATCH];
	union control control[UDP_BATCH];
	uint8_t *bytes; /* UDP_BATCH buffers BUFFER_STRIDE apart */
};

struct udp_server {
	struct loop *loop;
	void (*on_packets)(void *ctx, const struct udp_packet *p, unsigned count);
	void *ctx;
	struct udp_socket *socket[UDP_SOCKETS_MAX];
	uint16_t taken[UDP_SOCKETS_MAX]; /* how often a slot was taken, modulo 2^16 */
	struct udp_packet packet[UDP_BATCH];
	struct batch in, out;
	uint32_t out_socket[UDP_BATCH];
	unsigned out_count;
	bool wants_interface, wants_mark;
	struct mmsghdr run[UDP_BATCH]; /* one socket's part of a mixed send batch */
	struct udp_stat stat;
};

static void flush(void *ctx);

static struct udp_socket *socket_of(const struct udp_server *s, uint32_t index)
{
	uint32_t slot = index & SLOT_MASK;
	struct udp_socket *k = slot < UDP_SOCKETS_MAX ? s->socket[slot] : NULL;

	return k && k->index == index ? k : NULL;
}

static int batch_init(struct batch *b)
{
	b->bytes = aligned_alloc(64, (size_t)UDP_BATCH * BUFFER_STRIDE);
	if (!b->bytes)
		return -ENOMEM;
	for (unsigned i = 0; i < UDP_BATCH; i++) {
		struct msghdr *h = &b->msg[i].msg_hdr;

		b->iov[i].iov_base = b->bytes + (size_t)i * BUFFER_STRIDE;
		b->iov[i].iov_len = UDP_IN_MAX;
		h->msg_iov = &b->iov[i];
		h->msg_iovlen = 1;
		h->msg_name = &b->name[i];
		h->msg_namelen = sizeof(b->name[i]);
		h->msg_control = &b->control[i];
		h->msg_controllen = sizeof(b->control[i]);
	}
	return 0;
}

int udp_server_new(struct udp_server **ret, struct loop *l,
        void (*on_packets)(void *ctx, const struct udp_packet *p, unsigned count), void *ctx)
{
	struct udp_server *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	if (batch_init(&s->in) < 0 || batch_init(&s->out) < 0) {
		free(s->in.bytes);
		free(s->out.bytes);
		free(s);
		return -ENOMEM;
	}
	s->loop = l;
	s->on_packets = on_packets;
	s->ctx = ctx;
	s->wants_interface = s->wants_mark = true;
	loop_on_turn_end(l, flush, s);
	*ret = s;
	return 0;
}

void udp_server_free(struct udp_server *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < UDP_SOCKETS_MAX; i++)
		if (s->socket[i])
			udp_server_remove(s, s->socket[i]->index);
	loop_off_turn_end(s->loop, flush, s);
	free(s->in.bytes);
	free(s->out.bytes);
	free(s);
}

/* Reads what the kernel said beside the packet into its path. */
static void control_read(struct udp_path *path, struct msghdr *h)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			struct in_pktinfo p;

			/* ipi_spec_dst is the packet's destination, or our own address when that is a broadcast one: what an
			 * answer comes from. */
			memcpy(&p, CMSG_DATA(c), sizeof(p));
			path->to.family = AF_INET;
			memcpy(path->to.b, &p.ipi_spec_dst, 4);
			path->ifindex = (uint32_t)p.ipi_ifindex;
		} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
			struct in6_pktinfo p;

			memcpy(&p, CMSG_DATA(c), sizeof(p));
			path->to.family = AF_INET6;
			memcpy(path->to.b, &p.ipi6_addr, 16);
			path->ifindex = p.ipi6_ifindex;
		} else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_MARK) {
			memcpy(&path->mark, CMSG_DATA(c), sizeof(path->mark));
			path->has_mark = true;
		}
	}
}

static void path_read(struct udp_path *path, const struct udp_socket *k, struct msghdr *h)
{
	addr_from_sockaddr(&path->from, h->msg_name);
	path->name_len = h->msg_namelen < sizeof(path->name) ? (uint8_t)h->msg_namelen : sizeof(path->name);
	memcpy(&path->name, h->msg_name, sizeof(path->name));
	path->socket = k->index;
	path->to = k->bound;
	path->is_bound = k->bound.family;
	path->ifindex = path->mark = 0;
	path->has_mark = false;
	if (h->msg_controllen)
		control_read(path, h);
}

/* One batch of one socket. Returns how many packets came, or a negative error. */
static int read_batch(struct udp_socket *k)
{
	struct udp_server *s = k->server;
	struct batch *b = &s->in;
	int n;

	do
		n = recvmmsg(k->fd, b->msg, UDP_BATCH, MSG_DONTWAIT, NULL);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : 0;
	for (int i = 0; i < n; i++) {
		struct msghdr *h = &b->msg[i].msg_hdr;
		struct udp_packet *p = &s->packet[i];

		path_read(&p->path, k, h);
		p->bytes = b->iov[i].iov_base;
		p->len = b->msg[i].msg_len;
		/* recvmmsg wrote the lengths it used; the next call needs what there is. */
		h->msg_namelen = sizeof(b->name[i]);
		h->msg_controllen = sizeof(b->control[i]);
	}
	s->stat.received += (unsigned)n;
	s->stat.batches++;
	s->on_packets(s->ctx, s->packet, (unsigned)n);
	return n;
}

static void on_readable(struct loop_reader *r, bool is_error)
{
	struct udp_socket *k = FROM_MEMBER(r, struct udp_socket, reader);
	struct udp_server *s = k->server;
	uint32_t index = k->index;

	if (is_error) {
		/* A datagram socket lives on once its error has been read. */
		int error;
		socklen_t len = sizeof(error);

		getsockopt(k->fd, SOL_SOCKET, SO_ERROR, &error, &len);
	}
	for (int i = 0; i < READS_PER_WAKE; i++) {
		int n = read_batch(k);

		/* The callee may have removed the socket it was called for. */
		if (n < (int)UDP_BATCH || socket_of(s, index) != k)
			return;
	}
}

static bool is_link_local(const struct addr *a)
{
	if (a->family == AF_INET)
		return a->b[0] == 169 && a->b[1] == 254;
	return a->family == AF_INET6 && a->b[0] == 0xfe && (a->b[1] & 0xc0) == 0x80;
}

static int set_option(int fd, int level, int option, bool is_on)
{
	int on = is_on;

	return setsockopt(fd, level, option, &on, sizeof(on)) < 0 ? -errno : 0;
}

/* What the kernel is to tell of each packet: the address it came to, where the socket does not say it, its interface, its mark. */
static int tell(const struct udp_server *s, const struct udp_socket *k)
{
	bool has_info = s->wants_interface || !k->bound.family || is_link_local(&k->bound);

	/* Before Linux 5.19 there is no SO_RCVMARK: packets then come without a mark, which has_mark says. */
	(void)set_option(k->fd, SOL_SOCKET, SO_RCVMARK, s->wants_mark);
	return k->family == AF_INET ? set_option(k->fd, IPPROTO_IP, IP_PKTINFO, has_info)
	                         : set_option(k->fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, has_info);
}

void udp_server_want(struct udp_server *s, bool interface, bool mark)
{
	if (s->wants_interface == interface && s->wants_mark == mark)
		return;
	s->wants_interface = interface;
	s->wants_mark = mark;
	for (unsigned i = 0; i < UDP_SOCKETS_MAX; i++)
		if (s->socket[i])
			(void)tell(s, s->socket[i]);
}

/* The one address that the socket is bound to, if it is to one. */
static int read_name(struct udp_socket *k)
{
	static const uint8_t any[16];
	struct sockaddr_storage name;
	socklen_t len = sizeof(name);
	struct endpoint at = {0};

	if (getsockname(k->fd, (struct sockaddr *)&name, &len) < 0)
		return -errno;
	if (name.ss_family != AF_INET && name.ss_family != AF_INET6)
		return -EAFNOSUPPORT;
	k->family = name.ss_family;
	addr_from_sockaddr(&at, (struct sockaddr *)&name);
	if (memcmp(at.addr.b, any, sizeof(any)) != 0)
		k->bound = at.addr;
	return 0;
}

int udp_server_add(struct udp_server *s, int fd, uint32_t *ret_index)
{
	struct udp_socket *k = calloc(1, sizeof(*k));
	unsigned slot = 0;
	int r = k ? 0 : -ENOMEM;

	while (slot < UDP_SOCKETS_MAX && s->socket[slot])
		slot++;
	if (r == 0 && slot == UDP_SOCKETS_MAX)
		r = NW_EFULL;
	if (r < 0)
		goto fail;
	k->reader = (struct loop_reader){.fd = fd, .fn = on_readable};
	k->server = s;
	k->fd = fd;
	r = read_name(k);
	if (r == 0)
		r = tell(s, k);
	if (r == 0)
		r = loop_reader_add(s->loop, &k->reader);
	if (r < 0)
		goto fail;
	k->index = (uint32_t)s->taken[slot]++ << SLOT_BITS | slot;
	s->socket[slot] = k;
	*ret_index = k->index;
	return 0;
fail:
	free(k);
	close(fd);
	return r;
}

void udp_server_remove(struct udp_server *s, uint32_t index)
{
	struct udp_socket *k = socket_of(s, index);

	if (!k)
		return;
	flush(s);
	s->socket[index & SLOT_MASK] = NULL;
	loop_reader_del(s->loop, &k->reader);
	close(k->fd);
	free(k);
}

uint8_t *udp_reserve(struct udp_server *s)
{
	if (s->out_count == UDP_BATCH)
		flush(s);
	return s->out.iov[s->out_count].iov_base;
}

/* What an answer says beside its destination: where it comes from, where the socket does not say it. The interface is named only where an address means
 * nothing without it: elsewhere the routing table decides, also after a change of links. */
static size_t control_write(union control *out, const struct udp_path *to)
{
	uint32_t ifindex = is_link_local(&to->from.addr) || is_link_local(&to->to) ? to->ifindex : 0;
	struct cmsghdr *c = &out->align;

	if (to->is_bound && !ifindex)
		return 0;
	if (to->to.family == AF_INET) {
		struct in_pktinfo p = {.ipi_ifindex = (int)ifindex};

		memcpy(&p.ipi_spec_dst, to->to.b, 4);
		c->cmsg_level = IPPROTO_IP;
		c->cmsg_type = IP_PKTINFO;
		c->cmsg_len = CMSG_LEN(sizeof(p));
		memcpy(CMSG_DATA(c), &p, sizeof(p));
		return CMSG_SPACE(sizeof(p));
	}
	if (to->to.family == AF_INET6) {
		struct in6_pktinfo p = {.ipi6_ifindex = ifindex};

		memcpy(&p.ipi6_addr, to->to.b, 16);
		c->cmsg_level = IPPROTO_IPV6;
		c->cmsg_type = IPV6_PKTINFO;
		c->cmsg_len = CMSG_LEN(sizeof(p));
		memcpy(CMSG_DATA(c), &p, sizeof(p));
		return CMSG_SPACE(sizeof(p));
	}
	return 0;
}

void udp_commit(struct udp_server *s, size_t len, const struct udp_path *to)
{
	unsigned i = s->out_count;
	struct msghdr *h = &s->out.msg[i].msg_hdr;

	assert(i < UDP_BATCH && len <= UDP_OUT_MAX);
	s->out.iov[i].iov_len = len;
	memcpy(&s->out.name[i], &to->name, sizeof(to->name));
	h->msg_namelen = to->name_len;
	h->msg_controllen = control_write(&s->out.control[i], to);
	h->msg_control = h->msg_controllen ? &s->out.control[i] : NULL;
	s->out_socket[i] = to->socket;
	s->out_count++;
}

/* Sends to one socket. A packet that cannot go is passed over; a full socket buffer drops the rest, as waiting would hold
 * everyone up. */
static void send_run(struct udp_server *s, const struct udp_socket *k, struct mmsghdr *msg, unsigned count)
{
	unsigned at = 0;

	while (k && at < count) {
		int n = sendmmsg(k->fd, msg + at, count - at, MSG_DONTWAIT);

		if (n > 0) {
			s->stat.sent += (unsigned)n;
			at += (unsigned)n;
		} else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			break;
		} else if (errno != EINTR) {
			s->stat.send_errors++;
			at++;
		}
	}
	s->stat.send_errors += count - at;
}

static void flush(void *ctx)
{
	struct udp_server *s = ctx;
	unsigned count = s->out_count, same = 0;
	uint64_t left;

	if (!count)
		return;
	s->out_count = 0;
	while (same < count && s->out_socket[same] == s->out_socket[0])
		same++;
	if (same == count) {
		send_run(s, socket_of(s, s->out_socket[0]), s->out.msg, count);
		return;
	}
	left = count == 64 ? ~0ULL : (1ULL << count) - 1;
	while (left) {
		unsigned first = (unsigned)__builtin_ctzll(left), n = 0;

		for (unsigned i = first; i < count; i++)
			if (left >> i & 1 && s->out_socket[i] == s->out_socket[first]) {
				s->run[n++] = s->out.msg[i];
				left &= ~(1ULL << i);
			}
		send_run(s, socket_of(s, s->out_socket[first]), s->run, n);
	}
}

void udp_server_stat(const struct udp_server *s, struct udp_stat *ret)
{
	*ret = s->stat;
}
