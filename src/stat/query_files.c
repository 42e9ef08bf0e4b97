/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "stat/query_files.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "stat/query_block.h"

#define NAME_FORMAT "%010u.queries"
enum { NAME_MAX_LEN = 32 };

struct query_files {
	int dir_fd;
	pthread_mutex_t lock; /* the table and the flag */
	struct query_segment v[QUERY_SEGMENTS_MAX]; /* oldest first; the last one is written to when fd is open */
	unsigned count;
	uint64_t bytes;
	bool is_failing;
	/* The writer's. */
	int fd;
	int64_t first_ms; /* of the open segment */
	uint64_t bytes_max;
	int64_t keep_ms, retry_ms;
};

static const char *file_name(char buf[NAME_MAX_LEN], uint32_t number)
{
	snprintf(buf, NAME_MAX_LEN, NAME_FORMAT, number);
	return buf;
}

static void set_failing(struct query_files *f, bool is_failing)
{
	pthread_mutex_lock(&f->lock);
	f->is_failing = is_failing;
	pthread_mutex_unlock(&f->lock);
}

static uint32_t segment_limit(const struct query_files *f)
{
	uint64_t part = f->bytes_max / QUERY_SEGMENTS_OF;
	return part < QUERY_SEGMENT_MIN ? QUERY_SEGMENT_MIN : part > QUERY_SEGMENT_MAX ? QUERY_SEGMENT_MAX : (uint32_t)part;
}

static void close_segment(struct query_files *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}

static void delete_oldest(struct query_files *f)
{
	char name[NAME_MAX_LEN];
	if (f->count == 1)
		close_segment(f);
	/* One that cannot be deleted would be counted for ever; its bytes are no longer ours to count. */
	unlinkat(f->dir_fd, file_name(name, f->v[0].number), 0);
	pthread_mutex_lock(&f->lock);
	f->bytes -= f->v[0].bytes;
	memmove(f->v, f->v + 1, --f->count * sizeof f->v[0]);
	pthread_mutex_unlock(&f->lock);
}

/* --- what is there at the start --- */

static int by_number(const void *a, const void *b)
{
	const struct query_segment *x = a, *y = b;
	return x->number < y->number ? -1 : x->number > y->number;
}

/* Takes a file into the table; when that is full the oldest ones go. */
static void find_segment(struct query_files *f, const char *name)
{
	unsigned number;
	int end = 0;
	struct stat st;
	char again[NAME_MAX_LEN];
	if (sscanf(name, "%10u.queries%n", &number, &end) != 1 || !end || name[end] || strcmp(file_name(again, number), name) ||
	        fstatat(f->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return;
	if (f->count == QUERY_SEGMENTS_MAX) {
		qsort(f->v, f->count, sizeof f->v[0], by_number);
		delete_oldest(f);
	}
	f->v[f->count++] = (struct query_segment){ .number = number, .bytes = st.st_size > UINT32_MAX ? UINT32_MAX : (uint32_t)st.st_size,
		.newest_ms = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000 };
	f->bytes += f->v[f->count - 1].bytes;
}

static int find_segments(struct query_files *f)
{
	int fd = openat(f->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	if (!d) {
		int r = -errno;
		if (fd >= 0)
			close(fd);
		return r;
	}
	for (struct dirent *e; (e = readdir(d));)
		find_segment(f, e->d_name);
	closedir(d);
	qsort(f->v, f->count, sizeof f->v[0], by_number);
	return 0;
}

/* Where the last whole block ends. */
static size_t good_end(const uint8_t *bytes, size_t len, uint64_t *ret_first_ms)
{
	size_t end = 0;
	for (size_t at = query_block_find(bytes, len, 0); at < len; at = query_block_find(bytes, len, end)) {
		size_t block_len = query_block_check(bytes + at, len - at);
		if (!end) {
			struct query_reader rd;
			query_block_open(&rd, bytes + at, block_len);
			*ret_first_ms = rd.base_ms;
		}
		end = at + block_len;
	}
	return end;
}

/* The newest segment goes on where its last whole block ends. */
static void go_on(struct query_files *f, int64_t now_ms)
{
	struct query_segment *last = &f->v[f->count - 1];
	uint8_t *bytes = NULL;
	size_t len = 0;
	uint64_t first_ms = 0;
	char name[NAME_MAX_LEN];
	if (last->bytes > 2 * QUERY_SEGMENT_MAX || query_files_read(f, last->number, 0, last->bytes, &bytes, &len) < 0)
		return; /* it stays as it is; a new one follows it */
	size_t end = good_end(bytes, len, &first_ms);
	free(bytes);
	int fd = openat(f->dir_fd, file_name(name, last->number), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || (end < last->bytes && ftruncate(fd, (off_t)end) < 0)) {
		if (fd >= 0)
			close(fd);
		return;
	}
	f->bytes -= last->bytes - end;
	last->bytes = (uint32_t)end;
	f->fd = fd;
	f->first_ms = end ? (int64_t)first_ms : now_ms;
}

int query_files_open(struct query_files **ret, int dir_fd, int64_t now_ms)
{
	struct query_files *f = calloc(1, sizeof *f);
	if (!f)
		return -ENOMEM;
	pthread_mutex_init(&f->lock, NULL);
	f->dir_fd = dir_fd;
	f->fd = -1;
	f->bytes_max = UINT64_MAX;
	f->keep_ms = INT64_MAX;
	if (dir_fd >= 0) {
		int r = find_segments(f);
		if (r < 0)
			f->is_failing = true;
		else if (f->count)
			go_on(f, now_ms);
		f->retry_ms = r < 0 ? now_ms + QUERY_RETRY_MS : 0;
	}
	*ret = f;
	return 0;
}

void query_files_close(struct query_files *f)
{
	if (!f)
		return;
	close_segment(f);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

/* --- writing --- */

void query_files_limit(struct query_files *f, uint64_t bytes_max, uint32_t keep_s)
{
	f->bytes_max = bytes_max;
	f->keep_ms = keep_s ? (int64_t)keep_s * 1000 : INT64_MAX;
}

static int begin_segment(struct query_files *f, int64_t now_ms)
{
	char name[NAME_MAX_LEN];
	uint32_t number = f->count ? f->v[f->count - 1].number + 1 : 1;
	close_segment(f);
	if (f->count == QUERY_SEGMENTS_MAX)
		delete_oldest(f);
	int fd = openat(f->dir_fd, file_name(name, number), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	f->fd = fd;
	f->first_ms = now_ms;
	pthread_mutex_lock(&f->lock);
	f->v[f->count++] = (struct query_segment){ .number = number, .newest_ms = now_ms };
	pthread_mutex_unlock(&f->lock);
	return 0;
}

/* Takes back what was written of a block; if that fails too, the segment ends: readers pass over its torn end. */
static void take_back(struct query_files *f)
{
	struct query_segment *last = &f->v[f->count - 1];
	struct stat st;
	if (ftruncate(f->fd, (off_t)last->bytes) == 0)
		return;
	if (fstat(f->fd, &st) == 0) {
		pthread_mutex_lock(&f->lock);
		f->bytes += (uint64_t)st.st_size - last->bytes;
		last->bytes = (uint32_t)st.st_size;
		pthread_mutex_unlock(&f->lock);
	}
	close_segment(f);
}

static int write_block(struct query_files *f, const uint8_t *block, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = write(f->fd, block + at, len - at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			int r = n < 0 ? -errno : -ENOSPC;
			take_back(f);
			return r;
		}
		at += (size_t)n;
	}
	return 0;
}

static bool wants_new(const struct query_files *f, size_t len, int64_t now_ms)
{
	const struct query_segment *last = f->count ? &f->v[f->count - 1] : NULL;
	if (f->fd < 0)
		return true;
	return last->bytes && (last->bytes + len > segment_limit(f) || now_ms - f->first_ms > f->keep_ms / QUERY_SEGMENTS_OF);
}

static int append(struct query_files *f, const uint8_t *block, size_t len, int64_t now_ms)
{
	int r = wants_new(f, len, now_ms) ? begin_segment(f, now_ms) : 0;
	while (r == 0 && f->count > 1 && f->bytes + len > f->bytes_max)
		delete_oldest(f);
	if (r == 0)
		r = write_block(f, block, len);
	if (r < 0)
		return r;
	pthread_mutex_lock(&f->lock);
	f->v[f->count - 1].bytes += (uint32_t)len;
	f->v[f->count - 1].newest_ms = now_ms;
	f->bytes += len;
	pthread_mutex_unlock(&f->lock);
	return 0;
}

int query_files_append(struct query_files *f, const uint8_t *block, size_t len, int64_t now_ms)
{
	if (f->dir_fd < 0)
		return -EBADF;
	/* The clock may have been set back since: then it is tried at once. */
	if (f->retry_ms && now_ms < f->retry_ms && f->retry_ms - now_ms <= QUERY_RETRY_MS)
		return -EAGAIN;
	int r = append(f, block, len, now_ms);
	f->retry_ms = r < 0 ? now_ms + QUERY_RETRY_MS : 0;
	set_failing(f, r < 0);
	return r;
}

void query_files_trim(struct query_files *f, int64_t now_ms)
{
	while (f->count && f->keep_ms != INT64_MAX && f->v[0].newest_ms < now_ms - f->keep_ms)
		delete_oldest(f);
	while (f->count > 1 && f->bytes > f->bytes_max)
		delete_oldest(f);
}

/* --- reading --- */

int query_files_list(struct query_files *f, struct query_segment **ret, unsigned *ret_count)
{
	pthread_mutex_lock(&f->lock);
	unsigned count = f->count;
	struct query_segment *v = malloc((count + 1) * sizeof *v);
	if (v)
		memcpy(v, f->v, count * sizeof *v);
	pthread_mutex_unlock(&f->lock);
	if (!v)
		return -ENOMEM;
	*ret = v;
	*ret_count = count;
	return 0;
}

int query_files_read(struct query_files *f, uint32_t number, uint32_t from, uint32_t to, uint8_t **ret, size_t *ret_len)
{
	char name[NAME_MAX_LEN];
	int fd = openat(f->dir_fd, file_name(name, number), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	size_t want = to > from ? to - from : 0, have = 0;
	uint8_t *bytes = malloc(want + 1);
	int r = bytes ? 0 : -ENOMEM;
	while (r == 0 && have < want) {
		ssize_t n = pread(fd, bytes + have, want - have, (off_t)(from + have));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			r = -errno;
		if (n <= 0)
			break;
		have += (size_t)n;
	}
	close(fd);
	if (r < 0) {
		free(bytes);
		return r;
	}
	*ret = bytes;
	*ret_len = have;
	return 0;
}

void query_files_stat(struct query_files *f, uint64_t *ret_bytes, uint64_t *ret_files, bool *ret_is_failing)
{
	pthread_mutex_lock(&f->lock);
	*ret_bytes = f->bytes;
	*ret_files = f->count;
	*ret_is_failing = f->is_failing;
	pthread_mutex_unlock(&f->lock);
}
