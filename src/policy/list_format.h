/* SPDX-License-Identifier: GPL-3.0-or-later */
/* List formats: a table of {name, probe, parse}. A parser turns one line into entries; it keeps no state between lines, so
 * changed parts of a file can be parsed alone. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include "policy/index.h"
#include "policy/prefixes.h"

enum { LIST_LINE_MAX = 4096, LIST_PROBE_MAX = 64 << 10 };

enum line_result { LINE_EMPTY /* blank, comment, or left out on purpose */, LINE_NAME, LINE_PREFIX, LINE_RULE /* for the bounded stage, exprs.h */, LINE_BAD };
/* is_marked: the line itself says how the name matches ("=x", "*.x", "||x^"), so that `match:` does not change it. rule: a part of the line. */
struct line_entry { enum line_result what; struct name name; unsigned kind; bool is_marked; struct prefix_entry prefix; const char *rule; size_t rule_len; const char *why; /* of LINE_BAD, static text */ };
struct list_format { const char *name; int id;
	int (*probe)(const char *text, size_t len); /* 0..100: how sure; reads at most LIST_PROBE_MAX bytes */
	void (*parse)(struct line_entry *ret, const char *line, size_t len); }; /* the line without its newline; only the fields that `what` names are set */
const struct list_format *list_format_by_id(int id);
/* Auto-detection. NULL with *ret_name set: a format this version does not carry ("hosts", "adblock", "dnsmasq", "rpz"). */
const struct list_format *list_format_detect(const char *text, size_t len, const char **ret_name);

extern const struct list_format list_format_domains;

/* What a line that is neither blank nor a comment looks like. */
enum line_look { LOOK_NONE, LOOK_HOSTS, LOOK_ADBLOCK, LOOK_DNSMASQ, LOOK_RPZ, LOOKS };
enum line_look list_line_look(const char *line, size_t len);
