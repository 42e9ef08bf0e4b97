/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Domain names: from text, user text, wire bytes and messages; to text; comparison and suffix hashes.
 *
 * Every function that fills a struct name writes only the bytes the name has: wire[0..len), offset[0..labels]. The rest stays
 * what it was. A label takes at least two bytes, so 255 bytes cannot hold more than NAME_LABELS_MAX labels; only the length is
 * checked. No state; any thread. */
#include "wire/name.h"

#include <errno.h>
#include <idn2.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "wire/bytes.h"
#include "wire/msg.h"

enum { LABEL_MAX = 63, POINTER = 0xc0, JUMPS_MAX = 127 };

/* Reads one character of a presentation name at text[*at], which may be an escape. Returns it, or NW_EMALFORMED. */
static int text_byte(const char *text, size_t len, size_t *at)
{
	unsigned n = 0;

	if (text[*at] != '\\')
		return (uint8_t)text[(*at)++];
	if (++*at == len)
		return NW_EMALFORMED;
	if (text[*at] < '0' || text[*at] > '9')
		return (uint8_t)text[(*at)++];
	if (len - *at < 3)
		return NW_EMALFORMED;
	for (unsigned i = 0; i < 3; i++) {
		char c = text[(*at)++];

		if (c < '0' || c > '9')
			return NW_EMALFORMED;
		n = n * 10 + (unsigned)(c - '0');
	}
	return n <= 255 ? (int)n : NW_EMALFORMED;
}

/* Reads one label at *at up to its dot or the end of the text, into ret->wire behind ret->len, and moves *at behind the dot. */
static int text_label(struct name *ret, const char *text, size_t len, size_t *at)
{
	unsigned start = ret->len, n = 0;

	while (*at < len && text[*at] != '.') {
		int c = text_byte(text, len, at);

		if (c < 0)
			return c;
		/* One place stays for the root byte. */
		if (n == LABEL_MAX || start + 1 + n >= NAME_WIRE_MAX - 1)
			return NW_ETOOLONG;
		ret->wire[start + 1 + n++] = lower_byte((uint8_t)c);
	}
	if (n == 0)
		return NW_EMALFORMED;
	if (*at < len)
		(*at)++;
	ret->wire[start] = (uint8_t)n;
	ret->offset[ret->labels++] = (uint8_t)start;
	ret->len = (uint8_t)(start + 1 + n);
	return 0;
}

int name_from_text(struct name *ret, const char *text, size_t len)
{
	size_t at = 0;
	int r;

	ret->len = ret->labels = 0;
	if (len == 0)
		return NW_EMALFORMED;
	if (len == 1 && text[0] == '.')
		at = 1;
	while (at < len) {
		r = text_label(ret, text, len, &at);
		if (r < 0)
			return r;
	}
	ret->offset[ret->labels] = ret->len;
	ret->wire[ret->len++] = 0;
	return 0;
}

static int idn_error(int r)
{
	switch (r) {
	case IDN2_MALLOC:
		return -ENOMEM;
	case IDN2_TOO_BIG_DOMAIN:
	case IDN2_TOO_BIG_LABEL:
		return NW_ETOOLONG;
	default:
		return NW_EMALFORMED;
	}
}

int name_from_user_text(struct name *ret, const char *text, size_t len)
{
	char unicode[NAME_TEXT_MAX], *ascii = NULL;
	bool is_ascii = true;
	int r;

	for (size_t i = 0; i < len; i++)
		is_ascii = is_ascii && (uint8_t)text[i] < 0x80;
	if (is_ascii)
		return name_from_text(ret, text, len);
	if (len >= sizeof(unicode))
		return NW_ETOOLONG;
	if (memchr(text, 0, len))
		return NW_EMALFORMED;
	memcpy(unicode, text, len);
	unicode[len] = '\0';
	r = idn2_to_ascii_8z(unicode, &ascii, IDN2_NFC_INPUT | IDN2_NONTRANSITIONAL);
	if (r != IDN2_OK)
		return idn_error(r);
	r = name_from_text(ret, ascii, strlen(ascii));
	idn2_free(ascii);
	return r;
}

int name_from_wire(struct name *ret, const uint8_t *wire, size_t len)
{
	unsigned at = 0, labels = 0;

	if (len > NAME_WIRE_MAX)
		len = NAME_WIRE_MAX;
	for (;;) {
		unsigned n;

		if (at >= len)
			return NW_EMALFORMED;
		n = wire[at];
		if (n > LABEL_MAX)
			return NW_EMALFORMED;
		ret->offset[labels] = (uint8_t)at;
		at += 1 + n;
		if (n == 0)
			break;
		labels++;
	}
	lower_copy(ret->wire, wire, at);
	ret->labels = (uint8_t)labels;
	ret->len = (uint8_t)at;
	return (int)at;
}

/* A segment is a run of labels without a jump. Each segment must end before the one that jumped to it begins: a name refers to
 * a whole name that stood before it. So no name can loop or read bytes behind its own start. Targets inside the header are not
 * names. */
int name_from_message(struct name *ret, const uint8_t *msg, size_t len, size_t at)
{
	size_t start = at, bound = len, end = 0;
	unsigned n = 0, labels = 0, jumps = 0;

	for (;;) {
		unsigned c;

		if (at >= bound)
			return NW_EMALFORMED;
		c = msg[at];
		if (c >= POINTER) {
			if (bound - at < 2 || ++jumps > JUMPS_MAX)
				return NW_EMALFORMED;
			if (!end)
				end = at + 2;
			at = (c & 0x3f) << 8 | msg[at + 1];
			if (at >= start || at < WIRE_HEADER)
				return NW_EMALFORMED;
			bound = start;
			start = at;
			continue;
		}
		if (c > LABEL_MAX || bound - at < 1 + c || n + 1 + c > NAME_WIRE_MAX)
			return NW_EMALFORMED;
		/* 254 bytes of labels leave no room for another, so `labels` cannot pass its maximum here. */
		ret->offset[labels] = (uint8_t)n;
		lower_copy(ret->wire + n, msg + at, 1 + c);
		n += 1 + c;
		at += 1 + c;
		if (c == 0)
			break;
		labels++;
		if (n >= NAME_WIRE_MAX)
			return NW_EMALFORMED;
	}
	ret->labels = (uint8_t)labels;
	ret->len = (uint8_t)n;
	return (int)(end ? end : at);
}

const char *name_to_text(char buf[NAME_TEXT_MAX], const uint8_t *wire)
{
	char *out = buf;

	if (wire[0] == 0)
		return strcpy(buf, ".");
	while (*wire) {
		const uint8_t *end = wire + 1 + *wire;

		if (out != buf)
			*out++ = '.';
		for (wire++; wire < end; wire++) {
			if (*wire == '.' || *wire == '\\') {
				*out++ = '\\';
				*out++ = (char)*wire;
			} else if (*wire > ' ' && *wire < 0x7f) {
				*out++ = (char)*wire;
			} else {
				out += sprintf(out, "\\%03u", *wire);
			}
		}
	}
	*out = '\0';
	return buf;
}

bool name_equal(const struct name *a, const struct name *b)
{
	return a->len == b->len && memcmp(a->wire, b->wire, a->len) == 0;
}

bool name_is_under(const struct name *n, const struct name *parent)
{
	unsigned at;

	if (n->labels < parent->labels)
		return false;
	at = n->offset[n->labels - parent->labels];
	return (unsigned)n->len - at == parent->len && memcmp(n->wire + at, parent->wire, parent->len) == 0;
}

void name_hash(const struct name *n, uint64_t seed, uint64_t hash[NAME_LABELS_MAX + 1])
{
	unsigned i = n->labels;

	hash[i] = seed;
	while (i-- > 0) {
		const uint8_t *label = n->wire + n->offset[i];

		seed = hash[i] = hash_bytes(label, 1u + *label, seed);
	}
}
