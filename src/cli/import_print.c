/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Writing what was gathered as a configuration of ours. Every text is quoted, so nothing in it can be read as YAML. */
#include <string.h>
#include "cli/import.h"

static void quoted(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		if ((unsigned char)*text < 0x20)
			fprintf(out, "\\x%02x", (unsigned char)*text);
		else
			fputc(*text, out);
	}
	fputc('"', out);
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

static void print_server(const struct import *m, FILE *out)
{
	bool is_first = true;

	fputs("server:\n  listen: [", out);
	for (size_t i = 0; i < m->interfaces.count; i++, is_first = false)
		fprintf(out, "%s\"%s@%u\"", is_first ? "" : ", ", m->interfaces.v[i], m->port);
	/* dnsmasq always serves loopback beside the interfaces it is given. */
	if (m->interfaces.count && !m->addresses.count)
		fprintf(out, ", \"127.0.0.1@%u\"", m->port);
	for (size_t i = 0; i < m->addresses.count; i++, is_first = false)
		fprintf(out, strchr(m->addresses.v[i], ':') ? "%s\"[%s]@%u\"" : "%s\"%s@%u\"", is_first ? "" : ", ", m->addresses.v[i], m->port);
	if (is_first)
		fprintf(out, "\"127.0.0.1@%u\"", m->port);
	fputs("]\n", out);
	if (is_first)
		fputs("  # dnsmasq listened on every interface: name those of your networks, as br-lan@53\n", out);
	if (m->log_queries)
		fputs("  log: { queries: true }\n", out);
}

static void print_servers_of(FILE *out, const char *key)
{
	fputc('[', out);
	for (size_t n; *key; key += n + (key[n] == ' ')) {
		n = strcspn(key, " ");
		fprintf(out, "\"%.*s\"%s", (int)n, key, key[n] ? ", " : "");
	}
	fputc(']', out);
}

static void print_upstreams(const struct import *m, FILE *out)
{
	bool has_resolv = !m->no_resolv && !m->servers.count;

	fputs("upstreams:\n", out);
	if (m->servers.count || has_resolv || m->resolv_conf) {
		fputs("  default:\n", out);
		if (m->servers.count) {
			fputs("    servers: ", out);
			sequence(out, &m->servers, "    ");
			fputc('\n', out);
		} else {
			fputs("    resolv-conf: ", out);
			quoted(out, m->resolv_conf ? m->resolv_conf : "/etc/resolv.conf");
			fputc('\n', out);
		}
		fprintf(out, "    strategy: %s\n", m->strict_order ? "ordered" : m->all_servers ? "all" : "fastest");
		if (m->in_flight > 0)
			fprintf(out, "    max-in-flight: %ld\n", m->in_flight);
		if (m->standard_domains.count) {
			fputs("    domains: ", out);
			sequence(out, &m->standard_domains, "    ");
			fputc('\n', out);
		}
	}
	for (size_t i = 0; i < m->splits.count; i++) {
		if (!m->splits.v[i].domains.count)
			continue;
		fprintf(out, "  split%zu:\n    servers: ", i + 1);
		print_servers_of(out, m->splits.v[i].key);
		fputs("\n    domains: ", out);
		sequence(out, &m->splits.v[i].domains, "    ");
		fputc('\n', out);
	}
}

static void put_cache(const struct import *m, FILE *out)
{
	long ttl = m->no_negative ? 0 : m->neg_ttl;

	if (m->cache_names < 0 && m->min_ttl < 0 && m->max_ttl < 0 && ttl < 0 && m->stale_s < 0)
		return;
	fputs("cache:\n", out);
	/* About a KiB an answer, and never less than there is a use for. */
	if (m->cache_names >= 0)
		fprintf(out, "  size: %ldMiB\n", m->cache_names < 4096 ? 4 : m->cache_names / 1024);
	if (m->min_ttl >= 0)
		fprintf(out, "  ttl-min: %lds\n", m->min_ttl < 3600 ? m->min_ttl : 3600);
	if (m->max_ttl > 0)
		fprintf(out, "  ttl-max: %lds\n", m->max_ttl < 86400 ? m->max_ttl : 86400);
	if (ttl >= 0)
		fprintf(out, "  negative-ttl-max: %lds\n", ttl < 3600 ? ttl : 3600);
	if (m->stale_s > 0)
		fprintf(out, "  serve-stale: %lds\n", m->stale_s);
}

static void print_local(const struct import *m, FILE *out)
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

static void put_list(FILE *out, const char *name, size_t number, const struct import_group *g)
{
	fprintf(out, "  %s%zu: { ", name, number);
	if (g->file) {
		fputs("files: [", out);
		quoted(out, g->file);
		fputs("], format: dnsmasq", out);
	} else {
		fputs("entries: ", out);
		sequence(out, &g->domains, "    ");
	}
	fputs(" }\n", out);
}

static void put_lists(const struct import *m, FILE *out)
{
	if (!m->answers.count && !m->sets.count && !m->bogus.count)
		return;
	fputs("lists:\n", out);
	for (size_t i = 0; i < m->answers.count; i++)
		put_list(out, m->answers.v[i].key, i + 1, &m->answers.v[i]);
	for (size_t i = 0; i < m->sets.count; i++)
		put_list(out, "set", i + 1, &m->sets.v[i]);
	if (m->bogus.count)
		put_list(out, "bogus", 1, &(struct import_group){.domains = m->bogus});
}

static void print_filter(const struct import *m, FILE *out)
{
	const char *first = m->answer_all4 ? m->answer_all4 : m->answer_all6;

	if (!m->answers.count && !m->bogus.count && !first)
		return;
	fputs("filter:\n", out);
	for (size_t i = 0; i < m->answers.count; i++)
		fprintf(out, "  - { names: [%s%zu], block: %s }\n", m->answers.v[i].key, i + 1, m->answers.v[i].key);
	if (m->bogus.count)
		fputs("  - { names: [bogus1], block: nxdomain }\n", out);
	if (first)
		fprintf(out, "  - { answer: [\"%s\"%s%s%s] }\n", first, first == m->answer_all4 && m->answer_all6 ? ", \"" : "",
			first == m->answer_all4 && m->answer_all6 ? m->answer_all6 : "", first == m->answer_all4 && m->answer_all6 ? "\"" : "");
}

/* Sets of one family out of "4 inet t s;6 inet t s6"; a set without one is written where its name says it belongs. */
static void print_sets_of(FILE *out, const char *key, char family)
{
	bool is_first = true;

	for (size_t n; *key; key += n + (key[n] == ';')) {
		n = strcspn(key, ";");
		bool is_six = key[0] == '6' || (key[0] == 'x' && memchr(key + 2, '6', n - 2));
		if ((family == '6') != is_six)
			continue;
		fprintf(out, "%s\"%.*s\"", is_first ? (family == '6' ? "ip6: [" : "ip: [") : ", ", (int)(n - 2), key + 2);
		is_first = false;
	}
	if (!is_first)
		fputs("] ", out);
}

static bool has_family(const char *key, char family)
{
	for (size_t n; *key; key += n + (key[n] == ';')) {
		n = strcspn(key, ";");
		if ((key[0] == '6' || (key[0] == 'x' && memchr(key + 2, '6', n - 2))) == (family == '6'))
			return true;
	}
	return false;
}

static void print_steer(const struct import *m, FILE *out)
{
	if (!m->sets.count)
		return;
	fputs("ways:\n  direct: {}\n", out);
	for (size_t i = 0; i < m->sets.count; i++) {
		const char *key = m->sets.v[i].key;

		fprintf(out, "  sets%zu: { sets: { ", i + 1);
		print_sets_of(out, key, '4');
		fputs(has_family(key, '4') && has_family(key, '6') ? ", " : "", out);
		print_sets_of(out, key, '6');
		fputs("} }\n", out);
	}
	fputs("steer:\n", out);
	for (size_t i = 0; i < m->sets.count; i++)
		fprintf(out, "  - { names: [set%zu], way: sets%zu }\n", i + 1, i + 1);
	fputs("  - { way: direct }\n", out);
}

void import_print(const struct import *m, FILE *out)
{
	fputs("# made by: nameway import dnsmasq\n", out);
	print_server(m, out);
	print_upstreams(m, out);
	put_cache(m, out);
	print_local(m, out);
	put_lists(m, out);
	print_filter(m, out);
	print_steer(m, out);
}
