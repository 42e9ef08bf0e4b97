/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The texts of hosts files. The parent sends descriptors, one a message: all files with a configuration, later those that changed. The main thread gathers
 * what was sent together; the compiler thread reads it and keeps the texts, since a table is made of all of them. A file that is gone has no names; one that
 * is there and cannot be read keeps those it had. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/err.h"
#include "base/log.h"
#include "daemon/server_private.h"
#include "local/local.h"

/* --- main thread --- */

static void job_free(struct hosts_job *o)
{
	for (unsigned i = 0; i < o->count; i++) {
		if (o->files[i].fd >= 0)
			close(o->files[i].fd);
		free(o->files[i].path);
	}
	free(o);
}

static void run_hosts(struct server *s, struct job *j);

void hosts_take(struct server *s, const struct ipc_msg *m, int fd)
{
	struct hosts_job *o = s->hosts_coming;
	/* A first one begins anew: what came before it will not be completed. */
	if (o && m->a == 0) {
		job_free(o);
		o = NULL;
	}
	if (!o && m->a == 0 && m->b <= CONFIG_HOSTS_MAX && (o = calloc(1, sizeof *o))) {
		o->reason = (enum ipc_list_reason)m->c;
		o->total = m->b;
	}
	s->hosts_coming = o;
	char *path = o && o->count < o->total && m->a == o->count ? strdup(m->text) : NULL;
	if (!path) {
		if (fd >= 0)
			close(fd);
		return;
	}
	o->files[o->count].fd = fd >= 0 ? fd : m->result < 0 ? m->result : -ENOENT;
	o->files[o->count++].path = path;
	if (o->count < o->total)
		return;
	s->hosts_coming = NULL;
	o->job.run = run_hosts;
	o->job.waits_for_config = o->reason != LIST_AT_CONFIG;
	queue_push(&s->compile_jobs, &o->job);
}

/* --- compiler thread --- */

static struct hosts_text *text_of(struct server *s, const char *path)
{
	for (unsigned i = 0; i < s->hosts_count; i++)
		if (!strcmp(s->hosts[i].path, path))
			return &s->hosts[i];
	return NULL;
}

static struct hosts_text *text_new(struct server *s, const char *path)
{
	if (s->hosts_count == sizeof s->hosts / sizeof s->hosts[0])
		hosts_forget(s);
	char *copy = s->hosts_count < sizeof s->hosts / sizeof s->hosts[0] ? strdup(path) : NULL;
	if (!copy)
		return NULL;
	struct hosts_text *t = &s->hosts[s->hosts_count++];
	*t = (struct hosts_text){ .path = copy };
	return t;
}

const struct hosts_text *hosts_find(const struct server *s, const char *path)
{
	return text_of((struct server *)(uintptr_t)s, path);
}

static size_t bytes_of_others(const struct server *s, const struct hosts_text *but)
{
	size_t all = 0;
	for (unsigned i = 0; i < s->hosts_count; i++)
		all += &s->hosts[i] == but ? 0 : s->hosts[i].len;
	return all;
}

static int text_read(struct server *s, struct hosts_text *t, int fd)
{
	struct buf b;
	size_t others = bytes_of_others(s, t), room = others < HOSTS_ALL_MAX ? HOSTS_ALL_MAX - others : 0;
	buf_init(&b, room < HOSTS_FILE_MAX ? room : HOSTS_FILE_MAX);
	int r = buf_read_fd(&b, fd);
	if (r < 0) {
		buf_free(&b);
		return r;
	}
	/* Grown by doubling: what is not used is given back. */
	char *bytes = b.bytes ? realloc(b.bytes, b.len + 1) : NULL;
	free(t->bytes);
	t->bytes = bytes ? bytes : b.bytes;
	t->len = b.len;
	return 0;
}

static void text_drop(struct hosts_text *t)
{
	free(t->bytes);
	t->bytes = NULL;
	t->len = 0;
}

static void take_file(struct server *s, const char *path, int fd)
{
	struct hosts_text *t = text_of(s, path);
	if (!t && !(t = text_new(s, path))) {
		log_error("hosts file %s: no memory", path);
		return;
	}
	t->error = fd >= 0 ? text_read(s, t, fd) : fd;
	/* After a failure the text is the one it was, and so is the table. */
	s->are_hosts_newer |= !t->error || (t->error == -ENOENT && t->len);
	if (t->error == -ENOENT) {
		text_drop(t);
		t->error = 0;
	}
}

void hosts_say(struct server *s)
{
	for (unsigned i = 0; i < s->hosts_count; i++) {
		const struct hosts_text *t = &s->hosts[i];
		if (!t->error)
			continue;
		alarm_set(s->alarms, "hosts", "hosts file %s cannot be read: %s; the names it had before are answered. Mend: %s", t->path, nw_strerror(t->error),
			t->error == NW_ETOOLONG ? "a file may have 64 MiB, all together 256 MiB" : "look at the file and its permissions");
		return;
	}
	if (s->names_left_out)
		alarm_set(s->alarms, "hosts", "%llu names of hosts files are not answered here: more than %d do not fit. Mend: block names by a list, which has room; the log says where", (unsigned long long)s->names_left_out, LOCAL_NAMES_MAX);
	else
		alarm_clear(s->alarms, "hosts");
}

static void run_hosts(struct server *s, struct job *j)
{
	struct hosts_job *o = (struct hosts_job *)j;
	for (unsigned i = 0; i < o->count; i++)
		take_file(s, o->files[i].path, o->files[i].fd);
	hosts_say(s);
	if (o->reason != LIST_AT_CONFIG)
		local_follow(s);
	job_free(o);
}

static bool is_named(const struct config *c, const char *path)
{
	for (unsigned i = 0; c && i < c->local.host_count; i++)
		if (!strcmp(c->local.hosts[i], path))
			return true;
	return false;
}

void hosts_forget(struct server *s)
{
	for (unsigned i = 0; i < s->hosts_count;) {
		struct hosts_text *t = &s->hosts[i];
		if (is_named(s->now ? s->now->config : NULL, t->path) || is_named(s->next ? s->next->config : NULL, t->path)) {
			i++;
			continue;
		}
		text_drop(t);
		free(t->path);
		*t = s->hosts[--s->hosts_count];
	}
	hosts_say(s);
}
