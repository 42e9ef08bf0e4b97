/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Names: text with escapes, limits of 63 and 255, compression rules, ancestors, suffix hashes. */
#include "make.h"

#include <stdio.h>

#include "base/err.h"
#include "wire/bytes.h"

static int from_text(struct name *n, const char *text)
{
	return name_from_text(n, text, strlen(text));
}

static void text_becomes_wire_and_back(void **state)
{
	struct name n = make_from_text("WWW.Example.com.");

	assert_int_equal(n.len, 17);
	assert_int_equal(n.labels, 3);
	assert_memory_equal(n.wire, "\3www\7example\3com", 17);
	assert_memory_equal(n.offset, "\0\4\14\20", 4);
	assert_name(&n, "www.example.com");
	n = make_from_text(".");
	assert_int_equal(n.len, 1);
	assert_int_equal(n.labels, 0);
	assert_name(&n, ".");
	n = make_from_text("a\\.b.\\065\\000\\255.x\\\\y");
	assert_memory_equal(n.wire, "\3a.b\3a\0\377\3x\\y", 13);
	assert_name(&n, "a\\.b.a\\000\\255.x\\\\y");
}

static void malformed_text_is_refused(void **state)
{
	static const char *const bad[] = {"", "..", ".a", "a..b", "a..", "a\\", "a\\1", "a\\12", "a\\256", "a\\1x2", "\\99"};
	struct name n;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (from_text(&n, bad[i]) != NW_EMALFORMED)
			fail_msg("'%s'", bad[i]);
}

static void limits_are_exact(void **state)
{
	char text[600], label[65];
	struct name n;

	memset(label, 'x', 64);
	label[64] = '\0';
	assert_int_equal(from_text(&n, label), NW_ETOOLONG);
	assert_int_equal(from_text(&n, label + 1), 0);
	snprintf(text, sizeof(text), "%s.%s.%s.%s", label + 1, label + 1, label + 1, label + 3);
	assert_int_equal(from_text(&n, text), 0);
	assert_int_equal(n.len, 255);
	snprintf(text, sizeof(text), "%s.%s.%s.%s", label + 1, label + 1, label + 1, label + 2);
	assert_int_equal(from_text(&n, text), NW_ETOOLONG);
	for (unsigned i = 0; i < 128; i++)
		memcpy(text + 2 * i, "a.", 3);
	assert_int_equal(from_text(&n, text), NW_ETOOLONG);
	assert_int_equal(from_text(&n, text + 2), 0);
	assert_int_equal(n.labels, NAME_LABELS_MAX);
	assert_int_equal(n.len, 255);
}

static void worst_name_fits_its_text(void **state)
{
	char buf[NAME_TEXT_MAX];
	uint8_t wire[255] = {63};
	struct name n;

	memset(wire + 1, 0xff, 253);
	wire[64] = wire[128] = 63;
	wire[192] = 61;
	wire[254] = 0;
	assert_int_equal(name_from_wire(&n, wire, sizeof(wire)), 255);
	name_to_text(buf, n.wire);
	assert_int_equal(strlen(buf), 250 * 4 + 3);
}

static void users_write_unicode(void **state)
{
	static const struct {
		const char *text, *ascii;
	} cases[] = {
		{"b\xc3\xbc"
		 "cher.example",
			"xn--bcher-kva.example"},
		{"B\xc3\x9c"
		 "CHER.example",
			"xn--bcher-kva.example"},
		{"stra\xc3\x9f"
		 "e.de",
			"xn--strae-oqa.de"},
		{"*.b\xc3\xbc"
		 "cher.example",
			"*.xn--bcher-kva.example"},
		{"_dmarc.example", "_dmarc.example"},
		{"xn--bcher-kva.example", "xn--bcher-kva.example"},
	};
	struct name n;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(name_from_user_text(&n, cases[i].text, strlen(cases[i].text)), 0);
		assert_name(&n, cases[i].ascii);
	}
	assert_int_equal(name_from_user_text(&n, "a\xff.example", 10), NW_EMALFORMED);
	assert_int_equal(name_from_user_text(&n, "\xc3\xbc\0a", 4), NW_EMALFORMED);
}

static void wire_is_checked(void **state)
{
	struct name n;

	assert_int_equal(name_from_wire(&n, (const uint8_t *)"\1A\0tail", 7), 3);
	assert_name(&n, "a");
	assert_int_equal(name_from_wire(&n, (const uint8_t *)"\1A", 2), NW_EMALFORMED);
	assert_int_equal(name_from_wire(&n, (const uint8_t *)"\1A\5b", 4), NW_EMALFORMED);
	assert_int_equal(name_from_wire(&n, (const uint8_t *)"\300\14", 2), NW_EMALFORMED);
	assert_int_equal(name_from_wire(&n, (const uint8_t *)"\100", 1), NW_EMALFORMED);
	assert_int_equal(name_from_wire(&n, (const uint8_t *)"", 0), NW_EMALFORMED);
}

static void pointers_go_back_to_whole_names(void **state)
{
	/* 12: example.com, 25: www + pointer, 31: pointer to 25, 33: to itself, 35: forward, 37: into the header */
	static const uint8_t msg[] = "............\7Example\3com\0\3www\300\14\300\31\300\41\300\50\300\4\1x\1";
	struct name n;

	assert_int_equal(name_from_message(&n, msg, sizeof(msg) - 1, 25), 31);
	assert_name(&n, "www.example.com");
	assert_int_equal(name_from_message(&n, msg, sizeof(msg) - 1, 31), 33);
	assert_name(&n, "www.example.com");
	assert_int_equal(n.labels, 3);
	assert_int_equal(name_from_message(&n, msg, sizeof(msg) - 1, 33), NW_EMALFORMED);
	assert_int_equal(name_from_message(&n, msg, sizeof(msg) - 1, 35), NW_EMALFORMED);
	assert_int_equal(name_from_message(&n, msg, sizeof(msg) - 1, 37), NW_EMALFORMED);
	assert_int_equal(name_from_message(&n, msg, sizeof(msg) - 1, 39), NW_EMALFORMED);
	assert_int_equal(name_from_message(&n, msg, 32, 31), NW_EMALFORMED);
	assert_int_equal(name_from_message(&n, msg, 30, 30), NW_EMALFORMED);
}

/* A segment that runs from before a name into it would read the name's own record. */
static void pointers_may_not_overlap_their_origin(void **state)
{
	static const uint8_t msg[] = "............\4ab\300\14\0";
	struct name n;

	assert_int_equal(name_from_message(&n, msg, sizeof(msg) - 1, 15), NW_EMALFORMED);
}

static void jumps_are_bounded(void **state)
{
	uint8_t msg[12 + 1 + 2 * 200] = {0};
	struct name n;

	for (unsigned i = 0; i < 200; i++)
		store16(msg + 13 + 2 * i, (uint16_t)(0xc000 | (i == 0 ? 12 : 13 + 2 * (i - 1))));
	assert_true(name_from_message(&n, msg, sizeof(msg), 13 + 2 * 126) > 0);
	assert_int_equal(n.len, 1);
	assert_int_equal(name_from_message(&n, msg, sizeof(msg), 13 + 2 * 127), NW_EMALFORMED);
}

static void ancestors(void **state)
{
	struct name com = make_from_text("com"), root = make_from_text("."), example = make_from_text("example.com"),
		    other = make_from_text("anexample.com"), www = make_from_text("www.example.com"),
		    trick = make_from_text("a\\003com");

	assert_true(name_is_under(&www, &example));
	assert_true(name_is_under(&www, &com));
	assert_true(name_is_under(&www, &root));
	assert_true(name_is_under(&example, &example));
	assert_false(name_is_under(&example, &www));
	assert_false(name_is_under(&other, &example));
	assert_false(name_is_under(&trick, &com));
	assert_true(name_is_under(&root, &root));
	assert_true(name_equal(&www, &www));
	assert_false(name_equal(&www, &example));
}

static void suffixes_hash_alike(void **state)
{
	uint64_t long_hash[NAME_LABELS_MAX + 1], short_hash[NAME_LABELS_MAX + 1];
	struct name www = make_from_text("www.example.com"), example = make_from_text("EXAMPLE.com"),
		    swapped = make_from_text("com.example");

	name_hash(&www, 99, long_hash);
	name_hash(&example, 99, short_hash);
	assert_memory_equal(long_hash + 1, short_hash, 3 * sizeof(uint64_t));
	assert_int_equal(long_hash[3], 99);
	assert_true(long_hash[0] != long_hash[1]);
	name_hash(&swapped, 99, long_hash);
	assert_true(long_hash[0] != short_hash[0]);
	name_hash(&example, 98, long_hash);
	assert_true(long_hash[0] != short_hash[0]);
}

static void lowering_changes_letters_only(void **state)
{
	for (size_t len = 0; len < 40; len++) {
		for (unsigned first = 0; first < 256; first++) {
			uint8_t in[40], out[41];

			out[len] = 0xaa;
			for (size_t i = 0; i < len; i++)
				in[i] = (uint8_t)(first + i * 3);
			lower_copy(out, in, len);
			assert_int_equal(out[len], 0xaa);
			for (size_t i = 0; i < len; i++)
				assert_int_equal(out[i], in[i] >= 'A' && in[i] <= 'Z' ? in[i] + 32 : in[i]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_becomes_wire_and_back),
		cmocka_unit_test(malformed_text_is_refused),
		cmocka_unit_test(limits_are_exact),
		cmocka_unit_test(worst_name_fits_its_text),
		cmocka_unit_test(users_write_unicode),
		cmocka_unit_test(wire_is_checked),
		cmocka_unit_test(pointers_go_back_to_whole_names),
		cmocka_unit_test(pointers_may_not_overlap_their_origin),
		cmocka_unit_test(jumps_are_bounded),
		cmocka_unit_test(ancestors),
		cmocka_unit_test(suffixes_hash_alike),
		cmocka_unit_test(lowering_changes_letters_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
