/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The log. A line is made in a stack buffer and leaves with one write, so lines of several processes do not mix. Repeats are
 * found in a small table by the hash of level and text: five in ten seconds pass, the rest are counted and said in one line
 * when the window ends (at the next message of any kind) or when another message needs the slot. Any thread; one mutex. */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"

enum { LINE_MAX_LEN = 1024, SLOTS = 32, BURST = 5, WINDOW_MS = 10000 };

struct repeat {
	uint64_t hash, start_ms, order; /* order: counts up with every slot taken */
	unsigned seen;                  /* 0: slot is free */
	enum log_level level;
	char text[160]; /* the beginning, for the line that sums up */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct repeat repeats[SLOTS];
static char process[32] = "nameway";
static _Atomic int max_level = LOG_L_INFO;
static bool is_journal;

void log_init(const char *process_name, enum log_level level)
{
	pthread_mutex_lock(&lock);
	snprintf(process, sizeof(process), "%s", process_name);
	is_journal = getenv("JOURNAL_STREAM") != NULL;
	pthread_mutex_unlock(&lock);
	log_set_level(level);
}

void log_set_level(enum log_level level)
{
	atomic_store_explicit(&max_level, (int)level, memory_order_relaxed);
}

static void write_line(enum log_level level, const char *text)
{
	static const char *const word[] = {"ERROR", "WARN", "INFO", "DEBUG"};
	static const int syslog_level[] = {3, 4, 6, 7};
	char line[LINE_MAX_LEN + 64], prefix[8] = "";
	int len;

	if (is_journal)
		snprintf(prefix, sizeof(prefix), "<%d>", syslog_level[level]);
	len = snprintf(line, sizeof(line), "%s%s: %s: %s\n", prefix, word[level], process, text);
	if (len >= (int)sizeof(line))
		len = sizeof(line) - 1;
	/* A log that cannot be written has nowhere to say so. */
	while (write(STDERR_FILENO, line, (size_t)len) < 0 && errno == EINTR)
		;
}

static void sum_up(struct repeat *r)
{
	char text[LINE_MAX_LEN];

	if (r->seen > BURST) {
		snprintf(text, sizeof(text), "%u more like it: %s", r->seen - BURST, r->text);
		write_line(r->level, text);
	}
	r->seen = 0;
}

/* Whether this message may leave now. */
static bool admit(enum log_level level, const char *text)
{
	static uint64_t order;
	uint64_t now = clock_ms(), hash = hash_bytes(text, strlen(text), level);
	struct repeat *place = &repeats[0];

	for (unsigned i = 0; i < SLOTS; i++)
		if (repeats[i].seen && now - repeats[i].start_ms >= WINDOW_MS)
			sum_up(&repeats[i]);
	for (unsigned i = 0; i < SLOTS; i++) {
		struct repeat *r = &repeats[i];

		if (r->seen && r->hash == hash)
			return ++r->seen <= BURST;
		/* A free slot is best, else the oldest. */
		if (place->seen && (!r->seen || r->order < place->order))
			place = r;
	}
	sum_up(place);
	place->hash = hash;
	place->start_ms = now;
	place->order = ++order;
	place->seen = 1;
	place->level = level;
	snprintf(place->text, sizeof(place->text), "%s", text);
	return true;
}

void log_msg(enum log_level level, const char *fmt, ...)
{
	char text[LINE_MAX_LEN];
	va_list args;

	if ((int)level > atomic_load_explicit(&max_level, memory_order_relaxed))
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	/* Names from the network end up here: one message stays one line and cannot steer a terminal. */
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	pthread_mutex_lock(&lock);
	if (admit(level, text))
		write_line(level, text);
	pthread_mutex_unlock(&lock);
}

void log_lines(enum log_level level, const char *prefix, const char *text)
{
	while (text && *text) {
		size_t len = strcspn(text, "\n");

		if (len)
			log_msg(level, "%s%.*s", prefix, (int)len, text);
		text += len + (text[len] == '\n');
	}
}
