/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Numbers, durations, sizes, words and texts. Addresses are in address.c. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/err.h"
#include "config/value.h"

enum { PATH_BYTES_MAX = 4096 };

int value_refuse(struct load *l, const struct node *n, const char *problem)
{
	report_add(l->r, true, &n->place, "`%.64s`: `%.80s` %s", n->key, n->text, problem);
	return NW_ECONFIG;
}

int value_bool(struct load *l, const struct node *n, bool *ret)
{
	bool is_true = !strcmp(n->text, "true");
	if (!is_true && strcmp(n->text, "false"))
		return value_refuse(l, n, "is neither true nor false; write `true` or `false`");
	*ret = is_true;
	return 0;
}

/* Digits (hexadecimal behind 0x), then *rest is what follows them. False: no digits, a leading zero, or too large. */
static bool digits_parse(const char *text, uint64_t *ret, const char **rest)
{
	int base = text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 16 : 10;
	const char *digits = base == 16 ? text + 2 : text;
	char *end;
	if (!(base == 16 ? isxdigit((unsigned char)*digits) : isdigit((unsigned char)*digits)))
		return false;
	if (base == 10 && *digits == '0' && isdigit((unsigned char)digits[1]))
		return false;
	errno = 0;
	*ret = strtoull(digits, &end, base);
	*rest = end;
	return !errno;
}

int value_number(struct load *l, const struct node *n, uint64_t min, uint64_t max, uint64_t *ret)
{
	uint64_t v;
	const char *rest;
	char problem[128];
	if (!digits_parse(n->text, &v, &rest) || *rest)
		return value_refuse(l, n, "is not a number; write digits without leading zeros, or 0x and hex digits");
	if (v < min || v > max) {
		snprintf(problem, sizeof problem, "is out of range; give %llu to %llu", (unsigned long long)min,
		        (unsigned long long)max);
		return value_refuse(l, n, problem);
	}
	*ret = v;
	return 0;
}

struct unit {
	const char *text;
	uint64_t factor;
};

/* A decimal number and one of the units. False: neither, or past 64 bits. */
static bool quantity_parse(const char *text, const struct unit *units, unsigned count, uint64_t *ret)
{
	uint64_t v;
	const char *rest;
	if ((text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) || !digits_parse(text, &v, &rest))
		return false;
	for (unsigned i = 0; i < count; i++)
		if (!strcmp(rest, units[i].text))
			return !__builtin_mul_overflow(v, units[i].factor, ret);
	return false;
}

static const struct unit durations[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
static const struct unit sizes[] = {{"B", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1ULL << 40}};
enum { DURATION_COUNT = sizeof durations / sizeof *durations, SIZE_COUNT = sizeof sizes / sizeof *sizes };

/* The largest unit that divides v, for messages. */
static void quantity_print(char ret[32], uint64_t v, const struct unit *units, unsigned count)
{
	unsigned i = v ? count - 1 : 1; /* nothing is said in seconds */
	while (i && v % units[i].factor)
		i--;
	snprintf(ret, 32, "%llu%s", (unsigned long long)(v / units[i].factor), units[i].text);
}

static int range_refuse(
        struct load *l, const struct node *n, uint64_t min, uint64_t max, const struct unit *units, unsigned count)
{
	char low[32], high[32], problem[128];
	quantity_print(low, min, units, count);
	quantity_print(high, max, units, count);
	snprintf(problem, sizeof problem, "is out of range; give %s to %s", low, high);
	return value_refuse(l, n, problem);
}

int value_duration(struct load *l, const struct node *n, uint64_t min_ms, uint64_t max_ms, uint64_t *ret_ms)
{
	uint64_t v;
	if (!quantity_parse(n->text, durations, DURATION_COUNT, &v))
		return value_refuse(l, n, "is not a duration; write a number and ms, s, m, h or d, as 90s or 12h");
	if (v < min_ms || v > max_ms)
		return range_refuse(l, n, min_ms, max_ms, durations, DURATION_COUNT);
	*ret_ms = v;
	return 0;
}

int value_size(struct load *l, const struct node *n, uint64_t min, uint64_t max, uint64_t *ret)
{
	uint64_t v;
	if (!quantity_parse(n->text, sizes, SIZE_COUNT, &v))
		return value_refuse(l, n, "is not a size; write a number and KiB, MiB, GiB or TiB, as 64MiB");
	if (v < min || v > max)
		return range_refuse(l, n, min, max, sizes, SIZE_COUNT);
	*ret = v;
	return 0;
}

int value_percent(struct load *l, const struct node *n, unsigned *ret)
{
	static const struct unit percent[] = {{"%", 1}};
	uint64_t v;
	if (!quantity_parse(n->text, percent, 1, &v) || v > 100)
		return value_refuse(l, n, "is not a share; write 0% to 100%, as 50%");
	*ret = (unsigned)v;
	return 0;
}

int value_choice(struct load *l, const struct node *n, const struct choice *choices, unsigned count, int *ret)
{
	char known[160] = "";
	for (unsigned i = 0; i < count; i++) {
		if (!strcmp(n->text, choices[i].text)) {
			if (choices[i].is_carried) {
				*ret = choices[i].value;
				return 0;
			}
			report_add(l->r, true, &n->place, "`%.64s: %s` is not in this version; take it out", n->key, n->text);
			return NW_ECONFIG;
		}
		if (choices[i].is_carried) {
			size_t at = strlen(known);
			snprintf(known + at, sizeof known - at, "%s`%s`", at ? ", " : "", choices[i].text);
		}
	}
	report_add(l->r, true, &n->place, "`%.64s`: `%.80s` is not known here; write one of %s", n->key, n->text, known);
	return NW_ECONFIG;
}

int value_text(struct load *l, const struct node *n, size_t max_len, const char **ret)
{
	char problem[64];
	size_t len = strlen(n->text);
	if (!len)
		return value_refuse(l, n, "is empty; leave the key out, or give a text");
	if (len > max_len) {
		snprintf(problem, sizeof problem, "is longer than %zu bytes; shorten it", max_len);
		return value_refuse(l, n, problem);
	}
	for (const char *c = n->text; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			return value_refuse(l, n, "has a control character in it; take it out");
	*ret = n->text;
	return 0;
}

const char *path_absolute(struct arena *a, const char *cwd, const char *file, const char *text)
{
	const char *slash = strrchr(file, '/');
	int dir_len = slash ? (int)(slash - file) + 1 : 0;
	if (*text == '/')
		return arena_strdup(a, text);
	if (*file == '/')
		return arena_printf(a, "%.*s%s", dir_len, file, text);
	return arena_printf(a, "%s%s%.*s%s", cwd, *cwd && cwd[strlen(cwd) - 1] == '/' ? "" : "/", dir_len, file, text);
}

int value_path(struct load *l, const struct node *n, const char **ret)
{
	const char *text;
	int r = value_text(l, n, PATH_BYTES_MAX - 1, &text);
	if (r < 0)
		return r;
	const char *path = path_absolute(l->c->arena, l->cwd, n->place.file, text);
	if (!path)
		return -ENOMEM;
	if (strlen(path) >= PATH_BYTES_MAX)
		return value_refuse(l, n, "makes a path longer than 4095 bytes; shorten it");
	*ret = path;
	return 0;
}

int values_path(struct load *l, const struct node *n, const char ***ret, unsigned *count)
{
	*count = 0;
	if (!n)
		return 0;
	*ret = arena_alloc(l->c->arena, (value_count(n) + 1) * sizeof **ret);
	if (!*ret)
		return -ENOMEM;
	for (const struct node *v = value_first(n); v; v = value_next(n, v)) {
		int r = value_path(l, v, &(*ret)[*count]);
		if (r == -ENOMEM)
			return r;
		*count += r == 0;
	}
	return 0;
}

int value_name(struct load *l, const struct node *n, struct name *ret)
{
	struct name name;
	if (name_from_user_text(&name, n->text, strlen(n->text)) < 0 || !name.labels)
		return value_refuse(l, n, "is not a domain name; write it like lan or home.example");
	if (name.wire[0] == 1 && name.wire[1] == '*')
		return value_refuse(l, n, "begins with `*`, but names under it are meant anyway; leave `*.` out");
	*ret = name;
	return 0;
}

int values_name(struct load *l, const struct node *n, struct name **ret, unsigned *count)
{
	*count = 0;
	if (!n)
		return 0;
	*ret = arena_alloc(l->c->arena, (value_count(n) + 1) * sizeof **ret);
	if (!*ret)
		return -ENOMEM;
	for (const struct node *v = value_first(n); v; v = value_next(n, v))
		*count += value_name(l, v, &(*ret)[*count]) == 0;
	return 0;
}
