/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The table of keys. To add one: an entry here, its conversion beside its neighbours in server.c, ways.c ..., its field in
 * config.h. */
#include "config/schema.h"

/* clang-format off */
#define SECTION(path, doc) {path, SHAPE_MAP, 0, "map", NULL, true, doc}
#define NAMED(path, max, doc) {path, SHAPE_NAMED, max, "map of names", NULL, true, doc}
#define VALUE(path, type, by_default, doc) {path, SHAPE_VALUE, 0, type, by_default, true, doc}
#define VALUES(path, max, type, by_default, doc) {path, SHAPE_VALUES, max, type, by_default, true, doc}
#define EXCEPT(path, max, type, doc) {path, SHAPE_VALUES_OR_NONE, max, type, "none", true, doc}
#define LATER(path) {path, SHAPE_VALUE, 0, NULL, NULL, false, NULL}

enum { VALUES_MAX = 65536, FEW_MAX = 256 };

const struct schema_key schema_keys[] = {
	VALUES("include", FEW_MAX, "glob, or a list of globs", "none",
		"More files, relative to the file that names them, in the order of their names, at most 8 deep and 256 in "
		"all. Sections merge by key (a key twice is an error); the sequences `filter` and `steer` append, after the "
		"rules of the including file. Not read again before a reload."),

	SECTION("server", "Where nameway listens, who may ask, what it owns."),
	VALUES("server.listen", FEW_MAX, "list of INTERFACE@PORT, \"ADDRESS@PORT\", \"[ADDRESS]@PORT\"", "\"127.0.0.1@53\"",
		"UDP and TCP. An interface: packets that arrive on it, for all its addresses as they come and go. The port is "
		"53 when left out."),
	VALUES("server.allow", 1024, "list of groups and prefixes", "the networks attached to the listening interfaces",
		"Who may ask: names from `clients`, addresses, prefixes. All others are refused."),
	VALUE("server.workers", "`auto`, or 1 to 64", "auto", "Threads that answer; `auto` is one per processor."),
	VALUE("server.state", "directory", "/var/lib/nameway", "What nameway keeps over restarts."),
	VALUE("server.control", "path of at most 107 bytes", "/run/nameway/control.sock",
		"The control socket of `nameway`, mode 0660."),
	VALUE("server.user", "user name", "nameway",
		"The user of the process that parses packets. `root` is accepted, with a warning."),
	VALUE("server.mark-mask", "32-bit number, not 0", "0xf000",
		"The bits of the firewall mark that are nameway's; all others are left alone. It must hold a value for every "
		"way: n bits hold 2^n - 1."),
	VALUE("server.element-min", "duration, 1s to 7d", "5m", "The least life of an address in a set."),
	VALUE("server.table-protect", "`auto` or `off`", "auto",
		"Whether our nft table is owned, so that nobody else can flush or change it, where the kernel can."),
	SECTION("server.log", "What is said, and where."),
	VALUE("server.log.level", "`error`, `warn`, `info` or `debug`", "info", "The least important message that is logged."),
	VALUE("server.log.to", "`stderr`", "stderr", "Where messages go."),
	VALUE("server.log.queries", "`true` or `false`", "false",
		"Whether every question is written to the query log, which the verb `log` shows. It is kept in `server.state`."),
	VALUE("server.log.keep", "duration, 1h to 3650d", "7d", "How long the query log is kept."),
	VALUE("server.log.size", "size, 1MiB to 64GiB", "64MiB",
		"How much room the query log may take; beyond it the oldest goes first."),

	NAMED("upstreams", CONFIG_UPSTREAMS_MAX,
		"Groups of resolvers that questions are passed to. A question goes to the group whose `domains` hold its "
		"name, else to the one of the way it is steered to, else to `default`."),
	VALUES("upstreams.*.servers", CONFIG_SERVERS_MAX, "list of \"ADDRESS@PORT\"",
		"none; needed without `resolv-conf`", "The resolvers, the port 53 when left out."),
	VALUE("upstreams.*.resolv-conf", "path", "none",
		"A file in the form of resolv.conf whose `nameserver` lines are further resolvers; everything else in it is "
		"passed over. It is followed: what it says counts as soon as it changes. An address where nameway itself "
		"listens is left out. When it goes away or names none any more, those it named before are asked on. While there never "
		"were any, questions of a group without `servers` fail."),
	VALUE("upstreams.*.strategy", "`ordered`, `fastest` or `all`", "ordered",
		"`ordered`: the first that works, in the order given. `fastest`: the one that answers soonest, the others "
		"tried now and then. `all`: every one at once, the first good answer counts."),
	VALUES("upstreams.*.domains", CONFIG_DOMAINS_MAX, "list of domain names", "none",
		"Names at and under which this group is asked, whoever asks and wherever the name is steered; the longest "
		"that fits decides. They come before special-use handling. A domain belongs to one group."),
	VALUE("upstreams.*.max-in-flight", "number, 1 to 65536", "8192",
		"Questions that a worker may have open at this group; more are answered SERVFAIL."),
	VALUE("upstreams.*.random-case", "`true` or `false`", "false",
		"Whether the letters of questions are sent in random case and must come back so, which makes forging harder. "
		"A few servers do not give them back."),
	LATER("upstreams.*.tls"),

	SECTION("cache", "Answers kept."),
	VALUE("cache.size", "size, 1MiB to 1TiB", "64MiB", "Memory for answers, shared by all workers."),
	VALUE("cache.serve-stale", "duration, 1s to 30d, or `off`", "off",
		"How long after its end an answer may still be given while no upstream answers in time."),
	VALUE("cache.prefetch", "`true` or `false`", "false",
		"Whether answers that are asked for often are fetched again shortly before they end."),
	VALUE("cache.ttl-min", "duration, 0s to 1h", "0s", "An answer is kept at least so long, and is given out with that TTL."),
	VALUE("cache.ttl-max", "duration, 1s to 1d", "1d", "An answer is kept no longer, and is given out with no larger TTL."),
	VALUE("cache.negative-ttl-max", "duration, 0s to 1h", "1h",
		"The same for answers that say that there is no such name or record; 0s keeps none of them."),

	SECTION("local", "Names answered here."),
	VALUE("local.domain", "domain name", "none", "The local domain: its names are never asked upstream."),
	VALUES("local.hosts", CONFIG_HOSTS_MAX, "list of paths", "none",
		"Files in the form of /etc/hosts: names and the addresses they have, and for each address its name (PTR). They "
		"are followed."),
	VALUES("local.records", CONFIG_RECORDS_MAX, "list of \"OWNER [TTL] TYPE DATA\"", "none",
		"Records that are answered here, written as in a zone file, of any type; the TTL is 60 seconds when left out. "
		"Every name in them is whole, the final dot does not matter. The owner `*.x` stands for names under x that have "
		"no records of their own, `.x` for x and everything under it. A CNAME stands alone at its owner."),
	SECTION("local.rebind-protection",
		"When given, `{}` suffices: answers from upstream that carry private, loopback or link-local addresses are not "
		"passed on."),
	EXCEPT("local.rebind-protection.allow", VALUES_MAX, "list of domain names",
		"Names at and under which such addresses are fine."),

	NAMED("clients", CONFIG_GROUPS_MAX,
		"Groups of clients, who asks. The keys of one group must all hold; values of one key are alternatives; "
		"`except-` takes away. A group without keys is everybody."),
	VALUES("clients.*.interfaces", FEW_MAX, "list of interfaces", "any",
		"Where the question arrives. At most 15 characters each."),
	EXCEPT("clients.*.except-interfaces", FEW_MAX, "list of interfaces", "Questions that arrive there are not of the group."),
	VALUES("clients.*.networks", VALUES_MAX, "list of addresses and prefixes", "any", "The client's address, IPv4 and IPv6."),
	EXCEPT("clients.*.except-networks", VALUES_MAX, "list of addresses and prefixes",
		"Clients in them are not of the group."),
	VALUES("clients.*.macs", VALUES_MAX, "list of \"02:00:5e:10:00:01\"", "any",
		"The client's Ethernet address, for clients on attached networks."),
	EXCEPT("clients.*.except-macs", VALUES_MAX, "list of \"02:00:5e:10:00:01\"",
		"Clients that have one of them are not of the group."),

	NAMED("lists", CONFIG_LISTS_MAX, "Lists of names, addresses and prefixes, from files that are followed."),
	VALUES("lists.*.files", FEW_MAX, "list of paths and globs", "none; needed without `entries`",
		"Relative to the configuration file that names them."),
	VALUES("lists.*.entries", CONFIG_ENTRIES_MAX, "list of entries", "none",
		"Entries written here, beside those of `files` or instead of them: one more file of the list, in its `format` "
		"and syntax, at most 4,096 bytes each; what begins with `!`, `*`, `@` or `|` wants quotes. `explain` shows the place of the "
		"key and the entry's number."),
	VALUE("lists.*.format", "`auto`, `domains`, `hosts`, `adblock` or `dnsmasq`", "auto",
		"`domains`: a name or prefix a line; `=x` is only x, `*.x` and `.x` are x and all under it as is `x`, `!x` "
		"exempts. `hosts`: an address and names; the address does not count. `adblock`: `||x^`, `@@`, and what else "
		"decides about names. `dnsmasq`: `address=`, `server=`, `local=` and the like. `auto`: what the file looks like."),
	VALUE("lists.*.match", "`exact` or `suffix`", "by the format: `exact` for hosts, else `suffix`",
		"Whether a name without a mark of its own stands for itself only, or for everything under it too."),
	VALUE("lists.*.shrink-limit", "share, 0% to 100%", "50%",
		"An update that takes away more than this share is held back until `nameway list reload NAME --accept`. 100% "
		"accepts everything."),
	VALUE("lists.*.max-names", "number, 1 to 100000000", "100000000",
		"A text with more entries than that is refused, also with `--accept`, and what was in force stays."),
	LATER("lists.*.rpz"),
	LATER("lists.*.zone"),
	LATER("lists.*.override"),
	LATER("lists.*.max-ttl"),
	LATER("lists.*.primaries"),
	LATER("lists.*.tsig"),
	LATER("lists.*.url"),
	LATER("keys"),

	NAMED("ways", CONFIG_WAYS_MAX,
		"Exits. A way without keys is the main routing table, whatever it says. Each way has a mark; a way with an "
		"interface has its own routing table, whose number (20000 to 29999) follows from the way's name."),
	VALUE("ways.*.interface", "interface", "none: the main table",
		"Where the packets leave; need not exist yet. At most 15 characters."),
	VALUE("ways.*.mark", "number inside `server.mark-mask`, not 0", "the lowest free value",
		"The firewall mark of the way's packets, another for each way. Values are given to ways without one in file "
		"order."),
	VALUE("ways.*.upstream", "name from `upstreams`", "none",
		"The resolvers for names steered to this way; they are reached only through it, so no two ways share one."),
	VALUE("ways.*.kill-switch", "`true` or `false`", "false",
		"While the way is down its traffic stops and its names are not answered. Needs `interface`."),
	VALUE("ways.*.local-access", "`true` or `false`", "true",
		"Looks into the main table first, for anything but a default route. Needs `interface`."),
	SECTION("ways.*.check",
		"How it is known that the way works: `ping`, or `handshake-age`; without, link and carrier decide. Needs "
		"`interface`."),
	VALUE("ways.*.check.ping", "address", "none", "An address that answers ping through the way."),
	VALUE("ways.*.check.every", "duration, 1s to 1h", "5s", "How often it is pinged."),
	VALUE("ways.*.check.handshake-age", "duration, 10s to 7d", "none",
		"A WireGuard interface whose last handshake is older is down."),
	VALUES("ways.*.gateway", 2, "address, or a list of one IPv4 and one IPv6 address",
		"the main table's through that interface, else on-link",
		"The next hop. Needs `interface`."),
	VALUE("ways.*.ipv6", "`auto` or `off`", "auto",
		"`off`: AAAA questions of its names get an empty answer. `auto`: so too while its interface has no global "
		"IPv6 address."),
	VALUE("ways.*.masquerade", "`auto`, `true` or `false`", "auto",
		"Whether packets take the interface's address; `auto` is on for point-to-point interfaces."),
	VALUE("ways.*.mss-clamp", "`auto`, `true` or `false`", "auto",
		"Whether TCP's segment size is fitted to the path; `auto` is on for point-to-point interfaces."),
	VALUE("ways.*.fallback", "name from `ways`",
		"the way `direct`, else the first without interface and sets, else the main table",
		"Where traffic goes while the way is down, unless `kill-switch` stops it."),
	VALUE("ways.*.private", "`true` or `false`", "false", "Whether private addresses in answers are steered too."),
	SECTION("ways.*.sets", "An administrator's own nft sets, filled with the addresses of the way's names."),
	VALUES("ways.*.sets.ip", 16, "\"FAMILY TABLE SET\", or a list of them", "none", "Sets of IPv4 addresses."),
	VALUES("ways.*.sets.ip6", 16, "\"FAMILY TABLE SET\", or a list of them", "none", "Sets of IPv6 addresses."),

	{"filter", SHAPE_RULES, CONFIG_RULES_MAX, "sequence of rules", NULL, true,
		"May this be answered? The first rule that matches decides; without one, yes."},
	VALUE("filter[].name", "text of at most 127 bytes", "rule N", "What the rule is called; another for each."),
	VALUE("filter[].enabled", "`true` or `false`", "true", "`false`: the rule is checked, but not applied."),
	VALUES("filter[].clients", FEW_MAX, "list of names from `clients`", "everybody", "Who asks: a member of any of them."),
	EXCEPT("filter[].except-clients", FEW_MAX, "list of names from `clients`", "Members of them are not matched."),
	VALUES("filter[].names", FEW_MAX, "list of names from `lists`", "every name", "What is asked: a name in any of them."),
	EXCEPT("filter[].except-names", FEW_MAX, "list of names from `lists`", "Names in them are not matched."),
	VALUE("filter[].block", "`nxdomain`, `nodata`, `zero`, `refuse` or `drop`", "none",
		"The answer: no such name, no such record, 0.0.0.0 and ::, REFUSED, or none at all. A rule has one of "
		"`block`, `allow`, `answer` and `cname`."),
	VALUE("filter[].allow", "`true`", "none", "The name is answered whatever later rules say."),
	VALUES("filter[].answer", CONFIG_ANSWERS_MAX, "list of addresses", "none",
		"The answer to A and AAAA questions; all other types, and the family without an address, get an empty one."),
	VALUE("filter[].cname", "domain name", "none", "The answer is what that name has, as its alias."),
	VALUE("filter[].ttl", "duration, 0s to 1d", "60s", "How long clients may keep what the rule answers."),

	{"steer", SHAPE_RULES, CONFIG_RULES_MAX, "sequence of rules", NULL, true,
		"Which exit? The first rule that matches decides; without one, the main table."},
	VALUE("steer[].name", "text of at most 127 bytes", "rule N",
		"What the rule is called; another for each. A named rule keeps its sets when the rest of it changes."),
	VALUE("steer[].enabled", "`true` or `false`", "true", "`false`: the rule is checked, but not applied."),
	VALUES("steer[].clients", FEW_MAX, "list of names from `clients`", "everybody",
		"Whose packets: members of any of them. Not together with `gid`."),
	EXCEPT("steer[].except-clients", FEW_MAX, "list of names from `clients`",
		"Members of them are not matched. Not together with `gid`."),
	VALUES("steer[].names", FEW_MAX, "list of names from `lists`", "every destination",
		"Where to: the addresses of names in any of them, and their prefixes."),
	EXCEPT("steer[].except-names", FEW_MAX, "list of names from `lists`", "Destinations in them are not matched."),
	VALUE("steer[].gid", "group id, 0 to 4294967294", "none", "Packets of this machine's own processes of that group."),
	VALUE("steer[].way", "name from `ways`", "none; needed", "The exit."),

	SECTION("hijack-dns", "Questions that clients send to other resolvers are answered here."),
	VALUES("hijack-dns.interfaces", FEW_MAX, "list of interfaces", "none; needed",
		"Port 53 of what arrives there comes to nameway."),
	EXCEPT("hijack-dns.except", 1024, "list of addresses and prefixes", "Clients that are left alone."),
	VALUE("hijack-dns.dot", "`reject` or `pass`", "pass", "Whether DNS over TLS (port 853) from there is rejected."),

	LATER("dhcp"),
	LATER("kernel"),
	LATER("web"),
};
/* clang-format on */
const unsigned schema_key_count = sizeof schema_keys / sizeof *schema_keys;
