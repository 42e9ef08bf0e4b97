/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a record costs the worker, and the log's thread, while both run.  query-log-bench [SECONDS]  (default 2 for each line)
 *
 * The worker's side alone is the question: query_ring_wants and query_ring_put for names of a usual mix. It rests so often that the log's thread keeps up, as
 * it does at the rates of a server; the time of resting does not count. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include "stat/query_log.h"

enum { NAMES = 32 /* near at hand, as the name of a query is when it is recorded */, BURST = 2000 };
static struct name names[NAMES];

/* CLOCK_MONOTONIC, or the time this thread has run: others may have the core meanwhile. */
static uint64_t now_ns(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double cpu_s(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void make_names(void)
{
	char text[64];
	for (unsigned i = 0; i < NAMES; i++) {
		snprintf(text, sizeof text, "%.*s%u.example%u.com", (int)(i % 12), "cdn-edge-www", i, i % 97);
		name_from_text(&names[i], text, strlen(text));
	}
}

static void remove_dir(const char *path, int fd)
{
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));)
		unlinkat(fd, e->d_name, 0);
	if (d)
		closedir(d);
	rmdir(path);
}

static void measure(const char *what, bool is_on, double seconds, unsigned rest_us)
{
	char dir[] = "/tmp/nameway-bench-XXXXXX";
	struct query_log *l;
	struct query_log_stat st;
	struct query_ring *r = query_ring_new();
	struct query_log_settings settings = { .is_on = is_on, .keep_s = 3600, .bytes_max = 64 << 20 };
	struct query_record q = { .took_us = 80, .qtype = 1, .outcome = OUTCOME_CACHED, .filter_rule = -1, .steer_rule = -1, .config_serial = 1 };
	int fd = mkdtemp(dir) ? open(dir, O_RDONLY | O_DIRECTORY) : -1;
	if (!r || fd < 0 || query_log_new(&l, fd) < 0)
		exit(1);
	query_log_attach(l, r);
	query_log_configure(l, &settings);
	addr_parse(&q.client, "192.168.8.20");
	uint64_t spent = 0, asked = 0, put = 0, until = now_ns(CLOCK_MONOTONIC) + (uint64_t)(seconds * 1e9);
	double cpu = cpu_s();
	for (uint64_t begin; (begin = now_ns(CLOCK_MONOTONIC)) < until;) {
		uint64_t now_ms = begin / 1000000, from = now_ns(CLOCK_THREAD_CPUTIME_ID);
		for (unsigned i = 0; i < BURST; i++, asked++) {
			if (!query_ring_wants(r, now_ms, &q.weight))
				continue;
			q.qname = &names[asked % NAMES];
			q.wall_ms = now_ms;
			query_ring_put(r, &q);
			put++;
		}
		spent += now_ns(CLOCK_THREAD_CPUTIME_ID) - from;
		if (rest_us)
			usleep(rest_us);
	}
	query_log_stat(l, &st);
	cpu = cpu_s() - cpu;
	printf("%-28s %8.1f ns a query in the worker; %llu of %llu recorded, %llu lost; all threads %.0f ns a query\n", what, (double)spent / (double)asked,
		(unsigned long long)put, (unsigned long long)asked, (unsigned long long)st.lost, cpu * 1e9 / (double)asked);
	query_log_free(l);
	query_ring_free(r);
	remove_dir(dir, fd);
	close(fd);
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 2;
	make_names();
	measure("off, as fast as it goes", false, seconds, 0);
	measure("off, 50,000 a second", false, seconds, BURST * 20);
	measure("on, 50,000 a second", true, seconds, BURST * 20);
	measure("on, 200,000 a second", true, seconds, BURST * 5);
	return 0;
}
