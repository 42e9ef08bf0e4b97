/* SPDX-License-Identifier: GPL-3.0-or-later */
/* An enforcer as a process of its own in a network namespace, driven by the test over the parent's and the server's sockets. */
#pragma once
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/types.h>
#include "steer/enforcer.h"
#include "steer/proto.h"

enum { WORKER, MAIN, CHANNELS };
struct rig {
	pid_t pid;
	int parent, channel[CHANNELS], other_side[CHANNELS], shared_fd;
	struct steer_shared *page;
	uint32_t seq;
};

void rig_permitted(void);                             /* the namespace, with lan0, wg1, wan0; exits with 77 when it may not */
void rig_open(struct rig *g);
void rig_start(struct rig *g, bool is_restart);       /* the process */
void rig_kill(struct rig *g);                         /* -9 */
int rig_stop(struct rig *g);                          /* as the parent does; its exit code */
void rig_close(struct rig *g);
int tell(struct rig *g, uint16_t type, uint32_t serial, const char *name, bool on, const char *yaml, struct steer_parent_reply *ret); /* the reply's result */
void in_force(struct rig *g, uint32_t serial, const char *yaml); /* PREPARE and COMMIT, which must succeed */
uint32_t rule_id(const char *yaml, const char *name);

void element_put(struct steer_element *e, uint32_t rule, const char *addr, uint32_t life_s);
uint32_t send_add(struct rig *g, unsigned channel, const struct steer_element *e, unsigned count); /* returns seq */
void get_ack(struct rig *g, unsigned channel, uint16_t type, uint32_t seq, struct steer_ack *ret);
int add_one(struct rig *g, uint32_t rule, const char *addr, uint32_t life_s);                       /* its status */
bool is_silent(struct rig *g, unsigned channel, int ms);
char *query(struct rig *g, uint16_t what, const char *addr); /* the JSON text; free it */
bool has_number(const char *json, const char *key, long number);

int shell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));    /* exit status */
char *text_of(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
bool kernel_has(uint32_t rule, const char *addr);
long kernel_life(uint32_t rule, const char *addr);   /* seconds left, -1: not there */
bool kernel_has_range(uint32_t rule, const char *addr);
