/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The name index driven by bytes, beside the naive matcher: each pair of bytes is one change or one step of the update's life. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "../unit/policy/naive.h"

static struct index *through_file(struct index *ix)
{
	uint8_t tag[64] = {1}, got[64];
	struct index *copy = NULL;
	int fd = memfd_create("image", 0);

	CHECK(fd >= 0 && index_write(ix, fd, tag) == 0 && index_map(&copy, fd, got) == 0 && got[0] == 1);
	close(fd);
	index_free(ix);
	return copy;
}

static struct index *rebuilt(struct index *ix)
{
	struct index *copy = index_rebuild(ix, 0);

	CHECK(copy != NULL);
	index_free(ix);
	return copy;
}

static void change(struct index *ix, struct naive *m, uint8_t op, uint8_t arg)
{
	unsigned name = (arg | (op & 1u) << 8) % NAIVE_NAMES, list = (op >> 1) % NAIVE_LISTS, kinds = 1u << (op >> 4) % 6;

	if (op & 0x80) {
		CHECK(index_remove(ix, naive_slot[list], &m->name[name], kinds) ==
			(naive_remove(m, name, list, kinds) ? 0 : -ENOENT));
	} else {
		CHECK(index_add(ix, naive_slot[list], &m->name[name], kinds) == 0);
		naive_add(m, name, list, kinds);
	}
	CHECK(!naive_differs(m, ix, index_generation(ix) + 1, &m->name[name]));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	static struct naive start, now, next;
	struct index *ix = index_new(0, 1);

	if (!start.name[0].len)
		naive_init(&start);
	now = next = start;
	index_begin(ix);
	for (size_t i = 0; i + 2 <= len && i < 512; i += 2) {
		if (bytes[i] < 0xf0) {
			change(ix, &next, bytes[i], bytes[i + 1]);
			continue;
		}
		CHECK(!naive_differs(&now, ix, index_generation(ix), &now.name[bytes[i + 1]]));
		if (bytes[i] < 0xf4) {
			index_abort(ix);
			next = now;
		} else {
			index_publish(ix);
			index_settle(ix);
			now = next;
		}
		if (bytes[i] > 0xfc)
			ix = bytes[i] & 1 ? through_file(ix) : rebuilt(ix);
		index_begin(ix);
	}
	index_publish(ix);
	index_settle(ix);
	for (size_t i = len % 16; i < NAIVE_NAMES; i += 16)
		CHECK(!naive_differs(&next, ix, index_generation(ix), &next.name[i]));
	index_free(ix);
	return 0;
}
