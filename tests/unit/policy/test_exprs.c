/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The table of the bounded stage: what is said always and what for this question, which rule decides, $badfilter, the bounds, and tables of many rules against
 * each rule asked by itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/err.h"
#include "policy/exprs_private.h"

enum { SEED = 3 };

static struct exprs *table(const char *const *rules, unsigned count)
{
	struct exprs_build *b = exprs_build_new(SEED);
	struct exprs *e = (struct exprs *)1;

	assert_non_null(b);
	for (unsigned i = 0; i < count; i++)
		if (exprs_build_add(b, rules[i], strlen(rules[i])) != 0)
			fail_msg("%s is not taken", rules[i]);
	assert_int_equal(exprs_build_done(b, &e), 0);
	return e;
}
#define TABLE(...) table((const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void hashed(struct name *n, uint64_t *hashes, const char *host)
{
	assert_int_equal(name_from_text(n, host, strlen(host)), 0);
	name_hash(n, SEED, hashes);
}

static struct expr_result judge(const struct exprs *e, const char *host, uint16_t qtype, const struct expr_client *client)
{
	uint64_t hashes[NAME_LABELS_MAX + 1];
	struct expr_result r;
	struct name n;

	memset(&r, 0xff, sizeof(r));
	hashed(&n, hashes, host);
	exprs_judge(e, &n, hashes, qtype, client, &r);
	return r;
}

static void always_and_here(void **state)
{
	struct exprs *e = TABLE("||a.test^$dnstype=AAAA", "*.b.test^$important", "@@||c.b.test^$important", "@@||d.b.test", "||e.test^$denyallow=x.e.test", "||f.test^$client=10.0.0.0/8",
	        "||f.test^$dnstype=A");
	struct addr in, out;
	struct expr_client client = {.addr = &in};

	assert_int_equal(addr_parse(&in, "10.1.2.3"), 0);
	assert_int_equal(addr_parse(&out, "192.0.2.1"), 0);
	assert_int_equal(judge(e, "a.test", 28, NULL).here, EXPR_BLOCK);
	assert_int_equal(judge(e, "a.test", 28, NULL).always, 0);
	assert_int_equal(judge(e, "a.test", 1, NULL).here, 0);
	assert_int_equal(judge(e, "x.b.test", 1, NULL).always, EXPR_IMPORTANT);
	assert_int_equal(judge(e, "c.b.test", 1, NULL).here, EXPR_IMPORTANT | EXPR_SPARE);
	assert_int_equal(judge(e, "d.b.test", 1, NULL).always, EXPR_IMPORTANT | EXPR_ALLOW);
	assert_int_equal(judge(e, "y.e.test", 1, NULL).always, EXPR_BLOCK);
	assert_int_equal(judge(e, "y.x.e.test", 1, NULL).always, 0);
	assert_int_equal(judge(e, "f.test", 28, &client).here, EXPR_BLOCK);
	client.addr = &out;
	assert_int_equal(judge(e, "f.test", 28, &client).here, 0);
	assert_int_equal(judge(e, "f.test", 28, NULL).here, 0);
	assert_int_equal(judge(e, "f.test", 1, NULL).here, EXPR_BLOCK);
	exprs_free(e);
}

static const char *decides(const struct exprs *e, const char *host, uint16_t qtype)
{
	uint64_t hashes[NAME_LABELS_MAX + 1];
	struct name n;

	hashed(&n, hashes, host);
	return exprs_decides(e, &n, hashes, qtype, NULL);
}

static void which_decides(void **state)
{
	struct exprs *e = TABLE("/track/", "||a.track.test^$dnstype=A", "*rack.test^", "@@||b.track.test", "||b.track.test^$important", "@@|s.b.track.test^$important", "||c.test^$badfilter");

	assert_string_equal(decides(e, "a.track.test", 1), "/track/");
	assert_string_equal(decides(e, "x.rack.test", 1), "*rack.test^");
	assert_string_equal(decides(e, "b.track.test", 1), "||b.track.test^$important");
	assert_string_equal(decides(e, "b.track.test.org", 1), "@@||b.track.test");
	assert_string_equal(decides(e, "s.b.track.test", 1), "@@|s.b.track.test^$important");
	assert_null(decides(e, "other.org", 1));
	assert_null(decides(e, "c.test", 1));
	exprs_free(e);
}

static void clients_by_name(void **state)
{
	struct exprs *e = TABLE("||a.test^$client=kids|guests", "||b.test^$client=~kids", "||c.test^$client=\"Mum's phone\"", "||d.test^$client=10.0.0.1|~kids",
	        "||e.test^$client=kids", "||e.test^$client=~kids,badfilter", "|f.test^$client=kids");
	uint16_t group_of[] = {70, 0xffff, 2};
	uint64_t groups[2] = {0};
	struct expr_client client = {.groups = groups, .group_of = group_of};

	assert_int_equal(exprs_client_count(e), 3);
	assert_string_equal(exprs_client(e, 0), "kids");
	assert_string_equal(exprs_client(e, 1), "guests");
	assert_string_equal(exprs_client(e, 2), "Mum's phone");
	assert_int_equal(judge(e, "a.test", 1, &client).here, 0);
	assert_int_equal(judge(e, "b.test", 1, &client).here, EXPR_BLOCK);
	groups[1] = 1ull << 6;
	assert_int_equal(judge(e, "a.test", 1, &client).here, EXPR_BLOCK);
	assert_int_equal(judge(e, "b.test", 1, &client).here, 0);
	assert_int_equal(judge(e, "c.test", 1, &client).here, 0);
	assert_int_equal(judge(e, "e.test", 1, &client).here, EXPR_BLOCK);
	assert_int_equal(judge(e, "f.test", 1, &client).here, EXPR_BLOCK);
	assert_int_equal(judge(e, "x.f.test", 1, &client).here, 0);
	groups[0] = 1ull << 2;
	assert_int_equal(judge(e, "c.test", 1, &client).here, EXPR_BLOCK);
	exprs_free(e);
}

static void badfilter(void **state)
{
	struct exprs *e = TABLE("||b.test^$badfilter", "||a.b.test^$badfilter", "@@||b.test^$badfilter", "||c.test^$important,badfilter", "||c.test^$important", "/ads/$badfilter,important", "/ads/$important", "/ads/");
	struct expr_result r = judge(e, "x.a.b.test", 1, NULL);

	/* Names listed by the index. */
	assert_int_equal(r.here, EXPR_BAD_BLOCK | EXPR_BAD_ALLOW);
	assert_int_equal(r.bad_block[0], 1 << 1 | 1 << 2);
	assert_int_equal(r.bad_allow[0], 1 << 2);
	assert_int_equal(judge(e, "c.test", 1, NULL).here, 0);
	assert_int_equal(judge(e, "ads", 1, NULL).here, EXPR_BLOCK);
	exprs_free(e);
	assert_null(TABLE("||c.test^$important,badfilter", "||c.test^$important"));
	assert_null(table(NULL, 0));
}

static int loose_rule(char *ret, unsigned i)
{
	return sprintf(ret, "/^[a-f]{%u}[0-9]{%u}[a-z]{%u}$/", 1 + i % 16, 1 + i / 16 % 16, 1 + i / 256);
}

static struct exprs *loose_table(unsigned count)
{
	struct exprs_build *b = exprs_build_new(SEED);
	struct exprs *e;
	char rule[64];

	for (unsigned i = 0; i < count; i++)
		assert_int_equal(exprs_build_add(b, rule, (size_t)loose_rule(rule, i)), i < EXPRS_LOOSE_MAX ? 0 : NW_EMALFORMED);
	assert_int_equal(exprs_build_add(b, "/zyx/", 5), 0);
	assert_int_equal(exprs_build_add(b, "/(/", 3), NW_EMALFORMED);
	assert_int_equal(exprs_build_done(b, &e), 0);
	return e;
}

/* Expressions without a fixed part work by the thousand; a name runs through those few that its ends, symbols and length leave. */
static void loose_ones_are_many(void **state)
{
	struct exprs *e = loose_table(EXPRS_LOOSE_MAX + 3);
	struct exprs_stat st;
	char host[64], rule[64];

	exprs_stat(e, &st);
	assert_int_equal(st.left_out, 3);
	assert_int_equal(st.rules, EXPRS_LOOSE_MAX + 1);
	assert_int_equal(st.patterns, EXPRS_LOOSE_MAX + 1);
	for (unsigned i = 0; i < EXPRS_LOOSE_MAX; i += 7) {
		sprintf(host, "%.*s%.*s%.*s", (int)(1 + i % 16), "abcdefabcdefabcdef", (int)(1 + i / 16 % 16), "1234567890123456", (int)(1 + i / 256), "qrstuvwxyzqrstuv");
		loose_rule(rule, i);
		assert_int_equal(judge(e, host, 1, NULL).here, EXPR_BLOCK);
		assert_string_equal(decides(e, host, 1), rule);
		host[0] = 'q';
		assert_int_equal(judge(e, host, 1, NULL).here, 0);
	}
	exprs_stat(e, &st);
	assert_int_equal(st.cut, 0);
	exprs_free(e);
}

/* Of a name without any symbol, and one of a byte that no host name has. */
static void loose_ones_and_odd_names(void **state)
{
	struct exprs *e = TABLE("/^$|^[a-z]?[0-9]$/", "/^[^a-z]{2}$/", "/[0-9][a-c]|[x-z]$/");
	struct expr_result r;
	uint64_t hashes[NAME_LABELS_MAX + 1];
	struct name root = {.wire = {0}, .len = 1};

	name_hash(&root, SEED, hashes);
	exprs_judge(e, &root, hashes, 1, NULL, &r);
	assert_int_equal(r.here, EXPR_BLOCK);
	assert_int_equal(judge(e, "q7", 1, NULL).here, EXPR_BLOCK);
	assert_int_equal(judge(e, "\\255\\001", 1, NULL).here, EXPR_BLOCK);
	assert_int_equal(judge(e, "q7a.test", 1, NULL).here, EXPR_BLOCK);
	assert_int_equal(judge(e, "q.x", 1, NULL).here, EXPR_BLOCK);
	assert_int_equal(judge(e, "q.test", 1, NULL).here, 0);
	exprs_free(e);
}

static struct exprs *numbered(const char *format, unsigned count)
{
	struct exprs_build *b = exprs_build_new(SEED);
	struct exprs *e = NULL;
	char rule[128];

	for (unsigned i = 0; i < count; i++) {
		int len = snprintf(rule, sizeof(rule), format, i + 1);

		assert_int_equal(exprs_build_add(b, rule, (size_t)len), 0);
	}
	assert_int_equal(exprs_build_add(b, "@@*$dnstype=A", 13), 0);
	assert_int_equal(exprs_build_done(b, &e), 0);
	return e;
}

/* A name as long as they get, made of what the patterns look for. What is tied to a domain is judged all the same, and other names are not touched. */
static void bounded_by_steps(void **state)
{
	struct exprs *e = numbered("/aaaa((a|b|[a.])(a|[a.]|b))*[x-z]{1,%u}q?[x-z]$/", 200);
	struct exprs_stat st;
	struct expr_result r;
	char host[254];

	memset(host, 'a', sizeof(host) - 1);
	for (unsigned i = 60; i < sizeof(host); i += 61)
		host[i] = '.';
	host[sizeof(host) - 1] = '\0';
	r = judge(e, host, 1, NULL);
	assert_true(r.is_cut);
	assert_int_equal(r.here, EXPR_ALLOW);
	exprs_stat(e, &st);
	assert_int_equal(st.cut, 1);
	assert_false(judge(e, "b.test", 1, NULL).is_cut);
	assert_int_equal(judge(e, "caaaabaxx", 28, NULL).here, EXPR_BLOCK);
	exprs_stat(e, &st);
	assert_int_equal(st.cut, 1);
	exprs_free(e);
}

static void bounded_by_tries(void **state)
{
	struct exprs *e = numbered("/^aaaa[b-z]%u/", EXPRS_TRIES_MAX);

	assert_false(judge(e, "aaaa0123456789.test", 28, NULL).is_cut);
	exprs_free(e);
	e = numbered("/^aaaa[b-z]+%u/", EXPRS_TRIES_MAX * 4);
	assert_true(judge(e, "aaaa0123456789.test", 28, NULL).is_cut);
	exprs_free(e);
}

/* Look-ups take the steps that they may: an automaton cannot be made that alone takes more. */
static void one_automaton_fits(void **state)
{
	const char *rule = "/aaaa[a-z]{0,4}(a|b|ab){6}[a-c]{150}x/", *why;
	char host[254];
	struct exprs *e;

	memset(host, 'a', sizeof(host) - 1);
	for (unsigned i = 60; i < sizeof(host); i += 61)
		host[i] = '.';
	host[252] = 'x';
	host[253] = '\0';
	e = table(&rule, 1);
	assert_false(judge(e, host, 1, NULL).is_cut);
	exprs_free(e);
	assert_int_equal(NFA_COST_MAX * (NAME_WIRE_MAX - 2) < EXPRS_STEPS_MAX, 1);
	assert_int_equal(exprs_check_rule("/(a|b|ab){100}(a|b|ab){100}/", 28, &why), NW_EMALFORMED);
	assert_string_equal(why, "the expression is too large");
}

static void nothing_is_allocated(void **state)
{
	struct exprs *e = TABLE("/ads[0-9]+/", "||a*b.test^", "||c.test^$dnstype=A", "*$denyallow=com");
	size_t before = mallinfo2().uordblks;
	unsigned said = 0;

	for (unsigned i = 0; i < 100; i++)
		said |= judge(e, i % 2 ? "ads12.test.com" : "axb.test", 1, NULL).here;
	assert_int_equal(said, EXPR_BLOCK);
	assert_int_equal(mallinfo2().uordblks, before);
	exprs_free(e);
}

/* --- Many rules against each by itself --- */

static uint64_t random_state;

static unsigned below(unsigned n)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(random_state >> 33) % n;
}

static const char *word(void)
{
	static const char *const words[] = {"ad", "ads", "track", "x", "test", "com", "cdn", "a", "b1", "pixel", "-", "1", "22", "net"};

	return words[below(sizeof(words) / sizeof(*words))];
}

static void random_rule(char *out)
{
	static const char *const begins[] = {"", "||", "|", "@@", "@@||", "@@|", "://"}, *const ends[] = {"", "^", "|", "*"};
	static const char *const modifiers[] = {"", "", "", "$important", "$dnstype=A", "$dnstype=~A,important", "$denyallow=com|ads.test", "$client=10.0.0.1"};

	if (below(4) == 0)
		sprintf(out, "%s/%s%s[0-9]*(%s|\\.%s)%s%s/", below(4) ? "" : "@@", below(3) ? "" : "^", word(), word(), word(), below(2) ? "." : "", below(3) ? "" : "$");
	else
		sprintf(out, "%s%s%s%s%s%s", begins[below(7)], word(), below(3) ? "." : "*", word(), below(3) ? "" : ".com", ends[below(4)]);
	strcat(out, modifiers[below(8)]);
}

static void random_host(char *out)
{
	unsigned parts = 1 + below(6);

	do {
		*out = '\0';
		for (unsigned i = 0; i < parts; i++) {
			strcat(out, word());
			strcat(out, i + 1 < parts && below(2) ? "." : "");
		}
	} while (strstr(out, ".."));
}

enum { RULES = 150, HOSTS = 400 };

static void many_as_each(void **state)
{
	char rules[RULES][128], host[128];
	struct exprs *alone[RULES], *all;
	uint16_t qtype;
	unsigned hits = 0;

	for (unsigned round = 0; round < 12; round++) {
		struct exprs_build *b = exprs_build_new(SEED);

		random_state = round + 1;
		for (unsigned i = 0; i < RULES; i++) {
			const char *why;

			do
				random_rule(rules[i]);
			while (exprs_check_rule(rules[i], strlen(rules[i]), &why) < 0);
			alone[i] = TABLE(rules[i]);
			assert_int_equal(exprs_build_add(b, rules[i], strlen(rules[i])), 0);
		}
		assert_int_equal(exprs_build_done(b, &all), 0);
		for (unsigned k = 0; k < HOSTS; k++) {
			struct expr_result expected = {0}, got;

			random_host(host);
			qtype = below(2) ? 1 : 28;
			for (unsigned i = 0; i < RULES; i++) {
				struct expr_result one = judge(alone[i], host, qtype, NULL);

				expected.always |= one.always;
				expected.here |= one.here;
			}
			got = judge(all, host, qtype, NULL);
			assert_false(got.is_cut);
			if (got.always != expected.always || got.here != expected.here)
				fail_msg("round %u, %s: always %x, here %x, not %x, %x", round, host, got.always, got.here, expected.always, expected.here);
			hits += got.here != 0;
			assert_int_equal(decides(all, host, qtype) != NULL, got.here != 0);
		}
		for (unsigned i = 0; i < RULES; i++)
			exprs_free(alone[i]);
		exprs_free(all);
	}
	assert_true(hits > 12 * HOSTS / 10 && hits < 12 * HOSTS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(always_and_here), cmocka_unit_test(which_decides), cmocka_unit_test(clients_by_name), cmocka_unit_test(badfilter),
	        cmocka_unit_test(loose_ones_are_many), cmocka_unit_test(loose_ones_and_odd_names), cmocka_unit_test(bounded_by_steps), cmocka_unit_test(bounded_by_tries), cmocka_unit_test(one_automaton_fits), cmocka_unit_test(nothing_is_allocated), cmocka_unit_test(many_as_each)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
