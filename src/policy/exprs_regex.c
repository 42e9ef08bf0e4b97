/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Regular expressions to trees. The syntax is RE2's, which is what AdGuard's DNS filter takes: no back-references, no look-around. Case does not matter,
 * and a set of characters is a set of symbols (exprs_private.h), for a name has no others.
 *
 * A tree is an array of nodes; children hang in a chain, number 0 is nobody. No state; any thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "policy/exprs_private.h"

#define L(upper, lower, n) [upper] = SYM_A + (n), [lower] = SYM_A + (n)
const uint8_t expr_symbol[256] = {L('A', 'a', 0), L('B', 'b', 1), L('C', 'c', 2), L('D', 'd', 3), L('E', 'e', 4), L('F', 'f', 5),
        L('G', 'g', 6), L('H', 'h', 7), L('I', 'i', 8), L('J', 'j', 9), L('K', 'k', 10), L('L', 'l', 11), L('M', 'm', 12),
        L('N', 'n', 13), L('O', 'o', 14), L('P', 'p', 15), L('Q', 'q', 16), L('R', 'r', 17), L('S', 's', 18), L('T', 't', 19),
        L('U', 'u', 20), L('V', 'v', 21), L('W', 'w', 22), L('X', 'x', 23), L('Y', 'y', 24), L('Z', 'z', 25), ['0'] = SYM_0,
        ['1'] = SYM_0 + 1, ['2'] = SYM_0 + 2, ['3'] = SYM_0 + 3, ['4'] = SYM_0 + 4, ['5'] = SYM_0 + 5, ['6'] = SYM_0 + 6,
        ['7'] = SYM_0 + 7, ['8'] = SYM_0 + 8, ['9'] = SYM_0 + 9, ['-'] = SYM_DASH, ['_'] = SYM_UNDERSCORE, ['.'] = SYM_DOT};
#undef L

struct reader {
	struct regex *rx;
	const char *p, *end;
	const char *why; /* of the first fault */
	int depth;
};

static unsigned fault(struct reader *in, const char *why)
{
	if (!in->why)
		in->why = why;
	in->p = in->end;
	return 0;
}

static unsigned node(struct reader *in, enum regex_kind kind)
{
	struct regex *rx = in->rx;

	if (rx->count == rx->cap)
		return fault(in, "the expression is too large");
	rx->nodes[rx->count] = (struct regex_node){.kind = (uint8_t)kind};
	return rx->count++;
}

static unsigned set_node(struct reader *in, uint64_t set)
{
	unsigned n = node(in, RX_SET);

	if (n)
		in->rx->nodes[n].set = set;
	return n;
}

/* --- Characters --- */

enum { ESCAPE_SET, ESCAPE_CHAR, ESCAPE_EDGE, ESCAPE_BAD };

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
}

/* Behind "\x". */
static int hex_escape(struct reader *in)
{
	bool is_braced = in->p < in->end && *in->p == '{';
	int value = 0, digits = 0;

	in->p += is_braced;
	while (in->p < in->end && hex_digit(*in->p) >= 0 && digits < (is_braced ? 6 : 2)) {
		value = value * 16 + hex_digit(*in->p++);
		digits++;
	}
	if (digits == 0 || (!is_braced && digits != 2) || (is_braced && (in->p == in->end || *in->p++ != '}')))
		return -1;
	return value < 0x80 ? value : 0x80;
}

/* Behind a backslash. *ret_set: the class, or one symbol's; *ret_char the byte. */
static int escape(struct reader *in, uint64_t *ret_set, int *ret_char)
{
	static const char controls[] = "a\af\ft\tn\nr\rv\v";
	char c = *in->p++;
	const char *control;

	switch (c) {
	case 'd':
	case 'D':
		*ret_set = c == 'd' ? SET_DIGITS : SET_ALL & ~SET_DIGITS;
		return ESCAPE_SET;
	case 'w':
	case 'W':
		*ret_set = c == 'w' ? SET_WORD : SET_ALL & ~SET_WORD;
		return ESCAPE_SET;
	case 's':
	case 'S':
		*ret_set = c == 's' ? 0 : SET_ALL;
		return ESCAPE_SET;
	case 'b':
	case 'B':
	case 'A':
	case 'z':
		*ret_char = c;
		return ESCAPE_EDGE;
	case 'x':
		*ret_char = hex_escape(in);
		return *ret_char < 0 ? ESCAPE_BAD : ESCAPE_CHAR;
	default:
		break;
	}
	control = strchr(controls, c);
	if (c && control && (control - controls) % 2 == 0)
		c = control[1];
	else if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
		return ESCAPE_BAD;
	*ret_char = (uint8_t)c;
	return ESCAPE_CHAR;
}

static const char *why_of_escape(char c)
{
	return c >= '1' && c <= '9' ? "a back-reference: AdGuard's DNS filter has none either" : "an escape that is not known";
}

/* Bytes as symbols: those that no name has are one, and are in the set only when nearly all of them are (a negated set, '.'). */
static uint64_t set_of_char(int c)
{
	return c >= 0 && c < 256 && expr_symbol[c] ? SET_OF(expr_symbol[c]) : 0;
}

static uint64_t set_of_range(int from, int to)
{
	uint64_t set = 0;

	for (int c = from; c <= to && c < 256; c++)
		set |= set_of_char(c);
	return set;
}

/* "[:alpha:]" at in->p. False: it is not one of these. */
static bool posix_class(struct reader *in, uint64_t *ret)
{
	static const struct {
		const char *name;
		uint64_t set;
	} classes[] = {{"alpha", SET_LETTERS}, {"lower", SET_LETTERS}, {"upper", SET_LETTERS}, {"digit", SET_DIGITS},
	        {"alnum", SET_LETTERS | SET_DIGITS}, {"word", SET_WORD}, {"ascii", SET_ALL & ~SET_OF(SYM_OTHER)}, {"space", 0},
	        {"blank", 0}, {"cntrl", 0}, {"xdigit", SET_DIGITS | (63ull << SYM_A)},
	        {"punct", SET_OF(SYM_DASH) | SET_OF(SYM_UNDERSCORE) | SET_OF(SYM_DOT)}, {"graph", SET_ALL & ~SET_OF(SYM_OTHER)},
	        {"print", SET_ALL & ~SET_OF(SYM_OTHER)}};
	const char *close = memmem(in->p, (size_t)(in->end - in->p), ":]", 2), *name = in->p + 2;
	bool is_not;

	if (in->end - in->p < 4 || in->p[1] != ':' || !close)
		return false;
	is_not = *name == '^';
	name += is_not;
	for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++) {
		if ((size_t)(close - name) != strlen(classes[i].name) ||
		        memcmp(name, classes[i].name, strlen(classes[i].name)) != 0)
			continue;
		*ret |= is_not ? SET_ALL & ~classes[i].set : classes[i].set;
		in->p = close + 2;
		return true;
	}
	return false;
}

/* One character of a class; -1: a set was added instead, or a fault. */
static int class_char(struct reader *in, uint64_t *set)
{
	uint64_t escaped = 0;
	int c;

	if (*in->p != '\\')
		return (uint8_t)*in->p++;
	if (++in->p == in->end) {
		fault(in, "a backslash at the end");
		return -1;
	}
	switch (escape(in, &escaped, &c)) {
	case ESCAPE_CHAR:
		return c;
	case ESCAPE_SET:
		*set |= escaped;
		return -1;
	default:
		fault(in, "an escape that a set cannot have");
		return -1;
	}
}

/* Behind '['. */
static unsigned class(struct reader *in)
{
	bool is_not = in->p < in->end && *in->p == '^', is_first = true;
	uint64_t set = 0;
	int from, to;

	for (in->p += is_not; in->p < in->end && (is_first || *in->p != ']'); is_first = false) {
		if (*in->p == '[' && posix_class(in, &set))
			continue;
		from = to = class_char(in, &set);
		if (in->end - in->p > 1 && *in->p == '-' && in->p[1] != ']') {
			in->p++;
			to = class_char(in, &set);
			if (from < 0 || to < from)
				return fault(in, "a range that is none");
		}
		set |= set_of_range(from, to);
	}
	if (in->p == in->end)
		return fault(in, "a set without its end");
	in->p++;
	return set_node(in, is_not ? SET_ALL & ~set : set);
}

/* --- Structure --- */

static unsigned alternatives(struct reader *in);

/* Behind "(?": "i:", "i)", ":", "P<name>", "<name>". 0 with *ret_done: only flags stood there. */
static bool group_head(struct reader *in, bool *ret_done)
{
	const char *close;

	*ret_done = false;
	if (in->p < in->end && (*in->p == '=' || *in->p == '!'))
		return fault(in, "look-around: AdGuard's DNS filter has none either");
	if (in->p + 1 < in->end && *in->p == '<' && (in->p[1] == '=' || in->p[1] == '!'))
		return fault(in, "look-around: AdGuard's DNS filter has none either");
	if (in->p < in->end && (*in->p == 'P' || *in->p == '<')) {
		close = memchr(in->p, '>', (size_t)(in->end - in->p));
		if (!close || (*in->p == 'P' && in->p[1] != '<'))
			return fault(in, "a group that is not known");
		in->p = close + 1;
		return true;
	}
	while (in->p < in->end && strchr("imsU", *in->p) && *in->p)
		in->p++;
	if (in->p == in->end || (*in->p != ':' && *in->p != ')'))
		return fault(in, "a group that is not known");
	*ret_done = *in->p++ == ')';
	return true;
}

/* Behind '('. */
static unsigned group(struct reader *in)
{
	bool is_done = false;
	unsigned n;

	if (in->p < in->end && *in->p == '?') {
		in->p++;
		if (!group_head(in, &is_done))
			return 0;
	}
	if (is_done)
		return node(in, RX_EMPTY);
	if (++in->depth > REGEX_DEPTH_MAX)
		return fault(in, "groups in groups too deep");
	n = alternatives(in);
	in->depth--;
	if (!n || in->p == in->end || *in->p != ')')
		return fault(in, "a group without its end");
	in->p++;
	return n;
}

static unsigned escaped_atom(struct reader *in)
{
	uint64_t set = 0;
	int c;

	if (in->p == in->end)
		return fault(in, "a backslash at the end");
	c = (uint8_t)*in->p;
	switch (escape(in, &set, &c)) {
	case ESCAPE_SET:
		return set_node(in, set);
	case ESCAPE_CHAR:
		return set_node(in, set_of_char(c));
	case ESCAPE_EDGE:
		in->rx->has_word_edge |= c == 'b' || c == 'B';
		return node(in, c == 'b' ? RX_WORD_EDGE : c == 'B' ? RX_NO_WORD_EDGE : c == 'A' ? RX_BEGIN : RX_END);
	default:
		return fault(in, why_of_escape((char)c));
	}
}

static unsigned atom(struct reader *in)
{
	char c = *in->p++;

	switch (c) {
	case '(':
		return group(in);
	case '[':
		return class(in);
	case '.':
		return set_node(in, SET_ALL);
	case '^':
		return node(in, RX_BEGIN);
	case '$':
		return node(in, RX_END);
	case '\\':
		return escaped_atom(in);
	case '*':
	case '+':
	case '?':
		return fault(in, "a repetition of nothing");
	default:
		return set_node(in, set_of_char((uint8_t)c));
	}
}

static bool number(const char **p, const char *end, unsigned *ret)
{
	const char *s = *p;

	for (*ret = 0; *p < end && **p >= '0' && **p <= '9' && *ret <= REGEX_REPEAT_MAX; ++*p)
		*ret = *ret * 10 + (unsigned)(**p - '0');
	return *p > s;
}

/* "{2}", "{2,}", "{2,5}" at in->p; false: a brace that is only a character. */
static bool braces(struct reader *in, unsigned *ret_min, unsigned *ret_max)
{
	const char *p = in->p + 1;

	if (!number(&p, in->end, ret_min))
		return false;
	*ret_max = *ret_min;
	if (p < in->end && *p == ',') {
		p++;
		if (!number(&p, in->end, ret_max))
			*ret_max = REGEX_ENDLESS;
	}
	if (p == in->end || *p != '}')
		return false;
	in->p = p + 1;
	if (*ret_min > REGEX_REPEAT_MAX || (*ret_max != REGEX_ENDLESS && (*ret_max > REGEX_REPEAT_MAX || *ret_max < *ret_min)))
		fault(in, "a repetition out of range");
	return true;
}

static bool repetition(struct reader *in, unsigned *ret_min, unsigned *ret_max)
{
	if (in->p == in->end)
		return false;
	if (*in->p == '{')
		return braces(in, ret_min, ret_max);
	*ret_min = *in->p == '+';
	*ret_max = *in->p == '?' ? 1 : REGEX_ENDLESS;
	if (*in->p != '*' && *in->p != '+' && *in->p != '?')
		return false;
	in->p++;
	return true;
}

static unsigned repeated(struct reader *in)
{
	unsigned n = atom(in), min, max, outer;

	if (!n || !repetition(in, &min, &max))
		return n;
	if (in->p < in->end && *in->p == '?') /* lazy: which match is found does not matter */
		in->p++;
	outer = node(in, RX_REPEAT);
	if (!outer)
		return 0;
	in->rx->nodes[outer].child = (uint16_t)n;
	in->rx->nodes[outer].min = (uint16_t)min;
	in->rx->nodes[outer].max = (uint16_t)max;
	if (repetition(in, &min, &max))
		return fault(in, "a repetition of a repetition");
	return outer;
}

/* Children are chained behind `parent`; one child alone takes the parent's place. */
static unsigned chain(
        struct reader *in, enum regex_kind kind, unsigned (*next)(struct reader *), bool (*goes_on)(struct reader *))
{
	unsigned parent = node(in, kind), last = 0, n;

	if (!parent)
		return 0;
	do {
		n = next(in);
		if (!n)
			return 0;
		if (last)
			in->rx->nodes[last].next = (uint16_t)n;
		else
			in->rx->nodes[parent].child = (uint16_t)n;
		last = n;
	} while (goes_on(in));
	return in->rx->nodes[parent].child == last ? last : parent;
}

static bool has_atom(struct reader *in)
{
	return in->p < in->end && *in->p != '|' && *in->p != ')';
}

static bool takes_bar(struct reader *in)
{
	if (in->p == in->end || *in->p != '|')
		return false;
	in->p++;
	return true;
}

static unsigned sequence(struct reader *in)
{
	return has_atom(in) ? chain(in, RX_CAT, repeated, has_atom) : node(in, RX_EMPTY);
}

static unsigned alternatives(struct reader *in)
{
	return chain(in, RX_ALT, sequence, takes_bar);
}

int regex_parse(struct regex *ret, const char *text, size_t len, const char **ret_why)
{
	struct reader in = {.rx = ret, .p = text, .end = text + len};

	*ret = (struct regex){.count = 1, .cap = (unsigned)len * 3 + 16};
	ret->nodes = calloc(ret->cap, sizeof(*ret->nodes));
	if (!ret->nodes)
		return -ENOMEM;
	ret->root = alternatives(&in);
	if (!in.why && in.p < in.end)
		fault(&in, "a ')' without its '('");
	if (!in.why && ret->root)
		return 0;
	regex_free(ret);
	*ret_why = in.why ? in.why : "the expression is too large";
	return NW_EMALFORMED;
}

void regex_free(struct regex *rx)
{
	free(rx->nodes);
	rx->nodes = NULL;
}
