/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A list manager with one or more lists, a state directory of its own, and the last alarms, for tests. */
#pragma once
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/err.h"
#include "base/hash.h"
#include "config/config.h"
#include "policy/list_state.h"
#include "policy/lists.h"

enum { WORLD_LISTS = 4 };
struct world {
	char dir[64];
	int state;
	struct lists *l;
	struct config config;
	struct cfg_list lists[WORLD_LISTS];
	uint16_t slots[WORLD_LISTS];
	bool restored[WORLD_LISTS];
	struct lists_hooks hooks;
	struct report report;
	char list_alarm[512], state_alarm[512], other_alarm[512] /* of any other key */;
	unsigned before, after, swapped;
	int refuse; /* result of before_publish */
	int (*on_swapped)(struct world *w, struct index *ix, uint64_t gen);
	struct list_update last;
};

static inline void world_alarm(void *ctx, const char *key, const char *text)
{
	struct world *w = ctx;

	snprintf(strcmp(key, "state") == 0 ? w->state_alarm : strncmp(key, "list:", 5) == 0 ? w->list_alarm : w->other_alarm, sizeof(w->list_alarm), "%s", text ? text : "");
}

static inline int world_before(void *ctx, const struct list_update *u)
{
	struct world *w = ctx;

	w->before++;
	w->last = *u;
	return w->refuse;
}

static inline void world_after(void *ctx, const struct list_update *u)
{
	struct world *w = ctx;

	w->after++;
}

static inline int world_swapped(void *ctx, struct index *ix, uint64_t gen)
{
	struct world *w = ctx;

	w->swapped++;
	return w->on_swapped ? w->on_swapped(w, ix, gen) : 0;
}

static inline void world_start(struct world *w)
{
	w->list_alarm[0] = w->state_alarm[0] = '\0';
	assert_int_equal(lists_new(&w->l, w->state, &w->hooks), 0);
	assert_int_equal(lists_plan(w->l, &w->config, w->slots), 0);
	assert_int_equal(lists_restore(w->l, w->restored), 0);
}

static inline void world_stop(struct world *w)
{
	lists_free(w->l);
	w->l = NULL;
}

static inline void world_restart(struct world *w)
{
	world_stop(w);
	world_start(w);
}

/* list_count lists named l0, l1…; has_state: in a directory, else in memory only. */
static inline void world_open_at(struct world *w, unsigned list_count, int state)
{
	static const char *const names[WORLD_LISTS] = {"l0", "l1", "l2", "l3"};
	static const char *files[WORLD_LISTS] = {"/lists/l0", "/lists/l1", "/lists/l2", "/lists/l3"};

	w->state = state;
	w->hooks = (struct lists_hooks){.ctx = w,
	        .before_publish = world_before,
	        .after_publish = world_after,
	        .index_swapped = world_swapped,
	        .alarm = world_alarm};
	report_init(&w->report);
	for (unsigned i = 0; i < list_count; i++)
		w->lists[i] = (struct cfg_list){
		        .name = names[i], .files = &files[i], .file_count = 1, .format = FORMAT_AUTO, .shrink_limit_pct = 50};
	w->config.lists = w->lists;
	w->config.list_count = list_count;
	world_start(w);
}

static inline void world_open(struct world *w, unsigned list_count, bool has_state)
{
	*w = (struct world){.dir = "/tmp/nameway-lists-XXXXXX"};
	if (has_state)
		assert_non_null(mkdtemp(w->dir));
	world_open_at(w, list_count, has_state ? open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1);
}

static inline void remove_tree(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && unlinkat(fd, e->d_name, 0) < 0)
			remove_tree(fd, e->d_name);
	if (d)
		closedir(d);
	unlinkat(at, name, AT_REMOVEDIR);
}

static inline void world_close(struct world *w)
{
	lists_free(w->l);
	report_free(&w->report);
	if (w->state < 0)
		return;
	close(w->state);
	remove_tree(AT_FDCWD, w->dir);
}

static inline struct list_file memory_file(const char *text, size_t len, const char *path)
{
	struct list_file f = {.fd = memfd_create("list", MFD_CLOEXEC), .path = path};

	assert_true(f.fd >= 0);
	assert_int_equal(write(f.fd, text, len), (ssize_t)len);
	assert_int_equal(lseek(f.fd, 0, SEEK_SET), 0);
	return f;
}

static inline int offer(struct world *w, unsigned list, const char *text, bool accept)
{
	struct list_file f = memory_file(text, strlen(text), w->lists[list].files[0]);

	report_free(&w->report);
	report_init(&w->report);
	return lists_offer(w->l, list, &f, 1, accept, &w->report);
}

static inline int edit(struct world *w, unsigned list, bool is_add, const char *entry)
{
	report_free(&w->report);
	report_init(&w->report);
	return lists_edit(w->l, list, is_add, &entry, 1, &w->report);
}

static inline bool listed(struct world *w, unsigned list, const char *text)
{
	uint64_t hashes[NAME_LABELS_MAX + 1];
	const struct index *ix = lists_index(w->l);
	struct list_bits bits, allowed;
	struct name n;

	assert_int_equal(name_from_text(&n, text, strlen(text)), 0);
	name_hash(&n, index_seed(ix), hashes);
	index_lookup(ix, index_generation(ix), &n, hashes, &bits, &allowed);
	return list_bits_has(&bits, w->slots[list]);
}

/* Where a place is, searching so many bytes at most; frees it. */
static inline int find_place(struct list_place *p, uint64_t bytes, struct buf *ret_file, unsigned *ret_line)
{
	int r;

	assert_non_null(p);
	r = list_place_find(p, &bytes, ret_file, ret_line);
	list_place_free(p);
	return r;
}

/* Another format or match of a list. */
static inline void replan(struct world *w)
{
	assert_int_equal(lists_plan(w->l, &w->config, w->slots), 0);
	lists_forget_old(w->l);
}

static inline unsigned rule_count(struct world *w, unsigned list)
{
	struct exprs_stat st = {0};

	if (lists_exprs(w->l, list))
		exprs_stat(lists_exprs(w->l, list), &st);
	assert_ptr_equal(lists_exprs(w->l, list), lists_slot_exprs(w->l, w->slots[list]));
	return st.rules;
}

/* An allow of the list is on the way from the name to the root. */
static inline bool allowed(struct world *w, unsigned list, const char *text)
{
	uint64_t hashes[NAME_LABELS_MAX + 1];
	const struct index *ix = lists_index(w->l);
	struct list_bits bits, allows;
	struct name n;

	assert_int_equal(name_from_text(&n, text, strlen(text)), 0);
	name_hash(&n, index_seed(ix), hashes);
	index_lookup(ix, index_generation(ix), &n, hashes, &bits, &allows);
	return list_bits_has(&allows, w->slots[list]);
}

static inline bool listed_address(struct world *w, unsigned list, const char *text)
{
	struct addr a;

	assert_int_equal(addr_parse(&a, text), 0);
	return prefixes_contain(lists_prefixes(w->l, list), &a);
}
