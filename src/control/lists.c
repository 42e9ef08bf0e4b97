/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The lists' verbs. Reading runs here; live edits and differences run on the compiler thread, between configurations, where the
 * numbers of lists are those of the configuration in force. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/rcu.h"
#include "control/control_private.h"

enum { LIST_JSON_MAX = 64 << 20 };

/* A report's text as the outcome: said in `said` of a success, or as the failure. */
static int finish(int r, struct report *rep, const char *name, json_t **ret)
{
	const char *text = rep->text.len ? rep->text.bytes : "";
	size_t len = strlen(text);
	while (len && text[len - 1] == '\n')
		len--;
	if (r < 0)
		control_fail(ret, r, "%.*s%s", (int)len, text, len ? "" : nw_strerror(r));
	else if (!*ret)
		*ret = json_pack("{s:s, s:o}", "list", name, "said", control_textf("%.*s", (int)len, text));
	report_free(rep);
	return r;
}

/* A list's place in the configuration in force; only to say that it does not exist before anything is done. */
static int find(const struct control_env *env, const char *name, json_t **ret)
{
	const struct snapshot *s = control_snapshot(env, ret);
	if (!s)
		return -EAGAIN;
	int list = control_list(s->config, name, ret);
	env->snapshot_give(env->ctx, s);
	return list;
}

/* Numbers of lists are of a configuration: what changed since the text was made finds its list by name. */
static void add_hits(const struct control_env *env, json_t *all)
{
	const struct snapshot *s = env->snapshot_take(env->ctx);
	size_t i;
	json_t *l;
	json_array_foreach(all, i, l)
	{
		const char *name = json_string_value(json_object_get(l, "name"));
		for (unsigned k = 0; s && name && k < s->config->list_count; k++)
			if (!strcmp(s->config->lists[k].name, name))
				json_object_set_new(l, "hits", json_integer((json_int_t)worker_sum(env, k, worker_list_hits)));
	}
	env->snapshot_give(env->ctx, s);
}

static int print(const struct control_env *env, int list, json_t **ret)
{
	struct buf b;
	buf_init(&b, LIST_JSON_MAX);
	int r = lists_print_json(env->lists, list, &b);
	json_t *j = r == 0 ? json_loadb(b.bytes, b.len, 0, NULL) : NULL;
	buf_free(&b);
	if (!j)
		return r < 0 ? r : -ENOMEM;
	json_t *one = list < 0 ? json_incref(json_object_get(j, "lists")) : json_pack("[O]", j);
	add_hits(env, one);
	json_decref(one);
	*ret = j;
	return 0;
}

int verb_list(const struct control_env *env, const json_t *request, json_t **ret)
{
	const char *name = json_string_value(json_object_get(request, "name"));
	if (!name)
		return print(env, -1, ret);
	int list = find(env, name, ret);
	return list < 0 ? list : print(env, list, ret);
}

int verb_list_reload(const struct control_env *env, const json_t *request, json_t **ret)
{
	const char *name = control_argument(request, "name", ret);
	if (!name)
		return NW_EMALFORMED;
	int r = find(env, name, ret);
	if (r < 0)
		return r;
	struct report rep;
	report_init(&rep);
	rcu_offline();
	r = env->list_reload(env->ctx, name, json_is_true(json_object_get(request, "accept")), &rep);
	rcu_online();
	return finish(r, &rep, name, ret);
}

/* --- edits and differences --- */

/* What a job on the compiler thread works on. */
struct list_job {
	const struct control_env *env;
	const char *name;
	const char **entries;
	unsigned count;
	bool is_add;
	struct list_file file;
	struct buf json;
	struct report report;
	json_t **ret;
};

static int job_list(struct list_job *j)
{
	return find(j->env, j->name, j->ret);
}

static int edit_job(void *arg)
{
	struct list_job *j = arg;
	int list = job_list(j);
	return list < 0 ? list : lists_edit(j->env->lists, (unsigned)list, j->is_add, j->entries, j->count, &j->report);
}

static int read_entries(const json_t *request, struct list_job *j, json_t **ret)
{
	const json_t *entries = json_object_get(request, "entries");
	size_t count = json_array_size(entries);
	if (!count || count > CONTROL_ENTRIES_MAX)
		return control_fail(
		        ret, NW_EMALFORMED, "give 1 to %d entries; more belong into the list's file", CONTROL_ENTRIES_MAX);
	j->entries = calloc(count, sizeof(*j->entries));
	if (!j->entries)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		j->entries[i] = json_string_value(json_array_get(entries, i));
		if (!j->entries[i])
			return control_fail(ret, NW_EMALFORMED, "an entry is a string");
	}
	j->count = (unsigned)count;
	return 0;
}

static int edit(const struct control_env *env, const json_t *request, bool is_add, json_t **ret)
{
	struct list_job j = {.env = env, .is_add = is_add, .name = control_argument(request, "name", ret), .ret = ret};
	if (!j.name)
		return NW_EMALFORMED;
	int r = read_entries(request, &j, ret);
	if (r < 0) {
		free(j.entries);
		return r;
	}
	report_init(&j.report);
	r = control_compile(env, edit_job, &j);
	if (r == 0)
		*ret = json_pack("{s:s, s:i}", "list", j.name, is_add ? "added" : "removed", (int)j.count);
	free(j.entries);
	if (r < 0 && *ret) {
		report_free(&j.report);
		return r;
	}
	return finish(r, &j.report, j.name, ret);
}

int verb_list_add(const struct control_env *env, const json_t *request, json_t **ret)
{
	return edit(env, request, true, ret);
}

int verb_list_remove(const struct control_env *env, const json_t *request, json_t **ret)
{
	return edit(env, request, false, ret);
}

static int diff_job(void *arg)
{
	struct list_job *j = arg;
	int list = job_list(j);
	if (list < 0) {
		close(j->file.fd);
		return list;
	}
	return lists_diff_json(j->env->lists, (unsigned)list, &j->file, &j->json);
}

static int text_to_fd(const char *text, size_t len)
{
	int fd = memfd_create("nameway-diff", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (size_t at = 0; at < len;) {
		ssize_t n = write(fd, text + at, len - at);
		if (n < 0) {
			int r = -errno;
			close(fd);
			return r;
		}
		at += (size_t)n;
	}
	if (lseek(fd, 0, SEEK_SET) < 0) {
		close(fd);
		return -EIO;
	}
	return fd;
}

int verb_list_diff(const struct control_env *env, const json_t *request, json_t **ret)
{
	const json_t *text = json_object_get(request, "text");
	const char *path = json_string_value(json_object_get(request, "path"));
	struct list_job j = {.env = env, .name = control_argument(request, "name", ret), .ret = ret};
	if (!j.name)
		return NW_EMALFORMED;
	if (!json_is_string(text))
		return control_fail(ret, NW_EMALFORMED, "the request lacks the file's text");
	j.file.path = path ? path : "the new text";
	j.file.fd = text_to_fd(json_string_value(text), json_string_length(text));
	if (j.file.fd < 0)
		return j.file.fd;
	buf_init(&j.json, LIST_JSON_MAX);
	int r = control_compile(env, diff_job, &j);
	if (r == 0 && !(*ret = json_loadb(j.json.bytes, j.json.len, 0, NULL)))
		r = -ENOMEM;
	buf_free(&j.json);
	return r;
}
