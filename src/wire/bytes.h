/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Big-endian integers and ASCII lower-casing for the files of this folder. Nobody else sees network byte order. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t load16(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return __builtin_bswap16(v);
}

static inline uint32_t load32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return __builtin_bswap32(v);
}

static inline void store16(uint8_t *p, uint16_t v)
{
	v = __builtin_bswap16(v);
	memcpy(p, &v, sizeof(v));
}

static inline void store32(uint8_t *p, uint32_t v)
{
	v = __builtin_bswap32(v);
	memcpy(p, &v, sizeof(v));
}

static inline uint8_t lower_byte(uint8_t c)
{
	return (uint8_t)(c | ((uint8_t)(c - 'A') < 26) << 5);
}

/* Eight bytes at once: the top bit of each byte of `upper` tells A..Z, and moved down by two it is the bit to set. */
static inline uint64_t lower_word(uint64_t w)
{
	const uint64_t ones = 0x0101010101010101;
	uint64_t low7 = w & 0x7f * ones;
	uint64_t from_a = low7 + (0x80 - 'A') * ones, above_z = low7 + (0x7f - 'Z') * ones;
	uint64_t upper = (from_a ^ above_z) & ~w & 0x80 * ones;

	return w | upper >> 2;
}

/* Copies with A-Z made a-z. Length bytes (0..63) are below 'A', so whole wire names go through in one piece. */
static inline void lower_copy(uint8_t *out, const uint8_t *in, size_t len)
{
	size_t i = 0;
	uint64_t w;

	for (; i + 8 <= len; i += 8) {
		memcpy(&w, in + i, 8);
		w = lower_word(w);
		memcpy(out + i, &w, 8);
	}
	if (i == len)
		return;
	if (len >= 8) {
		/* The last word overlaps the one before; lowering twice changes nothing. */
		memcpy(&w, in + len - 8, 8);
		w = lower_word(w);
		memcpy(out + len - 8, &w, 8);
		return;
	}
	for (; i < len; i++)
		out[i] = lower_byte(in[i]);
}
