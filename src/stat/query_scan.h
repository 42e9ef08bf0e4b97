/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reading the query log's segments back: the newest records that match, or what came since a cursor. Any thread; bounded in time, records and memory
 * (a segment at a time). */
#pragma once
#include "stat/query_files.h"
#include "stat/query_log.h"

enum { QUERY_SCAN_MS = 2000, QUERY_SCAN_RECORDS_MAX = 10000, QUERY_SCAN_BYTES_MAX = 32 << 20 };

struct query_match {
	const struct query_log_filter *filter;
	char part[NAME_TEXT_MAX]; /* of the name, lower-case; "" any */
	int64_t oldest_ms;        /* records before are not shown */
};
int query_match_make(struct query_match *ret, const struct query_log_filter *f, int64_t oldest_ms); /* NW_ETOOLONG: no name has such a part */

/* A cursor is a segment's number << 32 | offset behind a block; 0 is none. The end of what is there now; never 0. */
uint64_t query_scan_end(const struct query_segment *v, unsigned count);
/* The newest m->filter->max records before the cursor, oldest first. */
int query_scan_newest(struct query_files *f, const struct query_segment *v, unsigned count, const struct query_match *m, struct buf *out);
/* What came behind the cursor, oldest first, until about max records are shown or *cursor is at the end. It is moved by whole blocks. */
int query_scan_since(struct query_files *f, const struct query_segment *v, unsigned count, const struct query_match *m, uint64_t *cursor, struct buf *out);
