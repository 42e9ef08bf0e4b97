/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Lines of the plain list format, its fast path against the general one, and the detection of formats. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "config/config.h"
#include "policy/list_entries.h"
#include "policy/list_format.h"

static void parse(struct line_entry *e, const char *line)
{
	list_format_domains.parse(e, line, strlen(line), &(size_t){0});
}

/* The entry as it is printed, "" for an empty line, "?" for a bad one. */
static void assert_entry(const char *line, const char *expected)
{
	struct line_entry e;
	struct entry_key k;
	struct buf b;

	parse(&e, line);
	buf_init(&b, 4096);
	buf_add(&b, "", 0);
	if (e.what == LINE_BAD) {
		assert_non_null(e.why);
		buf_printf(&b, "?");
	} else if (e.what != LINE_EMPTY) {
		entry_key_from_line(&k, &e);
		entry_key_print(&b, &k);
	}
	if (strcmp(b.bytes, expected))
		fail_msg("\"%s\" gave \"%s\", not \"%s\"", line, b.bytes, expected);
	buf_free(&b);
}

static void test_names(void **state)
{
	static const char *const lines[][2] = {
	        {"example.org", "example.org"},
	        {"Example.ORG.", "example.org"},
	        {" \texample.org \r", "example.org"},
	        {"\xef\xbb\xbf"
	         "example.org",
	                "example.org"},
	        {"example.org # why", "example.org"},
	        {"example.org\t; why", "example.org"},
	        {"example.org #", "example.org"},
	        {"example.org\r", "example.org"},
	        {"=example.org", "=example.org"},
	        {"*.example.org", "example.org"},
	        {".example.org", "example.org"},
	        {"!example.org", "!example.org"},
	        {"!=example.org", "!=example.org"},
	        {"!*.example.org", "!example.org"},
	        {"!.example.org", "!example.org"},
	        {"com", "com"},
	        {"com.", "com"},
	        {"www.example.org", "www.example.org"},
	        {"_dmarc.a_b.example", "_dmarc.a_b.example"},
	        {"-a-.b-", "-a-.b-"},
	        {"1.2.3.example", "1.2.3.example"},
	        {"10.in-addr.arpa", "10.in-addr.arpa"},
	        {"xn--bcher-kva.example", "xn--bcher-kva.example"},
	        {"b\xc3\xbc"
	         "cher.example",
	                "xn--bcher-kva.example"},
	        {"!=B\xc3\x9c"
	         "CHER.example. # x",
	                "!=xn--bcher-kva.example"},
	        {"", ""},
	        {"   \t\r", ""},
	        {"# comment", ""},
	        {"  # comment", ""},
	        {"; comment", ""},
	        {"#example.org", ""},
	        {"! Title: a list", ""},
	        {"!", ""},
	        {"!\tx", ""},
	        {"!#include x", ""},
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		assert_entry(lines[i][0], lines[i][1]);
}

static void test_prefixes(void **state)
{
	static const char *const lines[][2] = {
	        {"192.0.2.1", "192.0.2.1"},
	        {"192.0.2.77/24", "192.0.2.0/24"},
	        {"!192.0.2.0/25", "!192.0.2.0/25"},
	        {"2001:db8::1", "2001:db8::1"},
	        {"2001:DB8::1/32 # x", "2001:db8::/32"},
	        {"[2001:db8::1]", "2001:db8::1"},
	        {"![2001:db8::]/48", "!2001:db8::/48"},
	        {"[2001:db8::/48]", "2001:db8::/48"},
	        {"0.0.0.0/0", "0.0.0.0/0"},
	        {"192.0.2.1/33", "?"},
	        {"192.0.2.1/", "?"},
	        {"=192.0.2.1", "?"},
	        {"*.192.0.2.1", "?"},
	        {"256.0.0.1", "?"},
	        {"1.2.3", "?"},
	        {"123", "?"},
	        {"[192.0.2.1]", "?"},
	        {"[2001:db8::1", "?"},
	        {"fe80::1%lo0", "?"},
	        {"2001:db8::/129", "?"},
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		assert_entry(lines[i][0], lines[i][1]);
}

static void test_bad_lines(void **state)
{
	static const char *const bad[] = {".", "*.", "*", "*x.example", "a..b", "a.example..", "..a", "a b",
	        "a.example b.example", "a/b", "a.*.b", "=*.a.example", "=.a", "!!a", "=", "!=", "a,b", "\"a.example\"",
	        "a.example#x", "@a.example", "a\\046b.example", "\xff\xfe.example", "\xe2\x80\x8b.example", "x:53",
	        "http://a.example/x"};
	static const struct {
		const char *line, *why;
	} looks[] = {{"||a.example^", "adblock"}, {"@@||a.example^", "adblock"}, {"a.example##.ad", "adblock"},
	        {"/ads[0-9]/", "adblock"}, {"address=/a.example/", "dnsmasq"}, {"server=/a.example/1.2.3.4", "dnsmasq"},
	        {"0.0.0.0 a.example", "hosts"}, {"::1\tlocalhost", "hosts"}, {"fe80::1%lo0 localhost", "hosts"},
	        {"a.example CNAME .", "rpz"}, {"@ 3600 IN SOA a. b. 1 2 3 4 5", "rpz"}, {"$TTL 300", "rpz"}};
	char line[LIST_LINE_MAX + 10];
	struct line_entry e;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_entry(bad[i], "?");
	for (size_t i = 0; i < sizeof(looks) / sizeof(*looks); i++) {
		parse(&e, looks[i].line);
		assert_int_equal(e.what, LINE_BAD);
		if (!strstr(e.why, looks[i].why))
			fail_msg("\"%s\": %s", looks[i].line, e.why);
	}
	memset(line, 'a', sizeof(line));
	list_format_domains.parse(&e, line, sizeof(line), &(size_t){0});
	assert_int_equal(e.what, LINE_BAD);
	list_format_domains.parse(&e, line, 64, &(size_t){0});
	assert_int_equal(e.what, LINE_BAD);
	list_format_domains.parse(&e, line, 63, &(size_t){0});
	assert_int_equal(e.what, LINE_NAME);
	list_format_domains.parse(&e, "a\0b", 3, &(size_t){0});
	assert_int_equal(e.what, LINE_BAD);
}

static void assert_same(const struct line_entry *a, const struct line_entry *b, const char *line)
{
	if (a->what != b->what)
		fail_msg("\"%s\": %d and %d", line, a->what, b->what);
	if (a->what != LINE_NAME)
		return;
	assert_int_equal(a->kind, b->kind);
	assert_true(name_equal(&a->name, &b->name));
	assert_int_equal(a->name.labels, b->name.labels);
	assert_memory_equal(a->name.offset, b->name.offset, a->name.labels + 1u);
}

/* A blank before the line makes it take the general way. */
static void test_fast_path(void **state)
{
	static const char chars[] = "abcz019-_..AZ*=!#/: ";
	uint64_t random = 1;
	struct line_entry fast, general;
	char line[302] = " ";

	for (int round = 0; round < 200000; round++) {
		size_t len = 0, max;

		random = random * 6364136223846793005ull + 1442695040888963407ull;
		max = random >> 60 == 0 ? 300 : (random >> 32) % 12;
		for (; len < max; len++) {
			random = random * 6364136223846793005ull + 1442695040888963407ull;
			line[len + 1] = chars[hash_range(random, (random & 7) == 0 ? sizeof(chars) - 1 : 11)];
		}
		line[len + 1] = '\0';
		list_format_domains.parse(&fast, line + 1, len, &(size_t){0});
		list_format_domains.parse(&general, line, len + 1, &(size_t){0});
		assert_same(&fast, &general, line + 1);
	}
}

static void assert_format(const char *text, const char *expected)
{
	const char *name = NULL;
	const struct list_format *f = list_format_detect(text, strlen(text), &name);

	assert_non_null(name);
	assert_string_equal(name, expected);
	assert_true(!f == !!strcmp(expected, "domains"));
}

static void test_detection(void **state)
{
	assert_format("", "domains");
	assert_format("# only\n\n", "domains");
	assert_format("a.example\n1.2.3.0/24\nb.example", "domains");
	assert_format("a.example\nb.example\n0.0.0.0 c.example\n", "domains");
	assert_format("# hosts\n127.0.0.1 localhost\r\n0.0.0.0 a.example b.example # x\r\n", "hosts");
	assert_format("[Adblock Plus 2.0]\n! Title: x\n||a.example^\n@@||b.example^\n", "adblock");
	assert_format("address=/a.example/0.0.0.0\nlocal=/b.example/\n", "dnsmasq");
	assert_format(
	        "$TTL 300\n@ SOA localhost. root.localhost. 1 2 3 4 5\n  NS localhost.\na.example CNAME .\n*.a.example CNAME .\n",
	        "rpz");
	assert_format("not a\nlist at\nall here\n", "domains");
	assert_ptr_equal(list_format_by_id(FORMAT_DOMAINS), &list_format_domains);
	assert_null(list_format_by_id(99));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_prefixes),
	        cmocka_unit_test(test_bad_lines), cmocka_unit_test(test_fast_path), cmocka_unit_test(test_detection)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
