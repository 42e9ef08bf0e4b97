/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the files of resolve/ share: the structures of a worker's resolver and the calls between its parts. Nobody else includes it.
 *
 *   group    a configured upstream group: its servers in order, its questions in flight
 *   server   one address of a group: health, a pool of UDP sockets, at most one TCP stream that takes new queries
 *   question what was asked, once, for all who wait for it; slab of the resolver
 *   attempt  one query sent for a question (or a probe); embedded in its question; found by (channel, id) until it is
 *            answered or its question ends, also after its own timeout: late answers count
 *   channel  what an attempt was sent on: a UDP socket or a TCP stream
 *
 * One thread. Askers are called back from the loop's own calls only (sockets, deadlines), never inside upstream_ask. */
#pragma once
#include <stddef.h>
#include <sys/socket.h>

#include "base/list.h"
#include "resolve/upstream.h"

enum {
	QUESTION_BUCKETS = 8192,
	ATTEMPT_BUCKETS = 8192,
	CHUNK = 64,
	EXTRA_TRIES = 2 /* again without EDNS, again by TCP */,
	ATTEMPTS_MAX = UPSTREAM_TRIES + EXTRA_TRIES,
	LAST_MAX = 12 + 255 + 4,
	CHANNEL_PENDING_MAX = 16384
};
enum {
	TRY_UNKNOWN_MS = 500,
	TRY_MIN_MS = 100,
	TRY_MAX_MS = 800,
	TRY_CLASSES = 10,
	TRY_STREAM_MS = 1500,
	PROBE_MS = 1000,
	STREAM_IDLE_MS = 10000,
	SOON_MS = 1,
	NO_SOCKET_MS = 10,
	UNHEALTHY_TIMEOUTS = 3,
	STALE_SOCKETS_MAX = 64,
	NO_EDNS_MS = 3600 * 1000
};
enum { RECV_BATCH = 16, RECV_MAX = 4096, RECV_STRIDE = RECV_MAX + 128, RANDOM_BYTES = 4096 };

struct channel {
	struct server *server;
	struct attempt *attempts; /* in flight on it */
	unsigned pending;         /* their count */
	uint16_t salt;            /* spreads equal ids of different channels over the attempt table */
	bool is_stream, is_closed;
};

struct attempt {
	struct attempt *bucket_next, **bucket_prev, *channel_next, **channel_prev;
	struct channel *channel;   /* NULL: not in flight */
	struct question *question; /* NULL: a probe */
	struct server *server;
	struct deadline timeout;
	uint64_t sent_us;
	uint16_t id;
	bool is_edns, is_expired;
};

struct question {
	struct question *hash_next, **hash_prev, *group_next, **group_prev; /* hash_next also links free ones */
	struct group *group;
	struct upstream_wait *waits;
	struct name qname;
	uint16_t qtype, qclass;
	bool want_do, want_cd;
	bool use_stream;      /* an answer was truncated: TCP from now on */
	bool saw_bad;         /* an answer to it did not parse */
	bool is_over;         /* nothing more can come: completes at `again` */
	uint8_t tries, extra; /* attempts used; more that an EDNS refusal or a truncation allowed */
	uint8_t asked[CONFIG_SERVERS_MAX];
	uint16_t failed; /* bit per server: answered SERVFAIL or REFUSED */
	uint16_t dead;   /* bit per server: cannot be reached */
	uint16_t plain;  /* bit per server: refused EDNS, asked without */
	uint16_t last_len;
	uint8_t last[LAST_MAX]; /* header and question of a failure answer, given when nothing better comes */
	struct deadline total, again;
	struct attempt attempt[ATTEMPTS_MAX];
};

/* A connected UDP socket. Heap; lives until libuv closed its handle. */
struct udp_sock {
	struct channel channel;
	uv_poll_t poll;
	int fd;
	unsigned uses;
	int slot; /* in the pool, -1: retired, closes when nothing is pending */
	struct udp_sock *all_next, **all_prev;
};

struct stream {
	struct channel channel;
	uv_poll_t poll;
	int fd, events;
	bool is_connected, has_answered;
	struct deadline idle;
	uint8_t *in, *out; /* STREAM_IN_MAX, STREAM_OUT_MAX bytes */
	size_t in_len, out_at, out_len;
	struct stream *all_next, **all_prev;
};

struct server {
	struct group *group;
	unsigned index;
	struct endpoint endpoint;
	struct sockaddr_storage sa;
	socklen_t sa_len;
	struct udp_sock *pool[UPSTREAM_POOL], *sockets; /* sockets: all, retired ones too */
	unsigned socket_count;
	struct stream *stream, *streams; /* the one for new queries; all */
	bool is_healthy;
	unsigned timeouts_in_row;
	unsigned stale_in_row; /* fresh sockets of a way that could not send, see server_blames_socket */
	uint32_t srtt_us; /* 0: unknown */
	uint64_t last_answer_us, no_edns_until_ms;
	struct deadline probe_at;
	struct attempt probe;
	uint64_t sent, answered, timeouts, tcp, errors;
};

struct group {
	struct resolver *resolver;
	unsigned index; /* in the configuration */
	char *name;
	bool has_way, is_way_down;
	unsigned way; /* in the configuration */
	char *way_name; /* of the way that sockets are marked for, with its mark and interface: another way needs new sockets */
	char way_interface[IFNAME_MAX];
	uint32_t way_mark;
	struct server *servers;
	unsigned server_count;
	struct question *questions;
	unsigned question_count;
};

struct resolver {
	struct loop *loop;
	struct resolver_env env;
	struct group **groups;
	unsigned group_count;
	uint64_t seed;
	struct question *by_question[QUESTION_BUCKETS];
	struct attempt *by_id[ATTEMPT_BUCKETS];
	struct question *free_questions;
	struct chunk *chunks;
	struct upstream_wait *refused[2]; /* to complete soon: [0] UPSTREAM_BUSY, [1] UPSTREAM_GONE */
	struct deadline refuse_at;
	struct deadline_queue try_queue[TRY_CLASSES], stream_try, total, soon, no_socket, probe, stream_idle, refuse;
	struct wire_answer walked;
	struct name root;
	uint8_t random[RANDOM_BYTES];
	size_t random_at;
	struct mmsghdr msg[RECV_BATCH];
	struct iovec iov[RECV_BATCH];
	uint8_t *recv_bytes;
};

/* upstream.c: questions and attempts */
uint16_t resolver_random16(struct resolver *r);
void question_complete(struct question *q, const struct upstream_answer *a);
void question_finish(struct question *q);                   /* nothing more is tried: gives what there is */
void question_step(struct question *q, bool is_inside_ask); /* asks the next server, waits, or ends */
void question_again_soon(struct question *q);
void attempt_start(struct attempt *a, struct channel *c, uint16_t id); /* puts it into the table */
int channel_free_id(struct resolver *r, const struct channel *c);      /* an id not in flight there, or -EAGAIN */
void attempt_end(struct attempt *a);                                   /* fine when not in flight */
struct attempt *attempt_find(struct resolver *r, const struct channel *c, uint16_t id);
void channel_attempts_fail(struct channel *c, bool is_dead); /* the channel broke: its questions go on elsewhere */

/* judge.c: what an answer means */
void judge_answer(struct attempt *a, const uint8_t *msg, size_t len);

/* group.c: health and configuration */
void server_answered(struct server *s, const struct attempt *a);
void server_timed_out(struct server *s, const struct attempt *a);
void server_broke(struct server *s);
bool server_blames_socket(struct server *s, int error); /* a fresh socket failed so: another one is worth a try */
struct deadline_queue *server_try_queue(struct server *s, unsigned doublings);
void on_probe(struct deadline *d);
void group_free(struct group *g);

/* socket.c, stream.c: sending on one kind of channel. 0, -EAGAIN (no socket at hand: try again soon), or another error: the
 * server cannot be reached. On success the attempt is in flight. `query` has room for the id, which is filled in. */
int socket_send(struct server *s, struct attempt *a, uint8_t *query, size_t len);
void socket_retire(struct udp_sock *k);
void socket_close_if_done(struct udp_sock *k);
void sockets_close(struct server *s);
int stream_send(struct server *s, struct attempt *a, uint8_t *query, size_t len);
void stream_attempt_expired(struct stream *st);
void stream_settle(struct stream *st); /* after an attempt ended: idle, or closed when retired */
void streams_close(struct server *s);
void on_stream_idle(struct deadline *d);
int server_connect(struct server *s, bool is_stream); /* a socket, connected or (TCP) about to be, or a negative error as above */
