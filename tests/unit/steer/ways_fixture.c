/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "ways_fixture.h"
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"

static char output[65536];

static int shell(const char *fmt, va_list args)
{
	char command[2048];
	int n = vsnprintf(command, sizeof command - 8, fmt, args);
	assert_true(n > 0 && n < (int)sizeof command - 8);
	strcat(command, " 2>&1");
	FILE *f = popen(command, "r");
	assert_non_null(f);
	size_t got = fread(output, 1, sizeof output - 1, f);
	output[got] = 0;
	int status = pclose(f);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

int run(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	int status = shell(fmt, args);
	va_end(args);
	return status;
}

void must(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	int status = shell(fmt, args);
	va_end(args);
	if (status)
		fail_msg("`%s` failed: %s", fmt, output);
}

char *text_of(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	(void)shell(fmt, args);
	va_end(args);
	return output;
}

int world_permitted(void)
{
	if (unshare(CLONE_NEWNET) == 0)
		return 1;
	printf("skipped: network namespaces are not permitted here (%s)\n", strerror(errno));
	return 0;
}

static pid_t other_start(void)
{
	int ready[2];
	char c;
	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ready[0]);
		if (unshare(CLONE_NEWNET) == 0 && write(ready[1], "x", 1) == 1)
			for (;;)
				pause();
		_exit(1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

void world_config(struct world *x)
{
	memset(&x->c, 0, sizeof x->c);
	memset(x->ways, 0, sizeof x->ways);
	memset(x->steers, 0, sizeof x->steers);
	memset(x->groups, 0, sizeof x->groups);
	memset(x->listen, 0, sizeof x->listen);
	x->c.server.mark_mask = 0xf000;
	x->ways[WAY_ONE] = (struct cfg_way){.name = "tunnel1",
	        .interface = "wg1",
	        .mark = 0x1000,
	        .table_id = 101,
	        .upstream = -1,
	        .kill_switch = true,
	        .local_access = true,
	        .fallback = WAY_DIRECT};
	x->ways[WAY_TWO] = (struct cfg_way){.name = "tunnel2",
	        .interface = "wg2",
	        .mark = 0x2000,
	        .table_id = 102,
	        .upstream = -1,
	        .local_access = true,
	        .fallback = WAY_DIRECT};
	x->ways[WAY_DIRECT] =
	        (struct cfg_way){.name = "direct", .mark = 0x3000, .upstream = -1, .local_access = true, .fallback = -1};
	x->c.ways = x->ways;
	x->c.way_count = WORLD_WAYS;
	strcpy(x->lan[0], "lan");
	x->groups[0] = (struct cfg_group){.name = "lan", .interfaces = x->lan, .interface_count = 1};
	x->c.groups = x->groups;
	x->c.group_count = 1;
	x->group_ids[0] = 0;
	x->group_ids[1] = 1;
	x->steers[0] = (struct cfg_steer){.name = "one", .enabled = true, .clients = {x->group_ids, 1}, .way = WAY_ONE};
	x->c.steers = x->steers;
	x->c.steer_count = 1;
}

static void interface_make(pid_t other, const char *name, int net)
{
	must("ip link add %s type veth peer name %s netns %d", name, name, other);
	must("ip link set %s up && ip addr add 10.%d.0.1/24 dev %s && ip addr add 2001:db8:%d::1/64 dev %s nodad", name, net,
	        name, net, name);
	must(IN "ip link set %s up && " IN "ip addr add 10.%d.0.2/24 dev %s && " IN "ip addr add 2001:db8:%d::2/64 dev %s nodad",
	        other, name, other, net, name, other, net, name);
}

int world_new(void **state)
{
	struct world *x = calloc(1, sizeof *x);
	assert_non_null(x);
	assert_int_equal(unshare(CLONE_NEWNET), 0);
	x->far = other_start();
	x->client = other_start();
	must("ip link set lo up && sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.all.rp_filter=0 "
	     "net.ipv4.conf.default.rp_filter=0");
	/* Duplicate address detection would make the first second of every interface a matter of luck. */
	must("sysctl -qw net.ipv6.conf.default.accept_dad=0 && " IN "sysctl -qw net.ipv6.conf.default.accept_dad=0 && " IN
	     "sysctl -qw net.ipv6.conf.default.accept_dad=0",
	        x->far, x->client);
	/* The far side answers pings to 9.9.9.9 and 2001:db8:9::9. */
	must(IN "ip link set lo up && " IN "ip addr add 9.9.9.9/32 dev lo && " IN "ip addr add 2001:db8:9::9/128 dev lo nodad",
	        x->far, x->far, x->far);
	interface_make(x->client, "lan", 1);
	must(IN "ip route add default via 10.1.0.1 && " IN "ip -6 route add default via 2001:db8:1::1", x->client, x->client);
	interface_make(x->far, "wg1", 2);
	interface_make(x->far, "wg2", 3);
	interface_make(x->far, "wan", 4);
	must("ip route add default via 10.4.0.2 && ip -6 route add default via 2001:db8:4::2");
	world_config(x);
	assert_int_equal(ways_open(&x->w), 0);
	*state = x;
	return 0;
}

int world_free(void **state)
{
	struct world *x = *state;
	ways_close(x->w);
	kill(x->far, SIGKILL);
	kill(x->client, SIGKILL);
	waitpid(x->far, NULL, 0);
	waitpid(x->client, NULL, 0);
	free(x);
	return 0;
}

bool turn_until(struct world *x, bool (*holds)(struct world *x), uint64_t *took_ms)
{
	uint64_t start = clock_ms(), next;
	int fds[WAYS_FDS_MAX];
	for (;;) {
		ways_turn(x->w, clock_ms(), &next);
		if (took_ms)
			*took_ms = clock_ms() - start;
		if (holds(x))
			return true;
		uint64_t now = clock_ms();
		if (now - start > 10000)
			return false;
		assert_int_equal(ways_fds(x->w, fds), 1);
		struct pollfd p = {.fd = fds[0], .events = POLLIN};
		uint64_t wait = next > now ? next - now : 0;
		poll(&p, 1, wait < 1000 ? (int)wait : 1000);
	}
}

void apply(struct world *x)
{
	assert_int_equal(ways_configure(x->w, &x->c), 0);
	int e = ways_apply(x->w, WAYS_APPLY_ALL);
	if (e < 0)
		fail_msg("ways_apply: %d %s", e, ways_error(x->w));
}

const char *exit_of(unsigned mark, const char *iif, int family)
{
	static char name[32];
	const char *text = family == 6 ? text_of("ip -6 route get 2001:db8:9::9 from 2001:db8:1::2 iif %s mark 0x%x", iif, mark)
	                               : text_of("ip route get 9.9.9.9 from 10.1.0.2 iif %s mark 0x%x", iif, mark);
	const char *dev = strstr(text, " dev ");
	name[0] = 0;
	if (dev && strncmp(text, "unreachable", 11) && strncmp(text, "blackhole", 9))
		sscanf(dev, " dev %31s", name);
	return name;
}
