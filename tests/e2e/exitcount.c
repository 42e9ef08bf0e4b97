/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Counts at which exit packets really leave. It stands on the far side of every exit and compares with what the client wrote
 * into them. Interfaces are known by name, so those that are deleted and made again still count.
 *
 *   nw-exitcount IFNAME=TAG [IFNAME=TAG]...      TAG: 0, 1 or 2
 *
 * A line on standard input is a command: `snap` prints the counts since the last `reset` as one line of JSON; end of input ends
 * it. `gap_ms` is the longest time between two packets of a tag, `first`/`last` are CLOCK_MONOTONIC seconds. Packets that the
 * kernel dropped before we saw them are told as `missed`: then the counts are worth nothing. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "exit.h"

enum { EXITS_MAX = 8, INDEXES_MAX = 1024, BATCH = 64, SNAP = 192, EXAMPLES_MAX = 12, EXAMPLE_LEN = 192, HEAD_6 = 40 };

struct exit_point {
	unsigned tag;
	char name[IF_NAMESIZE];
};

static struct exit_point exits[EXITS_MAX];
static unsigned exit_count;
static int packet_fd;
static struct {
	int index;
	bool is_exit;
	unsigned tag;
} indexes[INDEXES_MAX]; /* interface numbers met; they are not given out twice */
static unsigned index_count;
static uint64_t udp[EXIT_TAGS][EXIT_TAGS], tcp[EXIT_TAGS][EXIT_TAGS], missed; /* [exit][expected] */
static double first[EXIT_TAGS], last[EXIT_TAGS], gap[EXIT_TAGS], last_wrong;
static char examples[EXAMPLES_MAX][EXAMPLE_LEN];
static unsigned example_count;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void note_wrong(unsigned exit, unsigned expected, int family, const uint8_t *dst, const char *what, const char *name)
{
	char text[INET6_ADDRSTRLEN], clean[EXIT_NAME_MAX + 1] = "";

	last_wrong = now();
	if (example_count == EXAMPLES_MAX)
		return;
	inet_ntop(family, dst, text, sizeof text);
	for (unsigned i = 0; name && i < EXIT_NAME_MAX && name[i]; i++)
		clean[i] = name[i] == '"' || name[i] == '\\' || name[i] < ' ' ? '?' : name[i];
	snprintf(examples[example_count++], EXAMPLE_LEN, "%s %s to %s left by %c, expected %c", what, clean, text,
	        EXIT_TAG_NAMES[exit], EXIT_TAG_NAMES[expected]);
}

static void note_time(unsigned tag)
{
	double t = now();
	if (!first[tag])
		first[tag] = t;
	if (last[tag] && t - last[tag] > gap[tag])
		gap[tag] = t - last[tag];
	last[tag] = t;
}

static void count_packet(unsigned exit, const uint8_t *p, size_t len)
{
	bool is_6 = len && p[0] >> 4 == 6;
	size_t head = is_6 ? HEAD_6 : len ? (size_t)(p[0] & 15) * 4 : 0;
	struct exit_payload e;

	if (len < head + 20 || (!is_6 && p[0] >> 4 != 4))
		return;
	unsigned protocol = is_6 ? p[6] : p[9], port = (unsigned)p[head + 2] << 8 | p[head + 3];
	const uint8_t *dst = is_6 ? p + 24 : p + 16;
	if (port < EXIT_PORT || port >= EXIT_PORT + EXIT_TAGS)
		return;
	unsigned expected = port - EXIT_PORT;
	if (protocol == IPPROTO_TCP && (p[head + 13] & 0x12) == 2) {
		tcp[exit][expected]++;
		if (exit != expected)
			note_wrong(exit, expected, is_6 ? AF_INET6 : AF_INET, dst, "SYN", NULL);
	} else if (protocol == IPPROTO_UDP && len >= head + 8 + sizeof e) {
		memcpy(&e, p + head + 8, sizeof e);
		if (ntohl(e.magic) != EXIT_MAGIC || e.tag >= EXIT_TAGS)
			return;
		udp[exit][e.tag]++;
		note_time(e.tag);
		if (exit != e.tag)
			note_wrong(exit, e.tag, is_6 ? AF_INET6 : AF_INET, dst, "UDP", e.name);
	}
}

/* Whether an interface is an exit, and which. */
static bool exit_find(int index, unsigned *ret_tag)
{
	char name[IF_NAMESIZE];

	for (unsigned i = 0; i < index_count; i++)
		if (indexes[i].index == index) {
			*ret_tag = indexes[i].tag;
			return indexes[i].is_exit;
		}
	if (!if_indextoname((unsigned)index, name))
		return false;
	if (index_count == INDEXES_MAX)
		index_count = 0;
	indexes[index_count].index = index;
	indexes[index_count].is_exit = false;
	for (unsigned i = 0; i < exit_count; i++)
		if (!strcmp(exits[i].name, name)) {
			indexes[index_count].is_exit = true;
			indexes[index_count].tag = exits[i].tag;
		}
	*ret_tag = indexes[index_count].tag;
	return indexes[index_count++].is_exit;
}

static void drain(void)
{
	static uint8_t bytes[BATCH][SNAP];
	static struct sockaddr_ll from[BATCH];
	struct iovec iov[BATCH];
	struct mmsghdr msg[BATCH] = {0};
	unsigned tag;

	for (int i = 0; i < BATCH; i++) {
		iov[i] = (struct iovec){bytes[i], SNAP};
		msg[i].msg_hdr =
		        (struct msghdr){.msg_iov = &iov[i], .msg_iovlen = 1, .msg_name = &from[i], .msg_namelen = sizeof from[i]};
	}
	int n;
	do {
		n = recvmmsg(packet_fd, msg, BATCH, MSG_DONTWAIT, NULL);
		for (int i = 0; i < n; i++)
			if (exit_find(from[i].sll_ifindex, &tag))
				count_packet(tag, bytes[i], msg[i].msg_len);
	} while (n == BATCH);
}

static void print_table(const char *name, uint64_t t[EXIT_TAGS][EXIT_TAGS])
{
	printf("\"%s\": {", name);
	for (unsigned e = 0; e < EXIT_TAGS - 1; e++) {
		printf("%s\"%c\": {", e ? ", " : "", EXIT_TAG_NAMES[e]);
		for (unsigned t2 = 0; t2 < EXIT_TAGS; t2++)
			printf("%s\"%c\": %llu", t2 ? ", " : "", EXIT_TAG_NAMES[t2], (unsigned long long)t[e][t2]);
		printf("}");
	}
	printf("}, ");
}

static void print_times(const char *name, const double *t, double unit)
{
	printf("\"%s\": {", name);
	for (unsigned i = 0; i < EXIT_TAGS; i++)
		printf("%s\"%c\": %.6f", i ? ", " : "", EXIT_TAG_NAMES[i], t[i] * unit);
	printf("}, ");
}

static void snap(void)
{
	uint64_t right = 0, wrong = 0;

	struct tpacket_stats s = {0};
	socklen_t len = sizeof s;
	drain();
	if (getsockopt(packet_fd, SOL_PACKET, PACKET_STATISTICS, &s, &len) == 0)
		missed += s.tp_drops;
	for (unsigned e = 0; e < EXIT_TAGS; e++)
		for (unsigned t = 0; t < EXIT_TAGS; t++)
			*(e == t ? &right : &wrong) += udp[e][t] + tcp[e][t];
	printf("{\"right\": %llu, \"wrong\": %llu, \"missed\": %llu, \"last_wrong\": %.6f, ", (unsigned long long)right,
	        (unsigned long long)wrong, (unsigned long long)missed, last_wrong);
	print_table("udp", udp);
	print_table("tcp", tcp);
	print_times("gap_ms", gap, 1000);
	print_times("first", first, 1);
	print_times("last", last, 1);
	printf("\"examples\": [");
	for (unsigned i = 0; i < example_count; i++)
		printf("%s\"%s\"", i ? ", " : "", examples[i]);
	printf("]}\n");
	fflush(stdout);
}

static void reset(void)
{
	drain();
	memset(udp, 0, sizeof udp);
	memset(tcp, 0, sizeof tcp);
	memset(first, 0, sizeof first);
	memset(last, 0, sizeof last);
	memset(gap, 0, sizeof gap);
	missed = example_count = 0;
	last_wrong = 0;
}

static int exit_add(const char *spec)
{
	struct exit_point *x = &exits[exit_count];
	size_t len = strcspn(spec, "=");
	const char *tag = spec[len] && spec[len + 1] ? strchr("012", spec[len + 1]) : NULL;

	if (!tag || len >= sizeof x->name || exit_count == EXITS_MAX)
		return -EINVAL;
	memcpy(x->name, spec, len);
	x->tag = (unsigned)(tag - "012");
	exit_count++;
	return 0;
}

static int packet_open(void)
{
	struct sockaddr_ll sa = {.sll_family = AF_PACKET, .sll_protocol = htons(0x0003)};
	int size = 128 << 20, on = 1;

	packet_fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (packet_fd < 0 || setsockopt(packet_fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) < 0 ||
	        setsockopt(packet_fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) < 0 ||
	        bind(packet_fd, (void *)&sa, sizeof sa) < 0)
		return -errno;
	return 0;
}

/* One command line; false at the end of input. */
static bool obey(void)
{
	char line[64];
	ssize_t n = read(STDIN_FILENO, line, sizeof line - 1);

	if (n <= 0)
		return false;
	line[n] = 0;
	for (char *save, *c = strtok_r(line, "\n", &save); c; c = strtok_r(NULL, "\n", &save)) {
		if (!strcmp(c, "snap"))
			snap();
		else if (!strcmp(c, "reset")) {
			reset();
			printf("{}\n");
			fflush(stdout);
		}
	}
	return true;
}

int main(int argc, char **argv)
{
	int r = argc > 1 ? 0 : -EINVAL;

	for (int i = 1; i < argc && r == 0; i++)
		r = exit_add(argv[i]);
	if (r < 0 || (r = packet_open()) < 0) {
		fprintf(stderr, "nw-exitcount: %s\nusage: nw-exitcount IFNAME=TAG [IFNAME=TAG]...\n", strerror(-r));
		return 1;
	}
	struct pollfd p[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = packet_fd, .events = POLLIN}};
	printf("{\"ready\": true}\n");
	fflush(stdout);
	for (;;) {
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return 1;
		if (p[1].revents)
			drain();
		if (p[0].revents && !obey())
			return 0;
	}
}
