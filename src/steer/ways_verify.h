/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The leak test's look at the kernel: rules and routes are read anew and held against what ways.h wants. Changes nothing. The
 * enforcer's thread. */
#pragma once
#include "steer/ways.h"

/* Calls back for everything that should stand and does not: way -1 for the rules that close what no rule decided about. 0, or a
 * negative error: the kernel could not be read. */
int ways_verify(struct ways *w, void (*cb)(void *ctx, int way, const char *text), void *ctx);
