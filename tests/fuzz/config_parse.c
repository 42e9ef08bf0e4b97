/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A configuration from any bytes: as a bundle when they begin like one, else as the text of the main file, or, split at a line
 * "%%%", of the main file and what it includes. A third part is the text of /etc/resolv.conf, a fourth what is known of the
 * machine. What is accepted must hold what config.h promises, twice the same. */
#include <string.h>
#include "config/bundle.h"
#include "config/config.h"
#include "fuzz.h"
#include "wire/msg.h"

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
		CHECK(f->allow == (f->block == BLOCK_NONE) && f->ttl_s <= 86400);
		CHECK((f->answer_count > 0) == (f->block == BLOCK_ANSWER) && f->answer_count <= CONFIG_ANSWERS_MAX);
		CHECK((f->cname.labels > 0) == (f->block == BLOCK_CNAME));
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

static void check_upstream(const struct cfg_upstream *up)
{
	CHECK(up->server_count <= CONFIG_SERVERS_MAX && (up->server_count || up->resolv_conf));
	CHECK(up->inflight_max && (!up->resolv_conf || up->resolv_conf[0] == '/') && up->domain_count <= CONFIG_DOMAINS_MAX);
	for (unsigned i = 0; i < up->server_count; i++)
		CHECK(up->servers[i].addr.family && up->servers[i].port);
	for (unsigned i = 0; i < up->domain_count; i++)
		CHECK(up->domains[i].labels);
}

/* A CNAME stands alone, no record twice. Quadratic, so for few only. */
static void check_records(const struct cfg_local *l)
{
	CHECK(l->record_count <= CONFIG_RECORDS_MAX && l->host_count <= CONFIG_HOSTS_MAX);
	for (unsigned i = 0; i < l->record_count; i++) {
		const struct cfg_record *r = &l->records[i];
		CHECK(r->owner.labels && r->type && r->ttl_s <= INT32_MAX && (r->type != RR_A || r->rdlen == 4) &&
		        (r->type != RR_AAAA || r->rdlen == 16));
		struct name target;
		CHECK(r->type != RR_CNAME || name_from_wire(&target, r->rdata, r->rdlen) == r->rdlen);
		for (unsigned j = 0; j < i && i < 64; j++) {
			const struct cfg_record *o = &l->records[j];
			if (o->scope != r->scope || !name_equal(&o->owner, &r->owner))
				continue;
			CHECK(o->type != RR_CNAME && r->type != RR_CNAME);
			CHECK(o->type != r->type || o->rdlen != r->rdlen || memcmp(o->rdata, r->rdata, r->rdlen));
		}
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
		check_upstream(&c->upstreams[i]);
	for (unsigned i = 0; i < c->list_count; i++)
		for (unsigned j = 0; j < c->lists[i].file_count; j++)
			CHECK(c->lists[i].files[j][0] == '/');
	CHECK(c->cache.ttl_min_s <= c->cache.ttl_max_s && c->cache.ttl_max_s && c->cache.negative_ttl_max_s <= 3600);
	check_records(&c->local);
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
	static const struct {
		enum bundle_kind kind;
		const char *path;
	} parts[] = {{BUNDLE_FILE, "main.yaml"}, {BUNDLE_FILE, "more.yaml"}, {BUNDLE_RESOLV, "/etc/resolv.conf"},
	        {BUNDLE_MACHINE, "interfaces"}};
	struct buf b;
	unsigned members = 0;
	buf_init(&b, BUNDLE_MAX);
	bundle_begin(&b, "/etc/nameway");
	for (const char *more = text; more && members < 4; members++) {
		const char *next = members < 3 ? memmem(more, len, cut, sizeof cut - 1) : NULL;
		size_t part_len = next ? (size_t)(next - more) : len;
		bundle_add_kind(&b, parts[members].kind, parts[members].path, more, part_len);
		len -= next ? part_len + sizeof cut - 1 : part_len;
		more = next ? next + sizeof cut - 1 : NULL;
	}
	bundle_end(&b, members);
	if (!b.failed)
		parse_twice(b.bytes, b.len);
	buf_free(&b);
	return 0;
}
