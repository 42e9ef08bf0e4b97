/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The parent's loop and the change of a configuration: enforcer prepares, server prepares (lists loaded, sets filled), enforcer commits (packet rules in one
 * transaction), server commits (workers switched). Whatever fails before the enforcer's commit leaves the present one in force. A child that dies is started
 * again and taken through the same steps with the configuration in force. */
#include "daemon/parent.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "config/bundle.h"
#include "daemon/last_good.h"
#include "daemon/parent_private.h"

enum { TXN_MS = 120000, STOP_MS = 5000, RESTART_FIRST_MS = 20, RESTART_MOST_MS = 5000, RETRY_MS = 1000, FLOWS_MS = 10000, QUICK_DEATH_MS = 5000, TURN_MS = 1000 };

/* --- alarms --- */

void parent_alarm(struct parent *p, const char *key, const char *text)
{
	unsigned i = 0;
	while (i < sizeof p->alarms / sizeof p->alarms[0] - 1 && p->alarms[i].key[0] && strcmp(p->alarms[i].key, key))
		i++;
	snprintf(p->alarms[i].key, sizeof p->alarms[i].key, "%s", key);
	snprintf(p->alarms[i].text, sizeof p->alarms[i].text, "%s", text);
	tell_server(p, IPC_ALARM, 0, key, text, -1);
}

static void tell_alarms(struct parent *p)
{
	for (unsigned i = 0; i < sizeof p->alarms / sizeof p->alarms[0]; i++)
		if (p->alarms[i].text[0])
			tell_server(p, IPC_ALARM, 0, p->alarms[i].key, p->alarms[i].text, -1);
}

/* --- the two-step change --- */

static void warn_of_restart_keys(const struct config *old, const struct config *new)
{
	if (old->server.workers != new->server.workers || strcmp(old->server.state, new->server.state) || strcmp(old->server.control, new->server.control) ||
		strcmp(old->server.user, new->server.user) || old->cache.bytes != new->cache.bytes)
		log_warn("server.workers, state, control, user and cache.size take effect at the next start");
}

static const struct config *txn_config(const struct parent *p)
{
	return p->txn.config ? p->txn.config : p->config;
}

static void txn_end(struct parent *p, bool ok, const char *text)
{
	struct txn *t = &p->txn;
	if (t->client_fd >= 0)
		request_answer(t->client_fd, ok, text);
	t->client_fd = -1;
	t->is_refresh = false;
	t->stage = TXN_NONE;
	report_free(&t->report);
	report_init(&t->report);
}

static void txn_done(struct parent *p)
{
	const struct txn *t = &p->txn;
	const char *said = t->report.text.len ? t->report.text.bytes : "reloaded";
	txn_end(p, true, t->is_listening ? said : "reloaded, but not every address of server.listen could be taken: see `nameway status`");
}

/* The new configuration becomes the present one. */
static void txn_take_over(struct parent *p)
{
	struct txn *t = &p->txn;
	p->serial = t->serial;
	if (!t->config)
		return;
	warn_of_restart_keys(p->config, t->config);
	config_free(p->config);
	buf_free(&p->bundle);
	p->config = t->config;
	p->bundle = t->bundle;
	t->config = NULL;
	t->bundle = (struct buf){ 0 };
	log_set_level((enum log_level)p->config->server.log_level);
	files_configure(p, p->config);
}

/* The kernel has it already: there is no way back, so a server that did not get there is started again with it. */
static void txn_force(struct parent *p, const char *text)
{
	log_error("%s: the server is started again with the new configuration", text);
	txn_take_over(p);
	last_good_save(p->state_fd, &p->bundle);
	p->is_server_in_force = false;
	if (p->server.pid)
		kill(p->server.pid, SIGKILL);
	txn_end(p, true, "reloaded; the server had to be started again");
}

static void txn_fail(struct parent *p, const char *text)
{
	struct txn *t = &p->txn;
	if (t->stage == TXN_FLOWS) {
		txn_done(p);
		return;
	}
	if (t->config && t->stage == TXN_SERVER_COMMIT) {
		txn_force(p, text);
		return;
	}
	log_error("the new configuration is not in force: %s", text);
	if (t->config && p->is_ready) {
		tell_enforcer(p, PARENT_ABANDON, t->serial, "", false, -1);
		tell_server(p, IPC_ABANDON, t->serial, "", "", -1);
		if (t->is_refresh)
			follow_failed(p);
		else
			parent_alarm(p, "config", "the configuration file was not taken over: the last good one is in force. Mend: `nameway check FILE`, then `nameway reload`");
		config_free(t->config);
		buf_free(&t->bundle);
		t->config = NULL;
	}
	if (!p->is_ready) {
		p->exit_code = 1;
		p->is_stopping = true;
	}
	txn_end(p, false, text);
}

static void txn_begin(struct parent *p, enum txn_stage stage)
{
	struct txn *t = &p->txn;
	t->stage = stage;
	t->until_ms = clock_ms() + TXN_MS;
	const struct buf *b = t->config ? &t->bundle : &p->bundle;
	int fd = ipc_memfd("nameway-config", b->bytes, b->len);
	if (fd < 0 || tell_enforcer(p, PARENT_PREPARE, t->serial, "", false, fd) < 0)
		txn_fail(p, "the enforcer cannot be told");
	if (fd >= 0)
		close(fd);
}

static void txn_to_server(struct parent *p)
{
	struct txn *t = &p->txn;
	const struct config *c = txn_config(p);
	const struct buf *b = t->config ? &t->bundle : &p->bundle;
	t->stage = TXN_SERVER_PREPARE;
	t->until_ms = clock_ms() + TXN_MS;
	int fd = ipc_memfd("nameway-config", b->bytes, b->len);
	if (fd < 0 || tell_server(p, IPC_CONFIG, t->serial, "", "", fd) < 0) {
		if (fd >= 0)
			close(fd);
		txn_fail(p, "the server cannot be told");
		return;
	}
	close(fd);
	for (unsigned i = 0; i < c->list_count; i++)
		files_send(p, c, i, LIST_AT_CONFIG);
	follow_send_hosts(p, c, LIST_AT_CONFIG);
	tell_server(p, IPC_FINISH, t->serial, "", "", -1);
}

static void become_ready(struct parent *p)
{
	p->is_ready = true;
	printf("ready\n");
	fflush(stdout);
	notify_send(p->notify_fd, "READY=1");
	log_info("ready");
	if (p->is_on_last_good)
		parent_alarm(p, "config", "the configuration file is broken: started on the last good one. Mend: `nameway check FILE`, then `nameway reload`");
}

static void txn_committed(struct parent *p)
{
	struct txn *t = &p->txn;
	bool is_new = t->config != NULL;
	txn_take_over(p);
	p->is_server_in_force = true;
	interfaces_send(p);
	bool is_listening = t->is_listening = sockets_sync(p, p->config) == 0;
	/* A refresh says nothing about the file that waits for a reload. */
	if (is_new && !t->is_refresh)
		parent_alarm(p, "config", "");
	if (is_new)
		parent_alarm(p, "resolv-conf", "");
	if (is_new || (!p->is_ready && !p->is_on_last_good))
		last_good_save(p->state_fd, &p->bundle);
	parent_alarm(p, "listen", is_listening ? "" : "not every address of server.listen could be taken. Mend: see the log; another DNS server may run there");
	if (!p->is_ready)
		become_ready(p);
	if (is_new && p->enforcer.pid && tell_enforcer(p, PARENT_FLOWS, t->serial, "", false, -1) == 0) {
		t->stage = TXN_FLOWS;
		t->until_ms = clock_ms() + FLOWS_MS;
		return;
	}
	txn_done(p);
}

/* Never one used before, so that late answers to a change given up match nothing; of the other parity than the present one's, since that chooses the slot
 * of the enforcer's page. */
static uint32_t next_serial(struct parent *p)
{
	p->last_serial += ((p->last_serial + 1) ^ p->serial) & 1 ? 1 : 2;
	return p->last_serial;
}

/* The first step with t->config, which t->bundle says. */
static void change_begin(struct parent *p)
{
	struct txn *t = &p->txn;
	uint16_t port;
	if (t->config->hijack.is_on && !p->hijack_port && sockets_pick_hijack_port(t->config, &port) == 0)
		p->hijack_port = port;
	t->serial = next_serial(p);
	t->config->serial = t->serial;
	txn_begin(p, TXN_ENFORCER_PREPARE);
}

void parent_reload(struct parent *p, int client_fd)
{
	struct txn *t = &p->txn;
	if (t->stage != TXN_NONE || !p->is_ready) {
		bool waits = client_fd < 0 || (t->is_refresh && p->reload_fd < 0);
		if (!waits)
			request_answer(client_fd, false, "a change of the configuration is under way; try again");
		else if (client_fd >= 0)
			p->reload_fd = client_fd;
		p->is_reload_due = p->is_reload_due || waits;
		return;
	}
	if (client_fd < 0) {
		client_fd = p->reload_fd;
		p->reload_fd = -1;
	}
	p->is_reload_due = false;
	t->client_fd = client_fd;
	t->config = NULL;
	if (config_bundle_read(&t->bundle, p->config_path, &t->report) < 0 || config_parse(&t->config, t->bundle.bytes, t->bundle.len, &t->report) < 0) {
		buf_free(&t->bundle);
		parent_alarm(p, "config", "the configuration file is broken: the last good one is in force. Mend: `nameway check FILE`, then `nameway reload`");
		log_lines(LOG_L_ERROR, "reload: ", t->report.text.bytes ? t->report.text.bytes : "the configuration cannot be read");
		txn_end(p, false, t->report.text.bytes ? t->report.text.bytes : "the configuration cannot be read");
		return;
	}
	change_begin(p);
}

void parent_refresh(struct parent *p, struct config *c, struct buf *bundle)
{
	p->txn.client_fd = -1;
	p->txn.config = c;
	p->txn.bundle = *bundle;
	p->txn.is_refresh = true;
	change_begin(p);
}

/* --- what children say --- */

/* A new enforcer knows nothing of what the administrator put down; one that knows is told what it knows. */
static void tell_ways_down(struct parent *p)
{
	for (unsigned i = 0; i < p->ways_down_count; i++)
		tell_enforcer(p, PARENT_WAY, ++p->way_seq, p->ways_down[i], false, -1);
}

static void on_enforcer_reply(struct parent *p)
{
	struct steer_parent_reply m;
	struct txn *t = &p->txn;
	ssize_t n = recv(p->enforcer.fd, &m, sizeof m, MSG_DONTWAIT);
	if (n != sizeof m || m.serial != t->serial)
		return;
	m.text[sizeof m.text - 1] = 0;
	if (m.type == PARENT_PREPARE && (t->stage == TXN_ENFORCER_PREPARE || t->stage == TXN_ENFORCER_BACK)) {
		if (m.result < 0)
			txn_fail(p, m.text);
		else
			tell_ways_down(p);
		if (m.result < 0)
			return;
		if (t->stage == TXN_ENFORCER_PREPARE)
			txn_to_server(p);
		else {
			t->stage = TXN_RESTORE;
			tell_server(p, IPC_ENFORCER_NEW, ++p->restore_seq, "", "", -1);
		}
	} else if (m.type == PARENT_FLOWS && t->stage == TXN_FLOWS) {
		txn_done(p);
	} else if (m.type == PARENT_COMMIT && (t->stage == TXN_ENFORCER_COMMIT || t->stage == TXN_ENFORCER_BACK_COMMIT)) {
		p->is_enforcer_in_force = p->is_enforcer_in_force || m.result >= 0;
		if (m.result < 0)
			txn_fail(p, m.text);
		else if (t->stage == TXN_ENFORCER_BACK_COMMIT)
			txn_end(p, true, "");
		else {
			t->stage = TXN_SERVER_COMMIT;
			tell_server(p, IPC_COMMIT, t->serial, "", "", -1);
		}
	}
}

static void commit_enforcer(struct parent *p, enum txn_stage stage)
{
	p->txn.stage = stage;
	tell_enforcer(p, PARENT_COMMIT, p->txn.serial, "", false, -1);
}

static void want_list(struct parent *p, const struct ipc_msg *m)
{
	for (unsigned i = 0; i < p->config->list_count; i++)
		if (!strcmp(p->config->lists[i].name, m->name))
			files_send(p, p->config, i, m->c == LIST_ASKED_ACCEPT ? LIST_ASKED_ACCEPT : LIST_ASKED);
}

static void on_server_message(struct parent *p)
{
	struct ipc_msg m;
	struct txn *t = &p->txn;
	int fd, fd2, r = ipc_receive(p->server.fd, &m, &fd, &fd2);
	if (r == -EPIPE && p->server.pid)
		kill(p->server.pid, SIGKILL); /* it closed the channel, or is ending */
	if (r < 0)
		return;
	if (fd >= 0)
		close(fd);
	if (fd2 >= 0)
		close(fd2);
	if (m.type == IPC_WANT_WAY_SOCKET)
		sockets_for_way(p, &m);
	else if (m.type == IPC_WANT_LIST)
		want_list(p, &m);
	else if (m.type == IPC_PREPARED && t->stage == TXN_SERVER_PREPARE && m.serial == t->serial) {
		if (m.result < 0)
			txn_fail(p, m.text[0] ? m.text : nw_strerror(m.result));
		else if (t->config || !p->is_enforcer_in_force)
			commit_enforcer(p, TXN_ENFORCER_COMMIT);
		else {
			/* A server started again: the kernel already is as the configuration says. */
			t->stage = TXN_SERVER_COMMIT;
			tell_server(p, IPC_COMMIT, t->serial, "", "", -1);
		}
	} else if (m.type == IPC_COMMITTED && t->stage == TXN_SERVER_COMMIT && m.serial == t->serial) {
		if (m.result < 0)
			txn_fail(p, m.text);
		else
			txn_committed(p);
	} else if (m.type == IPC_RESTORED && t->stage == TXN_RESTORE && m.serial == p->restore_seq) {
		/* Without all that sets hold the packet rules would let through what is missing. */
		if (m.result < 0)
			txn_fail(p, "the sets of the new enforcer could not be filled");
		else
			commit_enforcer(p, TXN_ENFORCER_BACK_COMMIT);
	}
}

/* --- children that die --- */

static void note_death(struct parent *p, struct child *c, const char *name, int status)
{
	uint64_t now = clock_ms();
	c->pid = 0;
	p->retry_at_ms = 0;
	if (c == &p->enforcer)
		p->is_enforcer_in_force = false;
	else
		p->is_server_in_force = false;
	c->quick_deaths = now - c->started_ms < QUICK_DEATH_MS ? c->quick_deaths + 1 : 0;
	uint64_t wait = c->quick_deaths ? (uint64_t)RESTART_FIRST_MS << (c->quick_deaths > 8 ? 8 : c->quick_deaths) : 0;
	c->restart_at_ms = now + (wait > RESTART_MOST_MS ? RESTART_MOST_MS : wait);
	if (p->is_stopping)
		return;
	if (WIFSIGNALED(status))
		log_error("the %s was ended by signal %d (%s); starting it again", name, WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		log_error("the %s ended with status %d; starting it again", name, WEXITSTATUS(status));
	/* The server alone ends a change that the kernel has: a new enforcer is then given the new configuration. */
	if (p->txn.stage != TXN_NONE && !(c == &p->enforcer && p->txn.stage == TXN_SERVER_COMMIT)) {
		char text[96];
		snprintf(text, sizeof text, "the %s ended in the middle of the change", name);
		if (p->txn.config || p->txn.stage == TXN_FLOWS)
			txn_fail(p, text);
		else
			txn_end(p, false, text);
	}
	if (!p->is_ready) {
		p->exit_code = 1;
		p->is_stopping = true;
	}
}

static void reap(struct parent *p)
{
	int status;
	for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
		if (pid == p->enforcer.pid)
			note_death(p, &p->enforcer, "enforcer", status);
		else if (pid == p->server.pid)
			note_death(p, &p->server, "server", status);
}

static bool are_both_in_force(const struct parent *p)
{
	return p->is_enforcer_in_force && p->is_server_in_force;
}

/* Starts who is gone, and takes through the steps who does not carry the present configuration: once a second, until it does. */
static void restart_children(struct parent *p, uint64_t now)
{
	if (p->is_stopping || !p->is_ready || p->txn.stage != TXN_NONE || are_both_in_force(p))
		return;
	if (!p->enforcer.pid && now >= p->enforcer.restart_at_ms)
		start_enforcer(p, true);
	if (!p->server.pid && now >= p->server.restart_at_ms && start_server(p) == 0) {
		interfaces_send(p);
		sockets_send_all(p);
		tell_alarms(p);
	}
	if (!p->enforcer.pid || !p->server.pid || now < p->retry_at_ms)
		return;
	p->retry_at_ms = now + RETRY_MS;
	p->txn.config = NULL;
	p->txn.serial = p->serial;
	if (p->is_enforcer_in_force)
		txn_to_server(p);
	else
		txn_begin(p, p->is_server_in_force ? TXN_ENFORCER_BACK : TXN_ENFORCER_PREPARE);
}

/* Whoever did not end its step is ended itself, but for a server that serves on by the present configuration. */
static void txn_expire(struct parent *p)
{
	enum txn_stage stage = p->txn.stage;
	bool is_servers = stage == TXN_SERVER_PREPARE || stage == TXN_SERVER_COMMIT || stage == TXN_RESTORE;
	bool has_other = stage == TXN_SERVER_PREPARE && p->txn.config;
	txn_fail(p, "it took too long");
	struct child *c = is_servers ? &p->server : &p->enforcer;
	if (p->is_ready && !has_other && stage != TXN_FLOWS && c->pid)
		kill(c->pid, SIGKILL);
}

/* --- start, loop, stop --- */

static int find_user(struct parent *p)
{
	const struct passwd *u = getpwnam(p->config->server.user);
	if (!u) {
		log_error("server.user `%s` does not exist. Mend: `adduser --system --group %s`, or name another user", p->config->server.user, p->config->server.user);
		return -ENOENT;
	}
	p->user_uid = u->pw_uid;
	p->user_gid = u->pw_gid;
	if (!u->pw_uid)
		log_warn("server.user is root: the process that parses packets runs with root's rights on files. Mend: a user of its own");
	return 0;
}

static void open_state(struct parent *p)
{
	const char *path = p->config->server.state;
	char part[4096];
	snprintf(part, sizeof part, "%s", path);
	for (char *slash = part + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = 0;
		mkdir(part, 0755);
		*slash = '/';
	}
	mkdir(path, 0700);
	p->state_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (p->state_fd < 0 || fchmod(p->state_fd, 0700) < 0)
		log_warn("state directory %s: %s; nothing is kept over a restart", path, strerror(errno));
}

static int parent_open(struct parent *p)
{
	int r = find_user(p);
	if (r < 0)
		return r;
	open_state(p);
	if ((r = requests_open(p)) < 0) {
		log_error(r == -EADDRINUSE ? "another nameway answers on %s. Mend: stop it, or give this one another server.control" : "control socket %s: %s", p->config->server.control, strerror(-r));
		return r;
	}
	if ((r = interfaces_open(p)) < 0 || (r = files_open(p)) < 0 || (r = parent_open_channels(p)) < 0) {
		log_error("cannot start: %s", strerror(-r));
		return r;
	}
	if (sockets_pick_hijack_port(p->config, &p->hijack_port) < 0)
		log_warn("no port is free for hijacked DNS");
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	p->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	p->notify_fd = notify_open();
	const char *usec = getenv("WATCHDOG_USEC");
	p->watchdog_ms = usec ? strtoull(usec, NULL, 10) / 2000 : 0;
	return p->signal_fd < 0 ? -errno : 0;
}

static void on_signal(struct parent *p)
{
	struct signalfd_siginfo s;
	while (read(p->signal_fd, &s, sizeof s) == sizeof s)
		switch (s.ssi_signo) {
		case SIGCHLD: reap(p); break;
		case SIGHUP: parent_reload(p, -1); break;
		default: p->is_stopping = true;
		}
}

static void feed_watchdog(struct parent *p, uint64_t now)
{
	if (!p->watchdog_ms || now < p->watchdog_at_ms)
		return;
	p->watchdog_at_ms = now + p->watchdog_ms;
	uint64_t beat = atomic_load(&p->shared->heartbeat_ms);
	if (p->enforcer.pid && p->server.pid && now < beat + 5000)
		notify_send(p->notify_fd, "WATCHDOG=1");
}

static void turn(struct parent *p)
{
	struct pollfd f[REQUESTS_MAX + 8];
	unsigned n = 0;
	f[n++] = (struct pollfd){ .fd = p->signal_fd, .events = POLLIN };
	f[n++] = (struct pollfd){ .fd = p->enforcer.pid ? p->enforcer.fd : -1, .events = POLLIN };
	f[n++] = (struct pollfd){ .fd = p->server.pid ? p->server.fd : -1, .events = POLLIN };
	f[n++] = (struct pollfd){ .fd = p->netlink_fd, .events = POLLIN };
	f[n++] = (struct pollfd){ .fd = p->watch_fd, .events = POLLIN };
	f[n++] = (struct pollfd){ .fd = p->control_fd, .events = POLLIN };
	unsigned requests = p->request_count;
	for (unsigned i = 0; i < requests; i++)
		f[n++] = (struct pollfd){ .fd = p->requests[i].fd, .events = POLLIN };
	uint64_t now = clock_ms(), next = files_turn(p, now);
	if (p->is_ready && !are_both_in_force(p))
		next = now + 10;
	uint64_t wait = next > now ? next - now : 0;
	poll(f, n, wait > TURN_MS ? TURN_MS : (int)wait);
	now = clock_ms();
	/* Requests first: their places in f[] are those of before. */
	for (unsigned i = requests; i-- > 0;)
		if (f[6 + i].revents)
			requests_read(p, i);
	if (f[0].revents)
		on_signal(p);
	if (f[1].revents & POLLIN)
		on_enforcer_reply(p);
	if (f[2].revents & POLLIN)
		on_server_message(p);
	if (f[3].revents)
		interfaces_event(p);
	if (f[4].revents)
		files_event(p, now);
	requests_expire(p, now);
	if (f[5].revents)
		requests_accept(p, now);
	if (p->are_links_dirty && p->txn.stage == TXN_NONE) {
		interfaces_read(p);
		sockets_sync(p, p->config);
		interfaces_send(p);
		follow_links_changed(p);
	}
	restart_children(p, now);
	feed_watchdog(p, now);
	if (p->txn.stage != TXN_NONE && now > p->txn.until_ms)
		txn_expire(p);
	if (p->is_reload_due && p->txn.stage == TXN_NONE && are_both_in_force(p))
		parent_reload(p, -1);
}

static void wait_child(struct child *c)
{
	for (uint64_t until = clock_ms() + STOP_MS; c->pid && clock_ms() < until;) {
		if (waitpid(c->pid, NULL, WNOHANG) == c->pid) {
			c->pid = 0;
			return;
		}
		usleep(5000);
	}
	if (c->pid) {
		kill(c->pid, SIGKILL);
		waitpid(c->pid, NULL, 0);
	}
}

/* The server first: it answers what is in flight and saves; then the enforcer, which leaves the kernel closed. */
static void parent_stop(struct parent *p)
{
	notify_send(p->notify_fd, "STOPPING=1");
	if (p->server.pid) {
		tell_server(p, IPC_STOP, 0, "", "", -1);
		wait_child(&p->server);
	}
	if (p->enforcer.pid) {
		tell_enforcer(p, PARENT_STOP, 0, "", false, -1);
		wait_child(&p->enforcer);
	}
	sockets_close_all(p);
	if (p->control_path)
		unlink(p->control_path);
	log_info("stopped");
}

int parent_main(const char *config_path)
{
	static struct parent p;
	p.config_path = config_path;
	p.state_fd = p.control_fd = p.signal_fd = p.netlink_fd = p.notify_fd = p.watch_fd = -1;
	p.enforcer.fd = p.server.fd = -1;
	p.txn.client_fd = p.reload_fd = -1;
	report_init(&p.txn.report);
	if (last_good_or_file(config_path, &p.bundle, &p.config, &p.is_on_last_good) < 0)
		return 2;
	log_init("namewayd", (enum log_level)p.config->server.log_level);
	if (parent_open(&p) < 0)
		return 1;
	/* The first configuration goes the same way as every later one, as its own successor. */
	p.serial = p.last_serial = 1;
	p.config->serial = 1;
	files_configure(&p, p.config);
	if (start_enforcer(&p, false) < 0 || start_server(&p) < 0) {
		log_error("cannot start: %s", strerror(errno));
		p.exit_code = 1;
		p.is_stopping = true;
	}
	if (!p.is_stopping && sockets_sync(&p, p.config) < 0) {
		p.exit_code = 1;
		p.is_stopping = true;
	}
	if (!p.is_stopping) {
		interfaces_send(&p);
		p.txn.serial = 1;
		txn_begin(&p, TXN_ENFORCER_PREPARE);
	}
	while (!p.is_stopping)
		turn(&p);
	parent_stop(&p);
	return p.exit_code;
}
