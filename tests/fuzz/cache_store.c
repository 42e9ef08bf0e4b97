/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A kept cache from a stranger. The input is taken twice: as a whole file, and as the records of a file whose checks are right. Whatever was taken is a
 * well-formed answer that agrees with its own message, is found under its key, and comes through another saving and loading. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/rcu.h"
#include "cache/store.h"
#include "fuzz.h"

enum { NOW = 1000, WALL = 1700000000, SEED = 3, STALE = 500 };

struct seen {
	struct cache *c;
	unsigned count;
};

static uint64_t signature(void *ctx, uint16_t group)
{
	return group + 1u;
}

static bool group(void *ctx, uint64_t wanted, uint16_t *ret)
{
	*ret = (uint16_t)(wanted - 1);
	return wanted > 0 && wanted <= 8;
}

static const struct cache_store store = { .name_seed = SEED, .signature = signature, .group = group };

static void check_chain(const struct cache_answer *a, const struct wire_answer *w)
{
	CHECK(a->chain_len == w->chain_len && a->addr_count == w->addr_count && a->ttl_count == w->ttl_count);
	for (unsigned i = 0; i < a->chain_len; i++)
		CHECK(a->chain[i]->len == w->chain[i].len && !memcmp(a->chain[i]->wire, w->chain[i].wire, w->chain[i].len));
	for (unsigned i = 0; i < a->addr_count; i++)
		CHECK(addr_equal(&a->addrs[i], &w->addrs[i]));
	CHECK(!memcmp(a->ttl_offset, w->ttl_offset, w->ttl_count * sizeof(*w->ttl_offset)));
}

static void check_answer(void *ctx, const struct cache_answer *a)
{
	static struct wire_answer w;
	struct seen *s = ctx;
	struct cache_key key = { .qname = &w.chain[0] };
	bool is_found = false;

	CHECK(wire_answer_walk(&w, a->msg, a->msg_len) == 0 && !w.is_cut && w.authority_end == a->msg_len);
	CHECK(a->rcode == w.rcode && (a->rcode == RCODE_NOERROR || a->rcode == RCODE_NXDOMAIN) && a->is_nodata == w.is_nodata);
	bool is_live = a->expires_s > NOW;
	CHECK(a->expires_s <= NOW + CACHE_TTL_MAX_S && (!is_live || a->stored_s == NOW));
	check_chain(a, &w);
	key.name_hash = name_whole_hash(&w.chain[0], SEED);
	key.qtype = w.qtype;
	key.qclass = w.qclass;
	for (key.group = 0; key.group < 8; key.group++)
		for (key.variant = 0; key.variant < 4; key.variant++)
			is_found = is_found || (is_live ? cache_find_quiet(s->c, &key, NOW) : cache_find_stale(s->c, &key, NOW, STALE)) == a;
	CHECK(is_found);
	s->count++;
}

static struct cache *load(int fd, unsigned *ret_count)
{
	struct cache *c;
	struct seen s = { 0 };

	CHECK(cache_new(&c, CACHE_BYTES_MIN) == 0);
	cache_set_limits(c, &(struct cache_limits){ 0, CACHE_TTL_MAX_S, CACHE_NEG_TTL_MAX_S, STALE });
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	cache_load(c, fd, NOW, WALL, &store);
	s.c = c;
	cache_walk(c, NOW, check_answer, &s);
	*ret_count = s.count;
	return c;
}

/* Loads the file twice, the second time what the first made of it. */
static void run(int fd)
{
	struct cache_kinds k, again;
	unsigned count, count_again;
	struct cache *c = load(fd, &count);

	cache_stat_kinds(c, NOW, &k);
	if (!count && !k.stale) {
		cache_free(c);
		return;
	}
	CHECK(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
	CHECK(cache_save(c, fd, NOW, WALL, &store) == 0);
	cache_free(c);
	c = load(fd, &count_again);
	cache_stat_kinds(c, NOW, &again);
	cache_free(c);
	CHECK(count == count_again && memcmp(&k, &again, sizeof(k)) == 0);
	rcu_quiesce();
}

static void put(int fd, const void *bytes, size_t len)
{
	CHECK(write(fd, bytes, len) == (ssize_t)len);
}

static void write_around(int fd, const uint8_t *records, size_t len)
{
	struct store_head h = { .magic = STORE_MAGIC, .version = STORE_VERSION, .wall_s = WALL };
	struct store_block b = { .len = len }, end = { 0 };

	h.check = store_head_check(&h);
	b.check = store_block_check(&b, records, h.check);
	end.check = store_block_check(&end, records, b.check);
	CHECK(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
	put(fd, &h, sizeof(h));
	put(fd, &b, sizeof(b));
	put(fd, records, len);
	put(fd, &end, sizeof(end));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	int fd = memfd_create("cache", 0);

	CHECK(fd >= 0);
	rcu_thread_register();
	put(fd, bytes, len);
	run(fd);
	if (len && len <= STORE_BLOCK_MAX) {
		write_around(fd, bytes, len);
		run(fd);
	}
	rcu_thread_unregister();
	close(fd);
	return 0;
}
