/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What is kept, for how long, under which key; flushing and walking. One thread. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "answers.h"
#include "base/rcu.h"

static struct cache *c;
static struct made *m;

static int setup(void **state)
{
	rcu_thread_register();
	m = calloc(1, sizeof(*m));
	return m && !cache_new(&c, CACHE_BYTES_MIN) ? 0 : -1;
}

static int teardown(void **state)
{
	cache_free(c);
	free(m);
	rcu_thread_unregister();
	return 0;
}

static const struct cache_answer *find(const char *name, uint32_t now_s)
{
	struct cache_key key;
	struct name qname;

	made_key(&key, &qname, name);
	return cache_find(c, &key, now_s);
}

static void put(uint32_t now_s)
{
	cache_put(c, &m->key, m->msg, m->len, &m->walked, now_s);
}

static void keeps_an_answer_whole(void **state)
{
	const struct cache_answer *a;

	made_answer(m, "Www.Example.org", 3, 5, 300, false);
	put(100);
	a = find("www.example.ORG", 100);
	assert_non_null(a);
	assert_int_equal(a->msg_len, m->walked.authority_end);
	assert_int_equal(a->msg_len, m->len - 11);
	assert_memory_equal(a->msg, m->msg, 10);
	assert_int_equal(a->msg[10] << 8 | a->msg[11], 0);
	assert_memory_equal(a->msg + 12, m->msg + 12, a->msg_len - 12u);
	assert_int_equal(a->addr_count, 3);
	assert_true(addr_equal(&a->addrs[2], &m->walked.addrs[2]));
	assert_int_equal(a->ttl_count, 3);
	assert_memory_equal(a->ttl_offset, m->walked.ttl_offset, 6);
	assert_int_equal(a->chain_len, 1);
	assert_int_equal(a->chain[0]->len, m->qname.len);
	assert_memory_equal(a->chain[0]->wire, m->qname.wire, m->qname.len);
	assert_int_equal(a->stored_s, 100);
	assert_int_equal(a->expires_s, 400);
	assert_false(a->is_nodata);
}

static void keeps_the_chain(void **state)
{
	const struct cache_answer *a;
	struct name target;

	made_alias(m, "alias.example", "the.target.example", 60);
	put(0);
	a = find("alias.example", 1);
	assert_non_null(a);
	assert_int_equal(a->chain_len, 2);
	name_from_text(&target, "the.target.example", 18);
	assert_int_equal(a->chain[1]->len, target.len);
	assert_memory_equal(a->chain[1]->wire, target.wire, target.len);
	assert_null(find("the.target.example", 1));
}

static void expires(void **state)
{
	made_answer(m, "a.example", 1, 1, 30, false);
	put(1000);
	assert_non_null(find("a.example", 1029));
	assert_null(find("a.example", 1030));
	made_answer(m, "long.example", 1, 1, 10 * CACHE_TTL_MAX_S, false);
	put(0);
	assert_non_null(find("long.example", CACHE_TTL_MAX_S - 1));
	assert_null(find("long.example", CACHE_TTL_MAX_S));
}

static void keys_are_apart(void **state)
{
	struct cache_key key;

	made_answer(m, "a.example", 1, 1, 30, false);
	put(0);
	assert_non_null(cache_find(c, &m->key, 0));
	key = m->key;
	key.qtype = RR_AAAA;
	assert_null(cache_find(c, &key, 0));
	key = m->key;
	key.qclass = 3;
	assert_null(cache_find(c, &key, 0));
	key = m->key;
	key.group = 1;
	assert_null(cache_find(c, &key, 0));
	for (uint8_t variant = 1; variant < 4; variant++) {
		key = m->key;
		key.variant = variant;
		assert_null(cache_find(c, &key, 0));
	}
}

/* The hash is only a hint: another name with an equal one is another name. */
static void compares_whole_names(void **state)
{
	struct cache_key key;
	struct name other;

	made_answer(m, "a.example", 1, 1, 30, false);
	put(0);
	made_key(&key, &other, "b.example");
	key.name_hash = m->key.name_hash;
	assert_null(cache_find(c, &key, 0));
}

static void replaces(void **state)
{
	struct cache_stat s;

	for (unsigned i = 0; i < 20; i++) {
		made_answer(m, "a.example", 1 + i % 3, i, 30, false);
		put(i);
	}
	assert_int_equal(find("a.example", 20)->stored_s, 19);
	assert_int_equal(find("a.example", 20)->addr_count, 2);
	cache_stat(c, &s);
	assert_int_equal(s.entries, 1);
	assert_int_equal(s.puts, 20);
	assert_int_equal(s.evictions, 0);
}

static void negative_answers_need_an_soa(void **state)
{
	made_answer(m, "no.example", 0, 0, 30, false);
	put(0);
	assert_null(find("no.example", 0));
	made_answer(m, "no.example", 0, 0, 10 * CACHE_NEG_TTL_MAX_S, true);
	put(0);
	assert_non_null(find("no.example", CACHE_NEG_TTL_MAX_S - 1));
	assert_true(find("no.example", 0)->is_nodata);
	assert_null(find("no.example", CACHE_NEG_TTL_MAX_S));
}

static void refuses_what_is_not_to_be_kept(void **state)
{
	struct wire_answer good;

	made_answer(m, "a.example", 1, 0, 0, false);
	put(0);
	assert_null(find("a.example", 0));
	made_answer(m, "a.example", 1, 0, 30, false);
	good = m->walked;
	m->walked.rcode = RCODE_SERVFAIL;
	put(0);
	m->walked = good;
	m->walked.flags |= FLAG_TC;
	put(0);
	m->walked = good;
	m->walked.is_cut = true;
	put(0);
	m->walked = good;
	m->walked.is_chain_open = true;
	put(0);
	m->walked = good;
	m->walked.authority_end = (uint16_t)(m->len + 1);
	put(0);
	m->walked = good;
	name_from_text(&m->walked.chain[0], "b.example", 9);
	put(0);
	assert_null(find("a.example", 0));
	m->walked = good;
	put(0);
	assert_non_null(find("a.example", 0));
}

static void counts_what_is_too_big(void **state)
{
	struct cache_stat s;

	made_answer(m, "a.example", 1, 0, 30, false);
	memset(m->msg + m->len, 0, sizeof(m->msg) - m->len);
	m->len = m->walked.authority_end = 65535;
	put(0);
	assert_null(find("a.example", 0));
	cache_stat(c, &s);
	assert_int_equal(s.too_big, 1);
}

struct seen {
	unsigned count, alias;
};

static void see(void *ctx, const struct cache_answer *a)
{
	struct seen *seen = ctx;

	seen->count++;
	seen->alias += a->chain_len == 2;
}

static void walks_the_live_ones(void **state)
{
	struct seen seen = { 0 };
	char name[40];

	for (unsigned i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "n%u.example", i);
		made_answer(m, name, 1, i, i < 100 ? 10 : 100, false);
		put(0);
	}
	made_alias(m, "alias.example", "target.example", 100);
	put(0);
	cache_walk(c, 9, see, &seen);
	assert_int_equal(seen.count, 501);
	assert_int_equal(seen.alias, 1);
	seen = (struct seen){ 0 };
	cache_walk(c, 10, see, &seen);
	assert_int_equal(seen.count, 401);
}

static void flushes_a_subtree(void **state)
{
	static const char *const names[] = { "example.org", "a.example.org", "b.a.example.org", "notexample.org", "example.org.net", "org" };
	struct name under;
	struct cache_stat s;

	for (unsigned i = 0; i < 6; i++) {
		made_answer(m, names[i], 1, i, 30, false);
		put(0);
	}
	name_from_text(&under, "example.org", 11);
	assert_int_equal(cache_flush(c, &under), 3);
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(find(names[i], 0) != NULL, i >= 3);
	assert_int_equal(cache_flush(c, NULL), 3);
	assert_null(find("org", 0));
	cache_stat(c, &s);
	assert_int_equal(s.entries, 0);
	assert_int_equal(s.hits, 3);
	assert_int_equal(s.misses, 4);
}

/* An answer whose chain passes the name would bring its old addresses back. */
static void flushes_one_name_and_what_leads_through_it(void **state)
{
	struct name name;

	made_answer(m, "target.example", 1, 1, 30, false);
	put(0);
	m->key.qtype = RR_AAAA; /* every type and group, as the key says */
	put(0);
	m->key.group = 3;
	put(0);
	made_answer(m, "under.target.example", 1, 1, 30, false);
	put(0);
	made_alias(m, "alias.other", "target.example", 30);
	put(0);
	made_alias(m, "deep.other", "under.target.example", 30);
	put(0);
	name_from_text(&name, "example", 7);
	assert_int_equal(cache_flush_name(c, &name), 0);
	name_from_text(&name, "target.example", 14);
	assert_int_equal(cache_flush_name(c, &name), 4);
	assert_null(find("target.example", 0));
	assert_null(find("alias.other", 0));
	assert_non_null(find("under.target.example", 0));
	assert_non_null(find("deep.other", 0));
	assert_int_equal(cache_flush(c, &name), 2);
	assert_null(find("deep.other", 0));
}

static void refuses_a_tiny_budget(void **state)
{
	struct cache *tiny = NULL;

	assert_int_equal(cache_new(&tiny, CACHE_BYTES_MIN - 1), -EINVAL);
	assert_null(tiny);
	cache_free(NULL);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(keeps_an_answer_whole), TEST(keeps_the_chain), TEST(expires), TEST(keys_are_apart), TEST(compares_whole_names), TEST(replaces),
		TEST(negative_answers_need_an_soa), TEST(refuses_what_is_not_to_be_kept), TEST(counts_what_is_too_big), TEST(walks_the_live_ones),
		TEST(flushes_a_subtree), TEST(flushes_one_name_and_what_leads_through_it), TEST(refuses_a_tiny_budget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
