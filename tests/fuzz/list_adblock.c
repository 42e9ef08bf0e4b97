/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Lines of adblock lists and the table made of their rules: no input does harm, a line is done in as many steps as it has bytes, a rule that the parser takes
 * the table takes, and what decides agrees with what is said. */
#include <string.h>

#include "base/err.h"
#include "fuzz.h"
#include "policy/exprs_private.h"
#include "policy/list_format.h"

enum { SEED = 5 };

static void check_entry(const struct line_entry *e, const char *line, size_t len, struct exprs_build *b)
{
	const char *why;
	int r;

	if (e->what == LINE_BAD)
		CHECK(e->why && *e->why);
	if (e->what == LINE_NAME) {
		CHECK(e->name.labels > 0 && e->name.wire[e->name.len - 1] == 0);
		CHECK(e->kind == KIND_SUFFIX || e->kind == KIND_EXACT || (e->kind == KIND_ALLOW && e->is_marked));
	}
	if (e->what != LINE_RULE)
		return;
	CHECK(e->rule >= line && e->rule + e->rule_len <= line + len && e->rule_len > 0 && e->rule_len <= EXPR_TEXT_MAX);
	CHECK(exprs_check_rule(e->rule, e->rule_len, &why) == 0);
	r = exprs_build_add(b, e->rule, e->rule_len);
	CHECK(r == 0 || r == NW_EMALFORMED); /* too many without a fixed part */
}

static void one_line(const char *line, size_t len, struct exprs_build *b)
{
	char *exact = malloc(len + 1);
	struct line_entry e;
	size_t at = 0, before;

	CHECK(exact);
	memcpy(exact, line, len);
	do {
		before = at;
		list_format_adblock.parse(&e, exact, len, &at);
		CHECK(at <= len && (at > before || at == len));
		check_entry(&e, exact, len, b);
	} while (at < len);
	free(exact);
}

static void ask(const struct exprs *e, const char *text, size_t len)
{
	uint64_t groups = 1, hashes[NAME_LABELS_MAX + 1];
	uint16_t group_of[EXPRS_CLIENTS_MAX] = {0};
	struct addr address = {.family = AF_INET, .b = {127, 0, 0, 1}};
	struct expr_client client = {.addr = &address, .groups = &groups, .group_of = group_of};
	struct expr_result r, without;
	const char *decides;
	struct name n;

	if (name_from_text(&n, text, len) < 0)
		return;
	name_hash(&n, SEED, hashes);
	exprs_judge(e, &n, hashes, 1, NULL, &without);
	exprs_judge(e, &n, hashes, 1, &client, &r);
	CHECK(r.is_cut || without.is_cut || r.always == without.always);
	CHECK((r.always & ~r.here) == 0);
	decides = exprs_decides(e, &n, hashes, 1, &client);
	CHECK(r.is_cut || (decides != NULL) == ((r.here & (EXPR_BLOCK | EXPR_ALLOW | EXPR_IMPORTANT | EXPR_SPARE)) != 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	static const char *const hosts[] = {"ads.example.org", "example.org", "www.test", "a", "x1-2_3.co.uk"};
	const char *text = (const char *)bytes, *end = text + len, *nl;
	struct exprs_build *b = exprs_build_new(SEED);
	struct exprs *e;

	CHECK(b && list_format_adblock.probe(text, len) <= 100);
	for (const char *p = text; p < end; p = nl + 1) {
		nl = memchr(p, '\n', (size_t)(end - p));
		if (!nl)
			nl = end;
		one_line(p, (size_t)(nl - p), b);
	}
	CHECK(exprs_build_done(b, &e) == 0);
	for (size_t i = 0; e && i < sizeof(hosts) / sizeof(*hosts); i++)
		ask(e, hosts[i], strlen(hosts[i]));
	/* The last line as a name. */
	if (e && len)
		for (const char *p = end; p > text; p--)
			if (p == text + 1 || p[-1] == '\n') {
				ask(e, p, (size_t)(end - p));
				break;
			}
	exprs_free(e);
	return 0;
}
