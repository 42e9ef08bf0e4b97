/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The bounded stage at a size: exprs_bench [LOOKUPS [NAMES-FILE]]. For kinds of expressions and 100, 3,000 and 30,000 of them: ns for a look-up (hashing the
 * name counted in) of names that match nothing, as they are asked, and of names that match; bytes an expression; then the worst inputs, where each line also
 * says how many look-ups met the bound. Names are made up, or taken from a file, one a line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "policy/exprs.h"

enum { SEED = 7, NAMES = 4096 };

static struct name names[NAMES], hits[NAMES];
static unsigned lookups = 400000;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* --- Expressions, and for each a name that it matches --- */

static void literal(char *rule, char *hit, unsigned i)
{
	sprintf(rule, "/(^|\\.)tracker%u\\.example\\.(com|net)$/", i);
	sprintf(hit, "x.tracker%u.example.net", i);
}

static void digits(char *rule, char *hit, unsigned i)
{
	sprintf(rule, "/^ad[sv]?%u-[0-9]{1,4}[.-]/", i);
	sprintf(hit, "adv%u-77.foo.org", i);
}

static void alternation(char *rule, char *hit, unsigned i)
{
	sprintf(rule, "/(pixel|beacon|metric)s?%x[a-z0-9]+\\.(top|xyz|click|buzz)$/", i);
	sprintf(hit, "a-beacon%xqq1.click", i);
}

/* One byte or a set everywhere: nothing to look for. */
static void shapeless(char *rule, char *hit, unsigned i)
{
	sprintf(rule, "/^[a-f]{%u}[0-9]{%u}[a-z]+\\.[a-z]+$/", 3 + i % 8, 2 + i / 8 % 8);
	sprintf(hit, "%.*s%.*sxyz.com", (int)(3 + i % 8), "abcdefabcdefabc", (int)(2 + i / 8 % 8), "12345678901");
}

static void glob(char *rule, char *hit, unsigned i)
{
	sprintf(rule, "||promo*-%u.shop^", i);
	sprintf(hit, "promo-today-%u.shop", i);
}

static void anchored(char *rule, char *hit, unsigned i)
{
	sprintf(rule, "||site%u.example^$dnstype=A|AAAA", i);
	sprintf(hit, "www.site%u.example", i);
}

static const struct {
	const char *name;
	void (*make)(char *rule, char *hit, unsigned i);
} kinds[] = {{"literal", literal}, {"digits", digits}, {"alternation", alternation}, {"wildcard", glob}, {"anchored", anchored},
        {"shapeless", shapeless}};

/* --- Measuring --- */

static void name_of(struct name *ret, const char *text)
{
	if (name_from_text(ret, text, strlen(text)) < 0)
		abort();
}

static double measure(const struct exprs *e, const struct name *v, unsigned count, unsigned *ret_matched)
{
	uint64_t hashes[NAME_LABELS_MAX + 1], start = now_ns();
	struct expr_result r;

	*ret_matched = 0;
	for (unsigned i = 0; i < lookups; i++) {
		const struct name *n = &v[i % count];

		name_hash(n, SEED, hashes);
		if (e)
			exprs_judge(e, n, hashes, 1, NULL, &r);
		*ret_matched += e && r.here;
	}
	return (double)(now_ns() - start) / lookups;
}

static void one_size(unsigned kind, unsigned count)
{
	struct exprs_build *b = exprs_build_new(SEED);
	char rule[256], hit[256];
	struct exprs_stat st;
	unsigned found, matched, left_out = 0;
	uint64_t start = now_ns();
	struct exprs *e;
	double build_ms, ns;

	for (unsigned i = 0; i < count; i++) {
		kinds[kind].make(rule, hit, i);
		left_out += exprs_build_add(b, rule, strlen(rule)) < 0;
		name_of(&hits[i % NAMES], hit);
	}
	if (exprs_build_done(b, &e) < 0 || !e)
		abort();
	build_ms = (double)(now_ns() - start) / 1e6;
	exprs_stat(e, &st);
	ns = measure(e, names, NAMES, &found);
	printf("%-12s %6u  no match %7.0f ns (%u found)  match %7.0f ns  %6.0f B each  build %6.0f ms  left out %u\n",
	        kinds[kind].name, count, ns, found, measure(e, hits, count < NAMES ? count : NAMES, &matched),
	        (double)st.memory_bytes / count, build_ms, left_out);
	exprs_free(e);
}

static void worst(const char *what, const char *const *rules, unsigned rule_count, unsigned copies, const char *host)
{
	struct exprs_build *b = exprs_build_new(SEED);
	struct exprs_stat st;
	char rule[256];
	unsigned matched, before = lookups, left_out = 0;
	struct exprs *e;
	struct name n;
	double us;

	for (unsigned i = 0; i < copies; i++) {
		snprintf(rule, sizeof(rule), rules[i % rule_count], i);
		left_out += exprs_build_add(b, rule, strlen(rule)) < 0;
	}
	if (exprs_build_done(b, &e) < 0 || !e)
		abort();
	name_of(&n, host);
	lookups = 2000;
	us = measure(e, &n, 1, &matched) / 1000;
	exprs_stat(e, &st);
	printf("worst: %-44s %6u rules  %7.1f us a look-up, %llu of %u met the bound, left out %u\n", what, copies, us,
	        (unsigned long long)st.cut, lookups, left_out);
	lookups = before;
	exprs_free(e);
}

static void worst_inputs(void)
{
	static const char *const bombs[] = {"/^([a.]+)+[b-z]{1%u}$/", "/(a|aa|[a.])+[0-9_]{1%u}$/", "/([a.]*)*[b-z]{1%u}/",
	        "/^(([a-z.])+.)+[b-z]([b-z])+1{0,1%u}$/"};
	static const char *const shared[] = {"/aaaa[b-z]{%u}c/", "/aaaa.*[0-9]q{%u}/", "/aaaa(b|a)*[c-z]{%u}/"};
	static const char *const wide[] = {"/aaaa[a-z]{0,4}(a|b|ab){6}[a-c]{150}x{1,%u}/"};
	static const char *const globs[] = {"*aa*aa*aa*aa*aa*aa*aa*aa*aa*aab%u*"};
	static const char *const many[] = {"/aaaa%u/", "/aaa%ux/", "||aaaa%u", "aa*%u"};
	char host[256];

	memset(host, 'a', sizeof(host));
	for (unsigned i = 63; i < 253; i += 64)
		host[i] = '.';
	host[253] = '\0';
	worst("expressions that make others go back", bombs, 4, 64, host);
	worst("3,000 with one part that occurs all over", shared, 3, 3000, host);
	worst("large automata", wide, 1, 3000, host);
	worst("wildcards", globs, 1, 3000, host);
	worst("30,000 parts that all begin alike", many, 4, 30000, host);
}

static void read_names(const char *path)
{
	FILE *f = path ? fopen(path, "r") : NULL;
	char line[300];

	for (unsigned i = 0; i < NAMES; i++) {
		uint64_t h = mix(i + 1);

		if (f && fgets(line, sizeof(line), f))
			line[strcspn(line, "\r\n")] = '\0';
		else
			sprintf(line, "%s.host-%x.%s", h & 1 ? "www" : "cdn", (unsigned)(h >> 44), h & 2 ? "example.com" : "org");
		name_of(&names[i], line);
	}
	if (f)
		fclose(f);
}

int main(int argc, char **argv)
{
	static const unsigned sizes[] = {100, 3000, 30000};
	unsigned none;

	if (argc > 1)
		lookups = (unsigned)strtoul(argv[1], NULL, 10);
	if (!lookups)
		return 2;
	read_names(argc > 2 ? argv[2] : NULL);
	printf("%-12s %6u  hashing  %7.0f ns\n", "none", 0, measure(NULL, names, NAMES, &none));
	for (unsigned k = 0; k < sizeof(kinds) / sizeof(*kinds); k++)
		for (unsigned s = 0; s < sizeof(sizes) / sizeof(*sizes); s++)
			one_size(k, sizes[s]);
	worst_inputs();
	return 0;
}
