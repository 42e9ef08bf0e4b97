/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Inside the parent: one thread, one poll loop. parent.c: loop, children, the two-step change; children.c: starting them; sockets.c: DNS sockets;
 * interfaces.c: links and addresses; files.c: list files and their watching; follow.c: hosts files and resolv.conf; requests.c: the control socket. */
#pragma once
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "config/config.h"
#include "daemon/ipc.h"
#include "dns/snapshot.h"
#include "steer/enforcer.h"
#include "steer/proto.h"

enum { SOCKETS_MAX = 4096, REQUESTS_MAX = 32, REQUEST_BYTES_MAX = 1 << 20, REQUEST_MS = 5000, PARENT_FDS_MAX = 64, HIJACK_PORT_FIRST = 65053, HIJACK_PORT_TRIES = 16 };

struct child {
	pid_t pid;
	int fd;               /* our end of its channel */
	uint64_t started_ms, restart_at_ms;
	unsigned quick_deaths;
};

struct dns_socket { int fd; uint32_t key, worker, ifindex; bool is_tcp, is_wanted; int family; uint16_t port; struct endpoint ep; char ifname[IFNAME_MAX]; };

enum txn_stage { TXN_NONE, TXN_ENFORCER_PREPARE, TXN_SERVER_PREPARE, TXN_ENFORCER_COMMIT, TXN_SERVER_COMMIT,
	TXN_FLOWS /* in force; the connections that moved are being dropped */,
	TXN_ENFORCER_BACK /* a new enforcer takes over: prepare */, TXN_RESTORE /* the server sends again what sets hold */, TXN_ENFORCER_BACK_COMMIT };

struct txn {
	enum txn_stage stage;
	struct config *config;  /* the new one; NULL when the present one is put in force again */
	struct buf bundle;
	uint32_t serial;
	struct report report;
	bool is_listening, is_refresh /* the text in force, with what resolv.conf says now */;
	int client_fd;          /* a `reload` waiting for the outcome, or -1 */
	uint64_t until_ms;
};

struct request { int fd; uint64_t until_ms; uid_t uid; gid_t gid; size_t len; char *text; };

struct list_watch {
	char name[64];
	uint64_t signature;    /* of paths, inodes, sizes, mtimes */
	bool is_dirty;
};

/* A hosts file as it was when the server got it. */
struct host_watch { uint64_t path /* its hash */, signature /* 0: to be sent again */; int error /* it could not be opened, which was said */; };
struct follow {
	struct host_watch hosts[CONFIG_HOSTS_MAX];
	unsigned host_count;
	uint64_t resolv_signature;     /* of all resolv.conf files together; 0: to be read again */
	uint64_t retry_at_ms;          /* a change that failed is tried again; 0: none */
};

struct parent {
	const char *config_path;
	struct config *config;
	struct buf bundle;
	uint32_t serial;
	struct child enforcer, server;
	int pair_enforcer_side[ENFORCER_CHANNELS_MAX], pair_server_side[ENFORCER_CHANNELS_MAX];
	unsigned channel_count;
	int shared_fd;                   /* writable; children get what they need */
	struct steer_shared *shared;
	int state_fd, control_fd, signal_fd, netlink_fd, notify_fd, watch_fd;
	uid_t user_uid;
	gid_t user_gid;
	bool is_root_user;
	uint16_t hijack_port;
	struct dns_socket sockets[SOCKETS_MAX];
	unsigned socket_count;
	uint32_t next_key;
	struct link_entry links[512];
	struct { uint32_t ifindex; struct prefix net; struct addr addr; } addrs[1024];
	unsigned link_count, addr_count;
	bool are_links_dirty;
	struct list_watch lists[CONFIG_LISTS_MAX];
	unsigned list_count;
	uint64_t files_settle_ms, files_first_ms, files_poll_ms;
	struct follow follow;
	struct txn txn;
	bool is_reload_due;              /* SIGHUP, or a `reload` during a refresh, came while a change was under way */
	int reload_fd;                   /* who waits for that, or -1 */
	/* Children that carry the configuration of `serial`; one that does not is taken through the steps (again). */
	bool is_enforcer_in_force, is_server_in_force;
	uint64_t retry_at_ms;
	uint32_t last_serial, way_seq, restore_seq;
	char *control_path;              /* as bound: the key takes effect at the next start */
	char ways_down[CONFIG_WAYS_MAX][64];   /* by the administrator; told to an enforcer that is new */
	unsigned ways_down_count;
	struct { char key[16], text[256]; } alarms[4]; /* the parent's own; told to a server that is new */
	struct request requests[REQUESTS_MAX];
	unsigned request_count;
	bool is_ready, is_stopping, is_on_last_good;
	uint64_t watchdog_ms, watchdog_at_ms;
	int exit_code;
};

/* children.c */
int parent_open_channels(struct parent *p);
int start_enforcer(struct parent *p, bool is_restart);
int start_server(struct parent *p);
int tell_enforcer(struct parent *p, uint16_t type, uint32_t serial, const char *name, bool on, int fd);
int tell_server(struct parent *p, uint16_t type, uint32_t serial, const char *name, const char *text, int fd);
int send_server(struct parent *p, const struct ipc_msg *m, int fd1, int fd2); /* ends a server that does not read any more */
/* interfaces.c */
int interfaces_open(struct parent *p);
void interfaces_read(struct parent *p);             /* dumps links and addresses again */
void interfaces_event(struct parent *p);            /* drains the event socket */
uint32_t interfaces_index(const struct parent *p, const char *ifname); /* 0: no such interface */
void interfaces_send(struct parent *p);             /* to the server, with the networks attached to the listening interfaces */
/* sockets.c */
int sockets_sync(struct parent *p, const struct config *c); /* opens what is missing, tells the server; closes what is obsolete. 0 or -1: something could not be opened (logged) */
void sockets_send_all(struct parent *p);       /* to a new server */
void sockets_close_all(struct parent *p);
int sockets_pick_hijack_port(const struct config *c, uint16_t *ret);
void sockets_for_way(struct parent *p, const struct ipc_msg *want);
/* files.c */
int files_open(struct parent *p);
void files_configure(struct parent *p, const struct config *c); /* watches; forgets signatures of lists that are new */
void files_send(struct parent *p, const struct config *c, unsigned list, enum ipc_list_reason reason);
void files_event(struct parent *p, uint64_t now_ms);
uint64_t files_turn(struct parent *p, uint64_t now_ms);         /* sends settled changes; returns when to call again */
void files_watch(struct parent *p, const char *path);           /* its directory, and where it leads as a symbolic link */
uint64_t files_signature(const char *path, uint64_t seed);      /* of path, inode, size, time; follows symbolic links */
int files_open_regular(const char *path, const char *what);     /* a descriptor or an error, logged; -ENOENT: no file, or a directory */
bool files_can_be_opened(const char *path);                     /* would give a descriptor */
/* open.c: to be read. A descriptor, -errno, or NW_EREFUSED: a link leads to what its owner may not read. */
int open_followed(const char *path);
/* follow.c */
void follow_configure(struct parent *p);                        /* another configuration is in force */
void follow_links_changed(struct parent *p);                    /* our own addresses may be others */
void follow_send_hosts(struct parent *p, const struct config *c, enum ipc_list_reason reason);
void follow_look(struct parent *p, uint64_t now_ms);            /* sends hosts files that changed; begins a change when resolv.conf did */
void follow_failed(struct parent *p);                           /* that change is not in force */
/* requests.c */
int requests_open(struct parent *p);
void requests_accept(struct parent *p, uint64_t now_ms);
void requests_read(struct parent *p, unsigned i);
void requests_expire(struct parent *p, uint64_t now_ms);
void request_answer(int fd, bool ok, const char *text); /* writes the line, closes fd */
/* parent.c */
void parent_alarm(struct parent *p, const char *key, const char *text); /* "": it is over */
void parent_reload(struct parent *p, int client_fd);
void parent_refresh(struct parent *p, struct config *c, struct buf *bundle); /* takes both: the text in force with another resolv.conf. No change may be under way */
/* privileges.c */
int drop_to_enforcer(void);
int drop_to_server(uid_t uid, gid_t gid, int state_fd);
/* notify.c */
int notify_open(void);
void notify_send(int fd, const char *text);
