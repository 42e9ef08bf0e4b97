/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the files of resolve/ share: the structures of a worker's resolver and the calls between its parts. Nobody else includes it.
 *
 *   group    a configured upstream group: its servers in order, its questions in flight
 *   server   one address of a group: health, a pool of UDP sockets, at most one TCP stream that takes new queries
 *   question what was asked, once, for all who wait for it; slab of the resolver
 *   attempt  one query sent for a question (or a probe); embedded in its question; found by (channel, id) until it is
 *            answered or its question ends, also after its own timeout: late answers count. It is in time until its timeout, or
 *            until its server is suspected; while one of a question's is, nothing more is sent for it
 *   channel  what an attempt was sent on: a UDP socket or a TCP stream
 *
 * One thread. Askers are called back from the loop's own calls only (sockets, deadlines), never inside upstream_ask. */
#pragma once
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "base/list.h"
#include "resolve/upstream.h"

enum {
	QUESTION_BUCKETS = 8192,
	ATTEMPT_BUCKETS = 8192,
	CHUNK = 64,
	EXTRA_TRIES = 3 /* again without EDNS, again by TCP for either reason */,
	ATTEMPTS_MAX = 2 * UPSTREAM_ALL_MAX /* kept at once: more, and the oldest late one is forgotten */,
	LAST_MAX = WIRE_HEADER + NAME_WIRE_MAX + 4,
	QUERY_MAX = 320,
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
	STALE_SOCKETS_MAX = 64,
	NO_EDNS_MS = 3600 * 1000
};
enum {
	SUSPECT_ASKED = 8 /* silent to so many, sent since its last answer, */,
	SUSPECT_MIN_MS = 100 /* for so long, or three round trips */,
	SUSPECT_TIMEOUTS = 3 /* or to so many until their time was over */,
	DEAD_PROBES = 2 /* without an answer: known dead */,
	MEASURE_MS = 2000 /* strategy fastest: the others are measured so often */
};
enum { RECV_BATCH = 64, RECV_MAX = 4096, RECV_STRIDE = RECV_MAX + 128, RANDOM_BYTES = 4096 };
enum { FAILURE_WAYS = 4, FAILURE_SETS = UPSTREAM_FAILURES_MAX / FAILURE_WAYS };
enum { RESULTS = UPSTREAM_NONE + 1 };

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
	uint64_t cases; /* bit i % 64: letter i of the name was sent in upper case */
	uint16_t id;
	uint8_t out_at; /* its place in the batch that waits to be sent, and one; 0: none */
	bool is_edns, is_expired /* no longer in time */;
};

struct question {
	struct question *hash_next, **hash_prev, *group_next, **group_prev; /* hash_next also links free ones */
	struct group *group;
	struct upstream_wait *waits;
	uint64_t hash;
	uint8_t *kept; /* heap: an answer without record and SOA, given when nothing better comes */
	struct deadline total, again, slow;
	uint16_t qtype, qclass, kept_len;
	bool want_do, want_cd;
	bool use_stream;      /* an answer was truncated, or did not repeat the letters' case: TCP from now on */
	bool saw_bad;         /* an answer to it did not parse */
	bool is_slow;         /* who waits was told so, or will be */
	bool had_failed;      /* it is among the failures */
	uint8_t tries, extra; /* times sent; more that an EDNS refusal or a truncation allowed */
	uint8_t used;         /* places of attempt[] */
	uint8_t asked[CONFIG_SERVERS_MAX];
	uint16_t failed; /* bit per server: answered SERVFAIL or REFUSED */
	uint16_t empty;  /* bit per server: answered without record and SOA */
	uint16_t dead;   /* bit per server: cannot be reached */
	uint16_t plain;  /* bit per server: refused EDNS, asked without */
	uint16_t last_len;
	/* From here on nothing is cleared when a question begins. */
	uint8_t last[LAST_MAX]; /* header and question of a failure answer, given when nothing better comes */
	struct name qname;
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

/* In the order in which servers are asked; one that is dead is not. */
enum health {
	HEALTHY,
	SUSPECTED, /* silent for a moment; probed */
	UNHEALTHY, /* a probe had no answer, or the kernel said that it cannot be reached */
	DEAD       /* the same for DEAD_PROBES probes */
};

struct server {
	struct group *group;
	unsigned index;
	struct endpoint endpoint;
	struct sockaddr_storage sa;
	socklen_t sa_len;
	struct udp_sock *pool[UPSTREAM_POOL], *sockets; /* sockets: all, retired ones too */
	struct udp_sock *turn;                          /* what its queries leave by, in the batch of this number */
	uint64_t turn_batch;
	unsigned socket_count;
	struct stream *stream, *streams; /* the one for new queries; all */
	enum health health;
	unsigned timeouts_in_row;
	unsigned unanswered; /* UDP queries in time that were sent since its last answer; the first of them then */
	uint64_t silent_since_us, silent_turn; /* the turn in which its silence was first too long */
	unsigned stale_in_row;                 /* fresh sockets of a way that could not send, see server_blames_socket */
	uint32_t srtt_us;                      /* 0: unknown */
	uint64_t last_answer_us, no_edns_until_ms;
	struct deadline probe_at;
	struct attempt probe; /* or what measures it */
	struct name probe_name;
	uint16_t probe_type;
	bool is_probe_open;             /* a probe was sent, and nothing came since */
	unsigned probes, probes_failed; /* since it was healthy */
	uint64_t measured_ms;
	uint32_t in_flight;
	uint64_t sent, answered, timeouts, tcp, errors, wrong_case;
};

struct group {
	struct resolver *resolver;
	unsigned index; /* in the configuration */
	char *name;
	bool has_way, is_way_down;
	unsigned way;   /* in the configuration */
	char *way_name; /* of the way that sockets are marked for, with its mark and interface: another way needs new sockets */
	char way_interface[IFNAME_MAX];
	uint32_t way_mark;
	enum upstream_strategy strategy;
	bool random_case;
	unsigned inflight_max;
	struct server *servers;
	unsigned server_count;
	struct question *questions;
	unsigned question_count;
	uint64_t failures;     /* the number under which its failures are remembered; a new one forgets them */
	struct name lost_name; /* the latest question that had no answer: asked in probes, as ". NS" is not answered everywhere */
	uint16_t lost_type;
	bool has_lost;
	uint64_t refused, failure_hits;
};

struct failure {
	uint64_t hash;
	uint32_t until_ms; /* low bits of the loop's clock */
	uint32_t for_ms;   /* 0: a free place */
};

struct resolver {
	struct loop *loop;
	struct resolver_env env;
	struct group **groups;
	unsigned group_count;
	uint64_t seed, failures_given;
	struct question *by_question[QUESTION_BUCKETS];
	struct attempt *by_id[ATTEMPT_BUCKETS];
	struct question *free_questions;
	struct chunk *chunks;
	struct upstream_wait *refused[RESULTS]; /* to complete soon, by result */
	struct upstream_wait *telling;          /* those who are still to be told that it takes long */
	struct deadline refuse_at;
	struct deadline_queue try_queue[TRY_CLASSES], stream_try, total, soon, no_socket, slow, probe, stream_idle, refuse;
	struct wire_answer walked;
	struct name root;
	uint64_t turn;   /* of the loop, from 1 */
	uint64_t now_us; /* read once for what happens together; 0: not yet */
	uint8_t random[RANDOM_BYTES];
	size_t random_at;
	struct mmsghdr msg[RECV_BATCH];
	struct iovec iov[RECV_BATCH];
	uint8_t *recv_bytes;
	/* The batch that waits for the turn's end, see send.c. */
	struct attempt *out[UPSTREAM_SEND_BATCH];
	unsigned out_count;
	uint64_t batch; /* its number */
	struct mmsghdr out_msg[UPSTREAM_SEND_BATCH];
	struct iovec out_iov[UPSTREAM_SEND_BATCH];
	uint8_t out_bytes[UPSTREAM_SEND_BATCH][QUERY_MAX];
	struct failure failure[FAILURE_SETS][FAILURE_WAYS];
};

/* Only what is used of a name is copied. */
static inline void name_copy(struct name *ret, const struct name *n)
{
	ret->len = n->len;
	ret->labels = n->labels;
	memcpy(ret->offset, n->offset, (size_t)n->labels + 1);
	memcpy(ret->wire, n->wire, n->len);
}

/* upstream.c: who waits */
void question_complete(struct question *q, const struct upstream_answer *a);
void question_slow(struct question *q); /* tells who waits, once each */
void on_slow(struct deadline *d);

/* question.c: a question's life */
void question_finish(struct question *q);                   /* nothing more is tried: gives what there is */
void question_step(struct question *q, bool is_inside_ask); /* asks the next server, waits, or ends */
void question_retry(struct question *q, struct server *s);  /* asks the same one again: it answered, but differently is wanted */
void question_again_soon(struct question *q);
void questions_leave(struct server *s); /* what it was asked goes elsewhere, where there is another server to ask */
void questions_ask_again(
        struct server *s, const struct question *except); /* it is there: what it was asked in the dark may be lost */
void questions_end_dead(struct group *g);                 /* all servers are known dead */
bool question_is_last_word(const struct question *q);     /* nobody else is there who could have better than a poor answer */
void on_try_timeout(struct deadline *d);
void on_again(struct deadline *d);
void on_total(struct deadline *d);

/* attempt.c: queries in flight */
uint16_t resolver_random16(struct resolver *r);
uint64_t resolver_random64(struct resolver *r);
uint64_t resolver_now_us(struct resolver *r);
void attempt_start(struct attempt *a, struct channel *c, uint16_t id); /* puts it into the table */
void attempt_move(struct attempt *a, struct channel *c, uint16_t id);  /* it was not sent there after all */
void attempt_expire(struct attempt *a);                                /* it is no longer in time; late answers still count */
void attempt_end(struct attempt *a);                                   /* fine when not in flight */
int channel_free_id(struct resolver *r, const struct channel *c);      /* an id not in flight there, or -EAGAIN */
struct attempt *attempt_find(struct resolver *r, const struct channel *c, uint16_t id);
void channel_attempts_fail(struct channel *c, bool is_dead); /* the channel broke: its questions go on elsewhere */

/* judge.c: what an answer means. A name that was sent in random case is lower-cased in it. */
void judge_answer(struct attempt *a, uint8_t *msg, size_t len);

/* health.c */
void server_answered(struct server *s, const struct attempt *a);
void server_timed_out(struct server *s, const struct attempt *a);
void server_broke(struct server *s);
void server_probe_failed(struct server *s);
bool server_blames_socket(struct server *s, int error); /* a fresh socket failed so: another one is worth a try */
bool server_look(struct server *s);                     /* suspects it when it is silent for too long: true */
void server_measure(struct server *s, const struct question *q);
struct deadline_queue *server_try_queue(struct server *s, unsigned doublings);
void group_lost(struct group *g, const struct name *qname, uint16_t qtype); /* a question without an answer */
bool group_is_dead(const struct group *g);
bool group_has_healthy(const struct group *g);
void on_probe(struct deadline *d);

/* group.c: configuration */
void group_free(struct group *g);

/* failures.c: questions that are not asked again yet */
enum failure_state { FAILURE_NONE, FAILURE_OVER /* it may be asked again */, FAILURE_HOLDS };
enum failure_state failure_find(struct resolver *r, const struct group *g, uint64_t hash);
void failure_add(struct resolver *r, const struct group *g, uint64_t hash);
void failure_remove(struct resolver *r, const struct group *g, uint64_t hash);
void failures_forget(struct group *g);

/* socket.c, send.c, stream.c: sending on one kind of channel. 0, -EAGAIN (no socket at hand: try again soon), or another error:
 * the server cannot be reached. On success the attempt is in flight. The query stands in what send_reserve gave; its id is
 * filled in. */
uint8_t *send_reserve(struct resolver *r); /* QUERY_MAX bytes */
int socket_send(struct server *s, struct attempt *a, size_t len);
void send_flush(void *resolver);
int socket_pick(struct server *s, struct udp_sock **ret); /* a random place of the pool */
void socket_retire(struct udp_sock *k);
void socket_close_if_done(struct udp_sock *k);
void socket_break(struct udp_sock *k, bool is_dead);
void sockets_close(struct server *s);
int stream_send(struct server *s, struct attempt *a, size_t len);
void stream_attempt_expired(struct stream *st);
void stream_settle(struct stream *st); /* after an attempt ended: idle, or closed when retired */
void streams_close(struct server *s);
void on_stream_idle(struct deadline *d);
int server_connect(struct server *s, bool is_stream); /* a socket, connected or (TCP) about to be, or a negative error as above */
