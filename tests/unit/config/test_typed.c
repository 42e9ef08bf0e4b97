/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What right text becomes: defaults, values, references, marks, tables, fallbacks, ids. */
#include "base/log.h"
#include "fixture.h"

static void defaults(void **state)
{
	struct parsed p = parse_good("");
	const struct cfg_server *s = &p.c->server;
	assert_int_equal(s->listen_count, 1);
	assert_int_equal(s->listen[0].ep.port, 53);
	assert_int_equal(s->listen[0].ep.addr.b[0], 127);
	assert_true(s->allow_default);
	assert_int_equal(s->workers, 0);
	assert_string_equal(s->state, "/var/lib/nameway");
	assert_string_equal(s->control, "/run/nameway/control.sock");
	assert_string_equal(s->user, "nameway");
	assert_int_equal(s->mark_mask, 0xf000);
	assert_int_equal(s->element_min_s, 300);
	assert_true(s->table_protect);
	assert_int_equal(s->log_level, LOG_L_INFO);
	assert_string_equal(s->log_to, "stderr");
	assert_false(s->log_queries);
	assert_int_equal(s->log_keep_s, 7 * 86400);
	assert_int_equal(s->log_bytes, 64 << 20);
	const struct cfg_cache *k = &p.c->cache;
	assert_int_equal(k->bytes, 64 << 20);
	assert_true(!k->serve_stale_s && !k->prefetch && !k->ttl_min_s && k->ttl_max_s == 86400 && k->negative_ttl_max_s == 3600);
	assert_true(!p.c->local.host_count && !p.c->local.record_count && !p.c->local.is_rebind_protected);
	assert_int_equal(p.c->default_upstream, -1);
	assert_false(p.c->local.has_domain);
	assert_false(p.c->hijack.is_on);
	parsed_free(&p);
}

static void sections_without_entries(void **state)
{
	struct parsed p = parse_good("server:\nupstreams:\ncache:\nclients:\nlists: {}\nways: ~\nfilter:\nsteer: []\n");
	assert_int_equal(p.c->filter_count + p.c->steer_count + p.c->way_count, 0);
	parsed_free(&p);
}

static void server_values(void **state)
{
	struct parsed p = parse_good("server:\n"
	                             "  listen: [br-lan@5353, eth0.20, cafe, 192.0.2.1@54, \"[2001:db8::1]@55\", \"::1\"]\n"
	                             "  allow: [lan, 10.0.0.0/8, \"2001:db8::/32\"]\n"
	                             "  workers: 64\n  state: st\n  control: ../run/c.sock\n  mark-mask: 0xFF\n  element-min: "
	                             "90s\n  table-protect: off\n"
	                             "  log: { level: debug }\n"
	                             "clients: { lan: { networks: [192.168.0.0/16, \"fd00::/8\"] } }\n"
	                             "cache: { size: 1GiB }\nlocal: { domain: B\xc3\xbc"
	                             "cher.Example }\n");
	const struct cfg_server *s = &p.c->server;
	static const struct {
		const char *ifname;
		uint16_t port;
		int family;
	} listen[] = {{"br-lan", 5353, 0}, {"eth0.20", 53, 0}, {"cafe", 53, 0}, {"", 54, AF_INET}, {"", 55, AF_INET6},
	        {"", 53, AF_INET6}};
	assert_int_equal(s->listen_count, 6);
	for (unsigned i = 0; i < 6; i++) {
		assert_string_equal(s->listen[i].ifname, listen[i].ifname);
		assert_int_equal(s->listen[i].ep.port, listen[i].port);
		assert_int_equal(s->listen[i].ep.addr.family, listen[i].family);
	}
	assert_false(s->allow_default);
	assert_int_equal(s->allow_groups.count, 1);
	assert_int_equal(s->allow_count, 2);
	assert_int_equal(s->allow[1].len, 32);
	assert_int_equal(s->workers, 64);
	assert_string_equal(s->state, "/etc/nameway/st");
	assert_string_equal(s->control, "/etc/nameway/../run/c.sock");
	assert_int_equal(s->mark_mask, 0xff);
	assert_int_equal(s->element_min_s, 90);
	assert_false(s->table_protect);
	assert_int_equal(s->log_level, LOG_L_DEBUG);
	assert_int_equal(p.c->cache.bytes, 1 << 30);
	char text[NAME_TEXT_MAX];
	assert_true(p.c->local.has_domain);
	assert_string_equal(name_to_text(text, p.c->local.domain.wire), "xn--bcher-kva.example");
	parsed_free(&p);
}

static void log_and_cache_values(void **state)
{
	struct parsed p = parse_good("server: { log: { queries: true, keep: 90m, size: 1GiB } }\n"
	                             "cache: { serve-stale: 1d, prefetch: true, ttl-min: 1500ms, ttl-max: 2h, negative-ttl-max: 0s }\n");
	assert_true(p.c->server.log_queries);
	assert_int_equal(p.c->server.log_keep_s, 5400);
	assert_int_equal(p.c->server.log_bytes, 1 << 30);
	const struct cfg_cache *k = &p.c->cache;
	assert_true(k->serve_stale_s == 86400 && k->prefetch && k->ttl_min_s == 2 && k->ttl_max_s == 7200 && !k->negative_ttl_max_s);
	parsed_free(&p);
	p = parse_good("cache: { serve-stale: off, ttl-min: 1h, ttl-max: 1h }\n");
	assert_int_equal(p.c->cache.serve_stale_s, 0);
	parsed_free(&p);
}

static void expect_name(const struct name *n, const char *wanted)
{
	char text[NAME_TEXT_MAX];
	assert_string_equal(name_to_text(text, n->wire), wanted);
}

static void upstream_values(void **state)
{
	struct parsed p = parse_good("upstreams:\n"
	                             "  default: { servers: [192.0.2.1], strategy: fastest, domains: [b\xc3\xbc"
	                             "cher.example, 10.in-addr.arpa], max-in-flight: 1, random-case: true }\n"
	                             "  other: { servers: [192.0.2.2], strategy: all, domains: sub.xn--bcher-kva.example }\n"
	                             "  third: { resolv-conf: ../run/resolv.conf, domains: x }\n");
	const struct cfg_upstream *u = p.c->upstreams;
	assert_true(u[0].strategy == STRATEGY_FASTEST && u[1].strategy == STRATEGY_ALL && u[2].strategy == STRATEGY_ORDERED);
	assert_true(u[0].inflight_max == 1 && u[1].inflight_max == 8192 && u[0].random_case && !u[1].random_case);
	assert_true(u[0].domain_count == 2 && u[1].domain_count == 1);
	expect_name(&u[0].domains[0], "xn--bcher-kva.example");
	expect_name(&u[0].domains[1], "10.in-addr.arpa");
	expect_name(&u[1].domains[0], "sub.xn--bcher-kva.example");
	assert_string_equal(u[2].resolv_conf, "/etc/nameway/../run/resolv.conf");
	assert_null(u[0].resolv_conf);
	assert_int_equal(u[2].server_count, 0);
	assert_null(strstr(said(&p), "nothing asks upstream"));
	parsed_free(&p);
}

static void local_values(void **state)
{
	struct parsed p = parse_good("local: { hosts: [/etc/hosts, more.hosts], rebind-protection: { allow: [Corp.Example, x] } }\n");
	const struct cfg_local *l = &p.c->local;
	assert_int_equal(l->host_count, 2);
	assert_string_equal(l->hosts[0], "/etc/hosts");
	assert_string_equal(l->hosts[1], "/etc/nameway/more.hosts");
	assert_true(l->is_rebind_protected);
	assert_int_equal(l->rebind_allow_count, 2);
	expect_name(&l->rebind_allow[0], "corp.example");
	parsed_free(&p);
	static const char *const bare[] = {"local: { rebind-protection: {} }\n", "local:\n  rebind-protection:\n",
	        "local: { rebind-protection: { allow: [] } }\n"};
	for (size_t i = 0; i < sizeof bare / sizeof *bare; i++) {
		p = parse_good(bare[i]);
		assert_true(p.c->local.is_rebind_protected && !p.c->local.rebind_allow_count);
		parsed_free(&p);
	}
}

/* As editors of other systems write it: line ends, a comment behind a value, blanks before and behind. */
static void comments_and_line_ends(void **state)
{
	struct parsed p = parse_good("\xef\xbb\xbfupstreams:   # who is asked\r\n  default: { servers: [192.0.2.1] }  # Internal\r\n"
	                             "local:\r\n  records:\r\n  - x.lan A 192.0.2.2   # the printer\r\n  - \"y.lan TXT \\\"# kept\\\"\"  \r\n");
	assert_int_equal(p.c->upstreams[0].server_count, 1);
	assert_int_equal(p.c->local.record_count, 2);
	assert_int_equal(p.c->local.records[1].rdlen, 7);
	assert_memory_equal(p.c->local.records[1].rdata, "\006# kept", 7);
	parsed_free(&p);
}

static void groups_and_lists(void **state)
{
	struct parsed p = parse_good("clients:\n"
	                             "  all:\n"
	                             "  iot: { interfaces: br-iot, except-interfaces: [a, b], networks: [192.168.20.0/24, "
	                             "\"fd00::/64\"], except-networks: 192.168.20.7,\n"
	                             "    macs: [\"02:00:5e:10:00:01\", 02-00-5E-10-00-FF], except-macs: [] }\n"
	                             "lists:\n"
	                             "  a: { files: lists/a.txt }\n"
	                             "  b: { files: [/x/y, \"c/*.txt\"], format: domains, shrink-limit: 0% }\n"
	                             "  c: { files: x, format: hosts, match: suffix }\n"
	                             "  d: { files: x, format: adblock }\n"
	                             "  e: { files: x, format: dnsmasq, match: exact }\n"
	                             "  f:\n    entries: [x.test, \"!y.x.test\", 192.0.2.0/24, \"0.0.0.0 z # w\"]\n    max-names: 1000\n"
	                             "  g: { files: x, entries: one.test }\n");
	const struct cfg_list *v = p.c->lists;
	assert_true(!v[0].entry_count && !v[0].names_max && !v[5].file_count && v[5].names_max == 1000);
	assert_int_equal(v[5].entry_count, 4);
	assert_string_equal(v[5].entries[1], "!y.x.test");
	assert_string_equal(v[5].entries[3], "0.0.0.0 z # w");
	assert_int_equal(v[5].entries_place.line, 12);
	assert_string_equal(v[5].entries_place.file, "t.yaml");
	assert_true(v[6].file_count == 1 && v[6].entry_count == 1);
	assert_true(v[2].format == FORMAT_HOSTS && v[3].format == FORMAT_ADBLOCK && v[4].format == FORMAT_DNSMASQ);
	assert_true(v[0].match == MATCH_BY_FORMAT && v[2].match == MATCH_SUFFIX && v[4].match == MATCH_EXACT);
	const struct cfg_group *g = &p.c->groups[1];
	assert_int_equal(p.c->group_count, 2);
	assert_int_equal(p.c->groups[0].interface_count + p.c->groups[0].network_count + p.c->groups[0].mac_count, 0);
	assert_string_equal(g->name, "iot");
	assert_int_equal(g->place.line, 3);
	assert_string_equal(g->interfaces[0], "br-iot");
	assert_string_equal(g->except_interfaces[1], "b");
	assert_int_equal(g->network_count, 2);
	assert_int_equal(g->except_networks[0].len, 32);
	assert_int_equal(g->mac_count, 2);
	assert_memory_equal(g->macs[1], "\x02\x00\x5e\x10\x00\xff", 6);
	assert_int_equal(g->except_mac_count, 0);
	assert_int_equal(p.c->lists[0].format, FORMAT_AUTO);
	assert_int_equal(p.c->lists[0].shrink_limit_pct, 50);
	assert_string_equal(p.c->lists[0].files[0], "/etc/nameway/lists/a.txt");
	assert_int_equal(p.c->lists[1].file_count, 2);
	assert_string_equal(p.c->lists[1].files[0], "/x/y");
	assert_string_equal(p.c->lists[1].files[1], "/etc/nameway/c/*.txt");
	assert_int_equal(p.c->lists[1].format, FORMAT_DOMAINS);
	assert_int_equal(p.c->lists[1].shrink_limit_pct, 0);
	parsed_free(&p);
}

static void way_values(void **state)
{
	struct parsed p = parse_good(
	        "upstreams: { default: { servers: [192.0.2.1] }, u: { servers: [10.64.0.1, \"[2001:db8::2]@54\"], strategy: "
	        "ordered } }\n"
	        "ways:\n"
	        "  direct: {}\n"
	        "  t: { interface: wg1, mark: 0x2000, upstream: u, kill-switch: true, local-access: false, check: { ping: "
	        "10.65.0.1, every: 1500ms },\n"
	        "    gateway: [10.0.0.1, \"2001:db8::1\"], ipv6: off, masquerade: false, mss-clamp: true, private: true }\n"
	        "  h: { interface: wg2, check: { handshake-age: 3m }, sets: { ip: [\"inet fw4 v4\", \"ip  a b-c\"], ip6: \"ip6 a "
	        "d\" } }\n"
	        "  p: { interface: eth1, check: { ping: \"2001:db8::1\" }, fallback: h }\n");
	const struct cfg_way *w = p.c->ways;
	assert_int_equal(p.c->way_count, 4);
	assert_int_equal(p.c->default_upstream, 0);
	assert_int_equal(p.c->upstreams[0].way, -1);
	assert_int_equal(p.c->upstreams[1].way, 1);
	assert_int_equal(p.c->upstreams[1].servers[1].port, 54);
	assert_int_equal(w[0].mark, 0x1000);
	assert_int_equal(w[1].mark, 0x2000);
	assert_int_equal(w[2].mark, 0x3000);
	assert_int_equal(w[3].mark, 0x4000);
	assert_true(w[1].mark_given && !w[2].mark_given);
	assert_string_equal(w[1].interface, "wg1");
	assert_int_equal(w[1].upstream, 1);
	assert_true(w[1].kill_switch && !w[1].local_access && w[1].ipv6_off && w[1].private_ok);
	assert_true(!w[2].kill_switch && w[2].local_access && !w[2].ipv6_off && !w[2].private_ok);
	assert_int_equal(w[1].masquerade, 0);
	assert_int_equal(w[1].mss_clamp, 1);
	assert_int_equal(w[2].masquerade, -1);
	assert_int_equal(w[1].gateway4.family, AF_INET);
	assert_int_equal(w[1].gateway6.family, AF_INET6);
	assert_int_equal(w[1].check_every_ms, 1500);
	assert_int_equal(w[3].check_every_ms, 5000);
	assert_int_equal(w[2].check_every_ms, 0);
	assert_int_equal(w[2].handshake_age_s, 180);
	assert_int_equal(w[2].set4_count, 2);
	assert_string_equal(w[2].sets4[1].family, "ip");
	assert_string_equal(w[2].sets4[1].table, "a");
	assert_string_equal(w[2].sets4[1].set, "b-c");
	assert_string_equal(w[2].sets6[0].set, "d");
	assert_int_equal(w[0].fallback, -1);
	assert_int_equal(w[2].fallback, 0);
	assert_int_equal(w[3].fallback, 2);
	assert_int_equal(w[0].table_id, 0);
	for (unsigned i = 1; i < 4; i++)
		assert_in_range(w[i].table_id, 20000, 29999);
	parsed_free(&p);
}

static void fallback_without_direct(void **state)
{
	struct parsed p = parse_good("ways: { s: { sets: { ip: \"inet a b\" } }, t: { interface: x }, main: {} }\n");
	assert_int_equal(p.c->ways[1].fallback, 2);
	assert_int_equal(p.c->ways[0].fallback, -1);
	parsed_free(&p);
	p = parse_good("ways: { t: { interface: x }, u: { interface: y } }\n");
	assert_int_equal(p.c->ways[0].fallback, -1);
	parsed_free(&p);
	p = parse_good("ways: { t: { interface: x }, direct: { interface: y } }\n");
	assert_int_equal(p.c->ways[0].fallback, 1);
	assert_int_equal(p.c->ways[1].fallback, -1);
	parsed_free(&p);
}

static void marks_in_a_mask_with_gaps(void **state)
{
	static const uint32_t wanted[] = {0x4, 0x101, 0x1, 0x5, 0x100, 0x104, 0x105};
	struct parsed p = parse_good("server: { mark-mask: 0x105 }\nways: { a: { mark: 4 }, b: { mark: 0x101 }, c: {}, d: {}, e: "
	                             "{}, f: {}, g: {} }\n");
	for (unsigned i = 0; i < 7; i++)
		assert_int_equal(p.c->ways[i].mark, wanted[i]);
	parsed_free(&p);
}

static void the_highest_mask_bit(void **state)
{
	struct parsed p = parse_good("server: { mark-mask: 0x80000000 }\nways: { a: {} }\n");
	assert_int_equal(p.c->ways[0].mark, 0x80000000);
	parsed_free(&p);
}

static uint32_t table_of(const struct config *c, const char *name)
{
	for (unsigned i = 0; i < c->way_count; i++)
		if (!strcmp(c->ways[i].name, name))
			return c->ways[i].table_id;
	return 0;
}

/* 60 ways in 10000 places: as many orders as it takes are not needed, since collisions go by name. */
static void tables_do_not_depend_on_order(void **state)
{
	struct buf up, down;
	buf_init(&up, 1 << 16);
	buf_init(&down, 1 << 16);
	buf_printf(&up, "server: { mark-mask: 0xff }\nways:\n");
	buf_printf(&down, "server: { mark-mask: 0xff }\nways:\n");
	for (int i = 0; i < 60; i++) {
		buf_printf(&up, "  way%d: { interface: i%d }\n", i, i);
		buf_printf(&down, "  way%d: { interface: i%d }\n", 59 - i, i);
	}
	struct parsed a = parse_good(up.bytes), b = parse_good(down.bytes);
	for (unsigned i = 0; i < 60; i++) {
		assert_int_equal(a.c->ways[i].table_id, table_of(b.c, a.c->ways[i].name));
		for (unsigned j = 0; j < i; j++)
			assert_int_not_equal(a.c->ways[i].table_id, a.c->ways[j].table_id);
	}
	parsed_free(&a);
	parsed_free(&b);
	buf_free(&up);
	buf_free(&down);
}

#define WORLD                                                                                                                    \
	"clients: { a: {}, b: {} }\nlists: { l: { files: x }, m: { files: y } }\nways: { direct: {}, t: { interface: x } }\n"

static void rules(void **state)
{
	struct parsed p = parse_good(WORLD
	        "filter:\n"
	        "- { names: [l, m, l], allow: true }\n"
	        "- { name: content filter, enabled: false, clients: [b, a], except-clients: a, except-names: [m], block: zero }\n"
	        "- { block: drop }\n"
	        "steer:\n"
	        "- { name: T, clients: [a], names: [l], way: t }\n"
	        "- { gid: 0, way: direct }\n"
	        "- { way: direct }\n"
	        "hijack-dns: { interfaces: [x, y], except: [10.0.0.1, \"fd00::/8\"], dot: reject }\n");
	const struct cfg_filter *f = p.c->filters;
	const struct cfg_steer *s = p.c->steers;
	assert_int_equal(p.c->filter_count, 3);
	assert_int_equal(p.c->steer_count, 3);
	assert_string_equal(f[0].name, "rule 1");
	assert_true(f[0].enabled && f[0].allow && f[0].block == BLOCK_NONE);
	assert_int_equal(f[0].names.count, 2);
	assert_int_equal(f[0].names.v[1], 1);
	assert_string_equal(f[1].name, "content filter");
	assert_true(!f[1].enabled && !f[1].allow && f[1].block == BLOCK_ZERO);
	assert_int_equal(f[1].clients.count, 2);
	assert_int_equal(f[1].clients.v[0], 1);
	assert_int_equal(f[1].except_clients.v[0], 0);
	assert_int_equal(f[1].except_names.v[0], 1);
	assert_int_equal(f[2].block, BLOCK_DROP);
	assert_int_equal(s[0].way, 1);
	assert_false(s[0].has_gid);
	assert_true(s[1].has_gid && s[1].gid == 0 && s[1].way == 0);
	assert_string_equal(s[2].name, "rule 3");
	assert_true(p.c->hijack.is_on && p.c->hijack.dot_reject);
	assert_int_equal(p.c->hijack.interface_count, 2);
	assert_int_equal(p.c->hijack.except_count, 2);
	parsed_free(&p);
}

static void filter_answers(void **state)
{
	struct parsed p = parse_good("filter:\n"
	                             "- { answer: [192.0.2.10, \"2001:db8::10\"], ttl: 5m }\n"
	                             "- { answer: 192.0.2.11, ttl: 0s }\n"
	                             "- { cname: Walled.Example }\n"
	                             "- { block: zero, ttl: 1d }\n"
	                             "- { allow: true }\n");
	const struct cfg_filter *f = p.c->filters;
	assert_true(f[0].block == BLOCK_ANSWER && f[0].answer_count == 2 && !f[0].allow && f[0].ttl_s == 300);
	assert_true(f[0].answers[0].family == AF_INET && f[0].answers[1].family == AF_INET6);
	assert_true(f[1].block == BLOCK_ANSWER && f[1].answer_count == 1 && f[1].ttl_s == 0);
	assert_true(f[2].block == BLOCK_CNAME && f[2].ttl_s == 60);
	expect_name(&f[2].cname, "walled.example");
	assert_true(f[3].block == BLOCK_ZERO && f[3].ttl_s == 86400);
	assert_true(f[4].block == BLOCK_NONE && f[4].allow);
	parsed_free(&p);
}

static void ids_survive_moving_and_editing(void **state)
{
	struct parsed a = parse_good(WORLD "steer:\n"
	                                   "- { name: T, clients: [a], names: [l], way: t }\n"
	                                   "- { clients: [a, b], names: [l, m], way: t }\n"
	                                   "- { names: [l], way: t }\n"
	                                   "- { names: [l], way: direct }\n"
	                                   "- { gid: 7, way: direct }\n");
	struct parsed b = parse_good("lists: { m: { files: y }, new: { files: z }, l: { files: x } }\nclients: { b: {}, a: {} "
	                             "}\nways: { t: { interface: x }, direct: {} }\n"
	                             "steer:\n"
	                             "- { gid: 7, way: t }\n"
	                             "- { names: [new], way: t }\n"
	                             "- { names: [m, l, m], clients: [b, a], way: direct, enabled: false }\n"
	                             "- { names: [l], way: direct }\n"
	                             "- { name: T, names: [m], way: direct }\n"
	                             "- { names: [l], way: t }\n");
	const struct cfg_steer *x = a.c->steers, *y = b.c->steers;
	assert_int_equal(x[0].id, y[4].id);
	assert_int_equal(x[1].id, y[2].id);
	assert_int_equal(x[2].id, y[3].id);
	assert_int_equal(x[3].id, y[5].id);
	assert_int_equal(x[4].id, y[0].id);
	for (unsigned i = 0; i < a.c->steer_count; i++) {
		assert_int_not_equal(x[i].id, 0);
		for (unsigned j = 0; j < i; j++)
			assert_int_not_equal(x[i].id, x[j].id);
	}
	parsed_free(&a);
	parsed_free(&b);
}

/* What a rule says under one key is not taken for what it says under another. */
static void ids_tell_keys_apart(void **state)
{
	struct parsed p = parse_good("clients: { x: {} }\nlists: { x: { files: f } }\nways: { d: {} }\nsteer:\n"
	                             "- { clients: [x], way: d }\n- { except-clients: [x], way: d }\n- { names: [x], way: d }\n- "
	                             "{ except-names: [x], way: d }\n"
	                             "- { name: x, way: d }\n- { way: d }\n- { gid: 0, way: d }\n");
	for (unsigned i = 0; i < p.c->steer_count; i++)
		for (unsigned j = 0; j < i; j++)
			assert_int_not_equal(p.c->steers[i].id, p.c->steers[j].id);
	parsed_free(&p);
}

static void limits_of_counts(void **state)
{
	static const struct {
		const char *section, *entry;
		unsigned max;
	} kinds[] = {{"lists", "{ files: x }", CONFIG_LISTS_MAX}, {"clients", "{}", CONFIG_GROUPS_MAX},
	        {"ways", "{}", CONFIG_WAYS_MAX}, {"upstreams", "{ servers: 192.0.2.1 }", CONFIG_UPSTREAMS_MAX},
	        {"filter", "{ block: drop }", CONFIG_RULES_MAX}};
	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
		for (unsigned more = 0; more < 2; more++) {
			struct buf b;
			buf_init(&b, 1 << 20);
			buf_printf(&b, "server: { mark-mask: 0xff }\n%s:\n", kinds[k].section);
			for (unsigned i = 0; i < kinds[k].max + more; i++) {
				if (!strcmp(kinds[k].section, "filter"))
					buf_printf(&b, "- %s\n", kinds[k].entry);
				else
					buf_printf(&b, "  n%u: %s\n", i, kinds[k].entry);
			}
			struct parsed p = parse(b.bytes);
			assert_int_equal(p.r.errors, more);
			if (more)
				assert_non_null(strstr(said(&p), "take some out"));
			parsed_free(&p);
			buf_free(&b);
		}
}

static void limit_of_entries(void **state)
{
	for (unsigned more = 0; more < 2; more++) {
		struct buf b;
		buf_init(&b, 4 << 20);
		buf_printf(&b, "lists: { a: { entries: [x");
		for (unsigned i = 1; i < CONFIG_ENTRIES_MAX + more; i++)
			buf_printf(&b, ", n%u", i);
		buf_printf(&b, "] } }\n");
		struct parsed p = parse(b.bytes);
		assert_int_equal(p.r.errors, more);
		if (!more)
			assert_int_equal(p.c->lists[0].entry_count, CONFIG_ENTRIES_MAX);
		parsed_free(&p);
		buf_free(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(defaults),
	        cmocka_unit_test(sections_without_entries),
	        cmocka_unit_test(server_values),
	        cmocka_unit_test(log_and_cache_values),
	        cmocka_unit_test(upstream_values),
	        cmocka_unit_test(local_values),
	        cmocka_unit_test(comments_and_line_ends),
	        cmocka_unit_test(groups_and_lists),
	        cmocka_unit_test(way_values),
	        cmocka_unit_test(fallback_without_direct),
	        cmocka_unit_test(marks_in_a_mask_with_gaps),
	        cmocka_unit_test(the_highest_mask_bit),
	        cmocka_unit_test(tables_do_not_depend_on_order),
	        cmocka_unit_test(rules),
	        cmocka_unit_test(filter_answers),
	        cmocka_unit_test(ids_survive_moving_and_editing),
	        cmocka_unit_test(ids_tell_keys_apart),
	        cmocka_unit_test(limits_of_counts),
	        cmocka_unit_test(limit_of_entries),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
