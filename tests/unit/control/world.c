/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "world.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "../cache/answers.h"
#include "base/clock.h"
#include "base/rcu.h"
#include "config/bundle.h"

enum { SEED = 4711 };

const char world_config[] = "server: { listen: [br-lan@53], allow: [lan, iot] }\n"
                            "upstreams:\n"
                            "  default: { servers: [192.0.2.53] }\n"
                            "  t1dns: { servers: [10.64.0.1] }\n"
                            "clients:\n"
                            "  lan: { interfaces: [br-lan] }\n"
                            "  iot: { interfaces: [br-iot], networks: [192.168.20.0/24] }\n"
                            "  toys: { macs: [\"02:00:5e:10:00:01\"] }\n"
                            "lists:\n"
                            "  vpn: { files: [vpn.txt] }\n"
                            "  ads: { files: [ads.txt] }\n"
                            "  mine: { files: [mine.txt] }\n"
                            "ways:\n"
                            "  direct: {}\n"
                            "  tunnel1: { interface: wg1, mark: 0x2000, upstream: t1dns, kill-switch: true }\n"
                            "  tunnel2: { interface: wg2, mark: 0x1000 }\n"
                            "filter:\n"
                            "  - { name: mine first, names: [mine], allow: true }\n"
                            "  - { name: content filter, clients: [iot, lan], names: [ads], block: nxdomain }\n"
                            "  - { name: toys filter, clients: [toys], names: [ads], block: refuse }\n"
                            "steer:\n"
                            "  - { name: off, names: [vpn], way: tunnel2, enabled: false }\n"
                            "  - { name: Tunnel 1, clients: [lan], names: [vpn], except-names: [mine], way: tunnel1 }\n"
                            "  - { name: Tunnel 2, clients: [iot], names: [vpn], way: tunnel2 }\n"
                            "  - { gid: 10000, way: direct }\n"
                            "  - { way: direct }\n";

/* --- the environment --- */

static const struct snapshot *take(void *ctx)
{
	struct world *w = ctx;
	if (w->is_starting)
		return NULL;
	w->taken++;
	return &w->snap;
}

static void give(void *ctx, const struct snapshot *s)
{
	struct world *w = ctx;
	if (s)
		w->taken--;
}

static json_t *ask_enforcer(void *ctx, enum steer_query_what what, const struct addr *a)
{
	struct world *w = ctx;
	const char *text = what == STEER_Q_STATE ? w->state : w->address;
	assert_true((what == STEER_Q_ADDRESS) == (a != NULL));
	return text ? json_loads(text, 0, NULL) : NULL;
}

static int on_compiler(void *ctx, int (*fn)(void *arg), void *arg)
{
	struct world *w = ctx;
	w->taken_at_compile = w->taken;
	return fn(arg);
}

static int list_reload(void *ctx, const char *list, bool accept, struct report *r)
{
	struct world *w = ctx;
	assert_int_equal(w->taken, 0);
	snprintf(w->reloaded, sizeof(w->reloaded), "%s", list);
	w->accepted = accept;
	if (w->reload_said)
		report_add(r, w->reload_result < 0, NULL, "%s", w->reload_said);
	return w->reload_result;
}

static const char *rule_name(void *ctx, uint32_t serial, bool is_steer, int rule, char buf[128])
{
	struct world *w = ctx;
	(void)buf;
	if (serial != w->snap.serial)
		return NULL;
	return is_steer ? w->snap.config->steers[rule].name : w->snap.config->filters[rule].name;
}

static const struct links *links_of(void *ctx)
{
	return &((struct world *)ctx)->links;
}

/* --- making it --- */

static struct config *parse(void)
{
	struct config *c = NULL;
	struct report r;
	struct buf b;
	report_init(&r);
	buf_init(&b, BUNDLE_MAX);
	assert_int_equal(bundle_begin(&b, "/etc/nameway"), 0);
	assert_int_equal(bundle_add(&b, "t.yaml", world_config, strlen(world_config)), 0);
	assert_int_equal(bundle_end(&b, 1), 0);
	if (config_parse(&c, b.bytes, b.len, &r) < 0)
		fail_msg("refused: %s", r.text.bytes);
	buf_free(&b);
	report_free(&r);
	c->serial = 5;
	return c;
}

static void offer(struct lists *l, unsigned list, const char *path, const char *text)
{
	struct list_file f = {.fd = memfd_create("list", MFD_CLOEXEC), .path = path};
	struct report r;
	report_init(&r);
	assert_true(f.fd >= 0);
	assert_int_equal(write(f.fd, text, strlen(text)), strlen(text));
	assert_int_equal(lseek(f.fd, 0, SEEK_SET), 0);
	if (lists_offer(l, list, &f, 1, false, &r) < 0)
		fail_msg("not taken: %s", r.text.bytes);
	report_free(&r);
}

static void make_policy(struct world *w, uint64_t gen)
{
	const struct prefixes *prefixes[CONFIG_LISTS_MAX];
	const struct exprs *exprs[CONFIG_LISTS_MAX];
	for (unsigned i = 0; i < w->snap.config->list_count; i++)
		prefixes[i] = lists_prefixes(w->env.lists, i), exprs[i] = lists_exprs(w->env.lists, i);
	policy_free(w->snap.policy);
	w->snap.policy = NULL;
	assert_int_equal(policy_new(&w->snap.policy, w->snap.config, lists_index(w->env.lists), w->snap.slots, prefixes, exprs), 0);
	policy_set_generation(w->snap.policy, gen);
}

/* As the server's hook: a grown index or changed prefixes need a policy over them. */
static int on_index_swapped(void *ctx, struct index *ix, uint64_t gen)
{
	struct world *w = ctx;
	(void)ix;
	if (w->snap.policy)
		make_policy(w, gen);
	return 0;
}

static void make_queries(struct world *w)
{
	struct query_log_settings s = {.is_on = true, .keep_s = 3600, .bytes_max = 1 << 20, .ctx = w, .rule_name = rule_name};
	strcpy(w->dir, "/tmp/nameway-test-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	w->dir_fd = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	w->ring = query_ring_new();
	assert_int_equal(query_log_new(&w->env.queries, w->dir_fd), 0);
	query_log_attach(w->env.queries, w->ring);
	query_log_configure(w->env.queries, &s);
	w->snap.config->server.log_queries = true;
	w->env.pauses = pauses_new();
	pauses_after_switch(w->env.pauses, w->snap.config);
}

static void end_queries(struct world *w)
{
	query_log_free(w->env.queries);
	query_ring_free(w->ring);
	pauses_free(w->env.pauses);
	DIR *d = opendir(w->dir);
	for (struct dirent *e; (e = readdir(d));)
		unlinkat(w->dir_fd, e->d_name, 0);
	closedir(d);
	close(w->dir_fd);
	rmdir(w->dir);
}

void world_asked(struct world *w, const char *name, const char *client, enum query_outcome outcome, int filter_rule)
{
	struct timespec t;
	struct name n;
	struct query_record q = {.took_us = 85,
	        .weight = 1,
	        .qtype = 1,
	        .rcode = outcome == OUTCOME_BLOCKED ? 3 : 0,
	        .outcome = outcome,
	        .filter_rule = (int16_t)filter_rule,
	        .steer_rule = -1,
	        .config_serial = w->snap.serial,
	        .qname = &n};
	clock_gettime(CLOCK_REALTIME, &t);
	q.wall_ms = (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
	assert_int_equal(name_from_text(&n, name, strlen(name)), 0);
	assert_int_equal(addr_parse(&q.client, client), 0);
	query_ring_put(w->ring, &q);
}

void world_begin(struct world *w)
{
	memset(w, 0, sizeof(*w));
	rcu_thread_register();
	struct lists_hooks hooks = {.ctx = w, .index_swapped = on_index_swapped};
	w->snap.config = parse();
	w->snap.serial = w->snap.config->serial;
	w->snap.group_id = calloc(w->snap.config->upstream_count, sizeof(*w->snap.group_id));
	for (unsigned i = 0; i < w->snap.config->upstream_count; i++)
		w->snap.group_id[i] = (uint16_t)(7 + i);
	assert_int_equal(lists_new(&w->env.lists, -1, &hooks), 0);
	assert_int_equal(lists_plan(w->env.lists, w->snap.config, w->snap.slots), 0);
	offer(w->env.lists, 0, "/etc/nameway/vpn.txt", "# comment\nvpn.example\n=exact.example\nboth.example\n203.0.113.0/24\n");
	offer(w->env.lists, 1, "/etc/nameway/ads.txt", "ads.example\n!ok.ads.example\n198.51.100.66\n");
	offer(w->env.lists, 2, "/etc/nameway/mine.txt", "both.example\nfine.ads.example\n");
	make_policy(w, 0);
	assert_int_equal(cache_new(&w->env.cache, 8 << 20), 0);
	assert_int_equal(holds_new(&w->env.holds, 1024), 0);
	w->env.alarms = alarms_new();
	prefix_parse(&w->attached, "192.168.8.0/24");
	w->links = (struct links){.network_count = 1, .networks = &w->attached};
	atomic_store(&w->shared.state, STEER_READY);
	atomic_store(&w->shared.cfg[5 & 1].serial, 5);
	make_queries(w);
	w->env.ctx = w;
	w->env.steer = &w->shared;
	w->env.started_ms = clock_ms() - 3000;
	w->env.name_seed = SEED;
	w->env.snapshot_take = take;
	w->env.snapshot_give = give;
	w->env.ask_enforcer = ask_enforcer;
	w->env.on_compiler = on_compiler;
	w->env.list_reload = list_reload;
	w->env.links = links_of;
}

void world_end(struct world *w)
{
	assert_int_equal(w->taken, 0);
	end_queries(w);
	policy_free(w->snap.policy);
	free(w->snap.group_id);
	lists_free(w->env.lists);
	cache_free(w->env.cache);
	holds_free(w->env.holds);
	alarms_free(w->env.alarms);
	config_free(w->snap.config);
	rcu_thread_unregister();
}

void world_cache(struct world *w, const char *name, const char *target)
{
	static struct made m;
	uint32_t now_s = (uint32_t)(clock_ms() / 1000);
	made_alias(&m, name, target, 300);
	m.key.name_hash = name_whole_hash(&m.qname, SEED);
	/* Whichever group it is steered to. */
	for (unsigned i = 0; i < w->snap.config->upstream_count; i++) {
		m.key.group = w->snap.group_id[i];
		cache_put(w->env.cache, &m.key, m.msg, m.walked.authority_end, &m.walked, now_s);
	}
}

static json_t *ask(struct world *w, bool may_change, int *ret, const char *fmt, va_list ap)
{
	char text[4096];
	json_t *result = NULL;
	vsnprintf(text, sizeof(text), fmt, ap);
	json_t *request = json_loads(text, 0, NULL);
	if (!request)
		fail_msg("no JSON: %s", text);
	*ret = control_run(&w->env, request, may_change, &result);
	json_decref(request);
	assert_non_null(result);
	assert_int_equal(w->taken, 0);
	assert_int_equal(w->taken_at_compile, 0);
	return result;
}

json_t *world_ask(struct world *w, bool may_change, int *ret, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	json_t *j = ask(w, may_change, ret, fmt, ap);
	va_end(ap);
	return j;
}

json_t *world_get(struct world *w, const char *fmt, ...)
{
	va_list ap;
	int r;
	va_start(ap, fmt);
	json_t *j = ask(w, true, &r, fmt, ap);
	va_end(ap);
	if (r < 0)
		fail_msg("refused: %s", json_string_value(j));
	return j;
}

void world_refuses(struct world *w, const char *part, const char *fmt, ...)
{
	va_list ap;
	int r;
	va_start(ap, fmt);
	json_t *j = ask(w, true, &r, fmt, ap);
	va_end(ap);
	assert_true(r < 0);
	assert_true(json_is_string(j));
	if (!strstr(json_string_value(j), part))
		fail_msg("`%s` is not in `%s`", part, json_string_value(j));
	json_decref(j);
}

const json_t *at(const json_t *j, const char *path)
{
	char part[64];
	while (j && *path) {
		size_t len = strcspn(path, ".");
		assert_true(len < sizeof(part));
		memcpy(part, path, len);
		part[len] = 0;
		j = json_is_array(j) ? json_array_get(j, strtoul(part, NULL, 10)) : json_object_get(j, part);
		path += len + (path[len] == '.');
	}
	return j;
}

const char *text_at(const json_t *j, const char *path)
{
	const char *text = json_string_value(at(j, path));
	return text ? text : "(none)";
}

void assert_says(const json_t *j, const char *path, const char *part)
{
	if (!strstr(text_at(j, path), part)) {
		char *all = json_dumps(j, JSON_INDENT(1));
		fail_msg("%s: `%s` is not in `%s`\n%s", path, part, text_at(j, path), all);
	}
}
