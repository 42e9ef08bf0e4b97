/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A configuration from text, as if it were read from the file "t.yaml" in /etc/nameway. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "base/err.h"
#include "config/bundle.h"
#include "config/config.h"

struct parsed { struct config *c; struct report r; int outcome; };

static inline void bundle_of(struct buf *b, const char *text, size_t len)
{
	buf_init(b, BUNDLE_MAX);
	assert_int_equal(bundle_begin(b, "/etc/nameway"), 0);
	assert_int_equal(bundle_add(b, "t.yaml", text, len), 0);
	assert_int_equal(bundle_end(b, 1), 0);
}

static inline struct parsed parse_bytes(const char *text, size_t len)
{
	struct parsed p = {0};
	struct buf b;
	report_init(&p.r);
	bundle_of(&b, text, len);
	p.outcome = config_parse(&p.c, b.bytes, b.len, &p.r);
	assert_true((p.outcome == 0) == (p.c != NULL));
	assert_true((p.outcome == 0) == (p.r.errors == 0));
	buf_free(&b);
	return p;
}

static inline struct parsed parse(const char *text)
{
	return parse_bytes(text, strlen(text));
}

/* Parses what must be right. */
static inline struct parsed parse_good(const char *text)
{
	struct parsed p = parse(text);
	if (p.outcome)
		fail_msg("refused: %s", p.r.text.bytes);
	return p;
}

static inline void parsed_free(struct parsed *p)
{
	config_free(p->c);
	report_free(&p->r);
}

static inline const char *said(const struct parsed *p)
{
	return p->r.text.bytes ? p->r.text.bytes : "";
}
