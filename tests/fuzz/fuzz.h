/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What every fuzzer shares: the entry point's prototype and a check that stands in every build type. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#define CHECK(condition)                                                                                                         \
	do {                                                                                                                     \
		if (!(condition)) {                                                                                              \
			fprintf(stderr, "%s:%d: broken property: %s\n", __FILE__, __LINE__, #condition);                         \
			abort();                                                                                                 \
		}                                                                                                                \
	} while (0)
