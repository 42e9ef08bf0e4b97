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

enum { WORDS_MAX = NFA_POSITIONS_MAX / 64, STEPS_OF_NODE = 16, STEPS_OF_ANY = NFA_BUILD_MAX / 2, STEPS_OF_TEXT = 64 };
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
	uint64_t firsts[WORDS_MAX], lasts[WORDS_MAX];            /* positions at which it may begin, end */
	conds first[NFA_POSITIONS_MAX], last[NFA_POSITIONS_MAX]; /* of those */
};

struct builder {
	const struct regex *rx;
	unsigned positions, words /* of all positions that there will be */, rows;
	int steps; /* left; a long expression may take more of them than a short one, up to NFA_BUILD_MAX */
	const char *why;
	int r;
	uint64_t set[NFA_POSITIONS_MAX]; /* of symbols */
	uint64_t follow[NFA_POSITIONS_MAX][WORDS_MAX];
	uint64_t rowed[WORDS_MAX];
};

static const char too_large[] = "the expression is too large";

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

static void set_bit(uint64_t *mask, unsigned bit)
{
	mask[bit / 64] |= 1ull << (bit % 64);
}

static bool has_bit(const uint64_t *mask, unsigned bit)
{
	return mask[bit / 64] >> (bit % 64) & 1;
}

/* The next bit set from `bit` on, or `end`. */
static unsigned next_bit(const uint64_t *mask, unsigned bit, unsigned end)
{
	uint64_t left;

	for (; bit < end; bit = (bit / 64 + 1) * 64) {
		left = mask[bit / 64] >> (bit % 64);
		if (left)
			return bit + (unsigned)__builtin_ctzll(left) < end ? bit + (unsigned)__builtin_ctzll(left) : end;
	}
	return end;
}

static void fault(struct builder *b, int r, const char *why)
{
	if (b->r == 0) {
		b->r = r;
		b->why = why;
	}
}

/* A list may hold any number of expressions, so what one may cost is bounded, whether it is then taken or not. */
static void spend(struct builder *b, int steps)
{
	b->steps -= steps;
	if (b->steps < 0)
		fault(b, NW_EMALFORMED, too_large);
}

static void add_follow(struct builder *b, unsigned p, unsigned q)
{
	set_bit(b->follow[p], q);
	if (q == p || q == p + 1 || has_bit(b->rowed, p))
		return;
	set_bit(b->rowed, p);
	if (b->words * (++b->rows + 1) > NFA_COST_MAX)
		fault(b, NW_EMALFORMED, too_large);
}

/* Without \b in the expression the kind of a character does not matter. */
static void join(struct builder *b, const struct part *l, const struct part *r)
{
	for (unsigned p = next_bit(l->lasts, l->from, l->to); p < l->to && b->r == 0; p = next_bit(l->lasts, p + 1, l->to))
		for (unsigned q = next_bit(r->firsts, r->from, r->to); q < r->to && b->r == 0; q = next_bit(r->firsts, q + 1, r->to)) {
			spend(b, 1 + 2 * __builtin_popcount(l->last[p]) * __builtin_popcount(r->first[q]));
			if (holds(both(l->last[p], r->first[q]), kind_of(b, p), kind_of(b, q)))
				add_follow(b, p, q);
		}
}

static void add_position(struct builder *b, struct part *ret, uint64_t set)
{
	b->set[b->positions] = set;
	memset(b->follow[b->positions], 0, b->words * sizeof(uint64_t));
	set_bit(ret->firsts, b->positions);
	set_bit(ret->lasts, b->positions);
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

static void begin_part(const struct builder *b, struct part *ret)
{
	ret->from = ret->to = b->positions;
	ret->empty = 0;
	memset(ret->firsts, 0, b->words * sizeof(uint64_t));
	memset(ret->lasts, 0, b->words * sizeof(uint64_t));
}

/* Of the positions `some` of p: those with their conditions, each together with `more`, go to the set `to`. */
static void take_over(struct builder *b, uint64_t *to, conds *to_conds, const uint64_t *some, const conds *of, const struct part *p, conds more)
{
	for (unsigned i = next_bit(some, p->from, p->to); i < p->to; i = next_bit(some, i + 1, p->to)) {
		set_bit(to, i);
		to_conds[i] = both(of[i], more);
		if (more != 1)
			spend(b, 2 * __builtin_popcount(of[i]) * __builtin_popcount(more));
	}
}

/* acc becomes "acc, then p". The positions of p follow those of acc. */
static void append(struct builder *b, struct part *acc, const struct part *p)
{
	join(b, acc, p);
	if (!p->empty)
		memset(acc->lasts, 0, b->words * sizeof(uint64_t));
	else if (p->empty != 1)
		take_over(b, acc->lasts, acc->last, acc->lasts, acc->last, acc, p->empty);
	take_over(b, acc->lasts, acc->last, p->lasts, p->last, p, 1);
	if (acc->empty)
		take_over(b, acc->firsts, acc->first, p->firsts, p->first, p, acc->empty);
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
		if (b->r < 0)
			break;
		take_over(b, ret->firsts, ret->first, p->firsts, p->first, p, 1);
		take_over(b, ret->lasts, ret->last, p->lasts, p->last, p, 1);
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

	begin_part(b, ret);
	spend(b, STEPS_OF_NODE);
	if (b->r < 0)
		return;
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
	uint64_t class[SYMBOLS];
	uint64_t masks[MASKS][WORDS_MAX];
};

/* Symbols that the same positions take are one class: all symbols, parted by the set of each position. */
static void find_classes(const struct builder *b, struct layout *l)
{
	uint64_t class[SYMBOLS] = {SET_ALL}, inside;

	l->classes = 1;
	for (unsigned p = 0; p < b->positions; p++) {
		if (p > 0 && b->set[p] == b->set[p - 1])
			continue;
		for (unsigned c = 0, count = l->classes; c < count; c++) {
			inside = class[c] & b->set[p];
			if (!inside || inside == class[c])
				continue;
			class[l->classes++] = inside;
			class[c] &= ~inside;
		}
	}
	for (unsigned c = 0; c < l->classes; c++)
		for (uint64_t left = class[c]; left; left &= left - 1)
			l->class_of[__builtin_ctzll(left)] = (uint8_t)c;
	memcpy(l->class, class, sizeof(class));
}

static void find_masks(const struct builder *b, const struct part *whole, struct layout *l)
{
	for (unsigned p = 0; p < b->positions; p++) {
		for (enum border o = 0; o < BORDERS; o++) {
			if (has_bit(whole->firsts, p) && holds(whole->first[p], o, kind_of(b, p)))
				set_bit(l->masks[MASK_FIRST + o], p);
			if (has_bit(whole->lasts, p) && holds(whole->last[p], kind_of(b, p), o))
				set_bit(l->masks[MASK_LAST + o], p);
		}
		if (has_bit(b->follow[p], p))
			set_bit(l->masks[MASK_LOOP], p);
		if (p + 1 < b->positions && has_bit(b->follow[p], p + 1))
			set_bit(l->masks[MASK_SHIFT], p);
	}
	l->rows = b->rows;
	memcpy(l->masks[MASK_ROWED], b->rowed, sizeof(b->rowed));
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
	for (unsigned c = 0; c < l->classes; c++)
		for (unsigned p = 0; p < b->positions; p++)
			if (b->set[p] & l->class[c])
				set_bit(sets + c * l->words, p);
	for (unsigned p = 0; p < b->positions; p++) {
		if (!has_bit(l->masks[MASK_ROWED], p))
			continue;
		memcpy(row, b->follow[p], l->words * sizeof(*out));
		row += l->words;
	}
}

static int assemble(const struct builder *b, const struct part *whole, uint64_t **ret, unsigned *ret_words)
{
	struct layout l = {.words = b->words};

	find_classes(b, &l);
	find_masks(b, whole, &l);
	l.total = SETS_AT + (MASKS + l.classes + l.rows) * l.words;
	*ret = calloc(l.total, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	*ret_words = l.total;
	write_program(b, whole, &l, *ret);
	return 0;
}

/* How many positions a subtree takes; more than NFA_POSITIONS_MAX are not told apart. */
static unsigned count_positions(const struct regex *rx, unsigned at)
{
	const struct regex_node *n = &rx->nodes[at];
	unsigned count = 0;

	if (n->kind == RX_SET)
		return 1 + (rx->has_word_edge && (n->set & SET_WORD) && (n->set & ~SET_WORD));
	for (unsigned c = n->child; c && count <= NFA_POSITIONS_MAX; c = rx->nodes[c].next)
		count += count_positions(rx, c);
	if (n->kind == RX_REPEAT)
		count *= n->max != REGEX_ENDLESS ? n->max : n->min ? n->min : 1;
	return count > NFA_POSITIONS_MAX ? NFA_POSITIONS_MAX + 1 : count;
}

int nfa_compile(const struct regex *rx, uint64_t **ret, unsigned *ret_words, const char **ret_why)
{
	unsigned positions = count_positions(rx, rx->root);
	struct part *whole = NULL;
	struct builder *b = NULL;
	int r = -ENOMEM;

	if (positions > NFA_POSITIONS_MAX) {
		*ret_why = too_large;
		return NW_EMALFORMED;
	}
	b = malloc(sizeof(*b));
	whole = malloc(sizeof(*whole));
	if (!b || !whole)
		goto end;
	b->rx = rx;
	b->positions = b->rows = 0;
	b->words = positions ? (positions + 63) / 64 : 1;
	b->steps = rx->count < NFA_BUILD_MAX / STEPS_OF_TEXT ? STEPS_OF_ANY + (int)rx->count * STEPS_OF_TEXT : NFA_BUILD_MAX;
	b->steps = b->steps < NFA_BUILD_MAX ? b->steps : NFA_BUILD_MAX;
	b->r = 0;
	b->why = NULL;
	memset(b->rowed, 0, sizeof(b->rowed));
	build(b, rx->root, whole);
	r = b->r;
	if (b->why)
		*ret_why = b->why;
	if (r == 0)
		r = assemble(b, whole, ret, ret_words);
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

void nfa_frame(const uint64_t *program, struct nfa_frame *ret)
{
	const uint8_t *class_of = (const uint8_t *)(program + 1);
	const uint64_t *masks = program + SETS_AT, *set;
	uint64_t first, last, all;
	struct head h;

	memcpy(&h, program, sizeof(h));
	*ret = (struct nfa_frame){.first = SET_OF(SYM_END), .last = SET_OF(SYM_BEGIN)};
	for (unsigned s = 0; s < SYMBOLS; s++) {
		set = masks + (MASKS + class_of[s]) * h.words;
		first = last = all = 0;
		for (unsigned w = 0; w < h.words; w++) {
			first |= set[w] & masks[(MASK_FIRST + BORDER_END) * h.words + w];
			last |= set[w] & masks[(MASK_LAST + BORDER_END) * h.words + w];
			all |= set[w];
		}
		ret->first |= first || !h.has_begin_only ? SET_OF(s) : 0;
		ret->last |= last || !h.has_end_only ? SET_OF(s) : 0;
		ret->all |= all || !h.has_begin_only || !h.has_end_only ? SET_OF(s) : 0;
	}
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
