/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Who decides about which domain. With dnsmasq the most specific domain decides, whatever the option; here the kinds have an order of their own: local
 * names, then filter rules in their order, then servers. So
 *
 *   - a domain beneath one of a list that something else decides about becomes an exception of that list ("!x"; of a file: a list for `except-names`);
 *   - `address=` with an address becomes a subtree record (".x A …"); where something that a filter rule answers lies beneath, a filter rule as well.
 *
 * Domains are sorted by their labels from the right, so that what lies beneath a domain stands behind it. */
#include <stdlib.h>
#include <string.h>
#include "cli/import.h"

enum { LABELS_MAX = 128, LISTED_MAX = 65536, DOMAINS_MAX = 65536, RECORDS_MAX = 65536 };

/* One domain, after all that is said of it: value is of all lines of its class together. */
struct node {
	const char *domain, *key, *value;
	enum import_class class;
	struct import_line *line;
	bool is_record; /* an answer that becomes one */
};
struct nodes { struct node *v; size_t count; };

static bool is_pattern(const char *domain)
{
	return *domain == '*' || !*domain;
}

/* "a.b.c" as "c\x01b\x01a\x01": what lies beneath a domain begins with its key, and nothing else does. */
static const char *key_of(struct import *m, const char *domain)
{
	size_t len = strlen(domain), end = len;
	char *key = arena_alloc(m->arena, len + 2), *to = key;

	if (!key)
		return import_out_of_memory(m);
	if (is_pattern(domain) || strcmp(domain, ".") == 0) {
		/* They lie beneath nothing. */
		*to++ = '\x02';
		memcpy(to, domain, len);
		return key;
	}
	for (size_t at = len; at-- > 0;)
		if (at == 0 || domain[at - 1] == '.') {
			memcpy(to, domain + at, end - at);
			to += end - at;
			*to++ = '\x01';
			end = at ? at - 1 : 0;
		}
	return key;
}

static int compare_said(const void *a, const void *b)
{
	const struct import_said *x = a, *y = b;
	int by_key = strcmp(x->key, y->key);

	if (by_key)
		return by_key;
	return x->class != y->class ? (x->class < y->class ? -1 : 1) : x->order < y->order ? -1 : 1;
}

static bool has_part(const char *parts, const char *part, char between)
{
	size_t len = strlen(part);

	for (const char *p = parts; p; p = strchr(p, between) ? strchr(p, between) + 1 : NULL)
		if (strncmp(p, part, len) == 0 && (!p[len] || p[len] == between))
			return true;
	return false;
}

/* What is said of one domain, [at, next): the first class counts, and what the lines of it say together. */
static void merge(struct import *m, struct node *n, const struct import_said *said, size_t count, char between)
{
	*n = (struct node){.domain = said->domain, .key = said->key, .value = said->value, .class = said->class, .line = said->line};
	for (size_t i = 1; i < count; i++) {
		if (said[i].class != n->class) {
			/* dnsmasq answers the types that have no address here by the other one. */
			if (said[i].class != IMPORT_FILE && said[i].class != IMPORT_NXDOMAIN)
				import_leave(m, said[i].line, "another line answers for that domain, here all types");
			continue;
		}
		if (n->class != IMPORT_FILE && !has_part(n->value, said[i].value, between))
			n->value = import_text(m, "%s%c%s", n->value, between, said[i].value);
	}
}

static struct nodes gather(struct import *m, struct import_saids *s, char between)
{
	struct nodes ret = {0};
	size_t next;

	for (size_t i = 0; i < s->count; i++)
		s->v[i].key = key_of(m, s->v[i].domain);
	ret.v = arena_alloc(m->arena, (s->count + 1) * sizeof(*ret.v));
	if (!ret.v || m->is_out_of_memory) {
		import_out_of_memory(m);
		return (struct nodes){0};
	}
	if (s->count)
		qsort(s->v, s->count, sizeof(*s->v), compare_said);
	for (size_t i = 0; i < s->count; i = next) {
		for (next = i + 1; next < s->count && strcmp(s->v[next].key, s->v[i].key) == 0; next++)
			;
		merge(m, &ret.v[ret.count++], &s->v[i], next - i, between);
	}
	return ret;
}

static struct import_group *group_of(struct import *m, struct import_groups *g, const struct node *n)
{
	for (size_t i = 0; i < g->count; i++)
		if (g->v[i].class == n->class && strcmp(g->v[i].value, n->value) == 0)
			return &g->v[i];
	if (!import_grow(m, &g->v, g->count, &g->cap, sizeof(*g->v)))
		return NULL;
	g->v[g->count] = (struct import_group){.class = n->class, .value = n->value};
	return &g->v[g->count++];
}

static void add_entry(struct import *m, struct import_groups *groups, const struct node *of, const char *mark, const struct node *n)
{
	struct import_group *g = group_of(m, groups, of);

	if (!g)
		return;
	if (g->entries.count == LISTED_MAX)
		import_leave(m, n->line, "a list has 65,536 entries at most; put these lines into a file of their own, which is taken as a list");
	else
		texts_add(m, &g->entries, *mark ? import_text(m, "%s%s", mark, n->domain) : n->domain);
}

/* A line of dnsmasq that says the domain to a list. */
static void add_pattern(struct import *m, struct import_groups *groups, const struct node *n)
{
	struct import_group *g = group_of(m, groups, n);

	if (g)
		texts_add(m, &g->patterns, import_text(m, "address=/%s/", n->domain));
}

/* Takes what does not contain `n` off the stack of domains above it. */
static size_t unwind(const struct node *const *stack, size_t depth, const struct node *n)
{
	while (depth && strncmp(n->key, stack[depth - 1]->key, strlen(stack[depth - 1]->key)) != 0)
		depth--;
	return depth;
}

static bool is_filtered(const struct node *n)
{
	return n->class == IMPORT_ZERO || n->class == IMPORT_NXDOMAIN || n->class == IMPORT_FILE || (n->class == IMPORT_ANSWER && !n->is_record);
}

/* Answers are records, but for those above something that a filter rule answers: local names go before it. */
static void choose_records(struct nodes *all)
{
	struct node *stack[LABELS_MAX];
	size_t depth = 0;

	for (size_t i = 0; i < all->count; i++)
		all->v[i].is_record = all->v[i].class == IMPORT_ANSWER && strcmp(all->v[i].domain, ".") != 0 && (!is_pattern(all->v[i].domain) || strncmp(all->v[i].domain, "*.", 2) == 0);
	for (size_t i = 0; i < all->count; i++) {
		struct node *n = &all->v[i];

		if (*n->key == '\x02')
			continue;
		depth = unwind((const struct node *const *)stack, depth, n);
		/* Servers end it: their domains go before a record above them. */
		for (size_t k = depth; is_filtered(n) && k-- > 0 && (stack[k]->class == IMPORT_ANSWER || is_filtered(stack[k]));)
			stack[k]->is_record = false;
		if (depth < LABELS_MAX)
			stack[depth++] = n;
	}
}

static void add_records(struct import *m, const struct node *n)
{
	const char *owner = *n->domain == '*' ? n->domain : import_text(m, ".%s", n->domain);

	for (const char *p = n->value; *p;) {
		int len = (int)strcspn(p, " ");

		if (m->records.count == RECORDS_MAX) {
			import_leave(m, n->line, "there are 65,536 records at most");
			return;
		}
		texts_add(m, &m->records, import_text(m, "%s %s %.*s", owner, memchr(p, ':', (size_t)len) ? "AAAA" : "A", len, p));
		p += len + (p[len] == ' ');
	}
}

static void for_every_name(struct import *m, const struct node *n)
{
	m->all_class = n->class;
	for (const char *p = n->value;;) {
		int len = (int)strcspn(p, " ");

		texts_add(m, &m->all, import_text(m, "%.*s", len, p));
		if (!p[len])
			break;
		p += len + 1;
	}
}

static bool has_default(const struct import *m)
{
	return m->servers.count || !m->no_resolv;
}

static void settle_servers(struct import *m, const struct node *n)
{
	struct import_group *g;

	texts_add(m, &m->elsewhere, n->domain);
	if (n->class == IMPORT_STANDARD && !has_default(m)) {
		import_leave(m, n->line, "there are no standard servers");
		return;
	}
	g = n->class == IMPORT_SERVERS ? group_of(m, &m->splits, n) : NULL;
	if (n->class == IMPORT_STANDARD ? m->standard.count == DOMAINS_MAX : g && g->entries.count == DOMAINS_MAX)
		import_leave(m, n->line, "a group of servers has 65,536 domains at most");
	else if (n->class == IMPORT_STANDARD)
		texts_add(m, &m->standard, n->domain);
	else if (g)
		texts_add(m, &g->entries, n->domain);
}

/* One domain: to its list, and out of the list of the nearest one above that something else decides about. */
static void settle_domain(struct import *m, const struct node *n, const struct node *above)
{
	if (n->is_record) {
		add_records(m, n);
		return;
	}
	if (is_filtered(n) && n->class != IMPORT_FILE)
		add_entry(m, &m->answers, n, "", n);
	else if (!is_filtered(n))
		settle_servers(m, n);
	if (!above || (above->class == n->class && strcmp(above->value, n->value) == 0))
		return;
	if (n->class == IMPORT_FILE)
		add_entry(m, &m->answers, n, "!", n);
	if (is_filtered(above))
		add_entry(m, &m->answers, above, above->class == IMPORT_FILE ? "" : "!", n);
}

static void settle_domains(struct import *m)
{
	struct nodes all = gather(m, &m->said, ' ');
	const struct node *stack[LABELS_MAX];
	size_t depth = 0;

	choose_records(&all);
	for (size_t i = 0; i < all.count && !m->is_out_of_memory; i++) {
		const struct node *n = &all.v[i];

		if (strcmp(n->domain, ".") == 0) {
			for_every_name(m, n);
			continue;
		}
		if (*n->key == '\x02') {
			if (n->is_record)
				add_records(m, n);
			else
				add_pattern(m, &m->answers, n);
			continue;
		}
		depth = unwind(stack, depth, n);
		settle_domain(m, n, depth ? stack[depth - 1] : NULL);
		if (!n->is_record && depth < LABELS_MAX)
			stack[depth++] = n;
	}
}

static void settle_sets(struct import *m)
{
	struct nodes all = gather(m, &m->sets_said, ';');
	const struct node *stack[LABELS_MAX];
	size_t depth = 0;

	for (size_t i = 0; i < all.count && !m->is_out_of_memory; i++) {
		const struct node *n = &all.v[i];

		if (strcmp(n->domain, ".") == 0) {
			m->all_sets = n->value;
			continue;
		}
		if (*n->key == '\x02') {
			add_pattern(m, &m->sets, n);
			continue;
		}
		depth = unwind(stack, depth, n);
		add_entry(m, &m->sets, n, "", n);
		if (depth && strcmp(stack[depth - 1]->value, n->value) != 0)
			add_entry(m, &m->sets, stack[depth - 1], "!", n);
		if (depth < LABELS_MAX)
			stack[depth++] = n;
	}
}

static void settle_records(struct import *m)
{
	/* A service without a domain is one of the local domain. */
	for (size_t i = 0; i < m->short_srv.count; i++) {
		int len = (int)strcspn(m->short_srv.v[i], " ");

		texts_add(m, &m->records, m->domain ? import_text(m, "%.*s.%s%s", len, m->short_srv.v[i], m->domain, m->short_srv.v[i] + len) : m->short_srv.v[i]);
	}
	for (size_t i = 0; i < m->mx_self.count; i++) {
		if (m->mx_target)
			texts_add(m, &m->records, import_text(m, "%s MX %s %s", m->mx_self.v[i].domain, m->mx_self.v[i].value, m->mx_target));
		else
			import_leave(m, m->mx_self.v[i].line, "without a target it means this machine's name; give the target");
	}
}

void import_settle(struct import *m)
{
	settle_domains(m);
	settle_sets(m);
	settle_records(m);
	if (m->resolv_conf && m->no_resolv && m->resolv_line)
		import_leave(m, m->resolv_line, "`no-resolv` stands beside it");
}
