/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A segment is read whole (a few MiB) and gone through forward, block by block; for the newest records the last matches, some more than wanted, are kept in a ring of
 * decoded entries that point into the segment's bytes, printed, and the segment before is looked at for the rest. Damaged bytes are passed over.
 * The log's thread empties one worker's ring after another, so within a turn of it the records are out of order: they are sorted by time, and then
 * the newest are taken. */
#include "stat/query_scan.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/err.h"
#include "stat/query_text.h"

/* DISORDER_MAX: records that may stand behind newer ones, of one turn of the log's thread. */
enum { SEGMENT_READ_MAX = 2 * QUERY_SEGMENT_MAX, DISORDER_MAX = 8192 };

/* --- what matches --- */

int query_match_make(struct query_match *ret, const struct query_log_filter *f, int64_t oldest_ms)
{
	*ret = (struct query_match){ .filter = f, .oldest_ms = oldest_ms };
	size_t len = f->name ? strlen(f->name) : 0;
	if (len >= sizeof ret->part)
		return NW_ETOOLONG;
	for (size_t i = 0; i < len; i++)
		ret->part[i] = (char)(f->name[i] >= 'A' && f->name[i] <= 'Z' ? f->name[i] | 0x20 : f->name[i]);
	if (len > 1 && ret->part[len - 1] == '.')
		ret->part[len - 1] = 0;
	return 0;
}

static bool matches(const struct query_match *m, const struct query_entry *e)
{
	char name[NAME_TEXT_MAX];
	const struct query_log_filter *f = m->filter;
	if ((int64_t)e->wall_ms < m->oldest_ms || (f->outcome >= 0 && e->outcome != f->outcome) || (f->client && !addr_equal(f->client, &e->client)))
		return false;
	return !m->part[0] || strstr(name_to_text(name, e->name), m->part);
}

static int earlier_first(const void *a, const void *b)
{
	const struct query_entry *x = a, *y = b;
	if (x->wall_ms != y->wall_ms)
		return x->wall_ms < y->wall_ms ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name; /* as they stand in the bytes */
}

static void print_sorted(struct query_entry *v, size_t count, struct buf *out)
{
	qsort(v, count, sizeof *v, earlier_first);
	for (size_t i = 0; i < count; i++)
		query_entry_print(&v[i], out);
}

/* --- the newest --- */

struct tail {
	struct query_entry *ring; /* of want + DISORDER_MAX */
	size_t want, seen;
};

static void gather(const struct query_match *m, const uint8_t *bytes, size_t len, struct tail *t)
{
	struct query_reader rd;
	struct query_entry e;
	size_t block_len;
	for (size_t at = query_block_find(bytes, len, 0); at < len; at = query_block_find(bytes, len, at + block_len)) {
		block_len = query_block_check(bytes + at, len - at);
		query_block_open(&rd, bytes + at, block_len);
		while (query_block_next(&rd, &e))
			if (matches(m, &e))
				t->ring[t->seen++ % (t->want + DISORDER_MAX)] = e;
	}
}

static size_t print_tail(struct tail *t, struct buf *out)
{
	size_t kept = t->seen < t->want + DISORDER_MAX ? t->seen : t->want + DISORDER_MAX, shown = kept < t->want ? kept : t->want;
	qsort(t->ring, kept, sizeof *t->ring, earlier_first);
	print_sorted(t->ring + kept - shown, shown, out);
	return shown;
}

/* As far as the table said: what is being written behind that is not whole yet. */
static int read_segment(struct query_files *f, const struct query_segment *s, uint32_t from, uint8_t **ret, size_t *ret_len)
{
	uint32_t to = s->bytes > SEGMENT_READ_MAX ? SEGMENT_READ_MAX : s->bytes;
	return query_files_read(f, s->number, from, to, ret, ret_len);
}

int query_scan_newest(struct query_files *f, const struct query_segment *v, unsigned count, const struct query_match *m, struct buf *out)
{
	size_t want = m->filter->max > QUERY_SCAN_RECORDS_MAX ? QUERY_SCAN_RECORDS_MAX : m->filter->max;
	struct buf *part = calloc(count + 1, sizeof *part);
	struct query_entry *ring = calloc(want + DISORDER_MAX, sizeof *ring);
	unsigned parts = 0;
	uint64_t until = clock_ms() + QUERY_SCAN_MS;
	int r = part && ring ? 0 : -ENOMEM;
	for (unsigned i = count; r == 0 && want && i-- && clock_ms() < until && v[i].newest_ms >= m->oldest_ms;) {
		uint8_t *bytes;
		size_t len;
		if (read_segment(f, &v[i], 0, &bytes, &len) < 0)
			continue; /* deleted meanwhile, or not readable */
		struct tail t = { .ring = ring, .want = want };
		gather(m, bytes, len, &t);
		buf_init(&part[parts], QUERY_SCAN_BYTES_MAX);
		want -= print_tail(&t, &part[parts]);
		r = part[parts++].failed;
		free(bytes);
	}
	while (parts--) {
		if (r == 0)
			r = buf_add(out, part[parts].bytes, part[parts].len);
		buf_free(&part[parts]);
	}
	free(part);
	free(ring);
	return r;
}

/* --- what came since --- */

uint64_t query_scan_end(const struct query_segment *v, unsigned count)
{
	return count ? (uint64_t)v[count - 1].number << 32 | v[count - 1].bytes : 1;
}

struct since { struct query_entry *v; size_t count, want; /* v: of want and those of a block */ };

/* Takes whole blocks until there are enough. Returns how far it came. */
static size_t take_blocks(const struct query_match *m, const uint8_t *bytes, size_t len, struct since *s)
{
	struct query_reader rd;
	size_t at = query_block_find(bytes, len, 0);
	while (at < len && s->count < s->want) {
		size_t block_len = query_block_check(bytes + at, len - at);
		query_block_open(&rd, bytes + at, block_len);
		while (query_block_next(&rd, &s->v[s->count]))
			s->count += matches(m, &s->v[s->count]);
		at = query_block_find(bytes, len, at + block_len);
	}
	return at;
}

int query_scan_since(struct query_files *f, const struct query_segment *v, unsigned count, const struct query_match *m, uint64_t *cursor, struct buf *out)
{
	uint32_t number = (uint32_t)(*cursor >> 32), offset = (uint32_t)*cursor;
	uint64_t until = clock_ms() + QUERY_SCAN_MS;
	size_t want = m->filter->max > QUERY_SCAN_RECORDS_MAX ? QUERY_SCAN_RECORDS_MAX : m->filter->max;
	if (count && *cursor > query_scan_end(v, count)) {
		*cursor = query_scan_end(v, count); /* of files that are gone: it goes on from now */
		return 0;
	}
	struct query_entry *room = calloc(want + QUERY_BLOCK_RECORDS_MAX + 1, sizeof *room);
	int r = room ? 0 : -ENOMEM;
	for (unsigned i = 0; r == 0 && i < count && want && clock_ms() < until; i++) {
		uint32_t from = v[i].number == number ? offset : 0;
		uint8_t *bytes;
		size_t len;
		if (v[i].number < number || read_segment(f, &v[i], from, &bytes, &len) < 0)
			continue;
		struct since s = { .v = room, .want = want };
		*cursor = (uint64_t)v[i].number << 32 | (from + take_blocks(m, bytes, len, &s));
		print_sorted(room, s.count, out);
		want -= s.count < want ? s.count : want;
		free(bytes);
		r = out->failed;
	}
	free(room);
	return r;
}
