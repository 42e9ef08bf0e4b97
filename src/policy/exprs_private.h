/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Inside the bounded stage: a rule as its text says it, expressions and the automata made of them, the fixed parts that are looked for first. */
#pragma once
#include <stdatomic.h>
#include <stddef.h>
#include "policy/exprs.h"
#include "policy/name_map.h"

/* --- Symbols: a name is looked at as letters, digits, '-', '_', '.', and "other" for any byte that no host name has --- */

enum { SYM_OTHER, SYM_A, SYM_0 = SYM_A + 26, SYM_DASH = SYM_0 + 10, SYM_UNDERSCORE, SYM_DOT, SYMBOLS, SYM_BEGIN = SYMBOLS, SYM_END };
extern const uint8_t expr_symbol[256]; /* upper case as lower case */

#define SET_OF(symbol) (1ull << (symbol))
#define SET_LETTERS (((1ull << 26) - 1) << SYM_A)
#define SET_DIGITS (((1ull << 10) - 1) << SYM_0)
#define SET_WORD (SET_LETTERS | SET_DIGITS | SET_OF(SYM_UNDERSCORE))
#define SET_ALL ((1ull << SYMBOLS) - 1)
#define NEEDS_DIGIT (1ull << 42) /* beside the symbols, in what a pattern needs and a name has */

/* --- A rule (exprs_rule.c, exprs_modifiers.c) --- */

enum rule_pattern { PATTERN_ANY, PATTERN_SUFFIX, PATTERN_EXACT, PATTERN_GLOB, PATTERN_REGEX, PATTERN_PREFIX };
enum rule_anchor { ANCHOR_NONE, ANCHOR_BEGIN /* of the name */, ANCHOR_LABEL /* of a label */ };
enum { RULE_TYPES_MAX = 64, RULE_CLIENTS_MAX = 128, RULE_DENIES_MAX = 256, RULE_MODIFIERS_MAX = 64, RULE_BYTES_MAX = 2 * EXPR_TEXT_MAX };

struct rule_type { uint16_t type; bool is_not; };
struct rule_client { bool is_not, is_prefix; struct prefix prefix; uint16_t at; /* of its name in bytes */ };
struct rule_text {
	bool is_allow, is_important, is_bad, is_at_end; /* is_at_end: a glob that must reach the end of the name */
	enum rule_pattern pattern;
	enum rule_anchor anchor; /* of a glob */
	struct name name;        /* SUFFIX, EXACT */
	struct prefix prefix;    /* PREFIX: addresses of answers */
	unsigned body_len, type_count, client_count, deny_count, bytes_used;
	uint8_t body[EXPR_TEXT_MAX]; /* GLOB: lower case, '*' between parts. REGEX: as written */
	struct rule_type types[RULE_TYPES_MAX];
	struct rule_client clients[RULE_CLIENTS_MAX];
	uint16_t denies[RULE_DENIES_MAX]; /* places of {length, wire bytes} in bytes */
	uint8_t bytes[RULE_BYTES_MAX];
};
/* 0; NW_EREFUSED: a right rule that DNS cannot apply (a path, a browser's condition); NW_EMALFORMED: *ret_why. The expression is not yet parsed. */
int rule_parse(struct rule_text *ret, const char *text, size_t len, const char **ret_why);
int rule_parse_modifiers(struct rule_text *ret, const char *text, size_t len, const char **ret_why); /* the same */
static inline bool rule_is_conditional(const struct rule_text *r) /* on more than the pattern */
{
	return r->type_count || r->client_count || r->deny_count;
}
static inline bool rule_is_plain(const struct rule_text *r)
{
	return !rule_is_conditional(r) && !r->is_important && !r->is_bad;
}

/* --- Regular expressions (exprs_regex.c): RE2's syntax as AdGuard takes it, without case --- */

enum regex_kind { RX_EMPTY, RX_SET, RX_CAT, RX_ALT, RX_REPEAT, RX_BEGIN, RX_END, RX_WORD_EDGE, RX_NO_WORD_EDGE };
enum { REGEX_ENDLESS = 0xffff, REGEX_REPEAT_MAX = 1000, REGEX_DEPTH_MAX = 24 };
struct regex_node { uint8_t kind; uint16_t min, max; /* REPEAT */ uint16_t child, next; /* 0: none */ uint64_t set; /* SET: of symbols */ };
struct regex { struct regex_node *nodes; unsigned count, cap, root; bool has_word_edge; };
int regex_parse(struct regex *ret, const char *text, size_t len, const char **ret_why); /* 0, -ENOMEM, NW_EMALFORMED */
void regex_free(struct regex *rx);

/* --- Automata (exprs_nfa.c): one bit a position, a step for each symbol of the name, so the cost is known beforehand --- */

enum { NFA_POSITIONS_MAX = 512, NFA_COST_MAX = 256 /* steps for one symbol */, NFA_BUILD_MAX = 1 << 14 /* to make one */ };
/* Appends the program to *ret (heap, to be freed), *ret_words 64-bit words. 0, -ENOMEM, NW_EMALFORMED with *ret_why. */
int nfa_compile(const struct regex *rx, uint64_t **ret, unsigned *ret_words, const char **ret_why);
/* Sets of symbols (with SYM_BEGIN and SYM_END, for a name without any): what a name that matches may begin with, end with, and hold. */
struct nfa_frame { uint64_t first, last, all; };
void nfa_frame(const uint64_t *program, struct nfa_frame *ret);
bool nfa_is_whole(const uint64_t *program); /* only ever matches from the first to the last symbol of a name */
/* *steps is counted down; below 0: not finished, false. */
bool nfa_matches(const uint64_t *program, const uint8_t *symbols, unsigned len, int *steps);

/* --- Globs (exprs_glob.c) --- */

bool glob_matches(const uint8_t *body, unsigned body_len, enum rule_anchor anchor, bool is_at_end, const uint8_t *symbols, unsigned len, int *steps);

/* --- Fixed parts (exprs_literal.c): one of the set stands in every name that a pattern matches --- */

enum { LITERALS_MAX = 32, LITERAL_LEN_MAX = 24, LITERAL_LEN_MIN = 2 };
struct literal { uint8_t len, s[LITERAL_LEN_MAX]; /* symbols, with SYM_BEGIN and SYM_END */ };
struct literal_set { unsigned count; struct literal v[LITERALS_MAX]; };
bool literals_of_regex(const struct regex *rx, struct literal_set *ret); /* false: there is none to be used */
bool literals_of_glob(const struct rule_text *r, struct literal_set *ret);
/* What every name that the expression matches has. */
struct regex_facts { unsigned min_len, max_len; uint64_t needs; };
void regex_facts(const struct regex *rx, unsigned node, struct regex_facts *ret);

/* --- Which patterns' fixed parts occur (exprs_grams.c) --- */

struct gram_part { uint32_t pattern, at; /* in the bytes of all parts */ uint8_t len, gram_at; uint32_t gram; /* gram and gram_at are grams_build's */ };
struct grams;
/* Both arrays are taken over, on failure too. NULL: out of memory. */
struct grams *grams_build(struct gram_part *parts, size_t count, uint8_t *bytes);
void grams_free(struct grams *g);
size_t grams_bytes(const struct grams *g);
/* Calls fn for every pattern of which a part occurs; symbols[0..len) with SYM_BEGIN before and SYM_END behind. Ends when *steps is used up. */
void grams_look(const struct grams *g, const uint8_t *symbols, unsigned len, int *steps, void (*fn)(void *ctx, uint32_t pattern), void *ctx);

/* --- The table (exprs_build.c makes it, exprs.c asks it) --- */

enum { EXPRS_STEPS_MAX = 1 << 17 /* of one look-up: a word of an automaton for a symbol; others are counted in the same coin */, EXPRS_LOOSE_MAX = 4096,
	EXPRS_CLIENTS_MAX = 1024, EXPRS_BYTES_MAX = 256 << 20 /* of automata */ };

struct pool { uint8_t *bytes; size_t used, cap; }; /* things of one kind, one behind another */
#define POOL_AT(pool, type, i) ((type *)(void *)(pool).bytes + (i))

enum { RULE_NONE = 0xffffffff, CLIENT_IS_PREFIX = 0xffff };
struct expr_rule {
	uint32_t text, cond /* RULE_NONE: unconditional */, next /* rule of the same anchor, RULE_NONE: the last */;
	uint8_t outcome; /* one EXPR_ bit; 0: taken back by $badfilter */
	bool is_exact;
};
struct expr_cond { uint32_t types, clients, denies; /* the first of each; denies in bytes */ uint8_t type_count, client_count; uint16_t deny_count; bool has_type_yes, has_client_yes; };
struct expr_cond_client { struct prefix prefix; uint16_t number; /* CLIENT_IS_PREFIX, or of the name */ bool is_not; };
struct expr_pattern {
	uint64_t needs;
	uint32_t rule, at; /* of the program in words, of the glob's body in bytes */
	uint8_t min_len, max_len, body_len, anchor;
	bool is_regex, is_at_end;
};

/* 64 patterns without a fixed part, a bit each: those that a name may match which begins with this symbol, ends with it, holds it, is so long. */
struct loose_block { uint64_t first[SYM_END + 1], last[SYM_END + 1], holds[SYMBOLS], len[NAME_WIRE_MAX + 1]; };

struct exprs {
	struct pool rules, texts, conds, types, clients, denies, patterns, programs, bodies, names /* of clients, NUL-terminated */, loose, blocks;
	unsigned rule_count, pattern_count, loose_count, anchored_count, left_out, client_count;
	uint32_t client_at[EXPRS_CLIENTS_MAX]; /* in names */
	struct name_map *anchors; /* to the first rule */
	struct grams *grams;
	_Atomic uint64_t cut;
};

/* A regular expression or glob ready to be put in. program: heap, NULL for a glob. has_part false: it has no fixed part. */
struct compiled { struct expr_pattern pattern; uint64_t *program; unsigned program_words; bool has_part; struct literal_set parts; };
int rule_compile(const struct rule_text *r, struct compiled *ret, const char **ret_why); /* GLOB, REGEX: 0, -ENOMEM, NW_EMALFORMED */
