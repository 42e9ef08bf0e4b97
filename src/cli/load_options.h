/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The command line of `nameway load latency|flood`. */
#pragma once
#include "cli/load_run.h"

struct load_command {
	struct load_options options;
	struct names *names; /* heap; load_command_free */
	const char *asked;   /* the first --name or --names, for the report; points into argv */
	char server[ADDR_TEXT_MAX + 16];
	bool is_json, is_help;
};

/* argv[0] is "latency" or "flood". 0, or NW_EMALFORMED when it has said on standard error what is wrong. ret->names is to be
 * freed in either case. */
int load_command_parse(struct load_command *ret, int argc, char **argv);
void load_command_free(struct load_command *c);

/* "10s", "500ms", "90", "2m" in nanoseconds. 0 or NW_EMALFORMED. */
int load_duration_parse(uint64_t *ret_ns, const char *text);
/* Cuts a ":WEIGHT" off the end of a --name or --names value. 1 when there is none, 0 for a weight that is none. */
unsigned load_weight_cut(char *text);
