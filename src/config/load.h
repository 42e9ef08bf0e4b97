/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The conversion of the checked tree into struct config, a file for each noun. All of them return 0 or -ENOMEM; what is wrong
 * with the text goes into the report, and the object stays in its array, so that references to it do not fail as well. */
#pragma once
#include "config/value.h"

/* In this order: each may refer to what stands before it. root's sections may be absent. */
int load_clients(struct load *l, const struct node *root);
int load_server(struct load *l, const struct node *root);
int load_upstreams(struct load *l, const struct node *root);
int load_lists(struct load *l, const struct node *root);
int load_ways(struct load *l, const struct node *root);
int load_rules(struct load *l, const struct node *root);
int load_local(struct load *l, const struct node *root);
int load_cache(struct load *l, const struct node *root);

int records_load(struct load *l, const struct node *records);     /* local.records */

void ways_number(struct load *l);                                 /* marks and table numbers */
void ways_fallbacks(struct load *l, const struct node *ways);
int steers_identify(struct load *l, const bool *is_named);       /* steer.id */
void ways_check_clients(struct load *l);
void main_mark_check(struct load *l);                             /* after the rules */
void advise(struct load *l, const struct node *root);             /* warnings that need the whole */

/* Names of one kind, to resolve references and to suggest the nearest. */
struct names {
	const char *noun, *section;
	unsigned (*count)(const struct config *c);
	const char *(*at)(const struct config *c, unsigned i);
};
extern const struct names names_groups, names_lists, names_ways, names_upstreams;

int names_find(const struct config *c, const struct names *names, const char *text); /* index or -1 */
int names_resolve(struct load *l, const struct names *names, const struct node *n);  /* index, or -1 after reporting */
/* Indexes without doubles, in the order given. */
int names_resolve_all(struct load *l, const struct names *names, const struct node *n, struct ids *ret);

/* Whether nameway itself would get what is sent there: by an address it listens at, or by one of an interface it listens on. */
bool listens_at(const struct load *l, const struct endpoint *e);
