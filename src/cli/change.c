/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `reload` and `check`. */
#include <string.h>
#include "cli/cli.h"
#include "cli/table.h"
#include "config/config.h"

/* What the parent answers is text for people already. */
void print_said(FILE *out, const json_t *j)
{
	const char *text = json_is_string(j) ? json_string_value(j) : text_of(j, "said");
	fputs(text[0] ? text : "done", out);
	if (!text[0] || text[strlen(text) - 1] != '\n')
		fputc('\n', out);
}

int cli_reload(struct cli *c, int argc, char **argv)
{
	if (argc > 1)
		return cli_usage(c, "reload takes no `%s`", argv[1]);
	return cli_show(c, json_pack("{s:s}", "verb", "reload"), print_said);
}

static void print_report(struct cli *c, const char *path, const struct report *r)
{
	if (c->wants_json) {
		json_t *text = json_string(r->text.len ? r->text.bytes : "");
		json_t *j = json_pack("{s:b, s:i, s:i, s:o}", "ok", !r->errors, "errors", (int)r->errors, "warnings",
		        (int)r->warnings, "report", text ? text : json_string("the report is no UTF-8 text"));
		json_dumpf(j, c->out, JSON_INDENT(2));
		fputc('\n', c->out);
		json_decref(j);
		return;
	}
	if (r->text.len)
		fwrite(r->text.bytes, 1, r->text.len, c->out);
	if (r->errors)
		fprintf(c->out, "%s: %u errors\n", path, r->errors);
	else
		fprintf(c->out, "%s is valid%s\n", path, r->warnings ? ", with warnings" : "");
}

int cli_check(struct cli *c, int argc, char **argv)
{
	struct report r;
	struct buf bundle;
	struct config *config = NULL;
	if (argc != 2)
		return cli_usage(c, "check FILE");
	report_init(&r);
	int rc = config_bundle_read(&bundle, argv[1], &r);
	if (rc == 0)
		rc = config_parse(&config, bundle.bytes, bundle.len, &r);
	if (rc == 0)
		config_check_system(config, &r);
	print_report(c, argv[1], &r);
	rc = rc < 0 || r.errors ? EXIT_USAGE : 0;
	config_free(config);
	buf_free(&bundle);
	report_free(&r);
	return rc;
}
