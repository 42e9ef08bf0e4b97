/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The control socket: accepts, reads one bounded line, learns who asks (SO_PEERCRED). `reload` and `way` are the parent's; the rest goes to the server with
 * the client's descriptor. Root and the server's own user may change things; whoever else can open the socket (its group) may read. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "control/control.h"
#include "daemon/parent.h"
#include "daemon/parent_private.h"

enum { REQUESTS_OF_ROOT = 4 /* places that others cannot take */, DYING_TRIES = 20, DYING_MS = 25 };

enum { WAY_MS = 3000 };

static void make_directory(struct parent *p, const char *path)
{
	char dir[sizeof((struct sockaddr_un *)0)->sun_path];
	snprintf(dir, sizeof dir, "%s", path);
	char *slash = strrchr(dir, '/');
	if (!slash || slash == dir)
		return;
	*slash = 0;
	if (mkdir(dir, 0755) == 0 && chown(dir, 0, p->user_gid) < 0)
		log_warn("%s: %s", dir, strerror(errno));
}

bool control_is_answered(const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	snprintf(sa.sun_path, sizeof sa.sun_path, "%s", path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool is = fd >= 0 && (connect(fd, (struct sockaddr *)&sa, sizeof sa) == 0 || errno == EAGAIN);
	if (fd >= 0)
		close(fd);
	return is;
}

int requests_open(struct parent *p)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	const char *path = p->config->server.control;
	if (strlen(path) >= sizeof sa.sun_path)
		return -ENAMETOOLONG;
	snprintf(sa.sun_path, sizeof sa.sun_path, "%s", path);
	make_directory(p, path);
	struct stat st;
	if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode)) {
		/* A socket that somebody answers on belongs to a running nameway; one that was killed just now may take a moment to go. */
		for (int tries = 0; control_is_answered(path); tries++) {
			if (tries == DYING_TRIES)
				return -EADDRINUSE;
			usleep(DYING_MS * 1000);
		}
		unlink(path);
	}
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	mode_t before = umask(0117);
	int r = bind(fd, (struct sockaddr *)&sa, sizeof sa) < 0 || listen(fd, 64) < 0 ? -errno : 0;
	umask(before);
	if (r == 0 && lchown(path, 0, p->user_gid) < 0)
		log_warn("%s: %s", path, strerror(errno));
	if (r < 0) {
		close(fd);
		return r;
	}
	p->control_fd = fd;
	p->control_path = strdup(path);
	return 0;
}

void request_answer(int fd, bool ok, const char *text)
{
	char *line = control_reply(ok ? 0 : -1, json_string(text));
	if (line)
		(void)!send(fd, line, strlen(line), MSG_NOSIGNAL | MSG_DONTWAIT);
	free(line);
	close(fd);
}

static void drop_request(struct parent *p, unsigned i, bool with_fd)
{
	if (with_fd)
		close(p->requests[i].fd);
	free(p->requests[i].text);
	p->requests[i] = p->requests[--p->request_count];
}

void requests_accept(struct parent *p, uint64_t now_ms)
{
	int fd = accept4(p->control_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred who;
	socklen_t len = sizeof who;
	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0 || p->request_count == REQUESTS_MAX || (who.uid && p->request_count >= REQUESTS_MAX - REQUESTS_OF_ROOT)) {
		request_answer(fd, false, "too many control connections");
		return;
	}
	p->requests[p->request_count++] = (struct request){ .fd = fd, .until_ms = now_ms + REQUEST_MS, .uid = who.uid, .gid = who.gid };
}

/* Replies to what was asked before, and not waited for, are passed over. */
static int wait_for_way(struct parent *p, struct steer_parent_reply *ret)
{
	for (uint64_t until = clock_ms() + WAY_MS, now; (now = clock_ms()) < until;) {
		struct pollfd wait = { .fd = p->enforcer.fd, .events = POLLIN };
		if (poll(&wait, 1, (int)(until - now)) <= 0)
			continue;
		ssize_t n = recv(p->enforcer.fd, ret, sizeof *ret, MSG_DONTWAIT);
		if (n == 0)
			return -EPIPE;
		if (n == sizeof *ret && ret->type == PARENT_WAY && ret->serial == p->way_seq) {
			ret->text[sizeof ret->text - 1] = 0;
			return 0;
		}
	}
	return -ETIMEDOUT;
}

static void remember_way(struct parent *p, const char *name, bool on)
{
	for (unsigned i = 0; i < p->ways_down_count; i++)
		if (!strcmp(p->ways_down[i], name)) {
			memmove(p->ways_down[i], p->ways_down[--p->ways_down_count], sizeof p->ways_down[i]);
			break;
		}
	if (!on && p->ways_down_count < CONFIG_WAYS_MAX)
		snprintf(p->ways_down[p->ways_down_count++], sizeof p->ways_down[0], "%s", name);
}

static void set_way(struct parent *p, int fd, const json_t *req)
{
	const char *name = json_string_value(json_object_get(req, "name"));
	bool on = json_is_true(json_object_get(req, "up"));
	if (p->txn.stage != TXN_NONE) {
		request_answer(fd, false, "a change of the configuration is under way; try again");
		return;
	}
	struct steer_parent_reply reply;
	if (!name) {
		request_answer(fd, false, "which way? `name` is missing");
		return;
	}
	if (!json_is_boolean(json_object_get(req, "up"))) {
		request_answer(fd, false, "up or down? `up` must be true or false");
		return;
	}
	if (!p->enforcer.pid || tell_enforcer(p, PARENT_WAY, ++p->way_seq, name, on, -1) < 0) {
		request_answer(fd, false, "the enforcer cannot be told");
		return;
	}
	if (wait_for_way(p, &reply) < 0) {
		request_answer(fd, false, "the enforcer does not answer");
		return;
	}
	if (reply.result == 0)
		remember_way(p, name, on);
	request_answer(fd, reply.result == 0, reply.result == 0 ? on ? "up" : "down" : reply.text);
}

static void serve(struct parent *p, unsigned i)
{
	struct request *q = &p->requests[i];
	json_t *req = json_loadb(q->text, q->len, 0, NULL);
	const char *verb = json_string_value(json_object_get(req, "verb"));
	bool may_change = q->uid == 0 || q->uid == p->user_uid;
	if (!verb) {
		request_answer(q->fd, false, "not a request: one line of JSON with a `verb` is expected");
	} else if (control_verb_changes(verb) && !may_change) {
		request_answer(q->fd, false, "this verb changes something: only root and the server's user may use it");
	} else if (!strcmp(verb, "reload")) {
		parent_reload(p, q->fd);
	} else if (!strcmp(verb, "way")) {
		set_way(p, q->fd, req);
	} else {
		int mfd = ipc_memfd("nameway-request", q->text, q->len);
		struct ipc_msg m = { .type = IPC_CONTROL, .a = q->uid, .flag = may_change };
		if (mfd < 0 || send_server(p, &m, q->fd, mfd) < 0)
			request_answer(q->fd, false, "the server is being started; try again");
		else
			close(q->fd);
		if (mfd >= 0)
			close(mfd);
	}
	json_decref(req);
	drop_request(p, i, false);
}

void requests_read(struct parent *p, unsigned i)
{
	struct request *q = &p->requests[i];
	char part[65536];
	ssize_t n = recv(q->fd, part, sizeof part, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0 && q->len + (size_t)n > REQUEST_BYTES_MAX) {
		request_answer(q->fd, false, "the request is too large");
		drop_request(p, i, false);
		return;
	}
	char *more = n > 0 ? realloc(q->text, q->len + (size_t)n) : NULL;
	if (!more) {
		drop_request(p, i, true);
		return;
	}
	q->text = more;
	memcpy(q->text + q->len, part, (size_t)n);
	q->len += (size_t)n;
	if (memchr(part, '\n', (size_t)n))
		serve(p, i);
}

void requests_expire(struct parent *p, uint64_t now_ms)
{
	for (unsigned i = 0; i < p->request_count;)
		if (now_ms >= p->requests[i].until_ms)
			drop_request(p, i, true);
		else
			i++;
}
