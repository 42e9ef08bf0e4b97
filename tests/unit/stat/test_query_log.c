/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The log as a whole: workers of several threads, the log's own, and readers; what is on and off; what survives a kill. */
#include "queries.h"
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

struct fixture { struct dir dir; struct query_log *log; struct query_ring *ring; };

static uint64_t wall_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static const char *name_of_rule(void *ctx, uint32_t serial, bool is_steer, int rule, char buf[128])
{
	(void)ctx;
	if (serial > 2)
		return NULL;
	snprintf(buf, 128, "%s %d of %u", is_steer ? "steer" : "filter", rule, serial);
	return buf;
}

static void configure(struct query_log *l, bool is_on)
{
	struct query_log_settings s = { .is_on = is_on, .keep_s = 3600, .bytes_max = 16 << 20, .rule_name = name_of_rule };
	query_log_configure(l, &s);
}

static int set_up(void **ctx)
{
	struct fixture *f = malloc(sizeof *f);
	dir_make(&f->dir);
	f->ring = query_ring_new();
	assert_int_equal(query_log_new(&f->log, f->dir.fd), 0);
	query_log_attach(f->log, f->ring);
	configure(f->log, true);
	*ctx = f;
	return 0;
}

static int tear_down(void **ctx)
{
	struct fixture *f = *ctx;
	query_log_free(f->log);
	query_ring_free(f->ring);
	dir_remove(&f->dir);
	free(f);
	return 0;
}

static void ask(struct query_ring *r, const char *name, enum query_outcome o, int filter_rule, uint32_t serial)
{
	struct name n;
	uint32_t weight;
	struct query_record q = record_of(&n, name, "192.168.8.20", o);
	q.wall_ms = wall_ms();
	q.filter_rule = (int16_t)filter_rule;
	q.config_serial = serial;
	if (!query_ring_wants(r, 1000, &weight))
		return;
	q.weight = weight;
	query_ring_put(r, &q);
}

/* The lines as a JSON array. */
static json_t *lines(struct query_log *l, const char *name, unsigned max, uint64_t *cursor)
{
	struct query_log_filter f = { .name = name, .outcome = -1, .max = max };
	struct buf out;
	json_t *ret = json_array();
	buf_init(&out, 64 << 20);
	assert_int_equal(query_log_print(l, &f, cursor, &out), 0);
	char *rest = out.bytes;
	for (char *line; (line = strsep(&rest, "\n")) && *line;) {
		json_t *j = json_loads(line, 0, NULL);
		assert_non_null(j);
		json_array_append_new(ret, j);
	}
	buf_free(&out);
	return ret;
}

static const char *text(const json_t *all, unsigned i, const char *key)
{
	return json_string_value(json_object_get(json_array_get(all, i), key));
}

static void what_was_asked_is_told_at_once(void **ctx)
{
	struct fixture *f = *ctx;
	struct query_log_stat st;
	ask(f->ring, "one.example", OUTCOME_CACHED, -1, 1);
	ask(f->ring, "ads.example", OUTCOME_BLOCKED, 3, 1);
	ask(f->ring, "gone.example", OUTCOME_BLOCKED, 3, 7);
	ask(f->ring, "other.example", OUTCOME_BLOCKED, 4, 2);
	json_t *j = lines(f->log, NULL, 10, NULL);
	assert_int_equal(json_array_size(j), 4);
	assert_string_equal(text(j, 0, "name"), "one.example");
	assert_string_equal(text(j, 0, "client"), "192.168.8.20");
	assert_null(text(j, 0, "filter"));
	assert_string_equal(text(j, 1, "filter"), "filter 3 of 1");
	assert_string_equal(text(j, 1, "outcome"), "blocked");
	assert_null(text(j, 2, "filter"));
	assert_string_equal(text(j, 3, "filter"), "filter 4 of 2");
	json_decref(j);
	j = lines(f->log, "ads", 10, NULL);
	assert_int_equal(json_array_size(j), 1);
	json_decref(j);
	query_log_stat(f->log, &st);
	assert_true(st.records == 4 && !st.lost && st.files == 1 && st.bytes && !st.is_failing);
}

static void a_follower_sees_what_comes(void **ctx)
{
	struct fixture *f = *ctx;
	uint64_t cursor = 0;
	ask(f->ring, "before.example", OUTCOME_CACHED, -1, 1);
	json_t *j = lines(f->log, NULL, 10, &cursor);
	assert_int_equal(json_array_size(j), 1);
	json_decref(j);
	for (unsigned i = 0; i < 3; i++) {
		char name[64];
		snprintf(name, sizeof name, "new%u.example", i);
		ask(f->ring, name, OUTCOME_CACHED, -1, 1);
		j = lines(f->log, NULL, 10, &cursor);
		assert_int_equal(json_array_size(j), 1);
		assert_string_equal(text(j, 0, "name"), name);
		json_decref(j);
	}
	j = lines(f->log, NULL, 10, &cursor);
	assert_int_equal(json_array_size(j), 0);
	json_decref(j);
}

static void off_keeps_no_lines_but_counts(void **ctx)
{
	struct fixture *f = *ctx;
	struct buf out;
	configure(f->log, false);
	for (unsigned i = 0; i < 100; i++)
		ask(f->ring, "secret.example", OUTCOME_CACHED, -1, 1);
	json_t *j = lines(f->log, NULL, 10, NULL);
	assert_int_equal(json_array_size(j), 0);
	json_decref(j);
	buf_init(&out, 1 << 20);
	assert_int_equal(query_top_print(f->log, 5, &out), 0);
	j = json_loadb(out.bytes, out.len, 0, NULL);
	json_t *first = json_array_get(json_object_get(json_object_get(j, "hour"), "names"), 0);
	assert_string_equal(json_string_value(json_object_get(first, "name")), "secret.example");
	assert_int_equal(json_integer_value(json_object_get(first, "count")), 100);
	json_decref(j);
	buf_free(&out);
	configure(f->log, true);
	ask(f->ring, "open.example", OUTCOME_CACHED, -1, 1);
	j = lines(f->log, NULL, 10, NULL);
	assert_int_equal(json_array_size(j), 1);
	json_decref(j);
}

/* Two workers' records of one turn are told in the order of time. */
static void workers_records_are_told_in_order(void **ctx)
{
	struct fixture *f = *ctx;
	struct query_ring *other = query_ring_new();
	struct name n;
	uint64_t cursor = 0, now = wall_ms();
	json_decref(lines(f->log, NULL, 0, &cursor));
	query_log_attach(f->log, other);
	for (unsigned i = 0; i < 20; i++) {
		char name[32];
		snprintf(name, sizeof name, "n%u.example", i);
		struct query_record q = record_of(&n, name, "192.168.8.20", OUTCOME_CACHED);
		q.wall_ms = now - 100 + i;
		query_ring_put(i % 2 ? f->ring : other, &q);
	}
	for (unsigned k = 0; k < 2; k++) {
		json_t *j = lines(f->log, NULL, 100, k ? &cursor : NULL);
		assert_int_equal(json_array_size(j), 20);
		for (unsigned i = 0; i < 20; i++) {
			char name[32];
			snprintf(name, sizeof name, "n%u.example", i);
			assert_string_equal(text(j, i, "name"), name);
		}
		json_decref(j);
	}
	query_log_free(f->log);
	query_ring_free(other);
	assert_int_equal(query_log_new(&f->log, f->dir.fd), 0);
}

/* What is older than `keep` is not told, though its segment is still there. */
static void what_is_too_old_is_not_told(void **ctx)
{
	struct fixture *f = *ctx;
	struct name n;
	struct query_record q = record_of(&n, "old.example", "192.168.8.20", OUTCOME_CACHED);
	q.wall_ms = wall_ms() - 3601000;
	query_ring_put(f->ring, &q);
	ask(f->ring, "new.example", OUTCOME_CACHED, -1, 1);
	json_t *j = lines(f->log, NULL, 10, NULL);
	assert_int_equal(json_array_size(j), 1);
	assert_string_equal(text(j, 0, "name"), "new.example");
	json_decref(j);
}

/* --- threads --- */

enum { WORKERS = 3, EACH = 60000 };
struct worker { struct query_ring *ring; pthread_t thread; unsigned number; };

static void *work(void *arg)
{
	struct worker *w = arg;
	struct name n;
	char name[64];
	for (unsigned i = 0; i < EACH; i++) {
		uint32_t weight;
		snprintf(name, sizeof name, "n%u.w%u.example", i % 1000, w->number);
		struct query_record q = record_of(&n, name, "192.168.8.20", OUTCOME_CACHED);
		q.wall_ms = wall_ms();
		if (query_ring_wants(w->ring, wall_ms(), &weight)) {
			q.weight = weight;
			query_ring_put(w->ring, &q);
		}
	}
	return NULL;
}

static void workers_readers_and_settings_at_once(void **ctx)
{
	struct fixture *f = *ctx;
	struct worker w[WORKERS];
	struct query_log_stat st;
	uint64_t cursor = 0;
	unsigned told = 0;
	json_decref(lines(f->log, NULL, 0, &cursor));
	for (unsigned i = 0; i < WORKERS; i++) {
		w[i] = (struct worker){ .number = i, .ring = query_ring_new() };
		query_log_attach(f->log, w[i].ring);
		pthread_create(&w[i].thread, NULL, work, &w[i]);
	}
	for (unsigned i = 0; i < 20; i++) {
		struct buf out;
		buf_init(&out, 1 << 20);
		query_top_print(f->log, 10, &out);
		buf_free(&out);
		query_log_stat(f->log, &st);
		configure(f->log, true);
		json_t *j = lines(f->log, NULL, 10000, &cursor);
		told += (unsigned)json_array_size(j);
		json_decref(j);
	}
	for (unsigned i = 0; i < WORKERS; i++)
		pthread_join(w[i].thread, NULL);
	for (size_t n = 1; n;) {
		json_t *j = lines(f->log, NULL, 10000, &cursor);
		n = json_array_size(j);
		told += (unsigned)n;
		json_decref(j);
	}
	query_log_stat(f->log, &st);
	assert_int_equal(told + st.lost, WORKERS * EACH);
	assert_int_equal(st.records, told);
	/* The log may outlive no ring. */
	query_log_free(f->log);
	for (unsigned i = 0; i < WORKERS; i++)
		query_ring_free(w[i].ring);
	assert_int_equal(query_log_new(&f->log, f->dir.fd), 0);
}

/* --- ends --- */

static void what_is_left_is_written_at_the_end(void **ctx)
{
	struct fixture *f = *ctx;
	for (unsigned i = 0; i < 50; i++)
		ask(f->ring, "last.example", OUTCOME_CACHED, -1, 1);
	query_log_free(f->log);
	assert_int_equal(query_log_new(&f->log, f->dir.fd), 0);
	json_t *j = lines(f->log, NULL, 100, NULL);
	assert_int_equal(json_array_size(j), 50);
	json_decref(j);
}

/* A process that writes all the time is killed: the next one reads whole records and goes on. */
static void a_kill_leaves_whole_records(void **ctx)
{
	struct fixture *f = *ctx;
	int pipe_fd[2];
	char byte;
	query_log_free(f->log);
	assert_int_equal(pipe(pipe_fd), 0);
	pid_t child = fork();
	if (!child) {
		struct query_log *l;
		struct query_ring *r = query_ring_new();
		uint64_t cursor = 0;
		if (query_log_new(&l, f->dir.fd) < 0)
			_exit(1);
		query_log_attach(l, r);
		configure(l, true);
		for (unsigned i = 0;; i++) {
			ask(r, "killed.example", OUTCOME_CACHED, -1, 1);
			if (i == 1000) {
				json_decref(lines(l, NULL, 1, &cursor)); /* all of them are in the file */
				if (write(pipe_fd[1], "x", 1) != 1)
					_exit(1);
			}
		}
	}
	assert_int_equal(read(pipe_fd[0], &byte, 1), 1);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
	close(pipe_fd[0]);
	close(pipe_fd[1]);
	assert_int_equal(query_log_new(&f->log, f->dir.fd), 0);
	query_log_attach(f->log, f->ring);
	configure(f->log, true);
	json_t *j = lines(f->log, "killed.example", 10000, NULL);
	assert_true(json_array_size(j) >= 1001);
	json_decref(j);
	ask(f->ring, "after.example", OUTCOME_CACHED, -1, 1);
	j = lines(f->log, "after", 10, NULL);
	assert_int_equal(json_array_size(j), 1);
	json_decref(j);
}

static void without_a_directory_it_counts_only(void **ctx)
{
	struct query_log *l;
	struct query_log_stat st;
	struct query_ring *r = query_ring_new();
	(void)ctx;
	assert_int_equal(query_log_new(&l, -1), 0);
	query_log_attach(l, r);
	configure(l, true);
	ask(r, "one.example", OUTCOME_CACHED, -1, 1);
	json_t *j = lines(l, NULL, 10, NULL);
	assert_int_equal(json_array_size(j), 0);
	json_decref(j);
	query_log_stat(l, &st);
	assert_true(st.records == 1 && !st.lost && !st.files && !st.is_failing);
	query_log_free(l);
	query_ring_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_was_asked_is_told_at_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_follower_sees_what_comes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(off_keeps_no_lines_but_counts, set_up, tear_down),
		cmocka_unit_test_setup_teardown(workers_records_are_told_in_order, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_too_old_is_not_told, set_up, tear_down),
		cmocka_unit_test_setup_teardown(workers_readers_and_settings_at_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_left_is_written_at_the_end, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_kill_leaves_whole_records, set_up, tear_down),
		cmocka_unit_test(without_a_directory_it_counts_only),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
