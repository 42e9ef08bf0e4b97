/* SPDX-License-Identifier: GPL-3.0-or-later */
/* resolv.conf: which servers a text names, which of them are not asked and why, and how the bundle brings it. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "fixture.h"

#define GROUP "server: { listen: [br-lan@53, \"127.0.0.1@53\", \"192.0.2.250@5353\"] }\nupstreams: { default: { resolv-conf: /r } }\n"

/* Parses YAML beside the text of /r and what is known of the machine (NULL: no such member). */
static struct parsed with_resolv(const char *yaml, const char *resolv, size_t resolv_len, const char *machine)
{
	struct parsed p = {0};
	struct buf b;
	unsigned members = 1;
	report_init(&p.r);
	buf_init(&b, BUNDLE_MAX);
	bundle_begin(&b, "/etc/nameway");
	bundle_add(&b, "t.yaml", yaml, strlen(yaml));
	if (resolv && ++members)
		bundle_add_kind(&b, BUNDLE_RESOLV, "/r", resolv, resolv_len);
	if (machine && ++members)
		bundle_add_kind(&b, BUNDLE_MACHINE, "interfaces", machine, strlen(machine));
	assert_int_equal(bundle_end(&b, members), 0);
	p.outcome = config_parse(&p.c, b.bytes, b.len, &p.r);
	buf_free(&b);
	return p;
}

struct text {
	const char *resolv, *servers /* "A B " */, *says /* a warning, or NULL: none about the file */;
};

static const char machine[] = "link 7 eth0\nlink 3 br-lan\naddr 3 br-lan 192.168.8.1\naddr 3 br-lan fe80::1\naddr 1 lo 127.0.0.1\n"
                              "addr 7 eth0 198.51.100.7\naddr 7 eth0 fe80::7\n";

static const struct text texts[] = {
        {"nameserver 192.0.2.1\nnameserver 2001:db8::1\n", "192.0.2.1 2001:db8::1 ", NULL},
        {"nameserver 192.0.2.1", "192.0.2.1 ", NULL},
        {"# made by something\r\n; or other\r\nsearch lan\r\noptions edns0\r\nnameserver 192.0.2.1\r\n", "192.0.2.1 ", NULL},
        {"  nameserver\t192.0.2.1   # the first\nnameserver 192.0.2.2 trailing words\n", "192.0.2.1 192.0.2.2 ", NULL},
        {"nameserver 192.0.2.1\nnameserver 192.0.2.1\n", "192.0.2.1 ", NULL},
        {"#nameserver 192.0.2.1\nnameservers 192.0.2.2\nNameserver 192.0.2.3\ndomain nameserver 192.0.2.4\n", "", "/r names no server that can be asked; questions"},
        {"", "", "/r names no server that can be asked; questions"},
        {"nameserver\nnameserver \nnameserver 192.0.2.1\n", "192.0.2.1 ", NULL},
        {"\n\nnameserver 192.0.2.300\nnameserver 192.0.2.1\n", "192.0.2.1 ", "/r:3:12: warning: `nameserver`: `192.0.2.300` is no address"},
        {"nameserver dns.example\n", "", "is no address"},
        {"nameserver 192.0.2.1@53\nnameserver 192.0.2.2\n", "192.0.2.2 ", "is no address"},
        {"nameserver 192.0.2.1%eth0\nnameserver 192.0.2.2\n", "192.0.2.2 ", "is no address"},
        {"nameserver 2001:db8::1%eth0\n", "2001:db8::1 ", NULL},
        {"nameserver fe80::9%eth0\nnameserver fe80::9%br-lan\nnameserver fe80::9%12\n", "fe80::9%7 fe80::9%3 fe80::9%12 ", NULL},
        {"nameserver fe80::9%wlan0\nnameserver 192.0.2.1\n", "192.0.2.1 ", "/r:1:12: warning: `nameserver`: `fe80::9%wlan0` names an interface that is not there now"},
        {"nameserver fe80::9\n", "", "without its interface"},
        {"nameserver fe80::9%0\nnameserver fe80::9%99999999999999999999\nnameserver fe80::9%\nnameserver 192.0.2.1\n", "192.0.2.1 ", "is no address"},
        {"nameserver 0.0.0.0\nnameserver ::\nnameserver 224.0.0.1\nnameserver ff02::1%eth0\nnameserver 192.0.2.1\n", "192.0.2.1 ", "is not the address of a server"},
        /* where nameway listens: an address given, one of a listening interface; not another interface's, not another port's */
        {"nameserver 127.0.0.1\nnameserver 192.0.2.1\n", "192.0.2.1 ", "/r:1:12: warning: `nameserver`: `127.0.0.1` is where nameway itself listens"},
        {"nameserver 192.168.8.1\nnameserver 192.0.2.1\n", "192.0.2.1 ", "`192.168.8.1` is where nameway itself listens"},
        {"nameserver fe80::1%br-lan\nnameserver fe80::1%eth0\n", "fe80::1%7 ", "`fe80::1%br-lan` is where nameway itself listens"},
        {"nameserver 198.51.100.7\nnameserver 192.0.2.250\nnameserver 127.0.0.53\n", "198.51.100.7 192.0.2.250 127.0.0.53 ", NULL},
        {"nameserver 127.0.0.1\n", "", "/r names no server that can be asked; questions"},
};

static void expect_servers(const struct parsed *p, unsigned group, const char *wanted)
{
	char all[2048] = "", one[ADDR_TEXT_MAX];
	const struct cfg_upstream *up = &p->c->upstreams[group];
	for (unsigned i = 0; i < up->server_count; i++) {
		const struct endpoint *e = &up->servers[i];
		size_t at = strlen(all);
		assert_int_equal(e->port, 53);
		snprintf(all + at, sizeof all - at, e->scope ? "%s%%%u " : "%s ", addr_print(one, &e->addr), e->scope);
	}
	if (strcmp(all, wanted))
		fail_msg("wanted: %s\n   got: %s\nsaid: %s", wanted, all, said(p));
}

static void what_a_text_names(void **state)
{
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct parsed p = with_resolv(GROUP, texts[i].resolv, strlen(texts[i].resolv), machine);
		if (p.outcome)
			fail_msg("%s\nrefused: %s", texts[i].resolv, said(&p));
		expect_servers(&p, 0, texts[i].servers);
		if (texts[i].says ? !strstr(said(&p), texts[i].says) : strstr(said(&p), "/r") != NULL)
			fail_msg("%s\nwanted: %s\nsaid: %s", texts[i].resolv, texts[i].says ? texts[i].says : "nothing", said(&p));
		parsed_free(&p);
	}
}

static void any_bytes_will_do(void **state)
{
	static const char bytes[] = "nameserver 192.0\0.2.1\nname\0server 192.0.2.2\nnameserver \xff\xfe\x1b[31m\n\0\nnameserver 192.0.2.3";
	struct parsed p = with_resolv(GROUP, bytes, sizeof bytes - 1, NULL);
	assert_int_equal(p.outcome, 0);
	expect_servers(&p, 0, "192.0.2.3 ");
	assert_null(strchr(said(&p), '\x1b'));
	parsed_free(&p);
	char line[400] = "nameserver ";
	memset(line + 11, '1', 300);
	p = with_resolv(GROUP, line, strlen(line), NULL);
	assert_int_equal(p.outcome, 0);
	expect_servers(&p, 0, "");
	parsed_free(&p);
}

/* An address cut at the end of the room for it is not taken for another one. */
static void a_long_token_is_not_cut_to_an_address(void **state)
{
	char line[400] = "nameserver ";
	memset(line + 11, '0', 90);
	strcpy(line + 11 + 60, "::1");
	memset(line + 11 + 63, '2', 60);
	struct parsed p = with_resolv(GROUP, line, strlen(line), NULL);
	expect_servers(&p, 0, "");
	parsed_free(&p);
}

static void servers_come_first_and_count(void **state)
{
	struct parsed p = with_resolv("upstreams: { default: { servers: [192.0.2.9, 192.0.2.1], resolv-conf: /r }, o: { resolv-conf: /r, domains: x } }\n",
	        "nameserver 192.0.2.1\nnameserver 192.0.2.2\n", 42, NULL);
	assert_int_equal(p.outcome, 0);
	expect_servers(&p, 0, "192.0.2.9 192.0.2.1 192.0.2.2 ");
	expect_servers(&p, 1, "192.0.2.1 192.0.2.2 ");
	parsed_free(&p);
	struct buf b;
	buf_init(&b, RESOLV_TEXT_MAX);
	for (int i = 1; i <= 20; i++)
		buf_printf(&b, "nameserver 192.0.2.%d\n", i);
	p = with_resolv(GROUP, b.bytes, b.len, NULL);
	assert_int_equal(p.c->upstreams[0].server_count, CONFIG_SERVERS_MAX);
	assert_non_null(strstr(said(&p), "/r:17:12: warning: upstream `default` has 16 servers already"));
	parsed_free(&p);
	buf_free(&b);
}

static void a_missing_file_is_a_warning(void **state)
{
	struct parsed p = with_resolv(GROUP, NULL, 0, NULL);
	assert_int_equal(p.outcome, 0);
	assert_int_equal(p.c->upstreams[0].server_count, 0);
	assert_int_equal(p.c->default_upstream, 0);
	assert_non_null(strstr(said(&p), "t.yaml:2:38: warning: `resolv-conf`: /r is not there or cannot be read"));
	parsed_free(&p);
}

/* The same addresses as `servers` are an error; the wildcard listens at all of them. */
static void own_addresses_as_servers_are_an_error(void **state)
{
	static const struct {
		const char *listen, *server;
		bool is_own;
	} cases[] = {{"br-lan@53", "192.168.8.1", true}, {"br-lan@53", "192.168.8.1@54", false}, {"br-lan@54", "192.168.8.1@54", true},
	        {"eth0@53", "192.168.8.1", false}, {"0.0.0.0@53", "192.168.8.1", true}, {"\"[::]@53\"", "192.168.8.1", false},
	        {"0.0.0.0@53", "192.0.2.1", false}, {"lo", "127.0.0.1", true}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char yaml[200];
		snprintf(yaml, sizeof yaml, "server: { listen: [%s] }\nupstreams: { default: { servers: [\"%s\"] } }\n", cases[i].listen, cases[i].server);
		struct parsed p = with_resolv(yaml, NULL, 0, machine);
		if ((p.outcome == NW_ECONFIG) != cases[i].is_own || (cases[i].is_own && !strstr(said(&p), "t.yaml:2:35: error: `servers`")))
			fail_msg("%s%s", yaml, said(&p));
		parsed_free(&p);
	}
}

static void damaged_members_are_refused(void **state)
{
	static const char *const bodies[] = {
	        /* a resolv without a file, before the file, without text; machines: two, before a resolv, of bad lines */
	        "resolv 2 1\n/r\nx\n", "resolv 2 1\n/r\nx\nfile 1 1\na\n#\n", "file 1 1\na\n#\nresolv 2 9\n/r\nx\n", "file 1 1\na\n#\nresolv 0 1\n\nx\n",
	        "file 1 1\na\n#\nother 2 1\n/r\nx\n", "file 1 1\na\n#\nmachine 1 0\nm\n\nresolv 2 1\n/r\nx\n", "file 1 1\na\n#\nmachine 1 0\nm\n\nmachine 1 0\nm\n\n",
	        "file 1 1\na\n#\nmachine 1 9\nm\nlink 1 lo\n", "file 1 1\na\n#\nmachine 1 10\nm\nlink 0 lo\n\n", "file 1 1\na\n#\nmachine 1 10\nm\nlink -1 x\n\n",
	        "file 1 1\na\n#\nmachine 1 12\nm\naddr 1 lo x\n\n", "file 1 1\na\n#\nmachine 1 12\nm\nlink 1 lo x\n\n", "file 1 1\na\n#\nmachine 1 8\nm\nwhat is\n\n"};
	for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
		unsigned members = 0;
		for (const char *at = bodies[i]; (at = strpbrk(at, "fromw")); at = strchr(at, '\n'))
			members += !strncmp(at, "file ", 5) || !strncmp(at, "resolv ", 7) || !strncmp(at, "other ", 6) || !strncmp(at, "machine ", 8);
		struct buf b;
		struct report r;
		struct config *c = NULL;
		buf_init(&b, BUNDLE_MAX);
		bundle_begin(&b, "/");
		buf_add(&b, bodies[i], strlen(bodies[i]));
		bundle_end(&b, members);
		report_init(&r);
		if (config_parse(&c, b.bytes, b.len, &r) != NW_EMALFORMED || c)
			fail_msg("accepted: %s", bodies[i]);
		report_free(&r);
		buf_free(&b);
	}
}

/* Every byte of a bundle with all kinds of members, changed or missing. */
static void damage_is_refused(void **state)
{
	struct buf b;
	struct report r;
	struct config *c = NULL;
	buf_init(&b, BUNDLE_MAX);
	bundle_begin(&b, "/");
	bundle_add(&b, "t.yaml", GROUP, strlen(GROUP));
	bundle_add_kind(&b, BUNDLE_RESOLV, "/r", "nameserver 192.0.2.1\n", 21);
	bundle_add_kind(&b, BUNDLE_MACHINE, "interfaces", machine, strlen(machine));
	bundle_end(&b, 3);
	for (size_t i = 0; i < 2 * b.len; i++) {
		size_t at = i / 2, len = i % 2 ? at : b.len;
		char *copy = malloc(len ? len : 1);
		memcpy(copy, b.bytes, len);
		if (len == b.len)
			copy[at] ^= 1;
		report_init(&r);
		assert_int_equal(config_parse(&c, copy, len, &r), NW_EMALFORMED);
		report_free(&r);
		free(copy);
	}
	report_init(&r);
	assert_int_equal(config_parse(&c, b.bytes, b.len, &r), 0);
	assert_int_equal(c->upstreams[0].server_count, 1);
	report_free(&r);
	config_free(c);
	buf_free(&b);
}

/* --- from files --- */

static char dir[] = "/tmp/nameway-resolv-XXXXXX";

static const char *path_of(const char *name)
{
	static char path[256];
	snprintf(path, sizeof path, "%s/%s", dir, name);
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
	return remove(path);
}

static int dir_make(void **state)
{
	strcpy(dir + strlen(dir) - 6, "XXXXXX");
	return mkdtemp(dir) && mkdir(path_of("conf.d"), 0700) == 0 ? 0 : -1;
}

static int dir_remove(void **state)
{
	return nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static struct parsed parse_bundle(const struct buf *b, struct report *r)
{
	struct parsed p = {.r = *r};
	p.outcome = config_parse(&p.c, b->bytes, b->len, &p.r);
	if (p.outcome)
		fail_msg("%s", said(&p));
	return p;
}

static struct parsed read_and_parse(const char *name, struct buf *b)
{
	struct report r;
	report_init(&r);
	if (config_bundle_read(b, path_of(name), &r))
		fail_msg("%s", r.text.bytes);
	return parse_bundle(b, &r);
}

static bool has_kept;

static struct parsed refresh_and_parse(struct buf *fresh, const struct buf *old)
{
	struct report r;
	report_init(&r);
	assert_int_equal(config_bundle_refresh(fresh, old->bytes, old->len, &has_kept, &r), 0);
	return parse_bundle(fresh, &r);
}

/* Both files name resolv.conf files, relative to themselves. */
static void put_world(void)
{
	put("main.yaml", "include: conf.d/x.yaml\nserver: { listen: [lo] }\nupstreams: { default: { resolv-conf: r } }\n");
	put("conf.d/x.yaml", "upstreams: { isp: { resolv-conf: ../r2, domains: isp.example }, again: { resolv-conf: ../r2, domains: y } }\n");
	put("r", "nameserver 192.0.2.1\n");
	put("r2", "nameserver 127.0.0.1\nnameserver 192.0.2.2\nnameserver fe80::5%lo\nnameserver fe80::5%nosuchif0\n");
}

static void files_are_read_into_the_bundle(void **state)
{
	struct buf b;
	put_world();
	struct parsed p = read_and_parse("main.yaml", &b);
	expect_servers(&p, 0, "192.0.2.1 ");
	expect_servers(&p, 1, "192.0.2.2 fe80::5%1 ");
	expect_servers(&p, 2, "192.0.2.2 fe80::5%1 ");
	assert_non_null(strstr(said(&p), "/r2:1:12: warning: `nameserver`: `127.0.0.1` is where nameway itself listens"));
	parsed_free(&p);
	/* It says it without the files. */
	assert_int_equal(unlink(path_of("r")), 0);
	struct report r;
	report_init(&r);
	p = parse_bundle(&b, &r);
	expect_servers(&p, 0, "192.0.2.1 ");
	parsed_free(&p);
	buf_free(&b);
}

static void a_refresh_leaves_the_text_alone(void **state)
{
	struct buf b, same, fresh, gone;
	put_world();
	struct parsed p = read_and_parse("main.yaml", &b);
	parsed_free(&p);
	p = refresh_and_parse(&same, &b);
	assert_int_equal(same.len, b.len);
	assert_memory_equal(same.bytes, b.bytes, b.len);
	parsed_free(&p);
	/* Edited, broken, and other resolv.conf files named: none of it counts before a reload. */
	put("main.yaml", "upstreams: { default: { resolv-conf: r3 } }\n");
	put("conf.d/x.yaml", "no: [ yaml\n");
	put("r", "nameserver 192.0.2.77\n");
	p = refresh_and_parse(&fresh, &b);
	assert_int_equal(p.c->upstream_count, 3);
	expect_servers(&p, 0, "192.0.2.77 ");
	expect_servers(&p, 1, "192.0.2.2 fe80::5%1 ");
	parsed_free(&p);
	assert_int_equal(unlink(path_of("r")), 0);
	assert_false(has_kept);
	p = refresh_and_parse(&gone, &fresh);
	expect_servers(&p, 0, "192.0.2.77 ");
	assert_true(has_kept);
	parsed_free(&p);
	/* And it comes back. */
	buf_free(&fresh);
	put("r", "nameserver 192.0.2.1\n");
	p = refresh_and_parse(&fresh, &gone);
	assert_int_equal(fresh.len, b.len);
	assert_memory_equal(fresh.bytes, b.bytes, b.len);
	parsed_free(&p);
	buf_free(&b);
	buf_free(&same);
	buf_free(&fresh);
	buf_free(&gone);
}

/* Truncated and not yet written, too large, no file, gone: what was said last stays, byte for byte. */
static void a_refresh_keeps_servers(void **state)
{
	struct buf b, fresh;
	put_world();
	struct parsed p = read_and_parse("main.yaml", &b);
	parsed_free(&p);
	for (unsigned i = 0; i < 6; i++) {
		unlink(path_of("r"));
		if (i < 3)
			put("r", (const char *[]){"", "# none\nsearch lan\n", "nameserver nothing\n"}[i]);
		else if (i == 3)
			assert_int_equal(mkfifo(path_of("r"), 0600), 0);
		else if (i == 4)
			put("r", "nameserver 192.0.2.9\n");
		if (i == 4)
			assert_int_equal(truncate(path_of("r"), RESOLV_TEXT_MAX + 1), 0);
		p = refresh_and_parse(&fresh, &b);
		assert_true(has_kept);
		assert_int_equal(fresh.len, b.len);
		assert_memory_equal(fresh.bytes, b.bytes, b.len);
		parsed_free(&p);
		buf_free(&fresh);
	}
	/* The other one changes all the same, and a file without servers from the beginning is taken as it is. */
	put("r", "");
	put("r2", "nameserver 192.0.2.3\n");
	p = refresh_and_parse(&fresh, &b);
	assert_true(has_kept);
	expect_servers(&p, 0, "192.0.2.1 ");
	expect_servers(&p, 1, "192.0.2.3 ");
	parsed_free(&p);
	buf_free(&fresh);
	buf_free(&b);
	p = read_and_parse("main.yaml", &b);
	expect_servers(&p, 0, "");
	parsed_free(&p);
	p = refresh_and_parse(&fresh, &b);
	assert_false(has_kept);
	parsed_free(&p);
	buf_free(&fresh);
	buf_free(&b);
}

static void what_is_no_file_is_a_warning(void **state)
{
	struct buf b;
	put("main.yaml", "upstreams: { default: { resolv-conf: conf.d }, big: { resolv-conf: big, domains: x }, pipe: { resolv-conf: p, domains: y }, gone: { resolv-conf: conf.d/no/r, domains: z } }\n");
	put("big", "nameserver 192.0.2.1\n");
	assert_int_equal(truncate(path_of("big"), RESOLV_TEXT_MAX + 1), 0);
	assert_int_equal(mkfifo(path_of("p"), 0600), 0);
	struct parsed p = read_and_parse("main.yaml", &b);
	for (unsigned i = 0; i < 4; i++)
		expect_servers(&p, i, "");
	assert_non_null(strstr(said(&p), "conf.d: warning: `resolv-conf`: this file is no regular file"));
	assert_non_null(strstr(said(&p), "big: warning: `resolv-conf`: this file is larger than 64 KiB"));
	assert_non_null(strstr(said(&p), "/p: warning: `resolv-conf`: this file is no regular file"));
	assert_non_null(strstr(said(&p), "conf.d/no/r is not there or cannot be read"));
	parsed_free(&p);
	buf_free(&b);
}

/* As many as may be named, each as large as may be: some are left out, nothing fails. */
static void many_large_files(void **state)
{
	struct buf b, yaml;
	buf_init(&yaml, 1 << 20);
	buf_printf(&yaml, "upstreams:\n");
	for (unsigned i = 0; i < 40; i++) {
		char name[16];
		snprintf(name, sizeof name, "r%u", i);
		put(name, "nameserver 192.0.2.1\n#");
		assert_int_equal(truncate(path_of(name), RESOLV_TEXT_MAX), 0);
		buf_printf(&yaml, "  g%u: { resolv-conf: r%u, domains: x%u }\n", i, i, i);
	}
	put("main.yaml", yaml.bytes);
	struct parsed p = read_and_parse("main.yaml", &b);
	expect_servers(&p, 0, "192.0.2.1 ");
	expect_servers(&p, 39, "");
	assert_non_null(strstr(said(&p), "r39: warning: `resolv-conf`: this file is left out"));
	parsed_free(&p);
	buf_free(&b);
	buf_free(&yaml);
}

static void what_is_missing_is_named_by_check(void **state)
{
	struct buf b;
	put("main.yaml", "server: { user: root, listen: lo }\nupstreams: { default: { resolv-conf: nothere } }\nlocal: { hosts: [main.yaml, nohosts] }\n");
	struct parsed p = read_and_parse("main.yaml", &b);
	config_check_system(p.c, &p.r);
	assert_int_equal(p.r.errors, 0);
	assert_non_null(strstr(said(&p), "/nothere is not there"));
	assert_non_null(strstr(said(&p), "/nohosts cannot be read"));
	assert_null(strstr(said(&p), "main.yaml cannot be read"));
	parsed_free(&p);
	buf_free(&b);
}

#define IN_DIR(test) cmocka_unit_test_setup_teardown(test, dir_make, dir_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(what_a_text_names),
	        cmocka_unit_test(any_bytes_will_do),
	        cmocka_unit_test(a_long_token_is_not_cut_to_an_address),
	        cmocka_unit_test(servers_come_first_and_count),
	        cmocka_unit_test(a_missing_file_is_a_warning),
	        cmocka_unit_test(own_addresses_as_servers_are_an_error),
	        cmocka_unit_test(damaged_members_are_refused),
	        cmocka_unit_test(damage_is_refused),
	        IN_DIR(files_are_read_into_the_bundle),
	        IN_DIR(a_refresh_leaves_the_text_alone),
	        IN_DIR(a_refresh_keeps_servers),
	        IN_DIR(what_is_no_file_is_a_warning),
	        IN_DIR(many_large_files),
	        IN_DIR(what_is_missing_is_named_by_check),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
