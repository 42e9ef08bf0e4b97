/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Taking hints out. The result of a sound answer is a sound answer with the same names, no address that was not there before,
 * no hint of the family, and nothing left to strip. */
#include <string.h>

#include "fuzz.h"
#include "wire/msg.h"
#include "wire/patch.h"

static struct wire_answer before, after;
static uint8_t out[WIRE_TCP_MAX], twice[WIRE_TCP_MAX];

static bool had_addr(const struct addr *a)
{
	for (unsigned i = 0; i < before.addr_count; i++)
		if (addr_equal(&before.addrs[i], a))
			return true;
	return false;
}

static void check_stripped(size_t len, size_t result_len, int family, bool is_changed)
{
	/* One record whose TYPE, four bytes before its TTL, is HTTPS: every address is a hint. */
	bool is_only_https =
		before.ancount == 1 && out[before.ttl_offset[0] - 4] == 0 && out[before.ttl_offset[0] - 3] == RR_HTTPS;

	CHECK(wire_answer_walk(&after, out, result_len) == 0 && !after.is_cut);
	CHECK(after.authority_end == result_len && after.ancount == before.ancount && after.nscount == before.nscount);
	CHECK(after.chain_len == before.chain_len && after.ttl_count == before.ttl_count);
	/* The extended RCODE goes with the additional section, and it decides whether the answer is negative. */
	CHECK(after.rcode != before.rcode || after.ttl_min_s == before.ttl_min_s);
	for (unsigned i = 0; i < after.chain_len; i++)
		CHECK(name_equal(&after.chain[i], &before.chain[i]));
	for (unsigned i = 0; i < after.addr_count; i++) {
		CHECK(had_addr(&after.addrs[i]));
		CHECK(!is_only_https || after.addrs[i].family != family);
	}
	CHECK(is_changed || (result_len == before.authority_end && after.addr_count == before.addr_count));
	CHECK(result_len <= len);
}

static void check_family(const uint8_t *bytes, size_t len, int family)
{
	bool is_changed, again;
	int r = wire_strip_hints(out, sizeof(out), bytes, len, family, &is_changed);

	if (r < 0)
		return;
	CHECK((size_t)r >= WIRE_HEADER && (size_t)r <= len);
	if (wire_answer_walk(&before, bytes, len) == 0 && !before.is_cut)
		check_stripped(len, (size_t)r, family, is_changed);
	CHECK(wire_strip_hints(twice, sizeof(twice), out, (size_t)r, family, &again) == r && !again);
	CHECK(memcmp(out, twice, (size_t)r) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	check_family(bytes, len, AF_INET);
	check_family(bytes, len, AF_INET6);
	return 0;
}
