/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A matcher that is obviously right, to judge the index by: kinds by name and list in one table over a fixed universe of names,
 * every question answered label by label. Shared by the unit tests and the fuzzer. */
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "policy/index.h"

enum { NAIVE_NAMES = 400, NAIVE_LISTS = 5 };
static const unsigned naive_slot[NAIVE_LISTS] = {0, 1, 63, 64, 255};

struct naive {
	struct name name[NAIVE_NAMES];
	uint8_t kinds[NAIVE_NAMES][NAIVE_LISTS];
};

static const char *const naive_labels[] = {"a", "b", "c-longer-label", "dd"};

/* The root is number 0; name i with label k before it is number 4 i + k + 1. So every name has its parents in the universe, most
 * have children. */
static inline void naive_init(struct naive *m)
{
	char text[NAME_TEXT_MAX], parent[NAME_TEXT_MAX];

	memset(m, 0, sizeof(*m));
	for (unsigned i = 0; i < NAIVE_NAMES; i++) {
		snprintf(text, sizeof(text), "%s.%.900s", i ? naive_labels[(i - 1) % 4] : "",
			i > 4 ? name_to_text(parent, m->name[(i - 1) / 4].wire) : "");
		if (name_from_text(&m->name[i], text, strlen(text)) < 0)
			abort();
	}
}

/* The number of the suffix of n that starts at label i, or -1. */
static inline int naive_find(const struct naive *m, const struct name *n, unsigned i)
{
	unsigned number = 0, len = n->len - n->offset[i];

	for (unsigned at = n->labels; at > i && number < NAIVE_NAMES; at--)
		for (unsigned k = 0; k < 4; k++)
			if (n->wire[n->offset[at - 1] + 1] == naive_labels[k][0]) {
				number = 4 * number + k + 1;
				break;
			}
	if (number >= NAIVE_NAMES || m->name[number].len != len || memcmp(m->name[number].wire, n->wire + n->offset[i], len) != 0)
		return -1;
	return (int)number;
}

/* The label of the first name on the way to the root that the list allows, or -1. */
static inline int naive_allows(const struct naive *m, const struct name *n, unsigned list)
{
	for (unsigned i = 0; i <= n->labels; i++) {
		int found = naive_find(m, n, i);

		if (found >= 0 && m->kinds[found][list] & KIND_ALLOW)
			return (int)i;
	}
	return -1;
}

/* The kinds that decide about n among listings and exemptions of one list, and the label of the deciding entry; 0: none. */
static inline unsigned naive_decides(const struct naive *m, const struct name *n, unsigned list, unsigned *ret_label)
{
	for (unsigned i = 0; i <= n->labels; i++) {
		int found = naive_find(m, n, i);
		unsigned kinds = found < 0 ? 0 : m->kinds[found][list], multi = kinds & KIND_MULTI;

		kinds &= i == 0 ? 15 : KIND_SUFFIX | KIND_EXEMPT;
		if (!kinds)
			continue;
		*ret_label = i;
		if (kinds & (KIND_EXEMPT | KIND_EXEMPT_EXACT))
			kinds &= KIND_EXEMPT | KIND_EXEMPT_EXACT;
		return kinds | multi;
	}
	return 0;
}

static inline void naive_add(struct naive *m, unsigned i, unsigned list, unsigned kinds)
{
	m->kinds[i][list] |= kinds;
	if (m->kinds[i][list] == KIND_MULTI)
		m->kinds[i][list] = 0;
}

/* What index_remove must return as far as the outcome goes: false is -ENOENT. */
static inline bool naive_remove(struct naive *m, unsigned i, unsigned list, unsigned kinds)
{
	uint8_t before = m->kinds[i][list];

	m->kinds[i][list] &= ~kinds;
	if (m->kinds[i][list] == KIND_MULTI)
		m->kinds[i][list] = 0;
	return m->kinds[i][list] != before;
}

/* Compares all that the index says about one name at one generation. Returns a text when it is wrong, NULL when right. */
static inline const char *naive_differs(const struct naive *m, const struct index *ix, uint64_t gen, const struct name *n)
{
	uint64_t hashes[NAME_LABELS_MAX + 1];
	struct list_bits got, got_allowed, want = {0}, want_allowed = {0};
	unsigned label = 0, want_label = 0, kinds, want_kinds;

	name_hash(n, index_seed(ix), hashes);
	index_prefetch_entries(ix, n, hashes);
	index_lookup(ix, gen, n, hashes, &got, &got_allowed);
	for (unsigned l = 0; l < NAIVE_LISTS; l++) {
		int allow = naive_allows(m, n, l);

		for (unsigned i = 0; i <= n->labels; i++) {
			int found = naive_find(m, n, i);

			if (index_kinds_at(ix, gen, n, hashes, naive_slot[l], i) != (found < 0 ? 0 : m->kinds[found][l]))
				return "index_kinds_at";
		}
		want_kinds = naive_decides(m, n, l, &want_label);
		if (want_kinds & (KIND_SUFFIX | KIND_EXACT))
			list_bits_set(&want, naive_slot[l]);
		if (allow >= 0) {
			list_bits_set(&want_allowed, naive_slot[l]);
			want_label = (unsigned)allow;
			want_kinds = KIND_ALLOW | (m->kinds[naive_find(m, n, want_label)][l] & KIND_MULTI);
		}
		kinds = index_decides(ix, gen, n, hashes, naive_slot[l], &label);
		if (kinds != want_kinds || (kinds && label != want_label))
			return "index_decides";
	}
	if (memcmp(&got_allowed, &want_allowed, sizeof(got)))
		return "index_lookup: allowed";
	return memcmp(&got, &want, sizeof(got)) ? "index_lookup" : NULL;
}

/* Compares a whole settled index: every name of the universe, a child and a sibling that nobody lists, and the counters. */
static inline const char *naive_differs_anywhere(const struct naive *m, const struct index *ix, uint64_t gen)
{
	char text[NAME_TEXT_MAX], parent[NAME_TEXT_MAX];
	const char *wrong = NULL;
	uint64_t names = 0;
	struct index_stat st;
	struct name child;

	for (unsigned i = 0; i < NAIVE_NAMES && !wrong; i++) {
		wrong = naive_differs(m, ix, gen, &m->name[i]);
		snprintf(text, sizeof(text), "unlisted.%.900s", i ? name_to_text(parent, m->name[i].wire) : "");
		if (!wrong && name_from_text(&child, text, strlen(text)) == 0)
			wrong = naive_differs(m, ix, gen, &child);
	}
	for (unsigned l = 0; l < NAIVE_LISTS && !wrong; l++) {
		uint64_t count = 0;

		for (unsigned i = 0; i < NAIVE_NAMES; i++)
			count += m->kinds[i][l] != 0;
		if (index_count(ix, naive_slot[l]) != count)
			wrong = "index_count";
	}
	for (unsigned i = 0; i < NAIVE_NAMES; i++)
		names += memcmp(m->kinds[i], (uint8_t[NAIVE_LISTS]){0}, NAIVE_LISTS) != 0;
	index_stat(ix, &st);
	return wrong ? wrong : st.names != names ? "index_stat" : NULL;
}
