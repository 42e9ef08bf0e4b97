/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Questions in, scripted answers out; upstream.c says what a name gets. No I/O but records_read. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NAME_TEXT_MAX = 256 };

struct question {
	char name[NAME_TEXT_MAX]; /* lower case, without the last dot; "" is the root */
	uint16_t type, udp_size;  /* 512 without EDNS */
	bool has_edns;
	size_t end; /* where the question section ends */
};

/* What is done to all questions, whatever their names. */
enum answer_mode {
	MODE_NORMAL,
	MODE_SILENT,
	MODE_SERVFAIL,
	MODE_REFUSED,
	MODE_NXDOMAIN,
	MODE_EMPTY /* no record and no SOA */,
	MODE_LOWER /* letters of the question are lower-cased, by UDP */
};
extern enum answer_mode answer_mode;
extern uint32_t answer_ttl; /* of what has no TTL of its own */

/* 0, or -1: not one plain question. */
int question_parse(struct question *ret, const uint8_t *msg, size_t len);
/* The message's length; 0 for silence. max is at least 4096. */
size_t answer_make(uint8_t *ret, size_t max, const uint8_t *query, const struct question *q, bool is_tcp);
/* How long the name's answer by UDP is kept back. */
unsigned answer_delay_ms(const struct question *q);
/* 0, or -1 after saying why on standard error. */
int records_read(const char *path);
