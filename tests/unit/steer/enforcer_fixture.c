/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "enforcer_fixture.h"
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/addr.h"
#include "base/log.h"
#include "config/bundle.h"
#include "config/config.h"

enum { HEARD_MS = 10000 };

int shell(const char *fmt, ...)
{
	char command[1024], line[1200];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(command, sizeof command, fmt, ap);
	va_end(ap);
	snprintf(line, sizeof line, "PATH=$PATH:/usr/sbin:/sbin; { %s ; } >/dev/null 2>&1", command);
	return system(line);
}

char *text_of(const char *fmt, ...)
{
	static char out[1 << 20];
	char command[1024], line[1200];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(command, sizeof command, fmt, ap);
	va_end(ap);
	snprintf(line, sizeof line, "PATH=$PATH:/usr/sbin:/sbin; { %s ; } 2>&1", command);
	FILE *p = popen(line, "r");
	assert_non_null(p);
	out[fread(out, 1, sizeof out - 1, p)] = 0;
	pclose(p);
	return out;
}

void rig_permitted(void)
{
	if (unshare(CLONE_NEWNET) < 0) {
		fprintf(stderr, "skipped: this test needs a network namespace of its own (root, or CAP_SYS_ADMIN): %s\n", strerror(errno));
		exit(77);
	}
	if (shell("nft --version") || shell("ip link set lo up")) {
		fprintf(stderr, "skipped: this test needs the nft and ip programs (packages nftables, iproute2)\n");
		exit(77);
	}
	static const char *const links[][2] = { { "lan0", "192.168.8.1/24" }, { "wg1", "10.64.0.2/24" }, { "wan0", "198.51.100.1/24" } };
	for (unsigned i = 0; i < 3; i++)
		if (shell("ip link add %s type veth peer name %s-far && ip link set %s-far up && ip link set %s up && ip addr add %s dev %s", links[i][0], links[i][0], links[i][0], links[i][0], links[i][1], links[i][0])) {
			fprintf(stderr, "skipped: this test needs veth interfaces\n");
			exit(77);
		}
	shell("ip route add default via 198.51.100.254");
}

void rig_open(struct rig *g)
{
	memset(g, 0, sizeof *g);
	for (unsigned i = 0; i < CHANNELS; i++) {
		int pair[2], size = 1 << 20;
		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
		for (int k = 0; k < 2; k++)
			setsockopt(pair[k], SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
		g->channel[i] = pair[0];
		g->other_side[i] = pair[1];
	}
	g->shared_fd = memfd_create("page", MFD_CLOEXEC);
	assert_int_equal(ftruncate(g->shared_fd, sizeof *g->page), 0);
	g->page = mmap(NULL, sizeof *g->page, PROT_READ | PROT_WRITE, MAP_SHARED, g->shared_fd, 0);
	assert_ptr_not_equal(g->page, MAP_FAILED);
	g->parent = -1;
}

void rig_start(struct rig *g, bool is_restart)
{
	int pair[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	if (g->parent >= 0)
		close(g->parent);
	g->parent = pair[0];
	fflush(NULL);
	g->pid = fork();
	assert_true(g->pid >= 0);
	if (g->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		struct enforcer_args args = { .parent_fd = pair[1], .channel_count = CHANNELS, .shared_fd = g->shared_fd, .state_fd = -1, .is_restart = is_restart };
		for (unsigned i = 0; i < CHANNELS; i++)
			args.channel[i] = g->other_side[i];
		log_init("enforcer", getenv("TEST_LOG") ? LOG_L_DEBUG : LOG_L_ERROR);
		_exit(enforcer_main(&args));
	}
	close(pair[1]);
}

void rig_kill(struct rig *g)
{
	if (g->pid <= 0)
		return;
	kill(g->pid, SIGKILL);
	waitpid(g->pid, NULL, 0);
	g->pid = 0;
}

int rig_stop(struct rig *g)
{
	struct steer_parent_reply reply;
	int status = -1;
	tell(g, PARENT_STOP, 0, "", false, NULL, &reply);
	waitpid(g->pid, &status, 0);
	g->pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void rig_close(struct rig *g)
{
	rig_kill(g);
	for (unsigned i = 0; i < CHANNELS; i++) {
		close(g->channel[i]);
		close(g->other_side[i]);
	}
	close(g->parent);
	munmap(g->page, sizeof *g->page);
	close(g->shared_fd);
	/* An orphan with `persist` is nobody's: anybody may delete it. */
	shell("nft delete table inet nameway");
	shell("while ip rule del pref 5000 || ip rule del pref 5010 || ip rule del pref 5011 || ip rule del pref 5020 || ip rule del pref 5030; do :; done");
}

static void bundle_of(struct buf *b, const char *yaml)
{
	buf_init(b, BUNDLE_MAX);
	assert_int_equal(bundle_begin(b, "/etc/nameway"), 0);
	assert_int_equal(bundle_add(b, "t.yaml", yaml, strlen(yaml)), 0);
	assert_int_equal(bundle_end(b, 1), 0);
}

uint32_t rule_id(const char *yaml, const char *name)
{
	struct buf b;
	struct report r;
	struct config *c = NULL;
	uint32_t id = 0;
	bundle_of(&b, yaml);
	report_init(&r);
	if (config_parse(&c, b.bytes, b.len, &r) < 0)
		fail_msg("%s", r.text.bytes);
	for (unsigned i = 0; i < c->steer_count; i++)
		if (!strcmp(c->steers[i].name, name))
			id = c->steers[i].id;
	config_free(c);
	report_free(&r);
	buf_free(&b);
	assert_true(id != 0);
	return id;
}

static bool is_readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int r;
	do
		r = poll(&p, 1, ms);
	while (r < 0 && errno == EINTR);
	return r > 0;
}

int tell(struct rig *g, uint16_t type, uint32_t serial, const char *name, bool on, const char *yaml, struct steer_parent_reply *ret)
{
	struct parent_msg m = { .type = type, .serial = serial, .on = on };
	struct iovec iov = { .iov_base = &m, .iov_len = sizeof m };
	union { struct cmsghdr h; char room[CMSG_SPACE(sizeof(int))]; } room = { 0 };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };
	int fd = -1;
	snprintf(m.name, sizeof m.name, "%s", name);
	if (yaml) {
		struct buf b;
		bundle_of(&b, yaml);
		fd = memfd_create("bundle", MFD_CLOEXEC);
		assert_int_equal(write(fd, b.bytes, b.len), b.len);
		buf_free(&b);
		h.msg_control = &room;
		h.msg_controllen = sizeof room;
		struct cmsghdr *c = CMSG_FIRSTHDR(&h);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof fd);
	}
	assert_int_equal(sendmsg(g->parent, &h, MSG_NOSIGNAL), sizeof m);
	if (fd >= 0)
		close(fd);
	if (!is_readable(g->parent, HEARD_MS))
		fail_msg("the enforcer does not answer message %u", type);
	assert_int_equal(recv(g->parent, ret, sizeof *ret, 0), sizeof *ret);
	assert_int_equal(ret->type, type);
	assert_int_equal(ret->serial, serial);
	return ret->result;
}

void in_force(struct rig *g, uint32_t serial, const char *yaml)
{
	struct steer_parent_reply reply;
	if (tell(g, PARENT_PREPARE, serial, "", false, yaml, &reply) < 0 || tell(g, PARENT_COMMIT, serial, "", false, NULL, &reply) < 0)
		fail_msg("%s", reply.text);
}

/* --- the server's messages --- */

void element_put(struct steer_element *e, uint32_t rule, const char *addr, uint32_t life_s)
{
	struct addr a;
	assert_int_equal(addr_parse(&a, addr), 0);
	*e = (struct steer_element){ .rule_id = rule, .life_s = life_s, .family = a.family == AF_INET ? 4 : 6 };
	memcpy(e->addr, a.b, 16);
}

uint32_t send_add(struct rig *g, unsigned channel, const struct steer_element *e, unsigned count)
{
	static struct steer_add m;
	m.type = STEER_ADD;
	m.count = (uint16_t)count;
	m.seq = ++g->seq;
	memcpy(m.e, e, count * sizeof *e);
	size_t len = offsetof(struct steer_add, e) + count * sizeof *e;
	assert_int_equal(send(g->channel[channel], &m, len, MSG_NOSIGNAL), len);
	return m.seq;
}

void get_ack(struct rig *g, unsigned channel, uint16_t type, uint32_t seq, struct steer_ack *ret)
{
	if (!is_readable(g->channel[channel], HEARD_MS))
		fail_msg("the enforcer does not answer the server");
	ssize_t n = recv(g->channel[channel], ret, sizeof *ret, 0);
	assert_true(n >= (ssize_t)offsetof(struct steer_ack, status));
	assert_int_equal(ret->type, type);
	assert_int_equal(ret->seq, seq);
	assert_int_equal(n, offsetof(struct steer_ack, status) + ret->count);
}

int add_one(struct rig *g, uint32_t rule, const char *addr, uint32_t life_s)
{
	struct steer_element e;
	struct steer_ack ack;
	element_put(&e, rule, addr, life_s);
	get_ack(g, WORKER, STEER_ACK, send_add(g, WORKER, &e, 1), &ack);
	assert_int_equal(ack.count, 1);
	return ack.status[0];
}

bool is_silent(struct rig *g, unsigned channel, int ms)
{
	return !is_readable(g->channel[channel], ms);
}

char *query(struct rig *g, uint16_t what, const char *addr)
{
	struct steer_query q = { .type = STEER_QUERY, .what = what, .seq = ++g->seq };
	struct steer_reply reply;
	struct iovec iov = { .iov_base = &reply, .iov_len = sizeof reply };
	union { struct cmsghdr h; char room[CMSG_SPACE(sizeof(int))]; } room;
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = sizeof room };
	if (addr)
		element_put(&q.e, 0, addr, 0);
	assert_int_equal(send(g->channel[MAIN], &q, sizeof q, 0), sizeof q);
	assert_true(is_readable(g->channel[MAIN], HEARD_MS));
	assert_int_equal(recvmsg(g->channel[MAIN], &h, 0), sizeof reply);
	assert_int_equal(reply.seq, q.seq);
	struct cmsghdr *c = CMSG_FIRSTHDR(&h);
	if (reply.result < 0 || !c)
		return NULL;
	int fd;
	memcpy(&fd, CMSG_DATA(c), sizeof fd);
	char *text = calloc(1, 1 << 20);
	assert_true(pread(fd, text, (1 << 20) - 1, 0) > 0);
	close(fd);
	return text;
}

bool has_number(const char *json, const char *key, long number)
{
	char text[64];
	snprintf(text, sizeof text, "\"%s\":%ld", key, number);
	const char *at = strstr(json, text);
	return at && (at[strlen(text)] < '0' || at[strlen(text)] > '9');
}

/* --- the kernel --- */

static const char *set_of(char kind, uint32_t rule, const char *addr)
{
	static char name[24];
	snprintf(name, sizeof name, "%c%08x_%c", kind, rule, strchr(addr, ':') ? '6' : '4');
	return name;
}

bool kernel_has(uint32_t rule, const char *addr)
{
	return !shell("nft get element inet nameway %s '{ %s }'", set_of('r', rule, addr), addr);
}

bool kernel_has_range(uint32_t rule, const char *addr)
{
	return !shell("nft get element inet nameway %s '{ %s }'", set_of('p', rule, addr), addr);
}

long kernel_life(uint32_t rule, const char *addr)
{
	const char *text = text_of("nft get element inet nameway %s '{ %s }'", set_of('r', rule, addr), addr), *at = strstr(text, "expires ");
	long all = 0, n;
	if (!at)
		return -1;
	for (at += 8; *at >= '0' && *at <= '9';) {
		n = strtol(at, (char **)&at, 10);
		if (at[0] == 'm' && at[1] == 's')
			break;
		all += n * (*at == 'd' ? 86400 : *at == 'h' ? 3600 : *at == 'm' ? 60 : 1);
		at++;
	}
	return all;
}
