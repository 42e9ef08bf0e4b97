/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Lines of plain lists and the detection of formats: no input does harm, the fast path and the general one agree, an entry
 * printed is the same entry again, and names keep to what a list may hold. */
#include <string.h>

#include "fuzz.h"
#include "policy/list_entries.h"
#include "policy/list_format.h"

static void same_again(const struct line_entry *e)
{
	struct entry_key k, again;
	struct line_entry parsed;
	struct buf b;

	entry_key_from_line(&k, e);
	buf_init(&b, 4096);
	CHECK(entry_key_print(&b, &k) == 0);
	list_format_domains.parse(&parsed, b.bytes, b.len, &(size_t){0});
	CHECK(parsed.what == e->what);
	entry_key_from_line(&again, &parsed);
	CHECK(k.kind == again.kind && k.len == again.len && memcmp(k.bytes, again.bytes, k.len) == 0);
	buf_free(&b);
}

static void one_line(const char *line, size_t len)
{
	struct line_entry e, general;
	char *blank = malloc(len + 1), *exact = malloc(len + 1);

	CHECK(blank && exact);
	blank[0] = ' ';
	memcpy(blank + 1, line, len);
	memcpy(exact, line, len);
	list_format_domains.parse(&e, exact, len, &(size_t){0});
	if (len < 3 || memcmp(line, "\xef\xbb\xbf", 3) != 0) {
		list_format_domains.parse(&general, blank, len + 1, &(size_t){0});
		CHECK(e.what == general.what);
		CHECK(e.what != LINE_NAME || (e.kind == general.kind && name_equal(&e.name, &general.name)));
	}
	if (e.what == LINE_BAD)
		CHECK(e.why && *e.why);
	if (e.what == LINE_NAME) {
		CHECK(e.name.labels > 0 && e.name.offset[e.name.labels] == e.name.len - 1 && e.name.wire[e.name.len - 1] == 0);
		CHECK((e.kind & (e.kind - 1)) == 0 && e.kind && e.kind <= KIND_EXEMPT_EXACT);
	}
	if (e.what == LINE_NAME || e.what == LINE_PREFIX)
		same_again(&e);
	free(blank);
	free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	const char *text = (const char *)bytes, *end = text + len, *nl, *name = NULL;
	char *copy = malloc(len + 1);

	CHECK(copy);
	memcpy(copy, bytes, len);
	list_format_detect(copy, len, &name);
	CHECK(name && list_format_domains.probe(copy, len) <= 100);
	free(copy);
	for (const char *p = text; p < end; p = nl + 1) {
		nl = memchr(p, '\n', (size_t)(end - p));
		if (!nl)
			nl = end;
		one_line(p, (size_t)(nl - p));
	}
	return 0;
}
