/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A hosts file of any bytes: no harm is done, the table holds what its header promises, twice the same, what is asked for by the words of the text is
 * answered with sound records, and the next file is read as if nothing had been. */
#include <string.h>

#include "fuzz.h"
#include "local/local.h"

enum { SEED = 5, ASKED_MAX = 100 };

static struct local_answer answer;

static void check_answer(uint16_t qtype)
{
	CHECK(answer.kind <= LOCAL_ALIAS);
	if (answer.kind == LOCAL_NONE)
		return;
	CHECK(answer.record_count <= LOCAL_RECORDS_MAX && answer.source);
	CHECK((answer.kind != LOCAL_NODATA && answer.kind != LOCAL_NXDOMAIN) || answer.text);
	for (unsigned i = 0; i < answer.record_count; i++) {
		const struct wire_record *r = &answer.records[i];
		struct name owner;

		CHECK(!r->owner || name_from_wire(&owner, r->owner, NAME_WIRE_MAX) > 0);
		CHECK(r->type == qtype || qtype == RR_ANY || r->type == RR_CNAME);
		CHECK(r->type != RR_A || r->rdlen == 4);
		CHECK(r->type != RR_AAAA || r->rdlen == 16);
		CHECK(r->type != RR_PTR || name_from_wire(&owner, r->rdata, r->rdlen) == r->rdlen);
	}
}

static void ask(const struct local *l, const struct name *n)
{
	static const uint16_t types[] = {RR_A, RR_AAAA, RR_PTR, RR_ANY};
	uint64_t hashes[NAME_LABELS_MAX + 1];

	name_hash(n, SEED, hashes);
	for (unsigned i = 0; i < sizeof types / sizeof *types; i++) {
		local_find(l, n, hashes, types[i], &answer);
		check_answer(types[i]);
	}
}

/* The words of the text, as names. */
static void ask_words(const struct local *l, const char *text, size_t len)
{
	struct name n;
	unsigned asked = 0;

	for (size_t at = 0, end; at < len && asked < ASKED_MAX; at = end + 1) {
		for (end = at; end < len && !strchr(" \t\r\n\v\f#", text[end]); end++)
			;
		if (end > at && name_from_text(&n, text + at, end - at) == 0) {
			ask(l, &n);
			asked++;
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	static const char known[] = "\n10.1.2.3 known.example\n";
	static struct config c;
	struct name parent;
	struct cfg_record records[2] = {
	        {.scope = OWNER_WILDCARD, .type = RR_A, .rdlen = 4, .ttl_s = 1, .rdata = (const uint8_t *)"\1\2\3\4"},
	        {.scope = OWNER_SUBTREE, .type = RR_CNAME, .rdlen = 3, .ttl_s = 1, .rdata = (const uint8_t *)"\1a\0"}};
	struct local_text texts[2] = {{"fuzz", (const char *)bytes, len}, {"known", known, sizeof known - 1}};
	struct local_stat first, second;
	struct local *l, *again;
	struct report r;

	CHECK(name_from_text(&parent, "lan", 3) == 0);
	c.local.domain = parent;
	c.local.has_domain = true;
	records[0].owner = parent;
	CHECK(name_from_text(&records[1].owner, "example.com", 11) == 0);
	c.local.records = records;
	c.local.record_count = 2;
	report_init(&r);
	CHECK(local_new(&l, &c, texts, 2, SEED, &r) == 0);
	local_stat(l, &first);
	CHECK((r.warnings > 0) == (first.bad_lines > 0) && !r.errors);
	if (len % 8 == 0) {
		CHECK(local_new(&again, &c, texts, 2, SEED, NULL) == 0);
		local_stat(again, &second);
		CHECK(!memcmp(&first, &second, sizeof first));
		local_free(again);
	}
	ask_words(l, (const char *)bytes, len);
	CHECK(name_from_text(&parent, "known.example", 13) == 0);
	ask(l, &parent);
	CHECK(answer.kind == LOCAL_ANSWER && answer.record_count >= 1);
	local_free(l);
	report_free(&r);
	return 0;
}
