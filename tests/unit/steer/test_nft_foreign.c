/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Other people's sets and rules: sets of every kind are filled as they can be, or refused in words; mark clashes are found and named. */
#include "nft_fixture.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int setup(void **state)
{
	must_run("nft flush ruleset; nft add table inet fw4");
	return 0;
}

static const struct cfg_set set4 = { .family = "inet", .table = "fw4", .set = "vpn4" };

static struct nft_foreign probe(struct nft *n, const struct cfg_set *s)
{
	struct nft_foreign f;

	if (nft_foreign_probe(n, s, &f) != 0)
		fail_msg("probe: %s", nft_error(n));
	return f;
}

#define LIST "nft list set inet fw4 vpn4"

static void test_timeout_set(void **state)
{
	struct nft_element e[] = { element(0, "198.51.100.1", 30), element(0, "2001:db8::1", 30), element(0, "198.51.100.2", 3000) };
	struct nft_foreign f;

	for (int older = 0; older <= 1; older++) {
		struct nft *n = fixture_open(false, older);
		must_run("nft 'add set inet fw4 vpn4 { type ipv4_addr; flags timeout; timeout 1h; }'");
		f = probe(n, &set4);
		assert_true(f.exists && f.has_timeout && !f.is_v6 && !f.is_interval && !f.is_constant);
		assert_int_equal(f.default_timeout_s, 3600);
		assert_int_equal(nft_foreign_put(n, &set4, &f, e, 3), 0);
		assert_true(output_has(LIST, "198.51.100.1 timeout 30s"));
		assert_true(output_has(LIST, "198.51.100.2 timeout 50m"));
		usleep(3200 * 1000);
		assert_int_equal(nft_foreign_put(n, &set4, &f, e, 1), 0);
		assert_true(output_has(LIST " | grep -E '198.51.100.1 timeout 30s expires (29|28|27)s'", "expires")); /* 26 s and less: not renewed */
		assert_int_equal(nft_foreign_delete(n, &set4, &f, &e[0].addr, 1), 0);
		assert_int_equal(nft_foreign_delete(n, &set4, &f, &e[0].addr, 1), 0); /* absent already */
		assert_false(output_has(LIST, "198.51.100.1"));
		must_run("nft delete set inet fw4 vpn4");
		assert_int_equal(nft_foreign_put(n, &set4, &f, e, 1), -ENOENT); /* gone since it was looked at */
		nft_close(n);
	}
}

static void test_plain_and_full_set(void **state)
{
	struct nft_element e[] = { element(0, "198.51.100.1", 30), element(0, "198.51.100.2", 30), element(0, "198.51.100.3", 30) };
	struct nft *n = fixture_open(false, false);
	struct nft_foreign f;

	must_run("nft 'add set inet fw4 vpn4 { type ipv4_addr; size 2; }'");
	f = probe(n, &set4);
	assert_true(f.exists && !f.has_timeout);
	assert_int_equal(nft_foreign_put(n, &set4, &f, e, 2), 0);
	assert_true(output_has(LIST, "elements = { 198.51.100.1, 198.51.100.2 }"));
	assert_int_equal(nft_foreign_put(n, &set4, &f, e, 2), 0);
	assert_int_equal(nft_foreign_put(n, &set4, &f, e, 3), -ENOSPC);
	nft_close(n);
}

static void test_interval_set(void **state)
{
	struct nft_element e[] = { element(0, "198.51.100.7", 30), element(0, "10.1.2.3", 30), element(0, "255.255.255.255", 30) };
	struct nft *n = fixture_open(false, false);
	struct nft_foreign f;

	for (int has_timeout = 0; has_timeout <= 1; has_timeout++) {
		must_run(has_timeout ? "nft 'add set inet fw4 vpn4 { type ipv4_addr; flags interval, timeout; elements = { 10.1.0.0/16 timeout 1h }; }'" :
				       "nft 'add set inet fw4 vpn4 { type ipv4_addr; flags interval; elements = { 10.1.0.0/16 }; }'");
		f = probe(n, &set4);
		assert_true(f.is_interval);
		for (int i = 0; i < 2; i++) { /* the second time they are there */
			if (nft_foreign_put(n, &set4, &f, e, 3) != 0)
				fail_msg("%s", nft_error(n));
			assert_true(output_has(LIST, "198.51.100.7"));
			assert_false(output_has(LIST, "198.51.100.7-"));
			assert_true(output_has(LIST, "10.1.0.0/16"));
			must_run("nft get element inet fw4 vpn4 '{ 255.255.255.255 }'");
			must_run("! nft get element inet fw4 vpn4 '{ 198.51.100.8 }'");
		}
		assert_int_equal(nft_foreign_delete(n, &set4, &f, &e[0].addr, 1), 0);
		assert_false(output_has(LIST, "198.51.100.7"));
		nft_foreign_delete(n, &set4, &f, &e[1].addr, 1);
		assert_true(output_has(LIST, "10.1.0.0/16")); /* not ours to break */
		must_run("nft delete set inet fw4 vpn4");
	}
	nft_close(n);
}

static void test_v6_set_under_any_name(void **state)
{
	struct nft_element e[] = { element(0, "198.51.100.7", 30), element(0, "2001:db8::7", 30) };
	struct nft *n = fixture_open(false, false);
	struct nft_foreign f;

	must_run("nft 'add set inet fw4 vpn4 { type ipv6_addr; }'");
	f = probe(n, &set4);
	assert_true(f.is_v6);
	assert_int_equal(nft_foreign_put(n, &set4, &f, e, 2), 0);
	assert_true(output_has(LIST, "elements = { 2001:db8::7 }"));
	nft_close(n);
}

static void test_refused_sets(void **state)
{
	static const char *const wrong[] = { "set inet fw4 vpn4 { type inet_service; }", "set inet fw4 vpn4 { type ipv4_addr . inet_service; }",
		"map inet fw4 vpn4 { type ipv4_addr : mark; }" };
	const struct cfg_set bad_family = { .family = "ipv4", .table = "fw4", .set = "vpn4" }, other_family = { .family = "ip", .table = "fw4", .set = "vpn4" };
	struct nft_element e = element(0, "198.51.100.7", 30);
	struct nft *n = fixture_open(false, false);
	struct nft_foreign f;
	char command[200];

	f = probe(n, &set4);
	assert_false(f.exists);
	assert_int_equal(nft_foreign_put(n, &set4, &f, &e, 1), -ENOENT);
	assert_int_equal(nft_foreign_delete(n, &set4, &f, &e.addr, 1), 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(command, sizeof(command), "nft 'add %s'", wrong[i]);
		must_run(command);
		assert_int_equal(nft_foreign_probe(n, &set4, &f), -EINVAL);
		assert_non_null(strstr(nft_error(n), "ipv4_addr or ipv6_addr"));
		must_run("nft delete set inet fw4 vpn4 || nft delete map inet fw4 vpn4");
	}
	must_run("nft 'add set inet fw4 vpn4 { type ipv4_addr; flags constant; elements = { 1.2.3.4 }; }'");
	f = probe(n, &set4);
	assert_true(f.is_constant);
	assert_int_equal(nft_foreign_put(n, &set4, &f, &e, 1), -EBUSY);
	assert_non_null(strstr(nft_error(n), "constant"));
	assert_int_equal(nft_foreign_probe(n, &bad_family, &f), -EINVAL);
	assert_int_equal(nft_foreign_probe(n, &other_family, &f), 0);
	assert_false(f.exists);
	nft_close(n);
}

struct told { char text[2048]; unsigned count; };

static void tell(void *ctx, const char *text)
{
	struct told *t = ctx;

	t->count++;
	strncat(t->text, text, sizeof(t->text) - strlen(t->text) - 1);
}

static void expect_clash(struct nft *n, const char *rule, uint32_t mask, const char *words /* NULL: none */)
{
	struct told t = { .count = 0 };
	char command[300];

	must_run("nft flush chain inet fw4 c");
	snprintf(command, sizeof(command), "nft 'add rule inet fw4 c %s'", rule);
	must_run(command);
	assert_int_equal(nft_mark_clashes(n, mask, tell, &t), 0);
	if (t.count != (words ? 1 : 0) || (words && !strstr(t.text, words)))
		fail_msg("%s: %u clashes, %s", rule, t.count, t.text);
}

static void test_mark_clashes(void **state)
{
	struct told t = { .count = 0 };
	struct fixture f;
	struct nft *n = fixture_open(false, false);

	fixture_init(&f);
	fixture_apply(n, &f); /* our own rules are no clash */
	must_run("nft 'add chain inet fw4 c { type filter hook prerouting priority 0; }'");
	expect_clash(n, "meta mark 0x1000 accept", MASK, NULL);
	expect_clash(n, "meta mark set 0x1", MASK, "table inet fw4, chain c");
	expect_clash(n, "meta mark set meta mark or 0x10", MASK, NULL);
	expect_clash(n, "meta mark set meta mark and 0xffffff00 or 0x10", MASK, NULL);
	expect_clash(n, "meta mark set meta mark or 0x2000", MASK, "bits 0x2000 of the packet mark");
	expect_clash(n, "meta mark set meta mark and 0xffff7fff", MASK, "bits 0x8000");
	expect_clash(n, "meta mark set meta mark and 0xffff7fff", 0x0f00, NULL);
	expect_clash(n, "meta mark set ct mark", MASK, "bits 0xf000");
	expect_clash(n, "ct mark set 0x5", MASK, "connection mark");
	expect_clash(n, "ct mark set ct mark or 0x5", MASK, NULL);
	expect_clash(n, "ct mark set meta mark", MASK, "connection mark");
	expect_clash(n, "meta priority set 0", MASK, NULL);
	must_run("nft flush chain inet fw4 c");
	if (output_has("command -v iptables-nft", "iptables-nft")) {
		must_run("iptables-nft -t mangle -A PREROUTING -j MARK --set-xmark 0x4/0xf");
		must_run("iptables-nft -t mangle -A PREROUTING -j CONNMARK --save-mark --nfmask 0xff --ctmask 0xff");
		assert_int_equal(nft_mark_clashes(n, MASK, tell, &t), 0);
		assert_int_equal(t.count, 0);
		must_run("iptables-nft -t mangle -A PREROUTING -j MARK --set-xmark 0x3000/0x3000");
		must_run("iptables-nft -t mangle -A FORWARD -j CONNMARK --restore-mark --nfmask 0xf000 --ctmask 0xf000");
		assert_int_equal(nft_mark_clashes(n, MASK, tell, &t), 0);
		assert_int_equal(t.count, 2);
		assert_non_null(strstr(t.text, "table ip mangle, chain PREROUTING"));
		assert_non_null(strstr(t.text, "table ip mangle, chain FORWARD"));
	}
	nft_remove(n);
	nft_close(n);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_timeout_set, setup),
		cmocka_unit_test_setup(test_plain_and_full_set, setup),
		cmocka_unit_test_setup(test_interval_set, setup),
		cmocka_unit_test_setup(test_v6_set_under_any_name, setup),
		cmocka_unit_test_setup(test_refused_sets, setup),
		cmocka_unit_test_setup(test_mark_clashes, setup),
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
