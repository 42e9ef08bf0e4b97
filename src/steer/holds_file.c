/* SPDX-License-Identifier: GPL-3.0-or-later */
/* See holds_file.h. The file is rewritten beside itself and renamed, so a crash leaves the old or the new one; an append that fails is cut
 * off again. */
#include "steer/holds_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"

enum { MAGIC_LEN = 8, CHECKSUM_LEN = 4, FIXED_LEN = 38, RECORD_MAX = FIXED_LEN + NAME_WIRE_MAX, PIECE = 1 << 16, PENDING_MAX = 1 << 24,
	LIVE_LEAST = 512 };
static const char magic[MAGIC_LEN + 1] = "NWHOLDS1";

struct holds_file {
	int dirfd, fd;          /* fd: open for appending, -1 when there is no good file */
	const char *name;
	uint64_t len, records;  /* of the file: its good part */
	bool must_rewrite;
	atomic_bool is_loaded;  /* until then the file is not ours to write: it may hold what is still to be restored */
	uint32_t synced_s, retry_s;
	struct buf pending;     /* removals not yet written */
	uint64_t pending_records;
};

/* Writes records to fd piece by piece; the first error stays. */
struct writer {
	int fd, error;
	uint32_t now_s;
	int64_t wall_s;
	uint64_t len, records;
	size_t fill;
	uint8_t piece[PIECE];
};

static void put_int(uint8_t *at, uint64_t v, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		at[i] = (uint8_t)(v >> 8 * i);
}

static uint64_t get_int(const uint8_t *at, unsigned bytes)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < bytes; i++)
		v |= (uint64_t)at[i] << 8 * i;
	return v;
}

static size_t record_print(uint8_t out[RECORD_MAX], const struct hold *d, int64_t expires_wall_s, uint32_t left_s)
{
	size_t len = FIXED_LEN + (size_t)d->name_len;

	put_int(out + 4, d->rule_id, 4);
	put_int(out + 8, (uint64_t)expires_wall_s, 8);
	put_int(out + 16, left_s, 4);
	out[20] = d->addr.family == AF_INET ? 4 : 6;
	memcpy(out + 21, d->addr.b, 16);
	out[37] = d->name_len;
	memcpy(out + FIXED_LEN, d->name, d->name_len);
	put_int(out, hash_bytes(out + CHECKSUM_LEN, len - CHECKSUM_LEN, 0) & UINT32_MAX, CHECKSUM_LEN);
	return len;
}

/* Returns the record's length; 0: torn, damaged or not ours. */
static size_t record_parse(struct holds_file_record *ret, struct name *ret_name, const uint8_t *bytes, size_t len, int64_t wall_s)
{
	size_t need = len >= FIXED_LEN ? FIXED_LEN + (size_t)bytes[37] : SIZE_MAX;
	int64_t expires_wall_s, left_s;

	if (len < need || get_int(bytes, CHECKSUM_LEN) != (hash_bytes(bytes + CHECKSUM_LEN, need - CHECKSUM_LEN, 0) & UINT32_MAX))
		return 0;
	if ((bytes[20] != 4 && bytes[20] != 6) || name_from_wire(ret_name, bytes + FIXED_LEN, bytes[37]) != bytes[37])
		return 0;
	expires_wall_s = (int64_t)get_int(bytes + 8, 8);
	left_s = (int64_t)get_int(bytes + 16, 4);
	if (expires_wall_s <= 0 || expires_wall_s <= wall_s)
		left_s = 0;
	else if (wall_s >= 0 && expires_wall_s - wall_s < left_s)
		left_s = expires_wall_s - wall_s;
	if (left_s > HOLDS_FILE_LIFE_MAX_S)
		left_s = HOLDS_FILE_LIFE_MAX_S;
	*ret = (struct holds_file_record){ .rule_id = (uint32_t)get_int(bytes + 4, 4), .left_s = (uint32_t)left_s, .name_len = ret_name->len,
		.name = ret_name->wire };
	ret->addr.family = bytes[20] == 4 ? AF_INET : AF_INET6;
	memcpy(ret->addr.b, bytes + 21, 16);
	return need;
}

struct holds_file *holds_file_new(int dirfd, const char *name)
{
	struct holds_file *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->dirfd = dirfd;
	f->fd = -1;
	f->name = name;
	f->must_rewrite = true;
	f->synced_s = UINT32_MAX;
	buf_init(&f->pending, PENDING_MAX);
	return f;
}

void holds_file_free(struct holds_file *f)
{
	if (!f)
		return;
	if (f->fd >= 0)
		close(f->fd);
	buf_free(&f->pending);
	free(f);
}

/* --- reading --- */

struct reader {
	struct holds_file *f;
	struct holds *seen;     /* the last record of every triple */
	int64_t wall_s;
	uint32_t number;
	size_t fill;
	uint8_t piece[PIECE];
};

/* Each record counts as an epoch of its own, so a later one replaces whatever an earlier one said, also by less. */
static void note_record(struct reader *r, const struct holds_file_record *rec)
{
	struct hold *d = holds_insert(r->seen, rec->rule_id, &rec->addr, rec->name, rec->name_len, hash_bytes(rec->name, rec->name_len, 0));

	if (d)
		hold_renew(r->seen, d, ++r->number, 0, rec->left_s);
}

/* Takes the whole records of the piece and moves the rest to its front. False: no further record can be read. */
static bool take_piece(struct reader *r, bool is_end)
{
	size_t at = 0, n = 1;

	while (n && (r->fill - at >= RECORD_MAX || is_end)) {
		struct holds_file_record rec;
		struct name name;

		n = record_parse(&rec, &name, r->piece + at, r->fill - at, r->wall_s);
		if (!n)
			break;
		note_record(r, &rec);
		r->f->records++;
		at += n;
	}
	r->f->len += at;
	memmove(r->piece, r->piece + at, r->fill - at);
	r->fill -= at;
	return n != 0;
}

static int read_records(struct reader *r)
{
	bool is_good = true;

	while (is_good) {
		ssize_t n = read(r->f->fd, r->piece + r->fill, PIECE - r->fill);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		r->fill += (size_t)n;
		is_good = take_piece(r, n == 0);
		if (n == 0)
			break;
	}
	return 0;
}

static int open_for_reading(struct holds_file *f)
{
	char start[MAGIC_LEN];
	ssize_t n;

	f->fd = openat(f->dirfd, f->name, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	if (f->fd < 0)
		return errno == ENOENT ? 0 : -errno;
	do {
		n = read(f->fd, start, sizeof(start));
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (n == 0)
		return 0;
	if (n != MAGIC_LEN || memcmp(start, magic, MAGIC_LEN) != 0)
		return NW_EMALFORMED;
	f->len = MAGIC_LEN;
	f->records = 0;
	return 1;
}

struct giver {
	void (*cb)(void *ctx, const struct holds_file_record *r);
	void *ctx;
	int count;
};

static bool give_record(void *ctx, const struct hold *d)
{
	struct giver *g = ctx;
	struct holds_file_record rec = { .rule_id = d->rule_id, .left_s = hold_expires_s(d), .addr = d->addr, .name_len = d->name_len,
		.name = d->name };

	if (rec.left_s) {
		g->cb(g->ctx, &rec);
		g->count++;
	}
	return false;
}

static int load(struct holds_file *f, int64_t wall_s, void (*cb)(void *ctx, const struct holds_file_record *r), void *ctx)
{
	struct giver g = { .cb = cb, .ctx = ctx };
	struct reader *r = NULL;
	int ret = open_for_reading(f);

	if (ret <= 0)
		goto no_file;
	ret = -ENOMEM;
	r = calloc(1, sizeof(*r));
	if (!r)
		goto no_file;
	r->f = f;
	r->wall_s = wall_s;
	ret = holds_new(&r->seen, HOLDS_MAX);
	if (ret < 0)
		goto no_file;
	ret = read_records(r);
	if (ret < 0)
		goto no_file;
	holds_walk(r->seen, give_record, &g);
	/* Appending goes on behind the last good record. */
	f->must_rewrite = ftruncate(f->fd, (off_t)f->len) < 0 || lseek(f->fd, (off_t)f->len, SEEK_SET) < 0;
	holds_free(r->seen);
	free(r);
	return g.count;
no_file:
	if (r)
		holds_free(r->seen);
	free(r);
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
	f->must_rewrite = true;
	return ret;
}

int holds_file_load(struct holds_file *f, int64_t wall_s, void (*cb)(void *ctx, const struct holds_file_record *r), void *ctx)
{
	int r;

	if (atomic_load(&f->is_loaded))
		return -EALREADY;
	r = load(f, wall_s, cb, ctx);
	atomic_store(&f->is_loaded, true);
	return r;
}

/* --- writing --- */

static void flush_piece(struct writer *w)
{
	size_t at = 0;

	while (!w->error && at < w->fill) {
		ssize_t n = write(w->fd, w->piece + at, w->fill - at);

		if (n >= 0)
			at += (size_t)n;
		else if (errno != EINTR)
			w->error = -errno;
	}
	w->len += w->fill;
	w->fill = 0;
}

static void write_bytes(struct writer *w, const void *bytes, size_t len)
{
	for (size_t at = 0; at < len;) {
		size_t n = len - at < PIECE - w->fill ? len - at : PIECE - w->fill;

		memcpy(w->piece + w->fill, (const uint8_t *)bytes + at, n);
		w->fill += n;
		at += n;
		if (w->fill == PIECE)
			flush_piece(w);
	}
}

static void write_hold(void *ctx, const struct hold *d)
{
	struct writer *w = ctx;
	uint32_t expires_s = hold_expires_s(d);
	uint8_t record[RECORD_MAX];

	if (expires_s <= w->now_s)
		return;
	write_bytes(w, record, record_print(record, d, w->wall_s + (expires_s - w->now_s), expires_s - w->now_s));
	w->records++;
}

static bool write_any_hold(void *ctx, const struct hold *d)
{
	write_hold(ctx, d);
	return false;
}

static void pass_over(void *ctx, const struct hold *d)
{
}

static void forget_pending(struct holds_file *f)
{
	buf_free(&f->pending);
	buf_init(&f->pending, PENDING_MAX);
	f->pending_records = 0;
}

static int write_new(struct holds_file *f, struct holds *h, struct writer *w, const char *new_name)
{
	w->fd = openat(f->dirfd, new_name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (w->fd < 0)
		return -errno;
	write_bytes(w, magic, MAGIC_LEN);
	holds_walk(h, write_any_hold, w);
	flush_piece(w);
	if (!w->error && fdatasync(w->fd) < 0)
		w->error = -errno;
	if (!w->error && renameat(f->dirfd, new_name, f->dirfd, f->name) < 0)
		w->error = -errno;
	if (w->error) {
		close(w->fd);
		unlinkat(f->dirfd, new_name, 0);
		return w->error;
	}
	/* Makes the rename durable; a directory that was opened without leave to read cannot be synced, and then its file system decides. */
	(void)fsync(f->dirfd);
	return 0;
}

/* The writer's records become the whole file. What is listed for the journal is among them. */
static int rewrite(struct holds_file *f, struct holds *h, struct writer *w)
{
	char new_name[NAME_MAX + 1];
	int r = snprintf(new_name, sizeof(new_name), "%s.new", f->name);

	*w = (struct writer){ .fd = -1, .now_s = w->now_s, .wall_s = w->wall_s };
	f->must_rewrite = true;
	f->retry_s = w->now_s + HOLDS_FILE_RETRY_S;
	if (r < 0 || (size_t)r >= sizeof(new_name))
		return NW_ETOOLONG;
	forget_pending(f);
	holds_drain_new(h, pass_over, NULL);
	r = write_new(f, h, w, new_name);
	if (r < 0)
		return r;
	if (f->fd >= 0)
		close(f->fd);
	f->fd = w->fd;
	f->len = w->len;
	f->records = w->records;
	f->must_rewrite = false;
	f->retry_s = 0;
	return 0;
}

static int append(struct holds_file *f, struct holds *h, struct writer *w)
{
	w->fd = f->fd;
	write_bytes(w, f->pending.bytes, f->pending.len);
	w->records = f->pending_records;
	holds_drain_new(h, write_hold, w);
	flush_piece(w);
	if (!w->len)
		return 0;
	if (!w->error && fdatasync(w->fd) < 0)
		w->error = -errno;
	if (w->error) {
		/* The journal's listings are spent: only the whole table can say now what is missing. */
		f->must_rewrite = true;
		f->retry_s = w->now_s + HOLDS_FILE_RETRY_S;
		if (ftruncate(f->fd, (off_t)f->len) < 0 || lseek(f->fd, (off_t)f->len, SEEK_SET) < 0)
			return w->error;
		return w->error;
	}
	forget_pending(f);
	f->len += w->len;
	f->records += w->records;
	return 0;
}

int holds_file_sync(struct holds_file *f, struct holds *h, uint32_t now_s, int64_t wall_s, bool is_last)
{
	uint64_t live = holds_count(h) > LIVE_LEAST ? holds_count(h) : LIVE_LEAST;
	struct writer *w;
	int r = 0;

	if (!atomic_load(&f->is_loaded))
		return 0;
	if (!is_last && (now_s == f->synced_s || (f->must_rewrite && now_s < f->retry_s)))
		return 0;
	f->synced_s = now_s;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->now_s = now_s;
	w->wall_s = wall_s;
	if (!f->must_rewrite)
		r = append(f, h, w);
	if (!r && (f->must_rewrite || f->records > 2 * live))
		r = rewrite(f, h, w);
	free(w);
	return r;
}

int holds_file_forget(struct holds_file *f, const struct hold *d)
{
	uint8_t record[RECORD_MAX];
	int r;

	if (!atomic_load(&f->is_loaded) || f->must_rewrite)
		return 0;
	r = buf_add(&f->pending, record, record_print(record, d, 0, 0));
	if (r < 0) {
		f->must_rewrite = true;
		return r;
	}
	f->pending_records++;
	return 0;
}
