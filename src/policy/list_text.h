/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The text of one list: its files one behind another, cut into chunks whose borders depend on the lines near them only.
 *
 * A chunk begins and ends at line ends and belongs to one file. It is at least CHUNK_MIN bytes and ends behind the first line
 * from there whose bytes say so (one line in 32), so a line put in or taken out moves no border but those nearest to it, and two
 * versions of a text share all other chunks. Every chunk has a 64-bit hash, seeded by the list and the file's format; equal hash
 * and length count as equal text, parsed alike. Byte order marks are dropped, a last line gets its newline.
 *
 * A text is immutable once its lines are counted, and shared by reference count: any thread may read one it holds. Its bytes are
 * never in our memory as a whole: they stand behind `bytes_at` in a file of our own (`fd`; where there is no disk for it, one of
 * memfd_create), and each chunk is checked against its hash when it is read. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "policy/list_entries.h"
#include "policy/list_format.h"
#include "policy/lists.h"

enum { CHUNK_MIN = 4096, CHUNK_MAX = 16 << 10, LIST_FILES_MAX = 4096 };
#define LIST_FILE_MAX (512ull << 20)
#define LIST_TEXT_MAX (2ull << 30)

/* Of lines: understood (at least one entry of it), bad (none), partly (some); entries: of all lines. */
struct list_chunk { uint64_t hash; uint32_t len; uint16_t lines, understood, bad, partly, entries; };
struct list_text_file { uint64_t at, len; char *path; const struct list_format *format; };
struct list_text {
	_Atomic unsigned refs;
	bool is_counted; /* lines, understood and bad are known for every chunk */
	uint64_t seed, digest, len;
	int64_t taken_s; /* wall clock, when it was read */
	int fd; uint64_t bytes_at;
	enum list_match match; /* of the list; not kept in `state`: whoever loads a text says it */
	struct list_text_file *files; unsigned file_count;
	struct list_chunk *chunks; size_t chunk_count, chunk_cap;
	uint64_t lines, understood, bad, partly, entries;
};

/* Reads the files to their ends and closes them, on failure too. *ret_path is the file that failed (NULL: none in particular).
 * NW_ENOTYET: a file in a format that is not carried, a policy zone. format NULL: each file's is detected. spool_dir -1: none. */
struct text_source { uint64_t seed; const struct list_format *format; enum list_match match; int spool_dir; };
int list_text_read(struct list_text **ret, const struct list_file *files, unsigned count, const struct text_source *from, const char **ret_path);
struct list_text *list_text_new(void); /* empty, one reference, for the loader in list_state.c */
struct list_text *list_text_ref(struct list_text *t);
void list_text_unref(struct list_text *t); /* takes NULL */
void list_text_total(struct list_text *t); /* sums the chunks' counts */
uint64_t list_chunk_hash(const struct list_text *t, const struct list_format *format, const char *bytes, size_t len);
int list_text_copy_bytes(int from, uint64_t at, uint64_t len, int to); /* between files, to the place where `to` stands */

/* Marks (1) the chunks of each that the other does not have, and gives chunks of `new` that are common the counts of `old`. Both
 * arrays zeroed by the caller. */
int list_text_compare(const struct list_text *old, struct list_text *new, uint8_t *old_changed, uint8_t *new_changed);

/* Calls fn for each entry, and each part that is bad, of the lines of the wanted chunks; fn returns 0 to go on, anything else ends the visit and is
 * returned. count: the chunks visited get their counts (the owner of a text not yet shared). -EIO: the bytes in the file are not
 * what they were. */
struct text_place { unsigned file; uint64_t line; const char *text; size_t len; };
struct text_visit { const uint8_t *wanted; /* NULL: all */ size_t first, end; /* chunks; end 0: all */ bool count; void *ctx;
	int (*fn)(void *ctx, const struct line_entry *e, const struct text_place *at); /* NULL: only counts */ };
void list_entry_match(struct line_entry *e, enum list_match match); /* `match:` of the list, for a LINE_NAME that does not say itself how it matches */
int list_text_visit(struct list_text *t, const struct text_visit *v);

/* How often each entry of `wanted` stands in the text is added to `found`. */
int list_text_count(struct list_text *t, const struct entry_set *wanted, struct entry_set *found);
/* The first bad parts of lines. Returns how many were filled in. */
enum { LIST_BAD_SHOWN = 20 };
struct list_bad { unsigned file; uint64_t line; const char *why; char text[80]; /* printable ASCII */ };
int list_text_bad(struct list_text *t, struct list_bad *ret, unsigned max);
