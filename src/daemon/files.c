/* SPDX-License-Identifier: GPL-3.0-or-later */
/* List files: found by their patterns, watched by inotify on their directories (rename into place, write and close, symlinks swapped, files coming and
 * going), opened here and passed on, so that the server needs no path of its own. Entries that the configuration itself holds are passed on as one more
 * file, in memory. A burst of events is waited out for SETTLE_MS, at most SETTLE_MAX_MS; where inotify cannot see (network file systems) sizes and times
 * are looked at every POLL_MS. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "daemon/parent_private.h"
#include "policy/list_text.h"

enum { SETTLE_MS = 12, SETTLE_MAX_MS = 200, POLL_MS = 5000 };

int files_open(struct parent *p)
{
	p->watch_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	return p->watch_fd < 0 ? -errno : 0;
}

static void watch_directory_of(struct parent *p, const char *path)
{
	char copy[PATH_MAX];
	snprintf(copy, sizeof copy, "%s", path);
	if (inotify_add_watch(p->watch_fd, dirname(copy), IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CREATE | IN_ONLYDIR) < 0 && errno != ENOENT && errno != ENOTDIR)
		log_debug("%s is not watched (%s); it is looked at every %d s", copy, strerror(errno), POLL_MS / 1000);
}

/* glob has one error function for all: the directory of the last pattern that could not be read, and why. */
static struct { char path[PATH_MAX]; int error; } unreadable;

static int on_glob_error(const char *path, int error)
{
	if (error == ENOENT || error == ENOTDIR)
		return 0;
	snprintf(unreadable.path, sizeof unreadable.path, "%s", path);
	unreadable.error = error;
	return 0;
}

/* The files of one list now. Each pattern's matches in alphabetical order; a pattern without one gives none. What could not be looked into is left
 * in `unreadable` (error 0: nothing). */
static void find_files(const struct cfg_list *l, glob_t *ret)
{
	memset(ret, 0, sizeof *ret);
	unreadable.error = 0;
	for (unsigned i = 0; i < l->file_count; i++)
		glob(l->files[i], i ? GLOB_APPEND : 0, on_glob_error, ret);
}

void files_watch(struct parent *p, const char *path)
{
	char target[PATH_MAX];
	watch_directory_of(p, path);
	if (realpath(path, target))
		watch_directory_of(p, target);
}

/* Watches where the files are, where their patterns look and where symlinks lead. */
static void watch_list(struct parent *p, const struct cfg_list *l, const glob_t *found)
{
	for (unsigned i = 0; i < l->file_count; i++)
		watch_directory_of(p, l->files[i]);
	for (size_t i = 0; i < found->gl_pathc; i++)
		files_watch(p, found->gl_pathv[i]);
}

uint64_t files_signature(const char *path, uint64_t seed)
{
	struct stat st = { 0 };
	uint64_t h = hash_bytes(path, strlen(path), seed);
	if (stat(path, &st) < 0)
		return h;
	uint64_t v[] = { st.st_ino, st.st_dev, (uint64_t)st.st_size, (uint64_t)st.st_mtim.tv_sec, (uint64_t)st.st_mtim.tv_nsec };
	return hash_bytes(v, sizeof v, h);
}

static uint64_t signature_of(const glob_t *found)
{
	uint64_t h = 1;
	for (size_t i = 0; i < found->gl_pathc; i++)
		h = files_signature(found->gl_pathv[i], h);
	return h;
}

static struct list_watch *watch_of(struct parent *p, const char *name)
{
	for (unsigned i = 0; i < p->list_count; i++)
		if (!strcmp(p->lists[i].name, name))
			return &p->lists[i];
	if (p->list_count == CONFIG_LISTS_MAX)
		return NULL;
	struct list_watch *w = &p->lists[p->list_count++];
	*w = (struct list_watch){ 0 };
	snprintf(w->name, sizeof w->name, "%s", name);
	return w;
}

static bool is_configured(const struct config *c, const char *name)
{
	for (unsigned i = 0; i < c->list_count; i++)
		if (!strcmp(c->lists[i].name, name))
			return true;
	return false;
}

void files_configure(struct parent *p, const struct config *c)
{
	for (unsigned i = 0; i < p->list_count;)
		if (is_configured(c, p->lists[i].name))
			i++;
		else
			p->lists[i] = p->lists[--p->list_count];
	for (unsigned i = 0; i < c->list_count; i++)
		watch_of(p, c->lists[i].name);
	follow_configure(p);
}

static int open_regular(const char *path, bool *ret_other)
{
	struct stat st = { 0 };
	int fd = open_followed(path);
	*ret_other = false;
	if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)))
		return fd;
	close(fd);
	*ret_other = true;
	return S_ISDIR(st.st_mode) ? -ENOENT : -EINVAL;
}

int files_open_regular(const char *path, const char *what)
{
	bool is_other;
	int fd = open_regular(path, &is_other);
	if (is_other)
		log_warn("%s %s is not a regular file", what, path);
	else if (fd == NW_EREFUSED)
		log_warn("%s %s: a symbolic link that is not root's leads to what its owner may not read. Mend: `chown -h root` the link, or let all read the file", what, path);
	else if (fd < 0)
		log_warn("%s %s: %s", what, path, nw_strerror(fd));
	return fd;
}

bool files_can_be_opened(const char *path)
{
	bool is_other;
	int fd = open_regular(path, &is_other);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void send_file(struct parent *p, const char *list, unsigned at, unsigned total, enum ipc_list_reason reason, const char *path, int fd)
{
	/* Without what cannot be read the rest is not the list. */
	struct ipc_msg m = { .type = IPC_LIST_FILE, .a = at, .b = total, .c = reason, .result = fd < 0 && fd != -ENOENT ? fd : 0 };
	snprintf(m.name, sizeof m.name, "%s", list);
	snprintf(m.text, sizeof m.text, "%s", path);
	if (send_server(p, &m, fd < 0 ? -1 : fd, -1) < 0)
		log_error("the server did not take a file of list `%s`", list);
}

/* The entries as a file: one a line. */
static int open_entries(const struct cfg_list *l)
{
	struct buf b;
	int r = 0;
	buf_init(&b, (size_t)CONFIG_FILE_MAX + CONFIG_ENTRIES_MAX);
	for (unsigned i = 0; r == 0 && i < l->entry_count; i++)
		r = buf_printf(&b, "%s\n", l->entries[i]);
	int fd = r < 0 ? r : ipc_memfd("entries", b.bytes, b.len);
	buf_free(&b);
	if (fd >= 0)
		lseek(fd, 0, SEEK_SET);
	return fd;
}

/* Returns whether the server can have them. */
static bool send_entries(struct parent *p, const struct cfg_list *l, unsigned at, unsigned total, enum ipc_list_reason reason)
{
	char path[PATH_MAX];
	int fd = open_entries(l);
	snprintf(path, sizeof path, "%s:%d (entries)", l->entries_place.file, l->entries_place.line);
	if (fd < 0)
		log_warn("%s: %s", path, strerror(-fd));
	send_file(p, l->name, at, total, reason, path, fd);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

void files_send(struct parent *p, const struct config *c, unsigned list, enum ipc_list_reason reason)
{
	const struct cfg_list *l = &c->lists[list];
	glob_t found;
	find_files(l, &found);
	watch_list(p, l, &found);
	struct list_watch *w = watch_of(p, l->name);
	/* Read before the files are opened: what changes in between is seen as a change. */
	if (w) {
		w->signature = signature_of(&found);
		w->is_dirty = false;
	}
	bool has_unreadable = unreadable.error != 0;
	unsigned files = (unsigned)found.gl_pathc, total = files + has_unreadable + (l->entry_count > 0);
	if (total > LIST_FILES_MAX) {
		log_warn("list `%s`: its patterns match %u files, a list may have %d", l->name, files, LIST_FILES_MAX);
		send_file(p, l->name, 0, 1, reason, l->files[0], NW_EFULL);
		globfree(&found);
		return;
	}
	for (unsigned i = 0; i < files; i++) {
		int fd = files_open_regular(found.gl_pathv[i], "list file");
		send_file(p, l->name, i, total, reason, found.gl_pathv[i], fd);
		/* One that is there but cannot be read makes the server keep what it has; it is tried again at the next look. */
		if (fd < 0 && fd != -ENOENT && w)
			w->signature = 0;
		if (fd >= 0)
			close(fd);
	}
	if (has_unreadable) {
		log_warn("%s: %s", unreadable.path, strerror(unreadable.error));
		send_file(p, l->name, files, total, reason, unreadable.path, -unreadable.error);
		if (w)
			w->signature = 0;
	}
	if (l->entry_count && !send_entries(p, l, total - 1, total, reason) && w)
		w->signature = 0;
	if (!total)
		send_file(p, l->name, 0, 0, reason, "", -ENOENT);
	globfree(&found);
}

void files_event(struct parent *p, uint64_t now_ms)
{
	_Alignas(struct inotify_event) char room[8192];
	while (read(p->watch_fd, room, sizeof room) > 0)
		;
	if (!p->files_settle_ms)
		p->files_first_ms = now_ms;
	p->files_settle_ms = now_ms + SETTLE_MS;
}

static void look_for_changes(struct parent *p, uint64_t now_ms)
{
	for (unsigned i = 0; i < p->config->list_count; i++) {
		struct list_watch *w = watch_of(p, p->config->lists[i].name);
		glob_t found;
		find_files(&p->config->lists[i], &found);
		bool has_changed = w && signature_of(&found) != w->signature;
		globfree(&found);
		if (has_changed)
			files_send(p, p->config, i, LIST_WATCHED);
	}
	follow_look(p, now_ms);
}

uint64_t files_turn(struct parent *p, uint64_t now_ms)
{
	if (!p->is_ready || p->txn.stage != TXN_NONE)
		return now_ms + 50;
	bool is_settled = p->files_settle_ms && (now_ms >= p->files_settle_ms || now_ms >= p->files_first_ms + SETTLE_MAX_MS);
	if (is_settled || now_ms >= p->files_poll_ms) {
		p->files_settle_ms = 0;
		p->files_poll_ms = now_ms + POLL_MS;
		look_for_changes(p, now_ms);
	}
	return p->files_settle_ms ? p->files_settle_ms : p->files_poll_ms;
}
