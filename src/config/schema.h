/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The one table of configuration keys (keys.c). It decides which keys are known, which this version carries and which shape
 * their values have, and it is the text of the reference. The typed conversion in server.c, ways.c ... only sees what passed
 * here. */
#pragma once
#include <stdio.h>
#include "config/tree.h"

enum schema_shape {
	SHAPE_VALUE,          /* a single text or number */
	SHAPE_VALUES,         /* one, or a sequence of at least one */
	SHAPE_VALUES_OR_NONE, /* one, or a sequence that may be empty */
	SHAPE_MAP,            /* the keys below it in the table */
	SHAPE_NAMED,          /* a map whose keys the user invents; PATH.*.KEY are the keys of each */
	SHAPE_RULES,          /* a sequence of maps; PATH[].KEY are the keys of each */
};

struct schema_key {
	const char *path;
	enum schema_shape shape;
	unsigned max;         /* values of a sequence or entries of a map; 0: one */
	const char *type;     /* for people */
	const char *by_default;
	bool is_carried;      /* false: refused by name as not in this version */
	const char *doc;
};

extern const struct schema_key schema_keys[];
extern const unsigned schema_key_count;

/* Reports unknown keys, keys of other versions, wrong shapes and exceeded limits, and takes them out of the tree, so that the
 * conversion meets only known keys of the right shape; their parents are marked is_incomplete. */
void schema_check(struct node *root, struct report *r);

/* Every key with type, default, limit and meaning, as Markdown. */
void schema_print_reference(FILE *out);
