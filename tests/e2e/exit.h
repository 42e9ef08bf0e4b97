/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the client writes into a packet and the counter reads: where the packet ought to leave. The destination port says the
 * same, for TCP's first segments, which carry nothing. */
#pragma once
#include <stdint.h>

enum { EXIT_PORT = 7000, EXIT_TAGS = 4, EXIT_MAGIC = 0x4e574558, EXIT_NAME_MAX = 64 };
#define EXIT_TAG_NAMES                                                                                                           \
	"012x" /* direct, tunnel 1, tunnel 2, nowhere; the tag's number is its index, the port EXIT_PORT + number */

struct exit_payload {
	uint32_t magic, sequence;
	uint8_t tag, unused[3];
	char name[EXIT_NAME_MAX]; /* whose address it was, cut, NUL-terminated */
};
