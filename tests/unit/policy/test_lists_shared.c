/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Published lists: what is the same list in several formats gives the same verdicts, and the oddities that such files have do not
 * matter. The files lie outside of the project, in the directory that the environment names as NAMEWAY_SHARED or in ../shared
 * beside the source; without them the test is skipped. */
#include "lists_world.h"

static bool is_absent;

/* The unpacked file, or NULL and the test is skipped. */
static char *read_shared(const char *file, size_t *ret_len)
{
	const char *shared = getenv("NAMEWAY_SHARED"), *root = getenv("NAMEWAY_SOURCE_ROOT");
	char path[4096], command[4200];
	struct buf b;
	FILE *f;

	if (shared)
		snprintf(path, sizeof(path), "%s/data/lists/%s.gz", shared, file);
	else
		snprintf(path, sizeof(path), "%s/../shared/data/lists/%s.gz", root ? root : ".", file);
	if (access(path, R_OK) < 0) {
		print_message("skipped: no %s (set NAMEWAY_SHARED)\n", path);
		is_absent = true;
		return NULL;
	}
	snprintf(command, sizeof(command), "gzip -dc '%s'", path);
	f = popen(command, "r");
	assert_non_null(f);
	buf_init(&b, 256 << 20);
	assert_int_equal(buf_read_fd(&b, fileno(f)), 0);
	assert_int_equal(pclose(f), 0);
	*ret_len = b.len;
	return b.bytes;
}

static bool offer_shared(struct world *w, unsigned list, const char *file)
{
	struct list_file f;
	size_t len;
	char *text = read_shared(file, &len);
	int r;

	if (!text)
		return false;
	f = memory_file(text, len, file);
	free(text);
	report_free(&w->report);
	report_init(&w->report);
	r = lists_offer(w->l, list, &f, 1, false, &w->report);
	if (r < 0)
		fail_msg("%s: %s", file, w->report.text.bytes);
	return true;
}

/* Whether a name is in each of the lists, as bits. */
static unsigned verdicts(struct world *w, unsigned count, const char *text, size_t len)
{
	uint64_t hashes[NAME_LABELS_MAX + 1];
	const struct index *ix = lists_index(w->l);
	struct list_bits bits, allows;
	unsigned ret = 0;
	struct name n;

	if (name_from_text(&n, text, len) < 0)
		return 0;
	name_hash(&n, index_seed(ix), hashes);
	index_lookup(ix, index_generation(ix), &n, hashes, &bits, &allows);
	for (unsigned i = 0; i < count; i++)
		ret |= (unsigned)list_bits_has(&bits, w->slots[i]) << i;
	return ret;
}

struct agreement {
	const char *files[WORLD_LISTS];
	unsigned asked, listed;
	bool is_same_text; /* the formats hold the very same names, so whatever is asked is answered alike */
};

static void ask(struct world *w, struct agreement *a, unsigned count, const char *before, const char *name, size_t len, bool is_member)
{
	char text[512];
	int n = snprintf(text, sizeof(text), "%s%.*s", before, (int)len, name);
	unsigned got = verdicts(w, count, text, (size_t)n);

	a->asked++;
	a->listed += got != 0;
	if (got != 0 && got != (1u << count) - 1)
		fail_msg("%s: %s: verdicts %x", a->files[0], text, got);
	if (is_member && got == 0)
		fail_msg("%s: %s is not listed", a->files[0], text);
}

/* Every name of a file of names (after its hosts address, if it has one), a name under it and one that only ends like it. */
static void ask_all(struct world *w, struct agreement *a, unsigned count, const char *file, bool is_member)
{
	size_t len;
	char *text = read_shared(file, &len), *nl;

	assert_non_null(text);
	for (char *p = text; p < text + len; p = nl + 1) {
		char *end, *name = p;

		nl = memchr(p, '\n', (size_t)(text + len - p));
		if (!nl)
			nl = text + len;
		*nl = '\0';
		end = p + strcspn(p, "\r#");
		while (end > p && (end[-1] == ' ' || end[-1] == '\t'))
			end--;
		for (char *c = p; c < end; c++)
			if (*c == ' ' || *c == '\t')
				name = c + 1;
		/* Comments and addresses. */
		if (name == end || *name == '!' || (uint8_t)*name >= 0x80 || memchr(name, ':', (size_t)(end - name)) ||
		        strspn(name, "0123456789.") == (size_t)(end - name))
			continue;
		ask(w, a, count, "", name, (size_t)(end - name), is_member);
		if (is_member)
			ask(w, a, count, "deep.under.", name, (size_t)(end - name), true);
		if (a->is_same_text)
			ask(w, a, count, "not", name, (size_t)(end - name), false);
	}
	free(text);
}

static void agree(struct agreement *a, const char *members)
{
	unsigned count = 0;
	struct world w;

	world_open(&w, WORLD_LISTS, false);
	for (; count < WORLD_LISTS && a->files[count]; count++)
		w.lists[count].match = MATCH_SUFFIX;
	replan(&w);
	for (unsigned i = 0; i < count; i++)
		if (!offer_shared(&w, i, a->files[i])) {
			world_close(&w);
			skip();
		}
	ask_all(&w, a, count, members, true);
	ask_all(&w, a, count, "query/top-100k-2016.txt", false);
	print_message("%s: %u formats, %u names asked, %u listed\n", members, count, a->asked, a->listed);
	assert_true(a->listed > 0 && a->listed < a->asked);
	world_close(&w);
}

static void test_neodevhost(void **state)
{
	struct agreement a = {.files = {"domains/neodevhost.domains", "hosts/neodevhost.hosts", "dnsmasq/neodevhost.dnsmasq.conf",
	                              "adblock/neodevhost.adblock"},
	        .is_same_text = true};

	agree(&a, "domains/neodevhost.domains");
}

static void test_blp_tracking(void **state)
{
	struct agreement a = {.files = {"domains/blp-tracking.domains", "adblock/blp-tracking.adblock"}, .is_same_text = true};

	agree(&a, "domains/blp-tracking.domains");
}

/* The hosts texts hold less than the dnsmasq text: what they hold is judged. */
static void test_nordic(void **state)
{
	struct agreement a = {.files = {"hosts/nordic.hosts", "hosts/nordic-ipv6.hosts", "dnsmasq/nordic.dnsmasq.conf"}};

	agree(&a, "hosts/nordic.hosts");
}

/* Every published list is found to be what it is, and understood but for a few lines. */
static void test_oddities(void **state)
{
	static const struct {
		const char *file, *format;
		uint64_t names; /* at least */
		unsigned warnings;
	} files[] = {
	        {"hosts/adaway.hosts", "hosts", 6000, 0},                 /* blank lines, own names */
	        {"hosts/adguard-testdata.hosts", "hosts", 55000, 0},      /* comments behind names, fe80::1%lo0 */
	        {"hosts/neodevhost.hosts", "hosts", 111532, 0},           /* two blanks */
	        {"hosts/nordic.hosts", "hosts", 600, 0},                  /* a byte order mark; addresses where names belong */
	        {"hosts/nordic-ipv6.hosts", "hosts", 600, 0},             /* "::" for an address, "!#if" */
	        {"dnsmasq/accelerated-domains.china.conf", "dnsmasq", 100000, 0},
	        {"dnsmasq/blp-basic.dnsmasq.conf", "dnsmasq", 76000, 0},  /* no address */
	        {"dnsmasq/google.china.conf", "dnsmasq", 100, 0},         /* a byte that is no ASCII, in a comment */
	        {"dnsmasq/neodevhost.dnsmasq.conf", "dnsmasq", 111532, 0},
	        {"dnsmasq/nordic.dnsmasq.conf", "dnsmasq", 700, 11},      /* a byte order mark; addresses as names */
	        {"domains/ut1-redirector.domains", "domains", 100000, 20},  /* addresses among names */
	        {"domains/shadowwhisperer-tracking.domains", "domains", 90000, 0},
	        {"doh/doh-domains_overall.txt", "domains", 1000, 0},
	};
	struct buf out;
	struct world w;

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		char expected[64];
		uint64_t names;

		world_open(&w, 1, false);
		if (!offer_shared(&w, 0, files[i].file)) {
			world_close(&w);
			skip();
		}
		buf_init(&out, 1 << 20);
		assert_int_equal(lists_print_json(w.l, 0, &out), 0);
		snprintf(expected, sizeof(expected), "\"format\":\"%s\"", files[i].format);
		names = index_count(lists_index(w.l), w.slots[0]);
		print_message("%s: %llu names, %u lines said to be bad\n", files[i].file, (unsigned long long)names, w.report.warnings);
		if (!strstr(out.bytes, expected) || names < files[i].names || w.report.warnings > files[i].warnings)
			fail_msg("%s: %s%s", files[i].file, w.report.text.bytes, out.bytes);
		assert_false(listed(&w, 0, "localhost") || listed(&w, 0, "broadcasthost"));
		buf_free(&out);
		world_close(&w);
	}
}

static void test_policy_zone_is_refused(void **state)
{
	struct list_file f;
	struct world w;
	size_t len;
	char *text = read_shared("rpz/nordic.rpz", &len);

	if (!text)
		skip();
	world_open(&w, 1, false);
	f = memory_file(text, len, "nordic.rpz");
	free(text);
	assert_int_equal(lists_offer(w.l, 0, &f, 1, false, &w.report), NW_ENOTYET);
	assert_non_null(strstr(w.report.text.bytes, "`rpz:`"));
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_neodevhost), cmocka_unit_test(test_blp_tracking),
	        cmocka_unit_test(test_nordic), cmocka_unit_test(test_oddities), cmocka_unit_test(test_policy_zone_is_refused)};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	/* 77 is what meson shows as skipped. */
	return failed ? failed : is_absent ? 77 : 0;
}
