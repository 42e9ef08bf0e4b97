/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Expressions as position automata (Glushkov), run with one bit a position. There is no back-tracking: a name costs its length times a number that is
 * known when the expression is compiled, whatever the expression and the name are. An expression past NFA_COST_MAX is refused.
 *
 * Every place of the expression where a character stands is a position; state is the set of positions just passed. Most positions are followed by the
 * next one and perhaps by themselves, so a step is a shift and two masks; the positions followed by others have a row of their own ("exception").
 *
 *   program, 64-bit words: head | class of each symbol, 40 bytes | FIRST x3, LAST x3, SHIFT, LOOP, ROWED | a set for each class | rows
 *
 * `^`, `$`, `\b` and `\B` are conditions on the border between two characters. A border's neighbours are the name's end, a word character or another;
 * so there are three FIRST sets (by what stands before) and three LAST sets (by what stands behind), and where `\b` occurs a position whose set holds
 * both kinds of characters is made two. Then a condition between two positions is known when they are joined. Read-only; any thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "policy/exprs_private.h"

enum { WORDS_MAX = NFA_POSITIONS_MAX / 64 };
enum border { BORDER_END, BORDER_WORD, BORDER_OTHER, BORDERS };
enum { COND_BEGIN = 1, COND_END = 2, COND_EDGE = 4, COND_NO_EDGE = 8 };
enum { MASK_FIRST, MASK_LAST = MASK_FIRST + BORDERS, MASK_SHIFT = MASK_LAST + BORDERS, MASK_LOOP, MASK_ROWED, MASKS };

struct head {
	uint16_t classes, rows, empty /* bit (before * BORDERS + behind): nothing matches at such a border */;
	uint8_t words;
	bool has_begin_only : 1, has_end_only : 1;
};
enum { CLASS_WORDS = SYMBOLS / 8, SETS_AT = 1 + CLASS_WORDS };
_Static_assert(sizeof(struct head) == 8 && SYMBOLS % 8 == 0, "the layout of a program");

/* --- From the tree to positions --- */

/* Alternatives of conditions: bit c is set when the conditions c (COND_ bits, all of them) suffice. Bit 0: nothing is asked. */
typedef uint16_t conds;

struct part { /* positions from..to of some subtree */
	unsigned from, to;
	conds empty; /* under which it matches nothing at all */
	conds first[NFA_POSITIONS_MAX], last[NFA_POSITIONS_MAX];
};

struct builder {
	const struct regex *rx;
	unsigned positions;
	const char *why;
	int r;
	uint64_t set[NFA_POSITIONS_MAX]; /* of symbols */
	uint64_t follow[NFA_POSITIONS_MAX][WORDS_MAX];
};

static conds either(conds a, conds b)
{
	return (a | b) & 1 ? 1 : a | b;
}

static conds both(conds a, conds b)
{
	conds ret = 0;

	if (a == 1 || b == 1)
		return a == 1 ? b : a;
	for (unsigned i = a; i; i &= i - 1)
		for (unsigned j = b; j; j &= j - 1)
			ret |= (conds)(1u << (__builtin_ctz(i) | __builtin_ctz(j)));
	return ret;
}

static bool holds(conds c, enum border before, enum border behind)
{
	bool is_edge = (before == BORDER_WORD) != (behind == BORDER_WORD);
	unsigned lacking = (before == BORDER_END ? 0 : COND_BEGIN) | (behind == BORDER_END ? 0 : COND_END) |
	                   (is_edge ? COND_NO_EDGE : COND_EDGE);

	for (unsigned i = c; i; i &= i - 1)
		if (!((unsigned)__builtin_ctz(i) & lacking))
			return true;
	return false;
}

static enum border kind_of(const struct builder *b, unsigned position)
{
	return b->set[position] & SET_WORD ? BORDER_WORD : BORDER_OTHER;
}

/* Without \b in the expression the kind of a character does not matter. */
static void join(struct builder *b, const struct part *l, const struct part *r)
{
	for (unsigned p = l->from; p < l->to; p++)
		for (unsigned q = r->from; l->last[p] && q < r->to; q++)
			if (r->first[q] && holds(both(l->last[p], r->first[q]), kind_of(b, p), kind_of(b, q)))
				b->follow[p][q / 64] |= 1ull << (q % 64);
}

static void fault(struct builder *b, int r, const char *why)
{
	if (b->r == 0) {
		b->r = r;
		b->why = why;
	}
}

static void add_position(struct builder *b, struct part *ret, uint64_t set)
{
	if (b->positions == NFA_POSITIONS_MAX) {
		fault(b, NW_EMALFORMED, "the expression is too large");
		return;
	}
	b->set[b->positions] = set;
	memset(b->follow[b->positions], 0, sizeof(b->follow[0]));
	ret->first[b->positions] = ret->last[b->positions] = 1;
	ret->to = ++b->positions;
}

static void build(struct builder *b, unsigned at, struct part *ret);

static struct part *part_new(struct builder *b)
{
	struct part *p = malloc(sizeof(*p));

	if (!p)
		fault(b, -ENOMEM, NULL);
	return p;
}

/* acc becomes "acc, then p". The positions of p follow those of acc. */
static void append(struct builder *b, struct part *acc, const struct part *p)
{
	join(b, acc, p);
	for (unsigned i = acc->from; i < acc->to; i++)
		acc->last[i] = acc->last[i] && p->empty ? both(acc->last[i], p->empty) : 0;
	for (unsigned i = p->from; i < p->to; i++) {
		acc->first[i] = p->first[i] && acc->empty ? both(p->first[i], acc->empty) : 0;
		acc->last[i] = p->last[i];
	}
	acc->empty = acc->empty && p->empty ? both(acc->empty, p->empty) : 0;
	acc->to = p->to;
}

static void build_cat(struct builder *b, const struct regex_node *n, struct part *ret)
{
	struct part *p = part_new(b);

	ret->empty = 1;
	for (unsigned c = n->child; c && b->r == 0; c = b->rx->nodes[c].next) {
		build(b, c, p);
		if (b->r == 0)
			append(b, ret, p);
	}
	free(p);
}

static void build_alt(struct builder *b, const struct regex_node *n, struct part *ret)
{
	struct part *p = part_new(b);

	for (unsigned c = n->child; c && b->r == 0; c = b->rx->nodes[c].next) {
		build(b, c, p);
		memcpy(ret->first + p->from, p->first + p->from, (p->to - p->from) * sizeof(conds));
		memcpy(ret->last + p->from, p->last + p->from, (p->to - p->from) * sizeof(conds));
		ret->empty = either(ret->empty, p->empty);
		ret->to = p->to;
	}
	free(p);
}

/* x{2,4} as ((x)?x)?xx: what may be left out stands first, so that only the position before it is followed by many. x{2,} as xx+. */
static void build_repeat(struct builder *b, const struct regex_node *n, struct part *ret)
{
	unsigned copies = n->max == REGEX_ENDLESS ? (n->min ? n->min : 1) : n->max, optional = copies - n->min;
	struct part *p = part_new(b);

	ret->empty = 1;
	for (unsigned i = 0; i < copies && b->r == 0; i++) {
		build(b, n->child, p);
		if (b->r < 0 || p->from == p->to) {
			/* Without a character a repetition says nothing that once does not. */
			ret->empty = b->r < 0 ? 0 : n->min ? p->empty : 1;
			break;
		}
		if (n->max == REGEX_ENDLESS && i + 1 == copies)
			join(b, p, p);
		if (i <= optional)
			ret->empty = 1;
		append(b, ret, p);
	}
	if (optional == copies)
		ret->empty = 1;
	free(p);
}

static void build(struct builder *b, unsigned at, struct part *ret)
{
	static const conds of_kind[] = {[RX_EMPTY] = 1,
	        [RX_BEGIN] = 1 << COND_BEGIN,
	        [RX_END] = 1 << COND_END,
	        [RX_WORD_EDGE] = 1 << COND_EDGE,
	        [RX_NO_WORD_EDGE] = 1 << COND_NO_EDGE};
	const struct regex_node *n = &b->rx->nodes[at];
	bool is_split = b->rx->has_word_edge && (n->set & SET_WORD) && (n->set & ~SET_WORD);

	ret->from = ret->to = b->positions;
	ret->empty = 0;
	switch (n->kind) {
	case RX_SET:
		add_position(b, ret, is_split ? n->set & SET_WORD : n->set);
		if (is_split)
			add_position(b, ret, n->set & ~SET_WORD);
		break;
	case RX_CAT:
		build_cat(b, n, ret);
		break;
	case RX_ALT:
		build_alt(b, n, ret);
		break;
	case RX_REPEAT:
		build_repeat(b, n, ret);
		break;
	default:
		ret->empty = of_kind[n->kind];
		break;
	}
}

/* --- From positions to a program --- */

struct layout {
	unsigned words, classes, rows, total;
	uint8_t class_of[SYMBOLS];
	uint64_t masks[MASKS][WORDS_MAX];
};

static void set_bit(uint64_t *mask, unsigned bit)
{
	mask[bit / 64] |= 1ull << (bit % 64);
}

static bool has_bit(const uint64_t *mask, unsigned bit)
{
	return mask[bit / 64] >> (bit % 64) & 1;
}

/* Symbols that the same positions take are one class. */
static void find_classes(const struct builder *b, struct layout *l)
{
	bool is_same;

	for (unsigned s = 0; s < SYMBOLS; s++) {
		l->class_of[s] = (uint8_t)l->classes;
		for (unsigned other = 0; other < s; other++) {
			is_same = true;
			for (unsigned p = 0; p < b->positions && is_same; p++)
				is_same = (b->set[p] >> s & 1) == (b->set[p] >> other & 1);
			if (!is_same)
				continue;
			l->class_of[s] = l->class_of[other];
			break;
		}
		l->classes += l->class_of[s] == l->classes;
	}
}

static void find_masks(const struct builder *b, const struct part *whole, struct layout *l)
{
	bool has_row;

	for (unsigned p = 0; p < b->positions; p++) {
		for (enum border o = 0; o < BORDERS; o++) {
			if (whole->first[p] && holds(whole->first[p], o, kind_of(b, p)))
				set_bit(l->masks[MASK_FIRST + o], p);
			if (whole->last[p] && holds(whole->last[p], kind_of(b, p), o))
				set_bit(l->masks[MASK_LAST + o], p);
		}
		has_row = false;
		for (unsigned q = 0; q < b->positions; q++)
			if (has_bit(b->follow[p], q) && q == p)
				set_bit(l->masks[MASK_LOOP], p);
			else if (has_bit(b->follow[p], q) && q == p + 1)
				set_bit(l->masks[MASK_SHIFT], p);
			else if (has_bit(b->follow[p], q))
				has_row = true;
		l->rows += has_row;
		if (has_row)
			set_bit(l->masks[MASK_ROWED], p);
	}
}

static void write_program(const struct builder *b, const struct part *whole, const struct layout *l, uint64_t *out)
{
	struct head h = {.words = (uint8_t)l->words, .classes = (uint16_t)l->classes, .rows = (uint16_t)l->rows};
	uint64_t any_first = 0, any_last = 0, *sets = out + SETS_AT + MASKS * l->words, *row = sets + l->classes * l->words;

	for (unsigned w = 0; w < l->words; w++) {
		any_first |= l->masks[MASK_FIRST + BORDER_WORD][w] | l->masks[MASK_FIRST + BORDER_OTHER][w];
		any_last |= l->masks[MASK_LAST + BORDER_WORD][w] | l->masks[MASK_LAST + BORDER_OTHER][w];
	}
	for (enum border before = 0; before < BORDERS; before++)
		for (enum border behind = 0; behind < BORDERS; behind++)
			h.empty |= (uint16_t)(holds(whole->empty, before, behind) << (before * BORDERS + behind));
	h.has_begin_only = !any_first && !h.empty;
	h.has_end_only = !any_last && !h.empty;
	memcpy(out, &h, sizeof(h));
	memcpy(out + 1, l->class_of, SYMBOLS);
	for (unsigned m = 0; m < MASKS; m++)
		memcpy(out + SETS_AT + m * l->words, l->masks[m], l->words * sizeof(*out));
	for (unsigned s = 0; s < SYMBOLS; s++)
		for (unsigned p = 0; p < b->positions; p++)
			if (b->set[p] >> s & 1)
				set_bit(sets + l->class_of[s] * l->words, p);
	for (unsigned p = 0; p < b->positions; p++) {
		if (!has_bit(l->masks[MASK_ROWED], p))
			continue;
		memcpy(row, b->follow[p], l->words * sizeof(*out));
		row += l->words;
	}
}

static int assemble(const struct builder *b, const struct part *whole, uint64_t **ret, unsigned *ret_words, const char **ret_why)
{
	struct layout l = {.words = b->positions ? (b->positions + 63) / 64 : 1};

	find_classes(b, &l);
	find_masks(b, whole, &l);
	if (l.words * (l.rows + 1) > NFA_COST_MAX) {
		*ret_why = "the expression is too large";
		return NW_EMALFORMED;
	}
	l.total = SETS_AT + (MASKS + l.classes + l.rows) * l.words;
	*ret = calloc(l.total, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	*ret_words = l.total;
	write_program(b, whole, &l, *ret);
	return 0;
}

int nfa_compile(const struct regex *rx, uint64_t **ret, unsigned *ret_words, const char **ret_why)
{
	struct builder *b = malloc(sizeof(*b));
	struct part *whole = malloc(sizeof(*whole));
	int r = -ENOMEM;

	if (!b || !whole)
		goto end;
	b->rx = rx;
	b->positions = 0;
	b->r = 0;
	b->why = NULL;
	build(b, rx->root, whole);
	r = b->r;
	if (b->why)
		*ret_why = b->why;
	if (r == 0)
		r = assemble(b, whole, ret, ret_words, ret_why);
end:
	free(b);
	free(whole);
	return r;
}

bool nfa_is_whole(const uint64_t *program)
{
	struct head h;

	memcpy(&h, program, sizeof(h));
	return h.has_begin_only && h.has_end_only;
}

/* --- Running it --- */

static enum border border_of(uint8_t symbol)
{
	return SET_WORD >> symbol & 1 ? BORDER_WORD : BORDER_OTHER;
}

/* The rows of the positions in `from` that have one, into `into`. Rows lie in the order of their positions. */
static unsigned add_rows(const uint64_t *rowed, const uint64_t *rows, const uint64_t *from, uint64_t *into, unsigned words)
{
	unsigned before = 0, count = 0;

	for (unsigned w = 0; w < words; before += (unsigned)__builtin_popcountll(rowed[w]), w++)
		for (uint64_t left = from[w] & rowed[w]; left; left &= left - 1, count++) {
			uint64_t lower = (left & -left) - 1;
			const uint64_t *row = rows + (before + (unsigned)__builtin_popcountll(rowed[w] & lower)) * words;

			for (unsigned i = 0; i < words; i++)
				into[i] |= row[i];
		}
	return count;
}

static bool run_wide(const uint64_t *program, const struct head *h, const uint8_t *symbols, unsigned len, int *steps)
{
	const uint8_t *class_of = (const uint8_t *)(program + 1);
	const uint64_t *masks = program + SETS_AT, *sets = masks + MASKS * h->words, *rows = sets + h->classes * h->words, *set;
	uint64_t now[WORDS_MAX] = {0}, next[WORDS_MAX], carry, any, hit;
	enum border before = BORDER_END, behind;

	for (unsigned i = 0; i < len && *steps >= 0; i++) {
		behind = i + 1 == len ? BORDER_END : border_of(symbols[i + 1]);
		set = sets + class_of[symbols[i]] * h->words;
		carry = any = hit = 0;
		for (unsigned w = 0; w < h->words; w++) {
			uint64_t shifted = now[w] & masks[MASK_SHIFT * h->words + w];

			next[w] = shifted << 1 | carry | (now[w] & masks[MASK_LOOP * h->words + w]) |
			          masks[(MASK_FIRST + before) * h->words + w];
			carry = shifted >> 63;
		}
		*steps -= (int)(h->words * (1 + add_rows(masks + MASK_ROWED * h->words, rows, now, next, h->words)));
		for (unsigned w = 0; w < h->words; w++) {
			now[w] = next[w] & set[w];
			any |= now[w];
			hit |= now[w] & masks[(MASK_LAST + behind) * h->words + w];
		}
		if (hit)
			return true;
		if (!any && h->has_begin_only)
			return false;
		before = border_of(symbols[i]);
	}
	return false;
}

/* The same for at most 64 positions, which most have. */
static bool run_narrow(const uint64_t *program, const struct head *h, const uint8_t *symbols, unsigned len, int *steps)
{
	const uint8_t *class_of = (const uint8_t *)(program + 1);
	const uint64_t *masks = program + SETS_AT, *sets = masks + MASKS, *rows = sets + h->classes;
	uint64_t now = 0, next, rowed = masks[MASK_ROWED];
	enum border before = BORDER_END, behind;
	unsigned taken = 0;

	for (unsigned i = 0; i < len; i++) {
		behind = i + 1 == len ? BORDER_END : border_of(symbols[i + 1]);
		next = (now & masks[MASK_SHIFT]) << 1 | (now & masks[MASK_LOOP]) | masks[MASK_FIRST + before];
		for (uint64_t left = now & rowed; left; left &= left - 1, taken++)
			next |= rows[__builtin_popcountll(rowed & ((left & -left) - 1))];
		now = next & sets[class_of[symbols[i]]];
		taken++;
		if (now & masks[MASK_LAST + behind]) {
			*steps -= (int)taken;
			return true;
		}
		if (!now && h->has_begin_only)
			break;
		before = border_of(symbols[i]);
	}
	*steps -= (int)taken;
	return false;
}

/* Whether nothing at all matches somewhere: ".*", "^", "\\b". */
static bool matches_nothing(const struct head *h, const uint8_t *symbols, unsigned len)
{
	enum border before = BORDER_END, behind;

	for (unsigned i = 0; i <= len; i++, before = behind) {
		behind = i == len ? BORDER_END : border_of(symbols[i]);
		if (h->empty >> (before * BORDERS + behind) & 1)
			return true;
	}
	return false;
}

bool nfa_matches(const uint64_t *program, const uint8_t *symbols, unsigned len, int *steps)
{
	struct head h;

	memcpy(&h, program, sizeof(h));
	if (h.empty && matches_nothing(&h, symbols, len))
		return true;
	return h.words == 1 ? run_narrow(program, &h, symbols, len, steps) : run_wide(program, &h, symbols, len, steps);
}
