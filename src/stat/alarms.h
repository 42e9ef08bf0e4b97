/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Alarms: what an administrator must know now, each with its mend, one per key, until it is cleared. Bounded; thread-safe by one mutex (never on a
 * packet's path). Setting an alarm that stands with the same text does nothing; a new or changed one is logged once. */
#pragma once
#include <jansson.h>

enum { ALARMS_MAX = 128, ALARM_TEXT_MAX = 400 };
struct alarms;
struct alarms *alarms_new(void);
void alarms_free(struct alarms *a);
void alarm_set(struct alarms *a, const char *key, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void alarm_clear(struct alarms *a, const char *key);
/* An array of {"key", "since" (wall-clock seconds), "text"}. NULL: out of memory. */
json_t *alarms_json(struct alarms *a);
