/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The insides of the list manager, shared by lists*.c only. All of it belongs to the compiler thread; what lists_print_json and
 * the find functions read (name, text, held, overlay sets, the counters of struct list_slot) is changed under `lock` only. */
#pragma once
#include <pthread.h>
#include "base/buf.h"
#include "policy/list_journal.h"
#include "policy/list_state.h"
#include "policy/list_text.h"
#include "policy/lists.h"

enum { OVERLAY_ENTRIES_MAX = 100000, LISTS_RETRY_MS = 30000, LIST_WHY_MAX = 256 };
#define LIST_OPS_MAX ((size_t)8 << 20)   /* journal bytes of one update; past it the image is written anew */
#define LIST_JOURNAL_MAX (4ull << 20)    /* the journal is folded into the image at this size */
#define LIST_NAMES_MAX 100000000ull

/* One list, at its place in the index. Effective entries: those of the text that are not masked, and those added. */
struct list_slot {
	bool is_used, is_planned, is_filled /* the index holds the text and overlay */;
	char *name;
	uint64_t def;       /* hash of files, entries and format: another one is another list */
	unsigned config_index, shrink_limit_pct;
	uint64_t names_max; /* entries; 0: LIST_NAMES_MAX */
	const struct list_format *format; /* NULL: auto */
	enum list_match match;
	uint64_t seed;      /* of this list's chunk hashes */
	struct list_text *text, *held; /* in force; held back */
	char held_why[LIST_WHY_MAX];
	unsigned held_limit_pct; /* the shrink-limit that it was judged by */
	struct entry_set text_beside /* prefixes and rules of the text */, added, masked;
	struct prefixes *prefixes;
	struct exprs *exprs; /* of the rules; NULL: none */
	uint64_t rules_digest;
	uint64_t rules_left_out, rules_cut; /* exprs_stat, as it was looked at last */
	bool has_rules_alarm;
	bool is_text_saved, is_overlay_saved;
	/* For printing. */
	uint64_t names, prefix_count, rule_count, last_added, last_removed;
	int64_t changed_s;
};

struct lists {
	int state;
	struct lists_hooks hooks;
	struct index *index;
	struct list_slot slots[CONFIG_LISTS_MAX];
	uint16_t by_config[CONFIG_LISTS_MAX];
	unsigned config_count;
	struct list_journal journal;
	bool is_image_stale, is_state_failing;
	uint64_t tried_ms, generation;
	pthread_mutex_t lock;
	struct index_stat stat;
};

/* What is about to change one list. For a text: `text`, and either is_whole (everything is new) or the entries that went and
 * came. For an edit: the new overlay and the entries that take effect. */
struct list_change {
	struct list_text *text;      /* NULL: an edit, or (is_whole) a list that has no text, only an overlay */
	bool is_whole, is_edit, is_saved /* the text is in `state` as it is */;
	struct entry_set gone, come; /* of the text, or of an edit: entries to take out and put in */
	struct entry_set beside;     /* prefixes and rules of the new text, when has_beside */
	bool has_beside;
	struct entry_set added, masked; /* of an edit */
};

static inline struct list_slot *lists_slot(struct lists *l, unsigned list) { return list < l->config_count ? &l->slots[l->by_config[list]] : NULL; }
uint64_t slot_content(const struct list_slot *s); /* what is in force, as one number */
void slot_clear(struct list_slot *s);
void slot_count_rules(struct list_slot *s, uint64_t digest); /* of its exprs */
bool slot_has_format(const struct list_slot *s, const struct list_format *f); /* given, or of a file of its text */

/* list_change.c: compares a text with what is in force. want_sets: fill `come` also for a whole change. */
void list_change_init(struct list_change *c);
void list_change_free(struct list_change *c);
int list_change_prepare(struct list_change *c, const struct list_slot *s, struct list_text *text, bool want_sets);
/* Why the change is to be held; false: it is not. */
bool list_change_is_held(const struct list_change *c, const struct list_slot *s, char why[LIST_WHY_MAX]);

/* lists_update.c: puts a change in force and keeps it in `state`. is_quiet: no hooks (restore). Takes what it keeps out of the
 * change. */
int lists_apply(struct lists *l, struct list_slot *s, struct list_change *c, bool is_quiet);

/* lists_beside.c: what a list has beside names. text, added, masked: as they will be. *ret is NULL when there is none. */
int beside_prefixes(struct prefixes **ret, const struct entry_set *text, const struct entry_set *added, const struct entry_set *masked);
int beside_rules(struct exprs **ret, uint64_t seed, const struct entry_set *text, const struct entry_set *added, const struct entry_set *masked);
/* Looks at what the stage left out, and keeps the alarm `rules:NAME`. */
void beside_note_rules(struct lists *l, struct list_slot *s);
uint64_t beside_rules_digest(const struct entry_set *text, const struct entry_set *added, const struct entry_set *masked);

/* lists_restore.c: fills the index anew with the list's text and overlay as they are known. */
int lists_refill(struct lists *l, struct list_slot *s, bool is_quiet);

/* lists_persist.c */
int lists_persist(struct lists *l, struct list_slot *s);
void lists_hold(struct lists *l, struct list_slot *s, struct list_text *t, const char *why);
void lists_drop_held(struct lists *l, struct list_slot *s);
void lists_state_result(struct lists *l, int r);
void lists_alarm(struct lists *l, const char *key, const char *text);
void lists_alarm_slot(struct lists *l, const struct list_slot *s, const char *text);
