/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The last configuration that was in force, as a bundle in `state`: what the daemon starts on, and --guard and --clear go by, when the file is broken. */
#pragma once
#include <stdbool.h>
#include "config/config.h"

/* Reads the file; when it is broken, says why in the log and takes the last good one of the `state` it names (else of the usual place). 0, or
 * NW_ECONFIG when there is neither. *ret_is_old: the last good one was taken. */
int last_good_or_file(const char *path, struct buf *ret_bundle, struct config **ret, bool *ret_is_old);
void last_good_save(int state_fd, const struct buf *bundle); /* durable; a failure is logged */
