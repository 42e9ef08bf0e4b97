/* SPDX-License-Identifier: GPL-3.0-or-later */
/* local: what is answered here. The records themselves are in records.c. */
#include <errno.h>
#include <string.h>
#include "config/load.h"

static int hosts_load(struct load *l, const struct node *n, struct cfg_local *local)
{
	int r = values_path(l, n, &local->hosts, &local->host_count);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < local->host_count; i++)
		for (unsigned j = 0; j < i; j++)
			if (!strcmp(local->hosts[i], local->hosts[j])) {
				report_add(l->r, true, &n->place, "`hosts`: %.200s stands here twice; take one out", local->hosts[i]);
				return 0;
			}
	return 0;
}

int load_local(struct load *l, const struct node *root)
{
	const struct node *node = node_child(root, "local"), *domain = node_child(node, "domain"),
	                  *rebind = node_child(node, "rebind-protection");
	struct cfg_local *local = &l->c->local;
	if (domain)
		local->has_domain = value_name(l, domain, &local->domain) == 0;
	local->is_rebind_protected = rebind;
	int r = hosts_load(l, node_child(node, "hosts"), local);
	if (r >= 0)
		r = values_name(l, node_child(rebind, "allow"), &local->rebind_allow, &local->rebind_allow_count);
	return r < 0 ? r : records_load(l, node_child(node, "records"));
}
