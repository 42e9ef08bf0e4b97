/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Entries are by key, the hash of a rule's name; a name that the configuration gave ("rule 3") would be another rule's after an edit, so what the rule says
 * goes into its key too. `on_page` holds the key that each place of the page stands for now: an entry is written only to the places of its key. */
#include "control/pauses.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/err.h"
#include "base/hash.h"

struct pause { uint64_t key; uint32_t until_s; };

struct pauses {
	pthread_mutex_t lock;
	struct pause v[CONFIG_RULES_MAX];
	unsigned count;
	uint64_t on_page[CONFIG_RULES_MAX]; /* 0: nobody's */
	struct filter_pause page;
};

struct pauses *pauses_new(void)
{
	struct pauses *p = calloc(1, sizeof *p);
	if (p)
		pthread_mutex_init(&p->lock, NULL);
	return p;
}

void pauses_free(struct pauses *p)
{
	if (!p)
		return;
	pthread_mutex_destroy(&p->lock);
	free(p);
}

struct filter_pause *pauses_page(struct pauses *p)
{
	return &p->page;
}

static uint64_t hash_names(const struct config *c, const struct ids *lists, const struct ids *groups, uint64_t seed)
{
	for (unsigned i = 0; i < lists->count; i++)
		seed = hash_bytes(c->lists[lists->v[i]].name, strlen(c->lists[lists->v[i]].name), seed + 1);
	for (unsigned i = 0; i < groups->count; i++)
		seed = hash_bytes(c->groups[groups->v[i]].name, strlen(c->groups[groups->v[i]].name), seed + 2);
	return seed;
}

static uint64_t key_of(const struct config *c, unsigned rule)
{
	const struct cfg_filter *f = &c->filters[rule];
	char given[32];
	snprintf(given, sizeof given, "rule %u", rule + 1);
	const char *name = f->name ? f->name : given;
	uint64_t key = hash_bytes(name, strlen(name), 0);
	if (!strcmp(name, given)) {
		key = hash_names(c, &f->names, &f->clients, key + f->block);
		key = hash_names(c, &f->except_names, &f->except_clients, key + f->allow);
	}
	return key ? key : 1;
}

static struct pause *find(struct pauses *p, uint64_t key)
{
	for (unsigned i = 0; i < p->count; i++)
		if (p->v[i].key == key)
			return &p->v[i];
	return NULL;
}

static void write_page(struct pauses *p)
{
	for (unsigned i = 0; i < CONFIG_RULES_MAX; i++) {
		const struct pause *e = p->on_page[i] ? find(p, p->on_page[i]) : NULL;
		atomic_store_explicit(&p->page.rule_until_s[i], e ? e->until_s : 0, memory_order_relaxed);
	}
}

void pauses_before_switch(struct pauses *p, const struct config *next)
{
	pthread_mutex_lock(&p->lock);
	for (unsigned i = 0; i < CONFIG_RULES_MAX; i++)
		if (i >= next->filter_count || p->on_page[i] != key_of(next, i))
			p->on_page[i] = 0;
	write_page(p);
	pthread_mutex_unlock(&p->lock);
}

void pauses_after_switch(struct pauses *p, const struct config *now)
{
	pthread_mutex_lock(&p->lock);
	for (unsigned i = 0; i < CONFIG_RULES_MAX; i++)
		p->on_page[i] = i < now->filter_count ? key_of(now, i) : 0;
	write_page(p);
	pthread_mutex_unlock(&p->lock);
}

static void forget_ended(struct pauses *p, uint32_t now_s)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < p->count; i++)
		if (p->v[i].until_s > now_s)
			p->v[kept++] = p->v[i];
	p->count = kept;
}

int pauses_set(struct pauses *p, const struct config *c, int rule, uint32_t until_s, uint32_t now_s)
{
	int r = 0;
	pthread_mutex_lock(&p->lock);
	forget_ended(p, now_s);
	if (rule == PAUSE_ALL) {
		atomic_store_explicit(&p->page.all_until_s, until_s, memory_order_relaxed);
	} else {
		uint64_t key = key_of(c, (unsigned)rule);
		struct pause *e = find(p, key);
		if (!e && p->count < CONFIG_RULES_MAX)
			e = &p->v[p->count++];
		if (e)
			*e = (struct pause){ .key = key, .until_s = until_s };
		else
			r = NW_EFULL;
		forget_ended(p, now_s);
		write_page(p);
	}
	pthread_mutex_unlock(&p->lock);
	return r;
}

void pauses_end_all(struct pauses *p)
{
	pthread_mutex_lock(&p->lock);
	p->count = 0;
	atomic_store_explicit(&p->page.all_until_s, 0, memory_order_relaxed);
	write_page(p);
	pthread_mutex_unlock(&p->lock);
}

uint32_t pauses_left(struct pauses *p, const struct config *c, int rule, uint32_t now_s)
{
	pthread_mutex_lock(&p->lock);
	const struct pause *e = rule == PAUSE_ALL ? NULL : find(p, key_of(c, (unsigned)rule));
	uint32_t until = rule == PAUSE_ALL ? atomic_load_explicit(&p->page.all_until_s, memory_order_relaxed) : e ? e->until_s : 0;
	pthread_mutex_unlock(&p->lock);
	return until > now_s ? until - now_s : 0;
}
