/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What `nameway import dnsmasq` gathers from a dnsmasq configuration and prints as ours. import.c: the verb, files and lines; import_options.c: what each
 * option means; import_print.c: the YAML. Everything lives in one arena; one thread, no server is asked. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include "base/arena.h"
#include "cli/cli.h"

/* Strings in order, each once. */
struct texts { const char **v; size_t count, cap; };
/* Domains that are treated alike: by the servers asked, by what is answered, by the nft sets filled. */
struct import_group { const char *key, *note; struct texts domains; const char *file; /* the whole file is a list of them, or NULL */ };
struct import_groups { struct import_group *v; size_t count, cap; };

/* Lines of one domain add up, in file order: pairs first, groups of equal domains when all was read. */
struct import_pair { const char *domain, *value; size_t order; };
struct import_pairs { struct import_pair *v; size_t count, cap; };

struct import {
	struct arena *arena;
	struct cli *cli;
	unsigned not_carried, depth;
	bool is_out_of_memory;
	const char *file;
	unsigned line;
	/* what was understood */
	unsigned port;
	struct texts interfaces, except_interfaces, addresses;
	struct texts servers, standard_domains, hosts, records, rebind_ok, bogus;
	struct import_pairs servers_of, sets_of;
	struct import_groups splits;  /* key: the servers, separated by ' ' */
	struct import_groups answers; /* key: "nxdomain" or "zero" */
	struct import_groups sets;    /* key: the sets, separated by ';' */
	const char *resolv_conf, *domain, *answer_all4, *answer_all6;
	bool no_resolv, no_hosts, strict_order, all_servers, stop_rebind, log_queries, no_negative;
	long cache_names, min_ttl, max_ttl, neg_ttl, in_flight, stale_s; /* -1: not given */
};

bool texts_add(struct import *m, struct texts *t, const char *text); /* false: there already */
struct import_group *import_group(struct import *m, struct import_groups *g, const char *key);
/* Says on the error stream which line was not carried over, and why. */
void import_leave(struct import *m, const char *line, const char *why);
bool import_pair(struct import *m, struct import_pairs *p, const char *domain, const char *value);
int import_file(struct import *m, const char *path);
/* One option; value NULL when there is none. Returns what stands in its way, or NULL. */
const char *import_option(struct import *m, char *key, char *value);
void import_print(const struct import *m, FILE *out);
int cli_import(struct cli *c, int argc, char **argv);
