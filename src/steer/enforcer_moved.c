/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which connections a change moves. A view is a copy of what decides: the enabled rules, their clients, the addresses and ranges they hold. Two views,
 * of before and after the change, are compared entry by entry by the thread that drops connections (enforcer_flows.c).
 *
 * For an entry's source and destination each view gives the rules that may take it, in order, up to the first that takes it for certain. What is not
 * known from conntrack is the client's interface and MAC: a group that asks for them may hold. The entry's mark tells which of the old rules took it.
 * It stays when that rule and all before it are the same in both, or when every rule that may take it now gives its mark; else it is dropped.
 *
 * Dropped too many: a client that only its interface or MAC tells from those of a changed rule, when both could reach the address; it is decided anew,
 * mostly for the same exit. Left alone: what goes to this machine or a network attached to it (it came in through a way or from outside, or stays at
 * home); what was taken by an address that has left its set meanwhile, as long as a rule of that mark for its client stays; and own processes', unless
 * no gid rule that may take them gives their mark any more. A connection that came in for a network behind another router is judged like a client's. */
#include "steer/enforcer_moved.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/arena.h"
#include "base/hash.h"
#include "steer/nft_internal.h"

enum { VIEW_BYTES_MAX = 256 << 20, TAKERS_MAX = CONFIG_RULES_MAX + 1 };
enum match { NO, MAYBE, YES };

struct moved_group { struct prefix *networks, *except_networks; unsigned network_count, except_network_count; bool asks_more; /* an interface or a MAC */ };
struct moved_rule {
	uint32_t id, mark;
	const char *way;
	uint64_t clients_hash; /* of what is not looked at here: interfaces and MACs */
	struct ids clients, except_clients;
	bool has_gid, has_names, is_negated;
	const struct moved_rule *same; /* the one in the view of after; NULL: it does not stand there */
	struct { const struct range *v; unsigned count; } ranges[2][2]; /* [which][is IPv6] */
};
struct held { uint32_t rule_id; struct addr addr; };
struct moved_view {
	_Atomic int users;
	struct arena *arena;
	uint32_t mask, direct_mark;
	struct moved_rule *rules; unsigned rule_count;
	struct moved_group *groups;
	struct held *held; unsigned held_count;
	uint32_t *slots, slot_count; /* index + 1 into held, by address */
	uint64_t seed;
	struct range_list home[2], own[2]; /* by family: networks attached inside, own addresses */
	struct range_list only[2];         /* none: all destinations */
	bool has_only, is_short;
};
struct taker { uint32_t id, mark; uint64_t clients_hash; const char *way; };

void moved_view_free(struct moved_view *v)
{
	if (!v || atomic_fetch_sub(&v->users, 1) > 1)
		return;
	arena_free(v->arena);
	free(v->held);
	free(v->slots);
	for (int f = 0; f < 2; f++) {
		range_list_free(&v->home[f]);
		range_list_free(&v->own[f]);
		range_list_free(&v->only[f]);
	}
	free(v);
}

struct moved_view *moved_view_share(struct moved_view *v)
{
	atomic_fetch_add(&v->users, 1);
	return v;
}

/* --- copying --- */

static void *copy(struct moved_view *v, const void *from, size_t count, size_t size)
{
	void *to = count ? arena_dup(v->arena, from, count * size) : NULL;
	v->is_short |= count && !to;
	return to;
}

static uint64_t hash_part(uint64_t seed, const void *from, size_t count, size_t size)
{
	return hash_bytes(count ? from : "", count * size, seed + count);
}

static uint64_t hash_groups(uint64_t h, const struct config *c, const struct ids *ids)
{
	for (unsigned i = 0; i < ids->count; i++) {
		const struct cfg_group *g = &c->groups[ids->v[i]];
		h = hash_part(h, g->interfaces, g->interface_count, sizeof *g->interfaces);
		h = hash_part(h, g->except_interfaces, g->except_interface_count, sizeof *g->except_interfaces);
		h = hash_part(h, g->macs, g->mac_count, sizeof *g->macs);
		h = hash_part(h, g->except_macs, g->except_mac_count, sizeof *g->except_macs);
	}
	return hash_part(h, NULL, 0, 0);
}

static void copy_groups(struct moved_view *v, const struct config *c)
{
	v->groups = arena_alloc(v->arena, (c->group_count + 1) * sizeof *v->groups);
	v->is_short |= !v->groups;
	for (unsigned i = 0; v->groups && i < c->group_count; i++) {
		const struct cfg_group *g = &c->groups[i];
		v->groups[i] = (struct moved_group){ .network_count = g->network_count, .except_network_count = g->except_network_count,
			.networks = copy(v, g->networks, g->network_count, sizeof *g->networks), .except_networks = copy(v, g->except_networks, g->except_network_count, sizeof *g->except_networks),
			.asks_more = g->interface_count || g->except_interface_count || g->mac_count || g->except_mac_count };
	}
}

static void copy_ids(struct moved_view *v, struct ids *ret, const struct ids *from)
{
	*ret = (struct ids){ .v = copy(v, from->v, from->count, sizeof *from->v), .count = from->count };
}

static void copy_rules(struct moved_view *v, const struct enforcer *e, const struct config *c)
{
	v->rules = arena_alloc(v->arena, (c->steer_count + 1) * sizeof *v->rules);
	v->is_short |= !v->rules;
	for (unsigned i = 0; v->rules && i < c->steer_count; i++) {
		const struct cfg_steer *s = &c->steers[i];
		struct moved_rule *r = &v->rules[v->rule_count];
		if (!s->enabled)
			continue;
		const char *way = s->way >= 0 ? c->ways[s->way].name : "";
		v->rule_count++;
		*r = (struct moved_rule){ .id = s->id, .mark = s->way >= 0 ? c->ways[s->way].mark : v->direct_mark, .way = copy(v, way, strlen(way) + 1, 1), .has_gid = s->has_gid,
			.has_names = nft_has_names(s), .is_negated = nft_is_negated(s), .clients_hash = hash_groups(hash_groups(s->gid, c, &s->clients), c, &s->except_clients) };
		copy_ids(v, &r->clients, &s->clients);
		copy_ids(v, &r->except_clients, &s->except_clients);
		for (unsigned k = 0; k < e->range_count; k++) {
			const struct kept_ranges *kept = &e->ranges[k];
			if (kept->rule_id != s->id || kept->which > 1)
				continue;
			bool is_v6 = kept->family == 6;
			r->ranges[kept->which][is_v6].v = copy(v, kept->r, kept->count, sizeof *kept->r);
			r->ranges[kept->which][is_v6].count = kept->count;
		}
	}
}

struct copying { struct moved_view *v; uint64_t now_ms; };

static bool is_looked_at(const struct moved_view *v, const struct addr *a)
{
	const struct range_list *l = &v->only[a->family == AF_INET6];
	return !v->has_only || ranges_have(l->v, l->count, a);
}

static bool copy_element(void *ctx, struct element *el)
{
	struct copying *c = ctx;
	if (el->expires_ms > c->now_ms && is_looked_at(c->v, &el->addr))
		c->v->held[c->v->held_count++] = (struct held){ el->rule_id, el->addr };
	return false;
}

static void copy_network(void *ctx, const struct prefix *p, bool is_outside)
{
	struct moved_view *v = ctx;
	int f = p->addr.family == AF_INET6;
	struct addr first = p->addr, last = p->addr;
	for (unsigned bit = p->len; bit < (f ? 128u : 32u); bit++) {
		first.b[bit / 8] &= (uint8_t)~(0x80 >> bit % 8);
		last.b[bit / 8] |= (uint8_t)(0x80 >> bit % 8);
	}
	v->is_short |= range_list_add(&v->own[f], &p->addr, &p->addr) < 0 || (!is_outside && p->len && range_list_add(&v->home[f], &first, &last) < 0);
}

static void copy_only(struct moved_view *v, const struct range_list *only)
{
	v->has_only = true;
	for (unsigned i = 0; i < only->count; i++)
		v->is_short |= range_list_add(&v->only[only->v[i].first.family == AF_INET6], &only->v[i].first, &only->v[i].last) < 0;
}

struct moved_view *moved_view_new(struct enforcer *e, const struct policy_config *pc, const struct range_list *only)
{
	struct moved_view *v = calloc(1, sizeof *v);
	const struct config *c = pc->config;
	if (!v)
		return NULL;
	atomic_store(&v->users, 1);
	v->mask = c->server.mark_mask;
	v->direct_mark = enforcer_direct_mark(c);
	v->arena = arena_new(1 << 16, VIEW_BYTES_MAX);
	v->held = malloc((e->elements.count + 1ul) * sizeof *v->held);
	v->is_short = !v->arena || !v->held;
	if (!v->is_short) {
		if (only)
			copy_only(v, only);
		copy_groups(v, c);
		copy_rules(v, e, c);
		elements_walk(&e->elements, copy_element, &(struct copying){ v, e->now_ms });
		ways_own_networks(e->ways, copy_network, v);
	}
	for (int f = 0; f < 2; f++) {
		v->home[f].count = ranges_order(v->home[f].v, v->home[f].count);
		v->own[f].count = ranges_order(v->own[f].v, v->own[f].count);
	}
	if (v->is_short) {
		moved_view_free(v);
		return NULL;
	}
	return v;
}

static bool is_same_rule(const struct moved_rule *a, const struct moved_rule *b)
{
	return a->id == b->id && a->mark == b->mark && a->clients_hash == b->clients_hash && a->has_gid == b->has_gid && !strcmp(a->way, b->way);
}

static bool are_networks_same(const struct moved_view *a, const struct ids *ia, const struct moved_view *b, const struct ids *ib)
{
	if (ia->count != ib->count)
		return false;
	for (unsigned i = 0; i < ia->count; i++) {
		const struct moved_group *x = &a->groups[ia->v[i]], *y = &b->groups[ib->v[i]];
		if (x->network_count != y->network_count || x->except_network_count != y->except_network_count || x->asks_more != y->asks_more ||
			(x->network_count && memcmp(x->networks, y->networks, x->network_count * sizeof *x->networks)) ||
			(x->except_network_count && memcmp(x->except_networks, y->except_networks, x->except_network_count * sizeof *x->except_networks)))
			return false;
	}
	return true;
}

bool moved_rules_differ(const struct moved_view *a, const struct moved_view *b)
{
	bool is_same = a->rule_count == b->rule_count && a->mask == b->mask && a->direct_mark == b->direct_mark;
	for (unsigned i = 0; is_same && i < a->rule_count; i++)
		is_same = is_same_rule(&a->rules[i], &b->rules[i]) && a->rules[i].has_names == b->rules[i].has_names && a->rules[i].is_negated == b->rules[i].is_negated &&
			are_networks_same(a, &a->rules[i].clients, b, &b->rules[i].clients) && are_networks_same(a, &a->rules[i].except_clients, b, &b->rules[i].except_clients);
	return !is_same;
}

/* --- judging, on the thread --- */

static int make_index(struct moved_view *v)
{
	if (v->slots)
		return 0;
	v->slot_count = 16;
	while (v->slot_count < v->held_count * 2ull)
		v->slot_count *= 2;
	v->slots = calloc(v->slot_count, sizeof *v->slots);
	if (!v->slots)
		return -ENOMEM;
	v->seed = hash_seed();
	for (unsigned i = 0; i < v->held_count; i++) {
		uint64_t h = hash_bytes(&v->held[i].addr, sizeof v->held[i].addr, v->seed);
		while (v->slots[h & (v->slot_count - 1)])
			h++;
		v->slots[h & (v->slot_count - 1)] = i + 1;
	}
	return 0;
}

/* Ids of the rules whose sets hold the address. */
static unsigned holders(const struct moved_view *v, const struct addr *a, uint32_t *ret)
{
	unsigned count = 0;
	for (uint64_t h = hash_bytes(a, sizeof *a, v->seed);; h++) {
		uint32_t slot = v->slots[h & (v->slot_count - 1)];
		if (!slot || count == CONFIG_RULES_MAX)
			return count;
		if (addr_equal(&v->held[slot - 1].addr, a))
			ret[count++] = v->held[slot - 1].rule_id;
	}
}

static bool has_id(const uint32_t *ids, unsigned count, uint32_t id)
{
	for (unsigned i = 0; i < count; i++)
		if (ids[i] == id)
			return true;
	return false;
}

static bool in_networks(const struct prefix *p, unsigned count, const struct addr *a)
{
	for (unsigned i = 0; i < count; i++)
		if (prefix_contains(&p[i], a))
			return true;
	return false;
}

static enum match match_groups(const struct moved_view *v, const struct ids *ids, const struct addr *src)
{
	enum match best = NO;
	for (unsigned i = 0; i < ids->count && best != YES; i++) {
		const struct moved_group *g = &v->groups[ids->v[i]];
		if ((g->network_count && !in_networks(g->networks, g->network_count, src)) || in_networks(g->except_networks, g->except_network_count, src))
			continue;
		best = g->asks_more ? MAYBE : YES;
	}
	return best;
}

static enum match match_clients(const struct moved_view *v, const struct moved_rule *r, const struct addr *src)
{
	enum match excepted = match_groups(v, &r->except_clients, src), in = r->clients.count ? match_groups(v, &r->clients, src) : YES;
	if (r->has_gid)
		return MAYBE;
	return excepted == YES ? NO : excepted == MAYBE && in == YES ? MAYBE : in;
}

/* As the packet rules do: nft_rules.c, address_rules. */
static bool match_destination(const struct moved_rule *r, const struct addr *dst, const uint32_t *held, unsigned held_count)
{
	bool is_v6 = dst->family == AF_INET6;
	if (!r->has_names)
		return true;
	if (ranges_have(r->ranges[1][is_v6].v, r->ranges[1][is_v6].count, dst))
		return false;
	bool is_in = has_id(held, held_count, r->id) || ranges_have(r->ranges[0][is_v6].v, r->ranges[0][is_v6].count, dst);
	return is_in != r->is_negated;
}

static unsigned takers(const struct moved_view *v, const struct flow *f, bool is_own, struct taker ret[TAKERS_MAX])
{
	uint32_t held[CONFIG_RULES_MAX];
	unsigned held_count = holders(v, &f->dst, held), count = 0;
	for (unsigned i = 0; i < v->rule_count; i++) {
		const struct moved_rule *r = &v->rules[i];
		enum match clients = r->has_gid == is_own ? match_clients(v, r, &f->src) : NO;
		if (clients == NO || !match_destination(r, &f->dst, held, held_count))
			continue;
		ret[count++] = (struct taker){ r->id, r->mark, r->clients_hash, r->way };
		if (clients == YES)
			return count;
	}
	if (!is_own)
		ret[count++] = (struct taker){ .mark = v->direct_mark, .way = "" };
	return count;
}

static bool has_mark(const struct taker *t, unsigned from, unsigned to, uint32_t mark)
{
	for (unsigned i = from; i < to; i++)
		if (t[i].mark == mark)
			return true;
	return false;
}

struct change { struct moved_view *before, *after; struct taker old[TAKERS_MAX], new[TAKERS_MAX]; };

/* For what no old rule explains: whether one that could have taken it, with any destination, still stands. */
static bool has_staying_rule(const struct change *c, const struct flow *f, uint32_t mark)
{
	bool has_any = false;
	for (unsigned i = 0; i < c->before->rule_count; i++) {
		const struct moved_rule *r = &c->before->rules[i];
		if (r->mark != mark || r->has_gid || match_clients(c->before, r, &f->src) == NO)
			continue;
		if (r->same && match_clients(c->after, r->same, &f->src) != NO)
			return true;
		has_any = true;
	}
	return !has_any;
}

static bool is_moved(void *ctx, const struct flow *f)
{
	struct change *c = ctx;
	const struct moved_view *after = c->after;
	int family = f->dst.family == AF_INET6;
	uint32_t mark = f->mark & c->before->mask, mark_now = f->mark & after->mask;
	if (!mark || !is_looked_at(c->before, &f->dst) || ranges_have(after->own[family].v, after->own[family].count, &f->dst) ||
		ranges_have(after->home[family].v, after->home[family].count, &f->dst))
		return false;
	bool is_own = ranges_have(after->own[family].v, after->own[family].count, &f->src);
	unsigned old = takers(c->before, f, is_own, c->old), new = takers(after, f, is_own, c->new), same = 0;
	if (is_own)
		return has_mark(c->old, 0, old, mark) && !has_mark(c->new, 0, new, mark_now);
	if (!has_mark(c->old, 0, old, mark))
		return !has_staying_rule(c, f, mark);
	while (same < old && same < new && c->old[same].id == c->new[same].id && c->old[same].mark == c->new[same].mark &&
		c->old[same].clients_hash == c->new[same].clients_hash && !strcmp(c->old[same].way, c->new[same].way))
		same++;
	if (!has_mark(c->old, same, old, mark))
		return mark != mark_now;
	for (unsigned i = same; i < new; i++)
		if (c->new[i].mark != mark_now)
			return true;
	return mark != mark_now;
}

int moved_drop(struct moved_view *before, struct moved_view *after)
{
	struct change *c = malloc(sizeof *c);
	int r = c ? make_index(before) : -ENOMEM;
	if (r == 0)
		r = make_index(after);
	if (r == 0) {
		c->before = before;
		c->after = after;
		for (unsigned i = 0; i < before->rule_count; i++) {
			before->rules[i].same = NULL;
			for (unsigned k = 0; k < after->rule_count && !before->rules[i].same; k++)
				if (is_same_rule(&before->rules[i], &after->rules[k]))
					before->rules[i].same = &after->rules[k];
		}
		r = flows_drop_if(before->mask | after->mask, is_moved, c);
	}
	free(c);
	return r;
}
