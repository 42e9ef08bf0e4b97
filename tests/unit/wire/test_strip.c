/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Hints taken out of HTTPS answers: parameters, mandatory lists, and names behind the cut that point before and behind it. */
#include "make.h"

#include "base/err.h"
#include "wire/patch.h"

static const char v6[] = "\x20\1\xd\xb8\0\0\0\0\0\0\0\0\0\0\0\1";
static struct make m, wanted;
static uint8_t out[65536];

static void strip(int family, bool is_changed)
{
	bool changed = !is_changed;

	assert_int_equal(wire_strip_hints(out, sizeof(out), m.bytes, m.len, family, &changed), wanted.len);
	assert_memory_equal(out, wanted.bytes, wanted.len);
	assert_int_equal(changed, is_changed);
}

static void begin(struct make *to, unsigned ns)
{
	make_head(to, FLAG_QR, 1, ns, 0, "Www.example", RR_HTTPS);
	make_rr(to, NULL, RR_HTTPS, 60);
	make16(to, 1);
	make_name(to, "svc.example");
}

static void one_family_goes(void **state)
{
	begin(&m, 0);
	make_param(&m, 1, "\2h2", 3);
	make_param(&m, 4, "\xc0\0\2\1", 4);
	make_param(&m, 6, v6, 16);
	begin(&wanted, 0);
	make_param(&wanted, 1, "\2h2", 3);
	make_param(&wanted, 4, "\xc0\0\2\1", 4);
	strip(AF_INET6, true);
	begin(&wanted, 0);
	make_param(&wanted, 1, "\2h2", 3);
	make_param(&wanted, 6, v6, 16);
	strip(AF_INET, true);
}

static void mandatory_lists_lose_the_key(void **state)
{
	begin(&m, 0);
	make_param(&m, 0, "\0\1\0\6\0\4", 6);
	make_param(&m, 1, "\2h2", 3);
	make_param(&m, 6, v6, 16);
	begin(&wanted, 0);
	make_param(&wanted, 0, "\0\1\0\4", 4);
	make_param(&wanted, 1, "\2h2", 3);
	strip(AF_INET6, true);
	begin(&m, 0);
	make_param(&m, 0, "\0\6", 2);
	make_param(&m, 6, v6, 16);
	begin(&wanted, 0);
	strip(AF_INET6, true);
}

/* An NS record whose owner points before the hint and whose name is the target of the next record's pointer behind it. */
static void names_behind_the_cut_still_fit(void **state)
{
	for (unsigned is_wanted = 0; is_wanted < 2; is_wanted++) {
		struct make *to = is_wanted ? &wanted : &m;
		size_t ns_at, end;

		begin(to, 2);
		if (!is_wanted)
			make_param(to, 6, v6, 16);
		make_rr(to, NULL, RR_NS, 60);
		ns_at = to->len;
		make_name(to, "ns1.example.net");
		make_rr(to, NULL, RR_NS, 60);
		make_bytes(to, "\3ns2", 4);
		make16(to, 0xc000 | (unsigned)(ns_at + 4));
		end = to->len;
		assert_in_range(end, 60, 200);
	}
	strip(AF_INET6, true);
}

static void without_hints_nothing_changes_but_the_additional(void **state)
{
	begin(&m, 1);
	make_param(&m, 1, "\2h2", 3);
	make_soa(&m, "example", 60, 60);
	wanted = m;
	/* A hint outside of the answer section is no answer. */
	m.bytes[11] = 1;
	make_rr(&m, NULL, RR_HTTPS, 60);
	make16(&m, 1);
	make_name(&m, ".");
	make_param(&m, 6, v6, 16);
	strip(AF_INET6, false);
	strip(AF_INET, false);
}

static void pointers_into_a_hint_are_malformed(void **state)
{
	bool changed;
	size_t hint_at;

	begin(&m, 1);
	make_param(&m, 6, "\1a\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 16);
	hint_at = m.len - 16;
	make_rr(&m, NULL, RR_NS, 60);
	make16(&m, 0xc000 | (unsigned)hint_at);
	assert_int_equal(wire_strip_hints(out, sizeof(out), m.bytes, m.len, AF_INET6, &changed), NW_EMALFORMED);
	assert_true(wire_strip_hints(out, sizeof(out), m.bytes, m.len, AF_INET, &changed) > 0);
}

static void bad_messages_are_refused(void **state)
{
	bool changed;

	begin(&m, 0);
	make_param(&m, 6, v6, 16);
	for (size_t len = 0; len < m.len; len++)
		assert_int_equal(wire_strip_hints(out, sizeof(out), m.bytes, len, AF_INET6, &changed), NW_EMALFORMED);
	assert_int_equal(wire_strip_hints(out, m.len - 1, m.bytes, m.len, AF_INET6, &changed), NW_ETOOLONG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_family_goes),
		cmocka_unit_test(mandatory_lists_lose_the_key),
		cmocka_unit_test(names_behind_the_cut_still_fit),
		cmocka_unit_test(without_hints_nothing_changes_but_the_additional),
		cmocka_unit_test(pointers_into_a_hint_are_malformed),
		cmocka_unit_test(bad_messages_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
