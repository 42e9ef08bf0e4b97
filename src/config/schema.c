/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The walk over tree and table together, and the reference. A path of the table ("ways.*.check.ping") is built while descending;
 * the path shown to the user bears the real names ("ways.tunnel1.check.ping"). */
#include <string.h>
#include "config/nearest.h"
#include "config/schema.h"

enum { PATH_LEN_MAX = 256, NAME_LEN_MAX = 63 };

struct walk {
	struct report *r;
};

static void map_check(struct walk *w, struct node *map, const char *path, const char *shown);

static const struct schema_key *key_find(const char *path)
{
	for (unsigned i = 0; i < schema_key_count; i++)
		if (!strcmp(schema_keys[i].path, path))
			return &schema_keys[i];
	return NULL;
}

static void path_join(char ret[PATH_LEN_MAX], const char *path, const char *key)
{
	snprintf(ret, PATH_LEN_MAX, "%.150s%s%.64s", path, *path ? "." : "", key);
}

/* The last part of a table path when it stands directly under `path`, else NULL. */
static const char *key_under(const struct schema_key *k, const char *path)
{
	size_t len = strlen(path);
	if (strncmp(k->path, path, len) || (len && k->path[len] != '.'))
		return NULL;
	const char *last = k->path + len + (len != 0);
	return strchr(last, '.') ? NULL : last;
}

static void unknown_report(struct walk *w, const struct node *n, const char *path, const char *shown)
{
	struct nearest near;
	nearest_init(&near, n->key);
	for (unsigned i = 0; i < schema_key_count; i++) {
		const char *last = key_under(&schema_keys[i], path);
		if (last && schema_keys[i].is_carried)
			nearest_try(&near, last);
	}
	const char *ask = nearest_is_close(&near) ? "did you mean" : "the nearest known key is";
	report_add(w->r, true, &n->key_place, "unknown key `%.64s`%s%.150s%s; %s `%s`%s", n->key, *shown ? " in `" : "", shown,
	        *shown ? "`" : "", ask, near.best ? near.best : "", nearest_is_close(&near) ? "?" : "");
}

static bool shape_fits(const struct schema_key *k, const struct node *n)
{
	switch (k->shape) {
	case SHAPE_VALUE:
		return n->kind == NODE_SCALAR;
	case SHAPE_VALUES:
	case SHAPE_VALUES_OR_NONE:
		if (n->kind != NODE_SEQUENCE)
			return n->kind == NODE_SCALAR;
		for (const struct node *v = n->first; v; v = v->next)
			if (v->kind != NODE_SCALAR)
				return false;
		return true;
	case SHAPE_MAP:
	case SHAPE_NAMED:
		return n->kind == NODE_MAP || n->kind == NODE_NULL;
	case SHAPE_RULES:
		return n->kind == NODE_SEQUENCE || n->kind == NODE_NULL;
	}
	return false;
}

static void shape_report(struct walk *w, const struct schema_key *k, const struct node *n, const char *shown)
{
	static const char *const found[] = {"nothing", "a single value", "a list", "a map"};
	report_add(w->r, true, &n->place, "`%s` is %s%s; give %s%s", shown, found[n->kind],
	        n->kind == NODE_SEQUENCE && k->shape != SHAPE_VALUE ? " with something else than values in it" : "",
	        k->shape == SHAPE_MAP     ? "a map of its keys"
	        : k->shape == SHAPE_NAMED ? "a map of names"
	        : k->shape == SHAPE_RULES ? "a sequence of rules, each a map"
	                                  : k->type,
	        n->kind == NODE_NULL ? ", or leave the key out" : "");
}

static bool name_is_good(const char *name)
{
	size_t len = strlen(name);
	if (!len || len > NAME_LEN_MAX || *name == '.' || *name == '-')
		return false;
	for (const char *c = name; *c; c++)
		if ((unsigned char)*c <= ' ' || *c == 0x7f || strchr("/\\\"'`@,*?[]{}", *c))
			return false;
	struct prefix p;
	return prefix_parse(&p, name) < 0;
}

/* The entries of a map of names, each a map with the keys PATH.*.KEY. */
static void named_check(struct walk *w, struct node *named, const char *path, const char *shown)
{
	char below[PATH_LEN_MAX], below_shown[PATH_LEN_MAX];
	path_join(below, path, "*");
	struct node **link = &named->first;
	for (struct node *n; (n = *link);) {
		path_join(below_shown, shown, n->key);
		bool is_good = false;
		if (!name_is_good(n->key))
			report_add(w->r, true, &n->key_place,
			        "`%.64s` cannot be a name here; use 1 to 63 letters, digits, `-`, `_` and `.`, and no address",
			        n->key);
		else if (n->kind != NODE_MAP && n->kind != NODE_NULL)
			report_add(w->r, true, &n->place, "`%s` must be a map of its keys; write `%.64s: { ... }`", below_shown,
			        n->key);
		else
			is_good = true;
		if (!is_good) {
			*link = n->next;
			named->count--;
			named->is_incomplete = true;
			continue;
		}
		map_check(w, n, below, below_shown);
		link = &n->next;
	}
}

static void rules_check(struct walk *w, struct node *rules, const char *path)
{
	char below[PATH_LEN_MAX];
	snprintf(below, sizeof below, "%.150s[]", path);
	struct node **link = &rules->first;
	for (struct node *n; (n = *link);) {
		if (n->kind != NODE_MAP || !n->count) {
			report_add(w->r, true, &n->place, "a rule of `%s` must be a map of its keys; write `- { ... }`", path);
			*link = n->next;
			rules->count--;
			rules->is_incomplete = true;
			continue;
		}
		map_check(w, n, below, path);
		link = &n->next;
	}
}

/* One known key that this version carries. Returns whether it may stay. */
static bool entry_check(struct walk *w, const struct schema_key *k, struct node *n, const char *shown)
{
	if (!shape_fits(k, n)) {
		shape_report(w, k, n, shown);
		return false;
	}
	if (k->shape == SHAPE_VALUES && n->kind == NODE_SEQUENCE && !n->count) {
		report_add(w->r, true, &n->place, "`%s` is empty, so it can never hold; leave the key out, or give %s", shown,
		        k->type);
		return false;
	}
	if (k->max && n->count > k->max) {
		report_add(w->r, true, &n->place, "`%s` has %u entries, more than %u; take some out", shown, n->count, k->max);
		return false;
	}
	if (n->kind == NODE_NULL)
		n->kind = k->shape == SHAPE_RULES ? NODE_SEQUENCE : NODE_MAP;
	if (k->shape == SHAPE_MAP)
		map_check(w, n, k->path, shown);
	else if (k->shape == SHAPE_NAMED)
		named_check(w, n, k->path, shown);
	else if (k->shape == SHAPE_RULES)
		rules_check(w, n, k->path);
	return true;
}

static void map_check(struct walk *w, struct node *map, const char *path, const char *shown)
{
	char key_path[PATH_LEN_MAX], key_shown[PATH_LEN_MAX];
	map->kind = NODE_MAP;
	struct node **link = &map->first;
	for (struct node *n; (n = *link);) {
		path_join(key_path, path, n->key);
		path_join(key_shown, shown, n->key);
		/* A key with a dot or bracket in it would read as a path of the table. */
		const struct schema_key *k = strpbrk(n->key, ".*[") ? NULL : key_find(key_path);
		bool stays = false;
		if (!k)
			unknown_report(w, n, path, shown);
		else if (!k->is_carried)
			report_add(w->r, true, &n->key_place, "`%s` is not in this version; take it out", key_shown);
		else
			stays = entry_check(w, k, n, key_shown);
		if (stays) {
			map->is_incomplete |= n->is_incomplete && k->shape == SHAPE_MAP;
			link = &n->next;
		} else {
			*link = n->next;
			map->count--;
			map->is_incomplete = true;
		}
	}
}

void schema_check(struct node *root, struct report *r)
{
	struct walk w = {r};
	map_check(&w, root, "", "");
}

/* "ways.*.check.ping" is shown as "ways.NAME.check.ping". */
static void key_print(FILE *out, const char *path)
{
	for (const char *c = path; *c; c++) {
		if (*c == '*')
			fputs("NAME", out);
		else
			fputc(*c, out);
	}
}

void schema_print_reference(FILE *out)
{
	fputs("# nameway.yaml: every key\n\n"
	      "Durations are written `500ms`, `90s`, `5m`, `12h`, `7d`; sizes `64KiB`, `64MiB`, `1GiB`; shares `50%`; numbers "
	      "decimal or `0x` with hex digits.\n"
	      "Where a list is asked for, a single value is accepted. `NAME` is a name you invent: 1 to 63 letters, digits, `-`, "
	      "`_`, `.`.\n"
	      "`filter[]` is each rule of the sequence `filter`.\n",
	        out);
	for (unsigned i = 0; i < schema_key_count; i++) {
		const struct schema_key *k = &schema_keys[i];
		if (!k->is_carried)
			continue;
		bool is_top = !strpbrk(k->path, ".[");
		fputs(is_top ? "\n## `" : "\n### `", out);
		key_print(out, k->path);
		fprintf(out, "`\n%s\n\n- type: %s\n", k->doc, k->type);
		if (k->by_default)
			fprintf(out, "- default: %s\n", k->by_default);
		if (k->max)
			fprintf(out, "- limit: %u %s\n", k->max,
			        k->shape == SHAPE_RULES   ? "rules"
			        : k->shape == SHAPE_NAMED ? "names"
			                                  : "values");
	}
	fputs("\n## Known, not in this version\nThese keys are refused by name:\n\n", out);
	for (unsigned i = 0; i < schema_key_count; i++) {
		if (schema_keys[i].is_carried)
			continue;
		fputs("- `", out);
		key_print(out, schema_keys[i].path);
		fputs("`\n", out);
	}
}
