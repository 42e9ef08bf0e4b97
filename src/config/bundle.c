/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The bundle's bytes: written with buf, read with lengths checked before anything behind them is touched. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/err.h"
#include "base/hash.h"
#include "config/bundle.h"

static const char bundle_magic[] = "nameway-bundle 1\n";

static const struct {
	const char *word;
	size_t text_max;
} kinds[] = {[BUNDLE_FILE] = {"file", CONFIG_FILE_MAX}, [BUNDLE_RESOLV] = {"resolv", RESOLV_TEXT_MAX},
        [BUNDLE_MACHINE] = {"machine", MACHINE_TEXT_MAX}};
enum { KIND_COUNT = sizeof kinds / sizeof *kinds };

int bundle_begin(struct buf *b, const char *cwd)
{
	return buf_printf(b, "%scwd %zu\n%s\n", bundle_magic, strlen(cwd), cwd);
}

int bundle_add_kind(struct buf *b, enum bundle_kind kind, const char *path, const char *text, size_t len)
{
	int r = buf_printf(b, "%s %zu %zu\n%s\n", kinds[kind].word, strlen(path), len, path);
	if (r < 0)
		return r;
	r = buf_add(b, text, len);
	return r < 0 ? r : buf_add(b, "\n", 1);
}

int bundle_add(struct buf *b, const char *path, const char *text, size_t len)
{
	return bundle_add_kind(b, BUNDLE_FILE, path, text, len);
}

int bundle_end(struct buf *b, unsigned members)
{
	uint64_t hash = hash_bytes(b->bytes, b->len, 0);
	return buf_printf(b, "end %u %016" PRIx64 "\n", members, hash);
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
	unsigned members;
	uint64_t hash;
	if (sscanf(line, "end %u %" SCNx64, &members, &hash) != 2)
		return NW_EMALFORMED;
	snprintf(again, sizeof again, "end %u %016" PRIx64, members, hash);
	if (strcmp(line, again) || !members || members > BUNDLE_MEMBERS_MAX || hash != hash_bytes(start, (size_t)(nl + 1 - start), 0))
		return NW_EMALFORMED;
	b->end = nl + 1;
	b->left = members;
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

/* "KIND PATH_LEN TEXT_LEN". */
static int header_parse(const char *line, struct bundle_member *ret)
{
	char word[8];
	if (sscanf(line, "%7[a-z] %zu %zu", word, &ret->path_len, &ret->text_len) != 3)
		return NW_EMALFORMED;
	for (unsigned i = 0; i < KIND_COUNT; i++)
		if (!strcmp(word, kinds[i].word)) {
			ret->kind = (enum bundle_kind)i;
			return ret->path_len && ret->path_len <= BUNDLE_PATH_MAX && ret->text_len <= kinds[i].text_max ? 0
			                                                                                               : NW_EMALFORMED;
		}
	return NW_EMALFORMED;
}

int bundle_next(struct bundle_reader *b, struct bundle_member *ret)
{
	char line[64];
	struct bundle_member m;
	if (!b->left)
		return b->at == b->end && b->has_file ? 0 : NW_EMALFORMED;
	if (line_take(b, line) < 0 || header_parse(line, &m) < 0)
		return NW_EMALFORMED;
	if (m.kind < b->last || (m.kind == BUNDLE_MACHINE && b->last == BUNDLE_MACHINE))
		return NW_EMALFORMED;
	if (bytes_take(b, &m.path, m.path_len) < 0 || memchr(m.path, 0, m.path_len) || bytes_take(b, &m.text, m.text_len) < 0)
		return NW_EMALFORMED;
	b->left--;
	b->last = m.kind;
	b->has_file = b->has_file || m.kind == BUNDLE_FILE;
	*ret = m;
	return 1;
}
