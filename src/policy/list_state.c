/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Texts and overlays in the state directory. See list_state.h. */
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

#define TEXT_MAGIC "nwtext1\n"
#define OVERLAY_MAX ((size_t)64 << 20)
#define TABLES_MAX ((size_t)1 << 30)

struct text_header {
	char magic[8];
	uint64_t version, def, seed, digest, len, tables_len, tables_hash;
	int64_t taken_s;
	uint32_t file_count, chunk_count, prefix_count, is_counted;
	uint64_t hash; /* of what stands above */
};

int (*list_state_fault)(const char *step);

int list_state_step(const char *step)
{
	return list_state_fault ? list_state_fault(step) : 0;
}

uint64_t state_version(void)
{
	return hash_bytes(NAMEWAY_VERSION, strlen(NAMEWAY_VERSION), 1);
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

static int open_list(int state, const char *list, bool create)
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
		if (r == 0)
			r = state_write(fd, parts[i].bytes, parts[i].len);
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

static int put_tables(struct buf *b, const struct list_text *t, const struct entry_set *prefixes)
{
	struct entry_key k;
	uint32_t n;

	for (unsigned i = 0; i < t->file_count; i++) {
		n = (uint32_t)strlen(t->files[i].path);
		buf_add(b, &t->files[i].at, sizeof(uint64_t));
		buf_add(b, &t->files[i].len, sizeof(uint64_t));
		buf_add(b, &n, sizeof(n));
		buf_add(b, t->files[i].path, n);
	}
	buf_add(b, t->chunks, t->chunk_count * sizeof(*t->chunks));
	for (size_t at = 0; prefixes && entry_set_next(prefixes, &at, &k, &n);) {
		buf_add(b, &n, sizeof(n));
		buf_add(b, &k.kind, 1);
		buf_add(b, &k.len, 1);
		buf_add(b, k.bytes, k.len);
	}
	return b->failed;
}

/* The bytes of a text that lives in a file of ours, for writing it to another one. */
static int text_bytes(const struct list_text *t, char **ret_copy, const char **ret)
{
	uint64_t done = 0;
	ssize_t n;

	*ret_copy = NULL;
	*ret = t->bytes;
	if (t->bytes || t->len == 0)
		return 0;
	*ret = *ret_copy = malloc(t->len);
	while (*ret_copy && done < t->len) {
		n = pread(t->fd, *ret_copy + done, t->len - done, (off_t)(t->bytes_at + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			free(*ret_copy);
			return n < 0 ? -errno : -EIO;
		}
		done += (uint64_t)n;
	}
	return *ret ? 0 : -ENOMEM;
}

int state_save_text(
        int state, const char *list, const char *file, const struct list_text *t, const struct entry_set *prefixes, uint64_t def)
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
	        .prefix_count = prefixes ? (uint32_t)prefixes->distinct : 0,
	        .is_counted = t->is_counted};
	const char *bytes;
	char *copy;
	struct buf tables;
	int dir, r;

	buf_init(&tables, TABLES_MAX);
	dir = open_list(state, list, true);
	if (dir < 0)
		return dir;
	r = text_bytes(t, &copy, &bytes);
	if (r == 0)
		r = put_tables(&tables, t, prefixes);
	if (r == 0) {
		h.tables_len = tables.len;
		h.tables_hash = hash_bytes(tables.bytes, tables.len, 0);
		h.hash = hash_bytes(&h, offsetof(struct text_header, hash), 0);
		r = state_write_file(
		        dir, file, (struct state_part[]){{&h, sizeof(h)}, {tables.bytes, tables.len}, {bytes, t->len}}, 3);
	}
	free(copy);
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

static int get_files(struct list_text *t, const char **at, const char *end, unsigned count)
{
	uint64_t expected = 0;
	uint32_t n;

	t->files = calloc(count ? count : 1, sizeof(*t->files));
	if (!t->files)
		return -ENOMEM;
	for (unsigned i = 0; i < count; i++) {
		struct list_text_file *f = &t->files[i];

		if (!get(at, end, &f->at, 8) || !get(at, end, &f->len, 8) || !get(at, end, &n, 4) || n > (size_t)(end - *at) ||
		        f->at != expected)
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

	if (count > (size_t)(end - *at) / sizeof(*t->chunks))
		return NW_EMALFORMED;
	t->chunks = malloc(count * sizeof(*t->chunks) + 1);
	if (!t->chunks)
		return -ENOMEM;
	get(at, end, t->chunks, count * sizeof(*t->chunks));
	t->chunk_count = t->chunk_cap = count;
	for (size_t i = 0; i < count; i++)
		sum += t->chunks[i].len;
	return sum == t->len ? 0 : NW_EMALFORMED;
}

static int get_prefixes(struct entry_set *s, const char **at, const char *end, size_t count)
{
	struct entry_key k;
	struct prefix_entry p;
	uint32_t n;
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++) {
		if (!get(at, end, &n, 4) || !get(at, end, &k.kind, 1) || !get(at, end, &k.len, 1) ||
		        !get(at, end, k.bytes, k.len))
			return NW_EMALFORMED;
		if ((k.kind != ENTRY_PREFIX && k.kind != ENTRY_PREFIX_EXEMPT) || (k.len != 5 && k.len != 17))
			return NW_EMALFORMED;
		entry_key_prefix(&p, &k);
		if (p.prefix.len > (k.len - 1) * 8 || !n)
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
	if (memcmp(h->magic, TEXT_MAGIC, sizeof(h->magic)) || h->hash != hash_bytes(h, offsetof(struct text_header, hash), 0))
		return NW_EMALFORMED;
	if (h->len > LIST_TEXT_MAX || h->tables_len > TABLES_MAX || (uint64_t)st.st_size != sizeof(*h) + h->tables_len + h->len ||
	        h->file_count > LIST_FILES_MAX)
		return NW_EMALFORMED;
	return 0;
}

static int load_tables(struct list_text *t, struct entry_set *prefixes, const struct text_header *h)
{
	char *tables = malloc(h->tables_len + 1);
	const char *at = tables, *end = tables + h->tables_len;
	int r = tables ? read_exactly(t->fd, tables, h->tables_len, sizeof(*h)) : -ENOMEM;

	if (r == 0 && hash_bytes(tables, h->tables_len, 0) != h->tables_hash)
		r = NW_EMALFORMED;
	if (r == 0)
		r = get_files(t, &at, end, h->file_count);
	if (r == 0)
		r = get_chunks(t, &at, end, h->chunk_count);
	if (r == 0 && prefixes && h->version == state_version())
		r = get_prefixes(prefixes, &at, end, h->prefix_count);
	free(tables);
	return r;
}

int state_load_text(
        int state, const char *list, const char *file, struct list_text **ret, struct entry_set *ret_prefixes, uint64_t *ret_def)
{
	struct list_text *t;
	struct text_header h;
	int dir = open_list(state, list, false), r;

	if (dir < 0)
		return dir;
	t = list_text_new();
	if (!t) {
		close(dir);
		return -ENOMEM;
	}
	t->fd = openat(dir, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	r = t->fd < 0 ? -errno : load_header(&h, t->fd);
	close(dir);
	if (r == 0) {
		t->seed = h.seed;
		t->digest = h.digest;
		t->len = h.len;
		t->taken_s = h.taken_s;
		t->bytes_at = sizeof(h) + h.tables_len;
		r = load_tables(t, ret_prefixes, &h);
	}
	if (r < 0) {
		if (ret_prefixes)
			entry_set_free(ret_prefixes);
		list_text_unref(t);
		return r;
	}
	list_text_total(t);
	t->is_counted = h.is_counted && h.version == state_version();
	*ret_def = h.def;
	*ret = t;
	return 0;
}

static void print_set(struct buf *out, const struct entry_set *s, char sign)
{
	struct entry_key k;
	uint32_t count;

	for (size_t at = 0; entry_set_next(s, &at, &k, &count);) {
		buf_add(out, &sign, 1);
		entry_key_print(out, &k);
		buf_add(out, "\n", 1);
	}
}

int state_save_overlay(int state, const char *list, const struct entry_set *added, const struct entry_set *masked)
{
	struct buf b;
	int dir, r;

	if (!added->distinct && !masked->distinct)
		return state_remove(state, list, "overlay");
	dir = open_list(state, list, true);
	if (dir < 0)
		return dir;
	buf_init(&b, OVERLAY_MAX);
	print_set(&b, added, '+');
	print_set(&b, masked, '-');
	buf_printf(&b, "=%016llx\n", (unsigned long long)hash_bytes(b.bytes, b.len, 0));
	r = b.failed;
	if (r == 0)
		r = state_write_file(dir, "overlay", (struct state_part[]){{b.bytes, b.len}}, 1);
	buf_free(&b);
	close(dir);
	return r;
}

static int read_overlay(const char *text, size_t len, struct entry_set *added, struct entry_set *masked)
{
	const char *end = text + len, *nl;
	unsigned long long hash;
	struct entry_key k;
	struct line_entry e;
	int r = 0;

	for (const char *p = text; r == 0 && p < end; p = nl + 1) {
		nl = memchr(p, '\n', (size_t)(end - p));
		if (!nl)
			return NW_EMALFORMED;
		if (*p == '=')
			return sscanf(p, "=%16llx", &hash) == 1 && nl + 1 == end &&
			                       hash == hash_bytes(text, (size_t)(p - text), 0)
			               ? 0
			               : NW_EMALFORMED;
		if (*p != '+' && *p != '-')
			return NW_EMALFORMED;
		list_format_domains.parse(&e, p + 1, (size_t)(nl - p) - 1, &(size_t){0});
		if (e.what != LINE_NAME && e.what != LINE_PREFIX)
			return NW_EMALFORMED;
		entry_key_from_line(&k, &e);
		r = entry_set_add(*p == '+' ? added : masked, &k, 1);
	}
	return r < 0 ? r : NW_EMALFORMED;
}

int state_load_overlay(int state, const char *list, struct entry_set *added, struct entry_set *masked)
{
	int dir = open_list(state, list, false), fd, r;
	struct buf b;

	if (dir < 0)
		return dir;
	fd = openat(dir, "overlay", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	r = fd < 0 ? -errno : 0;
	close(dir);
	if (r < 0)
		return r;
	buf_init(&b, OVERLAY_MAX);
	r = buf_read_fd(&b, fd);
	close(fd);
	if (r == 0)
		r = read_overlay(b.bytes, b.len, added, masked);
	buf_free(&b);
	if (r < 0) {
		entry_set_free(added);
		entry_set_free(masked);
	}
	return r;
}

/* The same for equal sets whatever their order. */
uint64_t state_overlay_digest(const struct entry_set *added, const struct entry_set *masked)
{
	struct entry_key k;
	uint64_t sum = 0;
	uint32_t count;

	for (size_t at = 0; entry_set_next(added, &at, &k, &count);)
		sum += hash_bytes(k.bytes, k.len, k.kind);
	for (size_t at = 0; entry_set_next(masked, &at, &k, &count);)
		sum += hash_bytes(k.bytes, k.len, 256u + k.kind);
	return sum;
}

int state_remove(int state, const char *list, const char *file)
{
	char path[256];
	int dir = open_list(state, list, false), r;

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
