/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A client that connects in the tick its answer arrives: it asks names at a fixed rate (open loop), and the thread that reads
 * an answer at once sends a packet to every address in it, saying at which exit it ought to be seen.
 *
 *   nw-exitclient -s SERVER [-s SERVER] -f NAMES -n COUNT [-r RATE] [-T TCP-PERCENT] [-m MIX] [-P PASS] [-w WAIT-MS] [-y EVERY]
 *                          [-O LEARNT]
 *   nw-exitclient -F LEARNT -d SECONDS [-r RATE]      no questions: packets to known addresses, one flow each
 *
 * NAMES holds lines `NAME EXIT`, EXIT being 0 (direct), 1, 2 or x (nowhere: the name must not be answered with an address). MIX
 * is A:45,AAAA:30,HTTPS:25. The type of a question follows from its place in the file and PASS, so the same run twice asks the
 * same. One TCP connection in EVERY addresses. The result is one line of JSON. Latency counts from the moment a question was
 * due. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>
#include "exit.h"
#include "exit_ask.h"

struct options options = {.rate = 1500, .wait_ms = 3000, .mix = {45, 30, 25}, .syn_every = 20};
static const char *learnt_path;

static volatile sig_atomic_t is_stopped;

static void on_signal(int signal_number)
{
	is_stopped = 1;
}

uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int names_read(const char *path)
{
	FILE *f = fopen(path, "re");
	char name[256], tag;
	unsigned room = 0;

	if (!f)
		return -errno;
	while (fscanf(f, "%255s %c\n", name, &tag) == 2) {
		const char *known = strchr(EXIT_TAG_NAMES, tag);
		if (!known)
			break;
		if (names.count == room) {
			room = room ? room * 2 : 1024;
			names.v = realloc(names.v, room * sizeof *names.v);
		}
		if (!names.v)
			abort();
		names.v[names.count++] = (struct asked_name){strdup(name), (uint8_t)(known - EXIT_TAG_NAMES)};
	}
	bool is_whole = feof(f) && names.count;
	fclose(f);
	return is_whole ? 0 : -EINVAL;
}

static int mix_parse(const char *text)
{
	return sscanf(text, "A:%u,AAAA:%u,HTTPS:%u", &options.mix[0], &options.mix[1], &options.mix[2]) == 3 &&
	                       options.mix[0] + options.mix[1] + options.mix[2] == 100
	               ? 0
	               : -1;
}

static void wait_until(int epoll_fd, uint64_t due)
{
	uint64_t now = now_ns(), left = due > now ? due - now : 0;
	struct epoll_event e[64];
	struct timespec t = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
	int n = epoll_pwait2(epoll_fd, e, 64, &t, NULL);

	for (int i = 0; i < n; i++)
		ask_ready(e[i].data.u32, e[i].events);
}

static void ask_all(int epoll_fd)
{
	uint64_t start = now_ns(), step = 1000000000u / options.rate;

	for (uint64_t i = 0; i < options.count && !is_stopped;) {
		uint64_t now = now_ns(), due = start + i * step;
		if (now < due) {
			wait_until(epoll_fd, due);
			continue;
		}
		/* However late we are, answers are read in between. */
		for (unsigned k = 0; k < 16 && i < options.count && start + i * step <= now; k++, i++)
			ask(i, start + i * step);
		wait_until(epoll_fd, 0);
	}
	uint64_t end = now_ns() + options.wait_ms * 1000000ull;
	while (ask_pending() && now_ns() < end && !is_stopped)
		wait_until(epoll_fd, now_ns() + 10000000u);
}

static int flows_run(const char *path, double seconds)
{
	FILE *f = fopen(path, "re");
	char text[64], name[256], tag;
	static struct {
		struct address a;
		uint8_t tag;
	} * flows;
	unsigned count = 0;

	if (!f || send_open(0) < 0 || !(flows = calloc(1 << 20, sizeof *flows)))
		return -1;
	while (count < 1 << 20 && fscanf(f, "%63s %c %255s\n", text, &tag, name) == 3) {
		flows[count].a.is_6 = strchr(text, ':') != NULL;
		if (inet_pton(flows[count].a.is_6 ? AF_INET6 : AF_INET, text, flows[count].a.b) == 1)
			flows[count++].tag = (uint8_t)(strchr(EXIT_TAG_NAMES, tag) - EXIT_TAG_NAMES);
	}
	fclose(f);
	uint64_t start = now_ns(), end = start + (uint64_t)(seconds * 1e9), step = 1000000000u / options.rate;
	for (uint64_t i = 0; count && !is_stopped && start + i * step < end; i++) {
		uint64_t now, due = start + i * step;
		if ((now = now_ns()) < due)
			nanosleep(&(struct timespec){0, (long)(due - now)}, NULL);
		send_packet(&flows[i % count].a, flows[i % count].tag, "held");
	}
	printf("{\"flows\": %u, ", count);
	ask_print_sent();
	printf("}\n");
	return 0;
}

static int usage(void)
{
	fprintf(stderr, "usage: nw-exitclient -s SERVER [-s SERVER] -f NAMES -n COUNT [-r RATE] [-T TCP-PERCENT] [-m MIX] [-P "
	                "PASS] [-w WAIT-MS] [-y EVERY] [-O LEARNT]\n"
	                "       nw-exitclient -F LEARNT -d SECONDS [-r RATE]\n");
	return 2;
}

int main(int argc, char **argv)
{
	struct sigaction sa = {.sa_handler = on_signal};
	const char *names_path = NULL, *flows_path = NULL;
	double seconds = 0;
	int option, r = 0;

	while ((option = getopt(argc, argv, "s:f:n:r:T:m:P:w:y:O:F:d:")) != -1) {
		switch (option) {
		case 's':
			r |= options.server_count < SERVERS_MAX ? 0 : -1;
			options.server[options.server_count++ % SERVERS_MAX] = optarg;
			break;
		case 'f':
			names_path = optarg;
			break;
		case 'n':
			options.count = (uint64_t)atoll(optarg);
			break;
		case 'r':
			options.rate = (unsigned)atoi(optarg);
			break;
		case 'T':
			options.tcp_percent = (unsigned)atoi(optarg);
			break;
		case 'm':
			r |= mix_parse(optarg);
			break;
		case 'P':
			options.pass = (unsigned)atoi(optarg);
			break;
		case 'w':
			options.wait_ms = (unsigned)atoi(optarg);
			break;
		case 'y':
			options.syn_every = (unsigned)atoi(optarg);
			break;
		case 'O':
			learnt_path = optarg;
			break;
		case 'F':
			flows_path = optarg;
			break;
		case 'd':
			seconds = atof(optarg);
			break;
		default:
			return usage();
		}
	}
	if (r || !options.rate || (flows_path ? seconds <= 0 : !names_path || !options.count || !options.server_count))
		return usage();
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	if (flows_path)
		return flows_run(flows_path, seconds) < 0;
	if ((r = names_read(names_path)) < 0) {
		fprintf(stderr, "nw-exitclient: %s: %s (lines are `NAME 0|1|2|x`)\n", names_path, strerror(-r));
		return 1;
	}
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (send_open(options.syn_every) < 0 || (r = ask_open(epoll_fd, learnt_path)) < 0) {
		fprintf(stderr, "nw-exitclient: %s\n", strerror(-r));
		return 1;
	}
	ask_all(epoll_fd);
	ask_print();
	return 0;
}
