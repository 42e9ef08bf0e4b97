/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The growing buffer: capacity doubles up to max; one byte beyond `max` is allowed for the terminating NUL, so len <= max and
 * bytes[len] == 0 once anything was appended. After a failed append the contents stay as they were and `failed` keeps the
 * error. */
#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

void buf_init(struct buf *b, size_t max)
{
	*b = (struct buf){.max = max};
}

void buf_free(struct buf *b)
{
	free(b->bytes);
	*b = (struct buf){.max = b->max};
}

/* Makes room for `more` bytes and the NUL. */
static int reserve(struct buf *b, size_t more)
{
	size_t cap = b->cap ? b->cap : 256;
	char *bytes;

	if (b->failed)
		return b->failed;
	if (more > b->max - b->len)
		return b->failed = NW_ETOOLONG;
	if (b->bytes && more < b->cap - b->len)
		return 0;
	while (cap - 1 < b->len + more && cap <= b->max / 2)
		cap *= 2;
	if (cap - 1 < b->len + more)
		cap = b->max + 1;
	bytes = realloc(b->bytes, cap);
	if (!bytes)
		return b->failed = -ENOMEM;
	b->bytes = bytes;
	b->cap = cap;
	return 0;
}

int buf_add(struct buf *b, const void *bytes, size_t len)
{
	int r = reserve(b, len);

	if (r < 0)
		return r;
	if (len)
		memcpy(b->bytes + b->len, bytes, len);
	b->len += len;
	b->bytes[b->len] = '\0';
	return 0;
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list args;
	int n, r;

	va_start(args, fmt);
	n = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	if (n < 0)
		return b->failed = NW_EMALFORMED;
	r = reserve(b, (size_t)n);
	if (r < 0)
		return r;
	va_start(args, fmt);
	vsnprintf(b->bytes + b->len, (size_t)n + 1, fmt, args);
	va_end(args);
	b->len += (size_t)n;
	return 0;
}

int buf_read_fd(struct buf *b, int fd)
{
	char chunk[16384];

	for (;;) {
		ssize_t n = read(fd, chunk, sizeof(chunk));
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		r = buf_add(b, chunk, (size_t)n);
		if (r < 0 || n == 0)
			return r;
	}
}
