/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reading the configuration's files into a bundle: with machine.c the only I/O of config/. Runs in the parent (root) and in
 * --check. A file's `include` patterns, and what its upstream groups need of the machine, are found with the tree parser; its
 * faults are not reported here but by config_parse, which sees them again. What a resolv.conf lacks is never an error. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/err.h"
#include "config/bundle.h"
#include "config/machine.h"
#include "config/resolv.h"
#include "config/value.h"

enum { READ_ARENA_MAX = 128 << 20 };

struct reader {
	struct buf *out;
	struct report *r;
	struct {
		dev_t dev;
		ino_t ino;
		char *path;
	} seen[BUNDLE_FILES_MAX];
	unsigned count, depth;
	const char *cwd;
	/* What the groups name. */
	char *resolvs[CONFIG_UPSTREAMS_MAX];
	unsigned resolv_count, members;
	struct machine_wanted wanted;
	/* The bundle that is read again, or NULL. */
	const void *old;
	size_t old_len;
	bool has_kept; /* of a resolv.conf what it said there */
};

static int file_read(struct reader *rd, const char *path, const struct place *from);

static int file_refuse(struct reader *rd, const char *path, const struct place *from, const char *why)
{
	struct place whole = {path, 0, 0};
	if (from)
		report_add(rd->r, true, from, "included file %s %s", path, why);
	else
		report_add(rd->r, true, &whole, "this file %s", why);
	return NW_ECONFIG;
}

/* Opens a regular file that was not read before. Returns the descriptor. */
static int file_open(struct reader *rd, const char *path, const struct place *from)
{
	if (rd->count == BUNDLE_FILES_MAX)
		return file_refuse(rd, path, from, "is one too many: at most 256 files; join some");
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0) {
		char why[128];
		snprintf(why, sizeof why, "cannot be read: %s; look at the path and its permissions", nw_strerror(-errno));
		return file_refuse(rd, path, from, why);
	}
	struct stat st;
	const char *why = NULL;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		why = "is no regular file; name a file";
	else if (st.st_size > CONFIG_FILE_MAX)
		why = "is larger than 16 MiB; move names into list files";
	for (unsigned i = 0; !why && i < rd->count; i++)
		if (rd->seen[i].dev == st.st_dev && rd->seen[i].ino == st.st_ino)
			why = "is included twice, or includes itself; include each file once";
	char *copy = why ? NULL : strdup(path);
	if (!copy) {
		close(fd);
		return why ? file_refuse(rd, path, from, why) : -ENOMEM;
	}
	if (st.st_mode & S_IWOTH) {
		struct place whole = {path, 0, 0};
		report_add(rd->r, false, &whole,
		        "everybody may write this file, so everybody may command this gateway; chmod o-w it");
	}
	rd->seen[rd->count].dev = st.st_dev;
	rd->seen[rd->count].ino = st.st_ino;
	rd->seen[rd->count++].path = copy;
	return fd;
}

/* The directory of `path` with its slash as a glob pattern that matches itself, then `pattern`. */
static int pattern_join(char ret[PATH_MAX * 2], const char *path, const char *pattern, bool escape)
{
	size_t at = 0;
	const char *slash = *pattern == '/' ? NULL : strrchr(path, '/');
	for (const char *c = path; slash && c <= slash && at < PATH_MAX * 2 - 2; c++) {
		if (escape && strchr("*?[]\\", *c))
			ret[at++] = '\\';
		ret[at++] = *c;
	}
	size_t len = strlen(pattern);
	if (at + len >= PATH_MAX * 2)
		return NW_ETOOLONG;
	memcpy(ret + at, pattern, len + 1);
	return 0;
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int pattern_read(struct reader *rd, const char *path, const struct node *pattern)
{
	char full[PATH_MAX * 2];
	bool is_glob = strpbrk(pattern->text, "*?[");
	if (pattern_join(full, path, pattern->text, is_glob) < 0) {
		report_add(rd->r, true, &pattern->place, "`include`: this path is too long; shorten it");
		return NW_ECONFIG;
	}
	if (!is_glob)
		return file_read(rd, full, &pattern->place);
	glob_t found;
	int r = glob(full, GLOB_NOSORT, NULL, &found);
	if (r == GLOB_NOMATCH) {
		report_add(rd->r, false, &pattern->place, "`include`: no file matches %.200s; look at the path", full);
		return 0;
	}
	if (r)
		return r == GLOB_NOSPACE
		               ? -ENOMEM
		               : file_refuse(rd, full, &pattern->place, "cannot be looked for; look at the permissions");
	qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, by_bytes);
	r = 0;
	for (size_t i = 0; r >= 0 && i < found.gl_pathc; i++)
		r = file_read(rd, found.gl_pathv[i], &pattern->place);
	globfree(&found);
	return r;
}

static int resolv_note(struct reader *rd, struct arena *arena, const char *path, const struct node *n)
{
	if (n->kind != NODE_SCALAR || !*n->text)
		return 0;
	const char *full = path_absolute(arena, rd->cwd, path, n->text);
	if (!full)
		return -ENOMEM;
	for (unsigned i = 0; i < rd->resolv_count; i++)
		if (!strcmp(rd->resolvs[i], full))
			return 0;
	if (rd->resolv_count == CONFIG_UPSTREAMS_MAX || strlen(full) >= BUNDLE_PATH_MAX)
		return 0;
	rd->resolvs[rd->resolv_count] = strdup(full);
	return rd->resolvs[rd->resolv_count++] ? 0 : -ENOMEM;
}

/* Which resolv.conf files and addresses the groups of one file name. */
static int upstreams_note(struct reader *rd, struct arena *arena, const char *path, const struct node *root)
{
	const struct node *upstreams = node_child(root, "upstreams");
	int r = 0;
	for (const struct node *n = upstreams && upstreams->kind == NODE_MAP ? upstreams->first : NULL; r >= 0 && n; n = n->next) {
		const struct node *resolv = node_child(n, "resolv-conf"), *servers = node_child(n, "servers");
		if (resolv)
			r = resolv_note(rd, arena, path, resolv);
		for (const struct node *v = value_first(servers); r >= 0 && v; v = value_next(servers, v)) {
			struct endpoint e;
			if (v->kind == NODE_SCALAR && !strchr(v->text, '%') && endpoint_parse(&e, v->text, 53) == 0)
				r = machine_want_addr(&rd->wanted, &e.addr);
		}
	}
	return r;
}

static int includes_read(struct reader *rd, const char *path, const struct node *root)
{
	const struct node *include = node_child(root, "include");
	int r = 0;
	if (include && rd->depth == BUNDLE_DEPTH_MAX) {
		report_add(rd->r, true, &include->place, "`include` goes deeper than 8 files; include from further up");
		return NW_ECONFIG;
	}
	rd->depth++;
	for (const struct node *v = value_first(include); r >= 0 && v; v = value_next(include, v))
		if (v->kind == NODE_SCALAR)
			r = pattern_read(rd, path, v);
	rd->depth--;
	return r;
}

/* What a file's text asks for. */
static int text_follow(struct reader *rd, const char *path, const char *text, size_t len, bool with_includes)
{
	struct report unseen;
	struct node *root = NULL;
	int r = -ENOMEM;
	report_init(&unseen);
	struct tree t = {.arena = arena_new(1 << 16, READ_ARENA_MAX), .report = &unseen};
	if (t.arena)
		r = tree_parse(&root, &t, path, text, len);
	if (r == NW_ECONFIG)
		r = 0;
	if (r >= 0 && root)
		r = upstreams_note(rd, t.arena, path, root);
	if (r >= 0 && root && with_includes)
		r = includes_read(rd, path, root);
	arena_free(t.arena);
	report_free(&unseen);
	return r;
}

static int file_read(struct reader *rd, const char *path, const struct place *from)
{
	int fd = file_open(rd, path, from);
	if (fd < 0)
		return fd;
	struct buf text;
	buf_init(&text, CONFIG_FILE_MAX);
	int r = buf_read_fd(&text, fd);
	close(fd);
	if (r < 0 && r != -ENOMEM)
		r = file_refuse(rd, path, from,
		        r == NW_ETOOLONG ? "is larger than 16 MiB; move names into list files" : "cannot be read to its end");
	if (r >= 0 && rd->out->len + text.len > BUNDLE_FILES_BYTES_MAX)
		r = file_refuse(rd, path, from, "makes the configuration larger than 17 MiB; move names into list files");
	if (r >= 0)
		r = bundle_add(rd->out, path, text.bytes ? text.bytes : "", text.len);
	if (r >= 0)
		r = text_follow(rd, path, text.bytes ? text.bytes : "", text.len, true);
	rd->members++;
	buf_free(&text);
	return r;
}

static void resolv_warn(struct reader *rd, const char *path, const char *why)
{
	struct place whole = {path, 0, 0};
	report_add(rd->r, false, &whole, "`resolv-conf`: this file %s", why);
}

/* 0: read; 1: it is not there or cannot be used. */
static int resolv_text(struct reader *rd, const char *path, struct buf *text)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0) {
		if (errno != ENOENT && errno != ENOTDIR)
			resolv_warn(rd, path, "cannot be opened; look at its permissions");
		return 1;
	}
	bool is_file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
	int got = is_file ? buf_read_fd(text, fd) : 0;
	close(fd);
	if (got == -ENOMEM)
		return got;
	if (!is_file)
		resolv_warn(rd, path, "is no regular file; name a file");
	else if (got < 0)
		resolv_warn(rd, path, got == NW_ETOOLONG ? "is larger than 64 KiB; take lines out" : "cannot be read to its end");
	return !is_file || got < 0;
}

static bool names_server(const char *text, size_t len)
{
	struct resolv_reader lines = {.at = text, .end = text + len};
	struct resolv_server s;
	while (resolv_next(&lines, &s))
		if (s.addr.family)
			return true;
	return false;
}

/* What the file said in the bundle that is read again, if that names a server. */
static bool resolv_before(const struct reader *rd, const char *path, struct bundle_member *ret)
{
	struct bundle_reader old;
	if (!rd->old || bundle_open(&old, rd->old, rd->old_len) < 0)
		return false;
	while (bundle_next(&old, ret) > 0)
		if (ret->kind == BUNDLE_RESOLV && ret->path_len == strlen(path) && !memcmp(ret->path, path, ret->path_len))
			return names_server(ret->text, ret->text_len);
	return false;
}

/* Appends a resolv.conf. One that is not there is left out, as is one that cannot be used; when the bundle is read again, what it said before stays
 * instead: whoever writes it truncates it first, and to have no servers helps nobody. */
static int resolv_read(struct reader *rd, const char *path, size_t *all_len)
{
	struct bundle_member before;
	struct buf text;
	buf_init(&text, RESOLV_TEXT_MAX);
	int r = resolv_text(rd, path, &text);
	const char *bytes = text.bytes ? text.bytes : "";
	size_t len = text.len;
	if (r >= 0 && (r == 1 || !names_server(bytes, len)) && resolv_before(rd, path, &before)) {
		resolv_warn(rd, path, "names no server now; what it said before stays");
		rd->has_kept = true;
		bytes = before.text;
		len = before.text_len;
		r = 0;
	}
	if (r == 0 && *all_len + len > RESOLV_ALL_MAX) {
		resolv_warn(rd, path, "is left out: all such files together are larger than 1 MiB; name fewer");
	} else if (r == 0) {
		*all_len += len;
		r = machine_want_resolv(&rd->wanted, bytes, len);
		if (r >= 0)
			r = bundle_add_kind(rd->out, BUNDLE_RESOLV, path, bytes, len);
		rd->members++;
	}
	buf_free(&text);
	return r < 0 ? r : 0;
}

/* What stands behind the files. */
static int machine_read(struct reader *rd)
{
	struct buf text;
	size_t all_len = 0;
	int r = 0;
	for (unsigned i = 0; r >= 0 && i < rd->resolv_count; i++)
		r = resolv_read(rd, rd->resolvs[i], &all_len);
	if (r < 0)
		return r;
	buf_init(&text, MACHINE_TEXT_MAX);
	r = machine_write(&text, &rd->wanted);
	/* A machine with more addresses than that is served as if it had none. */
	if (r == NW_ETOOLONG)
		r = 0;
	else if (r >= 0 && text.len) {
		r = bundle_add_kind(rd->out, BUNDLE_MACHINE, "interfaces", text.bytes, text.len);
		rd->members++;
	}
	buf_free(&text);
	return r;
}

static int bundle_finish(struct reader *rd, int r)
{
	if (r >= 0)
		r = machine_read(rd);
	if (r >= 0)
		r = bundle_end(rd->out, rd->members);
	for (unsigned i = 0; i < rd->count; i++)
		free(rd->seen[i].path);
	for (unsigned i = 0; i < rd->resolv_count; i++)
		free(rd->resolvs[i]);
	machine_wanted_free(&rd->wanted);
	if (r < 0) {
		buf_free(rd->out);
		buf_init(rd->out, BUNDLE_MAX);
	}
	return r < 0 ? r : 0;
}

int config_bundle_read(struct buf *ret, const char *path, struct report *r)
{
	char cwd[PATH_MAX];
	struct reader rd = {.out = ret, .r = r, .cwd = cwd};
	buf_init(ret, BUNDLE_MAX);
	if (*path == '/' || !getcwd(cwd, sizeof cwd))
		strcpy(cwd, "/");
	int e = bundle_begin(ret, cwd);
	if (e >= 0)
		e = file_read(&rd, path, NULL);
	e = bundle_finish(&rd, e);
	if (e < 0 && e != NW_ECONFIG)
		report_add(r, true, NULL, "reading %s: %s", path, nw_strerror(e));
	return e;
}

/* Takes over the files of a bundle. */
static int files_copy(struct reader *rd, struct bundle_reader *old)
{
	struct bundle_member m;
	char path[BUNDLE_PATH_MAX + 1];
	int r;
	while ((r = bundle_next(old, &m)) > 0) {
		if (m.kind != BUNDLE_FILE)
			continue;
		memcpy(path, m.path, m.path_len);
		path[m.path_len] = 0;
		r = bundle_add(rd->out, path, m.text, m.text_len);
		if (r >= 0)
			r = text_follow(rd, path, m.text, m.text_len, false);
		if (r < 0)
			return r;
		rd->members++;
	}
	return r;
}

int config_bundle_refresh(struct buf *ret, const void *bundle, size_t len, bool *ret_has_kept, struct report *r)
{
	char cwd[BUNDLE_PATH_MAX + 1];
	struct reader rd = {.out = ret, .r = r, .cwd = cwd, .old = bundle, .old_len = len};
	struct bundle_reader old;
	buf_init(ret, BUNDLE_MAX);
	int e = bundle_open(&old, bundle, len);
	if (e >= 0) {
		memcpy(cwd, old.cwd, old.cwd_len);
		cwd[old.cwd_len] = 0;
		e = bundle_begin(ret, cwd);
	}
	if (e >= 0)
		e = files_copy(&rd, &old);
	e = bundle_finish(&rd, e);
	*ret_has_kept = e >= 0 && rd.has_kept;
	if (e < 0)
		report_add(r, true, NULL, "reading what `resolv-conf` names again: %s", nw_strerror(e));
	return e;
}
