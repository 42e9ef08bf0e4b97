/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "daemon/last_good.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/err.h"
#include "base/log.h"
#include "config/bundle.h"

#define FILE_NAME "last-good"

void last_good_save(int state_fd, const struct buf *bundle)
{
	if (state_fd < 0)
		return;
	int fd = openat(state_fd, FILE_NAME ".new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	bool is_written = fd >= 0 && write(fd, bundle->bytes, bundle->len) == (ssize_t)bundle->len && fsync(fd) == 0;
	if (fd >= 0)
		close(fd);
	if (!is_written || renameat(state_fd, FILE_NAME ".new", state_fd, FILE_NAME) < 0) {
		log_warn("the last good configuration cannot be kept in `state`: %s", strerror(errno));
		unlinkat(state_fd, FILE_NAME ".new", 0);
	}
}

static int load(const char *state, struct buf *bundle, struct config **ret)
{
	char path[4096 + sizeof FILE_NAME + 1];
	struct report quiet;
	snprintf(path, sizeof path, "%s/%s", state, FILE_NAME);
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	report_init(&quiet);
	buf_init(bundle, BUNDLE_MAX);
	int r = buf_read_fd(bundle, fd);
	close(fd);
	if (r >= 0)
		r = config_parse(ret, bundle->bytes, bundle->len, &quiet);
	report_free(&quiet);
	return r;
}

/* The line `state: DIR` of a file that does not parse as a whole. *ret stays as it is when there is none. */
static void find_state(const char *path, char *ret, size_t max)
{
	char line[4096], dir[4096];
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof line, f)) {
		const char *at = strstr(line, "state:");
		if (!at || (at > line && !strchr(" \t{,", at[-1])))
			continue;
		if (sscanf(at, "state: \"%4000[^\"\n]", dir) == 1 || sscanf(at, "state: %4000[^ ,}#\n]", dir) == 1) {
			snprintf(ret, max, "%s", dir);
			break;
		}
	}
	if (f)
		fclose(f);
}

int last_good_or_file(const char *path, struct buf *ret_bundle, struct config **ret, bool *ret_is_old)
{
	struct report r;
	report_init(&r);
	*ret_is_old = false;
	if (config_bundle_read(ret_bundle, path, &r) == 0 && config_parse(ret, ret_bundle->bytes, ret_bundle->len, &r) == 0) {
		log_lines(LOG_L_INFO, "", r.text.bytes);
		report_free(&r);
		return 0;
	}
	log_lines(LOG_L_ERROR, "", r.text.len ? r.text.bytes : "the configuration cannot be read");
	report_free(&r);
	buf_free(ret_bundle);
	char state[4096] = "/var/lib/nameway";
	find_state(path, state, sizeof state);
	if (load(state, ret_bundle, ret) < 0)
		return NW_ECONFIG;
	*ret_is_old = true;
	log_warn("going by the last good configuration, kept in %s", state);
	return 0;
}
