/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Inside a worker. worker.c: thread, sockets, switches; query.c, ask.c, alias.c, judge.c: the flow of one query; answer.c: what is sent; barrier.c: the
 * enforcer's channel. */
#pragma once
#include <pthread.h>
#include <stddef.h>
#include "base/addr.h"
#include "dns/worker.h"
#include "local/local.h"
#include "net/tcp.h"
#include "net/udp.h"
#include "wire/patch.h"

/* A question with who asked and where the answer goes. */
struct ask {
	struct wire_query q;
	uint8_t question[NAME_WIRE_MAX + 4]; /* as it came */
	struct client client;
	struct group_bits groups;
	bool is_tcp;
	struct udp_path udp;
	struct tcp_session *tcp;
	uint64_t begun_ms;
};

/* A question being looked at, with what is computed of its name once. */
struct begun {
	struct ask ask;
	enum wire_reason reason;
	uint64_t whole_hash;                   /* of the name, with name_seed */
	uint64_t hashes[NAME_LABELS_MAX + 1];  /* of its suffixes: with name_seed while local names are looked at, then with the index's seed */
};
/* So many of a batch go through the steps before the cache together: enough that their waits for memory overlap, and few enough to stay near. */
enum { BEGIN_TOGETHER = 16 };

/* What became of the query being worked on, for the query log. */
struct note { uint8_t outcome, rewrites /* names that became others by our word */; int16_t filter_rule, steer_rule; uint32_t config_serial /* that the rules belong to */; };
#define NOTE_NONE ((struct note){ .filter_rule = -1, .steer_rule = -1 })

/* An answer about to be judged, from the cache or from an upstream. Pointers live for the call. */
struct view {
	const uint8_t *msg;
	size_t len;
	const uint16_t *ttl_offset;
	unsigned ttl_count, chain_len, addr_count;
	const struct name *chain[ANSWER_CHAIN_MAX];
	const struct addr *addrs;
	uint32_t age_s;
	const struct cache_answer *cached; /* NULL: not kept */
	unsigned judged;                   /* leading names of the chain that w->judged holds already, for this client, as of w->judged_gen */
	unsigned skipped;                  /* leading names that filter no longer: they led here by our own doing */
	unsigned answer_ttls;              /* leading TTL fields that stand in the answer section */
	bool is_stale;                     /* given out with STALE_TTL_S (RFC 8767) */
	bool is_own;                       /* made here: it has its AA, and no filter rule looks at it */
	int ede; const char *ede_text;     /* of an own answer; EDE_NONE */
	bool has_other_target;             /* as in struct wire_answer */
};

/* No client may hold an address longer than the kernel: TTLs given out are cut to this, and elements live a quarter longer. */
enum { ANSWER_TTL_MAX_S = CACHE_TTL_MAX_S };
/* TTL of expired answers given out, RFC 8767 5. */
enum { STALE_TTL_S = 30 };
/* Pairs of name and address that one answer may put into sets; more is SERVFAIL, so that one hostile name cannot fill them. */
enum { ANSWER_HOLDS_MAX = 256, REWRITES_MAX = 8, WORKER_GROUPS = 4096 };
enum { BATCH_LOST_S = 3 /* an acknowledgement that has not come by then never will: the enforcer was restarted */ };
enum query_stage { STAGE_UPSTREAM, STAGE_CHASE, STAGE_ALIAS /* of a name that stands for another by our own word */, STAGE_BARRIER };
struct query {
	struct upstream_wait wait;
	struct deadline deadline;
	struct worker *w;
	struct query *next;            /* free list */
	uint32_t serial;               /* raised when freed: late acknowledgements find it changed */
	enum query_stage stage;
	uint16_t group, group_id;
	uint8_t chases;
	unsigned pending;              /* elements not yet acknowledged */
	uint32_t rebuilds_seen;         /* of the shared page, when it was parked */
	bool has_failed, is_full, had_second_wait, is_stale, is_own, was_asked_anew, is_parked_of_group;
	uint8_t skipped;               /* of the answer that waits: as in struct view */
	int ede; const char *ede_text;
	uint64_t gen;                  /* of the lists, when the answer was judged */
	bool is_answered;              /* nobody waits any more: the upstream's answer goes into the cache only */
	struct note note;
	uint32_t config_serial;        /* of the configuration it was asked under */
	const struct cache_answer *held;
	uint8_t *copy;                 /* the answer when the cache does not keep it, or a chain being chased */
	size_t copy_len;
	uint32_t age_s;
	struct ask ask;
};

struct batch_from { struct query *q; uint32_t serial; struct hold *hold; uint32_t expires_s, epoch; };
struct batch { uint32_t seq, made_s; bool is_used; uint16_t count; struct batch_from from[STEER_BATCH_MAX]; };

struct worker {
	const struct worker_shared *shared;
	unsigned number;
	int steer_fd;
	struct loop *loop;
	struct udp_server *udp;
	struct tcp_server *tcp;
	struct resolver *resolver;
	pthread_t thread;
	pthread_mutex_t start_lock;    /* before the thread runs, main and compiler thread work on its data themselves, one at a time */
	bool is_started;
	uint64_t stopped_ms;           /* when it stopped listening; main thread */
	uv_poll_t steer_poll;
	const struct snapshot *snap;
	bool wants_interface;          /* of its clients */
	uint32_t now_s;
	uint64_t ways_seen;            /* bit per way: down, as the resolver was told last, */
	uint32_t ways_serial;          /* in the numbers of this configuration; 0: nothing yet */
	bool has_way_upstreams;
	struct deadline_queue ways_look;
	struct deadline ways_look_at;

	struct query *free_queries;
	unsigned queries, query_chunks;
	uint16_t parked[WORKER_GROUPS];   /* queries that wait for an upstream group, by its id modulo */
	struct query *chunk[WORKER_QUERIES_MAX / 256];
	struct deadline_queue late, late_rebuild, late_rest;

	struct steer_add out;          /* being gathered in this turn */
	struct batch *gathering;
	uint32_t next_seq;
	struct batch batch[WORKER_BATCHES];
	unsigned batches;              /* used ones, the gathering one with them */

	struct name chain_names[ANSWER_CHAIN_MAX];
	struct judged_name judged[ANSWER_CHAIN_MAX];
	struct steer_result steered;   /* of the question alone, as resolve() found it */
	uint64_t judged_gen;
	uint64_t hashes[NAME_LABELS_MAX + 1]; /* room */
	struct begun begun[BEGIN_TOGETHER];
	struct { const struct links *links; struct client client; struct group_bits groups; bool is_allowed, is_known; } last; /* client, until the batch ends */
	struct local_answer local;
	struct note note;
	/* What is being judged may stand in `merged` and `walk` while another query's answer leaves, so stripping has its own. */
	uint8_t scratch[WIRE_TCP_MAX + 1024], merged[WIRE_TCP_MAX], stripped[WIRE_TCP_MAX], first[8192] /* an alias, before its target's answer */;
	struct wire_answer walk, stripped_walk;

	struct socket_key { uint32_t key, index; bool is_tcp, is_used; } sockets[256];
	_Atomic uint64_t counters[C_COUNT];
	_Atomic uint64_t filter_hits[CONFIG_RULES_MAX], steer_hits[CONFIG_RULES_MAX], list_hits[CONFIG_LISTS_MAX];
	struct query_ring *ring;        /* NULL: nothing is recorded */
	uint64_t wall_ahead_ms;         /* wall clock less loop clock, as of */
	uint32_t wall_at_s;
};

static inline void count(struct worker *w, enum worker_counter c)
{
	atomic_store_explicit(&w->counters[c], atomic_load_explicit(&w->counters[c], memory_order_relaxed) + 1, memory_order_relaxed);
}

static inline void count_rule(_Atomic uint64_t *hits)
{
	atomic_store_explicit(hits, atomic_load_explicit(hits, memory_order_relaxed) + 1, memory_order_relaxed);
}

struct query *query_new(struct worker *w, const struct ask *a); /* NULL: WORKER_QUERIES_MAX are parked */
void query_free(struct query *q);

/* answer.c */
void answer_own(struct worker *w, const struct ask *a, const struct wire_own *own);
void answer_rcode(struct worker *w, const struct ask *a, uint8_t rcode, int ede, const char *text);
void answer_block(struct worker *w, const struct ask *a, const struct cfg_filter *rule, const char *text); /* not BLOCK_CNAME */
void answer_nodata(struct worker *w, const struct ask *a, int ede, const char *text);
void answer_kept(struct worker *w, const struct ask *a, const struct view *v);
/* Own records or addresses: steered as any other answer when some address of them may be. */
void answer_made(struct worker *w, const struct ask *a, const struct wire_own *own);
void answer_none(struct worker *w, const struct ask *a);

/* barrier.c */
int barrier_open(struct worker *w);
void barrier_close(struct worker *w); /* answers what is parked with SERVFAIL; the thread has ended */
/* Whether the kernel is known to hold `addr` for this rule and name until need_s from now. */
bool barrier_covers(struct worker *w, uint32_t rule_id, const struct addr *a, const struct name *n, uint64_t name_hash, uint32_t need_s);
int barrier_add(struct worker *w, struct query *q, uint32_t rule_id, const struct addr *a, const struct name *n, uint64_t name_hash, uint32_t need_s); /* 0, NW_EFULL */
void barrier_flush(void *worker);
