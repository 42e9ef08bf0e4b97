/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What lists keep in the `state` directory. The compiler thread.
 *
 *   lists/NAME/text      the accepted text: header, tables (files with their formats, chunks with their counts,
 *                        prefixes and rules), bytes
 *   lists/NAME/held      a text held back, the same
 *   lists/NAME/overlay   live edits, a line each: "+ENTRY" added, "-ENTRY" taken away; the last line is a checksum. An entry
 *                        is in list syntax, or "A" and an allowed name, or "R" and the text of a rule
 *   compiled.idx         the index image; its tag names the journal that belongs to it
 *   journal.ID           what the image stands for (lists and their contents), then every later change (list_journal.h)
 *
 * Texts and overlays are the truth; image and journal only make a start quick, and are used for a list only when their account of
 * it ends at the contents its text and overlay say. Every file is written beside, fsync'd and renamed into place, so a reader
 * after a crash finds old or new, whole. Everything read is checked: a file that does not validate is as good as none. */
#pragma once
#include "policy/list_text.h"

/* Called before every step that writes, when set: a negative result is taken for the step's own error. For tests. */
extern int (*list_state_fault)(const char *step);
int list_state_step(const char *step);

/* Writes a file of `dir` by way of NAME.new. */
struct state_part { const void *bytes /* NULL: of `text` */; size_t len; const struct list_text *text; };
int state_write_file(int dir, const char *name, const struct state_part *parts, unsigned count);
int state_open_list(int state, const char *list, bool create); /* a descriptor of the list's directory */
int state_write(int fd, const void *bytes, size_t len);
uint64_t state_version(void); /* a number for this version of the program: what another has parsed is parsed again */

int state_save_text(int state, const char *list, const char *file, const struct list_text *t, const struct entry_set *beside /* prefixes and rules, or NULL */, uint64_t def);
/* -ENOENT, NW_EMALFORMED. ret_beside may be NULL. A text counted by another version comes with is_counted false and nothing
 * beside. */
int state_load_text(int state, const char *list, const char *file, struct list_text **ret, struct entry_set *ret_beside, uint64_t *ret_def);
int state_save_overlay(int state, const char *list, const struct entry_set *added, const struct entry_set *masked);
int state_load_overlay(int state, const char *list, struct entry_set *added, struct entry_set *masked); /* the sets are empty on failure */
uint64_t state_overlay_digest(const struct entry_set *added, const struct entry_set *masked);
int state_remove(int state, const char *list, const char *file); /* file NULL: all of the list. 0 when there was none */
