/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Flattened prefixes: exceptions by the longest prefix, borders of the address space, and a comparison with the definition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "policy/prefixes.h"

static struct prefix_entry entry(const char *text)
{
	struct prefix_entry e = {.is_exempt = *text == '!'};

	assert_int_equal(prefix_parse(&e.prefix, text + e.is_exempt), 0);
	return e;
}

static struct prefixes *build(const char *const *texts)
{
	struct prefix_entry e[32];
	unsigned count = 0;
	struct prefixes *p;

	for (; texts[count]; count++)
		e[count] = entry(texts[count]);
	p = prefixes_build(e, count);
	assert_non_null(p);
	return p;
}

static bool contains(const struct prefixes *p, const char *text)
{
	struct addr a;

	assert_int_equal(addr_parse(&a, text), 0);
	return prefixes_contain(p, &a);
}

static void exceptions_by_longest(void **state)
{
	struct prefixes *p = build((const char *const[]){
		"10.0.0.0/8", "!10.1.0.0/16", "10.1.2.0/24", "!10.1.2.3", "2001:db8::/32", "!2001:db8:1::/48", NULL});

	assert_true(contains(p, "10.0.0.0"));
	assert_true(contains(p, "10.255.255.255"));
	assert_false(contains(p, "11.0.0.0"));
	assert_false(contains(p, "9.255.255.255"));
	assert_false(contains(p, "10.1.0.0"));
	assert_false(contains(p, "10.1.255.255"));
	assert_true(contains(p, "10.2.0.0"));
	assert_true(contains(p, "10.1.2.2"));
	assert_false(contains(p, "10.1.2.3"));
	assert_true(contains(p, "10.1.2.4"));
	assert_true(contains(p, "2001:db8::1"));
	assert_false(contains(p, "2001:db8:1::1"));
	assert_true(contains(p, "2001:db8:2::"));
	assert_false(contains(p, "2001:db9::"));
	assert_int_equal(p->count4, 4);
	assert_int_equal(p->count6, 2);
	prefixes_free(p);
	assert_false(contains(NULL, "10.0.0.1"));
}

static void neighbours_merge(void **state)
{
	struct prefixes *a =
		build((const char *const[]){"192.0.2.128/25", "192.0.2.0/25", "192.0.2.7", "192.0.3.0/24", "192.0.3.0/24", NULL});
	struct prefixes *b = build((const char *const[]){"192.0.2.0/23", NULL}),
			*none = build((const char *const[]){"!192.0.2.0/23", NULL});

	assert_int_equal(a->count4, 1);
	assert_true(prefixes_equal(a, b));
	assert_false(prefixes_equal(a, none));
	assert_true(prefixes_equal(none, NULL));
	prefixes_free(a);
	prefixes_free(b);
	prefixes_free(none);
}

static void whole_space(void **state)
{
	struct prefixes *p = build((const char *const[]){"0.0.0.0/0", "!255.255.255.255", "!0.0.0.0", "::/0", "!ffff::/16",
		"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL});

	assert_true(contains(p, "0.0.0.1"));
	assert_true(contains(p, "255.255.255.254"));
	assert_false(contains(p, "255.255.255.255"));
	assert_false(contains(p, "0.0.0.0"));
	assert_true(contains(p, "::"));
	assert_true(contains(p, "fffe:ffff::"));
	assert_false(contains(p, "ffff::"));
	assert_true(contains(p, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"));
	prefixes_free(p);
	p = build((const char *const[]){"::/0", "0.0.0.0/0", "!192.0.2.1", "192.0.2.1", NULL});
	assert_int_equal(p->count6, 1);
	assert_true(contains(p, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"));
	assert_false(contains(p, "192.0.2.1"));
	prefixes_free(p);
}

/* The longest prefix that holds the address decides; exempting ones first among equals. */
static bool by_definition(const struct prefix_entry *e, unsigned count, const struct addr *a)
{
	int longest = -1;
	bool is_listed = false;

	for (unsigned i = 0; i < count; i++) {
		if (!prefix_contains(&e[i].prefix, a) || e[i].prefix.len < longest)
			continue;
		is_listed = !e[i].is_exempt && (e[i].prefix.len > longest || is_listed);
		longest = e[i].prefix.len;
	}
	return is_listed;
}

/* Prefixes within 10.0.0.0/24 and 2001:db8::/120, so that nesting, equality and neighbourhood are frequent. */
static void as_defined(void **state)
{
	struct prefix_entry e[24];
	unsigned seed = 3;

	for (unsigned round = 0; round < 400; round++) {
		unsigned count = round % 24;
		struct prefixes *p;

		for (unsigned i = 0; i < count; i++) {
			bool is_v6 = (seed = seed * 1103515245 + 12345) >> 16 & 1;
			unsigned short_by = (seed = seed * 1103515245 + 12345) >> 16 & 7,
				 host = (seed = seed * 1103515245 + 12345) >> 16 & 255;

			e[i] = entry(is_v6 ? "2001:db8::" : "10.0.0.0");
			e[i].prefix.len = (uint8_t)((is_v6 ? 128 : 32) - short_by);
			e[i].prefix.addr.b[is_v6 ? 15 : 3] = (uint8_t)(host >> short_by << short_by);
			e[i].is_exempt = (seed = seed * 1103515245 + 12345) >> 16 & 1;
		}
		p = prefixes_build(e, count);
		assert_non_null(p);
		for (unsigned host = 0; host < 512; host++) {
			struct addr a = entry(host & 256 ? "2001:db8::" : "10.0.0.0").prefix.addr;

			a.b[host & 256 ? 15 : 3] = (uint8_t)host;
			assert_int_equal(prefixes_contain(p, &a), by_definition(e, count, &a));
		}
		for (unsigned i = 1; i < p->count4; i++)
			assert_true(memcmp(p->v4[i - 1].last.b, p->v4[i].first.b, 16) < 0);
		prefixes_free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(exceptions_by_longest), cmocka_unit_test(neighbours_merge),
		cmocka_unit_test(whole_space), cmocka_unit_test(as_defined)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
