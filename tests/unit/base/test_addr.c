/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Addresses, prefixes, endpoints: text both ways, containment, and which ranges may enter a set. */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/addr.h"
#include "base/err.h"

static struct addr addr(const char *text)
{
	struct addr a;

	assert_int_equal(addr_parse(&a, text), 0);
	return a;
}

static void addresses(void **state)
{
	static const char *const bad[] = {
		"", "1.2.3", "1.2.3.4.5", "1.2.3.256", "::1::", "1.2.3.4 ", "fe80::1%lo", "example.com"};
	struct addr a = addr("192.0.2.1"), b = addr("2001:DB8::1");
	char text[ADDR_TEXT_MAX];

	assert_int_equal(a.family, AF_INET);
	assert_memory_equal(a.b, "\xc0\0\2\1\0\0\0\0\0\0\0\0\0\0\0\0", 16);
	assert_string_equal(addr_print(text, &a), "192.0.2.1");
	assert_string_equal(addr_print(text, &b), "2001:db8::1");
	assert_true(addr_equal(&a, &a));
	assert_false(addr_equal(&a, &b));
	assert_string_equal(addr_print(text, &(struct addr){0}), "none");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		a.family = 77;
		assert_int_equal(addr_parse(&a, bad[i]), NW_EMALFORMED);
		assert_int_equal(a.family, 77);
	}
}

static void prefixes(void **state)
{
	static const char *const bad[] = {
		"10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/8 ", "::/129", "/8", "10/8", "::/4294967297"};
	char text[ADDR_TEXT_MAX];
	struct prefix p;
	struct addr a;

	assert_int_equal(prefix_parse(&p, "10.1.2.3/12"), 0);
	assert_string_equal(prefix_print(text, &p), "10.0.0.0/12");
	a = addr("10.15.255.255");
	assert_true(prefix_contains(&p, &a));
	a = addr("10.16.0.0");
	assert_false(prefix_contains(&p, &a));
	a = addr("a00::");
	assert_false(prefix_contains(&p, &a));
	assert_int_equal(prefix_parse(&p, "2001:db8:ffff::/33"), 0);
	assert_string_equal(prefix_print(text, &p), "2001:db8:8000::/33");
	assert_int_equal(prefix_parse(&p, "192.0.2.1"), 0);
	assert_int_equal(p.len, 32);
	assert_int_equal(prefix_parse(&p, "::/0"), 0);
	a = addr("ff02::1");
	assert_true(prefix_contains(&p, &a));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(prefix_parse(&p, bad[i]), NW_EMALFORMED);
}

static void endpoints(void **state)
{
	static const char *const bad[] = {"", "@53", "1.2.3.4@", "1.2.3.4@0", "1.2.3.4@65536", "[1.2.3.4]@53", "[::1",
		"1.2.3.4@+1", "fe80::1%nosuchif", "1.2.3.4%lo", "[]@53"};
	struct endpoint e, back;
	struct sockaddr_storage ss;

	assert_int_equal(endpoint_parse(&e, "1.2.3.4@5353", 53), 0);
	assert_int_equal(e.port, 5353);
	assert_int_equal(endpoint_parse(&e, "::1", 53), 0);
	assert_int_equal(e.port, 53);
	assert_int_equal(endpoint_parse(&e, "[2001:db8::2]@65535", 53), 0);
	assert_int_equal(endpoint_to_sockaddr(&ss, &e), sizeof(struct sockaddr_in6));
	assert_int_equal(addr_from_sockaddr(&back, (struct sockaddr *)&ss), 0);
	assert_true(addr_equal(&back.addr, &e.addr) && back.port == 65535);
	assert_int_equal(endpoint_parse(&e, "[fe80::1%7]@53", 53), 0);
	assert_int_equal(e.scope, 7);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(endpoint_parse(&e, bad[i], 53), NW_EMALFORMED);
}

static void mapped_becomes_ipv4(void **state)
{
	struct endpoint e = {.addr = addr("::ffff:192.0.2.9"), .port = 53}, back;
	struct addr v4 = addr("192.0.2.9");
	struct sockaddr_storage ss;

	endpoint_to_sockaddr(&ss, &e);
	assert_int_equal(addr_from_sockaddr(&back, (struct sockaddr *)&ss), 0);
	assert_true(addr_equal(&back.addr, &v4));
}

static void ranges(void **state)
{
	static const struct {
		const char *text;
		bool is_private, is_never;
	} cases[] = {
		{"10.0.0.1", true, false},
		{"11.0.0.1", false, false},
		{"172.15.255.255", false, false},
		{"172.16.0.1", true, false},
		{"172.31.255.255", true, false},
		{"172.32.0.0", false, false},
		{"192.168.1.1", true, false},
		{"100.63.255.255", false, false},
		{"100.64.0.1", true, false},
		{"100.127.255.255", true, false},
		{"100.128.0.0", false, false},
		{"169.254.1.1", true, false},
		{"127.0.0.1", true, true},
		{"0.0.0.0", true, true},
		{"0.1.2.3", true, true},
		{"224.0.0.1", false, true},
		{"239.255.255.255", false, true},
		{"255.255.255.255", false, true},
		{"8.8.8.8", false, false},
		{"::", true, true},
		{"::1", true, true},
		{"::2", false, false},
		{"fc00::1", true, false},
		{"fdff::1", true, false},
		{"fe00::1", false, false},
		{"fe80::1", true, false},
		{"febf::1", true, false},
		{"fec0::1", false, false},
		{"ff02::1", false, true},
		{"2001:db8::1", false, false},
		{"::ffff:10.0.0.1", true, false},
		{"::ffff:127.0.0.1", true, true},
		{"::ffff:8.8.8.8", false, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct addr a = addr(cases[i].text);

		if (addr_is_private(&a) != cases[i].is_private || addr_is_never_remote(&a) != cases[i].is_never)
			fail_msg("%s", cases[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses),
		cmocka_unit_test(prefixes),
		cmocka_unit_test(endpoints),
		cmocka_unit_test(mapped_becomes_ipv4),
		cmocka_unit_test(ranges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
