/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The YAML tree, built from libyaml's events (which carry places) with an explicit stack, so depth is bounded by a constant.
 * A map's entries are a linked list in file order; doubles are looked for by walking it, which TREE_KEYS_MAX keeps cheap. */
#include <errno.h>
#include <string.h>
#include <yaml.h>
#include "base/err.h"
#include "config/tree.h"

struct reading {
	struct tree *t;
	yaml_parser_t parser;
	const char *file;
	struct node *root, *open[TREE_DEPTH_MAX];
	unsigned depth, documents;
	const char *key; /* read, its value not yet */
	struct place key_place;
};

static struct place place_of(const struct reading *rd, yaml_mark_t mark)
{
	return (struct place){rd->file, (int)mark.line + 1, (int)mark.column + 1};
}

static int refuse(struct reading *rd, yaml_mark_t mark, const char *why)
{
	struct place p = place_of(rd, mark);
	report_add(rd->t->report, true, &p, "%s", why);
	return NW_ECONFIG;
}

static bool text_is_null(const yaml_event_t *e)
{
	static const char *const words[] = {"", "~", "null", "Null", "NULL"};
	if (e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
		return false;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (!strcmp((const char *)e->data.scalar.value, words[i]))
			return true;
	return false;
}

static void append(struct node *parent, struct node *n)
{
	n->next = NULL;
	if (parent->last)
		parent->last->next = n;
	else
		parent->first = n;
	parent->last = n;
	parent->count++;
}

/* Makes the node of a value and hangs it under what is open. */
static int value_add(struct node **ret, struct reading *rd, const yaml_event_t *e, enum node_kind kind)
{
	struct node *parent = rd->depth ? rd->open[rd->depth - 1] : NULL;
	if (++rd->t->node_count > TREE_NODES_MAX)
		return refuse(
		        rd, e->start_mark, "the configuration is too large: more than 262144 values; move names into list files");
	struct node *n = arena_alloc(rd->t->arena, sizeof *n);
	if (!n)
		return -ENOMEM;
	n->kind = kind;
	n->place = place_of(rd, e->start_mark);
	if (parent && parent->kind == NODE_MAP) {
		n->key = rd->key;
		n->key_place = rd->key_place;
		if (kind == NODE_NULL)
			n->place = n->key_place;
		rd->key = NULL;
	} else if (parent) {
		n->key = parent->key;
		n->key_place = n->place;
	}
	if (parent)
		append(parent, n);
	else
		rd->root = n;
	*ret = n;
	return 0;
}

static bool wants_key(const struct reading *rd)
{
	return rd->depth && rd->open[rd->depth - 1]->kind == NODE_MAP && !rd->key;
}

static int key_add(struct reading *rd, const yaml_event_t *e, const char *text)
{
	const struct node *map = rd->open[rd->depth - 1];
	const struct node *twin = node_child(map, text);
	struct place p = place_of(rd, e->start_mark);
	if (twin) {
		report_add(rd->t->report, true, &p, "`%.64s` is here twice, first at line %d column %d; keep one of them", text,
		        twin->key_place.line, twin->key_place.column);
		return NW_ECONFIG;
	}
	if (map->count >= TREE_KEYS_MAX)
		return refuse(rd, e->start_mark, "more than 1024 keys in one map; take some out");
	rd->key = text;
	rd->key_place = p;
	return 0;
}

static int scalar_take(struct reading *rd, const yaml_event_t *e)
{
	size_t len = e->data.scalar.length;
	if (memchr(e->data.scalar.value, 0, len))
		return refuse(rd, e->start_mark, "a zero byte in a text; take the \\0 out");
	char *text = arena_strdup(rd->t->arena, (const char *)e->data.scalar.value);
	if (!text)
		return -ENOMEM;
	if (wants_key(rd))
		return key_add(rd, e, text);
	struct node *n;
	int r = value_add(&n, rd, e, text_is_null(e) ? NODE_NULL : NODE_SCALAR);
	if (r < 0)
		return r;
	n->text = text;
	return 0;
}

static int collection_open(struct reading *rd, const yaml_event_t *e, enum node_kind kind)
{
	if (wants_key(rd))
		return refuse(
		        rd, e->start_mark, "a key must be plain text, not a list or a map; quote it if it begins with a bracket");
	if (rd->depth == TREE_DEPTH_MAX)
		return refuse(rd, e->start_mark, "nested deeper than 16 levels; the configuration needs no more than 5");
	struct node *n;
	int r = value_add(&n, rd, e, kind);
	if (r < 0)
		return r;
	rd->open[rd->depth++] = n;
	return 0;
}

static int decorations_refuse(struct reading *rd, const yaml_event_t *e, const yaml_char_t *anchor, const yaml_char_t *tag)
{
	if (anchor)
		return refuse(rd, e->start_mark,
		        "YAML anchors are not used here; write the value out, or quote a text that begins with &");
	if (tag)
		return refuse(rd, e->start_mark, "YAML tags are not used here; take it out, or quote a text that begins with !");
	return 0;
}

static int event_take(struct reading *rd, const yaml_event_t *e)
{
	int r;
	switch (e->type) {
	case YAML_DOCUMENT_START_EVENT:
		if (rd->documents++)
			return refuse(rd, e->start_mark,
			        "a second YAML document; one file is one document: put it into a file of its own and `include` "
			        "it");
		return 0;
	case YAML_ALIAS_EVENT:
		return refuse(rd, e->start_mark,
		        "YAML aliases are not used here; write the value out, or quote a text that begins with *");
	case YAML_SCALAR_EVENT:
		r = decorations_refuse(rd, e, e->data.scalar.anchor, e->data.scalar.tag);
		return r < 0 ? r : scalar_take(rd, e);
	case YAML_SEQUENCE_START_EVENT:
		r = decorations_refuse(rd, e, e->data.sequence_start.anchor, e->data.sequence_start.tag);
		return r < 0 ? r : collection_open(rd, e, NODE_SEQUENCE);
	case YAML_MAPPING_START_EVENT:
		r = decorations_refuse(rd, e, e->data.mapping_start.anchor, e->data.mapping_start.tag);
		return r < 0 ? r : collection_open(rd, e, NODE_MAP);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		rd->depth--;
		return 0;
	default:
		return 0;
	}
}

/* Says what libyaml said. Its reader knows only a byte offset. */
static int syntax_report(struct reading *rd, const char *text, size_t len)
{
	const yaml_parser_t *y = &rd->parser;
	struct place p = place_of(rd, y->problem_mark);
	if (y->error == YAML_MEMORY_ERROR)
		return -ENOMEM;
	if (y->error == YAML_READER_ERROR) {
		p.line = p.column = 1;
		for (size_t i = 0; i < y->problem_offset && i < len; i++) {
			p.column++;
			if (text[i] == '\n') {
				p.line++;
				p.column = 1;
			}
		}
		report_add(rd->t->report, true, &p, "this is no text: %s; save the file as UTF-8 without control characters",
		        y->problem);
		return NW_ECONFIG;
	}
	size_t at = y->problem_mark.index;
	const char *mend = at < len && text[at] == '\t' ? "indent with spaces, not tabs"
	                                                : "look at the indentation, brackets and quotes here and just above";
	report_add(rd->t->report, true, &p, "this is no YAML: %s%s%s; %s", y->context ? y->context : "", y->context ? ", " : "",
	        y->problem ? y->problem : "unreadable", mend);
	return NW_ECONFIG;
}

static int events_read(struct reading *rd, const char *text, size_t len)
{
	for (;;) {
		yaml_event_t e;
		if (!yaml_parser_parse(&rd->parser, &e))
			return syntax_report(rd, text, len);
		bool is_end = e.type == YAML_STREAM_END_EVENT;
		int r = event_take(rd, &e);
		yaml_event_delete(&e);
		if (r < 0 || is_end)
			return r;
	}
}

int tree_parse(struct node **ret, struct tree *t, const char *file, const char *text, size_t len)
{
	struct reading rd = {.t = t, .file = arena_strdup(t->arena, file)};
	/* libyaml would skip a byte order mark, but count it as a column, and the first key would seem indented. */
	if (len >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) {
		text += 3;
		len -= 3;
	}
	if (!rd.file || !yaml_parser_initialize(&rd.parser))
		return -ENOMEM;
	yaml_parser_set_encoding(&rd.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&rd.parser, (const unsigned char *)text, len);
	int r = events_read(&rd, text, len);
	yaml_parser_delete(&rd.parser);
	if (r < 0)
		return r;
	if (!rd.root) {
		rd.root = arena_alloc(t->arena, sizeof *rd.root);
		if (!rd.root)
			return -ENOMEM;
		rd.root->place = (struct place){rd.file, 1, 1};
	}
	if (rd.root->kind == NODE_NULL)
		rd.root->kind = NODE_MAP;
	if (rd.root->kind != NODE_MAP) {
		report_add(t->report, true, &rd.root->place, "the file must hold keys and values; begin it with `server:`");
		return NW_ECONFIG;
	}
	*ret = rd.root;
	return 0;
}

static int twice_report(struct tree *t, const struct node *twin, const struct node *n)
{
	report_add(t->report, true, &n->key_place, "`%.64s` is already given at %s:%d:%d; keep one of them", n->key,
	        twin->key_place.file, twin->key_place.line, twin->key_place.column);
	return NW_ECONFIG;
}

static bool is_rule_sequence(const struct node *n)
{
	return n->kind == NODE_SEQUENCE && (!strcmp(n->key, "filter") || !strcmp(n->key, "steer"));
}

static int section_merge(struct tree *t, struct node *into, struct node *from)
{
	int r = 0;
	bool is_sequence = from->kind == NODE_SEQUENCE;
	struct node *next;
	for (struct node *n = from->first; n; n = next) {
		next = n->next;
		const struct node *twin = is_sequence ? NULL : node_child(into, n->key);
		if (twin) {
			r = twice_report(t, twin, n);
		} else if (!is_sequence && into->count >= TREE_KEYS_MAX) {
			report_add(t->report, true, &n->key_place,
			        "`%s` has more than 1024 entries with its included files; take some out", into->key);
			return NW_ECONFIG;
		} else {
			append(into, n);
		}
	}
	return r;
}

int tree_merge(struct tree *t, struct node *into, struct node *from)
{
	int r = 0;
	struct node *next;
	for (struct node *n = from->first; n; n = next) {
		next = n->next;
		struct node *twin = node_child(into, n->key);
		int done = 0;
		if (!strcmp(n->key, "include") || (twin && n->kind == NODE_NULL))
			continue;
		if (!twin && into->count < TREE_KEYS_MAX)
			append(into, n);
		else if (twin && twin->kind == n->kind && (n->kind == NODE_MAP || is_rule_sequence(n)))
			done = section_merge(t, twin, n);
		else if (twin && twin->kind == NODE_NULL) {
			twin->kind = n->kind;
			twin->text = n->text;
			twin->place = n->place;
			twin->first = n->first;
			twin->last = n->last;
			twin->count = n->count;
		} else if (twin)
			done = twice_report(t, twin, n);
		r = done < 0 ? done : r;
	}
	return r;
}

struct node *node_child(const struct node *map, const char *key)
{
	if (!map || map->kind != NODE_MAP)
		return NULL;
	for (struct node *n = map->first; n; n = n->next)
		if (!strcmp(n->key, key))
			return n;
	return NULL;
}

const struct node *value_first(const struct node *n)
{
	return n && n->kind == NODE_SEQUENCE ? n->first : n;
}

const struct node *value_next(const struct node *n, const struct node *v)
{
	return n == v ? NULL : v->next;
}

unsigned value_count(const struct node *n)
{
	return !n ? 0 : n->kind == NODE_SEQUENCE ? n->count : 1;
}
