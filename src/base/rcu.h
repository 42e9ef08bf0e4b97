/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Read-copy-update, QSBR flavour (liburcu), wrapped so that ThreadSanitizer sees the ordering.
 * A reader thread registers, reads published pointers with rcu_read(), and says rcu_quiesce() once per loop
 * iteration, when it holds none of them; it goes offline while it waits in poll. Writers publish with
 * rcu_publish() and free what they replaced after rcu_wait() (blocking; never on a worker) or by rcu_defer(). */
#pragma once
#include <stdatomic.h>

void rcu_thread_register(void);
void rcu_thread_unregister(void);
void rcu_quiesce(void);
void rcu_offline(void); /* before a blocking wait */
void rcu_online(void);
void rcu_wait(void);    /* returns when every reader has passed a quiescent state; caller holds no rcu pointer.
                         * Safe from registered and unregistered threads (a registered caller is taken offline for it). */
void rcu_defer(void (*free_fn)(void *), void *what); /* any thread; runs free_fn later on a thread of liburcu (call_rcu).
                                                      * Allocates a small heap node: not for the hit path. */
void rcu_barrier_all(void); /* waits until all deferred frees have run; shutdown and tests only */

#define rcu_read(atomic_ptr) atomic_load_explicit((atomic_ptr), memory_order_acquire)
#define rcu_publish(atomic_ptr, value) atomic_store_explicit((atomic_ptr), (value), memory_order_release)
