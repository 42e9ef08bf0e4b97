/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the files of the load generator share. A source is a UDP socket or a TCP connection; each has slots for the queries that
 * are out on it, and a query's DNS id is its slot's number (for TCP plus a random base). Slots are taken from a queue that begins
 * shuffled, so ids are random and one is not used again before all others were.
 *
 * Every query that is out is in one list in the order of sending: the timeout is the same for all, so the oldest stands first. */
#pragma once
#include <time.h>
#include "cli/load_pace.h"
#include "cli/load_run.h"

enum { LOAD_UDP_SLOTS = 65536, LOAD_BATCH = 64, LOAD_BACKLOG = 65536, LOAD_QUERY_MAX = 12 + QUESTION_MAX + 11 };
#define LOAD_NONE UINT32_MAX

struct pending {
	uint64_t intended_ns, sent_ns;
	uint32_t question_hash;
	uint32_t earlier, later; /* list of what is out: numbers of slots over all sources */
	uint16_t source;
	bool is_out;
};

struct stream {
	bool is_connecting, is_open;
	uint16_t id_base;
	uint32_t asked;    /* queries on this connection */
	uint64_t retry_ns; /* no new connection before */
	uint8_t *out, *in; /* whole messages with length prefix; capacity stream_out_size(), stream_in_size */
	size_t out_len, out_at, in_len;
};

struct source {
	int fd; /* -1: a connection that is closed */
	uint16_t number;
	bool is_stream;
	uint32_t first_slot, slots; /* its share of load.pending */
	uint16_t *free_id;          /* queue of free slots: free_count of them from free_head on, round */
	uint32_t free_head, free_count;
	struct stream stream;
};

struct load {
	const struct load_options *o;
	struct names *names;
	struct load_result *result;
	struct pace pace;
	uint64_t start_ns, end_ns, random;
	uint64_t issued; /* queries of the pace that were taken on or given up */
	uint32_t out_count, oldest, newest;
	struct pending *pending;
	struct source *source; /* UDP first, then TCP */
	unsigned source_count, udp_count, turn_udp, turn_tcp;
	struct pollfd *poll;
	/* Queries whose connection had no room, with their intended times; a ring. */
	uint64_t *backlog;
	uint32_t backlog_head, backlog_count;
	struct sockaddr_storage server;
	socklen_t server_len;
};

static inline uint64_t load_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* load_query.c: the life of one query. */
struct load_second *load_second_of(struct load *l, uint64_t intended_ns);
/* Takes a slot and writes the message. Returns its length, 0 when the source has no slot left; *ret_slot is counted over all
 * sources. */
size_t query_make(struct load *l, struct source *s, uint64_t intended_ns, uint8_t out[LOAD_QUERY_MAX], uint32_t *ret_slot);
void query_sent(struct load *l, uint32_t slot, uint64_t now_ns);
/* A slot whose query did not leave after all. */
void query_undo(struct load *l, uint32_t slot);
void query_unsent(struct load *l, uint64_t intended_ns);
void query_answered(struct load *l, struct source *s, const uint8_t *msg, size_t len, uint64_t now_ns);
void query_lost(struct load *l, uint32_t slot);
void queries_expire(struct load *l, uint64_t now_ns);

/* load_udp.c */
int udp_open(struct load *l, struct source *s);
/* Sends up to LOAD_BATCH queries with these intended times from the next socket. Returns how many of them are done with. */
unsigned udp_send(struct load *l, const uint64_t *intended_ns, unsigned count);
void udp_receive(struct load *l, struct source *s);
void udp_count_drops(struct load *l, const struct source *s);

/* load_tcp.c */
int stream_open(struct load *l, struct source *s);
void stream_free(struct source *s);
/* Queues one query on a connection that has room, connecting where none is open; false when there is none. */
bool streams_send(struct load *l, uint64_t intended_ns);
void stream_ready(struct load *l, struct source *s, short events);
short stream_wants(const struct source *s);
/* Writes what the last streams_send() calls queued. */
void streams_flush(struct load *l);
