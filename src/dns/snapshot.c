/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Compiling a configuration into what workers judge by. The compiler thread. */
#include "dns/snapshot.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Split DNS. Without any domain there is no table, and no look-up. */
static int map_domains(struct snapshot *s, uint64_t seed)
{
	const struct config *c = s->config;
	uint32_t *group;
	for (unsigned i = 0; i < c->upstream_count; i++)
		for (unsigned k = 0; k < c->upstreams[i].domain_count; k++) {
			if (!s->domains && !(s->domains = name_map_new(seed)))
				return -ENOMEM;
			if (name_map_put(s->domains, &c->upstreams[i].domains[k], i, &group) < 0)
				return -ENOMEM;
		}
	return 0;
}

int snapshot_compile(struct snapshot *s, struct index *ix, const struct prefixes *const *prefixes, const struct exprs *const *exprs, uint64_t name_seed)
{
	const struct config *c = s->config;
	s->group_id = calloc(c->upstream_count + 1, sizeof *s->group_id);
	s->filter_text = calloc(c->filter_count + 1, sizeof *s->filter_text);
	if (!s->group_id || !s->filter_text || macmap_build(&s->macs, c) < 0 || map_domains(s, name_seed) < 0 || policy_new(&s->policy, c, ix, s->slots, prefixes, exprs) < 0)
		return -ENOMEM;
	for (unsigned i = 0; i < c->filter_count; i++)
		snprintf(s->filter_text[i], sizeof s->filter_text[i], "%s by %.48s", c->filters[i].block == BLOCK_ANSWER || c->filters[i].block == BLOCK_CNAME ? "rewritten" : "blocked",
			c->filters[i].name ? c->filters[i].name : "a filter rule");
	return 0;
}

void snapshot_free(struct snapshot *s, bool with_config)
{
	if (!s)
		return;
	policy_free(s->policy);
	name_map_free(s->domains);
	macmap_free(&s->macs);
	if (with_config)
		config_free(s->config);
	free(s->group_id);
	free(s->filter_text);
	free(s);
}
