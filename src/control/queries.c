/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `log` and `top`: the query log and what it counts. Each request is short: who follows asks again with the cursor. The control thread, offline while files
 * are read. */
#include <errno.h>
#include <string.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/rcu.h"
#include "control/control_private.h"

enum { LOG_JSON_MAX = 32 << 20, LOG_DEFAULT = 20, LOG_MAX = 10000, TOP_DEFAULT = 10, TOP_MAX = 1000, TOP_JSON_MAX = 4 << 20 };

static bool is_log_on(const struct control_env *env)
{
	const struct snapshot *s = env->snapshot_take(env->ctx);
	bool is_on = s && s->config->server.log_queries;
	env->snapshot_give(env->ctx, s);
	return is_on;
}

json_t *queries_json(const struct control_env *env)
{
	struct query_log_stat s;
	if (!env->queries)
		return json_null();
	query_log_stat(env->queries, &s);
	return json_pack("{s:b, s:I, s:I, s:I, s:I, s:b}", "on", is_log_on(env), "records", (json_int_t)s.records, "lost", (json_int_t)s.lost, "bytes",
	        (json_int_t)s.bytes, "files", (json_int_t)s.files, "failing", s.is_failing);
}

static int require_log(const struct control_env *env, json_t **ret)
{
	return env->queries ? 0 : control_fail(ret, -ENOMEM, "there is no query log: it could not be made. Mend: see the log of namewayd");
}

/* A number of the request, its default, or -1 with *ret set. */
static json_int_t number(const json_t *request, const char *key, json_int_t otherwise, json_int_t max, json_t **ret)
{
	const json_t *j = json_object_get(request, key);
	if (!j || json_is_null(j))
		return otherwise;
	json_int_t n = json_is_integer(j) ? json_integer_value(j) : -1;
	if (n >= 0 && n <= max)
		return n;
	control_fail(ret, NW_EMALFORMED, "`%s` is a number up to %lld", key, (long long)max);
	return -1;
}

/* --- log --- */

/* What is looked for in names: as it is, or, with letters that are no ASCII, as the name it stands for. */
static int name_part(const json_t *request, char ret_text[NAME_TEXT_MAX], const char **ret_part, json_t **ret)
{
	const json_t *j = json_object_get(request, "name");
	const char *text = json_string_value(j);
	struct name n;
	*ret_part = NULL;
	if (!j || json_is_null(j))
		return 0;
	bool is_ascii = text != NULL;
	for (const char *c = text; c && *c; c++)
		is_ascii &= !(*c & 0x80);
	if (!text || strlen(text) >= NAME_TEXT_MAX || (!is_ascii && name_from_user_text(&n, text, strlen(text)) < 0))
		return control_fail(ret, NW_EMALFORMED, "`%.128s` is no part of a name", text ? text : "");
	*ret_part = is_ascii ? strcpy(ret_text, text) : name_to_text(ret_text, n.wire);
	return 0;
}

static int outcome_of(const json_t *request, int *ret_outcome, json_t **ret)
{
	const json_t *j = json_object_get(request, "outcome");
	const char *text = json_string_value(j);
	*ret_outcome = -1;
	if (!j || json_is_null(j))
		return 0;
	for (int i = 0; text && i < OUTCOMES; i++)
		if (!strcmp(query_outcome_name[i], text)) {
			*ret_outcome = i;
			return 0;
		}
	return control_fail(ret, NW_EMALFORMED, "there is no outcome `%.32s`", text ? text : "");
}

static int client_of(const json_t *request, struct addr *room, const struct addr **ret_client, json_t **ret)
{
	const json_t *j = json_object_get(request, "client");
	const char *text = json_string_value(j);
	*ret_client = NULL;
	if (!j || json_is_null(j))
		return 0;
	if (!text || addr_parse(room, text) < 0)
		return control_fail(ret, NW_EMALFORMED, "`%.64s` is no address; the log knows clients by address", text ? text : "");
	*ret_client = room;
	return 0;
}

static json_t *records_of(const struct buf *b)
{
	json_t *ret = json_array(), *one;
	for (size_t at = 0; at < b->len;) {
		const char *end = memchr(b->bytes + at, '\n', b->len - at);
		size_t len = end ? (size_t)(end - b->bytes) - at : b->len - at;
		if ((one = json_loadb(b->bytes + at, len, 0, NULL)))
			json_array_append_new(ret, one);
		at += len + 1;
	}
	return ret;
}

int verb_log(const struct control_env *env, const json_t *request, json_t **ret)
{
	struct query_log_filter f = {0};
	struct addr client;
	struct buf b;
	char part[NAME_TEXT_MAX];
	uint64_t cursor = (uint64_t)json_integer_value(json_object_get(request, "cursor"));
	json_int_t max = number(request, "count", LOG_DEFAULT, LOG_MAX, ret);
	int r = require_log(env, ret);
	if (r == 0 && max < 0)
		r = NW_EMALFORMED;
	if (r == 0)
		r = name_part(request, part, &f.name, ret);
	if (r == 0)
		r = client_of(request, &client, &f.client, ret);
	if (r == 0)
		r = outcome_of(request, &f.outcome, ret);
	if (r < 0)
		return r;
	f.max = (unsigned)max;
	buf_init(&b, LOG_JSON_MAX);
	rcu_offline();
	r = query_log_print(env->queries, &f, &cursor, &b);
	rcu_online();
	if (r == 0)
		*ret = json_pack("{s:b, s:o, s:I}", "on", is_log_on(env), "records", records_of(&b), "cursor", (json_int_t)cursor);
	buf_free(&b);
	return r;
}

/* --- top --- */

int verb_top(const struct control_env *env, const json_t *request, json_t **ret)
{
	struct buf b;
	json_int_t count = number(request, "count", TOP_DEFAULT, TOP_MAX, ret);
	int r = require_log(env, ret);
	if (r < 0 || count < 0)
		return r < 0 ? r : NW_EMALFORMED;
	buf_init(&b, TOP_JSON_MAX);
	rcu_offline();
	r = query_top_print(env->queries, (unsigned)count, &b);
	rcu_online();
	json_t *j = r == 0 ? json_loadb(b.bytes, b.len, 0, NULL) : NULL;
	buf_free(&b);
	if (j)
		*ret = j;
	return r < 0 ? r : j ? 0 : -ENOMEM;
}
