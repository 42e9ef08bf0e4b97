/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "steer/link.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/hash.h"

struct steer_link {
	pthread_mutex_t lock;
	int fd;
	uint32_t seq;
	const struct steer_shared *shared;
	union { struct steer_add add; struct steer_release release; struct steer_prefixes prefixes; } out;
	_Alignas(8) char in[STEER_MSG_MAX];
};

int link_new(struct steer_link **ret, int fd, const struct steer_shared *shared)
{
	struct steer_link *l = calloc(1, sizeof *l);
	if (!l)
		return -ENOMEM;
	pthread_mutex_init(&l->lock, NULL);
	l->fd = fd;
	l->shared = shared;
	/* The channel outlives a server: numbers begin where an earlier one's did not, so that its late answers match nothing. And nobody may read it for a while. */
	l->seq = (uint32_t)hash_seed();
	struct timeval wait = { .tv_sec = LINK_WAIT_MS / 1000 };
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
	*ret = l;
	return 0;
}

void link_free(struct steer_link *l)
{
	if (!l)
		return;
	pthread_mutex_destroy(&l->lock);
	free(l);
}

void link_element(struct steer_element *ret, uint32_t rule_id, const struct addr *a, uint32_t life_s)
{
	*ret = (struct steer_element){ .rule_id = rule_id, .life_s = life_s, .family = a->family == AF_INET ? 4 : 6 };
	memcpy(ret->addr, a->b, 16);
}

/* Sends and waits for the answer of the same seq and one of its type; older answers are thrown away. *ret_fd: a passed descriptor or -1. */
static int ask(struct steer_link *l, const void *msg, size_t len, uint16_t want, uint32_t seq, size_t *ret_len, int *ret_fd)
{
	uint64_t until = clock_ms() + LINK_WAIT_MS;
	if (send(l->fd, msg, len, MSG_NOSIGNAL) < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	for (;;) {
		uint64_t now = clock_ms();
		struct pollfd p = { .fd = l->fd, .events = POLLIN };
		if (now >= until || poll(&p, 1, (int)(until - now)) == 0)
			return -ETIMEDOUT;
		struct iovec iov = { .iov_base = l->in, .iov_len = sizeof l->in };
		union { struct cmsghdr h; char room[CMSG_SPACE(sizeof(int))]; } room;
		struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = sizeof room };
		ssize_t n = recvmsg(l->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (n == 0)
			return -EPIPE;
		if (n < (ssize_t)sizeof(struct steer_reply))
			continue;
		int fd = -1;
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		if (c && c->cmsg_type == SCM_RIGHTS)
			memcpy(&fd, CMSG_DATA(c), sizeof fd);
		const struct steer_reply *head = (const void *)l->in;
		if (head->type == want && head->seq == seq) {
			*ret_len = (size_t)n;
			*ret_fd = fd;
			return 0;
		}
		if (fd >= 0)
			close(fd);
	}
}

int link_add(struct steer_link *l, const struct steer_element *e, unsigned count, uint8_t *status)
{
	int r = 0;
	if (status)
		memset(status, STEER_FAILED, count);
	pthread_mutex_lock(&l->lock);
	for (unsigned at = 0; at < count && (r == 0 || r == -EIO);) {
		unsigned n = count - at < STEER_BATCH_MAX ? count - at : STEER_BATCH_MAX;
		l->out.add.type = STEER_ADD;
		l->out.add.count = (uint16_t)n;
		l->out.add.seq = ++l->seq;
		memcpy(l->out.add.e, e + at, n * sizeof *e);
		size_t got;
		int fd, ra = ask(l, &l->out.add, offsetof(struct steer_add, e) + n * sizeof *e, STEER_ACK, l->seq, &got, &fd);
		const struct steer_ack *ack = (const void *)l->in;
		if (ra == 0 && (ack->count != n || got != offsetof(struct steer_ack, status) + n))
			ra = -EPROTO;
		for (unsigned i = 0; i < n; i++) {
			uint8_t s = ra < 0 ? STEER_FAILED : ack->status[i];
			if (status)
				status[at + i] = s;
			if (s != STEER_OK && s != STEER_SKIPPED && !r)
				r = -EIO;
		}
		if (ra < 0)
			r = ra;
		at += n;
	}
	pthread_mutex_unlock(&l->lock);
	return r;
}

int link_release(struct steer_link *l, const struct steer_element *e, unsigned count, uint64_t stamp, bool drop_flows, uint8_t *is_deleted)
{
	int r = 0;
	if (is_deleted)
		memset(is_deleted, 0, count);
	pthread_mutex_lock(&l->lock);
	for (unsigned at = 0; at < count && r == 0;) {
		unsigned n = count - at < STEER_BATCH_MAX ? count - at : STEER_BATCH_MAX;
		struct steer_release *m = &l->out.release;
		m->type = STEER_RELEASE;
		m->count = (uint16_t)n;
		m->seq = ++l->seq;
		m->stamp = stamp;
		m->drop_flows = drop_flows;
		memcpy(m->e, e + at, n * sizeof *e);
		size_t got;
		int fd;
		r = ask(l, m, offsetof(struct steer_release, e) + n * sizeof *e, STEER_RELEASED, l->seq, &got, &fd);
		const struct steer_ack *ack = (const void *)l->in;
		if (r == 0 && (ack->count != n || got != offsetof(struct steer_ack, status) + n))
			r = -EPROTO;
		for (unsigned i = 0; is_deleted && i < n; i++)
			is_deleted[at + i] = r == 0 && ack->status[i];
		at += n;
	}
	pthread_mutex_unlock(&l->lock);
	return r;
}

static int send_ranges(struct steer_link *l, uint32_t rule_id, unsigned which, uint8_t family, const struct range *v, unsigned count, bool drop_flows)
{
	struct steer_prefixes *m = &l->out.prefixes;
	unsigned at = 0;
	uint32_t seq = ++l->seq;
	do {
		unsigned n = count - at < STEER_RANGES_PART ? count - at : STEER_RANGES_PART;
		*m = (struct steer_prefixes){ .type = STEER_PREFIXES, .count = (uint16_t)n, .seq = seq, .rule_id = rule_id, .family = family, .which = (uint8_t)which, .is_first = at == 0,
			.is_last = at + n == count, .drop_flows = drop_flows };
		for (unsigned i = 0; i < n; i++) {
			memcpy(m->r[i].first, v[at + i].first.b, 16);
			memcpy(m->r[i].last, v[at + i].last.b, 16);
		}
		at += n;
		size_t len = offsetof(struct steer_prefixes, r) + n * sizeof m->r[0], got;
		int fd;
		if (!m->is_last) {
			if (send(l->fd, m, len, MSG_NOSIGNAL) < 0)
				return -errno;
			continue;
		}
		int r = ask(l, m, len, STEER_PREFIXES_DONE, seq, &got, &fd);
		return r < 0 ? r : ((const struct steer_done *)(const void *)l->in)->result < 0 ? -EIO : 0;
	} while (at < count);
	return 0;
}

int link_prefixes(struct steer_link *l, uint32_t rule_id, unsigned which, const struct range *v4, unsigned count4, const struct range *v6, unsigned count6, bool drop_flows)
{
	pthread_mutex_lock(&l->lock);
	int r = send_ranges(l, rule_id, which, 4, v4, count4, drop_flows);
	if (r == 0)
		r = send_ranges(l, rule_id, which, 6, v6, count6, drop_flows);
	pthread_mutex_unlock(&l->lock);
	return r;
}

json_t *link_query(struct steer_link *l, enum steer_query_what what, const struct addr *a)
{
	struct steer_query q = { .type = STEER_QUERY, .what = (uint16_t)what };
	if (a)
		link_element(&q.e, 0, a, 0);
	json_t *json = NULL;
	size_t got;
	int fd = -1;
	pthread_mutex_lock(&l->lock);
	q.seq = ++l->seq;
	int r = ask(l, &q, sizeof q, STEER_REPLY, q.seq, &got, &fd);
	pthread_mutex_unlock(&l->lock);
	if (r == 0 && fd >= 0 && lseek(fd, 0, SEEK_SET) == 0)
		json = json_loadfd(fd, 0, NULL);
	if (fd >= 0)
		close(fd);
	return json;
}
