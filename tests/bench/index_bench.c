/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The name index at a size: index_bench NAMES [LOOKUPS]. Prints ns per lookup, bytes per name beyond its wire length, names built
 * per second and the time from image file to usable index. Names are synthetic, three labels, spread over many second-level
 * domains. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "base/hash.h"
#include "policy/index.h"

enum { BATCH = 16, SETTLE_EVERY = 1 << 20 };

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* Name number i of a family: "a7f3k.some-4821.example"-like, two or three labels. */
static void synthetic(struct name *ret, uint64_t i, bool is_listed)
{
	static const char *const tlds[] = {"com", "net", "org", "example", "info", "ru", "de", "io"};
	uint64_t h = mix(i * 2 + is_listed);
	char text[128];
	int len;

	if (is_listed && h % 3)
		len = snprintf(text, sizeof(text), "site-%llx.%s", (unsigned long long)(h >> 24), tlds[h % 8]);
	else
		len = snprintf(
			text, sizeof(text), "%s.h%llx.%s", h & 1 ? "www" : "cdn", (unsigned long long)(h >> 20), tlds[h % 8]);
	if (name_from_text(ret, text, (size_t)len) < 0)
		abort();
}

static struct index *build(uint64_t count, uint64_t *ret_wire_bytes)
{
	struct index *ix = index_new(count, 0);
	struct name n;

	*ret_wire_bytes = 0;
	for (uint64_t i = 0; i < count; i++) {
		if (i % SETTLE_EVERY == 0)
			index_begin(ix);
		synthetic(&n, i, true);
		*ret_wire_bytes += n.len;
		if (index_add(ix, (unsigned)(i % 5), &n, KIND_SUFFIX) < 0)
			abort();
		if (i % SETTLE_EVERY == SETTLE_EVERY - 1 || i + 1 == count) {
			index_publish(ix);
			index_settle(ix);
		}
	}
	return ix;
}

/* Time of one lookup with its hashing; the names are made beforehand in batches, so that they are in the cache and their entries
 * are not. is_batched: as a worker does with the queries of one recvmmsg, all hashed and prefetched before the first lookup. */
static double measure(
	const struct index *ix, uint64_t count, uint64_t lookups, bool is_listed, bool is_batched, uint64_t *ret_found)
{
	static struct name names[BATCH];
	static uint64_t hashes[BATCH][NAME_LABELS_MAX + 1];
	uint64_t spent = 0, start, r = 1;
	struct list_bits bits, allowed, all = {.w = {~0ull, ~0ull, ~0ull, ~0ull}};

	*ret_found = 0;
	for (uint64_t done = 0; done < lookups; done += BATCH) {
		for (unsigned i = 0; i < BATCH; i++) {
			r = mix(r + i + 1);
			synthetic(&names[i], is_listed ? r % count : r, is_listed);
		}
		start = now_ns();
		for (unsigned i = 0; is_batched && i < BATCH; i++) {
			name_hash(&names[i], index_seed(ix), hashes[i]);
			index_prefetch(ix, &names[i], hashes[i]);
		}
		for (unsigned i = 0; is_batched && i < BATCH; i++)
			index_prefetch_entries(ix, &names[i], hashes[i]);
		for (unsigned i = 0; i < BATCH; i++) {
			if (!is_batched) {
				name_hash(&names[i], index_seed(ix), hashes[i]);
				index_prefetch(ix, &names[i], hashes[i]);
			}
			index_lookup(ix, index_generation(ix), &names[i], hashes[i], &bits, &allowed);
			*ret_found += list_bits_any(&bits, &all);
		}
		spent += now_ns() - start;
	}
	return (double)spent / (double)lookups;
}

/* What the kernel gave this process, in bytes. */
static uint64_t resident(void)
{
	unsigned long long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (!f || fscanf(f, "%*u %llu", &pages) != 1)
		abort();
	fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static double measure_image(const struct index *ix)
{
	uint8_t tag[64] = {0};
	int fd = memfd_create("image", 0);
	struct index *copy = NULL;
	uint64_t start;
	double ms;

	if (fd < 0 || index_write(ix, fd, tag) < 0)
		abort();
	start = now_ns();
	if (index_map(&copy, fd, tag) < 0)
		abort();
	ms = (double)(now_ns() - start) / 1e6;
	index_free(copy);
	close(fd);
	return ms;
}

int main(int argc, char **argv)
{
	uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000,
		 lookups = argc > 2 ? strtoull(argv[2], NULL, 10) : 2000000;
	uint64_t wire_bytes, before = resident(), start = now_ns(), found, found_unlisted, after;
	struct index_stat st;
	struct index *ix, *copy;
	double built_s, rebuilt_s, listed, unlisted, batched;

	if (!count)
		return 2;
	ix = build(count, &wire_bytes);
	built_s = (double)(now_ns() - start) / 1e9;
	after = resident();
	index_stat(ix, &st);
	listed = measure(ix, count, lookups, true, false, &found);
	unlisted = measure(ix, count, lookups, false, false, &found_unlisted);
	batched = measure(ix, count, lookups, true, true, &found);
	start = now_ns();
	copy = index_rebuild(ix, count);
	rebuilt_s = (double)(now_ns() - start) / 1e9;
	index_free(copy);
	printf("names %llu load %.3f: listed %.1f ns (in batches %.1f), unlisted %.1f ns (found %.4f, %.4f), %.2f B/name beyond "
	       "wire (%.2f resident), build %.2f M/s, "
	       "rebuild %.2f M/s, map %.1f ms\n",
		(unsigned long long)st.names, st.load, listed, batched, unlisted, (double)found / (double)lookups,
		(double)found_unlisted / (double)lookups, ((double)st.memory_bytes - (double)wire_bytes) / (double)st.names,
		((double)(after - before) - (double)wire_bytes) / (double)st.names, (double)count / built_s / 1e6,
		(double)count / rebuilt_s / 1e6, measure_image(ix));
	index_free(ix);
	return found == (lookups + BATCH - 1) / BATCH * BATCH ? 0 : 1;
}
