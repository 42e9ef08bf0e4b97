/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `import dnsmasq`: every kind of option, what lines of a file mean together, and that each line is carried over, named or empty. Every result is read
 * as a configuration. Real files lie outside of the project, in the directory that the environment names as NAMEWAY_SHARED or in ../shared beside the
 * source; without them that part is skipped. */
#include "shown.h"
#include <dirent.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cli/import.h"

static char dir[] = "/tmp/nameway-import-XXXXXX";

static const char *path_of(const char *name)
{
	static char paths[4][256];
	static unsigned at;
	char *path = paths[at++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
	return path;
}

static void put(const char *name, const char *text)
{
	FILE *f = fopen(path_of(name), "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
}

static int set_up(void **state)
{
	(void)state;
	strcpy(dir + strlen(dir) - 6, "XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	return nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static struct shown import_path(const char *path, bool wants_json)
{
	char words[600];

	snprintf(words, sizeof(words), "%simport dnsmasq %s", wants_json ? "--json " : "", path);
	return show(NULL, NULL, words);
}

/* The text as "a.conf", with what belongs to it in other files put before. */
static struct shown import(const char *text)
{
	struct shown s;

	put("a.conf", text);
	s = import_path(path_of("a.conf"), false);
	if (s.code)
		fail_msg("exit code %d: %s\n%s", s.code, s.err, s.out);
	return s;
}

static long number(const json_t *j, const char *key)
{
	return (long)json_integer_value(json_object_get(j, key));
}

/* Every line is in one of the three counts, and the answer is a configuration. */
static void assert_accounted(const char *path, long lines)
{
	struct shown s = import_path(path, true);
	json_t *j = json_loads(s.out, 0, NULL);

	if (!j || s.code || !json_is_true(json_object_get(j, "is_valid")))
		fail_msg("%s: exit code %d: %s\n%s", path, s.code, s.err, s.out);
	/* Files that it names may be on this machine. */
	assert_true(number(j, "lines") >= lines);
	assert_int_equal(number(j, "carried") + number(j, "empty") + (long)json_array_size(json_object_get(j, "left")), number(j, "lines"));
	json_decref(j);
	shown_free(&s);
}

/* One kind of line each: what it becomes, or why it is left. */
static void every_kind_of_line(void **state)
{
	static const struct { const char *line, *becomes, *left; } kinds[] = {
		{"server=192.0.2.1", "servers: [\"192.0.2.1\"]", NULL},
		{"server=192.0.2.1#5353", "servers: [\"192.0.2.1@5353\"]", NULL},
		{"server=2001:db8::1#5353", "servers: [\"[2001:db8::1]@5353\"]", NULL},
		{"server=192.0.2.1#70000", NULL, "it is no address of a server"},
		{"server=resolver.example", NULL, "it is no address of a server"},
		{"server=224.0.0.1", NULL, "it is no address of a server"},
		{"server=127.0.0.1", NULL, "it is where nameway itself listens"},
		{"server=/x.example/127.0.0.1", "nxdomain1: { entries: [\"x.example\"]", NULL},
		{"server=/x.example/127.0.0.1#5353", "domains: [\"x.example\"]", NULL},
		{"server=192.0.2.1@eth1", "servers: [\"192.0.2.1\"]", "note: server=192.0.2.1@eth1"},
		{"server=/a.example/B.example/192.0.2.1", "servers: [\"192.0.2.1\"]\n    domains: [\"a.example\", \"b.example\"]", NULL},
		{"server=/#/192.0.2.1", "default:\n    servers: [\"192.0.2.1\"]", NULL},
		{"server=/std.example/#", "strategy: fastest\n    domains: [\"std.example\"]", NULL},
		{"no-resolv\nserver=/std.example/#", NULL, "there are no standard servers"},
		{"server=//192.0.2.1", NULL, "names without a dot have no servers of their own"},
		{"server=/*x.example/192.0.2.1", NULL, "servers belong to whole domains"},
		{"local=/lan/", "nxdomain1: { entries: [\"lan\"], format: domains }", NULL},
		{"local=/a.example/192.0.2.1", "domains: [\"a.example\"]", NULL},
		{"server=/a.example/", "block: nxdomain", NULL},
		{"local=//", "entries: [\"address=//\"], format: dnsmasq", NULL},
		{"address=/.x.example/192.0.2.1", "- \".x.example A 192.0.2.1\"", NULL},
		{"address=/x.example/2001:DB8::1", "- \".x.example AAAA 2001:db8::1\"", NULL},
		{"address=/x.example/", "- { names: [nxdomain1], block: nxdomain }", NULL},
		{"address=/x.example/#", "- { names: [zero1], block: zero }", NULL},
		{"address=/x.example/0.0.0.0", "- { names: [zero1], block: zero }", NULL},
		{"address=/x.example/::", "- { names: [zero1], block: zero }", NULL},
		{"address=/*.x.example/192.0.2.1", "- \"*.x.example A 192.0.2.1\"", NULL},
		{"address=/*x.example/#", "zero1-patterns: { entries: [\"address=/*x.example/\"], format: dnsmasq }", NULL},
		{"address=/#/192.0.2.1", "  - { answer: [\"192.0.2.1\"] }", NULL},
		{"address=/#/", "  - { block: nxdomain }", NULL},
		{"address=x", NULL, "its value is not understood"},
		{"address=/x y/#", NULL, "it is no domain name"},
		{"address=/b\xc3\xbc" "cher.example/192.0.2.1", "- \".xn--bcher-kva.example A 192.0.2.1\"", NULL},
		{"address=/\xff/192.0.2.1", NULL, "it is not UTF-8"},
		{"rev-server=192.168.0.0/16,192.0.2.1", "domains: [\"168.192.in-addr.arpa\"]", NULL},
		{"rev-server=10.0.0.0/23,192.0.2.1", "domains: [\"0.0.10.in-addr.arpa\", \"1.0.10.in-addr.arpa\"]", NULL},
		{"rev-server=2001:db8::/32,192.0.2.1", "domains: [\"8.b.d.0.1.0.0.2.ip6.arpa\"]", NULL},
		{"rev-server=192.0.2.7,192.0.2.1", "domains: [\"7.2.0.192.in-addr.arpa\"]", NULL},
		{"nftset=/x.example/4#inet#fw4#v4,6#inet#fw4#v6", "sets: { ip: [\"inet fw4 v4\"], ip6: [\"inet fw4 v6\"] }", NULL},
		{"nftset=/x.example/ip#t#s", "sets: { ip: [\"ip t s\"] }", NULL},
		{"nftset=/x.example/t#s", "sets: { ip: [\"ip t s\"] }", NULL},
		{"nftset=/x.example/inet#t#s", "sets: { ip: [\"inet t s\"] }", "is not said; taken as IPv4 by its name"},
		{"nftset=/x.example/s", NULL, "a set is [4#|6#][FAMILY#]TABLE#SET"},
		{"nftset=/x.example/4#ip6#t#s", NULL, "a set is [4#|6#][FAMILY#]TABLE#SET"},
		{"nftset=/#/4#inet#t#s", "- { way: sets-of-all }", NULL},
		{"ipset=/x.example/s", NULL, "use an nft set"},
		{"listen-address=192.0.2.9,::1", "listen: [\"192.0.2.9@53\", \"[::1]@53\"]", NULL},
		{"interface=br-lan # clients", "listen: [\"br-lan@53\", \"127.0.0.1@53\"]", NULL},
		{"interface=br-lan\nexcept-interface=lo\nport=5353", "listen: [\"br-lan@5353\"]", NULL},
		{"except-interface=wan", "# but not wan", NULL},
		{"interface=eth*", NULL, "it is no interface's name"},
		{"port=0", NULL, "it served no DNS"},
		{"cname=a.example,b.example,c.example", "- \"a.example CNAME c.example\"\n    - \"b.example CNAME c.example\"", NULL},
		{"cname=a.example,c.example,300", "- \"a.example 300 CNAME c.example\"", NULL},
		{"cname=*.a.example,c.example", "- \"*.a.example CNAME c.example\"", NULL},
		{"cname=a.example", NULL, "its value is not understood"},
		{"cname=a.example,b.example\nhost-record=a.example,192.0.2.1", "records:\n    - \"a.example", "a.conf:"},
		{"host-record=a.example,a,192.0.2.1,2001:db8::1,120", "- \"a.example 120 A 192.0.2.1\"\n    - \"a.example 120 AAAA 2001:db8::1\"\n    - \"a 120 A 192.0.2.1\"", NULL},
		{"host-record=a.example", NULL, "its value is not understood"},
		{"txt-record=a.example,\"one, \\\"two\\\"\",three", "- \"a.example TXT \\\"one, \\\\034two\\\\034\\\" \\\"three\\\"\"", NULL},
		{"txt-record=a.example", "- \"a.example TXT \\\"\\\"\"", NULL},
		{"txt-record=a.example,\"open", NULL, "a quote is not closed"},
		{"srv-host=_sip._tcp.a.example,b.example,5060,10,20", "- \"_sip._tcp.a.example SRV 10 20 5060 b.example\"", NULL},
		{"srv-host=_sip._tcp.a.example", "- \"_sip._tcp.a.example SRV 0 0 1 .\"", NULL},
		{"domain=lan\nsrv-host=_ldap._tcp,b.example,389", "- \"_ldap._tcp.lan SRV 0 0 389 b.example\"", NULL},
		{"mx-host=a.example,b.example,10", "- \"a.example MX 10 b.example\"", NULL},
		{"mx-host=a.example\nmx-target=b.example", "- \"a.example MX 1 b.example\"", NULL},
		{"mx-host=a.example", NULL, "it means this machine's name"},
		{"ptr-record=s._udp.a.example,\"Nice Name.a.example\"", "- \"s._udp.a.example PTR Nice\\\\032Name.a.example\"", NULL},
		{"naptr-record=a.example,10,20,u,E2U+sip,!x!y!", "- \"a.example NAPTR 10 20 \\\"u\\\" \\\"E2U+sip\\\" \\\"!x!y!\\\" .\"", NULL},
		{"caa-record=a.example,0,issue,ca.example", "- \"a.example CAA 0 issue \\\"ca.example\\\"\"", NULL},
		{"dns-rr=a.example,65280,01:23", "- \"a.example TYPE65280 \\\\# 2 0123\"", NULL},
		{"dns-rr=a.example,1,01:23", NULL, "a.conf:"},
		{"bogus-nxdomain=192.0.2.1,198.51.100.0/24", "bogus: { entries: [\"192.0.2.1\", \"198.51.100.0/24\"] }", NULL},
		{"stop-dns-rebind\nrebind-domain-ok=/a.example/.b.example/", "rebind-protection: { allow: [\"a.example\", \"b.example\"] }", NULL},
		{"stop-dns-rebind\nrebind-domain-ok=a.example", "rebind-protection: { allow: [\"a.example\"] }", NULL},
		{"domain=lan,192.168.8.0/24", NULL, "come with leases"},
		{"domain=home.example", "domain: \"home.example\"", NULL},
		{"addn-hosts = /etc/more.hosts", "hosts: [\"/etc/hosts\", \"/etc/more.hosts\"]", NULL},
		{"addn-hosts=/etc", NULL, "it is a directory"},
		{"resolv-file=/run/r1\nresolv-file=/run/r2", "resolv-conf: \"/run/r1\"", "one file of that kind"},
		{"no-resolv\nresolv-file=/run/r1", NULL, "`no-resolv` stands beside it"},
		{"resolv-file=/run/r1\nserver=192.0.2.1", "servers: [\"192.0.2.1\"]\n    resolv-conf: \"/run/r1\"", NULL},
		{"strict-order", "strategy: ordered", NULL},
		{"all-servers", "strategy: all", NULL},
		{"dns-forward-max=100000", "max-in-flight: 65536", NULL},
		{"cache-size=10000", "size: 9MiB", NULL},
		{"cache-size=0", NULL, "answers are always kept"},
		{"min-cache-ttl=7200\nmax-ttl=1800\nmax-cache-ttl=3000", "ttl-min: 1800s\n  ttl-max: 1800s", NULL},
		{"no-negcache", "negative-ttl-max: 0s", NULL},
		{"neg-ttl=60", NULL, "an answer without SOA is not kept"},
		{"use-stale-cache", "serve-stale: 86400s", NULL},
		{"use-stale-cache=0", "serve-stale: 2592000s", NULL},
		{"log-queries=extra", "log: { queries: true }", NULL},
		{"domain-needed", "without-dot: { entries: [\"/^[^.]+$/$dnstype=A|AAAA\"], format: adblock }", NULL},
		{"filter-AAAA", "- { names: [type-aaaa], block: nodata }", NULL},
		{"bogus-priv", "listen:", NULL},
		{"dhcp-range=192.168.8.10,192.168.8.255,12h", NULL, "DHCP, TFTP"},
		{"enable-tftp", NULL, "DHCP, TFTP"},
		{"dnssec", NULL, "validation is not in this version"},
		{"frobnicate=1", NULL, "dnsmasq has no such option"},
		{"$a_template", NULL, "dnsmasq has no such option"},
		{"conf-file=/nowhere/at/all", NULL, "cannot be read here"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		struct shown s = import(kinds[i].line);

		if (kinds[i].becomes && !strstr(s.out, kinds[i].becomes))
			fail_msg("%s: no %s in\n%s%s", kinds[i].line, kinds[i].becomes, s.out, s.err);
		if (kinds[i].left ? !strstr(s.err, kinds[i].left) : strstr(s.err, "not carried over:") || strstr(s.err, "note:"))
			fail_msg("%s: said %s", kinds[i].line, s.err);
		assert_accounted(path_of("a.conf"), 0);
		shown_free(&s);
	}
}

/* The most specific domain decides, though our kinds have an order of their own. */
static void domains_beneath_others(void **state)
{
	static const struct { const char *lines, *has, *other; } cases[] = {
		{"local=/x.example/\nserver=/ok.x.example/192.0.2.1", "nxdomain1: { entries: [\"x.example\", \"!ok.x.example\"]", NULL},
		{"address=/x.example/#\nserver=/ok.x.example/#\naddress=/no.ok.x.example/", "entries: [\"x.example\", \"!ok.x.example\"]", "nxdomain2: { entries: [\"no.ok.x.example\"]"},
		{"address=/x.example/#\naddress=/y.x.example/", "entries: [\"x.example\", \"!y.x.example\"]", "entries: [\"y.x.example\"]"},
		/* A label is whole. */
		{"address=/x.example/#\naddress=/yx.example/", "zero1: { entries: [\"x.example\"]", "nxdomain2: { entries: [\"yx.example\"]"},
		/* Local names go before filter rules. */
		{"address=/x.example/#\naddress=/pin.x.example/192.0.2.1", "entries: [\"x.example\"], format", ".pin.x.example A 192.0.2.1"},
		{"address=/x.example/192.0.2.1\naddress=/x.example/2001:db8::1\naddress=/no.x.example/", "answer1: { entries: [\"x.example\", \"!no.x.example\"]",
		        "answer: [\"192.0.2.1\", \"2001:db8::1\"]"},
		{"address=/x.example/192.0.2.1\nserver=/s.x.example/192.0.2.9\naddress=/no.s.x.example/#", ".x.example A 192.0.2.1", "entries: [\"no.s.x.example\"]"},
		/* Something between that is a record hides nothing. */
		{"address=/x.example/#\naddress=/p.x.example/192.0.2.1\nserver=/s.p.x.example/192.0.2.9", "entries: [\"x.example\", \"!s.p.x.example\"]", ".p.x.example A"},
		/* Several lines of one domain: the first of addresses, zero, servers, nothing. */
		{"local=/x.example/\nserver=/x.example/192.0.2.1", "domains: [\"x.example\"]", NULL},
		{"address=/x.example/\naddress=/x.example/#", "zero1: { entries: [\"x.example\"]", NULL},
		{"server=/x.example/192.0.2.1\nserver=/y.example/192.0.2.1\nserver=/x.example/192.0.2.2", "servers: [\"192.0.2.1\", \"192.0.2.2\"]\n    domains: [\"x.example\"]",
		        "servers: [\"192.0.2.1\"]\n    domains: [\"y.example\"]"},
		{"address=/#/192.0.2.1\nserver=/x.example/192.0.2.9", "elsewhere: { entries: [\"x.example\"]", "- { except-names: [elsewhere], answer: [\"192.0.2.1\"] }"},
		{"address=/*x.example/#\nserver=/ax.example/192.0.2.9", "- { names: [zero1-patterns], except-names: [elsewhere], block: zero }", NULL},
		/* Sets: separate lines and one line with commas mean the same; the most specific domain decides. */
		{"nftset=/vk.example/4#inet#f#s1\nnftset=/vk.example/4#inet#f#s2\nnftset=/ok.example/4#inet#f#s1,4#inet#f#s2", "set1: { entries: [\"ok.example\", \"vk.example\"]",
		        "sets1: { sets: { ip: [\"inet f s1\", \"inet f s2\"] } }"},
		{"nftset=/a.example/4#inet#f#s\nnftset=/b.a.example/4#inet#f#t", "set1: { entries: [\"a.example\", \"!b.a.example\"]", "set2: { entries: [\"b.a.example\"]"},
		/* A set and a server for one name both count. */
		{"server=/x.example/192.0.2.9#5301\nnftset=/x.example/4#inet#f#s", "domains: [\"x.example\"]", "set1: { entries: [\"x.example\"]"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct shown s = import(cases[i].lines);

		if (!strstr(s.out, cases[i].has) || (cases[i].other && !strstr(s.out, cases[i].other)) || strstr(s.err, "not carried over:"))
			fail_msg("%s\n%s%s", cases[i].lines, s.out, s.err);
		shown_free(&s);
	}
}

/* Sixteen kinds of sets are more ways than the usual mask has marks for, 62 are all there may be. */
static void many_kinds_of_sets(void **state)
{
	struct shown s;
	struct buf b;

	(void)state;
	buf_init(&b, 1 << 20);
	for (unsigned i = 0; i < 70; i++)
		buf_printf(&b, "nftset=/n%u.example/4#inet#t#s%u\n", i, i);
	s = import(b.bytes);
	assert_has(s.out, "mark-mask: 0x3f000");
	assert_has(s.err, "70 lines: 62 carried over, 8 not");
	buf_free(&b);
	shown_free(&s);
}

static void files_that_name_others(void **state)
{
	char text[1200];
	struct shown s;

	(void)state;
	assert_int_equal(mkdir(path_of("d"), 0700), 0);
	assert_int_equal(mkdir(path_of("d/sub.conf"), 0700), 0);
	put("d/a.conf", "address=/a.example/192.0.2.1\n");
	put("d/b.conf", "# nothing\nbad-one\n");
	put("d/c.conf~", "address=/c.example/192.0.2.1\n");
	put("d/#d.conf", "address=/d.example/192.0.2.1\n");
	put("d/.e.conf", "address=/e.example/192.0.2.1\n");
	put("d/f.other", "address=/f.example/192.0.2.1\n");
	put("loop", "conf-file=loop\n");
	snprintf(text, sizeof(text), "conf-dir=%s,*.conf\nconf-file=%s\n\nserver=192.0.2.1\n", path_of("d"), path_of("nothing"));
	s = import(text);
	assert_has(s.out, ".a.example A 192.0.2.1");
	assert_has(s.out, ".d.example A 192.0.2.1");
	assert_null(strstr(s.out, "c.example"));
	assert_null(strstr(s.out, "e.example"));
	assert_null(strstr(s.out, "f.example"));
	assert_has(s.err, "/d/b.conf:2: not carried over: bad-one: dnsmasq has no such option");
	assert_has(s.err, "a.conf:2: not carried over: conf-file=");
	assert_has(s.err, "8 lines: 4 carried over, 2 not (named above), 2 empty or comments");
	shown_free(&s);
	snprintf(text, sizeof(text), "conf-file=%s\n", path_of("a.conf"));
	s = import(text);
	assert_has(s.err, "files include each other more than 8 deep");
	shown_free(&s);
}

/* A file of nothing but block lines is named, not copied; what lies beneath its domains counts. */
static void a_file_that_is_a_list(void **state)
{
	char text[1200];
	struct shown s;
	struct buf b;

	(void)state;
	buf_init(&b, 1 << 20);
	buf_printf(&b, "# a list\n\n");
	for (unsigned i = 0; i < 600; i++)
		buf_printf(&b, "address=/n%u.example/#\r\n", i);
	put("block.conf", b.bytes);
	snprintf(text, sizeof(text), "conf-file=%s\nserver=/ok.n7.example/192.0.2.1\naddress=/n8.example/#\n", path_of("block.conf"));
	s = import(text);
	assert_has(s.out, "block.conf\"], format: dnsmasq }");
	assert_has(s.out, "not-in-file1: { entries: [\"ok.n7.example\"] }");
	assert_has(s.out, "- { names: [file1], except-names: [not-in-file1], block: zero }");
	assert_null(strstr(s.out, "n9.example"));
	assert_has(s.err, "605 lines: 603 carried over, 0 not, 2 empty or comments");
	shown_free(&s);
	/* One line of another meaning, and it is a configuration. */
	buf_printf(&b, "address=/other.example/192.0.2.1\n");
	put("block.conf", b.bytes);
	s = import(text);
	assert_has(s.out, "\"n9.example\"");
	shown_free(&s);
	buf_free(&b);
}

/* More than a list may hold: said, and the rest is carried over. */
static void too_many_of_a_kind(void **state)
{
	struct shown s;
	struct buf b;

	(void)state;
	buf_init(&b, 8 << 20);
	buf_printf(&b, "server=192.0.2.1\n");
	for (unsigned i = 0; i < 65540; i++)
		buf_printf(&b, "local=/n%u.example/\n", i);
	s = import(b.bytes);
	assert_has(s.err, "65541 lines: 65537 carried over, 4 not");
	assert_has(s.err, "a list has 65,536 entries at most");
	buf_free(&b);
	shown_free(&s);
}

static void the_verb(void **state)
{
	struct shown s = show(NULL, NULL, "import");

	(void)state;
	assert_int_equal(s.code, EXIT_USAGE);
	shown_free(&s);
	s = show(NULL, NULL, "import dnsmasq");
	assert_int_equal(s.code, EXIT_USAGE);
	shown_free(&s);
	s = show(NULL, NULL, "import dnsmasq --help");
	assert_int_equal(s.code, 0);
	assert_has(s.out, "import dnsmasq FILE");
	shown_free(&s);
	s = show(NULL, NULL, "import iptables-dns x");
	assert_int_equal(s.code, EXIT_USAGE);
	assert_has(s.err, "not in this version");
	shown_free(&s);
	s = show(NULL, NULL, "import dnsmasq /nowhere/at/all");
	assert_int_equal(s.code, EXIT_NO);
	assert_has(s.err, "/nowhere/at/all cannot be read: No such file or directory");
	assert_string_equal(s.out, "");
	shown_free(&s);
	put("a.conf", "server=192.0.2.1\n\nbad\n");
	s = import_path(path_of("a.conf"), true);
	assert_has(s.out, "\"why\": \"dnsmasq has no such option\"");
	assert_string_equal(s.err, "");
	shown_free(&s);
	assert_accounted(path_of("a.conf"), 3);
}

static long count_lines(const char *path)
{
	FILE *f = fopen(path, "r");
	long lines = 0;
	int c, last = '\n';

	assert_non_null(f);
	while ((c = fgetc(f)) != EOF) {
		lines += c == '\n';
		last = c;
	}
	fclose(f);
	return lines + (last != '\n');
}

/* Files that people run, and scripts that are none: every line is accounted for. */
static void real_files(void **state)
{
	static const char *const folders[] = {"dnsmasq", "openwrt"};
	const char *shared = getenv("NAMEWAY_SHARED"), *root = getenv("NAMEWAY_SOURCE_ROOT");
	char folder[2048], path[2400];
	unsigned seen = 0;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct dirent *e;
		DIR *d;

		snprintf(folder, sizeof(folder), shared ? "%s/data/conf/%s" : "%s/../shared/data/conf/%s", shared ? shared : root ? root : ".", folders[i]);
		d = opendir(folder);
		if (!d) {
			print_message("skipped: no %s (set NAMEWAY_SHARED)\n", folder);
			skip();
		}
		while ((e = readdir(d))) {
			snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
			if (e->d_name[0] == '.')
				continue;
			assert_accounted(path, count_lines(path));
			seen++;
		}
		closedir(d);
	}
	assert_true(seen > 30);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {TEST(every_kind_of_line), TEST(domains_beneath_others), TEST(many_kinds_of_sets), TEST(files_that_name_others),
	        TEST(a_file_that_is_a_list), TEST(too_many_of_a_kind), TEST(the_verb), TEST(real_files)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
