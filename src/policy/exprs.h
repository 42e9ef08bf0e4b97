/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The bounded stage of one list: rules that are more than a name. adblock's wildcards, regular expressions, conditions ($dnstype, $client, $denyallow),
 * $important, @@ in every form that the index does not hold, and $badfilter.
 *
 * Rules anchored to a domain are found by the suffixes of the name; patterns by the fixed parts they need, all looked for in one pass over the name
 * (only patterns whose parts occur are tried, by automata that never go back). What a look-up may cost is bounded: EXPRS_TRIES_MAX patterns are tried, all
 * within EXPRS_STEPS_MAX; past that the name is judged without the rest, which is counted. Built by the compiler thread, then read-only, any thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/addr.h"
#include "wire/name.h"

enum { EXPR_TEXT_MAX = 1024 /* bytes of one rule */, EXPRS_MAX = 1 << 20 /* rules of a list */, EXPRS_TRIES_MAX = 256 };

struct exprs;
/* Takes rules one after another, as LINE_RULE gave them (an adblock rule, without comment), then makes the table of them. */
struct exprs_build;
struct exprs_build *exprs_build_new(uint64_t seed); /* of the hashes of exprs_judge; NULL: out of memory */
int exprs_build_add(struct exprs_build *b, const char *rule, size_t len); /* 0, -ENOMEM, NW_EFULL; NW_EMALFORMED: passed over */
int exprs_build_done(struct exprs_build *b, struct exprs **ret /* NULL when no rule is left */); /* frees b, also on failure */
void exprs_build_free(struct exprs_build *b);
void exprs_free(struct exprs *e);
/* Whether a rule can be taken at all; *ret_why is static text when not (NW_EMALFORMED). Used by the format's parser. */
int exprs_check_rule(const char *rule, size_t len, const char **ret_why);

/* Names of clients in $client rules that are no addresses, for the caller to map to groups of the configuration. */
unsigned exprs_client_count(const struct exprs *e);
const char *exprs_client(const struct exprs *e, unsigned i);

/* What the list says of a name. The order among them, in one list and among the lists of one rule: SPARE beats IMPORTANT beats ALLOW beats BLOCK. */
enum { EXPR_BLOCK = 1, EXPR_ALLOW = 2, EXPR_IMPORTANT = 4 /* a block that @@ does not lift */, EXPR_SPARE = 8 /* @@ with $important */,
	EXPR_BAD_BLOCK = 16, EXPR_BAD_ALLOW = 32 /* $badfilter: the plain ||x^ (or @@||x^) at some labels do not count */,
	EXPR_BAD_EXACT = 64 /* the same of a plain |x^ */ };
enum { EXPR_LABEL_WORDS = 2 }; /* a bit for each label of a name, the root's too */
_Static_assert(NAME_LABELS_MAX < 64 * EXPR_LABEL_WORDS, "a bit for each label");
struct expr_client { const struct addr *addr; const uint64_t *groups /* bits */, *unknown /* of groups that the client may be in: as being in where that blocks, as not being in where it lifts; may be NULL */; const uint16_t *group_of /* by exprs_client number; 0xffff: none */; };
struct expr_result { unsigned always /* by rules without conditions on the question */, here /* by all rules, for this type and client */; uint64_t bad_block[EXPR_LABEL_WORDS], bad_allow[EXPR_LABEL_WORDS] /* with the EXPR_BAD_ bits */; bool is_cut; };
static inline bool expr_is_bad(const uint64_t *labels, unsigned label) { return labels[label / 64] >> (label % 64) & 1; }
/* hashes: of n, with the seed of the build. client NULL: conditions on clients do not hold. */
void exprs_judge(const struct exprs *e, const struct name *n, const uint64_t *hashes, uint16_t qtype, const struct expr_client *client, struct expr_result *ret);
/* For explain: the text of the rule that decides (the first of the strongest), or NULL. */
const char *exprs_decides(const struct exprs *e, const struct name *n, const uint64_t *hashes, uint16_t qtype, const struct expr_client *client);

struct exprs_stat { unsigned rules, patterns, anchored, left_out /* patterns past EXPRS_LOOSE_MAX without a fixed part */; uint64_t memory_bytes; uint64_t cut /* look-ups that met the bound */; };
void exprs_stat(const struct exprs *e, struct exprs_stat *ret);
