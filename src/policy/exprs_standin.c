/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A stand-in for exprs.c and format_adblock.c, so that lists are whole without them: rules are kept as texts and never match; of
 * adblock it knows ||x^, @@||x^, and that the rest is a rule. To be removed when the two are there. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "config/config.h"
#include "policy/exprs.h"
#include "policy/list_format.h"

struct exprs {
	unsigned rules;
};
struct exprs_build {
	unsigned rules;
};

struct exprs_build *exprs_build_new(uint64_t seed)
{
	return calloc(1, sizeof(struct exprs_build));
}

int exprs_check_rule(const char *rule, size_t len, const char **ret_why)
{
	*ret_why = "the rule is too long";
	return len == 0 || len > EXPR_TEXT_MAX ? NW_EMALFORMED : 0;
}

int exprs_build_add(struct exprs_build *b, const char *rule, size_t len)
{
	const char *why;
	int r = exprs_check_rule(rule, len, &why);

	b->rules += r == 0;
	return r;
}

int exprs_build_done(struct exprs_build *b, struct exprs **ret)
{
	struct exprs *e = NULL;

	if (b->rules) {
		e = malloc(sizeof(*e));
		if (!e) {
			free(b);
			return -ENOMEM;
		}
		e->rules = b->rules;
	}
	free(b);
	*ret = e;
	return 0;
}

void exprs_build_free(struct exprs_build *b)
{
	free(b);
}

void exprs_free(struct exprs *e)
{
	free(e);
}

void exprs_stat(const struct exprs *e, struct exprs_stat *ret)
{
	*ret = (struct exprs_stat){.rules = e->rules};
}

static bool is_comment(const char *s, size_t len)
{
	return len == 0 || *s == '!' || *s == '#' || *s == '[';
}

static void adblock_parse(struct line_entry *ret, const char *line, size_t len, size_t *at)
{
	const char *end = line + len, *name;
	bool is_allow;

	*at = len;
	while (end > line && list_is_blank(end[-1]))
		end--;
	while (line < end && list_is_blank(*line))
		line++;
	len = (size_t)(end - line);
	is_allow = len > 2 && memcmp(line, "@@", 2) == 0;
	name = line + (is_allow ? 2 : 0);
	if (is_comment(line, len)) {
		ret->what = LINE_EMPTY;
	} else if (end - name > 3 && memcmp(name, "||", 2) == 0 && end[-1] == '^') {
		list_parse_name(ret, name + 2, (size_t)(end - name) - 3);
		ret->kind = is_allow ? KIND_ALLOW : KIND_SUFFIX;
		ret->is_marked = true;
	} else if (len <= EXPR_TEXT_MAX && (is_allow || memchr(line, '$', len) || memchr(line, '*', len) || memchr(line, '^', len) || *line == '/')) {
		ret->what = LINE_RULE;
		ret->rule = line;
		ret->rule_len = len;
	} else {
		size_t done = 0;

		list_format_domains.parse(ret, line, len, &done);
	}
}

static int adblock_probe(const char *text, size_t len)
{
	return list_probe_share(&list_format_adblock, text, len);
}

const struct list_format list_format_adblock = {
        .name = "adblock", .id = FORMAT_ADBLOCK, .probe = adblock_probe, .parse = adblock_parse};
