/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `nameway load latency|flood`: the load generator. It talks DNS to any server and nothing to our daemon. */
#pragma once

/* argv[0] is "load". Prints to standard output, errors to standard error. Returns the exit code: 0 when at least one query was
 * answered, 1 when none was or the run could not be made, 2 for a bad command line. */
int cli_load(int argc, char **argv);
