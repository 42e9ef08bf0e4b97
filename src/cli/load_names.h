/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What is asked: a weighted mix of name patterns and of files of names. One thread; memory is taken while the mix is put together
 * and none while questions are made. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "wire/name.h"

/* QTYPE and QCLASS follow the name. */
enum { QUESTION_MAX = NAME_WIRE_MAX + 4 };
/* Limits: parts of a mix, names of a file. */
enum { NAMES_PARTS_MAX = 32, NAMES_FILE_MAX = 20000000 };

struct names;
struct names *names_new(uint64_t seed); /* NULL: out of memory */
void names_free(struct names *n);       /* takes NULL */

/* "www.<10>.lan": <N> is N random letters, <#> a counter from 0; "NAME TYPE" gives the part its own type. A plain name is a
 * pattern too. 0, NW_EMALFORMED, NW_ETOOLONG (a name could pass 255 bytes or a label 63), NW_EFULL, -ENOMEM. */
int names_add_pattern(struct names *n, const char *pattern, uint16_t type, unsigned weight);
/* A file of lines "NAME" or "NAME TYPE"; empty lines and those that begin with # are passed over. is_ordered: asked in the file's
 * order, again and again; else drawn at random. On NW_EMALFORMED *ret_line is the line that was not understood. An empty file
 * is -ENODATA. */
int names_add_file(struct names *n, const char *path, uint16_t type, unsigned weight, bool is_ordered, unsigned long *ret_line);
unsigned names_count(const struct names *n); /* parts */

/* Writes the next question (name, type, class IN) and returns its length. There must be a part. */
size_t names_next(struct names *n, uint8_t out[QUESTION_MAX]);

/* 1..65535, or 0 for a type that is not known. "A", "https", "TYPE65". */
uint16_t type_from_text(const char *text, size_t len);

/* splitmix64, for everything here that needs many cheap random numbers from one seed. */
static inline uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}
