/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Names from text, from wire bytes and from the middle of a message; the same bytes are tried as all three. */
#include <string.h>

#include "fuzz.h"
#include "wire/name.h"

static void check_name(const struct name *n)
{
	uint64_t hash[NAME_LABELS_MAX + 1], suffix_hash[NAME_LABELS_MAX + 1];
	char text[NAME_TEXT_MAX];
	struct name again, parent;

	CHECK(n->len > 0 && n->labels <= NAME_LABELS_MAX && n->offset[n->labels] == n->len - 1 && n->wire[n->len - 1] == 0);
	CHECK(name_from_wire(&again, n->wire, n->len) == n->len && name_equal(&again, n) && again.labels == n->labels);
	name_to_text(text, n->wire);
	CHECK(strlen(text) < NAME_TEXT_MAX && name_from_text(&again, text, strlen(text)) == 0 && name_equal(&again, n));
	CHECK(memcmp(again.offset, n->offset, n->labels + 1u) == 0);
	name_hash(n, 42, hash);
	CHECK(hash[n->labels] == 42);
	for (unsigned i = 0; i <= n->labels; i++) {
		CHECK(name_from_wire(&parent, n->wire + n->offset[i], n->len - n->offset[i]) > 0 && name_is_under(n, &parent));
		CHECK(i == 0 || !name_is_under(&parent, n));
		name_hash(&parent, 42, suffix_hash);
		CHECK(suffix_hash[0] == hash[i]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct name n;
	int r;

	if (len > 4096)
		return 0;
	if (name_from_text(&n, (const char *)bytes, len) == 0)
		check_name(&n);
	if (name_from_user_text(&n, (const char *)bytes, len) == 0)
		check_name(&n);
	r = name_from_wire(&n, bytes, len);
	CHECK(r <= (int)len);
	if (r > 0)
		check_name(&n);
	for (size_t at = 0; at < len; at++) {
		r = name_from_message(&n, bytes, len, at);
		CHECK(r <= (int)len && (r < 0 || r > (int)at));
		if (r > 0 && (at & 7) == 0)
			check_name(&n);
	}
	return 0;
}
