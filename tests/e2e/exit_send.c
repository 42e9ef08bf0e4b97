/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "exit_send.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "exit.h"

enum { SYN_OPEN_MAX = 256 };

struct sent sent;
static int udp_fd[2];
static unsigned syn_every, until_syn, syn_at;
static int syn_fd[SYN_OPEN_MAX];
static uint32_t sequence;

int send_open(unsigned every)
{
	int size = 8 << 20;

	syn_every = until_syn = every;
	memset(syn_fd, -1, sizeof syn_fd);
	for (int i = 0; i < 2; i++) {
		udp_fd[i] = socket(i ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (udp_fd[i] < 0)
			return -errno;
		(void)setsockopt(udp_fd[i], SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
	}
	return 0;
}

static socklen_t address_fill(struct sockaddr_storage *ret, const struct address *a, unsigned tag)
{
	struct sockaddr_in *s4 = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *s6 = (struct sockaddr_in6 *)ret;

	memset(ret, 0, sizeof *ret);
	if (a->is_6) {
		s6->sin6_family = AF_INET6;
		s6->sin6_port = htons((uint16_t)(EXIT_PORT + tag));
		memcpy(&s6->sin6_addr, a->b, 16);
		return sizeof *s6;
	}
	s4->sin_family = AF_INET;
	s4->sin_port = htons((uint16_t)(EXIT_PORT + tag));
	memcpy(&s4->sin_addr, a->b, 4);
	return sizeof *s4;
}

/* The oldest of the open connections makes room. */
static void syn_send(const struct sockaddr_storage *to, socklen_t len, unsigned tag)
{
	int fd = socket(to->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || (connect(fd, (const void *)to, len) < 0 && errno != EINPROGRESS)) {
		sent.failed++;
		if (fd >= 0)
			close(fd);
		return;
	}
	sent.syn[tag]++;
	if (syn_fd[syn_at] >= 0)
		close(syn_fd[syn_at]);
	syn_fd[syn_at] = fd;
	syn_at = (syn_at + 1) % SYN_OPEN_MAX;
}

void send_packet(const struct address *a, unsigned tag, const char *name)
{
	struct exit_payload p = {.magic = htonl(EXIT_MAGIC), .sequence = htonl(sequence++), .tag = (uint8_t)tag};
	struct sockaddr_storage to;
	socklen_t len = address_fill(&to, a, tag);

	strncpy(p.name, name, sizeof p.name - 1);
	if (sendto(udp_fd[a->is_6], &p, sizeof p, 0, (void *)&to, len) == sizeof p)
		sent.udp[tag]++;
	else
		sent.failed++;
	if (syn_every && --until_syn == 0) {
		until_syn = syn_every;
		syn_send(&to, len, tag);
	}
}
