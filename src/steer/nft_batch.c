/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The netlink transport: one socket for requests (its port id owns the table), batches, acknowledgements and the kernel's own words.
 * nf_tables works on a batch inside sendmsg, so every reply is queued when it returns; the poll below is only a bound for kernels that answer later.
 * The last message of a batch asks for an acknowledgement; each refused message gets its own error. One thread. */
#include "steer/nft_internal.h"
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <linux/netfilter/nfnetlink.h>
#include "base/clock.h"
#include "base/err.h"

#ifndef NFNL_BATCH_GENID
#define NFNL_BATCH_GENID 1
#endif
enum { MESSAGE_ROOM = 72 << 10, /* larger than any message: attributes end at 64 KiB */ KEEP_BYTES = 1 << 20, DUMP_WAIT_MS = 5000 };

int nft_fail(struct nft *n, int r, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	vsnprintf(n->error, sizeof(n->error), fmt, args);
	va_end(args);
	return r;
}

const char *nft_error(const struct nft *n)
{
	return n->error;
}

bool nft_is_protected(const struct nft *n)
{
	return n->is_protected;
}

static bool kernel_is_at_least(int major, int minor)
{
	struct utsname u;
	int a, b;

	if (uname(&u) < 0 || sscanf(u.release, "%d.%d", &a, &b) != 2)
		return false;
	return a > major || (a == major && b >= minor);
}

static struct mnl_socket *open_socket(unsigned groups)
{
	const int on = 1, size = 4 << 20;
	struct mnl_socket *s = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (!s)
		return NULL;
	if (mnl_socket_bind(s, groups, MNL_SOCKET_AUTOPID) < 0) {
		mnl_socket_close(s);
		return NULL;
	}
	mnl_socket_setsockopt(s, NETLINK_EXT_ACK, (void *)&on, sizeof(on));
	mnl_socket_setsockopt(s, NETLINK_CAP_ACK, (void *)&on, sizeof(on));
	if (setsockopt(mnl_socket_get_fd(s), SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0)
		setsockopt(mnl_socket_get_fd(s), SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	return s;
}

int nft_open(struct nft **ret, const struct nft_options *o)
{
	struct nft *n = calloc(1, sizeof(*n));
	int r = -ENOMEM;

	if (!n)
		return -ENOMEM;
	n->can_ct_timeout = true;
	n->want_protect = o->is_protected;
	n->can_protect = !o->no_owner;
	n->can_destroy = !o->no_destroy;
	n->can_update = !o->no_renew && kernel_is_at_least(6, 13);
	n->receive = malloc(NFT_RECEIVE_LEN);
	if (!n->receive)
		goto fail;
	n->request = open_socket(0);
	if (!n->request) {
		r = -errno;
		goto fail;
	}
	n->port_id = mnl_socket_get_portid(n->request);
	n->seq = (uint32_t)clock_us();
	n->events = open_socket(1 << (NFNLGRP_NFTABLES - 1));
	if (!n->events || (r = nft_events_filter(n)) < 0) {
		r = n->events ? r : -errno;
		goto fail;
	}
	n->is_listening = true;
	*ret = n;
	return 0;
fail:
	nft_close(n);
	return r;
}

void nft_close(struct nft *n)
{
	if (!n)
		return;
	if (n->request)
		mnl_socket_close(n->request);
	if (n->events)
		mnl_socket_close(n->events);
	nft_batch_free(&n->batch);
	free(n->receive);
	free(n);
}

static bool reserve(struct nft_batch *b, size_t more)
{
	size_t cap = b->cap ? b->cap : 2 * MESSAGE_ROOM;
	uint8_t *bytes;

	if (b->failed)
		return false;
	if (b->len + more <= b->cap)
		return true;
	while (cap < b->len + more)
		cap *= 2;
	if (cap > NFT_BATCH_MAX_BYTES) {
		b->failed = NW_ETOOLONG;
		return false;
	}
	bytes = realloc(b->bytes, cap);
	if (!bytes) {
		b->failed = -ENOMEM;
		return false;
	}
	b->bytes = bytes;
	b->cap = cap;
	return true;
}

static struct nlmsghdr *message(struct nft *n, struct nft_batch *b, uint16_t nl_type, uint16_t flags, uint8_t family, uint16_t res_id)
{
	struct nlmsghdr *h;
	struct nfgenmsg *g;

	if (!reserve(b, MESSAGE_ROOM))
		return NULL;
	h = mnl_nlmsg_put_header(b->bytes + b->len);
	h->nlmsg_type = nl_type;
	h->nlmsg_flags = NLM_F_REQUEST | flags;
	h->nlmsg_seq = ++n->seq;
	g = mnl_nlmsg_put_extra_header(h, sizeof(*g));
	g->nfgen_family = family;
	g->version = NFNETLINK_V0;
	g->res_id = htons(res_id);
	b->open = h;
	b->last_seq = h->nlmsg_seq;
	return h;
}

void nft_batch_begin(struct nft *n, struct nft_batch *b, const uint32_t *genid)
{
	struct nlmsghdr *h;

	if (b->cap > KEEP_BYTES)
		nft_batch_free(b);
	b->len = 0;
	b->failed = 0;
	b->set_id = 0;
	b->has_genid = genid;
	h = message(n, b, NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
	if (!h)
		return;
	b->first_seq = h->nlmsg_seq;
	if (genid)
		mnl_attr_put_u32(h, NFNL_BATCH_GENID, htonl(*genid));
	nft_batch_message_end(b);
}

void nft_batch_free(struct nft_batch *b)
{
	free(b->bytes);
	memset(b, 0, sizeof(*b));
}

struct nlmsghdr *nft_batch_message(struct nft *n, struct nft_batch *b, uint16_t type, uint16_t flags)
{
	return message(n, b, (NFNL_SUBSYS_NFTABLES << 8) | type, flags, NFPROTO_INET, 0);
}

void nft_batch_message_end(struct nft_batch *b)
{
	if (!b->failed)
		b->len += NLMSG_ALIGN(b->open->nlmsg_len);
}

const struct nlattr *nft_attr_find(const struct nlmsghdr *h, uint16_t type)
{
	const struct nlattr *a;

	mnl_attr_for_each(a, h, sizeof(struct nfgenmsg)) {
		if (mnl_attr_get_type(a) == type)
			return a;
	}
	return NULL;
}

const struct nlattr *nft_attr_find_in(const struct nlattr *nest, uint16_t type)
{
	const struct nlattr *a;

	mnl_attr_for_each_nested(a, nest) {
		if (mnl_attr_get_type(a) == type)
			return a;
	}
	return NULL;
}

/* What a refused message wanted, in words: "adding elements of r0000002a_4". The message still stands in the batch. */
static const char *describe(const struct nft_batch *b, uint32_t seq, uint16_t *ret_type, char text[128])
{
	static const struct { uint8_t type, name_attr; const char *words; } known[] = {
		{ NFT_MSG_NEWTABLE, NFTA_TABLE_NAME, "adding table" }, { NFT_MSG_DELTABLE, NFTA_TABLE_NAME, "deleting table" },
		{ NFT_MSG_NEWCHAIN, NFTA_CHAIN_NAME, "adding chain" }, { NFT_MSG_DELCHAIN, NFTA_CHAIN_NAME, "deleting chain" },
		{ NFT_MSG_NEWRULE, NFTA_RULE_CHAIN, "adding a rule of chain" }, { NFT_MSG_DELRULE, NFTA_RULE_TABLE, "flushing the rules of" },
		{ NFT_MSG_NEWSET, NFTA_SET_NAME, "adding set" }, { NFT_MSG_DELSET, NFTA_SET_NAME, "deleting set" },
		{ NFT_MSG_NEWSETELEM, NFTA_SET_ELEM_LIST_SET, "adding elements of set" },
		{ NFT_MSG_DELSETELEM, NFTA_SET_ELEM_LIST_SET, "deleting elements of set" },
		{ NFT_MSG_DESTROY_ELEMENT, NFTA_SET_ELEM_LIST_SET, "deleting elements of set" },
		{ NFT_MSG_NEWOBJ, NFTA_OBJ_NAME, "adding object" }, { NFT_MSG_DELOBJ, NFTA_OBJ_NAME, "deleting object" },
	};
	const struct nlmsghdr *h = (const struct nlmsghdr *)b->bytes;
	int left = (int)b->len;

	*ret_type = UINT16_MAX;
	snprintf(text, 128, "transaction");
	for (; mnl_nlmsg_ok(h, left); h = mnl_nlmsg_next(h, &left)) {
		if (h->nlmsg_seq != seq || h->nlmsg_type < NLMSG_MIN_TYPE + 2)
			continue;
		*ret_type = h->nlmsg_type & 0xff;
		for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
			const struct nlattr *a = known[i].type == *ret_type ? nft_attr_find(h, known[i].name_attr) : NULL;
			if (a)
				snprintf(text, 128, "%s %s", known[i].words, mnl_attr_get_str(a));
		}
		break;
	}
	return text;
}

/* The text of NLMSGERR_ATTR_MSG, or NULL. */
static const char *extended_text(const struct nlmsghdr *h)
{
	const struct nlmsgerr *e = mnl_nlmsg_get_payload(h);
	size_t skip = sizeof(*e);
	const struct nlattr *a;

	if (!(h->nlmsg_flags & NLM_F_ACK_TLVS))
		return NULL;
	if (!(h->nlmsg_flags & NLM_F_CAPPED))
		skip += mnl_nlmsg_get_payload_len(h) > skip ? e->msg.nlmsg_len - sizeof(e->msg) : 0;
	mnl_attr_for_each(a, h, skip) {
		if (mnl_attr_get_type(a) == NLMSGERR_ATTR_MSG && mnl_attr_validate(a, MNL_TYPE_NUL_STRING) >= 0)
			return mnl_attr_get_str(a);
	}
	return NULL;
}

static ssize_t receive(struct nft *n, int wait_ms)
{
	struct pollfd p = { .fd = mnl_socket_get_fd(n->request), .events = POLLIN };
	ssize_t len = recv(p.fd, n->receive, NFT_RECEIVE_LEN, MSG_DONTWAIT);

	if (len >= 0 || errno != EAGAIN || wait_ms <= 0)
		return len < 0 ? -errno : len;
	if (poll(&p, 1, wait_ms) <= 0)
		return -ETIMEDOUT;
	len = recv(p.fd, n->receive, NFT_RECEIVE_LEN, MSG_DONTWAIT);
	return len < 0 ? -errno : len;
}

/* Takes the replies to a batch. The first error counts; done when the last message was answered, or when errors came and no more are queued. */
static int collect(struct nft *n, const struct nft_batch *b, uint32_t ack_seq)
{
	const uint64_t deadline = clock_ms() + NFT_WAIT_MS;
	int r = 0;
	bool is_answered = false;
	char text[128];

	for (;;) {
		const uint64_t now = clock_ms();
		ssize_t len = receive(n, r < 0 || is_answered ? 0 : now < deadline ? (int)(deadline - now) : 1);
		const struct nlmsghdr *h = (const struct nlmsghdr *)n->receive;
		int left = (int)len;

		if (len == -EINTR)
			continue;
		if (len == -EAGAIN && (r < 0 || is_answered))
			return r;
		if (len < 0)
			return r < 0 ? r : nft_fail(n, (int)len, "no answer from nf_tables: %s", strerror((int)-len));
		for (; mnl_nlmsg_ok(h, left); h = mnl_nlmsg_next(h, &left)) {
			const struct nlmsgerr *e = mnl_nlmsg_get_payload(h);
			if (h->nlmsg_type != NLMSG_ERROR || h->nlmsg_seq - b->first_seq > b->last_seq - b->first_seq)
				continue;
			if (h->nlmsg_seq == ack_seq)
				is_answered = true;
			if (e->error < 0 && r == 0) {
				const char *more = extended_text(h);
				r = e->error;
				describe(b, h->nlmsg_seq, &n->failed_type, text);
				nft_fail(n, r, "%s: %s%s%s", text, strerror(-r), more ? ": " : "", more ? more : "");
			}
		}
		if (is_answered && r == 0)
			return 0;
	}
}

static int send_batch(struct nft *n, const struct nft_batch *b)
{
	const int fd = mnl_socket_get_fd(n->request);
	const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	const int wanted = (int)b->len + (64 << 10);

	if (wanted > n->send_buffer) {
		if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &wanted, sizeof(wanted)) < 0)
			setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &wanted, sizeof(wanted));
		n->send_buffer = wanted;
	}
	if (sendto(fd, b->bytes, b->len, 0, (const struct sockaddr *)&kernel, sizeof(kernel)) < 0)
		return nft_fail(n, -errno, "sending to nf_tables: %s", strerror(errno));
	return 0;
}

int nft_batch_commit(struct nft *n, struct nft_batch *b)
{
	const uint32_t ack_seq = b->last_seq;
	int r;

	n->failed_type = UINT16_MAX;
	if (!b->failed && ack_seq != b->first_seq) {
		b->open->nlmsg_flags |= NLM_F_ACK;
		if (message(n, b, NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES))
			nft_batch_message_end(b);
	}
	if (b->failed)
		return nft_fail(n, b->failed, "building the transaction: %s", nw_strerror(b->failed));
	if (ack_seq == b->first_seq)
		return 0;
	for (int attempt = 0;; attempt++) {
		r = send_batch(n, b);
		if (r == 0)
			r = collect(n, b, ack_seq);
		if (r == -ETIMEDOUT || attempt > 0)
			return r;
		/* Nothing was applied; the same bytes may be sent again, unless the batch was built on a generation that is gone. */
		if (!(r == -EINTR || r == -EAGAIN || (r == -ERESTART && !b->has_genid)))
			return r;
	}
}

struct nlmsghdr *nft_request_begin(uint8_t bytes[MNL_NLMSG_HDRLEN + 1024], uint16_t type, uint8_t family, uint16_t flags)
{
	struct nlmsghdr *h = mnl_nlmsg_put_header(bytes);
	struct nfgenmsg *g;

	h->nlmsg_type = (NFNL_SUBSYS_NFTABLES << 8) | type;
	h->nlmsg_flags = NLM_F_REQUEST | flags;
	g = mnl_nlmsg_put_extra_header(h, sizeof(*g));
	g->nfgen_family = family;
	g->version = NFNETLINK_V0;
	return h;
}

/* One datagram of answers. Returns 1 when the request is over, 0 to go on, or an error. */
static int take_answers(struct nft *n, ssize_t len, uint32_t seq, nft_answer_fn *cb, void *ctx, bool *is_disturbed)
{
	const struct nlmsghdr *h = (const struct nlmsghdr *)n->receive;
	int left = (int)len;

	for (; mnl_nlmsg_ok(h, left); h = mnl_nlmsg_next(h, &left)) {
		const struct nlmsgerr *e = mnl_nlmsg_get_payload(h);
		if (h->nlmsg_seq != seq)
			continue;
		if (h->nlmsg_flags & NLM_F_DUMP_INTR)
			*is_disturbed = true;
		if (h->nlmsg_type == NLMSG_ERROR)
			return e->error < 0 ? nft_fail(n, e->error, "reading nf_tables: %s", strerror(-e->error)) : 1;
		if (h->nlmsg_type == NLMSG_DONE)
			return 1;
		if (cb)
			cb(ctx, h);
	}
	return 0;
}

int nft_request(struct nft *n, struct nlmsghdr *h, nft_answer_fn *cb, void *ctx)
{
	const uint64_t deadline = clock_ms() + DUMP_WAIT_MS;
	bool is_disturbed = false;
	int r = 0;

	h->nlmsg_seq = ++n->seq;
	if (!(h->nlmsg_flags & NLM_F_DUMP))
		h->nlmsg_flags |= NLM_F_ACK;
	if (mnl_socket_sendto(n->request, h, h->nlmsg_len) < 0)
		return nft_fail(n, -errno, "asking nf_tables: %s", strerror(errno));
	while (r == 0) {
		ssize_t len = receive(n, NFT_WAIT_MS);
		if (len == -EINTR)
			continue;
		if (len < 0)
			return nft_fail(n, (int)len, "no answer from nf_tables: %s", strerror((int)-len));
		r = take_answers(n, len, h->nlmsg_seq, cb, ctx, &is_disturbed);
		if (r == 0 && clock_ms() > deadline)
			r = nft_fail(n, -ETIMEDOUT, "reading nf_tables took longer than %d ms", DUMP_WAIT_MS);
	}
	if (r < 0)
		return r;
	return is_disturbed ? -EINTR : 0;
}

static void take_generation(void *ctx, const struct nlmsghdr *h)
{
	const struct nlattr *a = nft_attr_find(h, NFTA_GEN_ID);

	if (a)
		*(uint32_t *)ctx = ntohl(mnl_attr_get_u32(a));
}

int nft_generation(struct nft *n, uint32_t *ret)
{
	uint8_t bytes[MNL_NLMSG_HDRLEN + 1024];

	return nft_request(n, nft_request_begin(bytes, NFT_MSG_GETGEN, AF_UNSPEC, 0), take_generation, ret);
}

void nft_set_protection(struct nft *n, bool is_protected)
{
	n->want_protect = is_protected;
}
