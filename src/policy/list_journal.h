/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The compiled image and the journal over it, in `state`. The compiler thread.
 *
 * compiled.idx is an index image whose tag holds a random number ID; journal.ID says what the image stands for. Its first record
 * is a table: for each slot of the index the list's name, definition and content (a hash of text and overlay). Every further
 * record is one update of one list: slot, content before, content after, and the changes made to the index. A record is {length,
 * hash, bytes}; the first that does not validate ends the journal. A new image is written with a new journal before it, and takes
 * over by its rename. A list that an update could not be recorded for (too large, disk full) is no longer recorded until the next
 * image. */
#pragma once
#include "base/buf.h"
#include "policy/index.h"

struct list_journal_slot { bool is_recorded; uint64_t def, content; char *name; };
struct list_journal { int fd; uint64_t id, end; struct list_journal_slot slots[CONFIG_LISTS_MAX]; };

void list_journal_init(struct list_journal *j);
void list_journal_free(struct list_journal *j);
/* Maps the image and replays the journal. *ret_index is set on 0 only; j->slots says what the index holds. */
int list_journal_restore(struct list_journal *j, int state, struct index **ret_index);
/* Writes image and new journal. slots: what the index holds now; names are copied. */
int list_journal_write_image(struct list_journal *j, int state, const struct index *ix, const struct list_journal_slot *slots);

/* Changes of the index, as journal bytes. */
void list_op_put(struct buf *ops, const struct name *n, unsigned kind, bool is_remove);
int list_journal_append(struct list_journal *j, unsigned slot, uint64_t before, uint64_t after, const struct buf *ops);
