/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A worker's event loop: libuv, run so that the thread is an RCU reader (QSBR): it goes offline while it waits and quiesces once a turn.
 * One thread owns a loop; only loop_post is for other threads. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct loop;
struct loop_post { void (*fn)(void *ctx); void *ctx; struct loop_post *next; /* owned by the poster until fn runs */ };

int loop_new(struct loop **ret);
void loop_free(struct loop *l);              /* takes NULL; every handle was closed by its owner, closings still pending are finished here */
uv_loop_t *loop_uv(struct loop *l);
uint64_t loop_now_ms(const struct loop *l);  /* clock_ms read once a turn */
/* fn runs at the end of every turn, before the loop waits: flush batches here. Up to 8. */
void loop_on_turn_end(struct loop *l, void (*fn)(void *ctx), void *ctx);
void loop_off_turn_end(struct loop *l, void (*fn)(void *ctx), void *ctx); /* not from inside a hook */
/* A descriptor that is polled by the loop itself, outside libuv's epoll set: what stands in such a set makes the kernel look at the set for every packet
 * that comes and every one that goes, which is a twentieth of what serving a packet costs. For the few descriptors with many packets. fn runs when there
 * is something to read or an error (then is_error); any fn may add and remove readers, its own too. At most LOOP_READERS_MAX. */
enum { LOOP_READERS_MAX = 256 };
struct loop_reader { int fd; void (*fn)(struct loop_reader *r, bool is_error); unsigned place; /* the loop's */ };
int loop_reader_add(struct loop *l, struct loop_reader *r); /* 0, NW_EFULL */
void loop_reader_del(struct loop *l, struct loop_reader *r); /* before the descriptor is closed; r may be freed at once */
/* fn runs in the loop's thread soon. The post struct must live until then. Never blocks, never allocates. */
void loop_post(struct loop *l, struct loop_post *p);
void loop_run(struct loop *l);               /* returns after loop_stop; registers the thread for RCU */
void loop_stop(struct loop *l);              /* any thread */

/* Deadlines for thousands of things in flight: FIFO queues, one per duration class (at least 1 ms), so adding and removing is O(1).
 * They run between libuv's callbacks and the turn's end. fn may add, delete and free any deadline, its own too. */
struct deadline { struct deadline *prev, *next; uint64_t at_ms; };
struct deadline_queue { struct deadline head; uint32_t after_ms; void (*fn)(struct deadline *d); struct deadline_queue *next; };
void deadline_queue_init(struct loop *l, struct deadline_queue *q, uint32_t after_ms, void (*fn)(struct deadline *d));
void deadline_queue_done(struct loop *l, struct deadline_queue *q); /* forgets the queue and empties it; not from a deadline's fn */
void deadline_add(struct loop *l, struct deadline_queue *q, struct deadline *d); /* expires after_ms from now */
void deadline_del(struct deadline *d);                                           /* fine when not queued (zeroed) */
