/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Bounded multi-producer single-consumer ring of pointers (Vyukov). A full ring refuses; nobody waits. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct ring;
struct ring *ring_new(size_t slots);      /* rounded up to a power of two */
void ring_free(struct ring *r);
bool ring_push(struct ring *r, void *p);  /* any thread; false: full */
void *ring_pop(struct ring *r);           /* the consumer only; NULL: empty */
