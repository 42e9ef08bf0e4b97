/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A YAML text as a tree of nodes that know their place. Plain YAML only: no anchors, aliases, tags, second documents.
 * Pure: bytes in, nodes out of an arena, what is wrong into the report. Any thread. */
#pragma once
#include "config/config.h"

enum { TREE_DEPTH_MAX = 16, TREE_NODES_MAX = 1 << 18, TREE_KEYS_MAX = 1024 /* in one map */ };

enum node_kind { NODE_NULL, NODE_SCALAR, NODE_SEQUENCE, NODE_MAP };
struct node {
	enum node_kind kind;
	bool is_incomplete;     /* something under it was refused: what is missing then is no error of its own */
	unsigned count;         /* children */
	struct place place;     /* of the value; of the key for a map's entry without value */
	struct place key_place; /* of the key, in a map */
	const char *key;        /* the key it stands under; the items of a sequence bear the sequence's key; NULL at the root */
	const char *text;       /* of a scalar */
	struct node *first, *last, *next;
};

/* What the files of one bundle share: memory, the report and the number of nodes so far. */
struct tree { struct arena *arena; struct report *report; unsigned node_count; };

/* An empty text is a map without entries; the root is always a map. 0, NW_ECONFIG (reported), -ENOMEM. */
int tree_parse(struct node **ret, struct tree *t, const char *file, const char *text, size_t len);
/* Adds the entries of `from` to `into`: sections merge by key, the rule sequences append, a key twice is reported. `from` is
 * used up. */
int tree_merge(struct tree *t, struct node *into, struct node *from);
struct node *node_child(const struct node *map, const char *key); /* NULL: absent, or map is NULL */

/* A key that takes "a value or a sequence of values": for (v = value_first(n); v; v = value_next(n, v)). n may be NULL. */
const struct node *value_first(const struct node *n);
const struct node *value_next(const struct node *n, const struct node *v);
unsigned value_count(const struct node *n);
