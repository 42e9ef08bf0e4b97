/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The report: what loading says to the user, a line each. Values of the file are quoted in it, so control characters are made
 * visible. */
#include <stdarg.h>
#include <stdio.h>
#include "config/config.h"

enum { REPORT_TEXT_MAX = 1 << 20, REPORT_LINE_MAX = 1024, REPORT_LINES_MAX = 500 };

void report_init(struct report *r)
{
	buf_init(&r->text, REPORT_TEXT_MAX);
	r->errors = r->warnings = 0;
}

void report_free(struct report *r)
{
	buf_free(&r->text);
}

void report_add(struct report *r, bool is_error, const struct place *p, const char *fmt, ...)
{
	char line[REPORT_LINE_MAX];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	if (is_error)
		r->errors++;
	else
		r->warnings++;
	unsigned said = r->errors + r->warnings;
	if (said > REPORT_LINES_MAX) {
		if (said == REPORT_LINES_MAX + 1)
			buf_printf(&r->text, "error: more than %d messages; the rest is left out\n", REPORT_LINES_MAX);
		return;
	}
	for (char *c = line; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	const char *kind = is_error ? "error" : "warning";
	if (p && p->line)
		buf_printf(&r->text, "%s:%d:%d: %s: %s\n", p->file, p->line, p->column, kind, line);
	else if (p)
		buf_printf(&r->text, "%s: %s: %s\n", p->file, kind, line);
	else
		buf_printf(&r->text, "%s: %s\n", kind, line);
}
