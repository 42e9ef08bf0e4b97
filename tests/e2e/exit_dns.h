/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The DNS half of the exit client: one question out, and every address that a client could connect to out of the answer. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ADDRESSES_MAX = 64, QUERY_MAX = 320 };
enum { DNS_A = 1, DNS_AAAA = 28, DNS_HTTPS = 65 };

struct address {
	bool is_6;
	uint8_t b[16];
};
struct reply {
	uint16_t id;
	unsigned rcode, answers, address_count;
	bool is_truncated;
	struct address address[ADDRESSES_MAX];
};

/* The query's length, 0 when the name does not fit a question. EDNS of 1232 bytes. */
size_t query_make(uint8_t ret[QUERY_MAX], uint16_t id, const char *name, uint16_t type);
/* 0, or -1: not a well-formed response. A and AAAA records and SVCB hints of the answer and additional sections are taken. */
int reply_parse(struct reply *ret, const uint8_t *msg, size_t len);
