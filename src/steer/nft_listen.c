/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The rules about DNS to and from our own sockets, which are the hottest: every query and every answer passes them.
 *
 * Such packets are not tracked (raw_prerouting, raw_output), and leave the chains that steer at once: they are neither a client's traffic nor
 * anybody's connection. What passes through, and what is hijacked, never is. What tells such a packet is port, and address or interface:
 *
 *   arrives      the listening address, or any local one where an interface or everything is listened on. An address may be another machine's at the
 *                moment (we bind without having it), so unless it is a loopback one the kernel is asked whether it is local.
 *   answers      the same as source. Nobody is asked: what passes output is this machine's, whatever its source.
 *   asks itself  leaves by lo, which says that the destination is local. What comes in by lo was judged as it left, and is as it was then.
 *
 * One listening place has its rules in the base chain. Several have them in a chain of their own that only packets of their ports enter, so that
 * other traffic passes two rules. One thread. */
#include "steer/nft_expr.h"
#include <string.h>
#include "steer/macmap.h"

enum { PORTS_MAX = 64 };

static const uint8_t protocols[] = { IPPROTO_UDP, IPPROTO_TCP };
#define PROTOCOLS (sizeof(protocols) / sizeof(protocols[0]))

/* A look at packets: which end is our socket, where an interface is looked for, what else must be asked, and what is done beside accepting. */
struct view {
	enum dir end, interface;
	enum { ASK_NEVER, ASK_UNLESS_ADDRESS, ASK_UNLESS_LOOPBACK } ask_local;
	bool is_to_self, has_notrack;
};
static const struct view arriving = { DST, IN, ASK_UNLESS_LOOPBACK, false, true }, answering = { SRC, OUT, ASK_NEVER, false, true };
static const struct view to_self = { DST, OUT, ASK_NEVER, true, true };
/* In the chains that steer. Only untracked packets are looked at there, and an address that is not ours was left tracked before. */
static const struct view arrived = { DST, IN, ASK_UNLESS_ADDRESS, false, false }, answered = { SRC, OUT, ASK_NEVER, false, false };

static bool is_any(const struct cfg_listen *l)
{
	static const uint8_t any[16];

	return !l->ifname[0] && memcmp(l->ep.addr.b, any, sizeof(any)) == 0;
}

static bool is_looked_at(const struct nft_build *x, const struct cfg_listen *l, const struct view *v)
{
	/* Whoever asks itself is bound to no interface but lo. */
	return l->ep.port != x->l->hijack_port && (!v->is_to_self || !l->ifname[0] || !strcmp(l->ifname, "lo"));
}

static unsigned count_looked_at(const struct nft_build *x, const struct view *v)
{
	unsigned count = 0;

	for (unsigned i = 0; i < x->c->server.listen_count; i++)
		count += is_looked_at(x, &x->c->server.listen[i], v);
	return count;
}

static bool asks_local(const struct cfg_listen *l, const struct view *v)
{
	const bool is_address = !l->ifname[0] && !is_any(l);

	switch (v->ask_local) {
	case ASK_NEVER: return false;
	case ASK_UNLESS_ADDRESS: return !is_address;
	case ASK_UNLESS_LOOPBACK: return !is_address || !addr_is_loopback(&l->ep.addr);
	}
	return true;
}

static void listen_rule(struct nft_build *x, const char *chain, const struct cfg_listen *l, uint8_t protocol, const struct view *v)
{
	struct rule r;

	rule_begin(&r, x->n, x->b, chain);
	match_protocol(&r, protocol);
	match_port(&r, v->end, l->ep.port);
	if (v->is_to_self)
		match_lo(&r, v->interface);
	else if (l->ifname[0])
		match_interface(&r, v->interface, l->ifname);
	if (!l->ifname[0] && !is_any(l))
		match_address(&r, v->end, &l->ep.addr);
	if (asks_local(l, v))
		match_local(&r, v->end, false);
	if (v->has_notrack)
		act_notrack(&r);
	act_verdict(&r, NF_ACCEPT, NULL);
	rule_end(&r, NULL);
}

/* UDP first, since most is. */
static void listen_rules(struct nft_build *x, const char *chain, const struct view *v)
{
	for (unsigned i = 0; i < PROTOCOLS * x->c->server.listen_count; i++) {
		const struct cfg_listen *l = &x->c->server.listen[i % x->c->server.listen_count];
		if (is_looked_at(x, l, v))
			listen_rule(x, chain, l, protocols[i / x->c->server.listen_count], v);
	}
}

static void add_port(uint16_t *ports, unsigned *count, uint16_t port)
{
	for (unsigned i = 0; i < *count; i++) {
		if (ports[i] == port)
			return;
	}
	if (port && *count < PORTS_MAX)
		ports[(*count)++] = port;
}

static unsigned ports_of(const struct nft_build *x, const struct view *v, uint16_t ports[PORTS_MAX])
{
	unsigned count = 0;

	for (unsigned i = 0; i < x->c->server.listen_count; i++) {
		if (!v || is_looked_at(x, &x->c->server.listen[i], v))
			add_port(ports, &count, x->c->server.listen[i].ep.port);
	}
	return count;
}

/* Several places: "udp dport { … } jump CHAIN", and their rules there. More ports than a rule names: all packets go there. */
static void listen_chain(struct nft_build *x, const char *base, const char *chain, const struct view *v)
{
	uint16_t ports[PORTS_MAX];
	const unsigned count = count_looked_at(x, v), port_count = ports_of(x, v, ports);
	struct rule r;

	if (count < 2) {
		listen_rules(x, base, v);
		return;
	}
	for (size_t p = 0; p < PROTOCOLS; p++) {
		rule_begin(&r, x->n, x->b, base);
		match_protocol(&r, protocols[p]);
		if (port_count < PORTS_MAX)
			match_ports(&r, v->end, ports, port_count);
		act_verdict(&r, NFT_JUMP, chain);
		rule_end(&r, NULL);
	}
	listen_rules(x, chain, v);
}

bool nft_has_listens(const struct nft_build *x)
{
	return count_looked_at(x, &arriving) > 0;
}

void nft_listen_chains_wanted(const struct nft_build *x, nft_chain_fn *cb, void *ctx)
{
	if (count_looked_at(x, &arriving) > 1) {
		cb(ctx, "dns_in");
		cb(ctx, "dns_out");
	}
	if (count_looked_at(x, &to_self) > 1)
		cb(ctx, "dns_self");
}

void nft_untracked_rules(struct nft_build *x)
{
	struct rule r;

	if (!nft_has_listens(x))
		return;
	rule_begin(&r, x->n, x->b, "raw_prerouting");
	match_lo(&r, IN);
	act_verdict(&r, NF_ACCEPT, NULL);
	rule_end(&r, NULL);
	listen_chain(x, "raw_prerouting", "dns_in", &arriving);
	listen_chain(x, "raw_output", "dns_out", &answering);
	listen_chain(x, "raw_output", "dns_self", &to_self);
}

void nft_own_rules(struct nft_build *x, const char *chain, bool is_output)
{
	listen_rules(x, chain, is_output ? &answered : &arrived);
}

static unsigned mac_ports(const struct nft_build *x, uint16_t ports[PORTS_MAX])
{
	unsigned count = ports_of(x, NULL, ports);

	add_port(ports, &count, x->l->hijack_port);
	return count;
}

bool nft_has_mac_rules(const struct nft_build *x)
{
	uint16_t ports[PORTS_MAX];

	return nft_wants_macs(x->c) && mac_ports(x, ports) > 0;
}

void nft_mac_rules(struct nft_build *x)
{
	uint16_t ports[PORTS_MAX];
	const unsigned count = mac_ports(x, ports);
	struct rule r;

	if (!nft_has_mac_rules(x))
		return;
	rule_begin(&r, x->n, x->b, "input");
	match_protocol(&r, IPPROTO_UDP);
	match_ports(&r, DST, ports, count);
	act_mark_whole(&r, (uint32_t)MACMAP_MARK);
	rule_end(&r, NULL);
	rule_begin(&r, x->n, x->b, "input");
	match_protocol(&r, IPPROTO_UDP);
	match_ports(&r, DST, ports, count);
	match_ether(&r, false);
	act_mark_of_mac(&r, "macs");
	rule_end(&r, NULL);
}
