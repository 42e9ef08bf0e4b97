/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reading a list's files into a text: in pieces of a few hundred KiB, never whole in memory. Each piece is cut into chunks, which
 * are hashed and go to the spool, a file without a name: in `state`, or in memory where there is no `state` or no room there. The
 * compiler thread. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "policy/list_state.h"
#include "policy/list_text.h"

enum { READ_BYTES = 128 << 10 };

/* Where the bytes of the text go. */
struct spool {
	int fd;
	bool is_memory;
	uint64_t len;
};

/* One file on its way: [at, len) are the bytes not yet cut. */
struct input {
	const struct list_file *file;
	char *bytes;
	size_t cap, at, len;
	uint64_t total;
	bool is_end;
};

static int spool_in_memory(void)
{
	int fd = memfd_create("list", MFD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int spool_in_state(int dir)
{
	int fd, r = list_state_step("spool-open");

	if (r < 0)
		return r;
	fd = openat(dir, "spool", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	unlinkat(dir, "spool", 0);
	return fd;
}

static int spool_open(struct spool *s, int dir)
{
	*s = (struct spool){.fd = dir < 0 ? -1 : spool_in_state(dir)};
	if (s->fd < 0) {
		s->is_memory = true;
		s->fd = spool_in_memory();
	}
	return s->fd < 0 ? s->fd : 0;
}

/* The disk takes no more: what it has moves to memory. */
static int spool_move(struct spool *s)
{
	int fd = spool_in_memory(), r = fd < 0 ? fd : 0;

	if (r == 0)
		r = list_text_copy_bytes(s->fd, 0, s->len, fd);
	if (r < 0) {
		if (fd >= 0)
			close(fd);
		return r;
	}
	close(s->fd);
	s->fd = fd;
	s->is_memory = true;
	return 0;
}

static int spool_write(struct spool *s, const void *bytes, size_t len)
{
	int r = s->is_memory ? 0 : list_state_step("spool-write");

	if (r == 0)
		r = state_write(s->fd, bytes, len);
	if (r < 0 && !s->is_memory) {
		r = spool_move(s);
		if (r == 0)
			r = state_write(s->fd, bytes, len);
	}
	if (r == 0)
		s->len += len;
	return r;
}

int list_text_copy_bytes(int from, uint64_t at, uint64_t len, int to)
{
	char piece[16 << 10];
	ssize_t n;
	int r = 0;

	while (r == 0 && len > 0) {
		n = pread(from, piece, len < sizeof(piece) ? len : sizeof(piece), (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		r = state_write(to, piece, (size_t)n);
		at += (uint64_t)n;
		len -= (uint64_t)n;
	}
	return r;
}

static uint64_t load64(const char *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* Whether a chunk may end behind the line [line, next): the line's first and last eight bytes decide. */
static bool is_border(const char *line, const char *next)
{
	uint64_t h = load64(line) * 0x9e3779b97f4a7c15ull ^ load64(next - 8) * 0xc2b2ae3d27d4eb4full;

	h ^= h >> 32;
	return h * 0x165667b19e3779f9ull >> 59 == 0;
}

/* The length of the chunk that begins at `at`; 0: that depends on bytes to come, or (is_end) there are none left. */
static size_t chunk_length(const char *at, size_t len, bool is_end)
{
	const char *end = at + len, *line, *next;

	if (len <= CHUNK_MIN)
		return is_end ? len : 0;
	line = memchr(at + CHUNK_MIN, '\n', len - CHUNK_MIN);
	if (!line)
		return 0;
	for (line++; line - at < CHUNK_MAX; line = next) {
		if (end - line < 8)
			return is_end ? len : 0;
		next = memchr(line, '\n', (size_t)(end - line));
		if (!next)
			return 0;
		next++;
		if (is_border(line, next))
			return (size_t)(next - at);
	}
	return (size_t)(line - at);
}

static int add_chunk(struct list_text *t, const struct list_format *format, const char *bytes, size_t len)
{
	struct list_chunk *grown;
	size_t cap = t->chunk_cap ? t->chunk_cap + t->chunk_cap / 2 : 256;

	if (t->chunk_count == t->chunk_cap) {
		grown = realloc(t->chunks, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		t->chunks = grown;
		t->chunk_cap = cap;
	}
	t->chunks[t->chunk_count++] =
	        (struct list_chunk){.hash = list_chunk_hash(t, format, bytes, len), .len = (uint32_t)len};
	t->len += len;
	return 0;
}

/* Room for another piece, and for the newline that a last line may lack. */
static int make_room(struct input *in)
{
	char *grown;

	memmove(in->bytes, in->bytes + in->at, in->len - in->at);
	in->len -= in->at;
	in->at = 0;
	if (in->cap - in->len > READ_BYTES / 2)
		return 0;
	grown = realloc(in->bytes, in->cap * 2);
	if (!grown)
		return -ENOMEM;
	in->bytes = grown;
	in->cap *= 2;
	return 0;
}

/* What was cut goes to the spool, as much as fits is read behind what is left. */
static int fill(struct input *in, const struct list_text *t, struct spool *s)
{
	int r = spool_write(s, in->bytes, in->at);
	ssize_t n;

	if (r == 0)
		r = make_room(in);
	while (r == 0 && !in->is_end && in->len + 1 < in->cap) {
		n = read(in->file->fd, in->bytes + in->len, in->cap - in->len - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		in->is_end = n == 0;
		in->len += (size_t)n;
		in->total += (uint64_t)n;
		if (in->total > LIST_FILE_MAX || t->len + in->len - in->at > LIST_TEXT_MAX)
			return NW_ETOOLONG;
	}
	if (r == 0 && in->is_end && in->len > 0 && in->bytes[in->len - 1] != '\n')
		in->bytes[in->len++] = '\n';
	return r;
}

/* The byte order mark goes, the format is known. */
static int begin_file(struct list_text *t, struct input *in, struct spool *s, const struct text_source *from)
{
	struct list_text_file *file = &t->files[t->file_count];
	const char *name;
	int r;

	*file = (struct list_text_file){.at = t->len, .path = strdup(in->file->path), .format = from->format};
	if (!file->path)
		return -ENOMEM;
	t->file_count++;
	if (in->file->fd < 0)
		return in->file->fd;
	r = fill(in, t, s);
	if (r < 0)
		return r;
	if (in->len >= 3 && memcmp(in->bytes, "\xef\xbb\xbf", 3) == 0) {
		memmove(in->bytes, in->bytes + 3, in->len - 3);
		in->len -= 3;
	}
	if (!file->format)
		file->format = list_format_detect(in->bytes, in->len, &name);
	return file->format ? 0 : NW_ENOTYET;
}

static int read_file(struct list_text *t, struct input *in, struct spool *s, const struct text_source *from)
{
	struct list_text_file *file = &t->files[t->file_count];
	size_t len;
	int r;

	in->at = in->len = 0;
	in->total = 0;
	in->is_end = false;
	r = begin_file(t, in, s, from);
	while (r == 0) {
		len = chunk_length(in->bytes + in->at, in->len - in->at, in->is_end);
		if (len == 0 && in->is_end)
			break;
		if (len == 0) {
			r = fill(in, t, s);
			continue;
		}
		r = add_chunk(t, file->format, in->bytes + in->at, len);
		in->at += len;
	}
	if (r == 0)
		r = spool_write(s, in->bytes, in->at);
	if (r == 0)
		file->len = t->len - file->at;
	return r;
}

static void digest(struct list_text *t)
{
	uint64_t pair[2];

	t->digest = t->seed;
	for (unsigned i = 0; i < t->file_count; i++) {
		t->digest = hash_bytes(t->files[i].path, strlen(t->files[i].path), t->digest);
		t->digest = hash_bytes(&t->files[i].len, sizeof(t->files[i].len), t->digest);
	}
	for (size_t i = 0; i < t->chunk_count; i++) {
		pair[0] = t->chunks[i].hash;
		pair[1] = t->chunks[i].len;
		t->digest = hash_bytes(pair, sizeof(pair), t->digest);
	}
}

static int read_files(struct list_text *t, const struct list_file *files, unsigned count, const struct text_source *from,
        const char **ret_path)
{
	struct input in = {.bytes = malloc(READ_BYTES), .cap = READ_BYTES};
	struct spool s;
	int r = in.bytes ? spool_open(&s, from->spool_dir) : -ENOMEM;

	if (r < 0) {
		free(in.bytes);
		return r;
	}
	for (unsigned i = 0; r == 0 && i < count; i++) {
		in.file = &files[i];
		r = read_file(t, &in, &s, from);
		if (r < 0)
			*ret_path = files[i].path;
	}
	free(in.bytes);
	t->fd = s.fd;
	return r;
}

int list_text_read(struct list_text **ret, const struct list_file *files, unsigned count, const struct text_source *from,
        const char **ret_path)
{
	struct list_text *t = list_text_new();
	int r = t ? 0 : -ENOMEM;

	*ret_path = NULL;
	if (r == 0 && count > LIST_FILES_MAX)
		r = NW_EFULL;
	if (r == 0) {
		t->seed = from->seed;
		t->match = from->match;
		t->taken_s = clock_wall_s();
		t->files = calloc(count ? count : 1, sizeof(*t->files));
		r = t->files ? read_files(t, files, count, from, ret_path) : -ENOMEM;
	}
	for (unsigned i = 0; i < count; i++)
		close(files[i].fd);
	if (r < 0) {
		list_text_unref(t);
		return r;
	}
	digest(t);
	*ret = t;
	return 0;
}
