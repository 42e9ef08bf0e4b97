/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Inside the table of local names. store.c: records, names and scopes go in; hosts.c: hosts files; local.c: all of it is built; reverse.c: names of
 * addresses; special.c: special-use names; find.c: what a name is; rebind.c: addresses that must not come from outside.
 *
 * names    every name that exists: with its first record, or with none when it only has names below it (an empty non-terminal). These are kept
 *          where somebody needs them: below a scope that answers for what does not exist, or that has a wildcard
 * scopes   names that say something about all names below them. Few, so their table stays in the processor's cache
 * reverse  addresses of hosts and A/AAAA records, sorted, with the name each leads to
 * pool     RDATA, each kind of bytes once: 200,000 times 0.0.0.0 is one entry
 *
 * One memory of kind snapshot: written by local_new, then read-only. */
#pragma once
#include "local/local.h"
#include "policy/name_map.h"

#define NO_RECORD UINT32_MAX

struct record {
	uint32_t next;  /* of the same owner, in the order they were given; NO_RECORD */
	uint32_t rdata; /* place in the pool */
	uint32_t line;
	uint16_t type, source;
};

struct pooled {
	uint32_t ttl_s;
	uint16_t len;
	bool has_reverse; /* an address whose name is known; only while the table is built */
	uint8_t bytes[];
};

enum special_kind {
	SPECIAL_LOOPBACK, /* every name is this machine */
	SPECIAL_NOTHING,  /* no such names, itself included */
	SPECIAL_ZONE,     /* it exists, nothing below does */
	SPECIAL_EMPTY,    /* all names exist and have nothing */
	SPECIAL_IPV4ONLY, /* RFC 8880 */
	SPECIAL_REVERSE   /* names of addresses: the private ranges below it */
};
struct special {
	const char *name;
	enum special_kind kind;
	const char *text;
};

struct scope {
	uint32_t wildcard, subtree;    /* first record, or NO_RECORD */
	const struct special *special; /* or NULL */
	bool has_wildcard, is_domain, is_forwarded;
};

struct reverse_entry {
	uint8_t b[16]; /* the address */
	uint32_t rdata, record;
};
struct reverse_table {
	struct reverse_entry *v;
	uint32_t count, cap;
};

struct local {
	uint64_t seed;
	struct name_map *names, *scopes, *rebind_allow;
	struct scope *scope;
	struct record *records;
	uint8_t *pool;
	struct reverse_table reverse[2]; /* IPv4, IPv6 */
	char **sources;
	unsigned source_count;
	uint32_t scope_count, record_count;
	size_t scope_cap, record_cap, pool_used, pool_cap;
	struct name domain;
	bool has_domain, is_rebind_protected;
	struct local_stat stat;
};

struct build {
	struct local *l;
	struct report *report;
	uint32_t *interned; /* places in the pool plus one, by hash */
	size_t interned_size, interned_count;
	uint32_t name_count; /* those without records too */
};

static inline struct pooled *pooled_at(const struct local *l, uint32_t place)
{
	return (struct pooled *)(l->pool + place);
}

/* --- store.c: 0 or positive, -ENOMEM, NW_EFULL --- */
extern uint32_t local_names_max; /* LOCAL_NAMES_MAX; tests lower it */
int store_scope(struct build *b, const struct name *n, struct scope **ret); /* *ret: until the next */
int store_name(struct build *b, const struct name *n, uint32_t **ret_first); /* *ret_first: until the next */
struct new_record {
	uint16_t type, rdlen, source;
	uint32_t ttl_s, line;
	const uint8_t *rdata;
};
/* Puts a record behind those of an owner. 1: it is new, *ret_index is its number; 0: the owner has it. NW_ETOOLONG: the owner has
 * LOCAL_NAME_RECORDS_MAX; NW_EREFUSED: a CNAME beside other records. */
int store_record(struct build *b, uint32_t *first, const struct new_record *n, uint32_t *ret_index);
int store_source(struct build *b, const char *path); /* its number */
/* The name of an address, unless it has one, is unspecified or the record is not an address. */
int store_reverse(struct build *b, uint32_t record, const struct name *n);
void store_finish(struct build *b); /* sorts, gives back what is not needed */

/* --- hosts.c --- */
int hosts_read(struct build *b, const struct local_text *t);

/* --- special.c --- */
extern const struct special special_names[];
extern const unsigned special_count;
enum { FIXED_MAX = 2 };
/* Records that special-use handling answers with. Their number, 0 when there is no such. */
unsigned special_records(enum special_kind kind, const struct wire_record **ret);
/* The record of an address that special-use handling knows, or NULL; with bits below all of the address: of any address in that prefix. */
const struct wire_record *special_ptr(const struct addr *a, unsigned bits);

/* --- reverse.c --- */
struct reverse_name {
	struct prefix prefix; /* what the name says of the address */
	bool is_whole;        /* no label beyond */
	bool is_address;      /* and all of the address */
};
bool reverse_parse(struct reverse_name *ret, const struct name *n); /* false: not below in-addr.arpa or ip6.arpa */
const struct reverse_entry *reverse_find(const struct local *l, const struct prefix *p); /* the first in it, or NULL */
/* Whether the name lies in a private range (RFC 6303, 7793), and is the top of its zone. */
bool reverse_is_private(const struct reverse_name *n, bool *ret_is_apex);
