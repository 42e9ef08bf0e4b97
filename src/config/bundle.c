/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The bundle's bytes: written with buf, read with lengths checked before anything behind them is touched. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/err.h"
#include "base/hash.h"
#include "config/bundle.h"

static const char bundle_magic[] = "nameway-bundle 1\n";

int bundle_begin(struct buf *b, const char *cwd)
{
	return buf_printf(b, "%scwd %zu\n%s\n", bundle_magic, strlen(cwd), cwd);
}

int bundle_add(struct buf *b, const char *path, const char *text, size_t len)
{
	int r = buf_printf(b, "file %zu %zu\n%s\n", strlen(path), len, path);
	if (r < 0)
		return r;
	r = buf_add(b, text, len);
	return r < 0 ? r : buf_add(b, "\n", 1);
}

int bundle_end(struct buf *b, unsigned files)
{
	uint64_t hash = hash_bytes(b->bytes, b->len, 0);
	return buf_printf(b, "end %u %016" PRIx64 "\n", files, hash);
}

/* Takes one header line as a C string without its line end. */
static int line_take(struct bundle_reader *b, char ret[64])
{
	size_t left = (size_t)(b->end - b->at);
	const char *nl = memchr(b->at, '\n', left < 63 ? left : 63);
	if (!nl)
		return NW_EMALFORMED;
	size_t len = (size_t)(nl - b->at);
	memcpy(ret, b->at, len);
	ret[len] = 0;
	b->at = nl + 1;
	return memchr(ret, 0, len) ? NW_EMALFORMED : 0;
}

/* Takes len bytes and the line end behind them. */
static int bytes_take(struct bundle_reader *b, const char **ret, size_t len)
{
	size_t left = (size_t)(b->end - b->at);
	if (len >= left || b->at[len] != '\n')
		return NW_EMALFORMED;
	*ret = b->at;
	b->at += len + 1;
	return 0;
}

/* Finds the last line, checks it and cuts it off. */
static int trailer_take(struct bundle_reader *b)
{
	const char *start = b->at;
	size_t len = (size_t)(b->end - start);
	if (!len || start[len - 1] != '\n')
		return NW_EMALFORMED;
	const char *nl = memrchr(start, '\n', len - 1);
	if (!nl)
		return NW_EMALFORMED;
	struct bundle_reader trailer = {.at = nl + 1, .end = b->end};
	char line[64], again[64];
	if (line_take(&trailer, line) < 0)
		return NW_EMALFORMED;
	unsigned files;
	uint64_t hash;
	if (sscanf(line, "end %u %" SCNx64, &files, &hash) != 2)
		return NW_EMALFORMED;
	snprintf(again, sizeof again, "end %u %016" PRIx64, files, hash);
	if (strcmp(line, again) || !files || files > BUNDLE_FILES_MAX || hash != hash_bytes(start, (size_t)(nl + 1 - start), 0))
		return NW_EMALFORMED;
	b->end = nl + 1;
	b->left = files;
	return 0;
}

int bundle_open(struct bundle_reader *ret, const void *bytes, size_t len)
{
	struct bundle_reader b = {.at = bytes, .end = (const char *)bytes + len};
	char line[64];
	size_t magic_len = sizeof bundle_magic - 1;
	if (len < magic_len || memcmp(bytes, bundle_magic, magic_len) || trailer_take(&b) < 0)
		return NW_EMALFORMED;
	if ((size_t)(b.end - b.at) < magic_len)
		return NW_EMALFORMED;
	b.at += magic_len;
	if (line_take(&b, line) < 0 || sscanf(line, "cwd %zu", &b.cwd_len) != 1 || b.cwd_len > BUNDLE_PATH_MAX)
		return NW_EMALFORMED;
	if (bytes_take(&b, &b.cwd, b.cwd_len) < 0)
		return NW_EMALFORMED;
	*ret = b;
	return 0;
}

int bundle_next(struct bundle_reader *b, struct bundle_file *ret)
{
	char line[64];
	struct bundle_file f;
	if (!b->left)
		return b->at == b->end ? 0 : NW_EMALFORMED;
	if (line_take(b, line) < 0 || sscanf(line, "file %zu %zu", &f.path_len, &f.text_len) != 2)
		return NW_EMALFORMED;
	if (!f.path_len || f.path_len > BUNDLE_PATH_MAX || f.text_len > CONFIG_FILE_MAX)
		return NW_EMALFORMED;
	if (bytes_take(b, &f.path, f.path_len) < 0 || memchr(f.path, 0, f.path_len) || bytes_take(b, &f.text, f.text_len) < 0)
		return NW_EMALFORMED;
	b->left--;
	*ret = f;
	return 1;
}
