/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/heap.h"

#include <malloc.h>

/* Above the 64 KiB of a TCP stream's buffers, which come and go with streams; the tables of an update are larger. */
enum { MAP_FROM_BYTES = 96 << 10, TOP_KEPT_BYTES = 256 << 10 };

void heap_give_back(void)
{
	mallopt(M_MMAP_THRESHOLD, MAP_FROM_BYTES);
	mallopt(M_TRIM_THRESHOLD, TOP_KEPT_BYTES);
}
