/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Aligned tables and plain words for numbers. Strings from an answer may be anything: control characters are shown as '?'. */
#pragma once
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

enum { TABLE_COLUMNS_MAX = 12, WORDS_MAX = 48 };
struct table {
	char align[TABLE_COLUMNS_MAX + 1];
	unsigned columns;
	size_t cells, room;
	char **cell;
};

/* align: 'l' or 'r' a column. */
void table_begin(struct table *t, const char *align);
void table_cell(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void table_end(
        struct table *t, FILE *out, const char *indent); /* prints and frees; empty cells at the end of a line are left out */

const char *words_age(char buf[WORDS_MAX], int64_t seconds); /* "3d 4h", "12m", "5s" */
const char *words_bytes(char buf[WORDS_MAX], int64_t bytes); /* "1.5 MiB" */

/* Of an answer: "" or 0 when it is not there or of another type. */
const char *text_of(const json_t *j, const char *key);
int64_t int_of(const json_t *j, const char *key);
/* Strings of an array, joined; `none` when it is empty. Static text, valid until the fourth next call. */
const char *joined(const json_t *array, const char *between, const char *none);
void put_text(FILE *out, const char *text); /* without control characters */
