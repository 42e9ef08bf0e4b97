/* SPDX-License-Identifier: GPL-3.0-or-later */
/* An open-addressed table of {hash, place of the name, value}; names lie one behind another in one array. */
#include "policy/name_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct slot {
	uint64_t hash;
	uint32_t at; /* of {length, wire bytes}, plus one; 0: free */
	uint32_t value;
};

struct name_map {
	uint64_t seed, label_mask[2]; /* numbers of labels that occur */
	struct slot *slots;
	size_t size, count; /* size: a power of two */
	uint8_t *names;
	size_t names_used, names_cap;
};

enum { SLOTS_FIRST = 16, NAMES_FIRST = 1024 };

struct name_map *name_map_new(uint64_t seed)
{
	struct name_map *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->seed = seed;
	m->size = SLOTS_FIRST;
	m->slots = calloc(m->size, sizeof(*m->slots));
	if (!m->slots) {
		free(m);
		return NULL;
	}
	return m;
}

void name_map_free(struct name_map *m)
{
	if (!m)
		return;
	free(m->slots);
	free(m->names);
	free(m);
}

bool name_map_is_empty(const struct name_map *m)
{
	return m->count == 0;
}

size_t name_map_bytes(const struct name_map *m)
{
	return sizeof(*m) + m->size * sizeof(*m->slots) + m->names_cap;
}

static bool is_at(const struct name_map *m, const struct slot *s, uint64_t hash, const uint8_t *wire, unsigned len)
{
	const uint8_t *n = m->names + s->at - 1;

	return s->hash == hash && n[0] == len && memcmp(n + 1, wire, len) == 0;
}

/* The slot of a name, or the free one where it goes. There is always a free one. */
static struct slot *search(const struct name_map *m, uint64_t hash, const uint8_t *wire, unsigned len)
{
	size_t i = hash & (m->size - 1);

	while (m->slots[i].at && !is_at(m, &m->slots[i], hash, wire, len))
		i = (i + 1) & (m->size - 1);
	return &m->slots[i];
}

static int grow_slots(struct name_map *m)
{
	struct name_map wider = {.size = m->size * 2, .names = m->names};
	size_t to;

	if (m->count + 1 <= m->size / 2)
		return 0;
	wider.slots = calloc(wider.size, sizeof(*wider.slots));
	if (!wider.slots)
		return -ENOMEM;
	for (size_t i = 0; i < m->size; i++) {
		if (!m->slots[i].at)
			continue;
		to = m->slots[i].hash & (wider.size - 1);
		while (wider.slots[to].at)
			to = (to + 1) & (wider.size - 1);
		wider.slots[to] = m->slots[i];
	}
	free(m->slots);
	m->slots = wider.slots;
	m->size = wider.size;
	return 0;
}

static int keep_name(struct name_map *m, const struct name *n, uint32_t *ret_at)
{
	size_t cap = m->names_cap ? m->names_cap : NAMES_FIRST;
	uint8_t *grown;

	while (m->names_used + n->len + 1 > cap)
		cap *= 2;
	if (cap >= UINT32_MAX)
		return -ENOMEM;
	if (cap != m->names_cap) {
		grown = realloc(m->names, cap);
		if (!grown)
			return -ENOMEM;
		m->names = grown;
		m->names_cap = cap;
	}
	*ret_at = (uint32_t)m->names_used + 1;
	m->names[m->names_used] = n->len;
	memcpy(m->names + m->names_used + 1, n->wire, n->len);
	m->names_used += n->len + 1u;
	return 0;
}

int name_map_put(struct name_map *m, const struct name *n, uint32_t value, uint32_t **ret_value)
{
	uint64_t hashes[NAME_LABELS_MAX + 1];
	struct slot *s;
	int r = grow_slots(m);

	if (r < 0)
		return r;
	name_hash(n, m->seed, hashes);
	s = search(m, hashes[0], n->wire, n->len);
	if (!s->at) {
		r = keep_name(m, n, &s->at);
		if (r < 0)
			return r;
		s->hash = hashes[0];
		s->value = value;
		m->count++;
		m->label_mask[n->labels / 64] |= 1ull << (n->labels % 64);
	}
	*ret_value = &s->value;
	return 0;
}

static bool is_worth_looking(const struct name_map *m, unsigned labels)
{
	return m->label_mask[labels / 64] >> (labels % 64) & 1;
}

void name_map_prefetch(const struct name_map *m, const struct name *n, const uint64_t *hashes, unsigned i)
{
	if (is_worth_looking(m, n->labels - i))
		__builtin_prefetch(&m->slots[hashes[i] & (m->size - 1)]);
}

bool name_map_find(const struct name_map *m, const struct name *n, const uint64_t *hashes, unsigned i, uint32_t *ret_value)
{
	const struct slot *s;

	if (!is_worth_looking(m, n->labels - i))
		return false;
	s = search(m, hashes[i], n->wire + n->offset[i], n->len - n->offset[i]);
	if (!s->at)
		return false;
	*ret_value = s->value;
	return true;
}

int name_map_find_longest(
	const struct name_map *m, const struct name *n, const uint64_t *hashes, unsigned from, uint32_t *ret_value)
{
	for (unsigned i = from; i <= n->labels; i++)
		if (name_map_find(m, n, hashes, i, ret_value))
			return (int)i;
	return -1;
}
