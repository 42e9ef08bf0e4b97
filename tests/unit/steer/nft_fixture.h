/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the nft tests share: a network namespace of their own, a configuration made by hand, commands and their output. */
#pragma once
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <cmocka.h>
#include "policy/prefixes.h"
#include "steer/nft.h"

enum { MASK = 0xf000, MARK_DIRECT = 0x3000, MARK_T1 = 0x2000, MARK_T2 = 0x1000 };
enum { RULE_LAN1 = 0xa1, RULE_LAN2 = 0xa2, RULE_BUT = 0xa3, RULE_GID = 0xa4, RULE_REST = 0xa5 };
enum { WAY_DIRECT, WAY_T1, WAY_T2, WAYS };
enum { GROUP_LAN, GROUP_IOT, GROUP_TV, GROUPS };

/* lan: br-lan. iot: br-iot, 192.168.20.0/24, one MAC. tv: br-lan, 10.9.0.0/16 but not 10.9.9.0/24, not one MAC.
 * steer, in order: lan, names -> t1; lan but tv, names but others -> t2; iot, all but names -> t2; gid 10000 -> t1; the rest direct. */
struct fixture {
	struct config c;
	struct cfg_way ways[WAYS];
	struct cfg_group groups[GROUPS];
	struct cfg_steer steers[5];
	struct cfg_listen listens[2];
	struct nft_layout layout;
	char outside[2][IFNAME_MAX];
	uint64_t p2p[1];
};
void fixture_init(struct fixture *f);
struct nft *fixture_open(bool is_protected, bool is_older);
void fixture_apply(struct nft *n, const struct fixture *f);

void enter_namespace(void);           /* exits with 77 (skipped) when it may not */
char *run(const char *command);       /* standard output and error of a shell command, NUL-terminated; free it */
void must_run(const char *command);   /* fails the test when the command does */
bool output_has(const char *command, const char *text);
struct addr address(const char *text);
struct nft_element element(uint32_t rule, const char *addr, uint32_t life_s);
