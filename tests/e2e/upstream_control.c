/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "upstream_control.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "upstream_answer.h"

enum { LATE_MAX = 65536, MESSAGE_MAX = 4096 };

struct late {
	uint64_t at_ms;
	int fd;
	struct sockaddr_storage to;
	socklen_t to_len;
	size_t len;
	uint8_t *msg;
};

struct behaviour behaviour;
static struct late *heap; /* the earliest first; LATE_MAX */
static unsigned heap_count;

bool behaviour_change(const char *command)
{
	static const struct {
		const char *word;
		enum answer_mode mode;
	} modes[] = {{"silent", MODE_SILENT}, {"servfail", MODE_SERVFAIL}, {"refused", MODE_REFUSED}, {"nxdomain", MODE_NXDOMAIN},
	        {"empty", MODE_EMPTY}, {"lower", MODE_LOWER}};
	unsigned long long n;

	if (!strcmp(command, "normal")) {
		behaviour = (struct behaviour){0};
		answer_mode = MODE_NORMAL;
		return true;
	}
	if (!strcmp(command, "shut")) {
		behaviour.is_shut = true;
		return true;
	}
	if (sscanf(command, "delay %u", &behaviour.delay_ms) == 1)
		return true;
	if (sscanf(command, "silent-after %llu", &n) == 1) {
		behaviour.silent_after = n;
		behaviour.has_silent_after = true;
		return true;
	}
	for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
		if (!strcmp(command, modes[i].word)) {
			answer_mode = modes[i].mode;
			return true;
		}
	return false;
}

bool behaviour_counts_out(void)
{
	if (!behaviour.has_silent_after)
		return false;
	if (!behaviour.silent_after)
		return true;
	behaviour.silent_after--;
	return false;
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void swap(unsigned a, unsigned b)
{
	struct late one = heap[a];
	heap[a] = heap[b];
	heap[b] = one;
}

void late_add(int fd, const uint8_t *msg, size_t len, const struct sockaddr_storage *to, socklen_t to_len, unsigned after_ms)
{
	if (!heap)
		heap = calloc(LATE_MAX, sizeof *heap);
	if (!heap || heap_count == LATE_MAX)
		return;
	struct late *l = &heap[heap_count];
	*l = (struct late){.at_ms = now_ms() + after_ms, .fd = fd, .to = *to, .to_len = to_len, .len = len, .msg = malloc(len)};
	if (!l->msg)
		return;
	memcpy(l->msg, msg, len);
	for (unsigned i = heap_count++; i && heap[i].at_ms < heap[(i - 1) / 2].at_ms; i = (i - 1) / 2)
		swap(i, (i - 1) / 2);
}

static void drop_first(void)
{
	free(heap[0].msg);
	heap[0] = heap[--heap_count];
	for (unsigned i = 0;;) {
		unsigned least = i;
		for (unsigned child = 2 * i + 1; child <= 2 * i + 2 && child < heap_count; child++)
			if (heap[child].at_ms < heap[least].at_ms)
				least = child;
		if (least == i)
			return;
		swap(i, least);
		i = least;
	}
}

int late_send(void)
{
	while (heap_count) {
		struct late *l = &heap[0];
		uint64_t now = now_ms();

		if (l->at_ms > now)
			return (int)(l->at_ms - now);
		(void)sendto(l->fd, l->msg, l->len, MSG_DONTWAIT, (struct sockaddr *)&l->to, l->to_len);
		drop_first();
	}
	return -1;
}

void late_forget(void)
{
	while (heap_count)
		drop_first();
}
