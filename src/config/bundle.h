/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The bundle: the main file and its includes as one byte string, in the order in which they are merged.
 *
 *   nameway-bundle 1\n
 *   cwd LEN\n BYTES \n                      the directory that relative paths start from
 *   file PATH_LEN TEXT_LEN\n PATH \n TEXT \n     once per file, the main file first
 *   end FILES HASH\n                        HASH: XXH3 of all that stands before this line, 16 hex digits
 *
 * It is also what is kept as the last good configuration, hence the hash. Building and reading it is pure; only
 * config_bundle_read does I/O. */
#pragma once
#include "config/config.h"

enum { BUNDLE_DEPTH_MAX = 8, BUNDLE_FILES_MAX = 256, BUNDLE_MAX = CONFIG_FILE_MAX + (1 << 20), BUNDLE_PATH_MAX = 4096 };

int bundle_begin(struct buf *b, const char *cwd);
int bundle_add(struct buf *b, const char *path, const char *text, size_t len);
int bundle_end(struct buf *b, unsigned files);

struct bundle_reader { const char *at, *end; const char *cwd; size_t cwd_len; unsigned left; };
struct bundle_file { const char *path, *text; size_t path_len, text_len; };

int bundle_open(struct bundle_reader *ret, const void *bytes, size_t len); /* 0, NW_EMALFORMED */
int bundle_next(struct bundle_reader *b, struct bundle_file *ret);         /* 1, 0 at the end, NW_EMALFORMED */
