/* SPDX-License-Identifier: GPL-3.0-or-later */
/* DNS over TCP, the serving side.
 *
 * A session is one heap object with a small input buffer, swapped for a large one only while a message needs it, and an output
 * buffer that grows to TCP_OUT_MAX. Every session waits in one of two deadline queues: `first` until its first whole query came,
 * then `idle`, which is renewed only by a whole query or when all answers are written, so bytes that drip in or out buy no time.
 * The queues are in order of age: the longest idle session is found at their heads.
 *
 * Reading stops while TCP_INFLIGHT_MAX queries are open or the client does not take its answers, and goes on by the `resume`
 * queue. After the client's FIN its open queries are still answered. Memory goes when libuv closed the handle and the last ticket
 * came back. */
#include "net/tcp.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/list.h"
#include "base/hash.h"
#include "net/tcp_path.h"

enum {
	IN_SMALL = 2048,
	IN_LARGE = 2 + 65535,
	OUT_FIRST = 4096,
	ACCEPT_BATCH = 32,
	BACKOFF_MS = 200,
	RESUME_MS = 1,
	CLIENT_BUCKETS = 256,
	READS_PER_WAKE = 4,
	OUT_PAUSE = TCP_OUT_MAX / 4
};

struct tcp_session {
	uv_poll_t poll;
	struct tcp_server *server; /* NULL once closed */
	int fd;
	unsigned tickets; /* queries given to on_message and not yet answered */
	bool is_closed, is_handle_gone, is_eof, is_parsing, had_query;
	int events; /* what poll waits for */
	struct tcp_path path;
	uint8_t *in, *in_large; /* in is in_small or in_large */
	size_t in_len, in_max;
	uint8_t *out; /* out_at..out_len is unsent */
	size_t out_at, out_len, out_cap;
	struct deadline age; /* in `first` or `idle` */
	struct deadline resume;
	struct tcp_session *dirty_next, **dirty_prev;   /* has answers to write at the turn's end */
	struct tcp_session *client_next, **client_prev; /* same bucket of addresses */
	struct tcp_session *all_next, **all_prev;
	uint8_t in_small[IN_SMALL];
};

struct listener {
	uv_poll_t poll;
	struct tcp_server *server;
	int fd;
	uint32_t ifindex;
	struct deadline backoff;
};

struct tcp_server {
	struct loop *loop;
	void (*on_message)(void *ctx, struct tcp_session *s, const struct tcp_path *path, const uint8_t *msg, size_t len);
	void *ctx;
	struct listener *listener[TCP_LISTENERS_MAX];
	struct deadline_queue first, idle, resume, backoff;
	struct tcp_session *dirty, *all, *client[CLIENT_BUCKETS];
	uint64_t seed;
	struct tcp_stat stat;
};

static void on_session_event(uv_poll_t *h, int status, int events);
static void on_listener_event(uv_poll_t *h, int status, int events);

static struct tcp_session *session_of_age(struct deadline *d)
{
	return FROM_MEMBER(d, struct tcp_session, age);
}

static void session_free_when_done(struct tcp_session *s)
{
	if (!s->is_handle_gone || s->tickets || s->is_parsing)
		return;
	free(s->in_large);
	free(s->out);
	free(s);
}

static void on_session_closed(uv_handle_t *h)
{
	struct tcp_session *s = h->data;

	s->is_handle_gone = true;
	session_free_when_done(s);
}

static void session_close(struct tcp_session *s, uint64_t *reason)
{
	struct tcp_server *t = s->server;

	if (s->is_closed)
		return;
	s->is_closed = true;
	deadline_del(&s->age);
	deadline_del(&s->resume);
	LIST_DEL(s, dirty);
	LIST_DEL(s, client);
	LIST_DEL(s, all);
	uv_close((uv_handle_t *)&s->poll, on_session_closed);
	close(s->fd);
	s->server = NULL;
	t->stat.open--;
	if (reason)
		++*reason;
}

static size_t unsent(const struct tcp_session *s)
{
	return s->out_len - s->out_at;
}

static bool may_read(const struct tcp_session *s)
{
	return !s->is_eof && s->tickets < TCP_INFLIGHT_MAX && unsent(s) < OUT_PAUSE;
}

static void update_events(struct tcp_session *s)
{
	int events = (may_read(s) ? UV_READABLE : 0) | (unsent(s) ? UV_WRITABLE : 0);

	if (s->is_closed || events == s->events)
		return;
	s->events = events;
	uv_poll_start(&s->poll, events, on_session_event);
}

static bool has_whole_message(const struct tcp_session *s)
{
	return s->in_len >= 2 && s->in_len - 2 >= ((size_t)s->in[0] << 8 | s->in[1]);
}

/* A half-closed session ends when its last query is answered and the answer written. */
static void close_if_finished(struct tcp_session *s)
{
	if (!s->is_closed && s->is_eof && !s->tickets && !unsent(s) && !has_whole_message(s))
		session_close(s, NULL);
}

static void session_write(struct tcp_session *s)
{
	while (!s->is_closed && unsent(s)) {
		ssize_t n = send(s->fd, s->out + s->out_at, unsent(s), MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n >= 0) {
			s->out_at += (size_t)n;
		} else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			break;
		} else if (errno != EINTR) {
			session_close(s, NULL);
			return;
		}
	}
	if (!unsent(s)) {
		s->out_at = s->out_len = 0;
		if (!s->is_closed && s->had_query)
			deadline_add(s->server->loop, &s->server->idle, &s->age);
	}
}

static int out_make_room(struct tcp_session *s, size_t len)
{
	size_t cap = s->out_cap ? s->out_cap : OUT_FIRST;
	uint8_t *out;

	if (s->out_len + len <= s->out_cap)
		return 0;
	if (s->out_at) {
		memmove(s->out, s->out + s->out_at, unsent(s));
		s->out_len -= s->out_at;
		s->out_at = 0;
	}
	if (s->out_len + len > TCP_OUT_MAX)
		return NW_EFULL;
	while (cap < s->out_len + len)
		cap *= 2;
	if (cap <= s->out_cap)
		return 0;
	out = realloc(s->out, cap);
	if (!out)
		return -ENOMEM;
	s->out = out;
	s->out_cap = cap;
	return 0;
}

/* A ticket came back. A session that did not read for want of tickets goes on soon, not from inside the answering caller. */
static void ticket_return(struct tcp_session *s)
{
	assert(s->tickets > 0);
	s->tickets--;
	if (s->is_closed)
		session_free_when_done(s);
	else if (!s->is_parsing && !s->resume.next)
		deadline_add(s->server->loop, &s->server->resume, &s->resume);
}

void tcp_answer(struct tcp_session *s, const uint8_t *msg, size_t len)
{
	struct tcp_server *t = s->server;
	uint8_t prefix[2] = {(uint8_t)(len >> 8), (uint8_t)len};

	assert(len <= 65535);
	if (!s->is_closed && unsent(s) + 2 + len > TCP_OUT_MAX)
		session_write(s);
	if (!s->is_closed && out_make_room(s, 2 + len) < 0)
		session_close(s, &t->stat.closed_bad);
	if (!s->is_closed) {
		memcpy(s->out + s->out_len, prefix, 2);
		memcpy(s->out + s->out_len + 2, msg, len);
		s->out_len += 2 + len;
		if (!s->dirty_prev)
			LIST_ADD(t->dirty, s, dirty);
	}
	ticket_return(s);
}

void tcp_drop(struct tcp_session *s)
{
	ticket_return(s);
}

/* Answers of the turn leave together, in one segment where they fit. */
static void on_turn_end(void *ctx)
{
	struct tcp_server *t = ctx;

	while (t->dirty) {
		struct tcp_session *s = t->dirty;

		LIST_DEL(s, dirty);
		session_write(s);
		close_if_finished(s);
		update_events(s);
	}
}

/* Gives every whole message in the buffer to on_message. False: the session was closed. */
static bool session_parse(struct tcp_session *s)
{
	struct tcp_server *t = s->server;
	size_t at = 0;

	s->is_parsing = true;
	while (!s->is_closed && s->in_len - at >= 2 && s->tickets < TCP_INFLIGHT_MAX && unsent(s) < OUT_PAUSE) {
		size_t len = (size_t)s->in[at] << 8 | s->in[at + 1];

		if (len == 0) {
			/* What was answered before it still goes. */
			session_write(s);
			session_close(s, &t->stat.closed_bad);
			break;
		}
		if (s->in_len - at < 2 + len)
			break;
		s->had_query = true;
		s->tickets++;
		t->stat.queries++;
		deadline_add(t->loop, &t->idle, &s->age);
		t->on_message(t->ctx, s, &s->path, s->in + at + 2, len);
		at += 2 + len;
	}
	s->is_parsing = false;
	if (s->is_closed) {
		session_free_when_done(s);
		return false;
	}
	memmove(s->in, s->in + at, s->in_len - at);
	s->in_len -= at;
	return true;
}

/* The large buffer is there only as long as a message does not fit into the small one. */
static int fit_buffer(struct tcp_session *s)
{
	size_t need = s->in_len >= 2 ? 2 + ((size_t)s->in[0] << 8 | s->in[1]) : 2;

	if (!s->in_large && need > IN_SMALL) {
		s->in_large = malloc(IN_LARGE);
		if (!s->in_large)
			return -ENOMEM;
		memcpy(s->in_large, s->in_small, s->in_len);
		s->in = s->in_large;
		s->in_max = IN_LARGE;
	} else if (s->in_large && need <= IN_SMALL && s->in_len <= IN_SMALL) {
		memcpy(s->in_small, s->in_large, s->in_len);
		free(s->in_large);
		s->in_large = NULL;
		s->in = s->in_small;
		s->in_max = IN_SMALL;
	}
	return 0;
}

static void session_read(struct tcp_session *s)
{
	struct tcp_server *t = s->server;

	for (int i = 0; i < READS_PER_WAKE && may_read(s); i++) {
		ssize_t n;

		if (s->in_len < s->in_max) {
			n = recv(s->fd, s->in + s->in_len, s->in_max - s->in_len, MSG_DONTWAIT);
			if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
				break;
			if (n < 0) {
				session_close(s, NULL);
				return;
			}
			s->is_eof = n == 0;
			s->in_len += (size_t)n;
		}
		if (!session_parse(s))
			return;
		if (fit_buffer(s) < 0) {
			session_close(s, &t->stat.closed_full);
			return;
		}
	}
	close_if_finished(s);
	update_events(s);
}

static void on_session_event(uv_poll_t *h, int status, int events)
{
	struct tcp_session *s = h->data;

	if (status < 0) {
		session_close(s, NULL);
		return;
	}
	if (events & UV_WRITABLE) {
		session_write(s);
		close_if_finished(s);
	}
	if (s->is_closed)
		return;
	/* Messages that waited for room to answer are in the buffer already. */
	if (!session_parse(s))
		return;
	if (events & UV_READABLE)
		session_read(s);
	else
		update_events(s);
}

static void on_resume(struct deadline *d)
{
	struct tcp_session *s = (struct tcp_session *)((char *)d - offsetof(struct tcp_session, resume));

	if (!session_parse(s))
		return;
	close_if_finished(s);
	update_events(s);
}

/* Queries still open have their own, shorter bound; a client that does not take its answers in all this time is closed. */
static void on_age(struct deadline *d)
{
	struct tcp_session *s = session_of_age(d);

	if (s->tickets && !unsent(s))
		deadline_add(s->server->loop, &s->server->idle, &s->age);
	else
		session_close(s, &s->server->stat.closed_idle);
}

static struct tcp_session *oldest_idle(struct deadline_queue *q)
{
	for (struct deadline *d = q->head.next; d != &q->head; d = d->next)
		if (!session_of_age(d)->tickets && !session_of_age(d)->is_parsing)
			return session_of_age(d);
	return NULL;
}

/* The longest idle session goes; when every session has open queries, so does the newcomer. */
static bool make_room(struct tcp_server *t)
{
	struct tcp_session *s = oldest_idle(&t->idle), *unborn = oldest_idle(&t->first);

	/* Who never asked anything goes before one that idles for less time than the other has been silent. */
	if (!s || (unborn && unborn->age.at_ms + (TCP_IDLE_MS - TCP_FIRST_MS) < s->age.at_ms))
		s = unborn;
	if (s)
		session_close(s, &t->stat.closed_full);
	return s;
}

static struct tcp_session **client_bucket(struct tcp_server *t, const struct addr *a)
{
	return &t->client[hash_range(hash_bytes(a->b, sizeof(a->b), t->seed), CLIENT_BUCKETS)];
}

static bool client_is_full(struct tcp_server *t, const struct addr *a)
{
	unsigned count = 0;

	for (struct tcp_session *s = *client_bucket(t, a); s; s = s->client_next)
		count += addr_equal(&s->path.from.addr, a);
	return count >= TCP_PER_CLIENT_MAX;
}

/* Takes the accepted socket. */
static void session_open(struct listener *k, int fd)
{
	struct tcp_server *t = k->server;
	struct tcp_session *s = NULL, **bucket;
	struct tcp_path path;
	int on = 1;

	if (tcp_path_read(&path, fd, k->ifindex) < 0)
		goto refuse;
	if (client_is_full(t, &path.from.addr) || (t->stat.open >= TCP_SESSIONS_MAX && !make_room(t))) {
		t->stat.closed_full++;
		goto refuse;
	}
	s = calloc(1, sizeof(*s));
	if (!s || uv_poll_init(loop_uv(t->loop), &s->poll, fd) < 0)
		goto refuse;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	s->poll.data = s;
	s->server = t;
	s->fd = fd;
	s->path = path;
	s->in = s->in_small;
	s->in_max = IN_SMALL;
	bucket = client_bucket(t, &path.from.addr);
	LIST_ADD(*bucket, s, client);
	LIST_ADD(t->all, s, all);
	t->stat.accepted++;
	t->stat.open++;
	deadline_add(t->loop, &t->first, &s->age);
	update_events(s);
	return;
refuse:
	free(s);
	close(fd);
}

static void on_backoff(struct deadline *d)
{
	struct listener *k = (struct listener *)((char *)d - offsetof(struct listener, backoff));

	uv_poll_start(&k->poll, UV_READABLE, on_listener_event);
}

/* Without descriptors or memory the connection stays in the kernel's queue: give one back if we can, and look again later. */
static void listener_back_off(struct listener *k)
{
	make_room(k->server);
	uv_poll_stop(&k->poll);
	deadline_add(k->server->loop, &k->server->backoff, &k->backoff);
}

static void on_listener_event(uv_poll_t *h, int status, int events)
{
	struct listener *k = h->data;

	if (status < 0) {
		listener_back_off(k);
		return;
	}
	for (int i = 0; i < ACCEPT_BATCH; i++) {
		int fd = accept4(k->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			session_open(k, fd);
			continue;
		}
		if (errno == EAGAIN || errno == EWOULDBLOCK)
			return;
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			listener_back_off(k);
			return;
		}
		/* Anything else is about this one connection (ECONNABORTED, EPERM, a network error that was pending). */
	}
}

int tcp_server_new(struct tcp_server **ret, struct loop *l,
        void (*on_message)(void *ctx, struct tcp_session *s, const struct tcp_path *path, const uint8_t *msg, size_t len),
        void *ctx)
{
	struct tcp_server *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->loop = l;
	t->on_message = on_message;
	t->ctx = ctx;
	t->seed = hash_seed();
	deadline_queue_init(l, &t->first, TCP_FIRST_MS, on_age);
	deadline_queue_init(l, &t->idle, TCP_IDLE_MS, on_age);
	deadline_queue_init(l, &t->resume, RESUME_MS, on_resume);
	deadline_queue_init(l, &t->backoff, BACKOFF_MS, on_backoff);
	loop_on_turn_end(l, on_turn_end, t);
	*ret = t;
	return 0;
}

void tcp_server_free(struct tcp_server *t)
{
	if (!t)
		return;
	for (uint32_t i = 0; i < TCP_LISTENERS_MAX; i++)
		tcp_server_remove(t, i);
	while (t->all)
		session_close(t->all, NULL);
	deadline_queue_done(t->loop, &t->first);
	deadline_queue_done(t->loop, &t->idle);
	deadline_queue_done(t->loop, &t->resume);
	deadline_queue_done(t->loop, &t->backoff);
	loop_off_turn_end(t->loop, on_turn_end, t);
	free(t);
}

int tcp_server_add(struct tcp_server *t, int listen_fd, uint32_t ifindex, uint32_t *ret_index)
{
	struct listener *k = NULL;
	uint32_t i = 0;
	int r;

	while (i < TCP_LISTENERS_MAX && t->listener[i])
		i++;
	k = i < TCP_LISTENERS_MAX ? calloc(1, sizeof(*k)) : NULL;
	if (!k) {
		r = i < TCP_LISTENERS_MAX ? -ENOMEM : NW_EFULL;
		goto fail;
	}
	tcp_path_prepare(listen_fd);
	r = uv_poll_init(loop_uv(t->loop), &k->poll, listen_fd);
	if (r < 0)
		goto fail;
	k->poll.data = k;
	k->server = t;
	k->fd = listen_fd;
	k->ifindex = ifindex;
	t->listener[i] = k;
	uv_poll_start(&k->poll, UV_READABLE, on_listener_event);
	*ret_index = i;
	return 0;
fail:
	free(k);
	close(listen_fd);
	return r;
}

static void on_listener_closed(uv_handle_t *h)
{
	free(h->data);
}

void tcp_server_remove(struct tcp_server *t, uint32_t index)
{
	struct listener *k = index < TCP_LISTENERS_MAX ? t->listener[index] : NULL;

	if (!k)
		return;
	t->listener[index] = NULL;
	deadline_del(&k->backoff);
	uv_close((uv_handle_t *)&k->poll, on_listener_closed);
	close(k->fd);
}

void tcp_server_stat(const struct tcp_server *t, struct tcp_stat *ret)
{
	*ret = t->stat;
}
