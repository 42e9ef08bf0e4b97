/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/cli.h"

int main(int argc, char **argv)
{
	struct cli c = {.out = stdout, .err = stderr};
	int r = cli_run(&c, argc, argv);
	/* An answer that could not be written whole is no success. */
	if (fflush(stdout) == EOF && !r)
		r = EXIT_NO;
	return r;
}
