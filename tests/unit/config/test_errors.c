/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Every fault of a configuration: exactly one error, at its place, with its mend. */
#include "fixture.h"

#define UP "upstreams: { default: { servers: [192.0.2.1] } }\n"

struct fault {
	const char *text, *at, *says;
};

static const struct fault faults[] = {
        /* YAML */
        {"server:\n\tuser: x\n", "2:1", "indent with spaces, not tabs"},
        {"server: [a\n", "2:1", "this is no YAML"},
        {"server: { listen: [[::1]@53] }\n", "1:25", "this is no YAML"},
        {"a: &x 1\n", "1:4", "anchors are not used"},
        {"a: *x\n", "1:4", "aliases are not used"},
        {"a: !!str x\n", "1:4", "tags are not used"},
        {"a: &x [1]\n", "1:4", "anchors are not used"},
        {"a: !x { b: 1 }\n", "1:4", "tags are not used"},
        {"cache: {}\n---\nlocal: {}\n", "2:1", "a second YAML document"},
        {"? [a, b]\n: 1\n", "1:3", "a key must be plain text"},
        {"- a\n- b\n", "1:1", "begin it with `server:`"},
        {"word\n", "1:1", "begin it with `server:`"},
        {"cache:\n  size: 1MiB\n  size: 2MiB\n", "3:3", "`size` is here twice, first at line 2 column 3"},
        {"local: { domain: \"a\\0b\" }\n", "1:18", "zero byte"},
        {"a: [[[[[[[[[[[[[[[[x]]]]]]]]]]]]]]]]\n", "1:19", "nested deeper than 16"},
        {"cache:\n  size: \xff\n", "2:9", "save the file as UTF-8"},
        /* keys */
        {"sever: {}\n", "1:1", "unknown key `sever`; did you mean `server`?"},
        {"server: { listne: [a] }\n", "1:11", "unknown key `listne` in `server`; did you mean `listen`?"},
        {"ways:\n  a: { interfaces: x }\n", "2:8", "unknown key `interfaces` in `ways.a`; did you mean `interface`?"},
        {"filter: [{ nmaes: [x], block: drop }]\n", "1:12", "did you mean `names`?"},
        {"ways: { x: {} }\nsteer:\n- { totally-other-thing: 1, way: x }\n", "3:5", "the nearest known key is `"},
        {"cache.size: 1MiB\n", "1:1", "unknown key `cache.size`"},
        {"ways.*: 1\n", "1:1", "unknown key `ways.*`"},
        {"\"filter[]\": 1\n", "1:1", "unknown key"},
        {"dhcp: { store: x }\n", "1:1", "`dhcp` is not in this version"},
        {"lists: { a: { files: [x], url: \"https://x\" } }\n", "1:27", "`lists.a.url` is not in this version"},
        {"lists: { a: { files: [x], rpz: y } }\n", "1:27", "`lists.a.rpz` is not in this version"},
        {"upstreams: { default: { servers: [192.0.2.1], tls: true } }\n", "1:47", "`upstreams.default.tls` is not in this version"},
        {"server: { log: { to: syslog } }\n", "1:22", "`to: syslog` is not in this version"},
        /* shapes */
        {"server: 5\n", "1:9", "`server` is a single value; give a map of its keys"},
        {"server: { workers: [1] }\n", "1:20", "`server.workers` is a list; give `auto`, or 1 to 64"},
        {"server: { workers: }\n", "1:11", "`server.workers` is nothing; give"},
        {"server: { listen: { a: b } }\n", "1:19", "`server.listen` is a map; give"},
        {"server: { listen: [{ a: b }] }\n", "1:19", "a list with something else than values in it"},
        {"filter: { a: b }\n", "1:9", "give a sequence of rules"},
        {"filter: [block]\n", "1:10", "must be a map of its keys"},
        {"filter: [{}]\n", "1:10", "must be a map of its keys"},
        {"ways: { a: 1 }\n", "1:12", "`ways.a` must be a map of its keys"},
        {"ways: { \"a b\": {} }\n", "1:9", "cannot be a name here"},
        {"clients: { 10.0.0.1: {} }\n", "1:12", "cannot be a name here"},
        {"clients: { \"\": {} }\n", "1:12", "cannot be a name here"},
        {"clients: { a: { networks: [] } }\n", "1:27", "`clients.a.networks` is empty, so it can never hold"},
        {"ways: { a: { interface: x, gateway: [192.0.2.1, 192.0.2.2, 192.0.2.3] } }\n", "1:37", "has 3 entries, more than 2"},
        /* server */
        {"server: { listen: [\"1.2.3.400@53\"] }\n", "1:20", "is neither an interface nor an address"},
        {"server: { listen: [\"br-lan@0\"] }\n", "1:20", "has no good port"},
        {"server: { listen: [\"br-lan@65536\"] }\n", "1:20", "has no good port"},
        {"server: { listen: [\"br-lan@53x\"] }\n", "1:20", "has no good port"},
        {"server: { listen: [\"br-lan@\"] }\n", "1:20", "has no good port"},
        {"server: { listen: [a-name-too-long-1] }\n", "1:20", "is neither an interface nor an address"},
        {"server: { listen: [\"[::1@53\"] }\n", "1:20", "is not an address with a port"},
        {"server: { listen: [\"[fe80::1%lo]@53\"] }\n", "1:20", "link-local"},
        {"server:\n  listen:\n  - a@53\n  - a\n", "4:5", "`a` is already given at t.yaml:3:5"},
        {"server: { allow: [10.0.0.0/33] }\n", "1:19", "is not an address or prefix"},
        {"clients: { lan: {} }\nserver: { allow: [lna] }\n", "2:19", "there is no group `lna`; did you mean `lan`?"},
        {"server: { allow: [] }\n", "1:18", "is empty"},
        {"server: { workers: 0 }\n", "1:20", "is out of range; give 1 to 64"},
        {"server: { workers: 65 }\n", "1:20", "is out of range; give 1 to 64"},
        {"server: { workers: many }\n", "1:20", "is not a number"},
        {"server: { mark-mask: 0 }\n", "1:22", "is out of range"},
        {"server: { mark-mask: 0x100000000 }\n", "1:22", "is out of range"},
        {"server: { mark-mask: 010 }\n", "1:22", "without leading zeros"},
        {"server: { mark-mask: -1 }\n", "1:22", "is not a number"},
        {"server: { mark-mask: 99999999999999999999 }\n", "1:22", "is not a number"},
        {"server: { element-min: 5 }\n", "1:24", "is not a duration"},
        {"server: { element-min: 5w }\n", "1:24", "is not a duration"},
        {"server: { element-min: 1ms }\n", "1:24", "is out of range; give 1s to 7d"},
        {"server: { element-min: 99999999999999999d }\n", "1:24", "is not a duration"},
        {"server: { table-protect: yes }\n", "1:26", "write one of `auto`, `off`"},
        {"server: { log: { level: loud } }\n", "1:25", "write one of `error`, `warn`, `info`, `debug`"},
        {"server: { log: { queries: 1 } }\n", "1:27", "write `true` or `false`"},
        {"server: { log: { keep: 59m } }\n", "1:24", "is out of range; give 1h to 3650d"},
        {"server: { log: { keep: 7 } }\n", "1:24", "is not a duration"},
        {"server: { log: { size: 1KiB } }\n", "1:24", "is out of range; give 1MiB to 64GiB"},
        {"server: { log: { size: 65GiB } }\n", "1:24", "is out of range; give 1MiB to 64GiB"},
        {"server: { user: \"\" }\n", "1:17", "is empty"},
        {"server: { user: \"a\\nb\" }\n", "1:17", "has a control character"},
        {"server: { control: "
         "/23456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678 }\n",
                "1:20", "is too long for a socket"},
        /* upstreams, cache, local */
        {"upstreams: { default: {} }\n", "1:14", "upstream `default` has no servers"},
        {"upstreams: { default: { servers: [dns.example] } }\n", "1:35", "is not an address with a port"},
        {"upstreams: { default: { servers: [192.0.2.1@0] } }\n", "1:35", "is not an address with a port"},
        {"upstreams: { default: { servers: [0.0.0.0] } }\n", "1:35", "is not the address of a server"},
        {"upstreams: { default: { servers: [\"ff02::1\"] } }\n", "1:35", "is not the address of a server"},
        {"upstreams: { default: { servers: [192.0.2.1, 192.0.2.1@53] } }\n", "1:46", "stands here twice"},
        {"upstreams: { default: { servers: [127.0.0.1] } }\n", "1:35", "it would ask itself"},
        {"upstreams: { default: { servers: [192.0.2.1], strategy: best } }\n", "1:57", "write one of `ordered`, `fastest`, `all`"},
        {"upstreams: { default: { servers: [192.0.2.1], max-in-flight: 0 } }\n", "1:62", "is out of range; give 1 to 65536"},
        {"upstreams: { default: { servers: [192.0.2.1], max-in-flight: 65537 } }\n", "1:62", "is out of range; give 1 to 65536"},
        {"upstreams: { default: { servers: [192.0.2.1], random-case: 2 } }\n", "1:60", "write `true` or `false`"},
        {"upstreams: { default: { resolv-conf: \"\" } }\n", "1:38", "is empty"},
        {"upstreams: { default: { resolv-conf: [a] } }\n", "1:38", "`upstreams.default.resolv-conf` is a list; give path"},
        {"upstreams: { a: { servers: [192.0.2.1], domains: [] } }\n", "1:50", "`upstreams.a.domains` is empty"},
        {"upstreams: { a: { servers: [192.0.2.1], domains: [a..b] } }\n", "1:51", "is not a domain name"},
        {"upstreams: { a: { servers: [192.0.2.1], domains: [.] } }\n", "1:51", "is not a domain name"},
        {"upstreams: { a: { servers: [192.0.2.1], domains: [\"*.x\"] } }\n", "1:51", "leave `*.` out"},
        {"upstreams: { a: { servers: [192.0.2.1], domains: [x, X.] } }\n", "1:54", "stands here twice"},
        {"upstreams:\n  a: { servers: [192.0.2.1], domains: [corp.example, y] }\n  b: { servers: [192.0.2.2], domains: [z, Corp.Example.] }\n",
                "3:43", "`Corp.Example.` of upstream `b` is a domain of upstream `a` already (t.yaml:2:40)"},
        {"cache: { serve-stale: 0s }\n", "1:23", "is out of range; give 1s to 30d"},
        {"cache: { serve-stale: 31d }\n", "1:23", "is out of range; give 1s to 30d"},
        {"cache: { serve-stale: on }\n", "1:23", "is not a duration"},
        {"cache: { prefetch: on }\n", "1:20", "write `true` or `false`"},
        {"cache: { ttl-min: 61m }\n", "1:19", "is out of range; give 0s to 1h"},
        {"cache: { ttl-max: 0s }\n", "1:19", "is out of range; give 1s to 1d"},
        {"cache: { ttl-max: 25h }\n", "1:19", "is out of range; give 1s to 1d"},
        {"cache: { negative-ttl-max: 2h }\n", "1:28", "is out of range; give 0s to 1h"},
        {"cache: { ttl-max: 30s,\n  ttl-min: 31s }\n", "2:12", "is more than `ttl-max` (t.yaml:1:19); make it smaller"},
        {"cache: { size: 64 }\n", "1:16", "is not a size"},
        {"cache: { size: 64MB }\n", "1:16", "is not a size"},
        {"cache: { size: 1KiB }\n", "1:16", "is out of range; give 1MiB to 1TiB"},
        {"cache: { size: 18014398509481984KiB }\n", "1:16", "is not a size"},
        {"local: { domain: a..b }\n", "1:18", "is not a domain name"},
        {"local: { domain: . }\n", "1:18", "is not a domain name"},
        {"local: { hosts: [] }\n", "1:17", "`local.hosts` is empty"},
        {"local: { hosts: [a, ./a, a] }\n", "1:17", "/etc/nameway/a stands here twice"},
        {"local: { rebind-protection: on }\n", "1:29", "give a map of its keys"},
        {"local: { rebind-protection: { allow: [a..b] } }\n", "1:39", "is not a domain name"},
        {"local: { rebind-protection: { alow: [a] } }\n", "1:31", "did you mean `allow`?"},
        /* clients, lists */
        {"clients: { a: { interfaces: [\"br lan\"] } }\n", "1:30", "is not an interface name"},
        {"clients: { a: { interfaces: [abcdefghijklmnop] } }\n", "1:30", "at most 15 characters"},
        {"clients: { a: { networks: [10.0.0] } }\n", "1:28", "is not an address or prefix"},
        {"clients: { a: { macs: [\"02:00:5e:10:00\"] } }\n", "1:24", "is not a MAC address"},
        {"clients: { a: { macs: [\"02:00:5e:10:00:0g\"] } }\n", "1:24", "is not a MAC address"},
        {"clients: { a: { macs: [\"01:00:5e:10:00:01\"] } }\n", "1:24", "is a group address"},
        {"lists: { a: {} }\n", "1:10", "list `a` has no files; add `files: [PATH]`, or `entries: [NAME]`"},
        {"lists: { a: { entries: [] } }\n", "1:24", "`lists.a.entries` is empty, so it can never hold"},
        {"lists: { a: { entries: [x, \"a\\nb\"] } }\n", "1:28", "has a control character in it"},
        {"lists: { a: { entries: [{ x: y }] } }\n", "1:24", "a list with something else than values in it"},
        {"lists: { a: { files: x, max-names: 0 } }\n", "1:36", "is out of range; give 1 to 100000000"},
        {"lists: { a: { files: x, max-names: few } }\n", "1:36", "is not a number"},
        {"lists: { a: { files: [\"\"] } }\n", "1:23", "is empty"},
        {"lists: { a: { files: [x], shrink-limit: 50 } }\n", "1:41", "is not a share"},
        {"lists: { a: { files: [x], shrink-limit: 101% } }\n", "1:41", "is not a share"},
        {"lists: { a: { files: [x], format: rpz } }\n", "1:35", "write one of `auto`, `domains`, `hosts`, `adblock`, `dnsmasq`"},
        {"lists: { a: { files: [x], match: prefix } }\n", "1:34", "write one of `exact`, `suffix`"},
        /* ways */
        {"ways: { a: { interface: \"a/b\" } }\n", "1:25", "is not an interface name"},
        {"ways: { a: { interface: a, mark: 0x10000 } }\n", "1:34", "has bits outside `server.mark-mask` 0xf000"},
        {"ways: { a: { interface: a, mark: 0 } }\n", "1:34", "is out of range"},
        {"ways: { a: { mark: 0x1000 },\n b: { mark: 0x1000 } }\n", "2:13", "is already the mark of way `a` (t.yaml:1:9)"},
        {"ways: { a: { interface: x, upstream: defualt } }\n" UP, "1:38",
                "there is no upstream `defualt`; did you mean `default`?"},
        {"ways: { a: { interface: x, upstream: y } }\n", "1:38", "define it under `upstreams:`"},
        {UP "ways: { a: { interface: x, upstream: default }, b: { interface: y, upstream: default } }\n", "2:78",
                "already reached through way `a`"},
        {"ways: { a: { interface: x, kill-switch: 1 } }\n", "1:41", "write `true` or `false`"},
        {"ways: { a: { kill-switch: true } }\n", "1:14", "`kill-switch` has no effect on way `a`, which has no interface"},
        {"ways: { a: { check: { ping: 192.0.2.1 } } }\n", "1:14", "`check` has no effect"},
        {"ways: { a: { gateway: 192.0.2.1 } }\n", "1:14", "`gateway` has no effect"},
        {"ways: { a: { interface: x, check: { ping: host } } }\n", "1:43", "is not an address"},
        {"ways: { a: { interface: x, check: { ping: 192.0.2.1, every: 10ms } } }\n", "1:61", "is out of range; give 1s to 1h"},
        {"ways: { a: { interface: x, check: { every: 5s } } }\n", "1:37", "there is no `ping`"},
        {"ways: { a: { interface: x, check: { ping: 192.0.2.1, handshake-age: 3m } } }\n", "1:54",
                "both `ping` and `handshake-age`"},
        {"ways: { a: { interface: x, check: { handshake-age: 3 } } }\n", "1:52", "is not a duration"},
        {"ways: { a: { interface: x, check: {} } }\n", "1:28", "`check` is empty"},
        {"ways: { a: { interface: x, gateway: [192.0.2.1, 192.0.2.2] } }\n", "1:49", "is a second gateway of the same family"},
        {"ways: { a: { interface: x, ipv6: on } }\n", "1:34", "write one of `auto`, `off`"},
        {"ways: { a: { interface: x, masquerade: maybe } }\n", "1:40", "write one of `auto`, `true`, `false`"},
        {"ways: { a: { interface: x, fallback: b } }\n", "1:38", "there is no way `b`"},
        {"ways: { a: { interface: x, fallback: a } }\n", "1:9", "way `a` falls back to `a`, which leads back to it"},
        {"ways: { a: { interface: x, fallback: b }, b: { interface: y, fallback: a } }\n", "1:9", "way `a` falls back to `b`"},
        {"ways: { direct: { interface: x, fallback: b }, b: { interface: y } }\n", "1:9", "way `direct` falls back to `b`"},
        {"ways: { a: { sets: { ip: fw4, ip6: \"inet f v\" } } }\n", "1:26", "write \"FAMILY TABLE SET\""},
        {"ways: { a: { sets: { ip: \"inet fw4 v x\", ip6: \"inet f v\" } } }\n", "1:26", "write \"FAMILY TABLE SET\""},
        {"ways: { a: { sets: { ip: \"ipv4 fw4 v\", ip6: \"inet f v\" } } }\n", "1:26", "write \"FAMILY TABLE SET\""},
        {"ways: { a: { sets: { ip: \"ip6 fw4 v\", ip6: \"inet f v\" } } }\n", "1:26", "is in an IPv6 table"},
        {"ways: { a: { sets: { ip: \"ip fw4 v\", ip6: \"ip f v\" } } }\n", "1:43", "is in an IPv4 table"},
        {"ways: { a: { sets: { ip: \"inet nameway v\", ip6: \"ip6 f v\" } } }\n", "1:26", "nameway's own table"},
        {UP "clients: { lan: { interfaces: [eth1] } }\nways: { a: { interface: eth1 } }\n", "3:9",
                "way `a` leaves by `eth1`, where the clients of `lan` come in"},
        {"server: { mark-mask: 0x8000 }\nways: { a: {}, b: {} }\n", "2:16",
                "no mark is left for way `b`: `server.mark-mask` 0x8000 holds 1 values for 2 ways"},
        /* rules */
        {"filter: [{ names: [x], block: drop }]\n", "1:20", "there is no list `x`; define it under `lists:`"},
        {"lists: { ads: { files: [x] } }\nfilter: [{ names: [ad], block: drop }]\n", "2:20",
                "there is no list `ad`; did you mean `ads`?"},
        {"filter: [{ clients: [lan], block: drop }]\n", "1:22", "there is no group `lan`"},
        {"filter: [{ except-clients: [lan], block: drop }]\n", "1:29", "there is no group `lan`"},
        {"filter: [{ except-names: [lan], block: drop }]\n", "1:27", "there is no list `lan`"},
        {"filter: [{ enabled: true }]\n", "1:10", "neither `block` nor `allow`"},
        {"filter: [{ block: drop, allow: true }]\n", "1:25", "both `block` and `allow`"},
        {"filter: [{ answer: 192.0.2.1, allow: true }]\n", "1:12", "both `allow` and `answer`"},
        {"filter: [{ cname: a.b, answer: 192.0.2.1 }]\n", "1:12", "both `answer` and `cname`"},
        {"filter: [{ block: drop, cname: a.b }]\n", "1:25", "both `block` and `cname`"},
        {"filter: [{ answer: [] }]\n", "1:20", "`filter.answer` is empty"},
        {"filter: [{ answer: [192.0.2.1, 192.0.2] }]\n", "1:32", "is not an address"},
        {"filter: [{ answer: [192.0.2.1, 192.0.2.1] }]\n", "1:32", "stands here twice"},
        {"filter: [{ answer: [192.0.2.1/32] }]\n", "1:21", "is not an address"},
        {"filter: [{ cname: a..b }]\n", "1:19", "is not a domain name"},
        {"filter: [{ cname: . }]\n", "1:19", "is not a domain name"},
        {"filter: [{ block: zero, ttl: 60 }]\n", "1:30", "is not a duration"},
        {"filter: [{ block: zero, ttl: 2d }]\n", "1:30", "is out of range; give 0s to 1d"},
        {"filter: [{ allow: false }]\n", "1:19", "write `allow: true`"},
        {"filter: [{ block: NXDOMAIN }]\n", "1:19", "write one of `nxdomain`, `nodata`, `zero`, `refuse`, `drop`"},
        {"filter: [{ block: drop, enabled: 0 }]\n", "1:34", "write `true` or `false`"},
        {"filter:\n- { name: a, block: drop }\n- { name: a, allow: true }\n", "3:3",
                "a rule called `a` is already given at t.yaml:2:3"},
        {"filter:\n- { block: drop }\n- { name: rule 1, allow: true }\n", "3:3",
                "a rule called `rule 1` is already given at t.yaml:2:3"},
        {"steer: [{ gid: 5 }]\n", "1:9", "the rule has no way; add `way: NAME`"},
        {"ways: { direct: {} }\nsteer: [{ way: dircet }]\n", "2:16", "there is no way `dircet`; did you mean `direct`?"},
        {"ways: { direct: {} }\nclients: { a: {} }\nsteer: [{ gid: 1, clients: [a], way: direct }]\n", "3:11",
                "make two rules of it"},
        {"ways: { direct: {} }\nsteer: [{ gid: 4294967295, way: direct }]\n", "2:16", "is out of range"},
        {"ways: { direct: {} }\nsteer:\n- { name: a, gid: 1, way: direct }\n- { name: a, gid: 2, way: direct }\n", "4:3",
                "already given at t.yaml:3:3"},
        {"hijack-dns: { dot: reject }\n", "1:1", "`hijack-dns` names no interfaces"},
        {"hijack-dns: { interfaces: [a], dot: drop }\n", "1:37", "write one of `pass`, `reject`"},
        {"include: { a: b }\n", "1:10", "`include` is a map"},
};

static void every_fault_has_place_and_mend(void **state)
{
	unsigned wrong = 0;
	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
		const struct fault *f = &faults[i];
		struct parsed p = parse(f->text);
		char start[64];
		snprintf(start, sizeof start, "t.yaml:%s: error: ", f->at);
		const char *line = strstr(said(&p), ": error: ") ? strstr(said(&p), "t.yaml:") : NULL;
		while (line && strncmp(line, start, strlen(start)))
			line = strstr(line + 1, "t.yaml:");
		const char *end = line ? strchr(line, '\n') : NULL;
		const char *says = line ? strstr(line, f->says) : NULL;
		/* The mend stands behind a semicolon. */
		if (p.r.errors != 1 || p.outcome != NW_ECONFIG || !end || !says || says > end ||
		        !memchr(line, ';', (size_t)(end - line))) {
			print_error("%swanted at %s: %s\nsaid: %s\n", f->text, f->at, f->says, said(&p));
			wrong++;
		}
		parsed_free(&p);
	}
	assert_int_equal(wrong, 0);
}

static void all_faults_are_said_at_once(void **state)
{
	struct parsed p = parse("sever: {}\nserver: { workers: 99, user: '' }\nfilter: [{ block: x }]\n");
	assert_int_equal(p.r.errors, 4);
	parsed_free(&p);
}

static void a_flood_of_faults_is_bounded(void **state)
{
	struct buf b;
	buf_init(&b, 1 << 20);
	buf_printf(&b, "clients: { a: { macs: [");
	for (int i = 0; i < 5000; i++)
		buf_printf(&b, "x,");
	buf_printf(&b, "y] } }\n");
	struct parsed p = parse_bytes(b.bytes, b.len);
	assert_int_equal(p.r.errors, 5001);
	assert_non_null(strstr(said(&p), "the rest is left out"));
	assert_true(p.r.text.len < 100000);
	parsed_free(&p);
	buf_free(&b);
}

struct advice {
	const char *text, *at, *says;
};

static const struct advice advices[] = {
        {"cache: {}\n", "", "there is no upstream `default`"},
        {"upstreams: { other: { servers: [192.0.2.1] } }\n", "t.yaml:1:14: ", "nothing asks upstream `other`"},
        {UP, "", "`server.listen` is not given"},
        {"filter: [{ allow: true, ttl: 1m }]\n", "t.yaml:1:25: ", "`ttl` has no effect on rule `rule 1`"},
        {"filter: [{ block: drop, ttl: 1m }]\n", "t.yaml:1:25: ", "`ttl` has no effect on rule `rule 1`"},
        {"upstreams: { default: { resolv-conf: r } }\n", "t.yaml:1:38: ", "/etc/nameway/r is not there or cannot be read; questions to this group fail"},
        {"upstreams: { default: { servers: 192.0.2.1, resolv-conf: r } }\n", "t.yaml:1:58: ", "only `servers` are asked"},
        {"server: { user: root }\n", "t.yaml:1:17: ", "`user: root`"},
        {"clients: { a: { networks: [10.0.0.1/8] } }\n", "t.yaml:1:28: ", "taken as 10.0.0.0/8"},
        {"clients: { a: { networks: [10.0.0.0/8] } }\n", "t.yaml:1:12: ", "clients of `a` are recognised by IPv4 networks only"},
        {UP "ways: { a: { interface: w, upstream: default } }\n", "t.yaml:2:9: ", "way `a` takes upstream `default` for itself"},
        {"ways: { a: { sets: { ip: \"inet f v\" } } }\n", "t.yaml:1:26: ", "way `a` has no IPv6 set"},
        {"ways: { a: { sets: { ip6: \"inet f v\" } } }\n", "t.yaml:1:27: ", "way `a` has no IPv4 set"},
        {"ways: { a: { masquerade: true } }\n", "t.yaml:1:14: ", "`masquerade` has no effect"},
        {"ways: { direct: {}, a: { interface: x, kill-switch: true, fallback: direct } }\n",
                "t.yaml:1:59: ", "`fallback` has no effect"},
        {"lists: { l: { files: x } }\nways: { a: { interface: x } }\nsteer: [{ names: l, way: a }]\n",
                "t.yaml:2:9: ", "names steered to `a` are asked at upstream `default`"},
        {"ways: { direct: {} }\nclients: { a: {} }\nsteer:\n- { way: direct }\n- { clients: a, way: direct }\n",
                "t.yaml:5:3: ", "rule `rule 2` is never reached: `rule 1` (t.yaml:4:3)"},
};

static void what_is_doubtful_is_a_warning(void **state)
{
	for (size_t i = 0; i < sizeof advices / sizeof *advices; i++) {
		struct parsed p = parse_good(advices[i].text);
		char wanted[256];
		snprintf(wanted, sizeof wanted, "%swarning: ", advices[i].at);
		const char *says = strstr(said(&p), advices[i].says);
		const char *line = says;
		while (line && line > said(&p) && line[-1] != '\n')
			line--;
		if (!says || strncmp(line, wanted, strlen(wanted)))
			fail_msg("%s\nwanted: %s%s\nsaid: %s", advices[i].text, wanted, advices[i].says, said(&p));
		parsed_free(&p);
	}
}

static void control_characters_do_not_reach_the_terminal(void **state)
{
	struct parsed p = parse("server: { workers: \"a\\e[31m\\nfake: error: b\" }\n");
	assert_int_equal(p.r.errors, 1);
	assert_null(strchr(said(&p), '\033'));
	assert_null(strstr(said(&p), "\nfake"));
	parsed_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(every_fault_has_place_and_mend),
	        cmocka_unit_test(all_faults_are_said_at_once),
	        cmocka_unit_test(a_flood_of_faults_is_bounded),
	        cmocka_unit_test(what_is_doubtful_is_a_warning),
	        cmocka_unit_test(control_characters_do_not_reach_the_terminal),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
