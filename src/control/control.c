/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The table of verbs, and what they share: failures, texts, waiting for the enforcer and the compiler. The control thread. */
#include "control/control_private.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/err.h"
#include "base/rcu.h"

enum { TEXT_MAX = 2048 };

static const struct verb {
	const char *name;
	bool changes;
	int (*run)(const struct control_env *env, const json_t *request, json_t **ret); /* NULL: the parent's */
} verbs[] = {
        {"status", false, verb_status},
        {"explain", false, verb_explain},
        {"list", false, verb_list},
        {"list-reload", true, verb_list_reload},
        {"list-add", true, verb_list_add},
        {"list-remove", true, verb_list_remove},
        {"list-diff", false, verb_list_diff},
        {"rules", false, verb_rules},
        {"ways", false, verb_ways},
        {"test-way", false, verb_test_way},
        {"filter", false, verb_filter},
        {"filter-off", true, verb_filter_off},
        {"filter-on", true, verb_filter_on},
        {"log", false, verb_log},
        {"top", false, verb_top},
        {"cache-stats", false, verb_cache_stats},
        {"cache-flush", true, verb_cache_flush},
        {"reload", true, NULL},
        {"way", true, NULL},
};

/* Beginnings of verbs that later versions carry. */
static const char *const later[] = {"lease", "kernel", "import", "export", "zone", "leases"};

static const struct verb *find_verb(const char *name)
{
	for (unsigned i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (!strcmp(verbs[i].name, name))
			return &verbs[i];
	return NULL;
}

static bool is_later(const char *name)
{
	size_t len = strcspn(name, "-");
	for (unsigned i = 0; i < sizeof(later) / sizeof(later[0]); i++)
		if (strlen(later[i]) == len && !strncmp(later[i], name, len))
			return true;
	return false;
}

bool control_verb_changes(const char *verb)
{
	const struct verb *v = find_verb(verb);
	return v && v->changes;
}

int control_run(const struct control_env *env, const json_t *request, bool may_change, json_t **ret)
{
	*ret = NULL;
	const char *name = json_string_value(json_object_get(request, "verb"));
	if (!name)
		return control_fail(ret, NW_EMALFORMED, "a request is an object with a string `verb`");
	const struct verb *v = find_verb(name);
	if (!v && is_later(name))
		return control_fail(ret, NW_ENOTYET, "`%.64s` is not in this version", name);
	if (!v)
		return control_fail(ret, NW_EREFUSED, "there is no verb `%.64s`; `nameway --help` lists them", name);
	if (!v->run)
		return control_fail(ret, NW_EREFUSED, "`%s` is the parent process's to do, not the server's", name);
	if (v->changes && !may_change)
		return control_fail(ret, NW_EREFUSED,
		        "`%s` changes something: only root and the server's own user may. Mend: sudo nameway …", name);
	int r = v->run(env, request, ret);
	if (r >= 0 && !*ret)
		r = -ENOMEM;
	if (r < 0 && !*ret)
		*ret = json_string(nw_strerror(r));
	return r < 0 ? r : 0;
}

char *control_reply(int r, json_t *result_or_text)
{
	json_t *line = json_object();
	json_object_set_new(line, "ok", json_boolean(r >= 0));
	if (r >= 0)
		json_object_set(line, "result", result_or_text ? result_or_text : json_null());
	else
		json_object_set_new(line, "error",
		        json_is_string(result_or_text) ? json_incref(result_or_text) : json_string(nw_strerror(r)));
	json_decref(result_or_text);
	char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
	json_decref(line);
	size_t len = text ? strlen(text) : 0;
	char *with_end = text ? realloc(text, len + 2) : NULL;
	if (!with_end) {
		free(text);
		return NULL;
	}
	memcpy(with_end + len, "\n", 2);
	return with_end;
}

int control_fail(json_t **ret, int r, const char *fmt, ...)
{
	char text[TEXT_MAX];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	json_decref(*ret);
	*ret = control_text(text);
	return r;
}

json_t *control_text(const char *text)
{
	json_t *ret = json_string(text);
	if (ret || !text)
		return ret;
	char *copy = strdup(text);
	for (char *c = copy; c && *c; c++)
		if (*c & 0x80)
			*c = '?';
	ret = copy ? json_string(copy) : NULL;
	free(copy);
	return ret;
}

json_t *control_textf(const char *fmt, ...)
{
	char text[TEXT_MAX];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return control_text(text);
}

const char *control_argument(const json_t *request, const char *key, json_t **ret)
{
	const char *text = json_string_value(json_object_get(request, key));
	if (!text || !text[0]) {
		control_fail(ret, NW_EMALFORMED, "the request lacks a string `%s`", key);
		return NULL;
	}
	return text;
}

json_t *control_place(const struct place *p)
{
	if (!p->file)
		return json_null();
	return control_textf("%s:%d:%d", p->file, p->line, p->column);
}

json_t *control_ask(const struct control_env *env, enum steer_query_what what, const struct addr *a)
{
	if (!env->ask_enforcer)
		return NULL;
	rcu_offline();
	json_t *j = env->ask_enforcer(env->ctx, what, a);
	rcu_online();
	return j;
}

int control_compile(const struct control_env *env, int (*fn)(void *arg), void *arg)
{
	rcu_offline();
	int r = env->on_compiler(env->ctx, fn, arg);
	rcu_online();
	return r;
}

const struct snapshot *control_snapshot(const struct control_env *env, json_t **ret)
{
	const struct snapshot *s = env->snapshot_take(env->ctx);
	if (!s)
		control_fail(
		        ret, -EAGAIN, "the server is still starting: its lists are being loaded. Mend: try again in a moment");
	return s;
}

int control_list(const struct config *c, const char *name, json_t **ret)
{
	char known[TEXT_MAX / 2] = "";
	for (unsigned i = 0; i < c->list_count; i++) {
		if (!strcmp(c->lists[i].name, name))
			return (int)i;
		size_t at = strlen(known);
		if (at + strlen(c->lists[i].name) + 8 < sizeof(known))
			snprintf(known + at, sizeof(known) - at, "%s%s", at ? ", " : "", c->lists[i].name);
	}
	return control_fail(ret, -ENOENT, "there is no list `%.64s`; the configuration has %s", name, known[0] ? known : "none");
}
