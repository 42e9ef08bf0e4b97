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
/* Lines that are not understood are passed over and counted, the first of them reported with its place (warnings). seed: the callers' hashes are made
 * with it. Nothing of c or texts is referred to afterwards. 0, -ENOMEM, NW_EFULL. */
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
	unsigned record_count; struct wire_record records[LOCAL_RECORDS_MAX]; /* owners and rdata point into the table or into `made` */
	struct name target;
	uint8_t made[256];
	const char *source; unsigned line; /* for explain: a file with its line, or "configuration", "special-use"; static or the table's */
};
/* hashes: of qname, by name_hash. Only `kind` is set when it is LOCAL_NONE. */
void local_find(const struct local *l, const struct name *qname, const uint64_t *hashes, uint16_t qtype, struct local_answer *ret);

/* Rebind protection: whether an answer for these names (a chain) may not carry this address: private, loopback, link-local or our own kind of space. */
bool local_is_rebinding(const struct local *l, const struct name *const *chain, unsigned chain_len, const struct addr *addrs, unsigned addr_count);

struct local_stat { uint64_t names, records, bad_lines, memory_bytes; };
void local_stat(const struct local *l, struct local_stat *ret);
