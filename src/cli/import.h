/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What `nameway import dnsmasq` gathers from a dnsmasq configuration and prints as ours. import.c: the verb, files and lines; import_options.c: the table of
 * options; import_names.c: those that say something of domains; import_records.c: records; import_settle.c: who decides about which domain;
 * import_print.c: the YAML. Everything lives in one arena; one thread, no server is asked. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include "base/arena.h"
#include "cli/cli.h"

enum { IMPORT_LINE_MAX = 8192 };

/* Strings in order. */
struct texts { const char **v; size_t count, cap; };

/* A line that says something; or all lines of a file that is taken as a list. */
struct import_line { const char *file, *text; unsigned line; bool is_left; struct import_line *next; const char *why; };

/* What a line says of a domain. When several say something of one domain, the first class of this order counts, as with dnsmasq. */
enum import_class {
	IMPORT_ANSWER,   /* value: an address */
	IMPORT_ZERO,     /* 0.0.0.0 and :: */
	IMPORT_SERVERS,  /* value: a server */
	IMPORT_STANDARD, /* the servers of all other names */
	IMPORT_NXDOMAIN,
	IMPORT_FILE,     /* value: path of a file that is nothing but such lines */
};
/* domain: lower-case, without final dot; "." every name; "*x" and "*.x" as dnsmasq has them; "" the names without a dot. */
struct import_said { const char *domain, *value, *key /* labels from the right */; enum import_class class; size_t order; struct import_line *line; };
struct import_saids { struct import_said *v; size_t count, cap; };

/* Domains of one meaning, as a list: entries ("x", "!x": not this one), and lines of dnsmasq for patterns. Of a file: entries are those of `except`. */
struct import_group { enum import_class class, meaning /* of a file */; const char *value; struct texts entries, patterns; struct import_line *line; };
struct import_groups { struct import_group *v; size_t count, cap; };

struct import {
	struct arena *arena;
	struct cli *cli;
	unsigned depth;
	bool is_out_of_memory;
	/* where it reads, and what became of the lines */
	const char *file;
	unsigned line;
	struct import_line *now, *left, **left_last, *noted, **noted_last;
	unsigned line_count, empty_count, carried_count, left_count;
	/* what was understood */
	unsigned port;
	struct texts interfaces, except_interfaces, addresses;
	struct texts servers, hosts, records, short_srv /* "_a._b" without a domain */, rebind_ok, bogus;
	struct import_saids said, sets_said;
	struct import_saids mx_self; /* MX records without a target: owner, preference */
	const char *resolv_conf, *domain, *mx_target;
	struct import_line *resolv_line;
	bool no_resolv, no_hosts, strict_order, all_servers, stop_rebind, log_queries, no_negative, domain_needed, no_a, no_aaaa;
	long cache_names, min_ttl, max_ttl, in_flight, stale_s; /* -1: not given */
	/* settled */
	struct import_groups splits /* servers */, answers, sets;
	struct texts standard, elsewhere /* domains that servers are asked for */, all /* values for every name */;
	enum import_class all_class;
	const char *all_sets;
};

bool texts_add(struct import *m, struct texts *t, const char *text);     /* copies; false: out of memory */
bool texts_add_new(struct import *m, struct texts *t, const char *text); /* unless it is there; for short ones */
bool import_grow(struct import *m, void *array, size_t count, size_t *cap, size_t each); /* array: the address of a pointer; room for one more */
void *import_out_of_memory(struct import *m);
/* Strings in the arena, "" when there is no memory (is_out_of_memory says so). */
const char *import_text(struct import *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The line was not carried over, or not all of it. Counts a line once. */
void import_leave(struct import *m, struct import_line *line, const char *why);
void import_note(struct import *m, const char *what); /* of the line that is read: carried over, but */
int import_file(struct import *m, const char *path);

/* The next word up to `sep`, without blanks around it; *p moves behind. NULL at the end. What was quoted is not cut. */
char *import_word(char **p, char sep);
char *import_unhide(char *text);
const char *import_name(struct import *m, const char *text); /* as it is written in a configuration, or NULL */
bool import_is_address(const char *text);
bool import_number(const char *text, long max, long *ret); /* 0 to max, nothing else behind it */

/* One option; value NULL when there is none. Returns what stands in its way, or NULL. */
const char *import_option(struct import *m, char *key, char *value);
void import_say(struct import *m, struct import_saids *to, const char *domain, enum import_class class, const char *value, struct import_line *line);
const char *take_server(struct import *m, char *value);
const char *take_address(struct import *m, char *value);
const char *take_nftset(struct import *m, char *value);
const char *take_rev_server(struct import *m, char *value);
const char *take_rebind_ok(struct import *m, char *value);
/* A file that is a list: what it says of its domains, beneath which others may decide. */
void import_list_line(struct import *m, const char *path, char *value, struct import_line *line);
const char *take_cname(struct import *m, char *value);
const char *take_host_record(struct import *m, char *value);
const char *take_txt(struct import *m, char *value);
const char *take_srv(struct import *m, char *value);
const char *take_mx(struct import *m, char *value);
const char *take_ptr(struct import *m, char *value);
const char *take_naptr(struct import *m, char *value);
const char *take_caa(struct import *m, char *value);
const char *take_rr(struct import *m, char *value);

void import_settle(struct import *m);
void import_print(const struct import *m, FILE *out);
int cli_import(struct cli *c, int argc, char **argv);
