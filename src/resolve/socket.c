/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The pool of UDP sockets towards one server.
 *
 * Each socket is connected, so the kernel drops what does not come from the server's address and port, and bound by the kernel to
 * a port that it draws at random from the ephemeral range (28,232 ports unless configured otherwise: 14.8 bits). A batch of
 * queries takes a random place of the pool, opening a socket there if it is empty, and each query a random id: 30.8 bits that a
 * forger must guess. After UPSTREAM_SOCKET_USES queries, and after a timeout, a socket leaves its place and closes when nothing is
 * pending on it. */
#include "resolve/flight.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SOCKETS_MAX = 2 * UPSTREAM_POOL /* a server, with the retired ones */, READS_PER_WAKE = 4 };

static void on_readable(uv_poll_t *h, int status, int events);

/* A socket that is not connected yet, or a negative error. */
static int server_open(struct server *s, bool is_stream)
{
	struct group *g = s->group;
	struct resolver *r = g->resolver;
	int fd;

	if (!g->has_way) {
		fd = socket(s->sa.ss_family, (is_stream ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		return fd < 0 ? -errno : fd;
	}
	if (!r->env.take_socket)
		return -ENETUNREACH;
	fd = r->env.take_socket(r->env.ctx, g->index, s->index, is_stream);
	if (fd >= 0 && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0) {
		close(fd);
		return -EBADF;
	}
	return fd;
}

int server_connect(struct server *s, bool is_stream)
{
	int fd, error;

	do {
		fd = server_open(s, is_stream);
		if (fd < 0 || connect(fd, (struct sockaddr *)&s->sa, s->sa_len) == 0)
			return fd;
		error = -errno;
		if (error == -EINPROGRESS)
			return fd;
		close(fd);
	} while (server_blames_socket(s, error));
	/* EAGAIN stands for a socket that is not at hand yet. Here it is a lack of ports: no word about the server for UDP, which waits
	 * for one; a connection is tried elsewhere. */
	return is_stream && error == -EAGAIN ? -EADDRNOTAVAIL : error;
}

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

static void socket_close(struct udp_sock *k)
{
	struct server *s = k->channel.server;

	if (k->channel.is_closed)
		return;
	k->channel.is_closed = true;
	if (s->turn == k)
		s->turn = NULL;
	if (k->slot >= 0)
		s->pool[k->slot] = NULL;
	LIST_DEL(k, all);
	s->socket_count--;
	uv_close((uv_handle_t *)&k->poll, on_closed);
	close(k->fd);
}

void socket_close_if_done(struct udp_sock *k)
{
	if (k->slot < 0 && !k->channel.pending)
		socket_close(k);
}

void socket_retire(struct udp_sock *k)
{
	if (k->slot < 0 || k->channel.is_closed)
		return;
	k->channel.server->pool[k->slot] = NULL;
	k->slot = -1;
	socket_close_if_done(k);
}

void sockets_close(struct server *s)
{
	while (s->sockets)
		socket_close(s->sockets);
}

void socket_break(struct udp_sock *k, bool is_dead)
{
	/* Closed before its attempts end: they would close a retired one themselves. */
	socket_close(k);
	channel_attempts_fail(&k->channel, is_dead);
}

static int socket_open(struct server *s, int slot, struct udp_sock **ret)
{
	struct resolver *r = s->group->resolver;
	int fd = server_connect(s, false), error;
	struct udp_sock *k;

	if (fd < 0)
		return fd;
	k = calloc(1, sizeof(*k));
	error = k ? uv_poll_init(loop_uv(r->loop), &k->poll, fd) : -ENOMEM;
	if (error < 0) {
		free(k);
		close(fd);
		return error;
	}
	k->poll.data = k;
	k->channel.server = s;
	k->channel.salt = resolver_random16(r);
	k->fd = fd;
	k->slot = slot;
	s->pool[slot] = k;
	s->socket_count++;
	LIST_ADD(s->sockets, k, all);
	uv_poll_start(&k->poll, UV_READABLE, on_readable);
	*ret = k;
	return 0;
}

/* Where no socket can be opened, the nearest one there is. */
int socket_pick(struct server *s, struct udp_sock **ret)
{
	int slot = resolver_random16(s->group->resolver) % UPSTREAM_POOL, error;
	struct udp_sock *k = s->pool[slot];

	if (k && k->uses >= UPSTREAM_SOCKET_USES && (s->socket_count < SOCKETS_MAX || !k->channel.pending)) {
		socket_retire(k);
		k = NULL;
	}
	if (k) {
		*ret = k;
		return 0;
	}
	error = s->socket_count < SOCKETS_MAX ? socket_open(s, slot, ret) : -EMFILE;
	if (error != -EAGAIN && error != -EMFILE && error != -ENFILE && error != -ENOMEM && error != -ENOBUFS)
		return error;
	for (int i = 1; i < UPSTREAM_POOL; i++) {
		k = s->pool[(slot + i) % UPSTREAM_POOL];
		if (k) {
			*ret = k;
			return 0;
		}
	}
	return -EAGAIN;
}

static int read_answers(struct udp_sock *k)
{
	struct server *s = k->channel.server;
	struct resolver *r = s->group->resolver;
	int n;

	do
		n = recvmmsg(k->fd, r->msg, RECV_BATCH, MSG_DONTWAIT, NULL);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	r->now_us = 0;
	for (int i = 0; i < n && !k->channel.is_closed; i++) {
		uint8_t *msg = r->iov[i].iov_base;
		size_t len = r->msg[i].msg_len;
		struct attempt *a = NULL;

		if (len >= WIRE_HEADER && !(r->msg[i].msg_hdr.msg_flags & MSG_TRUNC))
			a = attempt_find(r, &k->channel, (uint16_t)(msg[0] << 8 | msg[1]));
		if (a)
			judge_answer(a, msg, len);
		else
			s->errors++;
	}
	return n;
}

static void on_readable(uv_poll_t *h, int status, int events)
{
	struct udp_sock *k = h->data;

	/* A pending error shows as status < 0; the read says which. */
	for (int i = 0; i < READS_PER_WAKE && !k->channel.is_closed; i++) {
		int n = read_answers(k);

		if (n == -EAGAIN || n == -EWOULDBLOCK)
			break;
		if (n < 0) {
			server_broke(k->channel.server);
			socket_break(k, true);
			return;
		}
		if (n < (int)RECV_BATCH || !k->channel.pending)
			break;
	}
	/* libuv stopped the handle with that status. */
	if (status < 0 && !k->channel.is_closed)
		uv_poll_start(&k->poll, UV_READABLE, on_readable);
}
