/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The log: used by daemon/, the enforcer's main and the server's main thread; libraries return errors instead and the hot path
 * counts. One line a message, "LEVEL: text" on standard error (journald reads the <n> prefix when JOURNAL_STREAM is set).
 * Equal messages are limited: after 5 in 10 s the rest are summed into one line. Thread-safe. */
#pragma once

enum log_level { LOG_L_ERROR, LOG_L_WARN, LOG_L_INFO, LOG_L_DEBUG };
void log_init(const char *process_name, enum log_level level);
void log_set_level(enum log_level level);
/* Every line of a text as a message of its own, each behind `prefix`. text may be NULL. */
void log_lines(enum log_level level, const char *prefix, const char *text);
void log_msg(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define log_error(...) log_msg(LOG_L_ERROR, __VA_ARGS__)
#define log_warn(...) log_msg(LOG_L_WARN, __VA_ARGS__)
#define log_info(...) log_msg(LOG_L_INFO, __VA_ARGS__)
#define log_debug(...) log_msg(LOG_L_DEBUG, __VA_ARGS__)
