/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The chains and rules of `inet nameway`.
 *
 * raw_prerouting, raw_output   DNS to and from our own sockets is not tracked (nft_listen.c).
 * prerouting (mangle)          by lo: nothing. Untracked -> `untracked`, which DNS to our own sockets leaves at once. Then: arrived by a way -> from<way>;
 *                              reply direction -> replies; already decided -> keep<way>; to this machine or to many -> direct; to be hijacked -> direct;
 *                              from outside -> direct, kept; else `steer`.
 * steer                        jumps to s<rule> in rule order; whatever none took is direct. A match leaves by `goto`, so it never comes back.
 * s<rule>                      the clients: excepted groups return, a group that holds goes to m<rule>.
 * m<rule>                      the addresses: a match counts in c<rule> and goes to take<way>.
 * take<way>, keep<way>         mark the packet; take also writes the connection's mark. Both end this hook. Without conntrack entry (untracked,
 *                              invalid) the ct rule of `take` breaks off alone, and the packet is marked all the same.
 * from<way>                    an answer is marked as its way's; a new connection that came in through a way is answered through it.
 * output (mangle, route)       untracked packets are let go, with gid rules only our DNS answers; own sockets with our mark keep it; replies and decided connections are restored; then the gid rules.
 * nat_prerouting               hijacked DNS is redirected.   nat_postrouting: masquerade.   forward: MSS clamp, DNS over TLS.
 * input                        the client's MAC, as a number, in the mark of packets to our DNS sockets (nft_listen.c).
 *
 * A base chain stands only while it has rules: an empty one costs every packet, and one that asks conntrack has all packets tracked. Where nothing is
 * steered and nothing hijacked nothing asks it.
 *
 * <way> is the way's number in the configuration; one more number stands for direct_mark when no way has it. Every mark write leaves the bits
 * outside the mask alone. All rules are written anew at each nft_apply, so numbers may change meaning between two of them. One thread. */
#include "steer/nft_expr.h"
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <libnftnl/chain.h>

enum { PRIO_RAW = -300, PRIO_MANGLE = -150, PRIO_DSTNAT = -100, PRIO_FILTER = 0, PRIO_SRCNAT = 100, PRIO_LATE = 250 };

static bool has_routing(const struct nft_build *x), has_exits(const struct nft_build *x), has_forward(const struct nft_build *x);

static const struct { const char *name, *type; uint32_t hook; int priority; bool (*is_wanted)(const struct nft_build *x); } base_chains[] = {
	{ "raw_prerouting", "filter", NF_INET_PRE_ROUTING, PRIO_RAW, nft_has_listens },
	{ "raw_output", "filter", NF_INET_LOCAL_OUT, PRIO_RAW, nft_has_listens },
	{ "prerouting", "filter", NF_INET_PRE_ROUTING, PRIO_MANGLE, has_routing },
	{ "output", "route", NF_INET_LOCAL_OUT, PRIO_MANGLE, has_routing },
	{ "nat_prerouting", "nat", NF_INET_PRE_ROUTING, PRIO_DSTNAT, nft_has_hijack },
	{ "nat_postrouting", "nat", NF_INET_POST_ROUTING, PRIO_SRCNAT, has_exits },
	{ "forward", "filter", NF_INET_FORWARD, PRIO_FILTER, has_forward },
	{ "input", "filter", NF_INET_LOCAL_IN, PRIO_LATE, nft_has_mac_rules },
};
static const char *const plain_chains[] = { "replies", "out_replies", "steer", "hijack_mark", "hijack_dns", "hijack_dot", "untracked" };
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

bool nft_has_names(const struct cfg_steer *s)
{
	return s->names.count > 0 || s->except_names.count > 0;
}

bool nft_is_negated(const struct cfg_steer *s)
{
	return s->names.count == 0 && s->except_names.count > 0;
}

bool nft_wants_macs(const struct config *c)
{
	for (unsigned g = 0; g < c->group_count; g++) {
		if (c->groups[g].mac_count > 0 || c->groups[g].except_mac_count > 0)
			return true;
	}
	return false;
}

static bool has_gid(const struct nft_build *x)
{
	for (unsigned i = 0; i < x->c->steer_count; i++) {
		if (x->c->steers[i].enabled && x->c->steers[i].has_gid)
			return true;
	}
	return false;
}

bool nft_has_hijack(const struct nft_build *x)
{
	return x->c->hijack.is_on && x->l->hijack_port && x->c->hijack.interface_count > 0;
}

/* Anything that marks: rules; ways, since what comes in by one is answered through it. */
static bool has_routing(const struct nft_build *x)
{
	for (unsigned i = 0; i < x->c->steer_count; i++) {
		if (x->c->steers[i].enabled)
			return true;
	}
	return x->c->way_count > 0 || nft_has_hijack(x);
}

static const char *numbered(char text[NFT_NAME_LEN], const char *word, unsigned number)
{
	snprintf(text, NFT_NAME_LEN, "%s%u", word, number);
	return text;
}

static const char *of_rule(char text[NFT_NAME_LEN], char kind, const struct cfg_steer *s)
{
	snprintf(text, NFT_NAME_LEN, "%c%08x", kind, s->id);
	return text;
}

static unsigned mark_count(const struct nft_build *x)
{
	return x->c->way_count + (x->direct == x->c->way_count);
}

static uint32_t mark_of(const struct nft_build *x, unsigned way)
{
	return way < x->c->way_count ? x->c->ways[way].mark : x->direct_mark;
}

void nft_chains_wanted(const struct nft_build *x, nft_chain_fn *cb, void *ctx)
{
	char name[NFT_NAME_LEN];

	for (size_t i = 0; i < COUNT(base_chains); i++) {
		if (base_chains[i].is_wanted(x))
			cb(ctx, base_chains[i].name);
	}
	nft_listen_chains_wanted(x, cb, ctx);
	if (!has_routing(x))
		return;
	for (size_t i = 0; i < COUNT(plain_chains); i++)
		cb(ctx, plain_chains[i]);
	if (has_gid(x))
		cb(ctx, "untracked_out");
	for (unsigned w = 0; w < mark_count(x); w++) {
		cb(ctx, numbered(name, "take", w));
		cb(ctx, numbered(name, "keep", w));
		if (w < x->c->way_count && x->c->ways[w].interface[0])
			cb(ctx, numbered(name, "from", w));
	}
	for (unsigned i = 0; i < x->c->steer_count; i++) {
		const struct cfg_steer *s = &x->c->steers[i];
		if (!s->enabled)
			continue;
		if (!s->has_gid)
			cb(ctx, of_rule(name, 's', s));
		cb(ctx, of_rule(name, 'm', s));
	}
}

static void add_chain(struct nft_build *x, const char *name, int base /* index or -1 */)
{
	struct nftnl_chain *c = nftnl_chain_alloc();
	struct nlmsghdr *h;

	if (!c) {
		x->b->failed = -ENOMEM;
		return;
	}
	nftnl_chain_set_str(c, NFTNL_CHAIN_TABLE, NFT_TABLE);
	nftnl_chain_set_str(c, NFTNL_CHAIN_NAME, name);
	if (base >= 0) {
		nftnl_chain_set_str(c, NFTNL_CHAIN_TYPE, base_chains[base].type);
		nftnl_chain_set_u32(c, NFTNL_CHAIN_HOOKNUM, base_chains[base].hook);
		nftnl_chain_set_s32(c, NFTNL_CHAIN_PRIO, base_chains[base].priority);
		nftnl_chain_set_u32(c, NFTNL_CHAIN_POLICY, NF_ACCEPT);
	}
	h = nft_batch_message(x->n, x->b, NFT_MSG_NEWCHAIN, NLM_F_CREATE);
	if (h) {
		nftnl_chain_nlmsg_build_payload(h, c);
		nft_batch_message_end(x->b);
	}
	nftnl_chain_free(c);
}

static void add_wanted_chain(void *ctx, const char *name)
{
	for (size_t i = 0; i < COUNT(base_chains); i++) {
		if (!strcmp(base_chains[i].name, name)) {
			add_chain(ctx, name, (int)i);
			return;
		}
	}
	add_chain(ctx, name, -1);
}

void nft_chains_add(struct nft_build *x)
{
	nft_chains_wanted(x, add_wanted_chain, x);
}

static void begin(struct nft_build *x, struct rule *r, const char *chain)
{
	rule_begin(r, x->n, x->b, chain);
}

static void go(struct rule *r, int verdict, const char *chain)
{
	act_verdict(r, verdict, chain);
	rule_end(r, NULL);
}

/* "ct mark & MASK vmap { mark : goto keep<way>, … }", complete but for conditions before it. */
static void go_by_way_mark(struct nft_build *x, struct rule *r, bool is_ct, const char *word)
{
	const unsigned count = mark_count(x);
	struct jump_table *t = calloc(count, sizeof(*t));
	char(*names)[NFT_NAME_LEN] = calloc(count, sizeof(*names));
	uint32_t *marks = calloc(count, sizeof(*marks));

	if (t && names && marks) {
		for (unsigned w = 0; w < count; w++) {
			marks[w] = mark_of(x, w);
			t[w] = (struct jump_table){ .key = &marks[w], .key_len = 4, .chain = numbered(names[w], word, w) };
		}
		act_go_by_mark(r, is_ct, x->mask, t, count);
	} else {
		x->b->failed = -ENOMEM;
	}
	rule_end(r, NULL);
	free(t);
	free(names);
	free(marks);
}

static void mark_chains(struct nft_build *x)
{
	char chain[NFT_NAME_LEN];
	struct rule r;

	for (unsigned w = 0; w < mark_count(x); w++) {
		const char *way = w < x->c->way_count ? x->c->ways[w].name : "direct";

		begin(x, &r, numbered(chain, "take", w));
		act_mark(&r, x->mask, mark_of(x, w));
		rule_end(&r, way);
		begin(x, &r, chain);
		act_ct_mark(&r, x->mask, mark_of(x, w));
		rule_end(&r, NULL);
		begin(x, &r, chain);
		go(&r, NF_ACCEPT, NULL);

		begin(x, &r, numbered(chain, "keep", w));
		act_mark(&r, x->mask, mark_of(x, w));
		act_verdict(&r, NF_ACCEPT, NULL);
		rule_end(&r, way);

		if (w >= x->c->way_count || !x->c->ways[w].interface[0])
			continue;
		/* An answer carries its way's mark, a new connection from there the direct one: the kernel's check of the way back (rp_filter) looks up the
		 * route with the packet's mark, and unmarked that lookup would meet the closed rule of the client's interface. Without local access the
		 * way's own table knows no client, so there the answer is direct too, or it would be sent back into the way. */
		begin(x, &r, numbered(chain, "from", w));
		match_direction(&r, true);
		act_mark(&r, x->mask, mark_of(x, x->c->ways[w].local_access ? w : x->direct));
		act_verdict(&r, NF_ACCEPT, NULL);
		rule_end(&r, way);
		begin(x, &r, chain);
		match_new(&r);
		act_ct_mark(&r, x->mask, mark_of(x, w));
		rule_end(&r, way);
		begin(x, &r, chain);
		act_mark(&r, x->mask, mark_of(x, x->direct));
		go(&r, NF_ACCEPT, NULL);
	}
}

static bool is_first_of_interface(const struct config *c, unsigned way)
{
	for (unsigned w = 0; w < way; w++) {
		if (!strcmp(c->ways[w].interface, c->ways[way].interface))
			return false;
	}
	return c->ways[way].interface[0];
}

/* iifname vmap { way's interface : goto from<way> } */
static void go_by_way_interface(struct nft_build *x)
{
	struct jump_table t[CONFIG_WAYS_MAX];
	char names[CONFIG_WAYS_MAX][NFT_NAME_LEN], interfaces[CONFIG_WAYS_MAX][IFNAME_MAX];
	unsigned count = 0;
	struct rule r;

	memset(interfaces, 0, sizeof(interfaces));
	for (unsigned w = 0; w < x->c->way_count && w < CONFIG_WAYS_MAX; w++) {
		if (!is_first_of_interface(x->c, w))
			continue;
		memcpy(interfaces[count], x->c->ways[w].interface, strnlen(x->c->ways[w].interface, IFNAME_MAX - 1));
		t[count] = (struct jump_table){ .key = interfaces[count], .key_len = IFNAME_MAX, .chain = numbered(names[count], "from", w) };
		count++;
	}
	if (count == 0)
		return;
	begin(x, &r, "prerouting");
	act_go_by_interface(&r, IN, t, count);
	rule_end(&r, NULL);
}

static void prerouting_chains(struct nft_build *x)
{
	const struct cfg_hijack *h = &x->c->hijack;
	char take[NFT_NAME_LEN], keep[NFT_NAME_LEN];
	struct rule r;

	numbered(take, "take", x->direct);
	numbered(keep, "keep", x->direct);
	/* Of this machine: who sent it decided as it left. */
	begin(x, &r, "prerouting");
	match_lo(&r, IN);
	go(&r, NF_ACCEPT, NULL);
	begin(x, &r, "prerouting");
	match_untracked(&r);
	go(&r, NFT_JUMP, "untracked");
	nft_own_rules(x, "untracked", false);
	go_by_way_interface(x);
	begin(x, &r, "prerouting");
	match_direction(&r, true);
	go(&r, NFT_GOTO, "replies");
	begin(x, &r, "prerouting");
	match_direction(&r, false);
	go_by_way_mark(x, &r, true, "keep");
	begin(x, &r, "prerouting");
	match_not_forwarded(&r);
	go(&r, NFT_GOTO, keep);
	if (nft_has_hijack(x)) {
		begin(x, &r, "prerouting");
		match_interfaces(&r, IN, (const char(*)[IFNAME_MAX])h->interfaces, h->interface_count, false);
		go(&r, NFT_JUMP, "hijack_mark");
	}
	begin(x, &r, "prerouting");
	match_set_interface(&r, IN, "outside");
	go(&r, NFT_GOTO, take);
	begin(x, &r, "prerouting");
	go(&r, NFT_GOTO, "steer");

	/* A reply that comes back from outside belongs to a connection that left there (a fallback): it must not be sent out again. */
	begin(x, &r, "replies");
	match_set_interface(&r, IN, "outside");
	go(&r, NFT_GOTO, keep);
	begin(x, &r, "replies");
	go_by_way_mark(x, &r, true, "keep");
	begin(x, &r, "replies");
	go(&r, NFT_GOTO, keep);
}

static bool has_family(const struct prefix *p, unsigned count, bool is_v6)
{
	for (unsigned i = 0; i < count; i++) {
		if (nft_is_v6(p[i].addr.family) == is_v6)
			return true;
	}
	return false;
}

enum mac_step { MAC_NOT_ASKED, MAC_WITH, MAC_WITHOUT };

/* One family's share of a group: all its keys. v6 < 0: a group without networks holds for both families in one rule. */
static void group_rule(struct nft_build *x, const char *chain, const struct cfg_group *g, int v6, enum mac_step step, int verdict, const char *target)
{
	struct rule r;

	begin(x, &r, chain);
	if (g->interface_count > 0)
		match_interfaces(&r, IN, (const char(*)[IFNAME_MAX])g->interfaces, g->interface_count, false);
	if (g->except_interface_count > 0)
		match_interfaces(&r, IN, (const char(*)[IFNAME_MAX])g->except_interfaces, g->except_interface_count, true);
	if (v6 >= 0) {
		match_family(&r, v6);
		if (g->network_count > 0)
			match_prefixes(&r, SRC, v6, g->networks, g->network_count, false);
		if (has_family(g->except_networks, g->except_network_count, v6))
			match_prefixes(&r, SRC, v6, g->except_networks, g->except_network_count, true);
	}
	if (step != MAC_NOT_ASKED)
		match_ether(&r, step == MAC_WITHOUT);
	if (step == MAC_WITH && g->mac_count > 0)
		match_macs(&r, (const uint8_t(*)[6])g->macs, g->mac_count, false);
	if (step == MAC_WITH && g->except_mac_count > 0)
		match_macs(&r, (const uint8_t(*)[6])g->except_macs, g->except_mac_count, true);
	act_verdict(&r, verdict, target);
	rule_end(&r, g->name);
}

/* Excepted MACs take two rules: a packet without a MAC (from a tunnel) has none of them, but there is nothing to compare. */
static void group_family_rules(struct nft_build *x, const char *chain, const struct cfg_group *g, int v6, int verdict, const char *target)
{
	const bool asks = g->mac_count > 0 || g->except_mac_count > 0;

	group_rule(x, chain, g, v6, asks ? MAC_WITH : MAC_NOT_ASKED, verdict, target);
	if (g->mac_count == 0 && g->except_mac_count > 0)
		group_rule(x, chain, g, v6, MAC_WITHOUT, verdict, target);
}

static void group_rules(struct nft_build *x, const char *chain, const struct cfg_group *g, int verdict, const char *target)
{
	if (g->network_count == 0 && g->except_network_count == 0) {
		group_family_rules(x, chain, g, -1, verdict, target);
		return;
	}
	for (int v6 = 0; v6 <= 1; v6++) {
		if (g->network_count == 0 || has_family(g->networks, g->network_count, v6))
			group_family_rules(x, chain, g, v6, verdict, target);
	}
}

/* "counter name c<rule> goto take<way>", the end of every match. */
static void decide(struct nft_build *x, struct rule *r, const struct cfg_steer *s)
{
	char text[NFT_NAME_LEN];

	act_counter(r, of_rule(text, 'c', s));
	go(r, NFT_GOTO, numbered(text, "take", s->way >= 0 ? (unsigned)s->way : x->direct));
}

static void address_rules(struct nft_build *x, const struct cfg_steer *s, bool is_v6)
{
	const uint8_t family = is_v6 ? AF_INET6 : AF_INET;
	char chain[NFT_NAME_LEN], set[NFT_NAME_LEN];
	struct rule r;

	of_rule(chain, 'm', s);
	if (nft_is_negated(s)) {
		begin(x, &r, chain);
		match_family(&r, is_v6);
		nft_set_name(set, 'r', s->id, family);
		match_address_set(&r, DST, is_v6, set, true);
		nft_set_name(set, 'p', s->id, family);
		match_address_set(&r, DST, is_v6, set, true);
		decide(x, &r, s);
		return;
	}
	if (s->except_names.count > 0) {
		begin(x, &r, chain);
		match_family(&r, is_v6);
		nft_set_name(set, 'q', s->id, family);
		match_address_set(&r, DST, is_v6, set, false);
		go(&r, NFT_RETURN, NULL);
	}
	for (const char *kind = "rp"; *kind; kind++) {
		begin(x, &r, chain);
		match_family(&r, is_v6);
		nft_set_name(set, *kind, s->id, family);
		match_address_set(&r, DST, is_v6, set, false);
		decide(x, &r, s);
	}
}

static void steer_rule(struct nft_build *x, const struct cfg_steer *s)
{
	char clients[NFT_NAME_LEN], match[NFT_NAME_LEN];
	struct rule r;

	of_rule(clients, 's', s);
	of_rule(match, 'm', s);
	if (nft_has_names(s)) {
		address_rules(x, s, false);
		address_rules(x, s, true);
	} else {
		begin(x, &r, match);
		decide(x, &r, s);
	}
	if (s->has_gid)
		return;
	for (unsigned i = 0; i < s->except_clients.count; i++)
		group_rules(x, clients, &x->c->groups[s->except_clients.v[i]], NFT_RETURN, NULL);
	for (unsigned i = 0; i < s->clients.count; i++)
		group_rules(x, clients, &x->c->groups[s->clients.v[i]], NFT_GOTO, match);
	if (s->clients.count == 0) {
		begin(x, &r, clients);
		go(&r, NFT_GOTO, match);
	}
	begin(x, &r, "steer");
	act_verdict(&r, NFT_JUMP, clients);
	rule_end(&r, s->name);
}

static void steer_chains(struct nft_build *x)
{
	char take[NFT_NAME_LEN];
	struct rule r;

	for (unsigned i = 0; i < x->c->steer_count; i++) {
		if (x->c->steers[i].enabled)
			steer_rule(x, &x->c->steers[i]);
	}
	begin(x, &r, "steer");
	go(&r, NFT_GOTO, numbered(take, "take", x->direct));
}

/* Upstreams and tunnel endpoints: a gid rule must not lead a tunnel's own packets into the tunnel. */
static void never_rules(struct nft_build *x)
{
	static const uint8_t protocols[] = { IPPROTO_UDP, IPPROTO_TCP };
	const struct nft_layout *l = x->l;
	bool has_port[2] = { false, false };
	struct rule r;

	for (unsigned i = 0; i < l->never_count; i++) {
		if (l->never[i].port) {
			has_port[nft_is_v6(l->never[i].addr.family)] = true;
			continue;
		}
		begin(x, &r, "output");
		match_address(&r, DST, &l->never[i].addr);
		go(&r, NF_ACCEPT, NULL);
	}
	for (int v6 = 0; v6 <= 1; v6++) {
		for (unsigned p = 0; has_port[v6] && p < COUNT(protocols); p++) {
			begin(x, &r, "output");
			match_endpoints(&r, v6, l->never, l->never_count, protocols[p]);
			go(&r, NF_ACCEPT, NULL);
		}
	}
}

static void output_chains(struct nft_build *x)
{
	char match[NFT_NAME_LEN];
	struct rule r;

	/* Without gid rules an untracked packet has what it may have: its socket's mark. */
	begin(x, &r, "output");
	match_untracked(&r);
	go(&r, has_gid(x) ? NFT_JUMP : NF_ACCEPT, has_gid(x) ? "untracked_out" : NULL);
	if (has_gid(x))
		nft_own_rules(x, "untracked_out", true);
	begin(x, &r, "output");
	go_by_way_mark(x, &r, false, "take");
	begin(x, &r, "output");
	match_direction(&r, true);
	go(&r, NFT_GOTO, "out_replies");
	begin(x, &r, "output");
	match_direction(&r, false);
	go_by_way_mark(x, &r, true, "keep");
	begin(x, &r, "out_replies");
	go_by_way_mark(x, &r, true, "keep");
	if (!has_gid(x))
		return;
	begin(x, &r, "output");
	match_not_forwarded(&r);
	go(&r, NF_ACCEPT, NULL);
	never_rules(x);
	for (unsigned i = 0; i < x->c->steer_count; i++) {
		const struct cfg_steer *s = &x->c->steers[i];
		if (!s->enabled || !s->has_gid)
			continue;
		begin(x, &r, "output");
		match_gid(&r, s->gid);
		act_verdict(&r, NFT_JUMP, of_rule(match, 'm', s));
		rule_end(&r, s->name);
	}
}

/* The excepted clients of hijack-dns leave the chain. */
static void hijack_excepts(struct nft_build *x, const char *chain)
{
	const struct cfg_hijack *h = &x->c->hijack;
	struct rule r;

	for (int v6 = 0; v6 <= 1; v6++) {
		if (!has_family(h->except, h->except_count, v6))
			continue;
		begin(x, &r, chain);
		match_family(&r, v6);
		match_prefixes(&r, SRC, v6, h->except, h->except_count, false);
		go(&r, NFT_RETURN, NULL);
	}
}

static void hijack_chains(struct nft_build *x)
{
	static const uint8_t protocols[] = { IPPROTO_UDP, IPPROTO_TCP };
	const struct cfg_hijack *h = &x->c->hijack;
	char keep[NFT_NAME_LEN];
	struct rule r;

	if (!nft_has_hijack(x))
		return;
	begin(x, &r, "nat_prerouting");
	match_interfaces(&r, IN, (const char(*)[IFNAME_MAX])h->interfaces, h->interface_count, false);
	match_local(&r, DST, true);
	go(&r, NFT_JUMP, "hijack_dns");
	hijack_excepts(x, "hijack_mark");
	hijack_excepts(x, "hijack_dns");
	for (unsigned p = 0; p < COUNT(protocols); p++) {
		begin(x, &r, "hijack_mark");
		match_protocol(&r, protocols[p]);
		match_port(&r, DST, 53);
		if (protocols[p] == IPPROTO_UDP && x->n->can_ct_timeout)
			act_ct_timeout(&r, "hijacked");
		go(&r, NFT_GOTO, numbered(keep, "keep", x->direct));

		begin(x, &r, "hijack_dns");
		match_protocol(&r, protocols[p]);
		match_port(&r, DST, 53);
		act_redirect(&r, x->l->hijack_port);
		rule_end(&r, NULL);
	}
	if (!h->dot_reject)
		return;
	begin(x, &r, "forward");
	match_interfaces(&r, IN, (const char(*)[IFNAME_MAX])h->interfaces, h->interface_count, false);
	go(&r, NFT_JUMP, "hijack_dot");
	hijack_excepts(x, "hijack_dot");
	for (unsigned p = 0; p < COUNT(protocols); p++) {
		begin(x, &r, "hijack_dot");
		match_protocol(&r, protocols[p]);
		match_port(&r, DST, 853);
		act_reject(&r, protocols[p] == IPPROTO_TCP);
		rule_end(&r, NULL);
	}
}

static bool is_on_for_way(const struct nft_build *x, int setting, unsigned way)
{
	return setting > 0 || (setting < 0 && x->l->way_is_p2p && (x->l->way_is_p2p[way / 64] >> way % 64 & 1));
}

static bool has_clamp(const struct nft_build *x, unsigned way)
{
	return is_first_of_interface(x->c, way) && is_on_for_way(x, x->c->ways[way].mss_clamp, way);
}

static bool has_forward(const struct nft_build *x)
{
	for (unsigned w = 0; w < x->c->way_count; w++) {
		if (has_clamp(x, w))
			return true;
	}
	return nft_has_hijack(x) && x->c->hijack.dot_reject;
}

/* A socket's source is chosen before a gid rule leads its packets elsewhere, or a way that goes down or comes back. */
static bool may_leave_elsewhere(const struct nft_build *x)
{
	for (unsigned w = 0; w < x->c->way_count; w++) {
		if (x->c->ways[w].interface[0] && !x->c->ways[w].kill_switch)
			return true;
	}
	return has_gid(x);
}

static bool has_masquerade(const struct nft_build *x, unsigned way)
{
	return is_first_of_interface(x->c, way) && (is_on_for_way(x, x->c->ways[way].masquerade, way) || may_leave_elsewhere(x));
}

static bool has_exits(const struct nft_build *x)
{
	for (unsigned w = 0; w < x->c->way_count; w++) {
		if (has_masquerade(x, w))
			return true;
	}
	return false;
}

/* Masquerading: what leaves by a way without an address of that interface. Where it is off, still what this machine sends itself, where that may
 * have another's source. */
static void exit_rules(struct nft_build *x)
{
	struct rule r;

	for (unsigned w = 0; w < x->c->way_count; w++) {
		const struct cfg_way *way = &x->c->ways[w];
		if (has_masquerade(x, w)) {
			begin(x, &r, "nat_postrouting");
			match_interface(&r, OUT, way->interface);
			if (!is_on_for_way(x, way->masquerade, w))
				match_local(&r, SRC, false);
			match_source_not_of_exit(&r);
			act_masquerade(&r);
			rule_end(&r, way->name);
		}
		for (enum dir d = IN; has_clamp(x, w) && d <= OUT; d++) {
			begin(x, &r, "forward");
			match_interface(&r, d, way->interface);
			match_syn(&r);
			act_clamp_mss(&r);
			rule_end(&r, way->name);
		}
	}
}

void nft_rules_add(struct nft_build *x)
{
	nft_untracked_rules(x);
	nft_mac_rules(x);
	if (x->l->is_closed || !has_routing(x))
		return;
	mark_chains(x);
	prerouting_chains(x);
	steer_chains(x);
	output_chains(x);
	hijack_chains(x);
	exit_rules(x);
}
