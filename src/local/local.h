/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Names answered here: hosts files, records of the configuration, the local domain, PTR for local and private addresses, special-use names
 * (RFC 6761, 6303, 7686, 8375, 8880 ...). A table built once by the compiler thread from texts at hand, then read-only; any thread. No I/O.
 * Cost does not grow with the number of names. `domains` of upstreams and what the configuration gives take precedence over special-use handling. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/addr.h"
#include "config/config.h"
#include "wire/msg.h"

struct local;
struct local_text { const char *path; const char *bytes; size_t len; }; /* of one hosts file; may end anywhere, be empty or not be text */
/* A table grows to so many names (and as many records), a name to so many records. What hosts files say is given out for LOCAL_HOSTS_TTL_S, what is not
 * there is denied for LOCAL_NEGATIVE_TTL_S; special-use names stay what they are: LOCAL_SPECIAL_TTL_S. */
enum { LOCAL_NAMES_MAX = 4 << 20, LOCAL_NAME_RECORDS_MAX = 112, LOCAL_CHAIN_MAX = 8, LOCAL_HOSTS_TTL_S = 60, LOCAL_NEGATIVE_TTL_S = 60, LOCAL_SPECIAL_TTL_S = 3600 };
/* Names of hosts files past the limit are left out and counted; lines that are not understood are passed over and counted, the first of them reported with its place (warnings). seed: the callers' hashes are made
 * with it. Nothing of c or texts is referred to afterwards. r may be NULL. 0, -ENOMEM, NW_EFULL. */
int local_new(struct local **ret, const struct config *c, const struct local_text *texts, unsigned count, uint64_t seed, struct report *r);
void local_free(struct local *l); /* takes NULL */

enum local_kind { LOCAL_NONE /* not ours: resolve it */, LOCAL_ANSWER, LOCAL_NODATA, LOCAL_NXDOMAIN,
	LOCAL_ALIAS /* records: CNAMEs that lead out of what is ours, to `target`, which is to be resolved */ };
enum { LOCAL_RECORDS_MAX = 128 };
struct local_answer {
	enum local_kind kind;
	int ede; const char *text;     /* what EDE says, static; EDE_NONE */
	bool has_authority;            /* aa */
	uint32_t negative_ttl_s;       /* of the SOA of a negative answer */
	/* Owners and rdata point into the table, owner NULL is the question's. LOCAL_NODATA and LOCAL_NXDOMAIN have records when aliases led there. */
	unsigned record_count; struct wire_record records[LOCAL_RECORDS_MAX];
	struct name target;            /* only valid with LOCAL_ALIAS */
	const char *source; unsigned line; /* for explain: a file with its line, or "configuration", "special-use"; static or the table's */
};
/* Fetches what local_find reads first, so that the waits of a batch overlap. Not needed for one name alone. */
void local_prefetch(const struct local *l, const struct name *qname, const uint64_t *hashes);
/* hashes: of qname, by name_hash. Only `kind` is set when it is LOCAL_NONE. ANY gets every record of the name. */
void local_find(const struct local *l, const struct name *qname, const uint64_t *hashes, uint16_t qtype, struct local_answer *ret);

/* Rebind protection: whether an answer for these names (a chain, [0] the question) carries an address it may not: of addr_is_private, or one of these
 * behind 64:ff9b::/96. Names at and under local.domain and `allow` may; what counts is the question's name. */
bool local_is_rebinding(const struct local *l, const struct name *const *chain, unsigned chain_len, const struct addr *addrs, unsigned addr_count);

struct local_stat { uint64_t names /* that have records */, records, bad_lines, left_out /* names of hosts files past LOCAL_NAMES_MAX */, memory_bytes; };
void local_stat(const struct local *l, struct local_stat *ret);
