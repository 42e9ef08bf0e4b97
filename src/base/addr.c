/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Addresses, prefixes and endpoints: text, socket addresses, and the ranges that never belong in a set. No state; any thread. */
#include "base/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

static unsigned addr_bits(const struct addr *a)
{
	return a->family == AF_INET ? 32 : a->family == AF_INET6 ? 128 : 0;
}

int addr_parse(struct addr *ret, const char *text)
{
	struct addr a = {0};

	if (inet_pton(AF_INET, text, a.b) == 1)
		a.family = AF_INET;
	else if (inet_pton(AF_INET6, text, a.b) == 1)
		a.family = AF_INET6;
	else
		return NW_EMALFORMED;
	*ret = a;
	return 0;
}

/* A decimal number without sign or space, 0..max, that ends the text. */
static int number_parse(unsigned *ret, const char *text, unsigned max)
{
	unsigned n = 0;

	if (!*text)
		return NW_EMALFORMED;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return NW_EMALFORMED;
		n = n * 10 + (unsigned)(*text - '0');
		if (n > max)
			return NW_EMALFORMED;
	}
	*ret = n;
	return 0;
}

int prefix_parse(struct prefix *ret, const char *text)
{
	const char *slash = strchr(text, '/');
	size_t len = slash ? (size_t)(slash - text) : strlen(text);
	char part[INET6_ADDRSTRLEN];
	struct prefix p;
	unsigned bits;

	if (len >= sizeof(part))
		return NW_EMALFORMED;
	memcpy(part, text, len);
	part[len] = '\0';
	if (addr_parse(&p.addr, part) < 0)
		return NW_EMALFORMED;
	bits = addr_bits(&p.addr);
	if (slash && number_parse(&bits, slash + 1, bits) < 0)
		return NW_EMALFORMED;
	p.len = (uint8_t)bits;
	for (unsigned i = 0; i < 16; i++) {
		unsigned keep = bits > i * 8 ? bits - i * 8 : 0;

		if (keep < 8)
			p.addr.b[i] &= (uint8_t)(0xff00 >> keep);
	}
	*ret = p;
	return 0;
}

/* "%eth0" or "%3" behind a link-local address; cuts it off the text. */
static int scope_cut(uint32_t *ret, char *text)
{
	char *percent = strchr(text, '%');
	unsigned n;

	*ret = 0;
	if (!percent)
		return 0;
	*percent = '\0';
	if (number_parse(&n, percent + 1, INT32_MAX / 10) < 0)
		n = if_nametoindex(percent + 1);
	if (n == 0)
		return NW_EMALFORMED;
	*ret = n;
	return 0;
}

int endpoint_parse(struct endpoint *ret, const char *text, uint16_t default_port)
{
	const char *at = strrchr(text, '@');
	size_t len = at ? (size_t)(at - text) : strlen(text);
	unsigned port = default_port;
	struct endpoint e = {0};
	bool is_bracketed;
	char part[INET6_ADDRSTRLEN + IF_NAMESIZE + 1];

	if (at && (number_parse(&port, at + 1, 65535) < 0 || port == 0))
		return NW_EMALFORMED;
	is_bracketed = len >= 2 && text[0] == '[' && text[len - 1] == ']';
	if (is_bracketed) {
		text++;
		len -= 2;
	}
	if (len >= sizeof(part))
		return NW_EMALFORMED;
	memcpy(part, text, len);
	part[len] = '\0';
	if (scope_cut(&e.scope, part) < 0 || addr_parse(&e.addr, part) < 0)
		return NW_EMALFORMED;
	if (e.addr.family == AF_INET && (is_bracketed || e.scope))
		return NW_EMALFORMED;
	e.port = (uint16_t)port;
	*ret = e;
	return 0;
}

const char *addr_print(char buf[ADDR_TEXT_MAX], const struct addr *a)
{
	if (!addr_bits(a) || !inet_ntop(a->family, a->b, buf, ADDR_TEXT_MAX))
		snprintf(buf, ADDR_TEXT_MAX, "none");
	return buf;
}

const char *prefix_print(char buf[ADDR_TEXT_MAX], const struct prefix *p)
{
	size_t len = strlen(addr_print(buf, &p->addr));

	snprintf(buf + len, ADDR_TEXT_MAX - len, "/%u", p->len);
	return buf;
}

bool addr_equal(const struct addr *a, const struct addr *b)
{
	return a->family == b->family && memcmp(a->b, b->b, sizeof(a->b)) == 0;
}

static bool bits_equal(const uint8_t *a, const uint8_t *b, unsigned bits)
{
	unsigned rest = bits % 8;

	if (memcmp(a, b, bits / 8) != 0)
		return false;
	return rest == 0 || ((a[bits / 8] ^ b[bits / 8]) >> (8 - rest)) == 0;
}

bool prefix_contains(const struct prefix *p, const struct addr *a)
{
	return a->family == p->addr.family && bits_equal(a->b, p->addr.b, p->len);
}

/* ::ffff:a.b.c.d */
static bool is_mapped(const struct addr *a)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return a->family == AF_INET6 && memcmp(a->b, mapped, sizeof(mapped)) == 0;
}

static void unmap(struct addr *a)
{
	struct addr v4 = {.family = AF_INET};

	if (!is_mapped(a))
		return;
	memcpy(v4.b, a->b + 12, 4);
	*a = v4;
}

int addr_from_sockaddr(struct endpoint *ret, const struct sockaddr *sa)
{
	struct endpoint e = {0};

	if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)sa;

		e.addr.family = AF_INET;
		memcpy(e.addr.b, &in->sin_addr, 4);
		e.port = ntohs(in->sin_port);
	} else if (sa->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const void *)sa;

		e.addr.family = AF_INET6;
		memcpy(e.addr.b, &in6->sin6_addr, 16);
		e.port = ntohs(in6->sin6_port);
		e.scope = in6->sin6_scope_id;
		unmap(&e.addr);
	} else {
		return -EAFNOSUPPORT;
	}
	*ret = e;
	return 0;
}

socklen_t endpoint_to_sockaddr(struct sockaddr_storage *ret, const struct endpoint *e)
{
	if (e->addr.family == AF_INET) {
		struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(e->port)};

		memcpy(&in.sin_addr, e->addr.b, 4);
		memcpy(ret, &in, sizeof(in));
		return sizeof(in);
	}
	if (e->addr.family == AF_INET6) {
		struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(e->port), .sin6_scope_id = e->scope};

		memcpy(&in6.sin6_addr, e->addr.b, 16);
		memcpy(ret, &in6, sizeof(in6));
		return sizeof(in6);
	}
	return 0;
}

struct range {
	uint8_t b[4]; /* every IPv6 range here is told by its first four bytes */
	uint8_t len;
};

static bool in_ranges(const struct addr *a, const struct range *ranges, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (bits_equal(a->b, ranges[i].b, ranges[i].len))
			return true;
	return false;
}

#define IN_RANGES(a, ranges) in_ranges((a), (ranges), sizeof(ranges) / sizeof((ranges)[0]))

/* :: and ::1 */
static bool is_unspecified_or_loopback6(const struct addr *a)
{
	static const uint8_t zero[15];

	return memcmp(a->b, zero, sizeof(zero)) == 0 && a->b[15] <= 1;
}

bool addr_is_private(const struct addr *a)
{
	static const struct range private4[] = {
		{{0}, 8},
		{{10}, 8},
		{{100, 64}, 10},
		{{127}, 8},
		{{169, 254}, 16},
		{{172, 16}, 12},
		{{192, 168}, 16},
	};
	static const struct range private6[] = {{{0xfc}, 7}, {{0xfe, 0x80}, 10}};
	struct addr plain = *a;

	unmap(&plain);
	if (plain.family == AF_INET)
		return IN_RANGES(&plain, private4);
	return plain.family == AF_INET6 && (is_unspecified_or_loopback6(&plain) || IN_RANGES(&plain, private6));
}

bool addr_is_never_remote(const struct addr *a)
{
	/* 240/4 is reserved and holds the limited broadcast address. */
	static const struct range never4[] = {{{0}, 8}, {{127}, 8}, {{224}, 4}, {{240}, 4}};
	static const struct range never6[] = {{{0xff}, 8}};
	struct addr plain = *a;

	unmap(&plain);
	if (plain.family == AF_INET)
		return IN_RANGES(&plain, never4);
	return plain.family != AF_INET6 || is_unspecified_or_loopback6(&plain) || IN_RANGES(&plain, never6);
}

bool addr_is_loopback(const struct addr *a)
{
	static const uint8_t one[16] = { [15] = 1 };
	return a->family == AF_INET ? a->b[0] == 127 : a->family == AF_INET6 && !memcmp(a->b, one, sizeof one);
}
