/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The UDP side of the load generator: connected sockets, sendmmsg and recvmmsg of LOAD_BATCH. Sending blocks when the kernel's
 * queue is full, which then shows as late sends; receiving never blocks. */
#include <errno.h>
#include <linux/sock_diag.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "cli/load_private.h"

enum { ANSWER_MAX = 4096, SOCKET_BUFFER = 8 << 20, RECEIVE_ROUNDS = 4 };

/* A large receive buffer, by force where we may: an answer that we drop ourselves is not the server's loss. */
int udp_open(struct load *l, struct source *s)
{
	int size = SOCKET_BUFFER, r;

	s->fd = socket(l->server.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (s->fd < 0)
		return -errno;
	if (setsockopt(s->fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0)
		(void)setsockopt(s->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	r = connect(s->fd, (struct sockaddr *)&l->server, l->server_len) < 0 ? -errno : 0;
	if (r < 0) {
		close(s->fd);
		s->fd = -1;
	}
	return r;
}

/* Sends what was made. An error is about one message, or left from an earlier one: "connection refused" is reported once and the
 * message sent again; one that the kernel will not take otherwise is unsent. */
static void batch_send(struct load *l, struct source *s, struct mmsghdr *msg, const uint32_t *slot, unsigned made)
{
	unsigned at = 0;
	bool was_refused = false;

	while (at < made) {
		uint64_t now_ns = load_now_ns();
		int n = sendmmsg(s->fd, msg + at, made - at, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == ECONNREFUSED && !was_refused) {
			l->result->refused++;
			was_refused = true;
			continue;
		}
		if (n <= 0) {
			l->result->refused += errno == ECONNREFUSED;
			query_unsent(l, l->pending[slot[at]].intended_ns);
			query_undo(l, slot[at++]);
			continue;
		}
		for (int i = 0; i < n; i++)
			query_sent(l, slot[at + (unsigned)i], now_ns);
		at += (unsigned)n;
		was_refused = false;
	}
}

unsigned udp_send(struct load *l, const uint64_t *intended_ns, unsigned count)
{
	static uint8_t bytes[LOAD_BATCH][LOAD_QUERY_MAX];
	struct source *s = &l->source[l->turn_udp++ % l->udp_count];
	struct mmsghdr msg[LOAD_BATCH];
	struct iovec iov[LOAD_BATCH];
	uint32_t slot[LOAD_BATCH];
	unsigned made = 0;

	while (made < count) {
		size_t len = query_make(l, s, intended_ns[made], bytes[made], &slot[made]);

		if (!len)
			break;
		iov[made] = (struct iovec){.iov_base = bytes[made], .iov_len = len};
		msg[made] = (struct mmsghdr){.msg_hdr = {.msg_iov = &iov[made], .msg_iovlen = 1}};
		made++;
	}
	batch_send(l, s, msg, slot, made);
	/* Every id of this socket is out: these cannot be asked in time. */
	for (unsigned i = made; i < count; i++)
		query_unsent(l, intended_ns[i]);
	return count;
}

void udp_receive(struct load *l, struct source *s)
{
	static uint8_t bytes[LOAD_BATCH][ANSWER_MAX];
	struct mmsghdr msg[LOAD_BATCH];
	struct iovec iov[LOAD_BATCH];

	for (int round = 0; round < RECEIVE_ROUNDS; round++) {
		uint64_t now_ns;
		int n;

		for (unsigned i = 0; i < LOAD_BATCH; i++) {
			iov[i] = (struct iovec){.iov_base = bytes[i], .iov_len = ANSWER_MAX};
			msg[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &iov[i], .msg_iovlen = 1}};
		}
		n = recvmmsg(s->fd, msg, LOAD_BATCH, MSG_DONTWAIT, NULL);
		if (n < 0 && errno == ECONNREFUSED)
			l->result->refused++;
		if (n <= 0)
			return;
		now_ns = load_now_ns();
		for (int i = 0; i < n; i++)
			query_answered(l, s, bytes[i], msg[i].msg_len, now_ns);
		if (n < LOAD_BATCH)
			return;
	}
}

void udp_count_drops(struct load *l, const struct source *s)
{
	uint32_t memory[SK_MEMINFO_VARS];
	socklen_t len = sizeof(memory);

	if (getsockopt(s->fd, SOL_SOCKET, SO_MEMINFO, memory, &len) == 0 && len >= sizeof(memory))
		l->result->own_drops += memory[SK_MEMINFO_DROPS];
}
