/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A small table under a mutex: linear search is fine for at most ALARMS_MAX keys that change a few times a day. */
#include "stat/alarms.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"

struct alarm {
	char key[64], text[ALARM_TEXT_MAX];
	int64_t since_s;
};

struct alarms {
	pthread_mutex_t lock;
	unsigned count;
	struct alarm v[ALARMS_MAX];
};

struct alarms *alarms_new(void)
{
	struct alarms *a = calloc(1, sizeof *a);
	if (a)
		pthread_mutex_init(&a->lock, NULL);
	return a;
}

void alarms_free(struct alarms *a)
{
	if (!a)
		return;
	pthread_mutex_destroy(&a->lock);
	free(a);
}

static struct alarm *find(struct alarms *a, const char *key)
{
	for (unsigned i = 0; i < a->count; i++)
		if (!strncmp(a->v[i].key, key, sizeof a->v[i].key - 1))
			return &a->v[i];
	return NULL;
}

void alarm_set(struct alarms *a, const char *key, const char *fmt, ...)
{
	char text[ALARM_TEXT_MAX];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	pthread_mutex_lock(&a->lock);
	struct alarm *e = find(a, key);
	bool is_news = !e || strcmp(e->text, text);
	if (!e && a->count < ALARMS_MAX) {
		e = &a->v[a->count++];
		snprintf(e->key, sizeof e->key, "%s", key);
		e->since_s = clock_wall_s();
	}
	if (e)
		memcpy(e->text, text, sizeof text);
	pthread_mutex_unlock(&a->lock);
	if (is_news)
		log_warn("alarm: %s", text);
}

void alarm_clear(struct alarms *a, const char *key)
{
	bool was_set = false;
	pthread_mutex_lock(&a->lock);
	struct alarm *e = find(a, key);
	if (e) {
		*e = a->v[--a->count];
		was_set = true;
	}
	pthread_mutex_unlock(&a->lock);
	if (was_set)
		log_info("alarm over: %s", key);
}

json_t *alarms_json(struct alarms *a)
{
	json_t *list = json_array();
	pthread_mutex_lock(&a->lock);
	for (unsigned i = 0; list && i < a->count; i++)
		json_array_append_new(list, json_pack("{s:s, s:I, s:s}", "key", a->v[i].key, "since", (json_int_t)a->v[i].since_s, "text", a->v[i].text));
	pthread_mutex_unlock(&a->lock);
	return list;
}
