/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The kernel settings a way needs, and what they were before. Reverse-path filtering must be loose (2) on a way. The check
 * itself looks a route up for the answer's way back; without src_valid_mark it does so without a mark and meets our closed
 * rule, and every answer would be dropped, so interfaces that bring answers get src_valid_mark as well.
 *
 * What was there before is kept in memory and, with a state directory, in a small file: one line "INTERFACE KEY BEFORE OURS"
 * each. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/err.h"
#include "steer/ways_internal.h"

static const char SAVED[] = "rp_filter.saved";

static int sysctl_open(const char *ifname, const char *key, int how)
{
	char path[128];
	if (!ifname[0] || ifname[0] == '.' || strchr(ifname, '/'))
		return -EINVAL;
	snprintf(path, sizeof path, "/proc/sys/net/ipv4/conf/%s/%s", ifname, key);
	int fd = open(path, how | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int sysctl_read(const char *ifname, const char *key)
{
	int fd = sysctl_open(ifname, key, O_RDONLY);
	if (fd < 0)
		return fd;
	char text[16] = "";
	ssize_t n = read(fd, text, sizeof text - 1);
	int e = n < 0 ? -errno : atoi(text);
	close(fd);
	return e;
}

static int sysctl_write(const char *ifname, const char *key, int value)
{
	int fd = sysctl_open(ifname, key, O_WRONLY);
	if (fd < 0)
		return fd;
	char text[16];
	int len = snprintf(text, sizeof text, "%d\n", value);
	int e = write(fd, text, (size_t)len) == len ? 0 : -errno;
	close(fd);
	return e;
}

static struct saved_sysctl *saved_find(struct ways *w, const char *ifname, const char *key)
{
	for (unsigned i = 0; i < w->sysctl_count; i++)
		if (!strcmp(w->sysctls[i].ifname, ifname) && !strcmp(w->sysctls[i].key, key))
			return &w->sysctls[i];
	return NULL;
}

static int saved_write(struct ways *w)
{
	if (w->state_dir < 0)
		return 0;
	if (!w->sysctl_count)
		return unlinkat(w->state_dir, SAVED, 0) < 0 && errno != ENOENT ? -errno : 0;
	int fd = openat(w->state_dir, "rp_filter.new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	bool ok = true;
	for (unsigned i = 0; i < w->sysctl_count; i++) {
		const struct saved_sysctl *s = &w->sysctls[i];
		ok &= dprintf(fd, "%s %s %d %d\n", s->ifname, s->key, s->before, s->ours) > 0;
	}
	ok &= fsync(fd) == 0;
	close(fd);
	if (!ok || renameat(w->state_dir, "rp_filter.new", w->state_dir, SAVED) < 0)
		return -EIO;
	return 0;
}

/* Reads what an earlier run had found. A line that does not parse is left out: at worst a setting stays as we made it. */
int sysctls_load(struct ways *w)
{
	int fd = openat(w->state_dir, SAVED, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	FILE *f = fdopen(fd, "r");
	if (!f) {
		close(fd);
		return -ENOMEM;
	}
	char line[128];
	while (w->sysctl_count < SYSCTLS_MAX && fgets(line, sizeof line, f)) {
		struct saved_sysctl s = {0};
		bool is_known = sscanf(line, "%15s %15s %d %d", s.ifname, s.key, &s.before, &s.ours) == 4 &&
		                (!strcmp(s.key, "rp_filter") || !strcmp(s.key, "src_valid_mark"));
		if (is_known && s.before >= 0 && s.before <= 2 && !saved_find(w, s.ifname, s.key))
			w->sysctls[w->sysctl_count++] = s;
	}
	fclose(f);
	return 0;
}

/* The old value is on disk before the new one is in the kernel. */
static int sysctl_set(struct ways *w, const char *ifname, const char *key, int value)
{
	int now = sysctl_read(ifname, key);
	if (now == value || now == -ENOENT)
		return 0;
	if (now < 0)
		return ways_fail(w, now, "reading %s of %s: %s", key, ifname, nw_strerror(now));
	if (!saved_find(w, ifname, key)) {
		if (w->sysctl_count == SYSCTLS_MAX)
			return ways_fail(w, NW_EFULL, "settings of more than %u interfaces", SYSCTLS_MAX);
		struct saved_sysctl *s = &w->sysctls[w->sysctl_count++];
		*s = (struct saved_sysctl){.before = now, .ours = value};
		strncpy(s->ifname, ifname, IFNAME_MAX - 1);
		strncpy(s->key, key, sizeof s->key - 1);
		int e = saved_write(w);
		if (e < 0)
			ways_fail(w, e, "remembering %s of %s in the state directory: %s", key, ifname, nw_strerror(e));
	}
	int e = sysctl_write(ifname, key, value);
	return e < 0 ? ways_fail(w, e, "setting %s of %s to %d: %s; mend: make /proc/sys writable or set it yourself", key,
	                       ifname, value, nw_strerror(e))
	             : 0;
}

static int valid_mark_set(struct ways *w, const char *ifname)
{
	int all = sysctl_read("all", "rp_filter"), own = sysctl_read(ifname, "rp_filter");
	return all > 0 || own > 0 ? sysctl_set(w, ifname, "src_valid_mark", 1) : 0;
}

static bool is_wanted(const struct ways *w, const struct plan *p, const struct saved_sysctl *s, char (*closed)[IFNAME_MAX],
        unsigned closed_count)
{
	for (unsigned i = 0; p && i < p->count; i++)
		if (!strcmp(p->way[i].c->interface, s->ifname))
			return true;
	if (strcmp(s->key, "src_valid_mark"))
		return false;
	for (unsigned i = 0; i < closed_count; i++)
		if (!strcmp(closed[i], s->ifname))
			return true;
	return links_is_outside(w, s->ifname);
}

static void give_back(struct saved_sysctl *s)
{
	if (sysctl_read(s->ifname, s->key) == s->ours)
		(void)sysctl_write(s->ifname, s->key, s->before); /* an interface that went away took the setting with it */
}

static int plan_set(struct ways *w, const struct plan *p)
{
	int e = 0;
	for (unsigned i = 0; p && i < p->count; i++) {
		const char *name = p->way[i].c->interface;
		if (!name[0])
			continue;
		int r = sysctl_set(w, name, "rp_filter", 2);
		int m = sysctl_set(w, name, "src_valid_mark", 1);
		e = e < 0 ? e : r < 0 ? r : m;
	}
	return e;
}

static int marks_set(struct ways *w, char (*closed)[IFNAME_MAX], unsigned count)
{
	int e = 0;
	for (unsigned i = 0; i < count; i++) {
		int r = valid_mark_set(w, closed[i]);
		e = e < 0 ? e : r;
	}
	for (unsigned i = 0; count && i < w->default_count; i++) {
		const struct link *l = links_by_index(w, w->defaults[i].ifindex);
		int r = l ? valid_mark_set(w, l->name) : 0;
		e = e < 0 ? e : r;
	}
	return e;
}

int sysctls_sync(struct ways *w)
{
	if (w->how == WAYS_APPLY_CLOSED || !w->cur)
		return 0;
	char(*closed)[IFNAME_MAX] = calloc(CLOSED_MAX, sizeof *closed);
	if (!closed)
		return -ENOMEM;
	unsigned count = rules_closed_interfaces(w, w->cur->config, closed, CLOSED_MAX);
	int e = plan_set(w, w->cur);
	int m = marks_set(w, closed, count);
	unsigned kept = 0, before = w->sysctl_count;
	for (unsigned i = 0; i < before; i++) {
		struct saved_sysctl *s = &w->sysctls[i];
		if (w->how == WAYS_APPLY_ADD || is_wanted(w, w->cur, s, closed, count))
			w->sysctls[kept++] = *s;
		else
			give_back(s);
	}
	w->sysctl_count = kept;
	free(closed);
	if (kept != before)
		(void)saved_write(w);
	return e < 0 ? e : m;
}

void sysctls_give_back(struct ways *w)
{
	for (unsigned i = 0; i < w->sysctl_count; i++)
		give_back(&w->sysctls[i]);
	w->sysctl_count = 0;
	(void)saved_write(w);
}
