/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "nft_fixture.h"
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char lan[1][IFNAME_MAX] = { "br-lan" }, iot[1][IFNAME_MAX] = { "br-iot" };
static uint8_t iot_macs[1][6] = { { 2, 0, 0x5e, 0x10, 0, 1 } }, tv_macs[1][6] = { { 2, 0, 0x5e, 0x10, 0, 9 } };
static struct prefix iot_nets[1], tv_nets[1], tv_except[1], hijack_except[2];
static uint16_t one_lan[] = { GROUP_LAN }, one_iot[] = { GROUP_IOT }, one_tv[] = { GROUP_TV }, list0[] = { 0 }, list1[] = { 1 };

static struct prefix prefix(const char *text)
{
	struct prefix p;

	assert_int_equal(prefix_parse(&p, text), 0);
	return p;
}

void fixture_init(struct fixture *f)
{
	memset(f, 0, sizeof(*f));
	iot_nets[0] = prefix("192.168.20.0/24");
	tv_nets[0] = prefix("10.9.0.0/16");
	tv_except[0] = prefix("10.9.9.0/24");
	hijack_except[0] = prefix("192.168.8.9");
	hijack_except[1] = prefix("fd00::9");

	f->ways[WAY_DIRECT] = (struct cfg_way){ .name = "direct", .mark = MARK_DIRECT, .upstream = -1, .fallback = -1 };
	f->ways[WAY_T1] = (struct cfg_way){ .name = "tunnel1", .interface = "wg1", .mark = MARK_T1, .local_access = true, .masquerade = -1, .mss_clamp = -1, .table_id = 1001 };
	f->ways[WAY_T2] = (struct cfg_way){ .name = "tunnel2", .interface = "wg2", .mark = MARK_T2, .local_access = true, .masquerade = 0, .mss_clamp = 0, .table_id = 1002 };
	f->groups[GROUP_LAN] = (struct cfg_group){ .name = "lan", .interfaces = lan, .interface_count = 1 };
	f->groups[GROUP_IOT] = (struct cfg_group){ .name = "iot", .interfaces = iot, .interface_count = 1, .networks = iot_nets, .network_count = 1,
		.macs = iot_macs, .mac_count = 1 };
	f->groups[GROUP_TV] = (struct cfg_group){ .name = "tv", .interfaces = lan, .interface_count = 1, .networks = tv_nets, .network_count = 1,
		.except_networks = tv_except, .except_network_count = 1, .except_macs = tv_macs, .except_mac_count = 1 };
	f->steers[0] = (struct cfg_steer){ .name = "lan one", .enabled = true, .clients = { one_lan, 1 }, .names = { list0, 1 }, .way = WAY_T1, .id = RULE_LAN1 };
	f->steers[1] = (struct cfg_steer){ .name = "lan two", .enabled = true, .clients = { one_lan, 1 }, .except_clients = { one_tv, 1 },
		.names = { list1, 1 }, .except_names = { list0, 1 }, .way = WAY_T2, .id = RULE_LAN2 };
	f->steers[2] = (struct cfg_steer){ .name = "all but", .enabled = true, .clients = { one_iot, 1 }, .except_names = { list0, 1 }, .way = WAY_T2, .id = RULE_BUT };
	f->steers[3] = (struct cfg_steer){ .name = "router", .enabled = true, .has_gid = true, .gid = 10000, .way = WAY_T1, .id = RULE_GID };
	f->steers[4] = (struct cfg_steer){ .name = "rest", .enabled = true, .way = WAY_DIRECT, .id = RULE_REST };
	f->listens[0] = (struct cfg_listen){ .ifname = "br-lan", .ep = { .port = 53 } };
	f->listens[1] = (struct cfg_listen){ .ep = { .addr = address("127.0.0.1"), .port = 53 } };

	f->c.server = (struct cfg_server){ .listen = f->listens, .listen_count = 2, .mark_mask = MASK };
	f->c.ways = f->ways;
	f->c.way_count = WAYS;
	f->c.groups = f->groups;
	f->c.group_count = GROUPS;
	f->c.steers = f->steers;
	f->c.steer_count = 5;
	f->c.hijack = (struct cfg_hijack){ .is_on = true, .interfaces = lan, .interface_count = 1, .except = hijack_except, .except_count = 2, .dot_reject = true };
	strcpy(f->outside[0], "wan0");
	f->p2p[0] = 1 << WAY_T1;
	f->layout = (struct nft_layout){ .config = &f->c, .hijack_port = 5354, .way_is_p2p = f->p2p, .outside = f->outside, .outside_count = 1,
		.direct_mark = MARK_DIRECT };
}

struct nft *fixture_open(bool is_protected, bool is_older)
{
	const struct nft_options o = { .is_protected = is_protected, .no_owner = is_older, .no_renew = is_older, .no_destroy = is_older };
	struct nft *n = NULL;

	assert_int_equal(nft_open(&n, &o), 0);
	return n;
}

void fixture_apply(struct nft *n, const struct fixture *f)
{
	int r = nft_apply(n, &f->layout, NULL, 0, NULL, 0);

	if (r < 0)
		fail_msg("nft_apply: %d %s", r, nft_error(n));
}

void enter_namespace(void)
{
	if (unshare(CLONE_NEWNET) < 0) {
		fprintf(stderr, "skipped: this test needs a network namespace of its own (root, or CAP_SYS_ADMIN): %s\n", strerror(errno));
		exit(77);
	}
	if (access("/usr/sbin/nft", X_OK) < 0 && access("/sbin/nft", X_OK) < 0) {
		fprintf(stderr, "skipped: this test needs the nft program (package nftables)\n");
		exit(77);
	}
	must_run("ip link set lo up");
}

static int run_into(const char *command, char *out, size_t cap)
{
	char line[4096];
	size_t len = 0;
	FILE *p;

	snprintf(line, sizeof(line), "PATH=$PATH:/usr/sbin:/sbin; { %s ; } 2>&1", command);
	p = popen(line, "r");
	assert_non_null(p);
	while (len + 1 < cap) {
		size_t got = fread(out + len, 1, cap - 1 - len, p);
		if (got == 0)
			break;
		len += got;
	}
	out[len] = 0;
	return pclose(p);
}

char *run(const char *command)
{
	const size_t cap = 4 << 20;
	char *out = malloc(cap);

	assert_non_null(out);
	run_into(command, out, cap);
	return out;
}

void must_run(const char *command)
{
	char out[4096];

	if (run_into(command, out, sizeof(out)) != 0)
		fail_msg("%s: %s", command, out);
}

bool output_has(const char *command, const char *text)
{
	char *out = run(command);
	bool has = strstr(out, text);

	free(out);
	return has;
}

struct addr address(const char *text)
{
	struct addr a;

	assert_int_equal(addr_parse(&a, text), 0);
	return a;
}

struct nft_element element(uint32_t rule, const char *addr, uint32_t life_s)
{
	return (struct nft_element){ .rule_id = rule, .addr = address(addr), .life_s = life_s };
}
