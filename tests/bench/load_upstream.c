/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The upstream of nw-bench-load: as fast as we can make one, so that it never is what is measured. It runs in the same thread as the
 * load, which looks here in every turn.
 *
 * A question of type A is answered with one address; any other is answered empty. Names that begin with a 'c' (to be cached) have
 * one address each and live an hour; all others get an address that was not given before, for five seconds. Both are public
 * addresses, because others are never steered; nothing leaves the namespace. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "load.h"

enum { PACKET_MAX = 512, RECORD = 16, OPT = 11, TTL_CACHED_S = 3600, TTL_NEW_S = 5 };

static uint64_t served;

int upstream_open(const char *address, int port)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = udp_socket();

	if (fd < 0 || inet_pton(AF_INET, address, &sin.sin_addr) != 1)
		return -1;
	return bind(fd, (struct sockaddr *)&sin, sizeof(sin)) < 0 ? -1 : fd;
}

/* Where the question ends, or 0: this is no query with one question. */
static size_t question_end(const uint8_t *p, size_t len)
{
	size_t at = HEADER;

	if (len < HEADER || p[2] & 0x80 || p[4] || p[5] != 1)
		return 0;
	while (at < len && p[at])
		at += (size_t)p[at] + 1;
	return at + 5 <= len ? at + 5 : 0;
}

static uint32_t address_of(const uint8_t *name, size_t len, bool is_cached)
{
	static uint32_t next;
	uint32_t h = 0x811c9dc5;

	/* 16.0.0.0/6 for new ones, 20.0.0.0/8 for cached ones. */
	if (!is_cached)
		return 0x10000000 | (next++ & 0x03ffffff);
	for (size_t i = 0; i < len; i++)
		h = (h ^ name[i]) * 0x01000193;
	return 0x14000000 | (h & 0xffffff);
}

/* Makes the answer in the query's place. Returns its length, or 0: none. */
static size_t answer(uint8_t *p, size_t len)
{
	size_t end = question_end(p, len), at = end;
	bool is_a = end && p[end - 4] == 0 && p[end - 3] == 1, has_opt = end && p[11] && len >= end + OPT;
	bool is_cached = end && p[HEADER + 1] == 'c';
	uint32_t ttl_s = is_cached ? TTL_CACHED_S : TTL_NEW_S, address;

	if (!end || end > PACKET_MAX - RECORD - OPT)
		return 0;
	p[2] = (uint8_t)(0x80 | (p[2] & 1));
	p[3] = 0x80;
	memset(p + 6, 0, 6);
	p[7] = is_a;
	p[11] = has_opt;
	if (is_a) {
		address = address_of(p + HEADER, end - HEADER, is_cached);
		memcpy(p + at,
		        (const uint8_t[RECORD]){0xc0, HEADER, 0, 1, 0, 1, 0, 0, (uint8_t)(ttl_s >> 8), (uint8_t)ttl_s, 0, 4, (uint8_t)(address >> 24),
		                (uint8_t)(address >> 16), (uint8_t)(address >> 8), (uint8_t)address},
		        RECORD);
		at += RECORD;
	}
	if (has_opt) {
		memcpy(p + at, (const uint8_t[OPT]){0, 0, 41, 4, 208}, OPT);
		at += OPT;
	}
	return at;
}

unsigned upstream_serve(int fd)
{
	static uint8_t bytes[LOAD_BATCH][PACKET_MAX + 64];
	static struct sockaddr_in from[LOAD_BATCH];
	struct iovec iov[LOAD_BATCH];
	struct mmsghdr msg[LOAD_BATCH];
	int n, made = 0;

	for (unsigned i = 0; i < LOAD_BATCH; i++) {
		iov[i] = (struct iovec){.iov_base = bytes[i], .iov_len = PACKET_MAX};
		msg[i].msg_hdr = (struct msghdr){.msg_name = &from[i], .msg_namelen = sizeof(from[i]), .msg_iov = &iov[i], .msg_iovlen = 1};
	}
	n = recvmmsg(fd, msg, LOAD_BATCH, MSG_DONTWAIT, NULL);
	for (int i = 0; i < n; i++) {
		iov[i].iov_len = answer(bytes[i], msg[i].msg_len);
		if (iov[i].iov_len)
			msg[made++].msg_hdr = msg[i].msg_hdr;
	}
	for (int at = 0; at < made;) {
		int sent = sendmmsg(fd, msg + at, (unsigned)(made - at), 0);

		/* The one that asked may have gone. */
		at += sent > 0 ? sent : 1;
	}
	served += made > 0 ? (unsigned)made : 0;
	return n > 0 ? (unsigned)n : 0;
}

uint64_t upstream_served(void)
{
	return served;
}
