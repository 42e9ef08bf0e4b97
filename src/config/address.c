/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Values that name machines and interfaces: addresses, prefixes, endpoints, MACs, interface names. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/err.h"
#include "config/value.h"

bool ifname_is_good(const char *text)
{
	size_t len = strlen(text);
	if (!len || len >= IFNAME_MAX || !strcmp(text, ".") || !strcmp(text, ".."))
		return false;
	if (strspn(text, "0123456789.") == len && strchr(text, '.'))
		return false;
	for (const char *c = text; *c; c++)
		if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f || strchr("/:@%*\"\\", *c))
			return false;
	return true;
}

int value_ifname(struct load *l, const struct node *n, char ret[IFNAME_MAX])
{
	if (!ifname_is_good(n->text))
		return value_refuse(l, n, "is not an interface name; give its name as `ip link` shows it, at most 15 characters");
	memset(ret, 0, IFNAME_MAX);
	memcpy(ret, n->text, strlen(n->text));
	return 0;
}

int value_addr(struct load *l, const struct node *n, struct addr *ret)
{
	if (addr_parse(ret, n->text) < 0)
		return value_refuse(l, n, "is not an address; write it like 192.0.2.1 or \"2001:db8::1\"");
	return 0;
}

int value_prefix(struct load *l, const struct node *n, struct prefix *ret)
{
	char text[ADDR_TEXT_MAX], taken[ADDR_TEXT_MAX];
	struct addr whole;
	if (prefix_parse(ret, n->text) < 0)
		return value_refuse(l, n, "is not an address or prefix; write it like 192.0.2.0/24 or \"2001:db8::/32\"");
	size_t len = strcspn(n->text, "/");
	if (len >= sizeof text)
		return 0;
	memcpy(text, n->text, len);
	text[len] = 0;
	if (addr_parse(&whole, text) == 0 && !addr_equal(&whole, &ret->addr))
		report_add(l->r, false, &n->place, "`%.64s`: `%s` has bits behind its length; it is taken as %s", n->key, n->text,
		        prefix_print(taken, ret));
	return 0;
}

int value_endpoint(struct load *l, const struct node *n, struct endpoint *ret)
{
	/* The index of an interface is this machine's and this moment's: parsing must not depend on it. */
	if (strchr(n->text, '%'))
		return value_refuse(l, n,
		        "names an interface for a link-local address, which is not in this version; give a global or unique "
		        "local address");
	if (endpoint_parse(ret, n->text, 53) < 0)
		return value_refuse(
		        l, n, "is not an address with a port; write it like \"192.0.2.1@53\" or \"[2001:db8::1]@53\"");
	return 0;
}

static int hex_digit(char c)
{
	const char *digits = "0123456789abcdef";
	const char *at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c) : NULL;
	return at ? (int)(at - digits) : -1;
}

int value_mac(struct load *l, const struct node *n, uint8_t ret[6])
{
	uint8_t mac[6];
	const char *c = n->text;
	char between = strlen(c) == 17 ? c[2] : 0;
	bool is_good = between == ':' || between == '-';
	for (int i = 0; is_good && i < 6; i++, c += 3) {
		int high = hex_digit(c[0]), low = hex_digit(c[1]);
		is_good = high >= 0 && low >= 0 && c[2] == (i == 5 ? 0 : between);
		mac[i] = (uint8_t)((unsigned)high << 4 | (unsigned)low);
	}
	if (!is_good)
		return value_refuse(l, n, "is not a MAC address; write it like \"02:00:5e:10:00:01\"");
	if (mac[0] & 1)
		return value_refuse(l, n, "is a group address, which no client has; give the client's own");
	memcpy(ret, mac, sizeof mac);
	return 0;
}

int values_ifname(struct load *l, const struct node *n, char (**ret)[IFNAME_MAX], unsigned *count)
{
	*count = 0;
	if (!n)
		return 0;
	*ret = arena_alloc(l->c->arena, (value_count(n) + 1) * sizeof **ret);
	if (!*ret)
		return -ENOMEM;
	for (const struct node *v = value_first(n); v; v = value_next(n, v))
		if (value_ifname(l, v, (*ret)[*count]) == 0)
			++*count;
	return 0;
}

int values_prefix(struct load *l, const struct node *n, struct prefix **ret, unsigned *count)
{
	*count = 0;
	if (!n)
		return 0;
	*ret = arena_alloc(l->c->arena, (value_count(n) + 1) * sizeof **ret);
	if (!*ret)
		return -ENOMEM;
	for (const struct node *v = value_first(n); v; v = value_next(n, v))
		if (value_prefix(l, v, &(*ret)[*count]) == 0)
			++*count;
	return 0;
}

int values_mac(struct load *l, const struct node *n, uint8_t (**ret)[6], unsigned *count)
{
	*count = 0;
	if (!n)
		return 0;
	*ret = arena_alloc(l->c->arena, (value_count(n) + 1) * sizeof **ret);
	if (!*ret)
		return -ENOMEM;
	for (const struct node *v = value_first(n); v; v = value_next(n, v))
		if (value_mac(l, v, (*ret)[*count]) == 0)
			++*count;
	return 0;
}
