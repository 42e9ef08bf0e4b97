/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What dnsmasq's options mean here: a table of them, and a function for each that says more than one thing. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/addr.h"
#include "cli/import.h"
#include "wire/name.h"

static const char bad_value[] = "its value is not understood";
static const char bad_name[] = "it is no domain name";

/* The next word up to `sep`, without blanks around it; *p moves behind. NULL at the end. */
static char *word(char **p, char sep)
{
	char *start = *p, *end, *stop;

	if (!start)
		return NULL;
	end = strchr(start, sep);
	*p = end ? end + 1 : NULL;
	stop = end ? end : start + strlen(start);
	while (isspace((unsigned char)*start))
		start++;
	while (stop > start && isspace((unsigned char)stop[-1]))
		stop--;
	*stop = '\0';
	return start;
}

static bool is_name(const char *text)
{
	struct name n;

	return *text && name_from_user_text(&n, text, strlen(text)) >= 0;
}

static bool is_address(const char *text)
{
	struct addr a;

	return addr_parse(&a, text) == 0;
}

/* "IP#PORT@interface" as ours, or NULL. */
static const char *server_text(struct import *m, char *text)
{
	char *at = strchr(text, '@'), *port;

	if (at)
		*at = '\0';
	port = strchr(text, '#');
	if (port)
		*port++ = '\0';
	if (!is_address(text))
		return NULL;
	if (port && strcmp(port, "53") != 0)
		return arena_printf(m->arena, strchr(text, ':') ? "[%s]@%d" : "%s@%d", text, atoi(port));
	return arena_strdup(m->arena, text);
}

/* A domain of a `/domain/` list: a leading dot says nothing, "*" is a part of a name that cannot be had. */
static const char *domain_text(struct import *m, char *text, const char **ret_why)
{
	while (*text == '.')
		text++;
	if (strchr(text, '*')) {
		*ret_why = "`*` inside a name has no counterpart; write the domain, it holds for all under it";
		return NULL;
	}
	if (!is_name(text)) {
		*ret_why = bad_name;
		return NULL;
	}
	return arena_strdup(m->arena, text);
}

/* "/a/b/REST": the domains, and REST ("" when there is none). NULL: not of that form. */
static char *split_domains(struct import *m, char *value, struct texts *ret, const char **ret_why)
{
	char *last = strrchr(value, '/'), *p = value + 1, *w;
	const char *domain;

	*ret_why = bad_value;
	if (*value != '/' || last == value)
		return NULL;
	*last = '\0';
	while ((w = word(&p, '/'))) {
		if (strcmp(w, "#") == 0) {
			texts_add(m, ret, "#");
			continue;
		}
		if (!*w)
			continue;
		domain = domain_text(m, w, ret_why);
		if (!domain)
			return NULL;
		texts_add(m, ret, domain);
	}
	return ret->count ? last + 1 : NULL;
}

static void add_all(struct import *m, struct texts *to, const struct texts *from)
{
	for (size_t i = 0; i < from->count; i++)
		texts_add(m, to, from->v[i]);
}

static const char *group_domains(struct import *m, struct import_groups *groups, const char *key, const struct texts *domains)
{
	struct import_group *g = import_group(m, groups, key);

	if (g)
		add_all(m, &g->domains, domains);
	return NULL;
}

static const char *pair_all(struct import *m, struct import_pairs *pairs, const struct texts *domains, const char *value)
{
	for (size_t i = 0; i < domains->count; i++)
		import_pair(m, pairs, domains->v[i], value);
	return NULL;
}

static const char *take_server(struct import *m, char *value)
{
	struct texts domains = {0};
	const char *why = bad_value, *server;
	char *rest;

	if (*value != '/') {
		server = server_text(m, value);
		if (server)
			texts_add(m, &m->servers, server);
		return server ? NULL : "it is no address of a server";
	}
	rest = split_domains(m, value, &domains, &why);
	if (!rest)
		return why;
	if (!*rest)
		return group_domains(m, &m->answers, "nxdomain", &domains);
	if (strcmp(rest, "#") == 0) {
		add_all(m, &m->standard_domains, &domains);
		return NULL;
	}
	server = server_text(m, rest);
	return server ? pair_all(m, &m->servers_of, &domains, server) : "it is no address of a server";
}

static const char *take_address(struct import *m, char *value)
{
	struct texts domains = {0};
	const char *why = bad_value;
	char *rest = split_domains(m, value, &domains, &why);

	if (!rest)
		return why;
	if (strcmp(domains.v[0], "#") == 0) {
		if (!is_address(rest))
			return bad_value;
		*(strchr(rest, ':') ? &m->answer_all6 : &m->answer_all4) = arena_strdup(m->arena, rest);
		return NULL;
	}
	if (!*rest)
		return group_domains(m, &m->answers, "nxdomain", &domains);
	if (strcmp(rest, "#") == 0 || strcmp(rest, "0.0.0.0") == 0 || strcmp(rest, "::") == 0)
		return group_domains(m, &m->answers, "zero", &domains);
	if (!is_address(rest))
		return bad_value;
	for (size_t i = 0; i < domains.count; i++) {
		const char *record = arena_printf(m->arena, ".%s %s %s", domains.v[i], strchr(rest, ':') ? "AAAA" : "A", rest);

		if (record)
			texts_add(m, &m->records, record);
	}
	return NULL;
}

static const char *take_local(struct import *m, char *value)
{
	struct texts domains = {0};
	const char *why = bad_value;
	char *rest = split_domains(m, value, &domains, &why);

	if (!rest || *rest)
		return why;
	return group_domains(m, &m->answers, "nxdomain", &domains);
}

/* Lines for one domain add up, whether they are one line with commas or several. */
static const char *take_nftset(struct import *m, char *value)
{
	struct texts domains = {0};
	const char *why = bad_value;
	char *rest = split_domains(m, value, &domains, &why), *set;

	if (!rest || !*rest)
		return why;
	while ((set = word(&rest, ','))) {
		char *parts = set, which = 'x', *f, *table, *name;

		if ((set[0] == '4' || set[0] == '6') && set[1] == '#') {
			which = set[0];
			parts = set + 2;
		}
		f = word(&parts, '#');
		table = word(&parts, '#');
		name = word(&parts, '#');
		if (!f || !table || !name)
			return "a set is FAMILY#TABLE#SET";
		pair_all(m, &m->sets_of, &domains, arena_printf(m->arena, "%c %s %s %s", which, f, table, name));
	}
	return NULL;
}

static const char *take_listen(struct import *m, char *value)
{
	char *w;

	while ((w = word(&value, ','))) {
		if (!is_address(w))
			return bad_value;
		texts_add(m, &m->addresses, w);
	}
	return NULL;
}

static const char *take_interface(struct import *m, char *value)
{
	char *w;

	while ((w = word(&value, ','))) {
		if (!*w || strlen(w) > 15 || strchr(w, '*'))
			return "it is no interface's name (patterns are not carried over)";
		texts_add(m, &m->interfaces, w);
	}
	return NULL;
}

static const char *take_cname(struct import *m, char *value)
{
	struct texts words = {0};
	char *w, *end;
	long ttl = -1;

	while ((w = word(&value, ',')))
		texts_add(m, &words, w);
	if (words.count > 2) {
		ttl = strtol(words.v[words.count - 1], &end, 10);
		if (*end)
			ttl = -1;
		else
			words.count--;
	}
	if (words.count < 2)
		return bad_value;
	for (size_t i = 0; i < words.count; i++)
		if (!is_name(words.v[i]))
			return bad_name;
	for (size_t i = 0; i + 1 < words.count; i++) {
		const char *target = words.v[words.count - 1];
		const char *r = ttl >= 0 ? arena_printf(m->arena, "%s %ld CNAME %s", words.v[i], ttl, target) : arena_printf(m->arena, "%s CNAME %s", words.v[i], target);

		if (r)
			texts_add(m, &m->records, r);
	}
	return NULL;
}

static const char *take_host_record(struct import *m, char *value)
{
	struct texts names = {0}, addresses = {0};
	char ttl[16] = "", *w, *end;

	while ((w = word(&value, ','))) {
		long n = strtol(w, &end, 10);

		if (is_address(w))
			texts_add(m, &addresses, w);
		else if (!*end && *w && !value)
			snprintf(ttl, sizeof(ttl), "%ld ", n);
		else if (is_name(w))
			texts_add(m, &names, w);
		else
			return bad_name;
	}
	if (!names.count || !addresses.count)
		return bad_value;
	for (size_t i = 0; i < names.count; i++)
		for (size_t k = 0; k < addresses.count; k++) {
			const char *r = arena_printf(m->arena, "%s %s%s %s", names.v[i], ttl, strchr(addresses.v[k], ':') ? "AAAA" : "A", addresses.v[k]);

			if (r)
				texts_add(m, &m->records, r);
		}
	return NULL;
}

static const char *add_record(struct import *m, const char *record)
{
	if (record)
		texts_add(m, &m->records, record);
	return NULL;
}

static const char *take_txt(struct import *m, char *value)
{
	char *name = word(&value, ','), *w;
	const char *text = "";

	if (!name || !is_name(name))
		return bad_name;
	while ((w = word(&value, ',')) && text)
		text = arena_printf(m->arena, "%s \"%s\"", text, w);
	return add_record(m, text && *text ? arena_printf(m->arena, "%s TXT%s", name, text) : NULL);
}

static const char *take_srv(struct import *m, char *value)
{
	char *name = word(&value, ','), *target = word(&value, ','), *port = word(&value, ','), *priority = word(&value, ','), *weight = word(&value, ',');

	if (!name || !is_name(name) || (target && *target && !is_name(target)))
		return bad_name;
	return add_record(m, arena_printf(m->arena, "%s SRV %d %d %d %s", name, priority ? atoi(priority) : 0, weight ? atoi(weight) : 0, port ? atoi(port) : 1, target && *target ? target : "."));
}

static const char *take_mx(struct import *m, char *value)
{
	char *name = word(&value, ','), *target = word(&value, ','), *preference = word(&value, ',');

	if (!name || !is_name(name) || (target && *target && !is_name(target)))
		return bad_name;
	return add_record(m, arena_printf(m->arena, "%s MX %d %s", name, preference ? atoi(preference) : 1, target && *target ? target : name));
}

static const char *take_ptr(struct import *m, char *value)
{
	char *name = word(&value, ','), *target = word(&value, ',');

	if (!name || !is_name(name) || !target || !is_name(target))
		return bad_name;
	return add_record(m, arena_printf(m->arena, "%s PTR %s", name, target));
}

static const char *take_bogus(struct import *m, char *value)
{
	char *w;

	while ((w = word(&value, ',')))
		texts_add(m, &m->bogus, w);
	return NULL;
}

static const char *take_domain(struct import *m, char *value)
{
	char *name = word(&value, ',');

	if (!name || !is_name(name))
		return bad_name;
	if (value)
		return "domains of their own for some networks come with leases";
	m->domain = arena_strdup(m->arena, name);
	return NULL;
}

static const char *take_rebind_ok(struct import *m, char *value)
{
	struct texts domains = {0};
	const char *why = bad_value;

	if (*value != '/') {
		texts_add(m, &m->rebind_ok, value);
		return NULL;
	}
	if (!split_domains(m, value, &domains, &why))
		return why;
	add_all(m, &m->rebind_ok, &domains);
	return NULL;
}

static const char *take_rev_server(struct import *m, char *value)
{
	char *net = word(&value, ','), *server = word(&value, ','), *slash;
	struct texts domains = {0};
	struct addr a;
	int len;

	if (!net || !server || !(slash = strchr(net, '/')))
		return bad_value;
	*slash++ = '\0';
	len = atoi(slash);
	if (addr_parse(&a, net) < 0 || strchr(net, ':') || len % 8 || len < 8 || len > 24)
		return "only IPv4 networks of 8, 16 or 24 bits have a reverse domain of their own";
	char name[64] = "";
	for (int i = len / 8 - 1; i >= 0; i--)
		snprintf(name + strlen(name), sizeof(name) - strlen(name), "%u.", a.b[i]);
	snprintf(name + strlen(name), sizeof(name) - strlen(name), "in-addr.arpa");
	texts_add(m, &domains, name);
	const char *text = server_text(m, server);
	return text ? pair_all(m, &m->servers_of, &domains, text) : "it is no address of a server";
}

/* --- other files --- */

static const char *take_conf_file(struct import *m, char *value)
{
	int r = import_file(m, word(&value, ','));

	return r == 0 ? NULL : r == -ELOOP ? "files include each other more than 8 deep" : "that file cannot be read here; import it as well";
}

static bool is_wanted(const char *name, const struct texts *only, const struct texts *not)
{
	size_t len = strlen(name);
	bool is = !only->count;

	if (name[0] == '.' || name[0] == '#' || name[len - 1] == '~' || name[len - 1] == '#')
		return false;
	for (size_t i = 0; i < only->count; i++)
		is |= len > strlen(only->v[i]) && strcmp(name + len - strlen(only->v[i]), only->v[i]) == 0;
	for (size_t i = 0; i < not->count; i++)
		is &= !(len > strlen(not->v[i]) && strcmp(name + len - strlen(not->v[i]), not->v[i]) == 0);
	return is;
}

static const char *take_conf_dir(struct import *m, char *value)
{
	const char *dir = word(&value, ',');
	struct texts only = {0}, not = {0};
	struct dirent **found;
	int count;
	char *w;

	while ((w = word(&value, ',')))
		texts_add(m, *w == '*' ? &only : &not, *w == '*' ? w + 1 : w);
	count = scandir(dir, &found, NULL, alphasort);
	if (count < 0)
		return "that directory cannot be read here; import its files as well";
	for (int i = 0; i < count; i++) {
		const char *path = arena_printf(m->arena, "%s/%s", dir, found[i]->d_name);

		if (path && is_wanted(found[i]->d_name, &only, &not) && import_file(m, path) < 0)
			import_leave(m, path, "it cannot be read");
		free(found[i]);
	}
	free(found);
	return NULL;
}

/* --- the table --- */

enum option_kind { TAKE, FLAG, NUMBER, TEXT, TEXTS, OURS, DHCP, NO };
struct option {
	const char *name;
	enum option_kind kind;
	const char *(*take)(struct import *m, char *value);
	size_t at; /* of the field of struct import */
	const char *why;
};
#define AT(field) offsetof(struct import, field)

static const struct option options[] = {
	{"server", TAKE, take_server, 0, NULL}, {"rev-server", TAKE, take_rev_server, 0, NULL}, {"local", TAKE, take_local, 0, NULL},
	{"address", TAKE, take_address, 0, NULL}, {"nftset", TAKE, take_nftset, 0, NULL}, {"listen-address", TAKE, take_listen, 0, NULL},
	{"interface", TAKE, take_interface, 0, NULL}, {"cname", TAKE, take_cname, 0, NULL}, {"host-record", TAKE, take_host_record, 0, NULL},
	{"txt-record", TAKE, take_txt, 0, NULL}, {"srv-host", TAKE, take_srv, 0, NULL}, {"mx-host", TAKE, take_mx, 0, NULL},
	{"ptr-record", TAKE, take_ptr, 0, NULL}, {"bogus-nxdomain", TAKE, take_bogus, 0, NULL}, {"domain", TAKE, take_domain, 0, NULL},
	{"rebind-domain-ok", TAKE, take_rebind_ok, 0, NULL}, {"conf-file", TAKE, take_conf_file, 0, NULL}, {"conf-dir", TAKE, take_conf_dir, 0, NULL},
	{"servers-file", TAKE, take_conf_file, 0, NULL},
	{"no-resolv", FLAG, NULL, AT(no_resolv), NULL}, {"no-hosts", FLAG, NULL, AT(no_hosts), NULL}, {"strict-order", FLAG, NULL, AT(strict_order), NULL},
	{"all-servers", FLAG, NULL, AT(all_servers), NULL}, {"stop-dns-rebind", FLAG, NULL, AT(stop_rebind), NULL}, {"log-queries", FLAG, NULL, AT(log_queries), NULL},
	{"no-negcache", FLAG, NULL, AT(no_negative), NULL},
	{"cache-size", NUMBER, NULL, AT(cache_names), NULL}, {"min-cache-ttl", NUMBER, NULL, AT(min_ttl), NULL}, {"max-cache-ttl", NUMBER, NULL, AT(max_ttl), NULL},
	{"max-ttl", NUMBER, NULL, AT(max_ttl), NULL}, {"neg-ttl", NUMBER, NULL, AT(neg_ttl), NULL}, {"dns-forward-max", NUMBER, NULL, AT(in_flight), NULL},
	{"use-stale-cache", NUMBER, NULL, AT(stale_s), NULL}, {"port", NUMBER, NULL, AT(port), NULL},
	{"resolv-file", TEXT, NULL, AT(resolv_conf), NULL}, {"addn-hosts", TEXTS, NULL, AT(hosts), NULL}, {"except-interface", TEXTS, NULL, AT(except_interfaces), NULL},
	/* What nameway does anyway, or in its own way: nothing is lost. */
	{"bogus-priv", OURS, NULL, 0, NULL}, {"bind-interfaces", OURS, NULL, 0, NULL}, {"bind-dynamic", OURS, NULL, 0, NULL}, {"expand-hosts", OURS, NULL, 0, NULL},
	{"no-poll", OURS, NULL, 0, NULL}, {"no-daemon", OURS, NULL, 0, NULL}, {"keep-in-foreground", OURS, NULL, 0, NULL}, {"user", OURS, NULL, 0, NULL},
	{"group", OURS, NULL, 0, NULL}, {"pid-file", OURS, NULL, 0, NULL}, {"log-facility", OURS, NULL, 0, NULL}, {"log-async", OURS, NULL, 0, NULL},
	{"edns-packet-max", OURS, NULL, 0, NULL}, {"rebind-localhost-ok", OURS, NULL, 0, NULL}, {"conntrack", OURS, NULL, 0, NULL}, {"local-service", OURS, NULL, 0, NULL},
	{"dns-loop-detect", OURS, NULL, 0, NULL}, {"clear-on-reload", OURS, NULL, 0, NULL}, {"enable-dbus", OURS, NULL, 0, NULL}, {"enable-ubus", OURS, NULL, 0, NULL},
	{"query-port", OURS, NULL, 0, NULL}, {"min-port", OURS, NULL, 0, NULL}, {"max-port", OURS, NULL, 0, NULL}, {"quiet-dhcp", OURS, NULL, 0, NULL},
	/* Said, because their users would miss them. */
	{"domain-needed", NO, NULL, 0, "names without a dot are passed on"}, {"filterwin2k", NO, NULL, 0, "nothing like it"},
	{"localise-queries", NO, NULL, 0, "all addresses of a name are given, in file order"}, {"ipset", NO, NULL, 0, "sets of iptables are not filled; use an nft set (nftset=)"},
	{"dnssec", NO, NULL, 0, "validation is not in this version"}, {"trust-anchor", NO, NULL, 0, "validation is not in this version"},
	{"dnssec-check-unsigned", NO, NULL, 0, "validation is not in this version"}, {"local-ttl", NO, NULL, 0, "give a record its TTL, or a filter rule `ttl:`"},
	{"alias", NO, NULL, 0, "addresses in answers are not rewritten"}, {"ignore-address", NO, NULL, 0, "nothing like it; block the answers: a list of addresses and a filter rule"},
	{"filter-AAAA", NO, NULL, 0, "nothing like it; a way has `ipv6: off`"}, {"filter-A", NO, NULL, 0, "nothing like it"},
	{"add-mac", NO, NULL, 0, "nothing about clients is passed on"}, {"add-subnet", NO, NULL, 0, "nothing about clients is passed on"}, {"add-cpe-id", NO, NULL, 0, "nothing about clients is passed on"},
	{"interface-name", NO, NULL, 0, "write the address as a record"}, {"dynamic-host", NO, NULL, 0, "write the address as a record"}, {"synth-domain", NO, NULL, 0, "nothing like it"},
	{"dns-rr", NO, NULL, 0, "write it as a record with its type"}, {"caa-record", NO, NULL, 0, "write it as a record: \"NAME CAA …\""}, {"naptr-record", NO, NULL, 0, "write it as a record: \"NAME NAPTR …\""},
	{"hostsdir", NO, NULL, 0, "name the files under `local: { hosts: […] }`"}, {"no-round-robin", NO, NULL, 0, "nothing like it"},
	{"enable-ra", DHCP, NULL, 0, NULL}, {"enable-tftp", DHCP, NULL, 0, NULL}, {"read-ethers", DHCP, NULL, 0, NULL}, {"no-ping", DHCP, NULL, 0, NULL}, {"log-dhcp", DHCP, NULL, 0, NULL},
	{"leasefile-ro", DHCP, NULL, 0, NULL}, {"bootp-dynamic", DHCP, NULL, 0, NULL}, {"no-dhcp-interface", DHCP, NULL, 0, NULL}, {"script-arp", DHCP, NULL, 0, NULL},
};

static const char *set_number(struct import *m, const struct option *o, const char *value)
{
	char *end;
	long n = value && *value ? strtol(value, &end, 10) : 0;

	if ((value && *value && *end) || n < 0)
		return bad_value;
	if (o->at == AT(port) && n == 0)
		return "it served no DNS; what is carried over does, on port 53";
	if (o->at == AT(port))
		m->port = (unsigned)n;
	else if (o->at == AT(stale_s) && (!value || !*value))
		m->stale_s = 86400;
	else if (o->at == AT(stale_s) && n == 0)
		m->stale_s = 7 * 86400;
	else
		memcpy((char *)m + o->at, &n, sizeof(n));
	return NULL;
}

static const char *set_texts(struct import *m, const struct option *o, char *value)
{
	char *w;

	while ((w = word(&value, ',')))
		if (*w)
			texts_add(m, (struct texts *)(void *)((char *)m + o->at), w);
	return NULL;
}

static const char *apply(struct import *m, const struct option *o, char *value)
{
	const char *text;
	bool on = true;

	switch (o->kind) {
	case OURS: return NULL;
	case NO: return o->why;
	case DHCP: return "DHCP, TFTP and router advertisements are not in this version";
	case FLAG: memcpy((char *)m + o->at, &on, sizeof(on)); return NULL;
	case NUMBER: return set_number(m, o, value);
	default: break;
	}
	if (!value || !*value)
		return "it has no value";
	if (o->kind == TAKE)
		return o->take(m, value);
	if (o->kind == TEXTS)
		return set_texts(m, o, value);
	text = arena_strdup(m->arena, value);
	memcpy((char *)m + o->at, &text, sizeof(text));
	return NULL;
}

const char *import_option(struct import *m, char *key, char *value)
{
	static const char *const dhcp[] = {"dhcp-", "tftp-", "pxe-", "ra-"};

	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++)
		if (strcmp(options[i].name, key) == 0)
			return apply(m, &options[i], value);
	for (size_t i = 0; i < sizeof(dhcp) / sizeof(*dhcp); i++)
		if (strncmp(key, dhcp[i], strlen(dhcp[i])) == 0)
			return "DHCP, TFTP and router advertisements are not in this version";
	return "this option is not known";
}
