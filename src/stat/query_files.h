/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The query log's files in a directory: segments "NUMBER.queries" of whole blocks, appended to one after another, the oldest deleted by age and by total
 * size. Whatever is killed leaves at most one block without an end, which is cut off at the next start. What cannot be written is given up, said in
 * is_failing, and tried again some seconds later. One thread writes; any thread reads: the mutex guards only the table of segments, no I/O. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { QUERY_SEGMENT_MIN = 1 << 16, QUERY_SEGMENT_MAX = 4 << 20, QUERY_SEGMENTS_MAX = 20480 /* of 64 GiB, and some */, QUERY_SEGMENTS_OF = 16 /* a segment holds at most this part of the space and of the time */,
	QUERY_RETRY_MS = 5000 };

struct query_files;
struct query_segment { uint32_t number, bytes; int64_t newest_ms /* wall clock */; };

/* dir_fd is not closed; -1: nothing is kept. now_ms: wall clock, also below. */
int query_files_open(struct query_files **ret, int dir_fd, int64_t now_ms);
void query_files_close(struct query_files *f);
/* Writer. */
void query_files_limit(struct query_files *f, uint64_t bytes_max, uint32_t keep_s);
int query_files_append(struct query_files *f, const uint8_t *block, size_t len, int64_t now_ms); /* 0, -errno: not kept */
void query_files_trim(struct query_files *f, int64_t now_ms); /* what is too old goes */
/* Any thread. The segments there are, oldest first: malloc'ed, *ret_count of them. */
int query_files_list(struct query_files *f, struct query_segment **ret, unsigned *ret_count);
/* Bytes [from, to) of a segment, malloc'ed; fewer when it became shorter. -ENOENT: it is gone. */
int query_files_read(struct query_files *f, uint32_t number, uint32_t from, uint32_t to, uint8_t **ret, size_t *ret_len);
void query_files_stat(struct query_files *f, uint64_t *ret_bytes, uint64_t *ret_files, bool *ret_is_failing);
