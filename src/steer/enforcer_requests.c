/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the server may ask: put addresses into rule sets, take them out, and read; a rule's listed ranges are enforcer_ranges.c's. Requests of all channels that
 * wait are gathered, what the kernel does not have yet goes in one transaction, and each request is acknowledged after it. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "policy/policy.h"
#include "steer/enforcer_private.h"

/* SERVE_MS bounds one turn, so that kernel events are seen under any load. SERVE_MESSAGES are read from a channel at once. */
enum { SERVE_MS = 20, SERVE_MESSAGES = 16, GATHER_MESSAGES = 64, GATHER_ELEMENTS = GATHER_MESSAGES * STEER_BATCH_MAX, PUT_TRIES = 4 };

/* One turn's work; too big for the stack. */
static struct gathered {
	uint32_t number; /* from 1 */
	unsigned messages, puts, waits;
	struct { unsigned channel; struct steer_ack ack; } m[GATHER_MESSAGES];
	struct nft_element put[GATHER_ELEMENTS]; /* each address of a rule once, with the longest life asked for */
	int status[GATHER_ELEMENTS];
	struct { uint16_t message, place, put; } wait[GATHER_ELEMENTS];
} turn = { .number = 1 };

const struct cfg_steer *enforcer_rule(const struct enforcer *e, uint32_t rule_id, const struct policy_config **ret_in)
{
	const struct policy_config *pc[2] = { &e->next, &e->now };
	for (int k = 0; k < 2; k++)
		for (unsigned i = 0; pc[k]->config && i < pc[k]->config->steer_count; i++)
			if (pc[k]->config->steers[i].id == rule_id) {
				if (ret_in)
					*ret_in = pc[k];
				return &pc[k]->config->steers[i];
			}
	return NULL;
}

static bool is_upstream(const struct config *c, const struct addr *a)
{
	for (unsigned i = 0; i < c->upstream_count; i++)
		for (unsigned k = 0; k < c->upstreams[i].server_count; k++)
			if (addr_equal(&c->upstreams[i].servers[k].addr, a))
				return true;
	return false;
}

/* Addresses that steering never touches, whoever asks (docs/internals/steering.md). */
static bool is_exempt(const struct enforcer *e, const struct config *c, const struct cfg_steer *rule, const struct addr *a)
{
	if (policy_is_never_steered(c, rule, a))
		return true;
	return ways_is_own_address(e->ways, a) || is_upstream(c, a) || ways_is_endpoint(e->ways, a);
}

static bool take_token(struct enforcer *e, unsigned channel)
{
	struct bucket *b = &e->rate[channel];
	b->tokens += (double)(e->now_ms - b->at_ms) * ENFORCER_RATE / 1000;
	b->at_ms = e->now_ms;
	if (b->tokens > ENFORCER_BURST)
		b->tokens = ENFORCER_BURST;
	if (b->tokens < 1)
		return false;
	b->tokens -= 1;
	return true;
}

static int element_addr(struct addr *ret, const struct steer_element *in)
{
	memset(ret, 0, sizeof *ret);
	if (in->family == 4)
		memcpy(ret->b, in->addr, 4);
	else if (in->family == 6)
		memcpy(ret->b, in->addr, 16);
	else
		return NW_EMALFORMED;
	ret->family = in->family == 4 ? AF_INET : AF_INET6;
	return 0;
}

/* Queues it for the kernel; the same address asked for twice in one turn is put once, since the later of two lives would win. */
static int queue_put(struct element *el, unsigned message, unsigned place, uint32_t life_s)
{
	if (el->put_turn != turn.number) {
		el->put_turn = turn.number;
		el->put_at = turn.puts;
		turn.put[turn.puts++] = (struct nft_element){ .rule_id = el->rule_id, .addr = el->addr, .life_s = life_s };
	} else if (turn.put[el->put_at].life_s < life_s) {
		turn.put[el->put_at].life_s = life_s;
	}
	turn.wait[turn.waits].message = (uint16_t)message;
	turn.wait[turn.waits].place = (uint16_t)place;
	turn.wait[turn.waits++].put = (uint16_t)el->put_at;
	return -1;
}

/* Decides one element: an immediate status, or -1 after queueing it for the kernel. What is queued has its place in the mirror already: the kernel never
 * holds what a rebuilt table would lack. */
static int queue_element(struct enforcer *e, unsigned message, unsigned place, const struct steer_element *in)
{
	const struct policy_config *pc;
	const struct cfg_steer *rule = enforcer_rule(e, in->rule_id, &pc);
	struct addr a;
	if (!rule)
		return STEER_UNKNOWN;
	if (element_addr(&a, in) < 0 || is_exempt(e, pc->config, rule, &a))
		return STEER_SKIPPED;
	uint32_t life_s = in->life_s < 1 ? 1 : in->life_s > ENFORCER_LIFE_MAX_S ? ENFORCER_LIFE_MAX_S : in->life_s;
	struct element *have = elements_find(&e->elements, in->rule_id, &a);
	if (have) {
		have->stamp = atomic_load(&e->shared->stamp);
		if (have->expires_ms >= e->now_ms + life_s * 1000ull && !e->is_rebuild_due)
			return STEER_OK;
	}
	if (!take_token(e, turn.m[message].channel)) {
		e->counters_refused++;
		return STEER_FAILED;
	}
	if (!have && !(have = elements_add(&e->elements, in->rule_id, &a)))
		return STEER_FULL;
	have->stamp = atomic_load(&e->shared->stamp);
	return queue_put(have, message, place, life_s);
}

static void gather_add(struct enforcer *e, unsigned channel, const struct steer_add *in)
{
	unsigned m = turn.messages++;
	turn.m[m].channel = channel;
	struct steer_ack *ack = &turn.m[m].ack;
	ack->type = STEER_ACK;
	ack->count = in->count;
	ack->seq = in->seq;
	ack->stamp = atomic_fetch_add(&e->shared->stamp, 1) + 1;
	for (unsigned i = 0; i < in->count; i++) {
		int status = queue_element(e, m, i, &in->e[i]);
		ack->status[i] = status < 0 ? STEER_FAILED : (uint8_t)status;
	}
}

static void note_put(struct enforcer *e, const struct nft_element *put)
{
	struct element *el = elements_find(&e->elements, put->rule_id, &put->addr);
	uint64_t expires = e->now_ms + put->life_s * 1000ull;
	if (el && el->expires_ms < expires)
		el->expires_ms = expires;
}

/* r: the worst of a turn; 0: all went in, so what was said before is over. */
static void alarm_failed(struct enforcer *e, int r)
{
	if (r == 0 && !e->has_put_alarm)
		return;
	e->has_put_alarm = r < 0;
	if (r == 0) {
		alarm_clear(e->alarms, "set-full");
		alarm_clear(e->alarms, "nft");
	} else if (r == -ENOSPC)
		alarm_set(e->alarms, "set-full", "a rule's set is full (%d addresses); its names are answered SERVFAIL. Mend: shorten server.element-min or split the rule", NFT_SET_SIZE);
	else
		alarm_set(e->alarms, "nft", "addresses could not be put into a set: %s. Mend: look at `nft list table inet nameway`", nft_error(e->nft));
}

/* The administrators' sets, a rule's run at a time. Where they alone steer, what they do not take is not put. */
static void put_foreign(struct enforcer *e)
{
	for (unsigned i = 0, end; i < turn.puts; i = end) {
		for (end = i; end < turn.puts && turn.put[end].rule_id == turn.put[i].rule_id && turn.status[end] == 0;)
			end++;
		if (end == i) {
			end++;
			continue;
		}
		const struct policy_config *pc;
		const struct cfg_steer *rule = enforcer_rule(e, turn.put[i].rule_id, &pc);
		int r = enforcer_put_foreign(e, pc, rule, &turn.put[i], end - i);
		for (unsigned k = i; r < 0 && k < end; k++)
			turn.status[k] = r;
	}
}

/* The kernel's part of a turn: one transaction for all, then per rule the administrator's sets. */
static void put_gathered(struct enforcer *e)
{
	if (!turn.puts)
		return;
	/* A table that is known to be lost is made first; one that is found to be lost, at once, and again should it be taken away meanwhile. What came since
	 * this turn began is of interest where others may change it. */
	if (!nft_is_protected(e->nft))
		enforcer_read_events(e);
	if (e->is_rebuild_due && e->is_committed)
		enforcer_rebuild(e);
	bool is_gone = true;
	for (int tries = 0; is_gone && tries < PUT_TRIES; tries++) {
		if (tries && (!e->is_committed || enforcer_rebuild(e) < 0))
			break;
		nft_elements_put(e->nft, turn.put, turn.puts, turn.status);
		is_gone = false;
		for (unsigned i = 0; i < turn.puts; i++)
			is_gone |= turn.status[i] == -ENOENT;
	}
	put_foreign(e);
	int worst = 0;
	for (unsigned i = 0; i < turn.puts; i++) {
		worst = turn.status[i] < 0 && worst != -ENOSPC ? turn.status[i] : worst;
		if (turn.status[i] < 0)
			continue;
		note_put(e, &turn.put[i]);
		e->counters_put++;
	}
	alarm_failed(e, worst);
	for (unsigned i = 0; i < turn.waits; i++) {
		int r = turn.status[turn.wait[i].put];
		turn.m[turn.wait[i].message].ack.status[turn.wait[i].place] = r == 0 ? STEER_OK : r == -ENOSPC ? STEER_FULL : STEER_FAILED;
	}
}

static void send_acks(struct enforcer *e)
{
	for (unsigned i = 0; i < turn.messages; i++) {
		const struct steer_ack *ack = &turn.m[i].ack;
		size_t len = offsetof(struct steer_ack, status) + ack->count;
		if (send(e->args.channel[turn.m[i].channel], ack, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			log_debug("an acknowledgement was not taken: %s", strerror(errno));
	}
	turn.messages = turn.puts = turn.waits = 0;
	turn.number++;
}

static void settle(struct enforcer *e)
{
	put_gathered(e);
	send_acks(e);
}

static void serve_release(struct enforcer *e, int fd, const struct steer_release *in)
{
	struct steer_ack out = { .type = STEER_RELEASED, .count = in->count, .seq = in->seq, .stamp = atomic_load(&e->shared->stamp) };
	struct nft_element del[STEER_BATCH_MAX];
	struct addr dropped[STEER_BATCH_MAX];
	unsigned dels = 0;
	for (unsigned i = 0; i < in->count; i++) {
		struct addr a;
		if (element_addr(&a, &in->e[i]) < 0)
			continue;
		struct element *have = elements_find(&e->elements, in->e[i].rule_id, &a);
		if (have && have->stamp > in->stamp)
			continue;
		out.status[i] = 1;
		if (!have)
			continue;
		del[dels] = (struct nft_element){ .rule_id = in->e[i].rule_id, .addr = a };
		dropped[dels++] = a;
	}
	if (dels && nft_elements_delete(e->nft, del, dels) < 0)
		log_warn("addresses could not be taken out of a set: %s", nft_error(e->nft));
	for (unsigned i = 0; i < dels; i++) {
		struct element *have = elements_find(&e->elements, del[i].rule_id, &del[i].addr);
		if (have)
			elements_del(&e->elements, have);
		const struct policy_config *pc;
		const struct cfg_steer *rule = enforcer_rule(e, del[i].rule_id, &pc);
		if (rule && rule->way >= 0)
			enforcer_delete_foreign(e, pc, rule, &del[i].addr, false);
	}
	/* Told when the connections are gone as well. */
	size_t len = offsetof(struct steer_ack, status) + out.count;
	if (dels && in->drop_flows && e->now.config)
		enforcer_drop_flows(dropped, dels, e->now.config->server.mark_mask, fd, &out, len);
	else
		send(fd, &out, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void serve_query(struct enforcer *e, int fd, const struct steer_query *q)
{
	struct steer_reply reply = { .type = STEER_REPLY, .seq = q->seq };
	struct addr a;
	json_t *json = NULL;
	if (q->what == STEER_Q_STATE)
		json = enforcer_state_json(e);
	else if (q->what == STEER_Q_ADDRESS && element_addr(&a, &q->e) == 0)
		json = enforcer_address_json(e, &a);
	int mfd = -1;
	if (!json || (mfd = memfd_create("nameway-reply", MFD_CLOEXEC)) < 0 || json_dumpfd(json, mfd, JSON_COMPACT) < 0)
		reply.result = -1;
	json_decref(json);
	struct iovec iov = { .iov_base = &reply, .iov_len = sizeof reply };
	union { struct cmsghdr h; char room[CMSG_SPACE(sizeof(int))]; } control = { 0 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	if (reply.result == 0) {
		m.msg_control = &control;
		m.msg_controllen = sizeof control.room;
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &mfd, sizeof mfd);
	}
	sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (mfd >= 0)
		close(mfd);
}

/* One message of one channel. Anything of a wrong length or kind is dropped and counted: the server may be broken, never trusted. */
static void serve_message(struct enforcer *e, unsigned channel, const void *msg, size_t len)
{
	int fd = e->args.channel[channel];
	uint16_t type = 0;
	if (len >= sizeof type)
		memcpy(&type, msg, sizeof type);
	const struct steer_add *add = msg;
	const struct steer_release *rel = msg;
	const struct steer_prefixes *pre = msg;
	bool is_main = channel == e->args.channel_count - 1;
	/* What was asked for before is in the kernel and the mirror before something is taken out or rebuilt. */
	if (is_main && type != STEER_ADD)
		settle(e);
	if (type == STEER_ADD && len >= offsetof(struct steer_add, e) && add->count <= STEER_BATCH_MAX && len == offsetof(struct steer_add, e) + add->count * sizeof add->e[0])
		gather_add(e, channel, add);
	else if (type == STEER_RELEASE && is_main && len >= offsetof(struct steer_release, e) && rel->count <= STEER_BATCH_MAX && len == offsetof(struct steer_release, e) + rel->count * sizeof rel->e[0])
		serve_release(e, fd, rel);
	else if (type == STEER_PREFIXES && is_main && len >= offsetof(struct steer_prefixes, r) && pre->count <= STEER_RANGES_PART && len == offsetof(struct steer_prefixes, r) + pre->count * sizeof pre->r[0])
		enforcer_serve_prefixes(e, fd, pre);
	else if (type == STEER_QUERY && is_main && len == sizeof(struct steer_query))
		serve_query(e, fd, msg);
	else
		e->counters_refused++;
}

static void serve_channel(struct enforcer *e, unsigned channel)
{
	static _Alignas(8) char bytes[SERVE_MESSAGES][STEER_MSG_MAX];
	struct iovec iov[SERVE_MESSAGES];
	struct mmsghdr msg[SERVE_MESSAGES];
	for (unsigned i = 0; i < SERVE_MESSAGES; i++) {
		iov[i] = (struct iovec){ .iov_base = bytes[i], .iov_len = sizeof bytes[i] };
		msg[i] = (struct mmsghdr){ .msg_hdr = { .msg_iov = &iov[i], .msg_iovlen = 1 } };
	}
	int n = recvmmsg(e->args.channel[channel], msg, SERVE_MESSAGES, MSG_DONTWAIT, NULL);
	for (int i = 0; i < n && msg[i].msg_len; i++) {
		if (turn.messages == GATHER_MESSAGES)
			settle(e);
		serve_message(e, channel, bytes[i], msg[i].msg_len);
	}
}

/* One read of each channel; what still waits then has its turn after the kernel's events. The workers' first, from another one each time: what the main
 * thread takes out was decided before what they ask for. */
void enforcer_serve(struct enforcer *e, const bool *is_ready)
{
	static unsigned first;
	const unsigned main_channel = e->args.channel_count - 1;
	uint64_t until = clock_ms() + SERVE_MS;
	for (unsigned i = 0; i < main_channel && clock_ms() < until; i++) {
		unsigned c = (first + i) % main_channel;
		if (is_ready[c])
			serve_channel(e, c);
	}
	first++;
	if (is_ready[main_channel])
		serve_channel(e, main_channel);
	settle(e);
}
