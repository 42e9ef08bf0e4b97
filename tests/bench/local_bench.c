/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Local names at a size: local_bench [LINES]. Prints how long a hosts file of so many lines takes to load, bytes a name, and ns a look-up with its hashing,
 * beside the same with ten lines. Names asked for are random and made in small batches, so that they are in
 * the processor's cache and, at a size, their entries are not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "local/local.h"

enum { SEED = 1, BATCH = 16, LOOKUPS = 1 << 20 };

static struct name asked[BATCH];
static struct local_answer answer;

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void name_set(struct name *ret, const char *text)
{
	if (name_from_text(ret, text, strlen(text)) < 0)
		abort();
}

static void measure(
        const struct local *l, unsigned lines, const char *what, const char *format, uint16_t qtype, enum local_kind expected)
{
	static uint64_t hashes[NAME_LABELS_MAX + 1];
	unsigned as_expected = 0;
	double spent = 0, start;
	char text[128];

	for (unsigned done = 0; done < LOOKUPS; done += BATCH) {
		for (unsigned i = 0; i < BATCH; i++) {
			unsigned n = (unsigned)rand() % lines;

			snprintf(text, sizeof text, format, n & 255, n >> 8 & 255, n >> 16);
			name_set(&asked[i], text);
		}
		start = now_s();
		for (unsigned i = 0; i < BATCH; i++) {
			name_hash(&asked[i], SEED, hashes);
			local_find(l, &asked[i], hashes, qtype, &answer);
			as_expected += answer.kind == expected;
		}
		spent += now_s() - start;
	}
	printf("  %-36s %6.1f ns%s\n", what, spent * 1e9 / LOOKUPS, as_expected == LOOKUPS ? "" : "   (unexpected answers)");
}

static void run(unsigned lines)
{
	static const uint8_t address[4] = {10, 9, 8, 7};
	char *text = malloc((size_t)lines * 64 + 1);
	struct config c = {.local = {.has_domain = true}};
	struct cfg_record wildcard = {.scope = OWNER_WILDCARD, .type = RR_A, .rdlen = 4, .ttl_s = 60, .rdata = address};
	struct local_text hosts = {.path = "hosts", .bytes = text};
	struct local_stat s;
	struct local *l;
	double start;

	if (!text)
		abort();
	for (unsigned i = 0; i < lines; i++)
		hosts.len += (size_t)sprintf(text + hosts.len, "10.%u.%u.%u host-%u-%u-%u.some.example\n", i >> 16, i >> 8 & 255,
		        i & 255, i & 255, i >> 8 & 255, i >> 16);
	name_set(&c.local.domain, "lan");
	name_set(&wildcard.owner, "wild.example");
	c.local.records = &wildcard;
	c.local.record_count = 1;
	start = now_s();
	if (local_new(&l, &c, &hosts, 1, SEED, NULL) < 0)
		abort();
	local_stat(l, &s);
	printf("%u lines: loaded in %.0f ms, %.0f bytes a name\n", lines, (now_s() - start) * 1e3,
	        (double)s.memory_bytes / (double)s.names);
	measure(l, lines, "a name of the file", "host-%u-%u-%u.some.example", RR_A, LOCAL_ANSWER);
	measure(l, lines, "a name of others (to be forwarded)", "www.x%u-%u-%u.example", RR_A, LOCAL_NONE);
	measure(l, lines, "nothing in the local domain", "x%u-%u-%u.lan", RR_A, LOCAL_NXDOMAIN);
	measure(l, lines, "under a wildcard", "x%u-%u-%u.wild.example", RR_A, LOCAL_ANSWER);
	measure(l, lines, "the name of an address", "%u.%u.%u.10.in-addr.arpa", RR_PTR, LOCAL_ANSWER);
	local_free(l);
	free(text);
}

int main(int argc, char **argv)
{
	unsigned lines = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 200000;

	run(10);
	run(lines ? lines : 1);
	return 0;
}
