/* SPDX-License-Identifier: GPL-3.0-or-later */
/* steer.id: names a rule's sets in the kernel, so it must survive reloads, other rules coming and going, and moving within the
 * file. A rule with a name is its name. One without is what it matches (not its way: a rule that changes its way keeps its
 * addresses), and which of its equals it is. 64 bits of XXH3 folded to 32; 0 and values taken by earlier rules are hashed
 * again. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "config/load.h"

enum { CANONICAL_MAX = 1 << 18 };

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* "LABEL=a,b;" with the names sorted, so that the order in which a rule gives them does not count. */
static void names_print(
        struct buf *b, const struct config *c, const char *label, const struct names *names, const struct ids *ids)
{
	const char *sorted[CONFIG_LISTS_MAX > CONFIG_GROUPS_MAX ? CONFIG_LISTS_MAX : CONFIG_GROUPS_MAX];
	for (unsigned i = 0; i < ids->count; i++)
		sorted[i] = names->at(c, ids->v[i]);
	if (ids->count)
		qsort(sorted, ids->count, sizeof *sorted, by_name);
	buf_printf(b, "%s=", label);
	for (unsigned i = 0; i < ids->count; i++)
		buf_printf(b, "%s,", sorted[i]);
	buf_printf(b, ";");
}

static int contents_hash(const struct config *c, const struct cfg_steer *s, uint64_t *ret)
{
	struct buf b;
	buf_init(&b, CANONICAL_MAX);
	names_print(&b, c, "clients", &names_groups, &s->clients);
	names_print(&b, c, "except-clients", &names_groups, &s->except_clients);
	names_print(&b, c, "names", &names_lists, &s->names);
	names_print(&b, c, "except-names", &names_lists, &s->except_names);
	if (s->has_gid)
		buf_printf(&b, "gid=%u;", s->gid);
	int r = b.failed;
	if (!r)
		*ret = hash_bytes(b.bytes, b.len, 0);
	buf_free(&b);
	return r;
}

static bool id_is_taken(const struct config *c, unsigned before, uint32_t id)
{
	for (unsigned i = 0; i < before; i++)
		if (c->steers[i].id == id)
			return true;
	return false;
}

int steers_identify(struct load *l, const bool *is_named)
{
	struct config *c = l->c;
	uint64_t contents[CONFIG_RULES_MAX];
	for (unsigned i = 0; i < c->steer_count; i++) {
		struct cfg_steer *s = &c->steers[i];
		struct {
			uint64_t contents, number;
		} key = {0, 0};
		if (is_named[i]) {
			key.contents = hash_bytes(s->name, strlen(s->name), 0);
			key.number = UINT64_MAX;
		} else {
			int r = contents_hash(c, s, &contents[i]);
			if (r < 0)
				return r;
			key.contents = contents[i];
			for (unsigned j = 0; j < i; j++)
				key.number += !is_named[j] && contents[j] == contents[i];
		}
		uint64_t hash = hash_bytes(&key, sizeof key, 0);
		while (!(s->id = (uint32_t)(hash ^ hash >> 32)) || id_is_taken(c, i, s->id))
			hash = hash_bytes(&hash, sizeof hash, 0);
	}
	return 0;
}
