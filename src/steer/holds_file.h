/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Holds on disk, so that sets are full again after a reboot: an append-only file of checksummed records in the state directory, rewritten when
 * over twice what is live. One thread at a time.
 *
 * The file: 8 bytes magic "NWHOLDS1", then records, little-endian, packed:
 *   u32 checksum (low half of XXH3 over the rest), u32 rule id, u64 wall-clock expiry in seconds (0: removed), u32 life left when written,
 *   u8 family (4, 6), 16 bytes address, u8 name length, name (wire form).
 * A later record of a triple stands for the earlier ones. Reading stops at the first record that is torn or damaged. Failing writes cost nothing
 * but the file's being current: the error is returned and the whole file is written anew when it is next tried, HOLDS_FILE_RETRY_S later. */
#pragma once
#include "steer/holds.h"

enum { HOLDS_FILE_RETRY_S = 10, HOLDS_FILE_LIFE_MAX_S = 7 * 86400 };
struct holds_file;

struct holds_file_record {
	uint32_t rule_id;
	uint32_t left_s; /* still to live; never more than when it was written, whatever the clock says */
	struct addr addr;
	uint8_t name_len;
	const uint8_t *name;
};

/* Keeps dirfd and name (both the caller's, valid until holds_file_free). Touches nothing. NULL: out of memory. */
struct holds_file *holds_file_new(int dirfd, const char *name);
void holds_file_free(struct holds_file *f); /* takes NULL */
/* Calls back once for every live triple. Returns how many; 0 when there is no file; an error when it cannot be read or is none of ours (the next
 * sync replaces it). Once; until it has returned, holds_file_sync writes nothing (also from another thread). */
int holds_file_load(struct holds_file *f, int64_t wall_s, void (*cb)(void *ctx, const struct holds_file_record *r), void *ctx);
/* Appends what was made or renewed since (holds_drain_new), at most once a second, and makes it durable (fdatasync); rewrites the file when it is
 * due. is_last: now, whatever the second. 0 or the error of the write. */
int holds_file_sync(struct holds_file *f, struct holds *h, uint32_t now_s, int64_t wall_s, bool is_last);
/* Notes that a hold is removed; written by the next sync. 0 or -ENOMEM (the next sync then rewrites the file). */
int holds_file_forget(struct holds_file *f, const struct hold *d);
