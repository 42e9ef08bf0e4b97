/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Special-use names and what is said of them. No state; any thread.
 *
 * test. and example. are not here: RFC 6761 keeps them out of the root, not out of the resolvers of those who test; a forwarder asks who it was told to. */
#include <string.h>
#include "local/local_private.h"

const struct special special_names[] = {
        {"localhost", SPECIAL_LOOPBACK, "special-use name localhost (RFC 6761)"},
        {"invalid", SPECIAL_NOTHING, "special-use name invalid (RFC 6761)"},
        {"local", SPECIAL_NOTHING, "special-use name local: asked by multicast (RFC 6762)"},
        {"onion", SPECIAL_NOTHING, "special-use name onion: not in the DNS (RFC 7686)"},
        {"alt", SPECIAL_NOTHING, "special-use name alt: not in the DNS (RFC 9476)"},
        {"home.arpa", SPECIAL_ZONE, "special-use name home.arpa: local names only (RFC 8375)"},
        {"service.arpa", SPECIAL_ZONE, "special-use name service.arpa: local names only (RFC 9665)"},
        {"resolver.arpa", SPECIAL_EMPTY, "special-use name resolver.arpa: no designated resolver (RFC 9462)"},
        {"ipv4only.arpa", SPECIAL_IPV4ONLY, "special-use name ipv4only.arpa (RFC 8880)"},
        {"in-addr.arpa", SPECIAL_REVERSE, "the name of a private address (RFC 6303)"},
        {"ip6.arpa", SPECIAL_REVERSE, "the name of a private address (RFC 6303)"},
};
const unsigned special_count = sizeof special_names / sizeof *special_names;

#define FIXED(t, bytes)                                                                                                          \
	{                                                                                                                        \
		.type = (t), .rdlen = sizeof(bytes) - 1, .ttl_s = LOCAL_SPECIAL_TTL_S, .rdata = (const uint8_t *)(bytes)         \
	}
static const struct wire_record loopback[] = {FIXED(RR_A, "\177\0\0\1"), FIXED(RR_AAAA, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1")};
static const struct wire_record ipv4only[] = {FIXED(RR_A, "\300\0\0\252"), FIXED(RR_A, "\300\0\0\253")};
static const struct wire_record localhost_name = FIXED(RR_PTR, "\11localhost\0");
static const struct wire_record ipv4only_name = FIXED(RR_PTR, "\10ipv4only\4arpa\0");

unsigned special_records(enum special_kind kind, const struct wire_record **ret)
{
	if (kind == SPECIAL_LOOPBACK) {
		*ret = loopback;
		return 2;
	}
	if (kind == SPECIAL_IPV4ONLY) {
		*ret = ipv4only;
		return 2;
	}
	return 0;
}

const struct wire_record *special_ptr(const struct addr *a, unsigned bits)
{
	static const struct {
		struct addr addr;
		const struct wire_record *record;
	} known[] = {{{AF_INET, {127, 0, 0, 1}}, &localhost_name}, {{AF_INET6, {[15] = 1}}, &localhost_name},
	        {{AF_INET, {192, 0, 0, 170}}, &ipv4only_name}, {{AF_INET, {192, 0, 0, 171}}, &ipv4only_name}};
	struct prefix p = {*a, (uint8_t)bits};

	for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
		if (prefix_contains(&p, &known[i].addr))
			return known[i].record;
	return NULL;
}
