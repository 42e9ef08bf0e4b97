/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The MACs of all groups, sorted by their numbers. A number is a hash of the address, not its place: a packet that was marked by one configuration and
 * is read by the next is still understood. Two addresses that meet (one chance in 2^31 a pair) take neighbouring numbers. Pure; immutable once built; any thread. */
#include "steer/macmap.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"

static int by_number(const void *a, const void *b)
{
	const struct macmap_entry *x = a, *y = b;

	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return memcmp(x->mac, y->mac, sizeof(x->mac));
}

static uint32_t number_of(const uint8_t mac[6])
{
	const uint32_t number = (uint32_t)hash_bytes(mac, 6, 0) & ~(uint32_t)MACMAP_MARK;

	return number ? number : 1;
}

static void add(struct macmap *m, const uint8_t (*macs)[6], unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct macmap_entry *e = &m->v[m->count++];
		memcpy(e->mac, macs[i], sizeof(e->mac));
		e->number = number_of(macs[i]);
	}
}

int macmap_build(struct macmap *ret, const struct config *c)
{
	struct macmap m = { 0 };
	unsigned total = 0, kept = 0;

	for (unsigned g = 0; g < c->group_count; g++)
		total += c->groups[g].mac_count + c->groups[g].except_mac_count;
	if (total > 0) {
		m.v = calloc(total, sizeof(*m.v));
		if (!m.v)
			return -ENOMEM;
	}
	for (unsigned g = 0; g < c->group_count; g++) {
		add(&m, (const uint8_t(*)[6])c->groups[g].macs, c->groups[g].mac_count);
		add(&m, (const uint8_t(*)[6])c->groups[g].except_macs, c->groups[g].except_mac_count);
	}
	if (m.count > 1)
		qsort(m.v, m.count, sizeof(*m.v), by_number);
	for (unsigned i = 0; i < m.count; i++) {
		if (kept > 0 && memcmp(m.v[kept - 1].mac, m.v[i].mac, 6) == 0)
			continue;
		m.v[kept] = m.v[i];
		if (kept > 0 && m.v[kept].number <= m.v[kept - 1].number)
			m.v[kept].number = m.v[kept - 1].number + 1;
		kept++;
	}
	m.count = kept;
	*ret = m;
	return 0;
}

void macmap_free(struct macmap *m)
{
	free(m->v);
	memset(m, 0, sizeof(*m));
}

const uint8_t *macmap_mac(const struct macmap *m, uint32_t mark)
{
	const uint32_t number = mark & ~(uint32_t)MACMAP_MARK;
	unsigned low = 0, high = m->count;

	if (!(mark & (uint32_t)MACMAP_MARK) || number == 0)
		return NULL;
	while (low < high) {
		const unsigned at = (low + high) / 2;
		if (m->v[at].number < number)
			low = at + 1;
		else
			high = at;
	}
	return low < m->count && m->v[low].number == number ? m->v[low].mac : NULL;
}
