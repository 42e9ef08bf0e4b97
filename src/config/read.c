/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reading the configuration's files into a bundle: the only file I/O of config/. Runs in the parent (root) and in --check. A
 * file's `include` patterns are found with the tree parser; its faults are not reported here but by config_parse, which sees
 * them again. */
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
#include "config/tree.h"

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

static int includes_read(struct reader *rd, const char *path, const struct buf *text)
{
	struct report unseen;
	struct node *root;
	int r = -ENOMEM;
	report_init(&unseen);
	struct tree t = {.arena = arena_new(1 << 16, READ_ARENA_MAX), .report = &unseen};
	if (t.arena)
		r = tree_parse(&root, &t, path, text->bytes ? text->bytes : "", text->len);
	const struct node *include = r < 0 ? NULL : node_child(root, "include");
	if (include && rd->depth == BUNDLE_DEPTH_MAX) {
		report_add(rd->r, true, &include->place, "`include` goes deeper than 8 files; include from further up");
		r = NW_ECONFIG;
		include = NULL;
	} else if (r == NW_ECONFIG) {
		r = 0;
	}
	rd->depth++;
	for (const struct node *v = value_first(include); r >= 0 && v; v = value_next(include, v))
		if (v->kind == NODE_SCALAR)
			r = pattern_read(rd, path, v);
	rd->depth--;
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
	if (r >= 0)
		r = bundle_add(rd->out, path, text.bytes ? text.bytes : "", text.len);
	if (r == NW_ETOOLONG)
		r = file_refuse(rd, path, from, "makes the configuration larger than 17 MiB; move names into list files");
	if (r >= 0)
		r = includes_read(rd, path, &text);
	buf_free(&text);
	return r;
}

int config_bundle_read(struct buf *ret, const char *path, struct report *r)
{
	char cwd[PATH_MAX];
	struct reader rd = {.out = ret, .r = r};
	buf_init(ret, BUNDLE_MAX);
	if (*path == '/' || !getcwd(cwd, sizeof cwd))
		strcpy(cwd, "/");
	int e = bundle_begin(ret, cwd);
	if (e >= 0)
		e = file_read(&rd, path, NULL);
	if (e >= 0)
		e = bundle_end(ret, rd.count);
	for (unsigned i = 0; i < rd.count; i++)
		free(rd.seen[i].path);
	if (e < 0) {
		if (e != NW_ECONFIG)
			report_add(r, true, NULL, "reading %s: %s", path, nw_strerror(e));
		buf_free(ret);
		buf_init(ret, BUNDLE_MAX);
	}
	return e < 0 ? e : 0;
}
