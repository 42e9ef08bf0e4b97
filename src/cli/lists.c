/* SPDX-License-Identifier: GPL-3.0-or-later */
/* `list`: what the lists hold, live edits, and what a new text would change. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/table.h"

enum { DIFF_TEXT_MAX = 900 << 10 /* a request is at most 1 MiB, escapes included */, DIFF_SHOWN = 20 };

void print_lists(FILE *out, const json_t *all)
{
	struct table t;
	size_t i;
	json_t *l;
	char age[WORDS_MAX], bytes[WORDS_MAX];
	const char *const head[] = {"LIST", "FORMAT", "NAMES", "PREFIXES", "HITS", "FILES", "AGE", "EDITS", "NOT UNDERSTOOD", ""};
	table_begin(&t, "llrrrrrrrl");
	for (unsigned k = 0; k < 10; k++)
		table_cell(&t, "%s", head[k]);
	json_array_foreach(json_object_get(all, "lists"), i, l)
	{
		const json_t *text = json_object_get(l, "text");
		table_cell(&t, "%s", text_of(l, "name"));
		table_cell(&t, "%s", text_of(l, "format"));
		table_cell(&t, "%lld", (long long)int_of(l, "names"));
		table_cell(&t, "%lld", (long long)int_of(l, "prefix_ranges"));
		table_cell(&t, "%lld", (long long)int_of(l, "hits"));
		table_cell(&t, "%zu", json_array_size(json_object_get(text, "files")));
		table_cell(&t, "%s", text ? words_age(age, int_of(text, "age_s")) : "-");
		table_cell(
		        &t, "%zu", json_array_size(json_object_get(l, "added")) + json_array_size(json_object_get(l, "removed")));
		table_cell(&t, "%lld", (long long)int_of(text, "bad"));
		if (json_object_get(l, "held_why"))
			table_cell(&t, "held: %s", text_of(l, "held_why"));
		else
			table_cell(&t, "%s", json_is_true(json_object_get(l, "loaded")) ? "" : "no file yet");
	}
	table_end(&t, out, "");
	const json_t *ix = json_object_get(all, "index");
	fprintf(out, "%lld names in the index, %s\n", (long long)int_of(ix, "names"), words_bytes(bytes, int_of(ix, "bytes")));
}

static void print_text(FILE *out, const json_t *text)
{
	size_t i;
	json_t *f;
	char words[WORDS_MAX];
	json_array_foreach(json_object_get(text, "files"), i, f)
	{
		fputs("  ", out);
		put_text(out, text_of(f, "path"));
		fprintf(out, ", %s\n", words_bytes(words, int_of(f, "bytes")));
	}
	fprintf(out, "  %lld lines, %lld entries, %lld not understood; taken %s ago\n", (long long)int_of(text, "lines"),
	        (long long)int_of(text, "entries"), (long long)int_of(text, "bad"), words_age(words, int_of(text, "age_s")));
	json_array_foreach(json_object_get(text, "bad_lines"), i, f)
	{
		fputs("  not understood: ", out);
		put_text(out, text_of(f, "file"));
		fprintf(out, ":%lld: ", (long long)int_of(f, "line"));
		put_text(out, text_of(f, "text"));
		fprintf(out, " (%s)\n", text_of(f, "why"));
	}
}

void print_list(FILE *out, const json_t *l)
{
	put_text(out, text_of(l, "name"));
	fprintf(out, ": %lld names, %lld prefix ranges, format %s\n", (long long)int_of(l, "names"),
	        (long long)int_of(l, "prefix_ranges"), text_of(l, "format"));
	if (int_of(l, "rules_left_out"))
		fprintf(out, "  %lld rules are left out: too many expressions without a fixed part, or too many clients\n", (long long)int_of(l, "rules_left_out"));
	if (int_of(l, "rules_cut"))
		fprintf(out, "  %lld look-ups were judged without some of its expressions\n", (long long)int_of(l, "rules_cut"));
	if (json_object_get(l, "text"))
		print_text(out, json_object_get(l, "text"));
	else
		fputs("  no file yet\n", out);
	fprintf(out, "  last update: %lld came, %lld went; decided %lld times\n", (long long)int_of(l, "last_added"),
	        (long long)int_of(l, "last_removed"), (long long)int_of(l, "hits"));
	if (json_array_size(json_object_get(l, "added")))
		fprintf(out, "  added live: %s\n", joined(json_object_get(l, "added"), " ", ""));
	if (json_array_size(json_object_get(l, "removed")))
		fprintf(out, "  removed live: %s\n", joined(json_object_get(l, "removed"), " ", ""));
	if (json_is_false(json_object_get(l, "saved")))
		fputs("  not yet written to `state`\n", out);
	if (!json_object_get(l, "held_why"))
		return;
	fputs("HELD back: ", out);
	put_text(out, text_of(l, "held_why"));
	fputs(". The text before stays in force. Mend: mend the file, or nameway list reload ", out);
	put_text(out, text_of(l, "name"));
	fputs(" --accept\n", out);
	print_text(out, json_object_get(l, "held"));
}

static void print_entries(FILE *out, const json_t *d, const char *count, const char *entries, char sign)
{
	size_t i;
	json_t *e;
	int64_t all = int_of(d, count);
	json_array_foreach(json_object_get(d, entries), i, e)
	{
		if (i == DIFF_SHOWN)
			break;
		fprintf(out, "%c ", sign);
		put_text(out, json_string_value(e) ? json_string_value(e) : "");
		fputc('\n', out);
	}
	if (all > (int64_t)i)
		fprintf(out, "%c … and %lld more\n", sign, (long long)(all - (int64_t)i));
}

void print_diff(FILE *out, const json_t *d)
{
	put_text(out, text_of(d, "list"));
	fprintf(out, ": %lld entries would come, %lld would go\n", (long long)int_of(d, "added"),
	        (long long)int_of(d, "removed"));
	print_entries(out, d, "added", "added_entries", '+');
	print_entries(out, d, "removed", "removed_entries", '-');
	if (json_is_true(json_object_get(d, "would_be_held"))) {
		fputs("it would be held back: ", out);
		put_text(out, text_of(d, "why"));
		fputc('\n', out);
	}
}

static void print_edited(FILE *out, const json_t *j)
{
	put_text(out, text_of(j, "list"));
	bool is_add = json_object_get(j, "added");
	fprintf(out, ": %lld %s, in force now\n", (long long)int_of(j, is_add ? "added" : "removed"),
	        is_add ? "added" : "removed");
}

static void print_reloaded(FILE *out, const json_t *j)
{
	put_text(out, text_of(j, "list"));
	fputs(": ", out);
	put_text(out, text_of(j, "said")[0] ? text_of(j, "said") : "its files are in force");
	fputc('\n', out);
}

/* --- requests --- */

static int reload(struct cli *c, int argc, char **argv)
{
	const char *name = NULL;
	bool accept = false;
	for (int i = 2; i < argc; i++) {
		if (!strcmp(argv[i], "--accept"))
			accept = true;
		else if (name || argv[i][0] == '-')
			return cli_usage(c, "list reload NAME [--accept]");
		else
			name = argv[i];
	}
	if (!name)
		return cli_usage(c, "list reload NAME [--accept]");
	return cli_show(c, json_pack("{s:s, s:s, s:b}", "verb", "list-reload", "name", name, "accept", accept), print_reloaded);
}

static int edit(struct cli *c, int argc, char **argv)
{
	if (argc < 4)
		return cli_usage(c, "list %s LIST NAME…", argv[1]);
	json_t *entries = json_array();
	for (int i = 3; i < argc; i++)
		if (json_array_append_new(entries, json_string(argv[i])) < 0) {
			json_decref(entries);
			return cli_usage(c, "an entry is UTF-8 text");
		}
	return cli_show(c,
	        json_pack("{s:s, s:s, s:o}", "verb", argv[1][0] == 'a' ? "list-add" : "list-remove", "name", argv[2], "entries",
	                entries),
	        print_edited);
}

/* JSON strings are UTF-8 without NUL; what is neither can only stand in comments and lines that are not understood. */
static json_t *text_json(struct buf *b)
{
	for (size_t i = 0; i < b->len; i++)
		if (!b->bytes[i])
			b->bytes[i] = '?';
	json_t *j = json_stringn(b->len ? b->bytes : "", b->len);
	for (size_t i = 0; !j && i < b->len; i++)
		if (b->bytes[i] & 0x80)
			b->bytes[i] = '?';
	return j ? j : json_stringn(b->bytes, b->len);
}

static int diff(struct cli *c, int argc, char **argv)
{
	struct buf b;
	if (argc != 4)
		return cli_usage(c, "list diff NAME FILE");
	int fd = open(argv[3], O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return cli_usage(c, "%s: %s", argv[3], strerror(errno));
	buf_init(&b, DIFF_TEXT_MAX);
	int r = buf_read_fd(&b, fd);
	close(fd);
	if (r < 0) {
		buf_free(&b);
		return r == NW_ETOOLONG ? cli_usage(c,
		                                  "%s is larger than %d KiB, more than a request carries. Mend: put it in place "
		                                  "and `nameway list reload %s`; an update "
		                                  "that shrinks the list too far is held",
		                                  argv[3], DIFF_TEXT_MAX >> 10, argv[2])
		                        : cli_usage(c, "%s: %s", argv[3], nw_strerror(r));
	}
	json_t *path = json_string(argv[3]);
	json_t *request = json_pack("{s:s, s:s, s:o, s:o}", "verb", "list-diff", "name", argv[2], "text", text_json(&b), "path",
	        path ? path : json_string("FILE"));
	buf_free(&b);
	return cli_show(c, request, print_diff);
}

int cli_list(struct cli *c, int argc, char **argv)
{
	if (argc == 1)
		return cli_show(c, json_pack("{s:s}", "verb", "list"), print_lists);
	if (!strcmp(argv[1], "reload"))
		return reload(c, argc, argv);
	if (!strcmp(argv[1], "add") || !strcmp(argv[1], "remove"))
		return edit(c, argc, argv);
	if (!strcmp(argv[1], "diff"))
		return diff(c, argc, argv);
	if (argc != 2 || argv[1][0] == '-')
		return cli_usage(c, "list [NAME] | list reload|add|remove|diff …; see nameway list --help");
	return cli_show(c, json_pack("{s:s, s:s}", "verb", "list", "name", argv[1]), print_list);
}
