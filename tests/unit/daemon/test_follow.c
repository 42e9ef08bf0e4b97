/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Files that are followed, from the parent's side: real files, real inotify, everything around it recorded. A changed hosts file is sent, and only that one;
 * a changed resolv.conf makes a change of the text in force, not of the file that was edited. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "config/bundle.h"
#include "daemon/parent_private.h"
#include "policy/list_text.h"

enum { SENT_MAX = 64, WAIT_MS = 10000 };

static struct parent p;
static char dir[] = "/tmp/nameway-follow-XXXXXX";
static struct { struct ipc_msg m; bool has_fd; char bytes[64]; } sent[SENT_MAX];
static unsigned sent_count, refreshes;
static char alarm_text[256];

/* --- what stands around --- */

int send_server(struct parent *of, const struct ipc_msg *m, int fd1, int fd2)
{
	(void)of;
	(void)fd2;
	assert_true(sent_count < SENT_MAX);
	memset(&sent[sent_count], 0, sizeof sent[0]);
	sent[sent_count].m = *m;
	sent[sent_count].has_fd = fd1 >= 0;
	if (fd1 >= 0)
		assert_true(pread(fd1, sent[sent_count].bytes, sizeof sent[0].bytes - 1, 0) >= 0);
	sent_count++;
	return 0;
}

void parent_alarm(struct parent *of, const char *key, const char *text)
{
	(void)of;
	assert_string_equal(key, "resolv-conf");
	snprintf(alarm_text, sizeof alarm_text, "%s", text);
}

/* As if the steps had been gone through. */
void parent_refresh(struct parent *of, struct config *c, struct buf *bundle)
{
	refreshes++;
	config_free(of->config);
	buf_free(&of->bundle);
	of->config = c;
	of->bundle = *bundle;
	files_configure(of, c);
}

/* --- the world --- */

static const char *path_of(const char *name)
{
	static char path[256];
	snprintf(path, sizeof path, "%s/%s", dir, name);
	return path;
}

static void put(const char *name, const char *text)
{
	FILE *f = fopen(path_of(name), "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* By renaming, and so that no other directory sees anything of it. */
static void rename_new(const char *name)
{
	char to[256];
	snprintf(to, sizeof to, "%s", path_of(name));
	char from[264];
	snprintf(from, sizeof from, "%s.new", to);
	assert_int_equal(rename(from, to), 0);
}

static void replace(const char *name, const char *text)
{
	char temporary[64];
	snprintf(temporary, sizeof temporary, "%s.new", name);
	put(temporary, text);
	rename_new(name);
}

static void link_to(const char *name, const char *target)
{
	char temporary[64];
	snprintf(temporary, sizeof temporary, "%s.new", name);
	assert_int_equal(symlink(target, path_of(temporary)), 0);
	rename_new(name);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
}

static const char yaml[] = "server: { listen: [lo] }\nupstreams: { default: { resolv-conf: run/resolv.conf } }\nlocal: { hosts: [one.hosts, more/two.hosts] }\n";

/* A parent that just became ready. */
static int set_up(void **state)
{
	struct report r;
	(void)state;
	strcpy(dir + strlen(dir) - 6, "XXXXXX");
	if (!mkdtemp(dir) || mkdir(path_of("run"), 0700) < 0 || mkdir(path_of("more"), 0700) < 0)
		return -1;
	put("t.yaml", yaml);
	put("one.hosts", "192.0.2.1 one\n");
	put("more/two.hosts", "192.0.2.2 two\n");
	put("run/resolv.conf", "nameserver 192.0.2.53\n");
	memset(&p, 0, sizeof p);
	memset(alarm_text, 0, sizeof alarm_text);
	sent_count = refreshes = 0;
	report_init(&r);
	int e = config_bundle_read(&p.bundle, path_of("t.yaml"), &r);
	if (e == 0)
		e = config_parse(&p.config, p.bundle.bytes, p.bundle.len, &r);
	report_free(&r);
	if (e < 0 || files_open(&p) < 0)
		return -1;
	p.is_ready = p.is_enforcer_in_force = p.is_server_in_force = true;
	files_configure(&p, p.config);
	follow_send_hosts(&p, p.config, LIST_AT_CONFIG);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	close(p.watch_fd);
	config_free(p.config);
	buf_free(&p.bundle);
	return nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* The loop of the parent until it holds. False: it does not come, or only by the slow look. */
static bool comes(bool (*holds)(void))
{
	uint64_t until = clock_ms() + WAIT_MS;
	/* Events alone: the slow look is put off. */
	while (!holds()) {
		uint64_t now = clock_ms();
		struct pollfd f = { .fd = p.watch_fd, .events = POLLIN };
		if (now > until)
			return false;
		p.files_poll_ms = now + 100000;
		if (poll(&f, 1, 5) > 0)
			files_event(&p, clock_ms());
		files_turn(&p, clock_ms());
	}
	return true;
}

/* One look, as after a poll without an event. */
static void look(void)
{
	p.files_poll_ms = 0;
	files_turn(&p, clock_ms());
}

static bool is_server(const char *text)
{
	char got[ADDR_TEXT_MAX];
	const struct cfg_upstream *up = &p.config->upstreams[0];
	return up->server_count && !strcmp(addr_print(got, &up->servers[0].addr), text);
}

static bool is_54(void)
{
	return is_server("192.0.2.54");
}

static bool is_55(void)
{
	return is_server("192.0.2.55");
}

static bool is_56(void)
{
	return is_server("192.0.2.56");
}

static bool is_alarmed(void)
{
	return alarm_text[0];
}

static bool is_sent(void)
{
	return sent_count > 0;
}

/* --- hosts files --- */

static void test_all_at_a_configuration(void **state)
{
	(void)state;
	assert_int_equal(sent_count, 2);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(sent[i].m.type, IPC_HOSTS_FILE);
		assert_true(sent[i].m.a == i && sent[i].m.b == 2 && sent[i].m.c == LIST_AT_CONFIG && sent[i].has_fd);
	}
	assert_string_equal(sent[1].m.text, path_of("more/two.hosts"));
	assert_string_equal(sent[1].bytes, "192.0.2.2 two\n");
	sent_count = 0;
	look();
	look();
	assert_int_equal(sent_count, 0);
	follow_send_hosts(&p, p.config, LIST_AT_CONFIG);
	assert_int_equal(sent_count, 2);
}

static void expect_one(const char *name, const char *bytes)
{
	sent_count = 0;
	assert_true(comes(is_sent));
	assert_int_equal(sent_count, 1);
	assert_true(sent[0].m.a == 0 && sent[0].m.b == 1 && sent[0].m.c == LIST_WATCHED);
	assert_string_equal(sent[0].m.text, path_of(name));
	if (bytes) {
		assert_true(sent[0].has_fd);
		assert_string_equal(sent[0].bytes, bytes);
	} else {
		assert_true(!sent[0].has_fd && sent[0].m.result == -ENOENT);
	}
}

static void test_changed_hosts(void **state)
{
	(void)state;
	look();
	replace("one.hosts", "192.0.2.1 renamed\n");
	expect_one("one.hosts", "192.0.2.1 renamed\n");
	put("more/two.hosts", "192.0.2.2 written in place\n");
	expect_one("more/two.hosts", "192.0.2.2 written in place\n");
	assert_int_equal(mkdir(path_of("apart"), 0700), 0);
	put("apart/target", "192.0.2.3 linked\n");
	link_to("one.hosts", "apart/target");
	expect_one("one.hosts", "192.0.2.3 linked\n");
	put("apart/target", "192.0.2.3 written at the target\n");
	expect_one("one.hosts", "192.0.2.3 written at the target\n");
	assert_int_equal(unlink(path_of("more/two.hosts")), 0);
	expect_one("more/two.hosts", NULL);
	sent_count = 0;
	look();
	assert_int_equal(sent_count, 0); /* said once that it is gone */
	put("more/two.hosts", "192.0.2.2 back\n");
	expect_one("more/two.hosts", "192.0.2.2 back\n");
}

static void test_the_slow_look_sees_it_too(void **state)
{
	(void)state;
	look();
	sent_count = 0;
	replace("one.hosts", "192.0.2.1 seen by the slow look\n");
	look();
	assert_int_equal(sent_count, 1);
	replace("run/resolv.conf", "nameserver 192.0.2.54\n");
	look();
	assert_true(is_54());
}

static void test_a_server_that_is_not_there_gets_nothing(void **state)
{
	(void)state;
	look();
	sent_count = 0;
	p.is_server_in_force = false;
	replace("one.hosts", "192.0.2.1 later\n");
	look();
	assert_int_equal(sent_count, 0);
	p.is_server_in_force = true;
	look();
	assert_int_equal(sent_count, 1);
}

/* One that cannot be opened is tried at every look, and sent when that changes something. */
static void test_a_failure_is_said_once(void **state)
{
	(void)state;
	look();
	link_to("one.hosts", "one.hosts"); /* to itself */
	sent_count = 0;
	look();
	assert_int_equal(sent_count, 1);
	assert_int_equal(sent[0].m.result, -ELOOP);
	look();
	look();
	assert_int_equal(sent_count, 1);
	replace("one.hosts", "192.0.2.1 again\n");
	expect_one("one.hosts", "192.0.2.1 again\n");
}

/* --- links --- */

enum { SOMEBODY = 54321, ANOTHER = 54322 };

static void own(const char *name, uid_t uid, mode_t mode)
{
	assert_int_equal(lchown(path_of(name), uid, 0), 0);
	if (mode)
		assert_int_equal(chmod(path_of(name), mode), 0);
}

static int opened(const char *name)
{
	int fd = files_open_regular(path_of(name), "list file");
	if (fd >= 0)
		close(fd);
	return fd >= 0 ? 0 : fd;
}

static void test_links_of_others(void **state)
{
	(void)state;
	if (geteuid()) {
		print_message("skipped: only root can make links of others\n");
		skip();
	}
	/* mkdtemp's directory itself is given, so its mode does not matter; links lead on inside it. */
	assert_int_equal(chmod(dir, 0755), 0);
	assert_int_equal(chmod(path_of("more"), 0755), 0);
	put("secret", "secret\n");
	own("secret", 0, 0600);
	put("open", "open\n");
	own("open", 0, 0644);
	put("theirs", "theirs\n");
	own("theirs", SOMEBODY, 0600);
	assert_int_equal(mkdir(path_of("closed"), 0700), 0);
	put("closed/open", "open, but nobody gets there\n");
	own("closed/open", 0, 0644);
	assert_int_equal(opened("secret"), 0);
	link_to("link", "secret");
	assert_int_equal(opened("link"), 0); /* root's */
	own("link", SOMEBODY, 0);
	assert_int_equal(opened("link"), NW_EREFUSED);
	assert_false(files_can_be_opened(path_of("link")));
	link_to("outer", "link"); /* root's, to the other one's */
	assert_int_equal(opened("outer"), NW_EREFUSED);
	link_to("link", "open");
	own("link", SOMEBODY, 0);
	assert_int_equal(opened("link"), 0);
	link_to("link", "theirs");
	own("link", SOMEBODY, 0);
	assert_int_equal(opened("link"), 0);
	own("link", ANOTHER, 0);
	assert_int_equal(opened("link"), NW_EREFUSED);
	link_to("link", "closed/open");
	own("link", SOMEBODY, 0);
	assert_int_equal(opened("link"), NW_EREFUSED);
	assert_int_equal(opened("closed/open"), 0);
	/* A directory that is a link, absolute. */
	link_to("link", dir);
	own("link", SOMEBODY, 0);
	assert_int_equal(opened("link/secret"), NW_EREFUSED);
	assert_int_equal(opened("link/open"), 0);
	assert_int_equal(opened("link/more/../open"), 0);
	link_to("link", "open/x");
	assert_int_equal(opened("link"), -ENOTDIR);
	assert_int_equal(opened("nothing"), -ENOENT);
	assert_int_equal(opened("more"), -ENOENT);
	/* What was refused is found when it may be read, though its time is the same. */
	link_to("one.hosts", "secret");
	own("one.hosts", SOMEBODY, 0);
	sent_count = 0;
	look();
	look();
	assert_true(sent_count == 1 && sent[0].m.result == NW_EREFUSED);
	own("secret", 0, 0644);
	look();
	assert_true(sent_count == 2 && sent[1].has_fd);
	look();
	assert_int_equal(sent_count, 2);
}

/* --- lists --- */

static void test_a_list_of_too_many_files(void **state)
{
	const char *patterns[] = { "" };
	char pattern[64], name[32];
	struct cfg_list l = { .name = "many", .files = patterns, .file_count = 1 };
	struct config c = { .lists = &l, .list_count = 1 };
	(void)state;
	assert_int_equal(mkdir(path_of("many"), 0700), 0);
	snprintf(pattern, sizeof pattern, "%s/many/*", dir);
	patterns[0] = pattern;
	for (unsigned i = 0; i <= LIST_FILES_MAX; i++) {
		snprintf(name, sizeof name, "many/%u", i);
		put(name, "");
	}
	sent_count = 0;
	files_send(&p, &c, 0, LIST_ASKED);
	/* One message that says why: the server keeps what it has, and whoever asked is told. */
	assert_int_equal(sent_count, 1);
	assert_true(sent[0].m.type == IPC_LIST_FILE && sent[0].m.a == 0 && sent[0].m.b == 1 && sent[0].m.c == LIST_ASKED);
	assert_int_equal(sent[0].m.result, NW_EFULL);
	assert_string_equal(sent[0].m.name, "many");
}

/* --- resolv.conf --- */

static void test_nothing_changed(void **state)
{
	(void)state;
	look();
	look();
	follow_links_changed(&p);
	look();
	assert_int_equal(refreshes, 0);
	replace("run/resolv.conf", "nameserver 192.0.2.53\n");
	look();
	assert_int_equal(refreshes, 0); /* another file, the same text */
	replace("t.yaml", "upstreams: {}\n");
	look();
	assert_int_equal(refreshes, 0);
}

static void test_changed_resolv_conf(void **state)
{
	(void)state;
	look();
	/* What stands in the file now has no part in it, however broken. */
	put("t.yaml", "no: [ yaml\n");
	replace("run/resolv.conf", "nameserver 192.0.2.54\n");
	assert_true(comes(is_54));
	assert_int_equal(refreshes, 1);
	assert_int_equal(p.config->local.host_count, 2);
	put("run/resolv.conf", "nameserver 192.0.2.55\n");
	assert_true(comes(is_55));
	assert_int_equal(mkdir(path_of("other"), 0700), 0);
	put("other/stub", "nameserver 192.0.2.54\n");
	link_to("run/resolv.conf", "../other/stub");
	assert_true(comes(is_54));
	replace("other/stub", "nameserver 192.0.2.56\n");
	assert_true(comes(is_56));
	unsigned before = refreshes;
	assert_int_equal(unlink(path_of("run/resolv.conf")), 0);
	assert_true(comes(is_alarmed));
	assert_true(is_56());
	put("run/resolv.conf", "# nothing yet\n");
	look();
	assert_true(is_56() && is_alarmed());
	/* It is looked at again by itself, and not put in force anew. */
	files_turn(&p, p.follow.retry_at_ms);
	assert_int_equal(refreshes, before);
	put("run/resolv.conf", "nameserver 192.0.2.55\n");
	assert_true(comes(is_55));
	look();
	assert_string_equal(alarm_text, "");
}

/* It changed after the bundle was read and before it was watched. */
static void test_changed_before_ready(void **state)
{
	(void)state;
	replace("run/resolv.conf", "nameserver 192.0.2.54\n");
	look();
	assert_true(is_54());
}

static void test_waits_for_its_turn(void **state)
{
	(void)state;
	look();
	replace("run/resolv.conf", "nameserver 192.0.2.54\n");
	p.txn.stage = TXN_SERVER_PREPARE;
	look();
	p.txn.stage = TXN_NONE;
	p.is_enforcer_in_force = false;
	look();
	assert_int_equal(refreshes, 0);
	p.is_enforcer_in_force = true;
	look();
	assert_int_equal(refreshes, 1);
}

/* What cannot be put in force is said, and tried again after a while. */
static void test_a_failure_is_tried_again(void **state)
{
	(void)state;
	look();
	p.bundle.bytes[p.bundle.len - 2] ^= 1; /* as if memory were damaged: whatever makes it fail */
	replace("run/resolv.conf", "nameserver 192.0.2.54\n");
	look();
	assert_int_equal(refreshes, 0);
	assert_true(alarm_text[0]);
	p.bundle.bytes[p.bundle.len - 2] ^= 1;
	look();
	assert_int_equal(refreshes, 0);
	assert_true(p.follow.retry_at_ms > clock_ms());
	p.files_poll_ms = 0;
	files_turn(&p, p.follow.retry_at_ms);
	assert_int_equal(refreshes, 1);
	assert_true(is_54());
}

/* Entries are one more file of their list, with their place for a path; alone they are the list, and nothing is followed. */
static void test_entries_are_a_file(void **state)
{
	struct report r;
	(void)state;
	put("t.yaml", "server: { listen: [lo] }\nlists:\n  a: { entries: [x.test, \"!y.x.test\"] }\n  b:\n    files: [\"b*.txt\"]\n    entries: [z.test]\n");
	put("b1.txt", "one.test\n");
	put("b2.txt", "two.test\n");
	report_init(&r);
	config_free(p.config);
	p.config = NULL;
	buf_free(&p.bundle);
	assert_int_equal(config_bundle_read(&p.bundle, path_of("t.yaml"), &r), 0);
	assert_int_equal(config_parse(&p.config, p.bundle.bytes, p.bundle.len, &r), 0);
	report_free(&r);
	files_configure(&p, p.config);
	sent_count = 0;
	files_send(&p, p.config, 0, LIST_AT_CONFIG);
	assert_int_equal(sent_count, 1);
	assert_true(sent[0].has_fd && sent[0].m.a == 0 && sent[0].m.b == 1 && sent[0].m.result == 0);
	assert_string_equal(sent[0].bytes, "x.test\n!y.x.test\n");
	assert_non_null(strstr(sent[0].m.text, "/t.yaml:3 (entries)"));
	files_send(&p, p.config, 1, LIST_AT_CONFIG);
	assert_int_equal(sent_count, 4);
	assert_true(sent[1].m.b == 3 && sent[3].m.a == 2 && sent[3].m.b == 3);
	assert_string_equal(sent[1].bytes, "one.test\n");
	assert_string_equal(sent[3].bytes, "z.test\n");
	assert_non_null(strstr(sent[3].m.text, "/t.yaml:6 (entries)"));
	/* Nothing changed, nothing is sent, also by the slow look. */
	p.files_poll_ms = 0;
	files_turn(&p, clock_ms());
	assert_int_equal(sent_count, 4);
	unlink(path_of("b1.txt"));
	p.files_poll_ms = 0;
	files_turn(&p, clock_ms());
	assert_int_equal(sent_count, 6);
	assert_string_equal(sent[4].bytes, "two.test\n");
	assert_string_equal(sent[5].bytes, "z.test\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(test_all_at_a_configuration), TEST(test_changed_hosts), TEST(test_the_slow_look_sees_it_too), TEST(test_a_server_that_is_not_there_gets_nothing),
		TEST(test_a_failure_is_said_once), TEST(test_links_of_others), TEST(test_a_list_of_too_many_files),
		TEST(test_nothing_changed), TEST(test_changed_resolv_conf), TEST(test_changed_before_ready), TEST(test_waits_for_its_turn), TEST(test_a_failure_is_tried_again), TEST(test_entries_are_a_file),
	};
	return cmocka_run_group_tests_name("daemon follow", tests, NULL, NULL);
}
