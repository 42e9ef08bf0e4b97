/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Checks of ways that have a link: an ICMP echo through the way, or the age of WireGuard's last handshake. Three misses in a
 * row take a way down, two answers in a row (one fresh handshake) bring it up. A way is taken for good until its check says
 * otherwise; a new link starts anew.
 *
 * Sockets carry the way's mark and are bound to its interface, so they go out by the way's own table also while it is down.
 * An idle tunnel makes no handshake by itself: before one grows too old a datagram is sent through it. */
#include <errno.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <linux/icmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "base/clock.h"
#include "steer/ways_internal.h"

enum { MISSES_DOWN = 3, ANSWERS_UP = 2, HANDSHAKE_LOOK_MS = 5000, DISCARD_PORT = 9 };

static bool has_check(const struct cfg_way *c)
{
	return c->interface[0] && (c->check_ping.family || c->handshake_age_s);
}

void check_drop(struct ways *w, struct way_check *k)
{
	(void)w; /* closing takes the socket out of the epoll set */
	if (k->fd >= 0)
		close(k->fd);
	*k = (struct way_check){.fd = -1};
}

static int bind_to_way(int fd, const struct cfg_way *c)
{
	if (setsockopt(fd, SOL_SOCKET, SO_MARK, &c->mark, sizeof c->mark) < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, c->interface, (socklen_t)strlen(c->interface) + 1) < 0)
		return -errno;
	return 0;
}

static void replies_only(int fd, bool is_v4)
{
	struct icmp_filter f4 = {.data = ~(1u << ICMP_ECHOREPLY)};
	struct icmp6_filter f6;
	ICMP6_FILTER_SETBLOCKALL(&f6);
	ICMP6_FILTER_SETPASS(ICMP6_ECHO_REPLY, &f6);
	/* Only spares wake-ups: whatever comes is looked at in check_read. */
	(void)(is_v4 ? setsockopt(fd, SOL_RAW, ICMP_FILTER, &f4, sizeof f4)
	             : setsockopt(fd, IPPROTO_ICMPV6, ICMP6_FILTER, &f6, sizeof f6));
}

static int echo_open(struct ways *w, unsigned way)
{
	struct way_run *r = &w->cur->way[way];
	const struct addr *to = &r->c->check_ping;
	bool is_v4 = to->family == AF_INET;
	int fd = socket(to->family, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, is_v4 ? IPPROTO_ICMP : IPPROTO_ICMPV6);
	if (fd < 0)
		return -errno;
	replies_only(fd, is_v4);
	struct sockaddr_storage sa;
	socklen_t len = endpoint_to_sockaddr(&sa, &(struct endpoint){.addr = *to, .scope = (uint32_t)r->ifindex});
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = way};
	int e = bind_to_way(fd, r->c);
	if (e == 0 && connect(fd, (struct sockaddr *)&sa, len) < 0)
		e = -errno;
	if (e == 0 && epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
		e = -errno;
	if (e < 0) {
		close(fd);
		return e;
	}
	r->check.fd = fd;
	r->check.ident = ++w->ident_next;
	return 0;
}

static uint16_t checksum(const void *bytes, size_t len)
{
	const uint16_t *v = bytes;
	uint32_t sum = 0;
	for (size_t i = 0; i < len / 2; i++)
		sum += v[i];
	sum = (sum >> 16) + (sum & 0xffff);
	return (uint16_t) ~(sum + (sum >> 16));
}

static void echo_send(struct ways *w, unsigned way)
{
	struct way_check *k = &w->cur->way[way].check;
	bool is_v4 = w->cur->way[way].c->check_ping.family == AF_INET;
	/* A failure to open or send is a missed answer; the next turn tries again. */
	k->is_waiting = true;
	k->sequence++;
	if (k->fd < 0 && echo_open(w, way) < 0)
		return;
	uint16_t m[8] = {htons(is_v4 ? ICMP_ECHO << 8 : ICMP6_ECHO_REQUEST << 8), 0, htons(k->ident), htons(k->sequence)};
	if (is_v4)
		m[1] = checksum(m, sizeof m);
	(void)send(k->fd, m, sizeof m, MSG_DONTWAIT);
}

static void judge(struct way_check *k, bool is_answered, unsigned answers_up, bool *ret_changed, const char *reason)
{
	k->misses = is_answered ? 0 : k->misses + 1;
	k->answers = is_answered ? k->answers + 1 : 0;
	bool is_down = k->is_down ? k->answers < answers_up : k->misses >= MISSES_DOWN;
	if (is_down && !k->is_down)
		snprintf(k->reason, sizeof k->reason, "%s", reason);
	*ret_changed |= is_down != k->is_down;
	k->is_down = is_down;
}

/* An echo reply that is ours, IP header and all for IPv4. */
static bool is_our_reply(const struct way_check *k, const uint8_t *b, size_t len, bool is_v4)
{
	size_t skip = is_v4 && len ? (size_t)(b[0] & 15) * 4 : 0;
	if (len < skip + 8 || b[skip] != (is_v4 ? ICMP_ECHOREPLY : ICMP6_ECHO_REPLY))
		return false;
	b += skip;
	return (b[4] << 8 | b[5]) == k->ident && (b[6] << 8 | b[7]) == k->sequence;
}

void check_read(struct ways *w, unsigned way, bool *ret_changed)
{
	if (!w->cur || way >= w->cur->count || w->cur->way[way].check.fd < 0)
		return;
	struct way_check *k = &w->cur->way[way].check;
	bool is_v4 = w->cur->way[way].c->check_ping.family == AF_INET;
	uint8_t bytes[512];
	for (int n = 0; n < 64; n++) {
		ssize_t got = recv(k->fd, bytes, sizeof bytes, MSG_DONTWAIT);
		if (got < 0 && errno != EAGAIN && errno != EINTR)
			continue; /* an ICMP error of the socket; reading clears it */
		if (got < 0)
			return;
		if (!k->is_waiting || !is_our_reply(k, bytes, (size_t)got, is_v4))
			continue;
		k->is_waiting = false;
		judge(k, true, ANSWERS_UP, ret_changed, "");
	}
}

static void echo_turn(struct ways *w, unsigned way, bool *ret_changed)
{
	struct way_run *r = &w->cur->way[way];
	char text[ADDR_TEXT_MAX], reason[96];
	if (r->check.is_waiting) {
		snprintf(reason, sizeof reason, "no answer from %s to %d pings in a row", addr_print(text, &r->c->check_ping),
		        MISSES_DOWN);
		judge(&r->check, false, ANSWERS_UP, ret_changed, reason);
	}
	echo_send(w, way);
}

static void newest_take(void *ctx, const struct wg_peer *p)
{
	int64_t *newest = ctx;
	if (p->handshake_s > *newest)
		*newest = p->handshake_s;
}

/* Any datagram makes WireGuard renew its handshake; the way's upstream, else an address nobody has. */
static void nudge(const struct ways *w, const struct way_run *r)
{
	bool has_v4 = false;
	for (unsigned i = 0; i < w->addr_count; i++)
		has_v4 |= w->addrs[i].ifindex == r->ifindex && w->addrs[i].addr.family == AF_INET;
	struct endpoint to = {.port = DISCARD_PORT};
	const struct config *c = w->cur->config;
	(void)addr_parse(&to.addr, has_v4 ? "192.0.2.1" : "2001:db8::1");
	for (unsigned i = 0; r->c->upstream >= 0 && i < c->upstreams[r->c->upstream].server_count; i++)
		if (c->upstreams[r->c->upstream].servers[i].addr.family == to.addr.family)
			to.addr = c->upstreams[r->c->upstream].servers[i].addr;
	int fd = socket(to.addr.family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	struct sockaddr_storage sa;
	socklen_t len = endpoint_to_sockaddr(&sa, &to);
	if (bind_to_way(fd, r->c) == 0)
		(void)sendto(fd, "", 1, MSG_DONTWAIT, (struct sockaddr *)&sa, len);
	close(fd);
}

static void handshake_turn(struct ways *w, struct way_run *r, bool *ret_changed)
{
	int64_t newest = 0, limit = r->c->handshake_age_s;
	char reason[96];
	int e = wg_peers(w, r->c->interface, newest_take, &newest);
	int64_t age = newest ? clock_wall_s() - newest : INT64_MAX;
	if (e < 0)
		snprintf(reason, sizeof reason, "%.15s does not tell WireGuard handshakes; mend: check it by `ping:`",
		        r->c->interface);
	else if (!newest)
		snprintf(reason, sizeof reason, "no WireGuard handshake yet");
	else
		snprintf(reason, sizeof reason, "the last WireGuard handshake is older than %lld s", (long long)limit);
	if (e >= 0 && age > limit * 2 / 3)
		nudge(w, r);
	judge(&r->check, e >= 0 && age <= limit, 1, ret_changed, reason);
}

static uint32_t period_ms(const struct cfg_way *c)
{
	uint32_t ms = c->check_every_ms ? c->check_every_ms : HANDSHAKE_LOOK_MS;
	if (!c->check_ping.family && ms > c->handshake_age_s * 250)
		ms = c->handshake_age_s * 250;
	return ms < 100 ? 100 : ms;
}

void checks_turn(struct ways *w, uint64_t now_ms, bool *ret_changed)
{
	for (unsigned i = 0; w->cur && i < w->cur->count; i++) {
		struct way_run *r = &w->cur->way[i];
		if (!has_check(r->c))
			continue;
		if (!r->has_link || (r->check.ifindex && r->check.ifindex != r->ifindex)) {
			*ret_changed |= r->check.is_down;
			check_drop(w, &r->check);
		}
		if (!r->has_link || now_ms < r->check.next_ms)
			continue;
		r->check.ifindex = r->ifindex;
		r->check.next_ms = now_ms + period_ms(r->c);
		if (r->c->check_ping.family)
			echo_turn(w, i, ret_changed);
		else
			handshake_turn(w, r, ret_changed);
	}
}

uint64_t checks_next_ms(const struct ways *w)
{
	uint64_t next = UINT64_MAX;
	for (unsigned i = 0; w->cur && i < w->cur->count; i++) {
		const struct way_run *r = &w->cur->way[i];
		if (has_check(r->c) && r->has_link && r->check.next_ms < next)
			next = r->check.next_ms;
	}
	return next;
}
