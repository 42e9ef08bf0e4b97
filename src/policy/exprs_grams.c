/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which of many fixed parts occur in a name. Of each part one gram is chosen, four symbols in a row (three or two where the part has no more), the one that
 * the fewest other parts have; parts lie sorted by their gram. A look-up slides over the name, six bits a symbol, and asks a bitmap at each place; what it
 * lets through is looked up in a table {gram, first part, number of parts}, and only there parts are compared whole. So the cost for a name in which
 * nothing occurs does not grow with the number of parts, until the bitmaps leave the processor's cache. Built once, then read-only; any thread. */
#include <stdlib.h>
#include <string.h>

#include "policy/exprs_private.h"

enum {
	GRAM_MIN = 2,
	GRAM_MAX = 4,
	GRAM_LENGTHS = GRAM_MAX - GRAM_MIN + 1,
	SYMBOL_BITS = 6,
	FILTER_BITS_MIN = 12,
	FILTER_BITS_MAX = 23,
	COUNTER_BITS_MAX = 20,
	STEPS_OF_PART = 4,
	STEPS_OF_HIT = 8
};

struct slot {
	uint32_t gram, first, count;
};
struct filter {
	uint64_t *bits;
	unsigned shift;
	size_t words;
};
struct grams {
	struct gram_part *parts;
	uint8_t *bytes;
	size_t count, bytes_len, slot_mask;
	struct slot *slots;
	struct filter filters[GRAM_LENGTHS];
};

static uint32_t mix(uint32_t gram, unsigned shift)
{
	return (gram * 0x9e3779b1u) >> shift;
}

static uint32_t code_mask(unsigned gram_len)
{
	return (1u << (gram_len * SYMBOL_BITS)) - 1;
}

/* The length stands above the symbols, so grams of different lengths differ. */
static uint32_t gram_of(const uint8_t *s, unsigned len)
{
	uint32_t code = 0;

	for (unsigned i = 0; i < len; i++)
		code = code << SYMBOL_BITS | s[i];
	return code | len << (GRAM_MAX * SYMBOL_BITS);
}

static unsigned bits_for(size_t items, unsigned per_item, unsigned min, unsigned max)
{
	unsigned bits = min;

	while (bits < max && (1ull << bits) < items * per_item)
		bits++;
	return bits;
}

/* --- Building --- */

static unsigned gram_len_of(const struct gram_part *p)
{
	return p->len < GRAM_MAX ? p->len : GRAM_MAX;
}

/* What stands in many names anywhere. */
static bool is_common(uint32_t gram)
{
	static const char *const texts[] = {".com", ".net", ".org", "www.", ".co.", ".cdn", ".api"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		uint8_t s[GRAM_MAX + 1];

		for (unsigned k = 0; k < GRAM_MAX; k++)
			s[k] = expr_symbol[(uint8_t)texts[i][k]];
		s[GRAM_MAX] = SYM_END;
		if (gram == gram_of(s, GRAM_MAX) || gram == gram_of(s + 1, GRAM_MAX))
			return true;
	}
	return false;
}

static void choose(struct gram_part *p, const uint8_t *s, const uint32_t *counters, unsigned shift)
{
	unsigned len = gram_len_of(p);
	uint64_t best = UINT64_MAX, cost;
	uint32_t gram;

	for (unsigned at = 0; at + len <= p->len; at++) {
		gram = gram_of(s + at, len);
		cost = counters[mix(gram, shift)] + (is_common(gram) ? 1ull << 32 : 0);
		if (cost >= best)
			continue;
		best = cost;
		p->gram = gram;
		p->gram_at = (uint8_t)at;
	}
}

static bool choose_grams(struct grams *g)
{
	unsigned bits = bits_for(g->count, 16, FILTER_BITS_MIN, COUNTER_BITS_MAX), shift = 32 - bits;
	uint32_t *counters = calloc((size_t)1 << bits, sizeof(*counters));

	if (!counters)
		return false;
	for (size_t i = 0; i < g->count; i++) {
		const struct gram_part *p = &g->parts[i];
		unsigned len = gram_len_of(p);

		for (unsigned at = 0; at + len <= p->len; at++)
			counters[mix(gram_of(g->bytes + p->at + at, len), shift)]++;
		if (p->at + p->len > g->bytes_len)
			g->bytes_len = p->at + p->len;
	}
	for (size_t i = 0; i < g->count; i++)
		choose(&g->parts[i], g->bytes + g->parts[i].at, counters, shift);
	free(counters);
	return true;
}

static int by_gram(const void *a, const void *b)
{
	const struct gram_part *x = a, *y = b;

	if (x->gram != y->gram)
		return x->gram < y->gram ? -1 : 1;
	return x->pattern < y->pattern ? -1 : x->pattern > y->pattern;
}

static bool make_filters(struct grams *g)
{
	size_t counts[GRAM_LENGTHS] = {0};

	for (size_t i = 0; i < g->count; i++)
		counts[gram_len_of(&g->parts[i]) - GRAM_MIN]++;
	for (unsigned k = 0; k < GRAM_LENGTHS; k++) {
		unsigned bits = bits_for(counts[k], 16, FILTER_BITS_MIN, FILTER_BITS_MAX);

		if (!counts[k])
			continue;
		g->filters[k] = (struct filter){.shift = 32 - bits, .words = ((size_t)1 << bits) / 64};
		g->filters[k].bits = calloc(g->filters[k].words, sizeof(uint64_t));
		if (!g->filters[k].bits)
			return false;
	}
	for (size_t i = 0; i < g->count; i++) {
		struct filter *f = &g->filters[gram_len_of(&g->parts[i]) - GRAM_MIN];
		uint32_t bit = mix(g->parts[i].gram, f->shift);

		f->bits[bit / 64] |= 1ull << (bit % 64);
	}
	return true;
}

static struct slot *slot_of(const struct grams *g, uint32_t gram)
{
	size_t at = mix(gram, 7) & g->slot_mask; /* not the bits that a filter took */

	while (g->slots[at].count && g->slots[at].gram != gram)
		at = (at + 1) & g->slot_mask;
	return &g->slots[at];
}

static bool make_slots(struct grams *g)
{
	g->slot_mask = 15;
	while (g->slot_mask < g->count * 2)
		g->slot_mask = g->slot_mask * 2 + 1;
	g->slots = calloc(g->slot_mask + 1, sizeof(*g->slots));
	if (!g->slots)
		return false;
	for (size_t i = 0; i < g->count; i++) {
		struct slot *s = slot_of(g, g->parts[i].gram);

		if (!s->count)
			*s = (struct slot){.gram = g->parts[i].gram, .first = (uint32_t)i};
		s->count++;
	}
	return true;
}

struct grams *grams_build(struct gram_part *parts, size_t count, uint8_t *bytes)
{
	struct grams *g = calloc(1, sizeof(*g));

	if (!g) {
		free(parts);
		free(bytes);
		return NULL;
	}
	g->parts = parts;
	g->count = count;
	g->bytes = bytes;
	if (choose_grams(g)) {
		qsort(parts, count, sizeof(*parts), by_gram);
		if (make_filters(g) && make_slots(g))
			return g;
	}
	grams_free(g);
	return NULL;
}

void grams_free(struct grams *g)
{
	if (!g)
		return;
	for (unsigned k = 0; k < GRAM_LENGTHS; k++)
		free(g->filters[k].bits);
	free(g->slots);
	free(g->parts);
	free(g->bytes);
	free(g);
}

size_t grams_bytes(const struct grams *g)
{
	size_t all = sizeof(*g) + g->count * sizeof(*g->parts) + g->bytes_len + (g->slot_mask + 1) * sizeof(*g->slots);

	for (unsigned k = 0; k < GRAM_LENGTHS; k++)
		all += g->filters[k].words * sizeof(uint64_t);
	return all;
}

/* --- Looking --- */

struct looking {
	const struct grams *g;
	const uint8_t *symbols; /* with the begin before and the end behind */
	unsigned len;
	int *steps;
	void (*fn)(void *ctx, uint32_t pattern);
	void *ctx;
};

/* A gram of the name, which ends before `end`, is some part's. */
static void compare(const struct looking *l, uint32_t gram, unsigned gram_len, unsigned end)
{
	const struct slot *s = slot_of(l->g, gram);

	for (uint32_t i = s->first; i < s->first + s->count && *l->steps >= 0; i++) {
		const struct gram_part *p = &l->g->parts[i];
		unsigned at = end - gram_len;

		*l->steps -= STEPS_OF_PART;
		if (at < p->gram_at || at - p->gram_at + p->len > l->len)
			continue;
		if (memcmp(l->symbols + at - p->gram_at, l->g->bytes + p->at, p->len) != 0)
			continue;
		*l->steps -= STEPS_OF_HIT;
		l->fn(l->ctx, p->pattern);
	}
}

void grams_look(const struct grams *g, const uint8_t *symbols, unsigned len, int *steps, void (*fn)(void *ctx, uint32_t pattern),
        void *ctx)
{
	struct looking l = {.g = g, .symbols = symbols, .len = len, .steps = steps, .fn = fn, .ctx = ctx};
	uint32_t code = 0;

	for (unsigned i = 0; i < len; i++) {
		code = code << SYMBOL_BITS | symbols[i];
		for (unsigned k = 0; k < GRAM_LENGTHS && i + 1 >= k + GRAM_MIN; k++) {
			const struct filter *f = &g->filters[k];
			uint32_t gram = (code & code_mask(k + GRAM_MIN)) | (k + GRAM_MIN) << (GRAM_MAX * SYMBOL_BITS), bit;

			if (!f->bits)
				continue;
			bit = mix(gram, f->shift);
			if (f->bits[bit / 64] >> (bit % 64) & 1)
				compare(&l, gram, k + GRAM_MIN, i + 1);
		}
	}
}
