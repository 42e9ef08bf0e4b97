/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the kernel has under our name: the table with its flags and owner, its chains, sets and objects, and the generation they were read at.
 * Anonymous sets are left out: they come and go with their rules. One thread. */
#include "steer/nft_internal.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ATTEMPTS = 8 };

void nft_counter_name(char ret[NFT_NAME_LEN], uint32_t rule_id)
{
	snprintf(ret, NFT_NAME_LEN, "c%08x", rule_id);
}

void *nft_grow(void *array, size_t *count, size_t *cap, size_t size)
{
	if (*count == *cap) {
		const size_t more = *cap ? *cap * 2 : 32;
		void *bigger = realloc(array, more * size);
		if (!bigger)
			return array;
		array = bigger;
		*cap = more;
	}
	memset((uint8_t *)array + *count * size, 0, size);
	(*count)++;
	return array;
}

void nft_state_free(struct nft_state *s)
{
	for (size_t i = 0; i < s->set_count; i++)
		free(s->sets[i].v);
	free(s->sets);
	free(s->chains);
	free(s->objects);
	memset(s, 0, sizeof(*s));
}

static bool copy_name(char ret[NFT_NAME_MAXLEN], const struct nlmsghdr *h, uint16_t table_attr, uint16_t name_attr)
{
	const struct nlattr *table = nft_attr_find(h, table_attr), *name = nft_attr_find(h, name_attr);

	if (!table || !name || strcmp(mnl_attr_get_str(table), NFT_TABLE) != 0)
		return false;
	snprintf(ret, NFT_NAME_MAXLEN, "%s", mnl_attr_get_str(name));
	return true;
}

static uint32_t u32_of(const struct nlmsghdr *h, uint16_t type)
{
	const struct nlattr *a = nft_attr_find(h, type);

	return a ? ntohl(mnl_attr_get_u32(a)) : 0;
}

static void take_table(void *ctx, const struct nlmsghdr *h)
{
	struct nft_state *s = ctx;

	if ((h->nlmsg_type & 0xff) != NFT_MSG_NEWTABLE)
		return;
	s->exists = true;
	s->flags = u32_of(h, NFTA_TABLE_FLAGS);
	s->has_owner = nft_attr_find(h, NFTA_TABLE_OWNER);
	s->owner = u32_of(h, NFTA_TABLE_OWNER);
}

static void take_chain(void *ctx, const struct nlmsghdr *h)
{
	struct nft_state *s = ctx;
	char name[NFT_NAME_MAXLEN];
	const size_t before = s->chain_count;

	if (!copy_name(name, h, NFTA_CHAIN_TABLE, NFTA_CHAIN_NAME))
		return;
	s->chains = nft_grow(s->chains, &s->chain_count, &s->chain_cap, sizeof(*s->chains));
	if (s->chain_count > before)
		memcpy(s->chains[before].name, name, sizeof(name));
	else
		s->is_failed = true;
}

static void take_set(void *ctx, const struct nlmsghdr *h)
{
	struct nft_state *s = ctx;
	char name[NFT_NAME_MAXLEN];
	const size_t before = s->set_count;

	if (u32_of(h, NFTA_SET_FLAGS) & NFT_SET_ANONYMOUS || !copy_name(name, h, NFTA_SET_TABLE, NFTA_SET_NAME))
		return; /* anonymous ones go with their rules */
	s->sets = nft_grow(s->sets, &s->set_count, &s->set_cap, sizeof(*s->sets));
	if (s->set_count == before) {
		s->is_failed = true;
		return;
	}
	memcpy(s->sets[before].name, name, sizeof(name));
	s->sets[before].flags = u32_of(h, NFTA_SET_FLAGS);
	s->sets[before].key_len = u32_of(h, NFTA_SET_KEY_LEN);
}

static void take_object(void *ctx, const struct nlmsghdr *h)
{
	struct nft_state *s = ctx;
	char name[NFT_NAME_MAXLEN];
	const size_t before = s->object_count;
	const struct nlattr *content = nft_attr_find(h, NFTA_OBJ_DATA), *a;
	struct nft_old_object *o;

	if (!copy_name(name, h, NFTA_OBJ_TABLE, NFTA_OBJ_NAME))
		return;
	s->objects = nft_grow(s->objects, &s->object_count, &s->object_cap, sizeof(*s->objects));
	if (s->object_count == before) {
		s->is_failed = true;
		return;
	}
	o = &s->objects[before];
	memcpy(o->name, name, sizeof(name));
	o->type = u32_of(h, NFTA_OBJ_TYPE);
	if (o->type != NFT_OBJECT_COUNTER || !content)
		return;
	a = nft_attr_find_in(content, NFTA_COUNTER_PACKETS);
	o->packets = a ? be64toh(mnl_attr_get_u64(a)) : 0;
	a = nft_attr_find_in(content, NFTA_COUNTER_BYTES);
	o->bytes = a ? be64toh(mnl_attr_get_u64(a)) : 0;
}

static int read_table(struct nft *n, struct nft_state *s)
{
	uint8_t bytes[MNL_NLMSG_HDRLEN + 1024];
	struct nlmsghdr *h = nft_request_begin(bytes, NFT_MSG_GETTABLE, NFPROTO_INET, 0);
	int r;

	mnl_attr_put_strz(h, NFTA_TABLE_NAME, NFT_TABLE);
	r = nft_request(n, h, take_table, s);
	if (r == -ENOENT) {
		n->error[0] = 0;
		r = 0;
	}
	return r;
}

static int read_kind(struct nft *n, struct nft_state *s, uint16_t type, nft_answer_fn *cb)
{
	uint8_t bytes[MNL_NLMSG_HDRLEN + 1024];
	struct nlmsghdr *h = nft_request_begin(bytes, type, NFPROTO_INET, NLM_F_DUMP);

	if (type != NFT_MSG_GETCHAIN)
		mnl_attr_put_strz(h, NFTA_SET_TABLE, NFT_TABLE); /* attribute 1 of objects too */
	return nft_request(n, h, cb, s);
}

int nft_state_read(struct nft *n, struct nft_state *s)
{
	int r = nft_generation(n, &s->generation);

	if (r == 0)
		r = read_table(n, s);
	if (r < 0 || !s->exists)
		return r;
	r = read_kind(n, s, NFT_MSG_GETCHAIN, take_chain);
	if (r == 0)
		r = read_kind(n, s, NFT_MSG_GETSET, take_set);
	if (r == 0)
		r = read_kind(n, s, NFT_MSG_GETOBJ, take_object);
	if (r == 0 && s->is_failed)
		r = nft_fail(n, -ENOMEM, "reading table inet " NFT_TABLE ": out of memory");
	return r;
}

int nft_presence(struct nft *n, enum nft_presence *ret)
{
	struct nft_state s = { 0 };
	int r = read_table(n, &s);

	if (r < 0)
		return r;
	if (!s.exists)
		*ret = NFT_ABSENT;
	else if (s.has_owner)
		*ret = s.owner == n->port_id ? NFT_OURS : NFT_FOREIGN_OWNER;
	else
		*ret = n->has_applied && !n->is_protected ? NFT_OURS : NFT_ADOPTABLE;
	return 0;
}

int nft_counters(struct nft *n, const uint32_t *rule_ids, size_t count, struct nft_counter *ret)
{
	struct nft_state s = { 0 };
	char name[NFT_NAME_LEN];
	int r = -EINTR;

	for (int attempt = 0; r == -EINTR && attempt < ATTEMPTS; attempt++) {
		nft_state_free(&s);
		r = read_kind(n, &s, NFT_MSG_GETOBJ, take_object);
	}
	if (r == -ENOENT)
		r = 0;
	if (r == 0 && s.is_failed)
		r = nft_fail(n, -ENOMEM, "reading counters: out of memory");
	for (size_t i = 0; r == 0 && i < count; i++) {
		ret[i] = (struct nft_counter){ 0 };
		nft_counter_name(name, rule_ids[i]);
		for (size_t k = 0; k < s.object_count; k++) {
			if (s.objects[k].type == NFT_OBJECT_COUNTER && !strcmp(s.objects[k].name, name))
				ret[i] = (struct nft_counter){ s.objects[k].packets, s.objects[k].bytes };
		}
	}
	nft_state_free(&s);
	return r;
}
