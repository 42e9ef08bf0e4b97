/* SPDX-License-Identifier: GPL-3.0-or-later */
/* filter and steer: the ordered rules. A rule's number is its index, so rules that are wrong keep their place while loading. */
#include <errno.h>
#include <string.h>
#include "base/hash.h"
#include "config/load.h"

enum { RULE_NAME_MAX = 127, GID_MAX = 4294967294U /* the last value is "no group" */ };

/* What both kinds of rule have, as pointers into either. */
struct rule_fields {
	const char **name;
	bool *enabled;
	struct ids *clients, *except_clients, *names, *except_names;
};

static int fields_load(struct load *l, const struct node *n, unsigned number, const struct rule_fields *f)
{
	const struct node *name = node_child(n, "name"), *enabled = node_child(n, "enabled");
	*f->name = NULL;
	*f->enabled = true;
	if (name)
		value_text(l, name, RULE_NAME_MAX, f->name);
	if (!*f->name)
		*f->name = arena_printf(l->c->arena, "rule %u", number);
	if (!*f->name)
		return -ENOMEM;
	if (enabled)
		value_bool(l, enabled, f->enabled);
	int r = names_resolve_all(l, &names_groups, node_child(n, "clients"), f->clients);
	if (r >= 0)
		r = names_resolve_all(l, &names_groups, node_child(n, "except-clients"), f->except_clients);
	if (r >= 0)
		r = names_resolve_all(l, &names_lists, node_child(n, "names"), f->names);
	return r < 0 ? r : names_resolve_all(l, &names_lists, node_child(n, "except-names"), f->except_names);
}

static void twin_report(struct load *l, const struct place *p, const char *name, const struct place *first)
{
	report_add(l->r, true, p, "a rule called `%s` is already given at %s:%d:%d; name one of them otherwise", name,
	        first->file, first->line, first->column);
}

/* Whether the rule uses a list of which something was refused, as a policy zone: then it may be whole in another version. */
static bool uses_incomplete(const struct node *root, const struct node *rule)
{
	const struct node *lists = node_child(root, "lists"), *names = node_child(rule, "names");
	for (const struct node *v = value_first(names); v; v = value_next(names, v)) {
		const struct node *list = node_child(lists, v->text);
		if (list && list->is_incomplete)
			return true;
	}
	return rule->is_incomplete;
}

static int answers_load(struct load *l, const struct node *n, struct cfg_filter *f)
{
	f->answers = arena_alloc(l->c->arena, (value_count(n) + 1) * sizeof *f->answers);
	if (!f->answers)
		return -ENOMEM;
	for (const struct node *v = value_first(n); v; v = value_next(n, v)) {
		struct addr *a = &f->answers[f->answer_count];
		bool is_new = true;
		if (value_addr(l, v, a) < 0)
			continue;
		for (unsigned i = 0; i < f->answer_count; i++)
			is_new = is_new && !addr_equal(&f->answers[i], a);
		if (is_new)
			f->answer_count++;
		else
			value_refuse(l, v, "stands here twice; take one out");
	}
	f->block = BLOCK_ANSWER;
	return 0;
}

static void cname_load(struct load *l, const struct node *n, struct cfg_filter *f)
{
	if (name_from_user_text(&f->cname, n->text, strlen(n->text)) < 0 || !f->cname.labels)
		value_refuse(l, n, "is not a domain name; write the name whose addresses are the answer, as www.example.com");
	f->block = BLOCK_CNAME;
}

/* What the rule does: exactly one of these. */
static int outcome_load(struct load *l, const struct node *root, const struct node *n, struct cfg_filter *f)
{
	static const struct choice blocks[] = {{"nxdomain", BLOCK_NXDOMAIN, true}, {"nodata", BLOCK_NODATA, true},
	        {"zero", BLOCK_ZERO, true}, {"refuse", BLOCK_REFUSE, true}, {"drop", BLOCK_DROP, true}};
	static const char *const keys[] = {"block", "allow", "answer", "cname"};
	const struct node *block = node_child(n, "block"), *allow = node_child(n, "allow"), *answer = node_child(n, "answer"),
	                  *cname = node_child(n, "cname"), *ttl = node_child(n, "ttl"), *given = NULL;
	int chosen = BLOCK_NONE, r = 0;
	uint64_t ttl_ms = 60000;
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		const struct node *k = node_child(n, keys[i]);
		if (k && given)
			report_add(l->r, true, &k->key_place, "the rule has both `%s` and `%s`; keep one of them", given->key, k->key);
		given = given ? given : k;
	}
	if (!given && !uses_incomplete(root, n))
		report_add(l->r, true, &n->place,
		        "the rule says neither `block` nor `allow`, `answer` or `cname`; add `block: nxdomain` or `allow: true`");
	if (allow && value_bool(l, allow, &f->allow) == 0 && !f->allow)
		value_refuse(l, allow, "says nothing; write `allow: true`, or `block: nxdomain`");
	if (block)
		value_choice(l, block, blocks, sizeof blocks / sizeof *blocks, &chosen);
	f->block = (enum block_kind)chosen;
	if (answer)
		r = answers_load(l, answer, f);
	if (cname)
		cname_load(l, cname, f);
	if (ttl)
		value_duration(l, ttl, 0, DAY_MS, &ttl_ms);
	f->ttl_s = (uint32_t)((ttl_ms + 999) / 1000);
	return r;
}

static int filter_load(struct load *l, const struct node *root, const struct node *n, struct cfg_filter *f)
{
	struct rule_fields fields = {&f->name, &f->enabled, &f->clients, &f->except_clients, &f->names, &f->except_names};
	f->place = n->place;
	int r = fields_load(l, n, l->c->filter_count, &fields);
	if (r >= 0)
		r = outcome_load(l, root, n, f);
	if (r < 0)
		return r;
	for (const struct cfg_filter *other = l->c->filters; other < f; other++)
		if (!strcmp(other->name, f->name))
			twin_report(l, &f->place, f->name, &other->place);
	return 0;
}

static int steer_load(struct load *l, const struct node *n, struct cfg_steer *s)
{
	const struct node *gid = node_child(n, "gid"), *way = node_child(n, "way");
	const struct node *clients = node_child(n, "clients") ? node_child(n, "clients") : node_child(n, "except-clients");
	struct rule_fields fields = {&s->name, &s->enabled, &s->clients, &s->except_clients, &s->names, &s->except_names};
	uint64_t number;
	s->place = n->place;
	s->way = -1;
	int r = fields_load(l, n, l->c->steer_count, &fields);
	if (r < 0)
		return r;
	if (gid && value_number(l, gid, 0, GID_MAX, &number) == 0) {
		s->has_gid = true;
		s->gid = (uint32_t)number;
	}
	if (gid && clients)
		report_add(l->r, true, &gid->key_place,
		        "`gid` is about processes of this machine, `%s` about others; make two rules of it", clients->key);
	if (way)
		s->way = names_resolve(l, &names_ways, way);
	else if (!n->is_incomplete)
		report_add(l->r, true, &n->place, "the rule has no way; add `way: NAME`");
	for (const struct cfg_steer *other = l->c->steers; other < s; other++)
		if (!strcmp(other->name, s->name))
			twin_report(l, &s->place, s->name, &other->place);
	return 0;
}

int load_rules(struct load *l, const struct node *root)
{
	const struct node *filter = node_child(root, "filter"), *steer = node_child(root, "steer");
	struct config *c = l->c;
	bool is_named[CONFIG_RULES_MAX] = {false};
	c->filters = arena_alloc(c->arena, (value_count(filter) + 1) * sizeof *c->filters);
	c->steers = arena_alloc(c->arena, (value_count(steer) + 1) * sizeof *c->steers);
	if (!c->filters || !c->steers)
		return -ENOMEM;
	for (const struct node *n = filter ? filter->first : NULL; n; n = n->next) {
		int r = filter_load(l, root, n, &c->filters[c->filter_count++]);
		if (r < 0)
			return r;
	}
	for (const struct node *n = steer ? steer->first : NULL; n; n = n->next) {
		is_named[c->steer_count] = node_child(n, "name");
		int r = steer_load(l, n, &c->steers[c->steer_count++]);
		if (r < 0)
			return r;
	}
	return steers_identify(l, is_named);
}
