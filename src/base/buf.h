/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A growing byte buffer, born with its maximum. Text helpers keep a terminating NUL beyond `len`. Start and control paths
 * only. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct buf { char *bytes; size_t len, cap, max; int failed; /* sticky: an append did not fit */ };

void buf_init(struct buf *b, size_t max);
void buf_free(struct buf *b);
int buf_add(struct buf *b, const void *bytes, size_t len);           /* 0, -ENOMEM, NW_ETOOLONG */
int buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int buf_read_fd(struct buf *b, int fd);                              /* reads to the end of file; 0 or error */
