/* SPDX-License-Identifier: GPL-3.0-or-later */
/* systemd's notify protocol: datagrams to $NOTIFY_SOCKET. Nothing happens without one. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "daemon/parent_private.h"

int notify_open(void)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	if (!path || strlen(path) >= sizeof sa.sun_path || (path[0] != '/' && path[0] != '@'))
		return -1;
	memcpy(sa.sun_path, path, strlen(path));
	if (path[0] == '@')
		sa.sun_path[0] = 0;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&sa, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path))) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

void notify_send(int fd, const char *text)
{
	if (fd >= 0)
		(void)!send(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL);
}
