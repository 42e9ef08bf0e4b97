/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cache: how much is kept and for how long. */
#include <string.h>
#include "config/load.h"

/* Rounded up to seconds. */
static void seconds_load(struct load *l, const struct node *n, uint64_t min_ms, uint64_t max_ms, uint32_t *ret_s)
{
	uint64_t ms;
	if (n && value_duration(l, n, min_ms, max_ms, &ms) == 0)
		*ret_s = (uint32_t)((ms + 999) / 1000);
}

int load_cache(struct load *l, const struct node *root)
{
	const struct node *cache = node_child(root, "cache"), *size = node_child(cache, "size"),
	                  *stale = node_child(cache, "serve-stale"), *prefetch = node_child(cache, "prefetch"),
	                  *ttl_min = node_child(cache, "ttl-min"), *ttl_max = node_child(cache, "ttl-max");
	struct cfg_cache *c = &l->c->cache;
	*c = (struct cfg_cache){.bytes = 64 << 20, .ttl_max_s = 86400, .negative_ttl_max_s = 3600};
	if (size)
		value_size(l, size, 1 << 20, 1ULL << 40, &c->bytes);
	if (stale && strcmp(stale->text, "off"))
		seconds_load(l, stale, 1000, 30 * DAY_MS, &c->serve_stale_s);
	if (prefetch)
		value_bool(l, prefetch, &c->prefetch);
	seconds_load(l, ttl_min, 0, HOUR_MS, &c->ttl_min_s);
	seconds_load(l, ttl_max, 1000, DAY_MS, &c->ttl_max_s);
	seconds_load(l, node_child(cache, "negative-ttl-max"), 0, HOUR_MS, &c->negative_ttl_max_s);
	if (c->ttl_min_s > c->ttl_max_s)
		report_add(l->r, true, &ttl_min->place, "`ttl-min`: `%.32s` is more than `ttl-max` (%s:%d:%d); make it smaller",
		        ttl_min->text, ttl_max->place.file, ttl_max->place.line, ttl_max->place.column);
	return 0;
}
