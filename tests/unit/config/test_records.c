/* SPDX-License-Identifier: GPL-3.0-or-later */
/* local.records: texts that become records, texts that do not, and records that do not go together. */
#include "fixture.h"
#include "wire/msg.h"

static struct parsed records_parse(const char *const *texts, size_t count)
{
	struct buf b;
	buf_init(&b, 1 << 24);
	buf_printf(&b, "local:\n  records:\n");
	for (size_t i = 0; i < count; i++)
		buf_printf(&b, "  - '%s'\n", texts[i]);
	struct parsed p = parse_bytes(b.bytes, b.len);
	buf_free(&b);
	return p;
}

struct good {
	const char *text, *owner;
	enum owner_scope scope;
	unsigned type, ttl_s, rdlen;
	const char *rdata;
};

static const struct good goods[] = {
        {"printer.lan A 192.168.8.9", "printer.lan", OWNER_EXACT, RR_A, 60, 4, "\xc0\xa8\x08\x09"},
        {"Printer2.Lan. 300 IN A 192.168.8.9", "printer2.lan", OWNER_EXACT, RR_A, 300, 4, "\xc0\xa8\x08\x09"},
        {"x.lan 0 AAAA 2001:db8::1", "x.lan", OWNER_EXACT, RR_AAAA, 0, 16, "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01"},
        {"www.lan CNAME printer.lan", "www.lan", OWNER_EXACT, RR_CNAME, 60, 13, "\007printer\003lan\0"},
        {"w2.lan CNAME printer.lan.", "w2.lan", OWNER_EXACT, RR_CNAME, 60, 13, "\007printer\003lan\0"},
        {"x.lan 300 TXT \"a b\"", "x.lan", OWNER_EXACT, RR_TXT, 300, 4, "\003a b"},
        {"x.lan 1h TXT \"a b\" c", "x.lan", OWNER_EXACT, RR_TXT, 3600, 6, "\003a b\001c"},
        {"lan MX 10 mail.lan", "lan", OWNER_EXACT, RR_MX, 60, 12, "\0\012\004mail\003lan\0"},
        {"_sip._udp.lan SRV 1 2 5060 pbx", "_sip._udp.lan", OWNER_EXACT, RR_SRV, 60, 11, "\0\001\0\002\023\304\003pbx\0"},
        {"9.8.168.192.in-addr.arpa PTR printer.lan", "9.8.168.192.in-addr.arpa", OWNER_EXACT, RR_PTR, 60, 13, "\007printer\003lan\0"},
        {"x.lan HTTPS 1 . alpn=h2", "x.lan", OWNER_EXACT, RR_HTTPS, 60, 10, "\0\001\0\0\001\0\003\002h2"},
        {"x.lan TYPE999 \\# 2 abcd", "x.lan", OWNER_EXACT, 999, 60, 2, "\xab\xcd"},
        {"x.lan TYPE998 \\# 0", "x.lan", OWNER_EXACT, 998, 60, 0, ""},
        {"*.dev.lan A 192.0.2.1", "dev.lan", OWNER_WILDCARD, RR_A, 60, 4, "\xc0\0\002\001"},
        {".sub.lan A 192.0.2.1", "sub.lan", OWNER_SUBTREE, RR_A, 60, 4, "\xc0\0\002\001"},
        {"*.x A 192.0.2.1", "x", OWNER_WILDCARD, RR_A, 60, 4, "\xc0\0\002\001"},
        {"b\xc3\xbc" "cher.lan A 192.0.2.1", "xn--bcher-kva.lan", OWNER_EXACT, RR_A, 60, 4, "\xc0\0\002\001"},
        {"  y.lan \t A   192.0.2.1   ; a comment", "y.lan", OWNER_EXACT, RR_A, 60, 4, "\xc0\0\002\001"},
        {"z.lan A ( 192.0.2.1 )", "z.lan", OWNER_EXACT, RR_A, 60, 4, "\xc0\0\002\001"},
        {"a\\ b.lan A 192.0.2.1", "a\\032b.lan", OWNER_EXACT, RR_A, 60, 4, "\xc0\0\002\001"},
};
enum { GOOD_COUNT = sizeof goods / sizeof *goods };

static void right_texts(void **state)
{
	const char *texts[GOOD_COUNT];
	for (size_t i = 0; i < GOOD_COUNT; i++)
		texts[i] = goods[i].text;
	struct parsed p = records_parse(texts, GOOD_COUNT);
	if (p.outcome)
		fail_msg("%s", said(&p));
	assert_int_equal(p.c->local.record_count, GOOD_COUNT);
	for (size_t i = 0; i < GOOD_COUNT; i++) {
		const struct cfg_record *r = &p.c->local.records[i];
		char text[NAME_TEXT_MAX];
		assert_string_equal(name_to_text(text, r->owner.wire), goods[i].owner);
		assert_int_equal(r->scope, goods[i].scope);
		assert_int_equal(r->type, goods[i].type);
		assert_int_equal(r->ttl_s, goods[i].ttl_s);
		assert_int_equal(r->rdlen, goods[i].rdlen);
		assert_memory_equal(r->rdata, goods[i].rdata, goods[i].rdlen);
		assert_int_equal(r->place.line, i + 3);
		assert_int_equal(r->place.column, 5);
	}
	parsed_free(&p);
}

static const struct {
	const char *text, *says;
} bads[] = {
        {"printer.lan", "there is nothing behind the owner"},
        {"printer.lan  ", "there is nothing behind the owner"},
        {"printer.lan A", "write it as in a zone file"},
        {"printer.lan A 192.168.8.999", "invalid IPv4 address"},
        {"printer.lan A 192.168.8.9 extra", "write it as in a zone file"},
        {"printer.lan AAAA 192.168.8.9", "write it as in a zone file"},
        {"printer.lan CH A 192.168.8.9", "write it as in a zone file"},
        {"printer.lan 99999999999 A 192.168.8.9", "number is bigger"},
        {"printer.lan 4294967295 A 192.168.8.9", "the TTL is too large"},
        {"printer.lan 5 5 A 192.168.8.9", "write it as in a zone file"},
        {"printer.lan BOGUS x", "a type that is not known"},
        {"printer.lan ANY x", "write it as in a zone file"},
        {"printer.lan TYPE255 \\# 0", "for questions only"},
        {"printer.lan TYPE41 \\# 0", "for questions only"},
        {"printer.lan TYPE0 \\# 0", "for questions only"},
        {"printer.lan A \\# 3 010203", "the data is not what its type has"},
        {"printer.lan CNAME \\# 2 c00c", "the data is not what its type has"},
        {"printer.lan CNAME \\# 18 0f616161616161616161616161616161c001", "the data is not what its type has"},
        {"printer.lan MX \\# 1 00", "the data is not what its type has"},
        {"printer.lan TXT b\xc3\xbc" "cher", "as its A-label"},
        {"printer.lan TXT \"open", "write it as in a zone file"},
        {"printer.lan A (", "write it as in a zone file"},
        {"$INCLUDE /etc/passwd", "write it as in a zone file"},
        {"printer.lan $INCLUDE /etc/passwd", "write it as in a zone file"},
        {". A 192.0.2.1", "does not begin with a domain name"},
        {"@ A 192.0.2.1", "does not begin with a domain name"},
        {"* A 192.0.2.1", "does not begin with a domain name"},
        {"*. A 192.0.2.1", "does not begin with a domain name"},
        {"*.*.x A 192.0.2.1", "does not begin with a domain name"},
        {".*.x A 192.0.2.1", "does not begin with a domain name"},
        {"..x A 192.0.2.1", "does not begin with a domain name"},
        {"a..b A 192.0.2.1", "does not begin with a domain name"},
};
enum { BAD_COUNT = sizeof bads / sizeof *bads };

/* All in one text: a fault does not disturb what stands behind it. */
static void wrong_texts(void **state)
{
	const char *texts[2 * BAD_COUNT];
	char owners[BAD_COUNT][64];
	for (size_t i = 0; i < BAD_COUNT; i++) {
		snprintf(owners[i], sizeof owners[i], "good%zu.lan A 192.0.2.7", i);
		texts[2 * i] = bads[i].text;
		texts[2 * i + 1] = owners[i];
	}
	struct parsed p = records_parse(texts, 2 * BAD_COUNT);
	assert_int_equal(p.outcome, NW_ECONFIG);
	if (p.r.errors != BAD_COUNT)
		fail_msg("%u errors for %d faults:\n%s", p.r.errors, BAD_COUNT, said(&p));
	for (size_t i = 0; i < BAD_COUNT; i++) {
		char wanted[64];
		snprintf(wanted, sizeof wanted, "t.yaml:%zu:5: error: `records`: `", 2 * i + 3);
		const char *line = strstr(said(&p), wanted), *end = line ? strchr(line, '\n') : NULL;
		const char *says = line ? strstr(line, bads[i].says) : NULL;
		if (!end || !says || says > end || !memchr(line, ';', (size_t)(end - line)))
			fail_msg("%s\nwanted: %s\nsaid:\n%s", bads[i].text, bads[i].says, said(&p));
	}
	parsed_free(&p);
}

static void control_characters(void **state)
{
	struct parsed p = parse("local: { records: [\"x.lan A 192.0.2.1\\ny.lan A 192.0.2.2\"] }\n");
	assert_int_equal(p.outcome, NW_ECONFIG);
	assert_non_null(strstr(said(&p), "t.yaml:1:20: error: `records`: "));
	assert_non_null(strstr(said(&p), "control character"));
	parsed_free(&p);
}

static void expect_clash(const char *const *texts, size_t count, const char *wanted)
{
	struct parsed p = records_parse(texts, count);
	if (p.outcome != NW_ECONFIG || p.r.errors != 1 || !strstr(said(&p), wanted))
		fail_msg("wanted: %s\nsaid: %s", wanted, said(&p));
	parsed_free(&p);
}

static void a_cname_stands_alone(void **state)
{
	static const char *const beside[] = {"a.lan A 192.0.2.1", "b.lan A 192.0.2.1", "A.Lan. CNAME b.lan"};
	static const char *const before[] = {"a.lan CNAME b.lan", "a.lan TXT x"};
	static const char *const two[] = {"a.lan CNAME b.lan", "x.lan A 192.0.2.1", "a.lan CNAME c.lan"};
	static const char *const same[] = {"a.lan CNAME b.lan", "a.lan CNAME b.lan"};
	static const char *const wild[] = {"*.a.lan CNAME b.lan", "*.a.lan A 192.0.2.1"};
	static const char *const apart[] = {"a.lan CNAME b.lan", "*.a.lan A 192.0.2.1", ".a.lan TXT x", "b.a.lan CNAME b.lan"};
	expect_clash(beside, 3, "t.yaml:5:5: error: `records`: `a.lan` has other data already, given at t.yaml:3:5, and a CNAME stands alone");
	expect_clash(before, 2, "t.yaml:4:5: error: `records`: `a.lan` has other data already, given at t.yaml:3:5");
	expect_clash(two, 3, "t.yaml:5:5: error: `records`: `a.lan` has a CNAME already, given at t.yaml:3:5");
	expect_clash(same, 2, "t.yaml:4:5: error: `records`: `a.lan` has a CNAME already, given at t.yaml:3:5");
	expect_clash(wild, 2, "t.yaml:4:5: error: `records`: `*.a.lan` has other data already, given at t.yaml:3:5");
	struct parsed p = records_parse(apart, 4);
	assert_int_equal(p.outcome, 0);
	parsed_free(&p);
}

static void a_record_twice_is_left_out(void **state)
{
	static const char *const texts[] = {"a.lan A 192.0.2.1", "b.lan A 192.0.2.1", "a.lan A 192.0.2.2", "A.lan 300 A 192.0.2.1", "*.a.lan A 192.0.2.1"};
	struct parsed p = records_parse(texts, 5);
	assert_int_equal(p.outcome, 0);
	assert_int_equal(p.c->local.record_count, 4);
	assert_int_equal(p.c->local.records[2].rdata[3], 2);
	assert_int_equal(p.c->local.records[3].scope, OWNER_WILDCARD);
	assert_non_null(strstr(said(&p), "t.yaml:6:5: warning: `records`: this record is already given at t.yaml:3:5"));
	parsed_free(&p);
}

static void as_many_as_there_may_be(void **state)
{
	for (unsigned more = 0; more < 2; more++) {
		struct buf b;
		buf_init(&b, CONFIG_FILE_MAX);
		buf_printf(&b, "local:\n  records:\n");
		for (unsigned i = 0; i < CONFIG_RECORDS_MAX + more; i++)
			buf_printf(&b, "  - n%u.lan A 192.0.2.1\n", i);
		struct parsed p = parse_bytes(b.bytes, b.len);
		assert_int_equal(p.outcome, more ? NW_ECONFIG : 0);
		if (!more)
			assert_int_equal(p.c->local.record_count, CONFIG_RECORDS_MAX);
		parsed_free(&p);
		buf_free(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(right_texts),
	        cmocka_unit_test(wrong_texts),
	        cmocka_unit_test(control_characters),
	        cmocka_unit_test(a_cname_stands_alone),
	        cmocka_unit_test(a_record_twice_is_left_out),
	        cmocka_unit_test(as_many_as_there_may_be),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
