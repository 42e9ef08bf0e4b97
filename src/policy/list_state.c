/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Texts in the state directory, and how every file there is written. See list_state.h. */
#include "policy/list_state.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/hash.h"

#define TEXT_MAGIC "nwtext2\n"
#define TEXT_MAGIC_1 "nwtext1\n" /* of the first version: files without a format, all of them domains */
#define TABLES_MAX ((size_t)1 << 30)

struct text_header {
	char magic[8];
	uint64_t version, def, seed, digest, len, tables_len, tables_hash;
	int64_t taken_s;
	uint32_t file_count, chunk_count, beside_count, is_counted;
	uint64_t hash; /* of what stands above */
};

/* Raised with every change of how lines are read between releases. */
enum { PARSED_VERSION = 2 };

int (*list_state_fault)(const char *step);

int list_state_step(const char *step)
{
	return list_state_fault ? list_state_fault(step) : 0;
}

uint64_t state_version(void)
{
	return hash_bytes(NAMEWAY_VERSION, strlen(NAMEWAY_VERSION), PARSED_VERSION);
}

/* A list's directory name: its own, with what a file name should not hold as %XX; a long one ends in its hash. */
static void list_path(char ret[256], const char *list)
{
	size_t at = (size_t)sprintf(ret, "lists/");

	for (const char *c = list; *c; c++) {
		if (at > 200) {
			sprintf(ret + at, "%%%016llx", (unsigned long long)hash_bytes(list, strlen(list), 0));
			return;
		}
		if (isalnum((unsigned char)*c) || *c == '_' || *c == '-' || (*c == '.' && c != list))
			ret[at++] = *c;
		else
			at += (size_t)sprintf(ret + at, "%%%02x", (unsigned char)*c);
	}
	ret[at] = '\0';
}

static int make_dir(int at, const char *path)
{
	return mkdirat(at, path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

int state_open_list(int state, const char *list, bool create)
{
	char path[256];
	int fd, r = 0;

	list_path(path, list);
	if (create) {
		r = list_state_step("mkdir");
		if (r == 0)
			r = make_dir(state, "lists");
		if (r == 0)
			r = make_dir(state, path);
	}
	if (r < 0)
		return r;
	fd = openat(state, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : fd;
}

int state_write(int fd, const void *bytes, size_t len)
{
	const char *p = bytes;
	ssize_t n;

	while (len > 0) {
		n = write(fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int state_write_file(int dir, const char *name, const struct state_part *parts, unsigned count)
{
	char beside[256];
	int fd, r = list_state_step("open");

	snprintf(beside, sizeof(beside), "%s.new", name);
	if (r < 0)
		return r;
	fd = openat(dir, beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	for (unsigned i = 0; r == 0 && i < count; i++) {
		r = list_state_step("write");
		if (r == 0 && parts[i].bytes)
			r = state_write(fd, parts[i].bytes, parts[i].len);
		else if (r == 0)
			r = list_text_copy_bytes(parts[i].text->fd, parts[i].text->bytes_at, parts[i].len, fd);
	}
	if (r == 0)
		r = list_state_step("fsync");
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (close(fd) < 0 && r == 0)
		r = -errno;
	if (r == 0)
		r = list_state_step("rename");
	if (r == 0 && renameat(dir, beside, dir, name) < 0)
		r = -errno;
	if (r == 0)
		r = list_state_step("fsync-dir");
	if (r == 0 && fsync(dir) < 0)
		r = -errno;
	if (r < 0)
		unlinkat(dir, beside, 0);
	return r;
}

static int put_tables(struct buf *b, const struct list_text *t, const struct entry_set *beside)
{
	struct entry_key k;
	uint32_t n;

	for (unsigned i = 0; i < t->file_count; i++) {
		n = (uint32_t)t->files[i].format->id;
		buf_add(b, &t->files[i].at, sizeof(uint64_t));
		buf_add(b, &t->files[i].len, sizeof(uint64_t));
		buf_add(b, &n, sizeof(n));
		n = (uint32_t)strlen(t->files[i].path);
		buf_add(b, &n, sizeof(n));
		buf_add(b, t->files[i].path, n);
	}
	buf_add(b, t->chunks, t->chunk_count * sizeof(*t->chunks));
	for (size_t at = 0; beside && entry_set_next(beside, &at, &k, &n);) {
		buf_add(b, &n, sizeof(n));
		buf_add(b, &k.kind, 1);
		buf_add(b, &k.len, sizeof(k.len));
		buf_add(b, k.bytes, k.len);
	}
	return b->failed;
}

int state_save_text(
        int state, const char *list, const char *file, const struct list_text *t, const struct entry_set *beside, uint64_t def)
{
	struct text_header h = {.magic = TEXT_MAGIC,
	        .version = state_version(),
	        .def = def,
	        .seed = t->seed,
	        .digest = t->digest,
	        .len = t->len,
	        .taken_s = t->taken_s,
	        .file_count = t->file_count,
	        .chunk_count = (uint32_t)t->chunk_count,
	        .beside_count = beside ? (uint32_t)beside->distinct : 0,
	        .is_counted = t->is_counted};
	struct buf tables;
	int dir, r;

	buf_init(&tables, TABLES_MAX);
	dir = state_open_list(state, list, true);
	if (dir < 0)
		return dir;
	r = put_tables(&tables, t, beside);
	if (r == 0) {
		h.tables_len = tables.len;
		h.tables_hash = hash_bytes(tables.bytes, tables.len, 0);
		h.hash = hash_bytes(&h, offsetof(struct text_header, hash), 0);
		r = state_write_file(
		        dir, file, (struct state_part[]){{&h, sizeof(h)}, {tables.bytes, tables.len}, {.len = t->len, .text = t}}, 3);
	}
	buf_free(&tables);
	close(dir);
	return r;
}

/* Takes n bytes from the tables. */
static bool get(const char **at, const char *end, void *ret, size_t n)
{
	if ((size_t)(end - *at) < n)
		return false;
	memcpy(ret, *at, n);
	*at += n;
	return true;
}

static int get_files(struct list_text *t, const char **at, const char *end, unsigned count, bool has_formats)
{
	uint32_t n, format = FORMAT_DOMAINS;
	uint64_t expected = 0;

	t->files = calloc(count ? count : 1, sizeof(*t->files));
	if (!t->files)
		return -ENOMEM;
	for (unsigned i = 0; i < count; i++) {
		struct list_text_file *f = &t->files[i];

		if (!get(at, end, &f->at, 8) || !get(at, end, &f->len, 8) || (has_formats && !get(at, end, &format, 4)) ||
		        !get(at, end, &n, 4) || n > (size_t)(end - *at) || f->at != expected)
			return NW_EMALFORMED;
		f->format = list_format_by_id((int)format);
		if (!f->format)
			return NW_EMALFORMED;
		f->path = strndup(*at, n);
		if (!f->path)
			return -ENOMEM;
		t->file_count++;
		*at += n;
		if (f->len > t->len - expected)
			return NW_EMALFORMED;
		expected += f->len;
	}
	return expected == t->len ? 0 : NW_EMALFORMED;
}

static int get_chunks(struct list_text *t, const char **at, const char *end, size_t count)
{
	uint64_t sum = 0;
	unsigned file = 0;

	if (count > (size_t)(end - *at) / sizeof(*t->chunks))
		return NW_EMALFORMED;
	t->chunks = malloc(count * sizeof(*t->chunks) + 1);
	if (!t->chunks)
		return -ENOMEM;
	get(at, end, t->chunks, count * sizeof(*t->chunks));
	t->chunk_count = t->chunk_cap = count;
	/* None is empty, and each lies in one file: whoever visits it asks for that file's format. */
	for (size_t i = 0; i < count; i++) {
		while (file < t->file_count && sum >= t->files[file].at + t->files[file].len)
			file++;
		if (!t->chunks[i].len || file == t->file_count || t->chunks[i].len > t->files[file].at + t->files[file].len - sum)
			return NW_EMALFORMED;
		sum += t->chunks[i].len;
	}
	return sum == t->len ? 0 : NW_EMALFORMED;
}

static bool is_beside(const struct entry_key *k)
{
	struct prefix_entry p;

	if (entry_key_is_rule(k))
		return k->len > 0;
	if (entry_key_is_name(k) || k->kind > ENTRY_PREFIX_EXEMPT || (k->len != 5 && k->len != 17))
		return false;
	entry_key_prefix(&p, k);
	return p.prefix.len <= (k->len - 1) * 8;
}

static int get_beside(struct entry_set *s, const char **at, const char *end, size_t count)
{
	struct entry_key k;
	uint32_t n;
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++) {
		if (!get(at, end, &n, 4) || !get(at, end, &k.kind, 1) || !get(at, end, &k.len, sizeof(k.len)) ||
		        k.len > sizeof(k.bytes) || !get(at, end, k.bytes, k.len) || !n || !is_beside(&k))
			return NW_EMALFORMED;
		r = entry_set_add(s, &k, n);
	}
	return r;
}

static int read_exactly(int fd, void *ret, size_t len, off_t at)
{
	ssize_t n = pread(fd, ret, len, at);

	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : NW_EMALFORMED;
}

static int load_header(struct text_header *h, int fd)
{
	struct stat st;
	int r = read_exactly(fd, h, sizeof(*h), 0);

	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0)
		return -errno;
	if ((memcmp(h->magic, TEXT_MAGIC, sizeof(h->magic)) && memcmp(h->magic, TEXT_MAGIC_1, sizeof(h->magic))) || h->hash != hash_bytes(h, offsetof(struct text_header, hash), 0))
		return NW_EMALFORMED;
	if (h->len > LIST_TEXT_MAX || h->tables_len > TABLES_MAX || (uint64_t)st.st_size != sizeof(*h) + h->tables_len + h->len ||
	        h->file_count > LIST_FILES_MAX)
		return NW_EMALFORMED;
	return 0;
}

static int load_tables(struct list_text *t, struct entry_set *beside, const struct text_header *h)
{
	char *tables = malloc(h->tables_len + 1);
	const char *at = tables, *end = tables + h->tables_len;
	int r = tables ? read_exactly(t->fd, tables, h->tables_len, sizeof(*h)) : -ENOMEM;

	if (r == 0 && hash_bytes(tables, h->tables_len, 0) != h->tables_hash)
		r = NW_EMALFORMED;
	if (r == 0)
		r = get_files(t, &at, end, h->file_count, memcmp(h->magic, TEXT_MAGIC_1, sizeof(h->magic)) != 0);
	if (r == 0)
		r = get_chunks(t, &at, end, h->chunk_count);
	if (r == 0 && beside && h->version == state_version())
		r = get_beside(beside, &at, end, h->beside_count);
	free(tables);
	return r;
}

int state_load_text(
        int state, const char *list, const char *file, struct list_text **ret, struct entry_set *ret_beside, uint64_t *ret_def)
{
	struct list_text *t;
	struct text_header h;
	int dir = state_open_list(state, list, false), r;

	if (dir < 0)
		return dir;
	t = list_text_new();
	if (!t) {
		close(dir);
		return -ENOMEM;
	}
	t->fd = openat(dir, file, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	r = t->fd < 0 ? -errno : load_header(&h, t->fd);
	close(dir);
	if (r == 0) {
		t->seed = h.seed;
		t->digest = h.digest;
		t->len = h.len;
		t->taken_s = h.taken_s;
		t->bytes_at = sizeof(h) + h.tables_len;
		r = load_tables(t, ret_beside, &h);
	}
	if (r < 0) {
		if (ret_beside)
			entry_set_free(ret_beside);
		list_text_unref(t);
		return r;
	}
	list_text_total(t);
	t->is_counted = h.is_counted && h.version == state_version();
	*ret_def = h.def;
	*ret = t;
	return 0;
}

int state_remove(int state, const char *list, const char *file)
{
	char path[256];
	int dir = state_open_list(state, list, false), r;

	if (dir < 0)
		return dir == -ENOENT ? 0 : dir;
	r = list_state_step("remove");
	if (r == 0 && file && unlinkat(dir, file, 0) < 0 && errno != ENOENT)
		r = -errno;
	if (r == 0 && !file) {
		unlinkat(dir, "text", 0);
		unlinkat(dir, "held", 0);
		unlinkat(dir, "overlay", 0);
		list_path(path, list);
		if (unlinkat(state, path, AT_REMOVEDIR) < 0 && errno != ENOENT)
			r = -errno;
	} else if (r == 0 && fsync(dir) < 0) {
		r = -errno;
	}
	close(dir);
	return r;
}
