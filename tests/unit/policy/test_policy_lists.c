/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A block rule over one adblock list, from the list's lines to the verdict: exceptions, $badfilter, addresses, clients. */
#include "lists_world.h"
#include "policy/exprs_private.h"
#include "policy/policy.h"

enum { GROUP_KIDS, GROUP_PHONES, GROUPS };

static struct world world;
static struct policy *policy;

static void open_list(const char *text)
{
	static uint16_t list = 0;
	static struct cfg_filter filter;
	static struct cfg_group groups[GROUPS];
	static struct prefix kids;
	static uint8_t phone[1][6] = {{2, 0, 0x5e, 0x10, 0, 1}};
	const struct prefixes *prefixes[1];
	const struct exprs *exprs[1];

	world_open(&world, 1, false);
	world.lists[0].format = FORMAT_ADBLOCK;
	replan(&world);
	assert_int_equal(offer(&world, 0, text, true), 0);
	assert_int_equal(prefix_parse(&kids, "192.168.8.0/24"), 0);
	groups[GROUP_KIDS] = (struct cfg_group){.name = "kids", .networks = &kids, .network_count = 1};
	groups[GROUP_PHONES] = (struct cfg_group){.name = "phones", .macs = phone, .mac_count = 1};
	filter = (struct cfg_filter){.enabled = true, .names = {.v = &list, .count = 1}, .block = BLOCK_NXDOMAIN};
	world.config.filters = &filter;
	world.config.filter_count = 1;
	world.config.groups = groups;
	world.config.group_count = GROUPS;
	prefixes[0] = lists_prefixes(world.l, 0);
	exprs[0] = lists_exprs(world.l, 0);
	assert_int_equal(policy_new(&policy, &world.config, lists_index(world.l), world.slots, prefixes, exprs), 0);
}

static void close_list(void)
{
	policy_free(policy);
	world_close(&world);
}

static bool is_blocked(const char *host, const char *address, const char *client_address, bool is_mac_known)
{
	struct client client = {.mac_known = is_mac_known, .mac = {2, 0, 0x5e, 0x10, 0, 1}};
	struct policy_ask ask = {.qtype = 1, .client = &client};
	struct judged_name judged;
	struct group_bits groups;
	struct addr a;
	struct name n;

	assert_int_equal(name_from_text(&n, host, strlen(host)), 0);
	assert_int_equal(addr_parse(&client.addr, client_address), 0);
	assert_true(!address || addr_parse(&a, address) == 0);
	policy_classify(policy, &client, &groups);
	ask.groups = &groups;
	policy_judge(policy, index_generation(policy_index(policy)), &n, &ask, &judged);
	return policy_filter(policy, &groups, NULL, 0, &judged, 1, address ? &a : NULL, address ? 1 : 0).kind == VERDICT_BLOCK;
}

static bool blocks(const char *host)
{
	return is_blocked(host, NULL, "192.168.8.2", true);
}

static bool blocks_answer(const char *host, const char *address)
{
	return is_blocked(host, address, "192.168.8.2", true);
}

/* An exception that a live edit made stands where a $badfilter makes the list be read again. */
static void exemptions_and_badfilter(void **state)
{
	const char *edits[] = {"!good.x.test", "!=alone.x.test"};
	const struct exprs *exprs[1];
	const struct prefixes *prefixes[1];

	open_list("||x.test^\n||a.good.x.test^\n||a.good.x.test^$badfilter\n||b.good.x.test^\n||y.test^\n||y.test^$badfilter\n||alone.x.test^$badfilter\n");
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(edit(&world, 0, true, edits[i]), 0);
	policy_free(policy);
	prefixes[0] = lists_prefixes(world.l, 0);
	exprs[0] = lists_exprs(world.l, 0);
	assert_int_equal(policy_new(&policy, &world.config, lists_index(world.l), world.slots, prefixes, exprs), 0);
	assert_true(blocks("x.test"));
	assert_false(blocks("good.x.test"));
	assert_false(blocks("a.good.x.test"));
	assert_true(blocks("b.good.x.test"));
	assert_false(blocks("alone.x.test"));
	assert_true(blocks("not.alone.x.test"));
	assert_false(blocks("y.test"));
	close_list();
}

/* A question that an exception lifts is answered whatever the answer's addresses are. */
static void exceptions_lift_addresses(void **state)
{
	open_list("||192.0.2.1^\n@@||good.test^\n@@||spared.test^$important\n@@/^re[0-9]/\n||typed.test^$dnstype=A\n");
	assert_true(blocks_answer("other.test", "192.0.2.1"));
	assert_false(blocks_answer("other.test", "192.0.2.2"));
	assert_false(blocks_answer("good.test", "192.0.2.1"));
	assert_false(blocks_answer("a.good.test", "192.0.2.1"));
	assert_false(blocks_answer("spared.test", "192.0.2.1"));
	assert_false(blocks_answer("re7.test", "192.0.2.1"));
	assert_true(blocks_answer("typed.test", "192.0.2.2"));
	close_list();
}

/* What a $badfilter takes back of names alone and of addresses. */
static void badfilter_of_all_forms(void **state)
{
	open_list("|x.test^\n|x.test^$badfilter\n|y.test^\n||1.2.3.4^\n||1.2.3.4^$badfilter\n||1.2.3.5^\n/^10\\.2\\.3\\.\\d+$/\n/^10\\.2\\.3\\.\\d+$/$badfilter\n"
	          "/^10\\.2\\.4\\.\\d+$/\n||10.9.0.0^\n@@||10.9.0.0^\n@@||10.9.0.0^$badfilter\n");
	assert_false(blocks("x.test"));
	assert_true(blocks("y.test"));
	assert_false(blocks_answer("other.test", "1.2.3.4"));
	assert_true(blocks_answer("other.test", "1.2.3.5"));
	assert_false(blocks_answer("other.test", "10.2.3.4"));
	assert_true(blocks_answer("other.test", "10.2.4.4"));
	assert_true(blocks_answer("other.test", "10.9.0.0"));
	close_list();
}

/* A client whose MAC is not known may be one of the group: what blocks its members blocks it, what spares them does not spare it. */
static void clients_that_are_not_known(void **state)
{
	open_list("||a.test^$client=phones\n||b.test^\n@@||b.test^$client=phones\n||c.test^$client=~phones\n||d.test^$client=phones|kids\n||e.test^$client=10.0.0.1\n"
	          "||f.test^$important,client=phones\n||b.test^$important,client=10.0.0.9\n||g.test^\n@@||g.test^$important,client=phones\n||h.test^$client=phones|~kids\n");
	assert_true(is_blocked("a.test", NULL, "10.0.0.2", false));
	assert_true(is_blocked("a.test", NULL, "10.0.0.2", true));
	assert_true(is_blocked("b.test", NULL, "10.0.0.2", false));
	assert_false(is_blocked("b.test", NULL, "10.0.0.2", true));
	assert_true(is_blocked("c.test", NULL, "10.0.0.2", false));
	assert_false(is_blocked("c.test", NULL, "10.0.0.2", true));
	assert_true(is_blocked("d.test", NULL, "192.168.8.2", false));
	assert_false(is_blocked("e.test", NULL, "10.0.0.2", false));
	assert_true(is_blocked("f.test", NULL, "10.0.0.2", false));
	assert_true(is_blocked("g.test", NULL, "10.0.0.2", false));
	assert_false(is_blocked("g.test", NULL, "10.0.0.2", true));
	assert_false(is_blocked("h.test", NULL, "192.168.8.2", false));
	assert_true(is_blocked("h.test", NULL, "10.0.0.2", false));
	close_list();
}

/* Live edits are kept as lines; one that holds a line's end would be the end of all others after a restart. */
static void edits_are_lines(void **state)
{
	const char *bad[] = {"/a\nb/", "||x.test^$client='a\nb'", "/a\rb/"};

	world_open(&world, 1, true);
	world.lists[0].format = FORMAT_ADBLOCK;
	replan(&world);
	assert_int_equal(offer(&world, 0, "||base.test^\n", true), 0);
	assert_int_equal(edit(&world, 0, true, "/good[0-9]/"), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(edit(&world, 0, true, bad[i]), NW_EMALFORMED);
	world_restart(&world);
	assert_int_equal(rule_count(&world, 0), 1);
	assert_string_equal(world.other_alarm, "");
	world_close(&world);
}

/* The alarm of damaged edits ends when others are written in their place. */
static void damaged_edits_are_replaced(void **state)
{
	int fd;

	world_open(&world, 1, true);
	assert_int_equal(offer(&world, 0, "base.test\n", true), 0);
	assert_int_equal(edit(&world, 0, true, "more.test"), 0);
	world_stop(&world);
	fd = openat(world.state, "lists/l0/overlay", O_WRONLY);
	assert_true(fd >= 0 && pwrite(fd, "?", 1, 0) == 1);
	close(fd);
	world_start(&world);
	assert_non_null(strstr(world.other_alarm, "damaged"));
	assert_int_equal(edit(&world, 0, true, "again.test"), 0);
	assert_string_equal(world.other_alarm, "");
	world_close(&world);
}

static void held_by_another_limit(void **state)
{
	static const char whole[] = "a.test\nb.test\nc.test\nd.test\n", less[] = "a.test\n";

	world_open(&world, 1, false);
	assert_int_equal(offer(&world, 0, whole, false), 0);
	assert_int_equal(offer(&world, 0, less, false), NW_EHELD);
	assert_int_equal(offer(&world, 0, less, false), NW_EHELD);
	world.lists[0].shrink_limit_pct = 100;
	replan(&world);
	assert_int_equal(offer(&world, 0, less, false), 0);
	assert_false(listed(&world, 0, "b.test"));
	assert_string_equal(world.list_alarm, "");
	world_close(&world);
}

/* What a captive portal gives instead of a list must not open kill-switched rules. */
static void page_instead_of_list(void **state)
{
	static const char page[] = "<html>\n<body>\n<div class=\"x\">\n<a href=\"http://login.portal/x\">\n</div>\n</body>\n</html>\n";

	world_open(&world, 1, false);
	world.lists[0].format = FORMAT_ADBLOCK;
	replan(&world);
	assert_int_equal(offer(&world, 0, page, false), NW_EHELD);
	assert_false(lists_has_text(world.l, 0));
	assert_int_equal(offer(&world, 0, "! Title: none yet\n! nothing\n", false), 0);
	assert_true(lists_has_text(world.l, 0));
	assert_int_equal(offer(&world, 0, page, false), NW_EHELD);
	assert_int_equal(offer(&world, 0, page, true), 0);
	assert_int_equal(offer(&world, 0, "||x.test^\n||y.test^$third-party\n||z.test/path\n", false), 0);
	world_close(&world);
}

/* Rules that are left out are said, by an alarm and for the list, and no more when they are gone. */
static void left_out_is_said(void **state)
{
	struct buf text, json;
	const char *mine = "||x.test^\n";

	buf_init(&text, 1 << 20);
	buf_init(&json, 1 << 20);
	for (unsigned i = 0; i < EXPRS_LOOSE_MAX + 5; i++)
		buf_printf(&text, "/^[a-f]{%u}[0-9]{%u}[a-z]{%u}$/\n", 1 + i % 16, 1 + i / 16 % 16, 1 + i / 256);
	buf_printf(&text, "%s", mine);
	world_open(&world, 1, true);
	world.lists[0].format = FORMAT_ADBLOCK;
	replan(&world);
	assert_int_equal(offer(&world, 0, text.bytes, true), 0);
	assert_non_null(strstr(world.other_alarm, "5 of its rules are left out"));
	assert_int_equal(lists_print_json(world.l, 0, &json), 0);
	assert_non_null(strstr(json.bytes, "\"rules_left_out\":5"));
	world.other_alarm[0] = '\0';
	world_restart(&world);
	assert_non_null(strstr(world.other_alarm, "5 of its rules are left out"));
	assert_int_equal(offer(&world, 0, mine, true), 0);
	assert_string_equal(world.other_alarm, "");
	world_close(&world);
	buf_free(&text);
	buf_free(&json);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(exemptions_and_badfilter), cmocka_unit_test(exceptions_lift_addresses),
	        cmocka_unit_test(badfilter_of_all_forms), cmocka_unit_test(clients_that_are_not_known), cmocka_unit_test(edits_are_lines),
	        cmocka_unit_test(damaged_edits_are_replaced), cmocka_unit_test(held_by_another_limit), cmocka_unit_test(page_instead_of_list), cmocka_unit_test(left_out_is_said)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
