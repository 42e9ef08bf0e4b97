/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The TCP side of the load generator: connections with up to `pipeline` queries out on each, renewed after `reuse` queries. A
 * connection is made when a query needs it, and counts into that query's latency. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "cli/load_private.h"

enum { STREAM_IN_SIZE = 2 + 65535, STREAM_RETRY_NS = 10000000, PREFIX = 2 };

static size_t stream_out_size(const struct load *l)
{
	return (size_t)l->o->pipeline * (PREFIX + LOAD_QUERY_MAX);
}

int stream_open(struct load *l, struct source *s)
{
	s->fd = -1;
	s->stream.out = malloc(stream_out_size(l));
	s->stream.in = malloc(STREAM_IN_SIZE);
	return s->stream.out && s->stream.in ? 0 : -ENOMEM;
}

void stream_free(struct source *s)
{
	free(s->stream.out);
	free(s->stream.in);
}

static unsigned stream_outstanding(const struct source *s)
{
	return s->slots - s->free_count;
}

/* What is out on it is lost. */
static void stream_close(struct load *l, struct source *s, bool is_fault)
{
	close(s->fd);
	s->fd = -1;
	s->stream.is_open = s->stream.is_connecting = false;
	s->stream.out_len = s->stream.out_at = s->stream.in_len = 0;
	if (is_fault)
		s->stream.retry_ns = load_now_ns() + STREAM_RETRY_NS;
	for (uint32_t i = 0; i < s->slots; i++) {
		if (l->pending[s->first_slot + i].is_out) {
			l->result->closed++;
			query_lost(l, s->first_slot + i);
		}
	}
}

static bool stream_connect(struct load *l, struct source *s)
{
	int on = 1;

	if (load_now_ns() < s->stream.retry_ns)
		return false;
	s->fd = socket(l->server.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->fd < 0) {
		s->stream.retry_ns = load_now_ns() + STREAM_RETRY_NS;
		return false;
	}
	(void)setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	s->stream.asked = 0;
	s->stream.id_base = (uint16_t)random_next(&l->random);
	s->stream.is_connecting = true;
	if (connect(s->fd, (struct sockaddr *)&l->server, l->server_len) < 0 && errno != EINPROGRESS) {
		l->result->refused += errno == ECONNREFUSED;
		stream_close(l, s, true);
		return false;
	}
	l->result->connects++;
	return true;
}

static bool stream_has_room(const struct load *l, const struct source *s)
{
	/* Queries that timed out have given their slots back and may still wait to be written. */
	size_t waiting = s->stream.out_len - s->stream.out_at;

	return s->free_count && (!l->o->reuse || s->stream.asked < l->o->reuse) &&
	       waiting + PREFIX + LOAD_QUERY_MAX <= stream_out_size(l);
}

bool streams_send(struct load *l, uint64_t intended_ns)
{
	unsigned count = l->source_count - l->udp_count;

	for (unsigned i = 0; i < count; i++) {
		struct source *s = &l->source[l->udp_count + l->turn_tcp++ % count];
		struct stream *t = &s->stream;
		uint8_t *out;
		uint32_t slot;
		size_t len;

		/* Used up and all answered: renewed here, when the next query wants it. */
		if (s->fd >= 0 && l->o->reuse && t->asked >= l->o->reuse && !stream_outstanding(s))
			stream_close(l, s, false);
		if (s->fd < 0 && !stream_connect(l, s))
			continue;
		if (!stream_has_room(l, s))
			continue;
		if (t->out_at) {
			memmove(t->out, t->out + t->out_at, t->out_len - t->out_at);
			t->out_len -= t->out_at;
			t->out_at = 0;
		}
		out = t->out + t->out_len;
		len = query_make(l, s, intended_ns, out + PREFIX, &slot);
		out[0] = (uint8_t)(len >> 8);
		out[1] = (uint8_t)len;
		t->out_len += PREFIX + len;
		t->asked++;
		l->result->tcp_sent++;
		query_sent(l, slot, load_now_ns());
		return true;
	}
	return false;
}

static void stream_write(struct load *l, struct source *s)
{
	struct stream *t = &s->stream;

	while (t->out_at < t->out_len) {
		ssize_t n = send(s->fd, t->out + t->out_at, t->out_len - t->out_at, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return;
		if (n < 0) {
			stream_close(l, s, true);
			return;
		}
		t->out_at += (size_t)n;
	}
	t->out_at = t->out_len = 0;
}

static void stream_take_messages(struct load *l, struct source *s)
{
	struct stream *t = &s->stream;
	uint64_t now_ns = load_now_ns();
	size_t at = 0;

	while (t->in_len - at >= PREFIX) {
		size_t len = (size_t)(t->in[at] << 8 | t->in[at + 1]);

		if (t->in_len - at < PREFIX + len)
			break;
		query_answered(l, s, t->in + at + PREFIX, len, now_ns);
		at += PREFIX + len;
	}
	memmove(t->in, t->in + at, t->in_len - at);
	t->in_len -= at;
}

static void stream_read(struct load *l, struct source *s)
{
	struct stream *t = &s->stream;
	ssize_t n = recv(s->fd, t->in + t->in_len, STREAM_IN_SIZE - t->in_len, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return;
	if (n <= 0) {
		/* An idle connection that the server closes is no fault. */
		stream_close(l, s, stream_outstanding(s) > 0);
		return;
	}
	t->in_len += (size_t)n;
	stream_take_messages(l, s);
}

short stream_wants(const struct source *s)
{
	const struct stream *t = &s->stream;

	return (short)(POLLIN | (t->is_connecting || t->out_at < t->out_len ? POLLOUT : 0));
}

void stream_ready(struct load *l, struct source *s, short events)
{
	struct stream *t = &s->stream;

	if (t->is_connecting && (events & (POLLOUT | POLLERR | POLLHUP))) {
		int error = 0;
		socklen_t len = sizeof(error);

		if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error) {
			l->result->refused += error == ECONNREFUSED;
			stream_close(l, s, true);
			return;
		}
		t->is_connecting = false;
		t->is_open = true;
	}
	if (t->is_open && (events & POLLOUT))
		stream_write(l, s);
	if (t->is_open && (events & (POLLIN | POLLERR | POLLHUP)))
		stream_read(l, s);
}

void streams_flush(struct load *l)
{
	for (unsigned i = l->udp_count; i < l->source_count; i++) {
		struct source *s = &l->source[i];

		if (s->fd >= 0 && s->stream.is_open && s->stream.out_at < s->stream.out_len)
			stream_write(l, s);
	}
}
