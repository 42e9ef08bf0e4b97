/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What lists keep in `state`: restarts, definitions, damage; a kill and a failure at every step that writes; a disk that is full.
 * */
#include "lists_world.h"
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>

static int fail_at, fail_with, steps;

/* fail_with 0: the process dies at step fail_at; else every step from fail_at on fails so. */
static int fault(const char *step)
{
	steps++;
	if (fail_with)
		return steps >= fail_at ? fail_with : 0;
	if (steps == fail_at)
		kill(getpid(), SIGKILL);
	return 0;
}

static void make_text(struct buf *b, unsigned from, unsigned to)
{
	buf_free(b);
	for (unsigned i = from; i < to; i++)
		buf_printf(b, "n%u.example\n", i);
	buf_printf(b, "192.0.%u.0/24\n", from);
}

/* Whether the list holds exactly what make_text(from, to) and perhaps the edit say. */
static bool is_state(struct world *w, unsigned from, unsigned to, bool is_edited)
{
	char name[64], addr[64];
	bool is_right = listed(w, 0, "edit.example") == is_edited;

	for (unsigned i = 0; i < 3100; i++) {
		snprintf(name, sizeof(name), "n%u.example", i);
		is_right = is_right && listed(w, 0, name) == (i >= from && i < to && !(is_edited && i == 500));
	}
	for (unsigned i = 0; i < 200; i++) {
		snprintf(addr, sizeof(addr), "192.0.%u.1", i);
		is_right = is_right && listed_address(w, 0, addr) == (i == from);
	}
	return is_right;
}

/* Files in `state` whose sums are right and whose tables lie. */
static void test_forged_tables(void **state)
{
	struct list_chunk empty = {0}, across[] = {{.len = 3}, {.len = 1}, {.len = 4}}, right[] = {{.len = 4}, {.len = 4}};
	struct list_text_file files[] = {{.len = 4, .path = "/a", .format = list_format_by_id(FORMAT_DOMAINS)},
	        {.at = 4, .len = 4, .path = "/b", .format = list_format_by_id(FORMAT_DOMAINS)}};
	struct list_text forged[] = {
	        {.chunks = &empty, .chunk_count = 1},
	        {.files = files, .file_count = 2, .len = 8, .chunks = (struct list_chunk[]){{.len = 5}, {.len = 3}}, .chunk_count = 2},
	        {.files = files, .file_count = 2, .len = 8, .chunks = (struct list_chunk[]){{.len = 4}, {.len = 4}, {0}}, .chunk_count = 3},
	        {.files = files, .file_count = 2, .len = 8, .chunks = across, .chunk_count = 3},
	        {.files = files, .file_count = 2, .len = 8, .chunks = right, .chunk_count = 2}};
	struct list_text *t;
	uint64_t def;
	struct world w;
	int fd = memfd_create("text", MFD_CLOEXEC);

	assert_int_equal(write(fd, "a.b\nc.d\n", 8), 8);
	world_open(&w, 1, true);
	assert_int_equal(offer(&w, 0, "a.example\n", false), 0);
	assert_int_equal(state_load_text(w.state, "l0", "text", &t, NULL, &def), 0);
	list_text_unref(t);
	for (unsigned i = 0; i < 5; i++) {
		forged[i].fd = fd;
		assert_int_equal(state_save_text(w.state, "l0", "text", &forged[i], NULL, def), 0);
		assert_int_equal(state_load_text(w.state, "l0", "text", &t, NULL, &def), i < 3 ? NW_EMALFORMED : 0);
		if (i >= 3)
			list_text_unref(t);
		/* Whatever it is, a start gets over it. */
		world_restart(&w);
	}
	close(fd);
	world_close(&w);
}

static void test_restart(void **state)
{
	struct world w;
	struct buf b;

	buf_init(&b, 1 << 20);
	world_open(&w, 2, true);
	make_text(&b, 0, 3000);
	assert_int_equal(offer(&w, 0, b.bytes, false), 0);
	assert_int_equal(edit(&w, 0, true, "edit.example"), 0);
	assert_int_equal(edit(&w, 0, false, "n500.example"), 0);
	assert_int_equal(offer(&w, 1, "", false), 0);
	/* Without an image the texts alone must do. */
	world_restart(&w);
	assert_true(w.restored[0] && w.restored[1] && lists_has_text(w.l, 0));
	assert_true(is_state(&w, 0, 3000, true));
	/* An image; then changes that only the journal has. */
	assert_int_equal(lists_save(w.l), 0);
	world_restart(&w);
	assert_true(is_state(&w, 0, 3000, true));
	make_text(&b, 100, 3100);
	assert_int_equal(offer(&w, 0, b.bytes, false), 0);
	world_restart(&w);
	assert_true(is_state(&w, 100, 3100, true));
	w.before = 0;
	assert_int_equal(offer(&w, 0, b.bytes, false), 0);
	assert_int_equal(w.before, 0);
	assert_int_equal(edit(&w, 0, false, "edit.example"), 0);
	assert_int_equal(edit(&w, 0, true, "n500.example"), 0);
	world_restart(&w);
	assert_true(is_state(&w, 100, 3100, false));
	/* A held text survives, and is taken as it was. */
	assert_int_equal(offer(&w, 0, "only.example\n", false), NW_EHELD);
	world_restart(&w);
	assert_true(is_state(&w, 100, 3100, false) && strstr(w.list_alarm, "still held"));
	assert_int_equal(lists_accept(w.l, 0, &w.report), 0);
	assert_true(listed(&w, 0, "only.example") && !listed(&w, 0, "n500.example"));
	world_restart(&w);
	assert_true(listed(&w, 0, "only.example") && !listed(&w, 0, "n500.example"));
	assert_int_equal(lists_accept(w.l, 0, &w.report), -ENOENT);
	assert_string_equal(w.state_alarm, "");
	buf_free(&b);
	world_close(&w);
}

static void test_other_definition(void **state)
{
	const char *other = "/lists/other";
	struct world w;

	world_open(&w, 1, true);
	assert_int_equal(offer(&w, 0, "a.example\n", false), 0);
	assert_int_equal(edit(&w, 0, true, "edit.example"), 0);
	assert_int_equal(lists_save(w.l), 0);
	w.lists[0].files = &other;
	world_restart(&w);
	assert_false(w.restored[0] || listed(&w, 0, "a.example"));
	assert_true(listed(&w, 0, "edit.example"));
	assert_int_equal(offer(&w, 0, "b.example\n", false), 0);
	lists_forget_old(w.l);
	world_restart(&w);
	assert_true(w.restored[0] && listed(&w, 0, "b.example") && listed(&w, 0, "edit.example") && !listed(&w, 0, "a.example"));
	/* A list that is no longer configured leaves nothing. */
	w.config.list_count = 0;
	assert_int_equal(lists_plan(w.l, &w.config, w.slots), 0);
	lists_forget_old(w.l);
	assert_int_equal(faccessat(w.state, "lists/l0", F_OK, 0), -1);
	w.config.list_count = 1;
	world_restart(&w);
	assert_false(w.restored[0] || listed(&w, 0, "b.example") || listed(&w, 0, "edit.example"));
	world_close(&w);
}

/* Overwrites one byte of a file at a fraction of its length. */
static void damage(struct world *w, const char *path, unsigned tenths)
{
	int fd = openat(w->state, path, O_RDWR);
	struct stat st;
	char c;

	assert_true(fd >= 0 && fstat(fd, &st) == 0);
	assert_int_equal(pread(fd, &c, 1, (st.st_size - 1) * tenths / 10), 1);
	c ^= 0x20;
	assert_int_equal(pwrite(fd, &c, 1, (st.st_size - 1) * tenths / 10), 1);
	close(fd);
}

static void find_journal(struct world *w, char ret[64])
{
	int fd = openat(w->state, ".", O_RDONLY | O_DIRECTORY);
	DIR *d = fdopendir(fd);
	const struct dirent *e;
	unsigned count = 0;

	while ((e = readdir(d)))
		if (!strncmp(e->d_name, "journal.", 8) && ++count)
			snprintf(ret, 64, "%.60s", e->d_name);
	assert_int_equal(count, 1);
	closedir(d);
}

static void test_damage(void **state)
{
	char journal[64];
	struct world w;
	struct buf b;

	buf_init(&b, 1 << 20);
	for (unsigned kind = 0; kind < 4; kind++) {
		for (unsigned tenths = 0; tenths <= 10; tenths++) {
			world_open(&w, 1, true);
			make_text(&b, 0, 3000);
			assert_int_equal(offer(&w, 0, b.bytes, false), 0);
			assert_int_equal(lists_save(w.l), 0);
			make_text(&b, 50, 3050);
			assert_int_equal(offer(&w, 0, b.bytes, false), 0);
			find_journal(&w, journal);
			world_stop(&w);
			damage(&w, kind == 0 ? "compiled.idx" : kind == 1 ? journal : "lists/l0/text", tenths);
			if (kind == 3)
				damage(&w, "compiled.idx", 5);
			world_start(&w);
			/* Without its text a list is not restored; its file brings it back. A damaged byte may go
			 * unseen until it is read. */
			if (kind < 2)
				assert_true(w.restored[0]);
			if (w.restored[0])
				assert_true(is_state(&w, 50, 3050, false));
			assert_int_equal(offer(&w, 0, b.bytes, false), 0);
			assert_true(is_state(&w, 50, 3050, false));
			make_text(&b, 60, 3060);
			assert_int_equal(offer(&w, 0, b.bytes, false), 0);
			assert_true(is_state(&w, 60, 3060, false));
			world_restart(&w);
			assert_true(w.restored[0] && is_state(&w, 60, 3060, false));
			world_close(&w);
		}
	}
	buf_free(&b);
}

/* One update, edits, an image, another update: what is killed or fails somewhere in it. */
static void run_steps(struct world *w)
{
	struct buf b;

	buf_init(&b, 1 << 20);
	make_text(&b, 10, 3010);
	offer(w, 0, b.bytes, false);
	edit(w, 0, true, "edit.example");
	edit(w, 0, false, "n500.example");
	lists_save(w->l);
	make_text(&b, 20, 3020);
	offer(w, 0, b.bytes, false);
	buf_free(&b);
}

static bool is_some_state(struct world *w)
{
	bool has_mask = !listed(w, 0, "n500.example");

	if (listed(w, 0, "edit.example") && !has_mask) {
		/* Between the two edits. */
		assert_int_equal(edit(w, 0, false, "n500.example"), 0);
		has_mask = true;
	}
	return is_state(w, 0, 3000, false) || is_state(w, 10, 3010, has_mask) || is_state(w, 20, 3020, true);
}

static void test_kill_at_every_step(void **state)
{
	bool is_done = false;
	struct world w;
	struct buf b;
	int status;
	pid_t pid;

	buf_init(&b, 1 << 20);
	for (int at = 1; !is_done; at++) {
		assert_true(at < 200);
		world_open(&w, 1, true);
		make_text(&b, 0, 3000);
		assert_int_equal(offer(&w, 0, b.bytes, false), 0);
		if (at % 2)
			assert_int_equal(lists_save(w.l), 0);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			fail_at = at;
			fail_with = steps = 0;
			list_state_fault = fault;
			run_steps(&w);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		is_done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
		assert_true(is_done || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
		world_restart(&w);
		assert_true(w.restored[0]);
		if (!is_some_state(&w))
			fail_msg("neither old nor new after a kill at step %d", at);
		if (is_done)
			assert_true(is_state(&w, 20, 3020, true));
		world_close(&w);
	}
	buf_free(&b);
}

static void test_failure_at_every_step(void **state)
{
	bool is_done = false;
	struct world w;
	struct buf b;

	buf_init(&b, 1 << 20);
	for (int at = 1; !is_done; at++) {
		assert_true(at < 200);
		world_open(&w, 1, true);
		make_text(&b, 0, 3000);
		assert_int_equal(offer(&w, 0, b.bytes, false), 0);
		if (at % 2)
			assert_int_equal(lists_save(w.l), 0);
		fail_at = at;
		fail_with = at % 3 ? -ENOSPC : -EROFS;
		steps = 0;
		list_state_fault = fault;
		run_steps(&w);
		is_done = steps < at;
		/* In force all the same, and said; the old or new state is on the disk. */
		assert_true(is_state(&w, 20, 3020, true));
		assert_true(is_done || strstr(w.state_alarm, "cannot be kept"));
		list_state_fault = NULL;
		if (at % 2 == 0) {
			assert_true(lists_idle(w.l, 1) > 0);
			assert_string_equal(w.state_alarm, "");
		}
		world_restart(&w);
		assert_true(w.restored[0]);
		if (at % 2 == 0 || is_done)
			assert_true(is_state(&w, 20, 3020, true));
		else
			assert_true(is_some_state(&w));
		world_close(&w);
	}
	buf_free(&b);
}

/* In a process of its own, with a mount namespace: 0 right, 77 not permitted. */
static int on_full_disk(const char *dir)
{
	struct world w = {0};
	struct buf b;
	int fd;

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	        mount("tmpfs", dir, "tmpfs", 0, "size=96k") < 0)
		return 77;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	world_open_at(&w, 1, fd);
	buf_init(&b, 16 << 20);
	make_text(&b, 0, 100);
	assert_int_equal(offer(&w, 0, b.bytes, false), 0);
	assert_string_equal(w.state_alarm, "");
	make_text(&b, 0, 3000);
	for (unsigned i = 0; i < 10000; i++)
		buf_printf(&b, "filler%u.example\n", i);
	assert_int_equal(offer(&w, 0, b.bytes, false), 0);
	assert_true(is_state(&w, 0, 3000, false) && strstr(w.state_alarm, "No space"));
	world_restart(&w);
	assert_true(w.restored[0] && is_state(&w, 0, 100, false));
	assert_int_equal(offer(&w, 0, b.bytes, false), 0);
	assert_int_equal(mount("tmpfs", dir, "tmpfs", MS_REMOUNT, "size=16m"), 0);
	lists_idle(w.l, 1);
	assert_string_equal(w.state_alarm, "");
	world_restart(&w);
	assert_true(w.restored[0] && is_state(&w, 0, 3000, false));
	buf_free(&b);
	lists_free(w.l);
	report_free(&w.report);
	close(fd);
	return 0;
}

static int full_disk_result(void)
{
	char dir[] = "/tmp/nameway-full-XXXXXX";
	int status;
	pid_t pid;

	if (!mkdtemp(dir))
		return 1;
	pid = fork();
	if (pid == 0)
		_exit(on_full_disk(dir));
	waitpid(pid, &status, 0);
	rmdir(dir);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static void test_full_disk(void **state)
{
	int r = full_disk_result();

	if (r == 77) {
		print_message("not permitted to mount a file system of its own: skipped\n");
		skip();
	}
	assert_int_equal(r, 0);
}

static void test_names_with_odd_characters(void **state)
{
	struct world w;

	world_open(&w, 1, true);
	w.lists[0].name = "../odd name/%";
	assert_int_equal(lists_plan(w.l, &w.config, w.slots), 0);
	lists_forget_old(w.l);
	assert_int_equal(offer(&w, 0, "a.example\n", false), 0);
	world_restart(&w);
	assert_true(w.restored[0] && listed(&w, 0, "a.example"));
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_restart), cmocka_unit_test(test_forged_tables), cmocka_unit_test(test_other_definition),
	        cmocka_unit_test(test_damage), cmocka_unit_test(test_kill_at_every_step),
	        cmocka_unit_test(test_failure_at_every_step), cmocka_unit_test(test_full_disk),
	        cmocka_unit_test(test_names_with_odd_characters)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
