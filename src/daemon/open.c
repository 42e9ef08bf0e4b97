/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Opening files whose directories belong to others. We read as root, and what a list does not understand is shown to whoever may ask: a symbolic link
 * must not lead its owner to what he may not read himself. So a path is walked step by step, each name looked up in the directory that is held open, and
 * from the first link on that is not root's (or ours, where we are not root) all that is met must belong to that link's owner or be open to all. Groups do
 * not count. Hard links are the kernel's matter (fs.protected_hardlinks). The parent. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/err.h"
#include "daemon/parent_private.h"

enum { LINKS_MAX = 40 };

struct walk {
	int dir;
	char rest[2 * PATH_MAX];  /* what is still to be walked, from dir */
	unsigned links;
	bool is_foreign, is_of_many; /* a link of somebody else was followed; of more than one */
	uid_t owner;                 /* of that link */
};

static bool may_pass(const struct walk *w, int fd)
{
	struct stat st;
	if (!w->is_foreign)
		return true;
	if (fstat(fd, &st) < 0)
		return false;
	return (!w->is_of_many && st.st_uid == w->owner) || st.st_mode & (S_ISDIR(st.st_mode) ? S_IXOTH : S_IROTH);
}

static void note_owner(struct walk *w, uid_t owner)
{
	if (!owner || owner == geteuid())
		return;
	w->is_of_many |= w->is_foreign && owner != w->owner;
	w->is_foreign = true;
	w->owner = owner;
}

static int step_into(struct walk *w, int dir)
{
	if (dir < 0)
		return -errno;
	if (w->dir >= 0)
		close(w->dir);
	w->dir = dir;
	return 0;
}

static int begin_at(struct walk *w, const char *path)
{
	return *path == '/' ? step_into(w, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)) : w->dir < 0 ? step_into(w, open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)) : 0;
}

/* Puts what the link says in the place of its name. `error`: why the name could not be opened, should it be no link. */
static int follow_link(struct walk *w, const char *name, const char *behind, int error)
{
	char target[PATH_MAX], rest[2 * PATH_MAX];
	struct stat st;
	int fd = openat(w->dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t n = fstat(fd, &st) == 0 && S_ISLNK(st.st_mode) ? readlinkat(fd, "", target, sizeof target - 1) : -1;
	close(fd);
	if (n < 0)
		return -error;
	if (++w->links > LINKS_MAX)
		return -ELOOP;
	target[n] = 0;
	note_owner(w, st.st_uid);
	if (snprintf(rest, sizeof rest, "%s%s%s", target, *behind ? "/" : "", behind) >= (int)sizeof rest)
		return -ENAMETOOLONG;
	strcpy(w->rest, rest);
	return begin_at(w, target);
}

/* One name of the path. 1 with *ret: the last one is open. */
static int walk_on(struct walk *w, int *ret)
{
	char name[NAME_MAX + 1];
	const char *at = w->rest + strspn(w->rest, "/"), *behind;
	size_t len = strcspn(at, "/");
	if (len > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(name, len ? at : ".", len ? len : 1);
	name[len ? len : 1] = 0;
	behind = at + len + strspn(at + len, "/");
	bool is_last = !*behind;
	int fd = openat(w->dir, name, O_NOFOLLOW | O_CLOEXEC | (is_last ? O_RDONLY | O_NONBLOCK | O_NOCTTY : O_PATH | O_DIRECTORY));
	if (fd < 0)
		return errno == ELOOP || errno == ENOTDIR ? follow_link(w, name, behind, errno) : -errno;
	if (!may_pass(w, fd)) {
		close(fd);
		return NW_EREFUSED;
	}
	if (is_last) {
		*ret = fd;
		return 1;
	}
	memmove(w->rest, behind, strlen(behind) + 1);
	return step_into(w, fd);
}

int open_followed(const char *path)
{
	struct walk w = { .dir = -1 };
	int fd = -1, r = snprintf(w.rest, sizeof w.rest, "%s", path) < PATH_MAX ? begin_at(&w, path) : -ENAMETOOLONG;
	while (r == 0)
		r = walk_on(&w, &fd);
	if (w.dir >= 0)
		close(w.dir);
	return r < 0 ? r : fd;
}
