/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Answers shared by all workers, bounded in bytes, read without locks.
 *
 * Set-associative: an array of buckets of references to immutable answers; readers follow them inside an rcu read section (QSBR: valid until the
 * worker's next quiescent state; cache_hold keeps one longer, for a query that parks). Writers replace a reference by compare-and-swap. The memory
 * (chunks.h) is a log of whole chunks that cache_tidy empties oldest first, moving what was asked for since to the front: a CLOCK.
 * Policy never enters: what upstream said is kept, judged anew for every answer. Negative answers without SOA are not put here. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "wire/msg.h"

struct cache;
/* CACHE_ANSWER_MAX: message, names and addresses together; what is larger is not kept (65535-byte messages are as good as unheard of). */
enum { CACHE_TTL_MAX_S = 86400, CACHE_NEG_TTL_MAX_S = 3600, CACHE_ANSWER_MAX = 65536, CACHE_BYTES_MIN = 1 << 20 };
enum { CACHE_VARIANT_DO = 1, CACHE_VARIANT_CD = 2 };
enum { PREFETCH_USES = 2, PREFETCH_SHARE = 10, PREFETCH_LIFE_MIN_S = 10 };

struct cache_key {
	const struct name *qname;
	uint64_t name_hash;     /* of the whole name, any seed as long as it is one per cache */
	uint16_t qtype, qclass;
	uint16_t group;         /* upstream group */
	uint8_t variant;        /* CACHE_VARIANT_… */
};

struct name_ref {
	uint8_t len;
	uint8_t wire[]; /* lower-case, uncompressed, with the root byte */
};

/* One kept answer. Names of its chain and addresses are kept beside the message so that a hit is judged and steered without parsing. */
struct cache_answer {
	uint32_t stored_s, expires_s; /* seconds of the worker's monotonic clock (clock_ms / 1000) */
	uint16_t msg_len, ttl_count, addr_count, flags;
	uint16_t answer_ttls; /* leading TTL fields that stand in the answer section */
	uint8_t chain_len, rcode;
	bool is_nodata, has_other_target; /* as in struct wire_answer */
	const uint8_t *msg; /* question first, no additional section */
	const uint16_t *ttl_offset;
	const struct addr *addrs;
	const struct name_ref *const *chain; /* chain[0] is qname */
};

/* Everything the cache ever uses, its own tables included, is within bytes_max. 0, -EINVAL (bytes_max under CACHE_BYTES_MIN), -ENOMEM. */
int cache_new(struct cache **ret, uint64_t bytes_max);
void cache_free(struct cache *c); /* no reader may be left; takes NULL */
/* Worker, in a read section. A hit on what is not in the processor's cache is a wait for the bucket, then one for the entry. For a batch: cache_prefetch
 * for all keys, then cache_prefetch_entry for all, then find them; so the waits overlap. Neither is needed for one key alone. */
void cache_prefetch(const struct cache *c, const struct cache_key *key);
void cache_prefetch_entry(const struct cache *c, const struct cache_key *key);
/* Worker, in a read section. NULL: not there or expired. now_s as above. */
const struct cache_answer *cache_find(struct cache *c, const struct cache_key *key, uint32_t now_s);
/* The same without counting a hit or a miss, or as one that was asked for. */
const struct cache_answer *cache_find_quiet(struct cache *c, const struct cache_key *key, uint32_t now_s);
/* What cache_find would give if answers lived stale_s longer: only one that has expired (RFC 8767). How far back there is something to find is for the
 * limits' stale_s to say. Counts no hit and no miss; what it finds is counted as given out stale. Its TTLs are over: give it out with one of your own. */
const struct cache_answer *cache_find_stale(struct cache *c, const struct cache_key *key, uint32_t now_s, uint32_t stale_s);
/* Whether an answer just found should be asked for again: it was found PREFETCH_USES times since it was put or last moved, and the last tenth of its
 * life has begun (PREFETCH_SHARE). Never one that lives for less than PREFETCH_LIFE_MIN_S. True at most once an answer. Worker, in a read section. */
bool cache_wants_prefetch(const struct cache_answer *a, uint32_t now_s);
/* Any thread, no lock; in force for what is put from then on, stale_s at once. Bounds of TTLs are written into the kept message itself, so clients see
 * them: every TTL field comes into [ttl_min_s, ttl_max_s], in negative answers into [ttl_min_s, negative_ttl_max_s], and the SOA's to no more than the
 * answer's life; so does the SOA's MINIMUM where no signatures were asked for (DO). With a ttl_min_s, answers of TTL 0 are kept too. Expired answers are
 * kept for stale_s, as far as there is room: they go before any live one. The maxima are cut to CACHE_TTL_MAX_S, and a minimum to the maximum.
 * Never set: 0, CACHE_TTL_MAX_S, CACHE_NEG_TTL_MAX_S, 0. */
struct cache_limits { uint32_t ttl_min_s, ttl_max_s, negative_ttl_max_s, stale_s; };
void cache_set_limits(struct cache *c, const struct cache_limits *l);
/* Worker, in a read section. Keeps an answer for its ttl_min_s, bounded by the limits. Copies everything. Older equal keys are replaced. Never blocks or
 * allocates; what does not fit is not kept. Nor are answers other than NOERROR and NXDOMAIN, cut ones (TC, is_cut), and negative ones or ones
 * whose chain stays open without SOA. */
void cache_put(struct cache *c, const struct cache_key *key, const uint8_t *msg, size_t len, const struct wire_answer *walked, uint32_t now_s);
/* Keeps a (reference counted) answer beyond the read section; every hold is given back with cache_release. A hold keeps the answer's whole
 * chunk, so it is for parked queries, not for minutes. */
const struct cache_answer *cache_hold(const struct cache_answer *a);
void cache_release(const struct cache_answer *a); /* any thread */
/* One thread, not a worker, every 50 ms: makes room ahead of the puts (an eighth of the memory is kept free), waiting for a grace period when there
 * is something to free. Without it a full cache keeps what it has and takes no more. Calls of it never overlap. */
void cache_tidy(struct cache *c, uint32_t now_s);
/* Calls back for every answer that may be given out, stale ones too. The caller is a registered, online thread (base/rcu.h) that holds no rcu pointer: cache_walk
 * quiesces between buckets. Answers put while walking may or may not be seen; to cover them the caller publishes first what makes workers
 * judge new answers its way. */
void cache_walk(struct cache *c, uint32_t now_s, void (*cb)(void *ctx, const struct cache_answer *a), void *ctx);
/* Threads as cache_walk. Return how many went, of every type and group. All (under: NULL), or what has to do with a name and everything under it, or
 * with exactly one name: the answers to questions for it, and those whose chain passes it, which would bring its old addresses back. */
unsigned cache_flush(struct cache *c, const struct name *under);
unsigned cache_flush_name(struct cache *c, const struct name *name);

/* Over a restart: every live or stale answer to fd, and back. The caller knows how group numbers (which are of one run) and lasting signatures belong
 * together; 0: answers of this group are not kept. `group` gives the number of a signature, false: gone. name_seed is that of cache_key.name_hash, by
 * name_whole_hash. wall_s: seconds since 1970; time between counts as passed, and a file from the future gives nothing.
 * cache_save: threads as cache_walk; 0 or a negative errno, and then the file is good for nothing. fd is written from where it stands, not synced.
 * cache_load: a registered, online thread that holds no rcu pointer, before workers run. The file is not trusted: every message is walked again, and what is not an
 * answer that would be kept is passed over. Stops when the cache is seven eighths full. 0, NW_EMALFORMED (cut, damaged or none of ours: what was whole
 * before that is kept), -EIO, -ENOMEM. */
struct cache_store {
	void *ctx;
	uint64_t name_seed;
	uint64_t (*signature)(void *ctx, uint16_t group);
	bool (*group)(void *ctx, uint64_t signature, uint16_t *ret);
};
int cache_save(struct cache *c, int fd, uint32_t now_s, int64_t wall_s, const struct cache_store *s);
int cache_load(struct cache *c, int fd, uint32_t now_s, int64_t wall_s, const struct cache_store *s);

struct cache_stat {
	uint64_t entries, bytes, bytes_max; /* entries: expired ones too; bytes: chunks in use and the tables */
	uint64_t hits, misses, puts, evictions;
	uint64_t stale, prefetches;         /* stale answers given out, refreshes wanted */
	uint64_t too_big, no_room;          /* puts that were not kept */
};
void cache_stat(const struct cache *c, struct cache_stat *ret); /* any thread; numbers of different moments */
/* Threads as cache_walk. What is kept at this moment; stale: expired, and still given out where the upstream fails. */
struct cache_kinds { uint64_t positive, nodata, nxdomain, stale; };
void cache_stat_kinds(struct cache *c, uint32_t now_s, struct cache_kinds *ret);
