/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Rebind protection: which addresses, and whose names may have them. */
#include "world.h"

static struct world w;

static bool carries(const char *qname, const char *alias, const char *const *addrs)
{
	struct name names[2] = {name_of(qname), name_of(alias ? alias : "x")};
	const struct name *chain[2] = {&names[0], &names[1]};
	struct addr a[4];
	unsigned count = 0;

	for (; addrs[count]; count++)
		assert_int_equal(addr_parse(&a[count], addrs[count]), 0);
	return local_is_rebinding(w.l, chain, alias ? 2 : 1, a, count);
}

static bool one(const char *qname, const char *addr)
{
	return carries(qname, NULL, (const char *const[]){addr, NULL});
}

static int begin(void **state)
{
	world_begin(&w);
	world_domain(&w, "lan");
	world_forwards(&w, "split.example");
	w.allow[0] = name_of("corp.example");
	w.c.local.rebind_allow_count = 1;
	w.c.local.is_rebind_protected = true;
	return 0;
}

static int end(void **state)
{
	world_end(&w);
	return 0;
}

static void which_addresses(void **state)
{
	static const char *const inside[] = {"0.0.0.0", "0.1.2.3", "10.1.2.3", "100.64.0.1", "127.0.0.1", "169.254.1.1",
	        "172.16.0.1", "172.31.255.255", "192.168.1.1", "::", "::1", "fc00::1", "fd12::1", "fe80::1", "::ffff:192.168.1.1",
	        "64:ff9b::a00:1"};
	static const char *const outside[] = {"1.1.1.1", "100.63.0.1", "100.128.0.1", "172.15.0.1", "172.32.0.1", "192.0.2.1",
	        "198.18.0.1", "198.19.255.255", "203.0.113.1", "2001:db8::1", "2606:4700::1", "::ffff:1.1.1.1",
	        "64:ff9b::101:101", "65:ff9b::a00:1"};

	world_build(&w);
	for (unsigned i = 0; i < sizeof inside / sizeof *inside; i++)
		assert_true(one("www.example", inside[i]));
	for (unsigned i = 0; i < sizeof outside / sizeof *outside; i++)
		assert_false(one("www.example", outside[i]));
	assert_false(carries("www.example", NULL, (const char *const[]){NULL}));
	/* One among others is enough. */
	assert_true(carries("www.example", NULL, (const char *const[]){"1.1.1.1", "2.2.2.2", "10.0.0.1", NULL}));
}

static void whose_names(void **state)
{
	world_build(&w);
	assert_false(one("corp.example", "10.0.0.1"));
	assert_false(one("a.b.corp.example", "10.0.0.1"));
	assert_true(one("notcorp.example", "10.0.0.1"));
	assert_false(one("nas.lan", "192.168.1.1"));
	/* Split DNS is not a promise by itself. */
	assert_true(one("a.split.example", "10.0.0.1"));
	/* The question's name counts, not what a stranger's alias leads to. */
	assert_true(carries("evil.example", "a.corp.example", (const char *const[]){"10.0.0.1", NULL}));
	assert_false(carries("a.corp.example", "cdn.example", (const char *const[]){"10.0.0.1", NULL}));
}

static void off(void **state)
{
	w.c.local.is_rebind_protected = false;
	world_build(&w);
	assert_false(one("www.example", "127.0.0.1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(which_addresses, begin, end),
	        cmocka_unit_test_setup_teardown(whose_names, begin, end),
	        cmocka_unit_test_setup_teardown(off, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
