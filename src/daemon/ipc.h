/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Parent and server: fixed messages over one SOCK_SEQPACKET pair, at most two descriptors each. The parent checks everything the server asks for
 * against the configuration it parsed itself. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ipc_type {
	/* parent to server */
	IPC_CONFIG = 1,      /* fd: bundle; serial. Answered by IPC_PREPARED when its lists are loaded and the kernel's sets are filled */
	IPC_FINISH,          /* serial: every list's files were sent */
	IPC_COMMIT,          /* serial: serve by it. Answered by IPC_COMMITTED */
	IPC_ABANDON,
	IPC_SOCKET,          /* fd: a bound DNS socket; a worker, b key, c ifindex, flag: TCP */
	IPC_SOCKET_GONE,     /* b key: close it */
	IPC_LINKS,           /* fd: memfd of struct ipc_links and its arrays */
	IPC_LIST_FILE,       /* fd (none when a = total = 0); name: list, text: path; a index, b total, c reason (enum ipc_list_reason) */
	IPC_CONTROL,         /* fd: the client, fd2: memfd of the request; a uid, flag: may change */
	IPC_WAY_SOCKET,      /* fd; a group, b server, flag: TCP; serial */
	IPC_ENFORCER_NEW,    /* send prefixes and holds again; answered by IPC_RESTORED with the same serial, which here only counts */
	IPC_ALARM,           /* name: key, text: what (empty: over) */
	IPC_STOP,
	IPC_HOSTS_FILE,      /* fd (none: result says why, -ENOENT when it is not there); text: path; a index, b total of those sent together, c reason */
	/* server to parent */
	IPC_PREPARED = 100,  /* serial, result, text */
	IPC_COMMITTED,
	IPC_RESTORED,
	IPC_WANT_WAY_SOCKET, /* a group, b server, flag: TCP; serial */
	IPC_WANT_LIST,       /* name: list; c reason */
};
enum ipc_list_reason { LIST_AT_CONFIG = 0, LIST_WATCHED = 1, LIST_ASKED = 2, LIST_ASKED_ACCEPT = 3 };

struct ipc_msg {
	uint16_t type, flag;
	uint32_t serial;
	int32_t result;
	uint32_t a, b, c;
	char name[64];
	char text[4096];
};

struct ipc_links { uint32_t link_count, network_count; /* then struct link_entry[], struct prefix[] */ };

int ipc_send(int fd, const struct ipc_msg *m, int fd1, int fd2);              /* fds are not closed; waits at most IPC_WAIT_MS for room; 0 or -errno */
int ipc_send_now(int fd, const struct ipc_msg *m);                            /* no descriptor, never waits: for workers; -EAGAIN when there is no room */
int ipc_receive(int fd, struct ipc_msg *ret, int *ret_fd1, int *ret_fd2);     /* non-blocking: -EAGAIN; -EPIPE: the peer is gone; fds -1 when absent */
int ipc_memfd(const char *name, const void *bytes, size_t len);               /* sealed; -errno */
int ipc_read_memfd(int fd, void **ret, size_t *ret_len, size_t max);          /* malloc'ed copy with a NUL behind; closes fd */
enum { IPC_WAIT_MS = 2000 };
