/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The command line of the load generator: options into load_options, names into a mix. Whatever is wrong is said here, with the
 * mend. */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/err.h"
#include "base/hash.h"
#include "cli/load_options.h"
#include "cli/load_pace.h"

enum { WEIGHT_MAX = 1000000, EDNS_LEAST = 512 };

static const struct load_options defaults = {.server = {.addr = {.family = AF_INET, .b = {127, 0, 0, 1}}, .port = 53},
        .rate = 1000,
        .duration_ns = 10000000000,
        .timeout_ns = 2000000000,
        .connections = 4,
        .pipeline = 16};

static const struct option long_options[] = {{"server", required_argument, NULL, 's'}, {"rate", required_argument, NULL, 'r'},
        {"duration", required_argument, NULL, 'd'}, {"count", required_argument, NULL, 'c'},
        {"in-flight", required_argument, NULL, 'k'}, {"window", required_argument, NULL, 'k'},
        {"timeout", required_argument, NULL, 'w'}, {"tcp", no_argument, NULL, 't'}, {"tcp-share", required_argument, NULL, 'T'},
        {"connections", required_argument, NULL, 'C'}, {"pipeline", required_argument, NULL, 'P'},
        {"reuse", required_argument, NULL, 'U'}, {"sources", required_argument, NULL, 'S'},
        {"name", required_argument, NULL, 'n'}, {"names", required_argument, NULL, 'f'}, {"mix", required_argument, NULL, 'm'},
        {"ordered", no_argument, NULL, 'o'}, {"type", required_argument, NULL, 'y'}, {"edns", required_argument, NULL, 'e'},
        {"seed", required_argument, NULL, 'x'}, {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {0}};

static int __attribute__((format(printf, 1, 2))) wrong(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	fputs("nameway load: ", stderr);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
	va_end(args);
	return NW_EMALFORMED;
}

int load_duration_parse(uint64_t *ret_ns, const char *text)
{
	static const struct {
		const char *unit;
		uint64_t ns;
	} units[] = {{"", 1000000000}, {"s", 1000000000}, {"ms", 1000000}, {"m", 60000000000}, {"h", 3600000000000}};
	char *end;
	unsigned long long value;

	if (*text < '0' || *text > '9')
		return NW_EMALFORMED;
	errno = 0;
	value = strtoull(text, &end, 10);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].unit) || errno || value > UINT64_MAX / units[i].ns)
			continue;
		*ret_ns = value * units[i].ns;
		return 0;
	}
	return NW_EMALFORMED;
}

unsigned load_weight_cut(char *text)
{
	char *colon = strrchr(text, ':'), *end;
	unsigned long weight;

	if (!colon || !colon[1] || strspn(colon + 1, "0123456789") != strlen(colon + 1))
		return 1;
	*colon = 0;
	weight = strtoul(colon + 1, &end, 10);
	return weight <= WEIGHT_MAX ? (unsigned)weight : 0;
}

static int number(uint64_t *ret, const char *option, const char *text, uint64_t least, uint64_t most)
{
	char *end;
	unsigned long long value = 0;

	errno = 0;
	if (*text >= '0' && *text <= '9')
		value = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || value < least || value > most)
		return wrong("--%s takes a number from %llu to %llu, not `%s`", option, (unsigned long long)least,
		        (unsigned long long)most, text);
	*ret = value;
	return 0;
}

static int number_unsigned(unsigned *ret, const char *option, const char *text, unsigned least, unsigned most)
{
	uint64_t value = 0;
	int r = number(&value, option, text, least, most);

	if (r >= 0)
		*ret = (unsigned)value;
	return r;
}

static int duration(uint64_t *ret, const char *option, const char *text, uint64_t most_ns)
{
	uint64_t value = 0;

	if (load_duration_parse(&value, text) < 0 || !value || value > most_ns)
		return wrong("--%s takes a time up to %llu s, as 10s or 500ms, not `%s`", option,
		        (unsigned long long)(most_ns / 1000000000), text);
	*ret = value;
	return 0;
}

/* What the names need to know is set by options that may stand behind them, so they are added when all are read. */
struct names_wanted {
	struct {
		char *text;
		bool is_file;
	} item[NAMES_PARTS_MAX];
	unsigned count;
	uint16_t type;
	bool is_ordered;
};

static int want_names(struct names_wanted *w, char *text, bool is_file)
{
	if (w->count == NAMES_PARTS_MAX)
		return wrong("a mix has at most %d parts", NAMES_PARTS_MAX);
	w->item[w->count].text = text;
	w->item[w->count++].is_file = is_file;
	return 0;
}

static int want_mix(struct names_wanted *w, char *text)
{
	char *rest = text, *item;
	int r = 0;

	while (r >= 0 && (item = strsep(&rest, ",")))
		r = *item ? want_names(w, item, true) : wrong("--mix takes FILE:WEIGHT,FILE:WEIGHT…");
	return r;
}

static int names_make(struct load_command *c, struct names_wanted *w)
{
	static char default_pattern[] = "www.<10>.lan";
	int r = 0;

	if (!w->count)
		r = want_names(w, default_pattern, false);
	c->asked = w->item[0].text;
	c->names = names_new(c->options.seed);
	if (!c->names)
		return wrong("%s", nw_strerror(-ENOMEM));
	for (unsigned i = 0; i < w->count && r >= 0; i++) {
		char *text = w->item[i].text;
		unsigned weight = load_weight_cut(text);
		unsigned long line = 0;

		if (!weight)
			return wrong("the weight of `%s` must be 1 to %d", text, WEIGHT_MAX);
		if (!w->item[i].is_file) {
			r = names_add_pattern(c->names, text, w->type, weight);
			if (r < 0)
				return wrong(
				        "--name `%s`: %s; write it like www.<10>.lan, host<#>.example or \"example.org AAAA\"",
				        text, nw_strerror(r));
			continue;
		}
		r = names_add_file(c->names, text, w->type, weight, w->is_ordered, &line);
		if (r == -ENODATA)
			return wrong("--names %s: no name in it", text);
		if (r < 0 && line)
			return wrong("--names %s, line %lu: %s; a line is NAME or NAME TYPE", text, line, nw_strerror(r));
		if (r < 0)
			return wrong("--names %s: %s", text, nw_strerror(r));
	}
	return r;
}

static int server_set(struct load_command *c, const char *text)
{
	char address[ADDR_TEXT_MAX];

	if (text && (endpoint_parse(&c->options.server, text, 53) < 0 || !c->options.server.port))
		return wrong("--server takes ADDRESS@PORT, as 127.0.0.1@53 or [::1]@53, not `%s`", text);
	addr_print(address, &c->options.server.addr);
	snprintf(c->server, sizeof(c->server), c->options.server.addr.family == AF_INET6 ? "[%s]@%u" : "%s@%u", address,
	        c->options.server.port);
	return 0;
}

static int one_option(struct load_command *c, struct names_wanted *w, int option, char *value)
{
	struct load_options *o = &c->options;
	const uint64_t longest_ns = (uint64_t)PACE_SECONDS_MAX * 1000000000;

	switch (option) {
	case 's':
		return server_set(c, value);
	case 'r':
		return o->is_flood ? number(&o->rate, "rate", value, 1, PACE_RATE_MAX)
		                   : wrong("--rate belongs to flood; latency is a closed loop");
	case 'd':
		return duration(&o->duration_ns, "duration", value, longest_ns);
	case 'c':
		return number(&o->count, "count", value, 1, (uint64_t)PACE_RATE_MAX * PACE_SECONDS_MAX);
	case 'k':
		return number_unsigned(&o->in_flight, o->is_flood ? "window" : "in-flight", value, 1, LOAD_IN_FLIGHT_MAX);
	case 'w':
		return duration(&o->timeout_ns, "timeout", value, 60000000000);
	case 't':
		o->tcp_percent = 100;
		return 0;
	case 'T':
		return number_unsigned(&o->tcp_percent, "tcp-share", value, 0, 100);
	case 'C':
		return number_unsigned(&o->connections, "connections", value, 1, LOAD_CONNECTIONS_MAX);
	case 'P':
		return number_unsigned(&o->pipeline, "pipeline", value, 1, LOAD_PIPELINE_MAX);
	case 'U':
		return number_unsigned(&o->reuse, "reuse", value, 0, 1000000000);
	case 'S':
		return number_unsigned(&o->sources, "sources", value, 1, LOAD_SOURCES_MAX);
	case 'n':
	case 'f':
		return want_names(w, value, option == 'f');
	case 'm':
		return want_mix(w, value);
	case 'o':
		w->is_ordered = true;
		return 0;
	case 'y':
		w->type = type_from_text(value, strlen(value));
		return w->type ? 0 : wrong("--type `%s` is not known; write A, AAAA, HTTPS… or TYPE65", value);
	case 'e':
		return number_unsigned(&o->edns, "edns", value, EDNS_LEAST, 65535);
	case 'x':
		return number(&o->seed, "seed", value, 0, UINT64_MAX);
	case 'j':
		c->is_json = true;
		return 0;
	case 'h':
		c->is_help = true;
		return 0;
	default:
		/* getopt_long has said it. */
		return NW_EMALFORMED;
	}
}

int load_command_parse(struct load_command *ret, int argc, char **argv)
{
	struct names_wanted wanted = {.type = 1};
	int option, r;

	*ret = (struct load_command){.options = defaults};
	ret->options.is_flood = !strcmp(argv[0], "flood");
	ret->options.seed = hash_seed();
	r = server_set(ret, NULL);
	optind = 0;
	while (r >= 0 && !ret->is_help && (option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		r = one_option(ret, &wanted, option, optarg);
	if (r < 0 || ret->is_help)
		return r;
	if (optind < argc)
		return wrong("`%s` is not an option; names are given with --name", argv[optind]);
	if (!ret->options.is_flood && !ret->options.in_flight)
		ret->options.in_flight = 1;
	if (!ret->options.sources)
		ret->options.sources = ret->options.is_flood ? 8 : 1;
	return names_make(ret, &wanted);
}

void load_command_free(struct load_command *c)
{
	names_free(c->names);
	c->names = NULL;
}
