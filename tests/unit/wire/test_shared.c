/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Real packets through every parser of wire/. They lie outside of the project, in the directory that the environment names as
 * NAMEWAY_SHARED or in ../shared beside the source; without them the test is skipped. Each packet lies in a block of exact
 * length. */
#include "make.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "wire/patch.h"

enum { LINE_LEN_MAX = 4 * 65536 };

struct counts {
	unsigned packets, queries, answers;
};

static struct wire_answer a;
static bool is_absent;
static uint8_t out[WIRE_TCP_MAX + 200];

static void try_packet(const uint8_t *pkt, size_t len, struct counts *counts)
{
	struct wire_query q;
	struct name n;
	bool changed;

	counts->packets++;
	counts->queries += wire_query_parse(&q, pkt, len) == WIRE_OK;
	for (size_t at = 0; at < len; at++)
		(void)name_from_message(&n, pkt, len, at);
	wire_strip_hints(out, sizeof(out), pkt, len, AF_INET6, &changed);
	if (wire_answer_walk(&a, pkt, len) < 0 || a.is_cut)
		return;
	counts->answers++;
	q = (struct wire_query){.has_edns = true, .question_len = a.chain[0].len + 4};
	len = wire_answer_patch(out, sizeof(out), pkt, a.authority_end, a.ttl_offset, a.ttl_count, &q, pkt + WIRE_HEADER,
		&(struct wire_patch){.age_s = 5, .ede = EDE_STALE});
	assert_int_equal(wire_answer_walk(&a, out, len), 0);
}

/* `mark` stands before the hexadecimal digits in each line. */
static void try_file(const char *path, const char *mark, struct counts *counts)
{
	static char line[LINE_LEN_MAX], command[4200];
	FILE *f;

	snprintf(command, sizeof(command), "gzip -dc '%s'", path);
	f = popen(command, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		const char *hex = line[0] == '#' ? NULL : strstr(line, mark);
		uint8_t *pkt;
		size_t len = 0;
		unsigned byte;

		if (!hex)
			continue;
		hex += strlen(mark);
		pkt = malloc(strlen(hex) / 2 + 1);
		while (sscanf(hex + 2 * len, "%2x", &byte) == 1)
			pkt[len++] = (uint8_t)byte;
		pkt = realloc(pkt, len ? len : 1);
		try_packet(pkt, len, counts);
		free(pkt);
	}
	assert_int_equal(pclose(f), 0);
}

static void real_packets(void **state)
{
	static const struct {
		const char *file, *mark;
		unsigned queries, answers; /* at least */
	} files[] = {
		{"dns.jsonl.gz", "\"hex\": \"", 1700, 1250},
		{"dns-tcp.jsonl.gz", "\"hex\": \"", 1, 1},
		{"bind9-dns_message_parse.hex.tsv.gz", "\t", 1, 1},
		{"c-ares.hex.tsv.gz", "\t", 0, 1},
	};
	const char *shared = getenv("NAMEWAY_SHARED"), *root = getenv("NAMEWAY_SOURCE_ROOT");
	char path[4096];

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct counts counts = {0};

		if (shared)
			snprintf(path, sizeof(path), "%s/data/packets/%s", shared, files[i].file);
		else
			snprintf(path, sizeof(path), "%s/../shared/data/packets/%s", root ? root : ".", files[i].file);
		if (access(path, R_OK) < 0) {
			print_message("skipped: no %s (set NAMEWAY_SHARED)\n", path);
			is_absent = true;
			skip();
		}
		try_file(path, files[i].mark, &counts);
		print_message("%s: %u packets, %u queries, %u answers\n", files[i].file, counts.packets, counts.queries,
			counts.answers);
		assert_true(counts.queries >= files[i].queries && counts.answers >= files[i].answers);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(real_packets)};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	/* 77 is what meson shows as skipped. */
	return failed ? failed : is_absent ? 77 : 0;
}
