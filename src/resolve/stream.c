/* SPDX-License-Identifier: GPL-3.0-or-later */
/* TCP towards one server: a single connection takes all new queries, pipelined, and stays open STREAM_IDLE_MS after the last
 * answer.
 *
 * A connection on which a query timed out is retired: it takes no new ones, still delivers late answers, and closes with its last
 * attempt. When a connection ends that has served before, its open queries go to a new one; when it never served, the server is
 * dead for them. */
#include "resolve/flight.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STREAM_IN_MAX = 2 + 65535, STREAM_OUT_MAX = 64 * 1024, READS_PER_WAKE = 4 };

static void on_event(uv_poll_t *h, int status, int events);

static void on_closed(uv_handle_t *h)
{
	struct stream *st = h->data;

	free(st->in);
	free(st->out);
	free(st);
}

static void stream_close(struct stream *st)
{
	struct server *s = st->channel.server;

	if (st->channel.is_closed)
		return;
	st->channel.is_closed = true;
	if (s->stream == st)
		s->stream = NULL;
	deadline_del(&st->idle);
	LIST_DEL(st, all);
	uv_close((uv_handle_t *)&st->poll, on_closed);
	close(st->fd);
}

static void stream_break(struct stream *st)
{
	struct server *s = st->channel.server;

	if (st->channel.is_closed)
		return;
	if (st->channel.pending)
		s->errors++;
	stream_close(st);
	channel_attempts_fail(&st->channel, !st->has_answered);
}

void streams_close(struct server *s)
{
	while (s->streams)
		stream_close(s->streams);
}

void stream_settle(struct stream *st)
{
	struct server *s = st->channel.server;

	if (st->channel.is_closed || st->channel.pending)
		return;
	if (s->stream == st)
		deadline_add(s->group->resolver->loop, &s->group->resolver->stream_idle, &st->idle);
	else
		stream_close(st);
}

void on_stream_idle(struct deadline *d)
{
	stream_close(FROM_MEMBER(d, struct stream, idle));
}

void stream_attempt_expired(struct stream *st)
{
	struct server *s = st->channel.server;

	if (s->stream == st)
		s->stream = NULL;
	if (!st->is_connected)
		stream_break(st);
}

static void update_events(struct stream *st)
{
	int events = (st->is_connected ? UV_READABLE : 0) | (!st->is_connected || st->out_at < st->out_len ? UV_WRITABLE : 0);

	if (st->channel.is_closed || events == st->events)
		return;
	st->events = events;
	uv_poll_start(&st->poll, events, on_event);
}

static int stream_open(struct server *s, struct stream **ret)
{
	struct resolver *r = s->group->resolver;
	int fd = server_connect(s, true), error, on = 1;
	struct stream *st;

	if (fd < 0)
		return fd;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	st = calloc(1, sizeof(*st));
	if (st) {
		st->in = malloc(STREAM_IN_MAX);
		st->out = malloc(STREAM_OUT_MAX);
	}
	error = st && st->in && st->out ? 0 : -ENOMEM;
	if (!error)
		error = uv_poll_init(loop_uv(r->loop), &st->poll, fd);
	if (error < 0)
		goto fail;
	st->poll.data = st;
	st->fd = fd;
	st->channel.server = s;
	st->channel.is_stream = true;
	st->channel.salt = resolver_random16(r);
	LIST_ADD(s->streams, st, all);
	s->stream = st;
	update_events(st);
	*ret = st;
	return 0;
fail:
	if (st) {
		free(st->in);
		free(st->out);
		free(st);
	}
	close(fd);
	return error;
}

static int stream_flush(struct stream *st)
{
	while (st->out_at < st->out_len) {
		ssize_t n = send(st->fd, st->out + st->out_at, st->out_len - st->out_at, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n >= 0)
			st->out_at += (size_t)n;
		else if (errno == EAGAIN || errno == EWOULDBLOCK)
			return 0;
		else if (errno != EINTR)
			return -errno;
	}
	st->out_at = st->out_len = 0;
	return 0;
}

int stream_send(struct server *s, struct attempt *a, size_t len)
{
	uint8_t *query = send_reserve(s->group->resolver);
	struct stream *st = s->stream;
	int error = st ? 0 : stream_open(s, &st), id;

	if (error < 0)
		return error;
	id = channel_free_id(s->group->resolver, &st->channel);
	if (id < 0)
		return id;
	if (st->out_len + 2 + len > STREAM_OUT_MAX && st->out_at) {
		memmove(st->out, st->out + st->out_at, st->out_len - st->out_at);
		st->out_len -= st->out_at;
		st->out_at = 0;
	}
	if (st->out_len + 2 + len > STREAM_OUT_MAX)
		return -EAGAIN;
	query[0] = (uint8_t)(id >> 8);
	query[1] = (uint8_t)id;
	st->out[st->out_len++] = (uint8_t)(len >> 8);
	st->out[st->out_len++] = (uint8_t)len;
	memcpy(st->out + st->out_len, query, len);
	st->out_len += len;
	deadline_del(&st->idle);
	attempt_start(a, &st->channel, (uint16_t)id);
	s->tcp++;
	/* A failure shows as an event, then all its queries move on together. */
	if (st->is_connected)
		(void)stream_flush(st);
	update_events(st);
	return 0;
}

/* Judges every whole message. */
static void stream_parse(struct stream *st)
{
	struct resolver *r = st->channel.server->group->resolver;
	size_t at = 0;

	while (!st->channel.is_closed && st->in_len - at >= 2) {
		size_t len = (size_t)st->in[at] << 8 | st->in[at + 1];
		uint8_t *msg = st->in + at + 2;
		struct attempt *a = NULL;

		if (st->in_len - at - 2 < len)
			break;
		at += 2 + len;
		if (len >= WIRE_HEADER)
			a = attempt_find(r, &st->channel, (uint16_t)(msg[0] << 8 | msg[1]));
		if (!a) {
			st->channel.server->errors++;
			continue;
		}
		st->has_answered = true;
		judge_answer(a, msg, len);
	}
	memmove(st->in, st->in + at, st->in_len - at);
	st->in_len -= at;
}

/* False: the connection ended. */
static bool stream_read(struct stream *st)
{
	for (int i = 0; i < READS_PER_WAKE && !st->channel.is_closed; i++) {
		ssize_t n = recv(st->fd, st->in + st->in_len, STREAM_IN_MAX - st->in_len, MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
			return true;
		if (n <= 0)
			return false;
		st->channel.server->group->resolver->now_us = 0;
		st->in_len += (size_t)n;
		stream_parse(st);
	}
	return true;
}

static void on_event(uv_poll_t *h, int status, int events)
{
	struct stream *st = h->data;
	int error = 0;
	socklen_t len = sizeof(error);

	if (status < 0) {
		stream_break(st);
		return;
	}
	if (!st->is_connected && events & UV_WRITABLE) {
		if (getsockopt(st->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error) {
			stream_break(st);
			return;
		}
		st->is_connected = true;
	}
	if (!st->is_connected)
		return;
	if ((events & UV_READABLE && !stream_read(st)) || (!st->channel.is_closed && stream_flush(st) < 0)) {
		stream_break(st);
		return;
	}
	update_events(st);
}
