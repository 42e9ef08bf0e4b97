/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The busiest names, clients and blocked names of the last hour and since the start, in bounded memory (Metwally, Agrawal, El Abbadi 2005: "space-saving").
 *
 * A sketch has a fixed number of counters. A key that has none takes the smallest one over, with its count: so a count is never too low, and too high by at
 * most what was taken over (`error`, itself at most all / counters). Keys with more than that share are always among the counters. The last hour is six
 * windows of ten minutes; a window that ends is added to the sketch since the start and the oldest one is forgotten. Times are an argument. One thread at a time. */
#pragma once
#include "base/buf.h"
#include "stat/query_ring.h"

enum { QUERY_TOP_COUNTERS = 2048, QUERY_TOP_KEY_MAX = NAME_WIRE_MAX, QUERY_TOP_WINDOWS = 6, QUERY_TOP_WINDOW_MS = 600000, QUERY_TOP_SHOWN_MAX = 1000 };

struct sketch;
struct sketch_entry { uint64_t count, error; const uint8_t *key; uint8_t len; }; /* key: valid until the sketch changes */
struct sketch *sketch_new(unsigned counters);
void sketch_free(struct sketch *s);
void sketch_clear(struct sketch *s);
void sketch_add(struct sketch *s, const uint8_t *key, size_t len, uint64_t count, uint64_t error);
void sketch_merge(struct sketch *to, const struct sketch *from);
/* The `max` largest, largest first. Returns how many. */
unsigned sketch_largest(const struct sketch *s, struct sketch_entry *ret, unsigned max);

struct query_top;
struct query_top *query_top_new(uint64_t now_ms);
void query_top_free(struct query_top *t);
void query_top_turn(struct query_top *t, uint64_t now_ms); /* ends windows that are over; before adding */
void query_top_add(struct query_top *t, const struct query_seen *q);
/* {"hour": {"queries", "names": [{"name", "count", "at_least"}], "clients": [{"client", …}], "blocked": [{"name", …}]}, "start": {the same}, "since_s"} */
int query_top_show(struct query_top *t, uint64_t now_ms, unsigned count, struct buf *out);
