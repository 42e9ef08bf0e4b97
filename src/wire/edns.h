/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The OPT record of our messages (RFC 6891) with at most one Extended DNS Error (RFC 8914). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EDNS_OPT_LEN = 11, EDNS_EDE_TEXT_MAX = 120, EDNS_MAX = EDNS_OPT_LEN + 6 + EDNS_EDE_TEXT_MAX };

struct edns_out {
	uint16_t udp_size;
	uint8_t rcode_high; /* the upper eight bits of an extended RCODE */
	bool has_do;
	int ede;              /* INFO-CODE, below 0: none */
	const char *ede_text; /* may be NULL; cut to EDNS_EDE_TEXT_MAX bytes at a UTF-8 boundary */
};

/* Writes the record, at most EDNS_MAX bytes. Returns its length. */
size_t edns_put(uint8_t *out, const struct edns_out *e);
size_t edns_len(const struct edns_out *e);
