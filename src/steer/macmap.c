/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The sorted list of all MACs of all groups. Pure; immutable once built; any thread. */
#include "steer/macmap.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int by_bytes(const void *a, const void *b)
{
	return memcmp(a, b, 6);
}

int macmap_build(struct macmap *ret, const struct config *c)
{
	struct macmap m = { 0 };
	unsigned total = 0, kept = 0;

	for (unsigned g = 0; g < c->group_count; g++)
		total += c->groups[g].mac_count + c->groups[g].except_mac_count;
	if (total > 0) {
		m.macs = malloc((size_t)total * 6);
		if (!m.macs)
			return -ENOMEM;
	}
	for (unsigned g = 0; g < c->group_count; g++) {
		const struct cfg_group *x = &c->groups[g];
		for (unsigned i = 0; i < x->mac_count; i++)
			memcpy(m.macs[m.count++], x->macs[i], 6);
		for (unsigned i = 0; i < x->except_mac_count; i++)
			memcpy(m.macs[m.count++], x->except_macs[i], 6);
	}
	if (m.count > 1)
		qsort(m.macs, m.count, 6, by_bytes);
	for (unsigned i = 0; i < m.count; i++) {
		if (kept == 0 || memcmp(m.macs[kept - 1], m.macs[i], 6) != 0)
			memmove(m.macs[kept++], m.macs[i], 6);
	}
	m.count = kept;
	*ret = m;
	return 0;
}

void macmap_free(struct macmap *m)
{
	free(m->macs);
	memset(m, 0, sizeof(*m));
}

const uint8_t *macmap_mac(const struct macmap *m, uint32_t mark)
{
	const uint32_t class = mark & ~(uint32_t)MACMAP_MARK;

	if (!(mark & (uint32_t)MACMAP_MARK) || class == 0 || class > m->count)
		return NULL;
	return m->macs[class - 1];
}

uint32_t macmap_class(const struct macmap *m, const uint8_t mac[6])
{
	const uint8_t(*found)[6] = m->count ? bsearch(mac, m->macs, m->count, 6, by_bytes) : NULL;

	return found ? (uint32_t)(found - m->macs) + 1 : 0;
}
