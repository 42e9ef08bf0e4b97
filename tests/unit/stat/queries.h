/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the query log's tests share: cmocka's includes, records from text, a directory of their own. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "stat/query_block.h"

static inline struct query_record record_of(struct name *room, const char *name, const char *client, enum query_outcome outcome)
{
	struct query_record q = { .wall_ms = 1790000000123, .took_us = 85, .weight = 1, .qtype = 1, .outcome = outcome, .filter_rule = -1, .steer_rule = -1, .config_serial = 1,
		.qname = room };
	assert_int_equal(name_from_text(room, name, strlen(name)), 0);
	assert_int_equal(addr_parse(&q.client, client), 0);
	return q;
}

static inline struct query_seen seen_of(struct name *room, const char *name, const char *client, enum query_outcome outcome)
{
	struct query_record q = record_of(room, name, client, outcome);
	return (struct query_seen){ .wall_ms = q.wall_ms, .took_us = q.took_us, .weight = 1, .config_serial = 1, .qtype = 1, .filter_rule = -1, .steer_rule = -1, .outcome = q.outcome,
		.name_len = room->len, .client = q.client, .name = room->wire };
}

struct dir { char path[64]; int fd; };

static inline void dir_make(struct dir *d)
{
	strcpy(d->path, "/tmp/nameway-queries-XXXXXX");
	assert_non_null(mkdtemp(d->path));
	d->fd = open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(d->fd >= 0);
}

/* Calls back for every file; returns how many there are. */
static inline unsigned dir_walk(const struct dir *d, void (*cb)(const struct dir *d, const char *name))
{
	unsigned n = 0;
	DIR *all = opendir(d->path);
	for (struct dirent *e; (e = readdir(all));)
		if (e->d_name[0] != '.') {
			n++;
			if (cb)
				cb(d, e->d_name);
		}
	closedir(all);
	return n;
}

static inline void dir_delete(const struct dir *d, const char *name)
{
	unlinkat(d->fd, name, 0);
}

static inline void dir_remove(struct dir *d)
{
	dir_walk(d, dir_delete);
	close(d->fd);
	rmdir(d->path);
}

static inline uint64_t file_size(const struct dir *d, const char *name)
{
	struct stat st;
	return fstatat(d->fd, name, &st, 0) == 0 ? (uint64_t)st.st_size : UINT64_MAX;
}

/* Puts bytes into a file: at < 0 appends. */
static inline void file_write(const struct dir *d, const char *name, off_t at, const void *bytes, size_t len)
{
	int fd = openat(d->fd, name, O_WRONLY | O_CREAT | (at < 0 ? O_APPEND : 0), 0600);
	assert_true(fd >= 0);
	if (at >= 0)
		assert_int_equal(pwrite(fd, bytes, len, at), len);
	else
		assert_int_equal(write(fd, bytes, len), len);
	close(fd);
}
