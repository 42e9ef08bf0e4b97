/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Messages between parent and server: texts and descriptors arrive whole, and what a broken peer sends does no harm and leaks nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "daemon/ipc.h"

static int pair[2];
static struct ipc_msg got;

static unsigned open_fds(void)
{
	unsigned count = 0;
	DIR *d = opendir("/proc/self/fd");
	while (readdir(d))
		count++;
	closedir(d);
	return count;
}

static int set_up(void **state)
{
	(void)state;
	memset(&got, 0x55, sizeof got);
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
}

static int tear_down(void **state)
{
	(void)state;
	close(pair[0]);
	close(pair[1]);
	return 0;
}

static void test_all_of_it_arrives(void **state)
{
	(void)state;
	struct ipc_msg m = { .type = IPC_PREPARED, .flag = 3, .serial = 7, .result = -5, .a = 1, .b = 2, .c = 3, .name = "list", .text = "what" };
	int fd1, fd2;
	assert_int_equal(ipc_send(pair[0], &m, -1, -1), 0);
	assert_int_equal(ipc_receive(pair[1], &got, &fd1, &fd2), 0);
	assert_int_equal(got.type, IPC_PREPARED);
	assert_true(got.flag == 3 && got.serial == 7 && got.result == -5 && got.a == 1 && got.b == 2 && got.c == 3);
	assert_string_equal(got.name, "list");
	assert_string_equal(got.text, "what");
	assert_true(fd1 == -1 && fd2 == -1);
	assert_int_equal(ipc_receive(pair[1], &got, &fd1, &fd2), -EAGAIN);
}

static void test_longest_text(void **state)
{
	(void)state;
	struct ipc_msg m = { .type = IPC_ALARM };
	int fd1, fd2;
	memset(m.name, 'n', sizeof m.name); /* neither ends */
	memset(m.text, 't', sizeof m.text);
	assert_int_equal(ipc_send(pair[0], &m, -1, -1), 0);
	assert_int_equal(ipc_receive(pair[1], &got, &fd1, &fd2), 0);
	assert_int_equal(strlen(got.name), sizeof m.name - 1);
	assert_int_equal(strlen(got.text), sizeof m.text - 1);
}

static void test_descriptors(void **state)
{
	(void)state;
	struct ipc_msg m = { .type = IPC_CONTROL };
	int fd1, fd2;
	unsigned before = open_fds();
	int a = ipc_memfd("a", "one", 3), b = ipc_memfd("b", "three", 5);
	assert_int_equal(ipc_send(pair[0], &m, a, b), 0);
	assert_int_equal(ipc_send(pair[0], &m, b, -1), 0);
	assert_int_equal(ipc_receive(pair[1], &got, &fd1, &fd2), 0);
	void *bytes;
	size_t len;
	assert_int_equal(fcntl(fd1, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(ipc_read_memfd(fd1, &bytes, &len, 100), 0);
	assert_string_equal(bytes, "one");
	free(bytes);
	assert_int_equal(ipc_read_memfd(fd2, &bytes, &len, 100), 0);
	assert_string_equal(bytes, "three");
	assert_int_equal(len, 5);
	free(bytes);
	assert_int_equal(ipc_receive(pair[1], &got, &fd1, &fd2), 0);
	assert_int_equal(fd2, -1);
	assert_int_equal(ipc_read_memfd(fd1, &bytes, &len, 4), NW_ETOOLONG); /* closed all the same */
	close(a);
	close(b);
	assert_int_equal(open_fds(), before);
}

static void send_raw(const void *bytes, size_t len, unsigned fds)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)bytes, .iov_len = len };
	union { struct cmsghdr h; char room[CMSG_SPACE(8 * sizeof(int))]; } room = { 0 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	if (fds) {
		m.msg_control = &room;
		m.msg_controllen = CMSG_SPACE(fds * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(fds * sizeof(int));
		for (unsigned i = 0; i < fds; i++)
			memcpy(CMSG_DATA(c) + i * sizeof(int), &pair[0], sizeof(int));
	}
	assert_int_equal(sendmsg(pair[0], &m, 0), len);
}

static void test_broken_peer(void **state)
{
	(void)state;
	struct ipc_msg m = { .type = IPC_WANT_LIST };
	int fd1, fd2;
	unsigned before = open_fds();
	static const size_t lens[] = { 1, 2, sizeof m.type + sizeof m.flag, offsetof(struct ipc_msg, text) };
	for (unsigned i = 0; i < 4; i++) {
		send_raw(&m, lens[i], i % 3);
		assert_int_equal(ipc_receive(pair[1], &got, &fd1, &fd2), NW_EMALFORMED);
		assert_true(fd1 == -1 && fd2 == -1);
	}
	assert_int_equal(open_fds(), before);
	/* More descriptors than there is room for: two come, none stays behind. */
	send_raw(&m, offsetof(struct ipc_msg, text) + 1, 8);
	assert_int_equal(ipc_receive(pair[1], &got, &fd1, &fd2), 0);
	close(fd1);
	close(fd2);
	assert_int_equal(open_fds(), before);
	/* Longer than a message. */
	static char big[sizeof m * 2];
	memset(big, 'x', sizeof big);
	send_raw(big, sizeof big, 0);
	assert_int_equal(ipc_receive(pair[1], &got, &fd1, &fd2), 0);
	assert_int_equal(got.name[sizeof got.name - 1], 0);
	assert_int_equal(got.text[sizeof got.text - 1], 0);
	shutdown(pair[0], SHUT_WR);
	assert_int_equal(ipc_receive(pair[1], &got, &fd1, &fd2), -EPIPE);
}

static void test_peer_that_does_not_read(void **state)
{
	(void)state;
	struct ipc_msg m = { .type = IPC_ALARM };
	int r = 0;
	for (int i = 0; i < 100000 && r == 0; i++)
		r = ipc_send_now(pair[0], &m);
	assert_int_equal(r, -EAGAIN);
	uint64_t start = clock_ms();
	assert_int_equal(ipc_send_now(pair[0], &m), -EAGAIN);
	assert_true(clock_ms() - start < IPC_WAIT_MS);
	assert_int_equal(ipc_send(pair[0], &m, -1, -1), -EAGAIN);
	assert_true(clock_ms() - start >= IPC_WAIT_MS);
	close(pair[1]);
	int gone = ipc_send(pair[0], &m, -1, -1);
	assert_true(gone < 0 && gone != -EAGAIN);
	pair[1] = -1;
}

static void test_memfd_is_sealed(void **state)
{
	(void)state;
	int fd = ipc_memfd("sealed", "text", 4);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "x", 1, 0), -1);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(ftruncate(fd, 100), -1);
	assert_ptr_equal(mmap(NULL, 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(test_all_of_it_arrives), TEST(test_longest_text), TEST(test_descriptors), TEST(test_broken_peer), TEST(test_peer_that_does_not_read), TEST(test_memfd_is_sealed),
	};
	return cmocka_run_group_tests_name("daemon ipc", tests, NULL, NULL);
}
