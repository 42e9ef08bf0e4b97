/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Regular expressions of the bounded stage: the syntax, what is refused, and thousands of random expressions on random names, judged through the whole table
 * (fixed parts, lengths, automaton) and compared with PCRE2 where that is installed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef HAVE_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#endif
#include "base/err.h"
#include "policy/exprs.h"

enum { SEED = 11 };

static struct exprs *table_of(const char *expression)
{
	struct exprs_build *b = exprs_build_new(SEED);
	char rule[EXPR_TEXT_MAX + 8];
	struct exprs *e = NULL;
	int r, len = snprintf(rule, sizeof(rule), "/%s/", expression);

	assert_non_null(b);
	r = exprs_build_add(b, rule, (size_t)len);
	assert_true(r == 0 || r == NW_EMALFORMED);
	assert_int_equal(exprs_build_done(b, &e), 0);
	assert_true((r == 0) == (e != NULL));
	return e;
}

static bool judge(const struct exprs *e, const char *host)
{
	uint64_t hashes[NAME_LABELS_MAX + 1];
	struct expr_result r;
	struct name n;

	assert_int_equal(name_from_text(&n, host, strlen(host)), 0);
	name_hash(&n, SEED, hashes);
	exprs_judge(e, &n, hashes, 1, NULL, &r);
	assert_false(r.is_cut);
	return r.always & EXPR_BLOCK;
}

static bool matches(const char *expression, const char *host)
{
	struct exprs *e = table_of(expression);
	bool ret;

	if (!e)
		fail_msg("%s is refused", expression);
	ret = judge(e, host);
	exprs_free(e);
	return ret;
}

static void syntax(void **state)
{
	static const struct {
		const char *expression, *host;
		bool is_match;
	} t[] = {{"abc", "xabcx.org", true}, {"ABC", "xabcx.org", true}, {"a.c", "abc", true}, {"a.c", "a.c", true}, {"a\\.c", "abc", false}, {"^abc$", "abc", true},
	        {"^abc$", "abcd", false}, {"^abc", "xabc", false}, {"abc$", "abcx", false}, {"a*b", "b", true}, {"a+b", "b", false}, {"a+b", "aaab", true}, {"colou?r", "color.org", true},
	        {"(ads|track)\\.", "my.track.org", true}, {"^(ads|track)\\.", "my.track.org", false}, {"(^|\\.)ads\\.", "ads.org", true}, {"(^|\\.)ads\\.", "x.ads.org", true},
	        {"(^|\\.)ads\\.", "xads.org", false}, {"a{3}", "aa", false}, {"a{3}", "baaab", true}, {"^a{2,3}$", "aaaa", false}, {"^a{2,3}$", "aaa", true}, {"^a{2,}$", "aaaaa", true},
	        {"^a{0,2}b$", "b", true}, {"^a{0,2}b$", "aab", true}, {"^a{0,2}b$", "aaab", false}, {"^[a-z]{1,200}1{2,90}x$", "abc11x", true}, {"^(ab){0,3}$", "ababab", true},
	        {"^a{55}b{20}c$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" "bbbbbbb.bbb", false}, {"^[a.]{64}b{20}c", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaabbbbbbbbbbbbbbbbbbbbc", true},
	        {"^[a.]{64}b{20}c", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaabbbbbbbbbbbbbbbbbbbc", false}, {"^(a|bc){2,3}d", "abcbcd", true}, {"^(a|bc){2,3}d", "bcd", false}, {"a{b", "a", false}, {"[a-c]x", "bx", true}, {"[^a-c]x", "bx", false}, {"[^a-c]x", "dx", true}, {"[]a]b", "ab", true}, {"[a-]b", "-b", true},
	        {"[[:digit:]]+x", "12x", true}, {"[[:^digit:]]x", "1x", false}, {"\\d{2}", "a1b22", true}, {"^\\D+$", "abc1", false}, {"^\\w+$", "ab_1", true}, {"^\\w+$", "a.b", false},
	        {"\\W", "abc", false}, {"\\W", "a-b", true}, {"\\bads\\b", "my-ads.org", true}, {"\\bads\\b", "myads.org", false}, {"\\bads\\b", "ads", true}, {"\\Bads", "myads", true},
	        {"\\Bads", "my-ads", false}, {"ads\\B", "adsx", true}, {"ads\\B", "ads-x", false}, {"\\x61b", "ab", true}, {"\\x{61}b", "ab", true}, {"(?i)AB", "ab", true}, {"(?:ab)+c", "ababc", true},
	        {"(?P<n>ab)c", "abc", true}, {"(?i:AB)c", "abc", true}, {"a|b|cd", "xcdx", true}, {"^(a|b)*c$", "ababc", true}, {"^(|a)b$", "b", true}, {"^^a", "a", true}, {"a$$", "a", true},
	        {"\\Aab\\z", "ab", true}, {"a*?b", "aab", true}, {"a.*b.*c", "a1b2c3", true}, {"(a+)+$", "aaaa", true}, {"((a*)*)*b", "aab", true}, {"x*$", "a", true}, {".*", "a.b", true}, {"^", "a", true}, {"()", "a", true}, {"^$", "a", false}, {"\\b", "a", true}, {"\\b", "-", false}, {"\\B", "a", false}, {"\\B", "ab", true}, {"^.*$", "a", true}, {"\\/ads", "ads", false},
	        {"^[a-z]{10,12}\\.easy\\.co$", "abcdefghijk.easy.co", true}, {"^[a-z]{10,12}\\.easy\\.co$", "abcdefghi.easy.co", false}, {"\\.(top|xyz)$", "a.xyz", true}, {"\\.(top|xyz)$", "a.xyzz", false},
	        {"^ad[sv]?[0-9]*[-.]", "adv12-x.org", true}, {"^.{20,}$", "short.org", false}, {"^.{20,}$", "a-name-that-is-longer.org", true}, {"(a|ab)(c|bcd)(d*)", "abcd", true},
	        {"a(^|x)b", "axb", true}, {"a(^|x)b", "ab", false}, {"(a$|ab)", "ab", true}, {"^(\\b|x)a", "a", true}};

	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		if (matches(t[i].expression, t[i].host) != t[i].is_match)
			fail_msg("/%s/ on %s is %s", t[i].expression, t[i].host, t[i].is_match ? "no match" : "a match");
	}
}

static void refused(void **state)
{
	static const char *const t[] = {"(", ")", "a(b", "a)", "[a", "[z-a]", "*a", "a**", "a{2}{3}", "a{3,2}", "a{1001}", "a(?=b)", "a(?!b)", "(?<=a)b", "(?<!a)b", "(a)\\1", "\\q", "\\p{L}", "(?-i)a",
	        "a\\", "(?P<n", "(a{100}){100}", "((((((((((((((((((((((((((a))))))))))))))))))))))))))"};
	const char *why;
	char rule[128];

	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		int len = snprintf(rule, sizeof(rule), "/%s/", t[i]);

		why = NULL;
		if (exprs_check_rule(rule, (size_t)len, &why) != NW_EMALFORMED)
			fail_msg("%s is taken", rule);
		assert_non_null(why);
		assert_null(table_of(t[i]));
	}
}

/* Bytes that no host name has are taken by '.' and by negated sets, and by nothing else; a dot inside a label is such a byte. */
static void odd_bytes(void **state)
{
	assert_true(matches("^a.b$", "a\\/b"));
	assert_true(matches("^a[^c]b$", "a\\200b"));
	assert_false(matches("a[/:]b", "a\\/b"));
	assert_false(matches("a\\/b", "a\\/b"));
	assert_false(matches("^a\\.b$", "a\\.b"));
	assert_true(matches("^a\\.b$", "a.b"));
}

/* --- Random --- */

static uint64_t random_state;

static unsigned below(unsigned n)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(random_state >> 33) % n;
}

static void put(char *out, const char *s)
{
	if (strlen(out) + strlen(s) < 400)
		strcat(out, s);
}

static void random_expression(char *out, int depth)
{
	static const char *const atoms[] = {"a", "b", "ab", "ads", "1", "12", "-", "\\.", ".", "[ab]", "[^a]", "[0-9]", "\\d", "\\w", "\\W", "[a-c-]", "com", "x_", "^", "$", "\\b", "\\B", "\\.com$", "^a"};
	static const char *const repeats[] = {"", "", "", "", "*", "+", "?", "{2}", "{1,3}", "{0,1}", "{2,}", "+?"};
	unsigned parts = 1 + below(4);

	for (unsigned i = 0; i < parts; i++) {
		if (depth < 3 && below(4) == 0) {
			put(out, below(2) ? "(" : "(?:");
			random_expression(out, depth + 1);
			for (unsigned k = below(3); k > 0; k--) {
				put(out, "|");
				random_expression(out, depth + 1);
			}
			put(out, ")");
		} else {
			put(out, atoms[below(sizeof(atoms) / sizeof(*atoms))]);
		}
		put(out, repeats[below(sizeof(repeats) / sizeof(*repeats))]);
	}
}

static void random_name(char *out)
{
	static const char *const parts[] = {"a", "b", "c", "ab", "ads", "1", "12", "-", ".", "com", "x_", ".com", "aa", "z"};
	unsigned count = 1 + below(8);

	do {
		*out = '\0';
		for (unsigned i = 0; i < count; i++)
			strcat(out, parts[below(sizeof(parts) / sizeof(*parts))]);
	} while (*out == '.' || out[strlen(out) - 1] == '.' || strstr(out, ".."));
}

#ifdef HAVE_PCRE2
static void as_pcre2_says(void **state)
{
	char expression[512], host[128];
	unsigned compared = 0, matched = 0;
	pcre2_match_data *m = pcre2_match_data_create(64, NULL);
	PCRE2_SIZE at;
	struct exprs *e;
	int error;

	random_state = 1;
	for (unsigned i = 0; i < 6000; i++) {
		pcre2_code *code;

		*expression = '\0';
		random_expression(expression, 0);
		e = table_of(expression);
		if (!e)
			continue;
		code = pcre2_compile((PCRE2_SPTR)expression, PCRE2_ZERO_TERMINATED, PCRE2_CASELESS | PCRE2_DOLLAR_ENDONLY, &error, &at, NULL);
		if (!code) { /* it does not repeat "^" */
			assert_int_equal(error, PCRE2_ERROR_QUANTIFIER_INVALID);
			exprs_free(e);
			continue;
		}
		for (unsigned k = 0; k < 25; k++) {
			bool expected, got;

			random_name(host);
			expected = pcre2_match(code, (PCRE2_SPTR)host, strlen(host), 0, 0, m, NULL) >= 0;
			got = judge(e, host);
			if (got != expected)
				fail_msg("/%s/ on %s: %s, PCRE2 says otherwise", expression, host, got ? "a match" : "no match");
			compared++;
			matched += got;
		}
		pcre2_code_free(code);
		exprs_free(e);
	}
	pcre2_match_data_free(m);
	print_message("%u compared, %u matched\n", compared, matched);
	assert_true(compared > 50000 && matched > compared / 20 && matched < compared);
}
#else
static void as_pcre2_says(void **state)
{
	char text[512] = "", host[128];

	random_expression(text, 0);
	random_name(host);
	print_message("left out: PCRE2 is not installed\n");
	skip();
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(syntax), cmocka_unit_test(refused), cmocka_unit_test(odd_bytes), cmocka_unit_test(as_pcre2_says)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
