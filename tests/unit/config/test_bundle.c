/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The bundle's bytes, and reading files into one. Files live in a directory made for the test. */
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "fixture.h"

static char dir[] = "/tmp/nameway-config-XXXXXX";

static const char *path_of(const char *name)
{
	static char path[256];
	snprintf(path, sizeof path, "%s/%s", dir, name);
	return path;
}

static void put(const char *name, const char *text)
{
	FILE *f = fopen(path_of(name), "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	return remove(path);
}

static int dir_make(void **state)
{
	strcpy(dir + strlen(dir) - 6, "XXXXXX");
	return mkdtemp(dir) && mkdir(path_of("conf.d"), 0700) == 0 ? 0 : -1;
}

static int dir_remove(void **state)
{
	return nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Reads DIR/name and parses the bundle. */
static struct parsed read_and_parse(const char *name)
{
	struct parsed p = {0};
	struct buf b;
	report_init(&p.r);
	p.outcome = config_bundle_read(&b, path_of(name), &p.r);
	assert_true((p.outcome == 0) == (p.r.errors == 0));
	if (p.outcome == 0)
		p.outcome = config_parse(&p.c, b.bytes, b.len, &p.r);
	buf_free(&b);
	return p;
}

static void expect_error(const char *main_name, const char *fmt, ...)
{
	char wanted[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(wanted, sizeof wanted, fmt, ap);
	va_end(ap);
	struct parsed p = read_and_parse(main_name);
	if (p.outcome != NW_ECONFIG || !strstr(said(&p), wanted))
		fail_msg("wanted: %s\nsaid: %s", wanted, said(&p));
	parsed_free(&p);
}

static void the_bytes_come_back(void **state)
{
	struct buf b;
	struct bundle_reader r;
	struct bundle_member f;
	buf_init(&b, BUNDLE_MAX);
	bundle_begin(&b, "/x");
	bundle_add(&b, "one", "a: b\nend 1 0000000000000000\n", 28);
	bundle_add(&b, "two", "", 0);
	bundle_end(&b, 2);
	assert_int_equal(bundle_open(&r, b.bytes, b.len), 0);
	assert_int_equal(r.cwd_len, 2);
	assert_int_equal(bundle_next(&r, &f), 1);
	assert_int_equal(f.path_len, 3);
	assert_int_equal(f.text_len, 28);
	assert_memory_equal(f.text, "a: b\nend 1", 10);
	assert_int_equal(bundle_next(&r, &f), 1);
	assert_memory_equal(f.path, "two", 3);
	assert_int_equal(f.text_len, 0);
	assert_int_equal(bundle_next(&r, &f), 0);
	buf_free(&b);
}

static void damage_is_refused(void **state)
{
	struct buf b;
	struct report r;
	struct config *c = NULL;
	bundle_of(&b, "cache: { size: 2MiB }\n", 22);
	for (size_t len = 0; len < b.len; len++) {
		char *copy = malloc(len + 1); /* of exact length, so that a read past the end is seen */
		memcpy(copy, b.bytes, len);
		copy = realloc(copy, len ? len : 1);
		report_init(&r);
		assert_int_equal(config_parse(&c, copy, len, &r), NW_EMALFORMED);
		assert_int_equal(r.errors, 1);
		report_free(&r);
		free(copy);
	}
	for (size_t i = 0; i < b.len; i++) {
		b.bytes[i] ^= 1;
		report_init(&r);
		assert_int_equal(config_parse(&c, b.bytes, b.len, &r), NW_EMALFORMED);
		report_free(&r);
		b.bytes[i] ^= 1;
	}
	assert_null(c);
	buf_free(&b);
}

/* Bundles whose hash is right and whose lengths lie. */
static void lying_lengths_are_refused(void **state)
{
	static const char *const bodies[] = {"nameway-bundle 1\ncwd 99\n/\n", "nameway-bundle 1\ncwd 18446744073709551615\n/\n",
	        "nameway-bundle 1\ncwd 1\n/\nfile 1 99\na\nb\n", "nameway-bundle 1\ncwd 1\n/\nfile 99 1\na\nb\n",
	        "nameway-bundle 1\ncwd 1\n/\nfile 0 1\n\nb\n", "nameway-bundle 1\ncwd 1\n/\nfile 1 1\na\nb\nfile 1 1\na\nb\n",
	        "nameway-bundle 1\ncwd 1\n/\nfile 1 -1\na\nb\n", "nameway-bundle 1\ncwd 1\n/\n", "nameway-bundle 1\n",
	        "nameway-bundle 2\ncwd 1\n/\nfile 1 1\na\nb\n"};
	for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
		struct buf b;
		struct report r;
		struct config *c = NULL;
		buf_init(&b, BUNDLE_MAX);
		buf_add(&b, bodies[i], strlen(bodies[i]));
		bundle_end(&b, 1);
		report_init(&r);
		if (config_parse(&c, b.bytes, b.len, &r) != NW_EMALFORMED || c)
			fail_msg("accepted: %s", bodies[i]);
		report_free(&r);
		buf_free(&b);
	}
}

static void includes_merge_in_order(void **state)
{
	put("main.yaml", "include: [\"conf.d/*.yaml\", last.yaml]\nlists: { main: { files: m } }\nways: { direct: {} }\nsteer: "
	                 "[{ gid: 1, way: direct }]\n");
	put("conf.d/20.yaml", "lists: { b: { files: b } }\nsteer: [{ gid: 3, way: direct }]\nfilter: [{ block: drop }]\n");
	put("conf.d/10.yaml", "lists: { a: { files: ../a } }\nsteer:\n- { gid: 2, way: direct }\n");
	put("conf.d/notes.txt", "no: [ yaml\n");
	put("last.yaml", "# nothing\n");
	struct parsed p = read_and_parse("main.yaml");
	if (p.outcome)
		fail_msg("%s", said(&p));
	char a[300], b[300];
	snprintf(a, sizeof a, "%s/conf.d/../a", dir);
	snprintf(b, sizeof b, "%s/conf.d/b", dir);
	assert_int_equal(p.c->list_count, 3);
	assert_string_equal(p.c->lists[1].files[0], a);
	assert_string_equal(p.c->lists[2].files[0], b);
	assert_int_equal(p.c->steer_count, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(p.c->steers[i].gid, i + 1);
	assert_int_equal(p.c->filter_count, 1);
	assert_string_equal(p.c->filters[0].place.file, path_of("conf.d/20.yaml"));
	assert_int_equal(p.c->steers[1].place.line, 3);
	parsed_free(&p);
}

static void a_key_twice_names_both_places(void **state)
{
	put("main.yaml", "lists:\n  ads: { files: m }\ncache: { size: 1MiB }\ninclude: more.yaml\n");
	put("more.yaml", "lists:\n  other: { files: m }\n  ads: { files: n }\n");
	expect_error("main.yaml", "more.yaml:3:3: error: `ads` is already given at %s/main.yaml:2:3", dir);
	put("more.yaml", "cache:\n  size: 2MiB\n");
	expect_error("main.yaml", "more.yaml:2:3: error: `size` is already given at %s/main.yaml:3:10", dir);
	put("more.yaml", "cache: 1\n");
	expect_error("main.yaml", "more.yaml:1:1: error: `cache` is already given at %s/main.yaml:3:1", dir);
}

static void empty_sections_merge(void **state)
{
	put("main.yaml", "filter:\nlists:\nclients: { a: {} }\ninclude: more.yaml\n");
	put("more.yaml", "filter: [{ clients: [a], block: drop }]\nlists: { x: { files: y } }\nclients:\n");
	struct parsed p = read_and_parse("main.yaml");
	if (p.outcome)
		fail_msg("%s", said(&p));
	assert_int_equal(p.c->filter_count, 1);
	assert_int_equal(p.c->list_count, 1);
	parsed_free(&p);
}

static void includes_that_fail(void **state)
{
	put("main.yaml", "include:\n- conf.d/absent.yaml\n");
	expect_error("main.yaml", "main.yaml:2:3: error: included file %s/conf.d/absent.yaml cannot be read", dir);
	put("main.yaml", "include: conf.d\n");
	expect_error("main.yaml", "main.yaml:1:10: error: included file %s/conf.d is no regular file", dir);
	assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
	put("main.yaml", "include: pipe\n");
	expect_error("main.yaml", "is no regular file");
	put("main.yaml", "include: main.yaml\n");
	expect_error("main.yaml", "is included twice, or includes itself");
	put("main.yaml", "include: a.yaml\n");
	put("a.yaml", "include: main.yaml\n");
	expect_error("main.yaml", "a.yaml:1:10: error: included file %s/main.yaml is included twice", dir);
	put("a.yaml", "cache: { size: 5 }\n");
	expect_error("main.yaml", "a.yaml:1:16: error: `size`: `5` is not a size");
	put("a.yaml", "cache: [\n");
	expect_error("main.yaml", "a.yaml:2:1: error: this is no YAML");
	expect_error("absent.yaml", "absent.yaml: error: this file cannot be read");
}

static void a_glob_without_match_is_a_warning(void **state)
{
	put("main.yaml", "include: \"conf.d/*.yml\"\n");
	struct parsed p = read_and_parse("main.yaml");
	assert_int_equal(p.outcome, 0);
	assert_non_null(strstr(said(&p), "main.yaml:1:10: warning: `include`: no file matches"));
	parsed_free(&p);
}

static void limits_of_files(void **state)
{
	char name[32], text[64];
	for (int i = 0; i < 10; i++) {
		snprintf(name, sizeof name, "deep%d.yaml", i);
		snprintf(text, sizeof text, "include: deep%d.yaml\n", i + 1);
		put(name, i == 9 ? "" : text);
	}
	expect_error("deep0.yaml", "deep8.yaml:1:10: error: `include` goes deeper than 8");
	struct parsed p = read_and_parse("deep1.yaml");
	assert_int_equal(p.outcome, 0);
	parsed_free(&p);
	put("main.yaml", "include: \"conf.d/*\"\n");
	for (int i = 0; i < BUNDLE_FILES_MAX; i++) {
		snprintf(name, sizeof name, "conf.d/%d.yaml", i);
		put(name, "");
	}
	expect_error("main.yaml", "is one too many: at most 256 files");
	put("large.yaml", "");
	assert_int_equal(truncate(path_of("large.yaml"), CONFIG_FILE_MAX + 1), 0);
	expect_error("large.yaml", "large.yaml: error: this file is larger than 16 MiB");
}

static void brackets_in_the_directory_are_no_glob(void **state)
{
	assert_int_equal(mkdir(path_of("a[1]"), 0700), 0);
	put("a[1]/main.yaml", "include: \"*.inc\"\n");
	put("a[1]/x.inc", "cache: { size: 3MiB }\n");
	struct parsed p = read_and_parse("a[1]/main.yaml");
	assert_int_equal(p.outcome, 0);
	assert_int_equal(p.c->cache.bytes, 3 << 20);
	parsed_free(&p);
}

static void a_relative_path_stays_as_given(void **state)
{
	char before[4096], absolute[4200];
	struct buf b;
	struct report r;
	struct config *c = NULL;
	put("main.yaml", "lists: { a: { files: x } }\n");
	assert_non_null(getcwd(before, sizeof before));
	assert_int_equal(chdir(dir), 0);
	snprintf(absolute, sizeof absolute, "%s/x", dir);
	report_init(&r);
	assert_int_equal(config_bundle_read(&b, "main.yaml", &r), 0);
	assert_int_equal(chdir(before), 0);
	assert_int_equal(config_parse(&c, b.bytes, b.len, &r), 0);
	assert_string_equal(c->lists[0].place.file, "main.yaml");
	assert_string_equal(c->lists[0].files[0], absolute);
	config_free(c);
	buf_free(&b);
	report_free(&r);
}

static void a_file_everybody_may_write_is_a_warning(void **state)
{
	put("main.yaml", "");
	assert_int_equal(chmod(path_of("main.yaml"), 0666), 0);
	struct parsed p = read_and_parse("main.yaml");
	assert_int_equal(p.outcome, 0);
	assert_non_null(strstr(said(&p), "everybody may write this file"));
	parsed_free(&p);
}

static void the_machine_is_looked_at(void **state)
{
	put("main.yaml", "server: { user: no-such-user-nw, listen: [lo, nosuchif0] }\nlists: { a: { files: [main.yaml, "
	                 "\"*.yaml\", gone.txt, \"gone*\"] } }\n"
	                 "ways: { t: { interface: nosuchif1 } }\n");
	struct parsed p = read_and_parse("main.yaml");
	assert_int_equal(p.outcome, 0);
	config_check_system(p.c, &p.r);
	assert_int_equal(p.r.errors, 0);
	static const char *const wanted[] = {"there is no user `no-such-user-nw`",
	        "main.yaml:1:47: warning: `listen`: there is no interface `nosuchif0`", "gone.txt; the list stays empty",
	        "gone*; the list stays empty", "main.yaml:3:9: warning: `ways`: there is no interface `nosuchif1`"};
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
		if (!strstr(said(&p), wanted[i]))
			fail_msg("wanted: %s\nsaid: %s", wanted[i], said(&p));
	assert_null(strstr(said(&p), "there is no interface `lo`"));
	assert_null(strstr(said(&p), "main.yaml; the list"));
	parsed_free(&p);
}

#define IN_DIR(test) cmocka_unit_test_setup_teardown(test, dir_make, dir_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(the_bytes_come_back),
	        cmocka_unit_test(damage_is_refused),
	        cmocka_unit_test(lying_lengths_are_refused),
	        IN_DIR(includes_merge_in_order),
	        IN_DIR(a_key_twice_names_both_places),
	        IN_DIR(empty_sections_merge),
	        IN_DIR(includes_that_fail),
	        IN_DIR(a_glob_without_match_is_a_warning),
	        IN_DIR(limits_of_files),
	        IN_DIR(brackets_in_the_directory_are_no_glob),
	        IN_DIR(a_relative_path_stays_as_given),
	        IN_DIR(a_file_everybody_may_write_is_a_warning),
	        IN_DIR(the_machine_is_looked_at),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
