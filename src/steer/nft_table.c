/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Making the table stand as laid out. What is there is read first, with the generation it belongs to; then one transaction, which the kernel refuses
 * (ERESTART) when the generation is no longer that one, and everything is read again.
 *
 * Normally the table is kept: its rules are flushed and written anew, obsolete chains, sets and counters are deleted, missing ones added, so elements
 * and counts survive. Table flags cannot be changed, so where protection was switched on or off (or what stands there does not fit at all) the
 * table is deleted and made anew inside the one transaction, with the elements and counts that were read.
 *
 * Protection is owner + persist, never owner alone, which would take the table away with the process. The table then belongs to the port id of our
 * request socket. One thread. */
#include "steer/nft_internal.h"
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <libnftnl/object.h>
#include <libnftnl/set.h>
#include <libnftnl/table.h>
#include "steer/macmap.h"

enum { ATTEMPTS = 8, PROTECT = NFT_FLAG_OWNER | NFT_FLAG_PERSIST, HIJACKED_UNREPLIED_S = 3, HIJACKED_REPLIED_S = 3 };

struct set_spec { char name[NFT_NAME_LEN]; uint32_t flags, key_type, key_len, data_type, data_len, size; };

struct apply {
	struct nft_build build;
	struct nft_batch batch;
	struct nft_state old;
	struct set_spec *specs;
	unsigned spec_count;
	bool is_new; /* the table is created in this transaction */
};

static void add_spec(struct apply *a, const char *name, uint32_t flags, uint32_t key_type, uint32_t key_len, uint32_t size)
{
	struct set_spec *s = &a->specs[a->spec_count++];

	*s = (struct set_spec){ .flags = flags, .key_type = key_type, .key_len = key_len, .size = size };
	snprintf(s->name, sizeof(s->name), "%s", name);
}

static int collect_specs(struct apply *a)
{
	const struct config *c = a->build.c;
	char name[NFT_NAME_LEN];

	a->specs = calloc((size_t)c->steer_count * 6 + 2, sizeof(*a->specs));
	if (!a->specs)
		return -ENOMEM;
	add_spec(a, "outside", 0, NFT_TYPE_IFNAME, IFNAME_MAX, 0);
	if (nft_wants_macs(c)) {
		add_spec(a, "macs", NFT_SET_MAP, NFT_TYPE_ETHER, 6, 0);
		a->specs[a->spec_count - 1].data_type = NFT_TYPE_MARK;
		a->specs[a->spec_count - 1].data_len = 4;
	}
	for (unsigned i = 0; i < c->steer_count * 2; i++) {
		const struct cfg_steer *s = &c->steers[i / 2];
		const uint8_t family = i % 2 ? AF_INET6 : AF_INET;
		const uint32_t type = i % 2 ? NFT_TYPE_IPV6 : NFT_TYPE_IPV4;
		if (!nft_has_names(s))
			continue;
		nft_set_name(name, 'r', s->id, family);
		add_spec(a, name, NFT_SET_TIMEOUT, type, nft_addr_len(family), NFT_SET_SIZE);
		nft_set_name(name, 'p', s->id, family);
		add_spec(a, name, NFT_SET_INTERVAL, type, nft_addr_len(family), 0);
		if (nft_is_negated(s) || s->except_names.count == 0)
			continue;
		nft_set_name(name, 'q', s->id, family);
		add_spec(a, name, NFT_SET_INTERVAL, type, nft_addr_len(family), 0);
	}
	return 0;
}

static const struct set_spec *find_spec(const struct apply *a, const char *name)
{
	for (unsigned i = 0; i < a->spec_count; i++) {
		if (!strcmp(a->specs[i].name, name))
			return &a->specs[i];
	}
	return NULL;
}

static bool fits(const struct nft_old_set *o, const struct set_spec *s)
{
	return o->flags == s->flags && o->key_len == s->key_len;
}

static struct nft_old_set *find_old_set(struct apply *a, const struct set_spec *s)
{
	for (size_t i = 0; i < a->old.set_count; i++) {
		if (!strcmp(a->old.sets[i].name, s->name))
			return fits(&a->old.sets[i], s) ? &a->old.sets[i] : NULL;
	}
	return NULL;
}

static struct nft_old_object *find_old_object(struct apply *a, const char *name, uint32_t type)
{
	for (size_t i = 0; i < a->old.object_count; i++) {
		if (!strcmp(a->old.objects[i].name, name) && a->old.objects[i].type == type)
			return &a->old.objects[i];
	}
	return NULL;
}

/* A message that only names something: attribute 1 is the table, then the name. */
static void delete_named(struct apply *a, uint16_t type, uint16_t name_attr, const char *name, uint16_t kind_attr, uint32_t kind)
{
	struct nlmsghdr *h = nft_batch_message(a->build.n, &a->batch, type, 0);

	if (!h)
		return;
	mnl_attr_put_strz(h, NFTA_TABLE_NAME, NFT_TABLE);
	if (name)
		mnl_attr_put_strz(h, name_attr, name);
	if (kind_attr)
		mnl_attr_put_u32(h, kind_attr, htonl(kind));
	nft_batch_message_end(&a->batch);
}

static void add_table(struct apply *a, uint32_t flags)
{
	struct nlmsghdr *h = nft_batch_message(a->build.n, &a->batch, NFT_MSG_NEWTABLE, NLM_F_CREATE);

	if (!h)
		return;
	mnl_attr_put_strz(h, NFTA_TABLE_NAME, NFT_TABLE);
	mnl_attr_put_u32(h, NFTA_TABLE_FLAGS, htonl(flags));
	nft_batch_message_end(&a->batch);
}

static void add_set(struct apply *a, const struct set_spec *spec)
{
	struct nftnl_set *s = nftnl_set_alloc();
	struct nlmsghdr *h;

	if (!s) {
		a->batch.failed = -ENOMEM;
		return;
	}
	nftnl_set_set_str(s, NFTNL_SET_TABLE, NFT_TABLE);
	nftnl_set_set_str(s, NFTNL_SET_NAME, spec->name);
	nftnl_set_set_u32(s, NFTNL_SET_FAMILY, NFPROTO_INET);
	nftnl_set_set_u32(s, NFTNL_SET_ID, ++a->batch.set_id);
	nftnl_set_set_u32(s, NFTNL_SET_FLAGS, spec->flags);
	nftnl_set_set_u32(s, NFTNL_SET_KEY_TYPE, spec->key_type);
	nftnl_set_set_u32(s, NFTNL_SET_KEY_LEN, spec->key_len);
	nft_set_byteorder(s, spec->key_type, spec->data_type);
	if (spec->data_type) {
		nftnl_set_set_u32(s, NFTNL_SET_DATA_TYPE, spec->data_type);
		nftnl_set_set_u32(s, NFTNL_SET_DATA_LEN, spec->data_len);
	}
	if (spec->size)
		nftnl_set_set_u32(s, NFTNL_SET_DESC_SIZE, spec->size);
	h = nft_batch_message(a->build.n, &a->batch, NFT_MSG_NEWSET, NLM_F_CREATE);
	if (h) {
		nftnl_set_nlmsg_build_payload(h, s);
		nft_batch_message_end(&a->batch);
	}
	nftnl_set_free(s);
}

static void add_object(struct apply *a, struct nftnl_obj *o)
{
	struct nlmsghdr *h;

	if (!o) {
		a->batch.failed = -ENOMEM;
		return;
	}
	nftnl_obj_set_str(o, NFTNL_OBJ_TABLE, NFT_TABLE);
	nftnl_obj_set_u32(o, NFTNL_OBJ_FAMILY, NFPROTO_INET);
	h = nft_batch_message(a->build.n, &a->batch, NFT_MSG_NEWOBJ, NLM_F_CREATE);
	if (h) {
		nftnl_obj_nlmsg_build_payload(h, o);
		nft_batch_message_end(&a->batch);
	}
	nftnl_obj_free(o);
}

static void add_counter(struct apply *a, const char *name, const struct nft_old_object *before)
{
	struct nftnl_obj *o = nftnl_obj_alloc();

	if (o) {
		nftnl_obj_set_str(o, NFTNL_OBJ_NAME, name);
		nftnl_obj_set_u32(o, NFTNL_OBJ_TYPE, NFT_OBJECT_COUNTER);
		nftnl_obj_set_u64(o, NFTNL_OBJ_CTR_PKTS, before ? before->packets : 0);
		nftnl_obj_set_u64(o, NFTNL_OBJ_CTR_BYTES, before ? before->bytes : 0);
	}
	add_object(a, o);
}

static void add_timeout_object(struct apply *a)
{
	uint32_t seconds[NFTNL_CTTIMEOUT_ARRAY_MAX] = { [NFTNL_CTTIMEOUT_UDP_UNREPLIED] = HIJACKED_UNREPLIED_S, [NFTNL_CTTIMEOUT_UDP_REPLIED] = HIJACKED_REPLIED_S };
	struct nftnl_obj *o = nftnl_obj_alloc();

	if (o) {
		nftnl_obj_set_str(o, NFTNL_OBJ_NAME, "hijacked");
		nftnl_obj_set_u32(o, NFTNL_OBJ_TYPE, NFT_OBJECT_CT_TIMEOUT);
		nftnl_obj_set_u16(o, NFTNL_OBJ_CT_TIMEOUT_L3PROTO, NFPROTO_INET);
		nftnl_obj_set_u8(o, NFTNL_OBJ_CT_TIMEOUT_L4PROTO, IPPROTO_UDP);
		nftnl_obj_set_data(o, NFTNL_OBJ_CT_TIMEOUT_ARRAY, seconds, sizeof(seconds));
	}
	add_object(a, o);
}

/* Only with hijacked packets: the object alone has the kernel track everything. */
static bool wants_timeout(const struct apply *a)
{
	return a->build.n->can_ct_timeout && nft_has_hijack(&a->build);
}

static bool is_object_wanted(const struct apply *a, const struct nft_old_object *o)
{
	const struct config *c = a->build.c;
	char name[NFT_NAME_LEN];

	if (o->type == NFT_OBJECT_CT_TIMEOUT)
		return wants_timeout(a) && !strcmp(o->name, "hijacked");
	for (unsigned i = 0; o->type == NFT_OBJECT_COUNTER && i < c->steer_count; i++) {
		nft_counter_name(name, c->steers[i].id);
		if (!strcmp(name, o->name))
			return true;
	}
	return false;
}

static void note_wanted(void *ctx, const char *name)
{
	struct nft_state *s = ctx;

	for (size_t i = 0; i < s->chain_count; i++) {
		if (!strcmp(s->chains[i].name, name))
			s->chains[i].is_wanted = true;
	}
}

/* Rules first, since they hold on to everything else. */
static void delete_obsolete(struct apply *a)
{
	delete_named(a, NFT_MSG_DELRULE, 0, NULL, 0, 0);
	nft_chains_wanted(&a->build, note_wanted, &a->old);
	for (size_t i = 0; i < a->old.chain_count; i++) {
		if (!a->old.chains[i].is_wanted)
			delete_named(a, NFT_MSG_DELCHAIN, NFTA_CHAIN_NAME, a->old.chains[i].name, 0, 0);
	}
	for (size_t i = 0; i < a->old.set_count; i++) {
		const struct set_spec *s = find_spec(a, a->old.sets[i].name);
		if (!s || !fits(&a->old.sets[i], s))
			delete_named(a, NFT_MSG_DELSET, NFTA_SET_NAME, a->old.sets[i].name, 0, 0);
	}
	for (size_t i = 0; i < a->old.object_count; i++) {
		const struct nft_old_object *o = &a->old.objects[i];
		if (!is_object_wanted(a, o))
			delete_named(a, NFT_MSG_DELOBJ, NFTA_OBJ_NAME, o->name, NFTA_OBJ_TYPE, o->type);
	}
}

static void add_sets_and_objects(struct apply *a)
{
	const struct config *c = a->build.c;
	char name[NFT_NAME_LEN];

	for (unsigned i = 0; i < a->spec_count; i++) {
		if (a->is_new || !find_old_set(a, &a->specs[i]))
			add_set(a, &a->specs[i]);
	}
	for (unsigned i = 0; i < c->steer_count; i++) {
		const struct nft_old_object *o;
		nft_counter_name(name, c->steers[i].id);
		o = find_old_object(a, name, NFT_OBJECT_COUNTER);
		if (a->is_new || !o)
			add_counter(a, name, o);
	}
	if (wants_timeout(a) && (a->is_new || !find_old_object(a, "hijacked", NFT_OBJECT_CT_TIMEOUT)))
		add_timeout_object(a);
}

/* outside and macs are written anew each time. */
static void fill_fixed_sets(struct apply *a)
{
	const struct nft_layout *l = a->build.l;
	struct macmap m = { 0 };
	struct nft_elems e;

	if (!a->is_new)
		nft_elems_flush(a->build.n, &a->batch, "outside");
	nft_elems_begin(&e, a->build.n, &a->batch, NFT_MSG_NEWSETELEM, NLM_F_CREATE, "outside");
	for (unsigned i = 0; i < l->outside_count; i++) {
		char key[IFNAME_MAX] = { 0 };
		memcpy(key, l->outside[i], strnlen(l->outside[i], IFNAME_MAX - 1));
		nft_elems_split(&e);
		nft_elems_add(&e, &(struct nft_elem){ .key = key, .key_len = sizeof(key) });
	}
	nft_elems_end(&e);
	if (!nft_wants_macs(a->build.c))
		return;
	if (macmap_build(&m, a->build.c) < 0) {
		a->batch.failed = -ENOMEM;
		return;
	}
	if (!a->is_new)
		nft_elems_flush(a->build.n, &a->batch, "macs");
	nft_elems_begin(&e, a->build.n, &a->batch, NFT_MSG_NEWSETELEM, NLM_F_CREATE, "macs");
	for (unsigned i = 0; i < m.count; i++) {
		const uint32_t mark = (uint32_t)MACMAP_MARK | m.v[i].number;
		nft_elems_split(&e);
		nft_elems_add(&e, &(struct nft_elem){ .key = m.v[i].mac, .key_len = 6, .value = &mark, .value_len = sizeof(mark) });
	}
	nft_elems_end(&e);
	macmap_free(&m);
}

static void keep_raw(void *ctx, const struct nft_elem *x)
{
	struct nft_old_set *o = ctx;
	const size_t before = o->count;

	if (x->key_len > sizeof(o->v->key))
		return;
	o->v = nft_grow(o->v, &o->count, &o->cap, sizeof(*o->v));
	if (o->count == before) {
		o->is_failed = true;
		return;
	}
	memcpy(o->v[before].key, x->key, x->key_len);
	o->v[before].flags = x->flags;
	o->v[before].expires_ms = x->expires_ms;
}

/* The order in which intervals are added: by address, an end before a start at the same address. */
static int by_key(const void *a, const void *b)
{
	const struct nft_raw_elem *x = a, *y = b;
	const int order = memcmp(x->key, y->key, sizeof(x->key));

	return order ? order : (int)(y->flags & NFT_SET_ELEM_INTERVAL_END) - (int)(x->flags & NFT_SET_ELEM_INTERVAL_END);
}

/* Reads the elements that a new table is to have again. */
static int read_elements(struct apply *a)
{
	for (unsigned i = 0; i < a->spec_count; i++) {
		struct nft_old_set *o = find_old_set(a, &a->specs[i]);
		int r;
		if (!o || !(o->flags & (NFT_SET_TIMEOUT | NFT_SET_INTERVAL)))
			continue;
		r = nft_elems_dump(a->build.n, NFPROTO_INET, NFT_TABLE, o->name, keep_raw, o);
		if (r == 0 && o->is_failed)
			r = nft_fail(a->build.n, -ENOMEM, "reading set %s: out of memory", o->name);
		if (r < 0)
			return r;
		if (o->flags & NFT_SET_INTERVAL && o->count > 0)
			qsort(o->v, o->count, sizeof(*o->v), by_key);
	}
	return 0;
}

static void put_elements_back(struct apply *a)
{
	struct nft_elems e;

	for (unsigned i = 0; i < a->spec_count; i++) {
		const struct nft_old_set *o = find_old_set(a, &a->specs[i]);
		if (!o || o->count == 0)
			continue;
		nft_elems_begin(&e, a->build.n, &a->batch, NFT_MSG_NEWSETELEM, NLM_F_CREATE, o->name);
		for (size_t k = 0; k < o->count; k++) {
			const struct nft_raw_elem *x = &o->v[k];
			if (o->flags & NFT_SET_TIMEOUT && x->expires_ms == 0)
				continue; /* ended while it was read */
			if (k == 0 || !(x->flags & NFT_SET_ELEM_INTERVAL_END))
				nft_elems_split(&e);
			nft_elems_add(&e, &(struct nft_elem){ .key = x->key, .key_len = o->key_len, .flags = x->flags, .timeout_ms = x->expires_ms });
		}
		nft_elems_end(&e);
	}
}

static int put_extra(struct apply *a, const struct nft_element *extra, size_t count)
{
	struct nft_element *known = malloc((count ? count : 1) * sizeof(*known));
	char name[NFT_NAME_LEN];
	size_t kept = 0;

	if (!known)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const bool is_same_set = kept > 0 && known[kept - 1].rule_id == extra[i].rule_id && known[kept - 1].addr.family == extra[i].addr.family;
		nft_set_name(name, 'r', extra[i].rule_id, extra[i].addr.family);
		if (!is_same_set && !find_spec(a, name))
			continue;
		known[kept] = extra[i];
		known[kept++].is_fresh = false;
	}
	nft_elements_add_to_batch(a->build.n, &a->batch, known, NULL, kept);
	free(known);
	return 0;
}

static void put_ranges(struct apply *a, const struct nft_range_set *sets, size_t count)
{
	char name[NFT_NAME_LEN];

	for (size_t i = 0; i < count; i++) {
		nft_set_name(name, sets[i].which ? 'q' : 'p', sets[i].rule_id, sets[i].family);
		if (!find_spec(a, name))
			continue;
		nft_elems_flush(a->build.n, &a->batch, name);
		nft_ranges_put(a->build.n, &a->batch, name, sets[i].r, sets[i].count);
	}
}

/* Decides whether the table is kept; builds and sends the transaction. */
static int apply_once(struct apply *a, bool replace, const struct nft_element *extra, size_t extra_count, const struct nft_range_set *ranges, size_t range_set_count)
{
	struct nft *n = a->build.n;
	const uint32_t wanted = n->want_protect && n->can_protect ? PROTECT : 0;
	int r = nft_state_read(n, &a->old);
	uint32_t has;

	if (r < 0)
		return r;
	if (a->old.has_owner && a->old.owner != n->port_id)
		return nft_fail(n, -EPERM, "table inet " NFT_TABLE " is owned by another running process (netlink port %u): is a second namewayd running?", a->old.owner);
	has = a->old.flags & PROTECT;
	/* An orphan has only `persist` left and takes the owner flag again; any other difference needs a new table. */
	a->is_new = !a->old.exists || replace || (has != wanted && !(has == NFT_FLAG_PERSIST && wanted == PROTECT));
	/* Beside rules that stay in force only new things are made; what needs a new table waits for the apply that brings the rules. */
	const bool is_beside = a->build.l->keeps_rules && a->old.exists && !replace;
	if (is_beside)
		a->is_new = false;
	if (a->old.exists && a->is_new) {
		r = read_elements(a);
		if (r < 0)
			return r;
	}
	nft_batch_begin(n, &a->batch, &a->old.generation);
	if (a->old.exists && a->is_new)
		delete_named(a, NFT_MSG_DELTABLE, 0, NULL, 0, 0);
	add_table(a, is_beside && has != wanted && has != NFT_FLAG_PERSIST ? has : wanted);
	if (!a->is_new && !is_beside)
		delete_obsolete(a);
	nft_chains_add(&a->build);
	add_sets_and_objects(a);
	if (!is_beside)
		fill_fixed_sets(a);
	if (a->is_new)
		put_elements_back(a);
	put_ranges(a, ranges, range_set_count);
	r = put_extra(a, extra, extra_count);
	if (r < 0)
		return nft_fail(n, r, "building the transaction: out of memory");
	if (!is_beside)
		nft_rules_add(&a->build);
	r = nft_batch_commit(n, &a->batch);
	if (r == 0)
		n->is_protected = is_beside ? (has == PROTECT || has == NFT_FLAG_PERSIST) && wanted : wanted != 0;
	return r;
}

/* What an older kernel lacks is given up, once each. */
static bool give_up_feature(struct nft *n, int r)
{
	if (r != -EOPNOTSUPP && r != -EINVAL && r != -ENOENT)
		return false;
	if (n->failed_type == NFT_MSG_NEWTABLE && n->want_protect && n->can_protect) {
		n->can_protect = false;
		return true;
	}
	if (n->failed_type == NFT_MSG_NEWOBJ && n->can_ct_timeout) {
		n->can_ct_timeout = false;
		return true;
	}
	return false;
}

static int find_direct(struct nft *n, struct nft_build *x)
{
	x->direct_mark = x->l->direct_mark;
	x->direct = x->c->way_count;
	for (unsigned w = 0; w < x->c->way_count; w++) {
		if (x->direct_mark ? x->c->ways[w].mark == x->direct_mark : !strcmp(x->c->ways[w].name, "direct")) {
			x->direct = w;
			x->direct_mark = x->c->ways[w].mark;
		}
	}
	if (!x->direct_mark || x->direct_mark & ~x->mask)
		return nft_fail(n, -EINVAL, "no mark for direct traffic inside mark-mask 0x%x", x->mask);
	return 0;
}

int nft_apply(struct nft *n, const struct nft_layout *l, const struct nft_element *extra, size_t extra_count, const struct nft_range_set *ranges,
	size_t range_set_count)
{
	struct apply a = { .build = { .n = n, .b = &a.batch, .l = l, .c = l->config, .mask = l->config->server.mark_mask } };
	bool replace = false;
	int r = find_direct(n, &a.build);

	if (r == 0 && collect_specs(&a) < 0)
		r = nft_fail(n, -ENOMEM, "building the transaction: out of memory");
	for (int attempt = 0; r == 0 && attempt < ATTEMPTS; attempt++) {
		n->failed_type = UINT16_MAX;
		r = apply_once(&a, replace, extra, extra_count, ranges, range_set_count);
		if (r == -EINTR || r == -ERESTART || give_up_feature(n, r)) {
			r = attempt + 1 < ATTEMPTS ? 0 : r;
		} else if ((r == -EEXIST || r == -EBUSY || r == -EINVAL || r == -EOPNOTSUPP) && a.old.exists && !a.is_new) {
			replace = true; /* what stands there under our names is of another kind */
			r = 0;
		} else {
			break;
		}
		nft_state_free(&a.old);
	}
	if (r == 0)
		n->has_applied = true;
	if (r == -ENFILE)
		r = -ENOSPC; /* more elements than a set takes */
	nft_state_free(&a.old);
	nft_batch_free(&a.batch);
	free(a.specs);
	return r;
}

int nft_remove(struct nft *n)
{
	struct nft_batch *b = &n->batch;
	struct nlmsghdr *h;
	int r;

	nft_batch_begin(n, b, NULL);
	h = nft_batch_message(n, b, NFT_MSG_DELTABLE, 0);
	if (h) {
		mnl_attr_put_strz(h, NFTA_TABLE_NAME, NFT_TABLE);
		nft_batch_message_end(b);
	}
	r = nft_batch_commit(n, b);
	if (r == 0 || r == -ENOENT)
		n->has_applied = n->is_protected = false;
	return r == -ENOENT ? 0 : r;
}
