/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The two children: channels made once, so that either may be started again beside a running other. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "daemon/parent_private.h"
#include "daemon/server.h"

enum { CHANNEL_BUFFER = 1 << 20, FILES_MAX = 65536, FILES_NEEDED = 4096, ENFORCER_NICE = -10 };

/* One pair per worker and one for the server's own questions. */
int parent_open_channels(struct parent *p)
{
	unsigned workers = p->config->server.workers;
	if (!workers) {
		long cpus = sysconf(_SC_NPROCESSORS_ONLN);
		workers = cpus < 1 ? 1 : (unsigned)cpus;
	}
	if (workers > ENFORCER_CHANNELS_MAX - 1)
		workers = ENFORCER_CHANNELS_MAX - 1;
	p->channel_count = workers + 1;
	for (unsigned i = 0; i < p->channel_count; i++) {
		int pair[2], size = CHANNEL_BUFFER;
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
			return -errno;
		for (int k = 0; k < 2; k++)
			setsockopt(pair[k], SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
		p->pair_enforcer_side[i] = pair[0];
		p->pair_server_side[i] = pair[1];
	}
	p->shared_fd = memfd_create("nameway-steer", MFD_CLOEXEC);
	/* Not to be opened anew for writing by the server's user. */
	if (p->shared_fd < 0 || ftruncate(p->shared_fd, sizeof *p->shared) < 0 || fchmod(p->shared_fd, 0600) < 0)
		return -errno;
	p->shared = mmap(NULL, sizeof *p->shared, PROT_READ | PROT_WRITE, MAP_SHARED, p->shared_fd, 0);
	return p->shared == MAP_FAILED ? -errno : 0;
}

/* The child keeps what is listed; everything else the parent holds is closed. */
static void close_others(const int *keep, unsigned count)
{
	int most = 0;
	for (unsigned i = 0; i < count; i++)
		most = keep[i] > most ? keep[i] : most;
	for (int fd = 3; fd <= most; fd++) {
		bool is_kept = false;
		for (unsigned i = 0; i < count; i++)
			is_kept = is_kept || keep[i] == fd;
		if (!is_kept)
			close(fd);
	}
	close_range((unsigned)most + 1, ~0u, 0);
}

static void become_child(const char *name, pid_t parent)
{
	sigset_t none;
	if (getppid() != parent)
		_exit(0);
	prctl(PR_SET_NAME, name);
	signal(SIGTERM, SIG_IGN); /* the parent says stop on the channel, so that a stop has an order; SIGKILL still works */
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Workers hold a pool of sockets for every upstream, and TCP sessions. */
static void raise_file_limit(void)
{
	struct rlimit l, wanted = { FILES_MAX, FILES_MAX };
	if (setrlimit(RLIMIT_NOFILE, &wanted) == 0 || getrlimit(RLIMIT_NOFILE, &l) < 0)
		return;
	l.rlim_cur = l.rlim_max;
	setrlimit(RLIMIT_NOFILE, &l);
	if (l.rlim_max < FILES_NEEDED)
		log_warn("only %llu files may be open: busy upstreams will be asked from fewer ports. Mend: raise LimitNOFILE", (unsigned long long)l.rlim_max);
}

static int open_child_state(const struct parent *p, const char *name)
{
	if (p->state_fd < 0)
		return -1;
	if (mkdirat(p->state_fd, name, 0700) < 0 && errno != EEXIST)
		return -1;
	return openat(p->state_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int start_enforcer(struct parent *p, bool is_restart)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid_t parent = getpid(), pid = fork();
	if (pid < 0) {
		close(pair[0]);
		close(pair[1]);
		return -EAGAIN;
	}
	if (pid == 0) {
		become_child("nw-enforcer", parent);
		struct enforcer_args args = { .parent_fd = pair[1], .channel_count = p->channel_count, .shared_fd = p->shared_fd, .state_fd = open_child_state(p, "enforcer"), .is_restart = is_restart };
		int keep[ENFORCER_CHANNELS_MAX + 4];
		unsigned n = 0;
		for (unsigned i = 0; i < p->channel_count; i++)
			keep[n++] = args.channel[i] = p->pair_enforcer_side[i];
		keep[n++] = args.parent_fd;
		keep[n++] = args.shared_fd;
		if (args.state_fd >= 0)
			keep[n++] = args.state_fd;
		close_others(keep, n);
		log_init("enforcer", (enum log_level)p->config->server.log_level);
		/* Packets wait for it when somebody takes the table away, and answers always. */
		setpriority(PRIO_PROCESS, 0, ENFORCER_NICE);
		if (drop_to_enforcer() < 0) {
			log_error("the enforcer cannot take its privileges: CAP_NET_ADMIN and CAP_NET_RAW are needed. Mend: run as root");
			_exit(1);
		}
		_exit(enforcer_main(&args));
	}
	close(pair[1]);
	if (p->enforcer.fd >= 0)
		close(p->enforcer.fd);
	p->enforcer.pid = pid;
	p->enforcer.fd = pair[0];
	p->enforcer.started_ms = clock_ms();
	p->is_enforcer_in_force = false;
	return 0;
}

/* The page is handed over read-only: a descriptor opened so, since a memfd's own can be mapped writable. */
static int reopen_read_only(int fd)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static int server_state(const struct parent *p)
{
	int fd = open_child_state(p, "server");
	if (fd >= 0 && fchown(fd, p->user_uid, p->user_gid) < 0)
		log_warn("the state directory cannot be given to the server's user: %s", strerror(errno));
	return fd;
}

int start_server(struct parent *p)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	int size = CHANNEL_BUFFER;
	setsockopt(pair[0], SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
	int page = reopen_read_only(p->shared_fd), state = server_state(p);
	pid_t parent = getpid(), pid = fork();
	if (pid < 0) {
		close(pair[0]);
		close(pair[1]);
		close(page);
		if (state >= 0)
			close(state);
		return -EAGAIN;
	}
	if (pid == 0) {
		become_child("nw-server", parent);
		struct server_args args = { .parent_fd = pair[1], .channel_count = p->channel_count, .shared_fd = page, .state_fd = state, .cache_bytes = p->config->cache.bytes };
		int keep[ENFORCER_CHANNELS_MAX + 4];
		unsigned n = 0;
		for (unsigned i = 0; i < p->channel_count; i++)
			keep[n++] = args.channel[i] = p->pair_server_side[i];
		keep[n++] = args.parent_fd;
		keep[n++] = args.shared_fd;
		if (args.state_fd >= 0)
			keep[n++] = args.state_fd;
		close_others(keep, n);
		log_init("server", (enum log_level)p->config->server.log_level);
		munmap(p->shared, sizeof *p->shared);
		raise_file_limit();
		if (drop_to_server(p->user_uid, p->user_gid, args.state_fd) < 0) {
			log_error("the server cannot give up its privileges");
			_exit(1);
		}
		_exit(server_main(&args));
	}
	close(pair[1]);
	close(page);
	if (state >= 0)
		close(state);
	if (p->server.fd >= 0)
		close(p->server.fd);
	p->server.pid = pid;
	p->server.fd = pair[0];
	p->server.started_ms = clock_ms();
	p->is_server_in_force = false;
	return 0;
}

int tell_enforcer(struct parent *p, uint16_t type, uint32_t serial, const char *name, bool on, int fd)
{
	struct parent_msg m = { .type = type, .serial = serial, .on = on, .hijack_port = p->hijack_port };
	snprintf(m.name, sizeof m.name, "%s", name);
	struct iovec iov = { .iov_base = &m, .iov_len = sizeof m };
	union { struct cmsghdr h; char room[CMSG_SPACE(sizeof(int))]; } room = { 0 };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };
	if (fd >= 0) {
		h.msg_control = &room;
		h.msg_controllen = sizeof room;
		struct cmsghdr *c = CMSG_FIRSTHDR(&h);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof fd);
	}
	return sendmsg(p->enforcer.fd, &h, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int send_server(struct parent *p, const struct ipc_msg *m, int fd1, int fd2)
{
	if (p->server.fd < 0)
		return -ENOTCONN;
	int r = ipc_send(p->server.fd, m, fd1, fd2);
	if (r == -EAGAIN && p->server.pid) {
		log_error("the server takes no messages any more; ending it");
		kill(p->server.pid, SIGKILL);
	}
	return r;
}

int tell_server(struct parent *p, uint16_t type, uint32_t serial, const char *name, const char *text, int fd)
{
	struct ipc_msg m = { .type = type, .serial = serial };
	snprintf(m.name, sizeof m.name, "%s", name);
	snprintf(m.text, sizeof m.text, "%s", text);
	return send_server(p, &m, fd, -1);
}
