/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This machine's interfaces and addresses in a bundle: written from what the kernel says, read back without it. */
#include "config/machine.h"
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/err.h"
#include "config/resolv.h"
#include "config/value.h"

enum { LINE_MAX_LEN = 128 };

static int entry_parse(struct machine_entry *ret, const char *line)
{
	char kind[5], ifname[IFNAME_MAX], addr[ADDR_TEXT_MAX], again[LINE_MAX_LEN];
	unsigned index;
	int words = sscanf(line, "%4[a-z] %u %15s %63s", kind, &index, ifname, addr);
	struct machine_entry e = {.index = index};
	bool is_addr = words == 4 && !strcmp(kind, "addr"), is_link = words == 3 && !strcmp(kind, "link");
	if ((!is_addr && !is_link) || !index || (is_addr && addr_parse(&e.addr, addr) < 0))
		return NW_EMALFORMED;
	snprintf(again, sizeof again, "%s %u %s%s%s", kind, index, ifname, is_addr ? " " : "", is_addr ? addr : "");
	if (strcmp(line, again))
		return NW_EMALFORMED;
	memcpy(e.ifname, ifname, strlen(ifname) + 1);
	*ret = e;
	return 0;
}

int machine_parse(struct machine *ret, struct arena *a, const char *text, size_t len)
{
	struct machine m = {0};
	unsigned lines = 0;
	for (size_t i = 0; i < len; i++)
		lines += text[i] == '\n';
	m.v = arena_alloc(a, (lines + 1) * sizeof *m.v);
	if (!m.v)
		return -ENOMEM;
	for (const char *at = text, *end = text + len; at < end;) {
		char line[LINE_MAX_LEN];
		const char *nl = memchr(at, '\n', (size_t)(end - at));
		if (!nl || (size_t)(nl - at) >= sizeof line)
			return NW_EMALFORMED;
		memcpy(line, at, (size_t)(nl - at));
		line[nl - at] = 0;
		if (memchr(line, 0, (size_t)(nl - at)) || entry_parse(&m.v[m.count], line) < 0)
			return NW_EMALFORMED;
		m.count++;
		at = nl + 1;
	}
	*ret = m;
	return 0;
}

uint32_t machine_index(const struct machine *m, const char *ifname)
{
	for (unsigned i = 0; i < m->count; i++)
		if (!m->v[i].addr.family && !strcmp(m->v[i].ifname, ifname))
			return m->v[i].index;
	return 0;
}

int machine_want_addr(struct machine_wanted *w, const struct addr *a)
{
	for (unsigned i = 0; i < w->addr_count; i++)
		if (addr_equal(&w->addrs[i], a))
			return 0;
	if (w->addr_count == MACHINE_ADDRS_MAX)
		return 0;
	struct addr *more = realloc(w->addrs, (w->addr_count + 1) * sizeof *more);
	if (!more)
		return -ENOMEM;
	w->addrs = more;
	w->addrs[w->addr_count++] = *a;
	return 0;
}

int machine_want_scope(struct machine_wanted *w, const char *ifname)
{
	for (unsigned i = 0; i < w->scope_count; i++)
		if (!strcmp(w->scopes[i], ifname))
			return 0;
	if (w->scope_count == MACHINE_SCOPES_MAX || !ifname_is_good(ifname))
		return 0;
	char(*more)[IFNAME_MAX] = realloc(w->scopes, (w->scope_count + 1) * sizeof *more);
	if (!more)
		return -ENOMEM;
	w->scopes = more;
	snprintf(w->scopes[w->scope_count++], IFNAME_MAX, "%s", ifname);
	return 0;
}

int machine_want_resolv(struct machine_wanted *w, const char *text, size_t len)
{
	struct resolv_reader lines = {.at = text, .end = text + len};
	struct resolv_server s;
	int r = 0;
	while (r >= 0 && resolv_next(&lines, &s)) {
		if (!s.addr.family)
			continue;
		r = machine_want_addr(w, &s.addr);
		if (r >= 0 && *s.scope)
			r = machine_want_scope(w, s.scope);
	}
	return r;
}

void machine_wanted_free(struct machine_wanted *w)
{
	free(w->addrs);
	free(w->scopes);
	*w = (struct machine_wanted){0};
}

static bool is_wanted(const struct machine_wanted *w, const struct addr *a)
{
	for (unsigned i = 0; i < w->addr_count; i++)
		if (addr_equal(&w->addrs[i], a))
			return true;
	return false;
}

int machine_write(struct buf *out, const struct machine_wanted *w)
{
	struct ifaddrs *all = NULL;
	for (unsigned i = 0; i < w->scope_count; i++) {
		unsigned index = if_nametoindex(w->scopes[i]);
		if (index)
			buf_printf(out, "link %u %s\n", index, w->scopes[i]);
	}
	if (!w->addr_count || getifaddrs(&all) < 0)
		return out->failed;
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		struct endpoint e;
		char text[ADDR_TEXT_MAX];
		bool is_ip = i->ifa_addr && (i->ifa_addr->sa_family == AF_INET || i->ifa_addr->sa_family == AF_INET6);
		if (!is_ip || addr_from_sockaddr(&e, i->ifa_addr) < 0 || !is_wanted(w, &e.addr))
			continue;
		/* A label as eth0:1 is the interface's. */
		char ifname[IFNAME_MAX];
		snprintf(ifname, sizeof ifname, "%.*s", (int)strcspn(i->ifa_name, ":"), i->ifa_name);
		unsigned index = if_nametoindex(ifname);
		if (index)
			buf_printf(out, "addr %u %s %s\n", index, ifname, addr_print(text, &e.addr));
	}
	freeifaddrs(all);
	return out->failed;
}
