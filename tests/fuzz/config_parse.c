/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A configuration from any bytes: as a bundle when they begin like one, else as the text of the main file, or, split at a line
 * "%%%", of the main file and what it includes. What is accepted must hold what config.h promises, twice the same. */
#include <string.h>
#include "config/bundle.h"
#include "config/config.h"
#include "fuzz.h"

static void check_ids(const struct ids *ids, unsigned below)
{
	for (unsigned i = 0; i < ids->count; i++)
		CHECK(ids->v[i] < below);
}

static void check_ways(const struct config *c)
{
	for (unsigned i = 0; i < c->way_count; i++) {
		const struct cfg_way *w = &c->ways[i];
		CHECK(w->mark && !(w->mark & ~c->server.mark_mask));
		CHECK(w->upstream >= -1 && w->upstream < (int)c->upstream_count);
		CHECK(w->upstream < 0 || c->upstreams[w->upstream].way == (int)i);
		CHECK(!w->table_id == !*w->interface);
		unsigned steps = 0;
		for (int at = w->fallback; at >= 0; at = c->ways[at].fallback)
			CHECK(at < (int)c->way_count && steps++ < c->way_count);
		for (unsigned j = 0; j < i; j++)
			CHECK(w->mark != c->ways[j].mark && (!w->table_id || w->table_id != c->ways[j].table_id) &&
			        strcmp(w->name, c->ways[j].name));
	}
}

static void check_rules(const struct config *c)
{
	for (unsigned i = 0; i < c->filter_count; i++) {
		const struct cfg_filter *f = &c->filters[i];
		CHECK(f->allow == (f->block == BLOCK_NONE));
		check_ids(&f->clients, c->group_count);
		check_ids(&f->except_clients, c->group_count);
		check_ids(&f->names, c->list_count);
		check_ids(&f->except_names, c->list_count);
	}
	for (unsigned i = 0; i < c->steer_count; i++) {
		const struct cfg_steer *s = &c->steers[i];
		CHECK(s->id && s->way >= 0 && s->way < (int)c->way_count);
		check_ids(&s->clients, c->group_count);
		check_ids(&s->except_clients, c->group_count);
		check_ids(&s->names, c->list_count);
		check_ids(&s->except_names, c->list_count);
		for (unsigned j = 0; j < i; j++)
			CHECK(s->id != c->steers[j].id && strcmp(s->name, c->steers[j].name));
	}
}

static void check_config(const struct config *c)
{
	CHECK(c->server.mark_mask && c->server.workers <= 64);
	CHECK(c->default_upstream >= -1 && c->default_upstream < (int)c->upstream_count);
	CHECK(c->list_count <= CONFIG_LISTS_MAX && c->group_count <= CONFIG_GROUPS_MAX && c->way_count <= CONFIG_WAYS_MAX);
	CHECK(c->filter_count <= CONFIG_RULES_MAX && c->steer_count <= CONFIG_RULES_MAX &&
	        c->upstream_count <= CONFIG_UPSTREAMS_MAX);
	check_ids(&c->server.allow_groups, c->group_count);
	for (unsigned i = 0; i < c->upstream_count; i++)
		CHECK(c->upstreams[i].server_count > 0 && c->upstreams[i].server_count <= CONFIG_SERVERS_MAX);
	for (unsigned i = 0; i < c->list_count; i++)
		for (unsigned j = 0; j < c->lists[i].file_count; j++)
			CHECK(c->lists[i].files[j][0] == '/');
	check_ways(c);
	check_rules(c);
}

static void parse_twice(const void *bundle, size_t len)
{
	struct config *a = NULL, *b = NULL;
	struct report r, again;
	report_init(&r);
	report_init(&again);
	int outcome = config_parse(&a, bundle, len, &r);
	CHECK(outcome <= 0 && !outcome == !!a && !outcome == !r.errors);
	CHECK(config_parse(&b, bundle, len, &again) == outcome);
	CHECK(again.text.len == r.text.len && (!r.text.len || !memcmp(again.text.bytes, r.text.bytes, r.text.len)));
	if (a) {
		check_config(a);
		for (unsigned i = 0; i < a->way_count; i++)
			CHECK(a->ways[i].mark == b->ways[i].mark && a->ways[i].table_id == b->ways[i].table_id);
		for (unsigned i = 0; i < a->steer_count; i++)
			CHECK(a->steers[i].id == b->steers[i].id);
	}
	config_free(a);
	config_free(b);
	report_free(&r);
	report_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	static const char magic[] = "nameway-bundle", cut[] = "\n%%%\n";
	const char *text = (const char *)bytes;
	if (len >= sizeof magic - 1 && !memcmp(text, magic, sizeof magic - 1)) {
		parse_twice(bytes, len);
		return 0;
	}
	struct buf b;
	buf_init(&b, BUNDLE_MAX);
	bundle_begin(&b, "/etc/nameway");
	const char *more = memmem(text, len, cut, sizeof cut - 1);
	size_t first_len = more ? (size_t)(more - text) : len;
	bundle_add(&b, "main.yaml", text, first_len);
	if (more)
		bundle_add(&b, "more.yaml", more + sizeof cut - 1, len - first_len - (sizeof cut - 1));
	bundle_end(&b, more ? 2 : 1);
	if (!b.failed)
		parse_twice(b.bytes, b.len);
	buf_free(&b);
	return 0;
}
