/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Memory and time of one list through the list manager, with a state directory: list_bench NAMES, or list_bench -f FILE. Prints
 * what ten names take, what the list takes once it is in force (bytes a name beyond its wire length), and the peak over that of
 * changing 150 names and of changing all of them. Memory is what the process has resident. */
#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "policy/lists.h"

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

	if (fd < 0 || write(fd, "5", 1) != 1)
		fprintf(stderr, "the peak cannot be reset: it counts from the start\n");
	if (fd >= 0)
		close(fd);
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* Names as real lists have them, about 20 bytes; those below `changed` of another family. */
static int make_file(uint64_t count, uint64_t changed, uint64_t *ret_wire)
{
	static const char *const tlds[] = {"com", "net", "org", "example", "info", "ru", "de", "io"};
	int fd = open("/tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	FILE *f = fd < 0 ? NULL : fdopen(dup(fd), "w");

	if (!f)
		abort();
	*ret_wire = 0;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t h = mix(i * 2 + (i % (count / (changed ? changed : 1) + 1) == 0 && changed ? 1 : 0) + (changed == count));
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

static void change(struct lists *l, const char *what, uint64_t count, uint64_t changed, uint64_t base, uint64_t steady)
{
	uint64_t wire, peak, resident;
	double s, kept_s;
	int fd = make_file(count, changed, &wire);

	malloc_trim(0);
	reset_peak();
	s = offer(l, fd, &kept_s);
	peak = status_bytes("VmHWM:");
	resident = status_bytes("VmRSS:");
	printf("%s: in force in %.3f s, kept in %.3f s, peak %.1f MiB = %.3f x steady, (peak - base) = %.3f x (steady - base), then %.1f MiB\n", what, s, kept_s,
	        (double)peak / 1048576, (double)peak / (double)steady, (double)(peak - base) / (double)(steady - base),
	        (double)resident / 1048576);
}

static void alarm_said(void *ctx, const char *key, const char *text)
{
	if (text)
		fprintf(stderr, "alarm %s: %s\n", key, text);
}

int main(int argc, char **argv)
{
	static const char *path = "bench";
	struct cfg_list list = {.name = "bench", .files = &path, .file_count = 1, .shrink_limit_pct = 50};
	struct config config = {.lists = &list, .list_count = 1};
	struct lists_hooks hooks = {.alarm = alarm_said, .after_publish = in_force};
	bool is_file = argc > 2 && strcmp(argv[1], "-f") == 0;
	uint64_t count = argc > 1 && !is_file ? strtoull(argv[1], NULL, 10) : 1000000, wire, base, steady, peak;
	char dir[] = "/tmp/nameway-list-bench-XXXXXX", command[64];
	uint16_t slots[CONFIG_LISTS_MAX];
	bool restored[CONFIG_LISTS_MAX];
	struct index_stat st;
	struct lists *l;
	int state, fd;
	double s, kept_s;

	state = mkdtemp(dir) ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (state < 0 || lists_new(&l, state, &hooks) < 0 || lists_plan(l, &config, slots) < 0 || lists_restore(l, restored) < 0)
		return 1;
	offer(l, make_file(10, 0, &wire), &kept_s);
	base = status_bytes("VmRSS:");
	fd = is_file ? open(argv[2], O_RDONLY | O_CLOEXEC) : make_file(count, 0, &wire);
	if (fd < 0)
		return 1;
	malloc_trim(0);
	reset_peak();
	s = offer(l, fd, &kept_s);
	peak = status_bytes("VmHWM:");
	steady = status_bytes("VmRSS:");
	index_stat(lists_index(l), &st);
	printf("%llu names: in force in %.2f s, kept in %.2f s, %.1f MiB over %.1f MiB (peak %.1f), index %.1f MiB", (unsigned long long)st.names, s, kept_s,
	        (double)(steady - base) / 1048576, (double)base / 1048576, (double)peak / 1048576, (double)st.memory_bytes / 1048576);
	if (!is_file) {
		printf(", %.2f bytes a name beyond its wire length\n", ((double)(steady - base) - (double)wire) / (double)st.names);
		change(l, "150 changed", count, 150, base, steady);
		change(l, "150 back", count, 0, base, steady);
		change(l, "all changed", count, count, base, steady);
	} else {
		printf("\n");
		s = now_s();
		lists_save(l);
		printf("image written in %.2f s\n", now_s() - s);
		lists_free(l);
		s = now_s();
		if (lists_new(&l, state, &hooks) < 0 || lists_plan(l, &config, slots) < 0 || lists_restore(l, restored) < 0)
			return 1;
		printf("restored in %.2f s\n", now_s() - s);
	}
	lists_free(l);
	close(state);
	snprintf(command, sizeof(command), "rm -rf %.40s", dir);
	return system(command) != 0;
}
