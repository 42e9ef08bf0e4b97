/* SPDX-License-Identifier: GPL-3.0-or-later */
/* List formats: a table of {name, probe, parse}. A parser turns one line into entries, none, one or several; it keeps no state
 * between lines, so changed parts of a file can be parsed alone. No state at all; any thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include "policy/exprs.h"
#include "policy/index.h"
#include "policy/prefixes.h"

enum { LIST_LINE_MAX = 4096, LIST_PROBE_MAX = 64 << 10 };

enum line_result { LINE_EMPTY /* blank, comment, or left out on purpose */, LINE_NAME, LINE_PREFIX, LINE_RULE /* for the bounded stage, exprs.h */, LINE_BAD };
/* is_marked: the line itself says how the name matches ("=x", "*.x", "||x^"), so that `match:` does not change it. rule: a part of the line, or of
 * `made`; at most EXPR_TEXT_MAX bytes. */
struct line_entry { enum line_result what; struct name name; unsigned kind; bool is_marked; struct prefix_entry prefix; const char *rule; size_t rule_len; const char *why; /* of LINE_BAD, static text */
	char made[NAME_WIRE_MAX + 9]; };
struct list_format { const char *name; int id;
	int (*probe)(const char *text, size_t len); /* 0..100: how sure; reads at most LIST_PROBE_MAX bytes */
	/* The line without its newline. *at is 0 at first; each call gives the next entry and moves *at, at least by one unless it is len; the line is
	 * done when *at == len. Only the fields that `what` names are set. */
	void (*parse)(struct line_entry *ret, const char *line, size_t len, size_t *at); };
const struct list_format *list_format_by_id(int id); /* NULL: not carried */
/* Auto-detection of one file by its beginning. NULL with *ret_name set: a format this version does not carry ("rpz"). */
const struct list_format *list_format_detect(const char *text, size_t len, const char **ret_name);

extern const struct list_format list_format_domains, list_format_hosts, list_format_dnsmasq, list_format_adblock;

/* For parsers. A name without signs and blanks, alone: LINE_NAME without a kind, or LINE_BAD. An address or prefix, in brackets or not. */
/* Whether a rule of the bounded stage is a $badfilter of what the adblock format gives as a prefix. */
bool list_bad_prefix(const char *rule, size_t len, struct prefix_entry *ret);
bool list_is_blank(char c);
void list_parse_name(struct line_entry *ret, const char *s, size_t len);
bool list_parse_prefix(struct prefix *ret, const char *s, size_t len);
void list_parse_bad(struct line_entry *ret, const char *why);
int list_probe_share(const struct list_format *f, const char *text, size_t len); /* of 100 lines that are not empty, how many the format understands */

/* What a line that is neither blank nor a comment looks like. */
enum line_look { LOOK_NONE, LOOK_HOSTS, LOOK_ADBLOCK, LOOK_DNSMASQ, LOOK_RPZ, LOOKS };
enum line_look list_line_look(const char *line, size_t len);
