/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A worker on real sockets of the loopback device, in a network namespace of its own: clients at 192.168.8.2 and 192.168.9.2, the upstream and the
 * enforcer are the test itself, line by line, so that what comes before what is said and not slept for. Where a bound of the worker's (50 ms) could be
 * overrun by a machine that stalls, the test measures the time itself and tries again. */
#pragma once
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <cmocka.h>
#include "dns/worker.h"
#include "wire/msg.h"
#include "../wire/make.h"

enum { SOON_MS = 20 /* long enough to see what leaves at once */, HEARD_MS = 5000 };

struct world {
	struct worker *w;
	struct worker_shared shared;
	struct steer_shared page;
	struct index *index;
	const struct exprs *exprs[CONFIG_LISTS_MAX]; /* by list of the configuration; set before world_configure */
	const char *hosts;                 /* text of the hosts file, likewise */
	struct filter_pause pause;
	struct snapshot *snap;
	atomic_uint taken;                 /* sockets of ways */
	int enforcer;                      /* the enforcer's side of the worker's channel */
	int upstream[2], upstream_tcp[2];  /* of the groups `default` and `other`, on 127.0.0.1 */
	uint16_t upstream_port[2], port;
	int client;                        /* UDP, 192.168.8.2 to the worker at 192.168.8.1 */
	uint8_t asked[512];                /* what the upstream was asked last */
	size_t asked_len;
	struct sockaddr_storage asked_by;
	socklen_t asked_by_len;
};

/* config: YAML with %u for the upstreams' ports. */
int world_permitted(void); /* enters the namespace; exits with 77 when it may not */
void world_start(struct world *x, const char *config);
void world_stop(struct world *x);
void world_configure(struct world *x, const char *config, uint32_t serial); /* another configuration, as a reload */
void world_list(struct world *x, const char *list, const char *name, bool is_listed);

struct reply {
	uint8_t bytes[65536];
	size_t len;
	uint16_t id, flags, ancount, nscount;
	uint8_t rcode;
	bool has_edns;
	int ede; /* -1: none */
	char text[128];
	struct wire_answer walk;
};
struct question { const char *name; uint16_t type, class; bool no_edns, has_do, has_cd; uint16_t size, id; };
int client_open(struct world *x, const char *from); /* another client, UDP */
void ask(int client, const struct question *q);
void ask_a(struct world *x, const char *name);
bool hears(int client, int wait_ms, struct reply *ret);
void hear(int client, struct reply *ret);            /* fails the test when nothing comes */
bool has_address(const struct reply *r, const char *addr);

bool upstream_is_asked(struct world *x, unsigned group, int wait_ms);
void upstream_expect(struct world *x, unsigned group, const char *name, uint16_t type);
void upstream_gives(struct world *x, unsigned group, struct make *m); /* with the id of the question */
void answer_a(struct make *m, const char *name, uint32_t ttl, const char *addr); /* one A, or one AAAA */
void address_rr(struct make *m, const char *owner, uint32_t ttl, const char *addr);
/* Asked and answered upstream with one address; the barrier comes next. */
void resolves(struct world *x, const char *name, uint32_t ttl, const char *addr);

bool enforcer_hears(struct world *x, int wait_ms, struct steer_add *ret);
void enforcer_acks(struct world *x, const struct steer_add *add, enum steer_status status);
bool adds(const struct steer_add *add, const char *addr, uint32_t rule_id);
uint32_t rule_of(const struct world *x, const char *name); /* its id */
