/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `explain`: judges a name or an address as a worker would, for one client, and says why. Judging runs on the control thread
 * over the snapshot; then the snapshot is given back, the lines of lists are looked up in the texts that were in
 * force at that moment, and the enforcer is asked. */
#include "control/explain.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/buf.h"
#include "base/err.h"
#include "base/rcu.h"
#include "wire/rr.h"

static const struct {
	const char *name;
	uint16_t type;
} types[] = {{"A", RR_A}, {"AAAA", RR_AAAA}, {"CNAME", RR_CNAME}, {"HTTPS", RR_HTTPS}, {"SVCB", RR_SVCB}, {"MX", RR_MX},
        {"TXT", RR_TXT}, {"NS", RR_NS}, {"SOA", RR_SOA}, {"PTR", RR_PTR}, {"SRV", RR_SRV}, {"DS", RR_DS}, {"DNSKEY", RR_DNSKEY},
        {"ANY", RR_ANY}};

static int read_type(const char *text, uint16_t *ret)
{
	char *end;
	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (!strcasecmp(text, types[i].name)) {
			*ret = types[i].type;
			return 0;
		}
	const char *digits = !strncasecmp(text, "TYPE", 4) ? text + 4 : text;
	unsigned long n = strtoul(digits, &end, 10);
	if (!*digits || *end || n > 65535)
		return NW_EMALFORMED;
	*ret = (uint16_t)n;
	return 0;
}

/* --- lines of lists --- */

static void want(struct explain *x, json_t *into, struct list_place *place, bool is_address)
{
	if (!place || !into || x->place_count == CONTROL_PLACES_MAX)
		list_place_free(place);
	else
		x->places[x->place_count++] = (struct explain_place){.into = json_incref(into), .place = place, .is_address = is_address};
}

void explain_want_name(struct explain *x, json_t *into, unsigned list, const struct name *entry, unsigned kinds)
{
	want(x, into, list_place_of_name(x->env->lists, x->snap->slots[list], entry, kinds), false);
}

void explain_want_address(struct explain *x, json_t *into, unsigned list, const struct addr *a)
{
	want(x, into, list_place_of_address(x->env->lists, x->snap->slots[list], a), true);
}

void explain_want_rule(struct explain *x, json_t *into, unsigned list, const char *rule)
{
	want(x, into, list_place_of_rule(x->env->lists, x->snap->slots[list], rule), false);
}

static void find_place(const struct explain_place *p, uint64_t *bytes_left)
{
	struct buf file;
	unsigned line;
	buf_init(&file, 8192);
	int r = list_place_find(p->place, bytes_left, &file, &line);
	if (r == 0 && file.len) {
		json_object_set_new(p->into, "file", control_text(file.bytes));
		json_object_set_new(p->into, "line", json_integer(line));
	} else if (r == NW_EFULL) {
		json_object_set_new(p->into, "from", json_string("a line that was not looked for to its end: the lists are large"));
	} else if (r == -ENOENT && !p->is_address) {
		json_object_set_new(p->into, "from", json_string("a live edit (nameway list add)"));
	}
	buf_free(&file);
}

/* Parses whole lists: here, so that no update of a list waits for a reader, and with the snapshot given back, so that no reload does. */
static void find_places(const struct explain *x)
{
	uint64_t bytes_left = CONTROL_PLACES_BYTES_MAX;
	rcu_offline();
	for (unsigned i = 0; i < x->place_count; i++)
		find_place(&x->places[i], &bytes_left);
	rcu_online();
}

static void give_back(struct explain *x)
{
	if (x->snap)
		x->env->snapshot_give(x->env->ctx, x->snap);
	x->snap = NULL;
	x->policy = NULL;
}

/* --- the verb --- */

static int explain_of_name(struct explain *x, const json_t *request, const char *what, json_t **ret)
{
	const char *type = json_string_value(json_object_get(request, "type"));
	uint16_t qtype = RR_A;
	char text[NAME_TEXT_MAX];
	if (name_from_user_text(&x->chain[0], what, strlen(what)) < 0)
		return control_fail(ret, NW_EMALFORMED, "`%.128s` is neither a name nor an address", what);
	if (type && read_type(type, &qtype) < 0)
		return control_fail(ret, NW_EMALFORMED, "`%.32s` is no record type: give A, AAAA, HTTPS, … or a number", type);
	x->chain_len = 1;
	x->qtype = qtype;
	json_object_set_new(x->out, "name", control_text(name_to_text(text, x->chain[0].wire)));
	json_object_set_new(x->out, "type", type ? json_string(type) : json_string("A"));
	explain_name(x, qtype);
	return 0;
}

static int explain_with(struct explain *x, const json_t *request, json_t **ret)
{
	const char *what = control_argument(request, "name", ret);
	struct addr a;
	if (!what)
		return NW_EMALFORMED;
	bool is_address = addr_parse(&a, what) == 0;
	json_t *kernel = is_address ? control_ask(x->env, STEER_Q_ADDRESS, &a) : NULL;
	int r = 0;
	x->snap = control_snapshot(x->env, ret);
	if (!x->snap)
		r = -EAGAIN;
	if (r == 0) {
		x->policy = x->snap->policy;
		r = explain_client(x, request, ret);
	}
	if (r == 0 && is_address)
		explain_address(x, &a, kernel);
	else if (r == 0)
		r = explain_of_name(x, request, what, ret);
	give_back(x);
	if (r == 0 && x->place_count)
		find_places(x);
	if (r == 0 && !is_address)
		explain_name_kernel(x);
	json_decref(kernel);
	return r;
}

int verb_explain(const struct control_env *env, const json_t *request, json_t **ret)
{
	struct explain *x = calloc(1, sizeof(*x));
	if (!x || !(x->out = json_object())) {
		free(x);
		return -ENOMEM;
	}
	x->env = env;
	int r = explain_with(x, request, ret);
	if (r == 0)
		*ret = json_incref(x->out);
	for (unsigned i = 0; i < x->place_count; i++) {
		json_decref(x->places[i].into);
		list_place_free(x->places[i].place);
	}
	json_decref(x->out);
	free(x);
	return r;
}
