/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_whole WHOLE.yaml EXAMPLE.yaml: exactly which keys of the whole interface this version refuses, that the packaged
 * example is accepted without a word, and that the reference holds every key. */
#include <stdlib.h>
#include "config/nearest.h"
#include "config/schema.h"
#include "fixture.h"

static const char *whole_path, *example_path;

/* In the order of the report: keys as the tree is walked, then values. */
static const char *const refused_keys[] = {
        "`lists.hazard.rpz`",
        "`lists.hazard.zone`",
        "`lists.hazard.override`",
        "`lists.hazard.max-ttl`",
        "`lists.feed.zone`",
        "`lists.feed.primaries`",
        "`lists.feed.tsig`",
        "`keys`",
        "`dhcp`",
        "`kernel`",
        "`web`",
};
enum { REFUSED_COUNT = sizeof refused_keys / sizeof *refused_keys };

static void exactly_these_keys_are_refused(void **state)
{
	struct report r;
	struct buf b;
	struct config *c = NULL;
	report_init(&r);
	assert_int_equal(config_bundle_read(&b, whole_path, &r), 0);
	assert_int_equal(config_parse(&c, b.bytes, b.len, &r), NW_ECONFIG);
	unsigned n = 0;
	char *rest = r.text.bytes;
	for (char *line; (line = strsep(&rest, "\n")) && *line;) {
		char *error = strstr(line, ": error: ");
		if (!error)
			continue;
		if (n == REFUSED_COUNT)
			fail_msg("one more: %s", line);
		char wanted[128];
		snprintf(wanted, sizeof wanted, ": error: %s is not in this version; take it out", refused_keys[n]);
		if (strcmp(error, wanted))
			fail_msg("wanted %s\n   got %s", wanted, line);
		n++;
	}
	assert_int_equal(n, REFUSED_COUNT);
	assert_int_equal(r.errors, REFUSED_COUNT);
	buf_free(&b);
	report_free(&r);
}

static void the_example_is_accepted(void **state)
{
	struct report r;
	struct buf b;
	struct config *c = NULL;
	report_init(&r);
	assert_int_equal(config_bundle_read(&b, example_path, &r), 0);
	if (config_parse(&c, b.bytes, b.len, &r) || r.warnings)
		fail_msg("%s", r.text.bytes);
	assert_int_equal(c->server.listen_count, 2);
	assert_true(c->default_upstream >= 0);
	config_free(c);
	buf_free(&b);
	report_free(&r);
}

static void the_reference_has_every_key(void **state)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	schema_print_reference(f);
	fclose(f);
	for (unsigned i = 0; i < schema_key_count; i++) {
		const struct schema_key *k = &schema_keys[i];
		char wanted[160];
		const char *star = strchr(k->path, '*');
		snprintf(wanted, sizeof wanted, "%s `%.*s%s%s`\n", k->is_carried ? "##" : "-", star ? (int)(star - k->path) : 99,
		        k->path, star ? "NAME" : "", star ? star + 1 : "");
		if (!strstr(text, wanted))
			fail_msg("not in the reference: %s", wanted);
		if (k->is_carried)
			assert_true(k->type && k->doc);
		for (unsigned j = 0; j < i; j++)
			assert_string_not_equal(k->path, schema_keys[j].path);
	}
	free(text);
}

static void distances(void **state)
{
	assert_int_equal(nearest_distance("", ""), 0);
	assert_int_equal(nearest_distance("abc", ""), 3);
	assert_int_equal(nearest_distance("", "abc"), 3);
	assert_int_equal(nearest_distance("listen", "listne"), 1);
	assert_int_equal(nearest_distance("kitten", "sitting"), 3);
	assert_int_equal(nearest_distance("ca", "abc"), 3);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(exactly_these_keys_are_refused),
	        cmocka_unit_test(the_example_is_accepted),
	        cmocka_unit_test(the_reference_has_every_key),
	        cmocka_unit_test(distances),
	};
	if (argc != 3)
		return 2;
	whole_path = argv[1];
	example_path = argv[2];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
