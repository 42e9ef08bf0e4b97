/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The load of the benchmark, and the upstream of the servers it measures, in one process on one processor.
 *
 *   nw-bench-load UPSTREAM-ADDRESS UPSTREAM-PORT
 *
 * It prints `ready` and takes commands, a line each, on standard input; it ends with its input. Answers are a line of JSON.
 *
 *   names KEY FILE      reads names that `@KEY` asks; replaces what was read under this key
 *   run ADDRESS PORT WHAT RCODE ANSWERS WINDOW SOCKETS MS RATE
 *
 * WHAT is `@KEY`, or a pattern: '*' is ten random letters, '#' ten that never come again. RCODE and ANSWERS say what a right
 * answer is; RCODE -1 is an echo. RATE 0 keeps WINDOW queries in flight; else it is queries a second. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
#include "load.h"

enum { FILES_MAX = 16, KEY_MAX = 32 };

static struct named_file {
	char key[KEY_MAX];
	struct names *names;
} files[FILES_MAX];
static uint64_t random_state;

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

uint64_t random_next(void)
{
	uint64_t x = random_state += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

uint64_t random_below(uint64_t n)
{
	return (uint64_t)((unsigned __int128)random_next() * n >> 64);
}

int udp_socket(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), size = 8 << 20;

	if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	return fd;
}

static void complain(const char *what)
{
	printf("{\"error\": \"%s\"}\n", what);
}

static void print_figures(const struct figures *f)
{
	printf("{\"sent\": %llu, \"answered\": %llu, \"lost\": %llu, \"wrong\": %llu, \"late\": %llu, \"elapsed_s\": %.6f, \"median_us\": %.1f, "
	       "\"p99_us\": %.1f, \"wrong_rcode\": %u, \"upstream\": %llu}\n",
	        (unsigned long long)f->sent, (unsigned long long)f->answered, (unsigned long long)f->lost, (unsigned long long)f->wrong,
	        (unsigned long long)f->late, (double)f->elapsed_ns / 1e9, f->median_us, f->p99_us, f->first_wrong_rcode,
	        (unsigned long long)upstream_served());
}

/* The place of a key, an empty one if it is new, or NULL. */
static struct named_file *file_of(const char *key)
{
	for (struct named_file *f = files; f < files + FILES_MAX; f++)
		if (!f->key[0] || !strcmp(f->key, key))
			return f;
	return NULL;
}

static void command_run(const char *line, int upstream)
{
	char address[64], what[256];
	unsigned port, ms, rate;
	struct run r = {.server.sin_family = AF_INET, .upstream = upstream};
	const struct named_file *file;
	struct names *pattern = NULL;
	struct figures figures;

	if (sscanf(line, "run %63s %u %255s %d %u %u %u %u %u", address, &port, what, &r.rcode, &r.answers_min, &r.window, &r.sockets, &ms,
	            &rate) != 9 ||
	        inet_pton(AF_INET, address, &r.server.sin_addr) != 1 || !r.window || !r.sockets) {
		complain("not a command");
		return;
	}
	r.server.sin_port = htons((uint16_t)port);
	r.duration_ns = (uint64_t)ms * 1000000;
	r.rate = rate;
	if (what[0] == '@')
		r.names = (file = file_of(what + 1)) ? file->names : NULL;
	else
		r.names = pattern = names_from_pattern(what);
	if (!r.names)
		complain("nothing to ask");
	else if (run_measure(&r, &figures) < 0)
		complain("the load could not run");
	else
		print_figures(&figures);
	names_free(pattern);
}

static void command_names(const char *line)
{
	char key[KEY_MAX], path[1024];
	struct named_file *f = NULL;

	if (sscanf(line, "names %31s %1023s", key, path) == 2)
		f = file_of(key);
	if (f) {
		strcpy(f->key, key);
		names_free(f->names);
		f->names = names_from_file(path);
	}
	if (f && f->names)
		printf("{}\n");
	else
		complain("no names");
}

/* Waits for a command, serving the upstream meanwhile. False: the input has ended. */
static bool next_line(char *line, size_t max, int upstream)
{
	struct pollfd p[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = upstream, .events = POLLIN}};

	while (poll(p, 2, -1) >= 0 || errno == EINTR) {
		while (upstream_serve(upstream) == LOAD_BATCH)
			;
		if (p[0].revents)
			return fgets(line, (int)max, stdin) != NULL;
	}
	return false;
}

int main(int argc, char **argv)
{
	char line[2048];
	int upstream;

	if (argc != 3) {
		fprintf(stderr, "usage: nw-bench-load UPSTREAM-ADDRESS UPSTREAM-PORT\n");
		return 2;
	}
	/* The benchmark, killed, leaves nothing behind. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	random_state = now_ns();
	upstream = upstream_open(argv[1], atoi(argv[2]));
	if (upstream < 0) {
		fprintf(stderr, "nw-bench-load: cannot listen on %s port %s: %s\n", argv[1], argv[2], strerror(errno));
		return 1;
	}
	/* One command at a time: what poll() shows must not already stand in a buffer. */
	setvbuf(stdin, NULL, _IONBF, 0);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	while (next_line(line, sizeof(line), upstream)) {
		if (!strncmp(line, "run ", 4))
			command_run(line, upstream);
		else if (!strncmp(line, "names ", 6))
			command_names(line);
		else
			complain("not a command");
	}
	for (unsigned i = 0; i < FILES_MAX; i++)
		names_free(files[i].names);
	return 0;
}
