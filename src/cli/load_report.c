/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The figures of a run. Loss is everything that was offered and not answered, also what the generator itself did not send; that
 * part is named, so that nobody takes it for the server's. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include "cli/load_report.h"

enum { WORST_SHOWN = 3 };

static const struct {
	const char *text, *key;
	double share;
} quantiles[] = {{"median", "median", 0.5}, {"p90", "p90", 0.9}, {"p99", "p99", 0.99}, {"p99.9", "p99_9", 0.999}};
enum { QUANTILES = sizeof(quantiles) / sizeof(quantiles[0]) };

static const char *const rcode_names[LOAD_RCODES] = {"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED",
        "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH", "NOTZONE", "DSOTYPENI", "RCODE12", "RCODE13", "RCODE14", "RCODE15"};

static double us(uint64_t ns)
{
	return (double)ns / 1000;
}

static double lost_percent(const struct load_result *r)
{
	return r->offered ? 100.0 * (double)(r->lost + r->unsent) / (double)r->offered : 0;
}

static double per_second(const struct load_result *r, uint64_t count)
{
	return r->elapsed_ns ? (double)count * 1e9 / (double)r->elapsed_ns : 0;
}

static double mean_us(const struct histogram *h)
{
	return h->count ? us(h->sum_ns / h->count) : 0;
}

/* A second is worse when it lost more, then when its slowest answer was slower. */
static bool is_worse(const struct load_second *a, const struct load_second *b)
{
	return a->lost != b->lost ? a->lost > b->lost : a->max_ns > b->max_ns;
}

/* Numbers of the worst seconds, worst first. Returns how many. */
static unsigned worst_seconds(const struct load_result *r, unsigned worst[WORST_SHOWN])
{
	unsigned count = 0;

	for (unsigned i = 0; i < r->seconds; i++) {
		unsigned at = count < WORST_SHOWN ? count++ : WORST_SHOWN;

		if (!r->second[i].offered) {
			count -= at < WORST_SHOWN;
			continue;
		}
		for (; at > 0 && is_worse(&r->second[i], &r->second[worst[at - 1]]); at--)
			if (at < WORST_SHOWN)
				worst[at] = worst[at - 1];
		if (at < WORST_SHOWN)
			worst[at] = i;
	}
	return count;
}

static void print_transport(const struct load_options *o)
{
	if (o->tcp_percent < 100)
		printf("UDP from %u socket%s", o->sources, o->sources == 1 ? "" : "s");
	if (o->tcp_percent > 0 && o->tcp_percent < 100)
		printf(" and for %u %% ", o->tcp_percent);
	if (o->tcp_percent)
		printf("TCP on %u connection%s of up to %u queries", o->connections, o->connections == 1 ? "" : "s", o->pipeline);
}

static void print_heading(const struct load_command *c)
{
	const struct load_options *o = &c->options;

	if (o->is_flood)
		printf("flood of %s: %" PRIu64 " q/s", c->server, o->rate);
	else
		printf("latency of %s: %u in flight", c->server, o->in_flight);
	if (o->is_flood && o->in_flight)
		printf(", at most %u in flight", o->in_flight);
	printf(", %s%s, ", c->asked, names_count(c->names) > 1 ? " and others" : "");
	print_transport(o);
	putchar('\n');
}

static void print_latency(const struct load_options *o, const struct histogram *h)
{
	if (!h->count)
		return;
	printf("latency in us%s: min %.1f", o->is_flood ? ", from the intended time" : "", us(h->min_ns));
	for (unsigned i = 0; i < QUANTILES; i++)
		printf(", %s %.1f", quantiles[i].text, us(histogram_quantile(h, quantiles[i].share)));
	printf(", max %.1f, mean %.1f\n", us(h->max_ns), mean_us(h));
}

static void print_remarks(const struct load_options *o, const struct load_result *r)
{
	if (o->is_flood)
		printf("late sends %" PRIu64 " (more than %d us after the intended time), worst %.1f us\n", r->late_sends,
		        LOAD_LATE_NS / 1000, us(r->late_worst_ns));
	if (r->unsent)
		printf("not sent by this generator: %" PRIu64 " (counted as lost)%s\n", r->unsent,
		        o->in_flight ? "; the window was full" : "");
	if (r->own_drops)
		printf("answers dropped here, this generator being too slow: %" PRIu64 " (counted as lost)\n", r->own_drops);
	if (o->tcp_percent)
		printf("TCP: %" PRIu64 " queries on %" PRIu64 " connections, %" PRIu64 " lost to connections that were closed\n",
		        r->tcp_sent, r->connects, r->closed);
	if (r->refused)
		printf("connection refused: %" PRIu64 " times\n", r->refused);
	if (r->truncated)
		printf("truncated answers: %" PRIu64 "\n", r->truncated);
	if (r->stray)
		printf("packets that answer no query that was out: %" PRIu64 "\n", r->stray);
}

static void print_worst(const struct load_result *r)
{
	unsigned worst[WORST_SHOWN], count = worst_seconds(r, worst);

	for (unsigned i = 0; i < count; i++) {
		const struct load_second *s = &r->second[worst[i]];

		printf("%s second %u: offered %u, answered %u, lost %u, slowest %.1f us\n",
		        i ? "              " : "worst seconds:", worst[i], s->offered, s->answered, s->lost, us(s->max_ns));
	}
}

void load_report_text(const struct load_command *c, const struct load_result *r)
{
	const char *separator = "";

	print_heading(c);
	printf("offered %" PRIu64 ", sent %" PRIu64 ", answered %" PRIu64 " (%.0f/s), lost %" PRIu64 " (%.3f %%)\n", r->offered,
	        r->sent, r->answered, per_second(r, r->answered), r->lost + r->unsent, lost_percent(r));
	if (r->answered)
		printf("answers: ");
	for (unsigned i = 0; i < LOAD_RCODES; i++) {
		if (!r->rcode[i])
			continue;
		printf("%s%s %" PRIu64, separator, rcode_names[i], r->rcode[i]);
		separator = ", ";
	}
	if (r->answered)
		putchar('\n');
	print_latency(&c->options, &r->latency);
	print_remarks(&c->options, r);
	if (c->options.is_flood)
		print_worst(r);
}

static json_t *latency_json(const struct histogram *h)
{
	json_t *latency = json_pack("{s:f, s:f, s:f}", "min", us(h->min_ns), "max", us(h->max_ns), "mean", mean_us(h));

	for (unsigned i = 0; i < QUANTILES; i++)
		json_object_set_new(latency, quantiles[i].key, json_real(us(histogram_quantile(h, quantiles[i].share))));
	return latency;
}

/* How many answers took longer than so many milliseconds. */
static json_t *over_json(const struct histogram *h)
{
	static const struct {
		const char *key;
		uint64_t ms;
	} bounds[] = {{"10", 10}, {"50", 50}, {"100", 100}, {"300", 300}, {"1000", 1000}};
	json_t *over = json_object();

	for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++)
		json_object_set_new(over, bounds[i].key, json_integer((json_int_t)histogram_over(h, bounds[i].ms * 1000000)));
	return over;
}

static json_t *rcodes_json(const struct load_result *r)
{
	json_t *rcodes = json_object();

	for (unsigned i = 0; i < LOAD_RCODES; i++)
		if (r->rcode[i])
			json_object_set_new(rcodes, rcode_names[i], json_integer((json_int_t)r->rcode[i]));
	return rcodes;
}

static json_t *seconds_json(const struct load_result *r)
{
	json_t *seconds = json_array();

	for (unsigned i = 0; i < r->seconds; i++) {
		const struct load_second *s = &r->second[i];

		if (s->offered)
			json_array_append_new(
			        seconds, json_pack("{s:i, s:i, s:i, s:i, s:f}", "second", i, "offered", s->offered, "answered",
			                         s->answered, "lost", s->lost, "max_us", us(s->max_ns)));
	}
	return seconds;
}

int load_report_json(const struct load_command *c, const struct load_result *r)
{
	const struct load_options *o = &c->options;
	const struct {
		const char *key;
		uint64_t value;
	} counts[] = {{"offered", r->offered}, {"sent", r->sent}, {"answered", r->answered}, {"lost", r->lost + r->unsent},
	        {"unsent", r->unsent}, {"closed", r->closed}, {"refused", r->refused}, {"stray", r->stray},
	        {"own_drops", r->own_drops}, {"truncated", r->truncated}, {"tcp_sent", r->tcp_sent}, {"connects", r->connects},
	        {"late_sends", r->late_sends}, {"in_flight", o->in_flight}, {"tcp_percent", o->tcp_percent},
	        {"seed", o->seed & INT64_MAX}};
	json_t *root = json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:o, s:o, s:o}", "mode", o->is_flood ? "flood" : "latency",
	        "server", c->server, "asked", c->asked, "lost_percent", lost_percent(r), "answered_per_second",
	        per_second(r, r->answered), "elapsed_s", (double)r->elapsed_ns / 1e9, "late_worst_us", us(r->late_worst_ns),
	        "latency_us", latency_json(&r->latency), "over_ms", over_json(&r->latency), "rcodes", rcodes_json(r));

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		json_object_set_new(root, counts[i].key, json_integer((json_int_t)counts[i].value));
	if (o->is_flood) {
		json_object_set_new(root, "rate", json_integer((json_int_t)o->rate));
		json_object_set_new(root, "seconds", seconds_json(r));
	}
	if (!root || json_dumpf(root, stdout, JSON_INDENT(2)) < 0) {
		json_decref(root);
		return -ENOMEM;
	}
	putchar('\n');
	json_decref(root);
	return 0;
}
