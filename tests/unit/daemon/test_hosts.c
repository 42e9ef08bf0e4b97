/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Hosts files in the server: gathered, read, kept, and made into the table that workers see. The table itself is a stand-in that remembers the texts it was
 * made of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/err.h"
#include "config/bundle.h"
#include "daemon/server_private.h"
#include "local/local.h"

static struct server s;
static struct job *queued[8];
static unsigned queued_count, tables;
static int make_result;
static uint64_t left_out;

void queue_push(struct job_queue *q, struct job *j)
{
	assert_ptr_equal(q, &s.compile_jobs);
	queued[queued_count++] = j;
}

struct local { char texts[512]; };

int local_new(struct local **ret, const struct config *c, const struct local_text *texts, unsigned count, uint64_t seed, struct report *r)
{
	(void)c;
	assert_int_equal(seed, 77);
	if (make_result < 0)
		return make_result;
	struct local *l = calloc(1, sizeof *l);
	assert_non_null(l);
	for (unsigned i = 0; i < count; i++)
		snprintf(l->texts + strlen(l->texts), sizeof l->texts - strlen(l->texts), "%s=%.*s;", strrchr(texts[i].path, '/') + 1, (int)texts[i].len, texts[i].bytes);
	report_add(r, false, NULL, "a line");
	tables++;
	*ret = l;
	return 0;
}

void local_stat(const struct local *l, struct local_stat *ret)
{
	assert_non_null(l);
	*ret = (struct local_stat){ .left_out = left_out };
}

void local_free(struct local *l)
{
	tables -= l != NULL;
	free(l);
}

/* --- */

static struct config *configured(const char *yaml)
{
	struct config *c = NULL;
	struct report r;
	struct buf b;
	report_init(&r);
	buf_init(&b, BUNDLE_MAX);
	bundle_begin(&b, "/etc/nameway");
	bundle_add(&b, "t.yaml", yaml, strlen(yaml));
	bundle_end(&b, 1);
	assert_int_equal(config_parse(&c, b.bytes, b.len, &r), 0);
	buf_free(&b);
	report_free(&r);
	return c;
}

static unsigned open_fds(void)
{
	unsigned count = 0;
	DIR *d = opendir("/proc/self/fd");
	while (readdir(d))
		count++;
	closedir(d);
	return count;
}

static int file_of(const char *text)
{
	int fd = memfd_create("hosts", MFD_CLOEXEC);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

static void send_one(const char *path, int fd_or_error, unsigned at, unsigned total, enum ipc_list_reason reason)
{
	struct ipc_msg m = { .type = IPC_HOSTS_FILE, .a = at, .b = total, .c = reason, .result = fd_or_error < 0 ? fd_or_error : 0 };
	snprintf(m.text, sizeof m.text, "%s", path);
	hosts_take(&s, &m, fd_or_error < 0 ? -1 : fd_or_error);
}

/* What the compiler thread does with what came. */
static void run_jobs(void)
{
	for (unsigned i = 0; i < queued_count; i++)
		queued[i]->run(&s, queued[i]);
	queued_count = 0;
}

static const char *in_force(void)
{
	const struct local *l = atomic_load(&s.worker_shared.local);
	return l ? l->texts : "none";
}

static const char *text_of(const char *path)
{
	static char text[64];
	const struct hosts_text *t = hosts_find(&s, path);
	if (!t)
		return "unknown";
	snprintf(text, sizeof text, "%.*s", (int)t->len, t->bytes ? t->bytes : "");
	return text;
}

static bool is_alarmed(void)
{
	json_t *all = alarms_json(s.alarms);
	bool is = json_array_size(all) > 0;
	json_decref(all);
	return is;
}

static int set_up(void **state)
{
	(void)state;
	memset(&s, 0, sizeof s);
	queued_count = tables = 0;
	make_result = 0;
	left_out = 0;
	s.worker_shared.name_seed = 77;
	s.alarms = alarms_new();
	s.now = calloc(1, sizeof *s.now);
	s.now->config = configured("local: { hosts: [/h/one, /h/two] }\n");
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	config_free(s.now->config);
	s.now->config = NULL;
	hosts_forget(&s);
	assert_int_equal(s.hosts_count, 0);
	local_abandon(&s);
	local_free((struct local *)(uintptr_t)atomic_load(&s.worker_shared.local));
	assert_int_equal(tables, 0);
	alarms_free(s.alarms);
	free(s.now);
	return 0;
}

static void send_both(enum ipc_list_reason reason)
{
	send_one("/h/one", file_of("1"), 0, 2, reason);
	assert_int_equal(queued_count, 0);
	send_one("/h/two", file_of("2"), 1, 2, reason);
	assert_int_equal(queued_count, 1);
}

static void test_gathered_and_read(void **state)
{
	(void)state;
	unsigned before = open_fds();
	send_both(LIST_AT_CONFIG);
	assert_false(queued[0]->waits_for_config);
	assert_int_equal(open_fds(), before + 2);
	run_jobs();
	assert_int_equal(open_fds(), before);
	assert_string_equal(text_of("/h/one"), "1");
	assert_string_equal(text_of("/h/two"), "2");
	send_one("/h/two", file_of("2 changed"), 0, 1, LIST_WATCHED);
	assert_true(queued[0]->waits_for_config);
	run_jobs();
	assert_string_equal(text_of("/h/one"), "1");
	assert_string_equal(text_of("/h/two"), "2 changed");
	assert_int_equal(open_fds(), before);
}

/* Batches that are not completed, numbers that lie: nothing is left open, the next right one is taken. */
static void test_what_a_broken_sender_leaves(void **state)
{
	(void)state;
	unsigned before = open_fds();
	send_one("/h/one", file_of("x"), 0, 2, LIST_AT_CONFIG);
	send_one("/h/one", file_of("x"), 0, 0, LIST_AT_CONFIG);
	send_one("/h/one", file_of("x"), 1, 2, LIST_AT_CONFIG);
	send_one("/h/one", file_of("x"), 0, CONFIG_HOSTS_MAX + 1, LIST_AT_CONFIG);
	send_one("/h/one", file_of("x"), 0, 3, LIST_AT_CONFIG);
	send_one("/h/one", file_of("x"), 2, 3, LIST_AT_CONFIG);
	assert_int_equal(queued_count, 0);
	send_both(LIST_AT_CONFIG);
	run_jobs();
	assert_string_equal(text_of("/h/one"), "1");
	assert_int_equal(open_fds(), before);
}

static void test_gone_and_unreadable(void **state)
{
	(void)state;
	send_both(LIST_AT_CONFIG);
	run_jobs();
	send_one("/h/one", -ENOENT, 0, 1, LIST_WATCHED);
	run_jobs();
	assert_string_equal(text_of("/h/one"), "");
	assert_false(is_alarmed());
	send_one("/h/two", -EIO, 0, 1, LIST_WATCHED);
	run_jobs();
	assert_string_equal(text_of("/h/two"), "2");
	assert_true(is_alarmed());
	/* A descriptor that cannot be read. */
	send_one("/h/one", open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), 0, 1, LIST_WATCHED);
	run_jobs();
	send_one("/h/two", file_of("2 again"), 0, 1, LIST_WATCHED);
	run_jobs();
	assert_true(is_alarmed()); /* one still fails */
	send_one("/h/one", file_of("1 again"), 0, 1, LIST_WATCHED);
	run_jobs();
	assert_false(is_alarmed());
	assert_string_equal(text_of("/h/one"), "1 again");
	assert_string_equal(text_of("/h/two"), "2 again");
}

static void test_too_large(void **state)
{
	(void)state;
	send_both(LIST_AT_CONFIG);
	run_jobs();
	int fd = file_of("");
	assert_int_equal(ftruncate(fd, HOSTS_FILE_MAX + 1), 0);
	send_one("/h/one", fd, 0, 1, LIST_WATCHED);
	run_jobs();
	assert_string_equal(text_of("/h/one"), "1");
	assert_true(is_alarmed());
	fd = file_of("");
	assert_int_equal(ftruncate(fd, HOSTS_FILE_MAX), 0);
	send_one("/h/one", fd, 0, 1, LIST_WATCHED);
	run_jobs();
	assert_int_equal(hosts_find(&s, "/h/one")->len, HOSTS_FILE_MAX);
	assert_false(is_alarmed());
}

static void test_texts_are_forgotten_with_their_configuration(void **state)
{
	(void)state;
	send_both(LIST_AT_CONFIG);
	run_jobs();
	struct snapshot next = { .config = configured("local: { hosts: [/h/two, /h/three] }\n") };
	s.next = &next;
	send_one("/h/two", file_of("2"), 0, 2, LIST_AT_CONFIG);
	send_one("/h/three", -EIO, 1, 2, LIST_AT_CONFIG);
	run_jobs();
	hosts_forget(&s);
	assert_int_equal(s.hosts_count, 3);
	assert_true(is_alarmed());
	s.next = NULL; /* abandoned */
	hosts_forget(&s);
	assert_int_equal(s.hosts_count, 2);
	assert_string_equal(text_of("/h/one"), "1");
	assert_false(is_alarmed());
	config_free(next.config);
}

static void test_a_table_for_each_configuration(void **state)
{
	(void)state;
	send_both(LIST_AT_CONFIG);
	run_jobs();
	assert_int_equal(local_prepare(&s, s.now->config), 0);
	assert_string_equal(in_force(), "none");
	local_commit(&s);
	assert_string_equal(in_force(), "one=1;two=2;");
	/* The order is the configuration's; what is not there has no names. */
	struct snapshot next = { .config = configured("local: { hosts: [/h/three, /h/two, /h/one] }\n") };
	assert_int_equal(local_prepare(&s, next.config), 0);
	assert_string_equal(in_force(), "one=1;two=2;");
	local_abandon(&s);
	local_commit(&s);
	assert_string_equal(in_force(), "one=1;two=2;");
	assert_int_equal(local_prepare(&s, next.config), 0);
	assert_int_equal(local_prepare(&s, next.config), 0); /* begun anew */
	local_commit(&s);
	assert_string_equal(in_force(), "two=2;one=1;");
	assert_int_equal(tables, 1);
	make_result = NW_EFULL;
	assert_int_equal(local_prepare(&s, next.config), NW_EFULL);
	local_commit(&s);
	assert_string_equal(in_force(), "two=2;one=1;");
	config_free(next.config);
}

static void test_a_text_that_changes(void **state)
{
	(void)state;
	send_both(LIST_AT_CONFIG);
	run_jobs();
	local_prepare(&s, s.now->config);
	local_commit(&s);
	local_follow(&s);
	const struct local *first = atomic_load(&s.worker_shared.local);
	send_one("/h/two", file_of("2 changed"), 0, 1, LIST_WATCHED);
	run_jobs();
	local_follow(&s);
	assert_string_equal(in_force(), "one=1;two=2 changed;");
	assert_ptr_not_equal(first, atomic_load(&s.worker_shared.local));
	first = atomic_load(&s.worker_shared.local);
	local_follow(&s);
	assert_ptr_equal(first, atomic_load(&s.worker_shared.local)); /* nothing new */
	make_result = -ENOMEM;
	send_one("/h/two", file_of("3"), 0, 1, LIST_WATCHED);
	run_jobs();
	local_follow(&s);
	assert_string_equal(in_force(), "one=1;two=2 changed;");
	make_result = 0;
	local_follow(&s);
	assert_string_equal(in_force(), "one=1;two=3;");
}

/* A file that fails at every look: its text did not change, so neither does the table. */
static void test_a_failure_makes_no_table(void **state)
{
	(void)state;
	send_both(LIST_AT_CONFIG);
	run_jobs();
	local_prepare(&s, s.now->config);
	local_commit(&s);
	const struct local *first = atomic_load(&s.worker_shared.local);
	for (int i = 0; i < 3; i++) {
		send_one("/h/two", -EACCES, 0, 1, LIST_WATCHED);
		send_one("/h/one", open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), 0, 1, LIST_WATCHED);
		run_jobs();
		assert_ptr_equal(first, atomic_load(&s.worker_shared.local));
	}
	assert_true(is_alarmed());
	send_one("/h/two", -ENOENT, 0, 1, LIST_WATCHED);
	run_jobs();
	assert_string_equal(in_force(), "one=1;");
}

static void test_names_that_do_not_fit(void **state)
{
	(void)state;
	send_both(LIST_AT_CONFIG);
	run_jobs();
	left_out = 3;
	assert_int_equal(local_prepare(&s, s.now->config), 0);
	assert_false(is_alarmed());
	local_commit(&s);
	assert_true(is_alarmed());
	hosts_forget(&s);
	assert_true(is_alarmed());
	left_out = 0;
	send_one("/h/two", file_of("2 shorter"), 0, 1, LIST_WATCHED);
	run_jobs();
	assert_false(is_alarmed());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(test_gathered_and_read), TEST(test_what_a_broken_sender_leaves), TEST(test_gone_and_unreadable), TEST(test_too_large),
		TEST(test_texts_are_forgotten_with_their_configuration), TEST(test_a_table_for_each_configuration), TEST(test_a_text_that_changes),
		TEST(test_a_failure_makes_no_table), TEST(test_names_that_do_not_fit),
	};
	return cmocka_run_group_tests_name("daemon hosts", tests, NULL, NULL);
}
