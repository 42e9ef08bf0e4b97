/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Verdicts: the first rule in order that some name of an answer's chain, or some address of it, matches. A name matches a rule
 * when it is in one of the rule's lists (or the rule has none) and in none of those it excepts.
 *
 * A steer rule with except-names and no names is negated in the kernel: its set holds the excepted addresses, and packets to all
 * others are its own. So a chain with an excepted name fills that set and falls through, and a chain without one is decided by
 * the rule. Any thread inside an rcu read section; nothing here allocates. */
#include "policy/policy_private.h"

#include <string.h>

/* Whether some of the lists hold the name, see struct membership. */
static bool is_in_any(const struct policy *p, const struct list_bits *lists, const struct membership *m)
{
	uint64_t listed = 0, allowed = 0, important = 0, spared = 0;

	for (unsigned w = 0; w < p->list_words; w++) {
		listed |= lists->w[w] & m->listed.w[w];
		allowed |= lists->w[w] & m->allowed.w[w];
		important |= lists->w[w] & m->important.w[w];
		spared |= lists->w[w] & m->spared.w[w];
	}
	return !spared && (important || (listed && !allowed));
}

bool policy_holds(const struct membership *m, unsigned slot)
{
	return !list_bits_has(&m->spared, slot) &&
		(list_bits_has(&m->important, slot) || (list_bits_has(&m->listed, slot) && !list_bits_has(&m->allowed, slot)));
}

bool policy_any_holds(const struct policy *p, const struct ids *lists, const struct membership *m)
{
	struct list_bits bits = {0};

	for (unsigned i = 0; i < lists->count; i++)
		list_bits_set(&bits, p->list_slot[lists->v[i]]);
	return is_in_any(p, &bits, m);
}

static const struct membership *for_filter(const struct judged_name *n)
{
	return n->is_conditional ? &n->here : &n->in;
}

static bool rule_takes(const struct policy *p, const struct rule *r, const struct membership *m)
{
	return (!r->has_names || is_in_any(p, &r->names, m)) && !is_in_any(p, &r->except_names, m);
}

/* The first name of the chain that the rule takes, or -1. */
static int first_taken(const struct policy *p, const struct rule *r, const struct judged_name *names, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (rule_takes(p, r, for_filter(&names[i])))
			return (int)i;
	return -1;
}

/* The first of the rule's lists that holds the name, or -1. */
static int list_of_name(const struct policy *p, const struct ids *lists, const struct membership *m)
{
	for (unsigned i = 0; i < lists->count; i++)
		if (policy_holds(m, p->list_slot[lists->v[i]]))
			return lists->v[i];
	return -1;
}

static int list_of_addr(const struct policy *p, const struct ids *lists, const struct addr *a)
{
	for (unsigned i = 0; i < lists->count; i++)
		if (prefixes_contain(p->prefixes[lists->v[i]], a))
			return lists->v[i];
	return -1;
}

/* The list whose prefixes hold one of the addresses that the rule does not except, or -1. */
static int addr_match(const struct policy *p, const struct cfg_filter *f, const struct addr *addrs, unsigned count)
{
	int list;

	for (unsigned i = 0; i < count; i++) {
		list = list_of_addr(p, &f->names, &addrs[i]);
		if (list >= 0 && list_of_addr(p, &f->except_names, &addrs[i]) < 0)
			return list;
	}
	return -1;
}

/* Whether an exception (@@) of the rule's lists lifts the question: its answer is then not looked into. */
static bool is_lifted(const struct policy *p, const struct rule *r, const struct judged_name *question /* NULL: only addresses are asked about */)
{
	const struct membership *m = question ? for_filter(question) : NULL;
	uint64_t any = 0;

	for (unsigned w = 0; m && w < p->list_words; w++)
		any |= r->names.w[w] & (m->allowed.w[w] | m->spared.w[w]);
	return any != 0;
}

/* Does the rule match, and by which list? */
static bool filter_match(const struct policy *p, unsigned rule, const struct judged_name *names, unsigned name_count,
	const struct addr *addrs, unsigned addr_count, int *ret_list)
{
	const struct cfg_filter *f = &p->config->filters[rule];
	int taken = first_taken(p, &p->filters[rule], names, name_count);

	/* The rule's own target is where it leads: it has been led there already, or is asked for itself. */
	for (unsigned i = 0; taken >= 0 && f->block == BLOCK_CNAME && i < name_count; i++)
		if (name_equal(names[i].name, &f->cname))
			taken = -1;
	if (taken >= 0) {
		*ret_list = list_of_name(p, &f->names, for_filter(&names[taken]));
		return true;
	}
	if (f->allow || !addrs || !p->filters[rule].has_prefixes || is_lifted(p, &p->filters[rule], name_count ? &names[0] : NULL))
		return false;
	*ret_list = addr_match(p, f, addrs, addr_count);
	return *ret_list >= 0;
}

bool policy_filters_addrs(const struct policy *p)
{
	return p->filters_addrs;
}

static bool is_paused(const struct filter_pause *pause, unsigned rule, uint32_t now_s)
{
	return pause && (atomic_load_explicit(&pause->all_until_s, memory_order_relaxed) > now_s ||
		atomic_load_explicit(&pause->rule_until_s[rule], memory_order_relaxed) > now_s);
}

struct verdict policy_filter(const struct policy *p, const struct group_bits *g, const struct filter_pause *pause, uint32_t now_s,
	const struct judged_name *names, unsigned name_count, const struct addr *addrs, unsigned addr_count)
{
	const struct config *c = p->config;
	int list;

	for (unsigned i = 0; i < c->filter_count; i++) {
		const struct cfg_filter *f = &c->filters[i];
		enum answer is_for = f->enabled ? rule_is_for(p, &p->filters[i], g) : NO;

		if (is_for == NO || (is_for == UNKNOWN && f->allow) || is_paused(pause, i, now_s))
			continue;
		if (!filter_match(p, i, names, name_count, addrs, addr_count, &list))
			continue;
		return (struct verdict){.kind = f->allow ? VERDICT_ALLOW : VERDICT_BLOCK,
			.block = f->allow ? BLOCK_NONE : f->block,
			.rule = (int)i,
			.list = list};
	}
	return (struct verdict){.kind = VERDICT_PASS, .block = BLOCK_NONE, .rule = -1, .list = -1};
}

/* A hit that does not fit would be a set left unfilled, so the answer is then unsafe. */
static void add_hit(struct steer_result *ret, unsigned rule, int name)
{
	if (ret->count == STEER_HITS_MAX)
		ret->is_unsafe = true;
	else
		ret->hits[ret->count++] = (struct steer_hit){.rule = (uint16_t)rule, .name = (uint8_t)(name > 254 ? 254 : name)};
}

static bool is_negated(const struct rule *r)
{
	return r->has_except_names && !r->has_names;
}

/* What one rule says about the chain: adds a hit for every name that the rule's set holds addresses for, so that each of them keeps the addresses
 * there when another leaves its list; true when the rule takes the answer. */
static bool steer_match(
	const struct policy *p, unsigned rule, const struct judged_name *names, unsigned name_count, struct steer_result *ret)
{
	const struct rule *r = &p->steers[rule];
	bool is_any = false;

	if (!r->has_names && !r->has_except_names)
		return true;
	for (unsigned i = 0; i < name_count; i++) {
		bool is_held = is_negated(r) ? is_in_any(p, &r->except_names, &names[i].in) : rule_takes(p, r, &names[i].in);

		if (is_held)
			add_hit(ret, rule, (int)i);
		if (is_held && ret->list < 0)
			ret->list = list_of_name(p, &p->config->steers[rule].names, &names[i].in);
		is_any |= is_held;
	}
	return is_negated(r) ? !is_any : is_any;
}

static void decide(const struct policy *p, unsigned rule, struct steer_result *ret)
{
	ret->rule = (int)rule;
	ret->way = p->config->steers[rule].way;
	ret->has_default = !p->steers[rule].has_names;
}

static void steer_network(const struct policy *p, const struct group_bits *g, const struct judged_name *names,
	unsigned name_count, struct steer_result *ret)
{
	const struct config *c = p->config;
	enum answer is_for;

	for (unsigned i = 0; i < c->steer_count; i++) {
		if (!c->steers[i].enabled || c->steers[i].has_gid)
			continue;
		is_for = rule_is_for(p, &p->steers[i], g);
		if (is_for == NO)
			continue;
		if (!steer_match(p, i, names, name_count, ret)) {
			if (!p->steers[i].is_closed)
				continue;
			ret->is_closed = true;
			decide(p, i, ret);
			return;
		}
		if (is_for == YES) {
			decide(p, i, ret);
			return;
		}
		ret->is_unsafe = true;
	}
}

/* The process that asked is not known, so every gid rule's set is filled. The upstream is chosen by the first rule that is not
 * about some clients. */
static void steer_local(const struct policy *p, const struct group_bits *g, const struct judged_name *names, unsigned name_count,
	struct steer_result *ret)
{
	const struct config *c = p->config;

	for (unsigned i = 0; i < c->steer_count; i++) {
		if (!c->steers[i].enabled)
			continue;
		if (c->steers[i].has_gid) {
			steer_match(p, i, names, name_count, ret);
			continue;
		}
		if (ret->rule >= 0 || p->steers[i].has_clients || rule_is_for(p, &p->steers[i], g) != YES)
			continue;
		if (steer_match(p, i, names, name_count, ret))
			decide(p, i, ret);
	}
}

void policy_steer(const struct policy *p, const struct group_bits *g, bool is_local, const struct judged_name *names,
	unsigned name_count, struct steer_result *ret)
{
	ret->count = 0;
	ret->is_unsafe = ret->has_default = ret->is_closed = false;
	ret->way = ret->rule = ret->list = -1;
	if (is_local)
		steer_local(p, g, names, name_count, ret);
	else
		steer_network(p, g, names, name_count, ret);
}

void policy_fills(const struct policy *p, const struct judged_name *n, uint64_t ret_rules[CONFIG_RULES_MAX / 64])
{
	memset(ret_rules, 0, CONFIG_RULES_MAX / 8);
	for (unsigned i = 0; i < p->config->steer_count; i++) {
		const struct rule *r = &p->steers[i];
		bool does_fill =
			is_negated(r) ? is_in_any(p, &r->except_names, &n->in) : r->has_names && rule_takes(p, r, &n->in);

		if (does_fill && p->config->steers[i].enabled)
			ret_rules[i / 64] |= 1ull << (i % 64);
	}
}

bool policy_rule_is_negated(const struct config *c, unsigned steer_rule)
{
	return c->steers[steer_rule].except_names.count > 0 && c->steers[steer_rule].names.count == 0;
}

void policy_close_rule(struct policy *p, unsigned steer_rule)
{
	p->steers[steer_rule].is_closed = true;
}

bool policy_rule_is_closed(const struct policy *p, unsigned steer_rule)
{
	return p->steers[steer_rule].is_closed;
}

bool policy_is_never_steered(const struct config *c, const struct cfg_steer *rule, const struct addr *a)
{
	return addr_is_never_remote(a) || (addr_is_private(a) && !c->ways[rule->way].private_ok);
}
