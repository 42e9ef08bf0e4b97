/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a name is here. The name itself first: one probe. Then what is said of it from above, the longest first:
 *
 *   a wildcard        when it is directly under the closest name that exists (RFC 4592): so the one name between needs a look, no more
 *   a subtree         whatever else exists in it
 *   an upstream       the name is forwarded; whatever special use it has is then upstream's to know
 *   the local domain  what does not exist is denied
 *   special use       the last resort, since everything that was configured goes before it
 *
 * Aliases are followed from name to name in the same way. On the workers: no allocation, nothing is written but the answer. */
#include <string.h>
#include "local/local_private.h"

/* What was found for one name. */
struct found {
	enum local_kind kind;            /* LOCAL_ANSWER: of the records, those of the type asked */
	uint32_t first;                  /* of the table, or NO_RECORD: */
	const struct wire_record *fixed; /* then these */
	unsigned fixed_count;
	struct wire_record pointer; /* room for one of them */
	int ede;
	const char *text, *source;
	unsigned line;
	uint32_t negative_ttl_s;
};

static void found_records(const struct local *l, uint32_t first, struct found *ret)
{
	const struct record *rec = &l->records[first];

	ret->kind = LOCAL_ANSWER;
	ret->first = first;
	ret->source = l->sources[rec->source];
	ret->line = rec->line;
	ret->text = "a local name without a record of this type";
}

static void found_pointer(const struct local *l, const struct reverse_entry *e, struct found *ret)
{
	const struct record *rec = &l->records[e->record];
	const struct pooled *p = pooled_at(l, e->rdata);

	ret->kind = LOCAL_ANSWER;
	ret->pointer = (struct wire_record){.type = RR_PTR, .rdlen = p->len, .ttl_s = p->ttl_s, .rdata = p->bytes};
	ret->fixed = &ret->pointer;
	ret->fixed_count = 1;
	ret->source = l->sources[rec->source];
	ret->line = rec->line;
	ret->text = "the name of a local address";
}

/* --- special use --- */

static void found_private(const struct local *l, const struct reverse_name *rev, bool exists, struct found *ret)
{
	bool is_apex;
	const struct wire_record *known = rev->is_whole ? special_ptr(&rev->prefix.addr, rev->prefix.len) : NULL;

	if (known && rev->is_address) {
		ret->kind = LOCAL_ANSWER;
		ret->fixed = known;
		ret->fixed_count = 1;
	} else if (reverse_is_private(rev, &is_apex)) {
		ret->kind = exists || is_apex || known ? LOCAL_NODATA : LOCAL_NXDOMAIN;
		ret->negative_ttl_s = LOCAL_NEGATIVE_TTL_S;
	}
}

static void found_special(const struct local *l, const struct special *s, bool is_apex, bool exists,
        const struct reverse_name *rev, struct found *ret)
{
	ret->source = "special-use";
	ret->text = s->text;
	ret->negative_ttl_s = LOCAL_SPECIAL_TTL_S;
	switch (s->kind) {
	case SPECIAL_REVERSE:
		found_private(l, rev, exists, ret);
		return;
	case SPECIAL_NOTHING:
		ret->kind = exists ? LOCAL_NODATA : LOCAL_NXDOMAIN;
		return;
	case SPECIAL_EMPTY:
		ret->kind = LOCAL_NODATA;
		return;
	case SPECIAL_IPV4ONLY:
	case SPECIAL_ZONE:
		ret->kind = exists || is_apex ? LOCAL_NODATA : LOCAL_NXDOMAIN;
		if (s->kind == SPECIAL_ZONE || !is_apex)
			return;
		break;
	case SPECIAL_LOOPBACK:
		break;
	}
	ret->kind = LOCAL_ANSWER;
	ret->fixed_count = special_records(s->kind, &ret->fixed);
}

/* --- one name --- */

/* Whether the part of n from label i on exists. rev: n read as an address, or NULL; its labels are counted from the right. */
static bool suffix_exists(
        const struct local *l, const struct name *n, const uint64_t *hashes, unsigned i, const struct reverse_name *rev)
{
	uint32_t v;
	struct prefix p;
	unsigned unit, labels = n->labels - i;

	if (name_map_find(l->names, n, hashes, i, &v))
		return true;
	if (!rev || labels <= 2)
		return false;
	p = rev->prefix;
	unit = p.addr.family == AF_INET ? 8 : 4;
	if (p.len < (labels - 2) * unit)
		return false;
	p.len = (uint8_t)((labels - 2) * unit);
	for (unsigned bit = p.len; bit < rev->prefix.len; bit++)
		p.addr.b[bit / 8] &= (uint8_t) ~(0x80 >> bit % 8);
	return reverse_find(l, &p) != NULL;
}

/* From above; ret stays LOCAL_NONE when nothing is said there. */
static void look_above(const struct local *l, const struct name *n, const uint64_t *hashes, bool exists,
        const struct reverse_name *rev, struct found *ret)
{
	const struct special *special = NULL;
	bool is_special_apex = false, is_wildcard_over = exists;
	uint32_t v;

	for (int i = name_map_find_longest(l->scopes, n, hashes, 0, &v); i >= 0;
	        i = name_map_find_longest(l->scopes, n, hashes, (unsigned)i + 1, &v)) {
		const struct scope *s = &l->scope[v];

		if (i > 0 && s->wildcard != NO_RECORD && !is_wildcard_over) {
			/* Names that exist bring those above them, so the one below the wildcard's parent tells of all between. */
			if (!suffix_exists(l, n, hashes, (unsigned)i - 1, rev)) {
				found_records(l, s->wildcard, ret);
				return;
			}
			is_wildcard_over = true;
		}
		if (s->subtree != NO_RECORD) {
			found_records(l, s->subtree, ret);
			return;
		}
		if (s->is_forwarded)
			return;
		if (s->is_domain) {
			ret->kind = i == 0 || exists ? LOCAL_NODATA : LOCAL_NXDOMAIN;
			ret->text = "local domain";
			ret->source = "configuration";
			return;
		}
		if (s->special && !special) {
			special = s->special;
			is_special_apex = i == 0;
		}
	}
	if (special)
		found_special(l, special, is_special_apex, exists, rev, ret);
}

static void look(const struct local *l, const struct name *n, const uint64_t *hashes, struct found *ret)
{
	struct reverse_name rev;
	const struct reverse_entry *e;
	uint32_t first = NO_RECORD;
	bool exists, is_reverse;

	ret->kind = LOCAL_NONE;
	ret->first = NO_RECORD;
	ret->fixed_count = 0;
	ret->ede = EDE_SYNTHESIZED;
	ret->line = 0;
	ret->negative_ttl_s = LOCAL_NEGATIVE_TTL_S;
	exists = name_map_find(l->names, n, hashes, 0, &first);
	if (first != NO_RECORD) {
		found_records(l, first, ret);
		return;
	}
	is_reverse = reverse_parse(&rev, n);
	if (is_reverse && rev.is_whole) {
		e = reverse_find(l, &rev.prefix);
		if (e && rev.is_address) {
			found_pointer(l, e, ret);
			return;
		}
		exists |= e != NULL;
	}
	look_above(l, n, hashes, exists, is_reverse ? &rev : NULL, ret);
}

/* --- the answer --- */

static void put(struct local_answer *a, const uint8_t *owner, const struct wire_record *rec)
{
	if (a->record_count == LOCAL_RECORDS_MAX)
		return;
	a->records[a->record_count] = *rec;
	a->records[a->record_count++].owner = owner;
}

static struct wire_record record_out(const struct local *l, const struct record *rec)
{
	const struct pooled *p = pooled_at(l, rec->rdata);

	return (struct wire_record){.type = rec->type, .rdlen = p->len, .ttl_s = p->ttl_s, .rdata = p->bytes};
}

/* Puts what was asked for; *ret_alias is the CNAME that is there instead, type 0 when there is none. True: something was put. */
static bool put_found(const struct local *l, const struct found *f, const uint8_t *owner, uint16_t qtype, struct local_answer *a,
        struct wire_record *ret_alias)
{
	unsigned before = a->record_count;

	ret_alias->type = 0;
	for (unsigned i = 0; i < f->fixed_count; i++)
		if (qtype == f->fixed[i].type || qtype == RR_ANY)
			put(a, owner, &f->fixed[i]);
	for (uint32_t i = f->first; i != NO_RECORD; i = l->records[i].next) {
		struct wire_record rec = record_out(l, &l->records[i]);

		if (qtype == rec.type || qtype == RR_ANY)
			put(a, owner, &rec);
		else if (rec.type == RR_CNAME)
			*ret_alias = rec;
	}
	return a->record_count > before;
}

/* Whether the chain has been at this name. */
static bool was_there(const struct local_answer *a, const struct name *qname, const struct wire_record *alias)
{
	if (alias->rdlen == qname->len && !memcmp(alias->rdata, qname->wire, qname->len))
		return true;
	for (unsigned i = 0; i < a->record_count; i++)
		if (a->records[i].rdlen == alias->rdlen && !memcmp(a->records[i].rdata, alias->rdata, alias->rdlen))
			return true;
	return false;
}

/* False: the chain ends here, with what there is. */
static bool follow(
        struct local_answer *ret, const struct name *qname, const struct wire_record *alias, const uint8_t *owner, unsigned step)
{
	bool is_circle = was_there(ret, qname, alias);

	if (!is_circle && step < LOCAL_CHAIN_MAX && name_from_wire(&ret->target, alias->rdata, alias->rdlen) == alias->rdlen) {
		put(ret, owner, alias);
		return true;
	}
	ret->kind = LOCAL_ANSWER;
	ret->ede = EDE_OTHER;
	ret->text = is_circle ? "the local aliases lead in a circle" : "too many local aliases one behind another";
	return false;
}

void local_prefetch(const struct local *l, const struct name *qname, const uint64_t *hashes)
{
	name_map_prefetch(l->names, qname, hashes, 0);
}

void local_find(const struct local *l, const struct name *qname, const uint64_t *hashes, uint16_t qtype, struct local_answer *ret)
{
	uint64_t target_hashes[NAME_LABELS_MAX + 1];
	const uint8_t *owner = NULL;
	struct wire_record alias;
	struct found f;

	ret->kind = LOCAL_NONE;
	look(l, qname, hashes, &f);
	if (f.kind == LOCAL_NONE)
		return;
	ret->has_authority = true;
	ret->record_count = 0;
	ret->source = f.source;
	ret->line = f.line;
	for (unsigned step = 0; f.kind == LOCAL_ANSWER; step++) {
		if (put_found(l, &f, owner, qtype, ret, &alias)) {
			ret->kind = LOCAL_ANSWER;
			ret->ede = EDE_NONE;
			ret->text = NULL;
			return;
		}
		if (!alias.type) {
			f.kind = LOCAL_NODATA;
			break;
		}
		if (!follow(ret, qname, &alias, owner, step))
			return;
		owner = alias.rdata;
		name_hash(&ret->target, l->seed, target_hashes);
		look(l, &ret->target, target_hashes, &f);
	}
	ret->kind = f.kind == LOCAL_NONE ? LOCAL_ALIAS : f.kind;
	ret->ede = f.kind == LOCAL_NONE ? EDE_NONE : f.ede;
	ret->text = f.kind == LOCAL_NONE ? NULL : f.text;
	ret->negative_ttl_s = f.negative_ttl_s;
}
