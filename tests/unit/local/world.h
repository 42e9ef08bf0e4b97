/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A configuration made by hand, hosts texts, and questions with answers as one line of text:
 *   "A 10.0.0.1 AAAA ::1"   LOCAL_ANSWER with these records; an owner other than the question's stands before in brackets
 *   "none", "nodata", "nxdomain", "alias x.test"; records of a chain stand before: "CNAME b.lan nxdomain" */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "local/local.h"

enum { WORLD_MAX = 300, WORLD_SEED = 77 };
struct world {
	struct config c;
	struct cfg_upstream upstream;
	struct name domains[16], allow[16];
	struct cfg_record records[WORLD_MAX];
	uint8_t rdata[WORLD_MAX][300];
	struct local_text texts[4];
	unsigned text_count;
	struct report report;
	struct local *l;
	struct local_answer a; /* of the last question */
	char said[8192];
};

struct name name_of(const char *text);
void world_begin(struct world *w);
void world_end(struct world *w);
void world_domain(struct world *w, const char *name);
void world_forwards(struct world *w, const char *name);
/* "*.x" is a wildcard, ".x" a subtree. data: an address, a name for CNAME and PTR, else text that is put as it is. */
void world_record(struct world *w, const char *owner, uint16_t type, const char *data);
void world_hosts(struct world *w, const char *text); /* as hosts.0, hosts.1 ... */
void world_build(struct world *w);
const char *ask(struct world *w, const char *name, uint16_t type);
#define assert_ask(w, name, type, expected) assert_string_equal(ask(w, name, type), expected)
