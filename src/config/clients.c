/* SPDX-License-Identifier: GPL-3.0-or-later */
/* clients: groups of those who ask. */
#include <errno.h>
#include "config/load.h"

static int group_load(struct load *l, const struct node *n, struct cfg_group *g)
{
	int r = 0;
	g->place = n->key_place;
	g->name = n->key;
	if (!r)
		r = values_ifname(l, node_child(n, "interfaces"), &g->interfaces, &g->interface_count);
	if (!r)
		r = values_ifname(l, node_child(n, "except-interfaces"), &g->except_interfaces, &g->except_interface_count);
	if (!r)
		r = values_prefix(l, node_child(n, "networks"), &g->networks, &g->network_count);
	if (!r)
		r = values_prefix(l, node_child(n, "except-networks"), &g->except_networks, &g->except_network_count);
	if (!r)
		r = values_mac(l, node_child(n, "macs"), &g->macs, &g->mac_count);
	if (!r)
		r = values_mac(l, node_child(n, "except-macs"), &g->except_macs, &g->except_mac_count);
	return r;
}

int load_clients(struct load *l, const struct node *root)
{
	const struct node *clients = node_child(root, "clients");
	struct config *c = l->c;
	if (!clients)
		return 0;
	c->groups = arena_alloc(c->arena, (clients->count + 1) * sizeof *c->groups);
	if (!c->groups)
		return -ENOMEM;
	for (const struct node *n = clients->first; n; n = n->next) {
		int r = group_load(l, n, &c->groups[c->group_count++]);
		if (r < 0)
			return r;
	}
	return 0;
}
