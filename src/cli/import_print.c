/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Writing what was gathered as a configuration of ours. Every text is quoted, so nothing in it can be read as YAML. */
#include <string.h>
#include "cli/import.h"

static void quoted_part(FILE *out, const char *text, size_t len)
{
	fputc('"', out);
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '"' || text[i] == '\\')
			fputc('\\', out);
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			fprintf(out, "\\x%02x", (unsigned char)text[i]);
		else
			fputc(text[i], out);
	}
	fputc('"', out);
}

static void quoted(FILE *out, const char *text)
{
	quoted_part(out, text, strlen(text));
}

/* [a, b, …], over several lines when it is long. */
static void sequence(FILE *out, const struct texts *t, const char *indent)
{
	fputc('[', out);
	for (size_t i = 0; i < t->count; i++) {
		fputs(i ? "," : "", out);
		fprintf(out, t->count > 6 ? "\n%s  " : i ? " " : "", indent);
		quoted(out, t->v[i]);
	}
	fputc(']', out);
}

/* "KEY: [a, b]" of a text with `between` between its parts. */
static void parts(FILE *out, const char *text, char between)
{
	fputc('[', out);
	for (size_t n; *text; text += n + (text[n] == between)) {
		const char *end = strchr(text, between);

		n = end ? (size_t)(end - text) : strlen(text);
		quoted_part(out, text, n);
		fputs(text[n] && text[n + 1] ? ", " : "", out);
	}
	fputc(']', out);
}

static bool is_among(const struct texts *t, const char *text)
{
	for (size_t i = 0; i < t->count; i++)
		if (strcmp(t->v[i], text) == 0)
			return true;
	return false;
}

static bool listen_at(FILE *out, bool is_first, const char *at, unsigned port)
{
	fprintf(out, strchr(at, ':') ? "%s\"[%s]@%u\"" : "%s\"%s@%u\"", is_first ? "" : ", ", at, port);
	return false;
}

static void put_server(const struct import *m, FILE *out)
{
	bool is_first = true;

	fputs("server:\n  listen: [", out);
	for (size_t i = 0; i < m->interfaces.count; i++)
		if (!is_among(&m->except_interfaces, m->interfaces.v[i]))
			is_first = listen_at(out, is_first, m->interfaces.v[i], m->port);
	for (size_t i = 0; i < m->addresses.count; i++)
		is_first = listen_at(out, is_first, m->addresses.v[i], m->port);
	/* dnsmasq serves loopback beside the interfaces it is given. */
	if (is_first || (m->interfaces.count && !is_among(&m->addresses, "127.0.0.1") && !is_among(&m->addresses, "0.0.0.0") && !is_among(&m->interfaces, "lo") &&
	                        !is_among(&m->except_interfaces, "lo")))
		listen_at(out, is_first, "127.0.0.1", m->port);
	fputs("]\n", out);
	if (is_first)
		fputs("  # dnsmasq listened on every interface: name those of your networks, as br-lan@53\n", out);
	for (size_t i = 0; is_first && i < m->except_interfaces.count; i++)
		fprintf(out, "  # but not %s\n", m->except_interfaces.v[i]);
	if (m->log_queries)
		fputs("  log: { queries: true }\n", out);
}

static void put_default(const struct import *m, FILE *out)
{
	fputs("  default:\n", out);
	if (m->servers.count) {
		fputs("    servers: ", out);
		sequence(out, &m->servers, "    ");
		fputc('\n', out);
	}
	if (!m->no_resolv) {
		fputs("    resolv-conf: ", out);
		quoted(out, m->resolv_conf ? m->resolv_conf : "/etc/resolv.conf");
		fputc('\n', out);
	}
	fprintf(out, "    strategy: %s\n", m->all_servers ? "all" : m->strict_order ? "ordered" : "fastest");
	if (m->in_flight > 0)
		fprintf(out, "    max-in-flight: %ld\n", m->in_flight < 65536 ? m->in_flight : 65536);
	if (m->standard.count) {
		fputs("    domains: ", out);
		sequence(out, &m->standard, "    ");
		fputc('\n', out);
	}
}

static void put_upstreams(const struct import *m, FILE *out)
{
	fputs("upstreams:\n", out);
	if (m->servers.count || !m->no_resolv)
		put_default(m, out);
	for (size_t i = 0; i < m->splits.count; i++) {
		fprintf(out, "  split%zu:\n    servers: ", i + 1);
		parts(out, m->splits.v[i].value, ' ');
		fputs("\n    domains: ", out);
		sequence(out, &m->splits.v[i].entries, "    ");
		fputc('\n', out);
	}
}

static long at_most(long n, long max)
{
	return n < max ? n : max;
}

static void put_cache(const struct import *m, FILE *out)
{
	if (m->cache_names < 0 && m->min_ttl < 0 && m->max_ttl <= 0 && !m->no_negative && m->stale_s < 0)
		return;
	fputs("cache:\n", out);
	/* About a KiB an answer, and never less than there is a use for. */
	if (m->cache_names >= 0)
		fprintf(out, "  size: %ldMiB\n", m->cache_names < 4096 ? 4 : at_most(m->cache_names / 1024, 1 << 20));
	if (m->min_ttl >= 0)
		fprintf(out, "  ttl-min: %lds\n", at_most(at_most(m->min_ttl, 3600), m->max_ttl > 0 ? m->max_ttl : 3600));
	if (m->max_ttl > 0)
		fprintf(out, "  ttl-max: %lds\n", at_most(m->max_ttl, 86400));
	if (m->no_negative)
		fputs("  negative-ttl-max: 0s\n", out);
	if (m->stale_s > 0)
		fprintf(out, "  serve-stale: %lds\n", m->stale_s);
}

static void put_local(const struct import *m, FILE *out)
{
	if (m->no_hosts && !m->hosts.count && !m->records.count && !m->domain && !m->stop_rebind)
		return;
	fputs("local:\n", out);
	if (!m->no_hosts || m->hosts.count) {
		fprintf(out, "  hosts: [%s", m->no_hosts ? "" : "\"/etc/hosts\"");
		for (size_t i = 0; i < m->hosts.count; i++) {
			fputs(i || !m->no_hosts ? ", " : "", out);
			quoted(out, m->hosts.v[i]);
		}
		fputs("]\n", out);
	}
	if (m->domain) {
		fputs("  domain: ", out);
		quoted(out, m->domain);
		fputc('\n', out);
	}
	if (m->records.count) {
		fputs("  records: ", out);
		sequence(out, &m->records, "  ");
		fputc('\n', out);
	}
	if (m->stop_rebind) {
		fputs("  rebind-protection: { ", out);
		if (m->rebind_ok.count) {
			fputs("allow: ", out);
			sequence(out, &m->rebind_ok, "  ");
		}
		fputs(" }\n", out);
	}
}

/* --- lists and the rules on them --- */

static const char *kind_of(const struct import_group *g)
{
	static const char *const kinds[] = {[IMPORT_ANSWER] = "answer", [IMPORT_ZERO] = "zero", [IMPORT_NXDOMAIN] = "nxdomain", [IMPORT_FILE] = "file"};

	return kinds[g->class];
}

static void put_list(FILE *out, const char *name, size_t number, const char *more, const struct texts *entries, const char *rest)
{
	if (number)
		fprintf(out, "  %s%zu%s: { entries: ", name, number, more);
	else
		fprintf(out, "  %s: { entries: ", name);
	sequence(out, entries, "    ");
	fprintf(out, "%s }\n", rest);
}

static bool has_name(const struct texts *entries)
{
	for (size_t i = 0; i < entries->count; i++)
		if (*entries->v[i] != '!')
			return true;
	return false;
}

static void put_group(FILE *out, const char *kind, size_t number, const struct import_group *g)
{
	if (g->class == IMPORT_FILE) {
		fprintf(out, "  file%zu: { files: [", number);
		quoted(out, g->value);
		fputs("], format: dnsmasq }\n", out);
		if (has_name(&g->entries))
			put_list(out, "not-in-file", number, "", &g->entries, "");
		return;
	}
	if (g->entries.count)
		put_list(out, kind, number, "", &g->entries, ", format: domains");
	if (g->patterns.count)
		put_list(out, kind, number, "-patterns", &g->patterns, ", format: dnsmasq");
}

/* Rules of the bounded stage, for questions of some types. */
static void put_rule_list(FILE *out, const char *name, const char *rule)
{
	put_list(out, name, 0, "", &(struct texts){.v = &rule, .count = 1}, ", format: adblock");
}

static bool has_patterns(const struct import_groups *g)
{
	for (size_t i = 0; i < g->count; i++)
		if (g->v[i].patterns.count)
			return true;
	return false;
}

/* What servers are asked for is nothing of a pattern or of a rule for every name. */
static bool needs_elsewhere(const struct import *m)
{
	return m->elsewhere.count && (m->all.count || has_patterns(&m->answers));
}

static void put_lists(const struct import *m, FILE *out)
{
	if (!m->answers.count && !m->sets.count && !m->bogus.count && !m->domain_needed && !m->no_a && !m->no_aaaa && !needs_elsewhere(m))
		return;
	fputs("lists:\n", out);
	if (m->domain_needed)
		put_rule_list(out, "without-dot", "/^[^.]+$/$dnstype=A|AAAA");
	if (m->no_a)
		put_rule_list(out, "type-a", "/./$dnstype=A");
	if (m->no_aaaa)
		put_rule_list(out, "type-aaaa", "/./$dnstype=AAAA");
	for (size_t i = 0; i < m->answers.count; i++)
		put_group(out, kind_of(&m->answers.v[i]), i + 1, &m->answers.v[i]);
	if (needs_elsewhere(m))
		put_list(out, "elsewhere", 0, "", &m->elsewhere, ", format: domains");
	for (size_t i = 0; i < m->sets.count; i++)
		put_group(out, "set", i + 1, &m->sets.v[i]);
	if (m->bogus.count)
		put_list(out, "bogus", 0, "", &m->bogus, "");
}

static void put_action(FILE *out, enum import_class class, const char *value)
{
	if (class == IMPORT_ANSWER) {
		fputs("answer: ", out);
		parts(out, value, ' ');
	} else {
		fputs(class == IMPORT_ZERO ? "block: zero" : "block: nxdomain", out);
	}
	fputs(" }\n", out);
}

static void put_rule(const struct import_group *g, size_t number, FILE *out)
{
	enum import_class class = g->class == IMPORT_FILE ? g->meaning : g->class;

	if (g->class != IMPORT_FILE && !g->entries.count)
		return;
	fprintf(out, "  - { names: [%s%zu], ", kind_of(g), number);
	if (g->class == IMPORT_FILE && has_name(&g->entries))
		fprintf(out, "except-names: [not-in-file%zu], ", number);
	put_action(out, class, g->value);
}

static void put_rule_of_all(const struct import *m, FILE *out)
{
	if (!m->all.count)
		return;
	fprintf(out, "  - { %s", m->elsewhere.count ? "except-names: [elsewhere], " : "");
	if (m->all_class == IMPORT_ANSWER) {
		fputs("answer: ", out);
		sequence(out, &m->all, "    ");
		fputs(" }\n", out);
	} else {
		put_action(out, m->all_class, "");
	}
}

static void put_filter(const struct import *m, FILE *out)
{
	if (!m->answers.count && !m->bogus.count && !m->all.count && !m->domain_needed && !m->no_a && !m->no_aaaa)
		return;
	fputs("filter:\n", out);
	if (m->domain_needed)
		fputs("  - { names: [without-dot], block: nxdomain }\n", out);
	for (size_t i = 0; i < m->answers.count; i++)
		put_rule(&m->answers.v[i], i + 1, out);
	for (size_t i = 0; i < m->answers.count; i++)
		if (m->answers.v[i].patterns.count) {
			fprintf(out, "  - { names: [%s%zu-patterns], %s", kind_of(&m->answers.v[i]), i + 1, m->elsewhere.count ? "except-names: [elsewhere], " : "");
			put_action(out, m->answers.v[i].class, m->answers.v[i].value);
		}
	if (m->no_a)
		fputs("  - { names: [type-a], block: nodata }\n", out);
	if (m->no_aaaa)
		fputs("  - { names: [type-aaaa], block: nodata }\n", out);
	if (m->bogus.count)
		fputs("  - { names: [bogus], block: nxdomain }\n", out);
	put_rule_of_all(m, out);
}

/* --- nft sets --- */

/* Sets of one family out of "4 inet t s;6 inet t s6". */
static void put_sets_of(FILE *out, const char *value, char family)
{
	bool is_first = true;

	for (size_t n; *value; value += n + (value[n] == ';')) {
		n = strcspn(value, ";");
		if (value[0] != family)
			continue;
		fputs(is_first ? (family == '6' ? "ip6: [" : "ip: [") : ", ", out);
		quoted_part(out, value + 2, n - 2);
		is_first = false;
	}
	fputs(is_first ? "" : "]", out);
}

static void put_way(FILE *out, const char *name, const char *value)
{
	bool has4 = *value == '4' || strstr(value, ";4 "), has6 = *value == '6' || strstr(value, ";6 ");

	fprintf(out, "  %s: { sets: { ", name);
	put_sets_of(out, value, '4');
	fputs(has4 && has6 ? ", " : "", out);
	put_sets_of(out, value, '6');
	fputs(" } }\n", out);
}

static void put_steer(const struct import *m, FILE *out)
{
	char name[32];

	if (!m->sets.count && !m->all_sets)
		return;
	fputs("ways:\n  direct: {}\n", out);
	for (size_t i = 0; i < m->sets.count; i++) {
		snprintf(name, sizeof(name), "sets%zu", i + 1);
		put_way(out, name, m->sets.v[i].value);
	}
	if (m->all_sets)
		put_way(out, "sets-of-all", m->all_sets);
	fputs("steer:\n", out);
	for (size_t i = 0; i < m->sets.count; i++)
		if (m->sets.v[i].entries.count)
			fprintf(out, "  - { names: [set%zu], way: sets%zu }\n", i + 1, i + 1);
	for (size_t i = 0; i < m->sets.count; i++)
		if (m->sets.v[i].patterns.count)
			fprintf(out, "  - { names: [set%zu-patterns], way: sets%zu }\n", i + 1, i + 1);
	fprintf(out, "  - { way: %s }\n", m->all_sets ? "sets-of-all" : "direct");
}

void import_print(const struct import *m, FILE *out)
{
	fputs("# made by: nameway import dnsmasq\n", out);
	put_server(m, out);
	put_upstreams(m, out);
	put_cache(m, out);
	put_local(m, out);
	put_lists(m, out);
	put_filter(m, out);
	put_steer(m, out);
}
