/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Questions in flight of the exit client. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "exit_send.h"

enum { SERVERS_MAX = 4 };

struct options {
	const char *server[SERVERS_MAX];
	unsigned server_count, rate, tcp_percent, pass, wait_ms, syn_every, mix[3];
	uint64_t count;
};
struct asked_name {
	const char *name;
	uint8_t tag;
};

extern struct options options;
struct asked_names {
	struct asked_name *v;
	unsigned count;
};
extern struct asked_names names;

uint64_t now_ns(void);
int ask_open(int epoll_fd, const char *learnt_path);
void ask(uint64_t i, uint64_t due_ns);
void ask_ready(uint32_t which, uint32_t events);
bool ask_pending(void);
void ask_print(void);
void ask_print_sent(void);
