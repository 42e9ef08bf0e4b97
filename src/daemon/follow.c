/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Hosts files and resolv.conf, watched as list files are (files.c). A hosts file that changed is opened here and goes to the server as a descriptor. What
 * a resolv.conf says is part of the configuration, since all processes must know who the upstreams are: one that changed makes a new bundle of the text in
 * force, which takes the two-step change. A nameway.yaml that was edited meanwhile has no part in that. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "daemon/parent_private.h"

enum { REFRESH_RETRY_MS = 30000 };

/* --- hosts files --- */

static struct host_watch *host_of(struct parent *p, const char *path)
{
	uint64_t hash = hash_bytes(path, strlen(path), 0);
	for (unsigned i = 0; i < p->follow.host_count; i++)
		if (p->follow.hosts[i].path == hash)
			return &p->follow.hosts[i];
	return NULL;
}

/* Keeps the watches of c's files and makes those that are new. */
static void hosts_adopt(struct parent *p, const struct config *c)
{
	struct host_watch kept[CONFIG_HOSTS_MAX];
	for (unsigned i = 0; i < c->local.host_count; i++) {
		const char *path = c->local.hosts[i];
		const struct host_watch *w = host_of(p, path);
		kept[i] = w ? *w : (struct host_watch){ .path = hash_bytes(path, strlen(path), 0) };
	}
	memcpy(p->follow.hosts, kept, c->local.host_count * sizeof *kept);
	p->follow.host_count = c->local.host_count;
}

static void send_hosts_file(struct parent *p, struct host_watch *w, const char *path, unsigned at, unsigned total, enum ipc_list_reason reason)
{
	files_watch(p, path);
	/* Read before the file is opened: what changes in between is seen as a change. */
	w->signature = files_signature(path, 1);
	int fd = files_open_regular(path, "hosts file");
	struct ipc_msg m = { .type = IPC_HOSTS_FILE, .a = at, .b = total, .c = reason, .result = fd < 0 ? fd : 0 };
	snprintf(m.text, sizeof m.text, "%s", path);
	if (send_server(p, &m, fd < 0 ? -1 : fd, -1) < 0) {
		log_error("the server did not take the hosts file %s", path);
		w->signature = 0;
	}
	w->error = fd < 0 && fd != -ENOENT ? fd : 0;
	if (fd >= 0)
		close(fd);
}

/* One that is there but could not be opened is tried at every look, and said once. */
static bool is_hosts_due(const struct host_watch *w, const char *path)
{
	return files_signature(path, 1) != w->signature || (w->error && files_can_be_opened(path));
}

void follow_send_hosts(struct parent *p, const struct config *c, enum ipc_list_reason reason)
{
	bool is_due[CONFIG_HOSTS_MAX];
	unsigned total = 0, at = 0;
	hosts_adopt(p, c);
	for (unsigned i = 0; i < c->local.host_count; i++) {
		is_due[i] = reason == LIST_AT_CONFIG || is_hosts_due(&p->follow.hosts[i], c->local.hosts[i]);
		total += is_due[i];
	}
	for (unsigned i = 0; i < c->local.host_count; i++)
		if (is_due[i])
			send_hosts_file(p, &p->follow.hosts[i], c->local.hosts[i], at++, total, reason);
}

/* --- resolv.conf --- */

static uint64_t resolv_signature(const struct config *c)
{
	uint64_t h = 1;
	for (unsigned i = 0; i < c->upstream_count; i++)
		if (c->upstreams[i].resolv_conf)
			h = files_signature(c->upstreams[i].resolv_conf, h);
	return h == 1 ? 0 : h;
}

static void refuse_refresh(struct parent *p, const struct report *r)
{
	log_lines(LOG_L_ERROR, "resolv-conf: ", r->text.len ? r->text.bytes : "what it says now cannot be put in force");
	follow_failed(p);
}

/* A file without servers may only be on its way to others, so it is looked at again. */
static void say_kept(struct parent *p, bool has_kept)
{
	if (!has_kept) {
		parent_alarm(p, "resolv-conf", "");
		return;
	}
	p->follow.retry_at_ms = clock_ms() + REFRESH_RETRY_MS;
	parent_alarm(p, "resolv-conf", "a resolv.conf is gone, cannot be read or names no server: those it named before are asked. Mend: see the log; name servers in it, or `nameway reload` to go without");
}

/* The text in force with what the files say now; nothing when they say the same. */
static void refresh(struct parent *p, bool is_retried)
{
	struct report r;
	bool has_kept = false;
	struct buf bundle;
	struct config *c = NULL;
	report_init(&r);
	int e = config_bundle_refresh(&bundle, p->bundle.bytes, p->bundle.len, &has_kept, &r);
	bool is_same = e == 0 && bundle.len == p->bundle.len && !memcmp(bundle.bytes, p->bundle.bytes, bundle.len);
	if (e == 0 && !is_same)
		e = config_parse(&c, bundle.bytes, bundle.len, &r);
	if (e < 0) {
		refuse_refresh(p, &r);
	} else if (is_same) {
		/* Said once, not at every try. */
		if (has_kept && !is_retried)
			log_lines(LOG_L_WARN, "", r.text.bytes);
		say_kept(p, has_kept);
	} else {
		log_info("what resolv.conf says has changed");
		log_lines(LOG_L_INFO, "", r.text.bytes);
		parent_refresh(p, c, &bundle);
		bundle = (struct buf){ 0 };
	}
	buf_free(&bundle);
	report_free(&r);
}

static void look_at_resolv(struct parent *p, uint64_t now_ms)
{
	struct follow *f = &p->follow;
	const struct config *c = p->config;
	uint64_t now = resolv_signature(c);
	if (!now || !p->is_enforcer_in_force || !p->is_server_in_force)
		return;
	bool is_retried = f->retry_at_ms && now_ms >= f->retry_at_ms;
	if (now == f->resolv_signature && !is_retried)
		return;
	f->resolv_signature = now;
	f->retry_at_ms = 0;
	for (unsigned i = 0; i < c->upstream_count; i++)
		if (c->upstreams[i].resolv_conf)
			files_watch(p, c->upstreams[i].resolv_conf);
	refresh(p, is_retried);
}

void follow_failed(struct parent *p)
{
	p->follow.retry_at_ms = clock_ms() + REFRESH_RETRY_MS;
	parent_alarm(p, "resolv-conf", "what resolv.conf says now is not in force: upstreams are asked as before. Mend: see the log; it is tried again by itself");
}

/* --- both --- */

void follow_configure(struct parent *p)
{
	/* What a file said while the configuration was made may have been read too early. */
	p->follow.resolv_signature = 0;
	p->follow.retry_at_ms = 0;
	p->files_poll_ms = 0;
}

void follow_links_changed(struct parent *p)
{
	if (!resolv_signature(p->config))
		return;
	p->follow.resolv_signature = 0;
	p->files_poll_ms = 0;
}

void follow_look(struct parent *p, uint64_t now_ms)
{
	if (p->is_server_in_force)
		follow_send_hosts(p, p->config, LIST_WATCHED);
	look_at_resolv(p, now_ms);
}
