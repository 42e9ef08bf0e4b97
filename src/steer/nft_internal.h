/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Shared by the nft_*.c files only: the netlink transport, batches, element messages and the names of the table's objects.
 * A batch is one transaction: messages are appended to one growing buffer and sent with one system call; the kernel works on it inside that
 * call, so the reply is there when it returns. Errors are sticky in the batch (`failed`), so builders need no check at every step. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <arpa/inet.h>
#include <endian.h>
#include <netinet/in.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nf_tables.h>
#include "policy/prefixes.h"
#include "steer/nft.h"

#define NFT_TABLE "nameway"
enum {
	NFT_NAME_LEN = 24,                /* our own object names, with the NUL */
	NFT_BATCH_MAX_BYTES = 64 << 20,   /* one transaction */
	NFT_FLAG_OWNER = 0x2, NFT_FLAG_PERSIST = 0x4, /* table flags; the headers of Debian 12 lack the second */
	NFT_MSG_DESTROY_ELEMENT = 30,     /* NFT_MSG_DESTROYSETELEM, Linux 6.3: deleting what is absent is no error */
	NFT_TYPE_IPV4 = 7, NFT_TYPE_IPV6 = 8, NFT_TYPE_ETHER = 9, NFT_TYPE_SERVICE = 13, NFT_TYPE_MARK = 19, NFT_TYPE_FIB_ADDRESS = 38, NFT_TYPE_IFNAME = 41, /* type numbers of the nft program */
};

struct nft_batch {
	uint8_t *bytes;
	size_t len, cap;
	struct nlmsghdr *open;   /* the message being built */
	uint32_t first_seq, last_seq;
	uint32_t set_id;         /* last transaction-local id of an anonymous set */
	bool has_genid;
	int failed;
};

struct nft {
	struct mnl_socket *request, *events;
	uint32_t port_id;
	uint32_t seq;
	int send_buffer;         /* bytes asked for so far */
	bool want_protect, can_protect, is_protected;
	bool can_destroy;        /* NFT_MSG_DESTROYSETELEM */
	bool can_update;         /* a new element replaces the life of an existing one (Linux 6.13) */
	bool can_ct_timeout;
	bool has_applied, is_listening; /* the events socket is in the kernel's group */
	uint16_t failed_type;    /* nf_tables message type that the kernel refused last, or UINT16_MAX */
	struct nft_batch batch;  /* reused by the element calls */
	uint8_t *receive;
	char error[640];
};
enum { NFT_RECEIVE_LEN = 128 << 10 };

/* nft_batch.c */
int nft_fail(struct nft *n, int r, const char *fmt, ...) __attribute__((format(printf, 3, 4))); /* stores the text, returns r */
void nft_batch_begin(struct nft *n, struct nft_batch *b, const uint32_t *genid /* NULL: any generation */);
void nft_batch_free(struct nft_batch *b);
struct nlmsghdr *nft_batch_message(struct nft *n, struct nft_batch *b, uint16_t type, uint16_t flags); /* NULL when failed */
void nft_batch_message_end(struct nft_batch *b);
int nft_batch_commit(struct nft *n, struct nft_batch *b);
/* One request outside a transaction. cb sees every answer; -EINTR: a dump was disturbed, ask again. */
struct nlmsghdr *nft_request_begin(uint8_t bytes[MNL_NLMSG_HDRLEN + 1024], uint16_t type, uint8_t family, uint16_t flags);
typedef void nft_answer_fn(void *ctx, const struct nlmsghdr *h);
int nft_request(struct nft *n, struct nlmsghdr *h, nft_answer_fn *cb, void *ctx);
int nft_generation(struct nft *n, uint32_t *ret);
/* Finds one attribute of an nf_tables message; NULL when absent. */
const struct nlattr *nft_attr_find(const struct nlmsghdr *h, uint16_t type);
const struct nlattr *nft_attr_find_in(const struct nlattr *nest, uint16_t type);

int nft_events_filter(struct nft *n); /* nft_events.c: keeps our own changes out of the events socket */

/* nft_sets.c: element messages. split before each element (or start/end pair) that may begin a new message. */
struct nft_elems {
	struct nft *n;
	struct nft_batch *b;
	uint16_t type, flags;
	const char *family_table, *set;
	uint8_t family;
	uint32_t set_id;
	struct nlattr *nest;
};
struct nft_elem {
	const void *key;
	size_t key_len;
	uint32_t flags;              /* NFT_SET_ELEM_INTERVAL_END */
	uint64_t timeout_ms, expires_ms; /* 0: not given */
	const void *value;           /* maps */
	size_t value_len;
	const char *go;              /* verdict maps: goto this chain */
	const void *userdata;        /* a comment, as the nft program writes it */
	size_t userdata_len;
};
void nft_elems_begin(struct nft_elems *e, struct nft *n, struct nft_batch *b, uint16_t type, uint16_t flags, const char *set);
void nft_elems_split(struct nft_elems *e);
void nft_elems_add(struct nft_elems *e, const struct nft_elem *x);
void nft_elems_end(struct nft_elems *e);
void nft_elems_flush(struct nft *n, struct nft_batch *b, const char *set);
/* Adds the start (and, unless the range ends at the last address, the end) of an interval. */
void nft_elems_add_range(struct nft_elems *e, const struct addr *first, const struct addr *last, uint64_t timeout_ms);
bool nft_addr_next(struct addr *a);                /* a + 1; false: was the last address */
void nft_elems_put_ranges(struct nft_elems *e, const struct range *r, unsigned count);
void nft_ranges_put(struct nft *n, struct nft_batch *b, const char *set, const struct range *r, unsigned count);
void nft_elements_add_to_batch(struct nft *n, struct nft_batch *b, const struct nft_element *e, const uint32_t *order, size_t count);

struct nftnl_set;
/* Tells the nft program (not the kernel) which values are in host order, so that it lists and saves the set rightly. */
void nft_set_byteorder(struct nftnl_set *s, uint32_t key_type, uint32_t data_type);

typedef void nft_raw_elem_fn(void *ctx, const struct nft_elem *x);
int nft_elems_dump(struct nft *n, uint8_t family, const char *table, const char *set, nft_raw_elem_fn *cb, void *ctx);

static inline bool nft_is_v6(uint8_t family)
{
	return family == AF_INET6 || family == 6;
}

static inline unsigned nft_addr_len(uint8_t family)
{
	return nft_is_v6(family) ? 16 : 4;
}

uint8_t nft_family_number(const char *name); /* of a table; 0: no such */
void nft_set_name(char ret[NFT_NAME_LEN], char kind, uint32_t rule_id, uint8_t family);

/* nft_state.c */
struct nft_raw_elem { uint8_t key[16]; uint32_t flags; uint64_t expires_ms; };
struct nft_old_set { char name[NFT_NAME_MAXLEN]; uint32_t flags, key_len; struct nft_raw_elem *v; size_t count, cap; bool is_failed; };
struct nft_old_object { char name[NFT_NAME_MAXLEN]; uint32_t type; uint64_t packets, bytes; };
struct nft_old_chain { char name[NFT_NAME_MAXLEN]; bool is_wanted; };

/* What the kernel has under our name. */
struct nft_state {
	bool exists, has_owner, is_failed;
	uint32_t flags, owner, generation;
	struct nft_old_chain *chains;
	struct nft_old_set *sets;
	struct nft_old_object *objects;
	size_t chain_count, chain_cap, set_count, set_cap, object_count, object_cap;
};
void nft_state_free(struct nft_state *s);
int nft_state_read(struct nft *n, struct nft_state *s); /* everything; s begins zeroed */
void nft_counter_name(char ret[NFT_NAME_LEN], uint32_t rule_id);
/* Room for one more zeroed item; count unchanged: out of memory. */
void *nft_grow(void *array, size_t *count, size_t *cap, size_t size);

/* nft_rules.c: the chains and rules of a layout, appended to a batch that has the sets and counters already. */
struct nft_build {
	struct nft *n;
	struct nft_batch *b;
	const struct nft_layout *l;
	const struct config *c;
	uint32_t mask, direct_mark;
	unsigned direct;             /* number of the chains of direct_mark: the way's index, or way_count when no way has that mark */
};
typedef void nft_chain_fn(void *ctx, const char *name);
void nft_chains_wanted(const struct nft_build *x, nft_chain_fn *cb, void *ctx);
void nft_chains_add(struct nft_build *x);
void nft_rules_add(struct nft_build *x);
bool nft_has_names(const struct cfg_steer *s);    /* has sets at all */
bool nft_is_negated(const struct cfg_steer *s);   /* the sets hold the excepted addresses */
bool nft_wants_macs(const struct config *c);
bool nft_has_hijack(const struct nft_build *x);

/* nft_listen.c: DNS to and from our own sockets. */
bool nft_has_listens(const struct nft_build *x);
bool nft_has_mac_rules(const struct nft_build *x);
void nft_listen_chains_wanted(const struct nft_build *x, nft_chain_fn *cb, void *ctx);
void nft_untracked_rules(struct nft_build *x);    /* raw_prerouting, raw_output */
void nft_own_rules(struct nft_build *x, const char *chain, bool is_output); /* accepts them in a chain that untracked packets enter */
void nft_mac_rules(struct nft_build *x);          /* input */
