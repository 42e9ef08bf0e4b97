/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Lines of adblock lists: what each kind becomes, and what whole lists say of names, as AdGuard's DNS filtering does. The cases of
 * NAMEWAY_ADBLOCK_CASES (a JSON file {cases: [{rules, host, qtype, blocked, client_ip, client_name}]}) are asked as well where it is given. */
#include "adblock_world.h"
#include <jansson.h>
#include <time.h>
#include "config/config.h"

static const char *parse_whole(struct line_entry *e, const char *line)
{
	static const char *const words[] = {[LINE_EMPTY] = "empty", [LINE_PREFIX] = "prefix", [LINE_RULE] = "rule", [LINE_BAD] = "bad"};
	size_t at = 0, len = strlen(line);

	list_format_adblock.parse(e, line, len, &at);
	assert_true(at <= len);
	if (e->what != LINE_NAME)
		return words[e->what];
	return e->kind == KIND_SUFFIX ? "suffix" : e->kind == KIND_EXACT ? "exact" : e->kind == KIND_ALLOW ? "allow" : "?";
}

static const struct {
	const char *line, *what, *value; /* name, prefix, rule or reason */
} lines[] = {
        {"", "empty", NULL},
        {"! Title: x", "empty", NULL},
        {"# comment", "empty", NULL},
        {"[Adblock Plus 2.0]", "empty", NULL},
        {"||x.example^", "suffix", "x.example"},
        {"  ||X.Example^\r", "suffix", "x.example"},
        {"\xef\xbb\xbf||x.example^", "suffix", "x.example"},
        {"||x.example|", "suffix", "x.example"},
        {"||x.example^|", "suffix", "x.example"},
        {"||x.example^*", "suffix", "x.example"},
        {"||x.example/*", "suffix", "x.example"},
        {"||com^", "suffix", "com"},
        {"||b\xc3\xbc" "cher.example^", "suffix", "xn--bcher-kva.example"},
        {"||x.example^ # why", "suffix", "x.example"},
        {"@@||x.example^", "allow", "x.example"},
        {"@@||x.example|", "allow", "x.example"},
        {"|x.example^", "exact", "x.example"},
        {"://x.example^", "exact", "x.example"},
        {"http://x.example^", "exact", "x.example"},
        {"x.example", "exact", "x.example"},
        {"x.example # why", "exact", "x.example"},
        {"B\xc3\xbc" "cher.example", "exact", "xn--bcher-kva.example"},
        {"0.0.0.0 x.example", "exact", "x.example"},
        {"0.0.0.0 localhost", "empty", NULL},
        {"||x.example^$~script,~image", "suffix", "x.example"},
        /* rules of the bounded stage */
        {"||x.example", "rule", "||x.example"},
        {"@@||x.example", "rule", "@@||x.example"},
        {"@@|x.example^", "rule", "@@|x.example^"},
        {"ads.", "rule", "ads."},
        {".x.example^", "rule", ".x.example^"},
        {"x.example^", "rule", "x.example^"},
        {"*.x.example", "rule", "*.x.example"},
        {"||*.x.example^", "rule", "||*.x.example^"},
        {"||ads*.x.example^", "rule", "||ads*.x.example^"},
        {"test_1.example", "rule", "test_1.example"},
        {"/sub.", "rule", "/sub."},
        {"://x.example", "rule", "://x.example"},
        {"/ads[0-9]+/", "rule", "/ads[0-9]+/"},
        {"/.*/", "rule", "/.*/"},
        {"@@/^stats?\\./", "rule", "@@/^stats?\\./"},
        {"/ads$/$important", "rule", "/ads$/$important"},
        {"||x.example^$important", "rule", "||x.example^$important"},
        {"||x.example^$badfilter", "rule", "||x.example^$badfilter"},
        {"||x.example^$dnstype=AAAA|~A", "rule", "||x.example^$dnstype=AAAA|~A"},
        {"||x.example^$client='Frank\\'s laptop'", "rule", "||x.example^$client='Frank\\'s laptop'"},
        {"*$dnstype=HTTPS", "rule", "*$dnstype=HTTPS"},
        {"*$denyallow=com|net", "rule", "*$denyallow=com|net"},
        /* addresses */
        {"1.2.3.4", "prefix", "1.2.3.4/32"},
        {"1.2.3.4 # why", "prefix", "1.2.3.4/32"},
        {"1.2.3.0/24", "prefix", "1.2.3.0/24"},
        {"2001:db8::ad", "prefix", "2001:db8::ad/128"},
        {"||1.2.3.4^", "prefix", "1.2.3.4/32"},
        {"|1.2.3.4|", "prefix", "1.2.3.4/32"},
        {"||1.2.3.", "prefix", "1.2.3.0/24"},
        {"||1.2.3.*", "prefix", "1.2.3.0/24"},
        {"|1.2.", "prefix", "1.2.0.0/16"},
        {"@@||1.2.3.4^", "prefix", "!1.2.3.4/32"},
        {"/^1\\.2\\.3\\.(1?\\d{1,2}|2[0-4]\\d|25[0-5])$/", "prefix", "1.2.3.0/24"},
        {"/^1\\.2\\.3\\.(1?\\d{1,2}|2[0-4]\\d|25[0-4])$/", "rule", "/^1\\.2\\.3\\.(1?\\d{1,2}|2[0-4]\\d|25[0-4])$/"},
        {"||1.2.3.4^$client=lan", "bad", "conditions on an address are not in this version"},
        {"||1.2.3.4^$important", "prefix", "1.2.3.4/32"},
        /* for browsers */
        {"x.example##.ad", "empty", NULL},
        {"##.ad", "empty", NULL},
        {"x.example#@#.ad", "empty", NULL},
        {"x.example#?#div:has(> a)", "empty", NULL},
        {"x.example#$#body { a: b }", "empty", NULL},
        {"x.example#%#window.a = 1", "empty", NULL},
        {"x.example$$script[a=\"b\"]", "empty", NULL},
        {"||x.example^$third-party", "empty", NULL},
        {"||x.example^$3p", "empty", NULL},
        {"||x.example^$~third-party", "empty", NULL},
        {"||x.example^$domain=y.example|~z.example", "empty", NULL},
        {"||x.example^$script,image", "empty", NULL},
        {"||x.example^$script,unheard-of", "empty", NULL},
        {"||x.example^$popup,important", "empty", NULL},
        {"||x.example^$removeparam=a", "empty", NULL},
        {"||x.example^$csp=script-src 'self'", "empty", NULL},
        {"@@||x.example^$elemhide", "empty", NULL},
        {"||x.example/ads/*", "empty", NULL},
        {"||x.example/a", "empty", NULL},
        {"/ads/banner.", "empty", NULL},
        {"&ad_box=", "empty", NULL},
        {"https://x.example^", "empty", NULL},
        {"|http://x.example^", "empty", NULL},
        {"^ads.", "empty", NULL},
        {"||x.example^y", "empty", NULL},
        {"/$client=127.0.0.1", "empty", NULL},
        /* not understood */
        {"||x.example^$ctag=pc", "bad", "$ctag is not in this version"},
        {"||x.example^$dnsrewrite=1.2.3.4", "bad", "$dnsrewrite is not in this version; `answer` and `cname` of a filter rule say what is answered"},
        {"||x.example^$unknown", "bad", "a modifier that is not known"},
        {"||x.example^$elemhide", "bad", "a modifier that only an exception (@@) may have"},
        {"||x.example^$dnstype=", "bad", "$dnstype without a type"},
        {"||x.example^$dnstype=NONE", "bad", "$dnstype with a type that is not known"},
        {"||x.example^$dnstype=A||B", "bad", "$dnstype with a type that is not known"},
        {"||x.example^$client=", "bad", "$client without a client"},
        {"||x.example^$client=02:00:5e:10:00:01", "bad", "$client with an Ethernet address: give the name of a group of `clients`"},
        {"||x.example^$denyallow=~y.example", "bad", "$denyallow with what is no domain"},
        {"||x.example^$denyallow=y.*", "bad", "$denyallow with a wildcard is not in this version"},
        {"||x.example^$important=1", "bad", "a value behind a modifier that has none"},
        {"||.x.example^", "bad", "an empty or too long label, or a too long name"},
        {"||x..example^", "bad", "an empty or too long label, or a too long name"},
        {"||*^", "bad", "it matches every name"},
        {"*", "bad", "it matches every name"},
        {"a.", "bad", "too short: it would match too many names"},
        {"@@", "bad", "an empty rule"},
        {"/(/", "bad", "a group without its end"},
        {"/a(?=b)/", "bad", "look-around: AdGuard's DNS filter has none either"},
        {"/(a)\\1/", "bad", "a back-reference: AdGuard's DNS filter has none either"},
};

static void lines_become(void **state)
{
	char text[NAME_TEXT_MAX];
	struct line_entry e;
	const char *what;

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		memset(&e, 0, sizeof(e));
		what = parse_whole(&e, lines[i].line);
		if (strcmp(what, lines[i].what) != 0)
			fail_msg("%s is %s, not %s (%s)", lines[i].line, what, lines[i].what, e.what == LINE_BAD ? e.why : "");
		if (e.what == LINE_NAME)
			assert_string_equal(name_to_text(text, e.name.wire), lines[i].value);
		else if (e.what == LINE_BAD)
			assert_string_equal(e.why, lines[i].value);
		else if (e.what == LINE_RULE)
			assert_true(e.rule_len == strlen(lines[i].value) && memcmp(e.rule, lines[i].value, e.rule_len) == 0);
		if (e.what != LINE_PREFIX)
			continue;
		assert_int_equal(e.prefix.is_exempt, lines[i].value[0] == '!');
		assert_string_equal(prefix_print(text, &e.prefix.prefix), lines[i].value + e.prefix.is_exempt);
	}
}

/* The names of a hosts line one after another; `match:` may change them, not those of a rule. */
static void hosts_line(void **state)
{
	const char *line = "127.0.1.1  a.example \tb.example # c.example";
	struct line_entry e;
	size_t at = 0, len = strlen(line);

	list_format_adblock.parse(&e, line, len, &at);
	assert_int_equal(e.what, LINE_NAME);
	assert_int_equal(e.name.wire[1], 'a');
	assert_true(e.kind == KIND_EXACT && !e.is_marked && at < len);
	list_format_adblock.parse(&e, line, len, &at);
	assert_int_equal(e.name.wire[1], 'b');
	assert_int_equal(at, len);
	parse_whole(&e, "||x.example^");
	assert_true(e.is_marked);
	parse_whole(&e, "|x.example^");
	assert_true(e.is_marked);
	parse_whole(&e, "x.example");
	assert_false(e.is_marked);
}

static void long_line(void **state)
{
	char *line = malloc(LIST_LINE_MAX + 2);
	struct line_entry e;

	memset(line, 'a', LIST_LINE_MAX + 1);
	line[LIST_LINE_MAX + 1] = '\0';
	assert_string_equal(parse_whole(&e, line), "bad");
	line[LIST_LINE_MAX] = '\0';
	assert_string_equal(parse_whole(&e, line), "bad");
	memcpy(line, "||x.example##", 13);
	assert_string_equal(parse_whole(&e, line), "empty");
	memcpy(line, "||x.example^$third-party,domain=", 32);
	assert_string_equal(parse_whole(&e, line), "empty");
	memcpy(line, "||x.example^$important,client=aa", 32);
	assert_string_equal(parse_whole(&e, line), "bad");
	free(line);
}

static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Lines that would take long to be read, a list of which would be the end of a start. What is measured was two hundred times as much. */
static void hostile_lines(void **state)
{
	static const char *const hostile[] = {"/(a?){500}/", "/a{511}/", "/(a()){500}/", "/(a{30}){20}/", "/(a|^b|c$|d|e|f|g|h){60}/", "/(\\b?a\\b?){250}/"};
	size_t len = 4 << 20;
	char *line = malloc(len + 1);
	double begin = cpu_s();
	struct line_entry e;

	for (unsigned i = 0; i < 3000; i++)
		assert_string_equal(parse_whole(&e, hostile[i % (sizeof(hostile) / sizeof(*hostile))]), "bad");
	assert_string_equal(e.why, "the expression is too large");
	assert_non_null(line);
	memset(line, 'a', len);
	for (size_t i = 6; i < len; i += 2)
		line[i] = ',';
	line[len] = '\0';
	memcpy(line, "||x^$", 5);
	assert_string_equal(parse_whole(&e, line), "bad");
	assert_string_equal(e.why, "the line is too long");
	line[1000] = '\0';
	assert_string_equal(parse_whole(&e, line), "bad");
	assert_string_equal(e.why, "more modifiers than a rule may have");
	assert_true(cpu_s() - begin < 10);
	free(line);
	/* What names can hold is carried. */
	assert_string_equal(parse_whole(&e, "/^[a-z0-9-]{100,240}\\.test$/"), "rule");
	assert_string_equal(parse_whole(&e, "/^(ads?|track(er|ing)?|pixel|beacon){1,4}[0-9]{0,30}[.-]/"), "rule");
}

/* --- Verdicts of whole lists --- */

#define RR_A 1
#define RR_CNAME 5
#define RR_AAAA 28

static const char *const of_tags[] = {"||h1^$ctag=pc", "||h1^", "||h2^$ctag=pc", "||h5^", "||h5^$badfilter", "||h6^$badfilter", "||h6^$important"};
static const char *const of_clients[] = {"||h0^$client=127.0.0.1", "||h1^$client=~127.0.0.1", "||h2^$client=2001:db8::ffee",
        "||h4^$client=127.0.0.1/24", "||h5^$client=~127.0.0.1/24", "||h6^$client=2001:db8::ffee/120", "||h8^$client='Frank\\'s laptop'",
        "||h9^$client=\"a\\|b\"|127.0.0.9", "||h10^$client=::", "||h11^$client=127.0.0.0/8|~127.0.0.1"};
static const char *const of_types[] = {"||simple^$dnstype=AAAA", "||lower^$dnstype=aaaa", "||not^$dnstype=~AAAA", "||both^$dnstype=A|AAAA",
        "||neither^$dnstype=~A|~AAAA", "||mixed^$dnstype=~A|AAAA", "||number^$dnstype=TYPE65", "||two^$client=127.0.0.1,dnstype=AAAA"};
static const char *const of_hosts[] = {"||a.test^", "||b.test/*", "||c.test|", "0.0.0.0 d.test", ":: e.test", "127.0.1.1 f.test g", "h.test", "1.2.3.4  i.test  #[j.test]"};
static const char *const of_masks[] = {"test*.example.org^", "exam*.com", "||ads*.net^", "|begin.", "end.tld|", "-mid-", "||lab.el.", "://scheme.org", "/slash.", "||*.deep.org^", "a*b*c.org^"};
static const char *const of_allows[] = {"||blocked.test^", "@@||ok.blocked.test", "/regex\\.test/", "@@||ok.regex.test^", "@@||imp.test^", "||sub.imp.test^$important",
        "@@||spared.sub.imp.test^$important", "@@/^stats?\\./", "||stats.test^", "||typed.test^$dnstype=AAAA", "@@||ok.typed.test^", "127.0.0.1 host.test", "@@||host.test^"};
static const char *const of_bad[] = {"||a.test^", "||a.test^$badfilter", "@@||b.test^", "||b.test^", "@@||b.test^$badfilter", "||c.test^$dnstype=A|AAAA,client=127.0.0.1",
        "||c.test^$badfilter,client=127.0.0.1,dnstype=AAAA|A", "||d.test^$dnstype=A", "||d.test^$badfilter", "/e\\.test/", "/e\\.test/$badfilter", "f*.test^", "f*.test^$badfilter",
        "||g.test^$important", "||g.test^$badfilter", "x.h.test", "||h.test^", "||h.test^$badfilter", "||i.test^", "||s.i.test^", "||s.i.test^$badfilter", "||i.test^$badfilter",
        "||j.test^", "@@||j.test^", "@@||s.j.test^", "@@||s.j.test^$badfilter", "@@||j.test^$badfilter"};
static const char *const of_deny[] = {"*$denyallow=com|ok.net", "@@||let.net^"};
static const char *const of_browser[] = {"||a.test^$third-party", "||b.test^$unknown", "||c.test^$dnstype=NONE", "||d.test/path", "||e.test^$~script", "/$client=127.0.0.1", "&e.test&"};

#define LIST(l) l, sizeof(l) / sizeof(*(l))
static const struct {
	const char *const *rules;
	unsigned count;
	const char *host;
	uint16_t qtype;
	bool is_blocked;
	const char *client; /* an address, or a name */
} verdicts[] = {
        {LIST(of_tags), "h1", RR_A, true}, {LIST(of_tags), "h2", RR_A, false}, {LIST(of_tags), "h5", RR_A, false}, {LIST(of_tags), "h6", RR_A, true},
        {LIST(of_clients), "h0", RR_A, true, "127.0.0.1"}, {LIST(of_clients), "h0", RR_A, false, "127.0.0.2"}, {LIST(of_clients), "h0", RR_A, false},
        {LIST(of_clients), "h1", RR_A, false, "127.0.0.1"}, {LIST(of_clients), "h1", RR_A, true, "127.0.0.2"}, {LIST(of_clients), "h2", RR_A, true, "2001:db8::ffee"},
        {LIST(of_clients), "h2", RR_A, false, "2001:db8::ffef"}, {LIST(of_clients), "h4", RR_A, true, "127.0.0.254"}, {LIST(of_clients), "h4", RR_A, false, "127.0.1.1"},
        {LIST(of_clients), "h5", RR_A, true, "127.0.1.1"}, {LIST(of_clients), "h5", RR_A, false, "127.0.0.9"}, {LIST(of_clients), "h6", RR_A, true, "2001:db8::ff07"},
        {LIST(of_clients), "h6", RR_A, false, "2001:db8::feee"}, {LIST(of_clients), "h8", RR_A, true, "Frank's laptop"}, {LIST(of_clients), "h8", RR_A, false, "Franks laptop"},
        {LIST(of_clients), "h9", RR_A, true, "a|b"}, {LIST(of_clients), "h9", RR_A, true, "127.0.0.9"}, {LIST(of_clients), "h9", RR_A, false, "127.0.0.8"},
        {LIST(of_clients), "h10", RR_A, false, "::1"}, {LIST(of_clients), "h10", RR_A, true, "::"}, {LIST(of_clients), "h11", RR_A, true, "127.1.2.3"}, {LIST(of_clients), "h11", RR_A, false, "127.0.0.1"},
        {LIST(of_types), "simple", RR_AAAA, true}, {LIST(of_types), "simple", RR_A, false}, {LIST(of_types), "lower", RR_AAAA, true}, {LIST(of_types), "not", RR_A, true},
        {LIST(of_types), "not", RR_AAAA, false}, {LIST(of_types), "both", RR_AAAA, true}, {LIST(of_types), "both", RR_CNAME, false}, {LIST(of_types), "neither", RR_AAAA, false},
        {LIST(of_types), "neither", RR_A, false}, {LIST(of_types), "neither", RR_CNAME, true}, {LIST(of_types), "mixed", RR_AAAA, true}, {LIST(of_types), "mixed", RR_A, false},
        {LIST(of_types), "mixed", RR_CNAME, false}, {LIST(of_types), "number", 65, true}, {LIST(of_types), "two", RR_AAAA, true, "127.0.0.1"}, {LIST(of_types), "two", RR_AAAA, false, "127.0.0.2"},
        {LIST(of_types), "two", RR_A, false, "127.0.0.1"},
        {LIST(of_hosts), "a.test", RR_A, true}, {LIST(of_hosts), "x.a.test", RR_A, true}, {LIST(of_hosts), "xa.test", RR_A, false}, {LIST(of_hosts), "a.test.org", RR_A, false},
        {LIST(of_hosts), "b.test", RR_A, true}, {LIST(of_hosts), "c.test", RR_A, true}, {LIST(of_hosts), "d.test", RR_A, true}, {LIST(of_hosts), "x.d.test", RR_A, false},
        {LIST(of_hosts), "e.test", RR_AAAA, true}, {LIST(of_hosts), "f.test", RR_A, true}, {LIST(of_hosts), "g", RR_A, true}, {LIST(of_hosts), "h.test", RR_A, true},
        {LIST(of_hosts), "x.h.test", RR_A, false}, {LIST(of_hosts), "i.test", RR_A, true}, {LIST(of_hosts), "j.test", RR_A, false},
        {LIST(of_masks), "test2.example.org", RR_A, true}, {LIST(of_masks), "x-test.example.org", RR_A, true}, {LIST(of_masks), "test.example.org.uk", RR_A, false},
        {LIST(of_masks), "example.com", RR_A, true}, {LIST(of_masks), "example.org", RR_A, false}, {LIST(of_masks), "my-exam.ple.com.au", RR_A, true}, {LIST(of_masks), "example.co.uk", RR_A, false},
        {LIST(of_masks), "ads7.net", RR_A, true}, {LIST(of_masks), "x.ads.y.net", RR_A, true}, {LIST(of_masks), "xads.net", RR_A, false}, {LIST(of_masks), "ads.net.org", RR_A, false},
        {LIST(of_masks), "begin.x", RR_A, true}, {LIST(of_masks), "x.begin.x", RR_A, false}, {LIST(of_masks), "the-end.tld", RR_A, true}, {LIST(of_masks), "end.tld.x", RR_A, false},
        {LIST(of_masks), "a-mid-b", RR_A, true}, {LIST(of_masks), "lab.el.x", RR_A, true}, {LIST(of_masks), "x.lab.el.x", RR_A, true}, {LIST(of_masks), "slab.el.x", RR_A, false},
        {LIST(of_masks), "scheme.org", RR_A, true}, {LIST(of_masks), "scheme.org.uk", RR_A, true}, {LIST(of_masks), "x.scheme.org", RR_A, false}, {LIST(of_masks), "slash.x", RR_A, true},
        {LIST(of_masks), "x.slash.x", RR_A, false}, {LIST(of_masks), "deep.org", RR_A, false}, {LIST(of_masks), "x.deep.org", RR_A, true}, {LIST(of_masks), "xdeep.org", RR_A, false},
        {LIST(of_masks), "a1b2c.org", RR_A, true}, {LIST(of_masks), "acb.org", RR_A, false}, {LIST(of_masks), "abc.org", RR_A, true}, {LIST(of_masks), "ab.c.org.c.org", RR_A, true},
        {LIST(of_allows), "blocked.test", RR_A, true}, {LIST(of_allows), "ok.blocked.test", RR_A, false}, {LIST(of_allows), "x.ok.blocked.test", RR_A, false}, {LIST(of_allows), "regex.test", RR_A, true},
        {LIST(of_allows), "ok.regex.test", RR_A, false}, {LIST(of_allows), "okregex.test", RR_A, true}, {LIST(of_allows), "imp.test", RR_A, false}, {LIST(of_allows), "a.sub.imp.test", RR_A, true},
        {LIST(of_allows), "spared.sub.imp.test", RR_A, false}, {LIST(of_allows), "stats.test", RR_A, false}, {LIST(of_allows), "stat.stats.test", RR_A, false}, {LIST(of_allows), "x.stats.test", RR_A, true},
        {LIST(of_allows), "typed.test", RR_AAAA, true}, {LIST(of_allows), "ok.typed.test", RR_AAAA, false}, {LIST(of_allows), "host.test", RR_A, false},
        {LIST(of_bad), "a.test", RR_A, false}, {LIST(of_bad), "b.test", RR_A, true}, {LIST(of_bad), "c.test", RR_A, false, "127.0.0.1"}, {LIST(of_bad), "d.test", RR_A, true},
        {LIST(of_bad), "e.test", RR_A, false}, {LIST(of_bad), "foo.test", RR_A, false}, {LIST(of_bad), "g.test", RR_A, true}, {LIST(of_bad), "h.test", RR_A, false}, {LIST(of_bad), "x.h.test", RR_A, true},
        {LIST(of_bad), "s.i.test", RR_A, false}, {LIST(of_bad), "i.test", RR_A, false}, {LIST(of_bad), "s.j.test", RR_A, true},
        {LIST(of_deny), "x.org", RR_A, true}, {LIST(of_deny), "x.com", RR_A, false}, {LIST(of_deny), "com", RR_A, false}, {LIST(of_deny), "x.net", RR_A, true}, {LIST(of_deny), "a.ok.net", RR_A, false},
        {LIST(of_deny), "book.net", RR_A, true}, {LIST(of_deny), "let.net", RR_A, false},
        {LIST(of_browser), "a.test", RR_A, false}, {LIST(of_browser), "b.test", RR_A, false}, {LIST(of_browser), "c.test", RR_A, false}, {LIST(of_browser), "d.test", RR_A, false},
        {LIST(of_browser), "e.test", RR_A, true}, {LIST(of_browser), "any.org", RR_A, false, "127.0.0.1"},
};

/* Groups are numbered as the rules' names are; a client is in the group of its name. */
static bool ask(const struct adblock_world *w, const char *host, uint16_t qtype, const char *address, const char *name)
{
	uint16_t group_of[64];
	uint64_t groups = 0;
	struct addr a;
	struct expr_client client = {.groups = &groups, .group_of = group_of};
	unsigned count = w->exprs ? exprs_client_count(w->exprs) : 0;

	assert_true(count <= 64);
	for (unsigned i = 0; i < count; i++) {
		group_of[i] = (uint16_t)i;
		if (name && strcmp(name, exprs_client(w->exprs, i)) == 0)
			groups |= 1ull << i;
	}
	if (address && addr_parse(&a, address) == 0)
		client.addr = &a;
	return adblock_blocks(w, host, qtype, address || name ? &client : NULL);
}

static void lists_say(void **state)
{
	struct adblock_world w;

	for (size_t i = 0; i < sizeof(verdicts) / sizeof(*verdicts); i++) {
		adblock_open(&w, verdicts[i].rules, verdicts[i].count);
		if (ask(&w, verdicts[i].host, verdicts[i].qtype, verdicts[i].client, verdicts[i].client) != verdicts[i].is_blocked)
			fail_msg("%s of type %u for %s is %sblocked (first rule %s)", verdicts[i].host, verdicts[i].qtype,
			        verdicts[i].client ? verdicts[i].client : "nobody", verdicts[i].is_blocked ? "not " : "", verdicts[i].rules[0]);
		adblock_close(&w);
	}
}

static const char *text_of(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

/* $ctag is not carried: a case that only such a rule would block is left out, one that must not be blocked is not. */
static bool needs_tags(const json_t *c)
{
	return json_object_get(c, "client_tags") && json_is_true(json_object_get(c, "blocked")) && strcmp(text_of(c, "host"), "host1") != 0;
}

static bool one_case(const json_t *c)
{
	const char *rules[ADBLOCK_LINES_MAX], *type = text_of(c, "qtype");
	const json_t *list = json_object_get(c, "rules");
	struct adblock_world w;
	bool is_blocked;

	for (size_t i = 0; i < json_array_size(list); i++)
		rules[i] = json_string_value(json_array_get(list, i));
	adblock_open(&w, rules, (unsigned)json_array_size(list));
	is_blocked = ask(&w, text_of(c, "host"), strcmp(type, "AAAA") == 0 ? RR_AAAA : strcmp(type, "CNAME") == 0 ? RR_CNAME : RR_A, text_of(c, "client_ip"), text_of(c, "client_name"));
	if (json_is_true(json_object_get(c, "invalid_rule")))
		assert_int_equal(w.bad_lines, json_array_size(list));
	adblock_close(&w);
	return is_blocked == json_is_true(json_object_get(c, "blocked"));
}

static void cases_of_others(void **state)
{
	const char *path = getenv("NAMEWAY_ADBLOCK_CASES");
	unsigned asked = 0, wrong = 0, left_out = 0;
	json_t *root = path ? json_load_file(path, 0, NULL) : NULL, *c;
	size_t i;

	if (!root) {
		print_message("left out: NAMEWAY_ADBLOCK_CASES names no file of cases\n");
		skip();
	}
	json_array_foreach(json_object_get(root, "cases"), i, c) {
		if (needs_tags(c)) {
			left_out++;
			continue;
		}
		asked++;
		if (one_case(c))
			continue;
		wrong++;
		print_error("case %zu: %s\n", i, text_of(c, "host"));
	}
	print_message("%u cases asked, %u need $ctag\n", asked, left_out);
	assert_int_equal(wrong, 0);
	assert_true(asked > 50);
	json_decref(root);
}

static void finds_itself(void **state)
{
	static const char text[] = "! Title: x\n||a.example^\n@@||b.example^\n/ads[0-9]/\n";
	const char *name;

	assert_ptr_equal(list_format_detect(text, sizeof(text) - 1, &name), &list_format_adblock);
	assert_int_equal(list_format_adblock.probe(text, sizeof(text) - 1), 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(lines_become), cmocka_unit_test(hosts_line), cmocka_unit_test(long_line), cmocka_unit_test(hostile_lines),
	        cmocka_unit_test(lists_say), cmocka_unit_test(cases_of_others), cmocka_unit_test(finds_itself)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
