/* SPDX-License-Identifier: GPL-3.0-or-later */
/* namewayd: what the command line asks for. */
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/err.h"
#include "base/log.h"
#include "config/config.h"
#include "config/schema.h"
#include "daemon/last_good.h"
#include "daemon/parent.h"
#include "steer/enforcer.h"

static int usage(FILE *to)
{
	fputs("usage: namewayd -c FILE            run in the foreground\n"
	      "       namewayd -c FILE --check    validate the configuration and say what this machine lacks\n"
	      "       namewayd -c FILE --guard    only install the closing rules (before the network is up)\n"
	      "       namewayd -c FILE --clear    remove every trace of nameway from the kernel\n"
	      "       namewayd --print-reference  every configuration key, as Markdown\n"
	      "       namewayd --version\n", to);
	return to == stderr ? 2 : 0;
}

static int load(const char *path, struct config **ret, struct report *r)
{
	struct buf bundle;
	int rc = config_bundle_read(&bundle, path, r);
	if (rc == 0)
		rc = config_parse(ret, bundle.bytes, bundle.len, r);
	buf_free(&bundle);
	return rc;
}

static void print_report(const struct report *r)
{
	if (r->text.len)
		fputs(r->text.bytes, stderr);
}

static int check(const char *path)
{
	struct report r;
	struct config *c = NULL;
	report_init(&r);
	if (load(path, &c, &r) == 0)
		config_check_system(c, &r);
	print_report(&r);
	bool is_good = c && !r.errors;
	if (is_good)
		printf("%s is valid%s\n", path, r.warnings ? ", with warnings" : "");
	config_free(c);
	report_free(&r);
	return is_good ? 0 : 2;
}

/* --guard and --clear go by the last good configuration when the file is broken: what stands in the kernel came from it. */
static int touch_kernel(const char *path, bool is_guard)
{
	struct report r;
	struct buf bundle;
	struct config *c = NULL;
	bool is_old;
	if (last_good_or_file(path, &bundle, &c, &is_old) < 0)
		return 2;
	if (!is_guard && control_is_answered(c->server.control)) {
		log_error("namewayd is running and answers on %s: nothing was cleared. Mend: stop it first", c->server.control);
		config_free(c);
		buf_free(&bundle);
		return 1;
	}
	report_init(&r);
	int dir = open(c->server.state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int state = dir >= 0 ? openat(dir, "enforcer", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	int code = (is_guard ? enforcer_guard(c, &r) : enforcer_clear(c, state, &r)) < 0 ? 1 : 0;
	if (state >= 0)
		close(state);
	if (dir >= 0)
		close(dir);
	print_report(&r);
	config_free(c);
	buf_free(&bundle);
	report_free(&r);
	return code;
}

int main(int argc, char **argv)
{
	enum { RUN, CHECK, GUARD, CLEAR, REFERENCE, VERSION, HELP };
	static const struct option options[] = { { "config", required_argument, NULL, 'c' }, { "check", no_argument, NULL, 1000 + CHECK }, { "guard", no_argument, NULL, 1000 + GUARD },
		{ "clear", no_argument, NULL, 1000 + CLEAR }, { "print-reference", no_argument, NULL, 1000 + REFERENCE }, { "version", no_argument, NULL, 1000 + VERSION },
		{ "help", no_argument, NULL, 1000 + HELP }, { 0 } };
	const char *path = NULL;
	int what = RUN;
	for (int o; (o = getopt_long(argc, argv, "c:h", options, NULL)) >= 0;)
		if (o == 'c')
			path = optarg;
		else if (o == 'h')
			what = HELP;
		else if (o > 1000)
			what = o - 1000;
		else
			return usage(stderr);
	log_init("namewayd", LOG_L_INFO);
	if (what == HELP)
		return usage(stdout);
	if (what == VERSION)
		return printf("nameway %s\n", NAMEWAY_VERSION) < 0;
	if (what == REFERENCE) {
		schema_print_reference(stdout);
		return 0;
	}
	if (!path || optind < argc)
		return usage(stderr);
	switch (what) {
	case CHECK: return check(path);
	case GUARD: return touch_kernel(path, true);
	case CLEAR: return touch_kernel(path, false);
	default: return parent_main(path);
	}
}
