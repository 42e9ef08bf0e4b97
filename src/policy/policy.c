/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Compiling a configuration into a policy, and telling clients apart.
 *
 * Conditions on clients have three values, because a client's MAC may be unknown: yes, no, unknown. They combine as in Kleene's
 * logic: "no" decides an "and", "yes" decides an "or". Any thread inside an rcu read section; a policy is a snapshot, read-only
 * once made. */
#include "policy/policy_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void rule_lists(const struct policy *p, struct list_bits *ret, const struct ids *lists)
{
	for (unsigned i = 0; i < lists->count; i++)
		list_bits_set(ret, p->list_slot[lists->v[i]]);
}

static void rule_groups(uint64_t ret[GROUP_WORDS], const struct ids *groups)
{
	for (unsigned i = 0; i < groups->count; i++)
		ret[groups->v[i] / 64] |= 1ull << (groups->v[i] % 64);
}

static void rule_compile(const struct policy *p, struct rule *r, const struct ids *clients, const struct ids *except_clients,
	const struct ids *names, const struct ids *except_names)
{
	r->has_clients = clients->count > 0;
	r->has_names = names->count > 0;
	r->has_except_names = except_names->count > 0;
	rule_groups(r->clients, clients);
	rule_groups(r->except_clients, except_clients);
	rule_lists(p, &r->names, names);
	rule_lists(p, &r->except_names, except_names);
	for (unsigned i = 0; i < names->count; i++)
		r->has_prefixes |= p->prefixes[names->v[i]] != NULL;
}

static uint16_t group_named(const struct config *c, const char *name)
{
	for (unsigned i = 0; i < c->group_count; i++)
		if (strcmp(c->groups[i].name, name) == 0)
			return (uint16_t)i;
	return 0xffff;
}

static int stage_list(struct policy *p, unsigned slot, const struct exprs *e)
{
	struct staged *s = &p->staged[p->staged_count];
	unsigned count = exprs_client_count(e);

	*s = (struct staged){.slot = (uint16_t)slot, .exprs = e, .group_of = calloc(count ? count : 1, sizeof(*s->group_of))};
	if (!s->group_of)
		return -ENOMEM;
	p->staged_count++;
	for (unsigned i = 0; i < count; i++)
		s->group_of[i] = group_named(p->config, exprs_client(e, i));
	return 0;
}

static bool is_used(const struct policy *p, unsigned slot)
{
	for (unsigned i = 0; i < p->config->filter_count; i++)
		if (list_bits_has(&p->filters[i].names, slot) || list_bits_has(&p->filters[i].except_names, slot))
			return true;
	for (unsigned i = 0; i < p->config->steer_count; i++)
		if (list_bits_has(&p->steers[i].names, slot) || list_bits_has(&p->steers[i].except_names, slot))
			return true;
	return false;
}

static int stage_lists(struct policy *p, const struct exprs *const *exprs)
{
	const struct config *c = p->config;
	int r = 0;

	p->staged = calloc(c->list_count ? c->list_count : 1, sizeof(*p->staged));
	if (!p->staged)
		return -ENOMEM;
	for (unsigned i = 0; i < c->list_count && r == 0; i++)
		if (exprs && exprs[i] && is_used(p, p->list_slot[i]))
			r = stage_list(p, p->list_slot[i], exprs[i]);
	return r;
}

int policy_new(struct policy **ret, const struct config *c, struct index *ix, const uint16_t *list_slot,
	const struct prefixes *const *prefixes, const struct exprs *const *exprs)
{
	struct policy *p = calloc(1, sizeof(*p));
	unsigned i, slots = 0;

	if (!p)
		return -ENOMEM;
	p->config = c;
	p->index = ix;
	for (i = 0; i < c->list_count; i++) {
		p->list_slot[i] = list_slot[i];
		p->prefixes[i] = prefixes[i];
		slots = list_slot[i] >= slots ? list_slot[i] + 1u : slots;
	}
	p->list_words = (slots + 63) / 64;
	p->group_words = (c->group_count + 63) / 64;
	p->filters = calloc(c->filter_count ? c->filter_count : 1, sizeof(*p->filters));
	p->steers = calloc(c->steer_count ? c->steer_count : 1, sizeof(*p->steers));
	if (!p->filters || !p->steers) {
		policy_free(p);
		return -ENOMEM;
	}
	for (i = 0; i < c->filter_count; i++) {
		const struct cfg_filter *f = &c->filters[i];

		rule_compile(p, &p->filters[i], &f->clients, &f->except_clients, &f->names, &f->except_names);
		p->filters_addrs |= f->enabled && !f->allow && p->filters[i].has_prefixes;
	}
	for (i = 0; i < c->steer_count; i++) {
		const struct cfg_steer *s = &c->steers[i];

		rule_compile(p, &p->steers[i], &s->clients, &s->except_clients, &s->names, &s->except_names);
	}
	if (stage_lists(p, exprs) < 0) {
		policy_free(p);
		return -ENOMEM;
	}
	*ret = p;
	return 0;
}

void policy_free(struct policy *p)
{
	if (!p)
		return;
	for (unsigned i = 0; i < p->staged_count; i++)
		free(p->staged[i].group_of);
	free(p->staged);
	free(p->filters);
	free(p->steers);
	free(p);
}

const struct config *policy_config(const struct policy *p)
{
	return p->config;
}

const struct index *policy_index(const struct policy *p)
{
	return p->index;
}

uint64_t policy_generation(const struct policy *p)
{
	uint64_t gen = index_generation(p->index);

	return gen < p->generation ? p->generation : gen;
}

void policy_set_generation(struct policy *p, uint64_t gen)
{
	p->generation = gen;
}

static enum answer answer_and(enum answer a, enum answer b)
{
	return a < b ? a : b;
}

static enum answer answer_not(enum answer a)
{
	return (enum answer)(YES - a);
}

static enum answer is_on(const struct client *c, char (*interfaces)[IFNAME_MAX], unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (strncmp(interfaces[i], c->ifname, IFNAME_MAX) == 0)
			return YES;
	return NO;
}

static enum answer is_in(const struct client *c, const struct prefix *networks, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (prefix_contains(&networks[i], &c->addr))
			return YES;
	return NO;
}

/* A query from this machine has no MAC, which is known; another client's may be unknown. */
static enum answer has_mac(const struct client *c, uint8_t (*macs)[6], unsigned count)
{
	if (count == 0 || c->is_local)
		return NO;
	if (!c->mac_known)
		return UNKNOWN;
	for (unsigned i = 0; i < count; i++)
		if (memcmp(macs[i], c->mac, 6) == 0)
			return YES;
	return NO;
}

static enum answer is_member(const struct cfg_group *g, const struct client *c)
{
	enum answer a = YES;

	if (g->interface_count)
		a = answer_and(a, is_on(c, g->interfaces, g->interface_count));
	if (g->network_count)
		a = answer_and(a, is_in(c, g->networks, g->network_count));
	if (g->mac_count)
		a = answer_and(a, has_mac(c, g->macs, g->mac_count));
	a = answer_and(a, answer_not(is_on(c, g->except_interfaces, g->except_interface_count)));
	a = answer_and(a, answer_not(is_in(c, g->except_networks, g->except_network_count)));
	return answer_and(a, answer_not(has_mac(c, g->except_macs, g->except_mac_count)));
}

void policy_classify(const struct policy *p, const struct client *c, struct group_bits *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (unsigned i = 0; i < p->config->group_count; i++) {
		enum answer a = is_member(&p->config->groups[i], c);

		if (a == YES)
			ret->yes[i / 64] |= 1ull << (i % 64);
		else if (a == UNKNOWN)
			ret->unknown[i / 64] |= 1ull << (i % 64);
	}
}

static enum answer any_group(const struct policy *p, const uint64_t *groups, const struct group_bits *g)
{
	enum answer a = NO;

	for (unsigned w = 0; w < p->group_words; w++) {
		if (groups[w] & g->yes[w])
			return YES;
		if (groups[w] & g->unknown[w])
			a = UNKNOWN;
	}
	return a;
}

enum answer rule_is_for(const struct policy *p, const struct rule *r, const struct group_bits *g)
{
	enum answer a = r->has_clients ? any_group(p, r->clients, g) : YES;

	return answer_and(a, answer_not(any_group(p, r->except_clients, g)));
}

/* A client whose membership is unknown may not ask on the strength of it. */
bool policy_allows(const struct policy *p, const struct client *c, const struct group_bits *g, const struct prefix *attached,
	unsigned attached_count)
{
	const struct cfg_server *s = &p->config->server;

	if (s->allow_default)
		return c->is_local || is_in(c, attached, attached_count) == YES;
	for (unsigned i = 0; i < s->allow_groups.count; i++)
		if (g->yes[s->allow_groups.v[i] / 64] >> (s->allow_groups.v[i] % 64) & 1)
			return true;
	return is_in(c, s->allow, s->allow_count) == YES;
}
