/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the cache costs, in nanoseconds of CPU: finding among ENTRIES random names and among a few that stay near (as a household's), finding and patching for
 * a client, putting; then milliseconds to save and load it all. The argument says how many threads find (default 1, then 2). */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "base/hash.h"
#include "base/rcu.h"
#include "cache/cache.h"
#include "wire/patch.h"

enum { ENTRIES = 100000, FEW = 100, LOOKUPS = 4000000, SEED = 1, FULL = 400000, THREADS_MAX = 64 };
static struct cache *c;
/* Small, as the question of a packet that was just parsed is near: what is measured is the cache's memory, not this one's. */
static struct asked {
	uint64_t hash;
	uint8_t len;
	uint8_t wire[39];
} *asked;
static atomic_ulong missed, sum, cpu_ns;

struct task {
	pthread_t thread;
	unsigned seed, names;
	bool patches;
};

/* Of this thread alone, so that a busy machine does not count. */
static uint64_t thread_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* One A record behind the question. */
static size_t build(uint8_t *msg, const struct name *n, unsigned i)
{
	size_t len = wire_query_build(msg, 1, n, RR_A, 1, true, false, 0, false);
	const uint8_t rr[16] = { 0xc0, 12, 0, RR_A, 0, 1, 0, 0, 0x0e, 0x10, 0, 4, 10, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i };

	msg[2] |= 0x80;
	msg[7] = 1;
	memcpy(msg + len, rr, sizeof(rr));
	return len + sizeof(rr);
}

static void put(unsigned i)
{
	static struct wire_answer walked;
	uint8_t msg[600];
	struct cache_key key = { .qtype = RR_A, .qclass = 1 };
	struct name n;
	char text[40];
	size_t len;

	snprintf(text, sizeof(text), "host-%u.some-domain.example", i);
	if (name_from_text(&n, text, strlen(text)) < 0 || n.len > sizeof(asked->wire))
		abort();
	key.qname = &n;
	key.name_hash = name_whole_hash(&n, SEED);
	if (i < ENTRIES) {
		asked[i] = (struct asked){ .hash = key.name_hash, .len = n.len };
		memcpy(asked[i].wire, n.wire, n.len);
	}
	len = build(msg, &n, i);
	if (wire_answer_walk(&walked, msg, len) < 0)
		abort();
	cache_put(c, &key, msg, len, &walked, 0);
	rcu_quiesce();
}

static uint64_t answer(const struct task *t, const struct cache_answer *a, const struct name *n)
{
	static const struct wire_patch p = { .age_s = 1, .ttl_ceiling_s = CACHE_TTL_MAX_S, .ede = EDE_NONE, .clear_ad = true, .our_udp_size = 1232, .limit = 1232 };
	static _Thread_local uint8_t out[1500], question[260];
	struct wire_query q = { .id = (uint16_t)t->seed, .flags = FLAG_RD, .has_edns = true, .udp_size = 1232, .question_len = (uint16_t)(n->len + 4) };

	if (!t->patches)
		return a->msg[a->msg_len - 1u];
	memcpy(question, n->wire, sizeof(asked->wire));
	question[n->len + 1] = question[n->len + 3] = 1;
	question[n->len] = question[n->len + 2] = 0;
	return wire_answer_patch(out, sizeof(out), a->msg, a->msg_len, a->ttl_offset, a->ttl_count, &q, question, &p) + out[12];
}

static void *look(void *arg)
{
	const struct task *t = arg;
	struct name n;
	struct cache_key key = { .qname = &n, .qtype = RR_A, .qclass = 1 };
	uint64_t x = t->seed * 0x9e3779b97f4a7c15 + 1, bytes = 0, misses = 0, begun_ns;

	rcu_thread_register();
	begun_ns = thread_cpu_ns();
	for (unsigned i = 0; i < LOOKUPS; i++) {
		const struct cache_answer *a;
		const struct asked *q;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		q = &asked[hash_range(x, t->names)];
		key.name_hash = q->hash;
		n.len = q->len;
		memcpy(n.wire, q->wire, sizeof(q->wire));
		a = cache_find(c, &key, 1);
		if (a)
			bytes += answer(t, a, &n);
		else
			misses++;
		if (i % 64 == 0)
			rcu_quiesce();
	}
	atomic_fetch_add(&cpu_ns, thread_cpu_ns() - begun_ns);
	rcu_thread_unregister();
	atomic_fetch_add(&missed, misses);
	atomic_fetch_add(&sum, bytes);
	return NULL;
}

static void run(unsigned threads, const char *what, unsigned names, bool patches)
{
	struct task task[THREADS_MAX];

	atomic_store(&cpu_ns, 0);
	atomic_store(&missed, 0);
	for (unsigned i = 0; i < threads; i++) {
		task[i] = (struct task){ .seed = i + 1, .names = names, .patches = patches };
		if (pthread_create(&task[i].thread, NULL, look, &task[i]))
			abort();
	}
	for (unsigned i = 0; i < threads; i++)
		pthread_join(task[i].thread, NULL);
	printf("%u threads, %-14s %6u names: %6.1f ns, %lu of %u missed\n", threads, what, names, (double)atomic_load(&cpu_ns) / threads / LOOKUPS,
		atomic_load(&missed), threads * LOOKUPS);
}

static void runs(unsigned threads)
{
	run(threads, "find", ENTRIES, false);
	run(threads, "find", FEW, false);
	run(threads, "find and patch", ENTRIES, true);
	run(threads, "find and patch", FEW, true);
}

/* --- over a restart --- */

static uint64_t signature(void *ctx, uint16_t group)
{
	return 1;
}

static bool group(void *ctx, uint64_t wanted, uint16_t *ret)
{
	*ret = 0;
	return true;
}

static void restart(void)
{
	struct cache_store s = { .name_seed = SEED, .signature = signature, .group = group };
	struct cache_stat full, loaded;
	uint64_t begun_ns, saved_ns, loaded_ns;
	int fd = memfd_create("cache", 0);

	for (unsigned i = ENTRIES; i < FULL; i++)
		put(i);
	cache_stat(c, &full);
	begun_ns = thread_cpu_ns();
	if (fd < 0 || cache_save(c, fd, 1, 1, &s) < 0)
		abort();
	saved_ns = thread_cpu_ns() - begun_ns;
	cache_free(c);
	s.name_seed++;
	if (lseek(fd, 0, SEEK_SET) || cache_new(&c, 64 << 20) < 0)
		abort();
	begun_ns = thread_cpu_ns();
	if (cache_load(c, fd, 1, 1, &s) < 0)
		abort();
	loaded_ns = thread_cpu_ns() - begun_ns;
	cache_stat(c, &loaded);
	printf("64 MiB, %lu answers: saved in %.0f ms; %lu loaded in %.0f ms\n", (unsigned long)full.entries, (double)saved_ns / 1e6, (unsigned long)loaded.entries,
		(double)loaded_ns / 1e6);
	close(fd);
}

int main(int argc, char **argv)
{
	unsigned threads = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
	uint64_t begun_ns;

	asked = calloc(ENTRIES, sizeof(*asked));
	if (!asked || cache_new(&c, 64 << 20) < 0)
		abort();
	rcu_thread_register();
	begun_ns = thread_cpu_ns();
	for (unsigned i = 0; i < ENTRIES; i++)
		put(i);
	printf("make, walk and put: %.1f ns\n", (double)(thread_cpu_ns() - begun_ns) / ENTRIES);
	rcu_offline();
	if (threads) {
		runs(threads < THREADS_MAX ? threads : THREADS_MAX);
	} else {
		runs(1);
		runs(2);
	}
	rcu_online();
	restart();
	rcu_thread_unregister();
	cache_free(c);
	free(asked);
	return 0;
}
