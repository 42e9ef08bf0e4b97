/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Overlays (live edits) in the state directory. See list_state.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/hash.h"
#include "policy/list_state.h"

#define OVERLAY_MAX ((size_t)64 << 20)

static void print_set(struct buf *out, const struct entry_set *s, char sign)
{
	char text[NAME_TEXT_MAX];
	struct entry_key k;
	uint32_t count;

	for (size_t at = 0; entry_set_next(s, &at, &k, &count);) {
		buf_add(out, &sign, 1);
		if (entry_key_is_rule(&k))
			buf_add(out, "R", 1);
		if (k.kind == KIND_ALLOW)
			buf_printf(out, "A%s", name_to_text(text, k.bytes));
		else
			entry_key_print(out, &k);
		buf_add(out, "\n", 1);
	}
}

int state_save_overlay(int state, const char *list, const struct entry_set *added, const struct entry_set *masked)
{
	struct buf b;
	int dir, r;

	if (!added->distinct && !masked->distinct)
		return state_remove(state, list, "overlay");
	dir = state_open_list(state, list, true);
	if (dir < 0)
		return dir;
	buf_init(&b, OVERLAY_MAX);
	print_set(&b, added, '+');
	print_set(&b, masked, '-');
	buf_printf(&b, "=%016llx\n", (unsigned long long)hash_bytes(b.bytes, b.len, 0));
	r = b.failed;
	if (r == 0)
		r = state_write_file(dir, "overlay", (struct state_part[]){{b.bytes, b.len}}, 1);
	buf_free(&b);
	close(dir);
	return r;
}

static bool read_entry(struct entry_key *ret, const char *s, size_t len)
{
	struct line_entry e;
	size_t at = 0;

	if (len > 0 && *s == 'R') {
		e.what = LINE_RULE;
		e.rule = s + 1;
		e.rule_len = len - 1;
		if (len < 2 || e.rule_len > EXPR_TEXT_MAX)
			return false;
	} else if (len > 0 && *s == 'A') {
		list_parse_name(&e, s + 1, len - 1);
		e.kind = KIND_ALLOW;
	} else {
		list_format_domains.parse(&e, s, len, &at);
	}
	if (e.what == LINE_BAD || e.what == LINE_EMPTY)
		return false;
	entry_key_from_line(ret, &e);
	return true;
}

static int read_overlay(const char *text, size_t len, struct entry_set *added, struct entry_set *masked)
{
	const char *end = text + len, *nl;
	unsigned long long hash;
	struct entry_key k;
	int r = 0;

	for (const char *p = text; r == 0 && p < end; p = nl + 1) {
		nl = memchr(p, '\n', (size_t)(end - p));
		if (!nl)
			return NW_EMALFORMED;
		if (*p == '=')
			return sscanf(p, "=%16llx", &hash) == 1 && nl + 1 == end &&
			                       hash == hash_bytes(text, (size_t)(p - text), 0)
			               ? 0
			               : NW_EMALFORMED;
		if (*p != '+' && *p != '-')
			return NW_EMALFORMED;
		if (!read_entry(&k, p + 1, (size_t)(nl - p) - 1))
			return NW_EMALFORMED;
		r = entry_set_add(*p == '+' ? added : masked, &k, 1);
	}
	return r < 0 ? r : NW_EMALFORMED;
}

int state_load_overlay(int state, const char *list, struct entry_set *added, struct entry_set *masked)
{
	int dir = state_open_list(state, list, false), fd, r;
	struct buf b;

	if (dir < 0)
		return dir;
	fd = openat(dir, "overlay", O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	r = fd < 0 ? -errno : 0;
	close(dir);
	if (r < 0)
		return r;
	buf_init(&b, OVERLAY_MAX);
	r = buf_read_fd(&b, fd);
	close(fd);
	if (r == 0)
		r = read_overlay(b.bytes, b.len, added, masked);
	buf_free(&b);
	if (r < 0) {
		entry_set_free(added);
		entry_set_free(masked);
	}
	return r;
}

/* The same for equal sets whatever their order. */
uint64_t state_overlay_digest(const struct entry_set *added, const struct entry_set *masked)
{
	struct entry_key k;
	uint64_t sum = 0;
	uint32_t count;

	for (size_t at = 0; entry_set_next(added, &at, &k, &count);)
		sum += hash_bytes(k.bytes, k.len, k.kind);
	for (size_t at = 0; entry_set_next(masked, &at, &k, &count);)
		sum += hash_bytes(k.bytes, k.len, 256u + k.kind);
	return sum;
}
