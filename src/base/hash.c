/* SPDX-License-Identifier: GPL-3.0-or-later */
/* XXH3 compiled into this file, so that short keys take its short path without a jump through the shared library. Any thread. */
#include "base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t hash_bytes(const void *bytes, size_t len, uint64_t seed)
{
	return XXH3_64bits_withSeed(bytes, len, seed);
}

uint64_t hash_seed(void)
{
	uint64_t seed;
	ssize_t n;

	do {
		n = getrandom(&seed, sizeof(seed), 0);
	} while (n < 0 && errno == EINTR);
	/* A guessable seed would let strangers fill one bucket; better not to start. */
	if (n != (ssize_t)sizeof(seed))
		abort();
	return seed;
}
