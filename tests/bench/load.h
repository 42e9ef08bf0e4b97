/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The parts of nw-bench-load. One thread; everything lives until the process ends. */
#pragma once
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum { LOAD_BATCH = 64, QUESTION_MAX = 259, WINDOW_MAX = 4096, HEADER = 12 };

uint64_t now_ns(void);
uint64_t random_next(void);
/* Evenly from 0 to n - 1. */
uint64_t random_below(uint64_t n);
/* A UDP socket with a buffer that holds every window. Negative: errno is set. */
int udp_socket(void);

/* load_names.c: what is asked. */
struct names;
/* A file of names, a line each. NULL: said on standard error. */
struct names *names_from_file(const char *path);
/* A name in which '*' stands for ten random letters, or '#' for ten letters that never come again. NULL: not a name. */
struct names *names_from_pattern(const char *pattern);
void names_free(struct names *n);
/* Draws `count` questions of type A, evenly and with repetition. out[i] has room for QUESTION_MAX bytes; ret_len[i] is its length. */
void names_draw(struct names *n, unsigned count, uint8_t *const *out, uint16_t *ret_len);

/* load_upstream.c: the upstream that every server under test is given. */
int upstream_open(const char *address, int port);
/* Answers what has come, without waiting. Returns how many. */
unsigned upstream_serve(int fd);
uint64_t upstream_served(void);

/* load_run.c: one measurement. */
struct run {
	struct sockaddr_in server;
	struct names *names;
	int rcode;            /* the only right one, or -1: an echo, which has none */
	unsigned answers_min; /* records that a right answer has at least */
	unsigned window;      /* queries in flight */
	unsigned sockets;
	uint64_t duration_ns;
	uint64_t rate; /* queries a second, or 0: as many as the window lets */
	int upstream;
};
struct figures {
	uint64_t sent, answered, lost, wrong, late, elapsed_ns;
	double median_us, p99_us;
	unsigned first_wrong_rcode;
};
int run_measure(const struct run *r, struct figures *ret);
