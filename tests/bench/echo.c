/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The floor that our serving is measured against: a bare UDP echo, recvmmsg and sendmmsg of 64, one thread. It turns the QR bit
 * on and sends the packet back, no more.
 *
 *   nw-echo [-c CPU] [-a ADDRESS] PORT
 *
 * On SIGINT or SIGTERM it prints how many packets it answered and the CPU time a packet. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 64, PACKET_MAX = 2048, STRIDE = PACKET_MAX + 128, HEADER = 12 };

static volatile sig_atomic_t is_stopped;

static void on_signal(int signal_number)
{
	is_stopped = 1;
}

static uint64_t echo(int fd)
{
	static uint8_t bytes[BATCH][STRIDE];
	static struct sockaddr_storage name[BATCH];
	struct iovec iov[BATCH];
	struct mmsghdr msg[BATCH] = {0};
	uint64_t answered = 0;

	while (!is_stopped) {
		int n, at = 0;

		for (int i = 0; i < BATCH; i++) {
			iov[i] = (struct iovec){.iov_base = bytes[i], .iov_len = PACKET_MAX};
			msg[i].msg_hdr = (struct msghdr){
			        .msg_name = &name[i], .msg_namelen = sizeof(name[i]), .msg_iov = &iov[i], .msg_iovlen = 1};
		}
		n = recvmmsg(fd, msg, BATCH, MSG_WAITFORONE, NULL);
		for (int i = 0; i < n; i++) {
			iov[i].iov_len = msg[i].msg_len;
			if (msg[i].msg_len >= HEADER)
				bytes[i][2] |= 0x80;
		}
		while (at < n) {
			int sent = sendmmsg(fd, msg + at, (unsigned)(n - at), 0);

			/* A packet that cannot be sent is passed over. */
			at += sent > 0 ? sent : 1;
			answered += sent > 0 ? (uint64_t)sent : 0;
		}
	}
	return answered;
}

static int open_socket(const char *address, int port)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), size = 4 << 20;

	if (fd < 0 || inet_pton(AF_INET, address, &sin.sin_addr) != 1)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	return bind(fd, (struct sockaddr *)&sin, sizeof(sin)) < 0 ? -1 : fd;
}

int main(int argc, char **argv)
{
	const char *address = "0.0.0.0";
	struct sigaction sa = {.sa_handler = on_signal};
	struct timespec used;
	uint64_t answered;
	int option, fd, port;

	while ((option = getopt(argc, argv, "c:a:")) != -1) {
		cpu_set_t cpus;

		if (option == 'a') {
			address = optarg;
			continue;
		}
		CPU_ZERO(&cpus);
		if (option == 'c')
			CPU_SET(atoi(optarg), &cpus);
		if (option != 'c' || sched_setaffinity(0, sizeof(cpus), &cpus) < 0) {
			fprintf(stderr, "usage: nw-echo [-c CPU] [-a ADDRESS] PORT\n");
			return 2;
		}
	}
	port = optind + 1 == argc ? atoi(argv[optind]) : 0;
	fd = port > 0 && port < 65536 ? open_socket(address, port) : -1;
	if (fd < 0) {
		fprintf(stderr, "nw-echo: cannot listen: %s\nusage: nw-echo [-c CPU] [-a ADDRESS] PORT\n",
		        port > 0 ? strerror(errno) : "no port given");
		return 2;
	}
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	answered = echo(fd);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	printf("answered %llu, %.0f ns of CPU each\n", (unsigned long long)answered,
	        answered ? ((double)used.tv_sec * 1e9 + (double)used.tv_nsec) / (double)answered : 0.0);
	close(fd);
	return 0;
}
