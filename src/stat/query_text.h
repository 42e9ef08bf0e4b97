/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A record of the query log as a JSON object of one line, and the words in it. */
#pragma once
#include "base/buf.h"
#include "stat/query_block.h"

/* {"time": ISO 8601 UTC, "at_ms", "client", "name", "type", "rcode", "outcome", "filter"?, "steer"?, "took_us"} and a line's end. */
void query_entry_print(const struct query_entry *e, struct buf *out);
/* A JSON string; bytes that are no printable ASCII and no whole UTF-8 become '?'. */
void json_text_print(const char *text, size_t len, struct buf *out);
