/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `filter`, `filter off`, `filter on`: pauses of filter rules. The control thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/err.h"
#include "control/control_private.h"

static uint32_t clock_s(void)
{
	return (uint32_t)(clock_ms() / 1000);
}

static void add_left(json_t *j, uint32_t left_s)
{
	json_object_set_new(j, "left_s", json_integer(left_s));
	json_object_set_new(j, "until", json_integer((json_int_t)(clock_wall_s() + left_s)));
}

json_t *filter_json(const struct control_env *env, const struct config *c)
{
	uint32_t now_s = clock_s(), left = env->pauses ? pauses_left(env->pauses, c, PAUSE_ALL, now_s) : 0;
	json_t *rules = json_array(), *j = json_pack("{s:n, s:o}", "all", "rules", rules);
	if (left) {
		json_t *all = json_object();
		add_left(all, left);
		json_object_set_new(j, "all", all);
	}
	for (unsigned i = 0; env->pauses && i < c->filter_count; i++) {
		if (!(left = pauses_left(env->pauses, c, (int)i, now_s)))
			continue;
		json_t *one = json_pack("{s:i, s:o}", "rule", (int)i + 1, "name", control_text(c->filters[i].name));
		add_left(one, left);
		json_array_append_new(rules, one);
	}
	return j;
}

uint32_t filter_left_s(const struct control_env *env, const struct config *c, unsigned rule)
{
	uint32_t now_s = clock_s();
	if (!env->pauses)
		return 0;
	uint32_t all = pauses_left(env->pauses, c, PAUSE_ALL, now_s), own = pauses_left(env->pauses, c, (int)rule, now_s);
	return all > own ? all : own;
}

/* By name, else by number. */
static int find_rule(const struct config *c, const char *text, json_t **ret)
{
	for (unsigned i = 0; i < c->filter_count; i++)
		if (!strcmp(c->filters[i].name, text))
			return (int)i;
	char *end;
	unsigned long n = strtoul(text, &end, 10);
	if (text[0] >= '0' && text[0] <= '9' && !*end && n >= 1 && n <= c->filter_count)
		return (int)n - 1;
	return control_fail(ret, -ENOENT, "there is no filter rule `%.128s`; `nameway rules` lists them", text);
}

static int rule_of(const struct config *c, const json_t *request, int *rule, json_t **ret)
{
	const json_t *text = json_object_get(request, "rule");
	*rule = PAUSE_ALL;
	if (!text || json_is_null(text))
		return 0;
	if (!json_is_string(text))
		return control_fail(ret, NW_EMALFORMED, "`rule` is a rule's name or number, a string");
	*rule = find_rule(c, json_string_value(text), ret);
	return *rule < 0 ? *rule : 0;
}

static int off(const struct control_env *env, const struct config *c, const json_t *request, json_t **ret)
{
	json_int_t s = json_integer_value(json_object_get(request, "duration_s"));
	uint32_t now_s = clock_s();
	int rule, r = rule_of(c, request, &rule, ret);
	if (r < 0)
		return r;
	if (s < PAUSE_MIN_S || s > PAUSE_MAX_S)
		return control_fail(ret, NW_EMALFORMED, "a pause lasts 1 second to 7 days. Mend: for longer, `enabled: false` in the configuration");
	return pauses_set(env->pauses, c, rule, now_s + (uint32_t)s, now_s);
}

static int on(const struct control_env *env, const struct config *c, const json_t *request, json_t **ret)
{
	int rule, r = rule_of(c, request, &rule, ret);
	if (r < 0)
		return r;
	if (rule == PAUSE_ALL) {
		pauses_end_all(env->pauses);
		return 0;
	}
	r = pauses_set(env->pauses, c, rule, 0, clock_s());
	if (r == 0 && pauses_left(env->pauses, c, PAUSE_ALL, clock_s()))
		return control_fail(ret, NW_EREFUSED, "every rule is paused, so this one stays so. Mend: `nameway filter on` ends all pauses");
	return r;
}

static int with_snapshot(const struct control_env *env, const json_t *request, json_t **ret,
        int (*change)(const struct control_env *env, const struct config *c, const json_t *request, json_t **ret))
{
	const struct snapshot *s = control_snapshot(env, ret);
	if (!s)
		return -EAGAIN;
	int r = change ? change(env, s->config, request, ret) : 0;
	if (r == 0)
		*ret = filter_json(env, s->config);
	env->snapshot_give(env->ctx, s);
	return r;
}

int verb_filter(const struct control_env *env, const json_t *request, json_t **ret)
{
	return with_snapshot(env, request, ret, NULL);
}

int verb_filter_off(const struct control_env *env, const json_t *request, json_t **ret)
{
	return with_snapshot(env, request, ret, off);
}

int verb_filter_on(const struct control_env *env, const json_t *request, json_t **ret)
{
	return with_snapshot(env, request, ret, on);
}
