/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The holds' file: what is written comes back, torn tails and damage do not, failing writes lose nothing for good. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/err.h"
#include "base/hash.h"
#include "base/rcu.h"
#include "steer/holds_file.h"

enum { WALL = 1700000000 };
static char dir[] = "holds-test-XXXXXX", path[64];
static int dirfd_, cwd;
static struct holds *h;
static struct holds_file *f;

static void refuse(void *ctx, const struct holds_file_record *r)
{
	fail();
}

/* As a server that finds no file. */
static void fresh_file(void)
{
	holds_file_free(f);
	unlink(path);
	f = holds_file_new(dirfd_, "holds");
	assert_non_null(f);
	assert_int_equal(holds_file_load(f, WALL, refuse, NULL), 0);
}

static int setup(void **state)
{
	rcu_thread_register();
	strcpy(dir, "holds-test-XXXXXX");
	cwd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (chdir(getenv("TMPDIR") ? getenv("TMPDIR") : P_tmpdir) < 0 || !mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/holds", dir);
	dirfd_ = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fresh_file();
	return dirfd_ >= 0 ? holds_new(&h, 10000) : -1;
}

static int teardown(void **state)
{
	holds_file_free(f);
	f = NULL;
	holds_free(h);
	unlink(path);
	close(dirfd_);
	if (rmdir(dir) < 0 || fchdir(cwd) < 0)
		return -1;
	close(cwd);
	rcu_thread_unregister();
	return 0;
}

static struct hold *hold(unsigned i, uint32_t now_s, uint32_t expires_s)
{
	struct addr a = { .family = i % 2 ? AF_INET6 : AF_INET, .b = { 10, 0, (uint8_t)(i >> 8), (uint8_t)i } };
	uint8_t wire[20];
	int n = snprintf((char *)wire + 1, 18, "n%u", i);
	struct hold *d;

	wire[0] = (uint8_t)n;
	wire[n + 1] = 0;
	d = holds_insert(h, i % 3, &a, wire, (uint8_t)(n + 2), hash_bytes(wire, (size_t)n + 2, 1));
	assert_non_null(d);
	assert_true(hold_renew(h, d, 1, now_s, expires_s));
	return d;
}

struct loaded {
	unsigned count;
	uint64_t left_s;
	uint32_t by_number[10000];
};

static void take(void *ctx, const struct holds_file_record *r)
{
	struct loaded *l = ctx;
	unsigned i = (unsigned)r->addr.b[2] << 8 | r->addr.b[3];
	char text[20];

	snprintf(text, sizeof(text), "n%u", i);
	assert_int_equal(r->name_len, strlen(text) + 2);
	assert_memory_equal(r->name + 1, text, strlen(text));
	assert_int_equal(r->rule_id, i % 3);
	assert_int_equal(r->addr.family, i % 2 ? AF_INET6 : AF_INET);
	l->count++;
	l->left_s += r->left_s;
	l->by_number[i] = r->left_s;
}

/* Loads with a second object, as after a restart. */
static int load(struct loaded *l, int64_t wall_s)
{
	struct holds_file *again = holds_file_new(dirfd_, "holds");
	int r;

	memset(l, 0, sizeof(*l));
	assert_non_null(again);
	r = holds_file_load(again, wall_s, take, l);
	holds_file_free(again);
	return r;
}

static uint64_t file_len(void)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return (uint64_t)st.st_size;
}

static void comes_back(void **state)
{
	struct loaded l;

	assert_int_equal(load(&l, WALL), 0);
	for (unsigned i = 0; i < 100; i++)
		hold(i, 50, 1000 + i);
	assert_int_equal(holds_file_sync(f, h, 50, WALL, false), 0);
	for (unsigned i = 100; i < 200; i++)
		hold(i, 51, 1000 + i);
	assert_int_equal(holds_file_sync(f, h, 51, WALL + 1, false), 0);
	assert_int_equal(load(&l, WALL + 100), 200);
	assert_int_equal(l.count, 200);
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(l.by_number[i], 1000 + i - 150);
	/* Half of them have expired by then. */
	assert_int_equal(load(&l, WALL + 950 + 99), 100);
}

static void a_clock_gone_back_adds_no_life(void **state)
{
	struct loaded l;

	hold(1, 0, 500);
	assert_int_equal(holds_file_sync(f, h, 1, WALL, false), 0);
	assert_int_equal(load(&l, 1000), 1);
	assert_int_equal(l.by_number[1], 499);
}

static void once_a_second(void **state)
{
	uint64_t len;

	hold(1, 0, 500);
	assert_int_equal(holds_file_sync(f, h, 1, WALL, false), 0);
	len = file_len();
	hold(2, 1, 500);
	assert_int_equal(holds_file_sync(f, h, 1, WALL, false), 0);
	assert_int_equal(file_len(), len);
	assert_int_equal(holds_file_sync(f, h, 1, WALL, true), 0);
	assert_true(file_len() > len);
	len = file_len();
	hold(3, 1, 500);
	assert_int_equal(holds_file_sync(f, h, 2, WALL, false), 0);
	assert_true(file_len() > len);
}

static bool is_five(void *ctx, const struct hold *d)
{
	if (d->addr.b[3] != 5)
		return false;
	assert_int_equal(holds_file_forget(f, d), 0);
	return true;
}

static void removed_ones_stay_away(void **state)
{
	struct loaded l;

	for (unsigned i = 0; i < 10; i++)
		hold(i, 0, 500);
	assert_int_equal(holds_file_sync(f, h, 1, WALL, false), 0);
	holds_walk(h, is_five, NULL);
	assert_int_equal(holds_file_sync(f, h, 2, WALL + 1, false), 0);
	assert_int_equal(load(&l, WALL + 1), 9);
	assert_int_equal(l.by_number[5], 0);
	hold(5, 3, 600);
	assert_int_equal(holds_file_sync(f, h, 3, WALL + 2, false), 0);
	assert_int_equal(load(&l, WALL + 2), 10);
	assert_int_equal(l.by_number[5], 597);
}

static void a_later_record_counts(void **state)
{
	struct loaded l;

	hold(1, 0, 500);
	assert_int_equal(holds_file_sync(f, h, 1, WALL, false), 0);
	hold(1, 2, 900);
	assert_int_equal(holds_file_sync(f, h, 2, WALL + 1, false), 0);
	assert_int_equal(load(&l, WALL + 1), 1);
	assert_int_equal(l.by_number[1], 898);
}

static void stays_small(void **state)
{
	struct loaded l;

	for (uint32_t now = 1; now < 400; now++) {
		for (unsigned i = 0; i < 50; i++)
			hold(i, now * 100, now * 100 + 1000);
		assert_int_equal(holds_file_sync(f, h, now * 100, WALL + now * 100, false), 0);
		assert_true(file_len() < 60 * 1100);
	}
	assert_int_equal(load(&l, WALL + 39900), 50);
}

static void torn_tails_are_ignored(void **state)
{
	struct loaded l;
	uint64_t whole, one;

	hold(0, 0, 500);
	assert_int_equal(holds_file_sync(f, h, 1, WALL, false), 0);
	one = file_len();
	hold(1, 1, 500);
	assert_int_equal(holds_file_sync(f, h, 2, WALL, false), 0);
	whole = file_len();
	for (uint64_t cut = whole - 1; cut >= one; cut--) {
		assert_int_equal(truncate(path, (off_t)cut), 0);
		assert_int_equal(load(&l, WALL), 1);
		/* Loading has cut the torn record off. */
		assert_int_equal(file_len(), one);
		assert_int_equal(truncate(path, (off_t)cut), 0);
	}
	for (uint64_t cut = 1; cut < 8; cut++) {
		assert_int_equal(truncate(path, (off_t)cut), 0);
		assert_int_equal(load(&l, WALL), NW_EMALFORMED);
	}
	assert_int_equal(truncate(path, 0), 0);
	assert_int_equal(load(&l, WALL), 0);
}

static void damage_ends_the_reading(void **state)
{
	struct loaded l;
	uint64_t len;
	int fd;

	for (unsigned i = 0; i < 3; i++) {
		hold(i, 0, 500);
		assert_int_equal(holds_file_sync(f, h, i + 1, WALL, false), 0);
		len = file_len();
	}
	for (uint64_t at = len - 41; at < len; at++) {
		uint8_t b, bad;

		fd = open(path, O_RDWR | O_CLOEXEC);
		assert_int_equal(pread(fd, &b, 1, (off_t)at), 1);
		bad = b ^ 0x10;
		assert_int_equal(pwrite(fd, &bad, 1, (off_t)at), 1);
		close(fd);
		/* Loading cuts the file, so the next round damages a fresh copy. */
		assert_int_equal(load(&l, WALL), 2);
		assert_int_equal(file_len(), len - 42);
		fresh_file();
		assert_int_equal(holds_file_sync(f, h, 100, WALL, true), 0);
		assert_int_equal(file_len(), len);
	}
}

static void goes_on_where_it_was(void **state)
{
	struct loaded l;

	hold(0, 0, 500);
	assert_int_equal(holds_file_sync(f, h, 1, WALL, false), 0);
	holds_file_free(f);
	f = holds_file_new(dirfd_, "holds");
	memset(&l, 0, sizeof(l));
	/* Not before it is known what the file says. */
	assert_int_equal(holds_file_sync(f, h, 1, WALL, true), 0);
	assert_int_equal(holds_file_load(f, WALL, take, &l), 1);
	assert_int_equal(l.count, 1);
	hold(1, 1, 500);
	assert_int_equal(holds_file_sync(f, h, 2, WALL, false), 0);
	assert_int_equal(load(&l, WALL), 2);
}

static void foreign_files_are_replaced(void **state)
{
	struct loaded l;
	FILE *x = fopen(path, "we");

	fputs("something else entirely", x);
	fclose(x);
	holds_file_free(f);
	f = holds_file_new(dirfd_, "holds");
	assert_int_equal(holds_file_load(f, WALL, take, &l), NW_EMALFORMED);
	hold(0, 0, 500);
	assert_int_equal(holds_file_sync(f, h, 1, WALL, false), 0);
	assert_int_equal(load(&l, WALL), 1);
}

static void failing_writes_are_made_good(void **state)
{
	struct rlimit limit, small;
	struct loaded l;
	uint64_t len;

	signal(SIGXFSZ, SIG_IGN);
	hold(0, 0, 500);
	assert_int_equal(holds_file_sync(f, h, 1, WALL, false), 0);
	len = file_len();
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	small = (struct rlimit){ .rlim_cur = len + 50, .rlim_max = limit.rlim_max };
	hold(1, 1, 500);
	hold(2, 1, 500);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(holds_file_sync(f, h, 2, WALL, false), -EFBIG);
	assert_int_equal(file_len(), len);
	/* Before its time it is not tried again; then it fails as a whole, and the old file stays. */
	assert_int_equal(holds_file_sync(f, h, 3, WALL, false), 0);
	assert_int_equal(holds_file_sync(f, h, 2 + HOLDS_FILE_RETRY_S, WALL, false), -EFBIG);
	assert_int_equal(file_len(), len);
	assert_int_equal(load(&l, WALL), 1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(holds_file_sync(f, h, 2 + 2 * HOLDS_FILE_RETRY_S, WALL + 20, false), 0);
	assert_int_equal(load(&l, WALL + 20), 3);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(comes_back), TEST(a_clock_gone_back_adds_no_life), TEST(once_a_second),
		TEST(removed_ones_stay_away), TEST(a_later_record_counts),
		TEST(stays_small), TEST(torn_tails_are_ignored), TEST(damage_ends_the_reading), TEST(goes_on_where_it_was),
		TEST(foreign_files_are_replaced), TEST(failing_writes_are_made_good),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
