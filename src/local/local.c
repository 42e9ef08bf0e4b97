/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The table of local names, built whole. First the scopes, since they decide which empty non-terminals are needed; then the records of the
 * configuration, which go before those of hosts files; then hosts files in their order. On the compiler thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/err.h"
#include "local/local_private.h"

/* The name that "*.x" is under; cfg_record may have it with the asterisk or without. */
static bool wildcard_parent(const struct cfg_record *rec, struct name *ret)
{
	const struct name *n = &rec->owner;

	if (n->labels && n->wire[0] == 1 && n->wire[1] == '*')
		return name_from_wire(ret, n->wire + 2, n->len - 2u) > 0;
	*ret = *n;
	return true;
}

static bool wildcard_name(const struct name *parent, struct name *ret)
{
	uint8_t wire[NAME_WIRE_MAX] = {1, '*'};

	if (parent->len + 2 > NAME_WIRE_MAX)
		return false;
	memcpy(wire + 2, parent->wire, parent->len);
	return name_from_wire(ret, wire, parent->len + 2u) > 0;
}

/* --- scopes --- */

static int add_special(struct build *b)
{
	struct scope *s;
	struct name n;
	int r = 0;

	for (unsigned i = 0; i < special_count && r >= 0; i++) {
		r = name_from_text(&n, special_names[i].name, strlen(special_names[i].name));
		if (r >= 0)
			r = store_scope(b, &n, &s);
		if (r >= 0)
			s->special = &special_names[i];
	}
	return r;
}

static int add_forwarded(struct build *b, const struct config *c)
{
	struct scope *s;
	int r = 0;

	for (unsigned i = 0; i < c->upstream_count; i++)
		for (unsigned j = 0; j < c->upstreams[i].domain_count; j++) {
			/* The root is where everything goes anyway: it takes nothing from what is ours. */
			if (!c->upstreams[i].domains[j].labels)
				continue;
			r = store_scope(b, &c->upstreams[i].domains[j], &s);
			if (r < 0)
				return r;
			s->is_forwarded = true;
		}
	return r;
}

static int add_record_scopes(struct build *b, const struct cfg_local *c)
{
	struct name parent;
	struct scope *s;
	int r = 0;

	for (unsigned i = 0; i < c->record_count && r >= 0; i++) {
		if (c->records[i].scope == OWNER_EXACT)
			continue;
		if (c->records[i].scope == OWNER_SUBTREE) {
			r = store_scope(b, &c->records[i].owner, &s);
			continue;
		}
		if (!wildcard_parent(&c->records[i], &parent))
			continue;
		r = store_scope(b, &parent, &s);
		if (r >= 0)
			s->has_wildcard = true;
	}
	return r;
}

static int add_scopes(struct build *b, const struct config *c)
{
	struct scope *s;
	int r = add_special(b);

	if (r >= 0)
		r = add_forwarded(b, c);
	if (r >= 0 && c->local.has_domain) {
		r = store_scope(b, &c->local.domain, &s);
		if (r >= 0)
			s->is_domain = true;
	}
	return r < 0 ? r : add_record_scopes(b, &c->local);
}

/* --- records of the configuration --- */

static int add_exact(struct build *b, const struct cfg_record *rec, const struct new_record *n)
{
	uint32_t *first, index;
	int r = store_name(b, &rec->owner, &first);

	if (r >= 0)
		r = store_record(b, first, n, &index);
	return r > 0 ? store_reverse(b, index, &rec->owner) : r;
}

/* The owner "*.x" exists as a name, too, and x above it. */
static int add_wildcard(struct build *b, const struct cfg_record *rec, const struct new_record *n)
{
	uint32_t *first, index;
	struct name parent, star;
	struct scope *s;
	int r;

	if (!wildcard_parent(rec, &parent))
		return 0;
	r = store_scope(b, &parent, &s);
	if (r >= 0)
		r = store_name(b, &parent, &first);
	if (r < 0)
		return r;
	if (!wildcard_name(&parent, &star))
		return store_record(b, &s->wildcard, n, &index);
	r = store_name(b, &star, &first);
	if (r < 0)
		return r;
	r = store_record(b, first, n, &index);
	s->wildcard = *first;
	return r;
}

static int add_subtree(struct build *b, const struct cfg_record *rec, const struct new_record *n)
{
	uint32_t *first, index;
	struct scope *s;
	int r = store_scope(b, &rec->owner, &s);

	if (r >= 0)
		r = store_name(b, &rec->owner, &first);
	return r < 0 ? r : store_record(b, &s->subtree, n, &index);
}

static void warn(struct build *b, const struct cfg_record *rec, const char *text)
{
	if (b->report)
		report_add(b->report, false, &rec->place, "%s", text);
}

static int add_record(struct build *b, const struct cfg_record *rec)
{
	int r = store_source(b, rec->place.file ? rec->place.file : "configuration");
	struct new_record n = {.type = rec->type,
	        .rdlen = rec->rdlen,
	        .ttl_s = rec->ttl_s,
	        .rdata = rec->rdata,
	        .line = rec->place.line > 0 ? (uint32_t)rec->place.line : 0};

	if (r < 0)
		return r;
	n.source = (uint16_t)r;
	switch (rec->scope) {
	case OWNER_EXACT:
		r = add_exact(b, rec, &n);
		break;
	case OWNER_WILDCARD:
		r = add_wildcard(b, rec, &n);
		break;
	case OWNER_SUBTREE:
		r = add_subtree(b, rec, &n);
		break;
	}
	if (r == NW_ETOOLONG)
		warn(b, rec, "this name has too many records already; the record is left out");
	else if (r == NW_EREFUSED)
		warn(b, rec, "a CNAME cannot stand beside other records of its name; the record is left out");
	else
		return r;
	return 0;
}

/* --- rebind protection --- */

static int add_allowed(struct local *l, const struct cfg_local *c)
{
	uint32_t *value;
	int r = 0;

	l->is_rebind_protected = c->is_rebind_protected;
	if (c->has_domain)
		r = name_map_put(l->rebind_allow, &c->domain, 0, &value);
	for (unsigned i = 0; i < c->rebind_allow_count && r >= 0; i++)
		r = name_map_put(l->rebind_allow, &c->rebind_allow[i], 0, &value);
	return r;
}

/* --- the whole --- */

static int build(struct build *b, const struct config *c, const struct local_text *texts, unsigned count)
{
	struct local *l = b->l;
	int r = add_allowed(l, &c->local);

	l->has_domain = c->local.has_domain;
	if (l->has_domain)
		l->domain = c->local.domain;
	if (r >= 0)
		r = add_scopes(b, c);
	for (unsigned i = 0; i < c->local.record_count && r >= 0; i++)
		r = add_record(b, &c->local.records[i]);
	for (unsigned i = 0; i < count && r >= 0; i++)
		r = hosts_read(b, &texts[i]);
	return r;
}

int local_new(struct local **ret, const struct config *c, const struct local_text *texts, unsigned count, uint64_t seed,
        struct report *r)
{
	struct build b = {.l = calloc(1, sizeof *b.l), .report = r};
	int result = -ENOMEM;

	if (!b.l)
		return -ENOMEM;
	b.l->seed = seed;
	b.l->names = name_map_new(seed);
	b.l->scopes = name_map_new(seed);
	b.l->rebind_allow = name_map_new(seed);
	if (b.l->names && b.l->scopes && b.l->rebind_allow)
		result = build(&b, c, texts, count);
	free(b.interned);
	if (result < 0) {
		local_free(b.l);
		return result;
	}
	store_finish(&b);
	*ret = b.l;
	return 0;
}

void local_free(struct local *l)
{
	if (!l)
		return;
	name_map_free(l->names);
	name_map_free(l->scopes);
	name_map_free(l->rebind_allow);
	for (unsigned i = 0; i < l->source_count; i++)
		free(l->sources[i]);
	free(l->sources);
	for (unsigned i = 0; i < 2; i++)
		free(l->reverse[i].v);
	free(l->scope);
	free(l->records);
	free(l->pool);
	free(l);
}

void local_stat(const struct local *l, struct local_stat *ret)
{
	*ret = l->stat;
	ret->memory_bytes = sizeof *l + name_map_bytes(l->names) + name_map_bytes(l->scopes) + name_map_bytes(l->rebind_allow) +
	                    l->scope_cap * sizeof *l->scope + l->record_cap * sizeof *l->records + l->pool_cap +
	                    (l->reverse[0].cap + l->reverse[1].cap) * sizeof *l->reverse[0].v;
}
