/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The compiler's jobs over real lists and policies, with steps that fail: what is left is the configuration in force, with its lists where it expects them.
 * The kernel's sets, local names, the query log and the parent are stand-ins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/err.h"
#include "base/rcu.h"
#include "config/bundle.h"
#include "daemon/server_private.h"

static struct server s;
static struct { unsigned type; int result; } told;
static int local_result, compile_result;
static unsigned abandoned, sent_prefixes;

/* --- what stands around --- */

int ipc_send(int fd, const struct ipc_msg *m, int fd1, int fd2)
{
	(void)fd, (void)fd1, (void)fd2;
	told.type = m->type;
	told.result = m->result;
	return 0;
}

int local_prepare(struct server *of, const struct config *c)
{
	(void)of, (void)c;
	return local_result;
}
void local_commit(struct server *of) { (void)of; }
void local_abandon(struct server *of) { (void)of; abandoned++; }
void local_follow(struct server *of) { (void)of; }
void hosts_forget(struct server *of) { (void)of; }

int sets_send_prefixes(struct server *of, const struct snapshot *snap, int slot, bool drop_flows)
{
	(void)of, (void)snap, (void)slot, (void)drop_flows;
	sent_prefixes++;
	return 0;
}
int sets_prepare_prefixes(struct server *of, const struct snapshot *next, const struct snapshot *now) { (void)of, (void)next, (void)now; return 0; }
void sets_refill(struct server *of, const struct list_update *u, const struct snapshot *snap) { (void)of, (void)u, (void)snap; }
void sets_release(struct server *of, const struct list_update *u, const struct snapshot *snap) { (void)of, (void)u, (void)snap; }
void sets_restore(struct server *of, const struct snapshot *snap) { (void)of, (void)snap; }
int sets_resend(struct server *of, const struct snapshot *snap) { (void)of, (void)snap; return 0; }
void server_queries_before_switch(struct server *of, const struct snapshot *next) { (void)of, (void)next; }
void server_queries_after_switch(struct server *of, const struct snapshot *now) { (void)of, (void)now; }
void server_cache_load(struct server *of) { (void)of; }
void server_cache_limits(struct server *of, const struct config *c) { (void)of, (void)c; }

int __real_policy_new(struct policy **ret, const struct config *c, struct index *ix, const uint16_t *list_slot, const struct prefixes *const *prefixes, const struct exprs *const *exprs);
int __wrap_policy_new(struct policy **ret, const struct config *c, struct index *ix, const uint16_t *list_slot, const struct prefixes *const *prefixes, const struct exprs *const *exprs);
int __wrap_policy_new(struct policy **ret, const struct config *c, struct index *ix, const uint16_t *list_slot, const struct prefixes *const *prefixes, const struct exprs *const *exprs)
{
	return compile_result < 0 ? compile_result : __real_policy_new(ret, c, ix, list_slot, prefixes, exprs);
}

/* --- the world --- */

/* Two configurations that number their lists differently. */
static const char vpn_alone[] = "lists: { vpn: { files: [/l/vpn] }, ads: { files: [/l/ads] } }\nfilter: [ { names: ads, block: nxdomain } ]\n";
static const char ads_first[] = "lists: { ads: { files: [/l/ads] }, new: { files: [/l/new] }, vpn: { files: [/l/vpn] } }\nfilter: [ { names: new, block: nxdomain } ]\n";

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
	if (config_parse(&c, b.bytes, b.len, &r) < 0)
		fail_msg("%s", r.text.bytes);
	buf_free(&b);
	report_free(&r);
	return c;
}

/* Runs what was pushed, as the thread would. */
static void run_jobs(void)
{
	queue_close(&s.compile_jobs);
	compiler_main(&s);
	s.compile_jobs.is_closed = false;
}

static void offer(const char *list, const char *text, enum ipc_list_reason reason)
{
	struct list_job *o = calloc(1, sizeof *o);
	snprintf(o->name, sizeof o->name, "%s", list);
	o->reason = reason;
	o->files = calloc(1, sizeof *o->files);
	o->count = o->total = 1;
	o->files[0] = (struct list_file){ .fd = memfd_create(list, MFD_CLOEXEC), .path = strdup(list) };
	assert_int_equal(write(o->files[0].fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(lseek(o->files[0].fd, 0, SEEK_SET), 0);
	server_offer(&s, o);
	run_jobs();
}

static void prepare(const char *yaml, uint32_t serial)
{
	server_plan(&s, configured(yaml), serial);
	run_jobs();
	server_finish(&s, serial);
	run_jobs();
	assert_int_equal(told.type, IPC_PREPARED);
}

static bool is_blocked(const char *text)
{
	struct judged_name j;
	struct group_bits groups = { 0 };
	struct name n;
	assert_int_equal(name_from_text(&n, text, strlen(text)), 0);
	policy_judge(s.now->policy, policy_generation(s.now->policy), &n, NULL, &j);
	return policy_filter(s.now->policy, &groups, NULL, 0, &j, 1, NULL, 0).kind == VERDICT_BLOCK;
}

static int set_up(void **state)
{
	(void)state;
	memset(&s, 0, sizeof s);
	local_result = compile_result = 0;
	abandoned = sent_prefixes = 0;
	s.alarms = alarms_new();
	pthread_mutex_init(&s.snap_lock, NULL);
	pthread_cond_init(&s.snap_free, NULL);
	pthread_mutex_init(&s.asked_lock, NULL);
	pthread_mutex_init(&s.compile_jobs.lock, NULL);
	pthread_cond_init(&s.compile_jobs.is_filled, NULL);
	s.compile_jobs.last = &s.compile_jobs.first;
	struct lists_hooks hooks = server_hooks(&s);
	assert_int_equal(lists_new(&s.lists, -1, &hooks), 0);
	prepare(vpn_alone, 1);
	assert_int_equal(told.result, 0);
	server_commit(&s, 1);
	run_jobs();
	offer("vpn", "vpn.example\n", LIST_WATCHED);
	offer("ads", "ads.example\n", LIST_WATCHED);
	assert_true(is_blocked("ads.example") && !is_blocked("vpn.example"));
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	snapshot_free(s.next, true);
	snapshot_free(s.now, true);
	lists_free(s.lists);
	alarms_free(s.alarms);
	return 0;
}

/* A change of a list after it: found by its number in the configuration in force. */
static void assert_as_before(void)
{
	assert_null(s.next);
	assert_int_equal(s.now->serial, 1);
	assert_int_equal(abandoned, 1);
	assert_true(sent_prefixes > 0);
	offer("vpn", "vpn.example\nmore.vpn.example\n", LIST_WATCHED);
	offer("ads", "ads.example\nlate.example\n", LIST_WATCHED);
	assert_true(is_blocked("late.example") && is_blocked("ads.example"));
	assert_false(is_blocked("vpn.example") || is_blocked("more.vpn.example"));
	/* The parent's word comes all the same. */
	server_abandon(&s);
	run_jobs();
	assert_int_equal(abandoned, 1);
	/* The next attempt is not hindered. */
	local_result = compile_result = 0;
	prepare(ads_first, 3);
	assert_int_equal(told.result, 0);
	server_commit(&s, 3);
	run_jobs();
	assert_int_equal(told.type, IPC_COMMITTED);
	assert_int_equal(told.result, 0);
	assert_false(is_blocked("ads.example"));
}

static void test_local_names_fail(void **state)
{
	(void)state;
	sent_prefixes = 0;
	local_result = NW_EFULL;
	prepare(ads_first, 2);
	assert_int_equal(told.result, NW_EFULL);
	assert_as_before();
}

static void test_no_policy(void **state)
{
	(void)state;
	sent_prefixes = 0;
	compile_result = -ENOMEM;
	prepare(ads_first, 2);
	assert_int_equal(told.result, -ENOMEM);
	compile_result = 0;
	assert_as_before();
}

/* Prefixes that changed need a new policy; without memory for it the old one and what it points to stay. */
static void test_no_policy_for_an_update(void **state)
{
	(void)state;
	offer("ads", "ads.example\n198.51.100.0/24\n", LIST_WATCHED);
	const struct snapshot *before = s.now;
	compile_result = -ENOMEM;
	sent_prefixes = 0;
	offer("ads", "ads.example\nlate.example\n198.51.100.0/24\n203.0.113.0/24\n", LIST_WATCHED);
	assert_ptr_equal(s.now, before);
	assert_false(is_blocked("late.example"));
	assert_true(is_blocked("ads.example"));
	assert_int_equal(sent_prefixes, 2); /* those of the update, then those in force again */
	struct group_bits groups = { 0 };
	struct addr old, new;
	addr_parse(&old, "198.51.100.9");
	addr_parse(&new, "203.0.113.9");
	assert_int_equal(policy_filter(s.now->policy, &groups, NULL, 0, NULL, 0, &old, 1).kind, VERDICT_BLOCK);
	assert_int_not_equal(policy_filter(s.now->policy, &groups, NULL, 0, NULL, 0, &new, 1).kind, VERDICT_BLOCK);
	compile_result = 0;
	offer("ads", "ads.example\nlate.example\n198.51.100.0/24\n203.0.113.0/24\n", LIST_WATCHED);
	assert_true(is_blocked("late.example"));
	assert_int_equal(policy_filter(s.now->policy, &groups, NULL, 0, NULL, 0, &new, 1).kind, VERDICT_BLOCK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(test_local_names_fail), TEST(test_no_policy), TEST(test_no_policy_for_an_update),
	};
	return cmocka_run_group_tests_name("daemon compiler", tests, NULL, NULL);
}
