/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Memory and time of one list through the list manager, with a state directory: list_bench NAMES, or list_bench -f FILE. Prints
 * what ten names take, what the list takes once it is in force (bytes a name beyond its wire length), and the peak over that of
 * changing 150 names and of changing all of them, some times. Memory is what the process has resident.
 *
 * list_bench --check NAMES is the test: the same, with limits wide enough for a sanitizer without its quarantine; 77 where peaks
 * cannot be told. */
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/heap.h"
#include "policy/lists.h"

enum { FEW = 10, SOME = 150, ROUNDS = 3, SKIPPED = 77 };
/* A sanitizer takes some bytes more, and rebuilding the index for a few changes, or keeping sets of all names, many more. */
#define CHECK_PER_NAME 30.0
#define CHECK_SOME 1.25
#define CHECK_ALL 2.3

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static uint64_t status_bytes(const char *key)
{
	char line[256];
	uint64_t kib = 0;
	FILE *f = fopen("/proc/self/status", "r");

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, key, strlen(key)) == 0)
			kib = strtoull(line + strlen(key) + 1, NULL, 10);
	if (f)
		fclose(f);
	return kib * 1024;
}

/* The peak begins anew from what is resident now. */
static void reset_peak(void)
{
	int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "5", 1) != 1) {
		printf("the kernel does not let a process set its peak back\n");
		exit(SKIPPED);
	}
	close(fd);
}

static bool is_check, is_missed;

static void check(const char *what, double value, double most)
{
	if (!is_check || value <= most)
		return;
	printf("MISSED: %s: %.2f, at most %.2f\n", what, value, most);
	is_missed = true;
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* Names as real lists have them, about 20 bytes; `changed` of them, all over the list, of another family than the others. */
static int make_file(uint64_t count, uint64_t changed, uint64_t family, uint64_t *ret_wire)
{
	static const char *const tlds[] = {"com", "net", "org", "example", "info", "ru", "de", "io"};
	uint64_t every = changed ? count / changed : count + 1;
	int fd = open("/tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	FILE *f = fd < 0 ? NULL : fdopen(dup(fd), "w");

	if (!f)
		abort();
	*ret_wire = 0;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t h = mix(i | (i % every == every - 1 ? family << 40 : 0));
		int n = fprintf(f, "site-%llx.%s\n", (unsigned long long)(h >> 24), tlds[h % 8]);

		*ret_wire += (uint64_t)n + 1;
	}
	fclose(f);
	lseek(fd, 0, SEEK_SET);
	return fd;
}

static double in_force_s;

static void in_force(void *ctx, const struct list_update *u)
{
	in_force_s = now_s();
}

/* Seconds until the names were in force; those until everything was kept as well are in *ret_kept_s. */
static double offer(struct lists *l, int fd, double *ret_kept_s)
{
	struct list_file file = {.fd = fd, .path = "bench"};
	struct report r;
	double start = now_s();
	int err;

	report_init(&r);
	err = lists_offer(l, 0, &file, 1, true, &r);
	if (err < 0) {
		fprintf(stderr, "%s", r.text.bytes);
		exit(1);
	}
	report_free(&r);
	*ret_kept_s = now_s() - start;
	return in_force_s - start;
}

static void change(struct lists *l, uint64_t count, uint64_t changed, uint64_t family, uint64_t base, uint64_t steady)
{
	uint64_t wire, peak, resident;
	double s, kept_s, over;
	int fd = make_file(count, changed, family, &wire);

	reset_peak();
	s = offer(l, fd, &kept_s);
	peak = status_bytes("VmHWM:");
	resident = status_bytes("VmRSS:");
	over = (double)(peak - base) / (double)(steady - base);
	printf("%llu changed: in force in %.3f s, kept in %.3f s, peak %.1f MiB = %.3f x steady, (peak - base) = %.3f x (steady - base), then %.1f MiB\n",
	        (unsigned long long)changed, s, kept_s, (double)peak / 1048576, (double)peak / (double)steady, over, (double)resident / 1048576);
	check("(peak - base) / (steady - base)", over, changed == count ? CHECK_ALL : CHECK_SOME);
	check("afterwards, as a multiple of before", (double)(resident - base) / (double)(steady - base), CHECK_SOME);
}

static void alarm_said(void *ctx, const char *key, const char *text)
{
	if (text)
		fprintf(stderr, "alarm %s: %s\n", key, text);
}

static struct lists *start(int state, const struct config *config)
{
	struct lists_hooks hooks = {.alarm = alarm_said, .after_publish = in_force};
	uint16_t slots[CONFIG_LISTS_MAX];
	bool restored[CONFIG_LISTS_MAX];
	struct lists *l;

	if (lists_new(&l, state, &hooks) < 0 || lists_plan(l, config, slots) < 0 || lists_restore(l, restored) < 0)
		exit(1);
	return l;
}

/* Puts the file in force. Returns what is resident then. */
static uint64_t load(struct lists *l, int fd, uint64_t wire, uint64_t base)
{
	struct index_stat st;
	double s, kept_s, each;
	uint64_t peak, steady;

	reset_peak();
	s = offer(l, fd, &kept_s);
	peak = status_bytes("VmHWM:");
	steady = status_bytes("VmRSS:");
	index_stat(lists_index(l), &st);
	printf("%llu names: in force in %.2f s, kept in %.2f s, %.1f MiB over %.1f MiB (peak %.1f), index %.1f MiB", (unsigned long long)st.names, s,
	        kept_s, (double)(steady - base) / 1048576, (double)base / 1048576, (double)peak / 1048576, (double)st.memory_bytes / 1048576);
	each = ((double)(steady - base) - (double)wire) / (double)st.names;
	printf(wire ? ", %.2f bytes a name beyond its wire length\n" : "\n", each);
	if (wire)
		check("bytes a name beyond its wire length", each, CHECK_PER_NAME);
	return steady;
}

static void change_rounds(struct lists *l, uint64_t count, uint64_t base, uint64_t steady)
{
	for (unsigned i = 1; i <= ROUNDS; i++)
		change(l, count, SOME, i, base, steady);
	for (unsigned i = 1; i <= ROUNDS; i++)
		change(l, count, count, ROUNDS + i, base, steady);
}

static struct lists *start_again(struct lists *l, int state, const struct config *config)
{
	double s = now_s();

	lists_save(l);
	printf("image written in %.2f s\n", now_s() - s);
	lists_free(l);
	s = now_s();
	l = start(state, config);
	printf("restored in %.2f s\n", now_s() - s);
	return l;
}

int main(int argc, char **argv)
{
	static const char *path = "bench";
	struct cfg_list list = {.name = "bench", .files = &path, .file_count = 1, .shrink_limit_pct = 50};
	struct config config = {.lists = &list, .list_count = 1};
	const char *file = argc > 2 && strcmp(argv[1], "-f") == 0 ? argv[2] : NULL, *number;
	char dir[] = "/tmp/nameway-list-bench-XXXXXX", command[64];
	uint64_t count, wire = 0, base, steady;
	struct lists *l;
	double kept_s;
	int state, fd;

	is_check = argc > 2 && strcmp(argv[1], "--check") == 0;
	number = is_check ? argv[2] : argc > 1 && !file ? argv[1] : "1000000";
	count = strtoull(number, NULL, 10);
	state = mkdtemp(dir) ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (state < 0 || count < SOME)
		return 1;
	heap_give_back();
	l = start(state, &config);
	offer(l, make_file(FEW, 0, 0, &wire), &kept_s);
	base = status_bytes("VmRSS:");
	fd = file ? open(file, O_RDONLY | O_CLOEXEC) : make_file(count, 0, 0, &wire);
	if (fd < 0)
		return 1;
	steady = load(l, fd, file ? 0 : wire, base);
	if (file)
		l = start_again(l, state, &config);
	else
		change_rounds(l, count, base, steady);
	lists_free(l);
	close(state);
	snprintf(command, sizeof(command), "rm -rf %.40s", dir);
	return system(command) != 0 || is_missed;
}
