/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The lists in force: texts, differences, generations, the compiled image and journal in `state`, live edits (overlay).
 * All functions run on the compiler thread, except the *_print readers, which take the snapshot under a mutex (control path).
 *
 * An update: new text -> chunk hashes -> changed chunks only are parsed -> added and removed entries -> shrink-limit and
 * understood share checked -> index_begin/add/remove -> hooks.before_publish (addresses of cached answers enter the sets) ->
 * index_swapped (workers switched, where rules, prefixes or the index itself are new) -> index_publish -> rcu_wait -> index_settle -> hooks.after_publish (holds that lost their name leave the sets) -> accepted text
 * and journal written to `state`. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"
#include "config/config.h"
#include "policy/exprs.h"
#include "policy/index.h"
#include "policy/prefixes.h"

struct lists;

/* What one update does. added: names that may become listed (an exception taken away counts), removed: names that may cease to be
 * (an exception added counts); a name that changes in two ways may stand in both or twice. is_whole: more than LIST_NAMES_SHOWN
 * changes, or a change of rules, none enumerated: judge everything anew. `index` at generation `gen` is what will be in force;
 * `lists_prefixes` and `lists_exprs` tell the new prefixes and rules from before_publish on. */
enum { LIST_NAMES_SHOWN = 20000 };
struct list_update { unsigned list; /* config index */ bool is_whole, are_prefixes_changed, are_rules_changed /* then is_whole too */, is_admin_edit /* verb list add|remove: moved flows are dropped */;
	const struct name *added, *removed; uint32_t added_count, removed_count; const struct index *index; uint64_t gen; };
/* Any hook may be NULL. None is called by lists_plan, lists_restore, but for alarm. */
struct lists_hooks { void *ctx;
	int (*before_publish)(void *ctx, const struct list_update *u); /* negative: the update is given up, the old state stays, and this is its result */
	void (*after_publish)(void *ctx, const struct list_update *u);
	/* A rebuilt index, or the same one when prefixes or rules of a list changed: publish a policy that uses it, lists_prefixes and lists_exprs, and judges
	 * by `gen`, which the index itself may reach only afterwards: policy_set_generation. What it replaces is freed by lists after rcu_wait. Negative: no
	 * such policy could be made, none looks at the new ones; the update is given up as by before_publish. */
	int (*index_swapped)(void *ctx, struct index *index, uint64_t gen);
	void (*alarm)(void *ctx, const char *key, const char *text /* NULL: cleared */); }; /* keys: "state", "list:NAME" */

/* state_fd: the state directory (list_state.h says what is kept there), not closed by lists; -1: memory only (an alarm says so). */
int lists_new(struct lists **ret, int state_fd, const struct lists_hooks *hooks);
void lists_free(struct lists *l);
struct index *lists_index(struct lists *l);

/* Two steps around a reload. lists_plan maps the lists of a new configuration to slots (kept by name when files, entries and format
 * are unchanged) and loads nothing; then lists_offer brings each list's files; lists_forget_old removes lists no longer configured
 * after the new policy is published. */
/* The calls' order at start: lists_new, lists_plan, lists_restore, then lists_offer of every list. Later: lists_plan,
 * lists_offer…, policy published, lists_forget_old. A plan that is not carried out is undone by planning the old configuration
 * again. NW_EFULL: no slots for old and new lists together. */
int lists_plan(struct lists *l, const struct config *c, uint16_t *ret_slots /* by config list index */);
/* The files of one list as they are now: open descriptors (read whole, closed by the callee) with their paths for messages. No
 * file is an empty list with an alarm. accept: take it although held. Returns 0 (in force, also when nothing changed), NW_EHELD
 * (report says why), other errors: old state stays. */
struct list_file { int fd /* or -errno: it cannot be read */; const char *path; };
int lists_offer(struct lists *l, unsigned list, const struct list_file *files, unsigned count, bool accept, struct report *r);
bool lists_slot_has_text(const struct lists *l, unsigned slot); /* the same by index slot */
bool lists_has_text(const struct lists *l, unsigned list); /* false: it never had a file that could be taken; kill-switched rules on it stay closed */
int lists_accept(struct lists *l, unsigned list, struct report *r); /* the held text, as it was */
void lists_forget_old(struct lists *l);
/* At start, after lists_plan and before lists_index is used: the image, journal and accepted texts of `state`. Lists restored
 * need no files to be right. ret_restored by config list index. */
int lists_restore(struct lists *l, bool *ret_restored);
/* Live edits: entries in list syntax ("x", "=x", "!x", "1.2.3.0/24"), and adblock rules where the list has a file of that format; an overlay above the text, kept in state. remove of an
 * entry that stands in the text masks it. All entries or none: -ENOENT (an entry to remove is not there), NW_EMALFORMED,
 * NW_EFULL. Returns when in force. */
int lists_edit(struct lists *l, unsigned list, bool is_add, const char *const *entries, unsigned count, struct report *r);
const struct prefixes *lists_prefixes(struct lists *l, unsigned list); /* valid until the list's next update + rcu_wait */
const struct exprs *lists_exprs(struct lists *l, unsigned list); /* the rules of the bounded stage, valid as prefixes are; NULL: none */
const struct exprs *lists_slot_exprs(struct lists *l, unsigned slot);
const struct prefixes *lists_slot_prefixes(struct lists *l, unsigned slot); /* the same by index slot, also of lists no longer planned */
/* Background chores when idle: write the compiled image when the journal has grown (at most every 30 s). Returns ms until wanted
 * again. */
uint64_t lists_idle(struct lists *l, uint64_t now_ms);
int lists_save(struct lists *l); /* at SIGTERM */

/* JSON answers for `list`, `list diff` and explain. text is NUL-terminated JSON. lists_print_json and the list_place functions
 * run on any thread. */
int lists_print_json(struct lists *l, int list /* -1 all */, struct buf *out);
int lists_diff_json(struct lists *l, unsigned list, const struct list_file *file, struct buf *out);
/* The place in the accepted text that holds the deciding entry. It is taken by index slot while a snapshot with that slot is held, and may be searched for
 * when that was given back: it has the text by reference. kind: any of these bits. The prefix is the one that decides the address. NULL: no memory. */
struct list_place;
struct list_place *list_place_of_name(struct lists *l, unsigned slot, const struct name *entry, unsigned kind);
struct list_place *list_place_of_rule(struct lists *l, unsigned slot, const char *rule);
struct list_place *list_place_of_address(struct lists *l, unsigned slot, const struct addr *a);
/* Once: file path and line number. -ENOENT: it comes from the overlay (line 0). What is parsed is taken off *bytes_left; NW_EFULL: that did not suffice.
 * Off-line for RCU: it may take long. */
int list_place_find(struct list_place *p, uint64_t *bytes_left, struct buf *ret_file, unsigned *ret_line);
void list_place_free(struct list_place *p); /* takes NULL */
