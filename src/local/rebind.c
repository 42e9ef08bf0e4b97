/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Rebind protection: what comes from outside must not lead a browser to hosts inside. Any thread. */
#include <string.h>
#include "local/local_private.h"

/* 64:ff9b::/96 (RFC 6052): a translator in the way would make an IPv4 address of it. */
static bool is_inside(const struct addr *a)
{
	static const uint8_t translated[12] = {0, 0x64, 0xff, 0x9b};
	struct addr v4 = {.family = AF_INET};

	if (addr_is_private(a))
		return true;
	if (a->family != AF_INET6 || memcmp(a->b, translated, sizeof translated))
		return false;
	memcpy(v4.b, a->b + 12, 4);
	return addr_is_private(&v4);
}

bool local_is_rebinding(
        const struct local *l, const struct name *const *chain, unsigned chain_len, const struct addr *addrs, unsigned addr_count)
{
	uint64_t hashes[NAME_LABELS_MAX + 1];
	uint32_t value;
	unsigned i = 0;

	if (!l->is_rebind_protected)
		return false;
	while (i < addr_count && !is_inside(&addrs[i]))
		i++;
	if (i == addr_count)
		return false;
	/* Who was asked counts: a stranger's alias to an allowed name is the attack. */
	if (!chain_len)
		return true;
	name_hash(chain[0], l->seed, hashes);
	return name_map_find_longest(l->rebind_allow, chain[0], hashes, 0, &value) < 0;
}
