/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Segments: bounded by size and by age, a torn end cut, damage passed over, a disk that takes no more. Times are made up. */
#include "queries.h"
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include "stat/query_files.h"
#include "stat/query_scan.h"

enum { NOW_MS = 1790000000 };
static const int64_t now_ms = NOW_MS * 1000ll;

static int set_up(void **ctx)
{
	struct dir *d = malloc(sizeof *d);
	dir_make(d);
	*ctx = d;
	return 0;
}

static int tear_down(void **ctx)
{
	dir_remove(*ctx);
	free(*ctx);
	return 0;
}

static struct query_files *open_files(struct dir *d)
{
	struct query_files *f;
	assert_int_equal(query_files_open(&f, d->fd, now_ms), 0);
	return f;
}

/* A block of `count` records, named n0.example … in the order of all. */
static const struct query_block *block_of(unsigned from, unsigned count, int64_t at_ms)
{
	static struct query_block b;
	struct name n;
	char text[64];
	query_block_reset(&b);
	for (unsigned i = 0; i < count; i++) {
		snprintf(text, sizeof text, "n%u.example", from + i);
		struct query_seen q = seen_of(&n, text, i & 1 ? "192.0.2.2" : "192.0.2.1", (from + i) % 10 ? OUTCOME_CACHED : OUTCOME_BLOCKED);
		q.wall_ms = (uint64_t)at_ms;
		assert_true(query_block_add(&b, &q, NULL, NULL));
	}
	query_block_end(&b);
	return &b;
}

static int add(struct query_files *f, unsigned from, unsigned count, int64_t at_ms)
{
	const struct query_block *b = block_of(from, count, at_ms);
	return query_files_append(f, b->bytes, b->len, at_ms);
}

static char *newest(struct query_files *f, struct query_log_filter filter, uint64_t *cursor)
{
	struct query_match m;
	struct query_segment *v;
	unsigned count;
	struct buf out;
	buf_init(&out, 64 << 20);
	buf_printf(&out, "%s", "");
	assert_int_equal(query_match_make(&m, &filter, INT64_MIN), 0);
	assert_int_equal(query_files_list(f, &v, &count), 0);
	if (cursor && *cursor)
		assert_int_equal(query_scan_since(f, v, count, &m, cursor, &out), 0);
	else
		assert_int_equal(query_scan_newest(f, v, count, &m, &out), 0);
	if (cursor && !*cursor)
		*cursor = query_scan_end(v, count);
	free(v);
	return out.bytes;
}

/* Numbers of the names shown, as "3 4 5 ". */
static void assert_numbers(char *lines, const char *want)
{
	char have[65536] = "";
	size_t len = 0;
	for (const char *at = lines; (at = strstr(at, "\"name\":\"n")); at++)
		len += (size_t)snprintf(have + len, sizeof have - len, "%d ", atoi(at + 9));
	assert_string_equal(have, want);
	free(lines);
}

static const struct query_log_filter all = { .outcome = -1, .max = 1000 };

static void what_is_written_is_read(void **ctx)
{
	struct query_files *f = open_files(*ctx);
	struct addr client;
	uint64_t bytes, files;
	bool is_failing;
	addr_parse(&client, "192.0.2.2");
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(add(f, i * 4, 4, now_ms + i), 0);
	assert_numbers(newest(f, all, NULL), "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 ");
	assert_numbers(newest(f, (struct query_log_filter){ .outcome = -1, .max = 3 }, NULL), "17 18 19 ");
	assert_numbers(newest(f, (struct query_log_filter){ .outcome = -1, .max = 0 }, NULL), "");
	assert_numbers(newest(f, (struct query_log_filter){ .outcome = OUTCOME_BLOCKED, .max = 100 }, NULL), "0 10 ");
	assert_numbers(newest(f, (struct query_log_filter){ .outcome = -1, .max = 3, .client = &client }, NULL), "15 17 19 ");
	assert_numbers(newest(f, (struct query_log_filter){ .outcome = -1, .max = 100, .name = "N1.Exa" }, NULL), "1 ");
	assert_numbers(newest(f, (struct query_log_filter){ .outcome = -1, .max = 100, .name = "1.example." }, NULL), "1 11 ");
	query_files_stat(f, &bytes, &files, &is_failing);
	assert_true(bytes == file_size(*ctx, "0000000001.queries") && files == 1 && !is_failing);
	query_files_close(f);
	/* And by the next process, which goes on in the same segment. */
	f = open_files(*ctx);
	assert_int_equal(add(f, 20, 1, now_ms + 9), 0);
	assert_numbers(newest(f, (struct query_log_filter){ .outcome = -1, .max = 2 }, NULL), "19 20 ");
	assert_int_equal(dir_walk(*ctx, NULL), 1);
	query_files_close(f);
}

static uint64_t bytes_on_disk;
static void add_size(const struct dir *d, const char *name)
{
	bytes_on_disk += file_size(d, name);
}

static void space_is_bounded(void **ctx)
{
	enum { MAX = 2 << 20 };
	struct query_files *f = open_files(*ctx);
	uint64_t bytes, files;
	bool is_failing;
	query_files_limit(f, MAX, 0);
	for (unsigned i = 0; i < 300; i++)
		assert_int_equal(add(f, i * 500, 500, now_ms), 0);
	bytes_on_disk = 0;
	unsigned count = dir_walk(*ctx, add_size);
	query_files_stat(f, &bytes, &files, &is_failing);
	assert_int_equal(bytes, bytes_on_disk);
	assert_int_equal(files, count);
	/* Of full use: less than a segment and a block below. */
	assert_in_range(bytes, MAX - MAX / QUERY_SEGMENTS_OF - QUERY_BLOCK_MAX, MAX);
	assert_in_range(files, QUERY_SEGMENTS_OF, QUERY_SEGMENTS_OF + 2);
	assert_numbers(newest(f, (struct query_log_filter){ .outcome = -1, .max = 2 }, NULL), "149998 149999 ");
	assert_int_equal(file_size(*ctx, "0000000001.queries"), UINT64_MAX);
	/* A smaller space takes at once. */
	query_files_limit(f, MAX / 4, 0);
	query_files_trim(f, now_ms);
	query_files_stat(f, &bytes, &files, &is_failing);
	assert_in_range(bytes, MAX / 8, MAX / 4);
	query_files_close(f);
}

static void age_is_bounded(void **ctx)
{
	struct query_files *f = open_files(*ctx);
	uint64_t bytes, files;
	bool is_failing;
	query_files_limit(f, UINT64_MAX, 1600);
	for (unsigned i = 0; i < 40; i++)
		assert_int_equal(add(f, i, 1, now_ms + i * 101000), 0);
	/* A segment spans at most a sixteenth of the time. */
	query_files_stat(f, &bytes, &files, &is_failing);
	assert_int_equal(files, 40);
	query_files_trim(f, now_ms + 39 * 101000);
	query_files_stat(f, &bytes, &files, &is_failing);
	assert_int_equal(files, 16);
	query_files_trim(f, now_ms + 39 * 101000 + 1601000);
	query_files_stat(f, &bytes, &files, &is_failing);
	assert_true(!files && !bytes && !dir_walk(*ctx, NULL));
	/* It goes on behind an empty directory. */
	assert_int_equal(add(f, 100, 1, now_ms + 9000000), 0);
	assert_numbers(newest(f, all, NULL), "100 ");
	query_files_close(f);
}

static void a_torn_end_is_cut(void **ctx)
{
	struct dir *d = *ctx;
	struct query_files *f = open_files(d);
	add(f, 0, 3, now_ms);
	add(f, 3, 3, now_ms);
	query_files_close(f);
	uint64_t whole = file_size(d, "0000000001.queries");
	const struct query_block *b = block_of(6, 3, now_ms);
	for (size_t cut = 1; cut < b->len; cut++) {
		file_write(d, "0000000001.queries", -1, b->bytes, cut);
		f = open_files(d);
		assert_int_equal(file_size(d, "0000000001.queries"), whole);
		query_files_close(f);
	}
	f = open_files(d);
	add(f, 6, 1, now_ms);
	assert_numbers(newest(f, all, NULL), "0 1 2 3 4 5 6 ");
	query_files_close(f);
}

static void damage_is_passed_over(void **ctx)
{
	struct dir *d = *ctx;
	struct query_files *f = open_files(d);
	uint64_t second, third;
	add(f, 0, 3, now_ms);
	second = file_size(d, "0000000001.queries");
	add(f, 3, 3, now_ms);
	third = file_size(d, "0000000001.queries");
	add(f, 6, 3, now_ms);
	query_files_close(f);
	file_write(d, "0000000001.queries", (off_t)(second + third) / 2, "damage", 6);
	/* Neither segments of somebody else nor what only looks like one. */
	file_write(d, "1.queries", -1, "x", 1);
	file_write(d, "0000000009.queries.old", -1, "x", 1);
	assert_int_equal(mkdirat(d->fd, "0000000010.queries", 0700), 0);
	f = open_files(d);
	assert_numbers(newest(f, all, NULL), "0 1 2 6 7 8 ");
	query_files_close(f);
	unlinkat(d->fd, "0000000010.queries", AT_REMOVEDIR);
	/* Nothing of it is whole. */
	static const char rubbish[5000];
	file_write(d, "0000000002.queries", -1, rubbish, sizeof rubbish);
	f = open_files(d);
	assert_int_equal(file_size(d, "0000000002.queries"), 0);
	add(f, 9, 1, now_ms);
	assert_numbers(newest(f, all, NULL), "0 1 2 6 7 8 9 ");
	/* Deleted and cut under our hands. */
	unlinkat(d->fd, "0000000001.queries", 0);
	assert_numbers(newest(f, all, NULL), "9 ");
	query_files_close(f);
}

static void a_full_disk_hurts_nobody(void **ctx)
{
	struct dir *d = *ctx;
	struct query_files *f = open_files(d);
	uint64_t bytes, files;
	bool is_failing;
	struct rlimit old, small = { .rlim_cur = 1500, .rlim_max = RLIM_INFINITY };
	getrlimit(RLIMIT_FSIZE, &old);
	small.rlim_max = old.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	add(f, 0, 3, now_ms);
	setrlimit(RLIMIT_FSIZE, &small);
	/* It fits in part only. */
	assert_true(add(f, 3, 100, now_ms) < 0);
	query_files_stat(f, &bytes, &files, &is_failing);
	assert_true(is_failing);
	assert_int_equal(bytes, file_size(d, "0000000001.queries"));
	setrlimit(RLIMIT_FSIZE, &old);
	/* Not tried again at once, then it is. */
	assert_int_equal(add(f, 3, 3, now_ms + 1), -EAGAIN);
	assert_int_equal(add(f, 3, 3, now_ms + QUERY_RETRY_MS), 0);
	query_files_stat(f, &bytes, &files, &is_failing);
	assert_false(is_failing);
	assert_numbers(newest(f, all, NULL), "0 1 2 3 4 5 ");
	query_files_close(f);
}

static void without_a_directory_nothing_is_kept(void **ctx)
{
	struct query_files *f;
	(void)ctx;
	assert_int_equal(query_files_open(&f, -1, now_ms), 0);
	assert_true(add(f, 0, 1, now_ms) < 0);
	assert_numbers(newest(f, all, NULL), "");
	query_files_close(f);
}

static void a_cursor_follows(void **ctx)
{
	struct query_files *f = open_files(*ctx);
	uint64_t cursor = 0;
	query_files_limit(f, 4 << 20, 0);
	assert_numbers(newest(f, (struct query_log_filter){ .outcome = -1, .max = 2 }, &cursor), "");
	assert_true(cursor);
	add(f, 0, 3, now_ms);
	assert_numbers(newest(f, all, &cursor), "0 1 2 ");
	assert_numbers(newest(f, all, &cursor), "");
	/* Into the next segment, and by blocks when there is more than wanted. */
	for (unsigned i = 0; i < 400; i++)
		add(f, 3 + i * 100, 100, now_ms);
	char *part = newest(f, (struct query_log_filter){ .outcome = -1, .max = 150, .name = "n5" }, &cursor), *next;
	assert_non_null(strstr(part, "\"n5.example\""));
	for (unsigned rounds = 0; *(next = newest(f, (struct query_log_filter){ .outcome = -1, .max = 150 }, &cursor)); rounds++) {
		assert_true(rounds < 400);
		free(part);
		part = next;
	}
	assert_non_null(strstr(part, "\"n40002.example\""));
	free(part);
	free(next);
	/* Of files that are gone, or of other ones. */
	cursor = (uint64_t)4000 << 32;
	assert_numbers(newest(f, all, &cursor), "");
	add(f, 7, 1, now_ms);
	assert_numbers(newest(f, all, &cursor), "7 ");
	/* In the middle of a block: from the next one on. */
	add(f, 8, 1, now_ms);
	cursor -= 5;
	assert_numbers(newest(f, all, &cursor), "8 ");
	query_files_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_written_is_read, set_up, tear_down),
		cmocka_unit_test_setup_teardown(space_is_bounded, set_up, tear_down),
		cmocka_unit_test_setup_teardown(age_is_bounded, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_torn_end_is_cut, set_up, tear_down),
		cmocka_unit_test_setup_teardown(damage_is_passed_over, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_full_disk_hurts_nobody, set_up, tear_down),
		cmocka_unit_test(without_a_directory_nothing_is_kept),
		cmocka_unit_test_setup_teardown(a_cursor_follows, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
