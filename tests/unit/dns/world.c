/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "world.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/hash.h"
#include "base/rcu.h"
#include "config/bundle.h"

static int take_socket(void *ctx, const struct config *c, unsigned group, unsigned server, bool is_tcp)
{
	struct world *x = ctx;
	(void)c, (void)group, (void)server;
	x->taken++;
	return socket(AF_INET, (is_tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

int world_permitted(void)
{
	if (unshare(CLONE_NEWNET) < 0 || system("ip link set lo up && ip addr add 192.168.8.1/24 dev lo && ip addr add 192.168.8.2/24 dev lo && ip addr add 192.168.9.2/24 dev lo")) {
		fprintf(stderr, "skipped: this test needs a network namespace of its own (root, or CAP_SYS_ADMIN): %s\n", strerror(errno));
		exit(77);
	}
	return 1;
}

/* --- sockets --- */

static int open_socket(const char *addr, uint16_t *port, int type)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(*port) };
	socklen_t len = sizeof sa;
	int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	inet_pton(AF_INET, addr, &sa.sin_addr);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof sa), 0);
	if (type == SOCK_STREAM)
		assert_int_equal(listen(fd, 16), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	*port = ntohs(sa.sin_port);
	return fd;
}

int client_open(struct world *x, const char *from)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(x->port) };
	uint16_t any = 0;
	int fd = open_socket(from, &any, SOCK_DGRAM);
	inet_pton(AF_INET, strncmp(from, "127.", 4) ? "192.168.8.1" : "127.0.0.1", &sa.sin_addr);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof sa), 0);
	return fd;
}

static bool is_readable(int fd, int wait_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int r;
	do
		r = poll(&p, 1, wait_ms);
	while (r < 0 && errno == EINTR);
	return r > 0;
}

/* --- configuration, lists, worker --- */

static struct snapshot *snapshot_make(struct world *x, const char *yaml, uint32_t serial)
{
	static uint16_t signatures; /* as the server: a group keeps its number as long as it keeps its name */
	static char names[64][32];
	char text[8192];
	struct buf b;
	struct report r;
	snprintf(text, sizeof text, yaml, x->upstream_port[0], x->upstream_port[1]);
	report_init(&r);
	buf_init(&b, BUNDLE_MAX);
	assert_int_equal(bundle_begin(&b, "/etc/nameway"), 0);
	assert_int_equal(bundle_add(&b, "t.yaml", text, strlen(text)), 0);
	assert_int_equal(bundle_end(&b, 1), 0);
	struct snapshot *s = calloc(1, sizeof *s);
	if (config_parse(&s->config, b.bytes, b.len, &r) < 0)
		fail_msg("%s", r.text.bytes);
	buf_free(&b);
	report_free(&r);
	const struct prefixes *prefixes[CONFIG_LISTS_MAX] = { 0 };
	struct config *c = s->config;
	s->serial = c->serial = serial;
	for (unsigned i = 0; i < c->list_count; i++)
		s->slots[i] = (uint16_t)(c->lists[i].name[0] - 'a'); /* lists of the tests begin with different letters */
	assert_int_equal(snapshot_compile(s, x->index, prefixes, x->exprs, x->shared.name_seed), 0);
	for (unsigned i = 0; i < c->upstream_count; i++) {
		uint16_t id = 0;
		while (id < signatures && strcmp(names[id], c->upstreams[i].name))
			id++;
		if (id == signatures)
			snprintf(names[signatures++], sizeof names[0], "%s", c->upstreams[i].name);
		s->group_id[i] = id;
	}
	return s;
}

static void publish_local(struct world *x)
{
	const struct local *old = atomic_load(&x->shared.local);
	struct local_text hosts = { "/etc/hosts", x->hosts ? x->hosts : "", x->hosts ? strlen(x->hosts) : 0 };
	struct local *table;
	struct report r;
	report_init(&r);
	assert_int_equal(local_new(&table, x->snap->config, &hosts, 1, x->shared.name_seed, &r), 0);
	report_free(&r);
	atomic_store(&x->shared.local, table);
	rcu_wait();
	local_free((struct local *)(uintptr_t)old);
}

void world_configure(struct world *x, const char *config, uint32_t serial)
{
	struct snapshot *old = x->snap;
	x->snap = snapshot_make(x, config, serial);
	atomic_store(&x->page.cfg[serial & 1].ways_down, 0);
	atomic_store(&x->page.cfg[serial & 1].ways_no6, 0);
	atomic_store(&x->page.cfg[serial & 1].ways_off, 0);
	atomic_store(&x->page.cfg[serial & 1].serial, serial);
	worker_switch(x->w, x->snap);
	const struct cfg_cache *cache = &x->snap->config->cache;
	cache_set_limits(x->shared.cache, &(struct cache_limits){ cache->ttl_min_s, cache->ttl_max_s, cache->negative_ttl_max_s, cache->serve_stale_s });
	publish_local(x);
	snapshot_free(old, true);
}

void world_start(struct world *x, const char *config)
{
	int pair[2];
	memset(x, 0, sizeof *x);
	for (unsigned g = 0; g < 2; g++) {
		x->upstream[g] = open_socket("127.0.0.1", &x->upstream_port[g], SOCK_DGRAM);
		x->upstream_tcp[g] = open_socket("127.0.0.1", &x->upstream_port[g], SOCK_STREAM);
	}
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	x->enforcer = pair[0];
	assert_int_equal(cache_new(&x->shared.cache, 4 << 20), 0);
	assert_int_equal(holds_new(&x->shared.holds, 4096), 0);
	x->index = index_new(1000, 0);
	x->shared.steer = &x->page;
	x->shared.take_socket = take_socket;
	x->shared.take_ctx = x;
	x->shared.pause = &x->pause;
	x->shared.name_seed = hash_seed();
	atomic_store(&x->page.state, STEER_READY);
	atomic_store(&x->page.epoch, 1);
	assert_int_equal(worker_new(&x->w, &x->shared, 0, pair[1]), 0);
	world_configure(x, config, 1);
	uint32_t key = 0;
	uint16_t any = 0;
	assert_int_equal(worker_add_socket(x->w, open_socket("192.168.8.1", &x->port, SOCK_DGRAM), false, 0, ++key), 0);
	assert_int_equal(worker_add_socket(x->w, open_socket("192.168.8.1", &x->port, SOCK_STREAM), true, 0, ++key), 0);
	any = x->port;
	assert_int_equal(worker_add_socket(x->w, open_socket("127.0.0.1", &any, SOCK_DGRAM), false, 0, ++key), 0);
	assert_int_equal(worker_start(x->w), 0);
	x->client = client_open(x, "192.168.8.2");
}

void world_stop(struct world *x)
{
	worker_stop(x->w);
	worker_free(x->w);
	snapshot_free(x->snap, true);
	local_free((struct local *)(uintptr_t)atomic_load(&x->shared.local));
	cache_free(x->shared.cache);
	holds_free(x->shared.holds);
	index_free(x->index);
	for (unsigned g = 0; g < 2; g++) {
		close(x->upstream[g]);
		close(x->upstream_tcp[g]);
	}
	close(x->enforcer);
	close(x->client);
}

void world_list(struct world *x, const char *list, const char *name, bool is_listed)
{
	struct name n = make_from_text(name);
	unsigned slot = (unsigned)(list[0] - 'a');
	index_begin(x->index);
	assert_int_equal(is_listed ? index_add(x->index, slot, &n, KIND_SUFFIX) : index_remove(x->index, slot, &n, KIND_SUFFIX), 0);
	index_publish(x->index);
	rcu_wait();
	index_settle(x->index);
}

/* --- the client --- */

void ask(int client, const struct question *q)
{
	uint8_t out[512];
	struct name n = make_from_text(q->name);
	size_t len = wire_query_build(out, q->id ? q->id : 0x4242, &n, q->type ? q->type : RR_A, q->class ? q->class : 1, true, q->has_cd, q->no_edns ? 0 : q->size ? q->size : 1232, q->has_do);
	assert_int_equal(send(client, out, len, 0), len);
}

void ask_a(struct world *x, const char *name)
{
	ask(x->client, &(struct question){ .name = name });
}

static unsigned get16(const uint8_t *p)
{
	return (unsigned)p[0] << 8 | p[1];
}

/* The OPT is the only record we ever put behind the authority section. */
static void read_edns(struct reply *r, size_t at)
{
	r->ede = -1;
	r->text[0] = 0;
	r->has_edns = at + 11 <= r->len && r->bytes[at] == 0 && get16(r->bytes + at + 1) == RR_OPT;
	if (!r->has_edns)
		return;
	size_t end = at + 11 + get16(r->bytes + at + 9);
	assert_int_equal(end, r->len);
	for (at += 11; at + 4 <= end; at += 4 + get16(r->bytes + at + 2))
		if (get16(r->bytes + at) == 15) {
			r->ede = (int)get16(r->bytes + at + 4);
			snprintf(r->text, sizeof r->text, "%.*s", (int)get16(r->bytes + at + 2) - 2, (const char *)r->bytes + at + 6);
		}
}

static void read_reply(struct reply *r)
{
	assert_true(r->len >= 12);
	r->id = (uint16_t)get16(r->bytes);
	r->flags = (uint16_t)get16(r->bytes + 2);
	r->rcode = r->flags & 15;
	r->ancount = (uint16_t)get16(r->bytes + 6);
	r->nscount = (uint16_t)get16(r->bytes + 8);
	if (get16(r->bytes + 4) == 0) {
		read_edns(r, 12);
		return;
	}
	assert_int_equal(wire_answer_walk(&r->walk, r->bytes, r->len), 0);
	read_edns(r, r->walk.authority_end);
}

bool hears(int client, int wait_ms, struct reply *ret)
{
	if (!is_readable(client, wait_ms))
		return false;
	ssize_t n = recv(client, ret->bytes, sizeof ret->bytes, MSG_DONTWAIT);
	assert_true(n > 0);
	ret->len = (size_t)n;
	read_reply(ret);
	return true;
}

void hear(int client, struct reply *ret)
{
	if (!hears(client, HEARD_MS, ret))
		fail_msg("no answer came");
}

static struct addr address(const char *text)
{
	struct addr a;
	assert_int_equal(addr_parse(&a, text), 0);
	return a;
}

bool has_address(const struct reply *r, const char *addr)
{
	struct addr a = address(addr);
	for (unsigned i = 0; i < r->walk.addr_count; i++)
		if (addr_equal(&r->walk.addrs[i], &a))
			return true;
	return false;
}

/* --- the upstream --- */

bool upstream_is_asked(struct world *x, unsigned group, int wait_ms)
{
	if (!is_readable(x->upstream[group], wait_ms))
		return false;
	x->asked_by_len = sizeof x->asked_by;
	ssize_t n = recvfrom(x->upstream[group], x->asked, sizeof x->asked, MSG_DONTWAIT, (struct sockaddr *)&x->asked_by, &x->asked_by_len);
	assert_true(n >= 12);
	x->asked_len = (size_t)n;
	return true;
}

void upstream_expect(struct world *x, unsigned group, const char *name, uint16_t type)
{
	struct wire_query q;
	if (!upstream_is_asked(x, group, HEARD_MS))
		fail_msg("upstream %u was not asked for %s", group, name);
	assert_int_equal(wire_query_parse(&q, x->asked, x->asked_len), WIRE_OK);
	assert_name(&q.qname, name);
	assert_int_equal(q.qtype, type);
}

void upstream_gives(struct world *x, unsigned group, struct make *m)
{
	memcpy(m->bytes, x->asked, 2);
	assert_int_equal(sendto(x->upstream[group], m->bytes, m->len, 0, (struct sockaddr *)&x->asked_by, x->asked_by_len), m->len);
}

void address_rr(struct make *m, const char *owner, uint32_t ttl, const char *addr)
{
	struct addr a = address(addr);
	make_rr(m, owner, a.family == AF_INET ? RR_A : RR_AAAA, ttl);
	make_bytes(m, a.b, a.family == AF_INET ? 4 : 16);
}

void answer_a(struct make *m, const char *name, uint32_t ttl, const char *addr)
{
	make_head(m, 0x8180, 1, 0, 0, name, address(addr).family == AF_INET ? RR_A : RR_AAAA);
	address_rr(m, NULL, ttl, addr);
}

void resolves(struct world *x, const char *name, uint32_t ttl, const char *addr)
{
	static struct make m;
	answer_a(&m, name, ttl, addr);
	upstream_expect(x, 0, name, address(addr).family == AF_INET ? RR_A : RR_AAAA);
	upstream_gives(x, 0, &m);
}

/* --- the enforcer --- */

bool enforcer_hears(struct world *x, int wait_ms, struct steer_add *ret)
{
	if (!is_readable(x->enforcer, wait_ms))
		return false;
	ssize_t n = recv(x->enforcer, ret, sizeof *ret, MSG_DONTWAIT);
	assert_true(n >= (ssize_t)offsetof(struct steer_add, e));
	assert_int_equal(ret->type, STEER_ADD);
	assert_int_equal(n, offsetof(struct steer_add, e) + ret->count * sizeof ret->e[0]);
	return true;
}

void enforcer_acks(struct world *x, const struct steer_add *add, enum steer_status status)
{
	struct steer_ack ack = { .type = STEER_ACK, .count = add->count, .seq = add->seq };
	memset(ack.status, (int)status, sizeof ack.status);
	size_t len = offsetof(struct steer_ack, status) + ack.count;
	assert_int_equal(send(x->enforcer, &ack, len, 0), len);
}

uint32_t rule_of(const struct world *x, const char *name)
{
	for (unsigned i = 0; i < x->snap->config->steer_count; i++)
		if (!strcmp(x->snap->config->steers[i].name, name))
			return x->snap->config->steers[i].id;
	fail_msg("there is no rule %s", name);
	return 0;
}

bool adds(const struct steer_add *add, const char *addr, uint32_t rule_id)
{
	struct addr a = address(addr);
	for (unsigned i = 0; i < add->count; i++)
		if (add->e[i].rule_id == rule_id && !memcmp(add->e[i].addr, a.b, 16) && add->e[i].family == (a.family == AF_INET ? 4 : 6))
			return true;
	return false;
}
