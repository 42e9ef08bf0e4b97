/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The bundle: the main file and its includes as one byte string, in the order in which they are merged, then what they need of
 * the machine that changes by itself.
 *
 *   nameway-bundle 1\n
 *   cwd LEN\n BYTES \n                             the directory that relative paths start from
 *   file PATH_LEN TEXT_LEN\n PATH \n TEXT \n       once per file, the main file first
 *   resolv PATH_LEN TEXT_LEN\n PATH \n TEXT \n     once per resolv.conf that a group names and that could be read; PATH is absolute
 *   machine PATH_LEN TEXT_LEN\n PATH \n TEXT \n    at most one: interfaces and addresses, see machine.h; PATH says nothing
 *   end MEMBERS HASH\n                             HASH: XXH3 of all that stands before this line, 16 hex digits
 *
 * It is also what is kept as the last good configuration, hence the hash. Building and reading it is pure; only
 * config_bundle_read and config_bundle_refresh do I/O. */
#pragma once
#include "config/config.h"

enum { BUNDLE_DEPTH_MAX = 8, BUNDLE_FILES_MAX = 256, BUNDLE_MEMBERS_MAX = BUNDLE_FILES_MAX + CONFIG_UPSTREAMS_MAX + 1,
	BUNDLE_PATH_MAX = 4096 };
/* Bytes: of a resolv.conf, of all of them, of what is known of the machine; of all files with their paths; of everything. */
enum { RESOLV_TEXT_MAX = 64 << 10, RESOLV_ALL_MAX = 1 << 20, MACHINE_TEXT_MAX = 64 << 10,
	BUNDLE_FILES_BYTES_MAX = CONFIG_FILE_MAX + (1 << 20), BUNDLE_MAX = BUNDLE_FILES_BYTES_MAX + (4 << 20) };

enum bundle_kind { BUNDLE_FILE, BUNDLE_RESOLV, BUNDLE_MACHINE }; /* in this order */

int bundle_begin(struct buf *b, const char *cwd);
int bundle_add(struct buf *b, const char *path, const char *text, size_t len); /* a file */
int bundle_add_kind(struct buf *b, enum bundle_kind kind, const char *path, const char *text, size_t len);
int bundle_end(struct buf *b, unsigned members);

struct bundle_reader { const char *at, *end; const char *cwd; size_t cwd_len; unsigned left; enum bundle_kind last; bool has_file; };
struct bundle_member { enum bundle_kind kind; const char *path, *text; size_t path_len, text_len; };

int bundle_open(struct bundle_reader *ret, const void *bytes, size_t len); /* 0, NW_EMALFORMED */
int bundle_next(struct bundle_reader *b, struct bundle_member *ret);       /* 1, 0 at the end, NW_EMALFORMED */
