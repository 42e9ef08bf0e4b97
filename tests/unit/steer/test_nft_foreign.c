/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Other people's sets and rules: sets of every kind are filled as they can be, or refused in words; mark clashes are found and named. */
#include "nft_fixture.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "steer/ranges.h"

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

static struct addr own[4];
static unsigned own_count;

static bool is_own(void *ctx, const struct addr *a)
{
	(void)ctx;
	for (unsigned i = 0; i < own_count; i++) {
		if (addr_equal(&own[i], a))
			return true;
	}
	return false;
}

static struct range_list held;
static unsigned too_long;
static bool has_left;

/* wanted: pairs of first and last, NULL ends. */
static void sync_ranges(struct nft *n, const char *const *wanted)
{
	struct nft_foreign f = probe(n, &set4);
	struct range_list w = { 0 };

	for (; wanted[0]; wanted += 2) {
		struct addr first = address(wanted[0]), last = address(wanted[1]);
		assert_int_equal(range_list_add(&w, &first, &last), 0);
	}
	if (nft_foreign_sync_ranges(n, &set4, &f, &w, is_own, NULL, &held, &too_long, &has_left) < 0)
		fail_msg("%s", nft_error(n));
	range_list_free(&w);
}

static bool has(const char *addr)
{
	char command[120];

	snprintf(command, sizeof(command), "nft get element inet fw4 vpn4 '{ %s }' && echo yes", addr);
	return output_has(command, "yes");
}

static void test_ranges_in_an_interval_set(void **state)
{
	static const char *const first[] = { "0.0.0.0", "0.255.255.255", "198.18.0.0", "198.18.0.255", "255.255.255.0", "255.255.255.255", NULL };
	static const char *const second[] = { "198.18.0.0", "198.18.0.191", NULL }, *const none[] = { NULL };

	for (int has_timeout = 0; has_timeout <= 1; has_timeout++) {
		struct nft *n = fixture_open(false, false);
		struct nft_foreign f;
		struct nft_element e = element(0, "198.18.0.200", 3000);
		range_list_free(&held);
		must_run(has_timeout ? "nft 'add set inet fw4 vpn4 { type ipv4_addr; flags interval, timeout; timeout 1m; elements = { 198.18.0.16/28 timeout 1h, 198.18.0.9 timeout 1h }; }'" :
				       "nft 'add set inet fw4 vpn4 { type ipv4_addr; flags interval; elements = { 198.18.0.16/28, 198.18.0.9 }; }'");
		f = probe(n, &set4);
		own[0] = e.addr;
		own_count = 1;
		assert_int_equal(nft_foreign_put(n, &set4, &f, &e, 1), 0);
		for (int i = 0; i < 2; i++) { /* the second time nothing changes */
			sync_ranges(n, first);
			assert_true(too_long == 0 && !has_left);
			assert_true(has("0.0.0.0") && has("0.255.255.255") && has("198.18.0.0") && has("198.18.0.8") && has("198.18.0.10") && has("198.18.0.200") && has("198.18.0.255"));
			assert_true(has("255.255.255.255") && !has("198.18.1.0") && !has("1.0.0.0"));
			assert_true(output_has(LIST, "comment \"nameway\""));
			assert_int_equal(held.count, 5);
		}
		/* What others hold stays theirs, whatever of ours comes and goes around it. */
		sync_ranges(n, second);
		assert_true(has_left && has("198.18.0.0") && !has("198.18.0.200") && !has("255.255.255.255"));
		nft_close(n);
		n = fixture_open(false, false);
		range_list_free(&held);
		sync_ranges(n, none);
		assert_true(has_left && held.count == 0);
		assert_true(has("198.18.0.16") && has("198.18.0.31") && has("198.18.0.9") && !has("198.18.0.8") && !has("198.18.0.10"));
		assert_false(output_has(LIST, "comment"));
		must_run("nft delete set inet fw4 vpn4");
		nft_close(n);
	}
}

static void test_ranges_in_a_set_without_intervals(void **state)
{
	static const char *const wanted[] = { "198.18.0.1", "198.18.0.1", "198.18.0.3", "198.18.0.4", "198.19.0.0", "198.19.255.255", NULL }, *const none[] = { NULL };

	for (int has_timeout = 0; has_timeout <= 1; has_timeout++) {
		struct nft *n = fixture_open(false, false);
		range_list_free(&held);
		must_run(has_timeout ? "nft 'add set inet fw4 vpn4 { type ipv4_addr; flags timeout; timeout 1m; elements = { 198.18.0.3 timeout 1h, 198.18.0.7 timeout 1h }; }'" :
				       "nft 'add set inet fw4 vpn4 { type ipv4_addr; elements = { 198.18.0.3, 198.18.0.7 }; }'");
		own_count = 0;
		sync_ranges(n, wanted);
		assert_int_equal(too_long, 1);
		assert_true(has("198.18.0.1") && has("198.18.0.3") && has("198.18.0.4") && !has("198.19.0.0"));
		sync_ranges(n, none);
		assert_true(!has("198.18.0.1") && has("198.18.0.3") && !has("198.18.0.4") && has("198.18.0.7"));
		must_run("nft delete set inet fw4 vpn4");
		nft_close(n);
	}
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
		cmocka_unit_test_setup(test_ranges_in_an_interval_set, setup),
		cmocka_unit_test_setup(test_ranges_in_a_set_without_intervals, setup),
		cmocka_unit_test_setup(test_v6_set_under_any_name, setup),
		cmocka_unit_test_setup(test_refused_sets, setup),
		cmocka_unit_test_setup(test_mark_clashes, setup),
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
