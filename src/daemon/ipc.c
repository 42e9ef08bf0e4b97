/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "daemon/ipc.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/err.h"

union fd_room { struct cmsghdr h; char room[CMSG_SPACE(2 * sizeof(int))]; };

static void attach_fds(struct msghdr *m, union fd_room *room, int fd1, int fd2)
{
	int fds[2], n = 0;
	if (fd1 >= 0)
		fds[n++] = fd1;
	if (fd2 >= 0)
		fds[n++] = fd2;
	if (!n)
		return;
	memset(room, 0, sizeof *room);
	m->msg_control = room;
	m->msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
	struct cmsghdr *c = CMSG_FIRSTHDR(m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
	memcpy(CMSG_DATA(c), fds, (size_t)n * sizeof(int));
}

int ipc_send(int fd, const struct ipc_msg *msg, int fd1, int fd2)
{
	/* Only the text that is used is sent. */
	size_t len = offsetof(struct ipc_msg, text) + strnlen(msg->text, sizeof msg->text - 1) + 1;
	struct iovec iov = { .iov_base = (void *)(uintptr_t)msg, .iov_len = len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	union fd_room room;
	attach_fds(&m, &room, fd1, fd2);
	for (int tries = 0; tries < 2;) {
		if (sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
			return 0;
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return -errno;
		struct pollfd p = { .fd = fd, .events = POLLOUT };
		if (poll(&p, 1, IPC_WAIT_MS) <= 0)
			tries++;
	}
	return -EAGAIN;
}

int ipc_send_now(int fd, const struct ipc_msg *m)
{
	return send(fd, m, offsetof(struct ipc_msg, text) + 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

int ipc_receive(int fd, struct ipc_msg *ret, int *ret_fd1, int *ret_fd2)
{
	struct iovec iov = { .iov_base = ret, .iov_len = sizeof *ret };
	union fd_room room;
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = sizeof room };
	*ret_fd1 = *ret_fd2 = -1;
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_type == SCM_RIGHTS) {
		size_t fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(ret_fd1, CMSG_DATA(c), sizeof(int));
		if (fds > 1)
			memcpy(ret_fd2, CMSG_DATA(c) + sizeof(int), sizeof(int));
	}
	if (n == 0)
		return -EPIPE;
	if ((size_t)n <= offsetof(struct ipc_msg, text)) {
		if (*ret_fd1 >= 0)
			close(*ret_fd1);
		if (*ret_fd2 >= 0)
			close(*ret_fd2);
		*ret_fd1 = *ret_fd2 = -1;
		return NW_EMALFORMED;
	}
	((char *)ret)[n - 1] = 0;
	ret->name[sizeof ret->name - 1] = 0;
	return 0;
}

int ipc_memfd(const char *name, const void *bytes, size_t len)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	for (size_t at = 0; at < len;) {
		ssize_t n = write(fd, (const char *)bytes + at, len - at);
		if (n <= 0) {
			close(fd);
			return n < 0 ? -errno : -ENOSPC;
		}
		at += (size_t)n;
	}
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
	return fd;
}

int ipc_read_memfd(int fd, void **ret, size_t *ret_len, size_t max)
{
	struct stat st;
	int r = -ENOMEM;
	char *bytes = NULL;
	if (fstat(fd, &st) < 0 || st.st_size < 0 || (size_t)st.st_size > max) {
		r = NW_ETOOLONG;
		goto out;
	}
	bytes = malloc((size_t)st.st_size + 1);
	if (!bytes)
		goto out;
	size_t at = 0;
	while (at < (size_t)st.st_size) {
		ssize_t n = pread(fd, bytes + at, (size_t)st.st_size - at, (off_t)at);
		if (n <= 0) {
			r = n < 0 ? -errno : NW_EMALFORMED;
			goto out;
		}
		at += (size_t)n;
	}
	bytes[at] = 0;
	*ret = bytes;
	*ret_len = at;
	bytes = NULL;
	r = 0;
out:
	free(bytes);
	close(fd);
	return r;
}
