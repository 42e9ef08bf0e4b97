/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The scripted upstream's answers that wait, and the words that change how it behaves while it runs. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct behaviour {
	unsigned delay_ms;     /* of all answers by UDP */
	bool is_shut;          /* nobody is at the ports */
	uint64_t silent_after; /* so many questions more, when has_silent_after */
	bool has_silent_after;
};
extern struct behaviour behaviour;

/* One command; false when it is none. What upstream.c says. */
bool behaviour_change(const char *command);
/* Whether this question is passed over. */
bool behaviour_counts_out(void);

void late_add(int fd, const uint8_t *msg, size_t len, const struct sockaddr_storage *to, socklen_t to_len, unsigned after_ms);
int late_send(void); /* what is due; returns how long until the next, -1: there is none */
void late_forget(void);
