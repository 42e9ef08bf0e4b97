/* SPDX-License-Identifier: GPL-3.0-or-later */
/* For whom `explain` judges. The request's `client` is an address, an Ethernet address or an interface; the tool, which may look
 * at the neighbour table, says beside it what else it knows (client_address, client_interface, client_mac). What is still not
 * known is taken as for any host of the interface, and said in the answer. */
#include <stdio.h>
#include <string.h>
#include "base/err.h"
#include "base/rcu.h"
#include "control/explain.h"

static bool read_mac(const char *text, uint8_t ret[6])
{
	unsigned b[6];
	char end;
	if (!text || sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x%c", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5], &end) != 6)
		return false;
	for (unsigned i = 0; i < 6; i++)
		ret[i] = (uint8_t)b[i];
	return true;
}

static void take_interface(struct client *c, const char *text)
{
	if (text && strlen(text) < sizeof(c->ifname))
		snprintf(c->ifname, sizeof(c->ifname), "%s", text);
}

static bool take_mac(struct client *c, const char *text)
{
	if (!read_mac(text, c->mac))
		return false;
	c->mac_known = true;
	return true;
}

static bool group_has_interface(const struct cfg_group *g, const char *ifname)
{
	for (unsigned i = 0; i < g->interface_count; i++)
		if (!strcmp(g->interfaces[i], ifname))
			return true;
	return false;
}

/* A host address of the first network that a group beside this interface names, so that groups with both conditions hold. */
static void guess_address(const struct config *c, struct client *cl)
{
	for (unsigned i = 0; i < c->group_count; i++) {
		const struct cfg_group *g = &c->groups[i];
		if (!g->network_count || (g->interface_count && !group_has_interface(g, cl->ifname)) ||
		        (!g->interface_count && cl->ifname[0]))
			continue;
		const struct prefix *p = &g->networks[0];
		cl->addr = p->addr;
		if (p->len < (p->addr.family == AF_INET ? 32 : 128))
			cl->addr.b[p->addr.family == AF_INET ? 3 : 15] |= 1;
		if (!cl->ifname[0] && g->interface_count)
			snprintf(cl->ifname, sizeof(cl->ifname), "%s", g->interfaces[0]);
		return;
	}
}

static const char *first_listening(const struct config *c)
{
	for (unsigned i = 0; i < c->server.listen_count; i++)
		if (c->server.listen[i].ifname[0])
			return c->server.listen[i].ifname;
	return NULL;
}

/* Nobody was named: any host of the first listening interface; without one, of the first group's network; else this machine. */
static json_t *default_client(const struct config *c, struct client *cl)
{
	const char *ifname = first_listening(c);
	take_interface(cl, ifname);
	guess_address(c, cl);
	cl->mac_known = true;
	if (ifname)
		return control_textf("any host on %s whose Ethernet address no group names; --client says another", ifname);
	if (cl->addr.family)
		return json_string("any host of the first client network; --client says another");
	addr_parse(&cl->addr, "127.0.0.1");
	cl->is_local = true;
	return json_string("this machine itself; --client says another");
}

static json_t *named_client(
        const struct config *c, struct client *cl, const char *text, const char *address, const char *ifname, const char *mac)
{
	struct addr a;
	bool is_mac = take_mac(cl, text), is_address = !is_mac && addr_parse(&a, text) == 0;
	if (is_address)
		cl->addr = a;
	else if (address && addr_parse(&a, address) == 0)
		cl->addr = a;
	if (!is_mac && !is_address)
		take_interface(cl, text);
	else
		take_interface(cl, ifname);
	if (!is_mac)
		take_mac(cl, mac);
	cl->is_local = cl->addr.family && addr_is_loopback(&cl->addr);
	if (cl->is_local)
		return json_string("this machine itself");
	if (!is_mac && !is_address) {
		cl->mac_known = true;
		if (!cl->addr.family)
			guess_address(c, cl);
		return control_textf("any host on %s whose Ethernet address no group names", cl->ifname);
	}
	const char *known = cl->ifname[0] ? NULL : first_listening(c);
	take_interface(cl, known);
	if (known)
		return control_textf("%s, taken as on %s, since this machine does not see it", text, known);
	return control_textf("%s%s", text, cl->mac_known ? "" : ", whose Ethernet address is not known");
}

static void add_groups(struct explain *x, json_t *j)
{
	const struct config *c = x->snap->config;
	json_t *yes = json_array(), *unknown = json_array();
	for (unsigned i = 0; i < c->group_count; i++) {
		if (x->groups.yes[i / 64] >> (i % 64) & 1)
			json_array_append_new(yes, control_text(c->groups[i].name));
		if (x->groups.unknown[i / 64] >> (i % 64) & 1)
			json_array_append_new(unknown, control_text(c->groups[i].name));
	}
	json_object_set_new(j, "groups", yes);
	json_object_set_new(j, "groups_unknown", unknown);
}

/* An interface that is there, or that the configuration knows of. */
static bool is_interface(const struct explain *x, const struct links *l, const char *text)
{
	const struct config *c = x->snap->config;
	for (unsigned i = 0; l && i < l->count; i++)
		if (!strcmp(l->v[i].name, text))
			return true;
	for (unsigned i = 0; i < c->group_count; i++)
		if (group_has_interface(&c->groups[i], text))
			return true;
	for (unsigned i = 0; i < c->server.listen_count; i++)
		if (!strcmp(c->server.listen[i].ifname, text))
			return true;
	return false;
}

int explain_client(struct explain *x, const json_t *request, json_t **ret)
{
	const struct config *c = x->snap->config;
	const char *text = json_string_value(json_object_get(request, "client"));
	struct client *cl = &x->client;
	char addr[ADDR_TEXT_MAX];
	struct addr a;
	uint8_t mac[6];
	const struct links *l = x->env->links ? x->env->links(x->env->ctx) : NULL;
	if (text && text[0] && addr_parse(&a, text) < 0 && !read_mac(text, mac) && !is_interface(x, l, text))
		return control_fail(
		        ret, NW_EMALFORMED, "`%.64s` is no client: give an address, an Ethernet address or an interface that is there", text);
	json_t *said = text && text[0] ? named_client(c, cl, text, json_string_value(json_object_get(request, "client_address")),
	                                         json_string_value(json_object_get(request, "client_interface")),
	                                         json_string_value(json_object_get(request, "client_mac")))
	                               : default_client(c, cl);
	policy_classify(x->policy, cl, &x->groups);
	/* Without an address nobody can say whether the default of server.allow would let it ask. */
	bool is_allowed = (!cl->addr.family && c->server.allow_default) ||
	                  policy_allows(x->policy, cl, &x->groups, l ? l->networks : NULL, l ? l->network_count : 0);
	json_t *j = json_pack("{s:o, s:o, s:o, s:b, s:b}", "said", said, "address",
	        cl->addr.family ? json_string(addr_print(addr, &cl->addr)) : json_null(), "interface",
	        cl->ifname[0] ? control_text(cl->ifname) : json_null(), "local", cl->is_local, "may_ask", is_allowed);
	add_groups(x, j);
	json_object_set_new(x->out, "client", j);
	return 0;
}
