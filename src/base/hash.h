/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Seeded XXH3-64. Every table keyed with what strangers choose uses a random seed (hash_seed). */
#pragma once
#include <stddef.h>
#include <stdint.h>

uint64_t hash_bytes(const void *bytes, size_t len, uint64_t seed);
uint64_t hash_seed(void); /* fresh, from getrandom; aborts when the kernel has none */
/* Maps a 64-bit hash to [0, n) without a division (Lemire). */
static inline uint64_t hash_range(uint64_t hash, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)hash * n) >> 64);
}
