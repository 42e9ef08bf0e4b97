/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Nanoseconds per cache hit, random names out of ENTRIES, with as many threads as the argument says (default 1 and then 2). */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/hash.h"
#include "base/rcu.h"
#include "cache/cache.h"

enum { ENTRIES = 100000, LOOKUPS = 4000000 };
static struct cache *c;
/* Small, as the question of a packet that was just parsed is near: what is measured is the cache's memory, not this one's. */
static struct asked {
	uint64_t hash;
	uint8_t len;
	uint8_t wire[39];
} *asked;
static atomic_ulong missed, sum, cpu_ns;

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

static void fill(void)
{
	static struct wire_answer walked;
	uint8_t msg[600];

	for (unsigned i = 0; i < ENTRIES; i++) {
		struct cache_key key = { .qtype = RR_A, .qclass = 1 };
		struct name n;
		char text[40];
		size_t len;

		snprintf(text, sizeof(text), "host-%u.some-domain.example", i);
		if (name_from_text(&n, text, strlen(text)) < 0 || n.len > sizeof(asked->wire))
			abort();
		key.qname = &n;
		key.name_hash = asked[i].hash = hash_bytes(n.wire, n.len, 1);
		asked[i].len = n.len;
		memcpy(asked[i].wire, n.wire, n.len);
		len = build(msg, &n, i);
		if (wire_answer_walk(&walked, msg, len) < 0)
			abort();
		cache_put(c, &key, msg, len, &walked, 0);
		rcu_quiesce();
	}
}

static void *look(void *arg)
{
	struct name n;
	struct cache_key key = { .qname = &n, .qtype = RR_A, .qclass = 1 };
	uint64_t x = (uintptr_t)arg * 0x9e3779b97f4a7c15 + 1, bytes = 0, misses = 0;

	uint64_t begun_ns = thread_cpu_ns();

	rcu_thread_register();
	for (unsigned i = 0; i < LOOKUPS; i++) {
		const struct cache_answer *a;
		const struct asked *q;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		q = &asked[hash_range(x, ENTRIES)];
		key.name_hash = q->hash;
		n.len = q->len;
		memcpy(n.wire, q->wire, sizeof(q->wire));
		a = cache_find(c, &key, 1);
		if (a)
			bytes += a->msg[a->msg_len - 1u];
		else
			misses++;
		if (i % 64 == 0)
			rcu_quiesce();
	}
	rcu_thread_unregister();
	atomic_fetch_add(&cpu_ns, thread_cpu_ns() - begun_ns);
	atomic_fetch_add(&missed, misses);
	atomic_fetch_add(&sum, bytes);
	return NULL;
}

static void run(unsigned threads)
{
	pthread_t thread[64];

	atomic_store(&cpu_ns, 0);
	atomic_store(&missed, 0);
	for (uintptr_t i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, look, (void *)(i + 1)))
			abort();
	for (unsigned i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	printf("%u threads: %.1f ns per lookup, %lu of %u missed\n", threads, (double)atomic_load(&cpu_ns) / threads / LOOKUPS,
		atomic_load(&missed), threads * LOOKUPS);
}

int main(int argc, char **argv)
{
	asked = calloc(ENTRIES, sizeof(*asked));
	if (!asked || cache_new(&c, 64 << 20) < 0)
		abort();
	rcu_thread_register();
	fill();
	rcu_thread_unregister();
	if (argc > 1) {
		unsigned threads = (unsigned)atoi(argv[1]);
		run(threads < 1 ? 1 : threads > 64 ? 64 : threads);
	} else {
		run(1);
		run(2);
	}
	cache_free(c);
	free(asked);
	return 0;
}
