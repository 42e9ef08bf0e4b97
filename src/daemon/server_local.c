/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The table of local names (local/local.h): made of the configuration's records and the texts of its hosts files by the compiler thread, for each
 * configuration and whenever a text changes. Workers read the one in force by a pointer (RCU); the one before is freed when no worker can hold it.
 *
 * A configuration that is made has its own table beside, which is published before the workers are switched, so that the first query of all finds one. */
#include "base/err.h"
#include "base/log.h"
#include "base/rcu.h"
#include "daemon/server_private.h"
#include "local/local.h"

static int make(struct server *s, const struct config *c, struct local **ret)
{
	struct local_text texts[CONFIG_HOSTS_MAX];
	struct report r;
	unsigned count = 0;
	for (unsigned i = 0; i < c->local.host_count; i++) {
		const struct hosts_text *t = hosts_find(s, c->local.hosts[i]);
		if (t && t->len)
			texts[count++] = (struct local_text){ .path = c->local.hosts[i], .bytes = t->bytes, .len = t->len };
	}
	report_init(&r);
	int e = local_new(ret, c, texts, count, s->worker_shared.name_seed, &r);
	log_lines(LOG_L_WARN, "local: ", r.text.bytes);
	report_free(&r);
	return e;
}

static void publish(struct server *s, struct local *l)
{
	struct local_stat st;
	local_stat(l, &st);
	s->names_left_out = st.left_out;
	hosts_say(s);
	const struct local *old = atomic_exchange_explicit(&s->worker_shared.local, l, memory_order_acq_rel);
	rcu_wait();
	local_free((struct local *)(uintptr_t)old);
}

int local_prepare(struct server *s, const struct config *c)
{
	local_abandon(s);
	return make(s, c, &s->local_next);
}

void local_commit(struct server *s)
{
	if (!s->local_next)
		return;
	publish(s, s->local_next);
	s->local_next = NULL;
	s->are_hosts_newer = false;
}

void local_abandon(struct server *s)
{
	local_free(s->local_next);
	s->local_next = NULL;
}

void local_follow(struct server *s)
{
	struct local *l = NULL;
	if (!s->now || !s->are_hosts_newer)
		return;
	int r = make(s, s->now->config, &l);
	if (r < 0) {
		log_error("local names stay as they were: %s", nw_strerror(r));
		return;
	}
	publish(s, l);
	s->are_hosts_newer = false;
}
