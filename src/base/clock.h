/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Time. Everything below dns/ takes `now` as an argument; only loops read the clock, once a batch. */
#pragma once
#include <stdint.h>

uint64_t clock_ms(void);   /* CLOCK_MONOTONIC (survives clock jumps), milliseconds */
uint64_t clock_us(void);   /* the same in microseconds */
uint64_t clock_wall_ms(void);
int64_t clock_wall_s(void); /* CLOCK_REALTIME seconds; only for what is written to disk or shown */
