/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What dnsmasq's options mean here: a table of all of them. Those that say something of domains are in import_names.c, records in import_records.c. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/addr.h"
#include "cli/import.h"

static const char bad_value[] = "its value is not understood";
static const char bad_name[] = "it is no domain name";
static const char no_dhcp[] = "DHCP, TFTP and router advertisements are not in this version";

static const char *take_listen(struct import *m, char *value)
{
	struct addr a;
	char *w;

	while ((w = import_word(&value, ','))) {
		if (addr_parse(&a, w) < 0)
			return bad_value;
		texts_add_new(m, &m->addresses, w);
	}
	return NULL;
}

static bool is_interface(const char *text)
{
	struct addr a;

	return *text && strlen(text) < 16 && !strpbrk(text, "*/:@ ") && strcmp(text, ".") != 0 && strcmp(text, "..") != 0 && addr_parse(&a, text) < 0;
}

static const char *add_interfaces(struct import *m, struct texts *to, char *value)
{
	char *w;

	while ((w = import_word(&value, ','))) {
		if (!is_interface(w))
			return "it is no interface's name (patterns and labels are not carried over)";
		texts_add_new(m, to, w);
	}
	return NULL;
}

static const char *take_interface(struct import *m, char *value)
{
	return add_interfaces(m, &m->interfaces, value);
}

static const char *take_except_interface(struct import *m, char *value)
{
	return add_interfaces(m, &m->except_interfaces, value);
}

/* ADDRESS[/LENGTH] */
static const char *take_bogus(struct import *m, char *value)
{
	struct prefix p;
	char *w;

	while ((w = import_word(&value, ','))) {
		if (prefix_parse(&p, w) < 0)
			return bad_value;
		texts_add(m, &m->bogus, w);
	}
	return NULL;
}

static const char *take_domain(struct import *m, char *value)
{
	const char *name = import_name(m, import_word(&value, ','));

	if (!name)
		return bad_name;
	if (value)
		return "domains of their own for some networks come with leases";
	m->domain = name;
	return NULL;
}

static const char *take_mx_target(struct import *m, char *value)
{
	m->mx_target = import_name(m, value);
	return m->mx_target ? NULL : bad_name;
}

static const char *take_hosts(struct import *m, char *value)
{
	struct stat st;

	import_unhide(value);
	if (stat(value, &st) == 0 && S_ISDIR(st.st_mode))
		return "it is a directory; name its files under `local: { hosts: […] }`";
	if (*value != '/')
		import_note(m, "a relative path; it is taken from the directory of the configuration");
	texts_add_new(m, &m->hosts, value);
	return NULL;
}

static const char *take_resolv(struct import *m, char *value)
{
	if (m->resolv_conf)
		return "one file of that kind is followed, the first";
	m->resolv_conf = import_text(m, "%s", import_unhide(value));
	m->resolv_line = m->now;
	return NULL;
}

/* --- other files --- */

static const char *take_conf_file(struct import *m, char *value)
{
	int r = import_file(m, import_unhide(value));

	return r == 0 ? NULL : r == -ELOOP ? "files include each other more than 8 deep" : "that file cannot be read here; import it as well";
}

static bool is_wanted(const char *name, const struct texts *only, const struct texts *not)
{
	size_t len = strlen(name);
	bool is = !only->count;

	if (name[0] == '.' || name[len - 1] == '~' || (name[0] == '#' && name[len - 1] == '#'))
		return false;
	for (size_t i = 0; i < only->count; i++)
		is |= len > strlen(only->v[i]) && strcmp(name + len - strlen(only->v[i]), only->v[i]) == 0;
	for (size_t i = 0; i < not->count; i++)
		is &= !(len > strlen(not->v[i]) && strcmp(name + len - strlen(not->v[i]), not->v[i]) == 0);
	return is;
}

static const char *take_conf_dir(struct import *m, char *value)
{
	const char *dir = import_word(&value, ','), *why = NULL;
	struct texts only = {0}, not = {0};
	struct dirent **found;
	int count, r;
	char *w;

	while ((w = import_word(&value, ',')))
		texts_add(m, *w == '*' ? &only : &not, *w == '*' ? w + 1 : w);
	count = scandir(dir, &found, NULL, alphasort);
	if (count < 0)
		return "that directory cannot be read here; import its files as well";
	for (int i = 0; i < count; i++) {
		r = is_wanted(found[i]->d_name, &only, &not) ? import_file(m, import_text(m, "%s/%s", dir, found[i]->d_name)) : 0;
		if (r < 0 && r != -EISDIR)
			why = r == -ELOOP ? "files include each other more than 8 deep" : "not all of its files can be read here; import them as well";
		free(found[i]);
	}
	free(found);
	return why;
}

/* --- the table --- */

enum option_kind { TAKE, FLAG, NUMBER, OURS, DHCP, NO };
struct option {
	const char *name;
	enum option_kind kind;
	const char *(*take)(struct import *m, char *value);
	size_t at; /* of the field of struct import */
	const char *why;
};
#define AT(field) offsetof(struct import, field)
#define TAKES(name, function) {name, TAKE, function, 0, NULL}
#define FLAGS(name, field) {name, FLAG, NULL, AT(field), NULL}
#define NUMBERS(name, field) {name, NUMBER, NULL, AT(field), NULL}
#define OWN(name) {name, OURS, NULL, 0, NULL}
#define NOT(name, why) {name, NO, NULL, 0, why}
#define LEASES(name) {name, DHCP, NULL, 0, NULL}

static const char no_validation[] = "validation is not in this version";
static const char no_client[] = "nothing about clients is passed on";
static const char no_zone[] = "zones are not served";
static const char no_like[] = "nothing like it";

static const struct option options[] = {
	TAKES("server", take_server), TAKES("local", take_server), TAKES("rev-server", take_rev_server), TAKES("address", take_address), TAKES("nftset", take_nftset),
	TAKES("listen-address", take_listen), TAKES("interface", take_interface), TAKES("except-interface", take_except_interface), TAKES("cname", take_cname),
	TAKES("host-record", take_host_record), TAKES("txt-record", take_txt), TAKES("srv-host", take_srv), TAKES("mx-host", take_mx), TAKES("mx-target", take_mx_target),
	TAKES("ptr-record", take_ptr), TAKES("naptr-record", take_naptr), TAKES("caa-record", take_caa), TAKES("dns-rr", take_rr), TAKES("bogus-nxdomain", take_bogus),
	TAKES("domain", take_domain), TAKES("domain-suffix", take_domain), TAKES("rebind-domain-ok", take_rebind_ok), TAKES("conf-file", take_conf_file),
	TAKES("conf-dir", take_conf_dir), TAKES("servers-file", take_conf_file), TAKES("resolv-file", take_resolv), TAKES("addn-hosts", take_hosts),
	FLAGS("no-resolv", no_resolv), FLAGS("no-hosts", no_hosts), FLAGS("strict-order", strict_order), FLAGS("all-servers", all_servers),
	FLAGS("stop-dns-rebind", stop_rebind), FLAGS("log-queries", log_queries), FLAGS("no-negcache", no_negative), FLAGS("domain-needed", domain_needed),
	FLAGS("filter-A", no_a), FLAGS("filter-AAAA", no_aaaa),
	NUMBERS("cache-size", cache_names), NUMBERS("min-cache-ttl", min_ttl), NUMBERS("max-cache-ttl", max_ttl), NUMBERS("max-ttl", max_ttl),
	NUMBERS("dns-forward-max", in_flight), NUMBERS("use-stale-cache", stale_s), NUMBERS("port", port),
	/* What nameway does anyway, or in its own way: nothing is lost. */
	OWN("bogus-priv"), OWN("bind-interfaces"), OWN("bind-dynamic"), OWN("expand-hosts"), OWN("no-poll"), OWN("no-daemon"), OWN("keep-in-foreground"), OWN("user"),
	OWN("group"), OWN("pid-file"), OWN("log-facility"), OWN("log-async"), OWN("edns-packet-max"), OWN("local-service"), OWN("dns-loop-detect"), OWN("clear-on-reload"),
	OWN("enable-dbus"), OWN("enable-ubus"), OWN("query-port"), OWN("min-port"), OWN("max-port"), OWN("port-limit"), OWN("fast-dns-retry"), OWN("no-ident"),
	OWN("no-round-robin"), OWN("log-debug"), OWN("max-tcp-connections"), OWN("strip-mac"), OWN("strip-subnet"),
	/* Said, because their users would miss them. */
	NOT("filterwin2k", no_like), NOT("filter-rr", no_like), NOT("cache-rr", no_like), NOT("localise-queries", "all addresses of a name are given, in file order"),
	NOT("ipset", "sets of iptables are not filled; use an nft set (nftset=)"), NOT("dnssec", no_validation), NOT("trust-anchor", no_validation),
	NOT("dnssec-check-unsigned", no_validation), NOT("dnssec-no-timecheck", no_validation), NOT("dnssec-timestamp", no_validation), NOT("dnssec-debug", no_validation),
	NOT("dnssec-limits", no_validation), NOT("proxy-dnssec", no_validation), NOT("local-ttl", "give a record its TTL, or a filter rule `ttl:`"),
	NOT("neg-ttl", "an answer without SOA is not kept"), NOT("alias", "addresses in answers are not rewritten"),
	NOT("ignore-address", "an answer is not waited for again; block it: a list of addresses and a filter rule"), NOT("conntrack", "marks of connections are not passed on"),
	NOT("connmark-allowlist-enable", no_like), NOT("connmark-allowlist", no_like), NOT("add-mac", no_client), NOT("add-subnet", no_client), NOT("add-cpe-id", no_client),
	NOT("umbrella", no_client), NOT("interface-name", "write the address as a record"), NOT("dynamic-host", "write the address as a record"), NOT("synth-domain", no_like),
	NOT("hostsdir", "name its files under `local: { hosts: […] }`"), NOT("localmx", no_like), NOT("selfmx", no_like), NOT("auth-zone", no_zone), NOT("auth-server", no_zone),
	NOT("auth-ttl", no_zone), NOT("auth-soa", no_zone), NOT("auth-sec-servers", no_zone), NOT("auth-peer", no_zone), NOT("conf-script", "import what the script prints"),
	NOT("rebind-localhost-ok", "answers with loopback addresses are private ones; allow the domains that give them (rebind-domain-ok=)"),
	NOT("do-0x20-encode", "write `random-case: true` at the upstreams"), OWN("no-0x20-encode"), NOT("dumpfile", no_like), NOT("dumpmask", no_like), NOT("test", no_like),
	LEASES("read-ethers"), LEASES("no-ping"), LEASES("log-dhcp"), LEASES("leasefile-ro"), LEASES("bootp-dynamic"), LEASES("no-dhcp-interface"),
	LEASES("no-dhcpv4-interface"), LEASES("no-dhcpv6-interface"), LEASES("script-arp"), LEASES("script-on-renewal"), LEASES("bridge-interface"), LEASES("shared-network"),
	LEASES("tag-if"), LEASES("enable-ra"), LEASES("enable-tftp"), LEASES("quiet-dhcp"), LEASES("quiet-dhcp6"), LEASES("quiet-ra"), LEASES("quiet-tftp"),
};

static const char *set_number(struct import *m, const struct option *o, const char *value)
{
	long n = o->at == AT(stale_s) ? 86400 : 0;

	if (value && *value && !import_number(value, o->at == AT(port) ? 65535 : LONG_MAX, &n))
		return bad_value;
	if (o->at == AT(port) && n == 0)
		return "it served no DNS; what is carried over does, on port 53";
	if (o->at == AT(cache_names) && n == 0)
		return "answers are always kept, as long as they may be";
	if (o->at == AT(port))
		m->port = (unsigned)n;
	else if (o->at == AT(stale_s))
		m->stale_s = n == 0 || n > 30 * 86400 ? 30 * 86400 : n;
	else if (o->at == AT(max_ttl))
		m->max_ttl = n == 0 || (m->max_ttl > 0 && m->max_ttl < n) ? m->max_ttl : n;
	else
		memcpy((char *)m + o->at, &n, sizeof(n));
	return NULL;
}

static const char *apply(struct import *m, const struct option *o, char *value)
{
	bool on = true;

	switch (o->kind) {
	case OURS: return NULL;
	case NO: return o->why;
	case DHCP: return no_dhcp;
	case FLAG: memcpy((char *)m + o->at, &on, sizeof(on)); return NULL;
	case NUMBER: return set_number(m, o, value);
	default: return value && *value ? o->take(m, value) : "it has no value";
	}
}

static bool has_control(const char *text)
{
	for (; *text; text++)
		if (((unsigned char)*text < 0x20 && *text != '\x01') || *text == 0x7f)
			return true;
	return false;
}

const char *import_option(struct import *m, char *key, char *value)
{
	static const char *const dhcp[] = {"dhcp-", "tftp-", "pxe-", "ra-"};

	if (value && has_control(value) && strcmp(key, "txt-record") != 0)
		return "it has a control character in it";
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++)
		if (strcmp(options[i].name, key) == 0)
			return apply(m, &options[i], value);
	for (size_t i = 0; i < sizeof(dhcp) / sizeof(*dhcp); i++)
		if (strncmp(key, dhcp[i], strlen(dhcp[i])) == 0)
			return no_dhcp;
	return "dnsmasq has no such option";
}
