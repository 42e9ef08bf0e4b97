/* SPDX-License-Identifier: GPL-3.0-or-later */
/* local.records: "OWNER [TTL] [IN] TYPE DATA" into wire form. The owner is read here, because it may be Unicode and has forms of
 * its own ("*.x", ".x"); all behind it is a line of a zone file for libzscanner, whose origin is the root. One scanner reads all
 * records; it is a quarter of a megabyte and is made anew only after a fault. What it accepts is looked through once more: the
 * generic form (RFC 3597) may say anything. Then the records are sorted by owner, to find what does not go together. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <libzscanner/error.h>
#include <libzscanner/scanner.h>
#include "base/err.h"
#include "config/load.h"
#include "wire/msg.h"
#include "wire/rr.h"

enum { RECORD_TEXT_MAX = 66000, RECORD_TTL_S = 60, CLASS_IN = RR_CLASS_IN };

struct records {
	struct load *l;
	zs_scanner_t *scanner;
};

static int scanner_make(struct records *rs)
{
	rs->scanner = malloc(sizeof *rs->scanner);
	if (rs->scanner && zs_init(rs->scanner, ".", CLASS_IN, RECORD_TTL_S) == 0)
		return 0;
	free(rs->scanner);
	rs->scanner = NULL;
	return -ENOMEM;
}

static void scanner_drop(struct records *rs)
{
	if (rs->scanner)
		zs_deinit(rs->scanner);
	free(rs->scanner);
	rs->scanner = NULL;
}

static int refuse(struct records *rs, const struct node *v, const char *what, const char *mend)
{
	report_add(rs->l->r, true, &v->place, "`records`: `%.80s`: %s; %s", v->text, what, mend);
	return NW_ECONFIG;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Takes the owner off the text; *ret_rest is what stands behind it. */
static int owner_take(struct records *rs, const struct node *v, struct cfg_record *ret, const char **ret_rest)
{
	const char *at = v->text + strspn(v->text, " \t");
	size_t len = 0;
	while (at[len] && !is_blank(at[len]))
		len += at[len] == '\\' && at[len + 1] ? 2 : 1;
	ret->scope = OWNER_EXACT;
	*ret_rest = at + len;
	if (len > 2 && at[0] == '*' && at[1] == '.') {
		ret->scope = OWNER_WILDCARD;
		at += 2;
		len -= 2;
	} else if (len > 1 && at[0] == '.') {
		ret->scope = OWNER_SUBTREE;
		at++;
		len--;
	}
	bool is_name = name_from_user_text(&ret->owner, at, len) == 0 && ret->owner.labels && (len != 1 || *at != '@');
	/* A star further in would be neither a form of ours nor a name that anybody asks for. */
	if (!is_name || (ret->owner.wire[0] == 1 && ret->owner.wire[1] == '*'))
		return refuse(rs, v, "it does not begin with a domain name",
		        "write the owner in full, as printer.lan, *.lan or .lan, then type and data");
	return 0;
}

static const char *mend_for(const char *rest)
{
	for (const char *c = rest; *c; c++)
		if ((unsigned char)*c >= 0x80)
			return "write a Unicode name as its A-label, xn--..., and other bytes as \\DDD";
	return "write it as in a zone file: OWNER TTL TYPE DATA, as `printer.lan A 192.0.2.9` or `x.lan 300 TXT \"a b\"`";
}

static const char *why_not(const zs_scanner_t *s)
{
	/* What begins a line and is no type that it knows is a TTL to the scanner. */
	return s->error.code == ZS_BAD_NUMBER ? "invalid number, or a type that is not known"
	       : s->error.code                ? zs_strerror(s->error.code)
	                                      : "it is not one record";
}

/* Lets the scanner read ". REST". It is left ready for the next. */
static int rest_scan(struct records *rs, const struct node *v, const char *rest)
{
	if (!rest[strspn(rest, " \t")])
		return refuse(rs, v, "there is nothing behind the owner", mend_for(rest));
	char *line = arena_printf(rs->l->c->arena, ".%s", rest);
	if (!line || (!rs->scanner && scanner_make(rs) < 0))
		return -ENOMEM;
	zs_scanner_t *s = rs->scanner;
	bool is_read = zs_set_input_string(s, line, strlen(line)) == 0 && zs_parse_record(s) == 0 && s->state == ZS_STATE_DATA;
	/* Up to the end, which leaves the record as it is. */
	if (is_read && zs_parse_record(s) == 0 && s->state == ZS_STATE_EOF)
		return 0;
	refuse(rs, v, why_not(s), mend_for(rest));
	scanner_drop(rs);
	return NW_ECONFIG;
}

static bool type_is_data(uint16_t type)
{
	return type && type != RR_OPT && (type < RR_TKEY || type > RR_ANY);
}

/* Generic data of a type whose form is known must have it, and names in it must not be compressed. */
static bool rdata_is_good(const zs_scanner_t *s)
{
	struct rr rr = {.type = s->r_type, .rclass = RR_CLASS_IN, .rdlen = (uint16_t)s->r_data_length};
	uint16_t at[RR_NAMES_MAX], behind;
	struct name name;
	int names = rr_rdata_names(at, &behind, s->r_data, &rr);
	for (int i = 0; i < names; i++)
		if (name_from_wire(&name, s->r_data + at[i], s->r_data_length - at[i]) < 0)
			return false;
	return names >= 0;
}

static int record_fill(struct records *rs, const struct node *v, struct cfg_record *ret)
{
	const zs_scanner_t *s = rs->scanner;
	if (s->r_class != CLASS_IN)
		return refuse(rs, v, "only the class IN is answered", "leave the class out");
	if (!type_is_data(s->r_type))
		return refuse(rs, v, "that type is for questions only", "give the type of a record, as A or TXT");
	if (s->r_ttl > INT32_MAX)
		return refuse(rs, v, "the TTL is too large", "give 0 to 2147483647 seconds");
	if (!rdata_is_good(s))
		return refuse(rs, v, "the data is not what its type has", "write it in the type's own form, without \\#");
	ret->type = s->r_type;
	ret->ttl_s = s->r_ttl;
	ret->rdlen = (uint16_t)s->r_data_length;
	uint8_t *rdata = arena_alloc(rs->l->c->arena, s->r_data_length + 1);
	if (!rdata)
		return -ENOMEM;
	memcpy(rdata, s->r_data, s->r_data_length);
	ret->rdata = rdata;
	return 0;
}

static int record_load(struct records *rs, const struct node *v, struct cfg_record *ret)
{
	const char *rest;
	size_t len = strlen(v->text);
	*ret = (struct cfg_record){.place = v->place};
	for (const char *c = v->text; *c; c++)
		if (((unsigned char)*c < ' ' && *c != '\t') || *c == 0x7f)
			return refuse(rs, v, "it has a control character in it", "take it out, or write it as \\DDD");
	if (len > RECORD_TEXT_MAX)
		return refuse(rs, v, "it is longer than 66000 bytes", "shorten it");
	int r = owner_take(rs, v, ret, &rest);
	if (r >= 0)
		r = rest_scan(rs, v, rest);
	return r < 0 ? r : record_fill(rs, v, ret);
}

static int by_owner(const void *a, const void *b)
{
	const struct cfg_record *x = *(const struct cfg_record *const *)a, *y = *(const struct cfg_record *const *)b;
	int order = (x->scope > y->scope) - (x->scope < y->scope);
	if (!order)
		order = x->owner.len - y->owner.len;
	if (!order)
		order = memcmp(x->owner.wire, y->owner.wire, x->owner.len);
	if (!order)
		order = x->type - y->type;
	if (!order)
		order = x->rdlen - y->rdlen;
	if (!order)
		order = memcmp(x->rdata, y->rdata, x->rdlen);
	/* Then in the order of the file. */
	return order ? order : x < y ? -1 : x > y;
}

static bool is_same_owner(const struct cfg_record *a, const struct cfg_record *b)
{
	return a->scope == b->scope && name_equal(&a->owner, &b->owner);
}

/* A CNAME stands alone at its owner (RFC 1034 3.6.2). */
static void alias_check(struct load *l, struct cfg_record *const *v, unsigned count)
{
	static const char *const marks[] = {[OWNER_EXACT] = "", [OWNER_WILDCARD] = "*.", [OWNER_SUBTREE] = "."};
	char text[NAME_TEXT_MAX];
	unsigned alias = 0, other;
	while (alias < count && v[alias]->type != RR_CNAME)
		alias++;
	if (alias == count || count == 1)
		return;
	other = alias ? 0 : 1;
	const struct cfg_record *first = v[alias] < v[other] ? v[alias] : v[other],
	                        *second = v[alias] < v[other] ? v[other] : v[alias];
	report_add(l->r, true, &second->place,
	        v[other]->type == RR_CNAME ? "`records`: `%s%.255s` has a CNAME already, given at %s:%d:%d; keep one of them"
	                                   : "`records`: `%s%.255s` has other data already, given at %s:%d:%d, and a CNAME stands "
	                                     "alone; take one of them out",
	        marks[first->scope], name_to_text(text, first->owner.wire), first->place.file, first->place.line,
	        first->place.column);
}

/* What stands there twice is said, and gets the type 0. */
static void twins_mark(struct load *l, struct cfg_record *const *v, unsigned count)
{
	const struct cfg_record *kept = v[0];
	for (unsigned i = 1; i < count; i++) {
		bool is_twin = v[i]->type != RR_CNAME && v[i]->type == kept->type && v[i]->rdlen == kept->rdlen &&
		               !memcmp(v[i]->rdata, kept->rdata, kept->rdlen);
		if (!is_twin) {
			kept = v[i];
			continue;
		}
		report_add(l->r, false, &v[i]->place, "`records`: this record is already given at %s:%d:%d; take one of them out",
		        kept->place.file, kept->place.line, kept->place.column);
		v[i]->type = 0;
	}
}

static int owners_check(struct load *l)
{
	struct cfg_local *local = &l->c->local;
	unsigned count = local->record_count;
	struct cfg_record **v = malloc((count + 1) * sizeof(*v));
	if (!v)
		return -ENOMEM;
	for (unsigned i = 0; i < count; i++)
		v[i] = &local->records[i];
	qsort(v, count, sizeof(*v), by_owner);
	for (unsigned i = 0, n; i < count; i += n) {
		for (n = 1; i + n < count && is_same_owner(v[i], v[i + n]); n++)
			;
		alias_check(l, v + i, n);
		twins_mark(l, v + i, n);
	}
	free(v);
	local->record_count = 0;
	for (unsigned i = 0; i < count; i++)
		if (local->records[i].type)
			local->records[local->record_count++] = local->records[i];
	return 0;
}

int records_load(struct load *l, const struct node *records)
{
	struct cfg_local *local = &l->c->local;
	struct records rs = {.l = l};
	int r = 0;
	if (!records)
		return 0;
	local->records = arena_alloc(l->c->arena, (value_count(records) + 1) * sizeof *local->records);
	if (!local->records)
		return -ENOMEM;
	for (const struct node *v = value_first(records); v && r != -ENOMEM; v = value_next(records, v)) {
		r = record_load(&rs, v, &local->records[local->record_count]);
		local->record_count += r == 0;
	}
	scanner_drop(&rs);
	return r == -ENOMEM ? r : owners_check(l);
}
