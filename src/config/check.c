/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What this machine lacks for a configuration: warnings, for --check. Reads the file system and /proc; changes nothing. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <net/if.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "config/config.h"

struct checking {
	const struct config *c;
	struct report *r;
};

static void files_check(struct checking *k)
{
	for (unsigned i = 0; i < k->c->list_count; i++) {
		const struct cfg_list *list = &k->c->lists[i];
		for (unsigned j = 0; j < list->file_count; j++) {
			glob_t found;
			int r = glob(list->files[j], 0, NULL, &found);
			if (r == 0 && access(found.gl_pathv[0], R_OK) < 0)
				report_add(k->r, false, &list->place, "list `%s`: %s cannot be read: %s", list->name,
				        found.gl_pathv[0], strerror(errno));
			else if (r == GLOB_NOMATCH && access(list->files[j], R_OK) < 0)
				report_add(k->r, false, &list->place,
				        "list `%s`: there is no file %s; the list stays empty until there is", list->name,
				        list->files[j]);
			if (r == 0)
				globfree(&found);
		}
	}
}

static void hosts_check(struct checking *k)
{
	for (unsigned i = 0; i < k->c->local.host_count; i++)
		if (access(k->c->local.hosts[i], R_OK) < 0)
			report_add(k->r, false, NULL, "`local.hosts`: %s cannot be read: %s; its names are answered when it is there",
			        k->c->local.hosts[i], strerror(errno));
}

static void ifname_check(struct checking *k, const struct place *p, const char *what, const char *ifname)
{
	if (*ifname && !if_nametoindex(ifname))
		report_add(k->r, false, p, "%s: there is no interface `%s` now; it is used when it comes", what, ifname);
}

static void interfaces_check(struct checking *k)
{
	const struct config *c = k->c;
	for (unsigned i = 0; i < c->server.listen_count; i++)
		ifname_check(k, &c->server.listen[i].place, "`listen`", c->server.listen[i].ifname);
	for (unsigned i = 0; i < c->group_count; i++) {
		const struct cfg_group *g = &c->groups[i];
		for (unsigned j = 0; j < g->interface_count; j++)
			ifname_check(k, &g->place, "`clients`", g->interfaces[j]);
		for (unsigned j = 0; j < g->except_interface_count; j++)
			ifname_check(k, &g->place, "`clients`", g->except_interfaces[j]);
	}
	for (unsigned i = 0; i < c->way_count; i++)
		ifname_check(k, &c->ways[i].place, "`ways`", c->ways[i].interface);
	for (unsigned i = 0; i < c->hijack.interface_count; i++)
		ifname_check(k, NULL, "`hijack-dns`", c->hijack.interfaces[i]);
}

/* A number of /proc/sys/net, or -1. */
static int sysctl_read(const char *family, const char *ifname, const char *key)
{
	char path[128], text[16];
	if (ifname)
		snprintf(path, sizeof path, "/proc/sys/net/%s/conf/%s/%s", family, ifname, key);
	else
		snprintf(path, sizeof path, "/proc/sys/net/%s/%s", family, key);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t n = read(fd, text, sizeof text - 1);
	close(fd);
	if (n <= 0)
		return -1;
	text[n] = 0;
	return atoi(text);
}

static void forwarding_check(struct checking *k)
{
	const struct config *c = k->c;
	bool has_interface = false;
	for (unsigned i = 0; i < c->way_count; i++)
		has_interface |= *c->ways[i].interface;
	if (!has_interface)
		return;
	if (sysctl_read("ipv4", NULL, "ip_forward") == 0)
		report_add(k->r, false, NULL, "IPv4 packets of clients are not forwarded; set net.ipv4.ip_forward=1");
	bool forwards_v6 = sysctl_read("ipv6", "all", "forwarding") == 1;
	for (unsigned i = 0; i < c->way_count; i++) {
		const struct cfg_way *w = &c->ways[i];
		if (!*w->interface)
			continue;
		if (forwards_v6 && !w->ipv6_off && sysctl_read("ipv6", w->interface, "accept_ra") == 1)
			report_add(k->r, false, &w->place,
			        "way `%s`: a router takes no IPv6 default route from `%s`; set net.ipv6.conf.%s.accept_ra=2 if "
			        "it comes by "
			        "router advertisement",
			        w->name, w->interface, w->interface);
	}
}

static void user_check(struct checking *k)
{
	const char *user = k->c->server.user;
	if (!getpwnam(user))
		report_add(k->r, false, NULL,
		        "`server.user`: there is no user `%s`; make it: useradd --system --no-create-home %s", user, user);
}

void config_check_system(const struct config *c, struct report *r)
{
	struct checking k = {c, r};
	user_check(&k);
	files_check(&k);
	hosts_check(&k);
	interfaces_check(&k);
	forwarding_check(&k);
}
