/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The cache over a restart: what comes back, how old it is by then, and files that are not what was written. One thread. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "answers.h"
#include "base/err.h"
#include "base/rcu.h"
#include "cache/store.h"

enum { WALL = 1700000000, GROUPS = 4 };

static struct cache *c;
static struct made *m;
static int fd;
/* Group numbers before and after the restart differ; 0: the signature of none. */
static uint64_t signatures[GROUPS];

static uint64_t signature(void *ctx, uint16_t group)
{
	return group < GROUPS ? signatures[group] : 0;
}

static bool group(void *ctx, uint64_t wanted, uint16_t *ret)
{
	for (uint16_t i = 0; i < GROUPS; i++)
		if (signatures[i] == wanted) {
			*ret = i;
			return true;
		}
	return false;
}

static const struct cache_store store = { .name_seed = MADE_SEED, .signature = signature, .group = group };

static const struct cache_store other_run = { .name_seed = MADE_SEED + 1, .signature = signature, .group = group };

static int setup(void **state)
{
	rcu_thread_register();
	m = calloc(1, sizeof(*m));
	fd = memfd_create("cache", 0);
	for (unsigned i = 0; i < GROUPS; i++)
		signatures[i] = 1000 + i;
	return m && fd >= 0 && !cache_new(&c, CACHE_BYTES_MIN) ? 0 : -1;
}

static int teardown(void **state)
{
	cache_free(c);
	free(m);
	close(fd);
	rcu_thread_unregister();
	return 0;
}

static void put(uint32_t now_s)
{
	cache_put(c, &m->key, m->msg, m->len, &m->walked, now_s);
	rcu_quiesce();
}

static const struct cache_answer *find(const char *name, uint32_t now_s)
{
	struct cache_key key;
	struct name qname;

	made_key(&key, &qname, name);
	return cache_find(c, &key, now_s);
}

static const struct cache_answer *find_stale(const char *name, uint32_t now_s, uint32_t stale_s)
{
	struct cache_key key;
	struct name qname;

	made_key(&key, &qname, name);
	return cache_find_stale(c, &key, now_s, stale_s);
}

static uint64_t entries(void)
{
	struct cache_stat s;

	cache_stat(c, &s);
	return s.entries;
}

static void save(uint32_t now_s)
{
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(cache_save(c, fd, now_s, WALL, &store), 0);
}

static void fresh_cache(uint64_t bytes, uint32_t stale_s)
{
	cache_free(c);
	assert_int_equal(cache_new(&c, bytes), 0);
	cache_set_limits(c, &(struct cache_limits){ 0, CACHE_TTL_MAX_S, CACHE_NEG_TTL_MAX_S, stale_s });
}

static int load(uint32_t now_s, int64_t wall_s)
{
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return cache_load(c, fd, now_s, wall_s, &store);
}

static void everything_comes_back(void **state)
{
	const struct cache_answer *a;

	made_answer(m, "Www.Example.org", 3, 5, 300, false);
	put(1000);
	made_alias(m, "alias.example", "target.example", 500);
	m->key.variant = CACHE_VARIANT_CD;
	put(1000);
	made_negative(m, "no.example", RCODE_NXDOMAIN, 200, 200);
	put(1000);
	save(1050);
	fresh_cache(CACHE_BYTES_MIN, 0);
	/* The machine began anew: its clock is small. 50 s old when saved, 40 s on the way. */
	assert_int_equal(load(7, WALL + 40), 0);
	assert_int_equal(entries(), 3);
	made_answer(m, "www.example.org", 3, 5, 300, false);
	a = find("www.example.org", 7);
	assert_non_null(a);
	assert_int_equal(a->stored_s, 7);
	assert_int_equal(a->expires_s, 7 + 210);
	assert_int_equal(a->addr_count, 3);
	assert_true(addr_equal(&a->addrs[2], &m->walked.addrs[2]));
	assert_int_equal(a->ttl_count, 3);
	assert_int_equal(made_ttl(a, 0), 210);
	assert_int_equal(made_ttl(a, 2), 210);
	assert_null(find("alias.example", 7)); /* the variant is of the key */
	made_alias(m, "alias.example", "target.example", 500);
	m->key.variant = CACHE_VARIANT_CD;
	a = cache_find(c, &m->key, 7);
	assert_int_equal(a->chain_len, 2);
	assert_memory_equal(a->chain[1]->wire, m->walked.chain[1].wire, m->walked.chain[1].len);
	a = find("no.example", 7 + 109);
	assert_int_equal(a->rcode, RCODE_NXDOMAIN);
	assert_int_equal(made_ttl(a, 0), 110);
	assert_null(find("no.example", 7 + 110));
}

static void time_on_the_way_counts(void **state)
{
	made_answer(m, "a.example", 1, 5, 300, false);
	put(0);
	save(100);
	fresh_cache(CACHE_BYTES_MIN, 0);
	assert_int_equal(load(0, WALL + 200), 0);
	assert_int_equal(entries(), 0);
	assert_int_equal(load(0, WALL + 199), 0);
	assert_int_equal(find("a.example", 0)->expires_s, 1);
	fresh_cache(CACHE_BYTES_MIN, 0);
	assert_int_equal(load(0, WALL - 1), 0);
	assert_int_equal(entries(), 0);
	assert_int_equal(load(0, INT64_MAX), 0);
	assert_int_equal(entries(), 0);
}

/* Stale for as long as ever, though the clock that told began anew. */
static void stale_answers_come_back_as_such(void **state)
{
	fresh_cache(CACHE_BYTES_MIN, 1000);
	made_answer(m, "a.example", 1, 5, 300, false);
	put(5000);
	save(5400);
	for (unsigned turn = 0; turn < 2; turn++) {
		fresh_cache(CACHE_BYTES_MIN, 1000);
		assert_int_equal(load(3, WALL + 200), 0);
		assert_null(find("a.example", 3));
		assert_non_null(find_stale("a.example", 3, 1000));
		assert_int_equal(made_ttl(find_stale("a.example", 3, 1000), 0), 0);
		assert_non_null(find_stale("a.example", 3 + 699, 1000));
		assert_null(find_stale("a.example", 3 + 700, 1000));
		/* Saved and loaded again without any time passing, it is the same. */
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
		assert_int_equal(cache_save(c, fd, 3, WALL + 200, &store), 0);
	}
	fresh_cache(CACHE_BYTES_MIN, 299);
	assert_int_equal(load(3, WALL + 200), 0);
	assert_int_equal(entries(), 0);
}

/* Moving it to other memory makes it no younger. */
static void a_stale_answer_stays_as_old_as_it_is(void **state)
{
	const struct cache_answer *first;
	char name[40];

	fresh_cache(CACHE_BYTES_MIN, 1000);
	made_answer(m, "a.example", 1, 5, 300, false);
	put(5000);
	save(5400);
	fresh_cache(CACHE_BYTES_MIN, 1000);
	assert_int_equal(load(3, WALL), 0);
	first = find_stale("a.example", 3, 1000);
	for (unsigned i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "n%u.example", i);
		made_answer(m, name, 1, i, 3000, false);
		put(3);
		if (i % 100 == 0) {
			assert_non_null(find_stale("a.example", 3, 1000));
			cache_tidy(c, 3);
		}
	}
	assert_ptr_not_equal(find_stale("a.example", 3, 1000), first);
	assert_non_null(find_stale("a.example", 3 + 899, 1000));
	assert_null(find_stale("a.example", 3 + 900, 1000));
}

static void limits_of_now_hold(void **state)
{
	made_answer(m, "a.example", 1, 5, 30000, false);
	put(0);
	save(0);
	fresh_cache(CACHE_BYTES_MIN, 0);
	cache_set_limits(c, &(struct cache_limits){ 0, 600, 60, 0 });
	assert_int_equal(load(0, WALL), 0);
	assert_int_equal(find("a.example", 0)->expires_s, 600);
	assert_int_equal(made_ttl(find("a.example", 0), 0), 600);
	/* A least TTL makes no answer older than it would have been. */
	fresh_cache(CACHE_BYTES_MIN, 0);
	cache_set_limits(c, &(struct cache_limits){ 600, 60000, 60, 0 });
	assert_int_equal(load(0, WALL + 29990), 0);
	assert_int_equal(find("a.example", 0)->expires_s, 10);
	assert_int_equal(made_ttl(find("a.example", 0), 0), 10);
}

static void groups_are_found_by_their_signatures(void **state)
{
	made_answer(m, "a.example", 1, 1, 300, false);
	for (uint16_t i = 0; i < GROUPS; i++) {
		m->key.group = i;
		put(0);
	}
	signatures[0] = 0;
	save(0);
	fresh_cache(CACHE_BYTES_MIN, 0);
	signatures[0] = 1003;
	signatures[1] = 1001;
	signatures[2] = signatures[3] = 5;
	assert_int_equal(load(0, WALL), 0);
	assert_int_equal(entries(), 2);
	for (uint16_t i = 0; i < GROUPS; i++) {
		m->key.group = i;
		assert_int_equal(cache_find(c, &m->key, 0) != NULL, i < 2);
	}
}

static void put_numbered(unsigned count, uint32_t ttl_s)
{
	char name[40];

	for (unsigned i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "n%u.example", i);
		made_answer(m, name, 1 + i % 5, i, ttl_s, false);
		put(0);
	}
}

/* More than the reader has room for: live ones come before stale ones, and an eighth stays free for what is asked for. */
static void a_smaller_cache_takes_what_fits(void **state)
{
	struct cache_kinds k;
	struct cache_stat s;

	fresh_cache(8 << 20, 1000);
	put_numbered(20000, 300);
	for (unsigned i = 0; i < 1000; i++) {
		char name[40];

		snprintf(name, sizeof(name), "old%u.example", i);
		made_answer(m, name, 1, i, 10, false);
		put(0);
	}
	save(20);
	fresh_cache(CACHE_BYTES_MIN, 1000);
	/* Another run, another seed: with the same one the file would have the order of the buckets. */
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(cache_load(c, fd, 20, WALL, &other_run), 0);
	cache_stat_kinds(c, 20, &k);
	assert_true(k.positive > 2000);
	assert_int_equal(k.stale, 0);
	cache_stat(c, &s);
	assert_int_equal(s.no_room, 0);
	assert_int_equal(s.puts, 0);
	put_numbered(100, 300);
	cache_stat(c, &s);
	assert_int_equal(s.no_room, 0);
	fresh_cache(16 << 20, 1000);
	assert_int_equal(load(20, WALL), 0);
	cache_stat_kinds(c, 20, &k);
	/* All that the file has: some gave way in their buckets when they were put. */
	assert_true(k.positive > 19900);
	assert_int_equal(k.stale, 1000);
}

/* --- files that are not what was written --- */

static void a_cut_file_gives_what_is_whole(void **state)
{
	uint64_t before = 0, most;
	off_t whole;

	put_numbered(3000, 300); /* more than a block */
	most = entries();
	save(0);
	whole = lseek(fd, 0, SEEK_CUR);
	assert_true(whole > STORE_BLOCK_MAX);
	for (off_t cut = whole - 1; cut >= 0; cut -= cut > STORE_BLOCK_MAX - 1000 && cut < whole - 200 ? 5003 : 1 + cut / 300) {
		fresh_cache(4 << 20, 0);
		assert_int_equal(ftruncate(fd, cut), 0);
		assert_int_equal(load(0, WALL), NW_EMALFORMED);
		assert_true(entries() <= most);
		if (cut == whole - 1)
			assert_int_equal(entries(), most);
		if (cut > STORE_BLOCK_MAX + 1000)
			assert_true(entries() > 1000);
		before = entries();
	}
	assert_int_equal(before, 0);
}

/* Every bit counts: whichever is turned over, the damage is seen. */
static void a_damaged_file_is_seen(void **state)
{
	uint8_t bytes[4096];
	ssize_t len;

	put_numbered(3, 300);
	save(0);
	len = pread(fd, bytes, sizeof(bytes), 0);
	assert_true(len > 200 && len < (ssize_t)sizeof(bytes));
	for (ssize_t i = 0; i < len; i++) {
		fresh_cache(CACHE_BYTES_MIN, 0);
		bytes[i] ^= (uint8_t)(1u << i % 8);
		assert_int_equal(pwrite(fd, bytes, (size_t)len, 0), len);
		assert_int_equal(load(0, WALL), NW_EMALFORMED);
		bytes[i] ^= (uint8_t)(1u << i % 8);
		/* The end mark is its own block: the answers before it are whole. */
		assert_int_equal(entries(), i < len - (ssize_t)sizeof(struct store_block) ? 0 : 3);
	}
}

/* A file with right checks, whoever wrote it. */
static void write_block_of(const struct store_record *rec, const uint8_t *msg, size_t len)
{
	struct store_head h = { .magic = STORE_MAGIC, .version = STORE_VERSION, .wall_s = WALL };
	uint8_t records[sizeof(*rec) + 2000];
	struct store_block b = { .len = sizeof(*rec) + len }, end = { 0 };

	assert_true(len <= 2000);
	h.check = store_head_check(&h);
	memcpy(records, rec, sizeof(*rec));
	memcpy(records + sizeof(*rec), msg, len);
	b.check = store_block_check(&b, records, h.check);
	end.check = store_block_check(&end, records, b.check);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(pwrite(fd, &h, sizeof(h), 0), sizeof(h));
	assert_int_equal(pwrite(fd, &b, sizeof(b), sizeof(h)), sizeof(b));
	assert_int_equal(pwrite(fd, records, b.len, sizeof(h) + sizeof(b)), (ssize_t)b.len);
	assert_int_equal(pwrite(fd, &end, sizeof(end), (off_t)(sizeof(h) + sizeof(b) + b.len)), sizeof(end));
}

static uint64_t taken(struct store_record rec, size_t len, int r)
{
	fresh_cache(CACHE_BYTES_MIN, 1000);
	write_block_of(&rec, m->msg, len);
	assert_int_equal(load(0, WALL), r);
	return entries();
}

static void a_strangers_records_are_judged(void **state)
{
	struct store_record good = { .signature = 1000, .left_s = 200, .age_s = 100 }, rec;

	made_answer(m, "a.example", 2, 1, 300, false);
	good.msg_len = (uint16_t)m->len;
	assert_int_equal(taken(good, m->len, 0), 1);
	/* A life longer than its TTLs is not believed; nor is one without end. */
	rec = good;
	rec.left_s = 100000;
	assert_int_equal(taken(rec, m->len, 0), 1);
	assert_int_equal(find("a.example", 0)->expires_s, 200);
	rec.left_s = INT64_MAX;
	assert_int_equal(taken(rec, m->len, 0), 0);
	rec.left_s = INT64_MIN;
	assert_int_equal(taken(rec, m->len, 0), 0);
	rec = good;
	rec.age_s = UINT32_MAX;
	assert_int_equal(taken(rec, m->len, 0), 1);
	assert_null(find("a.example", 0));
	/* A record that says it is longer than its block. */
	rec = good;
	rec.msg_len++;
	assert_int_equal(taken(rec, m->len, NW_EMALFORMED), 0);
	rec.msg_len = (uint16_t)(m->len - 5);
	assert_int_equal(taken(rec, m->len, NW_EMALFORMED), 0);
	/* Messages that are no answers, or that would not have been kept. */
	m->msg[2] &= 0x7f;
	assert_int_equal(taken(good, m->len, 0), 0);
	m->msg[2] |= 0x80 | 0x08;
	assert_int_equal(taken(good, m->len, 0), 0);
	m->msg[2] = (uint8_t)((m->msg[2] & ~0x08) | 0x02);
	assert_int_equal(taken(good, m->len, 0), 0);
	m->msg[2] &= (uint8_t)~0x02;
	m->msg[3] |= RCODE_SERVFAIL;
	assert_int_equal(taken(good, m->len, 0), 0);
	m->msg[3] &= 0xf0;
	m->msg[12] = 70; /* a label that runs out of the message */
	assert_int_equal(taken(good, m->len, 0), 0);
	made_answer(m, "a.example", 0, 0, 300, false); /* NODATA without SOA */
	good.msg_len = (uint16_t)m->len;
	assert_int_equal(taken(good, m->len, 0), 0);
	good.msg_len = 0;
	assert_int_equal(taken(good, 0, 0), 0);
}

static void a_disk_that_fails_is_told(void **state)
{
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC), closed = open("/", O_RDONLY | O_CLOEXEC);

	put_numbered(100, 300);
	assert_true(full >= 0 && closed >= 0);
	assert_int_equal(cache_save(c, full, 0, WALL, &store), -ENOSPC);
	assert_int_equal(cache_load(c, closed, 0, WALL, &store), -EIO);
	close(full);
	close(closed);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(everything_comes_back), TEST(time_on_the_way_counts), TEST(stale_answers_come_back_as_such), TEST(a_stale_answer_stays_as_old_as_it_is), TEST(limits_of_now_hold),
		TEST(groups_are_found_by_their_signatures), TEST(a_smaller_cache_takes_what_fits), TEST(a_cut_file_gives_what_is_whole),
		TEST(a_damaged_file_is_seen), TEST(a_strangers_records_are_judged), TEST(a_disk_that_fails_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
